/* The page of `acre demo`: one self-contained HTML file without scripts and external files, for
 * light and dark schemes. It is also well-formed XML, which a test checks.
 *
 * svg_escape escapes all text from outside (device names). */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "chart.h"
#include "demo.h"
#include "picture.h"
#include "svg.h"
#include "write_file.h"

/* ---- small pieces ---------------------------------------------------------------------------- */

static const char page_head[] =
    "<!DOCTYPE html>\n"
    "<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n"
    "<meta charset=\"utf-8\"/>\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
    "<meta name=\"color-scheme\" content=\"light dark\"/>\n"
    "<title>acre demo</title>\n"
    "<style>\n"
    ":root { --bg: #f6f5f1; --card: #ffffff; --ink: #1d2421; --soft: #66706b; --line: #e0dfd8;\n"
    "  --a: #0b7a75; --b: #c8671b; --sync: #6b5ca5; --good: #2f7d32; --bad: #b3261e; }\n"
    "@media (prefers-color-scheme: dark) { :root { --bg: #14181a; --card: #1c2225;\n"
    "  --ink: #e6ebe8; --soft: #93a09a; --line: #2e373b; --a: #3fc1b8; --b: #f0a05a;\n"
    "  --sync: #a99be0; --good: #7cc77f; --bad: #f2827a; } }\n"
    "* { box-sizing: border-box; }\n"
    "body { margin: 0; padding: 2.5rem 1.25rem 4rem; background: var(--bg); color: var(--ink);\n"
    "  font: 16px/1.5 system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; }\n"
    "main { max-width: 66rem; margin: 0 auto; }\n"
    "h1 { font-size: 1.9rem; margin: 0; letter-spacing: -0.02em; }\n"
    "h2 { font-size: 1.05rem; margin: 2.2rem 0 0.7rem; }\n"
    "p { margin: 0.3rem 0; } .soft { color: var(--soft); } .note { font-size: 0.86rem; }\n"
    ".card { background: var(--card); border: 1px solid var(--line); border-radius: 12px;\n"
    "  padding: 1.1rem 1.3rem; }\n"
    ".facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr));\n"
    "  gap: 0.8rem; margin-top: 1.4rem; }\n"
    ".facts b { display: block; font-size: 1.3rem; font-weight: 600; letter-spacing: -0.01em; }\n"
    ".facts span { color: var(--soft); font-size: 0.82rem; }\n"
    ".chips { margin-top: 0.9rem; display: flex; flex-wrap: wrap; gap: 0.4rem; }\n"
    ".chip { border: 1px solid var(--line); border-radius: 99px; padding: 0.1rem 0.7rem;\n"
    "  font-size: 0.82rem; }\n"
    ".chip.yes { border-color: var(--a); color: var(--a); }\n"
    ".chip.no { color: var(--soft); text-decoration: line-through; opacity: 0.75; }\n"
    "pre { overflow-x: auto; font-size: 0.82rem; margin: 0.6rem 0 0; }\n"
    "code { overflow-wrap: anywhere; } .narrow { display: none; }\n"
    "table { border-collapse: collapse; width: 100%; font-size: 0.92rem; }\n"
    "th { text-align: left; color: var(--soft); font-weight: 500; font-size: 0.82rem; }\n"
    "th, td { padding: 0.4rem 0.9rem 0.4rem 0; border-bottom: 1px solid var(--line);\n"
    "  vertical-align: top; }\n"
    "td:first-child { white-space: nowrap; }\n"
    "tr:last-child td { border-bottom: 0; }\n"
    "td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }\n"
    ".ok { color: var(--good); font-weight: 600; } .failed { color: var(--bad); font-weight: 600; "
    "}\n"
    "svg { display: block; width: 100%; height: auto; }\n"
    "svg text { fill: var(--soft); font-size: 12px; } svg .lane { fill: var(--ink);\n"
    "  font-size: 13px; font-weight: 600; }\n"
    "svg .grid { stroke: var(--line); } svg .rail { stroke: var(--line); stroke-width: 2; }\n"
    ".fa { fill: var(--a); } .fb { fill: var(--b); } .fs { fill: var(--sync); }\n"
    ".wait { fill-opacity: 0.38; }\n"
    "svg .drop { stroke: var(--soft); stroke-opacity: 0.35; stroke-dasharray: 2 3; fill: none; }\n"
    "svg .hop { fill: none; stroke-width: 1.6; } svg .hop.a { stroke: var(--a); }\n"
    "svg .hop.b { stroke: var(--b); } svg circle { stroke: var(--card); stroke-width: 1.5; }\n"
    ".key { display: flex; flex-wrap: wrap; gap: 0.3rem 1.2rem; font-size: 0.82rem;\n"
    "  color: var(--soft); margin-bottom: 0.6rem; }\n"
    ".key svg { display: inline-block; width: 14px; height: 10px; margin-right: 0.35rem; }\n"
    ".bar { display: grid; grid-template-columns: 12rem 1fr 6rem; gap: 0 0.8rem;\n"
    "  align-items: center; padding: 0.35rem 0; font-size: 0.92rem; }\n"
    ".bar b { font-weight: 600; } .bar span:last-child { font-variant-numeric: tabular-nums; }\n"
    ".bar i { display: block; height: 1.2rem; border-radius: 3px; min-width: 2px; }\n"
    ".bar i.fa { background: var(--a); } .bar i.fb { background: var(--b); }\n"
    "@media (max-width: 50rem) { body { padding: 1.5rem 0.8rem 3rem; }\n"
    "  .card { padding: 0.8rem 0.8rem; }\n"
    "  .facts { grid-template-columns: repeat(auto-fit, minmax(8rem, 1fr)); gap: 0.5rem; }\n"
    "  .facts b { font-size: 1.1rem; }\n"
    "  .wide { display: none; } .narrow { display: block; max-width: 34rem; margin: 0 auto; }\n"
    "  .bar { grid-template-columns: 1fr 5.5rem; } .bar b { grid-column: 1 / -1; }\n"
    "  tr { display: grid; grid-template-columns: 1fr auto auto; gap: 0 0.8rem;\n"
    "    padding: 0.5rem 0; border-bottom: 1px solid var(--line); }\n"
    "  tr:last-child { border-bottom: 0; } th, td { border: 0; padding: 0; }\n"
    "  td:first-child { font-weight: 600; }\n"
    "  .parts tr:first-child { display: none; } .parts td:last-child { grid-column: 1 / -1; }\n"
    "  .calls tr { grid-template-columns: repeat(4, 1fr); }\n"
    "  .calls td:first-child { grid-column: 1 / -1; } .calls th:first-child { display: none; } }\n"
    "</style>\n</head>\n<body>\n<main>\n";

