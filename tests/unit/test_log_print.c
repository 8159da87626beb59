/* Printed messages (ACRE_LOG): format, levels, lines that repeat. The variable is read once, so a
 * child process tests each setting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/cases.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/thread.h"
#include "child.h"

static char folder[] = "/tmp/acre-log-XXXXXX";
static char path[64];
static char said[1 << 16];

static int make_folder(void **state) {
    (void)state;
    if (strstr(folder, "XXXXXX") && !mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/log", folder);
    unlink(path);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    unlink(path);
    return 0;
}

/* Runs the function in a child with ACRE_LOG set, and reads what the child printed. */
static void print_in_child(const char *setting, int (*run)(void)) {
    setenv("ACRE_LOG", setting, 1);
    assert_child_ok(run);
    unsetenv("ACRE_LOG");
    FILE *file = fopen(path, "r");
    size_t bytes = file ? fread(said, 1, sizeof said - 1, file) : 0;
    said[bytes] = '\0';
    if (file)
        fclose(file);
}

static int say_all_levels(void) {
    acre__log(ACRE_LOG_ERROR, "one", "an error %d", 1);
    acre__log(ACRE_LOG_WARN, "two", "a warning");
    acre__log(ACRE_LOG_INFO, "three", "an info");
    acre__log(ACRE_LOG_DEBUG, "four", "a\ndebug line");
    CHILD_EXPECT(acre__log_begin() == ACRE_OK);
    CHILD_EXPECT(!acre__debug_is_on());
    acre__log_end();
    return 0;
}

TEST_WITH(print_default_level_is_warn, make_folder, remove_folder) {
    print_in_child(path, say_all_levels);
    assert_string_equal(said, "acre: error: one: an error 1\nacre: warning: two: a warning\n");
}

TEST_WITH(print_level_follows_the_name, make_folder, remove_folder) {
    char setting[80];
    snprintf(setting, sizeof setting, "%s:DEBUG", path);
    print_in_child(setting, say_all_levels);
    assert_string_equal(said, "acre: error: one: an error 1\nacre: warning: two: a warning\n"
                              "acre: info: three: an info\nacre: debug: four: a debug line\n");
    snprintf(setting, sizeof setting, "%s:error", path); /* appends to the file */
    print_in_child(setting, say_all_levels);
    assert_non_null(strstr(said, "debug line\nacre: error: one: an error 1\n"));
}

static int say_again(void) {
    for (int i = 0; i < 42; i++)
        acre__log(ACRE_LOG_WARN, "pool", "the same line");
    static char lines[2][ACRE__LOG_LINE] = {"a message", "of two lines"};
    acre__log_lines(ACRE_LOG_ERROR, "pool", lines, 2);
    acre__log_lines(ACRE_LOG_ERROR, "pool", lines, 2);
    acre__log_end();
    acre__log_end(); /* what was counted is reported once */
    return 0;
}

TEST_WITH(print_counts_repeated_lines, make_folder, remove_folder) {
    print_in_child(path, say_again);
    static const char first[] = "acre: warning: pool: the same line\n"
                                "acre: error: pool: a message\n"
                                "acre:     of two lines\n";
    assert_memory_equal(said, first, strlen(first));
    assert_non_null(strstr(said, "\nacre: repeated 41 more times: the same line\n"));
    assert_non_null(strstr(said, "\nacre: repeated 1 more times: a message\n"));
    assert_int_equal(strlen(said), strlen(first) +
                                       strlen("acre: repeated 41 more times: the same line\n") +
                                       strlen("acre: repeated 1 more times: a message\n"));
}

enum { THREADS = 4, LINES = 3000 };

static void *say_many(void *ignored) {
    (void)ignored;
    for (int i = 0; i < LINES; i++) /* more lines than are remembered */
        acre__log(ACRE_LOG_ERROR, "x", "line %d", i % 1500);
    return NULL;
}

