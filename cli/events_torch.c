/* Reads a memory snapshot of PyTorch (torch.cuda.memory._dump_snapshot): see events.h and pickle.h.
 *
 * A snapshot is a dictionary. `device_traces` has a list of entries for each device, the last ones
 * before the snapshot; `segments` has the memory of the allocator at the end. What was live before
 * the first entry is not recorded. It follows from the rest: blocks that are freed but never
 * allocated, and blocks that are live at the end without an entry. These come first, at the time of
 * the first entry, with `is_before`. The same holds for segments.
 *
 * A block is free when the program frees it (free_requested). free_completed, when no stream uses
 * the memory any longer, frees only blocks without a free_requested. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "events.h"
#include "number_map.h"
#include "pickle.h"
#include "ranges.h"

enum {
    TORCH_ENTRIES = 1 << 24, /* as many as a pickle has dictionaries; they can be shared */
    TORCH_DEVICES = 256,
    TORCH_TAG_BYTES = 200
};

#define TORCH_ADDRESSES (UINT64_C(1) << 56) /* addresses are smaller; the device is above */

enum torch_action {
    TORCH_OTHER,
    TORCH_ALLOC,
    TORCH_FREE,
    TORCH_FREE_DONE,
    TORCH_SEGMENT,
    TORCH_SEGMENT_END,
    TORCH_MAP,
    TORCH_UNMAP,
    TORCH_OOM,
    TORCH_MARK
};

struct torch_entry {
    uint64_t dict, time_us;
    uint64_t address, bytes;
    uint32_t order;
    uint8_t device, action;
};

struct torch {
    struct pickle pickle;
    struct events *events;
    struct torch_entry *entries;
    size_t entry_count, entry_room;
    uint64_t start_us;
    uint64_t blocks;          /* numbered so far */
    struct number_map seen;   /* addresses with an entry: 1 */
    struct number_map live;   /* by address: the block's number, from 1 */
    struct number_map texts;  /* by value: the number of the text */
    struct number_map frames; /* by value: the number of the frame, and of the stack, from 1. */
    struct number_map stacks; /* UINT32_MAX: it has none */
    struct number_map tags;   /* by value, as stacks */
    const char *fault;
};

/* ---- values ---- */

static uint64_t torch_number(const struct torch *torch, uint64_t dict, const char *key) {
    uint64_t number = 0;
    pickle_number(&torch->pickle, pickle_get(&torch->pickle, dict, key), &number);
    return number;
}

static bool torch_is(const struct torch *torch, uint64_t value, const char *word) {
    const char *text;
    size_t bytes;
    return pickle_text(&torch->pickle, value, &text, &bytes) && bytes == strlen(word) &&
           memcmp(text, word, bytes) == 0;
}

/* Returns the number of a text. The pickle shares equal texts, so there are few. */
static uint32_t torch_text(struct torch *torch, uint64_t value) {
    const char *text;
    size_t bytes;
    if (!pickle_text(&torch->pickle, value, &text, &bytes)) {
        return 0;
    }
    uint64_t known = number_map_get(&torch->texts, value);
    if (!known) {
        known = events_add_text(torch->events, text, bytes);
        number_map_set(&torch->texts, value, known);
    }
    return (uint32_t)known;
}

static uint32_t torch_frame(struct torch *torch, uint64_t dict) {
    uint64_t known = number_map_get(&torch->frames, dict);
    if (!known) {
        struct event_frame frame = {
            .name = torch_text(torch, pickle_get(&torch->pickle, dict, "name")),
            .file = torch_text(torch, pickle_get(&torch->pickle, dict, "filename")),
            .line = torch_number(torch, dict, "line")};
        uint32_t added = pickle_kind(dict) == PICKLE_DICT && (frame.name || frame.file)
                             ? events_add_frame(torch->events, &frame)
                             : 0;
        known = added ? added : UINT32_MAX;
        number_map_set(&torch->frames, dict, known);
    }
    return known == UINT32_MAX ? 0 : (uint32_t)known;
}

