/* Devices, streams and events as C++ objects. Part of acre.hpp.
 *
 * Each kind of object has two types. An owner (acre::device, acre::stream, acre::pool, ...)
 * destroys its object; it can be moved, not copied. A reference (acre::device_ref,
 * acre::stream_ref, acre::pool_ref, ...) is a handle of the C API with methods; it is copied freely
 * and owns nothing. Functions take references, and owners convert to them. `get()` returns the
 * handle for C calls. */
#ifndef ACRE_CPP_DEVICE_HPP
#define ACRE_CPP_DEVICE_HPP

#include <cstddef>
#include <cstdint>
#include <utility>

#include "../copy.h"
#include "../device.h"
#include "../stream.h"
#include "error.hpp"
#include "owner.hpp"

namespace acre {
inline namespace ACRE__CPP_MODE {

/* A stream of acre or of CUDA (cudaStream_t, CUstream). The default is CUDA's legacy stream. */
class stream_ref {
  public:
    constexpr stream_ref() noexcept = default;
    constexpr stream_ref(acre_stream stream) noexcept : stream_(stream) {
    }
    constexpr stream_ref(std::nullptr_t) noexcept {
    }
    stream_ref(int) = delete;

    constexpr acre_stream get() const noexcept {
        return stream_;
    }
    friend constexpr bool operator==(stream_ref a, stream_ref b) noexcept {
        return a.stream_ == b.stream_;
    }
    friend constexpr bool operator!=(stream_ref a, stream_ref b) noexcept {
        return a.stream_ != b.stream_;
    }

  private:
    acre_stream stream_ = nullptr;
};

/* An event of acre or of CUDA (cudaEvent_t, CUevent). */
class event_ref {
  public:
    constexpr event_ref() noexcept = default;
    constexpr event_ref(acre_event event) noexcept : event_(event) {
    }
    constexpr acre_event get() const noexcept {
        return event_;
    }
    friend constexpr bool operator==(event_ref a, event_ref b) noexcept {
        return a.event_ == b.event_;
    }
    friend constexpr bool operator!=(event_ref a, event_ref b) noexcept {
        return a.event_ != b.event_;
    }

  private:
    acre_event event_ = nullptr;
};

namespace detail {

/* Turns the status of a query into a result: true if the work is done. */
inline result<bool> is_done(acre_status status) noexcept {
    if (status == ACRE_OK || status == ACRE_E_NOT_READY)
        return status == ACRE_OK;
    return status;
}

/* Calls a C function that fills an info or stats struct. */
template <class Info, class Handle>
result<Info> get_info(acre_status (*get)(Handle, Info *), Handle handle) noexcept {
    Info info = {};
    info.struct_size = sizeof info;
    acre_status status = get(handle, &info);
    if (status != ACRE_OK)
        return status;
    return info;
}

} // namespace detail

namespace detail {
/* What device_ref and device have in common. */
class device_methods : public handle_of<acre_device> {
  public:
    acre_device_info info() const {
        return try_info().value();
    }
    result<acre_device_info> try_info() const noexcept {
        return detail::get_info(acre_device_get_info, handle_);
    }
    acre_device_stats stats() const {
        return try_stats().value();
    }
    result<acre_device_stats> try_stats() const noexcept {
        return detail::get_info(acre_device_get_stats, handle_);
    }
    /* Waits for all work that this process has queued on the device. */
    void sync() const {
        acre::check(try_sync().status());
    }
    result<void> try_sync() const noexcept {
        return acre_device_sync(handle_);
    }
    /* Limits the device memory that acre holds, and keeps some of the card free; 0: no limit. A
     * limit below what acre holds releases idle memory; after sync(), that is all chunks without
     * live blocks. */
    void set_limits(std::uint64_t limit_bytes, std::uint64_t margin_bytes = 0) const {
        acre::check(try_set_limits(limit_bytes, margin_bytes).status());
    }
    result<void> try_set_limits(std::uint64_t limit_bytes,
                                std::uint64_t margin_bytes = 0) const noexcept {
        return acre_device_set_limits(handle_, limit_bytes, margin_bytes);
    }
    /* Releases idle memory to the driver. */
    void trim() const {
        acre::check(try_trim().status());
    }
    result<void> try_trim() const noexcept {
        return acre_trim(handle_);
    }
    /* Waits on the host until all work queued on a stream is done. */
    void sync(stream_ref stream) const {
        acre::check(try_sync(stream).status());
    }
    result<void> try_sync(stream_ref stream) const noexcept {
        return acre_stream_sync(handle_, stream.get());
    }
    /* Returns true if all work queued on a stream is done. */
    bool query(stream_ref stream) const {
        return try_query(stream).value();
    }
    result<bool> try_query(stream_ref stream) const noexcept {
        return detail::is_done(acre_stream_query(handle_, stream.get()));
    }
    /* Makes all work queued on a stream from now on wait for an event. */
    void wait(stream_ref stream, event_ref event) const {
        acre::check(try_wait(stream, event).status());
    }
    result<void> try_wait(stream_ref stream, event_ref event) const noexcept {
        return acre_stream_wait(handle_, stream.get(), event.get());
    }

    /* Copies bytes between any kinds of memory, in stream order (acre_copy). */
    void copy(void *to, const void *from, size_t bytes, stream_ref stream) const {
        acre::check(try_copy(to, from, bytes, stream).status());
    }
    result<void> try_copy(void *to, const void *from, size_t bytes,
                          stream_ref stream) const noexcept {
        return acre_copy(handle_, to, from, bytes, stream.get());
    }
    /* Copies on the legacy stream, and waits until the copy is done (acre_copy_sync). */
    void copy_sync(void *to, const void *from, size_t bytes) const {
        acre::check(try_copy_sync(to, from, bytes).status());
    }
    result<void> try_copy_sync(void *to, const void *from, size_t bytes) const noexcept {
        return acre_copy_sync(handle_, to, from, bytes);
    }
    /* Copies rows of `width` bytes that are a pitch apart (acre_copy_2d). */
    void copy_2d(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                 size_t rows, stream_ref stream) const {
        acre::check(try_copy_2d(to, to_pitch, from, from_pitch, width, rows, stream).status());
    }
    result<void> try_copy_2d(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                             size_t width, size_t rows, stream_ref stream) const noexcept {
        return acre_copy_2d(handle_, to, to_pitch, from, from_pitch, width, rows, stream.get());
    }
    /* Sets bytes of any memory, in stream order (acre_fill). */
    void fill(void *to, uint8_t value, size_t bytes, stream_ref stream) const {
        acre::check(try_fill(to, value, bytes, stream).status());
    }
    result<void> try_fill(void *to, uint8_t value, size_t bytes, stream_ref stream) const noexcept {
        return acre_fill(handle_, to, value, bytes, stream.get());
    }

  protected:
    constexpr device_methods() noexcept = default;
    constexpr explicit device_methods(acre_device *device) noexcept : handle_of(device) {
    }
    device_methods(const device_methods &) noexcept = default;
    device_methods &operator=(const device_methods &) noexcept = default;
};
} // namespace detail

/* An open device that something else keeps open. */
class device_ref : public detail::device_methods {
  public:
    using methods = detail::device_methods;

    constexpr device_ref() noexcept = default;
    constexpr device_ref(acre_device *device) noexcept : methods(device) {
    }

    friend constexpr bool operator==(device_ref a, device_ref b) noexcept {
        return a.get() == b.get();
    }
    friend constexpr bool operator!=(device_ref a, device_ref b) noexcept {
        return a.get() != b.get();
    }
};

namespace detail {
struct close_device {
    void operator()(acre_device *device) const noexcept {
        acre_close(device);
    }
};
} // namespace detail

/* Opens a device, and closes it when the object is destroyed. Objects of the device must not be
 * used after its last close: declare the device first, so that it is destroyed last. */
class device : public detail::owner<device_ref, detail::close_device> {
  public:
    /* `name` is "cuda", "cuda:1", "soft" or "auto", as with acre_open. */
    explicit device(const char *name = nullptr, const acre_open_options &options = {})
        : device(try_open(name, options).value()) {
    }
    /* Takes over one open of a device, which the destructor closes. */
    static device adopt(acre_device *handle) noexcept {
        return device(owner(handle));
    }
    static result<device> try_open(const char *name = nullptr,
                                   acre_open_options options = {}) noexcept {
        acre_device *handle = nullptr;
        acre_status status = acre_open(name, detail::sized(options), &handle);
        if (status != ACRE_OK)
            return status;
        return adopt(handle);
    }

  private:
    explicit device(owner &&other) noexcept : owner(std::move(other)) {
    }
};

namespace detail {
/* A resource of a device, with its size: moved, not copied, and destroyed with its owner. */
template <class Handle, class Destroy> class sized_owner {
  public:
    sized_owner() noexcept = default;
    sized_owner(sized_owner &&other) noexcept
        : device_(other.device_), handle_(std::exchange(other.handle_, nullptr)),
          bytes_(std::exchange(other.bytes_, size_t(0))) {
    }
    sized_owner &operator=(sized_owner &&other) noexcept {
        sized_owner moved(std::move(other));
        swap(moved);
        return *this;
    }
    sized_owner(const sized_owner &) = delete;
    sized_owner &operator=(const sized_owner &) = delete;
    ~sized_owner() {
        reset();
    }

    size_t size() const noexcept {
        return bytes_;
    }
    device_ref device() const noexcept {
        return device_;
    }
    explicit operator bool() const noexcept {
        return handle_ != nullptr;
    }
    /* Destroys it now. */
    void reset() noexcept {
        size_t bytes = bytes_;
        if (Handle handle = release())
            Destroy{}(device_, handle, bytes);
    }
    /* Gives up ownership: the caller destroys it with the C API. */
    Handle release() noexcept {
        bytes_ = 0;
        return std::exchange(handle_, nullptr);
    }
    void swap(sized_owner &other) noexcept {
        std::swap(device_, other.device_);
        std::swap(handle_, other.handle_);
        std::swap(bytes_, other.bytes_);
    }

  protected:
    sized_owner(device_ref device, Handle handle, size_t bytes) noexcept
        : device_(device), handle_(handle), bytes_(bytes) {
    }
    device_ref device_;
    Handle handle_ = nullptr;
    size_t bytes_ = 0;
};

/* A stream or an event that acre created, with its device: moved, not copied, and destroyed with
 * its owner. */
template <class Ref, class Handle, acre_status (*Destroy)(acre_device *, Handle)>
class device_object {
  public:
    device_object() noexcept = default;
    device_object(device_object &&other) noexcept
        : device_(other.device_), handle_(other.release()) {
    }
    device_object &operator=(device_object &&other) noexcept {
        device_object moved(std::move(other));
        std::swap(device_, moved.device_);
        std::swap(handle_, moved.handle_);
        return *this;
    }
    device_object(const device_object &) = delete;
    device_object &operator=(const device_object &) = delete;
    ~device_object() {
        if (handle_)
            Destroy(device_.get(), handle_);
    }

    Handle get() const noexcept {
        return handle_;
    }
    operator Ref() const &noexcept {
        return handle_;
    }
    /* A reference to a temporary would outlive it. */
    operator Ref() const && = delete;
    device_ref device() const noexcept {
        return device_;
    }
    /* Gives up ownership: the caller destroys the object with the C API. */
    Handle release() noexcept {
        return std::exchange(handle_, nullptr);
    }
    friend bool operator==(const device_object &a, const device_object &b) noexcept {
        return a.handle_ == b.handle_;
    }
    friend bool operator!=(const device_object &a, const device_object &b) noexcept {
        return a.handle_ != b.handle_;
    }

  protected:
    device_object(device_ref device, Handle handle) noexcept : device_(device), handle_(handle) {
    }
    device_ref device_;
    Handle handle_ = nullptr;
};
} // namespace detail

/* A stream that acre creates and destroys. Empty or moved from, it is CUDA's legacy stream. */
class stream : public detail::device_object<stream_ref, acre_stream, acre_stream_destroy> {
  public:
    /* An empty owner, to be assigned to. */
    stream() noexcept = default;
    /* `flags`: ACRE_STREAM_*. */
    explicit stream(device_ref device, uint32_t flags = ACRE_STREAM_DEFAULT)
        : stream(try_create(device, flags).value()) {
    }
    static result<stream> try_create(device_ref device,
                                     uint32_t flags = ACRE_STREAM_DEFAULT) noexcept {
        acre_stream handle = nullptr;
        acre_status status = acre_stream_create(device.get(), flags, &handle);
        if (status != ACRE_OK)
            return status;
        return stream(device, handle);
    }
    /* Takes over a stream of acre_stream_create, which the destructor destroys. */
    static stream adopt(device_ref device, acre_stream handle) noexcept {
        return stream(device, handle);
    }

    /* Waits on the host until all work queued on the stream is done. */
    void sync() const {
        acre::check(try_sync().status());
    }
    result<void> try_sync() const noexcept {
        return acre_stream_sync(device_.get(), handle_);
    }
    /* Returns true if all work queued on the stream is done. */
    bool query() const {
        return try_query().value();
    }
    result<bool> try_query() const noexcept {
        return device_.try_query(handle_);
    }
    /* Makes all work queued on the stream from now on wait for an event. The host does not wait. */
    void wait(event_ref event) const {
        acre::check(try_wait(event).status());
    }
    result<void> try_wait(event_ref event) const noexcept {
        return device_.try_wait(handle_, event);
    }

  private:
    stream(device_ref device, acre_stream handle) noexcept : device_object(device, handle) {
    }
};

} // namespace ACRE__CPP_MODE
} // namespace acre

#endif
