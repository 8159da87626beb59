/* The lookup of a slab by address, and of a slot in a slab. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/cases.h"
#include "pool/pool.h"

static const uint64_t UNIT = (uint64_t)1 << ACRE__TABLE_UNIT_BITS;

/* Creates a record of a slab without memory: the table only uses addresses. */
static struct acre__slab *slab_at(uint64_t at, size_t bytes, size_t slot_bytes) {
    struct acre__slab *slab = acre__slab_record(at, bytes, slot_bytes, bytes / slot_bytes);
    assert_non_null(slab);
    return slab;
}

static struct acre__slab *find(uint64_t at) {
    return acre__pool_table_find((void *)(uintptr_t)at);
}

TEST(table_finds_every_address_of_a_slab_and_no_other) {
    const uint64_t places[] = {UNIT, 32767 * UNIT, 32768 * UNIT, ((uint64_t)1 << 48) - 3 * UNIT};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct acre__slab *slab = slab_at(places[i], (size_t)(3 * UNIT), UNIT);
        uint64_t end = places[i] + 3 * UNIT;
        assert_null(find(places[i]));
        acre__pool_table_add(slab);
        assert_ptr_equal(find(places[i]), slab);
        assert_ptr_equal(find(places[i] + UNIT + 12345), slab);
        assert_ptr_equal(find(end - 1), slab);
        assert_null(find(places[i] - 1));
        assert_null(find(end));
        acre__pool_table_remove(slab);
        assert_null(find(places[i]));
        assert_null(find(end - 1));
        free(slab);
    }
}

TEST(table_bears_any_address) {
    const uint64_t any[] = {0, 1, UINT64_MAX, (uint64_t)1 << 48, (uint64_t)1 << 57, INT64_MAX};
    for (size_t i = 0; i < sizeof any / sizeof any[0]; i++)
        assert_null(find(any[i]));
}

TEST(table_refuses_addresses_that_it_has_no_room_for) {
    uint64_t end = (uint64_t)1 << 48;
    assert_int_equal(acre__pool_table_prepare(end - UNIT, end + UNIT), 0);
    assert_int_equal(acre__pool_table_prepare(end, end + UNIT), 0);
    assert_null(find(end - UNIT));
    assert_int_equal(acre__pool_table_prepare(end - UNIT, end), 1);
}

TEST(table_keeps_neighbours_apart) {
    struct acre__slab *a = slab_at(10 * UNIT, (size_t)UNIT, 256);
    struct acre__slab *b = slab_at(11 * UNIT, (size_t)UNIT, 512);
    acre__pool_table_add(a);
    acre__pool_table_add(b);
    assert_ptr_equal(find(11 * UNIT - 1), a);
    assert_ptr_equal(find(11 * UNIT), b);
    acre__pool_table_remove(a);
    assert_null(find(11 * UNIT - 1));
    assert_ptr_equal(find(11 * UNIT), b);
    acre__pool_table_remove(b);
    free(a);
    free(b);
}

/* ---- slots ---- */

static void *address(const struct acre__slab *slab, uint64_t offset) {
    return (void *)(uintptr_t)(slab->at + offset);
}

/* Looks up the addresses of a slab, in steps: the slot, and whether the slot begins there. */
static void expect_slots(struct acre__slab *slab, size_t slot_bytes, size_t step) {
    for (uint64_t offset = 0; offset < slab->bytes; offset += step) {
        uint64_t index = offset / slot_bytes;
        struct acre__slot *wanted = index < slab->count ? &slab->slots[index] : NULL;
        assert_ptr_equal(acre__slab_around(slab, address(slab, offset)), wanted);
        int is_first = wanted && offset % slot_bytes == 0;
        assert_ptr_equal(acre__slab_slot(slab, address(slab, offset)), is_first ? wanted : NULL);
        if (wanted)
            assert_ptr_equal(wanted->state, acre__slab_state_at(slab, (uint32_t)index));
        assert_null(acre__slab_slot(slab, address(slab, offset + 1)));
        assert_null(acre__slab_slot(slab, address(slab, offset + 255)));
    }
}

TEST(slots_are_found_by_their_first_address_alone) {
    for (uint32_t i = 0; acre__class_bytes(i) <= (size_t)4 << 20; i++) {
        size_t slot_bytes = acre__class_bytes(i);
        size_t slab_bytes = slot_bytes <= 64 << 10 ? (size_t)UNIT : 8 * (size_t)UNIT;
        struct acre__slab *slab = slab_at(64 * UNIT, slab_bytes, slot_bytes);
        expect_slots(slab, slot_bytes, ACRE__GRAIN);
        free(slab);
    }
}

/* The number of grains in the largest class does not fit into 32 bits. */
TEST(slots_of_the_largest_classes_are_found) {
    for (uint32_t i = ACRE__CLASSES - 16; i < ACRE__CLASSES; i++) {
        size_t bytes = acre__class_bytes(i);
        struct acre__slab *slab = slab_at(64 * UNIT, bytes, bytes);
        assert_ptr_equal(acre__slab_slot(slab, address(slab, 0)), &slab->slots[0]);
        assert_ptr_equal(acre__slab_state(slab, address(slab, 0)), &slab->states[0]);
        assert_null(acre__slab_slot(slab, address(slab, 256)));
        assert_ptr_equal(acre__slab_around(slab, address(slab, bytes - 1)), &slab->slots[0]);
        assert_null(acre__slab_around(slab, address(slab, bytes)));
        free(slab);
    }
}

int main(void) {
    return tests_run("pool_table");
}
