/* Registering memory that the program already has. */
#include <stdlib.h>

#include "base/status.h"
#include "base/thread.h"
#include "device/driver_status.h"
#include "mem/mem_block.h"

static CUresult register_pages(acre_device *dev, void *p, size_t bytes, uint32_t flags,
                               const char **what) {
    struct acre__current current;
    CUresult code = acre__device_push_relaxed(dev, &current, what);
    if (code)
        return code;
    unsigned how = CU_MEMHOSTREGISTER_DEVICEMAP;
    if (flags & ACRE_MEM_PORTABLE)
        how |= CU_MEMHOSTREGISTER_PORTABLE;
    if (flags & ACRE_MEM_READ_ONLY)
        how |= CU_MEMHOSTREGISTER_READ_ONLY;
    *what = "cuMemHostRegister";
    code = dev->drv->cuMemHostRegister(p, bytes, how);
    acre__device_pop(dev, &current);
    return code;
}

acre_status acre_mem_register(acre_device *device, void *p, size_t bytes, uint32_t flags) {
    acre_status status = acre__mem_enter(device);
    if (status)
        return status;
    if (!p)
        return acre__fail(ACRE_E_NULL, "acre_mem_register: p is NULL");
    if (!bytes || bytes > PTRDIFF_MAX || (uintptr_t)p + bytes < (uintptr_t)p)
        return acre__fail(ACRE_E_INVALID, "acre_mem_register: %zu bytes at %p", bytes, p);
    if (flags & ~(ACRE_MEM_PORTABLE | ACRE_MEM_READ_ONLY))
        return acre__fail(ACRE_E_INVALID, "acre_mem_register: unknown flags 0x%x", flags);
    /* In the book first: two threads that register the same memory cannot both get past it. */
    struct acre__block *block =
        acre__mem_block_create(device, ACRE_KIND_PINNED, bytes, flags, ACRE__FROM_PROGRAM);
    if (!block)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for a registration's record");
    block->node.key = (uintptr_t)p;
    if (!acre__book_add(block)) {
        free(block);
        return acre__fail(ACRE_E_REGISTERED,
                          "some of the %zu bytes at %p is registered, or was "
                          "handed out by acre",
                          bytes, p);
    }
    const char *what;
    CUresult code = register_pages(device, p, bytes, flags, &what);
    if (!code)
        return ACRE_OK;
    acre_status ignored;
    free(acre__book_remove(device, p, ACRE__OWNED_BY_PROGRAM, &ignored));
    if (code == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
        return acre__fail(ACRE_E_REGISTERED,
                          "some of the %zu bytes at %p is registered by the "
                          "program itself",
                          bytes, p);
    return acre__driver_fail_host(device, code, what);
}

acre_status acre_mem_unregister(acre_device *device, void *p) {
    acre_status status = acre__device_enter_books(device);
    if (status)
        return status;
    if (!p)
        return acre__fail(ACRE_E_NULL, "acre_mem_unregister: p is NULL");
    struct acre__block *block = acre__book_remove(device, p, ACRE__OWNED_BY_PROGRAM, &status);
    return block ? acre__limbo_give_back(device, &block->item) : status;
}
