/* Pools as resources of cuda::mr, for libraries that take one. Needs CUDA's headers
 * (cuda_runtime_api.h and CCCL), but not its libraries, and works on the soft device, too. Not part
 * of acre.hpp: include it by name.
 *
 *   acre::device device;
 *   acre::device_memory_resource resource(device);
 *   cuda::mr::async_resource_ref<cuda::mr::device_accessible> ref = resource; // CCCL 2.x and 3.0
 *   cuda::mr::resource_ref<cuda::mr::device_accessible> ref = resource;       // CCCL 3.1 and later
 *
 * CCCL 3.1 renamed the functions of a resource. The class has the names of both, so that the same
 * source compiles with every toolkit; CCCL_VERSION only decides which concepts are checked at the
 * end of this file:
 *
 *                     CCCL 2.x, 3.0                            CCCL 3.1 and later
 *   in stream order   async_resource:                          resource:
 *                     allocate_async(bytes, align, stream)     allocate(stream, bytes, align)
 *                     deallocate_async(p, bytes, ...)          deallocate(stream, p, bytes, align)
 *   synchronous       resource:                                synchronous_resource:
 *                     allocate(bytes, align)                   allocate_sync(bytes, align)
 *                     deallocate(p, bytes, align)              deallocate_sync(p, bytes, align)
 *
 * Errors. An allocation that fails throws acre::out_of_memory, which is a std::bad_alloc, or
 * acre::call_error. A deallocation cannot throw: if acre refuses it (no block of the pool, a double
 * free), the call changes nothing and returns. acre_last_detail() then says why, and with
 * ACRE_DEBUG=1 the log does, with the caller's stack. Use acre::pool_ref::deallocate to see such
 * errors. */
#ifndef ACRE_CPP_MEMORY_RESOURCE_HPP
#define ACRE_CPP_MEMORY_RESOURCE_HPP

#include <cuda/std/version> /* CCCL_VERSION */

/* Up to CCCL 3.0 the interface exists only with this macro, which must come before CCCL's header.
 */
#if !defined(LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE)
#if defined(_CUDA_MEMORY_RESOURCE) && (!defined(CCCL_VERSION) || CCCL_VERSION < 3001000)
#error "include acre/cpp/memory_resource.hpp before <cuda/memory_resource>, or compile with \
-DLIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE"
#endif
#define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
#endif
#include <cuda/memory_resource>

#include <cstddef>
#include <cstdlib>
#include <stdexcept>
#include <type_traits>

#include "idle_stream.hpp"

