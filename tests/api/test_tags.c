/* Tags through the public API, on every driver: nesting, counts, limits, threads. Tags live as long
 * as the process, so each test uses its own names. */
#include <pthread.h>
#include <stdatomic.h>

#include "api_pool.h"

/* ---- lookup ---- */

struct look {
    const char *path;
    acre_tag_info info;
    int found;
};

static int look_at(void *user, const acre_tag_info *info) {
    struct look *look = user;
    if (strcmp(info->path, look->path) == 0) {
        look->info = *info;
        look->found++;
    }
    return 0;
}

static int end_at_first(void *user, const acre_tag_info *info) {
    (void)info;
    ++*(int *)user;
    return 1;
}

static acre_tag_info tag(const char *path) {
    struct look look = {.path = path};
    api_ok(acre_tag_walk(look_at, &look));
    assert_int_equal(look.found, 1);
    assert_int_equal(look.info.struct_size, sizeof look.info);
    return look.info;
}

static acre_status try_alloc(struct things *t, size_t bytes, void **p) {
    *p = t;
    acre_status status = acre_pool_alloc(t->pool, bytes, 0, t->stream, p);
    if (status)
        assert_null(*p);
    return status;
}

/* ---- counts ---- */

TEST(tag_nests_and_counts_what_is_below_it) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        void *none = alloc(&t, 1000), *step, *forward, *large;
        api_ok(acre_tag_push("nest"));
        step = alloc(&t, 1000);
        api_ok(acre_tag_push("forward"));
        forward = alloc(&t, 2000);
        large = alloc(&t, 3 * MIB);
        api_ok(acre_tag_pop());
        void *again = alloc(&t, 1000);
        api_ok(acre_tag_pop());
        api_expect(acre_tag_pop(), ACRE_E_INVALID);
        void *after = alloc(&t, 1000);
        acre_tag_info outer = tag("nest"), inner = tag("nest/forward");
        assert_int_equal(outer.own_bytes, 2048);
        assert_int_equal(outer.own_blocks, 2);
        assert_int_equal(outer.live_bytes, 2048 + 2048 + 3 * MIB);
        assert_int_equal(outer.live_blocks, 4);
        assert_int_equal(inner.live_bytes, 2048 + 3 * MIB);
        assert_int_equal(inner.own_bytes, inner.live_bytes);
        assert_in_range(outer.peak_bytes, 3 * MIB, 3 * MIB + 4096);
        api_ok(acre_pool_free(t.pool, large, t.stream));
        api_ok(acre_pool_free(t.pool, step, t.stream));
        assert_int_equal(tag("nest").live_bytes, 1024 + 2048);
        assert_int_equal(tag("nest/forward").live_bytes, 2048);
        assert_in_range(tag("nest").peak_bytes, 3 * MIB, 3 * MIB + 4096);
        api_ok(acre_pool_free(t.pool, forward, t.stream));
        api_ok(acre_pool_free(t.pool, again, t.stream));
        api_ok(acre_pool_free(t.pool, none, t.stream));
        api_ok(acre_pool_free(t.pool, after, t.stream));
        assert_int_equal(tag("nest").live_bytes + tag("nest").live_blocks, 0);
        end(&t);
    }
}

/* The counts stay exact over hits, refills, spills, cached large blocks and every way to free a
 * block. */
