/* The picture of a plan: axes, lines, legend and live bytes; see picture.h. */
#include "picture.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "svg.h"

/* Colours are in plain rules, since viewers other than browsers do not support CSS variables. In
 * both schemes small buffers have colours close to the background, large ones far from it. */
static const char picture_style[] =
    "<style>\n"
    ".pl .bg { fill: #ffffff; }\n"
    ".pl text { font: 12px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif;\n"
    "  fill: #66706b; }\n"
    ".pl .t { fill: #1d2421; font-size: 15px; font-weight: 600; } .pl .s { fill: #1d2421; }\n"
    ".pl .free { fill: #f3f2ed; } .pl .g { stroke: #dddcd5; stroke-width: 1; }\n"
    ".pl .b { stroke: #ffffff; stroke-width: 0.6; }\n"
    ".pl .e { stroke: #1d2421; stroke-width: 1.4; fill: none; }\n"
    ".pl .l { stroke: #b3261e; stroke-width: 1.2; stroke-dasharray: 6 4; fill: none; }\n"
    ".pl .c { stroke: #8455b0; stroke-width: 1.2; stroke-dasharray: 2 3; fill: none; }\n"
    ".pl .live { fill: #0b7a75; fill-opacity: 0.25; stroke: #0b7a75; stroke-width: 1; }\n"
    ".pl .c0 { fill: #d3eee0; } .pl .c1 { fill: #a4dac4; } .pl .c2 { fill: #6cc0ae; }\n"
    ".pl .c3 { fill: #3fa3a5; } .pl .c4 { fill: #2b83a0; } .pl .c5 { fill: #2d6296; }\n"
    ".pl .c6 { fill: #3a3f82; } .pl .c7 { fill: #43205f; }\n"
    ".pl .n { font-size: 11px; } .pl .n0 { fill: #12302b; } .pl .n1 { fill: #ffffff; }\n"
    "@media (prefers-color-scheme: dark) {\n"
    ".pl .bg { fill: #1c2225; } .pl text { fill: #93a09a; }\n"
    ".pl .t, .pl .s { fill: #e6ebe8; } .pl .free { fill: #242c30; } .pl .g { stroke: #39444a; }\n"
    ".pl .b { stroke: #1c2225; } .pl .e { stroke: #e6ebe8; } .pl .l { stroke: #f2827a; }\n"
    ".pl .c { stroke: #bd9be6; } .pl .live { fill: #3fc1b8; stroke: #3fc1b8; }\n"
    ".pl .c0 { fill: #1f4c4d; } .pl .c1 { fill: #216764; } .pl .c2 { fill: #28857b; }\n"
    ".pl .c3 { fill: #43a58e; } .pl .c4 { fill: #6cc09a; } .pl .c5 { fill: #9dd7a6; }\n"
    ".pl .c6 { fill: #cfe9b2; } .pl .c7 { fill: #f5f4c6; }\n"
    ".pl .n0 { fill: #f1f6f3; } .pl .n1 { fill: #10201c; } }\n"
    "</style>\n";

double picture_x(const struct picture_frame *frame, int64_t time) {
    /* Subtract before converting: times of 63 bits lose precision as doubles. */
    double part = (double)((uint64_t)time - (uint64_t)frame->first) / (double)frame->span;
    return frame->left + part * (frame->right - frame->left);
}

double picture_y(const struct picture_frame *frame, double address) {
    double part = address / frame->top_bytes;
    return frame->bottom - part * (frame->bottom - frame->top);
}

const char *picture_bytes(double bytes, char text[CLI_NUMBER_BYTES]) {
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t power = 0;
    while (bytes >= 1024 && power + 1 < sizeof unit / sizeof unit[0]) {
        bytes /= 1024;
        power++;
    }
    snprintf(text, CLI_NUMBER_BYTES, "%.4g %s", bytes, unit[power]);
    return text;
}

/* ---- axes ------------------------------------------------------------------------------------ */

