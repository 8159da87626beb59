/* Configuration: which values each kind accepts and refuses, and the warnings for unknown names. */
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

#include "base/config.h"
#include "base/config_names.h"
#include "base/parse.h"
#include "base/thread.h"
#include "child.h"

#define KIB UINT64_C(1024)

/* ---- values ---- */

static void config_sizes_that_can_be_read_are(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t value;
    } good[] = {
        {"0", 0},
        {"1", 1},
        {"007", 7},
        {"4096", 4096},
        {"12B", 12},
        {"12b", 12},
        {"1K", KIB},
        {"1k", KIB},
        {"1KiB", KIB},
        {"1kib", KIB},
        {"1KIB", KIB},
        {"1KB", 1000},
        {"1kB", 1000},
        {"3M", 3 * KIB * KIB},
        {"3MiB", 3 * KIB * KIB},
        {"3mb", 3000000},
        {"2G", 2 * KIB * KIB * KIB},
        {"2GiB", 2 * KIB * KIB * KIB},
        {"2GB", 2000000000},
        {"5T", 5 * KIB * KIB * KIB * KIB},
        {"5TiB", 5 * KIB * KIB * KIB * KIB},
        {"5TB", 5000000000000},
        {"0T", 0},
        {"18446744073709551615", UINT64_MAX},
        {"18446744073709551615B", UINT64_MAX},
        {"16777215T", UINT64_C(16777215) << 40},
        {"000000000000000000000000000000001K", KIB},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t value = 12345;
        if (acre__parse_bytes(good[i].text, &value) != 0)
            fail_msg("refused a valid value: '%s'", good[i].text);
        if (value != good[i].value)
            fail_msg("%s gave %llu", good[i].text, (unsigned long long)value);
    }
}

static void config_sizes_that_cannot_be_read_change_nothing(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",
        " ",
        "K",
        "B",
        "GiB",
        "-1",
        "-1K",
        "+1",
        "1.5G",
        "1,5G",
        "1e9",
        " 1",
        "1 ",
        "1 K",
        "1K ",
        "\t1",
        "1\n",
        "0x10",
        "1KK",
        "1KiBB",
        "1Ki",
        "1iB",
        "1P",
        "1E",
        "1Q",
        "1G1",
        "one",
        "1_000",
        "18446744073709551616",
        "18446744073709551615K",
        "16777216T",
        "18014398509481984K",
        "18446744073710TB",
        "99999999999999999999999999",
        "1\xc2\xa0K",
        "\xd9\xa1",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t value = 12345;
        if (acre__parse_bytes(bad[i], &value) == 0)
            fail_msg("accepted an invalid value: '%s'", bad[i]);
        assert_int_equal(value, 12345);
    }
}

static void config_unset_or_empty_variable_gives_the_default(void **state) {
    (void)state;
    uint64_t value = 0;
    int flag = 0;
    for (int is_empty = 0; is_empty < 2; is_empty++) {
        if (is_empty) {
            setenv("ACRE_SOFT_BYTES", "", 1);
            setenv("ACRE_SOFT_SEED", "", 1);
            setenv("ACRE_SOFT_CHECK", "", 1);
            setenv("ACRE_DEVICE", "", 1);
        }
        assert_int_equal(acre__config_bytes(ACRE__CONFIG_SOFT_BYTES, 77, &value), ACRE_OK);
        assert_int_equal(value, 77);
        assert_int_equal(acre__config_number(ACRE__CONFIG_SOFT_SEED, 78, &value), ACRE_OK);
        assert_int_equal(value, 78);
        assert_int_equal(acre__config_flag(ACRE__CONFIG_SOFT_CHECK, -5, &flag), ACRE_OK);
        assert_int_equal(flag, -5);
        assert_null(acre__config_string(ACRE__CONFIG_DEVICE));
    }
}

static void config_set_variable_is_read_each_time(void **state) {
    (void)state;
    uint64_t value = 0;
    setenv("ACRE_SOFT_BYTES", "64M", 1);
    assert_int_equal(acre__config_bytes(ACRE__CONFIG_SOFT_BYTES, 77, &value), ACRE_OK);
    assert_int_equal(value, 64 * KIB * KIB);
    setenv("ACRE_SOFT_BYTES", "1GB", 1);
    assert_int_equal(acre__config_bytes(ACRE__CONFIG_SOFT_BYTES, 77, &value), ACRE_OK);
    assert_int_equal(value, 1000000000);
    setenv("ACRE_DEVICE", "soft:1", 1);
    assert_string_equal(acre__config_string(ACRE__CONFIG_DEVICE), "soft:1");
}