TEST(tag_counts_are_exact_over_many_calls) {
    uint64_t random = random_seed("tags");
    static const char *const names[] = {"many0", "many1", "many2"};
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        void *blocks[300] = {NULL};
        uint8_t of[300];
        uint64_t bytes[3] = {0}, counts[3] = {0};
        for (int i = 0; i < 20000; i++) {
            size_t at = random_draw(&random, 300);
            int which = (int)random_draw(&random, 4);
            if (blocks[at]) {
                if (of[at] < 3) {
                    bytes[of[at]] -= acre_pool_usable_size(t.pool, blocks[at]);
                    counts[of[at]]--;
                }
                if (i % 97 == 0)
                    api_ok(acre_pool_record_use(t.pool, blocks[at], t.other));
                api_ok(acre_pool_free(t.pool, blocks[at], i % 3 ? t.stream : t.other));
                blocks[at] = NULL;
                continue;
            }
            if (which < 3)
                api_ok(acre_tag_push(names[which]));
            size_t wanted = 1 + random_draw(&random, i % 50 ? 5000 : 3 * MIB);
            blocks[at] = alloc(&t, wanted);
            of[at] = (uint8_t)which;
            if (which < 3) {
                api_ok(acre_tag_pop());
                bytes[which] += acre_pool_usable_size(t.pool, blocks[at]);
                counts[which]++;
            }
        }
        for (int i = 0; i < 3; i++) {
            assert_int_equal(tag(names[i]).live_bytes, bytes[i]);
            assert_int_equal(tag(names[i]).live_blocks, counts[i]);
        }
        /* Destroying the pool uncounts its live blocks. */
        api_ok(acre_pool_destroy(t.pool, NULL, NULL));
        for (int i = 0; i < 3; i++)
            assert_int_equal(tag(names[i]).live_bytes + tag(names[i]).live_blocks, 0);
        api_ok(acre_pool_create(t.device, NULL, &t.pool));
        end(&t);
    }
}

TEST(tag_follows_a_block_that_changes_its_size) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        void *p, *q;
        acre_event event;
        api_ok(acre_event_create(t.device, 0, &event));
        api_ok(acre_tag_push("resized"));
        p = alloc(&t, 4 * MIB);
        api_ok(acre_pool_realloc(t.pool, p, 9 * MIB, t.stream, &q));
        assert_int_equal(tag("resized").live_bytes, acre_pool_usable_size(t.pool, q));
        api_ok(acre_pool_realloc(t.pool, q, 2 * MIB, t.stream, &p));
        assert_int_equal(tag("resized").live_bytes, acre_pool_usable_size(t.pool, p));
        api_ok(acre_pool_realloc(t.pool, p, 2000, t.stream, &q));
        assert_int_equal(tag("resized").live_bytes, acre_pool_usable_size(t.pool, q));
        assert_int_equal(tag("resized").live_blocks, 1);
        api_ok(acre_tag_pop());
        api_ok(acre_event_record(t.device, event, t.stream));
        api_ok(acre_pool_free_after(t.pool, q, event));
        assert_int_equal(tag("resized").live_bytes, 0);
        api_ok(acre_event_destroy(t.device, event));
        end(&t);
    }
}

TEST(tag_is_kept_by_pools_of_every_sort) {
    for (API_EACH(name)) {
        for (int i = 0; i < 4; i++) {
            acre_pool_options options = {.struct_size = sizeof options, .flags = (uint32_t)i};
            if (i == 3)
                options =
                    (acre_pool_options){.struct_size = sizeof options, .kind = ACRE_KIND_PINNED};
            struct things t = begin(name, &options);
            void *p, *simple;
            api_ok(acre_tag_push("sorts"));
            p = alloc(&t, 2000);
            api_ok(acre_alloc(t.device, 512, t.stream, &simple));
            api_ok(acre_tag_pop());
            assert_int_equal(tag("sorts").live_blocks, 2);
            api_expect(acre_pool_free(t.pool, (char *)p + 1, t.stream), ACRE_E_INTERIOR);
            assert_int_equal(tag("sorts").live_blocks, 2);
            api_ok(acre_pool_free(t.pool, p, t.stream));
            api_expect(acre_pool_free(t.pool, p, t.stream), ACRE_E_POINTER);
            api_ok(acre_free(simple, t.stream));
            assert_int_equal(tag("sorts").live_blocks, 0);
            end(&t);
        }
    }
}

/* ---- limits ---- */

