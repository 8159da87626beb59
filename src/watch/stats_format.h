/* The file of ACRE_STATS, which the library writes and `acre stats` reads while the program runs.
 *
 * A header names the kinds of rows and their counters; rows of one size follow. A row is a device
 * or a pool. A writer makes the row's sequence odd before and even after a store. A reader retries
 * when the sequence was odd or has changed. Numbers are little endian. The writing program holds a
 * lock on the file (flock), so a file without a lock belongs to a program that has exited. */
#ifndef ACRE_WATCH_STATS_FORMAT_H
#define ACRE_WATCH_STATS_FORMAT_H

#include <stdint.h>

#define ACRE__STATS_MAGIC "ACRESTA\n"

enum {
    ACRE__STATS_VERSION = 1,
    ACRE__STATS_KINDS = 8,     /* kinds that a header has room for */
    ACRE__STATS_COUNTERS = 56, /* counters that a row has room for */
    ACRE__STATS_NAME_BYTES = 32,
    ACRE__STATS_ROWS = 512
};

/* Kinds of rows; 0 is a row that is not in use. */
enum acre__stats_kind {
    ACRE__STATS_NONE = 0,
    ACRE__STATS_DEVICE = 1, /* ACRE_DEVICE_STATS_LIST */
    ACRE__STATS_POOL = 2    /* ACRE_POOL_STATS_LIST */
};

/* A kind of row: its name and the names of its counters. */
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
    uint32_t rows_missing; /* objects for which no row was free */
    uint64_t started_ns;   /* nanoseconds since 1970 */
    uint64_t refreshed_ns; /* time of the last store to a row, as started_ns */
    char library[16];
    uint64_t reserved[4];
    struct acre__stats_names kinds[ACRE__STATS_KINDS]; /* by enum acre__stats_kind */
};

struct acre__stats_row {
    uint32_t sequence;
    uint32_t kind;
    uint64_t id; /* unique among the objects of one kind in the process */
    uint64_t refreshed_ns;
    char name[40];
    uint64_t values[ACRE__STATS_COUNTERS];
};

#endif
