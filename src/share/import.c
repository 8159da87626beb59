/* Imports: memory that other processes share.
 *
 * An import has its own extent, in which the owner's chunks are mapped, a connection to the owner,
 * and a block in the book, so that copies know the memory. A refresh fetches all new chunks
 * (fetch.h) before it changes anything.
 *
 * Invariants: `owner.ids` are the owner's ids of the mapped chunks, in order. The block is in the
 * book while the extent has addresses, and covers the mapped bytes.
 *
 * Locks: a refresh holds the import's lock throughout; the list's lock guards the list only. No
 * thread holds both. */
#include <sched.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/options.h"
#include "base/status.h"
#include "base/thread.h"
#include "device/device.h"
#include "device/live.h"
#include "share/endpoint.h"
#include "share/fetch.h"
#include "share/share_hooks.h"
#include "space/book.h"
#include "space/extent.h"
#include "space/steps.h"
#include "space/uses.h"

enum { IMPORT_WAIT_MS = 5000 };

struct acre_import {
    struct acre__live live;   /* must be first: its address is the handle */
    struct acre__lock lock;   /* guards the rest */
    struct acre__asked owner; /* the connection, and the chunks that are mapped */
    struct acre__block block;
    acre_import_info info; /* except data and mapped_bytes */
};

static struct acre__live_list imports = ACRE__LIVE_LIST("an import", ACRE__RANK_SHARE);

/* ---- extents ---- */

/* Creates an empty extent with `reserve` bytes of addresses; NULL and *status on failure. */
static struct acre__extent *extent_begin(const acre_import *import, size_t reserve,
                                         acre_status *status) {
    acre_device *dev = import->live.dev;
    struct acre__extent *extent;
    *status = acre__extent_create(dev, ACRE__CHUNK_SHAREABLE, reserve, &extent);
    if (*status == ACRE_OK && import->info.is_read_only)
        *status = acre__extent_set_access(extent, dev, CU_MEM_ACCESS_FLAGS_PROT_READ);
    if (*status == ACRE_OK)
        return extent;
    acre__extent_destroy(extent);
    return NULL;
}

/* Sets the block in the book to the extent's current address and `bytes`. */
static void import_book(acre_import *import, size_t bytes) {
    acre__book_change(&import->block, import->owner.extent->range.at, bytes);
}

/* Removes the block from the book. Retries while it is pinned: only a call that is about to reject
 * the block pins it, and only briefly. */
static void import_unbook(acre_import *import) {
    acre_status status = ACRE_E_BUSY;
    void *at = (void *)(uintptr_t)import->block.node.key;
    while (import->block.is_entered && status == ACRE_E_BUSY)
        if (!acre__book_remove(import->live.dev, at, ACRE__OWNED_BY_IMPORT, &status))
            sched_yield();
}

/* ---- changes ---- */

/* Maps the whole view at a new range, as long as the owner's. The old range stays until the new one
 * is complete and the old one's uses are done. */
static acre_status import_move(acre_import *import, struct acre__fetched *fetched,
                               acre_stream stream) {
    struct acre__extent *old = import->owner.extent;
    acre_status status;
    struct acre__extent *fresh = extent_begin(import, fetched->view.reserved_bytes, &status);
    if (!fresh)
        return status;
    struct acre__chunk *list = acre__extent_chunks(old, 0, fetched->view.keep_count, fetched->list);
    fetched->list = NULL; /* the extent owns the list now */
    status = acre__extent_add(fresh, list);
    if (status == ACRE_OK)
        status = acre__uses_wait_stream(import->live.dev, stream);
    if (status) {
        acre__extent_destroy(fresh);
        return status;
    }
    import->owner.extent = fresh;
    import->block.extent = fresh;
    import_book(import, fresh->mapped);
    acre__extent_destroy(old);
    return ACRE_OK;
}

/* Replaces the chunks at the end. New chunks take the addresses of the old ones, so those are
 * unmapped first. If the new ones cannot be mapped, the old ones are mapped again. */
