/* The memory layout of a heap: size classes, and the records that describe its pages. Part of
 * acre_heap.h, not to be included by itself.
 *
 * Blocks are in a range of addresses that is divided into segments of 2 MiB, each of 32 pages of 64
 * KiB. The records are in separate memory: a control record with the arenas and the trees, and one
 * record for each segment. Records that are all zero describe an empty heap. */
#ifndef ACRE_HEAP_LAYOUT_H
#define ACRE_HEAP_LAYOUT_H

#include "base.h"

enum {
    ACRE_HEAP_CLASSES = 22,      /* 16, 32, 48, 64, 96, ... 24 KiB, 32 KiB */
    ACRE_HEAP_LARGE_CLASSES = 9, /* 28, 23, 19, 13, 11, 9, 7, 6 and 5 slots in 1 MiB */
    ACRE__HEAP_SORTS = ACRE_HEAP_CLASSES + ACRE_HEAP_LARGE_CLASSES,
    ACRE__HEAP_PAGE_LOG2 = 16,    /* 64 KiB */
    ACRE__HEAP_SEGMENT_LOG2 = 21, /* 2 MiB: the unit of memory that can be mapped */
    ACRE__HEAP_PAGES = 32,        /* in a segment */
    ACRE__HEAP_WORDS = 64,        /* of freed bits of a page: 4096 slots of 16 bytes */
    ACRE__HEAP_ARENAS_LOG2 = 10,  /* most current slabs of a class: seven for each of 132 SMs */
    ACRE__HEAP_DESKS_LOG2 = 10,   /* most segments whose pages are on desks (pages.h) */
    ACRE__HEAP_RUNS = 6,          /* trees of free runs: 1, 2, 4, 8, 16 and 32 pages */
    ACRE__HEAP_TIERS = 2,         /* trees of slabs with free slots, for each class */
    ACRE__HEAP_TREES = ACRE__HEAP_RUNS + ACRE__HEAP_TIERS * ACRE__HEAP_SORTS,
    ACRE__HEAP_SEGMENTS_MOST = 1 << 18 /* three levels of 64: 512 GiB */
};

#define ACRE__HEAP_PAGE_BYTES ((size_t)1 << ACRE__HEAP_PAGE_LOG2)
#define ACRE__HEAP_SEGMENT_BYTES ((size_t)1 << ACRE__HEAP_SEGMENT_LOG2)
#define ACRE__HEAP_CLASS_MOST ((size_t)32 << 10) /* larger blocks: see acre__heap_large_class */
#define ACRE__HEAP_LARGE_MOST ((size_t)819 << 8) /* larger blocks are runs of pages */
#define ACRE__HEAP_RUN_MOST ((size_t)1 << 20)    /* larger blocks are runs of segments */
#define ACRE__HEAP_ALIGN_MOST ((size_t)2 << 20)

/* ---- slabs ----
 *
 * A slab is a run of pages, divided into slots of one size class. Two words hold its state, both
 * with the layout {class + 1, capacity, count}. `bump` counts the slots that were allocated from
 * the front; it may exceed the capacity. `freed` counts the slots that were freed and have their
 * bit set. A slot is live if it is below bump and its bit is not set. If class + 1 in `freed` is 0,
 * there is no slab, whatever the labels of the pages say. */
typedef struct acre__heap_page {
    uint64_t bump;
    uint64_t freed;
    uint32_t info; /* see acre__heap_info; 0: unused. Labels of slabs outlive the slab */
    uint32_t unused[11];
} acre__heap_page;

#define ACRE__HEAP_COUNT(word) ((uint32_t)(word))
#define ACRE__HEAP_CAP(word) ((uint32_t)((word) >> 32) & 0xffffu)
#define ACRE__HEAP_SORT(word) ((uint32_t)((word) >> 48)) /* class + 1 */

ACRE__HEAP_FN uint64_t acre__heap_word(uint32_t size_class, uint32_t cap, uint32_t count) {
    return (uint64_t)(size_class + 1) << 48 | (uint64_t)cap << 32 | count;
}

/* The label of a page: kind, distance from the first page, class, and number of pages. */
enum {
    ACRE__HEAP_FREE = 0,
    ACRE__HEAP_SLAB = 1,
    ACRE__HEAP_RUN = 2,  /* a block of pages */
    ACRE__HEAP_LARGE = 3 /* a block of segments; only its first page has this label */
};
#define ACRE__HEAP_KIND(info) ((info)&7u)
#define ACRE__HEAP_BACK(info) ((info) >> 3 & 31u)
#define ACRE__HEAP_CLASS(info) ((info) >> 8 & 31u)
#define ACRE__HEAP_LENGTH(info) ((info) >> 13 & 63u)
#define ACRE__HEAP_OWN (1u << 19) /* a slab for one warp, not for an arena */

