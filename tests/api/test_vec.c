/* Vecs through the public API, on every device. Contents are compared with a model in host memory
 * while the vec grows, moves, appends and shrinks, for every kind and strategy. Also the address;
 * and all of it without mapping, in a process started with ACRE_VMM=off. */
#include "api_vec.h"

/* ---- kinds and strategies ---- */

static void walk_some(struct modelled *m, uint64_t *random, int steps) {
    for (int i = 0; i < steps; i++) {
        size_t some = 1 + random_draw(random, m->room / 8);
        switch (random_draw(random, 6)) {
        case 0:
            some = some < m->count ? some : m->count;
            api_ok(acre_vec_shrink(m->vec, some, m->stream));
            m->count -= some;
            break;
        case 1:
            api_ok(acre_vec_shrink_to_fit(m->vec, m->stream));
            break;
        case 2:
            api_ok(acre_vec_resize(m->vec, m->count / 2, m->stream));
            m->count /= 2;
            break;
        case 3:
            if (random_draw(random, 4) == 0) {
                api_ok(acre_vec_clear(m->vec));
                m->count = 0;
            }
            break;
        default:
            if (m->count + some <= m->room)
                modelled_append(m, random, some);
        }
        modelled_check(m);
    }
}

TEST(vec_of_any_kind_and_strategy_keeps_its_contents) {
    uint64_t random = random_seed("vec_of_any_kind");
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        for (size_t i = 0; i < WAYS; i++) {
            acre_vec_options options = way_options(&ways[i]);
            struct modelled m = modelled_begin(device, &options, 4 * MIB);
            walk_some(&m, &random, 24);
            acre_vec_info info = info_of(m.vec);
            assert_ptr_equal(info.device, device);
            assert_int_equal(info.element_bytes, ELEMENT);
            if (info.strategy == ACRE_VEC_VMM)
                assert_int_equal(info.moves + info.copied_bytes, 0);
            modelled_end(&m);
        }
        assert_int_equal(api_stats(device).vecs + api_stats(device).mem_blocks, 0);
        api_ok(acre_close(device));
    }
}

API_TEST(vec_grown_within_its_reservation_stays_where_it_is) {
    struct modelled m = modelled_begin(device, NULL, 1);
    void *at = acre_vec_data(m.vec);
    acre_device_info about = {.struct_size = sizeof about};
    api_ok(acre_device_get_info(device, &about));
    assert_non_null(at);
    assert_true(acre_vec_capacity(m.vec) >= about.total_bytes / ELEMENT);
    assert_int_equal(acre_vec_mapped_bytes(m.vec), 0);
    for (size_t i = 1; i <= 8; i++) {
        api_ok(acre_vec_grow(m.vec, chunk / ELEMENT, m.stream));
        assert_ptr_equal(acre_vec_data(m.vec), at);
        assert_int_equal(acre_vec_mapped_bytes(m.vec), i * chunk);
        assert_int_equal(acre_vec_size(m.vec), i * chunk / ELEMENT);
    }
    acre_vec_info info = info_of(m.vec);
    assert_int_equal(info.kind, ACRE_KIND_DEVICE);
    assert_int_equal(info.strategy, ACRE_VEC_VMM);
    assert_int_equal(info.chunks, 8);
    api_ok(acre_vec_grow(m.vec, 9 * chunk / ELEMENT, m.stream));
    assert_int_equal(info_of(m.vec).chunks, 9); /* one chunk of that size */
    modelled_end(&m);
}

