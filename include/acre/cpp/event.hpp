/* Events as C++ objects. Part of acre.hpp. */
#ifndef ACRE_CPP_EVENT_HPP
#define ACRE_CPP_EVENT_HPP

#include "device.hpp"

namespace acre {
inline namespace ACRE__CPP_MODE {

/* An event that acre creates and destroys. */
class event : public detail::device_object<event_ref, acre_event, acre_event_destroy> {
  public:
    /* An empty owner, to be assigned to. */
    event() noexcept = default;
    /* `flags`: ACRE_EVENT_*; elapsed_since needs ACRE_EVENT_TIMING. */
    explicit event(device_ref device, uint32_t flags = ACRE_EVENT_DEFAULT)
        : event(try_create(device, flags).value()) {
    }
    static result<event> try_create(device_ref device,
                                    uint32_t flags = ACRE_EVENT_DEFAULT) noexcept {
        acre_event handle = nullptr;
        acre_status status = acre_event_create(device.get(), flags, &handle);
        if (status != ACRE_OK)
            return status;
        return event(device, handle);
    }
    /* Takes over an event of acre_event_create, which the destructor destroys. */
    static event adopt(device_ref device, acre_event handle) noexcept {
        return event(device, handle);
    }

    /* Records the event behind the work queued on a stream so far. */
    void record(stream_ref stream) const {
        acre::check(try_record(stream).status());
    }
    result<void> try_record(stream_ref stream) const noexcept {
        return acre_event_record(device_.get(), handle_, stream.get());
    }
    /* Waits on the host until the recorded work is done. */
    void sync() const {
        acre::check(try_sync().status());
    }
    result<void> try_sync() const noexcept {
        return acre_event_sync(device_.get(), handle_);
    }
    /* Returns true if the recorded work is done, or nothing was recorded. */
    bool query() const {
        return try_query().value();
    }
    result<bool> try_query() const noexcept {
        return detail::is_done(acre_event_query(device_.get(), handle_));
    }
    /* Returns the milliseconds from `begin` to this event (acre_event_elapsed). */
    float elapsed_since(event_ref begin) const {
        return try_elapsed_since(begin).value();
    }
    result<float> try_elapsed_since(event_ref begin) const noexcept {
        float milliseconds = 0;
        acre_status status = acre_event_elapsed(device_.get(), begin.get(), handle_, &milliseconds);
        if (status != ACRE_OK)
            return status;
        return milliseconds;
    }

  private:
    event(device_ref device, acre_event handle) noexcept : device_object(device, handle) {
    }
};

} // namespace ACRE__CPP_MODE
} // namespace acre

#endif
