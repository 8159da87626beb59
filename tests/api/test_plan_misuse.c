/* Misuse of plans: each call returns its status and changes nothing. And threads: which thread may
 * call what. */
#include <pthread.h>

#include "api_plan.h"
#include "support/leave.h"

static int no_wish(void *user, const acre_plan_placed *wish) {
    (void)user, (void)wish;
    return 0;
}

/* ---- handles ---- */

static void expect_from_all(acre_plan *plan, acre_status wanted) {
    void *p = UNWRITTEN;
    acre_plan_wish wish = {.struct_size = sizeof wish, .p = &p, .bytes = 1};
    acre_plan_stats stats = {.struct_size = sizeof stats};
    api_expect(acre_plan_want(plan, 0, 1, 0, &p), wanted);
    api_expect(acre_plan_want_for(plan, 0, 1, 0, 0, 0, &p), wanted);
    api_expect(acre_plan_want_many(plan, &wish, 1, 0), wanted);
    api_expect(acre_plan_satisfy(plan), wanted);
    api_expect(acre_plan_cancel(plan), wanted);
    api_expect(acre_plan_commit(plan), wanted);
    api_expect(acre_plan_release(plan, NULL), wanted);
    api_expect(acre_plan_walk(plan, no_wish, NULL), wanted);
    api_expect(acre_plan_step_begin(plan, NULL), wanted);
    api_expect(acre_plan_free(plan, &p), wanted);
    api_expect(acre_plan_step_end(plan), wanted);
    api_expect(acre_plan_get_stats(plan, &stats), wanted);
    assert_ptr_equal(p, UNWRITTEN);
    api_expect(acre_plan_alloc(plan, 0, 1, 0, &p), wanted);
    assert_null(p); /* NULL, as any result after a failure */
}

TEST(plan_that_is_none_is_refused_by_every_call) {
    for (API_EACH(name)) {
        struct planned t = planned_begin(name, NULL);
        expect_from_all(NULL, ACRE_E_NULL);
        expect_from_all((acre_plan *)UNWRITTEN, ACRE_E_HANDLE);
        expect_from_all((acre_plan *)((char *)t.plan + 8), ACRE_E_HANDLE);
        api_expect(acre_plan_destroy((acre_plan *)UNWRITTEN), ACRE_E_HANDLE);
        api_ok(acre_plan_destroy(NULL));
        acre_plan *dead = t.plan;
        api_ok(acre_plan_destroy(t.plan));
        expect_from_all(dead, ACRE_E_HANDLE);
        api_expect(acre_plan_destroy(dead), ACRE_E_HANDLE);
        t.plan = NULL;
        planned_end(&t);
    }
}

/* A thread caches the plan of its current step, but must not use the cache once the plan is
 * destroyed. */
TEST(plan_that_ended_in_a_step_is_refused) {
    for (API_EACH(name)) {
        struct planned t = planned_begin(name, NULL);
        void *p;
        for (int i = 0; i < 2; i++) {
            api_ok(acre_plan_step_begin(t.plan, t.stream));
            api_ok(acre_plan_alloc(t.plan, 0, 100, 0, &p));
            if (i == 0) {
                api_ok(acre_plan_free(t.plan, p));
                api_ok(acre_plan_step_end(t.plan));
            }
        }
        acre_plan *dead = t.plan;
        api_ok(acre_plan_destroy(t.plan));
        expect_from_all(dead, ACRE_E_HANDLE);
        t.plan = NULL;
        planned_end(&t);
    }
}

/* ---- arguments ---- */

