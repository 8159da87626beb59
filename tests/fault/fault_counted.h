/* The counted loop: driver call 1, 2, ... inside a call under test fails, alone or with all after
 * it, until a run in which none did.
 *
 * A file that includes this has a `struct things`, which its calls work with, a `struct op` for
 * each of them, and a function of type counted_one: it makes the things ready, calls through
 * counted_call, and looks at what came out. What holds after every run, whatever was called, is
 * looked at here: the refusal was counted, and the caller's thread is as it was. */
#ifndef ACRE_TESTS_FAULT_COUNTED_H
#define ACRE_TESTS_FAULT_COUNTED_H

#include "fault_device.h"
#include "support/rounds.h"

struct things;
struct op;

/* Most loops do without the last: it differs from the one before in the status alone. */
static const struct {
    enum acre__fault_mode mode;
    CUresult code;
} counted_plans[] = {{ACRE__FAULT_ONCE, CUDA_ERROR_OUT_OF_MEMORY},
                     {ACRE__FAULT_ONCE, CUDA_ERROR_UNKNOWN},
                     {ACRE__FAULT_FROM, CUDA_ERROR_UNKNOWN},
                     {ACRE__FAULT_FROM, CUDA_ERROR_OUT_OF_MEMORY}};
enum { COUNTED_SHORT = 3, COUNTED_ALL = 4 };

/* A run, and what the loop is told beforehand. */
struct counted {
    const char *name; /* of the driver, as it is opened */
    acre_device *device;
    const char *op;         /* for messages */
    uint32_t from_step;     /* only every so manieth call is the first of many; 0 for each */
    const unsigned *unseen; /* of one failing call: how many the caller sees nothing of, or NULL */

    enum acre__fault_mode mode;
    CUresult code;
    uint32_t nth; /* the driver call that fails */

    acre_status status; /* what came out */
    uint64_t calls;     /* that the driver got, the failed ones too */
    uint64_t fired;     /* how many calls failed; 0 ends the loop */
    uint64_t refusals;  /* how many the statistics have more; on a full device also its own */
    unsigned was_unseen;
};

/* ---- what must hold ---- */

/* Whose memory a status says is short. */
enum { COUNTED_DEVICE = 1, COUNTED_HOST = 2, COUNTED_ADDRESSES = 4, COUNTED_LIMIT = 8 };

static inline unsigned counted_memory(acre_status status) {
    return status == ACRE_E_DEVICE_MEMORY   ? COUNTED_DEVICE
           : status == ACRE_E_HOST_MEMORY   ? COUNTED_HOST
           : status == ACRE_E_ADDRESS_SPACE ? COUNTED_ADDRESSES
           : status == ACRE_E_LIMIT         ? COUNTED_LIMIT
                                            : 0;
}

/* The status says what failed: `memory` lists who may be short of it. */
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

/* A pop or a capture mode that was refused for good stays; the driver can be asked again now. */
static inline void counted_restore_thread(const char *name) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    assert_int_equal(fault_raw(name)->cuThreadExchangeStreamCaptureMode(&mode), 0);
    assert_int_equal(fault_raw(name)->cuCtxSetCurrent(NULL), 0);
}

/* The thread is as it was before: no context, the mode it had. */
static inline void counted_expect_thread(const struct counted *run) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (fault_current(run->name))
        fail_msg("%s left a context", run->op);
    assert_int_equal(fault_raw(run->name)->cuThreadExchangeStreamCaptureMode(&mode), 0);
    if (mode != CU_STREAM_CAPTURE_MODE_GLOBAL)
        fail_msg("%s left the capture mode relaxed", run->op);
}

/* ---- the loop ---- */

/* Calls with the driver call failing that the run names. */
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

/* Where rounds are few, each call still fails alone, under one of the two plans for that. */
static inline struct counted_steps counted_steps(size_t plan, const struct counted *run) {
    if (run->mode == ACRE__FAULT_FROM)
        return (struct counted_steps){1, (run->from_step ? run->from_step : 1) * ROUNDS(1, 3)};
    return (struct counted_steps){ROUNDS(1, (uint32_t)plan + 1), ROUNDS(1, 2)};
}

/* The call that fails next. Where rounds are few, only some do in the middle of what makes many, as
 * it does the same there piece by piece. `all` is how many it makes. */
static inline uint32_t counted_next(const struct counted *run, uint32_t step, uint64_t all) {
    enum { BEGIN = 12, END = 20, WIDER = 5 };
    int is_middle = ROUNDS_ARE_FEW && run->nth > BEGIN && run->nth + END < all;
    return run->nth + (is_middle ? WIDER * step : step);
}

/* How many driver calls there are if none fails. */
static inline uint64_t counted_calls(struct counted run, counted_one *one, struct things *t,
                                     const struct op *op) {
    run.mode = ACRE__FAULT_ONCE;
    run.code = CUDA_ERROR_UNKNOWN;
    run.nth = UINT32_MAX;
    one(t, op, &run);
    return run.calls;
}

/* Under the first `plans` of counted_plans. Returns in how many driver calls, of the plan that saw
 * fewest. */
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

/* The loop, after a run in which nothing fails: what a driver keeps after its first time is kept
 * then, and nothing more. */
static inline void counted_keeps_memory(struct counted run, counted_one *one, struct things *t,
                                        const struct op *op) {
    (void)counted_calls(run, one, t, op);
    uint64_t free_bytes = fault_free_bytes(run.name);
    assert_true(counted_loop(run, COUNTED_SHORT, one, t, op) > 0); /* it does call the driver */
    if (strcmp(run.name, "soft") == 0)
        assert_int_equal(fault_free_bytes(run.name), free_bytes);
}

#endif
