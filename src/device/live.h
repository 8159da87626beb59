/* Lists of live objects, so that a handle is checked before it is dereferenced: pools, vecs, heaps,
 * plans, shares and imports.
 *
 * An object begins with a struct acre__live, whose address is the handle. While a call uses an
 * object (acre__live_use) the object is not destroyed: the destroying thread removes it from the
 * list, so that no lookup finds it, and waits for its users. acre__live_check only says that the
 * object exists now; destroying it at the same time is a bug of the program. */
#ifndef ACRE_DEVICE_LIVE_H
#define ACRE_DEVICE_LIVE_H

#include <stdint.h>

#include "acre.h"
#include "base/lock.h"
#include "base/tree.h"

struct acre__live {
    struct acre__node node; /* key: address of the object */
    acre_device *dev;
    unsigned users; /* calls that are using it */
};

struct acre__live_list {
    struct acre__lock lock; /* guards the list and the user counts */
    struct acre__cond cond; /* signalled when a user leaves */
    struct acre__tree all;
    const char *what; /* "a share", for messages */
};

#define ACRE__LIVE_LIST(what_, rank)                                                               \
    { .lock = ACRE__LOCK_INIT(what_, rank), .cond = ACRE__COND_INIT, .what = (what_) }

void acre__live_add(struct acre__live_list *list, struct acre__live *live, acre_device *dev);

/* Returns ACRE_OK if the handle is an object of the list, else ACRE_E_NULL, ACRE_E_HANDLE or
 * ACRE_E_FORKED. Safe for any pointer value. */
acre_status acre__live_check(struct acre__live_list *list, const void *handle);
/* As acre__live_check, and ACRE_E_DEVICE_LOST if the object's device is lost. */
acre_status acre__live_enter(struct acre__live_list *list, const void *handle);

/* Looks up a handle and marks the object as used until acre__live_unuse. On failure returns NULL
 * and sets *status. */
void *acre__live_use(struct acre__live_list *list, const void *handle, acre_status *status);
void acre__live_unuse(struct acre__live_list *list, struct acre__live *live);

/* Removes the object of the handle, after waiting for its users. On failure returns NULL and sets
 * *status. */
void *acre__live_take(struct acre__live_list *list, const void *handle, acre_status *status);
/* Removes any one object of the device, after waiting for its users; NULL when none is left. */
void *acre__live_take_any(struct acre__live_list *list, const acre_device *dev);

/* Number of objects of the device. */
uint64_t acre__live_count(struct acre__live_list *list, const acre_device *dev);

/* As acre__live_add and acre__live_take, for callers that hold the list's lock. */
void acre__live_insert(struct acre__live_list *list, struct acre__live *live, acre_device *dev);
void acre__live_remove(struct acre__live_list *list, struct acre__live *live);
/* Lock held: the object after `live` (NULL: the first); NULL after the last. */
void *acre__live_next(struct acre__live_list *list, const void *live);

#endif