static acre_status import_change(acre_import *import, struct acre__fetched *fetched,
                                 acre_stream stream) {
    struct acre__extent *extent = import->owner.extent;
    size_t keep = fetched->view.keep_count;
    acre_status status =
        keep < extent->count ? acre__uses_wait_stream(import->live.dev, stream) : ACRE_OK;
    if (status)
        return status;
    struct acre__chunk *tail = acre__extent_chunks(extent, keep, extent->count, NULL);
    import_book(import, fetched->kept_bytes);
    (void)acre__extent_shrink(extent, fetched->kept_bytes);
    /* Chunks that the driver refused to unmap still occupy their addresses. */
    if (fetched->view.mapped_bytes > extent->range.bytes || extent->mapped > fetched->kept_bytes) {
        status = import_move(import, fetched, stream);
    } else {
        status = acre__extent_add(extent, fetched->list);
        fetched->list = NULL;
    }
    if (status == ACRE_OK) {
        acre__chunk_drop_list(tail);
        import_book(import, import->owner.extent->mapped);
        return ACRE_OK;
    }
    struct acre__said said;
    acre__said_keep(&said);
    for (size_t i = keep; i < extent->count; i++) { /* still mapped: drops the second use */
        struct acre__chunk *next = tail->next;
        acre__chunk_drop(tail);
        tail = next;
    }
    (void)acre__extent_add(extent, tail); /* if this fails, only the chunks common to both remain */
    import_book(import, extent->mapped);
    return acre__said_fail(status, &said);
}

/* Applies what was fetched to the import. */
static acre_status import_apply(acre_import *import, struct acre__fetched *fetched,
                                acre_stream stream) {
    struct acre__extent *extent = import->owner.extent;
    if (fetched->view.mapped_bytes > extent->range.bytes &&
        !acre__extent_extend(extent, fetched->view.reserved_bytes))
        return import_move(import, fetched, stream);
    return import_change(import, fetched, stream);
}

/* Fetches the owner's current state and applies it. */
static acre_status import_update(acre_import *import, acre_stream stream) {
    struct acre__fetched fetched;
    int is_over;
    acre_status status = acre__fetch(&import->owner, &fetched, &is_over);
    if (is_over) {
        close(import->owner.socket);
        import->owner.socket = -1;
    }
    if (status)
        return status;
    uint64_t refreshed = fetched.view.mapped_bytes - fetched.kept_bytes;
    if (!import->owner.extent) {
        import->info.is_read_only = (fetched.view.flags & ACRE_SHARE_READ_ONLY) != 0;
        import->owner.extent = extent_begin(import, fetched.view.reserved_bytes, &status);
        import->block.extent = import->owner.extent;
    }
    if (import->owner.extent)
        status = import_apply(import, &fetched, stream);
    if (status) {
        acre__fetch_drop(&fetched);
        return status;
    }
    free(import->owner.ids);
    import->owner.ids = fetched.ids;
    import->info.bytes = fetched.view.used_bytes;
    import->info.element_bytes = fetched.view.element_bytes;
    import->info.refreshed_bytes = refreshed;
    return ACRE_OK;
}

/* ---- opening ---- */

/* Frees everything; no other thread knows the import, and its uses are done. */
static void import_end(acre_import *import) {
    import_unbook(import);
    acre__extent_destroy(import->owner.extent);
    if (import->owner.socket >= 0)
        close(import->owner.socket);
    acre__lock_destroy(&import->lock);
    free(import->owner.ids);
    free(import);
}

static acre_import *import_make(acre_device *dev, uint32_t wait_ms, size_t unit) {
    acre_import *import = calloc(1, sizeof *import);
    if (!import)
        return NULL;
    acre__lock_init(&import->lock, "import", ACRE__RANK_SHARE);
    import->live.dev = import->owner.dev = dev;
    import->owner.socket = -1;
    import->owner.wait_ms = wait_ms ? wait_ms : IMPORT_WAIT_MS;
    import->owner.unit = unit;
    import->block.dev = dev;
    import->block.kind = ACRE_KIND_DEVICE;
    import->block.source = ACRE__FROM_SPACE;
    import->block.owner = ACRE__OWNED_BY_IMPORT;
    import->info.struct_size = sizeof import->info;
    import->info.device = dev;
    return import;
}

/* 1 if shares of this user are accepted. Without the check, any user who can create a socket of
 * that name could supply the memory. */
static int owner_is_taken(uint32_t uid, const acre_import_options *options) {
    if (!options->uids)
        return uid == geteuid() || uid == 0;
    uint32_t i = 0;
    while (i < options->uid_count && options->uids[i] != uid)
        i++;
    return i < options->uid_count;
}

static acre_status import_connect(acre_import *import, const struct acre__endpoint *endpoint,
                                  const acre_import_options *options) {
    int64_t deadline_ns = acre__wire_now_ns() + (int64_t)import->owner.wait_ms * 1000000;
    acre_status status = acre__endpoint_connect(endpoint, deadline_ns, &import->owner.socket);
    if (status)
        return status;
    struct ucred owner = {0};
    socklen_t bytes = sizeof owner;
    if (getsockopt(import->owner.socket, SOL_SOCKET, SO_PEERCRED, &owner, &bytes) != 0)
        return acre__wire_system(errno, "getsockopt of the owner's credentials");
    import->info.owner_pid = (uint32_t)owner.pid;
    import->info.owner_uid = (uint32_t)owner.uid;
    if (owner_is_taken(owner.uid, options))
        return ACRE_OK;
    return acre__fail(
        ACRE_E_PEER,
        "the share belongs to user %u, who is not an allowed owner (acre_import_options.uids)",
        (unsigned)owner.uid);
}

