/* The out-of-memory report of a known state: live memory by tag and size, every part of the pool
 * and of the device, and steps that do help; as text and as JSON. */
#include "fault_ladder.h"

static char text[16384], json[16384];

static void read_report(void) {
    size_t needed = 0;
    api_ok(acre_oom_report(ACRE_OOM_TEXT, text, sizeof text, &needed));
    assert_int_equal(needed, strlen(text) + 1);
    api_ok(acre_oom_report(ACRE_OOM_JSON, json, sizeof json, &needed));
    assert_int_equal(needed, strlen(json) + 1);
}

static void refuse(struct small *s, size_t bytes, acre_status wanted) {
    void *p;
    api_expect(acre_pool_alloc(s->pool, bytes, 0, s->stream, &p), wanted);
    read_report();
}

/* Returns the number of the key `name`, searched from `part` of the JSON on. */
static uint64_t number(const char *part, const char *name) {
    char key[64];
    const char *at = strstr(json, part);
    assert_non_null(at);
    snprintf(key, sizeof key, "\"%s\":", name);
    at = strstr(at, key);
    if (!at)
        fail_msg("no %s in %s", name, json);
    return strtoull(at + strlen(key), NULL, 10);
}
static uint64_t card(const char *name) {
    return number("\"card\":{", name);
}
static uint64_t pool(const char *name) {
    return number("\"pool\":{\"held_bytes\"", name);
}

static void expect_text(const char *line) {
    if (!strstr(text, line))
        fail_msg("no \"%s\" in\n%s", line, text);
}
static void expect_json(const char *part) {
    if (!strstr(json, part))
        fail_msg("no %s in\n%s", part, json);
}

/* Checks that hold for every report. */
static void expect_sums(struct small *s) {
    assert_int_equal(card("free_bytes") + card("pool_bytes") + card("other_pools_bytes") +
                         card("acre_bytes") + card("outside_bytes"),
                     card("total_bytes"));
    assert_int_equal(card("total_bytes"), LADDER_BYTES);
    assert_int_equal(card("free_bytes"), api_free_bytes(s->device));
    assert_int_equal(card("pool_bytes"), small_stats(s->pool).held_bytes);
    assert_int_equal(pool("live_bytes") + pool("cached_bytes") + pool("quarantined_bytes") +
                         pool("graph_bytes") + pool("pending_bytes") + pool("own_stream_bytes") +
                         pool("hole_bytes") + pool("slot_bytes") + pool("slab_end_bytes"),
                     pool("held_bytes"));
    assert_int_equal(pool("live_bytes"), small_stats(s->pool).live_bytes);
    assert_int_equal(pool("live_blocks"), small_stats(s->pool).live_blocks);
}

/* ---- states ---- */

TEST(report_has_what_is_live_by_tag_and_size) {
    struct small s = small_begin(NULL);
    void *p;
    api_ok(acre_tag_push("report"));
    api_ok(acre_tag_push("weights"));
    p = small_alloc(s.pool, 20 * MIB, s.stream);
    api_ok(acre_tag_pop());
    for (int i = 0; i < 5; i++)
        (void)small_alloc(s.pool, 300 * KIB, s.stream);
    api_ok(acre_tag_pop());
    (void)small_alloc(s.pool, 4 * MIB, s.stream);
    (void)small_alloc(s.second, 10 * MIB, s.stream);
    api_ok(acre_tag_push("wish"));
    refuse(&s, 30 * MIB, ACRE_E_DEVICE_MEMORY);
    api_ok(acre_tag_pop());
    expect_sums(&s);
    expect_json("{\"schema\":\"acre-oom/1\",\"status\":\"ACRE_E_DEVICE_MEMORY\"");
    expect_json("\"tag\":\"wish\",\"bytes\":31457280");
    expect_json("{\"tag\":\"report/weights\",\"bytes\":20971520,\"blocks\":1}");
    expect_json("{\"tag\":\"\",\"bytes\":4194304,\"blocks\":1}");
    expect_json("{\"tag\":\"report\",\"bytes\":1638400,\"blocks\":5}");
    expect_json("{\"up_to_bytes\":327680,\"bytes\":1638400,\"blocks\":5}");
    assert_int_equal(card("other_pools_bytes"), small_stats(s.second).held_bytes);
    assert_int_equal(card("acre_bytes") + card("outside_bytes"), 0);
    expect_text("out of memory for a block of 31457280 bytes (30.0 MiB)");
    expect_text("report/weights, 1 block\n");
    expect_text("with the tag wish");
    expect_text("device memory of soft:0");
    /* The step that the report names is enough. */
    uint64_t missing = number("\"steps\":[", "bytes");
    expect_json("\"do\":\"free\"");
    assert_in_range(missing, 1, 20 * MIB);
    api_ok(acre_pool_free(s.pool, p, s.stream));
    api_ok(acre_pool_alloc(s.pool, 30 * MIB, 0, s.stream, &p));
    small_end(&s);
}

