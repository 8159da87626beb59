/* An arena: memory that blocks of any size are placed in, byte by byte.
 *
 * Its addresses are regions, each tiled with pieces: taken by somebody, a hole, or bare (addresses
 * without memory). Where a device maps memory by hand a region is a range of addresses that gets
 * memory as it is needed, at its end; elsewhere it is one block of acre_mem_alloc.
 *
 * Where a piece is placed depends on the pieces alone and not on what has memory: what a program
 * does again and again falls into the same places again and needs no new memory. Only when the
 * memory would grow beyond a little more than the most that was ever in use are large pieces kept
 * apart from the others (`is_apart`): they get chunks of their own, so that a freed one can be
 * given back.
 *
 * Holes belong to what they wait for (struct acre__holes): a stream's, a batch's, or nobody's.
 * Neighbours that wait for the same thing are one hole. The pool's lock guards all of it. */
#ifndef ACRE_POOL_ARENA_H
#define ACRE_POOL_ARENA_H

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
    struct acre__tree fit[ACRE__FITS]; /* by size, then by address */
    uint64_t bytes;
    struct acre__piece *ghosts; /* linked by `user` */
};

enum acre__piece_state {
    ACRE__PIECE_TAKEN,
    ACRE__PIECE_HOLE,
    ACRE__PIECE_BARE,  /* without memory */
    ACRE__PIECE_GHOST, /* its chunks have moved and are mapped here until nothing uses that */
    ACRE__PIECE_LOST /* the driver refuses to unmap it: the addresses are not the region's any more
                      */
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
    void *user;                /* of who took it */
};

struct acre__arena;

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

/* A chunk of a region. */
struct acre__region_part {
    struct acre__node node; /* key: address */
    struct acre__mapping *mapping;
    size_t bytes;
    unsigned sort; /* ACRE__FIT_* */
    int is_ghost;  /* the chunk is counted where it is now */
};

struct acre__arena {
    acre_device *dev;
    acre_kind kind;
    size_t unit;           /* of chunks; 0: by acre_mem_alloc */
    size_t step;           /* for small pieces memory is added by so many bytes at most, */
    unsigned step_part;    /* and by this part of what was in use */
    size_t alignment;      /* of its regions */
    size_t region_bytes;   /* of addresses, or of the next block */
    uint64_t slack;        /* bytes that it may hold beyond what was in use and a few percent */
    uint64_t own_bytes;    /* pieces of this size have chunks of their own, once they are apart, */
    uint64_t shared_bytes; /* and others share chunks of this one */
    struct acre__region *regions; /* newest first */
    struct acre__holes ready;     /* wait for nothing */
    struct acre__piece *spare;    /* records to be used again, linked by `behind` */
    struct acre__tree bare;       /* by size, then by address */
    uint64_t held;                /* bytes that have memory */
    uint64_t taken, peak;         /* bytes in pieces that are taken, now and at most */
    int is_apart;
    int is_common;               /* several streams take pieces */
    int is_ahead;                /* memory was added ahead, which pieces of any size may have */
    uint64_t made, ended, moved; /* chunks or blocks */
};

/* `region_bytes` is of addresses, where memory is mapped. */
void acre__arena_open(struct acre__arena *arena, acre_device *dev, acre_kind kind, size_t step,
                      unsigned step_part, size_t region_bytes, size_t alignment);

/* A piece out of the holes of `own` (may be NULL) and of those that wait for nothing. *out is NULL
 * when none fits. ACRE_E_HOST_MEMORY without memory for the record. */
acre_status acre__arena_take(struct acre__arena *arena, struct acre__holes *own, size_t bytes,
                             size_t alignment, struct acre__piece **out);

/* The same after acre__arena_take found none: with new memory. */
acre_status acre__arena_take_new(struct acre__arena *arena, struct acre__holes *own, size_t bytes,
                                 size_t alignment, struct acre__piece **out);

/* Adds so much memory behind the last piece, for what will be taken. */
acre_status acre__arena_grow_ahead(struct acre__arena *arena, uint64_t bytes);

/* Makes a piece longer in place, out of the hole behind it: 1, or 0 when it cannot be. */
int acre__arena_extend(struct acre__piece *piece, struct acre__holes *own, size_t bytes);

/* The same with new memory behind it. ACRE_E_INTERIOR, without detail: something is in the way, or
 * it would be too much. */
acre_status acre__arena_extend_new(struct acre__piece *piece, struct acre__holes *own,
                                   size_t bytes);

/* Maps the chunks of a piece at other addresses, with new ones behind them, and takes that: *out.
 * What `own` waits for uses the old addresses, which stay good until then. *out is NULL when the
 * piece shares its chunks with others, or it would be too much memory. */
acre_status acre__arena_move(struct acre__piece *piece, struct acre__holes *own, size_t bytes,
                             struct acre__piece **out);

