/* Code addresses as text: see symbol.h. A leaf lock guards the debug information, which libdw reads
 * lazily. It is read again once when an address is in no known module, since the program may have
 * loaded the module later. */
#include "base/symbol.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "base/lines.h"
#include "base/lock.h"

static struct {
    struct acre__lock lock;
    int use_lines;
    int is_opened;
    unsigned long long loads; /* modules loaded when the debug information was read again last */
    struct acre__lines *lines;
    char own[256]; /* the folder of acre's sources in debug information, with a slash */
    size_t own_bytes;
    int has_own, is_own_known; /* searched; found */
} symbols = {.lock = ACRE__LOCK_INIT("symbols", ACRE__RANK_LEAF)};

void acre__symbols_use_lines(void) {
    (void)acre__lines_are_there();
    acre__lines_use_demangler(0); /* not loaded: that is for the program to decide */
    acre__lock_take(&symbols.lock);
    symbols.use_lines = 1;
    acre__lock_give(&symbols.lock);
}

void acre__symbols_in_child(void) {
    acre__lock_init(&symbols.lock, "symbols", ACRE__RANK_LEAF);
    symbols.use_lines = 0;
    symbols.lines = NULL; /* not closed: it may be half changed */
}

int acre__symbol_module(uintptr_t frame, const char **module, uint64_t *offset) {
    Dl_info info;
    struct link_map *map = NULL;
    if (!dladdr1((void *)frame, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
        return 0;
    *module = info.dli_fname;
    *offset = frame - map->l_addr;
    return 1;
}

/* The number of modules loaded so far; the first entry has it. */
static int count_loads(struct dl_phdr_info *info, size_t bytes, void *loads) {
    (void)bytes;
    *(unsigned long long *)loads = info->dlpi_adds;
    return 1;
}

/* Lock held. */
static int find_line(uint64_t address, struct acre__line *line) {
    if (!symbols.use_lines)
        return 0;
    if (!symbols.is_opened) {
        symbols.lines = acre__lines_open_process();
        symbols.is_opened = 1;
    }
    if (!symbols.lines || acre__lines_find(symbols.lines, address, line))
        return symbols.lines != NULL;
    unsigned long long loads = 0;
    dl_iterate_phdr(count_loads, &loads);
    if (loads == symbols.loads)
        return 0;
    symbols.loads = loads;
    acre__lines_close(symbols.lines);
    symbols.lines = acre__lines_open_process();
    return symbols.lines && acre__lines_find(symbols.lines, address, line);
}

/* Lock held: finds the folder of acre's sources; there is none without debug information. */
static void own_find(void) {
    static const char here[] = "src/base/symbol.c";
    struct acre__line own;
    symbols.has_own = 1;
    if (!acre__lines_find(symbols.lines, (uintptr_t)acre__symbol_text, &own))
        return;
    const char *end = strstr(own.file, here);
    symbols.own_bytes = end ? (size_t)(end - own.file) : 0;
    symbols.is_own_known = end != NULL;
    memcpy(symbols.own, own.file, symbols.own_bytes);
}

/* Lock held: 1 for code of acre, in the program or in a stand-in library: because its file is in
 * the same folders as this one, or, without debug information, by its name. A program's function
 * may have such a name, too, but then mostly has a file. */
static int is_own(const struct acre__line *line) {
    if (!symbols.has_own)
        own_find();
    if (!symbols.is_own_known)
        return !line->file[0] && strncmp(line->function, "acre_", strlen("acre_")) == 0;
    const char *rest = line->file + symbols.own_bytes;
    return strncmp(line->file, symbols.own, symbols.own_bytes) == 0 &&
           (strncmp(rest, "src/", strlen("src/")) == 0 ||
            strncmp(rest, "standin/", strlen("standin/")) == 0);
}

/* How much of a function's name to print, so that the module and the offset stay whole. */
static int name_room(size_t bytes, const char *module) {
    size_t rest = strlen(module) + sizeof " in +0x0123456789abcdef";
    return bytes > rest ? (int)(bytes - rest) : 0;
}

/* The call is in front of the return address, maybe in another line or function. */
enum acre__symbol_kind acre__symbol_text(uintptr_t frame, char *text, size_t bytes) {
    struct acre__line line = {.line = 0};
    const char *module;
    uint64_t offset;
    acre__lock_take(&symbols.lock);
    int is_found = find_line(frame - 1, &line), is_acre = is_found && is_own(&line);
    acre__lock_give(&symbols.lock);
    if (is_found && line.file[0])
        snprintf(text, bytes, "%s at %s:%d", line.function[0] ? line.function : "code", line.file,
                 line.line);
    else if (acre__symbol_module(frame - 1, &module, &offset))
        snprintf(text, bytes, "%.*s%s%s+0x%llx", name_room(bytes, module),
                 is_found ? line.function : "", is_found ? " in " : "", module,
                 (unsigned long long)offset);
    else
        snprintf(text, bytes, "0x%llx", (unsigned long long)frame);
    if (is_acre)
        return ACRE__SYMBOL_OWN;
    return is_found && strcmp(line.function, "main") == 0 ? ACRE__SYMBOL_MAIN : ACRE__SYMBOL_OTHER;
}

void acre__symbol_line(uintptr_t frame, char *text, size_t bytes) {
    struct acre__line line = {.line = 0};
    acre__lock_take(&symbols.lock);
    int is_found = find_line(frame - 1, &line) && line.file[0];
    acre__lock_give(&symbols.lock);
    const char *slash = strrchr(line.file, '/');
    text[0] = '\0';
    if (is_found)
        snprintf(text, bytes, "%s at %s:%d", line.function[0] ? line.function : "code",
                 slash ? slash + 1 : line.file, line.line);
}
