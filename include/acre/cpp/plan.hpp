/* Plans as C++ objects. Part of acre.hpp. */
#ifndef ACRE_CPP_PLAN_HPP
#define ACRE_CPP_PLAN_HPP

#include "../plan.h"
#include "callable.hpp"
#include "pool.hpp"

namespace acre {
inline namespace ACRE__CPP_MODE {

namespace detail {
/* The bytes of `count` elements. A product that overflows is more than any memory has. */
constexpr size_t array_bytes(size_t count, size_t element_bytes) noexcept {
    return count > SIZE_MAX / element_bytes ? SIZE_MAX : count * element_bytes;
}
class plan_methods;
} // namespace detail

/* An array whose address a plan writes. It must exist until the plan has written it, in the same
 * place: it can be neither copied nor moved. A new request empties it until the plan has placed the
 * request. */
template <class T> class planned {
  public:
    planned() noexcept = default;
    planned(const planned &) = delete;
    planned &operator=(const planned &) = delete;

    /* NULL before the plan has placed the last request. */
    T *data() const noexcept {
        return static_cast<T *>(p_);
    }
    /* The elements of the last request; 0 before the plan has placed it. */
    size_t size() const noexcept {
        return p_ ? size_ : 0;
    }
    explicit operator bool() const noexcept {
        return p_ != nullptr;
    }

  private:
    friend class detail::plan_methods;
    /* Makes a request for `count` elements, by ask(address of p_). The plan writes p_ in the call
     * or later. An address of an earlier request must not stay: its block may be smaller. After a
     * failure the array is as before. */
    template <class Ask> acre_status request(size_t count, Ask ask) noexcept {
        void *before = std::exchange(p_, nullptr);
        acre_status status = ask(&p_);
        if (status == ACRE_OK)
            size_ = count;
        else
            p_ = before;
        return status;
    }

    void *p_ = nullptr;
    size_t size_ = 0;
};

class plan_step;

namespace detail {
/* What plan_ref and plan have in common. `place` is ACRE_PLACE_DEVICE or ACRE_PLACE_HOST. */
class plan_methods : public handle_of<acre_plan> {
  public:
    /* Requests `count` elements for all steps (acre_plan_want). The address is there when the call
     * returns, or with ACRE_PLAN_DEFERRED after satisfy(). */
    template <class T>
    void want(planned<T> &array, size_t count, uint32_t place = ACRE_PLACE_DEVICE) const {
        acre::check(try_want(array, count, place).status());
    }
    template <class T>
    result<void> try_want(planned<T> &array, size_t count,
                          uint32_t place = ACRE_PLACE_DEVICE) const noexcept {
        return array.request(count, [&](void **p) {
            return acre_plan_want(handle_, place, detail::array_bytes(count, sizeof(T)), alignof(T),
                                  p);
        });
    }
    /* Requests `count` elements for the steps from `first_step` to `last_step`, both included
     * (acre_plan_want_for). commit() writes the address. */
    template <class T>
    void want_for(planned<T> &array, size_t count, uint64_t first_step, uint64_t last_step,
                  uint32_t place = ACRE_PLACE_DEVICE) const {
        acre::check(try_want_for(array, count, first_step, last_step, place).status());
    }
    template <class T>
    result<void> try_want_for(planned<T> &array, size_t count, uint64_t first_step,
                              uint64_t last_step,
                              uint32_t place = ACRE_PLACE_DEVICE) const noexcept {
        return array.request(count, [&](void **p) {
            return acre_plan_want_for(handle_, place, detail::array_bytes(count, sizeof(T)),
                                      alignof(T), first_step, last_step, p);
        });
    }
    /* A request for want_many, for all steps and on the device. Change its fields for others. The
     * array is empty until the plan has placed the request, also if want_many fails. */
    template <class T>
    static acre_plan_wish wish(planned<T> &array, size_t count,
                               const char *name = nullptr) noexcept {
        acre_plan_wish wish = {};
        wish.struct_size = sizeof wish;
        wish.p = &array.p_;
        wish.name = name;
        wish.bytes = detail::array_bytes(count, sizeof(T));
        wish.alignment = alignof(T);
        array.p_ = nullptr;
        array.size_ = count;
        return wish;
    }
    /* Makes `count` requests, all or none (acre_plan_want_many). */
    void want_many(const acre_plan_wish *wishes, size_t count, uint32_t flags = 0) const {
        acre::check(try_want_many(wishes, count, flags).status());
    }
    result<void> try_want_many(const acre_plan_wish *wishes, size_t count,
                               uint32_t flags = 0) const noexcept {
        return acre_plan_want_many(handle_, wishes, count, flags);
    }
    /* Places all queued requests of want(), all or none. */
    void satisfy() const {
        acre::check(try_satisfy().status());
    }
    result<void> try_satisfy() const noexcept {
        return acre_plan_satisfy(handle_);
    }
    /* Drops all requests that wait for satisfy() or commit(). */
    void cancel() const {
        acre::check(try_cancel().status());
    }
    result<void> try_cancel() const noexcept {
        return acre_plan_cancel(handle_);
    }
    /* Places all requests that wait, writes their addresses, and fixes the plan. */
    void commit() const {
        acre::check(try_commit().status());
    }
    result<void> try_commit() const noexcept {
        return acre_plan_commit(handle_);
    }
    /* Empties the plan for the next round and keeps its memory (acre_plan_release). A default
     * stream_ref means all streams of the device. release() gives up ownership, as in all owners.
     */
    void release_round(stream_ref stream) const {
        acre::check(try_release_round(stream).status());
    }
    result<void> try_release_round(stream_ref stream) const noexcept {
        return acre_plan_release(handle_, stream.get());
    }
    /* Calls fn(const acre_plan_placed &) for every request of this round. The function returns
     * nothing, or a bool: false ends the walk. It must not call into acre. If it throws, the walk
     * ends, and the exception continues here. */
    template <class F> void walk(F &&fn) const {
        acre::check(try_walk(fn).status());
    }
    template <class F> result<void> try_walk(F &&fn) const {
        auto with_reference = [&fn](const acre_plan_placed *placed) { return fn(*placed); };
        return detail::walk<const acre_plan_placed *>(
            with_reference,
            [this](auto call, void *user) { return acre_plan_walk(handle_, call, user); });
    }
    acre_plan_stats stats() const {
        return try_stats().value();
    }
    result<acre_plan_stats> try_stats() const noexcept {
        return detail::get_info(acre_plan_get_stats, handle_);
    }

    /* ---- loops ---- */

    /* Begins a step of a loop, which ends with the object (acre_plan_step_begin). */
    plan_step step(stream_ref stream) const;
    result<plan_step> try_step(stream_ref stream) const noexcept;

    /* Allocates a block in a step (acre_plan_alloc). */
    [[nodiscard]] void *allocate(size_t bytes, uint32_t place = ACRE_PLACE_DEVICE,
                                 size_t alignment = 0) const {
        void *p; /* acre always sets it */
        acre::check(acre_plan_alloc(handle_, place, bytes, alignment, &p));
        return p;
    }
    result<void *> try_allocate(size_t bytes, uint32_t place = ACRE_PLACE_DEVICE,
                                size_t alignment = 0) const noexcept {
        void *p;
        acre_status status = acre_plan_alloc(handle_, place, bytes, alignment, &p);
        if (status != ACRE_OK)
            return status;
        return p;
    }
    /* Frees a block of allocate, in its step or in a later one. */
    void deallocate(void *p) const {
        acre::check(acre_plan_free(handle_, p));
    }
    result<void> try_deallocate(void *p) const noexcept {
        return acre_plan_free(handle_, p);
    }

  protected:
    constexpr plan_methods() noexcept = default;
    constexpr explicit plan_methods(acre_plan *plan) noexcept : handle_of(plan) {
    }
    plan_methods(const plan_methods &) noexcept = default;
    plan_methods &operator=(const plan_methods &) noexcept = default;
};
} // namespace detail

/* A plan that something else owns. `place` is ACRE_PLACE_DEVICE or ACRE_PLACE_HOST. */
class plan_ref : public detail::plan_methods {
  public:
    using methods = detail::plan_methods;

    constexpr plan_ref() noexcept = default;
    constexpr explicit plan_ref(acre_plan *plan) noexcept : methods(plan) {
    }
};

/* A step of a loop. The destructor ends the step, and ignores a failure; end() reports it. It
 * belongs to the thread that began it. */
class [[nodiscard]] plan_step {
  public:
    plan_step(plan_step &&other) noexcept : plan_(std::exchange(other.plan_, plan_ref())) {
    }
    plan_step &operator=(plan_step &&) = delete;
    ~plan_step() {
        if (plan_.get())
            acre_plan_step_end(plan_.get());
    }
    [[nodiscard]] void *allocate(size_t bytes, uint32_t place = ACRE_PLACE_DEVICE,
                                 size_t alignment = 0) const {
        return plan_.allocate(bytes, place, alignment);
    }
    result<void *> try_allocate(size_t bytes, uint32_t place = ACRE_PLACE_DEVICE,
                                size_t alignment = 0) const noexcept {
        return plan_.try_allocate(bytes, place, alignment);
    }
    void deallocate(void *p) const {
        plan_.deallocate(p);
    }
    result<void> try_deallocate(void *p) const noexcept {
        return plan_.try_deallocate(p);
    }
    /* Ends the step now. After a failure the step has not ended, and the destructor tries again. */
    void end() {
        acre::check(try_end().status());
    }
    result<void> try_end() noexcept {
        acre_status status = acre_plan_step_end(plan_.get());
        if (status == ACRE_OK)
            plan_ = plan_ref();
        return status;
    }

  private:
    friend class detail::plan_methods;
    explicit plan_step(plan_ref plan) noexcept : plan_(plan) {
    }
    plan_ref plan_;
};

inline result<plan_step> detail::plan_methods::try_step(stream_ref stream) const noexcept {
    acre_status status = acre_plan_step_begin(handle_, stream.get());
    if (status != ACRE_OK)
        return status;
    return plan_step(plan_ref(handle_));
}

inline plan_step detail::plan_methods::step(stream_ref stream) const {
    return try_step(stream).value();
}

namespace detail {
struct destroy_plan {
    void operator()(acre_plan *plan) const noexcept {
        acre_plan_destroy(plan);
    }
};
} // namespace detail

/* A plan of its own. Its destructor waits for all work queued on the device. */
class plan : public detail::owner<plan_ref, detail::destroy_plan> {
  public:
    /* An empty owner, to be assigned to. */
    plan() noexcept = default;
    explicit plan(device_ref device, const acre_plan_options &options = {})
        : plan(try_create(device, options).value()) {
    }
    static result<plan> try_create(device_ref device, acre_plan_options options = {}) noexcept {
        acre_plan *handle = nullptr;
        acre_status status = acre_plan_create(device.get(), detail::sized(options), &handle);
        if (status != ACRE_OK)
            return status;
        return adopt(handle);
    }
    static plan adopt(acre_plan *handle) noexcept {
        return plan(owner(handle));
    }

  private:
    explicit plan(owner &&other) noexcept : owner(std::move(other)) {
    }
};

} // namespace ACRE__CPP_MODE
} // namespace acre

#endif
