/* Slabs of a heap: blocks of up to 32 KiB, for the lanes of a warp together. Part of acre_heap.h,
 * not to be included by itself.
 *
 * An arena is the current slab of a class for some SMs. While slots that were never used are left
 * in it (FRONT), a warp's request is one load, of the arena, and one atomic add, on the slab's bump
 * word, which also says how many slots there are and of what class: a slab that is used up, or
 * that has become another one meanwhile, cannot be mistaken. Otherwise (HOLES) the request first
 * takes its number off the slab's count of freed slots and then finds that many freed bits, which
 * must be there: bits are set before they are counted.
 *
 * So the count of freed slots decides everything about a slab. Whoever brings it to the capacity
 * takes the slab apart, by a compare-and-swap against everybody who would still reserve; whoever
 * lifts it past a threshold hints at the slab in the tree of its class. Arenas need not be kept in
 * step with that: an arena whose slab has nothing left is refilled by one, and the others wait for
 * it a little. */
#ifndef ACRE_HEAP_SLAB_H
#define ACRE_HEAP_SLAB_H

#include "acre_heap_pages.h"

enum {
    ACRE__HEAP_ROOMY = 0, /* an eighth of the slots is free: good to refill an arena from */
    ACRE__HEAP_SOME = 1,  /* at least one is: for when there is nothing better */
    ACRE__HEAP_TRIES = 64,
    ACRE__HEAP_FLUSHES = 16 /* others attach slabs while one warp takes them away */
};

/* Slots for some lanes: `count` of them from `slot` on, or those of the bits of word `slot`. */
typedef struct acre__heap_grant {
    uint32_t page;  /* the slab's first */
    uint32_t slot;  /* the first, or the number of the word */
    uint32_t count; /* 0: none */
    uint32_t is_bits;
    uint64_t bits;
} acre__heap_grant;

/* What a leader is in the middle of: slots taken off a slab's count whose bits it has yet to find.
 */
typedef struct acre__heap_reserved {
    uint32_t page, cap, count, word;
} acre__heap_reserved;

ACRE__HEAP_FN uint32_t acre__heap_tier_tree(uint32_t tier, uint32_t size_class) {
    return ACRE__HEAP_RUNS + tier * ACRE_HEAP_CLASSES + size_class;
}

/* ---- which slabs have free slots ---- */

ACRE__HEAP_FN void acre__heap_tier_set(acre_heap_handle h, uint32_t tier, uint32_t size_class,
                                       uint32_t page) {
    uint32_t *mask = &acre__heap_segment_of(h, page)->tiers[tier][size_class];
    if (!acre__heap_or32(mask, 1u << (page & 31), acq_rel))
        acre__heap_tree_set(h, acre__heap_tier_tree(tier, size_class), 0, page >> 5);
}

/* 1 if this call took it away. */
ACRE__HEAP_FN int acre__heap_tier_clear(acre_heap_handle h, uint32_t tier, uint32_t size_class,
                                        uint32_t page) {
    uint32_t *mask = &acre__heap_segment_of(h, page)->tiers[tier][size_class];
    uint32_t bit = 1u << (page & 31), tree = acre__heap_tier_tree(tier, size_class);
    if (!(acre__heap_load32(mask, relaxed) & bit))
        return 0;
    uint32_t old = acre__heap_and32(mask, ~bit, acq_rel);
    if (old == bit) {
        acre__heap_tree_clear(h, tree, page >> 5);
        if (acre__heap_load32(mask, relaxed))
            acre__heap_tree_set(h, tree, 0, page >> 5);
    }
    return (old & bit) != 0;
}

/* Some slab of the tier, of which others may know too; ACRE__HEAP_NONE. It is in no tier any more.
 */
ACRE__HEAP_SLOW uint32_t acre__heap_tier_pop(acre_heap_handle h, uint32_t tier,
                                             uint32_t size_class) {
    uint32_t tree = acre__heap_tier_tree(tier, size_class);
    acre__heap_look look = {tree, acre__heap_spin(), 0, 0, 0};
    for (;;) {
        uint32_t segment = acre__heap_look_next(h, &look);
        if (segment == ACRE__HEAP_NONE)
            return segment;
        const uint32_t *mask = &h.segments[segment].tiers[tier][size_class];
        for (uint32_t left = acre__heap_load32(mask, relaxed); left; left &= left - 1) {
            uint32_t page = segment * 32 + acre__heap_ctz32(left);
            if (!acre__heap_tier_clear(h, tier, size_class, page))
                continue;
            (void)acre__heap_tier_clear(h, ACRE__HEAP_ROOMY + ACRE__HEAP_SOME - tier, size_class,
                                        page);
            return page;
        }
        acre__heap_tree_clear(h, tree, segment);
        if (acre__heap_load32(mask, relaxed))
            acre__heap_tree_set(h, tree, 0, segment);
    }
}

