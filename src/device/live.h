/* Which objects of a kind there are, so that a handle is known to be good before it is followed:
 * pools, vecs, heaps, plans, shares and imports.
 *
 * An object begins with a struct acre__live, so that its handle is the address of that. While a
 * call uses an object (acre__live_use) it does not end: who ends it takes it out of the list, so
 * that nobody finds it any more, and waits for those that did. acre__live_check only says that the
 * object is there now; ending it meanwhile is a mistake of the program. */
#ifndef ACRE_DEVICE_LIVE_H
#define ACRE_DEVICE_LIVE_H

#include <stdint.h>

#include "acre.h"
#include "base/lock.h"
#include "base/tree.h"

struct acre__live {
    struct acre__node node; /* key: its own address */
    acre_device *dev;
    unsigned users; /* calls that use it now */
};

struct acre__live_list {
    struct acre__lock lock; /* guards the list and the users */
    struct acre__cond cond; /* a user less */
    struct acre__tree all;
    const char *what; /* "a share", for messages */
};

#define ACRE__LIVE_LIST(what_, rank)                                                               \
    { .lock = ACRE__LOCK_INIT(what_, rank), .cond = ACRE__COND_INIT, .what = (what_) }

void acre__live_add(struct acre__live_list *list, struct acre__live *live, acre_device *dev);

/* ACRE_OK if the handle is an object of the list, else ACRE_E_NULL, ACRE_E_HANDLE or
 * ACRE_E_FORKED. Any value is safe. */
acre_status acre__live_check(struct acre__live_list *list, const void *handle);
/* The same, and ACRE_E_DEVICE_LOST if its device is lost. */
acre_status acre__live_enter(struct acre__live_list *list, const void *handle);

/* The object of that handle, used until acre__live_unuse; NULL and *status otherwise. */
void *acre__live_use(struct acre__live_list *list, const void *handle, acre_status *status);
void acre__live_unuse(struct acre__live_list *list, struct acre__live *live);

/* Takes the object of that handle out, once nobody uses it; NULL and *status as above. */
void *acre__live_take(struct acre__live_list *list, const void *handle, acre_status *status);
/* Takes some object of the device out, once nobody uses it; NULL when there is none left. */
void *acre__live_take_any(struct acre__live_list *list, const acre_device *dev);

/* How many objects of the device there are. */
uint64_t acre__live_count(struct acre__live_list *list, const acre_device *dev);

/* Lock held: as acre__live_add and acre__live_take. */
void acre__live_insert(struct acre__live_list *list, struct acre__live *live, acre_device *dev);
void acre__live_remove(struct acre__live_list *list, struct acre__live *live);
/* Lock held: the object after `live` (NULL: the first); NULL after the last. */
void *acre__live_next(struct acre__live_list *list, const void *live);

#endif
