/* Kernels of the heap's tests; see heap_job.h. All waits are bounded. */
#ifndef ACRE_TESTS_GPU_HEAP_KERNELS_H
#define ACRE_TESTS_GPU_HEAP_KERNELS_H

#include "heap_job.h"

/* All kernels and their purpose. */
#define HEAP_KERNEL_LIST(X)                                                                        \
    X(heap_take)    /* allocates a block for each thread and writes all of it */                   \
    X(heap_aligned) /* as heap_take, aligned to every power of two */                              \
    X(heap_refused) /* requests alignments and sizes that must fail */                             \
    X(heap_zeroed)  /* as heap_take, with calloc */                                                \
    X(heap_verify)  /* checks the contents of another thread's block */                            \
    X(heap_give)    /* checks and frees another thread's block */                                  \
    X(heap_ask)     /* queries size and ownership of live blocks, frees them */                    \
    X(heap_asked)   /* queries freed blocks */                                                     \
    X(heap_change)  /* realloc, up and down */                                                     \
    X(heap_groups)  /* allocations, copies and fills by warps and blocks */                        \
    X(heap_arena)   /* allocations from an arena of the block */                                   \
    X(heap_diverge) /* lanes of a warp take different branches */                                  \
    X(heap_outline) /* as heap_diverge, in a function that is not inlined */                       \
    X(heap_misuse)  /* wrong frees */                                                              \
    X(heap_mistake) /* frees blocks to the wrong heap */                                           \
    X(heap_fill)    /* allocates until NULL, in one list per thread */                             \
    X(heap_drain)   /* frees the lists */                                                          \
    X(heap_round)   /* allocates one more block for each thread */                                 \
    X(heap_thin)    /* keeps 1 of 16 of those blocks, frees the others */                          \
    X(heap_soak)    /* one random step on a table of blocks */                                     \
    X(heap_soaked)  /* frees the blocks left in the table */

/* ---- one block per thread ---- */

ACRE__HEAP_SLOW void heap_keep(const struct heap_job *job, uint32_t i, void *p, uint64_t bytes) {
    job->at[i] = (uintptr_t)p;
    if (!p) {
        heap_count(job, HEAP_NULLS, 1);
        return;
    }
    uint64_t usable = acre_heap_usable_size(job->h, p);
    HEAP_CHECK(((uintptr_t)p & 15) == 0);
    HEAP_CHECK(usable >= bytes && usable % 16 == 0);
    HEAP_CHECK(acre_heap_owns(job->h, p) && acre_heap_owns(job->h, (char *)p + usable - 1));
    heap_write((uint64_t *)p, usable, i, 1);
}

HEAP_KERNEL(heap_take) {
    uint32_t i = heap_index();
    if (i >= job->threads)
        return;
    uint64_t bytes = heap_bytes(job, i);
    void *p = acre_heap_malloc(job->h, (size_t)bytes);
    heap_keep(job, i, p, bytes);
    /* No size class wastes more than a third of a block. */
    if (p && bytes > 32 && bytes <= 32768)
        HEAP_CHECK(2 * acre_heap_usable_size(job->h, p) <= 3 * bytes);
}

HEAP_KERNEL(heap_aligned) {
    uint32_t i = heap_index();
    if (i >= job->threads)
        return;
    size_t align = (size_t)1 << i % 22;
    uint64_t bytes = heap_bytes(job, i) + (i & 32 ? align : 0);
    char *p = (char *)acre_heap_aligned_malloc(job->h, (size_t)bytes, align);
    HEAP_CHECK(((uintptr_t)p & (align - 1)) == 0);
    heap_keep(job, i, p, bytes);
}

HEAP_KERNEL(heap_refused) {
    uint32_t i = heap_index();
    if (i >= job->threads)
        return;
    size_t align = i % 5 == 0   ? 0
                   : i % 5 == 1 ? 3
                   : i % 5 == 2 ? 24
                   : i % 5 == 3 ? (size_t)4 << 20
                                : ~(size_t)0 / 2 + 1;
    HEAP_CHECK(!acre_heap_aligned_malloc(job->h, 64, align));
    HEAP_CHECK(!acre_heap_malloc(job->h, SIZE_MAX));
    HEAP_CHECK(!acre_heap_malloc(job->h, SIZE_MAX - i));
    HEAP_CHECK(!acre_heap_calloc(job->h, SIZE_MAX / 2, 3));
    HEAP_CHECK(!acre_heap_calloc(job->h, 3, SIZE_MAX / 2));
}

