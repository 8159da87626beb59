/* Single allocations of every kind of memory. Part of acre.h. */
#ifndef ACRE_MEM_H
#define ACRE_MEM_H

#include "stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where memory is, and what can access it. */
typedef enum acre_kind {
    ACRE_KIND_DEVICE = 1,  /* on the device; the host cannot access it */
    ACRE_KIND_PINNED = 2,  /* page-locked host memory: full-speed, asynchronous copies */
    ACRE_KIND_MAPPED = 3,  /* pinned, for kernels that access it in place (zero-copy) */
    ACRE_KIND_MANAGED = 4, /* one address for both; pages migrate on access */
    ACRE_KIND_PAGEABLE = 5 /* any other memory of the program; acre_mem_alloc cannot allocate it */
} acre_kind;

/* Flags of acre_mem_alloc and acre_mem_register, with the kinds of memory that they apply to. */
#define ACRE_MEM_PORTABLE 1u       /* pinned, mapped, registered: pinned for all devices */
#define ACRE_MEM_WRITE_COMBINED 2u /* pinned, mapped: the host writes fast and reads slowly */
#define ACRE_MEM_ATTACH_HOST 4u    /* managed: no kernel may use it before acre_mem_attach */
#define ACRE_MEM_READ_ONLY 8u      /* registered: the device only reads it */

/* Allocates `bytes` of memory of a kind. The address is a multiple of 256; the contents are
 * undefined. Pinned and mapped memory of 512 KiB or more uses huge pages where the system has them.
 * acre populates these pages during the call, with several threads. They are not inherited across
 * fork. Smaller blocks and write-combined memory come from the driver.
 * For 0 bytes *p is NULL, and the call succeeds, as cudaMalloc does.
 * Returns ACRE_E_DEVICE_MEMORY, ACRE_E_HOST_MEMORY (also for sizes that no memory has),
 * ACRE_E_INVALID (unknown flags, or flags of another kind), ACRE_E_UNSUPPORTED (managed memory on a
 * device without it), ACRE_E_REGISTERED (the program unmapped registered memory without
 * acre_mem_unregister, and the new block got its addresses), ... Sync: does not wait for queued
 * work unless memory is short: then acre trims pools, which may wait (see acre_pool_trim), and may
 * wait for the work that still uses blocks freed to pools. */
ACRE_API acre_status acre_mem_alloc(acre_device *device, acre_kind kind, size_t bytes,
                                    uint32_t flags, void **p);

/* Frees memory of acre_mem_alloc of any kind. NULL is a no-op. If the driver refuses, acre_trim
 * retries; the address is invalid either way.
 * Returns ACRE_E_POINTER (unknown address, or double free), ACRE_E_INTERIOR, ACRE_E_KIND (memory of
 * acre that must be freed by another function; the detail names it), ACRE_E_HANDLE (memory of
 * another device), ACRE_E_BUSY (the block is shared).
 * Sync: like cudaFree, waits for all work queued on the device, so work queued before the call may
 * use the block. */
ACRE_API acre_status acre_mem_free(acre_device *device, void *p);

/* Resizes a block of device memory and keeps its contents up to the smaller size. NULL for `p`
 * allocates a block. 0 bytes free the block: *new_p is NULL. *new_p may be equal to `p`. If it is
 * not, `p` is invalid.
 * If old and new size are 2 MiB or more, nothing is copied: acre adds memory at the end of the
 * block, or maps all of it at another address. Otherwise, and on a device without virtual memory
 * management or with ACRE_VMM=no, acre copies the contents in stream order. Shrinking releases
 * whole chunks only. Each call that allocates or grows a block adds the memory as one chunk if
 * possible. So a block that was allocated in one call may have a single chunk, and shrinking it
 * releases nothing. `stream` is the stream whose work uses the block. Work of other streams on the
 * block must be done, or `stream` must wait for it. After a failure the old block is unchanged.
 * Returns the errors of acre_mem_alloc and acre_mem_free, ACRE_E_KIND (not device memory),
 * ACRE_E_CAPTURING.
 * Sync: growing in place does not wait, unless memory is short (see acre_mem_alloc). Mapping at
 * another address, and releasing a chunk, wait for the work queued on `stream`. If the contents are
 * copied, freeing the old block waits for all work on the device, as acre_mem_free does. */
ACRE_API acre_status acre_mem_realloc(acre_device *device, void *p, size_t bytes,
                                      acre_stream stream, void **new_p);

