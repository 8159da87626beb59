/* Reading the file of statistics that a program keeps with ACRE_STATS (src/watch/stats_format.h).
 *
 * The file may be written meanwhile, and nothing in it is trusted. */
#ifndef ACRE_CLI_STATS_READ_H
#define ACRE_CLI_STATS_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watch/stats_format.h"

struct stats_view {
    int fd;
    struct acre__stats_header header; /* as it was when the file was opened */
};

/* Opens a file; 0, or CLI_CANNOT after it has said why. */
int stats_open(const char *path, struct stats_view *view);
/* The same for a process that keeps one, found among its open files. */
int stats_open_process(uint64_t pid, struct stats_view *view);
void stats_close(struct stats_view *view);

/* 1 if the program that writes it is there. */
bool stats_is_running(const struct stats_view *view);
/* When something was last written, since 1970. */
uint64_t stats_refreshed_ns(const struct stats_view *view);

/* A row as it was at one moment: 1, or 0 when there is none. */
int stats_row(const struct stats_view *view, size_t index, struct acre__stats_row *row);

#endif
