/* The soft driver's structs: all that more than one of its files knows.
 *
 *   range     what one allocating call returned, by address
 *   mapping   a chunk at an address
 *   backing   bytes that exist: a chunk, a block of host pages
 *   stream    an in-order queue of operations
 *   marker    one recording of an event: done or not, when, and what was known then
 *   context   what streams, events and plain memory belong to
 *   work      what a graph does and what it keeps alive; of a graph or of executables
 *   object    what a program asks graphs to keep alive, and the destructor that it gave
 */
#ifndef ACRE_SOFT_TYPES_H
#define ACRE_SOFT_TYPES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"
#include "base/tree.h"
#include "driver/driver.h"
#include "soft/soft.h"

#define SOFT_CHUNK_BYTES ((size_t)2 << 20)

enum {
    SOFT_SLOTS = 4096, /* streams that can be told apart by the clocks at one time */
    SOFT_STACK = 64,   /* contexts a thread can push */
};

/* ---- clocks (soft_clock.c) ---- */

/* at[slot] = how many steps of the stream in that slot are known to be done; slots past count: 0.
 * Snapshots have exactly the slots in use when they were made; the host's and the streams' own
 * clocks have room for all. */
struct soft_clock {
    uint64_t *at;
    size_t count;
};

/* One use of memory, as kept to compare later uses with. */
struct soft_use {
    uint64_t stream_id;
    uint64_t step;    /* number of the operation on its stream, counted from 1 */
    uint64_t epoch;   /* the stream's own clock at that step; 0: no use */
    uint64_t address; /* through which it was made */
    uint64_t mapping; /* id of the mapping it went through */
    uint32_t slot;
    const char *what; /* "copy to", "copy from", "fill" */
};

/* ---- memory ---- */

struct soft_backing {
    uint64_t id; /* CU_POINTER_ATTRIBUTE_BUFFER_ID */
    size_t bytes;
    int device;             /* ordinal of the device it belongs to */
    int is_host;            /* host pages or a host chunk, not device memory */
    int is_charged;         /* counts in the device's used bytes */
    uint64_t file_offset;   /* in the device's memfd, when fd < 0 */
    int fd;                 /* its own memfd, or -1 */
    struct acre__node file; /* in acre__soft.files by inode, when fd >= 0 */
    char *alias;            /* where operations reach the bytes */
    size_t alias_bytes;     /* to be unmapped with it; 0: not its own mapping */
    unsigned refs;          /* handles, mappings, running operations */
    CUmemAllocationProp prop;
    struct acre__tree shadow; /* of soft_clock.c: last uses by offset */
};

struct soft_segment; /* of soft_pool_types.h, as these two */
struct soft_gap;

/* What lies at device addresses for kernels to reach (soft_view.c). */
struct soft_view {
    const char *shown; /* the alias of the bytes whose pages are there; NULL: none */
    int protection;    /* PROT_* of those pages now */
};

enum soft_range_kind {
    SOFT_RESERVED,
    SOFT_PLAIN,
    SOFT_HOST,
    SOFT_REGISTERED,
    SOFT_MANAGED,
    SOFT_POOLED /* of a pool (soft_pool_types.h) */
};

struct soft_mapping {
    struct acre__node node; /* key: address */
    uint64_t id;
    size_t bytes;
    struct soft_backing *backing;
    uint64_t handle;                              /* that it was mapped by */
    unsigned char access[ACRE__SOFT_DEVICES_MAX]; /* CU_MEM_ACCESS_FLAGS_PROT_* */
    unsigned char host_access;
    struct soft_view view;
    struct soft_use *uses; /* of soft_clock.c: the last one of each slot through this mapping */
    size_t use_count;
};

/* What was asked for a part of a managed range, from `begin` to the next part (soft_managed.c). */
struct soft_advice {
    size_t begin;                        /* bytes into the range */
    CUmemLocation preferred, prefetched; /* type INVALID: none */
    int is_read_mostly;
    uint32_t accessed_by; /* bit of the device's ordinal; the host's is SOFT_HOST_BIT */
};

