/* Pools and threads: many threads with one pool, and blocks that one thread allocates and another
 * frees. One pair of threads does the latter (cross-thread), or eight pairs at once, each with its
 * own queue and stream (handover), compared with the queues alone. Each turn creates its threads.
 * They warm up, wait for each other, and take their own times. The figure is the time from the
 * first begin to the last end. A turn is long enough for the system to give each thread a core. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "pool_parties.h"

enum {
    POOL_STEP_PAIRS = 500, /* between two clock reads */
    POOL_RING = 256,       /* 16 MiB in flight */
    POOL_HANDOVER_PAIRS = POOL_STREAMS / 2,
    POOL_SPINS = 64, /* before a waiting thread yields */
    POOL_DETAIL_BYTES = 256
};

struct pool_thread {
    const struct pool_bench *p;
    enum pool_party party;
    acre_stream stream;
    uint64_t count;   /* pairs done; with a ring: to do */
    uint64_t last_ns; /* without a ring: duration */
    pthread_barrier_t *start;
    struct pool_ring *ring;
    bool is_floor; /* the ring alone, without alloc and free */
    uint64_t begin_ns, end_ns;
    int ok;
    char detail[POOL_DETAIL_BYTES]; /* acre_last_detail is per thread */
};

/* Blocks in flight from one thread to another. Each side has its own cache line. */
struct pool_ring {
    _Alignas(64) _Atomic uint64_t head; /* put so far */
    _Alignas(64) _Atomic uint64_t tail; /* taken so far */
    _Alignas(64) _Atomic int is_broken; /* one side failed: the other must not wait for it */
    void *blocks[POOL_RING];
};

/* A turn: `count` threads run `run`, each on its own stream. With rings they run both functions in
 * turn, and each two threads share a ring and a stream. */
struct pool_team {
    struct pool_bench *p;
    const enum pool_party *parties; /* of the first turns; one more turn is the floor's */
    unsigned party_count;
    unsigned count;
    uint64_t pairs;   /* with rings */
    uint64_t few;     /* pairs of the driver, with rings; 0: `pairs` */
    uint64_t last_ns; /* without rings */
    void *(*run[2])(void *);
    bool is_ring;
};

/* Driver calls need the device's context. */
static int thread_begin(struct pool_thread *thread) {
    const struct pool_bench *p = thread->p;
    return thread->party != POOL_DRIVER || p->drv->cuCtxSetCurrent(p->context) == CUDA_SUCCESS;
}

static void *thread_end(struct pool_thread *thread, int ok) {
    thread->end_ns = cli_now_ns();
    thread->ok = ok;
    if (!ok) {
        snprintf(thread->detail, sizeof thread->detail, "%s", cli_detail());
    }
    return NULL;
}

/* ---- each with its own stream ---- */

static int step_pairs(const struct pool_thread *thread) {
    return POOL_EACH(thread->party, pool_pairs, thread->p, POOL_BLOCK_BYTES, thread->stream,
                     (uint64_t)POOL_STEP_PAIRS);
}

static void *thread_pairs(void *user) {
    struct pool_thread *thread = user;
    int ok = thread_begin(thread) && step_pairs(thread);
    pthread_barrier_wait(thread->start);
    thread->begin_ns = cli_now_ns();
    while (ok && cli_now_ns() - thread->begin_ns < thread->last_ns) {
        ok = step_pairs(thread);
        thread->count += POOL_STEP_PAIRS;
    }
    return thread_end(thread, ok);
}

/* ---- one allocates, the other frees ---- */

/* Waits until a number exceeds another. Returns 0 if the other side failed. */
static int ring_wait(struct pool_ring *ring, _Atomic uint64_t *number, uint64_t past,
                     uint64_t *seen) {
    for (unsigned spins = 0; *seen <= past; spins++) {
        if (atomic_load_explicit(&ring->is_broken, memory_order_relaxed)) {
            return 0;
        }
        if (spins >= POOL_SPINS) {
            sched_yield();
        }
        *seen = atomic_load_explicit(number, memory_order_acquire);
    }
    return 1;
}

