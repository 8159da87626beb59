/* Allocation of pages and segments. Part of acre_heap.h, not to be included by itself.
 *
 * A segment's mask of free pages is authoritative. A thread claims a run of pages with one atomic
 * operation that clears their bits. Trees of bits over the segments say where to search: one tree
 * for each length of run, 1, 2, 4 .. 32 pages. The trees are hints. A thread that changes a mask
 * updates the trees afterwards, and reads the mask again after it has cleared a hint, so that every
 * segment with free pages eventually has its hint (docs/design.md has the proof). A hint that is
 * not needed costs one load.
 *
 * Segments from `opened` on are in no tree. Kernels open them in order when nothing else is left.
 * Memory that the host adds while kernels run arrives the same way: the host only writes
 * `committed`, a word that kernels never write. */
#ifndef ACRE_HEAP_PAGES_H
#define ACRE_HEAP_PAGES_H

#include "layout.h"

#define ACRE__HEAP_NONE 0xffffffffu
#define ACRE__HEAP_AGAIN 0xfffffffeu
/* Segments that are opened at once. With fewer, all warps that need one would open them one after
 * the other. With more, one warp would clear many records while the others wait. */
#define ACRE__HEAP_OPENS 8u

/* ---- trees ---- */

/* Sets the bits above leaf i: in the branch that it belongs to, and at the top. */
ACRE__HEAP_FN void acre__heap_tree_set_up(uint64_t *words, uint32_t i) {
    uint64_t *branch = words + acre__heap_level(1) + (i >> 6);
    if (!acre__heap_or64(branch, (uint64_t)1 << (i & 63), chip))
        (void)acre__heap_or64(words, (uint64_t)1 << (i >> 6), chip);
}

/* Clears the bits above leaf i, which may have become 0. */
ACRE__HEAP_FN void acre__heap_tree_clear_up(uint64_t *words, uint32_t i) {
    uint64_t *branch = words + acre__heap_level(1) + (i >> 6), bit = (uint64_t)1 << (i & 63);
    uint64_t old = acre__heap_and64(branch, ~bit, chip_acquire);
    if (acre__heap_load64(words + acre__heap_level(0) + i, relaxed)) {
        acre__heap_tree_set_up(words, i);
    } else if (old == bit) {
        (void)acre__heap_and64(words, ~((uint64_t)1 << (i >> 6)), chip_acquire);
        if (acre__heap_load64(branch, relaxed))
            (void)acre__heap_or64(words, (uint64_t)1 << (i >> 6), chip);
    }
}

/* Set or clear the bit of segment i. After clearing it, the caller reads the record that the bit
 * stands for, and sets it again if needed. */
ACRE__HEAP_FN void acre__heap_tree_set(acre__heap h, uint32_t tree, uint32_t i) {
    uint64_t *words = acre__heap_tree(h, tree);
    if (!acre__heap_or64(words + acre__heap_level(0) + (i >> 6), (uint64_t)1 << (i & 63), chip))
        acre__heap_tree_set_up(words, i >> 6);
}
ACRE__HEAP_FN void acre__heap_tree_clear(acre__heap h, uint32_t tree, uint32_t i) {
    uint64_t *words = acre__heap_tree(h, tree), bit = (uint64_t)1 << (i & 63);
    if (acre__heap_and64(words + acre__heap_level(0) + (i >> 6), ~bit, chip_acquire) == bit)
        acre__heap_tree_clear_up(words, i >> 6);
}

/* Returns the first word of level 0 from *leaf on that is not 0, and its number in *leaf; 0 if
 * there is none. It starts at the top, so that an empty tree costs one load. */
ACRE__HEAP_FN uint64_t acre__heap_tree_next(acre__heap h, uint32_t tree, uint32_t *leaf) {
    const uint64_t *words = acre__heap_tree(h, tree);
    uint64_t top = acre__heap_load64(words, relaxed);
    ACRE__HEAP_ROLLED
    for (uint32_t from = *leaf; from < ACRE__HEAP_SEGMENTS_MOST / 64;) {
        uint32_t branch = from >> 6;
        top &= ~(uint64_t)0 << branch;
        if (!top)
            break;
        if (!(top >> branch & 1)) {
            branch = acre__heap_ctz64(top);
            from = branch << 6;
        }
        uint64_t some = acre__heap_load64(words + acre__heap_level(1) + branch, relaxed);
        ACRE__HEAP_ROLLED
        for (some &= ~(uint64_t)0 << (from & 63); some; some &= some - 1) {
            *leaf = branch * 64 + acre__heap_ctz64(some);
            uint64_t word = acre__heap_load64(words + acre__heap_level(0) + *leaf, relaxed);
            if (word)
                return word;
        }
        from = (branch + 1) << 6;
    }
    return 0;
}

/* Returns the first set bit from bit `spin` on, with wraparound. The word must not be 0. */
ACRE__HEAP_FN uint32_t acre__heap_turned_bit(uint64_t word, uint32_t spin) {
    spin &= 63;
    uint64_t turned = spin ? word >> spin | word << (64 - spin) : word;
    return (acre__heap_ctz64(turned) + spin) & 63;
}

/* Returns the n-th set bit, which must exist. */
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

/* Iterates over the bits of a tree, the lowest word first. `spin` selects the first bit in each
 * word, so that warps use different segments and yet stay close together. It never goes back, and
 * returns each bit once, so it ends, whatever other warps change meanwhile. */
typedef struct acre__heap_look {
    uint32_t tree, spin, leaf;
    uint64_t seen; /* bits of the word that were already returned */
} acre__heap_look;

