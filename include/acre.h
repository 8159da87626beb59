/* acre: GPU memory from C.
 *
 * One chapter per object, the simple part first:
 *   1. status and errors      4. streams and events
 *   2. log and configuration  5. housekeeping: trim, statistics
 *   3. devices
 *
 * Conventions. Every fallible function returns an acre_status; results come through the last
 * parameters and are NULL or 0 after a failure. A failed call changes nothing. `acre_last_detail()`
 * has one line that says what went wrong. All functions may be called from any thread unless
 * "Threads" says otherwise, but not from a function that a stream calls (cuLaunchHostFunc): as for
 * CUDA itself, that may wait for ever. No call changes the calling thread's current CUDA context.
 * In a child made by fork after a device was opened, every function that returns a status returns
 * ACRE_E_FORKED (acre_driver NULL): start a new program there instead.
 */
#ifndef ACRE_H
#define ACRE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ACRE_API __attribute__((visibility("default")))
#else
#define ACRE_API
#endif

#define ACRE_VERSION_MAJOR 0
#define ACRE_VERSION_MINOR 1
#define ACRE_VERSION_PATCH 0

/* ---- 1. Status and errors ------------------------------------------------------------------ */

/* Every status: name, value (pinned for good), meaning. */
#define ACRE_STATUS_LIST(X)                                                                        \
    X(ACRE_OK, 0, "success")                                                                       \
    X(ACRE_E_INVALID, -1, "an argument is out of range or does not fit the others")                \
    X(ACRE_E_NULL, -2, "a required pointer argument is NULL")                                      \
    X(ACRE_E_HANDLE, -3, "the handle is not, or no longer, a live object of this library")         \
    X(ACRE_E_OPTIONS, -4, "the options struct has a size or a setting this version does not know") \
    X(ACRE_E_CONFIG, -5, "a configuration variable has a value that cannot be read")               \
    X(ACRE_E_NO_DRIVER, -6, "the driver library is not installed or cannot be loaded")             \
    X(ACRE_E_DRIVER_OLD, -7, "the installed driver is too old")                                    \
    X(ACRE_E_NO_DEVICE, -8, "there is no such device")                                             \
    X(ACRE_E_DEVICE_LOST, -9, "the device failed for good; this process must be restarted")        \
    X(ACRE_E_FORKED, -10, "the library was opened before fork and cannot be used in the child")    \
    X(ACRE_E_HOST_MEMORY, -11, "out of host memory")                                               \
    X(ACRE_E_DEVICE_MEMORY, -12, "out of device memory")                                           \
    X(ACRE_E_ADDRESS_SPACE, -13, "out of addresses")                                               \
    X(ACRE_E_BUSY, -14, "the object is in use in a way that forbids this")                         \
    X(ACRE_E_NOT_READY, -15, "work queued before has not finished yet")                            \
    X(ACRE_E_CAPTURING, -16, "not allowed while the stream is being captured")                     \
    X(ACRE_E_UNSUPPORTED, -17, "this device or driver cannot do that")                             \
    X(ACRE_E_SYSTEM, -18, "the operating system refused")                                          \
    X(ACRE_E_DRIVER, -19, "the driver refused; the detail has its code")

typedef enum acre_status {
#define ACRE_STATUS_ENUM(name, value, text) name = value,
    ACRE_STATUS_LIST(ACRE_STATUS_ENUM)
#undef ACRE_STATUS_ENUM
} acre_status;

/* The meaning of a status in one line; never NULL, also for values that are no status. */
ACRE_API const char *acre_strstatus(acre_status status);

/* The name of a status ("ACRE_E_NULL"); never NULL. */
ACRE_API const char *acre_status_name(acre_status status);

/* One line about the calling thread's last failed call: what was asked, what was wrong, the
 * driver's code if it was the driver. Empty if nothing failed yet. Valid until the thread's next
 * call into acre. */
ACRE_API const char *acre_last_detail(void);

/* The version of the library that is running, "major.minor.patch". */
ACRE_API const char *acre_version(void);

/* ---- 2. Log and configuration -------------------------------------------------------------- */

typedef enum acre_log_level {
    ACRE_LOG_ERROR = 1,
    ACRE_LOG_WARN = 2,
    ACRE_LOG_INFO = 3,
    ACRE_LOG_DEBUG = 4
} acre_log_level;

/* Receives one message without a line end. May be called from any thread, also while the library
 * holds locks: it must not call into acre. */
typedef void (*acre_log_fn)(void *user, acre_log_level level, const char *area, const char *line);

/* Sends messages up to `level` to `fn`; NULL turns the log off. The library never prints anything
 * itself. Threads: set it before other threads use the library. */
ACRE_API acre_status acre_log_set(acre_log_fn fn, void *user, acre_log_level level);

/* The index-th variable that acre reads from the environment, its kind of value ("bytes",
 * "number", "text", "yes or no") and what it does. Returns ACRE_E_INVALID past the last one. */
