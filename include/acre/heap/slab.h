/* Slabs: allocation of blocks of up to 204 KiB, for the lanes of a warp together. Part of
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
    ACRE__HEAP_REUSES = 4,
    ACRE__HEAP_SEARCH = 1 << 18, /* words; not timed on a GPU */
    ACRE__HEAP_FLUSHES = 16      /* tries, since other warps attach slabs while one detaches them */
};

/* Slots for some lanes, as one word: {is_bits, count, slot, page}. These are `count` slots from
 * `slot` on of the slab at `page`, or the slots of some bits in word `slot`. 0: none. */
ACRE__HEAP_FN uint64_t acre__heap_grant(uint32_t page, uint32_t slot, uint32_t count,
                                        uint32_t is_bits) {
    return (uint64_t)(is_bits << 24 | count << 16 | slot) << 32 | page;
}
#define ACRE__HEAP_GRANTED(grant) ((uint32_t)((grant) >> 48) & 0xffu)
#define ACRE__HEAP_SLOT(grant) ((uint32_t)((grant) >> 32) & 0xffffu)
#define ACRE__HEAP_IS_BITS(grant) ((uint32_t)((grant) >> 56))

/* What a leader wants, {slots, class}: one register where two would be kept across calls. */
#define ACRE__HEAP_WANT(size_class, slots) ((slots) << 8 | (size_class))
#define ACRE__HEAP_WANTED(want) ((want) >> 8)
#define ACRE__HEAP_WANTED_CLASS(want) ((want)&0xffu)

/* Slots that a leader has subtracted from a slab's count, and whose bits it has yet to find. */
typedef struct acre__heap_reserved {
    uint32_t count; /* 0: none, and the rest is not set */
    uint32_t page, cap, word;
    uint64_t bits; /* of the last grant with is_bits */
} acre__heap_reserved;

ACRE__HEAP_FN uint32_t acre__heap_tier_tree(uint32_t tier, uint32_t size_class) {
    return ACRE__HEAP_RUNS + tier * ACRE__HEAP_SORTS + size_class;
}

/* ---- which slabs have free slots ---- */

ACRE__HEAP_PART void acre__heap_tier_set(uint32_t tier, uint32_t size_class, uint32_t page,
                                         acre__heap h) {
    uint32_t *mask = &acre__heap_segment_of(h, page)->tiers[tier][size_class];
    if (!acre__heap_or32(mask, 1u << (page & 31), chip))
        acre__heap_tree_set(h, acre__heap_tier_tree(tier, size_class), page >> 5);
}

/* Removes a segment from a tier's tree, unless it has slabs of that tier by now. */
ACRE__HEAP_PART void acre__heap_tier_drop(uint32_t tier, acre__heap h, uint32_t size_class,
                                          uint32_t segment) {
    uint32_t tree = acre__heap_tier_tree(tier, size_class);
    acre__heap_tree_clear(h, tree, segment);
    ACRE__HEAP_HERE(h.control);
    if (acre__heap_load32(&h.segments[segment].tiers[tier][size_class], relaxed))
        acre__heap_tree_set(h, tree, segment);
}

ACRE__HEAP_SLOW void acre__heap_tier_drop_call(uint32_t tier, uint32_t size_class, uint32_t segment,
                                               acre__heap h) {
    ACRE__HEAP_DO(acre__heap_tier_drop, tier, h, size_class, segment);
}

/* Returns 1 if this call cleared the hint. */
ACRE__HEAP_SLOW int acre__heap_tier_clear(acre__heap h, uint32_t tier, uint32_t size_class,
                                          uint32_t page) {
    uint32_t *mask = &acre__heap_segment_of(h, page)->tiers[tier][size_class];
    uint32_t bit = 1u << (page & 31);
    if (!(acre__heap_load32(mask, relaxed) & bit))
        return 0;
    uint32_t old = acre__heap_and32(mask, ~bit, chip);
    if (old == bit)
        ACRE__HEAP_CALL(acre__heap_tier_drop_call, tier, size_class, page >> 5, h);
    return (old & bit) != 0;
}

/* Takes some slab out of a tier, and out of the other one, too; ACRE__HEAP_NONE if there is none.
 * Other warps may still know the slab. */
