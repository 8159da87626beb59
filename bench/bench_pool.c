/* Stream-ordered allocation: acre's pool against the driver's (cuMemAllocAsync, if the driver has
 * it). glibc's malloc shows what a call costs at all on this machine.
 *
 *   pair          allocate a block and free it at once; malloc's block has 64 bytes. Also on the
 *                 legacy stream and on a stream that may be captured, where a hit must query the
 *                 driver
 *   random        1000 live blocks of 256 B to 2 MiB, log-uniform, replaced one by one
 *   live          blocks of 256 B to 4 KiB, replaced one by one, with more and more live blocks
 *   threads       pairs of 64 KiB, each thread with its own stream, all with one pool
 *   cross-thread  one thread allocates, another frees
 *   handover      as cross-thread, by eight pairs of threads, against their queues alone
 *   cross-stream  blocks are allocated on one stream and freed on another
 *   busy          the longest call while a host function blocks another stream
 *   frag          memory that a long-tailed mix of sizes needs (pool_frag.c)
 *   drift         memory that is needed if sizes change from step to step (pool_drift.c)
 *   idle          memory that idle threads and streams hold (pool_held.c)
 *   survivors     memory that few survivors among many small blocks hold (pool_held.c)
 *   streams       pairs on thousands of streams, and in a thousand pools, in turn (pool_many.c)
 *   trim          the time to release the memory of millions of small blocks (pool_many.c)
 *   use           speed of kernels and copies in a pool's memory, on a GPU (pool_use.c)
 *   trace         pairs of 64 KiB with and without a trace (pool_trace.c)
 *
 * These cases queue no work, except busy, use, and frag and drift with a lag: they measure the host
 * path. Sizes and positions are drawn before the clock starts and are the same for all parties. */
#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "pool_parties.h"

#define POOL_MIB (UINT64_C(1) << 20)

enum { POOL_DRAWS = 1 << 20, POOL_BUSY_MS = 50, POOL_BUSY_ROUNDS = 3 };

const char *pool_who(enum pool_party party) {
    static const char *const names[POOL_PARTIES] = {"acre", "driver", "malloc"};
    return names[party];
}

unsigned pool_parties(const struct pool_bench *p, bool with_malloc,
                      enum pool_party parties[POOL_PARTIES]) {
    unsigned count = 0;
    for (unsigned i = 0; i < p->party_count; i++) {
        if (with_malloc || p->parties[i] != POOL_MALLOC) {
            parties[count++] = p->parties[i];
        }
    }
    return count;
}

uint64_t pool_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

double pool_random_share(uint64_t *state) {
    return (double)(pool_random(state) >> 11) * 0x1p-53;
}

uint64_t pool_count(const struct pool_bench *p, uint64_t count) {
    return bench_is_quick(p->bench) ? count / 100 : count;
}

static void pool_report(const struct pool_bench *p, const char *name,
                        const enum pool_party *parties, unsigned count,
                        double ns[BENCH_PARTIES][BENCH_FIGURES]) {
    for (unsigned i = 0; i < count; i++) {
        bench_result(p->bench, name, pool_who(parties[i]), ns[i][0], "ns/pair");
    }
}

int pool_has_room(const struct pool_bench *p, const char *name, uint64_t bytes) {
    char text[CLI_NUMBER_BYTES];
    if (p->info.free_bytes >= bytes) {
        return 1;
    }
    cli_say("suite pool: %s skipped: it needs %s of free device memory", name,
            cli_bytes(bytes, text));
    return 0;
}

/* ---- pair ---- */

struct pool_pair {
    const struct pool_bench *p;
    const enum pool_party *parties;
    size_t bytes;
    uint64_t count;
    acre_stream stream;
};

static int pair_turn(void *user, unsigned party, double *ns) {
    const struct pool_pair *pair = user;
    uint64_t begin = cli_now_ns();
    int ok = POOL_EACH(pair->parties[party], pool_pairs, pair->p, pair->bytes, pair->stream,
                       pair->count);
    *ns = (double)(cli_now_ns() - begin) / (double)pair->count;
    return ok;
}

/* Measures pairs on streams without ACRE_STREAM_NO_CAPTURE. malloc, which has no streams, does not
 * take part. */
