/* What owners have in common whose destruction waits for a stream. Part of acre.hpp. */
#ifndef ACRE_CPP_STREAM_OWNER_HPP
#define ACRE_CPP_STREAM_OWNER_HPP

#include "device.hpp"

namespace acre {
inline namespace ACRE__CPP_MODE {
namespace detail {

/* An owner as in owner.hpp, with the stream that its destruction waits for. Work of other streams
 * must be recorded with record_use. If that fails, because the stream was destroyed without acre or
 * a driver call failed, the destruction waits for all work of the device. While the stream is being
 * captured nothing can be waited for: the object then stays until the device is closed. */
template <class Ref, class Destroy> class stream_owner : public Ref::methods {
  public:
    using handle_type = decltype(std::declval<const Ref &>().get());

    stream_owner() noexcept = default;
    stream_owner(handle_type handle, stream_ref stream, device_ref device) noexcept
        : Ref::methods(handle), stream_(stream), device_(device) {
    }
    stream_owner(stream_owner &&other) noexcept
        : Ref::methods(other.release()), stream_(other.stream_), device_(other.device_) {
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
    /* The stream whose work the destruction waits for. */
    stream_ref stream() const noexcept {
        return stream_;
    }
    void set_stream(stream_ref stream) noexcept {
        stream_ = stream;
    }
    /* Destroys the object now. */
    void reset() noexcept {
        handle_type handle = release();
        acre_status status = handle ? Destroy{}(handle, stream_) : ACRE_OK;
        /* A wait for the device would break the capture. */
        if (status != ACRE_OK && status != ACRE_E_CAPTURING &&
            acre_device_sync(device_.get()) == ACRE_OK)
            Destroy{}(handle, nullptr);
    }
    /* Gives up ownership: the caller destroys the object with the C API. */
    handle_type release() noexcept {
        return std::exchange(this->handle_, nullptr);
    }
    void swap(stream_owner &other) noexcept {
        std::swap(this->handle_, other.handle_);
        std::swap(stream_, other.stream_);
        std::swap(device_, other.device_);
    }
    friend bool operator==(const stream_owner &a, const stream_owner &b) noexcept {
        return a.handle_ == b.handle_;
    }
    friend bool operator!=(const stream_owner &a, const stream_owner &b) noexcept {
        return a.handle_ != b.handle_;
    }

  private:
    stream_ref stream_;
    device_ref device_;
};

} // namespace detail
} // namespace ACRE__CPP_MODE
} // namespace acre

#endif
