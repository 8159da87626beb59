/* Allocation, free and failures: see torch_plug.h.
 *
 * PyTorch allocates some 750 blocks in a training step of 35 ms, so a call should cost well below a
 * microsecond: the fast path reads the device's pool, asks it, and adds to three counters. All else
 * (regions, captures, streams that were recorded) is behind one count, acre_torch__special. */
#include <stdio.h>
#include <string.h>

#include "torch_state.h"

_Atomic int acre_torch__special;
pthread_mutex_t acre_torch__lock = PTHREAD_MUTEX_INITIALIZER;

static struct torch_device devices[TORCH_DEVICES];
static _Atomic int is_forked, is_watched, is_told;
static _Atomic uint64_t wrong_frees;
static _Atomic(acre_torch_watch_fn) watch;

static _Thread_local struct {
    acre_status status;
    int device;
    size_t bytes;
} failed;

/* ---- devices ---- */

static void child_begin(void) {
    atomic_store_explicit(&is_forked, 1, memory_order_relaxed);
}

int acre_torch__is_forked(void) {
    return atomic_load_explicit(&is_forked, memory_order_relaxed);
}

struct torch_device *acre_torch__opened(int device) {
    if (device < 0 || device >= TORCH_DEVICES)
        return NULL;
    struct torch_device *at = &devices[device];
    return atomic_load_explicit(&at->pool, memory_order_acquire) ? at : NULL;
}

/* Lock held. */
static acre_status device_open(struct torch_device *at, int device, const char *name) {
    char usual[32];
    acre_pool *pool;
    acre_device_info info = {.struct_size = sizeof info};
    snprintf(usual, sizeof usual, "cuda:%d", device);
    acre_status status = acre_open(name ? name : usual, NULL, &at->device);
    if (status)
        return status;
    status = acre_device_get_info(at->device, &info);
    if (status == ACRE_OK)
        status = acre_pool_default(at->device, ACRE_KIND_DEVICE, &pool);
    if (status) {
        (void)acre_close(at->device);
        at->device = NULL;
        return status;
    }
    at->total_bytes = info.total_bytes;
    acre_torch__limits_begin(at);
    /* The child of a fork inherits blocks that it must not free, and maybe a locked lock. */
    if (!atomic_exchange_explicit(&is_watched, 1, memory_order_relaxed))
        (void)pthread_atfork(NULL, NULL, child_begin);
    atomic_store_explicit(&at->pool, pool, memory_order_release);
    return ACRE_OK;
}

acre_status acre_torch_open(int device, const char *name) {
    if (device < 0 || device >= TORCH_DEVICES)
        return ACRE_E_INVALID;
    if (acre_torch__is_forked())
        return ACRE_E_FORKED;
    if (acre_torch__opened(device))
        return ACRE_OK;
    pthread_mutex_lock(&acre_torch__lock);
    acre_status status =
        acre_torch__opened(device) ? ACRE_OK : device_open(&devices[device], device, name);
    pthread_mutex_unlock(&acre_torch__lock);
    return status;
}

struct torch_device *acre_torch__device(int device, acre_status *status) {
    struct torch_device *at = acre_torch__opened(device);
    *status = acre_torch__is_forked() ? ACRE_E_FORKED : ACRE_OK;
    if (!at && *status == ACRE_OK && (*status = acre_torch_open(device, NULL)) == ACRE_OK)
        at = acre_torch__opened(device);
    return *status ? NULL : at;
}

acre_device *acre_torch_device(int device) {
    const struct torch_device *at = acre_torch__opened(device);
    return at ? at->device : NULL;
}

/* ---- counters ---- */

static void sum_add(struct torch_sum *sum, uint64_t amount) {
    uint64_t added = atomic_fetch_add_explicit(&sum->added, amount, memory_order_relaxed) + amount;
    uint64_t current = added - atomic_load_explicit(&sum->removed, memory_order_relaxed);
    uint64_t peak = atomic_load_explicit(&sum->peak, memory_order_relaxed);
    /* A free of another thread may be counted already: then the difference is a little low, or
     * negative. */
    while ((int64_t)(current - peak) > 0 &&
           !atomic_compare_exchange_weak_explicit(&sum->peak, &peak, current, memory_order_relaxed,
                                                  memory_order_relaxed))
        continue;
}

