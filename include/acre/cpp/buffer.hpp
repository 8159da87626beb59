/* Untyped memory of a pool in stream order, as a container. Part of acre.hpp. */
#ifndef ACRE_CPP_BUFFER_HPP
#define ACRE_CPP_BUFFER_HPP

#include <utility>

#include "pool.hpp"

namespace acre {
inline namespace ACRE__CPP_MODE {

/* A block of a pool that knows its size and its stream. Allocation, copies and the free of the
 * destructor are in the order of that stream. A buffer can be moved; copying it is a constructor
 * with a stream, since it queues work.
 *
 * Work of other streams on the buffer must be waited for by stream(), or recorded with record_use.
 * set_stream records the work of the stream before. */
class device_buffer {
  public:
    /* An empty buffer without a pool, to be assigned to. */
    device_buffer() noexcept : pool_(), stream_() {
    }
    /* `bytes` with undefined contents. */
    device_buffer(pool_ref pool, size_t bytes, stream_ref stream)
        : device_buffer(try_create(pool, bytes, stream).value()) {
    }
    /* `bytes` in the device's default pool. */
    device_buffer(device_ref device, size_t bytes, stream_ref stream)
        : device_buffer(pool_ref::default_of(device), bytes, stream) {
    }
    /* A copy of `bytes` of any memory, in stream order; acre_copy says when the source may change.
     */
    device_buffer(pool_ref pool, const void *from, size_t bytes, stream_ref stream)
        : device_buffer(try_copy_of(pool, from, bytes, stream).value()) {
    }
    device_buffer(device_ref device, const void *from, size_t bytes, stream_ref stream)
        : device_buffer(pool_ref::default_of(device), from, bytes, stream) {
    }
    /* A copy of another buffer, in its pool. `stream` must wait for work that writes `other`. */
    device_buffer(const device_buffer &other, stream_ref stream)
        : device_buffer(try_copy_of(other, stream).value()) {
    }
    static result<device_buffer> try_create(pool_ref pool, size_t bytes,
                                            stream_ref stream) noexcept {
        void *p;
        acre_status status = acre_pool_alloc(pool.get(), bytes, 0, stream.get(), &p);
        if (status != ACRE_OK)
            return status;
        return device_buffer(pool, p, bytes, stream, 0);
    }
    static result<device_buffer> try_copy_of(pool_ref pool, const void *from, size_t bytes,
                                             stream_ref stream) noexcept {
        result<acre_pool_info> info = pool.try_info();
        if (!info)
            return info.status();
        result<device_buffer> made = try_create(pool, bytes, stream);
        if (!made || !bytes)
            return made;
        acre_status status = acre_copy(info->device, made->data(), from, bytes, stream.get());
        if (status != ACRE_OK)
            return status;
        return made;
    }
    static result<device_buffer> try_copy_of(const device_buffer &other,
                                             stream_ref stream) noexcept {
        if (!other.pool_.get())
            return device_buffer();
        result<device_buffer> made = try_copy_of(other.pool_, other.p_, other.size_, stream);
        if (made && other.p_ && stream != other.stream_) {
            acre_status status = acre_pool_record_use(other.pool_.get(), other.p_, stream.get());
            if (status != ACRE_OK)
                return status;
        }
        return made;
    }
    device_buffer(device_buffer &&other) noexcept
        : pool_(other.pool_), stream_(other.stream_), p_(std::exchange(other.p_, nullptr)),
          size_(std::exchange(other.size_, size_t(0))),
          capacity_(std::exchange(other.capacity_, size_t(0))) {
    }
    device_buffer &operator=(device_buffer &&other) noexcept {
        device_buffer moved(std::move(other));
        swap(moved);
        return *this;
    }
    device_buffer(const device_buffer &) = delete;
    device_buffer &operator=(const device_buffer &) = delete;
    ~device_buffer() {
        reset();
    }

    void *data() noexcept {
        return p_;
    }
    const void *data() const noexcept {
        return p_;
    }
    size_t size() const noexcept {
        return size_;
    }
    bool empty() const noexcept {
        return size_ == 0;
    }
    /* The bytes that the buffer can have without a new allocation. */
    size_t capacity() const noexcept {
        return capacity_;
    }
    pool_ref pool() const noexcept {
        return pool_;
    }
    stream_ref stream() const noexcept {
        return stream_;
    }

    /* Changes the stream of all later operations. Work that the stream before has queued so far may
     * use the buffer: the pool does not reuse the memory before that work is done. New work of
     * `stream` must wait for it, with an event. If the stream before was destroyed without acre,
     * waits for all work of the device. */
    void set_stream(stream_ref stream) {
        acre::check(try_set_stream(stream).status());
    }
    result<void> try_set_stream(stream_ref stream) noexcept {
        if (p_ && stream != stream_) {
            acre_status status = acre_pool_record_use(pool_.get(), p_, stream_.get());
            if (status == ACRE_E_HANDLE)
                status = detail::wait_for_all_work(pool_);
            if (status != ACRE_OK)
                return status;
        }
        stream_ = stream;
        return ACRE_OK;
    }
    /* Records that work queued on another stream so far uses the buffer. */
    void record_use(stream_ref stream) const {
        acre::check(try_record_use(stream).status());
    }
    result<void> try_record_use(stream_ref stream) const noexcept {
        if (!p_)
            return ACRE_OK;
        return acre_pool_record_use(pool_.get(), p_, stream.get());
    }
    /* Sets the size and keeps the contents up to the smaller one. Up to the capacity it only sets
     * the size. Otherwise the address may change, and the contents are copied in stream order.
     * After a failure the buffer is unchanged. */
    void resize(size_t bytes) {
        acre::check(try_resize(bytes).status());
    }
    result<void> try_resize(size_t bytes) noexcept {
        result<void> reserved = try_reserve(bytes);
        if (reserved)
            size_ = bytes;
        return reserved;
    }
    /* Makes the capacity at least `bytes`. Otherwise like resize. */
    void reserve(size_t bytes) {
        acre::check(try_reserve(bytes).status());
    }
    result<void> try_reserve(size_t bytes) noexcept {
        return bytes <= capacity_ ? result<void>(ACRE_OK) : reallocate(bytes);
    }
    /* Makes the capacity equal to the size. */
    void shrink_to_fit() {
        acre::check(try_shrink_to_fit().status());
    }
    result<void> try_shrink_to_fit() noexcept {
        return capacity_ == size_ ? result<void>(ACRE_OK) : reallocate(size_);
    }
    /* Frees the block now, in stream order. If the stream was destroyed without acre, waits for all
     * work of the device. */
    void reset() noexcept {
        if (p_)
            detail::free_block(pool_, std::exchange(p_, nullptr), stream_);
        size_ = capacity_ = 0;
    }
    /* Gives up ownership: the caller frees the block with the pool. */
    void *release() noexcept {
        size_ = capacity_ = 0;
        return std::exchange(p_, nullptr);
    }
    void swap(device_buffer &other) noexcept {
        std::swap(pool_, other.pool_);
        std::swap(stream_, other.stream_);
        std::swap(p_, other.p_);
        std::swap(size_, other.size_);
        std::swap(capacity_, other.capacity_);
    }

  private:
    device_buffer(pool_ref pool, void *p, size_t bytes, stream_ref stream, int) noexcept
        : pool_(pool), stream_(stream), p_(p), size_(bytes), capacity_(bytes) {
    }
    result<void> reallocate(size_t bytes) noexcept {
        void *moved;
        acre_status status = acre_pool_realloc(pool_.get(), p_, bytes, stream_.get(), &moved);
        if (status != ACRE_OK)
            return status;
        p_ = moved;
        capacity_ = bytes;
        return ACRE_OK;
    }

    pool_ref pool_;
    stream_ref stream_;
    void *p_ = nullptr;
    size_t size_ = 0, capacity_ = 0;
};

} // namespace ACRE__CPP_MODE
} // namespace acre

#endif
