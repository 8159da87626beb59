/* Reads a snapshot of acre (acre_snapshot, `acre snapshot`), JSON of the schema acre-snapshot/1:
 * see events.h.
 *
 * A snapshot has no events, only what is live. So each block is allocated at its age before the
 * end, and those of unknown age at the beginning, with `is_before`. Chunks are mapped at the
 * beginning; chunks that are mapped twice count once. A mark at the end is the moment of the
 * snapshot. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "events.h"
#include "number_map.h"

enum { SNAPSHOT_BYTES = 1 << 28, SNAPSHOT_DEVICES = 64, SNAPSHOT_NAME = 32 };

#define SNAPSHOT_MOST_NS (UINT64_C(1) << 62)

struct snapshot {
    const char *path;
    struct events *events;
    struct number_map stacks; /* by the file's number: that of the stack */
    char devices[SNAPSHOT_DEVICES][SNAPSHOT_NAME];
    size_t device_count;
    uint64_t oldest_ns; /* largest age */
    const char *fault;
};

static uint64_t snapshot_number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) && json_integer_value(value) > 0
               ? (uint64_t)json_integer_value(value)
               : 0;
}

/* Addresses and streams are texts, such as "0x7f0000000000". */
static uint64_t snapshot_address(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    char *end = NULL;
    uint64_t address = text ? strtoull(text, &end, 16) : 0;
    return text && *text && !*end ? address : 0;
}

/* The age of a block; 0 if it is not known. */
static uint64_t snapshot_age_ns(const json_t *block) {
    double seconds = json_number_value(json_object_get(block, "age_seconds"));
    return seconds > 0 && seconds < 1e9 ? (uint64_t)(seconds * 1e9) + 1 : 0;
}

static uint8_t snapshot_device(struct snapshot *snapshot, const json_t *pool) {
    const char *name = json_string_value(json_object_get(pool, "device"));
    size_t i = 0;
    while (i < snapshot->device_count && name && strcmp(snapshot->devices[i], name) != 0) {
        i++;
    }
    if (i == snapshot->device_count && i < SNAPSHOT_DEVICES && name) {
        snprintf(snapshot->devices[snapshot->device_count++], SNAPSHOT_NAME, "%.31s", name);
    }
    return (uint8_t)(i < SNAPSHOT_DEVICES ? i : 0);
}

/* ---- call stacks ---- */

static void snapshot_stack(struct snapshot *snapshot, const json_t *stack) {
    uint32_t frames[EVENTS_STACK_DEPTH];
    const json_t *list = json_object_get(stack, "frames");
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(list) && count < EVENTS_STACK_DEPTH; i++) {
        const json_t *text = json_array_get(list, i);
        struct event_frame frame = {0};
        if (json_is_string(text) && json_string_length(text)) {
            frame.name = events_add_text(snapshot->events, json_string_value(text),
                                         json_string_length(text));
            frames[count] = frame.name ? events_add_frame(snapshot->events, &frame) : 0;
            count += frames[count] != 0;
        }
    }
    uint32_t added = count ? events_add_stack(snapshot->events, frames, count) : 0;
    number_map_set(&snapshot->stacks, snapshot_number(stack, "id"), added);
}

/* ---- pools ---- */

static void snapshot_chunks(struct snapshot *snapshot, const json_t *pool) {
    const json_t *list = json_object_get(pool, "chunks");
    uint8_t device = snapshot_device(snapshot, pool);
    for (size_t i = 0; i < json_array_size(list) && snapshot->events->count < EVENTS_COUNT; i++) {
        const json_t *chunk = json_array_get(list, i);
        uint64_t address = snapshot_address(chunk, "address");
        uint64_t bytes = snapshot_number(chunk, "bytes");
        bool is_ghost = json_is_true(json_object_get(chunk, "is_ghost"));
        if (!address || !bytes || is_ghost) {
            continue;
        }
        for (int note = EVENT_NOTE_CREATE; note <= EVENT_NOTE_MAP; note += 2) {
            struct event *event = events_add(snapshot->events);
            event->kind = EVENT_OTHER;
            event->note = (uint8_t)note; /* created, then mapped */
            event->address = event->id = address;
            event->bytes = bytes;
            event->device = device;
        }
    }
}

