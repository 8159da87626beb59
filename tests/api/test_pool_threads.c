/* Pools under real threads: threads pass blocks to each other and free any block they hold, threads
 * exit with full caches, others trim and walk meanwhile; two pools, two devices. A node carries a
 * block and an event recorded after the work on it. The thread that takes the node makes its own
 * stream wait for the event before it frees the block there. */
#include <pthread.h>
#include <stdatomic.h>

#include "api_memory.h"

enum { THREADS = 4, NODES = 32, ROUNDS = 1500, POOLS = 2 };

struct node {
    void *p;
    acre_pool *pool;
    acre_event event;
};

struct world {
    acre_device *device;
    acre_pool *pools[POOLS];
    struct node nodes[THREADS + NODES];
    _Atomic(struct node *) shelf[NODES]; /* nodes that no thread holds */
    _Atomic int bad, stop;
};

struct worker {
    struct world *world;
    struct node *node;
    uint64_t random;
    acre_stream stream;
};

/* Other threads must not use cmocka's assertions. */
static int must(struct world *world, acre_status status, const char *what) {
    if (status == ACRE_OK)
        return 1;
    fprintf(stderr, "%s: %s\n", what, acre_last_detail());
    atomic_fetch_add(&world->bad, 1);
    return 0;
}

static void world_begin(struct world *world, acre_device *device) {
    memset(world, 0, sizeof *world);
    world->device = device;
    for (int i = 0; i < POOLS; i++)
        api_ok(acre_pool_create(device, NULL, &world->pools[i]));
    for (int i = 0; i < THREADS + NODES; i++)
        api_ok(acre_event_create(device, 0, &world->nodes[i].event));
    for (int i = 0; i < NODES; i++)
        atomic_store(&world->shelf[i], &world->nodes[THREADS + i]);
}

/* Trims until nothing is held. An event that trim itself records may need a moment to pass. */
static void trim_to_nothing(acre_device *device, acre_pool *pool) {
    acre_pool_stats stats = {.struct_size = sizeof stats, .held_bytes = 1};
    for (int i = 0; i < 1000 && stats.held_bytes; i++) {
        api_ok(acre_device_sync(device));
        api_ok(acre_pool_trim(pool, 0));
        api_ok(acre_pool_get_stats(pool, &stats));
    }
    assert_int_equal(stats.held_bytes, 0);
}

/* Frees all blocks and checks for leaks. */
static void world_end(struct world *world) {
    acre_pool_stats stats = {.struct_size = sizeof stats};
    api_ok(acre_device_sync(world->device));
    for (int i = 0; i < THREADS + NODES; i++) {
        api_ok(acre_free(world->nodes[i].p, NULL));
        api_ok(acre_event_destroy(world->device, world->nodes[i].event));
    }
    api_ok(acre_device_sync(world->device));
    for (int i = 0; i < POOLS; i++) {
        api_ok(acre_pool_get_stats(world->pools[i], &stats));
        assert_int_equal(stats.live_blocks, 0);
        trim_to_nothing(world->device, world->pools[i]);
        api_ok(acre_pool_destroy(world->pools[i], NULL, NULL));
    }
    api_ok(acre_trim(world->device));
    assert_int_equal(api_stats(world->device).chunks, 0);
    assert_int_equal(atomic_load(&world->bad), 0);
}

/* ---- passing blocks on ---- */

static int node_free(struct worker *self) {
    struct world *world = self->world;
    struct node *node = self->node;
    void *p = node->p;
    node->p = NULL;
    if (!p)
        return 1;
    if (!must(world, acre_stream_wait(world->device, self->stream, node->event), "wait") ||
        !must(world, acre_fill(world->device, p, 2, 200, self->stream), "fill"))
        return 0;
    return must(world, acre_pool_free(node->pool, p, self->stream), "free");
}

static int node_fill(struct worker *self) {
    struct world *world = self->world;
    struct node *node = self->node;
    size_t bytes =
        200 + (size_t)random_draw(&self->random, random_draw(&self->random, 8) ? 8192 : 128 * KIB);
    node->pool = world->pools[random_draw(&self->random, POOLS)];
    acre_status status = ACRE_E_DEVICE_MEMORY;
    for (int i = 0; i < 100 && status == ACRE_E_DEVICE_MEMORY; i++) {
        status = acre_pool_alloc(node->pool, bytes, 0, self->stream, &node->p);
        if (status) /* streams may lag far behind, and all free memory waits for them */
            (void)acre_device_sync(world->device);
    }
    return must(world, status, "alloc") &&
           must(world, acre_fill(world->device, node->p, 1, bytes, self->stream), "fill") &&
           must(world, acre_event_record(world->device, node->event, self->stream), "record");
}

