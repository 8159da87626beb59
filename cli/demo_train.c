/* Two parts of `acre demo` that do what a training program does, so that its report shows something
 * worth looking at: steps of a model with tags, in which activations come and go and a buffer is
 * reallocated; and a request that a limit refuses, with the out-of-memory report. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "demo.h"

#define TRAINED_MIB ((size_t)1 << 20)

enum { TRAINED_LAYERS = 8, TRAINED_STEPS = 6 };

struct trained {
    acre_device *device;
    acre_pool *pool;
    acre_stream stream;
    void *weights[TRAINED_LAYERS];
    void *tokens; /* a batch of another length in each step */
    size_t token_bytes;
    int moved; /* reallocs that changed the address */
    bool is_right;
    const char *doing;
};

#define TRAINED_TRY(trained, what, call)                                                           \
    do {                                                                                           \
        (trained)->doing = (what);                                                                 \
        acre_status trained_status = (call);                                                       \
        if (trained_status != ACRE_OK) {                                                           \
            return trained_status;                                                                 \
        }                                                                                          \
    } while (0)

/* Allocates with a tag. */
static acre_status trained_alloc(struct trained *trained, const char *tag, size_t bytes, void **p) {
    TRAINED_TRY(trained, "set a tag on", acre_tag_push(tag));
    acre_status status = acre_pool_alloc(trained->pool, bytes, 0, trained->stream, p);
    TRAINED_TRY(trained, "reset a tag on", acre_tag_pop());
    trained->doing = "allocate from a pool of";
    return status;
}

/* Makes the batch as long as this step needs, and checks that its first word is still there. */
static acre_status trained_tokens(struct trained *trained, int step) {
    size_t bytes = (size_t)(step + 1) * TRAINED_MIB;
    uint32_t word = 0xacce55;
    void *before = trained->tokens;
    if (!before) {
        TRAINED_TRY(trained, trained->doing,
                    trained_alloc(trained, "batch", bytes, &trained->tokens));
        TRAINED_TRY(trained, "copy to a pool of",
                    acre_copy_sync(trained->device, trained->tokens, &word, sizeof word));
    } else {
        TRAINED_TRY(
            trained, "reallocate a block of",
            acre_pool_realloc(trained->pool, before, bytes, trained->stream, &trained->tokens));
        trained->moved += trained->tokens != before;
        TRAINED_TRY(trained, "wait for", acre_stream_sync(trained->device, trained->stream));
        TRAINED_TRY(trained, "copy from a pool of",
                    acre_copy_sync(trained->device, &word, trained->tokens, sizeof word));
    }
    trained->is_right = trained->is_right && word == 0xacce55;
    trained->token_bytes = bytes;
    return ACRE_OK;
}

/* Forward: activations of every layer. Backward: gradients, in the opposite order. */
static acre_status trained_step(struct trained *trained, int step) {
    void *activations[TRAINED_LAYERS], *gradient, *work;
    char mark[32];
    snprintf(mark, sizeof mark, "step %d", step + 1);
    TRAINED_TRY(trained, "mark the trace of", acre_trace_mark(mark));
    TRAINED_TRY(trained, trained->doing, trained_tokens(trained, step));
    for (int i = 0; i < TRAINED_LAYERS; i++) {
        size_t bytes = trained->token_bytes / 2 * (size_t)(1 + i % 3);
        TRAINED_TRY(trained, trained->doing,
                    trained_alloc(trained, "activations", bytes, &activations[i]));
        TRAINED_TRY(trained, trained->doing,
                    trained_alloc(trained, "workspace", TRAINED_MIB / 2, &work));
        TRAINED_TRY(trained, "fill a block of",
                    acre_fill(trained->device, activations[i], (uint8_t)i, bytes, trained->stream));
        TRAINED_TRY(trained, "free a block of",
                    acre_pool_free(trained->pool, work, trained->stream));
    }
    for (int i = TRAINED_LAYERS - 1; i >= 0; i--) {
        TRAINED_TRY(trained, trained->doing,
                    trained_alloc(trained, "gradients", 2 * TRAINED_MIB, &gradient));
        TRAINED_TRY(trained, "free a block of",
                    acre_pool_free(trained->pool, activations[i], trained->stream));
        TRAINED_TRY(trained, "free a block of",
                    acre_pool_free(trained->pool, gradient, trained->stream));
    }
    return ACRE_OK;
}

