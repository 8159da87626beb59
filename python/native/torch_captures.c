/* Captures of PyTorch's graphs that share memory: see torch_plug.h.
 *
 * PyTorch names the memory of a graph by a pool of two numbers, begins to allocate to it before a
 * capture, ends it after the capture, and releases it when the graph is destroyed. Graphs with the
 * same pool share memory, and PyTorch demands of them what acre_pool_graph_share demands: they are
 * launched in the order of their captures. So the pool becomes a key of acre.
 *
 * The stream is not known before its first allocation. acre_torch__capture_bind asks PyTorch's
 * filter then, once for each stream.
 *
 * acre_pool_graph_end waits for the device if graphs of the key exist, and PyTorch releases a pool
 * just before it destroys the graph. So the end of a key is delayed to a later allocation that
 * finds no capture in progress, in which waiting is not allowed.
 *
 * PyTorch neither ends nor releases the pool of a capture that failed, and its filter then refers
 * to a graph that may be gone. So a begin drops earlier captures of its thread that are over. */
#include <stdlib.h>

#include "torch_state.h"

enum { BOUND = 16 };

/* Between begin and end. */
struct capture {
    struct capture *next; /* the newest first */
    int device;
    pthread_t thread; /* that began it */
    uint64_t key;
    acre_torch_filter_fn filter;
    void *user;
    void (*drop)(void *user);
    int bound_count;
    struct {
        acre_stream stream;
        acre_pool *pool;
    } bound[BOUND]; /* further streams share no memory, which is safe */
};

struct key {
    struct key *next;
    int device;
    uint64_t key;
    int references; /* begins that were not released yet */
};

static struct capture *captures;
static struct key *keys;  /* with references */
static struct key *ended; /* without; their memory is not free yet */
static _Atomic int ended_count;

/* One of PyTorch's two numbers is 0. */
static uint64_t key_of(uint64_t first, uint64_t second) {
    return first ? first << 1 : second << 1 | 1;
}

static void special_add(int amount) {
    atomic_fetch_add_explicit(&acre_torch__special, amount, memory_order_relaxed);
}

/* Lock held: removes a key from a list; NULL if it is not there. */
static struct key *key_take(struct key **list, int device, uint64_t number) {
    while (*list && ((*list)->device != device || (*list)->key != number))
        list = &(*list)->next;
    struct key *key = *list;
    if (key)
        *list = key->next;
    return key;
}

static void key_put(struct key **list, struct key *key) {
    key->next = *list;
    *list = key;
}

/* Lock held: a key is to be ended (1), or no longer (-1). */
static void ended_add(int amount) {
    atomic_fetch_add_explicit(&ended_count, amount, memory_order_relaxed);
    special_add(amount);
}

/* Lock held: adds a reference to a key. Returns 0 if out of host memory. */
static int key_begin(int device, uint64_t number) {
    struct key *key = key_take(&keys, device, number);
    if (!key && (key = key_take(&ended, device, number)))
        ended_add(-1);
    if (!key && !(key = calloc(1, sizeof *key)))
        return 0;
    key->device = device;
    key->key = number;
    key->references++;
    key_put(&keys, key);
    return 1;
}

/* Lock held: other captures that bound the same stream have to bind it again. */
static void stream_unbind(struct capture *from, acre_stream stream, acre_pool *pool) {
    for (; from; from = from->next)
        for (int i = from->bound_count - 1; i >= 0; i--)
            if (from->bound[i].stream == stream && from->bound[i].pool == pool)
                from->bound[i] = from->bound[--from->bound_count];
}

/* Lock held: takes the capture out of the list. The caller drops it without the lock. */
static struct capture *capture_take(struct capture **link) {
    struct capture *capture = *link;
    *link = capture->next;
    special_add(-1);
    for (int i = 0; i < capture->bound_count; i++) {
        acre_stream stream = capture->bound[i].stream;
        (void)acre_pool_graph_share(capture->bound[i].pool, stream, 0);
        stream_unbind(captures, stream, capture->bound[i].pool);
    }
    return capture;
}

static void capture_drop(struct capture *capture) {
    if (capture->drop)
        capture->drop(capture->user);
    free(capture);
}

/* Lock held: PyTorch released a pool once, or will never do so. */
static void key_release(int device, uint64_t number) {
    struct key *key = key_take(&keys, device, number);
    if (key && --key->references > 0) {
        key_put(&keys, key);
    } else if (key) {
        key_put(&ended, key);
        ended_add(1);
    }
}

