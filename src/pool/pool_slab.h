/* Slots and slabs: the memory of a pool's blocks.
 *
 * A slot is the memory of one block. A slab is a piece of an arena (arena/arena.h) that is divided
 * into slots of one size class. A large block has a slab of its own with one slot.
 *
 * A free small slot is in exactly one place: in a thread's cache (pool_cache.h), in its slab's
 * ready list (any stream may use it), or in a list of slots freed on a stream (struct acre__freed).
 * Such a list is divided into shares, one for each slab. So the pool reuses the lowest address
 * first, and notices when a slab is fully free. Free large slots exist only in caches: elsewhere
 * their memory is a hole of the arena. */
#ifndef ACRE_POOL_SLAB_H
#define ACRE_POOL_SLAB_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "acre.h"
#include "arena/arena.h"
#include "base/atomic.h"
#include "base/round.h"
#include "base/tree.h"
#include "pool/pool_class.h"

/* Unrelated threads must not share a cache line that one of them writes (false sharing). So data
 * that a hit touches begins at a cache line of its own. */
enum { ACRE__LINE = 64 };

/* Allocates zeroed host memory that shares no cache line; NULL if out of memory. Free it with
 * free. */
static inline void *acre__pool_lines(size_t bytes) {
    size_t whole = acre__round_up(bytes, ACRE__LINE);
    void *lines = whole <= PTRDIFF_MAX ? aligned_alloc(ACRE__LINE, whole) : NULL;
    return lines ? memset(lines, 0, whole) : NULL;
}

/* ---- slots ---- */

/* The state of a slot: 0 when free; else flags, the mark of the thread that allocated it, and the
 * bytes requested (0 for a large block, whose slab has them).
 *
 * An allocation is a plain store, because only the calling thread has the slot. The hot path
 * (pool_hit.c) frees a block of the calling thread with a load and a plain store. All other frees
 * use a compare-and-swap, which one thread wins. So a second free fails, with one exception. If the
 * allocating thread and another thread free the block at the same instant, both frees may succeed,
 * and the slot is then in two lists.
 *
 * Marks are reused. So a thread takes the blocks of another thread with the same mark for its own,
 * and frees them with a plain store too. That is a correct free, unless both threads free one block
 * at the same instant: such a double free may go undetected. */
enum {
    ACRE__SLOT_LIVE = 1,
    ACRE__SLOT_USED = 2,   /* other streams use it as well */
    ACRE__SLOT_TAGGED = 4, /* allocated with a tag (pool_tag.h) */
    ACRE__SLOT_GRAPH = 8,  /* allocated by a graph capture (pool_graph.h) */
    ACRE__SLOT_MARK = 16,
    ACRE__SLOT_MARKS = 127, /* 0 is unused */
    ACRE__SLOT_WHO = 2047,  /* all of the above; the requested bytes are in the bits above */
    ACRE__SLOT_BYTES_SHIFT = 11
};

typedef _Atomic uint32_t acre__slot_state;

/* An entry of the pool's lists. A hit does not touch it. */
struct acre__slot {
    struct acre__slot *next; /* in its list; meaningless while the slot is live or cached */
    void *p;
    acre__slot_state *state; /* in its slab */
};

struct acre__slots { /* a list that can be appended to another in constant time */
    struct acre__slot *first, *last;
    uint32_t count;
};

static inline void acre__slots_push(struct acre__slots *slots, struct acre__slot *slot) {
    slot->next = slots->first;
    slots->first = slot;
    if (!slots->last)
        slots->last = slot;
    slots->count++;
}
static inline struct acre__slots acre__slots_of(struct acre__slot *slot) {
    slot->next = NULL;
    return (struct acre__slots){slot, slot, 1};
}
static inline void acre__slots_join(struct acre__slots *to, struct acre__slots *from) {
    if (!from->first)
        return;
    from->last->next = to->first;
    if (!to->last)
        to->last = from->last;
    to->first = from->first;
    to->count += from->count;
    *from = (struct acre__slots){0};
}
static inline struct acre__slot *acre__slots_pop(struct acre__slots *slots) {
    struct acre__slot *slot = slots->first;
    if (slot) {
        slots->first = slot->next;
        slots->count--;
        if (!slots->first)
            slots->last = NULL;
    }
    return slot;
}
/* Moves up to `count` slots from the front of one list to another. */
static inline void acre__slots_move(struct acre__slots *to, struct acre__slots *from,
                                    uint32_t count) {
    while (count-- && from->first)
        acre__slots_push(to, acre__slots_pop(from));
}

