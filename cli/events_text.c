/* Parses lines of comma-separated fields; see events_text.h.
 *
 * Nothing is copied: fields point into the bytes of the file. */
#include "events_text.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "events.h"

int text_is(const struct text_field *field, const char *word) {
    return field->length == strlen(word) && memcmp(field->at, word, field->length) == 0;
}

int text_refuse(const struct text *text, size_t field, size_t skip, const char *format, ...) {
    char what[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return events_refuse(text->path, text->line, text->field[field].column + skip, "%s", what);
}

/* Finds the next line, without its end, "\n" or "\r\n". The last line may lack its end. */
static int text_line(struct text *text, const char **begin, const char **end) {
    if (text->at == text->end) {
        return 0;
    }
    text->line++;
    size_t left = (size_t)(text->end - text->at);
    size_t look = left < EVENTS_LINE_BYTES + 2 ? left : EVENTS_LINE_BYTES + 2;
    const char *stop = memchr(text->at, '\n', look);
    if (!stop && look < left) {
        events_refuse(text->path, text->line, EVENTS_LINE_BYTES + 1,
                      "the line has more than %d bytes", EVENTS_LINE_BYTES);
        return -1;
    }
    *begin = text->at;
    *end = stop ? stop : text->end;
    text->at = stop ? stop + 1 : text->end;
    const char *zero = memchr(*begin, '\0', (size_t)(*end - *begin));
    if (zero) {
        events_refuse(text->path, text->line, (size_t)(zero - *begin) + 1,
                      "the line contains a NUL byte");
        return -1;
    }
    if (*end > *begin && (*end)[-1] == '\r') {
        --*end;
    }
    return 1;
}

/* Adds the field that begins at `at` and ends before a comma or at `end`. Returns the start of the
 * next field, or NULL after the last one. */
static const char *text_field(struct text *text, size_t index, const char *begin, const char *at,
                              const char *end) {
    const char *comma = memchr(at, ',', (size_t)(end - at));
    const char *stop = comma ? comma : end;
    text->field[index] = (struct text_field){at, (size_t)(stop - at), (size_t)(at - begin) + 1};
    return comma ? comma + 1 : NULL;
}

int text_next(struct text *text) {
    const char *begin = NULL, *end = NULL;
    int found = 0;
    do {
        found = text_line(text, &begin, &end);
    } while (found == 1 && text->skips_blank && begin == end);
    if (found != 1) {
        return found;
    }
    const char *at = begin;
    for (size_t i = 0; i < text->columns; i++) {
        at = text_field(text, i, begin, at, end);
        if (!at && i + 1 < text->columns) {
            const char *name = text->names[i + 1];
            events_refuse(text->path, text->line, (size_t)(end - begin) + 1,
                          "the line ends here, without %s %s", name ? "the column" : "its last",
                          name ? name : "columns");
            return -1;
        }
    }
    if (at) {
        events_refuse(text->path, text->line, (size_t)(at - begin),
                      "there are more than %zu columns", text->columns);
        return -1;
    }
    return 1;
}

int text_begin(struct text *text, const char *path, const unsigned char *bytes, size_t count,
               const char *const *names, size_t columns) {
    *text = (struct text){.path = path,
                          .at = (const char *)bytes,
                          .end = (const char *)bytes + count,
                          .names = names,
                          .columns = columns};
    int found = text_next(text);
    if (found == 0) {
        return events_refuse(path, 1, 1, "the file is empty");
    }
    for (size_t i = 0; found == 1 && i < columns; i++) {
        if (!text_is(&text->field[i], names[i])) {
            return text_refuse(text, i, 0, "expected the column %s here", names[i]);
        }
    }
    return found == 1 ? 0 : CLI_CANNOT;
}

/* ---- columns in any order -------------------------------------------------------------------- */

/* Writes "id, lower and upper", for a message. */
static void text_list(const char *const *names, size_t count, char *list, size_t room) {
    size_t length = 0;
    for (size_t i = 0; i < count && length < room; i++) {
        const char *before = i == 0 ? "" : i + 1 < count ? ", " : " and ";
        length += (size_t)snprintf(list + length, room - length, "%s%s", before, names[i]);
    }
}

/* Looks up the name of column `index` among the known names. */
static int text_name_column(struct text *text, size_t index, const char *const *names,
                            size_t name_count, int others, size_t *columns) {
    const struct text_field *field = &text->field[index];
    char list[128];
    for (size_t k = 0; k < name_count; k++) {
        if (!text_is(field, names[k])) {
            continue;
        }
        if (columns[k] != TEXT_NONE) {
            return text_refuse(text, index, 0, "duplicate column %s", names[k]);
        }
        columns[k] = index;
        text->named[index] = names[k];
        return 0;
    }
    if (others) {
        return 0;
    }
    text_list(names, name_count, list, sizeof list);
    return text_refuse(text, index, 0, "unknown column '%.*s': expected %s",
                       (int)(field->length < 40 ? field->length : 40), field->at, list);
}

int text_begin_named(struct text *text, const char *path, const unsigned char *bytes, size_t count,
                     const char *const *names, size_t name_count, size_t needed, int others,
                     size_t *columns) {
    const char *begin = NULL, *end = NULL;
    *text = (struct text){.path = path, .at = (const char *)bytes, .skips_blank = 1};
    text->end = text->at + count;
    text->names = text->named;
    int found = text_line(text, &begin, &end);
    if (found == 0) {
        return events_refuse(path, 1, 1, "the file is empty");
    }
    for (const char *at = begin; found == 1 && at; text->columns++) {
        if (text->columns == TEXT_COLUMNS) {
            return events_refuse(path, 1, (size_t)(at - begin), "there are more than %d columns",
                                 TEXT_COLUMNS);
        }
        at = text_field(text, text->columns, begin, at, end);
    }
    for (size_t k = 0; k < name_count; k++) {
        columns[k] = TEXT_NONE;
    }
    for (size_t i = 0; found == 1 && i < text->columns; i++) {
        if (text_name_column(text, i, names, name_count, others, columns)) {
            return CLI_CANNOT;
        }
    }
    for (size_t k = 0; found == 1 && k < needed; k++) {
        if (columns[k] == TEXT_NONE) {
            return events_refuse(path, 1, (size_t)(end - begin) + 1,
                                 "the line ends here, without the column %s", names[k]);
        }
    }
    return found == 1 ? 0 : CLI_CANNOT;
}

int text_has_column(const unsigned char *bytes, size_t count, const char *name) {
    size_t length = strlen(name), begin = 0;
    count = count < EVENTS_LINE_BYTES ? count : EVENTS_LINE_BYTES;
    for (size_t i = 0; i <= count; i++) {
        int is_end = i == count || bytes[i] == '\n' || bytes[i] == '\r';
        if (!is_end && bytes[i] != ',') {
            continue;
        }
        if (i - begin == length && memcmp(bytes + begin, name, length) == 0) {
            return 1;
        }
        if (is_end) {
            return 0;
        }
        begin = i + 1;
    }
    return 0;
}

/* ---- fields ---------------------------------------------------------------------------------- */

/* Formats a byte for a message. */
static const char *text_shown(char byte, char shown[8]) {
    snprintf(shown, 8, isgraph((unsigned char)byte) ? "'%c'" : "byte %d", (unsigned char)byte);
    return shown;
}

static int text_digit(char byte) {
    return byte >= '0' && byte <= '9'   ? byte - '0'
           : byte >= 'a' && byte <= 'f' ? byte - 'a' + 10
           : byte >= 'A' && byte <= 'F' ? byte - 'A' + 10
                                        : 16;
}

int text_number(const struct text *text, size_t field, unsigned base, uint64_t *value) {
    const struct text_field *from = &text->field[field];
    const char *name = text->names[field];
    size_t at = 0;
    char shown[8];
    *value = 0;
    if (base == 16 && text_is(from, "(nil)")) { /* as glibc prints a null pointer */
        return 1;
    }
    if (base == 16 && from->length > 2 && from->at[0] == '0' && from->at[1] == 'x') {
        at = 2;
    }
    if (from->length == 0) {
        text_refuse(text, field, 0, "%s is empty", name);
        return 0;
    }
    if (from->at[0] == '-') {
        text_refuse(text, field, 0, "%s is negative", name);
        return 0;
    }
    for (; at < from->length; at++) {
        unsigned digit = (unsigned)text_digit(from->at[at]);
        if (digit >= base) {
            text_refuse(text, field, at, "%s is not a number: it contains %s", name,
                        text_shown(from->at[at], shown));
            return 0;
        }
        if (*value > (UINT64_MAX - digit) / base) {
            text_refuse(text, field, 0, "%s does not fit into 64 bits", name);
            return 0;
        }
        *value = *value * base + digit;
    }
    return 1;
}
