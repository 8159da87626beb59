/* Realloc: in place where possible, otherwise by a copy in stream order. */
#include "base/atomic.h"
#include "base/status.h"
#include "pool/pool_free.h"
#include "pool/pool_large.h"
#include "pool/pool_limit.h"
#include "pool/pool_list.h"
#include "pool/pool_slow.h"
#include "pool/pool_tag.h"
#include "pool/pool_watch.h"
#include "space/mapped.h"

struct change {
    acre_pool *pool;
    struct acre__slab *slab;
    void *p;
    size_t bytes;
    acre_stream stream;
};

/* Records in the trace that the block is at `p` now, before another alloc can get the old
 * address. */
static void change_tell(const struct change *change, const void *p) {
    if (acre__is_watched())
        acre__pool_watch_realloc(change->pool, change->p, p, change->bytes, change->stream);
}

/* Lock held: sets the size of the block to that of its piece. */
static void slab_resize(struct acre__slab *slab) {
    uint64_t before = slab->slot_bytes;
    slab->bytes = (size_t)slab->piece->bytes;
    slab->slot_bytes = slab->bytes;
    uint32_t value = acre__load(&slab->states[0], memory_order_relaxed);
    acre__limit_charge(slab->pool, slab->slot_bytes, 1); /* first: the sum may only be too large */
    acre__limit_credit(slab->pool, before, 1);
    acre__tag_change(acre__tag_of(slab, &slab->states[0], value),
                     (int64_t)slab->slot_bytes - (int64_t)before, 0);
}

/* Lock held: returns 1 if the limits allow the new size; *reserved is of the limit of the device.
 * If not, the caller tries a copy, which fails with a report. */
static int change_is_allowed(const struct change *change, uint64_t *reserved) {
    struct acre__slab *slab = change->slab;
    size_t more = acre__large_bytes(change->bytes) - slab->slot_bytes;
    uint32_t value = acre__load(&slab->states[0], memory_order_relaxed);
    uint32_t one = 1;
    return acre__limit_check(change->pool, more, &one) == ACRE_OK &&
           !acre__tag_over(acre__tag_of(slab, &slab->states[0], value), more) &&
           acre__limit_reserve(change->pool, more, reserved) == ACRE_OK;
}

/* Lock held: resizes without a copy, if possible. */
static acre_status change_large(struct change *change, uint64_t id, int *is_done) {
    struct acre__slab *slab = change->slab;
    uint64_t reserved = 0;
    struct acre__pool_stream *own = acre__stream_named(change->pool, change->stream, id);
    if (!own)
        return ACRE_E_HOST_MEMORY;
    const struct acre__reach *reach = &own->reach[ACRE__ARENA_BLOCKS];
    /* When memory was short, the block may have been put among slabs: its size then stays. */
    if (slab->piece->region->arena != &change->pool->blocks_in) {
        *is_done = change->bytes <= slab->bytes;
    } else if (change->bytes <= slab->bytes) {
        /* Memory that other streams use cannot become a hole of this stream: the block keeps it. */
        if (!(acre__load(&slab->states[0], memory_order_relaxed) & ACRE__SLOT_USED)) {
            acre__arena_cut(slab->piece, reach, change->bytes);
            own->recent->is_covered = 0;
            if (own->is_foreign)
                acre__stream_settle(change->pool, own, 1);
        }
        *is_done = 1;
    } else if (!change_is_allowed(change, &reserved)) {
        return ACRE_OK;
    } else {
        *is_done = acre__arena_extend(slab->piece, reach, change->bytes);
        if (!*is_done) { /* other streams may have finished with the memory behind it */
            acre__streams_settle(change->pool, own, 0);
            *is_done = acre__arena_extend(slab->piece, reach, change->bytes) ||
                       acre__arena_extend_new(slab->piece, reach, change->bytes) == ACRE_OK;
        }
    }
    if (*is_done)
        slab_resize(slab);
    acre__limit_unreserve(change->pool, reserved);
    if (!*is_done)
        return ACRE_OK;
    acre__store(&slab->asked, change->bytes, memory_order_relaxed);
    change_tell(change, change->p);
    return ACRE_OK;
}

/* Returns 1 if the block can stay unchanged: only small blocks may waste memory. */
static int is_good_as_is(const struct acre__slab *slab, size_t bytes) {
    return bytes <= slab->slot_bytes && !acre__slab_is_large(slab) &&
           (bytes >= slab->slot_bytes / 2 || acre__class_of(bytes) == slab->size_class);
}

