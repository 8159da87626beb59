/* Blocks: what a call of malloc or free does for the lanes that reach it together. Part of
 * acre_heap.h, not to be included by itself.
 *
 * A call queries the active lanes once, when it begins, and these lanes go through it together. Of
 * the lanes that want the same size class, one, the leader, acts for all. Shuffles order no memory
 * accesses. So a __syncwarp separates the leader's acquire from the use of the memory by the other
 * lanes, and their use from the leader's release. */
#ifndef ACRE_HEAP_BLOCKS_H
#define ACRE_HEAP_BLOCKS_H

#include "slab.h"

/* A warp that wants this many bytes of a class gets its own pages. Refilling an arena for every
 * warp, or every second one, would make the warps of an SM miss one after the other. */
#define ACRE__HEAP_OWN_BYTES ((uint32_t)48 << 10)

ACRE__HEAP_FN uint32_t acre__heap_group(uint32_t mask, uint32_t key) {
    uint32_t first = (uint32_t)acre__heap_shfl(mask, key, acre__heap_ctz32(mask));
    if (acre__heap_ballot(mask, key == first) == mask)
        return mask;
    return acre__heap_match(mask, key);
}

/* ---- more memory ---- */

/* Requests the next answer of the host, unless another warp has, and waits for it. Returns 0 if
 * that takes too long. Numbers only rise, and one warp sends each number: a warp that is late with
 * an old number must not overwrite a request that the host has yet to read. The warp that sent the
 * request polls host memory. The others poll a word in device memory, so that they do not load the
 * bus, and read host memory only now and then, in case the warp that sent the request has ended. */
ACRE__HEAP_FN int acre__heap_ask(acre__heap h, acre__heap_wish *wish, size_t bytes) {
    acre_heap_control *control = h.control;
    uint64_t number = (acre__heap_load64(&control->answers, relaxed) >> 1) + 1;
    uint64_t asked = acre__heap_load64(&control->asked, relaxed);
    uint32_t every = 64;
    if (asked < number && acre__heap_cas64(&control->asked, &asked, number, relaxed)) {
        acre__heap_add64(&control->waits, 1, relaxed);
        acre__heap_tell_host(&wish->bytes, bytes);
        acre__heap_tell_host(&wish->number, number);
        every = 1;
    }
    uint64_t begin = acre__heap_time_ns(), most = acre__heap_load64(&control->wait_ns, relaxed);
    ACRE__HEAP_ROLLED
    for (uint32_t tries = 1; acre__heap_load64(&control->answers, acquire) >> 1 < number; tries++) {
        if (tries % every == 0)
            ACRE__HEAP_CALL(acre__heap_hear, h);
        acre__heap_pause(tries);
        if (acre__heap_time_ns() - begin > most)
            return 0;
    }
    return 1;
}

/* Returns 1 if there is more memory than the `seen` segments, and requests it if needed. It tries
 * twice, since the first answer may belong to a request from before these segments were there. */
ACRE__HEAP_SLOW int acre__heap_more(size_t bytes, uint64_t seen, acre__heap h) {
    acre_heap_control *control = h.control;
    ACRE__HEAP_ROLLED
    for (int i = 0; i < 2; i++) {
        ACRE__HEAP_CALL(acre__heap_hear, h);
        if (acre__heap_load64(&control->committed, acquire) != seen)
            return 1;
        acre__heap_wish *wish =
            (acre__heap_wish *)(uintptr_t)acre__heap_load64(&control->host, relaxed);
        if (!wish || acre__heap_load64(&control->answers, relaxed) & 1)
            return 0;
        if (!acre__heap_ask(h, wish, bytes))
            break;
    }
    return acre__heap_load64(&control->committed, acquire) != seen;
}

ACRE__HEAP_FN void acre__heap_fail(acre__heap h, uint32_t count, size_t bytes) {
    acre__heap_add64(&h.control->failed, (uint64_t)count, relaxed);
    acre__heap_add64(&h.control->failed_bytes, (uint64_t)bytes * count, relaxed);
}

/* ---- blocks by class ---- */

