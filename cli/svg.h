/* Elements of SVG, for the charts of acre bench, the picture of a plan and the page of acre demo.
 *
 * Coordinates have one digit behind the point. A class is NULL for none. Errors stay in the stream.
 */
#ifndef ACRE_CLI_SVG_H
#define ACRE_CLI_SVG_H

#include <stdio.h>

#include "cli.h"

enum svg_anchor { SVG_START, SVG_MIDDLE, SVG_END }; /* the part of a text that is at its place */

/* The drawing itself. The label says what it shows, for who cannot see it; the style, a <style>
 * element, may be NULL. */
void svg_begin(FILE *out, const char *class, double width, double height, const char *label,
               const char *style);
void svg_end(FILE *out);

void svg_line(FILE *out, const char *class, double x1, double y1, double x2, double y2);
/* With round corners of `radius`. */
void svg_rect(FILE *out, const char *class, double x, double y, double width, double height,
              double radius);

/* A line of text, as printf has it and escaped; 255 characters at most. */
void svg_text(FILE *out, const char *class, double x, double y, enum svg_anchor anchor,
              const char *format, ...) __attribute__((format(printf, 6, 7)));

/* XML text; what is not printable ASCII becomes '?'. */
void svg_escape(FILE *out, const char *text);

/* How far marks are apart, of which `span` has `most` at the most: 1, 2 or 5 times a power of ten.
 */
double svg_step(double span, double most);

/* The text of a mark, such as "20 us". */
const char *svg_time(double ns, char text[CLI_NUMBER_BYTES]);

#endif
