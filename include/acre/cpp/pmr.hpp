/* Containers of the standard library in pinned, mapped or managed memory. acre.hpp does not include
 * this header.
 *
 *   acre::pool pinned(device, ACRE_KIND_PINNED);
 *   acre::pmr_resource resource(pinned);
 *   std::pmr::vector<float> input(n, &resource); // copies from it run at full speed */
#ifndef ACRE_CPP_PMR_HPP
#define ACRE_CPP_PMR_HPP

#include <memory>
#include <memory_resource>

#include "idle_stream.hpp"

namespace acre {
inline namespace ACRE__CPP_MODE {

/* A std::pmr::memory_resource over a pool whose memory the host can access. Resources of the same
 * pool are equal; without RTTI a resource is equal only to itself.
 *
 * The host writes to a block as soon as it has it. So a block comes from a stream without work, and
 * nothing queued still uses it, also if other code uses the pool in stream order. In turn, work
 * that uses a container's memory must be done before the container frees it. A failed allocation
 * throws acre::out_of_memory, a std::bad_alloc. */
class pmr_resource final : public std::pmr::memory_resource {
  public:
    /* Throws acre::call_error for a pool of device memory. */
    explicit pmr_resource(pool_ref pool) : pool_(pool) {
        detail::need_host_access(pool);
        idle_ = std::make_shared<detail::idle_stream>(pool.info().device);
    }
    static result<pmr_resource> try_create(pool_ref pool) {
        acre_status status = detail::host_can_access(pool);
        if (status != ACRE_OK)
            return status;
        return pmr_resource(pool);
    }
    pool_ref pool() const noexcept {
        return pool_;
    }

  private:
    void *do_allocate(size_t bytes, size_t alignment) override {
        /* A block of 0 bytes has an address of its own here. */
        return detail::allocate_idle(pool_, *idle_, bytes ? bytes : 1, alignment);
    }
    void do_deallocate(void *p, size_t, size_t) override {
        detail::free_idle(pool_, *idle_, p);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
#if defined(__cpp_rtti)
        const pmr_resource *resource = dynamic_cast<const pmr_resource *>(&other);
        return resource && resource->pool_ == pool_;
#else
        return this == &other;
#endif
    }

    pool_ref pool_;
    std::shared_ptr<detail::idle_stream> idle_; /* shared by copies */
};

} // namespace ACRE__CPP_MODE
} // namespace acre

#endif
