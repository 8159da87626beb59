/*
 * The driver table: the CUDA driver's functions as members of one struct, filled from
 * libcuda.so.1 or by the soft driver. Everything above this layer calls the driver through it
 * and nothing else, and reads like CUDA: drv->cuMemMap(...).
 *
 * Invariants: no member is ever NULL (an optional function that a driver lacks returns
 * CUDA_ERROR_NOT_SUPPORTED); a table never changes after it was handed out and lives until the
 * process ends, so it is read without a lock.
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
    int is_soft;      /* 1: addresses are those of the soft driver */

    /* 1 for an optional entry that this driver lacks. Zero, as a static initialiser leaves it,
     * means that the function is real. Ask by ACRE__DRIVER_HAS. */
    unsigned char missing[ACRE__ENTRY_COUNT];

    /* Bytes that its copies have moved since the process began (driver_count.h); NULL for a table
     * that does not count. Read by acre__driver_copied_bytes. */
    const _Atomic uint64_t *copied_bytes;

    /* Calls since the process began, refused ones too, by entry; only of those that the list has
     * counted. NULL for a table that does not count. Read by acre__driver_call_count. */
    const _Atomic uint64_t *calls;

#define ACRE__DRIVER_MEMBER(name, symbol, version, need, sticky, calls, moved, params, args)       \
    CUresult(*name) params;
    ACRE__DRIVER_LIST(ACRE__DRIVER_MEMBER)
#undef ACRE__DRIVER_MEMBER
};

/*
 * The table of libcuda.so.1, loaded by the first call and kept for the process, failure kept as
 * well. cuInit is not called here. `*out` is NULL after a failure.
 * Returns ACRE_E_NO_DRIVER when the library is absent or not a library, ACRE_E_DRIVER_OLD when
 * it lacks cuGetProcAddress or a required entry (the detail names it).
 * Threads: any, at once.
 */
acre_status acre__driver_cuda(const struct acre__driver **out);

/*
 * The loader behind it: fills `table` from the library file `library` (NULL: libcuda.so.1), kept
 * nowhere. Tests give it other libraries. After a failure the table is zeroed and the library
 * closed again; after success the library stays loaded for good.
 */
acre_status acre__driver_cuda_load(const char *library, struct acre__driver *table);

/* 1 when the entry is the driver's own function, 0 when it only returns NOT_SUPPORTED. */
int acre__driver_has(const struct acre__driver *drv, enum acre__driver_entry entry);
#define ACRE__DRIVER_HAS(drv, name) acre__driver_has((drv), ACRE__ENTRY_##name)

/* What the table's copies have moved so far, in bytes: those that the driver accepted. In the
 * header, so that tools which have a table and not the library's insides can ask. */
static inline uint64_t acre__driver_copied_bytes(const struct acre__driver *drv) {
    return drv->copied_bytes == NULL
               ? 0
               : atomic_load_explicit(drv->copied_bytes, memory_order_relaxed);
}

/* How often a counted function was called. */
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

/* The same code in our own words, e.g. "an argument is out of its range". */
const char *acre__driver_error_text(CUresult code);

#endif
