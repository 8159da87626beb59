/* Measures the bandwidth of copies on a device, for `acre info --measure` and `acre demo`.
 *
 * Each direction is measured for about a tenth of a second, in batches of copies with one wait per
 * batch. The result is the median batch. That is short enough for an interactive command; the suite
 * `copy` of acre bench measures more precisely. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum { LINK_BATCH = 4, LINK_BATCHES = 9 };

#define LINK_BYTES (UINT64_C(64) << 20)
#define LINK_LEAST_BYTES UINT64_C(65536)
#define LINK_WAY_NS UINT64_C(100000000)

/* The objects of a measurement; all NULL at first. */
struct link {
    acre_device *device;
    size_t bytes;
    acre_stream stream;
    void *pinned, *memory[2];
    uint64_t *pageable;
    const char *doing;
};

#define LINK_TRY(link, what, call)                                                                 \
    do {                                                                                           \
        (link)->doing = (what);                                                                    \
        acre_status link_status = (call);                                                          \
        if (link_status != ACRE_OK) {                                                              \
            return link_status;                                                                    \
        }                                                                                          \
    } while (0)

static int link_compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static acre_status link_batch(struct link *link, void *to, const void *from, uint64_t *took_ns) {
    uint64_t begin = cli_now_ns();
    for (int i = 0; i < LINK_BATCH; i++) {
        LINK_TRY(link, "copy on", acre_copy(link->device, to, from, link->bytes, link->stream));
    }
    LINK_TRY(link, "wait for copies on", acre_stream_sync(link->device, link->stream));
    *took_ns = cli_now_ns() - begin;
    return ACRE_OK;
}

static acre_status link_way(struct link *link, void *to, const void *from, double *speed) {
    uint64_t times[LINK_BATCHES], begin = cli_now_ns();
    size_t count = 0;
    LINK_TRY(link, link->doing, link_batch(link, to, from, &times[0])); /* warms up */
    do {
        LINK_TRY(link, link->doing, link_batch(link, to, from, &times[count]));
        count++;
    } while (count < LINK_BATCHES && cli_now_ns() - begin < LINK_WAY_NS);
    qsort(times, count, sizeof times[0], link_compare);
    uint64_t median = times[count / 2];
    *speed = LINK_BATCH * (double)link->bytes / (double)median; /* bytes per ns are GB/s */
    return ACRE_OK;
}

/* A pattern that does not repeat, so that a piece at a wrong offset is detected. */
static uint64_t link_word(size_t i) {
    return i * UINT64_C(0x9e3779b97f4a7c15);
}

static acre_status link_pageable(struct link *link, struct cli_link *found) {
    size_t words = link->bytes / sizeof link->pageable[0];
    link->pageable = cli_alloc(link->bytes);
    for (size_t i = 0; i < words; i++) {
        link->pageable[i] = link_word(i);
    }
    LINK_TRY(link, link->doing,
             link_way(link, link->memory[0], link->pageable, &found->pageable_h2d));
    memset(link->pageable, 0, link->bytes);
    LINK_TRY(link, link->doing,
             link_way(link, link->pageable, link->memory[0], &found->pageable_d2h));
    found->is_right = true;
    for (size_t i = 0; i < words; i++) {
        found->is_right = found->is_right && link->pageable[i] == link_word(i);
    }
    return ACRE_OK;
}

static acre_status link_run(struct link *link, bool with_pageable, struct cli_link *found) {
    acre_device *device = link->device;
    acre_device_info info = {.struct_size = sizeof info};
    LINK_TRY(link, "read the properties of", acre_device_get_info(device, &info));
    uint64_t room = info.free_bytes / 4 / LINK_LEAST_BYTES * LINK_LEAST_BYTES;
    room = room > 0 ? room : LINK_LEAST_BYTES; /* if that is too much, the driver reports it */
    link->bytes = room < LINK_BYTES ? room : LINK_BYTES;
    found->bytes = link->bytes;
    LINK_TRY(link, "create a stream on",
             acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &link->stream));
    LINK_TRY(link, "allocate pinned memory for",
             acre_mem_alloc(device, ACRE_KIND_PINNED, link->bytes, 0, &link->pinned));
    for (int i = 0; i < 2; i++) {
        LINK_TRY(link, "allocate memory on",
                 acre_mem_alloc(device, ACRE_KIND_DEVICE, link->bytes, 0, &link->memory[i]));
    }
    memset(link->pinned, 1, link->bytes);
    if (with_pageable) {
        LINK_TRY(link, link->doing, link_pageable(link, found));
    }
    LINK_TRY(link, link->doing, link_way(link, link->memory[0], link->pinned, &found->pinned_h2d));
    LINK_TRY(link, link->doing, link_way(link, link->pinned, link->memory[0], &found->pinned_d2h));
    LINK_TRY(link, link->doing, link_way(link, link->memory[1], link->memory[0], &found->d2d));
    LINK_TRY(link, "free memory of", acre_mem_free(device, link->pinned));
    LINK_TRY(link, "free memory of", acre_mem_free(device, link->memory[0]));
    LINK_TRY(link, "free memory of", acre_mem_free(device, link->memory[1]));
    LINK_TRY(link, "destroy a stream of", acre_stream_destroy(device, link->stream));
    LINK_TRY(link, "trim", acre_trim(device)); /* releases staging buffers */
    return ACRE_OK;
}

acre_status cli_link_measure(acre_device *device, bool with_pageable, struct cli_link *found,
                             const char **doing) {
    struct link link = {.device = device, .doing = "measure"};
    *found = (struct cli_link){0};
    acre_status status = link_run(&link, with_pageable, found);
    free(link.pageable);
    *doing = link.doing;
    return status;
}

json_t *cli_link_json(const struct cli_link *link) {
    json_t *measured = json_object();
    cli_json_set(measured, "unit", cli_json_text("GB/s"));
    cli_json_set(measured, "bytes", cli_json_number(link->bytes));
    cli_json_set(measured, "pinned_h2d", json_real(link->pinned_h2d));
    cli_json_set(measured, "pinned_d2h", json_real(link->pinned_d2h));
    if (link->pageable_h2d > 0) {
        cli_json_set(measured, "pageable_h2d", json_real(link->pageable_h2d));
        cli_json_set(measured, "pageable_d2h", json_real(link->pageable_d2h));
    }
    cli_json_set(measured, "d2d", json_real(link->d2d));
    return measured;
}
