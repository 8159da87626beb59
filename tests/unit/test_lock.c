/* Locks and conditions between real threads, and lock ranks in debug builds. Further tests install
 * hooks that play a scheduler with two virtual threads, A (the caller) and B (run by the hooks). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "base/lock.h"
#include "base/thread.h"
#include "child.h"

/* ---- real threads ---- */

enum { THREADS = 4, ROUNDS = 5000 };

static struct acre__lock count_lock = ACRE__LOCK_INIT("count", ACRE__RANK_DEVICE);
static uint64_t count;

static void *count_up(void *argument) {
    for (int i = 0; i < ROUNDS; i++) {
        acre__lock_take(&count_lock);
        count++;
        acre__lock_give(&count_lock);
    }
    return argument;
}

static void lock_taken_by_many_threads_excludes(void **state) {
    (void)state;
    count = 0;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_up, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(count, THREADS * ROUNDS);
}

static struct {
    struct acre__lock lock;
    struct acre__cond cond;
    int turn; /* the player whose turn it is: 0, 1 or 2 */
    int served[3];
} table;

static void *play(void *argument) {
    int me = *(int *)argument;
    acre__lock_take(&table.lock);
    for (int i = 0; i < 500; i++) {
        while (table.turn != me)
            acre__cond_wait(&table.cond, &table.lock);
        table.served[me]++;
        table.turn = (me + 1) % 3;
        acre__cond_wake(&table.cond);
    }
    acre__lock_give(&table.lock);
    return NULL;
}

/* Three players: a wake that reached only one waiter could leave all of them asleep. */
static void lock_condition_hands_turns_around(void **state) {
    (void)state;
    acre__lock_init(&table.lock, "table", ACRE__RANK_LEAF);
    acre__cond_init(&table.cond);
    pthread_t threads[3];
    int numbers[3] = {0, 1, 2};
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, play, &numbers[i]), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 3; i++)
        assert_int_equal(table.served[i], 500);
    assert_int_equal(table.turn, 0);
    acre__cond_destroy(&table.cond);
    acre__lock_destroy(&table.lock);
}

/* ---- ranks ---- */

static struct acre__lock low = ACRE__LOCK_INIT("low-lock", ACRE__RANK_REGISTRY);
static struct acre__lock mid = ACRE__LOCK_INIT("mid-lock", ACRE__RANK_DEVICE);
static struct acre__lock mid_too = ACRE__LOCK_INIT("mid-lock-too", ACRE__RANK_DEVICE);
static struct acre__lock high = ACRE__LOCK_INIT("high-lock", ACRE__RANK_LEAF);

/* Locks may be released in any order; the thread's record keeps the others. */
static void lock_ranks_rising_in_any_order_of_return_is_ok(void **state) {
    (void)state;
    for (int i = 0; i < 100; i++) {
        acre__lock_take(&low);
        acre__lock_take(&mid);
        acre__lock_take(&high);
        acre__lock_give(&mid);
        acre__lock_give(&high);
        acre__lock_take(&mid_too);
        acre__lock_give(&low);
        acre__lock_give(&mid_too);
    }
    assert_int_equal(acre__thread_self()->held_count, 0);
}

#ifdef ACRE_DEBUG

static int break_order(void) {
    acre__lock_take(&high);
    acre__lock_take(&low);
    return 0;
}

static int break_same_rank(void) {
    acre__lock_take(&mid);
    acre__lock_take(&mid_too);
    return 0;
}

/* The lock that violates the order is not the one taken last. */
static int break_after_return(void) {
    acre__lock_take(&low);
    acre__lock_take(&mid);
    acre__lock_take(&high);
    acre__lock_give(&high);
    acre__lock_take(&mid_too);
    return 0;
}

static int break_twice(void) {
    acre__lock_take(&mid);
    acre__lock_take(&mid);
    return 0;
}

static int break_give(void) {
    acre__lock_take(&mid);
    acre__lock_give(&high);
    return 0;
}

static int (*broken_body)(void);
static int broken_pipe[2];

static int broken_run(void) {
    signal(SIGABRT, SIG_DFL);
    dup2(broken_pipe[1], STDERR_FILENO);
    return broken_body();
}

/* Runs `body` in a child that must abort with a message containing `first` and `second`. */
static void assert_aborts(int (*body)(void), const char *first, const char *second) {
    broken_body = body;
    assert_int_equal(pipe(broken_pipe), 0);
    int state = child_run(broken_run);
    close(broken_pipe[1]);
    char said[4096];
    ssize_t bytes = read(broken_pipe[0], said, sizeof said - 1);
    close(broken_pipe[0]);
    said[bytes > 0 ? bytes : 0] = '\0';
    assert_true(WIFSIGNALED(state));
    assert_int_equal(WTERMSIG(state), SIGABRT);
    assert_non_null(strstr(said, first));
    assert_non_null(strstr(said, second));
}

static void lock_rank_violation_aborts_with_both_names(void **state) {
    (void)state;
    assert_aborts(break_order, "'low-lock' (rank 10)", "'high-lock' (rank 100)");
    assert_aborts(break_same_rank, "'mid-lock-too'", "'mid-lock' (rank 20)");
    assert_aborts(break_after_return, "'mid-lock-too'", "'mid-lock' (rank 20)");
    assert_aborts(break_twice, "'mid-lock'", "holding 'mid-lock'");
}

static void lock_given_by_a_stranger_aborts(void **state) {
    (void)state;
    assert_aborts(break_give, "'high-lock'", "does not hold it");
}

#else

