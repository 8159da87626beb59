/* Reads a statistics file: see stats_read.h. */
#include "stats_read.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "watch/publish_folder.h"

static int stats_refuse(const char *path, const char *what) {
    cli_say("%s: %s", path, what);
    return CLI_CANNOT;
}

/* ---- opening ---- */

void stats_text_clean(char *text, size_t room) {
    text[room - 1] = '\0';
    for (char *c = text; *c; c++) {
        *c = *c < ' ' || *c > '~' ? '?' : *c;
    }
}

static const char *names_fault(struct acre__stats_names *names) {
    if (names->count > ACRE__STATS_COUNTERS || !memchr(names->name, '\0', sizeof names->name)) {
        return "damaged: invalid names of counters";
    }
    stats_text_clean(names->name, sizeof names->name);
    for (uint64_t i = 0; i < names->count; i++) {
        if (!memchr(names->counters[i], '\0', sizeof names->counters[i])) {
            return "damaged: the name of a counter is not terminated";
        }
        stats_text_clean(names->counters[i], sizeof names->counters[i]);
    }
    return NULL;
}

/* Checks the header. Returns NULL if it is valid. */
static const char *header_fault(struct acre__stats_header *header, size_t bytes) {
    if (memcmp(header->magic, ACRE__STATS_MAGIC, sizeof header->magic) != 0) {
        return "this is not a statistics file of acre";
    }
    if (header->version != ACRE__STATS_VERSION) {
        return "unsupported format: another version of acre wrote the file";
    }
    if (header->header_bytes != sizeof *header ||
        header->row_bytes != sizeof(struct acre__stats_row) ||
        header->row_count > (bytes - sizeof *header) / sizeof(struct acre__stats_row)) {
        return "damaged: the file is shorter than its header says";
    }
    if (header->row_count > ACRE__STATS_ROWS) {
        return "damaged: more rows than a program writes";
    }
    stats_text_clean(header->library, sizeof header->library);
    stats_text_clean(header->program, sizeof header->program);
    for (unsigned i = 0; i < ACRE__STATS_KINDS; i++) {
        const char *fault = names_fault(&header->kinds[i]);
        if (fault) {
            return fault;
        }
    }
    return NULL;
}

/* Fills the view, which owns the descriptor from then on. Returns NULL, or what is wrong with the
 * file. */
static const char *view_begin(int fd, struct stats_view *view) {
    struct stat now;
    *view = (struct stats_view){.fd = fd};
    if (fstat(fd, &now)) {
        return strerror(errno);
    }
    if (!S_ISREG(now.st_mode) || (size_t)now.st_size < sizeof view->header) {
        return "this is not a statistics file of acre";
    }
    /* Read instead of mapped: if the file is truncated meanwhile, pread fails without SIGBUS. */
    if (pread(fd, &view->header, sizeof view->header, 0) != (ssize_t)sizeof view->header) {
        return "damaged: the file is shorter than its header says";
    }
    return header_fault(&view->header, (size_t)now.st_size);
}

/* Fills the view, or closes the file and says why not. */
static int view_open(const char *path, int fd, struct stats_view *view) {
    const char *fault = view_begin(fd, view);
    if (fault) {
        stats_close(view);
        return stats_refuse(path, fault);
    }
    return CLI_OK;
}

/* Copies standard input to a file in memory: rows are read by their offset. Returns -1 with errno.
 */
static int stdin_copy(void) {
    char bytes[4096];
    size_t left = sizeof(struct acre__stats_header) +
                  (size_t)ACRE__STATS_ROWS * sizeof(struct acre__stats_row);
    int fd = memfd_create("statistics", MFD_CLOEXEC);
    ssize_t got = 1;
    while (fd >= 0 && got > 0 && left > 0) {
        got = read(STDIN_FILENO, bytes, sizeof bytes < left ? sizeof bytes : left);
        if (got < 0 || write(fd, bytes, (size_t)got) != got) {
            close(fd);
            return -1;
        }
        left -= (size_t)got;
    }
    return fd;
}

