/* Sizes that change from step to step, as in training on sequences of varying length: how much
 * memory a pool reserves for the live blocks.
 *
 * A step has 16 layers. In the forward pass each layer leaves six activations for the backward
 * pass. One of them grows with the square of the length. The backward pass frees them from last to
 * first; gradients of the same sizes live for one layer. Weights stay live throughout. Lengths are
 * random, so hardly any hole of the previous step has the right size.
 *
 * Before that runs the synchronised drift case, in which the host waits for the device between
 * sizes: see pool_held.c. */
#include "cli.h"
#include "pool_ops.h"

enum {
    DRIFT_STEPS = 100,
    DRIFT_LAYERS = 16,
    DRIFT_KEPT = 6, /* activations of a layer */
    DRIFT_WIDTH = 512,
    DRIFT_WEIGHTS = 64, /* count; each has 4 MiB */
    DRIFT_WEIGHT_BYTES = 4 << 20,
    DRIFT_TOKENS = 8192 /* of a batch, for any length */
};

struct drift_step {
    uint32_t length, batch;
};

static uint32_t drift_bytes(const struct drift_step *step, unsigned which) {
    uint32_t tokens = step->length * step->batch;
    static const uint32_t widths[DRIFT_KEPT] = {1, 3, 0, 1, 4, 4}; /* 0: attention, by length */
    if (widths[which] == 0) {
        return step->batch * 8 * step->length * step->length * 2;
    }
    return tokens * DRIFT_WIDTH * widths[which] * 2;
}

static void drift_step(struct pool_ops *ops, const struct drift_step *step) {
    uint32_t kept[DRIFT_LAYERS][DRIFT_KEPT];
    for (unsigned layer = 0; layer < DRIFT_LAYERS; layer++) {
        for (unsigned i = 0; i < DRIFT_KEPT; i++) {
            uint32_t scratch = pool_ops_alloc(ops, drift_bytes(step, i) / 2);
            kept[layer][i] = pool_ops_alloc(ops, drift_bytes(step, i));
            pool_ops_free(ops, scratch, drift_bytes(step, i) / 2);
        }
    }
    for (unsigned layer = DRIFT_LAYERS; layer-- > 0;) {
        for (unsigned i = DRIFT_KEPT; i-- > 0;) {
            uint32_t gradient = pool_ops_alloc(ops, drift_bytes(step, i));
            pool_ops_free(ops, kept[layer][i], drift_bytes(step, i));
            pool_ops_free(ops, gradient, drift_bytes(step, i));
        }
    }
}

int pool_drift(struct pool_bench *p) {
    static const uint64_t lags[] = {0, 1000, 100000};
    struct pool_ops ops = {0};
    uint64_t state = 0x9e3779b97f4a7c15, needed = UINT64_C(24) << 30;
    char text[CLI_NUMBER_BYTES];
    int ok = pool_drift_sizes(p);
    if (!ok) {
        return 0;
    }
    if (p->info.free_bytes < needed) {
        cli_say("suite pool: drift skipped: it needs %s of free device memory",
                cli_bytes(needed, text));
        return 1;
    }
    for (unsigned i = 0; i < DRIFT_WEIGHTS; i++) {
        (void)pool_ops_alloc(&ops, DRIFT_WEIGHT_BYTES);
    }
    for (uint64_t i = 0; i < pool_count(p, DRIFT_STEPS) + 4; i++) {
        struct drift_step step = {.length = 64 + (uint32_t)(pool_random(&state) % 1985)};
        step.batch = DRIFT_TOKENS / step.length;
        step.batch = step.batch > 16 ? 16 : step.batch;
        drift_step(&ops, &step);
    }
    for (size_t i = 0; ok && i < sizeof lags / sizeof *lags; i++) {
        ok = pool_ops_measure(p, "drift", &ops, lags[i]);
    }
    pool_ops_end(&ops);
    return ok;
}
