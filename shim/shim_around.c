/* Objects of the program that call the driver around acre's hooks; see shim_pause.h.
 *
 * A gate replaces the driver's functions wherever the program looks them up. An object that has
 * found one in another way has its address among its data: linked functions in its table of
 * offsets, looked-up ones in a variable. So the writable segments of all loaded objects are
 * searched for the addresses of launches and copies. Pointers on the heap are not found. Pages that
 * nobody has written since they were loaded cannot contain such an address: /proc/self/pagemap
 * tells which, and reading them would bring them into memory.
 *
 * The caller must not have stopped the calls: dl_iterate_phdr takes the loader's lock, in which a
 * thread may wait for them. */
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shim_hooks.h"
#include "shim_memops.h"
#include "shim_pause.h"
#include "shim_retry.h"

enum { AROUND_WORDS = 1 << 14, AROUND_PAGES = 512 };

struct around_function {
    const char *name;
    enum shim_hook hook;
};
#define AROUND_ONE(symbol) {#symbol, SHIM_HOOK_##symbol},
#define AROUND_LAUNCH(symbol, params, args) AROUND_ONE(symbol)
#define AROUND_MEMOP(symbol, params, args, touches) AROUND_ONE(symbol) AROUND_ONE(symbol##_ptds)
#define AROUND_STREAM_MEMOP(symbol, params, args) AROUND_ONE(symbol) AROUND_ONE(symbol##_ptsz)
static const struct around_function around_functions[] = {
    SHIM_GRAPH_UPLOADS(AROUND_LAUNCH) SHIM_GRAPH_LAUNCHES(AROUND_LAUNCH)
        SHIM_LAUNCHES(AROUND_LAUNCH) SHIM_MEMOPS(AROUND_MEMOP)
            SHIM_STREAM_MEMOPS(AROUND_STREAM_MEMOP)};
enum { AROUND_FUNCTIONS = sizeof around_functions / sizeof around_functions[0] };

struct around {
    uintptr_t addresses[AROUND_FUNCTIONS]; /* 0: the driver lacks it */
    uintptr_t first, last;
    char *text;
    size_t bytes;
    uintptr_t page_bytes;
    int pagemap; /* -1: all pages are searched */
};

static int around_contains(const struct dl_phdr_info *info, uintptr_t address) {
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && address - (info->dlpi_addr + part->p_vaddr) < part->p_memsz)
            return 1;
    }
    return 0;
}

/* Returns the name of the function at the address; NULL: it is none of them. */
static const char *around_name(const struct around *around, uintptr_t address) {
    for (size_t i = 0; i < AROUND_FUNCTIONS; i++) {
        if (around->addresses[i] == address)
            return around_functions[i].name;
    }
    return NULL;
}

/* Searches a range. The kernel copies it, since the program may have changed its protection. */
static const char *around_search(const struct around *around, uintptr_t at, uintptr_t end) {
    static uintptr_t words[AROUND_WORDS]; /* one thread at a time: the loader's lock is held */
    const char *name = NULL;
    at = (at + sizeof *words - 1) / sizeof *words * sizeof *words;
    while (!name && at + sizeof *words <= end) {
        size_t bytes = end - at < sizeof words ? end - at : sizeof words;
        struct iovec to = {words, bytes}, from = {(void *)at, bytes};
        ssize_t got = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
        if (got <= 0)
            return NULL;
        size_t count = (size_t)got / sizeof *words;
        for (size_t i = 0; i < count && !name; i++) {
            if (words[i] >= around->first && words[i] <= around->last)
                name = around_name(around, words[i]);
        }
        at += count * sizeof *words;
        if (!count)
            return NULL;
    }
    return name;
}

/* Returns 1 if the page is the process's own: it was written, or it is not known. */
static int around_is_own(uint64_t entry) {
    const uint64_t present = UINT64_C(1) << 63, swapped = UINT64_C(1) << 62;
    const uint64_t is_of_file = UINT64_C(1) << 61;
    return entry & swapped || (entry & present && !(entry & is_of_file));
}

/* Searches the pages of a segment that may have been written. */
static const char *around_segment(const struct around *around, uintptr_t at, uintptr_t end) {
    uint64_t entries[AROUND_PAGES];
    const char *name = NULL;
    while (!name && at < end) {
        uintptr_t page = at / around->page_bytes, stop = end;
        ssize_t got = around->pagemap < 0 ? 0
                                          : pread(around->pagemap, entries, sizeof entries,
                                                  (off_t)(page * sizeof entries[0]));
        size_t count = got > 0 ? (size_t)got / sizeof entries[0] : 0, own = 0;
        if (!count)
            return around_search(around, at, end);
        int is_own = around_is_own(entries[0]); /* the pages after it of the same kind */
        while (own < count && around_is_own(entries[own]) == is_own)
            own++;
        if ((page + own) * around->page_bytes < end)
            stop = (page + own) * around->page_bytes;
        if (is_own)
            name = around_search(around, at, stop);
        at = stop;
    }
    return name;
}

static int around_look(struct dl_phdr_info *info, size_t bytes, void *user) {
    const struct around *around = user;
    (void)bytes;
    if (around_contains(info, around->first) || around_contains(info, (uintptr_t)around_look))
        return 0; /* the driver, or the shim */
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + part->p_vaddr;
        const char *name = part->p_type == PT_LOAD && part->p_flags & PF_W
                               ? around_segment(around, at, at + part->p_memsz)
                               : NULL;
        if (name) {
            const char *object =
                info->dlpi_name && *info->dlpi_name ? info->dlpi_name : "the program";
            snprintf(around->text, around->bytes, "%.160s has the address of %.60s", object, name);
            return 1;
        }
    }
    return 0;
}

int acre__around_find(char *text, size_t bytes) {
    struct around around = {.first = UINTPTR_MAX,
                            .text = text,
                            .bytes = bytes,
                            .page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE),
                            .pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)};
    for (size_t i = 0; i < AROUND_FUNCTIONS; i++) {
        uintptr_t address = (uintptr_t)acre__shim_driver(around_functions[i].hook);
        around.addresses[i] = address;
        if (address && address < around.first)
            around.first = address;
        if (address > around.last)
            around.last = address;
    }
    int is_found = around.last && dl_iterate_phdr(around_look, &around);
    if (around.pagemap >= 0)
        close(around.pagemap);
    return is_found;
}