HEAP_KERNEL(heap_zeroed) {
    uint32_t i = heap_index();
    if (i >= job->threads)
        return;
    uint64_t bytes = heap_bytes(job, i), all = bytes * (1 + i % 3), set = 0;
    unsigned char *p = (unsigned char *)acre_heap_calloc(job->h, (size_t)bytes, 1 + i % 3);
    for (uint64_t k = 0; p && k < all; k++)
        set |= p[k];
    HEAP_CHECK(set == 0);
    heap_keep(job, i, p, all);
}

ACRE__HEAP_FN void heap_look(const struct heap_job *job, uint32_t i) {
    const uint64_t *p = (const uint64_t *)(uintptr_t)job->at[i];
    if (p)
        HEAP_CHECK(heap_is_right(p, acre_heap_usable_size(job->h, p), i, 1));
}

HEAP_KERNEL(heap_verify) {
    uint32_t i = heap_index();
    if (i < job->threads)
        heap_look(job, heap_partner(job, i));
}

HEAP_KERNEL(heap_give) {
    uint32_t i = heap_index();
    if (i >= job->threads)
        return;
    i = heap_partner(job, i);
    heap_look(job, i);
    acre_heap_free(job->h, (void *)(uintptr_t)job->at[i]);
    job->at[i] = 0;
}

/* Queries live blocks, then frees them. */
HEAP_KERNEL(heap_ask) {
    uint32_t i = heap_index();
    if (i >= job->threads)
        return;
    char *p = (char *)(uintptr_t)job->at[i];
    uint64_t usable = acre_heap_usable_size(job->h, p);
    HEAP_CHECK(usable >= 16);
    HEAP_CHECK(acre_heap_usable_size(job->h, p + 1) == 0);
    HEAP_CHECK(acre_heap_usable_size(job->h, p + usable - 8) == 0);
    HEAP_CHECK(acre_heap_usable_size(job->h, NULL) == 0);
    HEAP_CHECK(acre_heap_usable_size(job->h, job->counts) == 0);
    HEAP_CHECK(acre_heap_owns(job->h, p + 1) && acre_heap_owns(job->h, job->h.base));
    HEAP_CHECK(!acre_heap_owns(job->h, NULL) && !acre_heap_owns(job->h, job->counts));
    HEAP_CHECK(!acre_heap_owns(job->h, job->h.base - 1));
    acre_heap_free(job->h, p);
}

/* Queries freed blocks. This needs a separate launch: a lane may return from a free while another
 * lane still carries it out for both. */
HEAP_KERNEL(heap_asked) {
    uint32_t i = heap_index();
    if (i >= job->threads)
        return;
    void *p = (void *)(uintptr_t)job->at[i];
    HEAP_CHECK(acre_heap_usable_size(job->h, p) == 0);
    HEAP_CHECK(acre_heap_owns(job->h, p));
}

/* Returns the size of a block at a step; the middle sizes take whole pages for some threads. */
ACRE__HEAP_FN uint64_t heap_step(uint32_t i, uint32_t step) {
    switch (step) {
    case 0:
        return 8;
    case 1:
        return 40 + i % 64;
    case 2:
        return 1000;
    case 3:
        return i % 32 ? 5000 : 40000;
    case 4:
        return i % 32 ? 5008 : 300000;
    case 5:
        return 2504;
    default:
        return 24;
    }
}

HEAP_KERNEL(heap_change) {
    uint32_t i = heap_index();
    if (i >= job->threads)
        return;
    uint64_t *p = NULL, had = 0;
    for (uint32_t step = 0; step < 7; step++) {
        uint64_t bytes = heap_step(i, step), kept = (had < bytes ? had : bytes) / 8 * 8;
        uint64_t *to = (uint64_t *)acre_heap_realloc(job->h, p, (size_t)bytes);
        if (!to) {
            heap_count(job, HEAP_NULLS, 1);
            break;
        }
        p = to;
        HEAP_CHECK(heap_is_right(p, kept, i, 1));
        heap_write(p, bytes, i, 1);
        had = bytes;
    }
    HEAP_CHECK(acre_heap_realloc(job->h, p, 20) == (void *)p);
    HEAP_CHECK(acre_heap_realloc(job->h, p, SIZE_MAX - 100) == NULL);
    HEAP_CHECK(acre_heap_realloc(job->h, p + 2, 100) == NULL); /* an interior pointer */
    HEAP_CHECK(heap_is_right(p, 24, i, 1));
    acre_heap_free(job->h, p);
}

