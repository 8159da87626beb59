/* Devices, allocation and frees; see shim_serve.h.
 *
 * Locks: `use` is held for reading during every call that uses a pool, and for writing while a
 * device is closed, since its context is gone. `lock` is held while a device is opened; it comes
 * after `use`. `hold` comes before `use`. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/inside.h"
#include "base/run.h"
#include "ledger.h"
#include "shim_limit.h"
#include "shim_pause.h"
#include "shim_serve.h"

enum { SERVE_DEVICES = 64, SERVE_ALIGNMENT = 512 };
static const size_t SERVE_IPC_BYTES = (size_t)2 << 20;

struct serve_state acre__serve;

static struct {
    pthread_rwlock_t use;
    pthread_mutex_t hold, lock;
    struct serve_device devices[SERVE_DEVICES];
    struct acre__driver acre;                                        /* the table that acre uses */
} serve = {.use = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP, /* it must get its turn */
           .hold = PTHREAD_MUTEX_INITIALIZER,
           .lock = PTHREAD_MUTEX_INITIALIZER};

void acre__serve_hold(void) {
    pthread_mutex_lock(&serve.hold);
}

void acre__serve_release(void) {
    pthread_mutex_unlock(&serve.hold);
}

void acre__serve_enter(void) {
    pthread_rwlock_rdlock(&serve.use);
}

int acre__serve_try(void) {
    return pthread_rwlock_tryrdlock(&serve.use) == 0;
}

void acre__serve_leave(void) {
    pthread_rwlock_unlock(&serve.use);
}

/* Set while a thread closes a device whose context is gone: the driver may crash on handles of
 * streams and events that were destroyed with it. */
static _Thread_local int serve_is_gone;

/* ---- the table that acre uses ---- */

/* No reference is kept: the program's own keep the context, and its last release destroys it. */
static CUresult own_retain(CUcontext *ctx_out, CUdevice dev) {
    CUresult result = acre__serve.inner->cuDevicePrimaryCtxRetain(ctx_out, dev);
    if (!result)
        result = acre__serve.inner->cuDevicePrimaryCtxRelease(dev);
    return result;
}

static CUresult own_release(CUdevice dev) {
    (void)dev;
    return CUDA_SUCCESS;
}

static CUresult own_reserve(CUdeviceptr *ptr_out, size_t bytes, size_t alignment, CUdeviceptr hint,
                            unsigned long long flags) {
    CUresult result =
        acre__serve.inner->cuMemAddressReserve(ptr_out, bytes, alignment, hint, flags);
    if (!result)
        acre__blocks_reserve(*ptr_out, bytes);
    return result;
}

static CUresult own_unreserve(CUdeviceptr ptr, size_t bytes) {
    size_t known = acre__blocks_unreserve(ptr);
    CUresult result = acre__serve.inner->cuMemAddressFree(ptr, bytes);
    if (result && known)
        acre__blocks_reserve(ptr, known);
    return result;
}

/* Without virtual memory management, acre's chunks are the driver's plain memory. */
static CUresult own_alloc(CUdeviceptr *ptr_out, size_t bytes) {
    CUresult result = acre__serve.inner->cuMemAlloc(ptr_out, bytes);
    if (!result)
        acre__blocks_reserve(*ptr_out, bytes);
    return result;
}

static CUresult own_free(CUdeviceptr ptr) { /* such memory goes with its context */
    size_t known = acre__blocks_unreserve(ptr);
    CUresult result = serve_is_gone ? CUDA_SUCCESS : acre__serve.inner->cuMemFree(ptr);
    if (result && known)
        acre__blocks_reserve(ptr, known);
    return result;
}

/* Other PCI devices can access the driver's plain memory, where they can access any, and other
 * processes can open it. Chunks get the same, as far as the driver permits. */
