/* Who writes a trace: shared by trace.c (files, blocks, beginning and end) and trace_write.c (how
 * events are coded).
 *
 * A writer belongs to one thread, which is inside while it writes (base/inside.h). Who ends a trace
 * waits for those inside. */
#ifndef ACRE_WATCH_TRACE_WRITER_H
#define ACRE_WATCH_TRACE_WRITER_H

#include "base/thread.h"
#include "watch/trace.h"
#include "watch/trace_clock.h"

struct acre__trace_context {
    uint64_t stream;
    uint32_t pool, tag;
};

enum { ACRE__TRACE_HINTS = 64 };

struct acre__trace_writer {
    _Atomic uint32_t busy; /* the owner is inside */
    _Atomic int is_strong; /* it enters with a barrier of its own (base/inside.h) */
    uint32_t generation;   /* the trace that the block is of */
    unsigned char *at;     /* the next byte */
    unsigned char *end;    /* from here on the block has no room for two events */
    struct acre__trace_block *block;
    uint64_t units;   /* of the last event */
    uint64_t address; /* the same */
    uint64_t bytes;   /* of the last alloc */
    uint16_t epoch;   /* of the places */
    uint8_t context;  /* of the last event */
    uint32_t context_count;
    uint8_t hints[ACRE__TRACE_HINTS]; /* where a context was found last */
    struct acre__trace_context contexts[ACRE__TRACE_CONTEXTS];
    struct acre__trace_place places[ACRE__TRACE_PLACES];
    uint64_t thread;
    struct acre__trace_writer *next, **link; /* in the list of all */
};

/* The clock of the trace that is being written; fixed while there is one. */
extern struct acre__clock acre__trace_clock;

/* The calling thread's writer, made now if it has none; NULL without memory, and in a thread that
 * is about to end. */
struct acre__trace_writer *acre__trace_writer_make(struct acre__thread *thread);
/* Inside: another block for the writer. 0 when there is none to be had, and the trace ends. */
int acre__trace_writer_renew(struct acre__trace_writer *writer, uint32_t generation);
/* Inside: writes the pool's name, if the trace does not have it. */
void acre__trace_name_pool(struct acre__trace_pool *pool, uint32_t generation);

/* ---- trace_write.c ---- */

/* Inside: the events that a writer begins and ends with. */
void acre__trace_plain(struct acre__trace_writer *writer, enum acre__trace_kind kind);
/* An event with a number and a text at `at`; returns its end. */
unsigned char *acre__trace_put_text(unsigned char *at, enum acre__trace_kind kind, uint64_t delta,
                                    const uint64_t *number, const char *text);

#endif
