/* Records of the blocks that the shim serves; see shim_serve.h.
 *
 * Locks: one mutex, never held during another call. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "shim_serve.h"

/* A reservation of acre. */
struct blocks_range {
    struct acre__node node; /* key: address */
    size_t bytes;
};

static struct {
    pthread_mutex_t lock;
    struct acre__tree live, ranges;
    uint64_t ids;
    _Atomic unsigned sync; /* live blocks with CU_POINTER_ATTRIBUTE_SYNC_MEMOPS */
    unsigned exported;     /* live blocks that are exported */
} blocks = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Ids of the driver's own memory are small numbers. */
static const uint64_t BLOCKS_FIRST_ID = UINT64_C(1) << 40;

int acre__blocks_add(struct serve_device *device, CUdeviceptr address, size_t bytes,
                     int is_import) {
    struct serve_block *block = calloc(1, sizeof *block);
    if (!block)
        return 0;
    block->node.key = address;
    block->bytes = bytes;
    block->device = device;
    block->is_import = is_import;
    pthread_mutex_lock(&blocks.lock);
    block->id = BLOCKS_FIRST_ID + blocks.ids++;
    acre__tree_insert(&blocks.live, &block->node);
    pthread_mutex_unlock(&blocks.lock);
    return 1;
}

/* Called with the lock held. */
static void blocks_insert(struct serve_block *block) {
    acre__tree_insert(&blocks.live, &block->node);
    blocks.sync += block->is_sync ? 1 : 0;
    blocks.exported += block->is_exported ? 1 : 0;
}

static void blocks_remove(struct serve_block *block) {
    acre__tree_remove(&blocks.live, &block->node);
    blocks.sync -= block->is_sync ? 1 : 0;
    blocks.exported -= block->is_exported ? 1 : 0;
}

static struct serve_block *blocks_take(CUdeviceptr address, int is_import) {
    pthread_mutex_lock(&blocks.lock);
    struct serve_block *block =
        acre__tree_entry(acre__tree_find(&blocks.live, address), struct serve_block, node);
    if (block && block->is_import == is_import)
        blocks_remove(block);
    else
        block = NULL;
    pthread_mutex_unlock(&blocks.lock);
    return block;
}

struct serve_block *acre__blocks_take(CUdeviceptr address) {
    return blocks_take(address, 0);
}

void acre__blocks_end_import(CUdeviceptr address) {
    free(blocks_take(address, 1));
}

void acre__blocks_put_back(struct serve_block *block) {
    pthread_mutex_lock(&blocks.lock);
    blocks_insert(block);
    pthread_mutex_unlock(&blocks.lock);
}

/* The block that contains the address. Called with the lock held. */
static struct serve_block *blocks_at(CUdeviceptr address) {
    struct serve_block *block =
        acre__tree_entry(acre__tree_floor(&blocks.live, address), struct serve_block, node);
    return block && address - block->node.key < block->bytes ? block : NULL;
}

int acre__blocks_find(CUdeviceptr address, struct serve_block *out) {
    pthread_mutex_lock(&blocks.lock);
    struct serve_block *block = blocks_at(address);
    if (block)
        *out = *block;
    pthread_mutex_unlock(&blocks.lock);
    return block != NULL;
}

void acre__blocks_set_sync(CUdeviceptr address, int is_sync) {
    pthread_mutex_lock(&blocks.lock);
    struct serve_block *block = blocks_at(address);
    if (block && block->is_sync != is_sync) {
        block->is_sync = is_sync;
        blocks.sync += is_sync ? 1 : -1U;
    }
    pthread_mutex_unlock(&blocks.lock);
}

void acre__blocks_set_exported(CUdeviceptr address) {
    pthread_mutex_lock(&blocks.lock);
    struct serve_block *block = blocks_at(address);
    if (block && !block->is_import && !block->is_exported) {
        block->is_exported = 1;
        blocks.exported++;
    }
    pthread_mutex_unlock(&blocks.lock);
}

int acre__blocks_any_exported(void) {
    pthread_mutex_lock(&blocks.lock);
    int is_any = blocks.exported != 0;
    pthread_mutex_unlock(&blocks.lock);
    return is_any;
}

int acre__blocks_is_sync(CUdeviceptr address) {
    struct serve_block block;
    return address && acre__blocks_find(address, &block) && block.is_sync;
}

int acre__blocks_any_sync(void) {
    return atomic_load_explicit(&blocks.sync, memory_order_relaxed) != 0;
}

void acre__blocks_forget(const struct serve_device *device) {
    if (!device) { /* the parent may have held the lock */
        pthread_mutex_init(&blocks.lock, NULL);
        blocks.live = blocks.ranges = (struct acre__tree){0};
        blocks.sync = 0;
        blocks.exported = 0;
        return;
    }
    pthread_mutex_lock(&blocks.lock);
    struct acre__node *next, *node = acre__tree_first(&blocks.live);
    for (; node; node = next) {
        struct serve_block *block = acre__tree_entry(node, struct serve_block, node);
        next = acre__tree_next(&blocks.live, node);
        if (block->device == device) {
            blocks_remove(block);
            free(block);
        }
    }
    pthread_mutex_unlock(&blocks.lock);
}

void acre__blocks_reserve(CUdeviceptr address, size_t bytes) {
    struct blocks_range *range = calloc(1, sizeof *range);
    if (!range)
        return;
    range->node.key = address;
    range->bytes = bytes;
    pthread_mutex_lock(&blocks.lock);
    int is_new = acre__tree_insert(&blocks.ranges, &range->node);
    pthread_mutex_unlock(&blocks.lock);
    if (!is_new)
        free(range);
}

size_t acre__blocks_unreserve(CUdeviceptr address) {
    pthread_mutex_lock(&blocks.lock);
    struct blocks_range *range =
        acre__tree_entry(acre__tree_find(&blocks.ranges, address), struct blocks_range, node);
    if (range)
        acre__tree_remove(&blocks.ranges, &range->node);
    pthread_mutex_unlock(&blocks.lock);
    size_t bytes = range ? range->bytes : 0;
    free(range);
    return bytes;
}

int acre__blocks_owns(CUdeviceptr address) {
    pthread_mutex_lock(&blocks.lock);
    struct blocks_range *range =
        acre__tree_entry(acre__tree_floor(&blocks.ranges, address), struct blocks_range, node);
    int owns = range && address - range->node.key < range->bytes;
    pthread_mutex_unlock(&blocks.lock);
    return owns;
}
