/* The trace's encoding: the tool's reader decodes what the library writes. Also size limits, rings,
 * damaged files, full disks, forks. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "../../cli/trace_decode.c"
#include "../../cli/trace_decode_block.c"
#include "../../cli/trace_live.c"
#include "api/api_file.h"
#include "base/parse.h"
#include "base/thread.h"
#include "child.h"
#include "support/rounds.h"
#include "watch/trace.h"
#include "watch/trace_clock.h"
#include "watch/watch_file.h"

static unsigned warnings;

static void count_warnings(void *user, acre_log_level level, const char *area, const char *line) {
    (void)user;
    (void)level;
    (void)line;
    warnings += strcmp(area, "trace") == 0;
}

/* ---- a file in memory ---- */

struct file {
    unsigned char *bytes;
    size_t count;
};

static struct file file_load(void) {
    struct file file = {0};
    struct stat now;
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &now), 0);
    file.count = (size_t)now.st_size;
    file.bytes = malloc(file.count ? file.count : 1);
    assert_int_equal(read(fd, file.bytes, file.count), (ssize_t)file.count);
    close(fd);
    return file;
}

static void begin(uint64_t limit_bytes, uint32_t flags) {
    acre_trace_options options = {
        .struct_size = sizeof options, .limit_bytes = limit_bytes, .flags = flags};
    warnings = 0;
    assert_int_equal(acre_log_set(count_warnings, NULL, ACRE_LOG_WARN), ACRE_OK);
    assert_int_equal(acre_trace_start(path, &options), ACRE_OK);
}

/* ---- traced events ---- */

enum { TOLD_MOST = 200000 };
static struct trace_record told[TOLD_MOST];
static size_t told_count;

static struct trace_record *tell(enum acre__trace_kind kind) {
    assert_true(told_count < TOLD_MOST);
    struct trace_record *record = &told[told_count++];
    *record = (struct trace_record){.kind = kind};
    return record;
}

static struct acre__trace_pool pools[3];

static void tell_alloc(uint64_t pool, uint64_t address, uint64_t bytes, uint64_t real,
                       uint64_t stream, uint32_t tag) {
    struct trace_record *record = tell(ACRE__TRACE_ALLOC);
    record->address = address;
    record->bytes = bytes;
    record->real = real;
    record->stream = stream;
    record->pool = pools[pool].id;
    record->tag = tag;
    acre__trace_alloc(&pools[pool], (void *)(uintptr_t)address, bytes, real,
                      (acre_stream)(uintptr_t)stream, tag, 0);
}

static void tell_free(uint64_t pool, uint64_t address, uint64_t stream) {
    struct trace_record *record = tell(ACRE__TRACE_FREE);
    record->address = address;
    record->stream = stream;
    record->pool = pools[pool].id;
    acre__trace_free(&pools[pool], (void *)(uintptr_t)address, (acre_stream)(uintptr_t)stream);
}

static void tell_realloc(uint64_t pool, uint64_t before, uint64_t address, uint64_t bytes,
                         uint64_t real, uint64_t stream) {
    struct trace_record *record = tell(ACRE__TRACE_REALLOC);
    record->before = before;
    record->address = address;
    record->bytes = bytes;
    record->real = real;
    record->stream = stream;
    record->pool = pools[pool].id;
    acre__trace_realloc(&pools[pool], (void *)(uintptr_t)before, (void *)(uintptr_t)address, bytes,
                        real, (acre_stream)(uintptr_t)stream, 0, 0);
}

static void expect_same(const struct trace_record *got, const struct trace_record *wanted) {
    assert_int_equal(got->kind, wanted->kind);
    assert_int_equal(got->address, wanted->address);
    assert_int_equal(got->before, wanted->before);
    if (got->kind != ACRE__TRACE_FREE && got->kind != ACRE__TRACE_FREE_AFTER)
        assert_int_equal(got->bytes, wanted->bytes);
    assert_int_equal(got->real, wanted->real);
    assert_int_equal(got->stream, wanted->stream);
    assert_int_equal(got->number, wanted->number);
    assert_int_equal(got->pool, wanted->pool);
    assert_int_equal(got->tag, wanted->tag);
    assert_int_equal(got->status, wanted->status);
}

