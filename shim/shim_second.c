/* Finds a driver that the shim is not in front of: a second libcuda.so.1, which the program has
 * loaded into a namespace of its own (dlmopen). The dynamic linker does not list other namespaces,
 * but the kernel lists all mappings. */
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "elf_find.h"
#include "ledger.h"

enum { SECOND_LINE_BYTES = 4352 }; /* a path of 4096 bytes, and what precedes it */

/* The addresses of the driver in the program's own namespace; empty if there is none. */
struct second_range {
    uintptr_t begin, end;
};

static int second_look(struct dl_phdr_info *info, size_t bytes, void *user) {
    struct second_range *range = user;
    struct link_map map = {.l_addr = info->dlpi_addr};
    uintptr_t begin = UINTPTR_MAX, end = 0;
    (void)bytes;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_DYNAMIC)
            map.l_ld = (ElfW(Dyn) *)at;
        if (part->p_type != PT_LOAD)
            continue;
        begin = at < begin ? at : begin;
        end = at + part->p_memsz > end ? at + part->p_memsz : end;
    }
    if (!map.l_ld || !acre__elf_has_soname(&map, "libcuda.so.1"))
        return 0;
    *range = (struct second_range){begin, end};
    return 1;
}

/* Returns 1 if the line of /proc/self/maps is code of a driver outside the range. */
static int second_is_driver(const char *line, const struct second_range *first) {
    unsigned long begin = 0, end = 0;
    char rights[5] = "";
    const char *file = strrchr(line, '/');
    return file && strncmp(file + 1, "libcuda.so.", strlen("libcuda.so.")) == 0 &&
           sscanf(line, "%lx-%lx %4s", &begin, &end, rights) == 3 && rights[2] == 'x' &&
           (end <= first->begin || begin >= first->end);
}

int acre__ledger_has_second_driver(void) {
    struct second_range first = {0, 0};
    char line[SECOND_LINE_BYTES];
    int is_found = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps)
        return 0;
    (void)dl_iterate_phdr(second_look, &first);
    while (!is_found && fgets(line, sizeof line, maps))
        is_found = second_is_driver(line, &first);
    (void)fclose(maps);
    return is_found;
}
