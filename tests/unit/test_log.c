/* The log: which messages reach the callback, and how they are formatted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "support/cases.h"
#include "base/log.h"
#include "base/thread.h"
#include "child.h"

static struct {
    _Atomic int count;
    void *user;
    acre_log_level level;
    char area[32];
    char line[1024];
} heard;

static void hear(void *user, acre_log_level level, const char *area, const char *line) {
    heard.user = user;
    heard.level = level;
    snprintf(heard.area, sizeof heard.area, "%s", area);
    snprintf(heard.line, sizeof heard.line, "%s", line);
    atomic_fetch_add(&heard.count, 1);
    errno = EPIPE;
}

static void count_only(void *user, acre_log_level level, const char *area, const char *line) {
    (void)level, (void)area, (void)line;
    atomic_fetch_add((_Atomic int *)user, 1);
}

static int forget(void **state) {
    (void)state;
    memset(&heard, 0, sizeof heard);
    return acre_log_set(NULL, NULL, ACRE_LOG_ERROR) == ACRE_OK ? 0 : -1;
}

TEST_WITH(log_message_reaches_the_callback_with_its_parts, forget, NULL) {
    int user = 0;
    assert_int_equal(acre_log_set(hear, &user, ACRE_LOG_DEBUG), ACRE_OK);
    acre__log(ACRE_LOG_INFO, "soft", "%d of %s", 3, "four");
    assert_int_equal(atomic_load(&heard.count), 1);
    assert_ptr_equal(heard.user, &user);
    assert_int_equal(heard.level, ACRE_LOG_INFO);
    assert_string_equal(heard.area, "soft");
    assert_string_equal(heard.line, "3 of four");
}

TEST_WITH(log_level_lets_through_what_is_as_grave, forget, NULL) {
    for (int set = ACRE_LOG_ERROR; set <= ACRE_LOG_DEBUG; set++) {
        assert_int_equal(acre_log_set(hear, NULL, (acre_log_level)set), ACRE_OK);
        for (int level = ACRE_LOG_ERROR; level <= ACRE_LOG_DEBUG; level++) {
            atomic_store(&heard.count, 0);
            acre__log((acre_log_level)level, "test", "x");
            assert_int_equal(atomic_load(&heard.count), level <= set);
            assert_int_equal(acre__log_wanted((acre_log_level)level), level <= set);
        }
    }
}

TEST_WITH(log_off_hears_nothing, forget, NULL) {
    assert_int_equal(acre_log_set(hear, NULL, ACRE_LOG_DEBUG), ACRE_OK);
    /* Without a callback the level does not matter. */
    assert_int_equal(acre_log_set(NULL, NULL, (acre_log_level)0), ACRE_OK);
    acre__log(ACRE_LOG_ERROR, "test", "x");
    assert_int_equal(atomic_load(&heard.count), 0);
    assert_int_equal(acre__log_wanted(ACRE_LOG_ERROR), 0);
}

TEST_WITH(log_bad_level_is_refused_and_the_old_callback_stays, forget, NULL) {
    const int bad[] = {0, 5, -1, INT32_MAX};
    int user = 0;
    _Atomic int others = 0;
    assert_int_equal(acre_log_set(hear, &user, ACRE_LOG_WARN), ACRE_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(acre_log_set(count_only, &others, (acre_log_level)bad[i]), ACRE_E_INVALID);
        assert_non_null(strstr(acre_last_detail(), "acre_log_set: level"));
        acre__log(ACRE_LOG_WARN, "test", "x");
        acre__log(ACRE_LOG_INFO, "test", "x");
    }
    assert_int_equal(atomic_load(&heard.count), 4);
    assert_ptr_equal(heard.user, &user);
    assert_int_equal(atomic_load(&others), 0);
}

TEST_WITH(log_long_line_is_cut_at_500_bytes, forget, NULL) {
    char text[700];
    memset(text, 'z', sizeof text);
    assert_int_equal(acre_log_set(hear, NULL, ACRE_LOG_DEBUG), ACRE_OK);
    acre__log(ACRE_LOG_INFO, "test", "%.*s", 500, text);
    assert_int_equal(strlen(heard.line), 500);
    acre__log(ACRE_LOG_INFO, "test", "y%.*s", 600, text);
    assert_int_equal(strlen(heard.line), 500);
    assert_int_equal(heard.line[0], 'y');
    assert_int_equal(heard.line[499], 'z');
}

TEST_WITH(log_line_ends_in_a_message_become_blanks, forget, NULL) {
    assert_int_equal(acre_log_set(hear, NULL, ACRE_LOG_DEBUG), ACRE_OK);
    acre__log(ACRE_LOG_INFO, "test", "%s", "two\nlines\r\n");
    assert_string_equal(heard.line, "two lines  ");
}

TEST_WITH(log_keeps_errno_and_detail, forget, NULL) {
    assert_int_equal(acre_log_set(hear, NULL, (acre_log_level)9), ACRE_E_INVALID);
    char detail[300];
    snprintf(detail, sizeof detail, "%s", acre_last_detail());
    assert_int_equal(acre_log_set(hear, NULL, ACRE_LOG_DEBUG), ACRE_OK);
    errno = ENOENT;
    acre__log(ACRE_LOG_INFO, "test", "x");
    assert_int_equal(errno, ENOENT);
    assert_int_equal(atomic_load(&heard.count), 1);
    assert_string_equal(acre_last_detail(), detail);
}

static void *log_many(void *argument) {
    for (int i = 0; i < 1000; i++)
        acre__log(i % 2 ? ACRE_LOG_ERROR : ACRE_LOG_DEBUG, "test", "%d", i);
    return argument;
}

TEST_WITH(log_from_many_threads_loses_nothing, forget, NULL) {
    _Atomic int count = 0;
    assert_int_equal(acre_log_set(count_only, &count, ACRE_LOG_ERROR), ACRE_OK);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, log_many, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&count), 2000);
}

static int set_in_child(void) {
    CHILD_EXPECT(acre_log_set(hear, NULL, ACRE_LOG_DEBUG) == ACRE_E_FORKED);
    CHILD_EXPECT(!acre__log_wanted(ACRE_LOG_ERROR));
    return 0;
}

TEST_WITH(log_set_in_a_forked_child_is_refused, forget, NULL) {
    assert_int_equal(acre__watch_fork(), ACRE_OK);
    assert_child_ok(set_in_child);
    assert_int_equal(acre_log_set(hear, NULL, ACRE_LOG_DEBUG), ACRE_OK);
}

int main(void) {
    return tests_run("log");
}
