/* Blocks of device memory made of chunks: they grow without a copy.
 *
 * A block reserves addresses for four times its size, which cost nothing, so that most
 * reallocations only map another chunk at its end. When these are used up, the block takes the
 * addresses behind it if they are free. Otherwise the block moves: its chunks and some new ones are
 * mapped at another place, then the old mappings are removed. A block is held in the book while it
 * changes, so that no other thread frees or changes it. */
#include <string.h>

#include "base/atomic.h"
#include "base/round.h"
#include "base/status.h"
#include "mem/mem_block.h"
#include "space/extent.h"
#include "space/mapped.h"
#include "space/uses.h"

enum { SPACE_AHEAD = 4 }; /* reserved addresses, as a multiple of the size */

int acre__mem_space_serves(acre_device *dev, size_t bytes) {
    size_t unit = acre__chunk_unit(dev, 0);
    return unit && bytes >= unit;
}

/* ---- allocating ---- */

/* Creates an extent without memory that has addresses for at least `bytes`. */
static acre_status space_open(acre_device *dev, size_t bytes, struct acre__extent **out) {
    size_t ahead = bytes > SIZE_MAX / SPACE_AHEAD ? bytes : SPACE_AHEAD * bytes;
    acre_status status = acre__extent_create(dev, ACRE__CHUNK_SHAREABLE, ahead, out);
    if (status == ACRE_E_ADDRESS_SPACE)
        status = acre__extent_create(dev, ACRE__CHUNK_SHAREABLE, bytes, out);
    return status;
}

acre_status acre__mem_space_make(acre_device *dev, size_t bytes, struct acre__extent **out) {
    *out = NULL;
    acre_status status = space_open(dev, bytes, out);
    if (status == ACRE_OK)
        status = acre__extent_grow(*out, bytes);
    if (status) {
        acre__extent_destroy(*out);
        *out = NULL;
    }
    return status;
}

/* ---- reallocating ---- */

/* A reallocation: the block, its new size, and the stream whose work uses it. */
struct space_change {
    acre_device *dev;
    struct acre__block *block;
    size_t bytes; /* the new size */
    acre_stream stream;
};

/* Shrinks the block; frees the chunks that it no longer needs. */
static acre_status change_shrink(const struct space_change *change) {
    struct acre__extent *extent = change->block->extent;
    const struct acre__mapping *last = extent->mappings[extent->count - 1];
    if (last->at - extent->range.at >= change->bytes) {
        acre_status status = acre__uses_wait_stream(change->dev, change->stream);
        if (status)
            return status;
        (void)acre__extent_shrink(extent, change->bytes);
    }
    acre__book_change(change->block, extent->range.at, change->bytes);
    return ACRE_OK;
}

/* Maps the block at another place and unmaps it at the old one. */
static acre_status change_move(const struct space_change *change) {
    struct acre__extent *old = change->block->extent, *extent;
    struct acre__chunk *list = NULL;
    acre_status status = space_open(change->dev, change->bytes, &extent);
    if (status)
        return status;
    size_t more = acre__round_up(change->bytes - old->mapped, old->unit);
    memcpy(extent->access, old->access, sizeof extent->access);
    extent->access_count = old->access_count;
    status = acre__chunk_cover(old->dev, more, old->least, old->flags, &list);
    if (status == ACRE_OK)
        status = acre__extent_add(extent, acre__extent_chunks(old, 0, old->count, list));
    if (status == ACRE_OK)
        status = acre__uses_wait_stream(change->dev, change->stream);
    if (status) {
        acre__extent_destroy(extent);
        return status;
    }
    change->block->extent = extent;
    acre__book_change(change->block, extent->range.at, change->bytes);
    acre__extent_destroy(old);
    acre__fetch_add(&change->dev->grow_moves, 1, memory_order_relaxed);
    return ACRE_OK;
}

/* Reallocates a block of chunks that is still made of chunks afterwards. */
static acre_status change_chunks(const struct space_change *change) {
    struct acre__extent *extent = change->block->extent;
    if (change->bytes <= extent->mapped)
        return change_shrink(change);
    size_t room = extent->range.bytes;
    if (!acre__extent_extend(extent, change->bytes))
        return change_move(change);
    acre_status status = acre__extent_grow(extent, change->bytes);
    if (status)
        acre__extent_trim_addresses(extent, room);
    if (status == ACRE_E_ADDRESS_SPACE) /* undoing a mapping has cost the extent addresses */
        return change_move(change);
    if (status == ACRE_OK)
        acre__book_change(change->block, extent->range.at, change->bytes);
    return status;
}

/* Reallocates when the old or the new size is below a chunk: another block, and a copy in stream
 * order. */
