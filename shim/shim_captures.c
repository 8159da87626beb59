/* Captures, and blocks that wait to be freed; see shim_serve.h.
 *
 * The driver refuses cuMemAlloc and cuMemFree during some captures and invalidates these, depending
 * on their mode and on the thread's. It treats the query of an event in the same way, which has no
 * other effect: while something is captured, such a query finds out. And acre does nothing that
 * could invalidate a capture: blocks that are freed meanwhile wait until no stream is captured.
 *
 * With deferred frees blocks wait in batches, each behind an event that covers all work of its
 * context.
 *
 * Locks: `gate` is held for reading while a thread waits for a device or records an event. A
 * capture that begins is announced first, and then waits for the gate, but not for long: only the
 * beginning of a wait could invalidate it, and a wait may depend on the thread that captures.
 * `lock` protects the lists and is not held during driver calls, `drain` lets one thread drain the
 * lists. All blocks are used between acre__serve_enter and acre__serve_leave. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "shim_pause.h"
#include "shim_serve.h"

enum {
    CAPTURES_MOST = 256, /* streams that are captured at once; more count as always captured */
    CAPTURES_GATE_NS = 2000000,
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

struct captured {
    CUstream stream;
    CUcontext ctx;
};

static struct {
    pthread_rwlock_t gate;
    pthread_mutex_t lock, drain;
    _Atomic unsigned capturing; /* rows in `rows`, and captures without room */
    struct captured rows[CAPTURES_MOST];
    unsigned row_count;
    struct serve_block *parked; /* freed during a capture */
    struct batch *open;         /* without an event yet */
    struct batch *oldest, **end;
    _Atomic int is_waiting; /* some list is not empty */
    _Atomic uint64_t bytes; /* of all blocks in the lists */
} captures = {.gate = PTHREAD_RWLOCK_INITIALIZER,
              .lock = PTHREAD_MUTEX_INITIALIZER,
              .drain = PTHREAD_MUTEX_INITIALIZER,
              .end = &captures.oldest};

/* ---- which streams are captured ---- */

int acre__captures_any(void) {
    return atomic_load_explicit(&captures.capturing, memory_order_acquire) != 0;
}

uint64_t acre__captures_bytes(void) {
    return atomic_load_explicit(&captures.bytes, memory_order_relaxed);
}

static void captures_add(CUstream stream, CUcontext ctx) {
    pthread_mutex_lock(&captures.lock);
    if (captures.row_count < CAPTURES_MOST)
        captures.rows[captures.row_count++] = (struct captured){stream, ctx};
    atomic_fetch_add_explicit(&captures.capturing, 1, memory_order_release);
    pthread_mutex_unlock(&captures.lock);
}

/* Removes rows of a stream, or of a context if `ctx` is not NULL; at most `most`. */
static void captures_remove(CUstream stream, CUcontext ctx, unsigned most) {
    pthread_mutex_lock(&captures.lock);
    for (unsigned i = captures.row_count; i > 0 && most > 0; i--) {
        struct captured *row = &captures.rows[i - 1];
        if (ctx ? row->ctx != ctx : row->stream != stream)
            continue;
        *row = captures.rows[--captures.row_count];
        atomic_fetch_sub_explicit(&captures.capturing, 1, memory_order_release);
        most--;
    }
    pthread_mutex_unlock(&captures.lock);
}

void acre__serve_capturing(CUstream stream) {
    CUcontext ctx = NULL;
    struct timespec until;
    if (!acre__serve.options.is_on)
        return;
    if (acre__serve.inner->cuStreamGetCtx(stream, &ctx))
        (void)acre__serve.inner->cuCtxGetCurrent(&ctx);
    captures_add(stream, ctx);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += CAPTURES_GATE_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    if (pthread_rwlock_timedwrlock(&captures.gate, &until) == 0)
        pthread_rwlock_unlock(&captures.gate);
}

void acre__serve_not_capturing(CUstream stream) {
    if (acre__serve.options.is_on)
        captures_remove(stream, NULL, 1);
}

void acre__serve_context_gone(CUcontext ctx) {
    if (acre__serve.options.is_on && ctx)
        captures_remove(NULL, ctx, CAPTURES_MOST);
}

/* A suspend waits for the context, which would invalidate a capture; so a capture waits for it. */
static CUresult captures_begin(CUstream stream, CUstreamCaptureMode mode) {
    struct shim_user *user = acre__user_begin("cuStreamBeginCapture");
    acre__serve_capturing(stream);
    CUresult result = acre__serve.inner->cuStreamBeginCapture(stream, mode);
    if (result)
        acre__serve_not_capturing(stream);
    return acre__user_end(user, result);
}

static CUresult captures_end(CUstream stream, CUgraph *graph_out) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = acre__serve.inner->cuStreamEndCapture(stream, graph_out);
    if (acre__captures_any() && (acre__serve.inner->cuStreamIsCapturing(stream, &status) ||
                                 status == CU_STREAM_CAPTURE_STATUS_NONE))
        captures_remove(stream, NULL, CAPTURES_MOST);
    return result;
}

static CUresult captures_destroy(CUstream stream) {
    CUresult result = acre__serve.inner->cuStreamDestroy(stream);
    if (!result && acre__captures_any())
        captures_remove(stream, NULL, CAPTURES_MOST);
    return result;
}

