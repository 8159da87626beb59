/* Views: device memory mapped at its device addresses while kernels run.
 *
 * Kernels of the soft device are C functions of this process and dereference device pointers
 * directly. So while a kernel of a device runs, the memory that the device can access is mapped at
 * its addresses with that access. When no kernel runs, the same pages are PROT_NONE, and a host
 * that dereferences a device pointer faults, as with a GPU. The first kernel maps the pages, and
 * they stay mapped. After that, opening or hiding a run of neighbours is one mprotect, which keeps
 * the page tables. Memory that is mapped, or gets access, while a kernel runs is accessible at
 * once.
 *
 * The protection is per process, not per thread: while a kernel runs, host threads can access what
 * it can access. Guarded by acre__soft.lock. */
#include <sys/mman.h>

#include "base/log.h"
#include "soft/soft_pool_types.h"
#include "soft/soft_state.h"
#include "soft/soft_view.h"

/* Adjacent views that get the same protection, which is not set yet. */
struct run {
    uint64_t begin, end;
    int protection;
};

static int run_flush(struct run *run) {
    int is_done = run->begin == run->end || mprotect((void *)(uintptr_t)run->begin,
                                                     run->end - run->begin, run->protection) == 0;
    run->begin = run->end = 0;
    return is_done;
}

static int run_add(struct run *run, uint64_t address, size_t bytes, int protection) {
    int is_done = 1;
    if (run->end != address || run->protection != protection) {
        is_done = run_flush(run);
        *run = (struct run){address, address, protection};
    }
    run->end += bytes;
    return is_done;
}

/* Maps the backing's pages at the address. */
static int view_place(uint64_t address, const struct soft_backing *backing, size_t bytes,
                      int protection) {
    int fd = backing->fd >= 0 ? backing->fd : acre__soft.devices[backing->device].fd;
    off_t offset = backing->fd >= 0 ? 0 : (off_t)backing->file_offset;
    return mmap((void *)(uintptr_t)address, bytes, protection,
                MAP_FIXED | MAP_SHARED | MAP_NORESERVE, fd, offset) != MAP_FAILED;
}

/* Updates one view. Compares aliases because an exported chunk moves to another file, which changes
 * its alias. */
static int view_set(struct soft_view *view, uint64_t address, size_t bytes,
                    const struct soft_backing *backing, int protection, struct run *run) {
    int is_placed = view->shown == backing->alias;
    if ((!view->shown && protection == PROT_NONE) || (is_placed && view->protection == protection))
        return 1;
    if (!is_placed && !view_place(address, backing, bytes, protection))
        return 0;
    view->shown = backing->alias;
    view->protection = protection;
    return is_placed ? run_add(run, address, bytes, protection) : 1;
}

int acre__soft_view_end(struct soft_view *view, uint64_t address, size_t bytes) {
    if (!view->shown)
        return 1;
    if (mmap((void *)(uintptr_t)address, bytes, PROT_NONE,
             MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED)
        return 0;
    *view = (struct soft_view){0};
    return 1;
}

/* ---- access ---- */

static int access_protection(unsigned access) {
    return access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? PROT_READ | PROT_WRITE
           : access == CU_MEM_ACCESS_FLAGS_PROT_READ    ? PROT_READ
                                                        : PROT_NONE;
}

static int mapping_protection(const unsigned char *access, unsigned host_access) {
    int protection = access_protection(host_access);
    for (uint32_t i = 0; i < acre__soft.config.devices; i++)
        if (acre__soft.devices[i].kernels)
            protection |= access_protection(access[i]);
    return protection;
}

/* Plain memory is accessible to its device and to devices with a context that has enabled peer
 * access to it. */
static int plain_protection(int owner) {
    for (const struct CUctx_st *ctx = acre__soft.contexts; ctx; ctx = ctx->next)
        if (acre__soft.devices[ctx->device].kernels && (ctx->device == owner || ctx->peers[owner]))
            return PROT_READ | PROT_WRITE;
    return PROT_NONE;
}

int acre__soft_view_mapping(struct soft_mapping *mapping, const unsigned char *access,
                            unsigned host_access) {
    struct run run = {0};
    return view_set(&mapping->view, mapping->node.key, mapping->bytes, mapping->backing,
                    mapping_protection(access, host_access), &run) &&
           run_flush(&run);
}

int acre__soft_view_plain(struct soft_view *view, uint64_t address,
                          const struct soft_backing *backing) {
    struct run run = {0};
    return view_set(view, address, backing->bytes, backing, plain_protection(backing->device),
                    &run) &&
           run_flush(&run);
}

int acre__soft_view_segment(struct soft_segment *segment) {
    struct run run = {0};
    return view_set(&segment->view, segment->node.key, segment->backing->bytes, segment->backing,
                    mapping_protection(segment->pool->access, 0), &run) &&
           run_flush(&run);
}

/* ---- all views ---- */

static int views_of_mappings(struct run *run) {
    int is_done = 1;
    struct acre__node *node = acre__tree_first(&acre__soft.mappings);
    for (; node; node = acre__tree_next(&acre__soft.mappings, node)) {
        struct soft_mapping *mapping = acre__tree_entry(node, struct soft_mapping, node);
        is_done &= view_set(&mapping->view, node->key, mapping->bytes, mapping->backing,
                            mapping_protection(mapping->access, mapping->host_access), run);
    }
    return is_done;
}

static int views_of_plain(struct run *run) {
    int is_done = 1;
    struct acre__node *node = acre__tree_first(&acre__soft.ranges);
    for (; node; node = acre__tree_next(&acre__soft.ranges, node)) {
        struct soft_range *range = acre__tree_entry(node, struct soft_range, node);
        if (soft_range_is_large(range))
            is_done &= view_set(&range->view, node->key, range->backing->bytes, range->backing,
                                plain_protection(range->device), run);
    }
    for (const struct CUctx_st *ctx = acre__soft.contexts; ctx; ctx = ctx->next)
        for (struct soft_slab *slab = ctx->slabs; slab; slab = slab->next)
            is_done &= view_set(&slab->view, slab->address, SOFT_CHUNK_BYTES, slab->backing,
                                plain_protection(ctx->device), run);
    return is_done;
}

static int views_of_pools(struct run *run) {
    int is_done = 1;
    struct acre__node *node = acre__tree_first(&acre__soft.segments);
    for (; node; node = acre__tree_next(&acre__soft.segments, node)) {
        struct soft_segment *segment = acre__tree_entry(node, struct soft_segment, node);
        is_done &= view_set(&segment->view, node->key, segment->backing->bytes, segment->backing,
                            mapping_protection(segment->pool->access, 0), run);
    }
    return is_done;
}

int acre__soft_views_update(void) {
    struct run run = {0};
    return views_of_mappings(&run) & views_of_plain(&run) & views_of_pools(&run) & run_flush(&run);
}

int acre__soft_views_open(struct soft_device *device) {
    return device->kernels++ || acre__soft_views_update();
}

void acre__soft_views_close(struct soft_device *device) {
    if (--device->kernels == 0 && !acre__soft_views_update())
        acre__log(ACRE_LOG_WARN, "soft",
                  "the system refused to protect device memory: the host can still access it");
}