ACRE__HEAP_FN uint32_t acre__heap_look_next(acre__heap_look *look, acre__heap h) {
    ACRE__HEAP_ROLLED
    for (;;) {
        uint32_t leaf = look->leaf;
        uint64_t word = acre__heap_tree_next(h, look->tree, &leaf);
        if (!word)
            return ACRE__HEAP_NONE;
        if (leaf != look->leaf)
            look->seen = 0;
        look->leaf = leaf;
        word &= ~look->seen;
        if (word) {
            uint32_t bit = acre__heap_turned_bit(word, look->spin);
            look->seen |= (uint64_t)1 << bit;
            return leaf * 64 + bit;
        }
        look->leaf++;
        look->seen = 0;
    }
}

ACRE__HEAP_SLOW uint32_t acre__heap_look_call(acre__heap_look *look, acre__heap h) {
    return acre__heap_look_next(look, h);
}

/* ---- runs of pages in a segment ---- */

/* In the result, bit i says that pages i .. i + count - 1 are all in the mask. */
ACRE__HEAP_FN uint32_t acre__heap_runs(uint32_t mask, uint32_t count) {
    uint32_t have = 1;
    ACRE__HEAP_ROLLED
    for (; have * 2 <= count; have *= 2)
        mask &= mask >> have;
    return count > have ? mask & mask >> (count - have) : mask;
}

/* The number of trees that a mask belongs to: the trees of the runs 1, 2, 4 .. that it has. */
ACRE__HEAP_FN uint32_t acre__heap_rank(uint32_t mask) {
    uint32_t rank = 0;
    ACRE__HEAP_ROLLED
    for (uint32_t have = 1; mask; have *= 2, rank++)
        mask = have < 32 ? mask & mask >> have : 0;
    return rank;
}

/* Adds a segment to the trees [from, to). The leaves come first: upper levels rarely change. */
ACRE__HEAP_FN void acre__heap_note_more(acre__heap h, uint32_t segment, uint32_t from,
                                        uint32_t to) {
    uint64_t bit = (uint64_t)1 << (segment & 63);
    uint32_t up = 0;
    ACRE__HEAP_HERE(h.control);
    ACRE__HEAP_ROLLED
    for (uint32_t i = from; i < to; i++) {
        uint64_t *word = acre__heap_tree(h, i) + acre__heap_level(0) + (segment >> 6);
        if (!acre__heap_or64(word, bit, chip))
            up |= 1u << i;
    }
    ACRE__HEAP_ROLLED
    for (; up; up &= up - 1) {
        acre__heap_tree_set_up(acre__heap_tree(h, acre__heap_ctz32(up)), segment >> 6);
    }
}

/* Removes a segment from the leaves of the trees [from, to). Returns a bit for each tree whose leaf
 * is empty now. */
ACRE__HEAP_FN uint32_t acre__heap_note_less(acre__heap h, uint32_t segment, uint32_t from,
                                            uint32_t to) {
    uint64_t bit = (uint64_t)1 << (segment & 63);
    uint32_t up = 0;
    for (uint32_t i = 0; i < ACRE__HEAP_RUNS; i++) {
        uint64_t *word = acre__heap_tree(h, i) + acre__heap_level(0) + (segment >> 6);
        if (i >= from && i < to && acre__heap_and64(word, ~bit, chip) == bit)
            up |= 1u << i;
    }
    return up;
}

/* Clears the bits above the leaf of a segment in some trees. */
ACRE__HEAP_FN void acre__heap_note_empty(acre__heap h, uint32_t segment, uint32_t trees) {
    ACRE__HEAP_ROLLED
    for (; trees; trees &= trees - 1)
        acre__heap_tree_clear_up(acre__heap_tree(h, acre__heap_ctz32(trees)), segment >> 6);
}

/* Updates the trees after pages were added to a mask, which was `before`. */
ACRE__HEAP_FN void acre__heap_note_freed(acre__heap h, uint32_t segment, uint32_t before,
                                         uint32_t after) {
    uint32_t had = acre__heap_rank(before), has = acre__heap_rank(after);
    if (has > had)
        acre__heap_note_more(h, segment, had, has);
}

/* Removes a segment from the trees [from, to). When it returns, the bits are cleared. */
ACRE__HEAP_SLOW void acre__heap_note_drop(acre__heap h, uint32_t segment, uint32_t from,
                                          uint32_t to) {
    acre__heap_note_empty(h, segment, acre__heap_note_less(h, segment, from, to));
}

/* Updates the trees after pages were taken from a mask. Other warps may have added some since.
 * Returns the number of trees that the segment is in. */
ACRE__HEAP_SLOW uint32_t acre__heap_note_taken(acre__heap h, uint32_t segment, uint32_t before,
                                               uint32_t after) {
    uint32_t had = acre__heap_rank(before), has = acre__heap_rank(after);
    if (has >= had)
        return had;
    ACRE__HEAP_CALL(acre__heap_note_drop, h, segment, has, had);
    acre__heap_fence();
    uint32_t now = acre__heap_rank(acre__heap_load32(&h.segments[segment].free_pages, relaxed));
    if (has < now)
        acre__heap_note_more(h, segment, has, now);
    return now;
}

ACRE__HEAP_FN uint32_t acre__heap_mask(uint32_t count) {
    return count >= 32 ? 0xffffffffu : (1u << count) - 1;
}

