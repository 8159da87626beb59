/* Copies and fills: checks both sides and chooses the path.
 *
 * The driver copies memory that it knows on both sides. With pageable memory on one side, the
 * driver also makes small copies, because its own staging is as fast for those; larger copies go
 * through acre's staging (staging.h). With pageable memory on both sides, the host copies after the
 * stream's work. State: settings by device, atomic. */
#include <string.h>

#include "base/atomic.h"
#include "base/config.h"
#include "base/status.h"
#include "copy/contents.h"
#include "copy/staging.h"
#include "device/device.h"
#include "device/driver_status.h"
#include "device/strays.h"
#include "space/book.h"
#include "space/mapped.h"

/* Below these sizes the driver's own copy of pageable memory is as fast or faster, measured on an
 * H200; ACRE_COPY_STAGE_BYTES sets both. */
#define COPY_STAGE_TO_DEVICE ((uint64_t)512 << 10)
#define COPY_STAGE_FROM_DEVICE ((uint64_t)2 << 20)

/* The largest pitch of the driver's 2-D copies (CU_DEVICE_ATTRIBUTE_MAX_PITCH). Rows with a larger
 * pitch are copied one by one. */
#define COPY_PITCH_MAX ((size_t)0x7fffffff)

/* The smallest size that is staged, by device and to_device; 0: not read yet. */
static _Atomic uint64_t leasts[ACRE__DEVICE_SLOTS][2];

/* ---- devices ---- */

static acre_status copy_trim(acre_device *dev) {
    acre__staging_drop(dev, 0);
    return ACRE_OK;
}

static void copy_close(acre_device *dev) {
    acre__staging_drop(dev, 1);
    for (int i = 0; i < 2; i++)
        acre__store(&leasts[acre__device_index(dev)][i], 0, memory_order_relaxed);
}

static void copy_stats(acre_device *dev, acre_device_stats *stats) {
    stats->staging_bytes = acre__staging_bytes(dev);
}

static acre_status copy_enter(acre_device *dev, acre_stream stream) {
    static const struct acre__device_hooks hooks = {
        .trim = copy_trim, .close = copy_close, .stats = copy_stats};
    acre_status status = acre__device_enter(dev);
    if (status == ACRE_OK)
        status = acre__stream_check(dev, stream);
    if (status == ACRE_OK)
        acre__device_hooks_add(&hooks);
    return status;
}

/* Waits for transfers of copies that failed: they may write to the same memory. */
static acre_status copy_wait_strays(acre_device *dev) {
    CUresult code = acre__strays_wait();
    return code ? acre__driver_fail(dev, code, "waiting for transfers of a failed copy") : ACRE_OK;
}

/* ---- checks ---- */

struct copy_side {
    acre_mem_info info;
    int is_device;   /* device memory */
    int is_pageable; /* unknown to the driver */
    int is_strange;  /* a pinned vec of another device: only the host can access it */
};

/* The rows of one side. */
struct side_rows {
    const char *p;
    size_t pitch, width, rows;
    size_t span; /* from the first to the last byte */
};

/* The bytes from the first to the last byte of the rows; 0 if the result overflows. */
static size_t rows_span(size_t pitch, size_t width, size_t rows) {
    size_t span;
    if (__builtin_mul_overflow(pitch, rows - 1, &span) ||
        __builtin_add_overflow(span, width, &span))
        return 0;
    return span;
}

/* Looks up consecutive bytes, and checks that a call may use them. */
static acre_status bytes_look(acre_device *dev, const void *p, size_t bytes, const char *which,
                              acre_mem_info *info) {
    acre_status status = acre__book_look_live(dev, p, bytes, which, info);
    if (status)
        return status;
    if (bytes > acre__book_room(info, p) && !acre__book_idle_is_allowed())
        return acre__about(
            acre__fail(ACRE_E_RANGE,
                       "%zu bytes of the %s at %p run past the end of its block (%llu bytes at %p)",
                       bytes, which, p, (unsigned long long)info->bytes, info->base),
            info->base);
    if (info->kind == ACRE_KIND_PAGEABLE && bytes > acre__book_gap(p))
        return acre__fail(ACRE_E_RANGE, "%zu bytes of the %s at %p run into a block of acre", bytes,
                          which, p);
    return ACRE_OK;
}

