/* Segments at the end of a trace: see export_segments.h and ranges.h.
 *
 * Addresses are below 2^56; above is the number of the device, so that one pass over all ranges
 * serves all devices. */
#include "export_segments.h"

#include <stdlib.h>

#include "cli.h"
#include "ranges.h"

#define SEGMENT_ADDRESSES (UINT64_C(1) << 56)

enum { SEGMENT_PAGE = 2 << 20 }; /* drivers map memory in such pages */

static uint64_t segment_key(uint8_t device, uint64_t address) {
    return (uint64_t)device << 56 | address % SEGMENT_ADDRESSES;
}

static bool note_maps(const struct event *event) {
    return event->note == EVENT_NOTE_MAP || event->note == EVENT_NOTE_SEGMENT;
}

static bool note_unmaps(const struct event *event) {
    return event->note == EVENT_NOTE_UNMAP || event->note == EVENT_NOTE_SEGMENT_END;
}

static struct range_paint paint_of(uint8_t device, uint64_t address, uint64_t bytes,
                                   uint64_t unit) {
    uint64_t begin = address % SEGMENT_ADDRESSES, left = SEGMENT_ADDRESSES - 1 - begin;
    uint64_t end = begin + (bytes < left ? bytes : left);
    begin -= begin % unit;
    end += end % unit && SEGMENT_ADDRESSES - 1 - end >= unit ? unit - end % unit : 0;
    return (struct range_paint){segment_key(device, begin), segment_key(device, end), true};
}

/* Paints the ranges: the last event about an address decides. `events_of` gets the event of each
 * paint; NULL for a block. */
static size_t paints_make(const struct events *events, struct range_paint *paints,
                          const struct event **events_of) {
    size_t count = 0;
    for (size_t i = events->count; i-- > 0;) {
        const struct event *event = &events->list[i];
        if (event->kind == EVENT_OTHER && (note_maps(event) || note_unmaps(event))) {
            events_of[count] = event;
            paints[count] = paint_of(event->device, event->address, event->bytes, 1);
            paints[count++].is_mapped = note_maps(event);
        }
    }
    for (size_t i = 0; i < events->count; i++) {
        const struct event *event = &events->list[i];
        if (event->kind == EVENT_ALLOC || event->kind == EVENT_REALLOC) {
            events_of[count] = NULL;
            paints[count++] = paint_of(event->device, event->address, event->bytes, SEGMENT_PAGE);
        }
    }
    return count;
}

/* Adds a range to a list that has room for it, and returns the new count. Mapped pages of a stream
 * next to each other are one segment; a segment that the allocator got in one piece stays one. */
static size_t segment_add(struct export_segment *list, size_t count, const struct range *range,
                          const struct event *event) {
    struct export_segment *last = &list[count ? count - 1 : 0];
    struct export_segment next = {.address = range->begin % SEGMENT_ADDRESSES,
                                  .bytes = range->end - range->begin,
                                  .stream = event ? event->stream : 0,
                                  .device = (uint8_t)(range->begin >> 56),
                                  .is_pages = !event || event->note == EVENT_NOTE_MAP};
    if (count && last->is_pages && next.is_pages && last->device == next.device &&
        last->stream == next.stream && last->address + last->bytes == next.address) {
        last->bytes += next.bytes;
        return count;
    }
    list[count] = next;
    return count + 1;
}

static int block_compare(const void *a, const void *b) {
    const struct export_block *x = a, *y = b;
    uint64_t p = segment_key(x->device, x->address), q = segment_key(y->device, y->address);
    return (p > q) - (p < q);
}

/* Collects the blocks that are live at the end, sorted. */
static void blocks_collect(const struct events *events, struct export_segments *segments) {
    struct export_block *blocks = cli_alloc(events->blocks * sizeof *blocks), ended;
    for (size_t i = 0; i < events->count; i++) {
        if (events->list[i].kind != EVENT_OTHER) {
            export_apply(events, &events->list[i], blocks, &ended);
        }
    }
    for (size_t i = 0; i < events->blocks; i++) {
        if (blocks[i].bytes) {
            blocks[segments->block_count++] = blocks[i];
        }
    }
    if (segments->block_count) {
        qsort(blocks, segments->block_count, sizeof *blocks, block_compare);
    }
    segments->blocks = blocks;
}

/* Assigns the blocks to segments. A block that is not within one, or that overlaps another, is left
 * out: such a trace is damaged. */
static void blocks_assign(struct export_segments *segments) {
    size_t at = 0, kept = 0;
    for (size_t i = 0; i < segments->count; i++) {
        struct export_segment *segment = &segments->list[i];
        uint64_t begin = segment_key(segment->device, segment->address);
        uint64_t free_from = begin, end = begin + segment->bytes;
        segment->first = kept;
        for (; at < segments->block_count; at++) {
            struct export_block block = segments->blocks[at];
            uint64_t key = segment_key(block.device, block.address);
            if (key >= end) {
                break;
            }
            if (key >= free_from && block.bytes <= end - key) {
                segments->blocks[kept++] = block;
                segment->live_bytes += block.bytes;
                free_from = key + block.bytes;
            }
        }
        segment->count = kept - segment->first;
    }
    segments->block_count = kept;
}

void export_segments_find(const struct events *events, struct export_segments *segments) {
    struct range_paint *paints = cli_alloc(events->count * sizeof *paints);
    const struct event **events_of = cli_alloc(events->count * sizeof(void *));
    struct range *ranges;
    *segments = (struct export_segments){0};
    size_t found = ranges_paint(paints, paints_make(events, paints, events_of), &ranges);
    struct export_segment *list = cli_alloc(found * sizeof *list);
    for (size_t i = 0; i < found; i++) {
        segments->count =
            segment_add(list, segments->count, &ranges[i], events_of[ranges[i].owner]);
    }
    segments->list = list;
    free(ranges);
    free(paints);
    free(events_of);
    blocks_collect(events, segments);
    blocks_assign(segments);
}

void export_segments_free(struct export_segments *segments) {
    free(segments->list);
    free(segments->blocks);
    *segments = (struct export_segments){0};
}
