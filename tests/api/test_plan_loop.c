/* Loops of plans: the plan records the first step and serves later steps without calling the pool.
 * A step that differs from the recording is served too, and the plan counts its misses. */
#include <pthread.h>
#include <sys/resource.h>

#include "api_plan.h"
#include "support/rounds.h"

enum { BLOCKS = 12 };

static const acre_plan_options needed = {.struct_size = sizeof needed,
                                         .device_bytes = ACRE_PLAN_AS_NEEDED,
                                         .host_bytes = ACRE_PLAN_AS_NEEDED};

/* ---- a step, and the ways in which it may differ from the recorded one ---- */

struct step {
    size_t bytes[BLOCKS];
    size_t extra;    /* bytes of one more block, in the middle; 0: none */
    int without;     /* this block is not allocated; -1: all are */
    int late;        /* this block is not freed; -1: all are */
    int is_reversed; /* frees come in the other order */
    int early;       /* this block is allocated before all others; -1: in order */
    void *p[BLOCKS]; /* the blocks */
};

static struct step step_plain(void) {
    struct step step = {.without = -1, .late = -1, .early = -1};
    for (size_t i = 0; i < BLOCKS; i++)
        step.bytes[i] = (i % 4 + 1) * 10000 + i;
    return step;
}

/* No two live blocks overlap. */
static void expect_apart(const struct step *step) {
    for (int i = 0; i < BLOCKS; i++)
        for (int j = 0; j < i; j++) {
            const char *a = step->p[i], *b = step->p[j];
            if (a && b)
                assert_true(a + step->bytes[i] <= b || b + step->bytes[j] <= a);
        }
}

static void take(struct planned *t, struct step *step, int i) {
    if (i == step->without || step->p[i])
        return;
    uint32_t place = i % 5 == 4 ? ACRE_PLACE_HOST : ACRE_PLACE_DEVICE;
    api_ok(acre_plan_alloc(t->plan, place, step->bytes[i], 0, &step->p[i]));
    assert_int_equal((uintptr_t)step->p[i] % 256, 0);
    api_ok(acre_fill(t->device, step->p[i], (uint8_t)i, step->bytes[i], t->stream));
    expect_apart(step);
}

static void drop(struct planned *t, struct step *step, int i) {
    if (!step->p[i] || i == step->late)
        return;
    api_ok(acre_plan_free(t->plan, step->p[i]));
    step->p[i] = NULL;
}

/* Runs a step with two to four blocks in use at a time, then frees the rest. */
static void step_run(struct planned *t, struct step *step, void **given) {
    void *extra = NULL;
    api_ok(acre_plan_step_begin(t->plan, t->stream));
    if (step->early >= 0)
        take(t, step, step->early);
    for (int i = 0; i < BLOCKS; i++) {
        take(t, step, i);
        if (given)
            given[i] = step->p[i];
        if (i == BLOCKS / 2 && step->extra)
            api_ok(acre_plan_alloc(t->plan, ACRE_PLACE_DEVICE, step->extra, 0, &extra));
        if (i >= 3 && i % 3 == 0)
            for (int k = 0; k < 3; k++)
                drop(t, step, step->is_reversed ? i - 1 - k : i - 3 + k);
    }
    api_ok(acre_plan_free(t->plan, extra));
    for (int i = 0; i < BLOCKS; i++)
        drop(t, step, i);
    api_ok(acre_plan_step_end(t->plan));
}

/* ---- the guarantee ---- */

