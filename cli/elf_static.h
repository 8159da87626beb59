/* Detects statically linked programs. */
#ifndef ACRE_ELF_STATIC_H
#define ACRE_ELF_STATIC_H

#include <stdbool.h>

/* Returns true if the file is a 64-bit ELF program that is linked statically: it names no loader,
 * and it is not a shared library. Returns false for files that cannot be read and for other files,
 * such as scripts. */
bool elf_is_static(const char *path);

/* Returns the file that execvp would start, which the caller frees; NULL if there is none. */
char *elf_program_path(const char *program);

/* Whether a program is linked statically, so that no loader preloads libraries for it. Searches
 * PATH as execvp does. */
bool elf_is_static_program(const char *program);

#endif
