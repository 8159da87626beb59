/* An arena: an allocator that places pieces of any size in physical memory.
 *
 * Addresses come in regions. Pieces tile a region. A piece is taken (allocated), a hole (free, with
 * memory), bare (addresses without memory) or a ghost (an old mapping, see below). Where the device
 * supports mapping, memory comes in chunks that the arena maps into a region as needed. Elsewhere a
 * region is one block of acre_mem_alloc.
 *
 * A hole waits for a stream, for a batch of events, or for nothing (`ready`). A stream may reuse
 * its own holes at once, even with earlier work in flight: its later work is queued behind that.
 * Only unmapping and releasing must wait.
 *
 * The budget is a little more than the high-water mark of taken bytes. Within the budget the arena
 * creates memory as needed. Beyond it the arena *gathers* free chunks: it maps them side by side at
 * other addresses. If the device has not passed a chunk's old address yet, the arena maps the chunk
 * a second time. The old mapping is then a ghost: never allocated, and kept until the device has
 * passed it.
 *
 * An arena starts *apart*: a piece of at least `own_bytes` has chunks of its own, created to its
 * size and released when other pieces need the memory. That suits programs whose live memory only
 * rises or stays, as long as the device keeps up. The arena becomes *joined* when live memory falls
 * by 30 %, or when work in flight still uses the memory to release. It stays joined until it holds
 * no memory. Pieces then share chunks, best fit places them (or first fit, if few of them fill
 * their hole), and the arena gathers free chunks. Placement then depends on the pieces alone, so a
 * program that repeats itself makes no driver call. docs/design.md and docs/measurements.md list
 * the alternatives that were tried.
 *
 * The owner of the arena locks it. */
#ifndef ACRE_ARENA_ARENA_H
#define ACRE_ARENA_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "base/atomic.h"
#include "base/round.h"
#include "base/tree.h"
#include "space/book.h"
#include "space/mapping.h"
#include "space/range.h"

enum { ACRE__FIT_SHARED, ACRE__FIT_OWN, ACRE__FITS }; /* chunks shared by pieces, or of one piece */

struct acre__piece;

struct acre__holes {
    struct acre__tree fit[ACRE__FITS]; /* by size, then by address; joined: all are SHARED */
    uint64_t bytes;
    struct acre__piece *ghosts; /* old mappings, linked by `user` */
};

/* The holes that a stream may reuse besides ready ones: its two generations (pool_stream.h). */
struct acre__reach {
    struct acre__holes *recent, *marked;
    int is_behind; /* the stream's work is in flight: its holes cannot be released soon */
};

enum acre__piece_state {
    ACRE__PIECE_TAKEN,
    ACRE__PIECE_HOLE,
    ACRE__PIECE_BARE,
    ACRE__PIECE_GHOST, /* old mapping of one chunk that is mapped elsewhere */
    ACRE__PIECE_LOST   /* in no tree: being changed, or the driver refuses to unmap it */
};

struct acre__piece {
    uint64_t at;
    struct acre__piece *before, *behind; /* neighbours in its region; NULL at the ends */
    struct acre__node fit;               /* in the tree of its holes */
    struct acre__region *region;
    uint64_t bytes;
    enum acre__piece_state state;
    unsigned sort;             /* of a hole: ACRE__FIT_* */
    struct acre__holes *holes; /* of a hole: its owner; of a bare piece: arena->bare */
    int was_ready;             /* it was taken from a hole that any stream could use */
    void *user;                /* set by the code that took it */
};

struct acre__arena;
struct acre__account;

struct acre__region {
    struct acre__region *next; /* the next older one */
    struct acre__arena *arena;
    struct acre__range range; /* its addresses */
    uint64_t end;             /* end of its last piece */
    struct acre__piece *first, *last;
    struct acre__tree mappings; /* of struct acre__region_part */
    struct acre__block block;   /* its entry in the book (space/book.h) */
    int is_entered;             /* it has that entry */
    void *mem;                  /* the block of acre_mem_alloc, if it has no mappings */
    size_t mem_bytes;           /* of `mem`, with padding for alignment */
    struct acre__block *pinned; /* entry of `mem`: keeps others from freeing it */
};

