/* Pools near the end of their memory, under random operations: what the report of a failed request
 * says agrees with what the pool does.
 *
 * After each failure: the largest hole of the report is smaller than the request, because a request
 * that fits a hole is served. The report suggests a retry exactly when the same request succeeds at
 * once; nothing else runs meanwhile, so it never does. The parts of the report add up. At the end
 * everything can be freed and released. The test prints the seed; ACRE_TEST_SEED=<seed> repeats
 * it. */
#include "api/api_pool.h"
#include "support/rounds.h"

enum { STREAMS = 3, BLOCKS = 2000, STEPS = 800 };

struct block {
    void *p;
    acre_stream stream; /* that used it last */
};

/* How a world differs from the others. */
struct sort {
    acre_kind kind;
    size_t scale;  /* factor of all sizes */
    int is_filled; /* blocks are filled, so that the soft driver checks their order */
};

static struct world {
    struct sort sort;
    uint64_t random;
    acre_device *device;
    acre_pool *pool;
    acre_stream streams[STREAMS];
    unsigned stream_count, style;
    struct block blocks[BLOCKS];
    size_t count;
    unsigned refused;
} w;

static char text[16384], json[16384];

static size_t draw(size_t below) {
    return (size_t)random_draw(&w.random, below);
}

static uint64_t number(const char *from, const char *name) {
    char key[64];
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = strstr(json, from);
    at = at ? strstr(at, key) : NULL;
    if (!at)
        fail_msg("no %s in\n%s", name, json);
    return strtoull(at + strlen(key), NULL, 10);
}

static void block_add(void *p, size_t bytes, acre_stream stream) {
    if (w.sort.is_filled)
        api_ok(acre_fill(w.device, p, 1, bytes, stream));
    w.blocks[w.count++] = (struct block){p, stream};
}

static void block_free(size_t k) {
    struct block block = w.blocks[k];
    acre_stream stream = draw(3) ? block.stream : w.streams[draw(w.stream_count)];
    if (stream != block.stream)
        api_ok(acre_pool_record_use(w.pool, block.p, block.stream));
    api_ok(acre_pool_free(w.pool, block.p, stream));
    w.blocks[k] = w.blocks[--w.count];
}

/* The parts of the pool's memory add up. */
static void check_sums(void) {
    static const char *const parts[] = {"live_bytes",  "cached_bytes",  "quarantined_bytes",
                                        "graph_bytes", "pending_bytes", "own_stream_bytes",
                                        "hole_bytes",  "slot_bytes",    "slab_end_bytes"};
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        sum += number("\"pool\":{\"held_bytes\"", parts[i]);
    assert_int_equal(sum, number("\"pool\":{", "held_bytes"));
}

/* A request failed: the report and a retry agree. */
static void check_refusal(size_t bytes, size_t alignment, acre_stream stream, acre_status status) {
    size_t needed;
    void *p;
    w.refused++;
    api_ok(acre_oom_report(ACRE_OOM_TEXT, text, sizeof text, &needed));
    api_ok(acre_oom_report(ACRE_OOM_JSON, json, sizeof json, &needed));
    int says_retry = strstr(text, "  retry: ") != NULL;
    uint64_t wanted = number("\"wanted\":{", "bytes");
    uint64_t largest = number("\"pool\":{", "largest_hole_bytes");
    if (status != ACRE_E_LIMIT && largest >= wanted)
        fail_msg("%zu bytes, aligned to %zu, fit a hole of %llu\n%s", bytes, alignment,
                 (unsigned long long)largest, text);
    check_sums();
    acre_status again = acre_pool_alloc(w.pool, bytes, alignment, stream, &p);
    if (says_retry != (again == ACRE_OK))
        fail_msg("%zu bytes, aligned to %zu: a retry returns %s\n%s", bytes, alignment,
                 acre_status_name(again), text);
    if (again == ACRE_OK)
        block_add(p, bytes, stream);
}

static size_t draw_bytes(void) {
    switch (w.style) {
    case 0:
        return w.sort.scale * (1 + draw(3 * MIB));
    case 1:
        return w.sort.scale * (1 + draw(600 * KIB));
    case 2:
        return w.sort.scale * ((1 + draw(1000)) << draw(12));
    default:
        return draw(2) ? w.sort.scale * (1 + draw(2 * MIB)) : 1 + draw(4096);
    }
}

