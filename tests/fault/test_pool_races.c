/* Pools under real threads, on the soft device: double frees while others trim, blocks freed by
 * other threads, reallocs at the limit, and threads whose last destructor uses a pool. */
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "api/api_pool.h"
#include "pool/pool.h"
#include "support/rounds.h"
#include "support/shadow.h"
#include "support/random.h"

static struct {
    struct things t;
    _Atomic int is_over;
} world;

static int is_going_on(void) {
    return !atomic_load(&world.is_over) && !atomic_load(&thread_failed_line);
}

static void world_begin(const acre_pool_options *options) {
    memset(&world, 0, sizeof world);
    world.t = begin("soft", options);
}

/* Checks that all memory is released. */
static void world_end(void) {
    if (atomic_load(&thread_failed_line))
        fail_msg("line %d: a thread failed", atomic_load(&thread_failed_line));
    api_ok(acre_device_sync(world.t.device));
    api_ok(acre_pool_trim(world.t.pool, 0));
    acre_pool_stats stats = stats_of(world.t.pool);
    assert_int_equal(stats.live_blocks, 0);
    assert_int_equal(stats.live_bytes, 0);
    assert_int_equal(stats.used_bytes, 0);
    assert_int_equal(stats.held_bytes, 0);
    end(&world.t);
}

static void *trimmer_run(void *user) {
    (void)user;
    while (is_going_on())
        thread_must(acre_pool_trim(world.t.pool, 0) == ACRE_OK);
    return NULL;
}

/* ---- double frees ---- */

/* Only this thread allocates, so no thread can own the block at the second free. */
static void *twice_run(void *user) {
    uint64_t random = 1;
    (void)user;
    for (int i = 0; i < ROUNDS(30000, 1000) && is_going_on(); i++) {
        void *p[4];
        size_t bytes = 1 + random_next(&random) % (i % 64 ? 64 * KIB : 2 * MIB);
        for (int k = 0; k < 4; k++)
            thread_must(acre_pool_alloc(world.t.pool, bytes, 0, world.t.stream, &p[k]) == ACRE_OK);
        for (int k = 0; k < 4; k++)
            thread_must(acre_pool_free(world.t.pool, p[k], world.t.stream) == ACRE_OK);
        for (int k = 0; k < 4; k++) {
            thread_must(acre_pool_free(world.t.pool, p[k], world.t.stream) == ACRE_E_POINTER);
            thread_must(acre_free(p[k], world.t.other) == ACRE_E_POINTER);
            thread_must(acre_pool_usable_size(world.t.pool, p[k]) == 0);
        }
    }
    atomic_store(&world.is_over, 1);
    return NULL;
}

TEST(pool_block_freed_twice_while_others_trim_is_refused) {
    enum { TRIMMERS = 2 };
    pthread_t threads[TRIMMERS + 1];
    world_begin(NULL);
    for (int i = 0; i <= TRIMMERS; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, i < TRIMMERS ? trimmer_run : twice_run, NULL), 0);
    for (int i = 0; i <= TRIMMERS; i++)
        pthread_join(threads[i], NULL);
    world_end();
}

/* Addresses inside freed or live blocks. A free of them is refused, but it reads the records while
 * slabs are destroyed. */
static _Atomic(char *) stale[8];

static void *stale_run(void *user) {
    (void)user;
    for (unsigned i = 0; is_going_on(); i++) {
        char *p = atomic_load_explicit(&stale[i % 8], memory_order_relaxed);
        acre_status status = p ? acre_pool_free(world.t.pool, p + 8, world.t.stream) : ACRE_OK;
        thread_must(!p || status == ACRE_E_POINTER || status == ACRE_E_INTERIOR);
    }
    return NULL;
}

TEST(pool_wrong_frees_while_slabs_end_are_refused) {
    enum { FREERS = 3 };
    pthread_t threads[FREERS];
    world_begin(NULL);
    for (int i = 0; i < FREERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, stale_run, NULL), 0);
    for (int i = 0; i < ROUNDS(10000, 2000) && is_going_on(); i++) {
        void *p[8];
        size_t bytes = (size_t)(i % 3 + 1) * 20 * KIB;
        for (int k = 0; k < 8; k++) {
            p[k] = alloc(&world.t, bytes);
            atomic_store_explicit(&stale[k], p[k], memory_order_relaxed);
        }
        for (int k = 0; k < 8; k++)
            api_ok(acre_pool_free(world.t.pool, p[k], world.t.stream));
        api_ok(acre_pool_trim(world.t.pool, 0));
    }
    atomic_store(&world.is_over, 1);
    for (int i = 0; i < FREERS; i++)
        pthread_join(threads[i], NULL);
    world_end();
}

