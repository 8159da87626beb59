/* Whether a plan is right, told by a sweep over time: what begins is looked up among what lives, in
 * a tree by offset, where only the two next to it can overlap it. */
#include "plan/place.h"

#include <stdlib.h>

#include "base/tree.h"
#include "plan/place_sort.h"

struct verify_live {
    struct acre__node node; /* by offset */
    const struct acre__place_buffer *buffer;
};

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

/* Without memory for the sweep: every pair. */
static int verify_pairs(const struct acre__place_buffer *buffers, size_t count, size_t *first,
                        size_t *second) {
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < i; k++) {
            const struct acre__place_buffer *a = &buffers[i], *b = &buffers[k];
            if (a->lower < b->upper && b->lower < a->upper && a->offset < b->offset + b->size &&
                b->offset < a->offset + a->size)
                return verify_say(first, second, k, i);
        }
    }
    return 0;
}

/* Puts the buffer among those that live. Returns one that it overlaps, or NULL. */
static const struct acre__place_buffer *verify_begin(struct acre__tree *tree,
                                                     struct verify_live *live,
                                                     const struct acre__place_buffer *buffer) {
    struct acre__node *node = acre__tree_floor(tree, buffer->offset);
    if (node) {
        const struct acre__place_buffer *below =
            acre__tree_entry(node, struct verify_live, node)->buffer;
        if (below->offset + below->size > buffer->offset)
            return below;
    }
    node = acre__tree_ceil(tree, buffer->offset);
    if (node && node->key < buffer->offset + buffer->size)
        return acre__tree_entry(node, struct verify_live, node)->buffer;
    live->buffer = buffer;
    live->node.key = buffer->offset;
    acre__tree_insert(tree, &live->node);
    return NULL;
}

/* Goes through time: what ends at a moment does so before anything begins. `rows` has room for
 * three times as many. */
static int verify_sweep(const struct acre__place_buffer *buffers, uint32_t count,
                        struct place_row *rows, struct verify_live *live, size_t *first,
                        size_t *second) {
    struct place_row *begins = rows, *ends = rows + count, *spare = ends + count;
    struct place_meter meter = {0};
    struct acre__tree tree = {0};
    for (uint32_t i = 0; i < count; i++) {
        begins[i] = (struct place_row){place_time_key(buffers[i].lower), i};
        ends[i] = (struct place_row){place_time_key(buffers[i].upper), i};
    }
    acre__place_sort(begins, spare, count, &meter);
    acre__place_sort(ends, spare, count, &meter);
    for (uint32_t b = 0, e = 0; b < count;) {
        if (ends[e].key <= begins[b].key) {
            acre__tree_remove(&tree, &live[ends[e++].item].node);
            continue;
        }
        uint32_t at = begins[b++].item;
        const struct acre__place_buffer *other = verify_begin(&tree, &live[at], &buffers[at]);
        if (other)
            return verify_say(first, second, (size_t)(other - buffers), at);
    }
    return 0;
}

int acre__place_verify(const struct acre__place_buffer *buffers, size_t count, uint64_t capacity,
                       size_t *first, size_t *second) {
    for (size_t i = 0; i < count; i++) {
        if (!verify_is_good(&buffers[i], capacity))
            return verify_say(first, second, i, i);
    }
    struct place_row *begins = NULL;
    if (count <= UINT32_MAX)
        begins = malloc((3 * count + 1) * sizeof *begins);
    struct verify_live *live = calloc(count + 1, sizeof *live);
    int rc = begins && live ? verify_sweep(buffers, (uint32_t)count, begins, live, first, second)
                            : verify_pairs(buffers, count, first, second);
    free(live);
    free(begins);
    return rc;
}
