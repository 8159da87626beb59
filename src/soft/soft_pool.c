/* The driver's memory pools as objects: creation, destruction, attributes, statistics and access.
 *
 * Every device has a default pool, which is created on its first use and cannot be destroyed. The
 * handle of a destroyed pool is invalid at once. The pool itself is freed when its allocations have
 * been freed and their streams have reached the frees. Guarded by acre__soft.lock. */
#include <stdlib.h>
#include <string.h>

#include "base/round.h"
#include "soft/soft_api.h"
#include "soft/soft_enter.h"
#include "soft/soft_physical.h"
#include "soft/soft_pool.h"
#include "soft/soft_pool_memory.h"
#include "soft/soft_pool_types.h"
#include "soft/soft_range.h"
#include "soft/soft_state.h"
#include "soft/soft_view.h"

/* ---- objects ---- */

struct CUmemPoolHandle_st *acre__soft_pool_find(CUmemoryPool handle) {
    struct CUmemPoolHandle_st *pool =
        soft_pool_of(acre__tree_find(&acre__soft.pools, (uint64_t)(uintptr_t)handle));
    return pool && !pool->is_destroyed ? pool : NULL;
}

static void pool_set_defaults(struct CUmemPoolHandle_st *pool) {
    pool->may_follow = pool->may_be_opportunistic = pool->may_depend = 1;
    pool->threshold = 0;
    pool->reserved_high = pool->used_high = 0;
    memset(pool->access, 0, sizeof pool->access);
    pool->access[pool->device] = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

CUresult acre__soft_pool_make(const CUmemPoolProps *props, struct CUmemPoolHandle_st **out) {
    struct CUmemPoolHandle_st *pool = calloc(1, sizeof *pool);
    if (!pool)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pool->node.key = (uint64_t)(uintptr_t)pool;
    pool->device = props->location.id;
    pool->props = *props;
    pool_set_defaults(pool);
    acre__tree_insert(&acre__soft.pools, &pool->node);
    *out = pool;
    return CUDA_SUCCESS;
}

void acre__soft_pools_synced(const struct CUctx_st *ctx) {
    struct acre__node *node = acre__tree_first(&acre__soft.pools);
    for (; node; node = acre__tree_next(&acre__soft.pools, node)) {
        acre__soft_pool_settle(soft_pool_of(node), ctx);
        acre__soft_pool_trim(soft_pool_of(node), soft_pool_of(node)->threshold);
    }
    acre__soft_pools_tend();
}

/* Destroys the device's pools together with its last context. The default pool stays, but loses its
 * memory and gets its default attributes. */
void acre__soft_pools_stop(struct soft_device *device) {
    int ordinal = soft_ordinal(device);
    struct acre__node *node = acre__tree_first(&acre__soft.ranges), *next;
    for (; node; node = next) {
        struct soft_range *range = acre__tree_entry(node, struct soft_range, node);
        next = acre__tree_next(&acre__soft.ranges, node);
        if (range->pool && range->pool->device == ordinal)
            acre__soft_range_remove(range);
    }
    for (node = acre__tree_first(&acre__soft.pools); node; node = next) {
        struct CUmemPoolHandle_st *pool = soft_pool_of(node);
        next = acre__tree_next(&acre__soft.pools, node);
        if (pool->device != ordinal)
            continue;
        if (!pool->is_default) {
            acre__soft_pool_end(pool);
            continue;
        }
        while (pool->segments)
            acre__soft_segment_end(pool->segments);
        pool->live_count = 0;
        pool->used_bytes = 0;
        pool_set_defaults(pool);
    }
    device->current_pool = NULL;
}

void acre__soft_pools_forget(void) {
    struct acre__node *node;
    while ((node = acre__tree_first(&acre__soft.pools)))
        acre__soft_pool_end(soft_pool_of(node));
    acre__soft.is_past_kept = 0;
}

/* ---- pools of a device ---- */

static CUresult default_pool(struct soft_device *device, struct CUmemPoolHandle_st **out) {
    if (!device->default_pool) {
        CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, soft_ordinal(device)}};
        CUresult result = acre__soft_pool_make(&props, &device->default_pool);
        if (result)
            return result;
        device->default_pool->is_default = 1;
    }
    *out = device->default_pool;
    return CUDA_SUCCESS;
}

