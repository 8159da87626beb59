/* Parses sizes, numbers and flags: see parse.h.
 *
 * The text is untrusted input of any length and content. Nothing here locks, allocates or logs. */
#include "base/parse.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ASCII only, since the program's locale must not change what a suffix means. */
static char parse_lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static int parse_same_word(const char *a, const char *b) {
    while (*a && parse_lower(*a) == parse_lower(*b)) {
        a++;
        b++;
    }
    return parse_lower(*a) == parse_lower(*b);
}

static int parse_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c = parse_lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16;
}

/* Parses digits of `base` from *text and moves *text past them. -1 if there are none or the number
 * overflows. */
static int parse_digits(const char **text, unsigned base, uint64_t *value) {
    const char *at = *text;
    uint64_t sum = 0;
    for (; (unsigned)parse_digit(*at) < base; at++) {
        if (__builtin_mul_overflow(sum, base, &sum))
            return -1;
        if (__builtin_add_overflow(sum, (uint64_t)parse_digit(*at), &sum))
            return -1;
    }
    if (at == *text)
        return -1;
    *text = at;
    *value = sum;
    return 0;
}

int acre__parse_bytes(const char *text, uint64_t *value) {
    static const struct {
        const char *word;
        uint64_t factor;
    } suffixes[] = {
        {"", 1},
        {"B", 1},
        {"K", UINT64_C(1) << 10},
        {"KiB", UINT64_C(1) << 10},
        {"KB", UINT64_C(1000)},
        {"M", UINT64_C(1) << 20},
        {"MiB", UINT64_C(1) << 20},
        {"MB", UINT64_C(1000000)},
        {"G", UINT64_C(1) << 30},
        {"GiB", UINT64_C(1) << 30},
        {"GB", UINT64_C(1000000000)},
        {"T", UINT64_C(1) << 40},
        {"TiB", UINT64_C(1) << 40},
        {"TB", UINT64_C(1000000000000)},
    };
    uint64_t count, bytes;
    if (parse_digits(&text, 10, &count) != 0)
        return -1;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        if (!parse_same_word(text, suffixes[i].word))
            continue;
        if (__builtin_mul_overflow(count, suffixes[i].factor, &bytes))
            return -1;
        *value = bytes;
        return 0;
    }
    return -1;
}

int acre__parse_number(const char *text, uint64_t *value) {
    unsigned base = 10;
    if (text[0] == '0' && parse_lower(text[1]) == 'x') {
        text += 2;
        base = 16;
    }
    uint64_t number;
    if (parse_digits(&text, base, &number) != 0 || *text)
        return -1;
    *value = number;
    return 0;
}

int acre__parse_flag(const char *text, int *value) {
    static const char *const words[] = {"0", "1", "no", "yes", "off", "on", "false", "true"};
    for (int i = 0; i < (int)(sizeof words / sizeof *words); i++) {
        if (!parse_same_word(text, words[i]))
            continue;
        *value = i % 2; /* false and true alternate */
        return 0;
    }
    return -1;
}

int acre__parse_lag(const char *text, uint64_t *operations, uint64_t *ns) {
    uint64_t count, nanoseconds;
    if (parse_digits(&text, 10, &count) != 0)
        return -1;
    int is_time = parse_same_word(text, "ms");
    if ((*text && !is_time) || __builtin_mul_overflow(count, UINT64_C(1000000), &nanoseconds))
        return -1;
    *operations = is_time ? 0 : count;
    *ns = is_time ? nanoseconds : 0;
    return 0;
}

int acre__parse_log(const char *text, size_t *path_bytes, int *level) {
    static const char *const names[] = {"error", "warn", "info", "debug"};
    const char *colon = strrchr(text, ':');
    size_t bytes = strlen(text);
    int found = 0;
    for (int i = 0; colon && i < 4; i++)
        if (parse_same_word(colon + 1, names[i]))
            found = i + 1;
    if (found)
        bytes = (size_t)(colon - text);
    /* After stderr nothing but a level makes sense; a path may contain a colon. */
    if (!bytes || (!found && strncmp(text, "stderr:", 7) == 0))
        return -1;
    *path_bytes = bytes;
    *level = found;
    return 0;
}

int acre__parse_stacks(const char *text, unsigned *frames, int *by_frame_pointers) {
    uint64_t number;
    const char *at = text;
    if (parse_digits(&at, 10, &number) || number > ACRE__STACK_MOST)
        return -1;
    int is_fp = parse_same_word(at, ":fp");
    if (*at && !is_fp)
        return -1;
    *frames = (unsigned)number;
    *by_frame_pointers = is_fp;
    return 0;
}

int acre__parse_path(const char *path, size_t bytes, char out[ACRE__PATH_BYTES]) {
    size_t used = 0;
    for (size_t i = 0; i < bytes; i++) {
        char piece[24] = {path[i]};
        char next = i + 1 < bytes ? path[i + 1] : '\0';
        if (path[i] == '%' && next == 'p')
            snprintf(piece, sizeof piece, "%ld", (long)getpid());
        if (path[i] == '%' && (next == 'p' || next == '%'))
            i++;
        size_t length = strlen(piece);
        if (used + length >= ACRE__PATH_BYTES)
            return -1;
        memcpy(out + used, piece, length);
        used += length;
    }
    out[used] = '\0';
    return 0;
}
