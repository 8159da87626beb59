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

/* An object that is destroyed with its owner. It can be moved, not copied, and converts to `Ref`,
 * whose methods it has. A moved-from owner is empty: get() returns NULL. */
template <class Ref, class Destroy> class owner : public Ref {
  public:
    using handle_type = decltype(std::declval<const Ref &>().get());

    owner() noexcept = default;
    explicit owner(handle_type handle) noexcept : Ref(handle) {
    }
    owner(owner &&other) noexcept : Ref(other.release()) {
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
        return this->get() != nullptr;
    }
    Ref ref() const noexcept {
        return *this;
    }
    /* Destroys the object now. */
    void reset() noexcept {
        if (handle_type handle = release())
            Destroy{}(handle);
    }
    /* Gives up ownership: the caller destroys the object with the C API. */
    handle_type release() noexcept {
        return std::exchange(static_cast<Ref &>(*this), Ref()).get();
    }
    void swap(owner &other) noexcept {
        std::swap(static_cast<Ref &>(*this), static_cast<Ref &>(other));
    }
};

} // namespace detail
} // namespace ACRE__CPP_MODE
} // namespace acre

#endif
