/* Copies and fills of memory that was freed, and past the end of a block, through the public API:
 * every kind of memory, in both directions. Each call is refused with a detail that says what was
 * wrong, and nothing is copied. Memory that acre never owned, or does not own any more, still
 * works. */
#include <sys/mman.h>

#include "api_pool.h"

/* The address from which acre must not copy, and memory to copy to and from. */
struct use {
    acre_device *device;
    unsigned char *at;
    size_t bytes;
    struct api_buffer other;
};

/* The status and a part of the detail of the last call. */
static void expect_text(acre_status got, acre_status wanted, const char *call, const char *text,
                        int line) {
    const char *detail = acre_last_detail();
    size_t length = strlen(call);
    if (got == wanted && strncmp(detail, call, length) == 0 &&
        strncmp(detail + length, ": ", 2) == 0 && strstr(detail, text))
        return;
    print_error("line %d: %s: %s\n", line, acre_status_name(got), detail);
    fail();
}
#define EXPECT(call, wanted, text) expect_text(call, wanted, name_of(#call), text, __LINE__)

/* Returns the name of the function in the text of a call. */
static const char *name_of(const char *call) {
    static char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(call, "("), call);
    return name;
}

/* Every call that reads or writes memory refuses it. */
static void expect_refused(struct use *use, acre_status wanted, const char *text) {
    acre_device *device = use->device;
    unsigned char *at = use->at, *other = use->other.at;
    size_t half = use->bytes / 2;
    const size_t sizes[] = {1, use->bytes};
    memset(other, 0x5a, use->bytes);
    for (int i = 0; i < 2; i++) {
        EXPECT(acre_copy(device, other, at, sizes[i], NULL), wanted, text);
        EXPECT(acre_copy(device, at, other, sizes[i], NULL), wanted, text);
        EXPECT(acre_copy_sync(device, other, at, sizes[i]), wanted, text);
        EXPECT(acre_copy_sync(device, at, other, sizes[i]), wanted, text);
        EXPECT(acre_fill(device, at, 1, sizes[i], NULL), wanted, text);
        EXPECT(acre_fill_sync(device, at, 1, sizes[i]), wanted, text);
    }
    EXPECT(acre_copy(device, other, at + half, half, NULL), wanted, text);
    EXPECT(acre_copy(device, at + half, other, half, NULL), wanted, text);
    EXPECT(acre_copy_2d(device, other, half, at, half, half / 2, 2, NULL), wanted, text);
    EXPECT(acre_copy_2d(device, at, half, other, half, half / 2, 2, NULL), wanted, text);
    EXPECT(acre_copy_as(device, ACRE_DEVICE_TO_HOST, other, at, 8, NULL), wanted, text);
    EXPECT(acre_copy_as(device, ACRE_HOST_TO_DEVICE, at, other, 8, NULL), wanted, text);
    api_ok(acre_device_sync(device));
    for (size_t i = 0; i < use->bytes; i++)
        if (other[i] != 0x5a)
            fail_msg("byte %zu was copied", i);
}

/* The other side of a copy: pageable or pinned memory, allocated before anything is freed. */
static struct use use_begin(acre_device *device, int sort, size_t bytes) {
    return (struct use){
        .device = device, .bytes = bytes, .other = api_buffer_make(device, sort, bytes)};
}

static const char FREED[] = "use memory that was freed (";
static const char IDLE[] = "is in no live block of its pool: it was freed, or never allocated";

/* The driver of a GPU may keep small host blocks mapped after a free, so that acre cannot tell them
 * from memory that the program got at the same address. */
static int is_checked(const char *name, const struct api_sort *sort, size_t bytes) {
    int is_host = sort->kind == ACRE_KIND_PINNED || sort->kind == ACRE_KIND_MAPPED;
    return strcmp(name, "soft") == 0 || !is_host ||
           (bytes >= MIB / 2 && !(sort->flags & ACRE_MEM_WRITE_COMBINED));
}

