/* What the commands of the `acre` tool share: exit codes, options, messages, tables, JSON.
 *
 * Conventions: data goes to stdout, messages to stderr; colour only on a terminal and without
 * NO_COLOR. The tool includes the public header alone. One thread, but for the log callback, which
 * the library may call from any. */
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
    CLI_FINDING = 1, /* it ran, and found something wrong */
    CLI_CANNOT = 2,  /* it could not run */
    CLI_USAGE = 64   /* it was called wrongly */
};

/* ---- commands ------------------------------------------------------------------------------- */

/* argv[0] is "acre <command>"; each returns an exit code. */
int cmd_info(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_demo(int argc, char **argv);
int cmd_replay(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_bench(int argc, char **argv); /* in bench/ */
int cmd_trace(int argc, char **argv);
int cmd_stats(int argc, char **argv);
int cmd_run(int argc, char **argv);

/* The options that commands have in common; each command lists those it takes. */
struct cli_args {
    bool json, measure;
    const char *device; /* NULL when not given */
    const char *output; /* NULL when not given */
};

enum { CLI_KEY_JSON = 'j', CLI_KEY_DEVICE = 'd', CLI_KEY_OUTPUT = 'o', CLI_KEY_MEASURE = 'm' };

/* Fills `args`; a usage error ends the program with CLI_USAGE, --help and --version with CLI_OK. */
void cli_parse_args(int argc, char **argv, const struct argp_option *options, const char *doc,
                    struct cli_args *args);

/* ---- standard streams and messages ----------------------------------------------------------- */

/* Puts something harmless in the place of closed standard descriptors, so that no file opened later
 * gets their number, and checks at exit that all of stdout was written (else exit CLI_CANNOT). */
void cli_streams_init(void);

/* Escape codes are fine on this stream. */
bool cli_colour(FILE *stream);

/* One line on stderr, beginning with "acre: ". */
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Says "acre: <what>: <status in words> (<detail>)" and, in a second line, what to do next. */
void cli_say_failure(const char *what, acre_status status);
/* What to do about a status, one line; never NULL. */
const char *cli_advice(acre_status status);

/* Sends the library's warnings and errors to stderr. */
void cli_log_to_stderr(void);

/* malloc and friends that end the program with a message instead of returning NULL. */
void *cli_alloc(size_t bytes);
char *cli_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The edit distance of two short words. */
size_t cli_distance(const char *a, const char *b);

/* ---- numbers --------------------------------------------------------------------------------- */

enum { CLI_NUMBER_BYTES = 32 };

/* "139.8 GiB", "2 MiB", "12.3 us" into `text`, which is returned. */
const char *cli_bytes(uint64_t bytes, char text[CLI_NUMBER_BYTES]);
const char *cli_duration(uint64_t nanoseconds, char text[CLI_NUMBER_BYTES]);
const char *cli_driver_version(uint32_t version, char text[CLI_NUMBER_BYTES]);

/* The host's monotonic clock. */
uint64_t cli_now_ns(void);

/* ---- tables ---------------------------------------------------------------------------------- */

enum cli_style { CLI_PLAIN, CLI_BOLD, CLI_DIM, CLI_GREEN, CLI_YELLOW, CLI_RED };

/* The escape code that begins a style, and the one that ends any; empty without colour. */
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
    bool right[CLI_TABLE_COLUMNS]; /* numbers stand to the right */
    struct cli_cell *cells;        /* row by row */
    size_t cell_count, cell_room;
};

/* A title that begins with '>' makes its column stand to the right. */
void cli_table_begin(struct cli_table *table, const char *const *titles, size_t columns);
void cli_table_cell(struct cli_table *table, enum cli_style style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Prints on stdout and frees. */
void cli_table_end(struct cli_table *table);

/* ---- JSON ------------------------------------------------------------------------------------ */

/* A string value; bytes that are no UTF-8 become '?'. */
json_t *cli_json_text(const char *text);
json_t *cli_json_number(uint64_t value);
/* `value` is taken over; NULL (no memory) ends the program. */
void cli_json_set(json_t *object, const char *key, json_t *value);
void cli_json_append(json_t *array, json_t *value);
/* {"schema": schema, "version": of the library} */
json_t *cli_json_begin(const char *schema);
/* Prints on stdout and frees. */
void cli_json_end(json_t *value);

/* ---- devices --------------------------------------------------------------------------------- */

/* A capability of struct acre_device_info: key in JSON, title for people, field. */
#define CLI_CAPABILITIES(X)                                                                        \
    X("vmm", "vmm", has_vmm)                                                                       \
    X("host_vmm", "host-vmm", has_host_vmm)                                                        \
    X("fd_sharing", "fd-sharing", has_fd_sharing)                                                  \
    X("fabric", "fabric", has_fabric)                                                              \
    X("rdma", "rdma", has_rdma)                                                                    \
    X("managed", "managed", has_managed)                                                           \
    X("integrated", "integrated", is_integrated)

/* One device of acre-info/1. */
json_t *cli_device_json(const acre_device_info *info);
/* "vmm fd-sharing ..."; to be freed. */
char *cli_device_capabilities(const acre_device_info *info);
/* Opens, reads the facts, closes. */
acre_status cli_device_look(const char *name, acre_device_info *info);

/* Speeds of copies in GB/s, 10^9 bytes a second; 0 where not measured. */
struct cli_link {
    uint64_t bytes; /* of one copy */
    double pinned_h2d, pinned_d2h, pageable_h2d, pageable_d2h, d2d;
    bool is_right; /* pageable: the bytes that came back are those that went */
};

/* Takes less than a second. On failure *doing says what failed, as in "cannot <doing> soft". */
acre_status cli_link_measure(acre_device *device, bool with_pageable, struct cli_link *found,
                             const char **doing);
json_t *cli_link_json(const struct cli_link *link);

#endif
