/* Reading a file of events: loading, unpacking, choosing the reader; see events.h. */
#include "events.h"
#include "trace_decode.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "cli.h"

struct bytes {
    unsigned char *at;
    size_t count, room;
};

/* Makes room for `more` bytes behind what is there; 0 when that would be too many. */
static int bytes_reserve(struct bytes *bytes, size_t more) {
    if (bytes->room - bytes->count >= more) {
        return 1;
    }
    if (bytes->count + more > EVENTS_BYTES) {
        return 0;
    }
    size_t room = bytes->room ? 2 * bytes->room : 65536;
    room = room > EVENTS_BYTES ? EVENTS_BYTES : room;
    unsigned char *longer = realloc(bytes->at, room);
    if (!longer) {
        cli_say("out of memory");
        exit(CLI_CANNOT);
    }
    bytes->at = longer;
    bytes->room = room;
    return 1;
}

int events_refuse(const char *path, size_t line, size_t column, const char *format, ...) {
    char what[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    for (char *c = what; *c; c++) { /* a damaged file must not steer the terminal */
        if ((unsigned char)*c < ' ' || *c == 0x7f) {
            *c = '?';
        }
    }
    if (line) {
        cli_say("%s:%zu:%zu: %s", path, line, column, what);
    } else {
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

/* ---- gzip ------------------------------------------------------------------------------------ */

static bool gzip_is(const unsigned char *bytes, size_t count) {
    return count >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

/* Where the text has got to, for what is wrong with the packed bytes behind it. */
static int gzip_refuse(const char *path, const struct bytes *text, const char *what) {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < text->count; i++) {
        line += text->at[i] == '\n';
        column = text->at[i] == '\n' ? 1 : column + 1;
    }
    return events_refuse(path, line, column, "%s", what);
}

/* Unpacks one member. */
static int gzip_member(const char *path, z_stream *stream, struct bytes *text) {
    int code = Z_OK;
    while (code == Z_OK) {
        if (!bytes_reserve(text, 4096)) {
            return gzip_refuse(path, text, "the file unpacks to more than 1 GiB");
        }
        size_t room = text->room - text->count;
        stream->next_out = text->at + text->count;
        stream->avail_out = (uInt)room;
        code = inflate(stream, Z_NO_FLUSH);
        text->count += room - stream->avail_out;
        if (code == Z_BUF_ERROR || (code == Z_OK && stream->avail_in == 0 && stream->avail_out)) {
            return gzip_refuse(path, text, "the file is cut off: its gzip data ends here");
        }
    }
    return code == Z_STREAM_END
               ? 0
               : gzip_refuse(path, text, "the gzip data is damaged here or before");
}

/* A file may have several members, one behind the other. */
static int gzip_unpack(const char *path, const unsigned char *bytes, size_t count,
                       struct bytes *text) {
    enum { GZIP_WINDOW = 15 + 16 }; /* the largest window, and gzip's frame */
    z_stream stream = {0};
    if (inflateInit2(&stream, GZIP_WINDOW) != Z_OK) {
        cli_say("out of memory");
        return CLI_CANNOT;
    }
    stream.next_in = (z_const Bytef *)bytes;
    stream.avail_in = (uInt)count;
    int code = gzip_member(path, &stream, text);
    while (code == 0 && stream.avail_in) {
        if (!gzip_is(stream.next_in, stream.avail_in) || inflateReset(&stream) != Z_OK) {
            code = gzip_refuse(path, text, "something else follows the gzip data");
            break;
        }
        code = gzip_member(path, &stream, text);
    }
    inflateEnd(&stream);
    return code;
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
    if (events_begin_with(bytes, count, "id")) {
        return events_read_lifetimes(path, bytes, count, events);
    }
    if (trace_is(bytes, count)) {
        return events_read_acre(path, bytes, count, events);
    }
    return events_refuse(path, 1, 1,
                         "this is no trace: the first line is neither "
                         "Thread,Time,Action,Pointer,Size,Stream nor id,lower,upper,size");
}

int events_parse(const char *path, const unsigned char *bytes, size_t count,
                 struct events *events) {
    struct bytes text = {0};
    int code = 0;
    *events = (struct events){0};
    if (gzip_is(bytes, count)) {
        code = gzip_unpack(path, bytes, count, &text);
        bytes = text.at;
        count = text.count;
    }
    if (code == 0) {
        code = events_choose(path, bytes, count, events);
    }
    free(text.at);
    if (code) {
        events_free(events);
    }
    return code;
}

static int events_load(const char *path, struct bytes *bytes) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : 1;
    while (got > 0) {
        if (!bytes_reserve(bytes, 4096)) {
            close(fd);
            cli_say("%s: the file has more than 1 GiB", path);
            return CLI_CANNOT;
        }
        got = read(fd, bytes->at + bytes->count, bytes->room - bytes->count);
        if (got < 0 && errno == EINTR) {
            got = 1;
            continue;
        }
        bytes->count += got > 0 ? (size_t)got : 0;
    }
    int error = errno;
    if (fd >= 0) {
        close(fd);
    }
    if (got < 0) {
        cli_say("cannot read %s: %s", path, strerror(error));
        return CLI_CANNOT;
    }
    return 0;
}

int events_read(const char *path, struct events *events) {
    struct bytes bytes = {0};
    *events = (struct events){0};
    int code = events_load(path, &bytes);
    if (code == 0) {
        code = events_parse(path, bytes.at, bytes.count, events);
    }
    free(bytes.at);
    return code;
}
