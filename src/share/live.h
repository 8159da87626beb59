/* Which shares and imports there are, so that a handle is known to be good before it is followed.
 *
 * An object begins with a struct acre__live, so that its handle is the address of that. While a
 * call uses an object it is not taken away: who ends it takes it out of the list, so that nobody
 * finds it any more, and waits for those that did. One lock for each list, held for the list
 * only. */
#ifndef ACRE_SHARE_LIVE_H
#define ACRE_SHARE_LIVE_H

#include <stdint.h>

#include "acre.h"
#include "base/lock.h"

struct acre__live {
    struct acre__live *next;
    acre_device *dev;
    unsigned users; /* calls that use it now */
};

struct acre__live_list {
    struct acre__lock lock;
    struct acre__cond cond; /* a user less */
    struct acre__live *first;
    const char *what; /* "a share", for messages */
};

#define ACRE__LIVE_LIST(what_)                                                                     \
    { .lock = ACRE__LOCK_INIT(what_, ACRE__RANK_SHARE), .cond = ACRE__COND_INIT, .what = (what_) }

void acre__live_add(struct acre__live_list *list, struct acre__live *live);

/* The object of that handle, used until acre__live_unuse; NULL and ACRE_E_NULL or ACRE_E_HANDLE in
 * *status otherwise. Any value is safe. */
struct acre__live *acre__live_use(struct acre__live_list *list, const void *handle,
                                  acre_status *status);
void acre__live_unuse(struct acre__live_list *list, struct acre__live *live);

/* Takes the object of that handle out, once nobody uses it; NULL and *status as above. */
struct acre__live *acre__live_take(struct acre__live_list *list, const void *handle,
                                   acre_status *status);

/* Takes some object of the device out, once nobody uses it; NULL when there is none left. */
struct acre__live *acre__live_take_any(struct acre__live_list *list, const acre_device *dev);

uint64_t acre__live_count(struct acre__live_list *list, const acre_device *dev);

#endif
