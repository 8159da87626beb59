/* The cost of calls on a plan: loops whose steps are served from a plan, and requests (wishes).
 *
 * A step is a script of allocations and frees. Every party reads the same script. The floor
 * compares each entry with a recording and loads an address from it; all parties pay this cost. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "plan_bench.h"
#include "plan_instances.h"

#define CALLS_INLINE static inline __attribute__((always_inline))
#define CALLS_MIB (UINT64_C(1) << 20)
#define CALLS_ROOM (64 * CALLS_MIB) /* device memory that a case needs at most */

enum {
    LOOP_BLOCKS = 1000,     /* per step */
    LOOP_STEPS = 100,       /* per turn */
    CALLS_MALLOC_BYTES = 64 /* of malloc's blocks: the size is not part of the comparison */
};

static bool calls_have_room(const struct plan_bench *p, const char *name) {
    char text[CLI_NUMBER_BYTES];
    if (p->info.free_bytes >= CALLS_ROOM) {
        return true;
    }
    cli_say("suite plan: %s skipped: it needs %s of free device memory", name,
            cli_bytes(CALLS_ROOM, text));
    return false;
}

/* ---- loops ---- */

enum loop_party { LOOP_PLAN, LOOP_POOL, LOOP_MALLOC, LOOP_FLOOR, LOOP_PARTIES };

struct loop_entry {
    uint32_t block;
    uint32_t bytes; /* 0: free */
};

struct loop_bench {
    struct plan_bench *p;
    acre_plan *plan;
    struct loop_entry script[2 * LOOP_BLOCKS];
    size_t length;
    struct {
        void *address;
        uint32_t bytes;
    } recording[2 * LOOP_BLOCKS]; /* for the floor */
    void *blocks[LOOP_BLOCKS];
    uint64_t steps; /* per turn */
    unsigned failed;
};

CALLS_INLINE int loop_alloc(struct loop_bench *l, size_t at, enum loop_party party) {
    const struct loop_entry *entry = &l->script[at];
    void **block = &l->blocks[entry->block];
    switch (party) {
    case LOOP_PLAN:
        return acre_plan_alloc(l->plan, ACRE_PLACE_DEVICE, entry->bytes, 0, block) == ACRE_OK;
    case LOOP_POOL:
        return acre_alloc(l->p->device, entry->bytes, l->p->stream, block) == ACRE_OK;
    case LOOP_MALLOC:
        *block = malloc(CALLS_MALLOC_BYTES);
        __asm__ volatile("" : : "r"(*block) : "memory"); /* keeps malloc from being removed */
        return *block != NULL;
    default:
        *block = l->recording[at].address;
        return l->recording[at].bytes == entry->bytes;
    }
}

CALLS_INLINE int loop_free(struct loop_bench *l, size_t at, enum loop_party party) {
    void *block = l->blocks[l->script[at].block];
    switch (party) {
    case LOOP_PLAN:
        return acre_plan_free(l->plan, block) == ACRE_OK;
    case LOOP_POOL:
        return acre_free(block, l->p->stream) == ACRE_OK;
    case LOOP_MALLOC:
        free(block);
        return 1;
    default:
        return l->recording[at].address == block;
    }
}

CALLS_INLINE int loop_script(struct loop_bench *l, enum loop_party party) {
    for (size_t i = 0; i < l->length; i++) {
        if (!(l->script[i].bytes ? loop_alloc(l, i, party) : loop_free(l, i, party))) {
            return 0;
        }
    }
    return 1;
}

/* Runs the steps of one party. ns[0] is the time of a pair, ns[1] of begin and end of a step. */
CALLS_INLINE int loop_steps(struct loop_bench *l, double *ns, enum loop_party party) {
    uint64_t begin = cli_now_ns(), inner = 0;
    for (uint64_t i = 0; i < l->steps; i++) {
        if (party == LOOP_PLAN && acre_plan_step_begin(l->plan, l->p->stream)) {
            return 0;
        }
        uint64_t from = cli_now_ns();
        if (!loop_script(l, party)) {
            return 0;
        }
        inner += cli_now_ns() - from;
        if (party == LOOP_PLAN && acre_plan_step_end(l->plan)) {
            return 0;
        }
    }
    ns[0] = (double)inner / (double)(l->steps * LOOP_BLOCKS);
    ns[1] = (double)(cli_now_ns() - begin - inner) / (double)l->steps;
    return 1;
}

