/* acre: GPU memory from C.
 *
 * One chapter per object, the simple part first:
 *   1. status and errors      7. pools: memory in stream order
 *   2. log and configuration  8. arrays that grow in place
 *   3. devices                9. sharing with other processes
 *   4. streams and events    10. memory by hand
 *   5. memory of every kind  11. housekeeping: trim, statistics
 *   6. copies and fills      12. watching: traces, statistics for others
 *                            13. plans: say what you will need
 *
 * Conventions. Every fallible function returns an acre_status; results come through the last
 * parameters and are NULL or 0 after a failure. A failed call changes nothing. `acre_last_detail()`
 * has one line that says what went wrong. All functions may be called from any thread unless
 * "Threads" says otherwise, but not from a function that a stream calls (cuLaunchHostFunc): as for
 * CUDA itself, that may wait for ever. No call changes the calling thread's current CUDA context.
 * In a child made by fork after a device was opened, every function that returns a status returns
 * ACRE_E_FORKED: start a new program there instead.
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
#define ACRE_VERSION_MINOR 2
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
    X(ACRE_E_DRIVER, -19, "the driver refused; the detail has its code")                           \
    X(ACRE_E_POINTER, -20, "the address is not, or no longer, that of a block handed out by acre") \
    X(ACRE_E_INTERIOR, -21, "the address lies inside a block; its first address is needed")        \
    X(ACRE_E_KIND, -22, "the memory is of a kind that this cannot be done with")                   \
    X(ACRE_E_RANGE, -23, "the bytes reach past the end of a block")                                \
    X(ACRE_E_OVERLAP, -24, "source and destination overlap")                                       \
    X(ACRE_E_DIRECTION, -25, "the copy goes another way than was said")                            \
    X(ACRE_E_REGISTERED, -26, "some of the memory is registered or was handed out already")        \
    X(ACRE_E_LIMIT, -27, "a limit that the program set would be exceeded")                         \
    X(ACRE_E_PEER, -28, "the other process may not do that")                                       \
    X(ACRE_E_PROTOCOL, -29, "the other process sent what cannot be understood")                    \
    X(ACRE_E_GONE, -30, "the other process has gone")                                              \
    X(ACRE_E_COMMITTED, -31, "the plan is committed and takes no more wishes")

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

/* ---- 4. Streams and events ----------------------------------------------------------------- */

/* The same types as CUstream, cudaStream_t, CUevent and cudaEvent_t, so that streams of a CUDA
 * program can be passed as they are. NULL is the legacy default stream. Streams made by acre are
 * known to it and checked; others are handed to the driver, which may crash on a dead one. */
typedef struct CUstream_st *acre_stream;
typedef struct CUevent_st *acre_event;

#define ACRE_STREAM_DEFAULT 0u      /* waits for the legacy stream and is waited for by it */
#define ACRE_STREAM_NON_BLOCKING 1u /* independent of the legacy stream */
#define ACRE_STREAM_NO_CAPTURE 2u   /* never captured into a graph: pools need not ask, 30 ns */

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

/* ---- 5. Memory of every kind --------------------------------------------------------------- */

