/* Slabs: allocation of blocks of up to 32 KiB, for the lanes of a warp together. Part of
 * acre_heap.h, not to be included by itself.
 *
 * Each SM is assigned an arena per size class; the arena names the slab that its warps allocate
 * from. While the slab has slots that were never used (FRONT), a warp's request is one load of the
 * arena and one atomic add on the slab's bump word. The same word holds the capacity and the class,
 * so the add also reveals whether the slab is used up, or whether its pages have meanwhile become a
 * slab of another class. Otherwise (HOLES) the request first subtracts the number of slots that it
 * needs from the slab's count of freed slots. It then finds that many freed bits, which must exist:
 * bits are set before they are counted.
 *
 * So the count of freed slots decides everything about a slab. The thread that raises it to the
 * capacity retires the slab with a compare-and-swap on that count. The swap fails if another thread
 * has reserved slots meanwhile. The thread that raises it past a threshold adds a hint to the tree
 * of its class. Arenas need not be updated at the same time: one warp refills an arena whose slab
 * has nothing left, while other warps use the next arena. */
#ifndef ACRE_HEAP_SLAB_H
#define ACRE_HEAP_SLAB_H

#include "pages.h"

enum {
    ACRE__HEAP_ROOMY = 0, /* a quarter of the slots is free: good for refilling an arena */
    ACRE__HEAP_SOME = 1,  /* at least one slot is free: used if there is nothing better */
    ACRE__HEAP_TRIES = 64,
    ACRE__HEAP_SEARCH = 1 << 18, /* words; not timed on a GPU */
    ACRE__HEAP_FLUSHES = 16      /* tries, since other warps attach slabs while one detaches them */
};

/* Slots for some lanes: `count` slots from `slot` on, or the slots of `bits` in word `slot`. */
typedef struct acre__heap_grant {
    uint32_t page;  /* first page of the slab */
    uint32_t slot;  /* first slot, or the number of the word */
    uint32_t count; /* 0: none */
    uint32_t is_bits;
    uint64_t bits;
} acre__heap_grant;

/* Slots that a leader has subtracted from a slab's count, and whose bits it has yet to find. */
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
    if (!acre__heap_or32(mask, 1u << (page & 31), chip))
        acre__heap_tree_set(h, acre__heap_tier_tree(tier, size_class), 0, page >> 5);
}

/* Returns 1 if this call cleared the hint. */
ACRE__HEAP_FN int acre__heap_tier_clear(acre_heap_handle h, uint32_t tier, uint32_t size_class,
                                        uint32_t page) {
    uint32_t *mask = &acre__heap_segment_of(h, page)->tiers[tier][size_class];
    uint32_t bit = 1u << (page & 31), tree = acre__heap_tier_tree(tier, size_class);
    if (!(acre__heap_load32(mask, relaxed) & bit))
        return 0;
    uint32_t old = acre__heap_and32(mask, ~bit, chip);
    if (old == bit) {
        acre__heap_tree_clear(h, tree, page >> 5);
        if (acre__heap_load32(mask, relaxed))
            acre__heap_tree_set(h, tree, 0, page >> 5);
    }
    return (old & bit) != 0;
}

/* Takes some slab out of a tier, and out of the other one, too; ACRE__HEAP_NONE if there is none.
 * Other warps may still know the slab. */