TEST(loop_later_steps_make_no_pool_call) {
    for (API_EACH(name)) {
        struct planned t = planned_begin(name, &needed);
        struct step step = step_plain();
        step_run(&t, &step, NULL);
        acre_plan_stats first = planned_stats(t.plan);
        assert_int_equal(first.recorded, BLOCKS);
        assert_int_equal(first.pool_calls, 2 * BLOCKS);
        assert_int_equal(first.hits + first.misses, 0);
        void *given[BLOCKS], *again[BLOCKS];
        acre_pool *pool;
        api_ok(acre_pool_default(t.device, ACRE_KIND_DEVICE, &pool));
        step_run(&t, &step, given);
        for (int i = 0; i < 100; i++) {
            step_run(&t, &step, again);
            assert_memory_equal(again, given, sizeof given);
        }
        for (int i = 0; i < BLOCKS; i++)
            assert_false(acre_pool_owns(pool, given[i]));
        acre_plan_stats stats = planned_stats(t.plan);
        assert_int_equal(stats.pool_calls, first.pool_calls); /* 0 in steps 2 to n */
        assert_int_equal(stats.misses, 0);
        assert_int_equal(stats.hits, 101 * BLOCKS);
        assert_int_equal(stats.steps, 102);
        assert_true(stats.loop_bytes >= stats.loop_bound_bytes);
        uint64_t sum = 0;
        for (int i = 0; i < BLOCKS; i++)
            sum += step.bytes[i];
        assert_true(stats.loop_bytes < sum);
        planned_end(&t);
    }
}

/* The first steps of a program may warm up without allocating. */
TEST(loop_is_recorded_from_the_first_step_that_allocates) {
    struct planned t = planned_begin("soft", &needed);
    for (int i = 0; i < 6; i++) {
        void *p = NULL;
        api_ok(acre_plan_step_begin(t.plan, t.stream));
        if (i >= 3)
            api_ok(acre_plan_alloc(t.plan, ACRE_PLACE_DEVICE, 1, 0, &p));
        api_ok(acre_plan_free(t.plan, p));
        api_ok(acre_plan_step_end(t.plan));
    }
    acre_plan_stats stats = planned_stats(t.plan);
    assert_int_equal(stats.steps, 6);
    assert_int_equal(stats.recorded, 1);
    assert_int_equal(stats.hits, 2);
    assert_int_equal(stats.misses, 0);
    planned_end(&t);
}

TEST(loop_alignments_are_kept) {
    for (API_EACH(name)) {
        struct planned t = planned_begin(name, &needed);
        for (int i = 0; i < 4; i++) {
            api_ok(acre_plan_step_begin(t.plan, t.stream));
            for (size_t alignment = 1; alignment <= 4 * MIB; alignment *= 4) {
                void *p, *q;
                api_ok(acre_plan_alloc(t.plan, ACRE_PLACE_DEVICE, 300, 0, &q));
                api_ok(acre_plan_alloc(t.plan, ACRE_PLACE_DEVICE, 300, alignment, &p));
                assert_int_equal((uintptr_t)p % alignment, 0);
                api_ok(acre_plan_free(t.plan, q));
                api_ok(acre_plan_free(t.plan, p));
            }
            api_ok(acre_plan_step_end(t.plan));
        }
        assert_int_equal(planned_stats(t.plan).misses, 0);
        planned_end(&t);
    }
}

TEST(loop_beside_wishes_leaves_them_alone) {
    for (API_EACH(name)) {
        struct planned t = planned_begin(name, NULL);
        struct step step = step_plain();
        unsigned char *host = NULL, back[1000];
        void *device = NULL, *timed = NULL;
        api_ok(acre_plan_want(t.plan, ACRE_PLACE_HOST, 1000, 0, (void **)&host));
        api_ok(acre_plan_want(t.plan, ACRE_PLACE_DEVICE, 1000, 0, &device));
        api_ok(acre_plan_want_for(t.plan, ACRE_PLACE_DEVICE, 1000, 0, 1, 2, &timed));
        api_ok(acre_plan_commit(t.plan));
        memset(host, 0xab, 1000);
        api_ok(acre_fill_sync(t.device, device, 0xab, 1000));
        api_ok(acre_fill_sync(t.device, timed, 0xab, 1000));
        for (int i = 0; i < 4; i++)
            step_run(&t, &step, NULL);
        assert_int_equal(planned_stats(t.plan).hits, 3 * BLOCKS);
        api_ok(acre_stream_sync(t.device, t.stream));
        for (int i = 0; i < 1000; i++)
            assert_int_equal(host[i], 0xab);
        void *both[] = {device, timed};
        for (int k = 0; k < 2; k++) {
            api_ok(acre_copy_sync(t.device, back, both[k], 1000));
            for (int i = 0; i < 1000; i++)
                assert_int_equal(back[i], 0xab);
        }
        planned_end(&t);
    }
}