static CUresult own_create(CUmemGenericAllocationHandle *handle_out, size_t bytes,
                           const CUmemAllocationProp *prop, unsigned long long flags) {
    CUmemAllocationProp wanted = *prop;
    int has_rdma = access("/dev/dxg", F_OK) != 0; /* with it, WSL2 refuses to map the chunk */
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    acre__limit_is_acres = 1;
    if (prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
        wanted.requestedHandleTypes |= CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        wanted.allocFlags.gpuDirectRDMACapable = has_rdma ? 1 : 0;
        result = acre__serve.inner->cuMemCreate(handle_out, bytes, &wanted, flags);
        wanted.allocFlags.gpuDirectRDMACapable = 0;
        if (result && result != CUDA_ERROR_OUT_OF_MEMORY && has_rdma)
            result = acre__serve.inner->cuMemCreate(handle_out, bytes, &wanted, flags);
    }
    if (result && result != CUDA_ERROR_OUT_OF_MEMORY)
        result = acre__serve.inner->cuMemCreate(handle_out, bytes, prop, flags);
    acre__limit_is_acres = 0;
    return result;
}

/* Calls on streams, events and the context itself, which fail once it is gone. */
#define OWN_GONE(name, params, args)                                                               \
    static CUresult own_##name params {                                                            \
        return serve_is_gone ? CUDA_ERROR_CONTEXT_IS_DESTROYED : acre__serve.inner->name args;     \
    }
OWN_GONE(cuStreamDestroy, (CUstream stream), (stream))
OWN_GONE(cuStreamSynchronize, (CUstream stream), (stream))
OWN_GONE(cuStreamQuery, (CUstream stream), (stream))
OWN_GONE(cuEventDestroy, (CUevent event), (event))
OWN_GONE(cuEventSynchronize, (CUevent event), (event))
OWN_GONE(cuEventQuery, (CUevent event), (event))
OWN_GONE(cuEventRecord, (CUevent event, CUstream stream), (event, stream))
OWN_GONE(cuCtxSynchronize, (void), ())

static void serve_make_own(void) {
    serve.acre = *acre__serve.inner;
    serve.acre.cuDevicePrimaryCtxRetain = own_retain;
    serve.acre.cuDevicePrimaryCtxRelease = own_release;
    serve.acre.cuMemAddressReserve = own_reserve;
    serve.acre.cuMemAddressFree = own_unreserve;
    serve.acre.cuMemAlloc = own_alloc;
    serve.acre.cuMemFree = own_free;
    serve.acre.cuMemCreate = own_create;
    serve.acre.cuMemSetAccess = acre__peers_set_access;
    serve.acre.cuMemUnmap = acre__peers_unmap;
    serve.acre.cuStreamDestroy = own_cuStreamDestroy;
    serve.acre.cuStreamSynchronize = own_cuStreamSynchronize;
    serve.acre.cuStreamQuery = own_cuStreamQuery;
    serve.acre.cuEventDestroy = own_cuEventDestroy;
    serve.acre.cuEventSynchronize = own_cuEventSynchronize;
    serve.acre.cuEventQuery = own_cuEventQuery;
    serve.acre.cuEventRecord = own_cuEventRecord;
    serve.acre.cuCtxSynchronize = own_cuCtxSynchronize;
}

/* ---- devices ---- */

/* Finds the device whose primary context this is. Returns 0 for another context. */
static int serve_find_primary(CUcontext ctx, CUdevice *dev_out) {
    const struct acre__driver *drv = acre__serve.inner;
    unsigned int flags;
    int is_active = 0;
    CUcontext primary = NULL;
    return !drv->cuCtxGetDevice(dev_out) && *dev_out >= 0 && *dev_out < SERVE_DEVICES &&
           !drv->cuDevicePrimaryCtxGetState(*dev_out, &flags, &is_active) && is_active &&
           !own_retain(&primary, *dev_out) && primary == ctx;
}

static int serve_make(struct serve_device *device, CUdevice dev) {
    acre_pool_options options = {.struct_size = sizeof options,
                                 .flags = acre__serve.options.zeroes ? ACRE_POOL_ZERO : 0};
    char name[32];
    snprintf(name, sizeof name, "cuda:%d", (int)dev);
    if (acre_open(name, NULL, &device->device))
        return 0;
    if (acre_stream_create(device->device, ACRE_STREAM_NON_BLOCKING | ACRE_STREAM_NO_CAPTURE,
                           &device->stream) ||
        acre_pool_create(device->device, &options, &device->pool)) {
        (void)acre_close(device->device);
        return 0;
    }
    if (acre__serve.inner->cuEventCreate(&device->event, CU_EVENT_DISABLE_TIMING))
        device->event = NULL;
    device->dev = dev;
    return 1;
}

static void serve_start_thread(void);

