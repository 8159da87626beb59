/* An array that grows, by each of the ways that there are: what the cases of bench_grow.c time. */
#ifndef ACRE_BENCH_GROW_H
#define ACRE_BENCH_GROW_H

#include "bench.h"

enum grow_way {
    GROW_ACRE,       /* a vec with default options */
    GROW_NO_RESERVE, /* with addresses for its first growth alone, and another vec behind them */
    GROW_AHEAD,      /* with a thread that maps ahead */
    GROW_FLOOR,      /* the driver's create, map and set access in one reservation */
    GROW_MALLOC,     /* a larger block, a copy, a free */
    GROW_ASYNC,      /* the same by the driver's stream-ordered calls */
    GROW_MANAGED,    /* the same with managed memory, prefetched to the device */
    GROW_WAYS
};

enum { GROW_CHUNKS = 1024 };

/* One array under way, and what all of them need. */
struct grow {
    struct bench *bench;
    acre_device *device;
    const struct acre__driver *drv;
    acre_stream stream;
    acre_device_info info;
    uint64_t unit; /* what sizes are multiples of */
    uint64_t ahead_bytes;
    /* The array. */
    enum grow_way way;
    uint64_t bytes;
    uint64_t moves;
    acre_vec *vec, *behind;
    CUdeviceptr at;
    uint64_t reserved; /* bytes of addresses at `at`, for the floor */
    struct {
        CUmemGenericAllocationHandle handle;
        uint64_t bytes;
    } chunks[GROW_CHUNKS];
    size_t chunk_count;
};

/* What is printed. */
const char *grow_who(enum grow_way way);

/* NULL, or why this device cannot do it that way. */
const char *grow_lacks(const struct grow *grow, enum grow_way way);

/* How large an array of that way may become here, at most `most`. */
uint64_t grow_reach(const struct grow *grow, enum grow_way way, uint64_t most);

/* An empty array that will have `most` bytes in the end; whatever earlier ones left cached is given
 * back first. Each returns 0 when something was refused, and has told whose call that was. */
int grow_begin(struct grow *grow, enum grow_way way, uint64_t most);
/* Makes it `bytes` long and waits until it can be used; *ns is what that took. */
int grow_to(struct grow *grow, uint64_t bytes, double *ns);
int grow_end(struct grow *grow);

#endif
