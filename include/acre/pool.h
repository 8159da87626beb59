/* Pools: allocation in stream order. Part of acre.h. */
#ifndef ACRE_POOL_H
#define ACRE_POOL_H

#include "mem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A pool allocates blocks of one kind of memory in tens of nanoseconds, and frees them in stream
 * order: work queued on the stream before the free may still use the block. The same stream may
 * reuse the memory at once. Another stream gets the memory when that work is done. If memory is
 * short, the pool may give it to another stream earlier, and makes that stream wait for the work.
 *
 * A block belongs to the stream that it was allocated for. Another stream may use the block after
 * it has waited for that stream (acre_stream_wait). Before the block is freed, the freeing stream
 * must wait for all other streams that use it, or the program must call acre_pool_record_use for
 * them.
 *
 * A call that hits the thread's cache takes no lock and does not wait. Its only driver calls query
 * the stream: whether it is captured, and, for a stream created with CUDA, its id. Addresses are
 * multiples of 256, and of 512 for blocks of more than 256 bytes. Rounding adds at most 511 bytes
 * to a request of up to 4 KiB, an eighth up to 512 KiB, and 1/64 beyond; a larger alignment may add
 * more. Any thread may free a block that another thread allocated. */
typedef struct acre_pool acre_pool;

/* Allocates device memory from the device's default pool. Otherwise like acre_pool_alloc. */
ACRE_API acre_status acre_alloc(acre_device *device, size_t bytes, acre_stream stream, void **p);

/* Frees a block of any pool in stream order. NULL is a no-op. Otherwise like acre_pool_free.
 * Returns ACRE_E_KIND for memory of acre that belongs to no pool; the detail names the call that
 * frees it. */
ACRE_API acre_status acre_free(void *p, acre_stream stream);

#define ACRE_POOL_ZERO 1u  /* zeroes every block in stream order when it is allocated */
#define ACRE_POOL_DEBUG 2u /* logs and counts writes past a block or after its free; slow */

/* Zero in any field means the default. */
typedef struct acre_pool_options {
    size_t struct_size;
    acre_kind kind;            /* ACRE_KIND_DEVICE (default), PINNED, MAPPED or MANAGED */
    uint32_t flags;            /* ACRE_POOL_* */
    uint64_t initial_bytes;    /* physical memory allocated by acre_pool_create; default none */
    uint64_t soft_limit_bytes; /* see acre_pool_set_limits; default none */
    uint64_t limit_bytes;
} acre_pool_options;

/* Creates a pool. It exists until acre_pool_destroy or the last acre_close of the device. */
ACRE_API acre_status acre_pool_create(acre_device *device, const acre_pool_options *options,
                                      acre_pool **pool);

/* Gets the default pool of a device for a kind of memory. acre creates the pool at its first use,
 * and destroys it with the device. */
ACRE_API acre_status acre_pool_default(acre_device *device, acre_kind kind, acre_pool **pool);

/* Destroys a pool with all its memory. NULL is a no-op. Blocks that are still live leak: the call
 * logs them and counts them in *leaked_blocks and *leaked_bytes, which may be NULL. acre_pool_walk
 * can list them before the call.
 * Returns ACRE_E_BUSY for a default pool, and while the pool's callback runs.
 * Sync: waits for all work queued on the device. */
ACRE_API acre_status acre_pool_destroy(acre_pool *pool, uint64_t *leaked_blocks,
                                       uint64_t *leaked_bytes);

/* Allocates a block for work of `stream`. The contents are undefined. `alignment` is 0 (for 256) or
 * a power of two up to 1 GiB. For 0 bytes *p is NULL, and the call succeeds, as cudaMalloc does. On
 * a captured stream the block belongs to the graph, see acre_pool_graph_share.
 * Returns ACRE_E_DEVICE_MEMORY, ACRE_E_HOST_MEMORY or ACRE_E_LIMIT, with a report
 * (acre_oom_report), also for sizes that no memory has; ACRE_E_CAPTURING if the stream's capture
 * has failed; ACRE_E_HANDLE for a stream that acre_stream_destroy has destroyed, and
 * for one that was destroyed without acre, if the driver detects it.
 * Sync: a hit does not wait. If memory is short the call may wait on the host, see
 * acre_pool_oom_fn. */
