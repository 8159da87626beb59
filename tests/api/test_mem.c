/* Memory of every kind, on every driver present: allocate, use, query, free; and misuse. */
#include <pthread.h>

#include "api_memory.h"
#include "support/leave.h"

static acre_mem_info query(acre_device *device, const void *p) {
    acre_mem_info info = {.struct_size = sizeof info};
    api_ok(acre_mem_query(device, p, &info));
    return info;
}

static uint64_t free_bytes(acre_device *device) {
    acre_device_info info = {.struct_size = sizeof info};
    api_ok(acre_device_get_info(device, &info));
    return info.free_bytes;
}

/* ---- allocation ---- */

static const struct {
    acre_kind kind;
    uint32_t flags;
} wishes[] = {
    {ACRE_KIND_DEVICE, 0},
    {ACRE_KIND_PINNED, 0},
    {ACRE_KIND_PINNED, ACRE_MEM_PORTABLE},
    {ACRE_KIND_PINNED, ACRE_MEM_WRITE_COMBINED},
    {ACRE_KIND_PINNED, ACRE_MEM_PORTABLE | ACRE_MEM_WRITE_COMBINED},
    {ACRE_KIND_MAPPED, 0},
    {ACRE_KIND_MAPPED, ACRE_MEM_PORTABLE},
    {ACRE_KIND_MAPPED, ACRE_MEM_WRITE_COMBINED},
    {ACRE_KIND_MAPPED, ACRE_MEM_PORTABLE | ACRE_MEM_WRITE_COMBINED},
    {ACRE_KIND_MANAGED, 0},
    {ACRE_KIND_MANAGED, ACRE_MEM_ATTACH_HOST},
};
enum { WISHES = sizeof wishes / sizeof wishes[0] };

/* Writes and reads the first and the last byte: with copies, and from the host if the kind allows
 * it. */
static void expect_usable(acre_device *device, acre_kind kind, unsigned char *p, size_t bytes) {
    unsigned char ends[2] = {1, 2}, back[2] = {0, 0};
    if (kind != ACRE_KIND_DEVICE) {
        p[0] = 3;
        p[bytes - 1] = 4;
        assert_int_equal(p[bytes - 1], 4);
        assert_int_equal(p[0], bytes > 1 ? 3 : 4);
    }
    api_ok(acre_copy_sync(device, p, &ends[0], 1));
    api_ok(acre_copy_sync(device, p + bytes - 1, &ends[1], 1));
    api_ok(acre_copy_sync(device, &back[0], p, 1));
    api_ok(acre_copy_sync(device, &back[1], p + bytes - 1, 1));
    assert_int_equal(back[0], bytes > 1 ? 1 : 2);
    assert_int_equal(back[1], 2);
}

static void expect_known(acre_device *device, acre_kind kind, uint32_t flags, unsigned char *p,
                         size_t bytes) {
    const size_t offsets[] = {0, bytes / 2, bytes - 1};
    for (size_t i = 0; i < 3; i++) {
        acre_mem_info info = query(device, p + offsets[i]);
        assert_int_equal(info.kind, kind);
        assert_int_equal(info.flags, flags);
        assert_ptr_equal(info.base, p);
        assert_int_equal(info.bytes, bytes);
        assert_ptr_equal(info.device, device);
        assert_int_equal(info.ordinal, 0);
        assert_int_equal(info.is_registered, 0);
    }
}

TEST(alloc_every_kind_and_flag_is_aligned_usable_and_known) {
    const size_t sizes[] = {1, 255, 4096, 2 * MIB - 1, 3 * MIB + 5, 64 * MIB};
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        for (size_t i = 0; i < WISHES; i++) {
            for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
                void *p = NULL;
                api_ok(acre_mem_alloc(device, wishes[i].kind, sizes[k], wishes[i].flags, &p));
                assert_non_null(p);
                assert_int_equal((uintptr_t)p % 256, 0);
                expect_usable(device, wishes[i].kind, p, sizes[k]);
                expect_known(device, wishes[i].kind, wishes[i].flags, p, sizes[k]);
                acre_device_stats stats = api_stats(device);
                assert_int_equal(stats.mem_blocks, 1);
                assert_int_equal(stats.mem_bytes, sizes[k]);
                api_ok(acre_mem_free(device, p));
            }
        }
        acre_device_stats stats = api_stats(device);
        assert_int_equal(stats.mem_blocks + stats.mem_bytes + stats.limbo_count, 0);
        assert_int_equal(stats.driver_refusals, 0);
        api_ok(acre_close(device));
    }
}

