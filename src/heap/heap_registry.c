/* Which heaps there are, so that any value can be told from a heap without following it, and what
 * is done with them when a device is closed. One lock guards the list, held for a lookup. */
#include "base/log.h"
#include "base/status.h"
#include "base/thread.h"
#include "heap/heap.h"

static struct {
    struct acre__lock lock;
    struct acre__tree heaps;
} list = {.lock = ACRE__LOCK_INIT("heaps", ACRE__RANK_HEAP + 1)};

static acre_heap *heap_of(struct acre__node *node) {
    return acre__tree_entry(node, acre_heap, node);
}

acre_status acre__heap_check(const acre_heap *heap) {
    acre_status status = acre__enter();
    if (status)
        return status;
    if (!heap)
        return acre__fail(ACRE_E_NULL, "the heap is NULL");
    acre__lock_take(&list.lock);
    int is_there = acre__tree_find(&list.heaps, (uintptr_t)heap) != NULL;
    acre__lock_give(&list.lock);
    if (is_there)
        return ACRE_OK;
    return acre__fail(ACRE_E_HANDLE, "%p is not a heap, or not any more", (const void *)heap);
}

acre_status acre__heap_enter(const acre_heap *heap) {
    acre_status status = acre__heap_check(heap);
    return status ? status : acre__device_enter(heap->dev);
}

void acre__heap_list_add(acre_heap *heap) {
    heap->node.key = (uintptr_t)heap;
    acre__lock_take(&list.lock);
    (void)acre__tree_insert(&list.heaps, &heap->node);
    acre__lock_give(&list.lock);
}

int acre__heap_list_remove(acre_heap *heap) {
    acre__lock_take(&list.lock);
    struct acre__node *node = acre__tree_find(&list.heaps, (uintptr_t)heap);
    if (node)
        acre__tree_remove(&list.heaps, node);
    acre__lock_give(&list.lock);
    return node != NULL;
}

/* ---- devices ---- */

/* Takes some heap of the device out of the list; NULL when there is none left. */
static acre_heap *list_take(const acre_device *dev) {
    acre__lock_take(&list.lock);
    struct acre__node *node = acre__tree_first(&list.heaps);
    while (node && heap_of(node)->dev != dev)
        node = acre__tree_next(&list.heaps, node);
    if (node)
        acre__tree_remove(&list.heaps, node);
    acre__lock_give(&list.lock);
    return heap_of(node);
}

static void heap_close(acre_device *dev) {
    unsigned count = 0;
    for (acre_heap *heap; (heap = list_take(dev)); count++)
        acre__heap_end(heap);
    if (count)
        acre__log(ACRE_LOG_WARN, "heap", "%s: closed with %u heaps not destroyed", dev->label,
                  count);
}

void acre__heap_hooks(void) {
    static const struct acre__device_hooks hooks = {.close = heap_close};
    acre__device_hooks_add(&hooks);
}
