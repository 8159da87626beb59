/* Addresses of a device: see range.h.
 *
 * An area is one reservation. Its free parts (holes) are in a tree by address, with neighbours
 * merged. If a part is released and no record can be allocated (out of host memory), the part is
 * lost until the whole area is free. `taken` counts bytes independently of the tree, so that this
 * moment is known. The driver is never called with the lock held. */
#include "space/range.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/config.h"
#include "base/lock.h"
#include "base/status.h"
#include "base/tree.h"
#include "device/device.h"
#include "device/limbo.h"
#include "space/steps.h"

struct range_hole {
    struct acre__node node; /* key: first address */
    size_t bytes;
};

struct range_area {
    struct acre__limbo_item item; /* for limbo, if the driver refuses to free it */
    acre_device *dev;
    struct range_area *next; /* older */
    uint64_t at;
    size_t bytes;
    size_t taken; /* bytes allocated */
    struct acre__tree holes;
};

/* One per device. */
static struct range_store {
    struct acre__lock lock;
    struct range_area *areas; /* newest first */
    int is_ending;            /* 1: closing; an area is freed once nothing of it is allocated */
} stores[ACRE__DEVICE_SLOTS];
static pthread_once_t stores_once = PTHREAD_ONCE_INIT;

static void stores_init(void) {
    for (unsigned i = 0; i < ACRE__DEVICE_SLOTS; i++)
        acre__lock_init(&stores[i].lock, "addresses", ACRE__RANK_RANGE);
}

static struct range_store *store_of(const acre_device *dev) {
    pthread_once(&stores_once, stores_init);
    return &stores[acre__device_index(dev)];
}

static struct range_hole *hole_of(struct acre__node *node) {
    return acre__tree_entry(node, struct range_hole, node);
}

/* ---- holes of an area (lock held) ---- */

/* Adds a free part. Returns 0 if out of memory; the part is then lost until the area is free. */
static int hole_add(struct range_area *area, uint64_t at, size_t bytes) {
    struct range_hole *before = hole_of(acre__tree_floor(&area->holes, at));
    struct range_hole *after = hole_of(acre__tree_find(&area->holes, at + bytes));
    if (before && before->node.key + before->bytes != at)
        before = NULL;
    if (before) {
        before->bytes += bytes;
    } else {
        before = calloc(1, sizeof *before);
        if (!before)
            return 0;
        before->node.key = at;
        before->bytes = bytes;
        acre__tree_insert(&area->holes, &before->node);
    }
    if (after) {
        before->bytes += after->bytes;
        acre__tree_remove(&area->holes, &after->node);
        free(after);
    }
    return 1;
}

/* Removes [at, at + bytes) from the hole that contains it. Returns 0 if out of memory; nothing is
 * changed then. */
static int hole_cut(struct range_area *area, struct range_hole *hole, uint64_t at, size_t bytes) {
    uint64_t begin = hole->node.key, end = begin + hole->bytes;
    if (at + bytes < end) {
        struct range_hole *rest = calloc(1, sizeof *rest);
        if (!rest)
            return 0;
        rest->node.key = at + bytes;
        rest->bytes = (size_t)(end - at - bytes);
        acre__tree_insert(&area->holes, &rest->node);
    }
    hole->bytes = (size_t)(at - begin);
    if (!hole->bytes) {
        acre__tree_remove(&area->holes, &hole->node);
        free(hole);
    }
    return 1;
}

static void holes_drop(struct range_area *area) {
    struct acre__node *node;
    while ((node = acre__tree_first(&area->holes))) {
        acre__tree_remove(&area->holes, node);
        free(hole_of(node));
    }
}

/* First fit: addresses are plentiful, and ranges stay together at the front. Returns 1, 0 (no room)
 * or -1 (out of memory). */
static int area_take(struct range_area *area, size_t bytes, size_t alignment, uint64_t *at) {
    struct acre__node *node = acre__tree_first(&area->holes);
    for (; node; node = acre__tree_next(&area->holes, node)) {
        struct range_hole *hole = hole_of(node);
        uint64_t begin = (node->key + alignment - 1) & ~(uint64_t)(alignment - 1);
        uint64_t end = node->key + hole->bytes;
        if (begin < node->key || begin > end || end - begin < bytes)
            continue;
        if (!hole_cut(area, hole, begin, bytes))
            return -1;
        area->taken += bytes;
        *at = begin;
        return 1;
    }
    return 0;
}

/* ---- areas ---- */

static struct range_area *area_of(struct range_store *store, uint64_t at) {
    struct range_area *area = store->areas;
    while (area && (at < area->at || at - area->at >= area->bytes))
        area = area->next;
    return area;
}

static CUresult area_give_back(const struct acre__driver *drv, struct acre__limbo_item *item) {
    const struct range_area *area = (const struct range_area *)item;
    return drv->cuMemAddressFree(area->at, area->bytes);
}

static void area_forget(struct acre__limbo_item *item) {
    struct range_area *area = (struct range_area *)item;
    holes_drop(area);
    free(area);
}

static const struct acre__limbo_kind area_kind = {"cuMemAddressFree", area_give_back, area_forget};

static void area_end(struct range_area *area) {
    acre__limbo_let_go(area->dev, &area->item);
}

/* Reserves another area that can hold `bytes`. Its size is the configured one, or less, down to
 * `bytes`. */
