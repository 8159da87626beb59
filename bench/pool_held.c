/* Memory that a pool holds while little or nothing is live.
 *
 *   idle       threads allocate and free one block of each size class from 64 KiB to 1 MiB on each
 *              of 16 streams, and then rest: what the pool holds with nothing live
 *   survivors  of a million blocks of 4 KiB, 2 % at random survive. Then 80 turnovers: each frees
 *              half of the survivors at random, allocates as many and trims. At first survivors are
 *              spread everywhere; a pool that prefers low addresses compacts them
 *   drift      512 MiB of blocks of one size, freed and waited for, then of the next larger size,
 *              from 8 KiB to 2 MiB (part of the case drift, see pool_drift.c)
 *
 * Each turn has its own pool. The figure is what acre's pool reports as held; for the driver's pool
 * it is the drop in the device's free memory. Nothing is timed, so one turn is enough. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "pool_parties.h"

#define HELD_KIB UINT64_C(1024)
#define HELD_MIB (HELD_KIB * 1024)

enum {
    HELD_MOST_THREADS = 64,
    SURVIVORS_BLOCKS = 1000000,
    SURVIVORS_BYTES = 4096,
    SURVIVORS_SHARE = 50, /* one of this many survives */
    SURVIVORS_TURNOVERS = 80,
    DRIFT_LIVE_MIB = 512
};

/* A party's turn. */
struct held {
    struct pool_bench own; /* a copy of the suite's, with its own pool */
    enum pool_party party;
    size_t free_bytes; /* of the device, at the start */
};

static int held_free_bytes(struct held *held, size_t *bytes) {
    size_t total = 0;
    int ok = held->own.drv->cuMemGetInfo(bytes, &total) == CUDA_SUCCESS;
    if (!ok) {
        bench_blame(held->own.bench, true);
    }
    return ok;
}

/* First returns the memory of the previous party to the device. */
static int held_begin(struct held *held, const struct pool_bench *p, enum pool_party party) {
    *held = (struct held){.own = *p, .party = party};
    bench_blame(p->bench, false);
    if (acre_device_sync(p->device) || acre_trim(p->device) ||
        (party == POOL_ACRE && acre_pool_create(p->device, NULL, &held->own.pool))) {
        return 0;
    }
    bench_blame(p->bench, party != POOL_ACRE);
    return held_free_bytes(held, &held->free_bytes);
}

static int held_end(struct held *held) {
    bench_blame(held->own.bench, false);
    return held->party != POOL_ACRE || acre_pool_destroy(held->own.pool, NULL, NULL) == ACRE_OK;
}

/* Reads the memory that the pool holds, in MiB. */
static int held_now(struct held *held, double *mib) {
    acre_pool_stats stats = {.struct_size = sizeof stats};
    size_t free_bytes = 0;
    if (held->party == POOL_ACRE) {
        if (acre_pool_get_stats(held->own.pool, &stats)) {
            return 0;
        }
        *mib = (double)stats.held_bytes / (double)HELD_MIB;
        return 1;
    }
    if (!held_free_bytes(held, &free_bytes)) {
        return 0;
    }
    *mib = free_bytes < held->free_bytes
               ? (double)(held->free_bytes - free_bytes) / (double)HELD_MIB
               : 0;
    return 1;
}

/* ---- idle ------------------------------------------------------------------------------------ */

struct idle {
    struct held held;
    pthread_barrier_t done, end;
};

struct idle_thread {
    struct idle *idle;
    pthread_t id;
    int ok;
    char detail[256]; /* acre_last_detail is per thread */
};

POOL_INLINE int idle_blocks(const struct pool_bench *p, enum pool_party party) {
    for (unsigned i = 0; i < POOL_STREAMS; i++) {
        for (size_t bytes = 64 * HELD_KIB; bytes <= HELD_MIB; bytes += bytes / 8) {
            void *block = pool_alloc(p, party, bytes, p->streams[i]);
            if (!block || !pool_free(p, party, block, p->streams[i])) {
                return 0;
            }
        }
    }
    return 1;
}

