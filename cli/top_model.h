/* What `acre top` shows: the processes of the user that publish statistics, others that NVML knows,
 * and the cards.
 *
 * top_look reads everything again. Rates and histories come from the readings before. All texts are
 * printable ASCII, whatever the files and processes contain. */
#ifndef ACRE_CLI_TOP_MODEL_H
#define ACRE_CLI_TOP_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "top_files.h"
#include "watch/stats_format.h"

enum {
    TOP_HISTORY = 60,       /* readings that a sparkline can show */
    TOP_PROGRAM_BYTES = 32, /* as in the header of a statistics file */
    TOP_COMMAND_BYTES = 256,
    TOP_CARDS = 64,
    TOP_CARD_BYTES = 24
};

/* The last readings of a value; the newest is at [count - 1]. */
struct top_history {
    size_t count;
    uint64_t values[TOP_HISTORY];
};

/* Live, held and peak bytes, and what was allocated. TOP_UNKNOWN: not known. */
#define TOP_UNKNOWN UINT64_MAX
struct top_figures {
    uint64_t live, held, peak;
    uint64_t allocs, alloc_bytes; /* since the start */
    double alloc_rate, byte_rate; /* per second; negative: not known */
    struct top_history history;   /* of held memory; of live memory where nothing is held */
};

/* A device, a pool, a tag, or a kind of memory of the driver. */
struct top_holder {
    enum acre__stats_kind kind;
    unsigned file; /* of the process: 0, or more if several libraries keep statistics */
    uint64_t id;
    char name[128], card[32];
    uint64_t blocks, limit; /* limit 0: none */
    uint64_t total, mem;    /* of a device: its memory; what acre_mem_alloc has of it */
    uint64_t suspended;     /* of a device: what acre_suspend has taken off it */
    bool is_host;           /* memory of the host, which no card has */
    struct top_figures figures;
};

struct top_process {
    int64_t pid;
    bool is_published; /* else only NVML knows it */
    char program[TOP_PROGRAM_BYTES], command[TOP_COMMAND_BYTES];
    char library[16];
    char cards[TOP_CARD_BYTES]; /* "GPU 0", "soft:0", "GPU 0,1" */
    uint64_t started_ns, refreshed_ns;
    uint64_t card_bytes; /* according to NVML; TOP_UNKNOWN */
    uint64_t suspended;  /* bytes that are off its devices now */
    unsigned files, rows_missing;
    struct top_figures figures; /* of device memory */
    struct top_holder *holders;
    size_t holder_count, holder_room;
};

struct top_card {
    unsigned index;
    char name[64], bus[32];
    uint64_t total, used; /* bytes */
    int busy_percent;     /* -1: not known */
};

struct top_state {
    struct top_process *processes;
    size_t process_count;
    struct top_card cards[TOP_CARDS];
    size_t card_count;
    bool has_nvml;
    struct top_files files;
    uint64_t read_ns; /* when; the monotonic clock */
};

/* Reads everything again; `state` begins as {0}. */
void top_look(struct top_state *state);
void top_end(struct top_state *state);

/* Sorting and filtering. */
enum top_sort { TOP_BY_HELD, TOP_BY_LIVE, TOP_BY_PEAK, TOP_BY_RATE, TOP_BY_PID, TOP_BY_NAME };
enum { TOP_SORTS = 6 };
extern const char *const top_sort_names[TOP_SORTS];
void top_sort(struct top_state *state, enum top_sort by, bool is_reversed);
/* Whether the program, the command line, the card, the number or a holder contains the text, in any
 * case. An empty filter matches everything. */
bool top_matches(const struct top_process *process, const char *filter);
bool top_holder_matches(const struct top_holder *holder, const char *filter);

#endif
