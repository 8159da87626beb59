/* Managed memory: pages that the host and devices can access at any time. A migration is a no-op
 * here, but advice and prefetches are recorded per page. A range with advice is a list of parts,
 * each with the same advice. Parts are never merged: there are as many as places where advice began
 * or ended. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/round.h"
#include "soft/soft_api.h"
#include "soft/soft_capture.h"
#include "soft/soft_enter.h"
#include "soft/soft_memory.h"
#include "soft/soft_op.h"
#include "soft/soft_queue.h"
#include "soft/soft_state.h"
#include "soft/soft_stream.h"
#include "soft/soft_thread.h"

CUresult acre__soft_cuMemAllocManaged(CUdeviceptr *ptr_out, size_t bytes, unsigned flags) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    if (!ptr_out || !bytes || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if ((result = acre__soft_capture_refuse()))
        return acre__soft_leave(result);
    uint64_t address;
    result = acre__soft_pages_make(acre__soft_ctx_now(), SOFT_MANAGED, bytes, flags, &address);
    if (!result)
        *ptr_out = address;
    return acre__soft_leave(result);
}

/* Returns the managed range that contains [ptr, ptr + bytes), or NULL. */
static struct soft_range *managed_range(CUdeviceptr ptr, size_t bytes) {
    struct soft_range *range = acre__soft_range_find(ptr);
    if (!range || range->kind != SOFT_MANAGED || bytes > range->bytes - (ptr - range->node.key))
        return NULL;
    return range;
}

/* Checks a location for managed memory and normalises it: the current NUMA node becomes node 0, the
 * only one here. */
