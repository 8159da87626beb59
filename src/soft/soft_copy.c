/* The driver calls for copies and fills. A call checks its addresses when it queues the operation,
 * and the operation looks them up again when it runs (soft_run_memory.c).
 *
 * The call reads a pageable source at once, so it may return early. A pageable destination makes
 * the call wait. */
#include <stdlib.h>
#include <string.h>

#include "soft/soft_address.h"
#include "soft/soft_api.h"
#include "soft/soft_enter.h"
#include "soft/soft_graph_memory.h"
#include "soft/soft_op.h"
#include "soft/soft_queue.h"
#include "soft/soft_range.h"
#include "soft/soft_run.h"
#include "soft/soft_state.h"
#include "soft/soft_stream.h"
#include "soft/soft_thread.h"

/* ---- copies ---- */

enum copy_side { ANY_MEMORY, KNOWN_MEMORY };

struct copy {
    enum copy_side to_kind, from_kind; /* KNOWN_MEMORY: pageable memory is refused */
    uint64_t to, from;
    size_t to_pitch, from_pitch;
    size_t width, rows;
    CUstream stream;
    int is_async;
    int must_wait;              /* the call waits for the copy, whatever the memory is */
    int to_device, from_device; /* whose access is checked */
};

/* Memory that the driver does not know is pageable host memory. */
static int is_pageable(uint64_t address) {
    return !acre__soft_range_find(address) && !acre__soft_address_is_device(address);
}

static int is_device_memory(uint64_t address) {
    const struct soft_mapping *mapping = acre__soft_mapping_find(address);
    const struct soft_range *range = acre__soft_range_find(address);
    return mapping ? !mapping->backing->is_host
                   : range && (range->kind == SOFT_PLAIN || range->kind == SOFT_POOLED);
}

/* Checks that the side is mapped from its first byte to its last, with the access needed. */
static CUresult side_check(uint64_t address, size_t pitch, const struct copy *copy, int device,
                           int is_write) {
    if (!address)
        return CUDA_ERROR_INVALID_VALUE;
    if (is_pageable(address))
        return (is_write ? copy->to_kind : copy->from_kind) == KNOWN_MEMORY
                   ? CUDA_ERROR_INVALID_VALUE
                   : CUDA_SUCCESS;
    struct soft_pieces pieces = {0};
    CUresult result = acre__soft_range_resolve(address, (copy->rows - 1) * pitch + copy->width,
                                               device, is_write, &pieces);
    acre__soft_pieces_free(&pieces);
    return result;
}

/* Copies pageable rows into one buffer without gaps. Returns NULL when out of memory. */
static char *rows_read(uint64_t from, size_t pitch, size_t width, size_t rows) {
    char *bytes = malloc(width * rows);
    for (size_t row = 0; bytes && row < rows; row++)
        memcpy(bytes + row * width, (const char *)(uintptr_t)from + row * pitch, width);
    return bytes;
}

