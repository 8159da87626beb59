/* The output of `acre trace`: one line per event, or a summary. */
#include "show_trace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "show_memory.h"

enum { SHOW_STREAMS = 4096, SHOW_STATUSES = 64, SHOW_MARKS = 100 };

/* ---- the list ---- */

static bool has_block(enum acre__trace_kind kind) {
    return kind == ACRE__TRACE_ALLOC || kind == ACRE__TRACE_FREE || kind == ACRE__TRACE_REALLOC ||
           kind == ACRE__TRACE_FREE_AFTER || kind == ACRE__TRACE_FREE_REFUSED;
}

static void list_where(const struct trace_record *record) {
    if (record->id) {
        printf(" block=%" PRIu64, record->id);
    }
    bool is_address =
        record->kind == ACRE__TRACE_CHUNK_MAP || record->kind == ACRE__TRACE_CHUNK_UNMAP;
    if (has_block(record->kind) || is_address) {
        printf(" at=0x%" PRIx64, record->address);
    }
    if (record->kind == ACRE__TRACE_CHUNK_MOVE) {
        printf(" from=0x%" PRIx64 " to=0x%" PRIx64, record->before, record->address);
    }
    if (record->kind == ACRE__TRACE_REALLOC) {
        printf(" from=0x%" PRIx64, record->before);
    }
    if (record->kind == ACRE__TRACE_CHUNK_CREATE || record->kind == ACRE__TRACE_CHUNK_RELEASE) {
        printf(" chunk=0x%" PRIx64, record->number);
    }
}

static void list_record(const struct trace_record *record) {
    printf("%" PRIu64 ".%09" PRIu64 " %" PRIu32 " %s", record->time_ns / 1000000000,
           record->time_ns % 1000000000, record->thread,
           record->is_refused   ? "free-tried"
           : record->is_made_up ? "free-missing"
                                : trace_kind_name(record->kind));
    list_where(record);
    if (record->bytes || record->kind == ACRE__TRACE_REFUSED) {
        printf(" bytes=%" PRIu64, record->bytes);
    }
    if (record->real) {
        printf(" real=%" PRIu64, record->real);
    }
    if (record->pool) {
        printf(" pool=%" PRIu32 " stream=0x%" PRIx64, record->pool, record->stream);
    }
    if (record->tag) {
        printf(" tag=%" PRIu32, record->tag);
    }
    if (record->stack) {
        printf(" stack=%" PRIu32, record->stack);
    }
    if (record->status) {
        printf(" status=%s", acre_status_name((acre_status)record->status));
    }
    if (record->text) {
        char *text = show_text(record->text, record->text_bytes);
        printf(" %s", text);
        free(text);
    }
    putchar('\n');
}

uint64_t trace_list(struct trace_reader *reader) {
    struct trace_record record;
    uint64_t count = 0;
    for (; trace_next(reader, &record); count++) {
        list_record(&record);
    }
    return count;
}

/* ---- the summary ---- */

struct show_mark {
    uint64_t time_ns;
    char *text;
};

struct show_sums {
    uint64_t kinds[ACRE__TRACE_KINDS], events;
    uint64_t end_ns;
    uint64_t streams[SHOW_STREAMS];
    size_t stream_count;
    bool has_more_streams;
    struct {
        int status;
        uint64_t count, bytes_most;
    } statuses[SHOW_STATUSES];
    size_t status_count;
    struct show_mark marks[SHOW_MARKS];
    size_t mark_count;
    uint64_t created_bytes, released_bytes, moved_bytes;
    struct show_memory *memory;
};

static void sum_stream(struct show_sums *sums, uint64_t stream) {
    for (size_t i = 0; i < sums->stream_count; i++) {
        if (sums->streams[i] == stream) {
            sums->streams[i] = sums->streams[i / 2]; /* moves frequent streams to the front */
            sums->streams[i / 2] = stream;
            return;
        }
    }
    if (sums->stream_count == SHOW_STREAMS) {
        sums->has_more_streams = true;
        return;
    }
    sums->streams[sums->stream_count++] = stream;
}

