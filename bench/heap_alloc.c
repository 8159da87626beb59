/* Each of many threads allocates a block, and a second kernel frees them: acre's heap, the same
 * kernel without an allocator, a bump pointer that cannot free, and CUDA's own malloc unless it
 * takes minutes.
 *
 * Cold is the first use of a heap that was created large enough; for the floor, the first use of
 * newly mapped memory. Warm are all later uses. The timed kernel allocates, stores the address and
 * writes one word to the block. Contents are checked between the timed kernels. */
#include <string.h>

#include "chart.h"
#include "cli.h"
#include "heap_bench.h"

enum {
    HEAP_COLD_ROUNDS = 3,
    HEAP_WARM_ROUNDS = 11,
    HEAP_QUICK_ROUNDS = 3,
    HEAP_SIZES = 7,
    HEAP_LOG2S = 6,
    HEAP_STEPS = 2 /* alloc, free */
};

static const enum heap_party heap_parties[] = {HEAP_ACRE, HEAP_FLOOR, HEAP_BUMP};
enum { HEAP_ALLOC_PARTIES = sizeof heap_parties / sizeof heap_parties[0] };

/* One size and one number of threads. */
struct cell {
    uint32_t bytes; /* 0: mixed */
    unsigned log2;  /* of the threads */
    uint64_t threads, heap_bytes, plane_bytes;
    acre_heap *heap;
    void *plane, *at;
    struct heap_job jobs[HEAP_PARTIES];
    /* Medians in microseconds, for each step. */
    double cold[HEAP_PARTIES][HEAP_STEPS], warm[HEAP_PARTIES][HEAP_STEPS];
};

static const uint32_t cell_sizes[HEAP_SIZES] = {16, 64, 256, 1024, 4096, 8192, 0};

static const char *cell_name(const struct cell *cell, const char *what,
                             char name[BENCH_NAME_BYTES]) {
    return heap_case_name(what, cell->bytes, cell->log2, name);
}

static void cell_choose(const struct heap_bench *b, struct cell *cell, uint32_t bytes,
                        unsigned log2) {
    uint64_t stride = bytes ? bytes : HEAP_MIXED_MOST;
    memset(cell, 0, sizeof *cell);
    cell->bytes = bytes;
    cell->log2 = log2;
    cell->threads = UINT64_C(1) << log2;
    cell->plane_bytes = cell->threads * stride;
    /* More than the blocks need, since every multiprocessor owns pages of each size. */
    cell->heap_bytes =
        cell->plane_bytes + cell->plane_bytes / 8 + (b->is_soft ? 16 : 256) * HEAP_MIB;
}

/* ---- memory of a round ---- */

static int cell_open(struct heap_bench *b, struct cell *cell) {
    struct heap_job job;
    acre_heap_handle handle;
    bench_blame(b->bench, false);
    cell->heap = heap_make(b, cell->heap_bytes, &handle);
    if (!cell->heap ||
        acre_mem_alloc(b->device, ACRE_KIND_DEVICE, cell->plane_bytes, 0, &cell->plane) ||
        !heap_job_begin(b, &job)) {
        return 0;
    }
    job.at = cell->at;
    job.threads = cell->threads;
    job.bytes = cell->bytes;
    job.stride = cell->bytes ? cell->bytes : HEAP_MIXED_MOST;
    cell->jobs[HEAP_ACRE] = cell->jobs[HEAP_DRIVER] = job;
    cell->jobs[HEAP_ACRE].heap = handle;
    job.plane = cell->plane;
    job.plane_bytes = cell->plane_bytes;
    cell->jobs[HEAP_FLOOR] = cell->jobs[HEAP_BUMP] = job;
    return 1;
}

static int cell_close(struct heap_bench *b, struct cell *cell) {
    return heap_unmake(b, cell->heap) && acre_mem_free(b->device, cell->plane) == ACRE_OK;
}

/* Allocates the array of addresses and touches it, so that it is not part of the cold times. */
static int cell_begin(struct heap_bench *b, struct cell *cell) {
    size_t bytes = cell->threads * sizeof(void *);
    bench_blame(b->bench, false);
    return acre_mem_alloc(b->device, ACRE_KIND_DEVICE, bytes, 0, &cell->at) == ACRE_OK &&
           heap_clear(b, cell->at, bytes);
}

static int cell_end(struct heap_bench *b, struct cell *cell) {
    return acre_mem_free(b->device, cell->at) == ACRE_OK;
}

/* ---- rounds ---- */

