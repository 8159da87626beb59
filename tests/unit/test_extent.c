/* Extents: growing, shrinking, moving, access. After every operation the record agrees with the
 * driver's mappings, and memory holds the words that the test wrote. */
#include "space_fixture.h"

static acre_device *devs[2], *dev;
static size_t unit;
static uint64_t whole;
static struct space_table other;

static int extent_setup(void **state) {
    (void)state;
    unsetenv("ACRE_VMM");
    setenv("ACRE_ADDRESS_BYTES", "128MiB", 1); /* 64 units */
    setenv("ACRE_CHUNK_CACHE_BYTES", "8MiB", 1);
    devs[0] = dev = space_open_soft(64 * MIB, 2, 0);
    devs[1] = space_open_soft(64 * MIB, 2, 1);
    unit = acre__chunk_unit(dev, 0);
    whole = space_free_bytes(dev);
    return 0;
}

static int extent_teardown(void **state) {
    (void)state;
    unsetenv("ACRE_ADDRESS_BYTES");
    unsetenv("ACRE_CHUNK_CACHE_BYTES");
    space_close_empty(dev, whole);
    api_ok(acre_close(devs[1]));
    return 0;
}

static void make(struct acre__extent *extent, size_t reserve_units, size_t mapped_units) {
    api_ok(acre__extent_open(extent, dev, ACRE__CHUNK_SHAREABLE, reserve_units * unit, 0, 0));
    if (mapped_units)
        api_ok(acre__extent_grow(extent, mapped_units * unit));
}

static void expect_extent(struct acre__extent *extent, size_t reserve_units, size_t mapped_units,
                          size_t count) {
    assert_int_equal(extent->range.bytes, reserve_units * unit);
    assert_int_equal(extent->mapped, mapped_units * unit);
    assert_int_equal(extent->count, count);
    space_expect_truth(extent);
}

#define EXTENT_TEST(name) TEST_WITH(name, extent_setup, extent_teardown)

/* ---- opening, growing, closing ---- */

EXTENT_TEST(extent_opened_has_addresses_and_no_memory) {
    struct acre__extent extent;
    api_ok(acre__extent_open(&extent, dev, 0, 3 * unit - 5, 0, 0));
    expect_extent(&extent, 3, 0, 0);
    assert_int_equal(space_free_bytes(dev), whole);
    acre__extent_close(&extent);
    api_ok(acre__extent_open(&extent, dev, 0, 0, 0, 0)); /* no addresses yet */
    expect_extent(&extent, 0, 0, 0);
    api_expect(acre__extent_grow(&extent, 1), ACRE_E_ADDRESS_SPACE);
    assert_int_equal(acre__extent_extend(&extent, unit), 0);
    acre__extent_close(&extent);
    api_ok(acre__extent_open(&extent, dev, 0, unit, 16 * unit, 0));
    assert_int_equal(extent.range.at % (16 * unit), 0);
    acre__extent_close(&extent);
}

EXTENT_TEST(extent_that_cannot_be_is_refused) {
    struct acre__extent extent;
    api_expect(acre__extent_open(&extent, dev, 0, SIZE_MAX, 0, 0), ACRE_E_ADDRESS_SPACE);
    api_expect(acre__extent_open(&extent, dev, 0, (size_t)1 << 62, 0, 0), ACRE_E_ADDRESS_SPACE);
    setenv("ACRE_VMM", "off", 1);
    api_expect(acre__extent_open(&extent, dev, 0, unit, 0, 0), ACRE_E_UNSUPPORTED);
    setenv("ACRE_VMM", "perhaps", 1);
    api_expect(acre__extent_open(&extent, dev, 0, unit, 0, 0), ACRE_E_CONFIG);
    unsetenv("ACRE_VMM");
}

