/* The counted loop: it fails the n-th driver call inside a call under test, alone or with all later
 * ones, for n = 1, 2, ... until a run in which no call fails.
 *
 * A file that includes this header defines `struct things`, on which its calls work, a `struct op`
 * for each call, and a function of type counted_one. That function prepares the things, calls
 * through counted_call, and checks the result. This header checks what holds after every run: the
 * statistics count the refusal, and the caller's thread is unchanged. */
#ifndef ACRE_TESTS_FAULT_COUNTED_H
#define ACRE_TESTS_FAULT_COUNTED_H

#include "fault_device.h"
#include "support/rounds.h"

struct things;
struct op;

/* Most loops skip the last plan: it differs from the one before only in the status. */
static const struct {
    enum acre__fault_mode mode;
    CUresult code;
} counted_plans[] = {{ACRE__FAULT_ONCE, CUDA_ERROR_OUT_OF_MEMORY},
                     {ACRE__FAULT_ONCE, CUDA_ERROR_UNKNOWN},
                     {ACRE__FAULT_FROM, CUDA_ERROR_UNKNOWN},
                     {ACRE__FAULT_FROM, CUDA_ERROR_OUT_OF_MEMORY}};
enum { COUNTED_SHORT = 3, COUNTED_ALL = 4 };

/* The settings and the results of a run. */
struct counted {
    const char *name; /* name of the driver for acre_open */
    acre_device *device;
    const char *op;         /* for messages */
    uint32_t from_step;     /* step between the first failing calls with ACRE__FAULT_FROM; 0: 1 */
    const unsigned *unseen; /* how many single failures the caller must not see, or NULL */

    enum acre__fault_mode mode;
    CUresult code;
    uint32_t nth; /* the driver call that fails */

    acre_status status; /* result of the call under test */
    uint64_t calls;     /* driver calls, including the failed ones */
    uint64_t fired;     /* how many calls failed; 0 ends the loop */
    uint64_t refusals;  /* increase of driver_refusals; may include refusals of a full device */
    unsigned was_unseen;
};

/* ---- checks ---- */

/* Which memory a status reports as exhausted. */
enum { COUNTED_DEVICE = 1, COUNTED_HOST = 2, COUNTED_ADDRESSES = 4, COUNTED_LIMIT = 8 };

static inline unsigned counted_memory(acre_status status) {
    return status == ACRE_E_DEVICE_MEMORY   ? COUNTED_DEVICE
           : status == ACRE_E_HOST_MEMORY   ? COUNTED_HOST
           : status == ACRE_E_ADDRESS_SPACE ? COUNTED_ADDRESSES
           : status == ACRE_E_LIMIT         ? COUNTED_LIMIT
                                            : 0;
}

/* The status matches the failure. `memory` lists the kinds of memory that may run out. */
static inline int counted_is_right(const struct counted *run, unsigned memory) {
    if (run->status == ACRE_OK)
        return 1;
    return run->code == CUDA_ERROR_OUT_OF_MEMORY ? (counted_memory(run->status) & memory) != 0
                                                 : run->status == ACRE_E_DRIVER;
}

static inline void counted_expect_status(const struct counted *run, int is_right) {
    if (!is_right || (run->status && !acre_last_detail()[0]))
        fail_msg("%s with call %u failing: %s: %s", run->op, run->nth,
                 acre_status_name(run->status), acre_last_detail());
}

/* A pop or a capture mode that the driver refused throughout is still set; reset it with the raw
 * driver. */
static inline void counted_restore_thread(const char *name) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    assert_int_equal(fault_raw(name)->cuThreadExchangeStreamCaptureMode(&mode), 0);
    assert_int_equal(fault_raw(name)->cuCtxSetCurrent(NULL), 0);
}

/* The thread is unchanged: no current context, the same capture mode. */
static inline void counted_expect_thread(const struct counted *run) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (fault_current(run->name))
        fail_msg("%s left a context current", run->op);
    assert_int_equal(fault_raw(run->name)->cuThreadExchangeStreamCaptureMode(&mode), 0);
    if (mode != CU_STREAM_CAPTURE_MODE_GLOBAL)
        fail_msg("%s left the capture mode relaxed", run->op);
}

