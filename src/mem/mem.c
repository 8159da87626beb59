/* Allocates, frees, registers and queries memory of every kind.
 *
 * Device blocks of at least one chunk (2 MiB) are made of chunks where the device supports it
 * (mem_space.c). Other device blocks, managed memory, write-combined host memory and host blocks
 * below 512 KiB come from the driver. Larger pinned and mapped blocks are acre's own pages
 * (space/host_pages.h), registered with the driver.
 *
 * A block enters the book (space/book.h) before the program learns its address, and leaves it when
 * the program frees the block. Memory that the driver refuses to free goes to the device's limbo
 * with its record. The file has no state. */
#include <stdlib.h>

#include "base/atomic.h"
#include "base/config.h"
#include "base/log.h"
#include "base/options.h"
#include "base/run.h"
#include "base/status.h"
#include "base/thread.h"
#include "device/driver_status.h"
#include "device/held.h"
#include "mem/mem_block.h"
#include "space/extent.h"
#include "space/host_pages.h"
#include "space/mapped.h"
#include "watch/origin.h"

/* Smaller host blocks come from the driver, because it is faster there than mapping and registering
 * pages. Measured on an H200: 64 KiB take 64 us from the driver and 112 us from pages, 1 MiB 919 us
 * and 610 us. */
#define MEM_PAGES_LEAST ((size_t)512 << 10)

static const struct acre__what mem_block = {"acre_mem_alloc", "mem", "block of acre_mem_alloc",
                                            "blocks of acre_mem_alloc"};

/* ---- freeing ---- */

/* With these codes the driver does not know the address: the program freed it without acre. They
 * are turned into CUDA_ERROR_INVALID_HANDLE, so that the block does not wait in limbo forever. */
static CUresult give_back_code(CUresult code) {
    int is_unknown =
        code == CUDA_ERROR_INVALID_VALUE || code == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    return is_unknown ? CUDA_ERROR_INVALID_HANDLE : code;
}

static CUresult give_back_device(const struct acre__driver *drv, struct acre__limbo_item *item) {
    return give_back_code(drv->cuMemFree(((struct acre__block *)item)->node.key));
}

static CUresult give_back_host(const struct acre__driver *drv, struct acre__limbo_item *item) {
    return give_back_code(
        drv->cuMemFreeHost((void *)(uintptr_t)((struct acre__block *)item)->node.key));
}

static CUresult give_back_pages(const struct acre__driver *drv, struct acre__limbo_item *item) {
    return give_back_code(
        drv->cuMemHostUnregister((void *)(uintptr_t)((struct acre__block *)item)->node.key));
}

static void block_forget(struct acre__limbo_item *item) {
    struct acre__block *block = (struct acre__block *)item;
    if (block->source == ACRE__FROM_PAGES)
        acre__host_pages_free((void *)(uintptr_t)block->node.key, block->whole_bytes);
    if (block->source == ACRE__FROM_SPACE)
        acre__extent_destroy(block->extent);
    if (block->source == ACRE__FROM_DRIVER_DEVICE)
        acre__held_remove(block->dev, block->bytes);
    free(block);
}

static const struct acre__limbo_kind kind_device = {"cuMemFree", give_back_device, block_forget};
static const struct acre__limbo_kind kind_host = {"cuMemFreeHost", give_back_host, block_forget};
static const struct acre__limbo_kind kind_pages = {"cuMemHostUnregister", give_back_pages,
                                                   block_forget};

/* Only waits for the device. block_forget frees the chunks with the record; a chunk that the driver
 * refuses to free waits in limbo on its own. */
static CUresult give_back_space(const struct acre__driver *drv, struct acre__limbo_item *item) {
    acre_device *dev = ((struct acre__block *)item)->dev;
    (void)drv;
    if (acre__step_quiesce_users(dev) == ACRE_OK)
        return CUDA_SUCCESS;
    uint32_t lost = acre__load(&dev->lost, memory_order_relaxed);
    return lost ? (CUresult)lost : CUDA_ERROR_UNKNOWN;
}

static const struct acre__limbo_kind kind_space = {"waiting for the device", give_back_space,
                                                   block_forget};

static const struct acre__limbo_kind *source_kind(enum acre__source source) {
    switch (source) {
    case ACRE__FROM_DRIVER_DEVICE:
    case ACRE__FROM_DRIVER_MANAGED:
        return &kind_device;
    case ACRE__FROM_DRIVER_HOST:
        return &kind_host;
    case ACRE__FROM_SPACE:
        return &kind_space;
    default:
        return &kind_pages;
    }
}

