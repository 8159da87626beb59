/* The placer: buffers with sizes and lifetimes in, offsets out.
 *
 * Two buffers that live at the same moment may not share bytes; the highest end of all is to be
 * small. The problem is NP-complete, so that a plan is the best of what was found within a budget
 * of search nodes, which are counted and not timed: the same buffers and the same budget give the
 * same offsets on every machine and in every build. docs/design.md, section 23, has the methods.
 *
 * Pure: no driver, no threads, no clock, no logging; memory from malloc. Any number of threads may
 * be in here with buffers of their own. */
#ifndef ACRE_PLAN_PLACE_H
#define ACRE_PLAN_PLACE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct acre__place_buffer {
    uint64_t size;   /* bytes, > 0 */
    uint64_t align;  /* power of two; 0 as 1 */
    int64_t lower;   /* first moment at which it lives */
    int64_t upper;   /* the moment after its last; > lower */
    uint64_t offset; /* the answer; for fixed ones: where it must be, a multiple of align */
    int is_fixed;
};

struct acre__place_result {
    uint64_t bytes;       /* highest end of the plan that was found */
    uint64_t lower_bound; /* no plan can be smaller */
    uint64_t nodes;       /* of the budget that were spent, at most all */
    uint64_t work;        /* done in all, in units of about a nanosecond: 1024 are a node */
    int is_optimal;       /* proven: bytes == lower_bound, or the search was exhausted */
    int is_fitting;       /* capacity 0, or bytes <= capacity */
    int is_refused;       /* the capacity is below lower_bound: there is no plan, bytes is that */
};

struct acre__place_options {
    uint64_t
        capacity; /* 0: as small as possible; else: any plan of at most this many bytes will do */
    /* Nodes at most; 0: the default. A larger one never gives more bytes. A first plan is made in
     * any case, in O(n log n). */
    uint64_t budget;
    const atomic_int
        *stop;           /* may be NULL; when it becomes nonzero the best plan so far is returned */
    uint64_t stop_after; /* units of work, as if *stop was set then; 0: never */
    /* May be NULL; called at improvements and now and then, in the calling thread. */
    void (*progress)(void *arg, const struct acre__place_result *so_far);
    void *progress_arg;
};

/* Places all buffers that are not fixed. Returns 0, or a negative errno: -EINVAL (a bad buffer;
 * fixed ones that overlap or are not aligned), -ENOMEM (host memory), -EOVERFLOW (sizes that sum up
 * to 2^62 or more, or more than 2^30 buffers). On success all offsets are written, also when the
 * plan does not fit the capacity: the best found, with is_fitting 0. Only a capacity below the
 * lower bound is refused at once (is_refused), without offsets. On failure offsets and result are
 * untouched. `options` may be NULL. */
int acre__place(struct acre__place_buffer *buffers, size_t count,
                const struct acre__place_options *options, struct acre__place_result *result);

/* Whether a plan is right: 0, or -1 and two buffers that are wrong: the first one that is bad in
 * itself (second == first: no size, no life, not aligned, or its end beyond the capacity; capacity
 * 0: no limit), else the lowest one that overlaps another, and the first that it overlaps. O(n log
 * n). `first` and `second` may be NULL. */
int acre__place_verify(const struct acre__place_buffer *buffers, size_t count, uint64_t capacity,
                       size_t *first, size_t *second);

/* No plan can be smaller: the largest sum of what lives at one moment, rounded to the alignment
 * that all have, and the highest end of a fixed one. 0 for bad buffers and without memory. */
uint64_t acre__place_lower_bound(const struct acre__place_buffer *buffers, size_t count);

#endif