/* Returns the offset of slot n of a grant from the heap's base. */
ACRE__HEAP_FN uint64_t acre__heap_granted(uint32_t size_class, uint64_t grant, uint64_t bits,
                                          uint32_t n) {
    uint32_t slot = ACRE__HEAP_SLOT(grant);
    slot = ACRE__HEAP_IS_BITS(grant) ? slot * 64 + acre__heap_nth_bit(bits, n) : slot + n;
    return ((uint64_t)(uint32_t)grant << ACRE__HEAP_PAGE_LOG2) +
           (uint64_t)slot * acre__heap_class_bytes(size_class);
}

/* What a warp that wants `count` slots takes at once: not more than a slab can have. */
ACRE__HEAP_FN uint32_t acre__heap_own_bytes(uint32_t size_class, uint32_t count) {
    uint32_t bytes = count * acre__heap_class_bytes(size_class);
    return bytes < ACRE__HEAP_RUN_MOST ? bytes : (uint32_t)ACRE__HEAP_RUN_MOST;
}

ACRE__HEAP_FN int acre__heap_is_own(uint32_t size_class, uint32_t count) {
    uint32_t bytes = acre__heap_own_bytes(size_class, count);
    uint32_t over = (0u - bytes) & (uint32_t)(ACRE__HEAP_PAGE_BYTES - 1);
    return bytes >= ACRE__HEAP_OWN_BYTES && over <= bytes / 16;
}

/* The pages of a slab for one warp only. */
ACRE__HEAP_FN uint32_t acre__heap_own_pages(uint32_t size_class, uint32_t wanted) {
    uint32_t bytes = acre__heap_own_bytes(size_class, wanted);
    return (bytes + (1u << ACRE__HEAP_PAGE_LOG2) - 1) >> ACRE__HEAP_PAGE_LOG2;
}

/* Finds slots when the arenas and desks have none: in new pages, or in more memory, which the next
 * try takes (ACRE__HEAP_GROWN), or in slabs of other arenas. `task` is a refill to be ended, or 0.
 * Other slabs do not go to an arena: while memory is short, other warps must be able to use the
 * rest of them. What another warp has in its hands for a moment is found by a few more looks. */
ACRE__HEAP_SLOW uint64_t acre__heap_scrape(acre__heap h, uint32_t want, uint64_t task,
                                           acre__heap_reserved *reserved) {
    uint64_t seen = acre__heap_load64(&h.control->committed, relaxed), grant = 0;
    uint32_t size_class = ACRE__HEAP_WANTED_CLASS(want);
    if (ACRE__HEAP_IS_REFILL(task))
        grant = ACRE__HEAP_CALL(acre__heap_attach_rest, task, h, want, reserved);
    ACRE__HEAP_ROLLED
    for (uint32_t i = 0; !grant; i++) {
        uint32_t before = acre__heap_load32(&h.control->flushes, relaxed);
        grant = ACRE__HEAP_DO(acre__heap_take_apart, h, want, reserved);
        if (grant)
            break;
        if (!i && ACRE__HEAP_CALL(acre__heap_more, ACRE__HEAP_RUN_MOST, seen, h))
            return ACRE__HEAP_GROWN;
        if (i == ACRE__HEAP_FLUSHES || (!ACRE__HEAP_CALL(acre__heap_flush, h, before) && i > 2))
            break;
    }
    if (!grant && size_class < ACRE_HEAP_CLASSES) /* others try a run of pages yet */
        acre__heap_fail(h, ACRE__HEAP_WANTED(want), acre__heap_class_bytes(size_class));
    return grant;
}

/* Returns 1 if a refill should look for a slab with much room, not for new pages. New pages are
 * faster: slots at the front need no search, and a slab whose blocks are all freed soon is retired,
 * if nobody takes its holes in the meantime. But a class that has many pages must use its holes,
 * and so must all classes once memory has been short. */
ACRE__HEAP_FN int acre__heap_wants_holes(acre__heap h, uint32_t size_class) {
    uint32_t pages = acre__heap_load32(&h.control->slab_pages[size_class], relaxed);
    uint64_t most =
        acre__heap_hint64(&h.control->committed) * ACRE__HEAP_PAGES >> ACRE__HEAP_HOLES_LOG2;
    return pages > most || acre__heap_hint32(&h.control->flushes) != 0;
}

/* Makes a slab of new pages, and grants slots of it: for an arena, if `task` is a refill, or for
 * this warp only. Reserves slots of an old slab for an arena, if there is one with much room, and
 * returns ACRE__HEAP_HELD. Returns 0 if there is no memory. */