static int pool_pair_streams(struct pool_bench *p) {
    enum pool_party parties[POOL_PARTIES];
    unsigned count = pool_parties(p, false, parties);
    struct pool_pair pair = {p, parties, POOL_BLOCK_BYTES, pool_count(p, 100000), NULL};
    double ns[BENCH_PARTIES][BENCH_FIGURES];
    if (!bench_rounds(p->bench, pair_turn, &pair, count, 1, ns)) {
        return 0;
    }
    pool_report(p, "pair 65536, legacy stream", parties, count, ns);
    if (acre_stream_create(p->device, ACRE_STREAM_NON_BLOCKING, &pair.stream) ||
        !bench_rounds(p->bench, pair_turn, &pair, count, 1, ns)) {
        return 0;
    }
    pool_report(p, "pair 65536, stream may be captured", parties, count, ns);
    return acre_stream_destroy(p->device, pair.stream) == ACRE_OK;
}

static int pool_pair_cases(struct pool_bench *p) {
    static const size_t sizes[] = {256, POOL_BLOCK_BYTES, 2097152, 67108864};
    enum pool_party parties[POOL_PARTIES];
    unsigned count = pool_parties(p, true, parties);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct pool_pair pair = {p, parties, sizes[i], pool_count(p, 100000), p->streams[0]};
        double ns[BENCH_PARTIES][BENCH_FIGURES];
        char name[BENCH_NAME_BYTES];
        snprintf(name, sizeof name, "pair %zu", sizes[i]);
        /* Acre and the driver each hold one block. */
        if (!pool_has_room(p, name, 2 * sizes[i])) {
            continue;
        }
        if (!bench_rounds(p->bench, pair_turn, &pair, count, 1, ns)) {
            return 0;
        }
        pool_report(p, name, parties, count, ns);
        for (unsigned k = 0; sizes[i] == POOL_BLOCK_BYTES && k + 1 < count; k++) {
            bench_result(p->bench, "pair 65536 / malloc's pair", pool_who(parties[k]),
                         ns[k][0] / ns[count - 1][0], "times");
        }
    }
    return pool_pair_streams(p);
}

/* ---- many live blocks, one replaced at a time ---- */

/* The position to replace and the new size. After the last draw the first one follows. */
struct pool_draw {
    uint32_t place, bytes;
};

struct pool_live {
    const struct pool_bench *p;
    const enum pool_party *parties;
    unsigned party_count;
    struct pool_draw *draws;
    uint32_t live; /* blocks of each party */
    uint64_t count;
    void **blocks[POOL_PARTIES]; /* by turn; NULL until allocated */
    uint64_t at[POOL_PARTIES];   /* draws used so far */
};

static uint32_t size_log_uniform(uint64_t *state) {
    return (uint32_t)(256 * exp2(13 * pool_random_share(state))); /* 256 B to 2 MiB */
}

static uint32_t size_small(uint64_t *state) {
    return (uint32_t)(256 + pool_random(state) % (4096 - 256 + 1));
}

POOL_INLINE int live_loop(struct pool_live *live, unsigned turn, enum pool_party party) {
    void **blocks = live->blocks[turn];
    acre_stream stream = live->p->streams[0];
    for (uint64_t i = 0; i < live->count; i++) {
        const struct pool_draw *draw = &live->draws[live->at[turn]++ % POOL_DRAWS];
        void **block = &blocks[draw->place];
        if (*block && !pool_free(live->p, party, *block, stream)) {
            return 0;
        }
        *block = pool_alloc(live->p, party, draw->bytes, stream);
        if (!*block) {
            return 0;
        }
    }
    return 1;
}

static int live_turn(void *user, unsigned turn, double *ns) {
    struct pool_live *live = user;
    uint64_t begin = cli_now_ns();
    int ok = POOL_EACH(live->parties[turn], live_loop, live, turn);
    *ns = (double)(cli_now_ns() - begin) / (double)live->count;
    return ok;
}

