/* A soft device that lags behind the host, for tests of stream order. Work that is queued while a
 * cpp_lag exists stays in flight until the host waits for any work, or until the object ends. No
 * time is involved, so a test sees the same in every run. */
#ifndef ACRE_TESTS_CPP_LAG_HPP
#define ACRE_TESTS_CPP_LAG_HPP

#include <acre/cpp/device.hpp>
#include <acre/cpp/pool.hpp>
#include <acre_soft.h>

class cpp_lag {
  public:
    /* A GPU cannot be made to lag: there the object does nothing. */
    explicit cpp_lag(acre::device_ref device)
        : device_(device), is_on_(acre_soft_set_lag(device.get(), 1000, 0) == ACRE_OK) {
    }
    cpp_lag(const cpp_lag &) = delete;
    ~cpp_lag() {
        if (is_on_)
            acre_soft_set_lag(device_.get(), 0, 0);
    }
    bool is_on() const {
        return is_on_;
    }

  private:
    acre::device_ref device_;
    bool is_on_;
};

/* Tells whether a block of `bytes` at `p` was freed in the order of `stream`. Call it right after
 * the free, with work of `stream` in flight; the stream is non-blocking. The pool gives such a
 * block to `stream` at once, and to no other stream before the work is done. On a GPU, where the
 * work may already be done, only the first of these is checked. */
inline bool cpp_freed_in_order(const cpp_lag &lag, acre::device_ref device, acre::pool_ref pool,
                               const void *p, size_t bytes, acre::stream_ref stream) {
    void *other = lag.is_on() ? pool.allocate(bytes, nullptr) : nullptr;
    void *same = pool.allocate(bytes, stream);
    bool is_in_flight = !device.query(stream);
    bool is_so = same == p && (!lag.is_on() || (other != p && is_in_flight));
    pool.deallocate(same, stream);
    pool.deallocate(other, nullptr);
    return is_so;
}

#endif
