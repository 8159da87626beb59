/* An arena: physical memory that pieces of any size are placed in.
 *
 * Addresses come in regions. A region is tiled with pieces: taken, a hole (free, with memory), bare
 * (addresses without memory) or a ghost (see below). Where a device maps memory by hand, memory
 * comes in chunks that are mapped into a region as needed; elsewhere a region is one block of
 * acre_mem_alloc.
 *
 * Holes belong to what they wait for: a stream, a batch of events, or nothing (`ready`). A stream
 * may use its own holes at once, although the device has not passed them: whatever the stream does
 * there is queued behind. Only unmapping and releasing must wait.
 *
 * The budget is a little more than the most that was ever taken. Within it memory is created as
 * needed. Beyond it free chunks are used again wherever they lie: they are *gathered*, mapped side
 * by side at other addresses. A chunk whose old place the device has not passed yet is mapped a
 * second time; the old place is a ghost, which is never handed out, until the device has passed it.
 *
 * An arena begins *apart*: a piece of `own_bytes` and more has chunks of its own, created to its
 * size and released when others need the memory. That is best for programs whose live memory only
 * rises or stays, as long as the device keeps up. When live memory falls by 30 %, or when the
 * device has not passed what would have to be released, the arena is *joined* from then on: pieces
 * share chunks, places depend on the pieces alone (best fit), free chunks are gathered, and a
 * program that repeats itself makes no driver call. docs/design.md and docs/measurements.md have
 * what else was tried.
 *
 * Whoever owns the arena locks it. */
#ifndef ACRE_ARENA_ARENA_H
#define ACRE_ARENA_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "base/tree.h"
#include "space/book.h"
#include "space/mapping.h"
#include "space/range.h"

enum { ACRE__FIT_SHARED, ACRE__FIT_OWN, ACRE__FITS }; /* chunks that pieces share, or have alone */

struct acre__piece;

struct acre__holes {
    struct acre__tree fit[ACRE__FITS]; /* by size, then by address; joined: all are SHARED */
    uint64_t bytes;
    struct acre__piece *ghosts; /* linked by `user` */
};

/* What a stream may use besides what is ready: what was freed on it last, and before. */
struct acre__reach {
    struct acre__holes *recent, *marked;
    int is_behind; /* the device has not passed it: nothing can be released soon */
};

enum acre__piece_state {
    ACRE__PIECE_TAKEN,
    ACRE__PIECE_HOLE,
    ACRE__PIECE_BARE,
    ACRE__PIECE_GHOST, /* one chunk that is mapped elsewhere by now */
    ACRE__PIECE_LOST   /* in no tree: being changed, or the driver refuses to unmap it */
};

struct acre__piece {
    uint64_t at;
    struct acre__piece *before, *behind; /* in its region; NULL at the ends */
    struct acre__node fit;               /* a hole in its holes, a bare one in the arena's */
    struct acre__region *region;
    uint64_t bytes;
    enum acre__piece_state state;
    unsigned sort;             /* ACRE__FIT_*, of a hole */
    struct acre__holes *holes; /* a hole's */
    int was_ready;             /* any stream could have it when it was taken */
    void *user;                /* of who took it */
};

struct acre__arena;
struct acre__account;

struct acre__region {
    struct acre__region *next; /* older */
    struct acre__arena *arena;
    struct acre__range range; /* its addresses */
    uint64_t end;             /* of its pieces */
    struct acre__piece *first, *last;
    struct acre__tree mappings; /* struct acre__region_part */
    struct acre__block block;   /* its entry in the book, */
    int is_entered;             /* if it has one */
    void *mem;                  /* a block of acre_mem_alloc instead of mappings, */
    size_t mem_bytes;           /* with what was needed to align it */
    struct acre__block *pinned; /* which nobody else may free */
};

/* A chunk in a region. */
struct acre__region_part {
    struct acre__node node; /* key: address */
    struct acre__mapping *mapping;
    size_t bytes;
    unsigned sort;                           /* ACRE__FIT_* */
    int is_ghost;                            /* the chunk was mapped elsewhere since */
    int is_counted;                          /* of the places of one chunk, one counts */
    struct acre__region_part *older, *newer; /* other places of the same chunk */
};

