/* Names in exports: see export.h. Names come from untrusted files. A viewer may show them on a
 * terminal or in a page, so each format gets them in a form that is harmless everywhere: escapes
 * that people can read, as \x1b or \u202e. Quoting is up to the format. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "export.h"
#include "frames.h"

/* Reads a character of UTF-8. Returns its bytes, or 0 if they are invalid. */
static size_t text_character(const unsigned char *at, uint32_t *character) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t bytes = at[0] < 0x80 ? 1 : at[0] < 0xc0 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
    if (bytes == 0 || at[0] > 0xf4) {
        return 0;
    }
    *character = bytes == 1 ? at[0] : at[0] & (0x7fu >> bytes);
    for (size_t i = 1; i < bytes; i++) { /* a NUL ends the loop as any other wrong byte */
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
        *character = *character << 6 | (at[i] & 0x3f);
    }
    bool is_surrogate = *character >= 0xd800 && *character < 0xe000;
    return *character < least[bytes] || *character > 0x10ffff || is_surrogate ? 0 : bytes;
}

/* Returns true for control characters, marks of direction, and separators of lines. */
static bool text_is_harmful(uint32_t character) {
    return character < 0x20 || (character >= 0x7f && character < 0xa0) || character == 0x61c ||
           character == 0x200e || character == 0x200f ||
           (character >= 0x2028 && character <= 0x202e) ||
           (character >= 0x2066 && character <= 0x2069) || character == 0xfeff;
}

char *export_clean_text(const char *text) {
    char clean[EXPORT_TEXT_BYTES + 16]; /* the last character, its escape, and three dots */
    size_t used = 0;
    while (*text && used < EXPORT_TEXT_BYTES) {
        uint32_t character;
        size_t bytes = text_character((const unsigned char *)text, &character);
        if (bytes == 0) {
            used += (size_t)sprintf(clean + used, "\\x%02x", (unsigned char)*text);
            bytes = 1;
        } else if (text_is_harmful(character)) {
            used +=
                (size_t)sprintf(clean + used, character < 0x80 ? "\\x%02x" : "\\u%04x", character);
        } else {
            memcpy(clean + used, text, bytes);
            used += bytes;
            if (character == '<' && (text[1] == '/' || text[1] == '!')) {
                clean[used++] = '\\'; /* </script> and <!-- end what a page says, even in quotes */
            }
        }
        text += bytes;
    }
    return cli_format("%.*s%s", (int)used, clean, *text ? "..." : "");
}

const char *export_tag(const struct events *events, uint32_t tag) {
    return tag ? events->tag_names[tag - 1] : "";
}

/* ---- frames ---- */

static const char *frame_text(const struct events *events, uint32_t text) {
    return text ? events->texts[text - 1] : "";
}

/* Returns a path without its folders, of Linux or Windows ("C:\\...": elsewhere a backslash begins
 * an escape). */
static const char *file_base(const char *path) {
    const char *base = path;
    bool is_windows = path[0] && path[1] == ':';
    for (const char *c = path; *c; c++) {
        base = (*c == '/' || (is_windows && *c == '\\')) && c[1] ? c + 1 : base;
    }
    return base;
}

char *export_frame(const struct events *events, const struct event_frame *frame) {
    const char *name = frame_text(events, frame->name), *file = frame_text(events, frame->file);
    name = *name ? name : "?";
    const char *base = file_base(file);
    size_t length = strlen(base);
    if (!*file || (strncmp(name, base, length) == 0 && name[length] == '+')) {
        return cli_format("%s", name); /* without a symbol, the name has the file */
    }
    return frame->line ? cli_format("%s (%s:%" PRIu64 ")", name, base, frame->line)
                       : cli_format("%s (%s)", name, base);
}

/* Finds the function and the line of an offset in a program. */
static void frame_convert(struct events *events, struct event_frame *frame) {
    const char *module = frame_text(events, frame->file);
    struct frame_place place;
    char *name = NULL;
    if (frame_find(module, strlen(module), frame->line, &place)) {
        name = place.function[0] ? place.function : NULL;
        if (place.file[0]) {
            frame->file = events_add_text(events, place.file, strlen(place.file));
        }
        frame->line = place.line > 0 ? (uint64_t)place.line : 0;
        free(place.file);
        if (!name) {
            free(place.function);
            name = cli_format("code");
        }
    } else {
        name = cli_format("%s+0x%" PRIx64, file_base(module), frame->line);
        frame->line = 0;
    }
    frame->name = events_add_text(events, name, strlen(name));
    frame->is_module = false;
    free(name);
}

void export_clean(struct events *events) {
    for (size_t i = 0; i < events->frame_count; i++) {
        if (events->frames[i].is_module) {
            frame_convert(events, &events->frames[i]);
        }
    }
    frames_close();
    for (size_t i = 0; i < events->text_count; i++) {
        char *clean = export_clean_text(events->texts[i]);
        free(events->texts[i]);
        events->texts[i] = clean;
    }
    for (size_t i = 0; i < events->tag_count; i++) {
        char *clean = export_clean_text(events->tag_names[i]);
        free(events->tag_names[i]);
        events->tag_names[i] = clean;
    }
}
