/* The chunk store: see chunk.h.
 *
 * Invariants. A store's `bytes` counts every chunk that has a record: in use, cached or in limbo.
 * It also counts chunks about to be created, so that the limit holds with several threads. A chunk
 * in the cache has no users; an exported or imported chunk is never cached. The driver is never
 * called with the store's lock held. */
#include "space/chunk.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/config.h"
#include "base/lock.h"
#include "base/round.h"
#include "base/status.h"
#include "space/mapped.h"
#include "watch/probes.h"
#include "watch/regions.h"
#include "watch/trace.h"

/* Default cache size, as a fraction of device memory. It is small, since cached chunks are not
 * available to the program's own allocations. */
enum { CHUNK_CACHE_PART = 256 };

/* One per device. */
static struct chunk_store {
    struct acre__lock lock;
    struct acre__chunk *cache; /* newest first */
    uint64_t cached_bytes;
    uint64_t bytes, count; /* bytes and number of all chunks */
    uint64_t created;      /* chunks created since the device was opened */
    uint64_t created_bytes, released_bytes;
    size_t host_unit; /* 0: host chunks not known to work */
    int is_ending;    /* 1: closing, cache nothing */
} stores[ACRE__DEVICE_SLOTS];
static pthread_once_t stores_once = PTHREAD_ONCE_INIT;

static void stores_init(void) {
    for (unsigned i = 0; i < ACRE__DEVICE_SLOTS; i++)
        acre__lock_init(&stores[i].lock, "chunks", ACRE__RANK_CHUNK);
}

static struct chunk_store *store_of(const acre_device *dev) {
    pthread_once(&stores_once, stores_init);
    return &stores[acre__device_index(dev)];
}

/* ---- records ---- */

static CUresult chunk_give_back(const struct acre__driver *drv, struct acre__limbo_item *item) {
    return drv->cuMemRelease(((struct acre__chunk *)item)->handle);
}

static void chunk_uncount(struct acre__chunk *chunk) {
    if (chunk->is_held)
        acre__held_remove(chunk->dev, chunk->bytes);
    chunk->is_held = 0;
}

static void chunk_forget(struct acre__limbo_item *item) {
    struct acre__chunk *chunk = (struct acre__chunk *)item;
    struct chunk_store *store = store_of(chunk->dev);
    acre__probe_chunk_release(chunk->bytes);
    if (acre__trace_is_on())
        acre__trace_chunk(ACRE__TRACE_CHUNK_RELEASE, chunk->handle, chunk->bytes);
    acre__lock_take(&store->lock);
    store->bytes -= chunk->bytes;
    store->count--;
    store->released_bytes += chunk->bytes;
    acre__lock_give(&store->lock);
    chunk_uncount(chunk);
    free(chunk);
}

static const struct acre__limbo_kind chunk_kind = {"cuMemRelease", chunk_give_back, chunk_forget};

static struct acre__chunk *chunk_record(acre_device *dev, size_t bytes, uint32_t flags) {
    static _Atomic uint64_t ids;
    struct acre__chunk *chunk = calloc(1, sizeof *chunk);
    if (!chunk)
        return NULL;
    chunk->item.kind = &chunk_kind;
    chunk->dev = dev;
    chunk->bytes = bytes;
    chunk->wanted = flags;
    chunk->id = atomic_fetch_add_explicit(&ids, 1, memory_order_relaxed) + 1;
    atomic_init(&chunk->users, 1);
    atomic_init(&chunk->is_alone, 0);
    atomic_init(&chunk->is_shared, 0);
    atomic_init(&chunk->is_away, 0);
    return chunk;
}

/* ---- the cache ---- */

/* Lock held: removes a chunk of this size and these flags from the cache. */
static struct acre__chunk *cache_find(struct chunk_store *store, size_t bytes, uint32_t flags) {
    for (struct acre__chunk **at = &store->cache; *at; at = &(*at)->next) {
        struct acre__chunk *chunk = *at;
        if (chunk->bytes != bytes || chunk->wanted != flags)
            continue;
        *at = chunk->next;
        chunk->next = NULL;
        store->cached_bytes -= bytes;
        return chunk;
    }
    return NULL;
}

/* Lock held: evicts the oldest chunks until at most `most` bytes are cached; returns the evicted
 * chunks. */