/* Takes a piece of whole chunks, so that it can be moved. *out is NULL for one that is too small
 * for that, or when it would be too much memory. */
acre_status acre__arena_take_own(struct acre__arena *arena, size_t bytes, struct acre__piece **out);

/* The end of a piece, behind `bytes`, becomes a hole. Without memory for its record nothing is
 * changed. */
void acre__arena_cut(struct acre__piece *piece, struct acre__holes *to, size_t bytes);

/* A piece becomes a hole that waits for what `to` waits for. */
void acre__arena_give(struct acre__piece *piece, struct acre__holes *to);

/* What these holes wait for, `to` waits for as well: they are its from now on. */
void acre__arena_inherit(struct acre__holes *from, struct acre__holes *to);

/* All these holes wait for nothing any more, and ghosts go. */
void acre__arena_ready(struct acre__arena *arena, struct acre__holes *holes);

/* Gives memory back that lies in holes which wait for nothing, at least `bytes` if there is so
 * much. Returns how much went. */
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

/* Addresses that are left free behind a piece that may get longer. */
#define ACRE__ARENA_GAP ((uint64_t)256 << 20)

/* Addresses for a chunk, in no tree by size, with `gap` free ones around if possible. */
acre_status acre__arena_addresses(struct acre__arena *arena, uint64_t bytes, uint64_t alignment,
                                  uint64_t gap, struct acre__piece **out);

/* The hole behind a piece, if the caller may use it; NULL otherwise. */
struct acre__piece *acre__hole_behind(const struct acre__piece *piece,
                                      const struct acre__holes *own);

/* 1 if the arena may hold `bytes` more when `more` are taken. */
int acre__arena_may_hold(const struct acre__arena *arena, uint64_t bytes, uint64_t more);

/* 1 if a piece of so many bytes has chunks of its own now. */
int acre__arena_is_own(const struct acre__arena *arena, uint64_t bytes);

/* Gives one chunk in a hole back; 0 when that cannot be done. */
uint64_t acre__part_release(struct acre__piece *hole, struct acre__region_part *part);

static inline void acre__arena_count(struct acre__arena *arena, uint64_t more) {
    arena->taken += more;
    arena->peak = arena->taken > arena->peak ? arena->taken : arena->peak;
}

/* ---- pool_piece.c: pieces and holes ---- */

enum { ACRE__PIECE_GRAIN = 256 };

static inline uint64_t acre__piece_end(const struct acre__piece *piece) {
    return piece->at + piece->bytes;
}
static inline struct acre__piece *acre__piece_fit(struct acre__node *node) {
    return acre__tree_entry(node, struct acre__piece, fit);
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
/* Apart, a hole is of one sort: gives the piece the sort of its first chunk and cuts it where that
 * changes. Returns what is behind the cut, or NULL; without memory for the record it stays whole.
 */
struct acre__piece *acre__piece_cut_sort(struct acre__piece *piece);

/* Into a tree by size, and out of it. */
void acre__hole_insert(struct acre__piece *piece, struct acre__holes *holes);
void acre__hole_remove(struct acre__piece *piece);
/* Makes a piece that is in no tree by size a hole, one with its neighbours that wait for the same,
 * or for nothing if they are not larger. */
void acre__hole_make(struct acre__piece *piece, struct acre__holes *holes);
/* The same for one that may be of several sorts. */
void acre__hole_make_apart(struct acre__piece *piece, struct acre__holes *holes);

/* Cuts a piece out of a hole and takes it; NULL without memory for the records. */
struct acre__piece *acre__hole_take(struct acre__piece *hole, uint64_t at, uint64_t bytes);

/* A piece that is in no tree by size has no memory from now on. */
void acre__bare_make(struct acre__piece *piece);
/* Bare addresses that have room, cut to size and in no tree by size; NULL if there are none, or no
 * memory for the records. */
struct acre__piece *acre__bare_take(struct acre__arena *arena, uint64_t bytes, uint64_t alignment);
/* Bare pieces at the end of a region are no pieces. */
void acre__region_shorten(struct acre__region *region);

/* ---- pool_region.c: memory and addresses of regions ---- */

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
acre_status acre__region_alias(struct acre__region *region, uint64_t at,
                               const struct acre__region_part *of);
/* Gives the device access, and nobody else: only it has to do with a pool. */
acre_status acre__region_access(const struct acre__region *region, uint64_t at, size_t bytes);
/* Unmaps one: 1, or 0 when the driver refuses, which costs its addresses. */
int acre__region_unmap(struct acre__region *region, struct acre__region_part *part);
/* Ends a region and everything in it. */
void acre__region_end(struct acre__region *region);
/* Tells the book and the table of slabs how far the region reaches. */
acre_status acre__region_note(struct acre__region *region);

#endif
