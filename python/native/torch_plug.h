/* libacre_torch.so: acre's pools behind PyTorch's CUDAPluggableAllocator.
 *
 * PyTorch calls the first five functions, by address, from any thread. The package acre.torch calls
 * the others through ctypes. Only the public API of libacre is used, and no header of PyTorch: the
 * types that PyTorch passes are plain C, except for begin_pool, whose C++ part is
 * python/acre/torch/torch_throw.cpp.
 *
 * Devices are numbered as in PyTorch. A device is opened at its first allocation, as "cuda:<n>", or
 * earlier by acre_torch_open. */
#ifndef ACRE_TORCH_PLUG_H
#define ACRE_TORCH_PLUG_H

#include <stddef.h>
#include <stdint.h>

#include "acre.h"

#define ACRE_TORCH_API __attribute__((visibility("default")))

/* ---- called by PyTorch ---- */

/* Allocates for work of a stream. Returns NULL for 0 bytes and after a failure, which
 * acre_torch_failure then describes. */
ACRE_TORCH_API void *acre_torch_alloc(size_t bytes, int device, acre_stream stream);

/* Frees a block in order of the stream that it was allocated for, and of the streams that
 * acre_torch_record_stream named. If one of these streams was destroyed, the call waits for the
 * device. A free that acre refuses is counted, never reported: PyTorch frees in destructors, also
 * at exit and in forked children. */
ACRE_TORCH_API void acre_torch_free(void *p, size_t bytes, int device, acre_stream stream);

/* Tells that `stream` uses a block. As in PyTorch, all work queued on the stream until the block is
 * freed counts, also work queued after this call. */
ACRE_TORCH_API void acre_torch_record_stream(void *p, acre_stream stream);

/* Releases free memory of all devices to the driver: torch.cuda.empty_cache. */
ACRE_TORCH_API void acre_torch_reset(void);

/* Limits what acre holds on a device to a part of its memory; 1 removes the limit. */
ACRE_TORCH_API void acre_torch_memory_fraction(double fraction, int device);

/* ---- captures ---- */

/* Returns whether a stream takes part in the capture. */
typedef int (*acre_torch_filter_fn)(void *user, acre_stream stream);

/* Between begin and end, captures of streams that the filter accepts share the memory of a pool of
 * PyTorch, which two numbers identify. PyTorch releases a pool once for each begin; after the last
 * release its memory is free again when the graphs are destroyed. `drop`, which may be NULL, frees
 * `user` when the filter is not called any more. */
ACRE_TORCH_API void acre_torch_begin_pool(int device, uint64_t first, uint64_t second,
                                          acre_torch_filter_fn filter, void *user,
                                          void (*drop)(void *user));
ACRE_TORCH_API void acre_torch_end_pool(int device, uint64_t first, uint64_t second);
ACRE_TORCH_API void acre_torch_release_pool(int device, uint64_t first, uint64_t second);

/* ---- regions ---- */

/* A region serves allocations under a tag, from the device's default pool or from a pool of its
 * own. Regions exist until the process ends. */

enum { ACRE_TORCH_REGIONS = 32 };

#define ACRE_TORCH_OWN_POOL 1u /* the region has a pool of its own on each device */

/* Finds or creates the region of a tag ("kv", "model/kv"; "" is no tag) with these flags. A tag has
 * at most 16 names. Returns its number, or a negative acre_status: ACRE_E_LIMIT if there are
 * ACRE_TORCH_REGIONS already. */
ACRE_TORCH_API int acre_torch_region(const char *tag, uint32_t flags);

/* Makes the calling thread allocate in a region, until the matching leave; -1 means in none, even
 * if other regions are entered. Regions nest. */
ACRE_TORCH_API acre_status acre_torch_enter(int region);
ACRE_TORCH_API void acre_torch_leave(void);

/* Makes threads that are in no region allocate in this one for work of a stream. PyTorch runs
 * backward in threads of its own, on the streams of forward. */
ACRE_TORCH_API acre_status acre_torch_enter_stream(int region, int device, acre_stream stream);
ACRE_TORCH_API void acre_torch_leave_stream(int region, int device, acre_stream stream);

/* Gets a region's pool on a device, which is created if it does not exist. For a region without
 * ACRE_TORCH_OWN_POOL, and for -1, that is the default pool. */
ACRE_TORCH_API acre_status acre_torch_pool_of(int region, int device, acre_pool **pool);

/* Returns a function like acre_torch_alloc that allocates in a region, whichever thread calls it:
 * for torch.cuda.MemPool. The function of region 7 is also exported as acre_torch_alloc_7. NULL for
 * other numbers. */
typedef void *(*acre_torch_alloc_fn)(size_t bytes, int device, acre_stream stream);
ACRE_TORCH_API acre_torch_alloc_fn acre_torch_alloc_of(int region);

/* Allocations that need memory from the card fail if less than so many bytes of it would be free
 * then, whoever has the rest; on all devices. 0: no margin. */
ACRE_TORCH_API void acre_torch_set_margin(uint64_t bytes);

/* ---- devices, failures, statistics ---- */

/* Opens a device of PyTorch by acre's name for it; NULL: "cuda:<n>". If the device is open already,
 * the call succeeds and changes nothing. */
ACRE_TORCH_API acre_status acre_torch_open(int device, const char *name);

/* Gets the device, or NULL if it is not open. */
ACRE_TORCH_API acre_device *acre_torch_device(int device);

/* Writes what the calling thread's last failed allocation should say, with acre's report, and a
 * terminating zero. Returns 1 if memory ran out, 2 for another failure, 0 if none failed yet. */
ACRE_TORCH_API int acre_torch_failure(char *text, size_t size);

/* With `want` 1, a failed allocation is also written to stderr: for PyTorch without
 * torch_throw.cpp, which does not notice that memory is missing. */
ACRE_TORCH_API void acre_torch_tell_failures(int want);

/* As in PyTorch's statistics. `total` and `freed` count since acre_torch_reset_totals, `peak` since
 * acre_torch_reset_peaks. */
struct acre_torch_counter {
    uint64_t current, peak, total, freed;
};

struct acre_torch_stats {
    struct acre_torch_counter allocated; /* bytes, rounded up to 512 as PyTorch does */
    struct acre_torch_counter requested; /* bytes */
    struct acre_torch_counter blocks;
    struct acre_torch_counter held; /* bytes that the pools took from the driver */
    uint64_t failures;              /* allocations that failed */
    uint64_t wrong_frees;           /* frees that acre refused */
    uint64_t recorded;              /* calls of acre_torch_record_stream */
    uint64_t late_frees;            /* frees that waited for the device: a stream was destroyed */
};

/* Gets the statistics of a device; all zero if it is not open. Between two calls acre does not see
 * `held` rise and fall again below its earlier peak. */
ACRE_TORCH_API void acre_torch_get_stats(int device, struct acre_torch_stats *stats);
ACRE_TORCH_API void acre_torch_reset_peaks(int device);
ACRE_TORCH_API void acre_torch_reset_totals(int device);

/* Called after each allocation and before each free (is_free 1), in the thread that makes it. NULL:
 * none. */
typedef void (*acre_torch_watch_fn)(void *p, size_t bytes, int is_free);
ACRE_TORCH_API void acre_torch_set_watch(acre_torch_watch_fn fn);

#endif
