/* The format memory_viz of `acre export`: a memory snapshot as PyTorch writes it, which its page
 * memory_viz and torch.cuda._memory_viz read.
 *
 * Names, frames and lists of frames are written once and recalled from then on, so a stack costs a
 * few bytes for each event. Blocks that were live before the recording have no entry: readers find
 * them in the segments, or when they are freed. */
#include <stdlib.h>

#include "cli.h"
#include "export.h"
#include "export_segments.h"
#include "pickle_write.h"

#define VIZ_KEYS(X)                                                                                \
    X(acre)                                                                                        \
    X(segments)                                                                                    \
    X(device_traces)                                                                               \
    X(allocator_settings)                                                                          \
    X(external_annotations)                                                                        \
    X(action)                                                                                      \
    X(addr)                                                                                        \
    X(device_free)                                                                                 \
    X(size)                                                                                        \
    X(stream)                                                                                      \
    X(time_us)                                                                                     \
    X(user_metadata)                                                                               \
    X(frames)                                                                                      \
    X(name)                                                                                        \
    X(filename)                                                                                    \
    X(line)                                                                                        \
    X(device)                                                                                      \
    X(address)                                                                                     \
    X(total_size)                                                                                  \
    X(allocated_size)                                                                              \
    X(active_size)                                                                                 \
    X(requested_size)                                                                              \
    X(segment_type)                                                                                \
    X(segment_pool_id)                                                                             \
    X(is_expandable)                                                                               \
    X(blocks)                                                                                      \
    X(state)

#define VIZ_KEY(name) VIZ_##name,
enum viz_key { VIZ_KEYS(VIZ_KEY) VIZ_KEY_COUNT };
#define VIZ_NAME(name) #name,
static const char *const viz_names[] = {VIZ_KEYS(VIZ_NAME)};

/* Words that are values. */
enum viz_word {
    VIZ_ALLOC,
    VIZ_FREE_REQUESTED,
    VIZ_FREE_COMPLETED,
    VIZ_SEGMENT_ALLOC,
    VIZ_SEGMENT_FREE,
    VIZ_SEGMENT_MAP,
    VIZ_SEGMENT_UNMAP,
    VIZ_OOM,
    VIZ_USER_DEFINED,
    VIZ_ACTIVE,
    VIZ_INACTIVE,
    VIZ_LARGE,
    VIZ_EMPTY,
    VIZ_WORD_COUNT
};
static const char *const viz_words[] = {"alloc",
                                        "free_requested",
                                        "free_completed",
                                        "segment_alloc",
                                        "segment_free",
                                        "segment_map",
                                        "segment_unmap",
                                        "oom",
                                        "user_defined",
                                        "active_allocated",
                                        "inactive",
                                        "large",
                                        ""};

struct viz {
    struct pickle_writer writer;
    const struct events *events;
    uint32_t keys[VIZ_KEY_COUNT], words[VIZ_WORD_COUNT], no_frames; /* memos */
    uint32_t *texts, *tags, *frames, *stacks, *tag_frames;
};

static void viz_key(struct viz *viz, enum viz_key key) {
    pickle_put_shared(&viz->writer, viz_names[key], &viz->keys[key]);
}

static void viz_number(struct viz *viz, enum viz_key key, uint64_t number) {
    viz_key(viz, key);
    pickle_put_number(&viz->writer, number);
}

static void viz_word(struct viz *viz, enum viz_key key, enum viz_word word) {
    viz_key(viz, key);
    pickle_put_shared(&viz->writer, viz_words[word], &viz->words[word]);
}

static void dict_begin(struct viz *viz) {
    pickle_put(&viz->writer, PICKLE_EMPTY_DICT);
    pickle_put(&viz->writer, PICKLE_MARK);
}

static void dict_end(struct viz *viz) {
    pickle_put(&viz->writer, PICKLE_SETITEMS);
}

/* ---- frames ---- */

static void viz_text(struct viz *viz, enum viz_key key, uint32_t text) {
    if (text) {
        viz_key(viz, key);
        pickle_put_shared(&viz->writer, viz->events->texts[text - 1], &viz->texts[text - 1]);
    } else {
        viz_word(viz, key, VIZ_EMPTY);
    }
}

static void viz_frame(struct viz *viz, uint32_t index) {
    const struct event_frame *frame = &viz->events->frames[index];
    if (viz->frames[index]) {
        pickle_recall(&viz->writer, viz->frames[index]);
        return;
    }
    dict_begin(viz);
    viz_text(viz, VIZ_name, frame->name);
    viz_text(viz, VIZ_filename, frame->file);
    viz_number(viz, VIZ_line, frame->line);
    dict_end(viz);
    pickle_remember(&viz->writer, &viz->frames[index]);
}

/* Writes a list with one frame that is a tag, for a block without a stack. */
static void viz_tag_frame(struct viz *viz, uint32_t tag) {
    pickle_put(&viz->writer, PICKLE_EMPTY_LIST);
    dict_begin(viz);
    viz_key(viz, VIZ_name);
    pickle_put_shared(&viz->writer, export_tag(viz->events, tag), &viz->tags[tag - 1]);
    viz_word(viz, VIZ_filename, VIZ_EMPTY);
    viz_number(viz, VIZ_line, 0);
    dict_end(viz);
    pickle_put(&viz->writer, PICKLE_APPEND);
}

