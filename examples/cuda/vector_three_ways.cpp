// A growing array on the device in three forms: by copying to larger blocks, in managed memory, and
// by mapping more memory behind its end. All have the same numbers at the end. How the mapped array
// grows depends on the addresses that the driver returns, so that goes to stderr.
#include <cstdio>
#include <cstring>
#include <vector>

#include <cuda.h>
#include <cuda_runtime.h>

#include "copying_vector.hpp"
#include "cuda_check.h"
#include "managed_vector.hpp"
#include "mapped_vector.hpp"

static const size_t STEP = 300007, STEPS = 20; // 1.2 MB a step, 24 MB in all

// Returns the numbers of step `step`.
static std::vector<int> numbers(size_t step) {
    std::vector<int> values(STEP);
    for (size_t i = 0; i < STEP; i++) {
        values[i] = static_cast<int>(step * STEP + i);
    }
    return values;
}

template <class Vector> static bool isRight(const Vector &vector, cudaStream_t stream) {
    std::vector<int> back(vector.size());
    CHECK(cudaMemcpyAsync(back.data(), vector.data(), back.size() * sizeof(int), cudaMemcpyDefault,
                          stream));
    CHECK(cudaStreamSynchronize(stream));
    for (size_t i = 0; i < back.size(); i++) {
        if (back[i] != static_cast<int>(i)) {
            return false;
        }
    }
    return back.size() > 0;
}

// Appends the steps `first` to `last`, without `last`.
template <class Vector>
static void appendSteps(Vector &vector, size_t first, size_t last, cudaStream_t stream) {
    for (size_t step = first; step < last; step++) {
        std::vector<int> values = numbers(step);
        vector.append(values.data(), values.size(), stream);
    }
}

static void copying(cudaStream_t stream) {
    CopyingVector<int> vector;
    appendSteps(vector, 0, STEPS, stream);
    std::printf("copying: %zu numbers\n", vector.size());
    EXPECT(isRight(vector, stream), "all of them are right");
}

static void managed(cudaStream_t stream) {
    ManagedVector<int> vector(0);
    appendSteps(vector, 0, STEPS, stream);
    std::printf("managed: %zu numbers\n", vector.size());
    EXPECT(isRight(vector, stream), "all of them are right");
    // The host reads the numbers in place: the work on them is done.
    EXPECT(vector.data()[0] == 0 &&
               vector.data()[vector.size() - 1] == static_cast<int>(vector.size() - 1),
           "the host reads them, too");
}

static void mapped(cudaStream_t stream) {
    MappedVector<int> vector(0, 4 << 20);
    const int *before = vector.data();
    appendSteps(vector, 0, STEPS / 2, stream);
    std::printf("mapped: %zu numbers\n", vector.size());
    EXPECT(isRight(vector, stream), "all of them are right");
    std::fprintf(stderr, "mapped: extended %d times, moved %d times, %s address\n",
                 vector.extendedCount(), vector.movedCount(),
                 vector.data() == before ? "the same" : "another");

    // Reserves the addresses behind the array, so that it has to move.
    CUdeviceptr taken = 0;
    size_t takenBytes = 64 << 20;
    int movedBefore = vector.movedCount();
    CHECK_DRIVER(cuMemAddressReserve(&taken, takenBytes, 0, vector.addressesEnd(), 0));
    bool isTaken = taken == vector.addressesEnd();
    appendSteps(vector, STEPS / 2, STEPS, stream);
    std::printf("mapped: %zu numbers\n", vector.size());
    EXPECT(isRight(vector, stream), "all of them are right after the next addresses were taken");
    EXPECT(!isTaken || vector.movedCount() > movedBefore, "it moved if it had to");
    std::fprintf(stderr, "mapped: extended %d times, moved %d times; the next addresses were %s\n",
                 vector.extendedCount(), vector.movedCount(), isTaken ? "taken" : "free");

    // More than any device has: the array stays unchanged.
    size_t mappedBytes = vector.mappedBytes();
    EXPECT(!vector.reserve(static_cast<size_t>(1) << 50) && vector.mappedBytes() == mappedBytes &&
               isRight(vector, stream),
           "a failed growth changes nothing");
    CHECK_DRIVER(cuMemAddressFree(taken, takenBytes));
}

int main() {
    int has_addresses = 0;
    cudaStream_t stream;

    // Makes the device's primary context current; driver calls use it, too.
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    copying(stream);
    managed(stream);
    CHECK_DRIVER(cuDeviceGetAttribute(&has_addresses,
                                      CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
    EXPECT(has_addresses, "the device has virtual memory management");
    if (has_addresses) {
        mapped(stream);
    }
    CHECK(cudaStreamDestroy(stream));
    return wrong_count != 0;
}