/* Every count-th bit, the starts of adjacent runs. */
ACRE__HEAP_FN uint32_t acre__heap_every(uint32_t count) {
    uint32_t bits = 1;
    ACRE__HEAP_ROLLED
    for (uint32_t step = count; step < 32; step *= 2)
        bits |= bits << step;
    return bits;
}

/* Chooses one of the runs. It prefers runs that begin at a multiple of their length, so that they
 * leave no gaps. Among those `spin` decides, so that warps that come at the same time choose
 * different runs. */
ACRE__HEAP_FN uint32_t acre__heap_pick(uint32_t runs, uint32_t count, uint32_t spin) {
    uint32_t even = runs & acre__heap_every(count), turn = spin & 31;
    if (!even)
        return acre__heap_ctz32(runs);
    even = turn ? even >> turn | even << (32 - turn) : even;
    return (acre__heap_ctz32(even) + turn) & 31;
}

/* Frees pages of a segment. Labels of runs were cleared before; labels of slabs stay. */
ACRE__HEAP_FN void acre__heap_give_here(acre__heap h, uint32_t segment, uint32_t pages) {
    uint32_t before = acre__heap_or32(&h.segments[segment].free_pages, pages, chip);
    acre__heap_note_freed(h, segment, before, before | pages);
}
ACRE__HEAP_SLOW void acre__heap_give(acre__heap h, uint32_t segment, uint32_t pages) {
    acre__heap_give_here(h, segment, pages);
}

/* Frees a run of pages. */
ACRE__HEAP_PART void acre__heap_release(acre__heap h, uint32_t page, uint32_t count) {
    acre__heap_give_here(h, page >> 5, acre__heap_mask(count) << (page & 31));
}

/* Claims a run of pages in a segment, or returns ACRE__HEAP_NONE. `places` has a bit for each page
 * that the run may begin at. The bits are taken by one atomic, which cannot fail because other
 * warps take other pages. A warp that gets only a part of the run frees that part. */
ACRE__HEAP_SLOW uint32_t acre__heap_take_in(acre__heap h, uint32_t segment, uint32_t count,
                                            uint32_t places, uint32_t spin) {
    uint32_t *mask = &h.segments[segment].free_pages;
    uint32_t before = acre__heap_load32(mask, relaxed), runs;
    ACRE__HEAP_ROLLED
    while ((runs = acre__heap_runs(before, count) & places) != 0) {
        uint32_t at = acre__heap_pick(runs, count, spin), run = acre__heap_mask(count) << at;
        before = acre__heap_and32(mask, ~run, chip);
        uint32_t got = before & run;
        if (got == run) {
            (void)ACRE__HEAP_CALL(acre__heap_note_taken, h, segment, before, before & ~run);
            return segment * 32 + at;
        }
        before &= ~run;
        if (got) {
            ACRE__HEAP_CALL(acre__heap_give, h, segment, got);
            before = acre__heap_load32(mask, relaxed);
        }
    }
    return ACRE__HEAP_NONE;
}

/* Clears a tree's bit for a segment that had no run to take, unless its mask has such a run now. */
ACRE__HEAP_SLOW void acre__heap_unhint(acre__heap h, uint32_t tree, uint32_t segment) {
    const uint32_t *mask = &h.segments[segment].free_pages;
    if (acre__heap_rank(acre__heap_load32(mask, relaxed)) > tree)
        return;
    acre__heap_tree_clear(h, tree, segment);
    if (acre__heap_rank(acre__heap_load32(mask, relaxed)) > tree)
        acre__heap_tree_set(h, tree, segment);
}

/* Claims a run of pages in one of the segments of a tree, or returns ACRE__HEAP_NONE. `look` has
 * the tree and the spin. */
ACRE__HEAP_SLOW uint32_t acre__heap_search(acre__heap h, acre__heap_look *look, uint32_t count,
                                           uint32_t places) {
    ACRE__HEAP_ROLLED
    for (;;) {
        uint32_t segment = acre__heap_look_next(look, h);
        if (segment == ACRE__HEAP_NONE)
            return segment;
        uint32_t page =
            ACRE__HEAP_CALL(acre__heap_take_in, h, segment, count, places, look->spin >> 6);
        if (page != ACRE__HEAP_NONE)
            return page;
        ACRE__HEAP_CALL(acre__heap_unhint, h, look->tree, segment);
    }
}

ACRE__HEAP_FN uint32_t acre__heap_search_tree(acre__heap h, uint32_t tree, uint32_t count,
                                              uint32_t places, uint32_t spin) {
    acre__heap_look look = {tree, spin, 0, 0};
    return ACRE__HEAP_CALL(acre__heap_search, h, &look, count, places);
}

/* Raises a word that never falls to at least `to`. */
ACRE__HEAP_FN void acre__heap_raise(uint64_t *word, uint64_t to) {
    uint64_t now = acre__heap_load64(word, relaxed);
    ACRE__HEAP_ROLLED
    while (now < to && !acre__heap_cas64(word, &now, to, acq_rel))
        continue;
}

/* Copies the host's last answer to the control. The host itself writes nothing to device memory
 * while kernels run: its copies would wait behind copies of the program, which may wait for the
 * kernel.
 *
 * A read of host memory takes a microsecond, and the bus serves reads of one address one after the
 * other. So one warp reads for all: `hearing` counts the beginnings and ends of reads, and a caller
 * waits, with a bound, for the end of a read that has begun after its call. */
