/* Explicit virtual memory management: the driver's steps (space/steps.h), checked against records
 * of what the program has reserved, created and mapped. The checks report misuse with a specific
 * status before the driver sees it.
 *
 * A chunk's record is freed with its handle. The driver keeps the memory while it is mapped, and a
 * mapping's record does not refer to the chunk's. Handles are looked up, never dereferenced. A
 * record is allocated before the step that it describes, so a step that the driver has taken always
 * gets its record. A step that the driver refused has changed nothing.
 *
 * One lock guards the records of all devices. It is held during steps on objects that have a
 * record, so that the records agree with the driver; create, import and reserve run without it. No
 * step waits for queued work with the lock held. On a lost device, functions that release only
 * update the records. */
#include <stdint.h>
#include <stdlib.h>

#include "base/lock.h"
#include "base/log.h"
#include "base/round.h"
#include "base/status.h"
#include "base/tree.h"
#include "device/device.h"
#include "space/mapped.h"
#include "space/steps.h"

_Static_assert(ACRE_VM_HOST == ACRE__CHUNK_HOST && ACRE_VM_SHAREABLE == ACRE__CHUNK_SHAREABLE &&
                   ACRE_VM_RDMA == ACRE__CHUNK_RDMA,
               "public flags are those of the steps");
_Static_assert((int)ACRE_ACCESS_NONE == (int)CU_MEM_ACCESS_FLAGS_PROT_NONE &&
                   (int)ACRE_ACCESS_READ == (int)CU_MEM_ACCESS_FLAGS_PROT_READ &&
                   (int)ACRE_ACCESS_READ_WRITE == (int)CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
               "public access is the driver's");

/* A reservation, a mapping, or the record of a chunk. */
struct vm_part {
    struct acre__node node; /* key: first address; for a chunk, the address of its record */
    acre_device *dev;
    size_t bytes;
    int is_host;             /* host memory */
    acre_access host_access; /* of a mapping */
};

struct acre_vm_chunk {
    struct vm_part part; /* must be first: its address is the handle */
    CUmemGenericAllocationHandle handle;
    size_t unit; /* its mappings begin at multiples of this */
    int is_shareable;
};

static struct {
    struct acre__lock lock;
    struct acre__tree chunks;
    struct acre__tree reserved; /* no two overlap */
    struct acre__tree mapped;   /* no two overlap, each entirely inside one reservation */
} vm = {.lock = ACRE__LOCK_INIT("vm", ACRE__RANK_VM)};

/* ---- lookups (lock held) ---- */

/* Looks up the chunk of a handle; it must belong to the device. */
static acre_vm_chunk *vm_chunk(acre_device *dev, const acre_vm_chunk *handle, const char *what,
                               acre_status *status) {
    acre_vm_chunk *chunk =
        acre__tree_entry(acre__tree_find(&vm.chunks, (uintptr_t)handle), acre_vm_chunk, part.node);
    *status = ACRE_OK;
    if (chunk && chunk->part.dev == dev)
        return chunk;
    *status = chunk ? acre__fail(ACRE_E_HANDLE, "%s: the chunk belongs to %s", what,
                                 chunk->part.dev->label)
                    : acre__fail(ACRE_E_HANDLE, "%s: %p is not a chunk, or was released", what,
                                 (const void *)handle);
    return NULL;
}

/* Returns the part that contains the address, or NULL. */
static struct vm_part *vm_part_at(const struct acre__tree *tree, uint64_t address) {
    struct vm_part *part = acre__tree_entry(acre__tree_floor(tree, address), struct vm_part, node);
    return part && address - part->node.key < part->bytes ? part : NULL;
}

/* 1 if a mapping overlaps these addresses. */
static int vm_is_mapped(uint64_t address, size_t bytes) {
    const struct acre__node *next = acre__tree_ceil(&vm.mapped, address);
    return vm_part_at(&vm.mapped, address) || (next && next->key - address < bytes);
}

