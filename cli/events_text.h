/* Lines of comma-separated fields, for the readers of text formats. No field is quoted. */
#ifndef ACRE_CLI_EVENTS_TEXT_H
#define ACRE_CLI_EVENTS_TEXT_H

#include <stddef.h>
#include <stdint.h>

enum { TEXT_COLUMNS = 16 };
#define TEXT_NONE SIZE_MAX

struct text_field {
    const char *at; /* not ended by a NUL */
    size_t length;
    size_t column; /* of its first byte, from 1 */
};

struct text {
    const char *path;
    const char *at, *end;     /* what is still to be read */
    const char *const *names; /* of the columns; NULL for one that is passed over */
    size_t columns;
    const char *named[TEXT_COLUMNS]; /* `names`, where the file chose their order */
    size_t line;                     /* the one in `field`, from 1 */
    int skips_blank;                 /* blank lines are passed over, not refused */
    struct text_field field[TEXT_COLUMNS];
};

/* Reads the first line, which must have the names of the columns. Returns 0 or CLI_CANNOT, having
 * said what is wrong. */
int text_begin(struct text *text, const char *path, const unsigned char *bytes, size_t count,
               const char *const *names, size_t columns);

/* The same for columns in any order. `names` are all that there are, the first `needed` of which
 * must stand there; columns[i] gets the place of names[i], or TEXT_NONE. A column with another name
 * is refused, or passed over with `others`. Blank lines below are passed over. `text` must stay
 * where it is. */
int text_begin_named(struct text *text, const char *path, const unsigned char *bytes, size_t count,
                     const char *const *names, size_t name_count, size_t needed, int others,
                     size_t *columns);

/* 1 if a column of the first line has this name. */
int text_has_column(const unsigned char *bytes, size_t count, const char *name);

/* The next line with all of its fields: 1, 0 at the end, or -1 having said what is wrong. */
int text_next(struct text *text);

/* A field as a number; `base` is 10, or 16 with or without 0x. 1, or 0 having said what is wrong.
 */
int text_number(const struct text *text, size_t field, unsigned base, uint64_t *value);

/* 1 if the field is this word. */
int text_is(const struct text_field *field, const char *word);

/* Says what is wrong with a field, or from its `skip`-th byte on; returns CLI_CANNOT. */
int text_refuse(const struct text *text, size_t field, size_t skip, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
