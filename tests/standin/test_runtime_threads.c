/* Threads: the per-thread default stream of programs compiled for it, and many threads at once. */
#define CUDA_API_PER_THREAD_DEFAULT_STREAM
#include <pthread.h>

#include "runtime_expect.h"
#include "support/rounds.h"

enum { THREADS = 8, BYTES = 1 << 14 };

/* ---- the per-thread default stream ---- */

/* Makes every call that has a per-thread form: none of them waits for the other thread. */
static void *ptds_beside(void *argument) {
    unsigned char *pinned = argument, byte = 0;
    char *p = device_block(BYTES);
    cudaEvent_t event;
    unsigned flags;
    ok(cudaMemset(p, 1, BYTES));
    ok(cudaMemcpy(&byte, p, 1, cudaMemcpyDeviceToHost));
    assert_int_equal(byte, 1);
    ok(cudaMemset2D(p, 256, 2, 64, 4));
    ok(cudaMemcpy2D(pinned, 64, p, 256, 64, 4, cudaMemcpyDeviceToHost));
    assert_int_equal(pinned[255], 2);
    ok(cudaMemcpy(p, pinned, 64, cudaMemcpyHostToDevice));
    ok(cudaMemcpy(p + 64, p, 64, cudaMemcpyDeviceToDevice));
    ok(cudaMemcpy(p + 128, p, 64, cudaMemcpyDefault));
    ok(cudaMemsetAsync(p, 3, BYTES, NULL));
    ok(cudaMemset2DAsync(p, 256, 4, 64, 4, NULL));
    ok(cudaMemcpyAsync(pinned, p, BYTES, cudaMemcpyDeviceToHost, NULL));
    ok(cudaEventCreate(&event));
    ok(cudaEventRecord(event, NULL));
    ok(cudaStreamWaitEvent(NULL, event, 0));
    ok(cudaEventSynchronize(event));
    ok(cudaStreamSynchronize(NULL));
    ok(cudaStreamQuery(NULL));
    ok(cudaStreamGetFlags(NULL, &flags));
    assert_int_equal(pinned[0], 4);
    assert_int_equal(pinned[BYTES - 1], 3);
    ok(cudaEventDestroy(event));
    /* A free would wait for the whole device, so the other thread frees it. */
    return p;
}

static void ptds_threads_do_not_wait_for_each_other(void **state) {
    struct gate gate;
    pthread_t thread;
    unsigned char *pinned = NULL;
    unsigned long long mine = 0, legacy = 0;
    void *p = NULL;
    (void)state;
    ok(cudaMallocHost((void **)&pinned, BYTES));
    ok(cudaStreamGetId(NULL, &mine));
    ok(cudaStreamGetId(cudaStreamLegacy, &legacy));
    assert_int_not_equal(mine, legacy);
    gate_close(&gate, NULL);
    assert_int_equal(pthread_create(&thread, NULL, ptds_beside, pinned), 0);
    assert_int_equal(pthread_join(thread, &p), 0);
    expect(cudaErrorNotReady, cudaStreamQuery(NULL));
    expect(cudaErrorNotReady, cudaStreamQuery(cudaStreamPerThread));
    gate_open(&gate);
    ok(cudaStreamSynchronize(NULL));
    ok(cudaFree(p));
    ok(cudaFreeHost(pinned));
}

/* ---- many threads ---- */

static void *threads_churn(void *argument) {
    unsigned number = *(unsigned *)argument;
    cudaStream_t stream;
    cudaEvent_t event;
    unsigned char *pinned = NULL;
    ok(cudaMallocHost((void **)&pinned, BYTES));
    ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    ok(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    for (unsigned round = 0; round < ROUNDS(100, 10); round++) {
        unsigned char value = (unsigned char)(number + round);
        char *p = device_block(BYTES);
        ok(cudaMemsetAsync(p, value, BYTES, stream));
        ok(cudaMemcpyAsync(pinned, p, BYTES, cudaMemcpyDeviceToHost, stream));
        ok(cudaEventRecord(event, stream));
        ok(cudaEventSynchronize(event));
        assert_int_equal(pinned[BYTES - 1], value);
        expect(cudaErrorInvalidValue, cudaFree(p + 1));
        ok(cudaFree(p));
    }
    ok(cudaEventDestroy(event));
    ok(cudaStreamDestroy(stream));
    ok(cudaFreeHost(pinned));
    return argument;
}

/* Most threads have not called the runtime before: they all find the context at once. */
static void threads_work_beside_each_other(void **state) {
    pthread_t threads[THREADS];
    unsigned numbers[THREADS];
    size_t before = 0, after = 0, total;
    (void)state;
    ok(cudaMemGetInfo(&before, &total));
    for (unsigned i = 0; i < THREADS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, threads_churn, &numbers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        void *done = NULL;
        assert_int_equal(pthread_join(threads[i], &done), 0);
        assert_ptr_equal(done, &numbers[i]);
    }
    ok(cudaMemGetInfo(&after, &total));
    /* The driver of a GPU keeps some memory that it allocated for the threads. */
    assert_true(on_standin() ? after == before : after + ((size_t)64 << 20) >= before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_work_beside_each_other),
        cmocka_unit_test(ptds_threads_do_not_wait_for_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
