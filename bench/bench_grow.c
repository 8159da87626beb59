/* An array that grows: acre's vec against what programs do without it. The floor is the driver's
 * bare calls.
 *
 *   doubling, steps  each growth from one size to the next, and their sum; the bytes copied, as the
 *                    driver table counts them, and how often the address changed
 *   grow ahead       one small growth, while a thread maps memory ahead
 *   fill             the share of free memory that one array can have
 *   append           many small appends, against the same copies into an existing block
 *   busy             the longest call while another stream is kept busy for 50 ms
 *
 * Each round gives every way its turn. acre starts each turn without cached chunks, as the bare
 * calls do. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "chart.h"
#include "cli.h"
#include "grow.h"

#define GROW_MIB (UINT64_C(1) << 20)

enum { GROW_SIZES = 72, GROW_ROUNDS = 5, GROW_BUSY_MS = 50 };

/* The sizes that an array grows through, and the times of each way. */
struct course {
    const char *name;
    uint64_t sizes[GROW_SIZES];
    size_t count;
    size_t reach[GROW_WAYS]; /* number of sizes that the way grows through; 0: not supported */
    double ns[GROW_WAYS][GROW_SIZES];
    double total_ns[GROW_WAYS];
    uint64_t copied[GROW_WAYS], moves[GROW_WAYS];
};

static unsigned grow_rounds(const struct grow *grow) {
    return bench_is_quick(grow->bench) ? 1 : GROW_ROUNDS;
}

static void grow_pause(uint64_t ns) {
    struct timespec pause = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    nanosleep(&pause, NULL);
}

/* ---- doubling and steps ---- */

/* Grows one array through all sizes and measures each growth. */
static int course_run(struct grow *grow, struct course *course, enum grow_way way,
                      double ns[GROW_SIZES]) {
    uint64_t before = acre__driver_copied_bytes(grow->drv);
    size_t reach = course->reach[way];
    if (!grow_begin(grow, way, course->sizes[reach - 1])) {
        return 0;
    }
    for (size_t i = 0; i < reach; i++) {
        if (!grow_to(grow, course->sizes[i], &ns[i])) {
            return 0;
        }
    }
    course->copied[way] = acre__driver_copied_bytes(grow->drv) - before;
    course->moves[way] = grow->moves;
    return grow_end(grow);
}

static int course_measure(struct grow *grow, struct course *course) {
    static double times[GROW_WAYS][GROW_SIZES][GROW_ROUNDS], totals[GROW_WAYS][GROW_ROUNDS];
    unsigned rounds = grow_rounds(grow);
    /* The first calls of a GPU's driver load code and start threads. */
    unsigned warm = grow->drv->is_soft || bench_is_quick(grow->bench) ? 0 : 1;
    for (unsigned round = 0; round < rounds + warm; round++) {
        unsigned at = round < warm ? 0 : round - warm; /* round 1 overwrites the warm-up round */
        for (unsigned turn = 0; turn < GROW_WAYS; turn++) {
            unsigned way =
                (turn + 3 * round) % GROW_WAYS; /* varies the order, which affects the times */
            double ns[GROW_SIZES];
            if (course->reach[way] == 0) {
                continue;
            }
            if (!course_run(grow, course, (enum grow_way)way, ns)) {
                return 0;
            }
            totals[way][at] = 0;
            for (size_t i = 0; i < course->reach[way]; i++) {
                times[way][i][at] = ns[i];
                totals[way][at] += ns[i];
            }
        }
    }
    for (int way = 0; way < GROW_WAYS; way++) {
        for (size_t i = 0; i < course->reach[way]; i++) {
            course->ns[way][i] = bench_median(times[way][i], rounds);
        }
        course->total_ns[way] = bench_median(totals[way], rounds);
    }
    return 1;
}

/* Writes a name such as "steps to 64MiB". */
static const char *course_case(const struct course *course, const char *what, size_t reach,
                               char name[BENCH_NAME_BYTES]) {
    char start[BENCH_NAME_BYTES];
    snprintf(start, sizeof start, "%s%s to", course->name, what);
    return bench_case_name(start, course->sizes[reach - 1], name);
}

/* Reports the total time to grow through `reach` sizes, for all ways that reach them. */
static void course_total(struct bench *bench, const struct course *course, size_t reach) {
    char name[BENCH_NAME_BYTES];
    course_case(course, "", reach, name);
    for (int way = 0; way < GROW_WAYS; way++) {
        double sum = 0;
        for (size_t i = 0; i < reach && reach <= course->reach[way]; i++) {
            sum += course->ns[way][i];
        }
        if (sum > 0) {
            bool is_whole = reach == course->reach[way];
            bench_result(bench, name, grow_who((enum grow_way)way),
                         (is_whole ? course->total_ns[way] : sum) / 1e6, "ms");
        }
    }
}

