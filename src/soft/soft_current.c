/* The driver calls for the thread's context stack (soft_thread.c), and queries of the current
 * context. soft_context.c creates and destroys contexts. */
#include "base/round.h"
#include "soft/soft_api.h"
#include "soft/soft_context.h"
#include "soft/soft_enter.h"
#include "soft/soft_state.h"
#include "soft/soft_thread.h"
#include "soft/soft_view.h"

enum { SOFT_HEAP_LEAST = 4 << 20, SOFT_CTX_VERSION = 3020 };

/* ---- the stack ---- */

static int is_primary(const struct CUctx_st *ctx) {
    for (uint32_t i = 0; i < acre__soft.config.devices; i++)
        if (ctx == &acre__soft.devices[i].ctx)
            return 1;
    return 0;
}

/* A primary context may become current before it is alive, but calls fail until it is. */
static int can_be_current(const struct CUctx_st *ctx) {
    return is_primary(ctx) || acre__soft_ctx_is_known(ctx);
}

CUresult acre__soft_cuCtxPushCurrent(CUcontext ctx) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    if (!ctx)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if (!can_be_current(ctx))
        return acre__soft_leave(CUDA_ERROR_INVALID_CONTEXT);
    return acre__soft_leave(acre__soft_ctx_push(ctx));
}

CUresult acre__soft_cuCtxPopCurrent(CUcontext *ctx_out) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    const struct soft_place *place = acre__soft_current_place();
    if (!place)
        return acre__soft_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (ctx_out)
        *ctx_out = place->ctx;
    acre__soft_thread_self()->depth--;
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuCtxGetCurrent(CUcontext *ctx_out) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    const struct soft_place *place = acre__soft_current_place();
    if (!ctx_out)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    *ctx_out = place ? place->ctx : NULL;
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuCtxSetCurrent(CUcontext ctx) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    struct soft_thread *self = acre__soft_thread_self();
    if (ctx && !can_be_current(ctx))
        return acre__soft_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (self->depth)
        self->depth--;
    return acre__soft_leave(ctx ? acre__soft_ctx_push(ctx) : CUDA_SUCCESS);
}

/* ---- properties of a context ---- */

/* Enters and finds the context of a call: NULL means the current one. A lost context is
 * accepted. */
static CUresult enter_meant(CUcontext ctx, const void *output, struct CUctx_st **out) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    if (!output)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    *out = ctx;
    if (!ctx)
        result = acre__soft_current_alive(out);
    else if (!acre__soft_ctx_is_known(ctx))
        result = CUDA_ERROR_INVALID_CONTEXT;
    return result ? acre__soft_leave(result) : CUDA_SUCCESS;
}

/* Enters and finds the current context for the two queries that also work before it is alive and
 * after its destruction. */
static CUresult enter_current(const void *output, const struct soft_place **place) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    *place = acre__soft_current_place();
    if (!*place)
        return acre__soft_leave(CUDA_ERROR_INVALID_CONTEXT);
    return output ? CUDA_SUCCESS : acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
}

CUresult acre__soft_cuCtxGetDevice(CUdevice *device_out) {
    const struct soft_place *place;
    CUresult result = enter_current(device_out, &place);
    if (result)
        return result;
    *device_out = place->device;
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuCtxGetFlags(unsigned *flags_out) {
    const struct soft_place *place;
    CUresult result = enter_current(flags_out, &place);
    if (result)
        return result;
    const struct CUctx_st *ctx = place->ctx;
    /* A primary context can always map host memory, and reports that. */
    *flags_out = !ctx->is_own           ? ctx->flags_now | CU_CTX_MAP_HOST
                 : ctx->id == place->id ? ctx->flags_now
                                        : 0;
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuCtxSetFlags(unsigned flags) {
    struct CUctx_st *ctx;
    CUresult result = enter_meant(NULL, &flags, &ctx);
    if (result)
        return result;
    if (!acre__soft_ctx_flags_are_good(flags))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    ctx->flags_now = flags;
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuCtxGetApiVersion(CUcontext ctx, unsigned *version_out) {
    CUresult result = enter_meant(ctx, version_out, &ctx);
    if (result)
        return result;
    *version_out = SOFT_CTX_VERSION; /* contexts have not changed since CUDA 3.2 */
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuCtxGetId(CUcontext ctx, unsigned long long *id_out) {
    CUresult result = enter_meant(ctx, id_out, &ctx);
    if (result)
        return result;
    *id_out = ctx->id;
    return acre__soft_leave(CUDA_SUCCESS);
}

/* ---- limits and peers ---- */

CUresult acre__soft_cuCtxGetLimit(size_t *value_out, CUlimit limit) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    if (!value_out)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if ((unsigned)limit >= SOFT_LIMITS)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    *value_out = acre__soft_ctx_now()->limits[limit];
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuCtxSetLimit(CUlimit limit, size_t value) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    if ((unsigned)limit >= SOFT_LIMITS)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    /* A GPU fixes the heap size when the first kernel that uses malloc is launched. No such kernel
     * can be launched here, so the size can always change. It is a multiple of 64 KiB and at least
     * 4 MiB. */
    if (limit == CU_LIMIT_MALLOC_HEAP_SIZE) {
        if (value > acre__soft.config.bytes)
            return acre__soft_leave(CUDA_ERROR_OUT_OF_MEMORY);
        value = acre__round_up(value < SOFT_HEAP_LEAST ? SOFT_HEAP_LEAST : value, 65536);
    }
    acre__soft_ctx_now()->limits[limit] = value;
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuCtxGetStreamPriorityRange(int *least_out, int *greatest_out) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    if (least_out)
        *least_out = 0;
    if (greatest_out)
        *greatest_out = -5;
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    if (flags)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if (!peer || !acre__soft_ctx_is_known(peer))
        return acre__soft_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (peer->device == soft_ordinal(device))
        return acre__soft_leave(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    unsigned char *is_peer = &acre__soft_ctx_now()->peers[peer->device];
    if (*is_peer)
        return acre__soft_leave(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    *is_peer = 1;
    if (acre__soft_views_update())
        return acre__soft_leave(CUDA_SUCCESS);
    *is_peer = 0;
    return acre__soft_leave(CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult acre__soft_cuCtxDisablePeerAccess(CUcontext peer) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    if (!peer || !acre__soft_ctx_is_known(peer))
        return acre__soft_leave(CUDA_ERROR_INVALID_CONTEXT);
    unsigned char *is_peer = &acre__soft_ctx_now()->peers[peer->device];
    if (!*is_peer)
        return acre__soft_leave(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    *is_peer = 0;
    (void)acre__soft_views_update();
    return acre__soft_leave(CUDA_SUCCESS);
}