TEST(vec_grown_past_its_reservation_moves_without_a_copy) {
    uint64_t random = random_seed("vec_grown_past");
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_vec_options options = {.struct_size = sizeof options, .address_bytes = 2 * chunk};
        struct modelled m = modelled_begin(device, &options, 8 * chunk / ELEMENT);
        acre_vec *behind; /* takes the addresses behind m.vec */
        api_ok(acre_vec_create(device, 1, &options, &behind));
        void *at = acre_vec_data(m.vec);
        modelled_append(&m, &random, 2 * chunk / ELEMENT);
        assert_ptr_equal(acre_vec_data(m.vec), at);
        modelled_append(&m, &random, chunk / ELEMENT);
        modelled_check(&m);
        acre_vec_info info = info_of(m.vec);
        assert_int_equal(info.moves, 1);
        assert_int_equal(info.copied_bytes, 0);
        assert_ptr_not_equal(info.data, at);
        assert_int_equal(info.capacity, 4 * chunk / ELEMENT);
        acre_mem_info old = {.struct_size = sizeof old};
        api_ok(acre_mem_query(device, at, &old));
        assert_true(old.base != at);
        api_ok(acre_vec_reserve(m.vec, 64 * chunk, m.stream));
        assert_true(acre_vec_capacity(m.vec) >= 64 * chunk);
        modelled_check(&m);
        assert_int_equal(api_stats(device).grow_copied_bytes, 0);
        assert_true(api_stats(device).vec_moves >= 1);
        api_ok(acre_vec_destroy(behind, m.stream));
        modelled_end(&m);
        api_ok(acre_close(device));
    }
}

TEST(vec_by_copying_tells_what_it_copied) {
    uint64_t random = random_seed("vec_by_copying");
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_vec_options options = {.struct_size = sizeof options, .strategy = ACRE_VEC_COPY};
        struct modelled m = modelled_begin(device, &options, 100000);
        assert_null(acre_vec_data(m.vec));
        modelled_append(&m, &random, 1000);
        assert_int_equal(info_of(m.vec).copied_bytes, 0);
        modelled_append(&m, &random, 50000);
        modelled_check(&m);
        acre_vec_info info = info_of(m.vec);
        assert_int_equal(info.moves, 1);
        assert_int_equal(info.copied_bytes, 1000 * ELEMENT);
        assert_int_equal(api_stats(device).grow_copied_bytes, 1000 * ELEMENT);
        assert_int_equal(info.strategy, ACRE_VEC_COPY);
        assert_int_equal(info.chunks, 1);
        api_expect(acre_mem_free(device, info.data), ACRE_E_KIND);
        api_ok(acre_vec_shrink(m.vec, 50000, m.stream));
        m.count = 1000;
        assert_ptr_equal(acre_vec_data(m.vec), info.data);
        modelled_check(&m);
        modelled_end(&m);
        api_ok(acre_close(device));
    }
}

TEST(vec_of_managed_memory_is_taken_as_far_as_reserved) {
    uint64_t random = random_seed("vec_of_managed");
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_vec_options options = {
            .struct_size = sizeof options, .kind = ACRE_KIND_MANAGED, .address_bytes = 2 * chunk};
        struct modelled m = modelled_begin(device, &options, 4 * chunk / ELEMENT);
        modelled_append(&m, &random, 1);
        void *at = acre_vec_data(m.vec);
        assert_int_equal(acre_vec_mapped_bytes(m.vec), 2 * chunk);
        modelled_append(&m, &random, 2 * chunk / ELEMENT - 1);
        assert_ptr_equal(acre_vec_data(m.vec), at);
        assert_int_equal(info_of(m.vec).copied_bytes, 0);
        modelled_append(&m, &random, 1);
        assert_int_equal(info_of(m.vec).copied_bytes, 2 * chunk);
        assert_int_equal(acre_vec_mapped_bytes(m.vec), 4 * chunk);
        modelled_check(&m);
        api_ok(acre_stream_sync(device, m.stream));
        /* Read by the host. */
        assert_memory_equal(acre_vec_data(m.vec), m.model, m.count * ELEMENT);
        modelled_end(&m);
        api_ok(acre_close(device));
    }
}

