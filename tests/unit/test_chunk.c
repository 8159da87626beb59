/* The chunk store: allocation, the cache, limits, fragmented memory, other processes. */
#include <fcntl.h>
#include <pthread.h>

#include "space_fixture.h"

enum { UNITS = 32 }; /* units of the device */

static acre_device *dev;
static size_t unit;
static uint64_t whole; /* free bytes at the start */

static int chunk_setup(void **state) {
    (void)state;
    unsetenv("ACRE_VMM");
    unsetenv("ACRE_CHUNK_LIMIT_BYTES");
    setenv("ACRE_CHUNK_CACHE_BYTES", "16MiB", 1);
    dev = space_open_soft(UNITS * 2 * MIB, 1, 0);
    unit = acre__chunk_unit(dev, 0);
    whole = space_free_bytes(dev);
    assert_int_equal(unit, 2 * MIB);
    return 0;
}

static int chunk_teardown(void **state) {
    (void)state;
    unsetenv("ACRE_VMM");
    space_close_empty(dev, whole);
    return 0;
}

static void expect_counts(uint64_t count, uint64_t units, uint64_t cached_units) {
    uint64_t has, bytes, cached;
    acre__chunk_count(dev, &has, &bytes, &cached);
    assert_int_equal(has, count);
    assert_int_equal(bytes, units * unit);
    assert_int_equal(cached, cached_units * unit);
    acre_device_stats stats = api_stats(dev);
    assert_int_equal(stats.chunks, count);
    assert_int_equal(stats.chunk_bytes, bytes);
    assert_int_equal(stats.chunk_cached_bytes, cached);
}

static struct acre__chunk *take(size_t units, uint32_t flags) {
    struct acre__chunk *chunk = NULL;
    api_ok(acre__chunk_take(dev, units * unit, flags, &chunk));
    assert_non_null(chunk);
    assert_int_equal(chunk->bytes, units * unit);
    assert_int_equal(chunk->wanted, flags);
    assert_int_equal(chunk->users, 1);
    return chunk;
}

#define CHUNK_TEST(name) TEST_WITH(name, chunk_setup, chunk_teardown)

/* ---- taking and dropping ---- */

CHUNK_TEST(chunk_taken_and_dropped_is_counted) {
    uint64_t created = api_stats(dev).chunks_created;
    struct acre__chunk *a = take(1, 0), *b = take(3, ACRE__CHUNK_SHAREABLE);
    expect_counts(2, 4, 0);
    assert_int_equal(space_free_bytes(dev), whole - 4 * unit);
    assert_int_not_equal(a->id, b->id);
    assert_int_equal(a->flags, 0);
    assert_int_equal(b->flags, ACRE__CHUNK_SHAREABLE);
    assert_int_equal(api_stats(dev).chunks_created, created + 2);
    acre__chunk_keep(a);
    acre__chunk_drop(a);
    expect_counts(2, 4, 0); /* one user is left */
    acre__chunk_drop(a);
    expect_counts(2, 4, 1);
    acre__chunk_drop(b);
    expect_counts(2, 4, 4);
    acre__chunk_trim(dev);
    expect_counts(0, 0, 0);
    assert_int_equal(space_free_bytes(dev), whole);
}

CHUNK_TEST(chunk_without_vmm_has_no_unit) {
    const char *const off[] = {"off", "0", "no"};
    for (size_t i = 0; i < 3; i++) {
        setenv("ACRE_VMM", off[i], 1);
        assert_int_equal(acre__chunk_unit(dev, 0), 0);
        assert_int_equal(acre__chunk_unit(dev, ACRE__CHUNK_HOST), 0);
        struct acre__chunk *list = (struct acre__chunk *)&list;
        api_expect(acre__chunk_cover(dev, unit, 0, 0, &list), ACRE_E_UNSUPPORTED);
        assert_null(list);
    }
    unsetenv("ACRE_VMM");
    dev->info.has_vmm = 0;
    assert_int_equal(acre__chunk_unit(dev, 0), 0);
    dev->info.has_vmm = 1;
    assert_int_equal(acre__chunk_unit(dev, 0), unit);
}