ACRE__HEAP_SLOW uint32_t acre__heap_tier_pop(acre__heap h, uint32_t tier, uint32_t size_class) {
    acre__heap_look look = {acre__heap_tier_tree(tier, size_class), acre__heap_spin(), 0, 0};
    ACRE__HEAP_ROLLED
    for (;;) {
        uint32_t segment = ACRE__HEAP_CALL(acre__heap_look_call, &look, h);
        if (segment == ACRE__HEAP_NONE)
            return segment;
        uint32_t left = acre__heap_load32(&h.segments[segment].tiers[tier][size_class], relaxed);
        ACRE__HEAP_ROLLED
        for (; left; left &= left - 1) {
            uint32_t page = segment * 32 + acre__heap_ctz32(left), other = 0;
            ACRE__HEAP_ROLLED
            while (other < 2 &&
                   (ACRE__HEAP_CALL(acre__heap_tier_clear, h, tier ^ other, size_class, page) ||
                    other))
                other++;
            if (other)
                return page;
        }
        ACRE__HEAP_CALL(acre__heap_tier_drop_call, tier, size_class, segment, h);
    }
}

/* ---- freed slots ---- */

/* Clears the hints to a slab that was retired. A hint that another warp adds late does no harm: the
 * page it leads to is no slab of that class. */
ACRE__HEAP_PART void acre__heap_untier(acre__heap h, uint32_t size_class, uint32_t page) {
    acre_heap_segment *segment = acre__heap_segment_of(h, page);
    uint32_t bit = 1u << (page & 31), last = 0;
    for (uint32_t tier = 0; tier < ACRE__HEAP_TIERS; tier++)
        if (acre__heap_and32(&segment->tiers[tier][size_class], ~bit, chip) == bit)
            last |= 1u << tier;
    ACRE__HEAP_ROLLED
    for (; last; last &= last - 1) {
        ACRE__HEAP_HERE(h.control);
        ACRE__HEAP_DO(acre__heap_tier_drop, acre__heap_ctz32(last), h, size_class, page >> 5);
    }
}

/* Frees the pages of a slab whose slots are all free; no thread can reserve one any more. The
 * labels stay, since stores would need a fence. The word `freed` is 0 by now, which says that there
 * is no slab. */
ACRE__HEAP_PART void acre__heap_retire(uint32_t page, acre__heap h) {
    ACRE__HEAP_HERE(h.control);
    uint32_t info = acre__heap_load32(&acre__heap_page_of(h, page)->info, relaxed);
    uint32_t pages = ACRE__HEAP_LENGTH(info);
    if (!(info & ACRE__HEAP_OWN))
        acre__heap_add32(&h.control->slab_pages[ACRE__HEAP_CLASS(info)], 0u - pages, relaxed);
    ACRE__HEAP_HERE(h.control);
    ACRE__HEAP_DO(acre__heap_release, h, page, pages);
}

/* Sets the bits of slots [first, first + count). Returns how many were not set. The result of each
 * atomic shows that the bits are set; then they are counted. */
ACRE__HEAP_FN uint32_t acre__heap_set_bits(acre__heap h, uint32_t page, uint32_t first,
                                           uint32_t count) {
    uint64_t *bits = acre__heap_bits_of(h, page);
    uint32_t set = 0;
    acre__heap_fence();
    ACRE__HEAP_ROLLED
    for (uint32_t i = first; i < first + count;) {
        uint32_t end = (i | 63) + 1 < first + count ? (i | 63) + 1 : first + count;
        uint64_t some = end - i == 64 ? ~(uint64_t)0 : ((uint64_t)1 << (end - i)) - 1;
        some <<= i & 63;
        set += acre__heap_popc64(some & ~acre__heap_or64(bits + (i >> 6), some, chip));
        i = end;
    }
    return set;
}

/* Returns 1 if a slab with these counts has no live slot and has been in use for a while. It is
 * then better to take the rest of its front too, so that its pages become free, than to let other
 * warps search its holes. */
ACRE__HEAP_FN int acre__heap_is_idle(uint64_t freed, uint64_t bump) {
    uint32_t used = ACRE__HEAP_COUNT(bump), cap = ACRE__HEAP_CAP(bump);
    return ACRE__HEAP_COUNT(freed) == used && used < cap && used > cap / 4 &&
           ACRE__HEAP_SORT(freed) == ACRE__HEAP_SORT(bump);
}