/* Checks that the addresses are exactly those of whole, contiguous mappings of the device. */
static acre_status vm_cover(const acre_device *dev, uint64_t address, size_t bytes,
                            const char *what) {
    for (size_t done = 0; done < bytes;) {
        uint64_t at = address + done;
        const struct vm_part *part = vm_part_at(&vm.mapped, at);
        if (!part)
            return acre__fail(ACRE_E_POINTER, "%s: nothing is mapped at 0x%llx", what,
                              (unsigned long long)at);
        if (part->dev != dev)
            return acre__fail(ACRE_E_HANDLE, "%s: 0x%llx is mapped by %s", what,
                              (unsigned long long)at, part->dev->label);
        if (part->node.key != at || part->bytes > bytes - done)
            return acre__fail(ACRE_E_INTERIOR,
                              "%s: the range would split the mapping of %zu bytes at 0x%llx", what,
                              part->bytes, (unsigned long long)part->node.key);
        done += part->bytes;
    }
    return ACRE_OK;
}

static void vm_forget(struct acre__tree *tree, struct vm_part *part) {
    acre__tree_remove(tree, &part->node);
    free(part);
}

/* Removes the mappings of addresses that vm_cover has accepted. */
static void vm_forget_mapped(uint64_t address, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        struct vm_part *part = vm_part_at(&vm.mapped, address + done);
        done += part->bytes;
        vm_forget(&vm.mapped, part);
    }
}

/* ---- records ---- */

/* Allocates the record of an object that is about to be created; NULL and *status when out of
 * memory. */
static void *vm_record(size_t record_bytes, acre_device *dev, size_t bytes, const char *what,
                       acre_status *status) {
    struct vm_part *part = calloc(1, record_bytes);
    if (!part) {
        *status = acre__fail(ACRE_E_HOST_MEMORY, "%s: no memory for a record", what);
        return NULL;
    }
    part->dev = dev;
    part->bytes = bytes;
    return part;
}

/* Enters the record if the driver's step succeeded, and frees it otherwise. Returns `status`. */
static acre_status vm_enter_record(struct acre__tree *tree, struct vm_part *part,
                                   acre_status status) {
    if (status) {
        free(part);
        return status;
    }
    acre__lock_take(&vm.lock);
    acre__tree_insert(tree, &part->node);
    acre__lock_give(&vm.lock);
    return ACRE_OK;
}

/* ---- devices ---- */

static acre_status mapping_undo(acre_device *dev, const struct vm_part *part) {
    return acre__step_unmap(dev, part->node.key, part->bytes);
}

static acre_status reservation_undo(acre_device *dev, const struct vm_part *part) {
    return acre__step_address_free(dev, part->node.key, part->bytes);
}

static acre_status chunk_undo(acre_device *dev, const struct vm_part *part) {
    return acre__step_release(dev, ((const acre_vm_chunk *)part)->handle);
}

/* Releases the objects that the program did not, and returns their number. Each step is tried
 * twice, because nobody can retry it later. */
static unsigned long long vm_close_tree(acre_device *dev, struct acre__tree *tree,
                                        acre_status (*undo)(acre_device *, const struct vm_part *),
                                        unsigned long long *refused) {
    struct acre__node *next;
    unsigned long long count = 0;
    int is_lost = acre__device_is_lost(dev);
    for (struct acre__node *node = acre__tree_first(tree); node; node = next) {
        struct vm_part *part = acre__tree_entry(node, struct vm_part, node);
        next = acre__tree_next(tree, node);
        if (part->dev != dev)
            continue;
        if (!is_lost && undo(dev, part) && undo(dev, part))
            ++*refused;
        count++;
        vm_forget(tree, part);
    }
    return count;
}

static void vm_close(acre_device *dev) {
    unsigned long long refused = 0;
    acre__lock_take(&vm.lock);
    unsigned long long mapped = vm_close_tree(dev, &vm.mapped, mapping_undo, &refused);
    unsigned long long reserved = vm_close_tree(dev, &vm.reserved, reservation_undo, &refused);
    unsigned long long chunks = vm_close_tree(dev, &vm.chunks, chunk_undo, &refused);
    acre__lock_give(&vm.lock);
    if (chunks || reserved || mapped)
        acre__log(ACRE_LOG_WARN, "vm",
                  "%s: closed with %llu mappings, %llu reservations and %llu chunks not released; "
                  "the driver refused %llu of them",
                  dev->label, mapped, reserved, chunks, refused);
}

