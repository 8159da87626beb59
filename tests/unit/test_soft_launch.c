/* Kernels of the soft device: indices, barriers, shared memory, lanes, misuse, seeds, and access to
 * device memory. Tests that do not depend on the warp size or scheduling run with warps of 32 and
 * of 1, by threads and by a seed. */
#include "support/rounds.h"
#include "unit/launch_fixture.h"

#include "base/lock.h"
#include "soft/sched.h"

/* ---- indices ---- */

enum { GRID_X = 3, GRID_Y = 4, GRID_Z = 5, BLOCK_X = 5, BLOCK_Y = 4, BLOCK_Z = 3 };
enum { GRID = GRID_X * GRID_Y * GRID_Z, BLOCK = BLOCK_X * BLOCK_Y * BLOCK_Z };

struct indices {
    _Atomic unsigned count[GRID * BLOCK];
    _Atomic unsigned wrong_sizes;
};

static void kernel_indices(void *arg) {
    struct indices *all = arg;
    uint32_t g[3], b[3], gi[3], bi[3];
    for (uint32_t i = 0; i < 3; i++) {
        g[i] = acre_soft_grid_size(i);
        b[i] = acre_soft_block_size(i);
        gi[i] = acre_soft_block_index(i);
        bi[i] = acre_soft_thread_index(i);
    }
    if (g[0] != GRID_X || g[1] != GRID_Y || g[2] != GRID_Z || b[0] != BLOCK_X || b[1] != BLOCK_Y ||
        b[2] != BLOCK_Z || acre_soft_thread_index(3) != 0 || acre_soft_block_size(3) != 1)
        atomic_fetch_add(&all->wrong_sizes, 1);
    uint32_t block = gi[0] + GRID_X * (gi[1] + GRID_Y * gi[2]);
    uint32_t thread = bi[0] + BLOCK_X * (bi[1] + BLOCK_Y * bi[2]);
    if (acre_soft_lane() != thread % launch_lanes())
        atomic_fetch_add(&all->wrong_sizes, 1);
    atomic_fetch_add(&all->count[block * BLOCK + thread], 1);
}

static void launch_grid_every_index_once(void **state) {
    (void)state;
    struct indices *all = calloc(1, sizeof *all);
    assert_non_null(all);
    launch_run3((uint32_t[]){GRID_X, GRID_Y, GRID_Z}, (uint32_t[]){BLOCK_X, BLOCK_Y, BLOCK_Z}, 0,
                kernel_indices, all);
    for (size_t i = 0; i < GRID * BLOCK; i++)
        assert_int_equal(all->count[i], 1);
    assert_int_equal(all->wrong_sizes, 0);
    free(all);
}

static void kernel_count(void *arg) {
    atomic_fetch_add((_Atomic uint64_t *)arg, 1 + acre_soft_block_index(0));
}

static void launch_many_blocks_all_run(void **state) {
    (void)state;
    _Atomic uint64_t sum = 0;
    uint64_t blocks = launch_is_seeded() ? 500 : 20000;
    launch_run((uint32_t)blocks, 1, 0, kernel_count, (void *)&sum);
    assert_int_equal(sum, blocks * (blocks + 1) / 2);
}

/* ---- the block ---- */

struct reversal {
    _Atomic unsigned wrong, blocks;
};

/* Writes to shared memory and reads what the thread at the other end wrote. Three rounds show a
 * barrier that lets a thread through too early. */
static void kernel_reverse(void *arg) {
    struct reversal *result = arg;
    uint32_t *shared = acre_soft_shared();
    uint32_t me = acre_soft_thread_index(0), n = acre_soft_block_size(0);
    uint32_t block = acre_soft_block_index(0);
    if ((uintptr_t)shared % 128)
        atomic_fetch_add(&result->wrong, 1);
    for (uint32_t round = 0; round < 3; round++) {
        shared[me] = block * 10000 + me * 3 + round;
        acre_soft_syncthreads();
        if (shared[n - 1 - me] != block * 10000 + (n - 1 - me) * 3 + round)
            atomic_fetch_add(&result->wrong, 1);
        acre_soft_syncthreads();
    }
    if (me == 0)
        atomic_fetch_add(&result->blocks, 1);
}

static void launch_barrier_orders_shared_memory(void **state) {
    (void)state;
    const uint32_t sizes[] = {1, 2, 31, 33, 64, 100};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct reversal result = {0};
        launch_run(6, sizes[i], sizes[i] * sizeof(uint32_t), kernel_reverse, &result);
        assert_int_equal(result.wrong, 0);
        assert_int_equal(result.blocks, 6);
    }
}

