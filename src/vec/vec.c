/* The public calls on a vec. vec.h explains the locks and the two ways to grow.
 *
 * A grow that fits into mapped memory takes the size lock alone: no driver call, no waiting. */
#include "base/atomic.h"
#include "base/options.h"
#include "base/status.h"
#include "space/mapped.h"
#include "vec/vec.h"

/* An append that needs memory tries to add an eighth of the mapped bytes, up to this much. */
#define VEC_STEP_MOST ((size_t)256 << 20)

/* ---- published state ---- */

/* Sets the number of elements. Size lock held. */
static void vec_set_count(acre_vec *vec, size_t count) {
    vec->count = count;
    atomic_store_explicit(&vec->extent.used_bytes, count * vec->element_bytes,
                          memory_order_relaxed);
}

/* Begins a call that changes the vec; the call ends with vec_thaw after ACRE_OK. The vec is frozen
 * in between. */
static acre_status vec_freeze(acre_vec *vec) {
    acre_status status = acre__vec_enter(vec);
    if (status)
        return status;
    acre__lock_take(&vec->change);
    acre__lock_take(&vec->size);
    vec->is_frozen = 1;
    acre__lock_give(&vec->size);
    acre__wait_forbid(); /* the caller waits, without the lock */
    return ACRE_OK;
}

static acre_status vec_thaw(acre_vec *vec, acre_status status) {
    acre__wait_allow();
    acre__lock_take(&vec->size);
    vec->is_frozen = 0;
    acre__lock_give(&vec->size);
    acre__lock_give(&vec->change);
    return status;
}

/* Publishes the vec's place and number of elements; the vec is frozen. */
static void vec_publish(acre_vec *vec, size_t count) {
    acre__lock_take(&vec->size);
    vec_set_count(vec, count);
    acre__vec_tell(vec);
    acre__lock_give(&vec->size);
}

struct vec_seen {
    struct acre__vec_place place;
    size_t count;
    uint64_t moves, copied_bytes;
};

/* Reads a consistent snapshot. All zero if `vec` is not a vec. */
static acre_status vec_see(const acre_vec *vec, struct vec_seen *seen) {
    *seen = (struct vec_seen){0};
    acre_status status = acre__vec_check(vec);
    if (status)
        return status;
    struct acre__lock *size = (struct acre__lock *)(uintptr_t)&vec->size;
    acre__lock_take(size);
    *seen = (struct vec_seen){vec->now, vec->count, vec->moves, vec->copied_bytes};
    acre__lock_give(size);
    return ACRE_OK;
}

void *acre_vec_data(const acre_vec *vec) {
    struct vec_seen seen;
    (void)vec_see(vec, &seen);
    return (void *)(uintptr_t)seen.place.at;
}

size_t acre_vec_size(const acre_vec *vec) {
    struct vec_seen seen;
    (void)vec_see(vec, &seen);
    return seen.count;
}

size_t acre_vec_capacity(const acre_vec *vec) {
    struct vec_seen seen;
    return vec_see(vec, &seen) ? 0 : seen.place.room / vec->element_bytes;
}

uint64_t acre_vec_mapped_bytes(const acre_vec *vec) {
    struct vec_seen seen;
    (void)vec_see(vec, &seen);
    return seen.place.mapped;
}

static acre_status vec_get_info(const acre_vec *vec, acre_vec_info *info) {
    acre_vec_info told = {.struct_size = sizeof told};
    acre_status status = acre__options_out(info, sizeof told, &told, "acre_vec_info");
    struct vec_seen seen;
    if (status || (status = vec_see(vec, &seen)))
        return status;
    told.device = vec->dev;
    told.data = (void *)(uintptr_t)seen.place.at;
    told.element_bytes = vec->element_bytes;
    told.size = seen.count;
    told.capacity = seen.place.room / vec->element_bytes;
    told.mapped_bytes = seen.place.mapped;
    told.chunks = seen.place.chunks;
    told.moves = seen.moves;
    told.copied_bytes = seen.copied_bytes;
    told.kind = vec->kind;
    told.strategy = vec->strategy;
    return acre__options_out(info, sizeof told, &told, "acre_vec_info");
}

acre_status acre_vec_get_info(const acre_vec *vec, acre_vec_info *info) {
    return acre__in_call(vec_get_info(vec, info), "acre_vec_get_info");
}

/* ---- growing ---- */

/* The status for more elements than any memory can hold. */
static acre_status vec_out_of_memory(const acre_vec *vec) {
    return vec->kind == ACRE_KIND_PINNED ? ACRE_E_HOST_MEMORY : ACRE_E_DEVICE_MEMORY;
}

