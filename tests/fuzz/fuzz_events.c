/* One input for the readers of traces: the entry point that libFuzzer, the stored corpus and its
 * mutations share.
 *
 * Whatever the bytes are, the readers must not touch memory that is not theirs (the sanitizers see
 * to that), must say once what is wrong if they refuse, and must give events that can be replayed
 * if they do not. The tool's own functions for messages and memory stand here in quiet forms. */
#include "fuzz_events.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "events.h"

static unsigned fuzz_said;
static char fuzz_line[1024];

void cli_say(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fuzz_line, sizeof fuzz_line, format, arguments);
    va_end(arguments);
    fuzz_said++;
}

static void *fuzz_need(void *memory) {
    if (!memory) {
        fputs("fuzz_events: out of memory\n", stderr);
        abort();
    }
    return memory;
}

void *cli_alloc(size_t bytes) {
    return fuzz_need(calloc(1, bytes ? bytes : 1));
}

char *cli_format(const char *format, ...) {
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0) {
        text = NULL;
    }
    va_end(arguments);
    return fuzz_need(text);
}

#define FUZZ_CHECK(condition) fuzz_check((condition), #condition, __LINE__)

static void fuzz_check(bool good, const char *what, int line) {
    if (!good) {
        fprintf(stderr, "fuzz_events:%d: not so: %s (last said: %s)\n", line, what, fuzz_line);
        abort();
    }
}

/* A refusal is one line that begins with the file, and has nothing that steers a terminal. */
static void fuzz_check_refusal(int code) {
    FUZZ_CHECK(code == CLI_CANNOT);
    FUZZ_CHECK(fuzz_said == 1);
    FUZZ_CHECK(strncmp(fuzz_line, "input:", 6) == 0);
    for (const char *c = fuzz_line; *c; c++) {
        FUZZ_CHECK((unsigned char)*c >= ' ' && *c != 0x7f);
    }
}

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
    fuzz_said = 0;
    int code = events_parse("input", bytes, count, &events);
    if (code) {
        fuzz_check_refusal(code);
        return 0;
    }
    FUZZ_CHECK(fuzz_said == 0 && events.format);
    code = events_settle("input", &events);
    if (code) {
        fuzz_check_refusal(code);
        return 0;
    }
    FUZZ_CHECK(fuzz_said == 0);
    fuzz_check_settled(&events);
    events_free(&events);
    return 0;
}