/* ---- slots that come back ---- */

/* All slots are free and nobody can reserve one any more. */
ACRE__HEAP_SLOW void acre__heap_retire(acre_heap_handle h, uint32_t page) {
    uint32_t info = acre__heap_load32(&acre__heap_page_of(h, page)->info, relaxed);
    uint32_t size_class = ACRE__HEAP_CLASS(info), bit = 1u << (page & 31);
    acre_heap_segment *segment = acre__heap_segment_of(h, page);
    uint32_t roomy = acre__heap_load32(&segment->tiers[ACRE__HEAP_ROOMY][size_class], relaxed);
    uint32_t some = acre__heap_load32(&segment->tiers[ACRE__HEAP_SOME][size_class], relaxed);
    if ((roomy | some) & bit)
        for (uint32_t tier = 0; tier < ACRE__HEAP_TIERS; tier++)
            (void)acre__heap_tier_clear(h, tier, size_class, page);
    acre__heap_label(h, page, ACRE__HEAP_LENGTH(info), 0);
    acre__heap_release(h, page, ACRE__HEAP_LENGTH(info));
}

/* After `count` bits of a slab were set: counts them, and does what that brings about. */
ACRE__HEAP_FN void acre__heap_count_freed(acre_heap_handle h, uint32_t page, uint32_t count) {
    uint64_t *freed = &acre__heap_page_of(h, page)->freed;
    uint64_t old = acre__heap_add64(freed, (uint64_t)count, acq_rel), now = old + count;
    uint32_t cap = ACRE__HEAP_CAP(now), roomy = 1 + cap / 8;
    uint32_t size_class = ACRE__HEAP_SORT(now) - 1;
    uint64_t all = now;
    if (ACRE__HEAP_COUNT(now) == cap && acre__heap_cas64(freed, &all, 0, acquire)) {
        acre__heap_retire(h, page);
        return;
    }
    if (ACRE__HEAP_COUNT(old) == 0)
        acre__heap_tier_set(h, ACRE__HEAP_SOME, size_class, page);
    if (ACRE__HEAP_COUNT(old) < roomy && ACRE__HEAP_COUNT(now) >= roomy)
        acre__heap_tier_set(h, ACRE__HEAP_ROOMY, size_class, page);
}

/* Slots [first, first + count) that were taken from the front and that nobody wants. */
ACRE__HEAP_SLOW void acre__heap_give_back(acre_heap_handle h, uint32_t page, uint32_t first,
                                          uint32_t count) {
    uint64_t *bits = acre__heap_bits_of(h, page);
    for (uint32_t i = first; i < first + count;) {
        uint32_t end = (i | 63) + 1 < first + count ? (i | 63) + 1 : first + count;
        uint64_t some = end - i == 64 ? ~(uint64_t)0 : ((uint64_t)1 << (end - i)) - 1;
        (void)acre__heap_or64(bits + (i >> 6), some << (i & 63), release);
        i = end;
    }
    acre__heap_count_freed(h, page, count);
}

/* ---- slots that go out ---- */

/* From the front of a slab that should be one of this class. */
ACRE__HEAP_FN acre__heap_grant acre__heap_take_front(acre_heap_handle h, uint32_t page,
                                                     uint32_t size_class, uint32_t wanted) {
    uint64_t old = acre__heap_add64(&acre__heap_page_of(h, page)->bump, (uint64_t)wanted, acquire);
    uint32_t at = ACRE__HEAP_COUNT(old), cap = ACRE__HEAP_CAP(old);
    acre__heap_grant grant = {page, 0, 0, 0, 0};
    if (at >= cap)
        return grant;
    uint32_t count = cap - at < wanted ? cap - at : wanted;
    if (ACRE__HEAP_SORT(old) == size_class + 1) {
        grant.slot = at;
        grant.count = count;
    } else { /* the arena was old news: the page is a slab of another class by now */
        acre__heap_give_back(h, page, at, count);
    }
    return grant;
}

