/* Vecs with real kernels: kernels use the memory while it grows, shrinks and moves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <time.h>

#include "support/cases.h"
#include "gpu_fixture.h"

#define CHUNK ((size_t)2 << 20)

enum { WORDS = (2 << 20) / sizeof(unsigned) }; /* words of a chunk */

static uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void pause_ms(long ms) {
    struct timespec pause = {0, ms * 1000000};
    nanosleep(&pause, NULL);
}

static acre_stream stream_make(struct gpu *gpu) {
    acre_stream stream;
    assert_int_equal(acre_stream_create(gpu->dev, ACRE_STREAM_NON_BLOCKING, &stream), ACRE_OK);
    return stream;
}

static void stream_end(struct gpu *gpu, acre_stream stream) {
    assert_int_equal(acre_stream_sync(gpu->dev, stream), ACRE_OK);
    assert_int_equal(acre_stream_destroy(gpu->dev, stream), ACRE_OK);
}

static acre_vec *vec_make(struct gpu *gpu, acre_kind kind, uint64_t address_bytes) {
    acre_vec_options options = {
        .struct_size = sizeof options, .kind = kind, .address_bytes = address_bytes};
    acre_vec *vec;
    assert_int_equal(acre_vec_create(gpu->dev, sizeof(unsigned), &options, &vec), ACRE_OK);
    return vec;
}

static acre_vec_info vec_info(acre_vec *vec) {
    acre_vec_info info = {.struct_size = sizeof info};
    assert_int_equal(acre_vec_get_info(vec, &info), ACRE_OK);
    return info;
}

/* A kernel sets words[i] = value + i. */
static void kernel_write(struct gpu *gpu, void *words, unsigned value, size_t count,
                         acre_stream stream) {
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)words;
    unsigned long long number = count;
    void *params[] = {&at, &value, &number};
    gpu_launch(gpu, "ground_write", (unsigned)((count + 255) / 256), 256, stream, params);
}

static void kernel_add(struct gpu *gpu, void *words, unsigned value, size_t count,
                       acre_stream stream) {
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)words;
    unsigned long long number = count;
    void *params[] = {&at, &value, &number};
    gpu_launch(gpu, "ground_add", (unsigned)((count + 255) / 256), 256, stream, params);
}

/* A kernel runs until the mailbox is set, or for two seconds. */
static void kernel_wait(struct gpu *gpu, acre_stream stream) {
    void *params[] = {&gpu->mailbox_device};
    gpu->mailbox[0] = 0;
    gpu_launch(gpu, "ground_wait", 1, 1, stream, params);
}

static void words_check(struct gpu *gpu, const void *words, unsigned value, size_t count) {
    unsigned *host = malloc(count * sizeof *host);
    assert_non_null(host);
    memset(host, 0xee, count * sizeof *host);
    assert_int_equal(acre_copy_sync(gpu->dev, host, words, count * sizeof *host), ACRE_OK);
    for (size_t i = 0; i < count; i++)
        if (host[i] != value + (unsigned)i)
            assert_int_equal(host[i], value + (unsigned)i);
    free(host);
}

TEST(vec_kernel_writes_all_of_several_chunks) {
    struct gpu *gpu = *state;
    acre_stream stream = stream_make(gpu);
    acre_vec *vec = vec_make(gpu, ACRE_KIND_DEVICE, 0);
    void *at = NULL;
    for (size_t i = 1; i <= 5; i++) { /* 3 MiB each, so that elements cross chunk borders */
        assert_int_equal(acre_vec_grow(vec, WORDS * 3 / 2, stream), ACRE_OK);
        assert_true(i == 1 || acre_vec_data(vec) == at);
        at = acre_vec_data(vec);
    }
    assert_true(vec_info(vec).chunks > 1);
    kernel_write(gpu, at, 11, acre_vec_size(vec), stream);
    assert_int_equal(acre_stream_sync(gpu->dev, stream), ACRE_OK);
    words_check(gpu, at, 11, acre_vec_size(vec));
    assert_int_equal(vec_info(vec).copied_bytes, 0);
    assert_int_equal(acre_vec_destroy(vec, stream), ACRE_OK);
    stream_end(gpu, stream);
}

