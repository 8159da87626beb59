/* Who is charged for what the driver's doors hand out on this thread, and how the stand-ins speak.
 *
 * A stand-in is a library with NVIDIA's file name and functions over the soft driver: libcuda.so.1
 * (driver_*.c) and, on top of it, libcudart.so.13 (runtime_*.c). Every door notes on entry which
 * call of the program it is and where the program called it from, so that a list of leaks can say
 * so. The runtime's doors use the driver's; the outermost one counts, since that is the call that
 * stands in the program.
 *
 * These functions are in libcuda.so.1, under the version ACRE_PRIVATE: they are no part of CUDA.
 * Threads: any; a caller is the calling thread's own. */
#ifndef ACRE_STANDIN_CALLER_H
#define ACRE_STANDIN_CALLER_H

struct acre_standin_caller {
    const char *call;    /* the function as the program wrote it, static text; NULL: none */
    const void *address; /* where that call returns to */
};

/* A door begins: unless an outer one is under way already, the thread's caller is now this one.
 * `before` is for acre_standin_leave. */
void acre_standin_enter(struct acre_standin_caller *before, const char *call, const void *address);

/* The door ends, whatever it did. */
void acre_standin_leave(const struct acre_standin_caller *before);

/* One line on stderr, begun with "acre: " and ended here, the first time that `key` is seen in the
 * process; after that nothing. The text of `key` is kept, not the pointer. */
void acre_standin_say_once(const char *key, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
