/* Tags: what memory of pools is for. Part of acre.h. */
#ifndef ACRE_TAG_H
#define ACRE_TAG_H

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Gives what the calling thread allocates of any pool from now on a tag, until acre_tag_pop. Tags
 * nest: with "step" set, pushing "forward" sets the tag "step/forward". A name is 1 to 64 printable
 * characters of ASCII without / " and \; it is copied, and kept for the process's life, so names
 * should not be made up for every call. A block remembers its tag until it is freed, by whichever
 * thread, also when acre_pool_realloc changes it in place or moves it; a copy that it has to make
 * gets the calling thread's.
 * Returns ACRE_E_INVALID, ACRE_E_LIMIT (more than 4096 tags, or 32 nested), ACRE_E_HOST_MEMORY.
 * A pair of hits of a thread that has a tag set costs about 30 ns more; without one, 1 ns more for
 * blocks above 512 KiB and nothing for others. */
ACRE_API acre_status acre_tag_push(const char *name);
/* Sets the tag that was there before. ACRE_E_INVALID when there is none. */
ACRE_API acre_status acre_tag_pop(void);

/* Limits the bytes of blocks of all pools that have a tag ("step/forward") or one below it; 0 is no
 * limit. A call that would exceed it is refused with ACRE_E_LIMIT, after all threads' counters were
 * added up and the pool's callback was asked. Threads count for themselves, so that each may exceed
 * it by 1 MiB of small blocks. */
ACRE_API acre_status acre_tag_set_limit(const char *path, uint64_t bytes);

typedef struct acre_tag_info {
    size_t struct_size;               /* set by acre */
    const char *path;                 /* stays valid */
    uint64_t live_bytes, live_blocks; /* allocated now with this tag or one below it, */
    uint64_t own_bytes, own_blocks;   /* and with just this one */
    uint64_t peak_bytes;              /* the most that live_bytes was, give or take 1 MiB for each
                                       * thread */
    uint64_t limit_bytes;             /* 0: none */
} acre_tag_info;

/* Called for each tag; a result other than 0 ends the walk. It may call into acre. */
typedef int (*acre_tag_walk_fn)(void *user, const acre_tag_info *info);

/* Calls `fn` for every tag that was ever set, parents before what is below them. */
ACRE_API acre_status acre_tag_walk(acre_tag_walk_fn fn, void *user);

#ifdef __cplusplus
}
#endif

#endif
