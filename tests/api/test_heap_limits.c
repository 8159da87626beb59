/* Growth of heaps: limits that change at any time, and growing ahead of need. */
#include <time.h>

#include "api_devices.h"

#include "acre_heap.h"

#define MIB ((uint64_t)1 << 20)

struct job {
    acre_heap_handle h;
    acre_heap *heap;
    void *chain;
    uint32_t want, got; /* blocks of 1 MiB */
    _Atomic uint32_t is_running, may_end;
};

static acre_device *device;

static void kernel_take(void *arg) {
    struct job *job = arg;
    for (job->got = 0; job->got < job->want; job->got++) {
        void **p = acre_heap_malloc(job->h, MIB);
        if (!p)
            return;
        *p = job->chain;
        job->chain = p;
    }
}

static void kernel_give(void *arg) {
    struct job *job = arg;
    for (void **p = job->chain; p;) {
        void **next = *p;
        acre_heap_free(job->h, p);
        p = next;
    }
    job->chain = NULL;
}

static void job_begin(struct job *job, acre_heap_options options) {
    memset(job, 0, sizeof *job);
    options.struct_size = sizeof options;
    api_ok(acre_heap_create(device, &options, &job->heap));
    api_ok(acre_heap_get_handle(job->heap, &job->h));
}

static acre_heap_stats job_stats(struct job *job) {
    acre_heap_stats stats = {.struct_size = sizeof stats};
    api_ok(acre_heap_get_stats(job->heap, &stats));
    return stats;
}

static void job_launch(struct job *job, acre_soft_kernel kernel) {
    const uint32_t one[3] = {1, 1, 1};
    api_ok(acre_soft_launch(device, NULL, kernel, one, one, 0, job));
}

/* Returns how many blocks of 1 MiB the kernel gets. */
static uint32_t job_take(struct job *job, uint32_t want) {
    job->want = want;
    job_launch(job, kernel_take);
    api_ok(acre_stream_sync(device, NULL));
    return job->got;
}

static void job_end(struct job *job) {
    job_launch(job, kernel_give);
    api_ok(acre_stream_sync(device, NULL));
    assert_int_equal(job_stats(job).live_blocks, 0);
    api_ok(acre_heap_destroy(job->heap, NULL, NULL));
}

static uint64_t limit_of(struct job *job) {
    uint64_t bytes = 0;
    api_ok(acre_heap_get_limit(job->heap, &bytes));
    assert_int_equal(job_stats(job).limit_bytes, bytes);
    return bytes;
}

static void heap_limit_bounds_growth_by_hand_and_by_kernels(void **state) {
    (void)state;
    struct job job;
    job_begin(&job, (acre_heap_options){
                        .initial_bytes = 4 * MIB, .limit_bytes = 64 * MIB, .step_bytes = 8 * MIB});
    assert_int_equal(limit_of(&job), 64 * MIB);
    api_ok(acre_heap_set_limit(job.heap, 19 * MIB));
    assert_int_equal(limit_of(&job), 20 * MIB);
    assert_int_equal(job_take(&job, 100), 20);
    api_expect(acre_heap_grow(job.heap, 22 * MIB), ACRE_E_LIMIT);
    assert_non_null(strstr(acre_last_detail(), "limit"));
    api_ok(acre_heap_set_limit(job.heap, 30 * MIB));
    assert_int_equal(job_take(&job, 100), 10);
    /* A limit below the mapped bytes: the heap keeps them and does not grow. */
    api_ok(acre_heap_set_limit(job.heap, 0));
    assert_int_equal(limit_of(&job), 0);
    assert_int_equal(job_stats(&job).mapped_bytes, 30 * MIB);
    assert_int_equal(job_take(&job, 1), 0);
    api_expect(acre_heap_grow(job.heap, 32 * MIB), ACRE_E_LIMIT);
    api_ok(acre_heap_set_limit(job.heap, 64 * MIB));
    api_ok(acre_heap_grow(job.heap, 32 * MIB));
    assert_int_equal(job_take(&job, 100), 34);
    job_end(&job);
}

static void heap_limit_has_the_addresses_as_its_bound(void **state) {
    (void)state;
    struct job job;
    job_begin(&job, (acre_heap_options){.initial_bytes = 4 * MIB, .limit_bytes = 8 * MIB});
    api_expect(acre_heap_set_limit(job.heap, 8 * MIB + 1), ACRE_E_ADDRESS_SPACE);
    assert_non_null(strstr(acre_last_detail(), "larger limit"));
    api_expect(acre_heap_set_limit(job.heap, UINT64_MAX), ACRE_E_ADDRESS_SPACE);
    assert_int_equal(limit_of(&job), 8 * MIB);
    api_expect(acre_heap_get_limit(job.heap, NULL), ACRE_E_NULL);
    api_expect(acre_heap_set_limit(NULL, 1), ACRE_E_NULL);
    job_end(&job);
}

static void kernel_wait(void *arg) {
    struct job *job = arg;
    job->is_running = 1;
    while (!job->may_end)
        acre_soft_yield();
    kernel_take(arg);
}

static void heap_limit_changes_while_a_kernel_runs(void **state) {
    (void)state;
    struct job job;
    job_begin(&job, (acre_heap_options){.initial_bytes = 4 * MIB, .limit_bytes = 32 * MIB});
    api_ok(acre_heap_set_limit(job.heap, 4 * MIB));
    assert_int_equal(job_take(&job, 100), 4);
    job.want = 100;
    job_launch(&job, kernel_wait);
    while (!job.is_running)
        usleep(100);
    api_ok(acre_heap_set_limit(job.heap, 16 * MIB));
    job.may_end = 1;
    api_ok(acre_stream_sync(device, NULL));
    assert_int_equal(job.got, 12);
    job_end(&job);
}

