/* Errors: the last error of each thread, names and texts. */
#include <dlfcn.h>
#include <pthread.h>

#include "runtime_expect.h"

TEST(error_last_is_kept_until_it_is_asked_for) {
    void *p = NULL;
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    assert_int_equal(cudaMalloc(&p, (size_t)1 << 60), cudaErrorMemoryAllocation);
    assert_int_equal(cudaMalloc(&p, 64), cudaSuccess); /* does not clear the error */
    assert_int_equal(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
    assert_int_equal(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
    /* The later error replaces it. */
    assert_int_equal(cudaFree((char *)p + 8), cudaErrorInvalidValue);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    assert_int_equal(cudaPeekAtLastError(), cudaSuccess);
    ok(cudaFree(p));
}

/* Also errors that the runtime detects without calling the driver. */
TEST(error_last_is_kept_of_every_sort) {
    assert_int_equal(cudaMalloc(NULL, 1), cudaErrorInvalidValue);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
    (void)cudaGetErrorString(cudaErrorInvalidValue);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
}

/* cudaErrorNotReady is a result: it is not kept, and it does not clear the last error. */
TEST(error_not_ready_is_not_kept) {
    struct gate gate;
    cudaStream_t stream;
    cudaEvent_t start, end;
    float ms;
    ok(cudaStreamCreate(&stream));
    ok(cudaEventCreate(&start));
    ok(cudaEventCreate(&end));
    ok(cudaEventRecord(start, stream));
    gate_close(&gate, stream);
    ok(cudaEventRecord(end, stream));
    assert_int_equal(cudaStreamQuery(stream), cudaErrorNotReady);
    assert_int_equal(cudaPeekAtLastError(), cudaSuccess);
    assert_int_equal(cudaEventQuery(end), cudaErrorNotReady);
    assert_int_equal(cudaPeekAtLastError(), cudaSuccess);
    assert_int_equal(cudaEventElapsedTime(&ms, start, end), cudaErrorNotReady);
    assert_int_equal(cudaPeekAtLastError(), cudaSuccess);
    assert_int_equal(cudaMalloc(NULL, 1), cudaErrorInvalidValue);
    assert_int_equal(cudaStreamQuery(stream), cudaErrorNotReady);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
    gate_open(&gate);
    ok(cudaStreamSynchronize(stream)); /* the gate is on this stack */
    ok(cudaEventDestroy(start));
    ok(cudaEventDestroy(end));
    ok(cudaStreamDestroy(stream));
}

static void *error_elsewhere(void *argument) {
    cudaError_t *found = argument;
    *found = cudaPeekAtLastError();
    (void)cudaSetDevice(99);
    return cudaPeekAtLastError() == cudaErrorInvalidDevice ? argument : NULL;
}

TEST(error_last_is_the_threads_own) {
    pthread_t thread;
    cudaError_t found = cudaErrorUnknown;
    void *result = NULL;
    assert_int_equal(cudaMalloc(NULL, 1), cudaErrorInvalidValue);
    assert_int_equal(pthread_create(&thread, NULL, error_elsewhere, &found), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_int_equal(found, cudaSuccess);
    assert_non_null(result);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
}

TEST(error_names_and_texts) {
    assert_string_equal(cudaGetErrorName(cudaSuccess), "cudaSuccess");
    assert_string_equal(cudaGetErrorString(cudaSuccess), "no error");
    assert_string_equal(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
    assert_string_equal(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
    assert_string_equal(cudaGetErrorString(cudaErrorInvalidValue), "invalid argument");
    assert_string_equal(cudaGetErrorName(cudaErrorUnknown), "cudaErrorUnknown");
    assert_string_equal(cudaGetErrorName((cudaError_t)12345), "unrecognized error code");
    assert_string_equal(cudaGetErrorString((cudaError_t)-1), "unrecognized error code");
}

/* NVIDIA's library, which has names and texts even without a GPU. Opened by its path, it is a
 * second library beside the one that this program is linked with. */
TEST(error_names_and_texts_are_nvidias) {
    const char *path = getenv("ACRE_NVIDIA_CUDART");
    void *library =
        dlopen(path ? path : "/usr/local/cuda/lib64/libcudart.so.13", RTLD_NOW | RTLD_LOCAL);
    const char *(*name)(cudaError_t), *(*text)(cudaError_t);
    if (!library)
        skip();
    *(void **)&name = dlsym(library, "cudaGetErrorName");
    *(void **)&text = dlsym(library, "cudaGetErrorString");
    assert_non_null(name);
    assert_non_null(text);
    for (int i = -2; i < 10100; i++) {
        assert_string_equal(cudaGetErrorName((cudaError_t)i), name((cudaError_t)i));
        assert_string_equal(cudaGetErrorString((cudaError_t)i), text((cudaError_t)i));
    }
    dlclose(library);
}

int main(void) {
    return tests_run("runtime_error");
}
