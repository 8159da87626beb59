/* The first reading of a trace for a report: accounts, failures, marks, the peak; see report.h. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "report.h"
#include "show_text.h"

enum { COUNT_TEXT_BYTES = 1000 }; /* of a mark */

uint64_t report_value(enum report_key key, const struct trace_block *block) {
    switch (key) {
    case REPORT_BY_TAG:
        return block->keys[TRACE_BY_TAG];
    case REPORT_BY_STACK:
        return block->keys[TRACE_BY_STACK];
    case REPORT_BY_POOL:
        return block->keys[TRACE_BY_POOL];
    case REPORT_BY_STREAM:
        return block->stream;
    default:
        return block->bytes ? 63 - (uint64_t)__builtin_clzll(block->bytes) : 0;
    }
}

static uint64_t holder_value(const struct trace_block *block) {
    return block->keys[TRACE_BY_TAG] << 32 | (block->keys[TRACE_BY_STACK] & UINT32_MAX);
}

/* ---- blocks ---- */

static void count_blocks(struct report *report, const struct report_step *step) {
    const struct trace_block *freed = step->freed, *added = step->added;
    bool is_new = step->record.kind == ACRE__TRACE_ALLOC;
    for (int key = 0; key < REPORT_KEYS; key++) {
        struct accounts *by = &report->by[key];
        if (freed) {
            account_free(account_of(by, report_value((enum report_key)key, freed)), freed->bytes);
        }
        if (added) {
            account_alloc(account_of(by, report_value((enum report_key)key, added)), added->bytes,
                          is_new);
        }
    }
    if (freed) {
        account_free(account_of(&report->holders, holder_value(freed)), freed->bytes);
        report->live_bytes -= freed->bytes;
        report->live_real -= freed->real;
        report->live_blocks--;
    }
    if (added) {
        account_alloc(account_of(&report->holders, holder_value(added)), added->bytes, is_new);
        report->live_bytes += added->bytes;
        report->live_real += added->real;
        report->live_blocks++;
    }
    if (report->live_real > report->peak_real) {
        report->peak_real = report->live_real;
    }
    if (report->live_bytes > report->peak_bytes) {
        report->peak_bytes = report->live_bytes;
        report->peak_ns = step->record.time_ns;
        report->peak_event = report->steps;
        report->peak_blocks = report->live_blocks;
    }
}

/* ---- other events ---- */

static void count_chunk(struct report *report, const struct trace_record *record) {
    if (record->kind == ACRE__TRACE_CHUNK_CREATE) {
        report->created += record->bytes;
        report->reserved += record->bytes;
    } else if (record->kind == ACRE__TRACE_CHUNK_RELEASE) {
        /* A chunk from before the trace may be released in it. */
        report->released += record->bytes;
        report->reserved -= record->real < report->reserved ? record->real : report->reserved;
    } else if (record->kind == ACRE__TRACE_CHUNK_MOVE) {
        report->moved += record->bytes;
    }
    if (report->reserved > report->reserved_peak) {
        report->reserved_peak = report->reserved;
        report->reserved_peak_ns = record->time_ns;
    }
}

static void count_failure(struct report *report, const struct trace_record *record) {
    bool is_free = record->kind == ACRE__TRACE_FREE_REFUSED;
    report->failures_all++;
    if (report->failure_count < REPORT_FAILURES) {
        report->failures[report->failure_count++] =
            (struct report_failure){.time_ns = record->time_ns,
                                    .event = report->steps,
                                    .bytes = record->bytes,
                                    .stream = record->stream,
                                    .tag = record->tag,
                                    .stack = record->stack,
                                    .status = record->status,
                                    .is_free = is_free};
    }
}

static void count_mark(struct report *report, const struct trace_record *record) {
    size_t bytes = record->text_bytes < COUNT_TEXT_BYTES ? record->text_bytes : COUNT_TEXT_BYTES;
    if (report->mark_count < REPORT_MARKS) {
        report->marks[report->mark_count++] =
            (struct report_mark){record->time_ns, report->steps, show_text(record->text, bytes)};
    }
}

static void count_step(struct report *report, const struct report_step *step) {
    const struct trace_record *record = &step->record;
    if (!record->is_made_up) {
        report->kinds[record->kind]++;
        report->events++;
        report->duration_ns =
            record->time_ns > report->duration_ns ? record->time_ns : report->duration_ns;
    }
    count_blocks(report, step);
    switch (record->kind) {
    case ACRE__TRACE_CHUNK_CREATE:
    case ACRE__TRACE_CHUNK_RELEASE:
    case ACRE__TRACE_CHUNK_MOVE:
        count_chunk(report, record);
        break;
    case ACRE__TRACE_REFUSED:
    case ACRE__TRACE_FREE_REFUSED:
        count_failure(report, record);
        break;
    case ACRE__TRACE_MARK:
        count_mark(report, record);
        break;
    case ACRE__TRACE_WAIT:
        account_of(&report->waits, record->stream)->allocations++;
        report->wait_count++;
        break;
    default:
        break;
    }
    report->steps++;
}

/* Chooses the accounts that get an area of their own: account.group is its number from 1. */
static void count_groups(struct report *report) {
    for (int key = 0; key < REPORT_KEYS; key++) {
        struct account *list = accounts_sorted(&report->by[key]);
        size_t count =
            report->by[key].count < REPORT_GROUPS ? report->by[key].count : REPORT_GROUPS;
        for (size_t i = 0; i < count; i++) {
            report->groups[key][i] = list[i].value;
            account_of(&report->by[key], list[i].value)->group = (uint32_t)i + 1;
        }
        report->group_count[key] = count;
        free(list);
    }
}

void report_count(struct report *report) {
    struct report_step step;
    while (source_next(report->source, &step)) {
        count_step(report, &step);
    }
    count_groups(report);
}

/* ---- the whole ---- */

void report_make(struct report *report, struct report_source *source) {
    memset(report, 0, sizeof *report);
    report->source = source;
    report->blocks.most = REPORT_BLOCKS;
    report->mappings.most = REPORT_MAPPINGS;
    report_count(report);
    source_rewind(source);
    report_sample(report);
    plan_make(report);
}

void report_end(struct report *report) {
    for (int key = 0; key < REPORT_KEYS; key++) {
        accounts_end(&report->by[key]);
    }
    accounts_end(&report->holders);
    accounts_end(&report->waits);
    for (size_t i = 0; i < report->mark_count; i++) {
        free(report->marks[i].text);
    }
    for (size_t i = 0; i < report->level_count; i++) {
        free(report->levels[i].list);
    }
    free(report->blocks.list);
    free(report->mappings.list);
    events_free(&report->plan.events);
}