static CUresult location_check(CUmemLocation *location) {
    switch (location->type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        return acre__soft_device_at(location->id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST:
        location->id = 0;
        return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
        *location = (CUmemLocation){CU_MEM_LOCATION_TYPE_HOST_NUMA, 0};
        return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
        return location->id >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* ---- recorded advice ---- */

/* The host's bit in soft_advice.accessed_by. */
#define SOFT_HOST_BIT ((uint32_t)1 << ACRE__SOFT_DEVICES_MAX)
_Static_assert(ACRE__SOFT_DEVICES_MAX < 32, "devices and the host fit the bits of a part");

/* Returns the index of the part that contains the byte. */
static size_t advice_at(const struct soft_range *range, size_t offset) {
    size_t i = range->advice_count;
    while (range->advice[i - 1].begin > offset)
        i--;
    return i - 1;
}

/* Makes the byte the first of a part. The array has room for one more part. */
static size_t advice_split(struct soft_range *range, size_t offset) {
    size_t i = advice_at(range, offset);
    if (range->advice[i].begin == offset)
        return i;
    memmove(&range->advice[i + 1], &range->advice[i],
            (range->advice_count - i) * sizeof *range->advice);
    range->advice_count++;
    range->advice[i + 1].begin = offset;
    return i + 1;
}

/* Splits parts so that [*first, *end) are exactly the pages of [ptr, ptr + bytes). */
static CUresult advice_parts(struct soft_range *range, CUdeviceptr ptr, size_t bytes, size_t *first,
                             size_t *end) {
    struct soft_advice *grown =
        realloc(range->advice, (range->advice_count + 3) * sizeof *range->advice);
    if (!grown)
        return CUDA_ERROR_OUT_OF_MEMORY;
    range->advice = grown;
    if (!range->advice_count) {
        memset(&range->advice[0], 0, sizeof range->advice[0]);
        range->advice_count = 1;
    }
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t begin = (size_t)(ptr - range->node.key), stop = acre__round_up(begin + bytes, page);
    *first = advice_split(range, begin - begin % page);
    *end = stop >= range->bytes ? range->advice_count : advice_split(range, stop);
    return CUDA_SUCCESS;
}

static uint32_t location_bit(CUmemLocation location) {
    return location.type == CU_MEM_LOCATION_TYPE_DEVICE ? (uint32_t)1 << location.id
                                                        : SOFT_HOST_BIT;
}

static void advice_apply(struct soft_advice *part, CUmem_advise advice, CUmemLocation location) {
    switch (advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
        part->is_read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
        break;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
        part->preferred = location;
        break;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        part->preferred = (CUmemLocation){CU_MEM_LOCATION_TYPE_INVALID, 0};
        break;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
        part->accessed_by |= location_bit(location);
        break;
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
        part->accessed_by &= ~location_bit(location);
        break;
    }
}

static int location_is_same(CUmemLocation a, CUmemLocation b) {
    return a.type == b.type && a.id == b.id;
}

/* Returns the advice that all parts of [ptr, ptr + bytes) have in common. */
static struct soft_advice advice_common(const struct soft_range *range, CUdeviceptr ptr,
                                        size_t bytes) {
    const CUmemLocation none = {CU_MEM_LOCATION_TYPE_INVALID, 0};
    struct soft_advice common = {0};
    if (!range->advice_count)
        return common;
    size_t offset = (size_t)(ptr - range->node.key);
    size_t i = advice_at(range, offset), last = advice_at(range, offset + bytes - 1);
    for (common = range->advice[i]; i <= last; i++) {
        const struct soft_advice *part = &range->advice[i];
        common.is_read_mostly &= part->is_read_mostly;
        common.accessed_by &= part->accessed_by;
        if (!location_is_same(common.preferred, part->preferred))
            common.preferred = none;
        if (!location_is_same(common.prefetched, part->prefetched))
            common.prefetched = none;
    }
    return common;
}

/* Converts a location for the older attributes: a device, the host, or none. */
static int location_number(CUmemLocation location) {
    switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        return location.id;
    case CU_MEM_LOCATION_TYPE_INVALID:
        return CU_DEVICE_INVALID;
    default:
        return CU_DEVICE_CPU;
    }
}

/* Lists the devices in `accessed_by`, as many as fit, and fills the rest with CU_DEVICE_INVALID. */
static void put_accessed_by(int *out, size_t count, uint32_t accessed_by) {
    size_t done = 0;
    for (int i = 0; i < ACRE__SOFT_DEVICES_MAX && done < count; i++)
        if (accessed_by & (uint32_t)1 << i)
            out[done++] = i;
    if (accessed_by & SOFT_HOST_BIT && done < count)
        out[done++] = CU_DEVICE_CPU;
    while (done < count)
        out[done++] = CU_DEVICE_INVALID;
}

CUresult acre__soft_cuMemRangeGetAttribute(void *data_out, size_t data_bytes,
                                           CUmem_range_attribute attribute, CUdeviceptr ptr,
                                           size_t bytes) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    const struct soft_range *range = bytes ? managed_range(ptr, bytes) : NULL;
    int is_list = attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY;
    if (!data_out || !range || attribute < CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY ||
        attribute > CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID ||
        (is_list ? !data_bytes || data_bytes % sizeof(int) : data_bytes != sizeof(int)))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    struct soft_advice common = advice_common(range, ptr, bytes);
    int values[] = {
        [CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY] = common.is_read_mostly,
        [CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION] = location_number(common.preferred),
        [CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION] = location_number(common.prefetched),
        [CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE] = (int)common.preferred.type,
        [CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID] = common.preferred.id,
        [CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE] = (int)common.prefetched.type,
        [CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID] = common.prefetched.id};
    if (is_list)
        put_accessed_by(data_out, data_bytes / sizeof(int), common.accessed_by);
    else
        memcpy(data_out, &values[attribute], sizeof(int));
    return acre__soft_leave(CUDA_SUCCESS);
}

/* ---- advice and prefetches ---- */

/* Records the location at once: the attributes return the requested location, not the actual
 * one. */
CUresult acre__soft_cuMemPrefetchAsync(CUdeviceptr ptr, size_t bytes, CUmemLocation location,
                                       unsigned flags, CUstream handle) {
    struct soft_device *device;
    struct soft_stream *stream;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    struct soft_range *range = bytes ? managed_range(ptr, bytes) : NULL;
    if (flags || !range)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    size_t first, end;
    if ((result = location_check(&location)) ||
        (result = acre__soft_stream_find(handle, &stream)) ||
        (result = advice_parts(range, ptr, bytes, &first, &end)))
        return acre__soft_leave(result);
    struct soft_op *op = acre__soft_op_make(SOFT_NOTHING); /* host and devices share the pages */
    if (!op)
        return acre__soft_leave(CUDA_ERROR_OUT_OF_MEMORY);
    int is_captured = stream->capture == CU_STREAM_CAPTURE_STATUS_ACTIVE;
    result = acre__soft_submit(stream, op);
    for (; !result && !is_captured && first < end; first++)
        range->advice[first].prefetched = location;
    return acre__soft_leave(result);
}

CUresult acre__soft_cuStreamAttachMemAsync(CUstream handle, CUdeviceptr ptr, size_t bytes,
                                           unsigned flags) {
    struct soft_device *device;
    struct soft_stream *stream;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    const struct soft_range *range = managed_range(ptr, bytes);
    int is_known = flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST ||
                   flags == CU_MEM_ATTACH_SINGLE;
    if (!is_known || !range || (bytes && bytes != range->bytes) ||
        (flags == CU_MEM_ATTACH_SINGLE && !handle)) /* the real driver takes CU_STREAM_LEGACY */
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if ((result = acre__soft_stream_find(handle, &stream)))
        return acre__soft_leave(result);
    struct soft_op *op = acre__soft_op_make(SOFT_NOTHING); /* attaching has no effect here */
    if (!op)
        return acre__soft_leave(CUDA_ERROR_OUT_OF_MEMORY);
    return acre__soft_leave(acre__soft_submit(stream, op));
}

CUresult acre__soft_cuMemAdvise(CUdeviceptr ptr, size_t bytes, CUmem_advise advice,
                                CUmemLocation location) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    struct soft_range *range = bytes ? managed_range(ptr, bytes) : NULL;
    int is_placed = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ||
                    advice == CU_MEM_ADVISE_SET_ACCESSED_BY ||
                    advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
    if (!range || advice < CU_MEM_ADVISE_SET_READ_MOSTLY ||
        advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY || (is_placed && location_check(&location)))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    size_t first, end;
    if ((result = advice_parts(range, ptr, bytes, &first, &end)))
        return acre__soft_leave(result);
    for (; first < end; first++)
        advice_apply(&range->advice[first], advice, location);
    return acre__soft_leave(CUDA_SUCCESS);
}