/* Returns the number of the stack in the key "frames". */
static uint32_t torch_stack(struct torch *torch, uint64_t dict) {
    uint32_t frames[EVENTS_STACK_DEPTH];
    uint64_t list = pickle_get(&torch->pickle, dict, "frames");
    uint64_t known = number_map_get(&torch->stacks, list);
    if (!known) {
        size_t length = pickle_length(&torch->pickle, list), count = 0;
        for (size_t i = 0; i < length && count < EVENTS_STACK_DEPTH; i++) {
            uint32_t frame = torch_frame(torch, pickle_item(&torch->pickle, list, i));
            if (frame) {
                frames[count++] = frame;
            }
        }
        uint32_t added = events_add_stack(torch->events, frames, count);
        known = added ? added : UINT32_MAX;
        number_map_set(&torch->stacks, list, known);
    }
    return known == UINT32_MAX ? 0 : (uint32_t)known;
}

/* Returns the tag in the key "user_metadata", which programs set by torch.cuda.memory. */
static uint32_t torch_tag(struct torch *torch, uint64_t dict) {
    uint64_t value = pickle_get(&torch->pickle, dict, "user_metadata");
    const char *text;
    size_t bytes;
    if (!pickle_text(&torch->pickle, value, &text, &bytes) || bytes == 0) {
        return 0;
    }
    uint64_t known = number_map_get(&torch->tags, value);
    if (!known) {
        bytes = bytes > TORCH_TAG_BYTES ? TORCH_TAG_BYTES : bytes;
        uint32_t added = events_add_tag(torch->events, text, bytes);
        known = added ? added : UINT32_MAX;
        number_map_set(&torch->tags, value, known);
    }
    return known == UINT32_MAX ? 0 : (uint32_t)known;
}

/* ---- entries of the traces ---- */

static uint8_t torch_action(const struct torch *torch, uint64_t dict) {
    static const struct {
        const char *name;
        uint8_t action;
    } actions[] = {{"alloc", TORCH_ALLOC},
                   {"free_requested", TORCH_FREE},
                   {"free_completed", TORCH_FREE_DONE},
                   {"free", TORCH_FREE},
                   {"segment_alloc", TORCH_SEGMENT},
                   {"segment_free", TORCH_SEGMENT_END},
                   {"segment_map", TORCH_MAP},
                   {"segment_unmap", TORCH_UNMAP},
                   {"oom", TORCH_OOM},
                   {"snapshot", TORCH_MARK},
                   {"user_defined", TORCH_MARK}};
    uint64_t value = pickle_get(&torch->pickle, dict, "action");
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
        if (torch_is(torch, value, actions[i].name)) {
            return actions[i].action;
        }
    }
    return TORCH_OTHER;
}

static bool torch_room(struct torch *torch, size_t more) {
    if (more > TORCH_ENTRIES - torch->entry_count) {
        torch->fault = "the snapshot has more than 2^24 entries and blocks";
        return false;
    }
    size_t needed = torch->entry_count + more;
    if (needed > torch->entry_room) {
        struct torch_entry *longer = reallocarray(torch->entries, needed, sizeof *longer);
        if (!longer) {
            cli_say("out of memory");
            exit(CLI_CANNOT);
        }
        torch->entries = longer;
        torch->entry_room = needed;
    }
    return true;
}

static bool torch_collect(struct torch *torch, uint64_t list, uint8_t device) {
    size_t length = pickle_length(&torch->pickle, list);
    uint64_t time_us = 0;
    if (!torch_room(torch, length)) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        uint64_t dict = pickle_item(&torch->pickle, list, i);
        uint64_t now_us = torch_number(torch, dict, "time_us");
        time_us = now_us > time_us ? now_us : time_us; /* entries are in order */
        size_t order = torch->entry_count++;
        torch->entries[order] =
            (struct torch_entry){.dict = dict,
                                 .time_us = time_us,
                                 .address = torch_number(torch, dict, "addr") % TORCH_ADDRESSES,
                                 .bytes = torch_number(torch, dict, "size"),
                                 .order = (uint32_t)order,
                                 .device = device,
                                 .action = torch_action(torch, dict)};
    }
    return true;
}

