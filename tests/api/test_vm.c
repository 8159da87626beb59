/* Virtual memory by hand, on every driver present: each step, its reverse, and every way to misuse
 * it. Peers and foreign handles are tested with two soft devices. */
#include <pthread.h>

#include "api_memory.h"

static size_t unit_of(acre_device *device) {
    size_t unit = 0;
    api_ok(acre_vm_granularity(device, 0, &unit, NULL));
    return unit;
}

static acre_vm_chunk *create(acre_device *device, size_t bytes) {
    acre_vm_chunk *chunk = NULL;
    size_t real = 0;
    api_ok(acre_vm_create(device, bytes, 0, &chunk, &real));
    assert_non_null(chunk);
    assert_int_equal(real, bytes);
    return chunk;
}

static char *reserve(acre_device *device, size_t bytes) {
    void *address = NULL;
    size_t real = 0;
    api_ok(acre_vm_reserve(device, bytes, 0, NULL, &address, &real));
    assert_non_null(address);
    assert_int_equal(real, bytes);
    return address;
}

static acre_status set_access(acre_device *device, void *at, size_t bytes, acre_access access) {
    return acre_vm_set_access(device, at, bytes, device, access);
}

static acre_access access_of(acre_device *device, const void *at, acre_device *peer) {
    acre_access access = (acre_access)2;
    api_ok(acre_vm_get_access(device, at, peer, &access));
    return access;
}

/* Maps `count` contiguous chunks of one unit each, with access, and releases their handles. */
static char *mapped(acre_device *device, size_t count) {
    size_t unit = unit_of(device);
    char *at = reserve(device, count * unit);
    for (size_t i = 0; i < count; i++) {
        acre_vm_chunk *chunk = create(device, unit);
        api_ok(acre_vm_map(device, at + i * unit, chunk));
        api_ok(acre_vm_release(device, chunk));
    }
    api_ok(set_access(device, at, count * unit, ACRE_ACCESS_READ_WRITE));
    return at;
}

static void unmapped(acre_device *device, char *at, size_t count) {
    api_ok(acre_vm_unmap(device, at, count * unit_of(device)));
    api_ok(acre_vm_address_free(device, at));
}

static void put(acre_device *device, void *at, uint32_t value) {
    api_ok(acre_copy_sync(device, at, &value, sizeof value));
}

static uint32_t get(acre_device *device, const void *at) {
    uint32_t value = 0;
    api_ok(acre_copy_sync(device, &value, at, sizeof value));
    return value;
}

/* ---- granularity ---- */

API_TEST(granularity_is_told_for_every_sort_of_chunk) {
    acre_device_info info = {.struct_size = sizeof info};
    api_ok(acre_device_get_info(device, &info));
    for (uint32_t flags = 0; flags < 8; flags++) {
        size_t minimum = 0, recommended = 0;
        api_ok(acre_vm_granularity(device, flags, &minimum, &recommended));
        assert_int_equal(minimum, info.granularity_bytes);
        assert_int_equal(recommended % minimum, 0);
        assert_true(recommended >= minimum);
    }
    assert_int_equal(unit_of(device), info.granularity_bytes);
}

API_TEST(granularity_with_wrong_arguments_is_refused) {
    size_t minimum = 1, recommended = 1;
    api_expect(acre_vm_granularity(device, 0, NULL, &recommended), ACRE_E_NULL);
    assert_int_equal(recommended, 0);
    for (unsigned bit = 3; bit < 32; bit++) {
        minimum = recommended = 1;
        api_expect(acre_vm_granularity(device, 1u << bit, &minimum, &recommended), ACRE_E_INVALID);
        assert_int_equal(minimum + recommended, 0);
    }
    assert_int_equal(api_stats(device).driver_refusals, 0);
}

/* ---- chunks ---- */

