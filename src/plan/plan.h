/* Plans: what the files of src/plan have in common, but for the placer (place.h), which is pure.
 *
 * A plan has an arena on the device and one on the host. An arena is one segment of memory, whose
 * size was given, or several, taken as wishes are satisfied. Wishes that live for all steps are
 * *pieces* of a segment: each gets the next free place behind the one before and keeps it. Wishes
 * for some steps are placed by the placer when the plan is committed, around the pieces of the
 * segment they go to. What a loop needs is one piece for each place, inside of which its blocks are
 * placed (plan_record.c).
 *
 * A lock guards all of a plan but for the loop's state in a step, which is the thread's that began
 * the step. Nothing that may call the program (a pool's callback) is called with it held. */
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
    ACRE__PLAN_GRAIN = 256, /* everything is aligned to, and a multiple of, at least this */
    ACRE__PLAN_PLACES = 2   /* ACRE_PLACE_DEVICE and ACRE_PLACE_HOST, which index arrays */
};
#define ACRE__PLAN_ALIGN_MOST ((uint64_t)1 << 30)
#define ACRE__PLAN_BYTES_MOST ((uint64_t)1 << 60) /* so that a few of them can be added up */

/* ---- plan_arena.c ---- */

struct acre__plan_segment;

struct acre__plan_piece {
    struct acre__node node;             /* key: offset in the segment */
    struct acre__plan_segment *segment; /* NULL: nowhere yet */
    uint64_t bytes, alignment;          /* both multiples of the grain */
    uint64_t before, end_before;        /* the segment's cursor and end before it was placed */
};

struct acre__plan_segment {
    struct acre__plan_segment *next;
    void *mem;
    size_t mem_bytes;
    struct acre__block *pinned; /* its entry in the book; NULL: pageable memory */
    uint64_t at;                /* address */
    uint64_t bytes;             /* for wishes */
    struct acre__tree pieces;
    uint64_t cursor; /* pieces that have no fixed offset are placed from here on */
    uint64_t end;    /* highest end of all that is placed */
};

enum acre__plan_size {
    ACRE__PLAN_GIVEN,   /* taken at create */
    ACRE__PLAN_DEFAULT, /* taken with the first wish */
    ACRE__PLAN_NEEDED   /* taken as wishes are satisfied */
};

/* A part that pieces keep clear of: a wish for some steps that has a fixed offset. */
struct acre__plan_kept {
    struct acre__plan_kept *next;
    uint64_t offset, bytes;
};

struct acre__plan_arena {
    acre_device *dev;
    uint32_t place;
    acre_kind kind;
    enum acre__plan_size size;
    uint64_t bytes;                      /* of a size that was given, or the default */
    uint64_t whole;                      /* the same, before others took of the default's room */
    struct acre__plan_segment *segments; /* in the order they were made */
    uint64_t held;                       /* bytes of all */
    struct acre__plan_kept *kept;        /* in the first segment */
};

/* "device" or "host", for messages. */
const char *acre__plan_place_name(uint32_t place);

/* The default size of a place, clipped to what is free now. */
acre_status acre__plan_arena_default(acre_device *dev, uint32_t place, uint64_t *whole,
                                     uint64_t *clipped);
/* Takes the memory of an arena whose size is set, if that was not done yet. */
acre_status acre__plan_arena_ready(struct acre__plan_arena *arena);

/* Another segment of at least `bytes`, at the end of the list, where pieces of that alignment find
 * as many. With `ahead` it is as large as all others together, up to a bound, if that can be had.
 */
acre_status acre__plan_arena_more(struct acre__plan_arena *arena, uint64_t bytes,
                                  uint64_t alignment, int ahead);
/* Gives back the segments behind `last` (NULL: all). */
void acre__plan_arena_cut(struct acre__plan_arena *arena, struct acre__plan_segment *last);
struct acre__plan_segment *acre__plan_arena_last(const struct acre__plan_arena *arena);

/* A place for a piece in what there is: 1, or 0. */
int acre__plan_arena_take(struct acre__plan_arena *arena, struct acre__plan_piece *piece);
/* The same for one with a fixed offset in the first segment. */
int acre__plan_arena_take_at(struct acre__plan_arena *arena, struct acre__plan_piece *piece,
                             uint64_t offset);
/* The piece that was placed last goes; of several, the last one first. */
void acre__plan_arena_untake(struct acre__plan_piece *piece);
/* Where the next piece would end in the segment, had it no end of its own; `from` is where to look.
 */
