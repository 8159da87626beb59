/* Limits of what acre holds on a device: torch.cuda.set_per_process_memory_fraction, and the margin
 * of acre.saver. libacre keeps both (acre_device_set_limits). A program may set them there, too:
 * each function here changes its own one only. */
#include <string.h>

#include "torch_state.h"

static _Atomic uint64_t margin_bytes;

/* Sets one of the limits, and leaves the other as it is. */
static void set_one(const struct torch_device *at, const uint64_t *limit, const uint64_t *margin) {
    acre_device_stats stats = {.struct_size = sizeof stats};
    if (acre_device_get_stats(at->device, &stats) == ACRE_OK)
        (void)acre_device_set_limits(at->device, limit ? *limit : stats.limit_bytes,
                                     margin ? *margin : stats.margin_bytes);
}

void acre_torch__limits_begin(const struct torch_device *at) {
    uint64_t margin = atomic_load_explicit(&margin_bytes, memory_order_relaxed);
    if (margin)
        set_one(at, NULL, &margin);
}

const char *acre_torch__limits_origin(const struct torch_device *at, const char *detail) {
    acre_device_stats stats = {.struct_size = sizeof stats};
    if (acre_device_get_stats(at->device, &stats))
        return "";
    uint64_t limit = atomic_load_explicit(&at->limit_bytes, memory_order_relaxed);
    uint64_t margin = atomic_load_explicit(&margin_bytes, memory_order_relaxed);
    if (limit && limit == stats.limit_bytes && strstr(detail, " are left of the limit"))
        return " (set by torch.cuda.set_per_process_memory_fraction)";
    if (margin && margin == stats.margin_bytes && strstr(detail, " must stay free"))
        return " (set by acre.saver's memory_margin_bytes)";
    return "";
}

void acre_torch_memory_fraction(double fraction, int device) {
    acre_status status;
    struct torch_device *at = acre_torch__device(device, &status);
    if (!at || !(fraction >= 0))
        return;
    uint64_t limit = fraction < 1 ? (uint64_t)(fraction * (double)at->total_bytes) : 0;
    limit += fraction < 1 && !limit;
    pthread_mutex_lock(&acre_torch__lock);
    atomic_store_explicit(&at->limit_bytes, limit, memory_order_relaxed);
    set_one(at, &limit, NULL);
    pthread_mutex_unlock(&acre_torch__lock);
}

void acre_torch_set_margin(uint64_t bytes) {
    if (acre_torch__is_forked()) /* the lock may have been locked */
        return;
    pthread_mutex_lock(&acre_torch__lock);
    atomic_store_explicit(&margin_bytes, bytes, memory_order_relaxed);
    for (int i = 0; i < TORCH_DEVICES; i++) {
        const struct torch_device *at = acre_torch__opened(i);
        if (at)
            set_one(at, NULL, &bytes);
    }
    pthread_mutex_unlock(&acre_torch__lock);
}