/* A mapping of a chunk in a region. */
struct acre__region_part {
    struct acre__node node; /* key: address */
    struct acre__mapping *mapping;
    size_t bytes;
    unsigned sort;                           /* ACRE__FIT_* */
    int is_ghost;                            /* the chunk has a newer mapping elsewhere */
    int is_counted;                          /* one mapping of each chunk counts as held */
    struct acre__region_part *older, *newer; /* other mappings of the same chunk */
};

/* The recent rise of the high-water mark is that of this window and of the one before. A window
 * ends when four times the mark have been taken in it. Then refusals are forgotten too. */
enum { ACRE__WINDOW_PEAKS = 4 };

/* Totals of all arenas of one owner. */
struct acre__account {
    uint64_t held;                      /* bytes of physical memory */
    uint64_t held_peak;                 /* high-water mark of `held` */
    uint64_t taken, peak;               /* bytes of taken pieces, and their high-water mark */
    uint64_t ahead;                     /* bytes reserved by acre__arena_grow_ahead */
    uint64_t refused;                   /* the least `held` that the card or a limit refused */
    uint64_t window_bytes, window_peak; /* bytes taken in this window, and `peak` at its start */
    uint64_t window_rise;               /* by how much `peak` rose in the window before */
    uint64_t idle;                      /* `held`, less what the owner counts as in use */
    _Atomic uint64_t *idle_in_all;      /* a sum of `idle` of several owners, or NULL */
    /* Called when an arena needs more than the budget allows. The owner releases about `bytes` that
     * its other arenas hold and do not use. NULL: it cannot. */
    void (*reclaim)(struct acre__account *account, const struct acre__arena *asking,
                    uint64_t bytes);
};

static inline uint64_t acre__least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* A Bloom filter of piece sizes that were taken. */
enum { ACRE__SEEN_WORDS = 64 };
struct acre__seen {
    uint64_t bits[ACRE__SEEN_WORDS];
};
static inline unsigned acre__seen_bit(uint64_t bytes) {
    return (unsigned)(bytes / 512 * 0x9e3779b97f4a7c15u >> 52); /* one of 64 * 64 bits */
}
static inline void acre__seen_add(struct acre__seen *seen, uint64_t bytes) {
    unsigned bit = acre__seen_bit(bytes);
    seen->bits[bit / 64] |= (uint64_t)1 << bit % 64;
}
static inline int acre__seen_has(const struct acre__seen *seen, uint64_t bytes) {
    unsigned bit = acre__seen_bit(bytes);
    return (int)(seen->bits[bit / 64] >> bit % 64 & 1);
}

/* Options of acre__arena_open. */
struct acre__arena_setup {
    acre_device *dev;
    acre_kind kind;
    size_t step;         /* least bytes added for a small piece */
    size_t chunk_most;   /* most bytes of a chunk that pieces share */
    size_t region_bytes; /* addresses of a region, if memory is mapped */
    size_t alignment;    /* of its regions */
    /* Called before the arena places pieces at addresses. Returns 0 if out of host memory. */
    int (*prepare)(uint64_t at, uint64_t end);
    /* Allocates blocks if memory is not mapped: acre_mem_alloc, or its variant under locks. */
    acre_status (*alloc)(acre_device *dev, acre_kind kind, size_t bytes, uint32_t flags, void **p);
    int is_simple; /* the arena creates and releases chunks, but never moves them */
    struct acre__account *account;
    acre_pool *pool; /* owner of the memory in the book, or NULL */
};

/* Counts pieces that filled the hole they took. After `most` takes the arena decides between best
 * fit and first fit. The decision changes later counts, so `most` doubles whenever best fit
 * returns: then the arena cannot switch back and forth forever. */
struct acre__filled {
    uint64_t takes, filled, most;
    int is_rare; /* few pieces filled their hole: first fit */
};