static CUresult copy_make_op(const struct copy *copy, int from_pageable, int to_pageable,
                             struct soft_op **out) {
    struct soft_op *op = acre__soft_op_make(SOFT_COPY);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    op->width = copy->width;
    op->rows = copy->rows;
    op->to =
        (struct soft_side){.address = copy->to, .pitch = copy->to_pitch, .device = copy->to_device};
    op->from = (struct soft_side){
        .address = copy->from, .pitch = copy->from_pitch, .device = copy->from_device};
    if (from_pageable) {
        op->from.raw = rows_read(copy->from, copy->from_pitch, copy->width, copy->rows);
        op->from.pitch = copy->width;
        op->from.is_owned = 1;
        if (!op->from.raw) {
            acre__soft_op_free(op);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    if (to_pageable) {
        op->to.raw = malloc(copy->width * copy->rows);
        op->to.pitch = copy->width;
        op->to.is_owned = 1;
        if (!op->to.raw) {
            acre__soft_op_free(op);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    *out = op;
    return CUDA_SUCCESS;
}

/* Records a copy in a capture. The program keeps pageable memory valid until the graph is
 * destroyed: launches read and write it, and the call does not wait. */
static CUresult copy_record(const struct copy *copy, struct soft_stream *stream, int from_pageable,
                            int to_pageable) {
    struct soft_op *op;
    CUresult result = copy_make_op(copy, 0, 0, &op);
    if (result)
        return result;
    if (from_pageable)
        op->from.raw = (char *)(uintptr_t)copy->from;
    if (to_pageable)
        op->to.raw = (char *)(uintptr_t)copy->to;
    return acre__soft_submit(stream, op);
}

/* Queues the copy and waits if CUDA's rules say so. Entered; leaves. */
static CUresult copy_queue(const struct copy *copy) {
    struct soft_stream *stream;
    CUresult result = acre__soft_stream_locate(copy->stream, &stream);
    if (result)
        return acre__soft_leave(result);
    if (!copy->width || !copy->rows)
        return acre__soft_leave(CUDA_SUCCESS);
    if ((result = side_check(copy->to, copy->to_pitch, copy, copy->to_device, 1)) ||
        (result = side_check(copy->from, copy->from_pitch, copy, copy->from_device, 0)))
        return acre__soft_leave(result);
    int from_pageable = is_pageable(copy->from), to_pageable = is_pageable(copy->to);
    if (stream->capture == CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return acre__soft_leave(copy_record(copy, stream, from_pageable, to_pageable));
    if (acre__soft_graph_memory_is_idle(copy->to) || acre__soft_graph_memory_is_idle(copy->from))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    int must_wait =
        copy->must_wait || to_pageable ||
        (!copy->is_async && !(is_device_memory(copy->to) && is_device_memory(copy->from)));
    char *arrival = NULL;
    struct soft_op *op = NULL;
    /* Other calls may proceed while a large source is read. The stream may be destroyed
     * meanwhile. */
    uint64_t id = stream->id;
    acre__lock_give(&acre__soft.lock);
    result = copy_make_op(copy, from_pageable, to_pageable, &op);
    acre__lock_take(&acre__soft.lock);
    stream = acre__soft_stream_by_id(id);
    if (result)
        return acre__soft_leave(result);
    if ((result = stream ? stream->ctx->lost : CUDA_ERROR_INVALID_HANDLE) ||
        (result = side_check(copy->to, copy->to_pitch, copy, copy->to_device, 1)) ||
        (result = side_check(copy->from, copy->from_pitch, copy, copy->from_device, 0))) {
        acre__soft_op_free(op);
        return acre__soft_leave(result);
    }
    int is_captured = stream->capture == CU_STREAM_CAPTURE_STATUS_ACTIVE;
    result = acre__soft_submit(stream, op);
    if (!result && must_wait && !is_captured) {
        if (to_pageable)
            op->to.deliver = &arrival;
        result = acre__soft_wait_stream(stream, stream->submitted);
        if (to_pageable && !arrival)
            op->to.deliver = NULL; /* failed: the operation still owns the bytes */
    }
    acre__lock_give(&acre__soft.lock);
    for (size_t row = 0; !result && arrival && row < copy->rows; row++)
        memcpy((char *)(uintptr_t)copy->to + row * copy->to_pitch, arrival + row * copy->width,
               copy->width);
    free(arrival);
    return result;
}

/* Queues a copy of one row. Sets `to_device` and `from_device` to the current device. */
static CUresult copy_line(struct copy copy, size_t bytes) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    copy.width = copy.to_pitch = copy.from_pitch = bytes;
    copy.rows = 1;
    copy.to_device = copy.from_device = soft_ordinal(device);
    return copy_queue(&copy);
}

static uint64_t address_of(const void *p) {
    return (uint64_t)(uintptr_t)p;
}

CUresult acre__soft_cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
    struct copy copy = {.to = dst, .from = src, .stream = stream, .is_async = 1};
    return copy_line(copy, bytes);
}

CUresult acre__soft_cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
    struct copy copy = {.to = dst, .from = src};
    return copy_line(copy, bytes);
}

/* Calls with a direction in their name require memory that the driver knows on the device side. The
 * host side may be any memory. */

CUresult acre__soft_cuMemcpyHtoDAsync(CUdeviceptr dst, const void *src, size_t bytes,
                                      CUstream stream) {
    struct copy copy = {.to = dst,
                        .to_kind = KNOWN_MEMORY,
                        .from = address_of(src),
                        .stream = stream,
                        .is_async = 1};
    return copy_line(copy, bytes);
}

CUresult acre__soft_cuMemcpyHtoD(CUdeviceptr dst, const void *src, size_t bytes) {
    struct copy copy = {.to = dst, .to_kind = KNOWN_MEMORY, .from = address_of(src)};
    return copy_line(copy, bytes);
}

CUresult acre__soft_cuMemcpyDtoHAsync(void *dst, CUdeviceptr src, size_t bytes, CUstream stream) {
    struct copy copy = {.to = address_of(dst),
                        .from = src,
                        .from_kind = KNOWN_MEMORY,
                        .stream = stream,
                        .is_async = 1};
    return copy_line(copy, bytes);
}

CUresult acre__soft_cuMemcpyDtoH(void *dst, CUdeviceptr src, size_t bytes) {
    struct copy copy = {.to = address_of(dst), .from = src, .from_kind = KNOWN_MEMORY};
    return copy_line(copy, bytes);
}

CUresult acre__soft_cuMemcpyDtoDAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes,
                                      CUstream stream) {
    struct copy copy = {.to = dst,
                        .to_kind = KNOWN_MEMORY,
                        .from = src,
                        .from_kind = KNOWN_MEMORY,
                        .stream = stream,
                        .is_async = 1};
    return copy_line(copy, bytes);
}

CUresult acre__soft_cuMemcpyDtoD(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
    struct copy copy = {.to = dst, .to_kind = KNOWN_MEMORY, .from = src, .from_kind = KNOWN_MEMORY};
    return copy_line(copy, bytes);
}

/* Describes a copy between two contexts. NULL means the current one, as in the real driver.
 * Entered; leaves only on failure. */
static CUresult copy_between(struct soft_device *device, CUdeviceptr dst, CUcontext dst_ctx,
                             CUdeviceptr src, CUcontext src_ctx, size_t bytes, struct copy *copy) {
    if ((dst_ctx && !acre__soft_ctx_is_known(dst_ctx)) ||
        (src_ctx && !acre__soft_ctx_is_known(src_ctx)))
        return acre__soft_leave(CUDA_ERROR_INVALID_CONTEXT);
    *copy = (struct copy){.to = dst,
                          .to_kind = KNOWN_MEMORY,
                          .from = src,
                          .from_kind = KNOWN_MEMORY,
                          .to_pitch = bytes,
                          .from_pitch = bytes,
                          .width = bytes,
                          .rows = 1,
                          .to_device = dst_ctx ? dst_ctx->device : soft_ordinal(device),
                          .from_device = src_ctx ? src_ctx->device : soft_ordinal(device)};
    return CUDA_SUCCESS;
}

/* The copy is ordered after all work of the three contexts and before all work that they queue
 * later. So the host waits before and after the copy; the real driver leaves this order to the
 * devices. */
CUresult acre__soft_cuMemcpyPeer(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src,
                                 CUcontext src_ctx, size_t bytes) {
    struct soft_device *device;
    struct copy copy;
    CUresult result = acre__soft_enter(&device);
    if (result || (result = copy_between(device, dst, dst_ctx, src, src_ctx, bytes, &copy)))
        return result;
    copy.must_wait = 1;
    if ((result = acre__soft_wait_ctx(acre__soft_ctx_now())) ||
        (dst_ctx && (result = acre__soft_wait_ctx(dst_ctx))) ||
        (src_ctx && (result = acre__soft_wait_ctx(src_ctx))))
        return acre__soft_leave(result);
    return copy_queue(&copy);
}

CUresult acre__soft_cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src,
                                      CUcontext src_ctx, size_t bytes, CUstream stream) {
    struct soft_device *device;
    struct copy copy;
    CUresult result = acre__soft_enter(&device);
    if (result || (result = copy_between(device, dst, dst_ctx, src, src_ctx, bytes, &copy)))
        return result;
    copy.stream = stream;
    copy.is_async = 1;
    return copy_queue(&copy);
}

