/* The structs that files of the soft driver share.
 *
 *   range     the memory or addresses that one call returned, by address
 *   mapping   a chunk at an address
 *   backing   bytes that exist: a chunk, a block of host pages
 *   stream    an in-order queue of operations
 *   marker    one recording of an event: whether it is done, when, and what was known then
 *   context   the owner of streams, events and plain memory
 *   work      the nodes of a graph and the objects that it keeps alive; of a graph or of
 * executables object    a user object with its destructor, which graphs keep alive */
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
    SOFT_SLOTS = 4096, /* streams that the clocks can distinguish at one time */
    SOFT_STACK = 64,   /* depth of a thread's context stack */
};

/* ---- clocks (soft_clock.c) ---- */

/* at[slot] is the number of steps of the slot's stream that are known to be done. Slots past
 * `count` are 0. A snapshot has exactly the slots that were in use when it was taken. The clocks of
 * the host and of streams have room for all slots. */
struct soft_clock {
    uint64_t *at;
    size_t count;
};

/* One recorded use of memory, for comparison with later uses. */
struct soft_use {
    uint64_t stream_id;
    uint64_t step;    /* of the operation on its stream, counted from 1 */
    uint64_t epoch;   /* the stream's entry in its clock at that step; 0: no use */
    uint64_t address; /* that the operation used */
    uint64_t mapping; /* id of the mapping that the operation used */
    uint32_t slot;
    uint64_t serial;  /* of the operation among all, in call order */
    uint32_t stack;   /* the call stack that queued the operation (base/stack.h); 0: unknown */
    const char *what; /* "copy to", "copy from", "fill", "free", or SOFT_USE_ALLOC */
};

/* ---- memory ---- */

struct soft_backing {
    uint64_t id; /* CU_POINTER_ATTRIBUTE_BUFFER_ID */
    size_t bytes;
    int device;             /* ordinal of its device */
    int is_host;            /* host pages or a host chunk, not device memory */
    int is_charged;         /* counts in the device's used bytes */
    uint64_t file_offset;   /* in the device's memfd, when fd < 0 */
    int fd;                 /* its own memfd, or -1 */
    struct acre__node file; /* in acre__soft.files by inode, when fd >= 0 */
    char *alias;            /* where operations access the bytes */
    size_t alias_bytes;     /* unmapped with the backing; 0: the mapping is not its own */
    unsigned refs;          /* of handles, mappings, ranges, slabs, segments and operations */
    CUmemAllocationProp prop;
    struct acre__tree shadow; /* of soft_clock.c: last uses by offset */
};

struct soft_segment; /* see soft_pool_types.h, as for soft_gap */
struct soft_gap;

/* Pages mapped at device addresses for kernels to access (soft_view.c). */
struct soft_view {
    const char *shown; /* alias of the mapped bytes; NULL: no pages are mapped */
    int protection;    /* PROT_* of the pages now */
};

enum soft_range_kind {
    SOFT_RESERVED,
    SOFT_PLAIN,
    SOFT_HOST,
    SOFT_REGISTERED,
    SOFT_MANAGED,
    SOFT_POOLED /* memory of a pool (soft_pool_types.h) */
};

struct soft_mapping {
    struct acre__node node; /* key: address */
    uint64_t id;
    size_t bytes;
    struct soft_backing *backing;
    uint64_t handle;                              /* that the program passed to cuMemMap */
    unsigned char access[ACRE__SOFT_DEVICES_MAX]; /* CU_MEM_ACCESS_FLAGS_PROT_* */
    unsigned char host_access;
    struct soft_view view;
    struct soft_use *uses; /* of soft_clock.c: the last use of each slot through this mapping */
    size_t use_count;
};

/* Advice for a part of a managed range, from `begin` to the next part (soft_managed.c). */
struct soft_advice {
    size_t begin;                        /* bytes into the range */
    CUmemLocation preferred, prefetched; /* type INVALID: none */
    int is_read_mostly;
    uint32_t accessed_by; /* bit of the device's ordinal; the host's is SOFT_HOST_BIT */
};

