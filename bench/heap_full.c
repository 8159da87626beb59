/* How much of its memory a heap can use: it is filled, emptied and filled again (fill); one block
 * in sixteen is kept, round by round, until the heap is full (rounds); the heap grows while a
 * kernel runs (grow).
 *
 * A share is relative to the heap's memory without its records. */
#include <string.h>

#include "cli.h"
#include "heap_bench.h"

enum {
    FULL_LOG2 = 16,      /* of the threads */
    FULL_NULL_LOG2 = 20, /* of the threads that find the heap full, at most */
    FULL_SOFT_LOG2 = 8,
    ROUND_SOFT_LOG2 = 10,
    ROUND_QUEUED = 64 /* rounds between two reads of the counts */
};

static unsigned full_log2(const struct heap_bench *b) {
    return b->is_soft ? FULL_SOFT_LOG2 : FULL_LOG2;
}

static uint64_t full_bytes(const struct heap_bench *b) {
    uint64_t mib = b->is_soft ? 8 : 2048;
    return (b->is_quick ? mib / 2 : mib) * HEAP_MIB;
}

/* A soft device needs seconds for the number of small blocks in a heap: quick runs skip them. */
static bool full_is_too_many(const struct heap_bench *b, uint32_t bytes) {
    return b->is_soft && b->is_quick && bytes == 64;
}

/* The memory of one case: the heap, the plane of the other parties, and an array of addresses. */
struct full {
    uint64_t bytes; /* of the heap, and of the plane */
    acre_heap *heap;
    acre_heap_handle handle;
    void *plane, *at;
};

static int full_open(struct heap_bench *b, struct full *full, uint64_t bytes, uint64_t places) {
    *full = (struct full){.bytes = bytes};
    bench_blame(b->bench, false);
    full->heap = heap_make(b, bytes, &full->handle);
    return full->heap &&
           acre_mem_alloc(b->device, ACRE_KIND_DEVICE, bytes, 0, &full->plane) == ACRE_OK &&
           acre_mem_alloc(b->device, ACRE_KIND_DEVICE, places * sizeof(void *), 0, &full->at) ==
               ACRE_OK;
}

static int full_close(struct heap_bench *b, struct full *full) {
    return heap_unmake(b, full->heap) && acre_mem_free(b->device, full->plane) == ACRE_OK &&
           acre_mem_free(b->device, full->at) == ACRE_OK;
}

static int full_job(struct heap_bench *b, const struct full *full, enum heap_party party,
                    struct heap_job *job) {
    if (!heap_job_begin(b, job)) {
        return 0;
    }
    job->at = full->at;
    if (party == HEAP_ACRE) {
        job->heap = full->handle;
    } else if (party != HEAP_DRIVER) {
        job->plane = full->plane;
        job->plane_bytes = full->bytes;
    }
    return 1;
}

/* ---- fill, free all, fill again ---- */

static const char *const fill_names[2] = {"fill", "fill again"};

/* Computes the live share from the heap's own statistics. */
static int fill_share(struct heap_bench *b, const struct full *full, uint64_t taken,
                      double *share) {
    acre_heap_stats stats = {.struct_size = sizeof stats};
    if (acre_heap_get_stats(full->heap, &stats)) {
        return 0;
    }
    if (stats.live_blocks != taken) {
        bench_finding(b->bench, "suite heap: %s: %llu blocks were allocated, but %llu are live",
                      b->doing, (unsigned long long)taken, (unsigned long long)stats.live_blocks);
    }
    *share = (double)stats.live_bytes / (double)stats.mapped_bytes;
    return 1;
}

