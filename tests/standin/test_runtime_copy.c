/* Copies and fills: every kind, one and two dimensions, between devices, in stream order, and
 * refused calls. */
#include "runtime_expect.h"

enum { BYTES = 4096, PITCH = 512, WIDTH = 100, ROWS = 6 };

/* ---- one dimension ---- */

TEST(copy_every_kind_moves_bytes) {
    unsigned char out[BYTES], in[BYTES];
    char *a = device_block(BYTES), *b = device_block(BYTES);
    for (int i = 0; i < BYTES; i++)
        out[i] = (unsigned char)(i * 7);
    ok(cudaMemcpy(a, out, BYTES, cudaMemcpyHostToDevice));
    ok(cudaMemcpy(b, a, BYTES, cudaMemcpyDeviceToDevice));
    memset(in, 0, BYTES);
    ok(cudaMemcpy(in, b, BYTES, cudaMemcpyDeviceToHost));
    assert_memory_equal(in, out, BYTES);
    memset(in, 0, BYTES);
    ok(cudaMemcpy(in, out, BYTES, cudaMemcpyHostToHost));
    assert_memory_equal(in, out, BYTES);
    ok(cudaFree(a));
    ok(cudaFree(b));
}

TEST(copy_default_finds_the_kind) {
    unsigned char out[BYTES], in[BYTES];
    char *a = device_block(BYTES), *b = device_block(BYTES);
    memset(out, 11, BYTES);
    memset(in, 0, BYTES);
    ok(cudaMemcpy(a, out, BYTES, cudaMemcpyDefault));
    ok(cudaMemcpy(b, a, BYTES, cudaMemcpyDefault));
    ok(cudaMemcpy(in, b, BYTES, cudaMemcpyDefault));
    assert_memory_equal(in, out, BYTES);
    memset(in, 0, BYTES);
    ok(cudaMemcpy(in, out, BYTES, cudaMemcpyDefault));
    assert_memory_equal(in, out, BYTES);
    ok(cudaFree(a));
    ok(cudaFree(b));
}

/* Memory declared as device memory must be known to the runtime. Memory declared as host memory may
 * be anything, since all memory shares one address space. */
TEST(copy_between_wrong_kinds) {
    unsigned char own[64], *pinned = NULL;
    char *p = device_block(BYTES);
    memset(own, 3, sizeof own);
    ok(cudaMallocHost((void **)&pinned, BYTES));
    expect(cudaErrorInvalidValue, cudaMemcpy(own, own, 64, cudaMemcpyHostToDevice));
    expect(cudaErrorInvalidValue, cudaMemcpy(own, own, 64, cudaMemcpyDeviceToHost));
    expect(cudaErrorInvalidValue, cudaMemcpy(p, own, 64, cudaMemcpyDeviceToDevice));
    expect(cudaErrorInvalidValue, cudaMemcpy(own, p, 64, cudaMemcpyDeviceToDevice));
    expect(cudaErrorInvalidMemcpyDirection, cudaMemcpy(p, own, 64, (enum cudaMemcpyKind)5));
    expect(cudaErrorInvalidMemcpyDirection, cudaMemcpy(p, own, 64, (enum cudaMemcpyKind) - 1));
    expect(cudaErrorInvalidMemcpyDirection,
           cudaMemcpyAsync(p, own, 64, (enum cudaMemcpyKind)5, NULL));
    ok(cudaMemcpy(pinned, own, 64, cudaMemcpyHostToDevice));
    ok(cudaDeviceSynchronize());
    assert_int_equal(pinned[63], 3);
    ok(cudaMemcpy(p, pinned, 64, cudaMemcpyDeviceToDevice));
    assert_int_equal(device_byte(p + 63), 3);
    ok(cudaMemcpy(p + 64, p, 64, cudaMemcpyHostToDevice));
    assert_int_equal(device_byte(p + 127), 3);
    ok(cudaFree(p));
    ok(cudaFreeHost(pinned));
}

