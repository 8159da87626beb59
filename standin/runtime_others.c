/* What libcudart.so.13 does not do, so that programs with it start and hear about it: calls outside
 * the list, kernels, and where the driver's functions are found.
 *
 * nvcc puts calls into a program that register its kernels and variables before main, and turns a
 * launch into three calls: push the configuration, pop it again, launch. The first two work, since
 * a program must get to the third, which says that kernels need a GPU.
 *
 * Locks: none; the configurations are the calling thread's own. */
/* Names with two underscores are what compilers call.
 * NOLINTBEGIN(bugprone-reserved-identifier) */
#include <stdlib.h>
#include <string.h>

#include "runtime_state.h"

#include "runtime_others.h"

/* ---- calls outside the list ---- */

/* Called with whatever arguments the real function has; they are not looked at. */
#define OTHER(name)                                                                                \
    STANDIN_EXPORT cudaError_t name(void);                                                         \
    cudaError_t name(void) {                                                                       \
        return others_refuse(#name, __builtin_return_address(0));                                  \
    }

static cudaError_t others_refuse(const char *name, const void *address) {
    struct runtime_call call;
    acre__runtime_enter(&call, name, address, 0);
    acre_standin_say_once(name,
                          "%s is not among the calls of the soft runtime: it returns "
                          "cudaErrorNotSupported",
                          name);
    return acre__runtime_leave(&call, cudaErrorNotSupported);
}

ACRE__RUNTIME_OTHERS(OTHER)

/* ---- kernels ---- */

static cudaError_t others_refuse_kernel(const char *name, const void *address) {
    struct runtime_call call;
    acre__runtime_enter(&call, name, address, 0);
    acre_standin_say_once(name,
                          "%s: kernels need a GPU, the soft device has none: it returns "
                          "cudaErrorNotSupported",
                          name);
    return acre__runtime_leave(&call, cudaErrorNotSupported);
}

/* The compiler writes the names with underscores, for launches by <<<>>>. */
static const char *others_as_written(const char *name) {
    return strncmp(name, "__", 2) == 0 ? name + 2 : name;
}

#define KERNEL(name)                                                                               \
    STANDIN_EXPORT cudaError_t name(void);                                                         \
    cudaError_t name(void) {                                                                       \
        return others_refuse_kernel(others_as_written(#name), __builtin_return_address(0));        \
    }

KERNEL(cudaLaunchKernel)
KERNEL(cudaLaunchKernel_ptsz)
KERNEL(cudaLaunchKernelExC)
KERNEL(cudaLaunchKernelExC_ptsz)
KERNEL(cudaLaunchCooperativeKernel)
KERNEL(cudaLaunchCooperativeKernel_ptsz)
KERNEL(__cudaLaunchKernel)
KERNEL(__cudaLaunchKernel_ptsz)

struct others_launch {
    dim3 grid, block;
    size_t shared_bytes;
    void *stream;
};

/* Launches nest where an argument of one is computed by a function that launches another. */
enum { OTHERS_LAUNCHES = 16 };
static _Thread_local struct {
    struct others_launch launches[OTHERS_LAUNCHES];
    unsigned count;
} others_pushed __attribute__((tls_model("initial-exec")));

STANDIN_EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                                    void *stream);
/* Not 0: the program leaves the launch out. */
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, void *stream) {
    if (others_pushed.count == OTHERS_LAUNCHES)
        return 1;
    others_pushed.launches[others_pushed.count++] =
        (struct others_launch){grid, block, shared_bytes, stream};
    return 0;
}

STANDIN_EXPORT cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes,
                                                      void *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes,
                                       void *stream) {
    if (others_pushed.count == 0)
        return cudaErrorMissingConfiguration;
    const struct others_launch *launch = &others_pushed.launches[--others_pushed.count];
    *grid = launch->grid;
    *block = launch->block;
    *shared_bytes = launch->shared_bytes;
    *(void **)stream = launch->stream;
    return cudaSuccess;
}