/* ---- producers and consumers ---- */

enum { PRODUCERS = 8, QUEUE = 64 };

struct message {
    void *p;
    size_t bytes;
};

static struct {
    _Atomic(struct message *) slots[QUEUE];
    _Atomic unsigned producers; /* producers still running */
    _Atomic uint64_t produced, consumed;
} queue;

static void *producer_run(void *user) {
    uint64_t random = (uintptr_t)user;
    acre_stream stream = random % 2 ? world.t.stream : world.t.other;
    for (int i = 0; i < ROUNDS(40000, 2000) && is_going_on(); i++) {
        struct message *message = malloc(sizeof *message), *none;
        thread_must(message);
        message->bytes = 1 + random_next(&random) % (8 * KIB);
        thread_must(acre_pool_alloc(world.t.pool, message->bytes, 0, stream, &message->p) ==
                    ACRE_OK);
        thread_must(shadow_begin(message->p, message->bytes));
        while (none = NULL, !atomic_compare_exchange_strong(
                                &queue.slots[random_next(&random) % QUEUE], &none, message) &&
                                is_going_on())
            sched_yield();
        atomic_fetch_add(&queue.produced, 1);
    }
    atomic_fetch_sub(&queue.producers, 1);
    return NULL;
}

/* Frees on its own stream, not on the one that the block was allocated for. */
static void *consumer_run(void *user) {
    uint64_t random = (uintptr_t)user + 100;
    acre_stream stream = random % 2 ? world.t.stream : world.t.other;
    int is_last = 0;
    while (is_going_on() && !is_last) {
        is_last = !atomic_load(&queue.producers); /* then checks all slots once more */
        sched_yield();
        for (int i = 0; i < QUEUE; i++) {
            struct message *message = atomic_exchange(&queue.slots[i], NULL);
            if (!message)
                continue;
            void *p = message->p;
            shadow_end(p, message->bytes);
            free(message);
            thread_must(acre_pool_free(world.t.pool, p, stream) == ACRE_OK);
            atomic_fetch_add(&queue.consumed, 1);
        }
    }
    return NULL;
}

TEST(pool_blocks_that_other_threads_free_are_neither_lost_nor_handed_out_twice) {
    pthread_t threads[2 * PRODUCERS];
    world_begin(NULL);
    memset(&queue, 0, sizeof queue);
    atomic_store(&queue.producers, PRODUCERS);
    for (uintptr_t i = 0; i < 2 * PRODUCERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL,
                                        i < PRODUCERS ? producer_run : consumer_run, (void *)i),
                         0);
    for (int i = 0; i < 2 * PRODUCERS; i++)
        pthread_join(threads[i], NULL);
    if (!atomic_load(&thread_failed_line)) {
        assert_true(queue.produced == queue.consumed);
        assert_int_equal(shadow_count(), 0);
    }
    world_end();
}

/* ---- reallocs at the limit ---- */

enum { LIMIT = 16 << 20 };

/* The pool holds more memory than its limit, so the memory behind a block is free for it. */
static void limit_world_begin(void) {
    const acre_pool_options options = {
        .struct_size = sizeof options, .limit_bytes = LIMIT, .initial_bytes = 4 * (uint64_t)LIMIT};
    world_begin(&options);
}