static void sum_remove(struct torch_sum *sum, uint64_t amount) {
    atomic_fetch_add_explicit(&sum->removed, amount, memory_order_relaxed);
}

static size_t rounded_up(size_t bytes) {
    return bytes > SIZE_MAX - TORCH_ROUND ? bytes : (bytes + TORCH_ROUND - 1) & ~(TORCH_ROUND - 1);
}

/* ---- failures ---- */

static void failure_tell(void) {
    char text[4096];
    if (acre_torch_failure(text, sizeof text))
        fprintf(stderr, "%s\n", text);
}

static void *alloc_failed(struct torch_device *at, acre_status status, int device, size_t bytes) {
    failed.status = status;
    failed.device = device;
    failed.bytes = bytes;
    if (at)
        atomic_fetch_add_explicit(&at->failures, 1, memory_order_relaxed);
    if (atomic_load_explicit(&is_told, memory_order_relaxed))
        failure_tell();
    return NULL;
}

static int is_memory(acre_status status) {
    return status == ACRE_E_DEVICE_MEMORY || status == ACRE_E_HOST_MEMORY ||
           status == ACRE_E_ADDRESS_SPACE || status == ACRE_E_LIMIT;
}

int acre_torch_failure(char *text, size_t size) {
    size_t needed = 0;
    if (size)
        text[0] = 0;
    if (!failed.status || !size)
        return 0;
    if (!is_memory(failed.status)) {
        snprintf(text, size, "acre: cannot allocate %zu bytes on device %d: %s: %s", failed.bytes,
                 failed.device, acre_status_name(failed.status), acre_last_detail());
        return 2;
    }
    /* Programs that retry with a smaller batch look for the words of PyTorch's own message. */
    const struct torch_device *at = acre_torch__opened(failed.device);
    char detail[512];
    snprintf(detail, sizeof detail, "%s", acre_last_detail());
    const char *origin = at ? acre_torch__limits_origin(at, detail) : "";
    int written =
        snprintf(text, size,
                 "CUDA out of memory. Tried to allocate %.2f MiB (%zu bytes) on GPU %d. "
                 "acre: %s%s\n",
                 (double)failed.bytes / 1048576.0, failed.bytes, failed.device, detail, origin);
    if (written > 0 && (size_t)written < size)
        (void)acre_oom_report(ACRE_OOM_TEXT, text + written, size - (size_t)written, &needed);
    return 1;
}

void acre_torch_tell_failures(int want) {
    atomic_store_explicit(&is_told, want, memory_order_relaxed);
}

/* ---- allocate and free ---- */

static acre_status alloc_special(struct torch_device *at, int region, size_t bytes, int device,
                                 acre_stream stream, void **p) {
    acre_torch__captures_settle();
    if (region == TORCH_NONE && !acre_torch__in_region()) {
        pthread_mutex_lock(&acre_torch__lock);
        region = acre_torch__stream_region(device, stream);
        pthread_mutex_unlock(&acre_torch__lock);
    }
    return acre_torch__region_alloc(region, at, device, bytes, stream, p);
}

static void *alloc_in(int region, size_t bytes, int device, acre_stream stream) {
    acre_status status;
    void *p = NULL;
    if (!bytes)
        return NULL;
    struct torch_device *at = acre_torch__device(device, &status);
    if (!at)
        return alloc_failed(NULL, status, device, bytes);
    size_t rounded = rounded_up(bytes);
    if (region == TORCH_NONE && !atomic_load_explicit(&acre_torch__special, memory_order_relaxed))
        status = acre_pool_alloc(atomic_load_explicit(&at->pool, memory_order_relaxed), rounded, 0,
                                 stream, &p);
    else
        status = alloc_special(at, region, rounded, device, stream, &p);
    if (status)
        return alloc_failed(at, status, device, bytes);
    sum_add(&at->allocated, rounded);
    sum_add(&at->requested, bytes);
    sum_add(&at->blocks, 1);
    acre_torch_watch_fn fn = atomic_load_explicit(&watch, memory_order_acquire);
    if (fn)
        fn(p, bytes, 0);
    return p;
}