/* Computes the bytes of `count` elements. Returns `too_many` if no size_t holds them. */
static acre_status vec_bytes(const acre_vec *vec, size_t count, acre_status too_many,
                             size_t *bytes) {
    if (__builtin_mul_overflow(count, vec->element_bytes, bytes) || *bytes > PTRDIFF_MAX)
        return acre__fail(too_many, "%zu elements of %zu bytes are more than any memory holds",
                          count, vec->element_bytes);
    return ACRE_OK;
}

/* Prepares memory for `count` more elements; *total is the new number of elements. No other thread
 * sees it. */
static acre_status grow_begin(acre_vec *vec, size_t count, size_t step, acre_stream stream,
                              struct acre__vec_growth *growth, size_t *total) {
    *growth = (struct acre__vec_growth){.stream = stream, .before = vec->way->place(vec)};
    if (__builtin_add_overflow(vec->count, count, total))
        return acre__fail(vec_out_of_memory(vec),
                          "%zu elements more than %zu are more than any memory holds", count,
                          vec->count);
    acre_status status = vec_bytes(vec, *total, vec_out_of_memory(vec), &growth->need);
    if (status || growth->need <= growth->before.mapped ||
        (status = acre__stream_check(vec->dev, stream)))
        return status;
    growth->wish = growth->before.mapped + step;
    growth->wish = growth->wish < growth->need ? growth->need : growth->wish;
    return vec->way->grow(vec, growth);
}

/* Commits a growth; the vec now has `count` elements. */
static void growth_end(acre_vec *vec, struct acre__vec_growth *growth, size_t count) {
    acre__lock_take(&vec->size);
    vec_set_count(vec, count);
    if (growth->is_begun)
        acre__vec_tell(vec);
    int is_moved = growth->before.at && vec->now.at != growth->before.at;
    vec->moves += (uint64_t)is_moved;
    vec->copied_bytes += growth->copied;
    acre__vec_ahead_look(vec);
    acre__lock_give(&vec->size);
    acre__fetch_add(&vec->dev->grow_moves, (uint64_t)is_moved, memory_order_relaxed);
    acre__fetch_add(&vec->dev->grow_copied_bytes, growth->copied, memory_order_relaxed);
    if (growth->is_begun)
        vec->way->end(vec, growth);
}

/* Rolls a growth back. Returns `status` and restores its detail. */
static acre_status growth_undo(acre_vec *vec, struct acre__vec_growth *growth, acre_status status) {
    struct acre__said said;
    acre__said_keep(&said);
    if (growth->is_begun)
        vec->way->undo(vec, growth);
    vec_publish(vec, vec->count);
    return acre__said_fail(status, &said);
}

/* Grows within the mapped memory; returns 0 if `count` more elements do not fit. */
static int grow_fast(acre_vec *vec, size_t count) {
    acre__lock_take(&vec->size);
    int fits = !vec->is_frozen && vec->count <= vec->mapped_count &&
               count <= vec->mapped_count - vec->count;
    if (fits) {
        vec_set_count(vec, vec->count + count);
        acre__vec_ahead_look(vec);
    }
    acre__lock_give(&vec->size);
    return fits;
}

/* As grow_begin, but makes pools release idle memory and retries when memory is short. After a
 * failure the vec is unchanged. */
static acre_status grow_reclaiming(acre_vec *vec, size_t count, size_t step, acre_stream stream,
                                   struct acre__vec_growth *growth, size_t *total) {
    acre_status status;
    int tries = 0;
    do {
        status = grow_begin(vec, count, step, stream, growth, total);
        if (status)
            status = growth_undo(vec, growth, status);
    } while (status && acre__device_reclaim(vec->dev, vec->kind, growth->need, status, tries++));
    return status;
}

/* The vec is frozen. */
static acre_status vec_grow(acre_vec *vec, size_t count, acre_stream stream) {
    struct acre__vec_growth growth;
    size_t total;
    acre_status status = grow_reclaiming(vec, count, 0, stream, &growth, &total);
    if (status == ACRE_OK)
        growth_end(vec, &growth, total);
    return status;
}

acre_status acre_vec_grow(acre_vec *vec, size_t count, acre_stream stream) {
    uint64_t seen = acre__resumes();
    acre_status status = acre__vec_enter(vec);
    if (status == ACRE_OK && grow_fast(vec, count))
        return ACRE_OK;
    if (status == ACRE_OK)
        do {
            status = vec_freeze(vec);
            if (status == ACRE_OK)
                status = vec_thaw(vec, vec_grow(vec, count, stream));
        } while (acre__must_retry(status, &seen));
    return acre__in_call(status, "acre_vec_grow");
}

