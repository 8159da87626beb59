/* Metrics for Prometheus: see prometheus.h. Metrics are called acre_<kind>_<counter>; those that
 * only grow end in _total, as Prometheus expects. */
#include "prometheus.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum {
    METRIC_BYTES = 80,
    LABELS_BYTES = 640,
    DOCUMENT_LINES = 200000 /* no more rows are added beyond */
};

struct prometheus_metric {
    const char *counter, *help; /* counter NULL: the end of a list */
};

struct prometheus_line {
    char metric[METRIC_BYTES];
    const char *help;
    bool is_counter;
    char *labels; /* "pid=\"1\",..." */
    char value[CLI_NUMBER_BYTES];
};

#define METRIC(name, meaning) {#name, meaning},
static const struct prometheus_metric metrics_device[] = {ACRE_DEVICE_STATS_LIST(METRIC)
                                                              ACRE__STATS_DEVICE_MORE(METRIC){0}};
static const struct prometheus_metric metrics_pool[] = {ACRE_POOL_STATS_LIST(METRIC)
                                                            ACRE__STATS_POOL_MORE(METRIC){0}};
static const struct prometheus_metric metrics_tag[] = {ACRE__STATS_TAG_LIST(METRIC){0}};
static const struct prometheus_metric metrics_memory[] = {ACRE__STATS_MEMORY_LIST(METRIC){0}};
#undef METRIC

static const struct {
    const char *kind, *label; /* the label that has the name of a row */
    const struct prometheus_metric *metrics;
} kinds[] = {{NULL, NULL, NULL},
             {"device", "device", metrics_device},
             {"pool", "pool", metrics_pool},
             {"tag", "tag", metrics_tag},
             {"memory", "kind", metrics_memory}};

