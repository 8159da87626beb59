/* The list of vecs, and code that both ways to grow share. */
#include "base/status.h"
#include "vec/vec.h"
#include "watch/origin.h"

struct acre__live_list acre__vecs = ACRE__LIVE_LIST("a vec", ACRE__RANK_VEC_LIST);

void acre__vec_tell(acre_vec *vec) {
    struct acre__vec_place place = vec->way->place(vec);
    vec->is_ahead_full = 0;
    vec->now = place;
    vec->mapped_count = place.mapped / vec->element_bytes;
    acre__origin_resize(vec, place.mapped);
}

acre_status acre__vec_limit_check(const acre_vec *vec, size_t bytes) {
    if (bytes <= vec->limit_bytes)
        return ACRE_OK;
    return acre__fail(ACRE_E_LIMIT,
                      "vec limit exceeded: %zu bytes requested, limit %zu, mapped %zu", bytes,
                      vec->limit_bytes, vec->now.mapped);
}
