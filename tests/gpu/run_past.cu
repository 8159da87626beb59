/* Writes one byte past a block of an acre pool, for tests/gpu/run_programs.sh: compute-sanitizer
 * finds that with ACRE_SANITIZE=1. */
#include <acre.h>
#include <cuda_runtime.h>
#include <stdio.h>

__global__ void write_past(char *p, int at) {
    p[at] = 1;
}

int main() {
    acre_device *device;
    void *block;
    if (acre_open("cuda", NULL, &device) || acre_alloc(device, 1000, NULL, &block)) {
        printf("%s\n", acre_last_detail());
        return 2;
    }
    write_past<<<1, 1>>>((char *)block, 999);
    write_past<<<1, 1>>>((char *)block, 1000);
    return cudaDeviceSynchronize() != cudaSuccess;
}