ACRE__HEAP_SLOW uint32_t acre__heap_tier_pop(acre_heap_handle h, uint32_t tier,
                                             uint32_t size_class) {
    uint32_t tree = acre__heap_tier_tree(tier, size_class);
    acre__heap_look look = {tree, acre__heap_spin(), 0, 0};
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

/* ---- freed slots ---- */

/* Clears the hints to a slab that was retired. A hint that another warp adds late does no harm: the
 * page it leads to is no slab of that class. */
ACRE__HEAP_FN void acre__heap_untier(acre_heap_handle h, uint32_t size_class, uint32_t page) {
    acre_heap_segment *segment = acre__heap_segment_of(h, page);
    uint32_t bit = 1u << (page & 31), old[ACRE__HEAP_TIERS];
    for (uint32_t tier = 0; tier < ACRE__HEAP_TIERS; tier++)
        old[tier] = acre__heap_and32(&segment->tiers[tier][size_class], ~bit, chip);
    for (uint32_t tier = 0; tier < ACRE__HEAP_TIERS; tier++) {
        uint32_t tree = acre__heap_tier_tree(tier, size_class);
        if (old[tier] != bit)
            continue;
        acre__heap_tree_clear(h, tree, page >> 5);
        if (acre__heap_load32(&segment->tiers[tier][size_class], relaxed))
            acre__heap_tree_set(h, tree, 0, page >> 5);
    }
}

/* Frees the pages of a slab whose slots are all free; no thread can reserve one any more. The
 * labels stay, since stores would need a fence. The word `freed` is 0 by now, which says that there
 * is no slab. */
ACRE__HEAP_SLOW void acre__heap_retire(acre_heap_handle h, uint32_t page, uint32_t info) {
    uint32_t pages = ACRE__HEAP_LENGTH(info);
    if (!(info & ACRE__HEAP_OWN))
        acre__heap_add32(&h.control->slab_pages[ACRE__HEAP_CLASS(info)], 0u - pages, relaxed);
    acre__heap_release(h, page, pages);
}

#define ACRE__HEAP_NO_SLAB (~(uint64_t)0)

/* Counts freed slots after `count` of their bits were set, and retires the slab or adds hints. The
 * bits are the last writes that need a fence before them. Returns the new count with the slab's
 * class; 0 if the slab was retired; ACRE__HEAP_NO_SLAB if it was retired before, which means a
 * double free. */
ACRE__HEAP_FN uint64_t acre__heap_count_freed(acre_heap_handle h, uint32_t page, uint32_t count) {
    uint64_t *freed = &acre__heap_page_of(h, page)->freed;
    uint64_t old = acre__heap_add64(freed, (uint64_t)count, chip), now = old + count;
    if (!ACRE__HEAP_SORT(old)) { /* undone by a cas: a subtraction could hit a new slab here */
        while (!ACRE__HEAP_SORT(now) && !acre__heap_cas64(freed, &now, 0, chip))
            continue;
        return ACRE__HEAP_NO_SLAB;
    }
    uint32_t cap = ACRE__HEAP_CAP(now), roomy = 1 + cap / 4;
    uint32_t size_class = ACRE__HEAP_SORT(now) - 1;
    if (ACRE__HEAP_COUNT(now) == cap) {
        uint64_t all = now;
        if (acre__heap_cas64(freed, &all, 0, chip)) {
            acre__heap_untier(h, size_class, page);
            acre__heap_retire(h, page,
                              acre__heap_load32(&acre__heap_page_of(h, page)->info, relaxed));
            return 0;
        }
    }
    if (ACRE__HEAP_COUNT(old) == 0)
        acre__heap_tier_set(h, ACRE__HEAP_SOME, size_class, page);
    if (ACRE__HEAP_COUNT(old) < roomy && ACRE__HEAP_COUNT(now) >= roomy)
        acre__heap_tier_set(h, ACRE__HEAP_ROOMY, size_class, page);
    return now;
}

/* Frees slots [first, first + count) that were taken from the front and are not needed. The result
 * of each atomic shows that the bits are set; then they are counted. */
ACRE__HEAP_SLOW void acre__heap_give_back(acre_heap_handle h, uint32_t page, uint32_t first,
                                          uint32_t count) {
    uint64_t *bits = acre__heap_bits_of(h, page);
    uint32_t set = 0;
    acre__heap_fence();
    for (uint32_t i = first; i < first + count;) {
        uint32_t end = (i | 63) + 1 < first + count ? (i | 63) + 1 : first + count;
        uint64_t some = end - i == 64 ? ~(uint64_t)0 : ((uint64_t)1 << (end - i)) - 1;
        some <<= i & 63;
        set += acre__heap_popc64(some & ~acre__heap_or64(bits + (i >> 6), some, chip));
        i = end;
    }
    (void)acre__heap_count_freed(h, page, set);
}
typedef void (*acre__heap_give_back_fn)(acre_heap_handle h, uint32_t page, uint32_t first,
                                        uint32_t count);

/* Returns 1 if a slab with these counts has no live slot and has been in use for a while. It is
 * then better to take the rest of its front too, so that its pages become free, than to let other
 * warps search its holes. */
ACRE__HEAP_FN int acre__heap_is_idle(uint64_t freed, uint64_t bump) {
    uint32_t used = ACRE__HEAP_COUNT(bump), cap = ACRE__HEAP_CAP(bump);
    return ACRE__HEAP_COUNT(freed) == used && used < cap && used > cap / 4 &&
           ACRE__HEAP_SORT(freed) == ACRE__HEAP_SORT(bump);
}

/* Takes the rest of an idle slab's front, if its bump word is unchanged. Then retires the slab, if
 * no warp has taken a hole in the meantime. */
ACRE__HEAP_SLOW void acre__heap_close(acre_heap_handle h, uint32_t page, uint64_t bump) {
    acre__heap_page *record = acre__heap_page_of(h, page);
    uint32_t used = ACRE__HEAP_COUNT(bump), cap = ACRE__HEAP_CAP(bump);
    uint64_t idle = bump;
    if (!acre__heap_cas64(&record->bump, &bump, bump - used + cap, chip))
        return;
    if (acre__heap_cas64(&record->freed, &idle, 0, chip)) {
        uint32_t info = acre__heap_load32(&record->info, relaxed);
        acre__heap_untier(h, ACRE__HEAP_CLASS(info), page);
        acre__heap_retire(h, page, info);
    } else {
        acre__heap_give_back(h, page, used, cap - used);
    }
}

/* ---- allocated slots ---- */

/* Takes slots from the front of a slab that should have this class. */
ACRE__HEAP_FN acre__heap_grant acre__heap_take_front(acre_heap_handle h, uint32_t page,
                                                     uint32_t size_class, uint32_t wanted) {
    uint64_t old = acre__heap_add64(&acre__heap_page_of(h, page)->bump, (uint64_t)wanted, chip);
    uint32_t at = ACRE__HEAP_COUNT(old), cap = ACRE__HEAP_CAP(old);
    acre__heap_grant grant = {page, 0, 0, 0, 0};
    if (at >= cap)
        return grant;
    uint32_t count = cap - at < wanted ? cap - at : wanted;
    if (ACRE__HEAP_SORT(old) == size_class + 1) {
        grant.slot = at;
        grant.count = count;
    } else { /* the arena was stale: the page is a slab of another class now */
        ACRE__HEAP_APART(acre__heap_give_back_fn, give_back, acre__heap_give_back);
        give_back(h, page, at, count);
    }
    return grant;
}

/* Subtracts up to `wanted` from the count of freed slots. Returns 0 if there are none. */
ACRE__HEAP_FN int acre__heap_reserve(acre_heap_handle h, uint32_t page, uint32_t size_class,
                                     uint32_t wanted, acre__heap_reserved *reserved) {
    uint64_t *freed = &acre__heap_page_of(h, page)->freed;
    uint64_t old = acre__heap_load64(freed, relaxed);
    uint32_t count;
    do {
        if (ACRE__HEAP_SORT(old) != size_class + 1 || ACRE__HEAP_COUNT(old) == 0)
            return 0;
        count = ACRE__HEAP_COUNT(old) < wanted ? ACRE__HEAP_COUNT(old) : wanted;
    } while (!acre__heap_cas64(freed, &old, old - count, chip));
    reserved->page = page;
    reserved->cap = ACRE__HEAP_CAP(old);
    reserved->count = count;
    reserved->word = acre__heap_spin() + acre__heap_lane();
    return 1;
}

/* Finds some of the reserved slots: those of one word. There are as many bits as reserved slots, so
 * a search ends unless other warps take the bits that it finds, and then those make progress. It
 * reads four words at a time, since a slab of small slots has many. If a program's double free has
 * damaged the records, the slots are not there: after a long search they are counted as lost. */
ACRE__HEAP_SLOW acre__heap_grant acre__heap_find_reserved(acre_heap_handle h,
                                                          acre__heap_reserved *reserved) {
    uint64_t *bits = acre__heap_bits_of(h, reserved->page);
    uint32_t words = (reserved->cap + 63) >> 6;
    for (uint32_t looked = 0; looked < ACRE__HEAP_SEARCH; looked += 4) {
        uint64_t four[4];
        uint32_t first = reserved->word % words;
        for (uint32_t i = 0; i < 4; i++)
            four[i] = first + i < words ? acre__heap_load64(bits + first + i, relaxed) : 0;
        uint32_t i = four[0] ? 0 : four[1] ? 1 : four[2] ? 2 : 3;
        uint64_t some = four[0] ? four[0] : four[1] ? four[1] : four[2] ? four[2] : four[3];
        reserved->word = first + i + 1 < words ? first + i + 1 : 0;
        if (some) {
            if (acre__heap_popc64(some) > reserved->count)
                some &= ((uint64_t)1 << acre__heap_nth_bit(some, reserved->count)) - 1;
            some &= acre__heap_and64(bits + first + i, ~some, chip);
        }
        if (some) {
            acre__heap_grant grant = {reserved->page, first + i, acre__heap_popc64(some), 1, some};
            reserved->count -= grant.count;
            return grant;
        }
        if (looked > 2 * words)
            acre__heap_pause(2);
    }
    acre__heap_grant none = {0, 0, 0, 0, 0};
    acre__heap_add64(&h.control->lost_slots, (uint64_t)reserved->count, relaxed);
    reserved->count = 0;
    return none;
}
typedef acre__heap_grant (*acre__heap_find_fn)(acre_heap_handle h, acre__heap_reserved *reserved);

/* ---- new slabs ---- */

/* Makes a slab of claimed pages. Its first `taken` slots belong to the caller. Once an arena has
 * the slab, other warps take slots from its front. A slab for one warp (ACRE__HEAP_OWN) has no
 * slots at its front: other warps know it only by addresses that they get from that warp. So the
 * slots that the caller does not take are freed at once. */
ACRE__HEAP_FN void acre__heap_make_slab(acre_heap_handle h, uint32_t page, uint32_t pages,
                                        uint32_t size_class, uint32_t taken, uint32_t own) {
    acre__heap_page *record = acre__heap_page_of(h, page);
    uint32_t cap = acre__heap_slots(size_class, pages);
    uint64_t *bits = acre__heap_bits_of(h, page);
    for (uint32_t i = 0; i < (cap + 63) >> 6; i++)
        acre__heap_store64(bits + i, 0, relaxed);
    acre__heap_label(h, page, pages, acre__heap_info(ACRE__HEAP_SLAB, size_class, pages) | own);
    acre__heap_store64(&record->freed, acre__heap_word(size_class, cap, 0), relaxed);
    if (own) {
        acre__heap_store64(&record->bump, acre__heap_word(size_class, cap, cap), relaxed);
        if (taken < cap)
            acre__heap_give_back(h, page, taken, cap - taken);
    } else {
        /* A warp that finds the slab in an arena must see this value, or it would take the slab for
         * one that is used up. A store could be overtaken by the arena's store; an atomic that has
         * returned cannot. */
        (void)acre__heap_exch64(&record->bump, acre__heap_word(size_class, cap, taken), acq_rel);
    }
}

/* Claims pages for a slab of its class's size, or for a smaller slab if there is nothing better. By
 * then the pages of all desks are in the trees. */
ACRE__HEAP_FN uint32_t acre__heap_claim_slab(acre_heap_handle h, uint32_t size_class,
                                             uint32_t *pages) {
    uint32_t spread = acre__heap_hint32(&h.control->spread[size_class]);
    uint32_t log2 = acre__heap_slab_log2(size_class, spread);
    uint64_t desk;
    *pages = 1u << log2;
    uint32_t page =
        acre__heap_desk_take(h, acre__heap_place() & acre__heap_desks_last(h), *pages, &desk);
    if (page == ACRE__HEAP_NONE)
        page = acre__heap_claim_rest(h, *pages, 1);
    while (page == ACRE__HEAP_NONE && log2-- > 0) {
        *pages = 1u << log2;
        page = acre__heap_search(h, log2, *pages, 0xffffffffu, acre__heap_spin());
    }
    return page;
}

/* Counts the pages of a new slab, and raises the spread of its class if there are many. */
ACRE__HEAP_FN void acre__heap_count_slab(acre_heap_handle h, uint32_t size_class, uint32_t pages) {
    uint32_t used = pages + acre__heap_add32(&h.control->slab_pages[size_class], pages, relaxed);
    uint32_t *spread = &h.control->spread[size_class];
    uint32_t now = acre__heap_hint32(spread);
    uint32_t wanted = acre__heap_spread_for(size_class, used);
    if (now >= wanted)
        return;
    uint64_t segments = acre__heap_hint64(&h.control->committed);
    now = acre__heap_load32(spread, relaxed);
    if (now < wanted && now < acre__heap_spread_of(segments, ACRE__HEAP_MOST_LOG2))
        (void)acre__heap_cas32(spread, &now, now + 1, relaxed);
}

/* ---- arenas ---- */

#define ACRE__HEAP_STATE(arena) ((uint32_t)(arena)&3u)
#define ACRE__HEAP_ARENA_PAGE(arena) ((uint32_t)(arena) >> 2)
/* The next sequence number, and EMPTY: a warp that read the arena before cannot change it. */
#define ACRE__HEAP_NEXT(arena) (((arena) >> 32 << 32) + ((uint64_t)1 << 32))

ACRE__HEAP_FN uint32_t acre__heap_arena_of(acre_heap_handle h, uint32_t size_class) {
    uint32_t spread = acre__heap_hint32(&h.control->spread[size_class]);
    return acre__heap_place() & ((1u << acre__heap_arenas_log2(size_class, spread)) - 1);
}

/* Makes a slab of new pages and takes the caller's slots. Returns {page, state}. */
ACRE__HEAP_FN uint32_t acre__heap_new_slab(acre_heap_handle h, uint32_t size_class, uint32_t page,
                                           uint32_t pages, uint32_t wanted,
                                           acre__heap_grant *grant) {
    uint32_t cap = acre__heap_slots(size_class, pages);
    acre__heap_grant all = {page, 0, wanted < cap ? wanted : cap, 0, 0};
    acre__heap_make_slab(h, page, pages, size_class, all.count, 0);
    acre__heap_count_slab(h, size_class, pages);
    *grant = all;
    return page << 2 | ACRE__HEAP_FRONT;
}

/* Finds a slab for an arena and takes the caller's slots. {page, state}, or ACRE__HEAP_EMPTY. */
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
        if (page != ACRE__HEAP_NONE)
            return acre__heap_new_slab(h, size_class, page, pages, wanted, grant);
    }
    return ACRE__HEAP_EMPTY;
}

