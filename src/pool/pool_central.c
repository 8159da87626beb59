/* The pool's own free lists of small slots: threads give slots to them and take slots from them.
 *
 * Lists are kept per slab (struct acre__share), so that the pool uses the lowest address first.
 * Then the upper slabs become empty, and their memory can serve other purposes. Long lists from
 * threads are first kept whole, as *bundles*: threads want long lists, and passing one on takes
 * constant time.
 *
 * All slots of a list wait for one thing (pool_stream.c), so no ordering is lost. All functions
 * here require the pool's lock. */
#include <stdlib.h>

#include "base/status.h"
#include "pool/pool.h"

enum {
    BUNDLE_SLOTS = 8, /* least slots of a bundle; shorter lists are sorted at once */
    BUNDLES = 8,      /* most bundles of a class */
    DONE_LOOKS = 64   /* lists of other streams checked in one call */
};

/* ---- the ring of lists that have slots ---- */

static void ring_add(struct acre__freed *freed) {
    acre_pool *pool = freed->pool;
    struct acre__freed *hand = pool->freed ? pool->freed : freed;
    freed->after = hand;
    freed->before = hand == freed ? freed : hand->before;
    freed->before->after = freed;
    hand->before = freed;
    pool->freed = hand;
}

static void ring_remove(struct acre__freed *freed) {
    acre_pool *pool = freed->pool;
    if (pool->freed == freed)
        pool->freed = freed->after == freed ? NULL : freed->after;
    freed->before->after = freed->after;
    freed->after->before = freed->before;
}

void acre__freed_count(struct acre__freed *freed, int64_t more) {
    int had = freed->count != 0;
    freed->count += (uint64_t)more;
    int has = freed->count != 0;
    if (freed->stream && has && !had)
        ring_add(freed);
    else if (freed->stream && !has && had)
        ring_remove(freed);
}

/* ---- lists ---- */

/* Puts a slot into the list's share of the slab. Returns 0 if both shares belong to other lists. */
static int share_put(struct acre__freed *freed, struct acre__slab *slab, struct acre__slot *slot) {
    struct acre__share *share = NULL;
    for (int i = 0; i < ACRE__SHARES && (!share || share->owner != freed); i++)
        if (!slab->shares[i].owner || slab->shares[i].owner == freed)
            share = &slab->shares[i];
    if (!share)
        return 0;
    if (!share->owner) {
        share->owner = freed;
        acre__tree_insert(&freed->classes[slab->size_class].shares, &share->node);
    }
    acre__slots_push(&share->slots, slot);
    return 1;
}

static void list_sort(struct acre__freed *freed, uint32_t size_class, struct acre__slots *slots) {
    struct acre__slot *slot;
    while ((slot = acre__slots_pop(slots))) {
        struct acre__slab *slab = acre__pool_table_find(slot->p);
        if (share_put(freed, slab, slot))
            acre__slab_note(slab);
        else
            acre__slots_push(&freed->classes[size_class].loose, slot);
    }
}

void acre__freed_sort(struct acre__freed *freed) {
    for (uint32_t i = 0; acre__freed_next(freed, &i); i++) {
        struct acre__freed_class *of = &freed->classes[i];
        while (of->bundle_count)
            list_sort(freed, i, &of->bundles[--of->bundle_count]);
    }
}

/* Keeps the list whole. Returns 0 if it cannot. */
static int bundle_put(struct acre__freed_class *of, struct acre__slots *slots) {
    if (slots->count < BUNDLE_SLOTS || of->bundle_count == BUNDLES)
        return 0;
    if (!of->bundles)
        of->bundles = calloc(BUNDLES, sizeof *of->bundles);
    if (!of->bundles)
        return 0;
    of->bundles[of->bundle_count++] = *slots;
    *slots = (struct acre__slots){0};
    return 1;
}

void acre__freed_end(struct acre__freed *freed) {
    for (uint32_t i = 0; freed && i < ACRE__CLASSES; i++)
        free(freed->classes[i].bundles);
    free(freed);
}