static acre_status change_in_place(struct change *change, int *is_done) {
    uint64_t id;
    *is_done = is_good_as_is(change->slab, change->bytes);
    if (*is_done) {
        acre__slot_state *state = acre__slab_state(change->slab, change->p);
        uint32_t value = acre__load(state, memory_order_relaxed);
        acre__store(state, acre__slab_ask(change->slab, value, change->bytes),
                    memory_order_relaxed);
        change_tell(change, change->p);
    }
    /* In a pool of zeroed memory the added part must be zero, as it is after a copy. */
    int is_zeroed = change->pool->flags & ACRE_POOL_ZERO && change->bytes > change->slab->bytes;
    if (*is_done || !acre__slab_is_large(change->slab) || change->bytes <= ACRE__SMALL_MOST ||
        is_zeroed)
        return ACRE_OK;
    if (acre__load(&change->slab->states[0], memory_order_relaxed) & ACRE__SLOT_GRAPH)
        return ACRE_OK; /* kernels of the graph contain its address */
    acre_status status = acre__pool_stream_id(change->pool->dev, change->stream, &id);
    if (status == ACRE_E_CAPTURING)
        return ACRE_OK;
    if (status)
        return status;
    acre__lock_take(&change->pool->lock);
    status = change_large(change, id, is_done);
    acre__lock_give(&change->pool->lock);
    /* If out of memory for chunks, a copy may still fit into a hole. */
    return *is_done || status == ACRE_E_DEVICE_LOST ? status : ACRE_OK;
}

/* Allocates a new block, copies the contents, and frees the old one. */
static acre_status change_by_copy(struct change *change, size_t has) {
    acre_pool *pool = change->pool;
    void *made;
    acre_status status = acre__pool_alloc_slow(pool, change->bytes, 0, change->stream, 0, &made);
    if (status)
        return status;
    status = acre_copy(pool->dev, made, change->p, change->bytes < has ? change->bytes : has,
                       change->stream);
    int is_told = status == ACRE_OK;
    if (is_told) {
        change_tell(change, made);
        status = acre__pool_free_unwatched(pool, change->p, change->stream);
    }
    if (status) {
        struct acre__slab *slab = acre__pool_table_find(made);
        if (is_told && acre__is_watched())
            acre__pool_watch_unrealloc(change->p, made, change->stream);
        return acre__pool_alloc_undo(status, slab, acre__slab_slot(slab, made), change->stream);
    }
    change->p = made;
    return ACRE_OK;
}

static acre_status pool_realloc(acre_pool *pool, void *p, size_t bytes, acre_stream stream,
                                void **new_p) {
    struct change change = {.pool = pool, .p = p, .bytes = bytes, .stream = stream};
    int is_done = 0;
    if (new_p)
        *new_p = NULL;
    acre_status status = acre__pool_enter(pool);
    if (status)
        return status;
    if (!new_p)
        return acre__fail(ACRE_E_NULL, "new_p is NULL");
    if (!p || !bytes) { /* a block of 0 bytes is NULL */
        acre__inner_begin();
        return acre__inner_end(p ? acre_pool_free(pool, p, stream)
                                 : acre_pool_alloc(pool, bytes, 0, stream, new_p));
    }
    if (!acre__pool_block(pool, p, &change.slab, NULL, &status))
        return status;
    acre__lock_take(&pool->lock);
    uint32_t suspended = acre__load(&pool->is_suspended, memory_order_relaxed);
    if (suspended)
        status = acre__fail(acre__suspended_as(suspended), "memory of the pool is suspended");
    acre__lock_give(&pool->lock);
    if (status)
        return status;
    int is_debugged = (pool->flags & ACRE_POOL_DEBUG) != 0; /* a copy always gets a new red zone */
    size_t has = is_debugged ? acre_pool_usable_size(pool, p) : change.slab->slot_bytes;
    if (!is_debugged && bytes <= ACRE__BYTES_MOST) /* more cannot be allocated either */
        status = change_in_place(&change, &is_done);
    if (status == ACRE_OK && !is_done)
        status = change_by_copy(&change, has);
    if (status == ACRE_OK)
        *new_p = change.p;
    else if (acre__trace_is_on())
        acre__trace_refused(&pool->trace, bytes, stream, 0, status);
    return status;
}

acre_status acre_pool_realloc(acre_pool *pool, void *p, size_t bytes, acre_stream stream,
                              void **new_p) {
    uint64_t seen = acre__resumes();
    acre_status status;
    do
        status = pool_realloc(pool, p, bytes, stream, new_p);
    while (acre__must_retry(status, &seen));
    return acre__in_call(status, "acre_pool_realloc");
}
