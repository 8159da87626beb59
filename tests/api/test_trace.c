/* Traces: `acre trace` lists the calls of a program in all its threads, also after the program was
 * killed. And misuse. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "api_file.h"
#include "api_pool.h"
#include "support/leave.h"

/* ---- the list of the tool ---- */

struct line {
    char kind[32];
    unsigned thread;
    uint64_t at, from, bytes, real, block;
    char text[256];
};

static uint64_t field(const char *line, const char *name) {
    const char *at = strstr(line, name);
    return at ? strtoull(at + strlen(name), NULL, 0) : 0;
}

/* Calls `fn` with every line. Returns the number of lines. The leak check of the tool is in
 * tests/cli, since it takes seconds per process on some machines. */
static size_t list_each(void (*fn)(void *user, const struct line *line), void *user) {
    char command[512], text[1024];
    const char *build = getenv("ACRE_BUILD");
    assert_non_null(build);
    snprintf(command, sizeof command, "ASAN_OPTIONS=detect_leaks=0 '%s/acre' trace --list '%s'",
             build, path);
    FILE *list = popen(command, "r");
    assert_non_null(list);
    size_t count = 0;
    while (fgets(text, sizeof text, list)) {
        struct line line = {.at = field(text, " at="),
                            .block = field(text, " block="),
                            .from = field(text, " from="),
                            .bytes = field(text, " bytes="),
                            .real = field(text, " real=")};
        assert_int_equal(sscanf(text, "%*s %u %31s", &line.thread, line.kind), 2);
        snprintf(line.text, sizeof line.text, "%.255s", text);
        count++;
        if (fn)
            fn(user, &line);
    }
    assert_int_equal(pclose(list), 0);
    return count;
}

/* The blocks that are live at the end of the list. */
enum { BLOCKS = 8192 };
struct live {
    uint64_t at[BLOCKS], real[BLOCKS], bytes[BLOCKS];
    size_t count;
    unsigned others;  /* lines of other kinds than alloc, free and realloc */
    unsigned unknown; /* frees of blocks that were allocated before the trace */
    unsigned marks, waits, refused, created, mapped, tried;
};

static size_t live_find(const struct live *live, uint64_t at) {
    size_t i = 0;
    while (i < live->count && live->at[i] != at)
        i++;
    return i;
}

static void live_add(struct live *live, const struct line *line) {
    assert_true(live->count < BLOCKS);
    assert_int_equal(live_find(live, line->at), live->count); /* no live block has this address */
    live->at[live->count] = line->at;
    live->bytes[live->count] = line->bytes;
    live->real[live->count++] = line->real;
}

static void live_remove(struct live *live, uint64_t at) {
    size_t i = live_find(live, at);
    if (i == live->count)
        fail_msg("the trace frees 0x%llx, which is not live", (unsigned long long)at);
    live->count--;
    live->at[i] = live->at[live->count];
    live->bytes[i] = live->bytes[live->count];
    live->real[i] = live->real[live->count];
}

static void live_line(void *user, const struct line *line) {
    struct live *live = user;
    if (strcmp(line->kind, "alloc") == 0) {
        live_add(live, line);
    } else if (strcmp(line->kind, "free") == 0 || strcmp(line->kind, "free-after") == 0) {
        if (line->block)
            live_remove(live, line->at);
        else
            live->unknown++;
    } else if (strcmp(line->kind, "realloc") == 0) {
        live_remove(live, line->from);
        live_add(live, line);
    }
    live->marks += strcmp(line->kind, "mark") == 0;
    live->waits += strcmp(line->kind, "wait") == 0;
    live->refused += strcmp(line->kind, "alloc-refused") == 0;
    live->created += strcmp(line->kind, "chunk-create") == 0;
    live->mapped += strcmp(line->kind, "chunk-map") == 0;
    live->tried += strcmp(line->kind, "free-tried") == 0;
}

static struct live listed;

static struct live *list_live(void) {
    listed = (struct live){0};
    (void)list_each(live_line, &listed);
    return &listed;
}