static void lock_rank_violation_aborts_with_both_names(void **state) {
    (void)state;
    skip(); /* ranks are checked in debug builds only */
}

static void lock_given_by_a_stranger_aborts(void **state) {
    (void)state;
    skip();
}

#endif

/* ---- under a scheduler ---- */

static struct {
    int is_virtual;
    int yields, points;
    int give_at; /* the yield at which B releases `lock`; 0: never */
    struct acre__lock *lock;
    int *flag; /* unless NULL, B increments it under the lock at every yield */
    struct acre__thread *a, *b;
} fake;

static int fake_is_virtual(void) {
    return fake.is_virtual;
}

static void fake_yield(void) {
    fake.yields++;
    acre__thread_pointer = fake.b;
    if (fake.yields == fake.give_at)
        acre__lock_give(fake.lock);
    if (fake.flag) {
        acre__lock_take(fake.lock);
        *fake.flag += 1;
        acre__lock_give(fake.lock);
    }
    acre__thread_pointer = fake.a;
}

static void fake_point(void) {
    fake.points++;
}

static const struct acre__sched_hooks fake_hooks = {fake_is_virtual, fake_yield, fake_point};

static int fake_begin(void **state) {
    (void)state;
    memset(&fake, 0, sizeof fake);
    fake.is_virtual = 1;
    fake.a = acre__thread_self();
    fake.b = acre__thread_create();
    acre__sched_hooks_set(&fake_hooks);
    return fake.b ? 0 : -1;
}

static int fake_end(void **state) {
    (void)state;
    acre__sched_hooks_set(NULL);
    acre__thread_pointer = fake.a;
    acre__thread_destroy(fake.b);
    return 0;
}

static void lock_free_for_a_virtual_thread_is_taken_at_once(void **state) {
    (void)state;
    acre__lock_take(&mid);
    assert_int_equal(pthread_mutex_trylock(&mid.mutex) != 0, 1);
    acre__lock_give(&mid);
    assert_int_equal(pthread_mutex_trylock(&mid.mutex), 0);
    pthread_mutex_unlock(&mid.mutex);
    assert_int_equal(fake.yields, 0);
}

static void lock_held_by_another_virtual_thread_yields_until_free(void **state) {
    (void)state;
    fake.lock = &mid;
    fake.give_at = 3;
    acre__thread_pointer = fake.b;
    acre__lock_take(&mid);
    acre__thread_pointer = fake.a;

    acre__lock_take(&mid);
    assert_int_equal(fake.yields, 3);
    acre__lock_give(&mid);
    assert_int_equal(fake.a->held_count, 0);
    assert_int_equal(fake.b->held_count, 0);
}

static void lock_condition_of_a_virtual_thread_lets_others_in(void **state) {
    (void)state;
    struct acre__cond cond = ACRE__COND_INIT;
    int flag = 0;
    fake.lock = &mid;
    fake.flag = &flag;
    acre__lock_take(&mid);
    while (flag < 5)
        acre__cond_wait(&cond, &mid);
    assert_int_equal(fake.yields, 5);
    assert_true(pthread_mutex_trylock(&mid.mutex) != 0);
    acre__cond_wake(&cond);
    acre__lock_give(&mid);
    acre__cond_destroy(&cond);
}

static void lock_point_runs_for_virtual_threads_only(void **state) {
    (void)state;
    assert_ptr_equal(acre__sched_hooks_get(), &fake_hooks);
    acre__sched_point();
    acre__sched_point();
    assert_int_equal(fake.points, 2);
    fake.is_virtual = 0;
    acre__sched_point();
    assert_int_equal(fake.points, 2);
    acre__sched_hooks_set(NULL);
    assert_null(acre__sched_hooks_get());
    fake.is_virtual = 1;
    acre__sched_point();
    assert_int_equal(fake.points, 2);
}

static void *hold_for_a_while(void *argument) {
    pthread_barrier_t *held = argument;
    acre__lock_take(&mid);
    pthread_barrier_wait(held);
    usleep(20000);
    acre__lock_give(&mid);
    return NULL;
}

static void lock_of_a_real_thread_sleeps_though_hooks_are_set(void **state) {
    (void)state;
    fake.is_virtual = 0;
    pthread_barrier_t held;
    pthread_barrier_init(&held, NULL, 2);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, hold_for_a_while, &held), 0);
    pthread_barrier_wait(&held);
    acre__lock_take(&mid);
    acre__lock_give(&mid);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&held);
    assert_int_equal(fake.yields, 0);
    assert_int_equal(fake.points, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lock_taken_by_many_threads_excludes),
        cmocka_unit_test(lock_condition_hands_turns_around),
        cmocka_unit_test(lock_ranks_rising_in_any_order_of_return_is_ok),
        cmocka_unit_test(lock_rank_violation_aborts_with_both_names),
        cmocka_unit_test(lock_given_by_a_stranger_aborts),
        cmocka_unit_test_setup_teardown(lock_free_for_a_virtual_thread_is_taken_at_once, fake_begin,
                                        fake_end),
        cmocka_unit_test_setup_teardown(lock_held_by_another_virtual_thread_yields_until_free,
                                        fake_begin, fake_end),
        cmocka_unit_test_setup_teardown(lock_condition_of_a_virtual_thread_lets_others_in,
                                        fake_begin, fake_end),
        cmocka_unit_test_setup_teardown(lock_point_runs_for_virtual_threads_only, fake_begin,
                                        fake_end),
        cmocka_unit_test_setup_teardown(lock_of_a_real_thread_sleeps_though_hooks_are_set,
                                        fake_begin, fake_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
