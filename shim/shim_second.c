/* Finds a driver that the shim is not in front of: a second libcuda.so.1, which the program has
 * loaded into a namespace of its own (dlmopen), or by another path. The dynamic linker does not
 * list other namespaces, but the kernel lists all mappings. */
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "elf_find.h"
#include "ledger.h"

enum { SECOND_LINE_BYTES = 4352 }; /* a path of 4096 bytes, and what precedes it */

/* ---- the program's own namespace ---- */

static int second_count(struct dl_phdr_info *info, size_t bytes, void *user) {
    struct link_map map = {.l_addr = info->dlpi_addr};
    (void)bytes;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            map.l_ld = (ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    *(int *)user += map.l_ld && acre__elf_has_soname(&map, "libcuda.so.1");
    return 0;
}

struct second_place {
    uintptr_t at, page; /* the first address of a mapping, and the size of a page */
};

static int second_holds(struct dl_phdr_info *info, size_t bytes, void *user) {
    const struct second_place *place = user;
    (void)bytes;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + part->p_vaddr, end = begin + part->p_memsz;
        if (part->p_type == PT_LOAD && place->at >= begin - begin % place->page && place->at < end)
            return 1;
    }
    return 0;
}

/* ---- other namespaces ---- */

/* Returns 1 if the line of /proc/self/maps is code of a driver that is not in the program's own
 * namespace: there is code of NVIDIA's whose file has such a name, but which is no driver. */
static int second_is_elsewhere(const char *line) {
    unsigned long begin = 0, end = 0;
    char rights[5] = "";
    const char *file = strrchr(line, '/');
    if (!file || strncmp(file + 1, "libcuda.so.", strlen("libcuda.so.")) != 0 ||
        sscanf(line, "%lx-%lx %4s", &begin, &end, rights) != 3 || rights[2] != 'x')
        return 0;
    struct second_place place = {begin, (uintptr_t)sysconf(_SC_PAGESIZE)};
    return !dl_iterate_phdr(second_holds, &place);
}

int acre__ledger_has_second_driver(int *is_in_base) {
    char line[SECOND_LINE_BYTES];
    int count = 0, is_found = 0;
    (void)dl_iterate_phdr(second_count, &count);
    *is_in_base = count > 1;
    if (*is_in_base)
        return 1;
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps)
        return 0;
    while (!is_found && fgets(line, sizeof line, maps))
        is_found = second_is_elsewhere(line);
    (void)fclose(maps);
    return is_found;
}