void *acre_torch_alloc(size_t bytes, int device, acre_stream stream) {
    return alloc_in(acre_torch__thread_region(), bytes, device, stream);
}

acre_status acre_torch__wait(struct torch_device *at) {
    acre_status status = acre_device_sync(at->device);
    if (status == ACRE_OK)
        atomic_fetch_add_explicit(&at->late_frees, 1, memory_order_relaxed);
    return status;
}

/* Programs destroy streams while tensors of them are live. No stream orders such a free, so it
 * waits for the device. */
static acre_status block_free(struct torch_device *at, void *p, acre_stream stream) {
    acre_status status = acre_free(p, stream);
    if (status == ACRE_OK || status == ACRE_E_POINTER || status == ACRE_E_INTERIOR ||
        status == ACRE_E_KIND || !stream)
        return status;
    status = acre_torch__wait(at);
    return status ? status : acre_free(p, NULL);
}

void acre_torch_free(void *p, size_t bytes, int device, acre_stream stream) {
    struct torch_device *at = acre_torch__opened(device);
    if (!p || !at || acre_torch__is_forked())
        return;
    acre_torch_watch_fn fn = atomic_load_explicit(&watch, memory_order_acquire);
    if (fn)
        fn(p, bytes, 1);
    acre_status status = acre_torch__uses_apply(p, device, stream);
    if (status == ACRE_OK)
        status = block_free(at, p, stream);
    if (status) {
        atomic_fetch_add_explicit(&wrong_frees, 1, memory_order_relaxed);
        return;
    }
    sum_remove(&at->allocated, rounded_up(bytes));
    sum_remove(&at->requested, bytes);
    sum_remove(&at->blocks, 1);
}

void acre_torch_set_watch(acre_torch_watch_fn fn) {
    atomic_store_explicit(&watch, fn, memory_order_release);
}

/* MemPools of PyTorch call an allocator without saying which pool they are, so each region has a
 * function of its own: acre_torch_alloc_0 to acre_torch_alloc_31. */
#define SLOT(n)                                                                                    \
    ACRE_TORCH_API void *acre_torch_alloc_##n(size_t bytes, int device, acre_stream stream);       \
    void *acre_torch_alloc_##n(size_t bytes, int device, acre_stream stream) {                     \
        return alloc_in(n, bytes, device, stream);                                                 \
    }
#define SLOTS(X)                                                                                   \
    X(0)                                                                                           \
    X(1)                                                                                           \
    X(2)                                                                                           \
    X(3)                                                                                           \
    X(4)                                                                                           \
    X(5)                                                                                           \
    X(6)                                                                                           \
    X(7)                                                                                           \
    X(8)                                                                                           \
    X(9)                                                                                           \
    X(10)                                                                                          \
    X(11)                                                                                          \
    X(12)                                                                                          \
    X(13)                                                                                          \
    X(14)                                                                                          \
    X(15)                                                                                          \
    X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31)
SLOTS(SLOT)
#define SLOT_NAME(n) acre_torch_alloc_##n,
static const acre_torch_alloc_fn slots[] = {SLOTS(SLOT_NAME)};
_Static_assert(sizeof slots / sizeof *slots == ACRE_TORCH_REGIONS, "a function for each region");

acre_torch_alloc_fn acre_torch_alloc_of(int region) {
    return region >= 0 && region < ACRE_TORCH_REGIONS ? slots[region] : NULL;
}

/* ---- the pools as a whole ---- */

/* Returns the default pool's own high-water mark, which no reset changes. */
static uint64_t pool_peak(const struct torch_device *at) {
    acre_pool_stats stats = {.struct_size = sizeof stats};
    acre_pool *pool = atomic_load_explicit(&at->pool, memory_order_relaxed);
    return acre_pool_get_stats(pool, &stats) == ACRE_OK ? stats.held_peak_bytes : 0;
}

