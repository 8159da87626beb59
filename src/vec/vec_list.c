/* Which vecs there are, so that any value can be told from a vec without following it, and what is
 * done with them when a device is closed or asked for its statistics. One lock guards the list,
 * held for a lookup. */
#include "base/atomic.h"
#include "base/log.h"
#include "base/status.h"
#include "base/thread.h"
#include "vec/vec.h"

static struct {
    struct acre__lock lock;
    struct acre__tree vecs;
} list = {.lock = ACRE__LOCK_INIT("vecs", ACRE__RANK_VEC_LIST)};

/* By device, since it was opened. */
static struct { _Atomic uint64_t moves, copied_bytes; } counts[ACRE__DEVICE_SLOTS];

static acre_vec *vec_of(struct acre__node *node) {
    return acre__tree_entry(node, acre_vec, node);
}

acre_status acre__vec_check(const acre_vec *vec) {
    acre_status status = acre__enter();
    if (status)
        return status;
    if (!vec)
        return acre__fail(ACRE_E_NULL, "the vec is NULL");
    acre__lock_take(&list.lock);
    int is_there = acre__tree_find(&list.vecs, (uintptr_t)vec) != NULL;
    acre__lock_give(&list.lock);
    return is_there
               ? ACRE_OK
               : acre__fail(ACRE_E_HANDLE, "%p is not a vec, or not any more", (const void *)vec);
}

acre_status acre__vec_enter(const acre_vec *vec) {
    acre_status status = acre__vec_check(vec);
    return status ? status : acre__device_enter(vec->dev);
}

void acre__vec_list_add(acre_vec *vec) {
    vec->node.key = (uintptr_t)vec;
    acre__lock_take(&list.lock);
    (void)acre__tree_insert(&list.vecs, &vec->node);
    acre__lock_give(&list.lock);
}

void acre__vec_list_remove(acre_vec *vec) {
    acre__lock_take(&list.lock);
    acre__tree_remove(&list.vecs, &vec->node);
    acre__lock_give(&list.lock);
}

void acre__vec_count_move(acre_vec *vec, size_t copied_bytes) {
    unsigned index = acre__device_index(vec->dev);
    acre__fetch_add(&counts[index].moves, 1, memory_order_relaxed);
    acre__fetch_add(&counts[index].copied_bytes, copied_bytes, memory_order_relaxed);
}

/* ---- devices ---- */

/* Takes some vec of the device out of the list; NULL when there is none left. */
static acre_vec *list_take(const acre_device *dev) {
    acre__lock_take(&list.lock);
    struct acre__node *node = acre__tree_first(&list.vecs);
    while (node && vec_of(node)->dev != dev)
        node = acre__tree_next(&list.vecs, node);
    if (node)
        acre__tree_remove(&list.vecs, node);
    acre__lock_give(&list.lock);
    return vec_of(node);
}

/* The program closes the device with vecs left. */
static void vec_close(acre_device *dev) {
    unsigned long long count = 0, bytes = 0;
    for (acre_vec *vec; (vec = list_take(dev)); count++) {
        acre__vec_ahead_end(vec);
        bytes += vec->now.mapped;
        acre__vec_end(vec);
    }
    if (count)
        acre__log(ACRE_LOG_WARN, "vec", "%s: closed with %llu vecs of %llu bytes not destroyed",
                  dev->label, count, bytes);
    acre__store(&counts[acre__device_index(dev)].moves, 0, memory_order_relaxed);
    acre__store(&counts[acre__device_index(dev)].copied_bytes, 0, memory_order_relaxed);
}

static void vec_stats(acre_device *dev, acre_stats *stats) {
    unsigned index = acre__device_index(dev);
    stats->vec_moves += acre__load(&counts[index].moves, memory_order_relaxed);
    stats->grow_copied_bytes += acre__load(&counts[index].copied_bytes, memory_order_relaxed);
    acre__lock_take(&list.lock);
    struct acre__node *node = acre__tree_first(&list.vecs);
    for (; node; node = acre__tree_next(&list.vecs, node))
        stats->vecs += vec_of(node)->dev == dev;
    acre__lock_give(&list.lock);
}

void acre__vec_hooks(void) {
    static const struct acre__device_hooks hooks = {.close = vec_close, .stats = vec_stats};
    acre__device_hooks_add(&hooks);
}
