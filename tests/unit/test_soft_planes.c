/* Pitched memory on the soft driver: pitch, fills of every width and shape across chunks, and
 * copies between two devices and their order. */
#include "soft_fixture.h"

/* ---- pitch ---- */

SOFT_TEST(planes_pitch_is_freed_whole) {
    uint64_t random = random_seed("planes_pitch_is_freed_whole");
    uint64_t before = soft_used_bytes(0);
    for (int i = 0; i < 200; i++) {
        size_t width = 1 + random_draw(&random, 5000), rows = 1 + random_draw(&random, 300),
               pitch = 0;
        CUdeviceptr at = 0;
        assert_ok(drv->cuMemAllocPitch(&at, &pitch, width, rows, 4u << random_draw(&random, 3)));
        assert_true(pitch >= width && pitch < width + 512 && pitch % 512 == 0);
        assert_ok(drv->cuMemsetD2D8(at, pitch, 7, width, rows));
        assert_true(soft_is_filled(at + (rows - 1) * pitch, width, 7));
        assert_ok(drv->cuMemFree(at));
    }
    assert_int_equal(soft_used_bytes(0), before);
}

SOFT_TEST(planes_pitch_refused_changes_nothing) {
    uint64_t before = soft_used_bytes(0);
    CUdeviceptr at = 77;
    size_t pitch = 78;
    assert_refused(drv->cuMemAllocPitch(&at, &pitch, 64 * MIB, 3, 4));
    assert_refused(drv->cuMemAllocPitch(&at, &pitch, 100, 0, 4));
    assert_refused(drv->cuMemAllocPitch(&at, &pitch, 100, 2, 5));
    assert_refused(drv->cuMemAllocPitch(&at, &pitch, 513, SIZE_MAX / 512, 4));
    assert_int_equal(at, 77);
    assert_int_equal(pitch, 78);
    assert_int_equal(soft_used_bytes(0), before);
}

/* ---- fills ---- */

enum { PLANE = 6 };

/* Does a fill in host memory, for comparison. */
static void fill_here(unsigned char *bytes, size_t at, size_t pitch, size_t width, size_t rows,
                      unsigned value, unsigned value_bytes) {
    for (size_t row = 0; row < rows; row++)
        for (size_t i = 0; i < width; i++)
            memcpy(bytes + at + row * pitch + i * value_bytes, &value, value_bytes);
}

static CUresult fill_there(CUdeviceptr at, size_t pitch, size_t width, size_t rows, unsigned value,
                           unsigned value_bytes, CUstream stream) {
    switch (value_bytes) {
    case 1:
        return stream ? drv->cuMemsetD2D8Async(at, pitch, (unsigned char)value, width, rows, stream)
                      : drv->cuMemsetD2D8(at, pitch, (unsigned char)value, width, rows);
    case 2:
        return stream
                   ? drv->cuMemsetD2D16Async(at, pitch, (unsigned short)value, width, rows, stream)
                   : drv->cuMemsetD2D16(at, pitch, (unsigned short)value, width, rows);
    default:
        return stream ? drv->cuMemsetD2D32Async(at, pitch, value, width, rows, stream)
                      : drv->cuMemsetD2D32(at, pitch, value, width, rows);
    }
}

/* Fills three chunks, so that rows and values cross chunk borders. */
SOFT_TEST(planes_random_fills_are_exact) {
    enum { BYTES = PLANE << 20 };
    uint64_t random = random_seed("planes_random_fills_are_exact");
    unsigned char *expected = calloc(1, BYTES), *got = malloc(BYTES);
    assert_non_null(expected);
    assert_non_null(got);
    CUdeviceptr base = soft_reserve(BYTES);
    for (size_t i = 0; i < BYTES / CHUNK; i++)
        soft_map_at(base + i * CHUNK, soft_chunk(CHUNK, 0), CHUNK, 0);
    CUstream stream = soft_stream(CU_STREAM_DEFAULT);
    for (int i = 0; i < 60; i++) {
        unsigned value_bytes = 1u << random_draw(&random, 3);
        unsigned value = (unsigned)random_draw(&random, (uint64_t)1 << (8 * value_bytes));
        size_t width = random_draw(&random, 3000), rows = random_draw(&random, 500);
        size_t pitch = (width + random_draw(&random, 1000)) * value_bytes;
        size_t room = BYTES - (rows ? (rows - 1) * pitch + width * value_bytes : 0);
        if (rows && (rows - 1) * pitch + width * value_bytes > BYTES)
            continue;
        size_t at = random_draw(&random, room + 1) / value_bytes * value_bytes;
        assert_ok(fill_there(base + at, pitch, width, rows, value, value_bytes,
                             random_draw(&random, 2) ? stream : NULL));
        fill_here(expected, at, pitch, width, rows, value, value_bytes);
    }
    assert_ok(drv->cuCtxSynchronize());
    assert_ok(drv->cuMemcpyDtoH(got, base, BYTES));
    assert_memory_equal(got, expected, BYTES);
    free(expected);
    free(got);
}

