/* The soft driver's state: every struct that more than one of its files knows.
 *
 * One lock, acre__soft.lock, guards all of it. It is given up while bytes are copied or filled and
 * while host functions run; what such an operation uses is kept alive by references (backing.refs)
 * and counted in acre__soft.running, so that export can wait for a moment without running
 * operations.
 *
 *   range     what one allocating call returned, by address; holds the mappings of a reservation
 *   mapping   a chunk at an address
 *   backing   bytes that exist: a chunk, a block of host pages
 *   stream    an in-order queue of operations
 *   marker    one recording of an event: done or not, when, and what was known then
 */
#ifndef ACRE_SOFT_STATE_H
#define ACRE_SOFT_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"
#include "base/tree.h"
#include "driver/driver.h"
#include "driver/soft/soft.h"

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

struct soft_segment; /* of soft_pool.h, as these two */
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
    SOFT_POOLED /* of a pool (soft_pool.h) */
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
    size_t bytes;   /* as asked for; a reservation's size */
    int device;     /* whose context made it; -1 for reservations */
    unsigned flags; /* of the call that made it */
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
    int device;             /* of the stream that it is recorded on, */
    struct soft_step place; /* and where there */
    struct soft_past past;  /* what comes before it */
    uint64_t time_ns;
    struct soft_clock clock;
    unsigned capture_id;                   /* recorded in that capture; 0: not in one */
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
    struct soft_launch *launch;   /* of a kernel (launch.h) */
    struct soft_backing *backing; /* of an alloc or free of `width` bytes at `to` */
    size_t offset;                /* in it */
};

struct soft_stream {
    struct soft_stream *next;   /* all streams of a device */
    struct CUstream_st *handle; /* NULL: of the driver's own, or destroyed */
    int device;
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
    unsigned capture_id;
    uint64_t capture_step; /* operations that the capture swallowed here */
    int capture_is_fork;   /* drawn in by a wait, and not waited for again since its last step */
};

/* What a CUstream points to: given out again by the next create after a destroy, as the real
 * driver does it (so programs that keep dead handles are caught here too). */
struct CUstream_st {
    struct CUstream_st *next_free;
    struct soft_stream *stream; /* NULL while free */
};

struct CUevent_st {
    struct acre__node node; /* key: own address */
    int device;
    unsigned flags;
    struct soft_marker *marker; /* of the last record, or NULL */
};

struct CUgraph_st {
    struct acre__node node;
};

struct CUmod_st {
    struct acre__node node;
    int device;
};

/* ---- devices and threads ---- */

enum { SOFT_LIMITS = 10 }; /* how many CU_LIMIT_* there are */

/* A primary context. */
struct CUctx_st {
    int device;
    unsigned retained;
    unsigned flags;
    size_t limits[SOFT_LIMITS];
    unsigned char peers[ACRE__SOFT_DEVICES_MAX];
};

struct soft_device {
    struct CUctx_st ctx;
    CUresult lost; /* sticky error, 0 while well */
    int fd;        /* the sparse file that is its memory */
    char *alias;   /* all of that file */
    uint64_t file_bytes;
    uint64_t used_bytes;
    struct acre__tree holes; /* free extents of the file */
    struct soft_slab *slabs;
    struct soft_stream *streams;
    struct soft_stream *legacy, *gather;
    struct CUmemPoolHandle_st *default_pool, *current_pool; /* NULL: not asked for yet */
    unsigned kernels; /* that run: while there are any, views are open */
};

/* The soft driver's part of a thread's record. */
struct soft_thread {
    CUcontext stack[SOFT_STACK];
    unsigned depth;
    CUstreamCaptureMode capture_mode;
    int in_host_function;
    uint64_t own[ACRE__SOFT_DEVICES_MAX]; /* ids of the per-thread default streams, 0: none */
    uint64_t generation; /* of acre__soft.generation when `own` and `stack` were filled */
};