uint64_t acre__plan_segment_would_end(const struct acre__plan_arena *arena,
                                      const struct acre__plan_segment *segment, uint64_t from,
                                      uint64_t bytes, uint64_t alignment);

/* Takes a piece from new memory, if the arena may have some: `desired` bytes, see
 * acre__plan_arena_more. */
acre_status acre__plan_arena_grow(struct acre__plan_arena *arena, struct acre__plan_piece *piece,
                                  uint64_t desired, uint64_t alignment, int ahead);
/* Takes a piece where it can be had, with new memory if the arena may have some. */
acre_status acre__plan_arena_get(struct acre__plan_arena *arena, struct acre__plan_piece *piece);

/* Forgets all pieces; the memory stays. */
void acre__plan_arena_clear(struct acre__plan_arena *arena);
uint64_t acre__plan_arena_used(const struct acre__plan_arena *arena);

/* ACRE_E_DEVICE_MEMORY or ACRE_E_HOST_MEMORY, as users know it. */
acre_status acre__plan_not_enough(const struct acre__plan_arena *arena, uint64_t desired);

/* ACRE_E_INVALID: the piece cannot be at that offset. */
acre_status acre__plan_not_clear(const struct acre__plan_arena *arena,
                                 const struct acre__plan_piece *piece, uint64_t offset);
/* In MB, rounded up, for messages. */
static inline unsigned long long acre__plan_in_mb(uint64_t bytes) {
    return (unsigned long long)((bytes + ((1 << 20) - 1)) >> 20);
}

/* ---- wishes ---- */

/* Only the first wish of an adjacent group has a piece, for all of it. */
struct acre__plan_wish {
    struct acre__plan_wish *next; /* of all, in the order given */
    struct acre__plan_wish *wait; /* of those that wait for the same call */
    struct acre__plan_wish *with; /* the next of the group */
    struct acre__plan_wish *head; /* the first of the group, or itself */
    struct acre__plan_piece piece;
    struct acre__plan_kept kept; /* with steps and a fixed offset */
    uint64_t bytes, alignment;   /* as asked for; 0 is 256 */
    uint64_t inner;              /* offset in the group */
    uint64_t first, last;        /* steps */
    uint64_t fixed;              /* offset */
    uint64_t number;             /* in the order given */
    uint32_t place, flags;       /* ACRE_WISH_* */
    void **out;
    int is_placed;
    char name[]; /* ends with a 0 */
};

struct acre__plan_queue {
    struct acre__plan_wish *first, *last; /* by `wait`; heads of groups alone */
    size_t count;
};

/* ---- loops (plan_step.c, plan_record.c) ---- */

enum acre__plan_op_kind {
    ACRE__OP_END,   /* behind the last one, and whenever the thread must not follow the ops */
    ACRE__OP_ALLOC, /* of a slot */
    ACRE__OP_FREE,
    ACRE__OP_POOL /* an alloc of what outlives the step */
};

/* A call of the recorded step. */
struct acre__plan_op {
    void *p; /* in the plan's memory, once it is placed */
    uint64_t bytes, alignment;
    uint32_t slot;
    uint8_t place, kind;
};

/* A block of the recorded step. */
struct acre__plan_slot {
    void *p;            /* the pool's, later the plan's */
    uint64_t bytes;     /* rounded up to the grain */
    uint64_t alignment; /* the grain or more */
    uint64_t offset;    /* in the loop's piece */
    size_t begin, end;  /* ops that allocate and free it; end 0: it outlives the step */
    uint32_t place;
    uint32_t same; /* the next slot with this address, + 1; 0: none */
};

enum acre__plan_loop_state {
    ACRE__LOOP_NEW,       /* the next step is recorded */
    ACRE__LOOP_RECORDING, /* in that step */
    ACRE__LOOP_RECORDED,  /* but not placed, not yet or for lack of memory */
    ACRE__LOOP_PLACED
};

