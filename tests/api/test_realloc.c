/* Blocks of device memory that grow and shrink, on every driver present, with and without virtual
 * memory mapping; access of other devices to them; and misuse of both. */
#include <pthread.h>

#include "api_memory.h"

static int has_vmm(acre_device *device) {
    acre_device_info info = {.struct_size = sizeof info};
    const char *vmm = getenv("ACRE_VMM");
    api_ok(acre_device_get_info(device, &info));
    return info.has_vmm && !(vmm && strcmp(vmm, "off") == 0);
}

static uint64_t total_bytes(acre_device *device) {
    acre_device_info info = {.struct_size = sizeof info};
    api_ok(acre_device_get_info(device, &info));
    return info.total_bytes;
}

/* Marks a block with words at both ends and in between. Each word depends on its offset. */
enum { PLACES = 9 };

static size_t place(size_t bytes, size_t i) {
    return (bytes - 8) / 8 * i / (PLACES - 1) * 8;
}

static void mark(acre_device *device, void *p, size_t bytes, uint64_t seed) {
    for (size_t i = 0; i < PLACES; i++) {
        uint64_t word = seed + place(bytes, i);
        api_ok(acre_copy_sync(device, (char *)p + place(bytes, i), &word, sizeof word));
    }
}

/* Checks the marks for a block of `bytes` that lie within the first `has` bytes. */
static void expect_marks(acre_device *device, void *p, size_t bytes, size_t has, uint64_t seed) {
    for (size_t i = 0; i < PLACES && place(bytes, i) + 8 <= has; i++) {
        uint64_t word = 0;
        api_ok(acre_copy_sync(device, &word, (char *)p + place(bytes, i), sizeof word));
        assert_int_equal(word, seed + place(bytes, i));
    }
}

static void *make(acre_device *device, size_t bytes) {
    void *p = NULL;
    api_ok(acre_mem_alloc(device, ACRE_KIND_DEVICE, bytes, 0, &p));
    return p;
}

static void *change(acre_device *device, void *p, size_t bytes, acre_stream stream) {
    void *to = NULL;
    api_ok(acre_mem_realloc(device, p, bytes, stream, &to));
    assert_non_null(to);
    api_ok(acre_stream_sync(device, stream));
    return to;
}

static void expect_block(acre_device *device, void *p, size_t bytes) {
    acre_mem_info info = {.struct_size = sizeof info};
    api_ok(acre_mem_query(device, (char *)p + bytes - 1, &info));
    assert_ptr_equal(info.base, p);
    assert_int_equal(info.bytes, bytes);
    assert_int_equal(info.kind, ACRE_KIND_DEVICE);
    assert_ptr_equal(info.device, device);
}

/* ---- grow and shrink ---- */

API_TEST(realloc_of_null_hands_out) {
    const size_t sizes[] = {1, 4096, 2 * MIB, 5 * MIB + 1};
    for (size_t i = 0; i < 4; i++) {
        void *p = change(device, NULL, sizes[i], NULL);
        expect_block(device, p, sizes[i]);
        assert_int_equal((uintptr_t)p % 256, 0);
        assert_int_equal(api_stats(device).mem_blocks, 1);
        api_ok(acre_mem_free(device, p));
    }
    assert_int_equal(api_stats(device).mem_blocks, 0);
}

API_TEST(realloc_grows_in_place_up_to_four_times) {
    void *p = make(device, 4 * MIB), *next = make(device, 4 * MIB);
    mark(device, p, 4 * MIB, 1);
    mark(device, next, 4 * MIB, 2);
    for (size_t bytes = 5 * MIB; bytes <= 16 * MIB; bytes += MIB + MIB / 2) {
        void *to = change(device, p, bytes, NULL);
        if (has_vmm(device))
            assert_ptr_equal(to, p);
        p = to;
        expect_block(device, p, bytes);
        expect_marks(device, p, 4 * MIB, bytes, 1);
        assert_int_equal(api_stats(device).mem_bytes, bytes + 4 * MIB);
        assert_int_equal(api_stats(device).mem_blocks, 2);
        mark(device, (char *)p + 4 * MIB, bytes - 4 * MIB, 3); /* all bytes are mapped */
    }
    expect_marks(device, next, 4 * MIB, 4 * MIB, 2);
    if (has_vmm(device)) {
        assert_int_equal(api_stats(device).vec_moves, 0);
        assert_int_equal(api_stats(device).grow_copied_bytes, 0);
    } else {
        assert_true(api_stats(device).grow_copied_bytes >= 4 * MIB);
    }
    api_ok(acre_mem_free(device, p));
    api_ok(acre_mem_free(device, next));
}

