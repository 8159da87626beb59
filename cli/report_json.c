/* A report as JSON, for its page and for --json; see report.h. Fields that `acre trace --json` has,
 * too, have its names. */
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "frames.h"
#include "report.h"
#include "report_pack.h"
#include "show_stack.h"

static const char *const json_keys[REPORT_KEYS] = {"tag", "stack", "pool", "stream", "size"};

static void set_number(json_t *object, const char *key, uint64_t value) {
    cli_json_set(object, key, cli_json_number(value));
}

/* ---- frames, each once ---- */

struct json_frame {
    char *text;
    size_t index;
};

struct json_frames {
    void *tree; /* struct json_frame, by text */
    json_t *texts, *stacks;
};

static int frame_compare(const void *a, const void *b) {
    return strcmp(((const struct json_frame *)a)->text, ((const struct json_frame *)b)->text);
}

static void frame_free(void *frame) {
    free(((struct json_frame *)frame)->text);
    free(frame);
}

/* Returns the index of a frame. Takes ownership of the text. */
static size_t frame_index(struct json_frames *frames, char *text) {
    struct json_frame *fresh = cli_alloc(sizeof *fresh);
    *fresh = (struct json_frame){text, json_array_size(frames->texts)};
    struct json_frame **found = tsearch(fresh, &frames->tree, frame_compare);
    if (!found) {
        cli_say("out of memory");
        exit(CLI_CANNOT);
    }
    size_t index = (*found)->index;
    if (*found == fresh) {
        cli_json_append(frames->texts, cli_json_text(text));
    } else {
        frame_free(fresh);
    }
    return index;
}

/* Adds the frames of a stack, once. */
static void frames_add(struct json_frames *frames, const struct report_source *source,
                       uint64_t stack) {
    char key[CLI_NUMBER_BYTES], *list[SHOW_STACK_FRAMES];
    snprintf(key, sizeof key, "%llu", (unsigned long long)stack);
    if (!stack || json_object_get(frames->stacks, key)) {
        return;
    }
    json_t *indices = json_array();
    size_t count = source_frames(source, stack, list, SHOW_STACK_FRAMES);
    for (size_t i = 0; i < count; i++) {
        cli_json_append(indices, cli_json_number(frame_index(frames, list[i])));
    }
    cli_json_set(frames->stacks, key, indices);
}

/* ---- tables ---- */

static json_t *json_name(const struct report *report, int key, uint64_t value) {
    char *name = NULL;
    if (key == REPORT_BY_TAG) {
        name = source_name(report->source, TRACE_BY_TAG, value);
    } else if (key == REPORT_BY_POOL) {
        name = source_name(report->source, TRACE_BY_POOL, value);
    }
    json_t *text = name ? cli_json_text(name) : json_null();
    free(name);
    return text;
}

static json_t *json_row(const struct report *report, int key, const struct account *account) {
    json_t *row = json_object();
    set_number(row, "id", account->value);
    cli_json_set(row, "name", json_name(report, key, account->value));
    set_number(row, "peak_bytes", account->peak_bytes);
    set_number(row, "at_peak_bytes", account->at_peak_bytes);
    set_number(row, "at_peak_blocks", account->at_peak_blocks);
    set_number(row, "live_bytes", account->bytes);
    set_number(row, "live_blocks", account->blocks);
    set_number(row, "allocations", account->allocations);
    set_number(row, "allocated_bytes", account->allocated_bytes);
    return row;
}

static json_t *json_table(const struct report *report, int key, struct json_frames *frames) {
    const struct accounts *by = &report->by[key];
    struct account *list = accounts_sorted(by);
    json_t *rows = json_array();
    for (size_t i = 0; i < by->count && i < REPORT_ROWS; i++) {
        cli_json_append(rows, json_row(report, key, &list[i]));
        if (key == REPORT_BY_STACK) {
            frames_add(frames, report->source, list[i].value);
        }
    }
    free(list);
    return rows;
}

