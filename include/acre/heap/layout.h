/* How a heap lies in memory: size classes, and the records that describe its pages. Part of
 * acre_heap.h, not to be included by itself.
 *
 * Blocks lie in a range of addresses cut into segments of 2 MiB, each of 32 pages of 64 KiB. What
 * is known about them lies apart from them: a control record with the arenas and the trees, and one
 * record for each segment. Zeroed records are valid: they say that nothing was ever handed out. */
#ifndef ACRE_HEAP_LAYOUT_H
#define ACRE_HEAP_LAYOUT_H

#include "base.h"

enum {
    ACRE_HEAP_CLASSES = 22,       /* 16, 32, 48, 64, 96, ... 24 KiB, 32 KiB */
    ACRE__HEAP_PAGE_LOG2 = 16,    /* 64 KiB */
    ACRE__HEAP_SEGMENT_LOG2 = 21, /* 2 MiB: the unit of memory that can be mapped */
    ACRE__HEAP_PAGES = 32,        /* of a segment */
    ACRE__HEAP_WORDS = 64,        /* of freed bits: 4096 slots of 16 bytes in a page */
    ACRE__HEAP_ARENAS_LOG2 = 10,  /* current slabs of a class at most: seven for each of 132 SMs */
    ACRE__HEAP_DESKS_LOG2 = 10,   /* segments whose pages are being given out, at most */
    ACRE__HEAP_RUNS = 6,          /* trees of free runs: 1, 2, 4, 8, 16 and 32 pages */
    ACRE__HEAP_TIERS = 2,         /* trees of slabs with free slots, for each class */
    ACRE__HEAP_TREES = ACRE__HEAP_RUNS + ACRE__HEAP_TIERS * ACRE_HEAP_CLASSES,
    ACRE__HEAP_SEGMENTS_MOST = 1 << 18 /* three levels of 64: 512 GiB */
};

#define ACRE__HEAP_PAGE_BYTES ((size_t)1 << ACRE__HEAP_PAGE_LOG2)
#define ACRE__HEAP_SEGMENT_BYTES ((size_t)1 << ACRE__HEAP_SEGMENT_LOG2)
#define ACRE__HEAP_CLASS_MOST ((size_t)32 << 10) /* larger blocks are pages */
#define ACRE__HEAP_RUN_MOST ((size_t)1 << 20)    /* larger blocks are segments */
#define ACRE__HEAP_ALIGN_MOST ((size_t)2 << 20)

/* ---- slabs ----
 *
 * A slab is a run of pages cut into slots of one class. Two words say what became of them, both
 * made as {class + 1, capacity, count}: `bump` counts the slots that were handed out from the
 * front, and may run past the capacity; `freed` those that came back and have their bit set. A slot
 * is live if it is below bump and its bit is not set. class + 1 = 0 in `freed`: no slab, whatever
 * the labels of its pages say. */
typedef struct acre__heap_page {
    uint64_t bump;
    uint64_t freed;
    uint32_t info; /* see acre__heap_info; 0: nothing yet. Those of slabs outlive them */
    uint32_t unused[11];
} acre__heap_page;

#define ACRE__HEAP_COUNT(word) ((uint32_t)(word))
#define ACRE__HEAP_CAP(word) ((uint32_t)((word) >> 32) & 0xffffu)
#define ACRE__HEAP_SORT(word) ((uint32_t)((word) >> 48)) /* class + 1 */

ACRE__HEAP_FN uint64_t acre__heap_word(uint32_t size_class, uint32_t cap, uint32_t count) {
    return (uint64_t)(size_class + 1) << 48 | (uint64_t)cap << 32 | count;
}

/* What a page belongs to: kind, how far behind the first page it is, class, and pages in all. */
enum {
    ACRE__HEAP_FREE = 0,
    ACRE__HEAP_SLAB = 1,
    ACRE__HEAP_RUN = 2,  /* a block of pages */
    ACRE__HEAP_LARGE = 3 /* a block of segments; only its very first page says so */
};
#define ACRE__HEAP_KIND(info) ((info)&7u)
#define ACRE__HEAP_BACK(info) ((info) >> 3 & 31u)
#define ACRE__HEAP_CLASS(info) ((info) >> 8 & 31u)
#define ACRE__HEAP_LENGTH(info) ((info) >> 13 & 63u)
#define ACRE__HEAP_OWN (1u << 19) /* a slab that was made for one warp, not for an arena */

ACRE__HEAP_FN uint32_t acre__heap_info(uint32_t kind, uint32_t size_class, uint32_t length) {
    return kind | size_class << 8 | length << 13;
}

typedef struct acre_heap_segment {
    uint32_t free_pages; /* one bit each, 1: free. The truth; the trees are hints to it. */
    uint32_t length;     /* of a block of segments that begins here */
    uint32_t tiers[ACRE__HEAP_TIERS][ACRE_HEAP_CLASSES]; /* slabs of a class with free slots */
    uint32_t unused[18];                                 /* up to 256 bytes */
    acre__heap_page pages[ACRE__HEAP_PAGES];
    uint64_t bits[ACRE__HEAP_PAGES][ACRE__HEAP_WORDS]; /* of slabs, at their first page: 1 freed */
} acre_heap_segment;

