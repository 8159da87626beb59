/*
 * Counts copied bytes and calls for physical memory: see driver_count.h.
 *
 * The counting functions are generated from driver_list.h, once for each slot. The additions are
 * relaxed: readers only compare a sum with an earlier value of itself.
 *
 * Invariant: the functions of a slot are reachable only through a table whose original functions
 * are in that slot. Locks: none; a slot is filled before its table is returned.
 */
#include "driver/driver_count.h"

static struct {
    struct acre__driver own; /* the driver's original functions; only the counted ones are called */
    _Atomic uint64_t bytes;
    _Atomic uint64_t calls[ACRE__ENTRY_COUNT];
} count_slots[2];

/* The values of the list's column `calls`. */
enum { PLAIN, COUNTED };

/* The condition on `moved` is true for copies only. For other functions it is false without
 * evaluating a parameter. */
#define COUNT_FUNCTION(slot, name, counts, moved, params, args)                                    \
    static CUresult count_##slot##_##name params {                                                 \
        if ((counts) == COUNTED)                                                                   \
            atomic_fetch_add_explicit(&count_slots[slot].calls[ACRE__ENTRY_##name], 1,             \
                                      memory_order_relaxed);                                       \
        CUresult code = count_slots[slot].own.name args;                                           \
        if (sizeof #moved > sizeof "0" && code == CUDA_SUCCESS)                                    \
            atomic_fetch_add_explicit(&count_slots[slot].bytes, (moved), memory_order_relaxed);    \
        return code;                                                                               \
    }
#define COUNT_FUNCTION_0(name, symbol, version, need, sticky, calls, moved, params, args)          \
    COUNT_FUNCTION(0, name, calls, moved, params, args)
#define COUNT_FUNCTION_1(name, symbol, version, need, sticky, calls, moved, params, args)          \
    COUNT_FUNCTION(1, name, calls, moved, params, args)
ACRE__DRIVER_LIST(COUNT_FUNCTION_0)
ACRE__DRIVER_LIST(COUNT_FUNCTION_1)

#define COUNT_REPLACE(name, symbol, version, need, sticky, calls, moved, params, args)             \
    if ((calls) == COUNTED || sizeof #moved > sizeof "0")                                          \
        table->name = slot ? count_1_##name : count_0_##name;

void acre__driver_count(struct acre__driver *table) {
    int slot = table->is_soft != 0;

    if (table->copied_bytes != NULL)
        return;
    count_slots[slot].own = *table;
    ACRE__DRIVER_LIST(COUNT_REPLACE)
    table->copied_bytes = &count_slots[slot].bytes;
    table->calls = count_slots[slot].calls;
}
