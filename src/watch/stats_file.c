/* The statistics file: see stats_file.h and stats_format.h.
 *
 * The file is mapped once and stays mapped until the process ends, so threads may store to rows at
 * any time. A leaf lock guards which rows are in use. A sequence number guards the values of a row:
 * one thread at a time makes it odd. */
#include "watch/stats_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/config.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/own_file.h"
#include "base/parse.h"
#include "base/status.h"
#include "watch/watch_file.h"

enum { STATS_SOURCES = 4 };

_Atomic uint32_t acre__stats_on;

static struct {
    struct acre__lock lock;
    int is_begun;               /* ACRE_STATS was read */
    struct acre__own_file file; /* kept open for its flock, which shows that the program runs */
    struct acre__stats_header *header;
    struct acre__stats_row *rows;
    void (*sources[STATS_SOURCES])(void);
} stats = {.lock = ACRE__LOCK_INIT("statistics", ACRE__RANK_LEAF), .file = ACRE__OWN_FILE_NONE};

static uint64_t stats_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- start ---- */

/* The file belongs to the parent. */
static void stats_in_child(void) {
    atomic_store_explicit(&acre__stats_on, 0, memory_order_relaxed);
    acre__own_file_close(&stats.file);
}

static void names_write(struct acre__stats_names *names, const char *name,
                        const char *const *counters, size_t count) {
    snprintf(names->name, sizeof names->name, "%s", name);
    names->count = count;
    for (size_t i = 0; i < count; i++)
        snprintf(names->counters[i], sizeof names->counters[i], "%s", counters[i]);
}

static void header_write(struct acre__stats_header *header) {
#define STATS_NAME(name, meaning) #name,
    static const char *const device[] = {ACRE_DEVICE_STATS_LIST(STATS_NAME)};
    static const char *const pool[] = {ACRE_POOL_STATS_LIST(STATS_NAME)};
#undef STATS_NAME
    enum { DEVICE = sizeof device / sizeof *device, POOL = sizeof pool / sizeof *pool };
    _Static_assert((int)DEVICE <= (int)ACRE__STATS_COUNTERS, "a device's counters fit into a row");
    _Static_assert((int)POOL <= (int)ACRE__STATS_COUNTERS, "a pool's counters fit into a row");
    header->version = ACRE__STATS_VERSION;
    header->header_bytes = sizeof *header;
    header->row_bytes = sizeof(struct acre__stats_row);
    header->row_count = ACRE__STATS_ROWS;
    header->pid = (uint32_t)getpid();
    header->started_ns = header->refreshed_ns = stats_now_ns();
    snprintf(header->library, sizeof header->library, "%s", acre_version());
    names_write(&header->kinds[ACRE__STATS_DEVICE], "device", device, DEVICE);
    names_write(&header->kinds[ACRE__STATS_POOL], "pool", pool, POOL);
    memcpy(header->magic, ACRE__STATS_MAGIC, sizeof header->magic);
}

/* Lock held. Returns 0 or errno. */
static int stats_map(int fd) {
    size_t bytes =
        sizeof(struct acre__stats_header) + ACRE__STATS_ROWS * sizeof(struct acre__stats_row);
    int error = acre__watch_grow(fd, 0, bytes);
    if (error)
        return error;
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return errno;
    stats.header = map;
    stats.rows = (struct acre__stats_row *)(stats.header + 1);
    header_write(stats.header);
    return 0;
}

/* Lock held. As acre__trace_begin: a bad name is an error, since the user chose it; other failures
 * are warnings. */
static acre_status stats_begin(const char *path) {
    char file[ACRE__PATH_BYTES];
    int fd;
    acre_status status = acre__parse_path(path, strlen(path), file)
                             ? acre__fail(ACRE_E_INVALID, "the name is too long")
                             : acre__watch_open(file, ACRE__STATS_MAGIC, &fd);
    if (status && status != ACRE_E_BUSY)
        return acre__fail(ACRE_E_CONFIG, "ACRE_STATS: %s", acre_last_detail());
    stats.is_begun = 1;
    if (status) {
        acre__log(ACRE_LOG_WARN, "stats", "no statistics are written: %s", acre_last_detail());
        return ACRE_OK;
    }
    int error = stats_map(fd);
    if (error || pthread_atfork(NULL, NULL, stats_in_child)) {
        acre__log(ACRE_LOG_WARN, "stats", "no statistics are written: %.120s: %s", file,
                  strerror(error ? error : ENOMEM));
        close(fd);
        return ACRE_OK;
    }
    stats.file = acre__own_file(fd);
    atomic_store_explicit(&acre__stats_on, 1, memory_order_release);
    return ACRE_OK;
}

