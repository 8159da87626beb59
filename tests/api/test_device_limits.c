/* acre_device_set_limits: what acre takes from a device stays within the limit and the margin,
 * whatever takes it. */
#include <pthread.h>
#include <stdatomic.h>

#include "api_pool.h"

static uint64_t taken(acre_device *device) {
    return api_stats(device).held_bytes;
}

static uint64_t created(acre_device *device) {
    return api_stats(device).chunk_created_bytes;
}

/* ---- what counts ---- */

API_TEST(limits_count_all_device_memory) {
    void *small, *large, *pinned, *in_pool;
    acre_pool *pool;
    acre_vec *vec;
    acre_vm_chunk *chunk;
    size_t bytes;
    api_ok(acre_trim(device));
    assert_int_equal(taken(device), 0);
    api_ok(acre_mem_alloc(device, ACRE_KIND_DEVICE, 64 * KIB, 0, &small));
    assert_int_equal(taken(device), 64 * KIB);
    api_ok(acre_mem_alloc(device, ACRE_KIND_DEVICE, 10 * MIB, 0, &large));
    assert_int_equal(taken(device), 64 * KIB + 10 * MIB);
    api_ok(acre_mem_alloc(device, ACRE_KIND_PINNED, MIB, 0, &pinned));
    assert_int_equal(taken(device), 64 * KIB + 10 * MIB);
    api_ok(acre_vm_create(device, 2 * MIB, 0, &chunk, &bytes));
    assert_int_equal(taken(device), 64 * KIB + 10 * MIB);
    api_ok(acre_vm_release(device, chunk));
    api_ok(acre_mem_free(device, small));
    assert_int_equal(taken(device), 10 * MIB);
    api_ok(acre_vec_create(device, 1, NULL, &vec));
    api_ok(acre_vec_resize(vec, 5 * MIB, NULL));
    assert_int_equal(taken(device), 16 * MIB);
    api_ok(acre_pool_create(device, NULL, &pool));
    api_ok(acre_pool_alloc(pool, 4 * MIB, 0, NULL, &in_pool));
    assert_int_equal(taken(device), 16 * MIB + stats_of(pool).held_bytes);
    api_ok(acre_pool_free(pool, in_pool, NULL));
    api_ok(acre_pool_destroy(pool, NULL, NULL));
    api_ok(acre_vec_destroy(vec, NULL));
    api_ok(acre_mem_free(device, large));
    api_ok(acre_mem_free(device, pinned));
    api_ok(acre_trim(device));
    assert_int_equal(taken(device), 0);
}

/* Without virtual memory management everything comes from cuMemAlloc. */
TEST(limits_count_memory_of_the_driver_alone) {
    setenv("ACRE_VMM", "off", 1);
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        void *p;
        api_ok(acre_device_set_limits(t.device, 16 * MIB, 0));
        (void)alloc(&t, 9 * MIB);
        assert_int_equal(taken(t.device), stats_of(t.pool).held_bytes);
        api_expect(acre_pool_alloc(t.pool, 9 * MIB, 0, t.stream, &p), ACRE_E_DEVICE_MEMORY);
        api_expect(acre_mem_alloc(t.device, ACRE_KIND_DEVICE, 8 * MIB, 0, &p),
                   ACRE_E_DEVICE_MEMORY);
        assert_true(taken(t.device) <= 16 * MIB);
        end(&t);
    }
    unsetenv("ACRE_VMM");
}

/* ---- refusals ---- */

/* A refused request takes nothing from the card meanwhile: other programs may need it. */
TEST(limits_refuse_before_memory_is_taken) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        void *p = &t;
        char detail[160];
        api_ok(acre_device_set_limits(t.device, 64 * MIB, 0));
        (void)alloc(&t, 8 * MIB);
        uint64_t before = created(t.device), left = 64 * MIB - taken(t.device);
        api_expect(acre_pool_alloc(t.pool, 60 * MIB, 0, t.stream, &p), ACRE_E_DEVICE_MEMORY);
        assert_null(p);
        snprintf(detail, sizeof detail,
                 "%zu bytes requested, %llu bytes are left of the limit of %zu bytes on ", 60 * MIB,
                 (unsigned long long)left, 64 * MIB);
        assert_non_null(strstr(acre_last_detail(), detail));
        api_expect(acre_pool_alloc(t.pool, 200 * MIB, 0, t.stream, &p), ACRE_E_DEVICE_MEMORY);
        api_expect(acre_mem_alloc(t.device, ACRE_KIND_DEVICE, 60 * MIB, 0, &p),
                   ACRE_E_DEVICE_MEMORY);
        assert_int_equal(created(t.device), before);
        (void)alloc(&t, 40 * MIB);
        end(&t);
    }
}