int stats_open(const char *path, struct stats_view *view) {
    bool is_stdin = strcmp(path, "-") == 0;
    path = is_stdin ? "standard input" : path;
    *view = (struct stats_view){.fd = is_stdin ? stdin_copy()
                                               : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (view->fd < 0) {
        return stats_refuse(path, strerror(errno));
    }
    return view_open(path, view->fd, view);
}

/* Opens a file of the process (/proc/PID/fd/N) if it is a statistics file; else returns -1. */
static int file_of_process(const char *path) {
    char magic[sizeof ACRE__STATS_MAGIC - 1];
    struct stat now;
    /* Opening a pipe or a terminal could have side effects: only regular files are opened. */
    if (stat(path, &now) || !S_ISREG(now.st_mode)) {
        return -1;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && (pread(fd, magic, sizeof magic, 0) != (ssize_t)sizeof magic ||
                    memcmp(magic, ACRE__STATS_MAGIC, sizeof magic) != 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

int stats_open_process(uint64_t pid, struct stats_view *view) {
    char folder[64], path[64 + 256];
    snprintf(folder, sizeof folder, "/proc/%" PRIu64 "/fd", pid);
    DIR *list = opendir(folder);
    if (!list) {
        cli_say("process %" PRIu64 ": %s", pid,
                errno == ENOENT ? "no such process" : strerror(errno));
        return CLI_CANNOT;
    }
    int fd = -1;
    for (const struct dirent *entry; fd < 0 && (entry = readdir(list));) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        fd = file_of_process(path);
    }
    closedir(list);
    if (fd < 0) {
        cli_say("process %" PRIu64 ": keeps no statistics: start it with ACRE_STATS=1", pid);
        return CLI_CANNOT;
    }
    snprintf(path, sizeof path, "process %" PRIu64, pid);
    return view_open(path, fd, view);
}

void stats_close(struct stats_view *view) {
    if (view->fd >= 0) {
        close(view->fd);
    }
    view->fd = -1;
}

/* ---- published files ---- */

enum stats_found stats_open_published(int folder, const char *name, struct stats_view *view) {
    if (!acre__publish_is_name(name)) {
        return acre__publish_remove_dead(folder, name) ? STATS_ENDED : STATS_OTHER;
    }
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        return errno == ENOENT ? STATS_ENDED : STATS_DAMAGED;
    }
    const char *fault = view_begin(fd, view);
    if (!fault && stats_is_running(view)) {
        return STATS_RUNNING;
    }
    stats_close(view);
    return acre__publish_remove_dead(folder, name) || !fault ? STATS_ENDED : STATS_DAMAGED;
}

/* ---- reading ---- */

bool stats_is_running(const struct stats_view *view) {
    if (flock(view->fd, LOCK_SH | LOCK_NB) == 0) {
        flock(view->fd, LOCK_UN);
        return false;
    }
    return errno == EWOULDBLOCK;
}

uint64_t stats_refreshed_ns(const struct stats_view *view) {
    uint64_t ns = 0;
    (void)!pread(view->fd, &ns, sizeof ns,
                 (off_t)offsetof(struct acre__stats_header, refreshed_ns));
    return ns;
}

/* Counts of a tag may be below 0 for a moment: frees of one thread may be added before the allocs
 * of another. */
static void counts_clean(struct acre__stats_row *row) {
    for (size_t i = 0; row->kind == ACRE__STATS_TAG && i < ACRE__STATS_COUNTERS; i++) {
        row->values[i] = row->values[i] > INT64_MAX ? 0 : row->values[i];
    }
}

int stats_row(const struct stats_view *view, size_t index, struct acre__stats_row *row) {
    off_t at = (off_t)(sizeof view->header + index * sizeof *row);
    struct acre__stats_row again;
    if (index >= view->header.row_count) {
        return 0;
    }
    /* A row is consistent if its sequence is even and the same before and after reading. A program
     * that was killed while writing leaves it odd; after 100 tries the row is used as it is. */
    for (unsigned i = 0; i < 100; i++) {
        if (pread(view->fd, row, sizeof *row, at) != (ssize_t)sizeof *row ||
            pread(view->fd, &again, sizeof again.sequence, at) != (ssize_t)sizeof again.sequence) {
            return 0;
        }
        if (row->sequence % 2 == 0 && row->sequence == again.sequence) {
            break;
        }
    }
    stats_text_clean(row->name, sizeof row->name);
    stats_text_clean(row->card, sizeof row->card);
    counts_clean(row);
    return row->kind > ACRE__STATS_NONE && row->kind < ACRE__STATS_KINDS &&
           view->header.kinds[row->kind].count > 0;
}
