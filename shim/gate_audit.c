/* libacre_gate.so: an audit library (LD_AUDIT, see rtld-audit(7)) that makes the dynamic linker
 * bind the program's calls of libcuda.so.1 and libnvidia-ml.so.1 to the shim's hooks. It sees every
 * binding: at start, lazy, and by dlsym and dlvsym, whatever the search order is (RTLD_DEEPBIND).
 *
 * It lives in a namespace of its own, with its own libc, and begins before the shim is relocated.
 * So it calls nothing of the shim, and reads the hooks' addresses from the shim's symbol table.
 *
 * A libcuda.so.1 in a namespace of the program's own (dlmopen) is not touched: the shim calls the
 * one of the program's first namespace, and the two do not know each other's memory.
 *
 * Locks: none. The dynamic linker calls la_objopen with its lock held. */
#include <link.h>
#include <stddef.h>
#include <stdint.h>

#include "elf_find.h"

#define GATE_EXPORT __attribute__((visibility("default")))

static const struct link_map *gate_shim;   /* NULL: not loaded yet */
static const struct link_map *gate_driver; /* the first one, which the shim calls */

GATE_EXPORT unsigned int la_version(unsigned int version);
GATE_EXPORT unsigned int la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie);
GATE_EXPORT unsigned int la_objclose(uintptr_t *cookie);

unsigned int la_version(unsigned int version) {
    return version < LAV_CURRENT ? version : LAV_CURRENT;
}

/* Cookies of objects: not 0 for NVIDIA's libraries, whose functions are replaced. glibc calls
 * la_symbind64 if either side of a binding has its flag, so the flags alone do not choose. */
static const uintptr_t GATE_OTHER = 0, GATE_NVML = 1, GATE_DRIVER = 2;

/* Bindings from every object but the shim and NVIDIA's libraries, to those libraries. */
unsigned int la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie) {
    *cookie = GATE_OTHER;
    if (space != LM_ID_BASE)
        return 0;
    if (acre__elf_is_named(map->l_name, "libacre_shim.so")) {
        gate_shim = map;
        return 0;
    }
    int is_driver = !gate_driver && acre__elf_has_soname(map, "libcuda.so.1");
    if (!is_driver && !acre__elf_has_soname(map, "libnvidia-ml.so.1"))
        return LA_FLG_BINDFROM;
    if (is_driver)
        gate_driver = map;
    *cookie = is_driver ? GATE_DRIVER : GATE_NVML;
    return LA_FLG_BINDTO;
}

/* The program may close a driver that it has not used, and open it again. */
unsigned int la_objclose(uintptr_t *cookie) {
    if (*cookie == GATE_DRIVER)
        gate_driver = NULL;
    return 0;
}

/* Symbols that begin with cu or nvml and a capital letter may have a hook. */
static int gate_may_bind(const char *name) {
    if (name[0] == 'c' && name[1] == 'u')
        return name[2] >= 'A' && name[2] <= 'Z';
    return name[0] == 'n' && name[1] == 'v' && name[2] == 'm' && name[3] == 'l' && name[4] >= 'A' &&
           name[4] <= 'Z';
}

static uintptr_t gate_bind(uintptr_t address, const char *name) {
    if (!gate_shim || !gate_may_bind(name))
        return address;
    void *hook = acre__elf_find(gate_shim, name);
    return hook ? (uintptr_t)hook : address;
}

GATE_EXPORT uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned int index, uintptr_t *from,
                                   uintptr_t *to, unsigned int *flags, const char *name);

uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned int index, uintptr_t *from, uintptr_t *to,
                       unsigned int *flags, const char *name) {
    (void)index, (void)from, (void)flags;
    return *to != GATE_OTHER ? gate_bind(symbol->st_value, name) : symbol->st_value;
}
