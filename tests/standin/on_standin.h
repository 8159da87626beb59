/* Which libraries a program of this folder has under it: acre's stand-ins, or NVIDIA's, as in the
 * step `native` of tests/gpu/run.sh. What a test says is true of both; what only a stand-in can
 * answer is asked on one alone. */
#ifndef ACRE_TESTS_ON_STANDIN_H
#define ACRE_TESTS_ON_STANDIN_H

#include <dlfcn.h>
#include <stddef.h>

/* For calls without a place for what they give: some of NVIDIA's write there all the same. For what
 * a GPU has and the soft device does not. */
static inline int on_standin(void) {
    return dlsym(RTLD_DEFAULT, "acre_standin_enter") != NULL;
}

#endif
