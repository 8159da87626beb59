/* Tests that are on the list as soon as they are written: TEST(name) { ... } in a file, and
 * tests_run in its main. They run in the order in which they stand in the file.
 *
 * TEST_WITH(name, setup, teardown) { ... } has a fixture, of which either may be NULL; a file or a
 * header with many such tests gives it a name of its own. All see cmocka's `state`. */
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

/* Called before main, once for each test; in which order is the compiler's affair. */
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

/* How many failed. */
static inline int tests_run_with(const char *group, CMFixtureFunction setup,
                                 CMFixtureFunction teardown) {
    return _cmocka_run_group_tests(group, tests_all.list, tests_all.count, setup, teardown);
}

static inline int tests_run(const char *group) {
    return tests_run_with(group, NULL, NULL);
}

#endif
