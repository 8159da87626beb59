/* The limit's wrappers of plain memory, of queries of memory, and of the end of contexts; see
 * shim_limit.h. A record is taken out before the driver frees its memory and put back if the driver
 * refuses: so the driver cannot return the address of a record again. */
#include "shim_limit.h"

#include <stdlib.h>

#include "shim_limit_records.h"

enum { LIMIT_PITCH = 512 }; /* rows begin at multiples of this on all GPUs so far */

struct limit_records acre__limit = {.lock = PTHREAD_MUTEX_INITIALIZER,
                                    .tight = PTHREAD_MUTEX_INITIALIZER};

static struct limit_block *block_of(struct acre__node *node) {
    return acre__tree_entry(node, struct limit_block, node);
}

CUstreamCaptureMode acre__limit_relax(void) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    (void)acre__limit.inner->cuThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

void acre__limit_restore(CUstreamCaptureMode mode) {
    (void)acre__limit.inner->cuThreadExchangeStreamCaptureMode(&mode);
}

/* ---- records ---- */

void acre__limit_add_block(struct limit_block *block) {
    struct limit_block *stale = block_of(acre__tree_find(&acre__limit.blocks, block->node.key));
    if (stale) {
        acre__tree_remove(&acre__limit.blocks, &stale->node);
        acre__limit_give(stale->pool ? acre__limit_end_pool_block(stale->pool) : stale->bytes);
        free(stale);
    }
    acre__tree_insert(&acre__limit.blocks, &block->node);
}

/* Ends a call that has charged `bytes`: keeps the record of the new memory, or refunds the bytes.
 */
static CUresult limit_finish(CUresult result, const CUdeviceptr *ptr, struct limit_block *block,
                             uint64_t bytes) {
    if (result) {
        acre__limit_give(bytes);
        free(block);
        return result;
    }
    block->node.key = *ptr;
    block->bytes = bytes;
    pthread_mutex_lock(&acre__limit.lock);
    acre__limit_add_block(block);
    pthread_mutex_unlock(&acre__limit.lock);
    return result;
}

/* Charges bytes and returns a new record, or NULL. */
static struct limit_block *limit_start(uint64_t bytes) {
    struct limit_block *block = calloc(1, sizeof *block);
    if (block && acre__limit_take(bytes))
        return block;
    free(block);
    return NULL;
}

/* Without a context the driver refuses plain memory with an error of its own. */
static int limit_has_context(void) {
    CUcontext context = NULL;
    return !acre__limit.inner->cuCtxGetCurrent(&context) && context;
}

/* ---- plain memory ----
 *
 * Calls with arguments that no driver accepts go to the driver, for its own error. */

static CUresult limit_cuMemAlloc(CUdeviceptr *ptr_out, size_t bytes) {
    if (!ptr_out || !bytes || !limit_has_context())
        return acre__limit.inner->cuMemAlloc(ptr_out, bytes);
    struct limit_block *block = limit_start(bytes);
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    return limit_finish(acre__limit.inner->cuMemAlloc(ptr_out, bytes), ptr_out, block, bytes);
}

static CUresult limit_cuMemAllocManaged(CUdeviceptr *ptr_out, size_t bytes, unsigned int flags) {
    if (!ptr_out || !bytes || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST) ||
        !limit_has_context())
        return acre__limit.inner->cuMemAllocManaged(ptr_out, bytes, flags);
    struct limit_block *block = limit_start(bytes);
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    return limit_finish(acre__limit.inner->cuMemAllocManaged(ptr_out, bytes, flags), ptr_out, block,
                        bytes);
}

/* Charges what the driver's pitch needs beyond `bytes`. Returns 0 if the limit does not allow it.
 */
static int limit_fit_pitch(uint64_t needed, uint64_t *bytes) {
    if (needed < *bytes)
        acre__limit_give(*bytes - needed);
    else if (!acre__limit_take(needed - *bytes))
        return 0;
    *bytes = needed;
    return 1;
}

static CUresult limit_cuMemAllocPitch(CUdeviceptr *ptr_out, size_t *pitch_out, size_t width_bytes,
                                      size_t rows, unsigned int element_bytes) {
    uint64_t bytes = 0;
    if (!ptr_out || !pitch_out || !width_bytes || !rows ||
        (element_bytes != 4 && element_bytes != 8 && element_bytes != 16) ||
        width_bytes > UINT64_MAX - LIMIT_PITCH ||
        __builtin_mul_overflow((width_bytes + LIMIT_PITCH - 1) / LIMIT_PITCH * LIMIT_PITCH, rows,
                               &bytes) ||
        !limit_has_context())
        return acre__limit.inner->cuMemAllocPitch(ptr_out, pitch_out, width_bytes, rows,
                                                  element_bytes);
    struct limit_block *block = limit_start(bytes);
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result =
        acre__limit.inner->cuMemAllocPitch(ptr_out, pitch_out, width_bytes, rows, element_bytes);
    if (!result && !limit_fit_pitch((uint64_t)*pitch_out * rows, &bytes)) {
        (void)acre__limit.inner->cuMemFree(*ptr_out);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return limit_finish(result, ptr_out, block, bytes);
}

/* ---- frees ---- */

/* Returns 1 if the driver knows no memory at this address. */
static int limit_is_gone(CUdeviceptr ptr) {
    unsigned long long id = 0;
    return acre__limit.inner->cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, ptr) ==
           CUDA_ERROR_INVALID_VALUE;
}