/* Rows of pageable memory may have anything between them, also memory that acre freed. */
static acre_status rows_look(acre_device *dev, const struct side_rows *rows, const char *which,
                             acre_mem_info *info) {
    acre_status status = bytes_look(dev, rows->p, rows->span, which, info);
    int is_refused = status == ACRE_E_POINTER || status == ACRE_E_RANGE; /* `info` is set */
    if (!is_refused || rows->rows == 1 || info->kind != ACRE_KIND_PAGEABLE)
        return status;
    for (size_t i = 0; i < rows->rows; i++) {
        acre_mem_info row;
        status = bytes_look(dev, rows->p + i * rows->pitch, rows->width, which, &row);
        if (status == ACRE_OK && row.kind != ACRE_KIND_PAGEABLE)
            status = acre__fail(ACRE_E_RANGE, "rows of the %s at %p run into a block of acre",
                                which, (const void *)rows->p);
        if (status)
            return status;
    }
    return ACRE_OK;
}

static acre_status side_look(acre_device *dev, const struct side_rows *rows, const char *which,
                             struct copy_side *side) {
    const void *p = rows->p;
    if (!p)
        return acre__fail(ACRE_E_NULL, "the %s is NULL", which);
    acre_status status = rows_look(dev, rows, which, &side->info);
    if (status)
        return status;
    int is_foreign = side->info.device && side->info.device->drv != dev->drv;
    side->is_device = side->info.kind == ACRE_KIND_DEVICE;
    /* Host memory of another driver's device is pageable memory for this driver. */
    side->is_strange = side->info.kind == ACRE_KIND_PINNED && side->info.device != dev &&
                       !is_foreign && acre__book_is_mapped(p);
    side->is_pageable = side->info.kind == ACRE_KIND_PAGEABLE || is_foreign || side->is_strange;
    if (is_foreign && side->is_device)
        return acre__fail(ACRE_E_HANDLE, "the %s %p belongs to %s, which %s cannot access", which,
                          p, side->info.device->label, dev->label);
    if (side->info.device && !is_foreign)
        acre__device_note_user(side->info.device, dev->device);
    return ACRE_OK;
}

/* 1 if source rows and destination rows share a byte. With equal pitches, rows overlap only where
 * their columns do. */
static int rows_overlap(const struct acre__rows *r) {
    uintptr_t to = (uintptr_t)r->to, from = (uintptr_t)r->from;
    uintptr_t low = to < from ? to : from, high = to < from ? from : to;
    size_t low_span = to < from ? rows_span(r->to_pitch, r->width, r->rows)
                                : rows_span(r->from_pitch, r->width, r->rows);
    if (high - low >= low_span)
        return 0;
    if (r->rows == 1 || r->to_pitch != r->from_pitch)
        return 1;
    size_t shift = (high - low) % r->to_pitch;
    return shift < r->width || r->to_pitch - shift < r->width;
}

static int side_may_be(const struct copy_side *side, int is_device) {
    return side->info.kind == ACRE_KIND_MANAGED || side->is_device == is_device;
}

static acre_status direction_check(acre_direction direction, const struct copy_side *to,
                                   const struct copy_side *from) {
    int to_device = direction == ACRE_HOST_TO_DEVICE || direction == ACRE_DEVICE_TO_DEVICE;
    int from_device = direction == ACRE_DEVICE_TO_HOST || direction == ACRE_DEVICE_TO_DEVICE;
    if (side_may_be(to, to_device) && side_may_be(from, from_device))
        return ACRE_OK;
    return acre__fail(ACRE_E_DIRECTION, "direction mismatch: the copy goes from %s to %s memory",
                      from->is_device ? "device" : "host", to->is_device ? "device" : "host");
}

/* ---- paths ---- */

