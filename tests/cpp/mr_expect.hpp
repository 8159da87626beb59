/* What the tests of the resources have in common: checks that count failures, and the soft device.
 */
#ifndef TESTS_CPP_MR_EXPECT_HPP
#define TESTS_CPP_MR_EXPECT_HPP

#include <cstdio>

static int failures;

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::fprintf(stderr, "%s:%d: %s: %s is false\n", __FILE__, __LINE__, __func__,         \
                         #condition);                                                              \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

#define EXPECT_THROWS(type, expression)                                                            \
    do {                                                                                           \
        bool caught = false;                                                                       \
        try {                                                                                      \
            (void)(expression);                                                                    \
        } catch (const type &) {                                                                   \
            caught = true;                                                                         \
        }                                                                                          \
        if (!caught) {                                                                             \
            std::fprintf(stderr, "%s:%d: %s: %s does not throw %s\n", __FILE__, __LINE__,          \
                         __func__, #expression, #type);                                            \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

#endif
