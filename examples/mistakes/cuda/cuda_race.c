/* A mistake: two streams write to the same memory, and no event orders them. The program often
 * prints the right result, because the first stream is usually faster.
 *
 *   acre run --check -- cuda_race */
#include <stdio.h>

#include <cuda_runtime.h>

enum { BYTES = 1 << 16 };

int main(void) {
    cudaStream_t clear, fill;
    void *device = NULL;
    if (cudaMalloc(&device, BYTES) != cudaSuccess ||
        cudaStreamCreateWithFlags(&clear, cudaStreamNonBlocking) != cudaSuccess ||
        cudaStreamCreateWithFlags(&fill, cudaStreamNonBlocking) != cudaSuccess) {
        return 2;
    }
    (void)cudaMemsetAsync(device, 0, BYTES, clear);
    /* The mistake: no cudaEventRecord on `clear` and cudaStreamWaitEvent on `fill`. */
    (void)cudaMemsetAsync(device, 1, BYTES, fill);
    (void)cudaStreamSynchronize(fill);
    (void)cudaStreamSynchronize(clear);
    (void)cudaStreamDestroy(fill);
    (void)cudaStreamDestroy(clear);
    (void)cudaFree(device);
    puts("done");
    return 0;
}
