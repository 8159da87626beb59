/* The limit of the driver's pools; see shim_limit.h.
 *
 * A pool is charged by what it has reserved, not by its blocks: it keeps memory after frees. Before
 * an allocation that may make the pool grow, its size is charged; afterwards the charge becomes
 * what the driver says. Several calls may be in progress. If the pool has grown by more than the
 * limit allows, the new block is freed again.
 *
 * Under the lock the pool's handle is valid: cuMemPoolDestroy marks the record first. After the end
 * of a primary context that is not certain. A pool without blocks is then charged again when the
 * program uses it. */
#include <stdlib.h>

#include "shim_limit_records.h"

/* A pool grows by whole pages of the device. */
static const uint64_t POOL_PAGE = (uint64_t)2 << 20;

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

/* Returns how much an allocation may make the pool grow. */
static int pool_growth(const struct limit_pool *pool, uint64_t bytes, uint64_t *growth) {
    uint64_t reserved = 0, used = 0;
    if (!pool_query(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved) ||
        !pool_query(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used))
        return 0;
    if (used <= reserved && bytes <= reserved - used)
        *growth = 0;
    else
        *growth = bytes > UINT64_MAX - POOL_PAGE ? UINT64_MAX
                                                 : (bytes + POOL_PAGE - 1) / POOL_PAGE * POOL_PAGE;
    return 1;
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

/* Charges what the pool may grow by. Sets block->pool, or leaves it NULL if the driver does not
 * tell what its pools have reserved; then the block itself is charged. */
static CUresult pool_begin(CUmemoryPool handle, size_t bytes, struct limit_block *block,
                           uint64_t *growth) {
    pthread_mutex_lock(&acre__limit.lock);
    struct limit_pool *pool = pool_get(handle);
    if (pool) {
        pool->is_unsure = 0;
        pool->live++; /* keeps the record */
    }
    int is_host = pool && pool->is_host, is_told = pool && pool_growth(pool, bytes, growth);
    pthread_mutex_unlock(&acre__limit.lock);
    if (!pool)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (is_host)
        *growth = 0;
    else if (!is_told)
        *growth = bytes;
    int is_taken = acre__limit_take(*growth);
    pthread_mutex_lock(&acre__limit.lock);
    if (is_taken && (is_told || is_host)) {
        block->pool = pool;
        pool->held += *growth;
        pool->pending += *growth;
    } else {
        acre__limit_give(acre__limit_end_pool_block(pool));
        block->bytes = is_taken ? *growth : 0;
    }
    pthread_mutex_unlock(&acre__limit.lock);
    return is_taken ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Makes the charge of the block's pool right after the call. Returns 0 if the pool has more than
 * the limit allows. */
static int pool_end(struct limit_block *block, uint64_t growth) {
    pthread_mutex_lock(&acre__limit.lock);
    block->pool->pending -= growth;
    int is_ok = pool_settle(block->pool);
    pthread_mutex_unlock(&acre__limit.lock);
    if (is_ok)
        return 1;
    acre__limit_settle_pools(1);
    pthread_mutex_lock(&acre__limit.lock);
    is_ok = pool_settle(block->pool);
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

/* Charges a request before the driver's call. Sets *block_out to NULL if it needs no charge: the
 * driver is going to refuse it. */
static CUresult pool_charge(const struct pool_request *request, struct limit_block **block_out,
                            uint64_t *growth) {
    CUstreamCaptureMode mode = acre__limit_relax();
    CUmemoryPool handle = pool_find(request);
    struct limit_block *block = handle ? calloc(1, sizeof *block) : NULL;
    CUresult result = handle && !block ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
    if (block && (result = pool_begin(handle, request->bytes, block, growth))) {
        free(block);
        block = NULL;
    }
    acre__limit_restore(mode);
    *block_out = block;
    return result;
}

static CUresult pool_alloc(const struct pool_request *request) {
    struct limit_block *block = NULL;
    uint64_t growth = 0;
    if (pool_is_captured(request->stream))
        return pool_forward(request);
    CUresult result = pool_charge(request, &block, &growth);
    if (result)
        return result;
    result = pool_forward(request);
    if (!block)
        return result;
    int is_ok = !block->pool || pool_end(block, growth);
    if (result)
        return pool_undo(block, result);
    if (!is_ok) {
        (void)acre__limit.inner->cuMemFreeAsync(*request->ptr_out, request->stream);
        acre__limit_settle_pools(1);
        return pool_undo(block, CUDA_ERROR_OUT_OF_MEMORY);
    }
    block->node.key = *request->ptr_out;
    pthread_mutex_lock(&acre__limit.lock);
    acre__limit_add_block(block);
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
        *pool = (struct limit_pool){.node = pool->node, .live = pool->live};
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
