/*
 * Conformance: copies, two-dimensional copies, and fills.
 */
#include <stdlib.h>
#include <string.h>

#include "conformance.h"

enum { COPY_BYTES = 1 << 16 };

/* Allocates device memory for a case; prints a failure. */
static CUdeviceptr copy_room(void) {
    CUdeviceptr ptr = 0;

    conf_need("alloc", conf.drv->cuMemAlloc(&ptr, COPY_BYTES));
    return ptr;
}

/* ---- one-dimensional ------------------------------------------------------------------------- */

static void copy_simple(void) {
    uint32_t out[4] = {1, 2, 3, 4}, in[4] = {0, 0, 0, 0};
    CUdeviceptr ptr = copy_room();

    conf_code("to-device", conf.drv->cuMemcpyHtoD(ptr, out, sizeof out));
    conf_code("device-to-device", conf.drv->cuMemcpyDtoD(ptr + 4096, ptr, sizeof out));
    conf_code("from-device", conf.drv->cuMemcpyDtoH(in, ptr + 4096, sizeof in));
    conf_fact("same", memcmp(in, out, sizeof in) == 0);
    conf_code("overlap", conf.drv->cuMemcpyDtoD(ptr + 4, ptr, 16));
    conf_code("same-place", conf.drv->cuMemcpyDtoD(ptr, ptr, 16));
    conf_code("odd", conf.drv->cuMemcpyHtoD(ptr + 3, out, 5));
    conf_code("odd-back", conf.drv->cuMemcpyDtoH(in, ptr + 3, 5));
    conf_fact("same", memcmp(in, out, 5) == 0);
    conf_need("free", conf.drv->cuMemFree(ptr));
}

static void copy_sizes_zero(void) {
    CUdeviceptr ptr = copy_room();
    uint32_t word = 0;

    conf_code("to-device", conf.drv->cuMemcpyHtoD(ptr, &word, 0));
    conf_code("from-device", conf.drv->cuMemcpyDtoH(&word, ptr, 0));
    conf_code("device-to-device", conf.drv->cuMemcpyDtoD(ptr, ptr + 64, 0));
    conf_code("unified", conf.drv->cuMemcpy(ptr, ptr + 64, 0));
    conf_code("null-to-device", conf.drv->cuMemcpyHtoD(0, &word, 0));
    conf_code("async", conf.drv->cuMemcpyAsync(ptr, ptr + 64, 0, NULL));
    conf_need("free", conf.drv->cuMemFree(ptr));
}

static void copy_null_device(void) {
    uint32_t word = 0;

    conf_code("to-device", conf.drv->cuMemcpyHtoD(0, &word, 4));
    conf_code("from-device", conf.drv->cuMemcpyDtoH(&word, 0, 4));
    conf_code("device-to-device", conf.drv->cuMemcpyDtoD(0, 0, 4));
    conf_code("sync", conf.drv->cuCtxSynchronize());
}

static void copy_low_address(void) {
    uint32_t word = 0;

    conf_code("from-device", conf.drv->cuMemcpyDtoH(&word, 4096, 4));
    conf_code("to-device", conf.drv->cuMemcpyHtoD(4096, &word, 4));
    conf_code("sync", conf.drv->cuCtxSynchronize());
}

static void copy_null_host_to_device(void) {
    conf_code("copy", conf.drv->cuMemcpyHtoD(copy_room(), NULL, 4));
    conf_code("sync", conf.drv->cuCtxSynchronize());
}

static void copy_null_host_from_device(void) {
    conf_code("copy", conf.drv->cuMemcpyDtoH(NULL, copy_room(), 4));
    conf_code("sync", conf.drv->cuCtxSynchronize());
}

static void copy_null_unified(void) {
    conf_code("to-null", conf.drv->cuMemcpy(0, copy_room(), 4));
    conf_code("sync", conf.drv->cuCtxSynchronize());
}