/* Every live block of the pool is in the list, with the same size. */
static int expect_walked(void *user, void *p, size_t bytes) {
    struct live *live = user;
    size_t i = live_find(live, (uintptr_t)p);
    assert_true(i < live->count);
    assert_int_equal(live->real[i], bytes);
    live->others++; /* seen */
    return 0;
}

static void expect_live(struct live *live, acre_pool *pool) {
    live->others = 0;
    assert_int_equal(live->unknown, 0);
    api_ok(acre_pool_walk(pool, expect_walked, live));
    assert_int_equal(live->others, live->count);
}

/* ---- one thread ---- */

static uint64_t draw(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

TEST(trace_has_all_that_a_pool_did) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        acre_event event;
        api_ok(acre_event_create(t.device, 0, &event));
        api_ok(acre_trace_start(path, NULL));
        void *blocks[300] = {0};
        uint64_t random = 12345;
        for (int i = 0; i < 5000; i++) {
            size_t place = draw(&random) % 300;
            void **block = &blocks[place];
            size_t bytes = 1 + draw(&random) % (draw(&random) % 8    ? 5000
                                                : draw(&random) % 16 ? 500000
                                                                     : 6000000);
            acre_stream stream = place % 2 ? t.stream : t.other;
            if (!*block)
                api_ok(draw(&random) % 2
                           ? acre_pool_alloc(t.pool, bytes, 0, stream, block)
                           : acre_pool_alloc_zeroed(t.pool, bytes, 512, stream, block));
            else if (draw(&random) % 4 == 0)
                api_ok(acre_pool_realloc(t.pool, *block, bytes, stream, block));
            else {
                api_ok(acre_event_record(t.device, event, stream));
                api_ok(draw(&random) % 8 == 0   ? acre_pool_free_after(t.pool, *block, event)
                       : draw(&random) % 2 == 0 ? acre_pool_free(t.pool, *block, stream)
                                                : acre_free(*block, stream));
                *block = NULL;
            }
        }
        void *many[10], *simple;
        api_ok(acre_pool_alloc_many(t.pool, 3000, 10, t.stream, many));
        api_ok(acre_alloc(t.device, 777, t.stream, &simple)); /* of another pool */
        api_ok(acre_free(simple, t.stream));
        api_ok(acre_trace_mark("half\nway"));
        /* Reads the trace while it is written, and after. */
        expect_live(list_live(), t.pool);
        api_ok(acre_pool_free_many(t.pool, many, 10, t.stream, NULL));
        api_ok(acre_trace_stop());
        struct live *live = list_live();
        expect_live(live, t.pool);
        assert_int_equal(live->marks, 1);
        assert_true(live->created >= 1 && live->mapped >= 1);
        /* After acre_trace_stop nothing more is recorded. */
        size_t lines = list_each(NULL, NULL);
        for (int i = 0; i < 300; i++)
            api_ok(acre_pool_free(t.pool, blocks[i], i % 2 ? t.stream : t.other));
        assert_int_equal(list_each(NULL, NULL), lines);
        api_ok(acre_event_destroy(t.device, event));
        end(&t);
    }
}

TEST(trace_tells_what_was_refused) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        api_ok(acre_trace_start(path, NULL));
        void *p = alloc(&t, 4096), *none;
        acre_device_info info = {.struct_size = sizeof info};
        api_ok(acre_device_get_info(t.device, &info));
        api_expect(acre_pool_alloc(t.pool, info.total_bytes + 1, 0, t.stream, &none),
                   ACRE_E_DEVICE_MEMORY);
        api_expect(acre_pool_alloc(t.pool, SIZE_MAX, 0, t.stream, &none), ACRE_E_DEVICE_MEMORY);
        api_ok(acre_pool_alloc(t.pool, 0, 0, t.stream, &none)); /* no event */
        api_expect(acre_pool_free(t.pool, (char *)p + 256, t.stream), ACRE_E_INTERIOR);
        api_ok(acre_pool_free(t.pool, p, t.stream));
        api_expect(acre_pool_free(t.pool, p, t.stream), ACRE_E_POINTER);
        api_expect(acre_pool_alloc((acre_pool *)&t, 4096, 0, t.stream, &none), ACRE_E_HANDLE);
        api_ok(acre_trace_stop());
        struct live *live = list_live();
        assert_int_equal(live->count, 0);
        assert_int_equal(live->refused, 2);
        assert_int_equal(live->tried, 2);
        end(&t);
    }
}

