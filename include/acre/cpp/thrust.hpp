/* Thrust on acre's pools: an allocator for its vectors, and execution policies whose temporary
 * storage comes from a pool. For nvcc; needs Thrust and the CUDA runtime. Not part of acre.hpp.
 *
 *   acre::pool_ref pool = acre::pool_ref::default_of(device);
 *   thrust::device_vector<int, acre::allocator<int>> keys(n, acre::allocator<int>(pool));
 *   thrust::sort(acre::par(pool).on(stream), keys.begin(), keys.end());
 *   thrust::sort(acre::par_nosync(pool).on(stream), keys.begin(), keys.end()); // returns early
 *
 * Everything is in stream order: a policy allocates and frees on the stream that its kernels run
 * on, and so needs no synchronization, also with par_nosync. */
#ifndef ACRE_CPP_THRUST_HPP
#define ACRE_CPP_THRUST_HPP

#include <cuda_runtime_api.h>

#include <thrust/device_ptr.h>
#include <thrust/device_reference.h>
#include <thrust/system/cuda/execution_policy.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "device.hpp"
#include "error.hpp"
#include "pool.hpp"

namespace acre {
inline namespace ACRE__CPP_MODE {

/* The default stream of this compilation, as Thrust chooses it: the legacy stream, or that of the
 * thread with nvcc's --default-stream per-thread. */
inline stream_ref thrust_stream() noexcept {
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
    return stream_ref(cudaStreamPerThread);
#else
    return stream_ref();
#endif
}

/* The GPU that cudaGetDevice names. The first call for a GPU opens it, and nothing closes this
 * open: allocators without arguments need it until the program ends. acre allows that. */
inline device_ref current_device() {
    static std::mutex mutex;
    static std::vector<acre_device *> devices;
    int found = 0;
    if (cudaGetDevice(&found) != cudaSuccess)
        found = 0; /* acre_open says what is wrong */
    size_t ordinal = static_cast<size_t>(found);
    std::lock_guard<std::mutex> lock(mutex);
    if (ordinal >= devices.size())
        devices.resize(ordinal + 1);
    if (!devices[ordinal]) {
        acre_open_options options = {};
        options.struct_size = sizeof options;
        options.flags = ACRE_OPEN_NO_SOFT;
        char name[32];
        std::snprintf(name, sizeof name, "cuda:%zu", ordinal);
        acre::check(acre_open(name, &options, &devices[ordinal]));
    }
    return devices[ordinal];
}

/* An allocator for thrust::device_vector. Blocks belong to a stream: Thrust's default stream, on
 * which the functions of a vector fill and copy its elements, unless another is given. Give only a
 * stream that synchronizes with the default stream (ACRE_STREAM_DEFAULT), or order the two
 * yourself: the pool may reuse memory on the given stream whose work the default stream does not
 * wait for. The pool must outlive the vector.
 *
 * Two allocators are equal if they have the same pool and stream. A vector that is copied into
 * keeps its allocator; one that is moved into or swapped takes that of the other. */
template <class T> class allocator {
  public:
    using value_type = T;
    using pointer = thrust::device_ptr<T>;
    using const_pointer = thrust::device_ptr<const T>;
    using reference = thrust::device_reference<T>;
    using const_reference = thrust::device_reference<const T>;
    using size_type = std::size_t;
    using difference_type = typename pointer::difference_type;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap = std::true_type;
    template <class U> struct rebind { using other = allocator<U>; };

    /* The default pool of the current device: see current_device. */
    allocator() : allocator(pool_ref::default_of(current_device())) {
    }
    /* A pool of device memory, or of another kind that kernels can access. */
    allocator(pool_ref pool, stream_ref stream = thrust_stream()) noexcept
        : pool_(pool), stream_(stream) {
    }
    allocator(const acre::pool &pool, stream_ref stream = thrust_stream()) noexcept
        : allocator(pool.ref(), stream) {
    }
    template <class U>
    allocator(const allocator<U> &other) noexcept : pool_(other.pool()), stream_(other.stream()) {
    }

    pool_ref pool() const noexcept {
        return pool_;
    }
    stream_ref stream() const noexcept {
        return stream_;
    }
    size_type max_size() const noexcept {
        return std::numeric_limits<size_type>::max() / sizeof(T);
    }

    [[nodiscard]] pointer allocate(size_type count) {
        /* Too many elements: no pool has that many bytes, and its call says so. */
        size_type bytes = count <= max_size() ? count * sizeof(T) : SIZE_MAX;
        void *p = pool_.allocate(bytes, stream_, alignof(T) <= 256 ? 0 : alignof(T));
        return pointer(static_cast<T *>(p));
    }
    /* Frees in stream order. What happens if acre refuses: see memory_resource.hpp. */
    void deallocate(pointer p, size_type) noexcept {
        detail::free_block(pool_, p.get(), stream_);
    }

    template <class U> bool operator==(const allocator<U> &other) const noexcept {
        return pool_ == other.pool() && stream_ == other.stream();
    }
    template <class U> bool operator!=(const allocator<U> &other) const noexcept {
        return !(*this == other);
    }

  private:
    pool_ref pool_;
    stream_ref stream_;
};

/* The allocator of temporary storage, for thrust::cuda::par and for other libraries that take
 * bytes: thrust::cuda::par(acre::temporary_allocator(pool, stream)).on(stream). Both streams must
 * be the same; acre::par takes care of that. */
class temporary_allocator {
  public:
    using value_type = char;

    temporary_allocator(pool_ref pool, stream_ref stream) noexcept : pool_(pool), stream_(stream) {
    }
    [[nodiscard]] char *allocate(std::ptrdiff_t bytes) {
        return static_cast<char *>(pool_.allocate(static_cast<size_t>(bytes), stream_));
    }
    void deallocate(char *p, size_t) noexcept {
        detail::free_block(pool_, p, stream_);
    }

  private:
    pool_ref pool_;
    stream_ref stream_;
};

namespace detail {
template <class Par>
using policy_with_storage =
    std::decay_t<decltype(std::declval<const Par &>()(std::declval<temporary_allocator>()))>;
}

/* One of Thrust's execution policies, with temporary storage from a pool. */
template <class Par> class thrust_policy : public detail::policy_with_storage<Par> {
    using base = detail::policy_with_storage<Par>;

  public:
    /* `where`, since the base has a member called stream. */
    thrust_policy(pool_ref pool, stream_ref where)
        : base(Par{}(temporary_allocator(pool, where)).on(where.get())), pool_(pool) {
    }
    /* This policy, with kernels and storage on another stream. */
    thrust_policy on(stream_ref where) const {
        return thrust_policy(pool_, where);
    }

  private:
    pool_ref pool_;
};

/* thrust::cuda::par: an algorithm returns when it is done. */
inline auto par(pool_ref pool, stream_ref stream = thrust_stream()) {
    return thrust_policy<std::decay_t<decltype(thrust::cuda::par)>>(pool, stream);
}
/* thrust::cuda::par_nosync: an algorithm that returns no value may return before its kernels are
 * done. */
inline auto par_nosync(pool_ref pool, stream_ref stream = thrust_stream()) {
    return thrust_policy<std::decay_t<decltype(thrust::cuda::par_nosync)>>(pool, stream);
}

} // namespace ACRE__CPP_MODE
} // namespace acre

#endif
