/* For tests of pools that run out of memory: a soft device of 64 MiB with two streams and two
 * pools, gates that block a stream, and a sleeping thread with free blocks in its cache. */
#ifndef ACRE_TESTS_FAULT_LADDER_H
#define ACRE_TESTS_FAULT_LADDER_H

#include <pthread.h>
#include <stdatomic.h>

#include "api/api_memory.h"
#include "fault_device.h"

enum { LADDER_BYTES = 64 << 20 };

struct small {
    acre_device *device;
    acre_stream stream, other;
    acre_pool *pool, *second;
};

static inline struct small small_begin(const acre_pool_options *options) {
    const acre_open_options open = {.struct_size = sizeof open, .soft_bytes = LADDER_BYTES};
    struct small s = {0};
    api_ok(acre_open("soft", &open, &s.device));
    api_ok(acre_stream_create(s.device, ACRE_STREAM_NON_BLOCKING, &s.stream));
    api_ok(acre_stream_create(s.device, ACRE_STREAM_NON_BLOCKING, &s.other));
    api_ok(acre_pool_create(s.device, options, &s.pool));
    api_ok(acre_pool_create(s.device, NULL, &s.second));
    return s;
}

static inline void small_end(struct small *s) {
    api_ok(acre_pool_destroy(s->pool, NULL, NULL));
    api_ok(acre_pool_destroy(s->second, NULL, NULL));
    api_ok(acre_stream_destroy(s->device, s->stream));
    api_ok(acre_stream_destroy(s->device, s->other));
    api_ok(acre_trim(s->device));
    assert_int_equal(api_stats(s->device).chunks, 0);
    assert_int_equal(api_stats(s->device).streams_live, 0);
    api_ok(acre_close(s->device));
}

static inline acre_pool_stats small_stats(acre_pool *pool) {
    acre_pool_stats stats = {.struct_size = sizeof stats};
    api_ok(acre_pool_get_stats(pool, &stats));
    return stats;
}

static inline void *small_alloc(acre_pool *pool, size_t bytes, acre_stream stream) {
    void *p = NULL;
    api_ok(acre_pool_alloc(pool, bytes, 0, stream, &p));
    return p;
}

/* Calls that a rung served, and refused calls. */
static inline uint64_t small_served(const acre_pool_stats *stats) {
    return stats->served_caches + stats->served_done + stats->served_moved + stats->served_behind +
           stats->served_pools + stats->served_callback + stats->served_waiting + stats->refused;
}

/* ---- blocked streams ---- */

static inline void gate_put(acre_stream stream, struct gate *gate) {
    gate_close(gate);
    fault_push("soft");
    assert_int_equal(fault_raw("soft")->cuLaunchHostFunc(stream, gate_run, gate), 0);
    fault_pop("soft");
}

/* A thread that opens the gate while another waits. */
static inline void *gate_open_late(void *argument) {
    struct gate *gate = argument;
    sleep_ms(50);
    atomic_store(&gate->is_open, 1);
    return NULL;
}

/* ---- a thread with a full cache ---- */

struct sleeper {
    struct small *s;
    acre_stream stream;
    size_t bytes;
    int count;
    pthread_barrier_t barrier;
    pthread_t thread;
    acre_status status;
};

static inline void *sleeper_run(void *argument) {
    struct sleeper *self = argument;
    void *blocks[64];
    for (int i = 0; i < 16 && self->status == ACRE_OK; i++) { /* a cache grows with use */
        self->status = acre_pool_alloc_many(self->s->pool, self->bytes, (size_t)self->count,
                                            self->stream, blocks);
        if (self->status == ACRE_OK)
            self->status =
                acre_pool_free_many(self->s->pool, blocks, (size_t)self->count, self->stream, NULL);
    }
    pthread_barrier_wait(&self->barrier); /* the cache is full now */
    pthread_barrier_wait(&self->barrier);
    return NULL;
}

static inline void sleeper_begin(struct sleeper *self) {
    assert_int_equal(pthread_barrier_init(&self->barrier, NULL, 2), 0);
    assert_int_equal(pthread_create(&self->thread, NULL, sleeper_run, self), 0);
    pthread_barrier_wait(&self->barrier);
    api_ok(self->status);
}

static inline void sleeper_end(struct sleeper *self) {
    pthread_barrier_wait(&self->barrier);
    pthread_join(self->thread, NULL);
    pthread_barrier_destroy(&self->barrier);
}

#endif
