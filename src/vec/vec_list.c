/* Which vecs there are, and what is done with them when a device is closed or asked for its
 * statistics. */
#include "base/atomic.h"
#include "base/log.h"
#include "vec/vec.h"

struct acre__live_list acre__vecs = ACRE__LIVE_LIST("a vec", ACRE__RANK_VEC_LIST);

/* By device, since it was opened. */
static struct { _Atomic uint64_t moves, copied_bytes; } counts[ACRE__DEVICE_SLOTS];

void acre__vec_count_move(acre_vec *vec, size_t copied_bytes) {
    unsigned index = acre__device_index(vec->dev);
    acre__fetch_add(&counts[index].moves, 1, memory_order_relaxed);
    acre__fetch_add(&counts[index].copied_bytes, copied_bytes, memory_order_relaxed);
}

/* ---- devices ---- */

/* The program closes the device with vecs left. */
static void vec_close(acre_device *dev) {
    unsigned long long count = 0, bytes = 0;
    for (acre_vec *vec; (vec = acre__live_take_any(&acre__vecs, dev)); count++) {
        acre__vec_ahead_end(vec);
        bytes += vec->now.mapped;
        acre__vec_end(vec);
    }
    if (count)
        acre__log(ACRE_LOG_WARN, "vec", "%s: closed with %llu vecs of %llu bytes not destroyed",
                  dev->label, count, bytes);
    acre__store(&counts[acre__device_index(dev)].moves, 0, memory_order_relaxed);
    acre__store(&counts[acre__device_index(dev)].copied_bytes, 0, memory_order_relaxed);
}

static void vec_stats(acre_device *dev, acre_stats *stats) {
    unsigned index = acre__device_index(dev);
    stats->vec_moves += acre__load(&counts[index].moves, memory_order_relaxed);
    stats->grow_copied_bytes += acre__load(&counts[index].copied_bytes, memory_order_relaxed);
    stats->vecs += acre__live_count(&acre__vecs, dev);
}

void acre__vec_hooks(void) {
    static const struct acre__device_hooks hooks = {.close = vec_close, .stats = vec_stats};
    acre__device_hooks_add(&hooks);
}