/* ---- devices ---- */

/* Frees the memory that is left when the program closes the device, and logs how much it was. */
static void mem_close(acre_device *dev) {
    struct acre__block *block;
    unsigned long long count = 0, bytes = 0;
    while ((block = acre__book_remove_any(dev, ACRE__OWNED_BY_MEM)) ||
           (block = acre__book_remove_any(dev, ACRE__OWNED_BY_PROGRAM))) {
        count++;
        bytes += block->bytes;
        acre__limbo_let_go(dev, &block->item);
    }
    if (!count || acre__origin_log_leaks(dev, &mem_block))
        return;
    acre__log(ACRE_LOG_WARN, "mem", "%s: closed with %llu blocks not freed (%llu bytes)",
              dev->label, count, bytes);
    acre__run_leaked("acre_mem_alloc", count, bytes, NULL);
}

static void mem_stats(acre_device *dev, acre_device_stats *stats) {
    acre__book_count(dev, stats);
}

acre_status acre__mem_enter(acre_device *dev) {
    static const struct acre__device_hooks hooks = {.close = mem_close, .stats = mem_stats};
    acre_status status = acre__device_enter(dev);
    if (status == ACRE_OK)
        acre__device_hooks_add(&hooks);
    return status;
}

/* ---- blocks ---- */

static struct acre__block *block_create(acre_device *dev, acre_kind kind, size_t bytes,
                                        uint32_t flags, enum acre__source source) {
    struct acre__block *block = calloc(1, sizeof *block);
    if (!block)
        return NULL;
    block->item.kind = source_kind(source);
    block->dev = dev;
    block->bytes = bytes;
    block->kind = kind;
    block->flags = flags;
    block->source = source;
    block->owner = source == ACRE__FROM_PROGRAM ? ACRE__OWNED_BY_PROGRAM : ACRE__OWNED_BY_MEM;
    return block;
}

/* Enters the block at `p` into the book. If the book already has some of these bytes, the block is
 * freed. */
static acre_status block_enter(struct acre__block *block, void *p) {
    block->node.key = (uintptr_t)p;
    if (acre__book_add(block))
        return ACRE_OK;
    size_t bytes = block->bytes;
    acre__limbo_let_go(block->dev, &block->item);
    return acre__fail(ACRE_E_REGISTERED,
                      "some of the %zu new bytes at %p are still registered; unregister memory "
                      "before unmapping it",
                      bytes, p);
}

/* ---- allocating ---- */

/* One driver call, made with the context current and without disturbing captures. */
struct mem_call {
    acre_device *dev;
    struct acre__block *block;
    CUdeviceptr address;
    void *p;
    int is_too_much; /* more managed memory than is free; the driver was not called */
    size_t managed_free_bytes;
};

static CUresult call_device(struct mem_call *call, const char **what) {
    *what = "cuMemAlloc";
    CUresult code = call->dev->drv->cuMemAlloc(&call->address, call->block->bytes);
    call->p = (void *)(uintptr_t)call->address;
    return code;
}

/* Refuses more managed memory than the card has free: the driver can hang the machine instead of
 * failing. */
static CUresult call_managed(struct mem_call *call, const char **what) {
    size_t free_bytes = 0, total_bytes = 0;
    *what = "cuMemGetInfo";
    CUresult code = call->dev->drv->cuMemGetInfo(&free_bytes, &total_bytes);
    if (code)
        return code;
    *what = "cuMemAllocManaged";
    call->managed_free_bytes = free_bytes;
    call->is_too_much = call->block->bytes > free_bytes;
    if (call->is_too_much)
        return CUDA_ERROR_OUT_OF_MEMORY;
    unsigned flags =
        call->block->flags & ACRE_MEM_ATTACH_HOST ? CU_MEM_ATTACH_HOST : CU_MEM_ATTACH_GLOBAL;
    code = call->dev->drv->cuMemAllocManaged(&call->address, call->block->bytes, flags);
    call->p = (void *)(uintptr_t)call->address;
    return code;
}

static CUresult call_host(struct mem_call *call, const char **what) {
    unsigned flags = CU_MEMHOSTALLOC_DEVICEMAP;
    if (call->block->flags & ACRE_MEM_WRITE_COMBINED)
        flags |= CU_MEMHOSTALLOC_WRITECOMBINED;
    if (call->block->flags & ACRE_MEM_PORTABLE)
        flags |= CU_MEMHOSTALLOC_PORTABLE;
    *what = "cuMemHostAlloc";
    return call->dev->drv->cuMemHostAlloc(&call->p, call->block->bytes, flags);
}