/* A block of many chunks takes nothing either if the card has too little, without any limit. */
TEST(limits_of_the_card_refuse_before_memory_is_taken) {
    acre_open_options options = {.struct_size = sizeof options, .soft_bytes = 4 * GIB};
    struct things t;
    void *p;
    api_ok(acre_open("soft", &options, &t.device));
    api_ok(acre_pool_create(t.device, NULL, &t.pool));
    api_ok(acre_mem_alloc(t.device, ACRE_KIND_DEVICE, 2 * GIB, 0, &p));
    uint64_t before = created(t.device);
    api_expect(acre_pool_alloc(t.pool, 3 * GIB, 0, NULL, &p), ACRE_E_DEVICE_MEMORY);
    assert_non_null(strstr(acre_last_detail(), "3221225472 bytes requested, 2147483648 bytes of"));
    assert_int_equal(created(t.device), before);
    api_ok(acre_pool_alloc(t.pool, 2 * GIB, 0, NULL, &p));
    api_ok(acre_pool_destroy(t.pool, NULL, NULL));
    api_ok(acre_close(t.device));
}

TEST(limits_are_reported) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        static char text[16384];
        size_t needed;
        void *p;
        api_ok(acre_device_set_limits(t.device, 16 * MIB, 0));
        (void)alloc(&t, 10 * MIB);
        api_expect(acre_pool_alloc(t.pool, 10 * MIB, 0, t.stream, &p), ACRE_E_DEVICE_MEMORY);
        api_ok(acre_oom_report(ACRE_OOM_TEXT, text, sizeof text, &needed));
        assert_non_null(strstr(text, "are left of the limit of 16777216 bytes"));
        assert_null(strstr(text, "retry: "));
        assert_non_null(strstr(text, "raise the limit of the device to "));
        assert_non_null(strstr(text, " of its limit of 16.0 MiB (acre_device_set_limits)"));
        api_expect(acre_pool_alloc(t.pool, 20 * MIB, 0, t.stream, &p), ACRE_E_DEVICE_MEMORY);
        api_ok(acre_oom_report(ACRE_OOM_TEXT, text, sizeof text, &needed));
        assert_non_null(strstr(text, "request less: the limit of the device is 16.0 MiB"));
        /* What is left is enough for the request, but not for its chunks. */
        api_ok(acre_device_set_limits(t.device, taken(t.device) + 5 * MIB, 0));
        api_expect(acre_pool_alloc(t.pool, 5 * MIB, 0, t.stream, &p), ACRE_E_DEVICE_MEMORY);
        api_ok(acre_oom_report(ACRE_OOM_TEXT, text, sizeof text, &needed));
        assert_non_null(strstr(text, "5242880 bytes requested (6291456 in whole chunks), 5242880 "
                                     "bytes are left of the limit"));
        char step[64];
        snprintf(step, sizeof step, "raise the limit of the device to %llu bytes",
                 (unsigned long long)(taken(t.device) + 6 * MIB));
        assert_non_null(strstr(text, step));
        api_ok(acre_device_set_limits(t.device, taken(t.device) + 6 * MIB, 0));
        (void)alloc(&t, 5 * MIB);
        api_ok(acre_device_set_limits(t.device, 16 * MIB, 0));
        acre_device_stats stats = api_stats(t.device);
        assert_int_equal(stats.limit_bytes, 16 * MIB);
        assert_int_equal(stats.margin_bytes, 0);
        end(&t);
    }
}

API_TEST(limits_of_invalid_devices_are_refused) {
    api_expect(acre_device_set_limits(NULL, 0, 0), ACRE_E_NULL);
    api_expect(acre_device_set_limits((acre_device *)((char *)device + 1), 0, 0), ACRE_E_HANDLE);
}

/* ---- memory that acre has ---- */