TEST(pool_realloc_alone_stays_within_the_limit) {
    uint64_t random = 7;
    unsigned refused = 0, in_place = 0;
    limit_world_begin();
    void *p = alloc(&world.t, MIB), *other = alloc(&world.t, 600 * KIB);
    for (int i = 0; i < ROUNDS(3000, 300); i++) {
        void *new_p = p;
        size_t has = acre_pool_usable_size(world.t.pool, p);
        size_t bytes = 1 + (size_t)(random_next(&random) % (LIMIT + LIMIT / 4));
        api_ok(acre_fill(world.t.device, p, (unsigned char)i, has, world.t.stream));
        acre_status status = acre_pool_realloc(world.t.pool, p, bytes, world.t.stream, &new_p);
        assert_true(stats_of(world.t.pool).used_bytes <= LIMIT);
        if (status) { /* the block is unchanged */
            unsigned char edge[2] = {0};
            assert_int_equal(status, ACRE_E_LIMIT);
            assert_null(new_p);
            assert_int_equal(acre_pool_usable_size(world.t.pool, p), has);
            api_ok(acre_copy(world.t.device, &edge[0], p, 1, world.t.stream));
            api_ok(acre_copy(world.t.device, &edge[1], (char *)p + has - 1, 1, world.t.stream));
            api_ok(acre_stream_sync(world.t.device, world.t.stream));
            assert_int_equal(edge[0], (unsigned char)i);
            assert_int_equal(edge[1], (unsigned char)i);
            refused++;
            continue;
        }
        in_place += new_p == p && bytes > has;
        p = new_p;
        assert_true(acre_pool_usable_size(world.t.pool, p) >= bytes);
    }
    assert_true(refused > 0 && in_place > 0);
    api_ok(acre_pool_free(world.t.pool, p, world.t.stream));
    api_ok(acre_pool_free(world.t.pool, other, world.t.stream));
    world_end();
}

/* Grows in place up to the limit, and not beyond. */
TEST(pool_realloc_in_place_stops_at_the_limit) {
    acre_status status = ACRE_OK;
    limit_world_begin();
    void *p = alloc(&world.t, MIB), *new_p;
    for (size_t bytes = MIB; bytes <= LIMIT + MIB; bytes += bytes < LIMIT - MIB ? MIB : 100) {
        status = acre_pool_realloc(world.t.pool, p, bytes, world.t.stream, &new_p);
        assert_true(stats_of(world.t.pool).used_bytes <= LIMIT);
        if (status == ACRE_OK)
            assert_ptr_equal(p, new_p);
        else
            assert_int_equal(status, ACRE_E_LIMIT);
        assert_true(status == ACRE_OK ? bytes <= LIMIT : bytes > LIMIT - KIB);
    }
    assert_int_equal(status, ACRE_E_LIMIT);
    api_ok(acre_pool_free(world.t.pool, p, world.t.stream));
    world_end();
}

static void *realloc_run(void *user) {
    acre_pool_stats stats = {.struct_size = sizeof stats};
    uint64_t random = (uintptr_t)user;
    void *p = NULL;
    for (int i = 0; i < ROUNDS(3000, 200) && is_going_on(); i++) {
        void *new_p;
        size_t bytes = 1 + random_next(&random) % (i % 4 ? 8 * MIB : 300 * KIB);
        acre_status status = acre_pool_realloc(world.t.pool, p, bytes, world.t.stream, &new_p);
        thread_must(status == ACRE_OK || status == ACRE_E_LIMIT);
        if (status == ACRE_OK)
            p = new_p;
        thread_must(!p || acre_pool_owns(world.t.pool, p));
        thread_must(acre_pool_get_stats(world.t.pool, &stats) == ACRE_OK);
        thread_must(stats.used_bytes <= LIMIT);
    }
    thread_must(acre_pool_free(world.t.pool, p, world.t.stream) == ACRE_OK);
    return NULL;
}

static void *limit_run(void *user) {
    acre_pool_stats stats = {.struct_size = sizeof stats};
    (void)user;
    while (is_going_on()) {
        thread_must(acre_pool_get_stats(world.t.pool, &stats) == ACRE_OK);
        thread_must(stats.used_bytes <= LIMIT);
    }
    return NULL;
}

TEST(pool_realloc_of_many_threads_stays_within_the_limit) {
    enum { REALLOCS = 4 };
    pthread_t threads[REALLOCS], watcher;
    limit_world_begin();
    for (uintptr_t i = 0; i < REALLOCS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, realloc_run, (void *)(i + 1)), 0);
    assert_int_equal(pthread_create(&watcher, NULL, limit_run, NULL), 0);
    for (int i = 0; i < REALLOCS; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&world.is_over, 1);
    pthread_join(watcher, NULL);
    world_end();
}

/* ---- threads that exit ---- */

static pthread_key_t last_key;

/* Uses the pool in every destructor round, also in the last, after which no clean-up runs. */
static void last_words(void *value) {
    uintptr_t rounds = (uintptr_t)value;
    for (int i = 0; i < 10; i++) {
        void *p;
        if (acre_pool_alloc(world.t.pool, 1000, 0, world.t.stream, &p) ||
            acre_pool_free(world.t.pool, p, world.t.stream))
            (void)fail_at(__LINE__);
    }
    if (rounds > 1)
        pthread_setspecific(last_key, (void *)(rounds - 1));
}