static void snapshot_blocks(struct snapshot *snapshot, const json_t *pool) {
    const json_t *list = json_object_get(pool, "blocks");
    uint8_t device = snapshot_device(snapshot, pool);
    for (size_t i = 0; i < json_array_size(list) && snapshot->events->count < EVENTS_COUNT; i++) {
        const json_t *block = json_array_get(list, i);
        const json_t *tag = json_object_get(block, "tag");
        uint64_t address = snapshot_address(block, "address"), age = snapshot_age_ns(block);
        if (!address) {
            snapshot->fault = "a block has no address";
            return;
        }
        struct event *event = events_add(snapshot->events);
        event->kind = EVENT_ALLOC;
        event->id = event->address = address;
        event->bytes = snapshot_number(block, "bytes");
        event->stream = snapshot_address(block, "stream");
        event->time_ns = age; /* before the end, until the times are turned around */
        event->is_before = !age;
        event->device = device;
        event->stack = (uint32_t)number_map_get(&snapshot->stacks, snapshot_number(block, "stack"));
        if (json_is_string(tag) && json_string_length(tag)) {
            event->tag =
                events_add_tag(snapshot->events, json_string_value(tag), json_string_length(tag));
        }
        snapshot->oldest_ns = age > snapshot->oldest_ns ? age : snapshot->oldest_ns;
    }
}

/* ---- the whole ---- */

static int snapshot_order(const void *a, const void *b) {
    const struct event *x = a, *y = b;
    if (x->time_ns != y->time_ns) {
        return x->time_ns < y->time_ns ? -1 : 1;
    }
    return (x->kind == EVENT_ALLOC) - (y->kind == EVENT_ALLOC); /* chunks come first */
}

/* Ages become times, and a mark ends the list. */
static void snapshot_turn(struct snapshot *snapshot, const json_t *root) {
    struct events *events = snapshot->events;
    const char *program = json_string_value(json_object_get(root, "program"));
    char text[200];
    for (size_t i = 0; i < events->count; i++) {
        struct event *event = &events->list[i];
        event->time_ns = event->kind == EVENT_ALLOC && !event->is_before
                             ? snapshot->oldest_ns - event->time_ns
                             : 0;
    }
    if (events->count > 1) {
        qsort(events->list, events->count, sizeof *events->list, snapshot_order);
    }
    struct event *mark = events_add(events);
    mark->kind = EVENT_OTHER;
    mark->note = EVENT_NOTE_MARK;
    mark->time_ns = snapshot->oldest_ns;
    snprintf(text, sizeof text, "snapshot of %.150s", program ? program : "a program");
    mark->text = events_add_text(events, text, strlen(text));
}

static int snapshot_read(struct snapshot *snapshot, const json_t *root) {
    const json_t *pools = json_object_get(root, "pools"), *stacks = json_object_get(root, "stacks");
    if (!json_is_array(pools)) {
        return events_refuse(snapshot->path, 0, 0, "the snapshot has no list of pools");
    }
    for (size_t i = 0; i < json_array_size(stacks); i++) {
        snapshot_stack(snapshot, json_array_get(stacks, i));
    }
    for (size_t i = 0; i < json_array_size(pools) && !snapshot->fault; i++) {
        snapshot_chunks(snapshot, json_array_get(pools, i));
        snapshot_blocks(snapshot, json_array_get(pools, i));
    }
    if (snapshot->fault) {
        return events_refuse(snapshot->path, 0, 0, "%s", snapshot->fault);
    }
    snapshot_turn(snapshot, root);
    return 0;
}

bool events_is_snapshot(const unsigned char *bytes, size_t count) {
    static const char schema[] = "\"acre-snapshot/1\"";
    enum { LOOK = 256 }; /* bytes in which the schema must be */
    return count && bytes[0] == '{' &&
           memmem(bytes, count < LOOK ? count : LOOK, schema, sizeof schema - 1) != NULL;
}

int events_read_snapshot(const char *path, const unsigned char *bytes, size_t count,
                         struct events *events) {
    struct snapshot snapshot = {.path = path, .events = events};
    json_error_t error;
    events->format = "snapshot";
    if (count > SNAPSHOT_BYTES) {
        return events_refuse(path, 0, SNAPSHOT_BYTES, "the snapshot is larger than 256 MiB");
    }
    json_t *root = json_loadb((const char *)bytes, count, 0, &error);
    if (!root) {
        return events_refuse(path, (size_t)(error.line > 0 ? error.line : 1),
                             (size_t)(error.column > 0 ? error.column : 1), "%s", error.text);
    }
    int code = snapshot_read(&snapshot, root);
    number_map_free(&snapshot.stacks);
    json_decref(root);
    return code;
}
