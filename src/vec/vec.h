/* Vecs: arrays that grow in place. Declarations that the files of src/vec share.
 *
 * A vec grows in one of two ways, each a table of steps: by mapping chunks behind a stable address
 * (vec_vmm.c), or by allocating a larger block and copying (vec_segment.c). A growth is a
 * transaction: `grow` or `reserve` prepare it unseen, then `end` commits it or `undo` rolls it
 * back.
 *
 * Two locks. A thread that maps, unmaps or moves holds `change` for the whole operation. `size`
 * guards the fields that other threads read and is held for nanoseconds. While a public call
 * changes the vec, the vec is frozen: a grow that would fit waits for `change` like all others, so
 * the count belongs to that call alone. The grow-ahead thread does not freeze the vec, so grows
 * proceed meanwhile. */
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

/* The address of a vec and its sizes there. */
struct acre__vec_place {
    uint64_t at;   /* 0: none yet */
    size_t mapped; /* bytes that have memory */
    size_t room;   /* bytes of addresses */
    size_t chunks;
};

/* A growth in progress. */
struct acre__vec_growth {
    size_t need; /* required bytes */
    size_t wish; /* preferred bytes of memory; `need` suffices */
    acre_stream stream;
    struct acre__vec_place before;
    int is_begun; /* something has changed and needs `end` or `undo` */
    int is_moved; /* `moved` or `old` holds the old place */
    struct acre__moved moved;
    struct acre__block *old;
    size_t copied; /* bytes */
};

/* The steps of one way to grow. The caller holds the change lock; the vec is frozen unless the
 * caller is the grow-ahead thread. */
struct acre__vec_way {
    /* Prepares memory for growth->need bytes, which exceed the mapped bytes. After a failure,
     * is_begun says whether `undo` is needed. */
    acre_status (*grow)(acre_vec *vec, struct acre__vec_growth *growth);
    /* Prepares addresses for growth->need bytes. */
    acre_status (*reserve)(acre_vec *vec, struct acre__vec_growth *growth);
    void (*end)(acre_vec *vec, struct acre__vec_growth *growth);
    void (*undo)(acre_vec *vec, struct acre__vec_growth *growth);
    /* `kept`: bytes that stay mapped when all memory entirely behind `bytes` is freed. `shrink`
     * frees that memory, once its uses are done. NULL: memory is never freed in part. */
    size_t (*kept)(const acre_vec *vec, size_t bytes);
    void (*shrink)(acre_vec *vec, size_t bytes);
    struct acre__vec_place (*place)(const acre_vec *vec);
    void (*close)(acre_vec *vec);
};

extern const struct acre__vec_way acre__vec_vmm, acre__vec_segment;

struct acre_vec {
    struct acre__live live; /* must be first: its address is the handle */

    /* Constant after creation. */
    acre_device *dev;
    const struct acre__vec_way *way;
    size_t element_bytes;
    acre_kind kind;
    acre_vec_strategy strategy; /* never auto */
    uint32_t flags;             /* ACRE_VEC_* */
    size_t address_bytes;       /* minimum size of the first segment */
    size_t limit_bytes;         /* SIZE_MAX: none */
    size_t ahead_bytes;         /* 0: none */

    struct acre__lock change; /* guards the fields up to `size` */
    struct acre__uses uses;
    struct acre__extent extent;  /* by mapping */
    struct acre__block block;    /* by mapping: the vec's entry in the book */
    struct acre__block *segment; /* by copying: a block of acre_mem_alloc, pinned; or NULL */

    struct acre__lock size; /* guards the rest; writing `now` to `copied_bytes`, except `count`,
                               takes `change` as well */
    struct acre__vec_place now;
    size_t count;        /* elements */
    size_t mapped_count; /* elements that now.mapped bytes hold */
    int is_frozen;
    uint64_t moves, copied_bytes;

    struct acre__cond wake; /* wakes the grow-ahead thread */
    int is_ahead_wanted;    /* the thread should map more */
    int is_ahead_full;      /* mapping failed; reset when a call maps or unmaps */
    int is_ending;
    pthread_t thread;
    int has_thread;
};

/* ---- vec_list.c: the list of vecs ---- */

extern struct acre__live_list acre__vecs;

/* Entry check of all calls: ACRE_E_FORKED, ACRE_E_NULL, ACRE_E_HANDLE. Any pointer value is
 * safe. */
static inline acre_status acre__vec_check(const acre_vec *vec) {
    return acre__live_check(&acre__vecs, vec);
}
/* acre__vec_check, plus a check that the device is not lost. */
static inline acre_status acre__vec_enter(const acre_vec *vec) {
    return acre__live_enter(&acre__vecs, vec);
}

/* Publishes the vec's address and sizes. Both locks held. */
void acre__vec_tell(acre_vec *vec);
/* ACRE_E_LIMIT if `bytes` of memory exceed the vec's limit. */
acre_status acre__vec_limit_check(const acre_vec *vec, size_t bytes);

/* ---- vec_life.c ---- */

/* Pins the vec's block in the book (space/book.h) for sharing: until it is unpinned, the vec may
 * change but not be destroyed. NULL and *status for a vec that grows by copying (ACRE_E_KIND). */
struct acre__block *acre__vec_pin(acre_vec *vec, acre_status *status);

/* ---- vec_ahead.c ---- */

/* Starts the thread, if the options request one; ACRE_E_SYSTEM on failure. */
acre_status acre__vec_ahead_begin(acre_vec *vec);
/* Stops and joins the thread; the caller holds no lock. */
void acre__vec_ahead_end(acre_vec *vec);
/* Wakes the thread when less than half of ahead_bytes is left. Size lock held. */
void acre__vec_ahead_look(acre_vec *vec);

/* ---- vec_vmm.c ---- */

/* Opens the extent with addresses for `reserve` bytes. 0: as many as the device has memory, or
 * fewer if the address space is short. */
acre_status acre__vec_vmm_open(acre_vec *vec, uint32_t chunk_flags, size_t reserve, size_t least);
/* Maps `bytes` more at the end, clipped to the limit and to the addresses. Returns 0 on failure. */
int acre__vec_vmm_ahead(acre_vec *vec, size_t bytes);

#endif
