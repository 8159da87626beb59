/* The format perfetto of `acre export`: the JSON of Chrome's trace viewer, which Perfetto opens.
 *
 * Each device is a process with counters of its live and physical memory; one more process has a
 * counter for each tag, the largest ones. Blocks are slices from their allocation to their free, as
 * many as the job asks for, the largest first. Marks and failed allocations are instants.
 *
 * A counter has at most two samples in each of a fixed number of intervals: its largest value, at
 * the time when it was reached, and the last one. So the peak is exact, and the size of the file is
 * bounded. Numbers of bytes above 2^53 lose digits in a viewer. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "export.h"

enum {
    PERFETTO_INTERVALS = 1 << 14,
    PERFETTO_TAGS = 32,
    PERFETTO_TAG_PROCESS = 1000, /* devices are processes 1 to 256 */
    PERFETTO_FRAMES = 32,        /* of a slice */
    PERFETTO_INSTANTS = 10000,
    PERFETTO_DEVICES = 256
};

struct perfetto_sample {
    uint64_t time_ns, bytes;
};

struct perfetto_counter {
    uint64_t bytes, peak_bytes;
    uint64_t interval; /* of the samples */
    struct perfetto_sample most, last;
    bool has_sample, is_used;
};

struct perfetto {
    FILE *out;
    const struct export_job *job;
    uint64_t interval_ns;
    bool has_event, has_created; /* has_created: the file says when physical memory is created */
    struct perfetto_counter live[PERFETTO_DEVICES], physical[PERFETTO_DEVICES];
    struct perfetto_counter *tags; /* by tag */
    size_t instants;
};

/* ---- JSON ---- */

/* Writes a string. The text is clean (export_clean). '<' is escaped as well: in a page, the
 * document must not end a script. */
static void json_text(FILE *out, const char *text) {
    putc_unlocked('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') {
            putc_unlocked('\\', out);
            putc_unlocked(*text, out);
        } else if (*text == '<') {
            fputs("\\u003c", out);
        } else {
            putc_unlocked(*text, out);
        }
    }
    putc_unlocked('"', out);
}

/* Begins an event, up to its name. */
static void event_begin(struct perfetto *p, char phase, unsigned process, uint64_t time_ns) {
    fprintf(p->out,
            "%s{\"ph\":\"%c\",\"pid\":%u,\"tid\":0,\"ts\":%" PRIu64 ".%03" PRIu64 ",\"name\":",
            p->has_event ? ",\n" : "\n", phase, process, time_ns / 1000, time_ns % 1000);
    p->has_event = true;
}

static void process_name(struct perfetto *p, unsigned process, const char *name) {
    event_begin(p, 'M', process, 0);
    fputs("\"process_name\",\"args\":{\"name\":", p->out);
    json_text(p->out, name);
    fputs("}}", p->out);
}

/* ---- counters ---- */

static void counter_sample(struct perfetto *p, unsigned process, const char *name,
                           const struct perfetto_sample *sample) {
    event_begin(p, 'C', process, sample->time_ns);
    json_text(p->out, name);
    fprintf(p->out, ",\"args\":{\"bytes\":%" PRIu64 "}}", sample->bytes);
}

/* Writes the samples of an interval. */
static void counter_flush(struct perfetto *p, unsigned process, const char *name,
                          struct perfetto_counter *counter) {
    if (!counter->has_sample) {
        return;
    }
    counter_sample(p, process, name, &counter->most);
    if (counter->last.bytes != counter->most.bytes) {
        counter_sample(p, process, name, &counter->last);
    }
    counter->has_sample = false;
}

/* Changes a counter. `more` and `less` are bytes; a damaged trace may release what it never had. */
static void counter_change(struct perfetto *p, unsigned process, const char *name,
                           struct perfetto_counter *counter, uint64_t time_ns, uint64_t more,
                           uint64_t less) {
    /* Threads may log events slightly out of order: a counter does not go back. */
    time_ns = time_ns > counter->last.time_ns ? time_ns : counter->last.time_ns;
    uint64_t interval = time_ns / p->interval_ns;
    if (counter->has_sample && interval != counter->interval) {
        counter_flush(p, process, name, counter);
    }
    counter->bytes -= less < counter->bytes ? less : counter->bytes;
    counter->bytes += more < UINT64_MAX - counter->bytes ? more : UINT64_MAX - counter->bytes;
    counter->last = (struct perfetto_sample){time_ns, counter->bytes};
    if (!counter->has_sample || counter->bytes > counter->most.bytes) {
        counter->most = counter->last;
    }
    counter->interval = interval;
    counter->has_sample = counter->is_used = true;
}

/* ---- tags ---- */

struct perfetto_rank {
    uint64_t bytes;
    size_t tag;
};

static int rank_compare(const void *a, const void *b) {
    const struct perfetto_rank *x = a, *y = b;
    if (x->bytes != y->bytes) {
        return x->bytes > y->bytes ? -1 : 1;
    }
    return (x->tag > y->tag) - (x->tag < y->tag);
}

