/* Pools: memory in stream order. Part of acre.h. */
#ifndef ACRE_POOL_H
#define ACRE_POOL_H

#include "mem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A pool allocates blocks of one kind of memory in tens of nanoseconds, and frees them in
 * stream order: memory freed on a stream may be used on that stream again at once, elsewhere only
 * after the stream has got there. A block belongs to the work of the stream that it was asked for:
 * other streams may use it after they waited for that one (acre_stream_wait), and must be waited
 * for by it before the block is freed on it, or be named by acre_pool_record_use.
 *
 * Calls that hit the thread's cache take no lock, wait for nothing, and make no driver call but to
 * ask about the stream: whether it is captured, and which one a handle of CUDA's means. Addresses
 * are multiples of 256, of 512 for more than 256 bytes. A block has at most 511 bytes more than
 * requested, or an eighth if it has 4 to 512 KiB. Any thread may free what another allocated. */
typedef struct acre_pool acre_pool;

/* Device memory of the device's default pool. acre_free finds the pool by the address; memory that
 * is no pool's is ACRE_E_KIND, and the detail names the call for it. */
ACRE_API acre_status acre_alloc(acre_device *device, size_t bytes, acre_stream stream, void **p);
ACRE_API acre_status acre_free(void *p, acre_stream stream);

#define ACRE_POOL_ZERO 1u  /* memory is zeroed, in stream order, whenever it is allocated */
#define ACRE_POOL_DEBUG 2u /* logs and counts writes past a block or after its free; slow */

/* Zero in any field means the default. */
typedef struct acre_pool_options {
    size_t struct_size;
    acre_kind kind;            /* device (default), pinned, mapped or managed */
    uint32_t flags;            /* ACRE_POOL_* */
    uint64_t initial_bytes;    /* memory taken at once; none */
    uint64_t soft_limit_bytes; /* limits, see acre_pool_set_limits; none */
    uint64_t limit_bytes;
} acre_pool_options;

ACRE_API acre_status acre_pool_create(acre_device *device, const acre_pool_options *options,
                                      acre_pool **pool);

/* The pool of a device and kind that acre keeps, made at its first use; it ends with the device. */
ACRE_API acre_status acre_pool_default(acre_device *device, acre_kind kind, acre_pool **pool);

/* Ends a pool after all work of the device queued before. Blocks that were not freed end with it;
 * they are counted in *leaked_blocks and *leaked_bytes, which may be NULL, and logged
 * (acre_pool_walk names each of them before). NULL is a no-op. A default pool: ACRE_E_BUSY. */
ACRE_API acre_status acre_pool_destroy(acre_pool *pool, uint64_t *leaked_blocks,
                                       uint64_t *leaked_bytes);

/* `alignment` is 0 (256) or a power of two up to 1 GiB. ACRE_E_DEVICE_MEMORY, ACRE_E_HOST_MEMORY,
 * ACRE_E_LIMIT, ACRE_E_CAPTURING (the stream's capture has failed; see acre_pool_graph_share). */
ACRE_API acre_status acre_pool_alloc(acre_pool *pool, size_t bytes, size_t alignment,
                                     acre_stream stream, void **p);
ACRE_API acre_status acre_pool_alloc_zeroed(acre_pool *pool, size_t bytes, size_t alignment,
                                            acre_stream stream, void **p);
/* `count` blocks of `bytes` each, all or none. */
ACRE_API acre_status acre_pool_alloc_many(acre_pool *pool, size_t bytes, size_t count,
                                          acre_stream stream, void **blocks);

/* Frees a block in stream order: work queued on `stream` before may still use it. NULL is a no-op.
 * ACRE_E_POINTER (no block, or double free), ACRE_E_INTERIOR, ACRE_E_HANDLE (of another pool),
 * ACRE_E_KIND (memory of acre, but of no pool; the detail names the call for it). */
ACRE_API acre_status acre_pool_free(acre_pool *pool, void *p, acre_stream stream);
/* Stops at the first block that is refused; *freed (may be NULL) is how many went. */
ACRE_API acre_status acre_pool_free_many(acre_pool *pool, void *const *blocks, size_t count,
                                         acre_stream stream, size_t *freed);
/* Frees a block. Any stream may reuse it once `event` has completed. */
ACRE_API acre_status acre_pool_free_after(acre_pool *pool, void *p, acre_event event);

/* Tells the pool that work queued on another stream uses the block: a free waits for that work. */
ACRE_API acre_status acre_pool_record_use(acre_pool *pool, void *p, acre_stream stream);

/* Lets graphs share memory. A block allocated on a captured stream belongs to the graph: the pool
 * reuses it inside the capture, and elsewhere only after it was freed and the graph, its clones and
 * executables are destroyed. Captures of `stream` with the same `key` reuse each other's memory:
 * they must not overlap, and their graphs must be launched in capture order. 0 ends the sharing.
 * Streams that join a capture share once `stream` has allocated. */
ACRE_API acre_status acre_pool_graph_share(acre_pool *pool, acre_stream stream, uint64_t key);
/* Frees the memory of a key whose graphs are not launched any more. Waits if graphs still exist. */
ACRE_API acre_status acre_pool_graph_end(acre_pool *pool, uint64_t key);

/* Another size, by a copy in stream order unless there is room; NULL for `p` is a new block.
 * `stream` must wait for streams that write to the block. After a failure all is as it was. */
ACRE_API acre_status acre_pool_realloc(acre_pool *pool, void *p, size_t bytes, acre_stream stream,
                                       void **new_p);

/* 1 if the address lies in a live block of the pool. */
ACRE_API int acre_pool_owns(acre_pool *pool, const void *p);
/* Bytes that a block really has, 0 for what is no block. */
ACRE_API size_t acre_pool_usable_size(acre_pool *pool, const void *p);

