/* A stream without work, for memory that is used at once, by any stream or by the host. For
 * memory_resource.hpp and pmr.hpp. */
#ifndef ACRE_CPP_IDLE_STREAM_HPP
#define ACRE_CPP_IDLE_STREAM_HPP

#include <atomic>
#include <cstddef>
#include <mutex>
#include <new>
#include <utility>

#include "pool.hpp"

namespace acre {
inline namespace ACRE__CPP_MODE {
namespace detail {

/* A stream that never has work of its own, created at its first use. Copies of a resource share it.
 * Nothing that runs on the device delays it, except a wait that a pool inserts. */
class idle_stream {
  public:
    explicit idle_stream(device_ref device) noexcept : device_(device) {
    }
    idle_stream(const idle_stream &) = delete;
    idle_stream &operator=(const idle_stream &) = delete;
    /* After the last close of the device the stream no longer exists. If the device was opened
     * again, another stream may have its handle, but not its id. */
    ~idle_stream() {
        acre_stream stream = stream_.load(std::memory_order_relaxed);
        uint64_t id = 0;
        if (stream && acre_stream_get_id(device_.get(), stream, &id) == ACRE_OK && id == id_)
            acre_stream_destroy(device_.get(), stream);
    }

    device_ref device() const noexcept {
        return device_;
    }
    result<acre_stream> get() noexcept {
        acre_stream stream = stream_.load(std::memory_order_acquire);
        return stream ? result<acre_stream>(stream) : create();
    }

  private:
    result<acre_stream> create() noexcept {
        std::lock_guard<std::mutex> lock(mutex_);
        acre_stream stream = stream_.load(std::memory_order_relaxed);
        if (stream)
            return stream;
        acre_status status = acre_stream_create(
            device_.get(), ACRE_STREAM_NON_BLOCKING | ACRE_STREAM_NO_CAPTURE, &stream);
        if (status != ACRE_OK)
            return status;
        status = acre_stream_get_id(device_.get(), stream, &id_);
        if (status != ACRE_OK) {
            acre_stream_destroy(device_.get(), stream);
            return status;
        }
        stream_.store(stream, std::memory_order_release);
        return stream;
    }

    device_ref device_;
    std::mutex mutex_;
    std::atomic<acre_stream> stream_{nullptr};
    uint64_t id_ = 0; /* of stream_ */
};

/* An idle stream with several owners: a std::shared_ptr whose creation need not throw. Never
 * empty. */
class shared_idle_stream {
  public:
    static result<shared_idle_stream> try_create(device_ref device) noexcept {
        counted *made = new (std::nothrow) counted(device);
        if (!made)
            return ACRE_E_HOST_MEMORY;
        return shared_idle_stream(made);
    }
    static shared_idle_stream create(device_ref device) {
        result<shared_idle_stream> made = try_create(device);
        if (!made)
            acre::throw_error(made.status(), "acre: no host memory for a resource");
        return *made;
    }
    shared_idle_stream(const shared_idle_stream &other) noexcept : counted_(other.counted_) {
        counted_->owners.fetch_add(1, std::memory_order_relaxed);
    }
    shared_idle_stream &operator=(const shared_idle_stream &other) noexcept {
        shared_idle_stream copy(other);
        std::swap(counted_, copy.counted_);
        return *this;
    }
    ~shared_idle_stream() {
        if (counted_->owners.fetch_sub(1, std::memory_order_acq_rel) == 1)
            delete counted_;
    }
    idle_stream &operator*() const noexcept {
        return counted_->stream;
    }
    idle_stream *operator->() const noexcept {
        return &counted_->stream;
    }

  private:
    struct counted {
        explicit counted(device_ref device) noexcept : stream(device) {
        }
        idle_stream stream;
        std::atomic<size_t> owners{1};
    };
    explicit shared_idle_stream(counted *made) noexcept : counted_(made) {
    }
    counted *counted_;
};

/* Every block has an alignment of 256. Pools serve the alignments 0 and 256 fastest, but containers
 * ask for that of their elements. */
constexpr size_t pool_alignment(size_t alignment) noexcept {
    return alignment <= 256 && (alignment & (alignment - 1)) == 0 ? 0 : alignment;
}

/* Allocates a block that nothing queued still uses. The pool may give the idle stream memory of
 * another one behind a wait, if memory is short; so the call waits for the idle stream. */
inline void *allocate_idle(pool_ref pool, idle_stream &idle, size_t bytes, size_t alignment) {
    acre_stream stream = idle.get().value();
    void *p = pool.allocate(bytes, stream, pool_alignment(alignment));
    acre_status status = acre_stream_sync(idle.device().get(), stream);
    if (__builtin_expect(status != ACRE_OK, 0)) {
        call_error failure(status); /* its text is that of the sync, not of the free */
        acre_pool_free(pool.get(), p, stream);
        acre::throw_error(status, failure.detail());
    }
    return p;
}
/* Frees a block that nothing queued still uses: any stream may have it at once. */
inline void free_idle(pool_ref pool, idle_stream &idle, void *p) noexcept {
    result<acre_stream> stream = idle.get();
    /* Without the idle stream the legacy stream is correct, too: it only delays the reuse. */
    free_block(pool, p, stream ? *stream : nullptr);
}

} // namespace detail
} // namespace ACRE__CPP_MODE
} // namespace acre

#endif