API_TEST(plan_create_refuses_bad_options) {
    acre_plan *plan = (acre_plan *)UNWRITTEN;
    acre_plan_options options = {.struct_size = sizeof options};
    api_expect(acre_plan_create(device, &options, NULL), ACRE_E_NULL);
    options.flags = 2;
    api_expect(acre_plan_create(device, &options, &plan), ACRE_E_OPTIONS);
    assert_null(plan);
    options = (acre_plan_options){.struct_size = 3};
    api_expect(acre_plan_create(device, &options, &plan), ACRE_E_OPTIONS);
    const acre_kind kinds[] = {ACRE_KIND_DEVICE, ACRE_KIND_MANAGED, (acre_kind)9};
    for (size_t i = 0; i < 3; i++) {
        options = (acre_plan_options){.struct_size = sizeof options, .host_kind = kinds[i]};
        api_expect(acre_plan_create(device, &options, &plan), ACRE_E_INVALID);
    }
    options = (acre_plan_options){.struct_size = sizeof options, .host_bytes = UINT64_MAX - 1};
    api_expect(acre_plan_create(device, &options, &plan), ACRE_E_INVALID);
    assert_null(plan);
}

TEST(plan_want_refuses_bad_arguments) {
    for (API_EACH(name)) {
        struct planned t = planned_begin(name, NULL);
        acre_plan_stats before = planned_stats(t.plan);
        void *p = UNWRITTEN;
        const size_t bad_alignment[] = {3, 257, (size_t)2 << 30, SIZE_MAX};
        const size_t bad_bytes[] = {SIZE_MAX, (size_t)1 << 62};
        api_expect(acre_plan_want(t.plan, 0, 1, 0, NULL), ACRE_E_NULL);
        api_expect(acre_plan_want(t.plan, 2, 1, 0, &p), ACRE_E_INVALID);
        for (size_t i = 0; i < 4; i++)
            api_expect(acre_plan_want(t.plan, 0, 1, bad_alignment[i], &p), ACRE_E_INVALID);
        for (size_t i = 0; i < 2; i++) {
            api_expect(acre_plan_want(t.plan, 0, bad_bytes[i], 0, &p), ACRE_E_DEVICE_MEMORY);
            api_expect(acre_plan_want(t.plan, 1, bad_bytes[i], 0, &p), ACRE_E_HOST_MEMORY);
        }
        api_expect(acre_plan_want_for(t.plan, 0, 1, 0, 2, 1, &p), ACRE_E_INVALID);
        api_expect(acre_plan_want_for(t.plan, 0, 1, 0, 0, UINT64_MAX, &p), ACRE_E_INVALID);
        api_expect(acre_plan_walk(t.plan, NULL, NULL), ACRE_E_NULL);
        api_expect(acre_plan_get_stats(t.plan, NULL), ACRE_E_NULL);
        planned_expect_same(t.plan, &before);
        assert_ptr_equal(p, UNWRITTEN);
        planned_end(&t);
    }
}

TEST(plan_want_many_refuses_wishes_that_do_not_go_together) {
    struct planned t = planned_begin("soft", NULL);
    acre_plan_stats before = planned_stats(t.plan);
    void *p[2] = {UNWRITTEN, UNWRITTEN};
    const acre_plan_wish good = {.struct_size = sizeof good, .p = &p[0], .bytes = 1};
    acre_plan_wish wishes[2] = {good, good};
    api_ok(acre_plan_want_many(t.plan, NULL, 0, 0));
    api_expect(acre_plan_want_many(t.plan, NULL, 1, 0), ACRE_E_NULL);
    api_expect(acre_plan_want_many(t.plan, wishes, 2, 2), ACRE_E_INVALID);
    wishes[1].place = 1;
    api_expect(acre_plan_want_many(t.plan, wishes, 2, ACRE_PLAN_ADJACENT), ACRE_E_INVALID);
    wishes[1] = good;
    wishes[1].flags = ACRE_WISH_STEPS;
    api_expect(acre_plan_want_many(t.plan, wishes, 2, ACRE_PLAN_ADJACENT), ACRE_E_INVALID);
    wishes[0].flags = ACRE_WISH_STEPS;
    wishes[1].last_step = 1;
    api_expect(acre_plan_want_many(t.plan, wishes, 2, ACRE_PLAN_ADJACENT), ACRE_E_INVALID);
    wishes[0] = wishes[1] = good;
    wishes[1].flags = ACRE_WISH_FIXED;
    api_expect(acre_plan_want_many(t.plan, wishes, 2, ACRE_PLAN_ADJACENT), ACRE_E_INVALID);
    wishes[1] = good;
    wishes[0].bytes = wishes[1].bytes = (uint64_t)1 << 60;
    api_expect(acre_plan_want_many(t.plan, wishes, 2, ACRE_PLAN_ADJACENT), ACRE_E_DEVICE_MEMORY);
    wishes[0] = wishes[1] = good;
    wishes[1].flags = 8;
    api_expect(acre_plan_want_many(t.plan, wishes, 2, 0), ACRE_E_INVALID);
    wishes[1] = good;
    wishes[1].struct_size--;
    api_expect(acre_plan_want_many(t.plan, wishes, 2, 0), ACRE_E_OPTIONS);
    wishes[0].struct_size = 0;
    api_expect(acre_plan_want_many(t.plan, wishes, 1, 0), ACRE_E_OPTIONS);
    planned_expect_same(t.plan, &before);
    assert_ptr_equal(p[0], UNWRITTEN);
    planned_end(&t);
}

