/* See shim_modules.h. The table has a fixed size: an allocation would call the program's malloc
 * while the dynamic linker's list is locked. */
#include "shim_modules.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { MODULES = 2048 }; /* objects beyond it have no name */

static struct {
    pthread_mutex_t lock;
    unsigned long long adds, subs; /* of the dynamic linker, when the table was read */
    int is_read;
    unsigned count;
    struct shim_module table[MODULES]; /* in order of address */
} modules = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- kinds ---- */

static int begins_with(const char *name, const char *const *prefixes) {
    for (; *prefixes; prefixes++) {
        if (strncmp(name, *prefixes, strlen(*prefixes)) == 0)
            return 1;
    }
    return 0;
}

enum shim_module_kind acre__module_kind(const char *name) {
    static const char *const nvidia[] = {"libcuda",     "libcublas",    "libcudnn",  "libcufft",
                                         "libcusparse", "libcusolver",  "libcurand", "libcutensor",
                                         "libnvrtc",    "libnvJitLink", "libnccl",   "libnvshmem",
                                         "libnpp",      "libnvjpeg",    "libcufile", NULL};
    static const char *const systems[] = {
        "libc.so.",     "libpthread.so.", "ld-linux", "libstdc++.so.",
        "libgcc_s.so.", "linux-vdso",     NULL};
    if (begins_with(name, nvidia))
        return SHIM_MODULE_NVIDIA;
    return begins_with(name, systems) ? SHIM_MODULE_SYSTEM : SHIM_MODULE_OTHER;
}

/* ---- reading the list ---- */

/* The first entry has both counters. */
static int modules_count(struct dl_phdr_info *info, size_t bytes, void *user) {
    unsigned long long *counters = user;
    (void)bytes;
    counters[0] = info->dlpi_adds;
    counters[1] = info->dlpi_subs;
    return 1;
}

/* Inserts in order of address. The mutex is held. */
static int modules_add(struct dl_phdr_info *info, size_t bytes, void *user) {
    struct shim_module module = {.begin = UINTPTR_MAX, .base = info->dlpi_addr};
    (void)bytes, (void)user;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + part->p_vaddr;
        if (part->p_type != PT_LOAD)
            continue;
        module.begin = at < module.begin ? at : module.begin;
        module.end = at + part->p_memsz > module.end ? at + part->p_memsz : module.end;
    }
    if (module.begin >= module.end || modules.count == MODULES)
        return 0;
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *name = slash ? slash + 1 : info->dlpi_name;
    snprintf(module.name, sizeof module.name, "%s", *name ? name : program_invocation_short_name);
    uintptr_t here = (uintptr_t)modules_add;
    module.kind = here >= module.begin && here < module.end ? SHIM_MODULE_SHIM
                  : *name                                   ? acre__module_kind(name)
                                                            : SHIM_MODULE_OTHER;
    unsigned at = modules.count++;
    for (; at && modules.table[at - 1].begin > module.begin; at--)
        modules.table[at] = modules.table[at - 1];
    modules.table[at] = module;
    return 0;
}

void acre__modules_update(void) {
    unsigned long long counters[2] = {0, 0};
    (void)dl_iterate_phdr(modules_count, counters);
    pthread_mutex_lock(&modules.lock);
    if (!modules.is_read || modules.adds != counters[0] || modules.subs != counters[1]) {
        modules.count = 0;
        (void)dl_iterate_phdr(modules_add, NULL);
        modules.adds = counters[0];
        modules.subs = counters[1];
        modules.is_read = 1;
    }
    pthread_mutex_unlock(&modules.lock);
}

/* ---- queries ---- */

int acre__module_find(uintptr_t address, struct shim_module *out) {
    int is_found = 0;
    pthread_mutex_lock(&modules.lock);
    unsigned low = 0, high = modules.count; /* the first module that begins after the address */
    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        if (modules.table[middle].begin <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low && address < modules.table[low - 1].end) {
        *out = modules.table[low - 1];
        is_found = 1;
    }
    pthread_mutex_unlock(&modules.lock);
    return is_found;
}

void acre__modules_forget(void) {
    pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    modules.lock = fresh;
    modules.is_read = 0;
}