/* ---- groups ---- */

/* The bytes of the block are those of a pattern. */
ACRE__HEAP_FN unsigned char *heap_resize_block(const struct heap_job *job, unsigned char *one,
                                               size_t bytes, void **slot) {
    uint32_t t = acre__heap_thread(), n = acre__heap_threads();
    unsigned char *to = (unsigned char *)acre_heap_block_realloc(job->h, one, 3 * bytes, slot);
    unsigned char *zeros = (unsigned char *)acre_heap_block_calloc(job->h, 1, bytes, slot);
    if (!to || !zeros) {
        heap_count(job, HEAP_NULLS, 1);
        return to ? to : one;
    }
    for (size_t k = t; k < bytes; k += n) {
        HEAP_CHECK(to[k] == (unsigned char)(k * 7 + k / 251));
        HEAP_CHECK(zeros[k] == 0);
    }
    acre_heap_block_free(job->h, zeros);
    return to;
}

/* The bytes of the block are `value`. */
ACRE__HEAP_FN unsigned char *heap_resize_warp(const struct heap_job *job, uint32_t mask,
                                              unsigned char *p, uint32_t bytes,
                                              unsigned char value) {
    uint32_t rank = acre__heap_rank_in(mask), n = acre__heap_popc32(mask);
    unsigned char *to = (unsigned char *)acre_heap_warp_realloc(job->h, mask, p, 3 * bytes);
    unsigned char *zeros = (unsigned char *)acre_heap_warp_calloc(job->h, mask, bytes, 1);
    if (!to || !zeros) {
        heap_count(job, HEAP_NULLS, 1);
        return to ? to : p;
    }
    for (uint32_t k = rank; k < bytes; k += n) {
        HEAP_CHECK(to[k] == value);
        HEAP_CHECK(zeros[k] == 0);
    }
    acre_heap_warp_free(job->h, mask, zeros);
    return to;
}

ACRE__HEAP_FN void heap_group_block(const struct heap_job *job, void **slot) {
    uint32_t t = acre__heap_thread(), n = acre__heap_threads();
    size_t bytes = 40u * n + 7 + heap_index() / n % 16, k;
    unsigned char *one = (unsigned char *)acre_heap_block_malloc(job->h, bytes, slot);
    unsigned char *two = (unsigned char *)acre_heap_block_malloc(job->h, bytes, slot);
    if (!one || !two) { /* all threads of the block get the same result */
        heap_count(job, HEAP_NULLS, 1);
        return;
    }
    HEAP_CHECK(acre_heap_block_memset(one, 0x1a5, bytes) == one);
    for (k = t; k < bytes; k += n)
        HEAP_CHECK(one[bytes - 1 - k] == 0xa5);
    acre__heap_barrier();
    for (k = t; k < bytes; k += n)
        one[k] = (unsigned char)(k * 7 + k / 251);
    acre__heap_barrier();
    HEAP_CHECK(acre_heap_block_memcpy(two, one, bytes) == two);
    for (k = t; k < bytes; k += n)
        HEAP_CHECK(two[bytes - 1 - k] == one[bytes - 1 - k]);
    acre__heap_barrier();
    (void)acre_heap_block_memset(two, 0, bytes);
    HEAP_CHECK(acre_heap_block_memcpy(two + 5, one + 3, bytes - 5) == two + 5);
    for (k = t; k < bytes; k += n)
        HEAP_CHECK(two[bytes - 1 - k] == (bytes - 1 - k < 5 ? 0 : one[bytes - 1 - k - 2]));
    one = heap_resize_block(job, one, bytes, slot);
    acre_heap_block_free(job->h, one);
    acre_heap_block_free(job->h, two);
}

