/* Lag of devices behind the host, as on a busy GPU.
 *
 * With a lag of N operations, work becomes due when N more operations have been queued on any
 * stream. With a lag in time, work becomes due that long after it was queued. Event records, event
 * waits and no-ops become due with the work before them and do not count as operations.
 *
 * A lag in operations is deterministic: every driver call runs the work that has become due before
 * it returns. Host functions and kernels may take the caller's locks, so workers run them. A
 * waiting host would wait forever for operations that nobody queues. So a wait makes all queued
 * work due, and so do many queries in a row without a new operation. With a seed the scheduler
 * still draws which due stream runs next.
 *
 * This file decides when work is due; soft_run.c runs it. Guarded by acre__soft.lock. */
#include <time.h>

#include "base/config.h"
#include "base/parse.h"
#include "base/status.h"
#include "soft/soft_lag.h"
#include "soft/soft_state.h"

/* This many queries in a row mean that the host only waits. */
enum { LAG_QUESTIONS = 10000 };

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int op_is_work(const struct soft_op *op) {
    return op->kind != SOFT_RECORD && op->kind != SOFT_WAIT && op->kind != SOFT_NOTHING;
}

void acre__soft_lag_queued(struct soft_op *op) {
    if (op_is_work(op)) {
        acre__soft.lag.queued++;
        acre__soft.lag.questions = 0;
    }
    op->queued = acre__soft.lag.queued;
    op->due_ns = acre__soft.lag.ns ? now_ns() + acre__soft.lag.ns : 0;
}

int acre__soft_lag_is_due(const struct soft_op *op) {
    const struct soft_lag *lag = &acre__soft.lag;
    if (op->serial <= lag->waited_for)
        return 1;
    if (lag->operations && lag->queued - op->queued < lag->operations)
        return 0;
    return !lag->ns || now_ns() >= op->due_ns;
}

uint64_t acre__soft_lag_next_ns(void) {
    uint64_t next = 0;
    if (!acre__soft.lag.ns)
        return 0;
    for (const struct CUctx_st *ctx = acre__soft.contexts; ctx; ctx = ctx->next)
        for (const struct soft_stream *s = ctx->streams; s; s = s->next)
            if (s->head && !s->is_running && (!next || s->head->due_ns < next))
                next = s->head->due_ns;
    return next;
}

void acre__soft_lag_wait(void) {
    if (acre__soft.lag.operations)
        acre__soft.lag.waited_for = acre__soft.last_serial;
}

void acre__soft_lag_asked(void) {
    if (acre__soft.lag.operations && ++acre__soft.lag.questions >= LAG_QUESTIONS)
        acre__soft_lag_wait();
}

int acre__soft_lag_is_inline(const struct soft_stream *stream) {
    const struct soft_op *op = stream->head;
    return acre__soft.lag.operations && !acre__soft.config.seeded && op->kind != SOFT_CALL &&
           op->kind != SOFT_KERNEL;
}

/* ---- settings ---- */

acre_status acre__soft_lag_config(struct acre__soft_config *config) {
    const char *text = acre__config_string(ACRE__CONFIG_SOFT_LAG);
    if (text && acre__parse_lag(text, &config->lag_operations, &config->lag_ns))
        return acre__fail(ACRE_E_CONFIG,
                          "ACRE_SOFT_LAG is '%s'; it must be operations (1000) or milliseconds "
                          "(5ms)",
                          text);
    if (config->lag_ns && config->seeded)
        return acre__fail(ACRE_E_CONFIG, "ACRE_SOFT_LAG is a time, which ACRE_SOFT_SEED does not "
                                         "support; set a number of operations");
    return ACRE_OK;
}

void acre__soft_lag_start(void) {
    acre__soft.lag = (struct soft_lag){.operations = acre__soft.config.lag_operations,
                                       .ns = acre__soft.config.lag_ns};
}
