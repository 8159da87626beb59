/* Call stacks of a trace: see show_stack.h and trace_stack.h. */
#include "show_stack.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "frames.h"
#include "show_text.h"
#include "trace_stack.h"

static char *frame_text(const struct trace_reader *reader, uint64_t module, uint64_t offset) {
    const struct trace_name *name = trace_name_find(reader, ACRE__TRACE_MODULE_NAME, module);
    if (!name) {
        return cli_format("0x%" PRIx64, offset);
    }
    bool has_line;
    char *text = frame_resolve(name->text, name->bytes, offset, &has_line);
    if (!text) {
        char *path = show_text(name->text, name->bytes);
        text = cli_format("%s+0x%" PRIx64, path, offset);
        free(path);
    }
    return text;
}

size_t show_stack_frames(const struct trace_reader *reader, uint64_t stack,
                         char *frames[SHOW_STACK_FRAMES]) {
    const struct trace_name *name = trace_name_find(reader, ACRE__TRACE_STACK, stack);
    size_t count = 0;
    uint64_t module, offset;
    if (!name) {
        return 0;
    }
    const char *at = name->text, *end = name->text + name->bytes;
    while (count < SHOW_STACK_FRAMES && trace_stack_next(&at, end, &module, &offset)) {
        frames[count++] = frame_text(reader, module, offset);
    }
    return count;
}

/* Returns the bytes of a C++ name without what may follow its parameters. */
static size_t without_qualifiers(const char *name, size_t bytes) {
    static const char *const after[] = {" const", " volatile", " &", "&"};
    for (size_t i = 0; i < sizeof after / sizeof *after;) {
        size_t length = strlen(after[i]);
        bool is_there = bytes > length && memcmp(name + bytes - length, after[i], length) == 0;
        bytes -= is_there ? length : 0;
        i = is_there ? 0 : i + 1;
    }
    return bytes;
}

/* Returns the bytes of a C++ name in front of its parameters: those of the last pair of round
 * brackets, since a name may have others, as in {lambda(int)#1}::operator()(int) const. */
static size_t name_bytes(const char *name, size_t bytes) {
    size_t at = without_qualifiers(name, bytes);
    if (at == 0 || name[at - 1] != ')') {
        return bytes;
    }
    int depth = 0;
    do {
        at--;
        depth += (name[at] == ')') - (name[at] == '(');
    } while (at > 0 && depth > 0);
    return at > 0 && name[at - 1] != ' ' ? at : bytes;
}

/* Removes the folders of the file and the parameters, and shortens a long name. A folder may have
 * " at " or " in " in its name, too. */
static const char *frame_shorten(char *frame) {
    enum { MOST = 60 };
    char *line = strstr(frame, " at "), *module = strstr(frame, " in ");
    char *where = !line || (module && module < line) ? module : line;
    char *slash = strrchr(frame, '/');
    if (!where || memchr(frame, '/', (size_t)(where - frame))) {
        return frame; /* a module and an offset */
    }
    if (slash) {
        memmove(where + strlen(" at "), slash + 1, strlen(slash + 1) + 1);
    }
    char *end = frame + name_bytes(frame, (size_t)(where - frame));
    if (end - frame > MOST) {
        end = frame + MOST;
        memset(end - 3, '.', 3);
    }
    memmove(end, where, strlen(where) + 1);
    return frame;
}

/* Returns how many innermost frames two stacks share. */
static size_t frames_shared(const struct trace_name *a, const struct trace_name *b) {
    size_t at = 0, count = 0;
    while (at < a->bytes && at < b->bytes && a->text[at] == b->text[at]) {
        count += a->text[at++] == ' ';
    }
    bool is_end = (at == a->bytes || a->text[at] == ' ') && (at == b->bytes || b->text[at] == ' ');
    return count + (is_end && at > 0 && a->text[at - 1] != ' ');
}

/* Finds which frames tell a stack from the others: not the first ones, if all stacks of the trace
 * have them, since these belong to a function that all allocations go through; and those up to the
 * first one that no other stack has there. */
static void frames_that_differ(const struct trace_reader *reader, const struct trace_name *stack,
                               size_t count, size_t *first, size_t *last) {
    size_t least = SIZE_MAX, most = 0;
    for (size_t i = 0; i < reader->name_count; i++) {
        const struct trace_name *other = &reader->names[i];
        if (other->kind == ACRE__TRACE_STACK && other->number != stack->number) {
            size_t shared = frames_shared(stack, other);
            least = shared < least ? shared : least;
            most = shared > most ? shared : most;
        }
    }
    /* One shared frame does no harm: two are shown. */
    *first = least < 2 || least == SIZE_MAX || least >= count ? 0 : least;
    *last = most > *first + 1 ? most : *first + 1;
    *last = *last < count ? *last : count - 1;
}

char *show_stack_name(const struct trace_reader *reader, uint64_t stack) {
    char *frames[SHOW_STACK_FRAMES];
    size_t count = show_stack_frames(reader, stack, frames), first, last;
    if (count == 0) {
        return cli_format("stack %" PRIu64, stack);
    }
    frames_that_differ(reader, trace_name_find(reader, ACRE__TRACE_STACK, stack), count, &first,
                       &last);
    const char *between = last > first + 1 ? " ..." : "";
    char *name = last == first ? cli_format("%s", frame_shorten(frames[first]))
                               : cli_format("%s%s from %s", frame_shorten(frames[first]), between,
                                            frame_shorten(frames[last]));
    for (size_t i = 0; i < count; i++) {
        free(frames[i]);
    }
    return name;
}