/* Idle memory of a pool serves a vec, a block and another pool before a call fails. */
TEST(limits_release_idle_memory_first) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        acre_pool *other;
        acre_vec *vec;
        void *p;
        api_ok(acre_device_set_limits(t.device, 32 * MIB, 0));
        for (int i = 0; i < 4; i++) {
            p = alloc(&t, 20 * MIB);
            api_ok(acre_pool_free(t.pool, p, t.stream));
            api_ok(acre_device_sync(t.device));
            if (i == 0) {
                api_ok(acre_mem_alloc(t.device, ACRE_KIND_DEVICE, 20 * MIB, 0, &p));
                api_ok(acre_mem_free(t.device, p));
            } else if (i == 1) {
                api_ok(acre_vec_create(t.device, 1, NULL, &vec));
                api_ok(acre_vec_resize(vec, 20 * MIB, NULL));
                api_ok(acre_vec_destroy(vec, NULL));
            } else if (i == 2) {
                api_ok(acre_pool_create(t.device, NULL, &other));
                api_ok(acre_pool_alloc(other, 20 * MIB, 0, NULL, &p));
                api_ok(acre_pool_free(other, p, NULL));
                api_ok(acre_pool_destroy(other, NULL, NULL));
            }
            assert_true(taken(t.device) <= 32 * MIB);
        }
        end(&t);
    }
}

/* Managed memory does not count, and pools release idle memory for it as without a limit. */
TEST(limits_leave_managed_memory_alone) {
    acre_open_options options = {.struct_size = sizeof options, .soft_bytes = GIB};
    struct things t;
    void *p;
    api_ok(acre_open("soft", &options, &t.device));
    api_ok(acre_pool_create(t.device, NULL, &t.pool));
    api_ok(acre_device_set_limits(t.device, 600 * MIB, 0));
    api_ok(acre_pool_alloc(t.pool, 500 * MIB, 0, NULL, &p));
    api_ok(acre_pool_free(t.pool, p, NULL));
    api_ok(acre_device_sync(t.device));
    api_ok(acre_mem_alloc(t.device, ACRE_KIND_MANAGED, 700 * MIB, 0, &p));
    api_ok(acre_mem_free(t.device, p));
    api_ok(acre_pool_destroy(t.pool, NULL, NULL));
    api_ok(acre_close(t.device));
}

/* Spillable blocks leave until the request and what is held are within a lowered limit, and the
 * margin holds while they come back. */
TEST(limits_hold_for_spillable_blocks) {
    acre_open_options options = {.struct_size = sizeof options, .soft_bytes = 256 * MIB};
    struct things t;
    void *blocks[5], *p;
    api_ok(acre_open("soft", &options, &t.device));
    api_ok(acre_pool_create(t.device, NULL, &t.pool));
    for (int i = 0; i < 5; i++)
        api_ok(acre_pool_alloc_spillable(t.pool, 32 * MIB, NULL, &blocks[i]));
    api_ok(acre_device_sync(t.device));
    api_ok(acre_device_set_limits(t.device, 96 * MIB, 0));
    api_ok(acre_mem_alloc(t.device, ACRE_KIND_DEVICE, 16 * MIB, 0, &p));
    assert_true(taken(t.device) <= 96 * MIB);
    api_ok(acre_mem_free(t.device, p));
    api_ok(acre_device_set_limits(t.device, 0, 128 * MIB));
    for (int i = 0; i < 5; i++) {
        if (acre_bring(blocks[i], NULL) == ACRE_OK)
            api_ok(acre_bring_end(blocks[i], NULL));
        assert_true(api_free_bytes(t.device) >= 128 * MIB);
    }
    for (int i = 0; i < 5; i++)
        api_ok(acre_pool_free(t.pool, blocks[i], NULL));
    api_ok(acre_pool_destroy(t.pool, NULL, NULL));
    api_ok(acre_close(t.device));
}

/* ---- a limit below what is held ---- */

/* Also what thread caches and other streams have freed, once they have passed. */
TEST(limits_release_idle_memory_when_they_are_set) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        void *p = alloc(&t, 40 * MIB), *blocks[64];
        for (int i = 0; i < 64; i++)
            blocks[i] = alloc(&t, 100 * KIB);
        for (int i = 0; i < 64; i++)
            api_ok(acre_pool_free(t.pool, blocks[i], t.stream));
        api_ok(acre_pool_free(t.pool, p, t.other));
        api_ok(acre_device_sync(t.device));
        uint64_t trims = api_stats(t.device).trims, before = taken(t.device);
        assert_true(before >= 46 * MIB);
        api_ok(acre_device_set_limits(t.device, before, 0));
        assert_int_equal(taken(t.device), before);
        api_ok(acre_device_set_limits(t.device, before - 1, 0));
        assert_int_equal(taken(t.device), 0);
        assert_int_equal(api_stats(t.device).trims, trims);
        end(&t);
    }
}