typedef uint32_t (*acre__heap_refill_fn)(acre_heap_handle h, uint32_t size_class, uint32_t wanted,
                                         acre__heap_grant *grant, acre__heap_reserved *reserved);

/* As acre__heap_refill, but with at most one call, if no slab has much room and the desks have
 * pages. */
ACRE__HEAP_FN uint32_t acre__heap_refill_quick(acre_heap_handle h, uint32_t size_class,
                                               uint32_t wanted, acre__heap_grant *grant,
                                               acre__heap_reserved *reserved) {
    ACRE__HEAP_APART(acre__heap_refill_fn, refill, acre__heap_refill);
    ACRE__HEAP_APART(acre__heap_desk_fn, desk_claim, acre__heap_desk_claim);
    const uint64_t *roomy = acre__heap_tree(h, acre__heap_tier_tree(ACRE__HEAP_ROOMY, size_class));
    uint32_t spread = acre__heap_hint32(&h.control->spread[size_class]);
    uint32_t pages = 1u << acre__heap_slab_log2(size_class, spread), page = ACRE__HEAP_NONE;
    if (!acre__heap_load64(roomy, relaxed)) {
        uint64_t desk;
        page = acre__heap_desk_take(h, acre__heap_place() & acre__heap_desks_last(h), pages, &desk);
        if (page == ACRE__HEAP_NONE)
            page = desk_claim(h, pages);
    }
    if (page == ACRE__HEAP_NONE)
        return refill(h, size_class, wanted, grant, reserved);
    return acre__heap_new_slab(h, size_class, page, pages, wanted, grant);
}

