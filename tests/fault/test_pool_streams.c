/* A thousand streams created with the driver, on every driver: the test allocates and frees memory
 * on them, and destroys them without acre_stream_retire. Then it trims the pool, uses its memory on
 * other streams, and closes everything. */
#include "api/api_pool.h"
#include "driver/driver.h"
#include "fault_device.h"

enum { GONE = 1000, AT_ONCE = 50 };

static const size_t sizes[] = {300, 70 * 1024, 3 << 20};

/* Uses memory of every size on streams that it creates and destroys. */
static void stream_come_and_go(const struct things *t, const struct acre__driver *raw, int i) {
    CUstream streams[AT_ONCE];
    void *blocks[3];
    for (int k = 0; k < AT_ONCE; k++)
        assert_int_equal(raw->cuStreamCreate(&streams[k], CU_STREAM_NON_BLOCKING), 0);
    for (int k = 0; k < AT_ONCE; k++) {
        for (int size = 0; size < 3; size++) {
            api_ok(acre_pool_alloc(t->pool, sizes[size], 0, streams[k], &blocks[size]));
            api_ok(acre_fill(t->device, blocks[size], (uint8_t)i, sizes[size], streams[k]));
        }
        for (int size = 0; size < 3; size++)
            api_ok(acre_pool_free(t->pool, blocks[size], streams[k]));
    }
    for (int k = 0; k < AT_ONCE; k++)
        assert_int_equal(raw->cuStreamDestroy(streams[k]), 0);
}

/* No other work writes to newly allocated memory. */
static void expect_memory_is_mine(const struct things *t) {
    unsigned char *seen = malloc(sizes[2]);
    for (int size = 0; size < 3; size++) {
        void *blocks[20];
        api_ok(acre_pool_alloc_many(t->pool, sizes[size], 20, t->other, blocks));
        for (int i = 0; i < 20; i++)
            api_ok(acre_fill(t->device, blocks[i], 0xa5, sizes[size], t->other));
        for (int i = 0; i < 20; i++) {
            api_ok(acre_copy(t->device, seen, blocks[i], sizes[size], t->other));
            api_ok(acre_stream_sync(t->device, t->other));
            for (size_t k = 0; k < sizes[size]; k++)
                assert_int_equal(seen[k], 0xa5);
        }
        api_ok(acre_pool_free_many(t->pool, blocks, 20, t->other, NULL));
    }
    free(seen);
}

TEST(pool_survives_a_thousand_streams_that_vanish) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        const struct acre__driver *raw = fault_raw(name);
        fault_push(name);
        for (int i = 0; i < GONE / AT_ONCE; i++) {
            stream_come_and_go(&t, raw, i);
            if (i % 5 == 0)
                api_ok(acre_pool_trim(t.pool, 0)); /* uses no dead handle */
            if (i % 7 == 0)
                expect_memory_is_mine(&t);
        }
        assert_in_range(stats_of(t.pool).held_bytes, 0, GIB);
        api_ok(acre_trim(t.device));
        expect_memory_is_mine(&t);
        api_ok(acre_pool_trim(t.pool, 0));
        api_ok(acre_device_sync(t.device));
        api_ok(acre_pool_trim(t.pool, 0));
        assert_int_equal(stats_of(t.pool).live_blocks, 0);
        assert_int_equal(stats_of(t.pool).held_bytes, 0);
        stream_come_and_go(&t, raw, 1);
        fault_pop(name);
        end(&t); /* the pool holds memory of destroyed streams */
    }
}

int main(void) {
    fault_begin();
    return tests_run("pool_streams");
}