/* Takes memory ahead, so that `bytes` in all can be allocated without a driver call. */
ACRE_API acre_status acre_pool_reserve(acre_pool *pool, uint64_t bytes);
/* Releases memory that is free and not in use by queued work, all threads' caches too, as long as
 * more than `keep_bytes` remain. Waits for nothing; other kinds go back as by acre_mem_free. */
ACRE_API acre_status acre_pool_trim(acre_pool *pool, uint64_t keep_bytes);

/* Called for each live block; a result other than 0 ends the walk. It must not call into acre. */
typedef int (*acre_pool_walk_fn)(void *user, void *p, size_t bytes);

/* Calls `fn` for every live block; meanwhile other threads' calls on the pool block. */
ACRE_API acre_status acre_pool_walk(acre_pool *pool, acre_pool_walk_fn fn, void *user);

/* Every statistic of a pool: name, meaning. */
#define ACRE_POOL_STATS_LIST(X)                                                                    \
    X(live_blocks, "blocks allocated now")                                                         \
    X(live_bytes, "their bytes now, as they really are")                                           \
    X(held_bytes, "physical memory that the pool has now")                                         \
    X(refills, "times that a thread's cache was filled")                                           \
    X(spills, "times that a part of one was given to the pool")                                    \
    X(events, "events recorded, each for a batch of frees")                                        \
    X(waits, "waits inserted into streams for memory of another one")                              \
    X(overruns, "blocks written past their end (ACRE_POOL_DEBUG)")                                 \
    X(late_writes, "blocks written to after they were freed (ACRE_POOL_DEBUG)")                    \
    X(used_bytes, "bytes allocated or in threads' caches now: what limits count")                  \
    X(soft_limit_bytes, "the soft limit; 0: none")                                                 \
    X(limit_bytes, "the limit; 0: none")                                                           \
    X(over_soft, "times that memory was released beyond the soft limit")                           \
    X(served_caches, "calls without memory that threads' caches served")                           \
    X(served_done, "that memory served which other streams were done with")                        \
    X(served_moved, "that free memory of the pool served, mapped anew")                            \
    X(served_behind, "that memory of another stream served, behind a wait")                        \
    X(served_pools, "that free memory of other pools served")                                      \
    X(served_callback, "that the callback's frees served")                                         \
    X(served_waiting, "that waiting on the host served")                                           \
    X(refused, "calls that nothing served")                                                        \
    X(moved_chunks, "chunks that moved, or were released so that others could be mapped")          \
    X(held_peak_bytes, "the most physical memory that the pool ever had")

typedef struct acre_pool_stats {
    size_t struct_size; /* set by the caller */
#define ACRE_POOL_STATS_FIELD(name, meaning) uint64_t name;
    ACRE_POOL_STATS_LIST(ACRE_POOL_STATS_FIELD)
#undef ACRE_POOL_STATS_FIELD
} acre_pool_stats;

ACRE_API acre_status acre_pool_get_stats(acre_pool *pool, acre_pool_stats *stats);

/* Tells the pools that a stream is about to be destroyed: what was freed on it is marked by an
 * event and stays safe. Streams of acre_stream_create do it by themselves. */
ACRE_API acre_status acre_stream_retire(acre_device *device, acre_stream stream);

/* ---- limits ---- */

/* Sets limits for what threads use of a pool: live blocks, and blocks in the threads' caches. The
 * caches of a pool together hold at most 64 MiB, or 3 % of the pool's high-water mark if that is
 * more. 0 is no limit; a soft limit above the other is ACRE_E_INVALID. The pool counts when
 * memory goes to a cache or comes back, so never on a hit.
 *
 * Above the soft limit no call fails: the pool empties the caches, releases free memory until it
 * holds no more than the limit, and counts that (`over_soft`). Above the limit a call fails
 * with ACRE_E_LIMIT, after the pool emptied the caches and called its callback. Live blocks never
 * exceed the limit, and caches alone never make a call fail. Memory that is held but free does
 * not count (acre_pool_trim). A limit below what is live applies to later calls. */
ACRE_API acre_status acre_pool_set_limits(acre_pool *pool, uint64_t soft_limit_bytes,
                                          uint64_t limit_bytes);

/* When a pool has no memory for a call it tries, in this order: the caches of all threads; memory
 * of other streams whose work is done; its free memory, released and mapped where it is needed;
 * memory of another stream behind whose work the calling one then waits, without the host; free
 * memory of other pools of the same physical memory; this callback; and last the host waits for the
 * work behind everything that was freed, in this pool and in others of the device. Streams that are
 * being captured are left out. Only then is there a status, and a report (acre_oom_report).
 * acre_pool_get_stats counts which step served.
 *
 * The callback is told how many bytes the pool is asked for, as it rounds them, and how often it
 * was called for that before. It returns 1 when it has freed something and the pool shall try
 * again (it is then called again if that was not enough), 0 when there is nothing to be had. It is
 * called without locks, in the thread that asks, and may free and trim whatever it likes. What it
 * allocates itself is served as far as the first four steps go, and it is never called within
 * itself. It must not end the pool (ACRE_E_BUSY) nor its device. */
typedef int (*acre_pool_oom_fn)(void *user, acre_pool *pool, uint64_t wanted_bytes,
                                uint32_t attempt);

/* NULL for `fn`: none, as at first. Calls that are under way may still call the one before. */
ACRE_API acre_status acre_pool_set_callback(acre_pool *pool, acre_pool_oom_fn fn, void *user);

#ifdef __cplusplus
}
#endif

#endif
