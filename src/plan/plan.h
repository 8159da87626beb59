/* Plans: declarations that the files of src/plan share, except the placer (place.h), which is pure.
 *
 * A plan has an arena on the device and one on the host. An arena is one segment of memory of a
 * given size, or several segments that are allocated as requests are satisfied. A request (struct
 * acre__plan_wish) that lives for all steps is a *piece* of a segment: it gets the next free place
 * behind the previous one and keeps it. The placer places requests for some steps when the plan is
 * committed, around the pieces of their segment. A loop has one piece for each place, which holds
 * its blocks (plan_record.c).
 *
 * A lock guards the whole plan, except for the loop's state during a step: that belongs to the
 * thread that began the step. Functions that may call the program (a pool's callback) are never
 * called with the lock held. */
#ifndef ACRE_PLAN_PLAN_H
#define ACRE_PLAN_PLAN_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "base/lock.h"
#include "base/round.h"
#include "base/tree.h"
#include "device/device.h"
#include "device/live.h"
#include "space/book.h"
#include "space/uses.h"

enum {
    ACRE__PLAN_GRAIN = 256, /* addresses and sizes of pieces are multiples of this */
    ACRE__PLAN_PLACES = 2   /* ACRE_PLACE_DEVICE and ACRE_PLACE_HOST index arrays */
};
#define ACRE__PLAN_ALIGN_MOST ((uint64_t)1 << 30)
#define ACRE__PLAN_BYTES_MOST ((uint64_t)1 << 60) /* so that sums of a few do not overflow */

/* ---- plan_arena.c ---- */

struct acre__plan_segment;

struct acre__plan_piece {
    struct acre__node node;             /* key: offset in the segment */
    struct acre__plan_segment *segment; /* NULL: not placed */
    uint64_t bytes, alignment;          /* both multiples of the grain */
    uint64_t before, end_before;        /* the segment's cursor and end before this piece */
};

struct acre__plan_segment {
    struct acre__plan_segment *next;
    void *mem;
    size_t mem_bytes;
    struct acre__block *pinned; /* its entry in the book; NULL: pageable memory */
    uint64_t at;                /* address */
    uint64_t bytes;             /* usable */
    struct acre__tree pieces;
    uint64_t cursor; /* pieces without a fixed offset are placed from here on */
    uint64_t end;    /* highest end of everything placed */
};

enum acre__plan_size {
    ACRE__PLAN_GIVEN,   /* allocated by acre_plan_create */
    ACRE__PLAN_DEFAULT, /* allocated with the first request */
    ACRE__PLAN_NEEDED   /* allocated as requests are satisfied */
};

/* A range that pieces must not overlap: a request for some steps with a fixed offset. */
struct acre__plan_kept {
    struct acre__plan_kept *next;
    uint64_t offset, bytes;
};

struct acre__plan_arena {
    acre_device *dev;
    uint32_t place;
    acre_kind kind;
    enum acre__plan_size size;
    uint64_t bytes;                      /* the given size, or the default */
    uint64_t whole;                      /* the default at creation; `bytes` may be less later */
    struct acre__plan_segment *segments; /* oldest first */
    uint64_t held;                       /* bytes of all segments */
    struct acre__plan_kept *kept;        /* in the first segment */
};

/* "device" or "host", for messages. */
const char *acre__plan_place_name(uint32_t place);

/* Computes the default size of a place, and clips it to the memory that is free now. */
acre_status acre__plan_arena_default(acre_device *dev, uint32_t place, uint64_t *whole,
                                     uint64_t *clipped);
/* Allocates the memory of an arena whose size is set, unless it has some already. */
acre_status acre__plan_arena_ready(struct acre__plan_arena *arena);

/* Appends a segment with room for `bytes` at that alignment. With `ahead` the segment is as large
 * as all others together, up to a limit, if memory allows. */
acre_status acre__plan_arena_more(struct acre__plan_arena *arena, uint64_t bytes,
                                  uint64_t alignment, int ahead);
/* Frees the segments behind `last` (NULL: all). */
void acre__plan_arena_cut(struct acre__plan_arena *arena, struct acre__plan_segment *last);
struct acre__plan_segment *acre__plan_arena_last(const struct acre__plan_arena *arena);

/* Places a piece in the existing memory; returns 0 if it does not fit. */
int acre__plan_arena_take(struct acre__plan_arena *arena, struct acre__plan_piece *piece);
/* Places a piece at a fixed offset of the first segment; returns 0 if it does not fit there. */
int acre__plan_arena_take_at(struct acre__plan_arena *arena, struct acre__plan_piece *piece,
                             uint64_t offset);
/* Removes a piece. Pieces must be removed in reverse order of placement. */
void acre__plan_arena_untake(struct acre__plan_piece *piece);
/* Returns where a piece would end in the segment if the segment were unlimited; the search begins
 * at `from`. */