struct soft_range {
    struct acre__node node; /* key: first address */
    enum soft_range_kind kind;
    size_t bytes;         /* as requested; a reservation's size */
    int device;           /* of the context that allocated it; -1 for reservations */
    struct CUctx_st *ctx; /* that frees the range when it is destroyed; NULL: none */
    unsigned flags;       /* of the call that allocated it */
    uint64_t id;
    struct soft_backing *backing; /* NULL for reservations */
    size_t offset;                /* of the range in its backing */
    int sync_memops;
    int is_going; /* freed in stream order, but the stream has not reached the free */
    struct CUmemPoolHandle_st *pool; /* of pool memory, as the next two */
    struct soft_marker *born;        /* the allocation in its stream */
    struct soft_gap *gap;            /* the gap record for when it is freed */
    struct soft_graph_memory *graph; /* of memory that a graph's node allocates; NULL: none does */
    struct soft_view view;           /* of plain memory with its own chunks */
    struct soft_advice *advice; /* of managed memory: parts in order; NULL: no advice was given */
    size_t advice_count;
};

/* Returns 1 for plain memory with its own chunks, 0 for a part of a slab. */
static inline int soft_range_is_large(const struct soft_range *range) {
    return range->kind == SOFT_PLAIN && range->bytes >= SOFT_CHUNK_BYTES / 2;
}

/* Bytes of one chunk at an address. */
struct soft_piece {
    struct soft_backing *backing;
    size_t offset;
    size_t bytes;
    uint64_t address;
    uint64_t mapping;
};

/* The pieces that an operation needs (soft_range.c). */
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
enum { SOFT_PITCH_MOST = INT32_MAX }; /* bytes per row, as on every GPU */
struct soft_slab {
    struct soft_slab *next;
    uint64_t address;
    struct soft_backing *backing;
    struct soft_view view;
    unsigned used_units;
    uint64_t used[SOFT_PLAIN_UNITS / 64];
};

/* ---- streams and events ---- */

/* Steps of other streams that work comes after, as known from waits for events when the work was
 * queued, not from what has run. A forgotten step only costs a pool a chance to reuse memory
 * (soft_past.c). */
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
    uint64_t ctx_id;        /* of the stream that records it */
    struct soft_step place; /* that stream and the step in it */
    uint64_t serial;        /* of the operation that records it */
    struct soft_past past;  /* steps that come before it */
    uint64_t time_ns;
    struct soft_clock clock;
    uint64_t capture_id;                   /* of the capture that it was recorded in; 0: none */
    uint64_t capture_stream, capture_step; /* stream and step in the capture, for joining again */
};

enum soft_op_kind {
    SOFT_COPY,
    SOFT_FILL,
    SOFT_RECORD,
    SOFT_WAIT,
    SOFT_CALL,
    SOFT_KERNEL,
    SOFT_ALLOC, /* allocates memory in stream order */
    SOFT_FREE,  /* frees memory in stream order */
    SOFT_NOTHING
};

/* One side of a copy: an address that is looked up when the operation runs, or raw bytes that the
 * driver does not know (pageable memory, or a copy of it that the operation owns). */
struct soft_side {
    uint64_t address;
    size_t pitch;
    int device;     /* whose access is checked */
    int is_owned;   /* raw is freed with the operation */
    char *raw;      /* not NULL: use these bytes instead of the address */
    char **deliver; /* not NULL: gets `raw` when the operation is freed, for a waiting call */
};

struct soft_op {
    struct soft_op *next;
    enum soft_op_kind kind;
    uint64_t step;
    uint64_t serial;         /* number among all operations, in call order */
    uint64_t queued;         /* value of lag.queued when it was queued (soft_lag.c) */
    uint64_t due_ns;         /* when it may begin; 0: no lag in time */
    struct soft_clock known; /* the host's clock when it queued the operation */
    struct soft_side to, from;
    size_t width, rows;
    unsigned value; /* of a fill */
    unsigned value_bytes;
    struct soft_marker *marker;
    CUhostFn call;
    CUstreamCallback callback; /* cuStreamAddCallback: also called when the context is lost */
    CUstream caller;           /* the handle passed to the callback */
    void *argument;
    struct soft_launch *launch;   /* of a kernel (launch_types.h) */
    CUevent event;                /* of a graph's node: launches record it or wait for it */
    struct soft_work *work;       /* of the graph whose launch this operation ends */
    int is_stale;                 /* its memory was free when the graph was launched */
    struct soft_backing *backing; /* of an alloc or free of `width` bytes at `to.address` */
    size_t offset;                /* in the backing */
    uint32_t stack;               /* of the call that queued it; 0: unknown */
    struct soft_graph_memory *graph_memory; /* of a graph's node that allocates or frees */
};