POOL_INLINE int ring_put(struct pool_thread *thread, bool is_floor, enum pool_party party) {
    struct pool_ring *ring = thread->ring;
    size_t bytes = party == POOL_MALLOC ? POOL_MALLOC_BYTES : POOL_BLOCK_BYTES;
    uint64_t taken = 0;
    for (uint64_t i = 0; i < thread->count; i++) {
        void *block = is_floor ? ring : pool_alloc(thread->p, party, bytes, thread->stream);
        /* An entry is free once the other side has taken its previous block. */
        if (!block || (i >= POOL_RING && !ring_wait(ring, &ring->tail, i - POOL_RING, &taken))) {
            return 0;
        }
        ring->blocks[i % POOL_RING] = block;
        atomic_store_explicit(&ring->head, i + 1, memory_order_release);
    }
    return 1;
}

POOL_INLINE int ring_take(struct pool_thread *thread, bool is_floor, enum pool_party party) {
    struct pool_ring *ring = thread->ring;
    uint64_t put = 0;
    for (uint64_t i = 0; i < thread->count; i++) {
        if (!ring_wait(ring, &ring->head, i, &put)) {
            return 0;
        }
        void *block = ring->blocks[i % POOL_RING];
        atomic_store_explicit(&ring->tail, i + 1, memory_order_release);
        if (!is_floor && !pool_free(thread->p, party, block, thread->stream)) {
            return 0;
        }
    }
    return 1;
}

static int thread_ring(struct pool_thread *thread, bool puts) {
    if (thread->is_floor) {
        return puts ? ring_put(thread, true, POOL_MALLOC) : ring_take(thread, true, POOL_MALLOC);
    }
    return puts ? POOL_EACH(thread->party, ring_put, thread, false)
                : POOL_EACH(thread->party, ring_take, thread, false);
}

static void *thread_side(struct pool_thread *thread, bool puts) {
    int ok = thread_begin(thread);
    pthread_barrier_wait(thread->start);
    thread->begin_ns = cli_now_ns();
    ok = ok && thread_ring(thread, puts);
    if (!ok) {
        atomic_store_explicit(&thread->ring->is_broken, 1, memory_order_relaxed);
    }
    return thread_end(thread, ok);
}

static void *thread_allocates(void *user) {
    return thread_side(user, true);
}

static void *thread_frees(void *user) {
    return thread_side(user, false);
}

/* ---- turns ---- */

/* Nanoseconds per pair, over all threads. */
static int team_result(const struct pool_team *team, const struct pool_thread *threads,
                       double *ns) {
    uint64_t begin = UINT64_MAX, end = 0, pairs = 0;
    for (unsigned i = 0; i < team->count; i++) {
        if (!threads[i].ok) {
            bench_reason(team->p->bench, threads[i].detail);
            return 0;
        }
        pairs += threads[i].count;
        begin = threads[i].begin_ns < begin ? threads[i].begin_ns : begin;
        end = threads[i].end_ns > end ? threads[i].end_ns : end;
    }
    pairs = team->is_ring ? pairs / 2 : pairs; /* both sides count them */
    *ns = (double)(end - begin) / (double)pairs;
    return 1;
}

static int team_turn(void *user, unsigned party, double *ns) {
    static struct pool_ring rings[POOL_HANDOVER_PAIRS];
    struct pool_team *team = user;
    struct pool_thread threads[POOL_STREAMS];
    pthread_t ids[POOL_STREAMS];
    pthread_barrier_t start;
    bool is_floor = party == team->party_count;
    bool has_few = !is_floor && team->parties[party] == POOL_DRIVER && team->few;
    memset(rings, 0, sizeof rings);
    memset(threads, 0, sizeof threads);
    pthread_barrier_init(&start, NULL, team->count);
    for (unsigned i = 0; i < team->count; i++) {
        threads[i] = (struct pool_thread){.p = team->p,
                                          .party = is_floor ? POOL_MALLOC : team->parties[party],
                                          .is_floor = is_floor,
                                          .stream = team->p->streams[team->is_ring ? i / 2 : i],
                                          .count = has_few ? team->few : team->pairs,
                                          .last_ns = team->last_ns,
                                          .start = &start,
                                          .ring = &rings[i / 2]};
        if (pthread_create(&ids[i], NULL, team->run[i % 2], &threads[i]) != 0) {
            cli_say("suite pool: cannot create more threads");
            exit(CLI_CANNOT); /* threads already created wait for the others */
        }
    }
    for (unsigned i = 0; i < team->count; i++) {
        pthread_join(ids[i], NULL);
    }
    pthread_barrier_destroy(&start);
    return team_result(team, threads, ns);
}