ACRE__HEAP_FN uint32_t acre__heap_info(uint32_t kind, uint32_t size_class, uint32_t length) {
    return kind | size_class << 8 | length << 13;
}

typedef struct acre_heap_segment {
    uint32_t free_pages; /* one bit each, 1: free. Authoritative; the trees are hints. */
    uint32_t length;     /* of the block of segments that begins here */
    uint32_t tiers[ACRE__HEAP_TIERS][ACRE__HEAP_SORTS]; /* slabs with free slots, by class */
    acre__heap_page pages[ACRE__HEAP_PAGES];
    uint64_t bits[ACRE__HEAP_PAGES][ACRE__HEAP_WORDS]; /* of a slab, at its first page; 1: freed */
} acre_heap_segment;

/* ---- the whole heap ----
 *
 * The groups of fields are lines of 128 bytes: the host writes the first line by a copy, which must
 * not touch other fields. */
typedef struct acre_heap_control {
    /* The last answer of the host that kernels have seen. While they run, the first two only rise.
     */
    uint64_t committed; /* mapped segments; those that are not opened yet have no record */
    uint64_t answers;   /* 2 * the number of answers; +1: there will be no more memory */
    uint64_t host;      /* address of the acre__heap_wish in mapped host memory; 0: no service */
    uint64_t wait_ns;   /* longest wait for an answer */
    uint32_t unused_host[24];
    /* Written by kernels. */
    uint64_t opened;  /* segments that are in the trees; later ones are opened in order */
    uint64_t opening; /* warps that are putting segments into the trees now */
    uint32_t unused_opened[28];
    uint32_t lock;             /* for runs of segments only */
    uint32_t flushing;         /* warps that are detaching slabs from arenas now */
    uint64_t asked;            /* number of the last answer that a kernel has requested */
    uint32_t flushes;          /* times that slabs were detached from arenas */
    uint32_t attached_classes; /* classes whose words in `attached` may not all be 0 */
    uint32_t hearing;          /* beginnings and ends of reads of the host's answer */
    uint32_t unused_lock[25];
    /* Counters of events that are rare, or whose cost does not matter. */
    uint64_t failed, failed_bytes, bad_alignment;
    uint64_t double_frees, foreign_frees, interior_frees;
    uint64_t waits;
    /* For debug builds, see acre/heap/debug.h. */
    uint64_t marked, overruns, overrun_at, unmarked;
    uint64_t lost_slots; /* counted as free, but not found: their records were damaged */
    uint64_t unused_counts[4];
    /* How widely a class is spread, see below: read often, written rarely. */
    uint32_t spread[ACRE__HEAP_SORTS];
    uint32_t unused_spread;
    uint32_t slab_pages[ACRE__HEAP_SORTS]; /* in slabs of arenas */
    uint32_t unused_pages;
    uint64_t attached[ACRE__HEAP_SORTS]
                     [1 << (ACRE__HEAP_ARENAS_LOG2 - 6)]; /* arenas that may have a slab */
    /* A desk, {segment + 1, end, next}: a run of free pages for some SMs, see pages.h. */
    uint64_t desked[1 << (ACRE__HEAP_DESKS_LOG2 - 6)]; /* desks that may have pages */
    uint64_t desks[1 << ACRE__HEAP_DESKS_LOG2];
    /* An arena, {sequence, page, state}: the current slab of a class for some SMs. */
    uint64_t arenas[ACRE__HEAP_SORTS][1 << ACRE__HEAP_ARENAS_LOG2];
} acre_heap_control;

/* Requests of kernels and answers of the host, in host memory that is mapped for the device.
 * Kernels write the first line, the host the second. The host writes `answers` last; it has the
 * format of the control's field. */
typedef struct acre__heap_wish {
    uint64_t number; /* of the answer that kernels wait for; above `answers` while they do */
    uint64_t bytes;
    uint64_t unused_wish[14];
    uint64_t committed;
    uint64_t answers;
    uint64_t unused_answer[14];
} acre__heap_wish;

enum {
    ACRE__HEAP_EMPTY = 0,
    ACRE__HEAP_BUSY = 1,  /* a warp is looking for a slab */
    ACRE__HEAP_FRONT = 2, /* has slots that were never used, at the front */
    ACRE__HEAP_HOLES = 3  /* has freed slots */
};

