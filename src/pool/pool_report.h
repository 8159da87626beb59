/* What is kept of a thread's last refusal, so that it can be told afterwards (acre_oom_report).
 *
 * Numbers are collected when a call is refused, into a record of fixed size that the thread has;
 * words are made of them only when somebody asks. */
#ifndef ACRE_POOL_REPORT_H
#define ACRE_POOL_REPORT_H

#include "base/status.h"
#include "pool/pool.h"
#include "pool/pool_tag.h"

enum {
    ACRE__OOM_TOP = 8, /* of tags, sizes, streams and pools the largest are kept, the rest summed */
    ACRE__OOM_STEPS = 4
};

/* In place of a stream: what acre_pool_free_after was told to wait for. */
#define ACRE__OOM_EVENT UINT64_MAX

/* One of several things that have bytes: which one depends on the list. */
struct acre__oom_item {
    uint64_t key; /* a tag, a class of sizes, a stream's handle, a pool's address */
    uint64_t bytes, count;
};

struct acre__oom_list {
    struct acre__oom_item top[ACRE__OOM_TOP]; /* largest first; unused ones have 0 bytes */
    struct acre__oom_item rest;               /* all others; key: how many */
};

enum acre__oom_step_kind {
    ACRE__STEP_NONE,
    ACRE__STEP_LESS,  /* ask for less: no more than `bytes` can ever be had */
    ACRE__STEP_WAIT,  /* for a stream: `bytes` would be one piece */
    ACRE__STEP_TRIM,  /* another pool: `bytes` of it are free */
    ACRE__STEP_FREE,  /* `bytes` of this pool */
    ACRE__STEP_RAISE, /* a limit, to `bytes` */
    ACRE__STEP_OTHERS /* who is outside of acre has to give up `bytes` */
};

struct acre__oom_step {
    enum acre__oom_step_kind kind;
    uint64_t bytes, key;
};

struct acre__oom {
    acre_status status; /* 0: nothing was refused yet */
    struct acre__said said;
    char device[24];
    acre_kind kind;
    uint64_t pool, stream;
    uint64_t wanted, alignment;
    uint32_t tag;       /* of the thread, or 0 */
    uint32_t limit_tag; /* whose limit is in the way, or 0 */
    uint64_t tag_used, tag_limit;
    int is_limited; /* the pool's limit is in the way */
    uint64_t used, soft_bytes, hard_bytes;
    /* The card: free + pool + pools + acre + outside = total. */
    uint64_t total, free;
    uint64_t held_here;  /* by this pool; 0 if its memory is not the card's */
    uint64_t held_there; /* by other pools of this process */
    uint64_t acre_bytes; /* other memory of acre */
    uint64_t outside;
    /* The pool: all of these = held. */
    uint64_t held, live, live_blocks, cached, quarantined, own, pending, holes, slots, ends;
    uint64_t largest_hole; /* that waits for nothing, or for the stream alone */
    uint64_t largest_run;  /* of holes, whatever they wait for */
    struct acre__oom_list tags, sizes, streams, pools;
    struct acre__oom_step steps[ACRE__OOM_STEPS];
};

/* A refusal that a thread is told of; `limit_tag` is 0 unless a tag's limit is in the way. Returns
 * the status, with the detail that was there. The pool's lock is held, and left meanwhile. */
acre_status acre__report_refusal(const struct acre__want *want, acre_status status,
                                 uint32_t limit_tag);

/* The report as words or as JSON. Writes at most `size` bytes, always ended, and returns how many
 * all of it has. */
size_t acre__report_text(const struct acre__oom *oom, char *buffer, size_t size);
size_t acre__report_json(const struct acre__oom *oom, char *buffer, size_t size);

#endif