/* No two blocks overlap: each keeps the bytes that the test wrote to it. */
TEST(alloc_blocks_of_every_kind_are_apart) {
    enum { EACH = 5 };
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        struct api_buffer buffers[SORT_COUNT][EACH];
        struct api_buffer pinned = api_buffer_make(device, SORT_PINNED, 10000);
        unsigned char expected[10000];
        for (int i = 0; i < SORT_COUNT; i++)
            for (int k = 0; k < EACH; k++) {
                buffers[i][k] = api_buffer_make(device, i, 10000 - (size_t)k);
                memset(expected, i * EACH + k + 1, sizeof expected);
                api_buffer_put(&buffers[i][k], 0, expected, 10000 - (size_t)k, &pinned);
            }
        for (int i = 0; i < SORT_COUNT; i++)
            for (int k = 0; k < EACH; k++) {
                size_t bytes = 10000 - (size_t)k;
                memset(expected, i * EACH + k + 1, sizeof expected);
                assert_memory_equal(api_buffer_get(&buffers[i][k], 0, bytes, &pinned), expected,
                                    bytes);
                api_buffer_end(&buffers[i][k]);
            }
        api_buffer_end(&pinned);
        api_ok(acre_close(device));
    }
}

API_TEST(alloc_mapped_memory_has_a_device_pointer) {
    for (int i = 0; i < SORT_COUNT; i++) {
        struct api_buffer buffer = api_buffer_make(device, i, 8192);
        void *first = &first, *inside = &inside;
        if (buffer.sort->kind == ACRE_KIND_PAGEABLE) {
            api_expect(acre_mem_device_pointer(device, buffer.at, &first), ACRE_E_KIND);
            assert_null(first);
            api_buffer_end(&buffer);
            continue;
        }
        api_ok(acre_mem_device_pointer(device, buffer.at, &first));
        api_ok(acre_mem_device_pointer(device, buffer.at + 4097, &inside));
        assert_ptr_equal((char *)first + 4097, inside);
        /* The device pointer reaches the same memory. */
        api_ok(acre_fill_sync(device, inside, 0x5a, 16));
        unsigned char back[18] = {0};
        api_ok(acre_copy_sync(device, back, buffer.at + 4096, 18));
        assert_true(back[0] != 0x5a || buffer.sort->kind == ACRE_KIND_DEVICE);
        for (int k = 1; k < 17; k++)
            assert_int_equal(back[k], 0x5a);
        api_buffer_end(&buffer);
    }
}

API_TEST(alloc_of_impossible_sizes_is_refused) {
    const size_t never[] = {SIZE_MAX, (size_t)PTRDIFF_MAX + 1};
    for (size_t i = 0; i < WISHES; i++) {
        int is_host = wishes[i].kind == ACRE_KIND_PINNED || wishes[i].kind == ACRE_KIND_MAPPED;
        void *p = device;
        for (size_t k = 0; k < 2; k++) {
            api_expect(acre_mem_alloc(device, wishes[i].kind, never[k], wishes[i].flags, &p),
                       is_host ? ACRE_E_HOST_MEMORY : ACRE_E_DEVICE_MEMORY);
            assert_null(p);
        }
        p = device;
        api_ok(acre_mem_alloc(device, wishes[i].kind, 0, wishes[i].flags, &p));
        assert_null(p);
    }
    assert_int_equal(api_stats(device).mem_blocks, 0);
    assert_int_equal(api_stats(device).driver_refusals, 0);
}

/* A request larger than the memory returns a status that says which memory ran out. The device
 * still works afterwards. */
API_TEST(alloc_of_more_than_there_is_says_whose_memory_ran_out) {
    acre_device_info info = {.struct_size = sizeof info};
    api_ok(acre_device_get_info(device, &info));
    size_t ram = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < WISHES; i++) {
        int is_host = wishes[i].kind == ACRE_KIND_PINNED || wishes[i].kind == ACRE_KIND_MAPPED;
        const size_t sizes[] = {is_host ? ram + MIB : (size_t)info.total_bytes + 1, (size_t)1 << 46,
                                PTRDIFF_MAX};
        for (size_t k = 0; k < 3; k++) {
            void *p = device;
            api_expect(acre_mem_alloc(device, wishes[i].kind, sizes[k], wishes[i].flags, &p),
                       is_host ? ACRE_E_HOST_MEMORY : ACRE_E_DEVICE_MEMORY);
            assert_null(p);
            assert_true(acre_last_detail()[0]);
        }
    }
    assert_int_equal(api_stats(device).mem_blocks, 0);
    api_ok(acre_device_sync(device));
}

