/* A vector of device memory that grows in place, as a container. Part of acre.hpp. */
#ifndef ACRE_CPP_VECTOR_HPP
#define ACRE_CPP_VECTOR_HPP

#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <type_traits>
#include <utility>
#include <vector>

#include "vec.hpp"

namespace acre {
inline namespace ACRE__CPP_MODE {

namespace detail {
/* True for a contiguous range of T, such as std::vector<T>, std::array<T, N> and T[N]. */
template <class T, class Range, class = void> struct is_range_of : std::false_type {};
template <class T, class Range>
struct is_range_of<T, Range,
                   std::void_t<decltype(std::data(std::declval<const Range &>())),
                               decltype(std::size(std::declval<const Range &>()))>>
    : std::is_convertible<
          std::remove_pointer_t<decltype(std::data(std::declval<const Range &>()))> (*)[],
          const T (*)[]> {}; /* as arrays: a pointer to a derived class has another stride */
/* True for a vec, a device_vector, and a vec_ref: queued copies from them are recorded. */
template <class T, class From, class = void> struct is_vec_of : std::false_type {};
template <class T, class From>
struct is_vec_of<T, From, std::void_t<decltype(std::declval<const From &>().ref())>>
    : std::is_same<decltype(std::declval<const From &>().ref()), vec_ref<T>> {};
template <class T> struct is_vec_of<T, vec_ref<T>, void> : std::true_type {};
template <class T, class Range>
using enable_range =
    std::enable_if_t<is_range_of<T, Range>::value && !is_vec_of<T, Range>::value, int>;
template <class T, class From> using enable_vec = std::enable_if_t<is_vec_of<T, From>::value, int>;
template <class T> vec_ref<T> vec_of(vec_ref<T> vec) noexcept {
    return vec;
}
template <class From> auto vec_of(const From &from) noexcept -> decltype(from.ref()) {
    return from.ref();
}
} // namespace detail

/* Elements in device memory (acre_vec), with the stream whose work uses them. Growth within the
 * reservation, by default as many bytes as the device has, copies nothing and keeps the address.
 * The elements are on the device: the host does not read through data(), begin() and end(), which
 * are for kernels and device algorithms.
 *
 * All operations are in the order of stream(). The destructor waits for that stream's work, and for
 * recorded uses. */
template <class T> class device_vector {
    static_assert(std::is_same_v<T, std::remove_cv_t<T>>,
                  "elements are neither const nor volatile");

  public:
    using value_type = T;
    using size_type = size_t;
    using iterator = T *;
    using const_iterator = const T *;

    /* A vector without a device, to be assigned to. */
    device_vector() noexcept = default;
    /* An empty vector. */
    explicit device_vector(device_ref device, stream_ref stream = {},
                           const acre_vec_options &options = {})
        : device_(device), vec_(device, options, stream) {
    }
    /* `count` elements with undefined contents. */
    device_vector(device_ref device, size_t count, stream_ref stream)
        : device_vector(device, stream) {
        vec_.grow(count, stream);
    }
    /* Copies of elements in any memory. */
    device_vector(device_ref device, const T *from, size_t count, stream_ref stream)
        : device_vector(device, stream) {
        append(from, count);
    }
    device_vector(device_ref device, std::initializer_list<T> elements, stream_ref stream)
        : device_vector(device, elements.begin(), elements.size(), stream) {
    }
    template <class Range, detail::enable_range<T, Range> = 0>
    device_vector(device_ref device, const Range &elements, stream_ref stream)
        : device_vector(device, std::data(elements), std::size(elements), stream) {
    }
    /* Copies of the elements of another vector, or of a vec. `stream` must wait for the work that
     * writes them. The copy is a recorded use: the other vector may change or be destroyed at once.
     */
    template <class From, detail::enable_vec<T, From> = 0>
    device_vector(device_ref device, const From &from, stream_ref stream)
        : device_vector(device, stream) {
        append(from);
    }
    /* An empty vector, without exceptions. Add elements with try_append or try_resize. */
    static result<device_vector> try_create(device_ref device, stream_ref stream = {},
                                            const acre_vec_options &options = {}) noexcept {
        result<vec<T>> made = vec<T>::try_create(device, options, stream);
        if (!made)
            return made.status();
        return device_vector(device, std::move(*made));
    }
    device_vector(device_vector &&) noexcept = default;
    device_vector &operator=(device_vector &&) noexcept = default;

    T *data() noexcept {
        return vec_.data();
    }
    const T *data() const noexcept {
        return vec_.data();
    }
    size_t size() const noexcept {
        return vec_.size();
    }
    bool empty() const noexcept {
        return vec_.empty();
    }
    /* The elements that fit before the address may change. */
    size_t capacity() const noexcept {
        return vec_.capacity();
    }
    /* Addresses on the device. In C++20 they convert a vector to std::span<T>. */
    T *begin() noexcept {
        return data();
    }
    T *end() noexcept {
        return data() + size();
    }
    const T *begin() const noexcept {
        return data();
    }
    const T *end() const noexcept {
        return data() + size();
    }
    device_ref device() const noexcept {
        return device_;
    }
    stream_ref stream() const noexcept {
        return vec_.stream();
    }
    vec_ref<T> ref() const noexcept {
        return vec_.ref();
    }

    /* Changes the stream of all later operations, and records the work of the stream before, which
     * may use the elements. New work of `stream` must wait for it, with an event. If the stream
     * before was destroyed without acre, waits for all work of the device. */
    void set_stream(stream_ref stream) {
        acre::check(try_set_stream(stream).status());
    }
    result<void> try_set_stream(stream_ref stream) noexcept {
        if (vec_ && stream != vec_.stream()) {
            result<void> recorded = vec_.try_record_use(vec_.stream());
            if (recorded.status() == ACRE_E_HANDLE)
                recorded = device_.try_sync();
            if (!recorded)
                return recorded;
        }
        vec_.set_stream(stream);
        return ACRE_OK;
    }
    /* Records that work queued on another stream so far uses the elements. */
    void record_use(stream_ref stream) const {
        vec_.record_use(stream);
    }
    result<void> try_record_use(stream_ref stream) const noexcept {
        return vec_.try_record_use(stream);
    }

    /* Adds copies of elements in any memory. After a failure the vector is unchanged. */
    void append(const T *from, size_t count) {
        acre::check(try_append(from, count).status());
    }
    result<void> try_append(const T *from, size_t count) noexcept {
        return vec_.try_append(from, count, stream());
    }
    template <class Range, detail::enable_range<T, Range> = 0> void append(const Range &elements) {
        append(std::data(elements), std::size(elements));
    }
    void append(std::initializer_list<T> elements) {
        append(elements.begin(), elements.size());
    }
    /* Adds copies of the elements of another vector, or of a vec, and records the copy as a use of
     * it. stream() must wait for the work that writes these elements. */
    template <class From, detail::enable_vec<T, From> = 0> void append(const From &from) {
        acre::check(try_append(from).status());
    }
    template <class From, detail::enable_vec<T, From> = 0>
    result<void> try_append(const From &from) noexcept {
        const vec_ref<T> source = detail::vec_of(from);
        result<void> copied = try_append(source.data(), source.size());
        if (!copied || source == ref() || is_on_stream_of(from))
            return copied;
        result<void> recorded = source.try_record_use(stream());
        /* Without a record the source must not change before the copy is done. */
        return recorded || !source.get() ? copied : device_.try_sync(stream());
    }
    /* Adds one element. Each call queues a copy: append many at a time where possible. */
    void push_back(const T &element) {
        /* acre_copy reads pinned memory later, when `element` may have changed. */
        const T copy = element;
        append(&copy, 1);
    }
    /* Sets the number of elements; new ones have undefined contents. */
    void resize(size_t count) {
        acre::check(try_resize(count).status());
    }
    result<void> try_resize(size_t count) noexcept {
        return vec_ || count ? vec_.try_resize(count, stream()) : result<void>(ACRE_OK);
    }
    /* Reserves addresses for `count` elements in all. */
    void reserve(size_t count) {
        acre::check(try_reserve(count).status());
    }
    result<void> try_reserve(size_t count) noexcept {
        return vec_.try_reserve(count, stream());
    }
    /* Removes all elements and keeps the memory. */
    void clear() {
        acre::check(try_clear().status());
    }
    result<void> try_clear() noexcept {
        return vec_ ? vec_.try_clear() : result<void>(ACRE_OK);
    }
    /* Releases the memory that the elements do not need. */
    void shrink_to_fit() {
        acre::check(try_shrink_to_fit().status());
    }
    result<void> try_shrink_to_fit() noexcept {
        return vec_.try_shrink_to_fit(stream());
    }
    /* Replaces all elements. Elements of the vector itself must not overlap their new places:
     * otherwise the call fails with ACRE_E_OVERLAP, and the vector is unchanged. All of its
     * elements are a no-op. After any other failure the vector may be empty. */
    void assign(const T *from, size_t count) {
        result<void> assigned = try_assign(from, count);
        if (assigned.status() == ACRE_E_OVERLAP)
            acre::throw_error(ACRE_E_OVERLAP, "acre::device_vector::assign: elements of the vector "
                                              "overlap the places that they are assigned to");
        acre::check(assigned.status());
    }
    result<void> try_assign(const T *from, size_t count) noexcept {
        const uintptr_t source = reinterpret_cast<uintptr_t>(from);
        const uintptr_t target = reinterpret_cast<uintptr_t>(data());
        if (target && source == target && count == size())
            return ACRE_OK;
        if (target && (source < target ? target - source : source - target) / sizeof(T) < count)
            return ACRE_E_OVERLAP;
        result<void> cleared = try_clear();
        return cleared ? try_append(from, count) : cleared;
    }
    void assign(std::initializer_list<T> elements) {
        assign(elements.begin(), elements.size());
    }
    template <class Range, detail::enable_range<T, Range> = 0> void assign(const Range &elements) {
        assign(std::data(elements), std::size(elements));
    }
    template <class From, detail::enable_vec<T, From> = 0> void assign(const From &from) {
        acre::check(try_assign(from).status());
    }
    template <class From, detail::enable_vec<T, From> = 0>
    result<void> try_assign(const From &from) noexcept {
        if (detail::vec_of(from) == ref())
            return ACRE_OK;
        result<void> cleared = try_clear();
        return cleared ? try_append(from) : cleared;
    }

    /* Copies the first `count` elements, at most size(), to any memory, in stream order. Pageable
     * host memory has them when the call returns; otherwise wait for the stream. */
    void copy_to(T *to, size_t count) const {
        if (count > size())
            acre::throw_error(ACRE_E_RANGE,
                              "acre::device_vector::copy_to: more elements than size()");
        acre::check(try_copy_to(to, count).status());
    }
    result<void> try_copy_to(T *to, size_t count) const noexcept {
        if (count > size())
            return ACRE_E_RANGE;
        if (!count)
            return ACRE_OK;
        return acre_copy(device_.get(), to, data(), count * sizeof(T), stream().get());
    }
    /* The elements on the host. Waits for the work queued on stream(). */
    std::vector<T> to_host() const {
        static_assert(!std::is_same_v<T, bool>, "std::vector<bool> is no array: use copy_to");
        std::vector<T> host(size());
        copy_to(host.data(), host.size());
        device_.sync(stream());
        return host;
    }
#if defined(__cpp_lib_span)
    std::span<T> span() noexcept {
        return {data(), size()};
    }
    std::span<const T> span() const noexcept {
        return {data(), size()};
    }
#endif
    void swap(device_vector &other) noexcept {
        std::swap(device_, other.device_);
        vec_.swap(other.vec_);
    }

  private:
    device_vector(device_ref device, vec<T> &&made) noexcept
        : device_(device), vec_(std::move(made)) {
    }
    /* All operations of a device_vector are in the order of its stream. Those of a vec have a
     * stream each. */
    bool is_on_stream_of(const device_vector &other) const noexcept {
        return other.stream() == stream();
    }
    bool is_on_stream_of(const vec_ref<T> &) const noexcept {
        return false;
    }

    device_ref device_;
    vec<T> vec_;
};

} // namespace ACRE__CPP_MODE
} // namespace acre

#endif