/* Returns the address of one side of a 2-D copy, or 0 if there is none. */
static uint64_t side_base(CUmemorytype type, const void *host, CUdeviceptr device) {
    switch (type) {
    case CU_MEMORYTYPE_HOST:
        return address_of(host);
    case CU_MEMORYTYPE_DEVICE:
    case CU_MEMORYTYPE_UNIFIED:
        return device;
    default:
        return 0;
    }
}

/* A side of type DEVICE must be memory that the driver knows. */
static enum copy_side side_kind(CUmemorytype type) {
    return type == CU_MEMORYTYPE_DEVICE ? KNOWN_MEMORY : ANY_MEMORY;
}

static CUresult copy_plane(const CUDA_MEMCPY2D *d, CUstream stream, int is_async) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    if (!d)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if (!d->WidthInBytes || !d->Height)
        return acre__soft_leave(CUDA_SUCCESS);
    uint64_t from = side_base(d->srcMemoryType, d->srcHost, d->srcDevice);
    uint64_t to = side_base(d->dstMemoryType, d->dstHost, d->dstDevice);
    size_t from_pitch = d->srcPitch ? d->srcPitch : d->WidthInBytes + d->srcXInBytes;
    size_t to_pitch = d->dstPitch ? d->dstPitch : d->WidthInBytes + d->dstXInBytes;
    size_t limit = (size_t)1 << 47;
    if (!from || !to || d->srcXInBytes > limit || d->dstXInBytes > limit ||
        d->WidthInBytes > limit || from_pitch < d->WidthInBytes + d->srcXInBytes ||
        to_pitch < d->WidthInBytes + d->dstXInBytes || from_pitch > limit / d->Height ||
        to_pitch > limit / d->Height || d->srcY > limit / from_pitch || d->dstY > limit / to_pitch)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    struct copy copy = {.to = to + d->dstY * to_pitch + d->dstXInBytes,
                        .to_kind = side_kind(d->dstMemoryType),
                        .from = from + d->srcY * from_pitch + d->srcXInBytes,
                        .from_kind = side_kind(d->srcMemoryType),
                        .to_pitch = to_pitch,
                        .from_pitch = from_pitch,
                        .width = d->WidthInBytes,
                        .rows = d->Height,
                        .stream = stream,
                        .is_async = is_async,
                        .to_device = soft_ordinal(device),
                        .from_device = soft_ordinal(device)};
    return copy_queue(&copy);
}