static int entry_compare(const void *a, const void *b) {
    const struct torch_entry *x = a, *y = b;
    if (x->time_us != y->time_us) {
        return x->time_us < y->time_us ? -1 : 1;
    }
    return (x->order > y->order) - (x->order < y->order);
}

/* Collects the entries of all devices, in the order of their times. */
static bool torch_entries(struct torch *torch) {
    uint64_t traces = pickle_get(&torch->pickle, torch->pickle.root, "device_traces");
    size_t devices = pickle_length(&torch->pickle, traces), used = 0;
    for (size_t i = 0; i < devices && i < TORCH_DEVICES; i++) {
        uint64_t list = pickle_item(&torch->pickle, traces, i);
        used += pickle_length(&torch->pickle, list) > 0;
        if (!torch_collect(torch, list, (uint8_t)i)) {
            return false;
        }
    }
    if (used > 1) {
        qsort(torch->entries, torch->entry_count, sizeof *torch->entries, entry_compare);
    }
    torch->start_us = torch->entry_count ? torch->entries[0].time_us : 0;
    return true;
}

/* ---- events ---- */

static uint64_t torch_key(uint8_t device, uint64_t address) {
    return (uint64_t)device << 56 | address % TORCH_ADDRESSES;
}

static struct event *torch_add(struct torch *torch, const struct torch_entry *entry) {
    uint64_t since_us = entry->time_us - torch->start_us;
    struct event *event = events_add(torch->events);
    event->kind = EVENT_OTHER;
    event->time_ns = since_us > UINT64_MAX / 1000 ? UINT64_MAX : since_us * 1000;
    event->address = entry->address;
    event->bytes = entry->bytes;
    event->device = entry->device;
    event->stream = entry->dict ? torch_number(torch, entry->dict, "stream") : 0;
    return event;
}

/* Adds the allocation of a block that was live at the start. */
static void torch_before(struct torch *torch, uint8_t device, uint64_t address, uint64_t bytes,
                         uint64_t dict, uint64_t stream) {
    struct torch_entry entry = {
        .time_us = torch->start_us, .address = address, .bytes = bytes, .device = device};
    struct event *event = torch_add(torch, &entry);
    event->kind = EVENT_ALLOC;
    event->is_before = true;
    event->stream = stream;
    event->id = torch->blocks++;
    event->stack = dict ? torch_stack(torch, dict) : 0;
    number_map_set(&torch->live, torch_key(device, address), torch->blocks);
}

/* Finds the blocks that were live at the start because an entry frees them. */
static void torch_freed_first(struct torch *torch) {
    for (size_t i = 0; i < torch->entry_count; i++) {
        const struct torch_entry *entry = &torch->entries[i];
        bool is_free = entry->action == TORCH_FREE || entry->action == TORCH_FREE_DONE;
        uint64_t key = torch_key(entry->device, entry->address);
        if ((!is_free && entry->action != TORCH_ALLOC) || number_map_get(&torch->seen, key)) {
            continue;
        }
        number_map_set(&torch->seen, key, 1);
        if (is_free) {
            torch_before(torch, entry->device, entry->address, entry->bytes, 0,
                         torch_number(torch, entry->dict, "stream"));
        }
    }
}

/* Finds the blocks of a segment that were live at the start because they are at the end, and no
 * entry is about them. */
static void torch_segment_blocks(struct torch *torch, uint64_t segment, uint8_t device) {
    const struct pickle *pickle = &torch->pickle;
    uint64_t list = pickle_get(pickle, segment, "blocks");
    uint64_t address = torch_number(torch, segment, "address");
    for (size_t i = 0; i < pickle_length(pickle, list); i++) {
        uint64_t dict = pickle_item(pickle, list, i), size = torch_number(torch, dict, "size");
        uint64_t bytes = size;
        pickle_number(pickle, pickle_get(pickle, dict, "address"), &address);
        pickle_number(pickle, pickle_get(pickle, dict, "requested_size"), &bytes);
        uint64_t key = torch_key(device, address);
        if (torch_is(torch, pickle_get(pickle, dict, "state"), "active_allocated") &&
            !number_map_get(&torch->seen, key)) {
            number_map_set(&torch->seen, key, 1);
            torch_before(torch, device, address % TORCH_ADDRESSES, bytes, dict,
                         torch_number(torch, segment, "stream"));
        }
        address += size; /* old snapshots have no addresses of blocks */
    }
}