API_TEST(alloc_with_wrong_kinds_flags_or_outputs_is_refused) {
    const int kinds[] = {0, -1, ACRE_KIND_PAGEABLE, 6, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < 6; i++) {
        void *p = device;
        api_expect(acre_mem_alloc(device, (acre_kind)kinds[i], 4096, 0, &p), ACRE_E_INVALID);
        assert_null(p);
    }
    for (int kind = ACRE_KIND_DEVICE; kind <= ACRE_KIND_MANAGED; kind++) {
        uint32_t known = kind == ACRE_KIND_DEVICE    ? 0
                         : kind == ACRE_KIND_MANAGED ? ACRE_MEM_ATTACH_HOST
                                                     : ACRE_MEM_PORTABLE | ACRE_MEM_WRITE_COMBINED;
        for (unsigned bit = 0; bit < 32; bit++) {
            uint32_t flag = (uint32_t)1 << bit;
            void *p = device;
            if (flag & known)
                continue;
            api_expect(acre_mem_alloc(device, (acre_kind)kind, 4096, flag, &p), ACRE_E_INVALID);
            assert_null(p);
        }
        api_expect(acre_mem_alloc(device, (acre_kind)kind, 4096, 0, NULL), ACRE_E_NULL);
    }
    acre_device_stats stats = api_stats(device);
    assert_int_equal(stats.mem_blocks + stats.driver_refusals, 0);
}

/* ---- free ---- */

API_TEST(free_of_what_is_no_block_is_refused) {
    static char pageable[4096];
    api_ok(acre_mem_free(device, NULL));
    api_expect(acre_mem_free(device, pageable), ACRE_E_POINTER);
    api_expect(acre_mem_free(device, (void *)8), ACRE_E_POINTER);
    api_expect(acre_mem_free(device, (void *)UINTPTR_MAX), ACRE_E_POINTER);
    for (int i = 0; i < SORT_COUNT; i++) {
        struct api_buffer buffer = api_buffer_make(device, i, 5000);
        unsigned char *at = buffer.at;
        acre_status freed = buffer.sort->is_own ? ACRE_E_KIND : ACRE_E_INTERIOR;
        acre_status unregistered = buffer.sort->is_own ? ACRE_E_INTERIOR : ACRE_E_KIND;
        if (buffer.sort->kind == ACRE_KIND_PAGEABLE)
            freed = unregistered = ACRE_E_POINTER;
        api_expect(acre_mem_free(device, at + 1), freed);
        api_expect(acre_mem_free(device, at + 4999), freed);
        api_expect(acre_mem_unregister(device, at + 1), unregistered);
        if (buffer.sort->kind == ACRE_KIND_PAGEABLE) {
            api_expect(acre_mem_free(device, at), ACRE_E_POINTER);
            api_expect(acre_mem_unregister(device, at), ACRE_E_POINTER);
        } else if (buffer.sort->is_own) {
            api_expect(acre_mem_free(device, at), ACRE_E_KIND);
        } else {
            api_expect(acre_mem_unregister(device, at), ACRE_E_KIND);
            assert_int_equal(query(device, at).kind, buffer.sort->kind); /* still live */
        }
        api_buffer_end(&buffer);
        if (!buffer.sort->is_own)
            api_expect(acre_mem_free(device, at), ACRE_E_POINTER); /* double free */
    }
    acre_device_stats stats = api_stats(device);
    assert_int_equal(stats.driver_refusals + stats.limbo_count, 0);
}

TEST(free_of_another_devices_block_is_refused) {
    acre_device *devices[3];
    size_t count = 2;
    api_open_two(devices);
    if (api_devices()[1])
        devices[count++] = api_open("cuda");
    for (size_t i = 0; i < count; i++) {
        for (int sort = 0; sort < SORT_PAGEABLE; sort++) {
            struct api_buffer buffer = api_buffer_make(devices[i], sort, 4096);
            for (size_t k = 0; k < count; k++) {
                if (k == i)
                    continue;
                api_expect(acre_mem_free(devices[k], buffer.at), ACRE_E_HANDLE);
                api_expect(acre_mem_unregister(devices[k], buffer.at), ACRE_E_HANDLE);
                /* The other device reports the owner. */
                acre_mem_info info = query(devices[k], buffer.at + 17);
                assert_ptr_equal(info.device, devices[i]);
                assert_int_equal(info.kind, buffer.sort->kind);
            }
            api_buffer_end(&buffer);
        }
    }
    for (size_t i = 0; i < count; i++)
        api_ok(acre_close(devices[i]));
}

