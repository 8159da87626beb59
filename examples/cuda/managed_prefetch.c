/* Managed memory: one address for host and device; pages migrate to the processor that uses them.
 * Prefetch moves pages before they are needed, in stream order. Advice says where to keep them. */
#include <stdio.h>
#include <string.h>

#include <cuda_runtime.h>

#include "cuda_check.h"

enum { COUNT = 1 << 20 };
static const size_t BYTES = COUNT * sizeof(int);

/* The last prefetch location: a device, cudaCpuDeviceId, or cudaInvalidDeviceId for none. */
static int last_sent(const int *values) {
    int location = 0;

    CHECK(cudaMemRangeGetAttribute(&location, sizeof location,
                                   cudaMemRangeAttributeLastPrefetchLocation, values, BYTES));
    return location;
}

int main(void) {
    struct cudaMemLocation on_device = {.type = cudaMemLocationTypeDevice, .id = 0};
    struct cudaMemLocation on_host = {.type = cudaMemLocationTypeHost, .id = 0};
    struct cudaPointerAttributes attributes;
    int is_concurrent = 0, read_mostly = 0, sum_is_right = 1;
    int *values = NULL;
    cudaStream_t stream;

    CHECK(cudaDeviceGetAttribute(&is_concurrent, cudaDevAttrConcurrentManagedAccess, 0));
    if (!is_concurrent) {
        /* The host may then neither access nor prefetch managed memory while the device works. */
        fprintf(stderr, "this device does not move managed memory on demand\n");
        return 77;
    }
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMallocManaged((void **)&values, BYTES, cudaMemAttachGlobal));
    CHECK(cudaPointerGetAttributes(&attributes, values));
    EXPECT(attributes.type == cudaMemoryTypeManaged, "the memory is managed");
    EXPECT(last_sent(values) == cudaInvalidDeviceId, "it was not prefetched yet");

    /* The host fills the memory. A prefetch moves it to the device, which clears half of it. */
    for (int i = 0; i < COUNT; i++) {
        values[i] = i;
    }
    CHECK(cudaMemPrefetchAsync(values, BYTES, on_device, 0, stream));
    CHECK(cudaMemsetAsync(values, 0, BYTES / 2, stream));
    EXPECT(last_sent(values) == 0, "it was prefetched to the device");

    /* A prefetch moves it back after the fill; the host waits for the stream before it reads. */
    CHECK(cudaMemPrefetchAsync(values, BYTES, on_host, 0, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(last_sent(values) == cudaCpuDeviceId, "it was prefetched to the host");
    for (int i = 0; i < COUNT; i++) {
        sum_is_right = sum_is_right && values[i] == (i < COUNT / 2 ? 0 : i);
    }
    EXPECT(sum_is_right, "the device cleared the first half");

    /* Host and device only read from now on: each may keep a copy of the pages. */
    CHECK(cudaMemAdvise(values, BYTES, cudaMemAdviseSetReadMostly, on_device));
    CHECK(cudaMemRangeGetAttribute(&read_mostly, sizeof read_mostly,
                                   cudaMemRangeAttributeReadMostly, values, BYTES));
    EXPECT(read_mostly, "the advice is kept");
    CHECK(cudaMemAdvise(values, BYTES, cudaMemAdviseUnsetReadMostly, on_device));

    CHECK(cudaFree(values));
    CHECK(cudaStreamDestroy(stream));
    return wrong_count != 0;
}