TEST(report_has_why_free_memory_could_not_serve) {
    struct small s = small_begin(NULL);
    void *blocks[12], *p;
    for (int i = 0; i < 12; i++)
        blocks[i] = small_alloc(s.pool, 5 * MIB, s.stream);
    for (int i = 0; i < 12; i += 2)
        api_ok(acre_pool_free(s.pool, blocks[i], s.stream));
    api_ok(acre_stream_sync(s.device, s.stream));
    refuse(&s, 38 * MIB, ACRE_E_DEVICE_MEMORY);
    expect_sums(&s);
    assert_int_equal(pool("live_bytes"), 30 * MIB);
    assert_in_range(pool("largest_hole_bytes"), 1, 5 * MIB);
    expect_text("in holes that are too small");
    for (int i = 1; i < 12; i += 2)
        api_ok(acre_pool_free(s.pool, blocks[i], s.stream));
    api_ok(acre_pool_alloc(s.pool, 38 * MIB, 0, s.stream, &p));
    small_end(&s);
}

/* Free slots of small blocks that keep their slabs. */
TEST(report_has_slabs_with_few_blocks) {
    struct small s = small_begin(NULL);
    void *blocks[800];
    api_ok(acre_pool_alloc_many(s.pool, 64 * KIB, 800, s.stream, blocks));
    for (int i = 0; i < 800; i++)
        if (i % 32)
            api_ok(acre_pool_free(s.pool, blocks[i], s.stream));
    api_ok(acre_stream_sync(s.device, s.stream));
    refuse(&s, 40 * MIB, ACRE_E_DEVICE_MEMORY);
    expect_sums(&s);
    assert_int_equal(pool("live_blocks"), 25);
    assert_in_range(pool("slot_bytes"), 30 * MIB, 50 * MIB);
    expect_text("free slots for small blocks");
    small_end(&s);
}