static void viz_stack(struct viz *viz, uint32_t stack, uint32_t tag) {
    uint32_t *memo = stack ? &viz->stacks[stack - 1]
                     : tag ? &viz->tag_frames[tag - 1]
                           : &viz->no_frames;
    viz_key(viz, VIZ_frames);
    if (*memo) {
        pickle_recall(&viz->writer, *memo);
        return;
    }
    if (!stack && tag) {
        viz_tag_frame(viz, tag);
    } else {
        pickle_put(&viz->writer, PICKLE_EMPTY_LIST);
    }
    for (uint32_t i = 0; stack && i < viz->events->stacks[stack - 1].count; i++) {
        pickle_list_item(&viz->writer, i);
        viz_frame(viz, viz->events->stack_frames[viz->events->stacks[stack - 1].first + i]);
    }
    pickle_list_end(&viz->writer, stack ? viz->events->stacks[stack - 1].count : 0);
    pickle_remember(&viz->writer, memo);
}

/* ---- entries of the traces ---- */

static void viz_entry(struct viz *viz, const struct event *event, enum viz_word action,
                      uint64_t address, uint64_t bytes) {
    const struct events *events = viz->events;
    bool is_alloc = action == VIZ_ALLOC;
    dict_begin(viz);
    viz_word(viz, VIZ_action, action);
    viz_number(viz, action == VIZ_OOM ? VIZ_device_free : VIZ_addr, address);
    viz_number(viz, VIZ_size, bytes);
    viz_number(viz, VIZ_stream, export_stream(events, event));
    viz_number(viz, VIZ_time_us, events->start_real_ns / 1000 + event->time_ns / 1000);
    if (is_alloc && event->tag) {
        viz_key(viz, VIZ_user_metadata);
        pickle_put_shared(&viz->writer, export_tag(events, event->tag), &viz->tags[event->tag - 1]);
    } else {
        viz_text(viz, VIZ_user_metadata, event->note == EVENT_NOTE_MARK ? event->text : 0);
    }
    viz_stack(viz, event->stack, is_alloc ? event->tag : 0);
    dict_end(viz);
}

/* Writes an entry for an EVENT_OTHER. Returns the number of entries. */
static size_t viz_note(struct viz *viz, const struct event *event, size_t index) {
    static const enum viz_word actions[] = {
        [EVENT_NOTE_MARK] = VIZ_USER_DEFINED,     [EVENT_NOTE_REFUSED] = VIZ_OOM,
        [EVENT_NOTE_MAP] = VIZ_SEGMENT_MAP,       [EVENT_NOTE_UNMAP] = VIZ_SEGMENT_UNMAP,
        [EVENT_NOTE_SEGMENT] = VIZ_SEGMENT_ALLOC, [EVENT_NOTE_SEGMENT_END] = VIZ_SEGMENT_FREE};
    bool is_range = event->note >= EVENT_NOTE_MAP;
    if (event->note == EVENT_NOTE_NONE || event->note == EVENT_NOTE_CREATE ||
        event->note == EVENT_NOTE_RELEASE || (is_range && event->bytes == 0)) {
        return 0;
    }
    pickle_list_item(&viz->writer, index);
    viz_entry(viz, event, actions[event->note], event->address, event->bytes);
    return 1;
}

/* Writes the list of one device. */
static void viz_trace(struct viz *viz, uint8_t device) {
    const struct events *events = viz->events;
    struct export_block *blocks = cli_alloc(events->blocks * sizeof *blocks), ended;
    size_t count = 0;
    pickle_put(&viz->writer, PICKLE_EMPTY_LIST);
    for (size_t i = 0; i < events->count; i++) {
        const struct event *event = &events->list[i];
        if (event->device != device) {
            continue;
        }
        if (event->kind == EVENT_OTHER) {
            count += event->is_before ? 0 : viz_note(viz, event, count);
            continue;
        }
        export_apply(events, event, blocks, &ended);
        if (ended.bytes) {
            pickle_list_item(&viz->writer, count++);
            viz_entry(viz, event, VIZ_FREE_REQUESTED, ended.address, ended.bytes);
            pickle_list_item(&viz->writer, count++);
            viz_entry(viz, event, VIZ_FREE_COMPLETED, ended.address, ended.bytes);
        }
        if (event->kind != EVENT_FREE && !event->is_before) {
            pickle_list_item(&viz->writer, count++);
            viz_entry(viz, event, VIZ_ALLOC, event->address, event->bytes);
        }
    }
    pickle_list_end(&viz->writer, count);
    free(blocks);
}

/* ---- segments ---- */

