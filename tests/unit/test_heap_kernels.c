/* The heap inside kernels of the soft device, with warps of 32 lanes and of 1, scheduled by threads
 * and by a seed: lanes served together, divergence, exhaustion, groups, and growth while a kernel
 * runs. */
#include <stdlib.h>
#include <string.h>

#include "support/rounds.h"
#include "unit/launch_fixture.h"

#include "heap/heap.h"

enum { THREADS = 96, MOST_BLOCKS = ROUNDS(64, 12) };

struct job {
    acre_heap_handle h;
    acre_heap *heap;
    uint32_t blocks, rounds;
    size_t (*bytes)(uint32_t i);
    unsigned char **at; /* one for each thread */
    _Atomic uint64_t nulls, damaged, count;
};

static uint32_t job_index(void) {
    return acre_soft_block_index(0) * THREADS + acre_soft_thread_index(0);
}

static void job_begin(struct job *job, uint64_t initial, uint64_t maximum,
                      size_t (*bytes)(uint32_t i)) {
    acre_heap_options options = {.struct_size = sizeof options,
                                 .initial_bytes = initial,
                                 .limit_bytes = maximum,
                                 .step_bytes = 4 << 20};
    memset(job, 0, sizeof *job);
    job->blocks = launch_is_seeded() ? ROUNDS(4, 1) : MOST_BLOCKS;
    job->bytes = bytes;
    job->at = calloc(MOST_BLOCKS * THREADS, sizeof *job->at);
    assert_non_null(job->at);
    assert_int_equal(acre_heap_create(launch_device, &options, &job->heap), ACRE_OK);
    assert_int_equal(acre_heap_get_handle(job->heap, &job->h), ACRE_OK);
}

static acre_heap_stats job_stats(struct job *job) {
    acre_heap_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(acre_heap_get_stats(job->heap, &stats), ACRE_OK);
    return stats;
}

/* Expects that all blocks and pages are free, and destroys the heap. */
static void job_end(struct job *job, uint64_t wrong_frees) {
    uint64_t blocks, bytes;
    acre_heap_stats stats = job_stats(job);
    assert_int_equal(job->damaged, 0);
    assert_int_equal(stats.double_frees + stats.foreign_frees + stats.interior_frees, wrong_frees);
    assert_int_equal(stats.live_blocks, 0);
    assert_int_equal(acre_heap_trim(job->heap, 0), ACRE_OK); /* also frees arenas' slabs */
    stats = job_stats(job);
    assert_int_equal(stats.free_bytes, stats.mapped_bytes);
    assert_int_equal(acre_heap_destroy(job->heap, &blocks, &bytes), ACRE_OK);
    assert_int_equal(blocks + bytes, 0);
    free(job->at);
}

static void job_run(struct job *job, acre_soft_kernel kernel) {
    launch_run(job->blocks, THREADS, 64, kernel, job);
}

/* ---- one block per thread ---- */

static size_t bytes_16(uint32_t i) {
    (void)i;
    return 16;
}
static size_t bytes_2000(uint32_t i) { /* a warp needs whole pages */
    (void)i;
    return 2000;
}
static size_t bytes_mixed(uint32_t i) {
    return 16 + i * 2654435761u % 2000;
}
static size_t bytes_pages(uint32_t i) {
    return i % 16 ? 100 : 40000 + i;
}

static void kernel_take(void *arg) {
    struct job *job = arg;
    uint32_t i = job_index();
    size_t bytes = job->bytes(i);
    unsigned char *p = acre_heap_malloc(job->h, bytes);
    job->at[i] = p;
    if (!p) {
        atomic_fetch_add(&job->nulls, 1);
        return;
    }
    memset(p, (int)(i * 7), bytes);
}

/* Checks and frees another thread's block. */
static void kernel_give(void *arg) {
    struct job *job = arg;
    uint32_t i = job_index() * 5 % (job->blocks * THREADS), is_damaged = 0;
    unsigned char *p = job->at[i];
    for (size_t k = 0; p && k < job->bytes(i); k++)
        is_damaged |= p[k] != (unsigned char)(i * 7);
    atomic_fetch_add(&job->damaged, is_damaged);
    acre_heap_free(job->h, p);
}