ACRE__HEAP_PART uint64_t acre__heap_fill(uint32_t want, uint64_t task, acre__heap h,
                                         acre__heap_reserved *reserved) {
    uint32_t size_class = ACRE__HEAP_WANTED_CLASS(want);
    uint32_t page, pages;
    if (ACRE__HEAP_IS_REFILL(task)) {
        if (acre__heap_wants_holes(h, size_class)) {
            page = ACRE__HEAP_CALL(acre__heap_reuse, h, want, reserved);
            if (page != ACRE__HEAP_NONE) {
                acre__heap_attach(h, size_class, task, page << 2 | ACRE__HEAP_HOLES);
                return ACRE__HEAP_HELD;
            }
        }
        uint32_t spread = acre__heap_hint32(&h.control->spread[size_class]);
        pages = 1u << acre__heap_slab_log2(size_class, spread);
    } else {
        pages = acre__heap_own_pages(size_class, ACRE__HEAP_WANTED(want));
    }
    page = acre__heap_desk_get(h, pages);
    if (page != ACRE__HEAP_NONE)
        return ACRE__HEAP_NEAR(acre__heap_attach_new, h, want, task, page, pages);
    return 0;
}

/* Takes slots from the arenas, or begins a refill; 0 if all of them are busy for long. While an
 * arena is being refilled it tries the next. */
ACRE__HEAP_PART uint64_t acre__heap_take_slots(acre__heap_reserved *reserved, acre__heap h,
                                               uint32_t want) {
    uint32_t size_class = ACRE__HEAP_WANTED_CLASS(want), at = acre__heap_place();
    uint32_t spread = acre__heap_load32(&h.control->spread[size_class], relaxed);
    if (spread != acre__heap_hint32(&h.control->spread[size_class]))
        acre__heap_fence(); /* discards the cached hint */
    uint32_t last = (1u << acre__heap_arenas_log2(size_class, spread)) - 1;
    ACRE__HEAP_ROLLED
    for (uint32_t tries = 0; tries < ACRE__HEAP_TRIES; tries++, at++) {
        ACRE__HEAP_HERE(h.control);
        uint64_t grant = ACRE__HEAP_DO(acre__heap_try_arena, h, want, at & last, reserved);
        if (grant)
            return grant;
        if ((tries & last & 3) == (last & 3))
            acre__heap_pause(tries / 4);
    }
    return 0;
}

/* The leader's next attempt to get the wanted slots, or the refill that it has begun. Returns 0 if
 * there is no memory. */
ACRE__HEAP_HALF uint64_t acre__heap_next(uint32_t want, acre__heap h, uint64_t grant,
                                         acre__heap_reserved *reserved) {
    int is_own = acre__heap_is_own(ACRE__HEAP_WANTED_CLASS(want), ACRE__HEAP_WANTED(want));
    uint64_t task = 0;
    if (!ACRE__HEAP_IS_REFILL(grant)) {
        grant = reserved->count ? ACRE__HEAP_HELD : 0;
        if (!grant && !is_own)
            grant = ACRE__HEAP_DO(acre__heap_take_slots, reserved, h, want);
    }
    ACRE__HEAP_HERE(h.control);
    if (ACRE__HEAP_IS_REFILL(grant) || (!grant && is_own)) {
        task = grant;
        grant = ACRE__HEAP_DO(acre__heap_fill, want, grant, h, reserved);
    }
    ACRE__HEAP_HERE(h.segments);
    if (grant == ACRE__HEAP_HELD) {
        task = 0;
        grant = ACRE__HEAP_DO(acre__heap_find_reserved, h, reserved);
    }
    return grant ? grant : ACRE__HEAP_CALL(acre__heap_scrape, h, want, task, reserved);
}

/* One load and one atomic, if the arena has unused slots. If it has none, and no other warp refills
 * it, returns a refill. */
