/* The limit of the driver's pools; see shim_limit.h.
 *
 * A pool is charged by what it has reserved, not by its blocks: it keeps memory after frees. Before
 * an allocation the most that it may make the pool grow is charged: other calls in progress, or the
 * order of streams, may keep it from the pool's idle memory. Afterwards the charge becomes what the
 * driver says. If the limit has no room, idle memory is released first, also such as frees in
 * flight are about to return. Small requests may then still fit into pages that are partly used:
 * one of them at a time is made without a charge. If the pool has grown by more than the limit
 * allows, the new block is freed again.
 *
 * Under the lock the pool's handle is valid: cuMemPoolDestroy marks the record first. After the end
 * of a primary context that is not certain. A pool without blocks is then charged again when the
 * program uses it. */
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "shim_limit_records.h"

enum { POOL_WAIT_MS = 200, POOL_REST_MS = 2000 }; /* of waits for frees in flight */

/* A pool grows by whole pages of the device, or by larger steps, which the first call shows. */
static const uint64_t POOL_PAGE = (uint64_t)2 << 20, POOL_STEP_MOST = (uint64_t)64 << 20;

static struct limit_pool *pool_of(struct acre__node *node) {
    return acre__tree_entry(node, struct limit_pool, node);
}

/* ---- with the lock held ---- */

static CUmemoryPool pool_handle(const struct limit_pool *pool) {
    return (CUmemoryPool)(uintptr_t)pool->node.key;
}

static int pool_query(const struct limit_pool *pool, CUmemPool_attribute attribute,
                      uint64_t *bytes) {
    CUstreamCaptureMode mode = acre__limit_relax();
    CUresult result = acre__limit.inner->cuMemPoolGetAttribute(pool_handle(pool), attribute, bytes);
    acre__limit_restore(mode);
    return !result;
}

/* Returns the record of a pool; a pool that is not known yet gets one. NULL: out of memory. */
static struct limit_pool *pool_get(CUmemoryPool handle) {
    struct limit_pool *pool = pool_of(acre__tree_find(&acre__limit.pools, (uintptr_t)handle));
    if (!pool && (pool = calloc(1, sizeof *pool))) {
        pool->node.key = (uintptr_t)handle;
        pool->step = POOL_PAGE;
        acre__tree_insert(&acre__limit.pools, &pool->node);
    }
    return pool;
}

/* Makes the charge what the pool has reserved, plus what calls in progress may add. Returns 0 if
 * the pool has more than the limit allows; the charge then stays. */
static int pool_settle(struct limit_pool *pool) {
    uint64_t now = 0;
    if (pool->is_unsure && !pool->live) {
        acre__limit_give(pool->held - pool->pending);
        pool->held = pool->pending;
    }
    if (pool->is_host || pool->is_ended || pool->is_unsure ||
        !pool_query(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &now))
        return 1;
    pool->reserved = now;
    if (now + pool->pending <= pool->held) {
        acre__limit_give(pool->held - now - pool->pending);
        pool->held = now + pool->pending;
        return 1;
    }
    /* A call in progress may have grown the pool already: its charge counts. */
    if (now <= pool->held)
        return 1;
    if (!acre__limit_try(now - pool->held))
        return 0;
    pool->held = now;
    return 1;
}

uint64_t acre__limit_end_pool_block(struct limit_pool *pool) {
    pool->live--;
    (void)pool_settle(pool);
    if (!pool->is_ended || pool->live)
        return 0;
    uint64_t bytes = pool->held;
    free(pool); /* it left the tree when it was destroyed */
    return bytes;
}

/* Asks the driver how much of the pool is idle. */
static int pool_idle(struct limit_pool *pool, uint64_t *idle) {
    uint64_t used = 0;
    if (!pool_query(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &pool->reserved) ||
        !pool_query(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used))
        return 0;
    *idle = used < pool->reserved ? pool->reserved - used : 0;
    return 1;
}

/* Returns the most that an allocation may make the pool grow. */
static uint64_t pool_growth(const struct limit_pool *pool, uint64_t bytes) {
    return bytes > UINT64_MAX - pool->step ? UINT64_MAX
                                           : (bytes + pool->step - 1) / pool->step * pool->step;
}

void acre__limit_doubt_pools(void) {
    struct acre__node *node = acre__tree_first(&acre__limit.pools);
    for (; node; node = acre__tree_next(&acre__limit.pools, node)) {
        struct limit_pool *pool = pool_of(node);
        pool->is_unsure = pool->is_made;
        (void)pool_settle(pool);
    }
}