API_TEST(create_rounds_up_and_takes_that_much_memory) {
    size_t unit = unit_of(device);
    const size_t sizes[] = {1, unit - 1, unit, unit + 1, 7 * unit - 5};
    const uint32_t flags[] = {0, ACRE_VM_SHAREABLE, ACRE_VM_RDMA, ACRE_VM_SHAREABLE | ACRE_VM_RDMA};
    for (size_t i = 0; i < 20; i++) {
        uint64_t before = api_free_bytes(device);
        acre_vm_chunk *chunk = NULL, *other = NULL;
        size_t real = 0, wanted = (sizes[i / 4] + unit - 1) / unit * unit;
        api_ok(acre_vm_create(device, sizes[i / 4], flags[i % 4], &chunk, &real));
        assert_non_null(chunk);
        assert_int_equal(real, wanted);
        api_expect_free(device, before - wanted);
        api_ok(acre_vm_create(device, sizes[i / 4], flags[i % 4], &other, NULL));
        assert_ptr_not_equal(other, chunk);
        api_ok(acre_vm_release(device, chunk));
        api_ok(acre_vm_release(device, other));
        api_expect_free(device, before);
    }
    assert_int_equal(api_stats(device).driver_refusals, 0);
}

API_TEST(create_with_wrong_arguments_is_refused) {
    const size_t never[] = {0, SIZE_MAX, (size_t)PTRDIFF_MAX + 1};
    for (size_t i = 0; i < 3; i++) {
        acre_vm_chunk *chunk = (acre_vm_chunk *)(void *)device;
        size_t real = 1;
        api_expect(acre_vm_create(device, never[i], 0, &chunk, &real), ACRE_E_INVALID);
        assert_null(chunk);
        assert_int_equal(real, 0);
    }
    for (unsigned bit = 3; bit < 32; bit++) {
        acre_vm_chunk *chunk = (acre_vm_chunk *)(void *)device;
        api_expect(acre_vm_create(device, 1, 1u << bit, &chunk, NULL), ACRE_E_INVALID);
        assert_null(chunk);
    }
    size_t real = 1;
    api_expect(acre_vm_create(device, 1, 0, NULL, &real), ACRE_E_NULL);
    assert_int_equal(real, 0);
    assert_int_equal(api_stats(device).driver_refusals, 0);
}

API_TEST(create_of_more_than_there_is_says_so) {
    acre_device_info info = {.struct_size = sizeof info};
    api_ok(acre_device_get_info(device, &info));
    size_t unit = unit_of(device);
    size_t wanted = ((size_t)info.total_bytes / unit + 1) * unit;
    const size_t sizes[] = {wanted, (size_t)1 << 46, PTRDIFF_MAX};
    for (size_t i = 0; i < 3; i++) {
        acre_vm_chunk *chunk = (acre_vm_chunk *)(void *)device;
        size_t real = 1;
        api_expect(acre_vm_create(device, sizes[i], 0, &chunk, &real), ACRE_E_DEVICE_MEMORY);
        assert_null(chunk);
        assert_int_equal(real, 0);
    }
    char bytes[32];
    acre_vm_chunk *chunk;
    api_expect(acre_vm_create(device, wanted, 0, &chunk, NULL), ACRE_E_DEVICE_MEMORY);
    snprintf(bytes, sizeof bytes, "%zu bytes", wanted);
    assert_non_null(strstr(acre_last_detail(), bytes));
    api_ok(acre_vm_release(device, create(device, unit))); /* a smaller request still succeeds */
}

API_TEST(release_ends_the_handle_and_the_memory_with_its_last_mapping) {
    size_t unit = unit_of(device);
    char *warm = mapped(device, 1); /* warm-up: a driver allocates memory at its first copy */
    put(device, warm, 0);
    unmapped(device, warm, 1);
    uint64_t before = api_free_bytes(device);
    acre_vm_chunk *chunk = create(device, unit);
    char *at = reserve(device, 2 * unit);
    api_ok(acre_vm_map(device, at, chunk));
    api_ok(acre_vm_map(device, at + unit, chunk));
    api_ok(set_access(device, at, 2 * unit, ACRE_ACCESS_READ_WRITE));
    put(device, at, 4711);
    api_ok(acre_vm_release(device, chunk));
    api_expect(acre_vm_release(device, chunk), ACRE_E_HANDLE);
    assert_int_equal(get(device, at + unit), 4711);
    api_ok(acre_vm_unmap(device, at, unit));
    assert_int_equal(get(device, at + unit), 4711);
    api_expect_free(device, before - unit);
    /* The handle is dead although the memory lives. */
    api_expect(acre_vm_map(device, at, chunk), ACRE_E_HANDLE);
    api_ok(acre_vm_unmap(device, at + unit, unit));
    api_expect_free(device, before);
    api_ok(acre_vm_address_free(device, at));
}