/* Draws the address axis: at most eight marks, a power of two apart. */
static void picture_addresses(FILE *out, const struct picture_frame *frame) {
    double step = 1;
    char text[CLI_NUMBER_BYTES];
    while (frame->top_bytes / step > 8) {
        step *= 2;
    }
    for (int i = 0; i * step <= frame->top_bytes; i++) {
        double y = picture_y(frame, i * step);
        svg_line(out, "g", frame->left, y, frame->right, y);
        svg_text(out, NULL, frame->left - 8, y + 4, SVG_END, "%s", picture_bytes(i * step, text));
    }
}

/* Draws the time axis: at most ten marks, four in a narrow picture, 1, 2 or 5 times a power of ten
 * apart. */
static void picture_times(FILE *out, const struct picture_frame *frame) {
    int64_t step = (int64_t)svg_step((double)frame->span, frame->picture->is_narrow ? 4 : 10);
    uint64_t to_next = (uint64_t)((step - frame->first % step) % step);
    for (uint64_t i = 0; i <= 10 && to_next + i * (uint64_t)step <= frame->span; i++) {
        int64_t at = frame->first + (int64_t)(to_next + i * (uint64_t)step);
        double x = picture_x(frame, at);
        svg_line(out, "g", x, frame->top, x, frame->bottom);
        svg_line(out, "g", x, frame->live_top, x, frame->live_bottom);
        svg_text(out, NULL, x, frame->live_bottom + 17, SVG_MIDDLE, "%" PRId64, at);
    }
    svg_text(out, NULL, (frame->left + frame->right) / 2.0, frame->live_bottom + 36, SVG_MIDDLE,
             "%s", frame->picture->time_unit);
    svg_text_upright(out, NULL, 16, (frame->top + frame->bottom) / 2.0, "address");
    svg_text_upright(out, NULL, 16, (frame->live_top + frame->live_bottom) / 2.0, "live");
}

/* ---- levels: the plan, its lower bound, the capacity ----------------------------------------- */

/* Draws a horizontal line with its name on the right, below the name of the line above. */
static void picture_level(FILE *out, const struct picture_frame *frame, const char *class,
                          const char *name, uint64_t bytes, double *next_y) {
    char text[CLI_NUMBER_BYTES];
    double y = picture_y(frame, (double)bytes);
    double text_y = y + 4 > *next_y ? y + 4 : *next_y;
    *next_y = text_y + 36;
    svg_line(out, class, frame->left, y, frame->right, y);
    if (frame->picture->is_narrow) { /* the head has the figures */
        return;
    }
    svg_text(out, "s", frame->right + 8, text_y, SVG_START, "%s", name);
    svg_text(out, NULL, frame->right + 8, text_y + 15, SVG_START, "%s",
             picture_bytes((double)bytes, text));
}

/* Draws the levels from the highest down. A level equal to the plan shares its line. */
static void picture_levels(FILE *out, const struct picture_frame *frame) {
    const struct picture *picture = frame->picture;
    uint64_t bytes = picture->bytes, capacity = picture->capacity;
    const char *name = bytes == picture->lower_bound ? "plan, lower bound"
                       : bytes == capacity           ? "plan, capacity"
                                                     : "plan";
    double next_y = 0;
    if (capacity > bytes && (double)capacity <= frame->top_bytes) {
        picture_level(out, frame, "c", "capacity", capacity, &next_y);
    }
    picture_level(out, frame, "e", name, bytes, &next_y);
    if (capacity && capacity < bytes) {
        picture_level(out, frame, "c", "capacity", capacity, &next_y);
    }
    if (picture->lower_bound < bytes) {
        picture_level(out, frame, "l", "lower bound", picture->lower_bound, &next_y);
    }
}

/* ---- live bytes ------------------------------------------------------------------------------ */

struct live_change {
    int64_t time;
    uint64_t size;
    bool is_end;
};