ACRE__HEAP_FN uint64_t acre__heap_first(acre__heap h, uint32_t size_class, uint32_t wanted) {
    if (acre__heap_is_own(size_class, wanted))
        return 0;
    uint32_t spread = acre__heap_hint32(&h.control->spread[size_class]);
    uint32_t at = acre__heap_arena_of(size_class, spread);
    uint64_t *arena = &h.control->arenas[size_class][at], now = acre__heap_load64(arena, relaxed);
    if (ACRE__HEAP_STATE(now) == ACRE__HEAP_FRONT) {
        uint32_t page = ACRE__HEAP_ARENA_PAGE(now);
        uint64_t grant = acre__heap_take_front(h, page, size_class, wanted);
        if (grant & ACRE__HEAP_STALE) {
            ACRE__HEAP_CALL(acre__heap_give_back, h, page, ACRE__HEAP_SLOT(grant),
                            ACRE__HEAP_GRANTED(grant));
            return 0;
        }
        if (grant)
            return grant;
    } else if (ACRE__HEAP_STATE(now) != ACRE__HEAP_EMPTY) {
        return 0;
    }
    /* If memory is short, the class is no longer spread as widely: not every arena has a slab. */
    if (acre__heap_load32(&h.control->spread[size_class], relaxed) != spread)
        return 0;
    return acre__heap_begin_refill(arena, at, now);
}

/* Allocates one block of a class for each lane that calls it. Returns its offset from the heap's
 * base, or ACRE__HEAP_NOWHERE if there is no memory. The leaders of all groups act at the same
 * time, each for its group. All lanes loop together until none waits for anything, so that every
 * lane takes part in every collective, with the same mask. Functions that leaders call have no
 * collectives. */
#define ACRE__HEAP_NOWHERE (~(uint64_t)0)
ACRE__HEAP_BODY uint64_t acre__heap_malloc_slot(uint32_t size_class, acre__heap h) {
    uint32_t mask = acre__heap_active(), peers = acre__heap_group(mask, size_class);
    uint32_t leader = acre__heap_ctz32(peers), count = acre__heap_popc32(peers);
    uint32_t rank = acre__heap_popc32(peers & ((1u << acre__heap_lane()) - 1));
    acre__heap_reserved reserved;
    reserved.count = 0;
    uint64_t grant = rank == 0 ? acre__heap_first(h, size_class, count) : 0;
    grant = acre__heap_shfl(mask, grant, leader);
    uint32_t got = ACRE__HEAP_GRANTED(grant);
    uint64_t at = rank < got ? acre__heap_granted(size_class, grant, 0, rank) : ACRE__HEAP_NOWHERE;
    /* `rank` and `count` are those among the lanes that still want a block. */
    for (rank -= got, count -= got; acre__heap_ballot(mask, count != 0); rank -= got) {
        uint64_t bits = 0, refill = grant;
        ACRE__HEAP_HERE(h.control);
        grant = 0;
        if (acre__heap_lane() == leader && count) {
            grant = ACRE__HEAP_GO_ON(acre__heap_next, ACRE__HEAP_WANT(size_class, count), h, refill,
                                     &reserved);
            /* Bits are granted only from `reserved`. NOLINTNEXTLINE */
            bits = ACRE__HEAP_IS_BITS(grant) ? reserved.bits : 0;
        }
        grant = acre__heap_shfl(mask, grant, leader);
        bits = acre__heap_shfl(mask, bits, leader);
        got = ACRE__HEAP_GRANTED(grant);
        if (rank < got)
            at = acre__heap_granted(size_class, grant, bits, rank);
        if (grant != ACRE__HEAP_GROWN)
            count = got ? count - got : 0; /* 0: there is no more memory */
    }
    acre__heap_syncwarp(mask);
    return at;
}

/* ---- blocks of pages and segments ---- */

