/* Streams and events with real kernels, which only a GPU can show. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/cases.h"
#include "gpu_fixture.h"

#define CHUNK ((size_t)2 << 20)

TEST(gpu_kernel_writes_what_the_host_reads) {
    struct gpu *gpu = *state;
    enum { COUNT = 100000 };
    CUdeviceptr words;
    unsigned value = 7, *host = malloc(COUNT * sizeof *host);
    unsigned long long count = COUNT;
    acre_stream stream;
    assert_non_null(host);
    assert_int_equal(acre_stream_create(gpu->dev, ACRE_STREAM_NON_BLOCKING, &stream), ACRE_OK);
    assert_int_equal(gpu->drv->cuMemAlloc(&words, COUNT * sizeof *host), CUDA_SUCCESS);
    void *params[] = {&words, &value, &count};
    gpu_launch(gpu, "ground_write", (COUNT + 255) / 256, 256, stream, params);
    assert_int_equal(acre_stream_sync(gpu->dev, stream), ACRE_OK);
    assert_int_equal(gpu->drv->cuMemcpyDtoH(host, words, COUNT * sizeof *host), CUDA_SUCCESS);
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(host[i], 7 + i);
    assert_int_equal(gpu->drv->cuMemFree(words), CUDA_SUCCESS);
    assert_int_equal(acre_stream_destroy(gpu->dev, stream), ACRE_OK);
    free(host);
}

TEST(gpu_running_kernel_makes_stream_and_event_not_ready) {
    struct gpu *gpu = *state;
    acre_stream busy, other;
    acre_event event;
    assert_int_equal(acre_stream_create(gpu->dev, ACRE_STREAM_NON_BLOCKING, &busy), ACRE_OK);
    assert_int_equal(acre_stream_create(gpu->dev, ACRE_STREAM_NON_BLOCKING, &other), ACRE_OK);
    assert_int_equal(acre_event_create(gpu->dev, ACRE_EVENT_DEFAULT, &event), ACRE_OK);
    gpu->mailbox[0] = 0;
    void *params[] = {&gpu->mailbox_device};
    gpu_launch(gpu, "ground_wait", 1, 1, busy, params);
    assert_int_equal(acre_event_record(gpu->dev, event, busy), ACRE_OK);
    assert_int_equal(acre_stream_query(gpu->dev, other), ACRE_OK);
    assert_int_equal(acre_stream_wait(gpu->dev, other, event), ACRE_OK);
    assert_int_equal(acre_event_record(gpu->dev, event, other), ACRE_OK);
    assert_int_equal(acre_stream_query(gpu->dev, busy), ACRE_E_NOT_READY);
    assert_int_equal(acre_stream_query(gpu->dev, other), ACRE_E_NOT_READY);
    assert_int_equal(acre_event_query(gpu->dev, event), ACRE_E_NOT_READY);
    gpu->mailbox[0] = 1;
    assert_int_equal(acre_event_sync(gpu->dev, event), ACRE_OK);
    assert_int_equal(acre_stream_query(gpu->dev, busy), ACRE_OK);
    assert_int_equal(acre_event_destroy(gpu->dev, event), ACRE_OK);
    assert_int_equal(acre_stream_destroy(gpu->dev, busy), ACRE_OK);
    assert_int_equal(acre_stream_destroy(gpu->dev, other), ACRE_OK);
}

/* The design relies on this: memory grows while a kernel runs. */
TEST(gpu_running_kernel_uses_memory_mapped_after_its_start) {
    struct gpu *gpu = *state;
    const struct acre__driver *drv = gpu->drv;
    if (getenv("ACRE_TEST_MEMCHECK")) {
        print_message("skipped under compute-sanitizer: it does not see memory mapped after the "
                      "kernel's start\n");
        return;
    }
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle chunk;
    CUdeviceptr at;
    unsigned value = 99, first = 0, last = 0;
    unsigned long long count = CHUNK / sizeof value;
    acre_stream stream;
    assert_int_equal(acre_stream_create(gpu->dev, ACRE_STREAM_NON_BLOCKING, &stream), ACRE_OK);
    gpu->mailbox[0] = 0;
    void *params[] = {&gpu->mailbox_device, &value, &count};
    gpu_launch(gpu, "ground_write_when_told", 1, 256, stream, params);
    assert_int_equal(drv->cuMemAddressReserve(&at, CHUNK, 0, 0, 0), CUDA_SUCCESS);
    assert_int_equal(drv->cuMemCreate(&chunk, CHUNK, &prop, 0), CUDA_SUCCESS);
    assert_int_equal(drv->cuMemMap(at, CHUNK, 0, chunk, 0), CUDA_SUCCESS);
    assert_int_equal(drv->cuMemSetAccess(at, CHUNK, &access, 1), CUDA_SUCCESS);
    assert_int_equal(acre_stream_query(gpu->dev, stream), ACRE_E_NOT_READY); /* it still runs */
    gpu->mailbox[0] = at;
    assert_int_equal(acre_stream_sync(gpu->dev, stream), ACRE_OK);
    assert_int_equal(drv->cuMemcpyDtoH(&first, at, sizeof first), CUDA_SUCCESS);
    assert_int_equal(drv->cuMemcpyDtoH(&last, at + CHUNK - sizeof last, sizeof last), CUDA_SUCCESS);
    assert_int_equal(first, 99);
    assert_int_equal(last, 99);
    assert_int_equal(drv->cuMemUnmap(at, CHUNK), CUDA_SUCCESS);
    assert_int_equal(drv->cuMemRelease(chunk), CUDA_SUCCESS);
    assert_int_equal(drv->cuMemAddressFree(at, CHUNK), CUDA_SUCCESS);
    assert_int_equal(acre_stream_destroy(gpu->dev, stream), ACRE_OK);
}

TEST(gpu_timing_events_measure_a_kernel) {
    struct gpu *gpu = *state;
    acre_event begin, end;
    float milliseconds = 0;
    assert_int_equal(acre_event_create(gpu->dev, ACRE_EVENT_TIMING, &begin), ACRE_OK);
    assert_int_equal(acre_event_create(gpu->dev, ACRE_EVENT_TIMING, &end), ACRE_OK);
    gpu->mailbox[0] = 1;
    void *params[] = {&gpu->mailbox_device};
    assert_int_equal(acre_event_record(gpu->dev, begin, NULL), ACRE_OK);
    gpu_launch(gpu, "ground_wait", 1, 1, NULL, params);
    assert_int_equal(acre_event_record(gpu->dev, end, NULL), ACRE_OK);
    assert_int_equal(acre_event_sync(gpu->dev, end), ACRE_OK);
    assert_int_equal(acre_event_elapsed(gpu->dev, begin, end, &milliseconds), ACRE_OK);
    assert_true(milliseconds > 0 && milliseconds < 1000);
    assert_int_equal(acre_event_destroy(gpu->dev, begin), ACRE_OK);
    assert_int_equal(acre_event_destroy(gpu->dev, end), ACRE_OK);
}

int main(void) {
    return tests_run_with("gpu_ground", gpu_setup, gpu_teardown);
}
