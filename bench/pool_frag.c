/* The long-tailed mix: how much memory a pool needs for what is live, and what that costs.
 *
 * 20,000 operations. Sizes are log-uniform: 60 % of 512 B to 64 KiB, 30 % of 64 KiB to 4 MiB, 10 %
 * of 4 to 512 MiB. A block that would bring more than 40 GiB to life waits until blocks chosen
 * evenly among the live ones are freed. Everything is drawn before, alike for all parties, and each
 * turn begins with a pool that has nothing.
 *
 * What is reserved is what the driver says is no longer free, asked after each operation and
 * outside of the clock. */
#include <math.h>

#include "cli.h"
#include "pool_parties.h"

#define FRAG_GIB (UINT64_C(1) << 30)

enum { FRAG_OPS = 20000, FRAG_LIVE_GIB = 40 };

struct frag_op {
    uint32_t place; /* of the block, each used once */
    uint32_t bytes; /* 0: it is freed */
};

struct frag {
    struct pool_bench *p;
    enum pool_party parties[POOL_PARTIES];
    struct frag_op *ops;
    size_t count;
    uint64_t peak_live;
    void **blocks; /* by place; NULL for those that are not live */
};

/* ---- drawing --------------------------------------------------------------------------------- */

static uint32_t frag_size(uint64_t *state) {
    static const struct {
        double share, low, high;
    } kinds[] = {{0.6, 512, 65536}, {0.9, 65536, 4194304}, {1, 4194304, 536870912}};
    double which = pool_random_share(state), at = pool_random_share(state);
    size_t i = 0;
    while (which >= kinds[i].share) {
        i++;
    }
    return (uint32_t)(kinds[i].low * pow(kinds[i].high / kinds[i].low, at));
}

static void frag_draw(struct frag *frag, size_t count, uint64_t most_live) {
    uint64_t state = 0x2545f4914f6cdd1d, live = 0;
    struct frag_op *now = cli_alloc(count * sizeof *now); /* the live blocks */
    size_t now_count = 0;
    uint32_t next = frag_size(&state), place = 0;
    frag->ops = cli_alloc(count * sizeof *frag->ops);
    frag->blocks = cli_alloc(count * sizeof *frag->blocks);
    for (frag->count = 0; frag->count < count; frag->count++) {
        struct frag_op *op = &frag->ops[frag->count];
        if (live + next <= most_live) {
            *op = now[now_count++] = (struct frag_op){place++, next};
            live += next;
            next = frag_size(&state);
        } else {
            struct frag_op *victim = &now[pool_random(&state) % now_count];
            *op = (struct frag_op){victim->place, 0};
            live -= victim->bytes;
            *victim = now[--now_count];
        }
        frag->peak_live = live > frag->peak_live ? live : frag->peak_live;
    }
    free(now);
}

/* ---- one turn -------------------------------------------------------------------------------- */

static int frag_free_bytes(const struct pool_bench *p, size_t *bytes) {
    size_t total = 0;
    return p->drv->cuMemGetInfo(bytes, &total) == CUDA_SUCCESS;
}

/* The operations, with the time that they took and the least memory that was free. */
POOL_INLINE int frag_loop(struct frag *frag, uint64_t *took_ns, size_t *least,
                          enum pool_party party) {
    const struct pool_bench *p = frag->p;
    acre_stream stream = p->streams[0];
    for (size_t i = 0; i < frag->count; i++) {
        const struct frag_op *op = &frag->ops[i];
        void **block = &frag->blocks[op->place], *fresh = NULL;
        size_t free_bytes = 0;
        uint64_t begin = cli_now_ns();
        int ok = op->bytes ? (fresh = pool_alloc(p, party, op->bytes, stream)) != NULL
                           : pool_free(p, party, *block, stream);
        *took_ns += cli_now_ns() - begin;
        if (!ok || !frag_free_bytes(p, &free_bytes)) {
            return 0;
        }
        *block = fresh;
        *least = free_bytes < *least ? free_bytes : *least;
    }
    return 1;
}

POOL_INLINE int frag_empty(struct frag *frag, enum pool_party party) {
    int ok = 1;
    for (size_t i = 0; ok && i < frag->count; i++) {
        if (frag->blocks[i]) {
            ok = pool_free(frag->p, party, frag->blocks[i], frag->p->streams[0]);
            frag->blocks[i] = NULL;
        }
    }
    return ok;
}

/* What the party before left goes back to the device first. */
static int frag_settle(const struct pool_bench *p) {
    return acre_device_sync(p->device) == ACRE_OK && acre_trim(p->device) == ACRE_OK;
}

static int frag_turn(void *user, unsigned turn, double *figures) {
    struct frag *frag = user;
    struct pool_bench *p = frag->p;
    enum pool_party party = frag->parties[turn];
    acre_pool *shared = p->pool;
    uint64_t took_ns = 0;
    size_t before = 0;
    if (!frag_settle(p) || !frag_free_bytes(p, &before)) {
        return 0;
    }
    if (party == POOL_ACRE && acre_pool_create(p->device, NULL, &p->pool)) {
        p->pool = shared;
        return 0;
    }
    size_t least = before;
    int ok = POOL_EACH(party, frag_loop, frag, &took_ns, &least);
    ok = ok && POOL_EACH(party, frag_empty, frag);
    if (party == POOL_ACRE &&
        ok) { /* after a failure nothing more, which could replace the detail */
        ok = acre_pool_destroy(p->pool, NULL, NULL) == ACRE_OK;
    }
    p->pool = shared;
    figures[0] = (double)took_ns / (double)frag->count;
    figures[1] = (double)(before - least) / (double)frag->peak_live;
    return ok;
}

/* ---- the case -------------------------------------------------------------------------------- */

/* 40 GiB, where half as much again is free for what a pool needs beyond; elsewhere half of what is
 * free, and 0 when that is too little for the largest blocks. */
static uint64_t frag_most_live(const struct pool_bench *p) {
    char text[2][CLI_NUMBER_BYTES];
    uint64_t most = p->info.free_bytes / 2;
    if (p->info.free_bytes >= FRAG_LIVE_GIB * FRAG_GIB / 2 * 3) {
        return FRAG_LIVE_GIB * FRAG_GIB;
    }
    if (most < FRAG_GIB) {
        cli_say("suite pool: frag is left out: it needs a device with %s free",
                cli_bytes(2 * FRAG_GIB, text[0]));
        return 0;
    }
    cli_say("suite pool: frag has at most %s live, not %d GiB: the device has %s free",
            cli_bytes(most, text[0]), FRAG_LIVE_GIB, cli_bytes(p->info.free_bytes, text[1]));
    return most;
}

int pool_frag(struct pool_bench *p) {
    struct frag frag = {.p = p};
    unsigned count = pool_parties(p, false, frag.parties);
    uint64_t most = frag_most_live(p);
    double figures[BENCH_PARTIES][BENCH_FIGURES];
    if (most == 0) {
        return 1;
    }
    frag_draw(&frag, pool_count(p, FRAG_OPS), most);
    int ok = bench_rounds(p->bench, frag_turn, &frag, count, 2, figures);
    for (unsigned i = 0; ok && i < count; i++) {
        bench_result(p->bench, "frag", pool_who(frag.parties[i]), figures[i][1], "ratio");
        bench_result(p->bench, "frag", pool_who(frag.parties[i]), figures[i][0], "ns/op");
    }
    free(frag.ops);
    free(frag.blocks);
    return ok;
}