/* Streams that only wait have no account of live memory. */
static json_t *json_waits(const struct report *report) {
    struct account *list = accounts_sorted(&report->waits);
    json_t *rows = json_array();
    for (size_t i = 0; i < report->waits.count && i < REPORT_ROWS; i++) {
        json_t *row = json_object();
        set_number(row, "stream", list[i].value);
        set_number(row, "waits", list[i].allocations);
        cli_json_append(rows, row);
    }
    free(list);
    return rows;
}

/* Bytes and blocks by tag and call stack; the last row has all that did not fit. */
static json_t *json_holders(const struct report *report, struct json_frames *frames) {
    struct account *list = accounts_sorted(&report->holders), rest = {0};
    json_t *rows = json_array();
    size_t count = report->holders.count;
    for (size_t i = 0; i < count; i++) {
        const struct account *from = &list[i];
        bool is_rest = i >= REPORT_HOLDERS;
        if (is_rest) {
            rest.at_peak_bytes += from->at_peak_bytes;
            rest.at_peak_blocks += from->at_peak_blocks;
            rest.bytes += from->bytes;
            rest.blocks += from->blocks;
            rest.allocated_bytes += from->allocated_bytes;
            rest.allocations += from->allocations;
            if (i + 1 < count) {
                continue;
            }
            from = &rest;
        } else {
            frames_add(frames, report->source, from->value & UINT32_MAX);
        }
        const uint64_t figures[] = {from->at_peak_bytes, from->at_peak_blocks,  from->bytes,
                                    from->blocks,        from->allocated_bytes, from->allocations};
        json_t *row = json_array();
        cli_json_append(row, is_rest ? json_integer(-1) : cli_json_number(from->value >> 32));
        cli_json_append(row, cli_json_number(from->value & UINT32_MAX));
        for (size_t k = 0; k < sizeof figures / sizeof figures[0]; k++) {
            cli_json_append(row, cli_json_number(figures[k]));
        }
        cli_json_append(rows, row);
    }
    free(list);
    return rows;
}

/* ---- failures and marks ---- */

static json_t *json_failures(const struct report *report) {
    json_t *list = json_array();
    for (size_t i = 0; i < report->failure_count; i++) {
        const struct report_failure *failure = &report->failures[i];
        json_t *item = json_object();
        set_number(item, "time_ns", failure->time_ns);
        set_number(item, "event", failure->event);
        set_number(item, "bytes", failure->bytes);
        set_number(item, "stream", failure->stream);
        set_number(item, "tag", failure->tag);
        cli_json_set(item, "tag_name", json_name(report, REPORT_BY_TAG, failure->tag));
        set_number(item, "stack", failure->stack);
        cli_json_set(item, "call", cli_json_text(failure->is_free ? "free" : "alloc"));
        cli_json_set(item, "status", cli_json_text(acre_status_name((acre_status)failure->status)));
        cli_json_set(item, "text", cli_json_text(acre_status_text((acre_status)failure->status)));
        cli_json_append(list, item);
    }
    return list;
}

static json_t *json_marks(const struct report *report) {
    json_t *list = json_array();
    for (size_t i = 0; i < report->mark_count; i++) {
        json_t *item = json_object();
        set_number(item, "time_ns", report->marks[i].time_ns);
        set_number(item, "event", report->marks[i].event);
        cli_json_set(item, "text", cli_json_text(report->marks[i].text));
        cli_json_append(list, item);
    }
    return list;
}

static json_t *json_damage(const struct report_source *source) {
    json_t *list = json_array();
    for (size_t i = 0; i < source->damage_count; i++) {
        json_t *item = json_object();
        set_number(item, "byte", source->damage[i].byte);
        cli_json_set(item, "what", cli_json_text(source->damage[i].what));
        cli_json_append(list, item);
    }
    return list;
}

