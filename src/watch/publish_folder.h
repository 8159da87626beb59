/* The folder in which the programs of a user publish their statistics, for `acre top`.
 *
 * A program publishes in $XDG_RUNTIME_DIR/acre; without that variable, in /dev/shm/acre-UID-NS,
 * where NS is its pid namespace; where that is impossible, in /tmp/acre-UID. The folder has mode
 * 0700 and belongs to the user; any other is refused, since whoever owns it could replace its
 * files. A file gets its name once it is complete and locked, so a file that nobody has locked
 * belongs to a program that has ended. Names are never used twice.
 *
 * Pure functions of the file system: the tool compiles this file a second time. */
#ifndef ACRE_WATCH_PUBLISH_FOLDER_H
#define ACRE_WATCH_PUBLISH_FOLDER_H

#include <stdint.h>

#include "base/parse.h"

enum {
    ACRE__PUBLISH_NAME = 64,     /* bytes of a file's name */
    ACRE__PUBLISH_ENTRIES = 4096 /* most files that are looked at in one folder */
};

/* Writes the path of a folder that a reader looks at and returns 1; 0 if there is none with that
 * index. */
int acre__publish_folder(unsigned index, char path[ACRE__PATH_BYTES]);

/* Opens a folder, which `is_made` creates if it is missing. Returns -1 with errno: EPERM if it
 * belongs to another user or others may use it. */
int acre__publish_folder_open(const char *path, int is_made);

/* Opens or creates the first folder from *index on in which a program may publish, writes its path,
 * and sets *index to the one after it. Returns -1 with errno if there is none. If one was refused,
 * errno is EPERM and `path` names the first such folder. */
int acre__publish_folder_next(unsigned *index, char path[ACRE__PATH_BYTES]);

/* The name of a new file: while it is not complete, and afterwards. */
void acre__publish_names(long pid, uint64_t started_ns, char fresh[ACRE__PUBLISH_NAME],
                         char name[ACRE__PUBLISH_NAME]);
/* Returns 1 for a name that acre__publish_names has made. */
int acre__publish_is_name(const char *name);

/* The name of a control socket (control.h), and the process of such a name; -1 for another one. */
void acre__publish_control_name(long pid, uint64_t started_ns, char name[ACRE__PUBLISH_NAME]);
long acre__publish_control_pid(const char *name);

/* Removes a file of the folder if the program that wrote it has ended. Returns 1 if it was
 * removed. Files of any other kind stay. */
int acre__publish_remove_dead(int folder, const char *name);
/* Does so for all files of the folder. */
void acre__publish_sweep(int folder);

#endif