TEST(copy_bad_ranges_are_refused) {
    const size_t bytes = (size_t)4 << 20;
    char *p = device_block(bytes), *gone = device_block(bytes);
    char *own = calloc(2, bytes);
    assert_non_null(own);
    ok(cudaFree(gone));
    ok(cudaMemcpy(p, own, 0, cudaMemcpyHostToDevice));
    ok(cudaMemcpy(NULL, NULL, 0, cudaMemcpyDefault));
    expect(cudaErrorInvalidValue, cudaMemcpy(p, own, 2 * bytes, cudaMemcpyHostToDevice));
    expect(cudaErrorInvalidValue, cudaMemcpy(own, p + bytes - 4, 8, cudaMemcpyDeviceToHost));
    expect(cudaErrorInvalidValue, cudaMemcpy(NULL, own, 4, cudaMemcpyHostToDevice));
    expect(cudaErrorInvalidValue, cudaMemcpy(p, NULL, 4, cudaMemcpyHostToDevice));
    expect(cudaErrorInvalidValue, cudaMemcpy(NULL, p, 4, cudaMemcpyDeviceToHost));
    expect(cudaErrorInvalidValue, cudaMemcpy(gone, own, 4, cudaMemcpyHostToDevice));
    expect(cudaErrorInvalidValue, cudaMemcpy(own, gone, 4, cudaMemcpyDeviceToHost));
    expect(cudaErrorInvalidValue, cudaMemset(gone, 0, 4));
    ok(cudaFree(p));
    free(own);
}

/* ---- in stream order ---- */

TEST(copy_async_comes_in_its_turn) {
    struct gate gate;
    cudaStream_t stream;
    unsigned char *pinned = NULL;
    char *p = device_block(BYTES);
    ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    ok(cudaMallocHost((void **)&pinned, 2 * BYTES));
    memset(pinned, 1, 2 * BYTES);
    gate_close(&gate, stream);
    ok(cudaMemcpyAsync(p, pinned, BYTES, cudaMemcpyHostToDevice, stream));
    ok(cudaMemsetAsync(p, 2, BYTES / 2, stream));
    ok(cudaMemcpyAsync(pinned + BYTES, p, BYTES, cudaMemcpyDefault, stream));
    expect(cudaErrorNotReady, cudaStreamQuery(stream));
    /* The copy has not started, so these bytes are copied. */
    memset(pinned, 9, BYTES);
    gate_open(&gate);
    ok(cudaStreamSynchronize(stream));
    assert_int_equal(pinned[BYTES], 2);
    assert_int_equal(pinned[2 * BYTES - 1], 9);
    ok(cudaStreamQuery(stream));
    ok(cudaFreeHost(pinned));
    ok(cudaFree(p));
    ok(cudaStreamDestroy(stream));
}

TEST(copy_sync_waits_for_the_legacy_stream) {
    unsigned char byte = 0;
    char *p = device_block(BYTES);
    ok(cudaMemsetAsync(p, 4, BYTES, NULL));
    ok(cudaMemcpy(&byte, p + BYTES - 1, 1, cudaMemcpyDeviceToHost));
    assert_int_equal(byte, 4);
    ok(cudaFree(p));
}

static void stand_a_moment(void *nothing) {
    (void)nothing;
    usleep(20000);
}

/* A fill of memory that the host can read is over when the call returns, also behind other work of
 * its stream. */
static void expect_filled(unsigned char *host) {
    memset(host, 0, BYTES);
    ok(cudaLaunchHostFunc(NULL, stand_a_moment, NULL));
    ok(cudaMemset(host, 5, BYTES));
    assert_int_equal(host[BYTES - 1], 5);
    ok(cudaLaunchHostFunc(NULL, stand_a_moment, NULL));
    ok(cudaMemset2D(host, PITCH, 6, WIDTH, ROWS));
    assert_int_equal(host[(ROWS - 1) * PITCH + WIDTH - 1], 6);
    assert_int_equal(host[(ROWS - 1) * PITCH + WIDTH], 5);
}

TEST(copy_fill_of_host_memory_is_over) {
    unsigned char *pinned = NULL, *managed = NULL, *own = aligned_alloc(65536, 65536);
    assert_non_null(own);
    ok(cudaMallocHost((void **)&pinned, BYTES));
    expect_filled(pinned);
    ok(cudaFreeHost(pinned));
    ok(cudaMallocManaged((void **)&managed, BYTES, cudaMemAttachGlobal));
    expect_filled(managed);
    ok(cudaFree(managed));
    ok(cudaHostRegister(own, 65536, 0));
    expect_filled(own);
    ok(cudaHostUnregister(own));
    free(own);
}