/* Returns 1 if a count of freed slots that rose from `old` to `now` asks for nothing else. */
ACRE__HEAP_FN int acre__heap_is_settled(uint64_t old, uint64_t now, uint64_t bump) {
    uint32_t cap = ACRE__HEAP_CAP(now), roomy = 1 + cap / 4;
    return ACRE__HEAP_SORT(old) && ACRE__HEAP_COUNT(old) != 0 && ACRE__HEAP_COUNT(now) != cap &&
           (ACRE__HEAP_COUNT(old) >= roomy || ACRE__HEAP_COUNT(now) < roomy) &&
           !acre__heap_is_idle(now, bump);
}

#define ACRE__HEAP_ENDED (~(uint64_t)0)

/* Does what is due after the count of freed slots rose from `old` to `now`: adds hints, or retires
 * the slab. The front of an idle slab is taken, if `bump`, its word, is unchanged, and the slab
 * retired if no warp has taken a hole in the meantime. A `bump` of 0 leaves the front alone. If
 * `now` is ACRE__HEAP_ENDED, the caller has already set `freed` to 0.
 */
ACRE__HEAP_PART void acre__heap_settle(acre__heap h, uint32_t page, uint64_t old, uint64_t now,
                                       uint64_t bump) {
    acre__heap_page *record = acre__heap_page_of(h, page);
    uint32_t size_class = ACRE__HEAP_SORT(now) - 1;
    int is_ended = now == ACRE__HEAP_ENDED;
    if (!ACRE__HEAP_SORT(now)) { /* no slab: undone by a cas, a subtraction could hit a new one */
        ACRE__HEAP_ROLLED
        while (!ACRE__HEAP_SORT(now) && !acre__heap_cas64(&record->freed, &now, 0, chip))
            continue;
        return;
    }
    ACRE__HEAP_ROLLED
    while (!is_ended) {
        uint32_t cap = ACRE__HEAP_CAP(now), roomy = 1 + cap / 4, used = ACRE__HEAP_COUNT(bump);
        uint64_t all = now;
        if (ACRE__HEAP_COUNT(now) == cap && acre__heap_cas64(&record->freed, &all, 0, chip))
            break;
        uint32_t tiers = (uint32_t)(ACRE__HEAP_COUNT(old) == 0) << ACRE__HEAP_SOME |
                         (uint32_t)(ACRE__HEAP_COUNT(old) < roomy && ACRE__HEAP_COUNT(now) >= roomy)
                             << ACRE__HEAP_ROOMY;
        ACRE__HEAP_ROLLED
        for (; tiers; tiers &= tiers - 1) {
            ACRE__HEAP_HERE(h.control);
            ACRE__HEAP_DO(acre__heap_tier_set, acre__heap_ctz32(tiers), size_class, page, h);
        }
        if (!acre__heap_is_idle(now, bump) ||
            !acre__heap_cas64(&record->bump, &bump, bump - used + cap, chip))
            return;
        if (acre__heap_cas64(&record->freed, &now, 0, chip))
            break;
        uint32_t set = acre__heap_set_bits(h, page, used, cap - used);
        old = acre__heap_add64(&record->freed, (uint64_t)set, chip);
        now = old + set;
        bump = 0;
    }
    ACRE__HEAP_HERE(h.control);
    if (!is_ended) /* nobody has seen free slots of a slab that was freed at once */
        ACRE__HEAP_DO(acre__heap_untier, h, size_class, page);
    ACRE__HEAP_DO(acre__heap_retire, page, h);
}

ACRE__HEAP_SLOW void acre__heap_settle_call(acre__heap h, uint32_t page, uint64_t old,
                                            uint64_t now) {
    ACRE__HEAP_DO(acre__heap_settle, h, page, old, now, (uint64_t)0);
}

/* Frees slots [first, first + count) that were taken from the front and are not needed. */
ACRE__HEAP_SLOW void acre__heap_give_back(acre__heap h, uint32_t page, uint32_t first,
                                          uint32_t count) {
    uint32_t set = acre__heap_set_bits(h, page, first, count);
    uint64_t old = acre__heap_add64(&acre__heap_page_of(h, page)->freed, (uint64_t)set, chip);
    if (!acre__heap_is_settled(old, old + set, 0))
        ACRE__HEAP_CALL(acre__heap_settle_call, h, page, old, old + set);
}

/* ---- allocated slots ---- */

/* Takes slots from the front of a slab that should have this class. If it has another one by now,
 * since the arena was stale, the grant is marked, and the caller frees the slots. */
