/* Vecs at their limits: refused calls, their status, and that they change nothing; invalid
 * arguments of every call; vecs together with other objects. */
#include "api_vec.h"

/* ---- limits ---- */

/* A refused call changes nothing. */
static void check_unchanged(const acre_vec *vec, const acre_vec_info *before) {
    acre_vec_info after = info_of(vec);
    assert_memory_equal(&after, before, sizeof after);
}

API_TEST(vec_at_its_limit_says_so_and_is_unchanged) {
    for (size_t i = 0; i < WAYS; i++) {
        acre_vec_options options = way_options(&ways[i]);
        options.limit_bytes = 3 * chunk;
        acre_vec *vec;
        api_ok(acre_vec_create(device, ELEMENT, &options, &vec));
        api_ok(acre_vec_grow(vec, 3 * chunk / ELEMENT - 1, NULL));
        assert_true(acre_vec_mapped_bytes(vec) <= 3 * chunk);
        acre_vec_info before = info_of(vec);
        char word[32];
        api_expect(acre_vec_grow(vec, 2 + chunk / ELEMENT, NULL), ACRE_E_LIMIT);
        snprintf(word, sizeof word, "%zu", 3 * chunk);
        assert_non_null(strstr(acre_last_detail(), word));
        check_unchanged(vec, &before);
        api_expect(acre_vec_append(vec, acre_vec_data(vec), chunk / ELEMENT + 2, NULL),
                   ACRE_E_LIMIT);
        check_unchanged(vec, &before);
        api_ok(acre_vec_grow(vec, 1, NULL));
        api_ok(acre_vec_destroy(vec, NULL));
    }
}

API_TEST(vec_past_the_card_or_its_addresses_is_refused_and_unchanged) {
    acre_device_info about = {.struct_size = sizeof about};
    api_ok(acre_device_get_info(device, &about));
    for (int past = 0; past < 2; past++) {
        acre_vec_options options = {.struct_size = sizeof options,
                                    .address_bytes = past ? chunk : 0};
        acre_vec *vec;
        api_ok(acre_vec_create(device, ELEMENT, &options, &vec));
        api_ok(acre_vec_grow(vec, 100, NULL));
        acre_vec_info before = info_of(vec);
        api_expect(acre_vec_grow(vec, about.total_bytes / ELEMENT, NULL), ACRE_E_DEVICE_MEMORY);
        check_unchanged(vec, &before);
        acre_status status = acre_vec_grow(vec, (size_t)1 << 58, NULL);
        assert_true(status == ACRE_E_DEVICE_MEMORY || status == ACRE_E_ADDRESS_SPACE);
        check_unchanged(vec, &before);
        api_expect(acre_vec_reserve(vec, (size_t)1 << 58, NULL), ACRE_E_ADDRESS_SPACE);
        check_unchanged(vec, &before);
        const size_t counts[] = {SIZE_MAX, SIZE_MAX / ELEMENT, (size_t)1 << 62, SIZE_MAX - 100};
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            api_expect(acre_vec_grow(vec, counts[i], NULL), ACRE_E_DEVICE_MEMORY);
            api_expect(acre_vec_resize(vec, counts[i], NULL), ACRE_E_DEVICE_MEMORY);
            api_expect(acre_vec_reserve(vec, counts[i], NULL), ACRE_E_ADDRESS_SPACE);
            api_expect(acre_vec_append(vec, &about, counts[i], NULL), ACRE_E_DEVICE_MEMORY);
            check_unchanged(vec, &before);
        }
        api_ok(acre_vec_grow(vec, 1, NULL));
        api_ok(acre_vec_destroy(vec, NULL));
    }
}

TEST(vec_becomes_as_large_as_the_device) {
    acre_device *device;
    acre_open_options options = {.struct_size = sizeof options, .soft_bytes = 64 * MIB};
    api_ok(acre_open("soft", &options, &device));
    for (int copies = 0; copies < 2; copies++) {
        acre_vec_options how = {.struct_size = sizeof how,
                                .strategy = copies ? ACRE_VEC_COPY : ACRE_VEC_AUTO};
        acre_vec *vec;
        api_ok(acre_vec_create(device, 1, &how, &vec));
        acre_status status;
        do {
            status = acre_vec_append(vec, api_devices(), 8, NULL);
            if (status == ACRE_OK)
                status = acre_vec_grow(vec, chunk - 8, NULL);
        } while (status == ACRE_OK);
        assert_int_equal(status, ACRE_E_DEVICE_MEMORY);
        if (copies)
            assert_true(acre_vec_size(vec) <= 48 * MIB);
        else
            assert_true(acre_vec_size(vec) >= 63 * MIB);
        api_ok(acre_vec_destroy(vec, NULL));
    }
    api_ok(acre_close(device));
}

/* ---- invalid arguments ---- */

