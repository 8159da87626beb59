/*
 * The fault wrapper: a driver table in front of another one that fails chosen calls. With it tests
 * reach every error path behind a driver call: they fail call N for N = 1, 2, ..., until a run in
 * which nothing failed.
 *
 * A failed call does not reach the inner table and leaves its outputs untouched. One plan and one
 * count serve both slots (soft and cuda), so "call N" means the N-th call of the process.
 */
#ifndef ACRE_DRIVER_DRIVER_FAULT_H
#define ACRE_DRIVER_DRIVER_FAULT_H

#include <stdint.h>

#include "driver/driver.h"

enum acre__fault_mode {
    ACRE__FAULT_ONCE,  /* the n-th matching call */
    ACRE__FAULT_FROM,  /* the n-th matching call and every matching one after it */
    ACRE__FAULT_STICKY /* the n-th matching call and then every call that needs a context, as after
                          a failed kernel: calls marked SURVIVES in driver_list.h still work */
};

struct acre__fault_plan {
    const char *entry; /* one function, by its name in the list; NULL: every function */
    uint32_t nth;      /* counts from 1 at acre__fault_set; 0: count, fail nothing */
    CUresult code;     /* result of a failed call; never CUDA_SUCCESS */
    enum acre__fault_mode mode;
};

/*
 * Returns the table to use instead of `inner`; NULL for NULL. There are two slots, one for soft
 * drivers and one for others. Wrapping a second table of the same kind replaces the slot's inner
 * table. Wrapping a wrapped table returns it unchanged. The table lives until the process ends.
 * Threads: any; the caller must not replace an inner table while other threads call through it.
 */
const struct acre__driver *acre__fault_wrap(const struct acre__driver *inner);

/*
 * Starts a plan and resets the counts to 0. NULL: no plan; every call is passed on and counted.
 * Returns ACRE_E_INVALID for an unknown function, code or mode; the old plan then stays.
 * Threads: any. Calls in flight may count for either plan.
 */
acre_status acre__fault_set(const struct acre__fault_plan *plan);

/* Calls that matched since the last acre__fault_set, failed ones included. */
uint64_t acre__fault_count(void);

/* Calls failed since the last acre__fault_set. */
uint64_t acre__fault_fired(void);

/*
 * Parses "entry:n[:mode[:code]]", e.g. "cuMemCreate:3", "*:17", "cuStreamCreate:1:from:2" or
 * "*:5:sticky:700". entry is a function or *; mode is once (default), from or sticky; code is a
 * number or a name such as CUDA_ERROR_OUT_OF_MEMORY (the default, 2). Returns ACRE_E_CONFIG with
 * the bad part in the detail; `*plan` is then untouched.
 */
acre_status acre__fault_parse(const char *spec, struct acre__fault_plan *plan);

#endif
