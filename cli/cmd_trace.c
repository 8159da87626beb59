/* acre trace: summarises, lists or compresses a trace that the library wrote. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "cli.h"
#include "trace_decode.h"
#include "show_trace.h"

enum { TRACE_KEY_LIST = 'l', TRACE_KEY_PACK = 'p', TRACE_STEP = 1 << 20 };

/* A small gzip file can unpack to any number of bytes. */
#define TRACE_BYTES_MOST ((size_t)16 << 30)

struct trace_args {
    bool json, list;
    const char *path, *pack;
};

struct trace_bytes {
    unsigned char *at;
    size_t count, room;
};

/* ---- reading ---- */

static int bytes_grow(struct trace_bytes *bytes) {
    if (bytes->count < bytes->room) {
        return 1;
    }
    size_t room = bytes->room ? 2 * bytes->room : TRACE_STEP;
    unsigned char *longer = room > TRACE_BYTES_MOST ? NULL : realloc(bytes->at, room);
    if (!longer) {
        return 0;
    }
    bytes->at = longer;
    bytes->room = room;
    return 1;
}

/* Reads a whole file, and unpacks it if it is compressed with gzip. */
static int file_read(const char *path, int fd, struct trace_bytes *bytes) {
    gzFile file = gzdopen(fd, "rb");
    if (!file) {
        close(fd);
        cli_say("%s: out of memory", path);
        return CLI_CANNOT;
    }
    int got = 1;
    while (got > 0) {
        if (!bytes_grow(bytes)) {
            cli_say("%s: the trace is too large: out of memory, or more than 16 GiB unpacked",
                    path);
            gzclose(file);
            return CLI_CANNOT;
        }
        size_t room = bytes->room - bytes->count;
        got =
            gzread(file, bytes->at + bytes->count, room > TRACE_STEP ? TRACE_STEP : (unsigned)room);
        bytes->count += got > 0 ? (size_t)got : 0;
    }
    int code;
    const char *why = gzerror(file, &code);
    int is_good = got == 0 && (code == Z_OK || code == Z_STREAM_END);
    if (!is_good) {
        cli_say("%s: byte %zu: cannot read: %s", path, bytes->count,
                code == Z_ERRNO ? strerror(errno) : why);
    }
    gzclose(file);
    return is_good ? CLI_OK : CLI_CANNOT;
}

/* Opens a trace. *is_written: a program holds the lock of the file, so it is still writing. */
static int file_open(const char *path, int *fd, bool *is_written) {
    struct stat now;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0 || fstat(*fd, &now)) {
        cli_say("%s: %s", path, strerror(errno));
        if (*fd >= 0) {
            close(*fd);
        }
        return CLI_CANNOT;
    }
    if (!S_ISREG(now.st_mode)) {
        cli_say("%s: not a regular file", path);
        close(*fd);
        return CLI_CANNOT;
    }
    *is_written = flock(*fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
    if (!*is_written) {
        flock(*fd, LOCK_UN); /* a program that is about to write must not find the file locked */
    }
    return CLI_OK;
}

/* ---- packing ---- */

static int pack_refuse(const char *path, const char *why) {
    cli_say("cannot write %s: %s", path, why);
    return CLI_CANNOT;
}

