/* Heaps as C++ objects on the host: malloc and free inside kernels. acre.hpp does not include this
 * header, because it brings the device code of acre_heap.h; acre_heap.hpp is C++ inside kernels.
 *
 *   acre::heap heap(device);
 *   kernel<<<blocks, threads>>>(heap.handle());   // acre_heap_malloc(handle, bytes), ... */
#ifndef ACRE_CPP_HEAP_HPP
#define ACRE_CPP_HEAP_HPP

#include "../../acre_heap.h"
#include "callable.hpp"
#include "device.hpp"

namespace acre {
inline namespace ACRE__CPP_MODE {

namespace detail {
/* What heap_ref and heap have in common. */
class heap_methods : public handle_of<acre_heap> {
  public:
    /* What kernels use: pass it by value. Valid until the heap is destroyed. */
    acre_heap_handle handle() const {
        return try_handle().value();
    }
    result<acre_heap_handle> try_handle() const noexcept {
        acre_heap_handle handle = {};
        acre_status status = acre_heap_get_handle(handle_, &handle);
        if (status != ACRE_OK)
            return status;
        return handle;
    }
    /* Maps more memory until the heap has `bytes` in all. */
    void grow(uint64_t bytes) const {
        acre::check(try_grow(bytes).status());
    }
    result<void> try_grow(uint64_t bytes) const noexcept {
        return acre_heap_grow(handle_, bytes);
    }
    uint64_t limit() const {
        return try_limit().value();
    }
    result<uint64_t> try_limit() const noexcept {
        uint64_t bytes = 0;
        acre_status status = acre_heap_get_limit(handle_, &bytes);
        if (status != ACRE_OK)
            return status;
        return bytes;
    }
    /* Sets the limit, rounded up to 2 MiB; not above the limit that the heap was created with. */
    void set_limit(uint64_t bytes) const {
        acre::check(try_set_limit(bytes).status());
    }
    result<void> try_set_limit(uint64_t bytes) const noexcept {
        return acre_heap_set_limit(handle_, bytes);
    }
    /* Unmaps free memory at the end of the heap until `bytes` are left. No kernel that uses the
     * heap may run during the call. */
    void trim(uint64_t bytes = 0) const {
        acre::check(try_trim(bytes).status());
    }
    result<void> try_trim(uint64_t bytes = 0) const noexcept {
        return acre_heap_trim(handle_, bytes);
    }
    /* Frees all blocks at once (acre_heap_reset). No kernel that uses the heap may run during the
     * call. */
    void free_all() const {
        acre::check(try_free_all().status());
    }
    result<void> try_free_all() const noexcept {
        return acre_heap_reset(handle_);
    }
    acre_heap_stats stats() const {
        return try_stats().value();
    }
    result<acre_heap_stats> try_stats() const noexcept {
        return detail::get_info(acre_heap_get_stats, handle_);
    }
    /* Calls fn(void *block, uint64_t bytes) for every live block, in the order of addresses. The
     * function returns nothing, or a bool: false ends the walk. It must not call into acre. If it
     * throws, the walk ends, and the exception continues here. */
    template <class F> void walk(F &&fn) const {
        acre::check(try_walk(fn).status());
    }
    template <class F> result<void> try_walk(F &&fn) const {
        return detail::walk<void *, uint64_t>(
            fn, [this](auto call, void *user) { return acre_heap_walk(handle_, call, user); });
    }
    /* Calls fn(const acre_heap_block &) for every live block, with the marks of debug builds. */
    template <class F> void inspect(F &&fn) const {
        acre::check(try_inspect(fn).status());
    }
    template <class F> result<void> try_inspect(F &&fn) const {
        auto with_reference = [&fn](const acre_heap_block *block) { return fn(*block); };
        return detail::walk<const acre_heap_block *>(with_reference, [this](auto call, void *user) {
            return acre_heap_inspect(handle_, call, user);
        });
    }

  protected:
    constexpr heap_methods() noexcept = default;
    constexpr explicit heap_methods(acre_heap *heap) noexcept : handle_of(heap) {
    }
    heap_methods(const heap_methods &) noexcept = default;
    heap_methods &operator=(const heap_methods &) noexcept = default;
};
} // namespace detail

/* A heap that something else owns. */
class heap_ref : public detail::heap_methods {
  public:
    using methods = detail::heap_methods;

    constexpr heap_ref() noexcept = default;
    constexpr explicit heap_ref(acre_heap *heap) noexcept : methods(heap) {
    }
};

namespace detail {
struct destroy_heap {
    void operator()(acre_heap *heap) const noexcept {
        acre_heap_destroy(heap, nullptr, nullptr);
    }
};
} // namespace detail

/* A heap of its own. Its destructor waits for all work queued on the device. */
class heap : public detail::owner<heap_ref, detail::destroy_heap> {
  public:
    /* An empty owner, to be assigned to. */
    heap() noexcept = default;
    explicit heap(device_ref device, const acre_heap_options &options = {})
        : heap(try_create(device, options).value()) {
    }
    static result<heap> try_create(device_ref device, acre_heap_options options = {}) noexcept {
        acre_heap *handle = nullptr;
        acre_status status = acre_heap_create(device.get(), detail::sized(options), &handle);
        if (status != ACRE_OK)
            return status;
        return adopt(handle);
    }
    static heap adopt(acre_heap *handle) noexcept {
        return heap(owner(handle));
    }

  private:
    explicit heap(owner &&other) noexcept : owner(std::move(other)) {
    }
};

} // namespace ACRE__CPP_MODE
} // namespace acre

#endif
