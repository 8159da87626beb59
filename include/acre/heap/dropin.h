/* Replaces malloc and free in the kernels of one file with a heap. A file gets this header if it
 * defines ACRE_HEAP_AS_MALLOC before it includes acre_heap.h. Part of acre_heap.h, not to be
 * included by itself.
 *
 *   #define ACRE_HEAP_AS_MALLOC
 *   #include <acre_heap.h>
 *   ...
 *   acre_heap_as_malloc(heap);    before the first launch
 *
 * After that call, malloc, free and __nv_aligned_device_malloc in the device code of the file use
 * that heap. In its host code they stay what they were.
 *
 * With nvcc, the replacements are functions with these names, not macros. So std::malloc, the
 * address of malloc and members called free work as usual. CUDA's headers declare malloc and free
 * as __host__ __device__ but do not define them. This header defines them only while nvcc compiles
 * for the device (__CUDA_ARCH__), so host code still links to the C library. Two things are not
 * replaced:
 * - Other files of the program: each must define ACRE_HEAP_AS_MALLOC and call acre_heap_as_malloc
 *   itself. With -rdc=true one file defines the macro for all files; the linker refuses two.
 * - operator new and delete, which call CUDA's own malloc and free, except in builds with -G.
 *   Passing a pointer from new to free, or from malloc to delete, is a bug in C++ too; it counts as
 *   a foreign free. A file that also defines ACRE_HEAP_AS_NEW replaces them, too, in device code.
 *   Without memory new calls the constructor at NULL, as CUDA's does: use malloc to check.
 *
 * In C and C++ for the CPU, a kernel is a function run by acre_soft_launch. A call inside a kernel
 * uses the heap; any other call uses the C library (acre_soft_in_kernel distinguishes them). Here
 * malloc and free are function-like macros, since a file cannot define its own malloc:
 * - std::malloc(n) is replaced, too.
 * - The address of malloc is that of the C library's function, also in kernels.
 * - To call a member function named free that was declared before the include, write
 *   (object.free)(p).
 * - No header after this one may declare malloc or free. This header includes <stdlib.h> and
 *   <malloc.h>.
 * - calloc and realloc, which device code does not have, stay the C library's. */
#ifndef ACRE_HEAP_DROPIN_H
#define ACRE_HEAP_DROPIN_H

#ifndef __CUDACC_RTC__
#ifdef __cplusplus
#include <cstdlib> /* here, since later it would undefine the macros below */
#endif
#ifndef __CUDACC__
#include <malloc.h>
#endif
#include <stdlib.h>
#include <string.h>
#endif

#ifdef __CUDACC__

/* The heap of this file. Programs that load the module with the driver API find it by this name
 * with cuModuleGetGlobal. It is in constant memory because all lanes read it in every call, and
 * nobody writes it while kernels run. */
extern "C" {
__constant__ acre_heap_handle acre__heap_as_malloc;
}

#ifdef __CUDA_ARCH__
#if defined(__CUDACC_RTC__) || (defined(__clang__) && !defined(__NVCC__))
#define ACRE__HEAP_DROPIN extern "C" __device__
#define ACRE__HEAP_THROW
#else
#define ACRE__HEAP_DROPIN extern "C" __host__ __device__
#define ACRE__HEAP_THROW __THROW
#endif
ACRE__HEAP_DROPIN void *malloc(size_t bytes) ACRE__HEAP_THROW {
    acre_heap_handle h = acre__heap_as_malloc;
    return h.control ? acre_heap_malloc(h, bytes) : NULL;
}

ACRE__HEAP_DROPIN void free(void *p) ACRE__HEAP_THROW {
    acre_heap_handle h = acre__heap_as_malloc;
    if (h.control)
        acre_heap_free(h, p);
}

/* CUDA's inline function __nv_aligned_device_malloc calls this. */
extern "C" __device__ void *__nv_aligned_device_malloc_impl(size_t bytes, size_t align) {
    acre_heap_handle h = acre__heap_as_malloc;
    return h.control ? acre_heap_aligned_malloc(h, bytes, align) : NULL;
}

