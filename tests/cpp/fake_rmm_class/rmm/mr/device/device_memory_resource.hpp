/* The base class of resources in RMM 24.x and 25.x and its stream view, written for these tests:
 * what a resource overrides, and what containers call. */
#ifndef FAKE_RMM_DEVICE_MEMORY_RESOURCE_HPP
#define FAKE_RMM_DEVICE_MEMORY_RESOURCE_HPP

#include <cstddef>

typedef struct CUstream_st *cudaStream_t;

namespace rmm {

class cuda_stream_view {
  public:
    constexpr cuda_stream_view() = default;
    constexpr cuda_stream_view(cudaStream_t stream) noexcept : stream_(stream) {
    }
    constexpr cuda_stream_view(int) = delete;
    constexpr cuda_stream_view(std::nullptr_t) = delete;
    constexpr cudaStream_t value() const noexcept {
        return stream_;
    }

  private:
    cudaStream_t stream_ = nullptr;
};

namespace mr {

class device_memory_resource {
  public:
    device_memory_resource() = default;
    virtual ~device_memory_resource() = default;
    device_memory_resource(const device_memory_resource &) = default;
    device_memory_resource(device_memory_resource &&) noexcept = default;
    device_memory_resource &operator=(const device_memory_resource &) = default;
    device_memory_resource &operator=(device_memory_resource &&) noexcept = default;

    void *allocate(std::size_t bytes, cuda_stream_view stream = cuda_stream_view{}) {
        return do_allocate((bytes + 255) / 256 * 256, stream);
    }
    void deallocate(void *p, std::size_t bytes, cuda_stream_view stream = cuda_stream_view{}) {
        do_deallocate(p, (bytes + 255) / 256 * 256, stream);
    }
    [[nodiscard]] bool is_equal(const device_memory_resource &other) const noexcept {
        return do_is_equal(other);
    }

  private:
    virtual void *do_allocate(std::size_t bytes, cuda_stream_view stream) = 0;
    /* In 25.x also noexcept, in 24.x not: FAKE_RMM_NOEXCEPT chooses. */
    virtual void do_deallocate(void *p, std::size_t bytes,
                               cuda_stream_view stream) FAKE_RMM_NOEXCEPT = 0;
    [[nodiscard]] virtual bool do_is_equal(const device_memory_resource &other) const noexcept {
        return this == &other;
    }
};

} // namespace mr
} // namespace rmm

#endif