/* ---- steps that differ ---- */

/* Runs two steps like the recorded one, then the other, then two like the first again, which must
 * not miss. Returns the statistics of the other step. */
static acre_plan_stats differ(const char *name, struct step other, uint64_t *misses) {
    struct planned t = planned_begin(name, &needed);
    struct step step = step_plain();
    step_run(&t, &step, NULL);
    step_run(&t, &step, NULL);
    acre_plan_stats before = planned_stats(t.plan);
    assert_int_equal(before.misses, 0);
    step_run(&t, &other, NULL);
    acre_plan_stats after = planned_stats(t.plan);
    *misses = after.misses;
    if (other.late < 0) {
        step_run(&t, &step, NULL);
        step_run(&t, &step, NULL);
        acre_plan_stats last = planned_stats(t.plan);
        assert_int_equal(last.misses, after.misses);
        assert_int_equal(last.pool_calls, after.pool_calls);
    }
    after.hits -= before.hits;
    after.pool_calls -= before.pool_calls;
    planned_end(&t);
    return after;
}

TEST(loop_with_another_size_misses_that_one_alone) {
    for (API_EACH(name))
        for (int i = 0; i < BLOCKS; i++) {
            struct step other = step_plain();
            uint64_t misses;
            other.bytes[i] += 5000;
            acre_plan_stats stats = differ(name, other, &misses);
            assert_int_equal(misses, 1);
            assert_int_equal(stats.hits, BLOCKS - 1);
            assert_int_equal(stats.pool_calls, 2);
        }
}

TEST(loop_with_an_extra_alloc_misses_that_one_alone) {
    for (API_EACH(name)) {
        struct step other = step_plain();
        uint64_t misses;
        other.extra = 777;
        acre_plan_stats stats = differ(name, other, &misses);
        assert_int_equal(misses, 1);
        assert_int_equal(stats.hits, BLOCKS);
        assert_int_equal(stats.pool_calls, 2);
    }
}

TEST(loop_without_one_alloc_misses_nothing) {
    for (int i = 0; i < BLOCKS; i++) {
        struct step other = step_plain();
        uint64_t misses;
        other.without = i;
        acre_plan_stats stats = differ("soft", other, &misses);
        assert_int_equal(misses, 0);
        assert_int_equal(stats.hits, BLOCKS - 1);
    }
}

TEST(loop_with_frees_in_another_order_is_served) {
    for (API_EACH(name)) {
        struct step other = step_plain();
        uint64_t misses;
        other.is_reversed = 1;
        acre_plan_stats stats = differ(name, other, &misses);
        assert_int_equal(misses, 0);
        assert_int_equal(stats.hits, BLOCKS);
    }
}

TEST(loop_with_allocs_in_another_order_is_served_and_counted) {
    for (int i = 1; i < BLOCKS; i++) {
        struct step other = step_plain();
        uint64_t misses;
        other.early = i;
        acre_plan_stats stats = differ("soft", other, &misses);
        assert_int_equal(misses + stats.hits, BLOCKS);
        assert_int_equal(stats.pool_calls, 2 * misses);
    }
}