/* acre cannot wait for a captured stream. */
TEST(report_has_streams_that_memory_waits_for) {
    struct small s = small_begin(NULL);
    const struct acre__driver *raw = fault_raw("soft");
    CUgraph graph = NULL;
    char stream[64], *p = small_alloc(s.pool, 40 * MIB, s.other);
    assert_int_equal(raw->cuStreamBeginCapture(s.other, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
    api_ok(acre_pool_free(s.pool, p, s.other));
    refuse(&s, 30 * MIB, ACRE_E_DEVICE_MEMORY);
    expect_sums(&s);
    assert_int_equal(pool("pending_bytes"), 40 * MIB);
    assert_int_equal(pool("largest_run_bytes"), 40 * MIB);
    snprintf(stream, sizeof stream, "{\"stream\":\"0x%llx\",\"bytes\":41943040",
             (unsigned long long)(uintptr_t)s.other);
    expect_json(stream);
    expect_json("\"steps\":[{\"do\":\"wait\"");
    snprintf(stream, sizeof stream, "wait for stream 0x%llx: 40.0 MiB would then be contiguous",
             (unsigned long long)(uintptr_t)s.other);
    expect_text(stream);
    assert_int_equal(raw->cuStreamEndCapture(s.other, &graph), 0);
    small_end(&s);
}

/* Memory that acre allocated outside pools, and memory from a raw driver call. */
TEST(report_has_who_else_has_the_card) {
    struct small s = small_begin(NULL);
    const struct acre__driver *raw = fault_raw("soft");
    CUdeviceptr outside;
    void *mem, *tiny;
    fault_push("soft");
    assert_int_equal(raw->cuMemAlloc(&outside, 16 * MIB), 0);
    fault_pop("soft");
    api_ok(acre_mem_alloc(s.device, ACRE_KIND_DEVICE, 8 * MIB, 0, &mem));
    api_ok(acre_mem_alloc(s.device, ACRE_KIND_DEVICE, MIB, 0, &tiny));
    (void)small_alloc(s.pool, 4 * MIB, s.stream);
    refuse(&s, 50 * MIB, ACRE_E_DEVICE_MEMORY);
    expect_sums(&s);
    assert_in_range(card("acre_bytes"), 9 * MIB, 10 * MIB);
    assert_in_range(card("outside_bytes"), 15 * MIB, 17 * MIB);
    expect_json("\"do\":\"others\"");
    api_ok(acre_mem_free(s.device, mem));
    api_ok(acre_mem_free(s.device, tiny));
    fault_push("soft");
    assert_int_equal(raw->cuMemFree(outside), 0);
    fault_pop("soft");
    small_end(&s);
}

TEST(report_has_limits) {
    acre_pool_options options = {
        .struct_size = sizeof options, .soft_limit_bytes = 10 * MIB, .limit_bytes = 20 * MIB};
    struct small s = small_begin(&options);
    (void)small_alloc(s.pool, 15 * MIB, s.stream);
    refuse(&s, 8 * MIB, ACRE_E_LIMIT);
    expect_sums(&s);
    assert_int_equal(pool("hard_limit_bytes"), 20 * MIB);
    assert_int_equal(pool("used_bytes"), 15 * MIB);
    expect_json("\"do\":\"free\",\"text\":\"free 3.0 MiB more of this pool\",\"bytes\":3145728");
    expect_json("\"do\":\"raise\"");
    expect_text("raise the pool's hard limit to 24117248 bytes");
    refuse(&s, 30 * MIB, ACRE_E_LIMIT);
    expect_json("\"steps\":[{\"do\":\"raise\"");
    api_ok(acre_tag_set_limit("capped", 4 * MIB));
    api_ok(acre_tag_push("capped"));
    refuse(&s, 5 * MIB, ACRE_E_LIMIT);
    expect_json("\"tag_limit\":{\"tag\":\"capped\",\"used_bytes\":0,\"limit_bytes\":4194304}");
    (void)small_alloc(s.pool, 3 * MIB, s.stream);
    refuse(&s, 2 * MIB, ACRE_E_LIMIT);
    expect_text("free 1.0 MiB more with the tag capped");
    api_ok(acre_tag_pop());
    api_ok(acre_pool_set_limits(s.pool, 0, 0));
    refuse(&s, 65 * MIB, ACRE_E_DEVICE_MEMORY);
    expect_text("request less: the card has 64.0 MiB");
    small_end(&s);
}

/* More tags and sizes than the report lists one by one. */
TEST(report_sums_up_what_is_many) {
    struct small s = small_begin(NULL);
    char name[16];
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "tag%02d", i);
        api_ok(acre_tag_push(name));
        (void)small_alloc(s.pool, 256 * (size_t)(i + 1), s.stream);
        api_ok(acre_tag_pop());
    }
    refuse(&s, 64 * MIB, ACRE_E_DEVICE_MEMORY);
    expect_sums(&s);
    uint64_t sum = number("\"live_by_tag_rest\"", "bytes"), rest = 0;
    assert_int_equal(number("\"live_by_tag_rest\"", "count"), 12);
    assert_int_equal(number("\"live_by_tag_rest\"", "blocks"), 12);
    const char *at = strstr(json, "\"live_by_tag\":["), *end = strstr(at, "]");
    for (; (at = strstr(at, "\"bytes\":")) && at < end; at++)
        rest += strtoull(at + 8, NULL, 10);
    assert_int_equal(sum + rest, pool("live_bytes"));
    small_end(&s);
}

TEST(report_of_a_debugged_pool_has_its_quarantine) {
    acre_pool_options options = {.struct_size = sizeof options, .flags = ACRE_POOL_DEBUG};
    struct small s = small_begin(&options);
    void *p = small_alloc(s.pool, MIB, s.stream);
    (void)small_alloc(s.pool, 4000, s.stream);
    api_ok(acre_pool_free(s.pool, p, s.stream));
    /* Larger than the device: the quarantine is not emptied for it. */
    refuse(&s, 65 * MIB, ACRE_E_DEVICE_MEMORY);
    expect_sums(&s);
    assert_in_range(pool("quarantined_bytes"), MIB, 2 * MIB);
    small_end(&s);
}