/* ---- threads ---- */

enum { THREADS = 4, ROUNDS = 3000, HANDED = 64 };

struct worker {
    struct things *t;
    _Atomic(void *) *handed; /* blocks that another thread frees */
    unsigned seed;
    void *kept[20];
};

static void *work(void *argument) {
    struct worker *worker = argument;
    uint64_t random = worker->seed;
    acre_stream stream = worker->seed % 2 ? worker->t->stream : worker->t->other;
    for (int i = 0; i < ROUNDS; i++) {
        void *p = NULL;
        api_must(acre_pool_alloc(worker->t->pool, 1 + draw(&random) % 20000, 0, stream, &p) ==
                 ACRE_OK);
        /* Every other block goes into a shared slot; this thread frees the block that was there. */
        if (i % 2)
            p = atomic_exchange(&worker->handed[draw(&random) % HANDED], p);
        if (p)
            api_must(acre_pool_free(worker->t->pool, p, stream) == ACRE_OK);
    }
    for (int i = 0; i < 20; i++)
        api_must(acre_pool_alloc(worker->t->pool, 1000 + draw(&random) % 1000, 0, stream,
                                 &worker->kept[i]) == ACRE_OK);
    return NULL;
}

TEST(trace_of_many_threads_is_one) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        static _Atomic(void *) handed[HANDED];
        static struct worker workers[THREADS];
        pthread_t threads[THREADS];
        memset(handed, 0, sizeof handed);
        api_ok(acre_trace_start(path, NULL));
        for (unsigned i = 0; i < THREADS; i++) {
            workers[i] = (struct worker){&t, handed, i + 1, {0}};
            assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
        }
        for (unsigned i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        api_ok(acre_trace_stop());
        expect_live(list_live(), t.pool);
        for (unsigned i = 0; i < THREADS * 20; i++)
            api_ok(acre_pool_free(t.pool, workers[i / 20].kept[i % 20], t.stream));
        for (unsigned i = 0; i < HANDED; i++)
            api_ok(acre_pool_free(t.pool, handed[i], t.stream));
        end(&t);
    }
}

struct starter {
    struct things *t;
    _Atomic int stop;
};

static void *allocate_until_stopped(void *argument) {
    struct starter *starter = argument;
    while (!starter->stop) {
        void *p;
        api_must(acre_pool_alloc(starter->t->pool, 5000, 0, starter->t->stream, &p) == ACRE_OK);
        api_must(acre_pool_free(starter->t->pool, p, starter->t->stream) == ACRE_OK);
    }
    return NULL;
}

TEST(trace_starts_and_stops_under_way) {
    struct things t = begin("soft", NULL);
    struct starter starter = {&t, 0};
    pthread_t threads[3];
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_until_stopped, &starter), 0);
    for (int i = 0; i < 40; i++) {
        api_ok(acre_trace_start(path, NULL));
        usleep(1000);
        api_ok(acre_trace_flush());
        api_ok(acre_trace_stop());
    }
    api_ok(acre_trace_start(path, NULL));
    api_ok(acre_trace_mark("the last one"));
    starter.stop = 1;
    for (unsigned i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    api_ok(acre_trace_stop());
    assert_int_equal(list_live()->marks, 1);
    assert_int_equal(listed.count, 0);
    assert_true(listed.unknown <= 3);
    end(&t);
}

/* ---- a program that is killed ---- */

