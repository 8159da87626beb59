/* Devices of threads and their contexts.
 *
 * A thread's calls go to the context that is current on it, whoever created that context. If none
 * is current, the primary context of the thread's device becomes current and is created if needed.
 * The runtime does this in the first call that needs a context. It keeps one reference to each
 * primary context that it created, also after cudaDeviceReset.
 *
 * A reset destroys a primary context under every thread on which it is current. The next call of
 * such a thread finds the context inactive and creates it again.
 *
 * Locks: one mutex around creating and resetting primary contexts. The handles are also read
 * without the mutex, to recognise a current context as primary. A handle is written once, because
 * the driver returns the same one for a device every time. */
#include <pthread.h>
#include <stdatomic.h>

#include "runtime_state.h"

enum { CONTEXT_DEVICES = 64 };

static struct {
    pthread_mutex_t lock;
    _Atomic int is_started;
    _Atomic int first_device; /* for threads that chose none: cudaSetValidDevices */
    _Atomic(CUcontext) primary[CONTEXT_DEVICES]; /* NULL: never created by the runtime */
    int is_retained[CONTEXT_DEVICES];            /* guarded by the lock */
} contexts = {.lock = PTHREAD_MUTEX_INITIALIZER};

cudaError_t acre__runtime_start(void) {
    if (atomic_load_explicit(&contexts.is_started, memory_order_acquire))
        return cudaSuccess;
    CUresult result = cuInit(0);
    if (result == CUDA_SUCCESS)
        atomic_store_explicit(&contexts.is_started, 1, memory_order_release);
    return acre__runtime_error(result);
}

cudaError_t acre__runtime_check_device(int device) {
    int count = 0;
    cudaError_t error = acre__runtime_start();
    if (!error)
        error = acre__runtime_error(cuDeviceGetCount(&count));
    if (!error && (device < 0 || device >= count || device >= CONTEXT_DEVICES))
        error = cudaErrorInvalidDevice;
    return error;
}

/* ---- primary contexts ---- */

static CUresult context_is_active(int device, int *active_out) {
    unsigned flags;
    *active_out = 0;
    return cuDevicePrimaryCtxGetState(device, &flags, active_out);
}

/* The lock is held. The driver still counts the runtime's reference from before a reset. It is
 * released when the context is created again, so that the runtime has only one. */
static CUresult context_retain(int device, CUcontext *ctx_out) {
    int active;
    CUresult result = context_is_active(device, &active);
    *ctx_out = atomic_load_explicit(&contexts.primary[device], memory_order_relaxed);
    if (result || (contexts.is_retained[device] && active))
        return result;
    result = cuDevicePrimaryCtxRetain(ctx_out, device);
    if (result)
        return result;
    if (contexts.is_retained[device])
        (void)cuDevicePrimaryCtxRelease_v2(device);
    contexts.is_retained[device] = 1;
    atomic_store_explicit(&contexts.primary[device], *ctx_out, memory_order_release);
    return CUDA_SUCCESS;
}

cudaError_t acre__runtime_primary(int device, CUcontext *ctx_out) {
    cudaError_t error = acre__runtime_check_device(device);
    if (error)
        return error;
    pthread_mutex_lock(&contexts.lock);
    CUresult result = context_retain(device, ctx_out);
    pthread_mutex_unlock(&contexts.lock);
    return acre__runtime_error(result);
}

static cudaError_t context_attach(int device) {
    CUcontext ctx;
    cudaError_t error = acre__runtime_primary(device, &ctx);
    return error ? error : acre__runtime_error(cuCtxSetCurrent(ctx));
}

/* Returns the device whose primary context this is; -1 for any other context. */
static int context_device(CUcontext ctx) {
    for (int i = 0; i < CONTEXT_DEVICES; i++) {
        if (atomic_load_explicit(&contexts.primary[i], memory_order_acquire) == ctx)
            return i;
    }
    return -1;
}

/* ---- the thread ---- */

static int context_chosen(void) {
    const struct runtime_thread *thread = acre__runtime_thread();
    return thread->has_device ? thread->device
                              : atomic_load_explicit(&contexts.first_device, memory_order_relaxed);
}

cudaError_t acre__runtime_context(void) {
    CUcontext ctx = NULL;
    int active = 1;
    cudaError_t error = acre__runtime_start();
    if (!error)
        error = acre__runtime_error(cuCtxGetCurrent(&ctx));
    if (error)
        return error;
    if (!ctx)
        return context_attach(context_chosen());
    int device = context_device(ctx);
    if (device >= 0)
        error = acre__runtime_error(context_is_active(device, &active));
    if (error || active)
        return error;
    return context_attach(device);
}

