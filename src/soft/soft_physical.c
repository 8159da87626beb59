/* The soft driver's physical memory: chunks in one sparse memfd per device.
 *
 * The file is twice as large as the device, so that fragmentation rarely leaves no hole for a
 * chunk. used_bytes counts against the device's size. The file is mapped once, for the operations.
 * A chunk that finds no hole, an exported chunk, a host chunk and the memory of a shared pool have
 * their own memfd. Freeing a chunk punches a hole, so the system gets the memory back and later
 * reads return zeros. Guarded by acre__soft.lock. No operation may run during an export, because
 * the chunk's bytes move. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "soft/soft_clock.h"
#include "soft/soft_physical.h"
#include "soft/soft_state.h"
#include "soft/soft_view.h"

/* Prefix of the name of a chunk's own memfd. The name tells an importer that the bytes are a soft
 * chunk, its kind (device, host or pool) and its device. */
#define SOFT_CHUNK_NAME "acre-soft-chunk-"

struct soft_hole {
    struct acre__node node; /* key: offset in the file */
    uint64_t bytes;
};

static struct soft_hole *hole_of(struct acre__node *node) {
    return acre__tree_entry(node, struct soft_hole, node);
}

static int hole_add(struct soft_device *device, uint64_t offset, uint64_t bytes) {
    struct soft_hole *hole = calloc(1, sizeof *hole);
    if (!hole)
        return 0;
    hole->node.key = offset;
    hole->bytes = bytes;
    acre__tree_insert(&device->holes, &hole->node);
    return 1;
}

/* First fit, which keeps the end of the file untouched. Returns -1 if no hole is large enough. */
static int64_t hole_take(struct soft_device *device, uint64_t bytes) {
    struct acre__node *node = acre__tree_first(&device->holes);
    while (node && hole_of(node)->bytes < bytes)
        node = acre__tree_next(&device->holes, node);
    if (!node)
        return -1;
    struct soft_hole *hole = hole_of(node);
    uint64_t offset = node->key;
    acre__tree_remove(&device->holes, node);
    if (hole->bytes == bytes) {
        free(hole);
    } else {
        node->key += bytes;
        hole->bytes -= bytes;
        acre__tree_insert(&device->holes, node);
    }
    return (int64_t)offset;
}

static void hole_give(struct soft_device *device, uint64_t offset, uint64_t bytes) {
    if (fallocate(device->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
                  (off_t)bytes))
        memset(device->alias + offset, 0, bytes);
    struct soft_hole *before = hole_of(acre__tree_floor(&device->holes, offset));
    struct soft_hole *after = hole_of(acre__tree_find(&device->holes, offset + bytes));
    if (before && before->node.key + before->bytes == offset) {
        before->bytes += bytes;
    } else if (hole_add(device, offset, bytes)) {
        before = hole_of(acre__tree_find(&device->holes, offset));
    } else {
        return; /* no memory for a record: the file offset leaks, the bytes do not */
    }
    if (after) {
        before->bytes += after->bytes;
        acre__tree_remove(&device->holes, &after->node);
        free(after);
    }
}

/* Creates a sparse file of that size and maps it. Returns 0 on failure. */
static int file_make(const char *name, uint64_t bytes, unsigned flags, int *fd, char **alias) {
    /* Beyond this limit ftruncate does not fail but sends a fatal signal. */
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        bytes > limit.rlim_cur)
        return 0;
    *fd = memfd_create(name, MFD_CLOEXEC | flags);
    if (*fd < 0)
        return 0;
    if (ftruncate(*fd, (off_t)bytes) == 0) {
        void *mapped =
            mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, *fd, 0);
        if (mapped != MAP_FAILED) {
            *alias = mapped;
            return 1;
        }
    }
    close(*fd);
    *fd = -1;
    return 0;
}