/* A kernel is known by its function on the host; no more is ever done with it. */
STANDIN_EXPORT cudaError_t __cudaGetKernel(const void **kernel, const void *function);
cudaError_t __cudaGetKernel(const void **kernel, const void *function) {
    *kernel = function;
    return cudaSuccess;
}

/* ---- registering ---- */

STANDIN_EXPORT void **__cudaRegisterFatBinary(void *binary);
void **__cudaRegisterFatBinary(void *binary) {
    static void *handle;
    (void)binary;
    return &handle;
}

STANDIN_EXPORT char __cudaInitModule(void **handle);
char __cudaInitModule(void **handle) {
    (void)handle;
    return 1;
}

/* These take a handle and what is registered under it, and return nothing. */
#define REGISTER(name)                                                                             \
    STANDIN_EXPORT void name(void);                                                                \
    void name(void) {                                                                              \
    }

REGISTER(__cudaRegisterFatBinaryEnd)
REGISTER(__cudaUnregisterFatBinary)
REGISTER(__cudaRegisterFunction)
REGISTER(__cudaRegisterVar)
REGISTER(__cudaRegisterHostVar)
REGISTER(__cudaRegisterUnifiedTable)

STANDIN_EXPORT void __cudaRegisterManagedVar(void **handle, void **variable, char *device_address,
                                             const char *name, int is_external, size_t bytes,
                                             int is_constant, int is_global);
/* The host goes through the pointer at once, so there must be memory; what the program gave it as
 * its first value is in the image that only a GPU loads. Nobody frees such a variable. */
void __cudaRegisterManagedVar(void **handle, void **variable, char *device_address,
                              const char *name, int is_external, size_t bytes, int is_constant,
                              int is_global) {
    (void)handle, (void)device_address, (void)is_external, (void)is_constant, (void)is_global;
    void *memory = calloc(1, bytes);
    if (!memory)
        return;
    *variable = memory;
    acre_standin_say_once(
        name, "the __managed__ variable %s is host memory here and begins with zeros", name);
}

/* ---- channels ---- */

/* How the elements of an array are made up. Arrays need a GPU, but this is arithmetic, and the one
 * function here that returns a struct: refusing it would leave the caller's uninitialised. */
struct others_channel {
    int x, y, z, w;
    int kind;
};

STANDIN_EXPORT struct others_channel cudaCreateChannelDesc(int x, int y, int z, int w, int kind);
struct others_channel cudaCreateChannelDesc(int x, int y, int z, int w, int kind) {
    return (struct others_channel){x, y, z, w, kind};
}

/* ---- the driver's functions ---- */

/* A name that is not found is no error: the function is NULL, and `found` says why. */
cudaError_t
acre__runtime_cudaGetDriverEntryPointByVersion(const char *symbol, void **function,
                                               unsigned int version, unsigned long long flags,
                                               enum cudaDriverEntryPointQueryResult *found) {
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    void *entry = NULL;
    if (!symbol || !function)
        return cudaErrorInvalidValue;
    if (flags == cudaEnableDefault && acre__runtime_thread()->is_ptds)
        flags = cudaEnablePerThreadDefaultStream;
    CUresult result = cuGetProcAddress_v2(symbol, &entry, (int)version, flags, &status);
    if (result && result != CUDA_ERROR_NOT_FOUND)
        return acre__runtime_error(result);
    *function = entry;
    if (found)
        *found = (enum cudaDriverEntryPointQueryResult)status;
    return cudaSuccess;
}

cudaError_t acre__runtime_cudaGetDriverEntryPoint(const char *symbol, void **function,
                                                  unsigned long long flags,
                                                  enum cudaDriverEntryPointQueryResult *found) {
    return acre__runtime_cudaGetDriverEntryPointByVersion(symbol, function, CUDART_VERSION, flags,
                                                          found);
}
/* NOLINTEND(bugprone-reserved-identifier) */