/* Entry checks of functions that need the driver. */
static acre_status vm_enter(acre_device *dev, const char *what) {
    static const struct acre__device_hooks hooks = {.close = vm_close};
    acre_status status = acre__device_enter(dev);
    if (status)
        return status;
    if (!dev->info.has_vmm)
        return acre__fail(ACRE_E_UNSUPPORTED, "%s: %s does not support virtual memory management",
                          what, dev->label);
    acre__device_hooks_add(&hooks);
    return ACRE_OK;
}

/* ---- sizes ---- */

static acre_status vm_check_flags(const acre_device *dev, uint32_t flags, const char *what) {
    if (flags & ~(ACRE_VM_HOST | ACRE_VM_SHAREABLE | ACRE_VM_RDMA))
        return acre__fail(ACRE_E_INVALID, "%s: unknown flags 0x%x", what,
                          flags & ~(ACRE_VM_HOST | ACRE_VM_SHAREABLE | ACRE_VM_RDMA));
    if (flags & ACRE_VM_HOST && !dev->info.has_host_vmm)
        return acre__fail(ACRE_E_UNSUPPORTED, "%s: %s does not support chunks of host memory", what,
                          dev->label);
    if (flags & ACRE_VM_SHAREABLE && !dev->info.has_fd_sharing)
        return acre__fail(ACRE_E_UNSUPPORTED, "%s: %s does not support shareable chunks", what,
                          dev->label);
    return ACRE_OK;
}

/* Rounds up to the granularity for these flags. */
static acre_status vm_round(acre_device *dev, uint32_t flags, const char *what, size_t *bytes,
                            size_t *unit) {
    if (!*bytes || *bytes > PTRDIFF_MAX)
        return acre__fail(ACRE_E_INVALID, "%s: invalid size: %zu bytes", what, *bytes);
    acre_status status = acre__step_granularity(dev, flags, 0, unit);
    if (status == ACRE_OK)
        *bytes = acre__round_up(*bytes, *unit);
    return status;
}

static acre_status vm_granularity(acre_device *device, uint32_t flags, size_t *minimum,
                                  size_t *recommended) {
    static const char what[] = "acre_vm_granularity";
    size_t least = 0, better = 0;
    if (minimum)
        *minimum = 0;
    if (recommended)
        *recommended = 0;
    acre_status status = vm_enter(device, what);
    if (status || (status = acre__not_null(minimum, "acre_vm_granularity: minimum")))
        return status;
    if ((status = vm_check_flags(device, flags, what)) ||
        (status = acre__step_granularity(device, flags, 0, &least)) ||
        (recommended && (status = acre__step_granularity(device, flags, 1, &better))))
        return status;
    *minimum = least;
    if (recommended)
        *recommended = better;
    return ACRE_OK;
}

acre_status acre_vm_granularity(acre_device *device, uint32_t flags, size_t *minimum,
                                size_t *recommended) {
    return acre__in_call(vm_granularity(device, flags, minimum, recommended),
                         "acre_vm_granularity");
}

/* ---- chunks ---- */

static acre_status vm_create(acre_device *device, size_t bytes, uint32_t flags,
                             acre_vm_chunk **chunk, size_t *real_bytes) {
    static const char what[] = "acre_vm_create";
    size_t unit = 0;
    uint32_t granted;
    if (chunk)
        *chunk = NULL;
    if (real_bytes)
        *real_bytes = 0;
    acre_status status = vm_enter(device, what);
    if (status || (status = acre__not_null(chunk, "acre_vm_create: chunk")))
        return status;
    if ((status = vm_check_flags(device, flags, what)) ||
        (status = vm_round(device, flags, what, &bytes, &unit)) ||
        (!(flags & ACRE_VM_HOST) && (status = acre__device_has_memory(device))))
        return status;
    acre_vm_chunk *made = vm_record(sizeof *made, device, bytes, what, &status);
    if (!made)
        return status;
    made->part.node.key = (uintptr_t)made;
    made->part.is_host = (flags & ACRE_VM_HOST) != 0;
    made->unit = unit;
    made->is_shareable = (flags & ACRE_VM_SHAREABLE) != 0;
    status = acre__step_create(device, bytes, flags, &made->handle, &granted);
    *chunk = status ? NULL : made;
    if (real_bytes)
        *real_bytes = status ? 0 : bytes;
    return vm_enter_record(&vm.chunks, &made->part, status);
}

