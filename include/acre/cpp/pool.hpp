/* Pools as C++ objects: allocation in stream order. Part of acre.hpp. */
#ifndef ACRE_CPP_POOL_HPP
#define ACRE_CPP_POOL_HPP

#include "../pool.h"
#include "../spill.h"
#include "callable.hpp"
#include "device.hpp"

namespace acre {
inline namespace ACRE__CPP_MODE {

namespace detail {
/* What pool_ref and pool have in common. */
class pool_methods : public handle_of<acre_pool> {
  public:
    acre_pool_info info() const {
        return try_info().value();
    }
    result<acre_pool_info> try_info() const noexcept {
        return detail::get_info(acre_pool_get_info, handle_);
    }

    /* Allocates a block for work of `stream` (acre_pool_alloc). `alignment` is 0 (for 256) or a
     * power of two. NULL for 0 bytes. */
    [[nodiscard]] void *allocate(size_t bytes, stream_ref stream, size_t alignment = 0) const {
        void *p; /* acre always sets it */
        acre::check(acre_pool_alloc(handle_, bytes, alignment, stream.get(), &p));
        return p;
    }
    result<void *> try_allocate(size_t bytes, stream_ref stream,
                                size_t alignment = 0) const noexcept {
        void *p;
        acre_status status = acre_pool_alloc(handle_, bytes, alignment, stream.get(), &p);
        if (status != ACRE_OK)
            return status;
        return p;
    }
    /* Frees a block in stream order (acre_pool_free). NULL is a no-op. */
    void deallocate(void *p, stream_ref stream) const {
        acre::check(acre_pool_free(handle_, p, stream.get()));
    }
    result<void> try_deallocate(void *p, stream_ref stream) const noexcept {
        return acre_pool_free(handle_, p, stream.get());
    }
    /* Allocates a block and zeroes it in stream order (acre_pool_alloc_zeroed). */
    [[nodiscard]] void *allocate_zeroed(size_t bytes, stream_ref stream,
                                        size_t alignment = 0) const {
        return try_allocate_zeroed(bytes, stream, alignment).value();
    }
    result<void *> try_allocate_zeroed(size_t bytes, stream_ref stream,
                                       size_t alignment = 0) const noexcept {
        void *p;
        acre_status status = acre_pool_alloc_zeroed(handle_, bytes, alignment, stream.get(), &p);
        if (status != ACRE_OK)
            return status;
        return p;
    }
    /* Allocates `count` blocks of `bytes` each, all or none (acre_pool_alloc_many). */
    void allocate_many(size_t bytes, size_t count, stream_ref stream, void **blocks) const {
        acre::check(try_allocate_many(bytes, count, stream, blocks).status());
    }
    result<void> try_allocate_many(size_t bytes, size_t count, stream_ref stream,
                                   void **blocks) const noexcept {
        return acre_pool_alloc_many(handle_, bytes, count, stream.get(), blocks);
    }
    /* Frees `count` blocks in stream order, and stops at the first failure. */
    void deallocate_many(void *const *blocks, size_t count, stream_ref stream) const {
        acre::check(try_deallocate_many(blocks, count, stream).status());
    }
    result<void> try_deallocate_many(void *const *blocks, size_t count,
                                     stream_ref stream) const noexcept {
        return acre_pool_free_many(handle_, blocks, count, stream.get(), nullptr);
    }
    /* Resizes a block and keeps its contents up to the smaller size (acre_pool_realloc). Returns
     * the block's address, which may be new. After a failure the old block is unchanged. */
    [[nodiscard]] void *reallocate(void *p, size_t bytes, stream_ref stream) const {
        return try_reallocate(p, bytes, stream).value();
    }
    result<void *> try_reallocate(void *p, size_t bytes, stream_ref stream) const noexcept {
        void *moved;
        acre_status status = acre_pool_realloc(handle_, p, bytes, stream.get(), &moved);
        if (status != ACRE_OK)
            return status;
        return moved;
    }
    /* Allocates a block that leaves the device when memory is short (acre/spill.h); acre::bring
     * brings it back. deallocate frees it. */
    [[nodiscard]] void *allocate_spillable(size_t bytes, stream_ref stream) const {
        return try_allocate_spillable(bytes, stream).value();
    }
    result<void *> try_allocate_spillable(size_t bytes, stream_ref stream) const noexcept {
        void *p;
        acre_status status = acre_pool_alloc_spillable(handle_, bytes, stream.get(), &p);
        if (status != ACRE_OK)
            return status;
        return p;
    }
    /* Frees a block. Any stream may reuse it once the event has completed. */
    void deallocate_after(void *p, event_ref event) const {
        acre::check(try_deallocate_after(p, event).status());
    }
    result<void> try_deallocate_after(void *p, event_ref event) const noexcept {
        return acre_pool_free_after(handle_, p, event.get());
    }
    /* Lets graphs captured on `stream` share memory under a key (acre_pool_graph_share). */
    void graph_share(stream_ref stream, uint64_t key) const {
        acre::check(try_graph_share(stream, key).status());
    }
    result<void> try_graph_share(stream_ref stream, uint64_t key) const noexcept {
        return acre_pool_graph_share(handle_, stream.get(), key);
    }
    /* Ends the sharing under a key: its memory goes back to the pool. */
    void graph_end(uint64_t key) const {
        acre::check(try_graph_end(key).status());
    }
    result<void> try_graph_end(uint64_t key) const noexcept {
        return acre_pool_graph_end(handle_, key);
    }
    /* Records that work queued on `stream` so far uses a block (acre_pool_record_use). */
    void record_use(void *p, stream_ref stream) const {
        acre::check(try_record_use(p, stream).status());
    }
    result<void> try_record_use(void *p, stream_ref stream) const noexcept {
        return acre_pool_record_use(handle_, p, stream.get());
    }
    bool owns(const void *p) const noexcept {
        return acre_pool_owns(handle_, p) != 0;
    }
    size_t usable_size(const void *p) const noexcept {
        return acre_pool_usable_size(handle_, p);
    }
    /* Adds physical memory until the pool holds `bytes`. */
    void reserve(uint64_t bytes) const {
        acre::check(try_reserve(bytes).status());
    }
    result<void> try_reserve(uint64_t bytes) const noexcept {
        return acre_pool_reserve(handle_, bytes);
    }
    /* Releases free memory until the pool holds at most `keep_bytes`. */
    void trim(uint64_t keep_bytes = 0) const {
        acre::check(try_trim(keep_bytes).status());
    }
    result<void> try_trim(uint64_t keep_bytes = 0) const noexcept {
        return acre_pool_trim(handle_, keep_bytes);
    }
    /* Limits live and cached bytes (acre_pool_set_limits); 0: no limit. */
    void set_limits(uint64_t soft_limit_bytes, uint64_t limit_bytes) const {
        acre::check(try_set_limits(soft_limit_bytes, limit_bytes).status());
    }
    result<void> try_set_limits(uint64_t soft_limit_bytes, uint64_t limit_bytes) const noexcept {
        return acre_pool_set_limits(handle_, soft_limit_bytes, limit_bytes);
    }
    acre_pool_stats stats() const {
        return try_stats().value();
    }
    result<acre_pool_stats> try_stats() const noexcept {
        return detail::get_info(acre_pool_get_stats, handle_);
    }
    /* Calls fn(void *p, size_t bytes) for every live block (acre_pool_walk). The function returns
     * nothing, or a bool: false ends the walk. It must not call into acre. If it throws, the walk
     * ends, and the exception continues here. */
    template <class F> void walk(F &&fn) const {
        acre::check(try_walk(fn).status());
    }
    template <class F> result<void> try_walk(F &&fn) const {
        return detail::walk<void *, size_t>(
            fn, [this](auto call, void *user) { return acre_pool_walk(handle_, call, user); });
    }

  protected:
    constexpr pool_methods() noexcept = default;
    constexpr explicit pool_methods(acre_pool *pool) noexcept : handle_of(pool) {
    }
    pool_methods(const pool_methods &) noexcept = default;
    pool_methods &operator=(const pool_methods &) noexcept = default;
};
} // namespace detail

/* A pool that something else owns, such as a device's default pool. */
class pool_ref : public detail::pool_methods {
  public:
    using methods = detail::pool_methods;

    constexpr pool_ref() noexcept = default;
    constexpr pool_ref(acre_pool *pool) noexcept : methods(pool) {
    }
    /* The default pool of a device for a kind of memory. */
    static pool_ref default_of(device_ref device, acre_kind kind = ACRE_KIND_DEVICE) {
        return try_default_of(device, kind).value();
    }
    static result<pool_ref> try_default_of(device_ref device,
                                           acre_kind kind = ACRE_KIND_DEVICE) noexcept {
        acre_pool *pool = nullptr;
        acre_status status = acre_pool_default(device.get(), kind, &pool);
        if (status != ACRE_OK)
            return status;
        return pool_ref(pool);
    }

    friend constexpr bool operator==(pool_ref a, pool_ref b) noexcept {
        return a.get() == b.get();
    }
    friend constexpr bool operator!=(pool_ref a, pool_ref b) noexcept {
        return a.get() != b.get();
    }
};

namespace detail {
struct destroy_pool {
    void operator()(acre_pool *pool) const noexcept {
        acre_pool_destroy(pool, nullptr, nullptr);
    }
};
} // namespace detail

/* A pool of its own. Blocks that are live when it is destroyed leak, and the log says so. */
class pool : public detail::owner<pool_ref, detail::destroy_pool> {
  public:
    /* An empty owner, to be assigned to. */
    pool() noexcept = default;
    explicit pool(device_ref device, const acre_pool_options &options = {})
        : pool(try_create(device, options).value()) {
    }
    explicit pool(device_ref device, acre_kind kind) : pool(device, of_kind(kind)) {
    }
    static result<pool> try_create(device_ref device, acre_pool_options options = {}) noexcept {
        acre_pool *handle = nullptr;
        acre_status status = acre_pool_create(device.get(), detail::sized(options), &handle);
        if (status != ACRE_OK)
            return status;
        return pool(owner(handle));
    }

    /* Takes over a pool, which the destructor destroys. */
    static pool adopt(acre_pool *handle) noexcept {
        return pool(owner(handle));
    }

  private:
    static acre_pool_options of_kind(acre_kind kind) noexcept {
        acre_pool_options options = {};
        options.kind = kind;
        return options;
    }
    explicit pool(owner &&other) noexcept : owner(std::move(other)) {
    }
};

namespace detail {
/* Waits for all work of a pool's device, where a stream that must be waited for was destroyed
 * without acre. */
[[gnu::noinline, gnu::cold]] inline acre_status wait_for_all_work(pool_ref pool) noexcept {
    result<acre_pool_info> info = pool.try_info();
    return info ? acre_device_sync(info->device) : info.status();
}
/* Frees a block in stream order, for code that cannot report a failure. If the stream was destroyed
 * without acre, waits for all work of the device instead. */
inline void free_block(pool_ref pool, void *p, stream_ref stream) noexcept {
    if (__builtin_expect(acre_pool_free(pool.get(), p, stream.get()) == ACRE_E_HANDLE, 0) &&
        wait_for_all_work(pool) == ACRE_OK)
        acre_pool_free(pool.get(), p, nullptr);
}

/* Returns ACRE_E_KIND for a pool whose memory the host cannot access. */
inline acre_status host_can_access(pool_ref pool) noexcept {
    result<acre_pool_info> info = pool.try_info();
    if (!info)
        return info.status();
    return info->kind == ACRE_KIND_DEVICE ? ACRE_E_KIND : ACRE_OK;
}
/* Throws for a pool whose memory the host cannot access. */
inline void need_host_access(pool_ref pool) {
    acre_status status = host_can_access(pool);
    if (status == ACRE_E_KIND)
        acre::throw_error(status,
                          "the pool has device memory, which the host cannot access: use a pool of "
                          "pinned, mapped or managed memory");
    acre::check(status);
}
} // namespace detail

} // namespace ACRE__CPP_MODE
} // namespace acre

#endif
