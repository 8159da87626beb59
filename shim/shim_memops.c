/* See shim_memops.h. */
#include "shim_memops.h"

#include "shim_hooks.h"
#include "shim_serve.h"

/* Ends a call: waits for its default stream if the program wants that for some block. */
static CUresult memops_end(CUresult result, CUstream stream) {
    if (result || !acre__blocks_any_sync())
        return result;
    return acre__serve.inner->cuStreamSynchronize(stream);
}

#define MEMOP(symbol, params, args, stream)                                                        \
    CUresult symbol params {                                                                       \
        CUresult(*driver) params;                                                                  \
        if (!acre__shim_find(SHIM_HOOK_##symbol, &driver))                                         \
            return CUDA_ERROR_NOT_FOUND;                                                           \
        return memops_end(driver args, stream);                                                    \
    }
#define MEMOP_FORMS(symbol, params, args)                                                          \
    MEMOP(symbol, params, args, CU_STREAM_LEGACY)                                                  \
    MEMOP(symbol##_ptds, params, args, CU_STREAM_PER_THREAD)
SHIM_MEMOPS(MEMOP_FORMS)
