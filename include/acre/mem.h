/* Memory of every kind. Part of acre.h. */
#ifndef ACRE_MEM_H
#define ACRE_MEM_H

#include "stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where memory lives and who reaches it. */
typedef enum acre_kind {
    ACRE_KIND_DEVICE = 1,  /* on the device, fastest there; the host cannot touch it */
    ACRE_KIND_PINNED = 2,  /* page-locked host memory: copies at full speed, in the background */
    ACRE_KIND_MAPPED = 3,  /* pinned, and meant to be used by kernels where it is (zero-copy) */
    ACRE_KIND_MANAGED = 4, /* one address for both; pages move to who touches them */
    ACRE_KIND_PAGEABLE =
        5 /* any other memory of the program; reported by acre_mem_query; cannot be allocated */
} acre_kind;

#define ACRE_MEM_PORTABLE 1u       /* pinned, mapped, register: pinned for all devices */
#define ACRE_MEM_WRITE_COMBINED 2u /* pinned, mapped: fast to write from the host, slow to read */
#define ACRE_MEM_ATTACH_HOST 4u    /* managed: not for kernels until acre_mem_attach says so */
#define ACRE_MEM_READ_ONLY 8u      /* register: the device will only read it */

/* Hands out `bytes` of memory of a kind; the address is a multiple of 256. The contents are
 * undefined. Pinned and mapped memory of 512 KiB and more is made of huge pages where the system
 * has them, touched by several threads and registered, and a child made by fork does not have it;
 * less, and write-combined memory, comes from the driver as it is.
 * Returns ACRE_E_DEVICE_MEMORY, ACRE_E_HOST_MEMORY, ACRE_E_INVALID (no bytes, unknown flags, flags
 * that do not go with the kind), ACRE_E_UNSUPPORTED (managed, where the device has none),
 * ACRE_E_REGISTERED (the addresses are still registered: their owner unmapped them too early), ...;
 * *p is then NULL. Sync: waits for nothing on a GPU, but takes microseconds to milliseconds. */
ACRE_API acre_status acre_mem_alloc(acre_device *device, acre_kind kind, size_t bytes,
                                    uint32_t flags, void **p);

/* Frees memory of acre_mem_alloc, whatever its kind. NULL is a no-op. Like cudaFree it waits
 * for all work of the device queued before, so memory still in use is safe to free.
 * Returns ACRE_E_POINTER (unknown, or freed already), ACRE_E_INTERIOR, ACRE_E_KIND (registered
 * memory, or a pool's, a vec's, ...; the detail names the call for it), ACRE_E_HANDLE (of another
 * device); nothing is changed then. If the driver refuses, the
 * memory waits for acre_trim, and the address is dead either way. */
ACRE_API acre_status acre_mem_free(acre_device *device, void *p);

/* Makes a block of device memory `bytes` long and keeps its contents up to the smaller size. NULL
 * for `p` is acre_mem_alloc. From 2 MiB on nothing is copied: memory is added where the block is,
 * or all of it is mapped at another place; a smaller block is copied in stream order. `stream` is
 * the one whose work uses the block: work of others must be done, or be waited for by it. Memory of
 * a block that becomes smaller goes back by whole chunks, which are as large as what was added at a
 * time. *new_p may be `p` itself; if it is not, `p` is dead.
 * After a failure the old block is as it was, and *new_p is NULL. Returns as acre_mem_alloc and
 * acre_mem_free do; ACRE_E_KIND for memory of another kind. Sync: growing in place waits for
 * nothing; otherwise it waits for the work queued on `stream`, and for smaller blocks as
 * acre_mem_free. */
ACRE_API acre_status acre_mem_realloc(acre_device *device, void *p, size_t bytes,
                                      acre_stream stream, void **new_p);

/* What a device may do with memory. */
typedef enum acre_access {
    ACRE_ACCESS_NONE = 0,
    ACRE_ACCESS_READ = 1,
    ACRE_ACCESS_READ_WRITE = 3
} acre_access;