static int team_measure(struct pool_team *team, unsigned parties,
                        double ns[BENCH_PARTIES][BENCH_FIGURES]) {
    team->party_count = parties;
    return bench_rounds(team->p->bench, team_turn, team, parties, 1, ns);
}

int pool_thread_cases(struct pool_bench *p) {
    enum pool_party parties[POOL_PARTIES];
    struct pool_team team = {.p = p,
                             .parties = parties,
                             .last_ns = pool_count(p, 50000000),
                             .run = {thread_pairs, thread_pairs}};
    unsigned count = pool_parties(p, true, parties);
    double one[POOL_PARTIES] = {0};
    char name[BENCH_NAME_BYTES];
    for (team.count = 1; team.count <= p->threads; team.count *= 2) {
        double ns[BENCH_PARTIES][BENCH_FIGURES], scaling[POOL_PARTIES];
        if (!team_measure(&team, count, ns)) {
            return 0;
        }
        snprintf(name, sizeof name, "threads %u", team.count);
        for (unsigned i = 0; i < count; i++) {
            bench_result(p->bench, name, pool_who(parties[i]), 1e3 / ns[i][0], "M pairs/s");
            one[i] = team.count == 1 ? ns[i][0] : one[i];
            scaling[i] = one[i] / ns[i][0];
        }
        /* malloc, the last party, shows how the machine itself scales. */
        for (unsigned i = 0; team.count > 1 && i + 1 < count; i++) {
            snprintf(name, sizeof name, "threads %u / 1, by malloc's", team.count);
            bench_result(p->bench, name, pool_who(parties[i]), scaling[i] / scaling[count - 1],
                         "times");
        }
    }
    return 1;
}

int pool_cross_thread(struct pool_bench *p) {
    enum pool_party parties[POOL_PARTIES];
    struct pool_team team = {.p = p,
                             .parties = parties,
                             .count = 2,
                             .pairs = pool_count(p, 300000),
                             .run = {thread_allocates, thread_frees},
                             .is_ring = true};
    unsigned count = pool_parties(p, true, parties);
    double ns[BENCH_PARTIES][BENCH_FIGURES];
    if (!team_measure(&team, count, ns)) {
        return 0;
    }
    for (unsigned i = 0; i < count; i++) {
        bench_result(p->bench, "cross-thread free", pool_who(parties[i]), ns[i][0], "ns/pair");
    }
    return 1;
}

int pool_handover(struct pool_bench *p) {
    enum pool_party parties[POOL_PARTIES];
    unsigned count = pool_parties(p, true, parties);
    struct pool_team team = {.p = p,
                             .parties = parties,
                             .party_count = count,
                             .count = 2 * POOL_HANDOVER_PAIRS,
                             .pairs = pool_count(p, 50000),
                             .few = pool_count(p, 1000), /* 25 us each with so many threads */
                             .run = {thread_allocates, thread_frees},
                             .is_ring = true};
    double ns[BENCH_PARTIES][BENCH_FIGURES];
    char name[BENCH_NAME_BYTES];
    /* 128 MiB in flight for each party, plus what threads cache. */
    if (!pool_has_room(p, "handover", UINT64_C(512) << 20)) {
        return 1;
    }
    if (!bench_rounds(p->bench, team_turn, &team, count + 1, 1, ns)) {
        return 0;
    }
    snprintf(name, sizeof name, "handover %d + %d threads", POOL_HANDOVER_PAIRS,
             POOL_HANDOVER_PAIRS);
    for (unsigned i = 0; i <= count; i++) {
        bench_result(p->bench, name, i < count ? pool_who(parties[i]) : "floor", 1e3 / ns[i][0],
                     "M blocks/s");
    }
    return 1;
}
