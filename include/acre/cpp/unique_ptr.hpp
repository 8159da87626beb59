/* std::unique_ptr over blocks of pools. Part of acre.hpp.
 *
 *   acre::unique_ptr<float[]> x = acre::make_unique<float[]>(pool, n, stream);  // device memory
 *   acre::host_ptr<config> c = acre::make_host<config>(pinned, stream, 1, 2);   // an object
 *
 * Both are freed in the order of their stream. */
#ifndef ACRE_CPP_UNIQUE_PTR_HPP
#define ACRE_CPP_UNIQUE_PTR_HPP

#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "pool.hpp"

namespace acre {
inline namespace ACRE__CPP_MODE {

/* Frees a block in stream order; if the stream no longer exists, after all work of the device. It
 * ends no lifetimes: the block has elements that need no
 * destructor. */
class stream_delete {
  public:
    constexpr stream_delete() noexcept = default;
    constexpr stream_delete(pool_ref pool, stream_ref stream) noexcept
        : pool_(pool), stream_(stream) {
    }
    void operator()(void *p) const noexcept {
        detail::free_block(pool_, p, stream_);
    }
    pool_ref pool() const noexcept {
        return pool_;
    }
    stream_ref stream() const noexcept {
        return stream_;
    }
    /* The next free is in the order of another stream. That stream must wait for the work that uses
     * the block, or the work must be recorded (pool_ref::record_use). */
    void set_stream(stream_ref stream) noexcept {
        stream_ = stream;
    }

  private:
    pool_ref pool_;
    stream_ref stream_;
};

/* Memory for kernels, T or T[], with undefined contents. The host does not dereference it if the
 * pool has device memory. */
template <class T> using unique_ptr = std::unique_ptr<T, stream_delete>;

namespace detail {
template <class T> struct element_of {
    using type = T;
    static constexpr bool is_array = false;
};
template <class T> struct element_of<T[]> {
    using type = T;
    static constexpr bool is_array = true;
};
constexpr size_t alignment_of(size_t alignment) noexcept {
    return alignment > 256 ? alignment : 0; /* pools align to 256 by themselves */
}
} // namespace detail

/* Allocates `count` elements (1 for a T that is no array). Nothing is constructed. */
template <class T>
result<unique_ptr<T>> try_make_unique(pool_ref pool, size_t count, stream_ref stream) noexcept {
    using element = typename detail::element_of<T>::type;
    static_assert(!std::is_array_v<element> && !std::is_const_v<element>,
                  "T, or T[] with the number of elements as an argument; not const");
    static_assert(std::is_trivially_destructible_v<element>,
                  "the free ends no lifetimes: use make_host for objects");
    size_t bytes = count > SIZE_MAX / sizeof(element) ? SIZE_MAX : count * sizeof(element);
    result<void *> p = pool.try_allocate(bytes, stream, detail::alignment_of(alignof(element)));
    if (!p)
        return p.status();
    return unique_ptr<T>(static_cast<element *>(*p), stream_delete(pool, stream));
}
template <class T, std::enable_if_t<detail::element_of<T>::is_array, int> = 0>
unique_ptr<T> make_unique(pool_ref pool, size_t count, stream_ref stream) {
    return try_make_unique<T>(pool, count, stream).value();
}
template <class T, std::enable_if_t<!detail::element_of<T>::is_array, int> = 0>
unique_ptr<T> make_unique(pool_ref pool, stream_ref stream) {
    return try_make_unique<T>(pool, 1, stream).value();
}

/* Destroys the objects of a block on the host, then frees the block in stream order. */
template <class T> class host_delete : public stream_delete {
  public:
    constexpr host_delete() noexcept = default;
    constexpr host_delete(pool_ref pool, stream_ref stream, size_t count) noexcept
        : stream_delete(pool, stream), count_(count) {
    }
    void operator()(T *p) const noexcept {
        for (size_t i = count_; i-- > 0;)
            p[i].~T();
        stream_delete::operator()(p);
    }
    size_t size() const noexcept {
        return count_;
    }

  private:
    size_t count_ = 0;
};

/* Objects in pinned, mapped or managed memory. Work that uses them must be done before they are
 * destroyed: the host writes memory as soon as the pool has allocated it again, and does not wait
 * for a stream as kernels do. */
template <class T>
using host_ptr = std::unique_ptr<T, host_delete<typename detail::element_of<T>::type>>;

namespace detail {
/* Allocates memory that the host writes at once. The block may have been freed behind work of the
 * stream that still reads it, so the call waits for the stream. */
inline void *allocate_for_host(pool_ref pool, size_t bytes, stream_ref stream, size_t alignment) {
    need_host_access(pool);
    const acre_pool_info info = pool.info();
    std::unique_ptr<void, stream_delete> block(pool.allocate(bytes, stream, alignment),
                                               stream_delete(pool, stream));
    acre::check(acre_stream_sync(info.device, stream.get()));
    return block.release();
}
} // namespace detail

/* Constructs an object on the host, in memory of a pool that the host can access. If the
 * constructor throws, the memory is freed. Throws for a pool of device memory. Waits for the work
 * queued on `stream`, since the host writes the memory at once. */
template <class T, class... Arguments, std::enable_if_t<!detail::element_of<T>::is_array, int> = 0>
host_ptr<T> make_host(pool_ref pool, stream_ref stream, Arguments &&...arguments) {
    std::unique_ptr<void, stream_delete> block(
        detail::allocate_for_host(pool, sizeof(T), stream, detail::alignment_of(alignof(T))),
        stream_delete(pool, stream));
    T *p = ::new (block.get()) T(std::forward<Arguments>(arguments)...);
    block.release();
    return host_ptr<T>(p, host_delete<T>(pool, stream, 1));
}

/* Constructs `count` objects from the same arguments. If a constructor throws, the objects before
 * it are destroyed, and the memory is freed. */
template <class T, class... Arguments, std::enable_if_t<detail::element_of<T>::is_array, int> = 0>
host_ptr<T> make_host(pool_ref pool, size_t count, stream_ref stream,
                      const Arguments &...arguments) {
    using element = typename detail::element_of<T>::type;
    size_t bytes = count > SIZE_MAX / sizeof(element) ? SIZE_MAX : count * sizeof(element);
    element *p = static_cast<element *>(
        detail::allocate_for_host(pool, bytes, stream, detail::alignment_of(alignof(element))));
    host_ptr<T> made(p, host_delete<element>(pool, stream, 0));
    for (size_t i = 0; i < count; i++) {
        ::new (static_cast<void *>(p + i)) element(arguments...);
        made.get_deleter() = host_delete<element>(pool, stream, i + 1);
    }
    return made;
}

} // namespace ACRE__CPP_MODE
} // namespace acre

#endif