EXTENT_TEST(extent_grows_where_it_is) {
    struct acre__extent extent;
    make(&extent, 8, 0);
    uint64_t at = extent.range.at;
    api_ok(acre__extent_grow(&extent, 1));
    expect_extent(&extent, 8, 1, 1);
    space_mark(&extent, 0, unit, 100);
    api_ok(acre__extent_grow(&extent, unit)); /* a no-op: it is mapped already */
    expect_extent(&extent, 8, 1, 1);
    api_ok(acre__extent_grow(&extent, 4 * unit + 1));
    expect_extent(&extent, 8, 5, 2);
    assert_int_equal(extent.range.at, at);
    space_expect_marks(&extent, 0, unit, 100);
    space_mark(&extent, 0, 5 * unit, 200);
    api_expect(acre__extent_grow(&extent, 8 * unit + 1), ACRE_E_ADDRESS_SPACE);
    expect_extent(&extent, 8, 5, 2);
    api_ok(acre__extent_grow(&extent, 8 * unit));
    expect_extent(&extent, 8, 8, 3);
    space_expect_marks(&extent, 0, 5 * unit, 200);
    assert_int_equal(space_free_bytes(dev), whole - 8 * unit);
    acre__extent_close(&extent);
}

EXTENT_TEST(extent_grows_by_its_least_as_far_as_addresses_reach) {
    struct acre__extent extent;
    api_ok(acre__extent_open(&extent, dev, 0, 10 * unit, 0, 3 * unit + 1));
    assert_int_equal(extent.least, 4 * unit);
    api_ok(acre__extent_grow(&extent, 1));
    expect_extent(&extent, 10, 4, 1);
    api_ok(acre__extent_grow(&extent, 4 * unit + 1));
    expect_extent(&extent, 10, 8, 2);
    api_ok(acre__extent_grow(&extent, 8 * unit + 1));
    expect_extent(&extent, 10, 10, 3); /* no addresses are left */
    acre__extent_close(&extent);
}

EXTENT_TEST(extent_that_gets_no_memory_is_as_before) {
    struct acre__extent extent;
    make(&extent, 64, 3);
    space_mark(&extent, 0, 3 * unit, 7);
    api_expect(acre__extent_grow(&extent, 33 * unit), ACRE_E_DEVICE_MEMORY);
    expect_extent(&extent, 64, 3, 1);
    space_expect_marks(&extent, 0, 3 * unit, 7);
    acre__chunk_trim(dev);
    assert_int_equal(space_free_bytes(dev), whole - 3 * unit);
    setenv("ACRE_CHUNK_LIMIT_BYTES", "8MiB", 1);
    api_expect(acre__extent_grow(&extent, 5 * unit), ACRE_E_LIMIT);
    unsetenv("ACRE_CHUNK_LIMIT_BYTES");
    expect_extent(&extent, 64, 3, 1);
    api_ok(acre__extent_grow(&extent, 32 * unit));
    expect_extent(&extent, 64, 32, 2);
    space_expect_marks(&extent, 0, 3 * unit, 7);
    acre__extent_close(&extent);
}

/* A failed attempt leaves neither memory nor addresses behind. */
EXTENT_TEST(extent_of_a_block_that_gets_no_memory_is_as_before) {
    struct acre__extent rest;
    void *p, *to;
    uint64_t reserved, taken, taken_after;
    make(&rest, 20, 20);
    api_ok(acre_mem_alloc(dev, ACRE_KIND_DEVICE, unit, 0, &p));
    acre__range_count(dev, &reserved, &taken);
    api_expect(acre_mem_realloc(dev, p, 20 * unit, NULL, &to), ACRE_E_DEVICE_MEMORY);
    acre__range_count(dev, &reserved, &taken_after);
    assert_int_equal(taken_after, taken);
    assert_int_equal(space_free_bytes(dev), whole - 21 * unit);
    api_ok(acre_mem_realloc(dev, p, 12 * unit, NULL, &to)); /* to the last byte */
    assert_int_equal(space_free_bytes(dev), whole - 32 * unit);
    api_ok(acre_mem_free(dev, to));
    acre__extent_close(&rest);
}