struct acre__arena {
    struct acre__arena_setup setup;
    size_t unit;                  /* chunk granularity; 0: blocks of acre_mem_alloc */
    size_t block_bytes;           /* size of the next such block */
    uint64_t own_bytes;           /* apart, pieces of at least this size have their own chunks */
    uint64_t slack;               /* most bytes that the budget has beyond its percentage */
    struct acre__region *regions; /* newest first */
    struct acre__holes ready;     /* holes that wait for nothing */
    struct acre__piece *spare;    /* unused records, linked by `behind` */
    struct acre__holes bare;      /* bare pieces, all of ACRE__FIT_SHARED */
    uint64_t held;                /* bytes of physical memory */
    uint64_t taken, peak;         /* bytes of taken pieces, and their high-water mark */
    int is_joined;
    int is_common; /* several streams take pieces */
    int is_ahead;  /* memory was added in advance, for pieces of any size */
    int is_low;    /* live memory fell and has not risen again */
    /* Sizes taken and gathered since live memory last fell, and in the cycle before. */
    struct acre__seen taken_now, taken_before;
    struct acre__seen gathered_now, gathered_before;
    struct acre__filled filled;
    uint64_t cycles;             /* times that live memory fell after `peak` bytes were taken */
    uint64_t cycle_bytes;        /* bytes taken since live memory last fell */
    uint64_t made, ended, moved; /* chunks or blocks: created, released, moved */
};

void acre__arena_open(struct acre__arena *arena, const struct acre__arena_setup *setup);

/* Takes a piece from the holes that a stream may use; with `reach` NULL, from ready holes. *out is
 * NULL if none fits. Returns ACRE_E_HOST_MEMORY if there is no memory for the record. */
acre_status acre__arena_take(struct acre__arena *arena, const struct acre__reach *reach,
                             size_t bytes, size_t alignment, struct acre__piece **out);

/* As acre__arena_take, but takes any hole that is large enough, also one that it should leave to
 * other sizes. For use when the memory is needed. */
acre_status acre__arena_take_fit(struct acre__arena *arena, const struct acre__reach *reach,
                                 size_t bytes, size_t alignment, struct acre__piece **out);
/* The most bytes that acre__arena_take_fit can take. Slow: it visits all pieces. */
uint64_t acre__arena_room(const struct acre__arena *arena, const struct acre__reach *reach,
                          size_t alignment);

/* Bytes of the largest hole that the stream may use. */
uint64_t acre__arena_largest(const struct acre__arena *arena, const struct acre__reach *reach);

/* Takes a piece from created or gathered memory. For use when acre__arena_take found no hole. */
acre_status acre__arena_take_new(struct acre__arena *arena, const struct acre__reach *reach,
                                 size_t bytes, size_t alignment, struct acre__piece **out);

/* Adds `bytes` of memory behind the last piece, before any piece needs it. */
acre_status acre__arena_grow_ahead(struct acre__arena *arena, uint64_t bytes);

/* Grows a piece in place, into the hole behind it. Returns 1, or 0 if it cannot. */
int acre__arena_extend(struct acre__piece *piece, const struct acre__reach *reach, size_t bytes);

/* Grows a piece in place, into new memory behind it. Returns ACRE_E_INTERIOR, without detail, if
 * something is in the way or the budget does not allow it. */
acre_status acre__arena_extend_new(struct acre__piece *piece, const struct acre__reach *reach,
                                   size_t bytes);

/* Shrinks a piece to `bytes`; the rest becomes a hole. A no-op if out of host memory. */
void acre__arena_cut(struct acre__piece *piece, const struct acre__reach *to, size_t bytes);

/* Frees a piece. It becomes a hole that waits for the stream; with `to` NULL, for nothing. */
void acre__arena_give(struct acre__piece *piece, const struct acre__reach *to);

/* Moves holes and ghosts to `to`, which waits for whatever `from` waits for. */
void acre__arena_inherit(struct acre__holes *from, struct acre__holes *to);

/* Bytes of holes, and of ghosts that are the last mapping of their chunk. */
uint64_t acre__arena_waiting(const struct acre__holes *holes);

/* Makes these holes ready and unmaps their ghosts. */
void acre__arena_ready(struct acre__holes *holes);

/* Releases at least `bytes` of ready holes, if they have that much. Returns the bytes released. */
uint64_t acre__arena_release(struct acre__arena *arena, uint64_t bytes);

/* Releases memory of ready holes, at most `most` bytes. Lowers the high-water mark, and with it the
 * budget, to the bytes that are taken now. Returns the bytes released. */
uint64_t acre__arena_trim(struct acre__arena *arena, uint64_t most);