static acre_status vec_reserve(acre_vec *vec, size_t count, acre_stream stream) {
    struct acre__vec_growth growth = {.stream = stream};
    acre_status status = acre__vec_enter(vec);
    if (status || (status = vec_bytes(vec, count, ACRE_E_ADDRESS_SPACE, &growth.need)) ||
        (status = vec_freeze(vec)))
        return status;
    growth.before = vec->way->place(vec);
    if (growth.need > growth.before.room &&
        (status = acre__stream_check(vec->dev, stream)) == ACRE_OK)
        status = vec->way->reserve(vec, &growth);
    if (status)
        status = growth_undo(vec, &growth, status);
    else
        growth_end(vec, &growth, vec->count);
    return vec_thaw(vec, status);
}

acre_status acre_vec_reserve(acre_vec *vec, size_t count, acre_stream stream) {
    uint64_t seen = acre__resumes();
    acre_status status;
    do
        status = vec_reserve(vec, count, stream);
    while (acre__must_retry(status, &seen));
    return acre__in_call(status, "acre_vec_reserve");
}

/* ---- appending ---- */

/* Refuses a captured stream before anything changes: the copy would become part of a graph, but the
 * vec would have the elements before the graph ever ran. */
static acre_status append_check(acre_vec *vec, acre_stream stream) {
    acre_status status = acre__stream_check(vec->dev, stream);
    return status ? status
                  : acre__stream_not_captured(vec->dev, stream, "the stream is being captured");
}

/* Copies the new elements into place. *is_queued is 1 if the copy may still be in flight after a
 * failure. */
static acre_status append_copy(acre_vec *vec, const void *from, size_t bytes,
                               const struct acre__vec_growth *growth, int *is_queued) {
    uint64_t at = vec->way->place(vec).at, offset = (uintptr_t)from - growth->before.at;
    /* The source may be elements of this vec, which may have moved just now. */
    if (growth->before.at && offset < vec->count * vec->element_bytes)
        from = (const char *)(uintptr_t)(at + offset);
    void *to = (void *)(uintptr_t)(at + vec->count * vec->element_bytes);
    acre__inner_begin();
    acre_status status = acre__inner_end(acre_copy(vec->dev, to, from, bytes, growth->stream));
    if (status)
        return status;
    status = acre__uses_record(&vec->uses, growth->stream);
    *is_queued = status && acre_stream_sync(vec->dev, growth->stream) != ACRE_OK;
    return status;
}

/* The vec is frozen. */
static acre_status vec_append(acre_vec *vec, const void *from, size_t count, acre_stream stream) {
    struct acre__vec_growth growth = {0};
    size_t total, bytes = 0, step = vec->now.mapped / 8;
    int is_queued = 0;
    acre_status status = append_check(vec, stream);
    if (status == ACRE_OK)
        status = vec_bytes(vec, count, vec_out_of_memory(vec), &bytes);
    if (status)
        return status;
    step = step < VEC_STEP_MOST ? step : VEC_STEP_MOST;
    status = grow_reclaiming(vec, count, step, stream, &growth, &total);
    if (status)
        return status;
    status = append_copy(vec, from, bytes, &growth, &is_queued);
    /* Memory that a copy may still write to stays mapped, without elements. */
    if (status && !is_queued)
        return growth_undo(vec, &growth, status);
    growth_end(vec, &growth, status ? vec->count : total);
    return status;
}

acre_status acre_vec_append(acre_vec *vec, const void *from, size_t count, acre_stream stream) {
    uint64_t seen = acre__resumes();
    acre_status status = acre__vec_enter(vec);
    if (status == ACRE_OK && !count)
        return ACRE_OK;
    if (status == ACRE_OK)
        status = acre__not_null(from, "from");
    if (status == ACRE_OK)
        do {
            status = vec_freeze(vec);
            if (status == ACRE_OK)
                status = vec_thaw(vec, vec_append(vec, from, count, stream));
        } while (acre__must_retry(status, &seen));
    return acre__in_call(status, "acre_vec_append");
}

/* ---- shrinking ---- */

/* Sets the count, which must not increase, and frees the memory that lies entirely behind `keep`
 * bytes. The vec is frozen. */
static acre_status vec_shrink(acre_vec *vec, size_t count, size_t keep, acre_stream stream) {
    struct acre__vec_place place = vec->way->place(vec);
    size_t kept = vec->way->kept ? vec->way->kept(vec, keep) : place.mapped;
    acre_status status = ACRE_OK;
    if (kept < place.mapped) {
        status = acre__uses_settle(&vec->uses, stream);
        if (status == ACRE_OK)
            vec->way->shrink(vec, keep);
    }
    if (status == ACRE_OK)
        vec_publish(vec, count);
    return status;
}

