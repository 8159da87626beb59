/* Shares: offer memory to other processes.
 *
 * A share is a listening socket and the thread that serves it (serve.h). The share pins its block,
 * so that the extent stays valid while the thread reads it; the memory itself may grow, shrink and
 * move meanwhile. Closing a device closes its shares before it destroys the objects that they offer
 * (ACRE__HOOK_ABOVE).
 *
 * Locks: the list's lock guards the list only. */
#include <stdlib.h>
#include <unistd.h>

#include "base/options.h"
#include "base/status.h"
#include "base/thread.h"
#include "device/device.h"
#include "device/live.h"
#include "share/endpoint.h"
#include "share/serve.h"
#include "share/share_hooks.h"
#include "share/wire.h"
#include "space/book.h"
#include "space/extent.h"
#include "vec/vec.h"

enum {
    SHARE_IMPORTERS = 16,        /* default limit of simultaneous importers */
    SHARE_IMPORTERS_MOST = 1024, /* largest limit that the program may set */
    SHARE_UIDS_MOST = 65536
};

struct acre_share {
    struct acre__live live; /* must be first: its address is the handle */
    struct acre__block *block;
    struct acre__endpoint endpoint;
    struct acre__server *server;
};

static struct acre__live_list shares = ACRE__LIVE_LIST("a share", ACRE__RANK_SHARE);

/* ---- devices ---- */

static void share_end(acre_share *share) {
    acre__endpoint_remove(&share->endpoint);
    acre__serve_stop(share->server);
    acre__book_unpin(share->block);
    free(share);
}

static void share_close_device(acre_device *dev) {
    acre_share *share;
    while ((share = acre__live_take_any(&shares, dev)))
        share_end(share);
    acre__import_end_all(dev);
}

static void share_stats(acre_device *dev, acre_device_stats *stats) {
    stats->shares = acre__live_count(&shares, dev);
    stats->imports = acre__import_count(dev);
}

acre_status acre__share_enter(acre_device *dev) {
    static const struct acre__device_hooks hooks = {
        .layer = ACRE__HOOK_ABOVE, .close = share_close_device, .stats = share_stats};
    acre_status status = acre__device_enter(dev);
    if (status == ACRE_OK)
        acre__device_hooks_add(&hooks);
    return status;
}

acre_status acre__share_unit(acre_device *dev, size_t *unit) {
    *unit = dev->info.has_fd_sharing ? acre__chunk_unit(dev, ACRE__CHUNK_SHAREABLE) : 0;
    if (*unit)
        return ACRE_OK;
    return acre__fail(ACRE_E_UNSUPPORTED, "%s cannot share memory with other processes",
                      dev->label);
}

/* ---- checks ---- */

/* Checks that the block is made of exportable chunks. */
static acre_status share_check(const struct acre__block *block) {
    if (block->owner != ACRE__OWNED_BY_MEM && block->owner != ACRE__OWNED_BY_VEC)
        return acre__fail(ACRE_E_KIND, "only vecs and blocks of acre_mem_alloc can be shared");
    if (block->kind != ACRE_KIND_DEVICE)
        return acre__fail(ACRE_E_KIND, "only device memory can be shared");
    if (!block->extent)
        return acre__fail(ACRE_E_KIND, "the block is smaller than a chunk and cannot be exported");
    if (block->owner == ACRE__OWNED_BY_VEC && !(block->flags & ACRE_VEC_SHAREABLE))
        return acre__fail(ACRE_E_KIND, "the vec was created without ACRE_VEC_SHAREABLE");
    return ACRE_OK;
}

/* Returns the pinned block if it can be shared; otherwise unpins it and returns NULL and
 * *status. */
static struct acre__block *share_checked(struct acre__block *block, acre_status *status) {
    size_t unit;
    if (!block)
        return NULL;
    *status = acre__share_unit(block->dev, &unit);
    if (*status == ACRE_OK)
        *status = share_check(block);
    if (*status == ACRE_OK)
        return block;
    acre__book_unpin(block);
    return NULL;
}

/* Pins the block that begins at `p`; NULL and *status if it cannot be shared. */
static struct acre__block *share_pin(acre_device *dev, const void *p, acre_status *status) {
    if (p)
        return share_checked(acre__book_pin(dev, p, status), status);
    *status = acre__fail(ACRE_E_NULL, "the address is NULL");
    return NULL;
}

/* ---- offering ---- */

static acre_status share_options(const acre_share_options *from, acre_share_options *options) {
    acre_status status = acre__options_in(options, sizeof *options, from, "acre_share_options");
    if (status)
        return status;
    if (options->flags & ~ACRE_SHARE_READ_ONLY || options->reserved)
        return acre__fail(ACRE_E_OPTIONS,
                          "acre_share_options: unknown flags 0x%x or reserved field %u not 0",
                          options->flags, options->reserved);
    if (!options->uids != !options->uid_count || options->uid_count > SHARE_UIDS_MOST)
        return acre__fail(ACRE_E_INVALID, "acre_share_options: invalid uids: %u users at %p",
                          options->uid_count, (const void *)options->uids);
    if (options->importers > SHARE_IMPORTERS_MOST)
        return acre__fail(ACRE_E_INVALID, "acre_share_options: %u importers exceed the limit of %d",
                          options->importers, (int)SHARE_IMPORTERS_MOST);
    if (!options->importers)
        options->importers = SHARE_IMPORTERS;
    return ACRE_OK;
}

/* 0666 if other users are allowed: the user id of every connection is checked in any case. */
static mode_t share_mode(const acre_share_options *options) {
    for (uint32_t i = 0; i < options->uid_count; i++)
        if (options->uids[i] != geteuid())
            return 0666;
    return 0600;
}

