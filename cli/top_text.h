/* How `acre top` writes figures, on the screen and with --once. */
#ifndef ACRE_CLI_TOP_TEXT_H
#define ACRE_CLI_TOP_TEXT_H

#include "cli.h"
#include "top_model.h"

enum { TOP_TEXT_BYTES = 32, TOP_SPARK_BYTES = TOP_HISTORY * 4 + 1 };

/* "8.8 GiB", "12.3 k" and "1.2 GiB"; "-" if the value is not known. */
const char *top_bytes(uint64_t bytes, char text[TOP_TEXT_BYTES]);
const char *top_rate(double per_second, char text[TOP_TEXT_BYTES]);
const char *top_byte_rate(double per_second, char text[TOP_TEXT_BYTES]);
/* "12 s", "3 min", "5 h", "2 d": how long ago a time since 1970 was. */
const char *top_age(uint64_t since_ns, char text[TOP_TEXT_BYTES]);

/* Draws the last `width` values, the highest of them at full height, in UTF-8 or ASCII. The line
 * has `width` columns; values that do not exist yet are spaces. */
const char *top_spark(const struct top_history *history, size_t width, bool is_utf8,
                      char text[TOP_SPARK_BYTES]);

/* The name of a kind of holders, as a title. */
const char *top_kind_title(enum acre__stats_kind kind);
/* What is to be said about a reading besides its tables, such as damaged files; returns false if
 * nothing is. */
bool top_note(const struct top_files *files, char *text, size_t room);

/* Prints what --once, --json and --pid ask for. Returns an exit code. */
int top_print(const struct top_state *state, const char *filter, int64_t pid);
int top_print_json(const struct top_state *state, const char *filter, int64_t pid,
                   double interval_s);

#endif