uint64_t acre__plan_segment_would_end(const struct acre__plan_arena *arena,
                                      const struct acre__plan_segment *segment, uint64_t from,
                                      uint64_t bytes, uint64_t alignment);

/* Places a piece in a new segment with room for `desired` bytes (see acre__plan_arena_more), if the
 * arena may grow. */
acre_status acre__plan_arena_grow(struct acre__plan_arena *arena, struct acre__plan_piece *piece,
                                  uint64_t desired, uint64_t alignment, int ahead);
/* Places a piece in existing memory, or in new memory if the arena may grow. */
acre_status acre__plan_arena_get(struct acre__plan_arena *arena, struct acre__plan_piece *piece);

/* Removes all pieces; keeps the memory. */
void acre__plan_arena_clear(struct acre__plan_arena *arena);
uint64_t acre__plan_arena_used(const struct acre__plan_arena *arena);

/* Fails with ACRE_E_DEVICE_MEMORY or ACRE_E_HOST_MEMORY and the documented detail. */
acre_status acre__plan_not_enough(const struct acre__plan_arena *arena, uint64_t desired);

/* Fails with ACRE_E_INVALID: the piece cannot be at that offset. */
acre_status acre__plan_not_clear(const struct acre__plan_arena *arena,
                                 const struct acre__plan_piece *piece, uint64_t offset);
/* Converts to MB, rounded up, for messages. */
static inline unsigned long long acre__plan_in_mb(uint64_t bytes) {
    return (unsigned long long)((bytes + ((1 << 20) - 1)) >> 20);
}

/* ---- requests ---- */

/* A request. Only the first request of an adjacent group has a piece, which holds the whole
 * group. */
struct acre__plan_wish {
    struct acre__plan_wish *next; /* of all requests, in call order */
    struct acre__plan_wish *wait; /* of the requests that wait for the same call */
    struct acre__plan_wish *with; /* the next of its group */
    struct acre__plan_wish *head; /* the first of its group, or itself */
    struct acre__plan_piece piece;
    struct acre__plan_kept kept; /* used with steps and a fixed offset */
    uint64_t bytes, alignment;   /* as requested; 0 means 256 */
    uint64_t inner;              /* offset in the group */
    uint64_t first, last;        /* steps */
    uint64_t fixed;              /* offset */
    uint64_t number;             /* in call order */
    uint32_t place, flags;       /* ACRE_WISH_* */
    void **out;
    int is_placed;
    char name[]; /* NUL-terminated */
};

struct acre__plan_queue {
    struct acre__plan_wish *first, *last; /* linked by `wait`; only heads of groups */
    size_t count;
};

/* ---- loops (plan_step.c, plan_record.c) ---- */

enum acre__plan_op_kind {
    ACRE__OP_END,   /* after the last op, and whenever the thread must not follow the ops */
    ACRE__OP_ALLOC, /* allocates a slot */
    ACRE__OP_FREE,
    ACRE__OP_POOL /* an allocation that outlives the step */
};

/* A call of the recorded step. */
struct acre__plan_op {
    void *p; /* address in the plan's memory, once the loop is placed */
    uint64_t bytes, alignment;
    uint32_t slot;
    uint8_t place, kind;
};

/* A block of the recorded step. */
struct acre__plan_slot {
    void *p;            /* address in the pool, later in the plan */
    uint64_t bytes;     /* rounded up to the grain */
    uint64_t alignment; /* the grain or more */
    uint64_t offset;    /* in the loop's piece */
    size_t begin, end;  /* ops that allocate and free it; end 0: it outlives the step */
    uint32_t place;
    uint32_t same; /* index of the next slot with this address, plus 1; 0: none */
};

enum acre__plan_loop_state {
    ACRE__LOOP_NEW,       /* the next step will be recorded */
    ACRE__LOOP_RECORDING, /* in the recorded step */
    ACRE__LOOP_RECORDED,  /* recorded but not placed: not yet, or out of memory */
    ACRE__LOOP_PLACED
};

struct acre__plan_loop {
    enum acre__plan_loop_state state;
    acre_stream stream;               /* of the step */
    const struct acre__plan_op *next; /* the op that a call is compared with, or an ACRE__OP_END */
    struct acre__plan_op *ops;        /* `op_count` ops and an ACRE__OP_END */
    size_t op_count, op_room;
    size_t at; /* index of the next op when `next` is not in ops */
    struct acre__plan_slot *slots;
    uint32_t slot_count, slot_room;
    uint8_t *live;     /* by slot */
    uint32_t *table;   /* hash table from addresses to slot index + 1 (plan_record.c) */
    size_t table_room; /* a power of two */
    uint32_t *late;    /* slots still live when a step ended */
    uint32_t late_count;
    int is_strayed; /* this step differs from the recording */
    int is_broken;  /* out of memory while recording */
    int is_solved;  /* the slots have their offsets */
    int is_told;    /* the failure to place the loop has been logged */
    struct acre__plan_piece pieces[ACRE__PLAN_PLACES];
    uint64_t whole[ACRE__PLAN_PLACES]; /* bytes of the pieces */
    uint64_t alignment[ACRE__PLAN_PLACES];
    uint64_t bound; /* of both places */
    uint64_t recorded;
};