enum { BLOCKS = 64 };

/* Memory in use stays. Nothing more is served before enough of it is freed: neither by the thread's
 * cache, nor by the pool. */
TEST(limits_may_be_below_what_is_in_use) {
    static const size_t sizes[] = {256 * KIB, 3 * MIB};
    for (API_EACH(name)) {
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            struct things t = begin(name, NULL);
            size_t each = sizes[k];
            uint64_t limit = BLOCKS / 3 * each, live = BLOCKS * each;
            void *blocks[BLOCKS], *p;
            int served = 0;
            for (int round = 0; round < 20; round++) { /* until the thread's cache has room */
                for (int i = 0; i < BLOCKS; i++)
                    blocks[i] = alloc(&t, each);
                for (int i = 0; i < BLOCKS && round < 19; i++)
                    api_ok(acre_pool_free(t.pool, blocks[i], t.stream));
            }
            api_ok(acre_device_set_limits(t.device, limit, 0));
            assert_int_equal(stats_of(t.pool).live_bytes, live);
            for (int i = 0; i < BLOCKS; i++) {
                api_ok(acre_pool_free(t.pool, blocks[i], t.stream));
                live -= each;
                acre_status status = acre_pool_alloc(t.pool, each, 0, t.stream, &p);
                if (status) {
                    api_expect(status, ACRE_E_DEVICE_MEMORY);
                    assert_non_null(strstr(acre_last_detail(), " bytes are left of the limit of "));
                    continue;
                }
                served++;
                assert_true(live + each <= limit);
                api_ok(acre_pool_free(t.pool, p, t.stream));
            }
            assert_true(served > 0);
            end(&t);
        }
    }
}

/* In two pools, one block of 64 KiB keeps each chunk: little is live, and much held. */
struct sparse {
    struct things t;
    acre_pool *pools[2];
    void *kept[1024];
    int kept_count;
};

static void sparse_begin(struct sparse *s, const char *name) {
    static void *all[1024];
    s->t = begin(name, NULL);
    s->pools[0] = s->t.pool;
    s->kept_count = 0;
    api_ok(acre_pool_create(s->t.device, NULL, &s->pools[1]));
    for (int k = 0; k < 2; k++) {
        api_ok(acre_pool_alloc_many(s->pools[k], 64 * KIB, 1024, s->t.stream, all));
        for (int i = 0; i < 1024; i++) {
            if (i % 16 == 0)
                s->kept[s->kept_count++] = all[i];
            else
                api_ok(acre_pool_free(s->pools[k], all[i], s->t.stream));
        }
    }
    api_ok(acre_device_sync(s->t.device));
}

static void sparse_end(struct sparse *s) {
    api_ok(acre_pool_destroy(s->pools[1], NULL, NULL));
    end(&s->t);
}

static uint64_t sparse_live(const struct sparse *s) {
    return stats_of(s->pools[0]).live_bytes + stats_of(s->pools[1]).live_bytes;
}

/* Above a lowered limit, pools serve what they hold up to the limit, and not a byte more. */
TEST(limits_allow_what_is_live_in_all_pools) {
    for (API_EACH(name)) {
        struct sparse s;
        void *p, *mem;
        sparse_begin(&s, name);
        api_ok(acre_mem_alloc(s.t.device, ACRE_KIND_DEVICE, 2 * MIB, 0, &mem));
        uint64_t live = sparse_live(&s), limit = live + 2 * MIB + 40 * MIB + 512;
        assert_int_equal(live, 8 * MIB);
        api_ok(acre_device_set_limits(s.t.device, limit, 0));
        uint64_t held = taken(s.t.device), made = created(s.t.device);
        assert_true(held > limit);
        for (int i = 0; i < 640; i++)
            api_ok(acre_pool_alloc(s.pools[i % 2], 64 * KIB, 0, s.t.stream, &p));
        assert_int_equal(sparse_live(&s), limit - 2 * MIB - 512);
        for (int k = 0; k < 2; k++)
            api_expect(acre_pool_alloc(s.pools[k], 64 * KIB, 0, s.t.stream, &p),
                       ACRE_E_DEVICE_MEMORY);
        api_ok(acre_pool_free(s.pools[0], s.kept[0], s.t.stream)); /* and for the other pool */
        api_ok(acre_pool_alloc(s.pools[1], 64 * KIB, 0, s.t.stream, &p));
        api_expect(acre_pool_alloc(s.pools[0], 64 * KIB, 0, s.t.stream, &p), ACRE_E_DEVICE_MEMORY);
        api_ok(acre_mem_free(s.t.device, mem));
        for (int i = 0; i < 32; i++)
            api_ok(acre_pool_alloc(s.pools[0], 64 * KIB, 0, s.t.stream, &p));
        api_expect(acre_pool_alloc(s.pools[0], 64 * KIB, 0, s.t.stream, &p), ACRE_E_DEVICE_MEMORY);
        assert_int_equal(created(s.t.device), made);
        sparse_end(&s);
    }
}

