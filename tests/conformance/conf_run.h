/* Interface between the runner (conformance.c), conf_compare.c and conf_util.c. Cases do not
 * include it. */
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

/* Appends a copy of `length` bytes. Returns 0 on success, -1 if out of memory. */
int conf_lines_add(struct conf_lines *lines, const char *text, size_t length);
void conf_lines_free(struct conf_lines *lines);

/*
 * Compares a run with the stored file by the name before the colon, line by line. Prints "- stored"
 * and "+ got" for each difference. If `soft` is set, skips stored lines that begin with "[cuda] ".
 * `only` limits the comparison to the groups in that list (NULL: all). Returns the number of
 * differences, or -1 if the file cannot be read.
 */
int conf_compare(const struct conf_lines *got, const char *path, int soft, const char *only);

/* Returns 1 if the group is in the comma-separated list. A NULL list contains every group. */
int conf_in_list(const char *list, const char *name, size_t length);

#endif