static void config_unreadable_size_is_named_in_the_detail(void **state) {
    (void)state;
    uint64_t value = 0;
    setenv("ACRE_SOFT_BYTES", "1.5G", 1);
    assert_int_equal(acre__config_bytes(ACRE__CONFIG_SOFT_BYTES, 77, &value), ACRE_E_CONFIG);
    assert_non_null(strstr(acre_last_detail(), "ACRE_SOFT_BYTES is '1.5G'"));
}

static void config_huge_value_with_line_ends_stays_one_short_line(void **state) {
    (void)state;
    char text[100000];
    memset(text, '\n', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    setenv("ACRE_ADDRESS_BYTES", text, 1);
    uint64_t value = 0;
    assert_int_equal(acre__config_bytes(ACRE__CONFIG_ADDRESS_BYTES, 77, &value), ACRE_E_CONFIG);
    assert_null(strchr(acre_last_detail(), '\n'));
    assert_non_null(strstr(acre_last_detail(), "expected a size"));
}

static void config_numbers_are_decimal_or_hexadecimal(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t value;
    } good[] = {
        {"0", 0},
        {"42", 42},
        {"010", 10},
        {"0x2a", 42},
        {"0X2A", 42},
        {"18446744073709551615", UINT64_MAX},
        {"0xffffffffffffffff", UINT64_MAX},
    };
    static const char *const bad[] = {
        "x",
        "-1",
        "+1",
        " 1",
        "1 ",
        "0x",
        "0xg",
        "x10",
        "1K",
        "1.0",
        "2a",
        "18446744073709551616",
        "0x10000000000000000",
        "0x-1",
        "0x 1",
    };
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        setenv("ACRE_SOFT_SEED", good[i].text, 1);
        assert_int_equal(acre__config_number(ACRE__CONFIG_SOFT_SEED, 7, &value), ACRE_OK);
        assert_int_equal(value, good[i].value);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("ACRE_SOFT_SEED", bad[i], 1);
        if (acre__config_number(ACRE__CONFIG_SOFT_SEED, 7, &value) != ACRE_E_CONFIG)
            fail_msg("accepted an invalid value: '%s'", bad[i]);
        assert_non_null(strstr(acre_last_detail(), "ACRE_SOFT_SEED"));
    }
}

static void config_flags_are_words_of_any_case(void **state) {
    (void)state;
    static const char *const yes[] = {"1", "yes", "YES", "on", "On", "true", "tRuE"};
    static const char *const no[] = {"0", "no", "No", "off", "OFF", "false", "False"};
    static const char *const bad[] = {"2",   "y",     "n",   "-1", "yes ",
                                      " on", "truee", "tru", "00", "enabled"};
    int flag;
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
        setenv("ACRE_SOFT_CHECK", yes[i], 1);
        assert_int_equal(acre__config_flag(ACRE__CONFIG_SOFT_CHECK, 0, &flag), ACRE_OK);
        assert_int_equal(flag, 1);
    }
    for (size_t i = 0; i < sizeof no / sizeof *no; i++) {
        setenv("ACRE_SOFT_CHECK", no[i], 1);
        assert_int_equal(acre__config_flag(ACRE__CONFIG_SOFT_CHECK, 1, &flag), ACRE_OK);
        assert_int_equal(flag, 0);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("ACRE_SOFT_CHECK", bad[i], 1);
        if (acre__config_flag(ACRE__CONFIG_SOFT_CHECK, 1, &flag) != ACRE_E_CONFIG)
            fail_msg("accepted an invalid value: '%s'", bad[i]);
        assert_non_null(strstr(acre_last_detail(), "ACRE_SOFT_CHECK"));
    }
}

/* ---- describe ---- */

static void config_describe_lists_every_variable_once(void **state) {
    (void)state;
    static const char *const kinds[] = {"bytes", "number", "text", "yes or no"};
    const char *names[ACRE__CONFIG_COUNT], *kind, *meaning;
    for (size_t i = 0; i < ACRE__CONFIG_COUNT; i++) {
        assert_int_equal(acre_config_describe(i, &names[i], &kind, &meaning), ACRE_OK);
        assert_int_equal(strncmp(names[i], "ACRE_", 5), 0);
        assert_true(strlen(names[i]) < 64); /* the limit of the search for the nearest name */
        assert_true(strlen(meaning) > 0);
        int is_kind = 0;
        for (size_t k = 0; k < 4; k++)
            is_kind |= strcmp(kind, kinds[k]) == 0;
        assert_true(is_kind);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(names[i], names[j]);
    }
    assert_int_equal(acre_config_describe(ACRE__CONFIG_SOFT_BYTES, &names[0], &kind, &meaning),
                     ACRE_OK);
    assert_string_equal(names[0], "ACRE_SOFT_BYTES");
    assert_string_equal(kind, "bytes");
}

