/* Traces as C++ scopes. Part of acre.hpp. */
#ifndef ACRE_CPP_TRACE_HPP
#define ACRE_CPP_TRACE_HPP

#include "../trace.h"
#include "device.hpp"

namespace acre {
inline namespace ACRE__CPP_MODE {

/* Writes a trace to a file until the object is destroyed (acre_trace_start). */
class [[nodiscard]] trace_scope {
  public:
    [[nodiscard]] explicit trace_scope(const char *path, const acre_trace_options &options = {})
        : trace_scope(try_start(path, options).value()) {
    }
    static result<trace_scope> try_start(const char *path,
                                         acre_trace_options options = {}) noexcept {
        acre_status status = acre_trace_start(path, detail::sized(options));
        if (status != ACRE_OK)
            return status;
        return trace_scope();
    }
    trace_scope(trace_scope &&other) noexcept : is_on_(std::exchange(other.is_on_, false)) {
    }
    trace_scope &operator=(trace_scope &&) = delete;
    ~trace_scope() {
        if (is_on_)
            acre_trace_stop();
    }

  private:
    trace_scope() noexcept = default;
    bool is_on_ = true;
};

/* Writes a text into the trace. Without a trace it is a no-op. */
inline void trace_mark(const char *text) noexcept {
    acre_trace_mark(text);
}

/* Writes the trace to disk, so that it survives a crash of the machine (acre_trace_flush). */
inline result<void> try_trace_flush() noexcept {
    return acre_trace_flush();
}
inline void trace_flush() {
    acre::check(try_trace_flush().status());
}

/* Writes what acre has at this moment to a file (acre_snapshot): on one device, or on all. */
inline result<void> try_snapshot(const char *path, device_ref device = {}) noexcept {
    return acre_snapshot(device.get(), path);
}
inline void snapshot(const char *path, device_ref device = {}) {
    acre::check(try_snapshot(path, device).status());
}

} // namespace ACRE__CPP_MODE
} // namespace acre

#endif
