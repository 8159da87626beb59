/* Memory that leaves the device and comes back, as C++ scopes. Part of acre.hpp. */
#ifndef ACRE_CPP_SUSPEND_HPP
#define ACRE_CPP_SUSPEND_HPP

#include "../spill.h"
#include "../suspend.h"
#include "device.hpp"

namespace acre {
inline namespace ACRE__CPP_MODE {

/* Suspends memory of a device (acre_suspend), until resume() or the end of the scope.
 *
 * The destructor resumes, and ignores a failure: the memory then stays away. Call resume(), which
 * throws, and may be called again after other memory was freed. */
class [[nodiscard]] suspended {
  public:
    [[nodiscard]] explicit suspended(device_ref device, const acre_suspend_options &options = {})
        : suspended(try_suspend(device, options).value()) {
    }
    static result<suspended> try_suspend(device_ref device,
                                         acre_suspend_options options = {}) noexcept {
        acre_suspended *handle = nullptr;
        acre_status status = acre_suspend(device.get(), detail::sized(options), &handle);
        if (status != ACRE_OK)
            return status;
        return suspended(handle);
    }
    suspended(suspended &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {
    }
    suspended(const suspended &) = delete;
    suspended &operator=(const suspended &) = delete;
    ~suspended() {
        if (handle_)
            acre_resume(handle_);
    }
    /* Brings everything back. After a failure everything is still suspended. */
    void resume() {
        acre::check(try_resume().status());
    }
    result<void> try_resume() noexcept {
        acre_status status = acre_resume(handle_);
        if (status == ACRE_OK)
            handle_ = nullptr;
        return status;
    }
    acre_suspend_info info() const {
        return try_info().value();
    }
    result<acre_suspend_info> try_info() const noexcept {
        return detail::get_info<acre_suspend_info, const acre_suspended *>(acre_suspend_get_info,
                                                                           handle_);
    }
    /* Copies kept contents of a device address to host memory (acre_suspend_read). */
    void read(const void *p, std::size_t bytes, void *to) const {
        acre::check(try_read(p, bytes, to).status());
    }
    result<void> try_read(const void *p, std::size_t bytes, void *to) const noexcept {
        return acre_suspend_read(handle_, p, bytes, to);
    }
    acre_suspended *get() const noexcept {
        return handle_;
    }

  private:
    explicit suspended(acre_suspended *handle) noexcept : handle_(handle) {
    }
    acre_suspended *handle_;
};

/* Brings a spillable block back, if it is away, and keeps it on the device until the object is
 * destroyed: queue the work that uses the block in the scope (acre_bring, acre_bring_end). */
class [[nodiscard]] bring {
  public:
    [[nodiscard]] bring(void *p, stream_ref stream) : bring(try_bring(p, stream).value()) {
    }
    static result<bring> try_bring(void *p, stream_ref stream) noexcept {
        acre_status status = acre_bring(p, stream.get());
        if (status != ACRE_OK)
            return status;
        return bring(p, stream, 0);
    }
    bring(bring &&other) noexcept : p_(std::exchange(other.p_, nullptr)), stream_(other.stream_) {
    }
    bring(const bring &) = delete;
    bring &operator=(const bring &) = delete;
    ~bring() {
        if (p_)
            acre_bring_end(p_, stream_.get());
    }

  private:
    bring(void *p, stream_ref stream, int) noexcept : p_(p), stream_(stream) {
    }
    void *p_;
    stream_ref stream_;
};

/* Frees the copies that ACRE_SUSPEND_RETAIN left (acre_suspend_forget). */
inline result<void> try_forget_suspended(device_ref device) noexcept {
    return acre_suspend_forget(device.get());
}
inline void forget_suspended(device_ref device) {
    acre::check(try_forget_suspended(device).status());
}

} // namespace ACRE__CPP_MODE
} // namespace acre

#endif
