/* Blocks of pools as memory regions of NVTX (ACRE_SANITIZE=1), so that compute-sanitizer finds uses
 * outside of live blocks, as with cudaMalloc.
 *
 * Without this a pool's memory is one allocation to the sanitizer. It refuses regions in mapped
 * memory, so pools use the driver's plain memory in this mode (space/chunk.h). A heap of NVTX is
 * one block of the driver, a region is one block of a pool, with the bytes as requested.
 *
 * Off, each function costs one load and one branch. Built without nvtx3/nvToolsExtMem.h, which
 * comes with the CUDA toolkit, acre refuses the mode. */
#ifndef ACRE_WATCH_REGIONS_H
#define ACRE_WATCH_REGIONS_H

#include <stdatomic.h>
#include <stddef.h>

#include "acre.h"

extern _Atomic int acre__regions_on;

static inline int acre__regions_are_on(void) {
    return (int)__builtin_expect(atomic_load_explicit(&acre__regions_on, memory_order_relaxed), 0);
}

/* Reads ACRE_SANITIZE, once. Returns ACRE_E_CONFIG if it cannot be. */
acre_status acre__regions_begin(void);

/* For all of them the context of the memory must be current.
 *
 * Registers memory that blocks come from, and ends it with all its regions. */
void acre__regions_add_heap(const void *p, size_t bytes);
void acre__regions_end_heap(const void *p);

/* A block of a registered heap is new (`before` NULL), ends (`p` NULL), has another size (the same
 * address), or has moved. Blocks outside of heaps are ignored. */
void acre__regions_change(const void *before, const void *p, size_t bytes);

#endif
