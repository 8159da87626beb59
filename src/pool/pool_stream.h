/* Streams of a pool: what was freed on each, and when other streams may have it (pool_stream.c).
 * Everything here is called with the pool's lock held. */
#ifndef ACRE_POOL_STREAM_H
#define ACRE_POOL_STREAM_H

#include "pool/pool_slab.h"
#include "space/uses.h"

/* A stream whose id could not be asked for is taken for the one that the handle meant before. */
#define ACRE__ID_UNKNOWN UINT64_MAX

static inline int acre__id_differs(uint64_t a, uint64_t b) {
    return a != b && a != ACRE__ID_UNKNOWN && b != ACRE__ID_UNKNOWN;
}

/* The per-thread default stream has the same handle in all threads: the calling thread's id for it,
 * 0 for other streams. Only the thread itself can ask the driver about its own. */
uint64_t acre__stream_thread(acre_stream stream);

/* What was freed on a stream up to one event. */
struct acre__generation {
    struct acre__freed *freed;
    struct acre__uses mark; /* the event, on one stream */
    int is_covered;         /* it is behind everything in `freed` */
};

/* A stream, or one that ended and whose memory still waits. */
struct acre__pool_stream {
    struct acre__node node; /* key: the handle, or the thread of a per-thread default stream */
    struct acre__pool_stream *next; /* of the pool's */
    acre_stream stream;
    uint64_t id;     /* of the stream */
    uint64_t thread; /* acre__stream_thread of who freed */
    int is_foreign;  /* only a call that names it may touch it: made with CUDA, or a thread's own */
    int is_independent;               /* idle means that nothing before its end is under way */
    int is_over;                      /* it ended: nothing may be asked of the handle */
    int is_forgotten;                 /* it is found by no key any more */
    struct acre__graph_memory *graph; /* of a capture: nothing is asked of it (pool_graph.h) */
    struct acre__generation generations[2], *recent, *marked;
    struct acre__reach reach[ACRE__ARENAS]; /* what the two have of each arena, always of now */
};

/* Says which generation is which. Whoever looks for memory keeps a pointer to `reach`, since the
 * two may change places in the middle of that, when caches are emptied and events looked at. */
void acre__stream_turn(struct acre__pool_stream *stream, struct acre__generation *recent,
                       struct acre__generation *marked);
/* The record of a stream that the caller names, made now if there is none; NULL and *status
 * otherwise. */
struct acre__pool_stream *acre__stream_find(acre_pool *pool, acre_stream handle, uint64_t thread,
                                            uint64_t id, acre_status *status);
/* 1 if there is a record of the stream with that id. */
int acre__stream_is_known(acre_pool *pool, acre_stream handle, uint64_t thread, uint64_t id);
/* 1 if the handle is known to belong to a stream with another id by now. */
int acre__stream_is_gone(acre_pool *pool, acre_stream handle, uint64_t thread, uint64_t id);
/* Stands for streams that nobody knows; NULL without memory. */
struct acre__pool_stream *acre__stream_lost(acre_pool *pool);
/* Slots were freed on the stream; `is_named`: by a call that names it, so that it exists. */
void acre__stream_put(acre_pool *pool, struct acre__pool_stream *stream, uint32_t size_class,
                      struct acre__slots *slots, int is_named);
/* A block is freed that other streams use as well (acre_pool_record_use). */
acre_status acre__stream_put_used(acre_pool *pool, struct acre__slot *slot, uint32_t size_class,
                                  acre_stream stream);
/* A block is freed when an event has passed. */
acre_status acre__stream_put_after(acre_pool *pool, struct acre__slot *slot, uint32_t size_class,
                                   acre_event event);
/* Notes that what an event marks is a use. */
acre_status acre__stream_record_event(acre_pool *pool, struct acre__uses *uses, acre_event event);
/* 1 if a stream that the caller names, and that was settled just now, has work under way behind
 * which memory was freed. */
int acre__stream_is_behind(acre_pool *pool, const struct acre__pool_stream *stream);
/* Records an event behind what was freed on the stream, if its handle may be touched, and takes
 * what events have passed. */
void acre__stream_settle(acre_pool *pool, struct acre__pool_stream *stream, int is_named);
/* Settles all streams, or some of them; `own` is named by the caller, or NULL. */
void acre__streams_settle(acre_pool *pool, const struct acre__pool_stream *own, int all);
/* Makes a stream wait for the event of a generation; ACRE_E_NOT_READY without detail: there is
 * none, and the stream may be dead. */
acre_status acre__stream_join(acre_pool *pool, struct acre__pool_stream *stream,
                              struct acre__generation *generation, acre_stream waiter);
/* Makes a stream wait for the first thing that memory of the pool waits for; *is_over: there is
 * none. */
acre_status acre__streams_join_one(acre_pool *pool, acre_stream waiter, int *is_over);
/* Makes a stream wait for everything that was freed, as far as there are events. */
acre_status acre__streams_join(acre_pool *pool, acre_stream waiter);
/* How many streams have memory that is not ready. */
uint32_t acre__streams_pending(const acre_pool *pool);
/* The stream is about to end. */
acre_status acre__stream_retire(acre_pool *pool, acre_stream handle);
/* The calling thread ends, and with it its own default stream. */
void acre__stream_leave(acre_pool *pool, uint64_t thread);
/* Waits for the device, if there is memory that only this brings back. */
void acre__streams_recover(acre_pool *pool);
/* 1 for a stream of the pool's own that stands for several others, or for events. */
int acre__stream_is_relay(const acre_pool *pool, acre_stream stream);
/* Frees all records. */
void acre__pool_streams_end(acre_pool *pool);

#endif