struct acre__plan_loop {
    enum acre__plan_loop_state state;
    acre_stream stream;               /* of the step */
    const struct acre__plan_op *next; /* what a call is compared with; an ACRE__OP_END if nothing */
    struct acre__plan_op *ops;        /* `op_count`, and an ACRE__OP_END */
    size_t op_count, op_room;
    size_t at; /* the next op, when `next` is not in ops */
    struct acre__plan_slot *slots;
    uint32_t slot_count, slot_room;
    uint8_t *live;     /* by slot */
    uint32_t *table;   /* from addresses to slots + 1 (plan_record.c) */
    size_t table_room; /* a power of two */
    uint32_t *late;    /* slots that were still live when a step ended */
    uint32_t late_count;
    int is_strayed; /* something in this step went another way than recorded */
    int is_broken;  /* no memory to go on recording */
    int is_solved;  /* the slots have their offsets */
    int is_told;    /* the log has that it cannot be placed */
    struct acre__plan_piece pieces[ACRE__PLAN_PLACES];
    uint64_t whole[ACRE__PLAN_PLACES]; /* bytes of the pieces */
    uint64_t alignment[ACRE__PLAN_PLACES];
    uint64_t bound; /* of both places */
    uint64_t recorded;
};

/* ---- plans ---- */

struct acre_plan {
    struct acre__live live; /* first: its address is the handle */
    acre_device *dev;
    uint32_t flags;
    uint64_t budget;
    struct acre__lock lock; /* guards the rest */
    struct acre__plan_arena arenas[ACRE__PLAN_PLACES];
    struct acre__plan_wish *wishes, *last_wish;
    struct acre__plan_queue waiting; /* for satisfy */
    struct acre__plan_queue timed;   /* for commit */
    size_t wish_count, waiting_count;
    int is_committed, is_optimal;
    uint64_t bound[ACRE__PLAN_PLACES];
    struct acre__uses uses; /* of the round before, until it was waited for */
    int must_wait;          /* for these */
    int must_wait_all;      /* for all work of the device */
    uint64_t nodes, rounds, waits, steps;
    acre_pool *pools[ACRE__PLAN_PLACES]; /* of loops; NULL: the default, not asked for yet */
    _Atomic uint64_t stepper; /* id of the thread in a step; 0: none is; or ACRE__PLAN_LEFT */
    struct acre__plan_loop loop;
    struct acre__uses loop_uses; /* by the steps so far */
    /* Of loops. Written by the thread in the step alone, read by all. */
    _Atomic uint64_t hits, misses, pool_calls;
};

/* ---- plan_life.c ---- */

extern struct acre__live_list acre__plans;

/* How calls begin: ACRE_E_FORKED, ACRE_E_NULL, ACRE_E_HANDLE. Any value is safe. */
static inline acre_status acre__plan_check(const acre_plan *plan) {
    return acre__live_check(&acre__plans, plan);
}
/* The same, and the device is well. */
static inline acre_status acre__plan_enter(const acre_plan *plan) {
    return acre__live_enter(&acre__plans, plan);
}

/* How many plans have ended: what a thread knows of a plan is good as long as this is the same. */
extern _Atomic uint64_t acre__plan_ends;

/* Frees all wishes; lock held. */
void acre__plan_forget_wishes(acre_plan *plan);

/* The stepper of a step whose thread has ended. */
#define ACRE__PLAN_LEFT UINT64_MAX

/* ---- plan_step.c: lock held ---- */

/* ACRE_E_BUSY if a thread is in a step. One that was left is ended. */
acre_status acre__plan_step_is_over(acre_plan *plan, const char *who);

/* ---- plan_commit.c: lock held ---- */

/* Waits for the round before, if that was not done yet. */
acre_status acre__plan_wait(acre_plan *plan);
/* Places what waits, and writes it. After a failure nothing has changed. */
acre_status acre__plan_satisfy(acre_plan *plan);
/* The same with the wishes for steps; fixes the plan. */
acre_status acre__plan_commit(acre_plan *plan);

/* The negative errno of the placer, as a status. */
acre_status acre__plan_placer_fail(int error);

/* ---- plan_record.c ---- */

/* In the recorded step: notes a call. What cannot be noted for lack of memory breaks the recording.
 */
void acre__plan_record_alloc(struct acre__plan_loop *loop, uint32_t place, size_t bytes,
                             size_t alignment, void *p);
void acre__plan_record_free(struct acre__plan_loop *loop, void *p);
/* The step has ended. */
void acre__plan_record_end(struct acre__plan_loop *loop);
/* Places a loop that was recorded; lock held. Nothing has changed after a failure. */
acre_status acre__plan_record_place(acre_plan *plan);
/* Forgets it; the pieces are gone already, or with the arena. */
void acre__plan_record_forget(struct acre__plan_loop *loop);
/* The slot that is live at an address; NULL if none is. */
struct acre__plan_slot *acre__plan_record_find(const struct acre__plan_loop *loop, const void *p);

#endif
