/* A chart of times over sizes, as SVG: for the page of `acre demo` and for `acre bench --chart`.
 *
 * Both axes are logarithmic, so that equal vertical distances are equal ratios. Panels are side by
 * side above one legend; in a narrow chart, for phones, they are below each other. The drawing is
 * well-formed XML and includes its style and background, for light and dark schemes. */
#ifndef ACRE_CLI_CHART_H
#define ACRE_CLI_CHART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { CHART_CURVES = 8, CHART_PANELS = 2 };

struct chart_curve {
    const char *name;    /* in the legend; plain text without &, <, > and quotes */
    const double *bytes; /* ascending, above 0 */
    const double *ns;    /* values below 1 are drawn as 1 */
    size_t count;
    bool is_dashed;
};

struct chart_panel {
    const char *title;
    struct chart_curve
        curves[CHART_CURVES]; /* one without points is not drawn; colours go by index */
    size_t curve_count;
};

struct chart {
    const char *title;             /* description for screen readers */
    const char *x_title, *y_title; /* of the axes */
    const char *note;              /* below the legend: the device and the date; or NULL */
    bool is_narrow;
    struct chart_panel panels[CHART_PANELS];
    size_t panel_count;
};

/* Writes the <svg> element. Errors stay in the stream. */
void chart_write(FILE *out, const struct chart *chart);

#endif
