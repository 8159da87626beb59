/* Options structs from older and newer programs, and result structs for them. Structs under test
 * lie at the end of a heap block, so that an access past struct_size is a sanitizer error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "support/cases.h"
#include "base/options.h"

/* The struct as "this version" of the library knows it. */
struct known {
    size_t struct_size;
    uint64_t one;
    uint32_t two, three;
};

static const struct known sample = {sizeof sample, 11, 22, 33};

/* Creates a caller's struct of `size` bytes: `sample`, then zeros. Its struct_size is `says`. */
static unsigned char *caller_struct(size_t size, size_t says) {
    unsigned char *bytes = calloc(1, size);
    assert_non_null(bytes);
    memcpy(bytes, &sample, size < sizeof sample ? size : sizeof sample);
    memcpy(bytes, &says, sizeof says);
    return bytes;
}

static struct known poison(void) {
    struct known known;
    memset(&known, 0xaa, sizeof known);
    return known;
}

static void assert_refused_in(const void *from) {
    struct known to = poison(), before = to;
    assert_int_equal(acre__options_in(&to, sizeof to, from, "known"), ACRE_E_OPTIONS);
    assert_memory_equal(&to, &before, sizeof to);
    assert_int_equal(strncmp(acre_last_detail(), "known: ", 7), 0);
}

TEST(options_in_null_is_all_defaults) {
    const struct known expected = {.struct_size = sizeof expected};
    struct known to = poison();
    assert_int_equal(acre__options_in(&to, sizeof to, NULL, "known"), ACRE_OK);
    assert_memory_equal(&to, &expected, sizeof to);
}

TEST(options_in_exact_size_is_copied) {
    struct known to = poison();
    assert_int_equal(acre__options_in(&to, sizeof to, &sample, "known"), ACRE_OK);
    assert_memory_equal(&to, &sample, sizeof to);
}

TEST(options_in_shorter_struct_has_default_tail) {
    for (size_t size = sizeof(size_t); size < sizeof sample; size++) {
        unsigned char *from = caller_struct(size, size);
        struct known to = poison(), expected = {0};
        memcpy(&expected, from, size);
        expected.struct_size = sizeof expected;
        assert_int_equal(acre__options_in(&to, sizeof to, from, "known"), ACRE_OK);
        assert_memory_equal(&to, &expected, sizeof to);
        free(from);
    }
}

TEST(options_in_size_below_its_own_field_is_refused) {
    for (size_t says = 0; says < sizeof(size_t); says++) {
        unsigned char *from = caller_struct(sizeof sample, says);
        assert_refused_in(from);
        free(from);
    }
}

TEST(options_in_larger_struct_with_zero_tail_is_copied) {
    const size_t tails[] = {1, 8, 4096, 64 * 1024};
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        size_t size = sizeof sample + tails[i];
        unsigned char *from = caller_struct(size, size);
        struct known to = poison();
        assert_int_equal(acre__options_in(&to, sizeof to, from, "known"), ACRE_OK);
        assert_memory_equal(&to, &sample, sizeof to);
        free(from);
    }
}

TEST(options_in_larger_struct_with_a_set_tail_is_refused) {
    size_t size = sizeof sample + 40;
    for (size_t set = sizeof sample; set < size; set++) {
        unsigned char *from = caller_struct(size, size);
        from[set] = 0x80;
        assert_refused_in(from);
        free(from);
    }
}

/* The struct is only as long as the known one: a read up to the absurd size would be a sanitizer
 * error. */
TEST(options_in_absurd_size_is_refused_unread) {
    const size_t sizes[] = {sizeof sample + 64 * 1024 + 1, SIZE_MAX / 2, SIZE_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *from = caller_struct(sizeof sample, sizes[i]);
        assert_refused_in(from);
        free(from);
    }
}

TEST(options_in_unaligned_struct_is_copied) {
    unsigned char *block = malloc(sizeof sample + 1);
    assert_non_null(block);
    memcpy(block + 1, &sample, sizeof sample);
    struct known to = poison();
    assert_int_equal(acre__options_in(&to, sizeof to, block + 1, "known"), ACRE_OK);
    assert_memory_equal(&to, &sample, sizeof to);
    free(block);
}

TEST(options_out_null_is_refused) {
    assert_int_equal(acre__options_out(NULL, sizeof sample, &sample, "known"), ACRE_E_NULL);
    assert_string_equal(acre_last_detail(), "known: NULL");
}

TEST(options_out_fills_what_both_know_and_keeps_the_callers_size) {
    for (size_t size = sizeof(size_t); size <= sizeof sample + 40; size++) {
        unsigned char *to = malloc(size), *expected = caller_struct(size, size);
        assert_non_null(to);
        memset(to, 0xaa, size);
        memcpy(to, &size, sizeof size);
        assert_int_equal(acre__options_out(to, sizeof sample, &sample, "known"), ACRE_OK);
        assert_memory_equal(to, expected, size);
        free(expected);
        free(to);
    }
}

TEST(options_out_bad_size_is_refused_and_nothing_written) {
    const size_t sizes[] = {0, sizeof(size_t) - 1, sizeof sample + 64 * 1024 + 1, SIZE_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct known to = poison();
        to.struct_size = sizes[i];
        struct known before = to;
        assert_int_equal(acre__options_out(&to, sizeof sample, &sample, "known"), ACRE_E_OPTIONS);
        assert_memory_equal(&to, &before, sizeof to);
        assert_int_equal(strncmp(acre_last_detail(), "known: ", 7), 0);
    }
}

int main(void) {
    return tests_run("options");
}
