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
ACRE__HEAP_FN int acre__heap_ask(acre_heap_handle h, acre__heap_wish *wish, size_t bytes) {
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
    for (uint32_t tries = 1; acre__heap_load64(&control->answers, acquire) >> 1 < number; tries++) {
        if (tries % every == 0)
            acre__heap_hear(h);
        acre__heap_pause(tries);
        if (acre__heap_time_ns() - begin > most)
            return 0;
    }
    return 1;
}

/* Returns 1 if there is more memory than the `seen` segments, and requests it if needed. It tries
 * twice, since the first answer may belong to a request from before these segments were there. */
ACRE__HEAP_SLOW int acre__heap_more(acre_heap_handle h, size_t bytes, uint64_t seen) {
    acre_heap_control *control = h.control;
    for (int i = 0; i < 2; i++) {
        acre__heap_hear(h);
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

ACRE__HEAP_FN void *acre__heap_fail(acre_heap_handle h, uint32_t count, size_t bytes) {
    acre__heap_add64(&h.control->failed, (uint64_t)count, relaxed);
    acre__heap_add64(&h.control->failed_bytes, (uint64_t)bytes * count, relaxed);
    return NULL;
}

/* ---- blocks by class ---- */

/* Packs a grant into one word, which the leader sends to the other lanes. Bits need a second
 * word. */
ACRE__HEAP_FN uint64_t acre__heap_pack(acre__heap_grant grant) {
    return (uint64_t)grant.is_bits << 56 | (uint64_t)grant.count << 48 |
           (uint64_t)grant.slot << 32 | grant.page;
}
#define ACRE__HEAP_GRANTED(where) ((uint32_t)((where) >> 48) & 0xffu)

ACRE__HEAP_FN void *acre__heap_granted(acre_heap_handle h, uint32_t size_class, uint64_t where,
                                       uint64_t bits, uint32_t n) {
    uint32_t slot = (uint32_t)(where >> 32) & 0xffffu;
    slot = where >> 56 ? slot * 64 + acre__heap_nth_bit(bits, n) : slot + n;
    return acre__heap_address(h, (uint32_t)where) +
           (size_t)slot * acre__heap_class_bytes(size_class);
}

ACRE__HEAP_FN int acre__heap_is_own(uint32_t size_class, uint32_t count) {
    uint32_t bytes = count * acre__heap_class_bytes(size_class);
    uint32_t over = (0u - bytes) & (uint32_t)(ACRE__HEAP_PAGE_BYTES - 1);
    return bytes >= ACRE__HEAP_OWN_BYTES && over <= bytes / 16;
}

/* Pages for one warp only: how many, and the slab made of them; `page` is the first. */
ACRE__HEAP_FN uint32_t acre__heap_own_pages(uint32_t size_class, uint32_t wanted) {
    uint32_t bytes = wanted * acre__heap_class_bytes(size_class);
    return (bytes + (1u << ACRE__HEAP_PAGE_LOG2) - 1) >> ACRE__HEAP_PAGE_LOG2;
}
ACRE__HEAP_FN acre__heap_grant acre__heap_own(acre_heap_handle h, uint32_t size_class,
                                              uint32_t wanted, uint32_t page) {
    acre__heap_grant grant = {0, 0, 0, 0, 0};
    if (page == ACRE__HEAP_NONE)
        return grant;
    acre__heap_make_slab(h, page, acre__heap_own_pages(size_class, wanted), size_class, wanted,
                         ACRE__HEAP_OWN);
    grant.page = page;
    grant.count = wanted;
    return grant;
}

/* Finds slots when the arenas have none: in new pages, in slabs of other arenas, in more memory.
 * The slab does not go to an arena: while memory is short, other warps must be able to use the rest
 * of it. */
ACRE__HEAP_SLOW acre__heap_grant acre__heap_scrape(acre_heap_handle h, uint32_t size_class,
                                                   uint32_t wanted, acre__heap_reserved *reserved) {
    acre__heap_grant grant;
    uint64_t seen;
    do {
        seen = acre__heap_load64(&h.control->committed, relaxed);
        grant = acre__heap_take_apart(h, size_class, wanted, reserved);
        for (uint32_t i = 0; !grant.count && i < ACRE__HEAP_FLUSHES && acre__heap_flush(h); i++)
            grant = acre__heap_take_apart(h, size_class, wanted, reserved);
    } while (!grant.count && acre__heap_more(h, wanted * acre__heap_class_bytes(size_class), seen));
    if (!grant.count)
        (void)acre__heap_fail(h, wanted, acre__heap_class_bytes(size_class));
    return grant;
}

typedef acre__heap_grant (*acre__heap_scrape_fn)(acre_heap_handle h, uint32_t size_class,
                                                 uint32_t wanted, acre__heap_reserved *reserved);

/* The leader's next attempt to get `wanted` slots. Returns a packed grant and its bits; 0 if there
 * is no memory. */
ACRE__HEAP_FN uint64_t acre__heap_next(acre_heap_handle h, uint32_t size_class, uint32_t wanted,
                                       acre__heap_reserved *reserved, uint64_t *bits) {
    ACRE__HEAP_APART(acre__heap_scrape_fn, scrape, acre__heap_scrape);
    ACRE__HEAP_APART(acre__heap_desk_fn, desk_claim, acre__heap_desk_claim);
    acre__heap_grant grant = {0, 0, 0, 0, 0};
    ACRE__HEAP_APART(acre__heap_find_fn, find, acre__heap_find_reserved);
    if (reserved->count)
        grant = find(h, reserved);
    else if (acre__heap_is_own(size_class, wanted))
        grant = acre__heap_own(h, size_class, wanted,
                               desk_claim(h, acre__heap_own_pages(size_class, wanted)));
    else
        grant = acre__heap_take_slots(h, size_class, wanted, reserved);
    if (!grant.count)
        grant = scrape(h, size_class, wanted, reserved);
    *bits = grant.bits;
    return acre__heap_pack(grant);
}

/* One load and one atomic: works if the arena has unused slots, or the desk has pages. */
ACRE__HEAP_FN uint64_t acre__heap_first(acre_heap_handle h, uint32_t size_class, uint32_t wanted) {
    if (acre__heap_is_own(size_class, wanted)) {
        uint64_t desk;
        uint32_t page = acre__heap_desk_take(h, acre__heap_place() & acre__heap_desks_last(h),
                                             acre__heap_own_pages(size_class, wanted), &desk);
        return acre__heap_pack(acre__heap_own(h, size_class, wanted, page));
    }
    uint32_t at = acre__heap_arena_of(h, size_class);
    uint64_t arena = acre__heap_load64(&h.control->arenas[size_class][at], relaxed);
    if (ACRE__HEAP_STATE(arena) != ACRE__HEAP_FRONT)
        return 0;
    return acre__heap_pack(
        acre__heap_take_front(h, ACRE__HEAP_ARENA_PAGE(arena), size_class, wanted));
}

/* Allocates one block for each lane of `mask` that wants one of a class; NULL if there is no
 * memory. The other lanes have no class, and `peers` of their own. The leaders of all groups act at
 * the same time, each for its group. All lanes of the mask loop together until none waits for
 * anything, so that every lane takes part in every collective, with the same mask. Functions that
 * leaders call have no collectives. */
ACRE__HEAP_FN void *acre__heap_malloc_class(acre_heap_handle h, uint32_t size_class, uint32_t mask,
                                            uint32_t peers) {
    uint32_t lane = acre__heap_lane(), leader = acre__heap_ctz32(peers), done = 0;
    uint32_t rank = acre__heap_popc32(peers & ((1u << lane) - 1));
    uint32_t count = size_class < ACRE_HEAP_CLASSES ? acre__heap_popc32(peers) : 0;
    uint64_t where = count && lane == leader ? acre__heap_first(h, size_class, count) : 0;
    where = acre__heap_shfl(mask, where, leader);
    done = ACRE__HEAP_GRANTED(where);
    void *p = rank < done ? acre__heap_granted(h, size_class, where, 0, rank) : NULL;
    acre__heap_reserved reserved = {0, 0, 0, 0};
    while (acre__heap_ballot(mask, done != count)) {
        uint64_t bits = 0;
        where = 0;
        if (lane == leader && done != count && size_class < ACRE_HEAP_CLASSES)
            where = acre__heap_next(h, size_class, count - done, &reserved, &bits);
        where = acre__heap_shfl(mask, where, leader);
        bits = acre__heap_shfl(mask, bits, leader);
        uint32_t got = ACRE__HEAP_GRANTED(where);
        if (rank - done < got)
            p = acre__heap_granted(h, size_class, where, bits, rank - done);
        done += got;
        if (!got) /* for lanes that still want a block there is no more memory */
            count = done;
    }
    acre__heap_syncwarp(mask);
    return p;
}

/* ---- blocks of pages and segments ---- */

ACRE__HEAP_FN uint32_t acre__heap_take_pages(acre_heap_handle h, size_t bytes, size_t align) {
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
        page = acre__heap_claim_segments(h, (uint32_t)count);
        page = page == ACRE__HEAP_NONE ? page : page * 32;
    }
    if (page == ACRE__HEAP_NONE)
        return page;
    acre__heap_store32(&acre__heap_segment_of(h, page)->length, (uint32_t)count, relaxed);
    acre__heap_store32(&acre__heap_page_of(h, page)->info, acre__heap_info(ACRE__HEAP_LARGE, 0, 0),
                       relaxed);
    return page;
}

/* For a single lane. */
ACRE__HEAP_SLOW void *acre__heap_pages_slow(acre_heap_handle h, size_t bytes, size_t align) {
    uint64_t seen;
    if (bytes > (uint64_t)h.max_segments << ACRE__HEAP_SEGMENT_LOG2)
        return acre__heap_fail(h, 1, 0);
    do {
        seen = acre__heap_load64(&h.control->committed, relaxed);
        uint32_t page = acre__heap_take_pages(h, bytes, align);
        for (uint32_t i = 0;
             page == ACRE__HEAP_NONE && i < ACRE__HEAP_FLUSHES && acre__heap_flush(h); i++)
            page = acre__heap_take_pages(h, bytes, align);
        if (page != ACRE__HEAP_NONE)
            return acre__heap_address(h, page);
    } while (acre__heap_more(h, bytes, seen));
    return acre__heap_fail(h, 1, bytes);
}

typedef void *(*acre__heap_pages_fn)(acre_heap_handle h, size_t bytes, size_t align);

ACRE__HEAP_FN void *acre__heap_malloc_pages(acre_heap_handle h, size_t bytes, size_t align) {
    ACRE__HEAP_APART(acre__heap_pages_fn, slow, acre__heap_pages_slow);
    return slow(h, bytes, align);
}

ACRE__HEAP_FN void acre__heap_free_pages(acre_heap_handle h, uint32_t page, uint32_t info) {
    acre_heap_segment *segment = acre__heap_segment_of(h, page);
    uint32_t large = acre__heap_load32(&segment->length, relaxed);
    uint32_t *label = &acre__heap_page_of(h, page)->info;
    /* If two lanes free the block at the same time, one succeeds. */
    if (!acre__heap_cas32(label, &info, 0, relaxed)) {
        acre__heap_add64(&h.control->double_frees, 1, relaxed);
        return;
    }
    if (ACRE__HEAP_KIND(info) == ACRE__HEAP_RUN) {
        acre__heap_label(h, page, ACRE__HEAP_LENGTH(info), 0);
        acre__heap_fence();
        acre__heap_release(h, page, ACRE__HEAP_LENGTH(info));
    } else {
        acre__heap_give_segments(h, page >> 5, large);
    }
}

/* ---- resizing in place ---- */

/* Changes the length of a block of pages. Returns 0 if the pages behind it are not free. */
ACRE__HEAP_FN int acre__heap_resize_run(acre_heap_handle h, uint32_t page, uint32_t had,
                                        uint32_t count) {
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
                acre__heap_give(h, segment, before & more);
            return 0;
        }
        acre__heap_note_taken(h, segment, before, before & ~more);
    } else {
        acre__heap_label(h, page + count, had - count, 0);
    }
    acre__heap_label(h, page, count, acre__heap_info(ACRE__HEAP_RUN, 0, count));
    if (count < had) {
        acre__heap_fence();
        acre__heap_release(h, page + count, had - count);
    }
    return 1;
}