/* Counters that can fall, or that are no counts; all others only grow. */
static bool counter_is_gauge(const char *counter) {
    static const char *const gauges[] = {"streams_live",
                                         "events_live",
                                         "limbo_count",
                                         "mem_blocks",
                                         "mem_bytes",
                                         "mem_registered",
                                         "staging_bytes",
                                         "chunks",
                                         "chunk_bytes",
                                         "address_bytes",
                                         "vecs",
                                         "chunk_cached_bytes",
                                         "shares",
                                         "imports",
                                         "total_bytes",
                                         "peak_bytes",
                                         "live_blocks",
                                         "live_bytes",
                                         "held_bytes",
                                         "used_bytes",
                                         "limit_bytes",
                                         "soft_limit_bytes",
                                         "held_peak_bytes",
                                         "own_bytes",
                                         "own_blocks",
                                         "streams_parked",
                                         "ranges",
                                         "range_bytes",
                                         "range_idle_bytes",
                                         "suspended_bytes",
                                         "held_bytes",
                                         "margin_bytes",
                                         "spillable_bytes",
                                         "away_bytes"};
    for (size_t i = 0; i < sizeof gauges / sizeof gauges[0]; i++) {
        if (strcmp(counter, gauges[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static struct prometheus_line *line_add(struct prometheus *document, const char *kind,
                                        const char *counter, const char *help, bool is_counter,
                                        const char *labels) {
    if (document->count == document->room) {
        document->room = document->room ? 2 * document->room : 256;
        struct prometheus_line *lines = cli_alloc(document->room * sizeof *lines);
        if (document->count) {
            memcpy(lines, document->lines, document->count * sizeof *lines);
        }
        free(document->lines);
        document->lines = lines;
    }
    struct prometheus_line *line = &document->lines[document->count++];
    *line = (struct prometheus_line){.help = help, .is_counter = is_counter};
    size_t length = strlen(counter);
    if (length > 6 && strcmp(counter + length - 6, "_count") == 0) {
        length -= 6; /* Prometheus keeps this ending for histograms */
    }
    snprintf(line->metric, sizeof line->metric, "acre_%s_%.*s%s", kind, (int)length, counter,
             is_counter ? "_total" : "");
    line->labels = cli_format("%s", labels);
    return line;
}

/* Appends label="value" to a list. A backslash or a quote in the value gets a backslash; the texts
 * have no control characters. */
static void label_add(char labels[LABELS_BYTES], const char *name, const char *value) {
    size_t at = strlen(labels);
    at += (size_t)snprintf(labels + at, LABELS_BYTES - at, "%s%s=\"", at ? "," : "", name);
    for (; *value && at < LABELS_BYTES - 4; value++) {
        if (*value == '\\' || *value == '"') {
            labels[at++] = '\\';
        }
        labels[at++] = *value;
    }
    labels[at++] = '"';
    labels[at] = '\0';
}

static void label_add_number(char labels[LABELS_BYTES], const char *name, uint64_t value) {
    char text[CLI_NUMBER_BYTES];
    snprintf(text, sizeof text, "%" PRIu64, value);
    label_add(labels, name, text);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void row_add(struct prometheus *document, const struct acre__stats_names *names,
                    const struct acre__stats_row *row, const char *before) {
    char labels[LABELS_BYTES];
    snprintf(labels, sizeof labels, "%s", before);
    label_add(labels, kinds[row->kind].label, row->name);
    if (row->kind != ACRE__STATS_MEMORY) {
        label_add_number(labels, "id", row->id);
    }
    for (const struct prometheus_metric *metric = kinds[row->kind].metrics; metric->counter;
         metric++) {
        for (uint64_t i = 0; i < names->count; i++) {
            if (strcmp(metric->counter, names->counters[i]) == 0) {
                struct prometheus_line *line =
                    line_add(document, kinds[row->kind].kind, metric->counter, metric->help,
                             !counter_is_gauge(metric->counter), labels);
                snprintf(line->value, sizeof line->value, "%" PRIu64, row->values[i]);
                break;
            }
        }
    }
}

static void time_add(struct prometheus *document, const char *name, const char *help,
                     const char *labels, uint64_t ns) {
    struct prometheus_line *line = line_add(document, "process", name, help, false, labels);
    snprintf(line->value, sizeof line->value, "%" PRIu64 ".%03" PRIu64, ns / 1000000000u,
             ns / 1000000u % 1000u);
}

void prometheus_add_file(struct prometheus *document, const struct stats_view *view, unsigned part,
                         bool is_running) {
    const struct acre__stats_header *header = &view->header;
    char labels[LABELS_BYTES] = "";
    struct acre__stats_row row;
    label_add_number(labels, "pid", header->pid);
    label_add(labels, "program", header->program);
    if (part) {
        label_add_number(labels, "part", part);
    }
    time_add(document, "start_time_seconds", "when the process began to keep statistics", labels,
             header->started_ns);
    time_add(document, "write_time_seconds", "when the process last wrote statistics", labels,
             stats_refreshed_ns(view));
    struct prometheus_line *line =
        line_add(document, "process", "running", "1 while the process runs", false, labels);
    snprintf(line->value, sizeof line->value, "%d", is_running);
    for (size_t i = 0; i < header->row_count && document->count < DOCUMENT_LINES; i++) {
        if (stats_row(view, i, &row) && row.kind < sizeof kinds / sizeof kinds[0]) {
            row_add(document, &header->kinds[row.kind], &row, labels);
        }
    }
}

void prometheus_add_card(struct prometheus *document, const struct top_card *card) {
    char labels[LABELS_BYTES] = "";
    label_add_number(labels, "card", card->index);
    label_add(labels, "name", card->name);
    label_add(labels, "pci", card->bus);
    struct prometheus_line *line =
        line_add(document, "card", "total_bytes", "memory of the card", false, labels);
    snprintf(line->value, sizeof line->value, "%" PRIu64, card->total);
    line = line_add(document, "card", "used_bytes", "memory of the card that is in use", false,
                    labels);
    snprintf(line->value, sizeof line->value, "%" PRIu64, card->used);
}

/* ---- writing --------------------------------------------------------------------------------- */

static int line_compare(const void *a, const void *b) {
    const struct prometheus_line *x = a, *y = b;
    int result = strcmp(x->metric, y->metric);
    return result ? result : strcmp(x->labels, y->labels);
}

void prometheus_write(struct prometheus *document, FILE *out) {
    const struct prometheus_line *before = NULL;
    if (document->count) {
        qsort(document->lines, document->count, sizeof document->lines[0], line_compare);
    }
    for (size_t i = 0; i < document->count; i++) {
        const struct prometheus_line *line = &document->lines[i];
        bool is_new = !before || strcmp(before->metric, line->metric) != 0;
        if (is_new) {
            fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", line->metric, line->help, line->metric,
                    line->is_counter ? "counter" : "gauge");
        }
        if (is_new || strcmp(before->labels, line->labels) != 0) {
            fprintf(out, "%s{%s} %s\n", line->metric, line->labels, line->value);
        }
        before = line;
    }
    for (size_t i = 0; i < document->count; i++) {
        free(document->lines[i].labels);
    }
    free(document->lines);
    *document = (struct prometheus){0};
}