TEST(tag_limit_holds_for_the_sum_below_it) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        void *a, *b, *c;
        api_ok(acre_tag_set_limit("lim", 20 * MIB));
        api_ok(acre_tag_set_limit("lim/inner", 16 * MIB));
        assert_int_equal(tag("lim").limit_bytes, 20 * MIB);
        api_ok(acre_tag_push("lim"));
        api_ok(try_alloc(&t, 8 * MIB, &a));
        api_ok(acre_tag_push("inner"));
        api_ok(try_alloc(&t, 8 * MIB, &b));
        api_expect(try_alloc(&t, 9 * MIB, &c), ACRE_E_LIMIT); /* limit of lim/inner */
        assert_non_null(strstr(acre_last_detail(), "lim/inner"));
        api_expect(try_alloc(&t, 6 * MIB, &c), ACRE_E_LIMIT); /* limit of lim */
        assert_non_null(strstr(acre_last_detail(), "tag lim are in use"));
        assert_int_equal(tag("lim").live_bytes, 16 * MIB);
        api_ok(try_alloc(&t, 4 * MIB, &c));
        api_ok(acre_tag_pop());
        api_expect(try_alloc(&t, 2 * MIB, &c), ACRE_E_LIMIT);
        api_ok(acre_pool_free(t.pool, a, t.stream));
        api_ok(try_alloc(&t, 2 * MIB, &c));
        api_ok(acre_tag_set_limit("lim", 0));
        api_ok(try_alloc(&t, 20 * MIB, &c));
        api_ok(acre_tag_pop());
        end(&t);
        assert_int_equal(tag("lim").live_bytes, 0);
    }
}

/* A thread may exceed the limit by up to 1 MiB of small blocks. */
TEST(tag_limit_of_small_blocks_has_the_slack_that_is_said) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        void *p, *cached[128];
        size_t count = 0, bytes = 64 * KIB;
        api_ok(acre_pool_alloc_many(t.pool, bytes, 128, t.stream, cached));
        /* From now on, requests are hits. */
        api_ok(acre_pool_free_many(t.pool, cached, 128, t.stream, NULL));
        api_ok(acre_tag_set_limit("slack", 2 * MIB));
        api_ok(acre_tag_push("slack"));
        while (try_alloc(&t, bytes, &p) == ACRE_OK)
            count++;
        assert_in_range(count * bytes, 2 * MIB, 3 * MIB);
        assert_int_equal(tag("slack").live_bytes, count * bytes);
        for (int i = 0; i < 3; i++) /* hits are left, but they count too */
            api_expect(try_alloc(&t, bytes, &p), ACRE_E_LIMIT);
        api_ok(acre_tag_pop());
        api_ok(try_alloc(&t, 4096, &p)); /* without the tag */
        end(&t);
    }
}

struct freer {
    struct things *t;
    void *p[64];
    size_t count;
    pthread_barrier_t barrier;
    acre_status status;
};

static void *free_and_sleep(void *argument) {
    struct freer *self = argument;
    self->status = acre_pool_free_many(self->t->pool, self->p, self->count, self->t->stream, NULL);
    pthread_barrier_wait(&self->barrier);
    pthread_barrier_wait(&self->barrier);
    return NULL;
}

/* Another thread has freed blocks and sleeps; its own counters hold the frees. */
TEST(tag_limit_counts_what_other_threads_have_freed) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        struct freer freer = {.t = &t, .count = 8};
        pthread_t thread;
        void *p;
        api_ok(acre_tag_set_limit("freed", 8 * 64 * KIB));
        api_ok(acre_tag_push("freed"));
        for (int i = 0; i < 8; i++)
            freer.p[i] = alloc(&t, 64 * KIB);
        assert_int_equal(pthread_barrier_init(&freer.barrier, NULL, 2), 0);
        assert_int_equal(pthread_create(&thread, NULL, free_and_sleep, &freer), 0);
        pthread_barrier_wait(&freer.barrier);
        api_ok(freer.status);
        api_ok(try_alloc(&t, 8 * 64 * KIB, &p));
        api_ok(acre_tag_pop());
        assert_int_equal(tag("freed").live_blocks, 1);
        pthread_barrier_wait(&freer.barrier);
        pthread_join(thread, NULL);
        pthread_barrier_destroy(&freer.barrier);
        end(&t);
    }
}

