/* Reads lifetimes, id,lower,upper,size[,alignment][,offset], and offsets, id,offset; see
 * wishes.h. */
#include "wishes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "events_text.h"

/* ---- the list -------------------------------------------------------------------------------- */

static void *wishes_longer(void *list, size_t room, size_t bytes) {
    void *longer = reallocarray(list, room, bytes);
    if (!longer) {
        cli_say("out of memory");
        exit(CLI_CANNOT);
    }
    return longer;
}

static void wishes_add(struct wishes *wishes, struct acre__place_buffer buffer,
                       struct wish_name name) {
    if (wishes->count == wishes->room) {
        wishes->room = wishes->room ? 2 * wishes->room : 256;
        wishes->list = wishes_longer(wishes->list, wishes->room, sizeof *wishes->list);
        wishes->names = wishes_longer(wishes->names, wishes->room, sizeof *wishes->names);
    }
    wishes->list[wishes->count] = buffer;
    wishes->names[wishes->count++] = name;
}

void wishes_free(struct wishes *wishes) {
    free(wishes->list);
    free(wishes->names);
    free(wishes->text);
    *wishes = (struct wishes){0};
}

const char *wishes_name(const struct wishes *wishes, size_t index, char text[WISH_NAME_BYTES]) {
    const struct wish_name *name = &wishes->names[index];
    int is_cut = name->length >= WISH_NAME_BYTES;
    int length = is_cut ? WISH_NAME_BYTES - 4 : (int)name->length;
    snprintf(text, WISH_NAME_BYTES, "%.*s%s", length, name->at, is_cut ? "..." : "");
    for (char *c = text; *c; c++) {
        if ((unsigned char)*c < ' ' || *c == 0x7f) {
            *c = '?';
        }
    }
    return text;
}

/* ---- sorted names ---------------------------------------------------------------------------- */

struct wish_order {
    const struct wish_name *name;
    size_t index;
};

static int wishes_compare_names(const struct wish_name *x, const struct wish_name *y) {
    size_t shorter = x->length < y->length ? x->length : y->length;
    int order = memcmp(x->at, y->at, shorter);
    return order ? order : (x->length > y->length) - (x->length < y->length);
}

