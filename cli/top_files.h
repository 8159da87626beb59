/* The statistics files that the programs of a user publish (watch/publish_folder.h). */
#ifndef ACRE_CLI_TOP_FILES_H
#define ACRE_CLI_TOP_FILES_H

#include "stats_read.h"

/* What was found besides files of running programs. */
struct top_files {
    unsigned damaged;  /* files that are not statistics */
    unsigned refused;  /* folders that others could write to */
    unsigned left_out; /* files beyond the limit of 1024 */
    char folder[256];  /* where programs publish, for messages */
};

typedef void (*top_file_fn)(void *user, const struct stats_view *view);

/* Calls `fn` for the file of each running program, and removes those of programs that have ended.
 */
void top_files_read(top_file_fn fn, void *user, struct top_files *found);

#endif
