/* The formats of `acre export` that are CSV: RMM's log, and the lifetimes that `acre plan` reads.
 * acre reads both back, with the same peak of live bytes. They have no names. */
#include <inttypes.h>
#include <stdlib.h>

#include "cli.h"
#include "export.h"
#include "wishes.h"

/* ---- RMM's log ---- */

static void rmm_line(FILE *out, const struct event *event, const char *action, uint64_t address,
                     uint64_t bytes, uint64_t stream) {
    uint64_t seconds = event->time_ns / 1000000000;
    fprintf(out,
            "%" PRIu32 ",%02" PRIu64 ":%02" PRIu64 ":%02" PRIu64 ".%06" PRIu64 ",%s,0x%" PRIx64
            ",%" PRIu64 ",0x%" PRIx64 "\n",
            event->thread + 1, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60,
            event->time_ns / 1000 % 1000000, action, address, bytes, stream);
}

void export_rmm(FILE *out, const struct export_job *job) {
    const struct events *events = job->events;
    struct export_block *blocks = cli_alloc(events->blocks * sizeof *blocks), ended;
    fputs("Thread,Time,Action,Pointer,Size,Stream\n", out);
    for (size_t i = 0; i < events->count; i++) {
        const struct event *event = &events->list[i];
        if (event->kind == EVENT_OTHER) {
            if (event->note == EVENT_NOTE_REFUSED) {
                rmm_line(out, event, "allocate failure", 0, event->bytes, event->stream);
            }
            continue;
        }
        export_apply(events, event, blocks, &ended);
        uint64_t stream = export_stream(events, event);
        if (ended.bytes) { /* RMM knows no realloc: a free, then an allocation */
            rmm_line(out, event, "free", ended.address, ended.bytes, stream);
        }
        if (event->kind != EVENT_FREE) {
            rmm_line(out, event, "allocate", event->address, event->bytes, stream);
        }
    }
    free(blocks);
}

/* ---- lifetimes ---- */

void export_plan(FILE *out, const struct export_job *job) {
    struct wishes wishes;
    wishes_from_events(job->events, &wishes);
    fputs("id,lower,upper,size\n", out);
    for (size_t i = 0; i < wishes.count; i++) {
        const struct acre__place_buffer *buffer = &wishes.list[i];
        fprintf(out, "%zu,%" PRId64 ",%" PRId64 ",%" PRIu64 "\n", i, buffer->lower, buffer->upper,
                (uint64_t)buffer->size);
    }
    wishes_free(&wishes);
}
