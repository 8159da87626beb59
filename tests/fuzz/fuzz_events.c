/* One input for the readers of traces: the entry point that libFuzzer, the stored corpus and its
 * mutations share.
 *
 * Whatever the bytes are, the readers must not touch memory that is not theirs (the sanitizers see
 * to that), must say once what is wrong if they refuse, and must give events that can be replayed
 * if they do not. */
#include <stdlib.h>

#include "cli.h"
#include "events.h"
#include "fuzz_quiet.h"
#include "wishes.h"

#define FUZZ_SUM_BYTES (UINT64_C(1) << 61) /* more than that cannot be placed */

/* Settled events: a block is allocated, then freed or changed while it is live, and the sums are
 * right. */
static void fuzz_check_settled(const struct events *events) {
    uint64_t *live_bytes = cli_alloc(events->blocks * sizeof *live_bytes);
    uint64_t ops = 0, live = 0, peak = 0;
    bool is_over = false;
    for (size_t i = 0; i < events->count; i++) {
        const struct event *event = &events->list[i];
        if (event->kind == EVENT_OTHER) {
            continue;
        }
        FUZZ_CHECK(event->kind <= EVENT_REALLOC && event->bytes > 0);
        FUZZ_CHECK(event->id < events->blocks && event->stream < events->streams);
        uint64_t *own = &live_bytes[event->id];
        FUZZ_CHECK((*own == 0) == (event->kind == EVENT_ALLOC));
        live -= *own;
        *own = event->kind == EVENT_FREE ? 0 : event->bytes;
        is_over = is_over || live > UINT64_MAX - *own;
        live += *own;
        peak = live > peak ? live : peak;
        ops++;
    }
    FUZZ_CHECK(ops == events->ops && ops > 0);
    FUZZ_CHECK(events->peak_bytes == (is_over ? UINT64_MAX : peak));
    FUZZ_CHECK(events->streams <= EVENTS_STREAMS && events->threads > 0);
    free(live_bytes);
}

/* What a plan of settled events needs at least: while a block changes its size there are two of it.
 * UINT64_MAX if it could not be placed. */
static uint64_t fuzz_least(const struct events *events) {
    uint64_t *live_bytes = cli_alloc(events->blocks * sizeof *live_bytes);
    uint64_t live = 0, least = 0, sum = 0;
    for (size_t i = 0; i < events->count && sum <= FUZZ_SUM_BYTES; i++) {
        const struct event *event = &events->list[i];
        if (event->kind == EVENT_OTHER) {
            continue;
        }
        uint64_t *own = &live_bytes[event->id],
                 bytes = event->kind == EVENT_FREE ? 0 : event->bytes;
        sum = bytes > FUZZ_SUM_BYTES ? UINT64_MAX : sum + bytes;
        least = live + bytes > least ? live + bytes : least;
        live += bytes - *own;
        *own = bytes;
    }
    free(live_bytes);
    return sum <= FUZZ_SUM_BYTES ? least : UINT64_MAX;
}

/* Lifetimes of the blocks: what is live at a time is what the events have. */
static void fuzz_check_lifetimes(const struct events *events) {
    struct wishes wishes;
    size_t begun = 0;
    uint64_t least = fuzz_least(events);
    for (size_t i = 0; i < events->count; i++) {
        begun += events->list[i].kind == EVENT_ALLOC || events->list[i].kind == EVENT_REALLOC;
    }
    wishes_from_events(events, &wishes);
    FUZZ_CHECK(wishes.count == begun);
    for (size_t i = 0; i < wishes.count; i++) {
        const struct acre__place_buffer *buffer = &wishes.list[i];
        FUZZ_CHECK(buffer->size > 0 && buffer->lower >= 0 && buffer->upper > buffer->lower);
        FUZZ_CHECK((uint64_t)buffer->upper <= events->ops && wishes.names[i].length > 0);
    }
    if (least != UINT64_MAX) {
        FUZZ_CHECK(acre__place_lower_bound(wishes.list, wishes.count) == least);
    }
    wishes_free(&wishes);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t count) {
    struct events events;
    fuzz_begin();
    int code = events_parse("input", bytes, count, &events);
    if (code) {
        fuzz_check_refusal(code);
        return 0;
    }
    FUZZ_CHECK(fuzz_said() == 0 && events.format);
    code = events_settle("input", &events);
    if (code) {
        fuzz_check_refusal(code);
        return 0;
    }
    FUZZ_CHECK(fuzz_said() == 0);
    fuzz_check_settled(&events);
    fuzz_check_lifetimes(&events);
    events_free(&events);
    return 0;
}