TEST(copy_async_bad_ranges_are_refused) {
    cudaStream_t stream;
    char own[8] = "";
    ok(cudaStreamCreate(&stream));
    expect(cudaErrorInvalidValue, cudaMemcpyAsync(NULL, own, 8, cudaMemcpyHostToDevice, stream));
    expect(cudaErrorInvalidValue, cudaMemsetAsync(NULL, 0, 8, stream));
    ok(cudaStreamDestroy(stream));
}

/* ---- two dimensions ---- */

static void fill_rows(unsigned char rows[ROWS][PITCH]) {
    for (int y = 0; y < ROWS; y++)
        for (int x = 0; x < PITCH; x++)
            rows[y][x] = (unsigned char)(x + 31 * y);
}

static void expect_rows(unsigned char got[ROWS][PITCH], unsigned char want[ROWS][PITCH]) {
    for (int y = 0; y < ROWS; y++) {
        assert_memory_equal(got[y], want[y], WIDTH);
        assert_int_equal(got[y][WIDTH], 0xee);
    }
}

TEST(copy_2d_moves_rows_alone) {
    static const enum cudaMemcpyKind to[] = {cudaMemcpyHostToDevice, cudaMemcpyDefault};
    static const enum cudaMemcpyKind back[] = {cudaMemcpyDeviceToHost, cudaMemcpyDefault};
    static unsigned char out[ROWS][PITCH], in[ROWS][PITCH];
    char *a = device_block(ROWS * PITCH), *b = device_block(ROWS * 256);
    fill_rows(out);
    for (int i = 0; i < 2; i++) {
        memset(in, 0xee, sizeof in);
        ok(cudaMemcpy2D(a, PITCH, out, PITCH, WIDTH, ROWS, to[i]));
        ok(cudaMemcpy2D(b, 256, a, PITCH, WIDTH, ROWS, cudaMemcpyDeviceToDevice));
        ok(cudaMemcpy2D(in, PITCH, b, 256, WIDTH, ROWS, back[i]));
        expect_rows(in, out);
        memset(in, 0xee, sizeof in);
        ok(cudaMemcpy2DAsync(b, 256, a, PITCH, WIDTH, ROWS, cudaMemcpyDeviceToDevice, NULL));
        ok(cudaMemcpy2DAsync(in, PITCH, b, 256, WIDTH, ROWS, back[i], NULL));
        ok(cudaStreamSynchronize(NULL));
        expect_rows(in, out);
    }
    memset(in, 0xee, sizeof in);
    ok(cudaMemcpy2D(in, PITCH, out, PITCH, WIDTH, ROWS, cudaMemcpyHostToHost));
    expect_rows(in, out);
    ok(cudaFree(a));
    ok(cudaFree(b));
}

TEST(copy_2d_bad_arguments_are_refused) {
    static unsigned char own[ROWS][PITCH];
    char *p = device_block(ROWS * PITCH);
    expect(cudaErrorInvalidPitchValue,
           cudaMemcpy2D(p, WIDTH - 1, own, PITCH, WIDTH, ROWS, cudaMemcpyHostToDevice));
    expect(cudaErrorInvalidPitchValue,
           cudaMemcpy2D(p, PITCH, own, WIDTH - 1, WIDTH, ROWS, cudaMemcpyHostToDevice));
    expect(cudaErrorInvalidPitchValue,
           cudaMemcpy2DAsync(p, 0, own, PITCH, WIDTH, ROWS, cudaMemcpyHostToDevice, NULL));
    expect(cudaErrorInvalidMemcpyDirection,
           cudaMemcpy2D(p, PITCH, own, PITCH, WIDTH, ROWS, (enum cudaMemcpyKind)5));
    expect(cudaErrorInvalidMemcpyDirection,
           cudaMemcpy2DAsync(p, PITCH, own, PITCH, WIDTH, ROWS, (enum cudaMemcpyKind)5, NULL));
    expect(cudaErrorInvalidValue,
           cudaMemcpy2D(NULL, PITCH, own, PITCH, WIDTH, ROWS, cudaMemcpyHostToDevice));
    ok(cudaMemcpy2D(p, PITCH, own, PITCH, 0, ROWS, cudaMemcpyHostToDevice));
    ok(cudaMemcpy2D(p, PITCH, own, PITCH, WIDTH, 0, cudaMemcpyHostToDevice));
    ok(cudaFree(p));
}