/* Measures how long many threads take to get NULL from a full heap, and the longest single call. */
static int fill_null(struct heap_bench *b, const struct full *full, uint32_t bytes, unsigned log2) {
    char name[BENCH_NAME_BYTES];
    uint64_t threads = UINT64_C(1) << log2;
    struct heap_job job;
    struct full other = *full;
    uint64_t counts[HEAP_COUNTS];
    double us;
    if (acre_mem_alloc(b->device, ACRE_KIND_DEVICE, threads * sizeof(void *), 0, &other.at) ||
        !full_job(b, &other, HEAP_ACRE, &job)) {
        return 0;
    }
    job.threads = threads;
    job.bytes = bytes ? bytes : HEAP_MIXED_MOST;
    if (!heap_time(b, HEAP_K_null, &job, &us) ||
        /* A few threads may have got the last blocks. */
        !heap_launch(b, HEAP_K_free_acre, &job) || !heap_job_counts(b, counts)) {
        return 0;
    }
    bench_result(b->bench, heap_case_name("NULL when full", bytes, log2, name), "acre", us / 1e3,
                 "ms");
    heap_case_name("longest NULL", bytes, log2, name);
    if (counts[HEAP_LONGEST]) {
        bench_result(b->bench, name, "acre", (double)counts[HEAP_LONGEST] / 1e6, "ms");
    } else {
        bench_finding(b->bench, "suite heap: %s: every thread got memory from a full heap", name);
    }
    return acre_mem_free(b->device, other.at) == ACRE_OK;
}

/* Measures with as many threads as have filled the heap, and with as many as in the other cases. */
static int fill_nulls(struct heap_bench *b, const struct full *full, uint32_t bytes) {
    return fill_null(b, full, bytes, full_log2(b)) &&
           (b->is_soft || fill_null(b, full, bytes, FULL_NULL_LOG2));
}

/* Fills and empties the heap twice, for one party. */
static int fill_party(struct heap_bench *b, const struct full *full, enum heap_party party,
                      struct heap_job *job) {
    char name[BENCH_NAME_BYTES], what[32];
    uint64_t counts[HEAP_COUNTS];
    for (unsigned i = 0; i < 2; i++) {
        double fill_us, drain_us, share = 0;
        if (!heap_clear(b, job->counts, sizeof counts) ||
            !heap_time(b, heap_kernel_of(HEAP_K_fill_acre, party), job, &fill_us) ||
            !heap_job_counts(b, counts)) {
            return 0;
        }
        uint64_t taken = counts[HEAP_TAKEN];
        share = (double)taken * job->bytes / (double)full->bytes;
        if (party == HEAP_ACRE &&
            (!fill_share(b, full, taken, &share) || (i == 1 && !fill_nulls(b, full, job->bytes)))) {
            return 0;
        }
        if (!heap_time(b, heap_kernel_of(HEAP_K_drain_acre, party), job, &drain_us) ||
            !heap_job_counts(b, counts)) {
            return 0;
        }
        heap_job_judge(b, party, counts, true);
        heap_case_name(fill_names[i], job->bytes, 0, name);
        if (taken) {
            bench_result(b->bench, name, heap_who(party), fill_us / 1e3, "ms");
            snprintf(what, sizeof what, "free all after %s", fill_names[i]);
            if (party != HEAP_BUMP) {
                (i == 0 ? bench_result : bench_detail)(b->bench,
                                                       heap_case_name(what, job->bytes, 0, name),
                                                       heap_who(party), drain_us / 1e3, "ms");
            }
        }
        if (party != HEAP_FLOOR) {
            snprintf(what, sizeof what, "%s share", fill_names[i]);
            bench_result(b->bench, heap_case_name(what, job->bytes, 0, name), heap_who(party),
                         share, "share");
        }
    }
    return 1;
}