static struct acre__chunk *cache_cut(struct chunk_store *store, uint64_t most) {
    struct acre__chunk **at = &store->cache;
    uint64_t kept = 0;
    while (*at && kept + (*at)->bytes <= most) {
        kept += (*at)->bytes;
        at = &(*at)->next;
    }
    struct acre__chunk *rest = *at;
    *at = NULL;
    store->cached_bytes = kept;
    return rest;
}

static void chunks_release(struct acre__chunk *list) {
    while (list) {
        struct acre__chunk *next = list->next;
        acre__limbo_let_go(list->dev, &list->item);
        list = next;
    }
}

int acre__chunk_trim(acre_device *dev) {
    struct chunk_store *store = store_of(dev);
    acre__lock_take(&store->lock);
    struct acre__chunk *all = cache_cut(store, 0);
    acre__lock_give(&store->lock);
    chunks_release(all);
    return all != NULL;
}

static uint64_t cache_most(const acre_device *dev) {
    uint64_t most, unset = dev->info.total_bytes / CHUNK_CACHE_PART;
    return acre__config_bytes(ACRE__CONFIG_CHUNK_CACHE_BYTES, unset, &most) ? unset : most;
}

void acre__chunk_keep(struct acre__chunk *chunk) {
    acre__fetch_add(&chunk->users, 1, memory_order_relaxed);
}

void acre__chunk_drop(struct acre__chunk *chunk) {
    if (acre__fetch_sub(&chunk->users, 1, memory_order_acq_rel) != 1)
        return;
    acre_device *dev = chunk->dev;
    struct chunk_store *store = store_of(dev);
    if (acre__chunk_is_away(chunk)) { /* it has no memory, and does not count */
        free(chunk);
        return;
    }
    uint64_t most = cache_most(dev);
    struct acre__chunk *out = chunk;
    chunk->next = NULL;
    if (!acre__load(&chunk->is_alone, memory_order_relaxed) && chunk->bytes <= most &&
        !acre__device_is_lost(dev)) {
        acre__lock_take(&store->lock);
        chunk->next = store->cache;
        store->cache = chunk;
        out = cache_cut(store, store->is_ending ? 0 : most);
        acre__lock_give(&store->lock);
    }
    chunks_release(out);
}

/* ---- units ---- */

/* Some containers refuse host chunks, so this creates one to find out. */
static size_t host_unit(acre_device *dev) {
    struct chunk_store *store = store_of(dev);
    acre__lock_take(&store->lock);
    size_t unit = store->host_unit;
    acre__lock_give(&store->lock);
    if (unit || !dev->info.has_host_vmm)
        return unit;
    CUmemGenericAllocationHandle handle;
    uint32_t granted;
    struct acre__chunk *chunk = chunk_record(dev, 0, ACRE__CHUNK_HOST);
    if (!chunk)
        return 0;
    if (acre__step_granularity(dev, ACRE__CHUNK_HOST, 0, &unit) ||
        acre__step_create(dev, unit, ACRE__CHUNK_HOST, &handle, &granted)) {
        free(chunk);
        return 0;
    }
    chunk->handle = handle;
    chunk->bytes = unit;
    acre__lock_take(&store->lock);
    store->host_unit = unit;
    store->bytes += unit;
    store->count++;
    acre__lock_give(&store->lock);
    acre__limbo_let_go(dev, &chunk->item);
    return unit;
}

size_t acre__chunk_unit(acre_device *dev, uint32_t flags) {
    int is_on = 1;
    if (!dev->info.has_vmm || (!acre__config_flag(ACRE__CONFIG_VMM, 1, &is_on) && !is_on) ||
        acre__regions_are_on())
        return 0;
    return flags & ACRE__CHUNK_HOST ? host_unit(dev) : dev->info.granularity_bytes;
}

/* ---- devices ---- */

void acre__chunk_count(acre_device *dev, uint64_t *count, uint64_t *bytes, uint64_t *cached_bytes) {
    struct chunk_store *store = store_of(dev);
    acre__lock_take(&store->lock);
    *count = store->count;
    *bytes = store->bytes;
    *cached_bytes = store->cached_bytes;
    acre__lock_give(&store->lock);
}

static void chunk_stats(acre_device *dev, acre_device_stats *stats) {
    struct chunk_store *store = store_of(dev);
    acre__lock_take(&store->lock);
    stats->chunks = store->count;
    stats->chunk_bytes = store->bytes;
    stats->chunk_cached_bytes = store->cached_bytes;
    stats->chunks_created = store->created;
    stats->chunk_created_bytes = store->created_bytes;
    stats->chunk_released_bytes = store->released_bytes;
    acre__lock_give(&store->lock);
}