POOL_INLINE int live_fill(struct pool_live *live, unsigned turn, uint32_t (*size)(uint64_t *),
                          enum pool_party party) {
    uint64_t state = 0x9e3779b97f4a7c15;
    for (uint32_t i = 0; i < live->live; i++) {
        live->blocks[turn][i] = pool_alloc(live->p, party, size(&state), live->p->streams[0]);
        if (!live->blocks[turn][i]) {
            bench_blame(live->p->bench, party != POOL_ACRE);
            return 0;
        }
    }
    return 1;
}

POOL_INLINE int live_empty(struct pool_live *live, unsigned turn, enum pool_party party) {
    int ok = 1;
    for (uint32_t i = 0; i < live->live; i++) {
        if (live->blocks[turn][i]) {
            ok = pool_free(live->p, party, live->blocks[turn][i], live->p->streams[0]) && ok;
        }
    }
    return ok;
}

/* Measures all parties. Each keeps its blocks live until the end and then frees them. */
static int live_measure(struct pool_live *live, uint32_t (*size)(uint64_t *),
                        double ns[BENCH_PARTIES][BENCH_FIGURES]) {
    uint64_t state = 88172645463325252;
    int ok = 1;
    live->draws = cli_alloc(POOL_DRAWS * sizeof *live->draws);
    for (uint32_t i = 0; i < POOL_DRAWS; i++) {
        live->draws[i].place = (uint32_t)(pool_random(&state) % live->live);
        live->draws[i].bytes = size(&state);
    }
    for (unsigned i = 0; ok && i < live->party_count; i++) {
        live->blocks[i] = cli_alloc(live->live * sizeof *live->blocks[i]);
        memset(live->blocks[i], 0, live->live * sizeof *live->blocks[i]);
        ok = POOL_EACH(live->parties[i], live_fill, live, i, size);
    }
    ok = ok && bench_rounds(live->p->bench, live_turn, live, live->party_count, 1, ns);
    for (unsigned i = 0; i < live->party_count && live->blocks[i]; i++) {
        /* After a failure, more calls of acre could replace the detail. */
        if (ok || live->parties[i] == POOL_MALLOC) {
            ok = POOL_EACH(live->parties[i], live_empty, live, i) && ok;
        }
        free(live->blocks[i]);
    }
    free(live->draws);
    return ok;
}

static int pool_random_case(struct pool_bench *p) {
    static const char name[] = "random 256B..2MiB 1000 live";
    enum pool_party parties[POOL_PARTIES];
    double ns[BENCH_PARTIES][BENCH_FIGURES];
    struct pool_live live = {
        .p = p, .parties = parties, .live = 1000, .count = pool_count(p, 50000)};
    live.party_count = pool_parties(p, true, parties);
    /* Each party has 232 MiB live; each size class in use has at least one slab. */
    if (!pool_has_room(p, name, 768 * POOL_MIB)) {
        return 1;
    }
    if (!live_measure(&live, size_log_uniform, ns)) {
        return 0;
    }
    pool_report(p, name, parties, live.party_count, ns);
    return 1;
}

