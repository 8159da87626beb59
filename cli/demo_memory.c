/* Two parts of `acre demo`: one block of every kind of memory, and the bandwidth of copies. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "demo.h"

enum { KINDS_BYTES = 1 << 20, KINDS_PAGE = 4096 };

/* Blocks of every kind; NULL until allocated. */
struct kinds {
    acre_device *device;
    acre_stream stream;
    void *memory, *pinned, *mapped, *managed;
    void *seen;                 /* device address of `mapped` */
    unsigned char *own, *again; /* host memory: registered, pageable */
    const char *doing;
};

#define KINDS_TRY(kinds, what, call)                                                               \
    do {                                                                                           \
        (kinds)->doing = (what);                                                                   \
        acre_status kinds_status = (call);                                                         \
        if (kinds_status != ACRE_OK) {                                                             \
            return kinds_status;                                                                   \
        }                                                                                          \
    } while (0)

static acre_status kinds_make(struct kinds *kinds, bool has_managed) {
    acre_device *device = kinds->device;
    KINDS_TRY(kinds, "create a stream on",
              acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &kinds->stream));
    KINDS_TRY(kinds, "allocate memory on",
              acre_mem_alloc(device, ACRE_KIND_DEVICE, KINDS_BYTES, 0, &kinds->memory));
    KINDS_TRY(kinds, "allocate pinned memory for",
              acre_mem_alloc(device, ACRE_KIND_PINNED, KINDS_BYTES, 0, &kinds->pinned));
    KINDS_TRY(kinds, "allocate mapped memory for",
              acre_mem_alloc(device, ACRE_KIND_MAPPED, KINDS_BYTES, 0, &kinds->mapped));
    KINDS_TRY(kinds, "get the address of mapped memory on",
              acre_mem_device_pointer(device, kinds->mapped, &kinds->seen));
    if (has_managed) {
        KINDS_TRY(kinds, "allocate managed memory on",
                  acre_mem_alloc(device, ACRE_KIND_MANAGED, KINDS_BYTES, 0, &kinds->managed));
    }
    KINDS_TRY(kinds, "register memory for", acre_mem_register(device, kinds->own, KINDS_BYTES, 0));
    return ACRE_OK;
}

/* Copies the bytes from one kind of memory to the next, last to pageable memory. */
static acre_status kinds_use(struct kinds *kinds) {
    acre_device *device = kinds->device;
    void *const stops[] = {kinds->own,  kinds->memory,  kinds->pinned,
                           kinds->seen, kinds->managed, kinds->again};
    const void *from = NULL;
    for (size_t i = 0; i < sizeof stops / sizeof stops[0]; i++) {
        if (stops[i] && from) {
            KINDS_TRY(kinds, "copy on",
                      acre_copy(device, stops[i], from, KINDS_BYTES, kinds->stream));
        }
        if (stops[i] && stops[i] == kinds->managed) {
            KINDS_TRY(
                kinds, "prefetch to",
                acre_mem_prefetch(device, stops[i], KINDS_BYTES, ACRE_PLACE_DEVICE, kinds->stream));
        }
        from = stops[i] ? stops[i] : from;
    }
    KINDS_TRY(kinds, "wait for copies on", acre_stream_sync(device, kinds->stream));
    return ACRE_OK;
}

static acre_status kinds_free(struct kinds *kinds) {
    void *const blocks[] = {kinds->memory, kinds->pinned, kinds->mapped, kinds->managed};
    KINDS_TRY(kinds, "unregister memory of", acre_mem_unregister(kinds->device, kinds->own));
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        KINDS_TRY(kinds, "free memory of", acre_mem_free(kinds->device, blocks[i]));
    }
    KINDS_TRY(kinds, "destroy a stream of", acre_stream_destroy(kinds->device, kinds->stream));
    return ACRE_OK;
}

static acre_status kinds_run(struct kinds *kinds, bool has_managed, acre_device_stats *left) {
    acre_status status = kinds_make(kinds, has_managed);
    if (status == ACRE_OK) {
        status = kinds_use(kinds);
    }
    if (status == ACRE_OK) {
        status = kinds_free(kinds);
    }
    if (status == ACRE_OK) {
        kinds->doing = "read the statistics of";
        status = acre_device_get_stats(kinds->device, left);
    }
    return status;
}

acre_status demo_kinds(acre_device *device, bool has_managed, struct demo_part *part,
                       const char **doing) {
    struct kinds kinds = {.device = device};
    acre_device_stats left = {.struct_size = sizeof left};
    void *own = NULL;
    if (posix_memalign(&own, KINDS_PAGE, KINDS_BYTES) != 0) {
        cli_say("out of memory");
        exit(CLI_CANNOT);
    }
    kinds.own = own;
    kinds.again = cli_alloc(KINDS_BYTES);
    for (size_t i = 0; i < KINDS_BYTES; i++) {
        kinds.own[i] = (unsigned char)(i ^ i >> 8);
    }
    uint64_t begin = cli_now_ns();
    acre_status status = kinds_run(&kinds, has_managed, &left);
    uint64_t end = cli_now_ns();
    *doing = kinds.doing;
    bool whole = memcmp(kinds.own, kinds.again, KINDS_BYTES) == 0;
    bool none_left = left.mem_blocks == 0 && left.mem_registered == 0;
    *part = (struct demo_part){
        .name = "kinds of memory", .ok = whole && none_left, .time_ns = end - begin};
    snprintf(part->text, sizeof part->text,
             "1 MiB copied through registered, device, pinned, mapped%s and pageable memory: %s, "
             "%" PRIu64 " blocks leaked",
             has_managed ? ", managed" : "", whole ? "all bytes correct" : "bytes are wrong",
             left.mem_blocks + left.mem_registered);
    free(kinds.again);
    if (status == ACRE_OK) {
        free(own); /* after a failure it may still be registered */
    }
    return status;
}

acre_status demo_copies(acre_device *device, struct demo_part *part, struct cli_link *link,
                        const char **doing) {
    char text[CLI_NUMBER_BYTES];
    uint64_t begin = cli_now_ns();
    acre_status status = cli_link_measure(device, true, link, doing);
    *part =
        (struct demo_part){.name = "copies", .ok = link->is_right, .time_ns = cli_now_ns() - begin};
    snprintf(part->text, sizeof part->text,
             "%s to the device at %.1f GB/s pinned, %.1f pageable; back at %.1f and %.1f%s",
             cli_bytes(link->bytes, text), link->pinned_h2d, link->pageable_h2d, link->pinned_d2h,
             link->pageable_d2h, link->is_right ? "" : "; bytes are wrong");
    return status;
}