static void heap_kernels_take_and_give(void **state) {
    (void)state;
    static size_t (*const bytes[])(uint32_t) = {bytes_16, bytes_2000, bytes_mixed, bytes_pages};
    for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++) {
        struct job job;
        job_begin(&job, 32 << 20, 32 << 20, bytes[i]);
        for (int round = 0; round < ROUNDS(3, 2); round++) {
            job_run(&job, kernel_take);
            assert_int_equal(job.nulls, 0);
            assert_int_equal(job_stats(&job).live_blocks, job.blocks * THREADS);
            job_run(&job, kernel_give);
        }
        job_end(&job, 0);
    }
}

/* ---- until the heap is full ---- */

struct chain {
    struct chain *next;
};

static void kernel_fill(void *arg) {
    struct job *job = arg;
    struct chain *chain = NULL, *p;
    uint64_t count = 0;
    for (; (p = acre_heap_malloc(job->h, job->bytes(job_index()))); count++) {
        p->next = chain;
        chain = p;
    }
    job->at[job_index()] = (unsigned char *)chain;
    atomic_fetch_add(&job->count, count);
}

static void kernel_drain(void *arg) {
    struct job *job = arg;
    struct chain *chain = (struct chain *)(void *)job->at[job_index()];
    while (chain) {
        struct chain *next = chain->next;
        acre_heap_free(job->h, chain);
        chain = next;
    }
}

static void heap_kernels_fill_it_twice(void **state) {
    (void)state;
    const size_t heap = (size_t)(ROUNDS_ARE_FEW || launch_is_seeded() ? 2 : 4) << 20;
    static size_t (*const bytes[])(uint32_t) = {bytes_2000, bytes_mixed};
    int few = ROUNDS_ARE_FEW && launch_is_seeded();
    for (int i = 0; i < (few ? 1 : 2); i++) {
        struct job job;
        job_begin(&job, heap, heap, bytes[i]);
        if (launch_is_seeded()) /* a step visits all lanes, and a full heap takes many steps */
            job.blocks = ROUNDS(2, 1);
        for (int round = 0; round < 2; round++) {
            job.count = 0;
            job_run(&job, kernel_fill);
            assert_int_equal(job_stats(&job).live_blocks, job.count);
            if (i == 0)
                assert_true(job.count * 2048 >= heap / 100 * 97);
            job_run(&job, kernel_drain);
        }
        job_end(&job, 0);
    }
}

/* ---- groups ---- */

static void kernel_groups(void *arg) {
    struct job *job = arg;
    uint32_t i = job_index(), is_damaged = 0;
    void **slot = acre_soft_shared(), *whole;
    unsigned char *block = acre_heap_block_malloc(job->h, THREADS, slot);
    (void)acre_heap_block_memset(block, 0x5a, THREADS);
    is_damaged |= block[THREADS - 1 - acre_soft_thread_index(0)] != 0x5a;
    acre_heap_block_free(job->h, block);
    uint32_t mask = acre_soft_ballot(launch_lanes() == 32 ? 0xffffffffu : 1, i % 3 != 0);
    if (i % 3) { /* some lanes of each warp */
        unsigned char *part = acre_heap_coalesced_malloc(job->h, mask, 1 + i % 40, &whole);
        memset(part, (int)i, 1 + i % 40);
        uint32_t *mine = acre_heap_warp_malloc(job->h, mask, 400);
        (void)acre_heap_warp_memset(mask, mine, 1, 400);
        is_damaged |= mine[99 - i % 32] != 0x01010101;
        is_damaged |= part[0] != (unsigned char)i || part[i % 40] != (unsigned char)i;
        acre_heap_warp_free(job->h, mask, mine);
        acre_heap_warp_free(job->h, mask, whole);
    } else {
        /* All of these blocks fit into the heap at once: the number of concurrent lanes depends on
         * the machine. */
        size_t count = i % 512 + 1;
        unsigned char *own = acre_heap_calloc(job->h, 10, count);
        own = acre_heap_realloc(job->h, own, 20 * count);
        is_damaged |= own[10 * count - 1] != 0;
        acre_heap_free(job->h, own);
    }
    atomic_fetch_add(&job->damaged, is_damaged);
}

static void heap_kernels_share_blocks_in_groups(void **state) {
    (void)state;
    struct job job;
    job_begin(&job, 32 << 20, 32 << 20, NULL);
    job_run(&job, kernel_groups);
    job_end(&job, 0);
}

