/* Runs the queues of streams with worker threads, one operation at a time per stream, and waits.
 *
 * Without a seed, a worker is created when a stream becomes ready and no worker is idle. So there
 * are as many workers as streams were busy at the same time, and a host function that blocks delays
 * only its own stream. With a seed there are no workers: a thread that waits runs the next step
 * that the scheduler draws. Guarded by acre__soft.lock, which acre__soft_run_step releases while
 * bytes are copied or a kernel, host function or destructor runs. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "base/log.h"
#include "soft/launch.h"
#include "soft/soft_clock.h"
#include "soft/soft_lag.h"
#include "soft/soft_object.h"
#include "soft/soft_op.h"
#include "soft/soft_past.h"
#include "soft/soft_pool_memory.h"
#include "soft/soft_run.h"
#include "soft/soft_run_memory.h"
#include "soft/soft_state.h"
#include "soft/soft_stream.h"
#include "soft/soft_thread.h"

enum { SOFT_WORKERS_MAX = 1024 };

/* ---- choosing ---- */

static int stream_is_ready(const struct soft_stream *stream) {
    const struct soft_op *op = stream->head;
    return op && !stream->is_running && !(op->kind == SOFT_WAIT && !op->marker->done) &&
           acre__soft_lag_is_due(op);
}

static int worker_may_run(const struct soft_stream *stream) {
    return stream_is_ready(stream) && !acre__soft_lag_is_inline(stream);
}

size_t acre__soft_ready_count(void) {
    size_t count = 0;
    if (acre__soft.quiescing)
        return 0;
    for (const struct CUctx_st *ctx = acre__soft.contexts; ctx; ctx = ctx->next)
        for (const struct soft_stream *s = ctx->streams; s; s = s->next)
            count += (size_t)worker_may_run(s);
    return count;
}

/* Returns the index-th ready stream. */
static struct soft_stream *ready_at(size_t index) {
    for (const struct CUctx_st *ctx = acre__soft.contexts; ctx; ctx = ctx->next)
        for (struct soft_stream *s = ctx->streams; s; s = s->next)
            if (worker_may_run(s) && index-- == 0)
                return s;
    return NULL;
}

struct soft_stream *acre__soft_ready_pick(void) {
    size_t count = acre__soft_ready_count();
    if (!count)
        return NULL;
    return ready_at(acre__soft.config.seeded ? acre__soft_random() % count : 0);
}

/* ---- one step ---- */

static void run_record(struct soft_stream *stream, struct soft_marker *marker) {
    acre__soft_marker_finish(marker);
    acre__soft_clock_copy(&marker->clock, &stream->clock);
}

static void run_call(const struct soft_op *op, CUresult lost) {
    struct soft_thread *self = acre__soft_thread_self();
    int before = self ? self->in_host_function : 0;
    if (self)
        self->in_host_function = 1;
    acre__lock_give(&acre__soft.lock);
    if (op->callback)
        op->callback(op->caller, lost, op->argument);
    else
        op->call(op->argument);
    acre__lock_take(&acre__soft.lock);
    if (self)
        self->in_host_function = before;
}

void acre__soft_run_step(struct soft_stream *stream) {
    struct soft_op *op = stream->head; /* stays at the head for acre__soft_report_pending */
    struct CUctx_st *ctx = stream->ctx;
    int is_over = 1;
    stream->is_running = 1;
    acre__soft_clock_join(&stream->clock, &op->known);
    if (stream->clock.at)
        stream->clock.at[stream->slot] = ++acre__soft.slot_epoch[stream->slot];
    CUresult result = CUDA_SUCCESS;
    if (!ctx->lost || op->callback || op->marker) { /* others may wait for the marker */
        switch (op->kind) {
        case SOFT_COPY:
        case SOFT_FILL:
            result = acre__soft_run_copy(stream, op);
            break;
        case SOFT_RECORD:
            run_record(stream, op->marker);
            break;
        case SOFT_WAIT:
            acre__soft_clock_join(&stream->clock, &op->marker->clock);
            break;
        case SOFT_CALL:
            run_call(op, ctx->lost);
            break;
        case SOFT_KERNEL:
            result = acre__soft_run_kernel(stream, op, &is_over);
            break;
        case SOFT_ALLOC:
        case SOFT_FREE:
            run_record(stream, op->marker);
            result = ctx->lost ? CUDA_SUCCESS : acre__soft_run_pooled(stream, op);
            break;
        case SOFT_NOTHING:
            break;
        }
    }
    if (result)
        acre__soft_lose(ctx, result);
    if (!is_over && !result) { /* a seeded kernel with more steps */
        stream->is_running = 0;
        acre__cond_wake(&acre__soft.done);
        return;
    }
    stream->head = op->next;
    if (!stream->head)
        stream->tail = NULL;
    stream->is_running = 0;
    stream->completed = op->step;
    acre__soft_op_free(op);
    acre__soft_stream_free_if_over(stream);
    acre__soft_graph_memory_settle();
    acre__cond_wake(&acre__soft.done);
    acre__soft_workers_wake();
    if (acre__soft_objects_settle_late())
        acre__soft_workers_wake();
}

