/* A tool behind NVTX, as compute-sanitizer is one: keeps the heaps and regions that are registered,
 * for test_regions.c, which asks for them. */
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtMem.h>

#define TOOL_EXPORT __attribute__((visibility("default")))

enum { TOOL_MOST = 4096 };

static struct {
    pthread_mutex_t lock;
    nvtxMemVirtualRangeDesc_t heaps[TOOL_MOST], regions[TOOL_MOST];
    unsigned heap_count, region_count, wrong;
} tool = {.lock = PTHREAD_MUTEX_INITIALIZER};

TOOL_EXPORT int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t *info);
TOOL_EXPORT unsigned tool_heaps(void);
TOOL_EXPORT unsigned tool_regions(void);
TOOL_EXPORT unsigned tool_wrong(void);
TOOL_EXPORT size_t tool_bytes(const void *p);

static int find(const nvtxMemVirtualRangeDesc_t *list, unsigned count, const void *p) {
    for (unsigned i = 0; i < count; i++)
        if (list[i].ptr == p)
            return (int)i;
    return -1;
}

static int is_in(const nvtxMemVirtualRangeDesc_t *outer, const nvtxMemVirtualRangeDesc_t *inner) {
    uintptr_t offset = (uintptr_t)inner->ptr - (uintptr_t)outer->ptr;
    return offset < outer->size && inner->size <= outer->size - offset;
}

/* ---- the functions behind NVTX ---- */

static nvtxMemHeapHandle_t add_heap(nvtxDomainHandle_t domain, const nvtxMemHeapDesc_t *desc) {
    (void)domain;
    const nvtxMemVirtualRangeDesc_t *range = desc->typeSpecificDesc;
    pthread_mutex_lock(&tool.lock);
    tool.heaps[tool.heap_count++] = *range;
    pthread_mutex_unlock(&tool.lock);
    return (nvtxMemHeapHandle_t)(uintptr_t)range->ptr;
}

/* The regions of a heap end with it. */
static void end_heap(nvtxDomainHandle_t domain, nvtxMemHeapHandle_t heap) {
    (void)domain;
    pthread_mutex_lock(&tool.lock);
    int at = find(tool.heaps, tool.heap_count, heap);
    tool.wrong += at < 0;
    for (unsigned i = 0; at >= 0 && i < tool.region_count;) {
        if (is_in(&tool.heaps[at], &tool.regions[i]))
            tool.regions[i] = tool.regions[--tool.region_count];
        else
            i++;
    }
    if (at >= 0)
        tool.heaps[at] = tool.heaps[--tool.heap_count];
    pthread_mutex_unlock(&tool.lock);
}

static void add_regions(nvtxDomainHandle_t domain, const nvtxMemRegionsRegisterBatch_t *batch) {
    (void)domain;
    const nvtxMemVirtualRangeDesc_t *range = batch->regionDescElements;
    pthread_mutex_lock(&tool.lock);
    int heap = find(tool.heaps, tool.heap_count, batch->heap);
    tool.wrong += batch->regionCount != 1 || heap < 0 || !is_in(&tool.heaps[heap], range) ||
                  find(tool.regions, tool.region_count, range->ptr) >= 0;
    if (tool.region_count < TOOL_MOST)
        tool.regions[tool.region_count++] = *range;
    pthread_mutex_unlock(&tool.lock);
}

static void resize_regions(nvtxDomainHandle_t domain, const nvtxMemRegionsResizeBatch_t *batch) {
    (void)domain;
    const nvtxMemVirtualRangeDesc_t *range = batch->regionDescElements;
    pthread_mutex_lock(&tool.lock);
    int at = find(tool.regions, tool.region_count, range->ptr);
    if (at >= 0)
        tool.regions[at].size = range->size;
    tool.wrong += at < 0;
    pthread_mutex_unlock(&tool.lock);
}

static void end_regions(nvtxDomainHandle_t domain, const nvtxMemRegionsUnregisterBatch_t *batch) {
    (void)domain;
    pthread_mutex_lock(&tool.lock);
    int at = find(tool.regions, tool.region_count, batch->refElements[0].pointer);
    if (at >= 0)
        tool.regions[at] = tool.regions[--tool.region_count];
    tool.wrong += at < 0;
    pthread_mutex_unlock(&tool.lock);
}

/* ---- for NVTX, and for the test ---- */

int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t *info) {
    if (info->moduleId != NVTX_EXT_MODULEID_MEM || !info->segmentsCount)
        return 0;
    intptr_t *slots = info->segments[0].functionSlots;
    slots[NVTX3EXT_CBID_nvtxMemHeapRegister] = (intptr_t)add_heap;
    slots[NVTX3EXT_CBID_nvtxMemHeapUnregister] = (intptr_t)end_heap;
    slots[NVTX3EXT_CBID_nvtxMemRegionsRegister] = (intptr_t)add_regions;
    slots[NVTX3EXT_CBID_nvtxMemRegionsResize] = (intptr_t)resize_regions;
    slots[NVTX3EXT_CBID_nvtxMemRegionsUnregister] = (intptr_t)end_regions;
    return 1;
}

unsigned tool_heaps(void) {
    return tool.heap_count;
}
unsigned tool_regions(void) {
    return tool.region_count;
}
unsigned tool_wrong(void) {
    return tool.wrong;
}

/* The bytes of the region at `p`; 0 if there is none. */
size_t tool_bytes(const void *p) {
    pthread_mutex_lock(&tool.lock);
    int at = find(tool.regions, tool.region_count, p);
    size_t bytes = at < 0 ? 0 : tool.regions[at].size;
    pthread_mutex_unlock(&tool.lock);
    return bytes;
}