struct soft_stream {
    struct soft_stream *next;          /* in the context's list of streams */
    struct soft_stream_handle *handle; /* NULL: internal, a default stream, or destroyed */
    struct CUctx_st *ctx;
    int device;
    uint64_t thread; /* whose default stream this is; 0: none */
    unsigned flags;
    int priority;
    uint64_t id;
    struct soft_op *head, *tail;
    int is_running, is_destroyed;  /* the running operation stays at the head */
    unsigned waiters;              /* calls that wait for the stream and then join its clock */
    uint64_t submitted, completed; /* steps */
    uint64_t observed;             /* last step that the host has waited for */
    struct soft_past past;
    uint64_t legacy_seen; /* steps of the legacy stream that this stream already waits for */
    uint64_t seen_by_legacy;
    uint32_t slot;
    struct soft_clock clock;
    CUstreamCaptureStatus capture;
    CUstreamCaptureMode capture_mode;
    uint64_t capture_thread;
    uint64_t capture_id;          /* the same for all streams of a capture; ids are not reused */
    struct CUgraph_st *capturing; /* the graph that the capture records into; NULL: not captured */
    uint64_t capture_step;        /* operations that the capture recorded on this stream */
    int capture_is_fork; /* joined by a wait, and not waited for again since its last step */
};

/* Handles of streams and events point nowhere: they are the same numbers in every run, so that with
 * a seed whatever hashes them does the same. */
#define SOFT_STREAM_HANDLES ((uint64_t)0x5ace << 32) /* far from what programs allocate */
#define SOFT_EVENT_HANDLES ((uint64_t)0x5acf << 32)
#define SOFT_HANDLE_STEP ((uint64_t)256)

/* A CUstream. The next create after a destroy reuses it, as the real driver does, so programs that
 * keep stale handles fail here, too. */
struct soft_stream_handle {
    struct acre__node node; /* key: the CUstream */
    struct soft_stream_handle *next_free;
    struct soft_stream *stream; /* NULL while free */
};

/* A CUevent, reused as a CUstream is. */
struct soft_event {
    struct acre__node node; /* key: the CUevent */
    struct soft_event *next_free;
    struct CUctx_st *ctx;
    unsigned flags;
    struct soft_marker *marker; /* of the last recording, or NULL */
};

/* ---- graphs (soft_graph.c, soft_object.c) ---- */

struct CUuserObject_st {
    struct acre__node node; /* key: own address */
    void *argument;
    CUhostFn destroy;
    uint64_t owned;               /* references of the program */
    uint64_t held;                /* references of graphs, executables and launches */
    struct CUuserObject_st *next; /* in acre__soft.dying or dying_late */
};

struct soft_hold {
    struct CUuserObject_st *object;
    uint64_t count;
};

/* Pool memory that a node of a graph allocates (soft_graph_memory.c). Its address is in other
 * nodes, so it is held while a node refers to it. */
struct soft_graph_memory {
    unsigned refs;             /* of nodes */
    struct soft_range *range;  /* NULL: the pool's memory has ended */
    struct CUgraph_st *graph;  /* whose capture allocated it and has not freed it; NULL: none */
    int is_live;               /* a launch has allocated it, and nothing has freed it since */
    struct soft_marker *freed; /* the last free in its stream; NULL: none */
    struct soft_graph_memory *next; /* in acre__soft.graph_memory_over */
};

/* The nodes of a graph, in capture order, and the objects that it holds. A graph has its own work.
 * An executable has a copy, which its launches keep until they are done. */
struct soft_work {
    unsigned refs;
    struct soft_op *first, *last;
    struct soft_hold *holds;
    size_t hold_count;
};

struct CUgraph_st {
    struct acre__node node; /* key: own address */
    struct soft_work *work;
    unsigned capturing;          /* number of streams that are captured into it */
    struct CUgraphExec_st *exec; /* of a graph that allocates memory: its one executable, or NULL */
};

struct CUgraphExec_st {
    struct acre__node node; /* key: own address */
    struct CUctx_st *ctx;   /* that destroys it */
    struct soft_work *work;
    struct soft_marker *launched; /* end of its last launch; NULL: none */
    int is_auto_free;             /* a launch frees what earlier ones allocated and did not free */
};

struct CUmod_st {
    struct acre__node node;
    struct CUctx_st *ctx;
};

/* ---- devices and threads ---- */

enum { SOFT_LIMITS = 10 }; /* number of CU_LIMIT_* values */