/* Expects that the file holds the thread's start and then the traced events in order. Returns the
 * bytes per event. */
static double expect_told(void) {
    struct file file = file_load();
    struct trace_reader reader;
    struct trace_record record = {0};
    assert_true(trace_open(&reader, file.bytes, file.count));
    assert_true(trace_next(&reader, &record));
    assert_int_equal(record.kind, ACRE__TRACE_THREAD_BEGIN);
    uint64_t before_ns = 0;
    for (size_t i = 0; i < told_count; i++) {
        do
            assert_true(trace_next(&reader, &record));
        while (record.is_made_up); /* the events may be inconsistent: then the reader adds some */
        expect_same(&record, &told[i]);
        assert_true(record.time_ns >= before_ns);
        before_ns = record.time_ns;
    }
    assert_false(trace_next(&reader, &record));
    assert_null(reader.fault.what);
    double each = (double)reader.event_bytes / (double)(told_count + 1);
    trace_close(&reader);
    free(file.bytes);
    return each;
}

static uint64_t draw(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* ---- encoding ---- */

TEST(code_every_kind_comes_back) {
    told_count = 0;
    begin(0, 0);
    tell_alloc(0, 0x700000000100, 1, 256, 0, 0);
    tell_alloc(1, 0x700000010000, 65536, 65536, 0x55aa55aa5500, 7);
    tell_free(0, 0x700000000100, 0);
    tell_realloc(1, 0x700000010000, 0x710000000000, 100000, 102400, 0x55aa55aa5500);
    struct trace_record *record = tell(ACRE__TRACE_FREE_AFTER);
    record->address = 0x710000000000;
    record->number = 0x123456789a;
    record->pool = pools[1].id;
    acre__trace_free_after(&pools[1], (void *)0x710000000000, (acre_event)0x123456789a);
    record = tell(ACRE__TRACE_REFUSED);
    record->bytes = UINT64_MAX;
    record->stream = 5;
    record->pool = pools[2].id;
    record->tag = 9;
    record->status = ACRE_E_DEVICE_MEMORY;
    acre__trace_refused(&pools[2], SIZE_MAX, (acre_stream)5, 9, ACRE_E_DEVICE_MEMORY);
    record = tell(ACRE__TRACE_WAIT);
    record->stream = 6;
    record->pool = pools[2].id;
    acre__trace_wait(&pools[2], (acre_stream)6);
    record = tell(ACRE__TRACE_CHUNK_CREATE);
    record->number = 3;
    record->bytes = 2 << 20;
    acre__trace_chunk(ACRE__TRACE_CHUNK_CREATE, 3, 2 << 20);
    record = tell(ACRE__TRACE_CHUNK_MAP);
    record->address = 0x720000000000;
    record->bytes = 2 << 20;
    acre__trace_chunk(ACRE__TRACE_CHUNK_MAP, 0x720000000000, 2 << 20);
    record = tell(ACRE__TRACE_CHUNK_MOVE);
    record->before = 0x720000000000;
    record->address = 0x730000000000;
    record->bytes = 2 << 20;
    acre__trace_chunk_move(0x720000000000, 0x730000000000, 2 << 20);
    record = tell(ACRE__TRACE_CHUNK_UNMAP);
    record->address = 0x730000000000;
    record->bytes = 2 << 20;
    acre__trace_chunk(ACRE__TRACE_CHUNK_UNMAP, 0x730000000000, 2 << 20);
    record = tell(ACRE__TRACE_CHUNK_RELEASE);
    record->number = 3;
    record->bytes = 2 << 20;
    acre__trace_chunk(ACRE__TRACE_CHUNK_RELEASE, 3, 2 << 20);
    (void)tell(ACRE__TRACE_MARK);
    assert_int_equal(acre_trace_mark("a mark"), ACRE_OK);
    assert_int_equal(acre_trace_stop(), ACRE_OK);
    expect_told();
}

/* Numbers of every size in every field. */
TEST(code_extremes_come_back) {
    static const uint64_t values[] = {1,
                                      2,
                                      127,
                                      128,
                                      255,
                                      256,
                                      257,
                                      16383,
                                      16384,
                                      65535,
                                      1 << 20,
                                      UINT32_MAX,
                                      UINT64_C(1) << 40,
                                      UINT64_C(1) << 62,
                                      (UINT64_C(1) << 63) - 1,
                                      UINT64_C(1) << 63,
                                      UINT64_MAX - 255,
                                      UINT64_MAX};
    enum { COUNT = sizeof values / sizeof values[0] };
    told_count = 0;
    begin(0, 0);
    for (size_t a = 0; a < COUNT; a++)
        for (size_t b = 0; b < COUNT; b++) {
            uint64_t real = values[b] > UINT64_MAX - values[a] ? UINT64_MAX : values[a] + values[b];
            tell_alloc(a % 3, values[a], values[b], real, values[(a + b) % COUNT],
                       (uint32_t)values[b]);
            tell_free(b % 3, values[b], values[a]);
            tell_realloc(a % 3, values[a], values[b], values[a], values[b], values[b]);
            tell_alloc(a % 3, values[a], values[b], real, values[(a + b) % COUNT],
                       (uint32_t)values[b]);
        }
    assert_int_equal(acre_trace_stop(), ACRE_OK);
    expect_told();
}

/* More blocks, places and contexts than the tables and file blocks hold. */
TEST(code_random_events_come_back) {
    uint64_t seed = getenv("ACRE_TEST_SEED") ? strtoull(getenv("ACRE_TEST_SEED"), NULL, 0) : 4711;
    print_message("ACRE_TEST_SEED=%llu\n", (unsigned long long)seed);
    uint64_t random = seed * 2 + 1;
    told_count = 0;
    begin(0, 0);
    for (size_t i = 0; i < 60000; i++) {
        uint64_t address = 0x700000000000 + draw(&random) % 9000 * 65536 + draw(&random) % 3;
        uint64_t bytes = draw(&random) % 3 ? 4096 : draw(&random) >> draw(&random) % 64;
        uint64_t stream = draw(&random) % (i % 20000 < 10000 ? 4 : 400);
        if (draw(&random) % 2)
            tell_alloc(draw(&random) % 3, address, bytes, acre__trace_rounded(bytes), stream,
                       (uint32_t)(draw(&random) % 3));
        else if (draw(&random) % 16)
            tell_free(draw(&random) % 3, address, stream);
        else
            tell_realloc(draw(&random) % 3, address, address + 512, bytes, bytes + 1, stream);
    }
    assert_int_equal(acre_trace_stop(), ACRE_OK);
    expect_told();
}

TEST(code_repeated_patterns_are_small) {
    told_count = 0;
    begin(0, 0);
    for (size_t i = 0; i < 50000; i++) { /* 500 blocks on 4 streams, in turn */
        uint64_t address = 0x700000000000 + i / 2 % 500 * 131072;
        if (i % 2 == 0)
            tell_alloc(0, address, 100000 + i / 2 % 500, 102400, i / 2 % 4 * 64, 0);
        else
            tell_free(0, address, i / 2 % 4 * 64);
    }
    assert_int_equal(acre_trace_stop(), ACRE_OK);
    assert_true(expect_told() < 6);
}

TEST(code_refused_free_is_none) {
    begin(0, 0);
    acre__trace_alloc(&pools[0], (void *)0x10000, 256, 256, NULL, 0, 0);
    acre__trace_free(&pools[0], (void *)0x10000, NULL);
    acre__trace_free_refused(&pools[0], (void *)0x10000, NULL, ACRE_E_POINTER);
    acre__trace_free(&pools[0], (void *)0x10000, NULL);
    assert_int_equal(acre_trace_stop(), ACRE_OK);
    struct file file = file_load();
    struct trace_reader reader;
    struct trace_record record = {0};
    unsigned frees = 0, tried = 0;
    assert_true(trace_open(&reader, file.bytes, file.count));
    while (trace_next(&reader, &record)) {
        frees += record.kind == ACRE__TRACE_FREE && !record.is_refused;
        tried += record.is_refused;
    }
    assert_int_equal(frees, 1);
    assert_int_equal(tried, 1);
    trace_close(&reader);
    free(file.bytes);
}

/* ---- files ---- */

TEST(file_at_its_limit_ends_with_a_warning) {
    begin(1 << 20, 0);
    for (uint64_t i = 1; i < 300000 && acre__trace_is_on(); i++)
        acre__trace_alloc(&pools[0], (void *)(uintptr_t)(i * 256), 1000 + i, 4096 + i, NULL, 0, 0);
    assert_false(acre__trace_is_on());
    assert_int_equal(warnings, 1);
    acre__trace_free(&pools[0], (void *)256, NULL);
    assert_int_equal(warnings, 1);
    struct file file = file_load();
    struct trace_reader reader;
    struct trace_record record = {0};
    uint64_t next = 1;
    assert_true(file.count <= 1 << 20);
    assert_true(trace_open(&reader, file.bytes, file.count));
    assert_int_equal(reader.header.state, ACRE__TRACE_FULL);
    for (; trace_next(&reader, &record); next += record.kind == ACRE__TRACE_ALLOC)
        assert_true(record.kind != ACRE__TRACE_ALLOC || record.address == next * 256);
    assert_null(reader.fault.what);
    assert_true(next > 50000);
    trace_close(&reader);
    free(file.bytes);
    /* A new trace can start and stop. */
    begin(0, 0);
    assert_int_equal(acre_trace_stop(), ACRE_OK);
}

TEST(file_as_ring_keeps_the_newest) {
    enum { EVENTS = 400000 };
    begin(1 << 20, ACRE_TRACE_RING);
    for (uint64_t i = 1; i <= EVENTS; i++)
        acre__trace_alloc(&pools[0], (void *)(uintptr_t)(i * 256), 1000 + i, 4096 + i, NULL, 0, 0);
    assert_true(acre__trace_is_on());
    assert_int_equal(warnings, 0);
    assert_int_equal(acre_trace_stop(), ACRE_OK);
    struct file file = file_load();
    struct trace_reader reader;
    struct trace_record record = {0};
    uint64_t last = 0, count = 0;
    assert_true(file.count <= 1 << 20);
    assert_true(trace_open(&reader, file.bytes, file.count));
    assert_int_equal(reader.header.is_ring, 1);
    assert_int_equal(reader.name_count, 1); /* the ring did not overwrite it */
    while (trace_next(&reader, &record)) {
        if (record.kind != ACRE__TRACE_ALLOC)
            continue;
        assert_true(last == 0 || record.address == (last + 1) * 256);
        last = record.address / 256;
        count++;
    }
    assert_int_equal(last, EVENTS);
    assert_true(count > 50000 && count < EVENTS);
    trace_close(&reader);
    free(file.bytes);
}

/* A file size limit plays a full disk: the library logs a warning, no signal kills the program, and
 * the program goes on. This runs in a new program, since a forked child cannot trace. */
static int fill_up_to_the_limit(void) {
    struct rlimit limit = {200000, 200000};
    warnings = 0;
    CHILD_EXPECT(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHILD_EXPECT(acre_log_set(count_warnings, NULL, ACRE_LOG_WARN) == ACRE_OK);
    CHILD_EXPECT(acre_trace_start(path, NULL) == ACRE_OK);
    for (uint64_t i = 1; i < 300000 && acre__trace_is_on(); i++)
        acre__trace_alloc(&pools[0], (void *)(uintptr_t)(i * 256), 1000 + i, 4096 + i, NULL, 0, 0);
    CHILD_EXPECT(!acre__trace_is_on());
    CHILD_EXPECT(warnings == 1);
    CHILD_EXPECT(acre_trace_stop() == ACRE_OK);
    /* Not even the header fits. */
    limit.rlim_cur = 1000;
    CHILD_EXPECT(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    return acre_trace_start(path, NULL) == ACRE_E_SYSTEM ? 0 : 1;
}

static int start_filling_up(void) {
    execl("/proc/self/exe", "test_trace_code", path, (char *)NULL);
    return 126;
}

TEST(file_that_cannot_grow_ends_with_a_warning) {
#ifdef ACRE_COVERAGE
    skip(); /* the limit also stops the child's coverage counts */
#endif
    assert_child_ok(start_filling_up);
}

static int write_in_child(void) {
    CHILD_EXPECT(!acre__trace_is_on());
    acre__trace_alloc(&pools[0], (void *)0x20000, 256, 256, NULL, 0, 0);
    return acre_trace_mark("child") == ACRE_E_FORKED && acre_trace_stop() == ACRE_E_FORKED ? 0 : 1;
}

TEST(file_of_a_forked_process_stays_the_parents) {
    told_count = 0;
    begin(0, 0);
    tell_alloc(0, 0x10000, 256, 256, 0, 0);
    assert_child_ok(write_in_child);
    tell_free(0, 0x10000, 0);
    assert_int_equal(acre_trace_stop(), ACRE_OK);
    expect_told();
}

/* ---- damage ---- */

/* Reads the bytes to the end. The reader must not crash, loop or read past the file. */
static int read_all(const unsigned char *bytes, size_t count) {
    struct trace_reader reader;
    struct trace_record record = {0};
    int ok = trace_open(&reader, bytes, count);
    while (ok && trace_next(&reader, &record))
        assert_true(record.offset + record.size <= count);
    ok = ok && !reader.fault.what;
    assert_true(ok || (reader.fault.what && reader.fault.offset <= count));
    trace_close(&reader);
    return ok;
}

TEST(damage_is_told_or_harmless) {
    uint64_t random = 99;
    begin(0, 0);
    for (uint64_t i = 0; i < 3000; i++) {
        uint64_t address = 0x700000000000 + draw(&random) % 50 * 4096;
        if (draw(&random) % 2)
            acre__trace_alloc(&pools[i % 3], (void *)(uintptr_t)address, 1000 + i % 7, 1024,
                              (acre_stream)(uintptr_t)(i % 5), (uint32_t)(i % 2), 0);
        else
            acre__trace_free(&pools[i % 3], (void *)(uintptr_t)address, NULL);
    }
    assert_int_equal(acre_trace_stop(), ACRE_OK);
    struct file file = file_load();
    assert_true(read_all(file.bytes, file.count));
    /* Truncated at any length. The copy has exactly that length, so that a sanitizer reports a read
     * past it. */
    for (size_t i = 0; i < 400; i++) {
        size_t count = i < 200 ? i : draw(&random) % file.count;
        unsigned char *cut = malloc(count ? count : 1);
        memcpy(cut, file.bytes, count);
        if (count < ACRE__TRACE_HEADER_BYTES)
            assert_false(read_all(cut, count));
        else
            (void)read_all(cut, count);
        free(cut);
    }
    /* Any byte changed, in the parts that the file uses. */
    unsigned told_bad = 0;
    for (size_t i = 0; i < ROUNDS(4000, 800); i++) {
        size_t block = draw(&random) % 2 ? ACRE__TRACE_HEADER_BYTES + ACRE__TRACE_BLOCK_BYTES : 0;
        size_t at = (block + draw(&random) % 8000) % file.count;
        unsigned char was = file.bytes[at];
        file.bytes[at] = (unsigned char)draw(&random);
        told_bad += !read_all(file.bytes, file.count);
        file.bytes[at] = was;
    }
    assert_true(told_bad > ROUNDS(100, 20));
    free(file.bytes);
}

TEST(reader_takes_only_whole_headers) {
    static const unsigned char empty[1], magic[] = ACRE__TRACE_MAGIC;
    assert_false(read_all(empty, 0));
    assert_false(read_all(magic, 8));
    assert_true(trace_is(magic, 8));
    assert_false(trace_is(magic, 7));
}

/* ---- helpers ---- */

TEST(rounded_is_what_pools_have) {
    assert_int_equal(acre__trace_rounded(0), 0);
    assert_int_equal(acre__trace_rounded(1), 256);
    assert_int_equal(acre__trace_rounded(256), 256);
    assert_int_equal(acre__trace_rounded(2048), 2048);
    assert_int_equal(acre__trace_rounded(2049), 2304);
    assert_int_equal(acre__trace_rounded(65536), 65536);
    assert_int_equal(acre__trace_rounded(65537), 73728);
    assert_int_equal(acre__trace_rounded(UINT64_MAX), UINT64_MAX);
}

TEST(clock_goes_as_the_systems) {
    struct acre__clock clock;
    acre__clock_open(&clock);
    /* The counter's time is between the two of the system's clock, however late the thread runs. */
    uint64_t before = acre__clock_system_ns(), units = acre__clock_units(&clock);
    uint64_t after = acre__clock_system_ns(), ns;
    while ((ns = acre__clock_system_ns()) - after < 20000000) {
    }
    units = acre__clock_units(&clock) - units;
    uint64_t least = acre__clock_rate(units, ns - after, 0);
    ns = acre__clock_system_ns() - before;
    assert_true(least < clock.rate / 4 * 5 && acre__clock_rate(units, ns, 0) > clock.rate / 5 * 4);
    assert_int_equal(acre__clock_rate(units, 10, 77), 77);
    assert_int_equal(acre__clock_rate(0, ns, 77), 77);
}

TEST(path_gets_the_processs_number) {
    char out[ACRE__PATH_BYTES], wanted[64];
    snprintf(wanted, sizeof wanted, "a.%ld.%%.%%q", (long)getpid());
    const char *name = "a.%p.%%.%q";
    assert_int_equal(acre__parse_path(name, strlen(name), out), 0);
    assert_string_equal(out, wanted);
    char longest[2 * ACRE__PATH_BYTES];
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(acre__parse_path(longest, strlen(longest), out), -1);
}

TEST(live_finds_blocks_by_address) {
    struct trace_live live = {0};
    struct trace_block block;
    assert_null(trace_live_find(&live, 256));
    assert_false(trace_live_remove(&live, 256, &block));
    for (uint64_t i = 1; i <= 5000; i++) {
        block = (struct trace_block){.address = i * 256, .bytes = i};
        assert_true(trace_live_add(&live, &block));
        assert_int_equal(block.id, i);
    }
    for (uint64_t i = 1; i <= 5000; i++) {
        uint64_t at = i * 7 % 5001; /* each block once, in another order */
        assert_true(trace_live_remove(&live, at * 256, &block) && block.bytes == at);
        assert_null(trace_live_find(&live, at * 256));
    }
    assert_int_equal(live.bytes, 0);
    assert_int_equal(live.peak_bytes, 5000 * 5001 / 2);
    trace_live_end(&live);
}

static int set_up(void **state) {
    for (unsigned i = 0; i < 3; i++)
        acre__trace_pool_init(&pools[i], "pool %u", i);
    return file_set_up(state);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        snprintf(path, sizeof path, "%s", argv[1]);
        acre__trace_pool_init(&pools[0], "pool");
        return fill_up_to_the_limit();
    }
    return tests_run_with("trace code", set_up, file_tear_down);
}
