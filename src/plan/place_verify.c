/* Whether a plan is right, told by a sweep over time: what begins is looked up among what lives, in
 * a tree by offset, where only the two next to it can overlap it. */
#include "plan/place.h"

#include <stdlib.h>

#include "base/tree.h"

struct verify_event {
    int64_t time;
    size_t buffer;
    int is_begin;
};

struct verify_live {
    struct acre__node node; /* by offset */
    const struct acre__place_buffer *buffer;
};

static int verify_event_order(const void *a, const void *b) {
    const struct verify_event *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    if (x->is_begin != y->is_begin)
        return x->is_begin < y->is_begin ? -1 : 1;
    return (x->buffer > y->buffer) - (x->buffer < y->buffer);
}

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

int acre__place_verify(const struct acre__place_buffer *buffers, size_t count, uint64_t capacity,
                       size_t *first, size_t *second) {
    for (size_t i = 0; i < count; i++) {
        if (!verify_is_good(&buffers[i], capacity))
            return verify_say(first, second, i, i);
    }
    struct verify_event *events = calloc(2 * count + 1, sizeof *events);
    struct verify_live *live = calloc(count + 1, sizeof *live);
    struct acre__tree tree = {0};
    int rc = 0;
    if (!events || !live) {
        rc = verify_pairs(buffers, count, first, second);
        goto done;
    }
    for (size_t i = 0; i < count; i++) {
        events[2 * i] = (struct verify_event){buffers[i].lower, i, 1};
        events[2 * i + 1] = (struct verify_event){buffers[i].upper, i, 0};
    }
    qsort(events, 2 * count, sizeof *events, verify_event_order);
    for (size_t i = 0; i < 2 * count && rc == 0; i++) {
        size_t at = events[i].buffer;
        if (!events[i].is_begin) {
            acre__tree_remove(&tree, &live[at].node);
            continue;
        }
        const struct acre__place_buffer *other = verify_begin(&tree, &live[at], &buffers[at]);
        if (other)
            rc = verify_say(first, second, (size_t)(other - buffers), at);
    }
done:
    free(live);
    free(events);
    return rc;
}