/* The handle of a heap for kernels, passed by value. */
typedef struct acre_heap_handle {
    char *base;                  /* first address of the blocks, aligned to a segment */
    acre_heap_control *control;  /* followed by the trees */
    acre_heap_segment *segments; /* records of the segments */
    uint32_t max_segments;       /* segments with reserved addresses */
    uint32_t reserved;
} acre_heap_handle;

/* What the functions that do the work need of the handle: fewer registers to pass and to keep. */
typedef struct acre__heap {
    acre_heap_control *control;
    acre_heap_segment *segments;
    uint32_t max_segments;
} acre__heap;

ACRE__HEAP_FN acre__heap acre__heap_of(acre_heap_handle h) {
    acre__heap heap = {h.control, h.segments, h.max_segments};
    return heap;
}

/* A tree has bits for all segments, in three levels. A bit of an upper level says that the word
 * below it is not 0. */
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
ACRE__HEAP_FN uint64_t *acre__heap_tree(acre__heap h, uint32_t tree) {
    return (uint64_t *)(h.control + 1) + (size_t)tree * acre__heap_tree_words(h.max_segments);
}
/* The first word of a level: level 2 has one word, level 1 has 64, level 0 has the segments. */
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

/* Blocks above 32 KiB share slabs of 16 pages, where runs of whole pages would lose more than a
 * fifth. The class of such a block: one of the large classes, or ACRE__HEAP_SORTS if a run of pages
 * is as good, since just under 64, 128, 192 or 256 KiB are requested. */
ACRE__HEAP_SLOW uint32_t acre__heap_large_class(size_t bytes) {
    const uint32_t counts = 1u << 28 | 1u << 23 | 1u << 19 | 1u << 13 | 1u << 11 | 1u << 9 |
                            1u << 7 | 1u << 6 | 1u << 5;
    const uint32_t runs = 7u << 16 | 1u << 8;
    if (bytes > ACRE__HEAP_LARGE_MOST)
        return ACRE__HEAP_SORTS;
    uint32_t fit = 4096 / ((uint32_t)(bytes + 255) >> 8); /* so many fit into 1 MiB: 5 to 31 */
    if (runs >> fit & 1 || (fit == 5 && bytes <= 3 * ACRE__HEAP_PAGE_BYTES))
        return ACRE__HEAP_SORTS;
    return ACRE_HEAP_CLASSES + acre__heap_popc32(counts >> fit >> 1);
}

/* Bytes and slots of the large classes in 16 pages. */
#ifdef __CUDACC__
#define ACRE__HEAP_CONSTANT static __device__ __constant__ const
#else
#define ACRE__HEAP_CONSTANT __attribute__((unused)) static const
#endif
ACRE__HEAP_CONSTANT uint32_t acre__heap_large_bytes[ACRE_HEAP_LARGE_CLASSES] = {
    146 << 8, 178 << 8, 215 << 8, 315 << 8, 372 << 8, 455 << 8, 585 << 8, 682 << 8, 819 << 8};
ACRE__HEAP_CONSTANT uint32_t acre__heap_large_slots[ACRE_HEAP_LARGE_CLASSES] = {28, 23, 19, 13, 11,
                                                                                9,  7,  6,  5};

/* The bytes of a block, by class. For small blocks a table took up to 10 % longer. */
ACRE__HEAP_FN uint32_t acre__heap_class_bytes(uint32_t size_class) {
    if (size_class >= ACRE_HEAP_CLASSES)
        return acre__heap_large_bytes[size_class - ACRE_HEAP_CLASSES];
    if (size_class == 0)
        return 16;
    return (size_class & 1 ? 32u : 24u) << (size_class >> 1);
}

/* ---- how widely a class is spread ----
 *
 * Slots in current slabs are available to some warps only, so there should be few of them. On the
 * other hand, warps that run at the same time should wait neither for each other nor for new slabs.
 * So the pages in current slabs, 2^spread, grow with the pages in all slabs of the class: half as
 * many, or as many for small blocks. The spread falls only when memory is short or trimmed, so that
 * freed slots find their arenas again. */
enum {
    ACRE__HEAP_SMALL = 8,      /* classes of up to 256 bytes */
    ACRE__HEAP_LEAST_LOG2 = 8, /* first spread of a class: 2^-8 of the heap */
    ACRE__HEAP_MOST_LOG2 = 2,  /* largest spread of a class: 2^-2 of the heap */
    ACRE__HEAP_HOLES_LOG2 = 5, /* with more than 2^-5 of the heap, a class uses holes first */
    ACRE__HEAP_DESKED_LOG2 = 3 /* one desk for 2^3 segments */
};

