/* Source lines through libdw: see lines.h.
 *
 * The library is loaded at run time and its functions are declared here, so acre neither needs it
 * to be built nor to run. Separate files with debug information are not searched for: the search
 * may ask servers on the network. */
#include "base/lines.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct dwfl;
struct dwfl_module;
struct dwfl_line;

typedef char *demangle_fn(const char *, char *, size_t *, int *);
typedef int find_elf_fn(struct dwfl_module *, void **, const char *, uint64_t, char **, void **);
typedef int find_debug_fn(struct dwfl_module *, void **, const char *, uint64_t, const char *,
                          const char *, uint32_t, char **);

/* As Dwfl_Callbacks in elfutils/libdwfl.h. */
struct callbacks {
    find_elf_fn *find_elf;
    find_debug_fn *find_debug;
    int (*section_address)(void);
    char **path;
};

struct libdw {
    struct dwfl *(*begin)(const struct callbacks *);
    void (*end)(struct dwfl *);
    void (*report_begin)(struct dwfl *);
    int (*report_end)(struct dwfl *, int (*)(void), void *);
    int (*report_process)(struct dwfl *, pid_t);
    struct dwfl_module *(*report_file)(struct dwfl *, const char *, const char *, int);
    struct dwfl_module *(*module)(struct dwfl *, uint64_t);
    void *(*elf)(struct dwfl_module *, uint64_t *);
    const char *(*name)(struct dwfl_module *, uint64_t);
    struct dwfl_line *(*source)(struct dwfl_module *, uint64_t);
    const char *(*info)(struct dwfl_line *, uint64_t *, int *, int *, uint64_t *, uint64_t *);
    find_elf_fn *find_elf;
    int (*offline_address)(void);
    void *(*next_unit)(struct dwfl_module *, void *, uint64_t *);
    int (*has_address)(void *, uint64_t);
    void *(*unit_source)(void *, uint64_t);
    const char *(*line_file)(void *, uint64_t *, uint64_t *);
    int (*line_number)(void *, int *);
};

struct acre__lines {
    const struct libdw *dw;
    struct dwfl *dwfl;
    struct callbacks callbacks;
    uint64_t bias; /* of a file: added to offsets */
};

static int find_no_debug(struct dwfl_module *module, void **user, const char *name, uint64_t base,
                         const char *file, const char *link, uint32_t sum, char **found) {
    (void)module, (void)user, (void)name, (void)base, (void)file, (void)link, (void)sum;
    *found = NULL;
    return -1;
}

/* Stores the address of a function; a cast of dlsym's result to a function pointer is not ISO C. */
static int find_function(void *library, const char *name, void *place) {
    void *found = dlsym(library, name);
    memcpy(place, &found, sizeof found);
    return found != NULL;
}

/* Finds the functions. Returns 0 if one is missing. */
static int libdw_find(struct libdw *dw) {
    void *library = dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL);
    const struct {
        const char *name;
        void *place;
    } wanted[] = {
        {"dwfl_begin", &dw->begin},
        {"dwfl_end", &dw->end},
        {"dwfl_report_begin", &dw->report_begin},
        {"dwfl_report_end", &dw->report_end},
        {"dwfl_linux_proc_report", &dw->report_process},
        {"dwfl_report_offline", &dw->report_file},
        {"dwfl_addrmodule", &dw->module},
        {"dwfl_module_getelf", &dw->elf},
        {"dwfl_module_addrname", &dw->name},
        {"dwfl_module_getsrc", &dw->source},
        {"dwfl_lineinfo", &dw->info},
        {"dwfl_linux_proc_find_elf", &dw->find_elf},
        {"dwfl_offline_section_address", &dw->offline_address},
        {"dwfl_module_nextcu", &dw->next_unit},
        {"dwarf_haspc", &dw->has_address},
        {"dwarf_getsrc_die", &dw->unit_source},
        {"dwarf_linesrc", &dw->line_file},
        {"dwarf_lineno", &dw->line_number},
    };
    int is_there = library != NULL;
    for (size_t i = 0; is_there && i < sizeof wanted / sizeof *wanted; i++)
        is_there = find_function(library, wanted[i].name, wanted[i].place);
    return is_there;
}

/* Returns NULL if the library is not there. The first thread that has loaded it publishes the
 * functions; no thread waits for another here, since dlopen takes the loader's lock. */
static const struct libdw *libdw_load(void) {
    static _Atomic(struct libdw *) known;
    static struct libdw absent;
    struct libdw *dw = atomic_load_explicit(&known, memory_order_acquire), *before = NULL;
    if (!dw) {
        dw = calloc(1, sizeof *dw);
        if (!dw)
            return NULL;
        if (!libdw_find(dw)) {
            free(dw);
            dw = &absent;
        }
        if (!atomic_compare_exchange_strong_explicit(&known, &before, dw, memory_order_acq_rel,
                                                     memory_order_acquire)) {
            if (dw != &absent)
                free(dw);
            dw = before;
        }
    }
    return dw == &absent ? NULL : dw;
}

