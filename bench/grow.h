/* An array that grows in one of several ways: the operations that bench_grow.c measures. */
#ifndef ACRE_BENCH_GROW_H
#define ACRE_BENCH_GROW_H

#include "bench.h"

enum grow_way {
    GROW_ACRE,       /* a vec with default options */
    GROW_NO_RESERVE, /* a vec with addresses for its first growth only; a second vec follows them */
    GROW_AHEAD,      /* a vec with a thread that maps memory ahead */
    GROW_FLOOR,      /* the driver's create, map and set access in one reservation */
    GROW_MALLOC,     /* allocate a larger block, copy, free: by cuMemAlloc */
    GROW_ASYNC,      /* as GROW_MALLOC, by cuMemAllocAsync */
    GROW_MANAGED,    /* as GROW_MALLOC, with managed memory, prefetched to the device */
    GROW_WAYS
};

enum { GROW_CHUNKS = 1024 };

/* The current array, and the state that all arrays share. */
struct grow {
    struct bench *bench;
    acre_device *device;
    const struct acre__driver *drv;
    acre_stream stream;
    acre_device_info info;
    uint64_t unit; /* all sizes are multiples of it */
    uint64_t ahead_bytes;
    /* The current array. */
    enum grow_way way;
    uint64_t bytes;
    uint64_t moves;
    acre_vec *vec, *behind;
    CUdeviceptr at;
    uint64_t reserved; /* floor: bytes of addresses reserved at `at` */
    struct {
        CUmemGenericAllocationHandle handle;
        uint64_t bytes;
    } chunks[GROW_CHUNKS];
    size_t chunk_count;
};

/* Returns the name of the way, for results. */
const char *grow_who(enum grow_way way);

/* Returns NULL, or why this device does not support the way. */
const char *grow_lacks(const struct grow *grow, enum grow_way way);

/* Returns how large an array of that way may become on this device, at most `most`. */
uint64_t grow_reach(const struct grow *grow, enum grow_way way, uint64_t most);

/* The next three return 0 on failure and call bench_blame. */

/* Starts an empty array that will grow to `most` bytes. First trims memory that earlier arrays left
 * cached. */
int grow_begin(struct grow *grow, enum grow_way way, uint64_t most);
/* Grows the array to `bytes` and waits until it can be used. *ns gets the time. */
int grow_to(struct grow *grow, uint64_t bytes, double *ns);
int grow_end(struct grow *grow);

#endif
