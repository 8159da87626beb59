/* Limits of what the pools take from the card: torch.cuda.set_per_process_memory_fraction, and the
 * margin of acre.saver.
 *
 * Both are about memory that comes from the card, whichever pool needs it. Nothing tells in advance
 * whether an allocation will need some. So it is checked afterwards, if the device has created
 * memory meanwhile, and undone. Memory that the pools had before is never refused. Threads that
 * allocate at the same time may exceed a limit by their blocks for an instant. */
#include <stdio.h>

#include "torch_state.h"

_Atomic int acre_torch__limited;
static _Atomic uint64_t margin_bytes;

static double mib(uint64_t bytes) {
    return (double)bytes / 1048576.0;
}

/* Returns the bytes that the device has created since the process began. */
static uint64_t created(const struct torch_device *at) {
    acre_device_stats stats = {.struct_size = sizeof stats};
    return acre_device_get_stats(at->device, &stats) == ACRE_OK ? stats.chunk_created_bytes : 0;
}

/* Checks the limits, as if the pools held `bytes` more. */
static acre_status check(struct torch_device *at, int device, size_t bytes, char *why,
                         size_t size) {
    uint64_t limit = atomic_load_explicit(&at->limit_bytes, memory_order_relaxed);
    uint64_t margin = atomic_load_explicit(&margin_bytes, memory_order_relaxed);
    uint64_t held = limit ? acre_torch__pools_held(device) : 0;
    acre_device_info info = {.struct_size = sizeof info};
    if (limit && held + bytes > limit) {
        snprintf(why, size,
                 "the limit of set_per_process_memory_fraction is %.2f MiB, and acre's pools hold "
                 "%.2f MiB",
                 mib(limit), mib(held));
        return ACRE_E_LIMIT;
    }
    if (margin && acre_device_get_info(at->device, &info) == ACRE_OK &&
        info.free_bytes < margin + bytes) {
        snprintf(why, size,
                 "memory_margin_bytes keeps %.2f MiB of the card free, and %.2f MiB are free now",
                 mib(margin), mib(info.free_bytes));
        return ACRE_E_LIMIT;
    }
    why[0] = 0;
    return ACRE_OK;
}

acre_status acre_torch__limits_check(struct torch_device *at, int device, char *why, size_t size) {
    uint64_t now = created(at);
    if (atomic_exchange_explicit(&at->created_seen, now, memory_order_relaxed) == now)
        return ACRE_OK;
    return check(at, device, 0, why, size);
}

acre_status acre_torch__limits_make_room(struct torch_device *at, int device, size_t bytes,
                                         char *why, size_t size) {
    acre_status status;
    for (int is_synced = 0;; is_synced = 1) {
        acre_torch__pools_trim(device);
        status = check(at, device, bytes, why, size);
        /* Work in flight keeps memory from being released. A capture forbids the wait. */
        if (status == ACRE_OK || is_synced || acre_device_sync(at->device) != ACRE_OK)
            break;
    }
    return status;
}

static void limited_update(void) {
    int is_limited = atomic_load_explicit(&margin_bytes, memory_order_relaxed) != 0;
    for (int i = 0; i < TORCH_DEVICES; i++) {
        const struct torch_device *at = acre_torch__opened(i);
        is_limited |= at && atomic_load_explicit(&at->limit_bytes, memory_order_relaxed);
    }
    atomic_store_explicit(&acre_torch__limited, is_limited, memory_order_relaxed);
}

void acre_torch_memory_fraction(double fraction, int device) {
    acre_status status;
    struct torch_device *at = acre_torch__device(device, &status);
    if (!at || !(fraction >= 0))
        return;
    uint64_t limit = fraction < 1 ? (uint64_t)(fraction * (double)at->total_bytes) : 0;
    limit += fraction < 1 && !limit;
    atomic_store_explicit(&at->limit_bytes, limit, memory_order_relaxed);
    limited_update();
}

void acre_torch_set_margin(uint64_t bytes) {
    atomic_store_explicit(&margin_bytes, bytes, memory_order_relaxed);
    limited_update();
}