#define ACRE__HEAP_STALE ((uint64_t)1 << 62)
ACRE__HEAP_FN uint64_t acre__heap_take_front(acre__heap h, uint32_t page, uint32_t size_class,
                                             uint32_t wanted) {
    uint64_t old = acre__heap_add64(&acre__heap_page_of(h, page)->bump, (uint64_t)wanted, chip);
    uint32_t at = ACRE__HEAP_COUNT(old), cap = ACRE__HEAP_CAP(old);
    if (at >= cap)
        return 0;
    uint64_t grant = acre__heap_grant(page, at, cap - at < wanted ? cap - at : wanted, 0);
    return ACRE__HEAP_SORT(old) == size_class + 1 ? grant : grant | ACRE__HEAP_STALE;
}

/* Subtracts up to the wanted slots from the count of freed slots. Returns 0 if there are none. */
ACRE__HEAP_FN int acre__heap_reserve(acre__heap h, uint32_t page, uint32_t want,
                                     acre__heap_reserved *reserved) {
    uint64_t *freed = &acre__heap_page_of(h, page)->freed;
    uint64_t old = acre__heap_load64(freed, relaxed);
    uint32_t count;
    ACRE__HEAP_ROLLED
    do {
        if (ACRE__HEAP_SORT(old) != ACRE__HEAP_WANTED_CLASS(want) + 1 || ACRE__HEAP_COUNT(old) == 0)
            return 0;
        count = ACRE__HEAP_WANTED(want);
        count = ACRE__HEAP_COUNT(old) < count ? ACRE__HEAP_COUNT(old) : count;
    } while (!acre__heap_cas64(freed, &old, old - count, chip));
    reserved->count = count;
    reserved->page = page;
    reserved->cap = ACRE__HEAP_CAP(old);
    reserved->word = acre__heap_spin() + acre__heap_lane();
    return 1;
}

/* Grants some of the reserved slots: those of one word. There are as many bits as reserved slots,
 * so a search ends unless other warps take the bits that it finds, and then those make progress. It
 * reads four words at a time, since a slab of small slots has many. If a program's double free has
 * damaged the records, the slots are not there: after a long search they are counted as lost. */
ACRE__HEAP_PART uint64_t acre__heap_find_reserved(acre__heap h, acre__heap_reserved *reserved) {
    /* The grant was ACRE__HEAP_HELD: it is set. NOLINTNEXTLINE */
    uint64_t *bits = acre__heap_bits_of(h, reserved->page);
    uint32_t words = (reserved->cap + 63) >> 6, word = reserved->word;
    ACRE__HEAP_ROLLED
    for (uint32_t looked = 0; looked < ACRE__HEAP_SEARCH; looked += 4) {
        uint64_t four[4];
        uint32_t first = word % words;
        for (uint32_t i = 0; i < 4; i++)
            four[i] = first + i < words ? acre__heap_load64(bits + first + i, relaxed) : 0;
        uint32_t i = four[0] ? 0 : four[1] ? 1 : four[2] ? 2 : 3;
        uint64_t some = four[0] ? four[0] : four[1] ? four[1] : four[2] ? four[2] : four[3];
        word = first + i + 1 < words ? first + i + 1 : 0;
        if (some) {
            if (acre__heap_popc64(some) > reserved->count)
                some &= ((uint64_t)1 << acre__heap_nth_bit(some, reserved->count)) - 1;
            some &= acre__heap_and64(bits + first + i, ~some, chip);
        }
        if (some) {
            uint32_t count = acre__heap_popc64(some);
            reserved->count -= count;
            reserved->word = word;
            reserved->bits = some;
            return acre__heap_grant(reserved->page, first + i, count, 1);
        }
        if (looked > 2 * words)
            acre__heap_pause(2);
    }
    acre__heap_add64(&h.control->lost_slots, (uint64_t)reserved->count, relaxed);
    reserved->count = 0;
    return 0;
}

/* ---- new slabs ---- */

/* Makes a slab of claimed pages. Its first `taken` slots belong to the caller. Once an arena has
 * the slab, other warps take slots from its front. A slab for one warp (ACRE__HEAP_OWN) has only
 * the slots that the warp takes. */
