/* What all owners of the C++ API have in common, and options. Part of acre.hpp. */
#ifndef ACRE_CPP_OWNER_HPP
#define ACRE_CPP_OWNER_HPP

#include <utility>

#include "mode.hpp"

namespace acre {
inline namespace ACRE__CPP_MODE {
namespace detail {

/* Options whose struct_size is set. In C++ programs may leave it 0. */
template <class Options> const Options *sized(Options &options) noexcept {
    if (!options.struct_size)
        options.struct_size = sizeof options;
    return &options;
}

/* A handle of the C API. A class with the methods of an object derives from it; the reference and
 * the owner of the object derive from that class. Only the reference can be assigned: if an owner
 * were a reference, a function that takes a `pool_ref &` could overwrite the handle of a pool. */
template <class T> class handle_of {
  public:
    constexpr T *get() const noexcept {
        return handle_;
    }

  protected:
    constexpr handle_of() noexcept = default;
    constexpr explicit handle_of(T *handle) noexcept : handle_(handle) {
    }
    handle_of(const handle_of &) noexcept = default;
    handle_of &operator=(const handle_of &) noexcept = default;

    T *handle_ = nullptr;
};

/* An object that is destroyed with its owner. It can be moved, not copied, and converts to `Ref`,
 * whose methods it has. An empty or moved-from owner has no object: get() returns NULL. */
template <class Ref, class Destroy> class owner : public Ref::methods {
  public:
    using handle_type = decltype(std::declval<const Ref &>().get());

    owner() noexcept = default;
    explicit owner(handle_type handle) noexcept : Ref::methods(handle) {
    }
    owner(owner &&other) noexcept : Ref::methods(other.release()) {
    }
    owner &operator=(owner &&other) noexcept {
        owner moved(std::move(other));
        swap(moved);
        return *this;
    }
    ~owner() {
        reset();
    }

    explicit operator bool() const noexcept {
        return this->handle_ != nullptr;
    }
    operator Ref() const &noexcept {
        return ref();
    }
    /* A reference to a temporary would outlive it. */
    operator Ref() const && = delete;
    Ref ref() const noexcept {
        return Ref(this->handle_);
    }
    /* Destroys the object now. */
    void reset() noexcept {
        if (handle_type handle = release())
            Destroy{}(handle);
    }
    /* Gives up ownership: the caller destroys the object with the C API. */
    handle_type release() noexcept {
        return std::exchange(this->handle_, nullptr);
    }
    void swap(owner &other) noexcept {
        std::swap(this->handle_, other.handle_);
    }
    friend bool operator==(const owner &a, const owner &b) noexcept {
        return a.handle_ == b.handle_;
    }
    friend bool operator!=(const owner &a, const owner &b) noexcept {
        return a.handle_ != b.handle_;
    }
};

} // namespace detail
} // namespace ACRE__CPP_MODE
} // namespace acre

#endif
