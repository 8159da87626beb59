/* Forms of functions in the list that are written by hand: older and newer versions, forms for
 * programs with a default stream per thread (_ptds, _ptsz), and calls that can be built from
 * others.
 *
 * X(name, symbol, version, params) is as in driver_list.h. `version` is the CUDA version from which
 * on cuGetProcAddress returns the form. Forms from before CUDA 3.2, with 32-bit sizes, are in
 * driver_others.h as unsupported. */
#ifndef ACRE_STANDIN_DRIVER_FORMS_H
#define ACRE_STANDIN_DRIVER_FORMS_H

#include "driver_doors.h"

/* Types that only forms use. No code reads the structs. */
typedef struct CUexecAffinityParam_st CUexecAffinityParam;
typedef struct CUgreenCtx_st *CUgreenCtx;
typedef struct CUgraphEdgeData_st CUgraphEdgeData;

typedef enum {
    CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK = 1,
    CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED = 2,
    CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED = 3,
    CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED = 4,
    CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED = 5
} CUdevice_P2PAttribute;

/* clang-format off */
#define STANDIN_FORMS(X)                                                                           \
    X(cuGetProcAddress, cuGetProcAddress, 11030,                                                   \
      (const char *name, void **function_out, int version, uint64_t flags))                        \
    X(cuGetProcAddress, cuGetProcAddress_v2, 12000,                                                \
      (const char *name, void **function_out, int version, uint64_t flags,                         \
       CUdriverProcAddressQueryResult *status_out))                                                \
    X(cuGetExportTable, cuGetExportTable, 3000, (const void **table_out, const CUuuid *id))        \
    X(cuDeviceComputeCapability, cuDeviceComputeCapability, 2000,                                  \
      (int *major_out, int *minor_out, CUdevice dev))                                              \
    X(cuDeviceGetP2PAttribute, cuDeviceGetP2PAttribute, 8000,                                      \
      (int *value_out, CUdevice_P2PAttribute attribute, CUdevice dev, CUdevice peer))              \
    X(cuDeviceGetUuid, cuDeviceGetUuid, 9020, (CUuuid *uuid_out, CUdevice dev))                    \
    X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease, 7000, (CUdevice dev))                  \
    X(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset, 7000, (CUdevice dev))                      \
    X(cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags, 7000,                                \
      (CUdevice dev, unsigned int flags))                                                          \
    X(cuCtxCreate, cuCtxCreate, 2000, (CUcontext *ctx_out, unsigned int flags, CUdevice dev))      \
    X(cuCtxCreate, cuCtxCreate_v2, 3020, (CUcontext *ctx_out, unsigned int flags, CUdevice dev))   \
    X(cuCtxCreate, cuCtxCreate_v3, 11040,                                                          \
      (CUcontext *ctx_out, CUexecAffinityParam *affinities, int count, unsigned int flags,         \
       CUdevice dev))                                                                              \
    X(cuCtxDestroy, cuCtxDestroy, 2000, (CUcontext ctx))                                           \
    X(cuCtxPushCurrent, cuCtxPushCurrent, 2000, (CUcontext ctx))                                   \
    X(cuCtxPopCurrent, cuCtxPopCurrent, 2000, (CUcontext *ctx_out))                                \
    X(cuCtxGetDevice, cuCtxGetDevice_v2, 13000, (CUdevice *device_out, CUcontext ctx))             \
    X(cuCtxSynchronize, cuCtxSynchronize_v2, 13000, (CUcontext ctx))                               \
    X(cuMemHostRegister, cuMemHostRegister, 4000, (void *p, size_t bytes, unsigned int flags))     \
    X(cuMemPrefetchAsync, cuMemPrefetchAsync, 8000,                                                \
      (CUdeviceptr ptr, size_t bytes, CUdevice dev, CUstream stream))                              \
    X(cuMemAdvise, cuMemAdvise, 8000,                                                              \
      (CUdeviceptr ptr, size_t bytes, CUmem_advise advice, CUdevice dev))                          \
    X(cuMemRangeGetAttributes, cuMemRangeGetAttributes, 8000,                                      \
      (void **data_out, size_t *data_bytes, CUmem_range_attribute *attributes, size_t count,       \
       CUdeviceptr ptr, size_t bytes))                                                             \
    X(cuMemGetDefaultMemPool, cuMemGetDefaultMemPool, 13000,                                       \
      (CUmemoryPool *pool_out, CUmemLocation *location, CUmemAllocationType type))                 \
    X(cuMemGetMemPool, cuMemGetMemPool, 13000,                                                     \
      (CUmemoryPool *pool_out, CUmemLocation *location, CUmemAllocationType type))                 \
    X(cuMemSetMemPool, cuMemSetMemPool, 13000,                                                     \
      (CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool))                      \
    X(cuStreamDestroy, cuStreamDestroy, 2000, (CUstream stream))                                   \
    X(cuStreamGetCtx, cuStreamGetCtx_v2, 12050,                                                    \
      (CUstream stream, CUcontext *ctx_out, CUgreenCtx *green_out))                                \
    X(cuStreamBeginCapture, cuStreamBeginCapture, 10000, (CUstream stream))                        \
    X(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_v3, 12030,                                    \
      (CUstream stream, CUstreamCaptureStatus *status_out, cuuint64_t *id_out,                     \
       CUgraph *graph_out, const CUgraphNode **dependencies_out,                                   \
       const CUgraphEdgeData **edges_out, size_t *count_out))                                      \
    X(cuModuleLoad, cuModuleLoad, 2000, (CUmodule *module_out, const char *path))                  \
    X(cuModuleLoadFatBinary, cuModuleLoadFatBinary, 2000,                                          \
      (CUmodule *module_out, const void *image))                                                   \
    X(cuEventDestroy, cuEventDestroy, 2000, (CUevent event))                                       \
    X(cuEventElapsedTime, cuEventElapsedTime_v2, 12080,                                            \
      (float *ms_out, CUevent start, CUevent end))