/* Returns 1 if the address is in one of the regions. */
int acre__arena_has(const struct acre__arena *arena, uint64_t address);

/* Calls `fn` for every taken piece. `fn` may not change the arena. */
void acre__arena_walk(const struct acre__arena *arena,
                      void (*fn)(void *user, struct acre__piece *piece), void *user);

/* Destroys all regions, whatever the state of their pieces. */
void acre__arena_end(struct acre__arena *arena);

/* ---- arena_grow.c: internal to the arena ---- */

/* The size of chunks that pieces share: a 64th to a 32nd of the high-water mark, within bounds. */
uint64_t acre__arena_chunk(const struct acre__arena *arena);

/* Returns 1 if the budget allows the owner to hold `bytes` more once `more` bytes are taken. */
int acre__arena_may_hold(const struct acre__arena *arena, uint64_t bytes, uint64_t more);

/* Returns by how many bytes the owner would exceed the budget if it held `bytes` more, once `more`
 * bytes are taken. */
uint64_t acre__arena_over(const struct acre__arena *arena, uint64_t bytes, uint64_t more);

/* Returns 1 if a piece of `bytes` gets chunks of its own. */
int acre__arena_is_own(const struct acre__arena *arena, uint64_t bytes);

/* The last piece of the newest region, if it is a hole in shared chunks that the stream may use;
 * NULL otherwise. */
struct acre__piece *acre__arena_tail(const struct acre__arena *arena,
                                     const struct acre__reach *reach);

/* Finds addresses for `bytes` of memory, with `gap` bare bytes on either side. The piece has no
 * memory yet and is in no tree by size. */
acre_status acre__arena_addresses(struct acre__arena *arena, uint64_t bytes, uint64_t alignment,
                                  uint64_t gap, struct acre__piece **out);

/* Appends a piece to a region. It has no memory yet and is in no tree. */
acre_status acre__region_append(struct acre__region *region, uint64_t bytes,
                                struct acre__piece **out);

/* ---- arena_gather.c ---- */

struct acre__picks;

/* Maps free chunks that the stream may use side by side, creates the missing bytes, and takes a
 * piece of them. *out is NULL, and nothing has changed, if `instead` bytes or more would have to be
 * created, if `spares_holes` is set and gathering would break up holes, or if out of host memory.
 */
acre_status acre__arena_gather(struct acre__arena *arena, const struct acre__reach *reach,
                               uint64_t bytes, uint64_t alignment, uint64_t instead,
                               int spares_holes, struct acre__piece **out);

/* Gives memory to a piece that is in no tree: the chosen chunks, if any, then new ones of at most
 * `chunk` bytes. After a failure the piece is bare or lost, and its region may be destroyed. */
acre_status acre__piece_fill(struct acre__piece *piece, const struct acre__picks *picks,
                             unsigned sort, uint64_t chunk);

/* As acre__arena_take, but also splits chunks that were created for one large piece each. */
acre_status acre__arena_take_any(struct acre__arena *arena, const struct acre__reach *reach,
                                 size_t bytes, size_t alignment, struct acre__piece **out);
/* Takes the first bytes of a hole that is large enough, as acre__arena_take does. */
acre_status acre__arena_take_at(struct acre__piece *hole, uint64_t bytes, uint64_t alignment,
                                struct acre__piece **out);

/* Candidates to choose from: chunks that lie entirely inside holes. */
struct acre__pick {
    struct acre__region_part *part;
    struct acre__piece *hole;
    int is_ready; /* its hole is ready */
    int is_clean; /* the chunks of its hole are nearly all of the hole */
    int is_chosen;
};
struct acre__picks {
    struct acre__pick *list;
    size_t count, room;
    uint64_t bytes;
};

/* Adds the chunks inside the holes of at least `least` bytes. Returns 0 if out of host memory. */
int acre__picks_add(struct acre__picks *picks, const struct acre__holes *holes, int are_ready,
                    uint64_t least);
/* Sort candidates by size, largest first; or by address, highest first. The second order lets the
 * caller cut chunks out of their holes: `hole` stays valid for the candidates that follow. */
void acre__picks_by_size(struct acre__picks *picks);
void acre__picks_by_place(struct acre__picks *picks);
/* Unmaps and releases the chosen chunks, whose holes are ready. Returns their bytes. (arena.c) */
uint64_t acre__picks_release(struct acre__picks *picks);

