/* Unsupported parts of libcudart.so.13, so that programs start and get a message: calls outside the
 * list, and kernels. Also the lookup of driver functions.
 *
 * nvcc adds calls to a program that register its kernels and variables before main. It turns a
 * launch into three calls: push the configuration, pop it, launch. The first two work, because the
 * program must reach the third, which prints that kernels need a GPU.
 *
 * Locks: none; the configurations are thread-local. */
/* Compilers generate calls of the names with two underscores.
 * NOLINTBEGIN(bugprone-reserved-identifier) */
#include <stdlib.h>
#include <string.h>

#include "runtime_state.h"

#include "runtime_others.h"

/* ---- calls outside the list ---- */

/* Callers pass the arguments of the real function, which are not read. */
#define OTHER(name)                                                                                \
    STANDIN_EXPORT cudaError_t name(void);                                                         \
    cudaError_t name(void) {                                                                       \
        return others_refuse(#name, __builtin_return_address(0));                                  \
    }

static cudaError_t others_refuse(const char *name, const void *address) {
    struct runtime_call call;
    acre__runtime_enter(&call, name, address, 0);
    acre_ledger_say_once(name,
                         "%s is unsupported by the soft runtime: it returns "
                         "cudaErrorNotSupported",
                         name);
    return acre__runtime_leave(&call, cudaErrorNotSupported);
}

ACRE__RUNTIME_OTHERS(OTHER)

/* ---- kernels ---- */

static cudaError_t others_refuse_kernel(const char *name, const void *address) {
    struct runtime_call call;
    acre__runtime_enter(&call, name, address, 0);
    acre_ledger_say_once(name,
                         "%s: kernels need a GPU; on the soft device the call returns "
                         "cudaErrorNotSupported",
                         name);
    return acre__runtime_leave(&call, cudaErrorNotSupported);
}

/* For launches with <<<>>> the compiler calls names with leading underscores. */
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

/* Launches nest if an argument of one is computed by a function that launches another. */
enum { OTHERS_LAUNCHES = 16 };
static _Thread_local struct {
    struct others_launch launches[OTHERS_LAUNCHES];
    unsigned count;
} others_pushed __attribute__((tls_model("initial-exec")));

STANDIN_EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                                    void *stream);
/* Returns nonzero if the program must skip the launch. */
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

/* A kernel is identified by its host function. The handle has no other use. */
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

/* These functions take a handle and an object to register, and return nothing. */
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
/* The host dereferences the pointer without a call, so there must be memory. The variable's initial
 * value is in the image, which only a GPU loads. The memory is never freed. */
void __cudaRegisterManagedVar(void **handle, void **variable, char *device_address,
                              const char *name, int is_external, size_t bytes, int is_constant,
                              int is_global) {
    (void)handle, (void)device_address, (void)is_external, (void)is_constant, (void)is_global;
    void *memory = calloc(1, bytes);
    if (!memory)
        return;
    *variable = memory;
    acre_ledger_say_once(
        name, "the __managed__ variable %s is zeroed host memory on the soft device", name);
}

/* ---- channels ---- */

/* Describes the elements of an array. Arrays need a GPU, but this function only fills in a struct.
 * It is the only one here that returns a struct: refusing it would leave the caller's
 * uninitialised. */
struct others_channel {
    int x, y, z, w;
    int kind;
};

STANDIN_EXPORT struct others_channel cudaCreateChannelDesc(int x, int y, int z, int w, int kind);
struct others_channel cudaCreateChannelDesc(int x, int y, int z, int w, int kind) {
    return (struct others_channel){x, y, z, w, kind};
}

/* ---- the driver's functions ---- */

/* An unknown name is not an error: the function is NULL, and `found` says why. */
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