API_TEST(realloc_past_its_addresses_moves_without_copying) {
    void *p = make(device, 2 * MIB), *next = make(device, 2 * MIB);
    p = change(device, p, 6 * MIB, NULL); /* has two chunks now */
    mark(device, p, 6 * MIB, 7);
    mark(device, next, 2 * MIB, 8);
    acre_device_stats before = api_stats(device);
    void *to = change(device, p, 21 * MIB, NULL);
    assert_ptr_not_equal(to, p);
    expect_block(device, to, 21 * MIB);
    expect_marks(device, to, 6 * MIB, 21 * MIB, 7);
    expect_marks(device, next, 2 * MIB, 2 * MIB, 8);
    mark(device, to, 21 * MIB, 9);
    api_expect(acre_mem_free(device, p), ACRE_E_POINTER); /* the old block was freed */
    acre_device_stats after = api_stats(device);
    if (has_vmm(device)) {
        assert_int_equal(after.vec_moves, before.vec_moves + 1);
        assert_int_equal(after.grow_copied_bytes, before.grow_copied_bytes);
        assert_int_equal(after.chunk_bytes - after.chunk_cached_bytes, 24 * MIB);
    }
    assert_int_equal(after.mem_blocks, 2);
    assert_int_equal(after.mem_bytes, 23 * MIB);
    api_ok(acre_mem_free(device, to));
    api_ok(acre_mem_free(device, next));
}

API_TEST(realloc_to_less_gives_whole_chunks_back) {
    void *p = make(device, 4 * MIB);
    p = change(device, p, 6 * MIB, NULL);
    p = change(device, p, 12 * MIB, NULL);
    mark(device, p, 12 * MIB, 5);
    const struct {
        size_t bytes, memory;
    } steps[] = {{12 * MIB - 1, 12 * MIB}, {7 * MIB, 12 * MIB}, {6 * MIB, 6 * MIB},
                 {4 * MIB + 1, 6 * MIB},   {2 * MIB, 4 * MIB},  {4 * MIB, 4 * MIB}};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        void *to = change(device, p, steps[i].bytes, NULL);
        if (has_vmm(device)) {
            acre_device_stats stats = api_stats(device);
            assert_ptr_equal(to, p);
            assert_int_equal(stats.chunk_bytes - stats.chunk_cached_bytes, steps[i].memory);
        }
        p = to;
        expect_block(device, p, steps[i].bytes);
        expect_marks(device, p, 12 * MIB, 2 * MIB, 5);
    }
    api_ok(acre_mem_free(device, p));
}

TEST(realloc_of_small_blocks_copies) {
    const size_t sizes[] = {64, 5000, 4 * KIB, MIB, 3 * MIB, 2 * MIB - 1, 100, 2 * MIB, 72};
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_stream stream;
        api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &stream));
        void *p = make(device, 64);
        uint64_t copied = 0;
        size_t has = 64;
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            mark(device, p, has, i);
            size_t least = has < sizes[i] ? has : sizes[i];
            p = change(device, p, sizes[i], stream);
            copied += least;
            expect_block(device, p, sizes[i]);
            expect_marks(device, p, has, least, i);
            assert_int_equal(api_stats(device).grow_copied_bytes, copied);
            assert_int_equal(api_stats(device).mem_blocks, 1);
            has = sizes[i];
        }
        api_ok(acre_mem_free(device, p));
        api_ok(acre_close(device));
    }
}

TEST(realloc_at_random_keeps_contents) {
    enum { BLOCKS = 4 };
    uint64_t random = random_seed("random");
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        void *blocks[BLOCKS] = {NULL};
        size_t sizes[BLOCKS] = {0};
        for (uint64_t i = 0; i < 150; i++) {
            size_t k = random_draw(&random, BLOCKS);
            size_t bytes = 8 + random_draw(&random, random_draw(&random, 2) ? 24 * MIB : 3 * MIB);
            void *to = change(device, blocks[k], bytes, NULL);
            if (sizes[k])
                expect_marks(device, to, sizes[k], bytes < sizes[k] ? bytes : sizes[k], k);
            blocks[k] = to;
            sizes[k] = bytes;
            mark(device, to, bytes, k);
        }
        for (size_t k = 0; k < BLOCKS; k++)
            api_ok(acre_mem_free(device, blocks[k]));
        api_ok(acre_trim(device));
        acre_device_stats stats = api_stats(device);
        assert_int_equal(stats.chunks + stats.address_bytes + stats.limbo_count, 0);
        api_ok(acre_close(device));
    }
}