TEST(vec_of_bad_options_is_refused) {
    const struct {
        acre_vec_options options;
        acre_status status;
    } bad[] = {
        {{.struct_size = 4}, ACRE_E_OPTIONS},
        {{.flags = 4}, ACRE_E_OPTIONS},
        {{.reserved = 1}, ACRE_E_OPTIONS},
        {{.kind = ACRE_KIND_MAPPED}, ACRE_E_INVALID},
        {{.kind = ACRE_KIND_PAGEABLE}, ACRE_E_INVALID},
        {{.kind = (acre_kind)99}, ACRE_E_INVALID},
        {{.strategy = (acre_vec_strategy)4}, ACRE_E_INVALID},
        {{.kind = ACRE_KIND_MANAGED, .strategy = ACRE_VEC_VMM}, ACRE_E_INVALID},
        {{.kind = ACRE_KIND_MANAGED, .strategy = ACRE_VEC_COPY}, ACRE_E_INVALID},
        {{.kind = ACRE_KIND_DEVICE, .strategy = ACRE_VEC_MANAGED}, ACRE_E_INVALID},
        {{.kind = ACRE_KIND_PINNED, .flags = ACRE_VEC_SHAREABLE}, ACRE_E_INVALID},
        {{.strategy = ACRE_VEC_COPY, .flags = ACRE_VEC_RDMA}, ACRE_E_INVALID},
        {{.address_bytes = UINT64_MAX}, ACRE_E_INVALID},
        {{.ahead_bytes = UINT64_MAX}, ACRE_E_INVALID},
        {{.chunk_bytes = UINT64_MAX}, ACRE_E_INVALID},
        {{.address_bytes = (uint64_t)1 << 60}, ACRE_E_ADDRESS_SPACE},
    };
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            acre_vec_options options = bad[i].options;
            acre_vec *vec = (acre_vec *)&options;
            if (!options.struct_size)
                options.struct_size = sizeof options;
            api_expect(acre_vec_create(device, ELEMENT, &options, &vec), bad[i].status);
            assert_null(vec);
        }
        acre_vec *vec = (acre_vec *)&name;
        api_expect(acre_vec_create(device, 0, NULL, &vec), ACRE_E_INVALID);
        assert_null(vec);
        api_expect(acre_vec_create(device, SIZE_MAX, NULL, &vec), ACRE_E_INVALID);
        api_expect(acre_vec_create(device, 4, NULL, NULL), ACRE_E_NULL);
        api_expect(acre_vec_create(NULL, 4, NULL, &vec), ACRE_E_NULL);
        assert_int_equal(api_stats(device).vecs, 0);
        api_ok(acre_close(device));
        vec = (acre_vec *)&name;
        api_expect(acre_vec_create(device, 4, NULL, &vec), ACRE_E_HANDLE);
        assert_null(vec);
    }
}

/* Every call refuses a handle that is not a vec. */
static void check_dead(acre_vec *vec, acre_device *device, acre_status wanted) {
    acre_vec_info info = {.struct_size = sizeof info};
    char page[64] = {0};
    api_expect(acre_vec_reserve(vec, 1, NULL), wanted);
    api_expect(acre_vec_grow(vec, 1, NULL), wanted);
    api_expect(acre_vec_resize(vec, 1, NULL), wanted);
    api_expect(acre_vec_append(vec, page, 1, NULL), wanted);
    api_expect(acre_vec_shrink(vec, 1, NULL), wanted);
    api_expect(acre_vec_shrink_to_fit(vec, NULL), wanted);
    api_expect(acre_vec_clear(vec), wanted);
    api_expect(acre_vec_record_use(vec, NULL), wanted);
    api_expect(acre_vec_set_access(vec, device, ACRE_ACCESS_READ), wanted);
    api_expect(acre_vec_get_info(vec, &info), wanted);
    assert_null(acre_vec_data(vec));
    assert_int_equal(acre_vec_size(vec) + acre_vec_capacity(vec) + acre_vec_mapped_bytes(vec), 0);
}

API_TEST(vec_that_is_none_is_refused_by_every_call) {
    acre_vec *vec;
    api_ok(acre_vec_create(device, ELEMENT, NULL, &vec));
    api_ok(acre_vec_grow(vec, 10, NULL));
    acre_vec *inside = (acre_vec *)((char *)vec + 8);
    check_dead(NULL, device, ACRE_E_NULL);
    check_dead(inside, device, ACRE_E_HANDLE);
    check_dead((acre_vec *)(uintptr_t)1, device, ACRE_E_HANDLE);
    api_expect(acre_vec_destroy(inside, NULL), ACRE_E_HANDLE);
    api_ok(acre_vec_destroy(NULL, NULL));
    api_expect(acre_vec_append(vec, NULL, 1, NULL), ACRE_E_NULL);
    api_expect(acre_vec_get_info(vec, NULL), ACRE_E_NULL);
    api_expect(acre_vec_set_access(vec, device, (acre_access)2), ACRE_E_INVALID);
    api_expect(acre_vec_set_access(vec, NULL, ACRE_ACCESS_READ), ACRE_E_NULL);
    assert_int_equal(acre_vec_size(vec), 10);
    api_ok(acre_vec_destroy(vec, NULL));
    check_dead(vec, device, ACRE_E_HANDLE);
    api_expect(acre_vec_destroy(vec, NULL), ACRE_E_HANDLE);
}

