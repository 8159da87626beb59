/* Memory of every kind except pools: allocate, use, query, free, and misuse. */
#include "runtime_expect.h"

enum { BYTES = 1 << 16 };

/* ---- device memory ---- */

TEST(memory_device_block_holds_bytes) {
    unsigned char out[256], in[256];
    char *p = device_block(BYTES);
    for (int i = 0; i < 256; i++)
        out[i] = (unsigned char)i;
    assert_int_equal((uintptr_t)p % 256, 0);
    ok(cudaMemcpy(p + BYTES - 256, out, 256, cudaMemcpyHostToDevice));
    ok(cudaMemcpy(in, p + BYTES - 256, 256, cudaMemcpyDeviceToHost));
    assert_memory_equal(in, out, 256);
    ok(cudaFree(p));
}

TEST(memory_device_sizes) {
    void *p = &p;
    ok(cudaMalloc(&p, 0));
    assert_null(p);
    expect(cudaErrorMemoryAllocation, cudaMalloc(&p, (size_t)1 << 60));
    expect(cudaErrorMemoryAllocation, cudaMalloc(&p, SIZE_MAX));
    expect(cudaErrorInvalidValue, cudaMalloc(NULL, 16));
    ok(cudaMalloc(&p, 1));
    ok(cudaFree(p));
}

TEST(memory_device_wrong_frees_are_refused) {
    char *p = device_block(BYTES);
    void *pinned = NULL;
    int own;
    ok(cudaMallocHost(&pinned, BYTES));
    ok(cudaFree(NULL));
    expect(cudaErrorInvalidValue, cudaFree(p + 64));
    expect(cudaErrorInvalidValue, cudaFree(&own));
    expect(cudaErrorInvalidValue, cudaFree((void *)4096));
    expect(cudaErrorInvalidValue, cudaFree(pinned));
    ok(cudaFree(p));
    expect(cudaErrorInvalidValue, cudaFree(p));
    ok(cudaFreeHost(pinned));
}

TEST(memory_info_counts_what_is_held) {
    size_t before, total, during, after;
    void *p;
    ok(cudaMemGetInfo(&before, &total));
    p = device_block((size_t)8 << 20);
    ok(cudaMemGetInfo(&during, NULL));
    ok(cudaFree(p));
    ok(cudaMemGetInfo(&after, &total));
    assert_true(before <= total);
    assert_true(before - during >= (size_t)8 << 20);
    assert_int_equal(before, after);
}

TEST(memory_pitch_gives_rows) {
    enum { WIDTH = 1000, ROWS = 5 };
    void *p = NULL;
    size_t pitch = 0;
    ok(cudaMallocPitch(&p, &pitch, WIDTH, ROWS));
    assert_true(pitch >= WIDTH);
    assert_int_equal(pitch % 256, 0);
    ok(cudaMemset2D(p, pitch, 7, WIDTH, ROWS));
    assert_int_equal(device_byte((char *)p + (ROWS - 1) * pitch + WIDTH - 1), 7);
    ok(cudaFree(p));
    expect(cudaErrorMemoryAllocation, cudaMallocPitch(&p, &pitch, WIDTH, (size_t)1 << 52));
    expect(cudaErrorInvalidValue, cudaMallocPitch(NULL, &pitch, WIDTH, ROWS));
    expect(cudaErrorInvalidValue, cudaMallocPitch(&p, NULL, WIDTH, ROWS));
    ok(cudaMallocPitch(&p, &pitch, WIDTH, 0));
    assert_null(p);
}

/* ---- host memory ---- */

TEST(memory_pinned_takes_every_flag) {
    for (unsigned flags = 0; flags < 8; flags++) {
        unsigned char *p = NULL;
        unsigned found = 0;
        void *seen = NULL;
        ok(cudaHostAlloc((void **)&p, BYTES, flags));
        memset(p, 1, BYTES);
        ok(cudaHostGetFlags(&found, p));
        /* Every block is mapped, whether requested or not. */
        assert_int_equal(found, flags | cudaHostAllocMapped);
        ok(cudaHostGetDevicePointer(&seen, p, 0));
        ok(cudaMemset(seen, 9, BYTES));
        ok(cudaDeviceSynchronize());
        assert_int_equal(p[BYTES - 1], 9);
        ok(cudaFreeHost(p));
    }
}

TEST(memory_pinned_bad_arguments_are_refused) {
    void *p = &p;
    expect(cudaErrorInvalidValue, cudaHostAlloc(&p, BYTES, 8));
    expect(cudaErrorInvalidValue, cudaHostAlloc(NULL, BYTES, 0));
    expect(cudaErrorInvalidValue, cudaMallocHost(NULL, BYTES));
    expect(cudaErrorMemoryAllocation, cudaMallocHost(&p, (size_t)1 << 60));
    ok(cudaMallocHost(&p, 0));
    assert_null(p);
}

