/* Copies and fills in one and two dimensions.
 *
 * The kind of a copy selects the driver's function and its checks: the driver must know memory that
 * the kind declares as device memory. Synchronous calls use the legacy default stream, or the
 * thread's default stream in their per-thread form. No state, no locks. */
#include <string.h>

#include "runtime_state.h"

static int copy_is_ptds(void) {
    return acre__runtime_thread()->is_ptds;
}

/* ---- one dimension ---- */

static CUresult copy_sync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                          enum cudaMemcpyKind kind) {
    int ptds = copy_is_ptds();
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return (ptds ? cuMemcpyHtoD_v2_ptds : cuMemcpyHtoD_v2)(to, runtime_pointer(from), bytes);
    case cudaMemcpyDeviceToHost:
        return (ptds ? cuMemcpyDtoH_v2_ptds : cuMemcpyDtoH_v2)(runtime_pointer(to), from, bytes);
    case cudaMemcpyDeviceToDevice:
        return (ptds ? cuMemcpyDtoD_v2_ptds : cuMemcpyDtoD_v2)(to, from, bytes);
    default:
        return (ptds ? cuMemcpy_ptds : cuMemcpy)(to, from, bytes);
    }
}

static CUresult copy_async(CUdeviceptr to, CUdeviceptr from, size_t bytes, enum cudaMemcpyKind kind,
                           CUstream stream) {
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return cuMemcpyHtoDAsync_v2(to, runtime_pointer(from), bytes, stream);
    case cudaMemcpyDeviceToHost:
        return cuMemcpyDtoHAsync_v2(runtime_pointer(to), from, bytes, stream);
    case cudaMemcpyDeviceToDevice:
        return cuMemcpyDtoDAsync_v2(to, from, bytes, stream);
    default:
        return cuMemcpyAsync(to, from, bytes, stream);
    }
}

/* An invalid kind fails before a context is created. */
static cudaError_t copy_begin(enum cudaMemcpyKind kind) {
    if ((unsigned)kind > cudaMemcpyDefault)
        return cudaErrorInvalidMemcpyDirection;
    return acre__runtime_context();
}

cudaError_t acre__runtime_cudaMemcpy(void *dst, const void *src, size_t bytes,
                                     enum cudaMemcpyKind kind) {
    cudaError_t error = copy_begin(kind);
    return error ? error
                 : acre__runtime_error(
                       copy_sync(runtime_address(dst), runtime_address(src), bytes, kind));
}

cudaError_t acre__runtime_cudaMemcpyAsync(void *dst, const void *src, size_t bytes,
                                          enum cudaMemcpyKind kind, cudaStream_t stream) {
    cudaError_t error = copy_begin(kind);
    return error ? error
                 : acre__runtime_error(copy_async(runtime_address(dst), runtime_address(src), bytes,
                                                  kind, runtime_stream(stream)));
}

/* ---- between devices ---- */

/* Finds the primary contexts of both devices. */
static cudaError_t copy_peers(int to, int from, CUcontext *to_out, CUcontext *from_out) {
    cudaError_t error = acre__runtime_context();
    if (!error)
        error = acre__runtime_primary(to, to_out);
    if (!error)
        error = acre__runtime_primary(from, from_out);
    return error;
}

cudaError_t acre__runtime_cudaMemcpyPeer(void *dst, int dst_device, const void *src, int src_device,
                                         size_t bytes) {
    CUcontext to, from;
    cudaError_t error = copy_peers(dst_device, src_device, &to, &from);
    return error ? error
                 : acre__runtime_error(
                       cuMemcpyPeer(runtime_address(dst), to, runtime_address(src), from, bytes));
}

cudaError_t acre__runtime_cudaMemcpyPeerAsync(void *dst, int dst_device, const void *src,
                                              int src_device, size_t bytes, cudaStream_t stream) {
    CUcontext to, from;
    cudaError_t error = copy_peers(dst_device, src_device, &to, &from);
    return error ? error
                 : acre__runtime_error(cuMemcpyPeerAsync(runtime_address(dst), to,
                                                         runtime_address(src), from, bytes,
                                                         runtime_stream(stream)));
}

/* ---- two dimensions ---- */

struct copy_plane {
    void *to;
    size_t to_pitch; /* bytes from row to row */
    const void *from;
    size_t from_pitch;
    size_t width; /* bytes of a row */
    size_t height;
    enum cudaMemcpyKind kind;
};