static json_t *json_plan(const struct report_plan *plan) {
    json_t *item = json_object();
    if (plan->skipped) {
        cli_json_set(item, "skipped", cli_json_text(plan->skipped));
        return item;
    }
    set_number(item, "bytes", plan->bytes);
    set_number(item, "lower_bound_bytes", plan->lower_bound);
    set_number(item, "buffers", plan->buffers);
    cli_json_set(item, "is_optimal", json_boolean(plan->is_optimal));
    return item;
}

/* ---- samples and blocks ---- */

static json_t *json_level(const struct report *report, const struct report_level *level) {
    const struct report_sample *first = level->list;
    const size_t stride = sizeof *first, count = level->count;
    json_t *item = json_object();
    set_number(item, "events", level->events);
    set_number(item, "count", count);
    if (count == 0) {
        return item;
    }
    cli_json_set(item, "time", pack_column(&first->time_ns, stride, count));
    cli_json_set(item, "event", pack_column(&first->event, stride, count));
    cli_json_set(item, "requested", pack_column(&first->requested, stride, count));
    cli_json_set(item, "real", pack_column(&first->real, stride, count));
    cli_json_set(item, "reserved", pack_column(&first->reserved, stride, count));
    cli_json_set(item, "waits", pack_column(&first->waits, stride, count));
    for (int key = 0; key < REPORT_KEYS; key++) {
        json_t *columns = json_array();
        for (size_t i = 0; report->by[key].count > 1 && i < report->group_count[key]; i++) {
            cli_json_append(columns, pack_column(&first->groups[key][i], stride, count));
        }
        cli_json_set(item, json_keys[key], columns);
    }
    return item;
}

static json_t *json_spans(const struct report_spans *spans, bool is_blocks) {
    const struct report_span *first = spans->list;
    const size_t stride = sizeof *first, count = spans->count;
    json_t *item = json_object();
    set_number(item, "count", count);
    set_number(item, "all", spans->all);
    if (count == 0) {
        return item;
    }
    cli_json_set(item, "begin", pack_column(&first->begin, stride, count));
    cli_json_set(item, "end", pack_column(&first->end, stride, count));
    cli_json_set(item, "begin_ns", pack_column(&first->block.time_ns, stride, count));
    cli_json_set(item, "end_ns", pack_column(&first->end_ns, stride, count));
    cli_json_set(item, "address", pack_column(&first->block.address, stride, count));
    cli_json_set(item, "bytes", pack_column(&first->block.bytes, stride, count));
    if (is_blocks) {
        const uint64_t *keys = first->block.keys;
        cli_json_set(item, "id", pack_column(&first->block.id, stride, count));
        cli_json_set(item, "real", pack_column(&first->block.real, stride, count));
        cli_json_set(item, "stream", pack_column(&first->block.stream, stride, count));
        cli_json_set(item, "tag", pack_column(&keys[TRACE_BY_TAG], stride, count));
        cli_json_set(item, "stack", pack_column(&keys[TRACE_BY_STACK], stride, count));
        cli_json_set(item, "pool", pack_column(&keys[TRACE_BY_POOL], stride, count));
    }
    return item;
}

static void json_whole(const struct report *report, json_t *root) {
    json_t *groups = json_object(), *levels = json_array();
    for (int key = 0; key < REPORT_KEYS; key++) {
        json_t *values = json_array();
        for (size_t i = 0; i < report->group_count[key]; i++) {
            cli_json_append(values, cli_json_number(report->groups[key][i]));
        }
        cli_json_set(groups, json_keys[key], values);
    }
    for (size_t i = 0; i < report->level_count; i++) {
        cli_json_append(levels, json_level(report, &report->levels[i]));
    }
    cli_json_set(root, "groups", groups);
    cli_json_set(root, "levels", levels);
    cli_json_set(root, "blocks", json_spans(&report->blocks, true));
    cli_json_set(root, "mappings", json_spans(&report->mappings, false));
}

/* ---- the whole ---- */

