/*
 * The counter of copied bytes: every form of copy that the driver accepts adds its bytes once to
 * that driver's counter. The soft driver's table and the fault wrapper reach the counter too. The
 * counters of memory calls: every call adds one, whether it succeeds or fails. The counted tables
 * are fakes. This file has its own list of copies, so that a copy missing in the library's list is
 * noticed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <string.h>

#include "device/device.h"
#include "driver/driver_count.h"
#include "driver/driver_fault.h"

static CUresult answer;
static _Atomic unsigned inner_calls;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define FAKE(entry, symbol, version, need, sticky, calls, moved, params, args)                     \
    static CUresult fake_##entry params {                                                          \
        atomic_fetch_add(&inner_calls, 1);                                                         \
        return answer;                                                                             \
    }
ACRE__DRIVER_LIST(FAKE)
#pragma GCC diagnostic pop

#define FAKE_MEMBER(entry, symbol, version, need, sticky, calls, moved, params, args)              \
    .entry = fake_##entry,
static const struct acre__driver fake = {.name = "fake", ACRE__DRIVER_LIST(FAKE_MEMBER)};

static struct acre__driver counted(int is_soft) {
    struct acre__driver table = fake;

    table.is_soft = is_soft;
    acre__driver_count(&table);
    return table;
}

static int setup(void **state) {
    (void)state;
    answer = CUDA_SUCCESS;
    atomic_store(&inner_calls, 0);
    return acre__fault_set(NULL) == ACRE_OK ? 0 : -1;
}

/* Calls every form of copy, with 1, 2, 4, ... bytes, and a fill, which must not count. */
static void copy_all_ways(const struct acre__driver *drv) {
    CUDA_MEMCPY2D rows = {.WidthInBytes = 64, .Height = 8},
                  row = {.WidthInBytes = 1024, .Height = 1},
                  plane = {.WidthInBytes = 1024, .Height = 4};
    char host[1];

    drv->cuMemcpy(1, 2, 1);
    drv->cuMemcpyAsync(1, 2, 2, NULL);
    drv->cuMemcpyHtoD(1, host, 4);
    drv->cuMemcpyDtoH(host, 1, 8);
    drv->cuMemcpyDtoD(1, 2, 16);
    drv->cuMemcpyHtoDAsync(1, host, 32, NULL);
    drv->cuMemcpyDtoHAsync(host, 1, 64, NULL);
    drv->cuMemcpyDtoDAsync(1, 2, 128, NULL);
    drv->cuMemcpyPeerAsync(1, NULL, 2, NULL, 256, NULL);
    drv->cuMemcpy2D(&rows);
    drv->cuMemcpy2DAsync(&row, NULL);
    drv->cuMemcpyPeer(1, NULL, 2, NULL, 2048);
    drv->cuMemcpy2DUnaligned(&plane);
    drv->cuMemsetD8(1, 0, 4096);
}

enum { COPIES = 13, CALLS = COPIES + 1, BYTES = (1 << COPIES) - 1, MEMORY_CALLS = 6 };

static void count_every_copy_adds_its_bytes_once(void **state) {
    (void)state;
    for (int is_soft = 0; is_soft < 2; is_soft++) {
        struct acre__driver drv = counted(is_soft);
        uint64_t before = acre__driver_copied_bytes(&drv);

        atomic_store(&inner_calls, 0);
        copy_all_ways(&drv);
        assert_int_equal(acre__driver_copied_bytes(&drv) - before, BYTES);
        assert_int_equal(atomic_load(&inner_calls), CALLS);
    }
}

