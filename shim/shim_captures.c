/* Captures, and blocks that wait to be freed; see shim_serve.h.
 *
 * The driver refuses cuMemAlloc and cuMemFree during some captures and invalidates these, depending
 * on their mode and on the thread's. While something is captured, a real call with a small block of
 * the driver's finds out, and acre does nothing that could invalidate a capture: blocks that are
 * freed meanwhile wait until no stream is captured.
 *
 * With deferred frees blocks wait in batches, each behind an event that covers all work of its
 * context.
 *
 * Locks: `gate` is held for reading while a thread waits for a device or records an event, and for
 * writing while a capture begins: neither may happen during the other. `lock` protects the lists
 * and is not held during driver calls, `drain` lets one thread drain the lists. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "shim_serve.h"

enum {
    CAPTURES_MOST = 256, /* streams that are captured at once; more count as always captured */
    CAPTURES_PROBE_BYTES = 512,
    BATCH_BLOCKS = 16
};
static const size_t BATCH_BYTES = (size_t)32 << 20;

/* Blocks that were freed before an event was recorded. */
struct batch {
    struct serve_device *device;
    CUevent event;
    struct serve_block *first;
    size_t count, bytes;
    struct batch *next;
};

static struct {
    pthread_rwlock_t gate;
    pthread_mutex_t lock, drain;
    _Atomic unsigned capturing; /* streams in `streams`, and those without room */
    CUstream streams[CAPTURES_MOST];
    unsigned stream_count;
    CUdeviceptr probe;          /* memory of the driver's, for acre__captures_try_free; 0: none */
    struct serve_block *parked; /* freed during a capture */
    struct batch *open;         /* without an event yet; one for all devices */
    struct batch *oldest, **end;
    _Atomic int is_waiting; /* some list is not empty */
} captures = {.gate = PTHREAD_RWLOCK_INITIALIZER,
              .lock = PTHREAD_MUTEX_INITIALIZER,
              .drain = PTHREAD_MUTEX_INITIALIZER,
              .end = &captures.oldest};

/* ---- which streams are captured ---- */

int acre__captures_any(void) {
    return atomic_load_explicit(&captures.capturing, memory_order_acquire) != 0;
}

static void captures_add(CUstream stream) {
    pthread_mutex_lock(&captures.lock);
    if (captures.stream_count < CAPTURES_MOST)
        captures.streams[captures.stream_count++] = stream;
    atomic_fetch_add_explicit(&captures.capturing, 1, memory_order_release);
    pthread_mutex_unlock(&captures.lock);
}

static void captures_remove(CUstream stream) {
    pthread_mutex_lock(&captures.lock);
    for (unsigned i = 0; i < captures.stream_count; i++) {
        if (captures.streams[i] == stream) {
            captures.streams[i] = captures.streams[--captures.stream_count];
            atomic_fetch_sub_explicit(&captures.capturing, 1, memory_order_release);
            break;
        }
    }
    pthread_mutex_unlock(&captures.lock);
}

void acre__serve_capturing(CUstream stream) {
    CUdeviceptr probe = 0;
    if (!acre__serve.options.is_on)
        return;
    if (!captures.probe && !acre__captures_any() &&
        !acre__serve.inner->cuMemAlloc(&probe, CAPTURES_PROBE_BYTES))
        captures.probe = probe;
    pthread_rwlock_wrlock(&captures.gate);
    captures_add(stream);
    pthread_rwlock_unlock(&captures.gate);
}

/* After a capture has ended, or has not begun. */
void acre__serve_captured(CUstream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (!acre__serve.options.is_on || !acre__captures_any())
        return;
    if (acre__serve.inner->cuStreamIsCapturing(stream, &status) ||
        status == CU_STREAM_CAPTURE_STATUS_NONE)
        captures_remove(stream);
}

static CUresult captures_begin(CUstream stream, CUstreamCaptureMode mode) {
    acre__serve_capturing(stream);
    CUresult result = acre__serve.inner->cuStreamBeginCapture(stream, mode);
    if (result)
        acre__serve_captured(stream);
    return result;
}

static CUresult captures_end(CUstream stream, CUgraph *graph_out) {
    CUresult result = acre__serve.inner->cuStreamEndCapture(stream, graph_out);
    acre__serve_captured(stream);
    return result;
}

static CUresult captures_destroy(CUstream stream) {
    CUresult result = acre__serve.inner->cuStreamDestroy(stream);
    if (!result && acre__captures_any())
        captures_remove(stream);
    return result;
}

