/* Tells a test program which libraries it runs on: acre's stand-ins, or NVIDIA's, as in the step
 * `native` of tests/gpu/run.sh. Tests hold for both, except checks inside `if (on_standin())`. */
#ifndef ACRE_TESTS_ON_STANDIN_H
#define ACRE_TESTS_ON_STANDIN_H

#include <dlfcn.h>
#include <stddef.h>

/* For calls with a NULL output, to which some of NVIDIA's functions write anyway, and for features
 * that a GPU has and the soft device does not. */
static inline int on_standin(void) {
    return dlsym(RTLD_DEFAULT, "acre_ledger_enter") != NULL;
}

#endif
