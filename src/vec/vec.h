/* Vecs: arrays that grow in place. What the files of src/vec have in common.
 *
 * A vec gets its memory in one of two ways, each a table of steps: by mapping chunks behind
 * addresses that stay (vec_vmm.c), or by taking a larger block and copying (vec_segment.c). A
 * growth is a transaction: `grow` or `reserve` prepare it without anybody seeing it, then `end`
 * keeps it or `undo` leaves the vec as it was.
 *
 * Two locks. `change` is held by whoever maps, unmaps or moves, for as long as that takes; `size`
 * guards what is told to others and is held for nanoseconds. While a call of the program's changes
 * the vec it is frozen: a grow that would fit then waits for `change` like all others, so the
 * number of elements is that call's alone. The grow-ahead thread does not freeze: grows go on under
 * it. */
#ifndef ACRE_VEC_VEC_H
#define ACRE_VEC_VEC_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "base/lock.h"
#include "base/tree.h"
#include "device/device.h"
#include "device/live.h"
#include "space/book.h"
#include "space/extent.h"
#include "space/uses.h"

/* Where a vec is and how much it has there. */
struct acre__vec_place {
    uint64_t at;   /* 0: nowhere yet */
    size_t mapped; /* bytes that have memory */
    size_t room;   /* bytes of addresses */
    size_t chunks;
};

/* A growth under way. */
struct acre__vec_growth {
    size_t need; /* bytes that there must be */
    size_t wish; /* bytes of memory that would be good to have, where they can be had */
    acre_stream stream;
    struct acre__vec_place before;
    int is_begun; /* something has changed and must be ended or undone */
    int is_moved; /* `moved` or `old` is what is left at the old place */
    struct acre__moved moved;
    struct acre__block *old;
    size_t copied; /* bytes */
};

/* The steps of a way to have memory. The vec's change lock is held, and the vec frozen where the
 * caller is no thread of ours. */
struct acre__vec_way {
    /* Prepares memory for growth->need bytes, more than there is. After a failure nothing is. */
    acre_status (*grow)(acre_vec *vec, struct acre__vec_growth *growth);
    /* The same for addresses. */
    acre_status (*reserve)(acre_vec *vec, struct acre__vec_growth *growth);
    void (*end)(acre_vec *vec, struct acre__vec_growth *growth);
    void (*undo)(acre_vec *vec, struct acre__vec_growth *growth);
    /* What the vec will have when all memory that lies wholly behind `bytes` has gone, and giving
     * it back, when its uses are done. NULL: memory never goes in part. */
    size_t (*kept)(const acre_vec *vec, size_t bytes);
    void (*shrink)(acre_vec *vec, size_t bytes);
    struct acre__vec_place (*place)(const acre_vec *vec);
    void (*close)(acre_vec *vec);
};

extern const struct acre__vec_way acre__vec_vmm, acre__vec_segment;

struct acre_vec {
    struct acre__live live; /* first: its address is the handle */

    /* Fixed. */
    acre_device *dev;
    const struct acre__vec_way *way;
    size_t element_bytes;
    acre_kind kind;
    acre_vec_strategy strategy; /* never auto */
    uint32_t flags;             /* ACRE_VEC_* */
    size_t address_bytes;       /* of the first segment at least */
    size_t limit_bytes;         /* SIZE_MAX: none */
    size_t ahead_bytes;         /* 0: none */

    struct acre__lock change; /* guards, up to `size` */
    struct acre__uses uses;
    struct acre__extent extent;  /* by mapping */
    struct acre__block block;    /* by mapping: its entry in the book */
    struct acre__block *segment; /* by copying: a block of acre_mem_alloc, pinned; or NULL */

    struct acre__lock size; /* guards the rest; changed with `change` held as well, but for count */
    struct acre__vec_place now;
    size_t count;        /* elements */
    size_t mapped_count; /* elements that now.mapped bytes hold */
    int is_frozen;
    uint64_t moves, copied_bytes;

    struct acre__cond wake; /* of the grow-ahead thread */
    int is_ahead_wanted;    /* there is less than enough ahead */
    int is_ahead_full;      /* no more could be mapped; until a call maps or unmaps something */
    int is_ending;
    pthread_t thread;
    int has_thread;
};

/* ---- vec_list.c: which vecs there are ---- */

extern struct acre__live_list acre__vecs;

/* How calls on a vec begin: ACRE_E_FORKED, ACRE_E_NULL, ACRE_E_HANDLE. Any value is safe. */
static inline acre_status acre__vec_check(const acre_vec *vec) {
    return acre__live_check(&acre__vecs, vec);
}
/* The same, and the device is well. */
static inline acre_status acre__vec_enter(const acre_vec *vec) {
    return acre__live_enter(&acre__vecs, vec);
}

/* Tells others where the vec is now and how much it has. Both locks held. */
void acre__vec_tell(acre_vec *vec);
/* ACRE_E_LIMIT, if `bytes` of memory are more than the vec may have. */
acre_status acre__vec_limit_check(const acre_vec *vec, size_t bytes);

/* ---- vec_life.c ---- */

/* The vec's block, pinned in the book (space/book.h): the vec may change but not end until it is
 * unpinned. NULL and *status for a vec that copies (ACRE_E_KIND). For who shares it. */
struct acre__block *acre__vec_pin(acre_vec *vec, acre_status *status);

/* ---- vec_ahead.c ---- */

/* Starts the thread, if one is wanted; ACRE_E_SYSTEM. */
acre_status acre__vec_ahead_begin(acre_vec *vec);
/* Ends it and waits for that; no lock is held. */
void acre__vec_ahead_end(acre_vec *vec);
/* Wakes it when less than half of what it is to keep is left. Size lock held. */
void acre__vec_ahead_look(acre_vec *vec);

/* ---- vec_vmm.c ---- */

/* Opens the extent with addresses for `reserve` bytes; 0: as many as the device has memory, or as
 * can be had. */
acre_status acre__vec_vmm_open(acre_vec *vec, uint32_t chunk_flags, size_t reserve, size_t least);
/* Maps `bytes` more at the end, clipped to the limit and to the addresses. 0 when it cannot. */
int acre__vec_vmm_ahead(acre_vec *vec, size_t bytes);

#endif
