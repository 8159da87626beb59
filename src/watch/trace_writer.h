/* The writers of a trace: shared by trace.c (files, blocks, start and stop) and trace_write.c
 * (encoding of events).
 *
 * A writer belongs to one thread, which is inside while it writes (base/inside.h). The thread that
 * stops a trace waits until no writer is inside. */
#ifndef ACRE_WATCH_TRACE_WRITER_H
#define ACRE_WATCH_TRACE_WRITER_H

#include "base/thread.h"
#include "watch/trace.h"
#include "watch/trace_clock.h"

struct acre__trace_context {
    uint64_t stream;
    uint32_t pool, tag, stack;
};

enum { ACRE__TRACE_HINTS = 64 };

struct acre__trace_writer {
    _Atomic uint32_t busy; /* the owner is inside */
    _Atomic int is_strong; /* it enters with its own barrier (base/inside.h) */
    uint32_t generation;   /* number of the trace that the block belongs to */
    unsigned char *at;     /* next byte to write */
    unsigned char *end;    /* past this point the block has no room for two events */
    struct acre__trace_block *block;
    uint64_t units;   /* time of the last event */
    uint64_t address; /* address of the last event */
    uint64_t bytes;   /* bytes of the last alloc */
    uint16_t epoch;   /* epoch of valid places */
    uint8_t context;  /* context of the last event */
    uint32_t context_count;
    int has_stacks;                   /* the trace is of version 2 */
    uint8_t hints[ACRE__TRACE_HINTS]; /* by hash: index of the context found last */
    struct acre__trace_context contexts[ACRE__TRACE_CONTEXTS];
    struct acre__trace_place places[ACRE__TRACE_PLACES];
    uint64_t thread;
    struct acre__trace_writer *next, **link; /* links in the list of all writers */
};

/* The clock of the running trace; constant while there is one. */
extern struct acre__clock acre__trace_clock;

/* Creates the calling thread's writer. Returns NULL if out of memory, or if the thread has only the
 * shared record (base/thread.h). */
struct acre__trace_writer *acre__trace_writer_make(struct acre__thread *thread);
/* Inside: takes another block for the writer. Returns 0 if there is none; the trace has then
 * ended. */
int acre__trace_writer_renew(struct acre__trace_writer *writer, uint32_t generation);
/* Inside: writes the pool's name, if the trace does not have it yet. */
void acre__trace_name_pool(struct acre__trace_pool *pool, uint32_t generation);
/* Writes a stack and its modules, once per trace. Returns 0 if the trace has no room for it. */
int acre__trace_name_stack(uint32_t stack, uint32_t generation);

/* ---- trace_write.c ---- */

/* Inside: writes an event without fields, such as ACRE__TRACE_THREAD_BEGIN. */
void acre__trace_plain(struct acre__trace_writer *writer, enum acre__trace_kind kind);
/* Writes an event with an optional number and a text at `at`; returns its end. */
unsigned char *acre__trace_put_text(unsigned char *at, enum acre__trace_kind kind, uint64_t delta,
                                    const uint64_t *number, const char *text);

#endif