static uint64_t step_of(const char *text, const char *before) {
    const char *at = strstr(text, before);
    if (!at)
        fail_msg("no \"%s\" in %s", before, text);
    return strtoull(at + strlen(before), NULL, 10);
}

/* Each step of the report is enough. */
TEST(limits_below_what_is_live_are_reported) {
    static char text[16384], json[16384];
    for (API_EACH(name)) {
        for (int is_raised = 0; is_raised < 2; is_raised++) {
            struct sparse s;
            size_t needed;
            void *p;
            sparse_begin(&s, name);
            api_ok(acre_device_set_limits(s.t.device, 6 * MIB, 0));
            api_expect(acre_pool_alloc(s.pools[0], 64 * KIB, 0, s.t.stream, &p),
                       ACRE_E_DEVICE_MEMORY);
            api_ok(acre_oom_report(ACRE_OOM_TEXT, text, sizeof text, &needed));
            api_ok(acre_oom_report(ACRE_OOM_JSON, json, sizeof json, &needed));
            uint64_t limit = step_of(text, "raise the limit of the device to ");
            uint64_t missing = step_of(strstr(json, "\"do\":\"free\""), "\"bytes\":");
            assert_int_equal(limit, 8 * MIB + 64 * KIB);
            assert_int_equal(missing, 2 * MIB + 64 * KIB);
            if (is_raised) {
                api_ok(acre_device_set_limits(s.t.device, limit - 1, 0));
                api_expect(acre_pool_alloc(s.pools[0], 64 * KIB, 0, s.t.stream, &p),
                           ACRE_E_DEVICE_MEMORY);
                api_ok(acre_device_set_limits(s.t.device, limit, 0));
            } else {
                for (int i = 0; i < (int)(missing / (64 * KIB)); i++)
                    api_ok(acre_pool_free(s.pools[0], s.kept[i], s.t.stream));
            }
            api_ok(acre_pool_alloc(s.pools[0], 64 * KIB, 0, s.t.stream, &p));
            sparse_end(&s);
        }
    }
}

/* A request that no hole serves needs new chunks, and so all of the excess released. */
TEST(limits_below_what_is_held_are_reported) {
    static char text[16384];
    for (API_EACH(name)) {
        for (int is_raised = 0; is_raised < 2; is_raised++) {
            struct sparse s;
            size_t needed;
            void *p;
            sparse_begin(&s, name);
            uint64_t held = taken(s.t.device);
            api_ok(acre_device_set_limits(s.t.device, held - 10 * MIB, 0));
            held = taken(s.t.device);
            api_expect(acre_pool_alloc(s.pools[0], 20 * MIB, 0, s.t.stream, &p),
                       ACRE_E_DEVICE_MEMORY);
            api_ok(acre_oom_report(ACRE_OOM_TEXT, text, sizeof text, &needed));
            uint64_t limit = step_of(text, "raise the limit of the device to ");
            assert_int_equal(limit, held + 20 * MIB);
            assert_non_null(strstr(text, "free all blocks in chunks of 30.0 MiB together"));
            if (is_raised)
                api_ok(acre_device_set_limits(s.t.device, limit, 0));
            else
                for (int i = 0; i < 32; i++) /* all of 32 MiB, and so 30 MiB in whole chunks */
                    api_ok(acre_pool_free(s.pools[0], s.kept[i], s.t.stream));
            api_ok(acre_pool_alloc(s.pools[0], 20 * MIB, 0, s.t.stream, &p));
            sparse_end(&s);
        }
    }
}