static void *hand_on(void *argument) {
    struct worker *self = argument;
    struct world *world = self->world;
    if (!must(world, acre_stream_create(world->device, ACRE_STREAM_NON_BLOCKING, &self->stream),
              "stream"))
        return NULL;
    for (int i = 0; i < ROUNDS && node_free(self) && node_fill(self); i++)
        self->node = atomic_exchange(&world->shelf[random_draw(&self->random, NODES)], self->node);
    must(world, acre_stream_destroy(world->device, self->stream), "stream destroy");
    return NULL;
}

static int walk_block(void *user, void *p, size_t bytes) {
    (void)p;
    *(size_t *)user += bytes;
    return 0;
}

static void *look_after(void *argument) {
    struct world *world = argument;
    acre_pool_stats stats = {.struct_size = sizeof stats};
    for (unsigned i = 0; !atomic_load(&world->stop); i++) {
        acre_pool *pool = world->pools[i % POOLS];
        size_t bytes = 0;
        must(world, acre_pool_trim(pool, i % 4 ? 0 : MIB), "trim");
        must(world, acre_pool_walk(pool, walk_block, &bytes), "walk");
        must(world, acre_pool_get_stats(pool, &stats), "stats");
        if (i % 8 == 0)
            must(world, acre_trim(world->device), "trim all");
        usleep(200);
    }
    return NULL;
}

static void run_workers(struct world *worlds, size_t count, uint64_t *random) {
    struct worker workers[2 * THREADS];
    pthread_t threads[2 * THREADS], lookers[2];
    for (size_t w = 0; w < count; w++) {
        assert_int_equal(pthread_create(&lookers[w], NULL, look_after, &worlds[w]), 0);
        for (size_t i = 0; i < THREADS; i++) {
            struct worker *worker = &workers[w * THREADS + i];
            *worker = (struct worker){.world = &worlds[w],
                                      .node = &worlds[w].nodes[i],
                                      .random = random_draw(random, UINT64_MAX)};
            assert_int_equal(pthread_create(&threads[w * THREADS + i], NULL, hand_on, worker), 0);
        }
    }
    for (size_t i = 0; i < count * THREADS; i++)
        pthread_join(threads[i], NULL);
    for (size_t w = 0; w < count; w++) {
        atomic_store(&worlds[w].stop, 1);
        pthread_join(lookers[w], NULL);
    }
}

TEST(pool_threads_free_each_others_blocks) {
    uint64_t random = random_seed("pool_threads");
    static struct world world;
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        world_begin(&world, device);
        run_workers(&world, 1, &random);
        world_end(&world);
        api_ok(acre_close(device));
    }
}

TEST(pool_threads_on_two_devices_are_apart) {
    uint64_t random = random_seed("pool_threads");
    static struct world worlds[2];
    acre_device *devices[2];
    acre_open_options options = {
        .struct_size = sizeof options, .soft_bytes = (uint64_t)512 << 20, .soft_devices = 2};
    api_ok(acre_open("soft:0", &options, &devices[0]));
    api_ok(acre_open("soft:1", &options, &devices[1]));
    for (int i = 0; i < 2; i++)
        world_begin(&worlds[i], devices[i]);
    run_workers(worlds, 2, &random);
    for (int i = 0; i < 2; i++) {
        world_end(&worlds[i]);
        api_ok(acre_close(devices[i]));
    }
}

/* ---- threads that exit ---- */

static void *fill_cache(void *argument) {
    struct world *world = argument;
    void *blocks[100] = {NULL};
    for (int part = 0; part < 3; part++) {
        acre_pool *pool = world->pools[part % POOLS];
        /* Also on the per-thread default stream, which ends with the thread. */
        acre_stream stream = part == 2 ? (acre_stream)2 : NULL;
        if (!must(world, acre_pool_alloc_many(pool, 3000, 100, stream, blocks), "alloc"))
            return NULL;
        must(world, acre_fill(world->device, blocks[0], 1, 3000, stream), "fill");
        must(world, acre_pool_free_many(pool, blocks, 100, stream, NULL), "free");
    }
    return NULL;
}