TEST(copy_of_freed_memory_of_every_kind_is_refused) {
    const size_t sizes[] = {4 * KIB, 600 * KIB, 5 * MIB};
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        for (int side = 0; side < 2; side++)
            for (int sort = 0; sort < SORT_REGISTERED; sort++)
                for (int i = 0; i < 3; i++) {
                    if (!is_checked(name, &api_sorts[sort], sizes[i]))
                        continue;
                    struct use use =
                        use_begin(device, side ? SORT_PAGEABLE : SORT_PINNED, sizes[i]);
                    struct api_buffer freed = api_buffer_make(device, sort, sizes[i]);
                    use.at = freed.at;
                    api_buffer_end(&freed);
                    expect_refused(&use, ACRE_E_POINTER, FREED);
                    api_buffer_end(&use.other);
                }
        api_ok(acre_close(device));
    }
}

API_TEST(copy_across_the_end_of_freed_memory_says_what_was_freed) {
    char text[96];
    unsigned char *at, local[64];
    api_ok(acre_mem_alloc(device, ACRE_KIND_DEVICE, 4 * MIB, 0, (void **)&at));
    snprintf(text, sizeof text, "use memory that was freed (%zu bytes at %p)", 4 * MIB, (void *)at);
    api_ok(acre_mem_free(device, at));
    EXPECT(acre_copy(device, local, at + 4 * MIB - 1, 1, NULL), ACRE_E_POINTER, text);
    EXPECT(acre_copy(device, at + 4 * MIB - 1, local, 64, NULL), ACRE_E_POINTER, text);
    snprintf(text, sizeof text, "64 bytes of the source at %p ", (void *)at);
    EXPECT(acre_copy(device, local, at, 64, NULL), ACRE_E_POINTER, text);
    snprintf(text, sizeof text, "64 bytes of the destination at %p ", (void *)at);
    EXPECT(acre_copy(device, at, local, 64, NULL), ACRE_E_POINTER, text);
}

/* Finds three freed blocks of `part` bytes in a row, and maps pages of the program at the first and
 * the last. Returns the address, or NULL if the system leaves gaps between blocks. */
