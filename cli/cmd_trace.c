/* acre trace: summarises, lists or compresses a trace that the library wrote. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "cli.h"
#include "events_file.h"
#include "pickle.h"
#include "show_trace.h"
#include "trace_decode.h"
#include "trace_file.h"
#include "write_file.h"

enum { TRACE_KEY_LIST = CLI_KEY_LONG, TRACE_KEY_PACK, TRACE_STEP = 1 << 20 };

struct trace_args {
    bool json, list, force;
    const char *path, *pack;
};

/* ---- packing ---- */

/* Compresses the bytes with gzip into the stream. Returns false if out of memory. */
static bool pack_write(const struct file_bytes *bytes, FILE *out) {
    enum { PACK_BEST = 9, PACK_WINDOW = 15 + 16, PACK_MEMORY = 8, PACK_ROOM = 1 << 16 };
    unsigned char room[PACK_ROOM];
    z_stream stream = {0};
    if (deflateInit2(&stream, PACK_BEST, Z_DEFLATED, PACK_WINDOW, PACK_MEMORY,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
        return false;
    }
    size_t done = 0;
    int code = Z_OK;
    while (code == Z_OK) {
        if (stream.avail_in == 0) { /* avail_in has 32 bits, so a large trace goes in steps */
            size_t left = bytes->count - done;
            stream.next_in = bytes->at + done;
            stream.avail_in = left > TRACE_STEP ? TRACE_STEP : (uInt)left;
            done += stream.avail_in;
        }
        stream.next_out = room;
        stream.avail_out = PACK_ROOM;
        code = deflate(&stream, done == bytes->count ? Z_FINISH : Z_NO_FLUSH);
        fwrite(room, 1, PACK_ROOM - stream.avail_out, out);
    }
    deflateEnd(&stream);
    return code == Z_STREAM_END;
}

static struct write_file trace_output(const struct trace_args *args) {
    return (struct write_file){.path = args->pack,
                               .kind = WRITE_TRACE,
                               .force = args->force,
                               .inputs = &args->path,
                               .input_count = 1};
}

static int trace_pack(const struct trace_args *args, const struct file_bytes *bytes) {
    struct write_file file = trace_output(args);
    if (!pack_write(bytes, write_begin(&file))) {
        cli_say("out of memory");
        exit(CLI_CANNOT);
    }
    fflush(file.stream);
    char before[CLI_NUMBER_BYTES], after[CLI_NUMBER_BYTES];
    cli_bytes(bytes->count, before);
    cli_bytes(file.bytes, after);
    int code = write_end(&file);
    if (code == CLI_OK && !write_is_stdout(args->pack)) {
        cli_say("%s: packed %s into %s", args->pack, before, after);
    }
    return code;
}

/* ---- the command ---- */

/* Reports damage. Events before it were shown, unless there are none: then the command could not
 * run. */
static int trace_say_damage(const struct trace_args *args, const struct trace_fault *fault,
                            uint64_t events, bool is_snapshot) {
    const char *name = file_name(args->path);
    if (is_snapshot) {
        cli_say("%s: this is a pickle, not a trace of acre; 'acre report', 'acre export', 'acre "
                "replay' and 'acre plan' read memory snapshots of PyTorch",
                name);
        return CLI_CANNOT;
    }
    if (events == 0) {
        cli_say("%s: byte %zu: %s", name, fault->offset, fault->what);
        return CLI_CANNOT;
    }
    cli_say("%s: byte %zu: %s; the output has the %" PRIu64 " events before the damage", name,
            fault->offset, fault->what, events);
    return CLI_FINDING;
}

/* Reads the trace and shows or packs it. *events: the number of events shown. */
static int trace_show(const struct trace_args *args, struct trace_reader *reader,
                      const struct file_bytes *bytes, bool is_written, uint64_t *events) {
    if (args->list) {
        *events = trace_list(reader);
    } else if (args->pack) {
        struct trace_record record;
        while (trace_next(reader, &record)) {
        }
        return reader->fault.what ? CLI_CANNOT : trace_pack(args, bytes);
    } else {
        *events = trace_summary(reader, file_name(args->path), is_written, args->json);
    }
    return CLI_OK;
}

static int trace_run(const struct trace_args *args) {
    struct file_bytes bytes = {0};
    struct trace_reader reader = {0};
    const struct write_file pack = trace_output(args);
    bool is_written = false;
    uint64_t events = 0;
    int fd, code = args->pack ? write_check(&pack) : CLI_OK;
    code = code ? code : trace_file_open(args->path, &fd, &is_written);
    if (code) {
        return code;
    }
    code = trace_file_read(file_name(args->path), fd, &bytes);
    if (code == CLI_OK || (code == CLI_FINDING && !args->pack)) {
        if (trace_open(&reader, bytes.at, bytes.count)) {
            int shown = trace_show(args, &reader, &bytes, is_written, &events);
            code = shown > code ? shown : code;
        }
    }
    if (reader.fault.what) {
        int damage =
            trace_say_damage(args, &reader.fault, events, pickle_is(bytes.at, bytes.count));
        code = damage > code ? damage : code;
    }
    trace_close(&reader);
    free(bytes.at);
    return code == CLI_FINDING && (args->pack || events == 0) ? CLI_CANNOT : code;
}

static error_t trace_parse(int key, char *arg, struct argp_state *state) {
    struct trace_args *args = state->input;
    switch (key) {
    case CLI_KEY_JSON:
        args->json = true;
        return 0;
    case CLI_KEY_FORCE:
        args->force = true;
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

static const char trace_doc[] =
    "Shows what a program did with memory, from its trace.\v"
    "A program writes a trace with ACRE_TRACE=FILE or acre_trace_start. The program\n"
    "may still be running, or have been killed: the trace has all events until\n"
    "then. FILE may be compressed with gzip. FILE '-' is standard input, OUT '-' is\n"
    "standard output.\n"
    "\n"
    "Summary:\n"
    "  process    process number, and when the trace started\n"
    "  damaged    where the trace is damaged\n"
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
    "Live memory over time follows, one line for each interval, then tables:\n"
    "  TAG, POOL     live memory by tag and by pool: PEAK is the peak of the tag or\n"
    "                pool itself, AT PEAK what it had at the peak of the program,\n"
    "                AT END what it has at the end, ALLOCS the number of its\n"
    "                allocations\n"
    "  ALLOCATED BY  live memory by the call that allocated it, if the program ran\n"
    "                with ACRE_STACKS; the columns are the same\n"
    "  BLOCK         the largest blocks that were live at the peak and at the end;\n"
    "                ALLOCATED AFTER is the time since the start of the trace\n"
    "  EVENT         the number of events by kind\n"
    "\n"
    "Lines of --list:\n"
    "  Each line has the seconds since the start, the thread, the kind of event,\n"
    "  and the fields of that kind. Two kinds appear only here: free-tried is a\n"
    "  free that was refused; free-missing is a free that the trace lacks, inferred\n"
    "  because its address was allocated again.\n"
    "\n"
    "If a trace is damaged or cut, the output has the events before the damage, a\n"
    "message says at which byte it is, and the exit status is 1.\n"
    "\n"
    "Examples:\n"
    "  ACRE_TRACE=program.trace ACRE_STACKS=8 ./program\n"
    "  acre trace program.trace\n"
    "  acre trace --list program.trace | grep ' alloc '\n"
    "  acre trace --pack program.trace.gz program.trace\n"
    "  acre trace --json program.trace | jq .peak_bytes\n"
    "  acre trace --json program.trace | jq '.by_tag[] | {name, peak_bytes}'\n"
    "\n"
    "Exit status:\n"
    "  0   success\n"
    "  1   FILE is damaged: the output has what came before\n"
    "  2   FILE has no event that can be read, or OUT cannot be written\n"
    "  64  wrong usage\n";

int cmd_trace(int argc, char **argv) {
    static const struct argp_option options[] = {
        {"json", CLI_KEY_JSON, NULL, 0, "print the summary as JSON (schema acre-trace/1)", 0},
        {"list", TRACE_KEY_LIST, NULL, 0, "print one line per event instead of a summary", 0},
        {"pack", TRACE_KEY_PACK, "OUT", 0, "write the trace to OUT, compressed with gzip", 0},
        {"force", CLI_KEY_FORCE, NULL, 0,
         "with --pack: replace OUT even if it is FILE or acre did not write it", 0},
        {0}};
    static const struct argp argp = {
        .options = options, .parser = trace_parse, .args_doc = "FILE", .doc = trace_doc};
    struct trace_args args = {0};
    if (cli_argp_parse(&argp, argc, argv, 0, &args) != 0) {
        return CLI_USAGE;
    }
    return trace_run(&args);
}