/* ---- what the driver would say ---- */

CUresult acre__captures_try_alloc(void) {
    CUdeviceptr probe;
    CUresult result = acre__serve.inner->cuMemAlloc(&probe, CAPTURES_PROBE_BYTES);
    if (!result)
        (void)acre__serve.inner->cuMemFree(probe);
    return result;
}

CUresult acre__captures_try_free(void) {
    CUdeviceptr probe = captures.probe;
    if (!probe)
        return acre__captures_try_alloc();
    CUresult result = acre__serve.inner->cuMemFree(probe);
    if (!result) {
        captures.probe = 0;
        if (!acre__serve.inner->cuMemAlloc(&probe, CAPTURES_PROBE_BYTES))
            captures.probe = probe;
    }
    return result;
}

/* ---- frees ---- */

static void captures_give(struct serve_block *block) {
    (void)acre_pool_free(block->device->pool, (void *)(uintptr_t)block->node.key,
                         block->device->stream);
    free(block);
}

static void captures_give_list(struct serve_block *block) {
    while (block) {
        struct serve_block *next = block->next;
        captures_give(block);
        block = next;
    }
}

/* Waits for the device while no capture begins. Returns 1 in *is_captured, and does not wait, if
 * one has begun. */
static CUresult captures_wait(const struct serve_device *device, int *is_captured) {
    CUresult result = CUDA_SUCCESS;
    pthread_rwlock_rdlock(&captures.gate);
    *is_captured = acre__captures_any();
    if (!*is_captured)
        result = acre__serve_wait(device);
    pthread_rwlock_unlock(&captures.gate);
    return result;
}

static void captures_park(struct serve_block *block) {
    pthread_mutex_lock(&captures.lock);
    block->next = captures.parked;
    captures.parked = block;
    atomic_store_explicit(&captures.is_waiting, 1, memory_order_release);
    pthread_mutex_unlock(&captures.lock);
}

/* Frees what was parked. The caller has waited for one device; the others' work is waited for. */
static void captures_unpark(const struct serve_device *waited) {
    pthread_mutex_lock(&captures.lock);
    struct serve_block *block = captures.parked;
    captures.parked = NULL;
    pthread_mutex_unlock(&captures.lock);
    while (block) {
        struct serve_block *next = block->next;
        int is_captured = 0;
        CUresult result =
            block->device == waited ? CUDA_SUCCESS : captures_wait(block->device, &is_captured);
        if (result || is_captured)
            captures_park(block);
        else
            captures_give(block);
        block = next;
    }
}

/* ---- deferred frees ---- */

/* Records the event of a batch behind all work of its context. Returns 0 if that is not possible
 * now. */
static int batch_record(struct batch *batch) {
    const struct acre__driver *drv = acre__serve.inner;
    CUcontext ctx = atomic_load(&batch->device->ctx), popped;
    int is_recorded = 0;
    pthread_rwlock_rdlock(&captures.gate);
    if (!acre__captures_any() && !drv->cuCtxPushCurrent(ctx)) {
        if (!batch->event && drv->cuEventCreate(&batch->event, CU_EVENT_DISABLE_TIMING))
            batch->event = NULL;
        is_recorded = batch->event && !drv->cuCtxRecordEvent(ctx, batch->event);
        (void)drv->cuCtxPopCurrent(&popped);
    }
    pthread_rwlock_unlock(&captures.gate);
    return is_recorded;
}

/* Ends the open batch: its blocks wait for an event from now on. Without one, they are parked. */
static void batch_close(struct batch *batch) {
    if (batch_record(batch)) {
        pthread_mutex_lock(&captures.lock);
        *captures.end = batch;
        captures.end = &batch->next;
        pthread_mutex_unlock(&captures.lock);
        return;
    }
    while (batch->first) {
        struct serve_block *block = batch->first;
        batch->first = block->next;
        captures_park(block);
    }
    if (batch->event)
        (void)acre__serve.inner->cuEventDestroy(batch->event);
    free(batch);
}

/* Takes the open batch, if it is full, or if `any`, or if its device is another one. */
static struct batch *batch_take(const struct serve_device *device, int any) {
    pthread_mutex_lock(&captures.lock);
    struct batch *batch = captures.open;
    int is_full = batch && (batch->count >= BATCH_BLOCKS || batch->bytes >= BATCH_BYTES);
    if (batch && (any || is_full || batch->device != device))
        captures.open = NULL;
    else
        batch = NULL;
    pthread_mutex_unlock(&captures.lock);
    return batch;
}

