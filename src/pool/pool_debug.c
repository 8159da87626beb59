/* Pools that detect memory errors (ACRE_POOL_DEBUG).
 *
 * A block has a red zone of at least 256 bytes behind the bytes requested. The pool poisons new and
 * freed memory with different bytes. A free waits for the stream, checks the red zone, poisons the
 * block and quarantines it. The pool checks the poison when the block leaves the quarantine. It
 * logs and counts errors. All of this happens in stream order, and is slow: it never happens on a
 * hit path. */

#include "base/status.h"
#include "pool/pool_debug.h"
#include "pool/pool_free.h"
#include "pool/pool_freed.h"
#include "space/book.h"
#include "space/mapped.h"
#include "watch/origin.h"

enum {
    DEBUG_NEW = 0xa5,  /* fills a new block */
    DEBUG_ZONE = 0xfb, /* fills its red zone */
    DEBUG_FREED = 0xdd /* fills a freed block */
};

/* Larger blocks are not quarantined: they would take too much memory. */
#define DEBUG_QUARANTINE_MOST ((size_t)4 << 20)

/* Copy and fill memory that is in no live block: red zones and free blocks. */
static acre_status idle_copy(acre_device *dev, void *to, const void *from, size_t bytes,
                             acre_stream stream) {
    acre__book_allow_idle(1);
    acre_status status = acre_copy(dev, to, from, bytes, stream);
    acre__book_allow_idle(0);
    return status;
}

static acre_status idle_fill(acre_device *dev, void *to, uint8_t value, size_t bytes,
                             acre_stream stream) {
    acre__book_allow_idle(1);
    acre_status status = acre_fill(dev, to, value, bytes, stream);
    acre__book_allow_idle(0);
    return status;
}

/* Finds the first byte of a range that is not `value`, in its first 256 bytes; *wrong is -1 if
 * there is none. */
static acre_status debug_look(acre_pool *pool, const char *at, size_t bytes, unsigned char value,
                              acre_stream stream, int *wrong) {
    unsigned char found[ACRE__GRAIN];
    size_t count = bytes < sizeof found ? bytes : sizeof found, i = 0;
    acre_status status = idle_copy(pool->dev, found, at, count, stream);
    while (status == ACRE_OK && i < count && found[i] == value)
        i++;
    *wrong = status == ACRE_OK && i < count ? (int)i : -1;
    return status;
}

acre_status acre__pool_debug_alloc(const struct acre__slab *slab, void *p, size_t bytes, int zero,
                                   acre_stream stream) {
    acre_device *dev = slab->pool->dev;
    acre_status status = acre_fill(dev, p, zero ? 0 : DEBUG_NEW, bytes, stream);
    if (status == ACRE_OK)
        status = idle_fill(dev, (char *)p + bytes, DEBUG_ZONE, slab->slot_bytes - bytes, stream);
    /* The host may write to the block at once, and the poison must not come later. */
    if (status == ACRE_OK && slab->pool->kind != ACRE_KIND_DEVICE) {
        status = acre_stream_sync(dev, stream);
        status = status == ACRE_E_CAPTURING ? ACRE_OK : status;
    }
    return status;
}

/* Frees a slot that leaves the quarantine. Logs and counts a write after its free. */
static void debug_leave(acre_pool *pool, struct acre__slot *slot) {
    const struct acre__slab *slab = acre__pool_table_find(slot->p);
    int wrong = -1;
    if (!acre__device_is_lost(pool->dev))
        (void)debug_look(pool, slot->p, slab->slot_bytes, DEBUG_FREED, NULL, &wrong);
    if (wrong >= 0)
        acre__origin_log_error(
            slot->p,
            "%s: use after free: the block at %p was written at byte %d after it was freed",
            pool->dev->label, slot->p, wrong);
    struct acre__slots one = acre__slots_of(slot);
    acre__lock_take(&pool->lock);
    pool->late_writes += wrong >= 0;
    acre__central_ready(pool, slab->size_class, &one);
    acre__lock_give(&pool->lock);
}

/* Puts a slot into the quarantine. Returns the slot that it replaces, or NULL. */
static struct acre__slot *debug_enter(acre_pool *pool, struct acre__slot *slot) {
    acre__lock_take(&pool->lock);
    struct acre__slot **place = &pool->quarantine[pool->quarantine_next++ % ACRE__QUARANTINE];
    struct acre__slot *out = *place;
    *place = slot;
    acre__lock_give(&pool->lock);
    return out;
}

void acre__pool_debug_flush(acre_pool *pool) {
    int is_debugged = (pool->flags & ACRE_POOL_DEBUG) != 0;
    for (unsigned i = 0; is_debugged && i < ACRE__QUARANTINE; i++) {
        struct acre__slot *out = debug_enter(pool, NULL);
        if (out)
            debug_leave(pool, out);
    }
}

