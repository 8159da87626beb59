/* The book of blocks: see book.h. */
#include "space/book.h"

#include "base/atomic.h"
#include "base/lock.h"
#include "base/status.h"
#include "base/thread.h"
#include "device/device.h"
#include "space/gone.h"
#include "watch/origin.h"

static struct {
    struct acre__lock lock;
    struct acre__tree blocks;
} book = {.lock = ACRE__LOCK_INIT("book", ACRE__RANK_BOOK)};

static struct acre__block *block_of(struct acre__node *node) {
    return acre__tree_entry(node, struct acre__block, node);
}

/* Lock held: looks up the block that contains the address. A block without bytes (an empty vec)
 * contains its first address. */
static struct acre__block *book_find(uint64_t address) {
    struct acre__block *block = block_of(acre__tree_floor(&book.blocks, address));
    if (block && address == block->node.key)
        return block;
    return block && address - block->node.key < block->bytes ? block : NULL;
}

static void book_insert(struct acre__block *block) {
    acre__gone_cut(block->node.key, block->bytes);
    block->is_entered = acre__tree_insert(&book.blocks, &block->node);
}

/* The program keeps memory that it registered, so that memory is not freed. */
static void book_take_out(struct acre__block *block) {
    acre__tree_remove(&book.blocks, &block->node);
    block->is_entered = 0;
    if (block->owner != ACRE__OWNED_BY_PROGRAM)
        acre__gone_add(block->node.key, block->bytes);
}

int acre__book_add(struct acre__block *block) {
    acre__lock_take(&book.lock);
    uint64_t begin = block->node.key;
    const struct acre__node *next = acre__tree_ceil(&book.blocks, begin);
    int is_free = !book_find(begin) && !(next && next->key - begin < block->bytes);
    if (is_free)
        book_insert(block);
    acre__lock_give(&book.lock);
    return is_free;
}

/* The call that frees a block of this owner, for messages. */
static const char *owner_call(enum acre__owned_by owner) {
    switch (owner) {
    case ACRE__OWNED_BY_MEM:
        return "is memory of acre_mem_alloc: acre_mem_free frees it";
    case ACRE__OWNED_BY_PROGRAM:
        return "is registered memory: acre_mem_unregister unregisters it";
    case ACRE__OWNED_BY_VEC:
        return "belongs to a vec: acre_vec_destroy frees it";
    case ACRE__OWNED_BY_POOL:
        return "belongs to a pool: acre_free or acre_pool_free frees its blocks";
    case ACRE__OWNED_BY_HEAP:
        return "belongs to a heap: acre_heap_free frees its blocks, in a kernel";
    case ACRE__OWNED_BY_PLAN:
        return "belongs to a plan: acre_plan_free frees blocks of its loop, acre_plan_destroy the "
               "rest";
    case ACRE__OWNED_BY_SPILL:
        return "is a spillable block of a pool: acre_free or acre_pool_free frees it";
    case ACRE__OWNED_BY_RANGE:
        return "belongs to a range: acre_range_decommit frees its pieces, acre_range_destroy all";
    default:
        return "belongs to an import: acre_import_close releases it";
    }
}

static acre_status owner_check(const struct acre__block *block, const void *p,
                               enum acre__owned_by owner) {
    return !block || block->owner == owner
               ? ACRE_OK
               : acre__fail(ACRE_E_KIND, "%p %s", p, owner_call(block->owner));
}

acre_status acre__book_check_owner(const void *p, enum acre__owned_by owner) {
    acre__lock_take(&book.lock);
    acre_status status = owner_check(book_find((uintptr_t)p), p, owner);
    acre__lock_give(&book.lock);
    return status;
}

/* Returns ACRE_OK if `block` is a block of the device that begins at `p`, else the reason why
 * not. */
static acre_status book_check(const acre_device *dev, const struct acre__block *block,
                              const void *p) {
    if (!block)
        return acre__fail(ACRE_E_POINTER, "%p is not in memory of acre, or it was freed", p);
    if (block->dev != dev)
        return acre__fail(ACRE_E_HANDLE, "%p belongs to %s, not to %s", p, block->dev->label,
                          dev->label);
    if (block->node.key != (uintptr_t)p)
        return acre__fail(ACRE_E_INTERIOR, "%p lies %llu bytes inside a block of %zu bytes", p,
                          (unsigned long long)((uintptr_t)p - block->node.key), block->bytes);
    return ACRE_OK;
}

