/* The book of blocks: lookup by address, removal by the right owner, and the error of every refused
 * call. */
#include "base/status.h"
#include "soft_fixture.h"
#include "space/book.h"

static acre_device *device, *other;

static int book_setup(void **state) {
    (void)state;
    acre_open_options options = {
        .struct_size = sizeof options, .soft_bytes = 64 * MIB, .soft_devices = 2};
    assert_int_equal(acre_open("soft:0", &options, &device), ACRE_OK);
    assert_int_equal(acre_open("soft:1", &options, &other), ACRE_OK);
    return 0;
}

static struct acre__block *any_of(const acre_device *dev) {
    struct acre__block *block = acre__book_remove_any(dev, ACRE__OWNED_BY_MEM);
    return block ? block : acre__book_remove_any(dev, ACRE__OWNED_BY_PROGRAM);
}

static int book_teardown(void **state) {
    (void)state;
    assert_null(any_of(device));
    assert_null(any_of(other));
    assert_int_equal(acre_close(device), ACRE_OK);
    assert_int_equal(acre_close(other), ACRE_OK);
    return 0;
}

static struct acre__block block_at(acre_device *dev, uint64_t address, size_t bytes,
                                   enum acre__source source) {
    return (struct acre__block){.node.key = address,
                                .dev = dev,
                                .bytes = bytes,
                                .kind = ACRE_KIND_PINNED,
                                .source = source,
                                .owner = source == ACRE__FROM_PROGRAM ? ACRE__OWNED_BY_PROGRAM
                                                                      : ACRE__OWNED_BY_MEM};
}

static struct acre__block *take(acre_device *dev, uint64_t address, int is_registered,
                                acre_status *status) {
    *status = ACRE_OK;
    return acre__book_remove(dev, (void *)(uintptr_t)address,
                             is_registered ? ACRE__OWNED_BY_PROGRAM : ACRE__OWNED_BY_MEM, status);
}

#define BOOK_TEST(name) TEST_WITH(name, book_setup, book_teardown)

BOOK_TEST(book_refuses_what_overlaps_and_takes_what_touches) {
    acre_status status;
    struct acre__block middle = block_at(device, 0x10000, 0x1000, ACRE__FROM_PAGES);
    assert_true(acre__book_add(&middle));
    const struct {
        uint64_t address;
        size_t bytes;
        int fits;
    } tries[] = {
        {0x10000, 0x1000, 0}, {0x10000, 1, 0},        {0x10fff, 1, 0},      {0x10800, 0x10, 0},
        {0xffff, 2, 0},       {0xf000, 0x3000, 0},    {0x10fff, 0x100, 0},  {0xf000, 0x1000, 1},
        {0x11000, 1, 1},      {0x1, SIZE_MAX - 1, 0}, {0x11000, 0x1000, 1},
    };
    for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        struct acre__block block =
            block_at(other, tries[i].address, tries[i].bytes, ACRE__FROM_PAGES);
        assert_int_equal(acre__book_add(&block), tries[i].fits);
        if (tries[i].fits)
            assert_ptr_equal(take(other, tries[i].address, 0, &status), &block);
    }
    assert_ptr_equal(take(device, 0x10000, 0, &status), &middle);
}

BOOK_TEST(book_says_why_a_block_stays) {
    acre_status status;
    struct acre__block ours = block_at(device, 0x10000, 0x1000, ACRE__FROM_DRIVER_DEVICE);
    struct acre__block own = block_at(device, 0x11000, 0x1000, ACRE__FROM_PROGRAM);
    assert_true(acre__book_add(&ours) && acre__book_add(&own));
    const struct {
        acre_device *dev;
        uint64_t address;
        int is_registered;
        acre_status status;
    } tries[] = {
        {device, 0xffff, 0, ACRE_E_POINTER},   {device, 0x12000, 0, ACRE_E_POINTER},
        {device, 0, 0, ACRE_E_POINTER},        {device, UINTPTR_MAX, 1, ACRE_E_POINTER},
        {device, 0x10001, 0, ACRE_E_INTERIOR}, {device, 0x11fff, 1, ACRE_E_INTERIOR},
        {other, 0x10000, 0, ACRE_E_HANDLE},    {other, 0x10001, 0, ACRE_E_HANDLE},
        {device, 0x10000, 1, ACRE_E_KIND},     {device, 0x11000, 0, ACRE_E_KIND},
    };
    for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        acre__fail(ACRE_E_BUSY, "before");
        assert_null(take(tries[i].dev, tries[i].address, tries[i].is_registered, &status));
        assert_int_equal(status, tries[i].status);
        assert_string_not_equal(acre_last_detail(), "before");
    }
    assert_ptr_equal(take(device, 0x10000, 0, &status), &ours);
    assert_ptr_equal(take(device, 0x11000, 1, &status), &own);
    assert_null(take(device, 0x10000, 0, &status));
    assert_int_equal(status, ACRE_E_POINTER);
}

