/* acre replay: replays allocation traces on a pool; replay.h lists the results. */
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "events_file.h"
#include "replay.h"

enum {
    REPLAY_KEY_POOL = 'p',
    REPLAY_KEY_PASSES = 'n',
    REPLAY_KEY_LAG = CLI_KEY_LONG,
    REPLAY_KEY_THREADS,
    REPLAY_KEY_WARMUP,
    REPLAY_PASSES = 1000
};

struct replay_args {
    bool json;
    const char *device;
    struct replay_how how;
    char **files;
    size_t file_count;
};

static error_t replay_parse(int key, char *arg, struct argp_state *state) {
    struct replay_args *args = state->input;
    char *end = NULL;
    long passes = 0;
    switch (key) {
    case CLI_KEY_JSON:
        args->json = true;
        return 0;
    case CLI_KEY_DEVICE:
        args->device = arg;
        return 0;
    case REPLAY_KEY_POOL:
        if (strcmp(arg, "acre") != 0 && strcmp(arg, "driver") != 0) {
            argp_error(state, "--pool takes acre or driver, not '%s'", arg);
        }
        args->how.pool = strcmp(arg, "driver") == 0 ? REPLAY_DRIVER : REPLAY_ACRE;
        return 0;
    case REPLAY_KEY_PASSES:
        passes = strtol(arg, &end, 10);
        if (!*arg || *end || passes < 1 || passes > REPLAY_PASSES) {
            argp_error(state, "--passes takes a number from 1 to %d, not '%s'", REPLAY_PASSES, arg);
        }
        args->how.passes = (unsigned)passes;
        return 0;
    case REPLAY_KEY_LAG:
        if (acre__parse_lag(arg, &args->how.lag_operations, &args->how.lag_ns)) {
            argp_error(state, "--lag takes operations (1000) or milliseconds (5ms), not '%s'", arg);
        }
        return 0;
    case REPLAY_KEY_THREADS:
        args->how.threads = true;
        return 0;
    case REPLAY_KEY_WARMUP:
        if (acre__parse_number(arg, &args->how.warmup)) {
            argp_error(state, "--warmup takes a number of operations, not '%s'", arg);
        }
        return 0;
    case ARGP_KEY_ARGS:
        args->files = state->argv + state->next;
        args->file_count = (size_t)(state->argc - state->next);
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "no file given");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Replays all files, also after a failure. Returns the largest exit code. */
static int replay_files(acre_device *device, const struct replay_args *args,
                        struct replay_results *results) {
    int worst = CLI_OK;
    for (size_t i = 0; i < args->file_count; i++) {
        const char *path = file_name(args->files[i]);
        struct events events;
        int code = events_read(args->files[i], &events);
        code = code ? code : events_settle(path, &events);
        if (code == CLI_OK) {
            code = replay_run(device, &args->how, path, &events, results);
            events_free(&events);
        }
        worst = code > worst ? code : worst;
    }
    return worst;
}

static const struct argp_option replay_options[] = {
    {"json", CLI_KEY_JSON, NULL, 0, "print JSON (schema acre-replay/1) instead of a table", 0},
    {"device", CLI_KEY_DEVICE, "NAME", 0,
     "device to use: auto, cuda, cuda:1, soft, soft:1, ... (default: auto)", 0},
    {"pool", REPLAY_KEY_POOL, "NAME", 0,
     "pool to use: acre (default), or driver (cuMemAllocAsync and cuMemFreeAsync)", 0},
    {"passes", REPLAY_KEY_PASSES, "N", 0,
     "replay each file N times on one pool, 1 to 1000 (default: 1). Blocks that are live at the "
     "end of a pass are freed before the next",
     0},
    {"lag", REPLAY_KEY_LAG, "N|Nms", 0,
     "let the device lag N operations, or N milliseconds, behind the host, as a busy GPU does; "
     "every operation then queues work on its block. On a GPU at most 1000 operations (default: no "
     "lag)",
     0},
    {"threads", REPLAY_KEY_THREADS, NULL, 0,
     "replay each thread of the trace in its own thread, at most 256; they take turns in the order "
     "of the trace",
     0},
    {"warmup", REPLAY_KEY_WARMUP, "N", 0,
     "do not count the driver calls, and bytes created and released, of the first N operations of "
     "each pass (default: 0)",
     0},
    {0}};

int cmd_replay(int argc, char **argv) {
    const struct argp argp = {
        .options = replay_options,
        .parser = replay_parse,
        .args_doc = "FILE...",
        .doc = "Replays allocation traces on a pool and measures the time of calls and the memory "
               "that the pool reserves.\v"
               "Files:\n"
               "  acre       a trace that acre wrote (ACRE_TRACE)\n"
               "  rmm        RMM's log: Thread,Time,Action,Pointer,Size,Stream\n"
               "  lifetimes  id,lower,upper,size, as for 'acre plan'; at equal times frees\n"
               "             come first\n"
               "  torch      PyTorch's memory snapshot (torch.cuda.memory._dump_snapshot);\n"
               "             nothing in it is executed\n"
               "The contents of a file determine its format. A file may be compressed with\n"
               "gzip. FILE '-' is standard input.\n"
               "\n"
               "The pool has default options. Each stream of the trace has its own stream of\n"
               "the device. The calls are made in the order of the file, by one thread unless\n"
               "--threads is given.\n"
               "\n"
               "Columns:\n"
               "  PASS         number of the pass over the file, from 1\n"
               "  OPS          operations replayed\n"
               "  P50, P99     median and 99th percentile of the time of a call, minus the\n"
               "               cost of reading the clock\n"
               "  LIVE         peak of requested bytes that are live\n"
               "  LOWER BOUND  that peak in whole chunks: no pool can reserve less\n"
               "  RESERVED     largest drop of the device's free memory since before the pool\n"
               "               was created; queried from the driver after each call, so other\n"
               "               processes on the device disturb it\n"
               "  RES/LIVE     RESERVED divided by LIVE\n"
               "  CALLS        driver calls for memory: create, map, set access, unmap,\n"
               "               release, alloc. A pass includes those of the frees before it\n"
               "  CREATED      bytes of physical memory created\n"
               "  RELEASED     bytes of physical memory released\n"
               "  MOVED        chunks moved to other addresses, or released so that others\n"
               "               could be mapped\n"
               "  WAITS        waits inserted into streams\n"
               "The columns from CALLS on are for acre's pool only.\n"
               "\n"
               "All files are replayed, and the exit status is the largest one. A damaged file\n"
               "is refused with its line and column.\n"
               "\n"
               "Examples:\n"
               "  acre replay training.rmm.csv.gz\n"
               "  ACRE_SOFT_BYTES=64GiB acre replay --device soft *.csv.gz --passes 2\n"
               "  acre replay --lag 1000 training.rmm.csv.gz\n"
               "  acre replay trace.csv --pool driver\n"
               "  acre replay *.csv --json | jq '.results[] | {file, reserved_over_requested}'\n"
               "\n"
               "Exit status:\n"
               "  0   success\n"
               "  1   the device has too little memory for a trace\n"
               "  2   a file is damaged, or a trace could not be replayed\n"
               "  64  wrong usage\n"};
    struct replay_args args = {.how = {.passes = 1}};
    if (cli_argp_parse(&argp, argc, argv, 0, &args) != 0) {
        return CLI_USAGE;
    }
    cli_log_to_stderr();
    acre_device *device = NULL;
    acre_device_info info = {.struct_size = sizeof info};
    acre_status status = acre_open(args.device, NULL, &device);
    status = status ? status : acre_device_get_info(device, &info);
    if (status) {
        cli_say_failure("cannot open the device", status);
        return CLI_CANNOT;
    }
    struct replay_results results = {0};
    int code = CLI_CANNOT;
    if (replay_has(device, args.how.pool)) {
        code = replay_files(device, &args, &results);
        if (args.json) {
            replay_print_json(&results, &info, &args.how);
        } else {
            replay_print(&results);
        }
    } else {
        cli_say("--pool driver is not supported on %s: the driver lacks cuMemAllocAsync",
                info.driver);
    }
    for (size_t i = 0; i < results.count; i++) {
        free(results.list[i].failed);
    }
    free(results.list);
    acre_close(device);
    return code;
}
