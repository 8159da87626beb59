/* The part of `acre demo` that allocates from a pool and frees: its time compared with malloc's.
 * Checks that blocks do not overlap, are aligned, and that a double free is rejected. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "demo.h"

enum { POOLED_BYTES = 65536, POOLED_BLOCKS = 32, POOLED_PAIRS = 20000, POOLED_MALLOC_BYTES = 64 };

struct pooled {
    acre_device *device;
    acre_stream stream;
    void *blocks[POOLED_BLOCKS];
    uint64_t pool_ns, malloc_ns; /* for all pairs */
    bool is_right;
    const char *doing;
};

#define POOLED_TRY(pooled, what, call)                                                             \
    do {                                                                                           \
        (pooled)->doing = (what);                                                                  \
        acre_status pooled_status = (call);                                                        \
        if (pooled_status != ACRE_OK) {                                                            \
            return pooled_status;                                                                  \
        }                                                                                          \
    } while (0)

/* Fills every block with its own number and then checks that no block was overwritten. */
static acre_status pooled_check(struct pooled *pooled) {
    for (uint32_t i = 0; i < POOLED_BLOCKS; i++) {
        POOLED_TRY(pooled, "allocate from the pool of",
                   acre_alloc(pooled->device, POOLED_BYTES, pooled->stream, &pooled->blocks[i]));
        POOLED_TRY(
            pooled, "fill memory of the pool of",
            acre_fill(pooled->device, pooled->blocks[i], (uint8_t)i, POOLED_BYTES, pooled->stream));
        pooled->is_right = pooled->is_right && (uintptr_t)pooled->blocks[i] % 256 == 0;
    }
    for (uint32_t i = 0; i < POOLED_BLOCKS; i++) {
        unsigned char ends[2] = {0xee, 0xee};
        for (size_t k = 0; k < 2; k++) {
            const char *at = (const char *)pooled->blocks[i] + k * (POOLED_BYTES - 1);
            POOLED_TRY(pooled, "copy from the pool of",
                       acre_copy(pooled->device, &ends[k], at, 1, pooled->stream));
        }
        POOLED_TRY(pooled, "wait for copies on", acre_stream_sync(pooled->device, pooled->stream));
        pooled->is_right = pooled->is_right && ends[0] == i && ends[1] == i;
    }
    for (uint32_t i = 0; i < POOLED_BLOCKS; i++) {
        POOLED_TRY(pooled, "free memory of the pool of",
                   acre_free(pooled->blocks[i], pooled->stream));
        pooled->is_right =
            pooled->is_right && acre_free(pooled->blocks[i], pooled->stream) == ACRE_E_POINTER;
    }
    return ACRE_OK;
}

static acre_status pooled_time(struct pooled *pooled) {
    uint64_t begin = cli_now_ns();
    for (uint32_t i = 0; i < POOLED_PAIRS; i++) {
        void *block;
        POOLED_TRY(pooled, "allocate from the pool of",
                   acre_alloc(pooled->device, POOLED_BYTES, pooled->stream, &block));
        POOLED_TRY(pooled, "free memory of the pool of", acre_free(block, pooled->stream));
    }
    pooled->pool_ns = cli_now_ns() - begin;
    begin = cli_now_ns();
    for (uint32_t i = 0; i < POOLED_PAIRS; i++) {
        void *block = malloc(POOLED_MALLOC_BYTES);
        __asm__ volatile("" : : "r"(block) : "memory"); /* keeps the compiler from removing both */
        free(block);
    }
    pooled->malloc_ns = cli_now_ns() - begin;
    return ACRE_OK;
}

static acre_status pooled_run(struct pooled *pooled) {
    POOLED_TRY(pooled, "create a stream on",
               acre_stream_create(pooled->device, ACRE_STREAM_NON_BLOCKING, &pooled->stream));
    POOLED_TRY(pooled, pooled->doing, pooled_check(pooled));
    POOLED_TRY(pooled, pooled->doing, pooled_time(pooled));
    POOLED_TRY(pooled, "destroy a stream of", acre_stream_destroy(pooled->device, pooled->stream));
    return ACRE_OK;
}

acre_status demo_pool(acre_device *device, struct demo_part *part, const char **doing) {
    struct pooled pooled = {.device = device, .is_right = true};
    uint64_t begin = cli_now_ns();
    acre_status status = pooled_run(&pooled);
    *doing = pooled.doing;
    *part =
        (struct demo_part){.name = "pool", .ok = pooled.is_right, .time_ns = cli_now_ns() - begin};
    snprintf(part->text, sizeof part->text,
             "64 KiB allocated and freed in stream order in %.0f ns, malloc(64) and free in %.0f "
             "ns; %s",
             (double)pooled.pool_ns / POOLED_PAIRS, (double)pooled.malloc_ns / POOLED_PAIRS,
             pooled.is_right ? "no blocks overlap" : "blocks are wrong");
    return status;
}
