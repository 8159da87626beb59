/* What owners have in common whose destruction waits for a stream. Part of acre.hpp. */
#ifndef ACRE_CPP_STREAM_OWNER_HPP
#define ACRE_CPP_STREAM_OWNER_HPP

#include "device.hpp"

namespace acre {
namespace detail {

/* An owner as in owner.hpp, with the stream that its destruction waits for. Work of other streams
 * must be recorded with record_use. */
template <class Ref, class Destroy> class stream_owner : public Ref {
  public:
    using handle_type = decltype(std::declval<const Ref &>().get());

    stream_owner() noexcept = default;
    stream_owner(handle_type handle, stream_ref stream) noexcept : Ref(handle), stream_(stream) {
    }
    stream_owner(stream_owner &&other) noexcept : Ref(other.release()), stream_(other.stream_) {
    }
    stream_owner &operator=(stream_owner &&other) noexcept {
        stream_owner moved(std::move(other));
        swap(moved);
        return *this;
    }
    ~stream_owner() {
        reset();
    }

    explicit operator bool() const noexcept {
        return this->get() != nullptr;
    }
    Ref ref() const noexcept {
        return *this;
    }
    /* The stream whose work the destruction waits for. */
    stream_ref stream() const noexcept {
        return stream_;
    }
    void set_stream(stream_ref stream) noexcept {
        stream_ = stream;
    }
    /* Destroys the object now. */
    void reset() noexcept {
        if (handle_type handle = release())
            Destroy{}(handle, stream_);
    }
    /* Gives up ownership: the caller destroys the object with the C API. */
    handle_type release() noexcept {
        return std::exchange(static_cast<Ref &>(*this), Ref()).get();
    }
    void swap(stream_owner &other) noexcept {
        std::swap(static_cast<Ref &>(*this), static_cast<Ref &>(other));
        std::swap(stream_, other.stream_);
    }

  private:
    stream_ref stream_;
};

} // namespace detail
} // namespace acre

#endif