ACRE__HEAP_SLOW uint32_t acre__heap_take_pages(size_t bytes, size_t align, acre__heap h) {
    uint32_t page;
    if (bytes <= ACRE__HEAP_RUN_MOST && align <= ACRE__HEAP_RUN_MOST) {
        uint32_t count = (uint32_t)((bytes - 1) >> ACRE__HEAP_PAGE_LOG2) + 1;
        uint32_t step =
            align > ACRE__HEAP_PAGE_BYTES ? (uint32_t)(align >> ACRE__HEAP_PAGE_LOG2) : 1;
        page = acre__heap_claim(h, count, step);
        if (page != ACRE__HEAP_NONE)
            acre__heap_label(h, page, count, acre__heap_info(ACRE__HEAP_RUN, 0, count));
        return page;
    }
    uint64_t count = ((uint64_t)(bytes - 1) >> ACRE__HEAP_SEGMENT_LOG2) + 1;
    if (count > h.max_segments)
        return ACRE__HEAP_NONE;
    if (count == 1) {
        page = acre__heap_claim(h, ACRE__HEAP_PAGES, 1);
    } else {
        page = ACRE__HEAP_CALL(acre__heap_claim_segments, h, (uint32_t)count);
        page = page == ACRE__HEAP_NONE ? page : page * 32;
    }
    if (page == ACRE__HEAP_NONE)
        return page;
    acre__heap_store32(&acre__heap_segment_of(h, page)->length, (uint32_t)count, relaxed);
    acre__heap_store32(&acre__heap_page_of(h, page)->info, acre__heap_info(ACRE__HEAP_LARGE, 0, 0),
                       relaxed);
    return page;
}

/* Allocates a block of pages for a single lane. Returns its first page, or ACRE__HEAP_NONE. With
 * `align` 0, the heap cannot grow: the caller has tried. */
ACRE__HEAP_SLOW uint32_t acre__heap_pages_slow(acre__heap h, size_t bytes, size_t align) {
    if (bytes > (uint64_t)h.max_segments << ACRE__HEAP_SEGMENT_LOG2) {
        acre__heap_fail(h, 1, 0);
        return ACRE__HEAP_NONE;
    }
    uint32_t flushes = 0;
    ACRE__HEAP_ROLLED
    for (;;) {
        uint64_t seen = acre__heap_load64(&h.control->committed, relaxed);
        uint32_t before = acre__heap_load32(&h.control->flushes, relaxed);
        uint32_t page = ACRE__HEAP_CALL(acre__heap_take_pages, bytes, align, h);
        if (page != ACRE__HEAP_NONE)
            return page;
        if (!flushes && align && ACRE__HEAP_CALL(acre__heap_more, bytes, seen, h))
            continue;
        if (flushes++ == ACRE__HEAP_FLUSHES || !ACRE__HEAP_CALL(acre__heap_flush, h, before))
            break;
    }
    acre__heap_fail(h, 1, bytes);
    return ACRE__HEAP_NONE;
}

/* Frees a block of pages or segments. Returns 0 if another lane has just freed it. */
ACRE__HEAP_PART int acre__heap_free_pages(uint32_t page, acre__heap h, uint32_t info) {
    acre_heap_segment *segment = acre__heap_segment_of(h, page);
    uint32_t large = acre__heap_load32(&segment->length, relaxed);
    if (!acre__heap_cas32(&acre__heap_page_of(h, page)->info, &info, 0, relaxed))
        return 0;
    if (ACRE__HEAP_KIND(info) == ACRE__HEAP_RUN) {
        acre__heap_label(h, page, ACRE__HEAP_LENGTH(info), 0);
        acre__heap_fence();
        ACRE__HEAP_DO(acre__heap_release, h, page, ACRE__HEAP_LENGTH(info));
    } else {
        acre__heap_give_here_segments(h, page >> 5, large);
    }
    return 1;
}

/* ---- resizing in place ---- */

/* Changes the length of a block of pages. Returns 0 if the pages behind it are not free. */
ACRE__HEAP_FN int acre__heap_resize_run(acre__heap h, uint32_t page, uint32_t had, uint32_t count) {
    uint32_t segment = page >> 5, at = page & 31;
    if (at + count > ACRE__HEAP_PAGES)
        return 0;
    if (count > had) {
        uint32_t *mask = &h.segments[segment].free_pages;
        uint32_t more = acre__heap_mask(count - had) << (at + had);
        if ((acre__heap_load32(mask, relaxed) & more) != more)
            return 0;
        uint32_t before = acre__heap_and32(mask, ~more, chip);
        if ((before & more) != more) {
            if (before & more)
                ACRE__HEAP_CALL(acre__heap_give, h, segment, before & more);
            return 0;
        }
        ACRE__HEAP_CALL(acre__heap_note_taken, h, segment, before, before & ~more);
    } else {
        acre__heap_label(h, page + count, had - count, 0);
    }
    acre__heap_label(h, page, count, acre__heap_info(ACRE__HEAP_RUN, 0, count));
    if (count < had) {
        acre__heap_fence();
        ACRE__HEAP_DO(acre__heap_release, h, page + count, had - count);
    }
    return 1;
}