static void viz_block(struct viz *viz, size_t index, uint64_t address, uint64_t bytes,
                      const struct export_block *block) {
    pickle_list_item(&viz->writer, index);
    dict_begin(viz);
    viz_number(viz, VIZ_address, address);
    viz_number(viz, VIZ_size, bytes);
    viz_number(viz, VIZ_requested_size, bytes);
    viz_word(viz, VIZ_state, block ? VIZ_ACTIVE : VIZ_INACTIVE);
    viz_stack(viz, block ? block->stack : 0, block ? block->tag : 0);
    dict_end(viz);
}

/* Writes blocks that fill a segment: readers add their sizes to get addresses. */
static void viz_blocks(struct viz *viz, const struct export_segments *segments,
                       const struct export_segment *segment) {
    uint64_t at = segment->address, end = segment->address + segment->bytes;
    size_t count = 0;
    viz_key(viz, VIZ_blocks);
    pickle_put(&viz->writer, PICKLE_EMPTY_LIST);
    for (size_t i = 0; i < segment->count; i++) {
        const struct export_block *block = &segments->blocks[segment->first + i];
        if (block->address > at) {
            viz_block(viz, count++, at, block->address - at, NULL);
        }
        viz_block(viz, count++, block->address, block->bytes, block);
        at = block->address + block->bytes;
    }
    if (at < end) {
        viz_block(viz, count++, at, end - at, NULL);
    }
    pickle_list_end(&viz->writer, count);
}

static void viz_segment(struct viz *viz, const struct export_segments *segments,
                        const struct export_segment *segment) {
    dict_begin(viz);
    viz_number(viz, VIZ_device, segment->device);
    viz_number(viz, VIZ_address, segment->address);
    viz_number(viz, VIZ_total_size, segment->bytes);
    viz_number(viz, VIZ_allocated_size, segment->live_bytes);
    viz_number(viz, VIZ_active_size, segment->live_bytes);
    viz_number(viz, VIZ_requested_size, segment->live_bytes);
    viz_number(viz, VIZ_stream, segment->stream);
    viz_word(viz, VIZ_segment_type, VIZ_LARGE);
    viz_key(viz, VIZ_segment_pool_id);
    pickle_put_number(&viz->writer, 0);
    pickle_put_number(&viz->writer, 0);
    pickle_put(&viz->writer, PICKLE_TUPLE2);
    viz_key(viz, VIZ_is_expandable);
    pickle_put(&viz->writer, segment->is_pages ? PICKLE_NEWTRUE : PICKLE_NEWFALSE);
    viz_stack(viz, 0, 0);
    viz_blocks(viz, segments, segment);
    dict_end(viz);
}

static void viz_segments(struct viz *viz) {
    struct export_segments segments;
    export_segments_find(viz->events, &segments);
    viz_key(viz, VIZ_segments);
    pickle_put(&viz->writer, PICKLE_EMPTY_LIST);
    for (size_t i = 0; i < segments.count; i++) {
        pickle_list_item(&viz->writer, i);
        viz_segment(viz, &segments, &segments.list[i]);
    }
    pickle_list_end(&viz->writer, segments.count);
    export_segments_free(&segments);
}

/* ---- the document ---- */

static void viz_traces(struct viz *viz) {
    uint8_t last = 0;
    bool is_there[256] = {false};
    for (size_t i = 0; i < viz->events->count; i++) {
        uint8_t device = viz->events->list[i].device;
        is_there[device] = true;
        last = device > last ? device : last;
    }
    viz_key(viz, VIZ_device_traces);
    pickle_put(&viz->writer, PICKLE_EMPTY_LIST);
    for (size_t i = 0; i <= last; i++) {
        pickle_list_item(&viz->writer, i);
        if (is_there[i]) {
            viz_trace(viz, (uint8_t)i);
        } else {
            pickle_put(&viz->writer, PICKLE_EMPTY_LIST);
        }
    }
    pickle_list_end(&viz->writer, (size_t)last + 1);
}

void export_memory_viz(FILE *out, const struct export_job *job) {
    const struct events *events = job->events;
    struct viz viz = {.writer = {.out = out},
                      .events = events,
                      .texts = cli_alloc(events->text_count * sizeof(uint32_t)),
                      .tags = cli_alloc(events->tag_count * sizeof(uint32_t)),
                      .tag_frames = cli_alloc(events->tag_count * sizeof(uint32_t)),
                      .frames = cli_alloc(events->frame_count * sizeof(uint32_t)),
                      .stacks = cli_alloc(events->stack_count * sizeof(uint32_t))};
    fputs("\x80\x04", out);
    dict_begin(&viz);
    viz_key(&viz, VIZ_acre);
    char *by = cli_format("written by acre %s", acre_version());
    pickle_put_text(&viz.writer, by);
    free(by);
    viz_segments(&viz);
    viz_traces(&viz);
    viz_key(&viz, VIZ_allocator_settings);
    pickle_put(&viz.writer, PICKLE_EMPTY_DICT);
    viz_key(&viz, VIZ_external_annotations);
    pickle_put(&viz.writer, PICKLE_EMPTY_LIST);
    dict_end(&viz);
    pickle_put(&viz.writer, PICKLE_STOP);
    free(viz.texts);
    free(viz.tags);
    free(viz.tag_frames);
    free(viz.frames);
    free(viz.stacks);
}
