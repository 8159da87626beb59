/* Regions: see torch_plug.h.
 *
 * A region is a tag, and maybe a pool of its own on each device. Regions are never destroyed, so
 * their records are read without a lock once their number is known. Each thread has a stack of the
 * regions that it entered. */
#include <stdlib.h>
#include <string.h>

#include "torch_state.h"

enum { NESTED = 32, STREAMS = 64, TAG_PARTS = 16 };

static struct region {
    char tag[TORCH_TAG_BYTES];
    uint32_t flags;
    _Atomic(acre_pool *) pools[TORCH_DEVICES]; /* with ACRE_TORCH_OWN_POOL */
} regions[ACRE_TORCH_REGIONS];
static _Atomic int region_count;

/* Streams whose allocations a region serves. Newer entries come first. */
static struct {
    int region, device;
    acre_stream stream;
} by_stream[STREAMS];
static int by_stream_count;

static _Thread_local struct {
    int depth;
    int entered[NESTED];
} mine;

/* ---- tags ---- */

static void tags_pop(int parts) {
    while (parts-- > 0)
        (void)acre_tag_pop();
}

/* Sets the tag "model/kv" as two nested ones. Returns how many were set, or a negative status. */
static int tags_push(const char *tag) {
    char part[TORCH_TAG_BYTES];
    int parts = 0;
    while (*tag) {
        size_t length = strcspn(tag, "/");
        memcpy(part, tag, length);
        part[length] = 0;
        acre_status status = parts == TAG_PARTS ? ACRE_E_LIMIT : acre_tag_push(part);
        if (status) {
            tags_pop(parts);
            return (int)status;
        }
        parts++;
        tag += length + (tag[length] == '/');
    }
    return parts;
}

static int tag_parts(const char *tag) {
    int parts = *tag != 0;
    for (; *tag; tag++)
        parts += *tag == '/' && tag[1];
    return parts;
}

/* ---- regions ---- */

static int region_is_known(int region) {
    return region >= 0 && region < atomic_load_explicit(&region_count, memory_order_acquire);
}

static int region_find(const char *tag, uint32_t flags) {
    int count = atomic_load_explicit(&region_count, memory_order_relaxed);
    for (int i = 0; i < count; i++)
        if (regions[i].flags == flags && !strcmp(regions[i].tag, tag))
            return i;
    return TORCH_NONE;
}

int acre_torch_region(const char *tag, uint32_t flags) {
    if (!tag || strlen(tag) >= TORCH_TAG_BYTES || flags & ~ACRE_TORCH_OWN_POOL)
        return ACRE_E_INVALID;
    size_t length = strlen(tag);
    if (tag_parts(tag) > TAG_PARTS || (length && tag[length - 1] == '/'))
        return ACRE_E_INVALID;
    int pushed = tags_push(tag); /* are the names valid? */
    if (pushed < 0)
        return pushed;
    tags_pop(pushed);
    pthread_mutex_lock(&acre_torch__lock);
    int region = region_find(tag, flags);
    int count = atomic_load_explicit(&region_count, memory_order_relaxed);
    if (region == TORCH_NONE && count == ACRE_TORCH_REGIONS) {
        region = ACRE_E_LIMIT;
    } else if (region == TORCH_NONE) {
        region = count;
        strcpy(regions[region].tag, tag);
        regions[region].flags = flags;
        atomic_store_explicit(&region_count, count + 1, memory_order_release);
    }
    pthread_mutex_unlock(&acre_torch__lock);
    return region;
}

/* Gets the pool of a region on an open device. */
static acre_status region_pool(int region, const struct torch_device *at, int device,
                               acre_pool **pool) {
    acre_status status = ACRE_OK;
    *pool = atomic_load_explicit(&at->pool, memory_order_relaxed);
    if (region == TORCH_NONE || !(regions[region].flags & ACRE_TORCH_OWN_POOL))
        return ACRE_OK;
    _Atomic(acre_pool *) *own = &regions[region].pools[device];
    *pool = atomic_load_explicit(own, memory_order_acquire);
    if (*pool)
        return ACRE_OK;
    pthread_mutex_lock(&acre_torch__lock);
    *pool = atomic_load_explicit(own, memory_order_relaxed);
    if (!*pool) {
        status = acre_pool_create(at->device, NULL, pool);
        atomic_store_explicit(own, *pool, memory_order_release);
    }
    pthread_mutex_unlock(&acre_torch__lock);
    return status;
}

acre_status acre_torch_pool_of(int region, int device, acre_pool **pool) {
    acre_status status;
    *pool = NULL;
    if (region != TORCH_NONE && !region_is_known(region))
        return ACRE_E_INVALID;
    const struct torch_device *at = acre_torch__device(device, &status);
    return at ? region_pool(region, at, device, pool) : status;
}