API_TEST(release_of_what_is_no_chunk_is_refused) {
    uint64_t no_chunk[8] = {0};
    api_ok(acre_vm_release(device, NULL));
    api_expect(acre_vm_release(device, (acre_vm_chunk *)no_chunk), ACRE_E_HANDLE);
    api_expect(acre_vm_release(device, (acre_vm_chunk *)8), ACRE_E_HANDLE);
    api_expect(acre_vm_release(device, (acre_vm_chunk *)UINTPTR_MAX), ACRE_E_HANDLE);
    api_expect(acre_vm_release(device, (acre_vm_chunk *)(void *)device), ACRE_E_HANDLE);
    assert_int_equal(api_stats(device).driver_refusals, 0);
}

/* ---- addresses ---- */

API_TEST(reserve_rounds_aligns_and_follows_hints) {
    size_t unit = unit_of(device);
    for (size_t alignment = 1; alignment <= (size_t)1 << 30; alignment *= 2) {
        void *address = NULL;
        size_t real = 0;
        api_ok(acre_vm_reserve(device, unit + 1, alignment, NULL, &address, &real));
        assert_int_equal(real, 2 * unit);
        assert_int_equal((uintptr_t)address % alignment, 0);
        assert_int_equal((uintptr_t)address % unit, 0);
        api_ok(acre_vm_address_free(device, address));
    }
    /* A hint into free addresses is rounded down and used; a hint into reserved addresses is
     * ignored. */
    char *hint = reserve(device, 4 * unit), *same = NULL, *other = NULL;
    api_ok(acre_vm_address_free(device, hint));
    api_ok(acre_vm_reserve(device, unit, 0, hint + unit + 5, (void **)&same, NULL));
    assert_ptr_equal(same, hint + unit);
    api_ok(acre_vm_reserve(device, unit, 0, hint + unit, (void **)&other, NULL));
    assert_non_null(other);
    assert_ptr_not_equal(other, same);
    api_ok(acre_vm_address_free(device, same));
    api_ok(acre_vm_address_free(device, other));
    assert_int_equal(api_stats(device).driver_refusals, 0);
}

API_TEST(reserve_with_wrong_arguments_is_refused) {
    const struct {
        size_t bytes, alignment;
        acre_status wanted;
    } tries[] = {
        {0, 0, ACRE_E_INVALID},
        {SIZE_MAX, 0, ACRE_E_INVALID},
        {(size_t)PTRDIFF_MAX + 1, 0, ACRE_E_INVALID},
        {1, 3, ACRE_E_INVALID},
        {1, 6 * MIB, ACRE_E_INVALID},
        {1, SIZE_MAX, ACRE_E_INVALID},
        {(size_t)1 << 62, 0, ACRE_E_ADDRESS_SPACE},
    };
    for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        void *address = device;
        size_t real = 1;
        api_expect(
            acre_vm_reserve(device, tries[i].bytes, tries[i].alignment, NULL, &address, &real),
            tries[i].wanted);
        assert_null(address);
        assert_int_equal(real, 0);
    }
    assert_non_null(strstr(acre_last_detail(), "4611686018427387904 bytes"));
    api_expect(acre_vm_reserve(device, 1, 0, NULL, NULL, NULL), ACRE_E_NULL);
}

API_TEST(address_free_takes_whole_reservations_without_mappings) {
    size_t unit = unit_of(device);
    char *at = reserve(device, 3 * unit);
    acre_vm_chunk *chunk = create(device, unit);
    int local;
    api_ok(acre_vm_address_free(device, NULL));
    api_expect(acre_vm_address_free(device, &local), ACRE_E_POINTER);
    api_expect(acre_vm_address_free(device, (void *)UINTPTR_MAX), ACRE_E_POINTER);
    api_expect(acre_vm_address_free(device, at + 1), ACRE_E_INTERIOR);
    api_expect(acre_vm_address_free(device, at + unit), ACRE_E_INTERIOR);
    for (size_t i = 0; i < 3; i++) {
        api_ok(acre_vm_map(device, at + i * unit, chunk));
        api_expect(acre_vm_address_free(device, at), ACRE_E_BUSY);
        api_ok(acre_vm_unmap(device, at + i * unit, unit));
    }
    api_ok(acre_vm_address_free(device, at));
    api_expect(acre_vm_address_free(device, at), ACRE_E_POINTER);
    api_expect(acre_vm_map(device, at, chunk), ACRE_E_RANGE);
    api_ok(acre_vm_release(device, chunk));
    assert_int_equal(api_stats(device).driver_refusals, 0);
}

