/* Errors of the C++ API: exceptions, and results for programs without them. Part of acre.hpp.
 *
 * Every call of the C API exists twice. `pool.allocate(...)` throws. `pool.try_allocate(...)`
 * returns a result, throws nothing, and is what a program compiled with -fno-exceptions uses: a
 * throwing function that fails there calls std::abort. */
#ifndef ACRE_CPP_ERROR_HPP
#define ACRE_CPP_ERROR_HPP

#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "../oom.h"
#include "../status.h"
#include "mode.hpp"

namespace acre {
inline namespace ACRE__CPP_MODE {

/* What every exception of acre has. `catch (const acre::error &)` catches all of them; they also
 * derive from std::exception, and those of memory that ran out from std::bad_alloc. The text is in
 * the object itself: throwing allocates nothing. Visible also from libraries that are compiled with
 * -fvisibility=hidden, so that programs catch what these throw. */
class ACRE_API error {
  public:
    /* `detail`: by default the calling thread's last one. */
    explicit error(acre_status status, const char *detail = nullptr) noexcept : status_(status) {
        std::snprintf(text_, sizeof text_, "%s: %s", acre_status_name(status),
                      detail ? detail : acre_last_detail());
    }
    virtual ~error() = default;

    acre_status status() const noexcept {
        return status_;
    }
    /* One line: the status by name, then the detail. */
    virtual const char *what() const noexcept {
        return text_;
    }
    /* What the call requested, what went wrong, and the driver's error code if there is one. */
    const char *detail() const noexcept {
        return text_ + std::char_traits<char>::length(acre_status_name(status_)) + 2;
    }

  protected:
    error(const error &) = default;
    error &operator=(const error &) = default;

  private:
    acre_status status_;
    char text_[768];
};

/* A call failed for any other reason than memory. */
class ACRE_API call_error final : public std::exception, public error {
  public:
    explicit call_error(acre_status status, const char *detail = nullptr) noexcept
        : error(status, detail) {
    }
    const char *what() const noexcept override {
        return error::what();
    }
};

/* Memory or addresses ran out, or a limit was reached. */
class ACRE_API out_of_memory final : public std::bad_alloc, public error {
  public:
    explicit out_of_memory(acre_status status, const char *detail = nullptr) noexcept
        : error(status, detail) {
    }
    const char *what() const noexcept override {
        return error::what();
    }
    /* The report of the request that failed (acre_oom_report): who holds the memory, and what would
     * help. Allocations from pools write reports; for other calls it is empty.
     * Call it in the thread that caught the exception, before another allocation fails there. */
    std::string report(acre_oom_format format = ACRE_OOM_TEXT) const {
        size_t needed = 0;
        if (!has_report() || acre_oom_report(format, nullptr, 0, &needed) != ACRE_OK)
            return {};
        std::string text(needed, '\0');
        acre_oom_report(format, text.data(), text.size(), &needed);
        text.resize(std::char_traits<char>::length(text.c_str()));
        return text;
    }

  private:
    /* True if the call wrote a report. A detail begins with the name of the call that failed. Other
     * calls, of pools too (acre_pool_reserve), leave the report of an earlier request. */
    bool has_report() const noexcept {
        for (const char *name :
             {"acre_pool_alloc:", "acre_pool_alloc_zeroed:", "acre_pool_alloc_many:",
              "acre_pool_realloc:", "acre_alloc:", "acre_plan_alloc:"}) {
            if (std::strncmp(detail(), name, std::strlen(name)) == 0)
                return true;
        }
        return false;
    }
};

/* True for the statuses that throw acre::out_of_memory. */
constexpr bool is_out_of_memory(acre_status status) noexcept {
    return status == ACRE_E_HOST_MEMORY || status == ACRE_E_DEVICE_MEMORY ||
           status == ACRE_E_ADDRESS_SPACE || status == ACRE_E_LIMIT;
}

/* Throws the exception for a failed status. Its text is `detail`, or the thread's last one. Not
 * inlined: a call that succeeds executes a comparison more than the C call, and no caller grows by
 * the exception's construction. */
[[noreturn, gnu::noinline, gnu::cold]] inline void throw_error(acre_status status,
                                                               const char *detail = nullptr) {
#if defined(__cpp_exceptions)
    if (acre::is_out_of_memory(status))
        throw out_of_memory(status, detail);
    throw call_error(status, detail);
#else
    std::fprintf(stderr, "%s: %s\n", acre_status_name(status),
                 detail ? detail : acre_last_detail());
    std::abort();
#endif
}

/* Throws if a call of the C API failed: acre::check(acre_trim(device)). */
inline void check(acre_status status) {
    if (__builtin_expect(status != ACRE_OK, 0))
        acre::throw_error(status);
}

/* A value, or the status of the call that failed. Read the status's detail with acre_last_detail,
 * before the thread's next call into acre. */
template <class T> class [[nodiscard]] result {
  public:
    result(T value) : value_(std::move(value)), status_(ACRE_OK) {
    }
    result(acre_status failure) noexcept : value_(), status_(failure) {
        assert(failure != ACRE_OK);
    }

    /* True if the call succeeded. A result<bool> that has the value false is true here, too. */
    bool has_value() const noexcept {
        return status_ == ACRE_OK;
    }
    explicit operator bool() const noexcept {
        return has_value();
    }
    acre_status status() const noexcept {
        return status_;
    }

    /* The value. Throws the error if there is none, with the thread's last detail as its text: call
     * it before the thread's next call into acre. */
    T &value() & {
        acre::check(status_);
        return *value_;
    }
    const T &value() const & {
        acre::check(status_);
        return *value_;
    }
    T value() && {
        acre::check(status_);
        return std::move(*value_);
    }
    /* The value, which must exist. */
    T &operator*() &noexcept {
        return *value_;
    }
    const T &operator*() const &noexcept {
        return *value_;
    }
    T &&operator*() &&noexcept {
        return std::move(*value_);
    }
    T *operator->() noexcept {
        return &*value_;
    }
    const T *operator->() const noexcept {
        return &*value_;
    }
    template <class U> T value_or(U &&other) const & {
        return has_value() ? *value_ : static_cast<T>(std::forward<U>(other));
    }
    template <class U> T value_or(U &&other) && {
        return has_value() ? std::move(*value_) : static_cast<T>(std::forward<U>(other));
    }

  private:
    static_assert(!std::is_same_v<T, acre_status>, "a result holds a value or a status");
    std::optional<T> value_;
    acre_status status_;
};

/* The result of a call that returns nothing but its status. */
template <> class [[nodiscard]] result<void> {
  public:
    result(acre_status status) noexcept : status_(status) {
    }
    bool has_value() const noexcept {
        return status_ == ACRE_OK;
    }
    explicit operator bool() const noexcept {
        return has_value();
    }
    acre_status status() const noexcept {
        return status_;
    }
    void value() const {
        acre::check(status_);
    }

  private:
    acre_status status_;
};

} // namespace ACRE__CPP_MODE
} // namespace acre

#endif
