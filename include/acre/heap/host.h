/* The host's side of a heap. Part of acre_heap.h, not to be included by itself. */
#ifndef ACRE_HEAP_HOST_H
#define ACRE_HEAP_HOST_H

#include "../device.h"
#include "layout.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct acre_heap acre_heap;

#define ACRE_HEAP_NO_SERVICE 1u /* grows by hand alone: NULL is immediate when it is full */

/* Zero in any field means the default. */
typedef struct acre_heap_options {
    size_t struct_size;
    uint64_t initial_bytes; /* mapped at once; 8 MiB */
    uint64_t limit_bytes;   /* that it may grow to, 512 GiB at most; the device's memory */
    uint64_t step_bytes;    /* by which it grows at least while kernels run; 64 MiB */
    uint64_t wait_ns;       /* that a kernel waits for more, at most; 1 s */
    uint32_t flags;         /* ACRE_HEAP_NO_SERVICE */
    uint32_t reserved;
    uint64_t ahead_bytes; /* that are to be free at any time: see acre_heap_grow; 0: none */
} acre_heap_options;

/* Makes a heap on a device that can map memory; `options` may be NULL. All sizes are rounded up to
 * 2 MiB. Addresses are reserved for the limit, memory is mapped for the initial size and, apart
 * from it, for records: 0.9 % of it.
 * Returns ACRE_E_NULL, ACRE_E_HANDLE, ACRE_E_OPTIONS, ACRE_E_INVALID (limit below initial),
 * ACRE_E_UNSUPPORTED, ACRE_E_DEVICE_MEMORY, ACRE_E_HOST_MEMORY, ACRE_E_ADDRESS_SPACE. */
ACRE_API acre_status acre_heap_create(acre_device *device, const acre_heap_options *options,
                                      acre_heap **heap);

/* Destroys a heap and frees all its memory; no kernel may use it any more. Blocks that were not
 * freed are counted in *leaked_blocks and *leaked_bytes, which may be NULL, and logged, by tag
 * those that have one. NULL is a no-op. After a failure to read the records, as on a lost device,
 * the counts are 0. Returns ACRE_E_HANDLE; ACRE_E_DRIVER: the device could not be waited for, and
 * the heap stays. Sync: waits for all work of the device that is queued, as cudaFree does. */
ACRE_API acre_status acre_heap_destroy(acre_heap *heap, uint64_t *leaked_blocks,
                                       uint64_t *leaked_bytes);

/* What is passed to kernels; good until the heap ends. */
ACRE_API acre_status acre_heap_get_handle(acre_heap *heap, acre_heap_handle *handle);

/* Maps more memory, so that the heap has `bytes` in all, or what it has if that is more. Kernels
 * may be running. ACRE_E_LIMIT beyond the limit, ACRE_E_DEVICE_MEMORY: nothing has changed. After
 * another failure of the driver memory may have been added that kernels do not see yet: the next
 * call that grows the heap tells them of it.
 *
 * By itself a heap grows when a kernel has found no memory and waits. With `ahead_bytes` it grows
 * before that: when less than so much is in segments (of 2 MiB) that are wholly free, it gets a
 * step. The service looks every millisecond, whether kernels run or not; without a service
 * acre_heap_get_handle looks. */
ACRE_API acre_status acre_heap_grow(acre_heap *heap, uint64_t bytes);

/* How far the heap may grow, rounded up to 2 MiB: what it was made with, and what is set
 * later, at any time, whether kernels run or not. Below what it has, it only stops growing
 * (acre_heap_trim releases memory). The counterpart of CUDA's cudaLimitMallocHeapSize.
 * ACRE_E_ADDRESS_SPACE beyond what it was made with: it has no more addresses. */
ACRE_API acre_status acre_heap_get_limit(acre_heap *heap, uint64_t *bytes);
ACRE_API acre_status acre_heap_set_limit(acre_heap *heap, uint64_t bytes);

/* Unmaps free memory at the end until `bytes` are left, or as few as live blocks allow. No kernel
 * that uses the heap may be running or start meanwhile. After a failure all blocks are what they
 * were. */
