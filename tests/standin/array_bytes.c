/* Sizes of arrays, as the shim computes them from descriptors: one channel or more, levels,
 * layers, compressed formats. The stand-in has no arrays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shim_array_bytes.h"
#include "support/cases.h"

enum {
    UINT8 = 0x01,
    HALF = 0x10,
    FLOAT = 0x20,
    NV12 = 0xb0,
    SNORM16X4 = 0xcb,
    BC1 = 0x91,
    BC7 = 0x9d
};
enum { LAYERED = 1, CUBEMAP = 4, SPARSE = 0x40 };

static uint64_t bytes(size_t width, size_t height, size_t depth, unsigned format, unsigned channels,
                      unsigned flags, unsigned levels) {
    struct shim_array3d array = {width, height, depth, format, channels, flags};
    return acre__array_bytes(&array, levels);
}

TEST(array_plain_elements_times_channels) {
    (void)state;
    assert_int_equal(bytes(100, 0, 0, UINT8, 1, 0, 1), 100);
    assert_int_equal(bytes(100, 50, 0, FLOAT, 4, 0, 1), 100 * 50 * 16);
    assert_int_equal(bytes(64, 32, 16, HALF, 2, 0, 1), 64 * 32 * 16 * 4);
    assert_int_equal(bytes(1 << 16, 1 << 16, 4, FLOAT, 4, 0, 1), UINT64_C(1) << 38);
}

TEST(array_other_formats_have_their_own_sizes) {
    (void)state;
    assert_int_equal(bytes(1920, 1080, 0, NV12, 3, 0, 1), 1920 * 1080 * 3 / 2);
    assert_int_equal(bytes(8, 8, 0, SNORM16X4, 4, 0, 1), 8 * 8 * 8);
    assert_int_equal(bytes(8, 8, 0, BC1, 4, 0, 1), 2 * 2 * 8);
    assert_int_equal(bytes(9, 1, 0, BC7, 4, 0, 1), 3 * 1 * 16);
    assert_int_equal(bytes(8, 8, 0, 0x7f, 4, 0, 1), 0);
}

TEST(array_levels_halve_and_are_summed) {
    (void)state;
    assert_int_equal(bytes(8, 4, 0, UINT8, 1, 0, 4), 32 + 8 + 2 + 1);
    assert_int_equal(bytes(4, 4, 4, UINT8, 1, 0, 3), 64 + 8 + 1);
    assert_int_equal(bytes(4, 4, 0, UINT8, 1, 0, 1000000), 16 + 4 + 1);
}

TEST(array_layers_do_not_halve) {
    (void)state;
    assert_int_equal(bytes(4, 4, 5, UINT8, 1, LAYERED, 3), 5 * (16 + 4 + 1));
    assert_int_equal(bytes(4, 4, 6, UINT8, 1, CUBEMAP, 2), 6 * (16 + 4));
}

TEST(array_without_memory_of_its_own_has_no_bytes) {
    (void)state;
    assert_int_equal(bytes(4096, 4096, 0, UINT8, 4, SPARSE, 1), 0);
}

int main(void) {
    return tests_run("array_bytes");
}
