/* The long-tailed mix: how much memory a pool reserves for the live blocks, and the time it takes.
 *
 * 20,000 operations. Sizes are log-uniform: 60 % of 512 B to 64 KiB, 30 % of 64 KiB to 4 MiB, 10 %
 * of 4 to 512 MiB. Before a block would raise live memory above 40 GiB, randomly chosen live blocks
 * are freed. All operations are drawn in advance and are the same for all parties. Each turn starts
 * with an empty pool. */
#include <math.h>
#include <stdlib.h>

#include "cli.h"
#include "pool_ops.h"

#define FRAG_GIB (UINT64_C(1) << 30)

enum { FRAG_OPS = 20000, FRAG_LIVE_GIB = 40, FRAG_LAG = 1000 };

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

static void frag_draw(struct pool_ops *ops, size_t count, uint64_t most_live) {
    uint64_t state = 0x2545f4914f6cdd1d;
    struct pool_op *now = cli_alloc(count * sizeof *now); /* the live blocks */
    size_t now_count = 0;
    uint32_t next = frag_size(&state);
    while (ops->count < count) {
        if (ops->live + next <= most_live) {
            now[now_count++] = (struct pool_op){pool_ops_alloc(ops, next), next};
            next = frag_size(&state);
        } else {
            struct pool_op *victim = &now[pool_random(&state) % now_count];
            pool_ops_free(ops, victim->block, victim->bytes);
            *victim = now[--now_count];
        }
    }
    free(now);
}

/* 40 GiB, if half as much again is free for the pool's overhead. Otherwise half of the free memory;
 * 0 if that is too little for the largest blocks. */
static uint64_t frag_most_live(const struct pool_bench *p) {
    char text[2][CLI_NUMBER_BYTES];
    uint64_t most = p->info.free_bytes / 2;
    if (p->info.free_bytes >= FRAG_LIVE_GIB * FRAG_GIB / 2 * 3) {
        return FRAG_LIVE_GIB * FRAG_GIB;
    }
    if (most < FRAG_GIB) {
        cli_say("suite pool: frag skipped: it needs %s of free device memory",
                cli_bytes(2 * FRAG_GIB, text[0]));
        return 0;
    }
    cli_say("suite pool: frag limited to %s live, not %d GiB: the device has %s free",
            cli_bytes(most, text[0]), FRAG_LIVE_GIB, cli_bytes(p->info.free_bytes, text[1]));
    return most;
}

int pool_frag(struct pool_bench *p) {
    struct pool_ops ops = {0};
    uint64_t most = frag_most_live(p);
    if (most == 0) {
        return 1;
    }
    frag_draw(&ops, pool_count(p, FRAG_OPS), most);
    int ok = pool_ops_measure(p, "frag", &ops, 0) && pool_ops_measure(p, "frag", &ops, FRAG_LAG);
    pool_ops_end(&ops);
    return ok;
}
