/* Pools with ACRE_POOL_DEBUG with failing driver calls: a status, no change, and a retry works. */
#include "fault_device.h"

static acre_pool_stats stats_of(acre_pool *pool) {
    acre_pool_stats stats = {.struct_size = sizeof stats};
    api_ok(acre_pool_get_stats(pool, &stats));
    return stats;
}

TEST(pool_debug_bears_every_refusal) {
    const enum acre__fault_mode modes[] = {ACRE__FAULT_ONCE, ACRE__FAULT_FROM};
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_pool_options options = {.struct_size = sizeof options, .flags = ACRE_POOL_DEBUG};
        acre_pool *pool;
        acre_stream stream;
        api_ok(acre_pool_create(device, &options, &pool));
        api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &stream));
        for (unsigned mode = 0; mode < 2; mode++) {
            uint64_t fired = 1;
            for (uint32_t nth = 1; fired; nth++) {
                void *p;
                fault_on(NULL, nth, modes[mode], CUDA_ERROR_UNKNOWN);
                acre_status status = acre_pool_alloc(pool, 1000, 0, stream, &p);
                fired = fault_off();
                assert_true(fired || status == ACRE_OK);
                assert_int_equal(stats_of(pool).live_blocks, status == ACRE_OK);
                if (status)
                    api_ok(acre_pool_alloc(pool, 1000, 0, stream, &p));
                fault_on(NULL, nth, modes[mode], CUDA_ERROR_UNKNOWN);
                status = acre_pool_free(pool, p, stream);
                fired += fault_off();
                assert_int_equal(stats_of(pool).live_blocks, status != ACRE_OK);
                if (status)
                    api_ok(acre_pool_free(pool, p, stream));
                assert_true(nth < 1000);
            }
        }
        acre_pool_stats stats = stats_of(pool);
        assert_int_equal(stats.overruns + stats.late_writes + stats.live_blocks, 0);
        api_ok(acre_pool_trim(pool, 0));
        api_ok(acre_stream_destroy(device, stream));
        api_ok(acre_pool_destroy(pool, NULL, NULL));
        api_ok(acre_trim(device));
        assert_int_equal(api_stats(device).limbo_count, 0);
        api_ok(acre_close(device));
    }
}

int main(void) {
    fault_begin();
    return tests_run("counted_pool_debug");
}
