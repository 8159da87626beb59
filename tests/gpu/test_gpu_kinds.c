/* Kinds of memory with real kernels: kernels use each kind of memory in place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/cases.h"
#include "gpu_fixture.h"

enum {
    COUNT = 300000
}; /* words: so many that acre registers its own pages instead of using the driver's */

static void add_on_device(struct gpu *gpu, void *words, unsigned value, acre_stream stream) {
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)words;
    unsigned long long count = COUNT;
    void *params[] = {&at, &value, &count};
    gpu_launch(gpu, "ground_add", (COUNT + 255) / 256, 256, stream, params);
}

static void words_set(unsigned *words) {
    for (unsigned i = 0; i < COUNT; i++)
        words[i] = i;
}

static void words_check(const unsigned *words, unsigned added) {
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(words[i], i + added);
}

static void mem_kernel_uses_host_memory_in_place(struct gpu *gpu, acre_kind kind, uint32_t flags) {
    void *host, *seen;
    assert_int_equal(acre_mem_alloc(gpu->dev, kind, COUNT * sizeof(unsigned), flags, &host),
                     ACRE_OK);
    assert_int_equal(acre_mem_device_pointer(gpu->dev, host, &seen), ACRE_OK);
    words_set(host);
    add_on_device(gpu, seen, 5, NULL);
    assert_int_equal(acre_stream_sync(gpu->dev, NULL), ACRE_OK);
    words_check(host, 5);
    assert_int_equal(acre_mem_free(gpu->dev, host), ACRE_OK);
}

TEST(mem_kernel_uses_mapped_memory) {
    mem_kernel_uses_host_memory_in_place(*state, ACRE_KIND_MAPPED, 0);
    mem_kernel_uses_host_memory_in_place(*state, ACRE_KIND_MAPPED, ACRE_MEM_PORTABLE);
    mem_kernel_uses_host_memory_in_place(*state, ACRE_KIND_MAPPED, ACRE_MEM_WRITE_COMBINED);
}

TEST(mem_kernel_uses_registered_memory) {
    struct gpu *gpu = *state;
    unsigned *host = malloc(COUNT * sizeof *host);
    void *seen;
    assert_non_null(host);
    assert_int_equal(acre_mem_register(gpu->dev, host, COUNT * sizeof *host, 0), ACRE_OK);
    assert_int_equal(acre_mem_device_pointer(gpu->dev, host, &seen), ACRE_OK);
    words_set(host);
    add_on_device(gpu, seen, 9, NULL);
    assert_int_equal(acre_mem_unregister(gpu->dev, host), ACRE_OK); /* waits for the kernel */
    words_check(host, 9);
    free(host);
}

TEST(mem_kernel_and_host_use_managed_memory_in_turn) {
    struct gpu *gpu = *state;
    size_t bytes = COUNT * sizeof(unsigned);
    acre_stream stream;
    void *both;
    assert_int_equal(acre_stream_create(gpu->dev, ACRE_STREAM_NON_BLOCKING, &stream), ACRE_OK);
    assert_int_equal(acre_mem_alloc(gpu->dev, ACRE_KIND_MANAGED, bytes, 0, &both), ACRE_OK);
    words_set(both);
    assert_int_equal(acre_mem_advise(gpu->dev, both, bytes, ACRE_ADVICE_PREFER, ACRE_PLACE_DEVICE),
                     ACRE_OK);
    assert_int_equal(acre_mem_prefetch(gpu->dev, both, bytes, ACRE_PLACE_DEVICE, stream), ACRE_OK);
    add_on_device(gpu, both, 3, stream);
    assert_int_equal(acre_mem_prefetch(gpu->dev, both, bytes, ACRE_PLACE_HOST, stream), ACRE_OK);
    assert_int_equal(acre_stream_sync(gpu->dev, stream), ACRE_OK);
    words_check(both, 3);
    assert_int_equal(acre_mem_free(gpu->dev, both), ACRE_OK);
    assert_int_equal(acre_stream_destroy(gpu->dev, stream), ACRE_OK);
}

TEST(mem_attached_to_the_host_waits_for_its_stream) {
    struct gpu *gpu = *state;
    acre_stream stream;
    void *both;
    assert_int_equal(acre_stream_create(gpu->dev, ACRE_STREAM_NON_BLOCKING, &stream), ACRE_OK);
    assert_int_equal(acre_mem_alloc(gpu->dev, ACRE_KIND_MANAGED, COUNT * sizeof(unsigned),
                                    ACRE_MEM_ATTACH_HOST, &both),
                     ACRE_OK);
    words_set(both);
    assert_int_equal(acre_mem_attach(gpu->dev, both, ACRE_ATTACH_SINGLE, stream), ACRE_OK);
    add_on_device(gpu, both, 11, stream);
    assert_int_equal(acre_stream_sync(gpu->dev, stream), ACRE_OK);
    words_check(both, 11);
    assert_int_equal(acre_mem_free(gpu->dev, both), ACRE_OK);
    assert_int_equal(acre_stream_destroy(gpu->dev, stream), ACRE_OK);
}

/* Copies of pageable memory run in stream order with the kernels before and after them. */
TEST(copy_pageable_is_in_order_with_kernels) {
    struct gpu *gpu = *state;
    size_t bytes = COUNT * sizeof(unsigned);
    unsigned *host = malloc(bytes);
    acre_stream stream;
    void *memory;
    assert_non_null(host);
    words_set(host);
    assert_int_equal(acre_stream_create(gpu->dev, ACRE_STREAM_NON_BLOCKING, &stream), ACRE_OK);
    assert_int_equal(acre_mem_alloc(gpu->dev, ACRE_KIND_DEVICE, bytes, 0, &memory), ACRE_OK);
    for (unsigned round = 0; round < 50; round++) {
        assert_int_equal(acre_copy(gpu->dev, memory, host, bytes, stream), ACRE_OK);
        memset(host, 0, bytes); /* the copy has read it */
        add_on_device(gpu, memory, 1, stream);
        assert_int_equal(acre_copy(gpu->dev, host, memory, bytes, stream), ACRE_OK);
        words_check(host, round + 1);
    }
    assert_int_equal(acre_mem_free(gpu->dev, memory), ACRE_OK);
    assert_int_equal(acre_stream_destroy(gpu->dev, stream), ACRE_OK);
    free(host);
}

int main(void) {
    return tests_run_with("gpu_kinds", gpu_setup, gpu_teardown);
}
