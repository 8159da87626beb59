#!/usr/bin/env bash
# scripts/rename-0.2.sed converts a program written for acre 0.1: the examples of v0.1.0
# (examples-0.1.tar.gz) build and run afterwards. Kernels are only compiled, if nvcc is installed.
set -euo pipefail

: "${ACRE_BUILD:?}"
source_dir=${ACRE_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cached() { sed -n "s/^$1:[A-Z]*=//p" "$ACRE_BUILD/CMakeCache.txt"; }
cc=$(cached CMAKE_C_COMPILER)
nvcc=$(cached ACRE_NVCC)

cd "$tmp"
tar xzf "$source_dir/tests/check/examples-0.1.tar.gz"
cp -r examples before
sed -E -i -f "$source_dir/scripts/rename-0.2.sed" examples/*

# The old names: whole words on the left side of the script's first section.
old=$(sed -nE 's/^s\/\\b([A-Za-z_]+)\\b\/.*/\1/p' "$source_dir/scripts/rename-0.2.sed" | paste -sd'|')
[ -n "$old" ] || { echo "check_rename: found no names in scripts/rename-0.2.sed"; exit 1; }
if grep -nwE "$old" examples/*; then
    echo "check_rename: these old names remain"
    exit 1
fi
grep -qwE "$old" before/* || { echo "check_rename: the examples of 0.1 have none of the old names"; exit 1; }

# Forms that the examples do not have. The expected result follows the arrow.
cat >forms <<'FORMS'
#include "acre_heap_mine.h" => #include "acre_heap_mine.h"
#include <acre_heap_pages.h> => #include <acre_heap.h>
static void tag(void *u, const acre_tag_info *i); => static int tag(void *u, const acre_tag_info *i);
static void tag(void *u, const acre_tag_info *i) { ++n; } => static int tag(void *u, const acre_tag_info *i) { ++n;  return 0; }
static void after(void) { return; } => static void after(void) { return; }
void add(void *u, void *p, size_t n) { n++; } => int add(void *u, void *p, size_t n) { n++;  return 0; }
acre_open_options open = {.soft_bytes = 1}; => acre_open_options open = {.soft_bytes = 1};
mine.hard_bytes = 1; => mine.hard_bytes = 1;
acre_pool_options pool = {.soft_bytes = 1, => acre_pool_options pool = {.soft_limit_bytes = 1,
    .hard_bytes = 2, .reserve_bytes = 3}; =>     .limit_bytes = 2, .initial_bytes = 3};
acre_vec_options *vec; vec->reserve_bytes = 4; => acre_vec_options *vec; vec->address_bytes = 4;
acre_heap_stats heap; heap.maximum_bytes; => acre_heap_stats heap; heap.limit_bytes;
acre_pool_destroy(pool, NULL, NULL); => acre_pool_destroy(pool, NULL, NULL);
acre_pool_destroy(pool, leak, &n); => acre_pool_destroy_calls_nothing_in_0_2(pool, leak, &n);
FORMS
sed 's/ => .*//' forms | sed -E -f "$source_dir/scripts/rename-0.2.sed" >forms.new
sed 's/.* => //' forms | diff - forms.new

# shellcheck source-path=SCRIPTDIR/../..
. "$source_dir/tests/support/beside.sh"
# build_and_run PROGRAM
build_and_run() {
    local program=$1 out
    out=$tmp/$(basename "$1" .c)
    "$cc" -std=gnu11 -O1 -Wall -Wextra -Werror -I "$source_dir/include" "$program" -L "$ACRE_BUILD" \
        -lacre -pthread -Wl,-rpath,"$ACRE_BUILD" -o "$out"
    ACRE_DEVICE=soft "$out" >"$out.txt" 2>&1 || { echo "$program failed:"; cat "$out.txt"; exit 1; }
}
count=0
for program in examples/*.c; do
    beside build_and_run "$program"
    count=$((count + 1))
done
kernels=0
for program in examples/*.cu; do
    if grep -q "^ACRE_NVCC_WORKS:[A-Z]*=TRUE" "$ACRE_BUILD/CMakeCache.txt" &&
        ! cmp -s "$program" "before/${program#examples/}"; then
        beside "$nvcc" -std=c++17 -arch=sm_90 -I "$source_dir/include" -ptx "$program" -o "$tmp/$kernels.ptx"
        kernels=$((kernels + 1))
    fi
done
beside_ends
echo "check_rename: $count programs converted, built and run; $kernels with kernels compiled"
