/* Source lines of code addresses, read from debug information by libdw, which is loaded when it is
 * first needed. Not thread-safe. The library and the tool (acre symbolize) both use this file. */
#ifndef ACRE_BASE_LINES_H
#define ACRE_BASE_LINES_H

#include <stdint.h>

struct acre__lines;

struct acre__line {
    char function[256]; /* "" if unknown */
    char file[256];     /* "" if unknown */
    int line;
};

/* Open the debug information of the calling process, or of one file. NULL if libdw.so.1 is not
 * installed or the file has none. */
struct acre__lines *acre__lines_open_process(void);
struct acre__lines *acre__lines_open_file(const char *path);
void acre__lines_close(struct acre__lines *lines); /* NULL is a no-op */

/* Loads libdw.so.1, once. Returns 1 if it is installed. Call it without a lock, since it takes the
 * lock of the dynamic loader; the functions above then do not. */
int acre__lines_are_there(void);

/* Finds the function of a C++ library in the process that demangles names, and loads such a library
 * if `may_load`. From then on, names are demangled. Thread-safe. Call it without a lock. */
void acre__lines_use_demangler(int may_load);

/* Looks up an address: of the process, or an offset in the file. Returns 0 if neither function nor
 * line is known. */
int acre__lines_find(struct acre__lines *lines, uint64_t address, struct acre__line *found);

#endif