/* Past the end of a large allocation, which has its own pages. */
static void copy_past_end(void) {
    const size_t bytes = 4 << 20;
    char *host = malloc(2 * bytes);
    CUdeviceptr ptr = 0;

    if (host == NULL || conf_need("alloc", conf.drv->cuMemAlloc(&ptr, bytes)) != 0)
        return;
    memset(host, 1, 2 * bytes);
    conf_code("to-device", conf.drv->cuMemcpyHtoD(ptr + bytes - 4, host, 8));
    conf_code("from-device", conf.drv->cuMemcpyDtoH(host, ptr + bytes - 4, 8));
    conf_code("twice-as-long", conf.drv->cuMemcpyHtoD(ptr, host, 2 * bytes));
    conf_code("start-past-end", conf.drv->cuMemcpyHtoD(ptr + bytes, host, 4));
    conf_code("sync", conf.drv->cuCtxSynchronize());
    free(host);
}

static void copy_freed(void) {
    CUdeviceptr ptr = 0;
    uint32_t word = 0;

    if (conf_need("alloc", conf.drv->cuMemAlloc(&ptr, 8 << 20)) != 0)
        return;
    conf_need("free", conf.drv->cuMemFree(ptr));
    conf_code("to-device", conf.drv->cuMemcpyHtoD(ptr, &word, 4));
    conf_code("from-device", conf.drv->cuMemcpyDtoH(&word, ptr, 4));
    conf_code("sync", conf.drv->cuCtxSynchronize());
}

/* cuMemcpy, and the typed calls with addresses of the other type. */
static void copy_unified(void) {
    uint32_t words[2] = {5, 6}, back[2] = {0, 0};
    CUdeviceptr ptr = copy_room();
    void *host = NULL;

    if (conf_need("host", conf.drv->cuMemHostAlloc(&host, 4096, 0)) != 0)
        return;
    conf_code("to-device", conf.drv->cuMemcpy(ptr, (CUdeviceptr)(uintptr_t)words, 8));
    conf_code("from-device", conf.drv->cuMemcpy((CUdeviceptr)(uintptr_t)back, ptr, 8));
    conf_fact("same", memcmp(words, back, 8) == 0);
    memset(back, 0, sizeof back);
    conf_code("host-to-host",
              conf.drv->cuMemcpy((CUdeviceptr)(uintptr_t)back, (CUdeviceptr)(uintptr_t)words, 8));
    conf_fact("same", memcmp(words, back, 8) == 0);
    conf_code("pinned-as-device",
              conf.drv->cuMemcpyDtoD(ptr + 64, (CUdeviceptr)(uintptr_t)host, 8));
    conf_code("pinned-to-device", conf.drv->cuMemcpyHtoD((CUdeviceptr)(uintptr_t)host, words, 8));
    conf_code("sync", conf.drv->cuStreamSynchronize(NULL));
    conf_fact("arrived", memcmp(host, words, 8) == 0);
    conf_code("device-as-host", conf.drv->cuMemcpyHtoD(ptr + 128, (void *)(uintptr_t)ptr, 8));
    conf_fact("arrived", conf_peek(ptr + 128));
    conf_need("free", conf.drv->cuMemFreeHost(host));
    conf_need("free", conf.drv->cuMemFree(ptr));
}

static void copy_pageable_as_device(void) {
    uint32_t words[2] = {5, 6};

    conf_code("copy", conf.drv->cuMemcpyDtoD(copy_room(), (CUdeviceptr)(uintptr_t)words, 8));
    conf_code("sync", conf.drv->cuCtxSynchronize());
}