/* Chooses the tags that get a counter: those with the largest peaks. */
static void tags_choose(struct perfetto *p) {
    const struct events *events = p->job->events;
    struct export_block *blocks = cli_alloc(events->blocks * sizeof *blocks), ended;
    struct perfetto_rank *ranks = cli_alloc(events->tag_count * sizeof *ranks);
    uint64_t *bytes = cli_alloc((events->tag_count + 1) * sizeof *bytes);
    for (size_t i = 0; i < events->tag_count; i++) {
        ranks[i].tag = i;
    }
    for (size_t i = 0; i < events->count; i++) {
        const struct event *event = &events->list[i];
        if (event->kind == EVENT_OTHER) {
            continue;
        }
        export_apply(events, event, blocks, &ended);
        bytes[ended.tag] -= ended.bytes;
        if (event->kind != EVENT_FREE) {
            uint64_t now = bytes[event->tag] += event->bytes;
            if (event->tag && now > ranks[event->tag - 1].bytes) {
                ranks[event->tag - 1].bytes = now;
            }
        }
    }
    qsort(ranks, events->tag_count, sizeof *ranks, rank_compare);
    for (size_t i = 0; i < events->tag_count && i < PERFETTO_TAGS; i++) {
        p->tags[ranks[i].tag].is_used = true;
    }
    free(blocks);
    free(ranks);
    free(bytes);
}

static void tag_change(struct perfetto *p, uint32_t tag, uint64_t time_ns, uint64_t more,
                       uint64_t less) {
    if (tag && p->tags[tag - 1].is_used) {
        counter_change(p, PERFETTO_TAG_PROCESS, export_tag(p->job->events, tag), &p->tags[tag - 1],
                       time_ns, more, less);
    }
}

/* ---- instants ---- */

static void instant_write(struct perfetto *p, const struct event *event) {
    const struct events *events = p->job->events;
    if (p->instants++ >= PERFETTO_INSTANTS) {
        return;
    }
    event_begin(p, 'i', event->device + 1u, event->time_ns);
    if (event->note == EVENT_NOTE_MARK) {
        json_text(p->out, event->text ? events->texts[event->text - 1] : "mark");
        fputs(",\"cat\":\"mark\",\"s\":\"g\"}", p->out);
        return;
    }
    fprintf(p->out,
            "\"out of memory\",\"cat\":\"failure\",\"s\":\"g\",\"args\":{\"bytes\":%" PRIu64 "}}",
            event->bytes);
}

/* ---- events in their order ---- */

static void other_write(struct perfetto *p, const struct event *event) {
    bool is_more = false, is_less = false;
    switch (event->note) {
    case EVENT_NOTE_MARK:
    case EVENT_NOTE_REFUSED:
        instant_write(p, event);
        return;
    case EVENT_NOTE_CREATE:
        is_more = true;
        break;
    case EVENT_NOTE_RELEASE:
        is_less = true;
        break;
    case EVENT_NOTE_MAP:
    case EVENT_NOTE_SEGMENT:
        is_more = !p->has_created;
        break;
    case EVENT_NOTE_UNMAP:
    case EVENT_NOTE_SEGMENT_END:
        is_less = !p->has_created;
        break;
    default:
        return;
    }
    if (is_more || is_less) {
        counter_change(p, event->device + 1u, "physical", &p->physical[event->device],
                       event->time_ns, is_more ? event->bytes : 0, is_less ? event->bytes : 0);
    }
}

static void counters_write(struct perfetto *p) {
    const struct events *events = p->job->events;
    struct export_block *blocks = cli_alloc(events->blocks * sizeof *blocks), ended;
    for (size_t i = 0; i < events->count; i++) {
        const struct event *event = &events->list[i];
        if (event->kind == EVENT_OTHER) {
            other_write(p, event);
            continue;
        }
        export_apply(events, event, blocks, &ended);
        const struct export_block *block = &blocks[event->id];
        counter_change(p, event->device + 1u, "live", &p->live[event->device], event->time_ns,
                       block->bytes, ended.bytes);
        tag_change(p, ended.tag, event->time_ns, 0, ended.bytes);
        tag_change(p, block->tag, event->time_ns, block->bytes, 0);
    }
    for (unsigned i = 0; i < PERFETTO_DEVICES; i++) {
        counter_flush(p, i + 1, "live", &p->live[i]);
        counter_flush(p, i + 1, "physical", &p->physical[i]);
        if (p->live[i].is_used || p->physical[i].is_used) {
            char *name = cli_format("device %u of %s", i, p->job->source);
            process_name(p, i + 1, name);
            free(name);
        }
    }
    for (size_t i = 0; i < events->tag_count; i++) {
        counter_flush(p, PERFETTO_TAG_PROCESS, events->tag_names[i], &p->tags[i]);
    }
    if (events->tag_count) {
        process_name(p, PERFETTO_TAG_PROCESS, "live by tag");
    }
    free(blocks);
}

/* ---- slices ---- */

/* Blocks that were live, of which the largest are kept: a heap with the smallest at the top. */
struct perfetto_slices {
    struct export_block *heap;
    size_t count, room;
};