/* ---- mappings ---- */

API_TEST(map_to_wrong_places_is_refused) {
    size_t unit = unit_of(device);
    acre_vm_chunk *one = create(device, unit), *two = create(device, 2 * unit);
    char *at = reserve(device, 4 * unit), *after = NULL;
    int local;
    api_ok(acre_vm_reserve(device, unit, 0, at + 4 * unit, (void **)&after, NULL));
    api_expect(acre_vm_map(device, NULL, one), ACRE_E_NULL);
    api_expect(acre_vm_map(device, at, NULL), ACRE_E_NULL);
    api_expect(acre_vm_map(device, at, (acre_vm_chunk *)(void *)&local), ACRE_E_HANDLE);
    api_expect(acre_vm_map(device, at + 1, one), ACRE_E_INVALID);
    api_expect(acre_vm_map(device, at + unit / 2, one), ACRE_E_INVALID);
    api_expect(acre_vm_map(device, (void *)unit, one), ACRE_E_RANGE);
    api_expect(acre_vm_map(device, (void *)(UINTPTR_MAX / unit * unit), two), ACRE_E_RANGE);
    /* Past the end of the reservation, even where another reservation follows. */
    api_expect(acre_vm_map(device, at + 3 * unit, two), ACRE_E_RANGE);
    api_ok(acre_vm_map(device, at + unit, two));
    for (size_t i = 0; i < 3; i++)
        api_expect(acre_vm_map(device, at + i * unit, two), ACRE_E_BUSY);
    api_expect(acre_vm_map(device, at + 2 * unit, one), ACRE_E_BUSY);
    api_ok(acre_vm_map(device, at, one)); /* the rest is free */
    api_ok(acre_vm_map(device, at + 3 * unit, one));
    assert_int_equal(api_stats(device).driver_refusals, 0);
    api_ok(acre_vm_unmap(device, at, 4 * unit));
    api_ok(acre_vm_address_free(device, at));
    api_ok(acre_vm_address_free(device, after));
    api_ok(acre_vm_release(device, one));
    api_ok(acre_vm_release(device, two));
}

API_TEST(map_of_one_chunk_at_two_places_is_the_same_memory) {
    size_t unit = unit_of(device);
    acre_vm_chunk *chunk = create(device, 2 * unit);
    char *first = reserve(device, 2 * unit), *second = reserve(device, 2 * unit);
    api_ok(acre_vm_map(device, first, chunk));
    api_ok(acre_vm_map(device, second, chunk));
    api_ok(set_access(device, first, 2 * unit, ACRE_ACCESS_READ_WRITE));
    /* Access belongs to the mapping, not to the chunk. */
    assert_int_equal(access_of(device, second, device), ACRE_ACCESS_NONE);
    api_ok(set_access(device, second, 2 * unit, ACRE_ACCESS_READ_WRITE));
    put(device, first + 2 * unit - 4, 111);
    assert_int_equal(get(device, second + 2 * unit - 4), 111);
    put(device, second, 222);
    assert_int_equal(get(device, first), 222);
    api_ok(acre_vm_unmap(device, second, 2 * unit));
    assert_int_equal(get(device, first), 222);
    api_ok(acre_vm_unmap(device, first, 2 * unit));
    api_ok(acre_vm_map(device, first, chunk)); /* the handle still holds the memory */
    assert_int_equal(access_of(device, first, device), ACRE_ACCESS_NONE);
    api_ok(set_access(device, first, 2 * unit, ACRE_ACCESS_READ));
    assert_int_equal(get(device, first + 2 * unit - 4), 111);
    api_ok(acre_vm_unmap(device, first, 2 * unit));
    api_ok(acre_vm_release(device, chunk));
    api_ok(acre_vm_address_free(device, first));
    api_ok(acre_vm_address_free(device, second));
}

TEST(map_behind_the_first_chunk_grows_in_place) {
    enum { COUNT = 6 };
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        size_t unit = unit_of(device), bytes = COUNT * unit;
        char *at = mapped(device, COUNT);
        unsigned char *in = malloc(bytes), *out = malloc(bytes);
        assert_non_null(in);
        assert_non_null(out);
        for (size_t i = 0; i < bytes; i++)
            in[i] = (unsigned char)(i * 2654435761u >> 23);
        api_ok(acre_copy_sync(device, at, in, bytes));
        api_ok(acre_copy_sync(device, out, at, bytes));
        assert_memory_equal(in, out, bytes);
        free(in);
        free(out);
        unmapped(device, at, COUNT);
        api_ok(acre_close(device));
    }
}