/* An array from a program that was built with a later header: its elements are longer, and the new
 * fields are zero. */
TEST(plan_want_many_reads_longer_wishes) {
    struct planned t = planned_begin("soft", NULL);
    struct {
        acre_plan_wish wish;
        uint64_t more;
    } wishes[2] = {{{0}, 0}};
    void *p[2] = {UNWRITTEN, UNWRITTEN};
    for (int i = 0; i < 2; i++)
        wishes[i].wish =
            (acre_plan_wish){.struct_size = sizeof wishes[0], .p = &p[i], .bytes = 300};
    wishes[1].more = 1;
    api_expect(acre_plan_want_many(t.plan, &wishes[0].wish, 2, 0), ACRE_E_OPTIONS);
    wishes[1].more = 0;
    api_ok(acre_plan_want_many(t.plan, &wishes[0].wish, 2, 0));
    assert_ptr_equal(p[1], (char *)p[0] + 512);
    planned_end(&t);
}

TEST(plan_fixed_offset_needs_a_size) {
    acre_plan_options options = {.struct_size = sizeof options,
                                 .device_bytes = ACRE_PLAN_AS_NEEDED,
                                 .host_bytes = ACRE_PLAN_AS_NEEDED};
    struct planned t = planned_begin("soft", &options);
    void *p = UNWRITTEN;
    acre_plan_wish wish = {
        .struct_size = sizeof wish, .p = &p, .bytes = 1, .flags = ACRE_WISH_FIXED};
    api_expect(acre_plan_want_many(t.plan, &wish, 1, 0), ACRE_E_INVALID);
    assert_ptr_equal(p, UNWRITTEN);
    planned_end(&t);
}

TEST(plan_memory_cannot_be_freed_as_somebody_elses) {
    for (API_EACH(name)) {
        acre_plan_options options = {
            .struct_size = sizeof options, .device_bytes = 4 * MIB, .host_bytes = MIB};
        struct planned t = planned_begin(name, &options);
        for (uint32_t place = 0; place < 2; place++) {
            void *p, *q;
            api_ok(acre_plan_want(t.plan, place, 1000, 0, &p));
            api_ok(acre_plan_want(t.plan, place, 1000, 0, &q));
            api_expect(acre_mem_free(t.device, p), ACRE_E_KIND);
            assert_non_null(strstr(acre_last_detail(), "belongs to a plan"));
            api_expect(acre_mem_free(t.device, q), ACRE_E_KIND);
            api_expect(acre_free(p, NULL), ACRE_E_KIND);
        }
        planned_end(&t);
    }
}

TEST(plan_release_of_another_devices_stream_is_refused) {
    acre_device *devices[2];
    acre_plan_options options = {.struct_size = sizeof options,
                                 .device_bytes = ACRE_PLAN_AS_NEEDED,
                                 .host_bytes = ACRE_PLAN_AS_NEEDED};
    acre_plan *plan;
    acre_stream stream;
    void *p;
    api_open_two(devices);
    api_ok(acre_stream_create(devices[1], 0, &stream));
    api_ok(acre_plan_create(devices[0], &options, &plan));
    api_ok(acre_plan_want(plan, 0, 1, 0, &p));
    api_expect(acre_plan_release(plan, stream), ACRE_E_HANDLE);
    api_expect(acre_plan_step_begin(plan, stream), ACRE_E_HANDLE);
    assert_int_equal(planned_stats(plan).wishes, 1);
    assert_int_equal(planned_stats(plan).rounds, 0);
    api_ok(acre_plan_destroy(plan));
    api_ok(acre_close(devices[0]));
    api_ok(acre_close(devices[1]));
}

