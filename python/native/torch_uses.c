/* Streams that use a block besides its own: see acre_torch_record_stream in torch_plug.h.
 *
 * PyTorch lets a program record a stream before it queues the work. acre_pool_record_use counts
 * only work that is queued already. So the streams of a block are kept here, and handed to the pool
 * when the block is freed. Most programs record no stream: then a free reads one count. */
#include <stdlib.h>

#include "torch_state.h"

enum { BUCKETS = 1024 };

struct use {
    struct use *next;
    void *p;
    acre_stream stream;
};

static struct use *buckets[BUCKETS];
static _Atomic uint32_t use_count;

static struct use **bucket_of(const void *p) {
    return &buckets[((uintptr_t)p >> 9) * UINT64_C(0x9e3779b97f4a7c15) >> 54];
}

struct search {
    const void *p;
    acre_pool *found;
};

static void search_pool(acre_pool *pool, void *user) {
    struct search *search = user;
    if (!search->found && acre_pool_owns(pool, search->p))
        search->found = pool;
}

/* Returns the pool that a block belongs to, or NULL. */
static acre_pool *pool_of(const void *p, int device) {
    struct search search = {.p = p};
    acre_torch__pools_each(device, search_pool, &search);
    return search.found;
}

/* Lock held. Returns 0 if out of host memory. */
static int use_add(void *p, acre_stream stream) {
    struct use **bucket = bucket_of(p);
    for (struct use *use = *bucket; use; use = use->next)
        if (use->p == p && use->stream == stream)
            return 1;
    struct use *use = malloc(sizeof *use);
    if (!use)
        return 0;
    *use = (struct use){.next = *bucket, .p = p, .stream = stream};
    *bucket = use;
    atomic_fetch_add_explicit(&use_count, 1, memory_order_release);
    return 1;
}

void acre_torch_record_stream(void *p, acre_stream stream) {
    acre_pool *pool = NULL;
    int device = 0;
    if (!p || acre_torch__is_forked())
        return;
    for (; device < TORCH_DEVICES && !pool; device++)
        pool = pool_of(p, device);
    if (!pool)
        return;
    pthread_mutex_lock(&acre_torch__lock);
    int is_added = use_add(p, stream);
    atomic_fetch_add_explicit(&acre_torch__opened(device - 1)->recorded, 1, memory_order_relaxed);
    pthread_mutex_unlock(&acre_torch__lock);
    if (!is_added)
        (void)acre_pool_record_use(pool, p, stream); /* at least what is queued already */
}

/* Lock held: removes one use of a block; NULL if there is none. */
static struct use *use_take(const void *p) {
    struct use **link = bucket_of(p);
    while (*link && (*link)->p != p)
        link = &(*link)->next;
    struct use *use = *link;
    if (use) {
        *link = use->next;
        atomic_fetch_sub_explicit(&use_count, 1, memory_order_relaxed);
    }
    return use;
}

acre_status acre_torch__uses_apply(void *p, int device, acre_stream stream) {
    acre_pool *pool = NULL;
    acre_status status = ACRE_OK;
    if (!atomic_load_explicit(&use_count, memory_order_acquire))
        return ACRE_OK;
    for (;;) {
        pthread_mutex_lock(&acre_torch__lock);
        struct use *use = use_take(p);
        pthread_mutex_unlock(&acre_torch__lock);
        if (!use)
            return status;
        if (use->stream != stream && (pool || (pool = pool_of(p, device))) &&
            acre_pool_record_use(pool, p, use->stream)) {
            acre_status waited = acre_torch__wait(acre_torch__opened(device));
            status = status ? status : waited;
        }
        free(use);
    }
}
