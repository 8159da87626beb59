/* A mistake: a copy of 1000 elements, to memory that was allocated for 1000 bytes.
 *
 *   acre run --errors -- cuda_overrun */
#include <stdio.h>

#include <cuda_runtime.h>

enum { COUNT = 1000 };

int main(void) {
    static const int values[COUNT];
    int *device = NULL;
    if (cudaMalloc((void **)&device, COUNT) != cudaSuccess) {
        return 2;
    }
    (void)cudaMemcpy(device, values, sizeof values, cudaMemcpyHostToDevice); /* the mistake */
    puts("copied");
    return cudaFree(device) != cudaSuccess;
}
