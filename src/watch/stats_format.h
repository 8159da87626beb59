/* The file of ACRE_STATS, which the library writes and `acre stats` and `acre top` read while the
 * program runs.
 *
 * A header names the kinds of rows and their counters; rows of one size follow. A row is a device,
 * a pool, a tag, or a kind of memory that a program under `acre run` gets from the driver. A writer
 * makes the row's sequence odd before and even after a store. A reader retries when the sequence
 * was odd or has changed. Counters that grow with each call (ACRE__STATS_ALLOCS) change without the
 * sequence. Numbers are little endian. The writing program holds a lock on the file (flock), so a
 * file without a lock belongs to a program that has exited. */
#ifndef ACRE_WATCH_STATS_FORMAT_H
#define ACRE_WATCH_STATS_FORMAT_H

#include <stdint.h>

#define ACRE__STATS_MAGIC "ACRESTA\n"

enum {
    ACRE__STATS_VERSION = 2,
    ACRE__STATS_KINDS = 8,     /* kinds that a header has room for */
    ACRE__STATS_COUNTERS = 56, /* counters that a row has room for */
    ACRE__STATS_NAME_BYTES = 32,
    ACRE__STATS_ROWS = 512,
    ACRE__STATS_TAG_ROWS = 384 /* tags use at most this many, and leave the rest to pools */
};

/* Kinds of rows; 0 is a row that is not in use. */
enum acre__stats_kind {
    ACRE__STATS_NONE = 0,
    ACRE__STATS_DEVICE = 1, /* ACRE_DEVICE_STATS_LIST, ACRE__STATS_DEVICE_MORE */
    ACRE__STATS_POOL = 2,   /* ACRE_POOL_STATS_LIST, ACRE__STATS_POOL_MORE */
    ACRE__STATS_TAG = 3,    /* ACRE__STATS_TAG_LIST */
    ACRE__STATS_MEMORY = 4  /* ACRE__STATS_MEMORY_LIST */
};

/* Counters of a device and of a pool that are only in the file, behind those of the public list. */
#define ACRE__STATS_DEVICE_MORE(X)                                                                 \
    X(total_bytes, "memory of the device")                                                         \
    X(peak_bytes, "high-water mark of chunk_bytes and mem_bytes together, when last looked at")

#define ACRE__STATS_POOL_MORE(X)                                                                   \
    X(allocs, "blocks allocated while statistics were kept")                                       \
    X(alloc_bytes, "bytes requested for these blocks")

#define ACRE__STATS_TAG_LIST(X)                                                                    \
    X(live_bytes, "bytes of live blocks with this tag or one below it")                            \
    X(live_blocks, "live blocks with this tag or one below it")                                    \
    X(own_bytes, "bytes of live blocks with exactly this tag")                                     \
    X(own_blocks, "live blocks with exactly this tag")                                             \
    X(peak_bytes, "high-water mark of live_bytes")                                                 \
    X(limit_bytes, "the limit; 0: none")

/* Memory of one kind that a program under `acre run` has from the driver. */
#define ACRE__STATS_MEMORY_LIST(X)                                                                 \
    X(live_bytes, "bytes allocated now")                                                           \
    X(peak_bytes, "high-water mark of live_bytes")                                                 \
    X(allocs, "allocations")                                                                       \
    X(alloc_bytes, "bytes of all allocations")                                                     \
    X(frees, "frees")                                                                              \
    X(refused, "allocations that failed")

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
    char program[32];                                  /* its short name */
    struct acre__stats_names kinds[ACRE__STATS_KINDS]; /* by enum acre__stats_kind */
};

struct acre__stats_row {
    uint32_t sequence;
    uint32_t kind;
    uint64_t id; /* unique among the objects of one kind in the process */
    uint64_t refreshed_ns;
    char name[128]; /* of a longer one the last bytes, after "..." */
    char card[32];  /* of a device: its address on the PCI bus; of memory: soft; or empty */
    uint64_t values[ACRE__STATS_COUNTERS];
};

#endif