TEST(vec_of_pinned_memory_is_read_by_the_host) {
    uint64_t random = random_seed("vec_of_pinned");
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_vec_options options = {.struct_size = sizeof options, .kind = ACRE_KIND_PINNED};
        struct modelled m = modelled_begin(device, &options, 2 * chunk / ELEMENT);
        modelled_append(&m, &random, chunk / ELEMENT + 5);
        api_ok(acre_stream_sync(device, m.stream));
        assert_memory_equal(acre_vec_data(m.vec), m.model, m.count * ELEMENT);
        acre_mem_info about = {.struct_size = sizeof about};
        api_ok(acre_mem_query(device, acre_vec_data(m.vec), &about));
        assert_int_equal(about.kind, ACRE_KIND_PINNED);
        modelled_end(&m);
        api_ok(acre_close(device));
    }
}

/* ---- appending ---- */

TEST(vec_appends_from_memory_of_any_sort) {
    uint64_t random = random_seed("vec_appends");
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        enum { MOST = 300000 };
        struct modelled m = modelled_begin(device, NULL, SORT_COUNT * MOST);
        struct api_buffer pinned = api_buffer_make(device, SORT_PINNED, MOST * ELEMENT);
        for (int sort = 0; sort < SORT_COUNT; sort++) {
            struct api_buffer from = api_buffer_make(device, sort, MOST * ELEMENT);
            size_t some = 1 + random_draw(&random, MOST);
            unsigned char *expected = m.model + m.count * ELEMENT;
            api_random_bytes(&random, expected, some * ELEMENT);
            api_buffer_put(&from, 0, expected, some * ELEMENT, &pinned);
            api_ok(acre_vec_append(m.vec, from.at, some, m.stream));
            m.count += some;
            modelled_check(&m);
            api_buffer_end(&from);
        }
        api_buffer_end(&pinned);
        modelled_end(&m);
        api_ok(acre_close(device));
    }
}

TEST(vec_appends_from_itself_even_when_it_moves) {
    uint64_t random = random_seed("vec_appends_from_itself");
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        for (int strategy = ACRE_VEC_VMM; strategy <= ACRE_VEC_COPY; strategy++) {
            acre_vec_options options = {.struct_size = sizeof options,
                                        .address_bytes = chunk,
                                        .strategy = (acre_vec_strategy)strategy};
            struct modelled m = modelled_begin(device, &options, 4 * chunk / ELEMENT);
            acre_vec *behind;
            api_ok(acre_vec_create(device, 1, &options, &behind));
            modelled_append(&m, &random, chunk / ELEMENT);
            char *from = (char *)acre_vec_data(m.vec) + 4096;
            api_ok(acre_vec_append(m.vec, from, 70000, m.stream));
            memcpy(m.model + m.count * ELEMENT, m.model + 4096, 70000 * ELEMENT);
            m.count += 70000;
            modelled_check(&m);
            assert_int_equal(info_of(m.vec).moves, 1);
            api_ok(acre_vec_destroy(behind, NULL));
            modelled_end(&m);
        }
        api_ok(acre_close(device));
    }
}

TEST(vec_appended_to_in_small_pieces_maps_few_chunks) {
    acre_device *device = api_open("soft");
    acre_vec *vec;
    static unsigned char page[64 << 10];
    api_ok(acre_vec_create(device, 1, NULL, &vec));
    for (int i = 0; i < 1024; i++)
        api_ok(acre_vec_append(vec, page, sizeof page, NULL));
    acre_vec_info info = info_of(vec);
    assert_true(info.mapped_bytes <= (64 + 8) * MIB + chunk);
    /* 8 chunks of the smallest size, then each adds an eighth of the mapped bytes. */
    assert_true(info.chunks <= 24);
    api_ok(acre_vec_destroy(vec, NULL));
    api_ok(acre_close(device));
}

/* ---- shrinking ---- */