TEST(report_has_the_free_memory_of_graphs) {
    struct small s = small_begin(NULL);
    const struct acre__driver *raw = fault_raw("soft");
    CUgraph graph = NULL;
    fault_push("soft");
    assert_int_equal(raw->cuStreamBeginCapture(s.stream, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
    api_ok(acre_pool_free(s.pool, small_alloc(s.pool, 20 * MIB, s.stream), s.stream));
    api_ok(acre_pool_free(s.pool, small_alloc(s.pool, 300 * KIB, s.stream), s.stream));
    assert_int_equal(raw->cuStreamEndCapture(s.stream, &graph), 0);
    refuse(&s, 64 * MIB, ACRE_E_DEVICE_MEMORY);
    expect_sums(&s);
    assert_in_range(pool("graph_bytes"), 20 * MIB, 24 * MIB);
    expect_text("free, but kept for graphs");
    assert_int_equal(raw->cuGraphDestroy(graph), 0);
    fault_pop("soft");
    small_end(&s);
}

TEST(report_of_host_memory_is_apart_from_the_card) {
    acre_pool_options options = {
        .struct_size = sizeof options, .kind = ACRE_KIND_PINNED, .limit_bytes = 8 * MIB};
    struct small s = small_begin(&options);
    (void)small_alloc(s.pool, 4 * MIB, s.stream);
    refuse(&s, 8 * MIB, ACRE_E_LIMIT);
    assert_int_equal(card("pool_bytes"), 0);
    assert_int_equal(card("free_bytes"), LADDER_BYTES);
    assert_int_equal(pool("live_bytes"), 4 * MIB);
    expect_text("Memory of this pool, in host memory");
    small_end(&s);
}

/* ---- reading the report ---- */

TEST(report_is_cut_to_the_buffer) {
    struct small s = small_begin(NULL);
    char little[100];
    size_t needed = 0, all;
    refuse(&s, 65 * MIB, ACRE_E_DEVICE_MEMORY);
    all = strlen(text) + 1;
    api_ok(acre_oom_report(ACRE_OOM_TEXT, NULL, 0, &needed));
    assert_int_equal(needed, all);
    memset(little, 1, sizeof little);
    api_ok(acre_oom_report(ACRE_OOM_TEXT, little, 50, &needed));
    assert_int_equal(needed, all);
    assert_int_equal(strlen(little), 49);
    assert_int_equal(little[50], 1);
    assert_int_equal(memcmp(little, text, 49), 0);
    api_ok(acre_oom_report(ACRE_OOM_JSON, little, 1, &needed));
    assert_int_equal(little[0], 0);
    api_expect(acre_oom_report(ACRE_OOM_TEXT, NULL, 1, &needed), ACRE_E_NULL);
    assert_int_equal(needed, 0);
    api_expect(acre_oom_report(ACRE_OOM_TEXT, little, 1, NULL), ACRE_E_NULL);
    api_expect(acre_oom_report((acre_oom_format)2, little, 1, &needed), ACRE_E_INVALID);
    small_end(&s);
}

static acre_status elsewhere;

static void *ask_elsewhere(void *argument) {
    size_t needed;
    (void)argument;
    elsewhere = acre_oom_report(ACRE_OOM_TEXT, NULL, 0, &needed);
    return NULL;
}

static int log_lines;

static void log_count(void *user, acre_log_level level, const char *area, const char *line) {
    (void)user;
    log_lines += level == ACRE_LOG_WARN && !strcmp(area, "pool") && strstr(line, "acre_oom_report");
}

/* Each thread keeps its last report until the next refusal, also across calls that succeed. */
TEST(report_is_the_threads_last) {
    struct small s = small_begin(NULL);
    pthread_t thread;
    api_ok(acre_log_set(log_count, NULL, ACRE_LOG_WARN));
    refuse(&s, 65 * MIB, ACRE_E_DEVICE_MEMORY);
    (void)small_alloc(s.pool, MIB, s.stream);
    read_report();
    expect_text("a block of 68157440 bytes");
    refuse(&s, 66 * MIB, ACRE_E_DEVICE_MEMORY);
    expect_text("a block of 69206016 bytes");
    api_ok(acre_log_set(NULL, NULL, ACRE_LOG_WARN));
    assert_int_equal(log_lines, 2);
    assert_int_equal(pthread_create(&thread, NULL, ask_elsewhere, NULL), 0);
    pthread_join(thread, NULL);
    api_expect(elsewhere, ACRE_E_NOT_READY);
    small_end(&s);
    read_report(); /* the pool and the device are gone */
    expect_text("a block of 69206016 bytes");
}

/* ---- retries ---- */

/* The driver refuses memory that the card has, as when another process frees some at the same time:
 * then a retry can succeed, and the report says so. */
TEST(report_suggests_a_retry_when_the_card_has_the_memory) {
    struct small s = small_begin(NULL);
    fault_on("cuMemCreate", 1, ACRE__FAULT_FROM, CUDA_ERROR_OUT_OF_MEMORY);
    refuse(&s, 4 * MIB, ACRE_E_DEVICE_MEMORY);
    assert_true(fault_off() > 0);
    expect_text("What to do, the smallest step first\n  retry: enough memory is free now\n");
    void *p;
    api_ok(acre_pool_alloc(s.pool, 4 * MIB, 0, s.stream, &p));
    small_end(&s);
}

/* Memory that ACRE_CHUNK_LIMIT_BYTES withholds is free on the card, but a retry would not get it.
 */
TEST(report_suggests_no_retry_at_a_limit_of_chunks) {
    setenv("ACRE_CHUNK_LIMIT_BYTES", "16MiB", 1);
    struct small s = small_begin(NULL);
    (void)small_alloc(s.pool, 14 * MIB, s.stream);
    refuse(&s, 4 * MIB, ACRE_E_LIMIT);
    assert_null(strstr(text, "retry: "));
    expect_text("free about 4.0 MiB more of this pool, best contiguous\n");
    small_end(&s);
    unsetenv("ACRE_CHUNK_LIMIT_BYTES");
}

/* A hole that is large enough only without the alignment does not count as one that fits. */
TEST(report_measures_holes_from_an_aligned_address_on) {
    struct small s = small_begin(NULL);
    void *blocks[64], *p;
    for (int i = 0; i < 64; i++)
        blocks[i] = small_alloc(s.pool, MIB, s.stream);
    for (int i = 0; i < 64; i += 4) {
        uint64_t at = (uintptr_t)blocks[i] / MIB;
        api_ok(acre_pool_free(s.pool, blocks[at % 2 ? i : i + 1], s.stream));
    }
    api_ok(acre_stream_sync(s.device, s.stream));
    api_expect(acre_pool_alloc(s.pool, 600 * KIB, 2 * MIB, s.stream, &p), ACRE_E_DEVICE_MEMORY);
    read_report();
    assert_int_equal(pool("hole_bytes"), 16 * MIB);
    assert_int_equal(pool("largest_hole_bytes"), 0);
    expect_text("free, but in holes that are too small: the largest has 0 bytes from an aligned "
                "address on\n");
    assert_null(strstr(text, "retry: "));
    api_ok(acre_pool_alloc(s.pool, 600 * KIB, 0, s.stream, &p));
    small_end(&s);
}

/* When nothing else is left, large blocks use holes among slabs, and slabs those of large blocks:
 * a request that fits a hole is served. */
TEST(requests_use_holes_of_other_sizes_when_nothing_else_is_left) {
    struct small s = small_begin(NULL);
    void *slots[64], *p;
    for (int i = 0; i < 64; i++) /* each has a slab of its own or shares one of 2 MiB */
        slots[i] = small_alloc(s.pool, 400 * KIB, s.stream);
    while (acre_pool_alloc(s.pool, MIB, 0, s.stream, &p) == ACRE_OK)
        continue;
    read_report();
    assert_in_range(pool("largest_hole_bytes"), 0, MIB - 1);
    for (int i = 0; i < 64; i++)
        api_ok(acre_pool_free(s.pool, slots[i], s.stream));
    api_ok(acre_pool_alloc(s.pool, MIB, 0, s.stream, &p));
    api_ok(acre_pool_free(s.pool, p, s.stream));
    while (acre_pool_alloc(s.pool, 400 * KIB, 0, s.stream, &p) == ACRE_OK)
        continue;
    read_report();
    assert_in_range(pool("largest_hole_bytes"), 0, 448 * KIB - 1);
    assert_null(strstr(text, "retry: "));
    small_end(&s);
}

int main(void) {
    fault_begin();
    return tests_run("oom_report");
}
