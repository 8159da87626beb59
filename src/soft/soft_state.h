/* The soft driver's state, and what its files do for each other.
 *
 * One lock, acre__soft.lock, guards all of it. It is given up while bytes are copied or filled and
 * while host functions run; what such an operation uses is kept alive by references (backing.refs)
 * and counted in acre__soft.running, so that export can wait for a moment without running
 * operations. The structs are in soft_types.h.
 */
#ifndef ACRE_SOFT_STATE_H
#define ACRE_SOFT_STATE_H

#include "soft/soft_types.h"

extern struct soft_state acre__soft;

/* ---- entering (soft_current.c) ---- */

/* Every call but a few begins so: a border of the scheduler, then the lock, then: is the driver
 * initialised, is a context current (*device is its device), is the device well. On failure the
 * lock is not held. */
CUresult acre__soft_enter(struct soft_device **device);
/* The same without a context. */
CUresult acre__soft_enter_bare(void);
/* The same, and looks a device up by its number; `output`, the caller's result, must not be NULL.
 */
CUresult acre__soft_enter_device(CUdevice dev, const void *output, struct soft_device **device);
/* The device of the current context, with the lock held: INVALID_CONTEXT, or its sticky error. */
CUresult acre__soft_current(struct soft_device **device);
/* Runs what has become due, where the device lags by operations; 1 if there was something. */
int acre__soft_lag_run(void);
/* Gives the lock back and returns `result`. */
static inline CUresult acre__soft_leave(CUresult result) {
    if (acre__soft.lag.operations)
        (void)acre__soft_lag_run();
    acre__lock_give(&acre__soft.lock);
    return result;
}
struct CUctx_st *acre__soft_ctx_now(void); /* the current one, where acre__soft_current was well */
struct soft_thread *acre__soft_thread_self(void);
/* The top of the thread's stack, dead or alive; NULL: nothing is there. */
const struct soft_place *acre__soft_current_place(void);
/* The context there, alive, but perhaps lost. A primary context that lives again is the same. */
CUresult acre__soft_current_alive(struct CUctx_st **ctx);
CUresult acre__soft_ctx_push(struct CUctx_st *ctx);
void acre__soft_ctx_pop(const struct CUctx_st *ctx);   /* if it is on top of the stack */
struct soft_device *acre__soft_device_at(int ordinal); /* NULL when out of range */
uint64_t acre__soft_next_id(void);

/* ---- a device that is behind (soft_lag.c) ---- */

/* An operation is queued: notes when it may begin. */
void acre__soft_lag_queued(struct soft_op *op);
/* 1 if it may begin now, as far as the lag goes. */
int acre__soft_lag_is_due(const struct soft_op *op);
/* When the next operation becomes due; 0 without a lag in time, or when nothing is queued. */
uint64_t acre__soft_lag_next_ns(void);
/* The host waits, or was told "not ready". */
void acre__soft_lag_wait(void);
void acre__soft_lag_asked(void);
/* 1 if callers run the stream's next operation and workers leave it alone. */
int acre__soft_lag_is_inline(const struct soft_stream *stream);
/* What ACRE_SOFT_LAG says. */
acre_status acre__soft_lag_config(struct acre__soft_config *config);
void acre__soft_lag_start(void);

/* ---- contexts (soft_context.c) ---- */

int acre__soft_ctx_is_known(const struct CUctx_st *ctx); /* one of ours, and alive */
int acre__soft_ctx_flags_are_good(unsigned flags);
static inline int soft_ctx_is_alive(const struct CUctx_st *ctx) {
    return ctx->is_alive && !ctx->is_ending;
}
/* All of them end. Workers are stopped. */
void acre__soft_contexts_forget(void);
/* A sticky error: the context is lost for this process. */
void acre__soft_lose(struct CUctx_st *ctx, CUresult code);
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
/* Gives the chunk a memfd of its own, once. No operation may run: the bytes move. */
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
/* The host has waited for something; with a context, for all of its work. */
void acre__soft_pools_synced(const struct CUctx_st *ctx);
/* Has the device that many bytes to give? Pools give up what nobody uses, if need be. */
int acre__soft_device_has(const struct soft_device *device, size_t bytes);
/* acre__soft_backing_create, for which pools give up what nobody uses, if need be. */
CUresult acre__soft_chunk_create(struct soft_device *device, size_t bytes,
                                 struct soft_backing **out);
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
/* Has it waited for the marker? With a context, all of that was waited for, ended streams too. */
int acre__soft_past_is_observed(const struct soft_marker *marker, const struct CUctx_st *ctx);
void acre__soft_past_copy(struct soft_past *to, const struct soft_past *from);
void acre__soft_past_free(struct soft_past *past);

/* ---- plain memory and host pages (soft_memory.c) ---- */