static void launch_largest_block_works(void **state) {
    (void)state;
    enum { BLOCKS = ROUNDS(2, 1) };
    struct reversal result = {0};
    launch_run(BLOCKS, 1024, 1024 * sizeof(uint32_t), kernel_reverse, &result);
    assert_int_equal(result.wrong, 0);
    assert_int_equal(result.blocks, BLOCKS);
}

/* A third of the threads end before each barrier. */
static void kernel_end_early(void *arg) {
    uint32_t me = acre_soft_thread_index(0);
    if (me % 3 == 0)
        return;
    acre_soft_syncthreads();
    if (me % 3 == 1)
        return;
    acre_soft_syncthreads();
    atomic_fetch_add((_Atomic unsigned *)arg, 1);
}

static void launch_barrier_passes_without_ended_threads(void **state) {
    (void)state;
    _Atomic unsigned last = 0;
    launch_run(4, 90, 0, kernel_end_early, (void *)&last);
    assert_int_equal(last, 4 * 30);
}

struct flag_wait {
    _Atomic unsigned flag, done;
};

/* The first thread waits for the last one. */
static void kernel_wait_for_last(void *arg) {
    struct flag_wait *shared = arg;
    uint32_t me = acre_soft_thread_index(0);
    if (me == 0)
        while (!atomic_load(&shared->flag))
            acre_soft_yield();
    if (me == acre_soft_block_size(0) - 1)
        atomic_store(&shared->flag, 1);
    atomic_fetch_add(&shared->done, 1);
}

static void launch_yield_lets_others_run(void **state) {
    (void)state;
    for (uint32_t threads = 2; threads <= 128; threads *= 4) {
        struct flag_wait shared = {0};
        launch_run(1, threads, 0, kernel_wait_for_last, &shared);
        assert_int_equal(shared.done, threads);
    }
}

/* ---- the warp ---- */

struct lanes {
    _Atomic unsigned wrong, ran;
    /* Updated differently in each branch, so that the compiler does not merge the branches. */
    _Atomic unsigned ways[2];
};

static void lanes_expect(struct lanes *lanes, int is_right) {
    if (!is_right)
        atomic_fetch_add(&lanes->wrong, 1);
}

static uint32_t lanes_mask(void) {
    uint32_t first = acre_soft_thread_index(0) / 32 * 32;
    uint32_t left = acre_soft_block_size(0) - first;
    return left >= 32 ? UINT32_MAX : ((uint32_t)1 << left) - 1;
}

static void kernel_collectives(void *arg) {
    struct lanes *lanes = arg;
    uint32_t lane = acre_soft_lane(), mask = lanes_mask();
    for (uint32_t round = 0; round < 4; round++) {
        uint32_t odd = 0xaaaaaaaau & mask;
        lanes_expect(lanes, acre_soft_ballot(mask, lane & 1) == odd);
        lanes_expect(lanes, acre_soft_match_any(mask, UINT64_MAX - (lane & 1)) ==
                                (lane & 1 ? odd : mask & ~odd));
        uint32_t from = (uint32_t)__builtin_popcount(mask) - 1 - lane;
        lanes_expect(lanes, acre_soft_shfl(mask, (uint64_t)lane << 40 | round, from + 32) ==
                                ((uint64_t)from << 40 | round));
        acre_soft_syncwarp(mask);
    }
    atomic_fetch_add(&lanes->ran, 1);
}

static void launch_lanes_collectives_agree(void **state) {
    (void)state;
    const uint32_t sizes[] = {1, 32, 40, 95};
    for (size_t i = 0; i < 4; i++) {
        struct lanes lanes = {0};
        launch_run(3, sizes[i], 0, kernel_collectives, &lanes);
        assert_int_equal(lanes.wrong, 0);
        assert_int_equal(lanes.ran, 3 * sizes[i]);
    }
}

/* Groups of lanes take different branches and run their own collectives at the same time. Lane 31,
 * the source of the shuffle, is in group 1. */
static void kernel_diverge(void *arg) {
    struct lanes *lanes = arg;
    uint32_t lane = acre_soft_lane(), group = lane % 3;
    uint32_t mask = acre_soft_match_any(UINT32_MAX, group);
    for (uint32_t round = 0; round < 10 * (group + 1); round++) {
        if (group == 0)
            lanes_expect(lanes, acre_soft_ballot(mask, lane < 16) == (mask & 0xffff));
        else if (group == 1)
            lanes_expect(lanes, acre_soft_shfl(mask, lane, 31) == 31);
        else
            acre_soft_syncwarp(mask);
    }
    acre_soft_syncwarp(UINT32_MAX);
    atomic_fetch_add(&lanes->ran, 1);
}