/* Returns 1 if segments are in the tree of whole ones. Their records are initialised then, which
 * `opened` alone does not say: it is raised before. */
ACRE__HEAP_FN int acre__heap_are_whole(acre__heap h, uint32_t first, uint32_t count) {
    const uint64_t *words = acre__heap_tree(h, ACRE__HEAP_RUNS - 1) + acre__heap_level(0);
    for (uint32_t i = first; i < first + count; i++)
        if (!(acre__heap_load64(words + (i >> 6), acquire) >> (i & 63) & 1))
            return 0;
    return 1;
}

/* Changes the length of a block of segments. Returns 0 if those behind it are not free, or if
 * another warp holds the lock (acre__heap_claim_segments). */
ACRE__HEAP_FN int acre__heap_resize_segments(acre__heap h, uint32_t first, uint32_t had,
                                             uint32_t count) {
    if (count > had) {
        uint32_t more = count - had, taken = 0;
        if (count > h.max_segments - first || !acre__heap_are_whole(h, first + had, more))
            return 0;
        if (!acre__heap_exch32(&h.control->lock, 1, acquire)) {
            taken = acre__heap_take_segments(h, first + had, more);
            acre__heap_store32(&h.control->lock, 0, release);
        }
        if (taken != more)
            return 0;
    }
    acre__heap_store32(&h.segments[first].length, count, relaxed);
    if (count < had) {
        acre__heap_fence();
        ACRE__HEAP_CALL(acre__heap_give_segments, first + count, h, had - count);
    }
    return 1;
}

/* Resizes a block of pages or segments that belongs to the caller, if it stays one of its kind.
 * Returns 0 if it must move. */
ACRE__HEAP_SLOW int acre__heap_resize(acre__heap h, uint32_t page, size_t bytes) {
    uint32_t info = acre__heap_load32(&acre__heap_page_of(h, page)->info, relaxed);
    int is_run = bytes > ACRE__HEAP_CLASS_MOST && bytes <= ACRE__HEAP_RUN_MOST;
    if (ACRE__HEAP_KIND(info) == ACRE__HEAP_RUN && is_run)
        return acre__heap_resize_run(h, page, ACRE__HEAP_LENGTH(info),
                                     (uint32_t)((bytes - 1) >> ACRE__HEAP_PAGE_LOG2) + 1);
    if (ACRE__HEAP_KIND(info) != ACRE__HEAP_LARGE || bytes <= ACRE__HEAP_RUN_MOST ||
        bytes > (uint64_t)h.max_segments << ACRE__HEAP_SEGMENT_LOG2)
        return 0;
    return acre__heap_resize_segments(
        h, page >> 5, acre__heap_load32(&acre__heap_segment_of(h, page)->length, relaxed),
        (uint32_t)((bytes - 1) >> ACRE__HEAP_SEGMENT_LOG2) + 1);
}

/* ---- free ---- */

enum {
    ACRE__HEAP_IS_SLOT,
    ACRE__HEAP_IS_PAGES,
    ACRE__HEAP_IS_DOUBLE, /* already free */
    ACRE__HEAP_IS_FOREIGN,
    ACRE__HEAP_IS_INTERIOR
};

/* What is at an offset from the heap's base. It is found in the records, without reading the
 * memory. */
typedef struct acre__heap_found {
    uint32_t what, page, slot, info;
    uint64_t bump; /* of a slab */
} acre__heap_found;