/* Allocates a block for each thread and frees them. */
static int cell_turn(struct heap_bench *b, struct cell *cell, enum heap_party party, bool checks,
                     double us[HEAP_STEPS]) {
    const struct heap_job *job = &cell->jobs[party];
    return (party != HEAP_BUMP || heap_clear(b, job->bumped, sizeof *job->bumped)) &&
           heap_time(b, heap_kernel_of(HEAP_K_alloc_acre, party), job, &us[0]) &&
           (!checks || heap_job_check(b, party, job)) &&
           heap_time(b, heap_kernel_of(HEAP_K_free_acre, party), job, &us[1]);
}

static void cell_medians(double times[HEAP_PARTIES][HEAP_STEPS][HEAP_WARM_ROUNDS], unsigned rounds,
                         double us[HEAP_PARTIES][HEAP_STEPS]) {
    for (unsigned i = 0; i < HEAP_PARTIES; i++) {
        for (unsigned k = 0; k < HEAP_STEPS; k++) {
            us[i][k] = bench_median(times[i][k], rounds);
        }
    }
}

/* Measures all parties in turn. Checks the contents of all blocks in the last round. */
static int cell_warm(struct heap_bench *b, struct cell *cell, const enum heap_party *parties,
                     unsigned count) {
    double times[HEAP_PARTIES][HEAP_STEPS][HEAP_WARM_ROUNDS] = {0};
    unsigned rounds = b->is_quick || b->is_soft ? HEAP_QUICK_ROUNDS : HEAP_WARM_ROUNDS;
    for (unsigned round = 0; round < rounds; round++) {
        for (unsigned i = 0; i < count; i++) {
            double us[HEAP_STEPS];
            if (!cell_turn(b, cell, parties[i], round + 1 == rounds, us)) {
                return 0;
            }
            for (unsigned k = 0; k < HEAP_STEPS; k++) {
                times[parties[i]][k][round] = us[k];
            }
        }
    }
    cell_medians(times, rounds, cell->warm);
    return 1;
}

/* Measures cold with new memory in each round, then warm with the memory of the last round. */
static int cell_measure(struct heap_bench *b, struct cell *cell) {
    double times[HEAP_PARTIES][HEAP_STEPS][HEAP_WARM_ROUNDS] = {0};
    unsigned rounds = b->is_quick ? 1 : HEAP_COLD_ROUNDS;
    for (unsigned round = 0; round < rounds; round++) {
        if (!cell_open(b, cell)) {
            return 0;
        }
        for (unsigned i = 0; i < 2; i++) { /* without bump, which shares the floor's memory */
            double us[HEAP_STEPS];
            if (!cell_turn(b, cell, heap_parties[i], true, us)) {
                return 0;
            }
            for (unsigned k = 0; k < HEAP_STEPS; k++) {
                times[heap_parties[i]][k][round] = us[k];
            }
        }
        bool is_last = round + 1 == rounds;
        if ((is_last && !cell_warm(b, cell, heap_parties, HEAP_ALLOC_PARTIES)) ||
            !cell_close(b, cell)) {
            return 0;
        }
    }
    cell_medians(times, rounds, cell->cold);
    return 1;
}

static void cell_report(struct heap_bench *b, const struct cell *cell, bool is_top) {
    static const char *const steps[HEAP_STEPS] = {"alloc", "free"};
    /* The table has only the largest number of threads. */
    void (*say)(struct bench *, const char *, const char *, double, const char *) =
        is_top ? bench_result : bench_detail;
    char name[BENCH_NAME_BYTES], cold[16];
    for (unsigned k = 0; k < HEAP_STEPS; k++) {
        for (unsigned i = 0; i < HEAP_ALLOC_PARTIES; i++) {
            enum heap_party party = heap_parties[i];
            if (k == 0 || party != HEAP_BUMP) {
                say(b->bench, cell_name(cell, steps[k], name), heap_who(party),
                    cell->warm[party][k], "us");
            }
        }
        snprintf(cold, sizeof cold, "%s cold", steps[k]);
        for (unsigned i = 0; i < 2; i++) {
            (k == 0 ? say : bench_detail)(b->bench, cell_name(cell, cold, name),
                                          heap_who(heap_parties[i]), cell->cold[heap_parties[i]][k],
                                          "us");
        }
    }
    say(b->bench, cell_name(cell, "alloc / bump", name), "acre",
        cell->warm[HEAP_ACRE][0] / cell->warm[HEAP_BUMP][0], "times");
    say(b->bench, cell_name(cell, "alloc cold / warm", name), "acre",
        cell->cold[HEAP_ACRE][0] / cell->warm[HEAP_ACRE][0], "times");
}

