/* Waits for the work of a device, but not forever.
 *
 * The driver has no wait with a timeout, so a thread waits. A wait that is given up continues in
 * that thread until the work ends; the device is not closed before. Until then the driver lets
 * other threads map memory, but neither create nor destroy streams and events, nor queue work:
 * so a later suspend waits for that thread first. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/status.h"
#include "base/thread.h"
#include "space/steps.h"
#include "suspend/suspend.h"

/* One wait. */
struct quiet {
    acre_device *dev;
    int is_done, is_given_up;
    acre_status status;
    char detail[200];
};

static struct {
    struct acre__lock lock;
    struct acre__cond cond;
    unsigned waits[ACRE__DEVICE_SLOTS]; /* threads that wait */
} quiets = {.lock = ACRE__LOCK_INIT("waits for devices", ACRE__RANK_LEAF), .cond = ACRE__COND_INIT};

static void *quiet_main(void *user) {
    struct quiet *quiet = user;
    acre_status status = acre__step_quiesce_users(quiet->dev);
    acre__lock_take(&quiets.lock);
    quiet->status = status;
    (void)snprintf(quiet->detail, sizeof quiet->detail, "%s", status ? acre_last_detail() : "");
    quiet->is_done = 1;
    quiets.waits[acre__device_index(quiet->dev)]--;
    if (quiet->is_given_up)
        free(quiet);
    acre__cond_wake(&quiets.cond);
    acre__lock_give(&quiets.lock);
    return NULL;
}

static acre_status quiet_is_late(const acre_device *dev, uint64_t timeout_ms) {
    return acre__fail(ACRE_E_BUSY, "work on %s has not ended within %llu ms", dev->label,
                      (unsigned long long)timeout_ms);
}

/* Waits in another thread. Returns 0 if there can be none. */
static int quiet_by_thread(acre_device *dev, uint64_t until_ns, uint64_t timeout_ms,
                           acre_status *out) {
    struct quiet *quiet = calloc(1, sizeof *quiet);
    pthread_t thread;
    unsigned *waits = &quiets.waits[acre__device_index(dev)];
    if (!quiet)
        return 0;
    quiet->dev = dev;
    acre__lock_take(&quiets.lock);
    (*waits)++;
    acre__lock_give(&quiets.lock);
    int code = acre__thread_start(&thread, quiet_main, quiet);
    acre__lock_take(&quiets.lock);
    if (code)
        (*waits)--;
    while (!code && !quiet->is_done && acre__now_ns() < until_ns)
        acre__cond_wait_until(&quiets.cond, &quiets.lock, until_ns);
    int is_done = quiet->is_done;
    quiet->is_given_up = !is_done;
    acre__lock_give(&quiets.lock);
    if (code) {
        free(quiet);
        return 0;
    }
    if (!is_done) {
        pthread_detach(thread);
        *out = quiet_is_late(dev, timeout_ms);
        return 1;
    }
    pthread_join(thread, NULL);
    *out = quiet->status ? acre__fail(quiet->status, "%s", quiet->detail) : ACRE_OK;
    free(quiet);
    return 1;
}

acre_status acre__quiet_wait(acre_device *dev, uint64_t until_ns, uint64_t timeout_ms) {
    acre_status status = ACRE_OK;
    if (acre__streams_any_captured(dev))
        return acre__fail(ACRE_E_CAPTURING, "a stream of %s is being captured", dev->label);
    if (acre__device_is_seeded(dev) || !quiet_by_thread(dev, until_ns, timeout_ms, &status))
        status = acre__step_quiesce_users(dev);
    return status;
}

acre_status acre__quiet_join(const acre_device *dev, uint64_t until_ns, uint64_t timeout_ms) {
    const unsigned *waits = &quiets.waits[acre__device_index(dev)];
    acre__lock_take(&quiets.lock);
    while (*waits && acre__now_ns() < until_ns)
        acre__cond_wait_until(&quiets.cond, &quiets.lock, until_ns);
    unsigned left = *waits;
    acre__lock_give(&quiets.lock);
    return left ? quiet_is_late(dev, timeout_ms) : ACRE_OK;
}

void acre__quiet_end(const acre_device *dev) {
    acre__lock_take(&quiets.lock);
    while (quiets.waits[acre__device_index(dev)])
        acre__cond_wait(&quiets.cond, &quiets.lock);
    acre__lock_give(&quiets.lock);
}