void acre__limit_settle_pools(int trim) {
    acre__limit_shrink_graphs();
    CUstreamCaptureMode mode = acre__limit_relax();
    pthread_mutex_lock(&acre__limit.lock);
    struct acre__node *node = acre__tree_first(&acre__limit.pools);
    for (; node; node = acre__tree_next(&acre__limit.pools, node)) {
        struct limit_pool *pool = pool_of(node);
        if (!pool->held || pool->is_ended || pool->is_unsure)
            continue;
        if (trim)
            (void)acre__limit.inner->cuMemPoolTrimTo(pool_handle(pool), 0);
        (void)pool_settle(pool);
    }
    pthread_mutex_unlock(&acre__limit.lock);
    acre__limit_restore(mode);
}

/* ---- allocations ---- */

/* One allocation, by either call. */
struct pool_request {
    CUdeviceptr *ptr_out;
    size_t bytes;
    CUmemoryPool pool; /* NULL: the current one of the stream's device */
    CUstream stream;
};

static CUresult pool_forward(const struct pool_request *request) {
    const struct acre__driver *inner = acre__limit.inner;
    return request->pool
               ? inner->cuMemAllocFromPoolAsync(request->ptr_out, request->bytes, request->pool,
                                                request->stream)
               : inner->cuMemAllocAsync(request->ptr_out, request->bytes, request->stream);
}

/* Returns the pool of a request, or NULL if the driver is going to refuse it. */
static CUmemoryPool pool_find(const struct pool_request *request) {
    const struct acre__driver *inner = acre__limit.inner;
    CUmemoryPool pool = request->pool;
    CUdevice device = 0;
    if (!request->ptr_out || !request->bytes)
        return NULL;
    if (pool)
        return pool;
    if (inner->cuStreamGetDevice(request->stream, &device) && inner->cuCtxGetDevice(&device))
        return NULL;
    return inner->cuDeviceGetMemPool(&pool, device) ? NULL : pool;
}

