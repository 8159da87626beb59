/* Strays: transfers of a copy that failed while the driver also refused to wait for them. The
 * device lags, so that they run as late as they can, and has a seed, so that work without order is
 * reported as a race. */
#include "acre_soft.h"
#include "fault_device.h"
#include "support/rounds.h"

#define BYTES ((size_t)2 << 20)

static acre_device *devices[2];
static acre_stream streams[2];
static unsigned char *host;

static void strays_begin(void) {
    api_open_two(devices);
    for (int i = 0; i < 2; i++) {
        api_ok(acre_soft_set_lag(devices[i], 1000, 0));
        api_ok(acre_stream_create(devices[i], ACRE_STREAM_NON_BLOCKING, &streams[i]));
    }
    host = calloc(1, BYTES);
    assert_non_null(host);
}

static void strays_end(void) {
    free(host);
    for (int i = 0; i < 2; i++)
        api_ok(acre_device_sync(devices[i])); /* no race, no access to memory that was unmapped */
    for (int i = 0; i < 2; i++) {
        api_ok(acre_stream_destroy(devices[i], streams[i]));
        api_ok(acre_trim(devices[i]));
        assert_int_equal(api_stats(devices[i]).limbo_count, 0);
        assert_int_equal(api_stats(devices[i]).staging_bytes, 0);
        api_ok(acre_close(devices[i]));
    }
}

/* Copies host memory to `to` by a device while the driver fails from call `nth` on. Returns how
 * many calls failed. */
static uint64_t copy_fails(int device, void *to, uint32_t nth) {
    fault_on(NULL, nth, ACRE__FAULT_FROM, CUDA_ERROR_OUT_OF_MEMORY);
    memset(host, 1, BYTES);
    (void)acre_copy(devices[device], to, host, BYTES, streams[device]);
    uint64_t fired = fault_off();
    api_ok(acre_stream_sync(devices[device], streams[device])); /* does not wait for strays */
    return fired;
}

static void expect_contents(int device, const void *p, unsigned char value) {
    api_ok(acre_copy(devices[device], host, p, BYTES, streams[device]));
    api_ok(acre_stream_sync(devices[device], streams[device]));
    assert_int_equal(host[0], value);
    assert_int_equal(host[BYTES - 1], value);
}

TEST(strays_are_over_before_the_copy_is_tried_again) {
    void *p;
    uint32_t nth = 1;
    strays_begin();
    api_ok(acre_mem_alloc(devices[0], ACRE_KIND_DEVICE, BYTES, 0, &p));
    for (uint64_t fired = 1; fired; nth += ROUNDS(1, 3)) {
        fired = copy_fails(0, p, nth);
        memset(host, 2, BYTES);
        api_ok(acre_copy(devices[0], p, host, BYTES, streams[0]));
        expect_contents(0, p, 2);
        fired += copy_fails(0, p, nth);
        api_ok(acre_fill(devices[0], p, 3, BYTES, streams[0]));
        expect_contents(0, p, 3);
    }
    assert_true(nth > 20);
    api_ok(acre_mem_free(devices[0], p));
    strays_end();
}

TEST(strays_are_over_before_another_device_copies) {
    void *p, *q;
    strays_begin();
    api_ok(acre_mem_alloc(devices[0], ACRE_KIND_DEVICE, BYTES, 0, &p));
    api_ok(acre_mem_alloc(devices[1], ACRE_KIND_DEVICE, BYTES, 0, &q));
    api_ok(acre_fill_sync(devices[1], q, 4, BYTES));
    uint32_t nth = 1;
    for (; copy_fails(0, p, nth); nth += ROUNDS(1, 3)) {
        api_ok(acre_copy(devices[1], p, q, BYTES, streams[1]));
        api_ok(acre_stream_sync(devices[1], streams[1]));
        expect_contents(0, p, 4);
    }
    assert_true(nth > 20);
    api_ok(acre_mem_free(devices[0], p));
    api_ok(acre_mem_free(devices[1], q));
    strays_end();
}

TEST(strays_of_another_device_are_over_before_memory_is_unmapped) {
    acre_vm_chunk *chunk;
    void *at;
    strays_begin();
    api_ok(acre_vm_create(devices[0], BYTES, 0, &chunk, NULL));
    api_ok(acre_vm_reserve(devices[0], BYTES, 0, NULL, &at, NULL));
    uint32_t nth = 1;
    for (uint64_t fired = 1; fired; nth += ROUNDS(1, 3)) {
        api_ok(acre_vm_map(devices[0], at, chunk));
        for (int i = 0; i < 2; i++)
            api_ok(acre_vm_set_access(devices[0], at, BYTES, devices[i], ACRE_ACCESS_READ_WRITE));
        fired = copy_fails(1, at, nth);
        api_ok(acre_vm_unmap(devices[0], at, BYTES));
    }
    assert_true(nth > 20);
    api_ok(acre_vm_address_free(devices[0], at));
    api_ok(acre_vm_release(devices[0], chunk));
    strays_end();
}

TEST(strays_of_a_resume_are_over_before_it_is_tried_again) {
    void *p;
    strays_begin();
    api_ok(acre_mem_alloc(devices[0], ACRE_KIND_DEVICE, BYTES, 0, &p));
    api_ok(acre_fill_sync(devices[0], p, 5, BYTES));
    uint32_t nth = 1;
    for (uint64_t fired = 1; fired; nth += ROUNDS(1, 3)) {
        acre_suspended *away;
        api_ok(acre_suspend(devices[0], NULL, &away));
        fault_on(NULL, nth, ACRE__FAULT_FROM, CUDA_ERROR_OUT_OF_MEMORY);
        acre_status status = acre_resume(away);
        fired = fault_off();
        if (status)
            api_ok(acre_resume(away));
        expect_contents(0, p, 5);
    }
    assert_true(nth > 20);
    api_ok(acre_mem_free(devices[0], p));
    strays_end();
}

int main(void) {
    setenv("ACRE_SOFT_SEED", "1", 1);
    fault_begin();
    return tests_run("strays");
}
