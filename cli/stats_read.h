/* Reads the statistics file that a program keeps with ACRE_STATS (src/watch/stats_format.h).
 *
 * The program may write to the file at the same time. Nothing in the file is trusted. */
#ifndef ACRE_CLI_STATS_READ_H
#define ACRE_CLI_STATS_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watch/stats_format.h"

struct stats_view {
    int fd;
    struct acre__stats_header header; /* read when the file was opened */
};

/* Opens a statistics file; "-" is a copy of standard input. Returns 0, or CLI_CANNOT after a
 * message. */
int stats_open(const char *path, struct stats_view *view);
/* Opens the statistics file of a process, found among its open files. Returns as stats_open. */
int stats_open_process(uint64_t pid, struct stats_view *view);
/* What a file in the folder of published statistics is (watch/publish_folder.h). */
enum stats_found {
    STATS_RUNNING, /* of a program that runs; the view is open */
    STATS_ENDED,   /* of a program that has ended; the file was removed */
    STATS_DAMAGED, /* not a statistics file, in spite of its name */
    STATS_OTHER    /* a name that acre does not use */
};
/* Opens a published file, without a message. */
enum stats_found stats_open_published(int folder, const char *name, struct stats_view *view);
void stats_close(struct stats_view *view);

/* Returns true if the program that writes the file is running. */
bool stats_is_running(const struct stats_view *view);
/* Returns the time of the last write, in nanoseconds since 1970. */
uint64_t stats_refreshed_ns(const struct stats_view *view);

/* Reads a consistent copy of a row. Returns 1, or 0 if the row is not in use or cannot be read. */
int stats_row(const struct stats_view *view, size_t index, struct acre__stats_row *row);

/* Terminates a text from outside and replaces all but printable ASCII, which is what acre writes:
 * it goes to a terminal, and bytes above 0x7f can be control characters or change the direction of
 * the text. */
void stats_text_clean(char *text, size_t room);

#endif
