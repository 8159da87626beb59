/* Size classes of pools: large enough, little waste, in rising order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/cases.h"
#include "pool/pool_class.h"

/* Checks the class of a size. *before is the class of the next smaller size. */
static void expect_class(size_t bytes, uint32_t *before) {
    uint32_t size_class = acre__class_of(bytes);
    size_t has = acre__class_bytes(size_class);
    size_t waste = has - bytes, most = bytes <= 256 ? 255 : bytes <= 4096 ? 511 : bytes / 8;
    int is_small = bytes <= ACRE__SMALL_MOST;
    if (is_small != (size_class < ACRE__CLASSES) || has < bytes || waste > most ||
        size_class < *before || has % (has > ACRE__GRAIN ? 2 * ACRE__GRAIN : ACRE__GRAIN))
        fail_msg("%zu bytes: class %u of %zu bytes, after class %u", bytes, size_class, has,
                 *before);
    if (size_class && acre__class_bytes(size_class - 1) >= bytes)
        fail_msg("%zu bytes: class %u, but the class below is large enough", bytes, size_class);
    *before = size_class;
}

TEST(class_of_all_sizes_up_to_4_mib_is_right) {
    uint32_t before = 0;
    for (size_t bytes = 1; bytes <= (size_t)4 << 20; bytes++)
        expect_class(bytes, &before);
}

TEST(class_at_every_border_is_right) {
    for (uint32_t i = 0; i < ACRE__CLASSES; i++) {
        size_t bytes = acre__class_bytes(i);
        uint32_t before = i;
        assert_int_equal(acre__class_of(bytes), i);
        expect_class(bytes, &before);
        if (i) {
            before = i - 1;
            expect_class(acre__class_bytes(i - 1) + 1, &before);
            assert_int_equal(before, i);
            assert_true(bytes > acre__class_bytes(i - 1));
        }
    }
    assert_int_equal(acre__class_bytes(0), ACRE__GRAIN);
    assert_int_equal(acre__class_bytes(ACRE__CLASSES - 1), ACRE__SMALL_MOST);
}

/* For every alignment up to that of a slab, 64 KiB, some class is a multiple of it, and so is the
 * largest class. */
TEST(class_sizes_reach_every_alignment) {
    for (size_t alignment = ACRE__GRAIN; alignment <= (size_t)1 << 16; alignment *= 2) {
        uint32_t found = 0;
        for (uint32_t i = ACRE__CLASSES; i-- > 0 && acre__class_bytes(i) >= alignment;)
            found += acre__class_bytes(i) % alignment == 0;
        assert_true(found > 0);
        assert_int_equal(acre__class_bytes(ACRE__CLASSES - 1) % alignment, 0);
    }
}

int main(void) {
    return tests_run("pool_class");
}
