/* What the files of libcudart.so.13 share: the calls behind its doors, the thread's state, devices
 * and their primary contexts, and the way from the driver's codes to the runtime's.
 *
 * The runtime is a layer over libcuda.so.1 and calls nothing but its exported functions. It adds
 * what the real one adds: a current device for each thread, a primary context made by the first
 * call that needs one, the last error of each thread, directions of copies. All memory, streams and
 * events are the driver's, and so is every check of them.
 *
 * A call of the list has two parts. Its door (runtime_doors.c), exported, notes who called and
 * keeps the error; what it does is acre__runtime_<name> in the file of its subject. */
#ifndef ACRE_STANDIN_RUNTIME_STATE_H
#define ACRE_STANDIN_RUNTIME_STATE_H

#include <stddef.h>
#include <stdint.h>

#include "caller.h"
#include "driver_forms.h"

/* The one declaration of the runtime's types and calls is the header that programs include; that of
 * the driver's is driver_forms.h. The only type that both declare is the uuid. */
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

/* The runtime's code for the driver's: the same number, but for what only the driver has. */
cudaError_t acre__runtime_error(CUresult result);

/* ---- the thread (runtime_doors.c) ------------------------------------------------------------ */

struct runtime_thread {
    cudaError_t last_error;
    int device;     /* that cudaSetDevice chose; counts while no context is current */
    int has_device; /* it did choose one */
    int is_ptds;    /* the call under way has a suffix: NULL is the thread's own stream */
};

struct runtime_thread *acre__runtime_thread(void);

/* What a door keeps while its call is under way. */
struct runtime_call {
    struct acre_standin_caller before;
    int was_ptds;
};

/* A door begins: the call's name, and where the program called it from. */
void acre__runtime_enter(struct runtime_call *call, const char *name, const void *address,
                         int is_ptds);

/* It ends: the error is returned, and kept for cudaGetLastError unless it is cudaErrorNotReady. */
cudaError_t acre__runtime_leave(const struct runtime_call *call, cudaError_t error);

/* The stream as the driver is to get it. */
static inline CUstream runtime_stream(cudaStream_t stream) {
    return stream == NULL && acre__runtime_thread()->is_ptds ? CU_STREAM_PER_THREAD : stream;
}

/* ---- devices and contexts (runtime_context.c) ------------------------------------------------ */

/* The driver is started: enough for questions about devices. */
cudaError_t acre__runtime_start(void);

/* A context is current: the thread's, or else the primary one of its device, made now if it is not
 * there. What nearly every call begins with. */
cudaError_t acre__runtime_context(void);

/* The primary context of a device, made if it is not there; it does not become current. */
cudaError_t acre__runtime_primary(int device, CUcontext *ctx_out);

/* The device that calls of this thread go to. */
cudaError_t acre__runtime_device(int *device_out);

/* Whether there is a device of that number: cudaErrorInvalidDevice if not. */
cudaError_t acre__runtime_check_device(int device);

/* ---- the calls ------------------------------------------------------------------------------- */

#define RUNTIME_CALL(name, form, params, args) cudaError_t acre__runtime_##name params;
ACRE__RUNTIME_LIST(RUNTIME_CALL)
#undef RUNTIME_CALL

#endif
