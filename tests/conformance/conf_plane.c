/*
 * Conformance: pitched memory, fills of two bytes and of planes, copies between contexts.
 */
#include <string.h>

#include "conformance.h"

enum { ROWS = 5, WIDTH = 300 };

/* Allocates a plane of zero bytes. Returns 0 on failure. */
static CUdeviceptr plane_make(size_t *pitch) {
    CUdeviceptr ptr = 0;

    if (conf_need("pitch", conf.drv->cuMemAllocPitch(&ptr, pitch, WIDTH, ROWS, 4)) != 0 ||
        conf_need("clear", conf.drv->cuMemsetD8(ptr, 0, *pitch * ROWS)) != 0)
        return 0;
    return ptr;
}

static void plane_sizes(void) {
    static const size_t widths[] = {1, 511, 512, 513, 100000};
    static const char *const labels[] = {"1", "511", "512", "513", "100000"};
    CUdeviceptr ptr = 0, base = 0;
    size_t pitch = 0, bytes = 0;
    int i;

    for (i = 0; i < 5; i++) {
        CUresult code = conf.drv->cuMemAllocPitch(&ptr, &pitch, widths[i], 3, 4);

        conf_value(labels[i], code, (long long)pitch);
        if (code != CUDA_SUCCESS)
            continue;
        conf_code("range", conf.drv->cuMemGetAddressRange(&base, &bytes, ptr));
        conf_fact("bytes", (long long)bytes);
        conf_fact("aligned", ptr % 512 == 0 && base == ptr);
        conf_need("free", conf.drv->cuMemFree(ptr));
    }
}

static void plane_elements(void) {
    static const unsigned int elements[] = {0, 1, 2, 4, 8, 16, 32};
    static const char *const labels[] = {"0", "1", "2", "4", "8", "16", "32"};
    int i;

    for (i = 0; i < 7; i++) {
        CUdeviceptr ptr = 0;
        size_t pitch = 0;

        if (conf_code(labels[i], conf.drv->cuMemAllocPitch(&ptr, &pitch, 100, 2, elements[i])) ==
            CUDA_SUCCESS)
            conf_need("free", conf.drv->cuMemFree(ptr));
    }
}

static void plane_sizes_bad(void) {
    CUdeviceptr ptr = 0;
    size_t pitch = 0;

    conf_code("width-0", conf.drv->cuMemAllocPitch(&ptr, &pitch, 0, 2, 4));
    conf_code("rows-0", conf.drv->cuMemAllocPitch(&ptr, &pitch, 100, 0, 4));
    conf_code("above-device",
              conf.drv->cuMemAllocPitch(&ptr, &pitch, 1 << 20, conf.device_bytes >> 10, 4));
    conf_code("rows-overflow", conf.drv->cuMemAllocPitch(&ptr, &pitch, 512, ~(size_t)0 / 512, 4));
    conf_code("widest", conf.drv->cuMemAllocPitch(&ptr, &pitch, ~(size_t)0, 2, 4));
    conf_code("too-wide", conf.drv->cuMemAllocPitch(&ptr, &pitch, (size_t)1 << 40, 2, 4));
}

static void plane_null_pointer(void) {
    size_t pitch = 0;

    conf_code("pointer", conf.drv->cuMemAllocPitch(NULL, &pitch, 100, 2, 4));
}

static void plane_null_pitch(void) {
    CUdeviceptr ptr = 0;

    conf_code("pitch", conf.drv->cuMemAllocPitch(&ptr, NULL, 100, 2, 4));
}

static void plane_host(void) {
    unsigned int flags = 99;
    void *host = NULL;

    conf_code("alloc", conf.drv->cuMemAllocHost(&host, 1000));
    conf_code("flags", conf.drv->cuMemHostGetFlags(&flags, host));
    conf_fact("flags", flags);
    conf_code("free", conf.drv->cuMemFreeHost(host));
    host = &flags;
    conf_code("zero", conf.drv->cuMemAllocHost(&host, 0));
    conf_fact("is-null", host == NULL);
    conf_code("largest", conf.drv->cuMemAllocHost(&host, ~(size_t)0 / 2));
}

static void plane_host_null(void) {
    conf_code("null", conf.drv->cuMemAllocHost(NULL, 1000));
}

/* ---- fills ----------------------------------------------------------------------------------- */