/* What several arenas of one owner have together. */
struct acre__account {
    uint64_t held;        /* bytes of physical memory, */
    uint64_t held_peak;   /* at most */
    uint64_t taken, peak; /* bytes in pieces that are taken, now and at most */
    uint64_t ahead;       /* bytes that are to be held whatever is taken */
    /* Called when an arena needs more than the budget allows: the owner releases up to so many
     * bytes that its other arenas hold and do not use. NULL: it cannot. */
    void (*reclaim)(struct acre__account *account, const struct acre__arena *asking,
                    uint64_t bytes);
};

/* Sizes of pieces that were taken, as a Bloom filter. */
enum { ACRE__SEEN_WORDS = 64 };
struct acre__seen {
    uint64_t bits[ACRE__SEEN_WORDS];
};
static inline unsigned acre__seen_bit(uint64_t bytes) {
    return (unsigned)(bytes / 512 * 0x9e3779b97f4a7c15u >> 52); /* one of 64 * 64 */
}
static inline void acre__seen_add(struct acre__seen *seen, uint64_t bytes) {
    unsigned bit = acre__seen_bit(bytes);
    seen->bits[bit / 64] |= (uint64_t)1 << bit % 64;
}
static inline int acre__seen_has(const struct acre__seen *seen, uint64_t bytes) {
    unsigned bit = acre__seen_bit(bytes);
    return (int)(seen->bits[bit / 64] >> bit % 64 & 1);
}

/* How an arena is opened. */
struct acre__arena_setup {
    acre_device *dev;
    acre_kind kind;
    size_t step;         /* bytes added for a small piece, at least */
    size_t chunk_most;   /* bytes of a chunk, unless apart */
    size_t region_bytes; /* of addresses, where memory is mapped */
    size_t alignment;    /* of its regions */
    /* Called before pieces are placed at addresses: 0 refuses, for want of host memory. */
    int (*prepare)(uint64_t at, uint64_t end);
    /* Makes blocks where memory is not mapped: acre_mem_alloc, or the same for who holds locks. */
    acre_status (*alloc)(acre_device *dev, acre_kind kind, size_t bytes, uint32_t flags, void **p);
    int is_simple; /* chunks are created and released, but never moved */
    struct acre__account *account;
    acre_pool *pool; /* that the book names as the owner of the memory, or NULL */
};

struct acre__arena {
    struct acre__arena_setup setup;
    size_t unit;                  /* of chunks; 0: by acre_mem_alloc */
    size_t block_bytes;           /* of the next such block */
    uint64_t own_bytes;           /* apart, pieces of this size have chunks of their own */
    uint64_t slack;               /* most bytes of the budget beyond a percentage */
    struct acre__region *regions; /* newest first */
    struct acre__holes ready;     /* wait for nothing */
    struct acre__piece *spare;    /* records to be used again, linked by `behind` */
    struct acre__tree bare;       /* by size, then by address */
    uint64_t held;                /* bytes that have memory */
    uint64_t taken, peak;         /* bytes in pieces that are taken, now and at most */
    int is_joined;
    int is_common; /* several streams take pieces */
    int is_ahead;  /* memory was added ahead, which pieces of any size may have */
    int is_low;    /* live memory fell, and has not risen again since */
    /* Sizes since live memory fell last, and between that and the time before. */
    struct acre__seen taken_now, taken_before;
    struct acre__seen gathered_now, gathered_before;
    uint64_t cycles;             /* times that it fell after as much had been taken as at most */
    uint64_t cycle_bytes;        /* taken since the last time */
    uint64_t made, ended, moved; /* chunks or blocks */
};

void acre__arena_open(struct acre__arena *arena, const struct acre__arena_setup *setup);

/* A piece out of the holes that a stream may use; `reach` NULL: out of those that are ready. *out
 * is NULL when none fits. ACRE_E_HOST_MEMORY without memory for the record. */