static acre_status trained_run(struct trained *trained) {
    acre_pool_options options = {.struct_size = sizeof options};
    TRAINED_TRY(trained, "create a stream on",
                acre_stream_create(trained->device, ACRE_STREAM_NON_BLOCKING, &trained->stream));
    TRAINED_TRY(trained, "create a pool on",
                acre_pool_create(trained->device, &options, &trained->pool));
    TRAINED_TRY(trained, "set a tag on", acre_tag_push("model"));
    for (int i = 0; i < TRAINED_LAYERS; i++) {
        TRAINED_TRY(trained, trained->doing,
                    trained_alloc(trained, "weights", 2 * TRAINED_MIB, &trained->weights[i]));
    }
    for (int step = 0; step < TRAINED_STEPS; step++) {
        TRAINED_TRY(trained, trained->doing, trained_step(trained, step));
    }
    TRAINED_TRY(trained, "reset a tag on", acre_tag_pop());
    return ACRE_OK;
}

/* Frees what is left and destroys the pool. */
static acre_status trained_end(struct trained *trained) {
    TRAINED_TRY(trained, "mark the trace of", acre_trace_mark("end"));
    for (int i = 0; i < TRAINED_LAYERS; i++) {
        TRAINED_TRY(trained, "free a block of",
                    acre_pool_free(trained->pool, trained->weights[i], trained->stream));
    }
    TRAINED_TRY(trained, "free a block of",
                acre_pool_free(trained->pool, trained->tokens, trained->stream));
    TRAINED_TRY(trained, "destroy a pool of", acre_pool_destroy(trained->pool, NULL, NULL));
    TRAINED_TRY(trained, "destroy a stream of",
                acre_stream_destroy(trained->device, trained->stream));
    return ACRE_OK;
}

acre_status demo_train(acre_device *device, struct demo_part *part, const char **doing) {
    struct trained trained = {.device = device, .is_right = true};
    acre_pool_stats stats = {.struct_size = sizeof stats};
    char live[CLI_NUMBER_BYTES], held[CLI_NUMBER_BYTES];
    uint64_t begin = cli_now_ns();
    acre_status status = trained_run(&trained);
    if (status == ACRE_OK) {
        trained.doing = "read statistics of";
        status = acre_pool_get_stats(trained.pool, &stats);
    }
    *part = (struct demo_part){.name = "tags and realloc", .ok = trained.is_right};
    snprintf(part->text, sizeof part->text,
             "%d training steps with 5 tags: %s live at the end, %s held at most; a batch grew %d "
             "times, in place: %d, contents kept",
             TRAINED_STEPS, cli_bytes(stats.live_bytes, live),
             cli_bytes(stats.held_peak_bytes, held), TRAINED_STEPS - 1,
             TRAINED_STEPS - 1 - trained.moved);
    if (status == ACRE_OK) {
        status = trained_end(&trained);
    }
    part->time_ns = cli_now_ns() - begin;
    *doing = trained.doing;
    return status;
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* Fills a pool of 64 MiB until it refuses, and keeps the report. */
static acre_status limited_run(struct trained *trained, struct demo_part *part, char **report) {
    acre_pool_options options = {.struct_size = sizeof options, .limit_bytes = 64 * TRAINED_MIB};
    void *block;
    size_t needed = 0;
    TRAINED_TRY(trained, "create a stream on",
                acre_stream_create(trained->device, ACRE_STREAM_NON_BLOCKING, &trained->stream));
    TRAINED_TRY(trained, "create a pool on",
                acre_pool_create(trained->device, &options, &trained->pool));
    TRAINED_TRY(trained, trained->doing,
                trained_alloc(trained, "batch", 24 * TRAINED_MIB, &trained->tokens));
    for (int i = 0; i < TRAINED_LAYERS; i++) {
        TRAINED_TRY(trained, trained->doing,
                    trained_alloc(trained, "weights", 3 * TRAINED_MIB, &trained->weights[i]));
    }
    (void)acre_log_set(NULL, NULL, ACRE_LOG_ERROR); /* the refusal is expected */
    acre_status refused = trained_alloc(trained, "logits", 32 * TRAINED_MIB, &block);
    cli_log_to_stderr();
    part->ok = refused == ACRE_E_LIMIT;
    (void)acre_oom_report(ACRE_OOM_TEXT, NULL, 0, &needed);
    *report = cli_alloc(needed + 1);
    (*report)[0] = '\0';
    TRAINED_TRY(trained, "read the out-of-memory report of",
                acre_oom_report(ACRE_OOM_TEXT, *report, needed, &needed));
    return trained_end(trained);
}

acre_status demo_limit(acre_device *device, struct demo_part *part, char **report,
                       const char **doing) {
    struct trained trained = {.device = device};
    uint64_t begin = cli_now_ns();
    *part = (struct demo_part){.name = "limit and report"};
    acre_status status = limited_run(&trained, part, report);
    snprintf(part->text, sizeof part->text,
             "a pool of 64 MiB %s a block of 32 MiB with 48 MiB in use, and reports who has them",
             part->ok ? "refused" : "did not refuse");
    part->time_ns = cli_now_ns() - begin;
    *doing = trained.doing;
    return status;
}