/* Creates the socket and starts the thread. */
static acre_status share_begin(acre_share *share, const char *path,
                               const acre_share_options *options) {
    int listener = -1;
    uint32_t self = geteuid();
    acre_status status = acre__endpoint_from(path, &share->endpoint);
    if (status == ACRE_OK)
        status = acre__endpoint_listen(&share->endpoint, share_mode(options), &listener);
    if (status)
        return status;
    struct acre__offer offer = {.dev = share->block->dev,
                                .extent = share->block->extent,
                                .flags = options->flags,
                                .importers = options->importers,
                                .uids = options->uids ? options->uids : &self,
                                .uid_count = options->uids ? options->uid_count : 1};
    status = acre__serve_start(&offer, listener, &share->server);
    if (status) {
        acre__endpoint_remove(&share->endpoint);
        close(listener);
    }
    return status;
}

/* Shares a pinned block; unpins it on failure. */
static acre_status share_open(struct acre__block *block, const char *path,
                              const acre_share_options *from, acre_share **out) {
    acre_share_options options;
    acre_share *share = NULL;
    acre_status status = share_options(from, &options);
    if (status)
        goto fail;
    share = calloc(1, sizeof *share);
    if (!share) {
        status = acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of a share");
        goto fail;
    }
    share->block = block;
    status = share_begin(share, path, &options);
    if (status)
        goto fail;
    acre__live_add(&shares, &share->live, block->dev);
    *out = share;
    return ACRE_OK;

fail:
    free(share);
    acre__book_unpin(block);
    return status;
}

static acre_status share_mem(acre_device *device, void *p, const char *path,
                             const acre_share_options *options, acre_share **share) {
    if (share)
        *share = NULL;
    acre_status status = acre__share_enter(device);
    if (status || (status = acre__not_null(share, "acre_share_mem: share")))
        return status;
    struct acre__block *block = share_pin(device, p, &status);
    if (!block)
        return status;
    if (block->owner != ACRE__OWNED_BY_MEM) {
        acre__book_unpin(block);
        return acre__fail(ACRE_E_KIND, "%p belongs to a vec: use acre_share_vec", p);
    }
    /* The block's size cannot change while it is shared. */
    atomic_store_explicit(&block->extent->used_bytes, block->bytes, memory_order_relaxed);
    return share_open(block, path, options, share);
}

acre_status acre_share_mem(acre_device *device, void *p, const char *path,
                           const acre_share_options *options, acre_share **share) {
    return acre__in_call(share_mem(device, p, path, options, share), "acre_share_mem");
}

static acre_status share_vec(acre_vec *vec, const char *path, const acre_share_options *options,
                             acre_share **share) {
    if (share)
        *share = NULL;
    acre_vec_info info = {.struct_size = sizeof info};
    size_t unit;
    acre_status status = acre__enter();
    if (status == ACRE_OK) {
        acre__inner_begin();
        status = acre__inner_end(acre_vec_get_info(vec, &info));
    }
    if (status == ACRE_OK)
        status = acre__share_enter(info.device);
    if (status || (status = acre__not_null(share, "acre_share_vec: share")))
        return status;
    if ((status = acre__share_unit(info.device, &unit)))
        return status;
    struct acre__block *block = share_checked(acre__vec_pin(vec, &status), &status);
    return block ? share_open(block, path, options, share) : status;
}

acre_status acre_share_vec(acre_vec *vec, const char *path, const acre_share_options *options,
                           acre_share **share) {
    return acre__in_call(share_vec(vec, path, options, share), "acre_share_vec");
}

static acre_status share_close(acre_share *share) {
    acre_status status = acre__enter();
    if (status || !share)
        return status;
    share = acre__live_take(&shares, share, &status);
    if (share)
        share_end(share);
    return status;
}

acre_status acre_share_close(acre_share *share) {
    return acre__in_call(share_close(share), "acre_share_close");
}

/* ---- bare descriptors ---- */

static acre_status export_all(const struct acre__taken *taken, int *fds, uint64_t *bytes) {
    for (size_t i = 0; i < taken->count; i++) {
        acre_status status = acre__chunk_export(taken->chunks[i], &fds[i]);
        if (status) {
            acre__wire_close(fds, i);
            for (size_t k = 0; k < taken->count; k++) {
                fds[k] = -1;
                bytes[k] = 0;
            }
            return status;
        }
        bytes[i] = taken->chunks[i]->bytes;
    }
    return ACRE_OK;
}

static acre_status share_export_fds(acre_device *device, void *p, size_t room, int *fds,
                                    uint64_t *bytes, size_t *count) {
    if (count)
        *count = 0;
    acre_status status = acre__share_enter(device);
    if (status)
        return status;
    if (!count || (room && (!fds || !bytes)))
        return acre__fail(ACRE_E_NULL, "acre_share_export_fds: %s is NULL",
                          !count ? "count" : (fds ? "bytes" : "fds"));
    struct acre__taken taken;
    struct acre__block *block = share_pin(device, p, &status);
    if (!block)
        return status;
    status = acre__serve_take(block->extent, &taken);
    if (status == ACRE_OK && taken.count > room) {
        *count = taken.count;
        status = acre__fail(ACRE_E_RANGE, "%zu chunks, but room for only %zu", taken.count, room);
    } else if (status == ACRE_OK) {
        status = export_all(&taken, fds, bytes);
        *count = status ? 0 : taken.count;
    }
    acre__serve_drop(&taken);
    acre__book_unpin(block);
    return status;
}

acre_status acre_share_export_fds(acre_device *device, void *p, size_t room, int *fds,
                                  uint64_t *bytes, size_t *count) {
    return acre__in_call(share_export_fds(device, p, room, fds, bytes, count),
                         "acre_share_export_fds");
}