ACRE__HEAP_SLOW void acre__heap_hear(acre__heap h) {
    acre__heap_wish *wish =
        (acre__heap_wish *)(uintptr_t)acre__heap_load64(&h.control->host, relaxed);
    if (!wish)
        return;
    uint32_t now = acre__heap_load32(&h.control->hearing, acquire), end = now + 2 + (now & 1);
    ACRE__HEAP_ROLLED
    for (uint32_t tries = 0; tries < 64 && (int)(now - end) < 0; tries++) {
        if (!(now & 1) && acre__heap_cas32(&h.control->hearing, &now, now + 1, acq_rel)) {
            uint64_t answers = acre__heap_ask_host(&wish->answers);
            if (answers > acre__heap_load64(&h.control->answers, relaxed)) {
                acre__heap_raise(&h.control->committed, acre__heap_ask_host(&wish->committed));
                acre__heap_raise(&h.control->answers, answers);
            }
            acre__heap_add32(&h.control->hearing, 1, acq_rel);
            return;
        }
        acre__heap_pause(3);
        now = acre__heap_load32(&h.control->hearing, acquire);
    }
}

/* Initialises the records of segments that were never used, whatever their memory held: no page has
 * a label, and no slab has free slots. The rest of a record is written before it is read. */
ACRE__HEAP_FN void acre__heap_clean(acre__heap h, uint32_t first, uint32_t count) {
    ACRE__HEAP_ROLLED
    for (uint32_t s = first; s < first + count; s++) {
        acre_heap_segment *segment = h.segments + s;
        acre__heap_store32(&segment->length, 0, relaxed);
        ACRE__HEAP_ROLLED
        for (uint32_t i = 0; i < ACRE__HEAP_TIERS * ACRE__HEAP_SORTS; i++)
            acre__heap_store32(&segment->tiers[0][0] + i, 0, relaxed);
        ACRE__HEAP_ROLLED
        for (uint32_t i = 0; i < ACRE__HEAP_PAGES; i++)
            acre__heap_store32(&segment->pages[i].info, 0, relaxed);
    }
}

/* Sets or clears the bits of whole segments in all trees of runs. It works word by word, so that a
 * block of gigabytes does not need thousands of atomics. */
ACRE__HEAP_PART void acre__heap_note_whole(uint32_t first, uint32_t count, acre__heap h,
                                           int is_free) {
    ACRE__HEAP_ROLLED
    for (uint32_t tree = 0; tree < ACRE__HEAP_RUNS; tree++) {
        uint64_t *words = acre__heap_tree(h, tree);
        ACRE__HEAP_ROLLED
        for (uint32_t i = first; i < first + count; i = (i | 63) + 1) {
            uint32_t end = (i | 63) + 1 < first + count ? (i | 63) + 1 : first + count;
            uint64_t bits = (end - i == 64 ? ~(uint64_t)0 : ((uint64_t)1 << (end - i)) - 1)
                            << (i & 63);
            uint64_t *word = words + acre__heap_level(0) + (i >> 6);
            if (is_free) {
                if (!acre__heap_or64(word, bits, acq_rel))
                    acre__heap_tree_set_up(words, i >> 6);
            } else if (!(acre__heap_and64(word, ~bits, acq_rel) & ~bits)) {
                acre__heap_tree_clear_up(words, i >> 6);
            }
        }
    }
}

ACRE__HEAP_SLOW void acre__heap_note_whole_call(uint32_t first, acre__heap h, uint32_t count,
                                                int is_free) {
    ACRE__HEAP_DO(acre__heap_note_whole, first, count, h, is_free);
}

/* If another warp is opening segments, waits for it, with a bound, and returns 1; else 0. */
ACRE__HEAP_FN int acre__heap_open_wait(acre__heap h) {
    if (!acre__heap_load64(&h.control->opening, acquire))
        return 0;
    ACRE__HEAP_ROLLED
    for (uint32_t i = 0; i < 16 && acre__heap_load64(&h.control->opening, acquire); i++)
        acre__heap_pause(i);
    return 1;
}

/* Opens the next few segments: puts them into the trees. Returns 0 if there are none. `opening` is
 * counted before `opened` changes: a warp that comes too late for these segments knows that they
 * will soon be in the trees. */
ACRE__HEAP_SLOW int acre__heap_open(acre__heap h) {
    uint64_t committed = acre__heap_load64(&h.control->committed, acquire);
    uint64_t opened = acre__heap_load64(&h.control->opened, acquire), end;
    if (opened >= committed)
        return acre__heap_open_wait(h);
    acre__heap_add64(&h.control->opening, 1, acquire);
    do {
        end = (opened | (ACRE__HEAP_OPENS - 1)) + 1;
        end = end < committed ? end : committed;
    } while (opened < committed && !acre__heap_cas64(&h.control->opened, &opened, end, acq_rel));
    if (opened < committed) {
        acre__heap_clean(h, (uint32_t)opened, (uint32_t)(end - opened));
        ACRE__HEAP_ROLLED
        for (uint32_t i = (uint32_t)opened; i < (uint32_t)end; i++)
            acre__heap_store32(&h.segments[i].free_pages, 0xffffffffu, release);
        ACRE__HEAP_CALL(acre__heap_note_whole_call, (uint32_t)opened, h, (uint32_t)(end - opened),
                        1);
    }
    acre__heap_add64(&h.control->opening, ~(uint64_t)0, acq_rel);
    return 1;
}

/* ---- desks ----
 *
 * If many warps searched for pages at the same time, they would all find the same ones. So runs of
 * pages, whole segments if possible, are put on desks, each for the warps of some SMs. A desk is
 * the word {segment + 1, end, next}. Taking pages is one load and one add. The add returns which
 * pages were taken, even if the desk has another run by then, and it may run past the end. Pages on
 * a desk are in no segment's mask. Freed pages go to the masks, where all warps find them. */
