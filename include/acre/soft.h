/* acre_soft: kernels on the soft device, as C functions over a grid.
 *
 * A kernel is a function that is called once for every thread of a grid of blocks. The threads of a
 * block have a barrier and shared memory; those of a warp have the lane functions below, which do
 * what CUDA's __shfl_sync, __ballot_sync, __match_any_sync, __syncwarp and __activemask do. So code
 * written once, with these names behind macros, runs on a GPU and, with sanitizers, seeds and a
 * debugger, on the CPU.
 *
 * A warp has 32 lanes, or 1 with ACRE_SOFT_WARP=1. With 32, a block is run by one real thread, the
 * lanes taking turns: a lane runs until it waits. With 1, every thread of a block is a warp of its
 * own and the threads of a block are spread over real threads. Blocks run side by side, as many as
 * there are processors, in no promised order. With ACRE_SOFT_SEED one lane runs at a time, and
 * which one is drawn from the seed.
 *
 * What a kernel may do. It follows device pointers as they are: the memory of its device is open
 * while a kernel of the device runs. It has a stack of 64 KiB. It calls nothing of this library but
 * what is declared here; driver calls are refused. A loop that waits for another thread of the grid
 * or for the host calls acre_soft_yield, since on a CPU nothing else may make the other one run. A
 * fault inside a kernel is a fault of the process; so is leaving one by longjmp or an exception.
 *
 * On plain host threads the functions below work too: such a thread is a warp of one lane, in a
 * block of one thread, in a grid of one block. */
#ifndef ACRE_SOFT_H
#define ACRE_SOFT_H

#include "stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `arg` is the last argument of acre_soft_launch, the same for every thread. */
typedef void (*acre_soft_kernel)(void *arg);

/* Queues a kernel on a stream of a soft device, behind what is queued there already. `grid` counts
 * blocks and `block` threads, each in x, y and z, with CUDA's limits: 2^31 - 1, 65535 and 65535
 * blocks; 1024, 1024 and 64 threads, and 1024 in all. Each block has `shared_bytes` of shared
 * memory, at most 227 KiB, whose contents are undefined when the block begins. `arg` and what it
 * points to have to stay until the kernel is done. On a stream that is being captured the kernel
 * becomes a part of the graph, and `arg` has to stay as long as the graph is launched.
 *
 * Returns ACRE_OK; ACRE_E_NULL (fn, grid or block); ACRE_E_INVALID (a count of 0 or beyond its
 * limit, too much shared memory); ACRE_E_UNSUPPORTED (not a soft device; called inside a kernel);
 * ACRE_E_HANDLE; ACRE_E_CAPTURING (the capture was broken); ACRE_E_CONFIG (ACRE_SOFT_WARP is not 1
 * or 32); ACRE_E_HOST_MEMORY; ACRE_E_DEVICE_LOST. Later, as for every kernel: a kernel that uses
 * the lane functions wrongly is reported to the log and ended, and the device is lost; so it is
 * when the system has no memory for the lanes. Sync: returns before the kernel has run. */
ACRE_API acre_status acre_soft_launch(acre_device *device, acre_stream stream, acre_soft_kernel fn,
                                      const uint32_t grid[3], const uint32_t block[3],
                                      size_t shared_bytes, void *arg);

/* Makes soft devices lag behind the host, as a busy GPU does: queued work begins only when
 * `operations` more copies, fills, kernels or host functions have been queued on any stream, or,
 * with `ns`, so many nanoseconds after it was queued. One of the two is 0; with both 0 the lag
 * ends. Work queued before the call no longer lags. ACRE_SOFT_LAG=1000 or =5ms does the same from
 * the start.
 *
 * A lag in operations is repeatable: the calling thread runs what has become due before its driver
 * call returns. A host that waits for work, or that asks for it 10,000 times in a row, lets the
 * device catch up.
 *
 * Returns ACRE_OK; ACRE_E_INVALID (both are given); ACRE_E_UNSUPPORTED (not a soft device; a time
 * with ACRE_SOFT_SEED); ACRE_E_HANDLE. Applies to all soft devices of the process. */
ACRE_API acre_status acre_soft_set_lag(acre_device *device, uint64_t operations, uint64_t ns);

/* ---- Where the calling thread is --------------------------------------------------------------
 * `dimension` is 0, 1 or 2 for x, y or z; beyond that the index is 0 and the size 1. */

ACRE_API uint32_t acre_soft_thread_index(uint32_t dimension);
ACRE_API uint32_t acre_soft_block_index(uint32_t dimension);
ACRE_API uint32_t acre_soft_block_size(uint32_t dimension);
ACRE_API uint32_t acre_soft_grid_size(uint32_t dimension);

/* 1 inside a kernel, 0 on a plain thread. */
ACRE_API int acre_soft_in_kernel(void);

/* A small number that stands for the multiprocessor: the same for all threads of a block, and
 * different for blocks that run at the same time. For plain threads a hash of the thread, below
 * 128. */
ACRE_API uint32_t acre_soft_sm(void);

/* ---- The block ---------------------------------------------------------------------------------
 */

/* The block's shared memory, aligned to 128 bytes; NULL if it has none. */
ACRE_API void *acre_soft_shared(void);

/* Waits until every thread of the block that has not ended has come to a barrier. */
ACRE_API void acre_soft_syncthreads(void);

/* Lets others run: lanes of the warp, threads of the block, other threads of the machine. */
ACRE_API void acre_soft_yield(void);

/* ---- The warp ----------------------------------------------------------------------------------
 * Functions with a mask wait until all lanes of it have called the same function with the same
 * mask. The mask has the caller's bit, and no lane that has ended. A lane that waits for one that
 * has ended, or that waits elsewhere for what cannot come, is a mistake of the kernel: it is
 * reported, and the launch ends. */

ACRE_API uint32_t acre_soft_lane(void); /* 0 .. 31 */

/* Compilers that can be told so do not make one call of two in different branches. */
#if defined(__has_attribute)
#if __has_attribute(nomerge)
#define ACRE_SOFT_CALL __attribute__((nomerge))
#endif
#endif
#ifndef ACRE_SOFT_CALL
#define ACRE_SOFT_CALL
#endif

/* The lanes that have come to this call together, the caller among them: those that wait here when
 * no lane of the warp has anything else to do. With a seed, any part of them. As on a GPU nothing
 * is promised about who comes together. */
ACRE_API ACRE_SOFT_CALL uint32_t acre_soft_activemask(void);

/* The lanes of the mask that gave the same value. */
ACRE_API uint32_t acre_soft_match_any(uint32_t mask, uint64_t value);

/* The value that lane `lane` modulo 32, which has to be in the mask, gave. */
ACRE_API uint64_t acre_soft_shfl(uint32_t mask, uint64_t value, uint32_t lane);

/* The lanes of the mask whose predicate is not 0. */
ACRE_API uint32_t acre_soft_ballot(uint32_t mask, int predicate);

ACRE_API void acre_soft_syncwarp(uint32_t mask);

#ifdef __cplusplus
}
#endif

#endif
