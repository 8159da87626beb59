/* For tests of vecs: a vec with a model of its contents in host memory, and every kind and strategy
 * of vecs. */
#ifndef ACRE_TESTS_API_VEC_H
#define ACRE_TESTS_API_VEC_H

#include "api_memory.h"

enum { ELEMENT = 4 };
static const size_t chunk = 2 << 20;

/* ---- a vec and a model of its contents ---- */

struct modelled {
    acre_device *device;
    acre_vec *vec;
    acre_stream stream;
    unsigned char *model, *found;
    size_t count, room; /* elements */
};

static inline struct modelled modelled_begin(acre_device *device, const acre_vec_options *options,
                                             size_t room) {
    struct modelled m = {.device = device, .room = room};
    m.model = malloc(room * ELEMENT);
    m.found = malloc(room * ELEMENT);
    assert_true(m.model && m.found);
    api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &m.stream));
    api_ok(acre_vec_create(device, ELEMENT, options, &m.vec));
    return m;
}

static inline void modelled_end(struct modelled *m) {
    api_ok(acre_vec_destroy(m->vec, m->stream));
    api_ok(acre_stream_destroy(m->device, m->stream));
    free(m->model);
    free(m->found);
}

static inline void modelled_check(struct modelled *m) {
    assert_int_equal(acre_vec_size(m->vec), m->count);
    assert_true(acre_vec_capacity(m->vec) >= m->count);
    assert_true(acre_vec_mapped_bytes(m->vec) >= m->count * ELEMENT);
    if (!m->count)
        return;
    api_ok(acre_copy(m->device, m->found, acre_vec_data(m->vec), m->count * ELEMENT, m->stream));
    assert_memory_equal(m->found, m->model, m->count * ELEMENT);
}

static inline void modelled_append(struct modelled *m, uint64_t *random, size_t count) {
    assert_true(m->count + count <= m->room);
    api_random_bytes(random, m->model + m->count * ELEMENT, count * ELEMENT);
    api_ok(acre_vec_append(m->vec, m->model + m->count * ELEMENT, count, m->stream));
    m->count += count;
}

static inline acre_vec_info info_of(const acre_vec *vec) {
    acre_vec_info info = {.struct_size = sizeof info};
    api_ok(acre_vec_get_info(vec, &info));
    return info;
}

/* ---- kinds and strategies ---- */

static const struct way {
    const char *name;
    acre_kind kind;
    acre_vec_strategy strategy;
} ways[] = {{"device", 0, ACRE_VEC_AUTO},
            {"device vmm", ACRE_KIND_DEVICE, ACRE_VEC_VMM},
            {"device copy", ACRE_KIND_DEVICE, ACRE_VEC_COPY},
            {"pinned", ACRE_KIND_PINNED, ACRE_VEC_AUTO},
            {"pinned copy", ACRE_KIND_PINNED, ACRE_VEC_COPY},
            {"managed", ACRE_KIND_MANAGED, ACRE_VEC_AUTO},
            {"managed too", 0, ACRE_VEC_MANAGED}};
enum { WAYS = sizeof ways / sizeof ways[0] };

static inline acre_vec_options way_options(const struct way *way) {
    acre_vec_options options = {
        .struct_size = sizeof options, .kind = way->kind, .strategy = way->strategy};
    if (way->kind == ACRE_KIND_MANAGED || way->strategy == ACRE_VEC_MANAGED)
        options.address_bytes = 4 * chunk;
    return options;
}

#endif