/* Adds an event of a block, whose kind is still EVENT_OTHER. */
static void torch_block_event(struct torch *torch, const struct torch_entry *entry) {
    uint64_t key = torch_key(entry->device, entry->address);
    uint64_t known = number_map_get(&torch->live, key);
    if (known && entry->action == TORCH_ALLOC) { /* the free in between is missing */
        struct event *missing = torch_add(torch, entry);
        missing->kind = EVENT_FREE;
        missing->id = known - 1;
    }
    struct event *event = torch_add(torch, entry);
    event->stack = torch_stack(torch, entry->dict);
    if (entry->action == TORCH_ALLOC) {
        event->kind = EVENT_ALLOC;
        event->id = torch->blocks++;
        event->tag = torch_tag(torch, entry->dict);
        number_map_set(&torch->live, key, torch->blocks);
    } else if (known) {
        event->kind = EVENT_FREE;
        event->id = known - 1;
        number_map_set(&torch->live, key, 0);
    }
}

static void torch_event(struct torch *torch, const struct torch_entry *entry) {
    static const uint8_t notes[] = {
        [TORCH_SEGMENT] = EVENT_NOTE_SEGMENT, [TORCH_SEGMENT_END] = EVENT_NOTE_SEGMENT_END,
        [TORCH_MAP] = EVENT_NOTE_MAP,         [TORCH_UNMAP] = EVENT_NOTE_UNMAP,
        [TORCH_OOM] = EVENT_NOTE_REFUSED,     [TORCH_MARK] = EVENT_NOTE_MARK};
    if (entry->action == TORCH_ALLOC || entry->action == TORCH_FREE ||
        entry->action == TORCH_FREE_DONE) {
        torch_block_event(torch, entry);
        return;
    }
    struct event *event = torch_add(torch, entry);
    event->note = notes[entry->action];
    if (entry->action == TORCH_MARK) {
        uint64_t value = pickle_get(&torch->pickle, entry->dict, "user_metadata");
        uint32_t text = torch_text(torch, value);
        const char *action;
        size_t bytes;
        if ((!text || !torch->events->texts[text - 1][0]) &&
            pickle_text(&torch->pickle, pickle_get(&torch->pickle, entry->dict, "action"), &action,
                        &bytes)) {
            text = torch_text(torch, pickle_get(&torch->pickle, entry->dict, "action"));
        }
        event->text = text;
    }
}

/* ---- segments ---- */

static void paint_set(struct range_paint *paint, uint8_t device, uint64_t address, uint64_t bytes,
                      bool is_mapped) {
    uint64_t begin = address % TORCH_ADDRESSES, left = TORCH_ADDRESSES - 1 - begin;
    paint->begin = torch_key(device, begin);
    paint->end = paint->begin + (bytes < left ? bytes : left);
    paint->is_mapped = is_mapped;
}

/* Adds the segments that existed at the start: memory whose first entry unmaps it, or that exists
 * at the end and has no entry. */
