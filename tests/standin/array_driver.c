/* A very small libcuda.so.1 with what the stand-in lacks: arrays, whose handles are used again at
 * once, and memory of graphs. For array_cases.c, under `acre run --watch --limit`. Nothing has
 * memory; only the shim's accounting is tested. */
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define DRIVER __attribute__((visibility("default")))
typedef unsigned long long address_t;

enum { NO_CONTEXT = 201, RELAXED = 2, KEPT = 64 };

/* For the test. */
DRIVER _Atomic int driver_unrelaxed_queries; /* of pools, in a mode that breaks captures */
DRIVER _Atomic int driver_primary_contexts;  /* created */

static _Thread_local void *current;
static _Thread_local int mode;
static char contexts[2], pool; /* contexts: the primary one, and another */
static _Atomic int primary_users;
static _Atomic address_t next_address = 1 << 28;
static _Atomic uint64_t graph_bytes, pool_bytes;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *kept[KEPT];
static int kept_count;

/* clang-format off */
#define CALL(name, params, body) DRIVER int name params; int name params { body }
#pragma GCC diagnostic ignored "-Wunused-parameter"

CALL(cuInit, (unsigned flags), return 0;)
CALL(cuDriverGetVersion, (int *version), *version = 13000; return 0;)
CALL(cuDeviceGetCount, (int *count), *count = 1; return 0;)
CALL(cuDeviceGet, (int *dev, int ordinal), *dev = ordinal; return 0;)
CALL(cuDeviceTotalMem_v2, (size_t *bytes, int dev), *bytes = (size_t)8 << 30; return 0;)
CALL(cuCtxGetCurrent, (void **ctx), *ctx = current; return 0;)
CALL(cuCtxSetCurrent, (void *ctx), current = ctx; return 0;)
CALL(cuCtxGetDevice, (int *dev), *dev = 0; return current ? 0 : NO_CONTEXT;)
CALL(cuCtxCreate_v2, (void **ctx, unsigned flags, int dev), *ctx = current = &contexts[1]; return 0;)
CALL(cuCtxDestroy_v2, (void *ctx), current = current == ctx ? NULL : current; return 0;)
CALL(cuDevicePrimaryCtxRetain, (void **ctx, int dev),
     driver_primary_contexts += primary_users++ == 0; *ctx = &contexts[0]; return 0;)
CALL(cuDevicePrimaryCtxRelease_v2, (int dev), primary_users--; return 0;)
CALL(cuDevicePrimaryCtxGetState, (int dev, unsigned *flags, int *is_active),
     *flags = 0; *is_active = primary_users > 0; return 0;)
CALL(cuMemAlloc_v2, (address_t *p, size_t bytes),
     if (!current) return NO_CONTEXT;
     *p = atomic_fetch_add(&next_address, (bytes + 511) / 512 * 512); return 0;)
CALL(cuMemFree_v2, (address_t p), return 0;)
CALL(cuMemGetInfo_v2, (size_t *free_out, size_t *total), *free_out = *total = (size_t)8 << 30; return 0;)
CALL(cuPointerGetAttribute, (void *value, int attribute, address_t p), *(uint64_t *)value = 1; return 0;)
CALL(cuThreadExchangeStreamCaptureMode, (int *other), int before = mode; mode = *other; *other = before; return 0;)
CALL(cuStreamIsCapturing, (void *stream, int *status), *status = 0; return 0;)
CALL(cuStreamGetDevice, (void *stream, int *dev), *dev = 0; return 0;)
CALL(cuDeviceGetMemPool, (void **out, int dev), *out = &pool; return 0;)
CALL(cuMemPoolGetAttribute, (void *which, int attribute, void *value),
     driver_unrelaxed_queries += mode != RELAXED; *(uint64_t *)value = pool_bytes; return 0;)
CALL(cuMemPoolTrimTo, (void *which, size_t bytes), return 0;)
CALL(cuMemAllocAsync, (address_t *p, size_t bytes, void *stream),
     pool_bytes = 32 << 20; *p = atomic_fetch_add(&next_address, bytes); return 0;)
CALL(cuMemFreeAsync, (address_t p, void *stream), return 0;)
CALL(cuGraphLaunch, (void *exec, void *stream), graph_bytes = (uintptr_t)exec; return 0;)
CALL(cuDeviceGetGraphMemAttribute, (int dev, int attribute, void *value), *(uint64_t *)value = graph_bytes; return 0;)
CALL(cuDeviceGraphMemTrim, (int dev), graph_bytes = 0; return 0;)
/* clang-format on */

DRIVER int cuArrayCreate_v2(void **handle, const void *descriptor);
int cuArrayCreate_v2(void **handle, const void *descriptor) {
    (void)descriptor;
    if (!current)
        return NO_CONTEXT;
    pthread_mutex_lock(&lock);
    *handle = kept_count ? kept[--kept_count] : malloc(64);
    pthread_mutex_unlock(&lock);
    return 0;
}

DRIVER int cuArrayDestroy(void *handle);
int cuArrayDestroy(void *handle) {
    pthread_mutex_lock(&lock);
    if (kept_count < KEPT)
        kept[kept_count++] = handle;
    pthread_mutex_unlock(&lock);
    return 0;
}
