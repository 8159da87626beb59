/* Host memory that the device uses in place: there is no copy, and the device reads and writes it
 * at a device address. Fills and copies by the device stand for kernels. */
#include <stdio.h>
#include <string.h>

#include <cuda_runtime.h>

#include "cuda_check.h"

enum { COUNT = 1 << 16 };
static const size_t BYTES = COUNT * sizeof(int);

static int all_are(const int *values, size_t count, int value) {
    for (size_t i = 0; i < count; i++) {
        if (values[i] != value) {
            return 0;
        }
    }
    return 1;
}

int main(void) {
    struct cudaPointerAttributes attributes;
    unsigned int flags = 0;
    int can_map = 0;
    int *host = NULL, *mapped = NULL, *inner = NULL, *device = NULL;
    cudaStream_t stream;

    CHECK(cudaDeviceGetAttribute(&can_map, cudaDevAttrCanMapHostMemory, 0));
    EXPECT(can_map, "the device can map host memory");
    CHECK(cudaHostAlloc((void **)&host, BYTES, cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer((void **)&mapped, host, 0));
    CHECK(cudaHostGetFlags(&flags, host));
    EXPECT(flags & cudaHostAllocMapped, "the flags say that the memory is mapped");
    CHECK(cudaPointerGetAttributes(&attributes, host));
    EXPECT(attributes.type == cudaMemoryTypeHost && attributes.hostPointer == (void *)host &&
               attributes.devicePointer == (void *)mapped,
           "both addresses are known");
    CHECK(cudaHostGetDevicePointer((void **)&inner, host + 100, 0));
    EXPECT(inner == mapped + 100, "an address inside the block is known, too");

    CHECK(cudaMalloc((void **)&device, BYTES));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));

    /* The device writes; the host reads only after the device is done. */
    memset(host, 0, BYTES);
    CHECK(cudaMemsetAsync(mapped, 0x11, BYTES, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(all_are(host, COUNT, 0x11111111), "what the device wrote is there");

    /* The host writes; device work that is queued after the writes sees them. */
    for (int i = 0; i < COUNT; i++) {
        host[i] = 42;
    }
    CHECK(cudaMemcpyAsync(device, mapped, BYTES, cudaMemcpyDefault, stream));
    CHECK(cudaMemsetAsync(device, 0, BYTES / 2, stream));
    CHECK(cudaMemcpyAsync(mapped, device, BYTES, cudaMemcpyDefault, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(all_are(host, COUNT / 2, 0) && all_are(host + COUNT / 2, COUNT / 2, 42),
           "what the host wrote went through the device");

    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(device));
    CHECK(cudaFreeHost(host));
    return wrong_count != 0;
}