#define ACRE__HEAP_DESK_BUSY ((uint64_t)1 << 63) /* a warp is looking for a run; end is 0 */
#define ACRE__HEAP_DESK_NEXT(desk) ((uint32_t)(desk))
#define ACRE__HEAP_DESK_END(desk) ((uint32_t)((desk) >> 32) & 63u)
#define ACRE__HEAP_DESK_SEGMENT(desk) ((uint32_t)((desk) >> 40) - 1)
#define ACRE__HEAP_DESK_MOST 16u /* pages; longer runs come from the trees */
#define ACRE__HEAP_DESK_TRIES 32u

ACRE__HEAP_FN uint64_t acre__heap_desk(uint32_t segment, uint32_t end, uint32_t next) {
    return (uint64_t)(segment + 1) << 40 | (uint64_t)end << 32 | next;
}

/* Returns the pages on a desk. */
ACRE__HEAP_FN uint32_t acre__heap_desk_pages(uint64_t desk) {
    uint32_t end = ACRE__HEAP_DESK_END(desk), next = ACRE__HEAP_DESK_NEXT(desk);
    return next < end ? acre__heap_mask(end - next) << next : 0;
}

ACRE__HEAP_FN void acre__heap_desk_give(acre__heap h, uint64_t desk) {
    uint32_t pages = acre__heap_desk_pages(desk);
    if (pages)
        ACRE__HEAP_CALL(acre__heap_give, h, ACRE__HEAP_DESK_SEGMENT(desk), pages);
}

/* Tries to take a whole segment whose bit is set in a word of the tree of whole segments; returns
 * ACRE__HEAP_NONE if another warp was faster. Only the warp that clears a hint tries that segment,
 * so that warps that come at the same time spread. The other trees drop the segment before another
 * warp can get a page of it and free that page. */
ACRE__HEAP_PART uint32_t acre__heap_take_hinted(acre__heap h, uint32_t leaf, uint32_t bit) {
    uint64_t *at = acre__heap_tree(h, ACRE__HEAP_RUNS - 1) + acre__heap_level(0) + leaf;
    uint64_t one = (uint64_t)1 << bit, old = acre__heap_and64(at, ~one, chip);
    uint32_t segment = leaf * 64 + bit, whole = 0xffffffffu;
    if (!(old & one))
        return ACRE__HEAP_NONE;
    uint32_t up = old == one ? 1u << (ACRE__HEAP_RUNS - 1) : 0;
    int is_taken = acre__heap_cas32(&h.segments[segment].free_pages, &whole, 0, chip);
    if (is_taken)
        up |= acre__heap_note_less(h, segment, 0, ACRE__HEAP_RUNS - 1);
    acre__heap_note_empty(h, segment, up);
    return is_taken ? segment : ACRE__HEAP_NONE;
}

/* Takes a whole segment near the one that the desk had before, else from one of the eight lowest
 * words, so that few segments are partly used. */
ACRE__HEAP_FN uint32_t acre__heap_take_whole(acre__heap h, uint32_t before, uint32_t spin) {
    uint64_t *words = acre__heap_tree(h, ACRE__HEAP_RUNS - 1);
    uint32_t leaf = before < h.max_segments ? before >> 6 : ACRE__HEAP_NONE;
    ACRE__HEAP_ROLLED
    for (uint32_t looks = 0; looks < 256; looks++) {
        ACRE__HEAP_HERE(words);
        if (leaf == ACRE__HEAP_NONE) {
            uint64_t some = acre__heap_load64(words, relaxed);
            if (!some)
                break;
            leaf = acre__heap_ctz64(some) * 64;
            some = acre__heap_load64(words + acre__heap_level(1) + (leaf >> 6), relaxed);
            ACRE__HEAP_ROLLED
            for (uint32_t skip = (spin + looks) & 7; skip && (some & (some - 1)); skip--)
                some &= some - 1;
            leaf += some ? acre__heap_ctz64(some) : 0;
        }
        uint64_t word = acre__heap_load64(words + acre__heap_level(0) + leaf, relaxed);
        if (word) {
            uint32_t segment = ACRE__HEAP_DO(acre__heap_take_hinted, h, leaf,
                                             acre__heap_turned_bit(word, spin >> 3));
            if (segment != ACRE__HEAP_NONE)
                return segment;
        } else { /* a bit above it may have been set late, and would lead here again and again */
            acre__heap_tree_clear_up(words, leaf);
            leaf = ACRE__HEAP_NONE;
        }
    }
    return ACRE__HEAP_NONE;
}

/* Finds the next run for a desk if no segment is entirely free: the longest run that there is. Its
 * first `count` pages belong to the caller. Returns 0 if there is none. */
ACRE__HEAP_SLOW uint64_t acre__heap_desk_rest(acre__heap h, uint32_t count) {
    uint32_t spin = acre__heap_spin();
    ACRE__HEAP_ROLLED
    while (ACRE__HEAP_CALL(acre__heap_open, h)) {
        uint32_t page = acre__heap_search_tree(h, ACRE__HEAP_RUNS - 1, ACRE__HEAP_PAGES, 1, spin);
        if (page != ACRE__HEAP_NONE)
            return acre__heap_desk(page >> 5, ACRE__HEAP_PAGES, count);
    }
    ACRE__HEAP_ROLLED
    for (uint32_t tree = ACRE__HEAP_RUNS - 1; tree-- > 0 && 1u << tree >= count;) {
        uint32_t page = acre__heap_search_tree(h, tree, 1u << tree, 0xffffffffu, spin);
        if (page != ACRE__HEAP_NONE)
            return acre__heap_desk(page >> 5, (page & 31) + (1u << tree), (page & 31) + count);
    }
    return 0;
}