/* Removes the last `count` elements, and keeps the memory that is mapped ahead. The vec is
 * frozen. */
static acre_status vec_shrink_by(acre_vec *vec, size_t count, acre_stream stream) {
    if (count > vec->count)
        return acre__fail(ACRE_E_INVALID, "cannot remove %zu elements: the vec has %zu", count,
                          vec->count);
    size_t left = vec->count - count, keep;
    if (__builtin_add_overflow(left * vec->element_bytes, vec->has_thread ? vec->ahead_bytes : 0,
                               &keep))
        keep = SIZE_MAX;
    return vec_shrink(vec, left, keep, stream);
}

acre_status acre_vec_shrink(acre_vec *vec, size_t count, acre_stream stream) {
    acre_status status = vec_freeze(vec);
    if (status == ACRE_OK)
        status = vec_thaw(vec, vec_shrink_by(vec, count, stream));
    return acre__in_call(status, "acre_vec_shrink");
}

acre_status acre_vec_resize(acre_vec *vec, size_t count, acre_stream stream) {
    uint64_t seen = acre__resumes();
    acre_status status;
    do {
        status = vec_freeze(vec);
        if (status == ACRE_OK)
            status =
                vec_thaw(vec, count < vec->count ? vec_shrink_by(vec, vec->count - count, stream)
                                                 : vec_grow(vec, count - vec->count, stream));
    } while (acre__must_retry(status, &seen));
    return acre__in_call(status, "acre_vec_resize");
}

static acre_status vec_shrink_to_fit(acre_vec *vec, acre_stream stream) {
    acre_status status = vec_freeze(vec);
    if (status)
        return status;
    status = vec_shrink(vec, vec->count, vec->count * vec->element_bytes, stream);
    if (status == ACRE_OK) {
        acre__lock_take(&vec->size);
        vec->is_ahead_wanted = 0;
        acre__lock_give(&vec->size);
    }
    return vec_thaw(vec, status);
}

acre_status acre_vec_shrink_to_fit(acre_vec *vec, acre_stream stream) {
    return acre__in_call(vec_shrink_to_fit(vec, stream), "acre_vec_shrink_to_fit");
}

static acre_status vec_clear(acre_vec *vec) {
    acre_status status = vec_freeze(vec);
    if (status)
        return status;
    acre__lock_take(&vec->size);
    vec_set_count(vec, 0);
    acre__lock_give(&vec->size);
    return vec_thaw(vec, ACRE_OK);
}

acre_status acre_vec_clear(acre_vec *vec) {
    return acre__in_call(vec_clear(vec), "acre_vec_clear");
}

/* ---- uses and access ---- */

static acre_status vec_record_use(acre_vec *vec, acre_stream stream) {
    acre_status status = acre__vec_enter(vec);
    if (status)
        return status;
    acre_device *dev = acre__stream_device(vec->dev, stream);
    acre__lock_take(&vec->change);
    if (dev != vec->dev && !acre__extent_has_access(&vec->extent, dev))
        status =
            acre__fail(ACRE_E_HANDLE, "stream %p belongs to %s, which has no access to the vec",
                       (void *)stream, dev->label);
    else
        status = acre__uses_record_peer(&vec->uses, dev, stream);
    acre__lock_give(&vec->change);
    return status;
}

acre_status acre_vec_record_use(acre_vec *vec, acre_stream stream) {
    return acre__in_call(vec_record_use(vec, stream), "acre_vec_record_use");
}

static acre_status vec_set_access(acre_vec *vec, acre_device *peer, acre_access access) {
    acre_status status = acre__vec_enter(vec);
    if (status == ACRE_OK)
        status = acre__device_enter(peer);
    if (status)
        return status;
    if (access != ACRE_ACCESS_NONE && access != ACRE_ACCESS_READ &&
        access != ACRE_ACCESS_READ_WRITE)
        return acre__fail(ACRE_E_INVALID, "acre_vec_set_access: invalid access %d", (int)access);
    if (vec->way != &acre__vec_vmm)
        return acre__fail(ACRE_E_UNSUPPORTED, "acre_vec_set_access: the vec grows by copying; only "
                                              "strategy ACRE_VEC_VMM supports peers");
    acre__lock_take(&vec->change);
    status = acre__extent_set_access(&vec->extent, peer, (unsigned)access);
    acre__lock_give(&vec->change);
    return status;
}

acre_status acre_vec_set_access(acre_vec *vec, acre_device *peer, acre_access access) {
    return acre__in_call(vec_set_access(vec, peer, access), "acre_vec_set_access");
}
