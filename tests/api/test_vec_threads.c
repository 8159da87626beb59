/* Vecs and threads: several threads grow their own vecs or one vec together, and the thread that
 * grows a vec ahead. */
#include <pthread.h>

#include "api_vec.h"

/* ---- threads ---- */

enum { THREADS = 4, APPENDS = 60, RUN = 3000 };

struct grower {
    acre_device *device;
    acre_vec *vec;
    acre_stream stream;
    uint32_t number;
    pthread_t thread;
};

static void *grower_alone(void *user) {
    struct grower *self = user;
    acre_vec_options options = {.struct_size = sizeof options, .address_bytes = chunk};
    static uint32_t page[RUN], zero[RUN];
    uint32_t found[RUN];
    acre_vec *vec;
    if (acre_vec_create(self->device, sizeof(uint32_t), &options, &vec))
        return self;
    for (unsigned i = 0; i < 40; i++) {
        if (acre_vec_append(vec, i % 2 ? page : zero, RUN, self->stream) ||
            acre_vec_grow(vec, chunk / 16, self->stream) ||
            acre_vec_shrink(vec, chunk / 16 - 1, self->stream))
            return self;
        char *at = acre_vec_data(vec);
        if (acre_copy(self->device, found, at + acre_vec_size(vec) * 4 - 4 - sizeof found,
                      sizeof found, self->stream) ||
            memcmp(found, zero, sizeof found) != 0)
            return self;
    }
    return acre_vec_destroy(vec, self->stream) ? self : NULL;
}

static void *grower_together(void *user) {
    struct grower *self = user;
    uint32_t run[RUN];
    for (uint32_t i = 0; i < APPENDS; i++) {
        for (size_t k = 0; k < RUN; k++)
            run[k] = self->number * APPENDS + i + 1;
        if (acre_vec_append(self->vec, run, RUN, self->stream))
            return self;
        if (i % 16 == 0 && acre_vec_shrink_to_fit(self->vec, self->stream))
            return self;
    }
    return NULL;
}

static void growers_run(struct grower *growers, void *(*run)(void *)) {
    for (uint32_t i = 0; i < THREADS; i++) {
        growers[i].number = i;
        api_ok(acre_stream_create(growers[i].device, ACRE_STREAM_NON_BLOCKING, &growers[i].stream));
        assert_int_equal(pthread_create(&growers[i].thread, NULL, run, &growers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        assert_int_equal(pthread_join(growers[i].thread, &failed), 0);
        assert_null(failed);
        api_ok(acre_stream_destroy(growers[i].device, growers[i].stream));
    }
}

TEST(vecs_of_several_threads_grow_apart) {
    for (API_EACH(name)) {
        struct grower growers[THREADS] = {0};
        acre_device *device = api_open(name);
        for (int i = 0; i < THREADS; i++)
            growers[i].device = device;
        growers_run(growers, grower_alone);
        assert_int_equal(api_stats(device).vecs, 0);
        api_ok(acre_close(device));
    }
}

/* Every append is contiguous, whichever thread made it, also while the vec moves and grows
 * ahead. */
TEST(vec_of_several_threads_has_every_append_whole) {
    static uint32_t found[THREADS * APPENDS * RUN];
    for (API_EACH(name)) {
        for (size_t i = 0; i < WAYS + 1; i++) {
            struct grower growers[THREADS] = {0};
            acre_device *device = api_open(name);
            acre_vec_options options = way_options(&ways[i % WAYS]);
            options.ahead_bytes = i ? 0 : chunk;
            options.address_bytes = i == WAYS ? chunk : 0;
            if (options.kind == ACRE_KIND_MANAGED || options.strategy == ACRE_VEC_MANAGED)
                options.address_bytes = chunk;
            acre_vec *vec;
            api_ok(acre_vec_create(device, sizeof(uint32_t), &options, &vec));
            for (int k = 0; k < THREADS; k++) {
                growers[k].device = device;
                growers[k].vec = vec;
            }
            growers_run(growers, grower_together);
            assert_int_equal(acre_vec_size(vec), THREADS * APPENDS * RUN);
            api_ok(acre_device_sync(device));
            api_ok(acre_copy_sync(device, found, acre_vec_data(vec), sizeof found));
            static unsigned char seen[THREADS * APPENDS + 1];
            memset(seen, 0, sizeof seen);
            for (size_t run = 0; run < THREADS * APPENDS; run++) {
                uint32_t value = found[run * RUN];
                assert_true(value >= 1 && value <= THREADS * APPENDS && !seen[value]++);
                for (size_t k = 0; k < RUN; k++)
                    assert_int_equal(found[run * RUN + k], value);
            }
            api_ok(acre_vec_destroy(vec, NULL));
            api_ok(acre_close(device));
        }
    }
}

/* ---- grow-ahead ---- */

static int is_mapped_soon(const acre_vec *vec, uint64_t bytes) {
    for (int i = 0; i < PATIENCE_MS; i++) {
        if (acre_vec_mapped_bytes(vec) >= bytes)
            return 1;
        sleep_ms(1);
    }
    return 0;
}

API_TEST(vec_with_grow_ahead_keeps_memory_mapped) {
    acre_vec_options options = {
        .struct_size = sizeof options, .ahead_bytes = 4 * chunk, .limit_bytes = 16 * chunk};
    acre_vec *vec;
    api_ok(acre_vec_create(device, 1, &options, &vec));
    void *at = acre_vec_data(vec);
    for (size_t i = 1; i <= 12; i++) {
        assert_true(is_mapped_soon(vec, (i - 1) * chunk + 2 * chunk));
        api_ok(acre_vec_grow(vec, chunk, NULL));
        assert_ptr_equal(acre_vec_data(vec), at);
    }
    assert_true(is_mapped_soon(vec, 14 * chunk));
    api_ok(acre_vec_grow(vec, 4 * chunk, NULL));
    api_expect(acre_vec_grow(vec, 1, NULL), ACRE_E_LIMIT);
    assert_int_equal(acre_vec_mapped_bytes(vec), 16 * chunk);
    api_ok(acre_vec_shrink(vec, 12 * chunk, NULL));
    assert_true(acre_vec_mapped_bytes(vec) >= 8 * chunk);
    api_ok(acre_vec_shrink_to_fit(vec, NULL));
    uint64_t mapped = acre_vec_mapped_bytes(vec);
    assert_true(mapped < 8 * chunk);
    usleep(20000);
    assert_int_equal(acre_vec_mapped_bytes(vec), mapped);
    api_ok(acre_vec_grow(vec, 1, NULL));
    assert_true(is_mapped_soon(vec, 4 * chunk + 1 + 4 * chunk));
    api_ok(acre_vec_destroy(vec, NULL));
}

/* acre_vec_destroy does not depend on the state of the grow-ahead thread. */
API_TEST(vec_with_grow_ahead_ends_at_any_time) {
    for (unsigned i = 0; i < 60; i++) {
        acre_vec_options options = {
            .struct_size = sizeof options, .ahead_bytes = 8 * chunk, .address_bytes = 12 * chunk};
        acre_vec *vec;
        api_ok(acre_vec_create(device, 1, &options, &vec));
        for (unsigned k = 0; k < i % 4; k++)
            api_ok(acre_vec_grow(vec, chunk, NULL));
        if (i % 3 == 0)
            api_ok(acre_vec_shrink_to_fit(vec, NULL));
        usleep(i * 20);
        api_ok(acre_vec_destroy(vec, NULL));
    }
    api_ok(acre_trim(device));
    assert_int_equal(api_stats(device).chunks, 0);
}

int main(void) {
    return tests_run("vec_threads");
}
