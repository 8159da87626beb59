/* Sharing with other processes. Part of acre.h. */
#ifndef ACRE_SHARE_H
#define ACRE_SHARE_H

#include "vec.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A process shares a vec or a block under the path of a Unix socket. Other processes import it
 * there and access the same memory, without a copy. Either process may end at any time: the other
 * keeps the memory that it has mapped. Without the owner, an import can no longer be refreshed
 * (ACRE_E_GONE). The memory is freed when the last process has released it.
 *
 * User ids decide who may connect. A read-only import is no protection: a process that got the
 * memory could map it writable. The processes must order their work themselves: wait for your work
 * before you notify the other process. */
typedef struct acre_share acre_share;
typedef struct acre_import acre_import;

#define ACRE_SHARE_READ_ONLY 1u /* importers map the memory read-only */

/* Zero in any field means the default. */
typedef struct acre_share_options {
    size_t struct_size;
    const uint32_t *uids; /* user ids that may import the share; default this user only */
    uint32_t uid_count;
    uint32_t importers; /* most importers at a time; default 16 */
    uint32_t flags;     /* ACRE_SHARE_* */
    uint32_t reserved;
} acre_share_options;

/* Shares a vec created with ACRE_VEC_SHAREABLE, until acre_share_close. A thread of acre serves the
 * importers.
 * acre creates `path` with mode 0600, or 0666 if other users are allowed. The path must not exist
 * (ACRE_E_BUSY), but acre replaces a socket of this user that no process listens on. A path that
 * begins with '@' is in the abstract namespace and creates no file.
 * While it is shared, the vec may grow, shrink and move, but acre_vec_destroy returns ACRE_E_BUSY.
 * Returns ACRE_E_KIND for a vec that is not shareable, ACRE_E_UNSUPPORTED if the device cannot
 * share memory. */
ACRE_API acre_status acre_share_vec(acre_vec *vec, const char *path,
                                    const acre_share_options *options, acre_share **share);

/* Shares the block of acre_mem_alloc that begins at `p`. While it is shared, acre_mem_free and
 * acre_mem_realloc return ACRE_E_BUSY for the block. Otherwise like acre_share_vec.
 * Returns ACRE_E_KIND for host and managed memory, and for blocks below 2 MiB, which are not made
 * of chunks. */
ACRE_API acre_status acre_share_mem(acre_device *device, void *p, const char *path,
                                    const acre_share_options *options, acre_share **share);

/* Ends a share: no process can import or refresh it any more. Existing imports keep their memory.
 * NULL is a no-op. */
ACRE_API acre_status acre_share_close(acre_share *share);

/* Zero in any field means the default. */
typedef struct acre_import_options {
    size_t struct_size;
    const uint32_t *uids; /* accepted owners; default this user and root */
    uint32_t uid_count;
    uint32_t
        wait_ms; /* how long to wait for the share, and for each reply of the owner; default 5000 */
} acre_import_options;

/* Imports the memory that another process shares under `path`. acre_import_close closes the import.
 * Returns ACRE_E_GONE (no process shares memory under `path`, or the share has ended), ACRE_E_PEER
 * (this user may not import it, or the owner is not accepted), ACRE_E_LIMIT (too many importers),
 * ACRE_E_UNSUPPORTED (memory of another device), ACRE_E_PROTOCOL, ACRE_E_DEVICE_MEMORY, ... If the
 * error occurred in the owner's process, acre_last_detail() returns the owner's message. */
ACRE_API acre_status acre_import_open(acre_device *device, const char *path,
                                      const acre_import_options *options, acre_import **import);

/* Updates an import after the owner's memory grew or shrank. The owner sends only new chunks.
 * acre_import_open reserves as many addresses as the owner has reserved. If the owner's memory
 * outgrows them, a refresh extends the reservation, and the address of the import may change.
 * Returns ACRE_E_GONE if the owner or its share has ended; the memory of the import stays valid.
 * Sync: before it unmaps memory that the owner released, waits for the work queued on `stream`. */
ACRE_API acre_status acre_import_refresh(acre_import *import, acre_stream stream);

typedef struct acre_import_info {
    size_t struct_size; /* set by the caller */
    acre_device *device;
    void *data;
    uint64_t bytes;           /* used by the owner when the import was last refreshed or opened */
    uint64_t mapped_bytes;    /* physical memory of the import */
    uint64_t element_bytes;   /* of a vec; 1 for a block */
    uint64_t refreshed_bytes; /* sent by the last refresh, or by the opening */
    uint32_t owner_pid;
    uint32_t owner_uid;
    uint32_t is_read_only;
    uint32_t reserved;
} acre_import_info;

/* Gets the properties of an import. */
ACRE_API acre_status acre_import_get_info(const acre_import *import, acre_import_info *info);

/* Closes an import and unmaps its memory. NULL is a no-op.
 * Sync: waits for the work queued on `stream`. */
ACRE_API acre_status acre_import_close(acre_import *import, acre_stream stream);

/* Exports the chunks of a block or shareable vec that begins at `p` as file descriptors, in the
 * order of their addresses, for Vulkan or OpenGL external memory. The caller closes the
 * descriptors. `room` is the number of entries in `fds` and `bytes`; *count is the number of
 * chunks.
 * Returns ACRE_E_RANGE if `room` is too small; *count is set then, and no descriptor is created.
 * After any other failure *count is 0, no descriptor is open, and `fds` may contain -1. */
ACRE_API acre_status acre_share_export_fds(acre_device *device, void *p, size_t room, int *fds,
                                           uint64_t *bytes, size_t *count);

#ifdef __cplusplus
}
#endif

#endif