TEST(memory_pinned_wrong_frees_are_refused) {
    void *device = device_block(BYTES), *p = NULL;
    int own;
    ok(cudaMallocHost(&p, BYTES));
    ok(cudaFreeHost(NULL));
    expect(cudaErrorInvalidValue, cudaFreeHost((char *)p + 64));
    expect(cudaErrorInvalidValue, cudaFreeHost(&own));
    expect(cudaErrorInvalidValue, cudaFreeHost(device));
    ok(cudaFreeHost(p));
    expect(cudaErrorInvalidValue, cudaFreeHost(p));
    ok(cudaFree(device));
}

TEST(memory_pinned_queries_of_other_memory_are_refused) {
    void *p = NULL, *seen = NULL;
    unsigned flags;
    int own;
    ok(cudaMallocHost(&p, BYTES));
    ok(cudaHostGetDevicePointer(&seen, (char *)p + 100, 0));
    expect(cudaErrorInvalidValue, cudaHostGetDevicePointer(&seen, p, 1));
    expect(cudaErrorInvalidValue, cudaHostGetDevicePointer(NULL, p, 0));
    expect(cudaErrorInvalidValue, cudaHostGetDevicePointer(&seen, &own, 0));
    expect(cudaErrorInvalidValue, cudaHostGetFlags(&flags, &own));
    expect(cudaErrorInvalidValue, cudaHostGetFlags(NULL, p));
    ok(cudaFreeHost(p));
}

TEST(memory_registered_is_pinned_until_unregistered) {
    unsigned char *own = aligned_alloc(65536, 65536);
    void *seen = NULL;
    unsigned flags = 0;
    assert_non_null(own);
    ok(cudaHostRegister(own, 65536, cudaHostRegisterMapped | cudaHostRegisterPortable));
    ok(cudaHostGetDevicePointer(&seen, own, 0));
    ok(cudaHostGetFlags(&flags, own));
    ok(cudaMemset(seen, 3, 65536));
    ok(cudaDeviceSynchronize());
    assert_int_equal(own[65535], 3);
    expect(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(own, 4096, 0));
    expect(cudaErrorInvalidValue, cudaFreeHost(own));
    expect(cudaErrorInvalidValue, cudaHostUnregister(own + 4096));
    ok(cudaHostUnregister(own));
    expect(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(own));
    expect(cudaErrorInvalidValue, cudaHostGetDevicePointer(&seen, own, 0));
    expect(cudaErrorInvalidValue, cudaHostRegister(own, 0, 0));
    expect(cudaErrorInvalidValue, cudaHostRegister(NULL, 4096, 0));
    expect(cudaErrorInvalidValue, cudaHostRegister(own, 4096, 0x40));
    expect(cudaErrorInvalidValue, cudaHostUnregister(NULL));
    free(own);
}

/* ---- managed memory ---- */

TEST(memory_managed_is_seen_by_both_sides) {
    unsigned char *p = NULL;
    ok(cudaMallocManaged((void **)&p, BYTES, cudaMemAttachGlobal));
    memset(p, 5, BYTES);
    ok(cudaMemPrefetchAsync(p, BYTES, on_device(0), 0, NULL));
    ok(cudaMemsetAsync(p, 6, BYTES / 2, NULL));
    ok(cudaMemPrefetchAsync(p, BYTES, on_host(), 0, NULL));
    ok(cudaDeviceSynchronize());
    assert_int_equal(p[0], 6);
    assert_int_equal(p[BYTES - 1], 5);
    ok(cudaFree(p));
    expect(cudaErrorInvalidValue, cudaFree(p));
}

TEST(memory_managed_of_no_bytes_is_none) {
    void *p = &p;
    ok(cudaMallocManaged(&p, 0, cudaMemAttachGlobal));
    assert_null(p);
    ok(cudaFree(p));
}

TEST(memory_managed_bad_arguments_are_refused) {
    void *p = NULL, *plain = device_block(BYTES);
    struct cudaMemLocation nowhere = {.type = cudaMemLocationTypeInvalid, .id = 0};
    expect(cudaErrorInvalidValue, cudaMallocManaged(&p, BYTES, 0));
    expect(cudaErrorInvalidValue, cudaMallocManaged(&p, BYTES, cudaMemAttachSingle));
    expect(cudaErrorInvalidValue, cudaMallocManaged(NULL, BYTES, cudaMemAttachGlobal));
    ok(cudaMallocManaged(&p, BYTES, cudaMemAttachHost));
    expect(cudaErrorInvalidValue, cudaMemPrefetchAsync(p, 0, on_device(0), 0, NULL));
    expect(cudaErrorInvalidValue, cudaMemPrefetchAsync(p, BYTES, on_device(0), 1, NULL));
    expect(cudaErrorInvalidDevice, cudaMemPrefetchAsync(p, BYTES, on_device(99), 0, NULL));
    expect(cudaErrorInvalidValue, cudaMemPrefetchAsync(p, BYTES, nowhere, 0, NULL));
    expect(cudaErrorInvalidValue, cudaMemPrefetchAsync(plain, BYTES, on_device(0), 0, NULL));
    expect(cudaErrorInvalidValue, cudaMemAdvise(p, BYTES, (enum cudaMemoryAdvise)99, on_device(0)));
    ok(cudaFree(p));
    ok(cudaFree(plain));
}

