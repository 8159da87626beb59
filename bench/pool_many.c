/* Many streams of one pool, many pools, many small blocks.
 *
 *   streams  pairs of 4 KiB and of 64 KiB, round-robin over 4096 streams; pairs of 64 KiB over 1000
 *            pools, on one stream; and for the ratios a pair on one stream of one pool
 *   trim     8 million blocks of 256 bytes, allocated and freed: the time to release their memory
 * to the device
 *
 * A thread's cache has room for 4096 blocks of 4 KiB, but not of 64 KiB: those measure misses. */
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"
#include "pool_parties.h"

#define MANY_MIB (UINT64_C(1) << 20)

enum {
    MANY_STREAMS = 4096,
    MANY_SOFT_STREAMS = 4000, /* a soft device can have 4096 */
    MANY_POOLS = 1000,
    MANY_STEP_PAIRS = 256, /* between two clock reads */
    MANY_TURN_NS = 20000000,
    MANY_TRIM_BLOCKS = 8000000,
    MANY_TRIM_BYTES = 256,
    MANY_TRIM_ROUNDS = 3
};

/* ---- streams and pools ---- */

/* In the order of their turns. The driver's may be missing. */
enum many_turn { MANY_OF_ALL, MANY_OF_ONE, MANY_OF_DRIVER, MANY_TURNS };

/* `count` streams of one pool, or `count` pools with one stream. */
struct many {
    struct pool_bench *p;
    acre_stream *streams; /* NULL: pools are measured */
    acre_pool **pools;
    unsigned count;
    size_t bytes;            /* of each block */
    unsigned at[MANY_TURNS]; /* next stream or pool */
};

/* The next one, round-robin. */
static unsigned many_next(struct many *many, enum many_turn turn) {
    unsigned now = many->at[turn];
    many->at[turn] = now + 1 == many->count ? 0 : now + 1;
    return now;
}

POOL_INLINE int many_streams(struct many *many, uint64_t pairs, enum pool_party party) {
    enum many_turn turn = party == POOL_ACRE ? MANY_OF_ALL : MANY_OF_DRIVER;
    for (uint64_t i = 0; i < pairs; i++) {
        acre_stream stream = many->streams[many_next(many, turn)];
        void *block = pool_alloc(many->p, party, many->bytes, stream);
        if (!block || !pool_free(many->p, party, block, stream)) {
            return 0;
        }
    }
    return 1;
}

static int many_pools(struct many *many, uint64_t pairs) {
    acre_stream stream = many->p->streams[0];
    for (uint64_t i = 0; i < pairs; i++) {
        acre_pool *pool = many->pools[many_next(many, MANY_OF_ALL)];
        void *block = NULL;
        if (acre_pool_alloc(pool, many->bytes, 0, stream, &block) ||
            acre_pool_free(pool, block, stream)) {
            return 0;
        }
    }
    return 1;
}

static int many_step(struct many *many, enum many_turn turn, uint64_t pairs) {
    if (turn == MANY_OF_ONE) {
        return pool_pairs(many->p, many->bytes, many->p->streams[0], pairs, POOL_ACRE);
    }
    if (turn == MANY_OF_DRIVER) {
        return many_streams(many, pairs, POOL_DRIVER);
    }
    return many->streams ? many_streams(many, pairs, POOL_ACRE) : many_pools(many, pairs);
}

/* Runs pairs until the time is up: one may take tens of nanoseconds, or thousands. */
static int many_turn(void *user, unsigned turn, double *ns) {
    struct many *many = user;
    uint64_t begin = cli_now_ns(), pairs = 0, took = 0;
    do {
        if (!many_step(many, (enum many_turn)turn, MANY_STEP_PAIRS)) {
            return 0;
        }
        pairs += MANY_STEP_PAIRS;
        took = cli_now_ns() - begin;
    } while (took < MANY_TURN_NS);
    *ns = (double)took / (double)pairs;
    return 1;
}

/* Uses each once before the measurement: the first use takes memory from the device. */
static int many_measure(struct many *many, const char *what) {
    struct bench *bench = many->p->bench;
    bool has_driver = many->streams && many->p->party_count == POOL_PARTIES;
    double ns[BENCH_PARTIES][BENCH_FIGURES];
    char name[BENCH_NAME_BYTES], longer[2 * BENCH_NAME_BYTES];
    if (!many_step(many, MANY_OF_ALL, many->count) ||
        !bench_rounds(bench, many_turn, many, has_driver ? MANY_TURNS : MANY_OF_DRIVER, 1, ns)) {
        bench_blame(bench, false);
        return 0;
    }
    snprintf(name, sizeof name, "pair %zu, %u %s in turn", many->bytes, many->count, what);
    bench_result(bench, name, "acre", ns[MANY_OF_ALL][0], "ns/pair");
    if (has_driver) {
        bench_result(bench, name, "driver", ns[MANY_OF_DRIVER][0], "ns/pair");
    }
    snprintf(longer, sizeof longer, "%s / one alone", name);
    bench_result(bench, longer, "acre", ns[MANY_OF_ALL][0] / ns[MANY_OF_ONE][0], "times");
    return 1;
}

