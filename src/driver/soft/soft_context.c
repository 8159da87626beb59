/* */
#include "driver/soft/soft_state.h"

CUresult acre__soft_cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags) {
    (void)dev;
    (void)flags;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuDevicePrimaryCtxReset(CUdevice dev) {
    (void)dev;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuCtxCreate(CUcontext *ctx_out, CUctxCreateParams *params, unsigned int flags,
                                CUdevice dev) {
    (void)ctx_out;
    (void)params;
    (void)flags;
    (void)dev;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuCtxDestroy(CUcontext ctx) {
    (void)ctx;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuCtxGetFlags(unsigned int *flags_out) {
    (void)flags_out;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuCtxGetApiVersion(CUcontext ctx, unsigned int *version_out) {
    (void)ctx;
    (void)version_out;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuCtxGetId(CUcontext ctx, unsigned long long *id_out) {
    (void)ctx;
    (void)id_out;
    return CUDA_ERROR_NOT_SUPPORTED;
}
