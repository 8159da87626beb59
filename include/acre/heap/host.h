/* Host functions of heaps. Part of acre_heap.h, not to be included by itself. */
#ifndef ACRE_HEAP_HOST_H
#define ACRE_HEAP_HOST_H

#include "../device.h"
#include "layout.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct acre_heap acre_heap;

#define ACRE_HEAP_NO_SERVICE 1u /* no thread that grows the heap for waiting kernels */

/* Zero in any field means the default. */
typedef struct acre_heap_options {
    size_t struct_size;
    uint64_t initial_bytes; /* mapped by acre_heap_create; default 8 MiB */
    uint64_t limit_bytes;   /* up to 512 GiB; default the device's memory */
    uint64_t step_bytes;    /* minimum growth while kernels run; default 64 MiB */
    uint64_t wait_ns;       /* longest wait of a kernel for more memory; default 1 s */
    uint32_t flags;         /* ACRE_HEAP_NO_SERVICE */
    uint32_t reserved;
    uint64_t ahead_bytes; /* free memory to keep in advance, see acre_heap_grow; default none */
} acre_heap_options;

/* Creates a heap on a device with virtual memory management. Sizes are rounded up to 2 MiB. The
 * call reserves addresses for the limit and maps memory for the initial size. The heap's
 * bookkeeping takes another 0.9 % of the mapped memory. The heap exists until acre_heap_destroy or
 * the last acre_close of the device.
 * Returns ACRE_E_NULL, ACRE_E_HANDLE, ACRE_E_OPTIONS, ACRE_E_INVALID (limit below initial size),
 * ACRE_E_UNSUPPORTED, ACRE_E_DEVICE_MEMORY, ACRE_E_HOST_MEMORY, ACRE_E_ADDRESS_SPACE. */
ACRE_API acre_status acre_heap_create(acre_device *device, const acre_heap_options *options,
                                      acre_heap **heap);

/* Destroys a heap and frees all its memory. NULL is a no-op. Kernels queued before the call may
 * still use the heap; no later one may. Live blocks leak: the call logs them, by tag if they have
 * one, and counts them in *leaked_blocks and *leaked_bytes, which may be NULL. If the heap's
 * bookkeeping cannot be read, as on a lost device, the counts are 0.
 * Returns ACRE_E_HANDLE; ACRE_E_DRIVER if waiting for the device failed; the heap then still
 * exists.
 * Sync: like cudaFree, waits for all work queued on the device. */
ACRE_API acre_status acre_heap_destroy(acre_heap *heap, uint64_t *leaked_blocks,
                                       uint64_t *leaked_bytes);

/* Gets the handle that kernels use. It is valid until the heap is destroyed. */
ACRE_API acre_status acre_heap_get_handle(acre_heap *heap, acre_heap_handle *handle);

/* Maps more memory until the heap has `bytes` in all. If the heap has more already, the call is a
 * no-op. Kernels may be running.
 * Returns ACRE_E_LIMIT above the limit, ACRE_E_DEVICE_MEMORY. After any other driver error, some
 * new memory may be mapped but not yet visible to kernels; the next call that grows the heap makes
 * it visible.
 *
 * A heap also grows by itself: when a kernel finds no memory and waits, the service thread maps
 * more. With `ahead_bytes` the heap grows earlier, by at least `step_bytes`: as soon as its
 * entirely free segments of 2 MiB together have less than `ahead_bytes`. The service thread checks
 * this every millisecond, whether kernels run or not. Without a service thread,
 * acre_heap_get_handle checks it. */
ACRE_API acre_status acre_heap_grow(acre_heap *heap, uint64_t bytes);

/* Gets the limit of a heap in bytes, a multiple of 2 MiB. */
ACRE_API acre_status acre_heap_get_limit(acre_heap *heap, uint64_t *bytes);

/* Sets the limit of a heap, rounded up to 2 MiB, like CUDA's cudaLimitMallocHeapSize. Kernels may
 * be running. A limit below the mapped memory only stops growth; acre_heap_trim releases memory.
 * Returns ACRE_E_ADDRESS_SPACE above the limit that the heap was created with: it reserved no more
 * addresses. */
ACRE_API acre_status acre_heap_set_limit(acre_heap *heap, uint64_t bytes);

/* Unmaps free memory at the end of a heap until `bytes` are left, or until live blocks prevent it.
 * No kernel that uses the heap may run or start during the call. After a failure all blocks are
 * unchanged. */
ACRE_API acre_status acre_heap_trim(acre_heap *heap, uint64_t bytes);

