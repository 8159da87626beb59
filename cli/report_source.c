/* The events of a report: see report_source.h. */
#include "report_source.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "show_stack.h"
#include "show_text.h"

enum { SOURCE_NAME_BYTES = 1000 }; /* a longer name says nothing more to a reader */

/* ---- opening ---- */

static void source_damage(struct report_source *source, uint64_t byte, const char *what) {
    if (source->damage_count < REPORT_DAMAGES) {
        struct report_damage *damage = &source->damage[source->damage_count++];
        damage->byte = byte;
        snprintf(damage->what, sizeof damage->what, "%s", what);
    }
}

/* Prepares a list of events. Events before a damage are kept. */
static int source_events(struct report_source *source) {
    struct events *events = &source->events;
    char what[EVENTS_WHAT_BYTES];
    int code = events_parse_part(source->name, source->bytes.at, source->bytes.count, events, what);
    if (code == CLI_CANNOT) {
        return CLI_CANNOT;
    }
    if (events_settle(source->name, events)) {
        return CLI_CANNOT;
    }
    if (code) {
        source_damage(source, 0, what);
        cli_say("%s: the report has the %zu events before the damage", source->name, events->count);
    }
    source->format = events->format;
    source->blocks = cli_alloc(events->blocks * sizeof *source->blocks);
    source->first_ns = events->list[0].time_ns;
    for (size_t i = 0; i < events->count; i++) {
        uint64_t time_ns = events->list[i].time_ns;
        source->first_ns = time_ns < source->first_ns ? time_ns : source->first_ns;
    }
    return code ? CLI_FINDING : CLI_OK;
}

int source_open(struct report_source *source, const char *path) {
    *source = (struct report_source){.path = path, .name = file_name(path)};
    int fd, code = trace_file_open(path, &fd, &source->is_written);
    code = code ? code : trace_file_read(source->name, fd, &source->bytes);
    if (code == CLI_CANNOT) {
        return code;
    }
    if (code == CLI_FINDING) {
        source_damage(source, source->bytes.count, "the rest of the file cannot be read");
    }
    int begun = source_begin(source);
    source->damage_at_open = source->damage_count;
    return begun > code ? begun : code;
}

int source_begin(struct report_source *source) {
    if (!trace_is(source->bytes.at, source->bytes.count)) {
        return source_events(source);
    }
    source->is_acre = true;
    source->format = "acre";
    if (!trace_open(&source->reader, source->bytes.at, source->bytes.count)) {
        cli_say("%s: byte %zu: %s", source->name, source->reader.fault.offset,
                source->reader.fault.what);
        return CLI_CANNOT;
    }
    return CLI_OK;
}

void source_close(struct report_source *source) {
    if (source->is_acre) {
        trace_close(&source->reader);
        trace_live_end(&source->chunks);
    }
    events_free(&source->events);
    free(source->blocks);
    free(source->bytes.at);
}

void source_rewind(struct report_source *source) {
    source->next = 0;
    source->is_second = false;
    if (source->is_acre) {
        trace_close(&source->reader);
        trace_live_end(&source->chunks);
        (void)trace_open(&source->reader, source->bytes.at, source->bytes.count);
    } else {
        memset(source->blocks, 0, source->events.blocks * sizeof *source->blocks);
    }
    source->damage_count = source->damage_at_open; /* the damage of the trace is found again */
}

/* ---- steps ---- */

/* Sets `real` of a chunk to its bytes: not every release has them, but its creation has. */
static void chunk_bytes(struct report_source *source, struct trace_record *record) {
    struct trace_block chunk = {.address = record->number, .bytes = record->bytes};
    if (record->kind == ACRE__TRACE_CHUNK_CREATE &&
        !trace_live_find(&source->chunks, record->number) &&
        !trace_live_add(&source->chunks, &chunk)) {
        cli_say("out of memory");
        exit(CLI_CANNOT);
    }
    if (record->kind == ACRE__TRACE_CHUNK_RELEASE) {
        (void)trace_live_remove(&source->chunks, record->number, &chunk);
        record->real = record->bytes ? record->bytes : chunk.bytes;
    }
}

static int acre_next(struct report_source *source, struct report_step *step) {
    struct trace_reader *reader = &source->reader;
    if (!trace_next(reader, &step->record)) {
        return 0;
    }
    enum acre__trace_kind kind = step->record.kind;
    chunk_bytes(source, &step->record);
    bool is_alloc = kind == ACRE__TRACE_ALLOC || kind == ACRE__TRACE_REALLOC;
    step->added = is_alloc ? trace_live_find(&reader->live, step->record.address) : NULL;
    step->freed = step->record.freed.id ? &step->record.freed : NULL;
    return 1;
}

/* An event that is not an allocation. PyTorch gets physical memory and its addresses in one step,
 * which a trace has as two: then it returns 1 the first time. */
static int note_record(struct report_source *source, const struct event *event,
                       struct trace_record *record) {
    bool is_first = !source->is_second;
    source->is_second = false;
    switch (event->note) {
    case EVENT_NOTE_REFUSED:
        record->kind = ACRE__TRACE_REFUSED;
        record->status = ACRE_E_DEVICE_MEMORY;
        return 0;
    case EVENT_NOTE_MARK:
        record->kind = ACRE__TRACE_MARK;
        record->text = event->text ? source->events.texts[event->text - 1] : "";
        record->text_bytes = strlen(record->text);
        return 0;
    case EVENT_NOTE_SEGMENT:
    case EVENT_NOTE_MAP:
        record->kind = is_first ? ACRE__TRACE_CHUNK_CREATE : ACRE__TRACE_CHUNK_MAP;
        return source->is_second = is_first;
    case EVENT_NOTE_SEGMENT_END:
    case EVENT_NOTE_UNMAP:
        record->kind = is_first ? ACRE__TRACE_CHUNK_RELEASE : ACRE__TRACE_CHUNK_UNMAP;
        return source->is_second = is_first;
    default:
        return 0;
    }
}

