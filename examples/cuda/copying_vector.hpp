// A device array that grows like std::vector: it allocates a larger block, copies, and frees the
// old block. Both blocks exist at the same time, so the array can use at most half of the
// device.
#ifndef COPYING_VECTOR_HPP
#define COPYING_VECTOR_HPP

#include <algorithm>
#include <cstddef>

#include <cuda_runtime.h>

#include "cuda_check.h"

template <class T> class CopyingVector {
  public:
    CopyingVector() = default;
    ~CopyingVector() {
        CHECK(cudaFree(data_));
    }
    CopyingVector(const CopyingVector &) = delete;
    CopyingVector &operator=(const CopyingVector &) = delete;

    T *data() const {
        return data_;
    }
    size_t size() const {
        return size_;
    }

    // Makes room for `count` elements in all. Work that is queued on other streams must not use the
    // old address.
    void reserve(size_t count, cudaStream_t stream) {
        if (count <= capacity_) {
            return;
        }
        T *larger = nullptr;
        CHECK(cudaMalloc(&larger, count * sizeof(T)));
        if (size_ > 0) {
            CHECK(cudaMemcpyAsync(larger, data_, size_ * sizeof(T), cudaMemcpyDeviceToDevice,
                                  stream));
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
        CHECK(cudaMemcpyAsync(data_ + size_, values, count * sizeof(T), cudaMemcpyHostToDevice,
                              stream));
        CHECK(cudaStreamSynchronize(stream));
        size_ += count;
    }

  private:
    T *data_ = nullptr;
    size_t size_ = 0, capacity_ = 0; // elements
};

#endif