ACRE_API acre_status acre_heap_trim(acre_heap *heap, uint64_t bytes);

/* Forgets all blocks, as if all were freed, and sets the counts to 0; the memory stays mapped. No
 * kernel that uses the heap may be running or start meanwhile. After a failure some blocks may be
 * forgotten and others not: call it again. */
ACRE_API acre_status acre_heap_reset(acre_heap *heap);

typedef struct acre_heap_class_stats {
    uint64_t bytes; /* of a block */
    uint64_t live_blocks;
    uint64_t free_blocks; /* in slabs of the class: allocated again without a new page */
} acre_heap_class_stats;

#define ACRE_HEAP_STATS_LIST(X)                                                                    \
    X(mapped_bytes, "memory for blocks that the heap has now")                                     \
    X(record_bytes, "memory for records that it has now")                                          \
    X(limit_bytes, "that it may grow to")                                                          \
    X(live_blocks, "blocks allocated now")                                                         \
    X(live_bytes, "their bytes now, as they really are")                                           \
    X(peak_bytes, "the most live_bytes that statistics, trim or reset have seen")                  \
    X(free_bytes, "in pages that belong to no block and no class")                                 \
    X(failed, "requests that got NULL")                                                            \
    X(failed_bytes, "bytes of those")                                                              \
    X(bad_alignment, "requests with an alignment that cannot be")                                  \
    X(double_frees, "frees of what was free already")                                              \
    X(foreign_frees, "frees of addresses outside the heap")                                        \
    X(interior_frees, "frees of addresses inside a block")                                         \
    X(grows, "times that memory was added")                                                        \
    X(asks, "times that a kernel asked for more")                                                  \
    X(overruns, "blocks that were written past their end, found when debug builds freed them")     \
    X(overrun_at, "address of the first of those; 0: there was none")                              \
    X(unmarked_frees, "blocks without a mark that debug builds freed")

typedef struct acre_heap_stats {
    size_t struct_size; /* set by the caller */
#define ACRE_HEAP_STATS_FIELD(name, meaning) uint64_t name;
    ACRE_HEAP_STATS_LIST(ACRE_HEAP_STATS_FIELD)
#undef ACRE_HEAP_STATS_FIELD
    acre_heap_class_stats classes[ACRE_HEAP_CLASSES];
} acre_heap_stats;

/* Counted from the records, which are copied to the host; while kernels run, about right. */
ACRE_API acre_status acre_heap_get_stats(acre_heap *heap, acre_heap_stats *stats);

/* Called for each live block; a result other than 0 ends the walk. It must not call into acre. */
typedef int (*acre_heap_walk_fn)(void *user, void *block, uint64_t bytes);

/* Every live block with its usable size, by rising addresses. No kernel that uses the heap may be
 * running. ACRE_E_NULL, ACRE_E_HANDLE, ACRE_E_HOST_MEMORY, ACRE_E_DEVICE_LOST. */
ACRE_API acre_status acre_heap_walk(acre_heap *heap, acre_heap_walk_fn fn, void *user);

/* What is known about a live block. Debug builds (ACRE_HEAP_DEBUG) mark theirs. */
typedef struct acre_heap_block {
    void *address;
    uint64_t bytes;       /* as it really is, as acre_heap_walk tells it */
    uint64_t asked_bytes; /* for by who made it; `bytes` if it has no mark */
    uint32_t tag;         /* 0 if it has no mark */
    uint32_t flags;       /* ACRE_HEAP_BLOCK_* */
} acre_heap_block;

#define ACRE_HEAP_BLOCK_MARKED 1u  /* made by a debug build */
#define ACRE_HEAP_BLOCK_OVERRUN 2u /* and written past its end */

typedef int (*acre_heap_inspect_fn)(void *user, const acre_heap_block *block);

/* As acre_heap_walk, with what debug builds know, for which the blocks' own memory is copied to the
 * host as well: it takes as long as that. */
ACRE_API acre_status acre_heap_inspect(acre_heap *heap, acre_heap_inspect_fn fn, void *user);

#ifdef __cplusplus
}
#endif

#endif
