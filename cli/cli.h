/* Shared by all commands of the `acre` tool: exit codes, options, messages, tables, JSON.
 *
 * Data goes to stdout, messages to stderr. Colour appears only on a terminal and without NO_COLOR.
 * Most files include the public headers only; the table PROGRAM_EXTRAS in
 * tests/check/check_layers.py lists those that may include parts of src/.
 *
 * The tool is single-threaded, with three exceptions: the library may call the log callback from
 * any thread, `acre replay --threads` starts one thread for each thread of the trace (these take
 * turns), and some benchmarks start threads. */
#ifndef ACRE_CLI_H
#define ACRE_CLI_H

#include <argp.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "acre.h"

enum {
    CLI_OK = 0,
    CLI_FINDING = 1, /* the command ran and found a problem */
    CLI_CANNOT = 2,  /* the command could not run */
    CLI_USAGE = 64   /* wrong usage */
};

/* ---- commands ------------------------------------------------------------------------------- */

/* Each command returns an exit code. argv[0] is "acre <command>". */
int cmd_info(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_demo(int argc, char **argv);
int cmd_replay(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_bench(int argc, char **argv); /* in bench/ */
int cmd_trace(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_stats(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_ps(int argc, char **argv); /* acre top --once */
int cmd_snapshot(int argc, char **argv);
int cmd_symbolize(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_limit(int argc, char **argv);
int cmd_suspend(int argc, char **argv);
int cmd_resume(int argc, char **argv);

/* The options that several commands share. Each command lists those it accepts. */
struct cli_args {
    bool json, measure, force;
    const char *device; /* NULL if not given */
    const char *output; /* NULL if not given */
};

/* A letter has the same meaning in every command: tests/cli/test_cli_help.sh compares their help.
 * Options whose first letter is taken have no letter; their keys begin at CLI_KEY_LONG. */
enum {
    CLI_KEY_JSON = 'j',
    CLI_KEY_DEVICE = 'd',
    CLI_KEY_OUTPUT = 'o',
    CLI_KEY_MEASURE = 'm',
    CLI_KEY_FORCE = 'f',
    CLI_KEY_HELP = 'h',
    CLI_KEY_VERSION = 'V',
    CLI_KEY_LONG = 512
};

/* Parses as argp_parse does, with -h, --help, --usage, -V and --version added (arguments.c). A
 * usage error exits with CLI_USAGE; the added options exit with CLI_OK. */
error_t cli_argp_parse(const struct argp *argp, int argc, char **argv, unsigned flags, void *input);

/* Parses the options into `args`. A usage error exits with CLI_USAGE; --help and --version exit
 * with CLI_OK. */
void cli_parse_args(int argc, char **argv, const struct argp_option *options, const char *doc,
                    struct cli_args *args);

/* ---- standard streams and messages ----------------------------------------------------------- */

/* Opens /dev/null for each closed standard descriptor, so that no file opened later gets its
 * number. Registers a check at exit that all of stdout was written; if not, the exit code is
 * CLI_CANNOT. */
void cli_streams_init(void);

/* Return true if the stream is a terminal that accepts escape codes; cli_colour also if the user
 * wants colour (NO_COLOR). */
bool cli_is_terminal(FILE *stream);
bool cli_colour(FILE *stream);

/* Prints one line on stderr, beginning with "acre: ". */
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* acre_last_detail, without the name of the call: the user of the tool has not made it. */
const char *cli_detail(void);

/* Prints "acre: <what>: <status text> (<detail>)"; without a driver only the detail. */
void cli_say_reason(const char *what, acre_status status);
/* Prints the same, and a second line with what to do next. */
void cli_say_failure(const char *what, acre_status status);
/* Returns one line that says what to do about a status; never NULL. */
const char *cli_advice(acre_status status);

/* Sends the library's warnings and errors to stderr. */
void cli_log_to_stderr(void);

/* Allocate zeroed memory, or a formatted string; the caller frees it. Out of memory ends the
 * program with a message. */
void *cli_alloc(size_t bytes);
char *cli_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Returns the edit distance of two words. It compares at most 32 characters of each. */
size_t cli_distance(const char *a, const char *b);

/* ---- numbers --------------------------------------------------------------------------------- */

enum { CLI_NUMBER_BYTES = 32 };

/* Write "139.8 GiB", "12.3 us" or "13.0" into `text` and return it. */
const char *cli_bytes(uint64_t bytes, char text[CLI_NUMBER_BYTES]);
const char *cli_duration(uint64_t nanoseconds, char text[CLI_NUMBER_BYTES]);
const char *cli_driver_version(uint32_t version, char text[CLI_NUMBER_BYTES]);

/* Writes today's date in UTC, "2026-01-31", and returns it. */
const char *cli_date(char text[CLI_NUMBER_BYTES]);
/* Returns "cuda:0, NVIDIA H200; 2026-01-31", the note of a chart; the caller frees it. */
char *cli_device_note(const acre_device_info *info);

/* Reads the host's monotonic clock. */
uint64_t cli_now_ns(void);
void cli_sleep(double seconds);

/* ---- tables ---------------------------------------------------------------------------------- */

enum cli_style { CLI_PLAIN, CLI_BOLD, CLI_DIM, CLI_GREEN, CLI_YELLOW, CLI_RED };

/* Return the escape code that begins a style, and the code that ends any style; empty strings
 * without colour. */
const char *cli_style_begin(FILE *stream, enum cli_style style);
const char *cli_style_end(FILE *stream);

enum { CLI_TABLE_COLUMNS = 16 };

struct cli_cell {
    char *text;
    enum cli_style style;
};

struct cli_table {
    size_t columns;
    const char *title[CLI_TABLE_COLUMNS];
    bool right[CLI_TABLE_COLUMNS]; /* aligned right, for numbers */
    struct cli_cell *cells;        /* row by row */
    size_t cell_count, cell_room;
};

/* A title that begins with '>' aligns its column to the right. */
void cli_table_begin(struct cli_table *table, const char *const *titles, size_t columns);
void cli_table_cell(struct cli_table *table, enum cli_style style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Prints the table on stdout and frees it. On a terminal the table fits its width. */
void cli_table_end(struct cli_table *table);

/* Prints the rest of a line on stdout, of which `left` columns are used. On a terminal the text
 * continues in the same column of further lines. */
void cli_wrap(size_t left, const char *text);

/* Replaces the line of progress on stderr, if that is a terminal. An empty text erases it. */
void cli_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Return the columns and lines of a terminal; 0 if the stream is no terminal or the size is
 * unknown. COLUMNS in the environment overrides the columns. */
size_t cli_width(FILE *stream);
size_t cli_height(FILE *stream);

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Creates a string value. If the text is not valid UTF-8, all its non-ASCII bytes become '?'. */
json_t *cli_json_text(const char *text);
json_t *cli_json_number(uint64_t value);
/* Add a value and take ownership of it. NULL (out of memory) ends the program. */
void cli_json_set(json_t *object, const char *key, json_t *value);
void cli_json_append(json_t *array, json_t *value);
/* Creates {"schema": schema, "version": version of the library}. */
json_t *cli_json_begin(const char *schema);
/* Prints the value on stdout and frees it. */
void cli_json_end(json_t *value);

/* ---- devices --------------------------------------------------------------------------------- */

/* The capabilities in acre_device_info: JSON key, title, field. */
#define CLI_CAPABILITIES(X)                                                                        \
    X("vmm", "vmm", has_vmm)                                                                       \
    X("host_vmm", "host-vmm", has_host_vmm)                                                        \
    X("fd_sharing", "fd-sharing", has_fd_sharing)                                                  \
    X("fabric", "fabric", has_fabric)                                                              \
    X("rdma", "rdma", has_rdma)                                                                    \
    X("managed", "managed", has_managed)                                                           \
    X("integrated", "integrated", is_integrated)

/* Creates the object of one device in schema acre-info/1. */
json_t *cli_device_json(const acre_device_info *info);
/* Returns a list such as "vmm fd-sharing"; the caller frees it. */
char *cli_device_capabilities(const acre_device_info *info);
/* Opens a device, reads its properties and closes it. */
acre_status cli_device_look(const char *name, acre_device_info *info);

/* Copy bandwidths in GB/s (10^9 bytes per second); 0 if not measured. */
struct cli_link {
    uint64_t bytes; /* of one copy */
    double pinned_h2d, pinned_d2h, pageable_h2d, pageable_d2h, d2d;
    bool is_right; /* pageable: the bytes read back equal the bytes written */
};

/* Measures copy bandwidths in less than a second. On failure *doing names the failed action, as in
 * "cannot <doing> soft". */
acre_status cli_link_measure(acre_device *device, bool with_pageable, struct cli_link *found,
                             const char **doing);
json_t *cli_link_json(const struct cli_link *link);

#endif