API_TEST(free_really_gives_the_memory_back) {
    struct api_buffer warm = api_buffer_make(device, SORT_DEVICE, 64 * MIB);
    api_buffer_end(&warm);
    api_ok(acre_trim(device)); /* releases the cached chunks */
    uint64_t before = free_bytes(device);
    struct api_buffer buffer = api_buffer_make(device, SORT_DEVICE, 64 * MIB);
    assert_true(free_bytes(device) <= before - 64 * MIB);
    api_buffer_end(&buffer);
    api_ok(acre_trim(device));
    assert_true(free_bytes(device) + 32 * MIB > before); /* the driver keeps the rest */
}

/* ---- acre_close with live blocks ---- */

static size_t resident_bytes(void) {
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*u %lu", &pages), 1);
    fclose(file);
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Returns 1 if the page of the address is mapped. */
static int is_mapped(const void *p) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    return msync((void *)((uintptr_t)p / page * page), page, MS_ASYNC) == 0;
}

TEST(close_with_blocks_left_gives_them_back_and_says_so) {
    static _Alignas(4096) char own[8192];
    for (API_EACH(name)) {
        acre_device *outer = api_open(name); /* warm-up: measured from the second open on */
        struct api_heard heard = {.area = "mem"};
        void *pinned, *p;
        api_ok(acre_close(outer));
        outer = api_open(name);
        uint64_t before = free_bytes(outer);
        size_t resident = resident_bytes();
        api_ok(acre_mem_alloc(outer, ACRE_KIND_PINNED, 96 * MIB, 0, &pinned));
        api_ok(acre_mem_alloc(outer, ACRE_KIND_MAPPED, 4096, ACRE_MEM_WRITE_COMBINED, &p));
        api_ok(acre_mem_alloc(outer, ACRE_KIND_DEVICE, 64 * MIB, 0, &p));
        api_ok(acre_mem_alloc(outer, ACRE_KIND_MANAGED, 4096, 0, &p));
        api_ok(acre_mem_register(outer, own, sizeof own, 0));
        assert_true(resident_bytes() >= resident + 90 * MIB);
        assert_int_equal(api_stats(outer).mem_blocks, 4);
        assert_int_equal(api_stats(outer).mem_registered, 1);
        assert_int_equal(api_stats(outer).mem_bytes, 160 * MIB + 8192);
        api_ok(acre_log_set(api_listen, &heard, ACRE_LOG_WARN));
        api_ok(acre_close(outer));
        api_ok(acre_log_set(NULL, NULL, ACRE_LOG_WARN));
        assert_int_equal(heard.count, 1);
        assert_non_null(strstr(heard.line, "5 blocks"));
        assert_false(is_mapped(pinned));
        assert_true(resident_bytes() < resident + 64 * MIB);

        /* The new handle starts without records of the old blocks. */
        outer = api_open(name);
        assert_true(free_bytes(outer) + 32 * MIB > before); /* the driver keeps the rest */
        acre_device_stats stats = api_stats(outer);
        assert_int_equal(stats.mem_blocks + stats.mem_bytes + stats.mem_registered, 0);
        api_expect(acre_mem_free(outer, pinned), ACRE_E_POINTER);
        api_ok(acre_mem_register(outer, own, sizeof own, 0));
        api_ok(acre_mem_unregister(outer, own));
        memset(own, 1, sizeof own);
        api_ok(acre_close(outer));
    }
}

/* ---- registering ---- */

static unsigned char *own_pages(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

TEST(register_odd_starts_and_sizes_work) {
    const struct {
        size_t offset, bytes;
    } places[] = {{0, 65536}, {1, 1}, {3, 4096}, {4095, 2}, {4096, 4096}, {777, 60000}};
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        unsigned char *pages = own_pages(65536);
        struct api_buffer block = api_buffer_make(device, SORT_DEVICE, 65536);
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            unsigned char *p = pages + places[i].offset;
            size_t bytes = places[i].bytes;
            memset(p, (int)(i + 1), bytes);
            api_ok(acre_mem_register(device, p, bytes, 0));
            acre_mem_info info = query(device, p + bytes - 1);
            assert_int_equal(info.kind, ACRE_KIND_PINNED);
            assert_ptr_equal(info.base, p);
            assert_int_equal(info.bytes, bytes);
            assert_int_equal(info.is_registered, 1);
            assert_ptr_equal(info.device, device);
            api_ok(acre_copy_sync(device, block.at, p, bytes));
            memset(p, 0, bytes);
            api_ok(acre_copy_sync(device, p, block.at, bytes));
            assert_int_equal(p[0], i + 1);
            assert_int_equal(p[bytes - 1], i + 1);
            api_ok(acre_mem_unregister(device, p));
            assert_int_equal(query(device, p).kind, ACRE_KIND_PAGEABLE);
        }
        assert_int_equal(api_stats(device).mem_registered, 0);
        api_buffer_end(&block);
        munmap(pages, 65536);
        api_ok(acre_close(device));
    }
}