static void launch_lanes_diverge_and_meet(void **state) {
    (void)state;
    struct lanes lanes = {0};
    launch_run(4, 64, 0, kernel_diverge, &lanes);
    assert_int_equal(lanes.wrong, 0);
    assert_int_equal(lanes.ran, 4 * 64);
}

static void kernel_active(void *arg) {
    struct lanes *lanes = arg;
    uint32_t lane = acre_soft_lane(), bit = (uint32_t)1 << lane, mask, wanted;
    if (lane % 4 == 0) {
        atomic_fetch_add(&lanes->ways[0], 1);
        mask = acre_soft_activemask();
        atomic_fetch_add(&lanes->ways[0], 2);
        wanted = 0x11111111;
    } else {
        atomic_fetch_or(&lanes->ways[1], 1);
        mask = acre_soft_activemask();
        atomic_fetch_xor(&lanes->ways[1], 2);
        wanted = 0xeeeeeeee;
    }
    lanes_expect(lanes, mask & bit && !(mask & ~wanted));
    if (!launch_is_seeded())
        lanes_expect(lanes, mask == wanted);
    /* The lanes of one activemask can make further collective calls. */
    lanes_expect(lanes, acre_soft_ballot(mask, 1) == mask);
    uint32_t leader = (uint32_t)__builtin_ctz(mask);
    lanes_expect(lanes, acre_soft_shfl(mask, lane, leader) == leader);
    atomic_fetch_add(&lanes->ran, 1);
}

static void launch_lanes_activemask_is_who_came_together(void **state) {
    (void)state;
    struct lanes lanes = {0};
    launch_run(4, 96, 0, kernel_active, &lanes);
    assert_int_equal(lanes.wrong, 0);
    assert_int_equal(lanes.ran, 4 * 96);
}

/* Lane i makes i rounds: each round has fewer active lanes, and never lanes that have ended. */
static void kernel_active_loop(void *arg) {
    struct lanes *lanes = arg;
    uint32_t lane = acre_soft_lane();
    for (uint32_t round = 0; round < lane; round++) {
        uint32_t mask = acre_soft_activemask();
        lanes_expect(lanes, mask >> lane & 1);
        if (!launch_is_seeded())
            lanes_expect(lanes, mask == (uint32_t)(~(uint64_t)0 << (round + 1)));
        acre_soft_syncwarp(mask);
    }
    atomic_fetch_add(&lanes->ran, 1);
}

static void launch_lanes_loop_different_times(void **state) {
    (void)state;
    struct lanes lanes = {0};
    launch_run(2, 64, 0, kernel_active_loop, &lanes);
    assert_int_equal(lanes.wrong, 0);
    assert_int_equal(lanes.ran, 2 * 64);
}

/* Lane 0 spins until another lane returns from activemask: activemask must return although lane 0
 * is runnable. */
static void kernel_active_spin(void *arg) {
    struct flag_wait *shared = arg;
    if (acre_soft_lane() == 0) {
        while (!atomic_load(&shared->flag))
            acre_soft_yield();
    } else if (acre_soft_activemask()) {
        atomic_store(&shared->flag, 1);
    }
    atomic_fetch_add(&shared->done, 1);
}

static void launch_lanes_activemask_does_not_wait_for_spinners(void **state) {
    (void)state;
    struct flag_wait shared = {0};
    launch_run(1, 32, 0, kernel_active_spin, &shared);
    assert_int_equal(shared.done, 32);
}

/* ---- misuse ---- */

static void kernel_waits_for_ended(void *arg) {
    (void)arg;
    if (acre_soft_lane() != 5)
        (void)acre_soft_shfl(UINT32_MAX, 1, 5);
}

static void kernel_comes_after_ended(void *arg) {
    (void)arg;
    if (acre_soft_lane() == 31)
        (void)acre_soft_ballot(0x80000001, 1);
}

static void kernel_not_in_mask(void *arg) {
    (void)arg;
    acre_soft_syncwarp(~((uint32_t)1 << acre_soft_lane()));
}

static void kernel_shfl_outside(void *arg) {
    (void)arg;
    uint32_t mask = acre_soft_lane() < 16 ? 0xffff : 0xffff0000;
    (void)acre_soft_shfl(mask, 1, 20);
}

static void kernel_barrier_and_warp(void *arg) {
    (void)arg;
    if (acre_soft_lane() == 3)
        acre_soft_syncthreads();
    else
        acre_soft_syncwarp(UINT32_MAX);
}

static void kernel_different_calls(void *arg) {
    (void)arg;
    if (acre_soft_lane() & 1)
        (void)acre_soft_ballot(UINT32_MAX, 1);
    else
        (void)acre_soft_match_any(UINT32_MAX, 1);
}