namespace acre {
inline namespace ACRE__CPP_MODE {
namespace detail {

[[noreturn]] inline void throw_kind() {
#if defined(__cpp_exceptions)
    throw std::invalid_argument("acre::memory_resource: the pool's memory is of another kind");
#else
    std::abort();
#endif
}

} // namespace detail

/* A pool as a resource. It refers to the pool and does not own it: the pool and its device must
 * outlive the resource and its copies. Copies refer to the same pool, and resources of the same
 * pool are equal: each can free the blocks of the other. Any thread may use a resource.
 *
 * `Kind` is the kind of the pool's memory. It decides the properties: device_accessible for all
 * kinds, host_accessible for all but ACRE_KIND_DEVICE. */
template <acre_kind Kind = ACRE_KIND_DEVICE> class memory_resource {
    static_assert(Kind == ACRE_KIND_DEVICE || Kind == ACRE_KIND_PINNED ||
                      Kind == ACRE_KIND_MAPPED || Kind == ACRE_KIND_MANAGED,
                  "pools have device, pinned, mapped or managed memory");

  public:
    static constexpr acre_kind kind = Kind;
    static constexpr size_t default_alignment = 256;

    /* The default pool of a device for this kind of memory. */
    explicit memory_resource(device_ref device)
        : memory_resource(pool_ref::default_of(device, Kind)) {
    }
    /* A pool whose memory has this kind; throws std::invalid_argument for a pool of another. */
    explicit memory_resource(pool_ref pool)
        : pool_(pool), idle_(detail::shared_idle_stream::create(device_of(pool))) {
    }

    /* Copied, also where a program moves it: a resource is never without its pool. */
    memory_resource(const memory_resource &) = default;
    memory_resource &operator=(const memory_resource &) = default;

    pool_ref pool() const noexcept {
        return pool_;
    }
    device_ref device() const noexcept {
        return idle_->device();
    }

    /* ---- in stream order: the names of CCCL 3.1 and later ---- */

    /* Allocates a block for work of `stream`, as acre_pool_alloc does. `alignment` is a power of
     * two. */
    [[nodiscard]] void *allocate(cuda::stream_ref stream, size_t bytes,
                                 size_t alignment = default_alignment) {
        return pool_.allocate(bytes, stream.get(), detail::pool_alignment(alignment));
    }
    /* Frees a block in stream order: work queued on `stream` so far may still use it. */
    void deallocate(cuda::stream_ref stream, void *p, size_t, size_t = default_alignment) noexcept {
        detail::free_block(pool_, p, stream.get());
    }

    /* ---- synchronous: the names of CCCL 3.1 and later ---- */

    /* Allocates a block that any stream and, if the kind allows, the host may use at once: nothing
     * that is queued still uses it. The block comes from a stream without work. The call waits for
     * this stream, which has to wait itself only if memory was so short that the pool took memory
     * of another stream before its work was done. So it costs one cuStreamSynchronize on an idle
     * stream more than an allocation in stream order, and never waits for the work of all streams,
     * as cudaMalloc may. */
    [[nodiscard]] void *allocate_sync(size_t bytes, size_t alignment = default_alignment) {
        return detail::allocate_idle(pool_, *idle_, bytes, alignment);
    }
    /* Frees a block that no queued work uses any more: the caller has waited for all of it. The
     * call does not check this and, unlike cudaFree, waits for nothing. The pool may reuse the
     * memory at once, for any stream. To free a block that queued work still uses, use the form
     * with a stream. */
    void deallocate_sync(void *p, size_t, size_t = default_alignment) noexcept {
        detail::free_idle(pool_, *idle_, p);
    }

    /* ---- the names of CCCL 2.x and 3.0 ---- */

    [[nodiscard]] void *allocate_async(size_t bytes, size_t alignment, cuda::stream_ref stream) {
        return allocate(stream, bytes, alignment);
    }
    [[nodiscard]] void *allocate_async(size_t bytes, cuda::stream_ref stream) {
        return allocate(stream, bytes);
    }
    void deallocate_async(void *p, size_t bytes, size_t alignment,
                          cuda::stream_ref stream) noexcept {
        deallocate(stream, p, bytes, alignment);
    }
    void deallocate_async(void *p, size_t bytes, cuda::stream_ref stream) noexcept {
        deallocate(stream, p, bytes);
    }
    [[nodiscard]] void *allocate(size_t bytes, size_t alignment = default_alignment) {
        return allocate_sync(bytes, alignment);
    }
    void deallocate(void *p, size_t bytes, size_t alignment = default_alignment) noexcept {
        deallocate_sync(p, bytes, alignment);
    }

    friend bool operator==(const memory_resource &a, const memory_resource &b) noexcept {
        return a.pool_ == b.pool_;
    }
    friend bool operator!=(const memory_resource &a, const memory_resource &b) noexcept {
        return a.pool_ != b.pool_;
    }

  private:
    static device_ref device_of(pool_ref pool) {
        const acre_pool_info info = pool.info();
        if (info.kind != Kind)
            detail::throw_kind();
        return info.device;
    }

    pool_ref pool_;
    detail::shared_idle_stream idle_; /* shared by copies */
};

template <acre_kind Kind>
constexpr void get_property(const memory_resource<Kind> &, cuda::mr::device_accessible) noexcept {
}
template <acre_kind Kind, std::enable_if_t<Kind != ACRE_KIND_DEVICE, int> = 0>
constexpr void get_property(const memory_resource<Kind> &, cuda::mr::host_accessible) noexcept {
}

using device_memory_resource = memory_resource<ACRE_KIND_DEVICE>;
using pinned_memory_resource = memory_resource<ACRE_KIND_PINNED>;
using mapped_memory_resource = memory_resource<ACRE_KIND_MAPPED>;
using managed_memory_resource = memory_resource<ACRE_KIND_MANAGED>;

namespace detail {

/* True if a type is a resource in stream order with these properties, by CCCL's own concepts. */
template <class Resource, class... Properties> constexpr bool is_stream_resource() noexcept {
#if defined(CCCL_VERSION) && CCCL_VERSION >= 3001000
    return cuda::mr::resource_with<Resource, Properties...> &&
           cuda::mr::synchronous_resource_with<Resource, Properties...>;
#else
    return cuda::mr::async_resource_with<Resource, Properties...> &&
           cuda::mr::resource_with<Resource, Properties...>;
#endif
}

using cuda::mr::device_accessible;
using cuda::mr::host_accessible;
static_assert(is_stream_resource<device_memory_resource, device_accessible>());
static_assert(!is_stream_resource<device_memory_resource, host_accessible>());
static_assert(is_stream_resource<pinned_memory_resource, device_accessible, host_accessible>());
static_assert(is_stream_resource<mapped_memory_resource, device_accessible, host_accessible>());
static_assert(is_stream_resource<managed_memory_resource, device_accessible, host_accessible>());

} // namespace detail
} // namespace ACRE__CPP_MODE
} // namespace acre

#endif
