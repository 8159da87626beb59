#include "schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "soft/soft.h"
#include "support/rounds.h"

uint64_t schedule_seeds(unsigned count, uint64_t *end) {
    const char *only = getenv("ACRE_TEST_SEED"), *counted = getenv("ACRE_TEST_SEEDS");
    uint64_t begin = only ? strtoull(only, NULL, 0) : 1;
    *end = begin + (only ? 1 : counted ? strtoull(counted, NULL, 0) : count);
    return begin;
}

unsigned schedule_try(const char *name, schedule_scenario scenario, uint64_t *first) {
    uint64_t end, begin = schedule_seeds(ROUNDS(1000, 250), &end);
    unsigned found = 0;
    for (uint64_t seed = begin; seed < end; seed++) {
        char what[1024] = "";
        if (!scenario(seed, what, sizeof what) || found++)
            continue;
        *first = seed;
        printf("%s: found with seed %llu (repeat with ACRE_TEST_SEED=%llu): %s\n", name,
               (unsigned long long)seed, (unsigned long long)seed, what);
    }
    printf("%s: found by %u of %llu schedules\n", name, found, (unsigned long long)(end - begin));
    return found;
}

const struct acre__driver *schedule_driver_begin(uint64_t seed, uint32_t devices) {
    struct acre__soft_config config = {
        .bytes = (uint64_t)64 << 20,
        .devices = devices,
        .seeded = 1,
        .seed = seed,
        .check = 1,
        .address_bytes = (uint64_t)1 << 30,
    };
    acre__soft_reset();
    const struct acre__driver *drv = acre__driver_soft();
    CUcontext ctx;
    if (acre__soft_configure(&config) || drv->cuInit(0) || drv->cuDevicePrimaryCtxRetain(&ctx, 0) ||
        drv->cuCtxSetCurrent(ctx)) {
        fprintf(stderr, "cannot start the soft driver: %s\n", acre_last_detail());
        abort();
    }
    return drv;
}

void schedule_driver_end(void) {
    acre__soft_reset();
}