CUresult acre__soft_pool_current(struct soft_device *device, struct CUmemPoolHandle_st **out) {
    if (!device->current_pool)
        return default_pool(device, out);
    *out = device->current_pool;
    return CUDA_SUCCESS;
}

static CUresult pool_of_device(CUmemoryPool *pool_out, CUdevice dev, CUresult bad_device,
                               CUresult (*which)(struct soft_device *device,
                                                 struct CUmemPoolHandle_st **out)) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    struct soft_device *device = acre__soft_device_at(dev);
    if (!pool_out)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if (!device)
        return acre__soft_leave(bad_device);
    return acre__soft_leave(which(device, pool_out));
}

CUresult acre__soft_cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev) {
    return pool_of_device(pool_out, dev, CUDA_ERROR_INVALID_DEVICE, default_pool);
}

CUresult acre__soft_cuDeviceGetMemPool(CUmemoryPool *pool_out, CUdevice dev) {
    return pool_of_device(pool_out, dev, CUDA_ERROR_INVALID_VALUE, acre__soft_pool_current);
}

CUresult acre__soft_cuDeviceSetMemPool(CUdevice dev, CUmemoryPool handle) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    struct soft_device *device = acre__soft_device_at(dev);
    struct CUmemPoolHandle_st *pool = acre__soft_pool_find(handle);
    if (!device || !pool || pool->is_imported || pool->device != dev)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    device->current_pool = pool;
    return acre__soft_leave(CUDA_SUCCESS);
}

/* ---- creating and destroying ---- */

static CUresult props_check(const CUmemPoolProps *props) {
    static const unsigned char none[sizeof props->reserved];
    const unsigned known = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_FABRIC;
    if (!props || props->win32SecurityAttributes || props->usage > SOFT_POOL_USAGE_MOST ||
        (unsigned)props->handleTypes & ~known || memcmp(props->reserved, none, sizeof none) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (props->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED)
        return CUDA_ERROR_NOT_SUPPORTED; /* as the device's attributes say; also for host pools */
    if (props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (props->location.type == CU_MEM_LOCATION_TYPE_HOST ||
        props->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        !acre__soft_device_at(props->location.id))
        return CUDA_ERROR_INVALID_VALUE;
    return props->handleTypes & CU_MEM_HANDLE_TYPE_FABRIC ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
}

/* Creates the file that other processes can import from, and reserves its maximum of addresses. */
static CUresult shared_begin(struct CUmemPoolHandle_st *pool) {
    size_t most = acre__soft.config.bytes;
    if (pool->props.maxSize && pool->props.maxSize < most)
        most = acre__round_up(pool->props.maxSize, SOFT_CHUNK_BYTES);
    struct soft_backing *backing;
    struct soft_segment *segment;
    CUresult result =
        acre__soft_backing_create_shared(&acre__soft.devices[pool->device], most, &backing);
    if (result)
        return result;
    if ((result = acre__soft_segment_make(pool, backing, &segment)))
        acre__soft_backing_drop(backing);
    return result;
}

CUresult acre__soft_cuMemPoolCreate(CUmemoryPool *pool_out, const CUmemPoolProps *props) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    struct CUmemPoolHandle_st *pool;
    if (!pool_out)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if ((result = props_check(props)) || (result = acre__soft_pool_make(props, &pool)))
        return acre__soft_leave(result);
    if (soft_pool_is_shared(pool) && (result = shared_begin(pool)))
        acre__soft_pool_end(pool);
    else
        *pool_out = pool;
    return acre__soft_leave(result);
}

CUresult acre__soft_cuMemPoolDestroy(CUmemoryPool handle) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    struct CUmemPoolHandle_st *pool = acre__soft_pool_find(handle);
    if (!pool || pool->is_default)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    pool->is_destroyed = 1;
    if (acre__soft.devices[pool->device].current_pool == pool)
        acre__soft.devices[pool->device].current_pool = NULL;
    acre__soft_pools_tend();
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuMemPoolTrimTo(CUmemoryPool handle, size_t keep_bytes) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    struct CUmemPoolHandle_st *pool = acre__soft_pool_find(handle);
    if (!pool)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    acre__soft_pool_trim(pool, keep_bytes);
    return acre__soft_leave(CUDA_SUCCESS);
}