/* ---- the device ------------------------------------------------------------------------------ */

static void page_fact(FILE *out, const char *value, const char *what) {
    fputs("<div class=\"card\"><b>", out);
    svg_escape(out, value);
    fprintf(out, "</b><span>%s</span></div>\n", what);
}

static void page_device(FILE *out, const struct demo_result *result) {
    const acre_device_info *info = &result->device;
    char text[CLI_NUMBER_BYTES];
    fputs("<h1>acre demo</h1>\n<p class=\"soft\">on ", out);
    svg_escape(out, info->driver);
    fprintf(out, ":%" PRIu32 ", ", info->ordinal);
    svg_escape(out, info->name);
    if (*info->bus_id && strcmp(info->driver, "soft") != 0) { /* soft devices are on no bus */
        fputs(", at ", out);
        svg_escape(out, info->bus_id);
    }
    fprintf(out, "; %s</p>\n<div class=\"facts\">\n", cli_date(text));
    page_fact(out, cli_bytes(info->total_bytes, text), "memory");
    page_fact(out, cli_bytes(info->free_bytes, text), "free");
    page_fact(out, info->granularity_bytes ? cli_bytes(info->granularity_bytes, text) : "none",
              "smallest chunk");
    page_fact(out, cli_driver_version(info->driver_version, text), "driver");
    snprintf(text, sizeof text, "%" PRIu32, info->multiprocessors);
    page_fact(out, text, "multiprocessors");
    page_fact(out, cli_duration(result->open_ns, text), "to open");
    fputs("</div>\n<div class=\"chips\">\n", out);
#define PAGE_CHIP(key, title, field)                                                               \
    fprintf(out, "<span class=\"chip %s\">%s</span>\n", info->field ? "yes" : "no", title);
    CLI_CAPABILITIES(PAGE_CHIP)
#undef PAGE_CHIP
    fputs("</div>\n", out);
}

