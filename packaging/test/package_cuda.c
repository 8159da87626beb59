/* A CUDA program without kernels: allocates twice and forgets to free once. Linked with the
 * stand-ins of acre-tools. */
#include <cuda_runtime.h>
#include <stdio.h>

int main(void) {
    void *p = NULL, *leaked = NULL;
    cudaError_t error = cudaMalloc(&p, 1000);
    if (error == cudaSuccess) {
        error = cudaMalloc(&leaked, 2000);
    }
    if (error == cudaSuccess) {
        error = cudaFree(p);
    }
    printf("%s\n", cudaGetErrorName(error));
    return error == cudaSuccess ? 0 : 1;
}
