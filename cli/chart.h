/* A chart of times over sizes, as SVG: for the page of `acre demo` and for `acre bench grow`.
 *
 * Both axes are logarithmic, so that a curve's height says how many times slower it is. Panels
 * stand side by side over one legend. The drawing is well-formed XML and complete in itself: its
 * style is inside, for light and dark. */
#ifndef ACRE_CLI_CHART_H
#define ACRE_CLI_CHART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { CHART_CURVES = 8, CHART_PANELS = 2 };

struct chart_curve {
    const char *name;    /* in the legend; plain text without &, <, > and quotes */
    const double *bytes; /* ascending, above 0 */
    const double *ns;    /* less than one is drawn as one */
    size_t count;
    bool is_dashed;
};

struct chart_panel {
    const char *title;
    struct chart_curve
        curves[CHART_CURVES]; /* one without points is left out, and keeps its colour */
    size_t curve_count;
};

struct chart {
    const char *title; /* what it shows, for who cannot see it */
    struct chart_panel panels[CHART_PANELS];
    size_t panel_count;
};

/* The <svg> element. Errors stay in the stream. */
void chart_write(FILE *out, const struct chart *chart);

#endif