static CUDA_MEMCPY2D copy_driver_plane(const struct copy_plane *plane) {
    CUDA_MEMCPY2D copy;
    memset(&copy, 0, sizeof copy);
    switch (plane->kind) {
    case cudaMemcpyHostToDevice:
        copy.srcMemoryType = CU_MEMORYTYPE_HOST;
        copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        break;
    case cudaMemcpyDeviceToHost:
        copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
        copy.dstMemoryType = CU_MEMORYTYPE_HOST;
        break;
    case cudaMemcpyDeviceToDevice:
        copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        break;
    default:
        copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    }
    copy.srcHost = plane->from;
    copy.srcDevice = runtime_address(plane->from);
    copy.srcPitch = plane->from_pitch;
    copy.dstHost = plane->to;
    copy.dstDevice = runtime_address(plane->to);
    copy.dstPitch = plane->to_pitch;
    copy.WidthInBytes = plane->width;
    copy.Height = plane->height;
    return copy;
}

/* Checks a copy before it goes to the driver. Here a pitch below the width has its own error code;
 * to the driver a pitch of 0 means rows without gaps. */
static cudaError_t copy_begin_plane(const struct copy_plane *plane) {
    cudaError_t error = copy_begin(plane->kind);
    if (!error && (plane->to_pitch < plane->width || plane->from_pitch < plane->width))
        error = cudaErrorInvalidPitchValue;
    return error;
}

static cudaError_t copy_plane_sync(const struct copy_plane *plane) {
    cudaError_t error = copy_begin_plane(plane);
    if (error || plane->width == 0 || plane->height == 0)
        return error;
    CUDA_MEMCPY2D copy = copy_driver_plane(plane);
    return acre__runtime_error(
        (copy_is_ptds() ? cuMemcpy2DUnaligned_v2_ptds : cuMemcpy2DUnaligned_v2)(&copy));
}

static cudaError_t copy_plane_async(const struct copy_plane *plane, cudaStream_t stream) {
    cudaError_t error = copy_begin_plane(plane);
    if (error || plane->width == 0 || plane->height == 0)
        return error;
    CUDA_MEMCPY2D copy = copy_driver_plane(plane);
    return acre__runtime_error(cuMemcpy2DAsync_v2(&copy, runtime_stream(stream)));
}

cudaError_t acre__runtime_cudaMemcpy2D(void *dst, size_t dst_pitch, const void *src,
                                       size_t src_pitch, size_t width, size_t height,
                                       enum cudaMemcpyKind kind) {
    return copy_plane_sync(
        &(struct copy_plane){dst, dst_pitch, src, src_pitch, width, height, kind});
}

cudaError_t acre__runtime_cudaMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src,
                                            size_t src_pitch, size_t width, size_t height,
                                            enum cudaMemcpyKind kind, cudaStream_t stream) {
    return copy_plane_async(
        &(struct copy_plane){dst, dst_pitch, src, src_pitch, width, height, kind}, stream);
}

/* ---- fills ---- */

cudaError_t acre__runtime_cudaMemset(void *ptr, int value, size_t bytes) {
    cudaError_t error = acre__runtime_context();
    return error ? error
                 : acre__runtime_error((copy_is_ptds() ? cuMemsetD8_v2_ptds : cuMemsetD8_v2)(
                       runtime_address(ptr), (unsigned char)value, bytes));
}

cudaError_t acre__runtime_cudaMemsetAsync(void *ptr, int value, size_t bytes, cudaStream_t stream) {
    cudaError_t error = acre__runtime_context();
    return error ? error
                 : acre__runtime_error(cuMemsetD8Async(runtime_address(ptr), (unsigned char)value,
                                                       bytes, runtime_stream(stream)));
}

cudaError_t acre__runtime_cudaMemset2D(void *ptr, size_t pitch, int value, size_t width,
                                       size_t height) {
    cudaError_t error = acre__runtime_context();
    return error ? error
                 : acre__runtime_error((copy_is_ptds() ? cuMemsetD2D8_v2_ptds : cuMemsetD2D8_v2)(
                       runtime_address(ptr), pitch, (unsigned char)value, width, height));
}

cudaError_t acre__runtime_cudaMemset2DAsync(void *ptr, size_t pitch, int value, size_t width,
                                            size_t height, cudaStream_t stream) {
    cudaError_t error = acre__runtime_context();
    return error ? error
                 : acre__runtime_error(cuMemsetD2D8Async(runtime_address(ptr), pitch,
                                                         (unsigned char)value, width, height,
                                                         runtime_stream(stream)));
}