TEST(pool_threads_that_end_give_their_caches_back) {
    static struct world world;
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        pthread_t threads[THREADS];
        world_begin(&world, device);
        for (int round = 0; round < 20; round++) {
            for (int i = 0; i < THREADS; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, fill_cache, &world), 0);
            for (int i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        }
        world_end(&world);
        api_ok(acre_close(device));
    }
}

/* The main thread destroys a pool while threads that used it exit. */
struct leaver {
    struct world *world;
    pthread_barrier_t *barrier;
};

static void *use_and_end(void *argument) {
    struct leaver *self = argument;
    (void)fill_cache(self->world);
    pthread_barrier_wait(self->barrier);
    return NULL;
}

TEST(pool_may_end_while_threads_end) {
    static struct world world;
    acre_device *device = api_open("soft");
    for (int round = 0; round < 50; round++) {
        pthread_barrier_t barrier;
        pthread_t threads[THREADS];
        struct leaver leaver = {&world, &barrier};
        memset(&world, 0, sizeof world);
        world.device = device;
        for (int i = 0; i < POOLS; i++)
            api_ok(acre_pool_create(device, NULL, &world.pools[i]));
        assert_int_equal(pthread_barrier_init(&barrier, NULL, THREADS + 1), 0);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, use_and_end, &leaver), 0);
        pthread_barrier_wait(&barrier);
        for (int i = 0; i < POOLS; i++)
            api_ok(acre_pool_destroy(world.pools[i], NULL, NULL));
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        pthread_barrier_destroy(&barrier);
        assert_int_equal(atomic_load(&world.bad), 0);
    }
    api_ok(acre_trim(device));
    assert_int_equal(api_stats(device).chunks, 0);
    api_ok(acre_close(device));
}

/* ---- sleeping ---- */

struct sleeper {
    struct world *world;
    pthread_barrier_t *barrier;
};

static void *fill_and_sleep(void *argument) {
    struct sleeper *self = argument;
    (void)fill_cache(self->world);
    pthread_barrier_wait(self->barrier); /* the cache is full now */
    pthread_barrier_wait(self->barrier); /* another thread has emptied the cache */
    (void)fill_cache(self->world);
    return NULL;
}

TEST(pool_cache_of_a_sleeping_thread_is_emptied_by_trim) {
    static struct world world;
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        pthread_barrier_t barrier;
        pthread_t thread;
        world_begin(&world, device);
        struct sleeper sleeper = {&world, &barrier};
        assert_int_equal(pthread_barrier_init(&barrier, NULL, 2), 0);
        assert_int_equal(pthread_create(&thread, NULL, fill_and_sleep, &sleeper), 0);
        pthread_barrier_wait(&barrier);
        trim_to_nothing(device, world.pools[1]);
        pthread_barrier_wait(&barrier);
        pthread_join(thread, NULL);
        pthread_barrier_destroy(&barrier);
        world_end(&world);
        api_ok(acre_close(device));
    }
}

/* ---- lookup ---- */

struct asker {
    struct world *world;
    _Atomic(void *) freed; /* address of a freed block */
};

static void *ask(void *argument) {
    struct asker *self = argument;
    size_t found = 0;
    while (!atomic_load(&self->world->stop)) {
        char *p = atomic_load(&self->freed);
        char *inside = p == NULL ? NULL : p + 100;
        for (int i = 0; i < POOLS; i++)
            found += (size_t)acre_pool_owns(self->world->pools[i], inside) +
                     acre_pool_usable_size(self->world->pools[i], p);
    }
    if (found > SIZE_MAX / 2)
        must(self->world, ACRE_E_INVALID, "ask");
    return NULL;
}

/* Any thread may look up any address while the memory there is mapped and unmapped. */
TEST(pool_may_be_asked_about_memory_that_goes) {
    static struct world world;
    acre_device *device = api_open("soft");
    pthread_t thread;
    world_begin(&world, device);
    struct asker asker = {.world = &world};
    assert_int_equal(pthread_create(&thread, NULL, ask, &asker), 0);
    for (int i = 0; i < 500; i++) {
        void *p = NULL;
        api_ok(acre_pool_alloc(world.pools[i % POOLS], 3000, 0, NULL, &p));
        atomic_store(&asker.freed, p);
        api_ok(acre_free(p, NULL));
        api_ok(acre_pool_trim(world.pools[i % POOLS], 0));
    }
    atomic_store(&world.stop, 1);
    pthread_join(thread, NULL);
    world_end(&world);
    api_ok(acre_close(device));
}

int main(void) {
    return tests_run("pool_threads");
}