static void page_parts(FILE *out, const struct demo_result *result) {
    char text[CLI_NUMBER_BYTES];
    fputs("<h2>Parts</h2>\n<div class=\"card\"><table "
          "class=\"parts\">\n<tr><th>part</th><th>state</th>"
          "<th class=\"n\">time</th><th>details</th></tr>\n",
          out);
    for (size_t i = 0; i < result->part_count; i++) {
        const struct demo_part *part = &result->parts[i];
        const char *state = part->ok ? "ok" : "failed";
        fprintf(out, "<tr><td>%s</td><td class=\"%s\">%s</td><td class=\"n\">%s</td><td>",
                part->name, state, state, cli_duration(part->time_ns, text));
        svg_escape(out, part->text);
        fputs("</td></tr>\n", out);
    }
    fputs("</table></div>\n", out);
}

/* A drawing is on the page twice, and the width of the window chooses one: scaled to a phone, the
 * letters of a wide drawing cannot be read. These are around its two forms. */
static const char page_wide[] = "<div class=\"wide\">\n",
                  page_narrow[] = "</div><div class=\"narrow\">\n", page_both[] = "</div>\n";

/* ---- the timeline ---------------------------------------------------------------------------- */

enum { LINE_HEIGHT = 286, LINE_TOP = 44, LINE_LEFT = 74, HOST_Y = 62, HOST_HEIGHT = 30 };

static const int line_stream_y[2] = {164, 244};

/* One timeline, for wide or narrow screens. */
struct page_scale {
    double span_ns;
    int width, right; /* the plot is from LINE_LEFT to `right` */
    int marks;        /* intervals on the axis, at most */
};

static double page_x(const struct page_scale *scale, double ns) {
    return LINE_LEFT + ns / scale->span_ns * (scale->right - LINE_LEFT);
}

static void page_axis(FILE *out, const struct page_scale *scale) {
    double step = svg_step(scale->span_ns, scale->marks);
    svg_text(out, "lane", (LINE_LEFT + scale->right) / 2.0, 14, SVG_MIDDLE,
             "time since the first call");
    int marks = (int)(scale->span_ns / step);
    for (int i = 0; i <= marks; i++) {
        char text[CLI_NUMBER_BYTES];
        double x = page_x(scale, i * step);
        svg_line(out, "grid", x, LINE_TOP, x, LINE_HEIGHT - 8);
        svg_text(out, NULL, x, 36, SVG_MIDDLE, "%s", svg_time(i * step, text));
    }
}

static const char *page_call_name(enum demo_call call) {
    static const char *const names[] = {"acre_event_record", "acre_stream_wait", "acre_event_sync"};
    return names[call];
}

