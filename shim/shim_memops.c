/* See shim_memops.h. */
#include "shim_memops.h"

#include "shim_hooks.h"
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
        if (!acre__blocks_any_sync() || !(touches))                                                \
            return driver args;                                                                    \
        return memops_end(driver args, stream);                                                    \
    }
#define MEMOP_FORMS(symbol, params, args, touches)                                                 \
    MEMOP(symbol, params, args, touches, CU_STREAM_LEGACY)                                         \
    MEMOP(symbol##_ptds, params, args, touches, CU_STREAM_PER_THREAD)
SHIM_MEMOPS(MEMOP_FORMS)