/* ---- slabs ---- */

struct acre__slab;
struct acre__freed;

/* The slots of one slab in a list of frees. */
struct acre__share {
    struct acre__node node; /* in the owner's tree of its class; key: the slab's address */
    struct acre__slab *slab;
    struct acre__freed *owner; /* NULL without slots */
    struct acre__slots slots;
};

enum { ACRE__SHARES = 2 }; /* per slab: a stream has two generations of freed slots */

/* With a million live blocks every cache line that a free touches is a cache miss. So a hit reads
 * one line of the slab and the line of the state. The states lie together behind the slab, and the
 * records of the slots behind the states. A thread fetches at least as many slots as have their
 * states in one line (acre__class_state_shift): 16, 4 or 1. */
struct acre__slab {
    uint64_t at;
    uint64_t magic; /* 2^32 / slot_bytes in grains, rounded up: divides offsets of less than 2^16
                       grains; 0 with one slot, so that any offset gives index 0 */
    uint64_t slot_bytes;
    uint32_t count;      /* slots */
    uint32_t size_class; /* ACRE__CLASSES: one slot, of a large block */
    acre_pool *pool;
    struct acre__slot *slots;         /* behind the states; `p` is set at first use */
    _Atomic(_Atomic uint16_t *) tags; /* of blocks with ACRE__SLOT_TAGGED; NULL before the first */
    uint32_t state_shift;             /* distance of states: 1 << state_shift */
    /* The pool's lock guards the rest, which is not in the line that every hit reads. */
    _Alignas(ACRE__LINE) uint32_t fresh; /* slots from here on were never used */
    struct acre__slots ready;            /* slots free for any stream */
    struct acre__share shares[ACRE__SHARES];
    struct acre__node node; /* small: in pool->open of its class, while it has fresh or ready slots;
                               large: in pool->large; key: address */
    int is_open;
    int is_idle;                      /* fully free: in pool->idle */
    struct acre__slab *older, *newer; /* in pool->idle */
    struct acre__slab *next;          /* in pool->retired or pool->spare */
    struct acre__piece *piece;        /* its place in the arena */
    size_t bytes;
    _Atomic size_t asked;     /* of a large block: bytes requested */
    _Atomic uint16_t one_tag; /* replaces the array if there is one slot */
    _Alignas(ACRE__LINE) acre__slot_state states[];
};

static inline int acre__slab_is_large(const struct acre__slab *slab) {
    return slab->size_class == ACRE__CLASSES;
}

/* The bytes requested for a block with that state. */
static inline size_t acre__slab_asked(struct acre__slab *slab, uint32_t state) {
    return acre__slab_is_large(slab) ? acre__load(&slab->asked, memory_order_relaxed)
                                     : state >> ACRE__SLOT_BYTES_SHIFT;
}
/* Records the bytes requested. Returns the state with them. */
static inline uint32_t acre__slab_ask(struct acre__slab *slab, uint32_t state, size_t bytes) {
    if (!acre__slab_is_large(slab))
        return (state & ACRE__SLOT_WHO) | (uint32_t)bytes << ACRE__SLOT_BYTES_SHIFT;
    acre__store(&slab->asked, bytes, memory_order_relaxed);
    return state;
}
/* The state of the slot that begins at `p`, an address in the slab; NULL if none begins there. */
static inline acre__slot_state *acre__slab_state(struct acre__slab *slab, const void *p) {
    uint64_t offset = (uintptr_t)p - slab->at;
    uint32_t index = (uint32_t)(offset / ACRE__GRAIN * slab->magic >> 32);
    int is_first = index * slab->slot_bytes == offset && index < slab->count;
    return is_first ? &slab->states[(size_t)index << slab->state_shift] : NULL;
}
/* The index of a state, and the state at an index. */
static inline uint32_t acre__slab_index(const struct acre__slab *slab,
                                        const acre__slot_state *state) {
    return (uint32_t)(state - slab->states) >> slab->state_shift;
}
static inline acre__slot_state *acre__slab_state_at(struct acre__slab *slab, uint32_t index) {
    return &slab->states[(size_t)index << slab->state_shift];
}
/* The record of the slot that begins at `p`. */
static inline struct acre__slot *acre__slab_slot(struct acre__slab *slab, const void *p) {
    const acre__slot_state *state = acre__slab_state(slab, p);
    return state ? &slab->slots[acre__slab_index(slab, state)] : NULL;
}
/* The slot that contains an address of the slab; NULL behind the last one. */
static inline struct acre__slot *acre__slab_around(struct acre__slab *slab, const void *p) {
    uint64_t index = ((uintptr_t)p - slab->at) / slab->slot_bytes;
    return index < slab->count ? &slab->slots[index] : NULL;
}