ACRE__HEAP_FN void acre__heap_make_slab(acre__heap h, uint32_t page, uint32_t pages,
                                        uint32_t size_class, uint32_t taken, uint32_t own) {
    acre__heap_page *record = acre__heap_page_of(h, page);
    uint32_t cap = own ? taken : acre__heap_slots(size_class, pages);
    uint64_t *bits = acre__heap_bits_of(h, page);
    ACRE__HEAP_ROLLED
    for (uint32_t i = 0; i < (cap + 63) >> 6; i += 4) /* a page has a multiple of four words */
        for (uint32_t k = 0; k < 4; k++)
            acre__heap_store64(bits + i + k, 0, relaxed);
    acre__heap_label(h, page, pages, acre__heap_info(ACRE__HEAP_SLAB, size_class, pages) | own);
    acre__heap_store64(&record->freed, acre__heap_word(size_class, cap, 0), relaxed);
    if (own) /* other warps know it only by addresses that they get from this one */
        acre__heap_store64(&record->bump, acre__heap_word(size_class, cap, cap), relaxed);
    else
        /* A warp that finds the slab in an arena must see this value, or it would take the slab for
         * one that is used up. A store could be overtaken by the arena's store; an atomic that has
         * returned cannot. */
        (void)acre__heap_exch64(&record->bump, acre__heap_word(size_class, cap, taken), acq_rel);
}

/* Claims pages for a slab of its class's size, or for a smaller slab if there is nothing better. By
 * then the pages of all desks are in the trees. */
ACRE__HEAP_SLOW uint32_t acre__heap_claim_slab(uint32_t *pages, acre__heap h, uint32_t size_class) {
    uint32_t spread = acre__heap_hint32(&h.control->spread[size_class]);
    uint32_t log2 = acre__heap_slab_log2(size_class, spread);
    uint64_t desk;
    *pages = 1u << log2;
    uint32_t page = acre__heap_desk_take(
        h, acre__heap_desk_for(*pages, acre__heap_place() & acre__heap_desks_last(h)), *pages,
        &desk);
    if (page == ACRE__HEAP_NONE)
        page = ACRE__HEAP_CALL(acre__heap_claim_rest, h, *pages, 1);
    ACRE__HEAP_ROLLED
    while (page == ACRE__HEAP_NONE && log2-- > 0 && acre__heap_slots(size_class, 1u << log2)) {
        *pages = 1u << log2;
        page = acre__heap_search_tree(h, log2, *pages, 0xffffffffu, acre__heap_spin());
    }
    return page;
}

