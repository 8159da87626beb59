/* The functions that CuPy's CFunctionAllocator calls: libacre_cupy.so, loaded by acre.cupy.
 *
 * CuPy passes the size and the device, but no stream. Like CuPy's own pool, acre gives a block to
 * the stream that is current when the block is allocated, and frees it in the order of that stream,
 * whatever stream is current then. Three things follow:
 *
 * - The allocation asks CuPy for its current stream, by a C function that CuPy's module exports
 *   (acre_cupy_options.current). Without it, every block belongs to the default stream.
 * - A free must know the block's stream. A table has the blocks that do not belong to the default
 *   stream; a program that uses no other stream never searches it.
 * - The stream of a live block must not be destroyed: the driver crashes on a dead handle, and
 * gives it to the next stream while work of the old one still runs. So Python keeps a reference to
 * the stream (acre_cupy_options.met) until its last block is freed and acre_cupy_idle reports it.
 *
 * Per-thread default streams share one handle, but each thread has its own. If another thread frees
 * such a block, the block is freed on the legacy stream, which waits for all of them.
 *
 * Locks: `plug.lock` covers the table and the streams. No other function is called with it held:
 * acre may wait, and Python may collect garbage, which frees blocks. CuPy calls all functions with
 * the interpreter's lock held. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acre.h"

#define API __attribute__((visibility("default")))

enum {
    CARDS = 64,            /* devices, as CuPy numbers them */
    STREAM_LEGACY = 1,     /* CU_STREAM_LEGACY */
    STREAM_PER_THREAD = 2, /* CU_STREAM_PER_THREAD */
    TABLE_LEAST = 256      /* entries of the first table */
};

/* What Python tells once. Every function runs with the interpreter's lock held. */
struct acre_cupy_options {
    size_t struct_size;
    const char *driver;        /* "cuda" or "soft"; copied */
    intptr_t (*current)(void); /* CuPy's current stream, -1 after a Python error; or NULL */
    int (*met)(int device, uintptr_t stream); /* a new stream: keep it; 0 if that failed; or NULL */
    int (*collect)(void); /* out of memory: 1 if garbage was collected; or NULL */
    void (*refuse)(void *type, const char *text); /* PyErr_SetString, or NULL */
    void *memory_error, *other_error;             /* exception types for `refuse` */
};

/* A stream that blocks belong to, other than the legacy stream. */
struct lane {
    struct lane *next;
    acre_stream stream;
    int device;
    uint64_t thread; /* owner of a per-thread stream; else 0 */
    uint64_t live;   /* blocks, and allocations in progress */
};

struct entry {
    void *p; /* NULL: empty */
    struct lane *lane;
};

struct card {
    acre_device *device;
    _Atomic(acre_pool *) pool; /* NULL until the device's first allocation */
};

static struct {
    pthread_mutex_t lock;
    struct acre_cupy_options options;
    char driver[16];
    struct card cards[CARDS];
    struct lane *lanes;
    struct entry *table; /* open addressing; the size is a power of two */
    size_t table_size;
    _Atomic size_t table_count; /* written with the lock held */
    _Atomic uint64_t late_frees, lost_frees;
} plug = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The status of the thread's last allocation, and why it failed if that was not for acre. */
static _Thread_local acre_status last_status;
static _Thread_local const char *own_detail;

/* ---- the table of blocks; lock held ---- */