/* Makes a slab that an arena no longer has findable in the trees. */
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

/* Detaches the slabs of all arenas in a word of `attached`. Returns 0 if there were none. A warp
 * that attaches a slab sets the bit of its arena first. */
ACRE__HEAP_SLOW int acre__heap_flush_word(acre_heap_handle h, uint32_t size_class, uint32_t word) {
    uint64_t *attached = &h.control->attached[size_class][word], busy = 0;
    int any = 0;
    acre__heap_add32(&h.control->flushing, 1, acquire);
    for (uint64_t some = acre__heap_exch64(attached, 0, acquire); some; some &= some - 1) {
        uint32_t at = word * 64 + acre__heap_ctz64(some);
        uint64_t *arena = &h.control->arenas[size_class][at];
        uint64_t now = acre__heap_load64(arena, relaxed);
        if (ACRE__HEAP_STATE(now) >= ACRE__HEAP_FRONT &&
            acre__heap_cas64(arena, &now, ACRE__HEAP_NEXT(now), chip)) {
            acre__heap_detach(h, size_class, now);
            any = 1;
        } else if (ACRE__HEAP_STATE(now) != ACRE__HEAP_EMPTY) {
            busy |= some & (0 - some);
        }
    }
    if (busy)
        (void)acre__heap_or64(attached, busy, chip);
    if (any) { /* memory is short: the class must not spread again before it is used */
        uint64_t segments = acre__heap_load64(&h.control->committed, relaxed);
        acre__heap_store32(&h.control->spread[size_class],
                           acre__heap_spread_of(segments, ACRE__HEAP_LEAST_LOG2), relaxed);
        acre__heap_add32(&h.control->flushes, 1, relaxed);
    }
    acre__heap_add32(&h.control->flushing, ~0u, acq_rel);
    return any || busy;
}

