/* Devices: opening, what they are and can do, trim, statistics. Part of acre.h. */
#ifndef ACRE_DEVICE_H
#define ACRE_DEVICE_H

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A GPU, or the soft device that runs the same calls on the CPU. */
typedef struct acre_device acre_device;

/* Zero in any field means the default; struct_size must be set. */
typedef struct acre_open_options {
    size_t struct_size;
    uint64_t soft_bytes;   /* memory of each soft device; ACRE_SOFT_BYTES, else a quarter of RAM */
    uint32_t soft_devices; /* how many soft devices there are; ACRE_SOFT_DEVICES, else 1 */
    uint32_t reserved;
} acre_open_options;

/* Opens a device. `name` is "auto" (or NULL: ACRE_DEVICE, else the first GPU if there is one, else
 * the soft device), "cuda", "cuda:1", "soft", "soft:1". Opening an open device again gives the same
 * handle; every open needs its close. All soft devices of a process share one setting: options that
 * ask for another while one is open give ACRE_E_BUSY.
 * Returns ACRE_E_NO_DRIVER, ACRE_E_DRIVER_OLD, ACRE_E_NO_DEVICE, ACRE_E_CONFIG, ... ; *device is
 * then NULL. */
ACRE_API acre_status acre_open(const char *name, const acre_open_options *options,
                               acre_device **device);

/* Closes a device once. The last close destroys the streams and events that are left, releases the
 * context and invalidates the handle. NULL is a no-op. What the driver refuses to take back is
 * logged and dropped: the handle ends in any case. Sync: on a soft device it waits for queued work;
 * other opens and closes wait meanwhile. Exiting without it is allowed: the library makes no driver
 * call at exit. */
ACRE_API acre_status acre_close(acre_device *device);

/* How many devices the driver "cuda" or "soft" has. For soft: as configured. */
ACRE_API acre_status acre_device_count(const char *driver, uint32_t *count);

/* What a device is and can do. */
typedef struct acre_device_info {
    size_t struct_size; /* set by the caller */
    char driver[16];    /* "cuda" or "soft" */
    char name[128];     /* as the driver gives it */
    char bus_id[32];    /* PCI address, empty where there is none; soft: made up */
    uint8_t uuid[16];
    uint32_t ordinal;           /* the number in "cuda:N" */
    uint32_t driver_version;    /* 13000 = 13.0 */
    uint64_t total_bytes;       /* memory of the device */
    uint64_t free_bytes;        /* free right now, for all processes */
    uint64_t granularity_bytes; /* of physical chunks, 0 without virtual memory management */
    uint32_t compute_major, compute_minor;
    uint32_t multiprocessors;
    uint32_t copy_engines;
    /* Capabilities, each 0 or 1. */
    uint32_t has_vmm;        /* memory can be reserved, created and mapped apart */
    uint32_t has_host_vmm;   /* the same for host memory */
    uint32_t has_fd_sharing; /* chunks can be exported as file descriptors */
    uint32_t has_fabric;     /* chunks can be exported over the fabric, if permitted */
    uint32_t has_rdma;       /* other PCI devices can reach its memory */
    uint32_t has_managed;    /* managed memory, with concurrent access */
    uint32_t is_integrated;  /* shares its memory with the host */
    uint32_t open_count;     /* opens of this handle not yet closed */
} acre_device_info;

ACRE_API acre_status acre_device_get_info(acre_device *device, acre_device_info *info);

/* Waits for all work queued on the device by this process. */
ACRE_API acre_status acre_device_sync(acre_device *device);

/* Releases idle memory, and retries frees that the driver refused earlier (statistic limbo_count, 0
 * when all of it went). Returns the driver's refusal if some of it still stays. */
ACRE_API acre_status acre_trim(acre_device *device);

/* Every statistic of a device: name, meaning. Counts since the device was opened, unless the
 * meaning says otherwise. */
#define ACRE_DEVICE_STATS_LIST(X)                                                                  \
    X(streams_live, "streams made by acre that exist now")                                         \
    X(events_live, "events made by acre that exist now")                                           \
    X(streams_created, "streams made by acre")                                                     \
    X(events_created, "events made by acre")                                                       \
    X(driver_refusals, "driver calls that failed")                                                 \
    X(limbo_count, "things the driver refused to take back, waiting for acre_trim now")            \
    X(limbo_retired, "things that left that list since")                                           \
    X(trims, "calls of acre_trim")                                                                 \
    X(mem_blocks, "blocks of acre_mem_alloc that exist now")                                       \
    X(mem_bytes, "their bytes now, as asked for")                                                  \
    X(mem_registered, "registrations of acre_mem_register that exist now")                         \
    X(copies_direct, "copies given to the driver as they are")                                     \
    X(copies_staged, "copies of pageable memory that acre staged through pinned buffers")          \
    X(staging_bytes, "pinned memory that staging holds now")                                       \
    X(chunks, "chunks of physical memory that exist now")                                          \
    X(chunk_bytes, "their bytes now, cached ones included")                                        \
    X(chunk_cached_bytes, "bytes of chunks that nobody uses, kept for the next one, now")          \
    X(chunks_created, "chunks created")                                                            \
    X(address_bytes, "addresses reserved of the driver now")                                       \
    X(vecs, "vecs that exist now")                                                                 \
    X(vec_moves, "times that a vec or a block was mapped at another range")                        \
    X(grow_copied_bytes, "bytes copied because a vec or a block grew")                             \
    X(shares, "shares that are offered now")                                                       \
    X(imports, "imports that are open now")                                                        \
    X(driver_creates,                                                                              \
      "calls of cuMemCreate on all devices of the driver, since the process began")                \
    X(driver_maps, "the same of cuMemMap")                                                         \
    X(driver_accesses, "the same of cuMemSetAccess")                                               \
    X(driver_unmaps, "the same of cuMemUnmap")                                                     \
    X(driver_releases, "the same of cuMemRelease")                                                 \
    X(driver_allocs, "the same of cuMemAlloc")                                                     \
    X(chunk_created_bytes, "bytes of chunks created since the device was opened")                  \
    X(chunk_released_bytes, "bytes of chunks released since the device was opened")

typedef struct acre_device_stats {
    size_t struct_size; /* set by the caller */
#define ACRE_STATS_FIELD(name, meaning) uint64_t name;
    ACRE_DEVICE_STATS_LIST(ACRE_STATS_FIELD)
#undef ACRE_STATS_FIELD
} acre_device_stats;

ACRE_API acre_status acre_device_get_stats(acre_device *device, acre_device_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
