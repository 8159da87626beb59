/* Reports to `acre run`, which runs a program with its own libcuda.so.1 (standin/).
 *
 * `acre run --leaks` reports memory that the program allocates by CUDA's calls. Of a program that
 * uses acre, these functions report devices that are still open at exit and blocks that were not
 * freed before their device was closed, and what its soft driver has found. They find the stand-in
 * by name and are no-ops without it.
 *
 * Threads: any. No locks. */
#ifndef ACRE_BASE_RUN_H
#define ACRE_BASE_RUN_H

#include <stdint.h>

/* A device was created, for a call that returns to `address`, or destroyed. */
void acre__run_opened(const void *device, const void *address);
void acre__run_closed(const void *device);

/* `blocks` blocks were not freed before their owner was destroyed, or at exit. `call` allocates
 * such blocks; it is static text. `address` is where the call returns to, or NULL. */
void acre__run_leaked(const char *call, uint64_t blocks, uint64_t bytes, const void *address);

/* Finds the stand-in for acre__run_wrong, which is called under locks and must not search. */
void acre__run_begin(void);
/* The soft driver has found a wrong use of memory. */
void acre__run_wrong(const char *text);

/* `acre run` calls `fn` before it reports at exit. */
void acre__run_at_exit(void (*fn)(void));

/* Makes this copy of libacre report nothing: it is part of the shim, not of the program. */
void acre__run_never(void);

#endif