static void copy_async(void) {
    CUdeviceptr ptr = copy_room();
    CUstream stream = NULL;
    uint32_t *host = NULL;

    if (conf_need("host", conf.drv->cuMemHostAlloc((void **)&host, 4096, 0)) != 0 ||
        conf_need("stream", conf.drv->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)) != 0)
        return;
    host[0] = 8, host[1] = 0;
    conf_code("to-device", conf.drv->cuMemcpyHtoDAsync(ptr, host, 4, stream));
    conf_code("device-to-device", conf.drv->cuMemcpyDtoDAsync(ptr + 64, ptr, 4, stream));
    conf_code("unified", conf.drv->cuMemcpyAsync(ptr + 128, ptr + 64, 4, stream));
    conf_code("peer",
              conf.drv->cuMemcpyPeerAsync(ptr + 192, conf.ctx, ptr + 128, conf.ctx, 4, stream));
    conf_code("from-device", conf.drv->cuMemcpyDtoHAsync(&host[1], ptr + 192, 4, stream));
    conf_code("sync", conf.drv->cuStreamSynchronize(stream));
    conf_fact("arrived", host[1]);
    conf_code("null-to-device", conf.drv->cuMemcpyHtoDAsync(0, host, 4, stream));
    conf_code("peer-no-context",
              conf.drv->cuMemcpyPeerAsync(ptr, NULL, ptr + 64, conf.ctx, 4, stream));
    conf_code("sync", conf.drv->cuStreamSynchronize(stream));
    conf_need("destroy", conf.drv->cuStreamDestroy(stream));
    conf_need("free", conf.drv->cuMemFreeHost(host));
    conf_need("free", conf.drv->cuMemFree(ptr));
}

/* ---- two-dimensional ------------------------------------------------------------------------- */

static CUDA_MEMCPY2D copy_plane(const void *src, size_t src_pitch, CUdeviceptr dst,
                                size_t dst_pitch, size_t width, size_t rows) {
    CUDA_MEMCPY2D copy;

    memset(&copy, 0, sizeof copy);
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = src;
    copy.srcPitch = src_pitch;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = dst;
    copy.dstPitch = dst_pitch;
    copy.WidthInBytes = width;
    copy.Height = rows;
    return copy;
}

static void copy_2d(void) {
    CUdeviceptr ptr = copy_room();
    uint32_t rows[3][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}};
    CUDA_MEMCPY2D copy = copy_plane(rows, 16, ptr, 512, 8, 3);

    conf_code("to-device", conf.drv->cuMemcpy2D(&copy));
    conf_fact("row-0", conf_peek(ptr + 4));
    conf_fact("row-1", conf_peek(ptr + 512));
    conf_fact("row-2", conf_peek(ptr + 1024 + 4));
    copy.srcXInBytes = 8;
    copy.srcY = 1;
    copy.dstXInBytes = 16;
    copy.dstY = 4;
    copy.Height = 2;
    conf_code("part", conf.drv->cuMemcpy2D(&copy));
    conf_fact("row-4", conf_peek(ptr + 4 * 512 + 16));
    conf_fact("row-5", conf_peek(ptr + 5 * 512 + 16));
    copy = copy_plane(rows, 16, ptr, 512, 8, 3);
    conf_code("async", conf.drv->cuMemcpy2DAsync(&copy, NULL));
    conf_code("sync", conf.drv->cuCtxSynchronize());
    conf_need("free", conf.drv->cuMemFree(ptr));
}

static void copy_2d_try(const char *label, CUDA_MEMCPY2D copy) {
    conf_code(label, conf.drv->cuMemcpy2D(&copy));
}

static void copy_2d_bad(void) {
    CUdeviceptr ptr = copy_room();
    uint32_t rows[8][4];
    CUDA_MEMCPY2D copy;

    memset(rows, 0, sizeof rows);
    copy_2d_try("src-pitch", copy_plane(rows, 4, ptr, 512, 8, 2));
    copy_2d_try("dst-pitch", copy_plane(rows, 16, ptr, 4, 8, 2));
    copy_2d_try("pitch-0-one-row", copy_plane(rows, 0, ptr, 0, 8, 1));
    copy_2d_try("pitch-0", copy_plane(rows, 0, ptr, 0, 8, 2));
    copy_2d_try("width-0", copy_plane(rows, 16, ptr, 512, 0, 2));
    copy_2d_try("rows-0", copy_plane(rows, 16, ptr, 512, 8, 0));
    copy_2d_try("pitch-too-large", copy_plane(rows, 16, ptr, (size_t)1 << 40, 8, 2));
    copy_2d_try("null-device", copy_plane(rows, 16, 0, 512, 8, 2));
    copy = copy_plane(rows, 16, ptr, 512, 8, 2);
    copy.srcMemoryType = (CUmemorytype)0;
    copy_2d_try("no-type", copy);
    copy.srcMemoryType = (CUmemorytype)9;
    copy_2d_try("bad-type", copy);
    copy = copy_plane(NULL, 16, ptr, 512, 8, 2);
    copy.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
    copy.srcDevice = ptr + 4096;
    copy_2d_try("unified", copy);
    copy = copy_plane(rows, 16, ptr, 512, 8, 2);
    copy.srcXInBytes = 12;
    copy_2d_try("past-row", copy);
    conf_code("sync", conf.drv->cuCtxSynchronize());
}

