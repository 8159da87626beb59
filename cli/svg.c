/* Writes SVG elements; see svg.h. */
#include "svg.h"

#include <stdarg.h>

static void svg_class(FILE *out, const char *element, const char *class) {
    fprintf(out, "<%s", element);
    if (class) {
        fprintf(out, " class=\"%s\"", class);
    }
}

void svg_escape(FILE *out, const char *text) {
    for (; *text; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        case '\n':
            fputc('\n', out);
            break;
        default:
            fputc(*text >= ' ' && *text <= '~' ? *text : '?', out);
        }
    }
}

void svg_begin(FILE *out, const char *class, double width, double height, const char *label,
               const char *style) {
    svg_class(out, "svg", class);
    fprintf(out,
            " xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" "
            "aria-label=\"",
            width, height);
    svg_escape(out, label);
    fprintf(out, "\">\n%s", style ? style : "");
}

void svg_end(FILE *out) {
    fputs("</svg>\n", out);
}

void svg_line(FILE *out, const char *class, double x1, double y1, double x2, double y2) {
    svg_class(out, "line", class);
    fprintf(out, " x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", x1, y1, x2, y2);
}

void svg_rect(FILE *out, const char *class, double x, double y, double width, double height,
              double radius) {
    svg_class(out, "rect", class);
    fprintf(out, " x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%g\"/>\n", x, y, width,
            height, radius);
}

void svg_text(FILE *out, const char *class, double x, double y, enum svg_anchor anchor,
              const char *format, ...) {
    static const char *const anchors[] = {[SVG_START] = "",
                                          [SVG_MIDDLE] = " text-anchor=\"middle\"",
                                          [SVG_END] = " text-anchor=\"end\""};
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    svg_class(out, "text", class);
    fprintf(out, " x=\"%.1f\" y=\"%.1f\"%s>", x, y, anchors[anchor]);
    svg_escape(out, text);
    fputs("</text>", out);
}

void svg_text_upright(FILE *out, const char *class, double x, double y, const char *text) {
    svg_class(out, "text", class);
    fprintf(out, " transform=\"translate(%.1f %.1f) rotate(-90)\" text-anchor=\"middle\">", x, y);
    svg_escape(out, text);
    fputs("</text>\n", out);
}

double svg_step(double span, double most) {
    static const double steps[] = {1, 2, 5};
    double power = 1, step = 1;
    for (unsigned i = 1; span / step > most; i++) {
        power = i % 3 == 0 ? power * 10 : power;
        step = steps[i % 3] * power;
    }
    return step;
}

const char *svg_time(double ns, char text[CLI_NUMBER_BYTES]) {
    static const char *const units[] = {"ns", "us", "ms", "s"};
    size_t unit = 0;
    for (; ns >= 1e3 && unit < 3; unit++) {
        ns /= 1e3;
    }
    snprintf(text, CLI_NUMBER_BYTES, "%g %s", ns, ns > 0 ? units[unit] : "");
    return text;
}
