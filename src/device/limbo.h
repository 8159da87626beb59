/* Limbo: what the driver refused to take back, kept until it does.
 *
 * An item is the first member of the record of the thing it stands for, so that its address is the
 * record's, and entering limbo takes no memory and cannot fail. Each device has a limbo under its
 * own lock; contexts whose release was refused when their device was closed have no device any more
 * and wait in one for the whole process, which every open and trim of the same driver tries again.
 */
#ifndef ACRE_DEVICE_LIMBO_H
#define ACRE_DEVICE_LIMBO_H

#include <stdint.h>

#include "acre.h"
#include "driver/driver.h"

struct acre__limbo_item;

struct acre__limbo_kind {
    const char *call; /* the driver function that gives it back, for messages */
    /* Tries once more, with the device's context current. */
    CUresult (*give_back)(const struct acre__driver *drv, struct acre__limbo_item *item);
    /* Frees the record, and what hangs on it; of a lost device without driver calls. */
    void (*forget)(struct acre__limbo_item *item);
};

struct acre__limbo_item {
    struct acre__limbo_item *next;
    const struct acre__limbo_kind *kind;
};

struct acre__limbo {
    struct acre__limbo_item *first;
    uint64_t count; /* items in the list, and those that a retry has out at the moment */
};

/* Gives a thing back to the driver. Taken, or unknown to it: the item is forgotten. Refused: it
 * goes to the device's limbo. The driver of a lost device is not called, the item is only
 * forgotten. Returns ACRE_OK unless the driver did not know the thing, which is ACRE_E_HANDLE. */
acre_status acre__limbo_give_back(acre_device *dev, struct acre__limbo_item *item);
/* The same for callers with nobody to tell, who may be undoing something: the last detail stays. */
void acre__limbo_let_go(acre_device *dev, struct acre__limbo_item *item);

/* Tries the items of the device's limbo again; adds those that went to *retired.
 * Returns the last refusal. Threads: any; each item is tried by one of them. */
acre_status acre__limbo_retry(acre_device *dev, uint64_t *retired);

/* Forgets everything in the device's limbo, for a device that ends. Returns how many there were. */
uint64_t acre__limbo_drop(acre_device *dev);

/* Contexts. One item is made for each retained primary context; NULL without memory. */
struct acre__limbo_item *acre__orphan_create(CUdevice device);
/* Releases the context; if the driver refuses, or with `lost`, the item waits with the orphans. */
void acre__orphan_release(const struct acre__driver *drv, struct acre__limbo_item *item, int lost);
/* Tries the contexts of this driver again; adds those that went to *retired. One that answers with
 * a sticky error will never go and is dropped. Returns the last code of the driver that was a
 * refusal, or CUDA_SUCCESS. */
CUresult acre__orphan_retry(const struct acre__driver *drv, uint64_t *retired);
/* How many contexts of this driver wait now. */
uint64_t acre__orphan_count(int is_soft);

#endif