/* Returns 0 without memory for a batch. */
static int batch_add(struct serve_block *block) {
    struct batch *batch = batch_take(block->device, 0), *fresh = NULL;
    if (batch)
        batch_close(batch);
    pthread_mutex_lock(&captures.lock);
    if (!captures.open)
        captures.open = fresh = calloc(1, sizeof *fresh);
    batch = captures.open;
    if (batch) {
        batch->device = block->device;
        block->next = batch->first;
        batch->first = block;
        batch->count++;
        batch->bytes += block->bytes;
        atomic_store_explicit(&captures.is_waiting, 1, memory_order_release);
    }
    pthread_mutex_unlock(&captures.lock);
    return batch != NULL;
}

/* Frees the oldest batch if its event has completed. Returns 0 if it has not, or there is none. */
static int batch_free_oldest(int waits) {
    const struct acre__driver *drv = acre__serve.inner;
    struct batch *batch = captures.oldest; /* only the thread that drains takes one out */
    if (!batch || acre__captures_any() ||
        (waits ? drv->cuEventSynchronize(batch->event) : drv->cuEventQuery(batch->event)))
        return 0;
    pthread_mutex_lock(&captures.lock);
    captures.oldest = batch->next;
    if (!captures.oldest)
        captures.end = &captures.oldest;
    pthread_mutex_unlock(&captures.lock);
    captures_give_list(batch->first);
    (void)drv->cuEventDestroy(batch->event);
    free(batch);
    return 1;
}

/* ---- for the other files ---- */

CUresult acre__captures_free(struct serve_block *block) {
    int is_captured = acre__captures_any();
    struct serve_device *device = block->device;
    CUresult result = is_captured ? acre__captures_try_free() : CUDA_SUCCESS;
    if (!result && !is_captured) {
        if (acre__serve.options.defers && batch_add(block))
            return CUDA_SUCCESS;
        result = captures_wait(device, &is_captured);
    }
    if (result)
        return result;
    if (is_captured) {
        captures_park(block);
        return CUDA_SUCCESS;
    }
    captures_give(block);
    if (atomic_load_explicit(&captures.is_waiting, memory_order_acquire) &&
        !acre__serve.options.defers) {
        atomic_store_explicit(&captures.is_waiting, 0, memory_order_relaxed);
        captures_unpark(device);
    }
    return CUDA_SUCCESS;
}

void acre__captures_drain(int waits) {
    if (!atomic_load_explicit(&captures.is_waiting, memory_order_acquire) || acre__captures_any() ||
        pthread_mutex_trylock(&captures.drain))
        return;
    if (waits) {
        struct batch *batch = batch_take(NULL, 1);
        if (batch)
            batch_close(batch);
    }
    while (batch_free_oldest(waits))
        continue;
    if (waits)
        captures_unpark(NULL);
    pthread_mutex_unlock(&captures.drain);
}

static void captures_drop_list(struct serve_block **list, const struct serve_device *device) {
    while (*list) {
        struct serve_block *block = *list;
        if (device && block->device != device) {
            list = &block->next;
            continue;
        }
        *list = block->next;
        free(block);
    }
}

void acre__captures_forget(const struct serve_device *device) {
    if (!device) { /* the parent may have held the locks */
        pthread_rwlock_init(&captures.gate, NULL);
        pthread_mutex_init(&captures.lock, NULL);
        pthread_mutex_init(&captures.drain, NULL);
        captures.stream_count = 0;
        atomic_store(&captures.capturing, 0);
        captures.parked = NULL;
        captures.open = captures.oldest = NULL;
        captures.end = &captures.oldest;
        captures.probe = 0;
        return;
    }
    pthread_mutex_lock(&captures.lock);
    captures.probe = 0; /* it may have been in that context; if not, 512 bytes are lost */
    captures_drop_list(&captures.parked, device);
    if (captures.open)
        captures_drop_list(&captures.open->first, device);
    for (struct batch *batch = captures.oldest; batch; batch = batch->next)
        captures_drop_list(&batch->first, device);
    pthread_mutex_unlock(&captures.lock);
}

void acre__captures_wrap(struct acre__driver *table) {
    table->cuStreamBeginCapture = captures_begin;
    table->cuStreamEndCapture = captures_end;
    table->cuStreamDestroy = captures_destroy;
}
