/* A pool as a resource of RMM, for cuDF, cuML, Raft and others that take one. Needs RMM's headers.
 * Not part of acre.hpp.
 *
 *   acre::device device;
 *   acre::rmm_resource resource(device);
 *   rmm::mr::set_current_device_resource(&resource);   // RMM up to 26.04
 *   rmm::mr::set_current_device_resource(resource);    // RMM 26.06 and later
 *
 * RMM has two interfaces. Up to 26.04 a resource derives from rmm::mr::device_memory_resource.
 * Later versions have no such class: there a resource is what cuda::mr calls one, and
 * acre::rmm_resource is acre::device_memory_resource. The header takes the class where RMM has it.
 *
 * Errors. Out of memory is rmm::out_of_memory, with acre's status and detail as its text, so that
 * RMM's failure_callback_resource_adaptor sees it; other failures are acre::call_error. A
 * deallocation that acre refuses changes nothing and returns, see memory_resource.hpp. */
#ifndef ACRE_CPP_RMM_HPP
#define ACRE_CPP_RMM_HPP

#include <cstddef>

#include "device.hpp"
#include "error.hpp"
#include "pool.hpp"

#if __has_include(<rmm/mr/device_memory_resource.hpp>)
#include <rmm/mr/device_memory_resource.hpp>
#define ACRE__RMM_HAS_CLASS 1
#elif __has_include(<rmm/mr/device/device_memory_resource.hpp>)
#include <rmm/mr/device/device_memory_resource.hpp>
#define ACRE__RMM_HAS_CLASS 1
#else
#include "memory_resource.hpp"
#endif

#if __has_include(<rmm/error.hpp>)
#include <rmm/error.hpp>
#else
#include <rmm/detail/error.hpp>
#endif

namespace acre {
inline namespace ACRE__CPP_MODE {
namespace detail {

/* Throws for a failed status, as RMM's own resources do. */
[[noreturn]] inline void throw_for_rmm(acre_status status) {
#if defined(__cpp_exceptions)
    if (acre::is_out_of_memory(status))
        throw rmm::out_of_memory(out_of_memory(status).what());
#endif
    acre::throw_error(status);
}

inline void *allocate_for_rmm(pool_ref pool, size_t bytes, size_t alignment, acre_stream stream) {
    void *p = nullptr;
    acre_status status = acre_pool_alloc(pool.get(), bytes, alignment, stream, &p);
    if (__builtin_expect(status != ACRE_OK, 0))
        throw_for_rmm(status);
    return p;
}

} // namespace detail

#if defined(ACRE__RMM_HAS_CLASS)

/* A pool of device, pinned, mapped or managed memory. It refers to the pool, which must outlive it,
 * as RMM's resources must outlive the containers that use them. */
class rmm_resource final : public rmm::mr::device_memory_resource {
  public:
    /* The default pool of a device. */
    explicit rmm_resource(device_ref device) : pool_(pool_ref::default_of(device)) {
    }
    explicit rmm_resource(pool_ref pool) noexcept : pool_(pool) {
    }
    pool_ref pool() const noexcept {
        return pool_;
    }

  private:
    void *do_allocate(std::size_t bytes, rmm::cuda_stream_view stream) override {
        return detail::allocate_for_rmm(pool_, bytes, 0, stream.value());
    }
    void do_deallocate(void *p, std::size_t, rmm::cuda_stream_view stream) noexcept override {
        detail::free_block(pool_, p, stream.value());
    }
    /* Resources of the same pool free each other's blocks. */
    [[nodiscard]] bool
    do_is_equal(const rmm::mr::device_memory_resource &other) const noexcept override {
        const auto *same = dynamic_cast<const rmm_resource *>(&other);
        return same && same->pool_ == pool_;
    }

    pool_ref pool_;
};

#else

/* The resource of memory_resource.hpp, whose allocations throw RMM's exception. */
class rmm_resource : public device_memory_resource {
  public:
    using device_memory_resource::device_memory_resource;

    [[nodiscard]] void *allocate(cuda::stream_ref stream, std::size_t bytes,
                                 std::size_t alignment = default_alignment) {
        return detail::allocate_for_rmm(pool(), bytes, detail::pool_alignment(alignment),
                                        stream.get());
    }
    [[nodiscard]] void *allocate_sync(std::size_t bytes,
                                      std::size_t alignment = default_alignment) {
#if defined(__cpp_exceptions)
        try {
            return device_memory_resource::allocate_sync(bytes, alignment);
        } catch (const out_of_memory &error) {
            throw rmm::out_of_memory(error.what());
        }
#else
        return device_memory_resource::allocate_sync(bytes, alignment);
#endif
    }
    [[nodiscard]] void *allocate(std::size_t bytes, std::size_t alignment = default_alignment) {
        return allocate_sync(bytes, alignment);
    }
    [[nodiscard]] void *allocate_async(std::size_t bytes, std::size_t alignment,
                                       cuda::stream_ref stream) {
        return allocate(stream, bytes, alignment);
    }
    [[nodiscard]] void *allocate_async(std::size_t bytes, cuda::stream_ref stream) {
        return allocate(stream, bytes);
    }
    friend constexpr void get_property(const rmm_resource &, cuda::mr::device_accessible) noexcept {
    }
};
static_assert(detail::is_stream_resource<rmm_resource, cuda::mr::device_accessible>());

#endif

} // namespace ACRE__CPP_MODE
} // namespace acre

#undef ACRE__RMM_HAS_CLASS
#endif
