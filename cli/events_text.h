/* Parser for lines of comma-separated fields, for the text formats. Fields are not quoted. */
#ifndef ACRE_CLI_EVENTS_TEXT_H
#define ACRE_CLI_EVENTS_TEXT_H

#include <stddef.h>
#include <stdint.h>

enum { TEXT_COLUMNS = 16 };
#define TEXT_NONE SIZE_MAX

struct text_field {
    const char *at; /* not terminated by NUL */
    size_t length;
    size_t column; /* of its first byte, from 1 */
};

struct text {
    const char *path;
    const char *at, *end;     /* the rest of the file */
    const char *const *names; /* of the columns; NULL for an ignored column */
    size_t columns;
    const char *named[TEXT_COLUMNS]; /* storage of `names` if the file chooses their order */
    size_t line;                     /* number of the line in `field`, from 1 */
    int skips_blank;                 /* blank lines are skipped; else they are errors */
    struct text_field field[TEXT_COLUMNS];
};

/* Reads the first line, which must have the names of the columns in this order. Returns 0, or
 * CLI_CANNOT after a message. */
int text_begin(struct text *text, const char *path, const unsigned char *bytes, size_t count,
               const char *const *names, size_t columns);

/* Reads the first line, with the names of the columns in any order. `names` are the known names;
 * the first `needed` of them are mandatory. columns[i] gets the index of names[i], or TEXT_NONE. A
 * column with an unknown name is an error, or is ignored with `others`. Later blank lines are
 * skipped. `text` must not move afterwards. Returns as text_begin. */
int text_begin_named(struct text *text, const char *path, const unsigned char *bytes, size_t count,
                     const char *const *names, size_t name_count, size_t needed, int others,
                     size_t *columns);

/* Returns 1 if a column of the first line has this name. */
int text_has_column(const unsigned char *bytes, size_t count, const char *name);

/* Reads the next line with all its fields. Returns 1, 0 at the end, or -1 after a message. */
int text_next(struct text *text);

/* Parses a field as a number. `base` is 10, or 16 with optional 0x. Returns 1, or 0 after a
 * message. */
int text_number(const struct text *text, size_t field, unsigned base, uint64_t *value);

/* Returns 1 if the field is this word. */
int text_is(const struct text_field *field, const char *word);

/* Reports an error in a field, at byte `skip` of it. Returns CLI_CANNOT. */
int text_refuse(const struct text *text, size_t field, size_t skip, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
