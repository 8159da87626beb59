/* See shim_memops.h. */
#include "shim_memops.h"

#include "shim_hooks.h"
#include "shim_pause.h"
#include "shim_serve.h"

/* Returns 1 if one of the addresses is in a block with the attribute. */
static int memops_touch(CUdeviceptr a, CUdeviceptr b) {
    return acre__blocks_is_sync(a) || acre__blocks_is_sync(b);
}

/* Ends a call that uses such a block: waits for its default stream. */
static CUresult memops_end(CUresult result, CUstream stream) {
    return result ? result : acre__serve.inner->cuStreamSynchronize(stream);
}

#define MEMOP(symbol, params, args, touches, stream)                                               \
    CUresult symbol params {                                                                       \
        CUresult(*driver) params;                                                                  \
        if (!acre__shim_find(SHIM_HOOK_##symbol, &driver))                                         \
            return CUDA_ERROR_NOT_FOUND;                                                           \
        struct shim_user *user = acre__user_begin(#symbol);                                        \
        CUresult result = driver args;                                                             \
        if (acre__blocks_any_sync() && (touches))                                                  \
            result = memops_end(result, stream);                                                   \
        return acre__user_end(user, result);                                                       \
    }
#define MEMOP_FORMS(symbol, params, args, touches)                                                 \
    MEMOP(symbol, params, args, touches, CU_STREAM_LEGACY)                                         \
    MEMOP(symbol##_ptds, params, args, touches, CU_STREAM_PER_THREAD)
SHIM_MEMOPS(MEMOP_FORMS)

#define STREAM_MEMOP(symbol, params, args)                                                         \
    CUresult symbol params {                                                                       \
        CUresult(*driver) params;                                                                  \
        if (!acre__shim_find(SHIM_HOOK_##symbol, &driver))                                         \
            return CUDA_ERROR_NOT_FOUND;                                                           \
        struct shim_user *user = acre__user_begin(#symbol);                                        \
        return acre__user_end(user, driver args);                                                  \
    }
#define STREAM_MEMOP_FORMS(symbol, params, args)                                                   \
    STREAM_MEMOP(symbol, params, args)                                                             \
    STREAM_MEMOP(symbol##_ptsz, params, args)
SHIM_STREAM_MEMOPS(STREAM_MEMOP_FORMS)