static int fill_size(struct heap_bench *b, uint32_t bytes) {
    static const enum heap_party parties[] = {HEAP_ACRE, HEAP_FLOOR, HEAP_BUMP};
    char name[BENCH_NAME_BYTES];
    struct full full;
    uint64_t threads = UINT64_C(1) << full_log2(b), heap = full_bytes(b);
    uint64_t each = heap / (bytes ? bytes : HEAP_MIXED_LEAST) / threads;
    b->doing = heap_case_name("fill", bytes, 0, name);
    if (!heap_has_room(b, name, heap, heap + 2 * threads * sizeof(void *))) {
        return 1;
    }
    if (!full_open(b, &full, heap, 2 * threads)) {
        return 0;
    }
    for (unsigned i = 0; i < sizeof parties / sizeof parties[0]; i++) {
        struct heap_job job;
        if (!bytes && parties[i] != HEAP_ACRE) {
            continue; /* for mixed sizes only the heap knows how much fits */
        }
        if (!full_job(b, &full, parties[i], &job)) {
            return 0;
        }
        job.threads = threads;
        job.bytes = bytes;
        job.stride = bytes;
        /* With an allocator, some threads get more blocks than others. */
        job.rounds = (uint32_t)(parties[i] == HEAP_FLOOR ? each : 8 * each + 8);
        if (!fill_party(b, &full, parties[i], &job)) {
            return 0;
        }
    }
    return full_close(b, &full);
}

/* Fills CUDA's heap with few large blocks: small ones would take a minute. */
static int fill_driver(struct heap_bench *b) {
    enum { DRIVER_THREADS = 4096, DRIVER_BYTES = 8192 };
    char name[BENCH_NAME_BYTES];
    struct full full = {.bytes = HEAP_DRIVER_BYTES};
    struct heap_job job;
    b->doing = heap_case_name("fill", DRIVER_BYTES, 0, name);
    if (acre_mem_alloc(b->device, ACRE_KIND_DEVICE, 2 * DRIVER_THREADS * sizeof(void *), 0,
                       &full.at) ||
        !full_job(b, &full, HEAP_DRIVER, &job)) {
        return 0;
    }
    job.threads = DRIVER_THREADS;
    job.bytes = DRIVER_BYTES;
    job.rounds = (uint32_t)(2 * HEAP_DRIVER_BYTES / DRIVER_BYTES / DRIVER_THREADS);
    return fill_party(b, &full, HEAP_DRIVER, &job) && acre_mem_free(b->device, full.at) == ACRE_OK;
}

int heap_fill_cases(struct heap_bench *b) {
    static const uint32_t sizes[] = {64, 1024, 8192, 0};
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (!full_is_too_many(b, sizes[i]) && !fill_size(b, sizes[i])) {
            return 0;
        }
    }
    b->doing = "fill";
    return heap_open_driver(b) && (!b->has_driver || b->is_quick || fill_driver(b));
}

/* ---- rounds ---- */

/* Runs rounds until a thread gets NULL, or until `most`, which even a heap without any waste cannot
 * reach. */
static int rounds_run(struct heap_bench *b, enum heap_party party, struct heap_job *job,
                      uint64_t most, uint64_t counts[HEAP_COUNTS]) {
    bool is_acre = party == HEAP_ACRE;
    enum heap_kernel take = is_acre ? HEAP_K_round_take_acre : HEAP_K_round_take_bump;
    enum heap_kernel give = is_acre ? HEAP_K_round_give_acre : HEAP_K_round_give_bump;
    counts[HEAP_END] = 0;
    for (job->round = 0; job->round < most && !counts[HEAP_END]; job->round++) {
        if (!heap_launch(b, take, job) || !heap_launch(b, give, job)) {
            return 0;
        }
        if ((job->round + 1) % ROUND_QUEUED == 0 && !heap_job_counts(b, counts)) {
            return 0;
        }
    }
    return heap_job_counts(b, counts);
}

/* Checks and frees all live blocks. */
static int rounds_end(struct heap_bench *b, struct heap_job *job,
                      const uint64_t before[HEAP_COUNTS]) {
    uint64_t counts[HEAP_COUNTS];
    if (before[HEAP_END] && !heap_launch(b, HEAP_K_free_acre, job)) {
        return 0;
    }
    job->threads = before[HEAP_KEPT];
    if (!heap_launch(b, HEAP_K_round_end_acre, job) || !heap_job_counts(b, counts)) {
        return 0;
    }
    heap_job_judge(b, HEAP_ACRE, counts, true);
    return 1;
}