static void page_host_lane(FILE *out, const struct demo_result *result,
                           const struct page_scale *scale) {
    for (size_t i = 0; i < result->step_count; i++) {
        const struct demo_step *step = &result->steps[i];
        char text[CLI_NUMBER_BYTES];
        double x = page_x(scale, (double)step->begin_ns);
        double width = page_x(scale, (double)step->end_ns) - x;
        const char *colour = step->stream ? "fb" : "fa";
        fprintf(out,
                "<rect class=\"%s%s\" x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" rx=\"1.5\">"
                "<title>%s, stream %c, event %" PRIu32 ": %s</title></rect>\n",
                step->call == DEMO_SYNC ? "fs" : colour, step->call == DEMO_WAIT ? " wait" : "", x,
                HOST_Y, width > 1.2 ? width : 1.2, HOST_HEIGHT, page_call_name(step->call),
                step->stream ? 'B' : 'A', step->event,
                cli_duration(step->end_ns - step->begin_ns, text));
    }
}

static void page_stream_lanes(FILE *out, const struct demo_result *result,
                              const struct page_scale *scale) {
    for (size_t i = 0; i < result->step_count; i++) { /* from the call to the completed event */
        const struct demo_step *step = &result->steps[i];
        if (step->call == DEMO_RECORD) {
            fprintf(out, "<path class=\"drop\" d=\"M%.2f %d L%.2f %d\"/>\n",
                    page_x(scale, (double)(step->begin_ns + step->end_ns) / 2),
                    HOST_Y + HOST_HEIGHT + 2, page_x(scale, result->done_ns[step->event]),
                    line_stream_y[step->stream] - 6);
        }
    }
    for (size_t i = 0; i + 1 < DEMO_HANDOVERS; i++) { /* one stream unblocks the other */
        double x = page_x(scale, result->done_ns[i]), next = page_x(scale, result->done_ns[i + 1]);
        int y = line_stream_y[i % 2], other = line_stream_y[(i + 1) % 2];
        int middle = (y + other) / 2;
        fprintf(out, "<path class=\"hop %c\" d=\"M%.2f %d C%.2f %d %.2f %d %.2f %d\"/>\n",
                i % 2 ? 'b' : 'a', x, y, x, middle, next, middle, next, other);
    }
    for (size_t i = 0; i < DEMO_HANDOVERS; i++) {
        char text[CLI_NUMBER_BYTES];
        double at = result->done_ns[i] > 0 ? result->done_ns[i] : 0;
        fprintf(
            out,
            "<circle class=\"%s\" cx=\"%.2f\" cy=\"%d\" r=\"5.5\"><title>event %zu completed on "
            "stream %c at %s</title></circle>\n",
            i % 2 ? "fb" : "fa", page_x(scale, result->done_ns[i]), line_stream_y[i % 2], i,
            i % 2 ? 'B' : 'A', cli_duration((uint64_t)at, text));
    }
}

static void page_key(FILE *out) {
    static const char *const keys[][2] = {{"fa", "record on A"},
                                          {"fa wait", "A waits"},
                                          {"fb", "record on B"},
                                          {"fb wait", "B waits"},
                                          {"fs", "the host waits"}};
    fputs("<div class=\"key\">", out);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        fprintf(out,
                "<span><svg viewBox=\"0 0 14 10\"><rect class=\"%s\" width=\"14\" height=\"10\" "
                "rx=\"2\"/></svg>%s</span>",
                keys[i][0], keys[i][1]);
    }
    fputs("</div>\n", out);
}

static void page_lanes(FILE *out, const struct demo_result *result,
                       const struct page_scale *scale) {
    svg_begin(out, NULL, scale->width, LINE_HEIGHT,
              "Timeline of the host's calls and of the events on two streams", NULL);
    page_axis(out, scale);
    svg_text(out, "lane", 2, HOST_Y + HOST_HEIGHT / 2.0 + 5, SVG_START, "host");
    for (int i = 0; i < 2; i++) {
        int y = line_stream_y[i];
        svg_text(out, "lane", 2, y + 5, SVG_START, "stream %c", i ? 'B' : 'A');
        svg_line(out, "rail", LINE_LEFT, y, scale->right, y);
    }
    page_host_lane(out, result, scale);
    page_stream_lanes(out, result, scale);
    svg_end(out);
}

