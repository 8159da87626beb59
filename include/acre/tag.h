/* Tags: count and limit the memory of pools by purpose. Part of acre.h. */
#ifndef ACRE_TAG_H
#define ACRE_TAG_H

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sets a tag for everything that the calling thread allocates from any pool, until acre_tag_pop.
 * Tags nest: with "step" set, pushing "forward" sets the tag "step/forward".
 * A name has 1 to 64 printable ASCII characters, but none of / " and \. acre copies the name and
 * keeps it until the process ends, so a program should not generate new names without bound.
 * A block keeps its tag until any thread frees it. acre_pool_realloc keeps the tag if it resizes
 * the block in place. If it copies, the new block gets the tag of the calling thread. While a tag
 * is set, an alloc and free pair that hits the cache costs about 30 ns more. If the thread has no
 * tag set, tag support costs 1 ns per pair for blocks above 512 KiB, and nothing for smaller ones.
 * Returns ACRE_E_INVALID, ACRE_E_LIMIT (more than 4096 tags, or 32 nested), ACRE_E_HOST_MEMORY. */
ACRE_API acre_status acre_tag_push(const char *name);

/* Restores the tag that was set before the last acre_tag_push of the thread.
 * Returns ACRE_E_INVALID if the thread has no tag set. */
ACRE_API acre_status acre_tag_pop(void);

/* Limits the bytes of live blocks that have a tag ("step/forward") or a tag below it, in all pools
 * together. 0 means no limit. An allocation that would exceed the limit fails with ACRE_E_LIMIT,
 * but only after acre has added up the counters of all threads and called the pool's callback. Each
 * thread keeps its own count of small blocks and adds it to the total only now and then, so the
 * total may exceed the limit by up to 1 MiB per thread. */
ACRE_API acre_status acre_tag_set_limit(const char *path, uint64_t bytes);

typedef struct acre_tag_info {
    size_t struct_size;               /* set by acre */
    const char *path;                 /* valid until the process ends */
    uint64_t live_bytes, live_blocks; /* live now with this tag or one below it */
    uint64_t own_bytes, own_blocks;   /* live now with exactly this tag */
    uint64_t peak_bytes;              /* highest live_bytes so far, give or take 1 MiB per thread */
    uint64_t limit_bytes;             /* 0: no limit */
} acre_tag_info;

/* Called for each tag. A result other than 0 ends the walk. It may call into acre. */
typedef int (*acre_tag_walk_fn)(void *user, const acre_tag_info *info);

/* Calls `fn` for every tag that was ever set, parents before their children. */
ACRE_API acre_status acre_tag_walk(acre_tag_walk_fn fn, void *user);

#ifdef __cplusplus
}
#endif

#endif
