/* The trace: what was allocated and freed, by whom, where and when, as a file (trace_format.h).
 *
 * A thread writes into a block of its own of a mapped file, without a lock or an atomic operation
 * that waits for others; blocks are handed out under a lock. What a thread has written is in the
 * file: it stays there when the program is killed.
 *
 * Whoever has something to tell asks acre__trace_is_on first: one load and one branch when there is
 * no trace. The calls below may be made under any lock but one of the rank of leaves. */
#ifndef ACRE_WATCH_TRACE_H
#define ACRE_WATCH_TRACE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "watch/trace_format.h"

/* The number of the trace that is being written, 0 while there is none. */
extern _Atomic uint32_t acre__trace_generation;

static inline int acre__trace_is_on(void) {
    return (int)__builtin_expect(
        atomic_load_explicit(&acre__trace_generation, memory_order_relaxed) != 0, 0);
}

/* A pool, as the trace knows it: part of the pool's record. */
struct acre__trace_pool {
    uint32_t id;            /* no other pool of the process has or had it */
    _Atomic uint32_t named; /* the trace that has its name */
    char name[40];
};

/* Gives it a number and a name. */
void acre__trace_pool_init(struct acre__trace_pool *pool, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A block was handed out: after it was, so that whoever had it before has told already. */
void acre__trace_alloc(struct acre__trace_pool *pool, const void *p, size_t bytes, size_t real,
                       acre_stream stream, uint32_t tag);
/* None was. */
void acre__trace_refused(struct acre__trace_pool *pool, size_t bytes, acre_stream stream,
                         uint32_t tag, acre_status status);
/* A block is about to be freed: before it is, so that whoever gets it next tells later. */
void acre__trace_free(struct acre__trace_pool *pool, const void *p, acre_stream stream);
void acre__trace_free_after(struct acre__trace_pool *pool, const void *p, acre_event event);
/* The free told before was refused. */
void acre__trace_free_refused(struct acre__trace_pool *pool, const void *p, acre_stream stream,
                              acre_status status);
/* A block has another size, and perhaps another address; told before the old one is free. */
void acre__trace_realloc(struct acre__trace_pool *pool, const void *before, const void *p,
                         size_t bytes, size_t real, acre_stream stream, uint32_t tag);
/* The stream waits for memory of another. */
void acre__trace_wait(struct acre__trace_pool *pool, acre_stream stream);

/* Physical memory: ACRE__TRACE_CHUNK_CREATE or _RELEASE with a number that tells chunks apart,
 * ACRE__TRACE_CHUNK_MAP or _UNMAP with the address; and chunks mapped at another address. */
void acre__trace_chunk(enum acre__trace_kind kind, uint64_t which, uint64_t bytes);
void acre__trace_chunk_move(uint64_t from, uint64_t to, uint64_t bytes);

/* A tag has a name: kept, also for traces that are started later. */
void acre__trace_tag(uint32_t tag, const char *name);

/* acre_trace_start for ACRE_TRACE: a file that cannot be made is ACRE_E_CONFIG, what else goes
 * wrong a warning. Does something at its first success alone. */
acre_status acre__trace_begin(void);

#endif
