/* For tests of pools: a device with two streams and a pool. */
#ifndef ACRE_TESTS_API_POOL_H
#define ACRE_TESTS_API_POOL_H

#include "api_memory.h"

#define GIB ((size_t)1 << 30)

struct things {
    acre_device *device;
    acre_stream stream, other;
    acre_pool *pool;
};

static inline struct things begin(const char *name, const acre_pool_options *options) {
    struct things t = {.device = api_open(name)};
    api_ok(acre_stream_create(t.device, ACRE_STREAM_NON_BLOCKING, &t.stream));
    api_ok(acre_stream_create(t.device, ACRE_STREAM_NON_BLOCKING, &t.other));
    api_ok(acre_pool_create(t.device, options, &t.pool));
    assert_non_null(t.pool);
    return t;
}

static inline void end(struct things *t) {
    api_ok(acre_pool_destroy(t->pool, NULL, NULL));
    api_ok(acre_stream_destroy(t->device, t->stream));
    api_ok(acre_stream_destroy(t->device, t->other));
    api_ok(acre_close(t->device));
}

static inline acre_pool_stats stats_of(acre_pool *pool) {
    acre_pool_stats stats = {.struct_size = sizeof stats};
    api_ok(acre_pool_get_stats(pool, &stats));
    return stats;
}

static inline void *alloc(struct things *t, size_t bytes) {
    void *p = NULL;
    api_ok(acre_pool_alloc(t->pool, bytes, 0, t->stream, &p));
    assert_non_null(p);
    return p;
}

#endif