/* Opens the device of a context that becomes current for the first time. */
static struct serve_device *serve_open(CUcontext ctx) {
    CUdevice dev;
    if (!serve_find_primary(ctx, &dev))
        return NULL;
    struct serve_device *device = &serve.devices[dev];
    pthread_mutex_lock(&serve.lock);
    if (!atomic_load(&device->ctx) && serve_make(device, dev))
        atomic_store(&device->ctx, ctx);
    int is_open = atomic_load(&device->ctx) == ctx;
    pthread_mutex_unlock(&serve.lock);
    serve_start_thread();
    return is_open ? device : NULL;
}

struct serve_device *acre__serve_current(void) {
    CUcontext ctx = NULL;
    if (acre__serve.inner->cuCtxGetCurrent(&ctx) || !ctx)
        return NULL;
    for (int i = 0; i < SERVE_DEVICES; i++) {
        if (atomic_load_explicit(&serve.devices[i].ctx, memory_order_acquire) == ctx)
            return &serve.devices[i];
    }
    return serve_open(ctx);
}

CUresult acre__serve_wait(const struct serve_device *device) {
    const struct acre__driver *drv = acre__serve.inner;
    CUcontext ctx = atomic_load(&device->ctx), current = NULL, popped;
    CUresult result = drv->cuCtxGetCurrent(&current);
    if (result || current == ctx)
        return result ? result : drv->cuCtxSynchronize();
    result = drv->cuCtxPushCurrent(ctx);
    if (result)
        return result;
    result = drv->cuCtxSynchronize();
    (void)drv->cuCtxPopCurrent(&popped);
    return result;
}

CUcontext acre__serve_primary(CUdevice dev) {
    unsigned int flags;
    int is_active = 0;
    CUcontext ctx = NULL;
    if (!acre__serve.options.is_on ||
        acre__serve.inner->cuDevicePrimaryCtxGetState(dev, &flags, &is_active) || !is_active ||
        own_retain(&ctx, dev))
        return NULL;
    return ctx;
}

/* The context is gone, and the program's memory with it. What acre has mapped is left: it belongs
 * to no context. */
void acre__serve_context_ended(CUdevice dev, CUcontext ctx, int is_reset) {
    if (!acre__serve.options.is_on || dev < 0 || dev >= SERVE_DEVICES ||
        (!is_reset && acre__serve_primary(dev)))
        return;
    struct serve_device *device = &serve.devices[dev];
    acre__serve_context_gone(ctx);
    pthread_rwlock_wrlock(&serve.use);
    if (atomic_exchange(&device->ctx, NULL)) {
        acre__captures_forget(device);
        acre__blocks_forget(device);
        acre__peers_forget(dev);
        acre__ipc_drop(device);
        serve_is_gone = 1;
        (void)acre_close(device->device);
        serve_is_gone = 0;
    }
    pthread_rwlock_unlock(&serve.use);
}

static CUresult serve_cuDevicePrimaryCtxRelease(CUdevice dev) {
    acre__serve_hold();
    CUcontext ctx = acre__serve_primary(dev);
    CUresult result = acre__serve.inner->cuDevicePrimaryCtxRelease(dev);
    if (!result)
        acre__serve_context_ended(dev, ctx, 0);
    acre__serve_release();
    return result;
}

static CUresult serve_cuDevicePrimaryCtxReset(CUdevice dev) {
    acre__serve_hold();
    CUcontext ctx = acre__serve_primary(dev);
    CUresult result = acre__serve.inner->cuDevicePrimaryCtxReset(dev);
    if (!result)
        acre__serve_context_ended(dev, ctx, 1);
    acre__serve_release();
    return result;
}

/* ---- allocation ---- */

/* Releases idle memory of all devices. Returns 0 if there was none. */
static int serve_trim(void) {
    uint64_t before = 0, after = 0;
    acre__captures_drain(0);
    for (int i = 0; i < SERVE_DEVICES; i++) {
        struct serve_device *device = &serve.devices[i];
        if (!atomic_load_explicit(&device->ctx, memory_order_acquire))
            continue;
        before += acre__query_held(device);
        (void)acre_pool_trim(device->pool, 0);
        (void)acre_trim(device->device);
        after += acre__query_held(device);
    }
    return after < before;
}

/* Returns the error of a context that a kernel has broken; the pool may not notice. */
static CUresult serve_check(const struct serve_device *device) {
    CUstreamCaptureStatus status;
    return acre__serve.inner->cuStreamIsCapturing(device->stream, &status);
}