static int loop_turn(void *user, unsigned party, double *ns) {
    struct loop_bench *l = user;
    l->failed = party;
    switch (party) {
    case LOOP_PLAN:
        return loop_steps(l, ns, LOOP_PLAN);
    case LOOP_POOL:
        return loop_steps(l, ns, LOOP_POOL);
    case LOOP_MALLOC:
        return loop_steps(l, ns, LOOP_MALLOC);
    default:
        return loop_steps(l, ns, LOOP_FLOOR);
    }
}

static void loop_add(struct loop_bench *l, uint32_t block, uint32_t bytes) {
    l->recording[l->length].address = (char *)l + block;
    l->recording[l->length].bytes = bytes;
    l->script[l->length++] = (struct loop_entry){block, bytes};
}

/* Frees every block before the next one is allocated. */
static void loop_make_pairs(struct loop_bench *l) {
    for (uint32_t i = 0; i < LOOP_BLOCKS; i++) {
        loop_add(l, i, 65536);
        loop_add(l, i, 0);
    }
}

/* Keeps half of the blocks until the backward pass, which frees the last one first; 512 B to
 * 64 KiB. */
static void loop_make_layers(struct loop_bench *l) {
    for (uint32_t i = 0; i < LOOP_BLOCKS; i += 2) {
        loop_add(l, i, 512u << i * 5 % 8);
        loop_add(l, i + 1, 512u << i * 3 % 8);
        loop_add(l, i + 1, 0);
    }
    for (uint32_t i = LOOP_BLOCKS; i > 0; i -= 2) {
        loop_add(l, i - 2, 0);
    }
}

/* The first step is recorded, and the second one places the recording. All later steps must be
 * hits: a miss would measure the pool. */
static int loop_measure(struct loop_bench *l, const char *name,
                        double ns[BENCH_PARTIES][BENCH_FIGURES]) {
    acre_plan_stats before = {.struct_size = sizeof before}, after = before;
    uint64_t steps = l->steps;
    double unused[BENCH_FIGURES];
    l->steps = 2;
    l->failed = LOOP_PLAN;
    int ok = loop_steps(l, unused, LOOP_PLAN) && !acre_plan_get_stats(l->plan, &before);
    l->steps = steps;
    ok = ok && bench_rounds(l->p->bench, loop_turn, l, LOOP_PARTIES, 2, ns);
    if (!ok || acre_plan_get_stats(l->plan, &after)) {
        bench_blame(l->p->bench, l->failed > LOOP_POOL);
        return 0;
    }
    if (after.pool_calls != before.pool_calls || after.misses) {
        bench_finding(l->p->bench, "suite plan: %s: %llu calls were not served by the plan", name,
                      (unsigned long long)(after.pool_calls - before.pool_calls));
    }
    return 1;
}

static int loop_case(struct plan_bench *p, const char *name, void (*make)(struct loop_bench *)) {
    static const char *const who[LOOP_PARTIES] = {"acre", "pool", "malloc", "floor"};
    double ns[BENCH_PARTIES][BENCH_FIGURES];
    acre_plan_options options = {.struct_size = sizeof options,
                                 .device_bytes = ACRE_PLAN_AS_NEEDED,
                                 .host_bytes = ACRE_PLAN_AS_NEEDED};
    if (!calls_have_room(p, name)) {
        return 1;
    }
    struct loop_bench *l = cli_alloc(sizeof *l);
    memset(l, 0, sizeof *l);
    l->p = p;
    l->steps = p->is_quick ? 2 : LOOP_STEPS;
    make(l);
    int ok = !acre_plan_create(p->device, &options, &l->plan) && loop_measure(l, name, ns);
    for (unsigned i = 0; ok && i < LOOP_PARTIES; i++) {
        bench_result(p->bench, name, who[i], ns[i][0], "ns/pair");
    }
    if (ok) {
        char step[BENCH_NAME_BYTES];
        snprintf(step, sizeof step, "%s, begin + end", name);
        bench_result(p->bench, step, who[LOOP_PLAN], ns[LOOP_PLAN][1], "ns/op");
        ok = !acre_plan_destroy(l->plan);
    }
    free(l);
    return ok;
}

