/* Error checks of the programs here. A CUDA call that fails ends the program with one line that
 * says which call, where and why. A failed expectation is counted, and main returns 1 if there was
 * one. For C and C++. */
#ifndef CUDA_CHECK_H
#define CUDA_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#include <cuda_runtime.h>

/* CHECK(cudaFree(p)): for calls of CUDA's runtime. */
#define CHECK(call) check_runtime((call), #call, __FILE__, __LINE__)

static inline void check_runtime(cudaError_t error, const char *call, const char *file, int line) {
    if (error != cudaSuccess) {
        fprintf(stderr, "%s:%d: %s: %s (%s)\n", file, line, call, cudaGetErrorName(error),
                cudaGetErrorString(error));
        exit(2);
    }
}

/* CHECK_DRIVER(cuMemFree(p)): for driver calls, in programs that include cuda.h before. */
#ifdef CUDA_VERSION
#define CHECK_DRIVER(call) check_driver((call), #call, __FILE__, __LINE__)

static inline void check_driver(CUresult result, const char *call, const char *file, int line) {
    if (result != CUDA_SUCCESS) {
        const char *name = NULL;

        if (cuGetErrorName(result, &name) != CUDA_SUCCESS || name == NULL) {
            name = "an unknown error";
        }
        fprintf(stderr, "%s:%d: %s: %s\n", file, line, call, name);
        exit(2);
    }
}
#endif

/* EXPECT(a == b, "the copy is complete"): prints one line for each expectation. */
#define EXPECT(is_so, what) expect((is_so) != 0, (what), __FILE__, __LINE__)

static int wrong_count;

static inline void expect(int is_so, const char *what, const char *file, int line) {
    printf("%s: %s\n", what, is_so ? "yes" : "NO");
    if (!is_so) {
        fprintf(stderr, "%s:%d: this is wrong: %s\n", file, line, what);
        wrong_count++;
    }
}

#endif
