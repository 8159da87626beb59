/* acre demo: tries each part of acre on one device, prints a row for each, and writes a page with
 * the results. A new part of acre gets a row here and a figure on the page. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "demo.h"

static const uint64_t DEMO_ROOM = (uint64_t)512 << 20; /* for the parts of demo_programs */

/* The state of a run besides its result. Streams and events are NULL until they are created. */
struct demo {
    const char *device_name;
    const char *folder; /* for the page */
    bool force;         /* replaces files that acre did not write */
    acre_device *device;
    acre_stream streams[2];
    acre_event events[DEMO_HANDOVERS];
    uint64_t begin_ns; /* of the first step */
    const char *doing; /* the current action, for the message if a call fails */
    struct demo_result *result;
};

/* Runs one call. On failure returns its status from the calling function. */
#define DEMO_TRY(demo, what, call)                                                                 \
    do {                                                                                           \
        (demo)->doing = (what);                                                                    \
        acre_status demo_status = (call);                                                          \
        if (demo_status != ACRE_OK) {                                                              \
            return demo_status;                                                                    \
        }                                                                                          \
    } while (0)

static void demo_part(struct demo *demo, const char *name, bool ok, uint64_t time_ns,
                      const char *format, ...) __attribute__((format(printf, 5, 6)));

static void demo_part(struct demo *demo, const char *name, bool ok, uint64_t time_ns,
                      const char *format, ...) {
    struct demo_part *part = &demo->result->parts[demo->result->part_count++];
    *part = (struct demo_part){.name = name, .ok = ok, .time_ns = time_ns};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(part->text, sizeof part->text, format, arguments);
    va_end(arguments);
}

/* ---- device ---------------------------------------------------------------------------------- */

static acre_status demo_open(struct demo *demo) {
    struct demo_result *result = demo->result;
    char bytes[CLI_NUMBER_BYTES], version[CLI_NUMBER_BYTES];
    uint64_t begin = cli_now_ns();
    demo->doing = "open";
    DEMO_TRY(demo, "open", acre_open(demo->device_name, NULL, &demo->device));
    result->open_ns = cli_now_ns() - begin;
    result->device = (acre_device_info){.struct_size = sizeof result->device};
    DEMO_TRY(demo, "read the properties of", acre_device_get_info(demo->device, &result->device));
    demo_part(demo, "device", true, result->open_ns, "%s:%" PRIu32 " opened: %s, %s, driver %s",
              result->device.driver, result->device.ordinal, result->device.name,
              cli_bytes(result->device.total_bytes, bytes),
              cli_driver_version(result->device.driver_version, version));
    return ACRE_OK;
}

/* ---- streams and events ---------------------------------------------------------------------- */

/* Makes one call, measures its time and records it as a step. */
static acre_status demo_step(struct demo *demo, enum demo_call call, uint32_t stream,
                             uint32_t event) {
    struct demo_result *result = demo->result;
    acre_status status = ACRE_E_INVALID;
    uint64_t begin = cli_now_ns();
    switch (call) {
    case DEMO_RECORD:
        demo->doing = "record an event on";
        status = acre_event_record(demo->device, demo->events[event], demo->streams[stream]);
        break;
    case DEMO_WAIT:
        demo->doing = "make a stream wait on";
        status = acre_stream_wait(demo->device, demo->streams[stream], demo->events[event]);
        break;
    case DEMO_SYNC:
        demo->doing = "wait for an event on";
        status = acre_event_sync(demo->device, demo->events[event]);
        break;
    }
    uint64_t end = cli_now_ns();
    if (result->step_count == 0) {
        demo->begin_ns = begin;
    }
    result->steps[result->step_count++] =
        (struct demo_step){call, stream, event, begin - demo->begin_ns, end - demo->begin_ns};
    return status;
}

/* Records event i on stream i % 2 and makes the other stream wait for it, as if work went back and
 * forth between the two streams. */
static acre_status demo_hand_over(struct demo *demo) {
    demo->result->step_count = 0;
    for (uint32_t i = 0; i < DEMO_HANDOVERS; i++) {
        DEMO_TRY(demo, demo->doing, demo_step(demo, DEMO_RECORD, i % 2, i));
        if (i + 1 < DEMO_HANDOVERS) {
            DEMO_TRY(demo, demo->doing, demo_step(demo, DEMO_WAIT, (i + 1) % 2, i));
        }
    }
    return demo_step(demo, DEMO_SYNC, (DEMO_HANDOVERS - 1) % 2, DEMO_HANDOVERS - 1);
}

