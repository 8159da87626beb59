/* Limits of what acre takes from the card: torch.cuda.set_per_process_memory_fraction, and the
 * margin of acre.saver. libacre keeps both (acre_device_set_limits), for all pools of a device
 * together. */
#include <string.h>

#include "torch_state.h"

static _Atomic uint64_t margin_bytes;

void acre_torch__limits_apply(struct torch_device *at) {
    (void)acre_device_set_limits(at->device,
                                 atomic_load_explicit(&at->limit_bytes, memory_order_relaxed),
                                 atomic_load_explicit(&margin_bytes, memory_order_relaxed));
}

const char *acre_torch__limits_origin(const char *detail) {
    if (strstr(detail, " are left of the limit"))
        return ", which torch.cuda.set_per_process_memory_fraction has set";
    return strstr(detail, " must stay free") ? ", as memory_margin_bytes of acre.saver says" : "";
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
    acre_torch__limits_apply(at);
    pthread_mutex_unlock(&acre_torch__lock);
}

void acre_torch_set_margin(uint64_t bytes) {
    pthread_mutex_lock(&acre_torch__lock);
    atomic_store_explicit(&margin_bytes, bytes, memory_order_relaxed);
    for (int i = 0; i < TORCH_DEVICES; i++)
        if (acre_torch__opened(i))
            acre_torch__limits_apply(acre_torch__opened(i));
    pthread_mutex_unlock(&acre_torch__lock);
}
