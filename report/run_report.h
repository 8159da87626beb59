/* Reports of `acre run`: what a process has recorded in the file (run_file.h), as text or JSON.
 *
 * The stand-in of libcuda.so.1 and the tool both contain these files. The stand-in prints the
 * report of its process at exit. The tool prints the reports of processes that ended without one.
 *
 * A collection is a private copy with checked fields: texts end with 0 and are printable. Locks:
 * none. The stand-in holds its lock of the records meanwhile. */
#ifndef ACRE_RUN_REPORT_H
#define ACRE_RUN_REPORT_H

#include <stddef.h>
#include <stdio.h>

#include "run_file.h"

/* ---- reading the file (run_collect.c) ---- */

/* Where a call was made. */
struct run_site {
    char call[RUN_NAME_BYTES];  /* "?" if unknown */
    char place[RUN_TEXT_BYTES]; /* such as program+0x11d8 */
    char from[RUN_TEXT_BYTES];  /* what called the library of `place`; empty: not known */
};

/* Allocations of one kind from one site that were not freed. */
struct run_leak {
    enum run_kind kind;
    struct run_site site;
    int is_lost;     /* their context was destroyed before they were freed */
    uint64_t first;  /* key of the oldest */
    uint64_t number; /* its number */
    uint64_t count, bytes;
    int is_suppressed;
};

/* Refused calls of one site with one error. */
struct run_call {
    struct run_site site;
    uint32_t code;
    char error[RUN_NAME_BYTES];
    char why[RUN_TEXT_BYTES]; /* of the first one; may be empty */
    uint64_t number, count;
    int is_unsupported; /* the stand-ins do not have the call or the feature */
    int is_suppressed;
};

/* A finding of the soft driver, such as a race. */
struct run_wrong {
    char text[RUN_TEXT_BYTES];
    uint64_t number;
    int is_suppressed;
};

/* Calls of a function that gets or frees memory which is not recorded. */
struct run_counted {
    char call[RUN_NAME_BYTES];
    uint64_t number, count;
};

struct run_collection {
    int64_t pid;
    uint32_t state; /* enum run_process_state */
    char program[RUN_PROGRAM_BYTES];
    uint64_t copied_bytes;
    struct run_count counts[RUN_KIND_COUNT + 1];
    struct run_leak *leaks; /* the largest first */
    struct run_call *calls;
    struct run_wrong *wrongs;
    struct run_counted *counted;
    size_t leak_rows, call_rows, wrong_rows, counted_rows;
    uint64_t leak_count, call_count, unsupported_count, wrong_count; /* without suppressed ones */
    uint64_t leaks_suppressed, calls_suppressed, unsupported_suppressed, wrongs_suppressed;
    int is_incomplete; /* records are missing: the file was full, or memory ran out */
};

/* Returns the next chunk after `chunk` that begins a process, or 0. `base` is the mapped file of
 * RUN_CHUNK_LIMIT chunks. Begin with 0. */
uint32_t acre__run_next(const void *base, uint32_t chunk);

/* Returns 1 if something has overwritten the heads of the file. Processes whose head is damaged are
 * not found by acre__run_next. */
int acre__run_is_damaged(const void *base);

/* Reads the state of a process without its records. */
void acre__run_peek(const void *base, uint32_t chunk, struct run_collection *out);

/* Collects the records of the process that begins at `chunk`, and applies the suppressions, whose
 * use it counts in the file. The caller frees the result with acre__run_drop. */
void acre__run_collect(void *base, uint32_t chunk, struct run_collection *out);
void acre__run_drop(struct run_collection *collection);

/* Returns the number of findings that change exit status 0, of the kinds in `wants`. */
uint64_t acre__run_found(const struct run_collection *collection, unsigned wants);

/* ---- suppressions (run_rules.c) ---- */

/* Reads the suppressions in `text`: one per line, such as leak:cudaMalloc; '#' begins a comment.
 * Returns 0, or the number of the first wrong line. Text that does not fit gives -1. */
int acre__run_rules_read(struct run_file *file, const char *text);
/* Returns 1 if a suppression of this kind ("leak") matches one of the texts. Counts its use. */
int acre__run_rules_match(struct run_file *file, const char *kind, const char *const *texts,
                          size_t text_count);
/* Copies the next suppression that matched nothing, and returns its index plus 1. Returns 0 if
 * there is none. Begin with 0. */
uint32_t acre__run_rules_unused(const struct run_file *file, uint32_t index,
                                char text[RUN_TEXT_BYTES]);

/* ---- printing (run_text.c, run_json.c) ---- */

/* Prints the parts that `wants` has. */
void acre__run_print(FILE *out, const struct run_collection *collection, unsigned wants);
/* Prints the report as one line of JSON. `end` says how the process ended: "exit", "_exit", or a
 * signal's name. */
void acre__run_print_json(FILE *out, const struct run_collection *collection, unsigned wants,
                          const char *end);
/* Formats a size as "4.5 KiB" into `text`. */
const char *acre__run_bytes(uint64_t bytes, char *text, size_t text_bytes);

#endif