/* After a failure it makes no more acre calls, which could replace the detail. */
static int many_of_streams(struct pool_bench *p, unsigned count) {
    struct many many = {.p = p, .count = count, .bytes = 4096};
    acre_pool_stats stats = {.struct_size = sizeof stats};
    int ok = 1;
    many.streams = cli_alloc(count * sizeof *many.streams);
    for (unsigned i = 0; ok && i < count; i++) {
        ok = acre_stream_create(p->device, ACRE_STREAM_NON_BLOCKING | ACRE_STREAM_NO_CAPTURE,
                                &many.streams[i]) == ACRE_OK;
    }
    ok = ok && many_measure(&many, "streams");
    many.bytes = POOL_BLOCK_BYTES;
    ok = ok && many_measure(&many, "streams") && acre_pool_get_stats(p->pool, &stats) == ACRE_OK;
    if (ok) {
        char name[BENCH_NAME_BYTES];
        snprintf(name, sizeof name, "%u streams in turn: held", count);
        bench_result(p->bench, name, "acre", (double)stats.held_bytes / (double)MANY_MIB, "MiB");
    }
    for (unsigned i = 0; ok && i < count; i++) {
        ok = acre_stream_destroy(p->device, many.streams[i]) == ACRE_OK;
    }
    free(many.streams);
    return ok;
}

static int many_of_pools(struct pool_bench *p, unsigned count) {
    struct many many = {.p = p, .count = count, .bytes = POOL_BLOCK_BYTES};
    int ok = 1;
    many.pools = cli_alloc(count * sizeof *many.pools);
    for (unsigned i = 0; ok && i < count; i++) {
        ok = acre_pool_create(p->device, NULL, &many.pools[i]) == ACRE_OK;
    }
    ok = ok && many_measure(&many, "pools");
    for (unsigned i = 0; ok && i < count; i++) {
        ok = acre_pool_destroy(many.pools[i], NULL, NULL) == ACRE_OK;
    }
    free(many.pools);
    return ok;
}

/* Streams first, then pools: destroying a stream searches every pool, and destroying a pool waits
 * for every stream. */
int pool_many_streams(struct pool_bench *p) {
    unsigned streams = p->drv->is_soft ? MANY_SOFT_STREAMS : MANY_STREAMS, pools = MANY_POOLS;
    if (bench_is_quick(p->bench)) {
        streams = 64;
        pools = 16;
    }
    /* A pool holds at least one chunk of 2 MiB. */
    return !pool_has_room(p, "streams", (uint64_t)pools * 3 * MANY_MIB) ||
           (many_of_streams(p, streams) && many_of_pools(p, pools));
}

/* ---- trim ---- */

static int trim_fill(acre_pool *pool, acre_stream stream, void **blocks, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (acre_pool_alloc(pool, MANY_TRIM_BYTES, 0, stream, &blocks[i])) {
            return 0;
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (acre_pool_free(pool, blocks[i], stream)) {
            return 0;
        }
    }
    return 1;
}

static int trim_round(struct pool_bench *p, acre_pool *pool, void **blocks, size_t count,
                      double *seconds) {
    acre_pool_stats stats = {.struct_size = sizeof stats};
    if (!trim_fill(pool, p->streams[0], blocks, count) ||
        acre_stream_sync(p->device, p->streams[0])) {
        return 0;
    }
    uint64_t begin = cli_now_ns();
    acre_status status = acre_pool_trim(pool, 0);
    *seconds = (double)(cli_now_ns() - begin) / 1e9;
    if (status || acre_pool_get_stats(pool, &stats)) {
        return 0;
    }
    if (stats.held_bytes) {
        bench_finding(p->bench, "suite pool: trim: %llu bytes are still held",
                      (unsigned long long)stats.held_bytes);
    }
    return 1;
}

int pool_trim_case(struct pool_bench *p) {
    size_t count = pool_count(p, MANY_TRIM_BLOCKS);
    double seconds[MANY_TRIM_ROUNDS];
    char name[BENCH_NAME_BYTES];
    acre_pool *pool = NULL;
    int ok = 1;
    if (!pool_has_room(p, "trim", count * MANY_TRIM_BYTES / 8 * 9 + 16 * MANY_MIB)) {
        return 1;
    }
    if (acre_pool_create(p->device, NULL, &pool)) {
        return 0;
    }
    void **blocks = cli_alloc(count * sizeof *blocks);
    for (unsigned i = 0; ok && i < MANY_TRIM_ROUNDS; i++) {
        ok = trim_round(p, pool, blocks, count, &seconds[i]);
    }
    free(blocks);
    if (!ok || acre_pool_destroy(pool, NULL, NULL)) {
        return 0;
    }
    snprintf(name, sizeof name, "trim of %zu blocks", count);
    bench_result(p->bench, name, "acre", bench_median(seconds, MANY_TRIM_ROUNDS), "s");
    return 1;
}
