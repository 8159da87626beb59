/* Statuses: values are fixed, names and texts exist; details are thread-local and fit one line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "support/cases.h"
#include "base/status.h"
#include "base/thread.h"

/* A second list of the values, since programs compiled against an old header rely on them. */
static const struct {
    acre_status status;
    int value;
    const char *name;
} pinned[] = {
    {ACRE_OK, 0, "ACRE_OK"},
    {ACRE_E_INVALID, -1, "ACRE_E_INVALID"},
    {ACRE_E_NULL, -2, "ACRE_E_NULL"},
    {ACRE_E_HANDLE, -3, "ACRE_E_HANDLE"},
    {ACRE_E_OPTIONS, -4, "ACRE_E_OPTIONS"},
    {ACRE_E_CONFIG, -5, "ACRE_E_CONFIG"},
    {ACRE_E_NO_DRIVER, -6, "ACRE_E_NO_DRIVER"},
    {ACRE_E_DRIVER_OLD, -7, "ACRE_E_DRIVER_OLD"},
    {ACRE_E_NO_DEVICE, -8, "ACRE_E_NO_DEVICE"},
    {ACRE_E_DEVICE_LOST, -9, "ACRE_E_DEVICE_LOST"},
    {ACRE_E_FORKED, -10, "ACRE_E_FORKED"},
    {ACRE_E_HOST_MEMORY, -11, "ACRE_E_HOST_MEMORY"},
    {ACRE_E_DEVICE_MEMORY, -12, "ACRE_E_DEVICE_MEMORY"},
    {ACRE_E_ADDRESS_SPACE, -13, "ACRE_E_ADDRESS_SPACE"},
    {ACRE_E_BUSY, -14, "ACRE_E_BUSY"},
    {ACRE_E_NOT_READY, -15, "ACRE_E_NOT_READY"},
    {ACRE_E_CAPTURING, -16, "ACRE_E_CAPTURING"},
    {ACRE_E_UNSUPPORTED, -17, "ACRE_E_UNSUPPORTED"},
    {ACRE_E_SYSTEM, -18, "ACRE_E_SYSTEM"},
    {ACRE_E_DRIVER, -19, "ACRE_E_DRIVER"},
    {ACRE_E_POINTER, -20, "ACRE_E_POINTER"},
    {ACRE_E_INTERIOR, -21, "ACRE_E_INTERIOR"},
    {ACRE_E_KIND, -22, "ACRE_E_KIND"},
    {ACRE_E_RANGE, -23, "ACRE_E_RANGE"},
    {ACRE_E_OVERLAP, -24, "ACRE_E_OVERLAP"},
    {ACRE_E_DIRECTION, -25, "ACRE_E_DIRECTION"},
    {ACRE_E_REGISTERED, -26, "ACRE_E_REGISTERED"},
    {ACRE_E_LIMIT, -27, "ACRE_E_LIMIT"},
    {ACRE_E_PEER, -28, "ACRE_E_PEER"},
    {ACRE_E_PROTOCOL, -29, "ACRE_E_PROTOCOL"},
    {ACRE_E_GONE, -30, "ACRE_E_GONE"},
    {ACRE_E_COMMITTED, -31, "ACRE_E_COMMITTED"},
    {ACRE_E_SUSPENDED, -32, "ACRE_E_SUSPENDED"},
};
enum { PINNED_COUNT = sizeof pinned / sizeof *pinned };

TEST(status_every_value_is_pinned) {
    for (size_t i = 0; i < PINNED_COUNT; i++) {
        assert_int_equal(pinned[i].status, pinned[i].value);
        assert_string_equal(acre_status_name(pinned[i].status), pinned[i].name);
    }
}

/* A status added to the header must be added above. */
TEST(status_list_and_pins_have_the_same_length) {
    size_t count = 0;
#define COUNT(name, value, text) count++;
    ACRE_STATUS_LIST(COUNT)
#undef COUNT
    assert_int_equal(count, PINNED_COUNT);
}