static int free_one(void *user, acre_pool *pool, uint64_t wanted_bytes, uint32_t attempt) {
    void **p = user;
    if (!*p || wanted_bytes != 4 * MIB || attempt)
        return 0;
    api_ok(acre_pool_free(pool, *p, NULL));
    *p = NULL;
    return 1;
}

TEST(tag_limit_asks_the_pools_callback) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        void *p, *q;
        api_ok(acre_tag_set_limit("ask", 4 * MIB));
        api_ok(acre_tag_push("ask"));
        api_ok(try_alloc(&t, 4 * MIB, &p));
        api_ok(acre_pool_set_callback(t.pool, free_one, &p));
        api_ok(try_alloc(&t, 4 * MIB, &q));
        api_expect(try_alloc(&t, 4 * MIB, &q), ACRE_E_LIMIT);
        api_expect(try_alloc(&t, 5 * MIB, &q), ACRE_E_LIMIT);
        api_ok(acre_tag_pop());
        end(&t);
    }
}

struct recursion {
    acre_stream stream;
    int calls;
    acre_status inner;
};

static int allocate_within(void *user, acre_pool *pool, uint64_t wanted_bytes, uint32_t attempt) {
    struct recursion *self = user;
    void *p;
    (void)attempt;
    self->calls++;
    self->inner = acre_pool_alloc(pool, wanted_bytes, 0, self->stream, &p);
    return 0;
}

TEST(tag_limit_does_not_call_back_within_a_callback) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        struct recursion self = {.stream = t.stream};
        void *p;
        api_ok(acre_tag_set_limit("within", 4 * MIB));
        api_ok(acre_tag_push("within"));
        api_ok(acre_pool_set_callback(t.pool, allocate_within, &self));
        api_ok(try_alloc(&t, 4 * MIB, &p));
        api_expect(try_alloc(&t, 2 * MIB, &p), ACRE_E_LIMIT);
        assert_int_equal(self.calls, 1);
        assert_int_equal(self.inner, ACRE_E_LIMIT);
        api_ok(acre_tag_pop());
        end(&t);
    }
}

/* ---- misuse ---- */

TEST(tag_bad_names_are_refused) {
    char longest[66];
    memset(longest, 'x', 65);
    longest[65] = '\0';
    const char *const bad[] = {"", "a/b", "a\nb", "\x80", "\"", "\\", longest};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        api_expect(acre_tag_push(bad[i]), ACRE_E_INVALID);
    api_expect(acre_tag_push(NULL), ACRE_E_NULL);
    const char *const paths[] = {"", "/", "a/", "/a", "a//b", longest};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        api_expect(acre_tag_set_limit(paths[i], 1), ACRE_E_INVALID);
    api_expect(acre_tag_set_limit(NULL, 1), ACRE_E_NULL);
    char deep[2001] = {0};
    for (size_t i = 0; i + 2 < sizeof deep; i += 2)
        memcpy(deep + i, i ? "/a" : " a", 2);
    api_expect(acre_tag_set_limit(deep + 1, 1), ACRE_E_LIMIT);
    int told = 0;
    api_ok(acre_tag_walk(end_at_first, &told));
    assert_int_equal(told, 1);
    api_expect(acre_tag_walk(NULL, NULL), ACRE_E_NULL);
    api_expect(acre_tag_pop(), ACRE_E_INVALID);
    longest[64] = '\0';
    api_ok(acre_tag_push(longest));
    api_ok(acre_tag_pop());
}

TEST(tag_depth_is_bounded) {
    int depth = 0;
    acre_status status;
    while ((status = acre_tag_push("d")) == ACRE_OK)
        depth++;
    api_expect(status, ACRE_E_LIMIT);
    assert_int_equal(depth, 32);
    while (depth--)
        api_ok(acre_tag_pop());
    api_expect(acre_tag_pop(), ACRE_E_INVALID);
}