static CUresult driver_plane(const struct acre__driver *drv, const struct acre__rows *r,
                             acre_stream stream, const struct copy_side *to,
                             const struct copy_side *from) {
    CUDA_MEMCPY2D plane = {
        .srcMemoryType = from->is_pageable ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_UNIFIED,
        .srcHost = r->from,
        .srcDevice = (CUdeviceptr)(uintptr_t)r->from,
        .srcPitch = r->from_pitch,
        .dstMemoryType = to->is_pageable ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_UNIFIED,
        .dstHost = r->to,
        .dstDevice = (CUdeviceptr)(uintptr_t)r->to,
        .dstPitch = r->to_pitch,
        .WidthInBytes = r->width,
        .Height = r->rows};
    return drv->cuMemcpy2DAsync(&plane, stream);
}

/* Copies row by row. */
static CUresult driver_rows(const struct acre__driver *drv, const struct acre__rows *r,
                            acre_stream stream, const struct copy_side *to,
                            const struct copy_side *from) {
    CUresult code = CUDA_SUCCESS;
    for (size_t i = 0; !code && i < r->rows; i++) {
        char *row_to = r->to + i * r->to_pitch;
        const char *row_from = r->from + i * r->from_pitch;
        CUdeviceptr target = (CUdeviceptr)(uintptr_t)row_to;
        CUdeviceptr source = (CUdeviceptr)(uintptr_t)row_from;
        code = from->is_pageable ? drv->cuMemcpyHtoDAsync(target, row_from, r->width, stream)
               : to->is_pageable ? drv->cuMemcpyDtoHAsync(row_to, source, r->width, stream)
                                 : drv->cuMemcpyAsync(target, source, r->width, stream);
    }
    return code;
}

/* Refuses a captured stream: pageable memory is read or written during the call, which a graph
 * could not repeat. */
static acre_status capture_refuse(acre_device *dev, acre_stream stream) {
    return acre__stream_not_captured(dev, stream,
                                     "pageable memory cannot be used in a captured stream; use "
                                     "pinned memory");
}

static acre_status copy_by_driver(acre_device *dev, const struct acre__rows *r, acre_stream stream,
                                  const struct copy_side *to, const struct copy_side *from) {
    struct acre__current call;
    acre_status status =
        to->is_pageable || from->is_pageable ? capture_refuse(dev, stream) : ACRE_OK;
    if (status)
        return status;
    int is_plane = r->rows > 1 && r->to_pitch <= COPY_PITCH_MAX && r->from_pitch <= COPY_PITCH_MAX;
    if (acre__device_call(dev, &call))
        call.code = is_plane ? driver_plane(dev->drv, r, stream, to, from)
                             : driver_rows(dev->drv, r, stream, to, from);
    status = acre__stream_done(dev, stream, &call, is_plane ? "cuMemcpy2DAsync" : "cuMemcpyAsync");
    if (status == ACRE_OK)
        acre__fetch_add(&dev->copies_direct, 1, memory_order_relaxed);
    return status;
}

/* Waits for the stream. Does not disturb captures of other threads. */
static acre_status stream_wait(acre_device *dev, acre_stream stream) {
    struct acre__current call;
    if (acre__device_call_relaxed(dev, &call))
        call.code = dev->drv->cuStreamSynchronize(stream);
    return acre__stream_done(dev, stream, &call, "cuStreamSynchronize");
}

/* Waits for the stream before the host does work in stream order. */
static acre_status copy_wait(acre_device *dev, acre_stream stream) {
    acre_status status = capture_refuse(dev, stream);
    return status ? status : stream_wait(dev, stream);
}

static acre_status copy_by_host(acre_device *dev, const struct acre__rows *r, acre_stream stream) {
    acre_status status = copy_wait(dev, stream);
    for (size_t i = 0; status == ACRE_OK && i < r->rows; i++)
        memcpy(r->to + i * r->to_pitch, r->from + i * r->from_pitch, r->width);
    return status;
}

/* Returns the smallest size that is staged. The setting is read once per device, because every copy
 * needs it. */