static uint64_t class_count(const struct acre__freed_class *of) {
    uint64_t count = of->loose.count;
    for (uint32_t i = 0; i < of->bundle_count; i++)
        count += of->bundles[i].count;
    for (struct acre__node *node = acre__tree_first(&of->shares); node;
         node = acre__tree_next(&of->shares, node))
        count += acre__tree_entry(node, struct acre__share, node)->slots.count;
    return count;
}

uint64_t acre__freed_bytes(const struct acre__freed *freed) {
    uint64_t bytes = freed->holes[ACRE__ARENA_SLABS].bytes + freed->holes[ACRE__ARENA_BLOCKS].bytes;
    for (uint32_t i = 0; acre__freed_next(freed, &i); i++)
        bytes += class_count(&freed->classes[i]) * acre__class_bytes(i);
    return bytes;
}

/* ---- giving ---- */

/* Large blocks become holes. */
static void large_put(acre_pool *pool, const struct acre__reach *to, struct acre__slots *slots) {
    struct acre__slot *slot;
    while ((slot = acre__slots_pop(slots))) {
        struct acre__slab *slab = acre__pool_table_find(slot->p);
        acre__limit_credit(pool, slab->slot_bytes, 1);
        acre__large_give(pool, slab, to);
    }
}

/* Credits small slots that return from threads. */
static void small_credit(acre_pool *pool, uint32_t size_class, const struct acre__slots *slots) {
    acre__limit_credit(pool, (uint64_t)slots->count * acre__class_bytes(size_class), slots->count);
}

void acre__freed_put(acre_pool *pool, struct acre__pool_stream *stream, uint32_t size_class,
                     struct acre__slots *slots) {
    if (size_class == ACRE__CLASSES) {
        large_put(pool, &stream->reach[ACRE__ARENA_BLOCKS], slots);
    } else {
        acre__freed_add(pool, stream->recent->freed, size_class, slots);
    }
}

void acre__freed_add(acre_pool *pool, struct acre__freed *freed, uint32_t size_class,
                     struct acre__slots *slots) {
    if (size_class == ACRE__CLASSES) {
        const struct acre__reach to = {.recent = &freed->holes[ACRE__ARENA_BLOCKS]};
        large_put(pool, &to, slots);
        return;
    }
    small_credit(pool, size_class, slots);
    acre__freed_count(freed, slots->count);
    acre__freed_use(freed, size_class);
    if (!bundle_put(&freed->classes[size_class], slots))
        list_sort(freed, size_class, slots);
}

void acre__freed_inherit(struct acre__freed *from, struct acre__freed *to) {
    acre__freed_sort(from);
    for (uint32_t i = 0; acre__freed_next(from, &i); i++) {
        struct acre__node *node;
        acre__freed_use(to, i);
        while ((node = acre__tree_first(&from->classes[i].shares))) {
            struct acre__share *share = acre__tree_entry(node, struct acre__share, node);
            struct acre__slots slots = share->slots;
            acre__tree_remove(&from->classes[i].shares, node);
            share->owner = NULL;
            share->slots = (struct acre__slots){0};
            list_sort(to, i, &slots);
        }
        list_sort(to, i, &from->classes[i].loose);
    }
    acre__freed_count(to, (int64_t)from->count);
    acre__freed_count(from, -(int64_t)from->count);
    for (int i = 0; i < ACRE__ARENAS; i++)
        acre__arena_inherit(&from->holes[i], &to->holes[i]);
}

static void list_ready(struct acre__slots *slots) {
    struct acre__slot *slot;
    while ((slot = acre__slots_pop(slots))) {
        struct acre__slab *slab = acre__pool_table_find(slot->p);
        acre__slots_push(&slab->ready, slot);
        acre__slab_note(slab);
    }
}

void acre__central_ready(acre_pool *pool, uint32_t size_class, struct acre__slots *slots) {
    if (size_class == ACRE__CLASSES) {
        large_put(pool, NULL, slots);
        return;
    }
    small_credit(pool, size_class, slots);
    list_ready(slots);
}

static void class_ready(struct acre__freed_class *of) {
    struct acre__node *node;
    while (of->bundle_count)
        list_ready(&of->bundles[--of->bundle_count]);
    list_ready(&of->loose);
    while ((node = acre__tree_first(&of->shares))) {
        struct acre__share *share = acre__tree_entry(node, struct acre__share, node);
        acre__tree_remove(&of->shares, node);
        acre__slots_join(&share->slab->ready, &share->slots);
        share->owner = NULL;
        acre__slab_note(share->slab);
    }
}

