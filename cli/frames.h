/* Frames of call stacks as functions and lines, for acre symbolize and acre trace. */
#ifndef ACRE_CLI_FRAMES_H
#define ACRE_CLI_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns "main at main.c:14" for an offset in a file, or "main in program+0x11d8" if the file has
 * a symbol but no debug information for it; the caller frees it. NULL if the file is missing, is
 * not a regular file or has neither. Files stay open until frames_close. */
char *frame_resolve(const char *path, size_t path_bytes, uint64_t offset, bool *has_line);

/* Finds the function and the line of an offset in a file; their texts, which the caller frees, are
 * "" and the line 0 where they are unknown. Returns false as frame_resolve returns NULL. */
struct frame_place {
    char *function, *file;
    int line;
};
bool frame_find(const char *path, size_t path_bytes, uint64_t offset, struct frame_place *place);

/* Returns true if libdw.so.1, which reads debug information, is installed. */
bool frames_are_possible(void);

void frames_close(void);

#endif
