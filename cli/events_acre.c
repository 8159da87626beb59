/* Converts acre's own trace to events: see events.h and trace_decode.h.
 *
 * Blocks have unique numbers, so that a reused address is a different block. Records that are not
 * replayed (chunks, waits, refusals, frees of blocks from before the trace) become EVENT_OTHER.
 * While the trace is read, the stack of an event is the trace's number; add_stacks converts it. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "events.h"
#include "number_map.h"
#include "trace_decode.h"
#include "trace_stack.h"

enum { ACRE_PER_THREAD = 2 }; /* CUDA's handle of the per-thread default stream */

struct acre_reading {
    struct trace_reader reader;
    struct events *events;
    uint64_t blocks;          /* the largest block number so far */
    uint32_t *tags;           /* the trace's numbers of events->tag_names */
    struct number_map chunks; /* bytes of physical memory, by the number of the chunk */
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

/* ---- stacks ---- */

struct acre_stacks {
    struct events *events;
    const struct trace_reader *reader;
    struct number_map names, modules; /* of the trace: index of the name from 1, by number */
    struct number_map frames, files;  /* numbers of events, by module and offset; by module */
};

enum { ACRE_OFFSET_BITS = 40 }; /* a file of 1 TiB; module numbers have the rest */

static uint32_t frame_of(struct acre_stacks *s, uint64_t module, uint64_t offset) {
    if (offset >> ACRE_OFFSET_BITS || module >> (64 - ACRE_OFFSET_BITS)) {
        return 0;
    }
    uint64_t key = module << ACRE_OFFSET_BITS | offset, known = number_map_get(&s->frames, key);
    uint64_t named = number_map_get(&s->modules, module);
    if (known || !named) {
        return (uint32_t)known;
    }
    uint64_t file = number_map_get(&s->files, module);
    if (!file) {
        const struct trace_name *name = &s->reader->names[named - 1];
        file = events_add_text(s->events, name->text, name->bytes);
        number_map_set(&s->files, module, file);
    }
    struct event_frame frame = {.file = (uint32_t)file, .line = offset, .is_module = true};
    known = file ? events_add_frame(s->events, &frame) : 0;
    number_map_set(&s->frames, key, known);
    return (uint32_t)known;
}

static uint32_t stack_of(struct acre_stacks *s, const struct trace_name *name) {
    uint32_t frames[EVENTS_STACK_DEPTH], frame;
    const char *at = name->text, *end = name->text + name->bytes;
    size_t count = 0;
    uint64_t module, offset;
    while (count < EVENTS_STACK_DEPTH && trace_stack_next(&at, end, &module, &offset)) {
        frame = frame_of(s, module, offset);
        if (frame) {
            frames[count++] = frame;
        }
    }
    return events_add_stack(s->events, frames, count);
}

/* Replaces the trace's numbers of stacks by those of events. */
static void add_stacks(struct events *events, const struct trace_reader *reader) {
    struct acre_stacks s = {.events = events, .reader = reader};
    struct number_map known = {0};
    for (size_t i = 0; i < reader->name_count; i++) {
        const struct trace_name *name = &reader->names[i];
        if (name->kind == ACRE__TRACE_STACK || name->kind == ACRE__TRACE_MODULE_NAME) {
            number_map_set(name->kind == ACRE__TRACE_STACK ? &s.names : &s.modules, name->number,
                           i + 1);
        }
    }
    for (size_t i = 0; i < events->count; i++) {
        uint32_t *stack = &events->list[i].stack;
        uint64_t named = *stack ? number_map_get(&s.names, *stack) : 0;
        uint64_t number = named ? number_map_get(&known, named) : 0;
        if (named && !number) {
            uint32_t added = stack_of(&s, &reader->names[named - 1]);
            number = added ? added : UINT32_MAX;
            number_map_set(&known, named, number);
        }
        *stack = number == UINT32_MAX ? 0 : (uint32_t)number;
    }
    number_map_free(&known);
    number_map_free(&s.names);
    number_map_free(&s.modules);
    number_map_free(&s.frames);
    number_map_free(&s.files);
}

/* ---- events ---- */

/* Says what an event is that is not replayed. */
static void add_note(struct acre_reading *r, const struct trace_record *record,
                     struct event *event) {
    static const uint8_t notes[ACRE__TRACE_KINDS] = {
        [ACRE__TRACE_MARK] = EVENT_NOTE_MARK,
        [ACRE__TRACE_REFUSED] = EVENT_NOTE_REFUSED,
        [ACRE__TRACE_CHUNK_CREATE] = EVENT_NOTE_CREATE,
        [ACRE__TRACE_CHUNK_RELEASE] = EVENT_NOTE_RELEASE,
        [ACRE__TRACE_CHUNK_MAP] = EVENT_NOTE_MAP,
        [ACRE__TRACE_CHUNK_UNMAP] = EVENT_NOTE_UNMAP};
    event->note = notes[record->kind];
    event->bytes = event->note ? record->bytes : 0;
    if (event->note == EVENT_NOTE_MARK) {
        event->text = events_add_text(r->events, record->text, record->text_bytes);
    } else if (event->note == EVENT_NOTE_CREATE) {
        number_map_set(&r->chunks, record->number, record->bytes);
    } else if (event->note == EVENT_NOTE_RELEASE && record->bytes == 0) {
        event->bytes = number_map_get(&r->chunks, record->number); /* not every release has bytes */
    } else if (event->note == EVENT_NOTE_MAP || event->note == EVENT_NOTE_UNMAP) {
        event->address = record->address;
    }
}

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
        add_note(r, record, event);
        return;
    }
    event->address = record->address;
    event->stack = kind == EVENT_FREE ? 0 : record->stack;
    event->id = record->id;
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
        if (events->count == EVENTS_COUNT) {
            r.reader.fault = (struct trace_fault){record.offset, "more than 2^26 events"};
            break;
        }
        add_record(&r, &record);
    }
    struct trace_fault fault = r.reader.fault;
    events->start_real_ns = ok ? r.reader.header.start_real_ns : 0;
    add_stacks(events, &r.reader);
    trace_close(&r.reader);
    free(r.tags);
    number_map_free(&r.chunks);
    events->format = "acre";
    return fault.what ? events_refuse(path, 0, fault.offset, "%s", fault.what) : CLI_OK;
}