/* Where memory lives and who reaches it. */
typedef enum acre_kind {
    ACRE_KIND_DEVICE = 1,  /* on the device, fastest there; the host cannot touch it */
    ACRE_KIND_PINNED = 2,  /* page-locked host memory: copies at full speed, in the background */
    ACRE_KIND_MAPPED = 3,  /* pinned, and meant to be used by kernels where it is (zero-copy) */
    ACRE_KIND_MANAGED = 4, /* one address for both; pages move to who touches them */
    ACRE_KIND_PAGEABLE = 5 /* any other memory of the program; only told, never handed out */
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

/* Gives memory of acre_mem_alloc back, whatever its kind. NULL is nothing. Like cudaFree it waits
 * for all work of the device queued before, so memory still in use is safe to free.
 * Returns ACRE_E_POINTER (unknown, or freed already), ACRE_E_INTERIOR, ACRE_E_KIND (registered
 * memory), ACRE_E_HANDLE (of another device); nothing is changed then. If the driver refuses, the
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
 * registered or was handed out by acre. Two registrations side by side are not one: a copy may not
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

/* ---- 6. Copies and fills ------------------------------------------------------------------- */

/* Copies between any two addresses, in stream order: device, pinned, mapped, managed and pageable
 * memory on either side, the way found from the addresses. Memory of another device of the same
 * driver may be either side.
 * When it returns: pageable source: it has been read. Pageable destination: the data is there.
 * Otherwise the copy is queued, and both sides must stay as they are until the stream has passed
 * it. Returns ACRE_E_RANGE (past the end of a block that is known), ACRE_E_OVERLAP,
 * ACRE_E_CAPTURING (pageable memory while the stream is captured), ACRE_E_NULL, ACRE_E_HANDLE
 * (stream of another device); nothing was copied then. 0 bytes are fine. */
ACRE_API acre_status acre_copy(acre_device *device, void *to, const void *from, size_t bytes,
                               acre_stream stream);

/* Which way a copy goes. */
typedef enum acre_direction {
    ACRE_HOST_TO_HOST = 1,
    ACRE_HOST_TO_DEVICE = 2,
    ACRE_DEVICE_TO_HOST = 3,
    ACRE_DEVICE_TO_DEVICE = 4
} acre_direction;

/* As acre_copy, and checks that it goes the way that is expected: ACRE_E_DIRECTION otherwise.
 * Managed memory may be either. */
ACRE_API acre_status acre_copy_as(acre_device *device, acre_direction direction, void *to,
                                  const void *from, size_t bytes, acre_stream stream);

/* As acre_copy on the legacy stream, and waits until the data is there. */
ACRE_API acre_status acre_copy_sync(acre_device *device, void *to, const void *from, size_t bytes);

/* Copies `rows` rows of `width` bytes; the first bytes of two rows are a pitch apart. Otherwise as
 * acre_copy. */
ACRE_API acre_status acre_copy_2d(acre_device *device, void *to, size_t to_pitch, const void *from,
                                  size_t from_pitch, size_t width, size_t rows, acre_stream stream);

/* Sets bytes of any memory, in stream order; for pageable memory it returns when they are set. */
ACRE_API acre_status acre_fill(acre_device *device, void *to, uint8_t value, size_t bytes,
                               acre_stream stream);

/* As acre_fill on the legacy stream, and waits until it is done. */
ACRE_API acre_status acre_fill_sync(acre_device *device, void *to, uint8_t value, size_t bytes);

/* ---- 7. Pools: memory in stream order ------------------------------------------------------ */

/* A pool hands out blocks of one kind of memory in tens of nanoseconds, and takes them back in
 * stream order: memory freed on a stream may be used on that stream again at once, elsewhere only
 * after the stream has got there. A block belongs to the work of the stream that it was asked for:
 * other streams may use it after they waited for that one (acre_stream_wait), and must be waited
 * for by it before the block is freed on it, or be named by acre_pool_record_use.
 *
 * Calls that hit the thread's cache take no lock, wait for nothing, and make no driver call but to
 * ask about the stream: whether it is captured, and which one a handle of CUDA's means. Addresses
 * are multiples of 256, of 512 for more than 256 bytes. A block has at most 511 bytes more than
 * requested, or an eighth if it has 4 to 512 KiB. Any thread may free what another allocated. */
typedef struct acre_pool acre_pool;

/* Device memory of the device's default pool. acre_free finds the pool by the address. */
ACRE_API acre_status acre_alloc(acre_device *device, size_t bytes, acre_stream stream, void **p);
ACRE_API acre_status acre_free(void *p, acre_stream stream);

#define ACRE_POOL_ZERO 1u  /* memory is zeroed, in stream order, whenever it is handed out */
#define ACRE_POOL_DEBUG 2u /* logs and counts writes past a block or after its free; slow */

/* Zero in any field means the default. */
typedef struct acre_pool_options {
    size_t struct_size;
    acre_kind kind;         /* device (default), pinned, mapped or managed */
    uint32_t flags;         /* ACRE_POOL_* */
    uint64_t reserve_bytes; /* memory taken at once; none */
    uint64_t soft_bytes;    /* limits, see acre_pool_set_limits; none */
    uint64_t hard_bytes;
} acre_pool_options;

ACRE_API acre_status acre_pool_create(acre_device *device, const acre_pool_options *options,
                                      acre_pool **pool);

/* The pool of a device and kind that acre keeps, made at its first use; it ends with the device. */
ACRE_API acre_status acre_pool_default(acre_device *device, acre_kind kind, acre_pool **pool);

/* Is told of each block that was not freed. Must not call into acre. */
typedef void (*acre_pool_block_fn)(void *user, void *p, size_t bytes);

/* Ends a pool after all work of the device queued before; `leak` (may be NULL) is told of blocks
 * that were not freed, which end with it. NULL is nothing. A default pool: ACRE_E_BUSY. */
ACRE_API acre_status acre_pool_destroy(acre_pool *pool, acre_pool_block_fn leak, void *user);

/* `alignment` is 0 (256) or a power of two up to 1 GiB. ACRE_E_DEVICE_MEMORY, ACRE_E_HOST_MEMORY,
 * ACRE_E_LIMIT, ACRE_E_CAPTURING (the stream's capture has failed; see acre_pool_graph_share). */
ACRE_API acre_status acre_pool_alloc(acre_pool *pool, size_t bytes, size_t alignment,
                                     acre_stream stream, void **p);
ACRE_API acre_status acre_pool_alloc_zeroed(acre_pool *pool, size_t bytes, size_t alignment,
                                            acre_stream stream, void **p);
/* `count` blocks of `bytes` each, all or none. */
ACRE_API acre_status acre_pool_alloc_many(acre_pool *pool, size_t bytes, size_t count,
                                          acre_stream stream, void **blocks);

/* Frees a block in stream order: work queued on `stream` before may still use it. NULL is a no-op.
 * ACRE_E_POINTER (no block, or double free), ACRE_E_INTERIOR, ACRE_E_HANDLE (of another pool). */
ACRE_API acre_status acre_pool_free(acre_pool *pool, void *p, acre_stream stream);
/* Stops at the first block that is refused; *freed (may be NULL) is how many went. */
ACRE_API acre_status acre_pool_free_many(acre_pool *pool, void *const *blocks, size_t count,
                                         acre_stream stream, size_t *freed);
/* Gives a block back that may be used again, on any stream, when `event` has passed. */
ACRE_API acre_status acre_pool_free_after(acre_pool *pool, void *p, acre_event event);

/* Tells the pool that work queued on another stream uses the block: a free waits for that work. */
ACRE_API acre_status acre_pool_record_use(acre_pool *pool, void *p, acre_stream stream);

/* Lets graphs share memory. A block allocated on a captured stream belongs to the graph: the pool
 * reuses it inside the capture, and elsewhere only after it was freed and the graph, its clones and
 * executables are destroyed. Captures of `stream` with the same `key` reuse each other's memory:
 * they must not overlap, and their graphs must be launched in capture order. 0 ends the sharing.
 * Streams that join a capture share once `stream` has allocated. */
ACRE_API acre_status acre_pool_graph_share(acre_pool *pool, acre_stream stream, uint64_t key);
/* Frees the memory of a key whose graphs are not launched any more. Waits if graphs still exist. */
ACRE_API acre_status acre_pool_graph_end(acre_pool *pool, uint64_t key);

/* Another size, by a copy in stream order unless there is room; NULL for `p` is a new block.
 * `stream` must wait for streams that write to the block. After a failure all is as it was. */
ACRE_API acre_status acre_pool_realloc(acre_pool *pool, void *p, size_t bytes, acre_stream stream,
                                       void **new_p);

/* 1 if the address lies in a block of the pool that is handed out. */
ACRE_API int acre_pool_owns(acre_pool *pool, const void *p);
/* Bytes that a block really has, 0 for what is no block. */
ACRE_API size_t acre_pool_usable_size(acre_pool *pool, const void *p);

/* Takes memory ahead, so that `bytes` in all can be handed out without asking the driver. */
ACRE_API acre_status acre_pool_reserve(acre_pool *pool, uint64_t bytes);
/* Gives memory back that is free and not in use by queued work, all threads' caches too, as long as
 * more than `keep_bytes` remain. Waits for nothing; other kinds go back as by acre_mem_free. */
ACRE_API acre_status acre_pool_trim(acre_pool *pool, uint64_t keep_bytes);

/* Calls `fn` for every live block; meanwhile other threads' calls on the pool block. */
ACRE_API acre_status acre_pool_walk(acre_pool *pool, acre_pool_block_fn fn, void *user);

/* Every statistic of a pool: name, meaning. */
#define ACRE_POOL_STATS_LIST(X)                                                                    \
    X(live_blocks, "blocks handed out now")                                                        \
    X(live_bytes, "their bytes now, as they really are")                                           \
    X(held_bytes, "physical memory that the pool has now")                                         \
    X(refills, "times that a thread's cache was filled")                                           \
    X(spills, "times that a part of one was given to the pool")                                    \
    X(events, "events recorded, each for a batch of frees")                                        \
    X(waits, "waits inserted into streams for memory of another one")                              \
    X(overruns, "blocks written past their end (ACRE_POOL_DEBUG)")                                 \
    X(late_writes, "blocks written to after they were freed (ACRE_POOL_DEBUG)")                    \
    X(used_bytes, "bytes handed out or in threads' caches now: what limits count")                 \
    X(soft_bytes, "the soft limit; 0: none")                                                       \
    X(hard_bytes, "the hard limit; 0: none")                                                       \
    X(over_soft, "times that memory was given back beyond the soft limit")                         \
    X(served_caches, "calls without memory that threads' caches served")                           \
    X(served_done, "that memory served which other streams were done with")                        \
    X(served_moved, "that free memory of the pool served, mapped anew")                            \
    X(served_behind, "that memory of another stream served, behind a wait")                        \
    X(served_pools, "that free memory of other pools served")                                      \
    X(served_callback, "that the callback's frees served")                                         \
    X(served_waiting, "that waiting on the host served")                                           \
    X(refused, "calls that nothing served")                                                        \
    X(moved_chunks, "chunks that moved, or were given back so that others could be mapped")        \
    X(held_peak_bytes, "the most physical memory that the pool ever had")

typedef struct acre_pool_stats {
    size_t struct_size; /* set by the caller */
#define ACRE_POOL_STATS_FIELD(name, meaning) uint64_t name;
    ACRE_POOL_STATS_LIST(ACRE_POOL_STATS_FIELD)
#undef ACRE_POOL_STATS_FIELD
} acre_pool_stats;

ACRE_API acre_status acre_pool_get_stats(acre_pool *pool, acre_pool_stats *stats);

/* Tells the pools that a stream is about to be destroyed: what was freed on it is marked by an
 * event and stays safe. Streams of acre_stream_create do it by themselves. */
ACRE_API acre_status acre_stream_retire(acre_device *device, acre_stream stream);

/* Limits, tags, and what happens when there is no memory: the rest of this chapter. */
#include "acre_limits.h"

/* ---- 8. Arrays that grow in place ---------------------------------------------------------- */

/* A vec is a contiguous array of device, pinned or managed memory that grows and shrinks. Its
 * addresses are reserved far ahead, by default as many as the device has memory, and physical
 * memory is put behind them as it grows: nothing is copied, the address stays, and it can become as
 * large as the card.
 *
 * `stream` in these calls is the one whose work uses the vec. Memory is only unmapped after the
 * work queued so far on it, and on every stream named by acre_vec_record_use, is done; no call ever
 * waits for the whole device, but for those that free a block of strategy copy or managed (see
 * acre_mem_free). Calls on one vec may come from several threads; destroying it while another
 * thread uses it is the program's mistake. */
typedef struct acre_vec acre_vec;

/* How a vec gets larger. */
typedef enum acre_vec_strategy {
    ACRE_VEC_AUTO = 0, /* by mapping where the device can, else by copying */
    ACRE_VEC_VMM = 1,  /* by mapping: nothing is copied; ACRE_E_UNSUPPORTED where that is missing */
    ACRE_VEC_COPY = 2, /* by a larger block, to which the contents are copied */
    ACRE_VEC_MANAGED = 3 /* managed memory, taken as far as it was reserved; beyond by copying */
} acre_vec_strategy;

#define ACRE_VEC_SHAREABLE 1u /* other processes can be given it; chunks of 64 MiB and more */
#define ACRE_VEC_RDMA 2u      /* other PCI devices should reach it, where the device can */

/* Zero in any field means the default. */
typedef struct acre_vec_options {
    size_t struct_size;
    acre_kind kind;             /* device (default), pinned or managed */
    acre_vec_strategy strategy; /* managed memory: ACRE_VEC_MANAGED or auto */
    uint64_t reserve_bytes;     /* addresses at first; the device's memory, managed: 256 MiB */
    uint64_t limit_bytes;       /* of physical memory, not counting what is being copied; none */
    uint64_t ahead_bytes;       /* vmm: a thread keeps this much mapped ahead of the size; none */
    uint64_t chunk_bytes;       /* smallest chunk; 2 MiB, shareable: 64 MiB */
    uint32_t flags;             /* ACRE_VEC_* */
    uint32_t reserved;
} acre_vec_options;

/* Makes an empty vec of elements of `element_bytes` each; `options` may be NULL. */
ACRE_API acre_status acre_vec_create(acre_device *device, size_t element_bytes,
                                     const acre_vec_options *options, acre_vec **vec);

/* Ends it after the work queued on `stream`, and all recorded uses, are done. NULL is nothing.
 * ACRE_E_BUSY while it is shared. */
ACRE_API acre_status acre_vec_destroy(acre_vec *vec, acre_stream stream);

/* Where it begins and how many elements it has. The address is NULL before the first element or
 * reservation, and changes only when a call says so. NULL and 0 for what is no vec. */
ACRE_API void *acre_vec_data(const acre_vec *vec);
ACRE_API size_t acre_vec_size(const acre_vec *vec);
/* Elements that the reserved addresses hold. */
ACRE_API size_t acre_vec_capacity(const acre_vec *vec);
/* Bytes of physical memory that it has. */
ACRE_API uint64_t acre_vec_mapped_bytes(const acre_vec *vec);

/* Makes addresses for `count` elements in all; it never gets less. They are extended in place if
 * the next addresses are free, otherwise all memory is mapped at a larger range and the address
 * changes (strategies copy and managed: the contents are copied). */
ACRE_API acre_status acre_vec_reserve(acre_vec *vec, size_t count, acre_stream stream);

/* Adds `count` elements, whose contents are undefined. Past the reservation as acre_vec_reserve.
 * Returns ACRE_E_DEVICE_MEMORY, ACRE_E_HOST_MEMORY, ACRE_E_LIMIT or ACRE_E_ADDRESS_SPACE, with
 * wanted and available bytes in the detail; the vec is then as it was. */
ACRE_API acre_status acre_vec_grow(acre_vec *vec, size_t count, acre_stream stream);

/* Sets the number of elements: as acre_vec_grow or acre_vec_shrink by the difference. */
ACRE_API acre_status acre_vec_resize(acre_vec *vec, size_t count, acre_stream stream);

/* Adds `count` elements and copies them from `from`, which is any memory, in stream order (see
 * acre_copy for when the source may be changed). Physical memory is added by an eighth of what
 * there is at a time, so that many small appends cost few driver calls. */
ACRE_API acre_status acre_vec_append(acre_vec *vec, const void *from, size_t count,
                                     acre_stream stream);

/* Takes the last `count` elements away. Chunks that lie wholly behind the rest, and behind what is
 * to be mapped ahead, are given back, after their uses; the address stays. Strategies copy and
 * managed keep their memory. */
ACRE_API acre_status acre_vec_shrink(acre_vec *vec, size_t count, acre_stream stream);

/* Gives back all chunks that the elements do not need; nothing is mapped ahead until the next grow.
 * Strategies copy and managed keep their memory. */
ACRE_API acre_status acre_vec_shrink_to_fit(acre_vec *vec, acre_stream stream);

/* Takes all elements away and keeps the memory. */
ACRE_API acre_status acre_vec_clear(acre_vec *vec);

/* Says that work queued on `stream` so far uses the vec. Call it after queueing, for every stream
 * but those given to the calls above; also for streams of acre's of another device that was given
 * access (others: ACRE_E_HANDLE). ACRE_E_CAPTURING while the stream is captured. Sync: waits while
 * another thread's call shrinks or moves the vec. */
ACRE_API acre_status acre_vec_record_use(acre_vec *vec, acre_stream stream);

/* Gives another device of the same driver access to all of a vec, now and as it grows, or takes it
 * away. Strategy copy and managed: ACRE_E_UNSUPPORTED. */
ACRE_API acre_status acre_vec_set_access(acre_vec *vec, acre_device *peer, acre_access access);

/* What a vec is and did. */
typedef struct acre_vec_info {
    size_t struct_size; /* set by the caller */
    acre_device *device;
    void *data;
    uint64_t element_bytes;
    uint64_t size, capacity; /* in elements */
    uint64_t mapped_bytes;
    uint64_t chunks;       /* that it is made of */
    uint64_t moves;        /* times that its address changed */
    uint64_t copied_bytes; /* by growing: 0 for strategy vmm */
    acre_kind kind;
    acre_vec_strategy strategy; /* never auto */
} acre_vec_info;

ACRE_API acre_status acre_vec_get_info(const acre_vec *vec, acre_vec_info *info);

/* ---- 9. Sharing with other processes ------------------------------------------------------- */

/* A process offers a vec or a block under the path of a Unix socket, others open it there and have
 * the same memory, without a copy. The open connection is the lease: either process may end at any
 * time without harm to the other, and memory goes when the last one that has it lets it go.
 *
 * Who may connect is decided by user id. That an import is read-only is a courtesy: a process that
 * was given memory could map it writable. Ordering the processes' work is theirs: wait for it
 * before you tell the other. */
typedef struct acre_share acre_share;
typedef struct acre_import acre_import;

#define ACRE_SHARE_READ_ONLY 1u /* importers are asked to map it read-only */

typedef struct acre_share_options {
    size_t struct_size;
    const uint32_t *uids; /* who may open it; NULL: the own user alone */
    uint32_t uid_count;
    uint32_t importers; /* at a time; 16 */
    uint32_t flags;     /* ACRE_SHARE_* */
    uint32_t reserved;
} acre_share_options;

/* Offers a vec made with ACRE_VEC_SHAREABLE, or the block of acre_mem_alloc that begins at `p`,
 * until the share is closed; a thread answers. `path` is created with mode 0600 (0666 where others
 * are allowed) and must not exist (ACRE_E_BUSY); a path that begins with '@' is in the abstract
 * namespace and needs no file. The vec cannot be destroyed, the block not be freed or reallocated
 * meanwhile (ACRE_E_BUSY); a vec may grow, shrink and move. Returns ACRE_E_KIND for managed and
 * pinned memory, for vecs that are not shareable and for blocks below 2 MiB, which share a chunk
 * with others; ACRE_E_UNSUPPORTED where the device cannot share. */
ACRE_API acre_status acre_share_vec(acre_vec *vec, const char *path,
                                    const acre_share_options *options, acre_share **share);
ACRE_API acre_status acre_share_mem(acre_device *device, void *p, const char *path,
                                    const acre_share_options *options, acre_share **share);

/* Ends an offer: nobody can open or refresh it any more; imports stay as they are. NULL is nothing.
 */
ACRE_API acre_status acre_share_close(acre_share *share);

/* Zero in any field means the default. */
typedef struct acre_import_options {
    size_t struct_size;
    const uint32_t *uids; /* whose offers are taken; NULL: the own user's and root's */
    uint32_t uid_count;
    uint32_t wait_ms; /* for the offer, and for each answer of the owner; 5000 */
} acre_import_options;

/* Opens what another process offers; `options` may be NULL.
 * Returns ACRE_E_GONE (nobody offers it, or not any more), ACRE_E_PEER (this user may not, or the
 * owner is one whose offers are not taken), ACRE_E_LIMIT (as many importers as may be),
 * ACRE_E_UNSUPPORTED (memory of another device), ACRE_E_PROTOCOL, ACRE_E_DEVICE_MEMORY, ...; what
 * went wrong at the owner comes with its words. */
ACRE_API acre_status acre_import_open(acre_device *device, const char *path,
                                      const acre_import_options *options, acre_import **import);

/* Sees what the owner has changed since: more memory, or less. Only new chunks are sent. The
 * address stays unless the owner grew past the reservation that it had when the import was opened.
 * Waits for the work queued on `stream` before it unmaps what the owner gave up. ACRE_E_GONE when
 * the owner has ended: what the import has stays good. */
ACRE_API acre_status acre_import_refresh(acre_import *import, acre_stream stream);

typedef struct acre_import_info {
    size_t struct_size; /* set by the caller */
    acre_device *device;
    void *data;
    uint64_t bytes;           /* in use, when it was opened or last refreshed */
    uint64_t mapped_bytes;    /* that the import has */
    uint64_t element_bytes;   /* of a vec; 1 for a block */
    uint64_t refreshed_bytes; /* sent by the last refresh or the opening */
    uint32_t owner_pid;
    uint32_t owner_uid;
    uint32_t is_read_only;
    uint32_t reserved;
} acre_import_info;

ACRE_API acre_status acre_import_get_info(const acre_import *import, acre_import_info *info);

/* Gives it back, after the work queued on `stream`. NULL is nothing. */
ACRE_API acre_status acre_import_close(acre_import *import, acre_stream stream);

/* File descriptors of the chunks behind a block or a shareable vec that begins at `p`, in the order
 * of their addresses, for Vulkan or OpenGL external memory; the caller closes them. `room` is the
 * number of entries in `fds` and `bytes`; *count is the number there are, also when `room` is too
 * small (ACRE_E_RANGE, and none is made). */
ACRE_API acre_status acre_share_export_fds(acre_device *device, void *p, size_t room, int *fds,
                                           uint64_t *bytes, size_t *count);

/* ---- 10. Memory by hand --------------------------------------------------------------------- */

/* The driver's own steps, checked: addresses are reserved, chunks of physical memory created and
 * mapped there, and access is given. The rest of acre is made of the same steps; take these when it
 * does not have what you need.
 *
 * Nothing waits for queued work: memory is pulled from under work that still uses it. What is
 * refused changes nothing and may be tried again. A device that is closed undoes what is left. */
typedef struct acre_vm_chunk acre_vm_chunk;

#define ACRE_VM_HOST 1u      /* of the host's memory instead of the device's */
#define ACRE_VM_SHAREABLE 2u /* can be exported as a file descriptor */
#define ACRE_VM_RDMA 4u      /* other PCI devices should reach it */

/* What sizes and addresses are multiples of; `recommended` may be NULL. ACRE_E_UNSUPPORTED where
 * the device has no memory by hand, or not of that sort. */
ACRE_API acre_status acre_vm_granularity(acre_device *device, uint32_t flags, size_t *minimum,
                                         size_t *recommended);

/* Physical memory of at least `bytes`, rounded up; *real_bytes (may be NULL) is what it became. */
ACRE_API acre_status acre_vm_create(acre_device *device, size_t bytes, uint32_t flags,
                                    acre_vm_chunk **chunk, size_t *real_bytes);

/* A file descriptor for a chunk made with ACRE_VM_SHAREABLE, the caller's to close, and a chunk
 * from another process's descriptor, which stays the caller's. The driver does not tell the size:
 * `bytes` is what the owner said. ACRE_E_KIND for a chunk that was not made to be shared. */
ACRE_API acre_status acre_vm_export(acre_device *device, acre_vm_chunk *chunk, int *fd);
ACRE_API acre_status acre_vm_import(acre_device *device, int fd, size_t bytes,
                                    acre_vm_chunk **chunk);

/* Ends the handle; the memory goes when it is mapped nowhere any more. NULL is nothing. */
ACRE_API acre_status acre_vm_release(acre_device *device, acre_vm_chunk *chunk);

/* Addresses without memory. `bytes` is rounded up to the granularity; `alignment` is 0 or a power
 * of two; `hint` (may be NULL) is where they should begin, and they may begin elsewhere.
 * *real_bytes (may be NULL) is how many there are. */
ACRE_API acre_status acre_vm_reserve(acre_device *device, size_t bytes, size_t alignment,
                                     void *hint, void **address, size_t *real_bytes);

/* Gives a whole reservation back by its first address. NULL is nothing. ACRE_E_BUSY while something
 * is mapped, ACRE_E_INTERIOR, ACRE_E_POINTER (not reserved). */
ACRE_API acre_status acre_vm_address_free(acre_device *device, void *address);

/* Maps a whole chunk inside a reservation; one chunk may be mapped at several places. Nobody has
 * access yet. ACRE_E_RANGE (not wholly inside a reservation), ACRE_E_BUSY (something is mapped
 * there), ACRE_E_INVALID (no multiple of the granularity). */
ACRE_API acre_status acre_vm_map(acre_device *device, void *address, acre_vm_chunk *chunk);

/* Unmaps whole mappings, one behind the other from `address` on. ACRE_E_INTERIOR when one would be
 * cut, ACRE_E_POINTER where there is none. */
ACRE_API acre_status acre_vm_unmap(acre_device *device, void *address, size_t bytes);

/* Gives `peer` (NULL: the host, which reaches host chunks alone) access to mappings, or takes it
 * away, and tells what it has. Whole mappings, as acre_vm_unmap; ACRE_E_KIND for the host and
 * device memory. */
ACRE_API acre_status acre_vm_set_access(acre_device *device, void *address, size_t bytes,
                                        acre_device *peer, acre_access access);
ACRE_API acre_status acre_vm_get_access(acre_device *device, const void *address, acre_device *peer,
                                        acre_access *access);

/* ---- 11. Housekeeping ---------------------------------------------------------------------- */

/* Gives back what can be given back; above all retries what the driver refused to take back
 * earlier (statistic limbo_count, 0 when all of it went). Returns the driver's refusal if some of
 * it still stays. */
ACRE_API acre_status acre_trim(acre_device *device);

/* Every statistic of a device: name, meaning. Counts since the device was opened, unless the
 * meaning says otherwise. */
#define ACRE_STATS_LIST(X)                                                                         \
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

typedef struct acre_stats {
    size_t struct_size; /* set by the caller */
#define ACRE_STATS_FIELD(name, meaning) uint64_t name;
    ACRE_STATS_LIST(ACRE_STATS_FIELD)
#undef ACRE_STATS_FIELD
} acre_stats;

ACRE_API acre_status acre_get_stats(acre_device *device, acre_stats *stats);

/* ---- 12. Watching -------------------------------------------------------------------------- */

/* A trace is a file with everything that pools did: blocks handed out and freed, with sizes, stream
 * and time; physical memory created, mapped, moved and released; waits that were inserted;
 * allocations that failed and why. `acre trace` shows it, `acre replay` plays it again.
 *
 * ACRE_TRACE=file does the same without a line of code, from the first acre_open on. Threads write
 * into a mapped file, so a program that crashes or is killed loses nothing that it has told. */

#define ACRE_TRACE_RING 1u /* at the limit the oldest part is overwritten; else the trace ends */

/* Zero in any field means the default. */
typedef struct acre_trace_options {
    size_t struct_size;
    uint64_t limit_bytes; /* of the file, 1 MiB at least; ACRE_TRACE_BYTES, else 1 GiB */
    uint32_t flags;       /* ACRE_TRACE_* */
    uint32_t reserved;
} acre_trace_options;

/* Begins a trace; `options` may be NULL. In `path`, %p becomes the process's number and %% a %. A
 * trace that is there is replaced; another file is not (ACRE_E_INVALID), nor a trace that another
 * program is writing (ACRE_E_BUSY). ACRE_E_BUSY also while this process has one; ACRE_E_SYSTEM.
 * When the file cannot grow any more the trace ends with a warning in the log, and the program goes
 * on.
 */
ACRE_API acre_status acre_trace_start(const char *path, const acre_trace_options *options);

/* Ends the trace; nothing if there is none. Waits for threads that are writing an event. */
ACRE_API acre_status acre_trace_stop(void);

/* Has the trace written to its disk, so that it also survives the machine; nothing without one. */
ACRE_API acre_status acre_trace_flush(void);

/* Puts a text, of which 200 bytes are kept, into the trace; nothing without one. */
ACRE_API acre_status acre_trace_mark(const char *text);

/* With ACRE_STATS=file, read by the first acre_open, the statistics of all devices and pools are
 * kept in that file, for `acre stats` to show while the program runs. They are written when a
 * thread's cache meets its pool and when a device is opened; this call writes all of them at once.
 * Nothing without ACRE_STATS. */
ACRE_API acre_status acre_stats_export(void);

/* ---- 13. Plans ----------------------------------------------------------------------------- */

#include "acre_plan.h"

#ifdef __cplusplus
}
#endif

#endif