static void page_timeline(FILE *out, const struct demo_result *result) {
    double span = 1;
    for (size_t i = 0; i < result->step_count; i++) {
        span = (double)result->steps[i].end_ns > span ? (double)result->steps[i].end_ns : span;
    }
    const struct page_scale wide = {span, 1000, 964, 9}, narrow = {span, 400, 370, 4};
    char text[CLI_NUMBER_BYTES];
    fputs("<h2>Two streams wait for each other</h2>\n<div class=\"card\">\n", out);
    page_key(out);
    fputs(page_wide, out);
    page_lanes(out, result, &wide);
    fputs(page_narrow, out);
    page_lanes(out, result, &narrow);
    fputs(page_both, out);
    fprintf(out,
            "<p class=\"soft note\">Above: the duration of each call on the host. Below: when the "
            "device completed each event; a curve leads from an event to the stream that waited "
            "for it. The device's clock is fitted to the host's, so that no event completes before "
            "its call or after the final wait; its error is at most %s.</p>\n</div>\n",
            cli_duration((uint64_t)result->clock_slack_ns, text));
}

/* ---- copies ---------------------------------------------------------------------------------- */

static void page_copies(FILE *out, const struct demo_result *result) {
    const struct cli_link *link = &result->link;
    const struct {
        const char *name, *colour;
        double speed;
    } bars[] = {{"to device, pinned", "fa", link->pinned_h2d},
                {"to device, pageable", "fb", link->pageable_h2d},
                {"to host, pinned", "fa", link->pinned_d2h},
                {"to host, pageable", "fb", link->pageable_d2h}};
    enum { BARS = sizeof bars / sizeof bars[0] };
    char text[CLI_NUMBER_BYTES];
    double most = 1e-9;
    for (size_t i = 0; i < BARS; i++) {
        most = bars[i].speed > most ? bars[i].speed : most;
    }
    fprintf(out,
            "<h2>Copies of %s</h2>\n<div class=\"card\">\n"
            "<p class=\"soft note\">bandwidth in GB/s, 10^9 bytes per second</p>\n",
            cli_bytes(link->bytes, text));
    for (int i = 0; i < BARS; i++) {
        fprintf(out,
                "<div class=\"bar\"><b>%s</b><span><i class=\"%s\" style=\"width: %.1f%%\"></i>"
                "</span><span>%.1f GB/s</span></div>\n",
                bars[i].name, bars[i].colour, 100 * bars[i].speed / most, bars[i].speed);
    }
    fprintf(out,
            "<p class=\"soft note\">The device reads and writes pinned memory directly. acre "
            "copies pageable memory, such as memory from malloc, through pinned staging buffers "
            "with several threads. Copies inside the device: %.0f GB/s.</p>\n</div>\n",
            link->d2d);
}

/* ---- growth ---------------------------------------------------------------------------------- */

static void page_growth(FILE *out, const struct demo_result *result) {
    static const char *const names[DEMO_WAYS] = {"acre_vec", "a larger block, a copy, a free"};
    /* Curve numbers choose the colours: the same as in the chart of acre bench grow. */
    static const size_t places[DEMO_WAYS] = {0, 4};
    const struct demo_growth *growth = &result->growth;
    char *note = cli_device_note(&result->device);
    struct chart chart = {.title = "Time to grow an array to a size, in place and by copying",
                          .x_title = "size of the array",
                          .y_title = "cumulative time",
                          .note = note,
                          .panel_count = 1};
    struct chart_panel *panel = &chart.panels[0];
    panel->title = "doubling";
    panel->curve_count = CHART_CURVES;
    for (size_t way = 0; way < DEMO_WAYS; way++) {
        panel->curves[places[way]] =
            (struct chart_curve){names[way], growth->bytes, growth->ns[way], growth->count, false};
    }
    fputs("<h2>An array that grows</h2>\n<div class=\"card\">\n", out);
    fputs(page_wide, out);
    chart_write(out, &chart);
    fputs(page_narrow, out);
    chart.is_narrow = true;
    chart_write(out, &chart);
    fputs(page_both, out);
    free(note);
    char text[CLI_NUMBER_BYTES];
    fprintf(out,
            "<p class=\"soft note\">Both arrays double from 2 MiB on and keep their contents. "
            "acre_vec maps more physical memory to reserved addresses: %s copied, ",
            cli_bytes(growth->info[DEMO_IN_PLACE].copied_bytes, text));
    fprintf(out,
            "address changed %" PRIu64 " times. The other array allocates a larger block and "
            "copies: %s copied, address changed %" PRIu64
            " times; old and new block need memory at the same time.</p>\n</div>\n",
            growth->info[DEMO_IN_PLACE].moves,
            cli_bytes(growth->info[DEMO_COPYING].copied_bytes, text),
            growth->info[DEMO_COPYING].moves);
}