static acre_status area_make(acre_device *dev, struct range_store *store, size_t bytes,
                             size_t alignment) {
    uint64_t wanted, hint = 0;
    size_t unit = dev->info.granularity_bytes;
    acre_status status =
        acre__config_bytes(ACRE__CONFIG_ADDRESS_BYTES, 8 * dev->info.total_bytes, &wanted);
    if (status)
        return status;
    wanted = wanted / unit * unit;
    wanted = wanted < bytes ? bytes : wanted;
    struct range_area *area = calloc(1, sizeof *area);
    if (!area)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of a reservation");
    area->item.kind = &area_kind;
    area->dev = dev;
    acre__lock_take(&store->lock);
    if (store->areas)
        hint = store->areas->at + store->areas->bytes;
    acre__lock_give(&store->lock);
    for (;;) {
        status = acre__step_reserve(dev, (size_t)wanted, alignment, hint, &area->at);
        if (status != ACRE_E_ADDRESS_SPACE || wanted == bytes)
            break;
        wanted = wanted / 2 / unit * unit;
        wanted = wanted < bytes ? bytes : wanted;
    }
    if (status) {
        free(area);
        return status;
    }
    area->bytes = (size_t)wanted;
    if (!hole_add(area, area->at, area->bytes)) {
        area_end(area);
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of a reservation");
    }
    acre__lock_take(&store->lock);
    area->next = store->areas;
    store->areas = area;
    store->is_ending = 0;
    acre__lock_give(&store->lock);
    return ACRE_OK;
}

int acre__range_extend(acre_device *dev, struct acre__range *range, size_t bytes) {
    struct range_store *store = store_of(dev);
    if (bytes <= range->bytes)
        return 1;
    size_t more = bytes - range->bytes;
    acre__lock_take(&store->lock);
    struct range_area *area = area_of(store, range->at);
    struct range_hole *hole =
        area ? hole_of(acre__tree_find(&area->holes, range->at + range->bytes)) : NULL;
    int fits = hole && hole->bytes >= more && hole_cut(area, hole, hole->node.key, more);
    if (fits) {
        area->taken += more;
        range->bytes = bytes;
    }
    acre__lock_give(&store->lock);
    return fits;
}

/* Removes the areas of which nothing is allocated from the store, and frees them. */
static void areas_end(acre_device *dev, int is_ending) {
    struct range_store *store = store_of(dev);
    struct range_area *ended = NULL;
    acre__lock_take(&store->lock);
    store->is_ending = is_ending;
    for (struct range_area **link = &store->areas; *link;) {
        struct range_area *area = *link;
        if (area->taken) {
            link = &area->next;
            continue;
        }
        *link = area->next;
        area->next = ended;
        ended = area;
    }
    acre__lock_give(&store->lock);
    while (ended) {
        struct range_area *next = ended->next;
        area_end(ended);
        ended = next;
    }
}

void acre__range_give(acre_device *dev, uint64_t at, size_t bytes) {
    struct range_store *store = store_of(dev);
    if (!bytes)
        return;
    acre__lock_take(&store->lock);
    struct range_area *area = area_of(store, at);
    int is_whole = 1;
    if (area) {
        is_whole = hole_add(area, at, bytes);
        area->taken -= bytes;
    }
    if (area && !area->taken && !is_whole) {
        holes_drop(area);
        (void)hole_add(area, area->at, area->bytes);
    }
    int is_ended = area && !area->taken && store->is_ending;
    acre__lock_give(&store->lock);
    if (is_ended)
        areas_end(dev, 1);
}

void acre__range_trim(acre_device *dev) {
    areas_end(dev, 0);
}

static acre_status range_trim(acre_device *dev) {
    acre__range_trim(dev);
    return ACRE_OK;
}

static void range_end(acre_device *dev) {
    areas_end(dev, 1);
}

void acre__range_count(acre_device *dev, uint64_t *reserved_bytes, uint64_t *taken_bytes) {
    struct range_store *store = store_of(dev);
    *reserved_bytes = *taken_bytes = 0;
    acre__lock_take(&store->lock);
    for (struct range_area *area = store->areas; area; area = area->next) {
        *reserved_bytes += area->bytes;
        *taken_bytes += area->taken;
    }
    acre__lock_give(&store->lock);
}

static void range_stats(acre_device *dev, acre_device_stats *stats) {
    uint64_t taken;
    acre__range_count(dev, &stats->address_bytes, &taken);
}

/* ---- allocation ---- */

acre_status acre__range_take(acre_device *dev, size_t bytes, size_t alignment,
                             struct acre__range *range) {
    static const struct acre__device_hooks hooks = {
        .layer = ACRE__HOOK_BELOW, .trim = range_trim, .close = range_end, .stats = range_stats};
    struct range_store *store = store_of(dev);
    *range = (struct acre__range){0};
    acre__device_hooks_add(&hooks);
    /* A new area has room, but other threads may take it before this one gets to it: hence the
     * loop. */
    for (;;) {
        uint64_t at = 0;
        int found = 0;
        acre__lock_take(&store->lock);
        for (struct range_area *area = store->areas; area && !found; area = area->next)
            found = area_take(area, bytes, alignment, &at);
        acre__lock_give(&store->lock);
        if (found > 0) {
            *range = (struct acre__range){at, bytes};
            return ACRE_OK;
        }
        acre_status status = found < 0 ? acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record "
                                                                        "of addresses")
                                       : area_make(dev, store, bytes, alignment);
        if (status)
            return status;
    }
}
