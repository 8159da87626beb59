/* Tags: names that a thread gives to its allocations, so that memory can be attributed to its use.
 * They nest: a tag's path is its parent's path and its own name.
 *
 * A tag exists until the process exits and has a number. A thread counts tagged blocks in plain
 * thread-local counters. It adds a counter to the tag and all its parents in four cases: on the
 * slow path with a tag set; when the counter has changed by ACRE__TAG_SLACK; when another tag needs
 * the counter; and on a query. Only the slow path compares a tag with its limit, so each thread may
 * exceed the limit by ACRE__TAG_SLACK.
 *
 * A slab has an array with the tag numbers of its blocks, allocated with its first tagged block. A
 * block's state says whether it has a tag (ACRE__SLOT_TAGGED). */
#ifndef ACRE_POOL_TAG_H
#define ACRE_POOL_TAG_H

#include "pool/pool.h"

enum {
    ACRE__TAGS = 4096,       /* most tags per process */
    ACRE__TAG_DEPTH = 32,    /* most nested tags */
    ACRE__TAG_NAME = 64,     /* most bytes of a name */
    ACRE__TAG_COUNTERS = 64, /* per thread: a tag uses the one of its number modulo this */
    ACRE__TAG_SLACK = 1 << 20
};

/* Counts of a thread that it has not added to the tag yet. */
struct acre__tag_counter {
    uint32_t tag;
    int64_t bytes, blocks;
};

struct acre__tag_thread {
    uint32_t depth;
    uint16_t before[ACRE__TAG_DEPTH]; /* the tag that was set before each push */
    struct acre__tag_counter counters[ACRE__TAG_COUNTERS];
};

/* ---- inside the cache ---- */

/* A hit with a tag set: pops a block of the stack for `asked` bytes, tags and counts it. Returns
 * NULL if the caller must take the slow path. */
void *acre__tag_take(struct acre__pool_cache *cache, struct acre__stack *stack, size_t asked);
/* Counts blocks of a tag. */
void acre__tag_count(struct acre__pool_cache *cache, uint32_t tag, int64_t bytes, int64_t blocks);
/* Adds the thread's counters to the tags. The caller is inside the cache or has claimed it. */
void acre__tag_flush(struct acre__pool_cache *cache, void *ignored);

/* ---- outside the cache ---- */

/* Counts one block of `bytes` for the tag and returns 0, if the limits of the tag and its parents
 * allow it. Otherwise returns the nearest tag whose limit does not. */
uint32_t acre__tag_try(uint32_t tag, size_t bytes);
/* Returns the nearest of a tag (may be 0) and its parents whose limit `bytes` more would exceed; 0
 * if all allow it. */
uint32_t acre__tag_over(uint32_t tag, size_t bytes);
/* Adds bytes and blocks to a tag, in the calling thread's counters. Tag 0 is a no-op. */
void acre__tag_change(uint32_t tag, int64_t bytes, int64_t blocks);
/* Sets the tag of a block that is being allocated. Returns 0 if out of host memory. */
int acre__tag_set(struct acre__slab *slab, const acre__slot_state *state, uint32_t tag);
/* The tag of a block whose state is or was `value`; 0 if it has none. */
uint32_t acre__tag_of(struct acre__slab *slab, const acre__slot_state *state, uint32_t value);
/* Subtracts the live blocks of a slab that is being destroyed from their tags. */
void acre__tag_forget(struct acre__slab *slab);

/* The tag that the calling thread has set, or 0. */
uint32_t acre__tag_now(void);
/* The path of a tag; "" for 0. */
const char *acre__tag_path(uint32_t tag);
void acre__tag_limit(uint32_t tag, uint64_t *used_bytes, uint64_t *limit_bytes);

/* Takes rows of ACRE_STATS for tags that are older than the first device. Call it before the first
 * block is allocated. */
void acre__tags_use(void);
/* No lock held: adds the counters of all threads to the tags, and so to their rows for ACRE_STATS,
 * at most every 20 ms and for at most a fiftieth of the time, unless `is_forced`. */
void acre__tags_export(int is_forced);

#endif