static void torch_segments_before(struct torch *torch, uint64_t segments) {
    const struct pickle *pickle = &torch->pickle;
    size_t length = pickle_length(pickle, segments), count = 0;
    struct range_paint *paints = cli_alloc((torch->entry_count + length) * sizeof *paints);
    const struct torch_entry **owners = cli_alloc(torch->entry_count * sizeof(void *));
    for (size_t i = 0; i < torch->entry_count; i++) {
        const struct torch_entry *entry = &torch->entries[i];
        bool is_end = entry->action == TORCH_SEGMENT_END || entry->action == TORCH_UNMAP;
        if (is_end || entry->action == TORCH_SEGMENT || entry->action == TORCH_MAP) {
            owners[count] = entry;
            paint_set(&paints[count++], entry->device, entry->address, entry->bytes, is_end);
        }
    }
    size_t from_entries = count;
    for (size_t i = 0; i < length; i++) {
        uint64_t segment = pickle_item(pickle, segments, i);
        paint_set(&paints[count++], (uint8_t)torch_number(torch, segment, "device"),
                  torch_number(torch, segment, "address"),
                  torch_number(torch, segment, "total_size"), true);
    }
    struct range *ranges;
    size_t found = ranges_paint(paints, count, &ranges);
    for (size_t i = 0; i < found; i++) {
        struct torch_entry entry = {.time_us = torch->start_us,
                                    .address = ranges[i].begin % TORCH_ADDRESSES,
                                    .bytes = ranges[i].end - ranges[i].begin,
                                    .device = (uint8_t)(ranges[i].begin >> 56)};
        struct event *event = torch_add(torch, &entry);
        bool is_pages = false;
        if (ranges[i].owner < from_entries) {
            is_pages = owners[ranges[i].owner]->action == TORCH_UNMAP;
            event->stream = torch_number(torch, owners[ranges[i].owner]->dict, "stream");
        } else {
            uint64_t segment = pickle_item(pickle, segments, ranges[i].owner - from_entries);
            is_pages = pickle_is_true(pickle_get(pickle, segment, "is_expandable"));
            event->stream = torch_number(torch, segment, "stream");
        }
        event->note = is_pages ? EVENT_NOTE_MAP : EVENT_NOTE_SEGMENT;
        event->is_before = true;
    }
    free(ranges);
    free(owners);
    free(paints);
}

static bool torch_convert(struct torch *torch) {
    const struct pickle *pickle = &torch->pickle;
    uint64_t segments = pickle_get(pickle, pickle->root, "segments");
    uint64_t traces = pickle_get(pickle, pickle->root, "device_traces");
    if (pickle_kind(segments) != PICKLE_LIST || pickle_kind(traces) != PICKLE_LIST) {
        torch->fault = "the pickle is not a memory snapshot of PyTorch: it has no lists "
                       "'segments' and 'device_traces'; torch.cuda.memory._dump_snapshot "
                       "writes one";
        return false;
    }
    if (!torch_entries(torch)) {
        return false;
    }
    size_t length = pickle_length(pickle, segments), steps = length;
    for (size_t i = 0; i < length && steps <= TORCH_ENTRIES; i++) {
        uint64_t segment = pickle_item(pickle, segments, i);
        steps += pickle_length(pickle, pickle_get(pickle, segment, "blocks"));
    }
    if (steps > TORCH_ENTRIES) {
        torch->fault = "the snapshot has more than 2^24 entries and blocks";
        return false;
    }
    torch_segments_before(torch, segments);
    torch_freed_first(torch);
    for (size_t i = 0; i < length; i++) {
        uint64_t segment = pickle_item(pickle, segments, i);
        torch_segment_blocks(torch, segment, (uint8_t)torch_number(torch, segment, "device"));
    }
    for (size_t i = 0; i < torch->entry_count; i++) {
        torch_event(torch, &torch->entries[i]);
    }
    torch->events->start_real_ns = torch->start_us > UINT64_MAX / 1000 ? 0 : torch->start_us * 1000;
    return true;
}

int events_read_torch(const char *path, const unsigned char *bytes, size_t count,
                      struct events *events) {
    struct torch torch = {.events = events};
    int code = CLI_OK;
    events->format = "torch";
    if (!pickle_read(&torch.pickle, bytes, count)) {
        code = events_refuse(path, 0, torch.pickle.fault_at, "%s", torch.pickle.fault);
    } else if (!torch_convert(&torch)) {
        code = events_refuse(path, 0, 0, "%s", torch.fault);
    }
    pickle_free(&torch.pickle);
    free(torch.entries);
    struct number_map *maps[] = {&torch.seen,   &torch.live,   &torch.texts,
                                 &torch.frames, &torch.stacks, &torch.tags};
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++) {
        number_map_free(maps[i]);
    }
    return code;
}
