/* Between the runner (conformance.c), the checker and conf_util.c; cases do not include it. */
#ifndef ACRE_TESTS_CONF_RUN_H
#define ACRE_TESTS_CONF_RUN_H

#include <stddef.h>

/* The line of the running case, without its name. */
void conf_line_begin(void);
const char *conf_line(void);

/* The lines of a run, in order, each without its line end. */
struct conf_lines {
    char **line;
    size_t count;
};

/* Appends a copy of `length` bytes; 0 after success, -1 without memory. */
int conf_lines_add(struct conf_lines *lines, const char *text, size_t length);
void conf_lines_free(struct conf_lines *lines);

/*
 * Compares a run with the stored file, line by line and by the name before the colon; prints
 * "- stored" and "+ got" for each difference. With `soft` set, stored lines that begin with
 * "[cuda] " are passed over. `only` (NULL: all) limits the comparison to groups in that list.
 * Returns the number of differences, -1 when the file cannot be read.
 */
int conf_compare(const struct conf_lines *got, const char *path, int soft, const char *only);

/* Is the group in the comma-separated list? NULL holds every group. */
int conf_in_list(const char *list, const char *name, size_t length);

#endif
