/* Reads a file of events: detects its format and calls the reader of that format; see events.h. */
#include "events.h"
#include "trace_decode.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "events_file.h"
#include "wishes.h"

static char events_what[EVENTS_WHAT_BYTES]; /* the last message, for events_parse_some */

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
    free(events->tag_names);
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
    return events_refuse(path, 1, 1,
                         "this is not a trace: the first line is neither "
                         "Thread,Time,Action,Pointer,Size,Stream nor id,lower,upper,size");
}

int events_parse_some(const char *path, const unsigned char *bytes, size_t count,
                      struct events *events, char what[EVENTS_WHAT_BYTES]) {
    struct file_bytes text = {0};
    events_what[0] = '\0';
    *events = (struct events){0};
    int code = file_unpack(path, &bytes, &count, &text);
    if (code == 0) {
        code = events_choose(path, bytes, count, events);
    }
    free(text.at);
    memcpy(what, events_what, EVENTS_WHAT_BYTES);
    return code;
}

int events_parse(const char *path, const unsigned char *bytes, size_t count,
                 struct events *events) {
    char what[EVENTS_WHAT_BYTES];
    int code = events_parse_some(path, bytes, count, events, what);
    if (code) {
        events_free(events);
    }
    return code;
}

int events_read(const char *path, struct events *events) {
    struct file_bytes bytes = {0};
    *events = (struct events){0};
    int code = file_load(path, &bytes);
    if (code == 0) {
        code = events_parse(file_name(path), bytes.at, bytes.count, events);
    }
    free(bytes.at);
    return code;
}
