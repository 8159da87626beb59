/* The functions that CuPy calls (python/native/cupy_plug.c), without Python: threads that share
 * streams, streams that are dropped meanwhile, and failures. The library's source is compiled into
 * the test, so that the thread sanitizer sees it too. */
#include <sched.h>

#include "api/api_memory.h"
#include "fault_device.h"
#include "support/rounds.h"

#include "../../python/native/cupy_plug.c"

enum { THREADS = 4, STREAMS = 6, LIVE = 64, STEPS = 4000 };

static _Thread_local uintptr_t current_stream;
static _Atomic int met_count, collected;
static int met_result = 1;
static char refusal[256];
static const void *refused_as;

static intptr_t current(void) {
    return (intptr_t)current_stream;
}

static int met(int device, uintptr_t stream) {
    (void)device, (void)stream;
    atomic_fetch_add(&met_count, 1);
    return met_result;
}

static int collect(void) {
    atomic_fetch_add(&collected, 1);
    return 1;
}

static void note_refusal(void *type, const char *text) {
    refused_as = type;
    (void)snprintf(refusal, sizeof refusal, "%s", text);
}

static int memory_error, other_error;

static void plug_begin(void) {
    const struct acre_cupy_options options = {
        .struct_size = sizeof options,
        .driver = "soft",
        .current = current,
        .met = met,
        .collect = collect,
        .refuse = note_refusal,
        .memory_error = &memory_error,
        .other_error = &other_error,
    };
    assert_int_equal(acre_cupy_setup(&options), 1);
    current_stream = 0;
    met_result = 1;
    refusal[0] = '\0';
}

/* Drops all streams that have no block. */
static void drop_idle(void) {
    int device;
    uintptr_t stream;
    while (acre_cupy_idle(&device, &stream))
        continue;
}

static uint64_t plug_count(int which) {
    uint64_t counts[4];
    acre_cupy_count(counts);
    return counts[which];
}

static uint64_t live_blocks(void) {
    acre_device *device;
    acre_pool *pool;
    acre_pool_stats stats = {.struct_size = sizeof stats};
    api_ok(acre_cupy_card(0, &device, &pool));
    api_ok(acre_pool_get_stats(pool, &stats));
    return stats.live_blocks;
}

struct worker {
    uintptr_t streams[STREAMS];
    uint64_t random;
    int bad;
};

static uint64_t draw(struct worker *worker) {
    worker->random ^= worker->random << 13;
    worker->random ^= worker->random >> 7;
    worker->random ^= worker->random << 17;
    return worker->random;
}

static void *work(void *user) {
    struct worker *worker = user;
    void *live[LIVE] = {0};
    for (int i = 0; i < ROUNDS(STEPS, STEPS / 10); i++) {
        void **slot = &live[draw(worker) % LIVE];
        current_stream = worker->streams[draw(worker) % STREAMS];
        if (*slot) {
            acre_cupy_free(NULL, *slot, 0);
            *slot = NULL;
        } else if (!(*slot = acre_cupy_alloc(NULL, 1 + draw(worker) % 100000, 0))) {
            worker->bad++;
        }
    }
    for (int i = 0; i < LIVE; i++)
        acre_cupy_free(NULL, live[i], 0);
    return NULL;
}

static void *sweep(void *user) {
    _Atomic int *stop = user;
    int device;
    uintptr_t stream;
    while (!atomic_load(stop))
        if (!acre_cupy_idle(&device, &stream))
            sched_yield();
    return NULL;
}