TEST(memory_managed_keeps_advice) {
    unsigned char *p = NULL;
    int read_mostly = -1, preferred = -1;
    void *answers[] = {&read_mostly, &preferred};
    size_t sizes[] = {sizeof read_mostly, sizeof preferred};
    enum cudaMemRangeAttribute asked[] = {cudaMemRangeAttributeReadMostly,
                                          cudaMemRangeAttributePreferredLocation};
    ok(cudaMallocManaged((void **)&p, BYTES, cudaMemAttachGlobal));
    ok(cudaMemRangeGetAttribute(&read_mostly, sizeof read_mostly, asked[0], p, BYTES));
    assert_int_equal(read_mostly, 0);
    ok(cudaMemAdvise(p, BYTES, cudaMemAdviseSetReadMostly, on_device(0)));
    ok(cudaMemAdvise(p, BYTES, cudaMemAdviseSetPreferredLocation, on_device(0)));
    ok(cudaMemRangeGetAttributes(answers, sizes, asked, 2, p, BYTES));
    assert_int_equal(read_mostly, 1);
    assert_int_equal(preferred, 0);
    ok(cudaMemAdvise(p, BYTES, cudaMemAdviseUnsetReadMostly, on_device(0)));
    ok(cudaMemRangeGetAttribute(&read_mostly, sizeof read_mostly, asked[0], p, BYTES));
    assert_int_equal(read_mostly, 0);
    expect(cudaErrorInvalidValue, cudaMemRangeGetAttribute(&read_mostly, 3, asked[0], p, BYTES));
    expect(cudaErrorInvalidValue, cudaMemRangeGetAttributes(answers, sizes, asked, 0, p, BYTES));
    ok(cudaFree(p));
}

TEST(memory_managed_can_be_attached_to_a_stream) {
    cudaStream_t stream;
    void *p = NULL, *plain = device_block(BYTES);
    ok(cudaStreamCreate(&stream));
    ok(cudaMallocManaged(&p, BYTES, cudaMemAttachHost));
    ok(cudaStreamAttachMemAsync(stream, p, 0, cudaMemAttachSingle));
    ok(cudaMemsetAsync(p, 8, BYTES, stream));
    ok(cudaStreamSynchronize(stream));
    assert_int_equal(*(unsigned char *)p, 8);
    expect(cudaErrorInvalidValue, cudaStreamAttachMemAsync(stream, plain, 0, cudaMemAttachSingle));
    ok(cudaFree(p));
    ok(cudaFree(plain));
    ok(cudaStreamDestroy(stream));
}

/* ---- pointer attributes ---- */

static void expect_pointer(const char *p, enum cudaMemoryType type, int device, int is_host,
                           int is_device) {
    struct cudaPointerAttributes found;
    memset(&found, 0x55, sizeof found);
    ok(cudaPointerGetAttributes(&found, p));
    assert_int_equal(found.type, type);
    assert_int_equal(found.device, device);
    assert_ptr_equal(found.hostPointer, is_host ? p : NULL);
    assert_ptr_equal(found.devicePointer, is_device ? p : NULL);
}

TEST(memory_pointers_are_told_apart) {
    char *plain = device_block(BYTES), *pinned = NULL, *managed = NULL;
    char *own = aligned_alloc(65536, 65536);
    ok(cudaMallocHost((void **)&pinned, BYTES));
    ok(cudaMallocManaged((void **)&managed, BYTES, cudaMemAttachGlobal));
    assert_non_null(own);
    expect_pointer(own, cudaMemoryTypeUnregistered, cudaInvalidDeviceId, 1, 0);
    ok(cudaHostRegister(own, 65536, 0));
    expect_pointer(plain, cudaMemoryTypeDevice, 0, 0, 1);
    expect_pointer(plain + BYTES - 1, cudaMemoryTypeDevice, 0, 0, 1);
    expect_pointer(pinned + 5, cudaMemoryTypeHost, 0, 1, 1);
    expect_pointer(managed + 5, cudaMemoryTypeManaged, 0, 1, 1);
    expect_pointer(own + 5, cudaMemoryTypeHost, 0, 1, 1);
    ok(cudaHostUnregister(own));
    ok(cudaFree(plain));
    ok(cudaFreeHost(pinned));
    ok(cudaFree(managed));
    expect_pointer(own, cudaMemoryTypeUnregistered, cudaInvalidDeviceId, 1, 0);
    expect(cudaErrorInvalidValue, cudaPointerGetAttributes(NULL, own));
    free(own);
}

TEST(memory_ipc_handle_of_device_memory_alone) {
    cudaIpcMemHandle_t handle;
    char *plain = device_block(BYTES), *pinned = NULL;
    ok(cudaMallocHost((void **)&pinned, BYTES));
    ok(cudaIpcGetMemHandle(&handle, plain));
    expect(cudaErrorInvalidValue, cudaIpcGetMemHandle(&handle, pinned));
    if (on_standin())
        expect(cudaErrorInvalidValue, cudaIpcGetMemHandle(NULL, plain));
    ok(cudaFree(plain));
    ok(cudaFreeHost(pinned));
}

int main(void) {
    return tests_run("runtime_memory");
}
