/* ACRE_STATS: the output of `acre stats` for a running program, and for one that has exited. */
#include <signal.h>

#include "api_file.h"
#include "api_pool.h"

/* ---- the observed program ---- */

static void say(const char *word) {
    api_must(write(1, word, 1) == 1);
}

static void hear(void) {
    char letter;
    api_must(read(0, &letter, 1) == 1);
}

/* Does one step for every byte that it reads, and writes a letter after each step. */
static int serve(void) {
    acre_device *device;
    acre_stream stream;
    acre_pool *pool;
    void *blocks[500];
    api_must(acre_open("soft", NULL, &device) == ACRE_OK);
    api_must(acre_stream_create(device, 0, &stream) == ACRE_OK);
    api_must(acre_pool_create(device, NULL, &pool) == ACRE_OK);
    for (int i = 0; i < 500; i++)
        api_must(acre_pool_alloc(pool, 1000, 0, stream, &blocks[i]) == ACRE_OK);
    api_must(acre_stats_export() == ACRE_OK);
    say("a");
    hear();
    /* A spill updates the counters in the file without a call of acre_stats_export. */
    for (int i = 0; i < 500; i++)
        api_must(acre_pool_free(pool, blocks[i], stream) == ACRE_OK);
    say("b");
    hear();
    api_must(acre_stats_export() == ACRE_OK);
    say("c");
    hear();
    api_must(acre_pool_destroy(pool, NULL, NULL) == ACRE_OK);
    say("d");
    hear();
    return 0;
}

static void step(int to, int from, char word) {
    char letter = 0;
    if (word != 'a')
        assert_int_equal(write(to, "x", 1), 1);
    assert_int_equal(read(from, &letter, 1), 1);
    assert_int_equal(letter, word);
}

/* ---- output of the tool ---- */

/* Returns a number or word of the JSON, selected with jq. `what` is the file or the process id. */
static void ask(const char *what, const char *filter, char answer[64]) {
    char command[1024];
    snprintf(command, sizeof command,
             "ASAN_OPTIONS=detect_leaks=0 '%s/acre' stats --json %s 2>/dev/null | jq -r '%s'",
             getenv("ACRE_BUILD"), what, filter);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    answer[0] = '\0';
    (void)!fgets(answer, 64, out);
    answer[strcspn(answer, "\n")] = '\0';
    pclose(out);
}

static long ask_pool(const char *what, const char *counter) {
    char filter[128], answer[64];
    snprintf(filter, sizeof filter, ".rows[] | select(.kind == \"pool\") | .values.%s", counter);
    ask(what, filter, answer);
    return answer[0] ? strtol(answer, NULL, 10) : -1;
}

TEST(stats_of_a_running_program_are_shown) {
    int to, from;
    char by_pid[32], answer[64];
    pid_t pid = file_start("ACRE_STATS", "serve", &to, &from);
    snprintf(by_pid, sizeof by_pid, "%ld", (long)pid);
    step(to, from, 'a');
    const char *ways[] = {path, by_pid};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ask_pool(ways[i], "live_blocks"), 500);
        assert_int_equal(ask_pool(ways[i], "live_bytes"), 500 * 1024);
        assert_true(ask_pool(ways[i], "refills") >= 1);
        assert_int_equal(ask_pool(ways[i], "spills"), 0);
        ask(ways[i], ".is_running", answer);
        assert_string_equal(answer, "true");
        ask(ways[i], ".rows[] | select(.kind == \"device\") | .name", answer);
        assert_string_equal(answer, "soft:0");
        ask(ways[i], ".rows[] | select(.kind == \"device\") | .values.streams_live", answer);
        assert_string_equal(answer, "1");
        ask(ways[i], ".pid", answer);
        assert_string_equal(answer, by_pid);
    }
    step(to, from, 'b');
    assert_true(ask_pool(path, "spills") >= 1);
    step(to, from, 'c');
    assert_int_equal(ask_pool(path, "live_blocks"), 0);
    step(to, from, 'd');
    assert_int_equal(ask_pool(path, "live_blocks"), -1); /* the pool is destroyed */
    /* The process is dead, and the file still has the last figures. */
    int ended;
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &ended, 0), pid);
    ask(path, ".is_running", answer);
    assert_string_equal(answer, "false");
    ask(path, ".rows[] | select(.kind == \"device\") | .values.streams_live", answer);
    assert_string_equal(answer, "1");
    ask(by_pid, ".is_running", answer);
    assert_string_equal(answer, "");
    close(to);
    close(from);
}

/* Two programs with one file: the second program works without exporting. */
static int open_twice(void) {
    acre_device *device;
    api_must(acre_open("soft", NULL, &device) == ACRE_OK);
    api_must(acre_stats_export() == ACRE_OK);
    api_must(acre_close(device) == ACRE_OK);
    return 0;
}

TEST(stats_file_of_another_program_is_left_alone) {
    int to, from;
    char setting[256];
    pid_t pid = file_start("ACRE_STATS", "serve", &to, &from);
    step(to, from, 'a');
    snprintf(setting, sizeof setting, "ACRE_STATS=%s", path);
    api_started_ok("twice", setting);
    assert_int_equal(ask_pool(path, "live_blocks"), 500);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(to);
    close(from);
    api_started_ok("twice", setting);
}

int main(int argc, char **argv) {
    if (argc > 1)
        return strcmp(argv[1], "serve") == 0 ? serve() : open_twice();
    return tests_run_with("stats export", file_set_up, file_tear_down);
}