ACRE__HEAP_SLOW void heap_group_warp(const struct heap_job *job, uint32_t mask, uint32_t i) {
    enum { BYTES = 1000 };
    uint32_t rank = acre__heap_rank_in(mask), n = acre__heap_popc32(mask);
    unsigned char *one = (unsigned char *)acre_heap_warp_malloc(job->h, mask, BYTES);
    unsigned char *two = (unsigned char *)acre_heap_warp_malloc(job->h, mask, BYTES);
    void *whole;
    unsigned char *part =
        (unsigned char *)acre_heap_coalesced_malloc(job->h, mask, 1 + i % 70, &whole);
    if (!one || !two || !part) { /* all lanes of the mask get the same result */
        heap_count(job, HEAP_NULLS, 1);
        return;
    }
    HEAP_CHECK(((uintptr_t)part & 15) == 0);
    HEAP_CHECK(acre__heap_shfl(mask, (uintptr_t)one, acre__heap_ctz32(mask)) == (uintptr_t)one);
    (void)acre_heap_memset(part, (int)i, 1 + i % 70);
    HEAP_CHECK(acre_heap_warp_memset(mask, one, (int)(i / 32), BYTES) == one);
    HEAP_CHECK(acre_heap_warp_memcpy(mask, two, one, BYTES) == two);
    for (uint32_t k = rank; k < BYTES; k += n)
        HEAP_CHECK(two[BYTES - 1 - k] == (unsigned char)(i / 32));
    HEAP_CHECK(part[0] == (unsigned char)i && part[i % 70] == (unsigned char)i);
    two = heap_resize_warp(job, mask, two, BYTES, (unsigned char)(i / 32));
    acre_heap_warp_free(job->h, mask, one);
    acre_heap_warp_free(job->h, mask, two);
    acre_heap_warp_free(job->h, mask, whole);
}

/* All threads of full blocks call this. Two of three lanes form one group, the others form a second
 * one. */
HEAP_KERNEL(heap_groups) {
    HEAP_SHARED(slot);
    uint32_t i = heap_index(), full = job->lanes == 32 ? 0xffffffffu : 1u;
    heap_group_block(job, slot);
    heap_group_warp(job, full, i);
    int is_third = (i ^ i >> 5) % 3 == 0;
    uint32_t thirds = acre__heap_ballot(full, is_third);
    if (is_third)
        heap_group_warp(job, thirds, i);
    else
        heap_group_warp(job, full & ~thirds, i);
}

/* All threads of full blocks call this. Their blocks take more than the arena has. */
HEAP_KERNEL(heap_arena) {
    HEAP_SHARED_ARENA(arena);
    uint32_t i = heap_index();
    HEAP_CHECK(acre_heap_block_arena_open(job->h, arena, 8192));
    for (uint32_t round = 0; round < 4; round++) {
        uint64_t *at[4];
        for (uint32_t k = 0; k < 4; k++) {
            at[k] = (uint64_t *)acre_heap_block_arena_malloc(job->h, arena, 16 + (i * 24 + k) % 80);
            heap_count(job, HEAP_NULLS, !at[k]);
            if (at[k])
                at[k][0] = at[k][1] = (uint64_t)i << 8 | k;
        }
        acre__heap_barrier();
        for (uint32_t k = 0; k < 4; k++)
            HEAP_CHECK(!at[k] || (at[k][0] == ((uint64_t)i << 8 | k) && at[k][1] == at[k][0]));
        acre_heap_block_arena_reset(job->h, arena);
    }
    acre_heap_block_arena_close(job->h, arena);
}

/* ---- divergent lanes ---- */

ACRE__HEAP_FN void *heap_some(const struct heap_job *job, uint32_t i, uint64_t r) {
    void *p = NULL;
    switch (r % 6) {
    case 0:
        return acre_heap_malloc(job->h, 24);
    case 1:
        return acre_heap_malloc(job->h, (size_t)(r >> 8) % 3000);
    case 2:
        if (i % 64 == 0)
            return acre_heap_malloc(job->h, 70000);
        return acre_heap_aligned_malloc(job->h, 200, (size_t)16 << (r >> 8) % 6);
    case 3:
        for (uint64_t k = r >> 8 & 7; k-- > 0;) {
            acre_heap_free(job->h, p);
            p = acre_heap_malloc(job->h, (size_t)(16 + k * 100));
        }
        return p ? p : acre_heap_calloc(job->h, 10, 10);
    case 4:
        p = acre_heap_malloc(job->h, 48);
        return i & 1 ? acre_heap_realloc(job->h, p, 480) : p;
    default:
        if (i & 2) {
            acre_heap_free(job->h, acre_heap_malloc(job->h, 16));
            if (i & 4)
                return acre_heap_malloc(job->h, 128);
        }
        return acre_heap_malloc(job->h, 96);
    }
}

HEAP_KERNEL(heap_diverge) {
    uint32_t i = heap_index();
    if (i >= job->threads)
        return;
    uint64_t r = heap_random(job, i);
    i = heap_partner(job, i);
    if (job->at[i] && r >> 60 < 12) {
        heap_look(job, i);
        acre_heap_free(job->h, (void *)(uintptr_t)job->at[i]);
        job->at[i] = 0;
    }
    if (!job->at[i])
        heap_keep(job, i, heap_some(job, i, r), 0);
}