/* ---- attributes ---- */

/* Finds the field of an attribute: sets *flag or *bytes, or neither for an unknown attribute. */
static void attribute_find(struct CUmemPoolHandle_st *pool, CUmemPool_attribute attribute,
                           int **flag, uint64_t **bytes) {
    int *flags[] = {&pool->may_follow, &pool->may_be_opportunistic, &pool->may_depend};
    uint64_t *words[] = {&pool->threshold, &pool->reserved_bytes, &pool->reserved_high,
                         &pool->used_bytes, &pool->used_high};
    int index = (int)attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES;
    *flag = index >= 0 && index < 3 ? flags[index] : NULL;
    *bytes = index >= 3 && index < 8 ? words[index - 3] : NULL;
}

CUresult acre__soft_cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute,
                                          void *value_out) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    struct CUmemPoolHandle_st *pool = acre__soft_pool_find(handle);
    if (!pool || !value_out)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    int *flag;
    uint64_t *bytes;
    attribute_find(pool, attribute, &flag, &bytes);
    if (flag)
        memcpy(value_out, flag, sizeof *flag);
    else if (bytes)
        memcpy(value_out, bytes, sizeof *bytes);
    else
        result = CUDA_ERROR_INVALID_VALUE;
    return acre__soft_leave(result);
}

/* A high-water mark can only be set to 0, which resets it to the current value. */
static CUresult high_reset(uint64_t *high, uint64_t now, const void *value) {
    uint64_t zero;
    memcpy(&zero, value, sizeof zero);
    if (zero)
        return CUDA_ERROR_INVALID_VALUE;
    *high = now;
    return CUDA_SUCCESS;
}

CUresult acre__soft_cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute,
                                          void *value) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    struct CUmemPoolHandle_st *pool = acre__soft_pool_find(handle);
    if (!pool || !value)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    int *flag;
    uint64_t *bytes;
    attribute_find(pool, attribute, &flag, &bytes);
    if (flag) {
        memcpy(flag, value, sizeof *flag);
        *flag = *flag != 0;
    } else if (bytes == &pool->threshold) {
        memcpy(bytes, value, sizeof *bytes);
    } else if (bytes == &pool->reserved_high) {
        result = high_reset(bytes, pool->reserved_bytes, value);
    } else if (bytes == &pool->used_high) {
        result = high_reset(bytes, pool->used_bytes, value);
    } else {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    return acre__soft_leave(result);
}

/* ---- access ---- */

/* Checks the whole list before any of it takes effect. */
static CUresult access_check(const struct CUmemPoolHandle_st *pool, const CUmemAccessDesc *desc,
                             size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
            return CUDA_ERROR_NOT_SUPPORTED;
        if (!acre__soft_device_at(desc[i].location.id))
            return CUDA_ERROR_INVALID_DEVICE;
        if (desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
            desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
            desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            return CUDA_ERROR_INVALID_VALUE;
        /* The device that owns the memory can always access it. */
        if (desc[i].location.id == pool->device &&
            desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            return CUDA_ERROR_INVALID_DEVICE;
    }
    return CUDA_SUCCESS;
}

CUresult acre__soft_cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *desc,
                                       size_t count) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    struct CUmemPoolHandle_st *pool = acre__soft_pool_find(handle);
    if (!pool || (!desc && count))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if ((result = access_check(pool, desc, count)))
        return acre__soft_leave(result);
    unsigned char before[ACRE__SOFT_DEVICES_MAX];
    memcpy(before, pool->access, sizeof before);
    for (size_t i = 0; i < count; i++)
        pool->access[desc[i].location.id] = (unsigned char)desc[i].flags;
    if (!acre__soft_views_update()) {
        memcpy(pool->access, before, sizeof before);
        (void)acre__soft_views_update();
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return acre__soft_leave(result);
}

CUresult acre__soft_cuMemPoolGetAccess(CUmemAccess_flags *flags_out, CUmemoryPool handle,
                                       CUmemLocation *location) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    const struct CUmemPoolHandle_st *pool = acre__soft_pool_find(handle);
    if (!flags_out || !pool || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
        !acre__soft_device_at(location->id))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    *flags_out = (CUmemAccess_flags)pool->access[location->id];
    return acre__soft_leave(CUDA_SUCCESS);
}
