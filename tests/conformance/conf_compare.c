/* Compares a run of the conformance suite with the stored one; see conf_run.h. */
#include "conf_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CUDA_MARK "[cuda] "

int conf_lines_add(struct conf_lines *lines, const char *text, size_t length) {
    char **grown = realloc(lines->line, (lines->count + 1) * sizeof *grown);
    char *copy;

    if (grown == NULL)
        return -1;
    lines->line = grown;
    copy = malloc(length + 1);
    if (copy == NULL)
        return -1;
    memcpy(copy, text, length);
    copy[length] = '\0';
    lines->line[lines->count++] = copy;
    return 0;
}

void conf_lines_free(struct conf_lines *lines) {
    size_t i;

    for (i = 0; i < lines->count; i++)
        free(lines->line[i]);
    free(lines->line);
    lines->line = NULL;
    lines->count = 0;
}

int conf_in_list(const char *list, const char *name, size_t length) {
    const char *at = list;

    if (list == NULL)
        return 1;
    while (*at != '\0') {
        size_t word = strcspn(at, ",");

        if (word == length && strncmp(at, name, length) == 0)
            return 1;
        at += word;
        if (*at == ',')
            at++;
    }
    return 0;
}

/* Returns the "group.case" of a line, without the [cuda] mark. */
static const char *line_name(const char *text, size_t *length) {
    if (strncmp(text, CUDA_MARK, strlen(CUDA_MARK)) == 0)
        text += strlen(CUDA_MARK);
    *length = strcspn(text, ":");
    return text;
}

static const char *find(const struct conf_lines *lines, const char *name, size_t length) {
    size_t i, other;

    for (i = 0; i < lines->count; i++) {
        const char *text = line_name(lines->line[i], &other);

        if (other == length && strncmp(text, name, length) == 0)
            return lines->line[i];
    }
    return NULL;
}

static int read_lines(const char *path, struct conf_lines *lines) {
    FILE *file = fopen(path, "r");
    char text[4200];

    if (file == NULL)
        return -1;
    while (fgets(text, sizeof text, file) != NULL) {
        size_t length = strcspn(text, "\r\n");

        if (length == 0 || text[0] == '#')
            continue;
        if (conf_lines_add(lines, text, length) != 0) {
            fclose(file);
            return -1;
        }
    }
    fclose(file);
    return 0;
}

/* Returns 1 if this stored line takes part in the comparison. */
static int is_wanted(const char *text, int soft, const char *only) {
    size_t length;
    const char *name = line_name(text, &length);

    if (soft && name != text)
        return 0;
    return conf_in_list(only, name, strcspn(name, "."));
}

int conf_compare(const struct conf_lines *got, const char *path, int soft, const char *only) {
    struct conf_lines stored = {NULL, 0};
    size_t i, length, same = 0;
    int different = 0;

    if (read_lines(path, &stored) != 0) {
        conf_lines_free(&stored);
        return -1;
    }
    for (i = 0; i < stored.count; i++) {
        const char *name = line_name(stored.line[i], &length);
        const char *other;

        if (!is_wanted(stored.line[i], soft, only))
            continue;
        other = find(got, name, length);
        if (other != NULL && strcmp(other, stored.line[i]) == 0) {
            same++;
            continue;
        }
        printf("- %s\n", stored.line[i]);
        printf("+ %s\n", other != NULL ? other : "(no such case)");
        different++;
    }
    for (i = 0; i < got->count; i++) {
        const char *name = line_name(got->line[i], &length);

        if (find(&stored, name, length) != NULL)
            continue;
        printf("- (not stored)\n+ %s\n", got->line[i]);
        different++;
    }
    printf("%zu cases as stored, %d different\n", same, different);
    conf_lines_free(&stored);
    return different;
}