API_TEST(register_flags_are_kept) {
    unsigned char *pages = own_pages(65536);
    struct api_buffer block = api_buffer_make(device, SORT_DEVICE, 65536);
    const uint32_t flags[] = {0, ACRE_MEM_PORTABLE, ACRE_MEM_READ_ONLY,
                              ACRE_MEM_PORTABLE | ACRE_MEM_READ_ONLY};
    for (size_t i = 0; i < 4; i++) {
        memset(pages, (int)(i + 1), 65536);
        acre_status status = acre_mem_register(device, pages, 65536, flags[i]);
        /* Not every machine supports read-only registration. Then nothing is registered. */
        if (status == ACRE_E_UNSUPPORTED && flags[i] & ACRE_MEM_READ_ONLY) {
            assert_int_equal(api_stats(device).mem_registered, 0);
            continue;
        }
        api_ok(status);
        assert_int_equal(query(device, pages).flags, flags[i]);
        api_ok(acre_copy_sync(device, block.at, pages, 65536));
        unsigned char last = 0;
        api_ok(acre_copy_sync(device, &last, block.at + 65535, 1));
        assert_int_equal(last, i + 1);
        api_ok(acre_mem_unregister(device, pages));
    }
    for (unsigned bit = 0; bit < 32; bit++) {
        uint32_t flag = (uint32_t)1 << bit;
        if (flag == ACRE_MEM_PORTABLE || flag == ACRE_MEM_READ_ONLY)
            continue;
        api_expect(acre_mem_register(device, pages, 4096, flag), ACRE_E_INVALID);
    }
    assert_int_equal(api_stats(device).mem_registered, 0);
    api_buffer_end(&block);
    munmap(pages, 65536);
}

API_TEST(register_of_what_is_taken_is_refused) {
    unsigned char *pages = own_pages(65536);
    unsigned char *middle = pages + 16384;
    api_ok(acre_mem_register(device, middle, 16384, 0));
    api_expect(acre_mem_register(device, middle, 16384, 0), ACRE_E_REGISTERED);
    api_expect(acre_mem_register(device, middle, 1, 0), ACRE_E_REGISTERED);
    api_expect(acre_mem_register(device, middle + 5, 100, 0), ACRE_E_REGISTERED);
    api_expect(acre_mem_register(device, pages, 16385, 0), ACRE_E_REGISTERED);
    api_expect(acre_mem_register(device, pages, 65536, 0), ACRE_E_REGISTERED);
    api_expect(acre_mem_register(device, middle + 16383, 2, 0), ACRE_E_REGISTERED);
    assert_int_equal(api_stats(device).mem_registered, 1);
    for (int sort = 0; sort < SORT_REGISTERED; sort++) {
        struct api_buffer buffer = api_buffer_make(device, sort, 100000);
        api_expect(acre_mem_register(device, buffer.at, 100000, 0), ACRE_E_REGISTERED);
        api_expect(acre_mem_register(device, buffer.at + 4096, 8192, 0), ACRE_E_REGISTERED);
        api_buffer_end(&buffer);
    }
    api_ok(acre_mem_unregister(device, middle));
    api_expect(acre_mem_unregister(device, middle), ACRE_E_POINTER);
    api_expect(acre_mem_unregister(device, NULL), ACRE_E_NULL);
    api_expect(acre_mem_register(device, NULL, 4096, 0), ACRE_E_NULL);
    api_expect(acre_mem_register(device, pages, 0, 0), ACRE_E_INVALID);
    api_expect(acre_mem_register(device, pages, SIZE_MAX, 0), ACRE_E_INVALID);
    api_expect(acre_mem_register(device, pages, (size_t)PTRDIFF_MAX + 1, 0), ACRE_E_INVALID);
    api_expect(acre_mem_register(device, (void *)(UINTPTR_MAX - 100), 4096, 0), ACRE_E_INVALID);
    munmap(pages, 65536);
    acre_status nothing_there = acre_mem_register(device, pages, 65536, 0);
    assert_true(nothing_there != ACRE_OK);
    assert_int_equal(api_stats(device).mem_registered, 0);
}