/* ---- fills ---- */

TEST(fill_sets_bytes_alone) {
    unsigned char in[BYTES];
    char *p = device_block(BYTES);
    ok(cudaMemset(p, 0, BYTES));
    ok(cudaMemset(p + 3, 0x1234, 5)); /* the low byte counts */
    ok(cudaMemsetAsync(p + 100, -1, 1, NULL));
    ok(cudaMemset2D(p + 512, 256, 7, 3, 4));
    ok(cudaMemset2DAsync(p + 2048, 256, 8, 3, 4, NULL));
    ok(cudaMemcpy(in, p, BYTES, cudaMemcpyDeviceToHost));
    assert_int_equal(in[2], 0);
    assert_int_equal(in[3], 0x34);
    assert_int_equal(in[7], 0x34);
    assert_int_equal(in[8], 0);
    assert_int_equal(in[100], 0xff);
    for (int y = 0; y < 4; y++) {
        assert_int_equal(in[512 + 256 * y + 2], 7);
        assert_int_equal(in[512 + 256 * y + 3], 0);
        assert_int_equal(in[2048 + 256 * y + 2], 8);
    }
    ok(cudaFree(p));
}

TEST(fill_bad_arguments_are_refused) {
    char *p = device_block(BYTES), own[16];
    ok(cudaMemset(p, 1, 0));
    expect(cudaErrorInvalidValue, cudaMemset(NULL, 1, 16));
    expect(cudaErrorInvalidValue, cudaMemset(own, 1, 16));
    expect(cudaErrorInvalidValue, cudaMemset(p, 1, (size_t)64 << 20));
    expect(cudaErrorInvalidValue, cudaMemset2D(p, 2, 1, 3, 4));
    expect(cudaErrorInvalidValue, cudaMemset2DAsync(NULL, 256, 1, 3, 4, NULL));
    ok(cudaFree(p));
}

/* ---- between devices ---- */

TEST(copy_peer_reaches_the_other_device) {
    int count = 0, can = -1;
    void *here = device_block(BYTES), *there = NULL;
    ok(cudaGetDeviceCount(&count));
    if (count < 2)
        skip();
    ok(cudaMemset(here, 6, BYTES));
    ok(cudaSetDevice(1));
    there = device_block(BYTES);
    ok(cudaMemset(there, 0, BYTES));
    ok(cudaMemcpyPeer(there, 1, here, 0, BYTES));
    assert_int_equal(device_byte((char *)there + BYTES - 1), 6);
    ok(cudaMemset(there, 0, BYTES));
    ok(cudaMemcpyPeerAsync(there, 1, here, 0, BYTES, NULL));
    ok(cudaStreamSynchronize(NULL));
    assert_int_equal(device_byte(there), 6);
    expect(cudaErrorInvalidDevice, cudaMemcpyPeer(there, 99, here, 0, BYTES));
    expect(cudaErrorInvalidDevice, cudaMemcpyPeerAsync(there, 1, here, -1, BYTES, NULL));
    ok(cudaDeviceCanAccessPeer(&can, 1, 0));
    if (can) {
        ok(cudaDeviceEnablePeerAccess(0, 0));
        expect(cudaErrorPeerAccessAlreadyEnabled, cudaDeviceEnablePeerAccess(0, 0));
        expect(cudaErrorInvalidValue, cudaDeviceEnablePeerAccess(0, 1));
        ok(cudaMemset(here, 5, BYTES));
        ok(cudaMemcpy(there, here, BYTES, cudaMemcpyDeviceToDevice));
        assert_int_equal(device_byte(there), 5);
        ok(cudaDeviceDisablePeerAccess(0));
        expect(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(0));
    }
    expect(cudaErrorInvalidDevice, cudaDeviceEnablePeerAccess(99, 0));
    ok(cudaFree(there));
    ok(cudaSetDevice(0));
    ok(cudaFree(here));
}

int main(void) {
    setenv("ACRE_SOFT_DEVICES", "2", 1);
    return tests_run("runtime_copy");
}
