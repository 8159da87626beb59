/* The picture of a plan as one <svg> element: time to the right, addresses upwards, one box for
 * each buffer, and a curve of the live bytes below. It is readable for few buffers and for tens of
 * thousands: boxes smaller than a few pixels are merged, large ones show their name. It adapts to
 * light and dark schemes and needs no script and no external files. */
#ifndef ACRE_CLI_PICTURE_H
#define ACRE_CLI_PICTURE_H

#include <stdio.h>

#include "cli.h"
#include "wishes.h"

struct picture {
    const struct wishes *wishes; /* with their offsets */
    const char *title;
    const char *time_unit; /* "time", "events" */
    uint64_t bytes;        /* the highest end */
    uint64_t lower_bound;
    uint64_t capacity; /* 0: none */
    bool is_narrow;    /* for phones */
};

/* Writes the picture. Errors stay in the stream. */
void picture_write(FILE *out, const struct picture *picture);

/* ---- shared by picture.c and picture_boxes.c ------------------------------------------------- */

enum {
    PICTURE_COLUMNS = 986, /* pixels of the plot, at most */
    PICTURE_ROWS = 604,
    PICTURE_CLASSES = 8 /* classes of sizes, one colour each */
};

struct picture_frame {
    const struct picture *picture;
    int width, height;         /* of the picture */
    int left, right;           /* of the plot; the addresses are left of it */
    int top, bottom;           /* title and legend are above it */
    int live_top, live_bottom; /* the curve of live bytes, below the plot */
    int64_t first;             /* time at `left` */
    uint64_t span;             /* of time, at least 1 */
    double top_bytes;          /* address at `top` */
    /* The largest size of each class, ascending. The last one is the largest size of all. */
    uint64_t class_bytes[PICTURE_CLASSES];
    size_t class_count;
};

double picture_x(const struct picture_frame *frame, int64_t time);
double picture_y(const struct picture_frame *frame, double address);

/* Formats bytes with four significant digits, since marks can be at quarters of a unit. */
const char *picture_bytes(double bytes, char text[CLI_NUMBER_BYTES]);

/* In picture_boxes.c: compute the classes, return the colour of a class, draw all buffers. */
void picture_classify(struct picture_frame *frame);
unsigned picture_colour(const struct picture_frame *frame, size_t class);
void picture_boxes(FILE *out, const struct picture_frame *frame);

#endif