TEST(status_every_text_is_one_line_of_its_own) {
    for (size_t i = 0; i < PINNED_COUNT; i++) {
        const char *text = acre_status_text(pinned[i].status);
        assert_true(strlen(text) > 0);
        assert_null(strchr(text, '\n'));
        assert_string_not_equal(text, acre_status_text((acre_status)1));
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(text, acre_status_text(pinned[j].status));
    }
}

TEST(status_no_status_has_a_text_too) {
    const int values[] = {1, -1000, INT32_MAX, INT32_MIN, -(int)PINNED_COUNT};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        assert_string_equal(acre_status_text((acre_status)values[i]), "not a status of acre");
        assert_string_equal(acre_status_name((acre_status)values[i]), "unknown status");
    }
}

TEST(status_version_is_the_headers) {
    char expected[32];
    snprintf(expected, sizeof expected, "%d.%d.%d", ACRE_VERSION_MAJOR, ACRE_VERSION_MINOR,
             ACRE_VERSION_PATCH);
    assert_string_equal(acre_version(), expected);
}

TEST(status_fail_keeps_status_and_detail) {
    assert_int_equal(acre__fail(ACRE_E_BUSY, "thing %d of %s", 7, "nine"), ACRE_E_BUSY);
    assert_string_equal(acre_last_detail(), "thing 7 of nine");
    assert_int_equal(acre__fail(ACRE_E_NULL, "x"), ACRE_E_NULL);
    assert_string_equal(acre_last_detail(), "x");
}

TEST(status_detail_in_its_own_arguments_is_kept_whole) {
    acre__fail(ACRE_E_DRIVER, "inner");
    acre__fail(ACRE_E_DRIVER, "outer, since %s, %s", acre_last_detail(), acre_last_detail());
    assert_string_equal(acre_last_detail(), "outer, since inner, inner");
}

TEST(status_long_detail_is_cut) {
    char text[3 * ACRE__DETAIL_BYTES];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    uint64_t id = acre__thread_self()->id;
    acre__fail(ACRE_E_INVALID, "%s", text);
    assert_int_equal(strlen(acre_last_detail()), ACRE__DETAIL_BYTES - 1);
    assert_memory_equal(acre_last_detail(), text, ACRE__DETAIL_BYTES - 1);
    assert_int_equal(acre__thread_self()->id, id);

    /* A text of the maximum length. */
    text[ACRE__DETAIL_BYTES - 1] = '\0';
    acre__fail(ACRE_E_INVALID, "%s", text);
    assert_string_equal(acre_last_detail(), text);
}

TEST(status_control_characters_leave_one_line) {
    acre__fail(ACRE_E_INVALID, "%s", "a\nb\tc\x1b[0m\x7f caf\xc3\xa9");
    assert_string_equal(acre_last_detail(), "a b c [0m  caf\xc3\xa9");
}

struct speaker {
    pthread_barrier_t *all_failed;
    int number;
    int was_empty, was_own;
};

static void *speaker_run(void *argument) {
    struct speaker *me = argument;
    char own[32];
    snprintf(own, sizeof own, "thread %d", me->number);
    me->was_empty = strcmp(acre_last_detail(), "") == 0;
    acre__fail(ACRE_E_INVALID, "%s", own);
    pthread_barrier_wait(me->all_failed);
    me->was_own = strcmp(acre_last_detail(), own) == 0;
    return NULL;
}

TEST(status_details_belong_to_their_thread) {
    enum { COUNT = 8 };
    pthread_barrier_t all_failed;
    pthread_barrier_init(&all_failed, NULL, COUNT);
    pthread_t threads[COUNT];
    struct speaker speakers[COUNT];
    acre__fail(ACRE_E_INVALID, "main thread");
    for (int i = 0; i < COUNT; i++) {
        speakers[i] = (struct speaker){.all_failed = &all_failed, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, speaker_run, &speakers[i]), 0);
    }
    for (int i = 0; i < COUNT; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&all_failed);
    for (int i = 0; i < COUNT; i++) {
        assert_true(speakers[i].was_empty);
        assert_true(speakers[i].was_own);
    }
    assert_string_equal(acre_last_detail(), "main thread");
}

int main(void) {
    return tests_run("status");
}
