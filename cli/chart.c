/* Draws a chart of times over sizes as SVG; see chart.h. */
#include "chart.h"

#include <math.h>
#include <stdint.h>

#include "cli.h"
#include "svg.h"

enum {
    CHART_WIDTH = 1000,
    CHART_NARROW = 400,
    CHART_TITLE = 26, /* above the plot */
    CHART_PLOT = 300, /* height of the plot */
    CHART_FOOT = 50,  /* the sizes and the title of their axis, below the plot */
    CHART_LEFT = 84,  /* the times and the title of their axis, left of the plot */
    CHART_RIGHT = 30, /* half of the label of the last size */
    CHART_KEY = 22,   /* a row of the legend, and the note */
    CHART_KEY_COLUMNS = 4
};

static const char chart_style[] =
    "<style>\n"
    ".ch { --bg: #ffffff; --ink: #1d2421; --soft: #66706b; --line: #e0dfd8; --c0: #0b7a75; --c1: "
    "#4f9d4a;\n"
    "  --c2: #2b6cb0; --c3: #7d8580; --c4: #c0392b; --c5: #c8671b; --c6: #8455b0; --c7: #9a7b1c; "
    "}\n"
    "@media (prefers-color-scheme: dark) { .ch { --bg: #1c2225; --ink: #e6ebe8; --soft: #93a09a;\n"
    "  --line: #39444a; --c0: #3fc1b8; --c1: #86cf80; --c2: #7db3ea; --c3: #a9b2ad;\n"
    "  --c4: #f2827a; --c5: #f0a05a; --c6: #bd9be6; --c7: #d8bd62; } }\n"
    ".ch text { font: 13px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif;\n"
    "  fill: var(--soft); }\n"
    ".ch .bg { fill: var(--bg); }\n"
    ".ch .t { fill: var(--ink); font-weight: 600; } .ch .a { fill: var(--ink); }\n"
    ".ch line { stroke: var(--line); }\n"
    ".ch polyline { fill: none; stroke-width: 2.2; stroke-linejoin: round; }\n"
    ".ch .dashed { stroke-dasharray: 5 4; }\n"
    "</style>\n";

/* Position of a panel, and the ranges of its axes as logarithms: base 2 for x, base 10 for y. */
struct chart_frame {
    double left, right, top, bottom;
    double x_low, x_high, y_low, y_high;
};

static double chart_x(const struct chart_frame *frame, double bytes) {
    double part = (log2(bytes) - frame->x_low) / (frame->x_high - frame->x_low);
    return frame->left + part * (frame->right - frame->left);
}

static double chart_y(const struct chart_frame *frame, double ns) {
    double part = (log10(fmax(ns, 1)) - frame->y_low) / (frame->y_high - frame->y_low);
    return frame->bottom - part * (frame->bottom - frame->top);
}

/* Chooses axes that contain all points: the exact range of sizes, whole powers of ten for times. */
static void chart_fit(struct chart_frame *frame, const struct chart_panel *panel) {
    double x_low = INFINITY, x_high = -INFINITY, y_low = INFINITY, y_high = -INFINITY;
    for (size_t i = 0; i < panel->curve_count; i++) {
        const struct chart_curve *curve = &panel->curves[i];
        for (size_t k = 0; k < curve->count; k++) {
            x_low = fmin(x_low, log2(curve->bytes[k]));
            x_high = fmax(x_high, log2(curve->bytes[k]));
            y_low = fmin(y_low, log10(fmax(curve->ns[k], 1)));
            y_high = fmax(y_high, log10(fmax(curve->ns[k], 1)));
        }
    }
    frame->x_low = isfinite(x_low) ? x_low : 0;
    frame->x_high = isfinite(x_high) && x_high > frame->x_low ? x_high : frame->x_low + 1;
    frame->y_low = isfinite(y_low) ? floor(y_low) : 0;
    frame->y_high = isfinite(y_high) ? ceil(y_high) : 1;
    if (frame->y_high <= frame->y_low) {
        frame->y_high = frame->y_low + 1;
    }
}

static void chart_grid(FILE *out, const struct chart_frame *frame) {
    char text[CLI_NUMBER_BYTES];
    for (int power = (int)frame->y_low; power <= (int)frame->y_high; power++) {
        double y = chart_y(frame, pow(10, power));
        svg_line(out, NULL, frame->left, y, frame->right, y);
        svg_text(out, NULL, frame->left - 8, y + 4.5, SVG_END, "%s",
                 svg_time(pow(10, power), text));
    }
    /* A label takes about 70 units. */
    int step = (int)ceil((frame->x_high - frame->x_low) / ((frame->right - frame->left) / 70));
    for (int power = (int)ceil(frame->x_low); power <= (int)frame->x_high; power += step) {
        double x = chart_x(frame, pow(2, power));
        svg_line(out, NULL, x, frame->top, x, frame->bottom);
        svg_text(out, NULL, x, frame->bottom + 18, SVG_MIDDLE, "%s",
                 cli_bytes((uint64_t)pow(2, power), text));
    }
}