/* ---- failures ---- */

/* The detail has the requested bytes, and the free or total bytes. */
static void expect_detail(acre_device *device) {
    if (!has_vmm(device))
        return; /* the driver reports no figures */
    assert_non_null(strstr(acre_last_detail(), " bytes requested, "));
    assert_true(strstr(acre_last_detail(), " are free") || strstr(acre_last_detail(), " in all"));
}

API_TEST(realloc_past_the_device_leaves_the_block) {
    const size_t sizes[] = {4096, 6 * MIB};
    for (size_t i = 0; i < 2; i++) {
        void *p = make(device, sizes[i]), *to = p;
        mark(device, p, sizes[i], i);
        size_t much = (size_t)total_bytes(device) + 2 * MIB;
        api_expect(acre_mem_realloc(device, p, much, NULL, &to), ACRE_E_DEVICE_MEMORY);
        assert_null(to);
        expect_detail(device);
        /* Requests nearly all of the device while another block holds half of it. */
        void *rest = make(device, (much / 2 + MIB) / (2 * MIB) * (2 * MIB));
        api_expect(acre_mem_realloc(device, p, much - 4 * MIB, NULL, &to), ACRE_E_DEVICE_MEMORY);
        assert_null(to);
        expect_detail(device);
        api_ok(acre_mem_free(device, rest));
        expect_block(device, p, sizes[i]);
        expect_marks(device, p, sizes[i], sizes[i], i);
        api_expect(acre_mem_realloc(device, p, (size_t)1 << 62, NULL, &to), ACRE_E_DEVICE_MEMORY);
        assert_null(to);
        p = change(device, p, sizes[i] + MIB, NULL);
        expect_marks(device, p, sizes[i], sizes[i], i);
        api_ok(acre_mem_free(device, p));
    }
    api_ok(acre_trim(device));
    assert_int_equal(api_stats(device).chunks, 0);
}

TEST(realloc_within_a_limit_says_what_is_left) {
    setenv("ACRE_CHUNK_LIMIT_BYTES", "8MiB", 1);
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        void *p = make(device, 6 * MIB), *to = p;
        if (has_vmm(device)) {
            mark(device, p, 6 * MIB, 4);
            api_expect(acre_mem_realloc(device, p, 10 * MIB, NULL, &to), ACRE_E_LIMIT);
            assert_null(to);
            assert_non_null(strstr(acre_last_detail(), "2097152 bytes are left"));
            p = change(device, p, 8 * MIB, NULL);
            expect_marks(device, p, 6 * MIB, 8 * MIB, 4);
        }
        api_ok(acre_mem_free(device, p));
        api_ok(acre_close(device));
    }
    unsetenv("ACRE_CHUNK_LIMIT_BYTES");
}

TEST(realloc_with_wrong_arguments_is_refused) {
    static char page[64];
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        char *p = make(device, 4 * MIB);
        void *to = page, *freed = make(device, 4 * MIB);
        api_ok(acre_mem_free(device, freed));
        const struct {
            void *p;
            size_t bytes;
            acre_status wanted;
        } cases[] = {
            {p, SIZE_MAX, ACRE_E_DEVICE_MEMORY},  {NULL, SIZE_MAX, ACRE_E_DEVICE_MEMORY},
            {p + 1, 0, ACRE_E_INTERIOR},          {page, 0, ACRE_E_POINTER},
            {freed, 0, ACRE_E_POINTER},           {p + 1, 4096, ACRE_E_INTERIOR},
            {p + 2 * MIB, 4096, ACRE_E_INTERIOR}, {p + 4 * MIB - 1, 8 * MIB, ACRE_E_INTERIOR},
            {page, 4096, ACRE_E_POINTER},         {freed, 4096, ACRE_E_POINTER},
        };
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            to = page;
            api_expect(acre_mem_realloc(device, cases[i].p, cases[i].bytes, NULL, &to),
                       cases[i].wanted);
            assert_null(to);
        }
        api_expect(acre_mem_realloc(device, p, 4096, NULL, NULL), ACRE_E_NULL);
        expect_block(device, p, 4 * MIB);
        to = page;
        api_ok(acre_mem_realloc(device, NULL, 0, NULL, &to));
        assert_null(to);
        to = page;
        api_ok(acre_mem_realloc(device, p, 0, NULL, &to)); /* frees it */
        assert_null(to);
        api_expect(acre_mem_free(device, p), ACRE_E_POINTER);
        api_ok(acre_close(device));
    }
}

