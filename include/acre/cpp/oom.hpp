/* A C++ callable as a pool's out-of-memory callback. Part of acre.hpp. */
#ifndef ACRE_CPP_OOM_HPP
#define ACRE_CPP_OOM_HPP

#include <exception>
#include <mutex>
#include <utility>

#include "pool.hpp"

namespace acre {
inline namespace ACRE__CPP_MODE {

/* Sets fn(uint64_t wanted_bytes, uint32_t attempt) -> bool as the callback of a pool
 * (acre_pool_oom_fn), until the object is destroyed:
 *
 *   acre::oom_callback shrink(pool, [&](uint64_t, uint32_t) {
 *       std::lock_guard<std::mutex> lock(cache_mutex);
 *       return cache.drop_oldest();
 *   });
 *
 * The function runs in the thread whose request found no memory, so several threads may run it at
 * the same time: protect what it shares by a lock. A thread that holds this lock must not allocate
 * from the pool: the function would wait for its own thread.
 *
 * A pool has one callback: the object replaces that of the pool, and leaves the pool without one.
 * The function returns true if it freed memory, and may free and trim anything. If it throws, the
 * request fails as if it had returned false, and `take_exception` returns the exception. Destroy
 * the object while no other thread allocates from the pool. It cannot be moved: the pool has its
 * address. */
template <class F> class oom_callback {
  public:
    [[nodiscard]] oom_callback(pool_ref pool, F fn) : pool_(pool), fn_(std::move(fn)) {
        acre::check(acre_pool_set_callback(pool_.get(), call, this));
    }
    oom_callback(const oom_callback &) = delete;
    oom_callback &operator=(const oom_callback &) = delete;
    ~oom_callback() {
        acre_pool_set_callback(pool_.get(), nullptr, nullptr);
    }

    /* The first exception that the function threw since the last call, or null. */
    std::exception_ptr take_exception() {
        std::lock_guard<std::mutex> guard(lock_);
        return std::exchange(thrown_, nullptr);
    }

  private:
    static int call(void *user, acre_pool *, uint64_t wanted_bytes, uint32_t attempt) noexcept {
        oom_callback *self = static_cast<oom_callback *>(user);
#if defined(__cpp_exceptions)
        try {
            return self->fn_(wanted_bytes, attempt) ? 1 : 0;
        } catch (...) {
            std::lock_guard<std::mutex> guard(self->lock_);
            if (!self->thrown_)
                self->thrown_ = std::current_exception();
            return 0;
        }
#else
        return self->fn_(wanted_bytes, attempt) ? 1 : 0;
#endif
    }

    pool_ref pool_;
    F fn_;
    std::mutex lock_;
    std::exception_ptr thrown_;
};

} // namespace ACRE__CPP_MODE
} // namespace acre

#endif