void acre_torch__pools_each(int device, void (*fn)(acre_pool *pool, void *user), void *user) {
    const struct torch_device *at = acre_torch__opened(device);
    if (!at)
        return;
    fn(atomic_load_explicit(&at->pool, memory_order_relaxed), user);
    int count = atomic_load_explicit(&region_count, memory_order_acquire);
    for (int i = 0; i < count; i++) {
        acre_pool *pool = atomic_load_explicit(&regions[i].pools[device], memory_order_acquire);
        if (pool)
            fn(pool, user);
    }
}

static void held_add(acre_pool *pool, void *user) {
    acre_pool_stats stats = {.struct_size = sizeof stats};
    if (acre_pool_get_stats(pool, &stats) == ACRE_OK)
        *(uint64_t *)user += stats.held_bytes;
}

uint64_t acre_torch__pools_held(int device) {
    uint64_t held = 0;
    acre_torch__pools_each(device, held_add, &held);
    return held;
}

static void trim(acre_pool *pool, void *user) {
    (void)user;
    (void)acre_pool_trim(pool, 0);
}

void acre_torch__pools_trim(int device) {
    acre_torch__pools_each(device, trim, NULL);
}

/* ---- who is in a region ---- */

int acre_torch__in_region(void) {
    return mine.depth > 0;
}

int acre_torch__thread_region(void) {
    return mine.depth > 0 ? mine.entered[mine.depth - 1] : TORCH_NONE;
}

acre_status acre_torch_enter(int region) {
    if (region != TORCH_NONE && !region_is_known(region))
        return ACRE_E_INVALID;
    if (mine.depth == NESTED)
        return ACRE_E_LIMIT;
    int pushed = region == TORCH_NONE ? 0 : tags_push(regions[region].tag);
    if (pushed < 0)
        return (acre_status)pushed;
    mine.entered[mine.depth++] = region;
    atomic_fetch_add_explicit(&acre_torch__special, 1, memory_order_relaxed);
    return ACRE_OK;
}

void acre_torch_leave(void) {
    if (!mine.depth)
        return;
    int region = mine.entered[--mine.depth];
    if (region != TORCH_NONE)
        tags_pop(tag_parts(regions[region].tag));
    atomic_fetch_sub_explicit(&acre_torch__special, 1, memory_order_relaxed);
}

acre_status acre_torch_enter_stream(int region, int device, acre_stream stream) {
    if (!region_is_known(region))
        return ACRE_E_INVALID;
    acre_status status = ACRE_E_LIMIT;
    pthread_mutex_lock(&acre_torch__lock);
    if (by_stream_count < STREAMS) {
        by_stream[by_stream_count].region = region;
        by_stream[by_stream_count].device = device;
        by_stream[by_stream_count++].stream = stream;
        atomic_fetch_add_explicit(&acre_torch__special, 1, memory_order_relaxed);
        status = ACRE_OK;
    }
    pthread_mutex_unlock(&acre_torch__lock);
    return status;
}

void acre_torch_leave_stream(int region, int device, acre_stream stream) {
    pthread_mutex_lock(&acre_torch__lock);
    for (int i = by_stream_count - 1; i >= 0; i--) {
        if (by_stream[i].region != region || by_stream[i].device != device ||
            by_stream[i].stream != stream)
            continue;
        memmove(&by_stream[i], &by_stream[i + 1],
                (size_t)(by_stream_count - i - 1) * sizeof by_stream[0]);
        by_stream_count--;
        atomic_fetch_sub_explicit(&acre_torch__special, 1, memory_order_relaxed);
        break;
    }
    pthread_mutex_unlock(&acre_torch__lock);
}

int acre_torch__stream_region(int device, acre_stream stream) {
    for (int i = by_stream_count - 1; i >= 0; i--)
        if (by_stream[i].device == device && by_stream[i].stream == stream)
            return by_stream[i].region;
    return TORCH_NONE;
}

/* ---- allocation ---- */

acre_status acre_torch__region_alloc(int region, const struct torch_device *at, int device,
                                     size_t bytes, acre_stream stream, void **p) {
    acre_pool *pool;
    acre_status status = region_is_known(region) || region == TORCH_NONE
                             ? region_pool(region, at, device, &pool)
                             : ACRE_E_INVALID;
    if (status)
        return status;
    acre_torch__capture_bind(device, stream, pool);
    /* A thread that entered the region has its tag already. */
    int is_mine = region == TORCH_NONE || acre_torch__thread_region() == region;
    int pushed = is_mine ? 0 : tags_push(regions[region].tag);
    if (pushed < 0)
        return (acre_status)pushed;
    status = acre_pool_alloc(pool, bytes, 0, stream, p);
    tags_pop(pushed);
    return status;
}