struct soft_range {
    struct acre__node node; /* key: first address */
    enum soft_range_kind kind;
    size_t bytes;         /* as asked for; a reservation's size */
    int device;           /* whose context made it; -1 for reservations */
    struct CUctx_st *ctx; /* with which it ends; NULL: with none */
    unsigned flags;       /* of the call that made it */
    uint64_t id;
    struct soft_backing *backing; /* NULL for reservations */
    size_t offset;                /* of the range in its backing */
    int sync_memops;
    int is_going;                    /* freed in stream order, and its stream is not there yet */
    struct CUmemPoolHandle_st *pool; /* of pooled memory, as the next two */
    struct soft_marker *born;        /* where in its stream it was allocated */
    struct soft_gap *gap;            /* the record that it becomes when it is freed */
    struct soft_view view;           /* of plain memory with chunks of its own */
    struct soft_advice *advice; /* of managed memory: its parts in order; NULL: nothing was asked */
    size_t advice_count;
};

/* Plain memory with chunks of its own, not a part of a slab. */
static inline int soft_range_is_large(const struct soft_range *range) {
    return range->kind == SOFT_PLAIN && range->bytes >= SOFT_CHUNK_BYTES / 2;
}

/* Bytes of one chunk, found by an address, */
struct soft_piece {
    struct soft_backing *backing;
    size_t offset;
    size_t bytes;
    uint64_t address;
    uint64_t mapping;
};

/* and as many of them as an operation needs (soft_range.c). */
struct soft_pieces {
    struct soft_piece *at;
    size_t count, room;
};

struct soft_handle {
    struct acre__node node; /* key: the handle */
    struct soft_backing *backing;
    unsigned count;
    CUmemAllocationProp prop; /* as created; an imported handle cannot be exported again */
};

/* A 2 MiB chunk that small plain allocations share, in units of SOFT_PLAIN_UNIT bytes. */
enum { SOFT_PLAIN_UNIT = 512, SOFT_PLAIN_UNITS = (2 << 20) / SOFT_PLAIN_UNIT };
enum { SOFT_PITCH_MOST = INT32_MAX }; /* bytes from row to row, as on every GPU */
struct soft_slab {
    struct soft_slab *next;
    uint64_t address;
    struct soft_backing *backing;
    struct soft_view view;
    unsigned used_units;
    uint64_t used[SOFT_PLAIN_UNITS / 64];
};

/* ---- streams and events ---- */

/* Steps of other streams that work comes after, as far as was known when it was queued: by waits
 * for events, not by what has run. What is not remembered is only a chance less for a pool to use
 * memory again (soft_past.c). */
struct soft_step {
    uint64_t stream; /* id */
    uint64_t step;
};
struct soft_past {
    struct soft_step *at;
    size_t count;
};

struct soft_marker {
    unsigned refs;
    int done;
    uint64_t ctx_id;        /* of the stream that it is recorded on, */
    struct soft_step place; /* and where there */
    uint64_t serial;        /* of the operation */
    struct soft_past past;  /* what comes before it */
    uint64_t time_ns;
    struct soft_clock clock;
    uint64_t capture_id;                   /* recorded in that capture; 0: not in one */
    uint64_t capture_stream, capture_step; /* where it was recorded, for joining again */
};

enum soft_op_kind {
    SOFT_COPY,
    SOFT_FILL,
    SOFT_RECORD,
    SOFT_WAIT,
    SOFT_CALL,
    SOFT_KERNEL,
    SOFT_ALLOC, /* memory begins here, in stream order, */
    SOFT_FREE,  /* and ends here */
    SOFT_NOTHING
};

/* One side of a copy: an address that is looked up when the operation runs, or bytes that the
 * driver does not know (pageable memory, or a copy of it that the operation owns). */
struct soft_side {
    uint64_t address;
    size_t pitch;
    int device;     /* whose access counts */
    int is_owned;   /* raw is freed with the operation */
    char *raw;      /* not NULL: these bytes, not the address */
    char **deliver; /* not NULL: where a waiting call takes raw over, in place of freeing it */
};