static void sum_status(struct show_sums *sums, const struct trace_record *record) {
    size_t i = 0;
    while (i < sums->status_count && sums->statuses[i].status != record->status) {
        i++;
    }
    if (i == SHOW_STATUSES) {
        return;
    }
    sums->status_count += i == sums->status_count;
    sums->statuses[i].status = record->status;
    sums->statuses[i].count++;
    if (record->bytes > sums->statuses[i].bytes_most) {
        sums->statuses[i].bytes_most = record->bytes;
    }
}

static void sum_record(struct show_sums *sums, const struct trace_record *record) {
    if (record->is_made_up) {
        return;
    }
    sums->kinds[record->kind]++;
    sums->events++;
    sums->end_ns = record->time_ns > sums->end_ns ? record->time_ns : sums->end_ns;
    if (record->pool && record->kind != ACRE__TRACE_FREE_AFTER) {
        sum_stream(sums, record->stream);
    }
    if (record->status) {
        sum_status(sums, record);
    }
    if (record->kind == ACRE__TRACE_MARK && sums->mark_count < SHOW_MARKS) {
        sums->marks[sums->mark_count++] =
            (struct show_mark){record->time_ns, show_text(record->text, record->text_bytes)};
    }
    sums->created_bytes += record->kind == ACRE__TRACE_CHUNK_CREATE ? record->bytes : 0;
    sums->released_bytes += record->kind == ACRE__TRACE_CHUNK_RELEASE ? record->bytes : 0;
    sums->moved_bytes += record->kind == ACRE__TRACE_CHUNK_MOVE ? record->bytes : 0;
}

static const char *show_state(const struct trace_reader *reader, bool is_written) {
    switch (reader->header.state) {
    case ACRE__TRACE_RUNNING:
        return is_written ? "being written" : "until the program ended";
    case ACRE__TRACE_STOPPED:
        return "stopped by the program";
    case ACRE__TRACE_FULL:
        return "ended early: the trace reached its size limit";
    default:
        return "ended early: the file could not grow";
    }
}

static double bytes_an_event(const struct trace_reader *reader, const struct show_sums *sums) {
    return sums->events ? (double)reader->event_bytes / (double)sums->events : 0;
}

/* ---- the summary as text ---- */

static void print_kinds(const struct show_sums *sums) {
    static const char *const titles[] = {"EVENT", ">COUNT"};
    struct cli_table table;
    cli_table_begin(&table, titles, 2);
    for (int i = 0; i < ACRE__TRACE_KINDS; i++) {
        if (sums->kinds[i]) {
            cli_table_cell(&table, CLI_PLAIN, "%s", trace_kind_name((enum acre__trace_kind)i));
            cli_table_cell(&table, CLI_PLAIN, "%" PRIu64, sums->kinds[i]);
        }
    }
    cli_table_end(&table);
}

static void print_memory(const struct trace_reader *reader, const struct show_sums *sums) {
    char a[CLI_NUMBER_BYTES], b[CLI_NUMBER_BYTES], c[CLI_NUMBER_BYTES], d[CLI_NUMBER_BYTES];
    const struct trace_live *live = &reader->live;
    printf("live        peak %s requested (%s allocated) after %s; at the end %s in %zu blocks\n",
           cli_bytes(live->peak_bytes, a), cli_bytes(live->peak_real, b),
           cli_duration(memory_peak_ns(sums->memory), d), cli_bytes(live->bytes, c), live->count);
    printf("physical    %s created, %s released, %s moved, %" PRIu64 " waits inserted\n",
           cli_bytes(sums->created_bytes, a), cli_bytes(sums->released_bytes, b),
           cli_bytes(sums->moved_bytes, c), sums->kinds[ACRE__TRACE_WAIT]);
    if (reader->unknown_frees) {
        printf("note        %" PRIu64 " freed blocks were allocated outside of the trace\n",
               reader->unknown_frees);
    }
    if (reader->made_up_frees) {
        printf("note        %" PRIu64 " frees are missing from the trace\n", reader->made_up_frees);
    }
}