static acre_status stage_least(acre_device *dev, int to_device, uint64_t *least) {
    _Atomic uint64_t *known = &leasts[acre__device_index(dev)][to_device != 0];
    *least = acre__load(known, memory_order_relaxed);
    if (*least)
        return ACRE_OK;
    acre_status status =
        acre__config_bytes(ACRE__CONFIG_COPY_STAGE_BYTES,
                           to_device ? COPY_STAGE_TO_DEVICE : COPY_STAGE_FROM_DEVICE, least);
    *least = *least ? *least : 1; /* the setting 0 also means every copy */
    if (status == ACRE_OK)
        acre__store(known, *least, memory_order_relaxed);
    return status;
}

static int is_of_host(const struct copy_side *side) {
    return side->info.kind == ACRE_KIND_PINNED || side->info.kind == ACRE_KIND_MAPPED;
}

static acre_status copy_pageable(acre_device *dev, const struct acre__rows *r, acre_stream stream,
                                 const struct copy_side *to, const struct copy_side *from) {
    uint64_t least;
    /* A copy within host memory does not need the device. */
    if ((to->is_pageable || is_of_host(to)) && (from->is_pageable || is_of_host(from)))
        return copy_by_host(dev, r, stream);
    acre_status status = stage_least(dev, from->is_pageable, &least);
    if (status)
        return status;
    if (to->is_strange || from->is_strange)
        least = 0; /* the driver would refuse it */
    int is_done = 0;
    if ((uint64_t)r->width * r->rows >= least) { /* at most the span, which did not overflow */
        status = capture_refuse(dev, stream);
        if (status == ACRE_OK)
            status = acre__staging_copy(dev, r, from->is_pageable, stream, &is_done);
        if (status == ACRE_OK && is_done)
            acre__fetch_add(&dev->copies_staged, 1, memory_order_relaxed);
    }
    return status || is_done ? status : copy_by_driver(dev, r, stream, to, from);
}

/* 1 unless the book shows that the bytes of one side are invalid. */
static int small_is_fine(const acre_device *dev, const void *p, size_t bytes) {
    acre_mem_info info;
    if (!p)
        return 0;
    enum acre__found found = acre__book_find(p, &info);
    if (found == ACRE__FOUND_NONE)
        return acre__book_is_clear(p, bytes);
    return found == ACRE__FOUND_LIVE && info.device->drv == dev->drv &&
           bytes <= acre__book_room(&info, p);
}

/* Makes a small copy of one row without querying the driver about the addresses, which would cost
 * more than the rest of the call. The driver resolves the addresses itself, and for pageable memory
 * does what acre_copy promises. *is_over is 0 when the caller must take the long path, which finds
 * out what is wrong and reports it. */
static acre_status copy_small(acre_device *dev, const struct acre__rows *r, acre_stream stream,
                              int *is_over) {
    struct acre__current current;
    const char *what;
    uint64_t to_least, from_least;
    *is_over = 0;
    if (r->rows != 1 || stage_least(dev, 1, &to_least) || stage_least(dev, 0, &from_least) ||
        r->width >= to_least || r->width >= from_least || rows_overlap(r) ||
        !small_is_fine(dev, r->to, r->width) || !small_is_fine(dev, r->from, r->width))
        return ACRE_OK;
    CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
    acre_status status = acre__device_begin(dev, &current);
    if (status)
        return status;
    what = "cuStreamIsCapturing";
    CUresult code = dev->drv->cuStreamIsCapturing(stream, &state);
    int is_captured = !code && state != CU_STREAM_CAPTURE_STATUS_NONE;
    if (!code && !is_captured) {
        what = "cuMemcpyAsync";
        code = dev->drv->cuMemcpyAsync((CUdeviceptr)(uintptr_t)r->to,
                                       (CUdeviceptr)(uintptr_t)r->from, r->width, stream);
    }
    acre__device_pop(dev, &current);
    if (is_captured || code == CUDA_ERROR_INVALID_VALUE)
        return ACRE_OK;
    if (code)
        return acre__stream_fail(dev, stream, code, what);
    *is_over = 1;
    acre__fetch_add(&dev->copies_direct, 1, memory_order_relaxed);
    return ACRE_OK;
}

