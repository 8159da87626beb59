/* One large allocation at the start, divided into parts: for a program that knows what it needs and
 * wants no driver call in its loop. Every part begins at a multiple of 256 bytes, like memory of
 * cudaMalloc. The padding is counted before the block is allocated. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cuda_runtime.h>

#include "cuda_check.h"

#define ALIGNMENT ((size_t)256)
enum { POINTS = 10001, EDGES = 30011, ROUNDS = 3 };

static size_t padded(size_t bytes) {
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* A block that is divided into parts, one behind the other. All parts are freed together. */
struct block {
    char *base; /* in bytes, so that offsets are bytes too */
    size_t bytes, used;
};

/* Returns the next part; NULL, without a change, if the rest of the block is too small. */
static void *part(struct block *block, size_t bytes) {
    void *p = block->base + block->used;

    if (padded(bytes) > block->bytes - block->used) {
        return NULL;
    }
    block->used += padded(bytes);
    return p;
}

int main(void) {
    const size_t points_bytes = POINTS * 3 * sizeof(float), edges_bytes = EDGES * 2 * sizeof(int);
    const size_t flags_bytes = POINTS;
    struct block block = {.bytes =
                              padded(points_bytes) + padded(edges_bytes) + padded(flags_bytes)};
    static unsigned char back[POINTS];
    static float sent[POINTS * 3], returned[POINTS * 3];
    size_t needed = points_bytes + edges_bytes + flags_bytes;
    cudaStream_t stream;

    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc((void **)&block.base, block.bytes));
    printf("%zu bytes needed, %zu of padding\n", needed, block.bytes - needed);

    for (int round = 0; round < ROUNDS; round++) {
        float *points = part(&block, points_bytes);
        int *edges = part(&block, edges_bytes);
        unsigned char *flags = part(&block, flags_bytes);

        printf("round %d\n", round);
        if (points == NULL || edges == NULL || flags == NULL) {
            fprintf(stderr, "the parts do not fit\n");
            return 2;
        }
        EXPECT((uintptr_t)points % ALIGNMENT == 0 && (uintptr_t)edges % ALIGNMENT == 0 &&
                   (uintptr_t)flags % ALIGNMENT == 0,
               "the parts are aligned");
        EXPECT(part(&block, 1) == NULL, "the block is used up");

        /* Fills all parts, and checks that no part was overwritten. */
        for (size_t i = 0; i < POINTS * 3; i++) {
            sent[i] = (float)(i + (size_t)round);
        }
        CHECK(cudaMemcpyAsync(points, sent, points_bytes, cudaMemcpyHostToDevice, stream));
        CHECK(cudaMemsetAsync(edges, 0xEE, edges_bytes, stream));
        CHECK(cudaMemsetAsync(flags, round, flags_bytes, stream));
        CHECK(cudaMemcpyAsync(returned, points, points_bytes, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaMemcpyAsync(back, flags, flags_bytes, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        EXPECT(memcmp(sent, returned, points_bytes) == 0 && back[0] == round &&
                   back[POINTS - 1] == round,
               "every part has its own bytes");

        /* Frees all parts. The work that used them is done: the host waited for the stream. */
        block.used = 0;
    }

    printf("free of a single part: %s\n",
           cudaGetErrorName(cudaFree(block.base + padded(points_bytes))));
    (void)cudaGetLastError();
    CHECK(cudaFree(block.base));
    CHECK(cudaStreamDestroy(stream));
    return wrong_count != 0;
}
