/* Converts acre's own trace to events: see events.h and trace_decode.h.
 *
 * Blocks have unique numbers, so that a reused address is a different block. Records that are not
 * replayed (chunks, waits, refusals, frees of blocks from before the trace) become EVENT_OTHER. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "events.h"
#include "trace_decode.h"

enum { ACRE_PER_THREAD = 2 }; /* CUDA's handle of the per-thread default stream */

struct acre_reading {
    struct trace_reader reader;
    struct events *events;
    uint64_t blocks; /* the largest block number so far */
    uint32_t *tags;  /* the trace's numbers of events->tag_names */
};

static uint64_t stream_of(const struct trace_record *record) {
    return record->stream == ACRE_PER_THREAD ? UINT64_C(1) << 63 | record->thread : record->stream;
}

/* ---- tags ---- */

static char *tag_name(const struct trace_reader *reader, uint32_t tag) {
    const struct trace_name *name = trace_name_find(reader, ACRE__TRACE_TAG_NAME, tag);
    return name ? cli_format("%.*s", (int)name->bytes, name->text) : cli_format("tag %u", tag);
}

/* Maps a tag of the trace to the number that events use; adds the tag at its first use. */
static uint32_t tag_of(struct acre_reading *r, uint32_t tag) {
    struct events *events = r->events;
    if (!tag) {
        return 0;
    }
    for (size_t i = events->tag_count; i-- > 0;) {
        if (r->tags[i] == tag) {
            return (uint32_t)(i + 1);
        }
    }
    if (events->tag_count == EVENTS_STREAMS) {
        return 0; /* unlikely in a real program: further tags are dropped */
    }
    size_t count = events->tag_count + 1;
    char **names = cli_alloc(count * sizeof *names);
    uint32_t *tags = cli_alloc(count * sizeof *tags);
    if (count > 1) {
        memcpy(names, events->tag_names, (count - 1) * sizeof *names);
        memcpy(tags, r->tags, (count - 1) * sizeof *tags);
    }
    free(events->tag_names);
    free(r->tags);
    names[count - 1] = tag_name(&r->reader, tag);
    tags[count - 1] = tag;
    events->tag_names = names;
    events->tag_count = count;
    r->tags = tags;
    return (uint32_t)count;
}

/* ---- events ---- */

static void add_record(struct acre_reading *r, const struct trace_record *record) {
    uint8_t kind = EVENT_OTHER;
    switch (record->kind) {
    case ACRE__TRACE_ALLOC:
        kind = EVENT_ALLOC;
        break;
    case ACRE__TRACE_REALLOC: /* a realloc of a block from before the trace becomes an alloc */
        kind = record->id > r->blocks ? EVENT_ALLOC : EVENT_REALLOC;
        break;
    case ACRE__TRACE_FREE:
    case ACRE__TRACE_FREE_AFTER:
        kind = record->id ? EVENT_FREE : EVENT_OTHER;
        break;
    default:
        break;
    }
    struct event *event = events_add(r->events);
    event->kind = kind;
    event->thread = record->thread;
    event->stream = stream_of(record);
    event->time_ns = record->time_ns;
    if (kind == EVENT_OTHER) {
        return;
    }
    event->id = record->id;
    event->address = record->address;
    event->bytes = record->bytes;
    event->tag = kind == EVENT_FREE ? 0 : tag_of(r, record->tag);
    r->blocks = record->id > r->blocks ? record->id : r->blocks;
}

int events_read_acre(const char *path, const unsigned char *bytes, size_t count,
                     struct events *events) {
    struct acre_reading r = {.events = events};
    struct trace_record record;
    int ok = trace_open(&r.reader, bytes, count);
    while (ok && trace_next(&r.reader, &record)) {
        add_record(&r, &record);
    }
    struct trace_fault fault = r.reader.fault;
    trace_close(&r.reader);
    free(r.tags);
    events->format = "acre";
    return fault.what ? events_refuse(path, 0, fault.offset, "%s", fault.what) : CLI_OK;
}
