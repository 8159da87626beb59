/* Suppressions of `acre run --suppress`; see run_report.h.
 *
 * They are in the file that all processes share, so that each process applies them and the tool
 * knows at the end which matched nothing. */
#include <fnmatch.h>
#include <string.h>

#include "run_report.h"

static const char *const rule_kinds[] = {"leak", "error", "race"};
enum { RULE_KINDS = sizeof rule_kinds / sizeof rule_kinds[0] };

/* Returns the length of "leak:" if the line begins so and a pattern follows, else 0. */
static size_t rule_prefix(const char *line, size_t length) {
    for (size_t i = 0; i < RULE_KINDS; i++) {
        size_t kind = strlen(rule_kinds[i]);
        if (length > kind + 1 && strncmp(line, rule_kinds[i], kind) == 0 && line[kind] == ':')
            return kind + 1;
    }
    return 0;
}

static int is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

/* Finds the part of a line that is neither blank nor a comment. A comment begins the line or
 * follows a blank, so that a pattern may contain '#'. */
static const char *rule_trim(const char *line, size_t *length) {
    for (size_t i = 0; i < *length; i++) {
        if (line[i] == '#' && (i == 0 || is_blank(line[i - 1])))
            *length = i;
    }
    while (*length && is_blank(line[0])) {
        line++;
        --*length;
    }
    while (*length && is_blank(line[*length - 1]))
        --*length;
    return line;
}

int acre__run_rules_read(struct run_file *file, const char *text) {
    for (int number = 1; *text; number++) {
        size_t whole = strcspn(text, "\n"), length = whole;
        const char *line = rule_trim(text, &length);
        text += whole + (text[whole] == '\n');
        if (!length)
            continue;
        size_t prefix = rule_prefix(line, length);
        if (!prefix)
            return number;
        /* Blanks after the colon are not part of the pattern. */
        const char *pattern = line + prefix;
        size_t pattern_length = length - prefix;
        pattern = rule_trim(pattern, &pattern_length);
        if (!pattern_length)
            return number;
        if (file->rule_count == RUN_RULE_LIMIT || prefix + pattern_length >= RUN_TEXT_BYTES ||
            file->rule_bytes + prefix + pattern_length + 1 > RUN_RULE_BYTES)
            return -1;
        char *to = file->rules + file->rule_bytes;
        memcpy(to, line, prefix);
        memcpy(to + prefix, pattern, pattern_length);
        to[prefix + pattern_length] = '\0';
        file->rule_bytes += (uint32_t)(prefix + pattern_length + 1);
        file->rule_count++;
    }
    return 0;
}

/* Copies the rule that begins at *at, and moves *at past it. Returns 0 at the end. */
static int rule_next(const struct run_file *file, uint32_t *at, char text[RUN_TEXT_BYTES]) {
    uint32_t length = 0;
    while (*at + length < RUN_RULE_BYTES && length + 1 < RUN_TEXT_BYTES &&
           (text[length] = file->rules[*at + length]))
        length++;
    text[length] = '\0';
    *at += length + 1;
    return length != 0;
}

int acre__run_rules_match(struct run_file *file, const char *kind, const char *const *texts,
                          size_t text_count) {
    char rule[RUN_TEXT_BYTES];
    size_t length = strlen(kind);
    for (uint32_t i = 0, at = 0; i < RUN_RULE_LIMIT && rule_next(file, &at, rule); i++) {
        if (strncmp(rule, kind, length) != 0 || rule[length] != ':')
            continue;
        for (size_t j = 0; j < text_count; j++) {
            if (fnmatch(rule + length + 1, texts[j], 0) == 0) {
                atomic_fetch_add_explicit(&file->rule_used[i], 1, memory_order_relaxed);
                return 1;
            }
        }
    }
    return 0;
}

uint32_t acre__run_rules_unused(const struct run_file *file, uint32_t index,
                                char text[RUN_TEXT_BYTES]) {
    for (uint32_t i = 0, at = 0; i < RUN_RULE_LIMIT && rule_next(file, &at, text); i++) {
        if (i < index || atomic_load_explicit(&file->rule_used[i], memory_order_relaxed))
            continue;
        /* A process may have changed the text, which may go to a terminal. */
        for (char *c = text; *c; c++)
            *c = (char)((unsigned char)*c < ' ' || *c == 127 ? '?' : *c);
        return i + 1;
    }
    return 0;
}