/* ---- steps ---- */

TEST(step_calls_out_of_turn_are_refused) {
    for (API_EACH(name)) {
        struct planned t = planned_begin(name, NULL);
        void *p = UNWRITTEN;
        api_expect(acre_plan_alloc(t.plan, 0, 1, 0, &p), ACRE_E_INVALID);
        assert_null(p);
        api_expect(acre_plan_free(t.plan, UNWRITTEN), ACRE_E_INVALID);
        api_expect(acre_plan_step_end(t.plan), ACRE_E_INVALID);
        for (int i = 0; i < 3; i++) {
            api_ok(acre_plan_step_begin(t.plan, t.stream));
            api_expect(acre_plan_step_begin(t.plan, t.stream), ACRE_E_BUSY);
            api_expect(acre_plan_release(t.plan, t.stream), ACRE_E_BUSY);
            api_expect(acre_plan_alloc(t.plan, 0, 1, 0, NULL), ACRE_E_NULL);
            api_expect(acre_plan_alloc(t.plan, 2, 1, 0, &p), ACRE_E_INVALID);
            p = UNWRITTEN;
            api_ok(acre_plan_alloc(t.plan, 0, 0, 0, &p));
            assert_null(p);
            api_expect(acre_plan_alloc(t.plan, 0, 1, 3, &p), ACRE_E_INVALID);
            api_expect(acre_plan_free(t.plan, UNWRITTEN), ACRE_E_POINTER);
            api_ok(acre_plan_alloc(t.plan, 0, 1000, 0, &p));
            api_expect(acre_plan_free(t.plan, (char *)p + 256),
                       i ? ACRE_E_POINTER : ACRE_E_INTERIOR);
            api_ok(acre_plan_free(t.plan, p));
            api_expect(acre_plan_free(t.plan, p), ACRE_E_POINTER);
            api_ok(acre_plan_step_end(t.plan));
        }
        assert_int_equal(planned_stats(t.plan).hits, 2);
        assert_int_equal(planned_stats(t.plan).misses, 0);
        planned_end(&t);
    }
}

static void *other_thread(void *user) {
    acre_plan *plan = user;
    void *p = UNWRITTEN;
    acre_plan_stats stats = {.struct_size = sizeof stats};
    api_must(acre_plan_alloc(plan, 0, 1000, 0, &p) == ACRE_E_BUSY && !p);
    api_must(acre_plan_free(plan, UNWRITTEN) == ACRE_E_BUSY);
    api_must(acre_plan_step_end(plan) == ACRE_E_BUSY);
    api_must(acre_plan_step_begin(plan, NULL) == ACRE_E_BUSY);
    api_must(acre_plan_get_stats(plan, &stats) == ACRE_OK);
    return NULL;
}

TEST(step_belongs_to_the_thread_that_began_it) {
    struct planned t = planned_begin("soft", NULL);
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        void *p;
        api_ok(acre_plan_step_begin(t.plan, t.stream));
        api_ok(acre_plan_alloc(t.plan, 0, 1000, 0, &p));
        assert_int_equal(pthread_create(&thread, NULL, other_thread, t.plan), 0);
        api_ok(acre_plan_free(t.plan, p));
        pthread_join(thread, NULL);
        api_ok(acre_plan_step_end(t.plan));
    }
    planned_end(&t);
}

static void *step_thread(void *user) {
    struct planned *t = user;
    void *p;
    api_must(acre_plan_step_begin(t->plan, t->stream) == ACRE_OK);
    api_must(acre_plan_alloc(t->plan, 0, 1000, 0, &p) == ACRE_OK);
    api_must(acre_plan_free(t->plan, p) == ACRE_OK);
    api_must(acre_plan_step_end(t->plan) == ACRE_OK);
    return NULL;
}