/* Detaches the slabs of all arenas, so that all warps can use their free slots, and slabs without
 * live slots become pages again. Returns 0 if there was nothing to detach. It is called before a
 * request fails, so a warp that finds another one detaching slabs waits for it, with a bound. Most
 * words are 0. All words of a class are loaded together, since each load goes across the whole
 * chip. */
ACRE__HEAP_SLOW int acre__heap_flush(acre_heap_handle h) {
    enum { WORDS = 1 << (ACRE__HEAP_ARENAS_LOG2 - 6) };
    uint32_t before = acre__heap_load32(&h.control->flushes, relaxed);
    int any = 0;
    for (uint32_t c = 0; c < ACRE_HEAP_CLASSES; c++) {
        uint32_t some = 0;
        for (uint32_t i = 0; i < WORDS; i++)
            some |= (uint32_t)(acre__heap_load64(&h.control->attached[c][i], relaxed) != 0) << i;
        for (; some; some &= some - 1)
            any |= acre__heap_flush_word(h, c, acre__heap_ctz32(some));
    }
    for (uint32_t i = 0; i < 64 && acre__heap_load32(&h.control->flushing, acquire); i++)
        acre__heap_pause(i < 5 ? i : 5);
    return any || acre__heap_load32(&h.control->flushes, relaxed) != before;
}