/* Uses the pool and stays alive, so that its cache keeps its contents. */
static void *idle_run(void *user) {
    struct idle_thread *thread = user;
    struct held *held = &thread->idle->held;
    thread->ok = held->party != POOL_DRIVER ||
                 held->own.drv->cuCtxSetCurrent(held->own.context) == CUDA_SUCCESS;
    thread->ok = thread->ok && POOL_EACH(held->party, idle_blocks, &held->own);
    if (!thread->ok) {
        snprintf(thread->detail, sizeof thread->detail, "%s", cli_detail());
    }
    pthread_barrier_wait(&thread->idle->done);
    pthread_barrier_wait(&thread->idle->end);
    return NULL;
}

/* Returns 0 if a thread failed. */
static int idle_threads(struct idle *idle, unsigned count, double *mib) {
    struct idle_thread threads[HELD_MOST_THREADS] = {0};
    pthread_barrier_init(&idle->done, NULL, count + 1);
    pthread_barrier_init(&idle->end, NULL, count + 1);
    for (unsigned i = 0; i < count; i++) {
        threads[i].idle = idle;
        if (pthread_create(&threads[i].id, NULL, idle_run, &threads[i]) != 0) {
            cli_say("suite pool: cannot create more threads");
            exit(CLI_CANNOT); /* threads already created wait for the others */
        }
    }
    pthread_barrier_wait(&idle->done);
    int ok = held_now(&idle->held, mib);
    pthread_barrier_wait(&idle->end);
    for (unsigned i = 0; i < count; i++) {
        pthread_join(threads[i].id, NULL);
        if (!threads[i].ok) {
            bench_reason(idle->held.own.bench, threads[i].detail);
            ok = 0;
        }
    }
    pthread_barrier_destroy(&idle->done);
    pthread_barrier_destroy(&idle->end);
    return ok;
}

int pool_idle(struct pool_bench *p) {
    static const unsigned counts[] = {16, HELD_MOST_THREADS};
    enum pool_party parties[POOL_PARTIES];
    unsigned party_count = pool_parties(p, false, parties);
    char name[BENCH_NAME_BYTES];
    /* Without a bound each thread would keep some MiB for each stream. */
    if (!pool_has_room(p, "idle", 512 * HELD_MIB)) {
        return 1;
    }
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        snprintf(name, sizeof name, "idle, %u threads x %d streams: held", counts[i], POOL_STREAMS);
        for (unsigned k = 0; k < party_count; k++) {
            struct idle idle;
            double mib = 0;
            if (!held_begin(&idle.held, p, parties[k]) || !idle_threads(&idle, counts[i], &mib) ||
                !held_end(&idle.held)) {
                return 0;
            }
            bench_result(p->bench, name, pool_who(parties[k]), mib, "MiB");
        }
    }
    return 1;
}

/* ---- survivors ------------------------------------------------------------------------------- */

struct survivors {
    struct held held;
    void **blocks;
    size_t count, kept; /* blocks at first; survivors */
    uint64_t state;
};

/* Frees blocks at random until `kept` of `count` are left, at the front of the array. */
POOL_INLINE int survivors_fewer(struct survivors *s, size_t count, size_t kept,
                                enum pool_party party) {
    for (size_t left = count; left > kept; left--) {
        size_t at = pool_random(&s->state) % left;
        if (!pool_free(&s->held.own, party, s->blocks[at], s->held.own.streams[0])) {
            return 0;
        }
        s->blocks[at] = s->blocks[left - 1];
    }
    return 1;
}

POOL_INLINE int survivors_more(struct survivors *s, size_t from, size_t to, enum pool_party party) {
    for (size_t i = from; i < to; i++) {
        s->blocks[i] = pool_alloc(&s->held.own, party, SURVIVORS_BYTES, s->held.own.streams[0]);
        if (!s->blocks[i]) {
            return 0;
        }
    }
    return 1;
}

/* Waits for the stream first: a trim cannot release memory that still waits for it. */
static int survivors_trim(struct survivors *s) {
    struct pool_bench *own = &s->held.own;
    return acre_stream_sync(own->device, own->streams[0]) == ACRE_OK &&
           (s->held.party != POOL_ACRE || acre_pool_trim(own->pool, 0) == ACRE_OK);
}