ACRE__HEAP_FN acre__heap_found acre__heap_find(acre__heap h, uint64_t offset) {
    acre__heap_found found = {ACRE__HEAP_IS_FOREIGN, 0, 0, 0, 0};
    uint64_t segment = offset >> ACRE__HEAP_SEGMENT_LOG2;
    /* It only grows while kernels run, so an old value suffices if it is large enough. */
    if (segment >= acre__heap_hint64(&h.control->committed) &&
        segment >= acre__heap_load64(&h.control->committed, relaxed))
        return found;
    uint32_t page = (uint32_t)(offset >> ACRE__HEAP_PAGE_LOG2);
    /* Loads all words at once: most slabs have one page. For others it loads two words again. */
    acre__heap_page *record = acre__heap_page_of(h, page);
    found.info = acre__heap_load32(&record->info, relaxed);
    uint64_t bump = acre__heap_load64(&record->bump, relaxed);
    uint64_t freed = acre__heap_load64(&record->freed, relaxed);
    uint32_t back = ACRE__HEAP_BACK(found.info);
    found.page = page -= back;
    uint32_t inside = (uint32_t)(offset - ((uint64_t)page << ACRE__HEAP_PAGE_LOG2));
    uint32_t size_class = ACRE__HEAP_CLASS(found.info);
    switch (ACRE__HEAP_KIND(found.info)) {
    case ACRE__HEAP_SLAB: {
        if (back) {
            bump = acre__heap_load64(&acre__heap_page_of(h, page)->bump, relaxed);
            freed = acre__heap_load64(&acre__heap_page_of(h, page)->freed, relaxed);
        }
        found.bump = bump;
        found.slot = acre__heap_slot_of(size_class, inside);
        uint32_t used = ACRE__HEAP_CAP(bump);
        used = used < ACRE__HEAP_COUNT(bump) ? used : ACRE__HEAP_COUNT(bump);
        if (found.slot >= used || ACRE__HEAP_SORT(freed) != size_class + 1)
            found.what = ACRE__HEAP_IS_DOUBLE; /* never allocated, or no slab any more */
        else if (found.slot * acre__heap_class_bytes(size_class) != inside)
            found.what = ACRE__HEAP_IS_INTERIOR;
        else
            found.what = ACRE__HEAP_IS_SLOT;
        break;
    }
    case ACRE__HEAP_RUN:
    case ACRE__HEAP_LARGE:
        found.what = inside ? ACRE__HEAP_IS_INTERIOR : ACRE__HEAP_IS_PAGES;
        break;
    default:
        found.what = ACRE__HEAP_IS_DOUBLE;
    }
    return found;
}

ACRE__HEAP_FN void acre__heap_wrong(acre__heap h, uint32_t what, uint32_t count) {
    uint64_t *counter = what == ACRE__HEAP_IS_DOUBLE    ? &h.control->double_frees
                        : what == ACRE__HEAP_IS_FOREIGN ? &h.control->foreign_frees
                                                        : &h.control->interior_frees;
    acre__heap_add64(counter, (uint64_t)count, relaxed);
}

/* Frees the slots of lanes whose bits are in one word. This takes two atomics, or one if these are
 * all slots of a slab and none of them was free, as with slabs for one warp. A bit that was already
 * set was freed before, and two lanes with the same bit are a double free. */
ACRE__HEAP_FN void acre__heap_free_slots(acre__heap h, acre__heap_found found, uint32_t peers) {
    uint64_t bits = acre__heap_union(peers, (uint64_t)1 << (found.slot & 63));
    acre__heap_syncwarp(peers);
    if (acre__heap_lane() != acre__heap_ctz32(peers))
        return;
    uint32_t asked = acre__heap_popc32(peers), count = asked;
    uint64_t *freed = &acre__heap_page_of(h, found.page)->freed, old = ACRE__HEAP_ENDED;
    uint64_t none = acre__heap_word(ACRE__HEAP_CLASS(found.info), asked, 0), now = old;
    if (asked != ACRE__HEAP_CAP(found.bump) || acre__heap_popc64(bits) != asked ||
        !acre__heap_cas64(freed, &none, 0, chip_release)) {
        uint64_t *word = acre__heap_bits_of(h, found.page) + (found.slot >> 6);
        count = acre__heap_popc64(bits & ~acre__heap_or64(word, bits, chip_release));
        if (count) {
            old = acre__heap_add64(freed, (uint64_t)count, chip);
            now = old + count;
            count = ACRE__HEAP_SORT(old) ? count : 0; /* the slab was retired before */
        }
    }
    if (count != asked)
        acre__heap_wrong(h, ACRE__HEAP_IS_DOUBLE, asked - count);
    ACRE__HEAP_HERE(h.control);
    if (old == ACRE__HEAP_ENDED ? count != 0 : !acre__heap_is_settled(old, now, found.bump))
        ACRE__HEAP_DO(acre__heap_settle, h, found.page, old, now, found.bump);
}

#endif