API_TEST(vec_that_shrinks_gives_memory_back_and_keeps_its_address) {
    struct modelled m = modelled_begin(device, NULL, 1);
    const size_t per = chunk / ELEMENT;
    for (int i = 0; i < 4; i++)
        api_ok(acre_vec_grow(m.vec, per, m.stream));
    void *at = acre_vec_data(m.vec);
    api_ok(acre_vec_shrink(m.vec, 1, m.stream));
    assert_int_equal(acre_vec_mapped_bytes(m.vec), 4 * chunk);
    api_ok(acre_vec_shrink(m.vec, per, m.stream));
    assert_int_equal(acre_vec_mapped_bytes(m.vec), 3 * chunk);
    assert_int_equal(acre_vec_size(m.vec), 3 * per - 1);
    api_ok(acre_vec_clear(m.vec));
    assert_int_equal(acre_vec_mapped_bytes(m.vec), 3 * chunk);
    assert_int_equal(acre_vec_size(m.vec), 0);
    api_ok(acre_vec_shrink_to_fit(m.vec, m.stream));
    assert_int_equal(acre_vec_mapped_bytes(m.vec), 0);
    assert_int_equal(info_of(m.vec).chunks, 0);
    assert_ptr_equal(acre_vec_data(m.vec), at);
    api_ok(acre_vec_resize(m.vec, per + 1, m.stream));
    assert_int_equal(acre_vec_mapped_bytes(m.vec), 2 * chunk);
    assert_ptr_equal(acre_vec_data(m.vec), at);
    api_expect(acre_vec_shrink(m.vec, per + 2, m.stream), ACRE_E_INVALID);
    assert_int_equal(acre_vec_size(m.vec), per + 1);
    modelled_end(&m);
    api_ok(acre_trim(device));
    assert_int_equal(api_stats(device).chunks, 0);
}

/* ---- without mapping ---- */

static void started_without_vmm(void) {
    acre_device *device = NULL;
    acre_vec *vec = NULL;
    acre_vec_options vmm = {.struct_size = sizeof vmm, .strategy = ACRE_VEC_VMM};
    acre_vec_options shared = {.struct_size = sizeof shared, .flags = ACRE_VEC_SHAREABLE};
    api_must(acre_open("auto", NULL, &device) == ACRE_OK);
    api_must(acre_vec_create(device, 4, &vmm, &vec) == ACRE_E_UNSUPPORTED);
    api_must(acre_vec_create(device, 4, &shared, &vec) == ACRE_E_UNSUPPORTED);
    for (int kind = ACRE_KIND_DEVICE; kind <= ACRE_KIND_PINNED; kind++) {
        acre_vec_options options = {.struct_size = sizeof options, .kind = (acre_kind)kind};
        static uint32_t model[200000], found[200000];
        api_must(acre_vec_create(device, 4, &options, &vec) == ACRE_OK);
        for (size_t i = 0; i < 200; i++) {
            for (size_t k = 0; k < 1000; k++)
                model[i * 1000 + k] = (uint32_t)(i * 7919 + k);
            api_must(acre_vec_append(vec, model + i * 1000, 1000, NULL) == ACRE_OK);
        }
        api_must(acre_vec_shrink(vec, 50000, NULL) == ACRE_OK);
        api_must(acre_vec_size(vec) == 150000 && acre_vec_capacity(vec) >= 150000);
        api_must(acre_copy_sync(device, found, acre_vec_data(vec), 600000) == ACRE_OK);
        api_must(memcmp(found, model, 600000) == 0);
        acre_vec_info info = {.struct_size = sizeof info};
        api_must(acre_vec_get_info(vec, &info) == ACRE_OK);
        api_must(info.strategy == ACRE_VEC_COPY && info.copied_bytes > 0);
        api_must(acre_vec_destroy(vec, NULL) == ACRE_OK);
    }
    api_must(acre_close(device) == ACRE_OK);
    exit(0);
}

TEST(vec_without_mapping_has_the_same_results) {
    for (API_EACH(name)) {
        char device[32];
        snprintf(device, sizeof device, "ACRE_DEVICE=%s", name);
        api_started_ok("without-vmm", "ACRE_VMM=off", device);
    }
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "without-vmm") == 0)
        started_without_vmm();
    return tests_run("vec");
}