int plan_loop_cases(struct plan_bench *p) {
    return loop_case(p, "loop pairs", loop_make_pairs) &&
           loop_case(p, "loop layers", loop_make_layers);
}

/* ---- requests ---- */

enum want_party { WANT_DEFERRED, WANT_AT_ONCE, WANT_MALLOC, WANT_FLOOR, WANT_PARTIES };

struct want_bench {
    struct plan_bench *p;
    size_t count;
    acre_plan *plans[2]; /* by party */
    void **blocks;
    unsigned failed;
};

static size_t want_bytes(size_t i) {
    return 256 + i % 16 * 100;
}

static int want_by_plan(struct want_bench *w, acre_plan *plan, double *ns) {
    uint64_t begin = cli_now_ns();
    for (size_t i = 0; i < w->count; i++) {
        if (acre_plan_want(plan, ACRE_PLACE_DEVICE, want_bytes(i), 0, &w->blocks[i])) {
            return 0;
        }
    }
    if (acre_plan_satisfy(plan)) {
        return 0;
    }
    *ns = (double)(cli_now_ns() - begin) / (double)w->count;
    return acre_plan_release(plan, w->p->stream) == ACRE_OK;
}

static int want_by_malloc(struct want_bench *w, double *ns) {
    size_t done = 0;
    uint64_t begin = cli_now_ns();
    while (done < w->count && (w->blocks[done] = malloc(CALLS_MALLOC_BYTES))) {
        done++;
    }
    *ns = (double)(cli_now_ns() - begin) / (double)w->count;
    for (size_t i = 0; i < done; i++) {
        free(w->blocks[i]);
    }
    return done == w->count;
}

/* The floor: increments an address, as in memory that is already allocated. */
static int want_by_counting(struct want_bench *w, double *ns) {
    char *at = NULL;
    uint64_t begin = cli_now_ns();
    for (size_t i = 0; i < w->count; i++) {
        w->blocks[i] = at;
        __asm__ volatile("" : "+r"(at) : : "memory"); /* prevents vectorisation */
        at = (char *)((uintptr_t)at + ((want_bytes(i) + 255) & ~(size_t)255));
    }
    *ns = (double)(cli_now_ns() - begin) / (double)w->count;
    return 1;
}

static int want_turn(void *user, unsigned party, double *ns) {
    struct want_bench *w = user;
    w->failed = party;
    switch (party) {
    case WANT_DEFERRED:
    case WANT_AT_ONCE:
        return want_by_plan(w, w->plans[party], ns);
    case WANT_MALLOC:
        return want_by_malloc(w, ns);
    default:
        return want_by_counting(w, ns);
    }
}

static int want_case(struct plan_bench *p, size_t count) {
    static const char *const who[WANT_PARTIES] = {"acre", "acre at once", "malloc", "floor"};
    double ns[BENCH_PARTIES][BENCH_FIGURES];
    char name[BENCH_NAME_BYTES];
    acre_plan_options options = {.struct_size = sizeof options,
                                 .device_bytes = ACRE_PLAN_AS_NEEDED,
                                 .host_bytes = ACRE_PLAN_AS_NEEDED};
    struct want_bench w = {.p = p, .count = count};
    snprintf(name, sizeof name, "want %zu", count);
    if (!calls_have_room(p, name)) {
        return 1;
    }
    int ok = acre_plan_create(p->device, &options, &w.plans[WANT_AT_ONCE]) == ACRE_OK;
    options.flags = ACRE_PLAN_DEFERRED;
    ok = ok && acre_plan_create(p->device, &options, &w.plans[WANT_DEFERRED]) == ACRE_OK;
    w.blocks = cli_alloc(count * sizeof *w.blocks);
    if (ok && !bench_rounds(p->bench, want_turn, &w, WANT_PARTIES, 1, ns)) {
        bench_blame(p->bench, w.failed > WANT_AT_ONCE);
        ok = 0;
    }
    for (unsigned i = 0; ok && i < WANT_PARTIES; i++) {
        bench_result(p->bench, name, who[i], ns[i][0], "ns/op");
    }
    free(w.blocks);
    return ok && !acre_plan_destroy(w.plans[WANT_DEFERRED]) &&
           !acre_plan_destroy(w.plans[WANT_AT_ONCE]);
}

