/* Copies the same data from pageable, pinned and registered memory. Pinned pages do not move, so
 * the device reads them directly, and only their copies are asynchronous. Pageable memory goes
 * through a buffer of the driver. Speeds differ between machines, so they go to stderr; stdout is
 * the same everywhere. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime.h>

#include "cuda_check.h"

enum { ROUNDS = 5 };
static const size_t BYTES = (size_t)16 << 20;

/* Parameters of all copies. */
struct transfer {
    char *device;
    unsigned char *back; /* pageable */
    cudaStream_t stream;
    cudaEvent_t begin, end;
};

/* GB/s of the fastest round; the first rounds include initialization. */
static double fastest(struct transfer *t, void *dst, const void *src) {
    float best = 0;

    for (int round = 0; round < ROUNDS; round++) {
        float milliseconds = 0;

        CHECK(cudaEventRecord(t->begin, t->stream));
        CHECK(cudaMemcpyAsync(dst, src, BYTES, cudaMemcpyDefault, t->stream));
        CHECK(cudaEventRecord(t->end, t->stream));
        CHECK(cudaEventSynchronize(t->end));
        CHECK(cudaEventElapsedTime(&milliseconds, t->begin, t->end));
        if (best == 0 || milliseconds < best) {
            best = milliseconds;
        }
    }
    return best > 0 ? (double)BYTES / 1e6 / (double)best : 0;
}

static void try_kind(struct transfer *t, const char *kind, unsigned char *host) {
    double there, back;
    char line[80];

    for (size_t i = 0; i < BYTES; i++) {
        host[i] = (unsigned char)(i * 7 + (i >> 12));
    }
    /* On the stream of the copies: cudaMemset would also return early, and is not ordered with work
     * on a non-blocking stream. */
    CHECK(cudaMemsetAsync(t->device, 0, BYTES, t->stream));
    there = fastest(t, t->device, host);
    CHECK(cudaMemcpy(t->back, t->device, BYTES, cudaMemcpyDeviceToHost));
    snprintf(line, sizeof line, "%s memory arrived", kind);
    EXPECT(memcmp(host, t->back, BYTES) == 0, line);

    memset(host, 0, BYTES);
    back = fastest(t, host, t->device);
    snprintf(line, sizeof line, "%s memory came back", kind);
    EXPECT(memcmp(host, t->back, BYTES) == 0, line);
    fprintf(stderr, "%-10s %6.1f GB/s to the device, %6.1f back\n", kind, there, back);
}

static const char *type_of(const void *p) {
    struct cudaPointerAttributes attributes;

    CHECK(cudaPointerGetAttributes(&attributes, p));
    switch (attributes.type) {
    case cudaMemoryTypeUnregistered:
        return "unknown to CUDA";
    case cudaMemoryTypeHost:
        return "host";
    case cudaMemoryTypeDevice:
        return "device";
    case cudaMemoryTypeManaged:
        return "managed";
    default:
        return "of a new kind";
    }
}

int main(void) {
    /* Whole pages, so that registering pins no other memory. */
    unsigned char *pageable = aligned_alloc(4096, BYTES), *pinned = NULL;
    struct transfer t = {.back = malloc(BYTES)};

    if (pageable == NULL || t.back == NULL) {
        fprintf(stderr, "no host memory\n");
        return 2;
    }
    CHECK(cudaMalloc((void **)&t.device, BYTES));
    CHECK(cudaMallocHost((void **)&pinned, BYTES));
    CHECK(cudaStreamCreateWithFlags(&t.stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&t.begin));
    CHECK(cudaEventCreate(&t.end));

    printf("pageable memory is %s\n", type_of(pageable));
    try_kind(&t, "pageable", pageable);
    printf("pinned memory is %s\n", type_of(pinned));
    try_kind(&t, "pinned", pinned);

    CHECK(cudaHostRegister(pageable, BYTES, cudaHostRegisterDefault));
    printf("registered memory is %s\n", type_of(pageable));
    printf("registered twice: %s\n",
           cudaGetErrorName(cudaHostRegister(pageable, BYTES, cudaHostRegisterDefault)));
    (void)cudaGetLastError();
    try_kind(&t, "registered", pageable);
    CHECK(cudaHostUnregister(pageable));
    printf("memory no longer registered is %s\n", type_of(pageable));

    CHECK(cudaEventDestroy(t.end));
    CHECK(cudaEventDestroy(t.begin));
    CHECK(cudaStreamDestroy(t.stream));
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaFree(t.device));
    free(t.back);
    free(pageable);
    return wrong_count != 0;
}
