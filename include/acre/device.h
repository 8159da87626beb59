/* Devices: open and close, capabilities, trim, statistics. Part of acre.h. */
#ifndef ACRE_DEVICE_H
#define ACRE_DEVICE_H

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A GPU, or a soft device, which emulates the same calls on the CPU. */
typedef struct acre_device acre_device;

/* Opens GPUs only: a soft device is refused, whatever name or variable chooses it. For programs
 * whose kernels are compiled by nvcc, because a soft device cannot run those. */
#define ACRE_OPEN_NO_SOFT 1u

/* Zero in any field but struct_size means the default. */
typedef struct acre_open_options {
    size_t struct_size;
    uint64_t soft_bytes;   /* memory of a soft device; default ACRE_SOFT_BYTES, else 1/4 of RAM */
    uint32_t soft_devices; /* number of soft devices; default ACRE_SOFT_DEVICES, else 1 */
    uint32_t flags;        /* ACRE_OPEN_* */
} acre_open_options;

/* Opens a device. `name` is "cuda", "cuda:1", "soft", "soft:1" or "auto". "auto" and NULL open the
 * device that ACRE_DEVICE names, else the first GPU, else the soft device. Opening an open device
 * again returns the same handle. Every open needs its own close. All soft devices of a process
 * share one set of options. While a soft device is open, opening with other options returns
 * ACRE_E_BUSY. With ACRE_OPEN_NO_SOFT the call never opens a soft device: it returns the reason why
 * no GPU is usable, or ACRE_E_NO_DEVICE if `name` or ACRE_DEVICE asks for a soft device.
 * Returns ACRE_E_NO_DRIVER, ACRE_E_DRIVER_OLD, ACRE_E_NO_DEVICE, ACRE_E_CONFIG, ... */
ACRE_API acre_status acre_open(const char *name, const acre_open_options *options,
                               acre_device **device);

/* Closes one open of a device. NULL is a no-op. The last close destroys all objects of the device
 * that are left, frees their memory, logs leaked memory, releases the context and invalidates the
 * handle. If the driver refuses to free something, acre logs that and still invalidates the handle.
 * A program may exit without closing: acre makes no driver call at exit.
 * Threads: no other thread may use the device during its last close. Other opens and closes block
 * until the call returns.
 * Sync: waits for queued work if some memory has not been freed yet, and always on a soft device.
 */
ACRE_API acre_status acre_close(acre_device *device);

/* Counts the devices of a driver, "cuda" or "soft". For "soft" it is the configured number. */
ACRE_API acre_status acre_device_count(const char *driver, uint32_t *count);

/* Properties and capabilities of a device. */
typedef struct acre_device_info {
    size_t struct_size; /* set by the caller */
    char driver[16];    /* "cuda" or "soft" */
    char name[128];     /* as the driver reports it */
    char bus_id[32];    /* PCI address, or empty; invented for soft devices */
    uint8_t uuid[16];
    uint32_t ordinal;           /* the number in "cuda:N" */
    uint32_t driver_version;    /* 13000 = 13.0 */
    uint64_t total_bytes;       /* memory of the device */
    uint64_t free_bytes;        /* free now, for all processes together */
    uint64_t granularity_bytes; /* of physical chunks; 0 if has_vmm is 0 */
    uint32_t compute_major, compute_minor;
    uint32_t multiprocessors;
    uint32_t copy_engines;
    /* Capabilities, each 0 or 1. */
    uint32_t has_vmm;        /* virtual memory management (cuMemCreate, cuMemMap) */
    uint32_t has_host_vmm;   /* virtual memory management for host memory */
    uint32_t has_fd_sharing; /* chunks can be exported as file descriptors */
    uint32_t has_fabric;     /* chunks can be exported over the fabric, if permitted */
    uint32_t has_rdma;       /* other PCI devices can access its memory (GPUDirect RDMA) */
    uint32_t has_managed;    /* managed memory with concurrent access by host and device */
    uint32_t is_integrated;  /* device and host share one physical memory */
    uint32_t open_count;     /* opens of this handle that were not closed yet */
} acre_device_info;

/* Gets the properties of a device. */
ACRE_API acre_status acre_device_get_info(acre_device *device, acre_device_info *info);

/* Waits for all work that this process has queued on the device. */
ACRE_API acre_status acre_device_sync(acre_device *device);