/* A block that is not freed keeps its bytes through later steps. A later step can free it. */
TEST(loop_with_a_missing_free_keeps_that_block_apart) {
    for (API_EACH(name))
        for (int i = 0; i < BLOCKS; i++) {
            struct planned t = planned_begin(name, &needed);
            struct step step = step_plain(), other = step_plain();
            step_run(&t, &step, NULL);
            other.late = i;
            step_run(&t, &other, NULL);
            assert_non_null(other.p[i]);
            acre_plan_stats before = planned_stats(t.plan);
            /* Checks every block of the next step against the late block. */
            struct step next = step_plain();
            const char *late = other.p[i];
            api_ok(acre_plan_step_begin(t.plan, t.stream));
            for (int k = 0; k < BLOCKS; k++) {
                take(&t, &next, k);
                const char *p = next.p[k];
                assert_true(p + next.bytes[k] <= late || late + other.bytes[i] <= p);
                drop(&t, &next, k);
            }
            api_ok(acre_plan_step_end(t.plan));
            acre_plan_stats after = planned_stats(t.plan);
            assert_true(after.misses > before.misses);
            assert_int_equal(after.misses - before.misses + after.hits - before.hits, BLOCKS);
            api_ok(acre_plan_step_begin(t.plan, t.stream));
            api_ok(acre_plan_free(t.plan, other.p[i]));
            api_expect(acre_plan_free(t.plan, other.p[i]), ACRE_E_POINTER);
            api_ok(acre_plan_step_end(t.plan));
            step_run(&t, &step, NULL);
            assert_int_equal(planned_stats(t.plan).misses, after.misses);
            planned_end(&t);
        }
}

TEST(loop_block_that_outlives_the_recorded_step_is_the_pools) {
    for (API_EACH(name)) {
        struct planned t = planned_begin(name, &needed);
        void *kept[4], *p;
        acre_pool *pool;
        api_ok(acre_pool_default(t.device, ACRE_KIND_DEVICE, &pool));
        for (int i = 0; i < 4; i++) {
            api_ok(acre_plan_step_begin(t.plan, t.stream));
            api_ok(acre_plan_alloc(t.plan, ACRE_PLACE_DEVICE, 5000, 0, &kept[i]));
            assert_true(acre_pool_owns(pool, kept[i]));
            api_ok(acre_plan_alloc(t.plan, ACRE_PLACE_DEVICE, 6000, 0, &p));
            api_ok(acre_plan_free(t.plan, p));
            api_ok(acre_plan_step_end(t.plan));
        }
        acre_plan_stats stats = planned_stats(t.plan);
        assert_int_equal(stats.hits, 3);
        assert_int_equal(stats.misses, 3);
        assert_int_equal(stats.pool_calls, 3 + 3);
        api_ok(acre_free(kept[0], t.stream)); /* as any block of the pool */
        api_ok(acre_plan_step_begin(t.plan, t.stream));
        for (int i = 1; i < 4; i++)
            api_ok(acre_plan_free(t.plan, kept[i]));
        api_ok(acre_plan_step_end(t.plan));
        planned_end(&t);
    }
}

/* 300 steps of 200 random calls each: no two live blocks overlap. */
TEST(loop_random_steps_never_share_memory) {
    enum { MOST = 40 };
    uint64_t random = random_seed("random steps");
    struct planned t = planned_begin("soft", &needed);
    char *p[MOST] = {0};
    size_t bytes[MOST];
    for (int step = 0; step < 300; step++) {
        uint64_t same = 7; /* most calls of a step repeat the first step */
        api_ok(acre_plan_step_begin(t.plan, t.stream));
        for (int i = 0; i < 200; i++) {
            size_t k = (size_t)random_draw(&same, MOST), want = 256 * (1 + random_draw(&same, 50));
            uint64_t odds = step ? random_draw(&random, 40) : 9;
            if (odds == 0)
                continue;
            if (odds == 1)
                want = 256 * (1 + random_draw(&random, 50));
            if (odds == 2)
                k = (size_t)random_draw(&random, MOST);
            if (p[k]) {
                api_ok(acre_plan_free(t.plan, p[k]));
                p[k] = NULL;
                continue;
            }
            api_ok(acre_plan_alloc(t.plan, ACRE_PLACE_DEVICE, want, 0, (void **)&p[k]));
            bytes[k] = want;
            for (size_t j = 0; j < MOST; j++)
                if (j != k && p[j])
                    assert_true(p[j] + bytes[j] <= p[k] || p[k] + bytes[k] <= p[j]);
        }
        /* Frees most blocks; a few stay for later steps. */
        for (size_t k = 0; k < MOST; k++)
            if (p[k] && (!step || random_draw(&random, 60))) {
                api_ok(acre_plan_free(t.plan, p[k]));
                p[k] = NULL;
            }
        api_ok(acre_plan_step_end(t.plan));
    }
    acre_plan_stats stats = planned_stats(t.plan);
    print_message("%llu hits, %llu misses\n", (unsigned long long)stats.hits,
                  (unsigned long long)stats.misses);
    assert_true(stats.hits > 0 && stats.misses > 0);
    planned_end(&t);
}

