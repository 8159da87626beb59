/*
 * The fault wrapper: which call fails, how often, and with which code. A failed call does not reach
 * the inner table. Also the parser of fault plans. The inner tables are fakes that count their
 * calls.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "support/cases.h"
#include "driver/driver_fault.h"

static _Atomic unsigned inner_calls;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define FAKE(entry, symbol, version, need, sticky, calls, moved, params, args)                     \
    static CUresult fake_##entry params {                                                          \
        atomic_fetch_add(&inner_calls, 1);                                                         \
        return CUDA_SUCCESS;                                                                       \
    }
ACRE__DRIVER_LIST(FAKE)
#pragma GCC diagnostic pop

#define FAKE_MEMBER(entry, symbol, version, need, sticky, calls, moved, params, args)              \
    .entry = fake_##entry,
static struct acre__driver fake_cuda = {.name = "cuda", ACRE__DRIVER_LIST(FAKE_MEMBER)};
static struct acre__driver fake_soft = {
    .name = "soft", .is_soft = 1, ACRE__DRIVER_LIST(FAKE_MEMBER)};

static CUresult answer_count(int *count_out) {
    *count_out = 7;
    return CUDA_SUCCESS;
}

static int setup(void **state) {
    (void)state;
    atomic_store(&inner_calls, 0);
    fake_cuda.cuDeviceGetCount = answer_count;
    assert_int_equal(acre__fault_set(NULL), ACRE_OK);
    return 0;
}

static void plan(const char *entry, uint32_t nth, CUresult code, enum acre__fault_mode mode) {
    struct acre__fault_plan made = {entry, nth, code, mode};

    assert_int_equal(acre__fault_set(&made), ACRE_OK);
}

TEST_WITH(fault_without_plan_everything_passes, setup, NULL) {
    const struct acre__driver *drv = acre__fault_wrap(&fake_cuda);
    int count = 0;

    assert_int_equal(drv->cuInit(0), CUDA_SUCCESS);
    assert_int_equal(drv->cuDeviceGetCount(&count), CUDA_SUCCESS);
    assert_int_equal(count, 7);
    assert_int_equal(drv->cuMemFree(4096), CUDA_SUCCESS);
    assert_int_equal(atomic_load(&inner_calls), 2);
    assert_int_equal(acre__fault_count(), 3);
    assert_int_equal(acre__fault_fired(), 0);
}

TEST_WITH(fault_failed_call_stays_outside_and_leaves_outputs, setup, NULL) {
    const struct acre__driver *drv = acre__fault_wrap(&fake_cuda);
    int count = -5;

    plan(NULL, 1, CUDA_ERROR_NO_DEVICE, ACRE__FAULT_ONCE);
    assert_int_equal(drv->cuDeviceGetCount(&count), CUDA_ERROR_NO_DEVICE);
    assert_int_equal(count, -5);
    assert_int_equal(atomic_load(&inner_calls), 0);
    assert_int_equal(drv->cuDeviceGetCount(&count), CUDA_SUCCESS);
    assert_int_equal(count, 7);
    assert_int_equal(acre__fault_fired(), 1);
}

TEST_WITH(fault_once_hits_exactly_the_nth_of_its_entry, setup, NULL) {
    const struct acre__driver *drv = acre__fault_wrap(&fake_cuda);
    int i;

    plan("cuMemFree", 3, CUDA_ERROR_UNKNOWN, ACRE__FAULT_ONCE);
    for (i = 1; i <= 6; i++) {
        assert_int_equal(drv->cuCtxSynchronize(), CUDA_SUCCESS);
        assert_int_equal(drv->cuMemFree(0), i == 3 ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS);
    }
    assert_int_equal(acre__fault_count(), 6);
    assert_int_equal(acre__fault_fired(), 1);
    assert_int_equal(atomic_load(&inner_calls), 11);
}

TEST_WITH(fault_from_hits_the_nth_and_all_after, setup, NULL) {
    const struct acre__driver *drv = acre__fault_wrap(&fake_cuda);
    int i;

    plan("cuMemFree", 3, CUDA_ERROR_OUT_OF_MEMORY, ACRE__FAULT_FROM);
    for (i = 1; i <= 6; i++) {
        assert_int_equal(drv->cuCtxSynchronize(), CUDA_SUCCESS);
        assert_int_equal(drv->cuMemFree(0), i >= 3 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);
    }
    assert_int_equal(acre__fault_fired(), 4);
}

TEST_WITH(fault_sticky_spreads_to_calls_that_need_a_context, setup, NULL) {
    const struct acre__driver *drv = acre__fault_wrap(&fake_cuda);
    CUcontext ctx;
    int count;

    plan("cuCtxSynchronize", 2, CUDA_ERROR_ILLEGAL_ADDRESS, ACRE__FAULT_STICKY);
    assert_int_equal(drv->cuCtxSynchronize(), CUDA_SUCCESS);
    assert_int_equal(drv->cuMemFree(0), CUDA_SUCCESS);
    assert_int_equal(drv->cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(drv->cuMemFree(0), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(drv->cuStreamQuery(NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(drv->cuDeviceGetCount(&count), CUDA_SUCCESS);
    assert_int_equal(drv->cuCtxPopCurrent(&ctx), CUDA_SUCCESS);
    assert_int_equal(acre__fault_fired(), 3);
    assert_int_equal(acre__fault_set(NULL), ACRE_OK);
    assert_int_equal(drv->cuMemFree(0), CUDA_SUCCESS);
}

TEST_WITH(fault_error_names_are_never_counted_or_failed, setup, NULL) {
    const struct acre__driver *drv = acre__fault_wrap(&fake_cuda);
    const char *text;

    plan(NULL, 1, CUDA_ERROR_UNKNOWN, ACRE__FAULT_FROM);
    assert_int_equal(drv->cuGetErrorName(CUDA_ERROR_UNKNOWN, &text), CUDA_SUCCESS);
    assert_int_equal(drv->cuGetErrorString(CUDA_ERROR_UNKNOWN, &text), CUDA_SUCCESS);
    assert_int_equal(acre__fault_count(), 0);
    assert_int_equal(drv->cuInit(0), CUDA_ERROR_UNKNOWN);
}

TEST_WITH(fault_zero_only_counts_its_entry, setup, NULL) {
    const struct acre__driver *drv = acre__fault_wrap(&fake_cuda);

    plan("cuInit", 0, CUDA_SUCCESS, ACRE__FAULT_FROM);
    assert_int_equal(drv->cuInit(0), CUDA_SUCCESS);
    assert_int_equal(drv->cuMemFree(0), CUDA_SUCCESS);
    assert_int_equal(drv->cuInit(0), CUDA_SUCCESS);
    assert_int_equal(acre__fault_count(), 2);
    assert_int_equal(acre__fault_fired(), 0);
}

/* Every entry of the list is wrapped in both slots, and the lookup finds it by its name. */
TEST_WITH(fault_every_entry_fails_by_its_name, setup, NULL) {
    const struct acre__driver *both[2];
    unsigned slot;

    both[0] = acre__fault_wrap(&fake_cuda);
    both[1] = acre__fault_wrap(&fake_soft);
    for (slot = 0; slot < 2; slot++) {
#define TRY(entry, symbol, version, need, sticky, calls, moved, params, args)                      \
    assert_non_null(both[slot]->entry);                                                            \
    assert_ptr_not_equal(both[slot]->entry, fake_##entry);                                         \
    assert_ptr_equal(acre__driver_entry_name(acre__driver_entry_find(#entry)),                     \
                     acre__driver_entry_name(ACRE__ENTRY_##entry));
        ACRE__DRIVER_LIST(TRY)
    }
}

TEST_WITH(fault_two_slots_share_one_count, setup, NULL) {
    const struct acre__driver *cuda = acre__fault_wrap(&fake_cuda);
    const struct acre__driver *soft = acre__fault_wrap(&fake_soft);

    assert_ptr_not_equal(cuda, soft);
    assert_int_equal(cuda->is_soft, 0);
    assert_int_equal(soft->is_soft, 1);
    assert_string_equal(soft->name, "soft");
    plan(NULL, 3, CUDA_ERROR_UNKNOWN, ACRE__FAULT_ONCE);
    assert_int_equal(cuda->cuMemFree(0), CUDA_SUCCESS);
    assert_int_equal(soft->cuMemFree(0), CUDA_SUCCESS);
    assert_int_equal(cuda->cuMemFree(0), CUDA_ERROR_UNKNOWN);
    assert_int_equal(soft->cuMemFree(0), CUDA_SUCCESS);
}

TEST_WITH(fault_wrapping_twice_is_the_same_table, setup, NULL) {
    const struct acre__driver *drv = acre__fault_wrap(&fake_cuda);

    assert_ptr_equal(acre__fault_wrap(drv), drv);
    assert_ptr_equal(acre__fault_wrap(&fake_cuda), drv);
    assert_null(acre__fault_wrap(NULL));
}

TEST_WITH(fault_wrapping_keeps_what_is_missing, setup, NULL) {
    static struct acre__driver old;
    const struct acre__driver *drv;

    old = fake_cuda;
    old.missing[ACRE__ENTRY_cuStreamGetId] = 1;
    drv = acre__fault_wrap(&old);
    assert_int_equal(ACRE__DRIVER_HAS(drv, cuStreamGetId), 0);
    assert_int_equal(ACRE__DRIVER_HAS(drv, cuMemFree), 1);
    drv = acre__fault_wrap(&fake_cuda);
    assert_int_equal(ACRE__DRIVER_HAS(drv, cuStreamGetId), 1);
}

TEST_WITH(fault_bad_plan_is_refused_and_the_old_one_stays, setup, NULL) {
    const struct acre__driver *drv = acre__fault_wrap(&fake_cuda);
    struct acre__fault_plan bad = {"cuMemFlee", 1, CUDA_ERROR_UNKNOWN, ACRE__FAULT_ONCE};

    plan("cuInit", 1, CUDA_ERROR_UNKNOWN, ACRE__FAULT_FROM);
    assert_int_equal(acre__fault_set(&bad), ACRE_E_INVALID);
    assert_non_null(strstr(acre_last_detail(), "cuMemFlee"));
    bad.entry = NULL;
    bad.code = CUDA_SUCCESS;
    assert_int_equal(acre__fault_set(&bad), ACRE_E_INVALID);
    bad.code = CUDA_ERROR_UNKNOWN;
    bad.mode = (enum acre__fault_mode)3;
    assert_int_equal(acre__fault_set(&bad), ACRE_E_INVALID);
    assert_int_equal(drv->cuInit(0), CUDA_ERROR_UNKNOWN);
}

enum { THREADS = 4, CALLS = 20000 };

static void *call_many(void *arg) {
    const struct acre__driver *drv = acre__fault_wrap(&fake_cuda);
    uintptr_t failed = 0;
    int i;

    (void)arg;
    for (i = 0; i < CALLS; i++)
        failed += drv->cuMemFree(0) != CUDA_SUCCESS;
    return (void *)failed;
}

TEST_WITH(fault_threads_together_fail_exactly_once, setup, NULL) {
    pthread_t thread[THREADS];
    uintptr_t failed = 0;
    int i;

    plan(NULL, THREADS * CALLS / 2, CUDA_ERROR_UNKNOWN, ACRE__FAULT_ONCE);
    for (i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, call_many, NULL), 0);
    for (i = 0; i < THREADS; i++) {
        void *result;

        assert_int_equal(pthread_join(thread[i], &result), 0);
        failed += (uintptr_t)result;
    }
    assert_int_equal(failed, 1);
    assert_int_equal(acre__fault_count(), THREADS * CALLS);
    assert_int_equal(atomic_load(&inner_calls), THREADS * CALLS - 1);
}

static void parse_good(const char *spec, const char *entry, uint32_t nth,
                       enum acre__fault_mode mode, CUresult code) {
    struct acre__fault_plan made;

    assert_int_equal(acre__fault_parse(spec, &made), ACRE_OK);
    if (entry == NULL)
        assert_null(made.entry);
    else
        assert_string_equal(made.entry, entry);
    assert_int_equal(made.nth, nth);
    assert_int_equal(made.mode, mode);
    assert_int_equal(made.code, code);
}

TEST_WITH(fault_parse_reads_all_forms, setup, NULL) {
    parse_good("cuMemCreate:3", "cuMemCreate", 3, ACRE__FAULT_ONCE, CUDA_ERROR_OUT_OF_MEMORY);
    parse_good("*:17", NULL, 17, ACRE__FAULT_ONCE, CUDA_ERROR_OUT_OF_MEMORY);
    parse_good("*:0", NULL, 0, ACRE__FAULT_ONCE, CUDA_ERROR_OUT_OF_MEMORY);
    parse_good("cuStreamCreate:1:from:2", "cuStreamCreate", 1, ACRE__FAULT_FROM,
               CUDA_ERROR_OUT_OF_MEMORY);
    parse_good("*:5:sticky:700", NULL, 5, ACRE__FAULT_STICKY, CUDA_ERROR_ILLEGAL_ADDRESS);
    parse_good("*:4294967295:once:CUDA_ERROR_NOT_READY", NULL, 4294967295u, ACRE__FAULT_ONCE,
               CUDA_ERROR_NOT_READY);
}

TEST_WITH(fault_parse_refuses_with_the_place, setup, NULL) {
    static const struct {
        const char *spec, *named;
    } bad[] = {
        {"", "entry:n"},
        {"cuMemCreate", "entry:n"},
        {"cuMemCrate:1", "'cuMemCrate'"},
        {":1", "''"},
        {"*:", "''"},
        {"*:x", "'x'"},
        {"*:-1", "'-1'"},
        {"*:4294967296", "'4294967296'"},
        {"*:1:twice", "'twice'"},
        {"*:1:once:0", "'0'"},
        {"*:1:once:CUDA_SUCCESS", "'CUDA_SUCCESS'"},
        {"*:1:once:12345", "'12345'"},
        {"*:1:once:2:3", "'3'"},
    };
    char huge[400];
    size_t i;

    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct acre__fault_plan kept = {"kept", 9, CUDA_ERROR_UNKNOWN, ACRE__FAULT_FROM};

        assert_int_equal(acre__fault_parse(bad[i].spec, &kept), ACRE_E_CONFIG);
        assert_non_null(strstr(acre_last_detail(), bad[i].named));
        assert_string_equal(kept.entry, "kept");
        assert_int_equal(kept.nth, 9);
    }
    memset(huge, 'c', sizeof huge - 1);
    huge[sizeof huge - 1] = '\0';
    assert_int_equal(acre__fault_parse(huge, &(struct acre__fault_plan){0}), ACRE_E_CONFIG);
    assert_int_equal(acre__fault_parse(NULL, &(struct acre__fault_plan){0}), ACRE_E_NULL);
}

int main(void) {

    return tests_run("fault");
}
