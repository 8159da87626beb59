/* The tree compared with a sorted array, on random operations and on insertion orders that
 * degenerate plain search trees. The test prints the seed; ACRE_TEST_SEED sets it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support/cases.h"
#include "base/tree.h"
#include "support/random.h"

enum { OPERATIONS = 100000, KEYS = 2000, MANY = 100000 };

struct item {
    char before[24]; /* so that the node is not at the start of its struct */
    struct acre__node node;
};

static uint64_t random_state;

/* ---- the sorted array ---- */

static struct {
    uint64_t keys[KEYS];
    size_t count;
} naive;

/* Returns the index of the first key >= `key`. */
static size_t naive_ceil(uint64_t key) {
    size_t i = 0;
    while (i < naive.count && naive.keys[i] < key)
        i++;
    return i;
}

static int naive_has(uint64_t key) {
    size_t i = naive_ceil(key);
    return i < naive.count && naive.keys[i] == key;
}

static void naive_insert(uint64_t key) {
    size_t i = naive_ceil(key);
    memmove(&naive.keys[i + 1], &naive.keys[i], (naive.count - i) * sizeof *naive.keys);
    naive.keys[i] = key;
    naive.count++;
}

static void naive_remove(uint64_t key) {
    size_t i = naive_ceil(key);
    naive.count--;
    memmove(&naive.keys[i], &naive.keys[i + 1], (naive.count - i) * sizeof *naive.keys);
}

/* ---- helpers ---- */

static size_t depth(const struct acre__node *node) {
    if (!node)
        return 0;
    size_t left = depth(node->left), right = depth(node->right);
    return 1 + (left > right ? left : right);
}

static size_t shape(const struct acre__node *node, uint64_t *keys, size_t at) {
    if (!node) {
        keys[at] = UINT64_MAX;
        return at + 1;
    }
    keys[at] = node->key;
    return shape(node->right, keys, shape(node->left, keys, at + 1));
}

static void check_equal_to_naive(const struct acre__tree *tree) {
    assert_int_equal(tree->count, naive.count);
    size_t i = 0;
    for (struct acre__node *n = acre__tree_first(tree); n; n = acre__tree_next(tree, n), i++) {
        assert_true(i < naive.count);
        assert_int_equal(n->key, naive.keys[i]);
    }
    assert_int_equal(i, naive.count);
}

static void check_lookups(const struct acre__tree *tree, uint64_t key) {
    struct acre__node *found = acre__tree_find(tree, key);
    assert_int_equal(found != NULL, naive_has(key));
    if (found)
        assert_int_equal(found->key, key);

    size_t at = naive_ceil(key);
    struct acre__node *ceil = acre__tree_ceil(tree, key);
    assert_int_equal(ceil != NULL, at < naive.count);
    if (ceil)
        assert_int_equal(ceil->key, naive.keys[at]);

    if (at == naive.count || naive.keys[at] != key)
        at--; /* SIZE_MAX if no key is below */
    struct acre__node *floor = acre__tree_floor(tree, key);
    assert_int_equal(floor != NULL, at != SIZE_MAX);
    if (floor)
        assert_int_equal(floor->key, naive.keys[at]);
}

/* ---- tests ---- */

TEST(tree_empty_finds_nothing) {
    struct acre__tree tree = {0};
    assert_null(acre__tree_first(&tree));
    assert_null(acre__tree_find(&tree, 0));
    assert_null(acre__tree_floor(&tree, UINT64_MAX));
    assert_null(acre__tree_ceil(&tree, 0));
    assert_null(acre__tree_entry(acre__tree_first(&tree), struct item, node));
}

TEST(tree_smallest_and_largest_keys_are_ordinary) {
    struct acre__tree tree = {0};
    struct acre__node zero = {.key = 0}, last = {.key = UINT64_MAX};
    assert_int_equal(acre__tree_insert(&tree, &last), 1);
    assert_ptr_equal(acre__tree_first(&tree), &last);
    assert_null(acre__tree_floor(&tree, UINT64_MAX - 1));
    assert_int_equal(acre__tree_insert(&tree, &zero), 1);
    assert_ptr_equal(acre__tree_first(&tree), &zero);
    assert_ptr_equal(acre__tree_next(&tree, &zero), &last);
    assert_null(acre__tree_next(&tree, &last));
    assert_ptr_equal(acre__tree_floor(&tree, UINT64_MAX - 1), &zero);
    assert_ptr_equal(acre__tree_ceil(&tree, 1), &last);
    acre__tree_remove(&tree, &zero);
    acre__tree_remove(&tree, &last);
    assert_null(tree.root);
    assert_int_equal(tree.count, 0);
}

