// A device array that grows without a copy, by the driver's virtual memory management: it reserves
// addresses, creates physical memory and maps it at the end of the array. It keeps the handles of
// the memory. If the addresses behind the array are taken, it maps all memory again at a larger
// range. That copies nothing either, and needs no more memory.
//
//   ranges   results of cuMemAddressReserve; they follow each other without a gap, and each is
//   freed
//            exactly as it was reserved
//   chunks   results of cuMemCreate; mapped one behind the other from base() on, each entirely
//            inside one range
#ifndef MAPPED_VECTOR_HPP
#define MAPPED_VECTOR_HPP

#include <algorithm>
#include <cstddef>
#include <vector>

#include <cuda.h>
#include <cuda_runtime.h>

#include "cuda_check.h"

template <class T> class MappedVector {
  public:
    // The device's context must be current. `addresses` is the number of bytes to reserve first.
    MappedVector(int device, size_t addresses) {
        prop_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        prop_.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        prop_.location.id = device;
        access_.location = prop_.location;
        access_.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        CHECK_DRIVER(
            cuMemGetAllocationGranularity(&granularity_, &prop_, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
        Range first = {0, padded(addresses)};
        CHECK_DRIVER(cuMemAddressReserve(&first.base, first.bytes, 0, 0, 0));
        ranges_.push_back(first);
    }

    ~MappedVector() {
        CHECK_DRIVER(cuCtxSynchronize());
        unmapAll(base(), chunks_.size());
        for (const Chunk &chunk : chunks_) {
            CHECK_DRIVER(cuMemRelease(chunk.handle));
        }
        freeRanges();
    }
    MappedVector(const MappedVector &) = delete;
    MappedVector &operator=(const MappedVector &) = delete;

    T *data() const {
        return reinterpret_cast<T *>(base());
    }
    size_t size() const {
        return size_;
    }
    CUdeviceptr addressesEnd() const {
        return base() + reservedBytes();
    }
    size_t reservedBytes() const {
        size_t bytes = 0;
        for (const Range &range : ranges_) {
            bytes += range.bytes;
        }
        return bytes;
    }
    size_t mappedBytes() const {
        size_t bytes = 0;
        for (const Chunk &chunk : chunks_) {
            bytes += chunk.bytes;
        }
        return bytes;
    }
    int extendedCount() const {
        return extended_;
    }
    int movedCount() const {
        return moved_;
    }

    // Makes room for `count` elements in all. Returns false, and leaves the array unchanged, if the
    // device has no more memory or addresses.
    bool reserve(size_t count) {
        size_t bytes = padded(count * sizeof(T));
        if (bytes > reservedBytes() && !extendAddresses(bytes) && !moveTo(bytes)) {
            return false;
        }
        size_t chunksBefore = chunks_.size();
        while (mappedBytes() < bytes) {
            if (!addChunk(std::min(bytes - mappedBytes(), roomInRange()))) {
                dropChunks(chunksBefore);
                return false;
            }
        }
        return true;
    }

    // Appends `count` elements of host memory, which may be overwritten when this returns.
    bool append(const T *values, size_t count, cudaStream_t stream) {
        if (!reserve(size_ + count)) {
            return false;
        }
        CHECK(cudaMemcpyAsync(data() + size_, values, count * sizeof(T), cudaMemcpyHostToDevice,
                              stream));
        CHECK(cudaStreamSynchronize(stream));
        size_ += count;
        return true;
    }

  private:
    struct Range {
        CUdeviceptr base;
        size_t bytes;
    };
    struct Chunk {
        CUmemGenericAllocationHandle handle;
        size_t bytes;
    };

    size_t padded(size_t bytes) const {
        return (bytes + granularity_ - 1) / granularity_ * granularity_;
    }
    CUdeviceptr base() const {
        return ranges_.front().base;
    }

    // Returns the bytes from the end of the mapped memory to the end of its range.
    size_t roomInRange() const {
        size_t mapped = mappedBytes(), end = 0;
        for (const Range &range : ranges_) {
            end += range.bytes;
            if (mapped < end) {
                break;
            }
        }
        return end - mapped;
    }

    // Reserves the next addresses, if they are free. The driver may ignore the hint.
    bool extendAddresses(size_t bytes) {
        Range next = {0, bytes - reservedBytes()};
        if (cuMemAddressReserve(&next.base, next.bytes, 0, addressesEnd(), 0) != CUDA_SUCCESS) {
            return false;
        }
        if (next.base != addressesEnd()) {
            CHECK_DRIVER(cuMemAddressFree(next.base, next.bytes));
            return false;
        }
        ranges_.push_back(next);
        extended_++;
        return true;
    }

    // Maps all chunks at a larger range, before it unmaps them at the old one: so nothing is lost
    // if the driver refuses half-way.
    bool moveTo(size_t bytes) {
        Range larger = {0, bytes};
        if (cuMemAddressReserve(&larger.base, larger.bytes, 0, 0, 0) != CUDA_SUCCESS) {
            return false;
        }
        size_t done = 0, offset = 0;
        while (done < chunks_.size() && mapChunk(chunks_[done], larger.base + offset)) {
            offset += chunks_[done++].bytes;
        }
        if (done < chunks_.size()) {
            unmapAll(larger.base, done);
            CHECK_DRIVER(cuMemAddressFree(larger.base, larger.bytes));
            return false;
        }
        // Unmapping does not wait: work that uses the old addresses must be done.
        CHECK_DRIVER(cuCtxSynchronize());
        unmapAll(base(), chunks_.size());
        freeRanges();
        ranges_.push_back(larger);
        moved_++;
        return true;
    }

    // Maps a chunk and sets access, or does nothing.
    bool mapChunk(const Chunk &chunk, CUdeviceptr at) {
        if (cuMemMap(at, chunk.bytes, 0, chunk.handle, 0) != CUDA_SUCCESS) {
            return false;
        }
        // Only for this chunk, with its padded size: the addresses behind it are not mapped.
        if (cuMemSetAccess(at, chunk.bytes, &access_, 1) != CUDA_SUCCESS) {
            CHECK_DRIVER(cuMemUnmap(at, chunk.bytes));
            return false;
        }
        return true;
    }

    bool addChunk(size_t bytes) {
        Chunk chunk = {0, bytes};
        if (cuMemCreate(&chunk.handle, chunk.bytes, &prop_, 0) != CUDA_SUCCESS) {
            return false;
        }
        if (!mapChunk(chunk, base() + mappedBytes())) {
            CHECK_DRIVER(cuMemRelease(chunk.handle));
            return false;
        }
        chunks_.push_back(chunk);
        return true;
    }

    // Unmaps and releases the chunks from number `count` on.
    void dropChunks(size_t count) {
        while (chunks_.size() > count) {
            Chunk last = chunks_.back();
            chunks_.pop_back();
            CHECK_DRIVER(cuMemUnmap(base() + mappedBytes(), last.bytes));
            CHECK_DRIVER(cuMemRelease(last.handle));
        }
    }

    void unmapAll(CUdeviceptr at, size_t count) {
        for (size_t i = 0; i < count; i++) {
            CHECK_DRIVER(cuMemUnmap(at, chunks_[i].bytes));
            at += chunks_[i].bytes;
        }
    }

    void freeRanges() {
        for (const Range &range : ranges_) {
            CHECK_DRIVER(cuMemAddressFree(range.base, range.bytes));
        }
        ranges_.clear();
    }

    CUmemAllocationProp prop_{};
    CUmemAccessDesc access_{};
    size_t granularity_ = 0;
    std::vector<Range> ranges_;
    std::vector<Chunk> chunks_;
    size_t size_ = 0; // elements
    int extended_ = 0, moved_ = 0;
};

#endif
