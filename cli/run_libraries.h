/* The libraries that `acre run` puts in front of a program, and whether NVIDIA's driver is there.
 */
#ifndef ACRE_CLI_RUN_LIBRARIES_H
#define ACRE_CLI_RUN_LIBRARIES_H

#include <stdbool.h>

/* Libraries that are in one folder. */
struct run_set {
    const char *names[3]; /* the rest is NULL */
    const char *folder;   /* beside the tool, or below lib/acre */
    const char *variable; /* names another folder */
};

extern const struct run_set run_standins; /* of NVIDIA's libraries, for the soft device */
extern const struct run_set run_shim;     /* in front of NVIDIA's driver: the shim, and two gates */

/* Finds the folder of the libraries, as a path that LD_PRELOAD accepts; the caller frees it.
 * Returns NULL after a message if there is none. */
char *run_find_libraries(const struct run_set *set);

/* Returns true if NVIDIA's driver can be loaded and has a device. */
bool run_has_gpu(void);

#endif