/* Limits the device memory that acre holds in this process: pools, vecs, heaps, ranges, plans and
 * blocks of acre_mem_alloc. Imports, chunks of acre_vm_create, managed memory and host memory do
 * not count. 0 means no limit. The limits end when the device is closed.
 *
 * `limit_bytes`: the most that acre holds. It also holds with many threads. The driver may round up
 * blocks of acre_mem_alloc below 2 MiB; they count with their own size.
 * `margin_bytes`: what an allocation leaves free on the card for others. Threads that allocate at
 * the same time, other processes, and acre_resume can still use some of it.
 *
 * A refusal is handled as when the card is full: acre releases idle memory and tries again, and
 * then the call fails with ACRE_E_DEVICE_MEMORY.
 *
 * If acre holds more than a new limit, the call releases idle memory, as acre_trim does, and leaves
 * memory in use alone. It does not wait: call acre_device_sync first to release also what was freed
 * but may still be used by queued work. Chunks with live blocks stay. Until acre holds no more than
 * the limit, it creates no memory: each allocation releases idle memory, and waits for such work if
 * it must. Pools still serve free memory that they hold, as long as the live blocks of all pools of
 * the device, and what else acre holds there, stay within the limit. All else fails. So memory in
 * use never grows beyond the limit. All memory of a vec, a heap or a plan is in use: a vec still
 * grows within its capacity, and kernels still allocate from a heap. */
ACRE_API acre_status acre_device_set_limits(acre_device *device, uint64_t limit_bytes,
                                            uint64_t margin_bytes);

/* Releases idle memory to the driver, and retries the frees that the driver refused earlier
 * (statistic limbo_count, which is 0 when all have succeeded).
 * Returns the driver's error if the driver refuses some of them again. */
ACRE_API acre_status acre_trim(acre_device *device);

/* Every statistic of a device: name, meaning. "Now" marks current values. All others count since
 * the device was opened, or since the process began where the meaning says so. */
#define ACRE_DEVICE_STATS_LIST(X)                                                                  \
    X(streams_live, "streams created by acre that exist now")                                      \
    X(events_live, "events created by acre that exist now")                                        \
    X(streams_created, "streams created by acre")                                                  \
    X(events_created, "events created by acre")                                                    \
    X(driver_refusals, "driver calls that failed")                                                 \
    X(limbo_count, "frees that the driver refused and that wait for acre_trim now")                \
    X(limbo_retired, "refused frees that succeeded later")                                         \
    X(trims, "calls of acre_trim")                                                                 \
    X(mem_blocks, "blocks of acre_mem_alloc that are live now")                                    \
    X(mem_bytes, "bytes requested for the live blocks of acre_mem_alloc, now")                     \
    X(mem_registered, "registrations of acre_mem_register that exist now")                         \
    X(copies_direct, "copies passed to the driver as they are")                                    \
    X(copies_staged, "copies of pageable memory that acre staged through pinned buffers")          \
    X(staging_bytes, "pinned memory of the staging buffers now")                                   \
    X(chunks, "chunks of physical memory that exist now")                                          \
    X(chunk_bytes, "bytes of all chunks now, cached ones included")                                \
    X(chunk_cached_bytes, "bytes of unused chunks, cached for the next request, now")              \
    X(chunks_created, "chunks created")                                                            \
    X(address_bytes, "virtual addresses reserved from the driver now")                             \
    X(vecs, "vecs that exist now")                                                                 \
    X(vec_moves, "times that a growing vec or block was mapped at another address")                \
    X(grow_copied_bytes, "bytes copied because a vec or a block grew")                             \
    X(shares, "shares that are open now")                                                          \
    X(imports, "imports that are open now")                                                        \
    X(driver_creates,                                                                              \
      "calls of cuMemCreate on all devices of the driver, since the process began")                \
    X(driver_maps, "calls of cuMemMap on all devices of the driver, since the process began")      \
    X(driver_accesses,                                                                             \
      "calls of cuMemSetAccess on all devices of the driver, since the process began")             \
    X(driver_unmaps, "calls of cuMemUnmap on all devices of the driver, since the process began")  \
    X(driver_releases,                                                                             \
      "calls of cuMemRelease on all devices of the driver, since the process began")               \
    X(driver_allocs, "calls of cuMemAlloc on all devices of the driver, since the process began")  \
    X(chunk_created_bytes, "bytes of all chunks created")                                          \
    X(chunk_released_bytes, "bytes of all chunks released")                                        \
    X(ranges, "sparse ranges that exist now")                                                      \
    X(range_bytes, "bytes of committed pieces of ranges now")                                      \
    X(range_idle_bytes, "bytes of decommitted pieces that are still mapped now")                   \
    X(suspended_bytes, "bytes of suspended memory now, which the device does not hold")            \
    X(streams_parked, "destroyed streams that acre keeps for acre_stream_create, now")             \
    X(held_bytes, "device memory that acre holds now, as limit_bytes counts it")                   \
    X(limit_bytes, "limit of acre_device_set_limits; 0: none")                                     \
    X(margin_bytes, "margin of acre_device_set_limits; 0: none")

typedef struct acre_device_stats {
    size_t struct_size; /* set by the caller */
#define ACRE_STATS_FIELD(name, meaning) uint64_t name;
    ACRE_DEVICE_STATS_LIST(ACRE_STATS_FIELD)
#undef ACRE_STATS_FIELD
} acre_device_stats;

/* Gets the statistics of a device. This also works on a lost device. */
ACRE_API acre_status acre_device_get_stats(acre_device *device, acre_device_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