/* ---- memory, pools, rounds ---- */

TEST(loop_that_does_not_fit_stays_with_the_pool_and_says_so) {
    acre_plan_options small = {
        .struct_size = sizeof small, .device_bytes = 4096, .host_bytes = ACRE_PLAN_AS_NEEDED};
    struct planned t = planned_begin("soft", &small);
    struct step step = step_plain();
    step_run(&t, &step, NULL);
    planned_listen();
    step_run(&t, &step, NULL);
    assert_non_null(strstr(planned_log.line,
                           "plan: a loop of 12 allocations cannot be placed, the pool serves it: "
                           "not enough device memory: desired "));
    acre_plan_stats stats = planned_stats(t.plan);
    assert_int_equal(stats.hits, 0);
    assert_int_equal(stats.misses, BLOCKS);
    assert_int_equal(stats.pool_calls, 4 * BLOCKS);
    assert_int_equal(planned_log.count, 1);
    step_run(&t, &step, NULL);
    assert_int_equal(planned_log.count, 1);
    api_ok(acre_log_set(NULL, NULL, ACRE_LOG_ERROR));
    planned_end(&t);
}

/* Asks for host memory of the default size, gigabytes, where that much cannot be mapped: to fill it
 * with pages would take seconds. A sanitizer does not bear such a limit. */
static void expect_default_of_host(acre_plan *plan) {
    struct rlimit before, now;
    unsigned long long pages = 0, wanted = 0;
    void *p;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%llu", &pages), 1);
    (void)fclose(file);
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    now = before;
    now.rlim_cur = (rlim_t)pages * (rlim_t)getpagesize() + 64 * MIB;
    assert_int_equal(setrlimit(RLIMIT_AS, &now), 0);
    acre_status status = acre_plan_want(plan, ACRE_PLACE_HOST, MIB, 0, &p);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    api_expect(status, ACRE_E_HOST_MEMORY);
    const char *said = strstr(acre_last_detail(), "not enough host memory: desired ");
    assert_true(said && sscanf(said, "%*[^0-9]%llu", &wanted) == 1 && wanted > 64 * MIB);
}

/* A plan of the default sizes: a loop gets what it needs, and requests before and after it get the
 * default sizes. */
