/* Where a report gets its events from: a trace of acre, with all that it knows, or a list of events
 * of another format (events.h). Both become the same steps, so the rest of the report does not know
 * the difference.
 *
 * The file is loaded once and read twice: figures that depend on the whole trace are known before
 * the second reading. */
#ifndef ACRE_CLI_REPORT_SOURCE_H
#define ACRE_CLI_REPORT_SOURCE_H

#include "events.h"
#include "trace_decode.h"
#include "trace_file.h"

enum { REPORT_DAMAGES = 2 }; /* of the compressed file, and of the trace in it */

struct report_damage {
    uint64_t byte;
    char what[EVENTS_WHAT_BYTES];
};

struct report_source {
    const char *path, *name; /* name: for messages */
    const char *format;      /* "acre", "rmm", "lifetimes", ... */
    struct file_bytes bytes;
    bool is_acre, is_written;
    struct trace_reader reader; /* of a trace of acre */
    struct trace_live chunks;   /* of `reader`, by number: their bytes */
    struct events events;       /* of any other format; settled */
    struct trace_block *blocks; /* of `events`, by number; `id` is 0 while a block is not live */
    size_t next;                /* of `events` */
    bool is_second;             /* the next event has given the first of its two steps */
    uint64_t first_ns;          /* of `events`: the time that becomes 0 */
    struct report_damage damage[REPORT_DAMAGES];
    size_t damage_count, damage_at_open;
};

/* One event, and the block that it made live or ended. A release of a chunk has its bytes in
 * `real`. The blocks stay valid until the next step; they are NULL if the event has none. */
struct report_step {
    struct trace_record record;
    const struct trace_block *added, *freed;
};

/* Loads a file; "-" is standard input. Returns CLI_OK; CLI_FINDING after a message if a part of the
 * file cannot be read; CLI_CANNOT after a message if nothing can. The caller calls source_close in
 * any case. */
int source_open(struct report_source *source, const char *path);
/* Begins with the bytes that the source has already; its other fields are zero but for the names.
 * Returns as source_open. */
int source_begin(struct report_source *source);
void source_close(struct report_source *source);

/* Reads the next event. Returns 0 at the end; source->damage may have grown then. */
int source_next(struct report_source *source, struct report_step *step);
/* Starts again with the first event. */
void source_rewind(struct report_source *source);

/* Calls a function for every live block. */
void source_each_live(const struct report_source *source,
                      void (*call)(void *arg, const struct trace_block *block), void *arg);

/* Returns the name of a tag or pool, or NULL if it has none; the caller frees it. */
char *source_name(const struct report_source *source, enum trace_key key, uint64_t value);

/* Returns the number of frames of a call stack, and the frames, innermost first; the caller frees
 * each. */
size_t source_frames(const struct report_source *source, uint64_t stack, char **frames,
                     size_t most);

#endif