ACRE_API acre_status acre_pool_alloc(acre_pool *pool, size_t bytes, size_t alignment,
                                     acre_stream stream, void **p);

/* Allocates a block as acre_pool_alloc does, and zeroes it in stream order. */
ACRE_API acre_status acre_pool_alloc_zeroed(acre_pool *pool, size_t bytes, size_t alignment,
                                            acre_stream stream, void **p);

/* Allocates `count` blocks of `bytes` each, all or none. Otherwise like acre_pool_alloc. */
ACRE_API acre_status acre_pool_alloc_many(acre_pool *pool, size_t bytes, size_t count,
                                          acre_stream stream, void **blocks);

/* Frees a block in stream order: work queued on `stream` so far may still use it. NULL is a no-op.
 * Returns ACRE_E_POINTER (no block, or double free), ACRE_E_INTERIOR, ACRE_E_HANDLE (block of
 * another pool), ACRE_E_KIND (memory of acre that belongs to no pool; the detail names the call
 * that frees it). */
ACRE_API acre_status acre_pool_free(acre_pool *pool, void *p, acre_stream stream);

/* Frees `count` blocks as acre_pool_free does, and stops at the first failure. *freed, which may be
 * NULL, is the number of blocks freed. */
ACRE_API acre_status acre_pool_free_many(acre_pool *pool, void *const *blocks, size_t count,
                                         acre_stream stream, size_t *freed);

/* Frees a block. Any stream may reuse it once `event` has completed.
 * Sync: in a pool with ACRE_POOL_DEBUG the call waits for the event on the host. */
ACRE_API acre_status acre_pool_free_after(acre_pool *pool, void *p, acre_event event);

/* Records that work queued on `stream` so far uses a block. After the block is freed, the pool does
 * not reuse it before that work is done. Call it after queueing the work, for each stream that uses
 * the block besides the one that frees it. */
ACRE_API acre_status acre_pool_record_use(acre_pool *pool, void *p, acre_stream stream);

/* Lets graphs share memory. A block allocated on a captured stream belongs to the graph: the pool
 * reuses it inside the capture. It reuses the block elsewhere only after the block was freed, and
 * the graph, its clones and its executables were destroyed.
 * After this call, captures of `stream` with the same `key` reuse each other's memory. They must
 * not overlap, and their graphs must be launched in the order of the captures. Key 0 ends the
 * sharing for `stream`.
 * The first pool call in a capture decides for the whole capture, so make it on `stream`: then
 * other streams that join the capture share memory under the key, too. If the first call is made on
 * a joined stream that has no key, the whole capture shares no memory. */
ACRE_API acre_status acre_pool_graph_share(acre_pool *pool, acre_stream stream, uint64_t key);

/* Ends the sharing under a key: its memory goes back to the pool. The program must not launch
 * graphs of the key any more.
 * Returns ACRE_E_BUSY while an allocation under the key is in progress: in another thread, or in
 * this one if the pool's callback makes the call.
 * Sync: waits for queued work if graphs of the key still exist. */
ACRE_API acre_status acre_pool_graph_end(acre_pool *pool, uint64_t key);

/* Resizes a block and keeps its contents up to the smaller size: in place if there is room, else by
 * a copy in stream order. NULL for `p` allocates a block. 0 bytes free the block: *new_p is NULL.
 * *new_p may be equal to `p`; if it is not, `p` is freed. `stream` must wait for other streams that
 * write to the block. After a failure the old block is unchanged. */
ACRE_API acre_status acre_pool_realloc(acre_pool *pool, void *p, size_t bytes, acre_stream stream,
                                       void **new_p);

/* Returns 1 if the address is inside a live block of the pool, else 0. */
ACRE_API int acre_pool_owns(acre_pool *pool, const void *p);

/* Returns the usable bytes of a block, at least as many as requested; 0 if `p` is not the address
 * of a live block of the pool. */
ACRE_API size_t acre_pool_usable_size(acre_pool *pool, const void *p);

/* Adds physical memory until the pool holds `bytes`, memory in use included. Allocations then need
 * no driver call for memory until live blocks need more than that. */
