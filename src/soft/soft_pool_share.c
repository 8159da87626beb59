/* Sharing of pools between processes.
 *
 * A pool that was created with file descriptors as handle type has its memory in one file, and the
 * descriptor exports that file. An exported pointer is plain data, which any process could have
 * forged. It names the file and an offset in it, and an import checks that both are inside the
 * file. An imported pool maps the whole file at its own addresses. Nothing can be allocated from
 * it. Freeing imported memory only removes it from this process. Guarded by acre__soft.lock. */
#include <fcntl.h>
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

/* Content of the 64 bytes of CUmemPoolPtrExportData. */
struct exported {
    char mark[8];
    uint64_t file; /* inode */
    uint64_t offset, bytes;
};

static const char exported_mark[8] = "acre-ptr";

_Static_assert(sizeof(struct exported) <= sizeof(CUmemPoolPtrExportData), "must fit in there");

CUresult acre__soft_cuMemPoolExportToShareableHandle(void *shareable_out, CUmemoryPool handle,
                                                     CUmemAllocationHandleType type,
                                                     unsigned long long flags) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    const struct CUmemPoolHandle_st *pool = acre__soft_pool_find(handle);
    if (!shareable_out || !pool || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        !soft_pool_is_shared(pool) || pool->is_imported)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    int fd = fcntl(pool->segments->backing->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return acre__soft_leave(CUDA_ERROR_OPERATING_SYSTEM);
    memcpy(shareable_out, &fd, sizeof fd);
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *shareable,
                                                       CUmemAllocationHandleType type,
                                                       unsigned long long flags) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    struct soft_backing *backing;
    struct CUmemPoolHandle_st *pool;
    struct soft_segment *segment;
    if (!pool_out || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if ((result = acre__soft_backing_from_pool_fd((int)(intptr_t)shareable, &backing)))
        return acre__soft_leave(result);
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, backing->device}};
    if ((result = acre__soft_pool_make(&props, &pool))) {
        acre__soft_backing_drop(backing);
        return acre__soft_leave(result);
    }
    pool->is_imported = 1;
    if ((result = acre__soft_segment_make(pool, backing, &segment))) {
        acre__soft_backing_drop(backing);
        acre__soft_pool_end(pool);
        return acre__soft_leave(result);
    }
    segment->bytes = backing->bytes;
    *pool_out = pool;
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuMemPoolExportPointer(CUmemPoolPtrExportData *data_out, CUdeviceptr ptr) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    const struct soft_range *range = acre__soft_range_find(ptr);
    if (!data_out || !range || range->node.key != ptr || !range->pool ||
        !soft_pool_is_shared(range->pool) || range->pool->is_imported)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    struct exported exported = {
        .file = range->backing->file.key, .offset = range->offset, .bytes = range->bytes};
    memcpy(exported.mark, exported_mark, sizeof exported.mark);
    memset(data_out, 0, sizeof *data_out);
    memcpy(data_out, &exported, sizeof exported);
    return acre__soft_leave(CUDA_SUCCESS);
}

static int exported_is_good(const struct exported *exported, const struct soft_backing *backing) {
    return memcmp(exported->mark, exported_mark, sizeof exported->mark) == 0 &&
           exported->file == backing->file.key && exported->bytes &&
           exported->offset % SOFT_POOL_UNIT == 0 && exported->offset < backing->bytes &&
           exported->bytes <= backing->bytes - exported->offset;
}

/* Returns 1 if this process has already imported any of the addresses. */
static int is_imported(uint64_t address, size_t bytes) {
    const struct acre__node *next = acre__tree_ceil(&acre__soft.ranges, address);
    return acre__soft_range_find(address) || (next && next->key < address + bytes);
}

CUresult acre__soft_cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool handle,
                                           CUmemPoolPtrExportData *data) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    struct CUmemPoolHandle_st *pool = acre__soft_pool_find(handle);
    struct exported exported;
    if (!ptr_out || !pool || !data || !pool->is_imported)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    struct soft_segment *segment = pool->segments;
    memcpy(&exported, data, sizeof exported);
    if (!exported_is_good(&exported, segment->backing))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    uint64_t address = segment->node.key + exported.offset;
    size_t whole = acre__round_up(exported.bytes, SOFT_POOL_UNIT);
    if (is_imported(address, whole))
        return acre__soft_leave(CUDA_ERROR_ALREADY_MAPPED);
    struct soft_range *range;
    result = acre__soft_range_add(SOFT_POOLED, address, exported.bytes, pool->device,
                                  segment->backing, exported.offset, &range);
    if (result)
        return acre__soft_leave(result);
    acre__soft_backing_keep(segment->backing);
    range->pool = pool;
    pool->live_count++;
    acre__soft_pool_count(pool, (int64_t)whole, (int64_t)whole);
    *ptr_out = address;
    return acre__soft_leave(CUDA_SUCCESS);
}
