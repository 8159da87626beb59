/* The placer against greedy placement and the lower bound. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "plan_bench.h"
#include "plan_instances.h"

#define PLACE_MIB (UINT64_C(1) << 20)
/* A case starts no further round after this time. */
#define PLACE_CASE_NS UINT64_C(1500000000)

enum place_family { PLACE_EVEN, PLACE_WILD, PLACE_KNOTS, PLACE_TRAINING, PLACE_GRAPH };
enum place_party { PLACE_ACRE, PLACE_FIRST_FIT, PLACE_BEST_FIT, PLACE_PARTIES };
enum {
    PLACE_ROUNDS = 3,
    /* Search nodes: a sixth of a second to some seconds for instances that are not solved. */
    PLACE_BUDGET = 1 << 16,
    PLACE_QUICK_BUDGET = 1 << 14
};

/* The instances, each with its seed. A quick run uses those with is_quick. */
static const struct place_case {
    const char *name;
    enum place_family family;
    size_t count;
    uint64_t seed;
    bool is_quick;
} place_cases[] = {
    {"place tight 150", PLACE_WILD, 150, 1, true},
    {"place tight 250", PLACE_WILD, 250, 2, false},
    {"place tight 300 even", PLACE_EVEN, 300, 3, false},
    {"place tight 450", PLACE_WILD, 450, 4, false},
    {"place tight 200 knots", PLACE_KNOTS, 200, 5, false},
    {"place training 2000", PLACE_TRAINING, 2000, 6, true},
    {"place training 8000", PLACE_TRAINING, 8000, 7, false},
    {"place graph 2000", PLACE_GRAPH, 2000, 8, true},
    {"place graph 62000", PLACE_GRAPH, 62000, 9, false},
};

struct place_run {
    struct plan_bench *p;
    const struct place_case *what;
    const struct acre__place_buffer *given;
    struct acre__place_buffer *work;
    uint64_t bound;
    uint64_t bytes[PLACE_PARTIES];
    uint64_t nodes;
};

static const char *place_who(unsigned party) {
    static const char *const names[PLACE_PARTIES] = {"acre", "first fit", "best fit"};
    return names[party];
}

static void place_make(const struct place_case *what, struct acre__place_buffer *buffers) {
    switch (what->family) {
    case PLACE_EVEN:
        plan_make_tight(buffers, what->count, PLAN_EVEN, what->seed);
        break;
    case PLACE_WILD:
        plan_make_tight(buffers, what->count, PLAN_WILD, what->seed);
        break;
    case PLACE_KNOTS:
        plan_make_tight(buffers, what->count, PLAN_KNOTS, what->seed);
        break;
    case PLACE_TRAINING:
        plan_make_training(buffers, what->count, 64 * PLACE_MIB, what->seed);
        break;
    default:
        plan_make_graph(buffers, what->count, what->seed);
        break;
    }
}

static bool place_is_tight(const struct place_case *what) {
    return what->family <= PLACE_KNOTS;
}

/* Runs acre's placer. Tight instances have a capacity; others are packed as small as possible. */
static int place_acre(struct place_run *run) {
    struct acre__place_options options = {
        .capacity = place_is_tight(run->what) ? run->bound : 0,
        .budget = run->p->is_quick ? PLACE_QUICK_BUDGET : PLACE_BUDGET,
    };
    struct acre__place_result result = {0};
    int error = acre__place(run->work, run->what->count, &options, &result);
    if (error) {
        bench_reason(run->p->bench, strerror(-error));
        return 0;
    }
    run->bytes[PLACE_ACRE] = result.bytes;
    run->nodes = result.nodes;
    return 1;
}

/* Runs one party on a copy of the instance. Checks the plan outside of the timed part. */
static int place_turn(struct place_run *run, unsigned party, double *ns) {
    size_t count = run->what->count, first = 0, second = 0;
    memcpy(run->work, run->given, count * sizeof *run->work);
    uint64_t begin = cli_now_ns();
    if (party != PLACE_ACRE) {
        run->bytes[party] = plan_greedy(run->work, count, party == PLACE_BEST_FIT);
    } else if (!place_acre(run)) {
        return 0;
    }
    *ns = (double)(cli_now_ns() - begin);
    if (acre__place_verify(run->work, count, run->bytes[party], &first, &second)) {
        bench_finding(run->p->bench, "suite plan: %s, %s: invalid plan: buffers %zu and %zu",
                      run->what->name, place_who(party), first, second);
    }
    return 1;
}

static void place_report(const struct place_run *run, double ns[PLACE_PARTIES][PLACE_ROUNDS],
                         size_t rounds) {
    struct bench *bench = run->p->bench;
    const char *name = run->what->name;
    for (unsigned i = 0; i < PLACE_PARTIES; i++) {
        bench_result(bench, name, place_who(i), bench_median(ns[i], rounds) / 1e9, "s");
    }
    for (unsigned i = 0; i < PLACE_PARTIES; i++) {
        bench_result(bench, name, place_who(i), (double)run->bytes[i] / (double)run->bound,
                     "ratio");
        bench_detail(bench, name, place_who(i), (double)run->bytes[i], "bytes");
    }
    bench_result(bench, name, "floor", (double)run->bound, "bytes");
    bench_result(bench, name, place_who(PLACE_ACRE), (double)run->nodes, "nodes");
}

static int place_measure(struct place_run *run) {
    double ns[PLACE_PARTIES][PLACE_ROUNDS];
    size_t rounds = 0, most = run->p->is_quick ? 1 : PLACE_ROUNDS;
    uint64_t begin = cli_now_ns();
    while (rounds < most && cli_now_ns() - begin < PLACE_CASE_NS) {
        for (unsigned i = 0; i < PLACE_PARTIES; i++) {
            if (!place_turn(run, i, &ns[i][rounds])) {
                return 0;
            }
        }
        rounds++;
    }
    place_report(run, ns, rounds);
    return 1;
}

int plan_place_cases(struct plan_bench *p) {
    int ok = 1;
    for (size_t i = 0; ok && i < sizeof place_cases / sizeof place_cases[0]; i++) {
        const struct place_case *what = &place_cases[i];
        if (p->is_quick && !what->is_quick) {
            continue;
        }
        struct acre__place_buffer *given = cli_alloc(what->count * sizeof *given);
        struct place_run run = {.p = p, .what = what, .given = given};
        run.work = cli_alloc(what->count * sizeof *run.work);
        place_make(what, given);
        run.bound = acre__place_lower_bound(given, what->count);
        if (!run.bound) {
            bench_reason(p->bench, strerror(ENOMEM));
        }
        if (place_is_tight(what) && acre__place_verify(given, what->count, run.bound, NULL, NULL)) {
            bench_finding(p->bench, "suite plan: %s has no plan at its lower bound", what->name);
        }
        ok = run.bound && place_measure(&run);
        free(run.work);
        free(given);
    }
    return ok;
}