/* ---- requests for some steps ---- */

enum { COMMIT_ROUNDS = 3, COMMIT_MOST_BYTES = 65536 };

struct commit_bench {
    struct plan_bench *p;
    size_t count;
    struct acre__place_buffer *buffers;
    void **blocks;
    double want_ns[COMMIT_ROUNDS], commit_ns[COMMIT_ROUNDS], place_ns[COMMIT_ROUNDS];
    double ratio;
};

/* Creates a new plan each time: a plan that already has memory would accept any placement that fits
 * into it. */
static int commit_by_plan(struct commit_bench *c, size_t round) {
    acre_plan *plan;
    acre_plan_stats stats = {.struct_size = sizeof stats};
    acre_plan_options options = {.struct_size = sizeof options,
                                 .device_bytes = ACRE_PLAN_AS_NEEDED,
                                 .host_bytes = ACRE_PLAN_AS_NEEDED};
    if (acre_plan_create(c->p->device, &options, &plan)) {
        return 0;
    }
    uint64_t begin = cli_now_ns();
    for (size_t i = 0; i < c->count; i++) {
        const struct acre__place_buffer *b = &c->buffers[i];
        if (acre_plan_want_for(plan, ACRE_PLACE_DEVICE, b->size, b->align, (uint64_t)b->lower,
                               (uint64_t)b->upper - 1, &c->blocks[i])) {
            return 0;
        }
    }
    uint64_t wanted = cli_now_ns();
    if (acre_plan_commit(plan)) {
        return 0;
    }
    c->commit_ns[round] = (double)(cli_now_ns() - wanted);
    c->want_ns[round] = (double)(wanted - begin) / (double)c->count;
    if (acre_plan_get_stats(plan, &stats)) {
        return 0;
    }
    c->ratio = (double)stats.device_used_bytes / (double)stats.device_bound_bytes;
    return acre_plan_destroy(plan) == ACRE_OK;
}

/* The floor of a commit: the placer alone. */
static int commit_by_placer(struct commit_bench *c, size_t round) {
    struct acre__place_result result;
    uint64_t begin = cli_now_ns();
    int error = acre__place(c->buffers, c->count, NULL, &result);
    c->place_ns[round] = (double)(cli_now_ns() - begin);
    if (error) {
        bench_reason(c->p->bench, strerror(-error));
    }
    return error == 0;
}

static int commit_case(struct plan_bench *p, size_t count) {
    char name[BENCH_NAME_BYTES], want[BENCH_NAME_BYTES];
    struct commit_bench c = {.p = p, .count = count};
    snprintf(name, sizeof name, "commit %zu", count);
    snprintf(want, sizeof want, "want for steps %zu", count);
    if (!calls_have_room(p, name)) {
        return 1;
    }
    c.buffers = cli_alloc(count * sizeof *c.buffers);
    c.blocks = cli_alloc(count * sizeof *c.blocks);
    plan_make_training(c.buffers, count, COMMIT_MOST_BYTES, 9);
    int ok = 1;
    for (size_t i = 0; ok && i < COMMIT_ROUNDS; i++) {
        ok = commit_by_plan(&c, i) && commit_by_placer(&c, i);
    }
    if (ok) {
        bench_result(p->bench, want, "acre", bench_median(c.want_ns, COMMIT_ROUNDS), "ns/op");
        bench_result(p->bench, name, "acre", bench_median(c.commit_ns, COMMIT_ROUNDS) / 1e6, "ms");
        bench_result(p->bench, name, "floor", bench_median(c.place_ns, COMMIT_ROUNDS) / 1e6, "ms");
        bench_result(p->bench, name, "acre", c.ratio, "ratio");
    }
    free(c.buffers);
    free(c.blocks);
    return ok;
}

int plan_want_cases(struct plan_bench *p) {
    size_t count = p->is_quick ? 1000 : 10000;
    return want_case(p, count) && commit_case(p, count);
}
