/* Blocks and mappings for the address map of a report; see report.h.
 *
 * A page cannot hold every block of a long trace. It gets those that matter most in a picture of
 * addresses at some instant: bytes times lifetime, and first of all the blocks that are live at the
 * peak or at the end. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "report.h"

/* Blocks at the peak and at the end win over all others of the same kind. */
static const double map_first = 1e12;

struct report_map {
    struct report *report;
    uint64_t event, time_ns;
    uint64_t *begins; /* events, by number of the block */
    size_t room;
    struct trace_live mapped; /* mappings that exist, by address; `id` is their first event + 1 */
};

/* ---- the heaviest spans ---- */

static void spans_sink(struct report_spans *spans, size_t i) {
    for (;;) {
        size_t least = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < spans->count; child++) {
            least = spans->list[child].weight < spans->list[least].weight ? child : least;
        }
        if (least == i) {
            return;
        }
        struct report_span kept = spans->list[i];
        spans->list[i] = spans->list[least];
        spans->list[least] = kept;
        i = least;
    }
}

static void spans_rise(struct report_spans *spans, size_t i) {
    while (i && spans->list[i].weight < spans->list[(i - 1) / 2].weight) {
        struct report_span kept = spans->list[i];
        spans->list[i] = spans->list[(i - 1) / 2];
        spans->list[(i - 1) / 2] = kept;
        i = (i - 1) / 2;
    }
}

void spans_add(struct report_spans *spans, const struct report_span *span) {
    spans->all++;
    if (!spans->list) {
        spans->list = cli_alloc(spans->most * sizeof *spans->list);
    }
    if (spans->count < spans->most) {
        spans->list[spans->count] = *span;
        spans_rise(spans, spans->count++);
    } else if (span->weight > spans->list[0].weight) {
        spans->list[0] = *span;
        spans_sink(spans, 0);
    }
}

static int span_compare(const void *a, const void *b) {
    const struct report_span *x = a, *y = b;
    if (x->begin != y->begin) {
        return x->begin < y->begin ? -1 : 1;
    }
    return (x->block.address > y->block.address) - (x->block.address < y->block.address);
}

void spans_sort(struct report_spans *spans) {
    if (spans->count) {
        qsort(spans->list, spans->count, sizeof *spans->list, span_compare);
    }
}

/* ---- blocks ---- */

struct report_map *map_begin(struct report *report) {
    struct report_map *map = cli_alloc(sizeof *map);
    map->report = report;
    return map;
}

/* Notes at which event a block began. Numbers of blocks are dense, so a table holds them. */
static void begin_note(struct report_map *map, uint64_t id) {
    if (id >= map->room) {
        size_t room = 2 * (size_t)id + 1024;
        uint64_t *longer = reallocarray(map->begins, room, sizeof *longer);
        if (!longer) {
            cli_say("out of memory");
            exit(CLI_CANNOT);
        }
        map->begins = longer;
        map->room = room;
    }
    map->begins[id] = map->event;
}

/* `end` is the number of all steps for what is left at the end. */
static void map_span(struct report_map *map, struct report_spans *spans,
                     const struct trace_block *block, uint64_t begin, uint64_t end) {
    const struct report *report = map->report;
    uint64_t lifetime_ns = map->time_ns > block->time_ns ? map->time_ns - block->time_ns : 0;
    struct report_span span = {.block = *block, .begin = begin, .end = end, .end_ns = map->time_ns};
    bool is_first =
        end == report->steps || (begin <= report->peak_event && end > report->peak_event);
    span.weight = ((double)block->bytes + 1) * ((double)lifetime_ns + 1);
    span.weight *= is_first ? map_first : 1;
    spans_add(spans, &span);
}

static void map_block_left(void *arg, const struct trace_block *block) {
    struct report_map *map = arg;
    if (block->address) {
        map_span(map, &map->report->blocks, block, map->begins[block->id], map->report->steps);
    }
}

/* ---- mappings ---- */

static void map_mapped(struct report_map *map, uint64_t address, uint64_t bytes) {
    struct trace_block mapping = {.address = address,
                                  .id = map->event + 1,
                                  .bytes = bytes,
                                  .real = bytes,
                                  .time_ns = map->time_ns};
    if (!trace_live_find(&map->mapped, address) && !trace_live_add(&map->mapped, &mapping)) {
        cli_say("out of memory");
        exit(CLI_CANNOT);
    }
}

static void map_unmapped(struct report_map *map, uint64_t address) {
    struct trace_block mapping;
    if (trace_live_remove(&map->mapped, address, &mapping)) {
        map_span(map, &map->report->mappings, &mapping, mapping.id - 1, map->event);
    }
}

void map_step(struct report_map *map, const struct report_step *step, uint64_t event) {
    const struct trace_record *record = &step->record;
    map->event = event;
    map->time_ns = record->time_ns > map->time_ns ? record->time_ns : map->time_ns;
    if (step->freed && step->freed->address) {
        map_span(map, &map->report->blocks, step->freed, map->begins[step->freed->id], event);
    }
    if (step->added) {
        begin_note(map, step->added->id);
    }
    if (record->kind == ACRE__TRACE_CHUNK_MAP) {
        map_mapped(map, record->address, record->bytes);
    } else if (record->kind == ACRE__TRACE_CHUNK_UNMAP) {
        map_unmapped(map, record->address);
    } else if (record->kind == ACRE__TRACE_CHUNK_MOVE) {
        map_unmapped(map, record->before);
        map_mapped(map, record->address, record->bytes);
    }
}

void map_end(struct report_map *map) {
    source_each_live(map->report->source, map_block_left, map);
    for (size_t i = 0; i < map->mapped.room; i++) {
        const struct trace_block *mapping = &map->mapped.table[i];
        if (mapping->address) {
            map_span(map, &map->report->mappings, mapping, mapping->id - 1, map->report->steps);
        }
    }
    spans_sort(&map->report->blocks);
    spans_sort(&map->report->mappings);
    trace_live_end(&map->mapped);
    free(map->begins);
    free(map);
}
