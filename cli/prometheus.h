/* Statistics as metrics in Prometheus' text exposition format, for a scrape or for the textfile
 * collector of node_exporter.
 *
 * The lines of a metric stand together, under its help and type. Two lines with the same labels
 * would be refused, so the second one is left out. Only counters that acre has are written,
 * whatever names a file has. */
#ifndef ACRE_CLI_PROMETHEUS_H
#define ACRE_CLI_PROMETHEUS_H

#include <stdio.h>

#include "stats_read.h"
#include "top_model.h"

/* A document in the making; begin with {0}. */
struct prometheus {
    struct prometheus_line *lines;
    size_t count, room;
};

/* Adds the counters of a statistics file. `part` tells several files of one process apart: 0 for
 * the first one. */
void prometheus_add_file(struct prometheus *document, const struct stats_view *view, unsigned part,
                         bool is_running);
void prometheus_add_card(struct prometheus *document, const struct top_card *card);

/* Writes the document and frees it. */
void prometheus_write(struct prometheus *document, FILE *out);

#endif