/* A block that was shrunk in place has free memory behind it. */
TEST(limits_hold_for_a_block_that_grows_in_place) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        static char text[16384];
        size_t needed;
        void *p = alloc(&t, 16 * MIB), *grown;
        api_ok(acre_pool_realloc(t.pool, p, 10 * MIB, t.stream, &grown));
        assert_ptr_equal(grown, p);
        uint64_t held = taken(t.device);
        void *mem;
        api_ok(acre_mem_alloc(t.device, ACRE_KIND_DEVICE, 2 * MIB, 0, &mem));
        api_ok(acre_device_set_limits(t.device, 14 * MIB, 0));
        assert_int_equal(taken(t.device), held + 2 * MIB); /* the hole is a part of a chunk */
        api_expect(acre_pool_realloc(t.pool, p, 13 * MIB, t.stream, &grown), ACRE_E_DEVICE_MEMORY);
        assert_int_equal(acre_pool_usable_size(t.pool, p), 10 * MIB);
        api_ok(acre_oom_report(ACRE_OOM_TEXT, text, sizeof text, &needed));
        assert_non_null(strstr(text, "0 bytes are left of the limit"));
        assert_non_null(strstr(text, "6.0 MiB  free, but in holes that are too small"));
        api_ok(acre_pool_realloc(t.pool, p, 12 * MIB, t.stream, &grown)); /* all of the limit */
        assert_ptr_equal(grown, p);
        api_ok(acre_device_set_limits(t.device, 0, 0));
        api_ok(acre_pool_realloc(t.pool, p, 13 * MIB, t.stream, &grown));
        assert_ptr_equal(grown, p);
        api_ok(acre_mem_free(t.device, mem));
        end(&t);
    }
}

/* A chunk in the store's cache is idle memory, too. */
TEST(limits_hold_for_cached_chunks) {
    setenv("ACRE_CHUNK_CACHE_BYTES", "16MiB", 1);
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        void *kept, *freed, *p;
        api_ok(acre_mem_alloc(device, ACRE_KIND_DEVICE, 16 * MIB, 0, &kept));
        api_ok(acre_mem_alloc(device, ACRE_KIND_DEVICE, 8 * MIB, 0, &freed));
        api_ok(acre_device_set_limits(device, 16 * MIB, 0));
        api_ok(acre_mem_free(device, freed));
        assert_int_equal(api_stats(device).chunk_cached_bytes, 8 * MIB);
        api_expect(acre_mem_alloc(device, ACRE_KIND_DEVICE, 8 * MIB, 0, &p), ACRE_E_DEVICE_MEMORY);
        assert_int_equal(taken(device), 16 * MIB);
        api_ok(acre_mem_free(device, kept));
        api_ok(acre_mem_alloc(device, ACRE_KIND_DEVICE, 8 * MIB, 0, &p));
        api_ok(acre_mem_free(device, p));
        api_ok(acre_close(device));
    }
    unsetenv("ACRE_CHUNK_CACHE_BYTES");
}

API_TEST(limits_hold_for_idle_pieces_of_ranges) {
    static const uint64_t piece = 2 << 20;
    acre_range *range, *other;
    api_ok(acre_range_create(device, 16 * piece, NULL, &range));
    api_ok(acre_range_create(device, 16 * piece, NULL, &other));
    api_ok(acre_range_commit(range, 0, 8 * piece, NULL));
    api_ok(acre_range_commit(other, 0, 2 * piece, NULL));
    api_ok(acre_device_set_limits(device, 6 * piece, 0));
    api_ok(acre_range_decommit(range, 0, 2 * piece, NULL));
    api_ok(acre_range_commit(range, 2 * piece, 6 * piece, NULL)); /* they are committed */
    api_expect(acre_range_commit(range, 0, piece, NULL), ACRE_E_DEVICE_MEMORY);
    assert_int_equal(taken(device), 8 * piece);
    api_ok(acre_range_decommit(range, 2 * piece, 3 * piece, NULL));
    api_ok(acre_range_commit(range, 0, piece, NULL));
    assert_int_equal(taken(device), 6 * piece);
    api_expect(acre_range_commit(other, 2 * piece, piece, NULL), ACRE_E_DEVICE_MEMORY);
    api_ok(acre_range_destroy(range, NULL));
    api_ok(acre_range_destroy(other, NULL));
}