/* log2 of the pages of a slab: few pages at first, but enough for eight slots, and so many that
 * little is left over at the end. */
ACRE__HEAP_FN uint32_t acre__heap_slab_log2(uint32_t size_class, uint32_t spread) {
    uint32_t least = size_class < 16 ? 0 : (size_class - (size_class & 1 ? 17 : 14)) / 2;
    if (size_class >= ACRE_HEAP_CLASSES)
        least = spread ? 4 : 3; /* in a small heap few blocks of a large class are likely */
    uint32_t most = size_class < 5 ? 0 : size_class < 11 ? (size_class - 3) / 2 : 4;
    uint32_t log2 = spread / 3;
    log2 = log2 < most ? log2 : most;
    return log2 > least ? log2 : least;
}

/* log2 of the number of arenas of a class. */
ACRE__HEAP_FN uint32_t acre__heap_arenas_log2(uint32_t size_class, uint32_t spread) {
    uint32_t pages = acre__heap_slab_log2(size_class, spread);
    uint32_t log2 = spread > pages ? spread - pages : 0;
    return log2 < ACRE__HEAP_ARENAS_LOG2 ? log2 : (uint32_t)ACRE__HEAP_ARENAS_LOG2;
}

/* The spread of a class that has `pages` in slabs. */
ACRE__HEAP_FN uint32_t acre__heap_spread_for(uint32_t size_class, uint32_t pages) {
    uint32_t log2 = pages ? acre__heap_log2(pages) : 0;
    return size_class < ACRE__HEAP_SMALL || log2 == 0 ? log2 : log2 - 1;
}

/* The spread that is 2^-part_log2 of the heap. */
ACRE__HEAP_FN uint32_t acre__heap_spread_of(uint64_t segments, uint32_t part_log2) {
    uint32_t log2 = (segments ? acre__heap_log2((uint32_t)segments) : 0) + 5;
    return log2 > part_log2 ? log2 - part_log2 : 0;
}

/* log2 of the number of desks for long runs; there are as many for short ones. */
ACRE__HEAP_FN uint32_t acre__heap_desks_log2(uint64_t segments) {
    uint32_t log2 = segments ? acre__heap_log2((uint32_t)segments) : 0;
    log2 = log2 > ACRE__HEAP_DESKED_LOG2 ? log2 - ACRE__HEAP_DESKED_LOG2 : 0;
    return log2 < ACRE__HEAP_DESKS_LOG2 - 1 ? log2 : (uint32_t)ACRE__HEAP_DESKS_LOG2 - 1;
}

/* The slot at an offset in a slab. */
ACRE__HEAP_FN uint32_t acre__heap_slot_of(uint32_t size_class, uint32_t offset) {
    if (size_class == 0)
        return offset >> 4;
    if (size_class >= ACRE_HEAP_CLASSES)
        return offset / acre__heap_class_bytes(size_class);
    if (size_class & 1)
        return offset >> (5 + (size_class >> 1));
    return (uint32_t)((uint64_t)(offset >> (3 + (size_class >> 1))) * 0xaaaaaaabu >> 33);
}

ACRE__HEAP_FN uint32_t acre__heap_slots(uint32_t size_class, uint32_t pages) {
    if (size_class >= ACRE_HEAP_CLASSES)
        return acre__heap_large_slots[size_class - ACRE_HEAP_CLASSES] * pages >> 4;
    return acre__heap_slot_of(size_class, pages << ACRE__HEAP_PAGE_LOG2);
}

/* ---- addresses ---- */

ACRE__HEAP_FN acre_heap_segment *acre__heap_segment_of(acre__heap h, uint32_t page) {
    return h.segments + (page >> 5);
}
ACRE__HEAP_FN acre__heap_page *acre__heap_page_of(acre__heap h, uint32_t page) {
    return &acre__heap_segment_of(h, page)->pages[page & 31];
}
ACRE__HEAP_FN uint64_t *acre__heap_bits_of(acre__heap h, uint32_t page) {
    return acre__heap_segment_of(h, page)->bits[page & 31];
}
ACRE__HEAP_FN uint64_t acre__heap_offset(acre_heap_handle h, const void *p) {
    return (uint64_t)((uintptr_t)p - (uintptr_t)h.base);
}

#endif