/* Fits the device's clock to the host's. The device only reports differences between events. No
 * event can complete before its record call begins, and none after the last sync returns. These
 * limits leave a range of offsets between the clocks: its middle is used, and half of it is the
 * slack. */
static void demo_join_clocks(struct demo_result *result, const double device_ns[DEMO_HANDOVERS]) {
    double last_ns = (double)result->steps[result->step_count - 1].end_ns;
    double low = 0, high = last_ns - device_ns[DEMO_HANDOVERS - 1];
    for (size_t i = 0; i < result->step_count; i++) {
        const struct demo_step *step = &result->steps[i];
        if (step->call == DEMO_RECORD) {
            double offset = (double)step->begin_ns - device_ns[step->event];
            low = offset > low ? offset : low;
        }
    }
    double middle = low < high ? (low + high) / 2 : high;
    result->clock_slack_ns = low < high ? (high - low) / 2 : low - high;
    for (size_t i = 0; i < DEMO_HANDOVERS; i++) {
        result->done_ns[i] = device_ns[i] + middle;
    }
}

static acre_status demo_order(struct demo *demo) {
    double device_ns[DEMO_HANDOVERS] = {0};
    uint64_t begin = cli_now_ns();
    for (size_t i = 0; i < 2; i++) {
        DEMO_TRY(demo, "create a stream on",
                 acre_stream_create(demo->device, ACRE_STREAM_NON_BLOCKING, &demo->streams[i]));
    }
    for (size_t i = 0; i < DEMO_HANDOVERS; i++) {
        DEMO_TRY(demo, "create an event on",
                 acre_event_create(demo->device, ACRE_EVENT_TIMING, &demo->events[i]));
    }
    /* The first time warms up: the first calls load code and start threads, which would dominate
     * the timeline. */
    DEMO_TRY(demo, demo->doing, demo_hand_over(demo));
    DEMO_TRY(demo, demo->doing, demo_hand_over(demo));
    uint64_t end = cli_now_ns();

    /* The last event is complete, so all earlier events must be, in their order. */
    bool ordered = true;
    for (size_t i = 0; i < DEMO_HANDOVERS; i++) {
        acre_status status = acre_event_query(demo->device, demo->events[i]);
        if (status != ACRE_OK && status != ACRE_E_NOT_READY) {
            demo->doing = "query an event of";
            return status;
        }
        ordered = ordered && status == ACRE_OK;
    }
    for (size_t i = 1; ordered && i < DEMO_HANDOVERS; i++) {
        float milliseconds = 0;
        DEMO_TRY(demo, "measure the time between events of",
                 acre_event_elapsed(demo->device, demo->events[0], demo->events[i], &milliseconds));
        device_ns[i] = (double)milliseconds * 1e6;
        /* The event clock of a GPU has a resolution of up to a microsecond. */
        ordered = device_ns[i] >= device_ns[i - 1] - 1000;
    }
    demo_join_clocks(demo->result, device_ns);
    demo_part(demo, "streams and events", ordered, end - begin,
              ordered ? "2 streams waited for each other %d times, always in order"
                      : "2 streams waited for each other %d times, but ran out of order",
              DEMO_HANDOVERS - 1);
    return ACRE_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static acre_status demo_memory(struct demo *demo) {
    struct demo_result *result = demo->result;
    acre_status status = demo_kinds(demo->device, result->device.has_managed != 0,
                                    &result->parts[result->part_count++], &demo->doing);
    if (status == ACRE_OK) {
        status = demo_copies(demo->device, &result->parts[result->part_count++], &result->link,
                             &demo->doing);
    }
    if (status == ACRE_OK) {
        status = demo_pool(demo->device, &result->parts[result->part_count++], &demo->doing);
    }
    if (status == ACRE_OK) {
        status = demo_grow(demo->device, &result->device, &result->parts[result->part_count++],
                           &result->growth, &demo->doing);
    }
    if (status == ACRE_OK) {
        status = demo_plan(demo->device, &result->parts[result->part_count++], &result->plan,
                           &demo->doing);
    }
    return status;
}

static acre_status demo_programs(struct demo *demo) {
    struct demo_result *result = demo->result;
    bool is_soft = strcmp(result->device.driver, "soft") == 0;
    if (result->device.free_bytes < DEMO_ROOM) {
        static const char *const names[] = {"malloc in a kernel", "sharing", "tags and realloc",
                                            "limit and report"};
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            demo_part(demo, names[i], true, 0, "skipped: the device has less than 512 MiB free");
        }
        return ACRE_OK;
    }
    char name[CLI_NUMBER_BYTES];
    snprintf(name, sizeof name, "%s:%" PRIu32, result->device.driver, result->device.ordinal);
    acre_status status =
        demo_heap(demo->device, is_soft, &result->parts[result->part_count++], &demo->doing);
    if (status == ACRE_OK) {
        status = demo_share(demo->device, name, &result->parts[result->part_count++], &demo->doing);
    }
    (void)acre_trim(demo->device); /* cached chunks would be missing from the trace */
    bool is_traced = status == ACRE_OK && demo_report_begin(demo->folder);
    if (status == ACRE_OK) {
        status = demo_train(demo->device, &result->parts[result->part_count++], &demo->doing);
    }
    if (status == ACRE_OK) {
        status = demo_limit(demo->device, &result->parts[result->part_count++], &result->oom_report,
                            &demo->doing);
    }
    if (is_traced) {
        result->report = demo_report_end(demo->folder, demo->force);
    }
    return status;
}

