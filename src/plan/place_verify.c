/* Whether a plan is right. From the bottom up, each buffer must begin at or above the highest end
 * of all before it that share a moment with it; a tree over moments knows that. If one does not, a
 * sweep over time finds the first two that overlap: what begins is looked up among what lives, in a
 * tree by offset, where only the two next to it can overlap it. */
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

/* ---- from the bottom up ---- */

/* A complete binary tree over moments: node k has 2k and 2k + 1 below it. */
struct verify_node {
    uint64_t all; /* the highest end of a buffer that was laid on all of its moments at once */
    uint64_t any; /* the highest end over any of them, as far as this node and those below know */
};

struct verify_tree {
    struct verify_node *nodes;
    size_t leaves; /* a power of two */
};

/* The highest end over moments [first, end). */
static uint64_t verify_top(const struct verify_tree *tree, size_t first, size_t end) {
    const struct verify_node *nodes = tree->nodes;
    uint64_t top = 0;
    size_t low = first + tree->leaves, high = end + tree->leaves;
    for (; low < high; low = (low + 1) / 2, high /= 2) {
        if (low & 1 && nodes[low].any > top)
            top = nodes[low].any;
        if (high & 1 && nodes[high - 1].any > top)
            top = nodes[high - 1].any;
    }
    low = first + tree->leaves;
    high = end - 1 + tree->leaves;
    for (; low; low /= 2, high /= 2) {
        top = nodes[low].all > top ? nodes[low].all : top;
        top = nodes[high].all > top ? nodes[high].all : top;
    }
    return top;
}

/* Nothing over these moments ends above `top`, which is their highest end from now on. */
static void verify_lay(struct verify_tree *tree, size_t first, size_t end, uint64_t top) {
    struct verify_node *nodes = tree->nodes;
    size_t low = first + tree->leaves, high = end + tree->leaves;
    for (; low < high; low = (low + 1) / 2, high /= 2) {
        if (low & 1)
            nodes[low] = (struct verify_node){top, top};
        if (high & 1)
            nodes[high - 1] = (struct verify_node){top, top};
    }
    low = (first + tree->leaves) / 2;
    high = (end - 1 + tree->leaves) / 2;
    for (; low; low /= 2, high /= 2) {
        nodes[low].any = top > nodes[low].any ? top : nodes[low].any;
        nodes[high].any = top > nodes[high].any ? top : nodes[high].any;
    }
}

struct verify_life {
    uint32_t first, end; /* moments, by number */
};

/* Numbers the moments at which something begins after something has ended. `rows` has room for
 * three times as many. */
static size_t verify_number(const struct acre__place_buffer *buffers, uint32_t count,
                            struct place_row *rows, struct verify_life *lives) {
    struct place_row *begins = rows, *ends = rows + count, *spare = ends + count;
    struct place_meter meter = {0};
    uint32_t moment = 0, was_end = 0;
    for (uint32_t i = 0; i < count; i++) {
        begins[i] = (struct place_row){place_time_key(buffers[i].lower), i};
        ends[i] = (struct place_row){place_time_key(buffers[i].upper), i};
    }
    acre__place_sort(begins, spare, count, &meter);
    acre__place_sort(ends, spare, count, &meter);
    for (uint32_t b = 0, e = 0; e < count;) {
        if (b < count && begins[b].key < ends[e].key) {
            moment += was_end;
            lives[begins[b++].item].first = moment;
            was_end = 0;
        } else {
            lives[ends[e++].item].end = moment + 1;
            was_end = 1;
        }
    }
    return (size_t)moment + 1;
}

/* 1: right, 0: wrong, or there is no memory to tell. */
static int verify_is_right(const struct acre__place_buffer *buffers, uint32_t count) {
    struct place_row *rows = malloc((3 * (size_t)count + 1) * sizeof *rows);
    struct verify_life *lives = malloc(((size_t)count + 1) * sizeof *lives);
    struct verify_tree tree = {.leaves = 1};
    struct place_meter meter = {0};
    int is_right = 0;
    if (!rows || !lives)
        goto done;
    size_t moments = verify_number(buffers, count, rows, lives);
    while (tree.leaves < moments)
        tree.leaves *= 2;
    tree.nodes = calloc(2 * tree.leaves, sizeof *tree.nodes);
    if (!tree.nodes)
        goto done;
    for (uint32_t i = 0; i < count; i++)
        rows[i] = (struct place_row){buffers[i].offset, i};
    acre__place_sort(rows, rows + count, count, &meter);
    is_right = 1;
    for (uint32_t k = 0; k < count && is_right; k++) {
        const struct acre__place_buffer *buffer = &buffers[rows[k].item];
        struct verify_life life = lives[rows[k].item];
        is_right = verify_top(&tree, life.first, life.end) <= buffer->offset;
        verify_lay(&tree, life.first, life.end, buffer->offset + buffer->size);
    }
done:
    free(tree.nodes);
    free(lives);
    free(rows);
    return is_right;
}

int acre__place_verify(const struct acre__place_buffer *buffers, size_t count, uint64_t capacity,
                       size_t *first, size_t *second) {
    for (size_t i = 0; i < count; i++) {
        if (!verify_is_good(&buffers[i], capacity))
            return verify_say(first, second, i, i);
    }
    if (count <= UINT32_MAX && verify_is_right(buffers, (uint32_t)count))
        return 0;
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
