# Converts a program written for acre 0.1 to the names of 0.2 (CHANGELOG.md lists them):
#
#   sed -E -i -f scripts/rename-0.2.sed *.c *.h *.cu
#
# Then build it with -Werror=incompatible-pointer-types. Removed names do not compile, so the
# compiler finds what sed cannot see: a call or a function over several lines, or options set far
# from their declaration.

# ---- functions and types ----
s/\bacre_strstatus\b/acre_status_text/g
s/\bacre_get_stats\b/acre_device_get_stats/g
s/\bacre_stats\b/acre_device_stats/g
s/\bACRE_STATS_LIST\b/ACRE_DEVICE_STATS_LIST/g
s/\bacre_heap_limit_get\b/acre_heap_get_limit/g
s/\bacre_heap_limit_set\b/acre_heap_set_limit/g
s/\bacre_pool_block_fn\b/acre_pool_walk_fn/g
s/\bacre_tag_fn\b/acre_tag_walk_fn/g
s/\bacre_plan_wish_fn\b/acre_plan_walk_fn/g

# A callback for leaks: call acre_pool_walk with it before the pool is destroyed.
/\bacre_pool_destroy\([^,]*, *(NULL|nullptr|0) *,/! s/\bacre_pool_destroy\(([^,()]*,[^,]*[a-z])/acre_pool_destroy_calls_nothing_in_0_2(\1/

# ---- headers ----
s/(#[[:space:]]*include[[:space:]]*[<"])acre_(limits|plan)\.h([>"])/\1acre.h\3/
s/(#[[:space:]]*include[[:space:]]*[<"])acre_heap_(base|blocks|debug|dropin|host|layout|pages|plain|slab)\.h([>"])/\1acre_heap.h\3/

# ---- fields ----

# The last named struct decides; the hold space keeps its name.
/\bacre_(pool|vec|open|heap)_(options|stats)\b/ {
    h
    s/.*\bacre_(pool|vec|open|heap)_(options|stats)\b.*/\1/
    x
}
/(\.|->)(reserve|soft|hard|maximum)_bytes\b/ {
    x
    /^pool$/ {
        x
        s/(\.|->)reserve_bytes\b/\1initial_bytes/g
        s/(\.|->)soft_bytes\b/\1soft_limit_bytes/g
        s/(\.|->)hard_bytes\b/\1limit_bytes/g
        x
    }
    /^vec$/ {
        x
        s/(\.|->)reserve_bytes\b/\1address_bytes/g
        x
    }
    /^heap$/ {
        x
        s/(\.|->)maximum_bytes\b/\1limit_bytes/g
        x
    }
    x
}

# ---- callbacks of a walk: return 0 to continue. Declared; on one line; on several ----
s/^((static |inline )*)void ([A-Za-z_0-9]+\(void \*[A-Za-z_0-9]*, (const acre_(plan_placed|tag_info) \*[A-Za-z_0-9]*|void \*[A-Za-z_0-9]*, size_t [A-Za-z_0-9]*)\));$/\1int \3;/
s/^((static |inline )*)void ([A-Za-z_0-9]+\(void \*[A-Za-z_0-9]*, (const acre_(plan_placed|tag_info) \*[A-Za-z_0-9]*|void \*[A-Za-z_0-9]*, size_t [A-Za-z_0-9]*)\)) *\{(.*)\}$/\1int \3 {\6 return 0; }/
/^((static |inline )*)void ([A-Za-z_0-9]+\(void \*[A-Za-z_0-9]*, (const acre_(plan_placed|tag_info) \*[A-Za-z_0-9]*|void \*[A-Za-z_0-9]*, size_t [A-Za-z_0-9]*)\)) *\{$/,/^}/ {
    s/^((static |inline )*)void /\1int /
    s/\breturn;/return 0;/
    s/^}/    return 0;\n}/
}