/* ---- limbo ----------------------------------------------------------------------------------- */

static const char demo_fault[] = "cuEventDestroy:1:once";

/* Destroys an event while one failure of cuEventDestroy is planned (ACRE_FAULT). The statistic
 * limbo_count must count the event, and acre_trim must destroy it. If the user has set ACRE_FAULT,
 * that setting stays and no failure is planned. */
static acre_status demo_limbo(struct demo *demo, bool planned) {
    acre_event event = NULL;
    acre_device_stats before = {.struct_size = sizeof before};
    acre_device_stats after = {.struct_size = sizeof after};
    DEMO_TRY(demo, "open", acre_open(demo->device_name, NULL, &demo->device));
    DEMO_TRY(demo, "create an event on",
             acre_event_create(demo->device, ACRE_EVENT_DEFAULT, &event));
    (void)acre_event_destroy(demo->device, event); /* fails if planned; the statistics show it */
    DEMO_TRY(demo, "read the statistics of", acre_device_get_stats(demo->device, &before));
    uint64_t begin = cli_now_ns();
    DEMO_TRY(demo, "trim", acre_trim(demo->device));
    uint64_t end = cli_now_ns();
    DEMO_TRY(demo, "read the statistics of", acre_device_get_stats(demo->device, &after));
    demo->result->stats = after;
    bool ok = after.limbo_count == 0 && before.limbo_count == (planned ? 1 : 0);
    if (planned) {
        demo_part(demo, "limbo and trim", ok, end - begin,
                  "1 event destroy made to fail: %" PRIu64 " waiting for a retry, %" PRIu64
                  " after trim",
                  before.limbo_count, after.limbo_count);
    } else {
        demo_part(demo, "limbo and trim", ok, end - begin,
                  "%" PRIu64 " waiting for a retry, %" PRIu64 " after trim", before.limbo_count,
                  after.limbo_count);
    }
    return ACRE_OK;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static acre_status demo_close(struct demo *demo) {
    for (size_t i = 0; i < DEMO_HANDOVERS; i++) {
        if (demo->events[i]) {
            DEMO_TRY(demo, "destroy an event of",
                     acre_event_destroy(demo->device, demo->events[i]));
            demo->events[i] = NULL;
        }
    }
    for (size_t i = 0; i < 2; i++) {
        DEMO_TRY(demo, "destroy a stream of", acre_stream_destroy(demo->device, demo->streams[i]));
        demo->streams[i] = NULL;
    }
    acre_device *device = demo->device;
    demo->device = NULL;
    DEMO_TRY(demo, "close", acre_close(device));
    return ACRE_OK;
}

static acre_status demo_run(struct demo *demo) {
    acre_status status;
    if ((status = demo_open(demo)) != ACRE_OK || (status = demo_order(demo)) != ACRE_OK ||
        (status = demo_memory(demo)) != ACRE_OK || (status = demo_programs(demo)) != ACRE_OK ||
        (status = demo_close(demo)) != ACRE_OK) {
        return status;
    }
    demo_cuda(&demo->result->parts[demo->result->part_count++]);
    /* No device is open now, so no thread of the library reads the environment during setenv. */
    const char *own = getenv("ACRE_FAULT");
    bool planned = !(own && *own) && setenv("ACRE_FAULT", demo_fault, 1) == 0;
    if (planned) {
        (void)acre_log_set(NULL, NULL, ACRE_LOG_ERROR); /* the planned failure is expected */
    }
    status = demo_limbo(demo, planned);
    if (status != ACRE_OK) {
        return status;
    }
    if (planned) {
        cli_log_to_stderr();
        unsetenv("ACRE_FAULT");
    }
    return demo_close(demo);
}

static void demo_print_table(const struct demo_result *result, const char *page) {
    static const char *const titles[] = {"PART", "STATE", ">TIME", "DETAILS"};
    struct cli_table table;
    char text[CLI_NUMBER_BYTES];
    cli_table_begin(&table, titles, sizeof titles / sizeof titles[0]);
    for (size_t i = 0; i < result->part_count; i++) {
        const struct demo_part *part = &result->parts[i];
        cli_table_cell(&table, CLI_PLAIN, "%s", part->name);
        cli_table_cell(&table, part->ok ? CLI_GREEN : CLI_RED, "%s", part->ok ? "ok" : "failed");
        cli_table_cell(&table, CLI_PLAIN, "%s", cli_duration(part->time_ns, text));
        cli_table_cell(&table, CLI_PLAIN, "%s", part->text);
    }
    cli_table_end(&table);
    printf("\n");
    if (result->report) {
        printf("What it did with memory: %s\n", result->report);
    }
    printf("Page with the results: %s\n", page);
}

static json_t *demo_growth_json(const struct demo_growth *growth) {
    static const char *const names[DEMO_WAYS] = {"in_place", "copying"};
    json_t *object = json_object(), *sizes = json_array();
    for (size_t i = 0; i < growth->count; i++) {
        cli_json_append(sizes, cli_json_number((uint64_t)growth->bytes[i]));
    }
    cli_json_set(object, "sizes", sizes);
    for (size_t way = 0; way < DEMO_WAYS; way++) {
        json_t *grown = json_object(), *times = json_array();
        for (size_t i = 0; i < growth->count; i++) {
            cli_json_append(times, cli_json_number((uint64_t)growth->ns[way][i]));
        }
        cli_json_set(grown, "ns", times);
        cli_json_set(grown, "copied_bytes", cli_json_number(growth->info[way].copied_bytes));
        cli_json_set(grown, "moves", cli_json_number(growth->info[way].moves));
        cli_json_set(object, names[way], grown);
    }
    return object;
}

static json_t *demo_plan_json(const struct demo_plan *plan, const char *picture) {
    json_t *object = json_object();
    cli_json_set(object, "wishes", cli_json_number(plan->wishes.count));
    cli_json_set(object, "wanted_bytes", cli_json_number(plan->wanted_bytes));
    cli_json_set(object, "bytes", cli_json_number(plan->bytes));
    cli_json_set(object, "lower_bound_bytes", cli_json_number(plan->bound_bytes));
    cli_json_set(object, "picture", cli_json_text(picture));
    return object;
}

static void demo_print_json(const struct demo_result *result, const char *folder,
                            const char *page) {
    char *picture = cli_format("%s/plan.svg", folder);
    json_t *root = cli_json_begin("acre-demo/1");
    json_t *parts = json_array();
    cli_json_set(root, "device", cli_device_json(&result->device));
    for (size_t i = 0; i < result->part_count; i++) {
        json_t *part = json_object();
        cli_json_set(part, "part", cli_json_text(result->parts[i].name));
        cli_json_set(part, "ok", json_boolean(result->parts[i].ok));
        cli_json_set(part, "time_ns", cli_json_number(result->parts[i].time_ns));
        cli_json_set(part, "text", cli_json_text(result->parts[i].text));
        cli_json_append(parts, part);
    }
    cli_json_set(root, "parts", parts);
    cli_json_set(root, "measured", cli_link_json(&result->link));
    cli_json_set(root, "growth", demo_growth_json(&result->growth));
    cli_json_set(root, "plan", demo_plan_json(&result->plan, picture));
    free(picture);
    cli_json_set(root, "page", cli_json_text(page));
    cli_json_end(root);
}

static void demo_drop(struct demo_result *result) {
    wishes_free(&result->plan.wishes);
    free(result->oom_report);
    free(result->report);
}

int cmd_demo(int argc, char **argv) {
    static const struct argp_option options[] = {
        {"json", CLI_KEY_JSON, NULL, 0, "print JSON (schema acre-demo/1) instead of text", 0},
        {"device", CLI_KEY_DEVICE, "NAME", 0,
         "device to use: auto, cuda, cuda:1, soft, soft:1, ... (default: auto)", 0},
        {"output", CLI_KEY_OUTPUT, "FOLDER", 0,
         "folder for index.html and plan.svg; created if needed (default: acre-demo). '-' writes "
         "the page to standard output",
         0},
        {"force", CLI_KEY_FORCE, NULL, 0,
         "replace index.html and plan.svg even if acre did not write them", 0},
        {0}};
    struct cli_args args;
    struct demo_result result = {0};
    if (argc == 2 && strcmp(argv[1], DEMO_CUDA_PROGRAM) == 0) {
        return demo_cuda_program();
    }
    if (argc == 4 && strcmp(argv[1], DEMO_SHARE_PROGRAM) == 0) {
        return demo_share_program(argv[2], argv[3]);
    }
    cli_parse_args(
        argc, argv, options,
        "Tries every part of acre on one device and writes a page with the results.\v"
        "Parts:\n"
        "  device              opens the device\n"
        "  streams and events  two streams wait for each other\n"
        "  kinds of memory     copies through registered, device, pinned, mapped,\n"
        "                      managed and pageable memory\n"
        "  copies              bandwidth of pinned and pageable copies\n"
        "  pool                allocates and frees in stream order; compared with\n"
        "                      malloc\n"
        "  growing array       grows in place; compared with allocating and copying\n"
        "  plan                packs the buffers of a training step\n"
        "  malloc in a kernel  every thread makes a node of a list\n"
        "  sharing             another process maps an array\n"
        "  tags and realloc    training steps; a buffer that grows\n"
        "  limit and report    a request that a limit refuses, and why\n"
        "  CUDA's own calls    runs a program of the CUDA runtime on a soft device\n"
        "  limbo and trim      retries a destroy that failed\n"
        "\n"
        "The page index.html shows the device, the results, a timeline of the two\n"
        "streams, the bandwidth of copies, the growing array and the plan. It is\n"
        "complete in one file. The picture of the plan is also in plan.svg. report.html\n"
        "is what 'acre report' makes of demo.trace, a trace of the training steps.\n"
        "Files with these names are replaced only if acre wrote them, unless --force\n"
        "is given.\n"
        "\n"
        "Examples:\n"
        "  acre demo\n"
        "  acre demo --device soft --output /tmp/demo\n"
        "  acre demo --json | jq '.parts[] | select(.ok | not)'\n"
        "\n"
        "Exit status:\n"
        "  0   all parts worked\n"
        "  1   a part failed\n"
        "  2   the demo could not run, or could not write the page\n"
        "  64  wrong usage\n",
        &args);
    const char *folder = args.output ? args.output : "acre-demo";
    struct demo demo = {.device_name = args.device ? args.device : "auto",
                        .folder = folder,
                        .force = args.force,
                        .result = &result};
    if (demo_page_check(folder, args.force) != CLI_OK) {
        return CLI_CANNOT;
    }
    cli_log_to_stderr();
    acre_status status = demo_run(&demo);
    if (status != ACRE_OK) {
        char *what = cli_format("cannot %s %s", demo.doing, demo.device_name);
        cli_say_failure(what, status);
        free(what);
        demo_drop(&result);
        return CLI_CANNOT;
    }
    char *page = demo_page_write(&result, folder, args.force);
    if (!page) {
        demo_drop(&result);
        return CLI_CANNOT;
    }
    bool ok = true;
    for (size_t i = 0; i < result.part_count; i++) {
        ok = ok && result.parts[i].ok;
    }
    if (args.json) {
        demo_print_json(&result, folder, page);
    } else if (strcmp(folder, "-") != 0) {
        demo_print_table(&result, page);
    }
    free(page);
    demo_drop(&result);
    return ok ? CLI_OK : CLI_FINDING;
}