/* ---- the cache ---- */

CHUNK_TEST(chunk_cache_serves_exactly_the_size_and_sort) {
    struct acre__chunk *a = take(2, ACRE__CHUNK_SHAREABLE);
    uint64_t id = a->id, created = api_stats(dev).chunks_created;
    acre__chunk_drop(a);
    struct acre__chunk *other_size = take(1, ACRE__CHUNK_SHAREABLE), *other_sort = take(2, 0);
    assert_int_not_equal(other_size->id, id);
    assert_int_not_equal(other_sort->id, id);
    assert_int_equal(api_stats(dev).chunks_created, created + 2);
    a = take(2, ACRE__CHUNK_SHAREABLE);
    assert_int_equal(a->id, id);
    assert_null(a->next);
    assert_int_equal(api_stats(dev).chunks_created, created + 2);
    expect_counts(3, 5, 0);
    acre__chunk_drop(a);
    acre__chunk_drop(other_size);
    acre__chunk_drop(other_sort);
}

CHUNK_TEST(chunk_cache_keeps_the_newest) {
    struct acre__chunk *chunks[5];
    uint64_t ids[5];
    setenv("ACRE_CHUNK_CACHE_BYTES", "6MiB", 1); /* room for three chunks */
    for (int i = 0; i < 5; i++)
        ids[i] = (chunks[i] = take(1, 0))->id;
    for (int i = 0; i < 5; i++)
        acre__chunk_drop(chunks[i]);
    expect_counts(3, 3, 3);
    struct acre__chunk *large = take(4, 0); /* too large to be cached, and evicts nothing */
    acre__chunk_drop(large);
    expect_counts(3, 3, 3);
    for (int i = 4; i >= 2; i--) {
        chunks[i] = take(1, 0);
        assert_int_equal(chunks[i]->id, ids[i]);
    }
    struct acre__chunk *three = take(3, 0);
    for (int i = 2; i < 5; i++)
        acre__chunk_drop(chunks[i]);
    acre__chunk_drop(three); /* evicts all of them */
    expect_counts(1, 3, 3);
    assert_int_equal(space_free_bytes(dev), whole - 3 * unit);
}

CHUNK_TEST(chunk_cache_of_no_bytes_keeps_nothing) {
    setenv("ACRE_CHUNK_CACHE_BYTES", "0", 1);
    acre__chunk_drop(take(1, 0));
    expect_counts(0, 0, 0);
    unsetenv("ACRE_CHUNK_CACHE_BYTES"); /* a 256th of the device is less than one chunk */
    acre__chunk_drop(take(1, 0));
    expect_counts(0, 0, 0);
    assert_int_equal(space_free_bytes(dev), whole);
}

CHUNK_TEST(chunk_cache_goes_when_the_device_is_full) {
    struct acre__chunk *chunks[4], *rest = take(UNITS - 4, 0);
    for (int i = 0; i < 4; i++)
        chunks[i] = take(1, 0);
    assert_int_equal(space_free_bytes(dev), whole - UNITS * unit);
    for (int i = 0; i < 4; i++)
        acre__chunk_drop(chunks[i]);
    expect_counts(5, UNITS, 4);
    struct acre__chunk *four = take(4, 0);
    expect_counts(2, UNITS, 0);
    acre__chunk_drop(four);
    acre__chunk_drop(rest);
}

/* ---- limits ---- */

CHUNK_TEST(chunk_of_a_full_device_says_what_there_is) {
    struct acre__chunk *rest = take(UNITS - 1, 0), *chunk = rest, *list = rest;
    char wanted[64];
    snprintf(wanted, sizeof wanted, "%zu bytes requested, %zu bytes of soft:0 are free", 2 * unit,
             unit);
    api_expect(acre__chunk_take(dev, 2 * unit, 0, &chunk), ACRE_E_DEVICE_MEMORY);
    assert_null(chunk);
    assert_string_equal(acre_last_detail(), wanted);
    uint64_t created = api_stats(dev).chunks_created;
    api_expect(acre__chunk_cover(dev, 2 * unit, 0, 0, &list), ACRE_E_DEVICE_MEMORY);
    assert_null(list);
    assert_int_equal(api_stats(dev).chunks_created, created); /* no chunk was created in vain */
    acre__chunk_trim(dev);
    expect_counts(1, UNITS - 1, 0);
    acre__chunk_drop(rest);
}

