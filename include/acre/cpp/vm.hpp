/* Virtual memory by hand as C++ objects. Part of acre.hpp. */
#ifndef ACRE_CPP_VM_HPP
#define ACRE_CPP_VM_HPP

#include "../vm.h"
#include "device.hpp"

namespace acre {
inline namespace ACRE__CPP_MODE {

/* Sizes of chunks and addresses of mappings are multiples of `minimum`. */
struct vm_granularity {
    size_t minimum, recommended;
};
/* `flags`: ACRE_VM_*. */
inline result<vm_granularity> try_get_vm_granularity(device_ref device,
                                                     uint32_t flags = 0) noexcept {
    vm_granularity found = {};
    acre_status status =
        acre_vm_granularity(device.get(), flags, &found.minimum, &found.recommended);
    if (status != ACRE_OK)
        return status;
    return found;
}
inline vm_granularity get_vm_granularity(device_ref device, uint32_t flags = 0) {
    return try_get_vm_granularity(device, flags).value();
}

namespace detail {
struct release_vm_chunk {
    void operator()(device_ref device, acre_vm_chunk *chunk, size_t) const noexcept {
        acre_vm_release(device.get(), chunk);
    }
};
struct free_vm_addresses {
    void operator()(device_ref device, void *p, size_t) const noexcept {
        acre_vm_address_free(device.get(), p);
    }
};
/* Marks private constructors, so that no other arguments fit them. */
struct adopted {};
struct unmap_vm {
    void operator()(device_ref device, void *p, size_t bytes) const noexcept {
        acre_vm_unmap_sync(device.get(), p, bytes);
    }
};
} // namespace detail

/* Physical memory without an address. Mappings keep the memory after its chunk is gone. */
class vm_chunk : public detail::sized_owner<acre_vm_chunk *, detail::release_vm_chunk> {
  public:
    vm_chunk() noexcept = default;
    /* `bytes` is rounded up to the granularity. `flags`: ACRE_VM_*. */
    vm_chunk(device_ref device, size_t bytes, uint32_t flags = 0)
        : vm_chunk(try_create(device, bytes, flags).value()) {
    }
    static result<vm_chunk> try_create(device_ref device, size_t bytes,
                                       uint32_t flags = 0) noexcept {
        acre_vm_chunk *handle = nullptr;
        size_t real = 0;
        acre_status status = acre_vm_create(device.get(), bytes, flags, &handle, &real);
        if (status != ACRE_OK)
            return status;
        return vm_chunk(detail::adopted(), device, handle, real);
    }
    /* The memory behind a descriptor that another process exported; `bytes` is its size there. The
     * caller still owns the descriptor. */
    static vm_chunk import_fd(device_ref device, int fd, size_t bytes) {
        return try_import_fd(device, fd, bytes).value();
    }
    static result<vm_chunk> try_import_fd(device_ref device, int fd, size_t bytes) noexcept {
        acre_vm_chunk *handle = nullptr;
        acre_status status = acre_vm_import(device.get(), fd, bytes, &handle);
        if (status != ACRE_OK)
            return status;
        return vm_chunk(detail::adopted(), device, handle, bytes);
    }
    acre_vm_chunk *get() const noexcept {
        return handle_;
    }
    /* A descriptor of the memory, which the caller closes. Needs ACRE_VM_SHAREABLE. */
    int export_fd() const {
        return try_export_fd().value();
    }
    result<int> try_export_fd() const noexcept {
        int fd = -1;
        acre_status status = acre_vm_export(device_.get(), handle_, &fd);
        if (status != ACRE_OK)
            return status;
        return fd;
    }

  private:
    vm_chunk(detail::adopted, device_ref device, acre_vm_chunk *handle, size_t bytes) noexcept
        : sized_owner(device, handle, bytes) {
    }
};

/* Addresses without memory. Declare them before their mappings: while something is mapped there,
 * they are not freed before the device closes. */
class vm_addresses : public detail::sized_owner<void *, detail::free_vm_addresses> {
  public:
    vm_addresses() noexcept = default;
    /* `bytes` is rounded up to the granularity; `alignment` is 0 or a power of two. */
    vm_addresses(device_ref device, size_t bytes, size_t alignment = 0, void *hint = nullptr)
        : vm_addresses(try_reserve(device, bytes, alignment, hint).value()) {
    }
    static result<vm_addresses> try_reserve(device_ref device, size_t bytes, size_t alignment = 0,
                                            void *hint = nullptr) noexcept {
        void *address = nullptr;
        size_t real = 0;
        acre_status status = acre_vm_reserve(device.get(), bytes, alignment, hint, &address, &real);
        if (status != ACRE_OK)
            return status;
        return vm_addresses(detail::adopted(), device, address, real);
    }
    void *data() const noexcept {
        return handle_;
    }

  private:
    vm_addresses(detail::adopted, device_ref device, void *address, size_t bytes) noexcept
        : sized_owner(device, address, bytes) {
    }
};

/* A chunk at addresses. Nobody has access before set_access. The destructor unmaps it, after a wait
 * for all work of the device, and of devices with access to its memory. */
class [[nodiscard]] vm_mapping : public detail::sized_owner<void *, detail::unmap_vm> {
  public:
    vm_mapping() noexcept = default;
    /* Maps the whole chunk `offset` bytes after the first address. */
    [[nodiscard]] vm_mapping(const vm_addresses &addresses, size_t offset, const vm_chunk &chunk)
        : vm_mapping(try_map(addresses, offset, chunk).value()) {
    }
    static result<vm_mapping> try_map(const vm_addresses &addresses, size_t offset,
                                      const vm_chunk &chunk) noexcept {
        void *address =
            reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(addresses.data()) + offset);
        device_ref device = addresses.device();
        acre_status status = acre_vm_map(device.get(), address, chunk.get());
        if (status != ACRE_OK)
            return status;
        return vm_mapping(device, address, chunk.size());
    }
    void *data() const noexcept {
        return handle_;
    }
    /* Gives a device, or the host (device_ref()), access, or takes it away. */
    void set_access(device_ref peer, acre_access access) const {
        acre::check(try_set_access(peer, access).status());
    }
    result<void> try_set_access(device_ref peer, acre_access access) const noexcept {
        return acre_vm_set_access(device_.get(), handle_, bytes_, peer.get(), access);
    }
    acre_access get_access(device_ref peer) const {
        return try_get_access(peer).value();
    }
    result<acre_access> try_get_access(device_ref peer) const noexcept {
        acre_access access = ACRE_ACCESS_NONE;
        acre_status status = acre_vm_get_access(device_.get(), handle_, peer.get(), &access);
        if (status != ACRE_OK)
            return status;
        return access;
    }

  private:
    vm_mapping(device_ref device, void *address, size_t bytes) noexcept
        : sized_owner(device, address, bytes) {
    }
};

} // namespace ACRE__CPP_MODE
} // namespace acre

#endif