static void kernel_different_masks(void *arg) {
    (void)arg;
    acre_soft_syncwarp(acre_soft_lane() & 1 ? UINT32_MAX : 0x55555557);
}

static void mistake_is_reported(acre_soft_kernel kernel, const char *words) {
    char text[512] = "";
    uint32_t grid[3] = {5, 1, 1}, block[3] = {64, 1, 1};
    acre_stream stream;
    assert_int_equal(acre_stream_create(launch_device, 0, &stream), ACRE_OK);
    assert_int_equal(acre_soft_launch(launch_device, stream, kernel, grid, block, 0, NULL),
                     ACRE_OK);
    assert_int_equal(acre_stream_sync(launch_device, stream), ACRE_E_DEVICE_LOST);
    assert_int_equal(acre__soft_reports(text, sizeof text), 1);
    if (!strstr(text, words))
        fail_msg("the report lacks \"%s\": \"%s\"", words, text);
    assert_int_equal(acre_soft_launch(launch_device, NULL, kernel, grid, block, 0, NULL),
                     ACRE_E_DEVICE_LOST);
    launch_reopen();
}

static void launch_mistakes_are_reported_and_end_it(void **state) {
    (void)state;
    mistake_is_reported(kernel_waits_for_ended, "ended");
    mistake_is_reported(kernel_comes_after_ended, "acre_soft_ballot");
    mistake_is_reported(kernel_not_in_mask, "the caller");
    mistake_is_reported(kernel_shfl_outside, "wants lane 20, which is not in it");
    mistake_is_reported(kernel_barrier_and_warp, "lanes 0x00000008 wait at a barrier");
    mistake_is_reported(kernel_different_calls, "do not match");
    mistake_is_reported(kernel_different_masks, "do not match");
    /* The device works after it is opened again. */
    launch_grid_every_index_once(state);
}

/* Other blocks wait at a barrier, or loop forever, when the misuse is found. */
static void kernel_one_block_is_wrong(void *arg) {
    (void)arg;
    if (acre_soft_block_index(0) == 0) {
        for (int i = 0; i < 200; i++) /* so that other blocks can begin */
            acre_soft_yield();
        acre_soft_syncwarp(0);
    }
    acre_soft_syncthreads();
    for (;;)
        acre_soft_yield();
}

static void launch_mistake_ends_other_blocks(void **state) {
    (void)state;
    mistake_is_reported(kernel_one_block_is_wrong, "block (0, 0, 0)");
}

static void launch_mistake_with_warps_of_one(void **state) {
    (void)state;
    mistake_is_reported(kernel_not_in_mask, "the caller");
    mistake_is_reported(kernel_shfl_outside, "ended");
    mistake_is_reported(kernel_one_block_is_wrong, "block (0, 0, 0)");
}

/* ---- plain threads ---- */

static void launch_plain_thread_is_a_warp_of_one(void **state) {
    (void)state;
    assert_int_equal(acre_soft_lane(), 0);
    assert_int_equal(acre_soft_activemask(), 1);
    assert_int_equal(acre_soft_match_any(1, 7), 1);
    assert_int_equal(acre_soft_shfl(1, 77, 0), 77);
    assert_int_equal(acre_soft_ballot(1, 5), 1);
    assert_int_equal(acre_soft_ballot(1, 0), 0);
    assert_int_equal(acre_soft_thread_index(0), 0);
    assert_int_equal(acre_soft_block_index(1), 0);
    assert_int_equal(acre_soft_block_size(2), 1);
    assert_int_equal(acre_soft_grid_size(0), 1);
    assert_true(acre_soft_sm() < 128);
    assert_null(acre_soft_shared());
    acre_soft_syncwarp(1);
    acre_soft_syncthreads();
    acre_soft_yield();
}

/* ---- device memory ---- */

struct memory {
    _Atomic uint32_t *at; /* device addresses */
    uint32_t count;
    _Atomic unsigned refused;
};

static void kernel_add(void *arg) {
    struct memory *memory = arg;
    uint32_t i = acre_soft_block_index(0) * acre_soft_block_size(0) + acre_soft_thread_index(0);
    if (i < memory->count)
        atomic_fetch_add(&memory->at[i], i);
    size_t free_bytes, total;
    if (acre__driver_soft()->cuMemGetInfo(&free_bytes, &total) == CUDA_ERROR_NOT_PERMITTED)
        atomic_fetch_add(&memory->refused, 1);
}