static int say_from_threads(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHILD_EXPECT(pthread_create(&threads[i], NULL, say_many, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    acre__log_end();
    return 0;
}

/* Every line is printed at least once and whole, whatever the threads do. */
TEST_WITH(print_from_threads_keeps_lines_whole, make_folder, remove_folder) {
    static char text[1 << 20];
    setenv("ACRE_LOG", path, 1);
    assert_child_ok(say_from_threads);
    unsetenv("ACRE_LOG");
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char seen[1500] = {0};
    while (fgets(text, sizeof text, file)) {
        int number = -1;
        assert_true(sscanf(text, "acre: error: x: line %d\n", &number) == 1 ||
                    sscanf(text, "acre: repeated %*d more times: line %d\n", &number) == 1);
        assert_in_range(number, 0, 1499);
        seen[number] = 1;
    }
    fclose(file);
    for (int i = 0; i < 1500; i++)
        assert_int_equal(seen[i], 1);
}

static int begin_wrong(void) {
    CHILD_EXPECT(acre__log_begin() == ACRE_E_CONFIG);
    CHILD_EXPECT(strstr(acre_last_detail(), "ACRE_LOG is '"));
    CHILD_EXPECT(
        strstr(acre_last_detail(), "expected stderr or a file, then :error, :warn, :info"));
    CHILD_EXPECT(acre__log_begin() == ACRE_E_CONFIG); /* and again */
    CHILD_EXPECT(!acre__log_wanted(ACRE_LOG_ERROR));
    return 0;
}

TEST_WITH(print_to_a_wrong_place_is_a_config_error, make_folder, remove_folder) {
    print_in_child("stderr:loud", begin_wrong);
    print_in_child("/nonexistent/folder/log", begin_wrong);
    print_in_child(":warn", begin_wrong);
}

static int log_keeps_the_detail(void) {
    acre_device *dev;
    CHILD_EXPECT(acre_open("no such device", NULL, &dev) != ACRE_OK);
    char before[256];
    snprintf(before, sizeof before, "%s", acre_last_detail());
    acre__log(ACRE_LOG_ERROR, "x", "first message");
    CHILD_EXPECT(strcmp(before, acre_last_detail()) == 0);
    return 0;
}

TEST_WITH(print_keeps_the_threads_detail, make_folder, remove_folder) {
    print_in_child(path, log_keeps_the_detail);
}

TEST(parse_log_takes_a_place_and_a_level) {
    static const struct {
        const char *text;
        size_t bytes;
        int level, result;
    } cases[] = {
        {"stderr", 6, 0, 0},
        {"stderr:warn", 6, 2, 0},
        {"stderr:Debug", 6, 4, 0},
        {"/a/b:c", 6, 0, 0},
        {"/a/b:c:info", 6, 3, 0},
        {"stderr:", 0, 0, -1},
        {"stderr:loud", 0, 0, -1},
        {":error", 0, 0, -1},
        {"", 0, 0, -1},
        {"stderr:warn:warn", 11, 2, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t bytes = 77;
        int level = 77;
        int result = acre__parse_log(cases[i].text, &bytes, &level);
        if (result != cases[i].result ||
            (!result && (bytes != cases[i].bytes || level != cases[i].level)))
            fail_msg("%s: %d, %zu bytes, level %d", cases[i].text, result, bytes, level);
    }
}

TEST(parse_stacks_takes_frames_and_a_way) {
    static const struct {
        const char *text;
        unsigned frames;
        int is_fp, result;
    } cases[] = {
        {"0", 0, 0, 0},
        {"8", 8, 0, 0},
        {"64:fp", 64, 1, 0},
        {"8:FP", 8, 1, 0},
        {"65", 0, 0, -1},
        {"", 0, 0, -1},
        {"8:", 0, 0, -1},
        {"8:x", 0, 0, -1},
        {"-1", 0, 0, -1},
        {"8 ", 0, 0, -1},
        {"99999999999999999999", 0, 0, -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned frames = 77;
        int is_fp = 77, result = acre__parse_stacks(cases[i].text, &frames, &is_fp);
        if (result != cases[i].result ||
            (!result && (frames != cases[i].frames || is_fp != cases[i].is_fp)))
            fail_msg("%s: %d, %u frames, %d", cases[i].text, result, frames, is_fp);
    }
}

int main(void) {
    unsetenv("ACRE_LOG");
    unsetenv("ACRE_DEBUG");
    int result = tests_run("log_print");
    rmdir(folder);
    return result;
}
