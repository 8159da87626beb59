/* acre_soft: kernels on the soft device, as C functions over a grid.
 *
 * acre calls a kernel function once for every thread of a grid of blocks. The threads of a block
 * have a barrier and shared memory. The threads of a warp have the lane functions below, which do
 * what CUDA's __shfl_sync, __ballot_sync, __match_any_sync, __syncwarp and __activemask do. Code
 * that calls them through macros can be compiled for the GPU and for the CPU, where sanitizers, a
 * debugger and repeatable schedules (ACRE_SOFT_SEED) are available.
 *
 * A warp has 32 lanes, or 1 with ACRE_SOFT_WARP=1. acre runs a kernel with one host thread per
 * processor, at most 64. With 32 lanes, one host thread runs a whole block: a lane runs until it
 * waits, then the next lane runs. So as many blocks run at the same time as there are host threads,
 * or fewer if these blocks would have more than 16384 threads together. With 1 lane, a block uses
 * as many host threads as it has threads, so a large block runs alone. The order of blocks is
 * undefined. With ACRE_SOFT_SEED one lane runs at a time, chosen by a random number generator with
 * that seed.
 *
 * Rules for kernels:
 * - A kernel may follow device pointers: the memory of its device is accessible while a kernel of
 *   the device runs.
 * - It has a stack of 64 KiB.
 * - It may call no function of acre but those declared here. Driver calls fail.
 * - A loop that waits for another thread of the grid or for the host must call acre_soft_yield.
 *   Otherwise that other thread may never run.
 * - A fault inside a kernel, such as a segmentation fault, is a fault of the process. longjmp and
 *   exceptions must not leave a kernel.
 *
 * The functions below also work on plain host threads. Such a thread is a warp of one lane, in a
 * block of one thread, in a grid of one block. */
#ifndef ACRE_SOFT_H
#define ACRE_SOFT_H

#include "stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A kernel. `arg` is the last argument of acre_soft_launch, the same for every thread. */
typedef void (*acre_soft_kernel)(void *arg);

/* Queues a kernel on a stream of a soft device. `grid` is the number of blocks and `block` the
 * number of threads in a block, in x, y and z. The limits are CUDA's: 2^31 - 1, 65535 and 65535
 * blocks; 1024, 1024 and 64 threads, and 1024 in all. Each block has `shared_bytes` of shared
 * memory, at most 227 KiB, whose contents are undefined when the block starts. `arg` and the memory
 * that it points to must stay valid until the kernel is done. On a stream under capture the kernel
 * becomes a part of the graph, and `arg` must stay valid until the last launch of the graph is
 * done.
 * Returns ACRE_E_NULL (fn, grid or block); ACRE_E_INVALID (a number that is 0 or above its limit,
 * or too much shared memory); ACRE_E_UNSUPPORTED (not a soft device, or called inside a kernel);
 * ACRE_E_HANDLE; ACRE_E_CAPTURING (the capture was invalidated); ACRE_E_CONFIG (ACRE_SOFT_WARP is
 * not 1 or 32); ACRE_E_HOST_MEMORY; ACRE_E_DEVICE_LOST.
 * A kernel that misuses the lane functions is logged and ended, and the device is lost. The device
 * is also lost if there is no memory for the lanes. Later calls then return ACRE_E_DEVICE_LOST, as
 * after a faulting kernel on a GPU.
 * Sync: returns before the kernel has run. */
ACRE_API acre_status acre_soft_launch(acre_device *device, acre_stream stream, acre_soft_kernel fn,
                                      const uint32_t grid[3], const uint32_t block[3],
                                      size_t shared_bytes, void *arg);