/* Short runs have desks of their own. Small slabs stay for long, and if they were taken from all
 * segments, none would be entirely free after a while. */
ACRE__HEAP_FN uint32_t acre__heap_desk_for(uint32_t count, uint32_t which) {
    return count <= 2 ? which + (1u << (ACRE__HEAP_DESKS_LOG2 - 1)) : which;
}

ACRE__HEAP_FN uint32_t acre__heap_desks_last(acre__heap h) {
    return (1u << acre__heap_desks_log2(acre__heap_hint64(&h.control->committed))) - 1;
}

/* Takes a run from a desk with one load and one atomic. If the desk has too few pages, returns
 * ACRE__HEAP_NONE and the desk's word in *now. */
ACRE__HEAP_FN uint32_t acre__heap_desk_take(acre__heap h, uint32_t which, uint32_t count,
                                            uint64_t *now) {
    uint64_t *desk = &h.control->desks[which];
    *now = acre__heap_load64(desk, relaxed);
    if (ACRE__HEAP_DESK_NEXT(*now) + count > ACRE__HEAP_DESK_END(*now))
        return ACRE__HEAP_NONE;
    uint64_t old = acre__heap_add64(desk, (uint64_t)count, chip);
    if (ACRE__HEAP_DESK_NEXT(old) + count <= ACRE__HEAP_DESK_END(old))
        return ACRE__HEAP_DESK_SEGMENT(old) * 32 + ACRE__HEAP_DESK_NEXT(old);
    /* It ran past the end, with pages that nobody can take now. */
    if (acre__heap_desk_pages(old))
        ACRE__HEAP_CALL(acre__heap_give, h, ACRE__HEAP_DESK_SEGMENT(old),
                        acre__heap_desk_pages(old));
    *now = old + count;
    return ACRE__HEAP_NONE;
}

/* Takes a run from one of the desks from `place` on, if one has enough pages. */
ACRE__HEAP_SLOW uint32_t acre__heap_desk_scan(acre__heap h, uint32_t place, uint32_t count) {
    uint32_t page = ACRE__HEAP_NONE, last = acre__heap_desks_last(h);
    ACRE__HEAP_ROLLED
    for (uint32_t i = 0; page == ACRE__HEAP_NONE && i < (last < 8 ? last : 8); i++) {
        uint64_t now;
        page = acre__heap_desk_take(h, acre__heap_desk_for(count, (place + i) & last), count, &now);
    }
    return page;
}

/* Puts a run on a desk that is BUSY, if there is one; its first pages are the caller's. Returns the
 * first of them, or ACRE__HEAP_NONE. Frees the pages that the desk had left. */
ACRE__HEAP_FN uint32_t acre__heap_desk_put(acre__heap h, uint32_t which, uint64_t run,
                                           uint32_t count, uint64_t left) {
    acre__heap_store64(&h.control->desks[which], run, chip);
    uint32_t page = run ? ACRE__HEAP_DESK_SEGMENT(run) * 32 + ACRE__HEAP_DESK_NEXT(run) - count
                        : ACRE__HEAP_NONE;
    if (acre__heap_desk_pages(left))
        ACRE__HEAP_CALL(acre__heap_give, h, ACRE__HEAP_DESK_SEGMENT(left),
                        acre__heap_desk_pages(left));
    return page;
}

/* Refills a desk, as acre__heap_desk_next does, if no segment is entirely free. */
ACRE__HEAP_SLOW uint32_t acre__heap_desk_last(acre__heap h, uint32_t which, uint32_t count,
                                              uint64_t left) {
    acre__heap_desk_give(h, left); /* at once: memory is short */
    uint64_t run = ACRE__HEAP_CALL(acre__heap_desk_rest, h, count);
    uint32_t page = acre__heap_desk_put(h, which, run, count, 0);
    return page != ACRE__HEAP_NONE ? page
                                   : ACRE__HEAP_CALL(acre__heap_desk_scan, h, which + 1, count);
}

/* Refills a desk, which the caller has set to BUSY, and takes a run of `count` pages from it, or
 * returns ACRE__HEAP_NONE. Warps that clear desks see BUSY until the refill is done. Like other
 * functions of this path it calls another one last or not at all, so that it saves no registers. */
ACRE__HEAP_SLOW uint32_t acre__heap_desk_next(acre__heap h, uint32_t which, uint64_t left,
                                              uint32_t count) {
    (void)acre__heap_or64(&h.control->desked[which >> 6], (uint64_t)1 << (which & 63), chip);
    uint32_t segment = acre__heap_take_whole(h, ACRE__HEAP_DESK_SEGMENT(left), acre__heap_spin());
    if (segment == ACRE__HEAP_NONE)
        return ACRE__HEAP_CALL(acre__heap_desk_last, h, which, count, left);
    return acre__heap_desk_put(h, which, acre__heap_desk(segment, ACRE__HEAP_PAGES, count), count,
                               left);
}

/* Takes a run from some desk, or returns ACRE__HEAP_NONE, or ACRE__HEAP_AGAIN. While one desk is
 * being refilled it tries the next. If a desk cannot be refilled, others may still have pages. A
 * warp that gives up causes all desks to be cleared, so it does not give up after a short wait. */
