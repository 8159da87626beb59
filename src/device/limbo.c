/* Releases resources to the driver and keeps those that the driver refuses.
 *
 * Invariants. An item is in one list or owned by one thread. A limbo's count covers both, so that
 * statistics read during a retry do not show an item as released that may be refused again. The
 * driver is never called with a limbo's lock held.
 *
 * Locks: a device's limbo uses the device's lock. The orphans have their own lock of the same rank,
 * never held together with a device's lock. */
#include "device/limbo.h"

#include <stdlib.h>

#include "base/lock.h"
#include "base/log.h"
#include "base/status.h"
#include "device/device.h"
#include "device/driver_status.h"

static void limbo_put(struct acre__lock *lock, struct acre__limbo *limbo,
                      struct acre__limbo_item *item, int is_new) {
    acre__lock_take(lock);
    item->next = limbo->first;
    limbo->first = item;
    limbo->count += (uint64_t)is_new;
    acre__lock_give(lock);
}

/* Takes all items out of the list. They still count: see limbo_settle. */
static struct acre__limbo_item *limbo_take_all(struct acre__lock *lock, struct acre__limbo *limbo) {
    acre__lock_take(lock);
    struct acre__limbo_item *first = limbo->first;
    limbo->first = NULL;
    acre__lock_give(lock);
    return first;
}

/* Finishes the retry of one item: forgets it, or puts it back. */
static void limbo_settle(struct acre__lock *lock, struct acre__limbo *limbo,
                         struct acre__limbo_item *item, int is_gone) {
    if (!is_gone) {
        limbo_put(lock, limbo, item, 0);
        return;
    }
    acre__lock_take(lock);
    limbo->count--;
    acre__lock_give(lock);
    item->kind->forget(item);
}

/* Tries to release one item, with the device's context current. A failure to make the context
 * current says nothing about the item, so it counts as a refusal whatever the code. The exception
 * is a driver that is shutting down. */
static CUresult limbo_ask(acre_device *dev, struct acre__limbo_item *item, const char **what,
                          enum acre__fate *fate) {
    struct acre__current current;
    CUresult code = acre__device_push_relaxed(dev, &current, what);
    *fate = code == CUDA_ERROR_DEINITIALIZED ? ACRE__FATE_TAKEN : ACRE__FATE_REFUSED;
    if (code)
        return code;
    *what = item->kind->call;
    code = item->kind->give_back(dev->drv, item);
    *fate = acre__driver_fate(code);
    acre__device_pop(dev, &current);
    return code;
}

acre_status acre__limbo_give_back(acre_device *dev, struct acre__limbo_item *item) {
    acre_status status = ACRE_OK;
    enum acre__fate fate = ACRE__FATE_TAKEN;
    if (!acre__device_is_lost(dev)) {
        const char *what;
        CUresult code = limbo_ask(dev, item, &what, &fate);
        if (fate != ACRE__FATE_TAKEN)
            status = acre__driver_fail(dev, code, what);
    }
    if (fate != ACRE__FATE_REFUSED || status == ACRE_E_DEVICE_LOST) {
        item->kind->forget(item);
        return fate == ACRE__FATE_UNKNOWN ? status : ACRE_OK;
    }
    acre__log(ACRE_LOG_WARN, "device", "%s: %s; acre_trim will try again", dev->label,
              acre_last_detail());
    limbo_put(&dev->lock, &dev->limbo, item, 1);
    return ACRE_OK;
}

void acre__limbo_let_go(acre_device *dev, struct acre__limbo_item *item) {
    struct acre__said said;
    acre__said_keep(&said);
    (void)acre__limbo_give_back(dev, item);
    (void)acre__said_fail(ACRE_OK, &said);
}

/* Retries one item of a device. Returns 1 if it was released. */
static int limbo_try(acre_device *dev, struct acre__limbo_item *item, acre_status *status) {
    CUresult code = item->kind->give_back(dev->drv, item);
    int went = acre__driver_fate(code) != ACRE__FATE_REFUSED;
    if (!went)
        *status = acre__driver_fail(dev, code, item->kind->call);
    limbo_settle(&dev->lock, &dev->limbo, item, went);
    return went;
}

