/* A treap: a search tree by key that is also a heap by priority, with the higher priority nearer
 * the root (Seidel and Aragon, "Randomized Search Trees", Algorithmica 16, 1996).
 *
 * The priority of a node is a hash of its key and is not stored. The hash is a bijection, so no two
 * nodes of a tree have the same priority. The shape therefore depends on the set of keys alone,
 * never on the order of insertion, and an equal key is found exactly where the new node would go.
 * Insertion splits and removal merges along one path each. Both walk down with a pointer to the
 * link to set, so nothing recurses. All operations take time proportional to the depth: 1.4 log2 n
 * for a node on average, below 3 log2 n for the deepest. Keys are addresses and numbers of acre, so
 * nobody picks them against the fixed hash.
 *
 * Takes no lock: the owner of the tree guards it. */
#include "base/tree.h"

#include <assert.h>

/* The finaliser of splitmix64: every step is invertible. */
static uint64_t tree_priority(const struct acre__node *node) {
    uint64_t x = node->key + 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

int acre__tree_insert(struct acre__tree *tree, struct acre__node *node) {
    uint64_t priority = tree_priority(node);
    struct acre__node **link = &tree->root;
    while (*link && tree_priority(*link) > priority)
        link = node->key < (*link)->key ? &(*link)->left : &(*link)->right;
    struct acre__node *at = *link;
    if (at && at->key == node->key)
        return 0;

    /* Split this subtree into the keys below and above the new one. */
    struct acre__node **below = &node->left, **above = &node->right;
    while (at) {
        if (at->key < node->key) {
            *below = at;
            below = &at->right;
            at = at->right;
        } else {
            *above = at;
            above = &at->left;
            at = at->left;
        }
    }
    *below = NULL;
    *above = NULL;
    *link = node;
    tree->count++;
    return 1;
}

void acre__tree_remove(struct acre__tree *tree, struct acre__node *node) {
    struct acre__node **link = &tree->root;
    while (*link && *link != node)
        link = node->key < (*link)->key ? &(*link)->left : &(*link)->right;
    assert(*link == node);
    if (!*link)
        return;

    struct acre__node *left = node->left, *right = node->right;
    while (left && right) {
        if (tree_priority(left) > tree_priority(right)) {
            *link = left;
            link = &left->right;
            left = left->right;
        } else {
            *link = right;
            link = &right->left;
            right = right->left;
        }
    }
    *link = left ? left : right;
    node->left = NULL;
    node->right = NULL;
    tree->count--;
}

struct acre__node *acre__tree_find(const struct acre__tree *tree, uint64_t key) {
    struct acre__node *at = tree->root;
    while (at && at->key != key)
        at = key < at->key ? at->left : at->right;
    return at;
}

struct acre__node *acre__tree_floor(const struct acre__tree *tree, uint64_t key) {
    struct acre__node *best = NULL;
    for (struct acre__node *at = tree->root; at;) {
        if (at->key <= key) {
            best = at;
            at = at->right;
        } else {
            at = at->left;
        }
    }
    return best;
}

struct acre__node *acre__tree_ceil(const struct acre__tree *tree, uint64_t key) {
    struct acre__node *best = NULL;
    for (struct acre__node *at = tree->root; at;) {
        if (at->key >= key) {
            best = at;
            at = at->left;
        } else {
            at = at->right;
        }
    }
    return best;
}

struct acre__node *acre__tree_first(const struct acre__tree *tree) {
    return acre__tree_ceil(tree, 0);
}

struct acre__node *acre__tree_next(const struct acre__tree *tree, const struct acre__node *node) {
    return node->key == UINT64_MAX ? NULL : acre__tree_ceil(tree, node->key + 1);
}