static int rounds_size(struct heap_bench *b, uint32_t bytes, uint64_t heap) {
    static const enum heap_party parties[] = {HEAP_ACRE, HEAP_BUMP};
    unsigned log2 = b->is_soft ? ROUND_SOFT_LOG2 : FULL_LOG2;
    uint64_t threads = UINT64_C(1) << log2, blocks = heap / bytes;
    char name[BENCH_NAME_BYTES];
    struct full full;
    b->doing = heap_case_name("rounds", bytes, 0, name);
    if (!heap_has_room(b, name, heap, heap + (2 * threads + blocks) * sizeof(void *))) {
        return 1;
    }
    if (!full_open(b, &full, heap, 2 * threads + blocks)) {
        return 0;
    }
    for (unsigned i = 0; i < 2; i++) {
        struct heap_job job;
        uint64_t counts[HEAP_COUNTS];
        if (!full_job(b, &full, parties[i], &job)) {
            return 0;
        }
        job.kept = (void **)full.at + threads;
        job.threads = threads;
        job.bytes = bytes;
        uint64_t begin = cli_now_ns();
        if (!rounds_run(b, parties[i], &job, 20 * blocks / threads, counts)) {
            return 0;
        }
        double rounds = (double)(counts[HEAP_END] ? counts[HEAP_END] : job.round);
        double us = (double)(cli_now_ns() - begin) / 1e3 / rounds;
        if (!counts[HEAP_END]) {
            bench_finding(b->bench, "suite heap: %s, %s: the heap never became full", name,
                          heap_who(parties[i]));
        }
        if (parties[i] == HEAP_ACRE && !rounds_end(b, &job, counts)) {
            return 0;
        }
        double live = (double)(counts[HEAP_TAKEN] - counts[HEAP_GIVEN]) * bytes;
        bench_result(b->bench, heap_case_name("rounds live share", bytes, 0, name),
                     heap_who(parties[i]), live / (double)heap, "share");
        bench_detail(b->bench, heap_case_name("rounds", bytes, 0, name), heap_who(parties[i]), us,
                     "us");
    }
    return full_close(b, &full);
}

int heap_round_cases(struct heap_bench *b) {
    uint64_t heap = full_bytes(b);
    return (full_is_too_many(b, 64) || rounds_size(b, 64, b->is_soft ? 2 * HEAP_MIB : heap)) &&
           rounds_size(b, 1024, heap);
}

/* ---- growing while a kernel runs ---- */

enum { GROW_BYTES = 1024 };

/* All threads together allocate `bytes`. *had gets the bytes that they got, *us the time. */
static int grow_fill(struct heap_bench *b, const struct full *full, enum heap_party party,
                     uint64_t bytes, uint64_t *had, double *us) {
    struct heap_job job;
    uint64_t counts[HEAP_COUNTS];
    if (!full_job(b, full, party, &job)) {
        return 0;
    }
    job.threads = UINT64_C(1) << full_log2(b);
    job.bytes = GROW_BYTES;
    job.stride = GROW_BYTES;
    job.rounds = (uint32_t)(bytes / GROW_BYTES / job.threads);
    if (!heap_time(b, heap_kernel_of(HEAP_K_fill_acre, party), &job, us) ||
        !heap_launch(b, heap_kernel_of(HEAP_K_drain_acre, party), &job) ||
        !heap_job_counts(b, counts)) {
        return 0;
    }
    heap_job_judge(b, party, counts, false);
    *had = counts[HEAP_TAKEN] * GROW_BYTES;
    return 1;
}

static void grow_report(struct heap_bench *b, const char *name, const char *who, uint64_t bytes,
                        double us) {
    bench_result(b->bench, name, who, us / 1e3, "ms");
    bench_result(b->bench, name, who, (double)bytes / 1e3 / us, "GB/s");
}

/* A heap of `from` bytes that grows to `to` while a kernel allocates, at least by `step`. */
struct grow_case {
    uint64_t from, to, step;
    uint64_t mapped; /* at the end */
    char name[BENCH_NAME_BYTES];
};

