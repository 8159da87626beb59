/* The limit of arrays and of memory for graphs; see shim_limit.h. */
#include <stdlib.h>
#include <string.h>

#include "elf_find.h"
#include "shim.h"
#include "shim_limit.h"
#include "shim_limit_records.h"

static struct limit_array *array_of(struct acre__node *node) {
    return acre__tree_entry(node, struct limit_array, node);
}

/* ---- arrays ---- */

/* Returns 1 if the context is the primary one of the device, without creating that. */
static int array_is_primary(CUcontext ctx, CUdevice dev) {
    const struct acre__driver *drv = acre__limit.inner;
    CUcontext primary = NULL;
    unsigned int flags = 0;
    int is_active = 0;
    if (drv->cuDevicePrimaryCtxGetState(dev, &flags, &is_active) || !is_active ||
        drv->cuDevicePrimaryCtxRetain(&primary, dev))
        return 0;
    (void)drv->cuDevicePrimaryCtxRelease(dev);
    return primary == ctx;
}

struct limit_array *acre__limit_begin_array(uint64_t bytes, int *is_refused) {
    const struct acre__driver *drv = acre__limit.inner;
    CUdevice dev = -1;
    CUcontext ctx = NULL;
    *is_refused = 0;
    if (!bytes || drv->cuCtxGetCurrent(&ctx) || !ctx)
        return NULL; /* the driver refuses the call with an error of its own, or it costs nothing */
    struct limit_array *array = calloc(1, sizeof *array);
    if (!array || !acre__limit_take(bytes)) {
        *is_refused = 1;
        free(array);
        return NULL;
    }
    array->bytes = bytes;
    array->ctx = ctx;
    array->primary_of = !drv->cuCtxGetDevice(&dev) && array_is_primary(ctx, dev) ? dev : -1;
    return array;
}

/* Puts a record into the tree. One that is there already is stale: the driver has used the handle
 * again. */
static void array_insert(struct limit_array *array) {
    pthread_mutex_lock(&acre__limit.lock);
    struct limit_array *stale = array_of(acre__tree_find(&acre__limit.arrays, array->node.key));
    if (stale) {
        acre__tree_remove(&acre__limit.arrays, &stale->node);
        acre__limit_give(stale->bytes);
    }
    acre__tree_insert(&acre__limit.arrays, &array->node);
    pthread_mutex_unlock(&acre__limit.lock);
    free(stale);
}

static void array_refund(struct limit_array *array) {
    acre__limit_give(array->bytes);
    free(array);
}

void acre__limit_made_array(struct limit_array *array, void *handle) {
    if (!array)
        return;
    array->node.key = (uintptr_t)handle;
    if (handle)
        array_insert(array);
    else
        array_refund(array);
}

struct limit_array *acre__limit_take_out_array(const void *handle) {
    pthread_mutex_lock(&acre__limit.lock);
    struct limit_array *array = array_of(acre__tree_find(&acre__limit.arrays, (uintptr_t)handle));
    if (array)
        acre__tree_remove(&acre__limit.arrays, &array->node);
    pthread_mutex_unlock(&acre__limit.lock);
    return array;
}

void acre__limit_ended_array(struct limit_array *array, int is_destroyed) {
    if (array && is_destroyed)
        array_refund(array);
    else if (array)
        array_insert(array);
}

void acre__limit_end_arrays(CUcontext ctx, CUdevice dev) {
    struct acre__node *next, *node = acre__tree_first(&acre__limit.arrays);
    for (; node; node = next) {
        struct limit_array *array = array_of(node);
        next = acre__tree_next(&acre__limit.arrays, node);
        if (ctx ? array->ctx != ctx : array->primary_of != dev)
            continue;
        acre__tree_remove(&acre__limit.arrays, node);
        acre__limit_give(array->bytes);
        free(array);
    }
    if (dev >= 0 && dev < LIMIT_DEVICES) {
        acre__limit_give(acre__limit.graph_bytes[dev]);
        __atomic_store_n(&acre__limit.graph_bytes[dev], 0, __ATOMIC_RELAXED);
    }
}

/* ---- graphs ---- */

enum { LIMIT_GRAPH_RESERVED = 2 }; /* CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT */

/* Asks the driver for the memory that it has reserved for graphs. A driver before CUDA 11.4 cannot
 * tell, and has none. */
static int graphs_reserved(CUdevice dev, uint64_t *bytes) {
    static _Atomic(void *) found;
    CUresult (*query)(CUdevice, int, void *);
    struct link_map library;
    void *address = found;
    if (!address && acre__shim_library("libcuda.so.1", &library))
        found = address = acre__elf_find(&library, "cuDeviceGetGraphMemAttribute");
    if (!address)
        return 0;
    memcpy(&query, &address, sizeof query);
    CUstreamCaptureMode mode = acre__limit_relax();
    CUresult result = query(dev, LIMIT_GRAPH_RESERVED, bytes);
    acre__limit_restore(mode);
    return result == CUDA_SUCCESS;
}

/* Makes the charge of a device what the driver has reserved. With the lock held. */
static void graphs_settle(CUdevice dev) {
    uint64_t now = 0, *charged = &acre__limit.graph_bytes[dev];
    if (!graphs_reserved(dev, &now))
        return;
    if (now > *charged)
        acre__limit_force(now - *charged);
    else
        acre__limit_give(*charged - now);
    __atomic_store_n(charged, now, __ATOMIC_RELAXED);
}

/* A graph may use another device than the current one; that is charged with the first graph that is
 * launched while it is current. */
void acre__limit_settle_graphs(void) {
    CUdevice current;
    if (acre__limit.inner->cuCtxGetDevice(&current))
        current = -1;
    pthread_mutex_lock(&acre__limit.lock);
    for (CUdevice dev = 0; dev < LIMIT_DEVICES; dev++) {
        if (dev == current || acre__limit.graph_bytes[dev])
            graphs_settle(dev);
    }
    pthread_mutex_unlock(&acre__limit.lock);
}

void acre__limit_shrink_graphs(void) {
    int is_charged = 0;
    for (CUdevice dev = 0; dev < LIMIT_DEVICES && !is_charged; dev++)
        is_charged = __atomic_load_n(&acre__limit.graph_bytes[dev], __ATOMIC_RELAXED) != 0;
    if (is_charged)
        acre__limit_settle_graphs();
}