API_TEST(unmap_takes_whole_mappings_and_cuts_none) {
    size_t unit = unit_of(device);
    acre_vm_chunk *one = create(device, unit), *two = create(device, 2 * unit);
    char *at = reserve(device, 6 * unit); /* one, two, a gap, one, a gap */
    api_ok(acre_vm_map(device, at, one));
    api_ok(acre_vm_map(device, at + unit, two));
    api_ok(acre_vm_map(device, at + 4 * unit, one));
    api_ok(set_access(device, at, 3 * unit, ACRE_ACCESS_READ_WRITE));
    const struct {
        size_t from, bytes;
        acre_status wanted;
    } tries[] = {
        {0, 0, ACRE_E_INVALID},
        {0, SIZE_MAX, ACRE_E_INVALID},
        {0, unit - 1, ACRE_E_INTERIOR},
        {0, unit + 1, ACRE_E_INTERIOR},
        {1, unit, ACRE_E_INTERIOR},
        {0, 2 * unit, ACRE_E_INTERIOR},
        {2 * unit, unit, ACRE_E_INTERIOR},
        {2 * unit, 3 * unit, ACRE_E_INTERIOR},
        {0, 4 * unit, ACRE_E_POINTER},
        {0, 5 * unit, ACRE_E_POINTER},
        {3 * unit, unit, ACRE_E_POINTER},
        {3 * unit, 2 * unit, ACRE_E_POINTER},
        {5 * unit, unit, ACRE_E_POINTER},
        {7 * unit, unit, ACRE_E_POINTER},
    };
    for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        api_expect(acre_vm_unmap(device, at + tries[i].from, tries[i].bytes), tries[i].wanted);
        api_expect(acre_vm_unmap_sync(device, at + tries[i].from, tries[i].bytes), tries[i].wanted);
        api_expect(set_access(device, at + tries[i].from, tries[i].bytes, ACRE_ACCESS_NONE),
                   tries[i].wanted);
    }
    api_expect(acre_vm_unmap(device, NULL, unit), ACRE_E_NULL);
    api_expect(acre_vm_unmap_sync(device, NULL, unit), ACRE_E_NULL);
    api_expect(set_access(device, NULL, unit, ACRE_ACCESS_NONE), ACRE_E_NULL);
    assert_int_equal(api_stats(device).driver_refusals, 0);
    /* All mappings are unchanged. */
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(access_of(device, at + i * unit, device), ACRE_ACCESS_READ_WRITE);
    assert_int_equal(access_of(device, at + 4 * unit, device), ACRE_ACCESS_NONE);
    api_ok(acre_vm_unmap(device, at, 3 * unit));
    api_expect(acre_vm_unmap(device, at, 3 * unit), ACRE_E_POINTER);
    api_ok(acre_vm_unmap(device, at + 4 * unit, unit));
    api_ok(acre_vm_address_free(device, at));
    api_ok(acre_vm_release(device, one));
    api_ok(acre_vm_release(device, two));
}

/* ---- access ---- */

API_TEST(access_decides_what_the_device_may_do) {
    size_t unit = unit_of(device);
    char *at = mapped(device, 2);
    uint32_t word = 5;
    put(device, at, 4711);
    assert_int_equal(access_of(device, at, device), ACRE_ACCESS_READ_WRITE);
    assert_int_equal(access_of(device, at + 2 * unit - 1, device), ACRE_ACCESS_READ_WRITE);
    api_ok(set_access(device, at, unit, ACRE_ACCESS_READ));
    assert_int_equal(access_of(device, at, device), ACRE_ACCESS_READ);
    assert_int_equal(access_of(device, at + unit, device), ACRE_ACCESS_READ_WRITE);
    assert_int_equal(get(device, at), 4711);
    assert_int_not_equal(acre_copy_sync(device, at, &word, 4), ACRE_OK);
    assert_int_not_equal(acre_fill_sync(device, at, 1, 4), ACRE_OK);
    api_ok(set_access(device, at, unit, ACRE_ACCESS_NONE));
    assert_int_equal(access_of(device, at, device), ACRE_ACCESS_NONE);
    assert_int_not_equal(acre_copy_sync(device, &word, at, 4), ACRE_OK);
    assert_int_not_equal(acre_fill_sync(device, at, 1, 4), ACRE_OK);
    api_ok(set_access(device, at, 2 * unit, ACRE_ACCESS_READ_WRITE));
    assert_int_equal(get(device, at), 4711);
    put(device, at, 4712);
    assert_int_equal(get(device, at), 4712);
    unmapped(device, at, 2);
}

