/* Memory regions of NVTX: see regions.h. The heaps are in a tree by address, under a leaf lock. */
#include "watch/regions.h"

#include <stdlib.h>

#include "base/config.h"
#include "base/lock.h"
#include "base/status.h"
#include "base/tree.h"
#include "watch/trace.h"

_Atomic int acre__regions_on;

#if defined(ACRE_HAVE_NVTX) && ACRE_HAVE_NVTX
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtMem.h>

struct heap {
    struct acre__node node; /* key: address */
    size_t bytes;
    nvtxMemHeapHandle_t handle;
};

static struct {
    struct acre__lock lock;
    struct acre__tree heaps;
    nvtxDomainHandle_t domain;
} regions = {.lock = ACRE__LOCK_INIT("regions", ACRE__RANK_LEAF)};

static acre_status regions_start(void) {
    regions.domain = nvtxDomainCreateA("acre");
    return ACRE_OK;
}

void acre__regions_add_heap(const void *p, size_t bytes) {
    if (!acre__regions_are_on())
        return;
    nvtxMemVirtualRangeDesc_t range = {.size = bytes, .ptr = p};
    nvtxMemHeapDesc_t desc = {.extCompatID = NVTX_EXT_COMPATID_MEM,
                              .structSize = sizeof desc,
                              .usage = NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR,
                              .type = NVTX_MEM_TYPE_VIRTUAL_ADDRESS,
                              .typeSpecificDescSize = sizeof range,
                              .typeSpecificDesc = &range,
                              .messageType = NVTX_MESSAGE_TYPE_ASCII,
                              .message.ascii = "memory of acre's pools"};
    struct heap *heap = calloc(1, sizeof *heap);
    if (!heap)
        return; /* its blocks are not checked */
    heap->node.key = (uintptr_t)p;
    heap->bytes = bytes;
    heap->handle = nvtxMemHeapRegister(regions.domain, &desc);
    acre__lock_take(&regions.lock);
    int is_added = acre__tree_insert(&regions.heaps, &heap->node);
    acre__lock_give(&regions.lock);
    if (!is_added)
        free(heap);
}

void acre__regions_end_heap(const void *p) {
    if (!acre__regions_are_on())
        return;
    acre__lock_take(&regions.lock);
    struct heap *heap =
        acre__tree_entry(acre__tree_find(&regions.heaps, (uintptr_t)p), struct heap, node);
    if (heap)
        acre__tree_remove(&regions.heaps, &heap->node);
    acre__lock_give(&regions.lock);
    if (heap)
        nvtxMemHeapUnregister(regions.domain, heap->handle);
    free(heap);
}

/* Finds the heap of a block. Returns 0 if it is in none. */
static int heap_find(const void *p, nvtxMemHeapHandle_t *handle) {
    acre__lock_take(&regions.lock);
    struct heap *heap =
        acre__tree_entry(acre__tree_floor(&regions.heaps, (uintptr_t)p), struct heap, node);
    int is_found = heap && (uintptr_t)p - heap->node.key < heap->bytes;
    if (is_found)
        *handle = heap->handle;
    acre__lock_give(&regions.lock);
    return is_found;
}

static void region_add(const void *p, size_t bytes) {
    nvtxMemHeapHandle_t heap;
    if (!heap_find(p, &heap))
        return;
    nvtxMemVirtualRangeDesc_t range = {.size = bytes, .ptr = p};
    nvtxMemRegionsRegisterBatch_t batch = {.extCompatID = NVTX_EXT_COMPATID_MEM,
                                           .structSize = sizeof batch,
                                           .regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS,
                                           .heap = heap,
                                           .regionCount = 1,
                                           .regionDescElementSize = sizeof range,
                                           .regionDescElements = &range};
    nvtxMemRegionsRegister(regions.domain, &batch);
}

static void region_resize(const void *p, size_t bytes) {
    nvtxMemHeapHandle_t heap;
    if (!heap_find(p, &heap))
        return;
    nvtxMemVirtualRangeDesc_t range = {.size = bytes, .ptr = p};
    nvtxMemRegionsResizeBatch_t batch = {.extCompatID = NVTX_EXT_COMPATID_MEM,
                                         .structSize = sizeof batch,
                                         .regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS,
                                         .regionDescCount = 1,
                                         .regionDescElementSize = sizeof range,
                                         .regionDescElements = &range};
    nvtxMemRegionsResize(regions.domain, &batch);
}

static void region_end(const void *p) {
    nvtxMemHeapHandle_t heap;
    if (!heap_find(p, &heap))
        return;
    nvtxMemRegionRef_t region = {.pointer = p};
    nvtxMemRegionsUnregisterBatch_t batch = {.extCompatID = NVTX_EXT_COMPATID_MEM,
                                             .structSize = sizeof batch,
                                             .refType = NVTX_MEM_REGION_REF_TYPE_POINTER,
                                             .refCount = 1,
                                             .refElementSize = sizeof region,
                                             .refElements = &region};
    nvtxMemRegionsUnregister(regions.domain, &batch);
}

void acre__regions_change(const void *before, const void *p, size_t bytes) {
    if (before == p) {
        region_resize(p, bytes);
        return;
    }
    if (before)
        region_end(before);
    if (p)
        region_add(p, bytes);
}

#else /* without NVTX */

static acre_status regions_start(void) {
    return acre__fail(ACRE_E_CONFIG, "ACRE_SANITIZE: this acre was built without NVTX, which comes "
                                     "with the CUDA toolkit");
}

void acre__regions_add_heap(const void *p, size_t bytes) {
    (void)p, (void)bytes;
}
void acre__regions_end_heap(const void *p) {
    (void)p;
}
void acre__regions_change(const void *before, const void *p, size_t bytes) {
    (void)before, (void)p, (void)bytes;
}

#endif

acre_status acre__regions_begin(void) {
    int is_wanted = 0;
    acre_status status = acre__config_flag(ACRE__CONFIG_SANITIZE, 0, &is_wanted);
    if (status || !is_wanted || acre__regions_are_on())
        return status;
    status = regions_start();
    if (status == ACRE_OK) {
        atomic_store_explicit(&acre__regions_on, 1, memory_order_relaxed);
        acre__watch_add(ACRE__WATCHED_REGIONS);
    }
    return status;
}