void acre__freed_ready(acre_pool *pool, struct acre__freed *freed) {
    for (uint32_t i = 0; acre__freed_next(freed, &i); i++)
        class_ready(&freed->classes[i]);
    memset(freed->used, 0, sizeof freed->used);
    acre__freed_count(freed, -(int64_t)freed->count);
    acre__arena_ready(&pool->slabs_in, &freed->holes[ACRE__ARENA_SLABS]);
    acre__arena_ready(&pool->blocks_in, &freed->holes[ACRE__ARENA_BLOCKS]);
}

int acre__central_give(acre_pool *pool, uint32_t size_class, acre_stream stream, uint64_t id,
                       struct acre__slots *slots) {
    acre_status status;
    struct acre__pool_stream *own =
        acre__stream_find(pool, stream, acre__stream_thread(stream), id, &status);
    if (!own)
        return 0;
    pool->spills++;
    acre__stream_put(pool, own, size_class, slots, 1);
    return 1;
}

/* If the handle belongs to another stream now, or to none, the slots wait until the device is idle.
 * A record created now would be that of the handle's current stream. */
int acre__central_give_old(acre_pool *pool, uint32_t size_class, acre_stream handle,
                           uint64_t thread, uint64_t id, int is_foreign,
                           struct acre__slots *slots) {
    acre_status status;
    int is_known = acre__stream_is_known(pool, handle, thread, id);
    struct acre__pool_stream *stream =
        is_known || (!is_foreign && !acre__stream_is_gone(pool, handle, thread, id))
            ? acre__stream_find(pool, handle, thread, id, &status)
            : acre__stream_lost(pool);
    if (!stream)
        return 0;
    pool->spills++;
    acre__stream_put(pool, stream, size_class, slots, 0);
    return 1;
}

int acre__central_give_after_all(acre_pool *pool, uint32_t size_class, struct acre__slots *slots) {
    if (!acre__device_is_lost(pool->dev) && acre__step_quiesce(pool->dev))
        return 0;
    acre__central_ready(pool, size_class, slots);
    return 1;
}

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

/* The node with the lower address; either may be NULL. */
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

/* Takes memory of other streams that are known to be done with it. */
static void take_done(struct acre__want *want, struct acre__pool_stream *own) {
    acre_pool *pool = want->pool;
    for (int i = 0; i < DONE_LOOKS && pool->freed && !want->slots.count; i++) {
        struct acre__freed *freed = pool->freed;
        pool->freed = freed->after; /* start with the others next time */
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

/* Takes memory of another stream; the calling stream waits for the work before it. */
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

/* Takes slots of a new slab. That may reuse fully free slabs, which bundles would hide. */
static acre_status take_new(struct acre__want *want, struct acre__pool_stream *own) {
    acre__freed_sort(own->recent->freed);
    acre__freed_sort(own->marked->freed);
    acre__stream_settle(want->pool, own, 1);
    acre_status status = acre__slab_make(want->pool, want->size_class, own);
    if (status)
        return status;
    if (own->is_foreign)
        acre__stream_settle(want->pool, own, 1); /* the call names it */
    take_lowest(want, own);
    return ACRE_OK;
}

acre_status acre__central_take(struct acre__want *want, enum acre__effort effort) {
    acre_status status;
    struct acre__pool_stream *own = acre__central_stream(want, &status);
    if (!own)
        return status;
    if (effort == ACRE__TAKE_BEHIND)
        return own->graph ? ACRE_OK : take_behind(want, own); /* no graph waits for work outside */
    take_free(want, own);
    if (want->slots.count || effort == ACRE__TAKE_FREE)
        return ACRE_OK;
    take_done(want, own);
    return want->slots.count ? ACRE_OK : take_new(want, own);
}

struct acre__pool_stream *acre__central_stream(const struct acre__want *want, acre_status *status) {
    *status = ACRE_OK;
    if (want->graph)
        return want->graph;
    return acre__stream_find(want->pool, want->stream, acre__stream_thread(want->stream), want->id,
                             status);
}