API_TEST(access_with_wrong_arguments_is_refused) {
    size_t unit = unit_of(device);
    char *at = reserve(device, 2 * unit);
    acre_vm_chunk *chunk = create(device, unit);
    acre_access access = ACRE_ACCESS_READ;
    api_ok(acre_vm_map(device, at, chunk));
    const int never[] = {2, 4, -1, INT32_MAX};
    for (size_t i = 0; i < 4; i++)
        api_expect(set_access(device, at, unit, (acre_access)never[i]), ACRE_E_INVALID);
    acre_device *no_device = (acre_device *)(void *)&access;
    api_expect(acre_vm_set_access(device, at, unit, no_device, ACRE_ACCESS_READ), ACRE_E_HANDLE);
    api_expect(acre_vm_get_access(device, at, no_device, &access), ACRE_E_HANDLE);
    assert_int_equal(access, ACRE_ACCESS_NONE);
    access = ACRE_ACCESS_READ;
    api_expect(acre_vm_get_access(device, NULL, device, &access), ACRE_E_NULL);
    assert_int_equal(access, ACRE_ACCESS_NONE);
    api_expect(acre_vm_get_access(device, at, device, NULL), ACRE_E_NULL);
    access = ACRE_ACCESS_READ;
    api_expect(acre_vm_get_access(device, at + unit, device, &access), ACRE_E_POINTER);
    assert_int_equal(access, ACRE_ACCESS_NONE);
    /* The host cannot access device memory. */
    api_expect(acre_vm_set_access(device, at, unit, NULL, ACRE_ACCESS_READ), ACRE_E_KIND);
    assert_int_equal(access_of(device, at, NULL), ACRE_ACCESS_NONE);
    assert_int_equal(api_stats(device).driver_refusals, 0);
    api_ok(acre_vm_unmap(device, at, unit));
    api_expect(acre_vm_get_access(device, at, device, &access), ACRE_E_POINTER);
    api_ok(acre_vm_release(device, chunk));
    api_ok(acre_vm_address_free(device, at));
}

/* A device of another driver cannot access memory of the soft device. */
TEST(access_for_a_device_of_another_driver_is_refused) {
    acre_device *device = api_open("soft");
    char *at = mapped(device, 1);
    for (API_EACH(name)) {
        if (strcmp(name, "soft") == 0)
            continue;
        acre_device *other = api_open(name);
        acre_access access;
        api_expect(acre_vm_set_access(device, at, unit_of(device), other, ACRE_ACCESS_READ),
                   ACRE_E_HANDLE);
        api_expect(acre_vm_get_access(device, at, other, &access), ACRE_E_HANDLE);
        api_ok(acre_close(other));
    }
    unmapped(device, at, 1);
    api_ok(acre_close(device));
}

API_TEST(access_of_the_host_to_host_chunks_is_its_own) {
    size_t bytes = 0;
    acre_vm_chunk *chunk = NULL;
    api_ok(acre_vm_create(device, 1, ACRE_VM_HOST, &chunk, &bytes));
    char *at = reserve(device, bytes);
    api_ok(acre_vm_map(device, at, chunk));
    assert_int_equal(access_of(device, at, NULL), ACRE_ACCESS_NONE);
    api_ok(set_access(device, at, bytes, ACRE_ACCESS_READ_WRITE));
    api_ok(acre_vm_set_access(device, at, bytes, NULL, ACRE_ACCESS_READ_WRITE));
    assert_int_equal(access_of(device, at, NULL), ACRE_ACCESS_READ_WRITE);
    memset(at, 0x21, bytes);
    put(device, at + 8, 4711);
    assert_int_equal(*(volatile uint32_t *)(void *)(at + 8), 4711);
    assert_int_equal(get(device, at + bytes - 4), 0x21212121);
    api_ok(acre_vm_unmap(device, at, bytes));
    api_ok(acre_vm_release(device, chunk));
    api_ok(acre_vm_address_free(device, at));
}

