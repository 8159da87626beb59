/* The file of ACRE_STATS: what the library writes and `acre stats` reads while the program runs.
 *
 * A header that names the kinds of rows and their counters, then rows of one size. A row is a
 * device or a pool. Who writes a row makes its sequence odd before and even after; who reads one
 * reads it again when the sequence was odd or has changed. Numbers are little endian. The program
 * that writes holds a lock on the file (flock), so a file without one is of a program that is gone.
 */
#ifndef ACRE_WATCH_STATS_FORMAT_H
#define ACRE_WATCH_STATS_FORMAT_H

#include <stdint.h>

#define ACRE__STATS_MAGIC "ACRESTA\n"

enum {
    ACRE__STATS_VERSION = 1,
    ACRE__STATS_KINDS = 8,     /* that a header has room for */
    ACRE__STATS_COUNTERS = 56, /* that a row has room for */
    ACRE__STATS_NAME_BYTES = 32,
    ACRE__STATS_ROWS = 512
};

/* Kinds of rows; 0 is a row that is not in use. */
enum acre__stats_kind {
    ACRE__STATS_NONE = 0,
    ACRE__STATS_DEVICE = 1, /* ACRE_DEVICE_STATS_LIST */
    ACRE__STATS_POOL = 2    /* ACRE_POOL_STATS_LIST */
};

/* A kind of row: what it is called and the names of its counters. */
struct acre__stats_names {
    char name[ACRE__STATS_NAME_BYTES];
    uint64_t count;
    char counters[ACRE__STATS_COUNTERS][ACRE__STATS_NAME_BYTES];
};

struct acre__stats_header {
    char magic[8];
    uint32_t version;
    uint32_t header_bytes;
    uint32_t row_bytes;
    uint32_t row_count;
    uint32_t pid;
    uint32_t rows_missing; /* things for which there was no row */
    uint64_t started_ns;   /* since 1970 */
    uint64_t refreshed_ns; /* the last time that a row was written */
    char library[16];
    uint64_t reserved[4];
    struct acre__stats_names kinds[ACRE__STATS_KINDS]; /* by enum acre__stats_kind */
};

struct acre__stats_row {
    uint32_t sequence;
    uint32_t kind;
    uint64_t id; /* tells things of one kind and process apart */
    uint64_t refreshed_ns;
    char name[40];
    uint64_t values[ACRE__STATS_COUNTERS];
};

#endif
