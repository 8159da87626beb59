/* Ends a process without exit handlers, as _exit does, but still writes the line counts for `make
 * coverage`. */
#ifndef ACRE_TESTS_LEAVE_H
#define ACRE_TESTS_LEAVE_H

#include <unistd.h>

#ifdef ACRE_COVERAGE
extern void __gcov_dump(void);
#endif

static inline _Noreturn void leave(int code) {
#ifdef ACRE_COVERAGE
    __gcov_dump();
#endif
    _exit(code);
}

#endif