/* ---- the chart: time over the size of a block, for the largest number of threads ---- */

static void alloc_chart(struct heap_bench *b, const struct cell *cells, size_t count) {
    static const char *const names[] = {"acre", "floor", "bump", "acre cold", "floor cold"};
    static double bytes[HEAP_SIZES], ns[HEAP_STEPS][5][HEAP_SIZES];
    struct chart chart = {.title = "Time to allocate and to free a block per thread, by block size",
                          .x_title = "size of a block",
                          .y_title = "time of the kernel",
                          .panel_count = HEAP_STEPS};
    size_t points = 0;
    for (size_t i = 0; i < count && cells[i].bytes; i++, points++) {
        bytes[points] = cells[i].bytes;
        for (unsigned k = 0; k < HEAP_STEPS; k++) {
            for (unsigned c = 0; c < 5; c++) {
                enum heap_party party = heap_parties[c % HEAP_ALLOC_PARTIES];
                ns[k][c][points] =
                    1e3 * (c < HEAP_ALLOC_PARTIES ? cells[i].warm : cells[i].cold)[party][k];
            }
        }
    }
    for (unsigned k = 0; k < HEAP_STEPS; k++) {
        struct chart_panel *panel = &chart.panels[k];
        panel->title = k == 0 ? "malloc" : "free";
        panel->curve_count = 5;
        for (unsigned c = 0; c < 5; c++) {
            bool is_there = k == 0 || heap_parties[c % HEAP_ALLOC_PARTIES] != HEAP_BUMP;
            panel->curves[c] = (struct chart_curve){.name = names[c],
                                                    .bytes = bytes,
                                                    .ns = ns[k][c],
                                                    .count = is_there ? points : 0,
                                                    .is_dashed = c >= HEAP_ALLOC_PARTIES};
        }
    }
    bench_chart(b->bench, &chart);
}

/* ---- the case ---- */

/* Measures a cell by `measure`, if there is memory for it. Returns 0 on failure. Without memory it
 * succeeds, and *is_measured is false. */
static int cell_run(struct heap_bench *b, struct cell *cell, const char *what,
                    int (*measure)(struct heap_bench *, struct cell *), bool *is_measured) {
    char name[BENCH_NAME_BYTES];
    b->doing = cell_name(cell, what, name);
    *is_measured = heap_has_room(b, name, cell->heap_bytes,
                                 cell->plane_bytes + cell->threads * sizeof(void *));
    return !*is_measured || (cell_begin(b, cell) && measure(b, cell) && cell_end(b, cell));
}

/* Chooses the numbers of threads, as powers of two, ascending. */
static unsigned alloc_log2s(const struct heap_bench *b, unsigned log2s[HEAP_LOG2S]) {
    unsigned count = 0, most = b->is_soft ? 10 : b->is_quick ? 16 : 20;
    unsigned least = b->is_soft ? 8 : 10, step = b->is_soft || !b->is_quick ? 2 : 6;
    most = b->is_soft && b->is_quick ? least : most;
    for (unsigned log2 = least; log2 <= most && count < HEAP_LOG2S; log2 += step) {
        log2s[count++] = log2;
    }
    return count;
}

int heap_alloc_cases(struct heap_bench *b) {
    static struct cell tops[HEAP_SIZES];
    unsigned log2s[HEAP_LOG2S], count = alloc_log2s(b, log2s), drawn = 0;
    for (unsigned s = 0; s < HEAP_SIZES; s++) {
        for (unsigned i = 0; i < count; i++) {
            struct cell *cell = &tops[drawn];
            bool is_measured;
            cell_choose(b, cell, cell_sizes[s], log2s[i]);
            if (!cell_run(b, cell, "alloc", cell_measure, &is_measured)) {
                return 0;
            }
            if (is_measured) {
                cell_report(b, cell, i + 1 == count);
                drawn += i + 1 == count;
            }
        }
    }
    alloc_chart(b, tops, drawn);
    return 1;
}

/* ---- large blocks ---- */

/* 33 KiB is more than the largest size class. */
static const uint32_t large_sizes[] = {16 << 10, 33 << 10, 64 << 10, 256 << 10,
                                       1 << 20,  4 << 20,  64 << 20};

/* The number of threads, as a power of two: fewer for larger blocks. */
static unsigned large_log2(const struct heap_bench *b, uint32_t bytes) {
    unsigned log2 = b->is_soft ? 8 : b->is_quick ? 10 : 14;
    uint64_t most = (b->is_soft ? 16 : b->is_quick ? 1024 : 8192) * (uint64_t)HEAP_MIB;
    while (log2 > 0 && (uint64_t)bytes << log2 > most) {
        log2--;
    }
    return log2;
}