static void chart_curves(FILE *out, const struct chart_frame *frame,
                         const struct chart_panel *panel) {
    for (size_t i = panel->curve_count; i-- > 0;) { /* the first curve is drawn on top */
        const struct chart_curve *curve = &panel->curves[i];
        if (curve->count == 0) {
            continue;
        }
        fprintf(out, "<polyline%s style=\"stroke: var(--c%zu)\" points=\"",
                curve->is_dashed ? " class=\"dashed\"" : "", i);
        for (size_t k = 0; k < curve->count; k++) {
            fprintf(out, "%s%.1f,%.1f", k ? " " : "", chart_x(frame, curve->bytes[k]),
                    chart_y(frame, curve->ns[k]));
        }
        fprintf(out, "\"><title>%s</title></polyline>\n", curve->name);
    }
}

/* Returns the i-th curve of the first panel where it has points, or NULL. */
static const struct chart_curve *chart_curve_of(const struct chart *chart, size_t i) {
    for (size_t k = 0; k < chart->panel_count; k++) {
        const struct chart_panel *panel = &chart->panels[k];
        if (i < panel->curve_count && panel->curves[i].count > 0) {
            return &panel->curves[i];
        }
    }
    return NULL;
}

static size_t chart_columns(const struct chart *chart) {
    return chart->is_narrow ? 1 : CHART_KEY_COLUMNS;
}

static double chart_width(const struct chart *chart) {
    return chart->is_narrow ? CHART_NARROW : CHART_WIDTH;
}

static void chart_key(FILE *out, const struct chart *chart, double top) {
    size_t place = 0, columns = chart_columns(chart);
    double wide = (chart_width(chart) - CHART_LEFT) / (double)columns;
    for (size_t i = 0; i < CHART_CURVES; i++) {
        const struct chart_curve *curve = chart_curve_of(chart, i);
        if (!curve) {
            continue;
        }
        size_t row = place / columns;
        double x = CHART_LEFT + (double)(place % columns) * wide;
        double y = top + (double)(row * CHART_KEY);
        fprintf(out, "<polyline%s style=\"stroke: var(--c%zu)\" points=\"%.1f,%.1f %.1f,%.1f\"/>",
                curve->is_dashed ? " class=\"dashed\"" : "", i, x, y, x + 26, y);
        svg_text(out, NULL, x + 34, y + 4.5, SVG_START, "%s", curve->name);
        place++;
    }
}

static size_t chart_key_rows(const struct chart *chart) {
    size_t count = 0, columns = chart_columns(chart);
    for (size_t i = 0; i < CHART_CURVES; i++) {
        count += chart_curve_of(chart, i) != NULL;
    }
    return (count + columns - 1) / columns;
}

static void chart_titles(FILE *out, const struct chart *chart, const struct chart_frame *frame) {
    svg_text(out, "a", (frame->left + frame->right) / 2, frame->bottom + 38, SVG_MIDDLE, "%s",
             chart->x_title);
    svg_text_upright(out, "a", frame->left - CHART_LEFT + 16, (frame->top + frame->bottom) / 2,
                     chart->y_title);
}

void chart_write(FILE *out, const struct chart *chart) {
    size_t panels = chart->panel_count ? chart->panel_count : 1;
    double each = CHART_TITLE + CHART_PLOT + CHART_FOOT, whole = chart_width(chart);
    double wide = chart->is_narrow ? whole : whole / (double)panels;
    double key_top = chart->is_narrow ? each * (double)panels : each;
    double key_bottom = key_top + (double)(chart_key_rows(chart) * CHART_KEY);
    double height = key_bottom + (chart->note ? CHART_KEY : 0) + 4;
    svg_begin(out, "ch", whole, height, chart->title, chart_style);
    svg_rect(out, "bg", 0, 0, whole, height, 0);
    for (size_t i = 0; i < chart->panel_count; i++) {
        const struct chart_panel *panel = &chart->panels[i];
        double x = chart->is_narrow ? 0 : wide * (double)i;
        double y = chart->is_narrow ? each * (double)i : 0;
        struct chart_frame frame = {.left = x + CHART_LEFT,
                                    .right = x + wide - CHART_RIGHT,
                                    .top = y + CHART_TITLE,
                                    .bottom = y + CHART_TITLE + CHART_PLOT};
        chart_fit(&frame, panel);
        svg_text(out, "t", frame.left, y + 16, SVG_START, "%s", panel->title);
        chart_grid(out, &frame);
        chart_curves(out, &frame, panel);
        chart_titles(out, chart, &frame);
    }
    chart_key(out, chart, key_top + 8);
    if (chart->note) {
        svg_text(out, NULL, whole - 8, key_bottom + 14, SVG_END, "%s", chart->note);
    }
    svg_end(out);
}