TEST(tree_second_node_of_a_key_is_refused) {
    struct acre__tree tree = {0};
    struct acre__node nodes[100], again;
    for (uint64_t i = 0; i < 100; i++) {
        nodes[i] = (struct acre__node){.key = i * 7};
        assert_int_equal(acre__tree_insert(&tree, &nodes[i]), 1);
    }
    for (uint64_t i = 0; i < 100; i++) {
        again = (struct acre__node){.key = i * 7, .left = &again, .right = &again};
        assert_int_equal(acre__tree_insert(&tree, &again), 0);
        assert_ptr_equal(again.left, &again); /* the refused node is unchanged too */
        assert_ptr_equal(acre__tree_find(&tree, i * 7), &nodes[i]);
    }
    assert_int_equal(tree.count, 100);
}

TEST(tree_entry_gives_the_struct_around_the_node) {
    struct acre__tree tree = {0};
    struct item item = {.node.key = 5};
    acre__tree_insert(&tree, &item.node);
    assert_ptr_equal(acre__tree_entry(acre__tree_find(&tree, 5), struct item, node), &item);
}

TEST(tree_random_operations_agree_with_a_sorted_array) {
    random_state = random_seed("tree");
    struct acre__tree tree = {0};
    struct item *items = calloc(KEYS, sizeof *items);
    assert_non_null(items);
    naive.count = 0;
    for (int i = 0; i < OPERATIONS; i++) {
        /* The tree grows and shrinks in waves, from empty to nearly all keys. */
        int is_growing = i / (4 * KEYS) % 2 == 0;
        uint64_t key = random_next(&random_state) % KEYS;
        struct acre__node *node = &items[key].node;
        uint64_t what = random_next(&random_state) % 8;
        if (what < (is_growing ? 5u : 2u)) {
            int is_new = !naive_has(key);
            if (is_new)
                node->key = key;
            assert_int_equal(
                acre__tree_insert(&tree, is_new ? node : &(struct acre__node){.key = key}), is_new);
            if (is_new)
                naive_insert(key);
        } else if (what < 6) {
            struct acre__node *found = acre__tree_find(&tree, key);
            assert_int_equal(found != NULL, naive_has(key));
            if (found) {
                assert_ptr_equal(found, node);
                acre__tree_remove(&tree, found);
                naive_remove(key);
            }
        } else {
            check_lookups(&tree, key);
        }
        assert_int_equal(tree.count, naive.count);
        if (i % 1000 == 0)
            check_equal_to_naive(&tree);
    }
    check_equal_to_naive(&tree);
    free(items);
}

/* The deepest leaf of a random search tree of n nodes is at about 2.99 log2 n for large n, 50 for
 * 10^5, and less for small n. 60 leaves room, and a degenerate tree would be far deeper. */
enum { DEPTH_BOUND = 60 };

static void check_depth_of(uint64_t first, uint64_t step, const char *what) {
    struct acre__tree tree = {0};
    struct acre__node *nodes = calloc(MANY, sizeof *nodes);
    assert_non_null(nodes);
    for (size_t i = 0; i < MANY; i++) {
        nodes[i].key = first + i * step;
        assert_int_equal(acre__tree_insert(&tree, &nodes[i]), 1);
    }
    size_t found = depth(tree.root);
    printf("depth of %d keys %s: %zu\n", MANY, what, found);
    assert_true(found <= DEPTH_BOUND);
    for (size_t i = 0; i < MANY; i += 2)
        acre__tree_remove(&tree, &nodes[i]);
    assert_true(depth(tree.root) <= DEPTH_BOUND);
    assert_int_equal(tree.count, MANY / 2);
    for (size_t i = 0; i < MANY; i++)
        assert_ptr_equal(acre__tree_find(&tree, nodes[i].key), i % 2 ? &nodes[i] : NULL);
    free(nodes);
}

TEST(tree_degenerate_orders_stay_shallow) {
    check_depth_of(0, 1, "ascending");
    check_depth_of(UINT64_MAX, UINT64_MAX, "descending");
    check_depth_of(0x7f0000000000u, 2u << 20, "ascending by 2 MiB");
    check_depth_of(0, UINT64_C(1) << 47, "ascending by 2^47");
}

TEST(tree_shape_depends_on_the_keys_alone) {
    enum { COUNT = 500, LINKS = 2 * COUNT + 1 };
    struct acre__tree up = {0}, down = {0};
    struct acre__node ups[COUNT], downs[COUNT], gone[COUNT];
    for (uint64_t i = 0; i < COUNT; i++) {
        ups[i] = (struct acre__node){.key = i * 3};
        acre__tree_insert(&up, &ups[i]);
        downs[i] = (struct acre__node){.key = (COUNT - 1 - i) * 3};
        acre__tree_insert(&down, &downs[i]);
        gone[i] = (struct acre__node){.key = i * 3 + 1};
        acre__tree_insert(&down, &gone[i]);
    }
    for (int i = 0; i < COUNT; i++)
        acre__tree_remove(&down, &gone[i]);
    uint64_t up_shape[LINKS], down_shape[LINKS];
    assert_int_equal(shape(up.root, up_shape, 0), LINKS);
    assert_int_equal(shape(down.root, down_shape, 0), LINKS);
    assert_memory_equal(up_shape, down_shape, sizeof up_shape);
}

int main(void) {
    return tests_run("tree");
}