/* Returns 1 if segments are in the tree of whole ones. Their records are initialised then, which
 * `opened` alone does not say: it is raised before. */
ACRE__HEAP_FN int acre__heap_are_whole(acre_heap_handle h, uint32_t first, uint32_t count) {
    const uint64_t *words = acre__heap_tree(h, ACRE__HEAP_RUNS - 1) + acre__heap_level(0);
    for (uint32_t i = first; i < first + count; i++)
        if (!(acre__heap_load64(words + (i >> 6), acquire) >> (i & 63) & 1))
            return 0;
    return 1;
}

/* Changes the length of a block of segments. Returns 0 if those behind it are not free, or if
 * another warp holds the lock (acre__heap_claim_segments). */
ACRE__HEAP_FN int acre__heap_resize_segments(acre_heap_handle h, uint32_t first, uint32_t had,
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
        acre__heap_give_segments(h, first + count, had - count);
    }
    return 1;
}

/* Resizes a block of pages or segments that belongs to the caller, if it stays one of its kind.
 * Returns 0 if it must move. */
ACRE__HEAP_SLOW int acre__heap_resize(acre_heap_handle h, const void *p, size_t bytes) {
    uint32_t page = (uint32_t)(((uintptr_t)p - (uintptr_t)h.base) >> ACRE__HEAP_PAGE_LOG2);
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
typedef int (*acre__heap_resize_fn)(acre_heap_handle h, const void *p, size_t bytes);

/* ---- free ---- */

enum {
    ACRE__HEAP_IS_SLOT,
    ACRE__HEAP_IS_PAGES,
    ACRE__HEAP_IS_DOUBLE, /* already free */
    ACRE__HEAP_IS_FOREIGN,
    ACRE__HEAP_IS_INTERIOR
};

/* What is at an address. It is found in the records, without reading the memory. */
typedef struct acre__heap_found {
    uint32_t what, page, slot, info;
    uint64_t bump; /* of a slab */
} acre__heap_found;

ACRE__HEAP_FN acre__heap_found acre__heap_find(acre_heap_handle h, const void *p) {
    acre__heap_found found = {ACRE__HEAP_IS_FOREIGN, 0, 0, 0, 0};
    uint64_t offset = (uint64_t)((uintptr_t)p - (uintptr_t)h.base);
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

ACRE__HEAP_SLOW void acre__heap_wrong(acre_heap_handle h, uint32_t what, uint32_t count) {
    uint64_t *counter = what == ACRE__HEAP_IS_DOUBLE    ? &h.control->double_frees
                        : what == ACRE__HEAP_IS_FOREIGN ? &h.control->foreign_frees
                                                        : &h.control->interior_frees;
    acre__heap_add64(counter, (uint64_t)count, relaxed);
}

/* Frees the slots of lanes whose bits are in one word. This takes two atomics, or one if these are
 * all slots of a slab and none of them was free, as with slabs for one warp. A bit that was already
 * set was freed before, and two lanes with the same bit are a double free. */
ACRE__HEAP_FN void acre__heap_free_slots(acre_heap_handle h, acre__heap_found found,
                                         uint32_t peers) {
    uint64_t bits = acre__heap_union(peers, (uint64_t)1 << (found.slot & 63));
    acre__heap_syncwarp(peers);
    if (acre__heap_lane() != acre__heap_ctz32(peers))
        return;
    uint32_t asked = acre__heap_popc32(peers);
    acre__heap_fence();
    if (asked == ACRE__HEAP_CAP(found.bump) && acre__heap_popc64(bits) == asked) {
        uint64_t none = acre__heap_word(ACRE__HEAP_CLASS(found.info), asked, 0);
        uint64_t *freed = &acre__heap_page_of(h, found.page)->freed;
        if (acre__heap_cas64(freed, &none, 0, chip)) {
            acre__heap_retire(h, found.page, found.info);
            return;
        }
    }
    uint64_t *word = acre__heap_bits_of(h, found.page) + (found.slot >> 6);
    uint64_t old = acre__heap_or64(word, bits, chip);
    uint32_t count = acre__heap_popc64(bits & ~old);
    uint64_t freed = count ? acre__heap_count_freed(h, found.page, count) : 0;
    if (freed == ACRE__HEAP_NO_SLAB)
        count = 0;
    if (acre__heap_is_idle(freed, found.bump))
        acre__heap_close(h, found.page, found.bump);
    if (count != asked)
        acre__heap_wrong(h, ACRE__HEAP_IS_DOUBLE, asked - count);
}

#endif