void acre__chunk_end(acre_device *dev) {
    struct chunk_store *store = store_of(dev);
    acre__lock_take(&store->lock);
    store->is_ending = 1;
    store->created = store->created_bytes = store->released_bytes = 0;
    store->host_unit = 0;
    acre__lock_give(&store->lock);
    (void)acre__chunk_trim(dev);
}

static acre_status chunk_trim(acre_device *dev) {
    (void)acre__chunk_trim(dev);
    return ACRE_OK;
}

/* Registers the hooks, before the first chunk of a device. When the close hook runs, all objects
 * are destroyed: remaining chunks wait in limbo. */
static void chunk_use(void) {
    static const struct acre__device_hooks hooks = {.layer = ACRE__HOOK_BELOW,
                                                    .trim = chunk_trim,
                                                    .close = acre__chunk_end,
                                                    .stats = chunk_stats};
    acre__device_hooks_add(&hooks);
}

/* ---- allocation ---- */

/* Stores the detail of an out-of-memory failure, with the free memory. */
static acre_status chunk_no_memory(acre_device *dev, acre_status status, size_t bytes,
                                   uint32_t flags) {
    if (flags & ACRE__CHUNK_HOST)
        return acre__fail(status, "%zu bytes of host memory requested, the driver has none left",
                          bytes);
    return acre__held_refuse(dev, bytes, bytes, ACRE__HELD_ASK);
}

/* Undoes chunk_charge for a chunk that could not be created. */
static void chunk_credit(struct acre__chunk *chunk) {
    struct chunk_store *store = store_of(chunk->dev);
    acre__lock_take(&store->lock);
    store->bytes -= chunk->bytes;
    store->count--;
    store->created--;
    store->created_bytes -= chunk->bytes;
    acre__lock_give(&store->lock);
    chunk_uncount(chunk);
}

/* Counts a new chunk if `limit` and the limits of the device allow it. */
static acre_status chunk_charge(struct acre__chunk *chunk, uint64_t limit,
                                enum acre__held_for why) {
    struct chunk_store *store = store_of(chunk->dev);
    size_t bytes = chunk->bytes;
    acre__lock_take(&store->lock);
    uint64_t has = store->bytes;
    int fits = bytes <= limit && has <= limit - bytes;
    if (fits) {
        store->bytes += bytes;
        store->count++;
        store->created++;
        store->created_bytes += bytes;
    }
    acre__lock_give(&store->lock);
    if (!fits)
        return acre__fail(ACRE_E_LIMIT,
                          "%zu bytes requested, %llu bytes are left of ACRE_CHUNK_LIMIT_BYTES",
                          bytes, (unsigned long long)(has < limit ? limit - has : 0));
    if (chunk->wanted & ACRE__CHUNK_HOST)
        return ACRE_OK;
    acre_status status = acre__held_add(chunk->dev, bytes, why);
    chunk->is_held = status == ACRE_OK;
    if (status)
        chunk_credit(chunk);
    return status;
}

static acre_status create_once(struct acre__chunk *chunk, uint64_t limit, enum acre__held_for why) {
    acre_status status = chunk_charge(chunk, limit, why);
    if (status)
        return status;
    status =
        acre__step_create(chunk->dev, chunk->bytes, chunk->wanted, &chunk->handle, &chunk->flags);
    if (status)
        chunk_credit(chunk);
    return status;
}

/* Creates the memory of a chunk; releases the cache before it fails. */
static acre_status chunk_create(struct acre__chunk *chunk, enum acre__held_for why) {
    uint64_t limit, ignored;
    acre_status status = acre__config_bytes(ACRE__CONFIG_CHUNK_LIMIT_BYTES, UINT64_MAX, &limit);
    if (status == ACRE_OK) /* report a bad value here: a release has no way to report it */
        status = acre__config_bytes(ACRE__CONFIG_CHUNK_CACHE_BYTES, 0, &ignored);
    if (status)
        return status;
    status = create_once(chunk, limit, why);
    if (acre__is_too_much(status) && acre__chunk_trim(chunk->dev))
        status = create_once(chunk, limit, why);
    return status;
}

