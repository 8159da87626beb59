/* The records of a heap as plain memory: their initial contents, and how to read them. Everything
 * here works on ordinary host memory, whether it is the heap's own or a copy. */
#ifndef ACRE_HEAP_IMAGE_H
#define ACRE_HEAP_IMAGE_H

#include "acre.h"
#include "acre_heap.h"

/* Writes the control and the trees, acre__heap_control_bytes(max_segments), of a heap whose first
 * `segments` are mapped and free. */
void acre__heap_image_control(acre_heap_control *image, uint32_t max_segments, uint32_t segments);

/* Marks all pages free in zeroed records of segments. */
void acre__heap_image_free(acre_heap_segment *image, size_t count);

/* Calls `fn` for the live blocks in these records, in the order of addresses; `address` is that of
 * the first segment. Returns the last result of `fn`: 0 if it never ended the walk. */
int acre__heap_image_walk(const acre_heap_segment *image, size_t count, char *address,
                          acre_heap_walk_fn fn, void *user);

/* Adds the blocks and free pages of these records to the statistics. */
void acre__heap_image_count(const acre_heap_segment *image, size_t count, acre_heap_stats *stats);

#endif