/* ---- plans ---- */

struct acre_plan {
    struct acre__live live; /* must be first: its address is the handle */
    acre_device *dev;
    uint32_t flags;
    uint64_t budget;
    struct acre__lock lock; /* guards the rest */
    struct acre__plan_arena arenas[ACRE__PLAN_PLACES];
    /* Memory of loops, allocated as needed, in places whose size is the default and that have no
     * memory yet: the default is for requests, which come one by one. */
    struct acre__plan_arena loop_arenas[ACRE__PLAN_PLACES];
    struct acre__plan_wish *wishes, *last_wish;
    struct acre__plan_queue waiting; /* for acre_plan_satisfy */
    struct acre__plan_queue timed;   /* for acre_plan_commit */
    size_t wish_count, waiting_count;
    int is_committed, is_optimal;
    uint64_t bound[ACRE__PLAN_PLACES];
    struct acre__uses uses; /* of the previous round, until the plan has waited for it */
    int must_wait;          /* for `uses` */
    int must_wait_all;      /* for all work of the device */
    uint64_t nodes, rounds, waits, steps;
    acre_pool *pools[ACRE__PLAN_PLACES]; /* for loops; NULL: the default, not looked up yet */
    _Atomic uint64_t stepper; /* id of the thread in a step; 0: none; or ACRE__PLAN_LEFT */
    struct acre__plan_loop loop;
    struct acre__uses loop_uses; /* of the steps so far */
    /* Counters of loops. Only the thread in the step writes them; any thread reads them. */
    _Atomic uint64_t hits, misses, pool_calls;
};

static inline uint64_t acre__plan_held(const acre_plan *plan, uint32_t place) {
    return plan->arenas[place].held + plan->loop_arenas[place].held;
}

/* ---- plan_life.c ---- */

extern struct acre__live_list acre__plans;

/* Entry check of all calls: ACRE_E_FORKED, ACRE_E_NULL, ACRE_E_HANDLE. Any pointer value is
 * safe. */
static inline acre_status acre__plan_check(const acre_plan *plan) {
    return acre__live_check(&acre__plans, plan);
}
/* acre__plan_check, plus a check that the device is not lost. */
static inline acre_status acre__plan_enter(const acre_plan *plan) {
    return acre__live_enter(&acre__plans, plan);
}

/* Number of plans destroyed. What a thread has cached about a plan is valid while this number is
 * unchanged. */
extern _Atomic uint64_t acre__plan_ends;

/* Frees all requests; lock held. */
void acre__plan_forget_wishes(acre_plan *plan);

/* The stepper of a step whose thread has exited. */
#define ACRE__PLAN_LEFT UINT64_MAX

/* ---- plan_step.c: lock held ---- */

/* ACRE_E_BUSY if a thread is in a step. Ends a step whose thread has exited. */
acre_status acre__plan_step_is_over(acre_plan *plan, const char *who);

/* ---- plan_commit.c: lock held ---- */

/* Waits for the previous round, unless that is done already. */
acre_status acre__plan_wait(acre_plan *plan);
/* Places the waiting requests and writes their addresses. After a failure nothing has changed. */
acre_status acre__plan_satisfy(acre_plan *plan);
/* As acre__plan_satisfy, plus the requests for steps; fixes the plan. */
acre_status acre__plan_commit(acre_plan *plan);

/* Converts the placer's negative errno to a status. */
acre_status acre__plan_placer_fail(int error);

/* ---- plan_record.c ---- */

/* Record a call of the recorded step. Running out of memory breaks the recording. */
void acre__plan_record_alloc(struct acre__plan_loop *loop, uint32_t place, size_t bytes,
                             size_t alignment, void *p);
void acre__plan_record_free(struct acre__plan_loop *loop, void *p);
/* Ends the recorded step. */
void acre__plan_record_end(struct acre__plan_loop *loop);
/* Places a recorded loop; lock held. After a failure nothing has changed. */
acre_status acre__plan_record_place(acre_plan *plan);
/* Resets the loop. Its pieces are removed already, or together with the arena. */
void acre__plan_record_forget(struct acre__plan_loop *loop);
/* Returns the live slot at an address, or NULL. */
struct acre__plan_slot *acre__plan_record_find(const struct acre__plan_loop *loop, const void *p);

#endif
