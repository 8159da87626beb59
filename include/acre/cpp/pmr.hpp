/* Containers of the standard library in pinned, mapped or managed memory. acre.hpp does not include
 * this header.
 *
 *   acre::pool pinned(device, ACRE_KIND_PINNED);
 *   acre::pmr_resource resource(pinned);
 *   std::pmr::vector<float> input(n, &resource); // copies from it run at full speed */
#ifndef ACRE_CPP_PMR_HPP
#define ACRE_CPP_PMR_HPP

#include <memory_resource>

#include "pool.hpp"

namespace acre {

/* A std::pmr::memory_resource over a pool whose memory the host can access. Resources of the same
 * pool are equal; without RTTI a resource is equal only to itself.
 *
 * As with any memory of the host, work that uses a block must be done before a container frees it:
 * the next container writes to the block at once. A failed allocation throws acre::out_of_memory, a
 * std::bad_alloc. */
class pmr_resource final : public std::pmr::memory_resource {
  public:
    /* Throws acre::call_error for a pool of device memory. `stream` is that of all allocations:
     * blocks go around in the pool without waiting, since all belong to one stream. */
    explicit pmr_resource(pool_ref pool, stream_ref stream = {}) : pool_(pool), stream_(stream) {
        detail::need_host_access(pool);
    }
    static result<pmr_resource> try_create(pool_ref pool, stream_ref stream = {}) noexcept {
        acre_status status = detail::host_can_access(pool);
        if (status != ACRE_OK)
            return status;
        return pmr_resource(pool, stream, 0);
    }
    pool_ref pool() const noexcept {
        return pool_;
    }
    stream_ref stream() const noexcept {
        return stream_;
    }

  private:
    pmr_resource(pool_ref pool, stream_ref stream, int) noexcept : pool_(pool), stream_(stream) {
    }
    void *do_allocate(size_t bytes, size_t alignment) override {
        /* Pools align to 256 by themselves. A block of 0 bytes has an address of its own here. */
        return pool_.allocate(bytes ? bytes : 1, stream_, alignment > 256 ? alignment : 0);
    }
    void do_deallocate(void *p, size_t, size_t) override {
        acre_pool_free(pool_.get(), p, stream_.get());
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
    stream_ref stream_;
};

} // namespace acre

#endif