struct soft_state {
    struct acre__lock lock;
    struct acre__cond work; /* workers wait for a stream that can go on */
    struct acre__cond done; /* callers wait for something to finish */
    struct acre__soft_config config;
    int is_configured, is_initialized;
    _Atomic int is_seeded; /* config.seeded, readable without the lock */
    uint64_t generation;   /* of restarts */
    uint64_t last_id;
    struct soft_device devices[ACRE__SOFT_DEVICES_MAX];
    struct acre__tree ranges, mappings, handles, events, graphs, modules;
    struct acre__tree free_addresses, windows; /* of soft_address.c */
    struct acre__tree files;                   /* chunks with a memfd of their own, by inode */
    struct acre__tree pools, segments;         /* of soft_pool.h */
    int is_past_kept;                          /* there was a pool to use it */
    struct CUstream_st *free_streams;
    struct acre__tree stream_handles; /* all CUstream_st ever made (soft_stream.c) */
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
    int slot_device[SOFT_SLOTS];
    unsigned char slot_is_blocking[SOFT_SLOTS]; /* follows the legacy stream's rule */
    uint64_t slot_legacy[SOFT_SLOTS]; /* of ended streams: what the legacy stream was told of */
    size_t slot_high;
    size_t report_count;
    char report[1024];
    uint64_t random;
};

extern struct soft_state acre__soft;

/* ---- entering (soft_device.c) ---- */

/* Every call but a few begins so: a border of the scheduler, then the lock, then: is the driver
 * initialised, is a context current (*device is its device), is the device well. On failure the
 * lock is not held. */