static void print_rest(const struct show_sums *sums) {
    char text[CLI_NUMBER_BYTES];
    for (size_t i = 0; i < sums->status_count; i++) {
        acre_status status = (acre_status)sums->statuses[i].status;
        printf("refused     %" PRIu64 " times %s: %s (largest: %s)\n", sums->statuses[i].count,
               acre_status_name(status), acre_status_text(status),
               cli_bytes(sums->statuses[i].bytes_most, text));
    }
    for (size_t i = 0; i < sums->mark_count; i++) {
        printf("mark        %" PRIu64 ".%06" PRIu64 " s  %s\n", sums->marks[i].time_ns / 1000000000,
               sums->marks[i].time_ns / 1000 % 1000000, sums->marks[i].text);
    }
    if (sums->kinds[ACRE__TRACE_MARK] > sums->mark_count) {
        printf("mark        and %" PRIu64 " more\n",
               sums->kinds[ACRE__TRACE_MARK] - sums->mark_count);
    }
}

static void summary_print(const struct trace_reader *reader, const struct show_sums *sums,
                          bool is_written) {
    char text[CLI_NUMBER_BYTES], begun[64] = "?";
    time_t seconds = (time_t)(reader->header.start_real_ns / 1000000000);
    struct tm tm;
    if (gmtime_r(&seconds, &tm)) {
        strftime(begun, sizeof begun, "%Y-%m-%d %H:%M:%S UTC", &tm);
    }
    printf("process     %" PRIu32 ", started %s\n", reader->header.pid, begun);
    if (reader->fault.what) {
        printf("damaged     at byte %zu: %s; only events before it are counted\n",
               reader->fault.offset, reader->fault.what);
    }
    printf("recorded    %s, %s%s\n", cli_duration(sums->end_ns, text),
           show_state(reader, is_written),
           reader->header.is_ring ? "; the oldest events may have been overwritten" : "");
    printf("events      %" PRIu64 ", %.2f bytes each, in %zu blocks of %" PRIu32 " bytes\n",
           sums->events, bytes_an_event(reader, sums), reader->blocks, reader->header.block_bytes);
    printf("threads     %zu\n", reader->thread_count - reader->name_threads);
    printf("streams     %s%zu\n", sums->has_more_streams ? "more than " : "", sums->stream_count);
    size_t shown = 0;
    for (size_t i = 0; i < reader->name_count && shown < SHOW_MARKS; i++) {
        const struct trace_name *named = &reader->names[i];
        bool is_tag = named->kind == ACRE__TRACE_TAG_NAME;
        if (!is_tag && named->kind != ACRE__TRACE_POOL_NAME) {
            continue;
        }
        char *name = show_text(named->text, named->bytes);
        printf("%-11s %" PRIu64 " %s\n", is_tag ? "tag" : "pool", named->number, name);
        free(name);
        shown++;
    }
    print_memory(reader, sums);
    print_rest(sums);
    putchar('\n');
    memory_print(sums->memory, reader);
    print_kinds(sums);
}

/* ---- the summary as JSON ---- */

static json_t *json_names(const struct trace_reader *reader, enum acre__trace_kind kind) {
    json_t *list = json_array();
    for (size_t i = 0; i < reader->name_count; i++) {
        if (reader->names[i].kind != kind) {
            continue;
        }
        char *name = show_text(reader->names[i].text, reader->names[i].bytes);
        json_t *item = json_object();
        cli_json_set(item, "id", cli_json_number(reader->names[i].number));
        cli_json_set(item, "name", cli_json_text(name));
        cli_json_append(list, item);
        free(name);
    }
    return list;
}

static json_t *json_refused(const struct show_sums *sums) {
    json_t *list = json_array();
    for (size_t i = 0; i < sums->status_count; i++) {
        json_t *item = json_object();
        acre_status status = (acre_status)sums->statuses[i].status;
        cli_json_set(item, "status", cli_json_text(acre_status_name(status)));
        cli_json_set(item, "count", cli_json_number(sums->statuses[i].count));
        cli_json_set(item, "largest_bytes", cli_json_number(sums->statuses[i].bytes_most));
        cli_json_append(list, item);
    }
    return list;
}

static json_t *json_marks(const struct show_sums *sums) {
    json_t *list = json_array();
    for (size_t i = 0; i < sums->mark_count; i++) {
        json_t *item = json_object();
        cli_json_set(item, "time_ns", cli_json_number(sums->marks[i].time_ns));
        cli_json_set(item, "text", cli_json_text(sums->marks[i].text));
        cli_json_append(list, item);
    }
    return list;
}

