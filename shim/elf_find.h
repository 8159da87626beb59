/* Finds functions in the symbol table of a loaded object, without the dynamic linker: an audit
 * library must not call into the program's namespace, and the shim must find the driver's own
 * functions although dlsym returns hooks. */
#ifndef ACRE_SHIM_ELF_FIND_H
#define ACRE_SHIM_ELF_FIND_H

#include <link.h>

/* Returns the address of a function that the object defines, or NULL. */
void *acre__elf_find(const struct link_map *object, const char *name);

/* Returns 1 if the object's DT_SONAME is `name`. */
int acre__elf_has_soname(const struct link_map *object, const char *name);

/* Returns 1 if the path ends in this file name. An object without a path, such as the program, has
 * an empty one. */
int acre__elf_is_named(const char *path, const char *file);

#endif