/* Makes soft devices lag behind the host, as a busy GPU does. Applies to all soft devices of the
 * process. With `operations`, queued work begins only after that many more copies, fills, kernels
 * or host functions were queued on any stream. With `ns`, it begins that many nanoseconds after it
 * was queued. At least one of the two must be 0; passing 0 for both ends the lag. A call of this
 * function ends the lag of all work that is already queued: that work may begin at once. The new
 * lag applies only to work queued later. ACRE_SOFT_LAG=1000 or ACRE_SOFT_LAG=5ms sets the lag from
 * the start.
 *
 * A lag in operations is deterministic for copies and fills: every call that enters the soft
 * driver, from acre or from the program, runs all copies and fills that are due, in its own thread,
 * before it returns. Kernels and host functions run on other threads. If the host waits for work,
 * or makes 10,000 queries without queueing work in between, the device catches up.
 * Returns ACRE_E_INVALID (both are given); ACRE_E_UNSUPPORTED (not a soft device, or a time
 * together with ACRE_SOFT_SEED); ACRE_E_HANDLE. */
ACRE_API acre_status acre_soft_set_lag(acre_device *device, uint64_t operations, uint64_t ns);

/* ---- Position of the calling thread ------------------------------------------------------------
 */

/* Return the calling thread's position in its launch, or a size of the launch. `dimension` is 0, 1
 * or 2 for x, y or z; for other values the index is 0 and the size 1. */
ACRE_API uint32_t acre_soft_thread_index(uint32_t dimension);
ACRE_API uint32_t acre_soft_block_index(uint32_t dimension);
ACRE_API uint32_t acre_soft_block_size(uint32_t dimension);
ACRE_API uint32_t acre_soft_grid_size(uint32_t dimension);

/* Returns 1 inside a kernel, 0 on a plain thread. */
ACRE_API int acre_soft_in_kernel(void);

/* Returns a small number that stands for the multiprocessor. All threads of a block get the same
 * number. Blocks of one launch that run at the same time get different numbers; blocks of two
 * launches may get the same. On a plain thread the number is a hash of the thread, below 128. */
ACRE_API uint32_t acre_soft_sm(void);

/* ---- The block ---------------------------------------------------------------------------------
 */

/* Returns the block's shared memory, aligned to 128 bytes; NULL if the block has none. */
ACRE_API void *acre_soft_shared(void);

/* Waits until every thread of the block that has not ended has reached a barrier. */
ACRE_API void acre_soft_syncthreads(void);

/* Lets other lanes of the warp, other threads of the block and other threads of the machine run. */
ACRE_API void acre_soft_yield(void);

/* ---- The warp ----------------------------------------------------------------------------------
 * A function with a mask waits until all lanes of the mask have called the same function with the
 * same mask. The mask must contain the caller, and no lane that has ended. A lane that waits for an
 * ended lane, or that can never continue, is a bug in the kernel: acre logs it and ends the launch.
 */

/* Returns the number of the lane in its warp, 0 to 31. */
ACRE_API uint32_t acre_soft_lane(void);

/* Keeps compilers that support it from merging two calls in different branches into one. */
#if defined(__has_attribute)
#if __has_attribute(nomerge)
#define ACRE_SOFT_CALL __attribute__((nomerge))
#endif
#endif
#ifndef ACRE_SOFT_CALL
#define ACRE_SOFT_CALL
#endif

/* Returns the lanes that have reached this call together, including the caller. A lane waits here
 * until no other lane of the warp can run, or for a bounded time if others keep running. Then all
 * lanes that wait at the same call return together. With a seed they may return earlier, without
 * lanes that would still arrive. As on a GPU, nothing is guaranteed about which lanes come
 * together. */
ACRE_API ACRE_SOFT_CALL uint32_t acre_soft_activemask(void);

/* Returns the lanes of the mask that passed the same value. */
ACRE_API uint32_t acre_soft_match_any(uint32_t mask, uint64_t value);

/* Returns the value that lane `lane` modulo 32 passed. That lane must be in the mask. */
ACRE_API uint64_t acre_soft_shfl(uint32_t mask, uint64_t value, uint32_t lane);

/* Returns the lanes of the mask whose predicate is not 0. */
ACRE_API uint32_t acre_soft_ballot(uint32_t mask, int predicate);

/* Waits until all lanes of the mask have called it. */
ACRE_API void acre_soft_syncwarp(uint32_t mask);

#ifdef __cplusplus
}
#endif

#endif