CHUNK_TEST(chunk_limit_holds_and_the_cache_gives_way) {
    struct acre__chunk *chunks[4], *more = (struct acre__chunk *)&more, *two;
    setenv("ACRE_CHUNK_LIMIT_BYTES", "8MiB", 1);
    for (int i = 0; i < 4; i++)
        chunks[i] = take(1, 0);
    api_expect(acre__chunk_take(dev, unit, 0, &more), ACRE_E_LIMIT);
    assert_null(more);
    assert_string_equal(acre_last_detail(),
                        "2097152 bytes requested, 0 bytes are left of ACRE_CHUNK_LIMIT_BYTES");
    api_expect(acre__chunk_cover(dev, 2 * unit, 0, 0, &more), ACRE_E_LIMIT);
    assert_null(more);
    expect_counts(4, 4, 0);
    for (int i = 0; i < 3; i++)
        acre__chunk_drop(chunks[i]);
    two = take(2, 0);
    expect_counts(2, 3, 0);
    api_expect(acre__chunk_take(dev, 2 * unit, 0, &more), ACRE_E_LIMIT);
    assert_non_null(strstr(acre_last_detail(), " 2097152 bytes are left"));
    api_expect(acre__chunk_take(dev, 5 * unit, 0, &more), ACRE_E_LIMIT);
    setenv("ACRE_CHUNK_LIMIT_BYTES", "much", 1);
    api_expect(acre__chunk_take(dev, unit, 0, &more), ACRE_E_CONFIG);
    unsetenv("ACRE_CHUNK_LIMIT_BYTES");
    acre__chunk_drop(two);
    acre__chunk_drop(chunks[3]);
}

/* ---- covering ---- */

/* The soft device does not fragment, so a replaced cuMemCreate fails for chunks above `largest`. */
static struct space_table pieces;
static size_t largest;

static CUresult create_in_pieces(CUmemGenericAllocationHandle *handle, size_t bytes,
                                 const CUmemAllocationProp *prop, unsigned long long flags) {
    if (bytes > largest)
        return CUDA_ERROR_OUT_OF_MEMORY;
    return pieces.real->cuMemCreate(handle, bytes, prop, flags);
}

/* Covers `units` with chunks of at most `largest_units`, checks and drops them. Returns their
 * number. */
static size_t cover(size_t units, size_t least, size_t largest_units) {
    struct acre__chunk *list = NULL;
    size_t count = 0, bytes = 0, before = SIZE_MAX;
    largest = largest_units * unit;
    api_ok(acre__chunk_cover(dev, units * unit, least * unit, 0, &list));
    while (list) {
        struct acre__chunk *next = list->next;
        assert_true(list->bytes <= before && list->bytes <= largest && list->bytes % unit == 0);
        if (next)
            assert_true(list->bytes >= least * unit);
        before = list->bytes;
        bytes += list->bytes;
        count++;
        list->next = NULL;
        acre__chunk_drop(list);
        list = next;
    }
    assert_int_equal(bytes, units * unit);
    acre__chunk_trim(dev);
    return count;
}