/* Compares by name, then by position in the file. */
static int wishes_compare(const void *a, const void *b) {
    const struct wish_order *x = a, *y = b;
    int order = wishes_compare_names(x->name, y->name);
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

static struct wish_order *wishes_sorted(const struct wishes *wishes) {
    struct wish_order *sorted = cli_alloc(wishes->count * sizeof *sorted);
    for (size_t i = 0; i < wishes->count; i++) {
        sorted[i] = (struct wish_order){&wishes->names[i], i};
    }
    if (wishes->count) {
        qsort(sorted, wishes->count, sizeof *sorted, wishes_compare);
    }
    return sorted;
}

static size_t wishes_find(const struct wish_order *sorted, size_t count,
                          const struct wish_name *name) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = wishes_compare_names(sorted[middle].name, name);
        if (order == 0) {
            return sorted[middle].index;
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return count;
}

static int wishes_refuse_twice(const char *path, const struct wish_name *name, size_t line) {
    return events_refuse(path, name->line, name->column, "duplicate id '%.*s', first in line %zu",
                         (int)(name->length < 40 ? name->length : 40), name->at, line);
}

/* Checks that ids are unique. */
static int wishes_check_ids(const char *path, const struct wishes *wishes) {
    struct wish_order *sorted = wishes_sorted(wishes);
    int code = 0;
    for (size_t i = 1; i < wishes->count && code == 0; i++) {
        if (wishes_compare_names(sorted[i - 1].name, sorted[i].name) == 0) {
            code = wishes_refuse_twice(path, sorted[i].name, sorted[i - 1].name->line);
        }
    }
    free(sorted);
    return code;
}

/* ---- lifetimes ------------------------------------------------------------------------------- */

enum {
    LIFE_ID,
    LIFE_LOWER,
    LIFE_UPPER,
    LIFE_SIZE,
    LIFE_NEEDED,
    LIFE_ALIGNMENT = LIFE_NEEDED,
    LIFE_OFFSET,
    LIFE_COLUMNS
};

static const char *const life_names[LIFE_COLUMNS] = {"id",   "lower",     "upper",
                                                     "size", "alignment", "offset"};

bool wishes_are(const unsigned char *bytes, size_t count) {
    return text_has_column(bytes, count, "id") || text_has_column(bytes, count, "lower");
}

/* Parses a time, which has at most 63 bits. */
static int life_time(const struct text *text, size_t column, int64_t *time) {
    uint64_t value = 0;
    if (!text_number(text, column, 10, &value)) {
        return 0;
    }
    if (value > INT64_MAX) {
        text_refuse(text, column, 0, "%s does not fit into 63 bits", text->names[column]);
        return 0;
    }
    *time = (int64_t)value;
    return 1;
}

static int life_alignment(const struct text *text, size_t column, uint64_t *align) {
    *align = 1;
    if (column == TEXT_NONE) {
        return 1;
    }
    if (!text_number(text, column, 10, align)) {
        return 0;
    }
    if (*align == 0 || (*align & (*align - 1))) {
        text_refuse(text, column, 0, "alignment is not a power of two");
        return 0;
    }
    return 1;
}

/* Parses the offset of a fixed buffer. An empty field leaves the buffer to the placer. */
static int life_offset(const struct text *text, size_t column, struct acre__place_buffer *buffer) {
    if (column == TEXT_NONE || text->field[column].length == 0) {
        return 1;
    }
    if (!text_number(text, column, 10, &buffer->offset)) {
        return 0;
    }
    if (buffer->offset & (buffer->align - 1)) {
        text_refuse(text, column, 0, "offset is not a multiple of the alignment");
        return 0;
    }
    buffer->is_fixed = 1;
    return 1;
}

static struct wish_name life_name(const struct text *text, size_t column) {
    const struct text_field *field = &text->field[column];
    return (struct wish_name){field->at, field->length, text->line, field->column};
}

/* Parses one line, which has all its fields. */
static int life_line(const struct text *text, const size_t *columns, struct wishes *wishes) {
    struct acre__place_buffer buffer = {0};
    if (text->field[columns[LIFE_ID]].length == 0) {
        return text_refuse(text, columns[LIFE_ID], 0, "id is empty");
    }
    if (!life_time(text, columns[LIFE_LOWER], &buffer.lower) ||
        !life_time(text, columns[LIFE_UPPER], &buffer.upper) ||
        !text_number(text, columns[LIFE_SIZE], 10, &buffer.size) ||
        !life_alignment(text, columns[LIFE_ALIGNMENT], &buffer.align) ||
        !life_offset(text, columns[LIFE_OFFSET], &buffer)) {
        return CLI_CANNOT;
    }
    if (buffer.upper <= buffer.lower) {
        return text_refuse(text, columns[LIFE_UPPER], 0, "upper must be greater than lower");
    }
    if (buffer.size == 0) {
        return text_refuse(text, columns[LIFE_SIZE], 0,
                           "size is 0: a buffer has at least one byte");
    }
    wishes_add(wishes, buffer, life_name(text, columns[LIFE_ID]));
    return 0;
}

int wishes_read(const char *path, const unsigned char *bytes, size_t count, struct wishes *wishes) {
    struct text text;
    size_t columns[LIFE_COLUMNS];
    *wishes = (struct wishes){.format = "lifetimes"};
    int code = text_begin_named(&text, path, bytes, count, life_names, LIFE_COLUMNS, LIFE_NEEDED, 0,
                                columns);
    for (int more = 1; code == 0 && more == 1;) {
        more = text_next(&text);
        code = more == 1 ? life_line(&text, columns, wishes) : more == 0 ? 0 : CLI_CANNOT;
    }
    code = code ? code : wishes_check_ids(path, wishes);
    if (code) {
        wishes_free(wishes);
    }
    return code;
}

/* ---- offsets --------------------------------------------------------------------------------- */

enum { OFFSET_ID, OFFSET_AT, OFFSET_COLUMNS };

static const char *const offset_names[OFFSET_COLUMNS] = {"id", "offset"};

struct offsets {
    struct text text;
    size_t columns[OFFSET_COLUMNS];
    struct wishes *wishes;
    struct wish_order *sorted;
    size_t *lines; /* by wish: the line of its offset, 0 for none */
};

static int offsets_line(struct offsets *offsets) {
    const struct text *text = &offsets->text;
    struct wish_name name = life_name(text, offsets->columns[OFFSET_ID]);
    uint64_t offset = 0;
    if (name.length == 0) {
        return text_refuse(text, offsets->columns[OFFSET_ID], 0, "id is empty");
    }
    size_t index = wishes_find(offsets->sorted, offsets->wishes->count, &name);
    if (index == offsets->wishes->count) {
        return text_refuse(text, offsets->columns[OFFSET_ID], 0,
                           "unknown id '%.*s': no buffer has it",
                           (int)(name.length < 40 ? name.length : 40), name.at);
    }
    if (offsets->lines[index]) {
        return wishes_refuse_twice(text->path, &name, offsets->lines[index]);
    }
    if (!text_number(text, offsets->columns[OFFSET_AT], 10, &offset)) {
        return CLI_CANNOT;
    }
    offsets->wishes->list[index].offset = offset;
    offsets->lines[index] = text->line;
    return 0;
}

int wishes_read_offsets(const char *path, const unsigned char *bytes, size_t count,
                        struct wishes *wishes, size_t *missing) {
    struct offsets offsets = {.wishes = wishes};
    int code = text_begin_named(&offsets.text, path, bytes, count, offset_names, OFFSET_COLUMNS,
                                OFFSET_COLUMNS, 1, offsets.columns);
    offsets.sorted = wishes_sorted(wishes);
    offsets.lines = cli_alloc(wishes->count * sizeof *offsets.lines);
    for (int more = 1; code == 0 && more == 1;) {
        more = text_next(&offsets.text);
        code = more == 1 ? offsets_line(&offsets) : more == 0 ? 0 : CLI_CANNOT;
    }
    for (*missing = 0; *missing < wishes->count && offsets.lines[*missing]; ++*missing) {
    }
    free(offsets.sorted);
    free(offsets.lines);
    return code;
}

void wishes_write_offsets(FILE *out, const struct wishes *wishes) {
    fputs("id,offset\n", out);
    for (size_t i = 0; i < wishes->count; i++) {
        fwrite(wishes->names[i].at, 1, wishes->names[i].length, out);
        fprintf(out, ",%" PRIu64 "\n", wishes->list[i].offset);
    }
}