acre_status acre_vm_create(acre_device *device, size_t bytes, uint32_t flags, acre_vm_chunk **chunk,
                           size_t *real_bytes) {
    uint64_t seen = acre__resumes();
    acre_status status;
    do
        status = vm_create(device, bytes, flags, chunk, real_bytes);
    while (acre__must_retry(status, &seen));
    return acre__in_call(status, "acre_vm_create");
}

static acre_status vm_export(acre_device *device, acre_vm_chunk *chunk, int *fd) {
    static const char what[] = "acre_vm_export";
    if (fd)
        *fd = -1;
    acre_status status = vm_enter(device, what);
    if (status || (status = acre__not_null(fd, "acre_vm_export: fd")))
        return status;
    acre__lock_take(&vm.lock);
    const acre_vm_chunk *found = vm_chunk(device, chunk, what, &status);
    if (found && !found->is_shareable)
        status =
            acre__fail(ACRE_E_KIND, "%s: the chunk was created without ACRE_VM_SHAREABLE", what);
    else if (found)
        status = acre__step_export(device, found->handle, fd);
    acre__lock_give(&vm.lock);
    return status;
}

acre_status acre_vm_export(acre_device *device, acre_vm_chunk *chunk, int *fd) {
    return acre__in_call(vm_export(device, chunk, fd), "acre_vm_export");
}

static acre_status vm_import(acre_device *device, int fd, size_t bytes, acre_vm_chunk **chunk) {
    static const char what[] = "acre_vm_import";
    size_t unit = 0, rounded = bytes;
    if (chunk)
        *chunk = NULL;
    acre_status status = vm_enter(device, what);
    if (status || (status = acre__not_null(chunk, "acre_vm_import: chunk")))
        return status;
    if ((status = vm_round(device, 0, what, &rounded, &unit)))
        return status;
    if (fd < 0 || rounded != bytes)
        return acre__fail(
            ACRE_E_INVALID,
            "%s: invalid descriptor %d, or %zu bytes is not a multiple of the granularity", what,
            fd, bytes);
    acre_vm_chunk *made = vm_record(sizeof *made, device, bytes, what, &status);
    if (!made)
        return status;
    made->part.node.key = (uintptr_t)made;
    made->unit = unit;
    status = acre__step_import(device, fd, &made->handle);
    *chunk = status ? NULL : made;
    return vm_enter_record(&vm.chunks, &made->part, status);
}

acre_status acre_vm_import(acre_device *device, int fd, size_t bytes, acre_vm_chunk **chunk) {
    return acre__in_call(vm_import(device, fd, bytes, chunk), "acre_vm_import");
}

static acre_status vm_release(acre_device *device, acre_vm_chunk *chunk) {
    acre_status status = acre__device_enter_books(device);
    if (status || !chunk)
        return status;
    acre__lock_take(&vm.lock);
    acre_vm_chunk *found = vm_chunk(device, chunk, "acre_vm_release", &status);
    if (found && !acre__device_is_lost(device))
        status = acre__step_release(device, found->handle);
    if (found && status == ACRE_OK)
        vm_forget(&vm.chunks, &found->part);
    acre__lock_give(&vm.lock);
    return status;
}

acre_status acre_vm_release(acre_device *device, acre_vm_chunk *chunk) {
    return acre__in_call(vm_release(device, chunk), "acre_vm_release");
}

/* ---- addresses ---- */

/* Reserves addresses and enters their record. */
static acre_status vm_reserve(acre_device *dev, size_t bytes, size_t alignment, uint64_t hint,
                              uint64_t *address) {
    acre_status status;
    struct vm_part *part = vm_record(sizeof *part, dev, bytes, "acre_vm_reserve", &status);
    if (!part)
        return status;
    status = acre__step_reserve(dev, bytes, alignment, hint, &part->node.key);
    *address = part->node.key;
    return vm_enter_record(&vm.reserved, part, status);
}

