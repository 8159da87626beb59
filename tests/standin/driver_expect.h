/* What tests of the driver's stand-in share. They are programs of CUDA's: cuda.h, and by name what
 * that does not declare. */
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
        print_error("%s\n    gave %d, expected %d\n", call, (int)got, (int)expected);
        _fail(file, line);
    }
}

/* The exported function of that exact name. */
static inline void *exported(const char *symbol) {
    void *found = dlsym(RTLD_DEFAULT, symbol);
    if (!found)
        fail_msg("%s is not exported", symbol);
    return found;
}

/* The same, put into a pointer to a function. */
#define take(pointer, symbol)                                                                      \
    do {                                                                                           \
        void *found_ = exported(symbol);                                                           \
        memcpy(&(pointer), &found_, sizeof found_);                                                \
    } while (0)

/* The first device with its primary context current, for a group of tests. */
static inline int driver_begin(void **state) {
    CUdevice dev;
    CUcontext ctx;
    (void)state;
    return cuInit(0) || cuDeviceGet(&dev, 0) || cuDevicePrimaryCtxRetain(&ctx, dev) ||
           cuCtxSetCurrent(ctx);
}

/* ---- gates: a stream held up until the host opens it ---- */

struct driver_gate {
    _Atomic int is_open;
};

/* No test is to hang for good: half a minute is for a machine that is busy with something else. */
static inline void driver_gate_stand(void *argument) {
    struct driver_gate *gate = argument;
    for (int i = 0; i < 300000 && !atomic_load(&gate->is_open); i++)
        usleep(100);
}

#endif
