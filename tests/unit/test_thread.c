/* Thread records, exit hooks, and forked children. The first two tests need a process that has
 * neither called acre__enter nor created a record, so they must stay first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/status.h"
#include "base/thread.h"
#include "child.h"

enum { THREADS = 64 };

/* ---- before the first call ---- */

static int no_key_left(void) {
    pthread_key_t key;
    while (pthread_key_create(&key, NULL) == 0)
        ;
    struct acre__thread *self = acre__thread_self();
    CHILD_EXPECT(self != NULL && self->id == 0);
    CHILD_EXPECT(acre__thread_pointer == NULL);
    char before[ACRE__DETAIL_BYTES];
    strcpy(before, acre_last_detail());
    CHILD_EXPECT(strstr(before, "memory") != NULL);
    CHILD_EXPECT(acre__fail(ACRE_E_BUSY, "lost") == ACRE_E_BUSY);
    CHILD_EXPECT(strcmp(acre_last_detail(), before) == 0);
    return 0;
}

static void thread_without_room_for_a_record_shares_one(void **state) {
    (void)state;
    assert_child_ok(no_key_left);
}

static int enter_twice(void) {
    CHILD_EXPECT(acre__enter() == ACRE_OK);
    CHILD_EXPECT(acre__enter() == ACRE_OK);
    return 0;
}

static void thread_child_from_before_the_first_call_may_enter(void **state) {
    (void)state;
    assert_child_ok(enter_twice);
}

/* ---- fork ---- */

static int enter_is_refused(void) {
    acre__fail(ACRE_E_BUSY, "before");
    CHILD_EXPECT(acre__enter() == ACRE_E_FORKED);
    CHILD_EXPECT(strstr(acre_last_detail(), "fork") != NULL);
    CHILD_EXPECT(acre__enter() == ACRE_E_FORKED);
    return 0;
}

static int enter_is_refused_in_grandchild(void) {
    return child_run(enter_is_refused) == 0 ? enter_is_refused() : 1;
}

/* The parent has opened nothing, so the child may enter. */
static int enter_without_watch(void) {
    CHILD_EXPECT(acre__enter() == ACRE_OK);
    return 0;
}

static int fork_before_watch(void) {
    CHILD_EXPECT(acre__enter() == ACRE_OK);
    CHILD_EXPECT(child_run(enter_without_watch) == 0);
    return 0;
}

static void thread_fork_before_anything_was_opened_is_fine(void **state) {
    (void)state;
    assert_child_ok(fork_before_watch);
}

static void thread_forked_child_is_refused_and_parent_goes_on(void **state) {
    (void)state;
    assert_int_equal(acre__watch_fork(), ACRE_OK);
    assert_child_ok(enter_is_refused);
    assert_int_equal(acre__enter(), ACRE_OK);
    assert_child_ok(enter_is_refused_in_grandchild);
    assert_int_equal(acre__enter(), ACRE_OK);
}

static void *fork_here(void *argument) {
    *(int *)argument = child_run(enter_is_refused);
    return NULL;
}

/* The forking thread has no record yet: the child creates one to hold the detail. */
static void thread_fork_from_a_new_thread_is_refused(void **state) {
    (void)state;
    assert_int_equal(acre__watch_fork(), ACRE_OK);
    pthread_t thread;
    int result = -1;
    assert_int_equal(pthread_create(&thread, NULL, fork_here, &result), 0);
    pthread_join(thread, NULL);
    assert_int_equal(result, 0);
    assert_int_equal(acre__enter(), ACRE_OK);
}

static void *enter_once(void *argument) {
    *(acre_status *)argument = acre__watch_fork();
    return NULL;
}

static int many_enter_first(void) {
    pthread_t threads[8];
    acre_status results[8];
    for (int i = 0; i < 8; i++)
        CHILD_EXPECT(pthread_create(&threads[i], NULL, enter_once, &results[i]) == 0);
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
        CHILD_EXPECT(results[i] == ACRE_OK);
    }
    CHILD_EXPECT(child_run(enter_is_refused) == 0);
    CHILD_EXPECT(acre__enter() == ACRE_OK);
    return 0;
}

static void thread_first_call_by_many_at_once_is_ok(void **state) {
    (void)state;
    assert_child_ok(many_enter_first);
}

/* ---- records and exit hooks ---- */

static struct {
    _Atomic int runs;
    _Atomic int wrong_pointer;
    _Atomic int wrong_order;
    _Atomic uint64_t last_id; /* the id that the newer hook saw */
} hooked;

static void hook_older(struct acre__thread *thread) {
    /* Only tests that end one thread at a time read wrong_order. */
    if (atomic_load(&hooked.last_id) != thread->id)
        atomic_fetch_add(&hooked.wrong_order, 1);
    atomic_fetch_add(&hooked.runs, 1);
}

static void hook_newer(struct acre__thread *thread) {
    if (acre__thread_pointer != thread || acre__thread_self() != thread)
        atomic_fetch_add(&hooked.wrong_pointer, 1);
    atomic_store(&hooked.last_id, thread->id);
}

static int hooks_register(void **state) {
    (void)state;
    acre__thread_at_exit(hook_older);
    acre__thread_at_exit(hook_newer);
    return 0;
}