TEST(limits_end_with_the_device) {
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        void *p;
        api_ok(acre_device_set_limits(device, MIB, MIB));
        api_ok(acre_close(device));
        device = api_open(name);
        assert_int_equal(api_stats(device).limit_bytes + api_stats(device).margin_bytes, 0);
        api_ok(acre_mem_alloc(device, ACRE_KIND_DEVICE, 8 * MIB, 0, &p));
        api_ok(acre_mem_free(device, p));
        api_ok(acre_close(device));
    }
}

/* Suspended memory does not count. It comes back within the limit, whatever the margin is. */
TEST(limits_hold_for_a_resume) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        acre_suspended *suspended;
        void *p = alloc(&t, 20 * MIB);
        uint64_t before = taken(t.device);
        api_ok(acre_suspend(t.device, NULL, &suspended));
        assert_true(taken(t.device) + 20 * MIB <= before);
        api_ok(acre_device_set_limits(t.device, before, UINT64_MAX / 2));
        api_ok(acre_resume(suspended));
        assert_int_equal(taken(t.device), before);
        api_ok(acre_suspend(t.device, NULL, &suspended));
        api_ok(acre_device_set_limits(t.device, before - 2 * MIB, 0));
        api_expect(acre_resume(suspended), ACRE_E_DEVICE_MEMORY);
        assert_true(taken(t.device) < before);
        api_ok(acre_device_set_limits(t.device, before, 0));
        api_ok(acre_resume(suspended));
        api_ok(acre_pool_free(t.pool, p, t.stream));
        end(&t);
    }
}

/* ---- the margin ---- */

TEST(limits_margin_stays_free) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        void *p;
        (void)alloc(&t, MIB);
        uint64_t free_bytes = api_free_bytes(t.device), before = created(t.device);
        api_ok(acre_device_set_limits(t.device, 0, free_bytes - 32 * MIB));
        api_expect(acre_pool_alloc(t.pool, 100 * MIB, 0, t.stream, &p), ACRE_E_DEVICE_MEMORY);
        assert_non_null(strstr(acre_last_detail(), "bytes must stay free"));
        assert_int_equal(created(t.device), before);
        (void)alloc(&t, 16 * MIB);
        assert_true(api_free_bytes(t.device) + 8 * MIB >= free_bytes - 32 * MIB);
        end(&t);
    }
}

/* ---- threads ---- */

enum { THREADS = 8, TURNS = 300 };
static const uint64_t most = 48 << 20;

struct race {
    acre_device *device;
    acre_pool *pool;
    atomic_int bad, refused, served, is_over;
    uint64_t free_at_first;
};

enum { KEPT = 4 }; /* blocks of a thread: together they may exceed the limit */

static void press_free(struct race *race, int turn, void *p) {
    if (turn % 3 ? acre_pool_free(race->pool, p, NULL) : acre_mem_free(race->device, p))
        atomic_fetch_add(&race->bad, 1);
}

static void *press(void *user) {
    struct race *race = user;
    void *kept[KEPT] = {0};
    for (int i = 0; i < TURNS + KEPT; i++) {
        size_t bytes = (size_t)(1 + i % 7) * 3 * MIB;
        void **p = &kept[i % KEPT];
        press_free(race, i - KEPT, *p);
        *p = NULL;
        if (i >= TURNS)
            continue;
        acre_status status = i % 3 ? acre_pool_alloc(race->pool, bytes, 0, NULL, p)
                                   : acre_mem_alloc(race->device, ACRE_KIND_DEVICE, bytes, 0, p);
        if (status == ACRE_OK)
            atomic_fetch_add(&race->served, 1);
        else
            atomic_fetch_add(status == ACRE_E_DEVICE_MEMORY ? &race->refused : &race->bad, 1);
    }
    return NULL;
}

/* Asks the soft device itself, which counts every byte. */
static void *look(void *user) {
    struct race *race = user;
    while (!atomic_load(&race->is_over)) {
        acre_device_info info = {.struct_size = sizeof info};
        if (acre_device_get_info(race->device, &info) ||
            race->free_at_first - info.free_bytes > most)
            atomic_fetch_add(&race->bad, 1);
    }
    return NULL;
}

