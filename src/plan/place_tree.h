/* Range maximum over sections: a complete binary tree. The children of node k are 2k and 2k + 1. */
#ifndef ACRE_PLAN_PLACE_TREE_H
#define ACRE_PLAN_PLACE_TREE_H

#include <stddef.h>
#include <stdint.h>

struct place_tree_node {
    uint64_t all; /* the highest value that all of its sections were raised to at once */
    uint64_t any; /* the highest value of any of its sections that is known at this node or below */
};

struct place_tree {
    struct place_tree_node *nodes;
    size_t leaves; /* a power of two */
};

/* Creates a tree of zeros. Returns 0 or -ENOMEM; destroy it in any case. */
int acre__place_tree_create(struct place_tree *tree, size_t sections);
void acre__place_tree_destroy(struct place_tree *tree);

/* Raises sections [first, end) to at least a value. O(log n). */
void acre__place_tree_raise(struct place_tree *tree, size_t first, size_t end, uint64_t value);

/* The highest value of sections [first, end). O(log n). */
uint64_t acre__place_tree_most(const struct place_tree *tree, size_t first, size_t end);

#endif