static void count_refused_copies_add_nothing(void **state) {
    struct acre__driver drv = counted(0);
    uint64_t before = acre__driver_copied_bytes(&drv);

    (void)state;
    answer = CUDA_ERROR_INVALID_VALUE;
    copy_all_ways(&drv);
    assert_int_equal(atomic_load(&inner_calls), CALLS);
    assert_int_equal(acre__driver_copied_bytes(&drv), before);
    assert_int_equal(drv.cuMemcpy(1, 2, 3), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(drv.cuMemcpy2D(NULL), CUDA_ERROR_INVALID_VALUE);
}

static void count_replaces_copies_and_calls_for_memory_alone(void **state) {
    struct acre__driver drv = counted(0);
    unsigned replaced = 0;

    (void)state;
#define IS_REPLACED(entry, symbol, version, need, sticky, calls, moved, params, args)              \
    replaced += drv.entry != fake.entry;
    ACRE__DRIVER_LIST(IS_REPLACED)
    assert_int_equal(replaced, COPIES + MEMORY_CALLS);
    assert_string_equal(drv.name, "fake");
}

static const enum acre__driver_entry memory_calls[MEMORY_CALLS] = {
    ACRE__ENTRY_cuMemCreate, ACRE__ENTRY_cuMemMap,     ACRE__ENTRY_cuMemSetAccess,
    ACRE__ENTRY_cuMemUnmap,  ACRE__ENTRY_cuMemRelease, ACRE__ENTRY_cuMemAlloc};

/* Makes each call as often as its position in the list. */
static void call_for_memory(const struct acre__driver *drv) {
    for (unsigned i = 0; i < 6; i++) {
        drv->cuMemAlloc(NULL, 1);
        if (i < 5)
            drv->cuMemRelease(0);
        if (i < 4)
            drv->cuMemUnmap(1, 2);
        if (i < 3)
            drv->cuMemSetAccess(1, 2, NULL, 0);
        if (i < 2)
            drv->cuMemMap(1, 2, 0, 0, 0);
        if (i < 1)
            drv->cuMemCreate(NULL, 1, NULL, 0);
    }
}

static void count_calls_for_memory_count_refused_or_not(void **state) {
    static const CUresult answers[] = {CUDA_SUCCESS, CUDA_ERROR_OUT_OF_MEMORY};

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct acre__driver drv = counted(i % 2), other = counted(!(i % 2));
        uint64_t before[MEMORY_CALLS];
        uint64_t others = acre__driver_call_count(&other, ACRE__ENTRY_cuMemAlloc);

        for (unsigned k = 0; k < MEMORY_CALLS; k++)
            before[k] = acre__driver_call_count(&drv, memory_calls[k]);
        answer = answers[i / 2];
        atomic_store(&inner_calls, 0);
        call_for_memory(&drv);
        for (unsigned k = 0; k < MEMORY_CALLS; k++)
            assert_int_equal(acre__driver_call_count(&drv, memory_calls[k]) - before[k], k + 1);
        assert_int_equal(atomic_load(&inner_calls), 21);
        assert_int_equal(acre__driver_call_count(&other, ACRE__ENTRY_cuMemAlloc), others);
    }
}

static void count_two_drivers_are_counted_apart(void **state) {
    struct acre__driver cuda = counted(0), soft = counted(1);
    uint64_t cuda_before = acre__driver_copied_bytes(&cuda);
    uint64_t soft_before = acre__driver_copied_bytes(&soft);

    (void)state;
    cuda.cuMemcpy(1, 2, 10);
    soft.cuMemcpy(1, 2, 200);
    assert_int_equal(acre__driver_copied_bytes(&cuda) - cuda_before, 10);
    assert_int_equal(acre__driver_copied_bytes(&soft) - soft_before, 200);
}

/* If the table were wrapped a second time, its functions would call themselves. */
static void count_counting_twice_counts_once(void **state) {
    struct acre__driver drv = counted(0);
    uint64_t before = acre__driver_copied_bytes(&drv);

    (void)state;
    acre__driver_count(&drv);
    copy_all_ways(&drv);
    assert_int_equal(acre__driver_copied_bytes(&drv) - before, BYTES);
}

static void count_table_without_a_counter_reads_zero(void **state) {
    (void)state;
    assert_int_equal(acre__driver_copied_bytes(&fake), 0);
}

static void count_is_read_through_the_fault_wrapper(void **state) {
    static struct acre__driver inner;
    struct acre__fault_plan plan = {"cuMemcpy", 2, CUDA_ERROR_UNKNOWN, ACRE__FAULT_ONCE};
    const struct acre__driver *drv;
    uint64_t before;

    (void)state;
    inner = counted(0);
    drv = acre__fault_wrap(&inner);
    before = acre__driver_copied_bytes(drv);
    assert_int_equal(acre__fault_set(&plan), ACRE_OK);
    assert_int_equal(drv->cuMemcpy(1, 2, 10), CUDA_SUCCESS);
    assert_int_equal(drv->cuMemcpy(1, 2, 500), CUDA_ERROR_UNKNOWN);
    assert_int_equal(drv->cuMemcpyDtoD(1, 2, 3), CUDA_SUCCESS);
    assert_int_equal(acre__driver_copied_bytes(drv) - before, 13);
    assert_int_equal(acre__driver_copied_bytes(drv), acre__driver_copied_bytes(&inner));
    assert_ptr_equal(drv->calls, inner.calls);
}