/* Takes up to `wanted` off the count of freed slots. */
ACRE__HEAP_FN int acre__heap_reserve(acre_heap_handle h, uint32_t page, uint32_t size_class,
                                     uint32_t wanted, acre__heap_reserved *reserved) {
    uint64_t *freed = &acre__heap_page_of(h, page)->freed;
    uint64_t old = acre__heap_load64(freed, relaxed);
    uint32_t count;
    do {
        if (ACRE__HEAP_SORT(old) != size_class + 1 || ACRE__HEAP_COUNT(old) == 0)
            return 0;
        count = ACRE__HEAP_COUNT(old) < wanted ? ACRE__HEAP_COUNT(old) : wanted;
    } while (!acre__heap_cas64(freed, &old, old - count, acquire));
    reserved->page = page;
    reserved->cap = ACRE__HEAP_CAP(old);
    reserved->count = count;
    reserved->word = acre__heap_spin() + acre__heap_lane();
    return 1;
}

/* The n-th set bit, which must be there. */
ACRE__HEAP_FN uint32_t acre__heap_nth_bit(uint64_t word, uint32_t n) {
    uint32_t at = 0;
    for (uint32_t half = 32; half; half >>= 1) {
        uint32_t below = acre__heap_popc64(word >> at & (((uint64_t)1 << half) - 1));
        if (n >= below) {
            n -= below;
            at += half;
        }
    }
    return at;
}

/* Some of the reserved slots: those of one word. There are as many bits as are reserved, so a
 * search ends unless others take those that it finds, and then they get on. */
ACRE__HEAP_FN acre__heap_grant acre__heap_find_reserved(acre_heap_handle h,
                                                        acre__heap_reserved *reserved) {
    uint64_t *bits = acre__heap_bits_of(h, reserved->page);
    uint32_t words = (reserved->cap + 63) >> 6;
    for (uint32_t tries = 0;; tries++) {
        uint32_t at = reserved->word++ % words;
        uint64_t some = acre__heap_load64(bits + at, relaxed);
        if (some) {
            if (acre__heap_popc64(some) > reserved->count)
                some &= ((uint64_t)1 << acre__heap_nth_bit(some, reserved->count)) - 1;
            some &= acre__heap_and64(bits + at, ~some, acquire);
        }
        if (some) {
            acre__heap_grant grant = {reserved->page, at, acre__heap_popc64(some), 1, some};
            reserved->count -= grant.count;
            return grant;
        }
        if (tries >= words)
            acre__heap_pause(tries - words);
    }
}

/* ---- new slabs ---- */

/* Makes a slab of claimed pages, whose first `taken` slots are the caller's. Slots are handed out
 * from the front when this is published; a slab that never is an arena's has `is_own`: what the
 * caller does not take is freed at once. */
ACRE__HEAP_FN void acre__heap_make_slab(acre_heap_handle h, uint32_t page, uint32_t pages,
                                        uint32_t size_class, uint32_t taken, int is_own) {
    acre__heap_page *record = acre__heap_page_of(h, page);
    uint32_t cap = acre__heap_slots(size_class, pages);
    uint64_t *bits = acre__heap_bits_of(h, page);
    for (uint32_t i = 0; i < (cap + 63) >> 6; i++)
        acre__heap_store64(bits + i, 0, relaxed);
    acre__heap_label(h, page, pages, acre__heap_info(ACRE__HEAP_SLAB, size_class, pages));
    acre__heap_store64(&record->freed, acre__heap_word(size_class, cap, 0), relaxed);
    acre__heap_store64(&record->bump, acre__heap_word(size_class, cap, is_own ? cap : taken),
                       release);
    if (is_own && taken < cap)
        acre__heap_give_back(h, page, taken, cap - taken);
}

/* Pages for a slab of its class's size, or of a smaller one if that is all there is. */
ACRE__HEAP_FN uint32_t acre__heap_claim_slab(acre_heap_handle h, uint32_t size_class,
                                             uint32_t *pages) {
    for (uint32_t log2 = acre__heap_class_pages_log2(size_class) + 1; log2-- > 0;) {
        uint32_t page = acre__heap_claim(h, 1u << log2, 1);
        *pages = 1u << log2;
        if (page != ACRE__HEAP_NONE)
            return page;
    }
    return ACRE__HEAP_NONE;
}

/* ---- arenas ---- */

#define ACRE__HEAP_STATE(arena) ((uint32_t)(arena)&3u)
#define ACRE__HEAP_ARENA_PAGE(arena) ((uint32_t)(arena) >> 2)
/* Another sequence number, and EMPTY: who has read the arena before cannot change it any more. */
#define ACRE__HEAP_NEXT(arena) (((arena) >> 32 << 32) + ((uint64_t)1 << 32))