TEST(realloc_of_other_kinds_is_refused) {
    const int sorts[] = {SORT_PINNED, SORT_COMBINED, SORT_MAPPED, SORT_MANAGED, SORT_REGISTERED};
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        for (size_t i = 0; i < 5; i++) {
            struct api_buffer buffer = api_buffer_make(device, sorts[i], 4 * MIB);
            void *to = &to;
            buffer.at[0] = 9;
            api_expect(acre_mem_realloc(device, buffer.at, 8 * MIB, NULL, &to), ACRE_E_KIND);
            assert_null(to);
            assert_int_equal(buffer.at[0], 9);
            api_expect(acre_mem_set_access(device, buffer.at, device, ACRE_ACCESS_READ_WRITE),
                       ACRE_E_KIND);
            api_buffer_end(&buffer);
        }
        api_ok(acre_close(device));
    }
}

TEST(realloc_with_what_another_device_has_is_refused) {
    acre_device *devices[2];
    api_open_two(devices);
    acre_stream other;
    void *p = make(devices[0], 4 * MIB), *to = p;
    api_ok(acre_stream_create(devices[1], ACRE_STREAM_DEFAULT, &other));
    api_expect(acre_mem_realloc(devices[1], p, 8 * MIB, NULL, &to), ACRE_E_HANDLE);
    assert_null(to);
    api_expect(acre_mem_realloc(devices[0], p, 8 * MIB, other, &to), ACRE_E_HANDLE);
    assert_null(to);
    expect_block(devices[0], p, 4 * MIB);
    api_ok(acre_close(devices[1]));
    api_ok(acre_close(devices[0]));
}

/* ---- stream order ---- */

/* The block holds the results of earlier work on the stream, whether it grew in place, moved or was
 * copied. */
TEST(realloc_comes_after_the_work_of_its_stream) {
    const struct {
        size_t from, to;
    } cases[] = {{4096, 8192},        {4 * MIB, 4096},    {MIB, 4 * MIB},       {4 * MIB, 40 * MIB},
                 {4 * MIB, 16 * MIB}, {8 * MIB, 2 * MIB}, {16 * MIB, 100 * MIB}};
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_stream stream;
        api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &stream));
        void *load = make(device, 64 * MIB);
        unsigned char *back = malloc(16 * MIB);
        assert_non_null(back);
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            void *p = make(device, cases[i].from), *to = NULL;
            size_t least = cases[i].from < cases[i].to ? cases[i].from : cases[i].to;
            for (int k = 0; k < 4; k++)
                api_ok(acre_fill(device, load, (uint8_t)k, 64 * MIB, stream));
            api_ok(acre_fill(device, p, (uint8_t)(i + 1), cases[i].from, stream));
            api_ok(acre_mem_realloc(device, p, cases[i].to, stream, &to));
            api_ok(acre_copy(device, back, to, least, stream));
            api_ok(acre_stream_sync(device, stream));
            assert_int_equal(back[0], i + 1);
            assert_memory_equal(back, back + 1, least - 1);
            api_ok(acre_mem_free(device, to));
        }
        free(back);
        api_ok(acre_mem_free(device, load));
        api_ok(acre_close(device));
    }
}

/* ---- threads ---- */

enum { THREADS = 4 };

struct worker {
    acre_device *device;
    uint64_t random;
    void *p; /* shared by all threads; NULL: each thread has its own */
    int is_wrong;
};

static void *work_on_own(void *argument) {
    struct worker *me = argument;
    void *p = NULL;
    size_t has = 0;
    for (int i = 0; i < 60 && !me->is_wrong; i++) {
        size_t bytes = 8 + random_draw(&me->random, 9 * MIB);
        uint64_t word = me->random, got = 0;
        if (has)
            me->is_wrong |= acre_copy_sync(me->device, p, &word, 8) != ACRE_OK;
        me->is_wrong |= acre_mem_realloc(me->device, p, bytes, NULL, &p) != ACRE_OK;
        if (has && !me->is_wrong)
            me->is_wrong = acre_copy_sync(me->device, &got, p, 8) != ACRE_OK || got != word;
        has = bytes;
    }
    me->is_wrong |= acre_mem_free(me->device, p) != ACRE_OK;
    return NULL;
}

/* Mapping keeps the block in place, so its address never changes. One thread at a time may change
 * its size. */