static void config_describe_past_the_end_is_invalid(void **state) {
    (void)state;
    const size_t past[] = {ACRE__CONFIG_COUNT, ACRE__CONFIG_COUNT + 1, SIZE_MAX};
    for (size_t i = 0; i < 3; i++) {
        const char *name = "x", *kind = "x", *meaning = "x";
        assert_int_equal(acre_config_describe(past[i], &name, &kind, &meaning), ACRE_E_INVALID);
        assert_null(name);
        assert_null(kind);
        assert_null(meaning);
    }
}

static void config_describe_into_null_is_refused(void **state) {
    (void)state;
    const char *a = "x", *b = "x";
    assert_int_equal(acre_config_describe(0, NULL, &a, &b), ACRE_E_NULL);
    assert_non_null(strstr(acre_last_detail(), "name is NULL"));
    assert_null(a);
    assert_null(b);
    assert_int_equal(acre_config_describe(0, &a, NULL, &b), ACRE_E_NULL);
    assert_non_null(strstr(acre_last_detail(), "kind is NULL"));
    assert_int_equal(acre_config_describe(0, &a, &b, NULL), ACRE_E_NULL);
    assert_non_null(strstr(acre_last_detail(), "meaning is NULL"));
}

static int describe_in_child(void) {
    const char *a = "x", *b = "x", *c = "x";
    CHILD_EXPECT(acre_config_describe(0, &a, &b, &c) == ACRE_E_FORKED);
    CHILD_EXPECT(!a && !b && !c);
    return 0;
}

static void config_describe_in_a_forked_child_is_refused(void **state) {
    (void)state;
    assert_int_equal(acre__watch_fork(), ACRE_OK);
    assert_child_ok(describe_in_child);
}

/* ---- unknown names ---- */

static struct {
    pthread_mutex_t mutex;
    char lines[256][600];
    size_t count;
} heard = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void hear(void *user, acre_log_level level, const char *area, const char *line) {
    (void)user;
    pthread_mutex_lock(&heard.mutex);
    if (level == ACRE_LOG_WARN && strcmp(area, "config") == 0 && heard.count < 256)
        snprintf(heard.lines[heard.count++], sizeof heard.lines[0], "%s", line);
    pthread_mutex_unlock(&heard.mutex);
}

static size_t heard_times(const char *part) {
    size_t times = 0;
    for (size_t i = 0; i < heard.count; i++)
        times += strstr(heard.lines[i], part) != NULL;
    return times;
}

static void config_unknown_names_are_warned_about_with_the_nearest(void **state) {
    (void)state;
    setenv("ACRE_SOFT_BYTE", "1", 1);
    setenv("ACRE_DEVCIE", "soft", 1);
    setenv("ACRE_", "", 1);
    setenv("ACRE_QQQQQQQQQQQQQQQQ", "1", 1);
    assert_int_equal(acre_log_set(hear, NULL, ACRE_LOG_WARN), ACRE_OK);
    acre__config_warn_unknown();
    assert_int_equal(heard.count, 4);
    assert_int_equal(
        heard_times("ACRE_SOFT_BYTE is not a variable of acre; did you mean ACRE_SOFT_BYTES?"), 1);
    assert_int_equal(
        heard_times("ACRE_DEVCIE is not a variable of acre; did you mean ACRE_DEVICE?"), 1);
    assert_int_equal(heard_times("ACRE_ is not a variable of acre; the nearest is ACRE_VMM"), 1);
    assert_int_equal(
        heard_times("ACRE_QQQQQQQQQQQQQQQQ is not a variable of acre; the nearest is "), 1);

    /* Each name is reported once, even if its value changes; a new name is reported. */
    setenv("ACRE_SOFT_BYTE", "2", 1);
    setenv("ACRE_FAULTS", "x", 1);
    acre__config_warn_unknown();
    assert_int_equal(heard.count, 5);
    assert_int_equal(heard_times("ACRE_FAULTS is not a variable of acre; did you mean ACRE_FAULT?"),
                     1);
}

static void config_known_and_passed_names_are_not_warned_about(void **state) {
    (void)state;
    static const char *const quiet[] = {"ACRE_TEST_SEED", "ACRE_TEST_",      "ACRE_BUILD",
                                        "ACRE_SOURCE",    "ACRE_SOFT_BYTES", "ACRE_FAULT",
                                        "ACREAGE",        "MY_ACRE_X",       "acre_device"};
    for (size_t i = 0; i < sizeof quiet / sizeof *quiet; i++)
        setenv(quiet[i], "1", 1);
    setenv("ACRE_BUILDS", "1", 1); /* only exact names are exempt */
    assert_int_equal(acre_log_set(hear, NULL, ACRE_LOG_WARN), ACRE_OK);
    acre__config_warn_unknown();
    assert_int_equal(heard.count, 1);
    assert_int_equal(heard_times("ACRE_BUILDS "), 1);
    for (size_t i = 0; i < sizeof quiet / sizeof *quiet; i++)
        unsetenv(quiet[i]);
}

