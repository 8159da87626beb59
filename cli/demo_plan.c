/* The part of `acre demo` that plans memory: a training step declares all its buffers in advance
 * and acre packs them into one block. The demo uses the buffers as declared and checks that none
 * was overwritten. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "demo.h"

/* The layers run forwards and then backwards, one in each step. */
enum {
    PLANNED_LAYERS = 12,
    PLANNED_STEPS = 2 * PLANNED_LAYERS,
    PLANNED_KINDS = 5, /* for each layer: weights, activations, gradients, two scratch buffers */
    PLANNED_WISHES = PLANNED_LAYERS * PLANNED_KINDS,
    PLANNED_NAME_BYTES = 12,
    PLANNED_KIB = 1024
};

struct planned {
    acre_device *device;
    acre_stream stream;
    acre_plan *plan;
    acre_plan_wish wishes[PLANNED_WISHES];
    char names[PLANNED_WISHES][PLANNED_NAME_BYTES];
    void *blocks[PLANNED_WISHES];
    unsigned char *back; /* as large as the largest wish */
    size_t count;
    bool is_right;
    const char *doing;
};

#define PLANNED_TRY(planned, what, call)                                                           \
    do {                                                                                           \
        (planned)->doing = (what);                                                                 \
        acre_status planned_status = (call);                                                       \
        if (planned_status != ACRE_OK) {                                                           \
            return planned_status;                                                                 \
        }                                                                                          \
    } while (0)

/* ---- requests -------------------------------------------------------------------------------- */

static void planned_wish(struct planned *planned, const char *kind, unsigned layer, uint64_t kib,
                         unsigned first, unsigned last) {
    size_t i = planned->count++;
    snprintf(planned->names[i], PLANNED_NAME_BYTES, "%s%u", kind, layer % 100);
    planned->wishes[i] = (acre_plan_wish){.struct_size = sizeof planned->wishes[i],
                                          .p = &planned->blocks[i],
                                          .name = planned->names[i],
                                          .bytes = kib * PLANNED_KIB,
                                          .first_step = first,
                                          .last_step = last,
                                          .place = ACRE_PLACE_DEVICE,
                                          .flags = ACRE_WISH_STEPS};
}

/* Sizes as in a network for images: every third layer halves the number of points and doubles the
 * weights. */
static void planned_wishes(struct planned *planned) {
    for (unsigned layer = 0; layer < PLANNED_LAYERS; layer++) {
        unsigned third = layer / 3, backward = PLANNED_STEPS - 1 - layer;
        uint64_t points = (384u >> third) + 24u * (layer % 3);
        planned_wish(planned, "weights", layer, 12u << third, 0, PLANNED_STEPS - 1);
        planned_wish(planned, "act", layer, points, layer, backward);
        planned_wish(planned, "grad", layer, points, backward - (layer + 1 < PLANNED_LAYERS),
                     backward);
        planned_wish(planned, "fwd", layer, points + points / 2, layer, layer);
        planned_wish(planned, "bwd", layer, 2 * points, backward, backward);
    }
}

/* ---- the step -------------------------------------------------------------------------------- */

/* Checks that a buffer still has the bytes that were written in its first step. */
static acre_status planned_look(struct planned *planned, size_t index) {
    uint64_t bytes = planned->wishes[index].bytes;
    PLANNED_TRY(
        planned, "copy from a plan on",
        acre_copy(planned->device, planned->back, planned->blocks[index], bytes, planned->stream));
    PLANNED_TRY(planned, "wait for copies on", acre_stream_sync(planned->device, planned->stream));
    for (uint64_t i = 0; i < bytes; i++) {
        planned->is_right = planned->is_right && planned->back[i] == (unsigned char)(index + 1);
    }
    return ACRE_OK;
}

/* Fills each buffer in its first step and checks it in its last step, when all buffers that are
 * live at the same time have been filled. */
static acre_status planned_use(struct planned *planned) {
    for (unsigned step = 0; step < PLANNED_STEPS; step++) {
        for (size_t i = 0; i < planned->count; i++) {
            if (planned->wishes[i].first_step == step) {
                PLANNED_TRY(planned, "fill memory of a plan on",
                            acre_fill(planned->device, planned->blocks[i], (uint8_t)(i + 1),
                                      planned->wishes[i].bytes, planned->stream));
            }
        }
        for (size_t i = 0; i < planned->count; i++) {
            if (planned->wishes[i].last_step == step) {
                PLANNED_TRY(planned, planned->doing, planned_look(planned, i));
            }
        }
    }
    return ACRE_OK;
}

