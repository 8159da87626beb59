/* `acre run --limit-all`: what the driver takes for contexts, modules and the like counts, too. */
#ifndef ACRE_CLI_RUN_LIMIT_ALL_H
#define ACRE_CLI_RUN_LIMIT_ALL_H

#include <stdbool.h>

#include "limit_file.h"

enum { RUN_LIMIT_ALL_MS = 50 }; /* between two looks */

/* Returns true if NVML can be asked; otherwise a message says why not. */
bool run_limit_all_begin(void);

/* Asks NVML what each process of the run has, and charges what its slot does not count. */
void run_limit_all_look(struct limit_file *file);

#endif