static void config_unknown_name_is_not_used_up_while_nobody_listens(void **state) {
    (void)state;
    setenv("ACRE_LISTEN", "1", 1);
    acre__config_warn_unknown();
    assert_int_equal(acre_log_set(hear, NULL, ACRE_LOG_ERROR), ACRE_OK);
    acre__config_warn_unknown();
    assert_int_equal(heard.count, 0);
    assert_int_equal(acre_log_set(hear, NULL, ACRE_LOG_WARN), ACRE_OK);
    acre__config_warn_unknown();
    assert_int_equal(heard_times("ACRE_LISTEN "), 1);
}

static void *warn(void *argument) {
    acre__config_warn_unknown();
    return argument;
}

static void config_unknown_name_found_by_many_threads_is_warned_about_once(void **state) {
    (void)state;
    setenv("ACRE_CROWD", "1", 1);
    assert_int_equal(acre_log_set(hear, NULL, ACRE_LOG_WARN), ACRE_OK);
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, warn, NULL), 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(heard_times("ACRE_CROWD "), 1);
    assert_int_equal(heard.count, 1);
}

/* This test fills the list of reported names, so it must run last. */
static void config_hostile_environment_gives_few_short_lines(void **state) {
    (void)state;
    char name[5000] = "ACRE_";
    memset(name + 5, 'L', sizeof name - 6);
    name[sizeof name - 1] = '\0';
    setenv(name, "1", 1);
    for (int i = 0; i < 200; i++) {
        char other[32];
        snprintf(other, sizeof other, "ACRE_X\n%d", i);
        setenv(other, "1", 1);
    }
    assert_int_equal(acre_log_set(hear, NULL, ACRE_LOG_WARN), ACRE_OK);
    acre__config_warn_unknown();
    assert_true(heard.count > 0 && heard.count <= 64);
    assert_int_equal(heard_times("LLLL... is not a variable of acre; the nearest is ACRE_"), 1);
    assert_int_equal(heard_times("\n"), 0);
    for (size_t i = 0; i < heard.count; i++)
        assert_true(strlen(heard.lines[i]) < 200);
    size_t count = heard.count;
    acre__config_warn_unknown();
    assert_int_equal(heard.count, count);
}

static int without_environment(void) {
    environ = NULL;
    acre__config_warn_unknown();
    CHILD_EXPECT(acre__config_string(ACRE__CONFIG_DEVICE) == NULL);
    return 0;
}

static void config_without_an_environment_is_all_defaults(void **state) {
    (void)state;
    assert_int_equal(acre_log_set(hear, NULL, ACRE_LOG_WARN), ACRE_OK);
    assert_child_ok(without_environment);
}

/* Each test starts without ACRE_* variables and without a log callback, whatever the caller's
 * environment contains. */
static int clean(void **state) {
    (void)state;
    for (char **entry = environ; *entry;) {
        char *name = strndup(*entry, strcspn(*entry, "="));
        if (!name)
            return -1;
        int is_ours = strncmp(name, "ACRE_", 5) == 0;
        if (is_ours)
            unsetenv(name);
        free(name);
        entry = is_ours ? environ : entry + 1; /* unsetenv changed the array: restart */
    }
    heard.count = 0;
    return acre_log_set(NULL, NULL, ACRE_LOG_WARN) == ACRE_OK ? 0 : -1;
}

#define config_test(name) cmocka_unit_test_setup(name, clean)

int main(void) {
    const struct CMUnitTest tests[] = {
        config_test(config_sizes_that_can_be_read_are),
        config_test(config_sizes_that_cannot_be_read_change_nothing),
        config_test(config_unset_or_empty_variable_gives_the_default),
        config_test(config_set_variable_is_read_each_time),
        config_test(config_unreadable_size_is_named_in_the_detail),
        config_test(config_huge_value_with_line_ends_stays_one_short_line),
        config_test(config_numbers_are_decimal_or_hexadecimal),
        config_test(config_flags_are_words_of_any_case),
        config_test(config_describe_lists_every_variable_once),
        config_test(config_describe_past_the_end_is_invalid),
        config_test(config_describe_into_null_is_refused),
        config_test(config_describe_in_a_forked_child_is_refused),
        config_test(config_unknown_names_are_warned_about_with_the_nearest),
        config_test(config_known_and_passed_names_are_not_warned_about),
        config_test(config_unknown_name_is_not_used_up_while_nobody_listens),
        config_test(config_unknown_name_found_by_many_threads_is_warned_about_once),
        config_test(config_without_an_environment_is_all_defaults),
        config_test(config_hostile_environment_gives_few_short_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