static acre_status vm_reserve_checked(acre_device *device, size_t bytes, size_t alignment,
                                      void *hint, void **address, size_t *real_bytes) {
    static const char what[] = "acre_vm_reserve";
    size_t unit = 0;
    uint64_t at = 0;
    if (address)
        *address = NULL;
    if (real_bytes)
        *real_bytes = 0;
    acre_status status = vm_enter(device, what);
    if (status || (status = acre__not_null(address, "acre_vm_reserve: address")))
        return status;
    if (alignment & (alignment - 1))
        return acre__fail(ACRE_E_INVALID, "%s: alignment %zu is not a power of two", what,
                          alignment);
    if ((status = vm_round(device, 0, what, &bytes, &unit)))
        return status;
    /* The driver takes only hints that are multiples of the granularity. */
    uint64_t wish = (uintptr_t)hint / unit * unit;
    if ((status = vm_reserve(device, bytes, alignment > unit ? alignment : unit, wish, &at)))
        return status;
    *address = (void *)(uintptr_t)at;
    if (real_bytes)
        *real_bytes = bytes;
    return ACRE_OK;
}

acre_status acre_vm_reserve(acre_device *device, size_t bytes, size_t alignment, void *hint,
                            void **address, size_t *real_bytes) {
    return acre__in_call(vm_reserve_checked(device, bytes, alignment, hint, address, real_bytes),
                         "acre_vm_reserve");
}

/* Looks up the reservation that begins at the address and has nothing mapped in it (lock held). */
static struct vm_part *vm_reserved(const acre_device *dev, uint64_t address, acre_status *status) {
    static const char what[] = "acre_vm_address_free";
    unsigned long long at = address;
    struct vm_part *part = vm_part_at(&vm.reserved, address);
    *status = ACRE_OK;
    if (!part)
        *status = acre__fail(ACRE_E_POINTER, "%s: 0x%llx was not reserved", what, at);
    else if (part->dev != dev)
        *status =
            acre__fail(ACRE_E_HANDLE, "%s: 0x%llx was reserved by %s", what, at, part->dev->label);
    else if (part->node.key != address)
        *status = acre__fail(ACRE_E_INTERIOR, "%s: the reservation of 0x%llx begins at 0x%llx",
                             what, at, (unsigned long long)part->node.key);
    else if (vm_is_mapped(address, part->bytes))
        *status = acre__fail(ACRE_E_BUSY, "%s: something is mapped in the %zu bytes at 0x%llx",
                             what, part->bytes, at);
    return *status ? NULL : part;
}

static acre_status vm_address_free(acre_device *device, void *address) {
    acre_status status = acre__device_enter_books(device);
    if (status || !address)
        return status;
    acre__lock_take(&vm.lock);
    struct vm_part *part = vm_reserved(device, (uintptr_t)address, &status);
    if (part && !acre__device_is_lost(device))
        status = acre__step_address_free(device, part->node.key, part->bytes);
    if (part && status == ACRE_OK)
        vm_forget(&vm.reserved, part);
    acre__lock_give(&vm.lock);
    return status;
}

acre_status acre_vm_address_free(acre_device *device, void *address) {
    return acre__in_call(vm_address_free(device, address), "acre_vm_address_free");
}

/* ---- mappings ---- */

/* Checks that the chunk may be mapped at the address (lock held). */
static acre_status vm_check_map(const acre_device *dev, uint64_t address,
                                const acre_vm_chunk *chunk) {
    static const char what[] = "acre_vm_map";
    unsigned long long at = address;
    if (address % chunk->unit)
        return acre__fail(ACRE_E_INVALID, "%s: 0x%llx is not a multiple of %zu", what, at,
                          chunk->unit);
    const struct vm_part *part = vm_part_at(&vm.reserved, address);
    if (part && part->dev != dev)
        return acre__fail(ACRE_E_HANDLE, "%s: 0x%llx was reserved by %s", what, at,
                          part->dev->label);
    size_t bytes = chunk->part.bytes;
    if (!part || part->bytes - (address - part->node.key) < bytes)
        return acre__fail(ACRE_E_RANGE, "%s: %zu bytes at 0x%llx do not lie within one reservation",
                          what, bytes, at);
    if (vm_is_mapped(address, bytes))
        return acre__fail(ACRE_E_BUSY, "%s: something is mapped in the %zu bytes at 0x%llx", what,
                          bytes, at);
    return ACRE_OK;
}