CUresult acre__soft_device_start(struct soft_device *device) {
    if (device->fd >= 0)
        return CUDA_SUCCESS;
    uint64_t bytes = acre__soft.config.bytes * 2;
    while (!file_make("acre-soft-device", bytes, 0, &device->fd, &device->alias)) {
        bytes /= 2;
        if (bytes < acre__soft.config.bytes) {
            acre__log(ACRE_LOG_WARN, "soft",
                      "cannot create and map a file of %llu bytes for the soft device's memory "
                      "(limits: ulimit -f, -v, -n); set a smaller ACRE_SOFT_BYTES",
                      (unsigned long long)acre__soft.config.bytes);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    device->file_bytes = bytes;
    if (!hole_add(device, 0, bytes)) {
        munmap(device->alias, bytes);
        close(device->fd);
        device->fd = -1;
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

void acre__soft_device_forget(struct soft_device *device) {
    if (device->fd < 0)
        return;
    struct acre__node *node;
    while ((node = acre__tree_first(&device->holes))) {
        acre__tree_remove(&device->holes, node);
        free(hole_of(node));
    }
    munmap(device->alias, device->file_bytes);
    close(device->fd);
    device->fd = -1;
}

/* Creates a record for `bytes` that has no memory yet. */
static struct soft_backing *backing_new(int device, size_t bytes) {
    struct soft_backing *backing = calloc(1, sizeof *backing);
    if (!backing)
        return NULL;
    backing->id = acre__soft_next_id();
    backing->device = device;
    backing->bytes = bytes;
    backing->fd = -1;
    backing->refs = 1;
    return backing;
}

/* Registers a chunk with a memfd under its inode. No other memfd has the same inode while it
 * exists. */
static void backing_file_add(struct soft_backing *backing) {
    struct stat info;
    if (fstat(backing->fd, &info))
        return;
    backing->file.key = (uint64_t)info.st_ino;
    acre__tree_insert(&acre__soft.files, &backing->file);
}

static void backing_file_remove(struct soft_backing *backing) {
    if (acre__tree_find(&acre__soft.files, backing->file.key) == &backing->file)
        acre__tree_remove(&acre__soft.files, &backing->file);
}

/* Creates the chunk's own memfd. Its size is sealed, so that an importer never faults on it. */
static int backing_own_file(struct soft_backing *backing, char where) {
    char name[64];
    snprintf(name, sizeof name, SOFT_CHUNK_NAME "%c%d", where, backing->device);
    if (!file_make(name, backing->bytes, MFD_ALLOW_SEALING, &backing->fd, &backing->alias))
        return 0;
    fcntl(backing->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    backing->alias_bytes = backing->bytes;
    backing_file_add(backing);
    return 1;
}

CUresult acre__soft_backing_create(struct soft_device *device, size_t bytes,
                                   struct soft_backing **out) {
    if (bytes > acre__soft.config.bytes - device->used_bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct soft_backing *backing = backing_new(soft_ordinal(device), bytes);
    if (!backing)
        return CUDA_ERROR_OUT_OF_MEMORY;
    int64_t offset = hole_take(device, bytes);
    if (offset >= 0) {
        backing->file_offset = (uint64_t)offset;
        backing->alias = device->alias + offset;
    } else if (!backing_own_file(backing, 'd')) {
        free(backing);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    backing->is_charged = 1;
    device->used_bytes += bytes;
    *out = backing;
    return CUDA_SUCCESS;
}

CUresult acre__soft_backing_create_host(struct soft_device *device, size_t bytes,
                                        struct soft_backing **out) {
    struct soft_backing *backing = backing_new(soft_ordinal(device), bytes);
    if (!backing)
        return CUDA_ERROR_OUT_OF_MEMORY;
    backing->is_host = 1;
    if (!backing_own_file(backing, 'h')) {
        free(backing);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = backing;
    return CUDA_SUCCESS;
}

CUresult acre__soft_backing_create_shared(struct soft_device *device, size_t bytes,
                                          struct soft_backing **out) {
    struct soft_backing *backing = backing_new(soft_ordinal(device), bytes);
    if (!backing)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!backing_own_file(backing, 'p')) {
        free(backing);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = backing;
    return CUDA_SUCCESS;
}

CUresult acre__soft_backing_wrap(int device, void *bytes_at, size_t bytes,
                                 struct soft_backing **out) {
    struct soft_backing *backing = backing_new(device, bytes);
    if (!backing)
        return CUDA_ERROR_OUT_OF_MEMORY;
    backing->is_host = 1;
    backing->alias = bytes_at;
    *out = backing;
    return CUDA_SUCCESS;
}

/* Copies the written parts of the chunk from the device's file into its own. */
static void backing_copy_data(const struct soft_device *device, uint64_t offset, size_t bytes,
                              char *to) {
    off_t end = (off_t)(offset + bytes);
    off_t at = lseek(device->fd, (off_t)offset, SEEK_DATA);
    while (at >= 0 && at < end) {
        off_t hole = lseek(device->fd, at, SEEK_HOLE);
        if (hole < 0 || hole > end)
            hole = end;
        memcpy(to + ((uint64_t)at - offset), device->alias + at, (size_t)(hole - at));
        at = lseek(device->fd, hole, SEEK_DATA);
    }
}

CUresult acre__soft_backing_to_fd(struct soft_backing *backing) {
    if (backing->fd >= 0)
        return CUDA_SUCCESS;
    struct soft_device *device = &acre__soft.devices[backing->device];
    uint64_t offset = backing->file_offset;
    if (!backing_own_file(backing, backing->is_host ? 'h' : 'd'))
        return CUDA_ERROR_OUT_OF_MEMORY;
    backing_copy_data(device, offset, backing->bytes, backing->alias);
    hole_give(device, offset, backing->bytes);
    /* With a seed, a kernel may be between two of its steps and needs the new views. */
    return acre__soft_views_update() ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Returns the size of a soft chunk whose file cannot change its size, or 0 for any other
 * descriptor. */
static size_t chunk_file_bytes(int fd, const char *kinds, uint64_t *inode, char *where,
                               int *device) {
    char path[64], target[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(path, target, sizeof target - 1);
    target[length < 0 ? 0 : length] = 0;
    if (sscanf(target, "/memfd:" SOFT_CHUNK_NAME "%c%2d", where, device) != 2 ||
        !strchr(kinds, *where))
        return 0;
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat info;
    if (seals < 0 || (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW) ||
        fstat(fd, &info) || info.st_size <= 0 || (size_t)info.st_size % SOFT_CHUNK_BYTES)
        return 0;
    *inode = (uint64_t)info.st_ino;
    return (size_t)info.st_size;
}

static CUresult backing_from_fd(int fd, const char *kinds, struct soft_backing **out) {
    uint64_t inode;
    char where;
    int device;
    size_t bytes = chunk_file_bytes(fd, kinds, &inode, &where, &device);
    if (!bytes)
        return CUDA_ERROR_UNKNOWN; /* as the real driver returns for an unknown descriptor */
    struct soft_backing *backing =
        acre__tree_entry(acre__tree_find(&acre__soft.files, inode), struct soft_backing, file);
    if (backing) {
        acre__soft_backing_keep(backing);
        *out = backing;
        return CUDA_SUCCESS;
    }
    backing = backing_new(acre__soft_device_at(device) ? device : 0, bytes);
    if (!backing)
        return CUDA_ERROR_OUT_OF_MEMORY;
    backing->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    void *mapped = backing->fd < 0 ? MAP_FAILED
                                   : mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                          MAP_SHARED | MAP_NORESERVE, backing->fd, 0);
    if (mapped == MAP_FAILED) {
        if (backing->fd >= 0)
            close(backing->fd);
        free(backing);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    backing->alias = mapped;
    backing->alias_bytes = bytes;
    backing_file_add(backing);
    backing->prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    backing->is_host = where == 'h';
    backing->prop.location.type =
        backing->is_host ? CU_MEM_LOCATION_TYPE_HOST_NUMA : CU_MEM_LOCATION_TYPE_DEVICE;
    backing->prop.location.id = backing->is_host ? 0 : backing->device;
    backing->prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    *out = backing;
    return CUDA_SUCCESS;
}

CUresult acre__soft_backing_from_fd(int fd, struct soft_backing **out) {
    return backing_from_fd(fd, "dh", out);
}

CUresult acre__soft_backing_from_pool_fd(int fd, struct soft_backing **out) {
    return backing_from_fd(fd, "p", out);
}

/* Returns the file that has the bytes at `offset`, and where, or -1 for the program's own pages. */
static int backing_file(const struct soft_backing *backing, size_t offset, off_t *at) {
    const struct soft_device *device = &acre__soft.devices[backing->device];
    *at = (off_t)offset;
    if (backing->fd >= 0)
        return backing->fd;
    *at += (off_t)backing->file_offset;
    return device->fd >= 0 && backing->alias == device->alias + backing->file_offset ? device->fd
                                                                                     : -1;
}

int acre__soft_backing_has_file(const struct soft_backing *backing) {
    off_t at;
    return backing_file(backing, 0, &at) >= 0;
}

/* Does not look for the end of what has memory: that takes a step per page, far beyond `bytes`. */
size_t acre__soft_backing_run(const struct soft_backing *backing, size_t offset, size_t bytes,
                              int *is_zero) {
    off_t at;
    int fd = backing_file(backing, offset, &at);
    off_t end = fd < 0 ? -1 : lseek(fd, at, SEEK_DATA);
    *is_zero = 0;
    if (end == at)
        end += SOFT_RUN_BYTES;
    else
        *is_zero = fd >= 0 && (end > at || errno == ENXIO);
    return end > at && (size_t)(end - at) < bytes ? (size_t)(end - at) : bytes;
}

static int is_zeros(const char *at, size_t bytes) {
    return !at[0] && memcmp(at, at + 1, bytes - 1) == 0;
}

/* Writes what it can to pages that have no memory: zeros need none, and other bytes are written by
 * the file, since each new page of the mapping takes a page fault and is cleared first. Returns 0
 * if the bytes must go through the mapping. */
static int backing_write_new(const struct soft_backing *backing, size_t offset, const char *from,
                             size_t bytes) {
    off_t at;
    int fd = backing_file(backing, offset, &at);
    return is_zeros(from, bytes) || pwrite(fd, from, bytes, at) == (ssize_t)bytes;
}

void acre__soft_backing_write(const struct soft_backing *backing, size_t offset, const char *from,
                              size_t bytes) {
    int is_apart = (uintptr_t)from - (uintptr_t)backing->alias >= backing->bytes;
    if (bytes < SOFT_RUN_BYTES || !is_apart || backing->is_host) {
        memmove(backing->alias + offset, from, bytes);
        return;
    }
    for (size_t done = 0, here; done < bytes; done += here) {
        int is_new;
        here = bytes - done < SOFT_RUN_BYTES ? bytes - done : SOFT_RUN_BYTES;
        here = acre__soft_backing_run(backing, offset + done, here, &is_new);
        if (!is_new || !backing_write_new(backing, offset + done, from + done, here))
            memcpy(backing->alias + offset + done, from + done, here);
    }
}

void acre__soft_backing_keep(struct soft_backing *backing) {
    backing->refs++;
}

void acre__soft_backing_drop(struct soft_backing *backing) {
    if (!backing || --backing->refs)
        return;
    struct soft_device *device = &acre__soft.devices[backing->device];
    acre__soft_clock_forget(backing);
    if (backing->alias_bytes)
        munmap(backing->alias, backing->alias_bytes);
    if (backing->fd >= 0) {
        backing_file_remove(backing);
        close(backing->fd);
    } else if (backing->is_charged) {
        hole_give(device, backing->file_offset, backing->bytes);
    }
    if (backing->is_charged)
        device->used_bytes -= backing->bytes;
    free(backing);
}
