/* Kernels through the public API: stream order, launches that are refused, and devices that are not
 * soft, which have no kernels. */
#include <stdatomic.h>

#include "acre_soft.h"
#include "api_devices.h"

enum { COUNT = 1000, THREADS = 128 };
static const uint32_t grid[3] = {(COUNT + THREADS - 1) / THREADS, 1, 1}, block[3] = {THREADS, 1, 1};

struct numbers {
    uint32_t *at; /* device memory */
    uint32_t add;
};

static void kernel_add(void *arg) {
    const struct numbers *numbers = arg;
    uint32_t i = acre_soft_block_index(0) * acre_soft_block_size(0) + acre_soft_thread_index(0);
    if (i < COUNT)
        numbers->at[i] += numbers->add + i;
}

static void kernel_nothing(void *arg) {
    (void)arg;
}

static void *device_memory(acre_device *device) {
    void *p = NULL;
    api_ok(acre_mem_alloc(device, ACRE_KIND_DEVICE, COUNT * sizeof(uint32_t), 0, &p));
    return p;
}

/* Copies, fills and kernels on one stream see the results of those before them. */
TEST(kernels_on_a_stream_run_in_order) {
    acre_device *device = api_open("soft");
    acre_stream stream;
    uint32_t first[COUNT], second[COUNT];
    api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &stream));
    struct numbers one = {device_memory(device), 1}, two = {one.at, 1000};
    for (int round = 0; round < 20; round++) {
        api_ok(acre_fill(device, one.at, 0, COUNT * sizeof(uint32_t), stream));
        api_ok(acre_soft_launch(device, stream, kernel_add, grid, block, 0, &one));
        api_ok(acre_copy(device, first, one.at, sizeof first, stream));
        api_ok(acre_soft_launch(device, stream, kernel_add, grid, block, 0, &two));
        api_ok(acre_copy(device, second, one.at, sizeof second, stream));
        api_ok(acre_stream_sync(device, stream));
        for (uint32_t i = 0; i < COUNT; i++) {
            assert_int_equal(first[i], 1 + i);
            assert_int_equal(second[i], 1001 + 2 * i);
        }
    }
    api_ok(acre_mem_free(device, one.at));
    api_ok(acre_stream_destroy(device, stream));
    api_ok(acre_close(device));
}

/* Events order kernels of different streams as they order copies. The legacy stream orders blocking
 * streams. */
TEST(kernels_on_two_streams_follow_events) {
    acre_device *device = api_open("soft");
    acre_stream streams[2];
    acre_event event;
    uint32_t seen[COUNT];
    for (int i = 0; i < 2; i++)
        api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &streams[i]));
    api_ok(acre_event_create(device, 0, &event));
    struct numbers numbers = {device_memory(device), 5};
    api_ok(acre_fill_sync(device, numbers.at, 0, COUNT * sizeof(uint32_t)));
    enum { ROUNDS = 50 };
    for (int round = 0; round < ROUNDS; round++) {
        acre_stream stream = streams[round % 2];
        api_ok(acre_stream_wait(device, stream, event));
        api_ok(acre_soft_launch(device, stream, kernel_add, grid, block, 0, &numbers));
        api_ok(acre_event_record(device, event, stream));
    }
    api_ok(acre_event_sync(device, event));
    api_ok(acre_copy_sync(device, seen, numbers.at, sizeof seen));
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(seen[i], ROUNDS * (5 + i));
    api_ok(acre_soft_launch(device, NULL, kernel_add, grid, block, 0, &numbers));
    api_ok(acre_copy_sync(device, seen, numbers.at, sizeof seen));
    assert_int_equal(seen[1], (ROUNDS + 1) * 6);
    api_ok(acre_close(device));
}

struct meeting {
    _Atomic int here[2], me;
};

static void kernel_meets(void *arg) {
    struct meeting *meeting = arg;
    int me = atomic_fetch_add(&meeting->me, 1);
    atomic_store(&meeting->here[me], 1);
    while (!atomic_load(&meeting->here[1 - me]))
        acre_soft_yield();
}

/* Each kernel waits for the other. */
TEST(kernels_on_two_streams_run_at_the_same_time) {
    const uint32_t one[3] = {1, 1, 1};
    acre_device *device = api_open("soft");
    struct meeting meeting = {0};
    acre_stream streams[2];
    for (int i = 0; i < 2; i++) {
        api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &streams[i]));
        api_ok(acre_soft_launch(device, streams[i], kernel_meets, one, one, 0, &meeting));
    }
    api_ok(acre_device_sync(device));
    api_ok(acre_close(device));
}