ACRE_API acre_status acre_pool_reserve(acre_pool *pool, uint64_t bytes);

/* Releases free memory to the driver until the pool holds at most `keep_bytes`, or nothing more can
 * be released. It empties all threads' caches first. Memory that queued work still uses stays. So
 * may memory that was freed on a blocking stream, even if that stream has no work: the call queues
 * an event after the free, and a call some microseconds later finds that it has passed.
 * Sync: device memory is released without waiting. For other kinds the call waits for all work on
 * the device, as acre_mem_free does. */
ACRE_API acre_status acre_pool_trim(acre_pool *pool, uint64_t keep_bytes);

/* Called for each live block. A result other than 0 ends the walk. The pool's lock is held: the
 * function must not call into acre, nor wait for a thread that does. */
typedef int (*acre_pool_walk_fn)(void *user, void *p, size_t bytes);

/* Calls `fn` for every live block of a pool. Calls of other threads on the pool block until the
 * walk ends, unless they hit their cache. */
ACRE_API acre_status acre_pool_walk(acre_pool *pool, acre_pool_walk_fn fn, void *user);

/* Every statistic of a pool: name, meaning. "Now" marks current values; the others count since the
 * pool was created. If a pool has no memory for a request, it takes the steps that acre_pool_oom_fn
 * lists; served_* count the requests that each step served. */
#define ACRE_POOL_STATS_LIST(X)                                                                    \
    X(live_blocks, "live blocks now, without spillable ones that are away")                        \
    X(live_bytes, "bytes of live blocks now, after rounding")                                      \
    X(held_bytes, "physical memory that the pool holds now")                                       \
    X(refills, "times that a thread took memory from the pool because its cache had none")         \
    X(spills, "times that a thread's cache returned blocks to the pool")                           \
    X(events, "events recorded after frees; one event covers a batch of frees")                    \
    X(waits, "waits inserted into a stream so that it can reuse memory of another stream")         \
    X(overruns, "blocks written past their end (ACRE_POOL_DEBUG)")                                 \
    X(late_writes, "blocks written after they were freed (ACRE_POOL_DEBUG)")                       \
    X(used_bytes, "bytes of live and cached blocks now, which the limits apply to")                \
    X(soft_limit_bytes, "the soft limit; 0: none")                                                 \
    X(limit_bytes, "the limit; 0: none")                                                           \
    X(over_soft, "times that the pool released memory because the soft limit was exceeded")        \
    X(served_caches, "requests served after emptying threads' caches")                             \
    X(served_done, "requests served from memory that other streams had finished with")             \
    X(served_moved, "requests served after remapping free memory of the pool")                     \
    X(served_behind, "requests served from memory of another stream, after inserting a wait")      \
    X(served_pools, "requests served from free memory of other pools")                             \
    X(served_callback, "requests served after the callback freed memory")                          \
    X(served_waiting, "requests served after waiting on the host")                                 \
    X(refused, "requests that failed because no step served them")                                 \
    X(moved_chunks, "chunks mapped elsewhere, or released so that others could be mapped")         \
    X(held_peak_bytes, "high-water mark of held_bytes")                                            \
    X(served_spill, "requests served after spillable blocks left the device")                      \
    X(spillable_bytes, "bytes of live spillable blocks now, on the device or away")                \
    X(away_bytes, "bytes of them that are away now")                                               \
    X(left_blocks, "times that a spillable block left the device")                                 \
    X(left_bytes, "bytes that left with them")                                                     \
    X(brought_blocks, "times that acre_bring brought a block back")                                \
    X(brought_bytes, "bytes that came back with them")                                             \
    X(spill_wait_ns, "time that blocks which left waited for work of the device")                  \
    X(spill_copy_ns, "time that copying and unmapping them took")

typedef struct acre_pool_stats {
    size_t struct_size; /* set by the caller */
#define ACRE_POOL_STATS_FIELD(name, meaning) uint64_t name;
    ACRE_POOL_STATS_LIST(ACRE_POOL_STATS_FIELD)
#undef ACRE_POOL_STATS_FIELD
} acre_pool_stats;