/* Gives another device of the same driver access to a block of device memory of 2 MiB or more, or
 * takes it away. Smaller blocks: ACRE_E_KIND. */
ACRE_API acre_status acre_mem_set_access(acre_device *device, void *p, acre_device *peer,
                                         acre_access access);

/* The address at which kernels of the device reach memory of any kind but pageable (ACRE_E_KIND);
 * any address inside a block will do. ACRE_E_HANDLE: memory of another driver's device. */
ACRE_API acre_status acre_mem_device_pointer(acre_device *device, void *p, void **device_p);

/* Page-locks memory that the program already has, so that copies from and to it go at full speed.
 * The memory must stay mapped until it is unregistered. ACRE_E_REGISTERED if some of it is
 * registered or was allocated by acre. Two registrations side by side are not one: a copy may not
 * reach from one into the other. */
ACRE_API acre_status acre_mem_register(acre_device *device, void *p, size_t bytes, uint32_t flags);

/* Ends a registration; `p` is its first address. Waits for queued work, as acre_mem_free does. */
ACRE_API acre_status acre_mem_unregister(acre_device *device, void *p);

/* A place that managed memory can be at. */
#define ACRE_PLACE_DEVICE 0u
#define ACRE_PLACE_HOST 1u

/* Moves managed memory to the device or the host ahead of its use, in stream order. */
ACRE_API acre_status acre_mem_prefetch(acre_device *device, const void *p, size_t bytes,
                                       uint32_t place, acre_stream stream);

typedef enum acre_advice {
    ACRE_ADVICE_READ_MOSTLY = 1, /* copies for each reader; writes cost more */
    ACRE_ADVICE_NOT_READ_MOSTLY = 2,
    ACRE_ADVICE_PREFER = 3, /* keep it at the place */
    ACRE_ADVICE_NOT_PREFER = 4,
    ACRE_ADVICE_ACCESSED_BY = 5, /* keep it mapped for the place, so that it does not fault */
    ACRE_ADVICE_NOT_ACCESSED_BY = 6
} acre_advice;

/* Says how managed memory will be used; it changes speed, never results. */
ACRE_API acre_status acre_mem_advise(acre_device *device, const void *p, size_t bytes,
                                     acre_advice advice, uint32_t place);

#define ACRE_ATTACH_GLOBAL 1u /* any stream may use it */
#define ACRE_ATTACH_HOST 2u   /* no stream uses it: the host may touch it meanwhile */
#define ACRE_ATTACH_SINGLE 4u /* only this stream uses it */

/* Says, in stream order, who uses a block of managed memory from now on. */
ACRE_API acre_status acre_mem_attach(acre_device *device, void *p, uint32_t attach,
                                     acre_stream stream);

/* What is known about an address. */
typedef struct acre_mem_info {
    size_t struct_size;     /* set by the caller */
    acre_kind kind;         /* ACRE_KIND_PAGEABLE: nobody knows it */
    uint32_t flags;         /* as it was asked for; 0 for memory that acre did not hand out */
    void *base;             /* first address of its block, NULL for pageable memory */
    uint64_t bytes;         /* of the block */
    acre_device *device;    /* that acre handed it out for; NULL if the program made it itself */
    uint32_t ordinal;       /* of the device it belongs to, by the driver */
    uint32_t is_registered; /* 1: the program's own memory, registered */
    struct acre_pool *pool; /* that the block is of, or NULL */
    uint64_t usable_bytes;  /* `bytes`, or what a pool rounded them up to */
} acre_mem_info;

/* Tells what an address is: memory of acre, memory that the program got from CUDA itself, or
 * pageable memory. Any address is safe. Where a pool has no block: the pool's region. */
ACRE_API acre_status acre_mem_query(acre_device *device, const void *p, acre_mem_info *info);

#ifdef __cplusplus
}
#endif

#endif