/* Lanes are in different calls of these functions at the same time. */
ACRE__HEAP_SLOW void *heap_outlined_malloc(const struct heap_job *job, size_t bytes) {
    return acre_heap_malloc(job->h, bytes);
}
ACRE__HEAP_SLOW void heap_outlined_free(const struct heap_job *job, void *p) {
    acre_heap_free(job->h, p);
}

HEAP_KERNEL(heap_outline) {
    uint32_t i = heap_index();
    if (i >= job->threads)
        return;
    uint64_t r = heap_random(job, i);
    void *p = NULL;
    for (uint64_t k = r & 7; k-- > 0; r >>= 3) {
        heap_outlined_free(job, p);
        p = r & 8 ? heap_outlined_malloc(job, 24) : heap_outlined_malloc(job, 16 + (r & 1023));
        if (p)
            heap_write((uint64_t *)p, 16, i, 1);
        if (p && r & 16)
            HEAP_CHECK(heap_is_right((const uint64_t *)p, 16, i, 1));
    }
    heap_outlined_free(job, p);
}

/* ---- wrong frees ---- */

/* All threads free at[0], and pointers into the interior of at[1]. Both blocks have at least 32
 * bytes. */
HEAP_KERNEL(heap_misuse) {
    uint32_t i = heap_index();
    if (i >= job->threads)
        return;
    acre_heap_free(job->h, (void *)(uintptr_t)job->at[0]);
    acre_heap_free(job->h, (char *)(uintptr_t)job->at[1] + 16);
    acre_heap_free(job->h, (char *)(uintptr_t)job->at[1] + 1 + i % 15);
    acre_heap_free(job->h, NULL);
    acre_heap_free(job->h, job->counts);
    acre_heap_free(job->h, (void *)(uintptr_t)16);
    acre_heap_free(job->h, job->h.base + ((size_t)job->h.max_segments << ACRE__HEAP_SEGMENT_LOG2));
}

/* Allocates a block in each heap, frees it to the other heap, which must refuse, then to its
 * own. */
HEAP_KERNEL(heap_mistake) {
    uint32_t i = heap_index();
    if (i >= job->threads)
        return;
    uint64_t bytes = heap_bytes(job, i) / 16 * 16 + 16;
    uint64_t *p = (uint64_t *)acre_heap_malloc(job->h, (size_t)bytes);
    uint64_t *q = (uint64_t *)acre_heap_malloc(job->other, (size_t)bytes);
    if (!p || !q) {
        heap_count(job, HEAP_NULLS, 1);
        return;
    }
    heap_write(p, bytes, i, 1);
    heap_write(q, bytes, ~(uint64_t)i, 1);
    HEAP_CHECK(!acre_heap_owns(job->h, q) && !acre_heap_owns(job->other, p));
    acre_heap_free(job->other, p);
    acre_heap_free(job->h, q);
    HEAP_CHECK(heap_is_right(p, bytes, i, 1) && heap_is_right(q, bytes, ~(uint64_t)i, 1));
    acre_heap_free(job->h, p);
    acre_heap_free(job->other, q);
}

/* ---- lists of blocks ---- */

struct heap_link {
    uint64_t next, mark;
};

/* Marks both ends of the block with its address and owner. */
ACRE__HEAP_FN void heap_link_make(const struct heap_job *job, uint32_t i, struct heap_link *p) {
    uint64_t usable = acre_heap_usable_size(job->h, p);
    p->mark = (uintptr_t)p ^ heap_mix(i);
    if (usable >= 32)
        ((uint64_t *)p)[usable / 8 - 1] = p->mark;
}

ACRE__HEAP_FN int heap_link_is_right(const struct heap_job *job, uint32_t i,
                                     const struct heap_link *p) {
    uint64_t usable = acre_heap_usable_size(job->h, p), mark = (uintptr_t)p ^ heap_mix(i);
    return p->mark == mark && (usable < 32 || ((const uint64_t *)p)[usable / 8 - 1] == mark);
}