ACRE__HEAP_SLOW uint32_t acre__heap_desk_claim(acre__heap h, uint32_t count) {
    uint32_t place = acre__heap_place(), last = acre__heap_desks_last(h);
    ACRE__HEAP_ROLLED
    for (uint32_t tries = 0; tries < 512; tries++, place++) {
        uint32_t which = acre__heap_desk_for(count, place & last);
        uint64_t *desk = &h.control->desks[which], now = acre__heap_load64(desk, relaxed);
        uint64_t left = now;
        if (ACRE__HEAP_DESK_NEXT(now) + count <= ACRE__HEAP_DESK_END(now)) {
            now = acre__heap_add64(desk, (uint64_t)count, chip);
            if (ACRE__HEAP_DESK_NEXT(now) + count <= ACRE__HEAP_DESK_END(now))
                return ACRE__HEAP_DESK_SEGMENT(now) * 32 + ACRE__HEAP_DESK_NEXT(now);
            if (acre__heap_desk_pages(now)) { /* it ran past the end: nobody can take the rest */
                ACRE__HEAP_CALL(acre__heap_give, h, ACRE__HEAP_DESK_SEGMENT(now),
                                acre__heap_desk_pages(now));
                return ACRE__HEAP_AGAIN;
            }
        } else if (!(now & ACRE__HEAP_DESK_BUSY) &&
                   acre__heap_cas64(desk, &now, ACRE__HEAP_DESK_BUSY, chip)) {
            return ACRE__HEAP_CALL(acre__heap_desk_next, h, which, left, count);
        }
        if ((tries & last & 3) == (last & 3))
            acre__heap_pause(tries < 16 ? tries / 4 : 4);
    }
    return ACRE__HEAP_NONE;
}

ACRE__HEAP_FN uint32_t acre__heap_desk_get(acre__heap h, uint32_t count) {
    uint32_t page;
    do
        page = ACRE__HEAP_NEAR(acre__heap_desk_claim, h, count);
    while (page == ACRE__HEAP_AGAIN);
    return page;
}

/* Frees the pages on the desks of one word. Returns 0 if there were none, 1 if a warp is about to
 * put a run on one of them, 2 or 3 if there were some. */
ACRE__HEAP_FN uint32_t acre__heap_clear_word(acre__heap h, uint32_t word) {
    uint64_t busy = 0;
    uint32_t any = 0;
    ACRE__HEAP_ROLLED
    for (uint64_t some = acre__heap_exch64(&h.control->desked[word], 0, acquire); some;
         some &= some - 1) {
        uint64_t *desk = &h.control->desks[word * 64 + acre__heap_ctz64(some)];
        uint64_t now = acre__heap_load64(desk, relaxed);
        ACRE__HEAP_ROLLED
        while (acre__heap_desk_pages(now) && !acre__heap_cas64(desk, &now, 0, chip))
            continue;
        if (acre__heap_desk_pages(now)) {
            acre__heap_desk_give(h, now);
            any |= 2;
        } else if (now & ACRE__HEAP_DESK_BUSY) {
            busy |= some & (0 - some);
        }
    }
    if (busy)
        (void)acre__heap_or64(&h.control->desked[word], busy, chip);
    return any | (busy != 0);
}

/* Frees the pages on all desks. Returns as acre__heap_clear_word does. */
ACRE__HEAP_SLOW uint32_t acre__heap_clear_desks(acre__heap h) {
    uint32_t some = 0, any = 0;
    ACRE__HEAP_FOURFOLD
    for (uint32_t i = 0; i < 1u << (ACRE__HEAP_DESKS_LOG2 - 6); i++)
        some |= (uint32_t)(acre__heap_load64(&h.control->desked[i], relaxed) != 0) << i;
    ACRE__HEAP_ROLLED
    for (; some; some &= some - 1)
        any |= acre__heap_clear_word(h, acre__heap_ctz32(some));
    return any;
}

/* Claims a run of 1 to 32 pages that begins at a multiple of `align` pages, a power of two. It
 * searches the trees, then opens segments, then clears the desks. */
ACRE__HEAP_SLOW uint32_t acre__heap_claim_rest(acre__heap h, uint32_t count, uint32_t align) {
    uint32_t spin = acre__heap_spin(), busy = 0;
    uint32_t low = acre__heap_log2(count), high = low + ((count & (count - 1)) != 0);
    uint32_t places = align == 1 ? 0xffffffffu : acre__heap_every(align);
    ACRE__HEAP_ROLLED
    for (uint32_t opens = 0; opens <= h.max_segments;) {
        uint32_t page = acre__heap_search_tree(h, high, count, places, spin);
        if (page == ACRE__HEAP_NONE && low != high)
            page = acre__heap_search_tree(h, low, count, places, spin);
        if (page != ACRE__HEAP_NONE)
            return page;
        if (ACRE__HEAP_CALL(acre__heap_open, h)) {
            opens++;
            continue;
        }
        uint32_t cleared = ACRE__HEAP_CALL(acre__heap_clear_desks, h);
        if (!cleared || busy++ > (cleared > 1 ? ACRE__HEAP_DESK_TRIES : 2))
            break;
    }
    return ACRE__HEAP_NONE;
}