/* Refills an arena, which the caller has set to BUSY; its word was `before`. */
ACRE__HEAP_FN acre__heap_grant acre__heap_attach(acre_heap_handle h, uint32_t at, uint64_t before,
                                                 uint32_t size_class, uint32_t wanted,
                                                 acre__heap_reserved *reserved) {
    acre__heap_grant grant = {0, 0, 0, 0, 0};
    uint64_t bit = (uint64_t)1 << (at & 63);
    uint32_t next = acre__heap_refill_quick(h, size_class, wanted, &grant, reserved);
    if (next != ACRE__HEAP_EMPTY) /* for warps that flush; until the store below they see BUSY */
        (void)acre__heap_or64(&h.control->attached[size_class][at >> 6], bit, chip);
    acre__heap_store64(&h.control->arenas[size_class][at], ACRE__HEAP_NEXT(before) | next, chip);
    ACRE__HEAP_APART(acre__heap_find_fn, find, acre__heap_find_reserved);
    return reserved->count ? find(h, reserved) : grant;
}

/* Takes slots of a slab without an arena: all warps can use the rest of the slab. A slab whose free
 * slots are lost is left behind for the next one: each such search takes its count down. */
ACRE__HEAP_SLOW acre__heap_grant acre__heap_take_apart(acre_heap_handle h, uint32_t size_class,
                                                       uint32_t wanted,
                                                       acre__heap_reserved *reserved) {
    acre__heap_grant grant = {0, 0, 0, 0, 0};
    while (!grant.count) {
        uint32_t slab = acre__heap_refill(h, size_class, wanted, &grant, reserved);
        if (slab == ACRE__HEAP_EMPTY)
            break;
        acre__heap_detach(h, size_class, slab);
        if (reserved->count)
            grant = acre__heap_find_reserved(h, reserved);
    }
    return grant;
}

