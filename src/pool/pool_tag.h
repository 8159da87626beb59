/* Tags: names that a thread gives to its allocations, so that memory can be attributed to its use.
 * They nest: a tag's path is its parent's path and its own name.
 *
 * A tag lives as long as the process and has a number. A thread counts tagged blocks in plain
 * counters of its own. It adds them to the tag and all its parents from time to time: when its
 * cache meets the pool, when a counter has changed by ACRE__TAG_SLACK, and on a query. Only then is
 * a tag's limit checked, so each thread may exceed it by that much.
 *
 * A slab has an array with the tag numbers of its blocks, made with the first of them. A block's
 * state says whether it has a tag (ACRE__SLOT_TAGGED). */
#ifndef ACRE_POOL_TAG_H
#define ACRE_POOL_TAG_H

#include "pool/pool.h"

enum {
    ACRE__TAGS = 4096,       /* at most, per process */
    ACRE__TAG_DEPTH = 32,    /* most nested tags */
    ACRE__TAG_NAME = 64,     /* most bytes of a name */
    ACRE__TAG_COUNTERS = 64, /* per thread: a tag uses the one of its number modulo this */
    ACRE__TAG_SLACK = 1 << 20
};

/* What a thread has counted and not added to the tag yet. */
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
 * NULL if the slow path must be taken. */
void *acre__tag_take(struct acre__pool_cache *cache, struct acre__stack *stack, size_t asked);
/* Counts blocks of a tag. */
void acre__tag_count(struct acre__pool_cache *cache, uint32_t tag, int64_t bytes, int64_t blocks);
/* Adds the thread's counters to the tags. Also for a thread that has claimed the cache. */
void acre__tag_flush(struct acre__pool_cache *cache, void *ignored);

/* ---- outside the cache ---- */

/* Counts bytes for the tag if its limit and those of its parents allow it: 0. Otherwise returns the
 * tag whose limit does not. */
uint32_t acre__tag_try(uint32_t tag, size_t bytes);
/* The nearest of a tag (may be 0) and its parents whose limit `bytes` more would exceed; 0 if all
 * allow it. */
uint32_t acre__tag_over(uint32_t tag, size_t bytes);
/* Changes the count of blocks and bytes, by the calling thread. */
void acre__tag_change(uint32_t tag, int64_t bytes, int64_t blocks);
/* Sets the tag of a block that is being allocated. Returns 0 without memory. */
int acre__tag_set(struct acre__slab *slab, const acre__slot_state *state, uint32_t tag);
/* The tag of a block whose state is or was `value`; 0 if it has none. */
uint32_t acre__tag_of(struct acre__slab *slab, const acre__slot_state *state, uint32_t value);
/* Uncounts the live blocks of a slab that ends. */
void acre__tag_forget(struct acre__slab *slab);

/* The tag that the calling thread has set, or 0. */
uint32_t acre__tag_now(void);
/* The path of a tag; "" for 0. */
const char *acre__tag_path(uint32_t tag);
void acre__tag_limit(uint32_t tag, uint64_t *used_bytes, uint64_t *limit_bytes);

#endif
