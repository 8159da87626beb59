/* Contexts of the soft driver: creation and destruction.
 *
 * A device has one primary context, which lives while it is retained and not reset, and any number
 * of contexts from cuCtxCreate. Destroying a context destroys its streams, events, modules,
 * executable graphs, and plain, host and managed memory. Chunks, reservations, pools and graphs
 * belong to no context.
 *
 * acre__soft.contexts lists living contexts in the order of their creation. The driver never frees
 * the record of a destroyed context while it runs, because threads may have it on their stacks. It
 * reuses the record with another id, as the real driver does. Nobody can use a context that is
 * being destroyed. A retain of a primary context in that state waits until the destruction is
 * done. */
#include <stdlib.h>
#include <string.h>

#include "soft/soft_api.h"
#include "soft/soft_clock.h"
#include "soft/soft_context.h"
#include "soft/soft_enter.h"
#include "soft/soft_event.h"
#include "soft/soft_graph.h"
#include "soft/soft_object.h"
#include "soft/soft_op.h"
#include "soft/soft_physical.h"
#include "soft/soft_plain.h"
#include "soft/soft_pool.h"
#include "soft/soft_pool_memory.h"
#include "soft/soft_range.h"
#include "soft/soft_run.h"
#include "soft/soft_state.h"
#include "soft/soft_stream.h"
#include "soft/soft_thread.h"

/* ---- creation ---- */

static void limits_set_defaults(struct CUctx_st *ctx) {
    memset(ctx->limits, 0, sizeof ctx->limits);
    ctx->limits[CU_LIMIT_STACK_SIZE] = 1024;
    ctx->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 8650752; /* as on an H200 */
    ctx->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = (size_t)8 << 20;
    ctx->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
}

static void context_begin(struct CUctx_st *ctx) {
    struct CUctx_st **link = &acre__soft.contexts;
    while (*link)
        link = &(*link)->next;
    *link = ctx;
    ctx->next = NULL;
    ctx->is_alive = 1;
    ctx->id = acre__soft_next_id();
    ctx->flags_now = ctx->flags;
    limits_set_defaults(ctx);
}

/* ---- destroying the objects of a context ---- */

static void context_free_ranges(const struct CUctx_st *ctx) {
    struct acre__node *node = acre__tree_first(&acre__soft.ranges);
    while (node) {
        struct soft_range *range = acre__tree_entry(node, struct soft_range, node);
        node = acre__tree_next(&acre__soft.ranges, node);
        if (range->ctx == ctx)
            acre__soft_range_remove(range);
    }
}

static void context_free_events(const struct CUctx_st *ctx) {
    struct acre__node *node = acre__tree_first(&acre__soft.events);
    while (node) {
        struct soft_event *event = acre__tree_entry(node, struct soft_event, node);
        node = acre__tree_next(&acre__soft.events, node);
        if (event->ctx == ctx)
            acre__soft_event_free(event);
    }
}

static void context_free_modules(const struct CUctx_st *ctx) {
    struct acre__node *node = acre__tree_first(&acre__soft.modules);
    while (node) {
        struct CUmod_st *module = acre__tree_entry(node, struct CUmod_st, node);
        node = acre__tree_next(&acre__soft.modules, node);
        if (module->ctx == ctx) {
            acre__tree_remove(&acre__soft.modules, &module->node);
            free(module);
        }
    }
}

static int device_has_context(int device) {
    for (const struct CUctx_st *ctx = acre__soft.contexts; ctx; ctx = ctx->next)
        if (ctx->device == device)
            return 1;
    return 0;
}

/* Destroys a context of which nothing runs. Pools outlive it unless it is the device's last
 * context. The device's file stays while chunks of it are mapped or held by handles. */
