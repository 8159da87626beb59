/* Registers tests where they are defined: write TEST(name) { ... } in a file and call tests_run in
 * its main. Tests run in the order of their lines in the file.
 *
 * TEST_WITH(name, setup, teardown) { ... } adds a fixture; setup and teardown may be NULL. A file
 * or header with many such tests defines a macro for its fixture. Every test body sees cmocka's
 * `state`. */
#ifndef ACRE_TESTS_CASES_H
#define ACRE_TESTS_CASES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { TESTS_MOST = 128 };

static struct {
    struct CMUnitTest list[TESTS_MOST];
    int lines[TESTS_MOST];
    size_t count;
} tests_all;

/* A constructor of each test calls this before main. The compiler chooses the order of
 * constructors, so the list is kept sorted by line. */
static inline void tests_add(struct CMUnitTest test, int line) {
    size_t at = tests_all.count++;
    if (at == TESTS_MOST)
        __builtin_trap();
    for (; at > 0 && tests_all.lines[at - 1] > line; at--) {
        tests_all.list[at] = tests_all.list[at - 1];
        tests_all.lines[at] = tests_all.lines[at - 1];
    }
    tests_all.list[at] = test;
    tests_all.lines[at] = line;
}

#define TEST_WITH(name, setup, teardown)                                                           \
    static void name(void **state);                                                                \
    __attribute__((constructor)) static void name##_add(void) {                                    \
        tests_add((struct CMUnitTest){#name, name, setup, teardown, NULL}, __LINE__);              \
    }                                                                                              \
    static void name(__attribute__((unused)) void **state)

#define TEST(name) TEST_WITH(name, NULL, NULL)

/* Returns the number of failed tests. */
static inline int tests_run_with(const char *group, CMFixtureFunction setup,
                                 CMFixtureFunction teardown) {
    return _cmocka_run_group_tests(group, tests_all.list, tests_all.count, setup, teardown);
}

static inline int tests_run(const char *group) {
    return tests_run_with(group, NULL, NULL);
}

#endif