EXTENT_TEST(extent_takes_over_chunks_that_are_added) {
    struct acre__extent extent;
    make(&extent, 6, 1);
    struct acre__chunk *a, *b, *c;
    api_ok(acre__chunk_take(dev, 2 * unit, 0, &a));
    api_ok(acre__chunk_take(dev, unit, 0, &b));
    api_ok(acre__chunk_take(dev, 3 * unit, 0, &c));
    a->next = b;
    acre__chunk_keep(a);
    api_ok(acre__extent_add(&extent, a));
    expect_extent(&extent, 6, 4, 3);
    assert_ptr_equal(extent.mappings[1]->chunk, a);
    assert_ptr_equal(extent.mappings[2]->chunk, b);
    assert_int_equal(a->users, 2); /* the mapping and this test */
    assert_int_equal(b->users, 1);
    acre__chunk_keep(c);
    api_expect(acre__extent_add(&extent, c), ACRE_E_ADDRESS_SPACE);
    assert_int_equal(c->users, 1); /* the extent took one reference and dropped it */
    expect_extent(&extent, 6, 4, 3);
    api_ok(acre__extent_add(&extent, NULL)); /* a no-op */
    expect_extent(&extent, 6, 4, 3);
    acre__chunk_drop(a);
    acre__chunk_drop(c);
    acre__extent_close(&extent);
}

EXTENT_TEST(extent_of_host_memory_is_open_to_the_host) {
    struct acre__extent extent;
    api_ok(acre__extent_open(&extent, dev, ACRE__CHUNK_HOST, 4 * unit, 0, 0));
    api_ok(acre__extent_grow(&extent, 2 * unit));
    space_expect_truth(&extent);
    assert_int_equal(space_free_bytes(dev), whole);
    volatile uint64_t *words = (volatile uint64_t *)(uintptr_t)extent.range.at;
    words[0] = 5;
    words[2 * unit / 8 - 1] = 6;
    assert_int_equal(space_read(dev, extent.range.at), 5);
    assert_int_equal(space_read(dev, extent.range.at + 2 * unit - 8), 6);
    struct acre__moved moved;
    api_ok(acre__extent_move_begin(&extent, 8 * unit, &moved));
    acre__extent_move_end(&moved);
    words = (volatile uint64_t *)(uintptr_t)extent.range.at;
    assert_int_equal(words[0], 5);
    acre__extent_close(&extent);
}

/* ---- shrinking ---- */

EXTENT_TEST(extent_shrinks_by_whole_chunks) {
    struct acre__extent extent;
    make(&extent, 16, 1);
    api_ok(acre__extent_grow(&extent, 4 * unit)); /* 1 + 3 */
    api_ok(acre__extent_grow(&extent, 6 * unit)); /* + 2 */
    space_mark(&extent, 0, 6 * unit, 11);
    assert_int_equal(acre__extent_shrink(&extent, 6 * unit), 0);
    assert_int_equal(acre__extent_shrink(&extent, 4 * unit + 1), 0);
    expect_extent(&extent, 16, 6, 3);
    assert_int_equal(acre__extent_shrink(&extent, 4 * unit), 2 * unit);
    expect_extent(&extent, 16, 4, 2);
    assert_int_equal(acre__extent_shrink(&extent, unit + 1), 0);
    expect_extent(&extent, 16, 4, 2);
    space_expect_marks(&extent, 0, 4 * unit, 11);
    assert_int_equal(acre__extent_shrink(&extent, 1), 3 * unit);
    expect_extent(&extent, 16, 1, 1);
    space_expect_marks(&extent, 0, unit, 11);
    assert_int_equal(acre__extent_shrink(&extent, 0), unit);
    expect_extent(&extent, 16, 0, 0);
    assert_int_equal(acre__extent_shrink(&extent, 0), 0);
    api_ok(acre__extent_grow(&extent, 2 * unit));
    expect_extent(&extent, 16, 2, 1);
    acre__extent_close(&extent);
}

/* ---- addresses ---- */