TEST(limits_hold_for_threads_together) {
    struct race race = {.device = api_open("soft")};
    pthread_t threads[THREADS], looking;
    api_ok(acre_pool_create(race.device, NULL, &race.pool));
    race.free_at_first = api_free_bytes(race.device);
    api_ok(acre_device_set_limits(race.device, most, 0));
    assert_int_equal(pthread_create(&looking, NULL, look, &race), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, press, &race), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&race.is_over, 1);
    pthread_join(looking, NULL);
    assert_int_equal(atomic_load(&race.bad), 0);
    assert_true(atomic_load(&race.served) > 0);
    assert_true(atomic_load(&race.refused) > 0);
    api_ok(acre_pool_destroy(race.pool, NULL, NULL));
    api_ok(acre_trim(race.device));
    assert_int_equal(taken(race.device), 0);
    api_ok(acre_close(race.device));
}

/* Threads that have much in use and much cached when the limit is lowered. */
struct crowd {
    acre_pool *pool;
    pthread_barrier_t barrier;
    atomic_ullong live;
    atomic_int bad, served;
};

static void crowd_free(struct crowd *crowd, void **p, size_t bytes) {
    if (!*p)
        return;
    atomic_fetch_sub(&crowd->live, bytes);
    if (acre_pool_free(crowd->pool, *p, NULL))
        atomic_fetch_add(&crowd->bad, 1);
    *p = NULL;
}

static void *crowd_run(void *user) {
    struct crowd *crowd = user;
    void *kept[2 * KEPT] = {0};
    size_t bytes[2 * KEPT] = {0};
    for (int i = 0; i < 2 * TURNS; i++) {
        int k = i % (2 * KEPT), is_limited = i >= TURNS;
        if (i == TURNS) {
            pthread_barrier_wait(&crowd->barrier); /* the limit is set now */
            pthread_barrier_wait(&crowd->barrier);
        }
        crowd_free(crowd, &kept[k], bytes[k]);
        bytes[k] = k % 2 ? 64 * KIB : (size_t)(1 + i % 3) * MIB;
        if (acre_pool_alloc(crowd->pool, bytes[k], 0, NULL, &kept[k]))
            continue;
        uint64_t live = atomic_fetch_add(&crowd->live, bytes[k]) + bytes[k];
        atomic_fetch_add(&crowd->served, is_limited);
        if (is_limited && live > most / 3)
            atomic_fetch_add(&crowd->bad, 1);
    }
    for (int k = 0; k < 2 * KEPT; k++)
        crowd_free(crowd, &kept[k], bytes[k]);
    return NULL;
}

TEST(limits_that_are_lowered_hold_for_threads_together) {
    struct crowd crowd = {0};
    pthread_t threads[THREADS];
    acre_device *device = api_open("soft");
    api_ok(acre_pool_create(device, NULL, &crowd.pool));
    assert_int_equal(pthread_barrier_init(&crowd.barrier, NULL, THREADS + 1), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, crowd_run, &crowd), 0);
    pthread_barrier_wait(&crowd.barrier);
    assert_true(atomic_load(&crowd.live) > most / 3);
    api_ok(acre_device_set_limits(device, most / 3, 0));
    pthread_barrier_wait(&crowd.barrier);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&crowd.bad), 0);
    assert_true(atomic_load(&crowd.served) > 0);
    pthread_barrier_destroy(&crowd.barrier);
    api_ok(acre_pool_destroy(crowd.pool, NULL, NULL));
    api_ok(acre_close(device));
}

/* Threads of two pools that are sparse: together they get what the limit allows, to the byte. */
struct greed {
    acre_pool *pool;
    atomic_int *served;
};

static void *greed_run(void *user) {
    struct greed *greed = user;
    void *p;
    while (acre_pool_alloc(greed->pool, 64 * KIB, 0, NULL, &p) == ACRE_OK)
        atomic_fetch_add(greed->served, 1);
    return NULL;
}

TEST(limits_allow_threads_together_what_is_live) {
    for (int round = 0; round < 4; round++) {
        struct sparse s;
        pthread_t threads[THREADS];
        struct greed greed[THREADS];
        atomic_int served = 0;
        sparse_begin(&s, "soft");
        api_ok(acre_device_set_limits(s.t.device, 8 * MIB + 600 * 64 * KIB + 1, 0));
        for (int i = 0; i < THREADS; i++) {
            greed[i] = (struct greed){s.pools[i % 2], &served};
            assert_int_equal(pthread_create(&threads[i], NULL, greed_run, &greed[i]), 0);
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        assert_int_equal(atomic_load(&served), 600);
        sparse_end(&s);
    }
}

int main(void) {
    return tests_run("device_limits");
}