TEST(cupy_plug_threads_lose_no_block) {
    pthread_t threads[THREADS + 1];
    struct worker workers[THREADS];
    acre_stream streams[STREAMS];
    _Atomic int stop = 0;
    plug_begin();
    acre_device *device = api_open("soft");
    uint64_t before = live_blocks();
    for (int i = 2; i < STREAMS; i++)
        api_ok(acre_stream_create(device, 0, &streams[i]));
    for (int t = 0; t < THREADS; t++) {
        workers[t] = (struct worker){.streams = {0, STREAM_PER_THREAD},
                                     .random = 88172645463325252u + (uint64_t)t};
        for (int i = 2; i < STREAMS; i++)
            workers[t].streams[i] = (uintptr_t)streams[i];
        assert_int_equal(pthread_create(&threads[t], NULL, work, &workers[t]), 0);
    }
    assert_int_equal(pthread_create(&threads[THREADS], NULL, sweep, &stop), 0);
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    atomic_store(&stop, 1);
    pthread_join(threads[THREADS], NULL);
    for (int t = 0; t < THREADS; t++)
        assert_int_equal(workers[t].bad, 0);
    assert_int_equal(live_blocks(), before);
    for (int which = 0; which < 4; which++)
        assert_int_equal(plug_count(which), 0);
    assert_true(atomic_load(&met_count) > 0);
    drop_idle();
    for (int i = 2; i < STREAMS; i++)
        api_ok(acre_stream_destroy(device, streams[i]));
    api_ok(acre_close(device));
}

TEST(cupy_plug_block_of_a_destroyed_stream_is_freed_late) {
    CUstream stream; /* of the program, which destroys it without acre */
    int number;
    uintptr_t idle;
    plug_begin();
    acre_device *device = api_open("soft");
    uint64_t before = live_blocks();
    fault_push("soft");
    assert_int_equal(fault_raw("soft")->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), 0);
    fault_pop("soft");
    current_stream = (uintptr_t)stream;
    void *p = acre_cupy_alloc(NULL, 1000, 0);
    assert_non_null(p);
    assert_int_equal(acre_cupy_idle(&number, &idle), 0);
    assert_int_equal(fault_raw("soft")->cuStreamDestroy(stream), 0);
    acre_cupy_free(NULL, p, 0);
    assert_int_equal(plug_count(2), 1);
    assert_int_equal(plug_count(3), 0);
    assert_int_equal(live_blocks(), before);
    assert_int_equal(acre_cupy_idle(&number, &idle), 1);
    assert_int_equal(idle, (uintptr_t)stream);
    assert_int_equal(acre_cupy_idle(&number, &idle), 0);
    api_ok(acre_close(device));
}

TEST(cupy_plug_refusals_say_why) {
    plug_begin();
    assert_null(acre_cupy_alloc(NULL, (size_t)1 << 50, 0));
    assert_ptr_equal(refused_as, &memory_error);
    assert_non_null(strstr(refusal, "(ACRE_E_DEVICE_MEMORY)\nacre: out of memory"));
    assert_int_equal(atomic_load(&collected), 1);
    assert_int_equal(acre_cupy_status(), ACRE_E_DEVICE_MEMORY);
    assert_null(acre_cupy_alloc(NULL, 1000, CARDS));
    assert_ptr_equal(refused_as, &other_error);
    assert_string_equal(refusal, "acre.cupy serves devices 0 to 63 (ACRE_E_NO_DEVICE)");
    assert_null(acre_cupy_alloc(NULL, 1000, 63));
    assert_ptr_equal(refused_as, &other_error);
    met_result = 0;
    current_stream = 4096;
    assert_null(acre_cupy_alloc(NULL, 1000, 0));
    assert_non_null(strstr(refusal, "could not be kept"));
    current_stream = (uintptr_t)-1; /* CuPy has raised an exception: there is another text */
    refusal[0] = '\0';
    assert_null(acre_cupy_alloc(NULL, 1000, 0));
    assert_string_equal(refusal, "");
    acre_cupy_free(NULL, NULL, 0);
    acre_cupy_free(NULL, &current_stream, -1);
}

TEST(cupy_plug_options_of_another_version_are_refused) {
    const struct acre_cupy_options other = {.struct_size = sizeof other - 8, .driver = "soft"};
    const struct acre_cupy_options long_name = {.struct_size = sizeof long_name,
                                                .driver = "a driver of a long name"};
    assert_int_equal(acre_cupy_setup(&other), 0);
    assert_int_equal(acre_cupy_setup(&long_name), 0);
}

int main(void) {
    return tests_run("cupy_plug");
}