static CUresult captures_destroy_context(CUcontext ctx) {
    CUresult result = acre__serve.inner->cuCtxDestroy(ctx);
    if (!result)
        acre__serve_context_gone(ctx);
    return result;
}

CUresult acre__captures_ask(const struct serve_device *device) {
    return device->event ? acre__serve.inner->cuEventQuery(device->event) : CUDA_SUCCESS;
}

/* ---- frees ---- */

static void captures_give(struct serve_block *block) {
    (void)acre_pool_free(block->device->pool, (void *)(uintptr_t)block->node.key,
                         block->device->stream);
    free(block);
}

static void captures_count(const struct serve_block *block, int is_waiting);

static void captures_give_list(struct serve_block *block) {
    while (block) {
        struct serve_block *next = block->next;
        captures_count(block, 0);
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

/* Notes that a block waits, or does so no more. */
static void captures_count(const struct serve_block *block, int is_waiting) {
    if (is_waiting)
        atomic_fetch_add_explicit(&captures.bytes, block->bytes, memory_order_relaxed);
    else
        atomic_fetch_sub_explicit(&captures.bytes, block->bytes, memory_order_relaxed);
}

static void captures_park(struct serve_block *block) {
    captures_count(block, 1);
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
        captures_count(block, 0);
        CUresult result = waited && block->device == waited
                              ? CUDA_SUCCESS
                              : captures_wait(block->device, &is_captured);
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
        captures_count(block, 0);
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
    struct batch *batch = batch_take(block->device, 0);
    if (batch)
        batch_close(batch);
    pthread_mutex_lock(&captures.lock);
    if (!captures.open)
        captures.open = calloc(1, sizeof *captures.open);
    batch = captures.open;
    if (batch) {
        batch->device = block->device;
        block->next = batch->first;
        batch->first = block;
        batch->count++;
        batch->bytes += block->bytes;
        captures_count(block, 1);
        atomic_store_explicit(&captures.is_waiting, 1, memory_order_release);
    }
    pthread_mutex_unlock(&captures.lock);
    return batch != NULL;
}

/* Frees the oldest batch if its event has completed. Returns 0 if it has not, or there is none. */
static int batch_free_oldest(int waits) {
    const struct acre__driver *drv = acre__serve.inner;
    pthread_mutex_lock(&captures.lock);
    struct batch *batch = captures.oldest; /* only the thread that drains takes one out */
    pthread_mutex_unlock(&captures.lock);
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

/* With deferred frees nobody waits: what was parked during a capture goes into batches. */
static void captures_defer_parked(void) {
    pthread_mutex_lock(&captures.lock);
    struct serve_block *next, *block = acre__serve.options.defers ? captures.parked : NULL;
    if (block)
        captures.parked = NULL;
    pthread_mutex_unlock(&captures.lock);
    for (; block; block = next) {
        next = block->next;
        captures_count(block, 0);
        if (!batch_add(block))
            captures_park(block);
    }
}

/* ---- for the other files ---- */

CUresult acre__captures_free(struct serve_block *block) {
    int is_captured = acre__captures_any();
    struct serve_device *device = block->device;
    CUresult result = is_captured ? acre__captures_ask(device) : CUDA_SUCCESS;
    if (!result && !is_captured) {
        /* While memory is away nothing runs: there is no wait to defer, and the block's contents
         * need not come back. */
        if (acre__serve.options.defers && !atomic_load(&acre__users_are_stopped) &&
            batch_add(block))
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
    else
        captures_defer_parked();
    pthread_mutex_unlock(&captures.drain);
}

static void captures_drop_list(struct serve_block **list, const struct serve_device *device) {
    while (*list) {
        struct serve_block *block = *list;
        if (block->device != device) {
            list = &block->next;
            continue;
        }
        *list = block->next;
        captures_count(block, 0);
        free(block);
    }
}

/* Drops the batches of a device. Their events were destroyed with the context. */
static void captures_drop_batches(const struct serve_device *device) {
    struct batch **link = &captures.oldest;
    while (*link) {
        struct batch *batch = *link;
        if (batch->device != device) {
            link = &batch->next;
            continue;
        }
        *link = batch->next;
        captures_drop_list(&batch->first, device);
        free(batch);
    }
    captures.end = link;
    if (captures.open && captures.open->device == device) {
        captures_drop_list(&captures.open->first, device);
        free(captures.open);
        captures.open = NULL;
    }
}

void acre__captures_forget(const struct serve_device *device) {
    if (device) {
        pthread_mutex_lock(&captures.lock);
        captures_drop_list(&captures.parked, device);
        captures_drop_batches(device);
        pthread_mutex_unlock(&captures.lock);
        return;
    }
    pthread_rwlock_init(&captures.gate, NULL); /* the parent may have held the locks */
    pthread_mutex_init(&captures.lock, NULL);
    pthread_mutex_init(&captures.drain, NULL);
    captures.row_count = 0;
    atomic_store(&captures.capturing, 0);
    atomic_store(&captures.bytes, 0);
    captures.parked = NULL;
    captures.open = captures.oldest = NULL;
    captures.end = &captures.oldest;
}

void acre__captures_wrap(struct acre__driver *table) {
    table->cuStreamBeginCapture = captures_begin;
    table->cuStreamEndCapture = captures_end;
    table->cuStreamDestroy = captures_destroy;
    table->cuCtxDestroy = captures_destroy_context;
}