/* Gets the statistics of a pool. */
ACRE_API acre_status acre_pool_get_stats(acre_pool *pool, acre_pool_stats *stats);

/* Properties of a pool, which never change. */
typedef struct acre_pool_info {
    size_t struct_size; /* set by the caller */
    acre_device *device;
    acre_kind kind;
    uint32_t flags;      /* ACRE_POOL_* */
    uint32_t is_default; /* 1: a default pool of its device */
    uint32_t reserved;
} acre_pool_info;

/* Gets the properties of a pool. */
ACRE_API acre_status acre_pool_get_info(acre_pool *pool, acre_pool_info *info);

/* Tells all pools that a stream created with CUDA is about to be destroyed. Call it before
 * cuStreamDestroy: the pools then record an event after the frees on the stream, and can reuse the
 * memory once the event has completed. acre_stream_destroy does this by itself. */
ACRE_API acre_status acre_stream_retire(acre_device *device, acre_stream stream);

/* ---- limits ---- */

/* Sets the limits of a pool, in bytes of live and cached blocks. 0 means no limit. Other free
 * memory that the pool holds does not count; acre_pool_trim releases it. The pool updates the count
 * only when blocks move between the pool and a thread's cache, so limits do not slow down hits. All
 * caches of a pool together hold at most 64 MiB, or 3 % of the pool's high-water mark if that is
 * more.
 *
 * Above the soft limit no call fails: the pool empties the caches, releases free memory until it
 * holds no more than the soft limit, if it can, and counts this (`over_soft`). Above the limit a
 * call fails with ACRE_E_LIMIT, after the pool has emptied the caches and called its callback. So
 * cached blocks alone never make a call fail, and live blocks never exceed the limit. You may set a
 * limit below the current use: the pool then frees nothing, and allocations fail until the use has
 * dropped.
 * Returns ACRE_E_INVALID if the soft limit is above the limit. */
ACRE_API acre_status acre_pool_set_limits(acre_pool *pool, uint64_t soft_limit_bytes,
                                          uint64_t limit_bytes);

/* A callback for a pool that runs out of memory. A request larger than the limit or than the
 * device's memory fails at once. Otherwise a pool without memory for a request takes these steps in
 * order, until one serves the request:
 * - it empties the caches of all threads;
 * - it reuses memory of other streams whose work is done;
 * - it unmaps or releases free memory, and maps memory where the request needs it, or uses a hole
 *   that it otherwise leaves to blocks of other sizes;
 * - it reuses memory of another stream, and makes the calling stream wait for that stream's work;
 * - it releases free memory of other pools and of ranges: those of the device, or, for pinned and
 * mapped memory, the pinned and mapped pools of all devices;
 * - it calls this callback;
 * - it waits on the host for the work that still uses blocks freed to this pool or to the device's
 *   other pools;
 * - it makes spillable blocks leave the device (acre/spill.h), which waits for all work.
 * If a block was allocated outside a capture and freed on the captured stream, no step uses its
 * memory before the capture ends. A request on a captured stream skips the steps that wait. If no
 * step helps, the call fails with a status and a report (acre_oom_report). The statistics served_*
 * of acre_pool_get_stats count which step helped.
 *
 * `wanted_bytes` is the size of the request, rounded up by the pool. `attempt` is the number of
 * earlier calls of the callback for the same request. The callback returns 1 if it freed memory:
 * the pool then tries again, and calls the callback once more if the memory was not enough. The
 * callback returns 0 if it cannot free anything.
 *
 * acre calls the callback in the allocating thread and holds no lock, so several threads may run it
 * at the same time. The callback may free and trim anything. Its own allocations take the first
 * four steps only, so callbacks do not nest. The callback must not destroy the pool (ACRE_E_BUSY)
 * or close the pool's device. */
typedef int (*acre_pool_oom_fn)(void *user, acre_pool *pool, uint64_t wanted_bytes,
                                uint32_t attempt);

/* Sets the callback of a pool. NULL means none, which is the default. Calls of other threads that
 * are in progress may still use the earlier callback. */
ACRE_API acre_status acre_pool_set_callback(acre_pool *pool, acre_pool_oom_fn fn, void *user);

#ifdef __cplusplus
}
#endif

#endif