/* Sorts by time, ends first: a buffer that ends at a time is not live then. */
static int live_compare(const void *a, const void *b) {
    const struct live_change *x = a, *y = b;
    if (x->time != y->time) {
        return x->time < y->time ? -1 : 1;
    }
    return (y->is_end > x->is_end) - (y->is_end < x->is_end);
}

struct live_curve {
    double most[PICTURE_COLUMNS]; /* maximum of live bytes, by column of pixels */
    double peak;
    int64_t peak_begin, peak_end; /* the first interval at the peak */
};

static int live_column(const struct picture_frame *frame, int64_t time) {
    int column = (int)(picture_x(frame, time) - frame->left);
    int last = frame->right - frame->left - 1;
    return column < 0 ? 0 : column > last ? last : column;
}

static void live_span(const struct picture_frame *frame, struct live_curve *curve, int64_t from,
                      int64_t to, double live) {
    int last = live_column(frame, to);
    for (int i = live_column(frame, from); i <= last; i++) {
        curve->most[i] = live > curve->most[i] ? live : curve->most[i];
    }
    if (live > curve->peak) {
        curve->peak = live;
        curve->peak_begin = from;
        curve->peak_end = to;
    }
}

static void live_count(const struct picture_frame *frame, struct live_curve *curve) {
    const struct wishes *wishes = frame->picture->wishes;
    struct live_change *changes = cli_alloc(2 * wishes->count * sizeof *changes);
    double live = 0;
    for (size_t i = 0; i < wishes->count; i++) {
        const struct acre__place_buffer *buffer = &wishes->list[i];
        changes[2 * i] = (struct live_change){buffer->lower, buffer->size, false};
        changes[2 * i + 1] = (struct live_change){buffer->upper, buffer->size, true};
    }
    if (wishes->count) {
        qsort(changes, 2 * wishes->count, sizeof *changes, live_compare);
    }
    for (size_t i = 0; i + 1 < 2 * wishes->count; i++) {
        live += changes[i].is_end ? -(double)changes[i].size : (double)changes[i].size;
        if (changes[i].time < changes[i + 1].time) {
            live_span(frame, curve, changes[i].time, changes[i + 1].time, live);
        }
    }
    free(changes);
}

