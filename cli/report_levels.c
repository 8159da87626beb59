/* The second reading of a trace for a report: memory over time at several levels of detail, and
 * what was live at the peak; see report.h.
 *
 * The finest level divides the events into buckets of equal number. A bucket keeps the states with
 * the most and with the least live memory, so that a chart shows every peak and every valley,
 * however far it is zoomed out. A coarser level merges buckets and keeps states in the same way. */
#include <stdlib.h>

#include "cli.h"
#include "report.h"

struct sampling {
    struct report *report;
    struct report_sample now, most, least;
    bool has_any; /* the bucket has an event */
    uint64_t bucket;
    uint64_t reserved_most; /* of the bucket */
    size_t room;
};

static void level_add(struct report_level *level, size_t *room,
                      const struct report_sample *sample) {
    if (level->count == *room) {
        *room = *room ? 2 * *room : 1024;
        struct report_sample *longer = reallocarray(level->list, *room, sizeof *longer);
        if (!longer) {
            cli_say("out of memory");
            exit(CLI_CANNOT);
        }
        level->list = longer;
    }
    level->list[level->count++] = *sample;
}

/* Adds the last state of the trace, so that a chart reaches its end. */
static void level_end(struct report_level *level, size_t *room, const struct report_sample *last) {
    if (level->count && level->list[level->count - 1].event != last->event) {
        level_add(level, room, last);
    }
}

/* Adds the two states of a bucket in the order in which they happened. */
static void level_add_both(struct report_level *level, size_t *room, struct report_sample *most,
                           struct report_sample *least, uint64_t reserved) {
    most->reserved = least->reserved = reserved;
    bool is_most_first = most->event <= least->event;
    level_add(level, room, is_most_first ? most : least);
    if (most->event != least->event) {
        level_add(level, room, is_most_first ? least : most);
    }
}

static void sample_close(struct sampling *sampling) {
    if (sampling->has_any) {
        level_add_both(&sampling->report->levels[0], &sampling->room, &sampling->most,
                       &sampling->least, sampling->reserved_most);
    }
    sampling->has_any = false;
}

/* ---- the state ---- */

static void sample_groups(struct sampling *sampling, const struct trace_block *block,
                          bool is_added) {
    struct report *report = sampling->report;
    for (int key = 0; key < REPORT_KEYS; key++) {
        uint32_t group =
            account_of(&report->by[key], report_value((enum report_key)key, block))->group;
        if (group) {
            uint64_t *bytes = &sampling->now.groups[key][group - 1];
            *bytes = is_added ? *bytes + block->bytes : *bytes - block->bytes;
        }
    }
}

static void sample_state(struct sampling *sampling, const struct report_step *step) {
    struct report_sample *now = &sampling->now;
    const struct trace_record *record = &step->record;
    now->time_ns = record->time_ns > now->time_ns ? record->time_ns : now->time_ns;
    if (step->freed) {
        now->requested -= step->freed->bytes;
        now->real -= step->freed->real;
        sample_groups(sampling, step->freed, false);
    }
    if (step->added) {
        now->requested += step->added->bytes;
        now->real += step->added->real;
        sample_groups(sampling, step->added, true);
    }
    if (record->kind == ACRE__TRACE_CHUNK_CREATE) {
        now->reserved += record->bytes;
    } else if (record->kind == ACRE__TRACE_CHUNK_RELEASE) {
        now->reserved -= record->real < now->reserved ? record->real : now->reserved;
    } else if (record->kind == ACRE__TRACE_WAIT) {
        now->waits++;
    }
}

static void sample_step(struct sampling *sampling, const struct report_step *step) {
    struct report_sample *now = &sampling->now;
    uint64_t bucket = now->event / sampling->report->levels[0].events;
    if (bucket != sampling->bucket) {
        sample_close(sampling);
        sampling->bucket = bucket;
    }
    sample_state(sampling, step);
    if (!sampling->has_any) {
        sampling->has_any = true;
        sampling->most = sampling->least = *now;
        sampling->reserved_most = now->reserved;
        return;
    }
    if (now->requested > sampling->most.requested) {
        sampling->most = *now;
    }
    if (now->requested < sampling->least.requested) {
        sampling->least = *now;
    }
    sampling->reserved_most =
        now->reserved > sampling->reserved_most ? now->reserved : sampling->reserved_most;
}

/* ---- coarser levels ---- */

static void level_merge(const struct report_level *fine, struct report_level *coarse) {
    size_t room = 0;
    coarse->events = fine->events * REPORT_FACTOR;
    for (size_t i = 0; i < fine->count;) {
        struct report_sample most = fine->list[i], least = most;
        uint64_t reserved = most.reserved, bucket = most.event / coarse->events;
        for (i++; i < fine->count && fine->list[i].event / coarse->events == bucket; i++) {
            const struct report_sample *sample = &fine->list[i];
            most = sample->requested > most.requested ? *sample : most;
            least = sample->requested < least.requested ? *sample : least;
            reserved = sample->reserved > reserved ? sample->reserved : reserved;
        }
        level_add_both(coarse, &room, &most, &least, reserved);
    }
    if (fine->count) {
        level_end(coarse, &room, &fine->list[fine->count - 1]);
    }
}

static void levels_make(struct report *report) {
    enum { ENOUGH = 2000 }; /* samples that a chart draws at once */
    report->level_count = 1;
    while (report->level_count < REPORT_LEVELS &&
           report->levels[report->level_count - 1].count > ENOUGH) {
        level_merge(&report->levels[report->level_count - 1], &report->levels[report->level_count]);
        report->level_count++;
    }
}

/* ---- the peak ---- */

static void peak_add(void *arg, const struct trace_block *block) {
    struct report *report = arg;
    for (int key = 0; key <= REPORT_KEYS; key++) {
        struct account *account =
            key == REPORT_KEYS
                ? account_of(&report->holders, block->keys[TRACE_BY_TAG] << 32 |
                                                   (block->keys[TRACE_BY_STACK] & UINT32_MAX))
                : account_of(&report->by[key], report_value((enum report_key)key, block));
        account->at_peak_bytes += block->bytes;
        account->at_peak_blocks++;
    }
}

void report_sample(struct report *report) {
    struct sampling sampling = {.report = report};
    struct report_step step;
    struct report_map *map = map_begin(report);
    report->levels[0].events = (report->steps + REPORT_BUCKETS - 1) / REPORT_BUCKETS;
    report->levels[0].events += report->levels[0].events == 0;
    for (; source_next(report->source, &step); sampling.now.event++) {
        sample_step(&sampling, &step);
        map_step(map, &step, sampling.now.event);
        plan_step(report, &step);
        if (sampling.now.event == report->peak_event) {
            source_each_live(report->source, peak_add, report);
        }
    }
    sample_close(&sampling);
    if (sampling.now.event) {
        sampling.now.event--; /* of the last event */
        level_end(&report->levels[0], &sampling.room, &sampling.now);
    }
    map_end(map);
    levels_make(report);
}