/* Runs in a started program, since tags are never removed. */
static int too_many(void) {
    char name[16];
    int count = 0;
    for (;; count++) {
        snprintf(name, sizeof name, "t%d", count);
        acre_status status = acre_tag_push(name);
        if (status == ACRE_E_LIMIT)
            break;
        api_must(status == ACRE_OK && acre_tag_pop() == ACRE_OK);
    }
    api_must(count == 4096);
    api_must(acre_tag_push("t7") == ACRE_OK); /* an existing tag */
    api_must(acre_tag_set_limit("t7", 5) == ACRE_OK);
    api_must(acre_tag_set_limit("t7/new", 5) == ACRE_E_LIMIT);
    return 0;
}

TEST(tag_number_is_bounded) {
    api_started_ok("too-many");
}

/* ---- threads ---- */

enum { THREADS = 4, SHELF = 64, ROUNDS = 4000 };

struct world {
    acre_device *device;
    acre_pool *pool;
    _Atomic(void *) shelf[SHELF];
    _Atomic int bad, stop;
};

struct worker {
    struct world *world;
    uint64_t random;
};

/* Threads free tagged blocks of each other while another thread walks the tags. */
static void *hand_on(void *argument) {
    struct worker *self = argument;
    struct world *world = self->world;
    for (int i = 0; i < ROUNDS; i++) {
        void *p = NULL;
        int is_tagged = random_draw(&self->random, 3) != 0;
        acre_status status = is_tagged ? acre_tag_push("thread") : ACRE_OK;
        if (status == ACRE_OK && is_tagged && i % 2)
            status = acre_tag_push("inner");
        if (status == ACRE_OK)
            status =
                acre_pool_alloc(world->pool, 1 + random_draw(&self->random, 9000), 0, NULL, &p);
        while (acre_tag_pop() == ACRE_OK)
            continue;
        p = atomic_exchange(&world->shelf[random_draw(&self->random, SHELF)], p);
        if (status == ACRE_OK)
            status = acre_pool_free(world->pool, p, NULL);
        atomic_fetch_add(&world->bad, status != ACRE_OK);
    }
    return NULL;
}

static int count_tag(void *user, const acre_tag_info *info) {
    *(uint64_t *)user += info->live_blocks;
    return 0;
}

static void *walk_tags(void *argument) {
    struct world *world = argument;
    uint64_t count = 0;
    while (!atomic_load(&world->stop)) {
        atomic_fetch_add(&world->bad, acre_tag_walk(count_tag, &count) != ACRE_OK);
        atomic_fetch_add(&world->bad, acre_tag_set_limit("thread", GIB) != ACRE_OK);
        usleep(500);
    }
    return NULL;
}

TEST(tag_threads_free_each_others_blocks) {
    uint64_t random = random_seed("tags");
    for (API_EACH(name)) {
        static struct world world;
        memset(&world, 0, sizeof world);
        struct worker workers[THREADS];
        pthread_t threads[THREADS], walker;
        world.device = api_open(name);
        api_ok(acre_pool_create(world.device, NULL, &world.pool));
        assert_int_equal(pthread_create(&walker, NULL, walk_tags, &world), 0);
        for (int i = 0; i < THREADS; i++) {
            workers[i] = (struct worker){&world, random_draw(&random, UINT64_MAX)};
            assert_int_equal(pthread_create(&threads[i], NULL, hand_on, &workers[i]), 0);
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        atomic_store(&world.stop, 1);
        pthread_join(walker, NULL);
        assert_int_equal(atomic_load(&world.bad), 0);
        for (int i = 0; i < SHELF; i++)
            api_ok(acre_pool_free(world.pool, atomic_load(&world.shelf[i]), NULL));
        assert_int_equal(tag("thread").live_bytes + tag("thread").live_blocks, 0);
        assert_int_equal(tag("thread/inner").own_bytes + tag("thread/inner").own_blocks, 0);
        assert_int_equal(stats_of(world.pool).live_blocks, 0);
        api_ok(acre_pool_destroy(world.pool, NULL, NULL));
        api_ok(acre_close(world.device));
    }
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "too-many") == 0)
        return too_many();
    return tests_run("tags");
}
