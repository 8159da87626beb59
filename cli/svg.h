/* Writes SVG elements, for the charts of acre bench, the picture of a plan and the page of acre
 * demo.
 *
 * Coordinates have one decimal. `class` may be NULL. Errors stay in the stream. */
#ifndef ACRE_CLI_SVG_H
#define ACRE_CLI_SVG_H

#include <stdio.h>

#include "cli.h"

enum svg_anchor { SVG_START, SVG_MIDDLE, SVG_END }; /* the part of a text that is at (x, y) */

/* Opens the <svg> element. `label` describes the drawing for screen readers. `style` is a <style>
 * element, or NULL. */
void svg_begin(FILE *out, const char *class, double width, double height, const char *label,
               const char *style);
void svg_end(FILE *out);

void svg_line(FILE *out, const char *class, double x1, double y1, double x2, double y2);
/* Draws a rectangle with rounded corners. */
void svg_rect(FILE *out, const char *class, double x, double y, double width, double height,
              double radius);

/* Formats and escapes a line of text; at most 255 characters. */
void svg_text(FILE *out, const char *class, double x, double y, enum svg_anchor anchor,
              const char *format, ...) __attribute__((format(printf, 6, 7)));

/* Draws text that reads upwards, with its middle at (x, y). */
void svg_text_upright(FILE *out, const char *class, double x, double y, const char *text);

/* Escapes text for XML. Bytes that are neither printable ASCII nor a newline become '?'. */
void svg_escape(FILE *out, const char *text);

/* Returns the distance of marks, such that `span` has at most `most` intervals: 1, 2 or 5 times a
 * power of ten. */
double svg_step(double span, double most);

/* Formats the label of a mark, such as "20 us". */
const char *svg_time(double ns, char text[CLI_NUMBER_BYTES]);

#endif