static void course_counts(struct bench *bench, const struct course *course, const char *what,
                          const uint64_t counts[GROW_WAYS], const char *unit) {
    char name[BENCH_NAME_BYTES];
    for (int way = 0; way < GROW_WAYS; way++) {
        if (course->reach[way]) {
            course_case(course, what, course->reach[way], name);
            bench_result(bench, name, grow_who((enum grow_way)way), (double)counts[way], unit);
        }
    }
}

static void course_report(struct bench *bench, const struct course *course) {
    char name[BENCH_NAME_BYTES];
    size_t managed = course->reach[GROW_MANAGED];
    for (size_t i = 0; i < course->count; i++) {
        course_case(course, " growth", i + 1, name);
        for (int way = 0; way < GROW_WAYS; way++) {
            if (i < course->reach[way]) {
                bench_detail(bench, name, grow_who((enum grow_way)way), course->ns[way][i] / 1e3,
                             "us");
            }
        }
    }
    if (managed && managed < course->count) {
        course_total(bench, course, managed);
    }
    course_total(bench, course, course->count);
    course_counts(bench, course, " copied", course->copied, "bytes");
    course_counts(bench, course, " moved", course->moves, "moves");
}

/* Determines which ways are supported and how many sizes each grows through. */
static void course_reach(const struct grow *grow, struct course *course) {
    for (int way = 0; way < GROW_WAYS; way++) {
        uint64_t most = grow_reach(grow, (enum grow_way)way, course->sizes[course->count - 1]);
        while (!grow_lacks(grow, (enum grow_way)way) && course->reach[way] < course->count &&
               course->sizes[course->reach[way]] <= most) {
            course->reach[way]++;
        }
    }
}

static void course_doubling(const struct grow *grow, uint64_t top, struct course *course) {
    course->name = "doubling";
    for (uint64_t bytes = grow->unit; bytes <= top && course->count < GROW_SIZES; bytes *= 2) {
        course->sizes[course->count++] = bytes;
    }
    course_reach(grow, course);
}

/* Chooses 64 steps up to half of what doubling reaches, 256 MiB each on a large device. There are
 * fewer if the smallest chunk is larger than a step, and on a soft device, where copies use the
 * host. */
static void course_steps(const struct grow *grow, uint64_t top, struct course *course) {
    uint64_t most = top / (grow->drv->is_soft ? 4 : 2), step = most / 64;
    most = most < 4 * grow->unit ? 4 * grow->unit : most;
    most = most < top ? most : top;
    step = step < grow->unit ? grow->unit : step / grow->unit * grow->unit;
    course->name = "steps";
    for (uint64_t bytes = step; bytes <= most && course->count < GROW_SIZES; bytes += step) {
        course->sizes[course->count++] = bytes;
    }
    course_reach(grow, course);
}

/* ---- one growth, mapped ahead ---- */

enum { GROW_SMALL = 256 };

/* Measures growths by one unit, with pauses in which a program would work. */
static int small_median(struct grow *grow, enum grow_way way, unsigned count, double *median) {
    double ns[GROW_SMALL];
    if (!grow_begin(grow, way, (count + 1) * grow->unit) || !grow_to(grow, grow->unit, &ns[0])) {
        return 0;
    }
    grow_pause(20000000); /* lets the thread start */
    for (unsigned i = 0; i < count; i++) {
        if (!grow_to(grow, grow->bytes + grow->unit, &ns[i])) {
            return 0;
        }
        grow_pause(100000);
    }
    *median = bench_median(ns, count);
    return grow_end(grow);
}

static int grow_small(struct grow *grow) {
    static const enum grow_way ways[] = {GROW_AHEAD, GROW_ACRE, GROW_FLOOR};
    static const char *const who[] = {"acre", "acre no ahead", "floor"};
    char name[BENCH_NAME_BYTES], text[BENCH_NAME_BYTES + 16];
    uint64_t room = grow->info.free_bytes / 8 / grow->unit;
    unsigned count = bench_is_quick(grow->bench) ? 16 : GROW_SMALL;
    count = room < count ? (unsigned)room : count;
    bench_case_name("grow", grow->unit, name);
    snprintf(text, sizeof text, "%s with grow-ahead", name);
    for (size_t i = 0; count && i < sizeof ways / sizeof ways[0]; i++) {
        double median = 0;
        if (grow_lacks(grow, ways[i])) {
            continue;
        }
        if (!small_median(grow, ways[i], count, &median)) {
            return 0;
        }
        bench_result(grow->bench, text, who[i], median / 1e3, "us");
    }
    return 1;
}

