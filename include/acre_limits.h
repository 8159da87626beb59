/* acre: limits of pools, tags, and what happens when there is no memory. Part of chapter 7 of
 * acre.h, which includes it in its place. */
#include "acre.h"

#ifndef ACRE_LIMITS_H
#define ACRE_LIMITS_H

/* ---- limits ---- */

/* Sets limits for what threads use of a pool: live blocks, and blocks in the threads' caches. The
 * caches of a pool together hold at most 64 MiB, or 3 % of the pool's high-water mark if that is
 * more. 0 is no limit; a soft limit above the hard one is ACRE_E_INVALID. The pool counts when
 * memory goes to a cache or comes back, so never on a hit.
 *
 * Above the soft limit no call fails: the pool empties the caches, releases free memory until it
 * holds no more than the limit, and counts that (`over_soft`). Above the hard limit a call fails
 * with ACRE_E_LIMIT, after the pool emptied the caches and called its callback. Live blocks never
 * exceed the hard limit, and caches alone never make a call fail. Memory that is held but free does
 * not count (acre_pool_trim). A limit below what is live applies to later calls. */
ACRE_API acre_status acre_pool_set_limits(acre_pool *pool, uint64_t soft_bytes,
                                          uint64_t hard_bytes);

/* When a pool has no memory for a call it tries, in this order: the caches of all threads; memory
 * of other streams whose work is done; its free memory, given back and mapped where it is needed;
 * memory of another stream behind whose work the calling one then waits, without the host; free
 * memory of other pools of the same physical memory; this callback; and last the host waits for the work
 * behind everything that was freed, in this pool and in others of the device. Streams that are
 * being captured are left out. Only then is there a status, and a report (acre_oom_report).
 * acre_pool_get_stats counts which step served.
 *
 * The callback is told how many bytes the pool is asked for, as it rounds them, and how often it
 * was called for that before. It returns 1 when it has freed something and the pool shall try
 * again (it is then called again if that was not enough), 0 when there is nothing to be had. It is
 * called without locks, in the thread that asks, and may free and trim whatever it likes. What it
 * allocates itself is served as far as the first four steps go, and it is never called within
 * itself. It must not end the pool (ACRE_E_BUSY) nor its device. */
typedef int (*acre_pool_oom_fn)(void *user, acre_pool *pool, uint64_t wanted_bytes,
                                uint32_t attempt);

/* NULL for `fn`: none, as at first. Calls that are under way may still call the one before. */
ACRE_API acre_status acre_pool_set_callback(acre_pool *pool, acre_pool_oom_fn fn, void *user);

/* ---- tags ---- */

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
    uint64_t live_bytes, live_blocks; /* handed out now with this tag or one below it, */
    uint64_t own_bytes, own_blocks;   /* and with just this one */
    uint64_t peak_bytes;              /* the most that live_bytes was, give or take 1 MiB for each
                                       * thread */
    uint64_t limit_bytes;             /* 0: none */
} acre_tag_info;

typedef void (*acre_tag_fn)(void *user, const acre_tag_info *info);

/* Calls `fn` for every tag that was ever set, parents before what is below them. It may call into
 * acre. */
ACRE_API acre_status acre_tag_walk(acre_tag_fn fn, void *user);

/* ---- when memory runs out ---- */

typedef enum acre_oom_format { ACRE_OOM_TEXT = 0, ACRE_OOM_JSON = 1 } acre_oom_format;

/* Tells why the calling thread was last refused memory of a pool (ACRE_E_DEVICE_MEMORY,
 * ACRE_E_HOST_MEMORY, ACRE_E_ADDRESS_SPACE, ACRE_E_LIMIT): what was wanted, where all memory of the
 * card is, what the pool has handed out by tag and by size, what it has free and why that could not
 * serve, and the smallest step that would have helped; all as it was then. JSON has the schema
 * "acre-oom/1". Writes at most `size` bytes, ended by a zero (buffer may be NULL with size 0), and
 * gives how many all of it needs: if that is more than `size`, the end is missing. Stays until the
 * thread's next refusal. ACRE_E_NOT_READY when it was refused nothing yet. */
ACRE_API acre_status acre_oom_report(acre_oom_format format, char *buffer, size_t size,
                                     size_t *needed);

#endif