/* Lock held: looks up the block that the owner may free or change now. */
static struct acre__block *book_owned(acre_device *dev, const void *p, enum acre__owned_by owner,
                                      acre_status *status) {
    struct acre__block *block = book_find((uintptr_t)p);
    *status = block && block->dev == dev ? owner_check(block, p, owner) : ACRE_OK;
    if (*status == ACRE_OK)
        *status = book_check(dev, block, p);
    if (*status == ACRE_OK && block->pins)
        *status = acre__fail(ACRE_E_BUSY, "%p is in use by another object of acre", p);
    return *status == ACRE_OK ? block : NULL;
}

struct acre__block *acre__book_remove(acre_device *dev, const void *p, enum acre__owned_by owner,
                                      acre_status *status) {
    acre__lock_take(&book.lock);
    struct acre__block *block = book_owned(dev, p, owner, status);
    if (block)
        book_take_out(block);
    acre__lock_give(&book.lock);
    return block;
}

struct acre__block *acre__book_hold(acre_device *dev, const void *p, enum acre__owned_by owner,
                                    acre_status *status) {
    acre__lock_take(&book.lock);
    struct acre__block *block = book_owned(dev, p, owner, status);
    if (block) {
        block->pins = 1;
        block->is_held = 1;
    }
    acre__lock_give(&book.lock);
    return block;
}

struct acre__block *acre__book_remove_any(const acre_device *dev, enum acre__owned_by owner) {
    acre__lock_take(&book.lock);
    struct acre__node *node = acre__tree_first(&book.blocks);
    while (node && (block_of(node)->dev != dev || block_of(node)->owner != owner))
        node = acre__tree_next(&book.blocks, node);
    if (node)
        book_take_out(block_of(node));
    acre__lock_give(&book.lock);
    return block_of(node);
}

void acre__book_remove_held(struct acre__block *block) {
    acre__lock_take(&book.lock);
    book_take_out(block);
    acre__lock_give(&book.lock);
}

struct acre__block *acre__book_pin(acre_device *dev, const void *p, acre_status *status) {
    acre__lock_take(&book.lock);
    struct acre__block *block = book_find((uintptr_t)p);
    *status = book_check(dev, block, p);
    if (*status == ACRE_OK && block->is_held)
        *status = acre__fail(ACRE_E_BUSY, "%p is being changed by another thread", p);
    if (*status == ACRE_OK)
        block->pins++;
    acre__lock_give(&book.lock);
    return *status == ACRE_OK ? block : NULL;
}

void acre__book_unpin(struct acre__block *block) {
    acre__lock_take(&book.lock);
    block->pins--;
    block->is_held = 0;
    acre__lock_give(&book.lock);
}

void acre__book_pass_on(struct acre__block *block, enum acre__owned_by owner) {
    acre__lock_take(&book.lock);
    block->owner = owner;
    acre__lock_give(&book.lock);
    if (owner != ACRE__OWNED_BY_MEM)
        acre__origin_forget((const void *)(uintptr_t)block->node.key);
}

void acre__book_change(struct acre__block *block, uint64_t address, size_t bytes) {
    acre__lock_take(&book.lock);
    if (block->is_entered && address == block->node.key) {
        acre__gone_cut(address, bytes);
        if (bytes < block->bytes)
            acre__gone_add(address + bytes, block->bytes - bytes);
        block->bytes = bytes;
    } else {
        if (block->is_entered)
            book_take_out(block);
        block->node.key = address;
        block->bytes = bytes;
        if (address)
            book_insert(block);
    }
    acre__lock_give(&book.lock);
}

void acre__book_note_freed(const void *p, size_t bytes) {
    acre__lock_take(&book.lock);
    acre__gone_add((uintptr_t)p, bytes);
    acre__lock_give(&book.lock);
}

void acre__book_count(const acre_device *dev, acre_device_stats *stats) {
    acre__lock_take(&book.lock);
    struct acre__node *node = acre__tree_first(&book.blocks);
    for (; node; node = acre__tree_next(&book.blocks, node)) {
        const struct acre__block *block = block_of(node);
        if (block->dev != dev)
            continue;
        if (block->owner == ACRE__OWNED_BY_PROGRAM) {
            stats->mem_registered++;
        } else if (block->owner == ACRE__OWNED_BY_MEM) {
            stats->mem_blocks++;
            stats->mem_bytes += block->bytes;
        }
    }
    acre__lock_give(&book.lock);
}