/* ---- fill ---- */

/* Grows in large steps, then in smaller ones, until even one unit fails. The array has no contents,
 * so the copying way skips its copy: its limit is that old and new block must both fit. */
static int fill_to(struct grow *grow, uint64_t *bytes) {
    uint64_t step = grow->unit;
    while (step <= grow->info.free_bytes / 128) {
        step *= 2;
    }
    *bytes = 0;
    while (step >= grow->unit) {
        CUdeviceptr larger = 0;
        double ns;
        if (grow->way == GROW_MALLOC) {
            if (grow->drv->cuMemAlloc(&larger, *bytes + step) == CUDA_SUCCESS) {
                if (grow->at && grow->drv->cuMemFree(grow->at) != CUDA_SUCCESS) {
                    return 0;
                }
                grow->at = larger;
            }
        } else if (grow_to(grow, *bytes + step, &ns)) {
            larger = (CUdeviceptr)(uintptr_t)acre_vec_data(grow->vec);
        }
        if (larger) {
            *bytes += step;
        } else {
            step /= 2;
        }
    }
    return *bytes > 0;
}

static int grow_fill(struct grow *grow) {
    static const enum grow_way ways[] = {GROW_ACRE, GROW_MALLOC};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        acre_device_info info = {.struct_size = sizeof info};
        uint64_t bytes = 0;
        if (!grow_begin(grow, ways[i], 0)) {
            return 0;
        }
        /* Free memory may have changed: by other processes, and by trimming. */
        if (acre_device_get_info(grow->device, &info) || !fill_to(grow, &bytes) ||
            !grow_end(grow)) {
            return 0;
        }
        bench_result(grow->bench, "fill", grow_who(ways[i]),
                     (double)bytes / (double)info.free_bytes, "share");
    }
    return 1;
}

/* ---- append ---- */

#define APPEND_BYTES GROW_MIB

struct append {
    struct grow *grow;
    uint64_t count;
    char *pinned;
    uint64_t pinned_bytes;
};

/* Both parties use new memory each time, since the first touch of a soft device's memory costs
 * time. */
static int append_turn(void *user, unsigned party, double *ns) {
    struct append *append = user;
    struct grow *grow = append->grow;
    void *block = NULL;
    if (!grow_begin(grow, GROW_ACRE, 0) ||
        (party == 1 &&
         acre_mem_alloc(grow->device, ACRE_KIND_DEVICE, append->count * APPEND_BYTES, 0, &block))) {
        return 0;
    }
    uint64_t begin = cli_now_ns();
    for (uint64_t i = 0; i < append->count; i++) {
        const char *from = append->pinned + i * APPEND_BYTES % append->pinned_bytes;
        acre_status status = party == 0
                                 ? acre_vec_append(grow->vec, from, APPEND_BYTES, grow->stream)
                                 : acre_copy(grow->device, (char *)block + i * APPEND_BYTES, from,
                                             APPEND_BYTES, grow->stream);
        if (status != ACRE_OK) {
            return 0;
        }
    }
    if (acre_stream_sync(grow->device, grow->stream)) {
        return 0;
    }
    *ns = (double)(cli_now_ns() - begin);
    return acre_mem_free(grow->device, block) == ACRE_OK && grow_end(grow);
}

static int grow_append(struct grow *grow) {
    static const char *const who[] = {"acre", "full-size block"};
    struct append append = {.grow = grow, .count = 8192, .pinned_bytes = 16 * APPEND_BYTES};
    uint64_t room = grow->info.free_bytes / 4 / APPEND_BYTES;
    double ns[BENCH_PARTIES][BENCH_FIGURES];
    void *pinned = NULL;
    uint64_t most = bench_is_quick(grow->bench) ? 16 : grow->drv->is_soft ? 128 : 8192;
    append.count = room < most ? room : most;
    if (append.count == 0) {
        return 1;
    }
    bench_blame(grow->bench, false);
    if (acre_mem_alloc(grow->device, ACRE_KIND_PINNED, append.pinned_bytes, 0, &pinned)) {
        return 0;
    }
    memset(pinned, 1, append.pinned_bytes);
    append.pinned = pinned;
    if (!bench_rounds(grow->bench, append_turn, &append, 2, 1, ns)) {
        bench_blame(grow->bench, false);
        return 0;
    }
    for (unsigned i = 0; i < 2; i++) {
        bench_result(grow->bench, "append 1MiB", who[i], ns[i][0] / 1e3 / (double)append.count,
                     "us");
    }
    return acre_mem_free(grow->device, pinned) == ACRE_OK;
}