/* A context (soft_context.c). */
struct CUctx_st {
    struct CUctx_st *next; /* in acre__soft.contexts, or in free_contexts */
    int device;
    int is_own; /* created by cuCtxCreate; otherwise the device's primary context */
    int is_alive, is_ending;
    unsigned retained;         /* references to a primary context; a reset keeps them */
    uint64_t id;               /* new each time the context is created */
    unsigned flags, flags_now; /* of the device's state; as cuCtxSetFlags left them */
    size_t limits[SOFT_LIMITS];
    unsigned char peers[ACRE__SOFT_DEVICES_MAX];
    CUresult lost;  /* sticky error; 0: none */
    char why[1024]; /* the report of the error; empty: none */
    struct soft_slab *slabs;
    struct soft_stream *streams;
    struct soft_stream *legacy, *gather;
};

struct soft_device {
    struct CUctx_st ctx; /* the primary context */
    int fd;              /* of the sparse file that is the device's memory; -1: none */
    char *alias;         /* mapping of the whole file */
    uint64_t file_bytes;
    uint64_t used_bytes;
    struct acre__tree holes;                                /* free extents of the file */
    struct CUmemPoolHandle_st *default_pool, *current_pool; /* NULL: none yet; the default */
    unsigned kernels; /* running kernels; views are open while there are any */
};

static inline int soft_ctx_is_alive(const struct CUctx_st *ctx) {
    return ctx->is_alive && !ctx->is_ending;
}

static inline int soft_ordinal(const struct soft_device *device) {
    return device->ctx.device;
}

/* A context on a thread's stack, identified by the id that it had then. */
struct soft_place {
    struct CUctx_st *ctx;
    uint64_t id;
    int device; /* kept here because the record may have been reused */
};

/* The soft driver's part of a thread record. */
struct soft_thread {
    struct soft_place stack[SOFT_STACK];
    unsigned depth;
    CUstreamCaptureMode capture_mode;
    int in_host_function;
    uint64_t generation; /* of acre__soft.generation when `stack` was filled */
};

/* Lag of devices behind the host (soft_lag.c). */
struct soft_lag {
    uint64_t operations, ns; /* at most one is set; 0: no lag */
    uint64_t queued;         /* operations so far, without records, waits and no-ops */
    uint64_t waited_for;     /* operations up to this serial are due */
    uint64_t questions;      /* queries that returned "not ready" since the last operation */
};

struct soft_state {
    struct acre__lock lock;
    struct acre__cond work; /* workers wait for a ready stream */
    struct acre__cond done; /* callers wait for operations to finish */
    struct acre__soft_config config;
    int is_configured, is_initialized;
    _Atomic int is_seeded; /* config.seeded, readable without the lock */
    uint64_t generation;   /* counts restarts */
    uint64_t last_id, last_serial;
    struct soft_lag lag;
    struct soft_device devices[ACRE__SOFT_DEVICES_MAX];
    struct CUctx_st *contexts;      /* living contexts */
    struct CUctx_st *free_contexts; /* records of destroyed contexts, for reuse */
    struct acre__tree ranges, mappings, handles, events, modules;
    struct acre__tree graphs, execs, objects;
    struct CUuserObject_st *dying, *dying_late;  /* objects without references (soft_object.c) */
    struct soft_graph_memory *graph_memory_over; /* without nodes, to be returned to its pool */
    struct acre__tree free_addresses, windows;   /* for soft_address.c */
    struct acre__tree files;                     /* chunks with their own memfd, by inode */
    struct acre__tree pools, segments;           /* see soft_pool_types.h */
    int is_past_kept; /* a pool has allocated, so streams and markers record their past */
    struct soft_stream_handle *free_streams;
    struct acre__tree stream_handles; /* all ever created (soft_stream_api.c) */
    struct soft_event *free_events;   /* not in `events` */
    uint64_t event_handles;           /* all ever created */
    unsigned captures;                /* number of streams being captured */
    /* workers */
    pthread_t *workers;
    size_t worker_count, idle_count;
    int is_short_of_threads; /* the system refused a thread: callers run steps, too */
    unsigned stopping;       /* calls that have stopped the workers */
    unsigned running;        /* operations that use memory right now, without the lock */
    unsigned quiescing;      /* exports that wait for running to be 0 */
    /* clocks */
    struct soft_clock host;
    uint64_t slot_epoch[SOFT_SLOTS];
    unsigned char slot_used[SOFT_SLOTS];
    uint64_t slot_ctx[SOFT_SLOTS];              /* id of the stream's context */
    unsigned char slot_is_blocking[SOFT_SLOTS]; /* the stream follows the legacy stream's rule */
    uint64_t slot_legacy[SOFT_SLOTS]; /* of ended streams: epoch joined by the legacy stream */
    size_t slot_high;
    size_t report_count;
    char report[1024], latest[1024]; /* the first one and the latest */
    uint64_t random;
};

#endif