void acre__book_visit(const acre_device *dev, void (*fn)(void *user, const struct acre__block *),
                      void *user) {
    acre__lock_take(&book.lock);
    struct acre__node *node = acre__tree_first(&book.blocks);
    for (; node; node = acre__tree_next(&book.blocks, node)) {
        if (!dev || block_of(node)->dev == dev)
            fn(user, block_of(node));
    }
    acre__lock_give(&book.lock);
}

uint64_t acre__book_driver_bytes(const acre_device *dev) {
    uint64_t bytes = 0;
    acre__lock_take(&book.lock);
    struct acre__node *node = acre__tree_first(&book.blocks);
    for (; node; node = acre__tree_next(&book.blocks, node)) {
        const struct acre__block *block = block_of(node);
        if (block->dev == dev && block->source == ACRE__FROM_DRIVER_DEVICE &&
            block->owner == ACRE__OWNED_BY_MEM)
            bytes += block->bytes;
    }
    acre__lock_give(&book.lock);
    return bytes;
}

/* ---- lookup by address ---- */

/* Queries the driver about memory that is not in the book. */
static acre_status look_by_driver(acre_device *dev, const void *p, acre_mem_info *info) {
    unsigned type = 0;
    int ordinal = 0;
    unsigned is_managed = 0; /* a boolean; the driver writes a whole int */
    CUdeviceptr base = 0;
    size_t bytes = 0;
    CUpointer_attribute attributes[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void *values[] = {&type, &ordinal, &is_managed, &base, &bytes};
    struct acre__current call;
    /* The plural call returns no error for an unknown address; the singular call takes a
     * microsecond longer to return one. Without a context it reports the type only. */
    if (acre__device_call(dev, &call))
        call.code =
            dev->drv->cuPointerGetAttributes(5, attributes, values, (CUdeviceptr)(uintptr_t)p);
    int is_unknown = call.code == CUDA_ERROR_INVALID_VALUE || type == 0 || base == 0;
    if (call.code == CUDA_ERROR_INVALID_VALUE)
        call.code = CUDA_SUCCESS;
    acre_status status = acre__device_done(dev, &call, "cuPointerGetAttributes");
    if (status || is_unknown) {
        info->kind = ACRE_KIND_PAGEABLE;
        return status;
    }
    info->kind = is_managed                     ? ACRE_KIND_MANAGED
                 : type == CU_MEMORYTYPE_DEVICE ? ACRE_KIND_DEVICE
                                                : ACRE_KIND_PINNED;
    info->base = (void *)(uintptr_t)base;
    info->bytes = info->usable_bytes = bytes;
    info->ordinal = ordinal >= 0 ? (uint32_t)ordinal : 0;
    return ACRE_OK;
}

static _Atomic(acre__book_parts_fn) book_parts;

void acre__book_set_parts(acre__book_parts_fn fn) {
    acre__store(&book_parts, fn, memory_order_release);
}

static _Atomic(acre__book_range_fn) book_range;

void acre__book_set_range(acre__book_range_fn fn) {
    acre__store(&book_range, fn, memory_order_release);
}

enum acre__found acre__book_find(const void *p, acre_mem_info *info) {
    *info = (acre_mem_info){.struct_size = sizeof *info};
    acre__book_parts_fn parts = NULL;
    acre_pool *pool = NULL;
    acre_range *range = NULL;
    acre__lock_take(&book.lock);
    const struct acre__block *block = book_find((uintptr_t)p);
    if (block) {
        range = block->owner == ACRE__OWNED_BY_RANGE ? block->range : NULL;
        if (block->owner == ACRE__OWNED_BY_POOL) {
            parts = acre__load(&book_parts, memory_order_acquire);
            pool = block->pool;
        }
        info->kind = block->kind;
        info->flags = block->flags;
        info->base = (void *)(uintptr_t)block->node.key;
        info->bytes = block->bytes;
        info->device = block->dev;
        info->ordinal = block->dev->ordinal;
        info->is_registered = block->owner == ACRE__OWNED_BY_PROGRAM;
        info->usable_bytes = block->bytes;
        if (block->owner == ACRE__OWNED_BY_SPILL)
            info->pool = block->pool;
    }
    acre__lock_give(&book.lock);
    if (range)
        return acre__load(&book_range, memory_order_acquire)(p, range, info) ? ACRE__FOUND_LIVE
                                                                             : ACRE__FOUND_HOLE;
    if (!parts)
        return block ? ACRE__FOUND_LIVE : ACRE__FOUND_NONE;
    parts(p, pool, info);
    return info->pool ? ACRE__FOUND_LIVE : ACRE__FOUND_IDLE;
}

int acre__book_is_mapped(const void *p) {
    acre__lock_take(&book.lock);
    const struct acre__block *block = book_find((uintptr_t)p);
    int is_mapped = block && block->source == ACRE__FROM_SPACE;
    acre__lock_give(&book.lock);
    return is_mapped;
}

/* Lock held. */
static size_t book_gap(const void *p) {
    const struct acre__node *next = acre__tree_ceil(&book.blocks, (uintptr_t)p);
    return next ? (size_t)(next->key - (uintptr_t)p) : SIZE_MAX;
}

size_t acre__book_gap(const void *p) {
    acre__lock_take(&book.lock);
    size_t gap = book_gap(p);
    acre__lock_give(&book.lock);
    return gap;
}

int acre__book_is_clear(const void *p, size_t bytes) {
    struct acre__gone_range ignored;
    acre__lock_take(&book.lock);
    int is_clear = bytes <= book_gap(p) && !acre__gone_find((uintptr_t)p, bytes, &ignored);
    acre__lock_give(&book.lock);
    return is_clear;
}

acre_status acre__book_look(acre_device *dev, const void *p, acre_mem_info *info) {
    return acre__book_find(p, info) ? ACRE_OK : look_by_driver(dev, p, info);
}

/* Finds memory that acre freed among bytes that are not in the book. The program may have got the
 * addresses again, without acre: `info` is what the driver knows about them, and the host can read
 * pageable memory. */
static int book_has_freed(const void *p, size_t bytes, const acre_mem_info *info,
                          struct acre__gone_range *range) {
    uint64_t begin = (uintptr_t)p;
    bytes = bytes < UINT64_MAX - begin ? bytes : (size_t)(UINT64_MAX - begin);
    uint64_t end = begin + bytes;
    int is_freed = 0;
    acre__lock_take(&book.lock);
    if (info->kind != ACRE_KIND_PAGEABLE)
        acre__gone_cut((uintptr_t)info->base, info->bytes);
    while (!is_freed && acre__gone_find(begin, bytes, range)) {
        uint64_t from = begin > range->at ? begin : range->at;
        uint64_t to = end < range->at + range->bytes ? end : range->at + range->bytes;
        is_freed = !acre__gone_is_readable(from, to - from);
        if (!is_freed)
            acre__gone_cut(from, to - from);
    }
    acre__lock_give(&book.lock);
    return is_freed;
}

void acre__book_allow_idle(int is_allowed) {
    struct acre__thread *self = acre__thread_self();
    if (self->id != 0) /* the shared record must not be written */
        self->uses_idle = is_allowed;
}

int acre__book_idle_is_allowed(void) {
    return acre__thread_self()->uses_idle;
}

acre_status acre__book_look_live(acre_device *dev, const void *p, size_t bytes, const char *which,
                                 acre_mem_info *info) {
    enum acre__found found = acre__book_find(p, info);
    if (found == ACRE__FOUND_IDLE && !acre__book_idle_is_allowed())
        return acre__about(acre__fail(ACRE_E_POINTER,
                                      "the %s %p is in no live block of its pool: it was freed, "
                                      "or never allocated",
                                      which, p),
                           p);
    if (found == ACRE__FOUND_HOLE)
        return acre__fail(ACRE_E_POINTER,
                          "the %s %p is in no committed piece of its range: call "
                          "acre_range_commit first",
                          which, p);
    if (found)
        return ACRE_OK;
    acre_status status = look_by_driver(dev, p, info);
    struct acre__gone_range range;
    if (status || !book_has_freed(p, bytes, info, &range))
        return status;
    (void)acre__fail(ACRE_E_POINTER,
                     "%zu bytes of the %s at %p use memory that was freed (%llu bytes at 0x%llx)",
                     bytes, which, p, (unsigned long long)range.bytes,
                     (unsigned long long)range.at);
    return acre__about(ACRE_E_POINTER, (const void *)(uintptr_t)range.at);
}

size_t acre__book_room(const acre_mem_info *info, const void *p) {
    if (info->kind == ACRE_KIND_PAGEABLE)
        return SIZE_MAX;
    return (size_t)info->usable_bytes - ((uintptr_t)p - (uintptr_t)info->base);
}