CHUNK_TEST(chunk_cover_takes_few_and_halves_where_memory_is_in_pieces) {
    space_table_begin(&pieces, dev);
    pieces.table.cuMemCreate = create_in_pieces;
    assert_int_equal(cover(13, 0, UNITS), 1);
    assert_int_equal(cover(UNITS, 0, UNITS), 1);
    assert_int_equal(cover(16, 0, 8), 2);
    assert_int_equal(cover(16, 0, 1), 16);
    assert_int_equal(cover(13, 0, 7), 3); /* 6, 6, 1 */
    assert_int_equal(cover(13, 4, 7), 3);
    assert_int_equal(cover(5, 2, 2), 3);
    assert_int_equal(cover(1, 0, 1), 1);
    for (size_t units = 1; units <= UNITS; units++)
        for (size_t most = 1; most <= units; most++)
            assert_true(cover(units, 0, most) <= 2 * (units / most + 1));
    expect_counts(0, 0, 0);

    /* Smaller chunks than the least size are not tried, and chunks taken so far are released. */
    struct acre__chunk *list = (struct acre__chunk *)&list;
    largest = 3 * unit;
    api_expect(acre__chunk_cover(dev, 8 * unit, 4 * unit, 0, &list), ACRE_E_DEVICE_MEMORY);
    assert_null(list);
    space_table_end(&pieces, dev);
    acre__chunk_trim(dev);
    expect_counts(0, 0, 0);
}

CHUNK_TEST(chunk_cover_uses_up_the_last_byte) {
    struct acre__chunk *singles[UNITS], *list = NULL;
    for (int i = 0; i < UNITS; i++)
        singles[i] = take(1, 0);
    for (int i = 0; i < UNITS; i += 2)
        acre__chunk_drop(singles[i]);
    api_ok(acre__chunk_cover(dev, UNITS / 2 * unit, 0, 0, &list));
    assert_int_equal(space_free_bytes(dev), whole - UNITS * unit);
    while (list) {
        struct acre__chunk *next = list->next;
        acre__chunk_drop(list);
        list = next;
    }
    for (int i = 1; i < UNITS; i += 2)
        acre__chunk_drop(singles[i]);
}

/* ---- other processes ---- */

CHUNK_TEST(chunk_exported_is_never_cached) {
    int fd = 7;
    struct acre__chunk *plain = take(1, 0), *chunk = take(1, ACRE__CHUNK_SHAREABLE), *same = NULL;
    api_expect(acre__chunk_export(plain, &fd), ACRE_E_KIND);
    assert_int_equal(fd, -1);
    acre__chunk_drop(plain);
    expect_counts(2, 2, 1);
    api_ok(acre__chunk_export(chunk, &fd));
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    uint64_t free_bytes = space_free_bytes(dev);
    api_ok(acre__chunk_import(dev, fd, unit, ACRE__CHUNK_SHAREABLE, &same));
    assert_int_equal(space_free_bytes(dev), free_bytes); /* imported, it is the same memory */
    assert_int_not_equal(same->id, chunk->id);
    expect_counts(3, 3, 1);
    acre__chunk_drop(same);
    expect_counts(2, 2, 1);
    acre__chunk_drop(chunk);
    expect_counts(1, 1, 1);
    close(fd);
    assert_int_equal(space_free_bytes(dev), whole - unit);
}

CHUNK_TEST(chunk_import_of_what_is_no_chunk_is_refused) {
    struct acre__chunk *chunk = (struct acre__chunk *)&chunk;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_not_equal(acre__chunk_import(dev, fd, unit, 0, &chunk), ACRE_OK);
    assert_null(chunk);
    close(fd);
    chunk = (struct acre__chunk *)&chunk;
    assert_int_not_equal(acre__chunk_import(dev, fd, unit, 0, &chunk), ACRE_OK);
    assert_null(chunk);
    expect_counts(0, 0, 0);
}

/* ---- host chunks ---- */