TEST(vec_left_when_its_device_closes_ends_with_it) {
    for (API_EACH(name)) {
        acre_vec *vecs[WAYS];
        acre_device *device = api_open(name);
        for (size_t i = 0; i < WAYS; i++) {
            acre_vec_options options = way_options(&ways[i]);
            options.ahead_bytes = chunk;
            api_ok(acre_vec_create(device, ELEMENT, &options, &vecs[i]));
            api_ok(acre_vec_grow(vecs[i], 1000, NULL));
            api_ok(acre_fill(device, acre_vec_data(vecs[i]), 1, 1000, NULL));
            api_ok(acre_vec_record_use(vecs[i], NULL));
        }
        assert_int_equal(api_stats(device).vecs, WAYS);
        api_ok(acre_close(device));
        for (size_t i = 0; i < WAYS; i++)
            api_expect(acre_vec_grow(vecs[i], 1, NULL), ACRE_E_HANDLE);
        device = api_open(name);
        assert_int_equal(api_stats(device).vecs + api_stats(device).chunks, 0);
        api_ok(acre_close(device));
    }
}

/* ---- other objects ---- */

TEST(vec_is_a_block_that_copies_and_queries_know) {
    static unsigned char page[4096];
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_vec *vec;
        acre_mem_info info = {.struct_size = sizeof info};
        api_ok(acre_vec_create(device, 1, NULL, &vec));
        char *at = acre_vec_data(vec);
        api_ok(acre_mem_query(device, at, &info));
        assert_ptr_equal(info.base, at);
        assert_int_equal(info.bytes, 0);
        api_expect(acre_copy(device, at, page, 1, NULL), ACRE_E_RANGE);
        api_ok(acre_vec_grow(vec, 1, NULL));
        api_ok(acre_mem_query(device, at + chunk - 1, &info));
        assert_ptr_equal(info.base, at);
        assert_int_equal(info.bytes, chunk);
        assert_int_equal(info.kind, ACRE_KIND_DEVICE);
        assert_ptr_equal(info.device, device);
        api_expect(acre_copy(device, at + chunk - 1, page, 2, NULL), ACRE_E_RANGE);
        api_expect(acre_mem_free(device, at), ACRE_E_KIND);
        api_ok(acre_vec_shrink(vec, 1, NULL));
        api_expect(acre_copy(device, at, page, 1, NULL), ACRE_E_RANGE);
        assert_int_equal(api_stats(device).mem_blocks, 0);
        api_ok(acre_vec_destroy(vec, NULL));
        api_expect(acre_mem_free(device, at), ACRE_E_POINTER);
        api_ok(acre_close(device));
    }
}

TEST(vec_gives_access_to_devices_and_takes_their_streams_not) {
    acre_device *devices[2];
    acre_vec *vec, *copying;
    acre_vec_options copies = {.struct_size = sizeof copies, .strategy = ACRE_VEC_COPY};
    api_open_two(devices);
    api_ok(acre_vec_create(devices[0], 1, NULL, &vec));
    api_ok(acre_vec_create(devices[0], 1, &copies, &copying));
    api_ok(acre_vec_set_access(vec, devices[1], ACRE_ACCESS_READ_WRITE));
    api_ok(acre_vec_grow(vec, 2 * chunk, NULL));
    api_ok(acre_vec_set_access(vec, devices[1], ACRE_ACCESS_READ));
    api_ok(acre_vec_set_access(vec, devices[1], ACRE_ACCESS_NONE));
    api_expect(acre_vec_set_access(copying, devices[1], ACRE_ACCESS_READ), ACRE_E_UNSUPPORTED);
    acre_stream stream;
    api_ok(acre_stream_create(devices[1], 0, &stream));
    api_expect(acre_vec_append(vec, devices, 1, stream), ACRE_E_HANDLE);
    api_expect(acre_vec_record_use(vec, stream), ACRE_E_HANDLE);
    api_expect(acre_vec_shrink(vec, 2 * chunk, stream), ACRE_E_HANDLE);
    api_expect(acre_vec_destroy(vec, stream), ACRE_E_HANDLE);
    assert_int_equal(acre_vec_size(vec), 2 * chunk);
    api_ok(acre_vec_destroy(vec, NULL));
    api_ok(acre_vec_destroy(copying, NULL));
    api_ok(acre_close(devices[0]));
    api_ok(acre_close(devices[1]));
}

int main(void) {
    return tests_run("vec_limits");
}