/* ---- memory of another device of the same driver ---- */

/* Returns the other device that owns this side, or NULL. A device may lack access to that memory:
 * chunks are mapped for their own device only. */
static acre_device *side_owner(acre_device *dev, const struct copy_side *side) {
    return side->is_device && side->info.device && side->info.device != dev ? side->info.device
                                                                            : NULL;
}

/* Copies between two devices in stream order; each side is accessed through its own context. */
static acre_status copy_between(acre_device *dev, const struct acre__rows *r, acre_stream stream,
                                const struct copy_side *to, const struct copy_side *from) {
    struct acre__current call;
    CUcontext to_context = to->info.device ? to->info.device->context : dev->context;
    CUcontext from_context = from->info.device ? from->info.device->context : dev->context;
    if (acre__device_call(dev, &call))
        for (size_t i = 0; !call.code && i < r->rows; i++)
            call.code = dev->drv->cuMemcpyPeerAsync(
                (CUdeviceptr)(uintptr_t)(r->to + i * r->to_pitch), to_context,
                (CUdeviceptr)(uintptr_t)(r->from + i * r->from_pitch), from_context, r->width,
                stream);
    acre_status status = acre__stream_done(dev, stream, &call, "cuMemcpyPeerAsync");
    if (status == ACRE_OK)
        acre__fetch_add(&dev->copies_direct, 1, memory_order_relaxed);
    return status;
}

static acre_status copy_rows(acre_device *dev, int direction, const struct acre__rows *r,
                             acre_stream stream);

/* Copies between the host and another device. The owner copies after the stream's work and before
 * the call returns, so stream order holds. */
static acre_status copy_by_owner(acre_device *dev, acre_device *owner, const struct acre__rows *r,
                                 acre_stream stream) {
    acre_status status = copy_wait(dev, stream);
    if (status == ACRE_OK)
        status = copy_rows(owner, 0, r, NULL);
    return status ? status : stream_wait(owner, NULL);
}

/* `direction` 0: any. */
static acre_status copy_rows(acre_device *dev, int direction, const struct acre__rows *r,
                             acre_stream stream) {
    struct copy_side to, from;
    acre_status status = copy_enter(dev, stream);
    if (status)
        return status;
    if (!r->width || !r->rows)
        return ACRE_OK;
    size_t to_span = rows_span(r->to_pitch, r->width, r->rows);
    size_t from_span = rows_span(r->from_pitch, r->width, r->rows);
    if (!to_span || !from_span ||
        (r->rows > 1 && (r->to_pitch < r->width || r->from_pitch < r->width)))
        return acre__fail(ACRE_E_INVALID,
                          "invalid 2-D copy: %zu rows of %zu bytes with pitches %zu and %zu (too "
                          "large, or a pitch below the row)",
                          r->rows, r->width, r->to_pitch, r->from_pitch);
    int is_over = 0;
    if ((status = copy_wait_strays(dev)))
        return status;
    if (!direction)
        status = copy_small(dev, r, stream, &is_over);
    if (status || is_over)
        return status;
    const struct side_rows to_rows = {r->to, r->to_pitch, r->width, r->rows, to_span};
    const struct side_rows from_rows = {r->from, r->from_pitch, r->width, r->rows, from_span};
    if ((status = side_look(dev, &to_rows, "destination", &to)) ||
        (status = side_look(dev, &from_rows, "source", &from)))
        return status;
    if (direction && (status = direction_check((acre_direction)direction, &to, &from)))
        return status;
    if (rows_overlap(r))
        return acre__fail(ACRE_E_OVERLAP, "source %p and destination %p overlap",
                          (const void *)r->from, (void *)r->to);
    acre_device *owner = side_owner(dev, &to) ? side_owner(dev, &to) : side_owner(dev, &from);
    if (owner)
        return to.is_device && from.is_device ? copy_between(dev, r, stream, &to, &from)
                                              : copy_by_owner(dev, owner, r, stream);
    if (to.is_pageable || from.is_pageable)
        return copy_pageable(dev, r, stream, &to, &from);
    return copy_by_driver(dev, r, stream, &to, &from);
}