/* Waits for all work that uses the block. */
static acre_status debug_wait(acre_pool *pool, const void *p, acre_stream stream, int is_past) {
    acre_status status =
        is_past ? acre__uses_wait_stream(pool->dev, stream) : acre_stream_sync(pool->dev, stream);
    acre__lock_take(&pool->lock);
    struct acre__pool_use *use = acre__pool_use_find(pool, p);
    if (use && status == ACRE_OK && (status = acre__uses_wait(&use->uses)) == ACRE_OK)
        acre__pool_use_end(pool, use);
    acre__lock_give(&pool->lock);
    return status;
}

static void debug_log_overflow(const acre_pool *pool, const void *p, size_t bytes, int wrong) {
    acre__origin_log_error(
        p, "%s: overflow: the block of %zu bytes at %p was written at byte %zu, past its end",
        pool->dev->label, bytes, p, bytes + (size_t)wrong);
}

static int debug_is_away(const void *p, size_t bytes) {
    struct acre__said said;
    acre__said_keep(&said);
    acre__gate_enter(ACRE__GATE_MAP);
    acre_status status = acre__away_check(p, bytes, "block");
    acre__gate_leave(ACRE__GATE_MAP);
    (void)acre__said_fail(ACRE_OK, &said);
    return status != ACRE_OK;
}

acre_status acre__pool_debug_free(struct acre__slab *slab, struct acre__slot *slot,
                                  uint32_t *before, acre_stream stream) {
    acre_pool *pool = slab->pool;
    char *p = slot->p;
    size_t whole = slab->slot_bytes, bytes = acre__slab_asked(slab, *before);
    int wrong = -1, is_quiet = 1, is_past = acre__stream_is_past(pool->dev, stream);
    /* Of a destroyed stream only the past work can be waited for. The legacy stream serves then. */
    acre_stream by = is_past ? NULL : stream;
    uint64_t id; /* queried only because nothing may wait for a captured stream */
    acre_status status =
        acre__device_is_lost(pool->dev) ? ACRE_OK : acre__pool_stream_id(pool->dev, stream, &id);
    if (status)
        return status;
    if (debug_is_away(p, whole)) /* nothing can be checked or poisoned */
        return acre__pool_free_plain(slab, slot, stream);
    if (!acre__device_is_lost(pool->dev)) {
        status = debug_wait(pool, p, stream, is_past);
        if (status == ACRE_OK && bytes < whole)
            status = debug_look(pool, p + bytes, whole - bytes, DEBUG_ZONE, by, &wrong);
        if (status == ACRE_OK)
            status = idle_fill(pool->dev, p, DEBUG_FREED, whole, by);
        if (status)
            return status;
        *before = acre__slab_ask(slab, *before, whole); /* the red zone is poisoned, too */
        is_quiet = acre_stream_sync(pool->dev, by) == ACRE_OK;
    }
    if (wrong >= 0)
        debug_log_overflow(pool, p, bytes, wrong);
    acre__lock_take(&pool->lock);
    pool->overruns += wrong >= 0;
    acre__lock_give(&pool->lock);
    if (!is_quiet) /* poisoned at an unknown time: only this stream may reuse it */
        return acre__pool_free_plain(slab, slot, stream);
    struct acre__slot *out = whole <= DEBUG_QUARANTINE_MOST ? debug_enter(pool, slot) : slot;
    if (out)
        debug_leave(pool, out);
    return ACRE_OK;
}

/* The red zones of a slab's live blocks. Nobody else uses a pool that is being destroyed. */
static void debug_look_slab(void *user, struct acre__piece *piece) {
    acre_pool *pool = user;
    struct acre__slab *slab = piece->user;
    for (uint32_t i = 0; i < slab->fresh; i++) {
        uint32_t state = acre__load(slab->slots[i].state, memory_order_relaxed);
        size_t bytes = acre__slab_asked(slab, state);
        char *p = slab->slots[i].p;
        int wrong = -1;
        if (state & ACRE__SLOT_LIVE && bytes < slab->slot_bytes)
            (void)debug_look(pool, p + bytes, slab->slot_bytes - bytes, DEBUG_ZONE, NULL, &wrong);
        if (wrong >= 0)
            debug_log_overflow(pool, p, bytes, wrong);
    }
}

void acre__pool_debug_end(acre_pool *pool) {
    if (!(pool->flags & ACRE_POOL_DEBUG) || acre__device_is_lost(pool->dev))
        return;
    acre__pool_debug_flush(pool);
    acre__slabs_walk(pool, debug_look_slab, pool);
}
