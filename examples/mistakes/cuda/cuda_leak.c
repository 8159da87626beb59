/* A mistake: the function returns early and does not free its buffer.
 *
 *   acre run --leaks -- cuda_leak */
#include <stdio.h>

#include <cuda_runtime.h>

static int sum_is_ready(const float *host, size_t count) {
    float *device = NULL;
    if (cudaMalloc((void **)&device, count * sizeof *device) != cudaSuccess) {
        return 0;
    }
    if (count > 1000) {
        return 0; /* the mistake: `device` is not freed */
    }
    if (cudaMemcpy(device, host, count * sizeof *device, cudaMemcpyHostToDevice) != cudaSuccess) {
        puts("the copy failed");
    }
    return cudaFree(device) == cudaSuccess;
}

int main(void) {
    static const float values[4096];
    printf("10 values: %d\n", sum_is_ready(values, 10));
    printf("4096 values: %d\n", sum_is_ready(values, 4096));
    return 0;
}