/* Whether blocks that wait to be freed could make room for a request: cuMemAlloc does not wait for
 * work, unless it must for memory that the driver would have free by now. */
static int serve_may_wait(size_t bytes) {
    size_t free_bytes = 0;
    uint64_t waiting = acre__captures_bytes();
    return waiting && !acre__serve.inner->cuMemGetInfo(&free_bytes, NULL) &&
           bytes <= waiting + free_bytes + acre__query_idle();
}

/* Allocates from the pool. Returns 0 if it cannot. */
static int serve_from_pool(struct serve_device *device, size_t bytes, CUdeviceptr *ptr_out) {
    void *p = NULL;
    acre__captures_drain(0);
    acre_status status = acre_pool_alloc(device->pool, bytes, SERVE_ALIGNMENT, device->stream, &p);
    if (status && serve_may_wait(bytes)) {
        acre__captures_drain(1);
        status = acre_pool_alloc(device->pool, bytes, SERVE_ALIGNMENT, device->stream, &p);
    }
    if (status)
        return 0;
    if ((acre__serve.options.zeroes && acre_stream_sync(device->device, device->stream)) ||
        !acre__blocks_add(device, (CUdeviceptr)(uintptr_t)p, bytes, 0)) {
        (void)acre_pool_free(device->pool, p, device->stream);
        return 0;
    }
    *ptr_out = (CUdeviceptr)(uintptr_t)p;
    return 1;
}

/* Idle memory of other processes under the same limit. */
static int serve_trim_others(void) {
    const struct timespec moment = {.tv_nsec = 20000000};
    if (!acre__limit_is_on())
        return 0;
    acre__limit_press();
    return nanosleep(&moment, NULL) == 0;
}

/* Releases idle memory when the limit has changed, or when another process needs it. */
static void *serve_keep_limit(void *unused) {
    uint32_t seen = 0;
    while (acre__limit_wait(&seen)) {
        acre__serve_enter();
        (void)serve_trim();
        acre__serve_leave();
    }
    return unused;
}

static _Atomic int serve_has_thread;

static void serve_start_thread(void) {
    pthread_t thread;
    sigset_t all, before;
    if (!acre__limit_is_on() || atomic_exchange(&serve_has_thread, 1))
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the program's signals are not for this thread */
    if (pthread_create(&thread, NULL, serve_keep_limit, NULL) == 0)
        pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* The driver's own memory, if need be in place of memory that acre holds idle. */
static CUresult serve_from_driver(size_t bytes, CUdeviceptr *ptr_out) {
    CUresult result = acre__serve.inner->cuMemAlloc(ptr_out, bytes);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && serve_trim())
        result = acre__serve.inner->cuMemAlloc(ptr_out, bytes);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && serve_trim_others())
        result = acre__serve.inner->cuMemAlloc(ptr_out, bytes);
    return result;
}

/* Allocates on a device that is open. */
static CUresult serve_alloc(struct serve_device *device, CUdeviceptr *ptr_out, size_t bytes) {
    CUresult result = acre__captures_any() ? acre__captures_ask(device) : serve_check(device);
    if (result)
        return result;
    if (serve_from_pool(device, bytes, ptr_out))
        return CUDA_SUCCESS;
    return serve_from_driver(bytes, ptr_out);
}

/* Notes that the program gets no memory. */
static CUresult serve_note(CUresult result, size_t bytes) {
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        acre__limit_count_refused(bytes);
    return result;
}

static CUresult serve_cuMemAlloc(CUdeviceptr *ptr_out, size_t bytes) {
    if (!ptr_out || !bytes || (acre__serve.options.ipc_is_real && bytes >= SERVE_IPC_BYTES))
        return acre__serve.inner->cuMemAlloc(ptr_out, bytes);
    struct shim_user *user = acre__user_begin("cuMemAlloc"); /* the pool may be suspended */
    acre__serve_enter();
    struct serve_device *device = acre__serve_current();
    CUresult result = device ? serve_alloc(device, ptr_out, bytes)
                             : acre__serve.inner->cuMemAlloc(ptr_out, bytes);
    acre__serve_leave();
    return acre__user_end(user, serve_note(result, bytes));
}

