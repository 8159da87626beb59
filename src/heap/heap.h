/* Heaps: the host's side.
 *
 * A heap is two extents: one for blocks, whose addresses are reserved for the limit, and one for
 * records, the control first and those of the segments behind it. A kernel that waits for memory is
 * answered in pinned memory that it looks at itself, and makes the records of the segments that it
 * opens: nothing is copied, since copies may have to wait behind others that wait for the kernel.
 * What the host does of its own accord it says there too, and in the control's first line by a
 * copy on a stream of its own, for kernels that do not look. While kernels may be running it writes
 * nothing else.
 *
 * `lock` is held through every change, copies and all. The service thread answers kernels that wait
 * for memory, by the same growth as acre_heap_grow. */
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

/* Records copied at once: 600 KB of pinned memory. */
enum { ACRE__HEAP_BATCH = 32, ACRE__HEAP_LINE_BYTES = 128 };

/* Pinned memory of a heap. */
struct acre__heap_pinned {
    acre__heap_wish wish; /* written by kernels */
    uint8_t line[ACRE__HEAP_LINE_BYTES];
    acre_heap_segment batch[ACRE__HEAP_BATCH];
};

struct acre_heap {
    struct acre__live live; /* first: its address is the handle */
    acre_device *dev;
    acre_heap_handle h; /* device addresses; max_segments */
    struct acre__lock lock;
    /* Guarded by it. */
    struct acre__extent blocks, records;
    struct acre__block block, record_block; /* their places in the book */
    struct acre__heap_pinned *pinned;
    uint64_t wish_address; /* of pinned->wish for the device; 0: nobody serves */
    acre_stream stream;
    uint64_t committed, is_full; /* as kernels hear of them */
    uint64_t answers;            /* how often the host has said something */
    uint64_t limit, step, ahead; /* segments */
    uint64_t wait_ns;
    uint64_t grows, asks, peak_bytes;
    int is_unsaid;    /* the control's first line may not be up to date though it should */
    int is_in_flight; /* a copy from or to the pinned memory may still run */
    int is_refused;   /* growing ahead was: not again until something changes */
    /* The service. */
    pthread_t thread;
    int has_thread;
    _Atomic int is_ending;
};

/* ---- copies (heap_copy.c); lock held ---- */

/* Between host memory, pinned or not, and the device; done when they return. */
acre_status acre__heap_write(acre_heap *heap, uint64_t to, const void *from, size_t bytes);
acre_status acre__heap_read(acre_heap *heap, void *to, uint64_t from, size_t bytes);

/* The first trees, which lie behind the control, from an image of it. */
acre_status acre__heap_write_trees(acre_heap *heap, const acre_heap_control *image, uint32_t trees);

/* Makes the records of the first segments say that all of their pages are free but for those on
 * desks (of the control; NULL: none), which stay there. */
acre_status acre__heap_write_free(acre_heap *heap, uint64_t count, const uint64_t *desks);

/* The whole control as new, with `opened` segments in the trees, and with these desks. */
acre_status acre__heap_write_control(acre_heap *heap, uint32_t opened, const uint64_t *desks);

/* As kernels see it: what was said, and whether that is all. */
static inline uint64_t acre__heap_answer(const acre_heap *heap) {
    return heap->answers << 1 | (heap->is_full != 0);
}

/* Says what the host has to say, to kernels that ask. */
void acre__heap_say(acre_heap *heap);

/* The same to all: the control's first line too. After a failure that is still to be written
 * (is_unsaid). */
acre_status acre__heap_publish(acre_heap *heap);

static inline uint64_t acre__heap_segment_at(const acre_heap *heap, uint64_t segment) {
    return (uint64_t)(uintptr_t)heap->h.segments + segment * sizeof(acre_heap_segment);
}

/* ---- growth (heap.c); lock held ---- */

/* Memory for `segments` in all, said to kernels that ask, or to all (is_published). */
acre_status acre__heap_grow_to(acre_heap *heap, uint64_t segments, int is_published);

/* Grows by a step if less than the policy wants is free. */
void acre__heap_grow_ahead(acre_heap *heap);

/* Brings the book up to date with what is mapped. */
void acre__heap_book(acre_heap *heap);

static inline uint64_t acre__heap_segments_for(uint64_t bytes) {
    return bytes / ACRE__HEAP_SEGMENT_BYTES + (bytes % ACRE__HEAP_SEGMENT_BYTES != 0);
}

/* ---- looking (heap_look.c) ---- */

/* Live blocks and their bytes; 0 if the records cannot be read. Lock held. */
acre_status acre__heap_census(acre_heap *heap, acre_heap_stats *stats);

/* How many segments have records: kernels have opened those, in their order. Lock held. */
acre_status acre__heap_opened(acre_heap *heap, uint64_t *opened);

/* acre_heap_walk with the lock held. */
acre_status acre__heap_walk(acre_heap *heap, acre_heap_walk_fn fn, void *user);

/* ---- inspection (heap_inspect.c) ---- */

/* Logs the blocks that are left, by tag. Lock held. */
void acre__heap_log_tags(acre_heap *heap);

/* ---- the service (heap_service.c) ---- */

/* Answers what kernels have asked for since the last time: 1 if there was something. */
int acre__heap_serve(acre_heap *heap);
acre_status acre__heap_service_begin(acre_heap *heap);
void acre__heap_service_end(acre_heap *heap);

/* ---- which heaps there are (heap_grow.c) ---- */

/* Where the records of segments begin, behind the control and the trees, and how far they reach. */
size_t acre__heap_records_begin(uint32_t max_segments);
size_t acre__heap_records_bytes(uint32_t max_segments, uint64_t segments);

extern struct acre__live_list acre__heaps;

/* acre__enter, and that this is a heap, on a device that is well. */
static inline acre_status acre__heap_enter(const acre_heap *heap) {
    return acre__live_enter(&acre__heaps, heap);
}

/* How calls on a heap begin and, after ACRE_OK, end: its lock is held in between. */
acre_status acre__heap_lock(acre_heap *heap);
acre_status acre__heap_unlock(acre_heap *heap, acre_status status);

#endif