static void plane_halves(void) {
    CUdeviceptr ptr = 0;

    if (conf_need("alloc", conf.drv->cuMemAlloc(&ptr, 4096)) != 0 ||
        conf_need("clear", conf.drv->cuMemsetD8(ptr, 0, 4096)) != 0)
        return;
    conf_code("fill", conf.drv->cuMemsetD16(ptr, 0x1234, 4));
    conf_fact("first", conf_peek(ptr));
    conf_fact("last", conf_peek(ptr + 4));
    conf_fact("beyond", conf_peek(ptr + 8));
    conf_code("at-2", conf.drv->cuMemsetD16Async(ptr + 18, 0xabcd, 3, NULL));
    conf_fact("before", conf_peek(ptr + 16));
    conf_fact("after", conf_peek(ptr + 20));
    conf_code("odd", conf.drv->cuMemsetD16(ptr + 1, 1, 4));
    conf_code("odd-async", conf.drv->cuMemsetD16Async(ptr + 1, 1, 4, NULL));
    conf_code("zero", conf.drv->cuMemsetD16(ptr, 1, 0));
    conf_code("null", conf.drv->cuMemsetD16(0, 1, 4));
    conf_code("sync", conf.drv->cuCtxSynchronize());
    conf_need("free", conf.drv->cuMemFree(ptr));
}

static void plane_fills(void) {
    size_t pitch = 0;
    CUdeviceptr ptr = plane_make(&pitch);

    if (ptr == 0)
        return;
    conf_code("bytes", conf.drv->cuMemsetD2D8(ptr, pitch, 1, 8, 2));
    conf_fact("row-1", conf_peek(ptr + pitch + 4));
    conf_fact("beside", conf_peek(ptr + pitch + 8));
    conf_fact("row-2", conf_peek(ptr + 2 * pitch));
    conf_code("halves", conf.drv->cuMemsetD2D16(ptr + 16, pitch, 0x0203, 4, 3));
    conf_fact("row-2", conf_peek(ptr + 2 * pitch + 20));
    conf_fact("beside", conf_peek(ptr + 2 * pitch + 24));
    conf_code("words", conf.drv->cuMemsetD2D32(ptr + 32, pitch, 77, 2, 4));
    conf_fact("row-3", conf_peek(ptr + 3 * pitch + 36));
    conf_fact("beside", conf_peek(ptr + 3 * pitch + 40));
    conf_code("halves-async", conf.drv->cuMemsetD2D16Async(ptr, pitch, 5, 2, ROWS, NULL));
    conf_fact("row-4", conf_peek(ptr + 4 * pitch));
    conf_code("words-async", conf.drv->cuMemsetD2D32Async(ptr, pitch, 6, 1, ROWS, NULL));
    conf_fact("row-4", conf_peek(ptr + 4 * pitch));
    conf_code("sync", conf.drv->cuCtxSynchronize());
    conf_need("free", conf.drv->cuMemFree(ptr));
}

static void plane_fills_bad(void) {
    size_t pitch = 0;
    CUdeviceptr ptr = plane_make(&pitch);

    if (ptr == 0)
        return;
    conf_code("halves-odd", conf.drv->cuMemsetD2D16(ptr + 1, pitch, 1, 4, 2));
    conf_code("words-odd", conf.drv->cuMemsetD2D32(ptr + 2, pitch, 1, 4, 2));
    conf_code("halves-odd-pitch", conf.drv->cuMemsetD2D16(ptr, 33, 1, 4, 2));
    conf_code("words-odd-pitch", conf.drv->cuMemsetD2D32(ptr, 34, 1, 4, 2));
    conf_code("odd-pitch-one-row", conf.drv->cuMemsetD2D32(ptr, 33, 1, 4, 1));
    conf_code("narrow-pitch", conf.drv->cuMemsetD2D32(ptr, 8, 1, 4, 2));
    conf_code("pitch-0-one-row", conf.drv->cuMemsetD2D8(ptr, 0, 1, 4, 1));
    conf_code("width-0", conf.drv->cuMemsetD2D16(ptr, pitch, 1, 0, 2));
    conf_code("rows-0", conf.drv->cuMemsetD2D32(ptr, pitch, 1, 4, 0));
    conf_code("null", conf.drv->cuMemsetD2D8(0, pitch, 1, 4, 2));
    conf_code("sync", conf.drv->cuCtxSynchronize());
    conf_need("free", conf.drv->cuMemFree(ptr));
}

static void plane_fills_past_end(void) {
    size_t pitch = 0;
    CUdeviceptr ptr = 0;

    if (conf_need("pitch", conf.drv->cuMemAllocPitch(&ptr, &pitch, 1 << 20, 4, 4)) != 0)
        return;
    conf_code("rows", conf.drv->cuMemsetD2D8(ptr, pitch, 1, 4, 6));
    conf_code("last-row", conf.drv->cuMemsetD2D16(ptr + 2, pitch, 1, pitch / 2, 4));
    conf_code("all", conf.drv->cuMemsetD2D32(ptr, pitch, 1, pitch / 4, 4));
    conf_code("sync", conf.drv->cuCtxSynchronize());
    conf_need("free", conf.drv->cuMemFree(ptr));
}

/* ---- copies ---------------------------------------------------------------------------------- */