/* (lock held) */
static acre_status vm_map(acre_device *dev, uint64_t address, const acre_vm_chunk *handle) {
    acre_status status;
    const acre_vm_chunk *chunk = vm_chunk(dev, handle, "acre_vm_map", &status);
    if (!chunk || (status = vm_check_map(dev, address, chunk)))
        return status;
    struct vm_part *part = vm_record(sizeof *part, dev, chunk->part.bytes, "acre_vm_map", &status);
    if (!part)
        return status;
    part->node.key = address;
    part->is_host = chunk->part.is_host;
    status = acre__step_map(dev, address, part->bytes, chunk->handle);
    if (status)
        free(part);
    else
        acre__tree_insert(&vm.mapped, &part->node);
    return status;
}

static acre_status vm_map_checked(acre_device *device, void *address, acre_vm_chunk *chunk) {
    acre_status status = vm_enter(device, "acre_vm_map");
    if (status)
        return status;
    if (!address || !chunk)
        return acre__fail(ACRE_E_NULL, "acre_vm_map: %s is NULL", address ? "chunk" : "address");
    acre__lock_take(&vm.lock);
    status = vm_map(device, (uintptr_t)address, chunk);
    acre__lock_give(&vm.lock);
    return status;
}

acre_status acre_vm_map(acre_device *device, void *address, acre_vm_chunk *chunk) {
    return acre__in_call(vm_map_checked(device, address, chunk), "acre_vm_map");
}

/* Checks the arguments that name a range of mappings. */
static acre_status vm_check_bytes(const void *address, size_t bytes, const char *what) {
    if (!address)
        return acre__fail(ACRE_E_NULL, "%s: address is NULL", what);
    if (!bytes || bytes > UINTPTR_MAX - (uintptr_t)address)
        return acre__fail(ACRE_E_INVALID, "%s: invalid range: %zu bytes at %p", what, bytes,
                          address);
    return ACRE_OK;
}

static acre_status vm_unmap(acre_device *device, void *address, size_t bytes) {
    uint64_t at = (uintptr_t)address;
    acre_status status = acre__device_enter_books(device);
    if (status || (status = vm_check_bytes(address, bytes, "acre_vm_unmap")))
        return status;
    acre__lock_take(&vm.lock);
    status = vm_cover(device, at, bytes, "acre_vm_unmap");
    if (status == ACRE_OK && !acre__device_is_lost(device))
        status = acre__step_unmap(device, at, bytes);
    if (status == ACRE_OK)
        vm_forget_mapped(at, bytes);
    acre__lock_give(&vm.lock);
    return status;
}

acre_status acre_vm_unmap(acre_device *device, void *address, size_t bytes) {
    return acre__in_call(vm_unmap(device, address, bytes), "acre_vm_unmap");
}

static acre_status vm_unmap_sync(acre_device *device, void *address, size_t bytes) {
    acre_status status = acre__device_enter_books(device);
    if (status || (status = vm_check_bytes(address, bytes, "acre_vm_unmap_sync")))
        return status;
    acre__lock_take(&vm.lock);
    status = vm_cover(device, (uintptr_t)address, bytes, "acre_vm_unmap_sync");
    acre__lock_give(&vm.lock);
    if (status == ACRE_OK && !acre__device_is_lost(device))
        status = acre__step_quiesce_users(device);
    if (status && !acre__device_is_lost(device)) /* a lost device has no work in flight */
        return status;
    return vm_unmap(device, address, bytes);
}

acre_status acre_vm_unmap_sync(acre_device *device, void *address, size_t bytes) {
    return acre__in_call(vm_unmap_sync(device, address, bytes), "acre_vm_unmap_sync");
}

/* ---- access ---- */

/* `peer` must be NULL (the host) or a device of the same driver. */
static acre_status vm_check_peer(const acre_device *dev, const acre_device *peer,
                                 const char *what) {
    acre_status status = peer ? acre__device_check(peer) : ACRE_OK;
    if (status == ACRE_OK && peer && peer->drv != dev->drv)
        return acre__fail(ACRE_E_HANDLE, "%s: %s and %s belong to different drivers", what,
                          peer->label, dev->label);
    return status;
}

