/* Suspends while other threads allocate, copy and free, on every device: calls succeed or return
 * ACRE_E_SUSPENDED; contents are never lost. Threads are real, for the thread sanitizer. */
#include <pthread.h>

#include "api_suspend.h"
#include "support/rounds.h"
#include "support/shadow.h"

enum { THREADS = 8, HELD = 4, TOUCHED = 256 };

struct worker {
    acre_device *device;
    acre_pool *pool;
    acre_stream stream;
    uint64_t random;
    int is_waiting; /* no call may be refused */
    _Atomic int *is_over;
    pthread_t thread;
};

/* Repeats a call that a suspend refuses. Returns 0 if it fails otherwise. */
static int is_allowed(const struct worker *self, acre_status status) {
    return status == ACRE_OK || (status == ACRE_E_SUSPENDED && !self->is_waiting);
}

static acre_status worker_fill(const struct worker *self, void *p, unsigned char value) {
    acre_status status;
    do
        status = acre_fill(self->device, p, value, TOUCHED, self->stream);
    while (status == ACRE_E_SUSPENDED && !self->is_waiting);
    return status;
}

/* A pool that is created while a suspend is at work keeps its contents, too. */
static void *worker_new_pool(struct worker *self) {
    unsigned char found[TOUCHED], value = (unsigned char)random_draw(&self->random, 256);
    acre_status status;
    acre_pool *pool;
    void *p = NULL;
    thread_must(acre_pool_create(self->device, NULL, &pool) == ACRE_OK);
    do
        status = acre_pool_alloc(pool, TOUCHED, 0, self->stream, &p);
    while (status == ACRE_E_SUSPENDED && !self->is_waiting);
    thread_must(status == ACRE_OK);
    thread_must(worker_fill(self, p, value) == ACRE_OK);
    do
        status = acre_copy(self->device, found, p, TOUCHED, self->stream);
    while (status == ACRE_E_SUSPENDED && !self->is_waiting);
    thread_must(status == ACRE_OK);
    thread_must(acre_stream_sync(self->device, self->stream) == ACRE_OK);
    for (size_t k = 0; k < TOUCHED; k++)
        thread_must(found[k] == value);
    thread_must(acre_pool_free(pool, p, self->stream) == ACRE_OK);
    thread_must(acre_pool_destroy(pool, NULL, NULL) == ACRE_OK);
    return NULL;
}

static void *worker_run(void *user) {
    struct worker *self = user;
    char *held[HELD] = {0};
    unsigned char values[HELD] = {0}, found[TOUCHED];
    while (!atomic_load(self->is_over)) {
        size_t i = random_draw(&self->random, HELD);
        void *p = NULL;
        if (random_draw(&self->random, 32) == 0)
            (void)worker_new_pool(self); /* a failure is noted */
        if (!held[i]) {
            size_t bytes = TOUCHED + random_draw(&self->random, 64 * KIB);
            acre_status status = acre_pool_alloc(self->pool, bytes, 0, self->stream, &p);
            thread_must(is_allowed(self, status));
            if (status)
                continue;
            held[i] = p;
            values[i] = (unsigned char)random_draw(&self->random, 256);
            thread_must(worker_fill(self, p, values[i]) == ACRE_OK);
        } else if (random_draw(&self->random, 2)) {
            acre_status status = acre_copy(self->device, found, held[i], TOUCHED, self->stream);
            thread_must(is_allowed(self, status));
            if (status)
                continue;
            thread_must(acre_stream_sync(self->device, self->stream) == ACRE_OK);
            for (size_t k = 0; k < TOUCHED; k++)
                thread_must(found[k] == values[i]);
        } else {
            thread_must(acre_pool_free(self->pool, held[i], self->stream) == ACRE_OK);
            held[i] = NULL;
        }
    }
    for (size_t i = 0; i < HELD; i++)
        thread_must(acre_pool_free(self->pool, held[i], self->stream) == ACRE_OK);
    return NULL;
}

static void race(acre_device *device, int is_waiting) {
    struct worker workers[THREADS];
    _Atomic int is_over = 0;
    acre_pool *pool = pool_make(device, 0);
    uint64_t random = random_seed("suspend_threads");
    acre_suspend_options options = suspend_options(
        ACRE_SUSPEND_KEEP, ACRE_SUSPEND_RETAIN | (is_waiting ? ACRE_SUSPEND_WAIT : 0u));
    for (uint64_t i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.device = device,
                                     .pool = pool,
                                     .random = random + i,
                                     .is_waiting = is_waiting,
                                     .is_over = &is_over};
        api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &workers[i].stream));
        assert_int_equal(pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]), 0);
    }
    acre_status status = ACRE_OK;
    for (int i = 0; i < ROUNDS(100, 20) && status == ACRE_OK; i++) {
        acre_suspended *suspended = NULL;
        status = acre_suspend(device, &options, &suspended);
        if (status == ACRE_OK)
            status = acre_resume(suspended);
    }
    atomic_store(&is_over, 1);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        api_ok(acre_stream_destroy(device, workers[i].stream));
    }
    api_ok(status);
    assert_int_equal(thread_failed_line, 0);
    api_ok(acre_pool_destroy(pool, NULL, NULL));
    expect_nothing_left(device);
}

API_TEST(suspend_beside_threads_that_are_refused_loses_nothing) {
    race(device, 0);
}

API_TEST(suspend_beside_threads_that_wait_loses_nothing) {
    race(device, 1);
}

int main(void) {
    return tests_run("suspend_threads");
}
