/* Sparse ranges and their budgets as C++ objects. Part of acre.hpp. */
#ifndef ACRE_CPP_RANGE_HPP
#define ACRE_CPP_RANGE_HPP

#include "../range.h"
#include "callable.hpp"
#include "stream_owner.hpp"

namespace acre {
inline namespace ACRE__CPP_MODE {

namespace detail {
/* What range_budget_ref and range_budget have in common. */
class range_budget_methods : public handle_of<acre_range_budget> {
  public:
    /* Changes the limit; 0: no limit. */
    void set_limit(uint64_t limit_bytes) const {
        acre::check(try_set_limit(limit_bytes).status());
    }
    result<void> try_set_limit(uint64_t limit_bytes) const noexcept {
        return acre_range_budget_set_limit(handle_, limit_bytes);
    }
    /* Unmaps idle pieces of all its ranges. */
    void trim(uint64_t keep_bytes = 0) const {
        acre::check(try_trim(keep_bytes).status());
    }
    result<void> try_trim(uint64_t keep_bytes = 0) const noexcept {
        return acre_range_budget_trim(handle_, keep_bytes);
    }
    acre_range_stats stats() const {
        return try_stats().value();
    }
    result<acre_range_stats> try_stats() const noexcept {
        return detail::get_info(acre_range_budget_get_stats, handle_);
    }

  protected:
    constexpr range_budget_methods() noexcept = default;
    constexpr explicit range_budget_methods(acre_range_budget *range_budget) noexcept
        : handle_of(range_budget) {
    }
    range_budget_methods(const range_budget_methods &) noexcept = default;
    range_budget_methods &operator=(const range_budget_methods &) noexcept = default;
};
} // namespace detail

/* A budget that something else owns. */
class range_budget_ref : public detail::range_budget_methods {
  public:
    using methods = detail::range_budget_methods;

    constexpr range_budget_ref() noexcept = default;
    constexpr explicit range_budget_ref(acre_range_budget *range_budget) noexcept
        : methods(range_budget) {
    }
};

namespace detail {
struct destroy_range_budget {
    void operator()(acre_range_budget *budget) const noexcept {
        acre_range_budget_destroy(budget);
    }
};
struct destroy_range {
    acre_status operator()(acre_range *range, stream_ref stream) const noexcept {
        return acre_range_destroy(range, stream.get());
    }
};
} // namespace detail

/* A limit that several ranges share. Declare it before them, so that it is destroyed after them: a
 * budget that a range uses is not destroyed before the device closes. */
class range_budget : public detail::owner<range_budget_ref, detail::destroy_range_budget> {
  public:
    /* An empty owner, to be assigned to. */
    range_budget() noexcept = default;
    /* `limit_bytes` 0: no limit. */
    explicit range_budget(device_ref device, uint64_t limit_bytes)
        : range_budget(try_create(device, limit_bytes).value()) {
    }
    static result<range_budget> try_create(device_ref device, uint64_t limit_bytes) noexcept {
        acre_range_budget *handle = nullptr;
        acre_status status = acre_range_budget_create(device.get(), limit_bytes, &handle);
        if (status != ACRE_OK)
            return status;
        return adopt(handle);
    }
    static range_budget adopt(acre_range_budget *handle) noexcept {
        return range_budget(owner(handle));
    }

  private:
    explicit range_budget(owner &&other) noexcept : owner(std::move(other)) {
    }
};

namespace detail {
/* What range_ref and range have in common. Offsets and sizes are in bytes, multiples of the pieces.
 */
class range_methods : public handle_of<acre_range> {
  public:
    /* The first address, which never changes. */
    void *data() const noexcept {
        return handle_ ? acre_range_data(handle_) : nullptr;
    }
    /* Gives the pieces of `bytes` bytes at `offset` memory, all or none. */
    void commit(uint64_t offset, uint64_t bytes, stream_ref stream) const {
        acre::check(try_commit(offset, bytes, stream).status());
    }
    result<void> try_commit(uint64_t offset, uint64_t bytes, stream_ref stream) const noexcept {
        return acre_range_commit(handle_, offset, bytes, stream.get());
    }
    /* Takes the memory of pieces away; work queued on `stream` so far may still use it. */
    void decommit(uint64_t offset, uint64_t bytes, stream_ref stream) const {
        acre::check(try_decommit(offset, bytes, stream).status());
    }
    result<void> try_decommit(uint64_t offset, uint64_t bytes, stream_ref stream) const noexcept {
        return acre_range_decommit(handle_, offset, bytes, stream.get());
    }
    /* Records that work queued on `stream` so far uses the range. */
    void record_use(stream_ref stream) const {
        acre::check(try_record_use(stream).status());
    }
    result<void> try_record_use(stream_ref stream) const noexcept {
        return acre_range_record_use(handle_, stream.get());
    }
    /* Unmaps idle pieces until the range has at most `keep_bytes` of memory. */
    void trim(uint64_t keep_bytes = 0) const {
        acre::check(try_trim(keep_bytes).status());
    }
    result<void> try_trim(uint64_t keep_bytes = 0) const noexcept {
        return acre_range_trim(handle_, keep_bytes);
    }
    acre_range_stats stats() const {
        return try_stats().value();
    }
    result<acre_range_stats> try_stats() const noexcept {
        return detail::get_info(acre_range_get_stats, handle_);
    }
    /* Calls fn(const acre_range_part &) for the committed and the idle parts, by rising offset. The
     * function returns nothing, or a bool: false ends the walk. It must not call into acre. If it
     * throws, the walk ends, and the exception continues here. */
    template <class F> void walk(F &&fn) const {
        acre::check(try_walk(fn).status());
    }
    template <class F> result<void> try_walk(F &&fn) const {
        auto with_reference = [&fn](const acre_range_part *part) { return fn(*part); };
        return detail::walk<const acre_range_part *>(with_reference, [this](auto call, void *user) {
            return acre_range_walk(handle_, call, user);
        });
    }

  protected:
    constexpr range_methods() noexcept = default;
    constexpr explicit range_methods(acre_range *range) noexcept : handle_of(range) {
    }
    range_methods(const range_methods &) noexcept = default;
    range_methods &operator=(const range_methods &) noexcept = default;
};
} // namespace detail

/* A range that something else owns. Offsets and sizes are in bytes, multiples of its pieces. */
class range_ref : public detail::range_methods {
  public:
    using methods = detail::range_methods;

    constexpr range_ref() noexcept = default;
    constexpr explicit range_ref(acre_range *range) noexcept : methods(range) {
    }
};

/* A range of its own. Its destructor waits for the work of stream(), and for recorded uses. Declare
 * the stream first: without it the range is not destroyed before the device closes. */
class range : public detail::stream_owner<range_ref, detail::destroy_range> {
  public:
    /* An empty owner, to be assigned to. */
    range() noexcept = default;
    range(device_ref device, uint64_t bytes, const acre_range_options &options = {},
          stream_ref stream = {})
        : range(try_create(device, bytes, options, stream).value()) {
    }
    range(device_ref device, uint64_t bytes, range_budget_ref budget, stream_ref stream = {})
        : range(device, bytes, of_budget(budget), stream) {
    }
    static result<range> try_create(device_ref device, uint64_t bytes,
                                    acre_range_options options = {},
                                    stream_ref stream = {}) noexcept {
        acre_range *handle = nullptr;
        acre_status status =
            acre_range_create(device.get(), bytes, detail::sized(options), &handle);
        if (status != ACRE_OK)
            return status;
        return adopt(handle, stream, device);
    }
    /* Takes over a range, which the destructor destroys. */
    static range adopt(acre_range *handle, stream_ref stream, device_ref device) noexcept {
        return range(stream_owner(handle, stream, device));
    }

  private:
    static acre_range_options of_budget(range_budget_ref budget) noexcept {
        acre_range_options options = {};
        options.budget = budget.get();
        return options;
    }
    explicit range(stream_owner &&other) noexcept : stream_owner(std::move(other)) {
    }
};

} // namespace ACRE__CPP_MODE
} // namespace acre

#endif
