/* Arrays that grow in place, as C++ objects. Part of acre.hpp. acre::device_vector (vector.hpp) is
 * a container over them. */
#ifndef ACRE_CPP_VEC_HPP
#define ACRE_CPP_VEC_HPP

#include <type_traits>

#if defined(__has_include) && __cplusplus >= 202002L
#if __has_include(<span>)
#include <span>
#endif
#endif

#include "../vec.h"
#include "stream_owner.hpp"

namespace acre {
inline namespace ACRE__CPP_MODE {

namespace detail {
/* What vec_ref and vec have in common. */
template <class T> class vec_methods : public handle_of<acre_vec> {
  public:
    using value_type = T;

    /* The address of the first element. It changes only if the vec outgrows its reservation. */
    T *data() const noexcept {
        return handle_ ? static_cast<T *>(acre_vec_data(handle_)) : nullptr;
    }
    size_t size() const noexcept {
        return handle_ ? acre_vec_size(handle_) : 0;
    }
    size_t size_bytes() const noexcept {
        return size() * sizeof(T);
    }
    bool empty() const noexcept {
        return size() == 0;
    }
    /* The number of elements that the reserved addresses have room for. */
    size_t capacity() const noexcept {
        return handle_ ? acre_vec_capacity(handle_) : 0;
    }
    uint64_t mapped_bytes() const noexcept {
        return handle_ ? acre_vec_mapped_bytes(handle_) : 0;
    }

    /* Reserves addresses for `count` elements in all. */
    void reserve(size_t count, stream_ref stream) const {
        acre::check(try_reserve(count, stream).status());
    }
    result<void> try_reserve(size_t count, stream_ref stream) const noexcept {
        return acre_vec_reserve(handle_, count, stream.get());
    }
    /* Adds `count` elements with undefined contents. After a failure the vec is unchanged. */
    void grow(size_t count, stream_ref stream) const {
        acre::check(try_grow(count, stream).status());
    }
    result<void> try_grow(size_t count, stream_ref stream) const noexcept {
        return acre_vec_grow(handle_, count, stream.get());
    }
    /* Sets the number of elements; new ones have undefined contents. */
    void resize(size_t count, stream_ref stream) const {
        acre::check(try_resize(count, stream).status());
    }
    result<void> try_resize(size_t count, stream_ref stream) const noexcept {
        return acre_vec_resize(handle_, count, stream.get());
    }
    /* Adds `count` elements and copies them from any memory in stream order. */
    void append(const T *from, size_t count, stream_ref stream) const {
        acre::check(try_append(from, count, stream).status());
    }
    result<void> try_append(const T *from, size_t count, stream_ref stream) const noexcept {
        return acre_vec_append(handle_, from, count, stream.get());
    }
    /* Removes the last `count` elements, and releases the chunks behind the remaining ones. */
    void shrink(size_t count, stream_ref stream) const {
        acre::check(try_shrink(count, stream).status());
    }
    result<void> try_shrink(size_t count, stream_ref stream) const noexcept {
        return acre_vec_shrink(handle_, count, stream.get());
    }
    /* Releases all chunks that the elements do not need. */
    void shrink_to_fit(stream_ref stream) const {
        acre::check(try_shrink_to_fit(stream).status());
    }
    result<void> try_shrink_to_fit(stream_ref stream) const noexcept {
        return acre_vec_shrink_to_fit(handle_, stream.get());
    }
    /* Removes all elements and keeps the memory. */
    void clear() const {
        acre::check(try_clear().status());
    }
    result<void> try_clear() const noexcept {
        return acre_vec_clear(handle_);
    }
    /* Records that work queued on `stream` so far uses the vec. */
    void record_use(stream_ref stream) const {
        acre::check(try_record_use(stream).status());
    }
    result<void> try_record_use(stream_ref stream) const noexcept {
        return acre_vec_record_use(handle_, stream.get());
    }
    /* Gives another device of the same driver access to the vec, or takes the access away. */
    void set_access(device_ref peer, acre_access access) const {
        acre::check(try_set_access(peer, access).status());
    }
    result<void> try_set_access(device_ref peer, acre_access access) const noexcept {
        return acre_vec_set_access(handle_, peer.get(), access);
    }
    acre_vec_info info() const {
        return try_info().value();
    }
    result<acre_vec_info> try_info() const noexcept {
        return detail::get_info<acre_vec_info, const acre_vec *>(acre_vec_get_info, handle_);
    }
#if defined(__cpp_lib_span)
    /* The elements, for kernels: the host cannot access them, except in a vec of pinned or managed
     * memory. */
    std::span<T> span() const noexcept {
        return {data(), size()};
    }
    operator std::span<T>() const noexcept {
        return span();
    }
#endif

  protected:
    constexpr vec_methods() noexcept = default;
    constexpr explicit vec_methods(acre_vec *vec) noexcept : handle_of<acre_vec>(vec) {
        /* Here, since T may still be incomplete where a member has the type vec_ref<T>. */
        static_assert(std::is_trivially_copyable_v<T>, "acre moves and copies elements as bytes");
    }
    vec_methods(const vec_methods &) noexcept = default;
    vec_methods &operator=(const vec_methods &) noexcept = default;
};
} // namespace detail

/* A vec with elements of type T that something else owns. The elements are on the device: only
 * kernels and copies access them. `stream` in these calls is the stream whose work uses the vec. */
template <class T> class vec_ref : public detail::vec_methods<T> {
  public:
    using methods = detail::vec_methods<T>;

    constexpr vec_ref() noexcept = default;
    constexpr explicit vec_ref(acre_vec *vec) noexcept : methods(vec) {
    }

    friend constexpr bool operator==(vec_ref a, vec_ref b) noexcept {
        return a.get() == b.get();
    }
    friend constexpr bool operator!=(vec_ref a, vec_ref b) noexcept {
        return a.get() != b.get();
    }
};

namespace detail {
struct destroy_vec {
    acre_status operator()(acre_vec *vec, stream_ref stream) const noexcept {
        return acre_vec_destroy(vec, stream.get());
    }
};
} // namespace detail

/* A vec of its own. Its destructor waits for the work of stream(), and for recorded uses. */
template <class T> class vec : public detail::stream_owner<vec_ref<T>, detail::destroy_vec> {
    using base = detail::stream_owner<vec_ref<T>, detail::destroy_vec>;

  public:
    /* An empty vec, to be assigned to. */
    vec() noexcept = default;
    explicit vec(device_ref device, const acre_vec_options &options = {}, stream_ref stream = {})
        : vec(try_create(device, options, stream).value()) {
    }
    static result<vec> try_create(device_ref device, acre_vec_options options = {},
                                  stream_ref stream = {}) noexcept {
        acre_vec *handle = nullptr;
        acre_status status =
            acre_vec_create(device.get(), sizeof(T), detail::sized(options), &handle);
        if (status != ACRE_OK)
            return status;
        return vec(base(handle, stream, device));
    }
    /* Takes over a vec, which the destructor destroys. */
    static vec adopt(acre_vec *handle, stream_ref stream) noexcept {
        result<acre_vec_info> info = vec_ref<T>(handle).try_info();
        return vec(base(handle, stream, info ? info->device : nullptr));
    }

  private:
    explicit vec(base &&other) noexcept : base(std::move(other)) {
    }
};

} // namespace ACRE__CPP_MODE
} // namespace acre

#endif