static void context_stop(struct CUctx_st *ctx) {
    while (ctx->streams)
        acre__soft_stream_free(ctx->streams);
    ctx->legacy = ctx->gather = NULL;
    acre__soft_clock_host_joins(ctx); /* nobody can wait for these streams any more */
    acre__soft_pools_synced(ctx);
    acre__soft_execs_end(ctx);
    context_free_events(ctx);
    context_free_modules(ctx);
    context_free_ranges(ctx);
    while (ctx->slabs)
        acre__soft_slab_free(ctx, ctx->slabs);
    struct CUctx_st **link = &acre__soft.contexts;
    while (*link != ctx)
        link = &(*link)->next;
    *link = ctx->next;
    if (!device_has_context(ctx->device))
        acre__soft_pools_stop(&acre__soft.devices[ctx->device]);
    memset(ctx->peers, 0, sizeof ctx->peers);
    ctx->lost = CUDA_SUCCESS;
    ctx->why[0] = 0;
    ctx->flags = ctx->flags_now = 0;
    ctx->is_alive = ctx->is_ending = 0;
    if (ctx->is_own) {
        ctx->next = acre__soft.free_contexts;
        acre__soft.free_contexts = ctx;
    }
    acre__cond_wake(&acre__soft.done); /* for calls that wait for its streams or its destruction */
}

void acre__soft_contexts_forget(void) {
    while (acre__soft.contexts)
        context_stop(acre__soft.contexts);
    while (acre__soft.free_contexts) {
        struct CUctx_st *ctx = acre__soft.free_contexts;
        acre__soft.free_contexts = ctx->next;
        free(ctx);
    }
    for (int i = 0; i < ACRE__SOFT_DEVICES_MAX; i++) {
        acre__soft.devices[i].ctx.retained = 0;
        acre__soft_pools_stop(&acre__soft.devices[i]);
    }
}

/* ---- destroying a context ---- */

static int context_has_work(const struct CUctx_st *ctx) {
    for (const struct soft_stream *stream = ctx->streams; stream; stream = stream->next)
        if (stream->head)
            return 1;
    return 0;
}

/* Returns 1 if no other context lives; then the workers end, too. */
static int context_is_last(const struct CUctx_st *ctx) {
    for (const struct CUctx_st *other = acre__soft.contexts; other; other = other->next)
        if (other != ctx && !other->is_ending)
            return 0;
    return 1;
}

/* Destroys the context. Releases the lock meanwhile. */
static void context_end(struct CUctx_st *ctx) {
    ctx->is_ending = 1;
    int is_last = context_is_last(ctx);
    if (is_last) {
        acre__lock_give(&acre__soft.lock);
        acre__soft_workers_stop();
        acre__lock_take(&acre__soft.lock);
    }
    /* Nobody has waited for a lost context, so one of its operations may still run. */
    while (acre__soft_ctx_is_running(ctx))
        acre__cond_wait(&acre__soft.done, &acre__soft.lock);
    context_stop(ctx);
    acre__soft_graph_memory_settle();
    acre__soft_objects_settle();
    if (is_last)
        acre__soft_workers_start();
}

/* Refuses new calls on the context, waits for its queued work, then destroys it. */
static void context_close(struct CUctx_st *ctx) {
    ctx->is_ending = 1;
    while (context_has_work(ctx) && acre__soft_wait_ctx(ctx) == CUDA_SUCCESS)
        ;
    context_end(ctx);
}

/* ---- primary contexts ---- */

CUresult acre__soft_cuDevicePrimaryCtxRetain(CUcontext *ctx_out, CUdevice dev) {
    struct soft_device *device;
    CUresult result = acre__soft_enter_device(dev, ctx_out, &device);
    if (result)
        return result;
    while (device->ctx.is_ending)
        acre__cond_wait(&acre__soft.done, &acre__soft.lock);
    if (!device->ctx.is_alive) {
        if ((result = acre__soft_device_start(device)))
            return acre__soft_leave(result);
        context_begin(&device->ctx);
    }
    device->ctx.retained++;
    *ctx_out = &device->ctx;
    return acre__soft_leave(CUDA_SUCCESS);
}