static acre_status planned_run(struct planned *planned, acre_plan_stats *stats) {
    const acre_plan_options options = {.struct_size = sizeof options,
                                       .device_bytes = ACRE_PLAN_AS_NEEDED,
                                       .host_bytes = ACRE_PLAN_AS_NEEDED};
    stats->struct_size = sizeof *stats;
    PLANNED_TRY(planned, "create a stream on",
                acre_stream_create(planned->device, ACRE_STREAM_NON_BLOCKING, &planned->stream));
    PLANNED_TRY(planned, "create a plan on",
                acre_plan_create(planned->device, &options, &planned->plan));
    PLANNED_TRY(planned, "plan memory of",
                acre_plan_want_many(planned->plan, planned->wishes, planned->count, 0));
    PLANNED_TRY(planned, "commit a plan on", acre_plan_commit(planned->plan));
    PLANNED_TRY(planned, "read the statistics of a plan on",
                acre_plan_get_stats(planned->plan, stats));
    PLANNED_TRY(planned, planned->doing, planned_use(planned));
    PLANNED_TRY(planned, "destroy a plan of", acre_plan_destroy(planned->plan));
    PLANNED_TRY(planned, "destroy a stream of",
                acre_stream_destroy(planned->device, planned->stream));
    return ACRE_OK;
}

/* ---- the result ------------------------------------------------------------------------------ */

/* Copies the plan for its picture, with offsets relative to the lowest buffer. */
static void planned_note(const struct planned *planned, const acre_plan_stats *stats,
                         struct demo_plan *found) {
    uintptr_t lowest = UINTPTR_MAX;
    size_t count = planned->count;
    for (size_t i = 0; i < count; i++) {
        uintptr_t at = (uintptr_t)planned->blocks[i];
        lowest = at < lowest ? at : lowest;
    }
    found->wishes = (struct wishes){.format = "demo",
                                    .list = cli_alloc(count * sizeof *found->wishes.list),
                                    .names = cli_alloc(count * sizeof *found->wishes.names),
                                    .count = count,
                                    .room = count,
                                    .text = cli_alloc(sizeof planned->names)};
    memcpy(found->wishes.text, planned->names, sizeof planned->names);
    for (size_t i = 0; i < count; i++) {
        const acre_plan_wish *wish = &planned->wishes[i];
        char *name = found->wishes.text + i * PLANNED_NAME_BYTES;
        uint64_t offset = (uintptr_t)planned->blocks[i] - lowest, end = offset + wish->bytes;
        found->wishes.list[i] = (struct acre__place_buffer){.size = wish->bytes,
                                                            .align = 1,
                                                            .lower = (int64_t)wish->first_step,
                                                            .upper = (int64_t)wish->last_step + 1,
                                                            .offset = offset};
        found->wishes.names[i] = (struct wish_name){.at = name, .length = strlen(name)};
        found->bytes = end > found->bytes ? end : found->bytes;
        found->wanted_bytes += wish->bytes;
    }
    found->bound_bytes = stats->device_bound_bytes;
}

static void planned_tell(const struct demo_plan *found, const struct planned *planned,
                         struct demo_part *part) {
    char text[2][CLI_NUMBER_BYTES];
    snprintf(part->text, sizeof part->text,
             "%zu buffers of %d steps in %s%s; separately %s: %.0f %% saved; %s", planned->count,
             PLANNED_STEPS, cli_bytes(found->bytes, text[0]),
             found->bytes == found->bound_bytes ? ", the lower bound" : "",
             cli_bytes(found->wanted_bytes, text[1]),
             100 * (1 - (double)found->bytes / (double)found->wanted_bytes),
             planned->is_right ? "no byte was overwritten" : "bytes were overwritten");
}

acre_status demo_plan(acre_device *device, struct demo_part *part, struct demo_plan *found,
                      const char **doing) {
    struct planned planned = {.device = device, .is_right = true};
    acre_plan_stats stats = {0};
    uint64_t most = 1, begin = cli_now_ns();
    planned_wishes(&planned);
    for (size_t i = 0; i < planned.count; i++) {
        most = planned.wishes[i].bytes > most ? planned.wishes[i].bytes : most;
    }
    planned.back = cli_alloc(most);
    acre_status status = planned_run(&planned, &stats);
    free(planned.back);
    *doing = planned.doing;
    *part =
        (struct demo_part){.name = "plan", .ok = planned.is_right, .time_ns = cli_now_ns() - begin};
    if (status == ACRE_OK) {
        planned_note(&planned, &stats, found);
        planned_tell(found, &planned, part);
    }
    return status;
}