acre_status acre__arena_take(struct acre__arena *arena, const struct acre__reach *reach,
                             size_t bytes, size_t alignment, struct acre__piece **out);

/* Bytes of the largest hole that the stream may use. */
uint64_t acre__arena_largest(const struct acre__arena *arena, const struct acre__reach *reach);

/* The same after acre__arena_take found none: with memory that is created or gathered. */
acre_status acre__arena_take_new(struct acre__arena *arena, const struct acre__reach *reach,
                                 size_t bytes, size_t alignment, struct acre__piece **out);

/* Adds so much memory behind the last piece, for what will be taken. */
acre_status acre__arena_grow_ahead(struct acre__arena *arena, uint64_t bytes);

/* Makes a piece longer in place, out of the hole behind it: 1, or 0 when it cannot be. */
int acre__arena_extend(struct acre__piece *piece, const struct acre__reach *reach, size_t bytes);

/* The same with new memory behind it. ACRE_E_INTERIOR, without detail: something is in the way, or
 * it would exceed the budget. */
acre_status acre__arena_extend_new(struct acre__piece *piece, const struct acre__reach *reach,
                                   size_t bytes);

/* The end of a piece, behind `bytes`, becomes a hole. Without memory for its record nothing is
 * changed. */
void acre__arena_cut(struct acre__piece *piece, const struct acre__reach *to, size_t bytes);

/* A piece becomes a hole that waits for the stream; NULL: for nothing. */
void acre__arena_give(struct acre__piece *piece, const struct acre__reach *to);

/* What these holes wait for, `to` waits for as well: they are its from now on, ghosts too. */
void acre__arena_inherit(struct acre__holes *from, struct acre__holes *to);

/* All these holes wait for nothing any more, and ghosts go. */
void acre__arena_ready(struct acre__arena *arena, struct acre__holes *holes);

/* Releases memory that lies in holes which are ready, at least `bytes` if there is so much. Returns
 * how much went. */
uint64_t acre__arena_release(struct acre__arena *arena, uint64_t bytes);

/* The same, but not more than `most`; what was in use before is forgotten, and with it how much the
 * arena may hold. */
uint64_t acre__arena_trim(struct acre__arena *arena, uint64_t most);

/* 1 if the address is in one of the regions. */
int acre__arena_has(const struct acre__arena *arena, uint64_t address);

/* Calls `fn` for every piece that is taken; it may not change the arena. */
void acre__arena_walk(const struct acre__arena *arena,
                      void (*fn)(void *user, struct acre__piece *piece), void *user);

/* Ends all regions, whatever their pieces are. */
void acre__arena_end(struct acre__arena *arena);

/* For invariants in tests: NULL, or what is wrong with the records. */
const char *acre__arena_fault(const struct acre__arena *arena);

/* ---- arena_grow.c, for the arena's own files ---- */

