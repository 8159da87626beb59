/* Programs that no loader starts. */
#ifndef ACRE_ELF_STATIC_H
#define ACRE_ELF_STATIC_H

#include <stdbool.h>

/* Whether the file is a program that was linked statically, of 64 bits: it says so itself, by
 * naming no loader, and by not being a library either, as loaders are. What cannot be read, or is
 * no such file, a script for one, is not. */
bool elf_is_static(const char *path);

#endif