/* The address of a slot, for callers that may not read its record. */
static inline void *acre__slab_begin(const struct acre__slab *slab, const struct acre__slot *slot) {
    return (void *)(uintptr_t)(slab->at + (uint64_t)(slot - slab->slots) * slab->slot_bytes);
}

/* Creates the record of a slab of `count` slots, in no list; NULL if out of host memory. */
struct acre__slab *acre__slab_record(uint64_t at, size_t bytes, size_t slot_bytes, size_t count);
/* Frees a record that is in no list. */
void acre__slab_drop(struct acre__slab *slab);

/* ---- slots freed on a stream ---- */

struct acre__freed_class {
    struct acre__tree shares;    /* by slab address */
    struct acre__slots loose;    /* slots of slabs whose shares belong to other lists */
    struct acre__slots *bundles; /* whole lists from threads; NULL before the first */
    uint32_t bundle_count;
};

enum acre__pool_arena { ACRE__ARENA_SLABS, ACRE__ARENA_BLOCKS, ACRE__ARENAS };

/* Free memory that waits for the same work. */
struct acre__freed {
    struct acre__freed_class classes[ACRE__CLASSES];
    struct acre__holes holes[ACRE__ARENAS];
    uint64_t count;                     /* slots */
    struct acre__class_set used;        /* classes that may have slots */
    struct acre__pool_stream *stream;   /* stream of the frees; NULL: a capture */
    acre_pool *pool;                    /* set with `stream` */
    struct acre__freed *before, *after; /* ring at pool->freed, while there are slots */
};

static inline int acre__freed_has(const struct acre__freed *freed) {
    return freed->count || freed->holes[ACRE__ARENA_SLABS].bytes ||
           freed->holes[ACRE__ARENA_BLOCKS].bytes || freed->holes[ACRE__ARENA_BLOCKS].ghosts;
}

/* ---- under the pool's lock ---- */

/* Takes a slot that was never used; there must be one. */
struct acre__slot *acre__slab_fresh(struct acre__slab *slab);
/* The slab of this pool that contains the address, or NULL. Any value is safe. */
struct acre__slab *acre__slab_of(const acre_pool *pool, const void *p);
/* Calls `fn` with the piece of every slab, also of large blocks; its `user` is the slab. */
void acre__slabs_walk(const acre_pool *pool, void (*fn)(void *user, struct acre__piece *piece),
                      void *user);
/* Updates the lists after the number of free slots changed. */
void acre__slab_note(struct acre__slab *slab);
/* Frees the records of retired slabs. The caller has claimed all thread caches since the slabs were
 * retired. */
void acre__slabs_reap(acre_pool *pool);
/* Removes a slab from the list of fully free slabs. The slab must be in that list. */
void acre__slab_unidle(acre_pool *pool, struct acre__slab *slab);
/* Frees a large block. It becomes a hole that waits for what `to` waits for. */
void acre__large_give(acre_pool *pool, struct acre__slab *slab, const struct acre__reach *to);
/* Keeps the record of a large block for reuse. */
void acre__large_unrecord(acre_pool *pool, struct acre__slab *slab);

#endif