/* A context that was reset still needs a release, but has nothing left to destroy. */
CUresult acre__soft_cuDevicePrimaryCtxRelease(CUdevice dev) {
    struct soft_device *device;
    CUresult result = acre__soft_enter_device(dev, &dev, &device);
    if (result)
        return result;
    struct CUctx_st *ctx = &device->ctx;
    if (!ctx->retained)
        return acre__soft_leave(CUDA_ERROR_INVALID_CONTEXT);
    while (ctx->retained == 1 && context_has_work(ctx) && acre__soft_wait_ctx(ctx) == CUDA_SUCCESS)
        ;
    if (!ctx->retained) /* another thread released it while this one waited */
        return acre__soft_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (--ctx->retained == 0 && soft_ctx_is_alive(ctx))
        context_end(ctx);
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuDevicePrimaryCtxReset(CUdevice dev) {
    struct soft_device *device;
    CUresult result = acre__soft_enter_device(dev, &dev, &device);
    if (result)
        return result;
    if (soft_ctx_is_alive(&device->ctx))
        context_close(&device->ctx);
    while (device->ctx.is_ending) /* another thread destroys it */
        acre__cond_wait(&acre__soft.done, &acre__soft.lock);
    device->ctx.flags = device->ctx.flags_now = 0;
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuDevicePrimaryCtxGetState(CUdevice dev, unsigned *flags_out, int *active_out) {
    struct soft_device *device;
    CUresult result = acre__soft_enter_device(dev, flags_out, &device);
    if (result)
        return result;
    if (!active_out)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    *flags_out = device->ctx.flags;
    *active_out = soft_ctx_is_alive(&device->ctx);
    return acre__soft_leave(CUDA_SUCCESS);
}

/* Flags may contain at most one of the three ways to wait. The flags have no effect here. */
int acre__soft_ctx_flags_are_good(unsigned flags) {
    unsigned wait = flags & CU_CTX_SCHED_MASK;
    return !(flags & ~(unsigned)CU_CTX_FLAGS_MASK) && (wait & (wait - 1)) == 0;
}

CUresult acre__soft_cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned flags) {
    struct soft_device *device;
    CUresult result = acre__soft_enter_device(dev, &dev, &device);
    if (result)
        return result;
    if (!acre__soft_ctx_flags_are_good(flags))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    device->ctx.flags = device->ctx.flags_now = flags;
    return acre__soft_leave(CUDA_SUCCESS);
}

/* ---- own contexts ---- */

/* Returns the record that was released last, cleared, or a new one. */
static struct CUctx_st *context_take(void) {
    struct CUctx_st *ctx = acre__soft.free_contexts;
    if (!ctx)
        return calloc(1, sizeof *ctx);
    acre__soft.free_contexts = ctx->next;
    memset(ctx, 0, sizeof *ctx);
    return ctx;
}

/* A device with a lost context creates no other. A GPU still refuses after a reset, until the
 * process ends. Here a reset is enough, so that one test can follow another. */
static CUresult device_lost(CUdevice dev) {
    for (const struct CUctx_st *ctx = acre__soft.contexts; ctx; ctx = ctx->next)
        if (ctx->device == dev && ctx->lost)
            return ctx->lost;
    return CUDA_SUCCESS;
}

/* Execution affinity (a share of the device) and CUDA in graphics are not supported. */
static CUresult params_check(const CUctxCreateParams *params) {
    if (!params)
        return CUDA_SUCCESS;
    if (params->execAffinityParams || params->numExecAffinityParams)
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return params->cigParams ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

CUresult acre__soft_cuCtxCreate(CUcontext *ctx_out, CUctxCreateParams *params, unsigned flags,
                                CUdevice dev) {
    struct soft_device *device;
    CUresult result = acre__soft_enter_device(dev, ctx_out, &device);
    if (result)
        return result;
    if (!acre__soft_ctx_flags_are_good(flags))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if ((result = params_check(params)) || (result = device_lost(dev)) ||
        (result = acre__soft_device_start(device)))
        return acre__soft_leave(result);
    struct CUctx_st *ctx = context_take();
    if (!ctx)
        return acre__soft_leave(CUDA_ERROR_OUT_OF_MEMORY);
    ctx->device = dev;
    ctx->is_own = 1;
    ctx->flags = flags;
    context_begin(ctx);
    if ((result = acre__soft_ctx_push(ctx))) {
        context_end(ctx);
        return acre__soft_leave(result);
    }
    *ctx_out = ctx;
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuCtxDestroy(CUcontext ctx) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    if (!ctx)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if (!acre__soft_ctx_is_known(ctx) || !ctx->is_own)
        return acre__soft_leave(CUDA_ERROR_INVALID_CONTEXT);
    acre__soft_ctx_pop(ctx);
    context_close(ctx);
    return acre__soft_leave(CUDA_SUCCESS);
}
