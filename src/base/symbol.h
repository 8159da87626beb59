/* Code addresses of this process as text. */
#ifndef ACRE_BASE_SYMBOL_H
#define ACRE_BASE_SYMBOL_H

#include <stddef.h>
#include <stdint.h>

enum acre__symbol_kind { ACRE__SYMBOL_OTHER, ACRE__SYMBOL_OWN /* of acre */, ACRE__SYMBOL_MAIN };

/* Writes what a return address belongs to: "main at leak.c:14" if acre__symbols_use_lines was
 * called and the debug information is there, else "./program+0x11d8", which `acre symbolize`
 * resolves. */
enum acre__symbol_kind acre__symbol_text(uintptr_t frame, char *text, size_t bytes);

/* From now on, reads debug information, and demangles names of C++ if the process has a C++ library
 * by now. May be called again. Call it without a lock: it takes the loader's. */
void acre__symbols_use_lines(void);

/* Writes the function and line alone, "main at leak.c:14", without folders; "" if they are
 * unknown. */
void acre__symbol_line(uintptr_t frame, char *text, size_t bytes);

/* In a forked child: another thread of the parent may have been reading debug information, so the
 * child does without. */
void acre__symbols_in_child(void);

/* Finds the module of an address and the offset in it, as in the module's file. Returns 0 if no
 * module has the address. */
int acre__symbol_module(uintptr_t frame, const char **module, uint64_t *offset);

#endif
