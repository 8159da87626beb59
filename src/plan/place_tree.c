/* Splits each range into O(log n) nodes, from the leaves upwards. */
#include "plan/place_tree.h"

#include <errno.h>
#include <stdlib.h>

int acre__place_tree_create(struct place_tree *tree, size_t sections) {
    tree->leaves = 1;
    while (tree->leaves < sections)
        tree->leaves *= 2;
    tree->nodes = calloc(2 * tree->leaves, sizeof *tree->nodes);
    return tree->nodes ? 0 : -ENOMEM;
}

void acre__place_tree_destroy(struct place_tree *tree) {
    free(tree->nodes);
}

static void tree_max(uint64_t *most, uint64_t value) {
    *most = value > *most ? value : *most;
}

static void tree_raise_node(struct place_tree_node *node, uint64_t value) {
    tree_max(&node->all, value);
    tree_max(&node->any, value);
}

void acre__place_tree_raise(struct place_tree *tree, size_t first, size_t end, uint64_t value) {
    struct place_tree_node *nodes = tree->nodes;
    size_t low = first + tree->leaves, high = end + tree->leaves;
    for (; low < high; low = (low + 1) / 2, high /= 2) {
        if (low & 1)
            tree_raise_node(&nodes[low], value);
        if (high & 1)
            tree_raise_node(&nodes[high - 1], value);
    }
    low = (first + tree->leaves) / 2;
    high = (end - 1 + tree->leaves) / 2;
    for (; low; low /= 2, high /= 2) {
        tree_max(&nodes[low].any, value);
        tree_max(&nodes[high].any, value);
    }
}

uint64_t acre__place_tree_most(const struct place_tree *tree, size_t first, size_t end) {
    const struct place_tree_node *nodes = tree->nodes;
    uint64_t most = 0;
    size_t low = first + tree->leaves, high = end + tree->leaves;
    for (; low < high; low = (low + 1) / 2, high /= 2) {
        if (low & 1)
            tree_max(&most, nodes[low].any);
        if (high & 1)
            tree_max(&most, nodes[high - 1].any);
    }
    low = first + tree->leaves;
    high = end - 1 + tree->leaves;
    for (; low; low /= 2, high /= 2) {
        tree_max(&most, nodes[low].all);
        tree_max(&most, nodes[high].all);
    }
    return most;
}
