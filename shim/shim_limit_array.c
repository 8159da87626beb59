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

int acre__limit_take_array(uint64_t bytes) {
    CUcontext ctx = NULL; /* without one the driver refuses the call with an error of its own */
    return acre__limit.inner->cuCtxGetCurrent(&ctx) || !ctx || acre__limit_take(bytes);
}

/* Notes the context that the array ends with. */
static void array_find_context(struct limit_array *array) {
    const struct acre__driver *drv = acre__limit.inner;
    CUcontext primary = NULL;
    CUdevice dev = -1;
    array->primary_of = -1;
    if (drv->cuCtxGetCurrent(&array->ctx) || drv->cuCtxGetDevice(&dev) ||
        drv->cuDevicePrimaryCtxRetain(&primary, dev))
        return;
    (void)drv->cuDevicePrimaryCtxRelease(dev);
    if (primary == array->ctx)
        array->primary_of = dev;
}

static void array_insert(struct limit_array *array) {
    pthread_mutex_lock(&acre__limit.lock);
    struct limit_array *stale = array_of(acre__tree_find(&acre__limit.arrays, array->node.key));
    if (stale) { /* the driver has used the handle again */
        acre__tree_remove(&acre__limit.arrays, &stale->node);
        acre__limit_give(stale->bytes);
    }
    acre__tree_insert(&acre__limit.arrays, &array->node);
    pthread_mutex_unlock(&acre__limit.lock);
    free(stale);
}

/* Without memory for a record the bytes stay charged. */
void acre__limit_made_array(void *handle, uint64_t bytes) {
    struct limit_array *array = handle && bytes ? calloc(1, sizeof *array) : NULL;
    if (!handle)
        acre__limit_give(bytes);
    if (!array)
        return;
    array->node.key = (uintptr_t)handle;
    array->bytes = bytes;
    array_find_context(array);
    array_insert(array);
}

void acre__limit_freed_array(const void *handle) {
    pthread_mutex_lock(&acre__limit.lock);
    struct limit_array *array = array_of(acre__tree_find(&acre__limit.arrays, (uintptr_t)handle));
    if (array) {
        acre__tree_remove(&acre__limit.arrays, &array->node);
        acre__limit_give(array->bytes);
    }
    pthread_mutex_unlock(&acre__limit.lock);
    free(array);
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
        acre__limit.graph_bytes[dev] = 0;
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

void acre__limit_settle_graphs(void) {
    uint64_t now = 0;
    CUdevice dev;
    if (acre__limit.inner->cuCtxGetDevice(&dev) || dev < 0 || dev >= LIMIT_DEVICES ||
        !graphs_reserved(dev, &now))
        return;
    pthread_mutex_lock(&acre__limit.lock);
    uint64_t *charged = &acre__limit.graph_bytes[dev];
    if (now > *charged)
        acre__limit_force(now - *charged);
    else
        acre__limit_give(*charged - now);
    *charged = now;
    pthread_mutex_unlock(&acre__limit.lock);
}
