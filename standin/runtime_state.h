/* Shared by the files of libcudart.so.13: the calls behind its doors, the thread's state, devices
 * and their primary contexts, and the conversion of driver codes to runtime codes.
 *
 * The runtime is a layer over libcuda.so.1 and calls only its exported functions. It adds what the
 * real runtime adds: a current device per thread, a primary context that the first call creates,
 * the last error of each thread, and directions of copies. Memory, streams and events belong to the
 * driver, which also checks them.
 *
 * A call of the list has two parts. Its exported door (runtime_doors.c) records the caller and
 * keeps the error. Its implementation is acre__runtime_<name> in the file of its subject. */
#ifndef ACRE_STANDIN_RUNTIME_STATE_H
#define ACRE_STANDIN_RUNTIME_STATE_H

#include <stddef.h>
#include <stdint.h>

#include "caller.h"
#include "driver_forms.h"

/* Programs include the header that declares the runtime's types and calls; driver_forms.h declares
 * the driver's. The uuid is the only type that both declare. */
#define CU_UUID_HAS_BEEN_DEFINED
#pragma GCC visibility push(default)
#include "soft/cuda_runtime_api.h"
#pragma GCC visibility pop

#include "runtime_list.h"

static inline CUdeviceptr runtime_address(const void *ptr) {
    return (CUdeviceptr)(uintptr_t)ptr;
}

static inline void *runtime_pointer(CUdeviceptr address) {
    return (void *)(uintptr_t)address;
}

/* ---- errors (runtime_error.c) ---------------------------------------------------------------- */

/* Converts a driver code to a runtime code: the same number, or cudaErrorUnknown for a code that
 * only the driver has. */
cudaError_t acre__runtime_error(CUresult result);

/* ---- the thread (runtime_doors.c) ------------------------------------------------------------ */

struct runtime_thread {
    cudaError_t last_error;
    int device;     /* set by cudaSetDevice; used while no context is current */
    int has_device; /* cudaSetDevice was called */
    int is_ptds;    /* the current call has a suffix: NULL is the thread's own stream */
};

struct runtime_thread *acre__runtime_thread(void);

/* State that a door restores when its call ends. */
struct runtime_call {
    struct acre_ledger_caller before;
    int was_ptds;
};

/* Begins a door with the call's name and its return address in the program. */
void acre__runtime_enter(struct runtime_call *call, const char *name, const void *address,
                         int is_ptds);

/* Ends a door and returns the error. Keeps it for cudaGetLastError unless it is
 * cudaErrorNotReady. */
cudaError_t acre__runtime_leave(const struct runtime_call *call, cudaError_t error);

/* Converts a stream for the driver. */
static inline CUstream runtime_stream(cudaStream_t stream) {
    return stream == NULL && acre__runtime_thread()->is_ptds ? CU_STREAM_PER_THREAD : stream;
}

/* ---- devices and contexts (runtime_context.c) ------------------------------------------------ */

/* Initialises the driver, which suffices for queries of devices. */
cudaError_t acre__runtime_start(void);

/* Ensures that a context is current: the thread's, or else the primary context of its device, which
 * is created if needed. Nearly every call begins with this. */
cudaError_t acre__runtime_context(void);

/* Returns the primary context of a device and creates it if needed. Does not make it current. */
cudaError_t acre__runtime_primary(int device, CUcontext *ctx_out);

/* Returns the device that calls of this thread use. */
cudaError_t acre__runtime_device(int *device_out);

/* Returns cudaErrorInvalidDevice if there is no device with that number. */
cudaError_t acre__runtime_check_device(int device);

/* ---- the calls ------------------------------------------------------------------------------- */

#define RUNTIME_CALL(name, form, params, args) cudaError_t acre__runtime_##name params;
ACRE__RUNTIME_LIST(RUNTIME_CALL)
#undef RUNTIME_CALL

#endif
