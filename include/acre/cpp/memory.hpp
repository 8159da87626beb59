/* Single allocations of every kind of memory as C++ objects. Part of acre.hpp. */
#ifndef ACRE_CPP_MEMORY_HPP
#define ACRE_CPP_MEMORY_HPP

#include "../mem.h"
#include "device.hpp"

namespace acre {
inline namespace ACRE__CPP_MODE {

/* Describes the memory at an address (acre_mem_query). Any address is safe. */
inline result<acre_mem_info> try_query_memory(device_ref device, const void *p) noexcept {
    acre_mem_info info = {};
    info.struct_size = sizeof info;
    acre_status status = acre_mem_query(device.get(), p, &info);
    if (status != ACRE_OK)
        return status;
    return info;
}
inline acre_mem_info query_memory(device_ref device, const void *p) {
    return try_query_memory(device, p).value();
}

namespace detail {
struct free_memory {
    void operator()(device_ref device, void *p, size_t) const noexcept {
        acre_mem_free(device.get(), p);
    }
};
} // namespace detail

/* A block of one kind of memory, freed with the object. The free waits for all work queued on the
 * device, as cudaFree does; pools and device_buffer free in stream order instead. */
class memory : public detail::sized_owner<void *, detail::free_memory> {
  public:
    memory() noexcept = default;
    /* `flags`: ACRE_MEM_*. */
    memory(device_ref device, acre_kind kind, size_t bytes, uint32_t flags = 0)
        : memory(try_create(device, kind, bytes, flags).value()) {
    }
    static result<memory> try_create(device_ref device, acre_kind kind, size_t bytes,
                                     uint32_t flags = 0) noexcept {
        void *p = nullptr;
        acre_status status = acre_mem_alloc(device.get(), kind, bytes, flags, &p);
        if (status != ACRE_OK)
            return status;
        return memory(device, p, bytes);
    }
    /* Takes over a block of acre_mem_alloc, which the destructor frees. */
    static memory adopt(device_ref device, void *p, size_t bytes) noexcept {
        return memory(device, p, bytes);
    }

    void *data() const noexcept {
        return handle_;
    }
    /* Resizes device memory and keeps its contents (acre_mem_realloc). The address may change.
     * After a failure the block is unchanged. */
    void resize(size_t bytes, stream_ref stream) {
        acre::check(try_resize(bytes, stream).status());
    }
    result<void> try_resize(size_t bytes, stream_ref stream) noexcept {
        void *moved = nullptr;
        acre_status status = acre_mem_realloc(device_.get(), handle_, bytes, stream.get(), &moved);
        if (status != ACRE_OK)
            return status;
        handle_ = moved;
        bytes_ = bytes;
        return ACRE_OK;
    }
    /* Gives another device access, or takes it away (acre_mem_set_access). */
    void set_access(device_ref peer, acre_access access) const {
        acre::check(try_set_access(peer, access).status());
    }
    result<void> try_set_access(device_ref peer, acre_access access) const noexcept {
        return acre_mem_set_access(device_.get(), handle_, peer.get(), access);
    }
    /* The address at which kernels access the memory (acre_mem_device_pointer). */
    void *device_pointer() const {
        return try_device_pointer().value();
    }
    result<void *> try_device_pointer() const noexcept {
        void *p = nullptr;
        acre_status status = acre_mem_device_pointer(device_.get(), handle_, &p);
        if (status != ACRE_OK)
            return status;
        return p;
    }
    /* Moves managed memory to a place before its use, in stream order (acre_mem_prefetch). */
    void prefetch(uint32_t place, stream_ref stream) const {
        acre::check(try_prefetch(place, stream).status());
    }
    result<void> try_prefetch(uint32_t place, stream_ref stream) const noexcept {
        return acre_mem_prefetch(device_.get(), handle_, bytes_, place, stream.get());
    }
    /* Advises how managed memory will be used (acre_mem_advise). */
    void advise(acre_advice advice, uint32_t place) const {
        acre::check(try_advise(advice, place).status());
    }
    result<void> try_advise(acre_advice advice, uint32_t place) const noexcept {
        return acre_mem_advise(device_.get(), handle_, bytes_, advice, place);
    }
    /* Sets who may use managed memory from now on, in stream order: ACRE_ATTACH_*
     * (acre_mem_attach). */
    void attach(uint32_t attach, stream_ref stream) const {
        acre::check(try_attach(attach, stream).status());
    }
    result<void> try_attach(uint32_t attach, stream_ref stream) const noexcept {
        return acre_mem_attach(device_.get(), handle_, attach, stream.get());
    }

  private:
    memory(device_ref device, void *p, size_t bytes) noexcept : sized_owner(device, p, bytes) {
    }
};

/* Page-locks memory of the program until the object is destroyed (acre_mem_register). */
class [[nodiscard]] registration {
  public:
    registration(device_ref device, void *p, size_t bytes, uint32_t flags = 0)
        : registration(try_create(device, p, bytes, flags).value()) {
    }
    static result<registration> try_create(device_ref device, void *p, size_t bytes,
                                           uint32_t flags = 0) noexcept {
        acre_status status = acre_mem_register(device.get(), p, bytes, flags);
        if (status != ACRE_OK)
            return status;
        return registration(device, p);
    }
    registration(registration &&other) noexcept
        : device_(other.device_), p_(std::exchange(other.p_, nullptr)) {
    }
    registration(const registration &) = delete;
    registration &operator=(const registration &) = delete;
    ~registration() {
        if (p_)
            acre_mem_unregister(device_.get(), p_);
    }

  private:
    registration(device_ref device, void *p) noexcept : device_(device), p_(p) {
    }
    device_ref device_;
    void *p_;
};

} // namespace ACRE__CPP_MODE
} // namespace acre

#endif
