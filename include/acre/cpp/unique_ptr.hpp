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

namespace detail {
/* The pool of a block, and the stream in whose order it is freed. */
class freed_on_stream {
  public:
    pool_ref pool() const noexcept {
        return pool_;
    }
    stream_ref stream() const noexcept {
        return stream_;
    }
    /* Changes the stream in whose order the block is freed. The pool may reuse the memory once the
     * new stream is done with its work: it must wait for the work of other streams on the block, or
     * that work must be recorded (pool_ref::record_use). */
    void set_stream(stream_ref stream) noexcept {
        stream_ = stream;
    }

  protected:
    constexpr freed_on_stream() noexcept = default;
    constexpr freed_on_stream(pool_ref pool, stream_ref stream) noexcept
        : pool_(pool), stream_(stream) {
    }
    freed_on_stream(const freed_on_stream &) noexcept = default;
    freed_on_stream &operator=(const freed_on_stream &) noexcept = default;
    void free(const volatile void *p) const noexcept {
        free_block(pool_, const_cast<void *>(p), stream_);
    }

  private:
    pool_ref pool_;
    stream_ref stream_;
};

/* True if a U may be owned as a T: const may be added, and any T may become void. A pointer to a
 * base may have another address, which is no block of the pool. */
template <class U, class T>
constexpr bool is_same_block = std::is_convertible_v<U *, T *> &&
                               (std::is_void_v<T> ||
                                std::is_same_v<std::remove_cv_t<U>, std::remove_cv_t<T>>);
} // namespace detail

/* Frees a block in stream order; if the stream was destroyed without acre, after all work of the
 * device. It calls no destructors: the elements need none. */
template <class T> class stream_delete : public detail::freed_on_stream {
  public:
    constexpr stream_delete() noexcept = default;
    constexpr stream_delete(pool_ref pool, stream_ref stream) noexcept
        : freed_on_stream(pool, stream) {
    }
    template <class U, std::enable_if_t<detail::is_same_block<U, T>, int> = 0>
    stream_delete(const stream_delete<U> &other) noexcept
        : freed_on_stream(other.pool(), other.stream()) {
    }
    void operator()(T *p) const noexcept {
        this->free(p);
    }
};

namespace detail {
template <class T> struct element_of {
    using type = T;
    static constexpr bool is_array = false;
};
template <class T> struct element_of<T[]> {
    using type = T;
    static constexpr bool is_array = true;
};
template <class T> using element_type = typename element_of<T>::type;
constexpr size_t alignment_of(size_t alignment) noexcept {
    return alignment > 256 ? alignment : 0; /* pools align to 256 by themselves */
}
} // namespace detail

/* Memory for kernels, T or T[], with undefined contents. The host does not dereference it if the
 * pool has device memory. It converts to a pointer to const elements, not to one to a base. */
template <class T> using unique_ptr = std::unique_ptr<T, stream_delete<detail::element_type<T>>>;

/* Allocates `count` elements (1 for a T that is no array). Nothing is constructed. */
template <class T>
result<unique_ptr<T>> try_make_unique(pool_ref pool, size_t count, stream_ref stream) noexcept {
    using element = detail::element_type<T>;
    static_assert(!std::is_array_v<element> && !std::is_const_v<element>,
                  "T, or T[] with the number of elements as an argument; not const");
    static_assert(std::is_trivially_destructible_v<element>,
                  "the free ends no lifetimes: use make_host for objects");
    size_t bytes = count > SIZE_MAX / sizeof(element) ? SIZE_MAX : count * sizeof(element);
    result<void *> p = pool.try_allocate(bytes, stream, detail::alignment_of(alignof(element)));
    if (!p)
        return p.status();
    return unique_ptr<T>(static_cast<element *>(*p), stream_delete<element>(pool, stream));
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
template <class T> class host_delete : public detail::freed_on_stream {
  public:
    constexpr host_delete() noexcept = default;
    constexpr host_delete(pool_ref pool, stream_ref stream, size_t count) noexcept
        : freed_on_stream(pool, stream), count_(count) {
    }
    /* Adds const. */
    template <class U, std::enable_if_t<!std::is_void_v<T> && detail::is_same_block<U, T>, int> = 0>
    host_delete(const host_delete<U> &other) noexcept
        : freed_on_stream(other.pool(), other.stream()), count_(other.size()) {
    }
    void operator()(T *p) const noexcept {
        for (size_t i = count_; i-- > 0;)
            p[i].~T();
        this->free(p);
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
template <class T> using host_ptr = std::unique_ptr<T, host_delete<detail::element_type<T>>>;

namespace detail {
/* Allocates memory that the host writes at once. The block may have been freed behind work of the
 * stream that still reads it, so the call waits for the stream. */
inline void *allocate_for_host(pool_ref pool, size_t bytes, stream_ref stream, size_t alignment) {
    need_host_access(pool);
    const acre_pool_info info = pool.info();
    unique_ptr<void> block(pool.allocate(bytes, stream, alignment),
                           stream_delete<void>(pool, stream));
    acre::check(acre_stream_sync(info.device, stream.get()));
    return block.release();
}
} // namespace detail

/* Constructs an object on the host, in memory of a pool that the host can access. If the
 * constructor throws, the memory is freed. Throws for a pool of device memory. Waits for the work
 * queued on `stream`, since the host writes the memory at once. */
template <class T, class... Arguments, std::enable_if_t<!detail::element_of<T>::is_array, int> = 0>
host_ptr<T> make_host(pool_ref pool, stream_ref stream, Arguments &&...arguments) {
    unique_ptr<void> block(
        detail::allocate_for_host(pool, sizeof(T), stream, detail::alignment_of(alignof(T))),
        stream_delete<void>(pool, stream));
    T *p = ::new (block.get()) T(std::forward<Arguments>(arguments)...);
    block.release();
    return host_ptr<T>(p, host_delete<T>(pool, stream, 1));
}

/* Constructs `count` objects from the same arguments. If a constructor throws, the objects before
 * it are destroyed, and the memory is freed. */
template <class T, class... Arguments, std::enable_if_t<detail::element_of<T>::is_array, int> = 0>
host_ptr<T> make_host(pool_ref pool, size_t count, stream_ref stream,
                      const Arguments &...arguments) {
    using element = detail::element_type<T>;
    size_t bytes = count > SIZE_MAX / sizeof(element) ? SIZE_MAX : count * sizeof(element);
    std::remove_cv_t<element> *p = static_cast<std::remove_cv_t<element> *>(
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