struct soft_op {
    struct soft_op *next;
    enum soft_op_kind kind;
    uint64_t step;
    uint64_t serial;         /* of all operations, in the order of the calls */
    uint64_t queued;         /* operations that were work by then (soft_lag.c), */
    uint64_t due_ns;         /* and when it may begin; 0: without a lag in time */
    struct soft_clock known; /* what the host knew when it queued this */
    struct soft_side to, from;
    size_t width, rows;
    unsigned value; /* of a fill, of value_bytes */
    unsigned value_bytes;
    struct soft_marker *marker;
    CUhostFn call;
    CUstreamCallback callback; /* the older form of a call: also made when the device is lost */
    CUstream caller;           /* the handle that the callback gets */
    void *argument;
    struct soft_launch *launch;   /* of a kernel (launch_types.h) */
    CUevent event;                /* of a graph's node: launches record it, or wait for it */
    struct soft_work *work;       /* of the graph whose launch ends with this operation */
    int is_stale;                 /* its memory was freed when the graph was launched */
    struct soft_backing *backing; /* of an alloc or free of `width` bytes at `to` */
    size_t offset;                /* in it */
};

struct soft_stream {
    struct soft_stream *next;   /* all streams of a context */
    struct CUstream_st *handle; /* NULL: of the driver's own, or destroyed */
    struct CUctx_st *ctx;
    int device;
    uint64_t thread; /* whose default stream it is; 0: nobody's */
    unsigned flags;
    int priority;
    uint64_t id;
    struct soft_op *head, *tail;
    int is_running, is_destroyed;  /* the operation that runs is still the head */
    unsigned waiters;              /* calls that wait for it and join its clock after */
    uint64_t submitted, completed; /* steps */
    uint64_t observed;             /* the last one that the host has waited for */
    struct soft_past past;
    uint64_t legacy_seen; /* the legacy stream's submitted steps that this one waits for already */
    uint64_t seen_by_legacy;
    uint32_t slot;
    struct soft_clock clock;
    CUstreamCaptureStatus capture;
    CUstreamCaptureMode capture_mode;
    uint64_t capture_thread;
    uint64_t capture_id;          /* the same for all streams of a capture, and never again */
    struct CUgraph_st *capturing; /* what the capture records into; NULL: none is under way */
    uint64_t capture_step;        /* operations that the capture recorded here */
    int capture_is_fork; /* drawn in by a wait, and not waited for again since its last step */
};

/* What a CUstream points to: given out again by the next create after a destroy, as the real
 * driver does it (so programs that keep dead handles are caught here too). */
struct CUstream_st {
    struct CUstream_st *next_free;
    struct soft_stream *stream; /* NULL while free */
};

struct CUevent_st {
    struct acre__node node; /* key: own address */
    struct CUctx_st *ctx;
    unsigned flags;
    struct soft_marker *marker; /* of the last record, or NULL */
};

/* ---- graphs (soft_graph.c, soft_object.c) ---- */

struct CUuserObject_st {
    struct acre__node node; /* key: own address */
    void *argument;
    CUhostFn destroy;
    uint64_t owned;               /* references of the program, */
    uint64_t held;                /* and of graphs, executables and launches */
    struct CUuserObject_st *next; /* in acre__soft.dying or dying_late */
};

struct soft_hold {
    struct CUuserObject_st *object;
    uint64_t count;
};

/* What a graph does, in the order of the capture, and the objects it holds. A graph has one of its
 * own; an executable has a copy of it, which its launches keep until they are done. */
struct soft_work {
    unsigned refs;
    struct soft_op *first, *last;
    struct soft_hold *holds;
    size_t hold_count;
};

struct CUgraph_st {
    struct acre__node node; /* key: own address */
    struct soft_work *work;
    unsigned capturing; /* streams that are captured into it */
};

struct CUgraphExec_st {
    struct acre__node node; /* key: own address */
    struct CUctx_st *ctx;   /* with which it ends */
    struct soft_work *work;
    struct soft_marker *launched; /* the end of its last launch; NULL: none */
};

struct CUmod_st {
    struct acre__node node;
    struct CUctx_st *ctx;
};

/* ---- devices and threads ---- */

enum { SOFT_LIMITS = 10 }; /* how many CU_LIMIT_* there are */

