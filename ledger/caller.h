/* The caller that the ledger records for allocations and refused calls of this thread, and messages
 * to the user.
 *
 * The exported functions of the libraries that contain the ledger are doors: those of the stand-ins
 * (standin/), and the hooks of the shim (shim/). A door records on entry which CUDA call the
 * program made and from where, so that a leak report can name both. Doors call other doors, as the
 * stand-in of the runtime calls that of the driver. The outermost one counts, because it is the
 * call in the program's source.
 *
 * The stand-in of libcuda.so.1 exports these functions under the version ACRE_PRIVATE, because they
 * are not part of CUDA. Threads: any; each thread has its own caller. */
#ifndef ACRE_LEDGER_CALLER_H
#define ACRE_LEDGER_CALLER_H

#include <stdint.h>

#define LEDGER_EXPORT __attribute__((visibility("default")))

struct acre_ledger_caller {
    const char *call;    /* name of the function in the program's source, static text; NULL: none */
    const void *address; /* return address of the call */
    /* If a library of NVIDIA's made the call, and stacks are on: */
    const void *from; /* return address in the first code outside of these libraries; NULL: none */
    const void *library; /* where the library that made the call begins */
};

/* Begins a door. Sets the thread's caller unless an outer door has set it. `before` is for
 * acre_ledger_leave. */
void acre_ledger_enter(struct acre_ledger_caller *before, const char *call, const void *address);

/* Ends a door, also after a failure. `code` is its result, 0 for success, and `error` the name of
 * the code. If the door is the outermost one, a failure is recorded for `acre run --errors`. */
void acre_ledger_leave(const struct acre_ledger_caller *before, unsigned code, const char *error);

/* Prints one line to stderr, with the prefix "acre: " and a newline, when `key` is first seen in
 * the process. Later calls with the same key are no-ops. Copies the text of `key`. */
void acre_ledger_say_once(const char *key, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Called by libacre in the program (src/base/run.c), which finds them by name: a device was opened
 * or closed, and `blocks` blocks that `call` had allocated were not freed before their pool or
 * device was destroyed, or at exit; and a function to call before the report at exit. */
void acre_ledger_opened(const void *device, const void *address);
void acre_ledger_closed(const void *device);
void acre_ledger_leaked(const char *call, uint64_t blocks, uint64_t bytes, const void *address);
void acre_ledger_wrong(const char *line);
void acre_ledger_at_exit(void (*fn)(void));

#endif
