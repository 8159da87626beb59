/* Statistics and walks of a heap. Its records are copied to the host in batches, and read there
 * (heap_image.c). */
#include <stdlib.h>

#include "base/options.h"
#include "base/status.h"
#include "heap/heap.h"
#include "heap/heap_image.h"

acre_status acre__heap_opened(acre_heap *heap, uint64_t *opened) {
    return acre__heap_read(heap, opened, (uintptr_t)&heap->h.control->opened, sizeof *opened);
}

/* Calls `fn` with the records of all opened segments, in batches, until it returns a value other
 * than 0. Lock held. */
typedef int (*look_fn)(const acre_heap_segment *batch, uint64_t first, uint64_t count, void *user);
static acre_status look_batches(acre_heap *heap, look_fn fn, void *user) {
    acre_heap_segment *batch = malloc(ACRE__HEAP_BATCH * sizeof *batch);
    uint64_t opened = 0;
    if (!batch)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory to read the records of a heap");
    acre_status status = acre__heap_opened(heap, &opened);
    for (uint64_t first = 0; first < opened && !status; first += ACRE__HEAP_BATCH) {
        uint64_t left = opened - first;
        uint64_t count = left < ACRE__HEAP_BATCH ? left : ACRE__HEAP_BATCH;
        status = acre__heap_read(heap, batch, acre__heap_segment_at(heap, first),
                                 (size_t)count * sizeof *batch);
        if (!status && fn(batch, first, count, user))
            break;
    }
    free(batch);
    return status;
}

/* ---- statistics ---- */

static int look_count(const acre_heap_segment *batch, uint64_t first, uint64_t count, void *user) {
    (void)first;
    acre__heap_image_count(batch, (size_t)count, user);
    return 0;
}

acre_status acre__heap_census(acre_heap *heap, acre_heap_stats *stats) {
    acre_heap_control *copy = malloc(sizeof *copy);
    if (!copy)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory to read the records of a heap");
    acre_status status = acre__heap_read(heap, copy, (uintptr_t)heap->h.control,
                                         offsetof(acre_heap_control, arenas));
    if (status == ACRE_OK) {
        stats->failed = copy->failed;
        stats->failed_bytes = copy->failed_bytes;
        stats->bad_alignment = copy->bad_alignment;
        stats->double_frees = copy->double_frees;
        stats->foreign_frees = copy->foreign_frees;
        stats->interior_frees = copy->interior_frees;
        stats->overruns = copy->overruns;
        stats->overrun_at = copy->overrun_at;
        stats->unmarked_frees = copy->unmarked;
        stats->lost_slots = copy->lost_slots;
        if (copy->opened < heap->committed)
            stats->free_bytes += (heap->committed - copy->opened) * ACRE__HEAP_SEGMENT_BYTES;
        for (uint32_t i = 0; i < 1u << ACRE__HEAP_DESKS_LOG2; i++)
            stats->free_bytes += (uint64_t)acre__heap_popc32(acre__heap_desk_pages(copy->desks[i]))
                                 << ACRE__HEAP_PAGE_LOG2;
        status = look_batches(heap, look_count, stats);
    }
    free(copy);
    stats->mapped_bytes = heap->blocks.mapped;
    stats->record_bytes = heap->records.mapped;
    stats->limit_bytes = heap->limit * ACRE__HEAP_SEGMENT_BYTES;
    stats->grows = heap->grows;
    stats->asks = heap->asks;
    for (uint32_t c = 0; c < ACRE_HEAP_CLASSES; c++)
        stats->classes[c].bytes = acre__heap_class_bytes(c);
    for (uint32_t c = 0; c < ACRE_HEAP_LARGE_CLASSES; c++)
        stats->large_classes[c].bytes = acre__heap_class_bytes(ACRE_HEAP_CLASSES + c);
    if (stats->live_bytes > heap->peak_bytes)
        heap->peak_bytes = stats->live_bytes;
    stats->peak_bytes = heap->peak_bytes;
    return status;
}

static acre_status heap_get_stats(acre_heap *heap, acre_heap_stats *stats) {
    acre_heap_stats now = {.struct_size = sizeof now};
    acre_status status = acre__heap_enter(heap);
    if (status || (status = acre__not_null(stats, "acre_heap_get_stats: stats")))
        return status;
    acre__lock_take(&heap->lock);
    status = acre__heap_unlock(heap, acre__heap_census(heap, &now));
    return status ? status : acre__options_out(stats, sizeof now, &now, "acre_heap_stats");
}

acre_status acre_heap_get_stats(acre_heap *heap, acre_heap_stats *stats) {
    return acre__in_call(heap_get_stats(heap, stats), "acre_heap_get_stats");
}

/* ---- walk ---- */

struct look_walk {
    acre_heap *heap;
    acre_heap_walk_fn fn;
    void *user;
};

static int look_walk(const acre_heap_segment *batch, uint64_t first, uint64_t count, void *user) {
    const struct look_walk *walk = user;
    char *address = walk->heap->h.base + first * ACRE__HEAP_SEGMENT_BYTES;
    return acre__heap_image_walk(batch, (size_t)count, address, walk->fn, walk->user);
}

acre_status acre__heap_walk(acre_heap *heap, acre_heap_walk_fn fn, void *user) {
    struct look_walk walk = {heap, fn, user};
    return look_batches(heap, look_walk, &walk);
}

static acre_status heap_walk(acre_heap *heap, acre_heap_walk_fn fn, void *user) {
    acre_status status = acre__heap_enter(heap);
    if (status || (status = acre__not_null(fn, "acre_heap_walk: fn")))
        return status;
    acre__lock_take(&heap->lock);
    return acre__heap_unlock(heap, acre__heap_walk(heap, fn, user));
}

acre_status acre_heap_walk(acre_heap *heap, acre_heap_walk_fn fn, void *user) {
    return acre__in_call(heap_walk(heap, fn, user), "acre_heap_walk");
}