static json_t *json_kinds(const struct show_sums *sums) {
    json_t *kinds = json_object();
    for (int i = 0; i < ACRE__TRACE_KINDS; i++) {
        if (sums->kinds[i]) {
            cli_json_set(kinds, trace_kind_name((enum acre__trace_kind)i),
                         cli_json_number(sums->kinds[i]));
        }
    }
    return kinds;
}

static void summary_json(const struct trace_reader *reader, const struct show_sums *sums,
                         const char *path, bool is_written) {
    static const char *const states[] = {"running", "stopped", "full", "failed"};
    uint32_t state = reader->header.state < 4 ? reader->header.state : 3;
    json_t *root = cli_json_begin("acre-trace/1");
    cli_json_set(root, "file", cli_json_text(path));
    cli_json_set(root, "pid", cli_json_number(reader->header.pid));
    cli_json_set(root, "begun_ns", cli_json_number(reader->header.start_real_ns));
    cli_json_set(root, "duration_ns", cli_json_number(sums->end_ns));
    cli_json_set(root, "state", cli_json_text(states[state]));
    cli_json_set(root, "is_written", json_boolean(is_written));
    cli_json_set(root, "is_ring", json_boolean(reader->header.is_ring != 0));
    cli_json_set(root, "library", cli_json_text(reader->header.library));
    cli_json_set(root, "clock", cli_json_text(reader->header.clock));
    cli_json_set(root, "events", cli_json_number(sums->events));
    cli_json_set(root, "bytes_an_event", json_real(bytes_an_event(reader, sums)));
    cli_json_set(root, "kinds", json_kinds(sums));
    cli_json_set(root, "threads", cli_json_number(reader->thread_count - reader->name_threads));
    cli_json_set(root, "streams", cli_json_number(sums->stream_count));
    cli_json_set(root, "pools", json_names(reader, ACRE__TRACE_POOL_NAME));
    cli_json_set(root, "tags", json_names(reader, ACRE__TRACE_TAG_NAME));
    cli_json_set(root, "peak_bytes", cli_json_number(reader->live.peak_bytes));
    cli_json_set(root, "peak_real_bytes", cli_json_number(reader->live.peak_real));
    cli_json_set(root, "live_bytes", cli_json_number(reader->live.bytes));
    cli_json_set(root, "live_blocks", cli_json_number(reader->live.count));
    cli_json_set(root, "unknown_frees", cli_json_number(reader->unknown_frees));
    cli_json_set(root, "missing_frees", cli_json_number(reader->made_up_frees));
    cli_json_set(root, "created_bytes", cli_json_number(sums->created_bytes));
    cli_json_set(root, "released_bytes", cli_json_number(sums->released_bytes));
    cli_json_set(root, "moved_bytes", cli_json_number(sums->moved_bytes));
    cli_json_set(root, "refused", json_refused(sums));
    cli_json_set(root, "marks", json_marks(sums));
    memory_json(sums->memory, reader, root);
    json_t *damage = json_null();
    if (reader->fault.what) {
        damage = json_object();
        cli_json_set(damage, "byte", cli_json_number(reader->fault.offset));
        cli_json_set(damage, "what", cli_json_text(reader->fault.what));
    }
    cli_json_set(root, "damage", damage);
    cli_json_end(root);
}

uint64_t trace_summary(struct trace_reader *reader, const char *path, bool is_written, bool json) {
    struct show_sums *sums = cli_alloc(sizeof *sums);
    struct trace_record record;
    sums->memory = memory_begin();
    while (trace_next(reader, &record)) {
        sum_record(sums, &record);
        memory_event(sums->memory, reader, &record);
    }
    bool is_shown = !reader->fault.what || sums->events > 0;
    if (is_shown && json) {
        summary_json(reader, sums, path, is_written);
    } else if (is_shown) {
        summary_print(reader, sums, is_written);
    }
    memory_end(sums->memory);
    for (size_t i = 0; i < sums->mark_count; i++) {
        free(sums->marks[i].text);
    }
    uint64_t events = sums->events;
    free(sums);
    return events;
}