API_TEST(loop_leaves_the_default_sizes_for_requests) {
    acre_plan *plan;
    void *p;
    api_ok(acre_plan_create(device, NULL, &plan));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 3; i++) {
            api_ok(acre_plan_step_begin(plan, NULL));
            api_ok(acre_plan_alloc(plan, ACRE_PLACE_DEVICE, MIB, 0, &p));
            api_ok(acre_plan_free(plan, p));
            api_ok(acre_plan_step_end(plan));
        }
        acre_plan_stats stats = planned_stats(plan);
        assert_int_equal(stats.hits, 2 * (round + 1));
        assert_int_equal(stats.device_bytes, 2 * MIB);
        assert_int_equal(stats.device_used_bytes, MIB);
        assert_int_equal(stats.host_bytes, 0);
        api_ok(acre_plan_release(plan, NULL));
        assert_int_equal(planned_stats(plan).device_bytes, 2 * MIB); /* for the next loop */
    }
    if (!ROUNDS_ARE_FEW)
        expect_default_of_host(plan);
    api_ok(acre_plan_want(plan, ACRE_PLACE_DEVICE, MIB, 0, &p));
    acre_plan_stats stats = planned_stats(plan);
    acre_device_info info = {.struct_size = sizeof info};
    api_ok(acre_device_get_info(device, &info));
    assert_true(stats.device_bytes > info.total_bytes / 2 || stats.device_bytes >= 4096 * MIB);
    api_ok(acre_plan_destroy(plan));
}

/* When the plan places the loop, the pool holds all of the device's memory and none of it is in
 * use. The work before the frees may still be in flight. */
TEST(loop_takes_the_memory_that_the_pool_needed_for_it) {
    acre_open_options small = {.struct_size = sizeof small, .soft_bytes = 32 * MIB};
    for (int round = 0; round < ROUNDS(1000, 50); round++) {
        acre_device *device;
        acre_plan *plan;
        void *p;
        api_ok(acre_open("soft", &small, &device));
        api_ok(acre_plan_create(device, &needed, &plan));
        for (int i = 0; i < 3; i++) {
            api_ok(acre_plan_step_begin(plan, NULL));
            api_ok(acre_plan_alloc(plan, ACRE_PLACE_DEVICE, 24 * MIB, 0, &p));
            api_ok(acre_plan_free(plan, p));
            api_ok(acre_plan_step_end(plan));
        }
        assert_int_equal(planned_stats(plan).hits, 2);
        api_ok(acre_plan_destroy(plan));
        api_ok(acre_close(device));
    }
}

static void *begin_and_end(void *argument) {
    struct planned *t = argument;
    void *p;
    api_ok(acre_plan_step_begin(t->plan, t->stream));
    api_ok(acre_plan_alloc(t->plan, ACRE_PLACE_DEVICE, 1000, 0, &p));
    api_ok(acre_fill(t->device, p, 1, 1000, t->stream));
    return p;
}

/* A thread that exits in a step ends the step. Blocks that it did not free stay live. */
TEST(loop_step_whose_thread_has_ended_is_over) {
    for (int i = 0; i < 3; i++) {
        struct planned t = planned_begin("soft", &needed);
        struct step step = step_plain();
        for (int j = 0; j < i; j++)
            step_run(&t, &step, NULL);
        pthread_t thread;
        void *left;
        assert_int_equal(pthread_create(&thread, NULL, begin_and_end, &t), 0);
        assert_int_equal(pthread_join(thread, &left), 0);
        api_expect(acre_plan_step_end(t.plan), ACRE_E_BUSY);
        step_run(&t, &step, NULL);
        api_ok(acre_plan_step_begin(t.plan, t.stream));
        api_ok(acre_plan_free(t.plan, left));
        api_ok(acre_plan_step_end(t.plan));
        assert_int_equal(planned_stats(t.plan).steps, (uint64_t)i + 3);
        assert_int_equal(pthread_create(&thread, NULL, begin_and_end, &t), 0);
        assert_int_equal(pthread_join(thread, &left), 0);
        api_ok(acre_plan_release(t.plan, NULL));
        planned_end(&t);
    }
}

