/* Which vecs there are, and what all ways to grow share. */
#include "base/atomic.h"
#include "base/status.h"
#include "vec/vec.h"

struct acre__live_list acre__vecs = ACRE__LIVE_LIST("a vec", ACRE__RANK_VEC_LIST);

/* By device, since it was opened. */
static struct { _Atomic uint64_t moves, copied_bytes; } counts[ACRE__DEVICE_SLOTS];

void acre__vec_count_move(acre_vec *vec, size_t copied_bytes) {
    unsigned index = acre__device_index(vec->dev);
    acre__fetch_add(&counts[index].moves, 1, memory_order_relaxed);
    acre__fetch_add(&counts[index].copied_bytes, copied_bytes, memory_order_relaxed);
}

uint64_t acre__vec_moves(const acre_device *dev, uint64_t *copied_bytes) {
    unsigned index = acre__device_index(dev);
    *copied_bytes = acre__load(&counts[index].copied_bytes, memory_order_relaxed);
    return acre__load(&counts[index].moves, memory_order_relaxed);
}

void acre__vec_moves_forget(const acre_device *dev) {
    acre__store(&counts[acre__device_index(dev)].moves, 0, memory_order_relaxed);
    acre__store(&counts[acre__device_index(dev)].copied_bytes, 0, memory_order_relaxed);
}

void acre__vec_tell(acre_vec *vec) {
    struct acre__vec_place place = vec->way->place(vec);
    vec->is_ahead_full = 0;
    vec->now = place;
    vec->mapped_count = place.mapped / vec->element_bytes;
}

acre_status acre__vec_limit_check(const acre_vec *vec, size_t bytes) {
    if (bytes <= vec->limit_bytes)
        return ACRE_OK;
    return acre__fail(ACRE_E_LIMIT, "%zu bytes wanted, the vec may have %zu and has %zu", bytes,
                      vec->limit_bytes, vec->now.mapped);
}
