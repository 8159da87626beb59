/* The trace: a file of all allocations and frees, with pool, stream, tag, thread, address and time
 * (trace_format.h).
 *
 * A thread writes into its own block of a mapped file, without a lock and without an atomic
 * operation that waits for others. Blocks are assigned under a lock. Events that a thread has
 * written are in the file and survive when the program is killed.
 *
 * Callers check acre__trace_is_on first: one load and one branch when there is no trace. The
 * functions that record events may be called under any lock but a leaf. */
#ifndef ACRE_WATCH_TRACE_H
#define ACRE_WATCH_TRACE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "watch/trace_format.h"

/* The number of the running trace; 0 if there is none. */
extern _Atomic uint32_t acre__trace_generation;

static inline int acre__trace_is_on(void) {
    return (int)__builtin_expect(
        atomic_load_explicit(&acre__trace_generation, memory_order_relaxed) != 0, 0);
}

/* What records the calls of pools, as bits; a hit tests this one switch. */
enum {
    ACRE__WATCHED_TRACE = 1,
    ACRE__WATCHED_STACKS = 2, /* watch/origin.h */
    ACRE__WATCHED_STATS = 4,  /* watch/stats_file.h */
    ACRE__WATCHED_REGIONS = 8 /* watch/regions.h */
};
extern _Atomic uint32_t acre__watched;

static inline int acre__is_watched(void) {
    return (int)__builtin_expect(atomic_load_explicit(&acre__watched, memory_order_relaxed) != 0,
                                 0);
}

/* Sets a bit of acre__watched. */
static inline void acre__watch_add(uint32_t bit) {
    atomic_fetch_or_explicit(&acre__watched, bit, memory_order_relaxed);
}

/* Adds a device to those whose memory the trace names, once. `number` identifies it. */
void acre__trace_card(unsigned number, uint64_t bytes);

/* The trace's data of a pool: part of the pool's record. */
struct acre__trace_pool {
    uint32_t id;            /* unique in the process, never reused */
    _Atomic uint32_t named; /* the last trace that the name was written to */
    char name[40];
};

/* Assigns an id and a name. */
void acre__trace_pool_init(struct acre__trace_pool *pool, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Records an allocation; `stack` is the call stack (base/stack.h), or 0. Call it after the block
 * was allocated, so that the free by its previous owner comes first. */
void acre__trace_alloc(struct acre__trace_pool *pool, const void *p, size_t bytes, size_t real,
                       acre_stream stream, uint32_t tag, uint32_t stack);
/* Records an allocation that failed. */
void acre__trace_refused(struct acre__trace_pool *pool, size_t bytes, acre_stream stream,
                         uint32_t tag, acre_status status);
/* Records a free. Call it before the block is freed, so that the next allocation of the block comes
 * later. */
void acre__trace_free(struct acre__trace_pool *pool, const void *p, acre_stream stream);
void acre__trace_free_after(struct acre__trace_pool *pool, const void *p, acre_event event);
/* Records that the free recorded last failed. */
void acre__trace_free_refused(struct acre__trace_pool *pool, const void *p, acre_stream stream,
                              acre_status status);
/* Records a new size, and perhaps a new address, of a block. Call it before the old block is
 * freed. */
void acre__trace_realloc(struct acre__trace_pool *pool, const void *before, const void *p,
                         size_t bytes, size_t real, acre_stream stream, uint32_t tag,
                         uint32_t stack);
/* Records that the stream waits for memory of another stream. */
void acre__trace_wait(struct acre__trace_pool *pool, acre_stream stream);

/* Record physical memory: ACRE__TRACE_CHUNK_CREATE or _RELEASE with a number that identifies the
 * chunk, ACRE__TRACE_CHUNK_MAP or _UNMAP with the address; and a move of mapped chunks to another
 * address. */
void acre__trace_chunk(enum acre__trace_kind kind, uint64_t which, uint64_t bytes);
void acre__trace_chunk_move(uint64_t from, uint64_t to, uint64_t bytes);

/* Records the name of a tag, and keeps it for traces that are started later. */
void acre__trace_tag(uint32_t tag, const char *name);

/* Starts the trace that ACRE_TRACE names, if it is set. A file that cannot be opened returns
 * ACRE_E_CONFIG; other failures are warnings. Does nothing once it has started a trace or warned,
 * and while a trace is open. */
acre_status acre__trace_begin(void);

#endif