/* Takes slots for a leader, possibly fewer than wanted, or none. While an arena is being refilled
 * it tries the next. */
ACRE__HEAP_FN acre__heap_grant acre__heap_take_slots(acre_heap_handle h, uint32_t size_class,
                                                     uint32_t wanted,
                                                     acre__heap_reserved *reserved) {
    acre__heap_grant grant = {0, 0, 0, 0, 0};
    uint32_t spread = acre__heap_load32(&h.control->spread[size_class], relaxed);
    uint32_t at = acre__heap_place();
    if (spread != acre__heap_hint32(&h.control->spread[size_class]))
        acre__heap_fence(); /* discards the cached hint */
    uint32_t last = (1u << acre__heap_arenas_log2(size_class, spread)) - 1;
    for (uint32_t tries = 0; tries < ACRE__HEAP_TRIES; tries++) {
        uint64_t *arena = &h.control->arenas[size_class][at & last];
        uint64_t now = acre__heap_load64(arena, relaxed), busy;
        uint32_t state = ACRE__HEAP_STATE(now), page = ACRE__HEAP_ARENA_PAGE(now);
        if (state == ACRE__HEAP_FRONT) {
            grant = acre__heap_take_front(h, page, size_class, wanted);
            if (grant.count)
                return grant;
        } else if (state == ACRE__HEAP_HOLES &&
                   acre__heap_reserve(h, page, size_class, wanted, reserved)) {
            ACRE__HEAP_APART(acre__heap_find_fn, find, acre__heap_find_reserved);
            return find(h, reserved);
        }
        busy = (now >> 32 << 32) | ACRE__HEAP_BUSY;
        uint64_t before = now;
        if (state != ACRE__HEAP_BUSY && acre__heap_cas64(arena, &now, busy, chip))
            return acre__heap_attach(h, at & last, before, size_class, wanted, reserved);
        at++;
        if ((tries & last & 3) == (last & 3))
            acre__heap_pause(tries / 4);
    }
    return grant;
}

#endif