EXTENT_TEST(extent_extends_and_gives_addresses_back) {
    struct acre__extent a, b;
    make(&a, 4, 2);
    make(&b, 4, 1);
    assert_int_equal(b.range.at, a.range.at + 4 * unit);
    assert_int_equal(acre__extent_extend(&a, 4 * unit), 1); /* a no-op: it has them */
    assert_int_equal(acre__extent_extend(&a, 4 * unit + 1), 0);
    assert_int_equal(acre__extent_extend(&b, 9 * unit - 1), 1);
    assert_int_equal(acre__extent_extend(&b, SIZE_MAX), 0);
    expect_extent(&a, 4, 2, 1);
    expect_extent(&b, 9, 1, 1);
    acre__extent_trim_addresses(&a, 1); /* keeps the addresses of mapped memory */
    expect_extent(&a, 2, 2, 1);
    acre__extent_trim_addresses(&b, 5 * unit - 1);
    expect_extent(&b, 5, 1, 1);
    acre__extent_trim_addresses(&b, 7 * unit); /* a no-op: it has fewer */
    expect_extent(&b, 5, 1, 1);
    assert_int_equal(acre__extent_extend(&a, 4 * unit), 1); /* they are free again */
    assert_int_equal(acre__extent_extend(&a, 5 * unit), 0);
    acre__extent_close(&b);
    assert_int_equal(acre__extent_extend(&a, 64 * unit), 1); /* the whole area */
    expect_extent(&a, 64, 2, 1);
    acre__extent_close(&a);
}

/* ---- moving ---- */

EXTENT_TEST(extent_moves_and_keeps_its_contents) {
    struct acre__extent extent;
    make(&extent, 4, 1);
    struct acre__moved moved;
    api_ok(acre__extent_grow(&extent, 4 * unit));
    space_mark(&extent, 0, 4 * unit, 31);
    uint64_t old = extent.range.at, free_bytes = space_free_bytes(dev);
    api_ok(acre__extent_move_begin(&extent, 9 * unit + 1, &moved));
    expect_extent(&extent, 10, 4, 2);
    assert_int_not_equal(extent.range.at, old);
    assert_int_equal(space_free_bytes(dev), free_bytes); /* a move needs no memory */
    space_expect_marks(&extent, 0, 4 * unit, 31);
    /* Both addresses map the same memory. */
    assert_int_equal(space_read(dev, old + 4 * unit - 8), 31 + 7);
    space_write(dev, old, 99);
    assert_int_equal(space_read(dev, extent.range.at), 99);
    space_write(dev, extent.range.at, 31);
    api_ok(acre__extent_grow(&extent, 6 * unit)); /* allowed before the old mapping ends */
    acre__extent_move_end(&moved);
    assert_null(moved.dev);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(space_access_at(dev, old + i * unit, dev->device), -1);
    expect_extent(&extent, 10, 6, 3);
    space_expect_marks(&extent, 0, 4 * unit, 31);
    struct acre__extent next;
    make(&next, 4, 0);
    assert_int_equal(next.range.at, old); /* the addresses are free again */
    acre__extent_close(&next);
    acre__extent_close(&extent);
    acre__extent_move_end(&moved); /* a no-op */
}

EXTENT_TEST(extent_moves_to_no_less_than_its_memory) {
    struct acre__extent extent, empty;
    make(&extent, 8, 3);
    make(&empty, 0, 0);
    struct acre__moved moved;
    api_ok(acre__extent_move_begin(&extent, 1, &moved));
    expect_extent(&extent, 3, 3, 1);
    acre__extent_move_end(&moved);
    api_expect(acre__extent_move_begin(&extent, SIZE_MAX, &moved), ACRE_E_ADDRESS_SPACE);
    assert_null(moved.dev);
    api_expect(acre__extent_move_begin(&extent, (size_t)1 << 62, &moved), ACRE_E_ADDRESS_SPACE);
    expect_extent(&extent, 3, 3, 1);
    api_ok(acre__extent_move_begin(&empty, 2 * unit, &moved)); /* its first addresses */
    acre__extent_move_end(&moved);
    expect_extent(&empty, 2, 0, 0);
    api_ok(acre__extent_grow(&empty, 2 * unit));
    expect_extent(&empty, 2, 2, 1);
    acre__extent_close(&empty);
    acre__extent_close(&extent);
}

/* ---- access ---- */