/* Lock held: the streams of a capture that goes on are still captured. */
static int capture_is_over(const struct capture *capture) {
    for (int i = 0; i < capture->bound_count; i++)
        if (capture->filter(capture->user, capture->bound[i].stream))
            return 0;
    return 1;
}

/* Lock held: takes the captures that this thread began and did not end. */
static struct capture *failed_take(int device) {
    struct capture *failed = NULL, **link = &captures;
    while (*link) {
        struct capture *at = *link;
        if (at->device != device || !pthread_equal(at->thread, pthread_self()) ||
            !capture_is_over(at)) {
            link = &at->next;
            continue;
        }
        (void)capture_take(link);
        key_release(device, at->key);
        at->next = failed;
        failed = at;
    }
    return failed;
}

void acre_torch_begin_pool(int device, uint64_t first, uint64_t second, acre_torch_filter_fn filter,
                           void *user, void (*drop)(void *user)) {
    struct capture *capture = calloc(1, sizeof *capture);
    uint64_t number = key_of(first, second);
    pthread_mutex_lock(&acre_torch__lock);
    struct capture *failed = failed_take(device);
    int is_begun = capture && key_begin(device, number);
    if (is_begun) {
        *capture = (struct capture){.next = captures,
                                    .device = device,
                                    .thread = pthread_self(),
                                    .key = number,
                                    .filter = filter,
                                    .user = user,
                                    .drop = drop};
        captures = capture;
        special_add(1);
    }
    pthread_mutex_unlock(&acre_torch__lock);
    while (failed) {
        struct capture *next = failed->next;
        capture_drop(failed);
        failed = next;
    }
    if (!is_begun) { /* without a key the capture shares no memory, which is safe */
        free(capture);
        if (drop)
            drop(user);
    }
}

void acre_torch_end_pool(int device, uint64_t first, uint64_t second) {
    uint64_t number = key_of(first, second);
    pthread_mutex_lock(&acre_torch__lock);
    struct capture **link = &captures;
    while (*link && ((*link)->device != device || (*link)->key != number))
        link = &(*link)->next;
    struct capture *capture = *link ? capture_take(link) : NULL;
    /* A capture without allocations that was dropped, and did not fail: PyTorch will release it. */
    if (!capture)
        (void)key_begin(device, number);
    pthread_mutex_unlock(&acre_torch__lock);
    if (capture)
        capture_drop(capture);
}

void acre_torch_release_pool(int device, uint64_t first, uint64_t second) {
    pthread_mutex_lock(&acre_torch__lock);
    key_release(device, key_of(first, second));
    pthread_mutex_unlock(&acre_torch__lock);
}

static void key_end(acre_pool *pool, void *user) {
    struct key *key = user;
    if (acre_pool_graph_end(pool, key->key) == ACRE_E_BUSY)
        key->references = -1; /* not ended: once more later */
}

void acre_torch__captures_settle(void) {
    if (!atomic_load_explicit(&ended_count, memory_order_relaxed))
        return;
    pthread_mutex_lock(&acre_torch__lock);
    struct key *list = captures ? NULL : ended;
    if (list)
        ended = NULL;
    pthread_mutex_unlock(&acre_torch__lock);
    while (list) {
        struct key *key = list;
        list = key->next;
        key->references = 0;
        acre_torch__pools_each(key->device, key_end, key);
        pthread_mutex_lock(&acre_torch__lock);
        if (key->references < 0) {
            key->references = 0;
            key_put(&ended, key);
        } else {
            ended_add(-1);
            free(key);
        }
        pthread_mutex_unlock(&acre_torch__lock);
    }
}

/* Lock held. */
static int capture_has(const struct capture *capture, acre_stream stream, const acre_pool *pool) {
    for (int i = 0; i < capture->bound_count; i++)
        if (capture->bound[i].stream == stream && capture->bound[i].pool == pool)
            return 1;
    return 0;
}

void acre_torch__capture_bind(int device, acre_stream stream, acre_pool *pool) {
    pthread_mutex_lock(&acre_torch__lock);
    struct capture *at = captures;
    while (at && (at->device != device ||
                  (!capture_has(at, stream, pool) && !at->filter(at->user, stream))))
        at = at->next;
    if (at && !capture_has(at, stream, pool) && at->bound_count < BOUND &&
        acre_pool_graph_share(pool, stream, at->key) == ACRE_OK) {
        at->bound[at->bound_count].stream = stream;
        at->bound[at->bound_count++].pool = pool;
    }
    pthread_mutex_unlock(&acre_torch__lock);
}
