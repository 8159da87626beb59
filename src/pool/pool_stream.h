/* Streams of a pool: memory freed on each, and when other streams may reuse it (pool_stream.c). All
 * functions require the pool's lock.
 *
 * A *generation* is the memory freed on a stream up to one event. A *foreign* stream was created by
 * the program with CUDA. A *relay* is a stream of the pool that waits for several others, or for an
 * event. */
#ifndef ACRE_POOL_STREAM_H
#define ACRE_POOL_STREAM_H

#include "pool/pool_slab.h"
#include "space/uses.h"

/* If the id cannot be queried, the handle is assumed to mean the same stream as before. */
#define ACRE__ID_UNKNOWN UINT64_MAX

static inline int acre__id_differs(uint64_t a, uint64_t b) {
    return a != b && a != ACRE__ID_UNKNOWN && b != ACRE__ID_UNKNOWN;
}

/* The calling thread's id for the per-thread default stream, 0 for other streams. That stream has
 * the same handle in all threads, and only its own thread can query it. */
uint64_t acre__stream_thread(acre_stream stream);

/* The memory freed on a stream up to one event. */
struct acre__generation {
    struct acre__freed *freed;
    struct acre__uses mark; /* the event */
    int is_covered;         /* the event was recorded after all frees in `freed` */
};

/* A stream, or a destroyed one whose memory is not ready yet. */
struct acre__pool_stream {
    struct acre__node node; /* key: the handle, or the thread of a per-thread default stream */
    struct acre__pool_stream *next; /* in pool->streams */
    acre_stream stream;
    uint64_t id;     /* of the stream */
    uint64_t thread; /* acre__stream_thread of the thread that freed */
    int is_foreign;  /* only a call that names it may touch it: created with CUDA, or per-thread */
    int is_independent;               /* cuStreamQuery reports whether all its work is done */
    int is_over;                      /* it is destroyed: the handle may not be touched */
    int is_forgotten;                 /* no lookup finds it any more */
    struct acre__graph_memory *graph; /* of a capture: never queried (pool_graph.h) */
    struct acre__generation generations[2], *recent, *marked;
    struct acre__reach reach[ACRE__ARENAS]; /* holes of both generations, kept up to date */
};

/* Sets the recent and the marked generation, and updates `reach`. Code that searches memory keeps a
 * pointer to `reach`, because the generations may swap when it drains caches or queries events. */
void acre__stream_turn(struct acre__pool_stream *stream, struct acre__generation *recent,
                       struct acre__generation *marked);
/* Finds or creates the record of a stream that the caller names. Returns NULL, with the detail of
 * ACRE_E_HOST_MEMORY, if out of host memory. */
struct acre__pool_stream *acre__stream_find(acre_pool *pool, acre_stream handle, uint64_t thread,
                                            uint64_t id);
/* As acre__stream_find, for a stream that the calling thread names. */
static inline struct acre__pool_stream *acre__stream_named(acre_pool *pool, acre_stream handle,
                                                           uint64_t id) {
    return acre__stream_find(pool, handle, acre__stream_thread(handle), id);
}
/* Returns 0 if slots freed on the stream earlier could only go to the record of unknown streams
 * now: the stream is foreign, and its last event has not passed. */
int acre__stream_has_place(acre_pool *pool, acre_stream handle, uint64_t thread, uint64_t id);
/* Returns the record for frees whose stream is unknown; NULL if out of host memory. */
struct acre__pool_stream *acre__stream_lost(acre_pool *pool);
/* Adds slots freed on the stream. `is_named`: the call names the stream, so the stream exists. */
void acre__stream_put(acre_pool *pool, struct acre__pool_stream *stream, uint32_t size_class,
                      struct acre__slots *slots, int is_named);
/* Frees a block that other streams use as well (acre_pool_record_use). */
acre_status acre__stream_put_used(acre_pool *pool, struct acre__slot *slot, uint32_t size_class,
                                  acre_stream stream);
/* Frees a block once an event has passed. */
acre_status acre__stream_put_after(acre_pool *pool, struct acre__slot *slot, uint32_t size_class,
                                   acre_event event);
/* Records the work before an event as a use. */
acre_status acre__stream_record_event(acre_pool *pool, struct acre__uses *uses, acre_event event);
/* Returns 1 if work before frees on the stream is in flight. The caller names the stream and has
 * just settled it. */
int acre__stream_is_behind(acre_pool *pool, const struct acre__pool_stream *stream);
/* Records an event after the frees on the stream, if the handle may be touched. Makes memory ready
 * whose event has passed. */
void acre__stream_settle(acre_pool *pool, struct acre__pool_stream *stream, int is_named);
/* Settles all streams, or some of them. `own` is the one that the caller names, or NULL. */
void acre__streams_settle(acre_pool *pool, const struct acre__pool_stream *own, int all);
/* Makes a stream wait for the event of a generation. Returns ACRE_E_NOT_READY, without detail, if
 * there is no event and the stream may be dead. */
acre_status acre__stream_join(acre_pool *pool, struct acre__pool_stream *stream,
                              struct acre__generation *generation, acre_stream waiter);
/* Makes a stream wait for up to `most` events that frees wait for. *joined is their number. */
acre_status acre__streams_join(acre_pool *pool, acre_stream waiter, uint32_t most,
                               uint32_t *joined);
/* Returns the number of streams that have memory that is not ready. */
uint32_t acre__streams_pending(const acre_pool *pool);
/* Retires a stream that is about to be destroyed: its frees get an event, or wait for the
 * device. */
acre_status acre__stream_retire(acre_pool *pool, acre_stream handle);
/* Retires the per-thread default stream of the calling thread, which exits. */
void acre__stream_leave(acre_pool *pool, uint64_t thread);
/* Waits for the device, with the lock held, if some memory can only become ready that way. */
void acre__streams_recover(acre_pool *pool);
/* Returns 1 if the stream is a relay of the pool. */
int acre__stream_is_relay(const acre_pool *pool, acre_stream stream);
/* Frees all records. */
void acre__pool_streams_end(acre_pool *pool);

/* ---- returning slots to the pool ---- */

/* Finds or creates the record of the stream in `want`; NULL as acre__stream_find. */
struct acre__pool_stream *acre__central_stream(const struct acre__want *want);
/* Moves slots freed on the stream to the pool, in a call that names the stream. `freed_id` is the
 * stream's id when they were freed, `id` the current one. Returns 0 if out of host memory; the
 * caller keeps the slots. */
int acre__central_give(acre_pool *pool, uint32_t size_class, acre_stream stream, uint64_t freed_id,
                       uint64_t id, struct acre__slots *slots);
/* As acre__central_give, for slots that a thread cached while the stream had that id. The stream
 * may be dead. `thread`: its acre__stream_thread. */
int acre__central_give_old(acre_pool *pool, uint32_t size_class, acre_stream stream,
                           uint64_t thread, uint64_t id, int is_foreign, struct acre__slots *slots);
/* Waits for the device, then moves the slots to the pool as ready. Returns 0 if the wait fails. */
int acre__central_give_after_all(acre_pool *pool, uint32_t size_class, struct acre__slots *slots);

/* Queries the id of a stream; ACRE__ID_UNKNOWN if the driver cannot report it. Returns
 * ACRE_E_CAPTURING during a capture, because the query would break the capture. */
acre_status acre__pool_stream_id(acre_device *dev, acre_stream stream, uint64_t *id);

#endif