#ifdef ACRE_HEAP_AS_NEW
#if defined(__clang__) && !defined(__NVCC__)
#include <new> /* clang's own, for kernels: these operators call malloc and free, the ones above */
#else
__device__ void *operator new(size_t bytes) {
    return malloc(bytes);
}
__device__ void *operator new[](size_t bytes) {
    return malloc(bytes);
}
__device__ void operator delete(void *p) noexcept {
    free(p);
}
__device__ void operator delete[](void *p) noexcept {
    free(p);
}
__device__ void operator delete(void *p, size_t) noexcept {
    free(p);
}
__device__ void operator delete[](void *p, size_t) noexcept {
    free(p);
}
#endif
#ifdef __cpp_aligned_new
__device__ void *operator new(size_t bytes, std::align_val_t align) {
    return __nv_aligned_device_malloc_impl(bytes, (size_t)align);
}
__device__ void *operator new[](size_t bytes, std::align_val_t align) {
    return __nv_aligned_device_malloc_impl(bytes, (size_t)align);
}
__device__ void operator delete(void *p, std::align_val_t) noexcept {
    free(p);
}
__device__ void operator delete[](void *p, std::align_val_t) noexcept {
    free(p);
}
__device__ void operator delete(void *p, size_t, std::align_val_t) noexcept {
    free(p);
}
__device__ void operator delete[](void *p, size_t, std::align_val_t) noexcept {
    free(p);
}
#endif
#endif
#endif

#else /* not nvcc */

static acre_heap_handle acre__heap_as_malloc;

ACRE__HEAP_FN void *acre__heap_file_malloc(size_t bytes) {
    if (!acre_soft_in_kernel())
        return malloc(bytes);
    acre_heap_handle h = acre__heap_as_malloc;
    return h.control ? acre_heap_malloc(h, bytes) : NULL;
}

ACRE__HEAP_FN void acre__heap_file_free(void *p) {
    acre_heap_handle h = acre__heap_as_malloc;
    if (!acre_soft_in_kernel())
        free(p);
    else if (h.control)
        acre_heap_free(h, p);
}

/* For device code only, as in CUDA: NULL outside kernels. NOLINTNEXTLINE: the name is CUDA's. */
ACRE__HEAP_FN void *__nv_aligned_device_malloc(size_t bytes, size_t align) {
    acre_heap_handle h = acre__heap_as_malloc;
    return h.control && acre_soft_in_kernel() ? acre_heap_aligned_malloc(h, bytes, align) : NULL;
}

#ifdef __cplusplus
namespace std { /* for std::malloc(n) and std::free(p) */
using ::acre__heap_file_free;
using ::acre__heap_file_malloc;
} // namespace std
#endif
#define malloc(...) acre__heap_file_malloc(__VA_ARGS__)
#define free(...) acre__heap_file_free(__VA_ARGS__)

#endif

#ifndef __CUDACC_RTC__
/* Sets the heap that malloc and free in this file's kernels use. NULL means none: malloc then
 * returns NULL. Under nvcc it applies to the current CUDA device, which must be the heap's, and
 * uses the CUDA runtime.
 * Returns ACRE_E_HANDLE; ACRE_E_DRIVER if the runtime failed: cudaGetLastError says why.
 * Sync: under nvcc, waits for the work queued on the default stream. */
static inline acre_status acre_heap_as_malloc(acre_heap *heap) {
    acre_heap_handle h;
    memset(&h, 0, sizeof h);
    acre_status status = heap ? acre_heap_get_handle(heap, &h) : ACRE_OK;
    if (status != ACRE_OK)
        return status;
#ifdef __CUDACC__
    if (cudaMemcpyToSymbol(acre__heap_as_malloc, &h, sizeof h) != cudaSuccess ||
        cudaStreamSynchronize(0) != cudaSuccess)
        return ACRE_E_DRIVER;
#else
    acre__heap_as_malloc = h;
#endif
    return ACRE_OK;
}
#endif

#endif