/* ---- arena_piece.c: pieces and holes ---- */

enum { ACRE__PIECE_GRAIN = 512 };

static inline uint64_t acre__piece_end(const struct acre__piece *piece) {
    return piece->at + piece->bytes;
}
static inline struct acre__piece *acre__piece_fit(struct acre__node *node) {
    return acre__tree_entry(node, struct acre__piece, fit);
}
static inline struct acre__region_part *acre__part_of(struct acre__node *node) {
    return acre__tree_entry(node, struct acre__region_part, node);
}

/* Returns 1 if a stream may use the hole. */
static inline int acre__hole_is_usable(const struct acre__piece *piece,
                                       const struct acre__reach *reach,
                                       const struct acre__holes *ready) {
    return piece->state == ACRE__PIECE_HOLE &&
           (piece->holes == ready ||
            (reach && (piece->holes == reach->recent || piece->holes == reach->marked)));
}

/* The key in trees by size: 33 bits of size and 31 of address, both in grains. The missing address
 * bits only affect the order of holes of one size. */
static inline uint64_t acre__fit_key(uint64_t bytes, uint64_t at) {
    return bytes / ACRE__PIECE_GRAIN << 31 | (at / ACRE__PIECE_GRAIN & (((uint64_t)1 << 31) - 1));
}

/* Creates a piece, in no tree by size, behind `before`, or as the region's first if `before` is
 * NULL. Returns NULL if out of host memory. */
struct acre__piece *acre__piece_new(struct acre__region *region, struct acre__piece *before,
                                    uint64_t at, uint64_t bytes);
/* Splits a piece that is in no tree by size. Returns the part from `at` on, with the same state and
 * in no tree either; NULL if out of host memory. */
struct acre__piece *acre__piece_split(struct acre__piece *piece, uint64_t at);
/* Merges a piece with the one behind it. Both are in no tree by size. */
void acre__piece_absorb(struct acre__piece *piece, struct acre__piece *behind);

/* Insert a hole, or a bare piece, into its tree by size, and remove it. */
void acre__hole_insert(struct acre__piece *piece, struct acre__holes *holes);
void acre__hole_remove(struct acre__piece *piece);
/* Merges a hole with a neighbour that is in no tree. Returns the whole, in no tree either. */
struct acre__piece *acre__hole_merge(struct acre__piece *hole, struct acre__piece *piece);
/* Turns a piece that is in no tree by size into a hole. It merges with neighbours that wait for the
 * same stream, and with ready ones. If several streams take pieces, a larger ready neighbour does
 * not merge. */
void acre__hole_make(struct acre__piece *piece, const struct acre__reach *to);
/* As acre__hole_make, but while apart creates one hole for each sort of chunk in the piece. */
void acre__hole_make_sorted(struct acre__piece *piece, const struct acre__reach *to);
/* The hole behind a piece, if the stream may use it; NULL otherwise. */
struct acre__piece *acre__hole_behind(const struct acre__piece *piece,
                                      const struct acre__reach *reach);

/* Takes a piece out of a hole. Returns NULL if out of host memory for the records. */
struct acre__piece *acre__hole_take(struct acre__piece *hole, uint64_t at, uint64_t bytes);

/* Switches the arena to joined: pieces share chunks, and all holes are of one sort. */
void acre__arena_join(struct acre__arena *arena);

/* Turns a piece that is in no tree by size into a bare piece, which has no memory. */
void acre__bare_make(struct acre__piece *piece);
/* Cuts bytes out of a bare piece, into no tree. Returns NULL if out of host memory for the
 * records. */
struct acre__piece *acre__bare_cut(struct acre__piece *bare, uint64_t at, uint64_t bytes);
/* Finds a bare piece that is large enough and cuts bytes out of it. NULL if there is none. */
struct acre__piece *acre__bare_take(struct acre__arena *arena, uint64_t bytes, uint64_t alignment);
/* Drops bare pieces at the end of a region. */
void acre__region_shorten(struct acre__region *region);

/* ---- arena_region.c: memory and addresses of regions ---- */