/* ---- lagging work ---- */

static struct soft_stream *lag_pick(void) {
    for (const struct CUctx_st *ctx = acre__soft.contexts; ctx; ctx = ctx->next)
        for (struct soft_stream *s = ctx->streams; s; s = s->next)
            if (stream_is_ready(s) && acre__soft_lag_is_inline(s))
                return s;
    return NULL;
}

int acre__soft_lag_run(void) {
    struct soft_stream *stream;
    int ran = 0;
    while (!acre__soft.quiescing && !acre__soft.stopping && (stream = lag_pick())) {
        acre__soft_run_step(stream);
        ran = 1;
    }
    return ran;
}

/* ---- workers ---- */

/* Waits for work, or until lagging work becomes due. */
static void worker_wait(void) {
    uint64_t next_ns = acre__soft_lag_next_ns();
    acre__soft.idle_count++;
    if (next_ns)
        acre__cond_wait_until(&acre__soft.work, &acre__soft.lock, next_ns);
    else
        acre__cond_wait(&acre__soft.work, &acre__soft.lock);
    acre__soft.idle_count--;
}

static void *worker_main(void *unused) {
    (void)unused;
    acre__lock_take(&acre__soft.lock);
    acre__soft.idle_count--; /* it counts as idle from its creation to here */
    while (!acre__soft.stopping) {
        if (acre__soft_object_destroy_late())
            continue;
        struct soft_stream *stream = acre__soft_ready_pick();
        if (stream) {
            acre__soft_run_step(stream);
            (void)acre__soft_lag_run(); /* work that was queued behind a host function */
        } else {
            worker_wait();
        }
    }
    acre__lock_give(&acre__soft.lock);
    return NULL;
}

static void worker_add(void) {
    pthread_t *workers =
        realloc(acre__soft.workers, (acre__soft.worker_count + 1) * sizeof *workers);
    if (!workers) {
        acre__soft.is_short_of_threads = 1;
        return;
    }
    acre__soft.workers = workers;
    /* Only threads of the program handle signals. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&workers[acre__soft.worker_count], NULL, worker_main, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0) {
        acre__soft.worker_count++;
        acre__soft.idle_count++;
    } else {
        acre__soft.is_short_of_threads = 1;
        acre__log(ACRE_LOG_WARN, "soft",
                  "cannot create more than %zu worker threads; driver calls run stream work, too",
                  acre__soft.worker_count);
    }
}

void acre__soft_workers_wake(void) {
    if (acre__soft.config.seeded || acre__soft.stopping)
        return;
    size_t ready = acre__soft_ready_count() + (acre__soft.dying_late && acre__soft.contexts);
    if (!ready && acre__soft_lag_next_ns())
        ready = 1; /* one worker that waits until work is due */
    if (!ready)
        return;
    /* Several streams may have become ready at once. */
    while (ready > acre__soft.idle_count && acre__soft.worker_count < SOFT_WORKERS_MAX) {
        size_t before = acre__soft.worker_count;
        worker_add();
        if (acre__soft.worker_count == before)
            break;
    }
    acre__cond_wake(&acre__soft.work);
}

void acre__soft_workers_stop(void) {
    acre__lock_take(&acre__soft.lock);
    acre__soft.stopping++;
    pthread_t *workers = acre__soft.workers;
    size_t count = acre__soft.worker_count;
    acre__soft.workers = NULL;
    acre__soft.worker_count = 0;
    acre__cond_wake(&acre__soft.work);
    acre__lock_give(&acre__soft.lock);
    for (size_t i = 0; i < count; i++)
        pthread_join(workers[i], NULL);
    free(workers);
}

void acre__soft_workers_start(void) {
    acre__soft.stopping--;
    acre__soft_workers_wake();
}

int acre__soft_ctx_is_running(const struct CUctx_st *ctx) {
    for (const struct soft_stream *stream = ctx->streams; stream; stream = stream->next)
        if (stream->is_running)
            return 1;
    return 0;
}

/* ---- waiting ---- */

int acre__soft_help(void) {
    struct soft_stream *stream;
    if (!acre__soft.is_short_of_threads || acre__soft.config.seeded || acre__soft.idle_count)
        return 0;
    if (acre__soft_object_destroy_late())
        return 1;
    if (!(stream = acre__soft_ready_pick()))
        return 0;
    acre__soft_run_step(stream);
    return 1;
}

/* Runs one step, or lets others run one; then the caller checks its condition again. Returns 0 if
 * nothing can ever change (a seeded run with every stream stuck). */
