/* The pool's own free lists of small slots: threads return slots to them and take slots from them.
 *
 * Lists are kept per slab (struct acre__share), so that the pool uses the lowest address first.
 * Then the upper slabs become empty, and their memory can serve other purposes. Long lists from
 * threads are first kept whole, as *bundles*: threads request long lists, and passing one on takes
 * constant time.
 *
 * All slots of a list wait for the same work (pool_stream.c), so no ordering is lost. All functions
 * here require the pool's lock. */
#include <stdlib.h>

#include "pool/pool.h"
#include "pool/pool_freed.h"
#include "pool/pool_limit.h"

enum {
    BUNDLE_SLOTS = 8, /* least slots of a bundle; shorter lists are sorted at once */
    BUNDLES = 8,      /* most bundles of a class */
};

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
    for (uint32_t i = 0; acre__class_next(&freed->used, &i); i++) {
        struct acre__freed_class *of = &freed->classes[i];
        while (of->bundle_count)
            list_sort(freed, i, &of->bundles[--of->bundle_count]);
    }
}

/* Keeps the list whole, as a bundle. Returns 0 if it cannot. */
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
    uint64_t bytes = acre__arena_waiting(&freed->holes[ACRE__ARENA_SLABS]) +
                     acre__arena_waiting(&freed->holes[ACRE__ARENA_BLOCKS]);
    for (uint32_t i = 0; acre__class_next(&freed->used, &i); i++)
        bytes += class_count(&freed->classes[i]) * acre__class_bytes(i);
    return bytes;
}

/* Turns large blocks into holes. `to` has an entry for each arena: when memory is short, a large
 * block may be in the arena of slabs. */
static void large_put(acre_pool *pool, const struct acre__reach *to, struct acre__slots *slots) {
    struct acre__slot *slot;
    while ((slot = acre__slots_pop(slots))) {
        struct acre__slab *slab = acre__pool_table_find(slot->p);
        acre__limit_credit(pool, slab->slot_bytes, 1);
        int is_in_blocks = slab->piece->region->arena == &pool->blocks_in;
        acre__large_give(pool, slab,
                         to ? &to[is_in_blocks ? ACRE__ARENA_BLOCKS : ACRE__ARENA_SLABS] : NULL);
    }
}

/* Credits small slots that return from threads. */
static void small_credit(acre_pool *pool, uint32_t size_class, const struct acre__slots *slots) {
    acre__limit_credit(pool, (uint64_t)slots->count * acre__class_bytes(size_class), slots->count);
}

void acre__freed_add(acre_pool *pool, struct acre__freed *freed, uint32_t size_class,
                     struct acre__slots *slots) {
    if (size_class == ACRE__CLASSES) {
        const struct acre__reach alone[ACRE__ARENAS] = {
            [ACRE__ARENA_SLABS] = {.recent = &freed->holes[ACRE__ARENA_SLABS]},
            [ACRE__ARENA_BLOCKS] = {.recent = &freed->holes[ACRE__ARENA_BLOCKS]}};
        large_put(pool, freed->stream ? freed->stream->reach : alone, slots);
        return;
    }
    small_credit(pool, size_class, slots);
    acre__freed_count(freed, slots->count);
    acre__class_put(&freed->used, size_class, 1);
    if (!bundle_put(&freed->classes[size_class], slots))
        list_sort(freed, size_class, slots);
}

void acre__freed_inherit(struct acre__freed *from, struct acre__freed *to) {
    acre__freed_sort(from);
    for (uint32_t i = 0; acre__class_next(&from->used, &i); i++) {
        struct acre__node *node;
        acre__class_put(&to->used, i, 1);
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

void acre__freed_ready(struct acre__freed *freed) {
    for (uint32_t i = 0; acre__class_next(&freed->used, &i); i++)
        class_ready(&freed->classes[i]);
    freed->used = (struct acre__class_set){0};
    acre__freed_count(freed, -(int64_t)freed->count);
    for (int i = 0; i < ACRE__ARENAS; i++)
        acre__arena_ready(&freed->holes[i]);
}