static void step_alloc(void) {
    size_t bytes = draw_bytes(), alignment = draw(8) ? 0 : (size_t)256 << draw(14);
    acre_stream stream = w.streams[draw(w.stream_count)];
    void *p;
    acre_status status = acre_pool_alloc(w.pool, bytes, alignment, stream, &p);
    if (status == ACRE_OK) {
        block_add(p, bytes, stream);
        return;
    }
    assert_true(status == ACRE_E_LIMIT ||
                status ==
                    (w.sort.kind == ACRE_KIND_DEVICE ? ACRE_E_DEVICE_MEMORY : ACRE_E_HOST_MEMORY));
    check_refusal(bytes, alignment, stream, status);
    for (int i = 0; i < 3 && w.count; i++)
        block_free(draw(w.count));
}

static void step_realloc(void) {
    struct block *block = &w.blocks[draw(w.count)];
    void *p;
    if (acre_pool_realloc(w.pool, block->p, draw_bytes(), block->stream, &p) == ACRE_OK)
        block->p = p;
}

static void world_begin(const struct sort *sort) {
    w = (struct world){.sort = *sort, .random = w.random};
    acre_open_options options = {.struct_size = sizeof options,
                                 .soft_bytes = (32 + 16 * draw(4)) * MIB * sort->scale};
    acre_pool_options pooled = {.struct_size = sizeof pooled, .kind = sort->kind};
    /* Host memory ends with a limit only: that of the machine is too large. */
    if (sort->kind != ACRE_KIND_DEVICE || draw(4) == 0)
        pooled.limit_bytes = (20 + draw(20)) * MIB * sort->scale;
    api_ok(acre_open("soft", &options, &w.device));
    api_ok(acre_pool_create(w.device, &pooled, &w.pool));
    w.stream_count = 1 + (unsigned)draw(STREAMS);
    w.style = (unsigned)draw(4);
    for (unsigned i = 0; i < w.stream_count; i++)
        api_ok(acre_stream_create(w.device, ACRE_STREAM_NON_BLOCKING, &w.streams[i]));
}

static void world_end(void) {
    while (w.count)
        block_free(w.count - 1);
    api_ok(acre_device_sync(w.device));
    api_ok(acre_pool_trim(w.pool, 0));
    assert_int_equal(stats_of(w.pool).live_blocks, 0);
    assert_int_equal(stats_of(w.pool).held_bytes, 0);
    api_ok(acre_close(w.device));
}

/* Returns the number of requests that failed. */
static unsigned play(const struct sort *sort) {
    world_begin(sort);
    for (int step = 0; step < STEPS; step++) {
        size_t frees = step / 100 % 2 ? 60 : 30; /* percent: memory fills up and empties */
        if (w.count == BLOCKS || (w.count && draw(100) < frees))
            block_free(draw(w.count));
        else if (w.count && draw(20) == 0)
            step_realloc();
        else
            step_alloc();
    }
    unsigned refused = w.refused;
    world_end();
    return refused;
}

static void play_many(const char *name, const struct sort *sort, int rounds) {
    unsigned refused = 0;
    w.random = random_seed(name);
    /* A short run may find room for everything. */
    for (int i = 0; i < rounds || (!refused && i < 50); i++)
        refused += play(sort);
    assert_true(refused > 0);
}

TEST(report_and_retry_agree_in_device_memory) {
    static const struct sort sort = {.kind = ACRE_KIND_DEVICE, .scale = 1};
    play_many("device memory", &sort, ROUNDS(40, 6));
}

/* The soft driver checks that no stream uses memory that another one may still use. */
TEST(report_and_retry_agree_and_memory_is_used_in_order) {
    static const struct sort sort = {.kind = ACRE_KIND_DEVICE, .scale = 1, .is_filled = 1};
    setenv("ACRE_SOFT_CHECK", "1", 1);
    play_many("order", &sort, ROUNDS(8, 8));
    unsetenv("ACRE_SOFT_CHECK");
}

/* Blocks of 64 MiB and more have chunks of their own. */
TEST(report_and_retry_agree_for_very_large_blocks) {
    static const struct sort sort = {.kind = ACRE_KIND_DEVICE, .scale = 64};
    play_many("very large blocks", &sort, ROUNDS(30, 4));
}

TEST(report_and_retry_agree_in_blocks_of_the_driver) {
    static const struct sort sort = {.kind = ACRE_KIND_DEVICE, .scale = 1};
    setenv("ACRE_VMM", "no", 1);
    play_many("blocks of the driver", &sort, ROUNDS(20, 4));
    unsetenv("ACRE_VMM");
}

TEST(report_and_retry_agree_in_pinned_memory) {
    static const struct sort sort = {.kind = ACRE_KIND_PINNED, .scale = 1};
    play_many("pinned memory", &sort, ROUNDS(4, 1));
}

int main(void) {
    return tests_run("oom_model");
}
