/* Views with extents (cuda::std::mdspan) of acre's memory, for kernels and for the host. Needs
 * CCCL's headers; works with every compiler. Not part of acre.hpp.
 *
 *   auto extents = cuda::std::dextents<int, 2>(rows, columns);
 *   auto a = acre::view<float>(pool, block, extents);            // a block of a pool, row-major
 *   auto b = acre::view<float, cuda::std::layout_left>(pool, block, extents); // column-major
 *   auto c = acre::view(vector, extents);                        // what has data() and size()
 *   kernel<<<...>>>(a, b, c);
 *
 * A view owns nothing. Each function checks that the memory has as many elements as the extents
 * need, and throws std::length_error otherwise. Nothing else is checked when the view is used. */
#ifndef ACRE_CPP_MDSPAN_HPP
#define ACRE_CPP_MDSPAN_HPP

#include <cuda/std/mdspan>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "pool.hpp"

namespace acre {
inline namespace ACRE__CPP_MODE {
namespace detail {

[[noreturn]] inline void throw_length(const char *why) {
#if defined(__cpp_exceptions)
    throw std::length_error(why);
#else
    (void)why;
    std::abort();
#endif
}

/* True if the number of elements fits the extents' index type, as mdspan requires, and `limit`. */
template <class Extents> bool extents_fit(const Extents &extents, size_t limit) {
    using index = typename Extents::index_type;
    const auto most = static_cast<uint64_t>(std::numeric_limits<index>::max());
    uint64_t needed = 1;
    bool is_empty = false, is_huge = false;
    for (size_t i = 0; i < Extents::rank(); i++) {
        const index extent = extents.extent(i);
        if (std::is_signed_v<index> && extent < index(0))
            return false;
        is_empty |= extent == index(0);
        is_huge |= __builtin_mul_overflow(needed, static_cast<uint64_t>(extent), &needed);
    }
    return is_empty || (!is_huge && needed <= most && needed <= limit);
}

/* The plain address of a pointer, or of one of Thrust's. */
template <class T> T *plain(T *p) noexcept {
    return p;
}
template <class Pointer> auto plain(const Pointer &p) noexcept -> decltype(p.get()) {
    return p.get();
}

template <class Layout, class T, class Extents>
cuda::std::mdspan<T, Extents, Layout> view_elements(T *p, size_t count, const Extents &extents) {
    if (!extents_fit(extents, count))
        throw_length("acre::view: the extents need more elements than the memory has");
    return cuda::std::mdspan<T, Extents, Layout>(
        p, typename Layout::template mapping<Extents>(extents));
}

} // namespace detail

/* `bytes` of memory at `p` as elements of type T. `p` must be aligned for T. */
template <class T, class Layout = cuda::std::layout_right, class Extents>
cuda::std::mdspan<T, Extents, Layout> view(void *p, size_t bytes, const Extents &extents) {
    if (reinterpret_cast<uintptr_t>(p) % alignof(T) != 0)
        detail::throw_length("acre::view: the address is not aligned for the elements");
    return detail::view_elements<Layout>(static_cast<T *>(p), bytes / sizeof(T), extents);
}

/* A live block of a pool. The view may use all of its usable bytes (acre_pool_usable_size). */
template <class T, class Layout = cuda::std::layout_right, class Extents>
cuda::std::mdspan<T, Extents, Layout> view(pool_ref pool, void *p, const Extents &extents) {
    return view<T, Layout>(p, pool.usable_size(p), extents);
}

/* The elements of a container with data() and size(): thrust::device_vector, acre's vectors, ...
 * The view is invalid once the container moves its elements. */
template <class Layout = cuda::std::layout_right, class Container, class Extents,
          class = decltype(std::declval<Container &>().data())>
auto view(Container &container, const Extents &extents) {
    return detail::view_elements<Layout>(detail::plain(container.data()), container.size(),
                                         extents);
}

} // namespace ACRE__CPP_MODE
} // namespace acre

#endif