/* ---- growing ahead ---- */

/* Waits until the service has mapped `bytes`. Returns the mapped bytes. */
static uint64_t wait_mapped(struct job *job, uint64_t bytes) {
    uint64_t mapped = 0;
    for (int i = 0; i < PATIENCE_MS && (mapped = job_stats(job).mapped_bytes) < bytes; i++)
        sleep_ms(1);
    return mapped;
}

static void heap_grows_ahead_by_its_service(void **state) {
    (void)state;
    struct job job;
    job_begin(&job, (acre_heap_options){.initial_bytes = 4 * MIB,
                                        .limit_bytes = 40 * MIB,
                                        .step_bytes = 6 * MIB,
                                        .ahead_bytes = 8 * MIB});
    assert_int_equal(wait_mapped(&job, 10 * MIB), 10 * MIB); /* one step is enough */
    assert_int_equal(job_take(&job, 4), 4);
    assert_int_equal(wait_mapped(&job, 16 * MIB), 16 * MIB);
    for (uint32_t got = 4; got < 40; got += 4) {
        uint64_t wanted = (got + 8) * MIB < 40 * MIB ? (got + 8) * MIB : 40 * MIB;
        assert_true(wait_mapped(&job, wanted) >= wanted);
        assert_int_equal(job_take(&job, 4), 4);
    }
    assert_int_equal(job_stats(&job).mapped_bytes, 40 * MIB);
    assert_int_equal(job_stats(&job).asks, 0); /* no kernel had to wait */
    assert_int_equal(job_take(&job, 1), 0);
    job_end(&job);
}

/* Takes the memory of the device that is free now. */
static void *take_card(void) {
    acre_device_info info = {.struct_size = sizeof info};
    void *p;
    api_ok(acre_device_get_info(device, &info));
    api_ok(
        acre_mem_alloc(device, ACRE_KIND_DEVICE, info.free_bytes / (2 * MIB) * (2 * MIB), 0, &p));
    return p;
}

/* A moment without memory does not end the growth: the next handle, or the next second, ends it. */
static void heap_grows_again_after_the_device_had_no_memory(void **state) {
    (void)state;
    struct job job;
    job_begin(&job, (acre_heap_options){
                        .initial_bytes = 4 * MIB, .limit_bytes = 64 * MIB, .step_bytes = 8 * MIB});
    void *card = take_card();
    assert_int_equal(job_take(&job, 20), 4);
    api_ok(acre_mem_free(device, card));
    api_ok(acre_heap_get_handle(job.heap, &job.h));
    assert_int_equal(job_take(&job, 4), 4);

    uint64_t mapped = job_stats(&job).mapped_bytes;
    card = take_card();
    assert_in_range(job_take(&job, 100), 0, mapped / MIB - 8);
    api_ok(acre_mem_free(device, card));
    struct timespec second = {1, 200000000};
    nanosleep(&second, NULL);
    assert_int_equal(job_take(&job, 4), 4);
    job_end(&job);
}

static void heap_without_a_service_grows_ahead_when_asked_for_its_handle(void **state) {
    (void)state;
    struct job job;
    job_begin(&job, (acre_heap_options){.initial_bytes = 4 * MIB,
                                        .limit_bytes = 40 * MIB,
                                        .step_bytes = 2 * MIB,
                                        .ahead_bytes = 8 * MIB,
                                        .flags = ACRE_HEAP_NO_SERVICE});
    assert_int_equal(job_stats(&job).mapped_bytes, 8 * MIB);
    assert_int_equal(job_take(&job, 100), 8);
    assert_int_equal(job_stats(&job).mapped_bytes, 8 * MIB);
    api_ok(acre_heap_get_handle(job.heap, &job.h));
    assert_int_equal(job_stats(&job).mapped_bytes, 16 * MIB);
    assert_int_equal(job_take(&job, 2), 2);
    api_ok(acre_heap_set_limit(job.heap, 16 * MIB));
    api_ok(acre_heap_get_handle(job.heap, &job.h)); /* the limit forbids growth */
    assert_int_equal(job_stats(&job).mapped_bytes, 16 * MIB);
    api_ok(acre_heap_set_limit(job.heap, 40 * MIB));
    api_ok(acre_heap_get_handle(job.heap, &job.h));
    assert_int_equal(job_stats(&job).mapped_bytes, 18 * MIB);
    job_end(&job);
}

static int begin(void **state) {
    (void)state;
    acre_open_options options = {.struct_size = sizeof options, .soft_bytes = 128 * MIB};
    return acre_open("soft", &options, &device) != ACRE_OK;
}

static int end(void **state) {
    (void)state;
    return acre_close(device) != ACRE_OK;
}

#define LIMITS_TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        LIMITS_TEST(heap_limit_bounds_growth_by_hand_and_by_kernels),
        LIMITS_TEST(heap_limit_has_the_addresses_as_its_bound),
        LIMITS_TEST(heap_limit_changes_while_a_kernel_runs),
        LIMITS_TEST(heap_grows_ahead_by_its_service),
        LIMITS_TEST(heap_grows_again_after_the_device_had_no_memory),
        LIMITS_TEST(heap_without_a_service_grows_ahead_when_asked_for_its_handle),
    };
    return cmocka_run_group_tests_name("heap_limits", tests, NULL, NULL);
}
