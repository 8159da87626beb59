/* Forms of driver functions for programs whose default stream is the calling thread's, not the
 * legacy stream (nvcc --default-stream per-thread). Names end in _ptsz if the call has a stream
 * parameter, where NULL means the thread's stream, and in _ptds if it has none.
 *
 * Forms with a parameter `stream` are generated from the driver's list. */
#include "caller.h"
#include "driver_forms.h"

/* Entries of the list with a per-thread form. All other entries have none. */
#define OWN_cuEventRecord OWN_YES
#define OWN_cuEventRecordWithFlags OWN_YES
#define OWN_cuGraphLaunch OWN_YES
#define OWN_cuLaunchHostFunc OWN_YES
#define OWN_cuLaunchKernel OWN_YES
#define OWN_cuMemAllocAsync OWN_YES
#define OWN_cuMemAllocFromPoolAsync OWN_YES
#define OWN_cuMemFreeAsync OWN_YES
#define OWN_cuMemPrefetchAsync OWN_YES
#define OWN_cuMemcpy2DAsync OWN_YES
#define OWN_cuMemcpyAsync OWN_YES
#define OWN_cuMemcpyDtoDAsync OWN_YES
#define OWN_cuMemcpyDtoHAsync OWN_YES
#define OWN_cuMemcpyHtoDAsync OWN_YES
#define OWN_cuMemcpyPeerAsync OWN_YES
#define OWN_cuMemsetD16Async OWN_YES
#define OWN_cuMemsetD2D16Async OWN_YES
#define OWN_cuMemsetD2D32Async OWN_YES
#define OWN_cuMemsetD2D8Async OWN_YES
#define OWN_cuMemsetD32Async OWN_YES
#define OWN_cuMemsetD8Async OWN_YES
#define OWN_cuStreamAddCallback OWN_YES
#define OWN_cuStreamAttachMemAsync OWN_YES
#define OWN_cuStreamBeginCapture OWN_YES
#define OWN_cuStreamEndCapture OWN_YES
#define OWN_cuStreamGetCaptureInfo OWN_YES
#define OWN_cuStreamGetCtx OWN_YES
#define OWN_cuStreamGetDevice OWN_YES
#define OWN_cuStreamGetFlags OWN_YES
#define OWN_cuStreamGetId OWN_YES
#define OWN_cuStreamGetPriority OWN_YES
#define OWN_cuStreamIsCapturing OWN_YES
#define OWN_cuStreamQuery OWN_YES
#define OWN_cuStreamSynchronize OWN_YES
#define OWN_cuStreamWaitEvent OWN_YES

/* OWN_IF(name, MACRO)(arguments) expands to MACRO(arguments) for the entries above and to nothing
 * for others: OWN_YES expands to two arguments, which pushes OWN_TAKE to the second position. */
#define OWN_YES ~, OWN_TAKE
#define OWN_TAKE(macro) macro
#define OWN_LEAVE(macro) OWN_NOTHING
#define OWN_NOTHING(...)
#define OWN_SECOND(first, second, ...) second
#define OWN_CHOOSE(...) OWN_SECOND(__VA_ARGS__)
#define OWN_IF(name, macro) OWN_CHOOSE(OWN_##name, OWN_LEAVE, ~)(macro)

static CUstream own(CUstream stream) {
    return stream ? stream : CU_STREAM_PER_THREAD;
}

/* ---- with a stream ---- */

/* The inner door would record its own caller, but this outer door has already set it. */
#define OWN_DOOR(name, symbol, params, args)                                                       \
    STANDIN_EXPORT CUresult symbol##_ptsz params;                                                  \
    CUresult symbol##_ptsz params {                                                                \
        struct acre_ledger_caller before;                                                          \
        acre_ledger_enter(&before, #name, __builtin_return_address(0));                            \
        stream = own(stream);                                                                      \
        return acre__ledger_end(&before, symbol args);                                             \
    }
#define OWN_ENTRY(name, symbol, version, need, sticky, calls, moved, params, args)                 \
    OWN_IF(name, OWN_DOOR)(name, symbol, params, args)
ACRE__DRIVER_LIST(OWN_ENTRY)

CUresult cuMemPrefetchAsync_ptsz(CUdeviceptr ptr, size_t bytes, CUdevice dev, CUstream stream) {
    return cuMemPrefetchAsync(ptr, bytes, dev, own(stream));
}

CUresult cuStreamBeginCapture_ptsz(CUstream stream) {
    return cuStreamBeginCapture(own(stream));
}

CUresult cuStreamGetCtx_v2_ptsz(CUstream stream, CUcontext *ctx_out, CUgreenCtx *green_out) {
    return cuStreamGetCtx_v2(own(stream), ctx_out, green_out);
}