static unsigned char *map_around_freed(acre_device *device, size_t part) {
    unsigned char *blocks[3], *low;
    for (int i = 0; i < 3; i++)
        api_ok(acre_mem_alloc(device, ACRE_KIND_PINNED, part, 0, (void **)&blocks[i]));
    low = blocks[0] < blocks[2] ? blocks[0] : blocks[2];
    for (int i = 0; i < 3; i++)
        api_ok(acre_mem_free(device, blocks[i]));
    if (blocks[1] != low + part ||
        low + 2 * part != (blocks[0] < blocks[2] ? blocks[2] : blocks[0]))
        return NULL;
    for (size_t at = 0; at <= 2 * part; at += 2 * part)
        if (mmap(low + at, part, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != low + at)
            return NULL;
    return low;
}

/* What lies between the rows of a copy does not matter. */
TEST(copy_of_rows_around_freed_memory_is_allowed) {
    size_t part = 64 * KIB;
    acre_device *device = api_open("soft");
    unsigned char *block, *rows = map_around_freed(device, part);
    if (!rows)
        skip();
    api_ok(acre_mem_alloc(device, ACRE_KIND_DEVICE, 2 * part, 0, (void **)&block));
    memset(rows, 0x11, part);
    memset(rows + 2 * part, 0x33, part);
    EXPECT(acre_copy_2d(device, block, part, rows, part, part, 2, NULL), ACRE_E_POINTER, FREED);
    api_ok(acre_copy_2d(device, block, part, rows, 2 * part, part, 2, NULL));
    api_ok(acre_device_sync(device));
    memset(rows, 0, part);
    memset(rows + 2 * part, 0, part);
    api_ok(acre_copy_2d(device, rows, 2 * part, block, part, part, 2, NULL));
    api_ok(acre_device_sync(device));
    assert_int_equal(rows[part - 1], 0x11);
    assert_int_equal(rows[3 * part - 1], 0x33);
    munmap(rows, part);
    munmap(rows + 2 * part, part);
    api_ok(acre_mem_free(device, block));
    api_ok(acre_close(device));
}

TEST(copy_of_a_freed_pool_block_is_refused) {
    const size_t sizes[] = {1000, 600 * KIB, 5 * MIB};
    const acre_kind kinds[] = {ACRE_KIND_DEVICE, ACRE_KIND_PINNED, ACRE_KIND_MANAGED};
    for (API_EACH(name))
        for (int k = 0; k < 3; k++)
            for (uint32_t flags = 0; flags <= ACRE_POOL_DEBUG; flags += ACRE_POOL_DEBUG)
                for (int i = 0; i < 3; i++) {
                    acre_pool_options options = {
                        .struct_size = sizeof options, .kind = kinds[k], .flags = flags};
                    struct things t = begin(name, &options);
                    struct use use = use_begin(t.device, SORT_PAGEABLE, sizes[i]);
                    void *kept = alloc(&t, sizes[i]); /* the pool keeps its memory */
                    use.at = alloc(&t, sizes[i]);
                    api_ok(acre_free(use.at, t.stream));
                    expect_refused(&use, ACRE_E_POINTER, IDLE);
                    api_ok(acre_free(kept, t.stream));
                    api_ok(acre_stream_sync(t.device, t.stream));
                    api_ok(acre_pool_trim(t.pool, 0));
                    use.at = kept;
                    acre_status status = acre_copy(t.device, use.other.at, kept, 8, NULL);
                    api_expect(status, ACRE_E_POINTER);
                    api_buffer_end(&use.other);
                    end(&t);
                }
}

TEST(copy_past_the_end_of_a_pool_block_is_refused) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        struct use use = use_begin(t.device, SORT_PAGEABLE, 8 * MIB);
        const size_t sizes[] = {1000, 600 * KIB, 5 * MIB};
        for (int i = 0; i < 3; i++) {
            unsigned char *p = alloc(&t, sizes[i]);
            size_t usable = acre_pool_usable_size(t.pool, p);
            const char text[] = "run past the end of its block (";
            api_ok(acre_copy(t.device, p, use.other.at, usable, t.stream));
            api_ok(acre_copy(t.device, use.other.at, p + usable - 1, 1, t.stream));
            EXPECT(acre_copy(t.device, p, use.other.at, usable + 1, t.stream), ACRE_E_RANGE, text);
            EXPECT(acre_copy(t.device, use.other.at, p + 1, usable, t.stream), ACRE_E_RANGE, text);
            EXPECT(acre_fill(t.device, p, 1, usable + 1, t.stream), ACRE_E_RANGE, text);
            api_ok(acre_free(p, t.stream));
        }
        api_buffer_end(&use.other);
        end(&t);
    }
}

/* In a debugged pool the block ends with the bytes requested, and its red zone is not usable. */
TEST(copy_into_the_red_zone_is_refused) {
    acre_pool_options options = {.struct_size = sizeof options, .flags = ACRE_POOL_DEBUG};
    for (API_EACH(name)) {
        struct things t = begin(name, &options);
        unsigned char local[1024] = {0}, *p = alloc(&t, 1000);
        api_ok(acre_copy(t.device, p, local, 1000, t.stream));
        EXPECT(acre_copy(t.device, p, local, 1001, t.stream), ACRE_E_RANGE,
               "run past the end of its block (1000 bytes at ");
        api_ok(acre_free(p, t.stream));
        assert_int_equal(stats_of(t.pool).overruns, 0);
        end(&t);
    }
}

TEST(copy_of_memory_of_an_ended_vec_is_refused) {
    const acre_vec_strategy strategies[] = {ACRE_VEC_VMM, ACRE_VEC_COPY};
    for (API_EACH(name))
        for (int i = 0; i < 2; i++) {
            acre_device *device = api_open(name);
            acre_vec_options options = {.struct_size = sizeof options, .strategy = strategies[i]};
            acre_vec *vec;
            struct use use = use_begin(device, SORT_PAGEABLE, 4 * MIB);
            api_ok(acre_vec_create(device, 1, &options, &vec));
            api_ok(acre_vec_grow(vec, 4 * MIB, NULL));
            api_ok(acre_vec_grow(vec, 4 * MIB, NULL));
            use.at = acre_vec_data(vec);
            if (i == 0) { /* a vec of chunks frees its end in place */
                api_ok(acre_vec_shrink(vec, 4 * MIB, NULL));
                assert_int_equal(acre_vec_mapped_bytes(vec), 4 * MIB);
                EXPECT(acre_copy(device, use.other.at, use.at + 4 * MIB, 8, NULL), ACRE_E_POINTER,
                       FREED);
            }
            api_ok(acre_vec_destroy(vec, NULL));
            expect_refused(&use, ACRE_E_POINTER, FREED);
            api_buffer_end(&use.other);
            api_ok(acre_close(device));
        }
}