/* Forms for a default stream per thread that are written by hand: X(name, symbol, version, params).
 * They came with CUDA 7. Forms of entries with a parameter `stream` are generated from the list
 * (driver_own.c). */
#define STANDIN_OWN_FORMS(X)                                                                       \
    X(cuMemcpy, cuMemcpy_ptds, 7000, (CUdeviceptr dst, CUdeviceptr src, size_t bytes))             \
    X(cuMemcpyHtoD, cuMemcpyHtoD_v2_ptds, 7000, (CUdeviceptr dst, const void *src, size_t bytes))  \
    X(cuMemcpyDtoH, cuMemcpyDtoH_v2_ptds, 7000, (void *dst, CUdeviceptr src, size_t bytes))        \
    X(cuMemcpyDtoD, cuMemcpyDtoD_v2_ptds, 7000, (CUdeviceptr dst, CUdeviceptr src, size_t bytes))  \
    X(cuMemcpyPeer, cuMemcpyPeer_ptds, 7000,                                                       \
      (CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t bytes))      \
    X(cuMemcpy2D, cuMemcpy2D_v2_ptds, 7000, (const CUDA_MEMCPY2D *copy))                           \
    X(cuMemcpy2DUnaligned, cuMemcpy2DUnaligned_v2_ptds, 7000, (const CUDA_MEMCPY2D *copy))         \
    X(cuMemsetD8, cuMemsetD8_v2_ptds, 7000, (CUdeviceptr dst, unsigned char value, size_t count))  \
    X(cuMemsetD16, cuMemsetD16_v2_ptds, 7000,                                                      \
      (CUdeviceptr dst, unsigned short value, size_t count))                                       \
    X(cuMemsetD32, cuMemsetD32_v2_ptds, 7000, (CUdeviceptr dst, unsigned int value, size_t count)) \
    X(cuMemsetD2D8, cuMemsetD2D8_v2_ptds, 7000,                                                    \
      (CUdeviceptr dst, size_t pitch_bytes, unsigned char value, size_t width, size_t rows))       \
    X(cuMemsetD2D16, cuMemsetD2D16_v2_ptds, 7000,                                                  \
      (CUdeviceptr dst, size_t pitch_bytes, unsigned short value, size_t width, size_t rows))      \
    X(cuMemsetD2D32, cuMemsetD2D32_v2_ptds, 7000,                                                  \
      (CUdeviceptr dst, size_t pitch_bytes, unsigned int value, size_t width, size_t rows))        \
    X(cuMemPrefetchAsync, cuMemPrefetchAsync_ptsz, 8000,                                           \
      (CUdeviceptr ptr, size_t bytes, CUdevice dev, CUstream stream))                              \
    X(cuStreamBeginCapture, cuStreamBeginCapture_ptsz, 10000, (CUstream stream))                   \
    X(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_v3_ptsz, 12030,                               \
      (CUstream stream, CUstreamCaptureStatus *status_out, cuuint64_t *id_out,                     \
       CUgraph *graph_out, const CUgraphNode **dependencies_out,                                   \
       const CUgraphEdgeData **edges_out, size_t *count_out))                                      \
    X(cuStreamGetCtx, cuStreamGetCtx_v2_ptsz, 12050,                                               \
      (CUstream stream, CUcontext *ctx_out, CUgreenCtx *green_out))
/* clang-format on */

#define STANDIN_FORM_PROTOTYPE(name, symbol, version, params) STANDIN_EXPORT CUresult symbol params;
STANDIN_FORMS(STANDIN_FORM_PROTOTYPE)
STANDIN_OWN_FORMS(STANDIN_FORM_PROTOTYPE)
#undef STANDIN_FORM_PROTOTYPE

/* One function that cuGetProcAddress can return. */
struct standin_row {
    const char *name;   /* without suffixes */
    const char *symbol; /* as exported */
    int version;        /* CUDA version of the form, 11020 for 11.2 */
    standin_function function;
};

/* The rows of each file. A row without a name ends each table. */
extern const struct standin_row acre__standin_list_rows[];  /* driver_doors.c */
extern const struct standin_row acre__standin_own_rows[];   /* driver_own.c */
extern const struct standin_row acre__standin_form_rows[];  /* driver_forms.c */
extern const struct standin_row acre__standin_other_rows[]; /* driver_others.c */

#endif