/* Writes each allocation to standard output after it is done. */
static int be_killed(void) {
    acre_device *device;
    acre_stream stream;
    api_must(acre_open("soft", NULL, &device) == ACRE_OK); /* ACRE_TRACE is set */
    api_must(acre_stream_create(device, 0, &stream) == ACRE_OK);
    for (uint64_t i = 0;; i++) {
        void *p;
        api_must(acre_alloc(device, 1 + i % 100000, stream, &p) == ACRE_OK);
        uint64_t told[2] = {(uintptr_t)p, 1 + i % 100000};
        api_must(write(1, told, sizeof told) == (ssize_t)sizeof told);
        if (i % 3)
            api_must(acre_free(p, stream) == ACRE_OK);
    }
}

enum { ANNOUNCED = 20000 };
static uint64_t announced[ANNOUNCED][2];
static size_t announced_count, announced_seen;

static void expect_announced(void *user, const struct line *line) {
    (void)user;
    if (strcmp(line->kind, "alloc") != 0)
        return;
    if (announced_seen < announced_count) {
        assert_int_equal(line->at, announced[announced_seen][0]);
        assert_int_equal(line->bytes, announced[announced_seen][1]);
    }
    announced_seen++;
}

TEST(trace_of_a_killed_program_has_all_it_told) {
    int from, ended;
    pid_t pid = file_start("ACRE_TRACE", "killed", NULL, &from);
    announced_count = announced_seen = 0;
    /* The program is killed in the middle. Allocations still in the pipe are in the trace, too. */
    while (announced_count < ANNOUNCED) {
        ssize_t got = read(from, announced[announced_count], sizeof announced[0]);
        if (got <= 0)
            break;
        assert_int_equal(got, (ssize_t)sizeof announced[0]);
        if (++announced_count == 5000)
            assert_int_equal(kill(pid, SIGKILL), 0);
    }
    close(from);
    assert_int_equal(waitpid(pid, &ended, 0), pid);
    assert_true(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGKILL);
    assert_true(announced_count >= 5000);
    (void)list_each(expect_announced, NULL);
    assert_true(announced_seen >= announced_count);
    /* Recorded, but not yet written to the pipe. */
    assert_true(announced_seen <= announced_count + 1);
}

/* ---- fork ---- */

TEST(trace_of_a_forked_child_is_none) {
    struct things t = begin("soft", NULL);
    api_ok(acre_trace_start(path, NULL));
    void *p = alloc(&t, 4096);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        void *q;
        int is_refused =
            acre_pool_alloc(t.pool, 4096, 0, t.stream, &q) == ACRE_E_FORKED &&
            acre_pool_free(t.pool, p, t.stream) == ACRE_E_FORKED &&
            acre_trace_mark("child") == ACRE_E_FORKED && acre_trace_stop() == ACRE_E_FORKED &&
            acre_trace_flush() == ACRE_E_FORKED && acre_trace_start(path, NULL) == ACRE_E_FORKED &&
            acre_stats_export() == ACRE_E_FORKED;
        leave(is_refused ? 0 : 1);
    }
    int ended;
    assert_int_equal(waitpid(pid, &ended, 0), pid);
    assert_true(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
    api_ok(acre_trace_mark("parent"));
    api_ok(acre_trace_stop());
    struct live *live = list_live();
    assert_int_equal(live->marks, 1);
    assert_int_equal(live->count, 1);
    assert_int_equal(live->refused, 0);
    api_ok(acre_pool_free(t.pool, p, t.stream));
    end(&t);
}

/* ---- misuse ---- */

TEST(trace_calls_without_a_trace_are_nothing) {
    api_ok(acre_trace_stop());
    api_ok(acre_trace_flush());
    api_ok(acre_trace_mark("nobody listens"));
    api_ok(acre_stats_export());
}

