/* Sparse ranges (acre_range) and their budgets. Declarations that the files of src/sparse share.
 *
 * A range is an array of pieces of one size. A piece is empty, committed, or idle: decommitted and
 * still mapped. A piece with memory has one mapping of one chunk. A budget owns the lock of all its
 * ranges, their idle pieces in the order of the decommits, and the limit; a range without a budget
 * of the program has one of its own. So a commit can use the idle memory of every other range of
 * the budget under one lock.
 *
 * A *mark* is a point in stream order: events behind the work that may still use idle pieces. All
 * pieces of one decommit share a mark. A chunk is unmapped only when the mark of its piece is done.
 *
 * A commit prepares everything that can fail before it changes a piece to committed: memory, waits
 * between streams, mappings, access. Freshly mapped pieces are idle and *bare* until they have
 * access. A bare piece that the driver refuses to unmap stays idle, with its chunk and its
 * addresses, and the next commit gives it access.
 *
 * The lock is held while pieces are mapped and unmapped, and released while a thread waits for
 * work. (`struct acre__range` is something else: plain addresses, space/range.h.) */
#ifndef ACRE_SPARSE_SPARSE_H
#define ACRE_SPARSE_SPARSE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "base/lock.h"
#include "device/device.h"
#include "device/live.h"
#include "space/book.h"
#include "space/mapping.h"
#include "space/range.h"
#include "space/uses.h"

struct acre__sparse_mark {
    struct acre__uses uses;
    struct acre__sparse_mark *before; /* work on other streams, which must be done as well; NULL */
    struct acre__sparse_mark *next;   /* in the budget's list of unused marks */
    unsigned refs;                    /* idle pieces, later marks, and the range that use it */
    unsigned long long id;            /* of the stream of a decommit; 0: unknown */
};

enum acre__sparse_state {
    ACRE__SPARSE_EMPTY = 0, /* no memory */
    ACRE__SPARSE_COMMITTED,
    ACRE__SPARSE_IDLE /* mapped, in the budget's list */
};

struct acre__sparse_piece {
    struct acre__mapping *mapping;          /* NULL if empty */
    struct acre__sparse_mark *mark;         /* of an idle piece; NULL: no work uses it */
    acre_range *range;                      /* set while it has memory */
    struct acre__sparse_piece *prev, *next; /* in the budget's list of idle pieces */
    enum acre__sparse_state state;
    int is_bare; /* idle and without access */
};

struct acre_range_budget {
    struct acre__live live; /* must be first: its address is the handle */
    acre_device *dev;
    int is_private; /* belongs to one range */

    struct acre__lock lock; /* guards the rest, and all ranges of the budget */
    uint64_t limit_bytes;   /* UINT64_MAX: none */
    uint64_t held_bytes;    /* memory of all committed and idle pieces */
    uint64_t idle_bytes;
    uint64_t peak_bytes;
    acre_range *ranges;
    struct acre__sparse_piece *oldest, *newest; /* idle pieces */
    struct acre__sparse_mark *unused;           /* marks, with their events */
    acre_stream waiter;    /* waits for events, so that the host can wait without the lock */
    acre_range_stats past; /* counters of destroyed ranges */
};

struct acre_range {
    struct acre__live live; /* must be first: its address is the handle */

    /* Constant after creation. */
    acre_device *dev;
    acre_range_budget *budget;
    struct acre__range addresses;
    size_t piece_bytes, piece_count;
    struct acre__block block; /* the range's entry in the book: all addresses */
    CUmemAccessDesc access;

    acre_range *next; /* in the budget's list */
    struct acre__sparse_piece *pieces;
    struct acre__sparse_mark *used; /* the uses of acre_range_record_use, or NULL */
    acre_range_stats counts;        /* counters and the peak; current values are below */

    /* Written under the lock, read without it. */
    _Atomic uint64_t *committed; /* one bit for each piece */
    _Atomic uint64_t committed_bytes, idle_bytes;
};

