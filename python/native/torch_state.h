/* The state of libacre_torch.so, for its own files.
 *
 * acre_torch__lock guards everything that is not atomic. It is taken before acre's own locks, and
 * never on the fast path of acre_torch_alloc and acre_torch_free. */
#ifndef ACRE_TORCH_STATE_H
#define ACRE_TORCH_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "torch_plug.h"

enum { TORCH_DEVICES = 64, TORCH_TAG_BYTES = 256, TORCH_NONE = -1 };

/* PyTorch rounds to this, and libraries have come to rely on the alignment. */
#define TORCH_ROUND ((size_t)512)

struct torch_sum {
    _Atomic uint64_t added, removed; /* since the start */
    _Atomic uint64_t peak;           /* of the difference, since the last reset */
    uint64_t added_base, removed_base;
};

struct torch_device {
    _Atomic(acre_pool *) pool; /* the default pool; NULL until the device is open */
    acre_device *device;
    uint64_t total_bytes;         /* of the device */
    _Atomic uint64_t limit_bytes; /* of set_per_process_memory_fraction; 0: none */
    struct torch_sum allocated, requested, blocks;
    _Atomic uint64_t failures, recorded, late_frees;
    uint64_t failures_base;
    uint64_t held_peak;  /* seen since the last reset */
    uint64_t peak_known; /* the pool's own high-water mark at the last reset */
};

/* A part of the work of torch_plug.c that only some allocations need. While the count is 0 and the
 * thread is in no region, allocations go straight to the default pool. */
extern _Atomic int acre_torch__special;

extern pthread_mutex_t acre_torch__lock;

/* Returns an open device, which it opens if needed; NULL after a failure, with *status. */
struct torch_device *acre_torch__device(int device, acre_status *status);
/* Returns the device, or NULL if it is not open. */
struct torch_device *acre_torch__opened(int device);
/* Returns 1 in a child that was forked after a device was opened. */
int acre_torch__is_forked(void);

/* Waits for the device, for a free whose stream was destroyed. */
acre_status acre_torch__wait(struct torch_device *at);

/* torch_limits.c */

/* Sets the margin on a device that has just been opened, if there is one. */
void acre_torch__limits_begin(const struct torch_device *at);
/* Returns which setting made the limit that the detail of a refusal names, or "". */
const char *acre_torch__limits_origin(const struct torch_device *at, const char *detail);

/* torch_regions.c */

/* Returns the region of the calling thread, or TORCH_NONE. */
int acre_torch__thread_region(void);
/* Returns 1 if the thread has entered a region, or none explicitly. */
int acre_torch__in_region(void);
/* Lock held: returns the region that serves a stream for threads in no region, or TORCH_NONE. */
int acre_torch__stream_region(int device, acre_stream stream);
/* Allocates in a region, under its tag. */
acre_status acre_torch__region_alloc(int region, const struct torch_device *at, int device,
                                     size_t bytes, acre_stream stream, void **p);
/* Calls `fn` for the default pool and the regions' pools of an open device. The lock is not held.
 */
void acre_torch__pools_each(int device, void (*fn)(acre_pool *pool, void *user), void *user);
/* Of the default pool and the regions' pools of an open device: returns what they hold, and
 * releases what is free. The lock is not held. */
uint64_t acre_torch__pools_held(int device);
void acre_torch__pools_trim(int device);

/* torch_captures.c */

/* Before an allocation from `pool`: lets a capture of the stream share memory as PyTorch asked. */
void acre_torch__capture_bind(int device, acre_stream stream, acre_pool *pool);
/* Frees the memory of pools that PyTorch released, unless a capture is in progress. */
void acre_torch__captures_settle(void);

/* torch_uses.c */

/* Before a free: tells the pool which other streams use the block, or waits for them. After a
 * failure the block must not be freed: a stream may still use it. */
acre_status acre_torch__uses_apply(void *p, int device, acre_stream stream);

#endif