static bool slice_is_smaller(const struct export_block *a, const struct export_block *b) {
    return a->bytes != b->bytes ? a->bytes < b->bytes
                                : a->end_ns - a->begin_ns < b->end_ns - b->begin_ns;
}

static void slice_keep(struct perfetto_slices *slices, const struct export_block *block) {
    struct export_block *heap = slices->heap;
    size_t at;
    if (slices->count < slices->room) { /* rises from the end */
        for (at = slices->count++; at && slice_is_smaller(block, &heap[(at - 1) / 2]);) {
            heap[at] = heap[(at - 1) / 2];
            at = (at - 1) / 2;
        }
    } else if (slices->room && slice_is_smaller(&heap[0], block)) { /* sinks from the top */
        for (at = 0;;) {
            size_t child = 2 * at + 1;
            if (child >= slices->count) {
                break;
            }
            child += child + 1 < slices->count && slice_is_smaller(&heap[child + 1], &heap[child]);
            if (!slice_is_smaller(&heap[child], block)) {
                break;
            }
            heap[at] = heap[child];
            at = child;
        }
    } else {
        return;
    }
    heap[at] = *block;
}

static void slice_write(struct perfetto *p, const struct export_block *block, size_t number) {
    const struct events *events = p->job->events;
    const struct event_stack *stack = block->stack ? &events->stacks[block->stack - 1] : NULL;
    char *name = block->tag ? cli_format("%s", export_tag(events, block->tag))
                 : stack ? export_frame(events, &events->frames[events->stack_frames[stack->first]])
                         : cli_format("block");
    event_begin(p, 'b', block->device + 1u, block->begin_ns);
    json_text(p->out, name);
    fprintf(p->out,
            ",\"cat\":\"block\",\"id\":\"%zu\",\"args\":{\"bytes\":%" PRIu64
            ",\"address\":\"0x%" PRIx64 "\",\"stream\":\"0x%" PRIx64 "\",\"stack\":[",
            number, block->bytes, block->address, block->stream);
    for (uint32_t i = 0; stack && i < stack->count && i < PERFETTO_FRAMES; i++) {
        char *frame = export_frame(events, &events->frames[events->stack_frames[stack->first + i]]);
        fputs(i ? "," : "", p->out);
        json_text(p->out, frame);
        free(frame);
    }
    fputs("]}}", p->out);
    event_begin(p, 'e', block->device + 1u, block->end_ns);
    json_text(p->out, name);
    fprintf(p->out, ",\"cat\":\"block\",\"id\":\"%zu\"}", number);
    free(name);
}

static int slice_compare(const void *a, const void *b) {
    const struct export_block *x = a, *y = b;
    if (x->begin_ns != y->begin_ns) {
        return x->begin_ns < y->begin_ns ? -1 : 1;
    }
    return (x->address > y->address) - (x->address < y->address);
}

static void slices_write(struct perfetto *p, uint64_t end_ns) {
    const struct events *events = p->job->events;
    struct export_block *blocks = cli_alloc(events->blocks * sizeof *blocks), ended;
    struct perfetto_slices slices = {.room = p->job->slices};
    slices.room = slices.room < events->count ? slices.room : events->count;
    slices.heap = cli_alloc(slices.room * sizeof *slices.heap);
    for (size_t i = 0; i < events->count; i++) {
        if (events->list[i].kind == EVENT_OTHER) {
            continue;
        }
        export_apply(events, &events->list[i], blocks, &ended);
        if (ended.bytes) {
            slice_keep(&slices, &ended);
        }
    }
    for (size_t i = 0; i < events->blocks; i++) {
        if (blocks[i].bytes) {
            blocks[i].end_ns = end_ns;
            slice_keep(&slices, &blocks[i]);
        }
    }
    if (slices.count) {
        qsort(slices.heap, slices.count, sizeof *slices.heap, slice_compare);
    }
    for (size_t i = 0; i < slices.count; i++) {
        slice_write(p, &slices.heap[i], i + 1);
    }
    free(slices.heap);
    free(blocks);
}

void export_perfetto(FILE *out, const struct export_job *job) {
    const struct events *events = job->events;
    struct perfetto *p = cli_alloc(sizeof *p);
    uint64_t end_ns = 0;
    p->out = out;
    p->job = job;
    p->tags = cli_alloc(events->tag_count * sizeof *p->tags);
    for (size_t i = 0; i < events->count; i++) {
        end_ns = events->list[i].time_ns > end_ns ? events->list[i].time_ns : end_ns;
        p->has_created = p->has_created || events->list[i].note == EVENT_NOTE_CREATE;
    }
    p->interval_ns = end_ns / PERFETTO_INTERVALS + 1;
    tags_choose(p);
    fprintf(out, "{\"otherData\":{\"producer\":\"written by acre %s\",\"source\":", acre_version());
    json_text(out, job->source);
    fputs("},\"displayTimeUnit\":\"ns\",\"traceEvents\":[", out);
    counters_write(p);
    slices_write(p, end_ns);
    fputs("\n]}\n", out);
    free(p->tags);
    free(p);
}
