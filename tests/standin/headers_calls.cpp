// Calls that only C++ programs can write: pointers of any type without a cast, and default
// arguments. test_headers.sh compiles this file against include/soft and against NVIDIA's headers.
// A call that either refuses, or that has another type, is an error. The file is never run.
#include <type_traits>

#include <cuda.h>
#include <cuda_runtime.h>

struct particle {
    float x, y, z;
};

#define RETURNS(type, call)                                                                        \
    static_assert(std::is_same<decltype(call), type>::value, #call " returns " #type)

template <class T> void any_pointer(cudaStream_t stream, cudaMemPool_t pool) {
    T *p = nullptr;
    size_t pitch = 0;

    RETURNS(cudaError_t, cudaMalloc(&p, 8));
    RETURNS(cudaError_t, cudaMallocPitch(&p, &pitch, 8, 8));
    RETURNS(cudaError_t, cudaMallocHost(&p, 8));
    RETURNS(cudaError_t, cudaMallocHost(&p, 8, cudaHostAllocPortable));
    RETURNS(cudaError_t, cudaHostAlloc(&p, 8, cudaHostAllocMapped));
    RETURNS(cudaError_t, cudaHostGetDevicePointer(&p, (void *)p, 0));
    RETURNS(cudaError_t, cudaMallocManaged(&p, 8));
    RETURNS(cudaError_t, cudaMallocManaged(&p, 8, cudaMemAttachHost));
    RETURNS(cudaError_t, cudaMallocAsync(&p, 8, stream));
    RETURNS(cudaError_t, cudaMallocAsync(&p, 8, pool, stream));
    RETURNS(cudaError_t, cudaMallocFromPoolAsync(&p, 8, pool, stream));
    RETURNS(cudaError_t, cudaStreamAttachMemAsync(stream, p));
    RETURNS(cudaError_t, cudaStreamAttachMemAsync(stream, p, 8, cudaMemAttachHost));
}

// Calls as well as types: the compiler checks the body of a template only when it is used.
cudaError_t called(cudaStream_t stream, cudaMemPool_t pool, cudaMemLocation where);
cudaError_t called(cudaStream_t stream, cudaMemPool_t pool, cudaMemLocation where) {
    particle *p = nullptr;
    const float *readonly = nullptr;
    void *untyped = nullptr;
    size_t pitch = 0;
    cudaEvent_t event = nullptr;
    cudaDriverEntryPointQueryResult found;
    cudaError_t error = cudaMalloc(&p, sizeof *p);

    any_pointer<particle>(stream, pool);
    any_pointer<unsigned char>(stream, pool);
    any_pointer<void>(stream, pool);
    if (error == cudaSuccess)
        error = cudaMalloc(&readonly, 8);
    if (error == cudaSuccess)
        error = cudaMalloc(&untyped, 8);
    if (error == cudaSuccess)
        error = cudaMallocPitch(&p, &pitch, 8, 8);
    if (error == cudaSuccess)
        error = cudaMallocHost(&p, 8);
    if (error == cudaSuccess)
        error = cudaHostAlloc(&p, 8, cudaHostAllocDefault);
    if (error == cudaSuccess)
        error = cudaHostGetDevicePointer(&readonly, p, 0);
    if (error == cudaSuccess)
        error = cudaMallocManaged(&p, 8);
    if (error == cudaSuccess)
        error = cudaMallocAsync(&p, 8, stream);
    if (error == cudaSuccess)
        error = cudaMallocAsync(&untyped, 8, pool, stream);
    if (error == cudaSuccess)
        error = cudaMallocFromPoolAsync(&p, 8, pool, stream);
    if (error == cudaSuccess)
        error = cudaStreamAttachMemAsync(stream, p);
    if (error == cudaSuccess)
        error = cudaEventCreate(&event, cudaEventDisableTiming);
    if (error == cudaSuccess)
        error = cudaEventRecord(event);
    if (error == cudaSuccess)
        error = cudaEventRecordWithFlags(event);
    if (error == cudaSuccess)
        error = cudaStreamWaitEvent(stream, event);
    if (error == cudaSuccess)
        error = cudaMemcpyAsync(p, readonly, 8, cudaMemcpyDefault);
    if (error == cudaSuccess)
        error = cudaMemcpy2DAsync(p, 8, readonly, 8, 8, 1, cudaMemcpyDefault);
    if (error == cudaSuccess)
        error = cudaMemcpyPeerAsync(p, 0, readonly, 0, 8);
    if (error == cudaSuccess)
        error = cudaMemsetAsync(p, 0, 8);
    if (error == cudaSuccess)
        error = cudaMemset2DAsync(p, 8, 0, 8, 1);
    if (error == cudaSuccess)
        error = cudaMemPrefetchAsync(p, 8, where, 0);
    if (error == cudaSuccess)
        error = cudaGetDriverEntryPointByVersion("cuInit", &untyped, 2000, cudaEnableDefault);
    if (error == cudaSuccess)
        error =
            cudaGetDriverEntryPointByVersion("cuInit", &untyped, 2000, cudaEnableDefault, &found);
    return error;
}