/* ---- busy ---- */

/* A kernel of one thread that runs for `ns`, in PTX, so that the tool needs no compiler for the
 * device. */
static const char busy_kernel[] = ".version 6.4\n"
                                  ".target sm_60\n"
                                  ".address_size 64\n"
                                  ".visible .entry busy(.param .u64 ns)\n"
                                  "{\n"
                                  "  .reg .u64 %wanted, %begin, %now;\n"
                                  "  .reg .pred %more;\n"
                                  "  ld.param.u64 %wanted, [ns];\n"
                                  "  mov.u64 %begin, %globaltimer;\n"
                                  "again:\n"
                                  "  mov.u64 %now, %globaltimer;\n"
                                  "  sub.u64 %now, %now, %begin;\n"
                                  "  setp.lt.u64 %more, %now, %wanted;\n"
                                  "  @%more bra again;\n"
                                  "  ret;\n"
                                  "}\n";

/* Keeps a stream busy: with a kernel on a GPU, with a host function on a soft device. */
struct busy {
    acre_stream stream;
    CUmodule module; /* NULL on a soft device */
    CUfunction kernel;
};

static void busy_sleep(void *user) {
    (void)user;
    grow_pause(UINT64_C(1000000) * GROW_BUSY_MS);
}

/* Returns the number of growths; fewer on a device that is too small for the two blocks of a way
 * that copies. */
static uint64_t busy_growths(const struct grow *grow) {
    return grow->info.free_bytes < 8 * grow->unit ? 2 : 4;
}

/* Returns the longest call of the array, including shrink and destroy. */
static int busy_longest(struct grow *grow, double *longest) {
    double ns = 0;
    *longest = 0;
    for (uint64_t i = 1; i <= busy_growths(grow); i++) {
        if (!grow_to(grow, i * grow->unit, &ns)) {
            return 0;
        }
        *longest = ns > *longest ? ns : *longest;
    }
    uint64_t begin = cli_now_ns();
    if (grow->vec && acre_vec_shrink(grow->vec, grow->unit, grow->stream)) {
        return 0;
    }
    ns = (double)(cli_now_ns() - begin);
    *longest = ns > *longest ? ns : *longest;
    begin = cli_now_ns();
    if (!grow_end(grow)) {
        return 0;
    }
    ns = (double)(cli_now_ns() - begin);
    *longest = ns > *longest ? ns : *longest;
    return 1;
}

static int busy_begin(struct grow *grow, struct busy *busy) {
    bench_blame(grow->bench, false);
    if (acre_stream_create(grow->device, ACRE_STREAM_NON_BLOCKING, &busy->stream)) {
        return 0;
    }
    bench_blame(grow->bench, true);
    return grow->drv->is_soft ||
           (grow->drv->cuModuleLoadData(&busy->module, busy_kernel) == CUDA_SUCCESS &&
            grow->drv->cuModuleGetFunction(&busy->kernel, busy->module, "busy") == CUDA_SUCCESS);
}

static int busy_start(struct grow *grow, const struct busy *busy) {
    unsigned long long ns = UINT64_C(1000000) * GROW_BUSY_MS;
    void *params[] = {&ns};
    if (busy->kernel) {
        return grow->drv->cuLaunchKernel(busy->kernel, 1, 1, 1, 1, 1, 1, 0, busy->stream, params,
                                         NULL) == CUDA_SUCCESS;
    }
    return grow->drv->cuLaunchHostFunc(busy->stream, busy_sleep, NULL) == CUDA_SUCCESS;
}

static int busy_end(struct grow *grow, const struct busy *busy) {
    int ok = !busy->module || grow->drv->cuModuleUnload(busy->module) == CUDA_SUCCESS;
    return acre_stream_destroy(grow->device, busy->stream) == ACRE_OK && ok;
}

static int grow_busy(struct grow *grow) {
    static const enum grow_way ways[] = {GROW_ACRE, GROW_NO_RESERVE, GROW_AHEAD, GROW_FLOOR,
                                         GROW_MALLOC};
    struct busy busy = {0};
    if (!busy_begin(grow, &busy)) {
        return 0;
    }
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        double longest[GROW_ROUNDS];
        if (grow_lacks(grow, ways[i])) {
            continue;
        }
        for (unsigned round = 0; round < GROW_ROUNDS; round++) {
            if (!grow_begin(grow, ways[i], busy_growths(grow) * grow->unit) ||
                !busy_start(grow, &busy) || !busy_longest(grow, &longest[round]) ||
                grow->drv->cuStreamSynchronize(busy.stream) != CUDA_SUCCESS) {
                return 0;
            }
        }
        bench_result(grow->bench, "busy, longest call", grow_who(ways[i]),
                     bench_median(longest, GROW_ROUNDS) / 1e6, "ms");
    }
    return busy_end(grow, &busy);
}

