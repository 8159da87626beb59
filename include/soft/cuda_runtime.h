/*
 * What cuda_runtime.h adds to cuda_runtime_api.h: make_int2 and similar functions, and in C++ forms
 * of calls that accept a pointer to any type of pointer. So `float *p; cudaMalloc(&p, bytes)` needs
 * no cast.
 */
/* Names with two underscores are NVIDIA's, and programs use them.
 * NOLINTBEGIN(bugprone-reserved-identifier) */
#ifndef __CUDA_RUNTIME_H__
#define __CUDA_RUNTIME_H__

#include "cuda_runtime_api.h"
#include "vector_functions.h"

#ifdef __cplusplus

/* Inline even without optimisation: leak reports then show the program's line, not this file's. */
#define ACRE_SOFT_INLINE __attribute__((always_inline)) static inline

ACRE_SOFT_INLINE cudaError_t cudaEventCreate(cudaEvent_t *event, unsigned int flags) {
    return ::cudaEventCreateWithFlags(event, flags);
}

ACRE_SOFT_INLINE cudaError_t cudaMallocHost(void **ptr, size_t bytes, unsigned int flags) {
    return ::cudaHostAlloc(ptr, bytes, flags);
}

ACRE_SOFT_INLINE cudaError_t cudaMallocAsync(void **ptr, size_t bytes, cudaMemPool_t pool,
                                             cudaStream_t stream) {
    return ::cudaMallocFromPoolAsync(ptr, bytes, pool, stream);
}

template <class T> ACRE_SOFT_INLINE cudaError_t cudaMalloc(T **ptr, size_t bytes) {
    return ::cudaMalloc((void **)(void *)ptr, bytes);
}

template <class T>
ACRE_SOFT_INLINE cudaError_t cudaMallocPitch(T **ptr, size_t *pitch, size_t width, size_t height) {
    return ::cudaMallocPitch((void **)(void *)ptr, pitch, width, height);
}

template <class T>
ACRE_SOFT_INLINE cudaError_t cudaMallocHost(T **ptr, size_t bytes, unsigned int flags = 0) {
    return ::cudaHostAlloc((void **)(void *)ptr, bytes, flags);
}

template <class T>
ACRE_SOFT_INLINE cudaError_t cudaHostAlloc(T **ptr, size_t bytes, unsigned int flags) {
    return ::cudaHostAlloc((void **)(void *)ptr, bytes, flags);
}

template <class T>
ACRE_SOFT_INLINE cudaError_t cudaHostGetDevicePointer(T **devicePtr, void *hostPtr,
                                                      unsigned int flags) {
    return ::cudaHostGetDevicePointer((void **)(void *)devicePtr, hostPtr, flags);
}

template <class T>
ACRE_SOFT_INLINE cudaError_t cudaMallocManaged(T **ptr, size_t bytes,
                                               unsigned int flags = cudaMemAttachGlobal) {
    return ::cudaMallocManaged((void **)(void *)ptr, bytes, flags);
}

template <class T>
ACRE_SOFT_INLINE cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, T *ptr, size_t bytes = 0,
                                                      unsigned int flags = cudaMemAttachSingle) {
    return ::cudaStreamAttachMemAsync(stream, (void *)ptr, bytes, flags);
}

template <class T>
ACRE_SOFT_INLINE cudaError_t cudaMallocAsync(T **ptr, size_t bytes, cudaStream_t stream) {
    return ::cudaMallocAsync((void **)(void *)ptr, bytes, stream);
}

template <class T>
ACRE_SOFT_INLINE cudaError_t cudaMallocAsync(T **ptr, size_t bytes, cudaMemPool_t pool,
                                             cudaStream_t stream) {
    return ::cudaMallocFromPoolAsync((void **)(void *)ptr, bytes, pool, stream);
}

template <class T>
ACRE_SOFT_INLINE cudaError_t cudaMallocFromPoolAsync(T **ptr, size_t bytes, cudaMemPool_t pool,
                                                     cudaStream_t stream) {
    return ::cudaMallocFromPoolAsync((void **)(void *)ptr, bytes, pool, stream);
}

#undef ACRE_SOFT_INLINE

#endif

#endif
/* NOLINTEND(bugprone-reserved-identifier) */
