/* Call stacks of a trace: see show_stack.h. The text of a stack is untrusted: pairs of a module's
 * number and an offset, separated by blanks; reading ends at the first malformed pair. */
#include "show_stack.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "frames.h"
#include "show_memory.h"

static const struct trace_name *name_find(const struct trace_reader *reader,
                                          enum acre__trace_kind kind, uint64_t number) {
    for (size_t i = reader->name_count; i-- > 0;) {
        if (reader->names[i].kind == kind && reader->names[i].number == number) {
            return &reader->names[i];
        }
    }
    return NULL;
}

static char *frame_text(const struct trace_reader *reader, uint64_t module, uint64_t offset) {
    const struct trace_name *name = name_find(reader, ACRE__TRACE_MODULE_NAME, module);
    if (!name) {
        return cli_format("0x%" PRIx64, offset);
    }
    char *text = frame_resolve(name->text, name->bytes, offset);
    if (!text) {
        char *path = show_text(name->text, name->bytes);
        text = cli_format("%s+0x%" PRIx64, path, offset);
        free(path);
    }
    return text;
}

/* Reads a hexadecimal number that ends with `last` or at the end of the text. */
static bool read_hex(const char **at, const char *end, char last, uint64_t *value) {
    static const char digits[] = "0123456789abcdef";
    int count = 0;
    const char *digit;
    *value = 0;
    while (*at < end && **at && (digit = strchr(digits, **at)) && count++ < 16) {
        *value = *value << 4 | (uint64_t)(digit - digits);
        ++*at;
    }
    bool is_ended = *at == end ? last == ' ' : **at == last;
    *at += *at < end;
    return count > 0 && is_ended;
}

size_t show_stack_frames(const struct trace_reader *reader, uint64_t stack,
                         char *frames[SHOW_STACK_FRAMES]) {
    const struct trace_name *name = name_find(reader, ACRE__TRACE_STACK, stack);
    size_t count = 0;
    uint64_t module, offset;
    if (!name) {
        return 0;
    }
    const char *at = name->text, *end = name->text + name->bytes;
    while (at < end && count < SHOW_STACK_FRAMES && read_hex(&at, end, ':', &module) &&
           read_hex(&at, end, ' ', &offset)) {
        frames[count++] = frame_text(reader, module, offset);
    }
    return count;
}

/* Without the folders of the file. */
static const char *without_folders(char *frame) {
    char *file = strstr(frame, " at "), *slash = strrchr(frame, '/');
    if (file && slash > file) {
        memmove(file + strlen(" at "), slash + 1, strlen(slash + 1) + 1);
    }
    return frame;
}

char *show_stack_name(const struct trace_reader *reader, uint64_t stack) {
    char *frames[SHOW_STACK_FRAMES];
    size_t count = show_stack_frames(reader, stack, frames);
    char *name = count == 0   ? cli_format("stack %" PRIu64, stack)
                 : count == 1 ? cli_format("%s", without_folders(frames[0]))
                              : cli_format("%s from %s", without_folders(frames[0]),
                                           without_folders(frames[1]));
    for (size_t i = 0; i < count; i++) {
        free(frames[i]);
    }
    return name;
}