CUresult acre__soft_cuMemcpy2D(const CUDA_MEMCPY2D *copy) {
    return copy_plane(copy, NULL, 0);
}

/* The soft driver has no alignment requirements. */
CUresult acre__soft_cuMemcpy2DUnaligned(const CUDA_MEMCPY2D *copy) {
    return copy_plane(copy, NULL, 0);
}

CUresult acre__soft_cuMemcpy2DAsync(const CUDA_MEMCPY2D *copy, CUstream stream) {
    return copy_plane(copy, stream, 1);
}

/* ---- fills ---- */

struct fill {
    uint64_t to;
    size_t pitch, width, rows; /* pitch and width in bytes */
    unsigned value, value_bytes;
    CUstream stream;
    int is_async;
};

/* Checks the shape of a fill and its memory. Entered. */
static CUresult fill_check(const struct fill *fill, int device) {
    size_t limit = (size_t)1 << 47;
    struct copy shape = {.width = fill->width, .rows = fill->rows};
    if (!fill->to || fill->to % fill->value_bytes || fill->width > limit ||
        fill->pitch > limit / fill->rows ||
        (fill->rows > 1 && (fill->pitch < fill->width || fill->pitch % fill->value_bytes)) ||
        is_pageable(fill->to))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = side_check(fill->to, fill->pitch, &shape, device, 1);
    if (result)
        return result;
    const struct soft_mapping *mapping = acre__soft_mapping_find(fill->to);
    if (mapping && mapping->backing->is_host &&
        (fill->rows - 1) * fill->pitch + fill->width >
            mapping->bytes - (fill->to - mapping->node.key))
        return CUDA_ERROR_INVALID_VALUE; /* must not leave the host chunk */
    return CUDA_SUCCESS;
}

/* Queues the fill. A synchronous fill waits if the host can read the memory: then the bytes are
 * there when the call returns. A fill of device memory never waits. Entered; leaves. */
static CUresult fill_submit(const struct fill *fill, struct soft_stream *stream, int device) {
    int is_captured = stream->capture == CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (!is_captured && acre__soft_graph_memory_is_idle(fill->to))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    struct soft_op *op = acre__soft_op_make(SOFT_FILL);
    if (!op)
        return acre__soft_leave(CUDA_ERROR_OUT_OF_MEMORY);
    op->to = (struct soft_side){.address = fill->to, .pitch = fill->pitch, .device = device};
    op->width = fill->width;
    op->rows = fill->rows;
    op->value = fill->value;
    op->value_bytes = fill->value_bytes;
    CUresult result = acre__soft_submit(stream, op);
    if (!result && !fill->is_async && !is_captured && !is_device_memory(fill->to))
        result = acre__soft_wait_stream(stream, stream->submitted);
    return acre__soft_leave(result);
}