SOFT_TEST(planes_fill_of_halves_is_late) {
    struct gate gate;
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    unsigned short *pinned = NULL;
    assert_ok(drv->cuMemAllocHost((void **)&pinned, 4096));
    pinned[0] = 1;
    soft_gate_put(&gate, stream);
    assert_ok(drv->cuMemsetD16Async((CUdeviceptr)(uintptr_t)pinned, 2, 2048, stream));
    assert_int_equal(pinned[0], 1);
    soft_gate_open(&gate);
    assert_ok(drv->cuStreamSynchronize(stream));
    assert_int_equal(pinned[0], 2);
    assert_int_equal(pinned[2047], 2);
    assert_ok(drv->cuMemFreeHost(pinned));
}

/* ---- between devices ---- */

/* cuMemcpyPeer waits for work queued before it on any stream of both devices. */
SOFT_TEST_BARE(planes_peer_copy_waits_for_both_devices) {
    soft_begin(64 * MIB, 2);
    struct gate gate;
    CUdeviceptr from = 0, to = 0;
    assert_ok(drv->cuMemAlloc(&to, 4096));
    assert_ok(drv->cuMemsetD8(to, 1, 4096));
    assert_ok(drv->cuCtxPushCurrent(soft_ctx[1]));
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    assert_ok(drv->cuMemAlloc(&from, 4096));
    soft_gate_put(&gate, stream);
    assert_ok(drv->cuMemsetD8Async(from, 9, 4096, stream));
    assert_ok(drv->cuCtxPopCurrent(&soft_ctx[1]));
    atomic_store(&gate.is_open, 1);
    assert_ok(drv->cuMemcpyPeer(to, soft_ctx[0], from, soft_ctx[1], 4096));
    /* The copy is done when the call returns: a new stream may use the data at once. */
    CUstream later = soft_stream(CU_STREAM_NON_BLOCKING);
    unsigned char *pinned = NULL;
    assert_ok(drv->cuMemAllocHost((void **)&pinned, 4096));
    assert_ok(drv->cuMemcpyDtoHAsync(pinned, to, 4096, later));
    assert_ok(drv->cuStreamSynchronize(later));
    assert_int_equal(pinned[4095], 9);
}

SOFT_TEST(planes_peer_copy_of_unknown_context_is_refused) {
    CUdeviceptr at = 0;
    struct CUctx_st *junk = calloc(1, sizeof *junk);
    assert_non_null(junk);
    assert_ok(drv->cuMemAlloc(&at, 4096));
    assert_int_equal(drv->cuMemcpyPeer(at, junk, at + 2048, soft_ctx[0], 16),
                     CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(drv->cuMemcpyPeer(at, soft_ctx[0], at + 2048, junk, 16),
                     CUDA_ERROR_INVALID_CONTEXT);
    free(junk);
}

/* ---- PCI addresses ---- */

SOFT_TEST_BARE(planes_every_device_is_found_by_its_bus) {
    soft_begin(4 * MIB, ACRE__SOFT_DEVICES_MAX);
    CUdevice dev;
    for (int i = 0; i < ACRE__SOFT_DEVICES_MAX; i++) {
        char text[32];
        assert_ok(drv->cuDeviceGetPCIBusId(text, sizeof text, i));
        assert_ok(drv->cuDeviceGetByPCIBusId(&dev, text));
        assert_int_equal(dev, i);
        text[strlen(text) - 1] = '1'; /* another PCI function */
        assert_refused(drv->cuDeviceGetByPCIBusId(&dev, text));
    }
    static const char *const bad[] = {
        "",       ":",       "1",         "1:",       "x:1:0.0", "1:0.",
        "1:0.0x", "1:2:3:4", "99999:1:0", "-1:1:0.0", " 1:0.0"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(drv->cuDeviceGetByPCIBusId(&dev, bad[i]), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(drv->cuDeviceGetByPCIBusId(&dev, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(drv->cuDeviceGetByPCIBusId(NULL, "1:0.0"), CUDA_ERROR_INVALID_VALUE);
}

int main(void) {
    return tests_run("soft_planes");
}