/* As acre__chunk_take, without the free memory in the detail, which costs a driver call. */
static acre_status chunk_take(acre_device *dev, size_t bytes, uint32_t flags,
                              struct acre__chunk **out) {
    struct chunk_store *store = store_of(dev);
    acre_status status = flags & ACRE__CHUNK_HOST ? ACRE_OK : acre__device_has_memory(dev);
    if (status)
        return status;
    chunk_use();
    acre__lock_take(&store->lock);
    store->is_ending = 0;
    int is_over = !(flags & ACRE__CHUNK_HOST) && acre__held_over(dev);
    struct acre__chunk *chunk = is_over ? NULL : cache_find(store, bytes, flags);
    acre__lock_give(&store->lock);
    if (chunk) {
        acre__store(&chunk->users, 1, memory_order_relaxed);
        *out = chunk;
        return ACRE_OK;
    }
    chunk = chunk_record(dev, bytes, flags);
    if (!chunk)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for a chunk's record");
    status = chunk_create(chunk, ACRE__HELD_NEW);
    if (status)
        free(chunk);
    else
        *out = chunk;
    return status;
}

acre_status acre__chunk_take(acre_device *dev, size_t bytes, uint32_t flags,
                             struct acre__chunk **chunk) {
    *chunk = NULL;
    acre_status status = chunk_take(dev, bytes, flags, chunk);
    return acre__is_no_memory(status) ? chunk_no_memory(dev, status, bytes, flags) : status;
}

void acre__chunk_drop_list(struct acre__chunk *list) {
    while (list) {
        struct acre__chunk *next = list->next;
        list->next = NULL;
        acre__chunk_drop(list);
        list = next;
    }
}

acre_status acre__chunk_within_limit(acre_device *dev, uint64_t bytes) {
    if (acre__held_over(dev))
        (void)acre__chunk_trim(dev);
    return acre__held_over(dev) ? acre__held_refuse(dev, bytes, bytes, ACRE__HELD_ASK) : ACRE_OK;
}

/* Creates one chunk of `bytes` and releases it. The driver can have more than cuMemGetInfo says:
 * before it fails, it releases idle memory of its own pools. Returns 1 if it had as much, or if the
 * answer is unknown. */
static int driver_has(acre_device *dev, uint64_t bytes) {
    size_t whole = acre__round_up(bytes, dev->info.granularity_bytes), free_bytes;
    struct acre__chunk *chunk = chunk_record(dev, whole, ACRE__CHUNK_SHAREABLE);
    if (!chunk)
        return 1;
    acre_status status = create_once(chunk, UINT64_MAX, ACRE__HELD_NEW);
    if (status)
        free(chunk);
    else
        chunks_release(chunk);
    return !acre__is_no_memory(status) ||
           (acre__held_ask_free(dev, &free_bytes) && free_bytes >= bytes);
}

/* Returns 1 if ACRE_CHUNK_LIMIT_BYTES allows `bytes` more. */
static int is_within_setting(acre_device *dev, uint64_t bytes) {
    struct chunk_store *store = store_of(dev);
    uint64_t limit;
    if (acre__config_bytes(ACRE__CONFIG_CHUNK_LIMIT_BYTES, UINT64_MAX, &limit))
        return 0;
    acre__lock_take(&store->lock);
    uint64_t has = store->bytes;
    acre__lock_give(&store->lock);
    return bytes <= limit && has <= limit - bytes;
}

acre_status acre__chunk_check_room(acre_device *dev, uint64_t bytes) {
    size_t free_bytes;
    for (int is_trimmed = 0;; is_trimmed = 1) {
        if (!is_within_setting(dev, bytes)) /* the chunk that exceeds it is refused */
            return ACRE_OK;
        if (!acre__held_ask_free(dev, &free_bytes) ||
            acre__held_room(dev, free_bytes, ACRE__HELD_NEW) >= bytes)
            return ACRE_OK;
        if (is_trimmed || !acre__chunk_trim(dev))
            break;
    }
    /* With a margin, what the driver may release counts as used. */
    int is_of_card = acre__held_room(dev, bytes, ACRE__HELD_NEW) >= bytes;
    return is_of_card && driver_has(dev, bytes)
               ? ACRE_OK
               : acre__held_refuse(dev, bytes, bytes, ACRE__HELD_ASK);
}

/* 0 if the device has less than `left` bytes free in total. Then no smaller chunk is created, so
 * that other threads do not run out of memory in between. */
static int may_be_in_pieces(acre_device *dev, size_t left, uint32_t flags) {
    size_t free_bytes;
    return flags & ACRE__CHUNK_HOST || !acre__held_ask_free(dev, &free_bytes) ||
           acre__held_room(dev, free_bytes, ACRE__HELD_NEW) >= left;
}