/* Turns an event into the record that a trace would have had. */
static int events_next(struct report_source *source, struct report_step *step) {
    static const enum acre__trace_kind kinds[] = {[EVENT_ALLOC] = ACRE__TRACE_ALLOC,
                                                  [EVENT_FREE] = ACRE__TRACE_FREE,
                                                  [EVENT_REALLOC] = ACRE__TRACE_REALLOC,
                                                  [EVENT_OTHER] = ACRE__TRACE_NONE};
    if (source->next == source->events.count) {
        return 0;
    }
    const struct event *event = &source->events.list[source->next];
    *step = (struct report_step){.record = {.kind = kinds[event->kind],
                                            .thread = event->thread,
                                            .time_ns = event->time_ns - source->first_ns,
                                            .address = event->address,
                                            .bytes = event->bytes,
                                            .real = event->bytes,
                                            .stream = event->stream,
                                            .tag = event->tag,
                                            .stack = event->stack}};
    if (event->kind == EVENT_OTHER) {
        source->next += !note_record(source, event, &step->record);
        return 1;
    }
    source->next++;
    struct trace_block *block = &source->blocks[event->id];
    step->record.id = event->id + 1;
    step->record.stream = source->events.stream_ids[event->stream];
    if (block->id) {
        step->record.freed = *block;
        step->freed = &step->record.freed;
        block->id = 0;
    }
    if (event->kind != EVENT_FREE) {
        *block = (struct trace_block){.address = event->address,
                                      .id = event->id + 1,
                                      .bytes = event->bytes,
                                      .real = event->bytes,
                                      .time_ns = step->record.time_ns,
                                      .stream = step->record.stream};
        block->keys[TRACE_BY_TAG] = event->tag;
        block->keys[TRACE_BY_STACK] = event->stack;
        step->added = block;
    }
    return 1;
}

int source_next(struct report_source *source, struct report_step *step) {
    if (source->is_acre ? acre_next(source, step) : events_next(source, step)) {
        return 1;
    }
    if (source->is_acre && source->reader.fault.what) {
        source_damage(source, source->reader.fault.offset, source->reader.fault.what);
    }
    return 0;
}

void source_each_live(const struct report_source *source,
                      void (*call)(void *arg, const struct trace_block *block), void *arg) {
    const struct trace_live *live = &source->reader.live;
    for (size_t i = 0; source->is_acre && i < live->room; i++) {
        if (live->table[i].address) {
            call(arg, &live->table[i]);
        }
    }
    for (size_t i = 0; !source->is_acre && i < source->events.blocks; i++) {
        if (source->blocks[i].id) {
            call(arg, &source->blocks[i]);
        }
    }
}

/* ---- names ---- */

char *source_name(const struct report_source *source, enum trace_key key, uint64_t value) {
    if (!source->is_acre) {
        bool is_tag = key == TRACE_BY_TAG && value && value <= source->events.tag_count;
        const char *name = is_tag ? source->events.tag_names[value - 1] : NULL;
        return name ? show_text(name, strnlen(name, SOURCE_NAME_BYTES)) : NULL;
    }
    const struct trace_name *name = trace_name_find(
        &source->reader, key == TRACE_BY_TAG ? ACRE__TRACE_TAG_NAME : ACRE__TRACE_POOL_NAME, value);
    if (!name || !value) {
        return NULL;
    }
    return show_text(name->text, name->bytes < SOURCE_NAME_BYTES ? name->bytes : SOURCE_NAME_BYTES);
}

/* Returns a frame as show_stack_frames does: "main at main.c:14" or "libm.so+0x1d8". */
static char *event_frame_text(const struct events *events, const struct event_frame *frame) {
    const char *name = frame->name ? events->texts[frame->name - 1] : "?";
    const char *file = frame->file ? events->texts[frame->file - 1] : NULL;
    char *text = !file              ? cli_format("%s", name)
                 : frame->is_module ? cli_format("%s+0x%" PRIx64, file, frame->line)
                                    : cli_format("%s at %s:%" PRIu64, name, file, frame->line);
    char *clean = show_text(text, strnlen(text, SOURCE_NAME_BYTES));
    free(text);
    return clean;
}

static size_t event_frames(const struct events *events, uint64_t stack, char **frames,
                           size_t most) {
    if (!stack || stack > events->stack_count) {
        return 0;
    }
    const struct event_stack *from = &events->stacks[stack - 1];
    size_t count = from->count < most ? from->count : most;
    for (size_t i = 0; i < count; i++) {
        const uint32_t frame = events->stack_frames[from->first + i];
        frames[i] = event_frame_text(events, &events->frames[frame]);
    }
    return count;
}

size_t source_frames(const struct report_source *source, uint64_t stack, char **frames,
                     size_t most) {
    char *all[SHOW_STACK_FRAMES];
    if (!source->is_acre) {
        return event_frames(&source->events, stack, frames, most);
    }
    size_t count = stack ? show_stack_frames(&source->reader, stack, all) : 0;
    for (size_t i = 0; i < count; i++) {
        if (i < most) {
            frames[i] = all[i];
        } else {
            free(all[i]);
        }
    }
    return count < most ? count : most;
}