/* A context (soft_context.c). */
struct CUctx_st {
    struct CUctx_st *next; /* in acre__soft.contexts, or in free_contexts */
    int device;
    int is_own; /* made by cuCtxCreate; else it is its device's primary one */
    int is_alive, is_ending;
    unsigned retained;         /* a primary one: how often; resetting it does not change that */
    uint64_t id;               /* another one for every life */
    unsigned flags, flags_now; /* as the device's state has them; as cuCtxSetFlags left them */
    size_t limits[SOFT_LIMITS];
    unsigned char peers[ACRE__SOFT_DEVICES_MAX];
    CUresult lost; /* sticky error, 0 while well */
    struct soft_slab *slabs;
    struct soft_stream *streams;
    struct soft_stream *legacy, *gather;
};

struct soft_device {
    struct CUctx_st ctx; /* the primary one */
    int fd;              /* the sparse file that is its memory */
    char *alias;         /* all of that file */
    uint64_t file_bytes;
    uint64_t used_bytes;
    struct acre__tree holes;                                /* free extents of the file */
    struct CUmemPoolHandle_st *default_pool, *current_pool; /* NULL: not asked for yet */
    unsigned kernels; /* that run: while there are any, views are open */
};

static inline int soft_ctx_is_alive(const struct CUctx_st *ctx) {
    return ctx->is_alive && !ctx->is_ending;
}

static inline int soft_ordinal(const struct soft_device *device) {
    return device->ctx.device;
}

/* A context on a thread's stack, in the life that it had then. */
struct soft_place {
    struct CUctx_st *ctx;
    uint64_t id;
    int device; /* the record may be another context's by now */
};

/* The soft driver's part of a thread's record. */
struct soft_thread {
    struct soft_place stack[SOFT_STACK];
    unsigned depth;
    CUstreamCaptureMode capture_mode;
    int in_host_function;
    uint64_t generation; /* of acre__soft.generation when `stack` was filled */
};

/* How far devices are behind the host (soft_lag.c). */
struct soft_lag {
    uint64_t operations, ns; /* one of them; 0: none */
    uint64_t queued;         /* operations so far, but for records and waits */
    uint64_t waited_for;     /* serial up to which nothing is late any more */
    uint64_t questions;      /* that were answered "not ready" since the last operation */
};

struct soft_state {
    struct acre__lock lock;
    struct acre__cond work; /* workers wait for a stream that can go on */
    struct acre__cond done; /* callers wait for something to finish */
    struct acre__soft_config config;
    int is_configured, is_initialized;
    _Atomic int is_seeded; /* config.seeded, readable without the lock */
    uint64_t generation;   /* of restarts */
    uint64_t last_id, last_serial;
    struct soft_lag lag;
    struct soft_device devices[ACRE__SOFT_DEVICES_MAX];
    struct CUctx_st *contexts;      /* that live */
    struct CUctx_st *free_contexts; /* own ones that have ended */
    struct acre__tree ranges, mappings, handles, events, modules;
    struct acre__tree graphs, execs, objects;
    struct CUuserObject_st *dying, *dying_late; /* objects without references (soft_object.c) */
    struct acre__tree free_addresses, windows;  /* of soft_address.c */
    struct acre__tree files;                    /* chunks with a memfd of their own, by inode */
    struct acre__tree pools, segments;          /* of soft_pool_types.h */
    int is_past_kept;                           /* there was a pool to use it */
    struct CUstream_st *free_streams;
    struct acre__tree stream_handles; /* all CUstream_st ever made (soft_stream_api.c) */
    unsigned captures;                /* streams being captured */
    /* workers */
    pthread_t *workers;
    size_t worker_count, idle_count;
    int is_short_of_threads; /* the system refused one: callers help */
    unsigned stopping;       /* calls that want no worker to run */
    unsigned running;        /* operations using memory right now, without the lock */
    unsigned quiescing;      /* exports that wait for running to be 0 */
    /* clocks */
    struct soft_clock host;
    uint64_t slot_epoch[SOFT_SLOTS];
    unsigned char slot_used[SOFT_SLOTS];
    uint64_t slot_ctx[SOFT_SLOTS];              /* id of the stream's context */
    unsigned char slot_is_blocking[SOFT_SLOTS]; /* follows the legacy stream's rule */
    uint64_t slot_legacy[SOFT_SLOTS]; /* of ended streams: what the legacy stream was told of */
    size_t slot_high;
    size_t report_count;
    char report[1024];
    uint64_t random;
};

#endif