/* Returns what the pools hold, and notes it in the peak. */
static uint64_t held_look(struct torch_device *at, int device) {
    uint64_t held = acre_torch__pools_held(device);
    uint64_t peak = pool_peak(at);
    pthread_mutex_lock(&acre_torch__lock);
    at->held_peak = held > at->held_peak ? held : at->held_peak;
    if (peak > at->peak_known && peak > at->held_peak)
        at->held_peak = peak;
    pthread_mutex_unlock(&acre_torch__lock);
    return held;
}

void acre_torch_reset(void) {
    if (acre_torch__is_forked())
        return;
    acre_torch__captures_settle();
    for (int i = 0; i < TORCH_DEVICES; i++) {
        struct torch_device *at = acre_torch__opened(i);
        if (!at)
            continue;
        (void)held_look(at, i);
        acre_torch__pools_trim(i);
    }
}

/* ---- statistics ---- */

static struct acre_torch_counter counter_of(const struct torch_sum *sum) {
    uint64_t removed = atomic_load_explicit(&sum->removed, memory_order_relaxed);
    uint64_t added = atomic_load_explicit(&sum->added, memory_order_relaxed);
    return (struct acre_torch_counter){
        .current = added - removed,
        .peak = atomic_load_explicit(&sum->peak, memory_order_relaxed),
        .total = added - sum->added_base,
        .freed = removed - sum->removed_base,
    };
}

void acre_torch_get_stats(int device, struct acre_torch_stats *stats) {
    struct torch_device *at = acre_torch__opened(device);
    memset(stats, 0, sizeof *stats);
    if (!at || acre_torch__is_forked())
        return;
    uint64_t held = held_look(at, device);
    pthread_mutex_lock(&acre_torch__lock);
    stats->allocated = counter_of(&at->allocated);
    stats->requested = counter_of(&at->requested);
    stats->blocks = counter_of(&at->blocks);
    /* Memory moves inside the pools, so what they took in all is the most that they held. */
    stats->held = (struct acre_torch_counter){.current = held,
                                              .peak = at->held_peak,
                                              .total = at->held_peak,
                                              .freed = at->held_peak - held};
    stats->failures = atomic_load_explicit(&at->failures, memory_order_relaxed) - at->failures_base;
    stats->recorded = atomic_load_explicit(&at->recorded, memory_order_relaxed);
    stats->late_frees = atomic_load_explicit(&at->late_frees, memory_order_relaxed);
    stats->wrong_frees = atomic_load_explicit(&wrong_frees, memory_order_relaxed);
    pthread_mutex_unlock(&acre_torch__lock);
}

static void sum_reset_peak(struct torch_sum *sum) {
    uint64_t removed = atomic_load_explicit(&sum->removed, memory_order_relaxed);
    atomic_store_explicit(&sum->peak,
                          atomic_load_explicit(&sum->added, memory_order_relaxed) - removed,
                          memory_order_relaxed);
}

void acre_torch_reset_peaks(int device) {
    struct torch_device *at = acre_torch__opened(device);
    if (!at || acre_torch__is_forked())
        return;
    uint64_t held = held_look(at, device), peak = pool_peak(at);
    pthread_mutex_lock(&acre_torch__lock);
    sum_reset_peak(&at->allocated);
    sum_reset_peak(&at->requested);
    sum_reset_peak(&at->blocks);
    at->held_peak = held;
    at->peak_known = peak;
    pthread_mutex_unlock(&acre_torch__lock);
}

static void sum_reset_totals(struct torch_sum *sum) {
    sum->added_base = atomic_load_explicit(&sum->added, memory_order_relaxed);
    sum->removed_base = atomic_load_explicit(&sum->removed, memory_order_relaxed);
}

void acre_torch_reset_totals(int device) {
    struct torch_device *at = acre_torch__opened(device);
    if (!at || acre_torch__is_forked())
        return;
    pthread_mutex_lock(&acre_torch__lock);
    sum_reset_totals(&at->allocated);
    sum_reset_totals(&at->requested);
    sum_reset_totals(&at->blocks);
    at->failures_base = atomic_load_explicit(&at->failures, memory_order_relaxed);
    pthread_mutex_unlock(&acre_torch__lock);
}