static size_t table_home(const void *p, size_t size) {
    return (size_t)(((uintptr_t)p >> 8) * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (size - 1);
}

static void table_put(struct entry *table, size_t size, struct entry entry) {
    size_t at = table_home(entry.p, size);
    while (table[at].p)
        at = (at + 1) & (size - 1);
    table[at] = entry;
}

/* Makes room for one more entry. At most half of the table is in use, so searches are short. */
static int table_reserve(void) {
    size_t count = atomic_load_explicit(&plug.table_count, memory_order_relaxed);
    if (plug.table && count < plug.table_size / 2)
        return 1;
    size_t size = plug.table ? 2 * plug.table_size : TABLE_LEAST;
    struct entry *table = calloc(size, sizeof *table);
    if (!table)
        return 0;
    for (size_t i = 0; plug.table && i < plug.table_size; i++)
        if (plug.table[i].p)
            table_put(table, size, plug.table[i]);
    free(plug.table);
    plug.table = table;
    plug.table_size = size;
    return 1;
}

/* Removes a block and returns its lane; NULL if the block is not in the table. */
static struct lane *table_take(const void *p) {
    size_t mask = plug.table_size - 1;
    if (!plug.table)
        return NULL;
    size_t at = table_home(p, plug.table_size);
    while (plug.table[at].p && plug.table[at].p != p)
        at = (at + 1) & mask;
    if (!plug.table[at].p)
        return NULL;
    struct lane *lane = plug.table[at].lane;
    /* Moves later entries back, so that no search ends at the gap. */
    for (size_t next = (at + 1) & mask; plug.table[next].p; next = (next + 1) & mask) {
        size_t home = table_home(plug.table[next].p, plug.table_size);
        if (((next - home) & mask) >= ((next - at) & mask)) {
            plug.table[at] = plug.table[next];
            at = next;
        }
    }
    plug.table[at].p = NULL;
    atomic_fetch_sub_explicit(&plug.table_count, 1, memory_order_relaxed);
    return lane;
}

/* ---- streams ---- */

/* Ids of threads are never used again, unlike those of the system. */
static uint64_t thread_id(void) {
    static _Atomic uint64_t last;
    static _Thread_local uint64_t id;
    if (!id)
        id = 1 + atomic_fetch_add_explicit(&last, 1, memory_order_relaxed);
    return id;
}

static struct lane *lane_find(int device, acre_stream stream, uint64_t thread) {
    struct lane *lane = plug.lanes;
    while (lane && (lane->stream != stream || lane->device != device || lane->thread != thread))
        lane = lane->next;
    return lane;
}

static struct lane *lane_make(int device, acre_stream stream, uint64_t thread) {
    struct lane *lane = calloc(1, sizeof *lane);
    if (!lane)
        return NULL;
    *lane = (struct lane){plug.lanes, stream, device, thread, 0};
    plug.lanes = lane;
    return lane;
}

/* Finds or makes the lane of a stream, and counts one block for it. NULL if Python could not keep
 * the stream, or if out of host memory. */
static struct lane *lane_enter(int device, acre_stream stream) {
    int is_shared = (uintptr_t)stream == STREAM_PER_THREAD;
    uint64_t thread = is_shared ? thread_id() : 0;
    pthread_mutex_lock(&plug.lock);
    struct lane *lane = lane_find(device, stream, thread);
    if (!lane && !is_shared && plug.options.met) {
        pthread_mutex_unlock(&plug.lock);
        if (!plug.options.met(device, (uintptr_t)stream)) {
            own_detail = "CuPy's current stream could not be kept";
            return NULL;
        }
        pthread_mutex_lock(&plug.lock);
        lane = lane_find(device, stream, thread);
    }
    if (!lane && !(lane = lane_make(device, stream, thread)))
        own_detail = "no memory for the record of a stream";
    if (lane)
        lane->live++;
    pthread_mutex_unlock(&plug.lock);
    return lane;
}

static void lane_leave(struct lane *lane) {
    pthread_mutex_lock(&plug.lock);
    lane->live--;
    pthread_mutex_unlock(&plug.lock);
}

/* ---- devices ---- */

static acre_status card_open(int device, acre_pool **pool) {
    char name[32];
    acre_device *opened;
    acre_status status;
    (void)snprintf(name, sizeof name, "%s:%d", plug.driver, device);
    status = acre_open(name, NULL, &opened);
    if (status)
        return status;
    status = acre_pool_default(opened, ACRE_KIND_DEVICE, pool);
    pthread_mutex_lock(&plug.lock);
    int is_first = !status && !plug.cards[device].device;
    if (is_first) {
        plug.cards[device].device = opened;
        atomic_store_explicit(&plug.cards[device].pool, *pool, memory_order_release);
    }
    pthread_mutex_unlock(&plug.lock);
    if (!is_first) /* another thread was faster: both have the same handle */
        (void)acre_close(opened);
    return status;
}

static acre_status card_pool(int device, acre_pool **pool) {
    own_detail = NULL;
    if (device < 0 || device >= CARDS) {
        own_detail = "acre.cupy serves devices 0 to 63";
        return ACRE_E_NO_DEVICE;
    }
    *pool = atomic_load_explicit(&plug.cards[device].pool, memory_order_acquire);
    return *pool ? ACRE_OK : card_open(device, pool);
}

/* ---- allocation ---- */

/* Allocates and records the block's stream. *p is NULL after a failure. */
static acre_status take(int device, size_t bytes, acre_stream stream, void **p) {
    acre_pool *pool;
    struct lane *lane = NULL;
    acre_status status = card_pool(device, &pool);
    *p = NULL;
    if (status)
        return status;
    if ((uintptr_t)stream == STREAM_LEGACY)
        stream = NULL;
    if (!stream)
        return acre_pool_alloc(pool, bytes, 0, NULL, p);
    lane = lane_enter(device, stream);
    if (!lane)
        return ACRE_E_HOST_MEMORY;
    status = acre_pool_alloc(pool, bytes, 0, stream, p);
    if (status || !*p) {
        lane_leave(lane);
        return status;
    }
    pthread_mutex_lock(&plug.lock);
    int has_room = table_reserve();
    if (has_room) {
        table_put(plug.table, plug.table_size, (struct entry){*p, lane});
        atomic_fetch_add_explicit(&plug.table_count, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&plug.lock);
    if (has_room)
        return ACRE_OK;
    own_detail = "no memory for the record of a block";
    (void)acre_pool_free(pool, *p, stream);
    lane_leave(lane);
    *p = NULL;
    return ACRE_E_HOST_MEMORY;
}

static int is_memory(acre_status status) {
    return status == ACRE_E_DEVICE_MEMORY || status == ACRE_E_HOST_MEMORY ||
           status == ACRE_E_ADDRESS_SPACE || status == ACRE_E_LIMIT;
}

/* Writes what went wrong, for an exception: the detail, then the report after out of memory.
 * Returns the bytes that the whole text needs. The detail comes first, since acre_oom_report is a
 * call, too. */
API size_t acre_cupy_describe(acre_status status, char *text, size_t size);
size_t acre_cupy_describe(acre_status status, char *text, size_t size) {
    const char *detail = own_detail ? own_detail : acre_last_detail();
    int used = snprintf(text, size, "%s (%s)", *detail ? detail : acre_status_text(status),
                        acre_status_name(status));
    size_t length = used < 0 ? 0 : (size_t)used, needed = 0;
    if (own_detail || !is_memory(status))
        return length + 1;
    if (acre_oom_report(ACRE_OOM_TEXT, NULL, 0, &needed) != ACRE_OK)
        return length + 1;
    if (length + 1 + needed <= size) {
        text[length] = '\n';
        (void)acre_oom_report(ACRE_OOM_TEXT, text + length + 1, size - length - 1, &needed);
    }
    return length + 1 + needed;
}

static void refuse(acre_status status) {
    char line[512];
    char *text = NULL;
    size_t needed = acre_cupy_describe(status, line, sizeof line);
    if (needed > sizeof line && (text = malloc(needed)))
        (void)acre_cupy_describe(status, text, needed);
    plug.options.refuse(is_memory(status) ? plug.options.memory_error : plug.options.other_error,
                        text ? text : line);
    free(text);
}

/* Allocates on a stream; once more after Python has collected garbage. Returns the status. */
API acre_status acre_cupy_alloc_on(int device, size_t bytes, uintptr_t stream, void **p);
acre_status acre_cupy_alloc_on(int device, size_t bytes, uintptr_t stream, void **p) {
    acre_stream handle = (acre_stream)stream; /* NOLINT(performance-no-int-to-ptr) */
    acre_status status = take(device, bytes, handle, p);
    if (is_memory(status) && plug.options.collect && plug.options.collect())
        status = take(device, bytes, handle, p);
    last_status = status;
    return status;
}

/* Returns the status of the calling thread's last allocation. */
API acre_status acre_cupy_status(void);
acre_status acre_cupy_status(void) {
    return last_status;
}

/* CuPy's malloc. After a failure returns NULL, with a Python exception if `refuse` is set. */
API void *acre_cupy_alloc(void *param, size_t bytes, int device);
void *acre_cupy_alloc(void *param, size_t bytes, int device) {
    void *p;
    intptr_t stream = plug.options.current ? plug.options.current() : 0;
    (void)param;
    if (stream == -1) /* CuPy has set an exception */
        return NULL;
    acre_status status = acre_cupy_alloc_on(device, bytes, (uintptr_t)stream, &p);
    if (status && plug.options.refuse)
        refuse(status);
    return p;
}

/* Returns the lane of a block that is being freed, NULL for the legacy stream. */
static struct lane *lane_of(const void *p) {
    if (!atomic_load_explicit(&plug.table_count, memory_order_relaxed))
        return NULL;
    pthread_mutex_lock(&plug.lock);
    struct lane *lane = table_take(p);
    pthread_mutex_unlock(&plug.lock);
    return lane;
}

/* CuPy's free. It cannot fail: if the pool refuses the stream, the block is freed after all work of
 * the device. A block that cannot be freed at all, for example in a forked child, leaks. */
API void acre_cupy_free(void *param, void *p, int device);
void acre_cupy_free(void *param, void *p, int device) {
    (void)param;
    if (!p || device < 0 || device >= CARDS)
        return;
    struct lane *lane = lane_of(p);
    acre_pool *pool = atomic_load_explicit(&plug.cards[device].pool, memory_order_acquire);
    acre_stream stream =
        lane && (!lane->thread || lane->thread == thread_id()) ? lane->stream : NULL;
    acre_status status = acre_pool_free(pool, p, stream);
    if (status && stream && status != ACRE_E_POINTER) {
        status = acre_device_sync(plug.cards[device].device);
        status = status ? status : acre_pool_free(pool, p, NULL);
        atomic_fetch_add_explicit(&plug.late_frees, 1, memory_order_relaxed);
    }
    if (status)
        atomic_fetch_add_explicit(&plug.lost_frees, 1, memory_order_relaxed);
    if (lane)
        lane_leave(lane);
}

/* ---- for Python ---- */

/* Sets the options. Blocks of an earlier use stay valid. Returns 0 if the options are not those of
 * this library. */
API int acre_cupy_setup(const struct acre_cupy_options *options);
int acre_cupy_setup(const struct acre_cupy_options *options) {
    if (options->struct_size != sizeof *options || strlen(options->driver) >= sizeof plug.driver)
        return 0;
    pthread_mutex_lock(&plug.lock);
    plug.options = *options;
    (void)snprintf(plug.driver, sizeof plug.driver, "%s", options->driver);
    pthread_mutex_unlock(&plug.lock);
    return 1;
}

/* Gets the device and the pool that serve a device of CuPy, which are opened if needed. */
API acre_status acre_cupy_card(int device, acre_device **opened, acre_pool **pool);
acre_status acre_cupy_card(int device, acre_device **opened, acre_pool **pool) {
    acre_status status = card_pool(device, pool);
    *opened = status ? NULL : plug.cards[device].device;
    return status;
}

/* Removes a stream that has no block any more, and returns 1; 0 if there is none. The caller may
 * then drop its reference to the stream. */
API int acre_cupy_idle(int *device, uintptr_t *stream);
int acre_cupy_idle(int *device, uintptr_t *stream) {
    pthread_mutex_lock(&plug.lock);
    struct lane **link = &plug.lanes;
    while (*link && (*link)->live)
        link = &(*link)->next;
    struct lane *lane = *link;
    if (lane) {
        *link = lane->next;
        *device = lane->device;
        *stream = (uintptr_t)lane->stream;
    }
    pthread_mutex_unlock(&plug.lock);
    free(lane);
    return lane != NULL;
}

/* Counts streams with blocks, blocks on them, frees after a wait, and frees that failed. */
API void acre_cupy_count(uint64_t counts[4]);
void acre_cupy_count(uint64_t counts[4]) {
    memset(counts, 0, 4 * sizeof *counts);
    pthread_mutex_lock(&plug.lock);
    for (const struct lane *lane = plug.lanes; lane; lane = lane->next)
        counts[0] += lane->live > 0;
    counts[1] = atomic_load_explicit(&plug.table_count, memory_order_relaxed);
    pthread_mutex_unlock(&plug.lock);
    counts[2] = atomic_load_explicit(&plug.late_frees, memory_order_relaxed);
    counts[3] = atomic_load_explicit(&plug.lost_frees, memory_order_relaxed);
}

/* Fails like an allocation that is refused, to learn whether CuPy raises the exception. */
API void *acre_cupy_probe(void *param, size_t bytes, int device);
void *acre_cupy_probe(void *param, size_t bytes, int device) {
    (void)param, (void)bytes, (void)device;
    plug.options.refuse(plug.options.memory_error, "probe");
    return NULL;
}