/* ---- the loop ---- */

/* Makes the call under test while the driver call that the run names fails. */
static inline void counted_call(struct counted *run, acre_status (*call)(struct things *t),
                                struct things *t) {
    uint64_t refusals = api_stats(run->device).driver_refusals;
    fault_on(NULL, run->nth, run->mode, run->code);
    run->status = call(t);
    run->calls = acre__fault_count();
    run->fired = fault_off();
    if (run->mode == ACRE__FAULT_FROM)
        counted_restore_thread(run->name);
    counted_expect_thread(run);
    if (!run->fired)
        api_ok(run->status);
    run->refusals = api_stats(run->device).driver_refusals - refusals;
    if (run->status)
        assert_true(run->refusals > 0);
    run->was_unseen += run->fired && !run->status;
}

typedef void counted_one(struct things *t, const struct op *op, struct counted *run);

struct counted_steps {
    uint32_t first, step;
};

/* In short runs each driver call still fails once alone, under one of the two plans for that. */
static inline struct counted_steps counted_steps(size_t plan, const struct counted *run) {
    if (run->mode == ACRE__FAULT_FROM)
        return (struct counted_steps){1, (run->from_step ? run->from_step : 1) * ROUNDS(1, 3)};
    return (struct counted_steps){ROUNDS(1, (uint32_t)plan + 1), ROUNDS(1, 2)};
}

/* Returns the next driver call to fail. A short run skips calls in the middle of an op with
 * many driver calls, since they repeat the same steps for each piece. `all` is the op's number
 * of calls. */
static inline uint32_t counted_next(const struct counted *run, uint32_t step, uint64_t all) {
    enum { BEGIN = 12, END = 20, WIDER = 5 };
    int is_middle = ROUNDS_ARE_FEW && run->nth > BEGIN && run->nth + END < all;
    return run->nth + (is_middle ? WIDER * step : step);
}

/* Returns the number of driver calls when none fails. */
static inline uint64_t counted_calls(struct counted run, counted_one *one, struct things *t,
                                     const struct op *op) {
    run.mode = ACRE__FAULT_ONCE;
    run.code = CUDA_ERROR_UNKNOWN;
    run.nth = UINT32_MAX;
    one(t, op, &run);
    return run.calls;
}

/* Runs the loop under the first `plans` of counted_plans. Returns the number of driver calls, the
 * least over all plans. */
static inline uint32_t counted_loop(struct counted run, size_t plans, counted_one *one,
                                    struct things *t, const struct op *op) {
    uint32_t fewest = UINT32_MAX;
    uint64_t all = ROUNDS_ARE_FEW ? counted_calls(run, one, t, op) : 0;
    for (size_t i = 0; i < plans; i++) {
        run.mode = counted_plans[i].mode;
        run.code = counted_plans[i].code;
        run.was_unseen = 0;
        struct counted_steps steps = counted_steps(i, &run);
        run.nth = steps.first;
        while (one(t, op, &run), run.fired)
            run.nth = counted_next(&run, steps.step, all);
        if (i == 0)
            print_message("%s: %s: %u driver calls\n", run.name, run.op, run.nth - 1);
        if (run.unseen && run.mode == ACRE__FAULT_ONCE && steps.step == 1)
            assert_int_equal(run.was_unseen, *run.unseen);
        fewest = run.nth - 1 < fewest ? run.nth - 1 : fewest;
    }
    return fewest;
}

/* Runs the loop after a run without failures, in which the driver allocates what it keeps after the
 * first use. The loop must not change the free memory. */
static inline void counted_keeps_memory(struct counted run, counted_one *one, struct things *t,
                                        const struct op *op) {
    (void)counted_calls(run, one, t, op);
    uint64_t free_bytes = fault_free_bytes(run.name);
    assert_true(counted_loop(run, COUNTED_SHORT, one, t, op) > 0); /* the op does call the driver */
    if (strcmp(run.name, "soft") == 0)
        assert_int_equal(fault_free_bytes(run.name), free_bytes);
}

#endif