/* Frees all blocks of a heap at once, and sets the counters of failed requests, invalid frees and
 * overruns to 0. The memory stays mapped. No kernel that uses the heap may run or start during the
 * call. After a failure some blocks may be freed and others not: repeat the call. */
ACRE_API acre_status acre_heap_reset(acre_heap *heap);

typedef struct acre_heap_class_stats {
    uint64_t bytes; /* size of a block */
    uint64_t live_blocks;
    uint64_t free_blocks; /* in slabs of this class; can be allocated without a new page */
} acre_heap_class_stats;

/* Every statistic of a heap: name, meaning. */
#define ACRE_HEAP_STATS_LIST(X)                                                                    \
    X(mapped_bytes, "memory for blocks that is mapped now")                                        \
    X(record_bytes, "memory for bookkeeping that is mapped now")                                   \
    X(limit_bytes, "the limit")                                                                    \
    X(live_blocks, "live blocks now")                                                              \
    X(live_bytes, "bytes of live blocks now, after rounding")                                      \
    X(peak_bytes, "highest live_bytes that acre_heap_get_stats or acre_heap_reset has seen")       \
    X(free_bytes, "bytes of pages that belong to no block and no slab now")                        \
    X(failed, "requests that returned NULL")                                                       \
    X(failed_bytes, "bytes of the requests that returned NULL")                                    \
    X(bad_alignment, "requests with an invalid alignment")                                         \
    X(double_frees, "frees of memory that was already free")                                       \
    X(foreign_frees, "frees of addresses outside the heap")                                        \
    X(interior_frees, "frees of addresses inside a block")                                         \
    X(grows, "times that memory was added")                                                        \
    X(asks, "times that the service thread answered a kernel that was out of memory")              \
    X(overruns, "blocks written past their end, detected when debug builds freed them")            \
    X(overrun_at, "address of the first block written past its end; 0: none")                      \
    X(unmarked_frees, "blocks without a debug mark that debug builds freed")

typedef struct acre_heap_stats {
    size_t struct_size; /* set by the caller */
#define ACRE_HEAP_STATS_FIELD(name, meaning) uint64_t name;
    ACRE_HEAP_STATS_LIST(ACRE_HEAP_STATS_FIELD)
#undef ACRE_HEAP_STATS_FIELD
    acre_heap_class_stats classes[ACRE_HEAP_CLASSES];
    uint64_t lost_slots; /* free slots that a search did not find: a double free damaged records */
    acre_heap_class_stats large_classes[ACRE_HEAP_LARGE_CLASSES]; /* above 32 KiB */
} acre_heap_stats;

/* Gets the statistics of a heap. The call copies the heap's bookkeeping to the host and counts
 * there. While kernels run, the values are approximate. */
ACRE_API acre_status acre_heap_get_stats(acre_heap *heap, acre_heap_stats *stats);

/* Called for each live block. A result other than 0 ends the walk. The heap's lock is held: the
 * function must not call into acre, nor wait for a thread that does. */
typedef int (*acre_heap_walk_fn)(void *user, void *block, uint64_t bytes);

/* Calls `fn` for every live block with its usable size, in the order of addresses. No kernel that
 * uses the heap may run during the call.
 * Returns ACRE_E_NULL, ACRE_E_HANDLE, ACRE_E_HOST_MEMORY, ACRE_E_DEVICE_LOST. */
ACRE_API acre_status acre_heap_walk(acre_heap *heap, acre_heap_walk_fn fn, void *user);

/* A live block. Debug builds (ACRE_HEAP_DEBUG) mark the blocks that they allocate. */
typedef struct acre_heap_block {
    void *address;
    uint64_t bytes;       /* usable size, as in acre_heap_walk */
    uint64_t asked_bytes; /* requested size; `bytes` if the block has no mark */
    uint32_t tag;         /* 0 if the block has no mark */
    uint32_t flags;       /* ACRE_HEAP_BLOCK_* */
} acre_heap_block;

#define ACRE_HEAP_BLOCK_MARKED 1u  /* allocated by a debug build */
#define ACRE_HEAP_BLOCK_OVERRUN 2u /* marked, and written past its end */

/* Called for each live block, under the rules of acre_heap_walk_fn. */
typedef int (*acre_heap_inspect_fn)(void *user, const acre_heap_block *block);

/* Calls `fn` for every live block, with the marks of debug builds. To read the marks, the call
 * copies the blocks to the host, and takes as long as that copy. Otherwise like acre_heap_walk. */
ACRE_API acre_status acre_heap_inspect(acre_heap *heap, acre_heap_inspect_fn fn, void *user);

#ifdef __cplusplus
}
#endif

#endif