API_TEST(register_side_by_side_is_not_one) {
    unsigned char *pages = own_pages(65536);
    struct api_buffer block = api_buffer_make(device, SORT_DEVICE, 65536);
    api_ok(acre_mem_register(device, pages, 32768, 0));
    api_ok(acre_mem_register(device, pages + 32768, 32768, 0));
    api_expect(acre_copy_sync(device, block.at, pages, 65536), ACRE_E_RANGE);
    api_expect(acre_copy_sync(device, pages + 32764, block.at, 8), ACRE_E_RANGE);
    api_expect(acre_fill_sync(device, pages, 1, 32769), ACRE_E_RANGE);
    assert_int_equal(pages[32767], 0);
    memset(pages, 7, 65536);
    api_ok(acre_copy_sync(device, block.at, pages, 32768));
    api_ok(acre_copy_sync(device, block.at + 32768, pages + 32768, 32768));
    api_ok(acre_mem_unregister(device, pages));
    api_ok(acre_mem_unregister(device, pages + 32768));
    memset(pages, 0, 65536);
    /* The pages are pageable again, so one copy may cross both halves. */
    api_ok(acre_copy_sync(device, pages, block.at, 65536));
    assert_int_equal(pages[0], 7);
    assert_int_equal(pages[65535], 7);
    api_buffer_end(&block);
    munmap(pages, 65536);
}

/* ---- query ---- */

TEST(query_of_memory_that_nobody_knows_says_pageable) {
    static char global[64];
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        char stack[64];
        void *heap = malloc(64);
        assert_non_null(heap);
        const void *places[] = {global,    stack,          heap,
                                (void *)1, (void *)device, (void *)UINTPTR_MAX};
        for (size_t i = 0; i < 6; i++) {
            acre_mem_info info;
            memset(&info, 0x55, sizeof info);
            info.struct_size = sizeof info;
            api_ok(acre_mem_query(device, places[i], &info));
            assert_int_equal(info.kind, ACRE_KIND_PAGEABLE);
            assert_null(info.base);
            assert_null(info.device);
            assert_true(info.bytes == 0 && info.flags == 0 && info.is_registered == 0);
        }
        free(heap);
        acre_mem_info info = {.struct_size = sizeof info};
        api_expect(acre_mem_query(device, NULL, &info), ACRE_E_NULL);
        api_expect(acre_mem_query(device, global, NULL), ACRE_E_NULL);
        info.struct_size = 3;
        api_expect(acre_mem_query(device, global, &info), ACRE_E_OPTIONS);
        void *p = global;
        api_expect(acre_mem_device_pointer(device, NULL, &p), ACRE_E_NULL);
        assert_null(p);
        api_expect(acre_mem_device_pointer(device, global, NULL), ACRE_E_NULL);
        api_ok(acre_close(device));
    }
}

API_TEST(query_past_a_blocks_end_is_another_matter) {
    struct api_buffer buffer = api_buffer_make(device, SORT_PINNED, 100);
    assert_int_equal(query(device, buffer.at + 99).bytes, 100);
    assert_ptr_not_equal(query(device, buffer.at + 100).device, device);
    assert_ptr_not_equal(query(device, buffer.at - 1).device, device);
    api_buffer_end(&buffer);
}

/* ---- managed memory ---- */

