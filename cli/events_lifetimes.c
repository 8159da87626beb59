/* Converts lifetimes to events: a block is live from `lower` to before `upper` (wishes.h declares
 * the reader).
 *
 * The events are sorted by time. At equal times frees come first, since a block that ends at a time
 * does not overlap one that begins then. All events are on one stream. */
#include <stdlib.h>

#include "events.h"
#include "wishes.h"

static int life_compare_events(const void *a, const void *b) {
    const struct event *x = a, *y = b;
    if (x->time_ns != y->time_ns) {
        return x->time_ns < y->time_ns ? -1 : 1;
    }
    if (x->kind != y->kind) {
        return x->kind == EVENT_FREE ? -1 : 1;
    }
    return (x->id > y->id) - (x->id < y->id);
}

int events_read_lifetimes(const char *path, const unsigned char *bytes, size_t count,
                          struct events *events) {
    struct wishes wishes;
    int code = wishes_read(path, bytes, count, &wishes);
    if (code) {
        return code;
    }
    events->format = wishes.format;
    for (size_t i = 0; i < wishes.count; i++) {
        const struct acre__place_buffer *buffer = &wishes.list[i];
        *events_add(events) = (struct event){.kind = EVENT_ALLOC,
                                             .id = i,
                                             .bytes = buffer->size,
                                             .time_ns = (uint64_t)buffer->lower};
        *events_add(events) = (struct event){
            .kind = EVENT_FREE, .id = i, .bytes = buffer->size, .time_ns = (uint64_t)buffer->upper};
    }
    wishes_free(&wishes);
    if (events->count) {
        qsort(events->list, events->count, sizeof *events->list, life_compare_events);
    }
    return 0;
}