/* Returns how many blocks can be live on this machine. malloc's blocks use host memory. */
static uint32_t live_most(const struct pool_bench *p) {
    uint64_t host =
        (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 4096 / 2;
    uint64_t most = p->info.free_bytes / 4096;
    most = host < most ? host : most;
    most = bench_is_quick(p->bench) && most > 10000 ? 10000 : most;
    return (uint32_t)(most < 1000000 ? most : 1000000);
}

static int pool_live_cases(struct pool_bench *p) {
    enum pool_party parties[POOL_PARTIES];
    unsigned count = pool_parties(p, true, parties);
    uint32_t most = live_most(p), last = 0;
    double ns[BENCH_PARTIES][BENCH_FIGURES], first[POOL_PARTIES] = {0};
    char name[BENCH_NAME_BYTES];
    for (int power = 3; power <= 6; power++) {
        struct pool_live live = {
            .p = p, .parties = parties, .party_count = count, .count = pool_count(p, 100000)};
        live.live = (uint32_t)exp10(power);
        snprintf(name, sizeof name, "live 1e%d", power);
        if (live.live > most) {
            if (!bench_is_quick(p->bench)) {
                cli_say("suite pool: %s skipped: there is not enough memory", name);
            }
            continue;
        }
        if (!live_measure(&live, size_small, ns)) {
            return 0;
        }
        pool_report(p, name, parties, count, ns);
        for (unsigned i = 0; i < count && power == 3; i++) {
            first[i] = ns[i][0];
        }
        last = (uint32_t)power;
    }
    snprintf(name, sizeof name, "live 1e%u / live 1e3", last);
    for (unsigned i = 0; i < count && last > 3; i++) {
        bench_result(p->bench, name, pool_who(parties[i]), ns[i][0] / first[i], "times");
    }
    return 1;
}

/* ---- cross-stream ---- */

POOL_INLINE int cross_loop(const struct pool_bench *p, uint64_t count, enum pool_party party) {
    for (uint64_t i = 0; i < count; i++) {
        void *block = pool_alloc(p, party, POOL_BLOCK_BYTES, p->streams[0]);
        if (!block || !pool_free(p, party, block, p->streams[1])) {
            return 0;
        }
    }
    return 1;
}

static int cross_turn(void *user, unsigned party, double *ns) {
    const struct pool_pair *pair = user;
    uint64_t begin = cli_now_ns();
    int ok = POOL_EACH(pair->parties[party], cross_loop, pair->p, pair->count);
    *ns = (double)(cli_now_ns() - begin) / (double)pair->count;
    return ok;
}

static int pool_cross_stream(struct pool_bench *p) {
    enum pool_party parties[POOL_PARTIES];
    unsigned count = pool_parties(p, false, parties);
    struct pool_pair pair = {p, parties, POOL_BLOCK_BYTES, pool_count(p, 50000), NULL};
    double ns[BENCH_PARTIES][BENCH_FIGURES];
    if (!bench_rounds(p->bench, cross_turn, &pair, count, 1, ns)) {
        return 0;
    }
    pool_report(p, "cross-stream", parties, count, ns);
    return 1;
}

/* ---- busy ---- */

static void busy_sleep(void *user) {
    struct timespec pause = {0, POOL_BUSY_MS * 1000000L};
    (void)user;
    nanosleep(&pause, NULL);
}

static void busy_note(uint64_t begin, double *longest) {
    double ns = (double)(cli_now_ns() - begin);
    *longest = ns > *longest ? ns : *longest;
}

/* Allocates blocks of increasing sizes, so that the pool also needs new memory. Frees half of them
 * on the blocked stream: the pool must not wait for that memory. */
POOL_INLINE int busy_calls(const struct pool_bench *p, double *longest, enum pool_party party) {
    size_t most = p->info.free_bytes < 512 * POOL_MIB ? 1 << 20 : 32 << 20;
    for (size_t bytes = 256; bytes <= most; bytes *= 2) {
        for (unsigned i = 0; i < 4; i++) {
            uint64_t begin = cli_now_ns();
            void *block = pool_alloc(p, party, bytes, p->streams[0]);
            busy_note(begin, longest);
            begin = cli_now_ns();
            if (!block || !pool_free(p, party, block, p->streams[i % 2])) {
                return 0;
            }
            busy_note(begin, longest);
        }
    }
    return 1;
}

static int pool_busy(struct pool_bench *p) {
    enum pool_party parties[POOL_PARTIES];
    unsigned count = pool_parties(p, false, parties);
    for (unsigned i = 0; i < count; i++) {
        double longest[POOL_BUSY_ROUNDS] = {0};
        for (unsigned round = 0; round < POOL_BUSY_ROUNDS; round++) {
            bench_blame(p->bench, true);
            if (p->drv->cuLaunchHostFunc(p->streams[1], busy_sleep, NULL)) {
                return 0;
            }
            bench_blame(p->bench, parties[i] != POOL_ACRE);
            if (!POOL_EACH(parties[i], busy_calls, p, &longest[round])) {
                return 0;
            }
            uint64_t begin = cli_now_ns();
            if (parties[i] == POOL_ACRE && acre_pool_trim(p->pool, 0)) {
                return 0;
            }
            busy_note(begin, &longest[round]);
            bench_blame(p->bench, true);
            if (p->drv->cuStreamSynchronize(p->streams[1]) ||
                p->drv->cuStreamSynchronize(p->streams[0])) {
                return 0;
            }
        }
        bench_result(p->bench, "busy", pool_who(parties[i]),
                     bench_median(longest, POOL_BUSY_ROUNDS) / 1e6, "ms");
    }
    bench_blame(p->bench, false);
    return 1;
}

/* ---- the suite ---- */

static unsigned pool_cores(void) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned most = cores > POOL_STREAMS ? POOL_STREAMS : cores < 1 ? 1 : (unsigned)cores;
    unsigned threads = 1;
    while (2 * threads <= most) {
        threads *= 2;
    }
    return threads;
}