static inline uint64_t acre__round_up(uint64_t bytes, uint64_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

/* The chunk size for pieces that share: about a 64th of what was in use. */
uint64_t acre__arena_chunk(const struct acre__arena *arena);

/* 1 if the arena may hold `bytes` more when `more` are taken. */
int acre__arena_may_hold(const struct acre__arena *arena, uint64_t bytes, uint64_t more);

/* How many of `bytes` more would be beyond the budget when `more` are taken. */
uint64_t acre__arena_over(const struct acre__arena *arena, uint64_t bytes, uint64_t more);

/* 1 if a piece of so many bytes has chunks of its own now. */
int acre__arena_is_own(const struct acre__arena *arena, uint64_t bytes);

/* The last piece of the newest region, if it is a hole that the stream may use, and that others
 * share; NULL otherwise. */
struct acre__piece *acre__arena_tail(const struct acre__arena *arena,
                                     const struct acre__reach *reach);

/* Addresses for memory, in no tree by size, with `gap` bare ones on either side. */
acre_status acre__arena_addresses(struct acre__arena *arena, uint64_t bytes, uint64_t alignment,
                                  uint64_t gap, struct acre__piece **out);

/* Another piece behind the last one of a region; it has no memory yet and is in no tree. */
acre_status acre__region_append(struct acre__region *region, uint64_t bytes,
                                struct acre__piece **out);

/* 1 if the region has addresses for so many bytes behind its last piece. */
int acre__region_reaches(const struct acre__region *region, uint64_t at, uint64_t bytes);

/* Takes the first bytes of a bare piece out of its tree; NULL without memory for the record. */
struct acre__piece *acre__bare_cut(struct acre__piece *bare, uint64_t bytes);

/* ---- arena_gather.c ---- */

struct acre__picks;

/* Maps free chunks that the stream may use side by side, creates what is missing, and takes a piece
 * of that. *out is NULL, and nothing has changed, when `instead` bytes or more would have to be
 * created. */
acre_status acre__arena_gather(struct acre__arena *arena, const struct acre__reach *reach,
                               uint64_t bytes, uint64_t alignment, uint64_t instead,
                               struct acre__piece **out);

/* Gives a piece that is in no tree memory: the chosen chunks, if any, and behind them new ones of
 * at most `chunk` bytes. After a failure the piece is bare, or lost. */
acre_status acre__piece_fill(struct acre__piece *piece, const struct acre__picks *picks,
                             unsigned sort, uint64_t chunk);

/* acre__arena_take does not break chunks that were created for one large piece each; this does. */
acre_status acre__arena_take_any(struct acre__arena *arena, const struct acre__reach *reach,
                                 size_t bytes, size_t alignment, struct acre__piece **out);
/* Takes the first bytes of a hole that is large enough, as acre__arena_take does. */
acre_status acre__arena_take_at(struct acre__piece *hole, uint64_t bytes, uint64_t alignment,
                                struct acre__piece **out);

/* Chunks that lie wholly inside holes, to be chosen from. */
struct acre__pick {
    struct acre__region_part *part;
    struct acre__piece *hole;
    int is_ready; /* the hole is */
    int is_chosen;
};
struct acre__picks {
    struct acre__pick *list;
    size_t count, room;
    uint64_t bytes;
};

/* Adds the chunks in some holes; 0 without host memory. */
int acre__picks_add(struct acre__picks *picks, const struct acre__holes *holes, int are_ready,
                    uint64_t least);
/* Orders them by size, the largest first, or so that those of a hole come from its end to its
 * beginning, in which order they can be cut out. */
void acre__picks_by_size(struct acre__picks *picks);
void acre__picks_by_place(struct acre__picks *picks);
/* Unmaps and releases the chosen ones, whose holes are ready. Returns their bytes. (arena.c) */
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

/* 1 if a stream may use the hole. */
static inline int acre__hole_is_usable(const struct acre__piece *piece,
                                       const struct acre__reach *reach,
                                       const struct acre__holes *ready) {
    return piece->state == ACRE__PIECE_HOLE &&
           (piece->holes == ready ||
            (reach && (piece->holes == reach->recent || piece->holes == reach->marked)));
}

/* The key in trees by size: 33 bits of size and 31 of address, both in grains. What the address
 * leaves out only decides between holes of one size. */
static inline uint64_t acre__fit_key(uint64_t bytes, uint64_t at) {
    return bytes / ACRE__PIECE_GRAIN << 31 | (at / ACRE__PIECE_GRAIN & (((uint64_t)1 << 31) - 1));
}

/* A piece that is in no tree by size, behind another one of the region or, for NULL, as its first;
 * NULL without memory. */
struct acre__piece *acre__piece_new(struct acre__region *region, struct acre__piece *before,
                                    uint64_t at, uint64_t bytes);
/* Cuts a piece that is in no tree by size: returns the part from `at` on, of the same state and in
 * no tree either; NULL without memory. */
struct acre__piece *acre__piece_split(struct acre__piece *piece, uint64_t at);
/* The piece behind becomes part of this one; both are in no tree by size. */
void acre__piece_absorb(struct acre__piece *piece, struct acre__piece *behind);

/* Into a tree by size, and out of it. */
void acre__hole_insert(struct acre__piece *piece, struct acre__holes *holes);
void acre__hole_remove(struct acre__piece *piece);
/* Makes a piece that is in no tree by size a hole, one with its neighbours that wait for the same,
 * or for nothing if they are not larger. */
void acre__hole_make(struct acre__piece *piece, const struct acre__reach *to);
/* The same for one that may lie in chunks of several sorts: one hole for each, while apart. */
void acre__hole_make_sorted(struct acre__piece *piece, const struct acre__reach *to);
/* The hole behind a piece, if the stream may use it; NULL otherwise. */
struct acre__piece *acre__hole_behind(const struct acre__piece *piece,
                                      const struct acre__reach *reach);

/* Cuts a piece out of a hole and takes it; NULL without memory for the records. */
struct acre__piece *acre__hole_take(struct acre__piece *hole, uint64_t at, uint64_t bytes);

/* From now on pieces share chunks: all holes are of one sort. */
void acre__arena_join(struct acre__arena *arena);

/* A piece that is in no tree by size has no memory from now on. */
void acre__bare_make(struct acre__piece *piece);
/* Bare addresses that have room, cut to size and in no tree by size; NULL if there are none, or no
 * memory for the records. */
struct acre__piece *acre__bare_take(struct acre__arena *arena, uint64_t bytes, uint64_t alignment);
/* Bare pieces at the end of a region are no pieces. */
void acre__region_shorten(struct acre__region *region);

/* ---- arena_region.c: memory and addresses of regions ---- */

/* A new region, the arena's newest, of at least `bytes`, with addresses at a multiple of the
 * alignment; one of acre_mem_alloc has a hole as long as it. */
acre_status acre__region_make(struct acre__arena *arena, size_t bytes, size_t alignment,
                              struct acre__region **out);
/* Maps a new chunk of `bytes` at an address of the region where nothing is. The record of pieces is
 * the caller's. *is_lost, after a failure: the driver refuses to take the memory back, and the
 * addresses go with it. */
acre_status acre__region_map(struct acre__region *region, uint64_t at, size_t bytes, unsigned sort,
                             int *is_lost);
/* Maps the chunk of another part there as well, without access. */
acre_status acre__region_alias(struct acre__region *region, uint64_t at, unsigned sort,
                               struct acre__region_part *of);
/* Gives the device access, and nobody else: only it has to do with a pool. */
acre_status acre__region_access(const struct acre__region *region, uint64_t at, size_t bytes);
/* Unmaps one: 1, or 0 when the driver refuses, which costs its addresses. */
int acre__region_unmap(struct acre__region *region, struct acre__region_part *part);
/* Unmaps the chunk of a piece that is in no tree; the piece is bare afterwards, or lost. */
void acre__piece_unmap(struct acre__piece *piece);
/* Ends a region and everything in it. */
void acre__region_end(struct acre__region *region);
/* Tells the book and whoever prepares for pieces how far the region reaches. */
acre_status acre__region_note(struct acre__region *region);
/* After pieces became bare: the region may be shorter, or end. */
void acre__region_settle(struct acre__region *region);

/* ---- accounts ---- */

static inline void acre__arena_count_taken(struct acre__arena *arena, uint64_t more) {
    struct acre__account *account = arena->setup.account;
    arena->taken += more;
    arena->peak = arena->taken > arena->peak ? arena->taken : arena->peak;
    account->taken += more;
    account->peak = account->taken > account->peak ? account->taken : account->peak;
}
static inline void acre__arena_count_given(struct acre__arena *arena, uint64_t less) {
    arena->taken -= less;
    arena->setup.account->taken -= less;
}
static inline void acre__arena_count_held(struct acre__arena *arena, uint64_t more, uint64_t less) {
    struct acre__account *account = arena->setup.account;
    arena->held += more - less;
    account->held += more - less;
    account->held_peak = account->held > account->held_peak ? account->held : account->held_peak;
}

#endif