acre_status acre__stats_begin(void) {
    const char *path = acre__config_string(ACRE__CONFIG_STATS);
    if (!path)
        return ACRE_OK;
    acre__lock_take(&stats.lock);
    acre_status status = stats.is_begun ? ACRE_OK : stats_begin(path);
    acre__lock_give(&stats.lock);
    return status;
}

/* ---- rows ---- */

struct acre__stats_row *acre__stats_row_take(enum acre__stats_kind kind, uint64_t id,
                                             const char *name) {
    struct acre__stats_row *row = NULL;
    if (!acre__stats_is_on())
        return NULL;
    acre__lock_take(&stats.lock);
    for (unsigned i = 0; i < ACRE__STATS_ROWS && !row; i++)
        row = stats.rows[i].kind == ACRE__STATS_NONE ? &stats.rows[i] : NULL;
    if (!row) {
        stats.header->rows_missing++;
        acre__lock_give(&stats.lock);
        return NULL;
    }
    uint32_t sequence = __atomic_load_n(&row->sequence, __ATOMIC_RELAXED);
    __atomic_store_n(&row->sequence, sequence | 1, __ATOMIC_SEQ_CST);
    row->id = id;
    row->refreshed_ns = stats_now_ns();
    memset(row->values, 0, sizeof row->values);
    snprintf(row->name, sizeof row->name, "%s", name);
    __atomic_store_n(&row->kind, kind, __ATOMIC_RELAXED);
    __atomic_store_n(&row->sequence, (sequence | 1) + 1, __ATOMIC_RELEASE);
    acre__lock_give(&stats.lock);
    return row;
}

void acre__stats_row_give(struct acre__stats_row *row) {
    if (!row || !acre__stats_is_on())
        return;
    acre__lock_take(&stats.lock);
    __atomic_store_n(&row->kind, ACRE__STATS_NONE, __ATOMIC_RELEASE);
    acre__lock_give(&stats.lock);
}

void acre__stats_row_store(struct acre__stats_row *row, const uint64_t *values, unsigned count) {
    if (!row || !acre__stats_is_on())
        return;
    uint32_t sequence = __atomic_load_n(&row->sequence, __ATOMIC_RELAXED);
    if (sequence & 1 || !__atomic_compare_exchange_n(&row->sequence, &sequence, sequence + 1, 0,
                                                     __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        return;
    uint64_t now = stats_now_ns();
    /* Release order, so that a reader sees no new value before it sees the odd sequence. */
    for (unsigned i = 0; i < count && i < ACRE__STATS_COUNTERS; i++)
        __atomic_store_n(&row->values[i], values[i], __ATOMIC_RELEASE);
    __atomic_store_n(&row->refreshed_ns, now, __ATOMIC_RELEASE);
    __atomic_store_n(&row->sequence, sequence + 2, __ATOMIC_RELEASE);
    __atomic_store_n(&stats.header->refreshed_ns, now, __ATOMIC_RELAXED);
}

/* ---- export ---- */

void acre__stats_source_add(void (*fn)(void)) {
    acre__lock_take(&stats.lock);
    unsigned i = 0;
    while (i < STATS_SOURCES && stats.sources[i] && stats.sources[i] != fn)
        i++;
    if (i < STATS_SOURCES)
        stats.sources[i] = fn;
    acre__lock_give(&stats.lock);
}

static acre_status stats_export(void) {
    acre_status status = acre__enter();
    if (status || !acre__stats_is_on())
        return status;
    void (*sources[STATS_SOURCES])(void);
    acre__lock_take(&stats.lock);
    memcpy(sources, stats.sources, sizeof sources);
    acre__lock_give(&stats.lock);
    for (unsigned i = 0; i < STATS_SOURCES && sources[i]; i++)
        sources[i]();
    return ACRE_OK;
}

acre_status acre_stats_export(void) {
    return acre__in_call(stats_export(), "acre_stats_export");
}
