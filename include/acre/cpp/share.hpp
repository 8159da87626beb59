/* Sharing with other processes, as C++ objects. Part of acre.hpp. */
#ifndef ACRE_CPP_SHARE_HPP
#define ACRE_CPP_SHARE_HPP

#include "../share.h"
#include "stream_owner.hpp"
#include "vec.hpp"

namespace acre {
inline namespace ACRE__CPP_MODE {

namespace detail {
/* What share_ref and share have in common. */
class share_methods : public handle_of<acre_share> {
  protected:
    constexpr share_methods() noexcept = default;
    constexpr explicit share_methods(acre_share *share) noexcept : handle_of(share) {
    }
    share_methods(const share_methods &) noexcept = default;
    share_methods &operator=(const share_methods &) noexcept = default;
};
} // namespace detail

/* A share that something else owns. */
class share_ref : public detail::share_methods {
  public:
    using methods = detail::share_methods;

    constexpr share_ref() noexcept = default;
    constexpr explicit share_ref(acre_share *share) noexcept : methods(share) {
    }
};

namespace detail {
struct close_share {
    void operator()(acre_share *share) const noexcept {
        acre_share_close(share);
    }
};
struct close_import {
    acre_status operator()(acre_import *import, stream_ref stream) const noexcept {
        return acre_import_close(import, stream.get());
    }
};
} // namespace detail

/* Shares a vec or a block under the path of a Unix socket, until the object is destroyed. Declare
 * it after the vec: a vec that is shared is not destroyed. */
class share : public detail::owner<share_ref, detail::close_share> {
  public:
    /* An empty share, to be assigned to. */
    share() noexcept = default;
    template <class T>
    share(vec_ref<T> vec, const char *path, acre_share_options options = {})
        : share(try_create(vec, path, options).value()) {
    }
    template <class T>
    static result<share> try_create(vec_ref<T> vec, const char *path,
                                    acre_share_options options = {}) noexcept {
        acre_share *handle = nullptr;
        acre_status status = acre_share_vec(vec.get(), path, detail::sized(options), &handle);
        if (status != ACRE_OK)
            return status;
        return share(owner(handle));
    }
    template <class T>
    share(const vec<T> &vec, const char *path, acre_share_options options = {})
        : share(vec.ref(), path, options) {
    }
    template <class T>
    static result<share> try_create(const vec<T> &vec, const char *path,
                                    acre_share_options options = {}) noexcept {
        return try_create(vec.ref(), path, options);
    }
    /* The block of acre_mem_alloc that begins at `p`. */
    share(device_ref device, void *p, const char *path, acre_share_options options = {})
        : share(try_create(device, p, path, options).value()) {
    }
    static result<share> try_create(device_ref device, void *p, const char *path,
                                    acre_share_options options = {}) noexcept {
        acre_share *handle = nullptr;
        acre_status status = acre_share_mem(device.get(), p, path, detail::sized(options), &handle);
        if (status != ACRE_OK)
            return status;
        return share(owner(handle));
    }

    /* Takes over a share, which the destructor closes. */
    static share adopt(acre_share *handle) noexcept {
        return share(owner(handle));
    }

  private:
    explicit share(owner &&other) noexcept : owner(std::move(other)) {
    }
};

namespace detail {
/* What import_ref and imported have in common. */
class imported_methods : public handle_of<acre_import> {
  public:
    /* Updates the import after the owner's memory grew or shrank. The address may change. */
    void refresh(stream_ref stream) const {
        acre::check(try_refresh(stream).status());
    }
    result<void> try_refresh(stream_ref stream) const noexcept {
        return acre_import_refresh(handle_, stream.get());
    }
    acre_import_info info() const {
        return try_info().value();
    }
    result<acre_import_info> try_info() const noexcept {
        return detail::get_info<acre_import_info, const acre_import *>(acre_import_get_info,
                                                                       handle_);
    }

  protected:
    constexpr imported_methods() noexcept = default;
    constexpr explicit imported_methods(acre_import *handle) noexcept : handle_of(handle) {
    }
    imported_methods(const imported_methods &) noexcept = default;
    imported_methods &operator=(const imported_methods &) noexcept = default;
};
} // namespace detail

/* An import that something else owns. */
class import_ref : public detail::imported_methods {
  public:
    using methods = detail::imported_methods;

    constexpr import_ref() noexcept = default;
    constexpr explicit import_ref(acre_import *handle) noexcept : methods(handle) {
    }
};

/* Memory that another process shares. Its destructor waits for the work of stream(). */
class imported : public detail::stream_owner<import_ref, detail::close_import> {
  public:
    /* An empty import, to be assigned to. */
    imported() noexcept = default;
    imported(device_ref device, const char *path, acre_import_options options = {},
             stream_ref stream = {})
        : imported(try_open(device, path, options, stream).value()) {
    }
    static result<imported> try_open(device_ref device, const char *path,
                                     acre_import_options options = {},
                                     stream_ref stream = {}) noexcept {
        acre_import *handle = nullptr;
        acre_status status = acre_import_open(device.get(), path, detail::sized(options), &handle);
        if (status != ACRE_OK)
            return status;
        return imported(stream_owner(handle, stream, device));
    }

    /* Takes over an import, which the destructor closes. */
    static imported adopt(acre_import *handle, stream_ref stream) noexcept {
        result<acre_import_info> info = import_ref(handle).try_info();
        return imported(stream_owner(handle, stream, info ? info->device : nullptr));
    }

  private:
    explicit imported(stream_owner &&other) noexcept : stream_owner(std::move(other)) {
    }
};

} // namespace ACRE__CPP_MODE
} // namespace acre

#endif