static void *copy_many(void *user) {
    const struct acre__driver *drv = user;

    for (int i = 0; i < 10000; i++)
        drv->cuMemcpyAsync(1, 2, 3, NULL);
    return NULL;
}

static void count_threads_lose_nothing(void **state) {
    struct acre__driver drv = counted(0);
    uint64_t before = acre__driver_copied_bytes(&drv);
    pthread_t threads[4];

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, copy_many, &drv), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(acre__driver_copied_bytes(&drv) - before, 4 * 10000 * 3);
}

static void count_statistics_have_the_calls_for_memory(void **state) {
    acre_device *dev;
    acre_device_stats before = {.struct_size = sizeof before}, after = before;
    acre_vm_chunk *chunk;

    (void)state;
    assert_int_equal(acre_open("soft", NULL, &dev), ACRE_OK);
    assert_int_equal(acre_device_get_stats(dev, &before), ACRE_OK);
    assert_int_equal(acre_vm_create(dev, 1, 0, &chunk, NULL), ACRE_OK);
    assert_int_equal(acre_vm_release(dev, chunk), ACRE_OK);
    assert_int_equal(acre_device_get_stats(dev, &after), ACRE_OK);
    assert_int_equal(after.driver_creates - before.driver_creates, 1);
    assert_int_equal(after.driver_releases - before.driver_releases, 1);
    assert_int_equal(after.driver_maps, before.driver_maps);
    assert_int_equal(after.driver_accesses, before.driver_accesses);
    assert_int_equal(after.driver_unmaps, before.driver_unmaps);
    assert_int_equal(after.driver_allocs, before.driver_allocs);
    assert_int_equal(acre_close(dev), ACRE_OK);
}

static void count_soft_device_counts_what_acre_copies(void **state) {
    acre_device *dev;
    const struct acre__driver *drv;
    uint64_t before;
    char host[1000];
    void *p;

    (void)state;
    memset(host, 1, sizeof host);
    assert_int_equal(acre_open("soft", NULL, &dev), ACRE_OK);
    drv = dev->drv;
    assert_int_equal(ACRE__DRIVER_HAS(drv, cuMemAllocAsync), 1);
    assert_int_equal(acre_mem_alloc(dev, ACRE_KIND_DEVICE, sizeof host, 0, &p), ACRE_OK);
    before = acre__driver_copied_bytes(drv);
    assert_int_equal(acre_copy_sync(dev, p, host, sizeof host), ACRE_OK);
    assert_int_equal(acre_copy_2d(dev, p, 100, host, 10, 10, 7, NULL), ACRE_OK);
    assert_int_equal(acre_fill_sync(dev, p, 0, sizeof host), ACRE_OK);
    assert_int_equal(acre__driver_copied_bytes(drv) - before, sizeof host + 70);
    assert_int_equal(acre_mem_free(dev, p), ACRE_OK);
    assert_int_equal(acre_close(dev), ACRE_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(count_statistics_have_the_calls_for_memory, setup),
        cmocka_unit_test_setup(count_soft_device_counts_what_acre_copies, setup),
        cmocka_unit_test_setup(count_calls_for_memory_count_refused_or_not, setup),
        cmocka_unit_test_setup(count_every_copy_adds_its_bytes_once, setup),
        cmocka_unit_test_setup(count_refused_copies_add_nothing, setup),
        cmocka_unit_test_setup(count_replaces_copies_and_calls_for_memory_alone, setup),
        cmocka_unit_test_setup(count_two_drivers_are_counted_apart, setup),
        cmocka_unit_test_setup(count_counting_twice_counts_once, setup),
        cmocka_unit_test_setup(count_table_without_a_counter_reads_zero, setup),
        cmocka_unit_test_setup(count_is_read_through_the_fault_wrapper, setup),
        cmocka_unit_test_setup(count_threads_lose_nothing, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