static struct limit_block *limit_take_block(CUdeviceptr ptr) {
    pthread_mutex_lock(&acre__limit.lock);
    struct limit_block *block = block_of(acre__tree_find(&acre__limit.blocks, ptr));
    if (block)
        acre__tree_remove(&acre__limit.blocks, &block->node);
    pthread_mutex_unlock(&acre__limit.lock);
    return block;
}

/* Ends a block that was taken, or puts it back if the driver did not free it. Its context may have
 * been destroyed in the meantime. */
static CUresult limit_freed(struct limit_block *block, CUresult result) {
    if (!block)
        return result;
    pthread_mutex_lock(&acre__limit.lock);
    if (result && !limit_is_gone(block->node.key)) {
        acre__limit_add_block(block);
    } else {
        acre__limit_give(block->pool ? acre__limit_end_pool_block(block->pool) : block->bytes);
        free(block);
    }
    pthread_mutex_unlock(&acre__limit.lock);
    return result;
}

static CUresult limit_cuMemFree(CUdeviceptr ptr) {
    struct limit_block *block = limit_take_block(ptr);
    return limit_freed(block, acre__limit.inner->cuMemFree(ptr));
}

static CUresult limit_cuMemFreeAsync(CUdeviceptr ptr, CUstream stream) {
    struct limit_block *block = limit_take_block(ptr);
    return limit_freed(block, acre__limit.inner->cuMemFreeAsync(ptr, stream));
}

/* ---- queries ---- */

static CUresult limit_cuMemGetInfo(size_t *free_out, size_t *total_out) {
    CUresult result = acre__limit.inner->cuMemGetInfo(free_out, total_out);
    if (result)
        return result;
    acre__limit_settle_pools(0);
    uint64_t left = free_out ? *free_out : 0, total = total_out ? *total_out : 0;
    acre__limit_view(&left, &total);
    if (free_out)
        *free_out = left;
    if (total_out)
        *total_out = total;
    return result;
}

static CUresult limit_cuDeviceTotalMem(size_t *bytes_out, CUdevice dev) {
    CUresult result = acre__limit.inner->cuDeviceTotalMem(bytes_out, dev);
    if (!result && bytes_out) {
        uint64_t left = 0, total = *bytes_out;
        acre__limit_view(&left, &total);
        *bytes_out = total;
    }
    return result;
}

/* ---- contexts ---- */

/* Returns 1 if the device has no primary context. */
static int limit_is_reset(CUdevice dev) {
    unsigned int flags = 0;
    int is_active = 1;
    return dev >= 0 && !acre__limit.inner->cuDevicePrimaryCtxGetState(dev, &flags, &is_active) &&
           !is_active;
}

void acre__limit_ended(CUdevice dev, CUcontext ctx) {
    int is_reset = limit_is_reset(dev);
    pthread_mutex_lock(&acre__limit.lock);
    if (is_reset)
        acre__limit_doubt_pools();
    if (is_reset || ctx)
        acre__limit_end_arrays(ctx, dev);
    struct acre__node *node = acre__tree_first(&acre__limit.blocks);
    while (node) {
        struct limit_block *block = block_of(node);
        node = acre__tree_next(&acre__limit.blocks, node);
        if (!limit_is_gone(block->node.key))
            continue;
        acre__tree_remove(&acre__limit.blocks, &block->node);
        acre__limit_give(block->pool ? acre__limit_end_pool_block(block->pool) : block->bytes);
        free(block);
    }
    pthread_mutex_unlock(&acre__limit.lock);
}

static CUresult limit_ended(CUresult result, CUdevice dev, CUcontext ctx) {
    if (!result)
        acre__limit_ended(dev, ctx);
    return result;
}

static CUresult limit_cuCtxDestroy(CUcontext ctx) {
    return limit_ended(acre__limit.inner->cuCtxDestroy(ctx), -1, ctx);
}

static CUresult limit_cuDevicePrimaryCtxRelease(CUdevice dev) {
    return limit_ended(acre__limit.inner->cuDevicePrimaryCtxRelease(dev), dev, NULL);
}

static CUresult limit_cuDevicePrimaryCtxReset(CUdevice dev) {
    return limit_ended(acre__limit.inner->cuDevicePrimaryCtxReset(dev), dev, NULL);
}

/* ---- the table ---- */

#define LIMIT_LIST(X)                                                                              \
    X(cuMemAlloc)                                                                                  \
    X(cuMemAllocPitch)                                                                             \
    X(cuMemAllocManaged)                                                                           \
    X(cuMemFree)                                                                                   \
    X(cuMemFreeAsync)                                                                              \
    X(cuMemGetInfo)                                                                                \
    X(cuDeviceTotalMem)                                                                            \
    X(cuCtxDestroy)                                                                                \
    X(cuDevicePrimaryCtxRelease)                                                                   \
    X(cuDevicePrimaryCtxReset)

void acre__limit_wrap(struct acre__driver *table, const struct acre__driver *inner) {
    acre__limit.inner = inner;
#define LIMIT_REPLACE(name) table->name = limit_##name;
    LIMIT_LIST(LIMIT_REPLACE)
#undef LIMIT_REPLACE
    acre__limit_wrap_pools(table);
    acre__limit_wrap_chunks(table);
}