/* (lock held) */
static acre_status vm_set_access(acre_device *dev, uint64_t address, size_t bytes, int is_for_host,
                                 const CUmemAccessDesc *access) {
    static const char what[] = "acre_vm_set_access";
    acre_status status = vm_cover(dev, address, bytes, what);
    if (status)
        return status;
    for (size_t done = 0; is_for_host && done < bytes;) {
        const struct vm_part *part = vm_part_at(&vm.mapped, address + done);
        if (!part->is_host)
            return acre__fail(ACRE_E_KIND,
                              "%s: 0x%llx is device memory, which the host cannot access", what,
                              (unsigned long long)part->node.key);
        done += part->bytes;
    }
    status = acre__step_access(dev, address, bytes, access, 1);
    for (size_t done = 0; status == ACRE_OK && is_for_host && done < bytes;) {
        struct vm_part *part = vm_part_at(&vm.mapped, address + done);
        part->host_access = (acre_access)access->flags;
        done += part->bytes;
    }
    return status;
}

static acre_status vm_set_access_checked(acre_device *device, void *address, size_t bytes,
                                         acre_device *peer, acre_access access) {
    static const char what[] = "acre_vm_set_access";
    CUmemAccessDesc wanted = {.flags = (CUmemAccess_flags)access};
    acre_status status = vm_enter(device, what);
    if (status || (status = vm_check_bytes(address, bytes, what)))
        return status;
    if (access != ACRE_ACCESS_NONE && access != ACRE_ACCESS_READ &&
        access != ACRE_ACCESS_READ_WRITE)
        return acre__fail(ACRE_E_INVALID, "%s: invalid access %d", what, (int)access);
    if ((status = vm_check_peer(device, peer, what)))
        return status;
    wanted.location =
        peer ? acre__step_location(peer, 0) : acre__step_location(device, ACRE__CHUNK_HOST);
    acre__lock_take(&vm.lock);
    status = vm_set_access(device, (uintptr_t)address, bytes, !peer, &wanted);
    acre__lock_give(&vm.lock);
    return status;
}

acre_status acre_vm_set_access(acre_device *device, void *address, size_t bytes, acre_device *peer,
                               acre_access access) {
    return acre__in_call(vm_set_access_checked(device, address, bytes, peer, access),
                         "acre_vm_set_access");
}

/* Queries the driver for a device's access; the host's access is in the record (lock held). */
static acre_status vm_get_access(acre_device *dev, uint64_t address, acre_device *peer,
                                 acre_access *access) {
    static const char what[] = "acre_vm_get_access";
    unsigned long long at = address, flags = 0;
    const struct vm_part *part = vm_part_at(&vm.mapped, address);
    if (!part)
        return acre__fail(ACRE_E_POINTER, "%s: nothing is mapped at 0x%llx", what, at);
    if (part->dev != dev)
        return acre__fail(ACRE_E_HANDLE, "%s: 0x%llx is mapped by %s", what, at, part->dev->label);
    if (!peer) {
        *access = part->host_access;
        return ACRE_OK;
    }
    CUmemLocation location = acre__step_location(peer, 0);
    acre_status status = acre__step_access_get(dev, address, &location, &flags);
    if (status == ACRE_OK)
        *access = (acre_access)flags;
    return status;
}

static acre_status vm_get_access_checked(acre_device *device, const void *address,
                                         acre_device *peer, acre_access *access) {
    static const char what[] = "acre_vm_get_access";
    if (access)
        *access = ACRE_ACCESS_NONE;
    acre_status status = vm_enter(device, what);
    if (status)
        return status;
    if (!address || !access)
        return acre__fail(ACRE_E_NULL, "%s: %s is NULL", what, address ? "access" : "address");
    if ((status = vm_check_peer(device, peer, what)))
        return status;
    acre__lock_take(&vm.lock);
    status = vm_get_access(device, (uintptr_t)address, peer, access);
    acre__lock_give(&vm.lock);
    return status;
}

acre_status acre_vm_get_access(acre_device *device, const void *address, acre_device *peer,
                               acre_access *access) {
    return acre__in_call(vm_get_access_checked(device, address, peer, access),
                         "acre_vm_get_access");
}