static acre_status import_open(acre_device *device, const char *path,
                               const acre_import_options *options, acre_import **out) {
    acre_import_options wishes;
    if (out)
        *out = NULL;
    acre_status status = acre__share_enter(device);
    if (status || (status = acre__not_null(out, "acre_import_open: import")))
        return status;
    if ((status = acre__options_in(&wishes, sizeof wishes, options, "acre_import_options")))
        return status;
    if (!wishes.uids != !wishes.uid_count)
        return acre__fail(ACRE_E_INVALID, "acre_import_options: uids and uid_count do not match");
    struct acre__endpoint endpoint;
    size_t unit;
    status = acre__endpoint_from(path, &endpoint);
    if (status == ACRE_OK)
        status = acre__share_unit(device, &unit);
    if (status)
        return status;
    acre_import *import = import_make(device, wishes.wait_ms, unit);
    if (!import)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of an import");
    status = import_connect(import, &endpoint, &wishes);
    if (status == ACRE_OK)
        status = import_update(import, NULL);
    if (status) {
        import_end(import);
        return status;
    }
    acre__live_add(&imports, &import->live, import->live.dev);
    *out = import;
    return ACRE_OK;
}

acre_status acre_import_open(acre_device *device, const char *path,
                             const acre_import_options *options, acre_import **out) {
    return acre__in_call(import_open(device, path, options, out), "acre_import_open");
}

/* ---- using ---- */

static acre_status import_refresh(acre_import *handle, acre_stream stream) {
    acre_status status;
    acre_import *import = acre__live_use(&imports, handle, &status);
    if (!import)
        return status;
    acre__lock_take(&import->lock);
    status = acre__device_enter(import->live.dev);
    if (status == ACRE_OK)
        status = acre__stream_check(import->live.dev, stream);
    if (status == ACRE_OK)
        status = import->owner.socket < 0
                     ? acre__fail(ACRE_E_GONE, "the owner closed the share or exited")
                     : import_update(import, stream);
    acre__lock_give(&import->lock);
    acre__live_unuse(&imports, &import->live);
    return status;
}

acre_status acre_import_refresh(acre_import *handle, acre_stream stream) {
    return acre__in_call(import_refresh(handle, stream), "acre_import_refresh");
}

static acre_status import_get_info(const acre_import *handle, acre_import_info *info) {
    acre_import_info told = {0};
    acre_status status = acre__options_out(info, sizeof told, &told, "acre_import_info");
    if (status)
        return status;
    acre_import *import = acre__live_use(&imports, handle, &status);
    if (!import)
        return status;
    acre__lock_take(&import->lock);
    told = import->info;
    told.data = (void *)(uintptr_t)import->owner.extent->range.at;
    told.mapped_bytes = import->owner.extent->mapped;
    acre__lock_give(&import->lock);
    acre__live_unuse(&imports, &import->live);
    return acre__options_out(info, sizeof told, &told, "acre_import_info");
}

acre_status acre_import_get_info(const acre_import *handle, acre_import_info *info) {
    return acre__in_call(import_get_info(handle, info), "acre_import_get_info");
}

/* ---- closing ---- */

static acre_status import_close(acre_import *handle, acre_stream stream) {
    acre_status status = acre__enter();
    if (status || !handle)
        return status;
    acre_import *import = acre__live_take(&imports, handle, &status);
    if (!import)
        return status;
    /* A lost device has no work in flight. */
    if (!acre__device_is_lost(import->live.dev))
        status = acre__uses_wait_stream(import->live.dev, stream);
    if (status) {
        acre__live_add(&imports, &import->live, import->live.dev);
        return status;
    }
    import_end(import);
    return ACRE_OK;
}

acre_status acre_import_close(acre_import *handle, acre_stream stream) {
    return acre__in_call(import_close(handle, stream), "acre_import_close");
}

void acre__import_end_all(acre_device *dev) {
    acre_import *import = acre__live_take_any(&imports, dev);
    if (import && !acre__device_is_lost(dev))
        (void)acre__step_quiesce(dev);
    for (; import; import = acre__live_take_any(&imports, dev))
        import_end(import);
}

uint64_t acre__import_count(acre_device *dev) {
    return acre__live_count(&imports, dev);
}
