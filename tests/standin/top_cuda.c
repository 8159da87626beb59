/* A program for `acre run`, for tests of `acre top`: allocates 5 MiB of device memory and 3 MiB of
 * pinned memory with CUDA, frees 1 MiB, prints "ready" and waits for the end of its input. */
#include <stdio.h>
#include <unistd.h>

#include <cuda_runtime_api.h>

int main(void) {
    void *p[3];
    char byte;
    if (cudaMalloc(&p[0], 4 << 20) != cudaSuccess || cudaMalloc(&p[1], 1 << 20) != cudaSuccess ||
        cudaMallocHost(&p[2], 3 << 20) != cudaSuccess || cudaFree(p[1]) != cudaSuccess) {
        return 1;
    }
    puts("ready");
    fflush(stdout);
    while (read(0, &byte, 1) > 0) {
    }
    (void)cudaFree(p[0]);
    (void)cudaFreeHost(p[2]);
    return 0;
}