TEST(kernels_launch_refuses_bad_arguments) {
    acre_device *device = api_open("soft");
    static const uint32_t bad_grids[][3] = {{0, 1, 1},           {1, 0, 1},     {1, 1, 0},
                                            {0x80000000u, 1, 1}, {1, 65536, 1}, {1, 1, 65536}};
    static const uint32_t bad_blocks[][3] = {
        {0, 1, 1},  {1, 0, 1},   {1, 1, 0},    {1025, 1, 1}, {1, 1025, 1},
        {1, 1, 65}, {32, 33, 1}, {1024, 2, 1}, {16, 16, 5},  {UINT32_MAX, UINT32_MAX, UINT32_MAX}};
    for (size_t i = 0; i < sizeof bad_grids / sizeof *bad_grids; i++)
        api_expect(acre_soft_launch(device, NULL, kernel_nothing, bad_grids[i], block, 0, NULL),
                   ACRE_E_INVALID);
    for (size_t i = 0; i < sizeof bad_blocks / sizeof *bad_blocks; i++)
        api_expect(acre_soft_launch(device, NULL, kernel_nothing, grid, bad_blocks[i], 0, NULL),
                   ACRE_E_INVALID);
    api_expect(acre_soft_launch(device, NULL, kernel_nothing, grid, block, 232449, NULL),
               ACRE_E_INVALID);
    api_ok(acre_soft_launch(device, NULL, kernel_nothing, grid, block, 232448, NULL));
    api_expect(acre_soft_launch(device, NULL, NULL, grid, block, 0, NULL), ACRE_E_NULL);
    api_expect(acre_soft_launch(device, NULL, kernel_nothing, NULL, block, 0, NULL), ACRE_E_NULL);
    api_expect(acre_soft_launch(device, NULL, kernel_nothing, grid, NULL, 0, NULL), ACRE_E_NULL);
    api_expect(acre_soft_launch(NULL, NULL, kernel_nothing, grid, block, 0, NULL), ACRE_E_NULL);
    setenv("ACRE_SOFT_WARP", "16", 1);
    api_expect(acre_soft_launch(device, NULL, kernel_nothing, grid, block, 0, NULL), ACRE_E_CONFIG);
    setenv("ACRE_SOFT_WARP", "many", 1);
    api_expect(acre_soft_launch(device, NULL, kernel_nothing, grid, block, 0, NULL), ACRE_E_CONFIG);
    unsetenv("ACRE_SOFT_WARP");
    api_ok(acre_device_sync(device));
    api_ok(acre_close(device));
    api_expect(acre_soft_launch(device, NULL, kernel_nothing, grid, block, 0, NULL), ACRE_E_HANDLE);
}

TEST(kernels_launch_refuses_streams_of_others) {
    acre_device *devices[2];
    acre_stream stream;
    api_open_two(devices);
    api_ok(acre_stream_create(devices[1], 0, &stream));
    api_expect(acre_soft_launch(devices[0], stream, kernel_nothing, grid, block, 0, NULL),
               ACRE_E_HANDLE);
    api_ok(acre_soft_launch(devices[1], stream, kernel_nothing, grid, block, 0, NULL));
    api_ok(acre_stream_destroy(devices[1], stream));
    for (int i = 0; i < 2; i++)
        api_ok(acre_close(devices[i]));
}

struct nested {
    acre_device *device;
    _Atomic int status;
};

static void kernel_launches(void *arg) {
    struct nested *nested = arg;
    atomic_store(&nested->status,
                 acre_soft_launch(nested->device, NULL, kernel_nothing, grid, block, 0, NULL));
}

TEST(kernels_launch_inside_a_kernel_is_refused) {
    const uint32_t one[3] = {1, 1, 1};
    struct nested nested = {.device = api_open("soft")};
    api_ok(acre_soft_launch(nested.device, NULL, kernel_launches, one, one, 0, &nested));
    api_ok(acre_device_sync(nested.device));
    assert_int_equal(nested.status, ACRE_E_UNSUPPORTED);
    api_ok(acre_close(nested.device));
}

TEST(kernels_are_for_soft_devices_only) {
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        api_expect(acre_soft_launch(device, NULL, kernel_nothing, grid, block, 0, NULL),
                   strcmp(name, "soft") == 0 ? ACRE_OK : ACRE_E_UNSUPPORTED);
        api_ok(acre_device_sync(device));
        api_ok(acre_close(device));
    }
}

int main(void) {
    return tests_run("kernels");
}
