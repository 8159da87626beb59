/* The placer: takes buffers with sizes and lifetimes, computes offsets.
 *
 * Two buffers that live at the same time must not share bytes; the highest end of all buffers
 * should be small. The problem is NP-complete, so the placer returns the best plan found within a
 * budget of search nodes. Nodes are counted, not timed: the same buffers and the same budget give
 * the same offsets on every machine and in every build. docs/design.md, section 23, describes the
 * methods.
 *
 * Pure: no driver, no threads, no clock, no logging; memory from malloc. Any number of threads may
 * call it, each with its own buffers. */
#ifndef ACRE_PLAN_PLACE_H
#define ACRE_PLAN_PLACE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct acre__place_buffer {
    uint64_t size;   /* bytes, > 0 */
    uint64_t align;  /* power of two; 0 means 1 */
    int64_t lower;   /* first moment of its lifetime */
    int64_t upper;   /* the moment after its lifetime; > lower */
    uint64_t offset; /* the result; for fixed buffers the given offset, a multiple of align */
    int is_fixed;
};

struct acre__place_result {
    uint64_t bytes;       /* highest end of all buffers in the plan */
    uint64_t lower_bound; /* no plan can be smaller */
    uint64_t nodes;       /* spent, at most the budget */
    uint64_t work;        /* in total, in units of about a nanosecond; 1024 units are a node */
    int is_optimal;       /* proven: bytes == lower_bound, or the search was exhausted */
    int is_fitting;       /* capacity 0, or bytes <= capacity */
    int is_refused; /* the capacity is below lower_bound: no plan exists; bytes is lower_bound */
};

struct acre__place_options {
    uint64_t capacity; /* 0: minimize; else any plan of at most this many bytes is good enough */
    /* Limit of nodes; 0: the default. A larger budget never gives a larger plan. The first plan
     * does not depend on the budget and takes O(n log n). */
    uint64_t budget;
    const atomic_int
        *stop; /* may be NULL; when it becomes nonzero, the best plan so far is returned */
    uint64_t stop_after; /* units of work after which *stop counts as set; 0: never */
    /* May be NULL. Called from the calling thread, at improvements and from time to time. */
    void (*progress)(void *arg, const struct acre__place_result *so_far);
    void *progress_arg;
};

/* Places all buffers that are not fixed. Returns 0 or a negative errno: -EINVAL (an invalid buffer;
 * fixed buffers that overlap or are misaligned), -ENOMEM (host memory), -EOVERFLOW (sizes that sum
 * up to 2^62 or more, or more than 2^30 buffers). On success all offsets are written. If no plan
 * was found that fits the capacity, they are the best plan found, with is_fitting 0. Only a
 * capacity below the lower bound is refused at once (is_refused), without offsets. On failure
 * offsets and result are unchanged. `options` may be NULL. */
int acre__place(struct acre__place_buffer *buffers, size_t count,
                const struct acre__place_options *options, struct acre__place_result *result);

/* Verifies a plan. Returns 0, or -1 and two buffers. If a buffer is invalid in itself, both are the
 * first such buffer: no size, no lifetime, misaligned, or its end beyond the capacity (0: no
 * limit). Otherwise they are the lowest buffer that overlaps another, and the first one that it
 * overlaps. O(n log n). `first` and `second` may be NULL. */
int acre__place_verify(const struct acre__place_buffer *buffers, size_t count, uint64_t capacity,
                       size_t *first, size_t *second);

/* Returns a lower bound for every plan: the largest sum of sizes that live at one moment, rounded
 * to the common alignment, and the highest end of a fixed buffer. 0 for invalid buffers and when
 * out of memory. */
uint64_t acre__place_lower_bound(const struct acre__place_buffer *buffers, size_t count);

#endif