/* How many arenas a class has: their slabs are a 64th of the heap at most. More as it grows. */
ACRE__HEAP_FN uint32_t acre__heap_arenas_for(uint64_t segments, uint32_t size_class) {
    uint32_t log2 = segments ? acre__heap_log2((uint32_t)segments) : 0;
    uint32_t less = acre__heap_class_pages_log2(size_class);
    if (log2 > ACRE__HEAP_ARENAS_LOG2)
        log2 = ACRE__HEAP_ARENAS_LOG2;
    return 1u << (log2 > less ? log2 - less : 0);
}
ACRE__HEAP_FN uint32_t acre__heap_arena_count(acre_heap_handle h, uint32_t size_class) {
    return acre__heap_arenas_for(acre__heap_hint64(&h.control->committed), size_class);
}

/* A slab for an arena, and the caller's slots of it: {page, state}, or ACRE__HEAP_EMPTY. */
ACRE__HEAP_SLOW uint32_t acre__heap_refill(acre_heap_handle h, uint32_t size_class, uint32_t wanted,
                                           acre__heap_grant *grant, acre__heap_reserved *reserved) {
    uint32_t page, pages;
    for (uint32_t tier = 0; tier < ACRE__HEAP_TIERS; tier++) {
        while ((page = acre__heap_tier_pop(h, tier, size_class)) != ACRE__HEAP_NONE)
            if (acre__heap_reserve(h, page, size_class, wanted, reserved))
                return page << 2 | ACRE__HEAP_HOLES;
        if (tier != ACRE__HEAP_ROOMY)
            break;
        page = acre__heap_claim_slab(h, size_class, &pages);
        if (page == ACRE__HEAP_NONE)
            continue;
        uint32_t cap = acre__heap_slots(size_class, pages);
        acre__heap_grant all = {page, 0, wanted < cap ? wanted : cap, 0, 0};
        acre__heap_make_slab(h, page, pages, size_class, all.count, 0);
        *grant = all;
        return page << 2 | ACRE__HEAP_FRONT;
    }
    return ACRE__HEAP_EMPTY;
}

/* What an arena let go of is found by the trees again. */
ACRE__HEAP_SLOW void acre__heap_detach(acre_heap_handle h, uint32_t size_class, uint64_t arena) {
    uint32_t page = ACRE__HEAP_ARENA_PAGE(arena);
    acre__heap_page *record = acre__heap_page_of(h, page);
    if (ACRE__HEAP_STATE(arena) == ACRE__HEAP_FRONT) {
        acre__heap_grant rest = acre__heap_take_front(h, page, size_class, 0xffffu);
        if (rest.count)
            acre__heap_give_back(h, page, rest.slot, rest.count);
        return;
    }
    uint64_t freed = acre__heap_load64(&record->freed, relaxed);
    if (ACRE__HEAP_SORT(freed) == size_class + 1 && ACRE__HEAP_COUNT(freed))
        acre__heap_tier_set(h, ACRE__HEAP_SOME, size_class, page);
}

/* Takes the slabs of a class's arenas away. Any number of warps may be at it, each beginning
 * elsewhere; several arenas are looked at in one go, since most have nothing and each look is a way
 * through the whole chip. */
ACRE__HEAP_SLOW void acre__heap_flush_class(acre_heap_handle h, uint32_t size_class) {
    enum { AT_ONCE = 4 };
    /* Not by the hint: others may have heard of more memory than this SM, and use more arenas. */
    uint64_t segments = acre__heap_load64(&h.control->committed, relaxed);
    uint32_t count = acre__heap_arenas_for(segments, size_class);
    uint32_t begin = acre__heap_place();
    for (uint32_t i = 0; i < count; i += AT_ONCE) {
        uint64_t some[AT_ONCE];
        for (uint32_t k = 0; k < AT_ONCE; k++)
            some[k] = acre__heap_load64(
                &h.control->arenas[size_class][(begin + i + k) & (count - 1)], relaxed);
        for (uint32_t k = 0; k < AT_ONCE; k++) {
            if (ACRE__HEAP_STATE(some[k]) < ACRE__HEAP_FRONT)
                continue;
            uint64_t *arena = &h.control->arenas[size_class][(begin + i + k) & (count - 1)];
            acre__heap_add32(&h.control->flushing, 1, acquire);
            if (acre__heap_cas64(arena, &some[k], ACRE__HEAP_NEXT(some[k]), acq_rel)) {
                acre__heap_add32(&h.control->attached[size_class], ~0u, relaxed);
                acre__heap_detach(h, size_class, some[k]);
            }
            acre__heap_add32(&h.control->flushing, ~0u, acq_rel);
        }
    }
}

