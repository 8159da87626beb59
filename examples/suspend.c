/* An engine that is idle gives the card to another program, and gets it back.
 *
 * Weights and a KV cache are in one pool, each with its tag; activations are in a vec. While the
 * engine sleeps, the weights are kept in host memory, and the cache is dropped: it can be computed
 * again. No pointer changes. The second time, acre is told that the weights are as they were, and
 * copies nothing. */
#include <acre.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

enum { LAYERS = 4, WEIGHT = 8, CACHE = 32 }; /* weights of a layer and the cache, in MiB */

static acre_device *device;
static acre_pool *pool;
static char *weights[LAYERS], *cache;
static acre_vec *activations;

static void need(acre_status status, const char *what) {
    if (status != ACRE_OK) {
        fprintf(stderr, "%s: %s (%s)\n", what, acre_status_text(status), acre_last_detail());
        exit(2);
    }
}

static void load(void) {
    need(acre_tag_push("weights"), "acre_tag_push");
    for (int i = 0; i < LAYERS; i++) {
        void *p;
        need(acre_pool_alloc(pool, WEIGHT * MIB, 0, NULL, &p), "acre_pool_alloc");
        need(acre_fill(device, p, (uint8_t)(i + 1), WEIGHT * MIB, NULL), "acre_fill");
        weights[i] = p;
    }
    need(acre_tag_pop(), "acre_tag_pop");
    need(acre_tag_push("cache"), "acre_tag_push");
    need(acre_pool_alloc(pool, CACHE * MIB, 0, NULL, (void **)&cache), "acre_pool_alloc");
    need(acre_tag_pop(), "acre_tag_pop");
    need(acre_vec_create(device, MIB, NULL, &activations), "acre_vec_create");
    need(acre_vec_grow(activations, 6, NULL), "acre_vec_grow");
    need(acre_fill(device, acre_vec_data(activations), 77, 6 * MIB, NULL), "acre_fill");
}

static uint64_t on_the_card(void) {
    acre_device_stats stats = {.struct_size = sizeof stats};
    need(acre_device_get_stats(device, &stats), "acre_device_get_stats");
    return stats.chunk_bytes / MIB;
}

/* Counts the bytes that are not `value`. */
static size_t wrong(const void *p, size_t bytes, int value) {
    unsigned char *host = malloc(bytes);
    size_t count = 0;
    if (!host)
        exit(2);
    need(acre_copy_sync(device, host, p, bytes), "acre_copy_sync");
    for (size_t i = 0; i < bytes; i++)
        count += host[i] != value;
    free(host);
    return count;
}

/* Sleeps and wakes up; returns 0 if all contents are right. */
static int sleep_and_wake(int is_unchanged) {
    acre_suspend_rule rules[] = {
        {.struct_size = sizeof rules[0],
         .tag = "weights",
         .how = ACRE_SUSPEND_KEEP,
         .is_unchanged = (uint32_t)is_unchanged},
        {.struct_size = sizeof rules[0], .tag = "cache", .how = ACRE_SUSPEND_DROP}};
    acre_suspend_options options = {.struct_size = sizeof options,
                                    .flags = ACRE_SUSPEND_RETAIN,
                                    .rules = rules,
                                    .rule_count = 2};
    acre_suspend_info info = {.struct_size = sizeof info};
    acre_suspended *suspended;
    void *p;
    uint64_t before = on_the_card();
    need(acre_suspend(device, &options, &suspended), "acre_suspend");
    need(acre_suspend_get_info(suspended, &info), "acre_suspend_get_info");
    printf("asleep: %" PRIu64 " MiB on the card, %" PRIu64 " before; %" PRIu64 " MiB kept, %" PRIu64
           " copied, %" PRIu64 " dropped\n",
           on_the_card(), before, info.kept_bytes / MIB, info.copied_bytes / MIB,
           info.dropped_bytes / MIB);
    if (acre_pool_alloc(pool, MIB, 0, NULL, &p) != ACRE_E_SUSPENDED)
        return 1;
    need(acre_resume(suspended), "acre_resume");
    size_t bad = wrong(acre_vec_data(activations), 6 * MIB, 77);
    for (int i = 0; i < LAYERS; i++)
        bad += wrong(weights[i], WEIGHT * MIB, i + 1);
    printf("awake: %" PRIu64 " MiB on the card, %zu bytes are wrong\n", on_the_card(), bad);
    return bad != 0;
}

int main(void) {
    acre_pool_options options = {.struct_size = sizeof options};
    need(acre_open("auto", NULL, &device), "acre_open");
    need(acre_pool_create(device, &options, &pool), "acre_pool_create");
    load();
    int is_wrong = sleep_and_wake(0);
    is_wrong |= sleep_and_wake(1);
    for (int i = 0; i < LAYERS; i++)
        need(acre_pool_free(pool, weights[i], NULL), "acre_pool_free");
    need(acre_pool_free(pool, cache, NULL), "acre_pool_free");
    need(acre_vec_destroy(activations, NULL), "acre_vec_destroy");
    need(acre_pool_destroy(pool, NULL, NULL), "acre_pool_destroy");
    need(acre_close(device), "acre_close");
    return is_wrong;
}
