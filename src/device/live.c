/* Lists of live objects: see live.h. */
#include "device/live.h"

#include "base/status.h"
#include "base/thread.h"
#include "device/device.h"

/* Lock held: looks up a handle; NULL if it is not in the list. */
static struct acre__live *live_find(struct acre__live_list *list, const void *handle) {
    return acre__tree_entry(acre__tree_find(&list->all, (uintptr_t)handle), struct acre__live,
                            node);
}

static acre_status live_refuse(const struct acre__live_list *list, const void *handle) {
    if (!handle)
        return acre__fail(ACRE_E_NULL, "the handle of %s is NULL", list->what);
    return acre__fail(ACRE_E_HANDLE, "%p is not %s, or it was destroyed", handle, list->what);
}

void acre__live_insert(struct acre__live_list *list, struct acre__live *live, acre_device *dev) {
    *live = (struct acre__live){.node.key = (uintptr_t)live, .dev = dev};
    (void)acre__tree_insert(&list->all, &live->node);
}

/* Removes the object, so that no lookup finds it, and waits for its users. */
void acre__live_remove(struct acre__live_list *list, struct acre__live *live) {
    acre__tree_remove(&list->all, &live->node);
    while (live->users)
        acre__cond_wait(&list->cond, &list->lock);
}

void acre__live_add(struct acre__live_list *list, struct acre__live *live, acre_device *dev) {
    acre__lock_take(&list->lock);
    acre__live_insert(list, live, dev);
    acre__lock_give(&list->lock);
}

acre_status acre__live_check(struct acre__live_list *list, const void *handle) {
    acre_status status = acre__enter();
    if (status)
        return status;
    acre__lock_take(&list->lock);
    const struct acre__live *live = live_find(list, handle);
    acre__lock_give(&list->lock);
    return live ? ACRE_OK : live_refuse(list, handle);
}

acre_status acre__live_enter(struct acre__live_list *list, const void *handle) {
    acre_status status = acre__live_check(list, handle);
    return status ? status : acre__device_enter(((const struct acre__live *)handle)->dev);
}

void *acre__live_use(struct acre__live_list *list, const void *handle, acre_status *status) {
    if ((*status = acre__enter()))
        return NULL;
    acre__lock_take(&list->lock);
    struct acre__live *live = live_find(list, handle);
    if (live)
        live->users++;
    acre__lock_give(&list->lock);
    *status = live ? ACRE_OK : live_refuse(list, handle);
    return live;
}

void acre__live_unuse(struct acre__live_list *list, struct acre__live *live) {
    acre__lock_take(&list->lock);
    live->users--;
    acre__cond_wake(&list->cond);
    acre__lock_give(&list->lock);
}

void *acre__live_take(struct acre__live_list *list, const void *handle, acre_status *status) {
    acre__lock_take(&list->lock);
    struct acre__live *live = live_find(list, handle);
    if (live)
        acre__live_remove(list, live);
    acre__lock_give(&list->lock);
    *status = live ? ACRE_OK : live_refuse(list, handle);
    return live;
}

void *acre__live_take_any(struct acre__live_list *list, const acre_device *dev) {
    acre__lock_take(&list->lock);
    struct acre__live *live = acre__live_next(list, NULL);
    while (live && live->dev != dev)
        live = acre__live_next(list, live);
    if (live)
        acre__live_remove(list, live);
    acre__lock_give(&list->lock);
    return live;
}

uint64_t acre__live_count(struct acre__live_list *list, const acre_device *dev) {
    uint64_t count = 0;
    acre__lock_take(&list->lock);
    const struct acre__live *live = NULL;
    while ((live = acre__live_next(list, live)))
        count += live->dev == dev;
    acre__lock_give(&list->lock);
    return count;
}

void *acre__live_next(struct acre__live_list *list, const void *live) {
    const struct acre__live *before = live;
    struct acre__node *node =
        before ? acre__tree_next(&list->all, &before->node) : acre__tree_first(&list->all);
    return acre__tree_entry(node, struct acre__live, node);
}
