/* For tests through the public API: the list of devices to run on, and functions that start the
 * test program again.
 *
 * Every test runs on the soft device and, where a GPU is present, on the GPU too. With
 * ACRE_REQUIRE_CUDA=1 the test program fails on a machine without a GPU. */
#ifndef ACRE_TESTS_API_DEVICES_H
#define ACRE_TESTS_API_DEVICES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* cmocka.h must come after the headers that it needs; it does not include them. */
#include <cmocka.h>

#include "acre.h"
#include "support/cases.h"
#include "support/gate.h"

/* Returns "soft", and "cuda" if it can be opened. NULL ends the list. */
static inline const char *const *api_devices(void) {
    static const char *names[3];
    if (names[0])
        return names;
    names[0] = "soft";
    acre_device *device = NULL;
    if (acre_open("cuda", NULL, &device) == ACRE_OK) {
        names[1] = "cuda";
        acre_close(device);
        return names;
    }
    const char *require = getenv("ACRE_REQUIRE_CUDA");
    if (require && strcmp(require, "1") == 0) {
        fprintf(stderr, "ACRE_REQUIRE_CUDA=1, but: %s\n", acre_last_detail());
        exit(1);
    }
    return names;
}

/* for (API_EACH(name)) runs its body with every device's name. */
#define API_EACH(name)                                                                             \
    const char *const *name##_at = api_devices(), *name = *name##_at;                              \
    name;                                                                                          \
    name = *++name##_at

/* Compares a status. A mismatch fails the test with acre_last_detail() in the message. */
static inline void api_expect_at(acre_status got, acre_status wanted, const char *file, int line) {
    if (got != wanted) {
        print_error("%s:%d: %s instead of %s: %s\n", file, line, acre_status_name(got),
                    acre_status_name(wanted), acre_last_detail());
        _fail(file, line);
    }
}
#define api_expect(call, wanted) api_expect_at((call), (wanted), __FILE__, __LINE__)
#define api_ok(call) api_expect((call), ACRE_OK)

static inline acre_device *api_open(const char *name) {
    acre_device *device = NULL;
    api_ok(acre_open(name, NULL, &device));
    assert_non_null(device);
    return device;
}

static inline void api_on_each(void (*test)(acre_device *device)) {
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        test(device);
        api_ok(acre_close(device));
    }
}

/* Defines a test that runs on each device. The device is open as `device`. */
#define API_TEST(name)                                                                             \
    static void name##_on(acre_device *device);                                                    \
    TEST(name) {                                                                                   \
        api_on_each(name##_on);                                                                    \
    }                                                                                              \
    static void name##_on(acre_device *device)

/* Opens two soft devices of 64 MiB, whatever the environment sets. */
static inline void api_open_two(acre_device *devices[2]) {
    acre_open_options options = {
        .struct_size = sizeof options, .soft_bytes = (uint64_t)64 << 20, .soft_devices = 2};
    api_ok(acre_open("soft:0", &options, &devices[0]));
    api_ok(acre_open("soft:1", &options, &devices[1]));
}

static inline acre_device_stats api_stats(acre_device *device) {
    acre_device_stats stats = {.struct_size = sizeof stats};
    api_ok(acre_device_get_stats(device, &stats));
    return stats;
}

/* Starts this program again with one argument and NAME=VALUE settings of the environment (at most
 * 4, then NULL). Returns the status of waitpid. The child calls exec because CUDA does not survive
 * a fork. */
static inline int api_start(const char *argument, ...) {
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(length > 0);
    self[length] = '\0';
    char *settings[4];
    size_t count = 0;
    va_list args;
    va_start(args, argument);
    for (char *s; (s = va_arg(args, char *));) {
        assert_true(count < 4);
        settings[count++] = s;
    }
    va_end(args);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        for (size_t i = 0; i < count; i++)
            putenv(settings[i]);
        /* The leak check of the parent is enough; on some machines each check takes seconds. */
        char asan[512];
        const char *before = getenv("ASAN_OPTIONS");
        snprintf(asan, sizeof asan, "%s:detect_leaks=0", before ? before : "");
        setenv("ASAN_OPTIONS", asan, 1);
        execl(self, self, argument, (char *)NULL);
        _exit(126);
    }
    int state = -1;
    assert_int_equal(waitpid(pid, &state, 0), pid);
    return state;
}

/* The started program must exit with 0. */
#define api_started_ok(...)                                                                        \
    do {                                                                                           \
        int state_ = api_start(__VA_ARGS__, (char *)NULL);                                         \
        assert_true(WIFEXITED(state_));                                                            \
        assert_int_equal(WEXITSTATUS(state_), 0);                                                  \
    } while (0)

/* In a started program: exits with 1 and a message if the condition is false. */
#define api_must(condition)                                                                        \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition,                     \
                    acre_last_detail());                                                           \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* Import options with this wait time. */
#define API_WAIT(ms)                                                                               \
    (&(acre_import_options){.struct_size = sizeof(acre_import_options), .wait_ms = (ms)})

/* Collects warnings of one log area: acre_log_set(api_listen, &heard, ACRE_LOG_WARN). */
struct api_heard {
    const char *area;
    unsigned count;
    char line[512]; /* the last line */
};

static inline void api_listen(void *user, acre_log_level level, const char *area,
                              const char *line) {
    struct api_heard *heard = user;
    if (level != ACRE_LOG_WARN || strcmp(area, heard->area) != 0)
        return;
    heard->count++;
    snprintf(heard->line, sizeof heard->line, "%s", line);
}

#endif
