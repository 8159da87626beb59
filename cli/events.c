/* Reads a file of events: detects its format and calls the reader of that format; see events.h. */
#include "events.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "events_file.h"
#include "pickle.h"
#include "trace_decode.h"
#include "wishes.h"

static char events_what[EVENTS_WHAT_BYTES]; /* the last message, for events_parse_part */

int events_refuse(const char *path, size_t line, size_t column, const char *format, ...) {
    char what[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    for (char *c = what; *c; c++) { /* a damaged file must not send escape codes to the terminal */
        if ((unsigned char)*c < ' ' || *c == 0x7f) {
            *c = '?';
        }
    }
    if (line) {
        snprintf(events_what, sizeof events_what, "line %zu, column %zu: %s", line, column, what);
        cli_say("%s:%zu:%zu: %s", path, line, column, what);
    } else {
        snprintf(events_what, sizeof events_what, "byte %zu: %s", column, what);
        cli_say("%s: byte %zu: %s", path, column, what);
    }
    return CLI_CANNOT;
}

struct event *events_add(struct events *events) {
    if (events->count == events->room) {
        size_t room = events->room ? 2 * events->room : 1024;
        struct event *longer = reallocarray(events->list, room, sizeof *longer);
        if (!longer) {
            cli_say("out of memory");
            exit(CLI_CANNOT);
        }
        events->list = longer;
        events->room = room;
    }
    struct event *event = &events->list[events->count++];
    *event = (struct event){0};
    return event;
}

void events_free(struct events *events) {
    for (size_t i = 0; i < events->tag_count; i++) {
        free(events->tag_names[i]);
    }
    for (size_t i = 0; i < events->text_count; i++) {
        free(events->texts[i]);
    }
    free(events->tag_names);
    free(events->texts);
    free(events->frames);
    free(events->stacks);
    free(events->stack_frames);
    free(events->stream_ids);
    free(events->list);
    *events = (struct events){0};
}

/* ---- which format ---------------------------------------------------------------------------- */

static bool events_begin_with(const unsigned char *bytes, size_t count, const char *word) {
    size_t length = strlen(word);
    return count >= length && memcmp(bytes, word, length) == 0;
}

static int events_choose(const char *path, const unsigned char *bytes, size_t count,
                         struct events *events) {
    if (count == 0) {
        return events_refuse(path, 1, 1, "the file is empty");
    }
    if (events_begin_with(bytes, count, "Thread")) {
        return events_read_rmm(path, bytes, count, events);
    }
    if (wishes_are(bytes, count)) {
        return events_read_lifetimes(path, bytes, count, events);
    }
    if (trace_is(bytes, count)) {
        return events_read_acre(path, bytes, count, events);
    }
    if (pickle_is(bytes, count)) {
        return events_read_torch(path, bytes, count, events);
    }
    if (events_is_snapshot(bytes, count)) {
        return events_read_snapshot(path, bytes, count, events);
    }
    return events_refuse(path, 1, 1,
                         "this is not a trace: the first line is neither "
                         "Thread,Time,Action,Pointer,Size,Stream nor id,lower,upper,size");
}

/* Reads the bytes of a file. With `is_part`, keeps the events before damage. */
static int events_parse_some(const char *path, const unsigned char *bytes, size_t count,
                             struct events *events, bool *is_part) {
    struct file_bytes text = {0};
    *events = (struct events){0};
    int code = file_unpack(path, &bytes, &count, &text);
    if (code == 0 || (is_part && count)) {
        int read = events_choose(path, bytes, count, events);
        code = code ? code : read;
    }
    free(text.at);
    if (code && is_part && events->count) {
        *is_part = true;
        return 0;
    }
    if (code) {
        events_free(events);
    }
    return code;
}

static int events_load(const char *path, struct events *events, bool *is_part) {
    struct file_bytes bytes = {0};
    *events = (struct events){0};
    int code = file_load(path, &bytes);
    if (code == 0) {
        code = events_parse_some(file_name(path), bytes.at, bytes.count, events, is_part);
    }
    free(bytes.at);
    return code;
}

int events_parse(const char *path, const unsigned char *bytes, size_t count,
                 struct events *events) {
    return events_parse_some(path, bytes, count, events, NULL);
}

int events_parse_part(const char *path, const unsigned char *bytes, size_t count,
                      struct events *events, char what[EVENTS_WHAT_BYTES]) {
    bool is_part = false;
    events_what[0] = '\0';
    int code = events_parse_some(path, bytes, count, events, &is_part);
    memcpy(what, events_what, EVENTS_WHAT_BYTES);
    return code ? code : is_part ? CLI_FINDING : CLI_OK;
}

int events_read(const char *path, struct events *events) {
    return events_load(path, events, NULL);
}

int events_read_part(const char *path, struct events *events, bool *is_part) {
    *is_part = false;
    return events_load(path, events, is_part);
}
