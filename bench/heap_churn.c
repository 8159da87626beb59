/* Allocates, uses and frees blocks in one kernel, many times: the steady state of a heap. The bump
 * pointer cannot free and does not take part. CUDA's own malloc runs with fewer threads. */
#include <string.h>

#include "cli.h"
#include "heap_bench.h"

enum { CHURN_TIMES = 5, CHURN_LOG2 = 18, CHURN_DRIVER_LOG2 = 12, CHURN_SOFT_LOG2 = 8 };

static const uint32_t churn_sizes[] = {64, 1024, 0};

/* One size and one number of threads. */
struct churn {
    unsigned log2;
    uint32_t bytes, rounds;
    bool with_driver;
    uint64_t heap_bytes, plane_bytes;
    acre_heap *heap;
    void *plane;
    struct heap_job jobs[HEAP_PARTIES];
};

static int churn_open(struct heap_bench *b, struct churn *churn) {
    struct heap_job job;
    acre_heap_handle handle;
    bench_blame(b->bench, false);
    churn->heap = heap_make(b, churn->heap_bytes, &handle);
    if (!churn->heap ||
        acre_mem_alloc(b->device, ACRE_KIND_DEVICE, churn->plane_bytes, 0, &churn->plane) ||
        !heap_job_begin(b, &job)) {
        return 0;
    }
    job.threads = UINT64_C(1) << churn->log2;
    job.bytes = churn->bytes;
    job.stride = churn->bytes ? churn->bytes : HEAP_MIXED_MOST;
    job.rounds = churn->rounds;
    for (unsigned i = 0; i < HEAP_PARTIES; i++) {
        churn->jobs[i] = job;
    }
    churn->jobs[HEAP_ACRE].heap = handle;
    churn->jobs[HEAP_FLOOR].plane = churn->plane;
    churn->jobs[HEAP_FLOOR].plane_bytes = churn->plane_bytes;
    return 1;
}

/* Measures one party: several kernels after a warm-up, or a single one for CUDA's malloc. */
static int churn_party(struct heap_bench *b, struct churn *churn, enum heap_party party,
                       const char *name) {
    enum heap_kernel kernel = heap_kernel_of(HEAP_K_churn_acre, party);
    unsigned times = party == HEAP_DRIVER || b->is_quick ? 1 : CHURN_TIMES;
    double us[CHURN_TIMES + 1];
    uint64_t counts[HEAP_COUNTS];
    unsigned warm = party == HEAP_DRIVER ? 0 : 1;
    for (unsigned i = 0; i < times + warm; i++) {
        if (!heap_time(b, kernel, &churn->jobs[party], &us[i < warm ? 0 : i - warm])) {
            return 0;
        }
    }
    if (!heap_job_counts(b, counts) || !heap_clear(b, b->words, sizeof counts)) {
        return 0;
    }
    heap_job_judge(b, party, counts, false);
    bench_result(b->bench, name, heap_who(party),
                 (double)churn->jobs[party].threads * churn->rounds / bench_median(us, times),
                 "M pairs/s");
    return 1;
}

static int churn_measure(struct heap_bench *b, struct churn *churn) {
    char name[BENCH_NAME_BYTES];
    heap_case_name("churn", churn->bytes, churn->log2, name);
    b->doing = name;
    churn->plane_bytes = (uint64_t)(churn->bytes ? churn->bytes : HEAP_MIXED_MOST) << churn->log2;
    churn->heap_bytes =
        churn->plane_bytes + churn->plane_bytes / 8 + (b->is_soft ? 16 : 256) * HEAP_MIB;
    if (!heap_has_room(b, name, churn->heap_bytes, churn->plane_bytes)) {
        return 1;
    }
    return churn_open(b, churn) && churn_party(b, churn, HEAP_ACRE, name) &&
           churn_party(b, churn, HEAP_FLOOR, name) &&
           (!churn->with_driver || churn_party(b, churn, HEAP_DRIVER, name)) &&
           heap_unmake(b, churn->heap) && acre_mem_free(b->device, churn->plane) == ACRE_OK;
}

int heap_churn_cases(struct heap_bench *b) {
    b->doing = "churn";
    if (!heap_open_driver(b)) {
        return 0;
    }
    for (unsigned i = 0; i < sizeof churn_sizes / sizeof churn_sizes[0]; i++) {
        struct churn many = {.log2 = b->is_soft    ? CHURN_SOFT_LOG2
                                     : b->is_quick ? CHURN_DRIVER_LOG2 + 2
                                                   : CHURN_LOG2,
                             .bytes = churn_sizes[i],
                             .rounds = b->is_soft ? 4 : 64};
        struct churn few = {
            .log2 = CHURN_DRIVER_LOG2, .bytes = churn_sizes[i], .rounds = 16, .with_driver = true};
        if (!churn_measure(b, &many) || (b->has_driver && !churn_measure(b, &few))) {
            return 0;
        }
    }
    return 1;
}
