/* Lists of live objects: see live.h. */
#include "share/live.h"

#include "base/status.h"

/* Lock held: where the list points to the object, or NULL. */
static struct acre__live **live_find(struct acre__live_list *list, const void *handle) {
    struct acre__live **at = &list->first;
    while (*at && *at != handle)
        at = &(*at)->next;
    return *at ? at : NULL;
}

static acre_status live_refuse(const struct acre__live_list *list, const void *handle) {
    if (!handle)
        return acre__fail(ACRE_E_NULL, "the handle of %s is NULL", list->what);
    return acre__fail(ACRE_E_HANDLE, "%p is not %s, or not any more", handle, list->what);
}

/* Lock held: takes it out of the list and waits for its users. */
static struct acre__live *live_take(struct acre__live_list *list, struct acre__live **at) {
    struct acre__live *live = *at;
    *at = live->next;
    live->next = NULL;
    while (live->users)
        acre__cond_wait(&list->cond, &list->lock);
    return live;
}

void acre__live_add(struct acre__live_list *list, struct acre__live *live) {
    acre__lock_take(&list->lock);
    live->next = list->first;
    list->first = live;
    acre__lock_give(&list->lock);
}

struct acre__live *acre__live_use(struct acre__live_list *list, const void *handle,
                                  acre_status *status) {
    acre__lock_take(&list->lock);
    struct acre__live **at = live_find(list, handle);
    struct acre__live *live = at ? *at : NULL;
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

struct acre__live *acre__live_take(struct acre__live_list *list, const void *handle,
                                   acre_status *status) {
    acre__lock_take(&list->lock);
    struct acre__live **at = live_find(list, handle);
    struct acre__live *live = at ? live_take(list, at) : NULL;
    acre__lock_give(&list->lock);
    *status = live ? ACRE_OK : live_refuse(list, handle);
    return live;
}

struct acre__live *acre__live_take_any(struct acre__live_list *list, const acre_device *dev) {
    acre__lock_take(&list->lock);
    struct acre__live **at = &list->first;
    while (*at && (*at)->dev != dev)
        at = &(*at)->next;
    struct acre__live *live = *at ? live_take(list, at) : NULL;
    acre__lock_give(&list->lock);
    return live;
}

uint64_t acre__live_count(struct acre__live_list *list, const acre_device *dev) {
    uint64_t count = 0;
    acre__lock_take(&list->lock);
    for (const struct acre__live *live = list->first; live; live = live->next)
        count += live->dev == dev;
    acre__lock_give(&list->lock);
    return count;
}