static void *work_on_one(void *argument) {
    struct worker *me = argument;
    for (int i = 0; i < 60 && !me->is_wrong; i++) {
        void *to = NULL;
        size_t bytes = 2 * MIB + random_draw(&me->random, 6 * MIB);
        acre_status status = acre_mem_realloc(me->device, me->p, bytes, NULL, &to);
        me->is_wrong = status == ACRE_OK ? to != me->p : status != ACRE_E_BUSY || to;
    }
    return NULL;
}

static void run_threads(acre_device *device, void *(*run)(void *), void *p) {
    uint64_t seed = random_seed("threads");
    pthread_t threads[THREADS];
    struct worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){device, random_draw(&seed, UINT64_MAX), p, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, run, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(workers[i].is_wrong, 0);
}

API_TEST(realloc_by_threads_together_keeps_contents) {
    run_threads(device, work_on_own, NULL);
    if (has_vmm(device)) {
        void *p = make(device, 2 * MIB);
        mark(device, p, 2 * MIB, 6);
        run_threads(device, work_on_one, p);
        expect_marks(device, p, 2 * MIB, 2 * MIB, 6);
        api_ok(acre_mem_free(device, p));
    }
    api_ok(acre_trim(device));
    acre_device_stats stats = api_stats(device);
    assert_int_equal(stats.mem_blocks + stats.chunks + stats.limbo_count, 0);
}

/* ---- access ---- */

TEST(access_of_a_peer_is_given_and_taken) {
    acre_device *devices[2];
    api_open_two(devices);
    void *p = make(devices[0], 4 * MIB), *there = make(devices[1], 4 * MIB), *next;
    if (has_vmm(devices[0])) {
        mark(devices[0], p, 4 * MIB, 3);
        api_ok(acre_mem_set_access(devices[0], p, devices[1], ACRE_ACCESS_READ_WRITE));
        next = make(devices[0], 4 * MIB); /* forces a move */
        p = change(devices[0], p, 24 * MIB, NULL);
        api_ok(acre_fill_sync(devices[1], (char *)p + 20 * MIB, 7, 4 * MIB));
        api_ok(acre_mem_set_access(devices[0], p, devices[1], ACRE_ACCESS_READ));
        api_ok(acre_mem_set_access(devices[0], p, devices[1], ACRE_ACCESS_NONE));
        api_ok(acre_mem_set_access(devices[0], p, devices[1], ACRE_ACCESS_NONE));
        expect_marks(devices[0], p, 4 * MIB, 4 * MIB, 3);
        uint64_t word = 0;
        api_ok(acre_copy_sync(devices[0], &word, (char *)p + 24 * MIB - 8, 8));
        assert_int_equal(word, 0x0707070707070707u);
        api_ok(acre_mem_free(devices[0], next));
    }
    api_ok(acre_mem_free(devices[0], p));
    api_ok(acre_mem_free(devices[1], there));
    api_ok(acre_close(devices[1]));
    api_ok(acre_close(devices[0]));
}

TEST(access_with_wrong_arguments_is_refused) {
    static char page[64];
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        char *p = make(device, 4 * MIB), *small = make(device, 4096);
        const struct {
            void *p;
            acre_device *peer;
            int access;
            acre_status wanted;
        } cases[] = {
            {NULL, device, ACRE_ACCESS_READ, ACRE_E_NULL},
            {p, NULL, ACRE_ACCESS_READ, ACRE_E_NULL},
            {p, (acre_device *)page, ACRE_ACCESS_READ, ACRE_E_HANDLE},
            {p, device, 2, ACRE_E_INVALID},
            {p, device, -1, ACRE_E_INVALID},
            {p + 1, device, ACRE_ACCESS_READ, ACRE_E_INTERIOR},
            {page, device, ACRE_ACCESS_READ, ACRE_E_POINTER},
            {small, device, ACRE_ACCESS_READ, ACRE_E_KIND},
        };
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
            api_expect(acre_mem_set_access(device, cases[i].p, cases[i].peer,
                                           (acre_access)cases[i].access),
                       cases[i].wanted);
        api_expect(acre_mem_set_access(device, p, device, ACRE_ACCESS_READ_WRITE),
                   has_vmm(device) ? ACRE_OK : ACRE_E_KIND);
        api_ok(acre_mem_free(device, p));
        api_ok(acre_mem_free(device, small));
        api_ok(acre_close(device));
    }
}

/* ---- without virtual memory mapping ---- */

TEST(realloc_without_mapping_does_the_same) {
    if (getenv("ACRE_VMM"))
        skip(); /* already in that process */
    api_started_ok("plain", "ACRE_VMM=off");
}

int main(void) {
    return tests_run("realloc");
}
