/* Draws the buffers of a picture; see picture.h.
 *
 * A buffer of at least a few pixels is a box with an edge, and with its name if that fits. A
 * smaller buffer fills cells of one pixel, at least one. Adjacent cells of one colour become one
 * box, so that the file stays small and the picture still shows how full the memory is. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "picture.h"
#include "svg.h"

enum {
    CELL_COLUMNS = PICTURE_COLUMNS,
    CELL_ROWS = PICTURE_ROWS,
    BOX_TITLES = 3000, /* up to this many boxes have a tooltip, which needs an element each */
    BOX_NAMES = 600,   /* names that are written, largest boxes first */
    NAME_LETTERS = 24
};

static const double BOX_PIXELS = 2.5; /* a smaller box would be all edge */
static const double LETTER_PIXELS = 6.6, NAME_PIXELS = 11;

struct box {
    size_t index;
    double left, right, top, bottom;
    unsigned char colour;
};

/* ---- classes of sizes ------------------------------------------------------------------------ */

struct class_size {
    uint64_t size;
    double area;
};

static int class_compare(const void *a, const void *b) {
    const struct class_size *x = a, *y = b;
    return (x->size > y->size) - (x->size < y->size);
}

/* Chooses classes that cover about equal areas of the picture, so that all colours appear. */
void picture_classify(struct picture_frame *frame) {
    const struct wishes *wishes = frame->picture->wishes;
    struct class_size *sizes = cli_alloc(wishes->count * sizeof *sizes);
    double all = 0, sum = 0;
    for (size_t i = 0; i < wishes->count; i++) {
        const struct acre__place_buffer *buffer = &wishes->list[i];
        double area = (double)buffer->size * ((double)buffer->upper - (double)buffer->lower);
        sizes[i] = (struct class_size){buffer->size, area};
        all += area;
    }
    if (wishes->count) {
        qsort(sizes, wishes->count, sizeof *sizes, class_compare);
    }
    for (size_t i = 0; i < wishes->count; i++) {
        sum += sizes[i].area;
        bool is_last = i + 1 == wishes->count;
        if (!is_last && sizes[i + 1].size == sizes[i].size) {
            continue;
        }
        /* A class ends when it reaches its share of the area; the last class has the rest. */
        bool is_full = sum >= all * (double)(frame->class_count + 1) / PICTURE_CLASSES;
        if (is_last || (is_full && frame->class_count + 1 < PICTURE_CLASSES)) {
            frame->class_bytes[frame->class_count++] = sizes[i].size;
        }
    }
    free(sizes);
}

/* Returns the colour of a class. Few classes are spread over all colours. */
unsigned picture_colour(const struct picture_frame *frame, size_t class) {
    size_t last = frame->class_count - 1;
    return (unsigned)(last ? class * (PICTURE_CLASSES - 1) / last : PICTURE_CLASSES / 2);
}

static unsigned char box_colour(const struct picture_frame *frame, uint64_t size) {
    size_t i = 0;
    while (i + 1 < frame->class_count && size > frame->class_bytes[i]) {
        i++;
    }
    return (unsigned char)picture_colour(frame, i);
}

/* ---- small buffers: cells -------------------------------------------------------------------- */

static int cell_clip(double at, int most) {
    return at < 0 ? 0 : at >= most ? most - 1 : (int)at;
}

/* Fills the cells whose middle the box covers, or the one cell that contains it. */
static void cells_fill(const struct picture_frame *frame, unsigned char *cells,
                       const struct box *box) {
    int left = cell_clip(box->left - frame->left, CELL_COLUMNS);
    int right = cell_clip(box->right - frame->left - 0.5, CELL_COLUMNS);
    int top = cell_clip(box->top - frame->top, CELL_ROWS);
    int bottom = cell_clip(box->bottom - frame->top - 0.5, CELL_ROWS);
    for (int row = top; row <= (bottom > top ? bottom : top); row++) {
        for (int column = left; column <= (right > left ? right : left); column++) {
            cells[row * CELL_COLUMNS + column] = (unsigned char)(box->colour + 1);
        }
    }
}

static int cells_same(const unsigned char *cells, unsigned char colour, int count) {
    for (int i = 0; i < count; i++) {
        if (cells[i] != colour) {
            return 0;
        }
    }
    return 1;
}

/* Draws the largest box of one colour that starts at a cell: first to the right, then downwards.
 * Clears its cells. */
static void cells_box(FILE *out, const struct picture_frame *frame, unsigned char *cells, int row,
                      int column) {
    unsigned char *from = &cells[row * CELL_COLUMNS + column], colour = *from;
    int width = 1, height = 1;
    while (column + width < CELL_COLUMNS && from[width] == colour) {
        width++;
    }
    while (row + height < CELL_ROWS && cells_same(from + height * CELL_COLUMNS, colour, width)) {
        height++;
    }
    for (int i = 0; i < height; i++) {
        memset(from + i * CELL_COLUMNS, 0, (size_t)width);
    }
    fprintf(out, "M%d %dh%dv%dh-%dz", frame->left + column, frame->top + row, width, height, width);
}

static void cells_draw(FILE *out, const struct picture_frame *frame, unsigned char *cells) {
    for (unsigned colour = 0; colour < PICTURE_CLASSES; colour++) {
        bool is_begun = false;
        for (int i = 0; i < CELL_ROWS * CELL_COLUMNS; i++) {
            if (cells[i] == colour + 1) {
                if (!is_begun) {
                    fprintf(out, "<path class=\"c%u\" d=\"", colour);
                    is_begun = true;
                }
                cells_box(out, frame, cells, i / CELL_COLUMNS, i % CELL_COLUMNS);
            }
        }
        if (is_begun) {
            fputs("\"/>\n", out);
        }
    }
}