static void json_source(const struct report *report, json_t *root) {
    static const char *const states[] = {"running", "stopped", "full", "failed"};
    const struct report_source *source = report->source;
    const struct acre__trace_header *header = &source->reader.header;
    json_t *kinds = json_object();
    cli_json_set(root, "file", cli_json_text(source->name));
    cli_json_set(root, "format", cli_json_text(source->format));
    cli_json_set(root, "is_written", json_boolean(source->is_written));
    if (source->is_acre) {
        set_number(root, "pid", header->pid);
        set_number(root, "begun_ns", header->start_real_ns);
        set_number(root, "card_bytes", (uint64_t)header->card_mib << 20);
        cli_json_set(root, "state", cli_json_text(states[header->state < 4 ? header->state : 3]));
        cli_json_set(root, "is_ring", json_boolean(header->is_ring != 0));
        cli_json_set(root, "library", cli_json_text(header->library));
        set_number(root, "threads", source->reader.thread_count - source->reader.name_threads);
        set_number(root, "unknown_frees", source->reader.unknown_frees);
        set_number(root, "missing_frees", source->reader.made_up_frees);
    } else {
        set_number(root, "threads", source->events.threads);
    }
    for (int i = 0; i < ACRE__TRACE_KINDS; i++) {
        if (report->kinds[i]) {
            set_number(kinds, i ? trace_kind_name((enum acre__trace_kind)i) : "other",
                       report->kinds[i]);
        }
    }
    cli_json_set(root, "kinds", kinds);
}

static void json_figures(const struct report *report, json_t *root) {
    set_number(root, "events", report->events);
    set_number(root, "steps", report->steps);
    set_number(root, "duration_ns", report->duration_ns);
    set_number(root, "peak_bytes", report->peak_bytes);
    set_number(root, "peak_real_bytes", report->peak_real);
    set_number(root, "peak_ns", report->peak_ns);
    set_number(root, "peak_event", report->peak_event);
    set_number(root, "peak_blocks", report->peak_blocks);
    set_number(root, "live_bytes", report->live_bytes);
    set_number(root, "live_blocks", report->live_blocks);
    set_number(root, "reserved_peak_bytes", report->reserved_peak);
    set_number(root, "reserved_peak_ns", report->reserved_peak_ns);
    set_number(root, "reserved_bytes", report->reserved);
    set_number(root, "created_bytes", report->created);
    set_number(root, "released_bytes", report->released);
    set_number(root, "moved_bytes", report->moved);
    set_number(root, "waits", report->wait_count);
    set_number(root, "failures", report->failures_all);
    cli_json_set(root, "failed", json_failures(report));
    cli_json_set(root, "marks", json_marks(report));
    cli_json_set(root, "damage", json_damage(report->source));
    cli_json_set(root, "plan", json_plan(&report->plan));
}

json_t *report_json(const struct report *report, bool is_whole) {
    json_t *root = cli_json_begin("acre-report/1");
    struct json_frames frames = {.texts = json_array(), .stacks = json_object()};
    char *lead = report_lead(report);
    cli_json_set(root, "lead", cli_json_text(lead));
    free(lead);
    json_source(report, root);
    json_figures(report, root);
    for (int key = 0; key < REPORT_KEYS; key++) {
        char *name = cli_format("by_%s", json_keys[key]),
             *all = cli_format("%s_count", json_keys[key]);
        cli_json_set(root, name, json_table(report, key, &frames));
        set_number(root, all, report->by[key].count);
        free(name);
        free(all);
    }
    cli_json_set(root, "by_wait", json_waits(report));
    cli_json_set(root, "holders", json_holders(report, &frames));
    cli_json_set(root, "frames", frames.texts);
    cli_json_set(root, "stacks", frames.stacks);
    tdestroy(frames.tree, frame_free);
    frames_close();
    if (is_whole) {
        json_whole(report, root);
    }
    return root;
}