EXTENT_TEST(extent_access_of_a_peer_goes_with_it) {
    struct acre__extent extent;
    make(&extent, 4, 1);
    struct acre__moved moved;
    assert_int_equal(space_access_at(dev, extent.range.at, 1), 0);
    api_ok(acre__extent_set_access(&extent, devs[1], CU_MEM_ACCESS_FLAGS_PROT_READ));
    assert_int_equal(extent.access_count, 2);
    assert_int_equal(space_access_at(dev, extent.range.at, 1), CU_MEM_ACCESS_FLAGS_PROT_READ);
    api_ok(acre__extent_grow(&extent, 3 * unit));
    expect_extent(&extent, 4, 3, 2);
    api_ok(acre__extent_set_access(&extent, devs[1], CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    assert_int_equal(extent.access_count, 2);
    api_ok(acre__extent_move_begin(&extent, 8 * unit, &moved));
    acre__extent_move_end(&moved);
    expect_extent(&extent, 8, 3, 2);
    space_write(devs[1], extent.range.at, 5); /* by the other device */
    assert_int_equal(space_read(dev, extent.range.at), 5);
    api_ok(acre__extent_set_access(&extent, devs[1], CU_MEM_ACCESS_FLAGS_PROT_NONE));
    assert_int_equal(extent.access_count, 1);
    assert_int_equal(space_access_at(dev, extent.range.at + 2 * unit, 1), 0);
    api_ok(acre__extent_set_access(&extent, devs[1], CU_MEM_ACCESS_FLAGS_PROT_NONE)); /* twice */
    api_ok(acre__extent_grow(&extent, 4 * unit));
    assert_int_equal(space_access_at(dev, extent.range.at + 3 * unit, 1), 0);
    assert_int_equal(space_read(dev, extent.range.at), 5);
    acre__extent_close(&extent);
}

/* A peer's access also moves with an acre_mem block, which is an extent. */
EXTENT_TEST(extent_access_of_a_peer_goes_with_a_block_that_moves) {
    void *p, *next, *to;
    api_ok(acre_mem_alloc(dev, ACRE_KIND_DEVICE, unit, 0, &p));
    api_ok(acre_mem_alloc(dev, ACRE_KIND_DEVICE, unit, 0, &next));
    api_ok(acre_mem_set_access(dev, p, devs[1], ACRE_ACCESS_READ));
    api_ok(acre_mem_realloc(dev, p, 6 * unit, NULL, &to));
    assert_ptr_not_equal(to, p);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(space_access_at(dev, (uintptr_t)to + i * unit, 1),
                         CU_MEM_ACCESS_FLAGS_PROT_READ);
    assert_int_equal(space_access_at(dev, (uintptr_t)p, 0), -1);
    api_ok(acre_mem_free(dev, to));
    api_ok(acre_mem_free(dev, next));
}

/* An extent whose own device has no access can still grow, and can restore the access. */
EXTENT_TEST(extent_without_any_access_still_grows) {
    struct acre__extent extent;
    make(&extent, 4, 1);
    space_mark(&extent, 0, unit, 3);
    api_ok(acre__extent_set_access(&extent, dev, CU_MEM_ACCESS_FLAGS_PROT_NONE));
    assert_int_equal(extent.access_count, 0);
    assert_int_equal(space_access_at(dev, extent.range.at, 0), 0);
    api_ok(acre__extent_grow(&extent, 3 * unit));
    assert_int_equal(space_access_at(dev, extent.range.at + 2 * unit, 0), 0);
    api_ok(acre__extent_set_access(&extent, dev, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    expect_extent(&extent, 4, 3, 2);
    space_expect_marks(&extent, 0, unit, 3);
    acre__extent_close(&extent);
}

static CUresult peer_out_of_reach(int *can, CUdevice device, CUdevice peer) {
    (void)device, (void)peer;
    *can = 0;
    return CUDA_SUCCESS;
}

/* acre__extent_set_access fails at once, not when memory is added later. */
EXTENT_TEST(extent_access_of_a_device_out_of_reach_is_refused) {
    struct acre__extent extent;
    make(&extent, 4, 0);
    space_table_begin(&other, dev);
    other.table.cuDeviceCanAccessPeer = peer_out_of_reach;
    devs[1]->drv = dev->drv;
    api_expect(acre__extent_set_access(&extent, devs[1], CU_MEM_ACCESS_FLAGS_PROT_READ),
               ACRE_E_UNSUPPORTED);
    assert_int_equal(extent.access_count, 1);
    api_ok(acre__extent_grow(&extent, unit));
    devs[1]->drv = other.real;
    api_expect(acre__extent_set_access(&extent, devs[1], CU_MEM_ACCESS_FLAGS_PROT_READ),
               ACRE_E_HANDLE); /* its driver table differs now */
    space_table_end(&other, dev);
    expect_extent(&extent, 4, 1, 1);
    acre__extent_close(&extent);
}

/* ---- failing driver calls ---- */

static int unmaps_refused; /* number of calls to fail; -1: all */

static CUresult unmap_refused(CUdeviceptr at, size_t bytes) {
    if (unmaps_refused) {
        unmaps_refused -= unmaps_refused > 0;
        return CUDA_ERROR_UNKNOWN;
    }
    return other.real->cuMemUnmap(at, bytes);
}

EXTENT_TEST(extent_memory_that_cannot_be_unmapped_stays) {
    struct acre__extent extent;
    make(&extent, 8, 1);
    for (size_t i = 2; i <= 4; i++)
        api_ok(acre__extent_grow(&extent, i * unit));
    space_mark(&extent, 0, 4 * unit, 40);
    space_table_begin(&other, dev);
    other.table.cuMemUnmap = unmap_refused;
    unmaps_refused = 1; /* a retry hides one failure */
    assert_int_equal(acre__extent_shrink(&extent, 3 * unit), unit);
    expect_extent(&extent, 8, 3, 3);
    assert_int_equal(api_stats(dev).limbo_count, 0);
    unmaps_refused = -1;
    assert_int_equal(acre__extent_shrink(&extent, unit), 0);
    expect_extent(&extent, 8, 3, 3); /* as before, and nothing is in limbo */
    assert_int_equal(api_stats(dev).limbo_count, 0);
    space_expect_marks(&extent, 0, 3 * unit, 40);
    unmaps_refused = 0;
    assert_int_equal(acre__extent_shrink(&extent, unit), 2 * unit);
    expect_extent(&extent, 8, 1, 1);
    space_expect_marks(&extent, 0, unit, 40);
    api_ok(acre__extent_grow(&extent, 8 * unit));
    expect_extent(&extent, 8, 8, 2);
    space_table_end(&other, dev);
    acre__extent_close(&extent);
}

EXTENT_TEST(extent_closed_with_memory_that_stays_mapped_loses_nothing) {
    struct acre__extent extent, again;
    make(&extent, 8, 2);
    api_ok(acre__extent_grow(&extent, 3 * unit));
    uint64_t at = extent.range.at;
    space_table_begin(&other, dev);
    other.table.cuMemUnmap = unmap_refused;
    unmaps_refused = -1;
    acre__extent_close(&extent);
    unmaps_refused = 0;
    assert_int_equal(api_stats(dev).limbo_count, 2);
    make(&again, 8, 2); /* at another address */
    assert_true(again.range.at >= at + 3 * unit || again.range.at + 8 * unit <= at);
    expect_extent(&again, 8, 2, 1);
    acre__extent_close(&again);
    space_table_end(&other, dev);
    api_ok(acre_trim(dev));
}

/* Closing the device releases everything in limbo. */
EXTENT_TEST(extent_in_limbo_ends_with_the_device) {
    struct acre__extent extent;
    make(&extent, 8, 2);
    space_table_begin(&other, dev);
    other.table.cuMemUnmap = unmap_refused;
    unmaps_refused = -1;
    acre__extent_close(&extent);
    unmaps_refused = 0;
    space_table_end(&other, dev);
    assert_int_equal(api_stats(dev).limbo_count, 1);
    api_ok(acre_close(dev));
    devs[0] = dev = space_open_soft(64 * MIB, 2, 0);
    assert_int_equal(space_free_bytes(dev), whole);
}

int main(void) {
    return tests_run("extent");
}
