/* Frames of call stacks: see frames.h. A file is opened when it is first named. Names come from
 * untrusted input, so only regular files are opened. */
#include "frames.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/lines.h"
#include "cli.h"

struct module {
    struct module *next;
    struct acre__lines *lines; /* NULL: without debug information */
    char path[];
};

static struct module *modules;

/* Returns the debug information of a file, opened once; NULL without. */
static struct acre__lines *module_lines(const char *path, size_t bytes) {
    struct module *module = modules;
    while (module && (strlen(module->path) != bytes || memcmp(module->path, path, bytes) != 0)) {
        module = module->next;
    }
    if (!module) {
        struct stat info;
        module = cli_alloc(sizeof *module + bytes + 1);
        memcpy(module->path, path, bytes);
        if (stat(module->path, &info) != 0 || !S_ISREG(info.st_mode)) {
            free(module);
            return NULL;
        }
        acre__lines_use_demangler(1);
        module->lines = acre__lines_open_file(module->path);
        module->next = modules;
        modules = module;
    }
    return module->lines;
}

static bool module_find(const char *path, size_t path_bytes, uint64_t offset,
                        struct acre__line *line) {
    struct acre__lines *lines =
        memchr(path, '\0', path_bytes) ? NULL : module_lines(path, path_bytes);
    return lines && acre__lines_find(lines, offset, line);
}

bool frame_find(const char *path, size_t path_bytes, uint64_t offset, struct frame_place *place) {
    struct acre__line line;
    if (!module_find(path, path_bytes, offset, &line)) {
        return false;
    }
    *place = (struct frame_place){cli_format("%s", line.function), cli_format("%s", line.file),
                                  line.file[0] ? line.line : 0};
    return true;
}

char *frame_resolve(const char *path, size_t path_bytes, uint64_t offset, bool *has_line) {
    struct acre__line line;
    if (!module_find(path, path_bytes, offset, &line)) {
        return NULL;
    }
    *has_line = line.file[0] != '\0';
    if (!*has_line) {
        return cli_format("%s in %.*s+0x%" PRIx64, line.function, (int)path_bytes, path, offset);
    }
    return cli_format("%s at %s:%d", line.function[0] ? line.function : "code", line.file,
                      line.line);
}

bool frames_are_possible(void) {
    return acre__lines_are_there();
}

void frames_close(void) {
    while (modules) {
        struct module *next = modules->next;
        acre__lines_close(modules->lines);
        free(modules);
        modules = next;
    }
}