static int pool_begin(struct pool_bench *p) {
    p->parties[p->party_count++] = POOL_ACRE;
    if (p->drv->is_soft) {
        cli_say("suite pool: driver skipped: the soft device emulates its behaviour, not its "
                "speed");
    } else if (p->drv->missing[ACRE__ENTRY_cuMemAllocAsync] ||
               p->drv->missing[ACRE__ENTRY_cuMemFreeAsync]) {
        cli_say("suite pool: driver skipped: it lacks cuMemAllocAsync");
    } else {
        p->parties[p->party_count++] = POOL_DRIVER;
    }
    p->parties[p->party_count++] = POOL_MALLOC;
    p->threads = pool_cores();
    if (p->drv->cuCtxGetCurrent(&p->context)) {
        bench_blame(p->bench, true);
        return 0;
    }
    for (unsigned i = 0; i < POOL_STREAMS; i++) {
        if (acre_stream_create(p->device, ACRE_STREAM_NON_BLOCKING | ACRE_STREAM_NO_CAPTURE,
                               &p->streams[i])) {
            return 0;
        }
    }
    return acre_pool_create(p->device, NULL, &p->pool) == ACRE_OK;
}

static int pool_end(struct pool_bench *p) {
    uint64_t leaks = 0;
    if (acre_pool_destroy(p->pool, &leaks, NULL)) {
        return 0;
    }
    if (leaks) {
        cli_say("suite pool: %llu blocks leaked", (unsigned long long)leaks);
        return 0;
    }
    for (unsigned i = 0; i < POOL_STREAMS; i++) {
        if (acre_stream_destroy(p->device, p->streams[i])) {
            return 0;
        }
    }
    return 1;
}

/* Releases the memory of the previous case. */
static int pool_settle(struct pool_bench *p) {
    bench_blame(p->bench, false);
    return acre_device_sync(p->device) == ACRE_OK && acre_pool_trim(p->pool, 0) == ACRE_OK &&
           acre_device_get_info(p->device, &p->info) == ACRE_OK;
}

static const struct {
    const char *name;
    int (*run)(struct pool_bench *p);
} pool_cases[] = {{"pair", pool_pair_cases},
                  {"random", pool_random_case},
                  {"threads", pool_thread_cases},
                  {"cross-thread", pool_cross_thread},
                  {"handover", pool_handover},
                  {"cross-stream", pool_cross_stream},
                  {"live", pool_live_cases},
                  {"busy", pool_busy},
                  {"frag", pool_frag},
                  {"drift", pool_drift},
                  {"idle", pool_idle},
                  {"survivors", pool_survivors},
                  {"streams", pool_many_streams},
                  {"trim", pool_trim_case},
                  {"use", pool_use},
                  {"trace", pool_trace_cases}};

enum { POOL_CASES = sizeof pool_cases / sizeof pool_cases[0] };

const char *bench_pool_case(size_t index) {
    return index < POOL_CASES ? pool_cases[index].name : NULL;
}

int bench_pool(struct bench *bench) {
    struct pool_bench p = {.bench = bench,
                           .device = bench_device(bench),
                           .drv = bench_driver(bench),
                           .info = {.struct_size = sizeof p.info}};
    if (!pool_begin(&p)) {
        return 1;
    }
    for (size_t i = 0; i < POOL_CASES; i++) {
        if (!bench_is_case_wanted(bench, pool_cases[i].name)) {
            continue;
        }
        if (!pool_settle(&p) || !pool_cases[i].run(&p)) {
            return 1; /* without cleaning up: more calls could replace the detail */
        }
    }
    bench_blame(bench, false);
    return !pool_end(&p);
}