API_TEST(managed_moves_and_keeps_its_contents) {
    acre_stream stream;
    struct api_buffer buffer = api_buffer_make(device, SORT_MANAGED, 3 * MIB + 5);
    unsigned char *at = buffer.at;
    api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &stream));
    memset(at, 1, buffer.bytes);
    api_ok(acre_mem_prefetch(device, at, buffer.bytes, ACRE_PLACE_DEVICE, stream));
    api_ok(acre_fill(device, at + 1000, 2, MIB, stream));
    api_ok(acre_mem_prefetch(device, at + 1, 4097, ACRE_PLACE_HOST, stream));
    api_ok(acre_mem_prefetch(device, at, buffer.bytes, ACRE_PLACE_HOST, NULL));
    api_ok(acre_device_sync(device));
    assert_int_equal(at[999], 1);
    assert_int_equal(at[1000], 2);
    assert_int_equal(at[1000 + MIB - 1], 2);
    assert_int_equal(at[1000 + MIB], 1);
    assert_int_equal(at[buffer.bytes - 1], 1);
    for (int advice = ACRE_ADVICE_READ_MOSTLY; advice <= ACRE_ADVICE_NOT_ACCESSED_BY; advice++)
        for (uint32_t place = ACRE_PLACE_DEVICE; place <= ACRE_PLACE_HOST; place++)
            api_ok(acre_mem_advise(device, at, buffer.bytes, (acre_advice)advice, place));
    const uint32_t attach[] = {ACRE_ATTACH_HOST, ACRE_ATTACH_SINGLE, ACRE_ATTACH_GLOBAL};
    for (size_t i = 0; i < 3; i++)
        api_ok(acre_mem_attach(device, at, attach[i], stream));
    api_ok(acre_mem_attach(device, at, ACRE_ATTACH_GLOBAL, NULL));
    api_ok(acre_device_sync(device));
    assert_int_equal(at[0], 1);
    api_ok(acre_stream_destroy(device, stream));
    api_buffer_end(&buffer);
}

API_TEST(managed_calls_with_wrong_arguments_are_refused) {
    struct api_buffer buffer = api_buffer_make(device, SORT_MANAGED, 8192);
    unsigned char *at = buffer.at;
    api_expect(acre_mem_prefetch(device, at, 0, 0, NULL), ACRE_E_INVALID);
    api_expect(acre_mem_prefetch(device, at, 8193, 0, NULL), ACRE_E_RANGE);
    api_expect(acre_mem_prefetch(device, at + 8191, 2, 0, NULL), ACRE_E_RANGE);
    api_expect(acre_mem_prefetch(device, at, SIZE_MAX, 0, NULL), ACRE_E_RANGE);
    api_expect(acre_mem_prefetch(device, at, 8192, 2, NULL), ACRE_E_INVALID);
    api_expect(acre_mem_prefetch(device, NULL, 8192, 0, NULL), ACRE_E_NULL);
    const int advices[] = {0, 7, -1, 99, INT32_MIN};
    for (size_t i = 0; i < 5; i++)
        api_expect(acre_mem_advise(device, at, 8192, (acre_advice)advices[i], 0), ACRE_E_INVALID);
    api_expect(acre_mem_advise(device, at, 0, ACRE_ADVICE_PREFER, 0), ACRE_E_INVALID);
    api_expect(acre_mem_advise(device, at, 8192, ACRE_ADVICE_PREFER, 2), ACRE_E_INVALID);
    api_expect(acre_mem_advise(device, at + 1, 8192, ACRE_ADVICE_PREFER, 0), ACRE_E_RANGE);
    api_expect(acre_mem_advise(device, NULL, 8192, ACRE_ADVICE_PREFER, 0), ACRE_E_NULL);
    const uint32_t attach[] = {0, 3, 5, 7, 8, UINT32_MAX};
    for (size_t i = 0; i < 6; i++)
        api_expect(acre_mem_attach(device, at, attach[i], NULL), ACRE_E_INVALID);
    api_expect(acre_mem_attach(device, at, ACRE_ATTACH_SINGLE, NULL), ACRE_E_INVALID);
    api_expect(acre_mem_attach(device, at + 256, ACRE_ATTACH_GLOBAL, NULL), ACRE_E_INTERIOR);
    api_expect(acre_mem_attach(device, NULL, ACRE_ATTACH_GLOBAL, NULL), ACRE_E_NULL);
    api_buffer_end(&buffer);
    for (int sort = 0; sort < SORT_COUNT; sort++) {
        if (sort == SORT_MANAGED)
            continue;
        struct api_buffer other = api_buffer_make(device, sort, 4096);
        api_expect(acre_mem_prefetch(device, other.at, 4096, 0, NULL), ACRE_E_KIND);
        api_expect(acre_mem_advise(device, other.at, 4096, ACRE_ADVICE_PREFER, 0), ACRE_E_KIND);
        api_expect(acre_mem_attach(device, other.at, ACRE_ATTACH_GLOBAL, NULL), ACRE_E_KIND);
        api_buffer_end(&other);
    }
    assert_int_equal(api_stats(device).driver_refusals, 0); /* no call reached the driver */
}