/* ---- arenas ---- */

/* Each thread takes blocks from the arena, the last ones from the heap, and fills them. */
static uint32_t arena_use(struct job *job, acre_heap_block_arena *arena, uint32_t round) {
    unsigned char *at[8];
    uint32_t thread = acre_soft_thread_index(0), is_damaged = 0;
    for (uint32_t i = 0; i < 8; i++) {
        size_t bytes = (thread * 7 + i * 5 + round) % 50;
        at[i] = acre_heap_block_arena_malloc(job->h, arena, bytes);
        if (!at[i]) {
            is_damaged = 1;
            continue;
        }
        is_damaged |= (uintptr_t)at[i] % 16 != 0;
        memset(at[i], (int)(thread + i), bytes);
        int is_inside = arena->base && at[i] >= (unsigned char *)arena->base &&
                        at[i] < (unsigned char *)arena->base + arena->bytes;
        atomic_fetch_add(&job->count, !is_inside);
    }
    acre_soft_syncthreads(); /* all have written */
    for (uint32_t i = 0; i < 8; i++) {
        size_t bytes = (thread * 7 + i * 5 + round) % 50;
        for (size_t k = 0; at[i] && k < bytes; k++)
            is_damaged |= at[i][k] != (unsigned char)(thread + i);
    }
    return is_damaged;
}

static void kernel_arena(void *arg) {
    struct job *job = arg;
    acre_heap_block_arena *arena = acre_soft_shared();
    uint32_t is_damaged = !acre_heap_block_arena_open(job->h, arena, 16 << 10);
    for (uint32_t round = 0; round < 3; round++) {
        is_damaged |= arena_use(job, arena, round);
        acre_heap_block_arena_reset(job->h, arena);
    }
    is_damaged |= arena_use(job, arena, 3);
    is_damaged |= acre_heap_block_arena_malloc(job->h, arena, SIZE_MAX) != NULL;
    acre_heap_block_arena_reset(job->h, arena);
    /* What does not fit takes nothing of the arena. */
    if (acre_soft_thread_index(0) == 0) {
        (void)acre_heap_block_arena_malloc(job->h, arena, 16);
        (void)acre_heap_block_arena_malloc(job->h, arena, (size_t)arena->bytes);
        is_damaged |= acre_heap_block_arena_malloc(job->h, arena, 16) != arena->base + 16;
    }
    acre_heap_block_arena_close(job->h, arena);
    is_damaged |= arena->base != NULL;
    atomic_fetch_add(&job->damaged, is_damaged);
}

/* A thread block takes about 23 KiB from an arena of 16 KiB: part of it comes from the heap.
 */
static void heap_kernels_use_arenas_of_their_blocks(void **state) {
    (void)state;
    struct job job;
    job_begin(&job, 32 << 20, 32 << 20, NULL);
    job_run(&job, kernel_arena);
    assert_true(job.count > 0);
    assert_true(job.count < (uint64_t)job.blocks * THREADS * 8 * 4 / 2);
    job_end(&job, 0);
}

/* An arena that got no memory is empty: allocations come from the heap, as far as they fit. */
static void kernel_arena_of_nothing(void *arg) {
    struct job *job = arg;
    acre_heap_block_arena *arena = acre_soft_shared();
    uint32_t is_damaged = acre_heap_block_arena_open(job->h, arena, (size_t)1 << 40) != 0;
    unsigned char *p = acre_heap_block_arena_malloc(job->h, arena, 100);
    is_damaged |= !p;
    if (p)
        memset(p, 1, 100);
    is_damaged |= acre_heap_block_arena_malloc(job->h, arena, (size_t)1 << 40) != NULL;
    acre_heap_block_arena_close(job->h, arena);
    atomic_fetch_add(&job->damaged, is_damaged);
}

static void heap_kernels_open_arenas_without_memory(void **state) {
    (void)state;
    struct job job;
    job_begin(&job, 32 << 20, 32 << 20, NULL);
    job.blocks = 2;
    job_run(&job, kernel_arena_of_nothing);
    job_end(&job, 0);
}

/* ---- wrong frees ---- */