/* Makes every call of a vec on one stream while a kernel runs on another. If any call waited for
 * that kernel, the kernel would be done at the end. */
TEST(vec_no_call_waits_for_another_streams_kernel) {
    struct gpu *gpu = *state;
    acre_stream busy = stream_make(gpu), own = stream_make(gpu);
    acre_vec *vec, *behind;
    void *pinned;
    assert_int_equal(acre_mem_alloc(gpu->dev, ACRE_KIND_PINNED, CHUNK, 0, &pinned), ACRE_OK);
    for (unsigned i = 0; i < WORDS; i++)
        ((unsigned *)pinned)[i] = 7 + i;
    kernel_wait(gpu, busy);
    vec = vec_make(gpu, ACRE_KIND_DEVICE, CHUNK);
    behind = vec_make(gpu, ACRE_KIND_DEVICE, CHUNK);
    assert_int_equal(acre_vec_append(vec, pinned, WORDS, own), ACRE_OK);
    assert_int_equal(acre_vec_grow(vec, 8 * WORDS, own), ACRE_OK); /* past the reservation */
    assert_int_equal(acre_vec_reserve(vec, 64 * WORDS, own), ACRE_OK);
    assert_int_equal(acre_vec_record_use(vec, own), ACRE_OK);
    assert_int_equal(acre_vec_resize(vec, 20 * WORDS, own), ACRE_OK);
    assert_int_equal(acre_vec_shrink(vec, 18 * WORDS, own), ACRE_OK);
    assert_int_equal(acre_vec_shrink_to_fit(vec, own), ACRE_OK);
    assert_int_equal(acre_stream_sync(gpu->dev, own), ACRE_OK);
    assert_int_equal(acre_vec_destroy(behind, own), ACRE_OK);
    assert_int_equal(acre_stream_query(gpu->dev, busy), ACRE_E_NOT_READY);
    gpu->mailbox[0] = 1;
    assert_int_equal(acre_stream_sync(gpu->dev, busy), ACRE_OK);
    words_check(gpu, acre_vec_data(vec), 7, WORDS);
    assert_int_equal(acre_vec_destroy(vec, own), ACRE_OK);
    assert_int_equal(acre_mem_free(gpu->dev, pinned), ACRE_OK);
    stream_end(gpu, busy);
    stream_end(gpu, own);
}

struct teller {
    struct gpu *gpu;
    uint64_t told_ms;
};

static void *tell_later(void *user) {
    struct teller *teller = user;
    pause_ms(150);
    teller->told_ms = now_ms();
    teller->gpu->mailbox[0] = 1;
    return NULL;
}

/* Queues a kernel that waits and one that writes the whole vec, then calls `change` on the vec.
 * `change` must return after both kernels are done, and the kept part must be written. */