BOOK_TEST(book_counts_each_devices_own) {
    struct acre__block blocks[] = {
        block_at(device, 0x10000, 10, ACRE__FROM_PAGES),
        block_at(other, 0x20000, 20, ACRE__FROM_DRIVER_DEVICE),
        block_at(device, 0x30000, 30, ACRE__FROM_DRIVER_HOST),
        block_at(device, 0x40000, 40, ACRE__FROM_PROGRAM),
        block_at(other, 0x50000, 50, ACRE__FROM_PROGRAM),
    };
    for (size_t i = 0; i < 5; i++)
        assert_true(acre__book_add(&blocks[i]));
    acre_device_stats stats = {0};
    acre__book_count(device, &stats);
    assert_int_equal(stats.mem_blocks, 2);
    assert_int_equal(stats.mem_bytes, 40);
    assert_int_equal(stats.mem_registered, 1);
    /* Removing all blocks of a device leaves the other device's blocks. */
    for (int i = 0; i < 3; i++) {
        struct acre__block *block = any_of(device);
        assert_non_null(block);
        assert_ptr_equal(block->dev, device);
    }
    assert_null(any_of(device));
    stats = (acre_device_stats){0};
    acre__book_count(other, &stats);
    assert_int_equal(stats.mem_blocks, 1);
    assert_int_equal(stats.mem_registered, 1);
    assert_non_null(any_of(other));
    assert_non_null(any_of(other));
}

BOOK_TEST(book_block_that_is_pinned_or_held_is_busy) {
    struct acre__block block = block_at(device, 4096, 100, ACRE__FROM_PAGES), *held;
    void *p = (void *)4096;
    acre_status status;
    assert_true(acre__book_add(&block));
    /* While two callers pin the block, it can be neither removed nor changed. */
    assert_ptr_equal(acre__book_pin(device, p, &status), &block);
    assert_ptr_equal(acre__book_pin(device, p, &status), &block);
    for (int i = 0; i < 2; i++) {
        assert_null(take(device, 4096, 0, &status));
        assert_int_equal(status, ACRE_E_BUSY);
        assert_null(acre__book_hold(device, p, ACRE__OWNED_BY_MEM, &status));
        assert_int_equal(status, ACRE_E_BUSY);
        acre__book_unpin(&block);
    }
    /* While one caller changes the block, no other can pin, change or remove it. */
    held = acre__book_hold(device, p, ACRE__OWNED_BY_MEM, &status);
    assert_ptr_equal(held, &block);
    assert_null(acre__book_hold(device, p, ACRE__OWNED_BY_MEM, &status));
    assert_int_equal(status, ACRE_E_BUSY);
    assert_null(acre__book_pin(device, p, &status));
    assert_int_equal(status, ACRE_E_BUSY);
    assert_null(take(device, 4096, 0, &status));
    assert_int_equal(status, ACRE_E_BUSY);
    acre__book_change(held, 8192, 50);
    acre__book_unpin(held);
    assert_null(acre__book_pin(device, p, &status));
    assert_int_equal(status, ACRE_E_POINTER);
    assert_ptr_equal(acre__book_pin(device, (void *)8192, &status), &block);
    assert_int_equal(block.bytes, 50);
    acre__book_unpin(&block);
    assert_ptr_equal(take(device, 8192, 0, &status), &block);
}

BOOK_TEST(book_looks_addresses_up_and_knows_the_room_left) {
    acre_status status;
    acre_mem_info info;
    struct acre__block block = block_at(device, 0x10000, 100, ACRE__FROM_PROGRAM);
    block.flags = ACRE_MEM_PORTABLE;
    assert_true(acre__book_add(&block));
    for (uint64_t offset = 0; offset < 100; offset += 33) {
        const void *p = (void *)(uintptr_t)(0x10000 + offset);
        assert_int_equal(acre__book_look(other, p, &info), ACRE_OK);
        assert_int_equal(info.kind, ACRE_KIND_PINNED);
        assert_int_equal(info.flags, ACRE_MEM_PORTABLE);
        assert_int_equal((uintptr_t)info.base, 0x10000);
        assert_int_equal(info.bytes, 100);
        assert_ptr_equal(info.device, device);
        assert_int_equal(info.is_registered, 1);
        assert_int_equal(acre__book_room(&info, p), 100 - offset);
    }
    assert_ptr_equal(take(device, 0x10000, 1, &status), &block);
    assert_int_equal(acre__book_look(device, &info, &info), ACRE_OK);
    assert_int_equal(info.kind, ACRE_KIND_PAGEABLE);
    assert_int_equal(acre__book_room(&info, &info), SIZE_MAX);
}

/* Compares the book with an array that has one entry per byte. */
BOOK_TEST(book_of_random_blocks_agrees_with_a_map) {
    enum { CELLS = 400, ROUNDS = 4000 };
    static struct acre__block pool[CELLS];
    struct acre__block *owner[CELLS] = {0}; /* by address, from 0x1000 on */
    uint64_t random = random_seed("book");
    acre_status status;
    for (int round = 0; round < ROUNDS; round++) {
        size_t at = random_draw(&random, CELLS), bytes = 1 + random_draw(&random, 12);
        struct acre__block *here = owner[at];
        if (random_draw(&random, 2)) {
            struct acre__block *gone = take(device, 0x1000 + at, 0, &status);
            assert_ptr_equal(gone, here && here->node.key == 0x1000 + at ? here : NULL);
            if (gone)
                for (size_t i = 0; i < gone->bytes; i++)
                    owner[at + i] = NULL;
            else
                assert_int_equal(status, here ? ACRE_E_INTERIOR : ACRE_E_POINTER);
            continue;
        }
        int is_free = at + bytes <= CELLS;
        for (size_t i = 0; is_free && i < bytes; i++)
            is_free = !owner[at + i];
        if (at + bytes > CELLS)
            continue;
        struct acre__block block = block_at(device, 0x1000 + at, bytes, ACRE__FROM_PAGES);
        struct acre__block *place = is_free ? &pool[at] : &block;
        *place = block;
        assert_int_equal(acre__book_add(place), is_free);
        for (size_t i = 0; is_free && i < bytes; i++)
            owner[at + i] = place;
    }
    while (any_of(device))
        ;
}

int main(void) {
    return tests_run("book");
}
