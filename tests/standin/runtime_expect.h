/* Helpers for tests of the runtime. The tests are CUDA programs that use only the runtime's header
 * and expect the behaviour of a GPU, so they also run with NVIDIA's library.
 *
 * Every expectation also checks the last error. A failed call leaves its error there, a successful
 * call leaves none, and cudaErrorNotReady is never kept. */
#ifndef ACRE_TESTS_RUNTIME_EXPECT_H
#define ACRE_TESTS_RUNTIME_EXPECT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <cuda_runtime_api.h>

#include "on_standin.h"
#include "support/cases.h"

#define expect(code, call) expect_code((code), (call), #call, __FILE__, __LINE__)
#define ok(call) expect(cudaSuccess, call)

static inline void expect_code(cudaError_t expected, cudaError_t got, const char *call,
                               const char *file, int line) {
    cudaError_t last = cudaGetLastError();
    if (got != expected || last != (got == cudaErrorNotReady ? cudaSuccess : got)) {
        print_error("%s\n    returned %s, expected %s; the last error was %s\n", call,
                    cudaGetErrorName(got), cudaGetErrorName(expected), cudaGetErrorName(last));
        _fail(file, line);
    }
}

/* ---- gates: block a stream until the host opens them ---- */

struct gate {
    _Atomic int entered, open;
};

/* Times out after 200 seconds, so that no test hangs: no machine needs that long. */
static inline int gate_wait(_Atomic int *flag) {
    for (int i = 0; i < 2000000 && !atomic_load(flag); i++)
        usleep(100);
    return atomic_load(flag);
}

static inline void gate_stand(void *argument) {
    struct gate *gate = argument;
    atomic_store(&gate->entered, 1);
    (void)gate_wait(&gate->open);
}

static inline void gate_close(struct gate *gate, cudaStream_t stream) {
    atomic_init(&gate->entered, 0);
    atomic_init(&gate->open, 0);
    ok(cudaLaunchHostFunc(stream, gate_stand, gate));
    assert_true(gate_wait(&gate->entered));
}

static inline void gate_open(struct gate *gate) {
    atomic_store(&gate->open, 1);
}

/* ---- memory ---- */

static inline void *device_block(size_t bytes) {
    void *p = NULL;
    ok(cudaMalloc(&p, bytes));
    assert_non_null(p);
    return p;
}

static inline unsigned char device_byte(const void *p) {
    unsigned char byte = 0;
    ok(cudaMemcpy(&byte, p, 1, cudaMemcpyDeviceToHost));
    return byte;
}

static inline struct cudaMemLocation on_device(int device) {
    return (struct cudaMemLocation){.type = cudaMemLocationTypeDevice, .id = device};
}

static inline struct cudaMemLocation on_host(void) {
    return (struct cudaMemLocation){.type = cudaMemLocationTypeHost, .id = 0};
}

#endif