/* Measures the memory held with the first survivors, and after all turnovers. */
POOL_INLINE int survivors_turn(struct survivors *s, double mib[2], enum pool_party party) {
    int ok = survivors_more(s, 0, s->count, party) && survivors_fewer(s, s->count, s->kept, party);
    ok = ok && survivors_trim(s) && held_now(&s->held, &mib[0]);
    for (unsigned i = 0; ok && i < SURVIVORS_TURNOVERS; i++) {
        ok = survivors_fewer(s, s->kept, s->kept / 2, party) &&
             survivors_more(s, s->kept / 2, s->kept, party) && survivors_trim(s);
    }
    return ok && held_now(&s->held, &mib[1]) && survivors_fewer(s, s->kept, 0, party);
}

int pool_survivors(struct pool_bench *p) {
    enum pool_party parties[POOL_PARTIES];
    unsigned party_count = pool_parties(p, false, parties);
    struct survivors s = {.count = pool_count(p, SURVIVORS_BLOCKS)};
    int ok = 1;
    s.kept = s.count / SURVIVORS_SHARE;
    if (!pool_has_room(p, "survivors", s.count * SURVIVORS_BYTES / 8 * 9 + 64 * HELD_MIB)) {
        return 1;
    }
    s.blocks = cli_alloc(s.count * sizeof *s.blocks);
    for (unsigned i = 0; ok && i < party_count; i++) {
        const char *who = pool_who(parties[i]);
        double mib[2] = {0};
        s.state = 88172645463325252;
        ok = held_begin(&s.held, p, parties[i]) && POOL_EACH(parties[i], survivors_turn, &s, mib) &&
             held_end(&s.held);
        if (ok) {
            bench_result(p->bench, "survivors: live", who,
                         (double)(s.kept * SURVIVORS_BYTES) / (double)HELD_MIB, "MiB");
            bench_result(p->bench, "survivors: held at first", who, mib[0], "MiB");
            bench_result(p->bench, "survivors: held after 80 turnovers", who, mib[1], "MiB");
        }
    }
    free(s.blocks);
    return ok;
}

/* ---- drift of sizes -------------------------------------------------------------------------- */

POOL_INLINE int drift_sizes(struct held *held, void **blocks, uint64_t live, double *peak,
                            enum pool_party party) {
    const struct pool_bench *p = &held->own;
    for (size_t bytes = 8 * HELD_KIB; bytes <= 2 * HELD_MIB; bytes += bytes / 9) {
        double now = 0;
        for (size_t i = 0; i < live / bytes; i++) {
            blocks[i] = pool_alloc(p, party, bytes, p->streams[0]);
            if (!blocks[i]) {
                return 0;
            }
        }
        if (!held_now(held, &now)) {
            return 0;
        }
        *peak = now > *peak ? now : *peak;
        for (size_t i = 0; i < live / bytes; i++) {
            if (!pool_free(p, party, blocks[i], p->streams[0])) {
                return 0;
            }
        }
        if (acre_stream_sync(p->device, p->streams[0])) {
            return 0;
        }
    }
    return 1;
}

int pool_drift_sizes(struct pool_bench *p) {
    enum pool_party parties[POOL_PARTIES];
    unsigned party_count = pool_parties(p, false, parties);
    uint64_t live = bench_is_quick(p->bench) ? 16 * HELD_MIB : DRIFT_LIVE_MIB * HELD_MIB;
    char what[BENCH_NAME_BYTES], name[2 * BENCH_NAME_BYTES];
    int ok = 1;
    snprintf(name, sizeof name, "%s live: held",
             bench_case_name("drift, synchronised,", live, what));
    if (!pool_has_room(p, "drift, synchronised", 2 * live)) {
        return 1;
    }
    void **blocks = cli_alloc(live / (8 * HELD_KIB) * sizeof *blocks);
    for (unsigned i = 0; ok && i < party_count; i++) {
        struct held held;
        double peak = 0;
        ok = held_begin(&held, p, parties[i]) &&
             POOL_EACH(parties[i], drift_sizes, &held, blocks, live, &peak) && held_end(&held);
        if (ok) {
            bench_result(p->bench, name, pool_who(parties[i]), peak, "MiB");
        }
    }
    free(blocks);
    return ok;
}
