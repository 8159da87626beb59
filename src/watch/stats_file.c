/* The statistics file: see stats_file.h and stats_format.h.
 *
 * The file is mapped once and stays mapped until the process ends, so threads may store to rows at
 * any time. A leaf lock guards which rows are in use. A sequence number guards the values of a row:
 * one thread at a time makes it odd. A published file is removed when the process ends. */
#include "watch/stats_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/config.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/own_file.h"
#include "base/parse.h"
#include "base/status.h"
#include "watch/publish_folder.h"
#include "watch/trace.h"
#include "watch/watch_file.h"

enum { STATS_SOURCES = 4 };

_Atomic uint32_t acre__stats_on;

static struct {
    struct acre__lock lock;
    int is_begun;               /* ACRE_STATS was read */
    struct acre__own_file file; /* kept open for its flock, which shows that the program runs */
    struct acre__stats_header *header;
    struct acre__stats_row *rows;
    unsigned tag_rows;
    char published[ACRE__PATH_BYTES]; /* path to remove at exit; empty: none */
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
    stats.published[0] = '\0';
}

/* Without the lock: a thread that was stopped by the exit may have it. */
__attribute__((destructor)) static void stats_unpublish(void) {
    struct stat now;
    if (stats.published[0] && stats.header->pid == (uint32_t)getpid() &&
        lstat(stats.published, &now) == 0 && now.st_ino == stats.file.inode &&
        now.st_dev == stats.file.device)
        unlink(stats.published);
    stats.published[0] = '\0';
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
    static const char *const device[] = {ACRE_DEVICE_STATS_LIST(STATS_NAME)
                                             ACRE__STATS_DEVICE_MORE(STATS_NAME)};
    static const char *const pool[] = {ACRE_POOL_STATS_LIST(STATS_NAME)
                                           ACRE__STATS_POOL_MORE(STATS_NAME)};
    static const char *const tag[] = {ACRE__STATS_TAG_LIST(STATS_NAME)};
    static const char *const memory[] = {ACRE__STATS_MEMORY_LIST(STATS_NAME)};
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
    snprintf(header->program, sizeof header->program, "%s", program_invocation_short_name);
    names_write(&header->kinds[ACRE__STATS_DEVICE], "device", device, DEVICE);
    names_write(&header->kinds[ACRE__STATS_POOL], "pool", pool, POOL);
    names_write(&header->kinds[ACRE__STATS_TAG], "tag", tag, sizeof tag / sizeof *tag);
    names_write(&header->kinds[ACRE__STATS_MEMORY], "memory", memory,
                sizeof memory / sizeof *memory);
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

/* Lock held. Maps the file and begins to keep statistics. Returns 0 or errno; the file is then
 * closed. */
static int stats_use(int fd) {
    int error = stats_map(fd);
    if (!error && pthread_atfork(NULL, NULL, stats_in_child))
        error = ENOMEM;
    if (error) {
        close(fd);
        return error;
    }
    stats.file = acre__own_file(acre__own_file_high(fd));
    acre__watch_add(ACRE__WATCHED_STATS);
    atomic_store_explicit(&acre__stats_on, 1, memory_order_release);
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
    int error = stats_use(fd);
    if (error)
        acre__log(ACRE_LOG_WARN, "stats", "no statistics are written: %.120s: %s", file,
                  strerror(error));
    return ACRE_OK;
}

/* ---- publishing ---- */

/* Lock held. Creates a file in the folder. It gets its name when it is complete and locked. Returns
 * 0 or errno. */
static int publish_in(int folder, const char *path) {
    char fresh[ACRE__PUBLISH_NAME], name[ACRE__PUBLISH_NAME];
    acre__publish_names((long)getpid(), stats_now_ns(), fresh, name);
    int fd = openat(folder, fresh, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return errno;
    int error = flock(fd, LOCK_EX | LOCK_NB) ? errno : stats_use(fd);
    if (!error && renameat(folder, fresh, folder, name))
        error = errno; /* the statistics are kept, and only `acre stats PID` finds them */
    if (error)
        (void)unlinkat(folder, fresh, 0);
    else
        snprintf(stats.published, sizeof stats.published, "%.*s/%s",
                 ACRE__PATH_BYTES - ACRE__PUBLISH_NAME - 2, path, name);
    return error;
}

/* Lock held. Publishing never fails: `acre run` switches it on for programs that know nothing of
 * it. */
static void stats_publish(void) {
    char path[ACRE__PATH_BYTES];
    unsigned index = 0;
    int folder, error = 0;
    while ((folder = acre__publish_folder_next(&index, path)) >= 0) {
        error = publish_in(folder, path);
        acre__publish_sweep(folder);
        close(folder);
        if (!error || stats.header)
            break; /* else try the next one: a container's /dev/shm may be full or read-only */
    }
    if (folder < 0 && !error)
        error = errno;
    stats.is_begun = 1;
    if (folder < 0 && error == EPERM)
        acre__log(ACRE_LOG_WARN, "stats",
                  "no statistics are published: %.120s must be yours and have mode 0700", path);
    else if (error)
        acre__log(ACRE_LOG_WARN, "stats", "no statistics are published: %.120s: %s", path,
                  strerror(error));
}

acre_status acre__stats_begin(void) {
    const char *path = acre__config_string(ACRE__CONFIG_STATS);
    acre_status status = ACRE_OK;
    int is_wanted = 1;
    if (!path)
        return ACRE_OK;
    int is_flag = acre__parse_flag(path, &is_wanted) == 0;
    acre__lock_take(&stats.lock);
    if (!stats.is_begun && is_flag && is_wanted)
        stats_publish();
    else if (!stats.is_begun && !is_flag)
        status = stats_begin(path);
    acre__lock_give(&stats.lock);
    return status;
}

/* ---- rows ---- */

/* Copies a name; of one that is too long the end, which tells tags apart. */
static void name_write(char *out, size_t room, const char *name) {
    size_t length = strlen(name);
    if (length < room)
        memcpy(out, name, length + 1);
    else
        snprintf(out, room, "...%s", name + length - (room - 4));
}

/* Lock held. Returns a row that is not in use, or NULL. */
static struct acre__stats_row *row_find(enum acre__stats_kind kind) {
    if (kind == ACRE__STATS_TAG && stats.tag_rows == ACRE__STATS_TAG_ROWS)
        return NULL;
    for (unsigned i = 0; i < ACRE__STATS_ROWS; i++) {
        if (stats.rows[i].kind == ACRE__STATS_NONE)
            return &stats.rows[i];
    }
    return NULL;
}

struct acre__stats_row *acre__stats_row_take(enum acre__stats_kind kind, uint64_t id,
                                             const char *name) {
    if (!acre__stats_is_on())
        return NULL;
    acre__lock_take(&stats.lock);
    struct acre__stats_row *row = row_find(kind);
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
    name_write(row->name, sizeof row->name, name);
    row->card[0] = '\0';
    stats.tag_rows += kind == ACRE__STATS_TAG;
    __atomic_store_n(&row->kind, kind, __ATOMIC_RELAXED);
    __atomic_store_n(&row->sequence, (sequence | 1) + 1, __ATOMIC_RELEASE);
    acre__lock_give(&stats.lock);
    return row;
}

void acre__stats_row_card(struct acre__stats_row *row, const char *card) {
    if (row && acre__stats_is_on())
        snprintf(row->card, sizeof row->card, "%s", card);
}

void acre__stats_row_give(struct acre__stats_row *row) {
    if (!row || !acre__stats_is_on())
        return;
    acre__lock_take(&stats.lock);
    stats.tag_rows -= row->kind == ACRE__STATS_TAG;
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