TEST(access_of_a_peer_is_given_and_taken) {
    acre_device *devices[2];
    api_open_two(devices);
    size_t unit = unit_of(devices[0]);
    char *at = mapped(devices[0], 2);
    put(devices[0], at, 4711);
    uint32_t word = 1;
    assert_int_equal(access_of(devices[0], at, devices[1]), ACRE_ACCESS_NONE);
    assert_int_not_equal(acre_copy_sync(devices[1], &word, at, 4), ACRE_OK);
    api_ok(acre_vm_set_access(devices[0], at, 2 * unit, devices[1], ACRE_ACCESS_READ_WRITE));
    assert_int_equal(access_of(devices[0], at + unit, devices[1]), ACRE_ACCESS_READ_WRITE);
    assert_int_equal(get(devices[1], at), 4711);
    put(devices[1], at + 2 * unit - 4, 4712);
    assert_int_equal(get(devices[0], at + 2 * unit - 4), 4712);
    api_ok(acre_vm_set_access(devices[0], at, unit, devices[1], ACRE_ACCESS_NONE));
    assert_int_equal(access_of(devices[0], at, devices[1]), ACRE_ACCESS_NONE);
    assert_int_equal(access_of(devices[0], at, devices[0]), ACRE_ACCESS_READ_WRITE);
    api_ok(acre_close(devices[1])); /* a closed device cannot be a peer */
    acre_access access;
    api_expect(acre_vm_get_access(devices[0], at, devices[1], &access), ACRE_E_HANDLE);
    unmapped(devices[0], at, 2);
    api_ok(acre_close(devices[0]));
}

/* ---- devices ---- */

TEST(foreign_handles_and_addresses_are_refused) {
    acre_device *devices[2];
    api_open_two(devices);
    size_t unit = unit_of(devices[0]);
    acre_vm_chunk *chunk = create(devices[0], unit), *other = create(devices[1], unit);
    char *at = reserve(devices[0], 2 * unit);
    acre_access access = ACRE_ACCESS_READ;
    api_ok(acre_vm_map(devices[0], at, chunk));
    api_expect(acre_vm_release(devices[1], chunk), ACRE_E_HANDLE);
    api_expect(acre_vm_map(devices[1], at + unit, chunk), ACRE_E_HANDLE);
    api_expect(acre_vm_map(devices[1], at + unit, other), ACRE_E_HANDLE);
    api_expect(acre_vm_map(devices[0], at + unit, other), ACRE_E_HANDLE);
    api_expect(acre_vm_unmap(devices[1], at, unit), ACRE_E_HANDLE);
    api_expect(acre_vm_set_access(devices[1], at, unit, devices[1], ACRE_ACCESS_READ),
               ACRE_E_HANDLE);
    api_expect(acre_vm_get_access(devices[1], at, devices[1], &access), ACRE_E_HANDLE);
    assert_int_equal(access, ACRE_ACCESS_NONE);
    api_expect(acre_vm_address_free(devices[1], at), ACRE_E_HANDLE);
    assert_int_equal(api_stats(devices[1]).driver_refusals, 0);
    api_ok(acre_vm_unmap(devices[0], at, unit));
    api_ok(acre_vm_address_free(devices[0], at));
    api_ok(acre_vm_release(devices[0], chunk));
    api_ok(acre_vm_release(devices[1], other));
    api_ok(acre_close(devices[1]));
    api_ok(acre_close(devices[0]));
}

TEST(every_function_refuses_what_is_no_device) {
    acre_device *closed = api_open("soft");
    api_ok(acre_close(closed));
    acre_device *const bad[] = {NULL, closed, (acre_device *)(void *)&closed};
    for (size_t i = 0; i < 3; i++) {
        acre_status wanted = bad[i] ? ACRE_E_HANDLE : ACRE_E_NULL;
        size_t minimum = 1, recommended = 1, real = 1;
        acre_vm_chunk *chunk = (acre_vm_chunk *)(void *)&real;
        void *address = &real;
        acre_access access = ACRE_ACCESS_READ;
        api_expect(acre_vm_granularity(bad[i], 0, &minimum, &recommended), wanted);
        assert_int_equal(minimum + recommended, 0);
        api_expect(acre_vm_release(bad[i], chunk), wanted);
        api_expect(acre_vm_map(bad[i], address, chunk), wanted);
        api_expect(acre_vm_unmap(bad[i], address, 1), wanted);
        api_expect(acre_vm_unmap_sync(bad[i], address, 1), wanted);
        api_expect(acre_vm_address_free(bad[i], address), wanted);
        api_expect(acre_vm_set_access(bad[i], address, 1, NULL, ACRE_ACCESS_READ), wanted);
        api_expect(acre_vm_get_access(bad[i], address, NULL, &access), wanted);
        assert_int_equal(access, ACRE_ACCESS_NONE);
        api_expect(acre_vm_create(bad[i], 1, 0, &chunk, &real), wanted);
        assert_null(chunk);
        assert_int_equal(real, 0);
        real = 1;
        api_expect(acre_vm_reserve(bad[i], 1, 0, NULL, &address, &real), wanted);
        assert_null(address);
        assert_int_equal(real, 0);
    }
}