/* A kernel adds i to number i. The host faults on the memory before and after. */
static void memory_is_reached(uint64_t address, uint32_t times) {
    enum { COUNT = 300 };
    struct memory memory = {(_Atomic uint32_t *)(uintptr_t)address, COUNT, 0};
    uint32_t seen[COUNT];
    assert_true(soft_faults(address, 0));
    launch_run(10, 32, 0, kernel_add, &memory);
    assert_int_equal(memory.refused, 320);
    assert_true(soft_faults(address, 0));
    assert_int_equal(acre_copy_sync(launch_device, seen, (void *)(uintptr_t)address, sizeof seen),
                     ACRE_OK);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(seen[i], times * i);
}

static void launch_memory_plain_is_open_in_kernels_only(void **state) {
    (void)state;
    launch_driver_begin();
    for (size_t bytes = 4096; bytes <= 5 * MIB; bytes *= ROUNDS(32, 1024)) {
        CUdeviceptr at = 0;
        assert_ok(drv->cuMemAlloc(&at, bytes));
        assert_ok(drv->cuMemsetD8(at, 0, bytes));
        memory_is_reached(at, 1);
        memory_is_reached(at, 2);
        assert_ok(drv->cuMemFree(at));
        assert_true(soft_faults(at, 0));
    }
    launch_driver_end();
}

static void launch_memory_of_pools_is_open_in_kernels_only(void **state) {
    (void)state;
    launch_driver_begin();
    for (size_t bytes = 4096; bytes <= 5 * MIB; bytes *= ROUNDS(32, 1024)) {
        CUdeviceptr at = 0;
        assert_ok(drv->cuMemAllocAsync(&at, bytes, NULL));
        assert_ok(drv->cuMemsetD8(at, 0, bytes));
        assert_ok(drv->cuStreamSynchronize(NULL));
        memory_is_reached(at, 1);
        memory_is_reached(at, 2);
        assert_ok(drv->cuMemFreeAsync(at, NULL));
        assert_ok(drv->cuStreamSynchronize(NULL));
        assert_true(soft_faults(at, 0));
    }
    launch_driver_end();
}