TEST(copy_of_memory_of_an_ended_plan_is_refused) {
    const acre_kind host_kinds[] = {ACRE_KIND_PINNED, ACRE_KIND_PAGEABLE};
    for (API_EACH(name))
        for (int i = 0; i < 4; i++) {
            acre_device *device = api_open(name);
            acre_plan_options options = {.struct_size = sizeof options,
                                         .device_bytes = 4 * MIB,
                                         .host_bytes = 4 * MIB,
                                         .host_kind = host_kinds[i / 2]};
            acre_plan *plan;
            struct use use = use_begin(device, SORT_PINNED, MIB);
            void *p;
            api_ok(acre_plan_create(device, &options, &plan));
            api_ok(acre_plan_want(plan, i % 2 ? ACRE_PLACE_HOST : ACRE_PLACE_DEVICE, MIB, 0, &p));
            api_ok(acre_copy_sync(device, use.other.at, p, MIB));
            use.at = p;
            api_ok(acre_plan_destroy(plan));
            expect_refused(&use, ACRE_E_POINTER, FREED);
            api_buffer_end(&use.other);
            api_ok(acre_close(device));
        }
}

/* ---- memory that acre does not own ---- */

/* The program maps memory where acre freed a block: acre must not take it for the freed block. */
API_TEST(copy_of_memory_that_the_program_mapped_at_a_freed_address_works) {
    const size_t bytes = 4 * MIB;
    void *p, *block;
    api_ok(acre_mem_alloc(device, ACRE_KIND_DEVICE, bytes, 0, &block));
    api_ok(acre_mem_alloc(device, ACRE_KIND_PINNED, bytes, 0, &p));
    api_ok(acre_mem_free(device, p));
    EXPECT(acre_copy(device, block, p, 8, NULL), ACRE_E_POINTER, FREED);
    unsigned char *mapped = mmap(p, bytes, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (mapped != p) { /* something else has the address already */
        if (mapped != MAP_FAILED)
            munmap(mapped, bytes);
        mapped = NULL;
    }
    for (size_t n = 8; mapped && n <= bytes; n *= 8) {
        memset(mapped, (int)n | 1, n);
        api_ok(acre_copy_sync(device, block, mapped, n));
        memset(mapped, 0, n);
        api_ok(acre_copy_sync(device, mapped, block, n));
        assert_int_equal(mapped[0], (unsigned char)(n | 1));
        assert_int_equal(mapped[n - 1], (unsigned char)(n | 1));
    }
    if (mapped)
        munmap(mapped, bytes);
    api_ok(acre_mem_free(device, block));
}

/* acre did not allocate registered memory, so it is not freed when its registration ends. */
API_TEST(copy_of_unregistered_memory_works) {
    struct api_buffer own = api_buffer_make(device, SORT_REGISTERED, 2 * MIB);
    void *block;
    api_ok(acre_mem_alloc(device, ACRE_KIND_DEVICE, own.bytes, 0, &block));
    api_ok(acre_mem_unregister(device, own.at));
    api_ok(acre_copy_sync(device, block, own.at, 64));
    api_ok(acre_copy_sync(device, own.at, block, own.bytes));
    api_ok(acre_mem_free(device, block));
    free(own.at);
}

/* New blocks get the addresses of freed ones, which are valid again. There are more frees than acre
 * has records. */
API_TEST(copy_of_a_block_at_a_freed_address_works) {
    const acre_kind kinds[] = {ACRE_KIND_DEVICE, ACRE_KIND_PINNED};
    unsigned char local[256] = {0};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 1200; i++) {
            void *p;
            api_ok(acre_mem_alloc(device, kinds[k], 4096 + (size_t)i % 7 * 4096, 0, &p));
            api_ok(acre_copy(device, p, local, sizeof local, NULL));
            api_ok(acre_mem_free(device, p));
        }
}

int main(void) {
    return tests_run("freed");
}
