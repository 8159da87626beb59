// A growing array in managed memory, which the host may use, too. Before the array is copied it is
// prefetched to the device, so that the copy does not fault page by page.
#ifndef MANAGED_VECTOR_HPP
#define MANAGED_VECTOR_HPP

#include <algorithm>
#include <cstddef>

#include <cuda_runtime.h>

#include "cuda_check.h"

template <class T> class ManagedVector {
  public:
    explicit ManagedVector(int device) {
        home_.type = cudaMemLocationTypeDevice;
        home_.id = device;
    }
    ~ManagedVector() {
        CHECK(cudaFree(data_));
    }
    ManagedVector(const ManagedVector &) = delete;
    ManagedVector &operator=(const ManagedVector &) = delete;

    T *data() const {
        return data_;
    }
    size_t size() const {
        return size_;
    }

    // Makes room for `count` elements in all.
    void reserve(size_t count, cudaStream_t stream) {
        if (count <= capacity_) {
            return;
        }
        T *larger = nullptr;
        CHECK(cudaMallocManaged(&larger, count * sizeof(T)));
        CHECK(cudaMemPrefetchAsync(larger, count * sizeof(T), home_, 0, stream));
        if (size_ > 0) {
            CHECK(cudaMemPrefetchAsync(data_, size_ * sizeof(T), home_, 0, stream));
            CHECK(cudaMemcpyAsync(larger, data_, size_ * sizeof(T), cudaMemcpyDefault, stream));
        }
        CHECK(cudaStreamSynchronize(stream)); // the copy reads the old block until here
        CHECK(cudaFree(data_));
        data_ = larger;
        capacity_ = count;
    }

    // Appends `count` elements of host memory, which may be overwritten when this returns.
    void append(const T *values, size_t count, cudaStream_t stream) {
        if (size_ + count > capacity_) {
            reserve(std::max(size_ + count, 2 * capacity_), stream);
        }
        CHECK(cudaMemcpyAsync(data_ + size_, values, count * sizeof(T), cudaMemcpyDefault, stream));
        CHECK(cudaStreamSynchronize(stream));
        size_ += count;
    }

  private:
    T *data_ = nullptr;
    size_t size_ = 0, capacity_ = 0; // elements
    cudaMemLocation home_{};
};

#endif