TEST(trace_start_refuses_what_cannot_be) {
    char other[256];
    acre_trace_options options = {.struct_size = sizeof options, .flags = 2};
    api_expect(acre_trace_start(NULL, NULL), ACRE_E_NULL);
    char long_name[5000] = {0};
    memset(long_name, 'x', sizeof long_name - 1);
    api_expect(acre_trace_start(long_name, NULL), ACRE_E_INVALID);
    api_expect(acre_trace_start("", NULL), ACRE_E_NULL);
    api_expect(acre_trace_mark(NULL), ACRE_E_NULL);
    api_expect(acre_trace_start(path, &options), ACRE_E_OPTIONS);
    options = (acre_trace_options){.struct_size = 4};
    api_expect(acre_trace_start(path, &options), ACRE_E_OPTIONS);
    options = (acre_trace_options){.struct_size = sizeof options, .reserved = 1};
    api_expect(acre_trace_start(path, &options), ACRE_E_OPTIONS);
    api_expect(acre_trace_start(folder, NULL), ACRE_E_SYSTEM);
    snprintf(other, sizeof other, "%s/none/trace", folder);
    api_expect(acre_trace_start(other, NULL), ACRE_E_SYSTEM);
    assert_non_null(strstr(acre_last_detail(), "none/trace"));
    api_expect(acre_trace_start("/dev/null", NULL), ACRE_E_INVALID);
    /* A file that is not a trace is not overwritten. */
    snprintf(other, sizeof other, "%s/letter", folder);
    FILE *letter = fopen(other, "w");
    assert_non_null(letter);
    fputs("dear reader", letter);
    fclose(letter);
    api_expect(acre_trace_start(other, NULL), ACRE_E_INVALID);
    struct stat now;
    assert_int_equal(stat(other, &now), 0);
    assert_int_equal(now.st_size, 11);
    unlink(other);
    /* One trace at a time. */
    api_ok(acre_trace_start(path, NULL));
    api_expect(acre_trace_start(path, NULL), ACRE_E_BUSY);
    api_ok(acre_trace_stop());
    /* A trace that another program writes is not overwritten. */
    int from;
    pid_t pid = file_start("ACRE_TRACE", "killed", NULL, &from);
    uint64_t told[2];
    assert_int_equal(read(from, told, sizeof told), (ssize_t)sizeof told);
    api_expect(acre_trace_start(path, NULL), ACRE_E_BUSY);
    kill(pid, SIGKILL);
    close(from);
    waitpid(pid, NULL, 0);
    api_ok(acre_trace_start(path, NULL));
    api_ok(acre_trace_stop());
}

TEST(trace_name_has_the_processs_number) {
    char wish[256], real[256];
    snprintf(wish, sizeof wish, "%s/t.%%p", folder);
    snprintf(real, sizeof real, "%s/t.%ld", folder, (long)getpid());
    api_ok(acre_trace_start(wish, NULL));
    api_ok(acre_trace_stop());
    assert_int_equal(unlink(real), 0);
}

/* With an invalid ACRE_TRACE, acre_open fails and the detail names the variable. */
static int open_badly(void) {
    acre_device *device;
    api_must(acre_open("soft", NULL, &device) == ACRE_E_CONFIG);
    api_must(strstr(acre_last_detail(), "ACRE_TRACE") || strstr(acre_last_detail(), "ACRE_STATS"));
    return 0;
}

TEST(trace_variables_that_cannot_be_are_told) {
    api_started_ok("bad", "ACRE_TRACE=/nonexistent/file");
    api_started_ok("bad", "ACRE_STATS=/nonexistent/file");
    api_started_ok("bad", "ACRE_TRACE=/dev/null");
    char setting[256];
    snprintf(setting, sizeof setting, "ACRE_TRACE=%s", path);
    api_started_ok("bad", setting, "ACRE_TRACE_BYTES=much");
    api_started_ok("bad", setting, "ACRE_TRACE_RING=perhaps");
}

int main(int argc, char **argv) {
    if (argc > 1)
        return strcmp(argv[1], "killed") == 0 ? be_killed() : open_badly();
    return tests_run_with("trace", file_set_up, file_tear_down);
}
