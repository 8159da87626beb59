/* Containers of the standard library in pinned, mapped or managed memory. acre.hpp does not include
 * this header.
 *
 *   acre::pmr_resource resource(device); // the device's default pool of pinned memory
 *   std::pmr::vector<float> input(n, &resource); // copies from it run at full speed */
#ifndef ACRE_CPP_PMR_HPP
#define ACRE_CPP_PMR_HPP

#include <cstring>
#include <memory_resource>

#include "idle_stream.hpp"

namespace acre {
inline namespace ACRE__CPP_MODE {

/* A std::pmr::memory_resource over a pool whose memory the host can access. Resources of the same
 * pool are equal.
 *
 * The host writes to a block as soon as it has it. So a block comes from a stream without work, and
 * nothing queued still uses it, also if other code uses the pool in stream order. In turn, work
 * that uses a container's memory must be done before the container frees it. A failed allocation
 * throws acre::out_of_memory, a std::bad_alloc. */
class pmr_resource final : public std::pmr::memory_resource {
  public:
    /* Throws acre::call_error for a pool of device memory. */
    explicit pmr_resource(pool_ref pool)
        : pmr_resource(pool, detail::shared_idle_stream::create(device_of(pool))) {
    }
    /* The default pool of a device for a kind of memory. */
    explicit pmr_resource(device_ref device, acre_kind kind = ACRE_KIND_PINNED)
        : pmr_resource(pool_ref::default_of(device, kind)) {
    }
    static result<pmr_resource> try_create(pool_ref pool) noexcept {
        acre_status status = detail::host_can_access(pool);
        if (status != ACRE_OK)
            return status;
        result<acre_pool_info> info = pool.try_info();
        if (!info)
            return info.status();
        result<detail::shared_idle_stream> idle =
            detail::shared_idle_stream::try_create(info->device);
        if (!idle)
            return idle.status();
        return pmr_resource(pool, *idle);
    }
    static result<pmr_resource> try_create(device_ref device,
                                           acre_kind kind = ACRE_KIND_PINNED) noexcept {
        result<pool_ref> pool = pool_ref::try_default_of(device, kind);
        if (!pool)
            return pool.status();
        return try_create(*pool);
    }
    pool_ref pool() const noexcept {
        return pool_;
    }

  private:
    pmr_resource(pool_ref pool, const detail::shared_idle_stream &idle) noexcept
        : pool_(pool), idle_(idle) {
    }
    static device_ref device_of(pool_ref pool) {
        detail::need_host_access(pool);
        return pool.info().device;
    }
    void *do_allocate(size_t bytes, size_t alignment) override {
        /* A block of 0 bytes has an address of its own here. */
        return detail::allocate_idle(pool_, *idle_, bytes ? bytes : 1, alignment);
    }
    void do_deallocate(void *p, size_t, size_t) override {
        detail::free_idle(pool_, *idle_, p);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
        return has_same_class(other) && static_cast<const pmr_resource &>(other).pool_ == pool_;
    }
    /* No dynamic_cast: it crashes on an object of a file that was compiled without RTTI, and a
     * program may link files of both kinds. An object begins with the pointer to the virtual
     * functions of its class. This class is final, so an equal pointer means the same class. */
    bool has_same_class(const std::pmr::memory_resource &other) const noexcept {
        const std::pmr::memory_resource *mine = this;
        return std::memcmp(static_cast<const void *>(mine), static_cast<const void *>(&other),
                           sizeof(void *)) == 0;
    }

    pool_ref pool_;
    detail::shared_idle_stream idle_; /* shared by copies */
};

} // namespace ACRE__CPP_MODE
} // namespace acre

#endif