static void *last_run(void *user) {
    pthread_setspecific(last_key, user);
    last_words((void *)1);
    return NULL;
}

static void cache_count(struct acre__pool_cache *cache, void *user) {
    (void)cache;
    ++*(size_t *)user;
}

TEST(pool_thread_whose_last_destructor_allocates_leaves_no_cache) {
    enum { COUNT = 20 };
    if (getenv("TSAN_OPTIONS"))
        skip(); /* the sanitizer has destroyed its record of the thread by then */
    for (uintptr_t rounds = 1; rounds <= PTHREAD_DESTRUCTOR_ITERATIONS; rounds++) {
        size_t before = 0, after = 0;
        world_begin(NULL);
        api_ok(acre_pool_free(world.t.pool, alloc(&world.t, 1000), world.t.stream));
        /* Created after acre's key, so that its destructor runs after acre's in each round. */
        assert_int_equal(pthread_key_create(&last_key, last_words), 0);
        acre__caches_visit(cache_count, &before);
        for (int i = 0; i < COUNT; i++) {
            pthread_t thread;
            assert_int_equal(pthread_create(&thread, NULL, last_run, (void *)rounds), 0);
            pthread_join(thread, NULL);
        }
        acre__caches_visit(cache_count, &after);
        pthread_key_delete(last_key);
        world_end();
        if (after != before)
            fail_msg("%zu caches leaked by %d threads whose destructor ran %zu times",
                     after - before, COUNT, (size_t)rounds);
    }
}

/* ---- a thread that returns blocks to the pool ---- */

enum { HALF = 128, PASSES = 2000 };

static struct {
    _Atomic int phase;
    int refused;
} giving;

static void giving_wait(int phase) {
    for (int i = 0; atomic_load(&giving.phase) != phase && is_going_on(); i++)
        if (i > 10000)
            sched_yield();
}

/* Frees all blocks but one, and the last one while the other thread allocates. */
static void *give_slowly(void *unused) {
    void *p[HALF + 1];
    (void)unused;
    for (int pass = 0; pass < ROUNDS(PASSES, 100) && is_going_on(); pass++) {
        giving_wait(2 * pass);
        for (int i = 0; i <= HALF; i++)
            thread_must(acre_pool_alloc(world.t.pool, 64 * KIB, 0, world.t.stream, &p[i]) == 0);
        for (int i = 0; i < HALF; i++)
            thread_must(acre_pool_free(world.t.pool, p[i], world.t.stream) == 0);
        atomic_store(&giving.phase, 2 * pass + 1);
        thread_must(acre_pool_free(world.t.pool, p[HALF], world.t.stream) == 0);
    }
    return NULL;
}

static void *take_meanwhile(void *unused) {
    void *p[HALF];
    (void)unused;
    for (int pass = 0; pass < ROUNDS(PASSES, 100) && is_going_on(); pass++) {
        int count = 0;
        giving_wait(2 * pass + 1);
        while (count < HALF &&
               acre_pool_alloc(world.t.pool, 64 * KIB, 0, world.t.stream, &p[count]) == ACRE_OK)
            count++;
        giving.refused += count < HALF;
        for (int i = 0; i < count; i++)
            thread_must(acre_pool_free(world.t.pool, p[i], world.t.stream) == 0);
        atomic_store(&giving.phase, 2 * pass + 2);
    }
    return NULL;
}

/* The pool can always reach blocks on their way from a thread's cache. */
TEST(pool_refuses_nothing_while_another_thread_gives_blocks) {
    pthread_t threads[2];
    static void *p[2 * HALF];
    world_begin(NULL);
    memset(&giving, 0, sizeof giving);
    for (int round = 0; round < 5; round++) { /* caches may hold many blocks from now on */
        for (int i = 0; i < 2 * HALF; i++)
            p[i] = alloc(&world.t, 64 * KIB);
        for (int i = 0; i < 2 * HALF; i++)
            api_ok(acre_pool_free(world.t.pool, p[i], world.t.stream));
    }
    api_ok(acre_pool_trim(world.t.pool, 0));
    api_ok(acre_pool_set_limits(world.t.pool, 0, (HALF + 1) * 64 * KIB));
    assert_int_equal(pthread_create(&threads[0], NULL, give_slowly, NULL), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, take_meanwhile, NULL), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(giving.refused, 0);
    world_end();
}

int main(void) {
    return tests_run("pool_races");
}
