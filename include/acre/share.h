/* Sharing with other processes. Part of acre.h. */
#ifndef ACRE_SHARE_H
#define ACRE_SHARE_H

#include "vec.h"

#ifdef __cplusplus
extern "C" {
#endif

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

/* Ends an offer: nobody can open or refresh it any more; imports stay as they are. NULL is a no-op.
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

/* Closes an import, after the work queued on `stream`. NULL is a no-op. */
ACRE_API acre_status acre_import_close(acre_import *import, acre_stream stream);

/* File descriptors of the chunks behind a block or a shareable vec that begins at `p`, in the order
 * of their addresses, for Vulkan or OpenGL external memory; the caller closes them. `room` is the
 * number of entries in `fds` and `bytes`; *count is the number there are, also when `room` is too
 * small (ACRE_E_RANGE, and none is made). */
ACRE_API acre_status acre_share_export_fds(acre_device *device, void *p, size_t room, int *fds,
                                           uint64_t *bytes, size_t *count);

#ifdef __cplusplus
}
#endif

#endif