static acre_status change_copy(const struct space_change *change, void **new_p) {
    void *old = (void *)(uintptr_t)change->block->node.key;
    size_t bytes = change->block->bytes < change->bytes ? change->block->bytes : change->bytes;
    void *p;
    acre_status status = acre_mem_alloc(change->dev, ACRE_KIND_DEVICE, change->bytes, 0, &p);
    if (status)
        return status;
    status = acre_copy(change->dev, p, old, bytes, change->stream);
    if (status) {
        struct acre__said said;
        acre__said_keep(&said);
        (void)acre_mem_free(change->dev, p);
        return acre__said_fail(status, &said);
    }
    acre__fetch_add(&change->dev->grow_copied_bytes, bytes, memory_order_relaxed);
    *new_p = p;
    return ACRE_OK;
}

static acre_status realloc_check_stream(acre_device *dev, acre_stream stream) {
    acre_status status = acre__stream_check(dev, stream);
    return status ? status : acre__stream_not_captured(dev, stream, "the stream is being captured");
}

static acre_status mem_realloc(acre_device *dev, void *p, size_t bytes, acre_stream stream,
                               void **new_p) {
    acre_status status = realloc_check_stream(dev, stream);
    if (status)
        return status;
    struct space_change change = {.dev = dev, .bytes = bytes, .stream = stream};
    change.block = acre__book_hold(dev, p, ACRE__OWNED_BY_MEM, &status);
    if (!change.block)
        return status;
    int is_copied = 0;
    if (change.block->kind != ACRE_KIND_DEVICE) {
        status = acre__fail(ACRE_E_KIND, "%p is not device memory", p);
    } else if ((status = acre__mem_check_size(dev, ACRE_KIND_DEVICE, bytes))) {
        /* more than the device has: nothing that acre releases would help */
    } else if (change.block->source == ACRE__FROM_SPACE && bytes >= change.block->extent->unit) {
        int tries = 0;
        do
            status = change_chunks(&change);
        while (status && acre__device_reclaim(dev, ACRE_KIND_DEVICE, bytes, status, tries++));
        *new_p = status ? NULL : (void *)(uintptr_t)change.block->node.key;
    } else {
        status = change_copy(&change, new_p);
        is_copied = status == ACRE_OK;
    }
    if (!is_copied) {
        acre__book_unpin(change.block);
        return status;
    }
    acre__book_remove_held(change.block);
    acre__limbo_let_go(dev, &change.block->item); /* waits for the copy */
    return ACRE_OK;
}

/* Frees the block for a new size of 0 bytes: such a block is NULL. */
static acre_status realloc_to_nothing(acre_device *dev, void *p, acre_stream stream) {
    acre_mem_info info;
    acre_status status = realloc_check_stream(dev, stream);
    if (status == ACRE_OK && acre__book_find(p, &info) == ACRE__FOUND_LIVE && info.device == dev &&
        !info.pool && !info.is_registered && info.kind != ACRE_KIND_DEVICE)
        status = acre__fail(ACRE_E_KIND, "%p is not device memory", p);
    return status ? status : acre_mem_free(dev, p);
}

acre_status acre_mem_realloc(acre_device *device, void *p, size_t bytes, acre_stream stream,
                             void **new_p) {
    uint64_t seen = acre__resumes();
    if (new_p)
        *new_p = NULL;
    acre_status status = acre__mem_enter(device);
    if (status == ACRE_OK)
        status = acre__not_null(new_p, "new_p");
    acre__inner_begin();
    if (status == ACRE_OK && !p)
        status = acre_mem_alloc(device, ACRE_KIND_DEVICE, bytes, 0, new_p);
    else if (status == ACRE_OK && !bytes)
        status = realloc_to_nothing(device, p, stream);
    else if (status == ACRE_OK)
        do
            status = mem_realloc(device, p, bytes, stream, new_p);
        while (acre__must_retry(status, &seen));
    return acre__in_call(acre__inner_end(status), "acre_mem_realloc");
}

/* ---- peers ---- */

static acre_status mem_set_access(acre_device *device, void *p, acre_device *peer,
                                  acre_access access) {
    acre_status status = acre__mem_enter(device);
    if (status == ACRE_OK)
        status = acre__device_check(peer);
    if (status || (status = acre__not_null(p, "acre_mem_set_access: p")))
        return status;
    if (access != ACRE_ACCESS_NONE && access != ACRE_ACCESS_READ &&
        access != ACRE_ACCESS_READ_WRITE)
        return acre__fail(ACRE_E_INVALID, "acre_mem_set_access: invalid access %d", (int)access);
    struct acre__block *block = acre__book_hold(device, p, ACRE__OWNED_BY_MEM, &status);
    if (!block)
        return status;
    if (block->source == ACRE__FROM_SPACE)
        status = acre__extent_set_access(block->extent, peer, (unsigned)access);
    else
        status = acre__fail(ACRE_E_KIND,
                            "%p is not made of chunks; access can be set only for device blocks of "
                            "at least one chunk",
                            p);
    acre__book_unpin(block);
    return status;
}

acre_status acre_mem_set_access(acre_device *device, void *p, acre_device *peer,
                                acre_access access) {
    return acre__in_call(mem_set_access(device, p, peer, access), "acre_mem_set_access");
}