ACRE_API acre_status acre_config_describe(size_t index, const char **name, const char **kind,
                                          const char **meaning);

/* ---- 3. Devices ---------------------------------------------------------------------------- */

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

/* Gives one open back; the last one destroys what is left of the device's streams and events, gives
 * the context back and ends the handle. NULL is nothing. What the driver refuses to take back is
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
    char bus_id[32];    /* PCI address, empty where there is none */
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

/* The table of driver functions behind a device, for tools that measure or replay driver calls; its
 * type is declared in the library's sources (src/driver/driver.h), not here. NULL for a bad handle.
 */
ACRE_API const struct acre__driver *acre_driver(acre_device *device);

/* ---- 4. Streams and events ----------------------------------------------------------------- */

/* The same types as CUstream, cudaStream_t, CUevent and cudaEvent_t, so that streams of a CUDA
 * program can be passed as they are. NULL is the legacy default stream. Streams made by acre are
 * known to it and checked; others are handed to the driver, which may crash on a dead one. */
typedef struct CUstream_st *acre_stream;
typedef struct CUevent_st *acre_event;

#define ACRE_STREAM_DEFAULT 0u      /* waits for the legacy stream and is waited for by it */
#define ACRE_STREAM_NON_BLOCKING 1u /* independent of the legacy stream */

ACRE_API acre_status acre_stream_create(acre_device *device, uint32_t flags, acre_stream *stream);

/* Ends a stream made by acre_stream_create. Work queued on it still runs. NULL is nothing. If the
 * driver refuses, the stream is kept aside and destroyed by acre_trim; the handle is dead either
 * way. Another handle: ACRE_E_HANDLE. */
ACRE_API acre_status acre_stream_destroy(acre_device *device, acre_stream stream);

/* Waits until everything queued on the stream is done. */
ACRE_API acre_status acre_stream_sync(acre_device *device, acre_stream stream);

/* ACRE_OK when everything queued on the stream is done, else ACRE_E_NOT_READY. */
ACRE_API acre_status acre_stream_query(acre_device *device, acre_stream stream);

/* Makes work queued on `stream` from now on wait for what `event` last recorded; the event may be
 * of another device of the same driver. */
ACRE_API acre_status acre_stream_wait(acre_device *device, acre_stream stream, acre_event event);

/* A number that no other stream of the process has or had, even if the handle is the same. With
 * drivers before CUDA 12.0 only for streams that acre made: ACRE_E_UNSUPPORTED for others. */
ACRE_API acre_status acre_stream_get_id(acre_device *device, acre_stream stream, uint64_t *id);

#define ACRE_EVENT_DEFAULT 0u
#define ACRE_EVENT_TIMING 1u /* can be used with acre_event_elapsed */

ACRE_API acre_status acre_event_create(acre_device *device, uint32_t flags, acre_event *event);

/* Ends an event made by acre_event_create; as acre_stream_destroy. */
ACRE_API acre_status acre_event_destroy(acre_device *device, acre_event event);

/* Marks the work queued on `stream` so far; replaces what the event marked before. */
ACRE_API acre_status acre_event_record(acre_device *device, acre_event event, acre_stream stream);

/* ACRE_OK when the marked work is done (or nothing was marked), else ACRE_E_NOT_READY. */
ACRE_API acre_status acre_event_query(acre_device *device, acre_event event);

/* Waits for the marked work. */
ACRE_API acre_status acre_event_sync(acre_device *device, acre_event event);

/* Milliseconds between two events made with ACRE_EVENT_TIMING, both done. */
ACRE_API acre_status acre_event_elapsed(acre_device *device, acre_event begin, acre_event end,
                                        float *milliseconds);

/* ---- 5. Housekeeping ----------------------------------------------------------------------- */

/* Gives back what can be given back; above all retries what the driver refused to take back
 * earlier (statistic limbo_count, 0 when all of it went). Returns the driver's refusal if some of
 * it still stays. */
ACRE_API acre_status acre_trim(acre_device *device);

/* Every statistic of a device: name, meaning. Counts since the device was opened, unless the
 * meaning says "now". */
#define ACRE_STATS_LIST(X)                                                                         \
    X(streams_live, "streams made by acre that exist now")                                         \
    X(events_live, "events made by acre that exist now")                                           \
    X(streams_created, "streams made by acre")                                                     \
    X(events_created, "events made by acre")                                                       \
    X(driver_refusals, "driver calls that failed")                                                 \
    X(limbo_count, "things the driver refused to take back, waiting for acre_trim now")            \
    X(limbo_retired, "things that left that list since")                                           \
    X(trims, "calls of acre_trim")

typedef struct acre_stats {
    size_t struct_size; /* set by the caller */
#define ACRE_STATS_FIELD(name, meaning) uint64_t name;
    ACRE_STATS_LIST(ACRE_STATS_FIELD)
#undef ACRE_STATS_FIELD
} acre_stats;

ACRE_API acre_status acre_get_stats(acre_device *device, acre_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