static void picture_live(FILE *out, const struct picture_frame *frame) {
    struct live_curve *curve = cli_alloc(sizeof *curve);
    char text[CLI_NUMBER_BYTES];
    live_count(frame, curve);
    double scale = (frame->live_bottom - frame->live_top) / (curve->peak > 0 ? curve->peak : 1);
    fprintf(out, "<path class=\"live\" d=\"M%d %d", frame->left, frame->live_bottom);
    for (int i = 0; i < frame->right - frame->left; i++) {
        if (i == 0 || curve->most[i] != curve->most[i - 1]) {
            fprintf(out, "H%dV%.1f", frame->left + i, frame->live_bottom - curve->most[i] * scale);
        }
    }
    fprintf(out, "H%dV%dZ\"/>\n", frame->right, frame->live_bottom);
    double x = (picture_x(frame, curve->peak_begin) + picture_x(frame, curve->peak_end)) / 2;
    svg_line(out, "l", x, frame->top, x, frame->live_bottom);
    if (frame->picture->is_narrow) {
        free(curve);
        return;
    }
    svg_text(out, "s", frame->right + 8, frame->live_top + 8, SVG_START, "peak");
    svg_text(out, NULL, frame->right + 8, frame->live_top + 23, SVG_START, "%s",
             picture_bytes(curve->peak, text));
    svg_text(out, NULL, frame->right + 8, frame->live_top + 38, SVG_START, "at %" PRId64,
             curve->peak_begin);
    free(curve);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void picture_legend(FILE *out, const struct picture_frame *frame, double left, double top,
                           size_t columns, double step) {
    char text[CLI_NUMBER_BYTES], class[8];
    for (size_t i = 0; i < frame->class_count; i++) {
        size_t row = i / columns;
        double x = left + (double)(i % columns) * step, y = top + (double)(row * 22);
        snprintf(class, sizeof class, "c%u", picture_colour(frame, i));
        svg_rect(out, class, x, y - 12, 22, 14, 2);
        svg_text(out, NULL, x + 28, y, SVG_START, "%s",
                 picture_bytes((double)frame->class_bytes[i], text));
    }
}

static void picture_head(FILE *out, const struct picture_frame *frame) {
    const struct picture *picture = frame->picture;
    char bytes[CLI_NUMBER_BYTES], bound[CLI_NUMBER_BYTES];
    double ratio = picture->lower_bound ? (double)picture->bytes / (double)picture->lower_bound : 1;
    svg_text(out, "t", 12, 24, SVG_START, "%s", picture->title);
    if (picture->is_narrow) {
        svg_text(out, NULL, 12, 44, SVG_START, "%zu buffers in %s, lower bound %s",
                 picture->wishes->count, picture_bytes((double)picture->bytes, bytes),
                 picture_bytes((double)picture->lower_bound, bound));
        svg_text(out, NULL, 12, 68, SVG_START, "size up to");
        picture_legend(out, frame, 12, 90, 4, 96);
        return;
    }
    svg_text(out, NULL, frame->width - 12, 24, SVG_END,
             "%zu buffers in %" PRIu64 " bytes, lower bound %" PRIu64 ": ratio %.4f",
             picture->wishes->count, picture->bytes, picture->lower_bound, ratio);
    svg_text(out, NULL, frame->left, 56, SVG_START, "size up to");
    picture_legend(out, frame, frame->left + 74, 56, PICTURE_CLASSES, 112);
}

static void picture_fit(struct picture_frame *frame) {
    const struct wishes *wishes = frame->picture->wishes;
    int64_t first = 0, last = 1;
    for (size_t i = 0; i < wishes->count; i++) {
        const struct acre__place_buffer *buffer = &wishes->list[i];
        first = i == 0 || buffer->lower < first ? buffer->lower : first;
        last = i == 0 || buffer->upper > last ? buffer->upper : last;
    }
    frame->first = first;
    frame->span = (uint64_t)last - (uint64_t)first;
    frame->top_bytes = fmax((double)frame->picture->bytes, 1);
    /* With a capacity far above the plan, the plan would be a thin strip at the bottom. */
    double capacity = (double)frame->picture->capacity;
    if (capacity > frame->top_bytes && capacity < 2 * frame->top_bytes) {
        frame->top_bytes = capacity;
    }
}

void picture_write(FILE *out, const struct picture *picture) {
    static const struct picture_frame wide = {.width = 1200,
                                              .height = 836,
                                              .left = 84,
                                              .right = 84 + PICTURE_COLUMNS,
                                              .top = 76,
                                              .bottom = 76 + PICTURE_ROWS,
                                              .live_top = 700,
                                              .live_bottom = 790};
    static const struct picture_frame narrow = {.width = 400,
                                                .height = 666,
                                                .left = 84,
                                                .right = 388,
                                                .top = 126,
                                                .bottom = 530,
                                                .live_top = 550,
                                                .live_bottom = 620};
    struct picture_frame place = picture->is_narrow ? narrow : wide, *frame = &place;
    frame->picture = picture;
    picture_fit(frame);
    picture_classify(frame);
    svg_begin(out, "pl", frame->width, frame->height, "Buffers of a plan, time against address",
              picture_style);
    svg_rect(out, "bg", 0, 0, frame->width, frame->height, 0);
    picture_head(out, frame);
    svg_rect(out, "free", frame->left, frame->top, frame->right - frame->left,
             frame->bottom - frame->top, 0);
    picture_addresses(out, frame);
    picture_times(out, frame);
    picture_boxes(out, frame);
    picture_live(out, frame);
    picture_levels(out, frame);
    svg_end(out);
}
