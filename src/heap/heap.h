/* Heaps: the host side.
 *
 * A heap has two extents, whose addresses are reserved for the limit. One holds the blocks; the
 * other holds the records: the control, then the records of the segments. A kernel that waits for
 * memory polls pinned memory for the host's answer, and initialises the records of the segments
 * that it opens. The answer needs no copy: a copy may have to wait behind other copies that wait
 * for the kernel. If the host adds memory without a request, it writes the answer there too, and
 * copies it to the first line of the control on its own stream, for kernels that do not poll. While
 * kernels may run, the host writes nothing else.
 *
 * `lock` is held through every change, copies included. The service thread answers kernels that
 * wait for memory; it grows the heap with the same functions as acre_heap_grow. */
#ifndef ACRE_HEAP_HEAP_H
#define ACRE_HEAP_HEAP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "acre.h"
#include "acre_heap.h"
#include "base/lock.h"
#include "base/tree.h"
#include "device/device.h"
#include "device/live.h"
#include "space/book.h"
#include "space/extent.h"

/* Records copied at a time: 600 KB of pinned memory. */
enum { ACRE__HEAP_BATCH = 32, ACRE__HEAP_LINE_BYTES = 128 };

/* Pinned memory of a heap. */
struct acre__heap_pinned {
    acre__heap_wish wish; /* requests of kernels, answers of the host */
    uint8_t line[ACRE__HEAP_LINE_BYTES];
    acre_heap_segment batch[ACRE__HEAP_BATCH];
};

struct acre_heap {
    struct acre__live live; /* first: its address is the handle */
    acre_device *dev;
    acre_heap_handle h; /* what kernels get: device addresses, max_segments */
    struct acre__lock lock;
    /* Guarded by the lock. */
    struct acre__extent blocks, records;
    struct acre__block block, record_block; /* their entries in the book */
    struct acre__heap_pinned *pinned;
    uint64_t wish_address; /* device address of pinned->wish; 0: no service */
    acre_stream stream;
    uint64_t committed, is_full; /* as kernels see them */
    uint64_t answers;            /* number of answers of the host */
    uint64_t limit, step, ahead; /* segments */
    uint64_t wait_ns;
    uint64_t grows, asks, peak_bytes;
    int is_unsaid;             /* the control's first line may be out of date and must be written */
    int is_in_flight;          /* a copy from or to the pinned memory may be in flight */
    int is_refused;            /* growing ahead failed: no retry until something changes */
    _Atomic uint64_t short_ns; /* when a kernel's request found no memory; 0: not since the retry */
    uint64_t retry_ns;         /* time of the last retry after that */
    /* The service. */
    pthread_t thread;
    int has_thread;
    _Atomic int is_ending;
};

/* ---- copies (heap_copy.c); lock held ---- */

/* Copy between host memory, pinned or not, and the device; done when they return. */
acre_status acre__heap_write(acre_heap *heap, uint64_t to, const void *from, size_t bytes);
acre_status acre__heap_read(acre_heap *heap, void *to, uint64_t from, size_t bytes);

/* Writes the first `trees` trees, which follow the control, from an image of it. */
acre_status acre__heap_write_trees(acre_heap *heap, const acre_heap_control *image, uint32_t trees);

/* Writes records of the first `count` segments in which all pages are free, except those on desks,
 * which stay there. `desks` are the control's; NULL: none. */
acre_status acre__heap_write_free(acre_heap *heap, uint64_t count, const uint64_t *desks);

/* Writes a new control, with `opened` segments in the trees, and with these desks. */
acre_status acre__heap_write_control(acre_heap *heap, uint32_t opened, const uint64_t *desks);

/* The answer as kernels see it: its number, and whether the heap is full. */
static inline uint64_t acre__heap_answer(const acre_heap *heap) {
    return heap->answers << 1 | (heap->is_full != 0);
}

/* Publishes an answer to kernels that poll. */
void acre__heap_say(acre_heap *heap);

/* Publishes an answer to all kernels: also writes the control's first line. If that fails, it is
 * still to be written (is_unsaid). */
acre_status acre__heap_publish(acre_heap *heap);

static inline uint64_t acre__heap_segment_at(const acre_heap *heap, uint64_t segment) {
    return (uint64_t)(uintptr_t)heap->h.segments + segment * sizeof(acre_heap_segment);
}

/* ---- growth (heap_grow.c, heap_service.c); lock held ---- */

/* After a lack of memory, lets kernels ask again: at once for a new handle, else a second after it;
 * in any case at most once a second. */
void acre__heap_retry(acre_heap *heap, int is_handle);

/* Maps memory for `segments` in all; tells kernels that poll, or all kernels (is_published). */
acre_status acre__heap_grow_to(acre_heap *heap, uint64_t segments, int is_published);

/* Grows by a step if less than `ahead` segments are free. */
void acre__heap_grow_ahead(acre_heap *heap);

/* Updates the book to the memory that is mapped. */
void acre__heap_book(acre_heap *heap);

static inline uint64_t acre__heap_segments_for(uint64_t bytes) {
    return bytes / ACRE__HEAP_SEGMENT_BYTES + (bytes % ACRE__HEAP_SEGMENT_BYTES != 0);
}

/* ---- statistics and walks (heap_look.c) ---- */

/* Fills in the statistics. Lock held. */
acre_status acre__heap_census(acre_heap *heap, acre_heap_stats *stats);

/* The number of segments with records: kernels have opened these, in order. Lock held. */
acre_status acre__heap_opened(acre_heap *heap, uint64_t *opened);

/* acre_heap_walk with the lock held. */
acre_status acre__heap_walk(acre_heap *heap, acre_heap_walk_fn fn, void *user);

/* ---- inspection (heap_inspect.c) ---- */

/* Logs leaked blocks by tag. Lock held. */
void acre__heap_log_tags(acre_heap *heap);

/* ---- the service (heap_service.c) ---- */

/* Answers the request of a kernel. Returns 1 if there was one. */
int acre__heap_serve(acre_heap *heap);
acre_status acre__heap_service_begin(acre_heap *heap);
void acre__heap_service_end(acre_heap *heap);

/* ---- records, and the list of heaps (heap_grow.c) ---- */

/* Offset of the segments' records behind control and trees, and size of all records. */
size_t acre__heap_records_begin(uint32_t max_segments);
size_t acre__heap_records_bytes(uint32_t max_segments, uint64_t segments);

extern struct acre__live_list acre__heaps;

/* As acre__enter, and checks that this is a heap and that its device is not lost. */
static inline acre_status acre__heap_enter(const acre_heap *heap) {
    return acre__live_enter(&acre__heaps, heap);
}

/* Begin and end a call on a heap; between the two, after ACRE_OK, its lock is held. */
acre_status acre__heap_lock(acre_heap *heap);
acre_status acre__heap_unlock(acre_heap *heap, acre_status status);

#endif