static CUresult call_register(struct mem_call *call, const char **what) {
    unsigned flags = CU_MEMHOSTREGISTER_DEVICEMAP;
    if (call->block->flags & ACRE_MEM_PORTABLE)
        flags |= CU_MEMHOSTREGISTER_PORTABLE;
    if (call->block->flags & ACRE_MEM_READ_ONLY)
        flags |= CU_MEMHOSTREGISTER_READ_ONLY;
    *what = "cuMemHostRegister";
    return call->dev->drv->cuMemHostRegister(call->p, call->block->whole_bytes, flags);
}

static acre_status mem_call_run(struct mem_call *call,
                                CUresult (*run)(struct mem_call *, const char **)) {
    struct acre__current current;
    const char *what;
    acre_status status = acre__device_begin_relaxed(call->dev, &current);
    if (status)
        return status;
    CUresult code = run(call, &what);
    if (code == CUDA_ERROR_OUT_OF_MEMORY && !call->is_too_much && acre__chunk_trim(call->dev))
        code = run(call, &what);
    acre__device_pop(call->dev, &current);
    if (!code)
        return ACRE_OK;
    if (call->is_too_much)
        return acre__fail(
            ACRE_E_DEVICE_MEMORY,
            "out of device memory: %zu bytes of managed memory requested, %zu bytes free",
            call->block->bytes, call->managed_free_bytes);
    if (code == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
        return acre__fail(
            ACRE_E_REGISTERED,
            "some of the %zu bytes at %p are already registered with the driver, outside acre",
            call->block->bytes, call->p);
    return source_kind(call->block->source) == &kind_device
               ? acre__driver_fail(call->dev, code, what)
               : acre__driver_fail_host(call->dev, code, what);
}

/* Maps, touches and registers acre's own pages. */
static acre_status make_pages(struct mem_call *call) {
    struct acre__block *block = call->block;
    struct acre__touching touching;
    acre_status status =
        acre__host_pages_begin(block->bytes, &call->p, &block->whole_bytes, &touching);
    if (status)
        return status;
    status = mem_call_run(call, call_register);
    acre__host_pages_end(&touching);
    if (status)
        acre__host_pages_free(call->p, block->whole_bytes);
    return status;
}

static acre_status make_device(struct mem_call *call) {
    size_t bytes = call->block->bytes;
    acre_status status = acre__held_add(call->dev, bytes, ACRE__HELD_NEW);
    if (status && acre__chunk_trim(call->dev))
        status = acre__held_add(call->dev, bytes, ACRE__HELD_NEW);
    if (status)
        return status;
    status = mem_call_run(call, call_device);
    if (status)
        acre__held_remove(call->dev, bytes);
    return status;
}

static acre_status mem_make(struct mem_call *call) {
    acre_status status;
    switch (call->block->source) {
    case ACRE__FROM_DRIVER_DEVICE:
        return make_device(call);
    case ACRE__FROM_SPACE:
        status = acre__mem_space_make(call->dev, call->block->bytes, &call->block->extent);
        call->p = status ? NULL : (void *)(uintptr_t)call->block->extent->range.at;
        return status;
    case ACRE__FROM_DRIVER_MANAGED:
        return mem_call_run(call, call_managed);
    case ACRE__FROM_DRIVER_HOST:
        if ((status = acre__host_pages_check(call->block->bytes)))
            return status;
        return mem_call_run(call, call_host);
    default:
        return make_pages(call);
    }
}

/* Checks the flags for the kind, and chooses the source of its memory. */
static acre_status mem_choose(acre_device *dev, acre_kind kind, size_t bytes, uint32_t flags,
                              enum acre__source *source) {
    uint32_t known = 0;
    switch (kind) {
    case ACRE_KIND_DEVICE:
        *source = acre__mem_space_serves(dev, bytes) ? ACRE__FROM_SPACE : ACRE__FROM_DRIVER_DEVICE;
        break;
    case ACRE_KIND_PINNED:
    case ACRE_KIND_MAPPED:
        known = ACRE_MEM_PORTABLE | ACRE_MEM_WRITE_COMBINED;
        *source = flags & ACRE_MEM_WRITE_COMBINED || bytes < MEM_PAGES_LEAST
                      ? ACRE__FROM_DRIVER_HOST
                      : ACRE__FROM_PAGES;
        break;
    case ACRE_KIND_MANAGED:
        known = ACRE_MEM_ATTACH_HOST;
        *source = ACRE__FROM_DRIVER_MANAGED;
        if (!dev->info.has_managed)
            return acre__fail(ACRE_E_UNSUPPORTED, "%s has no managed memory", dev->label);
        break;
    default:
        return acre__fail(ACRE_E_INVALID, "memory of kind %d cannot be allocated", (int)kind);
    }
    if (flags & ~known)
        return acre__fail(ACRE_E_INVALID, "flags 0x%x are invalid for kind %d", flags & ~known,
                          (int)kind);
    return ACRE_OK;
}

acre_status acre__mem_check_size(acre_device *dev, acre_kind kind, size_t bytes) {
    if (kind == ACRE_KIND_DEVICE)
        return acre__held_check(dev, bytes);
    if (kind == ACRE_KIND_MANAGED && bytes > dev->info.total_bytes)
        return acre__fail(ACRE_E_DEVICE_MEMORY, "%zu bytes requested, %s has %llu bytes in all",
                          bytes, dev->label, (unsigned long long)dev->info.total_bytes);
    if (bytes > PTRDIFF_MAX)
        return acre__fail(ACRE_E_HOST_MEMORY, "%zu bytes requested, more than any host has", bytes);
    return ACRE_OK;
}

acre_status acre__mem_alloc(acre_device *device, acre_kind kind, size_t bytes, uint32_t flags,
                            void **p) {
    if (p)
        *p = NULL;
    acre_status status = acre__mem_enter(device);
    if (status || (status = acre__not_null(p, "acre_mem_alloc: p")))
        return status;
    int ignored;
    enum acre__source source = ACRE__FROM_PAGES;
    status = acre__config_flag(ACRE__CONFIG_VMM, 1, &ignored);
    if (status == ACRE_OK)
        status = mem_choose(device, kind, bytes, flags, &source);
    if (status || !bytes) /* a block of 0 bytes is NULL, as with cudaMalloc */
        return status;
    if ((status = acre__mem_check_size(device, kind, bytes)) ||
        (kind == ACRE_KIND_DEVICE && (status = acre__device_has_memory(device))))
        return status;
    struct mem_call call = {.dev = device};
    call.block = block_create(device, kind, bytes, flags, source);
    if (!call.block)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for a block's record");
    status = mem_make(&call);
    if (status) {
        free(call.block);
        return status;
    }
    status = block_enter(call.block, call.p);
    if (status == ACRE_OK)
        *p = call.p;
    return status;
}

acre_status acre_mem_alloc(acre_device *device, acre_kind kind, size_t bytes, uint32_t flags,
                           void **p) {
    uint64_t seen = acre__resumes();
    acre_status status;
    int tries = 0;
    do
        status = acre__mem_alloc(device, kind, bytes, flags, p);
    while (acre__must_retry(status, &seen) ||
           (status && acre__device_reclaim(device, kind, bytes, status, tries++)));
    if (status == ACRE_OK)
        (void)acre__origin_add(*p, bytes, &mem_block, device, device->label);
    return acre__in_call(status, "acre_mem_alloc");
}

acre_status acre_mem_free(acre_device *device, void *p) {
    struct acre__block *block = NULL;
    acre_status status = acre__device_enter_books(device);
    int is_marked = acre__origin_free(p);
    if (status == ACRE_OK && p)
        block = acre__book_remove(device, p, ACRE__OWNED_BY_MEM, &status);
    if (block)
        status = acre__limbo_give_back(device, &block->item);
    else
        acre__origin_unfree(p, is_marked);
    if (status == ACRE_E_POINTER)
        (void)acre__origin_log_double_free(p);
    return acre__in_call(status, "acre_mem_free");
}

/* ---- registering the program's memory ---- */

static acre_status mem_register(acre_device *device, void *p, size_t bytes, uint32_t flags) {
    acre_status status = acre__mem_enter(device);
    if (status || (status = acre__not_null(p, "acre_mem_register: p")))
        return status;
    if (!bytes || bytes > PTRDIFF_MAX || (uintptr_t)p + bytes < (uintptr_t)p)
        return acre__fail(ACRE_E_INVALID, "acre_mem_register: invalid range: %zu bytes at %p",
                          bytes, p);
    if (flags & ~(ACRE_MEM_PORTABLE | ACRE_MEM_READ_ONLY))
        return acre__fail(ACRE_E_INVALID, "acre_mem_register: unknown flags 0x%x", flags);
    struct mem_call call = {.dev = device, .p = p};
    call.block = block_create(device, ACRE_KIND_PINNED, bytes, flags, ACRE__FROM_PROGRAM);
    if (!call.block)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for a registration's record");
    call.block->node.key = (uintptr_t)p;
    call.block->whole_bytes = bytes;
    /* The book comes first: of two threads that register the same memory, only one gets past it. */
    if (!acre__book_add(call.block)) {
        free(call.block);
        return acre__fail(
            ACRE_E_REGISTERED,
            "some of the %zu bytes at %p are already registered or were allocated by acre", bytes,
            p);
    }
    status = mem_call_run(&call, call_register);
    if (status) {
        acre_status ignored;
        free(acre__book_remove(device, p, ACRE__OWNED_BY_PROGRAM, &ignored));
    }
    return status;
}

acre_status acre_mem_register(acre_device *device, void *p, size_t bytes, uint32_t flags) {
    return acre__in_call(mem_register(device, p, bytes, flags), "acre_mem_register");
}

static acre_status mem_unregister(acre_device *device, void *p) {
    acre_status status = acre__device_enter_books(device);
    if (status || (status = acre__not_null(p, "acre_mem_unregister: p")))
        return status;
    struct acre__block *block = acre__book_remove(device, p, ACRE__OWNED_BY_PROGRAM, &status);
    return block ? acre__limbo_give_back(device, &block->item) : status;
}

acre_status acre_mem_unregister(acre_device *device, void *p) {
    return acre__in_call(mem_unregister(device, p), "acre_mem_unregister");
}

/* ---- queries ---- */

acre_status acre__mem_check_driver(const acre_device *dev, const void *p,
                                   const acre_mem_info *info) {
    if (!info->device || info->device->drv == dev->drv)
        return ACRE_OK;
    return acre__fail(ACRE_E_HANDLE, "%p belongs to %s, which %s cannot access", p,
                      info->device->label, dev->label);
}

static acre_status mem_query(acre_device *device, const void *p, acre_mem_info *info) {
    acre_status status = acre__enter();
    if (status)
        return status;
    acre_mem_info found = {0};
    status = acre__options_out(info, sizeof found, &found, "acre_mem_info");
    if (status == ACRE_OK)
        status = acre__mem_enter(device);
    if (status || (status = acre__not_null(p, "acre_mem_query: p")))
        return status;
    status = acre__book_look(device, p, &found);
    return status ? status : acre__options_out(info, sizeof found, &found, "acre_mem_info");
}

acre_status acre_mem_query(acre_device *device, const void *p, acre_mem_info *info) {
    return acre__in_call(mem_query(device, p, info), "acre_mem_query");
}

static acre_status mem_device_pointer(acre_device *device, void *p, void **device_p) {
    if (device_p)
        *device_p = NULL;
    acre_status status = acre__mem_enter(device);
    if (status)
        return status;
    if (!device_p || !p)
        return acre__fail(ACRE_E_NULL, "acre_mem_device_pointer: %s is NULL", p ? "device_p" : "p");
    acre_mem_info info;
    status = acre__book_look(device, p, &info);
    if (status)
        return status;
    if (info.kind == ACRE_KIND_PAGEABLE)
        return acre__fail(ACRE_E_KIND, "%p is pageable memory: register it first", p);
    if ((status = acre__mem_check_driver(device, p, &info)))
        return status;
    if (info.device && info.device->drv == device->drv)
        acre__device_note_user(info.device, device->device);
    int is_mapped = acre__book_is_mapped(p);
    if (is_mapped && info.kind == ACRE_KIND_PINNED && info.device != device)
        return acre__fail(ACRE_E_HANDLE,
                          "%p is a pinned vec of %s, the only device that can access it", p,
                          info.device->label);
    if (info.kind == ACRE_KIND_DEVICE || info.kind == ACRE_KIND_MANAGED || is_mapped) {
        *device_p = p; /* host and devices use the same address */
        return ACRE_OK;
    }
    struct acre__current call;
    CUdeviceptr address = 0;
    if (acre__device_call(device, &call))
        call.code = device->drv->cuMemHostGetDevicePointer(&address, p, 0);
    status = acre__device_done(device, &call, "cuMemHostGetDevicePointer");
    if (status == ACRE_OK)
        *device_p = (void *)(uintptr_t)address;
    return status;
}

acre_status acre_mem_device_pointer(acre_device *device, void *p, void **device_p) {
    return acre__in_call(mem_device_pointer(device, p, device_p), "acre_mem_device_pointer");
}