static void launch_memory_mapped_is_open_in_kernels_only(void **state) {
    (void)state;
    launch_driver_begin();
    CUmemGenericAllocationHandle handle = soft_chunk(2 * CHUNK, 0);
    CUdeviceptr at = soft_map(handle, 2 * CHUNK, 0), twin = soft_map(handle, 2 * CHUNK, 0);
    memory_is_reached(at + CHUNK - 600, 1);
    memory_is_reached(twin + CHUNK - 600, 2);
    /* An exported chunk moves to another file. */
    int fd = -1;
    assert_ok(drv->cuMemExportToShareableHandle(&fd, handle,
                                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    memory_is_reached(at + CHUNK - 600, 3);
    close(fd);
    assert_ok(drv->cuMemUnmap(twin, 2 * CHUNK));
    assert_true(soft_faults(twin, 0));
    memory_is_reached(at + CHUNK - 600, 4);
    assert_ok(drv->cuMemUnmap(at, 2 * CHUNK));
    assert_true(soft_faults(at, 0));
    assert_ok(drv->cuMemRelease(handle));
    launch_driver_end();
}

/* Memory that is mapped while a kernel runs, as when a heap grows. */
struct growth {
    _Atomic uint64_t address; /* set by the host, in host memory */
    _Atomic int is_running;
};

static void kernel_wait_for_memory(void *arg) {
    struct growth *growth = arg;
    uint64_t address;
    atomic_store(&growth->is_running, 1);
    while (!(address = atomic_load(&growth->address)))
        acre_soft_yield();
    atomic_fetch_add((_Atomic uint32_t *)(uintptr_t)address + acre_soft_block_index(0), 7);
}

static void launch_memory_mapped_during_a_kernel_is_open(void **state) {
    (void)state;
    launch_driver_begin();
    struct growth growth = {0};
    uint32_t grid[3] = {8, 1, 1}, block[3] = {32, 1, 1}, seen[8];
    CUdeviceptr at = soft_reserve(CHUNK);
    acre_stream stream;
    assert_int_equal(acre_stream_create(launch_device, 0, &stream), ACRE_OK);
    assert_int_equal(
        acre_soft_launch(launch_device, stream, kernel_wait_for_memory, grid, block, 0, &growth),
        ACRE_OK);
    if (!launch_is_seeded())
        assert_true(soft_eventually(atomic_load(&growth.is_running)));
    soft_map_at(at, soft_chunk(CHUNK, 0), CHUNK, 0);
    atomic_store(&growth.address, at);
    assert_int_equal(acre_stream_sync(launch_device, stream), ACRE_OK);
    assert_int_equal(acre_copy_sync(launch_device, seen, (void *)(uintptr_t)at, sizeof seen),
                     ACRE_OK);
    for (int i = 0; i < 8; i++)
        assert_int_equal(seen[i], 7 * 32);
    assert_true(soft_faults(at, 0));
    assert_int_equal(acre_stream_destroy(launch_device, stream), ACRE_OK);
    launch_driver_end();
}

/* Finds the access that a kernel has to an address, without a fault: it writes from the address to
 * a pipe and reads from the pipe to the address. */
struct probe {
    uint64_t address;
    int pipe[2];
    unsigned access; /* result: CU_MEM_ACCESS_FLAGS_PROT_* */
};

static void kernel_probe(void *arg) {
    struct probe *probe = arg;
    void *at = (void *)(uintptr_t)probe->address;
    char byte = 0;
    probe->access = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    if (write(probe->pipe[1], at, 1) != 1)
        return;
    if (read(probe->pipe[0], at, 1) == 1)
        probe->access = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    else if (read(probe->pipe[0], &byte, 1) == 1)
        probe->access = CU_MEM_ACCESS_FLAGS_PROT_READ;
}

static unsigned probe_on(acre_device *device, struct probe *probe, uint64_t address) {
    const uint32_t one[3] = {1, 1, 1};
    probe->address = address;
    assert_int_equal(acre_soft_launch(device, NULL, kernel_probe, one, one, 0, probe), ACRE_OK);
    assert_int_equal(acre_device_sync(device), ACRE_OK);
    return probe->access;
}

static void launch_memory_access_is_that_of_the_device(void **state) {
    (void)state;
    enum {
        NONE = CU_MEM_ACCESS_FLAGS_PROT_NONE,
        READ = CU_MEM_ACCESS_FLAGS_PROT_READ,
        BOTH = CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    };
    struct probe probe;
    acre_device *other;
    assert_int_equal(pipe(probe.pipe), 0);
    assert_int_equal(acre_open("soft:1", NULL, &other), ACRE_OK);
    launch_driver_begin();
    CUmemGenericAllocationHandle handle = soft_chunk(CHUNK, 0);
    CUdeviceptr at = soft_reserve(CHUNK), plain = 0;
    assert_int_equal(probe_on(launch_device, &probe, at), NONE);
    assert_ok(drv->cuMemMap(at, CHUNK, 0, handle, 0));
    assert_int_equal(probe_on(launch_device, &probe, at), NONE);
    assert_ok(soft_access(at, CHUNK, 0, READ));
    assert_int_equal(probe_on(launch_device, &probe, at), READ);
    assert_int_equal(probe_on(other, &probe, at), NONE);
    assert_ok(soft_access(at, CHUNK, 1, BOTH));
    assert_int_equal(probe_on(launch_device, &probe, at), READ);
    assert_int_equal(probe_on(other, &probe, at), BOTH);
    assert_ok(soft_access(at, CHUNK, 1, NONE));
    assert_int_equal(probe_on(other, &probe, at), NONE);
    assert_ok(drv->cuMemUnmap(at, CHUNK));
    assert_ok(drv->cuMemRelease(handle));
    /* Plain memory is open to its device and to devices with peer access. */
    assert_ok(drv->cuMemAlloc(&plain, 4096));
    assert_int_equal(probe_on(launch_device, &probe, plain), BOTH);
    assert_int_equal(probe_on(other, &probe, plain), NONE);
    assert_ok(drv->cuDevicePrimaryCtxRetain(&soft_ctx[1], 1));
    assert_ok(drv->cuCtxPushCurrent(soft_ctx[1]));
    assert_ok(drv->cuCtxEnablePeerAccess(soft_ctx[0], 0));
    assert_int_equal(probe_on(other, &probe, plain), BOTH);
    assert_ok(drv->cuCtxDisablePeerAccess(soft_ctx[0]));
    assert_int_equal(probe_on(other, &probe, plain), NONE);
    assert_ok(drv->cuCtxPopCurrent(NULL));
    assert_ok(drv->cuDevicePrimaryCtxRelease(1));
    assert_ok(drv->cuMemFree(plain));
    launch_driver_end();
    assert_int_equal(acre_close(other), ACRE_OK);
    close(probe.pipe[0]);
    close(probe.pipe[1]);
}

/* ---- captures ---- */

static void launch_captured_stream_runs_it_with_the_graph(void **state) {
    (void)state;
    launch_driver_begin();
    uint32_t one[3] = {1, 1, 1}, grid[3] = {3, 1, 1};
    _Atomic uint64_t sum = 0;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    assert_ok(drv->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_int_equal(acre_soft_launch(launch_device, (acre_stream)stream, kernel_count, grid, one,
                                      0, (void *)&sum),
                     ACRE_OK);
    grid[0] = 100; /* the graph node has its own copy */
    assert_ok(drv->cuStreamEndCapture(stream, &graph));
    assert_ok(drv->cuGraphInstantiateWithFlags(&exec, graph, 0));
    assert_ok(drv->cuGraphDestroy(graph));
    assert_ok(drv->cuStreamSynchronize(stream));
    assert_int_equal(sum, 0);
    for (uint64_t i = 1; i <= 2; i++) {
        assert_ok(drv->cuGraphLaunch(exec, stream));
        assert_ok(drv->cuStreamSynchronize(stream));
        assert_int_equal(sum, 6 * i); /* each block adds its number, from 1 */
    }
    assert_ok(drv->cuGraphExecDestroy(exec));
    assert_ok(drv->cuStreamDestroy(stream));
    launch_driver_end();
}

static void launch_broken_capture_is_refused(void **state) {
    (void)state;
    launch_driver_begin();
    uint32_t one[3] = {1, 1, 1};
    _Atomic uint64_t sum = 0;
    CUgraph graph = NULL;
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    assert_ok(drv->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_refused(drv->cuStreamQuery(stream));
    assert_int_equal(acre_soft_launch(launch_device, (acre_stream)stream, kernel_count, one, one, 0,
                                      (void *)&sum),
                     ACRE_E_CAPTURING);
    assert_refused(drv->cuStreamEndCapture(stream, &graph));
    assert_ok(drv->cuStreamDestroy(stream));
    assert_int_equal(sum, 0);
    launch_driver_end();
}

/* ---- seeds ---- */

struct trail {
    uint64_t hash;
    unsigned races; /* lost updates */
    unsigned sum;
};

static void trail_step(struct trail *trail, unsigned where) {
    uint64_t me = (uint64_t)acre_soft_block_index(0) << 32 | acre_soft_thread_index(0) << 8 | where;
    trail->hash = (trail->hash ^ me) * UINT64_C(0x100000001b3);
}

static void kernel_trail(void *arg) {
    struct trail *trail = arg;
    for (unsigned i = 0; i < 3; i++) {
        trail_step(trail, i);
        unsigned sum = trail->sum;
        acre__sched_point();
        trail->sum = sum + 1;
        trail_step(trail, 10 + acre_soft_activemask() % 7);
    }
}

static struct trail trail_of(const char *seed) {
    struct trail trail = {0};
    launch_begin(seed, "32");
    launch_run(3, 40, 0, kernel_trail, &trail);
    launch_end();
    return trail;
}

static void launch_seed_gives_the_same_order_again(void **state) {
    (void)state;
    struct trail first = trail_of("1"), again = trail_of("1"), other = trail_of("2");
    assert_int_equal(first.hash, again.hash);
    assert_int_equal(first.sum, again.sum);
    assert_int_not_equal(first.hash, other.hash);
    assert_true(first.sum < 3 * 40 * 3); /* lanes run between another's load and store */
}

/* Virtual host threads and a kernel that wait for each other. */
struct exchange {
    acre_stream stream;
    _Atomic int kernel_is_here, host_is_here;
    _Atomic unsigned done;
    int status;
};

static void kernel_exchange(void *arg) {
    struct exchange *exchange = arg;
    atomic_store(&exchange->kernel_is_here, 1);
    while (!atomic_load(&exchange->host_is_here))
        acre_soft_yield();
    atomic_fetch_add(&exchange->done, 1);
}

static void exchange_launch(void *user) {
    struct exchange *exchange = user;
    uint32_t grid[3] = {2, 1, 1}, block[3] = {33, 1, 1};
    exchange->status = acre_soft_launch(launch_device, exchange->stream, kernel_exchange, grid,
                                        block, 0, exchange);
    if (!exchange->status)
        exchange->status = acre_stream_sync(launch_device, exchange->stream);
}

static void exchange_answer(void *user) {
    struct exchange *exchange = user;
    while (!atomic_load(&exchange->kernel_is_here))
        acre__sched_point();
    atomic_store(&exchange->host_is_here, 1);
}

static void launch_seed_runs_kernels_beside_virtual_threads(void **state) {
    (void)state;
    struct exchange exchange = {0};
    assert_int_equal(acre_stream_create(launch_device, 0, &exchange.stream), ACRE_OK);
    for (uint64_t seed = 0; seed < 30; seed++) {
        const struct acre__vthread threads[] = {{exchange_launch, &exchange},
                                                {exchange_answer, &exchange}};
        atomic_store(&exchange.kernel_is_here, 0);
        atomic_store(&exchange.host_is_here, 0);
        atomic_store(&exchange.done, 0);
        assert_int_equal(acre__sched_run(seed, threads, 2), ACRE__SCHED_DONE);
        assert_int_equal(exchange.status, ACRE_OK);
        assert_int_equal(exchange.done, 66);
    }
    assert_int_equal(acre_stream_destroy(launch_device, exchange.stream), ACRE_OK);
}

/* A reset while a kernel runs abandons the kernel's lanes. */
static void launch_seed_device_ends_under_a_kernel(void **state) {
    (void)state;
    struct exchange exchange = {0};
    uint32_t grid[3] = {2, 1, 1}, block[3] = {33, 1, 1};
    assert_int_equal(acre_stream_create(launch_device, 0, &exchange.stream), ACRE_OK);
    assert_int_equal(acre_soft_launch(launch_device, exchange.stream, kernel_exchange, grid, block,
                                      0, &exchange),
                     ACRE_OK);
    while (!atomic_load(&exchange.kernel_is_here))
        assert_int_equal(acre_stream_query(launch_device, exchange.stream), ACRE_E_NOT_READY);
    acre__soft_reset();
    assert_int_equal(acre__soft_reports(NULL, 0), 0);
    (void)acre_close(launch_device); /* its context is destroyed already */
    launch_begin(launch_seed, launch_warp);
    launch_grid_every_index_once(state);
}

#define LAUNCH_ALL(setup, end)                                                                     \
    LAUNCH_TEST(launch_grid_every_index_once, setup, end),                                         \
        LAUNCH_TEST(launch_many_blocks_all_run, setup, end),                                       \
        LAUNCH_TEST(launch_barrier_orders_shared_memory, setup, end),                              \
        LAUNCH_TEST(launch_largest_block_works, setup, end),                                       \
        LAUNCH_TEST(launch_barrier_passes_without_ended_threads, setup, end),                      \
        LAUNCH_TEST(launch_yield_lets_others_run, setup, end),                                     \
        LAUNCH_TEST(launch_memory_plain_is_open_in_kernels_only, setup, end),                      \
        LAUNCH_TEST(launch_memory_of_pools_is_open_in_kernels_only, setup, end),                   \
        LAUNCH_TEST(launch_memory_mapped_is_open_in_kernels_only, setup, end),                     \
        LAUNCH_TEST(launch_memory_mapped_during_a_kernel_is_open, setup, end),                     \
        LAUNCH_TEST(launch_memory_access_is_that_of_the_device, setup, end)

#define LAUNCH_LANES(setup, end)                                                                   \
    LAUNCH_TEST(launch_lanes_collectives_agree, setup, end),                                       \
        LAUNCH_TEST(launch_lanes_diverge_and_meet, setup, end),                                    \
        LAUNCH_TEST(launch_lanes_activemask_is_who_came_together, setup, end),                     \
        LAUNCH_TEST(launch_lanes_loop_different_times, setup, end),                                \
        LAUNCH_TEST(launch_lanes_activemask_does_not_wait_for_spinners, setup, end),               \
        LAUNCH_TEST(launch_mistakes_are_reported_and_end_it, setup, end),                          \
        LAUNCH_TEST(launch_mistake_ends_other_blocks, setup, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        LAUNCH_ALL(launch_setup_32, launch_teardown),
        LAUNCH_ALL(launch_setup_1, launch_teardown),
        LAUNCH_ALL(launch_setup_seed_32, launch_teardown),
        LAUNCH_ALL(launch_setup_seed_1, launch_teardown),
        LAUNCH_LANES(launch_setup_32, launch_teardown),
        LAUNCH_LANES(launch_setup_seed_32, launch_teardown),
        LAUNCH_TEST(launch_mistake_with_warps_of_one, launch_setup_1, launch_teardown),
        LAUNCH_TEST(launch_mistake_with_warps_of_one, launch_setup_seed_1, launch_teardown),
        LAUNCH_TEST(launch_captured_stream_runs_it_with_the_graph, launch_setup_32,
                    launch_teardown),
        LAUNCH_TEST(launch_captured_stream_runs_it_with_the_graph, launch_setup_seed_32,
                    launch_teardown),
        LAUNCH_TEST(launch_broken_capture_is_refused, launch_setup_32, launch_teardown),
        cmocka_unit_test(launch_plain_thread_is_a_warp_of_one),
        LAUNCH_TEST(launch_seed_runs_kernels_beside_virtual_threads, launch_setup_seed_32,
                    launch_teardown),
        LAUNCH_TEST(launch_seed_device_ends_under_a_kernel, launch_setup_seed_32, launch_teardown),
        cmocka_unit_test(launch_seed_gives_the_same_order_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