TEST(managed_calls_on_streams_and_memory_of_others_are_refused) {
    acre_device *devices[2];
    acre_stream stream;
    api_open_two(devices);
    struct api_buffer buffer = api_buffer_make(devices[0], SORT_MANAGED, 4096);
    api_ok(acre_stream_create(devices[1], ACRE_STREAM_DEFAULT, &stream));
    api_expect(acre_mem_prefetch(devices[0], buffer.at, 4096, 0, stream), ACRE_E_HANDLE);
    api_expect(acre_mem_attach(devices[0], buffer.at, ACRE_ATTACH_GLOBAL, stream), ACRE_E_HANDLE);
    if (api_devices()[1]) {
        acre_device *cuda = api_open("cuda");
        void *p;
        api_expect(acre_mem_prefetch(cuda, buffer.at, 4096, 0, NULL), ACRE_E_HANDLE);
        api_expect(acre_mem_advise(cuda, buffer.at, 4096, ACRE_ADVICE_PREFER, 0), ACRE_E_HANDLE);
        api_expect(acre_mem_attach(cuda, buffer.at, ACRE_ATTACH_GLOBAL, NULL), ACRE_E_HANDLE);
        api_expect(acre_mem_device_pointer(cuda, buffer.at, &p), ACRE_E_HANDLE);
        assert_int_equal(api_stats(cuda).driver_refusals, 0);
        api_ok(acre_close(cuda));
    }
    api_buffer_end(&buffer);
    api_ok(acre_close(devices[0]));
    api_ok(acre_close(devices[1]));
}

/* ---- many threads, a fork ---- */

struct worker {
    acre_device *device;
    uint64_t random;
    const char *wrong;
};

/* Holds up to 8 blocks, each with a mark in the first and the last byte. */
static void *work(void *argument) {
    struct worker *me = argument;
    struct {
        unsigned char *at;
        size_t bytes;
        acre_kind kind;
    } held[8] = {0};
    for (int i = 0; i < 150 && !me->wrong; i++) {
        size_t slot = random_draw(&me->random, 8), wish = random_draw(&me->random, WISHES);
        if (held[slot].at) {
            unsigned char back[2] = {0, 0};
            if (acre_copy_sync(me->device, &back[0], held[slot].at, 1) ||
                acre_copy_sync(me->device, &back[1], held[slot].at + held[slot].bytes - 1, 1) ||
                back[0] != slot + 1 || back[1] != slot + 1)
                me->wrong = "a block lost its contents";
            if (acre_mem_free(me->device, held[slot].at))
                me->wrong = "a block was not freed";
        }
        void *p = NULL;
        held[slot].bytes = 1 + random_draw(&me->random, i % 10 ? 20000 : 3 * MIB);
        if (acre_mem_alloc(me->device, wishes[wish].kind, held[slot].bytes, wishes[wish].flags,
                           &p) ||
            (uintptr_t)p % 256)
            me->wrong = "no block, or a misaligned one";
        held[slot].at = p;
        if (p && acre_fill_sync(me->device, p, (uint8_t)(slot + 1), held[slot].bytes))
            me->wrong = "a block cannot be filled";
    }
    for (size_t slot = 0; slot < 8; slot++)
        if (acre_mem_free(me->device, held[slot].at))
            me->wrong = "a block was not freed at the end";
    return NULL;
}

TEST(threads_together_allocate_and_free_all_kinds) {
    enum { THREADS = 6 };
    uint64_t seed = random_seed("threads");
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        struct worker workers[THREADS];
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++) {
            workers[i] = (struct worker){device, random_draw(&seed, UINT64_MAX), NULL};
            assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        for (int i = 0; i < THREADS; i++)
            if (workers[i].wrong)
                fail_msg("thread %d: %s: %s", i, workers[i].wrong, acre_last_detail());
        acre_device_stats stats = api_stats(device);
        assert_int_equal(stats.mem_blocks + stats.mem_bytes + stats.limbo_count, 0);
        api_ok(acre_close(device));
    }
}

/* The child must not inherit pinned pages: copy-on-write would give the parent other pages than the
 * device uses. */
API_TEST(fork_leaves_pinned_pages_to_the_parent) {
    struct api_buffer small = api_buffer_make(device, SORT_PINNED, MIB);
    struct api_buffer large = api_buffer_make(device, SORT_PINNED, 4 * MIB);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        leave(is_mapped(small.at) || is_mapped(large.at + 3 * MIB));
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    memset(small.at, 3, 4096);
    api_buffer_end(&small);
    api_buffer_end(&large);
}

int main(void) {
    return tests_run("mem");
}