/* As acre__heap_claim_rest, but tries the desks first. */
ACRE__HEAP_FN uint32_t acre__heap_claim(acre__heap h, uint32_t count, uint32_t align) {
    uint32_t page = ACRE__HEAP_NONE;
    if (count <= ACRE__HEAP_DESK_MOST && align == 1)
        page = acre__heap_desk_get(h, count);
    return page == ACRE__HEAP_NONE ? ACRE__HEAP_CALL(acre__heap_claim_rest, h, count, align) : page;
}

/* Writes the labels of pages that belong to the caller. */
ACRE__HEAP_FN void acre__heap_label(acre__heap h, uint32_t page, uint32_t count, uint32_t info) {
    ACRE__HEAP_ROLLED
    for (uint32_t i = 0; i < count; i++)
        acre__heap_store32(&acre__heap_page_of(h, page + i)->info, info ? info | i << 3 : 0,
                           relaxed);
}

/* ---- runs of segments ---- */

ACRE__HEAP_FN void acre__heap_give_here_segments(acre__heap h, uint32_t first, uint32_t count) {
    ACRE__HEAP_ROLLED
    for (uint32_t i = first; i < first + count; i++)
        acre__heap_store32(&h.segments[i].free_pages, 0xffffffffu, release);
    ACRE__HEAP_DO(acre__heap_note_whole, first, count, h, 1);
}
ACRE__HEAP_SLOW void acre__heap_give_segments(uint32_t first, acre__heap h, uint32_t count) {
    acre__heap_give_here_segments(h, first, count);
}

/* Takes whole segments, all or none. Returns `count`, or the number in front of one that is not
 * free. */
ACRE__HEAP_FN uint32_t acre__heap_take_segments(acre__heap h, uint32_t first, uint32_t count) {
    ACRE__HEAP_ROLLED
    for (uint32_t i = first; i < first + count; i++) {
        uint32_t whole = 0xffffffffu;
        if (acre__heap_cas32(&h.segments[i].free_pages, &whole, 0, acquire))
            continue;
        ACRE__HEAP_CALL(acre__heap_unhint, h, ACRE__HEAP_RUNS - 1, i);
        ACRE__HEAP_CALL(acre__heap_give_segments, first, h, i - first);
        return i - first;
    }
    ACRE__HEAP_CALL(acre__heap_note_whole_call, first, h, count, 0);
    return count;
}

/* Searches from the top, since small blocks begin at the bottom. */
ACRE__HEAP_FN uint32_t acre__heap_find_segments(acre__heap h, uint32_t count) {
    const uint64_t *words = acre__heap_tree(h, ACRE__HEAP_RUNS - 1) + acre__heap_level(0);
    uint64_t opened = acre__heap_load64(&h.control->opened, relaxed);
    uint32_t run = 0;
    ACRE__HEAP_ROLLED
    for (uint32_t leaf = (uint32_t)((opened + 63) >> 6); leaf-- > 0;) {
        uint64_t word = acre__heap_load64(words + leaf, relaxed);
        ACRE__HEAP_ROLLED
        for (uint32_t bit = 64; bit-- > 0 && (word || run);) {
            run = word >> bit & 1 ? run + 1 : 0;
            if (run < count)
                continue;
            run = acre__heap_take_segments(h, leaf * 64 + bit, count);
            if (run == count)
                return leaf * 64 + bit;
        }
    }
    return ACRE__HEAP_NONE;
}

/* Takes segments that were never opened. */
ACRE__HEAP_FN uint32_t acre__heap_open_segments(acre__heap h, uint32_t count) {
    uint64_t committed = acre__heap_load64(&h.control->committed, acquire);
    uint64_t opened = acre__heap_load64(&h.control->opened, relaxed);
    do {
        if (opened > committed || committed - opened < count)
            return ACRE__HEAP_NONE;
    } while (!acre__heap_cas64(&h.control->opened, &opened, opened + count, acquire));
    acre__heap_clean(h, (uint32_t)opened, count);
    ACRE__HEAP_ROLLED
    for (uint32_t i = 0; i < count; i++)
        acre__heap_store32(&h.segments[opened + i].free_pages, 0, relaxed);
    return (uint32_t)opened;
}

/* The caller holds the lock. */
ACRE__HEAP_SLOW uint32_t acre__heap_claim_locked(uint32_t count, acre__heap h) {
    uint32_t first, tries = 0;
    do {
        first = acre__heap_find_segments(h, count);
        if (first == ACRE__HEAP_NONE)
            first = acre__heap_open_segments(h, count);
        /* Free segments may be on both sides of `opened`, or on desks. */
    } while (first == ACRE__HEAP_NONE &&
             (ACRE__HEAP_CALL(acre__heap_open, h) ||
              (!tries++ && ACRE__HEAP_CALL(acre__heap_clear_desks, h))));
    return first;
}

/* Two warps that search at the same time would take each other's segments, and both fail. Hence a
 * lock, which small blocks never take. The guarded code is inside the loop: otherwise the lane that
 * holds the lock would wait behind the loop for lanes of its warp that wait for the lock. */
ACRE__HEAP_SLOW uint32_t acre__heap_claim_segments(acre__heap h, uint32_t count) {
    uint32_t first = ACRE__HEAP_NONE;
    int is_done = count > h.max_segments;
    ACRE__HEAP_ROLLED
    for (uint32_t tries = 0; !is_done && tries < 1u << 20; tries++) {
        if (acre__heap_exch32(&h.control->lock, 1, acquire)) {
            acre__heap_pause(tries);
        } else {
            first = ACRE__HEAP_CALL(acre__heap_claim_locked, count, h);
            acre__heap_store32(&h.control->lock, 0, release);
            is_done = 1;
        }
    }
    return first;
}

#endif