/* Access of a device to memory. */
typedef enum acre_access {
    ACRE_ACCESS_NONE = 0,
    ACRE_ACCESS_READ = 1,
    ACRE_ACCESS_READ_WRITE = 3
} acre_access;

/* Gives another device of the same driver access to a block of device memory, or takes it away.
 * Returns ACRE_E_KIND for blocks smaller than 2 MiB. */
ACRE_API acre_status acre_mem_set_access(acre_device *device, void *p, acre_device *peer,
                                         acre_access access);

/* Gets the address at which kernels of the device access memory. `p` may point into a block.
 * Returns ACRE_E_KIND for pageable memory, ACRE_E_HANDLE for memory of a soft device if `device` is
 * a GPU, and vice versa. */
ACRE_API acre_status acre_mem_device_pointer(acre_device *device, void *p, void **device_p);

/* Page-locks memory that the program already has, so that copies run at full speed. The memory must
 * stay mapped until acre_mem_unregister. A copy must not span two registrations, even if they are
 * adjacent.
 * Returns ACRE_E_REGISTERED if part of the memory is registered or was allocated by acre. */
ACRE_API acre_status acre_mem_register(acre_device *device, void *p, size_t bytes, uint32_t flags);

/* Ends the registration that begins at `p`.
 * Sync: waits for queued work as acre_mem_free does. */
ACRE_API acre_status acre_mem_unregister(acre_device *device, void *p);

/* Places of managed memory and of plans. */
#define ACRE_PLACE_DEVICE 0u
#define ACRE_PLACE_HOST 1u

/* Moves managed memory to the device or to the host before its use, in stream order. */
ACRE_API acre_status acre_mem_prefetch(acre_device *device, const void *p, size_t bytes,
                                       uint32_t place, acre_stream stream);

typedef enum acre_advice {
    ACRE_ADVICE_READ_MOSTLY = 1, /* each reader gets a copy; writes are slower */
    ACRE_ADVICE_NOT_READ_MOSTLY = 2,
    ACRE_ADVICE_PREFER = 3, /* keep the pages at `place` */
    ACRE_ADVICE_NOT_PREFER = 4,
    ACRE_ADVICE_ACCESSED_BY = 5, /* keep the pages mapped for `place`: no page faults */
    ACRE_ADVICE_NOT_ACCESSED_BY = 6
} acre_advice;

/* Advises how managed memory will be used. This changes speed, never results. */
ACRE_API acre_status acre_mem_advise(acre_device *device, const void *p, size_t bytes,
                                     acre_advice advice, uint32_t place);

#define ACRE_ATTACH_GLOBAL 1u /* any stream may use the block */
#define ACRE_ATTACH_HOST 2u   /* only the host uses the block */
#define ACRE_ATTACH_SINGLE 4u /* only work of `stream` uses the block */

/* Sets who may use a block of managed memory from now on, in stream order. */
ACRE_API acre_status acre_mem_attach(acre_device *device, void *p, uint32_t attach,
                                     acre_stream stream);

/* A description of the memory at an address. */
typedef struct acre_mem_info {
    size_t struct_size;     /* set by the caller */
    acre_kind kind;         /* ACRE_KIND_PAGEABLE: neither acre nor the driver knows it */
    uint32_t flags;         /* of the allocation; 0 for memory that acre did not allocate */
    void *base;             /* first address of the block; NULL for pageable memory */
    uint64_t bytes;         /* size of the block, as requested */
    acre_device *device;    /* owner; NULL for memory that acre did not allocate */
    uint32_t ordinal;       /* number of the device that owns the memory */
    uint32_t is_registered; /* 1: memory of the program, registered with acre */
    struct acre_pool *pool; /* owner of the block, or NULL */
    uint64_t usable_bytes;  /* `bytes`, or the size that a pool rounded up to */
} acre_mem_info;

/* Describes the memory at an address: memory of acre, memory that the program got from CUDA, or
 * pageable memory. Any address is safe. For an address in a pool but in no live block, `base` and
 * `bytes` describe the pool's region, and `pool` is NULL. For an address
 * in a range, they describe the committed pieces around it; if it is in none, the whole range, with
 * `usable_bytes` 0. */
ACRE_API acre_status acre_mem_query(acre_device *device, const void *p, acre_mem_info *info);

#ifdef __cplusplus
}
#endif

#endif
