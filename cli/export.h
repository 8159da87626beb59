/* What the formats of `acre export` share: the events, and texts made harmless. */
#ifndef ACRE_CLI_EXPORT_H
#define ACRE_CLI_EXPORT_H

#include <stdio.h>

#include "events.h"

enum export_when { EXPORT_AT_PEAK, EXPORT_AT_END, EXPORT_CHURN };

enum { EXPORT_TEXT_BYTES = 1000 }; /* longer names are clipped: nobody reads them */

struct export_job {
    const char *source;    /* the file, for people */
    struct events *events; /* settled; each block has an address, texts are clean */
    enum export_when when; /* folded */
    size_t slices;         /* perfetto: lifetimes of that many blocks, the largest */
};

/* A block while it is live, or one that was: a realloc makes a new one of the same id. */
struct export_block {
    uint64_t address, bytes; /* bytes 0: not live */
    uint64_t begin_ns, end_ns;
    uint64_t stream; /* the file's number */
    uint32_t tag, stack;
    uint8_t device;
    bool is_before; /* it was allocated before the recording */
};

/* Formats. Each writes its whole document; errors stay in the stream. */
void export_memory_viz(FILE *out, const struct export_job *job);
void export_perfetto(FILE *out, const struct export_job *job);
void export_folded(FILE *out, const struct export_job *job);
void export_rmm(FILE *out, const struct export_job *job);
void export_plan(FILE *out, const struct export_job *job);

/* ---- export_walk.c ---- */

/* Gives addresses to the blocks of a file that has none. Returns false if they need more than 2^62
 * bytes. */
bool export_place(struct events *events);

/* Applies an event that is not EVENT_OTHER to the blocks, of which there are events->blocks. Copies
 * the block that it ends to *ended; its bytes are 0 if there is none. */
void export_apply(const struct events *events, const struct event *event,
                  struct export_block *blocks, struct export_block *ended);

/* Returns the file's number of the stream of an event. */
uint64_t export_stream(const struct events *events, const struct event *event);

/* Returns the number of events up to the first one after which live memory is at its peak. */
size_t export_peak(const struct events *events);

/* ---- export_text.c ---- */

/* Replaces the texts and tags of the events by harmless ones: without control characters, marks
 * that change the direction of text, and ends of HTML elements; valid UTF-8; clipped. Finds the
 * functions and lines of frames that are offsets in a program. */
void export_clean(struct events *events);

/* Returns the harmless form of a text; the caller frees it. */
char *export_clean_text(const char *text);

/* Returns a frame as "function (file:line)"; the caller frees it. */
char *export_frame(const struct events *events, const struct event_frame *frame);

/* Returns the name of a tag, or "" for 0. */
const char *export_tag(const struct events *events, uint32_t tag);

#endif
