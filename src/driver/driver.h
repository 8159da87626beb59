/*
 * The driver table: the CUDA driver's functions as members of one struct, filled from libcuda.so.1
 * or by the soft driver. All layers above call the driver only through it, in a form that reads
 * like CUDA: drv->cuMemMap(...).
 *
 * Invariants: no member is ever NULL; an optional function that a driver lacks returns
 * CUDA_ERROR_NOT_SUPPORTED. A table never changes after it was returned and lives until the process
 * ends, so callers read it without a lock.
 *
 * Relies on: cuda_abi.h for types, driver_list.h for the list, acre.h for acre_status.
 */
#ifndef ACRE_DRIVER_DRIVER_H
#define ACRE_DRIVER_DRIVER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "acre.h"

#include "driver/cuda_abi.h"
#include "driver/driver_list.h"

/* One number per function, in the order of the list: ACRE__ENTRY_cuInit, ... */
enum acre__driver_entry {
#define ACRE__DRIVER_ENTRY(name, symbol, version, need, sticky, calls, moved, params, args)        \
    ACRE__ENTRY_##name,
    ACRE__DRIVER_LIST(ACRE__DRIVER_ENTRY)
#undef ACRE__DRIVER_ENTRY
        ACRE__ENTRY_COUNT
};

struct acre__driver {
    const char *name; /* "cuda", "soft"; static text */
    int is_soft;      /* 1: the table of the soft driver */

    /* 1 for an optional entry that this driver lacks. Zero, the value of a static initialiser,
     * means that the driver has the function. Query it with ACRE__DRIVER_HAS. */
    unsigned char missing[ACRE__ENTRY_COUNT];

    /* Bytes copied since the process started (driver_count.h); NULL for a table that does not
     * count. Read it with acre__driver_copied_bytes. */
    const _Atomic uint64_t *copied_bytes;

    /* Calls since the process started, by entry, including failed ones; only for entries marked
     * COUNTED in the list. NULL for a table that does not count. Read it with
     * acre__driver_call_count. */
    const _Atomic uint64_t *calls;

#define ACRE__DRIVER_MEMBER(name, symbol, version, need, sticky, calls, moved, params, args)       \
    CUresult(*name) params;
    ACRE__DRIVER_LIST(ACRE__DRIVER_MEMBER)
#undef ACRE__DRIVER_MEMBER
};

/*
 * Returns the table of libcuda.so.1. The first call loads it; the process keeps the result, also a
 * failure. Does not call cuInit. `*out` is NULL after a failure. Returns ACRE_E_NO_DRIVER when the
 * library is absent or not a library, ACRE_E_DRIVER_OLD when it lacks cuGetProcAddress or a
 * required entry (the detail names it).
 * Threads: any, concurrently.
 */
acre_status acre__driver_cuda(const struct acre__driver **out);

/*
 * Makes acre__driver_cuda return a copy of this table instead of the library's. For the shim, whose
 * hooks a look-up of names would find. Call it before the first acre__driver_cuda.
 */
void acre__driver_cuda_use(const struct acre__driver *table);

/*
 * Fills `table` from the library file `library` (NULL: libcuda.so.1); acre__driver_cuda uses it,
 * and tests pass other libraries. Keeps no state. After a failure the table is zeroed and the
 * library closed. After success the library stays loaded until the process ends.
 */
acre_status acre__driver_cuda_load(const char *library, struct acre__driver *table);

/* 1 when the driver has the function, 0 when the entry only returns CUDA_ERROR_NOT_SUPPORTED. */
int acre__driver_has(const struct acre__driver *drv, enum acre__driver_entry entry);
#define ACRE__DRIVER_HAS(drv, name) acre__driver_has((drv), ACRE__ENTRY_##name)

/* Bytes that the table's copies have moved so far; counts only copies that the driver accepted. In
 * the header, so that tools that have a table but no access to internal symbols can read it. */
static inline uint64_t acre__driver_copied_bytes(const struct acre__driver *drv) {
    return drv->copied_bytes == NULL
               ? 0
               : atomic_load_explicit(drv->copied_bytes, memory_order_relaxed);
}

/* Number of calls of a counted function. */
static inline uint64_t acre__driver_call_count(const struct acre__driver *drv,
                                               enum acre__driver_entry entry) {
    return drv->calls == NULL ? 0 : atomic_load_explicit(&drv->calls[entry], memory_order_relaxed);
}

/* "cuMemMap" for ACRE__ENTRY_cuMemMap; NULL for a number outside the list. */
const char *acre__driver_entry_name(enum acre__driver_entry entry);

/* The entry of that exact name, or ACRE__ENTRY_COUNT when there is none. */
enum acre__driver_entry acre__driver_entry_find(const char *name);

/* "CUDA_ERROR_INVALID_VALUE" for 1; "CUDA_ERROR_?" for a code that this acre does not know. */
const char *acre__driver_error_name(CUresult code);

/* acre's text for a result code, e.g. "an argument is out of range". */
const char *acre__driver_error_text(CUresult code);

#endif