static void kernel_wrong(void *arg) {
    struct job *job = arg;
    acre_heap_free(job->h, job->at[0]); /* every thread frees it */
    acre_heap_free(job->h, job->at[1] + 16);
    acre_heap_free(job->h, NULL);
}

static void heap_kernels_free_wrongly_and_it_is_counted(void **state) {
    (void)state;
    struct job job;
    job_begin(&job, 32 << 20, 32 << 20, bytes_mixed);
    job_run(&job, kernel_take);
    job_run(&job, kernel_wrong);
    uint64_t threads = job.blocks * THREADS;
    acre_heap_stats stats = job_stats(&job);
    assert_int_equal(stats.double_frees, threads - 1);
    assert_int_equal(stats.interior_frees, threads);
    job.at[0] = NULL;
    job_run(&job, kernel_give);
    job_end(&job, 2 * threads - 1);
}

/* ---- several warps free the same blocks at once ---- */

static size_t bytes_2048(uint32_t i) {
    (void)i;
    return 2048;
}

static void kernel_take_32(void *arg) {
    struct job *job = arg;
    job->at[acre_soft_thread_index(0)] = acre_heap_malloc(job->h, 2048);
}

static void kernel_give_32(void *arg) {
    struct job *job = arg;
    acre_heap_free(job->h, job->at[acre_soft_thread_index(0)]);
}

static void heap_kernels_free_the_same_at_once_and_it_is_counted(void **state) {
    (void)state;
    enum { WARPS = 4 };
    struct job job;
    uint64_t rounds = launch_is_seeded() ? 10 : ROUNDS(400, 50);
    job_begin(&job, 8 << 20, 8 << 20, bytes_2048);
    for (uint64_t i = 0; i < rounds; i++) {
        launch_run(1, 32, 0, kernel_take_32, &job);
        launch_run(WARPS, 32, 0, kernel_give_32, &job);
        acre_heap_stats stats = job_stats(&job);
        assert_int_equal(stats.live_blocks, 0);
        assert_int_equal(stats.double_frees, (WARPS - 1) * 32 * (i + 1));
    }
    job_end(&job, (WARPS - 1) * 32 * rounds);
}

/* ---- growth ---- */

static size_t bytes_5000(uint32_t i) {
    (void)i;
    return 5000;
}

static void heap_kernels_run_on_while_it_grows(void **state) {
    (void)state;
    struct job job;
    job_begin(&job, 2 << 20, 48 << 20, bytes_5000);
    job_run(&job, kernel_take);
    assert_int_equal(job.nulls, 0);
    acre_heap_stats stats = job_stats(&job);
    assert_true(stats.grows >= 1 && stats.grows == stats.asks);
    job_run(&job, kernel_give);
    job_end(&job, 0);
    /* At the maximum, requests fail at once. */
    job_begin(&job, 2 << 20, 16 << 20, bytes_5000);
    job_run(&job, kernel_fill);
    assert_true(job.count * 6144 >= (16 << 20) / 100 * 97);
    assert_int_equal(job_stats(&job).mapped_bytes, 16 << 20);
    job_run(&job, kernel_drain);
    job_end(&job, 0);
}

#define HEAP_ALL(setup, end)                                                                       \
    LAUNCH_TEST(heap_kernels_take_and_give, setup, end),                                           \
        LAUNCH_TEST(heap_kernels_fill_it_twice, setup, end),                                       \
        LAUNCH_TEST(heap_kernels_use_arenas_of_their_blocks, setup, end),                          \
        LAUNCH_TEST(heap_kernels_open_arenas_without_memory, setup, end),                          \
        LAUNCH_TEST(heap_kernels_share_blocks_in_groups, setup, end),                              \
        LAUNCH_TEST(heap_kernels_free_wrongly_and_it_is_counted, setup, end),                      \
        LAUNCH_TEST(heap_kernels_free_the_same_at_once_and_it_is_counted, setup, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        HEAP_ALL(launch_setup_32, launch_teardown),
        HEAP_ALL(launch_setup_1, launch_teardown),
        HEAP_ALL(launch_setup_seed_32, launch_teardown),
        HEAP_ALL(launch_setup_seed_1, launch_teardown),
        LAUNCH_TEST(heap_kernels_run_on_while_it_grows, launch_setup_32, launch_teardown),
        LAUNCH_TEST(heap_kernels_run_on_while_it_grows, launch_setup_1, launch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