TEST(steps_may_come_from_one_thread_after_the_other) {
    struct planned t = planned_begin("soft", NULL);
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, step_thread, &t), 0);
        pthread_join(thread, NULL);
    }
    assert_int_equal(planned_stats(t.plan).hits, 3);
    planned_end(&t);
}

/* Two loops of one thread, one inside the other. */
TEST(steps_of_two_plans_may_be_nested) {
    struct planned t = planned_begin("soft", NULL);
    acre_plan_options options = {
        .struct_size = sizeof options, .device_bytes = MIB, .host_bytes = MIB};
    acre_plan *inner;
    void *p, *q;
    api_ok(acre_plan_create(t.device, &options, &inner));
    for (int i = 0; i < 3; i++) {
        api_ok(acre_plan_step_begin(t.plan, t.stream));
        api_ok(acre_plan_alloc(t.plan, 0, 1000, 0, &p));
        for (int k = 0; k < 3; k++) {
            api_ok(acre_plan_step_begin(inner, t.stream));
            api_ok(acre_plan_alloc(inner, 0, 2000, 0, &q));
            assert_ptr_not_equal(p, q);
            api_ok(acre_plan_free(inner, q));
            api_ok(acre_plan_step_end(inner));
        }
        api_ok(acre_plan_free(t.plan, p));
        api_ok(acre_plan_step_end(t.plan));
    }
    assert_int_equal(planned_stats(t.plan).hits, 2);
    assert_int_equal(planned_stats(inner).hits, 8);
    api_ok(acre_plan_destroy(inner));
    planned_end(&t);
}

/* The thread-local cache of the current step is invalid in a child. */
TEST(step_in_a_forked_child_is_refused) {
    struct planned t = planned_begin("soft", NULL);
    void *p;
    for (int i = 0; i < 2; i++) {
        api_ok(acre_plan_step_begin(t.plan, t.stream));
        api_ok(acre_plan_alloc(t.plan, 0, 1000, 0, &p));
        if (i == 0) {
            api_ok(acre_plan_free(t.plan, p));
            api_ok(acre_plan_step_end(t.plan));
        }
    }
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        leave(acre_plan_free(t.plan, p) != ACRE_E_FORKED ||
              acre_plan_alloc(t.plan, 0, 1000, 0, &p) != ACRE_E_FORKED ||
              acre_plan_step_end(t.plan) != ACRE_E_FORKED ||
              acre_plan_destroy(t.plan) != ACRE_E_FORKED);
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    api_ok(acre_plan_free(t.plan, p));
    api_ok(acre_plan_step_end(t.plan));
    planned_end(&t);
}

/* ---- requests of several threads ---- */

enum { THREADS = 4, EACH = 200 };

struct wanting {
    acre_plan *plan;
    char *p[EACH];
};

static void *want_thread(void *user) {
    struct wanting *self = user;
    for (int i = 0; i < EACH; i++)
        api_must(acre_plan_want(self->plan, 0, 256, 0, (void **)&self->p[i]) == ACRE_OK);
    return NULL;
}

static int compare_addresses(const void *a, const void *b) {
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    return x < y ? -1 : x > y;
}

TEST(wishes_of_several_threads_get_memory_each) {
    struct planned t = planned_begin("soft", NULL);
    static struct wanting threads[THREADS];
    static char *all[THREADS * EACH];
    pthread_t ids[THREADS];
    for (int i = 0; i < THREADS; i++) {
        threads[i].plan = t.plan;
        assert_int_equal(pthread_create(&ids[i], NULL, want_thread, &threads[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(ids[i], NULL);
    for (int i = 0; i < THREADS; i++)
        memcpy(all + (size_t)i * EACH, threads[i].p, sizeof threads[i].p);
    qsort(all, THREADS * EACH, sizeof *all, compare_addresses);
    for (int i = 1; i < THREADS * EACH; i++)
        assert_ptr_equal(all[i], all[i - 1] + 256);
    assert_int_equal(planned_stats(t.plan).wishes, THREADS * EACH);
    planned_end(&t);
}

int main(void) {
    return tests_run("plan_misuse");
}