static int wait_some(void) {
    const struct acre__sched_hooks *hooks = acre__sched_hooks_get();
    struct soft_stream *stream;
    acre__soft_lag_wait();
    if (!acre__soft.config.seeded || (hooks && hooks->is_virtual())) {
        if (acre__soft_lag_run())
            return 1;
        acre__soft_workers_wake();
        if (acre__soft.config.seeded || !acre__soft_help())
            acre__cond_wait(&acre__soft.done, &acre__soft.lock);
        return 1;
    }
    stream = acre__soft_ready_pick();
    for (const struct CUctx_st *ctx = acre__soft.contexts; !stream && ctx; ctx = ctx->next)
        if (acre__soft_ctx_is_running(ctx)) { /* another thread runs a step */
            acre__cond_wait(&acre__soft.done, &acre__soft.lock);
            return 1;
        }
    if (!stream) {
        acre__soft_report("deadlock: every queued operation waits for one that was never queued");
        return 0;
    }
    acre__soft_run_step(stream);
    return 1;
}

CUresult acre__soft_wait_stream(struct soft_stream *stream, uint64_t step) {
    const struct CUctx_st *ctx = stream->ctx;
    const struct soft_step until = {stream->id, step};
    struct soft_past past = {0};
    CUresult result = CUDA_SUCCESS;
    if (step == stream->submitted)
        acre__soft_past_copy(&past, &stream->past);
    stream->waiters++; /* keeps the stream if another thread destroys it */
    while (stream && !result && !(result = ctx->lost) && stream->completed < step) {
        if (!wait_some())
            result = CUDA_ERROR_LAUNCH_TIMEOUT;
        stream = acre__soft_stream_by_id(until.stream);
    }
    if (!stream) { /* destroyed with its context, perhaps before its work was done */
        acre__soft_past_free(&past);
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    if (!result) {
        acre__soft_clock_join(&acre__soft.host, &stream->clock);
        acre__soft_past_observe_step(&until);
        acre__soft_past_observe(&past);
    }
    acre__soft_past_free(&past);
    stream->waiters--;
    acre__soft_stream_free_if_over(stream);
    acre__soft_graph_memory_settle();
    return result;
}

CUresult acre__soft_wait_marker(const struct CUctx_st *ctx, struct soft_marker *marker) {
    CUresult result = CUDA_SUCCESS;
    marker->refs++; /* the event may be destroyed or recorded again meanwhile */
    while (!marker->done && !result) {
        result = ctx->lost;
        if (!result && !wait_some())
            result = CUDA_ERROR_LAUNCH_TIMEOUT;
    }
    if (!result)
        result = ctx->lost;
    if (!result) {
        acre__soft_clock_join(&acre__soft.host, &marker->clock);
        acre__soft_past_observe_step(&marker->place);
        acre__soft_past_observe(&marker->past);
    }
    acre__soft_marker_drop(marker);
    return result;
}

/* Does not wait for work that others queue during the wait. */
CUresult acre__soft_wait_ctx(struct CUctx_st *ctx) {
    size_t count = 0, done = 0;
    for (const struct soft_stream *s = ctx->streams; s; s = s->next)
        count++;
    struct {
        uint64_t id, step;
    } *until = count ? malloc(count * sizeof *until) : NULL;
    if (count && !until)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (const struct soft_stream *s = ctx->streams; s; s = s->next) {
        until[done].id = s->id;
        until[done++].step = s->submitted;
    }
    CUresult result = ctx->lost;
    for (size_t i = 0; i < count && !result; i++) {
        struct soft_stream *stream = acre__soft_stream_by_id(until[i].id);
        if (stream)
            result = acre__soft_wait_stream(stream, until[i].step);
    }
    free(until);
    if (!result)
        acre__soft_clock_host_joins(ctx);
    return result;
}

/* ---- memory released under queued work ---- */

static int side_overlaps(const struct soft_side *side, const struct soft_op *op, uint64_t address,
                         size_t bytes) {
    if (side->raw || !side->address)
        return 0;
    uint64_t end = side->address + (op->rows - 1) * side->pitch + op->width;
    return side->address < address + bytes && address < end;
}

void acre__soft_report_pending(uint64_t address, size_t bytes, uint64_t since, const char *what) {
    for (const struct CUctx_st *ctx = acre__soft.contexts; ctx; ctx = ctx->next)
        for (const struct soft_stream *s = ctx->streams; s; s = s->next)
            for (const struct soft_op *op = s->head; op; op = op->next)
                if ((op->kind == SOFT_COPY || op->kind == SOFT_FILL) && op->serial > since &&
                    (side_overlaps(&op->to, op, address, bytes) ||
                     side_overlaps(&op->from, op, address, bytes))) {
                    acre__soft_report("0x%llx (%zu bytes) is %s while stream %llu step %llu, still "
                                      "queued, uses it",
                                      (unsigned long long)address, bytes, what,
                                      (unsigned long long)s->id, (unsigned long long)op->step);
                    return;
                }
}
