/* Limbo: resources that the driver refused to release, kept for a retry.
 *
 * An item is the first member of its resource's record, so it has the record's address, and
 * entering limbo takes no memory and cannot fail. Each device has a limbo, guarded by the device's
 * lock. A context whose release was refused when its device was closed has no device any more. Such
 * orphans wait in one list per driver; every open and trim of that driver retries them. */
#ifndef ACRE_DEVICE_LIMBO_H
#define ACRE_DEVICE_LIMBO_H

#include <stdint.h>

#include "acre.h"
#include "driver/driver.h"

struct acre__limbo_item;

struct acre__limbo_kind {
    const char *call; /* the driver function that releases it, for messages */
    /* Releases the resource, with the device's context current. */
    CUresult (*give_back)(const struct acre__driver *drv, struct acre__limbo_item *item);
    /* Frees the record and what it owns; on a lost device without driver calls. */
    void (*forget)(struct acre__limbo_item *item);
};

struct acre__limbo_item {
    struct acre__limbo_item *next;
    const struct acre__limbo_kind *kind;
};

struct acre__limbo {
    struct acre__limbo_item *first;
    uint64_t count; /* items in the list, and those that a retry has taken out */
};

/* Releases a resource to the driver. If the driver takes it or does not know it, the item is
 * forgotten; if the driver refuses, the item goes to the device's limbo. On a lost device the item
 * is forgotten without a driver call. Returns ACRE_OK, or ACRE_E_HANDLE if the driver did not know
 * the resource. */
acre_status acre__limbo_give_back(acre_device *dev, struct acre__limbo_item *item);
/* As acre__limbo_give_back without a result, for callers that clean up: keeps the last detail. */
void acre__limbo_let_go(acre_device *dev, struct acre__limbo_item *item);

/* Retries the items of the device's limbo and adds the number released to *retired. Returns the
 * last refusal.
 * Threads: any; one thread retries each item. */
acre_status acre__limbo_retry(acre_device *dev, uint64_t *retired);

/* Forgets everything in the limbo of a device that is closing. Returns the number of items. */
uint64_t acre__limbo_drop(acre_device *dev);

/* Contexts. Creates the item of a retained primary context; NULL if out of memory. */
struct acre__limbo_item *acre__orphan_create(CUdevice device);
/* Releases the context. If the driver refuses, the item waits with the orphans. With `lost` the
 * driver is not called and the item waits too. */
void acre__orphan_release(const struct acre__driver *drv, struct acre__limbo_item *item, int lost);
/* Retries the orphaned contexts of this driver and adds the number released to *retired. Drops a
 * context that returns a sticky error, since a retry can never succeed. Returns the driver's last
 * other refusal, or CUDA_SUCCESS. */
CUresult acre__orphan_retry(const struct acre__driver *drv, uint64_t *retired);
/* Number of orphaned contexts of this driver. */
uint64_t acre__orphan_count(int is_soft);

#endif