/* ---- large buffers: boxes -------------------------------------------------------------------- */

static void box_path(FILE *out, const struct box *box) {
    fprintf(out, "M%.1f %.1fH%.1fV%.1fH%.1fZ", box->left, box->top, box->right, box->bottom,
            box->left);
}

/* Draws each box as its own element with a tooltip. */
static void boxes_told(FILE *out, const struct picture_frame *frame, const struct box *boxes,
                       size_t count) {
    const struct wishes *wishes = frame->picture->wishes;
    char name[WISH_NAME_BYTES], text[CLI_NUMBER_BYTES];
    for (size_t i = 0; i < count; i++) {
        const struct acre__place_buffer *buffer = &wishes->list[boxes[i].index];
        fprintf(out, "<path class=\"b c%u\" d=\"", boxes[i].colour);
        box_path(out, &boxes[i]);
        fputs("\"><title>", out);
        svg_escape(out, wishes_name(wishes, boxes[i].index, name));
        fprintf(out,
                ": %" PRIu64 " bytes (%s) at %" PRIu64 ", live %" PRId64 " to %" PRId64
                "</title></path>\n",
                buffer->size, picture_bytes((double)buffer->size, text), buffer->offset,
                buffer->lower, buffer->upper);
    }
}

static void boxes_plain(FILE *out, const struct box *boxes, size_t count) {
    for (unsigned colour = 0; colour < PICTURE_CLASSES; colour++) {
        bool is_begun = false;
        for (size_t i = 0; i < count; i++) {
            if (boxes[i].colour == colour) {
                if (!is_begun) {
                    fprintf(out, "<path class=\"b c%u\" d=\"", colour);
                    is_begun = true;
                }
                box_path(out, &boxes[i]);
            }
        }
        if (is_begun) {
            fputs("\"/>\n", out);
        }
    }
}

/* ---- names ----------------------------------------------------------------------------------- */

static void name_write(FILE *out, const struct box *box, double y, bool is_upright,
                       const char *text) {
    double x = (box->left + box->right) / 2;
    fprintf(out, "<text class=\"n n%d\" text-anchor=\"middle\" ", box->colour >= 4);
    if (is_upright) {
        fprintf(out, "transform=\"translate(%.1f %.1f) rotate(-90)\">", x + 4, y);
    } else {
        fprintf(out, "x=\"%.1f\" y=\"%.1f\">", x, y + 4);
    }
    svg_escape(out, text);
    fputs("</text>\n", out);
}

/* Writes the name if it fits, horizontally or vertically, and the size below it if that fits too.
 * Returns 1 if the name was written. */
static int box_name(FILE *out, const struct picture_frame *frame, const struct box *box) {
    const struct wishes *wishes = frame->picture->wishes;
    char name[WISH_NAME_BYTES], size[CLI_NUMBER_BYTES];
    wishes_name(wishes, box->index, name);
    picture_bytes((double)wishes->list[box->index].size, size);
    double width = box->right - box->left - 4, height = box->bottom - box->top - 2;
    double letters = (double)strlen(name) * LETTER_PIXELS;
    double y = (box->top + box->bottom) / 2;
    if (strlen(name) > NAME_LETTERS) {
        return 0;
    }
    if (letters <= width && height >= NAME_PIXELS) {
        bool with_size =
            height >= 2.5 * NAME_PIXELS && (double)strlen(size) * LETTER_PIXELS <= width;
        name_write(out, box, with_size ? y - 7 : y, false, name);
        if (with_size) {
            name_write(out, box, y + 8, false, size);
        }
        return 1;
    }
    if (height > width && letters <= height && width >= NAME_PIXELS) {
        name_write(out, box, y, true, name);
        return 1;
    }
    return 0;
}

/* ---- all ------------------------------------------------------------------------------------- */

/* Sorts by area in the picture, largest first. */
static int box_compare(const void *a, const void *b) {
    const struct box *x = a, *y = b;
    double x_area = (x->right - x->left) * (x->bottom - x->top);
    double y_area = (y->right - y->left) * (y->bottom - y->top);
    if (x_area != y_area) {
        return x_area > y_area ? -1 : 1;
    }
    return (x->index > y->index) - (x->index < y->index);
}

static struct box box_of(const struct picture_frame *frame, size_t index) {
    const struct acre__place_buffer *buffer = &frame->picture->wishes->list[index];
    return (struct box){.index = index,
                        .left = picture_x(frame, buffer->lower),
                        .right = picture_x(frame, buffer->upper),
                        .top = picture_y(frame, (double)buffer->offset + (double)buffer->size),
                        .bottom = picture_y(frame, (double)buffer->offset),
                        .colour = box_colour(frame, buffer->size)};
}

void picture_boxes(FILE *out, const struct picture_frame *frame) {
    size_t all = frame->picture->wishes->count, count = 0, named = 0;
    struct box *boxes = cli_alloc(all * sizeof *boxes);
    unsigned char *cells = cli_alloc(CELL_ROWS * CELL_COLUMNS);
    for (size_t i = 0; i < all; i++) {
        struct box box = box_of(frame, i);
        if (box.right - box.left < BOX_PIXELS || box.bottom - box.top < BOX_PIXELS) {
            cells_fill(frame, cells, &box);
        } else {
            boxes[count++] = box;
        }
    }
    cells_draw(out, frame, cells);
    free(cells);
    if (count) {
        qsort(boxes, count, sizeof *boxes, box_compare);
    }
    if (count <= BOX_TITLES) {
        boxes_told(out, frame, boxes, count);
    } else {
        boxes_plain(out, boxes, count);
    }
    for (size_t i = 0; i < count && named < BOX_NAMES; i++) {
        named += (size_t)box_name(out, frame, &boxes[i]);
    }
    free(boxes);
}