static const struct conf_case copy_cases[] = {
    {"simple", copy_simple, 0},
    {"sizes-zero", copy_sizes_zero, 0},
    {"unified", copy_unified, 0},
    {"async", copy_async, 0},
    {"2d", copy_2d, 0},
    {"2d-bad", copy_2d_bad, CONF_ALONE},
    {"null-device", copy_null_device, CONF_ALONE},
    {"low-address", copy_low_address, CONF_ALONE},
    {"null-host-to-device", copy_null_host_to_device, CONF_ALONE},
    {"null-host-from-device", copy_null_host_from_device, CONF_ALONE},
    {"null-unified", copy_null_unified, CONF_ALONE},
    {"past-end", copy_past_end, CONF_ALONE},
    {"freed", copy_freed, CONF_ALONE},
    {"pageable-as-device", copy_pageable_as_device, CONF_ALONE},
};
CONF_GROUP(copy, 0);

/* ---- fills ----------------------------------------------------------------------------------- */

static void fill_simple(void) {
    CUdeviceptr ptr = copy_room();

    conf_code("bytes", conf.drv->cuMemsetD8(ptr, 0xab, 4096));
    conf_fact("read", conf_peek(ptr + 4092));
    conf_code("words", conf.drv->cuMemsetD32(ptr, 77, 16));
    conf_fact("last", conf_peek(ptr + 60));
    conf_fact("beyond", conf_peek(ptr + 64));
    conf_code("odd-bytes", conf.drv->cuMemsetD8(ptr + 3, 1, 5));
    conf_code("async", conf.drv->cuMemsetD8Async(ptr, 2, 64, NULL));
    conf_code("words-async", conf.drv->cuMemsetD32Async(ptr + 64, 3, 4, NULL));
    conf_code("plane", conf.drv->cuMemsetD2D8Async(ptr + 1024, 256, 4, 8, 3, NULL));
    conf_code("sync", conf.drv->cuCtxSynchronize());
    conf_fact("async", conf_peek(ptr));
    conf_fact("words-async", conf_peek(ptr + 64));
    conf_fact("plane-inside", conf_peek(ptr + 1024 + 512 + 4));
    conf_need("free", conf.drv->cuMemFree(ptr));
}

static void fill_bad(void) {
    CUdeviceptr ptr = copy_room();

    conf_code("words-odd-1", conf.drv->cuMemsetD32(ptr + 1, 1, 4));
    conf_code("words-odd-2", conf.drv->cuMemsetD32Async(ptr + 2, 1, 4, NULL));
    conf_code("bytes-0", conf.drv->cuMemsetD8(ptr, 1, 0));
    conf_code("words-0", conf.drv->cuMemsetD32(ptr, 1, 0));
    conf_code("null-0", conf.drv->cuMemsetD8(0, 1, 0));
    conf_code("null", conf.drv->cuMemsetD8(0, 1, 16));
    conf_code("null-async", conf.drv->cuMemsetD8Async(0, 1, 16, NULL));
    conf_code("plane-pitch", conf.drv->cuMemsetD2D8Async(ptr, 4, 1, 8, 2, NULL));
    conf_code("plane-rows-0", conf.drv->cuMemsetD2D8Async(ptr, 16, 1, 8, 0, NULL));
    conf_code("sync", conf.drv->cuCtxSynchronize());
}