/* Counts the pages of a new slab, and raises the spread of its class if there are many. */
ACRE__HEAP_FN void acre__heap_count_slab(acre__heap h, uint32_t size_class, uint32_t pages) {
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

ACRE__HEAP_FN uint32_t acre__heap_arena_of(uint32_t size_class, uint32_t spread) {
    return acre__heap_place() & ((1u << acre__heap_arenas_log2(size_class, spread)) - 1);
}

/* Finds a slab that has much room and reserves slots there. Returns its page, or ACRE__HEAP_NONE.
 * It searches the lowest segments only, without the state of a complete search: that is the task of
 * acre__heap_refill. Warps that come at the same time choose different slabs. */
ACRE__HEAP_SLOW uint32_t acre__heap_reuse(acre__heap h, uint32_t want,
                                          acre__heap_reserved *reserved) {
    uint32_t size_class = ACRE__HEAP_WANTED_CLASS(want), spin = acre__heap_spin();
    uint64_t *words = acre__heap_tree(h, acre__heap_tier_tree(ACRE__HEAP_ROOMY, size_class));
    ACRE__HEAP_ROLLED
    for (uint32_t tries = 0; tries < ACRE__HEAP_REUSES; tries++, spin += 11) {
        uint64_t word = acre__heap_load64(words, relaxed);
        if (!word)
            break;
        uint32_t leaf = acre__heap_ctz64(word) * 64;
        word = acre__heap_load64(words + acre__heap_level(1) + (leaf >> 6), relaxed);
        leaf += word ? acre__heap_ctz64(word) : 0;
        word = acre__heap_load64(words + acre__heap_level(0) + leaf, relaxed);
        uint32_t segment = leaf * 64 + (word ? acre__heap_turned_bit(word, spin) : 0);
        acre_heap_segment *record = h.segments + segment;
        uint32_t left = acre__heap_load32(&record->tiers[ACRE__HEAP_ROOMY][size_class], relaxed);
        uint32_t bit = left ? 1u << acre__heap_pick(left, 1, spin >> 6) : 0, old = 0;
        if (bit)
            old = acre__heap_and32(&record->tiers[ACRE__HEAP_ROOMY][size_class], ~bit, chip);
        if (old & bit) /* else the other hint may be that of a warp that has put the slab back */
            (void)acre__heap_and32(&record->tiers[ACRE__HEAP_SOME][size_class], ~bit, chip);
        if (old == bit) /* it was the last one of this segment, or the bits above were set late */
            ACRE__HEAP_DO(acre__heap_tier_drop, ACRE__HEAP_ROOMY, h, size_class, segment);
        if (!(old & bit))
            continue;
        uint32_t page = segment * 32 + acre__heap_ctz32(bit);
        if (acre__heap_reserve(h, page, want, reserved))
            return page;
    }
    return ACRE__HEAP_NONE;
}

/* A refill is the result of functions that have set an arena to BUSY, in place of a grant: {no
 * slots, number of the arena, its sequence number}. */
#define ACRE__HEAP_IS_REFILL(grant) (((grant) >> 63) != 0)
ACRE__HEAP_FN uint64_t acre__heap_begin_refill(uint64_t *arena, uint32_t at, uint64_t now) {
    uint32_t sequence = (uint32_t)(now >> 32);
    uint64_t busy = (now >> 32 << 32) | ACRE__HEAP_BUSY;
    int is_begun = acre__heap_cas64(arena, &now, busy, chip);
    return is_begun ? (uint64_t)1 << 63 | (uint64_t)at << 32 | sequence : 0;
}

#define ACRE__HEAP_HELD ((uint64_t)1 << 61)  /* in place of a grant: slots are reserved */
#define ACRE__HEAP_GROWN ((uint64_t)1 << 60) /* in place of a grant: there is more memory now */

/* Ends the refill of an arena. {page, state}, or ACRE__HEAP_EMPTY, is what it gets. */
ACRE__HEAP_FN void acre__heap_attach(acre__heap h, uint32_t size_class, uint64_t task,
                                     uint32_t next) {
    uint32_t at = (uint32_t)(task >> 32) & 0xffffu;
    uint64_t before = 1;
    if (next != ACRE__HEAP_EMPTY) /* for warps that flush; until the store below they see BUSY */
        before = acre__heap_or64(&h.control->attached[size_class][at >> 6],
                                 (uint64_t)1 << (at & 63), chip);
    acre__heap_store64(&h.control->arenas[size_class][at],
                       (uint64_t)((uint32_t)task + 1) << 32 | next, chip);
    if (!before) /* known late, so that the store does not wait for it */
        (void)acre__heap_or32(&h.control->attached_classes, 1u << size_class, chip);
}

/* Makes a slab of new pages and grants the wanted slots. `task` is a refill, which ends with this
 * slab, or ACRE__HEAP_LOOSE, or 0 for a slab of one warp. */
#define ACRE__HEAP_LOOSE ((uint64_t)1)
ACRE__HEAP_SLOW uint64_t acre__heap_attach_new(acre__heap h, uint32_t want, uint64_t task,
                                               uint32_t page, uint32_t pages) {
    uint32_t size_class = ACRE__HEAP_WANTED_CLASS(want), count = ACRE__HEAP_WANTED(want);
    uint32_t cap = acre__heap_slots(size_class, pages);
    count = count < cap ? count : cap;
    acre__heap_make_slab(h, page, pages, size_class, count, task ? 0 : ACRE__HEAP_OWN);
    if (task)
        acre__heap_count_slab(h, size_class, pages);
    if (ACRE__HEAP_IS_REFILL(task))
        acre__heap_attach(h, size_class, task, page << 2 | ACRE__HEAP_FRONT);
    return acre__heap_grant(page, 0, count, 0);
}

/* Finds a slab for an arena, and grants or reserves the wanted slots. Returns the slab's {page,
 * state}, or ACRE__HEAP_EMPTY. */
ACRE__HEAP_SLOW uint32_t acre__heap_refill(acre__heap h, uint32_t want,
                                           acre__heap_reserved *reserved, uint64_t *grant) {
    uint32_t page, pages;
    ACRE__HEAP_ROLLED
    for (uint32_t tier = 0; tier < ACRE__HEAP_TIERS; tier++) {
        ACRE__HEAP_ROLLED
        while ((page = ACRE__HEAP_CALL(acre__heap_tier_pop, h, tier,
                                       ACRE__HEAP_WANTED_CLASS(want))) != ACRE__HEAP_NONE)
            if (acre__heap_reserve(h, page, want, reserved))
                return page << 2 | ACRE__HEAP_HOLES;
        if (tier != ACRE__HEAP_ROOMY)
            break;
        page = ACRE__HEAP_CALL(acre__heap_claim_slab, &pages, h, ACRE__HEAP_WANTED_CLASS(want));
        if (page != ACRE__HEAP_NONE) {
            *grant = ACRE__HEAP_CALL(acre__heap_attach_new, h, want, ACRE__HEAP_LOOSE, page, pages);
            return page << 2 | ACRE__HEAP_FRONT;
        }
    }
    return ACRE__HEAP_EMPTY;
}

/* Takes all slots from the front of a slab, and frees them. */
ACRE__HEAP_FN void acre__heap_drain_front(acre__heap h, uint32_t page) {
    uint64_t old = acre__heap_add64(&acre__heap_page_of(h, page)->bump, 0xffffu, chip);
    uint32_t at = ACRE__HEAP_COUNT(old), cap = ACRE__HEAP_CAP(old);
    if (at < cap)
        ACRE__HEAP_CALL(acre__heap_give_back, h, page, at, cap - at);
}

/* Makes a slab that an arena no longer has findable in the trees. */
ACRE__HEAP_SLOW void acre__heap_detach(acre__heap h, uint32_t size_class, uint64_t arena) {
    uint32_t page = ACRE__HEAP_ARENA_PAGE(arena);
    acre__heap_page *record = acre__heap_page_of(h, page);
    if (ACRE__HEAP_STATE(arena) == ACRE__HEAP_FRONT) {
        acre__heap_drain_front(h, page);
        return;
    }
    uint64_t freed = acre__heap_load64(&record->freed, relaxed);
    if (ACRE__HEAP_SORT(freed) == size_class + 1 && ACRE__HEAP_COUNT(freed))
        ACRE__HEAP_DO(acre__heap_tier_set, ACRE__HEAP_SOME, size_class, page, h);
}

/* Detaches the slabs of all arenas in a word of `attached`. Returns 0 if there were none. A warp
 * that attaches a slab sets the bit of its arena first. */
ACRE__HEAP_SLOW int acre__heap_flush_word(uint32_t size_class, uint32_t word, acre__heap h) {
    uint64_t *attached = &h.control->attached[size_class][word], busy = 0;
    int any = 0;
    ACRE__HEAP_ROLLED
    for (uint64_t some = acre__heap_exch64(attached, 0, acquire); some; some &= some - 1) {
        uint32_t at = word * 64 + acre__heap_ctz64(some);
        uint64_t *arena = &h.control->arenas[size_class][at];
        uint64_t now = acre__heap_load64(arena, relaxed);
        if (ACRE__HEAP_STATE(now) >= ACRE__HEAP_FRONT &&
            acre__heap_cas64(arena, &now, ACRE__HEAP_NEXT(now), chip)) {
            ACRE__HEAP_CALL(acre__heap_detach, h, size_class, now);
            any = 1;
        } else if (ACRE__HEAP_STATE(now) != ACRE__HEAP_EMPTY) {
            busy |= some & (0 - some);
        }
    }
    if (busy) {
        (void)acre__heap_or64(attached, busy, chip);
        (void)acre__heap_or32(&h.control->attached_classes, 1u << size_class, chip);
    }
    if (any) { /* memory is short: the class must not spread again before it is used */
        uint64_t segments = acre__heap_load64(&h.control->committed, relaxed);
        acre__heap_store32(&h.control->spread[size_class],
                           acre__heap_spread_of(segments, ACRE__HEAP_LEAST_LOG2), relaxed);
        acre__heap_add32(&h.control->flushes, 1, relaxed);
    }
    return any || busy;
}

/* Detaches the slabs of all arenas, so that all warps can use their free slots, and slabs without
 * live slots become pages again. `before` is the value of `flushes` before the caller's last
 * search. Returns 0 if nothing was detached since. It is called before a request fails, so a warp
 * that finds another one detaching slabs waits for it, with a bound. */
ACRE__HEAP_SLOW int acre__heap_flush(acre__heap h, uint32_t before) {
    enum { WORDS = 1 << (ACRE__HEAP_ARENAS_LOG2 - 6) };
    uint32_t classes = acre__heap_load32(&h.control->attached_classes, acquire);
    int any = 0, is_flushing = classes != 0;
    if (is_flushing)
        acre__heap_add32(&h.control->flushing, 1, acquire);
    ACRE__HEAP_ROLLED
    for (; classes; classes &= classes - 1) {
        uint32_t c = acre__heap_ctz32(classes), some = 0;
        acre__heap_and32(&h.control->attached_classes, ~(1u << c), acq_rel);
        ACRE__HEAP_ROLLED
        for (uint32_t i = 0; i < WORDS; i++)
            some |= (uint32_t)(acre__heap_load64(&h.control->attached[c][i], relaxed) != 0) << i;
        ACRE__HEAP_ROLLED
        for (; some; some &= some - 1)
            any |= ACRE__HEAP_CALL(acre__heap_flush_word, c, acre__heap_ctz32(some), h);
    }
    if (is_flushing)
        acre__heap_add32(&h.control->flushing, ~0u, acq_rel);
    ACRE__HEAP_ROLLED
    for (uint32_t i = 0; i < 64 && acre__heap_load32(&h.control->flushing, acquire); i++)
        acre__heap_pause(4);
    acre__heap_pause(5);
    return any || acre__heap_load32(&h.control->flushes, relaxed) != before;
}

/* Ends the refill of an arena if neither slabs with much room nor desks have anything. */
ACRE__HEAP_SLOW uint64_t acre__heap_attach_rest(uint64_t task, acre__heap h, uint32_t want,
                                                acre__heap_reserved *reserved) {
    uint64_t grant = 0;
    uint32_t next = ACRE__HEAP_CALL(acre__heap_refill, h, want, reserved, &grant);
    acre__heap_attach(h, ACRE__HEAP_WANTED_CLASS(want), task, next);
    return ACRE__HEAP_STATE(next) == ACRE__HEAP_HOLES
               ? ACRE__HEAP_DO(acre__heap_find_reserved, h, reserved)
               : grant;
}

/* Takes slots of a slab without an arena: all warps can use the rest of the slab. A slab whose free
 * slots are lost is left behind for the next one: each such search takes its count down. */
ACRE__HEAP_PART uint64_t acre__heap_take_apart(acre__heap h, uint32_t want,
                                               acre__heap_reserved *reserved) {
    uint64_t grant = 0;
    ACRE__HEAP_ROLLED
    while (!grant) {
        uint32_t slab = ACRE__HEAP_CALL(acre__heap_refill, h, want, reserved, &grant);
        if (slab == ACRE__HEAP_EMPTY)
            break;
        ACRE__HEAP_CALL(acre__heap_detach, h, ACRE__HEAP_WANTED_CLASS(want), slab);
        if (ACRE__HEAP_STATE(slab) == ACRE__HEAP_HOLES)
            grant = ACRE__HEAP_DO(acre__heap_find_reserved, h, reserved);
    }
    return grant;
}

/* Takes slots from an arena: returns a grant, possibly of fewer slots than wanted; ACRE__HEAP_HELD
 * if it has reserved slots; a refill; or 0. */
ACRE__HEAP_PART uint64_t acre__heap_try_arena(acre__heap h, uint32_t want, uint32_t at,
                                              acre__heap_reserved *reserved) {
    uint32_t size_class = ACRE__HEAP_WANTED_CLASS(want);
    uint64_t *arena = &h.control->arenas[size_class][at];
    uint64_t now = acre__heap_load64(arena, relaxed);
    uint32_t state = ACRE__HEAP_STATE(now), page = ACRE__HEAP_ARENA_PAGE(now);
    if (state == ACRE__HEAP_BUSY)
        return 0;
    if (state == ACRE__HEAP_FRONT) {
        uint64_t grant = acre__heap_take_front(h, page, size_class, ACRE__HEAP_WANTED(want));
        if (grant & ACRE__HEAP_STALE) { /* the next try finds the arena empty */
            (void)acre__heap_cas64(arena, &now, ACRE__HEAP_NEXT(now), chip);
            ACRE__HEAP_CALL(acre__heap_give_back, h, page, ACRE__HEAP_SLOT(grant),
                            ACRE__HEAP_GRANTED(grant));
            return 0;
        }
        if (grant)
            return grant;
    } else if (state == ACRE__HEAP_HOLES && acre__heap_reserve(h, page, want, reserved)) {
        return ACRE__HEAP_HELD;
    }
    return acre__heap_begin_refill(arena, at, now);
}

#endif
