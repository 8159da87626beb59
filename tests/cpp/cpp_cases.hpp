/* Tests in C++: TEST(name) { ... } in a file, and cpp_run() in its main. A failed CHECK throws, so
 * that the destructors of the test's objects run; cmocka's longjmp would skip them.
 *
 * Every test runs on the soft device and, where a GPU is present, on the GPU too: `device_name` is
 * the name to open. */
#ifndef ACRE_TESTS_CPP_CASES_HPP
#define ACRE_TESTS_CPP_CASES_HPP

#include <acre/acre.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace cpp_test {

struct failure {};

struct one {
    const char *name;
    void (*run)(const char *device_name);
};

inline std::vector<one> &all() {
    static std::vector<one> tests;
    return tests;
}

struct add {
    add(const char *name, void (*run)(const char *)) {
        all().push_back({name, run});
    }
};

inline void check_at(bool is_so, const char *what, const char *file, int line) {
    if (is_so)
        return;
    std::fprintf(stderr, "%s:%d: not so: %s (%s)\n", file, line, what, acre_last_detail());
    throw failure();
}

/* Returns "soft", and "cuda" if it can be opened. */
inline std::vector<const char *> devices() {
    std::vector<const char *> names = {"soft"};
    if (acre::device::try_open("cuda"))
        names.push_back("cuda");
    else if (const char *require = std::getenv("ACRE_REQUIRE_CUDA"))
        if (std::strcmp(require, "1") == 0) {
            std::fprintf(stderr, "ACRE_REQUIRE_CUDA=1, but: %s\n", acre_last_detail());
            std::exit(1);
        }
    return names;
}

/* Runs one test. Returns 1 if it failed. */
inline int run_one(const one &test, const char *name) {
    try {
        test.run(name);
        return 0;
    } catch (const failure &) {
    } catch (const std::exception &e) {
        std::fprintf(stderr, "%s\n", e.what());
    }
    std::fprintf(stderr, "FAILED: %s on %s\n", test.name, name);
    return 1;
}

/* Runs all tests on all devices. Returns the exit code. */
inline int run() {
    int failed = 0;
    for (const char *name : devices())
        for (const one &test : all())
            failed += run_one(test, name);
    std::printf("%zu tests, %d failed\n", all().size(), failed);
    return failed != 0;
}

} // namespace cpp_test

#define TEST(name)                                                                                 \
    static void name(const char *device_name);                                                     \
    static const cpp_test::add name##_add(#name, name);                                            \
    static void name([[maybe_unused]] const char *device_name)

#define CHECK(condition)                                                                           \
    cpp_test::check_at(static_cast<bool>(condition), #condition, __FILE__, __LINE__)

#define FAIL(text) cpp_test::check_at(false, text, __FILE__, __LINE__)

/* The statement throws an exception that is a `type`. */
#define CHECK_THROWS(type, statement)                                                              \
    do {                                                                                           \
        bool threw = false;                                                                        \
        try {                                                                                      \
            statement;                                                                             \
        } catch (const type &) {                                                                   \
            threw = true;                                                                          \
        }                                                                                          \
        cpp_test::check_at(threw, #statement " throws " #type, __FILE__, __LINE__);                \
    } while (0)

/* Reads elements of device memory. */
template <class T>
std::vector<T> cpp_read(acre::device_ref device, const T *from, size_t count,
                        acre::stream_ref stream) {
    std::vector<T> host(count);
    device.copy(host.data(), from, count * sizeof(T), stream);
    device.sync(stream);
    return host;
}

#endif
