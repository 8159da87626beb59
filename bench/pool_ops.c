/* Lists of allocations and frees: see pool_ops.h. */
#include "pool_ops.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli.h"
#include "replay_lag.h"

struct turns {
    struct pool_bench *p;
    const struct pool_ops *ops;
    uint64_t lag;
    enum pool_party parties[POOL_PARTIES];
    void **blocks; /* by number; NULL if not live */
    uint32_t *bytes;
};

/* ---- drawing --------------------------------------------------------------------------------- */

static void ops_add(struct pool_ops *ops, struct pool_op op) {
    if (ops->count == ops->room) {
        ops->room = ops->room ? 2 * ops->room : 1024;
        ops->list = reallocarray(ops->list, ops->room, sizeof *ops->list);
        if (!ops->list) {
            cli_say("out of memory");
            exit(CLI_CANNOT);
        }
    }
    ops->list[ops->count++] = op;
}

uint32_t pool_ops_alloc(struct pool_ops *ops, uint32_t bytes) {
    ops_add(ops, (struct pool_op){ops->blocks, bytes});
    ops->live += bytes;
    ops->peak_live = ops->live > ops->peak_live ? ops->live : ops->peak_live;
    return ops->blocks++;
}

void pool_ops_free(struct pool_ops *ops, uint32_t block, uint32_t bytes) {
    ops_add(ops, (struct pool_op){block, 0});
    ops->live -= bytes;
}

void pool_ops_end(struct pool_ops *ops) {
    free(ops->list);
    *ops = (struct pool_ops){0};
}

/* ---- one turn -------------------------------------------------------------------------------- */

static int ops_free_bytes(const struct pool_bench *p, size_t *bytes) {
    size_t total = 0;
    return p->drv->cuMemGetInfo(bytes, &total) == CUDA_SUCCESS;
}

/* Runs the operations. Measures their time and the minimum of free memory. */
POOL_INLINE int ops_loop(struct turns *turns, struct lag *lag, uint64_t *took_ns, size_t *least,
                         enum pool_party party) {
    const struct pool_bench *p = turns->p;
    acre_stream stream = p->streams[0];
    for (size_t i = 0; i < turns->ops->count; i++) {
        const struct pool_op *op = &turns->ops->list[i];
        void **block = &turns->blocks[op->block], *fresh = NULL;
        uint32_t *bytes = &turns->bytes[op->block];
        size_t free_bytes = 0;
        if (!op->bytes && lag_work(lag, stream, *block, *bytes)) {
            return 0;
        }
        uint64_t begin = cli_now_ns();
        int ok = op->bytes ? (fresh = pool_alloc(p, party, op->bytes, stream)) != NULL
                           : pool_free(p, party, *block, stream);
        *took_ns += cli_now_ns() - begin;
        if (!ok || !ops_free_bytes(p, &free_bytes) ||
            (fresh && lag_work(lag, stream, fresh, op->bytes))) {
            return 0;
        }
        *block = fresh;
        *bytes = op->bytes;
        *least = free_bytes < *least ? free_bytes : *least;
    }
    return 1;
}

POOL_INLINE int ops_clear(struct turns *turns, enum pool_party party) {
    int ok = 1;
    for (size_t i = 0; ok && i < turns->ops->blocks; i++) {
        if (turns->blocks[i]) {
            ok = pool_free(turns->p, party, turns->blocks[i], turns->p->streams[0]);
            turns->blocks[i] = NULL;
        }
    }
    return ok;
}

/* First returns the memory of the previous party to the device. */
static int ops_settle(const struct pool_bench *p) {
    return acre_device_sync(p->device) == ACRE_OK && acre_trim(p->device) == ACRE_OK;
}

static int ops_turn(void *user, unsigned turn, double *figures) {
    struct turns *turns = user;
    struct pool_bench *p = turns->p;
    enum pool_party party = turns->parties[turn];
    acre_pool *shared = p->pool;
    struct lag *lag = NULL;
    uint64_t took_ns = 0;
    size_t before = 0;
    if (!ops_settle(p) || !ops_free_bytes(p, &before) ||
        lag_begin(p->device, turns->lag, 0, &lag)) {
        return 0;
    }
    if (party == POOL_ACRE && acre_pool_create(p->device, NULL, &p->pool)) {
        p->pool = shared;
        lag_end(lag);
        return 0;
    }
    size_t least = before;
    int ok = POOL_EACH(party, ops_loop, turns, lag, &took_ns, &least);
    ok = ok && POOL_EACH(party, ops_clear, turns);
    if (ok) { /* after a failure, more calls could replace the detail */
        lag_end(lag);
        ok = party != POOL_ACRE || acre_pool_destroy(p->pool, NULL, NULL) == ACRE_OK;
    }
    p->pool = shared;
    figures[0] = (double)took_ns / (double)turns->ops->count;
    figures[1] = (double)(before - least) / (double)turns->ops->peak_live;
    return ok;
}

int pool_ops_measure(struct pool_bench *p, const char *name, struct pool_ops *ops, uint64_t lag) {
    struct turns turns = {.p = p, .ops = ops, .lag = lag};
    unsigned count = pool_parties(p, false, turns.parties);
    double figures[BENCH_PARTIES][BENCH_FIGURES];
    char title[BENCH_NAME_BYTES];
    if (!p->drv->is_soft && lag > LAG_GPU_OPERATIONS) {
        cli_say("suite pool: %s at lag %llu skipped: a GPU can lag at most %d operations", name,
                (unsigned long long)lag, LAG_GPU_OPERATIONS);
        return 1;
    }
    snprintf(title, sizeof title, lag ? "%s, lag %llu" : "%s", name, (unsigned long long)lag);
    turns.blocks = cli_alloc(ops->blocks * sizeof *turns.blocks);
    turns.bytes = cli_alloc(ops->blocks * sizeof *turns.bytes);
    int ok = bench_rounds(p->bench, ops_turn, &turns, count, 2, figures);
    for (unsigned i = 0; ok && i < count; i++) {
        bench_result(p->bench, title, pool_who(turns.parties[i]), figures[i][1], "ratio");
        bench_result(p->bench, title, pool_who(turns.parties[i]), figures[i][0], "ns/op");
    }
    free(turns.blocks);
    free(turns.bytes);
    return ok;
}