int heap_large_cases(struct heap_bench *b) {
    for (unsigned s = 0; s < sizeof large_sizes / sizeof large_sizes[0]; s++) {
        struct cell cell;
        bool is_measured;
        cell_choose(b, &cell, large_sizes[s], large_log2(b, large_sizes[s]));
        cell.heap_bytes += cell.plane_bytes; /* blocks may take twice as much as was requested */
        if (!cell_run(b, &cell, "alloc", cell_measure, &is_measured)) {
            return 0;
        }
        if (is_measured) {
            cell_report(b, &cell, true);
        }
    }
    return 1;
}

/* ---- scattered frees ---- */

/* Measures the frees of a turn in which each thread frees the block of another. */
static int scatter_measure(struct heap_bench *b, struct cell *cell) {
    char name[BENCH_NAME_BYTES];
    if (!cell_open(b, cell)) {
        return 0;
    }
    for (unsigned i = 0; i < HEAP_ALLOC_PARTIES; i++) {
        cell->jobs[heap_parties[i]].is_scattered = 1;
    }
    if (!cell_warm(b, cell, heap_parties, 2) || !cell_close(b, cell)) {
        return 0;
    }
    cell_name(cell, "free scattered", name);
    bench_result(b->bench, name, "acre", cell->warm[HEAP_ACRE][1], "us");
    bench_result(b->bench, name, "floor", cell->warm[HEAP_FLOOR][1], "us");
    return 1;
}

int heap_scatter_cases(struct heap_bench *b) {
    unsigned log2s[HEAP_LOG2S], count = alloc_log2s(b, log2s);
    for (unsigned s = 0; s < HEAP_SIZES; s++) {
        struct cell cell;
        bool is_measured;
        cell_choose(b, &cell, cell_sizes[s], log2s[count - 1]);
        if (!cell_run(b, &cell, "free scattered", scatter_measure, &is_measured)) {
            return 0;
        }
    }
    return 1;
}

/* ---- against CUDA's own malloc ---- */

enum {
    DRIVER_LOG2 = 14,     /* of the threads: some sizes take seconds for a megabyte of blocks */
    DRIVER_TOP_LOG2 = 20, /* for 64 bytes only */
    DRIVER_LIMIT_S = 10   /* no further size starts after this time */
};

/* Measures one turn of CUDA's malloc without repetition, since it takes up to a second. */
static int driver_measure(struct heap_bench *b, struct cell *cell) {
    static const enum heap_party acre_alone[] = {HEAP_ACRE};
    static const char *const steps[HEAP_STEPS] = {"driver alloc", "driver free"};
    double us[HEAP_STEPS];
    char name[BENCH_NAME_BYTES];
    if (!cell_open(b, cell) || !cell_warm(b, cell, acre_alone, 1) ||
        !cell_turn(b, cell, HEAP_DRIVER, true, us) || !cell_close(b, cell)) {
        return 0;
    }
    for (unsigned k = 0; k < HEAP_STEPS; k++) {
        cell_name(cell, steps[k], name);
        bench_result(b->bench, name, "acre", cell->warm[HEAP_ACRE][k], "us");
        bench_result(b->bench, name, "driver", us[k], "us");
    }
    return 1;
}

int heap_driver_cases(struct heap_bench *b) {
    uint64_t begin = cli_now_ns();
    b->doing = "driver";
    if (!heap_open_driver(b)) {
        return 0;
    }
    for (unsigned s = 0; b->has_driver && s <= HEAP_SIZES;
         s++) { /* the case with most threads first */
        struct cell cell;
        char name[BENCH_NAME_BYTES];
        bool is_top = s == 0 && !b->is_quick;
        if (s == 0 && !is_top) {
            continue;
        }
        cell_choose(b, &cell, is_top ? 64 : cell_sizes[s - 1],
                    is_top ? DRIVER_TOP_LOG2 : DRIVER_LOG2);
        b->doing = cell_name(&cell, "driver alloc", name);
        if (cli_now_ns() - begin > UINT64_C(1000000000) * DRIVER_LIMIT_S) {
            cli_say("suite heap: %s skipped: CUDA's malloc has used its limit of %d s", name,
                    DRIVER_LIMIT_S);
            continue;
        }
        if (!cell_begin(b, &cell) || !driver_measure(b, &cell) || !cell_end(b, &cell)) {
            return 0;
        }
    }
    return 1;
}