static int is_same_file(const char *a, const char *b) {
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int trace_pack(const char *path, const struct trace_bytes *bytes, const char *out) {
    if (is_same_file(path, out)) {
        return pack_refuse(out, "it is the trace itself");
    }
    gzFile file = gzopen(out, "wbe9");
    if (!file) {
        return pack_refuse(out, strerror(errno));
    }
    size_t done = 0;
    while (done < bytes->count) {
        size_t left = bytes->count - done;
        int put = gzwrite(file, bytes->at + done, left > TRACE_STEP ? TRACE_STEP : (unsigned)left);
        if (put <= 0) {
            break;
        }
        done += (size_t)put;
    }
    int saved_errno = errno;
    if (gzclose(file) != Z_OK || done < bytes->count) {
        unlink(out);
        return pack_refuse(out, strerror(saved_errno ? saved_errno : EIO));
    }
    struct stat now;
    char before[CLI_NUMBER_BYTES], after[CLI_NUMBER_BYTES];
    cli_say("%s: packed %s into %s", out, cli_bytes(bytes->count, before),
            cli_bytes(stat(out, &now) ? 0 : (uint64_t)now.st_size, after));
    return CLI_OK;
}

/* ---- the command ---- */

static int trace_run(const struct trace_args *args) {
    struct trace_bytes bytes = {0};
    struct trace_reader reader = {0};
    bool is_written = false;
    int fd, code = file_open(args->path, &fd, &is_written);
    if (code) {
        return code;
    }
    code = file_read(args->path, fd, &bytes);
    if (code == CLI_OK && trace_open(&reader, bytes.at, bytes.count)) {
        if (args->list) {
            trace_list(&reader);
        } else if (args->pack) {
            struct trace_record record;
            while (trace_next(&reader, &record)) {
            }
            code = reader.fault.what ? CLI_CANNOT : trace_pack(args->path, &bytes, args->pack);
        } else {
            trace_summary(&reader, args->path, is_written, args->json);
        }
    }
    if (reader.fault.what) {
        cli_say("%s: byte %zu: %s", args->path, reader.fault.offset, reader.fault.what);
        code = CLI_CANNOT;
    }
    trace_close(&reader);
    free(bytes.at);
    return code;
}

static error_t trace_parse(int key, char *arg, struct argp_state *state) {
    struct trace_args *args = state->input;
    switch (key) {
    case CLI_KEY_JSON:
        args->json = true;
        return 0;
    case TRACE_KEY_LIST:
        args->list = true;
        return 0;
    case TRACE_KEY_PACK:
        args->pack = arg;
        return 0;
    case ARGP_KEY_ARG:
        if (args->path) {
            argp_error(state, "more than one file given");
        }
        args->path = arg;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "no file given");
        return 0;
    case ARGP_KEY_END:
        if (args->json + args->list + (args->pack != NULL) > 1) {
            argp_error(state, "--json, --list and --pack cannot be combined");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int cmd_trace(int argc, char **argv) {
    static const struct argp_option options[] = {
        {"json", CLI_KEY_JSON, NULL, 0, "print the summary as JSON (schema acre-trace/1)", 0},
        {"list", TRACE_KEY_LIST, NULL, 0, "print one line per event instead of a summary", 0},
        {"pack", TRACE_KEY_PACK, "OUT", 0, "write the trace to OUT, compressed with gzip", 0},
        {0}};
    static const struct argp argp = {
        .options = options,
        .parser = trace_parse,
        .args_doc = "FILE",
        .doc = "Shows what a program did with memory, from its trace.\v"
               "A program writes a trace with ACRE_TRACE=FILE or acre_trace_start. The program\n"
               "may still be running, or have been killed: the trace has all events until\n"
               "then. FILE may be compressed with gzip.\n"
               "\n"
               "Summary:\n"
               "  process    process number, and when the trace started\n"
               "  recorded   duration, and how the trace ended\n"
               "  events     number, average size, and blocks of the file\n"
               "  threads    number of threads\n"
               "  streams    number of streams\n"
               "  pool, tag  number and name of each pool and tag\n"
               "  live       peak of live memory, as requested and as allocated after\n"
               "             rounding; memory that is live at the end\n"
               "  physical   physical memory created, released and moved; waits inserted into\n"
               "             streams\n"
               "  refused    allocations and frees that failed, by status\n"
               "  mark       marks of the program (acre_trace_mark)\n"
               "A table of the number of events by kind follows.\n"
               "\n"
               "Lines of --list:\n"
               "  Each line has the seconds since the start, the thread, the kind of event,\n"
               "  and the fields of that kind. Two kinds appear only here: free-tried is a\n"
               "  free that was refused; free-missing is a free that the trace lacks, inferred\n"
               "  because its address was allocated again.\n"
               "\n"
               "A damaged file is refused with the byte at which the damage is.\n"
               "\n"
               "Examples:\n"
               "  ACRE_TRACE=program.trace ./program\n"
               "  acre trace program.trace\n"
               "  acre trace --list program.trace | grep ' alloc '\n"
               "  acre trace --pack program.trace.gz program.trace\n"
               "  acre trace --json program.trace | jq .peak_bytes\n"
               "\n"
               "Exit status:\n"
               "  0   success\n"
               "  2   FILE is damaged or cannot be read, or OUT cannot be written\n"
               "  64  wrong usage\n"};
    struct trace_args args = {0};
    if (argp_parse(&argp, argc, argv, 0, NULL, &args) != 0) {
        return CLI_USAGE;
    }
    return trace_run(&args);
}