/* ---- the plan -------------------------------------------------------------------------------- */

static struct picture page_picture(const struct demo_plan *plan) {
    return (struct picture){.wishes = &plan->wishes,
                            .title = "Plan of a training step",
                            .time_unit = "steps: forwards through the layers, then backwards",
                            .bytes = plan->bytes,
                            .lower_bound = plan->bound_bytes};
}

static void page_plan(FILE *out, const struct demo_result *result) {
    const struct demo_plan *plan = &result->plan;
    struct picture picture = page_picture(plan);
    char text[2][CLI_NUMBER_BYTES];
    fputs("<h2>Planned memory</h2>\n<div class=\"card\">\n", out);
    fputs(page_wide, out);
    picture_write(out, &picture);
    fputs(page_narrow, out);
    picture.is_narrow = true;
    picture_write(out, &picture);
    fputs(page_both, out);
    fprintf(out,
            "<p class=\"soft note\">A program declares its buffers and their lifetimes in advance. "
            "acre packs them into one block, in which buffers that are not live at the same time "
            "share memory: %zu buffers of %s in %s. Each buffer was filled in its first step and "
            "checked in its last. Point at a box to see its buffer.</p>\n</div>\n",
            plan->wishes.count, cli_bytes(plan->wanted_bytes, text[0]),
            cli_bytes(plan->bytes, text[1]));
}

/* ---- the calls ------------------------------------------------------------------------------- */