cudaError_t acre__runtime_device(int *device_out) {
    CUcontext ctx = NULL;
    cudaError_t error = acre__runtime_start();
    if (!error)
        error = acre__runtime_error(cuCtxGetCurrent(&ctx));
    if (error)
        return error;
    int device = ctx ? context_device(ctx) : context_chosen();
    if (device < 0)
        return acre__runtime_error(cuCtxGetDevice(device_out));
    *device_out = device;
    return cudaSuccess;
}

/* ---- calls ---- */

cudaError_t acre__runtime_cudaGetDevice(int *device) {
    return device ? acre__runtime_device(device) : cudaErrorInvalidValue;
}

cudaError_t acre__runtime_cudaSetDevice(int device) {
    cudaError_t error = context_attach(device);
    if (error)
        return error;
    acre__runtime_thread()->device = device;
    acre__runtime_thread()->has_device = 1;
    return cudaSuccess;
}

cudaError_t acre__runtime_cudaSetValidDevices(int *devices, int count) {
    int known = 0;
    cudaError_t error = acre__runtime_start();
    if (!error)
        error = acre__runtime_error(cuDeviceGetCount(&known));
    if (error)
        return error;
    if (count < 0 || count > known || (count > 0 && !devices))
        return cudaErrorInvalidValue;
    for (int i = 0; i < count; i++) {
        if (devices[i] < 0 || devices[i] >= known)
            return cudaErrorInvalidDevice;
    }
    /* All soft devices are usable, so the first one of the list is always chosen. */
    atomic_store_explicit(&contexts.first_device, count > 0 ? devices[0] : 0, memory_order_relaxed);
    return cudaSuccess;
}

/* Flags may contain at most one way to wait, and the few other flags that the runtime knows. */
static int context_flags_are_valid(unsigned flags) {
    unsigned wait = flags & cudaDeviceScheduleMask;
    const unsigned known = cudaDeviceScheduleMask | cudaDeviceMapHost | cudaDeviceLmemResizeToMax |
                           cudaDeviceSyncMemops;
    return (flags & ~known) == 0 && (wait & (wait - 1)) == 0;
}

/* Mapped memory is always supported, so cudaDeviceMapHost is accepted and not passed on. */
static cudaError_t context_set_flags(int device, unsigned flags) {
    if (!context_flags_are_valid(flags))
        return cudaErrorInvalidValue;
    return acre__runtime_error(
        cuDevicePrimaryCtxSetFlags_v2(device, flags & ~(unsigned)cudaDeviceMapHost));
}

cudaError_t acre__runtime_cudaInitDevice(int device, unsigned int device_flags,
                                         unsigned int flags) {
    CUcontext ctx;
    cudaError_t error = acre__runtime_check_device(device);
    /* Without cudaInitDeviceFlagsAreValid the device flags are ignored. */
    if (!error && (flags & cudaInitDeviceFlagsAreValid))
        error = context_set_flags(device, device_flags);
    return error ? error : acre__runtime_primary(device, &ctx);
}

cudaError_t acre__runtime_cudaSetDeviceFlags(unsigned int flags) {
    int device;
    cudaError_t error = acre__runtime_device(&device);
    if (!error)
        error = context_set_flags(device, flags);
    return error ? error : acre__runtime_context();
}

cudaError_t acre__runtime_cudaGetDeviceFlags(unsigned int *flags) {
    CUcontext ctx = NULL;
    unsigned found = 0;
    int active;
    if (!flags)
        return cudaErrorInvalidValue;
    cudaError_t error = acre__runtime_start();
    if (!error)
        error = acre__runtime_error(cuCtxGetCurrent(&ctx));
    if (!error && ctx && context_device(ctx) < 0)
        error = acre__runtime_error(cuCtxGetFlags(&found));
    else if (!error)
        error = acre__runtime_error(cuDevicePrimaryCtxGetState(
            ctx ? context_device(ctx) : context_chosen(), &found, &active));
    if (!error)
        *flags = found | cudaDeviceMapHost;
    return error;
}

cudaError_t acre__runtime_cudaDeviceSynchronize(void) {
    cudaError_t error = acre__runtime_context();
    return error ? error : acre__runtime_error(cuCtxSynchronize());
}

cudaError_t acre__runtime_cudaDeviceReset(void) {
    int device;
    cudaError_t error = acre__runtime_device(&device);
    if (error)
        return error;
    pthread_mutex_lock(&contexts.lock);
    CUresult result = cuDevicePrimaryCtxReset_v2(device);
    pthread_mutex_unlock(&contexts.lock);
    return acre__runtime_error(result);
}