static void plane_unaligned(void) {
    static const char text[] = "abcdefghijkl";
    char back[12];
    size_t pitch = 0;
    CUdeviceptr ptr = plane_make(&pitch);
    CUDA_MEMCPY2D copy;

    if (ptr == 0)
        return;
    memset(&copy, 0, sizeof copy);
    memset(back, '.', sizeof back);
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = text;
    copy.srcPitch = 5;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = ptr;
    copy.dstPitch = pitch;
    copy.dstXInBytes = 3;
    copy.WidthInBytes = 3;
    copy.Height = 2;
    conf_code("to", conf.drv->cuMemcpy2DUnaligned(&copy));
    conf_code("row-0", conf.drv->cuMemcpyDtoH(back, ptr + 3, 3));
    conf_code("row-1", conf.drv->cuMemcpyDtoH(back + 3, ptr + pitch + 3, 3));
    conf_fact("is-right", memcmp(back, "abcfgh......", 12) == 0);
    copy.srcPitch = 2;
    conf_code("narrow", conf.drv->cuMemcpy2DUnaligned(&copy));
    copy.srcPitch = 5;
    copy.Height = 0;
    conf_code("rows-0", conf.drv->cuMemcpy2DUnaligned(&copy));
    conf_need("free", conf.drv->cuMemFree(ptr));
}

/* Pageable memory declared as device memory, or as unified. */
static void plane_said(void) {
    static const CUmemorytype types[] = {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_UNIFIED};
    static const char *const from[] = {"from-device", "from-unified"};
    static const char *const to[] = {"to-device", "to-unified"};
    static char host[512];
    size_t pitch = 0;
    CUdeviceptr ptr = plane_make(&pitch);
    int i;

    if (ptr == 0)
        return;
    for (i = 0; i < 2; i++) {
        CUDA_MEMCPY2D copy;

        memset(&copy, 0, sizeof copy);
        copy.srcMemoryType = types[i];
        copy.srcDevice = (CUdeviceptr)(uintptr_t)host;
        copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        copy.dstDevice = ptr;
        copy.dstPitch = pitch;
        copy.srcPitch = 256;
        copy.WidthInBytes = 16;
        copy.Height = 2;
        conf_code(from[i], conf.drv->cuMemcpy2D(&copy));
        copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
        copy.srcDevice = ptr;
        copy.srcPitch = pitch;
        copy.dstMemoryType = types[i];
        copy.dstDevice = (CUdeviceptr)(uintptr_t)host;
        copy.dstPitch = 256;
        conf_code(to[i], conf.drv->cuMemcpy2D(&copy));
    }
    conf_need("free", conf.drv->cuMemFree(ptr));
}

static void plane_unaligned_null(void) {
    conf_code("null", conf.drv->cuMemcpy2DUnaligned(NULL));
}

/* Both sides in one context. A NULL context is the current one. */
static void plane_peer(void) {
    CUdeviceptr a = 0, b = 0;
    char host[4] = {0};

    if (conf_need("alloc", conf.drv->cuMemAlloc(&a, 4096)) != 0 ||
        conf_need("alloc", conf.drv->cuMemAlloc(&b, 4096)) != 0 ||
        conf_need("poke", conf_poke(a, 42)) != 0)
        return;
    conf_code("copy", conf.drv->cuMemcpyPeer(b, conf.ctx, a, conf.ctx, 4));
    conf_fact("read", conf_peek(b));
    conf_code("zero", conf.drv->cuMemcpyPeer(b, conf.ctx, a, conf.ctx, 0));
    conf_code("null-source", conf.drv->cuMemcpyPeer(b, conf.ctx, 0, conf.ctx, 4));
    conf_code("pageable",
              conf.drv->cuMemcpyPeer(b, conf.ctx, (CUdeviceptr)(uintptr_t)host, conf.ctx, 4));
    conf_code("sync", conf.drv->cuCtxSynchronize());
    conf_need("free", conf.drv->cuMemFree(a));
    conf_need("free", conf.drv->cuMemFree(b));
}

static void plane_peer_null_context(void) {
    CUdeviceptr ptr = 0;

    if (conf_need("alloc", conf.drv->cuMemAlloc(&ptr, 4096)) != 0)
        return;
    conf_code("copy", conf.drv->cuMemcpyPeer(ptr + 1024, NULL, ptr, NULL, 4));
}

static const struct conf_case plane_cases[] = {
    {"sizes", plane_sizes, 0},
    {"elements", plane_elements, 0},
    {"sizes-bad", plane_sizes_bad, 0},
    {"null-pointer", plane_null_pointer, CONF_ALONE},
    {"null-pitch", plane_null_pitch, CONF_ALONE},
    {"host", plane_host, 0},
    {"host-null", plane_host_null, CONF_ALONE},
    {"halves", plane_halves, 0},
    {"fills", plane_fills, 0},
    {"fills-bad", plane_fills_bad, 0},
    {"fills-past-end", plane_fills_past_end, 0},
    {"unaligned", plane_unaligned, 0},
    {"said", plane_said, 0},
    {"unaligned-null", plane_unaligned_null, CONF_ALONE},
    {"peer", plane_peer, 0},
    {"peer-null-context", plane_peer_null_context, CONF_ALONE},
};
CONF_GROUP(plane, 0);