/* In a capture the memory belongs to the graph. */
static int pool_is_captured(CUstream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return !acre__limit.inner->cuStreamIsCapturing(stream, &status) &&
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* A call of the driver in progress, with its charge. */
struct pool_call {
    struct limit_block *block; /* its record; NULL: the driver is going to refuse the request */
    uint64_t growth;           /* charged for the growth of the block's pool */
    uint64_t reserved, number; /* of the pool when the call began */
    int is_told;               /* the driver says what the pool has */
    int is_alone;              /* no other call was in progress then */
    int is_tight;              /* it holds acre__limit.tight */
};

static int pool_has_idle(struct limit_pool *pool, uint64_t bytes) {
    uint64_t idle = 0;
    pthread_mutex_lock(&acre__limit.lock);
    int is_enough = pool_idle(pool, &idle) && bytes <= idle;
    pthread_mutex_unlock(&acre__limit.lock);
    return is_enough;
}

static int64_t pool_now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Charges what frees in flight return within a moment: a driver would wait for them. After a wait
 * in vain there is none for a while, so that a program that is refused often stays fast. */
static int pool_wait(struct limit_pool *pool, uint64_t bytes, uint64_t growth) {
    static _Atomic int64_t next_ms;
    const struct timespec moment = {.tv_nsec = 1000000};
    if (pool_now_ms() < atomic_load_explicit(&next_ms, memory_order_relaxed))
        return 0;
    for (int i = 0; i < POOL_WAIT_MS && pool_has_idle(pool, bytes); i++) {
        nanosleep(&moment, NULL);
        if (acre__limit_squeeze(growth))
            return 1;
    }
    atomic_store_explicit(&next_ms, pool_now_ms() + POOL_REST_MS, memory_order_relaxed);
    return 0;
}

/* Waits for its turn to take idle memory of the pool without a charge. Returns 0 if there is too
 * little, or if the pool grew for such a request a while ago. */
static int pool_begin_tight(struct limit_pool *pool, uint64_t bytes) {
    if (bytes >= pool->step)
        return 0;
    pthread_mutex_lock(&acre__limit.tight);
    if (bytes >= pool->tight_most && pool->tight_most && pool_now_ms() >= pool->tight_again_ms)
        pool->tight_most = 0;
    int is_enough = (!pool->tight_most || bytes < pool->tight_most) && pool_has_idle(pool, bytes);
    if (!is_enough)
        pthread_mutex_unlock(&acre__limit.tight);
    return is_enough;
}

/* Lets the next one take its turn. `is_ok`: the pool has not grown beyond the limit. */
static void pool_end_tight(const struct pool_call *call, uint64_t bytes, int is_ok) {
    if (!is_ok && call->block->pool) {
        call->block->pool->tight_most = bytes;
        call->block->pool->tight_again_ms = pool_now_ms() + POOL_REST_MS;
    }
    pthread_mutex_unlock(&acre__limit.tight);
}

/* Returns 1 if the charge is made, or none is needed. */
static int pool_take(struct limit_pool *pool, uint64_t bytes, struct pool_call *call) {
    if (acre__limit_squeeze(call->growth))
        return 1;
    if (call->is_told && pool_wait(pool, bytes, call->growth))
        return 1;
    if (call->is_told && pool_begin_tight(pool, bytes)) {
        call->is_tight = 1;
        call->growth = 0;
        return 1;
    }
    return acre__limit_take(call->growth); /* says why not */
}

/* Charges what the pool may grow by. Sets block->pool, or leaves it NULL if the driver does not
 * tell what its pools have reserved; then the block itself is charged. */
static CUresult pool_begin(CUmemoryPool handle, size_t bytes, struct pool_call *call) {
    uint64_t idle = 0;
    pthread_mutex_lock(&acre__limit.lock);
    struct limit_pool *pool = pool_get(handle);
    if (pool) {
        pool->is_unsure = 0;
        pool->live++; /* keeps the record */
        call->is_told = !pool->is_host && pool_idle(pool, &idle);
        call->growth = pool->is_host ? 0 : call->is_told ? pool_growth(pool, bytes) : bytes;
    }
    int is_counted = pool && (call->is_told || pool->is_host);
    pthread_mutex_unlock(&acre__limit.lock);
    if (!pool)
        return CUDA_ERROR_OUT_OF_MEMORY;
    int is_taken = pool_take(pool, bytes, call);
    pthread_mutex_lock(&acre__limit.lock);
    if (is_taken && is_counted) {
        call->block->pool = pool;
        call->is_alone = !pool->calls++;
        call->number = ++pool->begun;
        call->reserved = pool->reserved;
        pool->held += call->growth;
        pool->pending += call->growth;
    } else {
        acre__limit_give(acre__limit_end_pool_block(pool));
        call->block->bytes = is_taken ? call->growth : 0;
    }
    pthread_mutex_unlock(&acre__limit.lock);
    return is_taken ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Learns by how much the pool grows at least, from a call that was the only one. */
static void pool_learn(struct limit_pool *pool, const struct pool_call *call) {
    uint64_t grown = pool->reserved > call->reserved ? pool->reserved - call->reserved : 0;
    if (call->is_alone && call->number == pool->begun && grown > call->growth && call->growth &&
        grown <= POOL_STEP_MOST)
        pool->step = grown;
}

/* Makes the charge of the block's pool right after the call. Returns 0 if the pool has more than
 * the limit allows. */
static int pool_end(const struct pool_call *call) {
    struct limit_pool *pool = call->block->pool;
    pthread_mutex_lock(&acre__limit.lock);
    pool->pending -= call->growth;
    pool->calls--;
    int is_ok = pool_settle(pool);
    pool_learn(pool, call);
    pthread_mutex_unlock(&acre__limit.lock);
    if (is_ok)
        return 1;
    acre__limit_settle_pools(1);
    pthread_mutex_lock(&acre__limit.lock);
    is_ok = pool_settle(pool);
    pthread_mutex_unlock(&acre__limit.lock);
    return is_ok;
}

/* Ends a request that failed. */
static CUresult pool_undo(struct limit_block *block, CUresult result) {
    pthread_mutex_lock(&acre__limit.lock);
    acre__limit_give(block->pool ? acre__limit_end_pool_block(block->pool) : block->bytes);
    pthread_mutex_unlock(&acre__limit.lock);
    free(block);
    return result;
}

/* Charges a request before the driver's call. call->block stays NULL if it needs no charge: the
 * driver is going to refuse it. */
static CUresult pool_charge(const struct pool_request *request, struct pool_call *call) {
    CUstreamCaptureMode mode = acre__limit_relax();
    CUmemoryPool handle = pool_find(request);
    CUresult result = CUDA_SUCCESS;
    call->block = handle ? calloc(1, sizeof *call->block) : NULL;
    if (handle)
        result = call->block ? pool_begin(handle, request->bytes, call) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result) {
        free(call->block);
        call->block = NULL;
    }
    acre__limit_restore(mode);
    return result;
}

static CUresult pool_alloc(const struct pool_request *request) {
    struct pool_call call = {0};
    if (pool_is_captured(request->stream))
        return pool_forward(request);
    CUresult result = pool_charge(request, &call);
    if (result)
        return result;
    result = pool_forward(request);
    if (!call.block)
        return result;
    int is_ok = !call.block->pool || pool_end(&call);
    if (call.is_tight)
        pool_end_tight(&call, request->bytes, is_ok);
    if (result)
        return pool_undo(call.block, result);
    if (!is_ok) {
        (void)acre__limit.inner->cuMemFreeAsync(*request->ptr_out, request->stream);
        acre__limit_settle_pools(1);
        return pool_undo(call.block, CUDA_ERROR_OUT_OF_MEMORY);
    }
    call.block->node.key = *request->ptr_out;
    pthread_mutex_lock(&acre__limit.lock);
    acre__limit_add_block(call.block);
    pthread_mutex_unlock(&acre__limit.lock);
    return result;
}

static CUresult pool_cuMemAllocAsync(CUdeviceptr *ptr_out, size_t bytes, CUstream stream) {
    return pool_alloc(&(struct pool_request){ptr_out, bytes, NULL, stream});
}

static CUresult pool_cuMemAllocFromPoolAsync(CUdeviceptr *ptr_out, size_t bytes, CUmemoryPool pool,
                                             CUstream stream) {
    if (!pool)
        return acre__limit.inner->cuMemAllocFromPoolAsync(ptr_out, bytes, pool, stream);
    return pool_alloc(&(struct pool_request){ptr_out, bytes, pool, stream});
}

/* ---- pools ---- */

static CUresult pool_cuMemPoolCreate(CUmemoryPool *pool_out, const CUmemPoolProps *props) {
    CUresult result = acre__limit.inner->cuMemPoolCreate(pool_out, props);
    if (result)
        return result;
    pthread_mutex_lock(&acre__limit.lock);
    struct limit_pool *pool = pool_get(*pool_out);
    if (pool) {
        acre__limit_give(pool->held); /* of a pool that went with its context */
        *pool = (struct limit_pool){.node = pool->node, .live = pool->live, .step = POOL_PAGE};
        pool->is_host = props->location.type != CU_MEM_LOCATION_TYPE_DEVICE;
        pool->is_made = 1;
    }
    pthread_mutex_unlock(&acre__limit.lock);
    return result;
}

/* Blocks that are still allocated keep the memory of a destroyed pool. */
static CUresult pool_cuMemPoolDestroy(CUmemoryPool handle) {
    pthread_mutex_lock(&acre__limit.lock);
    struct limit_pool *pool = pool_of(acre__tree_find(&acre__limit.pools, (uintptr_t)handle));
    if (pool) {
        (void)pool_settle(pool);
        acre__tree_remove(&acre__limit.pools, &pool->node);
        pool->is_ended = 1;
        pool->live++; /* keeps the record */
    }
    pthread_mutex_unlock(&acre__limit.lock);
    CUresult result = acre__limit.inner->cuMemPoolDestroy(handle);
    if (!pool)
        return result;
    pthread_mutex_lock(&acre__limit.lock);
    if (result && acre__tree_insert(&acre__limit.pools, &pool->node))
        pool->is_ended = 0;
    acre__limit_give(acre__limit_end_pool_block(pool));
    pthread_mutex_unlock(&acre__limit.lock);
    return result;
}

static CUresult pool_cuMemPoolTrimTo(CUmemoryPool handle, size_t keep_bytes) {
    CUresult result = acre__limit.inner->cuMemPoolTrimTo(handle, keep_bytes);
    pthread_mutex_lock(&acre__limit.lock);
    struct limit_pool *pool = pool_of(acre__tree_find(&acre__limit.pools, (uintptr_t)handle));
    if (pool && !result)
        (void)pool_settle(pool);
    pthread_mutex_unlock(&acre__limit.lock);
    return result;
}

void acre__limit_wrap_pools(struct acre__driver *table) {
    table->cuMemAllocAsync = pool_cuMemAllocAsync;
    table->cuMemAllocFromPoolAsync = pool_cuMemAllocFromPoolAsync;
    table->cuMemPoolCreate = pool_cuMemPoolCreate;
    table->cuMemPoolDestroy = pool_cuMemPoolDestroy;
    table->cuMemPoolTrimTo = pool_cuMemPoolTrimTo;
}