/* Rows begin at multiples of 512 bytes, as the driver's do. */
static CUresult serve_cuMemAllocPitch(CUdeviceptr *ptr_out, size_t *pitch_out, size_t width_bytes,
                                      size_t rows, unsigned int element_bytes) {
    int is_element = element_bytes == 4 || element_bytes == 8 || element_bytes == 16;
    size_t pitch = (width_bytes + SERVE_ALIGNMENT - 1) / SERVE_ALIGNMENT * SERVE_ALIGNMENT;
    acre__serve_enter();
    int is_served = acre__serve_current() != NULL;
    acre__serve_leave();
    if (!ptr_out || !pitch_out || !is_element || !width_bytes || !rows || pitch < width_bytes ||
        pitch > SIZE_MAX / rows || !is_served)
        return acre__serve.inner->cuMemAllocPitch(ptr_out, pitch_out, width_bytes, rows,
                                                  element_bytes);
    CUresult result = serve_cuMemAlloc(ptr_out, pitch * rows);
    if (!result)
        *pitch_out = pitch;
    return result;
}

/* ---- frees ---- */

static CUresult serve_cuMemFree(CUdeviceptr ptr) {
    acre__serve_enter();
    struct serve_block *block = ptr ? acre__blocks_take(ptr) : NULL;
    CUresult result = block ? acre__captures_free(block) : CUDA_SUCCESS;
    if (result)
        acre__blocks_put_back(block);
    acre__serve_leave();
    if (block)
        return result;
    /* acre's addresses are no blocks of the driver's either */
    return ptr && acre__blocks_owns(ptr) ? CUDA_ERROR_INVALID_VALUE
                                         : acre__serve.inner->cuMemFree(ptr);
}

/* The driver accepts its plain memory here, too. */
/* Returns 1 if the stream is one of the block's own context: the default streams, 0, 1 and 2, are
 * those of the current one. */
static int serve_is_own_stream(const struct serve_device *device, CUstream stream,
                               CUresult *result) {
    CUcontext ctx = NULL;
    int is_default = (uintptr_t)stream <= 2;
    *result = is_default ? acre__serve.inner->cuCtxGetCurrent(&ctx)
                         : acre__serve.inner->cuStreamGetCtx(stream, &ctx);
    if (!*result && !ctx)
        *result = CUDA_ERROR_INVALID_CONTEXT;
    return ctx == atomic_load(&device->ctx);
}

/* Frees a block behind the work of a stream. A capture cannot contain the free of plain memory. */
static CUresult serve_free_behind(struct serve_block *block, CUstream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = CUDA_SUCCESS;
    int is_own = serve_is_own_stream(block->device, stream, &result);
    if (!result)
        result = acre__serve.inner->cuStreamIsCapturing(stream, &status);
    if (!result && status != CU_STREAM_CAPTURE_STATUS_NONE)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && !is_own) {
        result = acre__captures_free(block);
        block = result ? block : NULL;
    } else if (!result &&
               acre_pool_free(block->device->pool, (void *)(uintptr_t)block->node.key, stream)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result)
        acre__blocks_put_back(block);
    else
        free(block);
    return result;
}

static CUresult serve_cuMemFreeAsync(CUdeviceptr ptr, CUstream stream) {
    acre__serve_enter();
    struct serve_block *block = ptr ? acre__blocks_take(ptr) : NULL;
    CUresult result = block ? serve_free_behind(block, stream) : CUDA_SUCCESS;
    acre__serve_leave();
    if (block)
        return result;
    return ptr && acre__blocks_owns(ptr) ? CUDA_ERROR_INVALID_VALUE
                                         : acre__serve.inner->cuMemFreeAsync(ptr, stream);
}

/* ---- other memory ----
 *
 * What acre holds idle must not make calls fail that get memory elsewhere. */

int acre__serve_make_room(int attempt) {
    if (!acre__serve.options.is_on || attempt > 1)
        return 0;
    acre__serve_enter();
    int has_more = attempt == 0 ? serve_trim() : serve_trim_others();
    acre__serve_leave();
    return has_more;
}

#define SERVE_RETRY(name, params, args)                                                            \
    static CUresult retry_##name params {                                                          \
        CUresult result = acre__serve.inner->name args;                                            \
        for (int i = 0; i < 2 && result == CUDA_ERROR_OUT_OF_MEMORY; i++) {                        \
            if (acre__serve_make_room(i))                                                          \
                result = acre__serve.inner->name args;                                             \
        }                                                                                          \
        return result;                                                                             \
    }
