/* The records of a heap as plain memory: what a new heap's look like, and what they tell.
 * Everything here works on ordinary host memory, whether the heap's own or a copy of it. */
#ifndef ACRE_HEAP_IMAGE_H
#define ACRE_HEAP_IMAGE_H

#include "acre.h"
#include "acre_heap.h"

/* Writes acre__heap_control_bytes(max_segments): a heap of which the first `segments` have memory
 * and are free. */
void acre__heap_image_control(acre_heap_control *image, uint32_t max_segments, uint32_t segments);

/* Makes zeroed records of segments say that all pages are free. */
void acre__heap_image_free(acre_heap_segment *image, size_t count);

/* Live blocks in the records of segments first .. first + count - 1, by rising addresses. Returns
 * what `fn` returned last: 0 if it never ended the walk. */
int acre__heap_image_walk(const acre_heap_segment *image, size_t count, char *address,
                          acre_heap_walk_fn fn, void *user);

/* Adds what these records tell to the statistics. */
void acre__heap_image_count(const acre_heap_segment *image, size_t count, acre_heap_stats *stats);

#endif