CUresult cuStreamGetCaptureInfo_v3_ptsz(CUstream stream, CUstreamCaptureStatus *status_out,
                                        cuuint64_t *id_out, CUgraph *graph_out,
                                        const CUgraphNode **dependencies_out,
                                        const CUgraphEdgeData **edges_out, size_t *count_out) {
    return cuStreamGetCaptureInfo_v3(own(stream), status_out, id_out, graph_out, dependencies_out,
                                     edges_out, count_out);
}

/* ---- without one ---- */

/* Copies with the host are done when the call returns. */
static CUresult own_wait(CUresult result) {
    return result ? result : cuStreamSynchronize(CU_STREAM_PER_THREAD);
}

CUresult cuMemcpy_ptds(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
    return own_wait(cuMemcpyAsync(dst, src, bytes, CU_STREAM_PER_THREAD));
}

CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr dst, const void *src, size_t bytes) {
    return own_wait(cuMemcpyHtoDAsync_v2(dst, src, bytes, CU_STREAM_PER_THREAD));
}

CUresult cuMemcpyDtoH_v2_ptds(void *dst, CUdeviceptr src, size_t bytes) {
    return own_wait(cuMemcpyDtoHAsync_v2(dst, src, bytes, CU_STREAM_PER_THREAD));
}

CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
    return cuMemcpyDtoDAsync_v2(dst, src, bytes, CU_STREAM_PER_THREAD);
}

CUresult cuMemcpyPeer_ptds(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx,
                           size_t bytes) {
    return cuMemcpyPeerAsync(dst, dst_ctx, src, src_ctx, bytes, CU_STREAM_PER_THREAD);
}

CUresult cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *copy) {
    return own_wait(cuMemcpy2DAsync_v2(copy, CU_STREAM_PER_THREAD));
}

CUresult cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D *copy) {
    return cuMemcpy2D_v2_ptds(copy);
}

/* Fills of memory that the host can read are done when the call returns, unless they are
 * captured. */
static CUresult own_wait_filled(CUresult result, CUdeviceptr dst) {
    CUmemorytype type = CU_MEMORYTYPE_DEVICE;
    unsigned managed = 0;
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_IS_MANAGED};
    void *answers[] = {&type, &managed};
    if (result || cuPointerGetAttributes(2, asked, answers, dst) ||
        (type != CU_MEMORYTYPE_HOST && !managed) ||
        cuStreamIsCapturing(CU_STREAM_PER_THREAD, &capture) || capture)
        return result;
    return own_wait(result);
}

CUresult cuMemsetD8_v2_ptds(CUdeviceptr dst, unsigned char value, size_t count) {
    return own_wait_filled(cuMemsetD8Async(dst, value, count, CU_STREAM_PER_THREAD), dst);
}

CUresult cuMemsetD16_v2_ptds(CUdeviceptr dst, unsigned short value, size_t count) {
    return own_wait_filled(cuMemsetD16Async(dst, value, count, CU_STREAM_PER_THREAD), dst);
}

CUresult cuMemsetD32_v2_ptds(CUdeviceptr dst, unsigned int value, size_t count) {
    return own_wait_filled(cuMemsetD32Async(dst, value, count, CU_STREAM_PER_THREAD), dst);
}

CUresult cuMemsetD2D8_v2_ptds(CUdeviceptr dst, size_t pitch_bytes, unsigned char value,
                              size_t width, size_t rows) {
    return own_wait_filled(
        cuMemsetD2D8Async(dst, pitch_bytes, value, width, rows, CU_STREAM_PER_THREAD), dst);
}

CUresult cuMemsetD2D16_v2_ptds(CUdeviceptr dst, size_t pitch_bytes, unsigned short value,
                               size_t width, size_t rows) {
    return own_wait_filled(
        cuMemsetD2D16Async(dst, pitch_bytes, value, width, rows, CU_STREAM_PER_THREAD), dst);
}

CUresult cuMemsetD2D32_v2_ptds(CUdeviceptr dst, size_t pitch_bytes, unsigned int value,
                               size_t width, size_t rows) {
    return own_wait_filled(
        cuMemsetD2D32Async(dst, pitch_bytes, value, width, rows, CU_STREAM_PER_THREAD), dst);
}

/* ---- rows for cuGetProcAddress ---- */

/* The forms came with CUDA 7. */
#define OWN_VERSION(version) ((version) < 7000 ? 7000 : (version))
#define OWN_LIST_ROW(name, symbol, version)                                                        \
    {#name, #symbol "_ptsz", OWN_VERSION(version), (standin_function)symbol##_ptsz},
#define OWN_ENTRY_ROW(name, symbol, version, need, sticky, calls, moved, params, args)             \
    OWN_IF(name, OWN_LIST_ROW)(name, symbol, version)
#define OWN_FORM_ROW(name, symbol, version, params)                                                \
    {#name, #symbol, version, (standin_function)symbol},

const struct standin_row acre__standin_own_rows[] = {
    ACRE__DRIVER_LIST(OWN_ENTRY_ROW) STANDIN_OWN_FORMS(OWN_FORM_ROW){NULL, NULL, 0, NULL}};