/* Returns ACRE_E_SUSPENDED if some of the rows are away. */
static acre_status rows_are_here(const void *p, size_t pitch, const struct acre__rows *r,
                                 const char *which) {
    size_t span = r->width && r->rows ? rows_span(pitch, r->width, r->rows) : 0;
    return span ? acre__away_check(p, span, which) : ACRE_OK;
}

/* Pools that check their free blocks do not wait: frees succeed while memory is suspended. */
static int may_wait(uint64_t *seen) {
    return !acre__book_idle_is_allowed() && acre__resume_wait(seen);
}

/* copy_rows inside the gate: memory that is suspended is not touched. */
static acre_status copy_gated(acre_device *dev, int direction, const struct acre__rows *r,
                              acre_stream stream) {
    uint64_t seen = acre__resumes();
    acre_status status;
    do {
        acre__gate_enter(ACRE__GATE_COPY);
        status = rows_are_here(r->to, r->to_pitch, r, "destination");
        if (status == ACRE_OK)
            status = rows_are_here(r->from, r->from_pitch, r, "source");
        if (status == ACRE_OK)
            status = copy_rows(dev, direction, r, stream);
        acre__gate_leave(ACRE__GATE_COPY);
    } while (status == ACRE_E_SUSPENDED && may_wait(&seen));
    return status;
}

static struct acre__rows one_row(void *to, const void *from, size_t bytes) {
    return (struct acre__rows){to, from, bytes, bytes, bytes, 1};
}

/* ---- public ---- */

acre_status acre_copy(acre_device *device, void *to, const void *from, size_t bytes,
                      acre_stream stream) {
    struct acre__rows rows = one_row(to, from, bytes);
    return acre__in_call(copy_gated(device, 0, &rows, stream), "acre_copy");
}

acre_status acre_copy_as(acre_device *device, acre_direction direction, void *to, const void *from,
                         size_t bytes, acre_stream stream) {
    struct acre__rows rows = one_row(to, from, bytes);
    acre_status status;
    if ((int)direction >= ACRE_HOST_TO_HOST && direction <= ACRE_DEVICE_TO_DEVICE)
        status = copy_gated(device, (int)direction, &rows, stream);
    else if ((status = copy_enter(device, stream)) == ACRE_OK)
        status = acre__fail(ACRE_E_INVALID, "invalid direction %d", (int)direction);
    return acre__in_call(status, "acre_copy_as");
}

acre_status acre_copy_sync(acre_device *device, void *to, const void *from, size_t bytes) {
    struct acre__rows rows = one_row(to, from, bytes);
    acre_status status = copy_gated(device, 0, &rows, NULL);
    if (status == ACRE_OK)
        status = acre_stream_sync(device, NULL);
    return acre__in_call(status, "acre_copy_sync");
}

acre_status acre_copy_2d(acre_device *device, void *to, size_t to_pitch, const void *from,
                         size_t from_pitch, size_t width, size_t rows, acre_stream stream) {
    struct acre__rows r = {to, from, to_pitch, from_pitch, width, rows};
    if (rows > 1 && to_pitch == width && from_pitch == width &&
        !__builtin_mul_overflow(width, rows, &r.width)) { /* contiguous: one long row */
        r.rows = 1;
        r.to_pitch = r.from_pitch = r.width;
    } else {
        r.width = width;
    }
    return acre__in_call(copy_gated(device, 0, &r, stream), "acre_copy_2d");
}

/* Fills chunk by chunk: the driver refuses a fill that crosses from one host chunk into the
 * next. */
