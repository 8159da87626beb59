/* Walks over events, for the formats of `acre export`: see export.h. */
#include <stdlib.h>

#include "cli.h"
#include "export.h"

#define WALK_BASE (UINT64_C(1) << 40) /* an address that no reader takes for NULL or a number */
#define WALK_MOST (UINT64_C(1) << 62)

enum { WALK_ALIGN = 512 };

bool export_place(struct events *events) {
    bool has_all = true;
    for (size_t i = 0; i < events->count; i++) {
        has_all = has_all && (events->list[i].kind == EVENT_OTHER || events->list[i].address);
    }
    if (has_all) {
        return true;
    }
    uint64_t *addresses = cli_alloc(events->blocks * sizeof *addresses), next = WALK_BASE;
    bool fits = true;
    for (size_t i = 0; i < events->count && fits; i++) {
        struct event *event = &events->list[i];
        if (event->kind == EVENT_ALLOC || event->kind == EVENT_REALLOC) {
            addresses[event->id] = next;
            fits = event->bytes <= WALK_MOST - next;
            next += fits ? (event->bytes + WALK_ALIGN - 1) / WALK_ALIGN * WALK_ALIGN : 0;
        }
        if (event->kind != EVENT_OTHER) {
            event->address = addresses[event->id];
        }
    }
    free(addresses);
    return fits;
}

uint64_t export_stream(const struct events *events, const struct event *event) {
    return event->kind == EVENT_OTHER ? event->stream : events->stream_ids[event->stream];
}

void export_apply(const struct events *events, const struct event *event,
                  struct export_block *blocks, struct export_block *ended) {
    struct export_block *block = &blocks[event->id];
    *ended = *block;
    ended->end_ns = event->time_ns > block->begin_ns ? event->time_ns : block->begin_ns;
    *block = (struct export_block){0};
    if (event->kind != EVENT_FREE) {
        *block = (struct export_block){.address = event->address,
                                       .bytes = event->bytes,
                                       .begin_ns = event->time_ns,
                                       .stream = export_stream(events, event),
                                       .tag = event->tag,
                                       .stack = event->stack,
                                       .device = event->device,
                                       .is_before = event->is_before};
    }
}

size_t export_peak(const struct events *events) {
    struct export_block *blocks = cli_alloc(events->blocks * sizeof *blocks), ended;
    uint64_t live = 0;
    size_t i = 0;
    while (i < events->count) {
        const struct event *event = &events->list[i++];
        if (event->kind == EVENT_OTHER) {
            continue;
        }
        export_apply(events, event, blocks, &ended);
        live += blocks[event->id].bytes - ended.bytes;
        if (live == events->peak_bytes) {
            break;
        }
    }
    free(blocks);
    return i;
}