/* The lists of live objects, in sparse_watch.c. Private budgets are in theirs, too: acre visits all
 * budgets of a device when memory is short. */
extern struct acre__live_list acre__sparse_ranges, acre__sparse_budgets;

/* Pieces that a call is about. */
struct acre__sparse_want {
    acre_range *range;
    size_t first, end; /* indexes of pieces */
    acre_stream stream;
    unsigned long long id; /* of the stream; 0: unknown */
};

/* ---- sparse_mark.c: points in stream order. The lock is held. ---- */

/* Returns a mark without uses and one reference; NULL if the host is out of memory. */
struct acre__sparse_mark *acre__sparse_mark_make(acre_range_budget *budget);
/* Drops a reference. NULL is a no-op. */
void acre__sparse_mark_drop(acre_range_budget *budget, struct acre__sparse_mark *mark);
/* 1 if the work is done; NULL is done. Queries events. */
int acre__sparse_mark_is_done(acre_range_budget *budget, struct acre__sparse_mark *mark);
/* 1 if work queued on this stream from now on runs after the mark's work. */
int acre__sparse_mark_is_before(acre_range_budget *budget, struct acre__sparse_mark *mark,
                                unsigned long long id);
/* Makes the stream wait for the mark's work. */
acre_status acre__sparse_mark_join(struct acre__sparse_mark *mark, acre_stream stream);
/* Makes the budget's waiter wait for the mark's work; NULL only creates the waiter. */
acre_status acre__sparse_wait_add(acre_range_budget *budget, struct acre__sparse_mark *mark);
/* Waits on the host for everything that the waiter waits for. Releases the lock meanwhile: all may
 * have changed. */
acre_status acre__sparse_wait(acre_range_budget *budget);
/* Destroys the events of unused marks. */
void acre__sparse_marks_trim(acre_range_budget *budget);

/* ---- sparse_memory.c: memory of pieces. The lock is held. ---- */

/* Moves a piece between committed and idle. */
void acre__sparse_piece_commit(struct acre__sparse_piece *piece);
void acre__sparse_piece_decommit(struct acre__sparse_piece *piece, struct acre__sparse_mark *mark);
/* Unmaps an idle piece whose work is done. Returns 1, or 0 if the driver refuses: the piece is
 * unchanged then. */
int acre__sparse_piece_empty(struct acre__sparse_piece *piece);
/* Gives an idle piece that the driver refuses to unmap to limbo, with its addresses. */
void acre__sparse_piece_abandon(struct acre__sparse_piece *piece);
/* The next idle piece from `piece` on whose work is done, or NULL. Skips the pieces of `want` and
 * of ranges other than `only`; both may be NULL. */
struct acre__sparse_piece *acre__sparse_idle_next(acre_range_budget *budget,
                                                  struct acre__sparse_piece *piece,
                                                  const struct acre__sparse_want *want,
                                                  const acre_range *only);
/* Memory of the budget that a commit of `want` cannot use: that of committed pieces, and of idle
 * ones inside the request. *needed is the memory that the request needs. */
uint64_t acre__sparse_fixed_bytes(const struct acre__sparse_want *want, uint64_t *needed);
/* Maps memory for the pieces of `want` that have none. They are idle afterwards and have access.
 * After a failure none of them is mapped, unless the driver refused to undo it. */
acre_status acre__sparse_fill(const struct acre__sparse_want *want);
/* Unmaps idle pieces of one range, or of all (NULL), until its or all memory is at most
 * `keep_bytes`. Returns the bytes unmapped. */
uint64_t acre__sparse_trim(acre_range_budget *budget, acre_range *only, uint64_t keep_bytes);

/* ---- sparse_watch.c ---- */

/* For the book: describes the committed pieces around an address. */
int acre__sparse_describe(const void *p, acre_range *range, acre_mem_info *info);
/* Adds the counters of a range to a sum. */
void acre__sparse_count(const acre_range *range, acre_range_stats *sum);
/* The hook for statistics of a device. */
void acre__sparse_device_stats(acre_device *dev, acre_device_stats *stats);

#endif
