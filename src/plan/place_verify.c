/* Verifies a plan. From the bottom up, each buffer must begin at or above the highest end of all
 * earlier buffers that share a section with it; a tree over sections tracks these ends. The first
 * buffer that does not is compared with all others. */
#include "plan/place.h"

#include <stdlib.h>

#include "plan/place_problem.h"
#include "plan/place_sort.h"
#include "plan/place_tree.h"

static int verify_is_good(const struct acre__place_buffer *buffer, uint64_t capacity) {
    uint64_t align = buffer->align ? buffer->align : 1;
    if (buffer->size == 0 || buffer->upper <= buffer->lower || (align & (align - 1)) ||
        buffer->offset & (align - 1) || buffer->offset > UINT64_MAX - buffer->size)
        return 0;
    return capacity == 0 || buffer->offset + buffer->size <= capacity;
}

static int verify_say(size_t *first, size_t *second, size_t one, size_t two) {
    if (first)
        *first = one < two ? one : two;
    if (second)
        *second = one < two ? two : one;
    return -1;
}

/* Returns the first buffer that overlaps the given one, or `count`. */
static size_t verify_other(const struct acre__place_buffer *buffers, size_t count, size_t one) {
    const struct acre__place_buffer *a = &buffers[one];
    for (size_t i = 0; i < count; i++) {
        const struct acre__place_buffer *b = &buffers[i];
        if (i != one && a->lower < b->upper && b->lower < a->upper &&
            a->offset < b->offset + b->size && b->offset < a->offset + a->size)
            return i;
    }
    return count;
}

/* Returns the lowest buffer that overlaps an earlier one, or `count` if none does. Out of memory it
 * returns 0, so that the caller compares all. */
static uint32_t verify_lowest(const struct acre__place_buffer *buffers, uint32_t count) {
    struct place_meter meter = {0};
    struct place_tree tree = {0};
    struct place_row *rows = malloc((2 * (size_t)count + 1) * sizeof *rows);
    struct place_life *lives = malloc(((size_t)count + 1) * sizeof *lives);
    uint32_t lowest = 0, sections = 0;
    if (rows && lives)
        sections = acre__place_sections(buffers, count, lives, &meter);
    if (sections == 0 || acre__place_tree_create(&tree, sections))
        goto done;
    for (uint32_t i = 0; i < count; i++)
        rows[i] = (struct place_row){buffers[i].offset, i};
    acre__place_sort(rows, rows + count, count, &meter);
    lowest = count;
    for (uint32_t k = 0; k < count && lowest == count; k++) {
        const struct acre__place_buffer *buffer = &buffers[rows[k].item];
        struct place_life life = lives[rows[k].item];
        if (acre__place_tree_most(&tree, life.first, life.end) > buffer->offset)
            lowest = rows[k].item;
        acre__place_tree_raise(&tree, life.first, life.end, buffer->offset + buffer->size);
    }
done:
    acre__place_tree_destroy(&tree);
    free(lives);
    free(rows);
    return lowest;
}

int acre__place_verify(const struct acre__place_buffer *buffers, size_t count, uint64_t capacity,
                       size_t *first, size_t *second) {
    for (size_t i = 0; i < count; i++) {
        if (!verify_is_good(&buffers[i], capacity))
            return verify_say(first, second, i, i);
    }
    size_t one = count <= UINT32_MAX ? verify_lowest(buffers, (uint32_t)count) : 0;
    for (; one < count; one++) {
        size_t other = verify_other(buffers, count, one);
        if (other < count)
            return verify_say(first, second, one, other);
    }
    return 0;
}