/* Free memory may be fragmented, so a failed request is retried with half its size. */
acre_status acre__chunk_cover(acre_device *dev, size_t bytes, size_t least, uint32_t flags,
                              struct acre__chunk **list) {
    size_t unit = acre__chunk_unit(dev, flags), left = bytes, size = bytes;
    struct acre__chunk **end = list;
    acre_status status = ACRE_OK;
    *list = NULL;
    if (!unit)
        return acre__fail(ACRE_E_UNSUPPORTED, "%s does not support such chunks", dev->label);
    while (left && status == ACRE_OK) {
        struct acre__chunk *chunk = NULL;
        size = size < left ? size : left;
        status = chunk_take(dev, size, flags, &chunk);
        if (status == ACRE_OK) {
            chunk->next = NULL;
            *end = chunk;
            end = &chunk->next;
            left -= size;
        } else if (acre__is_no_memory(status) && size > unit && size > least &&
                   may_be_in_pieces(dev, left, flags)) {
            size_t half = size / 2 / unit * unit;
            size = half < unit ? unit : half;
            size = size < least ? least : size;
            status = ACRE_OK;
        }
    }
    if (status == ACRE_OK)
        return ACRE_OK;
    acre__chunk_drop_list(*list);
    *list = NULL;
    return acre__is_no_memory(status) ? chunk_no_memory(dev, status, bytes, flags) : status;
}

/* ---- suspending ---- */

size_t acre__chunk_leave(struct acre__chunk *chunk) {
    struct chunk_store *store = store_of(chunk->dev);
    struct acre__said said;
    acre__said_keep(&said);
    acre_status status = acre__step_release(chunk->dev, chunk->handle);
    (void)acre__said_fail(ACRE_OK, &said);
    if (status)
        return 0;
    acre__lock_take(&store->lock);
    store->bytes -= chunk->bytes;
    store->count--;
    store->released_bytes += chunk->bytes;
    acre__lock_give(&store->lock);
    chunk_uncount(chunk);
    chunk->handle = 0;
    atomic_store_explicit(&chunk->is_away, 1, memory_order_release);
    return chunk->bytes;
}

acre_status acre__chunk_return(struct acre__chunk *chunk, enum acre__held_for why) {
    if (!acre__chunk_is_away(chunk))
        return ACRE_OK;
    acre_status status = chunk_create(chunk, why);
    if (status == ACRE_OK)
        atomic_store_explicit(&chunk->is_away, 0, memory_order_release);
    return status;
}

/* ---- other processes ---- */

acre_status acre__chunk_import(acre_device *dev, int fd, size_t bytes, uint32_t flags,
                               struct acre__chunk **out) {
    struct chunk_store *store = store_of(dev);
    *out = NULL;
    chunk_use();
    struct acre__chunk *chunk = chunk_record(dev, bytes, flags);
    if (!chunk)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for a chunk's record");
    acre_status status = acre__step_import(dev, fd, &chunk->handle);
    if (status) {
        free(chunk);
        return status;
    }
    atomic_store_explicit(&chunk->is_alone, 1, memory_order_relaxed);
    atomic_store_explicit(&chunk->is_shared, 1, memory_order_relaxed);
    chunk->flags = flags;
    acre__lock_take(&store->lock);
    store->bytes += bytes; /* memory of another process: not subject to the limit */
    store->count++;
    acre__lock_give(&store->lock);
    *out = chunk;
    return ACRE_OK;
}

acre_status acre__chunk_export(struct acre__chunk *chunk, int *fd) {
    *fd = -1;
    if (!(chunk->flags & ACRE__CHUNK_SHAREABLE))
        return acre__fail(ACRE_E_KIND, "the chunk was not created to be shared");
    acre__gate_enter(ACRE__GATE_MAP);
    acre_status status = acre__chunk_is_away(chunk)
                             ? acre__fail(acre__chunk_suspended(chunk), "the memory is suspended")
                             : acre__step_export(chunk->dev, chunk->handle, fd);
    if (status == ACRE_OK) {
        atomic_store_explicit(&chunk->is_alone, 1, memory_order_relaxed);
        atomic_store_explicit(&chunk->is_shared, 1, memory_order_relaxed);
    }
    acre__gate_leave(ACRE__GATE_MAP);
    return status;
}