/* ---- the whole heap ----
 *
 * Lines of 128 bytes, so that what the host may write, by a copy, shares none with the rest.
 */
typedef struct acre_heap_control {
    /* What the host has said, as far as kernels have heard of it. Both only rise. */
    uint64_t committed; /* segments that have memory; those not opened yet have no record */
    uint64_t answers;   /* how often it said something, times 2; and 1: there will not be more */
    uint64_t host;      /* address of an acre__heap_wish in mapped host memory; 0: nobody listens */
    uint64_t wait_ns;   /* for an answer, at most */
    uint32_t unused_host[24];
    /* Written by kernels. */
    uint64_t opened;  /* segments that are in the trees: those behind are taken in order */
    uint64_t opening; /* how many are putting segments into the trees right now */
    uint32_t unused_opened[28];
    uint32_t lock;     /* for runs of segments, and nothing else */
    uint32_t flushing; /* how many are taking the slab of an arena away right now */
    uint64_t asked;    /* the answer that some kernel has asked for already */
    uint32_t flushes;  /* how often some were taken away */
    uint32_t unused_lock[27];
    /* Events that are rare, or whose cost does not matter. */
    uint64_t failed, failed_bytes, bad_alignment;
    uint64_t double_frees, foreign_frees, interior_frees;
    uint64_t waits;
    /* Of debug builds, see acre/heap/debug.h. */
    uint64_t marked, overruns, overrun_at, unmarked;
    uint64_t unused_counts[5];
    /* How widely a class is spread, see acre__heap_slab_log2: read often, written seldom. */
    uint32_t spread[ACRE_HEAP_CLASSES];
    uint32_t unused_spread[10];
    uint32_t slab_pages[ACRE_HEAP_CLASSES]; /* in slabs that were made for arenas */
    uint32_t unused_pages[10];
    uint64_t attached[ACRE_HEAP_CLASSES]
                     [1 << (ACRE__HEAP_ARENAS_LOG2 - 6)]; /* arenas that may have one */
    /* {segment + 1, end, next}: a run of free pages that is for some SMs. */
    uint64_t desked[1 << (ACRE__HEAP_DESKS_LOG2 - 6)]; /* desks that may have some */
    uint64_t desks[1 << ACRE__HEAP_DESKS_LOG2];
    /* {sequence, page, state}: the current slab of a class for some SMs. */
    uint64_t arenas[ACRE_HEAP_CLASSES][1 << ACRE__HEAP_ARENAS_LOG2];
} acre_heap_control;

/* In host memory that the device sees: a line for what kernels write and one for what the host
 * does. `answers` is written last, as the control has it. */
typedef struct acre__heap_wish {
    uint64_t number; /* the answer that is waited for: larger than what there is while one waits */
    uint64_t bytes;
    uint64_t unused_wish[14];
    uint64_t committed;
    uint64_t answers;
    uint64_t unused_answer[14];
} acre__heap_wish;

enum {
    ACRE__HEAP_EMPTY = 0,
    ACRE__HEAP_BUSY = 1,  /* somebody is finding a slab */
    ACRE__HEAP_FRONT = 2, /* slots never used, from the front */
    ACRE__HEAP_HOLES = 3  /* slots that were freed */
};

/* A heap, as kernels see it: passed by value. */
typedef struct acre_heap_handle {
    char *base;                  /* of the blocks, aligned to a segment */
    acre_heap_control *control;  /* with the trees behind it */
    acre_heap_segment *segments; /* one record each */
    uint32_t max_segments;       /* that there are addresses for */
    uint32_t reserved;
} acre_heap_handle;

/* A tree: bits over segments in three levels; a bit of a level says that the word below is not 0.
 */
ACRE__HEAP_FN uint32_t acre__heap_leaves(uint32_t max_segments) {
    return (max_segments + 63) >> 6;
}
ACRE__HEAP_FN uint32_t acre__heap_tree_words(uint32_t max_segments) {
    return 1 + 64 + acre__heap_leaves(max_segments);
}
ACRE__HEAP_FN size_t acre__heap_control_bytes(uint32_t max_segments) {
    return sizeof(acre_heap_control) +
           sizeof(uint64_t) * ACRE__HEAP_TREES * acre__heap_tree_words(max_segments);
}
ACRE__HEAP_FN uint64_t *acre__heap_tree(acre_heap_handle h, uint32_t tree) {
    return (uint64_t *)(h.control + 1) + (size_t)tree * acre__heap_tree_words(h.max_segments);
}
/* Where the level begins: 2 is one word, 1 has 64, 0 the bits of the segments. */
ACRE__HEAP_FN uint32_t acre__heap_level(uint32_t level) {
    return level == 2 ? 0 : level == 1 ? 1 : 65;
}

/* ---- size classes ---- */

