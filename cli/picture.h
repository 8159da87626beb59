/* The picture of a plan as one <svg> element: time to the right, addresses upwards, one box for
 * each buffer, and below how many bytes are live. Readable for few buffers and for tens of
 * thousands: what is smaller than a few pixels is merged, what is large enough has its name. Light
 * and dark by itself, no script, no outside files. */
#ifndef ACRE_CLI_PICTURE_H
#define ACRE_CLI_PICTURE_H

#include <stdio.h>

#include "cli.h"
#include "wishes.h"

struct picture {
    const struct wishes *wishes; /* with their offsets */
    const char *title;
    const char *time_unit; /* "time", "events" */
    uint64_t bytes;        /* highest end */
    uint64_t lower_bound;
    uint64_t capacity; /* 0: none */
};

/* Errors stay in the stream. */
void picture_write(FILE *out, const struct picture *picture);

/* ---- what the files of the picture share ------------------------------------------------------
 */

enum {
    PICTURE_WIDTH = 1200,
    PICTURE_LEFT = 84, /* the addresses, left of the plot */
    PICTURE_RIGHT = 1070,
    PICTURE_TOP = 76, /* title and legend above */
    PICTURE_BOTTOM = 680,
    PICTURE_LIVE_TOP = 700, /* the live bytes, below the plot */
    PICTURE_LIVE_BOTTOM = 790,
    PICTURE_HEIGHT = 836,
    PICTURE_CLASSES = 8 /* of sizes, one colour each */
};

struct picture_frame {
    const struct picture *picture;
    int64_t first;    /* moment, at PICTURE_LEFT */
    uint64_t span;    /* of time, at least 1 */
    double top_bytes; /* at PICTURE_TOP */
    /* The largest size of each class, ascending; the last one is the largest of all. */
    uint64_t class_bytes[PICTURE_CLASSES];
    size_t class_count;
};

double picture_x(const struct picture_frame *frame, int64_t time);
double picture_y(const struct picture_frame *frame, double address);

/* Four digits, of which some may stand behind the point: marks are at quarters too. */
const char *picture_bytes(double bytes, char text[CLI_NUMBER_BYTES]);

/* In picture_boxes.c: fills the classes, says the colour of one, draws all buffers. */
void picture_classify(struct picture_frame *frame);
unsigned picture_colour(const struct picture_frame *frame, size_t class);
void picture_boxes(FILE *out, const struct picture_frame *frame);

#endif