int acre__lines_are_there(void) {
    return libdw_load() != NULL;
}

/* __cxa_demangle of a C++ library in the process. NULL until acre__lines_use_demangler finds it. */
static _Atomic(demangle_fn *) demangler;

void acre__lines_use_demangler(int may_load) {
    static const char *const libraries[] = {"libstdc++.so.6", "libc++abi.so.1"};
    demangle_fn *found = atomic_load_explicit(&demangler, memory_order_acquire);
    if (found || find_function(RTLD_DEFAULT, "__cxa_demangle", &found))
        atomic_store_explicit(&demangler, found, memory_order_release);
    /* Python loads libraries such that their functions are not found by default. */
    for (size_t i = 0; !found && i < sizeof libraries / sizeof *libraries; i++) {
        void *library = dlopen(libraries[i], may_load ? RTLD_NOW : RTLD_NOW | RTLD_NOLOAD);
        if (library && find_function(library, "__cxa_demangle", &found))
            atomic_store_explicit(&demangler, found, memory_order_release);
        else if (library)
            dlclose(library);
    }
}

static struct acre__lines *lines_make(void) {
    const struct libdw *dw = libdw_load();
    struct acre__lines *lines = dw ? calloc(1, sizeof *lines) : NULL;
    if (!lines)
        return NULL;
    lines->dw = dw;
    lines->callbacks = (struct callbacks){.find_elf = dw->find_elf,
                                          .find_debug = find_no_debug,
                                          .section_address = dw->offline_address};
    lines->dwfl = dw->begin(&lines->callbacks);
    if (lines->dwfl)
        return lines;
    free(lines);
    return NULL;
}

void acre__lines_close(struct acre__lines *lines) {
    if (!lines)
        return;
    lines->dw->end(lines->dwfl);
    free(lines);
}

struct acre__lines *acre__lines_open_process(void) {
    struct acre__lines *lines = lines_make();
    if (!lines || (lines->dw->report_process(lines->dwfl, getpid()) == 0 &&
                   lines->dw->report_end(lines->dwfl, NULL, NULL) == 0))
        return lines;
    acre__lines_close(lines);
    return NULL;
}

struct acre__lines *acre__lines_open_file(const char *path) {
    struct acre__lines *lines = lines_make();
    if (!lines)
        return NULL;
    struct dwfl_module *module = lines->dw->report_file(lines->dwfl, path, path, -1);
    if (module && lines->dw->report_end(lines->dwfl, NULL, NULL) == 0 &&
        lines->dw->elf(module, &lines->bias))
        return lines;
    acre__lines_close(lines);
    return NULL;
}

/* Returns 1 if a mangled name may be very long when it is demangled: a substitution may double it.
 */
static int is_excessive(const char *name) {
    enum { MOST = 40 };
    int count = 0;
    for (; *name && count <= MOST; name++)
        if (*name == 'S')
            count += name[1 + strspn(name + 1, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")] == '_';
    return count > MOST;
}

/* Copies a function's name, demangled if possible. */
static void copy_name(const char *name, char *out, size_t bytes) {
    demangle_fn *demangle = atomic_load_explicit(&demangler, memory_order_acquire);
    char *plain = NULL;
    int status = -1;
    if (demangle && strncmp(name, "_Z", 2) == 0 && !is_excessive(name))
        plain = demangle(name, NULL, NULL, &status);
    snprintf(out, bytes, "%s", plain && status == 0 ? plain : name);
    free(plain);
}

/* Finds the file and line. libdw looks an address up in a section that clang does not write; then
 * the compilation units are searched. */
static const char *find_source(const struct libdw *dw, struct dwfl_module *module, uint64_t address,
                               int *number) {
    struct dwfl_line *line = dw->source(module, address);
    if (line)
        return dw->info(line, NULL, number, NULL, NULL, NULL);
    uint64_t bias = 0;
    void *unit = NULL;
    while ((unit = dw->next_unit(module, unit, &bias))) {
        void *found = dw->has_address(unit, address - bias) > 0
                          ? dw->unit_source(unit, address - bias)
                          : NULL;
        if (found)
            return dw->line_number(found, number) == 0 ? dw->line_file(found, NULL, NULL) : NULL;
    }
    return NULL;
}

int acre__lines_find(struct acre__lines *lines, uint64_t address, struct acre__line *found) {
    const struct libdw *dw = lines->dw;
    *found = (struct acre__line){.line = 0};
    address += lines->bias;
    struct dwfl_module *module = dw->module(lines->dwfl, address);
    if (!module)
        return 0;
    const char *name = dw->name(module, address);
    if (name)
        copy_name(name, found->function, sizeof found->function);
    const char *file = find_source(dw, module, address, &found->line);
    if (file)
        snprintf(found->file, sizeof found->file, "%s", file);
    return name || file;
}
