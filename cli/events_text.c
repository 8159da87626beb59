/* Lines of comma-separated fields; see events_text.h.
 *
 * Nothing is copied: fields point into the file's bytes, and no byte outside of them is read. */
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

/* The next line's bytes without its end, "\n" or "\r\n", which the last one may lack. */
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
        events_refuse(text->path, text->line, (size_t)(zero - *begin) + 1, "there is a NUL byte");
        return -1;
    }
    if (*end > *begin && (*end)[-1] == '\r') {
        --*end;
    }
    return 1;
}

int text_next(struct text *text) {
    const char *begin = NULL, *end = NULL;
    int found = text_line(text, &begin, &end);
    if (found != 1) {
        return found;
    }
    const char *at = begin;
    for (size_t i = 0; i < text->columns; i++) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma ? comma : end;
        text->field[i] = (struct text_field){at, (size_t)(stop - at), (size_t)(at - begin) + 1};
        if (!comma && i + 1 < text->columns) {
            events_refuse(text->path, text->line, (size_t)(end - begin) + 1,
                          "the line ends here, without the column %s", text->names[i + 1]);
            return -1;
        }
        if (comma && i + 1 == text->columns) {
            events_refuse(text->path, text->line, (size_t)(comma - begin) + 1,
                          "there are more than %zu columns", text->columns);
            return -1;
        }
        at = comma ? comma + 1 : end;
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
            return text_refuse(text, i, 0, "the column %s should stand here", names[i]);
        }
    }
    return found == 1 ? 0 : CLI_CANNOT;
}

/* What stands there, for a message. */
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
            text_refuse(text, field, at, "%s is no number: it has %s", name,
                        text_shown(from->at[at], shown));
            return 0;
        }
        if (*value > (UINT64_MAX - digit) / base) {
            text_refuse(text, field, 0, "%s is more than 64 bits hold", name);
            return 0;
        }
        *value = *value * base + digit;
    }
    return 1;
}