/* ---- the suite ---- */

/* Draws cumulative times over sizes. */
static void grow_chart(struct bench *bench, const struct course courses[2], uint64_t step) {
    static double bytes[2][GROW_SIZES], sums[2][GROW_WAYS][GROW_SIZES];
    char titles[2][BENCH_NAME_BYTES], text[CLI_NUMBER_BYTES];
    struct chart chart = {.title = "Time to grow an array to a size, for each way of growing it",
                          .x_title = "size of the array",
                          .y_title = "cumulative time",
                          .panel_count = 2};
    snprintf(titles[0], sizeof titles[0], "doubling");
    snprintf(titles[1], sizeof titles[1], "in steps of %s", cli_bytes(step, text));
    for (size_t i = 0; i < 2; i++) {
        const struct course *course = &courses[i];
        struct chart_panel *panel = &chart.panels[i];
        panel->title = titles[i];
        panel->curve_count = GROW_WAYS;
        for (size_t k = 0; k < course->count; k++) {
            bytes[i][k] = (double)course->sizes[k];
        }
        for (int way = 0; way < GROW_WAYS; way++) {
            double sum = 0;
            for (size_t k = 0; k < course->reach[way]; k++) {
                sum += course->ns[way][k];
                sums[i][way][k] = sum;
            }
            panel->curves[way] =
                (struct chart_curve){grow_who((enum grow_way)way), bytes[i], sums[i][way],
                                     course->reach[way], way == GROW_FLOOR};
        }
    }
    bench_chart(bench, &chart);
}

static void grow_say_lacks(const struct grow *grow) {
    for (int way = 0; way < GROW_WAYS; way++) {
        const char *why = grow_lacks(grow, (enum grow_way)way);
        if (why) {
            cli_say("suite grow: %s skipped: %s", grow_who((enum grow_way)way), why);
        }
    }
}

static int grow_run(struct grow *grow, uint64_t top) {
    static struct course courses[2];
    memset(courses, 0, sizeof courses);
    course_doubling(grow, top, &courses[0]);
    course_steps(grow, top, &courses[1]);
    for (size_t i = 0; i < 2; i++) {
        /* Two steps ahead; for doubling, about what a growth in the middle has to map. */
        grow->ahead_bytes = 2 * courses[1].sizes[0];
        if (!course_measure(grow, &courses[i])) {
            return 0;
        }
        course_report(grow->bench, &courses[i]);
    }
    grow_chart(grow->bench, courses, courses[1].sizes[0]);
    uint64_t eighth = grow->info.free_bytes / 8 / grow->unit * grow->unit;
    grow->ahead_bytes = eighth < 256 * GROW_MIB ? eighth : 256 * GROW_MIB;
    return grow_small(grow) && grow_fill(grow) && grow_append(grow) && grow_busy(grow);
}

int bench_grow(struct bench *bench) {
    /* A way that copies needs the old and the new block at the same time. */
    static const struct bench_room room = {.device_blocks = 2, .host_blocks = 0};
    static struct grow grow;
    memset(&grow, 0, sizeof grow);
    grow = (struct grow){.bench = bench,
                         .device = bench_device(bench),
                         .drv = bench_driver(bench),
                         .info = {.struct_size = sizeof grow.info}};
    if (acre_device_get_info(grow.device, &grow.info)) {
        return 1;
    }
    grow.unit = 2 * GROW_MIB;
    grow.unit = grow.info.granularity_bytes > grow.unit ? grow.info.granularity_bytes : grow.unit;
    const uint64_t wanted[] = {grow.unit, UINT64_C(32) << 30};
    uint64_t sizes[BENCH_SIZES];
    size_t count = bench_sizes(bench, wanted, 2, &room, 32 * GROW_MIB, sizes);
    if (count == 0 || acre_stream_create(grow.device, ACRE_STREAM_NON_BLOCKING, &grow.stream)) {
        return 1;
    }
    grow_say_lacks(&grow);
    if (!grow_run(&grow, sizes[count - 1])) {
        return 1; /* without cleaning up: more calls could replace the detail */
    }
    return acre_stream_destroy(grow.device, grow.stream) != ACRE_OK;
}
