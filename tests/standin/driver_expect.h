/* Helpers for tests of the driver's stand-in. The tests are CUDA programs: they include cuda.h and
 * look up by name what it does not declare. */
#ifndef ACRE_TESTS_DRIVER_EXPECT_H
#define ACRE_TESTS_DRIVER_EXPECT_H

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <cuda.h>

#include "on_standin.h"
#include "support/cases.h"

#define expect(code, call) expect_code((code), (call), #call, __FILE__, __LINE__)
#define ok(call) expect(CUDA_SUCCESS, call)

static inline void expect_code(CUresult expected, CUresult got, const char *call, const char *file,
                               int line) {
    if (got != expected) {
        print_error("%s\n    returned %d, expected %d\n", call, (int)got, (int)expected);
        _fail(file, line);
    }
}

/* Returns the exported function of that exact name. */
static inline void *exported(const char *symbol) {
    void *found = dlsym(RTLD_DEFAULT, symbol);
    if (!found)
        fail_msg("%s is not exported", symbol);
    return found;
}

/* Sets a function pointer to the exported function of that name. */
#define take(pointer, symbol)                                                                      \
    do {                                                                                           \
        void *found_ = exported(symbol);                                                           \
        memcpy(&(pointer), &found_, sizeof found_);                                                \
    } while (0)

/* Makes the primary context of the first device current, for a group of tests. */
static inline int driver_begin(void **state) {
    CUdevice dev;
    CUcontext ctx;
    (void)state;
    return cuInit(0) || cuDeviceGet(&dev, 0) || cuDevicePrimaryCtxRetain(&ctx, dev) ||
           cuCtxSetCurrent(ctx);
}

/* ---- gates: block a stream until the host opens them ---- */

struct driver_gate {
    _Atomic int is_open;
};

/* Times out after 200 seconds, so that no test hangs: no machine needs that long. */
static inline void driver_gate_stand(void *argument) {
    struct driver_gate *gate = argument;
    for (int i = 0; i < 2000000 && !atomic_load(&gate->is_open); i++)
        usleep(100);
}

#endif