static CUresult fill_by_chunks(const struct acre__driver *drv, CUdeviceptr to, uint8_t value,
                               size_t bytes, acre_stream stream) {
    CUresult code = CUDA_SUCCESS;
    while (bytes && !code) {
        CUdeviceptr base = 0;
        size_t size = 0;
        code = drv->cuMemGetAddressRange(&base, &size, to);
        if (code || to - base >= size)
            return code ? code : CUDA_ERROR_INVALID_VALUE;
        size_t room = size - (size_t)(to - base), step = room < bytes ? room : bytes;
        code = drv->cuMemsetD8Async(to, value, step, stream);
        to += step;
        bytes -= step;
    }
    return code;
}

static acre_status fill_by_driver(acre_device *dev, void *to, uint8_t value, size_t bytes,
                                  acre_stream stream) {
    struct acre__current call;
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)to;
    if (acre__device_call(dev, &call))
        call.code = dev->drv->cuMemsetD8Async(address, value, bytes, stream);
    if (call.code == CUDA_ERROR_INVALID_VALUE)
        call.code = fill_by_chunks(dev->drv, address, value, bytes, stream);
    return acre__stream_done(dev, stream, &call, "cuMemsetD8Async");
}

static acre_status fill(acre_device *device, void *to, uint8_t value, size_t bytes,
                        acre_stream stream) {
    struct copy_side side;
    acre_status status = copy_enter(device, stream);
    if (status || !bytes)
        return status;
    const struct side_rows row = {to, bytes, bytes, 1, bytes};
    if ((status = side_look(device, &row, "destination", &side)) ||
        (status = copy_wait_strays(device)))
        return status;
    acre_device *owner = side_owner(device, &side);
    if (!side.is_pageable && !owner)
        return fill_by_driver(device, to, value, bytes, stream);
    if ((status = copy_wait(device, stream)))
        return status;
    if (side.is_pageable) {
        memset(to, value, bytes);
        return ACRE_OK;
    }
    status = fill_by_driver(owner, to, value, bytes, NULL);
    return status ? status : stream_wait(owner, NULL);
}

static acre_status fill_gated(acre_device *device, void *to, uint8_t value, size_t bytes,
                              acre_stream stream) {
    uint64_t seen = acre__resumes();
    acre_status status;
    do {
        acre__gate_enter(ACRE__GATE_COPY);
        status = bytes ? acre__away_check(to, bytes, "destination") : ACRE_OK;
        if (status == ACRE_OK)
            status = fill(device, to, value, bytes, stream);
        acre__gate_leave(ACRE__GATE_COPY);
    } while (status == ACRE_E_SUSPENDED && may_wait(&seen));
    return status;
}

acre_status acre_fill(acre_device *device, void *to, uint8_t value, size_t bytes,
                      acre_stream stream) {
    return acre__in_call(fill_gated(device, to, value, bytes, stream), "acre_fill");
}

acre_status acre_fill_sync(acre_device *device, void *to, uint8_t value, size_t bytes) {
    acre_status status = fill_gated(device, to, value, bytes, NULL);
    if (status == ACRE_OK)
        status = acre_stream_sync(device, NULL);
    return acre__in_call(status, "acre_fill_sync");
}

/* ---- contents of memory that leaves and comes back ---- */

acre_status acre__contents_copy(acre_device *dev, uint64_t device, void *host, size_t bytes,
                                int to_device, acre_stream stream) {
    char *there = (char *)(uintptr_t)device;
    struct acre__rows rows = to_device ? one_row(there, host, bytes) : one_row(host, there, bytes);
    struct copy_side on_device = {.is_device = 1}, on_host = {.is_pageable = 1};
    uint64_t least = 0;
    int is_done = 0;
    acre_status status = stage_least(dev, to_device, &least);
    if (status == ACRE_OK)
        status = copy_wait_strays(dev);
    if (status == ACRE_OK && bytes >= least)
        status = acre__staging_copy(dev, &rows, to_device, stream, &is_done);
    if (status || is_done)
        return status;
    return copy_by_driver(dev, &rows, stream, to_device ? &on_device : &on_host,
                          to_device ? &on_host : &on_device);
}