static CUresult fill_queue(const struct fill *fill) {
    struct soft_device *device;
    struct soft_stream *stream;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    if ((result = acre__soft_stream_locate(fill->stream, &stream)))
        return acre__soft_leave(result);
    if (stream->device != soft_ordinal(device)) /* a fill needs a stream of the current device */
        return acre__soft_leave(CUDA_ERROR_INVALID_HANDLE);
    if (!fill->width || !fill->rows)
        return acre__soft_leave(CUDA_SUCCESS);
    if ((result = fill_check(fill, soft_ordinal(device))))
        return acre__soft_leave(result);
    return fill_submit(fill, stream, soft_ordinal(device));
}

static CUresult fill_now(uint64_t to, size_t pitch, size_t width, size_t rows, unsigned value,
                         unsigned value_bytes) {
    return fill_queue(&(struct fill){to, pitch, width, rows, value, value_bytes, NULL, 0});
}

static CUresult fill_async(uint64_t to, size_t pitch, size_t width, size_t rows, unsigned value,
                           unsigned value_bytes, CUstream stream) {
    return fill_queue(&(struct fill){to, pitch, width, rows, value, value_bytes, stream, 1});
}

/* Counts of values may overflow when they are converted to bytes, as in the real driver. */

CUresult acre__soft_cuMemsetD2D8Async(CUdeviceptr dst, size_t pitch_bytes, unsigned char value,
                                      size_t width_bytes, size_t rows, CUstream stream) {
    return fill_async(dst, pitch_bytes, width_bytes, rows, value, 1, stream);
}

CUresult acre__soft_cuMemsetD2D8(CUdeviceptr dst, size_t pitch_bytes, unsigned char value,
                                 size_t width, size_t rows) {
    return fill_now(dst, pitch_bytes, width, rows, value, 1);
}

CUresult acre__soft_cuMemsetD2D16Async(CUdeviceptr dst, size_t pitch_bytes, unsigned short value,
                                       size_t width, size_t rows, CUstream stream) {
    return fill_async(dst, pitch_bytes, width * 2, rows, value, 2, stream);
}

CUresult acre__soft_cuMemsetD2D16(CUdeviceptr dst, size_t pitch_bytes, unsigned short value,
                                  size_t width, size_t rows) {
    return fill_now(dst, pitch_bytes, width * 2, rows, value, 2);
}

CUresult acre__soft_cuMemsetD2D32Async(CUdeviceptr dst, size_t pitch_bytes, unsigned value,
                                       size_t width, size_t rows, CUstream stream) {
    return fill_async(dst, pitch_bytes, width * 4, rows, value, 4, stream);
}

CUresult acre__soft_cuMemsetD2D32(CUdeviceptr dst, size_t pitch_bytes, unsigned value, size_t width,
                                  size_t rows) {
    return fill_now(dst, pitch_bytes, width * 4, rows, value, 4);
}

CUresult acre__soft_cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t count,
                                    CUstream stream) {
    return fill_async(dst, count, count, 1, value, 1, stream);
}

CUresult acre__soft_cuMemsetD8(CUdeviceptr dst, unsigned char value, size_t count) {
    return fill_now(dst, count, count, 1, value, 1);
}

CUresult acre__soft_cuMemsetD16Async(CUdeviceptr dst, unsigned short value, size_t count,
                                     CUstream stream) {
    return fill_async(dst, count * 2, count * 2, 1, value, 2, stream);
}

CUresult acre__soft_cuMemsetD16(CUdeviceptr dst, unsigned short value, size_t count) {
    return fill_now(dst, count * 2, count * 2, 1, value, 2);
}

CUresult acre__soft_cuMemsetD32Async(CUdeviceptr dst, unsigned value, size_t count,
                                     CUstream stream) {
    return fill_async(dst, count * 4, count * 4, 1, value, 4, stream);
}

CUresult acre__soft_cuMemsetD32(CUdeviceptr dst, unsigned value, size_t count) {
    return fill_now(dst, count * 4, count * 4, 1, value, 4);
}