/* An allocation also waits while memory is away: it would take the room that the resume needs. */
#define SERVE_ALLOCATION(name, params, args)                                                       \
    SERVE_RETRY(name, params, args)                                                                \
    static CUresult wait_##name params {                                                           \
        struct shim_user *user = acre__user_begin(#name);                                          \
        return acre__user_end(user, serve_note(retry_##name args, bytes));                         \
    }
SERVE_ALLOCATION(cuMemAllocManaged, (CUdeviceptr * ptr_out, size_t bytes, unsigned int flags),
                 (ptr_out, bytes, flags))
SERVE_ALLOCATION(cuMemAllocAsync, (CUdeviceptr * ptr_out, size_t bytes, CUstream stream),
                 (ptr_out, bytes, stream))
SERVE_ALLOCATION(cuMemAllocFromPoolAsync,
                 (CUdeviceptr * ptr_out, size_t bytes, CUmemoryPool pool, CUstream stream),
                 (ptr_out, bytes, pool, stream))
SERVE_ALLOCATION(cuMemCreate,
                 (CUmemGenericAllocationHandle * handle_out, size_t bytes,
                  const CUmemAllocationProp *prop, unsigned long long flags),
                 (handle_out, bytes, prop, flags))
SERVE_RETRY(cuModuleLoadData, (CUmodule * module_out, const void *image), (module_out, image))
SERVE_RETRY(cuModuleLoadDataEx,
            (CUmodule * module_out, const void *image, unsigned int count, CUjit_option *options,
             void **values),
            (module_out, image, count, options, values))
SERVE_RETRY(cuGraphInstantiateWithFlags,
            (CUgraphExec * exec_out, CUgraph graph, unsigned long long flags),
            (exec_out, graph, flags))

static void serve_wrap_retries(struct acre__driver *table) {
    table->cuMemAllocManaged = wait_cuMemAllocManaged;
    table->cuMemAllocAsync = wait_cuMemAllocAsync;
    table->cuMemAllocFromPoolAsync = wait_cuMemAllocFromPoolAsync;
    table->cuMemCreate = wait_cuMemCreate;
    table->cuModuleLoadData = retry_cuModuleLoadData;
    table->cuModuleLoadDataEx = retry_cuModuleLoadDataEx;
    table->cuGraphInstantiateWithFlags = retry_cuGraphInstantiateWithFlags;
}

/* ---- start ---- */

/* Registering for membarrier takes milliseconds once the driver has started its threads. */
__attribute__((constructor)) static void serve_begin(void) {
    if (acre__ledger_word("serve"))
        acre__inside_init();
}

void acre__serve_forget(void) {
    if (!acre__serve.options.is_on)
        return;
    serve.use = (pthread_rwlock_t)PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
    pthread_mutex_init(&serve.hold, NULL);
    pthread_mutex_init(&serve.lock, NULL);
    atomic_store(&serve_has_thread, 0);
    for (int i = 0; i < SERVE_DEVICES; i++)
        atomic_store(&serve.devices[i].ctx, NULL);
    acre__blocks_forget(NULL);
    acre__captures_forget(NULL);
    acre__ipc_forget();
    acre__users_forget();
    acre__peers_forget(-1);
}

void acre__serve_wrap(struct acre__driver *table, const struct acre__driver *inner,
                      const struct serve_options *options) {
    acre__serve = (struct serve_state){inner, *options};
    serve_make_own();
    acre__driver_cuda_use(&serve.acre);
    acre__run_never();
    acre__users_set();
    table->cuMemAlloc = serve_cuMemAlloc;
    table->cuMemAllocPitch = serve_cuMemAllocPitch;
    table->cuMemFree = serve_cuMemFree;
    table->cuMemFreeAsync = serve_cuMemFreeAsync;
    table->cuDevicePrimaryCtxRelease = serve_cuDevicePrimaryCtxRelease;
    table->cuDevicePrimaryCtxReset = serve_cuDevicePrimaryCtxReset;
    serve_wrap_retries(table);
    acre__query_wrap(table);
    acre__captures_wrap(table);
    acre__ipc_wrap(table);
    acre__peers_wrap(table);
}