/* Fills a heap that has to grow, and reports the time and the growths. *us gets the time. */
static int grow_small(struct heap_bench *b, struct grow_case *c, const struct full *full,
                      double *us, double *growths) {
    acre_heap_options options = {.struct_size = sizeof options,
                                 .initial_bytes = c->from,
                                 .limit_bytes = 2 * c->to,
                                 .step_bytes = c->step};
    acre_heap_stats before = {.struct_size = sizeof before}, after = before;
    struct full growing = *full;
    acre_heap *small = NULL;
    uint64_t had;
    if (acre_heap_create(b->device, &options, &small) ||
        acre_heap_get_handle(small, &growing.handle) || acre_heap_get_stats(small, &before) ||
        !grow_fill(b, &growing, HEAP_ACRE, c->to, &had, us) || acre_heap_get_stats(small, &after)) {
        return 0;
    }
    *growths = (double)(after.grows - before.grows);
    c->mapped = after.mapped_bytes;
    grow_report(b, c->name, "acre", had, *us);
    bench_result(b->bench, c->name, "acre", *growths, "growths");
    bench_result(b->bench, c->name, "acre", (double)had / (double)after.mapped_bytes, "share");
    return heap_unmake(b, small);
}

/* What a growth adds to a kernel's time, beside a growth by the host while no kernel runs. */
static int grow_step(struct heap_bench *b, const struct grow_case *c, double us, double growths) {
    acre_heap_options options = {
        .struct_size = sizeof options, .initial_bytes = c->from, .limit_bytes = 2 * c->to};
    acre_heap *idle = NULL;
    char name[BENCH_NAME_BYTES];
    bench_case_name("grow, each step to", c->to, name);
    if (growths < 1 || acre_heap_create(b->device, &options, &idle)) {
        return growths < 1;
    }
    uint64_t each = (c->mapped - c->from) / (uint64_t)growths, begin = cli_now_ns();
    if (acre_heap_grow(idle, c->from + each)) {
        return 0;
    }
    double idle_us = (double)(cli_now_ns() - begin) / 1e3;
    bench_result(b->bench, name, "acre", us / growths / 1e3, "ms");
    bench_result(b->bench, name, "idle heap", idle_us / 1e3, "ms");
    return heap_unmake(b, idle);
}

static int grow_one(struct heap_bench *b, struct grow_case *c) {
    struct full full;
    uint64_t had;
    double us, us_large, growths;
    b->doing = c->name;
    if (!heap_has_room(b, c->name, 3 * c->to, 2 * c->to)) {
        return 1;
    }
    if (!full_open(b, &full, c->to + c->to / 4, UINT64_C(2) << full_log2(b)) ||
        !grow_small(b, c, &full, &us, &growths) ||
        !grow_fill(b, &full, HEAP_ACRE, c->to, &had, &us_large)) {
        return 0;
    }
    grow_report(b, c->name, "acre made large", had, us_large);
    /* On a soft device the kernel itself takes much longer. */
    if ((!b->is_soft && !grow_step(b, c, us - us_large, growths)) ||
        !grow_fill(b, &full, HEAP_FLOOR, c->to, &had, &us)) {
        return 0;
    }
    grow_report(b, c->name, "floor", had, us);
    return full_close(b, &full);
}

int heap_grow_cases(struct heap_bench *b) {
    struct grow_case c = {.from = 8 * HEAP_MIB,
                          .to = (b->is_soft    ? 16
                                 : b->is_quick ? 128
                                               : 1024) *
                                HEAP_MIB};
    bench_case_name("grow 8MiB to", c.to, c.name);
    int is_done = grow_one(b, &c);
    if (!is_done || b->is_soft) { /* steps of hundreds of MiB are for GPUs */
        return is_done;
    }
    c = (struct grow_case){.from = c.to / 2, .to = 2 * c.to, .step = c.to / 2};
    bench_case_name("grow by quarters to", c.to, c.name);
    return grow_one(b, &c);
}