static void hooked_reset(void) {
    atomic_store(&hooked.runs, 0);
    atomic_store(&hooked.wrong_pointer, 0);
    atomic_store(&hooked.wrong_order, 0);
    atomic_store(&hooked.last_id, 0);
}

static void *make_record(void *argument) {
    struct acre__thread *self = acre__thread_self();
    int same = self == acre__thread_self() && self == acre__thread_pointer;
    *(uint64_t *)argument = same ? self->id : 0;
    return NULL;
}

static void *make_none(void *argument) {
    return argument;
}

static void thread_exit_runs_hooks_newest_first(void **state) {
    (void)state;
    hooked_reset();
    pthread_t thread;
    uint64_t id = 0;
    assert_int_equal(pthread_create(&thread, NULL, make_record, &id), 0);
    pthread_join(thread, NULL);
    assert_true(id != 0);
    assert_int_equal(atomic_load(&hooked.runs), 1);
    assert_int_equal(atomic_load(&hooked.last_id), id);
    assert_int_equal(atomic_load(&hooked.wrong_order), 0);
    assert_int_equal(atomic_load(&hooked.wrong_pointer), 0);
}

static void thread_that_never_called_runs_no_hook(void **state) {
    (void)state;
    hooked_reset();
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, make_none, NULL), 0);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&hooked.runs), 0);
}

static void thread_many_records_are_distinct_and_all_end(void **state) {
    (void)state;
    hooked_reset();
    uint64_t ids[4 * THREADS] = {0};
    for (int round = 0; round < 4; round++) {
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(
                pthread_create(&threads[i], NULL, make_record, &ids[round * THREADS + i]), 0);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < 4 * THREADS; i++) {
        assert_true(ids[i] != 0 && ids[i] != acre__thread_self()->id);
        for (int j = 0; j < i; j++)
            assert_true(ids[i] != ids[j]);
    }
    assert_int_equal(atomic_load(&hooked.runs), 4 * THREADS);
    assert_int_equal(atomic_load(&hooked.wrong_pointer), 0);
}

static pthread_key_t late_key;
static uint64_t late_ids[2]; /* [0] in the thread, [1] in the destructor */

static void call_late(void *value) {
    (void)value;
    late_ids[1] = acre__thread_self()->id;
}

static void *use_late_key(void *argument) {
    late_ids[0] = acre__thread_self()->id;
    pthread_setspecific(late_key, argument);
    return NULL;
}

/* Destructors run in the order of their keys. This key is created after acre's, so its destructor
 * runs when the record is destroyed. */
static void thread_call_after_its_end_gets_a_new_record(void **state) {
    (void)state;
    acre__thread_self();
    hooked_reset();
    assert_int_equal(pthread_key_create(&late_key, call_late), 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, use_late_key, &late_key), 0);
    pthread_join(thread, NULL);
    pthread_key_delete(late_key);
    assert_true(late_ids[0] != 0 && late_ids[1] != 0 && late_ids[0] != late_ids[1]);
    assert_int_equal(atomic_load(&hooked.runs), 2);
    assert_int_equal(atomic_load(&hooked.wrong_pointer), 0);
}

static void thread_virtual_record_has_its_own_detail_and_end(void **state) {
    (void)state;
    hooked_reset();
    struct acre__thread *real = acre__thread_self();
    struct acre__thread *virtual_one = acre__thread_create();
    assert_non_null(virtual_one);
    assert_ptr_equal(acre__thread_self(), real);
    acre__fail(ACRE_E_BUSY, "real");

    acre__thread_pointer = virtual_one;
    assert_string_equal(acre_last_detail(), "");
    acre__fail(ACRE_E_BUSY, "virtual");
    acre__thread_pointer = real;
    assert_string_equal(acre_last_detail(), "real");

    uint64_t id = virtual_one->id;
    acre__thread_destroy(virtual_one);
    assert_ptr_equal(acre__thread_pointer, real);
    assert_int_equal(atomic_load(&hooked.runs), 1);
    assert_int_equal(atomic_load(&hooked.last_id), id);
    assert_int_equal(atomic_load(&hooked.wrong_pointer), 0);
    acre__thread_destroy(NULL);
    assert_int_equal(atomic_load(&hooked.runs), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thread_without_room_for_a_record_shares_one),
        cmocka_unit_test(thread_child_from_before_the_first_call_may_enter),
        cmocka_unit_test(thread_first_call_by_many_at_once_is_ok),
        cmocka_unit_test(thread_fork_before_anything_was_opened_is_fine),
        cmocka_unit_test(thread_forked_child_is_refused_and_parent_goes_on),
        cmocka_unit_test(thread_fork_from_a_new_thread_is_refused),
        cmocka_unit_test(thread_exit_runs_hooks_newest_first),
        cmocka_unit_test(thread_that_never_called_runs_no_hook),
        cmocka_unit_test(thread_many_records_are_distinct_and_all_end),
        cmocka_unit_test(thread_call_after_its_end_gets_a_new_record),
        cmocka_unit_test(thread_virtual_record_has_its_own_detail_and_end),
    };
    return cmocka_run_group_tests(tests, hooks_register, NULL);
}
