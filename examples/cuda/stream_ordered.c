/* Allocation in stream order: two streams allocate and free, and events order each use after the
 * one before. Then a pool of the program, with its statistics. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cuda_runtime.h>

#include "cuda_check.h"

enum { COUNT = 1 << 18, ROUNDS = 8 };
static const size_t BYTES = COUNT * sizeof(int);

static uint64_t pool_count(cudaMemPool_t pool, enum cudaMemPoolAttr attribute) {
    uint64_t bytes = 0;

    CHECK(cudaMemPoolGetAttribute(pool, attribute, &bytes));
    return bytes;
}

/* Stream `maker` allocates and fills a block; stream `user` copies it to the host and frees it. */
static void hand_over(cudaStream_t maker, cudaStream_t user, int *pinned) {
    cudaEvent_t filled, copied;
    int is_right = 1;

    CHECK(cudaEventCreateWithFlags(&filled, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming));
    for (int round = 0; round < ROUNDS; round++) {
        int *p = NULL;

        CHECK(cudaMallocAsync((void **)&p, BYTES, maker));
        CHECK(cudaMemsetAsync(p, round, BYTES, maker));
        CHECK(cudaEventRecord(filled, maker));

        /* Without this wait the other stream could read before the data is there, or even before
         * the memory is. */
        CHECK(cudaStreamWaitEvent(user, filled, 0));
        CHECK(cudaMemcpyAsync(pinned, p, BYTES, cudaMemcpyDeviceToHost, user));
        CHECK(cudaFreeAsync(p, user));
        CHECK(cudaEventRecord(copied, user));

        /* The host may read the data after the stream has completed the copy. */
        CHECK(cudaEventSynchronize(copied));
        is_right =
            is_right && pinned[0] == round * 0x01010101 && pinned[COUNT - 1] == round * 0x01010101;
    }
    EXPECT(is_right, "every round saw its own bytes");
    CHECK(cudaEventDestroy(copied));
    CHECK(cudaEventDestroy(filled));
}

static void own_pool(cudaStream_t stream) {
    struct cudaMemPoolProps props;
    uint64_t threshold = UINT64_MAX; /* keep all memory until a trim */
    cudaMemPool_t pool;
    char *p[4];

    memset(&props, 0, sizeof props);
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    props.location.id = 0;
    CHECK(cudaMemPoolCreate(&pool, &props));
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));

    for (int i = 0; i < 4; i++) {
        CHECK(cudaMallocFromPoolAsync((void **)&p[i], BYTES, pool, stream));
        CHECK(cudaMemsetAsync(p[i], i, BYTES, stream));
    }
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(pool_count(pool, cudaMemPoolAttrUsedMemCurrent) >= 4 * BYTES,
           "the pool counts memory in use");
    for (int i = 0; i < 4; i++) {
        CHECK(cudaFreeAsync(p[i], stream));
    }
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(pool_count(pool, cudaMemPoolAttrUsedMemCurrent) == 0, "all of it was freed");
    EXPECT(pool_count(pool, cudaMemPoolAttrUsedMemHigh) >= 4 * BYTES,
           "the high-water mark is kept");
    EXPECT(pool_count(pool, cudaMemPoolAttrReservedMemCurrent) >= 4 * BYTES,
           "below the threshold the pool keeps its memory");
    CHECK(cudaMemPoolTrimTo(pool, 0));
    EXPECT(pool_count(pool, cudaMemPoolAttrReservedMemCurrent) == 0, "after a trim it keeps none");
    CHECK(cudaMemPoolDestroy(pool));
}

int main(void) {
    int has_pools = 0;
    int *pinned = NULL;
    cudaMemPool_t standard;
    cudaStream_t first, second;

    CHECK(cudaDeviceGetAttribute(&has_pools, cudaDevAttrMemoryPoolsSupported, 0));
    EXPECT(has_pools, "the device has pools");
    CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    CHECK(cudaMallocHost((void **)&pinned, BYTES));

    hand_over(first, second, pinned);
    hand_over(second, first, pinned);
    CHECK(cudaDeviceGetDefaultMemPool(&standard, 0));
    CHECK(cudaDeviceSynchronize());
    EXPECT(pool_count(standard, cudaMemPoolAttrUsedMemCurrent) == 0,
           "the default pool has no memory in use");
    own_pool(first);

    CHECK(cudaFreeHost(pinned));
    CHECK(cudaStreamDestroy(second));
    CHECK(cudaStreamDestroy(first));
    return wrong_count != 0;
}