acre_status acre__limbo_retry(acre_device *dev, uint64_t *retired) {
    acre__lock_take(&dev->lock);
    int is_empty = !dev->limbo.first;
    acre__lock_give(&dev->lock);
    if (is_empty)
        return ACRE_OK;

    struct acre__current current;
    acre_status status = acre__device_begin_relaxed(dev, &current);
    if (status)
        return status;
    struct acre__limbo_item *item = limbo_take_all(&dev->lock, &dev->limbo);

    /* After a sticky error the driver refuses the remaining items without harm; they are few, and
     * this happens once. */
    while (item) {
        struct acre__limbo_item *next = item->next;
        *retired += (uint64_t)limbo_try(dev, item, &status);
        item = next;
    }
    acre__device_pop(dev, &current);
    return status;
}

/* Forgetting an item may release another resource that the driver refuses in turn, so this loops
 * until the list is empty. */
uint64_t acre__limbo_drop(acre_device *dev) {
    uint64_t dropped = 0;
    for (;;) {
        struct acre__limbo_item *item = limbo_take_all(&dev->lock, &dev->limbo);
        if (!item)
            return dropped;
        while (item) {
            struct acre__limbo_item *next = item->next;
            limbo_settle(&dev->lock, &dev->limbo, item, 1);
            item = next;
            dropped++;
        }
    }
}

/* ---- contexts without a device ---- */

struct limbo_context {
    struct acre__limbo_item item;
    CUdevice device;
};

static struct {
    struct acre__lock lock;
    struct acre__limbo of[2]; /* by is_soft */
} orphans = {.lock = ACRE__LOCK_INIT("orphans", ACRE__RANK_DEVICE)};

static CUresult orphan_give_back(const struct acre__driver *drv, struct acre__limbo_item *item) {
    return drv->cuDevicePrimaryCtxRelease(((struct limbo_context *)item)->device);
}

static void orphan_forget(struct acre__limbo_item *item) {
    free(item);
}

static const struct acre__limbo_kind orphan_kind = {
    .call = "cuDevicePrimaryCtxRelease",
    .give_back = orphan_give_back,
    .forget = orphan_forget,
};

struct acre__limbo_item *acre__orphan_create(CUdevice device) {
    struct limbo_context *context = calloc(1, sizeof *context);
    if (!context)
        return NULL;
    context->item.kind = &orphan_kind;
    context->device = device;
    return &context->item;
}

void acre__orphan_release(const struct acre__driver *drv, struct acre__limbo_item *item, int lost) {
    CUresult code = lost ? CUDA_SUCCESS : item->kind->give_back(drv, item);
    if (!lost && acre__driver_fate(code) != ACRE__FATE_REFUSED) {
        item->kind->forget(item);
        return;
    }
    if (!lost)
        acre__log(ACRE_LOG_WARN, "device", "%s refused (%d); the next open or trim will try again",
                  item->kind->call, (int)code);
    limbo_put(&orphans.lock, &orphans.of[drv->is_soft != 0], item, 1);
}

CUresult acre__orphan_retry(const struct acre__driver *drv, uint64_t *retired) {
    struct acre__limbo *limbo = &orphans.of[drv->is_soft != 0];
    struct acre__limbo_item *item = limbo_take_all(&orphans.lock, limbo);
    CUresult refusal = CUDA_SUCCESS;
    while (item) {
        struct acre__limbo_item *next = item->next;
        CUresult code = item->kind->give_back(drv, item);
        int went = acre__driver_fate(code) != ACRE__FATE_REFUSED;
        int hopeless = acre__driver_is_sticky(code);
        if (!went && !hopeless)
            refusal = code;
        *retired += (uint64_t)went;
        limbo_settle(&orphans.lock, limbo, item, went || hopeless);
        item = next;
    }
    return refusal;
}

uint64_t acre__orphan_count(int is_soft) {
    acre__lock_take(&orphans.lock);
    uint64_t count = orphans.of[is_soft != 0].count;
    acre__lock_give(&orphans.lock);
    return count;
}
