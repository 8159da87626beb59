/* Strays: see strays.h. The lock guards the list, and is held during the waits: the transfers end
 * by themselves. Unmaps take it with other locks held. */
#include "device/strays.h"

#include "base/atomic.h"
#include "base/lock.h"
#include "device/device.h"
#include "device/driver_status.h"

static struct {
    struct acre__lock lock;
    struct acre__stray *first;
    _Atomic unsigned count; /* 0 without a lock: nothing to wait for */
} strays = {.lock = ACRE__LOCK_INIT("strays", ACRE__RANK_STRAYS)};

void acre__strays_add(struct acre__stray *stray) {
    acre__lock_take(&strays.lock);
    acre__store(&stray->is_pending, 1, memory_order_relaxed);
    stray->next = strays.first;
    strays.first = stray;
    acre__fetch_add(&strays.count, 1, memory_order_release);
    acre__lock_give(&strays.lock);
}

/* Removes the stray at a link of the list. The lock is held. */
static void stray_remove(struct acre__stray **link) {
    struct acre__stray *stray = *link;
    *link = stray->next;
    acre__fetch_sub(&strays.count, 1, memory_order_release);
    acre__store(&stray->is_pending, 0, memory_order_release); /* its owner may free it now */
}

/* A lost device has no work in flight. */
static CUresult stray_wait(const struct acre__stray *stray) {
    struct acre__current current;
    const char *what;
    if (acre__device_is_lost(stray->dev))
        return CUDA_SUCCESS;
    CUresult code = acre__device_push_relaxed(stray->dev, &current, &what);
    if (code)
        return code;
    code = stray->dev->drv->cuStreamSynchronize(stray->stream);
    acre__device_pop(stray->dev, &current);
    return acre__driver_is_sticky(code) ? CUDA_SUCCESS : code;
}

CUresult acre__strays_wait(void) {
    CUresult refusal = CUDA_SUCCESS;
    if (!acre__load(&strays.count, memory_order_acquire))
        return CUDA_SUCCESS;
    acre__lock_take(&strays.lock);
    for (struct acre__stray **link = &strays.first; *link;) {
        CUresult code = stray_wait(*link);
        if (code) {
            refusal = code;
            link = &(*link)->next;
        } else {
            stray_remove(link);
        }
    }
    acre__lock_give(&strays.lock);
    return refusal;
}

void acre__strays_forget(const acre_device *dev) {
    acre__lock_take(&strays.lock);
    for (struct acre__stray **link = &strays.first; *link;) {
        if ((*link)->dev == dev)
            stray_remove(link);
        else
            link = &(*link)->next;
    }
    acre__lock_give(&strays.lock);
}
