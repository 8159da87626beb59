/* Tags: names that a thread gives to what it allocates, so that memory can be told apart by what it
 * is for. They nest: a tag's path is its parent's and its own name.
 *
 * A tag stays for the process's life and is known by a number. What has a tag is counted in the
 * thread's own plain counters first, and added to the tag and all above it from time to time: when
 * a thread's cache meets the pool, when its counter of one tag has gone ACRE__TAG_SLACK up or down,
 * and when somebody asks. A tag's limit is looked at then, so threads may each exceed it by that.
 *
 * The numbers of a slab's tagged blocks are in an array of the slab that is made with the first of
 * them; a block's state says whether it has one (ACRE__SLOT_TAGGED). */
#ifndef ACRE_POOL_TAG_H
#define ACRE_POOL_TAG_H

#include "pool/pool.h"

enum {
    ACRE__TAGS = 4096,       /* at most, in a process */
    ACRE__TAG_DEPTH = 32,    /* nested in each other */
    ACRE__TAG_NAME = 64,     /* bytes of a name */
    ACRE__TAG_COUNTERS = 64, /* of a thread: a tag has the one of its number's last bits */
    ACRE__TAG_SLACK = 1 << 20
};

/* What a thread has counted of a tag and not added to it yet. */
struct acre__tag_counter {
    uint32_t tag;
    int64_t bytes, blocks;
};

struct acre__tag_thread {
    uint32_t depth;
    uint16_t before[ACRE__TAG_DEPTH]; /* the tags that were set before each push */
    struct acre__tag_counter counters[ACRE__TAG_COUNTERS];
};

/* ---- the owner, inside its cache ---- */

/* A hit of a thread that has a tag set: a block of the stack for so many bytes, marked and counted;
 * NULL when the slow path has to be taken. */
void *acre__tag_take(struct acre__pool_cache *cache, struct acre__stack *stack, size_t asked);
/* Counts blocks of a tag. */
void acre__tag_count(struct acre__pool_cache *cache, uint32_t tag, int64_t bytes, int64_t blocks);
/* Adds what the thread has counted to the tags. Also for who has claimed the cache. */
void acre__tag_flush(struct acre__pool_cache *cache, void *ignored);

/* ---- outside ---- */

/* So many bytes more of the calling thread's tag, if its limit and those above allow it: what other
 * threads have counted is added first, and the pool's callback asked. */
acre_status acre__tag_charge(struct acre__want *want, struct acre__pool_cache *cache);
/* 1 if the limits of a tag (may be 0) and of those above leave so much. */
int acre__tag_allows(uint32_t tag, size_t bytes);
/* So many blocks and bytes more or less, by the calling thread. */
void acre__tag_change(uint32_t tag, int64_t bytes, int64_t blocks);
/* Notes the tag of a block that is being handed out: 0 without memory. */
int acre__tag_set(struct acre__slab *slab, const acre__slot_state *state, uint32_t tag);
/* The tag of a block, by the state that it has or had; 0 if it has none. */
uint32_t acre__tag_of(struct acre__slab *slab, const acre__slot_state *state, uint32_t value);
/* The blocks of a slab that ends are no tag's any more. */
void acre__tag_forget(struct acre__slab *slab);

/* What the calling thread has set, or 0. */
uint32_t acre__tag_now(void);
/* The path of a tag; "" for 0. */
const char *acre__tag_path(uint32_t tag);
void acre__tag_limit(uint32_t tag, uint64_t *used_bytes, uint64_t *limit_bytes);

#endif