static void waits_for_kernels(struct gpu *gpu, acre_stream stream, acre_stream kernels,
                              acre_status (*change)(acre_vec *, acre_stream)) {
    struct teller teller = {gpu, 0};
    pthread_t thread;
    acre_vec *vec = vec_make(gpu, ACRE_KIND_DEVICE, 4 * CHUNK);
    acre_vec *behind = vec_make(gpu, ACRE_KIND_DEVICE, CHUNK);
    for (int i = 0; i < 4; i++)
        assert_int_equal(acre_vec_grow(vec, WORDS, stream), ACRE_OK);
    kernel_wait(gpu, kernels);
    kernel_write(gpu, acre_vec_data(vec), 5, 4 * WORDS, kernels);
    if (kernels != stream)
        assert_int_equal(acre_vec_record_use(vec, kernels), ACRE_OK);
    assert_int_equal(acre_stream_query(gpu->dev, kernels), ACRE_E_NOT_READY);
    assert_int_equal(pthread_create(&thread, NULL, tell_later, &teller), 0);
    assert_int_equal(change(vec, stream), ACRE_OK);
    assert_true(gpu->mailbox[0] == 1); /* else `change` returned before the kernel was released */
    assert_int_equal(acre_stream_query(gpu->dev, kernels), ACRE_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(now_ms() >= teller.told_ms);
    words_check(gpu, acre_vec_data(vec), 5, WORDS);
    assert_int_equal(acre_vec_destroy(vec, stream), ACRE_OK);
    assert_int_equal(acre_vec_destroy(behind, stream), ACRE_OK);
}

static acre_status change_shrink(acre_vec *vec, acre_stream stream) {
    return acre_vec_shrink(vec, 3 * WORDS, stream);
}

static acre_status change_move(acre_vec *vec, acre_stream stream) {
    void *before = acre_vec_data(vec);
    acre_status status = acre_vec_reserve(vec, 64 * WORDS, stream);
    assert_true(acre_vec_data(vec) != before);
    return status;
}

TEST(vec_shrinking_waits_for_the_streams_kernel) {
    struct gpu *gpu = *state;
    acre_stream stream = stream_make(gpu);
    waits_for_kernels(gpu, stream, stream, change_shrink);
    stream_end(gpu, stream);
}

TEST(vec_shrinking_waits_for_a_recorded_use) {
    struct gpu *gpu = *state;
    acre_stream stream = stream_make(gpu), kernels = stream_make(gpu);
    waits_for_kernels(gpu, stream, kernels, change_shrink);
    stream_end(gpu, stream);
    stream_end(gpu, kernels);
}

TEST(vec_moving_waits_for_the_streams_kernel) {
    struct gpu *gpu = *state;
    acre_stream stream = stream_make(gpu);
    waits_for_kernels(gpu, stream, stream, change_move);
    stream_end(gpu, stream);
}

TEST(vec_mapped_elsewhere_keeps_its_contents) {
    struct gpu *gpu = *state;
    acre_stream stream = stream_make(gpu);
    acre_vec *vec = vec_make(gpu, ACRE_KIND_DEVICE, CHUNK);
    acre_vec *behind = vec_make(gpu, ACRE_KIND_DEVICE, CHUNK);
    assert_int_equal(acre_vec_grow(vec, WORDS, stream), ACRE_OK);
    assert_int_equal(acre_vec_grow(behind, WORDS, stream), ACRE_OK);
    void *before = acre_vec_data(vec);
    kernel_write(gpu, before, 3, WORDS, stream);
    assert_int_equal(acre_vec_grow(vec, 3 * WORDS, stream), ACRE_OK);
    void *after = acre_vec_data(vec);
    acre_vec_info info = vec_info(vec);
    assert_ptr_not_equal(after, before);
    assert_int_equal(info.moves, 1);
    assert_int_equal(info.copied_bytes, 0);
    kernel_add(gpu, after, 100, WORDS, stream);
    kernel_write(gpu, (unsigned *)after + WORDS, 55, 3 * WORDS, stream);
    assert_int_equal(acre_stream_sync(gpu->dev, stream), ACRE_OK);
    words_check(gpu, after, 103, WORDS);
    words_check(gpu, (unsigned *)after + WORDS, 55, 3 * WORDS);
    assert_int_equal(acre_vec_destroy(vec, stream), ACRE_OK);
    assert_int_equal(acre_vec_destroy(behind, stream), ACRE_OK);
    stream_end(gpu, stream);
}

TEST(vec_running_kernel_uses_what_was_grown_after_its_start) {
    struct gpu *gpu = *state;
    if (getenv("ACRE_TEST_MEMCHECK")) {
        print_message("skipped under compute-sanitizer: it does not see memory mapped after the "
                      "kernel's start\n");
        return;
    }
    acre_stream kernels = stream_make(gpu), stream = stream_make(gpu);
    acre_vec *vec = vec_make(gpu, ACRE_KIND_DEVICE, 0);
    unsigned value = 42, last = 0;
    unsigned long long count = 4 * WORDS;
    assert_int_equal(acre_vec_grow(vec, WORDS, stream), ACRE_OK);
    gpu->mailbox[0] = 0;
    void *params[] = {&gpu->mailbox_device, &value, &count};
    gpu_launch(gpu, "ground_write_when_told", 1, 256, kernels, params);
    assert_int_equal(acre_vec_grow(vec, 4 * WORDS, stream), ACRE_OK);
    assert_int_equal(acre_stream_query(gpu->dev, kernels), ACRE_E_NOT_READY);
    gpu->mailbox[0] = (uintptr_t)((unsigned *)acre_vec_data(vec) + WORDS);
    assert_int_equal(acre_stream_sync(gpu->dev, kernels), ACRE_OK);
    assert_int_equal(acre_copy_sync(gpu->dev, &last, (unsigned *)acre_vec_data(vec) + 5 * WORDS - 1,
                                    sizeof last),
                     ACRE_OK);
    assert_int_equal(last, 42);
    assert_int_equal(acre_vec_destroy(vec, stream), ACRE_OK);
    stream_end(gpu, kernels);
    stream_end(gpu, stream);
}

TEST(vec_pinned_is_used_by_kernels_in_place) {
    struct gpu *gpu = *state;
    acre_stream stream = stream_make(gpu);
    acre_vec *vec = vec_make(gpu, ACRE_KIND_PINNED, 16 * CHUNK);
    void *seen;
    for (int i = 0; i < 3; i++)
        assert_int_equal(acre_vec_grow(vec, WORDS + 1000, stream), ACRE_OK);
    size_t count = acre_vec_size(vec);
    unsigned *words = acre_vec_data(vec);
    for (size_t i = 0; i < count; i++)
        words[i] = (unsigned)i;
    assert_int_equal(acre_mem_device_pointer(gpu->dev, words, &seen), ACRE_OK);
    kernel_add(gpu, seen, 9, count, stream);
    assert_int_equal(acre_stream_sync(gpu->dev, stream), ACRE_OK);
    for (size_t i = 0; i < count; i++)
        if (words[i] != (unsigned)i + 9)
            assert_int_equal(words[i], (unsigned)i + 9);
    assert_int_equal(acre_vec_destroy(vec, stream), ACRE_OK);
    stream_end(gpu, stream);
}

TEST(mem_realloc_keeps_what_a_kernel_wrote) {
    struct gpu *gpu = *state;
    acre_stream stream = stream_make(gpu);
    void *p, *larger, *smaller;
    assert_int_equal(acre_mem_alloc(gpu->dev, ACRE_KIND_DEVICE, 2 * CHUNK, 0, &p), ACRE_OK);
    kernel_write(gpu, p, 21, 2 * WORDS, stream);
    uint64_t before = acre__driver_copied_bytes(gpu->drv);
    assert_int_equal(acre_mem_realloc(gpu->dev, p, 40 * CHUNK, stream, &larger), ACRE_OK);
    kernel_write(gpu, (unsigned *)larger + 2 * WORDS, 22, 38 * WORDS, stream);
    assert_int_equal(acre_mem_realloc(gpu->dev, larger, 2 * CHUNK, stream, &smaller), ACRE_OK);
    assert_int_equal(acre__driver_copied_bytes(gpu->drv), before);
    words_check(gpu, smaller, 21, 2 * WORDS);
    assert_int_equal(acre_mem_free(gpu->dev, smaller), ACRE_OK);
    stream_end(gpu, stream);
}

int main(void) {
    return tests_run_with("gpu_grow", gpu_setup, gpu_teardown);
}
