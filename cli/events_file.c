/* Loads files and unpacks gzip; see events_file.h. */
#include "events_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "cli.h"
#include "events.h"

/* Makes room for `more` bytes at the end. Returns 0 if that would exceed EVENTS_BYTES. */
static int file_reserve(struct file_bytes *bytes, size_t more) {
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

/* ---- gzip ------------------------------------------------------------------------------------ */

static bool gzip_is(const unsigned char *bytes, size_t count) {
    return count >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

/* Reports an error in the gzip data at the line and column that were unpacked last. */
static int gzip_refuse(const char *path, const struct file_bytes *text, const char *what) {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < text->count; i++) {
        line += text->at[i] == '\n';
        column = text->at[i] == '\n' ? 1 : column + 1;
    }
    return events_refuse(path, line, column, "%s", what);
}

/* Unpacks one member. */
static int gzip_member(const char *path, z_stream *stream, struct file_bytes *text) {
    int code = Z_OK;
    while (code == Z_OK) {
        if (!file_reserve(text, 4096)) {
            return gzip_refuse(path, text, "the file unpacks to more than 1 GiB");
        }
        size_t room = text->room - text->count;
        stream->next_out = text->at + text->count;
        stream->avail_out = (uInt)room;
        code = inflate(stream, Z_NO_FLUSH);
        text->count += room - stream->avail_out;
        if (code == Z_BUF_ERROR || (code == Z_OK && stream->avail_in == 0 && stream->avail_out)) {
            return gzip_refuse(path, text, "the file is truncated: its gzip data ends here");
        }
    }
    return code == Z_STREAM_END
               ? 0
               : gzip_refuse(path, text, "the gzip data is damaged here or before");
}

/* Unpacks all members of a gzip file. */
static int gzip_unpack(const char *path, const unsigned char *bytes, size_t count,
                       struct file_bytes *text) {
    enum { GZIP_WINDOW = 15 + 16 }; /* the largest window, and the gzip header */
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
            code = gzip_refuse(path, text, "other data follows the gzip data");
            break;
        }
        code = gzip_member(path, &stream, text);
    }
    inflateEnd(&stream);
    return code;
}

int file_unpack(const char *path, const unsigned char **bytes, size_t *count,
                struct file_bytes *text) {
    int code = 0;
    if (gzip_is(*bytes, *count)) {
        code = gzip_unpack(path, *bytes, *count, text);
        *bytes = text->at;
        *count = text->count;
    }
    if (code == 0 && *count >= 3 && memcmp(*bytes, "\xef\xbb\xbf", 3) == 0) {
        *bytes += 3; /* skips the byte order mark of UTF-8 */
        *count -= 3;
    }
    return code;
}

/* ---- files ----------------------------------------------------------------------------------- */

const char *file_name(const char *path) {
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

int file_load(const char *path, struct file_bytes *bytes) {
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : 1;
    while (got > 0) {
        if (!file_reserve(bytes, 4096)) {
            close(fd);
            cli_say("%s: the file is larger than 1 GiB", file_name(path));
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
        cli_say("cannot read %s: %s", file_name(path), strerror(error));
        return CLI_CANNOT;
    }
    return 0;
}
