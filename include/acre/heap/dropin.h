/* malloc and free of one file's kernels by a heap: what a file gets that defines
 * ACRE_HEAP_AS_MALLOC before it includes acre_heap.h. Part of that, not to be included by itself.
 *
 *   #define ACRE_HEAP_AS_MALLOC
 *   #include <acre_heap.h>
 *   ...
 *   acre_heap_as_malloc(heap);    before the first launch
 *
 * From there on malloc, free and __nv_aligned_device_malloc in this file's device code are calls of
 * that heap, and in its host code what they were.
 *
 * nvcc. They are functions of those names and no macros, so std::malloc, a function's address and
 * members called free are what they look like: CUDA declares malloc for both sides and defines
 * neither; this header defines it in the compilation for the device, which the one for the host
 * does not see. What is not mapped: other files of the program, each of which has to define
 * ACRE_HEAP_AS_MALLOC and to call acre_heap_as_malloc itself; operator new, which calls CUDA's own
 * malloc, and delete CUDA's own free, but in builds with -G (a pointer from new given to free, or
 * the other way round, is a mistake in C++ too, and counted as a foreign free). With -rdc=true one
 * file of a program defines it, for all of them; two are refused by the linker.
 *
 * C and C++ for the CPU, where kernels are functions run by acre_soft_launch: a call inside a
 * kernel is the heap's, any other the C library's (acre_soft_in_kernel tells them apart). There the
 * two are macros that look like functions, since a file cannot have a malloc of its own. So
 * std::malloc(n) is mapped too; the address of malloc is the C library's function, in kernels as
 * well; and a member that is called free, if it was declared before the include, is written
 * (object.free)(p). Behind the include nothing may declare malloc or free: <stdlib.h> and
 * <malloc.h> are included here. calloc and realloc, which device code does not have, are the C
 * library's. */
#ifndef ACRE_HEAP_DROPIN_H
#define ACRE_HEAP_DROPIN_H

#ifdef __cplusplus
#include <cstdlib> /* which would take the macros below away */
#endif
#ifndef __CUDACC__
#include <malloc.h>
#endif
#include <stdlib.h>
#include <string.h>

#ifdef __CUDACC__

/* For who loads the module by the driver: found by this name with cuModuleGetGlobal. All lanes read
 * it at every call and nobody writes it meanwhile, which is what constant memory is for. */
extern "C" {
__constant__ acre_heap_handle acre__heap_as_malloc;
}

#ifdef __CUDA_ARCH__
extern "C" __host__ __device__ void *malloc(size_t bytes) __THROW {
    acre_heap_handle h = acre__heap_as_malloc;
    return h.control ? acre_heap_malloc(h, bytes) : NULL;
}

extern "C" __host__ __device__ void free(void *p) __THROW {
    acre_heap_handle h = acre__heap_as_malloc;
    if (h.control)
        acre_heap_free(h, p);
}

/* What CUDA's inline function of the same name without the end calls. */
extern "C" __device__ void *__nv_aligned_device_malloc_impl(size_t bytes, size_t align) {
    acre_heap_handle h = acre__heap_as_malloc;
    return h.control ? acre_heap_aligned_malloc(h, bytes, align) : NULL;
}
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

/* For device code alone, as CUDA's: NULL outside kernels. NOLINTNEXTLINE: the name is CUDA's. */
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
/* The heap that this file's kernels call from now on; NULL: none, and malloc gives NULL. Under nvcc
 * for the CUDA device that is current, which is the heap's, by the CUDA runtime; waits for what is
 * queued on the default stream.
 * Returns ACRE_E_HANDLE; ACRE_E_DRIVER: the runtime refused, cudaGetLastError says why. */
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
