/* The record of a thread's last failed allocation, for acre_oom_report.
 *
 * A failed call collects numbers into the thread's record of fixed size. acre_oom_report formats
 * them on request. */
#ifndef ACRE_POOL_REPORT_H
#define ACRE_POOL_REPORT_H

#include "base/status.h"
#include "pool/pool.h"
#include "pool/pool_tag.h"

enum {
    ACRE__OOM_TOP = 8, /* largest tags, sizes, streams and pools kept; the rest is summed */
    ACRE__OOM_STEPS = 4
};

/* In place of a stream: frees on a relay, which waits for an event or for several streams. */
#define ACRE__OOM_EVENT UINT64_MAX

/* An entry of a list. The list defines the meaning of the key. */
struct acre__oom_item {
    uint64_t key; /* a tag, a size class, a call stack, a stream's handle, or a pool's address */
    uint64_t bytes, count;
};

struct acre__oom_list {
    struct acre__oom_item top[ACRE__OOM_TOP]; /* largest first; unused ones have 0 bytes */
    struct acre__oom_item rest;               /* sum of all others; key: their number */
};

enum acre__oom_step_kind {
    ACRE__STEP_NONE,
    ACRE__STEP_LESS,         /* request less: at most `bytes` are possible */
    ACRE__STEP_WAIT,         /* for a stream: then `bytes` are contiguous */
    ACRE__STEP_TRIM,         /* another pool, of which `bytes` are free */
    ACRE__STEP_FREE,         /* `bytes` of this pool */
    ACRE__STEP_RAISE,        /* a limit, to `bytes` */
    ACRE__STEP_RAISE_DEVICE, /* the limit of the device, to `bytes` */
    ACRE__STEP_OTHERS        /* users outside acre must free `bytes` */
};

struct acre__oom_step {
    enum acre__oom_step_kind kind;
    uint64_t bytes, key;
};

struct acre__oom {
    acre_status status; /* 0: no allocation has failed yet */
    struct acre__said said;
    char device[24];
    acre_kind kind;
    uint64_t pool, stream;
    uint64_t asked, wanted, alignment; /* asked: as requested; wanted: as the pool rounds it */
    uint32_t tag;                      /* set by the thread, or 0 */
    uint32_t limit_tag;                /* tag whose limit was exceeded, or 0 */
    uint64_t tag_used, tag_limit;
    int is_limited; /* the pool's limit was exceeded */
    uint64_t used, soft_limit_bytes, limit_bytes;
    /* The card: free + held_here + held_there + acre_bytes + outside = total. */
    uint64_t total, free;
    uint64_t whole;                        /* what the request takes, in whole chunks */
    uint64_t most;                         /* what acre may hold at most */
    uint64_t device_limit, device_margin;  /* of acre_device_set_limits; 0: none */
    uint64_t device_held;                  /* what the limit applies to */
    uint64_t short_of_limit, short_of_all; /* what must be released for the request */
    uint64_t held_here;                    /* by this pool; 0 if it uses host memory */
    uint64_t held_there;                   /* by other pools of this process */
    uint64_t acre_bytes;                   /* other memory held by acre */
    uint64_t outside;
    /* The pool: the other fields of this line, except live_blocks, add up to `held`. */
    uint64_t spillable, spilled; /* bytes of spillable blocks on the device, and away */
    uint64_t held, live, live_blocks, cached, quarantined, graphs, own, pending, holes, slots, ends;
    uint64_t largest_hole; /* the largest request that could be served now, with the alignment */
    int is_over;  /* acre holds more than the limit of the device, of which `in_use` are in use */
    int is_there; /* and the pool has memory that could serve the request otherwise */
    uint64_t in_use;
    uint64_t largest_run; /* contiguous holes, whatever they wait for */
    uint32_t stack;       /* of the failed call; 0: unknown */
    struct acre__oom_list tags, sizes, stacks, streams, pools;
    struct acre__oom_step steps[ACRE__OOM_STEPS];
};

/* Records a failed request for acre_oom_report, in the calling thread. `limit_tag` is the tag whose
 * limit was exceeded, or 0. Returns the status, with its detail. The pool's lock is held, but
 * released in between. */
acre_status acre__report_refusal(const struct acre__want *want, acre_status status,
                                 uint32_t limit_tag);

/* Write the report as text or as JSON: at most `size` bytes, always terminated. Return the length
 * of the whole report. */
size_t acre__report_text(const struct acre__oom *oom, char *buffer, size_t size);
size_t acre__report_json(const struct acre__oom *oom, char *buffer, size_t size);

#endif