HEAP_KERNEL(heap_fill) {
    uint32_t i = heap_index();
    if (i >= job->threads)
        return;
    uint64_t head = job->at[i], n = 0;
    for (; n < job->most; n++) {
        uint64_t begin = acre__heap_time_ns();
        uint64_t bytes = heap_bytes(job, i + n * job->threads);
        struct heap_link *p = (struct heap_link *)acre_heap_malloc(job->h, (size_t)bytes);
        if (!p) {
            heap_longest(&job->counts[HEAP_NULL_NS], acre__heap_time_ns() - begin);
            heap_count(job, HEAP_NULLS, 1);
            break;
        }
        heap_link_make(job, i, p);
        p->next = head;
        head = (uintptr_t)p;
    }
    job->at[i] = head;
    heap_count(job, HEAP_BLOCKS, n);
}

HEAP_KERNEL(heap_drain) {
    uint32_t i = heap_index();
    if (i >= job->threads)
        return;
    i = heap_partner(job, i);
    uint64_t at = job->at[i], n = 0;
    for (; at && n < (uint64_t)1 << 24; n++) {
        struct heap_link *p = (struct heap_link *)(uintptr_t)at;
        at = p->next;
        if (!heap_link_is_right(job, i, p)) {
            HEAP_CHECK(0); /* its link cannot be followed */
            break;
        }
        acre_heap_free(job->h, p);
    }
    job->at[i] = 0;
    heap_count(job, HEAP_BLOCKS, n);
}

HEAP_KERNEL(heap_round) {
    uint32_t i = heap_index();
    if (i >= job->threads)
        return;
    struct heap_link *p = (struct heap_link *)acre_heap_malloc(job->h, (size_t)heap_bytes(job, i));
    job->more[i] = (uintptr_t)p;
    if (p)
        heap_link_make(job, i, p);
    else
        heap_count(job, HEAP_NULLS, 1);
}

HEAP_KERNEL(heap_thin) {
    uint32_t i = heap_index();
    if (i >= job->threads)
        return;
    struct heap_link *p = (struct heap_link *)(uintptr_t)job->more[i];
    if (!p)
        return;
    HEAP_CHECK(heap_link_is_right(job, i, p));
    if (heap_random(job, i) >> 60 == 0) {
        p->next = job->at[i];
        job->at[i] = (uintptr_t)p;
    } else {
        acre_heap_free(job->h, p);
    }
}

/* ---- soak ---- */

ACRE__HEAP_FN void *heap_soak_take(const struct heap_job *job, uint64_t r, uint64_t bytes) {
    if (r % 8 == 0)
        return acre_heap_calloc(job->h, 1, (size_t)bytes);
    if (r % 8 == 1)
        return acre_heap_aligned_malloc(job->h, (size_t)bytes, (size_t)1 << (r >> 8) % 13);
    return acre_heap_malloc(job->h, (size_t)bytes);
}

/* Each thread takes a slot of the table, a different one in each launch. It checks a block in the
 * slot and mostly frees or reallocates it; into an empty slot it puts a new block. */
HEAP_KERNEL(heap_soak) {
    uint32_t i = heap_index();
    if (i >= job->threads)
        return;
    uint64_t r = heap_random(job, i), bytes = heap_bytes(job, i);
    i = heap_partner(job, i);
    uint64_t *p = (uint64_t *)(uintptr_t)job->at[i];
    if (p) {
        uint64_t usable = acre_heap_usable_size(job->h, p);
        HEAP_CHECK(heap_is_right(p, usable, i, 0));
        if (r >> 60 < 4)
            return;
        if (r >> 60 < 12) {
            acre_heap_free(job->h, p);
            job->at[i] = 0;
            return;
        }
        uint64_t words = (usable < bytes ? usable : bytes) / 8;
        uint64_t *to = (uint64_t *)acre_heap_realloc(job->h, p, (size_t)bytes);
        HEAP_CHECK(!to || heap_is_right(to, (words < HEAP_ENDS ? words : HEAP_ENDS) * 8, i, 1));
        p = to;
    } else {
        p = (uint64_t *)heap_soak_take(job, r, bytes);
    }
    if (!p) {
        heap_count(job, HEAP_NULLS, 1);
        return;
    }
    heap_count(job, HEAP_BLOCKS, 1);
    heap_write(p, acre_heap_usable_size(job->h, p), i, 0);
    job->at[i] = (uintptr_t)p;
}

HEAP_KERNEL(heap_soaked) {
    uint32_t i = heap_index();
    if (i >= job->threads)
        return;
    uint64_t *p = (uint64_t *)(uintptr_t)job->at[i];
    HEAP_CHECK(!p || heap_is_right(p, acre_heap_usable_size(job->h, p), i, 0));
    acre_heap_free(job->h, p);
    job->at[i] = 0;
}

#endif
