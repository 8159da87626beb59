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
    events_free(&events);
    return 0;
}
