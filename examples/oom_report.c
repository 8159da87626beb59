/* Runs out of memory on purpose and prints the report: tagged blocks on two streams, then a block
 * that is too large.
 *
 *     oom_report [--json]
 *
 * It uses at most 64 MiB: the soft device has no more, and on a GPU a pool gets that limit, since
 * filling the card would take memory from other programs. */
#include <acre.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

enum { LAYERS = 12 };

static acre_device *device;
static acre_pool *pool;
static acre_stream compute, transfer;

/* Ends the program on any failure but the intended one. */
static void need(acre_status status, const char *what) {
    if (status == ACRE_OK) {
        return;
    }
    fprintf(stderr, "%s: %s (%s)\n", what, acre_status_text(status), acre_last_detail());
    exit(2);
}

/* Opens a small soft device, or limits the pool on a GPU. */
static void open_small(void) {
    const acre_open_options small = {.struct_size = sizeof small, .soft_bytes = 64 * MIB};
    acre_device_info info = {.struct_size = sizeof info};
    acre_pool_options options = {.struct_size = sizeof options};
    need(acre_open("auto", &small, &device), "acre_open");
    need(acre_device_get_info(device, &info), "acre_device_get_info");
    if (strcmp(info.driver, "soft") != 0) {
        options.limit_bytes = 64 * MIB;
    }
    need(acre_pool_create(device, &options, &pool), "acre_pool_create");
    need(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &compute), "acre_stream_create");
    need(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &transfer), "acre_stream_create");
}

/* A step of training: weights that stay, activations for each layer, and buffers on another stream,
 * half of which are freed again. */
static void fill(void) {
    void *block, *buffers[LAYERS];
    need(acre_tag_push("model"), "acre_tag_push");
    need(acre_tag_push("weights"), "acre_tag_push");
    need(acre_pool_alloc(pool, 20 * MIB, 0, compute, &block), "acre_pool_alloc");
    need(acre_tag_pop(), "acre_tag_pop");
    need(acre_tag_push("activations"), "acre_tag_push");
    for (int i = 0; i < LAYERS; i++) {
        need(acre_pool_alloc(pool, 2 * MIB, 0, compute, &block), "acre_pool_alloc");
    }
    need(acre_tag_pop(), "acre_tag_pop");
    need(acre_tag_pop(), "acre_tag_pop");
    need(acre_tag_push("input"), "acre_tag_push");
    for (int i = 0; i < LAYERS; i++) {
        need(acre_pool_alloc(pool, 300 << 10, 0, transfer, &buffers[i]), "acre_pool_alloc");
        need(acre_fill(device, buffers[i], 1, 300 << 10, transfer), "acre_fill");
    }
    for (int i = 0; i < LAYERS; i += 2) {
        need(acre_pool_free(pool, buffers[i], transfer), "acre_pool_free");
    }
    need(acre_tag_pop(), "acre_tag_pop");
}

static char *report(acre_oom_format format) {
    size_t bytes;
    need(acre_oom_report(format, NULL, 0, &bytes), "acre_oom_report");
    char *text = malloc(bytes);
    if (!text) {
        exit(2);
    }
    need(acre_oom_report(format, text, bytes, &bytes), "acre_oom_report");
    return text;
}

/* Reads a number from the report's JSON, without a library. */
static uint64_t number(const char *json, const char *name) {
    const char *at = strstr(json, name);
    return at ? strtoull(at + strlen(name) + 2, NULL, 10) : 0;
}

int main(int argc, char **argv) {
    const int is_json = argc > 1 && strcmp(argv[1], "--json") == 0;
    void *block;
    open_small();
    fill();
    need(acre_tag_push("optimizer"), "acre_tag_push");
    acre_status status = acre_pool_alloc(pool, 24 * MIB, 0, compute, &block);
    if (status != ACRE_E_DEVICE_MEMORY && status != ACRE_E_LIMIT) {
        fprintf(stderr, "the allocation did not fail as intended: %s\n", acre_status_name(status));
        return 1;
    }

    char *text = report(ACRE_OOM_TEXT), *json = report(ACRE_OOM_JSON);
    puts(is_json ? json : text);
    const char *card = strstr(json, "\"card\"");
    uint64_t sum = number(card, "free_bytes") + number(card, "pool_bytes") +
                   number(card, "other_pools_bytes") + number(card, "acre_bytes") +
                   number(card, "outside_bytes");
    int adds_up = sum == number(card, "total_bytes");
    fprintf(is_json ? stderr : stdout, "The parts are %" PRIu64 " bytes: %s the card.\n", sum,
            adds_up ? "all of" : "NOT");
    free(text);
    free(json);
    need(acre_tag_pop(), "acre_tag_pop");
    need(acre_close(device), "acre_close");
    return adds_up ? 0 : 1;
}
