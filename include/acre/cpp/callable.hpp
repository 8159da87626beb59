/* C++ callables as callbacks of the C API. Part of acre.hpp.
 *
 * No exception may cross the C code that calls the function, which may hold a lock. So the function
 * that C calls catches every exception, ends the walk, and the exception is thrown again after the
 * C call has returned. */
#ifndef ACRE_CPP_CALLABLE_HPP
#define ACRE_CPP_CALLABLE_HPP

#include <exception>
#include <type_traits>
#include <utility>

#include "error.hpp"

namespace acre {
inline namespace ACRE__CPP_MODE {
namespace detail {

/* Calls a function that returns nothing or a bool. True: go on. */
template <class F, class... Args> bool goes_on(F &fn, Args... args) {
    using answer = decltype(fn(args...));
    static_assert(std::is_void_v<answer> || std::is_same_v<answer, bool>,
                  "the function returns nothing, or a bool that is false to end the walk");
    if constexpr (std::is_void_v<answer>) {
        fn(args...);
        return true;
    } else {
        return fn(args...);
    }
}

/* What a walk's `user` points to. */
template <class F, class... Args> struct walker {
    F &fn;
    std::exception_ptr thrown;

    static int call(void *user, Args... args) noexcept {
        walker *self = static_cast<walker *>(user);
#if defined(__cpp_exceptions)
        try {
            return goes_on(self->fn, args...) ? 0 : 1;
        } catch (...) {
            self->thrown = std::current_exception();
            return 1;
        }
#else
        return goes_on(self->fn, args...) ? 0 : 1;
#endif
    }
};

/* Runs walk_c(int (*)(void *, Args...), void *), whose callback calls `fn`. Throws what `fn`
 * throws; otherwise returns the status. */
template <class... Args, class F, class Walk> result<void> walk(F &fn, Walk walk_c) {
    using with = walker<F, Args...>;
    with self = {fn, nullptr};
    acre_status status = walk_c(&with::call, &self);
#if defined(__cpp_exceptions)
    if (self.thrown)
        std::rethrow_exception(self.thrown);
#endif
    return status;
}

} // namespace detail
} // namespace ACRE__CPP_MODE
} // namespace acre

#endif