CHUNK_TEST(chunk_of_the_host_costs_no_device_memory) {
    size_t host_unit = acre__chunk_unit(dev, ACRE__CHUNK_HOST);
    assert_int_equal(host_unit % 4096, 0);
    assert_true(host_unit > 0);
    expect_counts(0, 0, 0); /* the chunk that probed support is released */
    struct acre__chunk *chunk = NULL, *device_chunk;
    api_ok(acre__chunk_take(dev, host_unit, ACRE__CHUNK_HOST, &chunk));
    assert_int_equal(chunk->flags & ACRE__CHUNK_HOST, ACRE__CHUNK_HOST);
    assert_int_equal(space_free_bytes(dev), whole);
    expect_counts(1, host_unit / unit, 0);
    uint64_t id = chunk->id;
    acre__chunk_drop(chunk);
    device_chunk = take(host_unit / unit, 0);
    assert_int_not_equal(device_chunk->id, id);
    acre__chunk_drop(device_chunk);
    dev->info.has_host_vmm = 0;
    assert_int_equal(acre__chunk_unit(dev, ACRE__CHUNK_HOST), host_unit); /* probed before */
    dev->info.has_host_vmm = 1;
}

/* Some containers refuse host chunks although the device reports support for them. */
static CUresult create_refused(CUmemGenericAllocationHandle *handle, size_t bytes,
                               const CUmemAllocationProp *prop, unsigned long long flags) {
    if (prop->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
        return CUDA_ERROR_OPERATING_SYSTEM;
    return pieces.real->cuMemCreate(handle, bytes, prop, flags);
}

CHUNK_TEST(chunk_of_the_host_that_is_refused_has_no_unit) {
    space_table_begin(&pieces, dev);
    pieces.table.cuMemCreate = create_refused;
    assert_int_equal(acre__chunk_unit(dev, ACRE__CHUNK_HOST), 0);
    assert_int_equal(acre__chunk_unit(dev, 0), unit);
    space_table_end(&pieces, dev);
    expect_counts(0, 0, 0);
}

/* ---- closed devices, threads ---- */

CHUNK_TEST(chunk_counts_begin_anew_with_the_device) {
    acre__chunk_drop(take(2, 0));
    expect_counts(1, 2, 2);
    for (int i = 0; i < 2; i++) { /* every slot of a device behaves alike */
        api_ok(acre_close(dev));
        dev = space_open_soft(UNITS * 2 * MIB, 1, 0);
        expect_counts(0, 0, 0);
        assert_int_equal(space_free_bytes(dev), whole);
        acre__chunk_drop(take(1, 0));
        assert_int_equal(api_stats(dev).chunks_created, 1);
    }
}

enum { THREADS = 4, LIMIT_UNITS = 6 };

struct taker {
    uint64_t random;
    const char *wrong;
};

static void *take_and_drop(void *argument) {
    struct taker *me = argument;
    for (int i = 0; i < 400 && !me->wrong; i++) {
        struct acre__chunk *chunk;
        uint32_t flags = random_draw(&me->random, 2) ? ACRE__CHUNK_SHAREABLE : 0;
        acre_status status =
            acre__chunk_take(dev, (1 + random_draw(&me->random, 3)) * unit, flags, &chunk);
        uint64_t count, bytes, cached;
        acre__chunk_count(dev, &count, &bytes, &cached);
        if (bytes > LIMIT_UNITS * unit || cached > bytes)
            me->wrong = "the chunks exceed the limit";
        if (status == ACRE_OK)
            acre__chunk_drop(chunk);
        else if (status != ACRE_E_LIMIT)
            me->wrong = "a request failed with another status than ACRE_E_LIMIT";
        if (random_draw(&me->random, 16) == 0)
            acre__chunk_trim(dev);
    }
    return NULL;
}

CHUNK_TEST(chunk_threads_together_stay_within_the_limit) {
    setenv("ACRE_CHUNK_LIMIT_BYTES", "12MiB", 1);
    setenv("ACRE_CHUNK_CACHE_BYTES", "6MiB", 1);
    uint64_t seed = random_seed("threads");
    pthread_t threads[THREADS];
    struct taker takers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        takers[i] = (struct taker){.random = random_draw(&seed, UINT64_MAX)};
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_drop, &takers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        if (takers[i].wrong)
            fail_msg("thread %d: %s", i, takers[i].wrong);
    acre__chunk_trim(dev);
    expect_counts(0, 0, 0);
}

int main(void) {
    return tests_run("chunk");
}