/* Takes the slabs of all arenas away, so that what is free in them is for everybody and slabs that
 * are all free become pages again: 0 if there was nothing to take away. Before anybody is told that
 * there is no memory: who finds that another warp is in the middle of it waits for that, with a
 * bound. */
ACRE__HEAP_SLOW int acre__heap_flush(acre_heap_handle h) {
    uint32_t any = 0;
    for (uint32_t c = 0; c < ACRE_HEAP_CLASSES; c++)
        any |= acre__heap_load32(&h.control->attached[c], relaxed);
    for (uint32_t c = 0; any && c < ACRE_HEAP_CLASSES; c++)
        if (acre__heap_load32(&h.control->attached[c], relaxed))
            acre__heap_flush_class(h, c);
    any |= acre__heap_load32(&h.control->flushing, acquire);
    for (uint32_t i = 0; i < 256 && acre__heap_load32(&h.control->flushing, acquire); i++)
        acre__heap_pause(i);
    return any != 0;
}

/* The arena is the caller's to refill: it is BUSY now, and was `before`. */
ACRE__HEAP_FN acre__heap_grant acre__heap_attach(acre_heap_handle h, uint64_t *arena,
                                                 uint64_t before, uint32_t size_class,
                                                 uint32_t wanted, acre__heap_reserved *reserved) {
    acre__heap_grant grant = {0, 0, 0, 0, 0};
    uint32_t next = acre__heap_refill(h, size_class, wanted, &grant, reserved);
    int had = ACRE__HEAP_STATE(before) != ACRE__HEAP_EMPTY, has = next != ACRE__HEAP_EMPTY;
    if (had != has)
        acre__heap_add32(&h.control->attached[size_class], has ? 1u : ~0u, relaxed);
    acre__heap_store64(arena, ACRE__HEAP_NEXT(before) | next, release);
    return reserved->count ? acre__heap_find_reserved(h, reserved) : grant;
}

/* Without an arena: what is left of the slab is for everybody. */
ACRE__HEAP_FN acre__heap_grant acre__heap_take_apart(acre_heap_handle h, uint32_t size_class,
                                                     uint32_t wanted,
                                                     acre__heap_reserved *reserved) {
    acre__heap_grant grant = {0, 0, 0, 0, 0};
    uint32_t slab = acre__heap_refill(h, size_class, wanted, &grant, reserved);
    if (slab == ACRE__HEAP_EMPTY)
        return grant;
    acre__heap_detach(h, size_class, slab);
    return reserved->count ? acre__heap_find_reserved(h, reserved) : grant;
}

/* One leader's way to slots, which may be fewer than wanted; none when nothing was found. */
ACRE__HEAP_SLOW acre__heap_grant acre__heap_take_slots(acre_heap_handle h, uint32_t size_class,
                                                       uint32_t wanted,
                                                       acre__heap_reserved *reserved) {
    acre__heap_grant grant = {0, 0, 0, 0, 0};
    uint32_t count = acre__heap_arena_count(h, size_class);
    uint64_t *arena = &h.control->arenas[size_class][acre__heap_place() & (count - 1)];
    uint64_t now = acre__heap_load64(arena, relaxed);
    for (uint32_t tries = 0; tries < ACRE__HEAP_TRIES; tries++) {
        uint32_t state = ACRE__HEAP_STATE(now), page = ACRE__HEAP_ARENA_PAGE(now);
        if (state == ACRE__HEAP_BUSY) {
            acre__heap_pause(tries);
            now = acre__heap_load64(arena, relaxed);
            continue;
        }
        if (state == ACRE__HEAP_FRONT) {
            grant = acre__heap_take_front(h, page, size_class, wanted);
            if (grant.count)
                return grant;
        } else if (state == ACRE__HEAP_HOLES &&
                   acre__heap_reserve(h, page, size_class, wanted, reserved)) {
            return acre__heap_find_reserved(h, reserved);
        }
        uint64_t before = now;
        uint64_t busy = (now >> 32 << 32) | ACRE__HEAP_BUSY;
        if (acre__heap_cas64(arena, &now, busy, acquire))
            return acre__heap_attach(h, arena, before, size_class, wanted, reserved);
    }
    /* Whoever refills it has been stopped for long; nobody has to wait for that. */
    return acre__heap_take_apart(h, size_class, wanted, reserved);
}

#endif