static void fill_past_end(void) {
    const size_t bytes = 4 << 20;
    CUdeviceptr ptr = 0;

    if (conf_need("alloc", conf.drv->cuMemAlloc(&ptr, bytes)) != 0)
        return;
    conf_code("bytes", conf.drv->cuMemsetD8(ptr + bytes - 4, 1, 8));
    conf_code("words", conf.drv->cuMemsetD32(ptr + bytes - 4, 1, 2));
    conf_code("start-past-end", conf.drv->cuMemsetD8(ptr + bytes, 1, 4));
    conf_code("word-count-overflows", conf.drv->cuMemsetD32(ptr, 1, ~(size_t)0 / 4 + 2));
    conf_code("sync", conf.drv->cuCtxSynchronize());
}

static void fill_host(void) {
    uint32_t *host = NULL;

    if (conf_need("host", conf.drv->cuMemHostAlloc((void **)&host, 4096, 0)) != 0)
        return;
    host[0] = 0;
    conf_code("pinned", conf.drv->cuMemsetD32((CUdeviceptr)(uintptr_t)host, 9, 4));
    conf_code("sync", conf.drv->cuCtxSynchronize());
    conf_fact("arrived", host[0]);
    conf_need("free", conf.drv->cuMemFreeHost(host));
}

/* ---- fills of memory that the host reads ---- */

enum { FILL_TRIES = 50, FILL_BYTES = 1 << 20, FILL_PITCH = 4096 };

/* Fills the whole block with that byte by one of three synchronous calls. */
static CUresult fill_by(unsigned how, CUdeviceptr ptr, unsigned char value) {
    switch (how) {
    case 0:
        return conf.drv->cuMemsetD8(ptr, value, FILL_BYTES);
    case 1:
        return conf.drv->cuMemsetD32(ptr, value * 0x01010101u, FILL_BYTES / 4);
    default:
        return conf.drv->cuMemsetD2D8(ptr, FILL_PITCH, value, FILL_PITCH, FILL_BYTES / FILL_PITCH);
    }
}

/* Counts how often the last byte is there when a synchronous fill returns. */
static void fill_try(const char *label, CUdeviceptr ptr) {
    const volatile unsigned char *host = (const volatile unsigned char *)(uintptr_t)ptr;
    unsigned how, i, there = 0;
    CUresult code = CUDA_SUCCESS;

    for (how = 0; how < 3; how++)
        for (i = 1; i <= FILL_TRIES && code == CUDA_SUCCESS; i++) {
            code = fill_by(how, ptr, (unsigned char)i);
            there += host[FILL_BYTES - 1] == i;
        }
    conf_value(label, code, there == 3 * FILL_TRIES);
}

/* A synchronous fill of memory that the host can read is done when it returns. */
static void fill_done(void) {
    CUdeviceptr managed = 0;
    void *pinned = NULL;

    if (conf_need("host", conf.drv->cuMemHostAlloc(&pinned, FILL_BYTES, 0)) != 0)
        return;
    fill_try("pinned-done", (CUdeviceptr)(uintptr_t)pinned);
    conf_need("free", conf.drv->cuMemFreeHost(pinned));
    if (conf_need("managed",
                  conf.drv->cuMemAllocManaged(&managed, FILL_BYTES, CU_MEM_ATTACH_GLOBAL)) != 0)
        return;
    fill_try("managed-done", managed);
    conf_need("free", conf.drv->cuMemFree(managed));
}

static void fill_pageable(void) {
    uint32_t *host = malloc(4096);

    if (host == NULL)
        return;
    conf_code("fill", conf.drv->cuMemsetD32((CUdeviceptr)(uintptr_t)host, 9, 4));
    conf_code("sync", conf.drv->cuCtxSynchronize());
    free(host);
}

static const struct conf_case fill_cases[] = {
    {"simple", fill_simple, 0},
    {"host", fill_host, 0},
    {"done", fill_done, 0},
    {"bad", fill_bad, CONF_ALONE},
    {"past-end", fill_past_end, CONF_ALONE},
    {"pageable", fill_pageable, CONF_ALONE},
};
CONF_GROUP(fill, 0);