API_TEST(loop_uses_the_pools_it_was_given) {
    acre_pool_options kind = {.struct_size = sizeof kind, .kind = ACRE_KIND_PINNED};
    acre_plan_options options = needed;
    acre_plan *plan, *no = (acre_plan *)UNWRITTEN;
    acre_pool *pools[2];
    api_ok(acre_pool_create(device, NULL, &pools[0]));
    api_ok(acre_pool_create(device, &kind, &pools[1]));
    options.device_pool = pools[1];
    api_expect(acre_plan_create(device, &options, &no), ACRE_E_KIND);
    assert_null(no);
    options.device_pool = (acre_pool *)UNWRITTEN;
    api_expect(acre_plan_create(device, &options, &no), ACRE_E_HANDLE);
    options.device_pool = pools[0];
    options.host_pool = pools[1];
    api_ok(acre_plan_create(device, &options, &plan));
    api_ok(acre_plan_step_begin(plan, NULL));
    for (uint32_t place = 0; place < 2; place++) {
        void *p;
        api_ok(acre_plan_alloc(plan, place, 1000, 0, &p));
        assert_true(acre_pool_owns(pools[place], p));
        api_ok(acre_plan_free(plan, p));
    }
    api_ok(acre_plan_step_end(plan));
    api_ok(acre_plan_destroy(plan));
    api_ok(acre_pool_destroy(pools[0], NULL, NULL));
    api_ok(acre_pool_destroy(pools[1], NULL, NULL));
}

/* Double frees are refused as by the pool, even where the recording frees this block next. */
TEST(loop_double_free_is_refused) {
    for (API_EACH(name)) {
        struct planned t = planned_begin(name, &needed);
        for (int round = 0; round < 2; round++) {
            void *a, *b;
            api_ok(acre_plan_step_begin(t.plan, t.stream));
            api_ok(acre_plan_alloc(t.plan, ACRE_PLACE_DEVICE, 4096, 0, &a));
            api_ok(acre_plan_alloc(t.plan, ACRE_PLACE_DEVICE, 4096, 0, &b));
            if (round) {
                api_ok(acre_plan_free(t.plan, b));
                api_ok(acre_plan_free(t.plan, a));
                api_expect(acre_plan_free(t.plan, b), ACRE_E_POINTER);
            } else {
                api_ok(acre_plan_free(t.plan, a));
                api_ok(acre_plan_free(t.plan, b));
            }
            api_ok(acre_plan_step_end(t.plan));
        }
        planned_end(&t);
    }
}

/* Loops that are recorded and released repeatedly leak no event. */
TEST(loop_recorded_again_and_again_makes_no_more_events) {
    struct planned t = planned_begin("soft", &needed);
    uint64_t events = 0;
    for (int round = 0; round < 40; round++) {
        for (int step = 0; step < 2; step++) {
            void *p;
            api_ok(acre_plan_step_begin(t.plan, t.stream));
            api_ok(acre_plan_alloc(t.plan, ACRE_PLACE_DEVICE, 4096, 0, &p));
            api_ok(acre_plan_free(t.plan, p));
            api_ok(acre_plan_step_end(t.plan));
        }
        api_ok(acre_plan_release(t.plan, t.stream));
        if (round == 20)
            events = api_stats(t.device).events_live;
    }
    assert_int_equal(api_stats(t.device).events_live, events);
    planned_end(&t);
}

TEST(loop_is_recorded_anew_after_release) {
    for (API_EACH(name)) {
        struct planned t = planned_begin(name, &needed);
        struct step step = step_plain(), other = step_plain();
        for (int i = 0; i < BLOCKS; i++)
            other.bytes[i] = 30000;
        step_run(&t, &step, NULL);
        step_run(&t, &step, NULL);
        api_ok(acre_plan_release(t.plan, t.stream));
        assert_int_equal(planned_stats(t.plan).recorded, 0);
        step_run(&t, &other, NULL);
        acre_plan_stats before = planned_stats(t.plan);
        step_run(&t, &other, NULL);
        acre_plan_stats after = planned_stats(t.plan);
        assert_int_equal(after.hits - before.hits, BLOCKS);
        assert_int_equal(after.pool_calls, before.pool_calls);
        assert_int_equal(after.waits, 1);
        planned_end(&t);
    }
}

int main(void) {
    return tests_run("plan_loop");
}
