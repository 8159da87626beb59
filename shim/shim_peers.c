/* Peer access to memory that the shim serves; see shim_serve.h.
 *
 * cuCtxEnablePeerAccess covers the driver's plain memory, also later one, but not mapped memory.
 * So the shim keeps which devices have access to which, and what acre has mapped on each, and
 * gives access to every range.
 *
 * Locks: one mutex, held during cuMemSetAccess, so that no range is missed. */
#include <pthread.h>
#include <stdlib.h>

#include "shim_serve.h"

enum { PEERS_MOST = 64 };

/* A range that acre has made accessible for its own device. */
struct peers_range {
    struct acre__node node; /* key: address */
    size_t bytes;
    int dev;
};

static struct {
    pthread_mutex_t lock;
    struct acre__tree ranges;
    uint64_t users[PEERS_MOST]; /* by device: a bit for each device with access to its memory */
} peers = {.lock = PTHREAD_MUTEX_INITIALIZER};

static CUresult peers_give(CUdeviceptr ptr, size_t bytes, int dev, unsigned long long flags) {
    const CUmemAccessDesc access = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, dev},
                                    .flags = (CUmemAccess_flags)flags};
    return acre__serve.inner->cuMemSetAccess(ptr, bytes, &access, 1);
}

CUresult acre__peers_set_access(CUdeviceptr ptr, size_t bytes, const CUmemAccessDesc *access,
                                size_t count) {
    int dev = count ? access->location.id : -1;
    int is_own = count == 1 && access->location.type == CU_MEM_LOCATION_TYPE_DEVICE && dev >= 0 &&
                 dev < PEERS_MOST && access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    struct peers_range *range = is_own ? calloc(1, sizeof *range) : NULL;
    if (!range)
        return acre__serve.inner->cuMemSetAccess(ptr, bytes, access, count);
    *range = (struct peers_range){.node = {.key = ptr}, .bytes = bytes, .dev = dev};
    pthread_mutex_lock(&peers.lock);
    CUresult result = acre__serve.inner->cuMemSetAccess(ptr, bytes, access, count);
    for (int user = 0; !result && user < PEERS_MOST; user++) {
        if (peers.users[dev] >> user & 1)
            result = peers_give(ptr, bytes, user, access->flags);
    }
    if (result || !acre__tree_insert(&peers.ranges, &range->node))
        free(range); /* the range is known */
    pthread_mutex_unlock(&peers.lock);
    return result;
}

CUresult acre__peers_unmap(CUdeviceptr ptr, size_t bytes) {
    struct acre__node *node;
    CUresult result = acre__serve.inner->cuMemUnmap(ptr, bytes);
    pthread_mutex_lock(&peers.lock);
    while (!result && (node = acre__tree_ceil(&peers.ranges, ptr)) && node->key - ptr < bytes) {
        acre__tree_remove(&peers.ranges, node);
        free(acre__tree_entry(node, struct peers_range, node));
    }
    pthread_mutex_unlock(&peers.lock);
    return result;
}

/* Gives device `user` access to all memory of device `dev`, or takes it away. */
static void peers_change(int dev, int user, int is_enabled) {
    uint64_t bit = (uint64_t)1 << user;
    pthread_mutex_lock(&peers.lock);
    peers.users[dev] = is_enabled ? peers.users[dev] | bit : peers.users[dev] & ~bit;
    struct acre__node *node = acre__tree_first(&peers.ranges);
    for (; node; node = acre__tree_next(&peers.ranges, node)) {
        struct peers_range *range = acre__tree_entry(node, struct peers_range, node);
        if (range->dev == dev)
            (void)peers_give(node->key, range->bytes, user,
                             is_enabled ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                        : CU_MEM_ACCESS_FLAGS_PROT_NONE);
    }
    pthread_mutex_unlock(&peers.lock);
}

/* The current device and that of another context. */
static int peers_devices(CUcontext ctx, CUdevice *user, CUdevice *dev) {
    const struct acre__driver *drv = acre__serve.inner;
    CUcontext popped;
    if (drv->cuCtxGetDevice(user) || drv->cuCtxPushCurrent(ctx))
        return 0;
    int is_known = !drv->cuCtxGetDevice(dev);
    (void)drv->cuCtxPopCurrent(&popped);
    return is_known && *user >= 0 && *user < PEERS_MOST && *dev >= 0 && *dev < PEERS_MOST &&
           *user != *dev;
}

static CUresult peers_enable(CUcontext ctx, unsigned int flags) {
    CUdevice user, dev;
    CUresult result = acre__serve.inner->cuCtxEnablePeerAccess(ctx, flags);
    if (!result && peers_devices(ctx, &user, &dev))
        peers_change(dev, user, 1);
    return result;
}

static CUresult peers_disable(CUcontext ctx) {
    CUdevice user, dev;
    CUresult result = acre__serve.inner->cuCtxDisablePeerAccess(ctx);
    if (!result && peers_devices(ctx, &user, &dev))
        peers_change(dev, user, 0);
    return result;
}

void acre__peers_forget(CUdevice dev) {
    if (dev < 0) { /* a forked child */
        pthread_mutex_init(&peers.lock, NULL);
        peers.ranges = (struct acre__tree){0};
        return;
    }
    pthread_mutex_lock(&peers.lock);
    peers.users[dev] = 0;
    for (int i = 0; i < PEERS_MOST; i++)
        peers.users[i] &= ~((uint64_t)1 << dev);
    pthread_mutex_unlock(&peers.lock);
}

void acre__peers_wrap(struct acre__driver *table) {
    table->cuCtxEnablePeerAccess = peers_enable;
    table->cuCtxDisablePeerAccess = peers_disable;
}
