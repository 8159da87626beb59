/* How threads take small slots from the pool's free lists (pool_freed.c): first slots of their
 * stream, then slots that other streams have finished with, then slots of new slabs. All functions
 * require the pool's lock. */

#include "base/status.h"
#include "pool/pool.h"
#include "pool/pool_central.h"
#include "pool/pool_freed.h"
#include "pool/pool_slab_make.h"

enum { DONE_LOOKS = 64 }; /* lists of other streams checked in one call */

/* ---- taking ---- */

static uint32_t want_left(const struct acre__want *want) {
    return want->slots.count < want->count ? want->count - want->slots.count : 0;
}

/* Takes a bundle, or a part of one. */
static void take_bundle(struct acre__want *want, struct acre__freed *freed) {
    struct acre__freed_class *of = &freed->classes[want->size_class];
    if (!of->bundle_count || want->slots.count)
        return;
    struct acre__slots *from = &of->bundles[of->bundle_count - 1];
    uint32_t had = from->count;
    if (from->count <= want->most || from->count <= want->count)
        acre__slots_join(&want->slots, from);
    else
        acre__slots_move(&want->slots, from, want->count);
    acre__freed_count(freed, (int64_t)from->count - had);
    of->bundle_count -= !from->count;
}

static void take_share(struct acre__want *want, struct acre__share *share) {
    struct acre__freed *freed = share->owner;
    uint32_t had = share->slots.count;
    acre__slots_move(&want->slots, &share->slots, want_left(want));
    acre__freed_count(freed, (int64_t)share->slots.count - had);
    if (!share->slots.count) {
        acre__tree_remove(&freed->classes[want->size_class].shares, &share->node);
        share->owner = NULL;
    }
    acre__slab_note(share->slab);
}

static void take_open(struct acre__want *want, struct acre__slab *slab) {
    acre__slots_move(&want->slots, &slab->ready, want_left(want));
    while (want_left(want) && slab->fresh < slab->count)
        acre__slots_push(&want->slots, acre__slab_fresh(slab));
    acre__slab_note(slab);
}

static void take_loose(struct acre__want *want, struct acre__freed *freed) {
    struct acre__slots *from = &freed->classes[want->size_class].loose;
    uint32_t had = from->count;
    acre__slots_move(&want->slots, from, want_left(want));
    acre__freed_count(freed, (int64_t)from->count - had);
}

/* Returns the node with the lower address; either may be NULL. */
static struct acre__node *lower(struct acre__node *a, struct acre__node *b) {
    return !a || (b && b->key < a->key) ? b : a;
}

/* Takes the lowest addresses first, from the stream's frees and from ready slots. */
static void take_lowest(struct acre__want *want, struct acre__pool_stream *own) {
    uint32_t i = want->size_class;
    while (want_left(want)) {
        struct acre__node *open = acre__tree_first(&want->pool->open[i]);
        struct acre__node *recent = acre__tree_first(&own->recent->freed->classes[i].shares);
        struct acre__node *marked = acre__tree_first(&own->marked->freed->classes[i].shares);
        struct acre__node *first = lower(lower(recent, marked), open);
        if (!first)
            break;
        if (first == open)
            take_open(want, acre__tree_entry(open, struct acre__slab, node));
        else
            take_share(want, acre__tree_entry(first, struct acre__share, node));
    }
}

static void take_free(struct acre__want *want, struct acre__pool_stream *own) {
    take_bundle(want, own->recent->freed);
    take_bundle(want, own->marked->freed);
    if (want->slots.count)
        return;
    take_lowest(want, own);
    take_loose(want, own->recent->freed);
    take_loose(want, own->marked->freed);
}

static int freed_has_class(const struct acre__freed *freed, uint32_t size_class) {
    const struct acre__freed_class *of = &freed->classes[size_class];
    return of->bundle_count || of->loose.count || of->shares.count;
}

/* Takes slots that other streams have finished with: settles their lists one by one. */
static void take_done(struct acre__want *want, struct acre__pool_stream *own) {
    acre_pool *pool = want->pool;
    for (int i = 0; i < DONE_LOOKS && pool->freed && !want->slots.count; i++) {
        struct acre__freed *freed = pool->freed;
        pool->freed = freed->after; /* the next call starts with the next list */
        if (freed->stream == own || !freed_has_class(freed, want->size_class))
            continue;
        acre__stream_settle(pool, freed->stream, 0);
        take_lowest(want, own);
    }
}

static void take_freed(struct acre__want *want, struct acre__freed *freed) {
    struct acre__node *node;
    take_bundle(want, freed);
    while (want_left(want) && (node = acre__tree_first(&freed->classes[want->size_class].shares)))
        take_share(want, acre__tree_entry(node, struct acre__share, node));
    take_loose(want, freed);
}

/* Takes slots of another stream. The calling stream waits for the work before their frees. */
static acre_status take_behind(struct acre__want *want, struct acre__pool_stream *own) {
    acre_pool *pool = want->pool;
    for (struct acre__pool_stream *at = pool->streams; at; at = at->next) {
        struct acre__generation *from =
            freed_has_class(at->marked->freed, want->size_class) ? at->marked : at->recent;
        if (at == own || !freed_has_class(from->freed, want->size_class))
            continue;
        acre_status status = acre__stream_join(pool, at, from, want->stream);
        if (status == ACRE_E_NOT_READY)
            continue;
        if (status)
            return status;
        pool->waits++;
        if (acre__trace_is_on())
            acre__trace_wait(&pool->trace, want->stream);
        take_freed(want, from->freed);
        return ACRE_OK;
    }
    return ACRE_OK;
}

/* Takes slots of a new slab. Sorts bundles first: the slab may reuse fully free slabs, which
 * bundles would hide. */
static acre_status take_new(struct acre__want *want, struct acre__pool_stream *own) {
    acre__freed_sort(own->recent->freed);
    acre__freed_sort(own->marked->freed);
    acre__stream_settle(want->pool, own, 1);
    acre_status status = acre__slab_make(want->pool, want->size_class, own);
    if (status)
        return status;
    if (own->is_foreign)
        acre__stream_settle(want->pool, own, 1); /* the call names the stream */
    take_lowest(want, own);
    return ACRE_OK;
}

/* As take_new, but makes the smallest slab, in any hole. */
static acre_status take_any(struct acre__want *want, struct acre__pool_stream *own) {
    int is_made;
    acre_status status = acre__slab_make_any(want->pool, want->size_class, own, &is_made);
    if (status || !is_made)
        return status;
    if (own->is_foreign)
        acre__stream_settle(want->pool, own, 1);
    take_lowest(want, own);
    return ACRE_OK;
}

acre_status acre__central_take(struct acre__want *want, enum acre__effort effort) {
    struct acre__pool_stream *own = acre__central_stream(want);
    if (!own)
        return ACRE_E_HOST_MEMORY;
    if (effort == ACRE__TAKE_BEHIND)
        return own->graph ? ACRE_OK : take_behind(want, own); /* graphs wait for no outside work */
    take_free(want, own);
    if (want->slots.count || effort == ACRE__TAKE_FREE)
        return ACRE_OK;
    if (effort == ACRE__TAKE_ANY)
        return take_any(want, own);
    take_done(want, own);
    return want->slots.count ? ACRE_OK : take_new(want, own);
}