static int page_compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void page_calls(FILE *out, const struct demo_result *result) {
    fputs("<h2>Time of calls on the host</h2>\n<div class=\"card\"><table "
          "class=\"calls\">\n<tr><th>call"
          "</th><th class=\"n\">calls</th><th class=\"n\">minimum</th><th class=\"n\">median</th>"
          "<th class=\"n\">maximum</th></tr>\n",
          out);
    for (int call = DEMO_RECORD; call <= DEMO_SYNC; call++) {
        uint64_t times[DEMO_STEPS];
        size_t count = 0;
        for (size_t i = 0; i < result->step_count; i++) {
            if (result->steps[i].call == (enum demo_call)call) {
                times[count++] = result->steps[i].end_ns - result->steps[i].begin_ns;
            }
        }
        if (count == 0) {
            continue;
        }
        qsort(times, count, sizeof times[0], page_compare);
        char least[CLI_NUMBER_BYTES], median[CLI_NUMBER_BYTES], most[CLI_NUMBER_BYTES];
        fprintf(out,
                "<tr><td>%s</td><td class=\"n\">%zu</td><td class=\"n\">%s</td><td class=\"n\">%s"
                "</td><td class=\"n\">%s</td></tr>\n",
                page_call_name((enum demo_call)call), count, cli_duration(times[0], least),
                cli_duration(times[count / 2], median), cli_duration(times[count - 1], most));
    }
    fputs("</table></div>\n", out);
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Creates a folder and its parents. Returns 0, or -1 with errno. */
static int page_make_folders(const char *folder) {
    char *path = cli_format("%s", folder);
    int result = 0;
    for (char *slash = path + 1; result == 0; slash++) {
        if (*slash != '/' && *slash != '\0') {
            continue;
        }
        char was = *slash;
        *slash = '\0';
        if (mkdir(path, 0777) != 0 && errno != EEXIST) {
            result = -1;
        }
        *slash = was;
        if (was == '\0') {
            break;
        }
    }
    int error = errno;
    free(path);
    errno = error;
    return result;
}

static void page_report(FILE *out, const struct demo_result *result) {
    if (result->report) {
        fputs("<p class=\"note\">What the training steps of this demo did with memory: "
              "<a href=\"report.html\">report.html</a>, by <code>acre report</code>.</p>\n",
              out);
    }
}

static void page_oom(FILE *out, const struct demo_result *result) {
    if (!result->oom_report) {
        return;
    }
    fputs("<h2>Out of memory, explained</h2>\n<div class=\"card\"><p class=\"soft note\">What a "
          "program gets from <code>acre_oom_report</code> when a pool refuses a request: here "
          "because of its limit.</p>\n<pre>",
          out);
    svg_escape(out, result->oom_report);
    fputs("</pre></div>\n", out);
}

static void page_write(const struct demo_result *result, FILE *out) {
    fputs(page_head, out);
    page_device(out, result);
    page_parts(out, result);
    page_report(out, result);
    page_timeline(out, result);
    page_copies(out, result);
    page_growth(out, result);
    page_plan(out, result);
    page_oom(out, result);
    page_calls(out, result);
    fprintf(out,
            "<p class=\"soft note\" style=\"margin-top: 2rem\">acre %s, <code>acre demo</code>"
            "</p>\n</main>\n</body>\n</html>\n",
            acre_version());
}

static struct write_file page_output(const char *path, enum write_kind kind, bool force) {
    return (struct write_file){.path = path, .kind = kind, .force = force, .makes_folder = true};
}

int demo_page_check(const char *folder, bool force) {
    if (*folder == '\0') { /* "/index.html" would be in the root folder */
        cli_say("the name of the output folder is empty");
        return CLI_CANNOT;
    }
    if (write_is_stdout(folder)) {
        return CLI_OK;
    }
    char *page = cli_format("%s/index.html", folder), *picture = cli_format("%s/plan.svg", folder);
    const struct write_file files[] = {page_output(page, WRITE_PAGE, force),
                                       page_output(picture, WRITE_SVG, force)};
    int code = write_check(&files[0]);
    code = code ? code : write_check(&files[1]);
    free(page);
    free(picture);
    return code;
}

/* Writes the page, then the picture, so that the picture never belongs to an older page. */
static int page_write_files(const struct demo_result *result, const char *folder, const char *page,
                            bool force) {
    const struct picture drawn = page_picture(&result->plan);
    char *path = cli_format("%s/plan.svg", folder);
    struct write_file index = page_output(page, WRITE_PAGE, force);
    struct write_file picture = page_output(path, WRITE_SVG, force);
    page_write(result, write_begin(&index));
    int code = write_end(&index);
    if (code == CLI_OK && !write_is_stdout(page)) {
        picture_write(write_begin(&picture), &drawn);
        code = write_end(&picture);
    }
    free(path);
    return code;
}

bool demo_page_folder(const char *folder) {
    if (page_make_folders(folder) != 0) {
        cli_say("cannot create the folder %s: %s", folder, strerror(errno));
        return false;
    }
    return true;
}

char *demo_page_write(const struct demo_result *result, const char *folder, bool force) {
    bool is_stdout = write_is_stdout(folder);
    if (!is_stdout && !demo_page_folder(folder)) {
        return NULL;
    }
    char *path = is_stdout ? cli_format("-") : cli_format("%s/index.html", folder);
    if (page_write_files(result, folder, path, force) != CLI_OK) {
        free(path);
        return NULL;
    }
    return path;
}