CUresult acre__soft_enter(struct soft_device **device);
/* The same without a context. */
CUresult acre__soft_enter_bare(void);
/* The device of the current context, with the lock held: INVALID_CONTEXT, or its sticky error. */
CUresult acre__soft_current(struct soft_device **device);
/* Gives the lock back and returns `result`. */
static inline CUresult acre__soft_leave(CUresult result) {
    acre__lock_give(&acre__soft.lock);
    return result;
}
struct soft_thread *acre__soft_thread_self(void);
struct soft_device *acre__soft_device_at(int ordinal);   /* NULL when out of range */
int acre__soft_ctx_is_known(const struct CUctx_st *ctx); /* retained, and one of ours */
uint64_t acre__soft_next_id(void);
/* A sticky error: the device is lost for this process. */
void acre__soft_lose(struct soft_device *device, CUresult code);
static inline int soft_ordinal(const struct soft_device *device) {
    return device->ctx.device;
}
static inline size_t soft_round_up(size_t bytes, size_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

/* ---- addresses (soft_address.c) ---- */

/* `alignment` is a power of two of at least 2 MiB. The hint is taken if free. 0: none left. */
uint64_t acre__soft_address_take(size_t bytes, size_t alignment, uint64_t hint);
void acre__soft_address_give(uint64_t address, size_t bytes);
/* Does the address belong to a window, mapped or not? Such an address is never pageable memory. */
int acre__soft_address_is_device(uint64_t address);
void acre__soft_address_reset(void);

/* ---- physical memory (soft_physical.c) ---- */

CUresult acre__soft_device_start(struct soft_device *device);
void acre__soft_device_stop(struct soft_device *device);
void acre__soft_device_forget(
    struct soft_device *device); /* its file; nothing may use it any more */
/* A new chunk of device memory, refs = 1. CUDA_ERROR_OUT_OF_MEMORY when it does not fit. */
CUresult acre__soft_backing_create(struct soft_device *device, size_t bytes,
                                   struct soft_backing **out);
/* A new host chunk with a memfd of its own. */
CUresult acre__soft_backing_create_host(struct soft_device *device, size_t bytes,
                                        struct soft_backing **out);
/* The memory of a pool that other processes may import from: a file of its own, of all the bytes
 * that it may ever have. What of it counts against the device is the pool's business. */
CUresult acre__soft_backing_create_shared(struct soft_device *device, size_t bytes,
                                          struct soft_backing **out);
/* Bytes that are there already. */
CUresult acre__soft_backing_wrap(int device, void *bytes_at, size_t bytes,
                                 struct soft_backing **out);
/* Gives the chunk a memfd of its own, once; waits until no operation runs. */
CUresult acre__soft_backing_to_fd(struct soft_backing *backing);
/* The chunk behind a descriptor that a soft driver exported, with one more reference; the
 * descriptor stays the caller's. A chunk of this process is recognised, so that it has one set of
 * clocks. */
CUresult acre__soft_backing_from_fd(int fd, struct soft_backing **out);
/* The same for the memory of a pool. */
CUresult acre__soft_backing_from_pool_fd(int fd, struct soft_backing **out);
void acre__soft_backing_keep(struct soft_backing *backing);
void acre__soft_backing_drop(struct soft_backing *backing);

/* ---- device memory at its addresses (soft_view.c) ---- */

/* Shows the mapping as it would have to be with this access; 0: the system refused, and it is as
 * before. */
int acre__soft_view_mapping(struct soft_mapping *mapping, const unsigned char *access,
                            unsigned host_access);
/* The same for plain memory: a slab, or chunks of its own. */
int acre__soft_view_plain(struct soft_view *view, uint64_t address,
                          const struct soft_backing *backing);
/* The same for memory of a pool. */
int acre__soft_view_segment(struct soft_segment *segment);
/* The addresses are bare again. 0: the system refused. */
int acre__soft_view_end(struct soft_view *view, uint64_t address, size_t bytes);
/* All views as they have to be now; 0: the system refused some. */
int acre__soft_views_update(void);
/* A kernel of the device begins, and ends. A refused open is to be closed too. */
int acre__soft_views_open(struct soft_device *device);
void acre__soft_views_close(struct soft_device *device);

/* ---- finding memory (soft_range.c) ---- */

struct soft_piece {
    struct soft_backing *backing;
    size_t offset;
    size_t bytes;
    uint64_t address;
    uint64_t mapping;
};
struct soft_pieces {
    struct soft_piece *at;
    size_t count, room;
};

struct soft_range *acre__soft_range_find(uint64_t address); /* the one that holds the address */
CUresult acre__soft_range_add(enum soft_range_kind kind, uint64_t address, size_t bytes, int device,
                              struct soft_backing *backing, size_t offset, struct soft_range **out);
void acre__soft_range_remove(struct soft_range *range);
struct soft_mapping *acre__soft_mapping_find(uint64_t address); /* the one that holds it */
void acre__soft_mapping_remove(struct soft_mapping *mapping);
/* Was access to it given to anyone? */
int acre__soft_mapping_is_open(const struct soft_mapping *mapping);
/* Appends where [address, address + bytes) lies. INVALID_VALUE when it is not all inside one
 * range and mapped with the access that `device` needs. */
CUresult acre__soft_range_resolve(uint64_t address, size_t bytes, int device, int is_write,
                                  struct soft_pieces *pieces);
/* The same when the operation runs: memory of a pool may have been freed meanwhile, on another
 * place in the same order. */
CUresult acre__soft_range_resolve_late(uint64_t address, size_t bytes, int device, int is_write,
                                       struct soft_pieces *pieces);
void acre__soft_pieces_free(struct soft_pieces *pieces);

/* ---- pools (soft_pool.c, soft_pool_async.c) ---- */

/* Pooled memory is freed by a host that says that nobody uses it any more. */
CUresult acre__soft_pool_free_now(struct soft_range *range);
/* The alloc or free is reached in its stream. LAUNCH_FAILED when it is not ordered. */
CUresult acre__soft_run_pooled(struct soft_stream *stream, struct soft_op *op);
/* The host has waited for something; with a device, for all of its work. */
void acre__soft_pools_synced(const struct soft_device *device);
/* The end of a device's memory, and of all pools. */
void acre__soft_pools_stop(struct soft_device *device);
void acre__soft_pools_forget(void);

/* ---- what comes before what (soft_past.c) ---- */

/* The marker was queued on the stream, as its last operation. */
void acre__soft_past_record(const struct soft_stream *stream, struct soft_marker *marker);
/* A wait for the marker was queued. */
void acre__soft_past_wait(struct soft_stream *stream, const struct soft_marker *marker);
/* Does what is queued on the stream from now on come after the marker? */
int acre__soft_past_knows(const struct soft_stream *stream, const struct soft_marker *marker);
/* The host has waited for all of this. */
void acre__soft_past_observe(const struct soft_past *past);
void acre__soft_past_observe_step(const struct soft_step *step);
/* Has it waited for the marker? With a device, all of that was waited for, ended streams too. */
int acre__soft_past_is_observed(const struct soft_marker *marker, const struct soft_device *device);
void acre__soft_past_copy(struct soft_past *to, const struct soft_past *from);
void acre__soft_past_free(struct soft_past *past);

/* ---- plain memory and host pages (soft_memory.c) ---- */

void acre__soft_plain_free(struct soft_range *range);

/* Pages of this process as a range of that kind. */
CUresult acre__soft_pages_make(struct soft_device *device, enum soft_range_kind kind, size_t bytes,
                               unsigned flags, uint64_t *out);

/* ---- streams (soft_stream.c, soft_event.c, soft_run.c) ---- */

/* The stream a handle means: NULL and 0x1 (legacy), 0x2 (per thread) of the current context, others
 * wherever they are. CUDA_ERROR_INVALID_HANDLE / INVALID_CONTEXT / the device's sticky error. */
CUresult acre__soft_stream_locate(CUstream handle, struct soft_device **device,
                                  struct soft_stream **out);
/* Enters and locates the stream; `output`, the caller's result, must not be NULL. */
CUresult acre__soft_stream_enter(CUstream handle, const void *output, struct soft_device **device,
                                 struct soft_stream **stream);
/* As locate; it must be a stream of that device. */
CUresult acre__soft_stream_find(struct soft_device *device, CUstream handle,
                                struct soft_stream **out);
CUresult acre__soft_stream_make(struct soft_device *device, unsigned flags,
                                struct soft_stream **out);
struct soft_stream *acre__soft_stream_by_id(const struct soft_device *device, uint64_t id);
void acre__soft_stream_free(struct soft_device *device, struct soft_stream *stream);
/* The same, if it was destroyed and nobody needs it any more. */
void acre__soft_stream_free_if_over(struct soft_device *device, struct soft_stream *stream);
struct soft_op *acre__soft_op_make(enum soft_op_kind kind);
void acre__soft_op_free(struct soft_op *op);
/* Queues the operation, behind what the legacy stream's rules ask for. Takes the operation in any
 * case. */
CUresult acre__soft_submit(struct soft_device *device, struct soft_stream *stream,
                           struct soft_op *op);
/* Without the legacy stream's rules. */
CUresult acre__soft_submit_bare(struct soft_device *device, struct soft_stream *stream,
                                struct soft_op *op);
CUresult acre__soft_record(struct soft_device *device, struct soft_stream *stream,
                           struct soft_marker *marker);
/* The stream's next operation waits for the marker. */
CUresult acre__soft_wait_for(struct soft_device *device, struct soft_stream *stream,
                             struct soft_marker *marker);
/* Work queued on `after` from now on waits for what is queued on `before` now. */
CUresult acre__soft_order(struct soft_device *device, struct soft_stream *before,
                          struct soft_stream *after);
/* The legacy stream's rule, before an operation is queued on `stream`. */
CUresult acre__soft_follow_legacy(struct soft_device *device, struct soft_stream *stream);
struct soft_marker *acre__soft_marker_make(void);
void acre__soft_marker_drop(struct soft_marker *marker);
void acre__soft_marker_finish(struct soft_marker *marker); /* done, now */

/* Waiting, with the lock held before and after. */
CUresult acre__soft_wait_stream(struct soft_device *device, struct soft_stream *stream,
                                uint64_t step);
CUresult acre__soft_wait_marker(struct soft_device *device, struct soft_marker *marker);
CUresult acre__soft_wait_device(struct soft_device *device);
/* One step of waiting for anything: runs or lets run something, then the caller looks again. 0 when
 * nothing can ever change (seeded mode with every stream stuck). */
int acre__soft_wait_some(void);

/* A stream that can go on now, by the mode's choice; NULL if none. */
struct soft_stream *acre__soft_ready_pick(struct soft_device **device);
/* Runs the first operation of a ready stream. The lock is given up meanwhile. */
void acre__soft_run_step(struct soft_device *device, struct soft_stream *stream);
int acre__soft_stream_is_ready(const struct soft_stream *stream);
size_t acre__soft_ready_count(void);
void acre__soft_workers_wake(void);
/* Where the system gives no more threads: runs a step that no worker is free for. 0 if there is
 * none. */
int acre__soft_help(void);
/* From the first to the second no worker runs: for the end of streams. Stop takes and gives the
 * lock itself and waits for the workers; start is called with the lock held. */
void acre__soft_workers_stop(void);
void acre__soft_workers_start(void);
int acre__soft_device_is_running(const struct soft_device *device); /* any operation, right now */
CUresult acre__soft_run_copy(struct soft_stream *stream, struct soft_op *op);
/* *is_over is 0 when the kernel has more steps: with a seed it runs a little at a time. */
CUresult acre__soft_run_kernel(struct soft_device *device, struct soft_stream *stream,
                               struct soft_op *op, int *is_over);

/* Does queued work use addresses in [address, address + bytes)? Then it is reported. */
void acre__soft_report_pending(uint64_t address, size_t bytes, const char *what);

/* ---- capture (soft_capture.c) ---- */

/* The result of a call that is not allowed while a capture is under way that the calling thread's
 * mode respects; such a call also breaks the capture. */
CUresult acre__soft_capture_refuse(void);
/* For an operation on this stream: *swallow is 1 when it belongs to the capture. */
CUresult acre__soft_capture_submit(struct soft_device *device, struct soft_stream *stream,
                                   int *swallow);
/* The same for a wait, by which a stream can join a capture. */
CUresult acre__soft_capture_wait(struct soft_device *device, struct soft_stream *stream,
                                 const struct CUevent_st *event, int *swallow);
/* A captured stream gets an event. */
void acre__soft_capture_record(const struct soft_stream *stream, struct soft_marker *marker);
/* For a host's question about the event: an error when it was recorded in a capture. */
CUresult acre__soft_capture_event(const struct CUevent_st *event);
/* A call that a captured stream does not bear: breaks the capture. */
CUresult acre__soft_capture_disturb(struct soft_stream *stream);
/* A call on the whole context: breaks every capture of the device, if there is one. */
CUresult acre__soft_capture_break(struct soft_device *device);

/* ---- clocks (soft_clock.c) ---- */

/* `what` an allocation in stream order does to memory: no use of it yet, but none comes before. */
#define SOFT_USE_ALLOC "allocate"

CUresult acre__soft_clock_slot_take(struct soft_stream *stream);
void acre__soft_clock_slot_give(struct soft_stream *stream);
CUresult acre__soft_clock_snapshot(const struct soft_clock *from, struct soft_clock *out);
CUresult acre__soft_clock_room(struct soft_clock *out); /* for all slots, zeroed */
void acre__soft_clock_free(struct soft_clock *clock);
void acre__soft_clock_copy(struct soft_clock *to, const struct soft_clock *from);
void acre__soft_clock_join(struct soft_clock *to, const struct soft_clock *from);
void acre__soft_clock_host_joins_device(struct soft_device *device);
/* Streams that have ended cannot be waited for, but their work comes before what is ordered behind
 * all streams. */
void acre__soft_clock_join_ended(struct soft_clock *to, const struct soft_device *device);
/* The same for the legacy stream, which follows the blocking ones: each is joined once. With `to`
 * NULL it only says whether there is one. */
int acre__soft_clock_legacy_joins_ended(struct soft_clock *to, const struct soft_device *device);
/* Notes the use and compares it with those before. Reports and returns 0 when it is not ordered. */
int acre__soft_clock_use(struct soft_stream *stream, uint64_t step, const struct soft_piece *piece,
                         int is_write, const char *what);
/* Are all uses through this mapping known to be done to the host? Reports when not. */
void acre__soft_clock_check_unmap(const struct soft_mapping *mapping, const char *what);
/* The same for bytes of a chunk, as far as they were used since they were allocated. */
void acre__soft_clock_check_free(const struct soft_piece *piece, const char *what);
void acre__soft_clock_forget(struct soft_backing *backing);
/* The uses of these bytes do not count any more. */
void acre__soft_clock_forget_piece(const struct soft_piece *piece);
void acre__soft_report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- the scheduler's border (sched.c) ---- */

/* A call begins: with a seed, others may run first. No lock is held. */
void acre__soft_sched_border(void);
/* Around a step of a seeded kernel, with the lock held: points inside switch its lanes. */
int acre__soft_sched_begin(void);
void acre__soft_sched_end(int is_first);
uint64_t acre__soft_random(void);

/* Prototypes of all functions of the table: acre__soft_cuInit and so on. */
#define SOFT_PROTOTYPE(name, symbol, version, need, params, args) CUresult acre__soft_##name params;
ACRE__DRIVER_LIST(SOFT_PROTOTYPE)
#undef SOFT_PROTOTYPE

#endif
