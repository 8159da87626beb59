/* An ordered map from 64-bit keys to nodes that the caller embeds in its structs.
 *
 * A treap whose priorities are a hash of the key: balanced in expectation (depth about 2.5 log2 n)
 * for any order of insertion, and the same shape for the same keys. No allocation, no lock. */
#ifndef ACRE_BASE_TREE_H
#define ACRE_BASE_TREE_H

#include <stddef.h>
#include <stdint.h>

struct acre__node {
    uint64_t key;
    struct acre__node *left, *right;
};

struct acre__tree {
    struct acre__node *root;
    size_t count;
};

/* Inserts a node and returns 1. Keys are unique: returns 0 and changes nothing if the key
 * exists. */
int acre__tree_insert(struct acre__tree *tree, struct acre__node *node);
/* Removes a node, which must be in the tree. */
void acre__tree_remove(struct acre__tree *tree, struct acre__node *node);
struct acre__node *acre__tree_find(const struct acre__tree *tree, uint64_t key);
/* The node with the largest key <= `key`, or NULL. */
struct acre__node *acre__tree_floor(const struct acre__tree *tree, uint64_t key);
/* The node with the smallest key >= `key`, or NULL. */
struct acre__node *acre__tree_ceil(const struct acre__tree *tree, uint64_t key);
struct acre__node *acre__tree_first(const struct acre__tree *tree);
/* The node after `node`, or NULL. */
struct acre__node *acre__tree_next(const struct acre__tree *tree, const struct acre__node *node);

/* The struct that contains an embedded node; NULL for NULL. */
#define acre__tree_entry(node_, type, member)                                                      \
    ((type *)acre__tree_outer((node_), offsetof(type, member)))
static inline void *acre__tree_outer(const struct acre__node *node, size_t offset) {
    return node ? (char *)(uintptr_t)node - offset : NULL;
}

#endif