/* The program maps this memory itself, so acre has no record of it as a block. */
API_TEST(memory_by_hand_is_no_block_of_acre) {
    char *at = mapped(device, 1);
    acre_mem_info info = {.struct_size = sizeof info};
    api_ok(acre_mem_query(device, at, &info));
    assert_int_equal(info.kind, ACRE_KIND_DEVICE);
    assert_null(info.device);
    api_expect(acre_mem_free(device, at), ACRE_E_POINTER);
    assert_int_equal(api_stats(device).mem_blocks, 0);
    put(device, at, 1);
    unmapped(device, at, 1);
}

TEST(close_undoes_what_is_left_and_says_so) {
    struct api_heard heard = {.area = "vm"};
    api_ok(acre_log_set(api_listen, &heard, ACRE_LOG_WARN));
    for (API_EACH(name)) {
        acre_device *device = api_open(name), *keeper = api_open(name);
        size_t unit = unit_of(device);
        unmapped(device, mapped(device, 1), 1);
        uint64_t before = api_free_bytes(device);
        char *at = mapped(device, 3);
        acre_vm_chunk *chunk = create(device, 2 * unit);
        (void)reserve(device, unit);
        (void)reserve(device, unit);
        api_ok(acre_close(device));
        /* The device is still open. */
        assert_int_equal(access_of(keeper, at, keeper), ACRE_ACCESS_READ_WRITE);
        assert_int_equal(heard.count, 0);
        api_ok(acre_close(keeper));
        assert_int_equal(heard.count, 1);
        assert_non_null(strstr(heard.line, "3 mappings, 3 reservations and 1 chunks"));
        assert_non_null(strstr(heard.line, "refused 0"));
        device = api_open(name);
        api_expect_free(device, before);
        api_expect(acre_vm_release(device, chunk), ACRE_E_HANDLE);
        api_expect(acre_vm_unmap(device, at, unit), ACRE_E_POINTER);
        api_expect(acre_vm_address_free(device, at), ACRE_E_POINTER);
        heard.count = 0;
        api_ok(acre_close(device));
        assert_int_equal(heard.count, 0); /* nothing left, nothing logged */
    }
    api_ok(acre_log_set(NULL, NULL, ACRE_LOG_WARN));
}

/* ACRE_VMM=no concerns only memory that acre allocates for its own objects. */
TEST(memory_by_hand_works_where_acre_does_without_it) {
    setenv("ACRE_VMM", "no", 1);
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        char *at = mapped(device, 1);
        put(device, at, 4711);
        assert_int_equal(get(device, at), 4711);
        unmapped(device, at, 1);
        api_ok(acre_close(device));
    }
    unsetenv("ACRE_VMM");
}

/* ---- threads ---- */

enum { THREADS = 4, ROUNDS = 25 };

static void *map_and_unmap(void *device_pointer) {
    acre_device *device = device_pointer;
    size_t unit = unit_of(device);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        acre_vm_chunk *chunk = create(device, 2 * unit);
        char *at = reserve(device, 4 * unit);
        api_ok(acre_vm_map(device, at, chunk));
        api_ok(acre_vm_map(device, at + 2 * unit, chunk));
        api_ok(set_access(device, at, 4 * unit, ACRE_ACCESS_READ_WRITE));
        put(device, at + 4, i);
        assert_int_equal(get(device, at + 2 * unit + 4), i);
        api_ok(acre_vm_unmap(device, at, 4 * unit));
        api_ok(acre_vm_release(device, chunk));
        api_ok(acre_vm_address_free(device, at));
    }
    return NULL;
}

API_TEST(threads_map_and_unmap_at_once) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, map_and_unmap, device), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(api_stats(device).driver_refusals, 0);
}

int main(void) {
    return tests_run("vm");
}