/* Creates the arena's newest region: at least `bytes`, aligned, without pieces. */
acre_status acre__region_make(struct acre__arena *arena, size_t bytes, size_t alignment,
                              struct acre__region **out);
/* Before `bytes` of new chunks, none larger than `chunk`: returns ACRE_E_DEVICE_MEMORY if the
 * device does not have that much. A single chunk is not checked: the driver does that. */
acre_status acre__region_room(const struct acre__region *region, uint64_t bytes, uint64_t chunk);
/* Maps a new chunk of `bytes` at an unused address of the region. The caller updates the pieces.
 * After a failure, *is_lost is 1 if the driver refuses to unmap the chunk: the addresses are then
 * lost. */
acre_status acre__region_map(struct acre__region *region, uint64_t at, size_t bytes, unsigned sort,
                             int *is_lost);
/* Maps the chunk of another part at `at` too, without access. */
acre_status acre__region_alias(struct acre__region *region, uint64_t at, unsigned sort,
                               struct acre__region_part *of);
/* Grants access to the arena's device only: no other device uses a pool. */
acre_status acre__region_access(const struct acre__region *region, uint64_t at, size_t bytes);
/* Unmaps a part. Returns 1, or 0 if the driver refuses; its addresses are then lost. */
int acre__region_unmap(struct acre__region *region, struct acre__region_part *part);
/* Unmaps the chunk of a piece that is in no tree. The piece is then bare, or lost. */
void acre__piece_unmap(struct acre__piece *piece);
/* Destroys a region and all its pieces and mappings. */
void acre__region_end(struct acre__region *region);
/* Updates the book, and calls `prepare`, for the region's current end. */
acre_status acre__region_note(struct acre__region *region);
/* Called after pieces became bare: shortens the region, or destroys it if it is empty. */
void acre__region_settle(struct acre__region *region);

/* ---- accounts ---- */

/* Begins a window. */
static inline void acre__account_window(struct acre__account *account, uint64_t rise) {
    account->window_rise = rise;
    account->window_peak = account->peak;
    account->window_bytes = 0;
}

static inline void acre__arena_count_taken(struct acre__arena *arena, uint64_t more) {
    struct acre__account *account = arena->setup.account;
    arena->taken += more;
    arena->peak = arena->taken > arena->peak ? arena->taken : arena->peak;
    account->taken += more;
    account->window_bytes += more;
    if (account->window_bytes / ACRE__WINDOW_PEAKS > account->peak) {
        acre__account_window(account, account->peak - account->window_peak);
        account->refused = 0;
    }
    account->peak = account->taken > account->peak ? account->taken : account->peak;
}
static inline void acre__arena_count_given(struct acre__arena *arena, uint64_t less) {
    arena->taken -= less;
    arena->setup.account->taken -= less;
}
static inline void acre__account_idle(struct acre__account *account, uint64_t more, uint64_t less) {
    account->idle += more - less;
    if (account->idle_in_all)
        acre__fetch_add(account->idle_in_all, more - less, memory_order_seq_cst);
}
/* Moves `idle` to another sum; NULL: to none. */
static inline void acre__account_idle_in(struct acre__account *account, _Atomic uint64_t *all) {
    uint64_t idle = account->idle;
    acre__account_idle(account, 0, idle);
    account->idle_in_all = all;
    acre__account_idle(account, idle, 0);
}
/* Memory counts after it was created, and no longer before it is released. */
static inline void acre__arena_count_held(struct acre__arena *arena, uint64_t more, uint64_t less) {
    struct acre__account *account = arena->setup.account;
    arena->held += more - less;
    account->held += more - less;
    acre__account_idle(account, more, less);
    account->held_peak = account->held > account->held_peak ? account->held : account->held_peak;
    if (account->held >= account->refused)
        account->refused = 0;
}
/* Notes that the card or a limit refused `bytes` more. */
static inline void acre__account_refused(struct acre__account *account, uint64_t bytes) {
    uint64_t held = account->held + bytes;
    account->refused = account->refused && account->refused < held ? account->refused : held;
}
/* Returns 1 if `bytes` more would be as much as was refused. */
static inline int acre__account_is_refused(const struct acre__account *account, uint64_t bytes) {
    return account->refused && account->held + bytes >= account->refused;
}

#endif