ACRE__HEAP_FN uint32_t acre__heap_class_of(size_t bytes) {
    if (bytes <= 32)
        return bytes > 16;
    uint32_t top = acre__heap_log2((uint32_t)bytes - 1);
    return 2 * (top - 4) + (bytes > (size_t)3 << (top - 1));
}

ACRE__HEAP_FN uint32_t acre__heap_class_bytes(uint32_t size_class) {
    if (size_class == 0)
        return 16;
    return (size_class & 1 ? 32u : 24u) << (size_class >> 1);
}

/* ---- how widely a class is spread ----
 *
 * What lies in current slabs is for some warps alone, so there should be little of it; and yet as
 * many warps as run at once should not wait for each other, nor for new slabs. So the pages in
 * current slabs follow those in all slabs of the class: 2^spread of them, half of what is used, or
 * all of it where blocks are small. It rises with use and does not fall, so that what comes back
 * finds its arenas. */
enum {
    ACRE__HEAP_SMALL = 8,      /* classes of up to 256 bytes */
    ACRE__HEAP_LEAST_LOG2 = 8, /* at first, this part of the heap for each class */
    ACRE__HEAP_MOST_LOG2 = 3,  /* and never more than this */
    ACRE__HEAP_DESKED_LOG2 = 3 /* segments for each that has its pages on a desk */
};

/* Pages of a slab: few at first, but enough for eight slots, and for as many that little is left
 * over. */
ACRE__HEAP_FN uint32_t acre__heap_slab_log2(uint32_t size_class, uint32_t spread) {
    uint32_t least = size_class < 16 ? 0 : (size_class - (size_class & 1 ? 17 : 14)) / 2;
    uint32_t most = size_class < 5 ? 0 : size_class < 11 ? (size_class - 3) / 2 : 4;
    uint32_t log2 = spread / 3;
    log2 = log2 < most ? log2 : most;
    return log2 > least ? log2 : least;
}

/* Arenas of a class. */
ACRE__HEAP_FN uint32_t acre__heap_arenas_log2(uint32_t size_class, uint32_t spread) {
    uint32_t pages = acre__heap_slab_log2(size_class, spread);
    uint32_t log2 = spread > pages ? spread - pages : 0;
    return log2 < ACRE__HEAP_ARENAS_LOG2 ? log2 : (uint32_t)ACRE__HEAP_ARENAS_LOG2;
}

/* The spread of a class with so many pages in slabs. */
ACRE__HEAP_FN uint32_t acre__heap_spread_for(uint32_t size_class, uint32_t pages) {
    uint32_t log2 = pages ? acre__heap_log2(pages) : 0;
    return size_class < ACRE__HEAP_SMALL || log2 == 0 ? log2 : log2 - 1;
}

/* The spread that is a 2^part_log2-th of the heap. */
ACRE__HEAP_FN uint32_t acre__heap_spread_of(uint64_t segments, uint32_t part_log2) {
    uint32_t log2 = (segments ? acre__heap_log2((uint32_t)segments) : 0) + 5;
    return log2 > part_log2 ? log2 - part_log2 : 0;
}

/* How many segments have their pages on desks. */
ACRE__HEAP_FN uint32_t acre__heap_desks_log2(uint64_t segments) {
    uint32_t log2 = segments ? acre__heap_log2((uint32_t)segments) : 0;
    log2 = log2 > ACRE__HEAP_DESKED_LOG2 ? log2 - ACRE__HEAP_DESKED_LOG2 : 0;
    return log2 < ACRE__HEAP_DESKS_LOG2 ? log2 : (uint32_t)ACRE__HEAP_DESKS_LOG2;
}

/* Offset in a slab to slot. */
ACRE__HEAP_FN uint32_t acre__heap_slot_of(uint32_t size_class, uint32_t offset) {
    if (size_class == 0)
        return offset >> 4;
    if (size_class & 1)
        return offset >> (5 + (size_class >> 1));
    return (uint32_t)((uint64_t)(offset >> (3 + (size_class >> 1))) * 0xaaaaaaabu >> 33);
}

ACRE__HEAP_FN uint32_t acre__heap_slots(uint32_t size_class, uint32_t pages) {
    return acre__heap_slot_of(size_class, pages << ACRE__HEAP_PAGE_LOG2);
}

/* ---- addresses ---- */

ACRE__HEAP_FN acre_heap_segment *acre__heap_segment_of(acre_heap_handle h, uint32_t page) {
    return h.segments + (page >> 5);
}
ACRE__HEAP_FN acre__heap_page *acre__heap_page_of(acre_heap_handle h, uint32_t page) {
    return &acre__heap_segment_of(h, page)->pages[page & 31];
}
ACRE__HEAP_FN uint64_t *acre__heap_bits_of(acre_heap_handle h, uint32_t page) {
    return acre__heap_segment_of(h, page)->bits[page & 31];
}
ACRE__HEAP_FN char *acre__heap_address(acre_heap_handle h, uint32_t page) {
    return h.base + ((size_t)page << ACRE__HEAP_PAGE_LOG2);
}

#endif
