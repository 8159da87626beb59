/* The part of `acre demo` that grows an array: once in place, and once by copying it to larger
 * blocks, as programs do without virtual memory management. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "demo.h"

enum { GROWN_PROBE_BYTES = 4096 };

static const uint64_t GROWN_FIRST = (uint64_t)2 << 20; /* a chunk */
static const uint64_t GROWN_MOST = (uint64_t)4 << 30;
/* A soft device copies host memory, so larger arrays would take time and show nothing more. */
static const uint64_t GROWN_SOFT_MOST = (uint64_t)64 << 20;

struct grown {
    acre_device *device;
    acre_stream stream;
    acre_vec *vec;
    unsigned char sent[GROWN_PROBE_BYTES], back[GROWN_PROBE_BYTES];
    const char *doing;
};

#define GROWN_TRY(grown, what, call)                                                               \
    do {                                                                                           \
        (grown)->doing = (what);                                                                   \
        acre_status grown_status = (call);                                                         \
        if (grown_status != ACRE_OK) {                                                             \
            return grown_status;                                                                   \
        }                                                                                          \
    } while (0)

/* Chooses sizes by doubling, up to a quarter of free memory: an old and a new block then need at
 * most half of it. */
static void grown_sizes(const acre_device_info *info, struct demo_growth *growth) {
    uint64_t most = strcmp(info->driver, "soft") == 0 ? GROWN_SOFT_MOST : GROWN_MOST;
    uint64_t bytes = GROWN_FIRST;
    most = info->free_bytes / 4 < most ? info->free_bytes / 4 : most;
    growth->count = 0;
    do {
        growth->bytes[growth->count++] = (double)bytes;
        bytes *= 2;
    } while (bytes <= most && growth->count < DEMO_SIZES);
}

/* Grows one array through all sizes. Writes its contents after the first growth and reads them back
 * after the last. */
static acre_status grown_run(struct grown *grown, enum demo_way way, struct demo_growth *growth) {
    acre_vec_options options = {.struct_size = sizeof options,
                                .strategy = way == DEMO_COPYING ? ACRE_VEC_COPY : ACRE_VEC_AUTO};
    double spent = 0;
    if (way == DEMO_COPYING) {
        options.address_bytes = GROWN_FIRST; /* else the first block would be large enough */
    }
    GROWN_TRY(grown, "create a vec on", acre_vec_create(grown->device, 1, &options, &grown->vec));
    for (size_t i = 0; i < growth->count; i++) {
        uint64_t begin = cli_now_ns();
        GROWN_TRY(grown, "grow a vec on",
                  acre_vec_resize(grown->vec, (size_t)growth->bytes[i], grown->stream));
        GROWN_TRY(grown, "wait for a vec on", acre_stream_sync(grown->device, grown->stream));
        spent += (double)(cli_now_ns() - begin);
        growth->ns[way][i] = spent;
        if (i == 0) {
            GROWN_TRY(grown, "copy to a vec on",
                      acre_copy(grown->device, acre_vec_data(grown->vec), grown->sent,
                                sizeof grown->sent, grown->stream));
        }
    }
    memset(grown->back, 0, sizeof grown->back);
    GROWN_TRY(grown, "copy from a vec on",
              acre_copy(grown->device, grown->back, acre_vec_data(grown->vec), sizeof grown->back,
                        grown->stream));
    growth->info[way] = (acre_vec_info){.struct_size = sizeof growth->info[way]};
    GROWN_TRY(grown, "query a vec of", acre_vec_get_info(grown->vec, &growth->info[way]));
    GROWN_TRY(grown, "destroy a vec of", acre_vec_destroy(grown->vec, grown->stream));
    return ACRE_OK;
}

/* Runs each way twice, since the first calls load code and start threads. Trims after each, so that
 * no run reuses cached chunks of the previous one. */
static acre_status grown_all(struct grown *grown, struct demo_growth *growth, bool *is_right) {
    GROWN_TRY(grown, "create a stream on",
              acre_stream_create(grown->device, ACRE_STREAM_NON_BLOCKING, &grown->stream));
    for (int i = 0; i < 2 * DEMO_WAYS; i++) {
        GROWN_TRY(grown, grown->doing, grown_run(grown, (enum demo_way)(i % DEMO_WAYS), growth));
        *is_right = *is_right && memcmp(grown->sent, grown->back, sizeof grown->sent) == 0;
        GROWN_TRY(grown, "trim", acre_trim(grown->device));
    }
    GROWN_TRY(grown, "destroy a stream of", acre_stream_destroy(grown->device, grown->stream));
    return ACRE_OK;
}

static void grown_tell(const struct demo_growth *growth, bool is_right, struct demo_part *part) {
    const acre_vec_info *here = &growth->info[DEMO_IN_PLACE], *there = &growth->info[DEMO_COPYING];
    size_t last = growth->count - 1;
    char top[CLI_NUMBER_BYTES], ours[CLI_NUMBER_BYTES], theirs[CLI_NUMBER_BYTES];
    char copied[2][CLI_NUMBER_BYTES];
    snprintf(part->text, sizeof part->text,
             "2 MiB to %s in %s, %s copied, %s; by copying in %s, %s copied%s",
             cli_bytes((uint64_t)growth->bytes[last], top),
             cli_duration((uint64_t)growth->ns[DEMO_IN_PLACE][last], ours),
             cli_bytes(here->copied_bytes, copied[0]),
             here->moves ? "address changed" : "address unchanged",
             cli_duration((uint64_t)growth->ns[DEMO_COPYING][last], theirs),
             cli_bytes(there->copied_bytes, copied[1]), is_right ? "" : "; bytes are wrong");
}

acre_status demo_grow(acre_device *device, const acre_device_info *info, struct demo_part *part,
                      struct demo_growth *growth, const char **doing) {
    struct grown grown = {.device = device};
    bool is_right = true;
    for (size_t i = 0; i < sizeof grown.sent; i++) {
        grown.sent[i] = (unsigned char)(i * 7 + (i >> 8));
    }
    grown_sizes(info, growth);
    uint64_t begin = cli_now_ns();
    acre_status status = grown_all(&grown, growth, &is_right);
    uint64_t end = cli_now_ns();
    *doing = grown.doing;
    /* Without virtual memory management the device can only copy, which is not a failure. */
    bool is_in_place =
        growth->info[DEMO_IN_PLACE].strategy != ACRE_VEC_VMM ||
        (growth->info[DEMO_IN_PLACE].copied_bytes == 0 && growth->info[DEMO_IN_PLACE].moves == 0);
    *part = (struct demo_part){
        .name = "growing array", .ok = is_right && is_in_place, .time_ns = end - begin};
    if (status == ACRE_OK) {
        grown_tell(growth, is_right, part);
    }
    return status;
}