CUresult acre__soft_plain_alloc(struct CUctx_st *ctx, size_t bytes, CUdeviceptr *out);
void acre__soft_plain_free(struct soft_range *range);

void acre__soft_slab_free(struct CUctx_st *ctx, struct soft_slab *slab);
/* Pages of this process as a range of that kind. */
CUresult acre__soft_pages_make(struct CUctx_st *ctx, enum soft_range_kind kind, size_t bytes,
                               unsigned flags, uint64_t *out);

/* ---- streams (soft_stream.c, soft_event.c, soft_run.c) ---- */

/* The stream a handle means: NULL and 0x1 (legacy), 0x2 (per thread) of the current context, others
 * wherever they are. CUDA_ERROR_INVALID_HANDLE / INVALID_CONTEXT / the device's sticky error. */
CUresult acre__soft_stream_locate(CUstream handle, struct soft_stream **out);
/* Enters and locates the stream; `output`, the caller's result, must not be NULL. */
CUresult acre__soft_stream_enter(CUstream handle, const void *output, struct soft_stream **stream);
/* As locate; it must be a stream of the current context. */
CUresult acre__soft_stream_find(CUstream handle, struct soft_stream **out);
CUresult acre__soft_stream_make(struct CUctx_st *ctx, unsigned flags, struct soft_stream **out);
struct soft_stream *acre__soft_stream_by_id(uint64_t id);
void acre__soft_stream_free(struct soft_stream *stream);
/* The same, if it was destroyed and nobody needs it any more. */
void acre__soft_stream_free_if_over(struct soft_stream *stream);
/* The stream is captured no longer. What the capture recorded stays with its graph. */
void acre__soft_stream_uncapture(struct soft_stream *stream);
/* The thread's default stream ends with the thread. */
void acre__soft_stream_end_of_thread(struct CUctx_st *ctx, uint64_t thread);
struct soft_op *acre__soft_op_make(enum soft_op_kind kind);
void acre__soft_op_free(struct soft_op *op);
void acre__soft_ops_free(struct soft_op *op); /* and all after it */
/* Queues the operation, behind what the legacy stream's rules ask for, or records it if the stream
 * is captured. Takes the operation in any case. */
CUresult acre__soft_submit(struct soft_stream *stream, struct soft_op *op);
/* Without the legacy stream's rules. */
CUresult acre__soft_submit_bare(struct soft_stream *stream, struct soft_op *op);
CUresult acre__soft_record(struct soft_stream *stream, struct soft_marker *marker);
/* The stream's next operation waits for the marker. */
CUresult acre__soft_wait_for(struct soft_stream *stream, struct soft_marker *marker);
/* Work queued on `after` from now on waits for what is queued on `before` now. */
CUresult acre__soft_order(struct soft_stream *before, struct soft_stream *after);
/* The legacy stream's rule, before an operation is queued on `stream`. */
CUresult acre__soft_follow_legacy(struct soft_stream *stream);
/* A launched graph records the node's event or waits for it: INVALID_VALUE if it was destroyed. */
CUresult acre__soft_event_launch(const struct soft_op *node, struct soft_stream *stream);
struct soft_marker *acre__soft_marker_make(void);
void acre__soft_marker_drop(struct soft_marker *marker);
void acre__soft_marker_finish(struct soft_marker *marker); /* done, now */

/* Waiting, with the lock held before and after. */
CUresult acre__soft_wait_stream(struct soft_stream *stream, uint64_t step);
CUresult acre__soft_wait_marker(const struct CUctx_st *ctx, struct soft_marker *marker);
CUresult acre__soft_wait_ctx(struct CUctx_st *ctx);
/* One step of waiting for anything: runs or lets run something, then the caller looks again. 0 when
 * nothing can ever change (seeded mode with every stream stuck). */
int acre__soft_wait_some(void);

/* A stream that can go on now, by the mode's choice; NULL if none. */
struct soft_stream *acre__soft_ready_pick(void);
/* Runs the first operation of a ready stream. The lock is given up meanwhile. */
void acre__soft_run_step(struct soft_stream *stream);
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
int acre__soft_ctx_is_running(const struct CUctx_st *ctx); /* any operation, right now */
CUresult acre__soft_run_copy(struct soft_stream *stream, struct soft_op *op);
/* *is_over is 0 when the kernel has more steps: with a seed it runs a little at a time. */
CUresult acre__soft_run_kernel(struct soft_stream *stream, struct soft_op *op, int *is_over);

/* Does work queued after the operation of that serial use addresses in [address, address + bytes)?
 * Then it is reported. */
void acre__soft_report_pending(uint64_t address, size_t bytes, uint64_t since, const char *what);

/* ---- capture (soft_capture.c) ---- */

/* The result of a call that is not allowed while a capture is under way that the calling thread's
 * mode respects; such a call also breaks the capture. */
