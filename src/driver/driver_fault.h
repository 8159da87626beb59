/*
 * The fault wrapper: a driver table in front of another that fails chosen calls, so that every
 * path behind a refusal of the driver can be walked in tests: for N = 1, 2, ... fail call N,
 * until a run in which nothing failed.
 *
 * A failed call does not reach the inner table and its outputs are left untouched. One plan and
 * one count serve both slots (soft and cuda), so "call N" means the N-th of the process.
 */
#ifndef ACRE_DRIVER_DRIVER_FAULT_H
#define ACRE_DRIVER_DRIVER_FAULT_H

#include <stdint.h>

#include "driver/driver.h"

enum acre__fault_mode {
    ACRE__FAULT_ONCE,  /* the n-th matching call */
    ACRE__FAULT_FROM,  /* the n-th matching call and every matching one after it */
    ACRE__FAULT_STICKY /* after the n-th matching call every call that needs a context, as when a
                          kernel has failed: what only asks about devices or about which context
                          is current goes on working */
};

struct acre__fault_plan {
    const char *entry; /* one function by its name in the list; NULL: every function */
    uint32_t nth;      /* counted from acre__fault_set, from 1; 0: count, fail nothing */
    CUresult code;     /* what the failed call returns; never CUDA_SUCCESS */
    enum acre__fault_mode mode;
};

/*
 * The table to use instead of `inner`. There are two slots, one for soft drivers and one for
 * others; wrapping another table of the same sort replaces what the slot calls, and wrapping a
 * wrapped table gives it back as it is. Lives until the process ends; NULL for NULL.
 * Threads: any; replacing an inner table while others call through it is the caller's race.
 */
const struct acre__driver *acre__fault_wrap(const struct acre__driver *inner);

/*
 * Starts a plan and counts from 0 again; NULL: no plan, everything is passed on (and counted).
 * Returns ACRE_E_INVALID for an unknown function, code or mode; the plan before then stays.
 * Threads: any. Calls that run at this moment may count for either plan.
 */
acre_status acre__fault_set(const struct acre__fault_plan *plan);

/* Calls that matched since the last acre__fault_set, failed ones included. */
uint64_t acre__fault_count(void);

/* Calls failed since the last acre__fault_set. */
uint64_t acre__fault_fired(void);

/*
 * Reads "entry:n[:mode[:code]]", e.g. "cuMemCreate:3", "*:17", "cuStreamCreate:1:from:2" or
 * "*:5:sticky:700". entry is a function or *; mode once (default), from or sticky; code a number
 * or a name such as CUDA_ERROR_OUT_OF_MEMORY (the default, 2).
 * Returns ACRE_E_CONFIG with the place in the detail; `*plan` is then untouched.
 */
acre_status acre__fault_parse(const char *spec, struct acre__fault_plan *plan);

#endif
