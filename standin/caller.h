/* The caller that the ledger records for allocations of this thread, and messages of the stand-ins.
 *
 * A stand-in is a library with NVIDIA's file name and functions over the soft driver: libcuda.so.1
 * (driver_*.c) and, on top of it, libcudart.so.13 (runtime_*.c). Each exported function is a door.
 * A door records on entry which CUDA call the program made and from where, so that a leak report
 * can name both. The runtime's doors call the driver's doors. The outermost door counts, because it
 * is the call in the program's source.
 *
 * These functions are in libcuda.so.1 under the version ACRE_PRIVATE, because they are not part of
 * CUDA. Threads: any; each thread has its own caller. */
#ifndef ACRE_STANDIN_CALLER_H
#define ACRE_STANDIN_CALLER_H

struct acre_standin_caller {
    const char *call;    /* name of the function in the program's source, static text; NULL: none */
    const void *address; /* return address of the call */
};

/* Begins a door. Sets the thread's caller unless an outer door has set it. `before` is for
 * acre_standin_leave. */
void acre_standin_enter(struct acre_standin_caller *before, const char *call, const void *address);

/* Ends a door, also after a failure. */
void acre_standin_leave(const struct acre_standin_caller *before);

/* Prints one line to stderr, with the prefix "acre: " and a newline, when `key` is first seen in
 * the process. Later calls with the same key are no-ops. Copies the text of `key`. */
void acre_standin_say_once(const char *key, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