CUresult acre__soft_capture_refuse(void);
/* For an operation on this stream: *is_captured is 1 when it belongs to the capture. */
CUresult acre__soft_capture_submit(struct soft_stream *stream, int *is_captured);
/* The same for a wait, by which a stream can join a capture. */
CUresult acre__soft_capture_wait(struct soft_stream *stream, const struct CUevent_st *event,
                                 int *is_captured);
/* A captured stream gets an event. */
void acre__soft_capture_record(const struct soft_stream *stream, struct soft_marker *marker);
/* For a host's question about the event: an error when it was recorded in a capture. */
CUresult acre__soft_capture_event(const struct CUevent_st *event);
/* A call that a captured stream does not bear: breaks the capture. */
CUresult acre__soft_capture_disturb(struct soft_stream *stream);
/* A call on the whole context: breaks every capture in it, if there is one. */
CUresult acre__soft_capture_break(struct CUctx_st *ctx);

/* ---- graphs (soft_graph.c) ---- */

/* A graph for a capture to record into, by one stream so far. NULL without memory. */
struct CUgraph_st *acre__soft_graph_make(void);
struct CUgraph_st *acre__soft_graph_find(CUgraph graph); /* NULL: there is none */
void acre__soft_graph_free(struct CUgraph_st *graph);
/* The operation becomes the graph's next node. */
void acre__soft_graph_record(struct CUgraph_st *graph, struct soft_op *op);
/* A work without nodes, refs = 1; NULL without memory. */
struct soft_work *acre__soft_work_make(void);
/* The operation becomes the work's last node. */
void acre__soft_work_append(struct soft_work *work, struct soft_op *op);
/* One reference less. The last one frees it and lets go of the objects. */
void acre__soft_work_drop(struct soft_work *work);
void acre__soft_execs_end(const struct CUctx_st *ctx); /* of that context; NULL: all */
void acre__soft_graphs_forget(void);

/* ---- objects that graphs keep alive (soft_object.c) ---- */

/* The graph's work holds so many references more, or less: 0 if it has not so many. */
CUresult acre__soft_object_hold(struct soft_work *work, struct CUuserObject_st *object,
                                uint64_t count);
int acre__soft_object_let_go(struct soft_work *work, struct CUuserObject_st *object,
                             uint64_t count);
/* The program has dropped references: without any the object cannot be found any more and waits for
 * its destructor. */
void acre__soft_object_check(struct CUuserObject_st *object);
/* Calls the destructors of objects whose last reference this call has dropped. The lock is given up
 * meanwhile. */
void acre__soft_objects_settle(void);
/* The same for references that finished work has dropped: with a seed the destructors are called
 * here, else by a worker. 1: a worker has to. */
int acre__soft_objects_settle_late(void);
/* What that worker does; 0: there is no such destructor. */
int acre__soft_object_destroy_late(void);
/* No destructor is called: as at the end of a process. */
void acre__soft_objects_forget(void);

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
/* The host has waited for all work of the context, that of ended streams included. */
void acre__soft_clock_host_joins(const struct CUctx_st *ctx);
/* Streams that have ended cannot be waited for, but their work comes before what is ordered behind
 * all streams. */
void acre__soft_clock_join_ended(struct soft_clock *to, const struct CUctx_st *ctx);
/* The same for the legacy stream, which follows the blocking ones: each is joined once. With `to`
 * NULL it only says whether there is one. */
int acre__soft_clock_legacy_joins_ended(struct soft_clock *to, const struct CUctx_st *ctx);
/* Notes the use and compares it with those before. Reports and returns 0 when it is not ordered. */
int acre__soft_clock_use(struct soft_stream *stream, uint64_t step, const struct soft_piece *piece,
                         int is_write, const char *what);
/* Are all uses through this mapping known to be done to the host? Reports when not. */
void acre__soft_clock_check_unmap(const struct soft_mapping *mapping, const char *what);
/* The same for bytes of a chunk; that they were allocated is no use. */
void acre__soft_clock_check_free(const struct soft_piece *piece, const char *what);
void acre__soft_clock_forget(struct soft_backing *backing);
/* The uses of these bytes do not count any more. */
void acre__soft_clock_forget_piece(const struct soft_piece *piece);
void acre__soft_report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- the scheduler's border (sched.c) ---- */

/* A call begins: with a seed, others may run first. No lock is held. */
void acre__soft_sched_border(void);
uint64_t acre__soft_random(void);

/* Prototypes of all functions of the table: acre__soft_cuInit and so on. */
#define SOFT_PROTOTYPE(name, symbol, version, need, params, args) CUresult acre__soft_##name params;
ACRE__DRIVER_LIST(SOFT_PROTOTYPE)
#undef SOFT_PROTOTYPE

#endif
