/* Tags: see pool_tag.h.
 *
 * Lookups hash the parent's number and the name, under a lock. A tag's record is complete
 * before it is in the array, and is never freed. Its counts are atomics, so adding needs no lock;
 * only a comparison with a limit does. */
#include "pool/pool_tag.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/thread.h"
#include "watch/stats_file.h"
#include "watch/trace.h"

struct tag {
    uint32_t parent;
    _Atomic int64_t own_bytes, own_blocks; /* of blocks with this tag itself */
    _Atomic int64_t bytes, blocks;         /* of these and of all tags below */
    _Atomic int64_t peak;                  /* of `bytes` */
    _Atomic uint64_t limit;                /* of `bytes`; 0: none */
    _Atomic(struct acre__stats_row *) row; /* the same counts for ACRE_STATS, or NULL */
    size_t name_at;                        /* in the path */
    char path[];
};

static struct {
    struct acre__lock lock;
    _Atomic(struct tag *) all[ACRE__TAGS + 1];                   /* by number; [0] is unused */
    _Atomic uint32_t count;                                      /* the last number assigned */
    uint16_t table[2 * ACRE__TAGS];                              /* by hash; 0: free */
} tags = {.lock = ACRE__LOCK_INIT("tags", ACRE__RANK_LEAF - 1)}; /* rows have a leaf lock */

static struct tag *tag_at(uint32_t number) {
    return acre__load(&tags.all[number], memory_order_acquire);
}

const char *acre__tag_path(uint32_t tag) {
    return tag ? tag_at(tag)->path : "";
}

uint32_t acre__tag_now(void) {
    const struct acre__thread *thread = acre__thread_pointer;
    const struct acre__pool_cache *cache = thread ? thread->pool : NULL;
    return cache ? cache->tag : 0;
}

/* ---- rows for ACRE_STATS ---- */

enum {
#define TAG_COUNTER(name, meaning) TAG_##name,
    ACRE__STATS_TAG_LIST(TAG_COUNTER)
#undef TAG_COUNTER
};

/* Lock held. A tag gets its row before it has blocks, so the row has the same counts from then on.
 * No row: the header of the file counts it. */
static void row_take(struct tag *tag, uint32_t number) {
    struct acre__stats_row *row = acre__stats_row_take(ACRE__STATS_TAG, number, tag->path);
    if (row)
        acre__stats_row_add(row, TAG_limit_bytes, acre__load(&tag->limit, memory_order_relaxed));
    acre__store(&tag->row, row, memory_order_relaxed);
}

static void row_add(struct tag *tag, unsigned counter, int64_t more) {
    struct acre__stats_row *row = acre__load(&tag->row, memory_order_relaxed);
    if (row && acre__stats_is_on())
        acre__stats_row_add(row, counter, (uint64_t)more);
}

/* ---- names ---- */

static uint32_t name_hash(uint32_t parent, const char *name, size_t length) {
    uint32_t hash = 2166136261u ^ parent * 0x9e3779b1u; /* FNV-1a */
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)name[i]) * 16777619u;
    return hash ^ hash >> 15;
}

static struct tag *tag_make(uint32_t parent, const char *name, size_t length) {
    const char *above = acre__tag_path(parent);
    size_t before = parent ? strlen(above) + 1 : 0;
    struct tag *tag = calloc(1, sizeof *tag + before + length + 1);
    if (!tag)
        return NULL;
    tag->parent = parent;
    tag->name_at = before;
    if (before)
        snprintf(tag->path, before + 1, "%s/", above);
    memcpy(tag->path + before, name, length);
    return tag;
}

/* Finds or creates the number of a name below a parent. */
static acre_status tag_find(uint32_t parent, const char *name, size_t length, uint32_t *number) {
    acre_status status = ACRE_OK;
    const struct tag *told = NULL;
    *number = 0;
    acre__lock_take(&tags.lock);
    uint32_t at = name_hash(parent, name, length) % (2 * ACRE__TAGS);
    for (; tags.table[at] && !*number; at = (at + 1) % (2 * ACRE__TAGS)) {
        const struct tag *tag = tag_at(tags.table[at]);
        const char *own = tag->path + tag->name_at;
        if (tag->parent == parent && strlen(own) == length && !memcmp(own, name, length))
            *number = tags.table[at];
    }
    uint32_t next = acre__load(&tags.count, memory_order_relaxed) + 1;
    if (!*number && next > ACRE__TAGS) {
        status = acre__fail(ACRE_E_LIMIT, "out of tags: a process can have %d", ACRE__TAGS);
    } else if (!*number) {
        struct tag *made = tag_make(parent, name, length);
        if (made) {
            row_take(made, next);
            acre__store(&tags.all[next], made, memory_order_release);
            acre__store(&tags.count, next, memory_order_release);
            tags.table[at] = (uint16_t)next;
            *number = next;
            told = made;
        } else {
            status = acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of a tag");
        }
    }
    acre__lock_give(&tags.lock);
    if (told)
        acre__trace_tag(*number, told->path);
    return status;
}

/* Names are put into messages and JSON without escapes. */
static acre_status name_check(const char *name, size_t length) {
    int is_good = length > 0 && length <= ACRE__TAG_NAME;
    for (size_t i = 0; is_good && i < length; i++)
        is_good =
            name[i] >= ' ' && name[i] <= '~' && name[i] != '/' && name[i] != '"' && name[i] != '\\';
    return is_good ? ACRE_OK
                   : acre__fail(ACRE_E_INVALID,
                                "the name of a tag is 1 to %d printable characters without / \" "
                                "and \\",
                                ACRE__TAG_NAME);
}

/* ---- counting ---- */

static void peak_note(struct tag *tag, int64_t bytes) {
    int64_t peak = acre__load(&tag->peak, memory_order_relaxed);
    while (bytes > peak &&
           !acre__cas_weak(&tag->peak, &peak, bytes, memory_order_relaxed, memory_order_relaxed))
        continue;
    if (bytes > peak) /* each thread adds what it has raised the peak by */
        row_add(tag, TAG_peak_bytes, bytes - peak);
}

static void tag_add(uint32_t number, int64_t bytes, int64_t blocks) {
    struct tag *tag = tag_at(number);
    acre__fetch_add(&tag->own_bytes, bytes, memory_order_relaxed);
    acre__fetch_add(&tag->own_blocks, blocks, memory_order_relaxed);
    row_add(tag, TAG_own_bytes, bytes);
    row_add(tag, TAG_own_blocks, blocks);
    for (; number; number = tag->parent) {
        tag = tag_at(number);
        peak_note(tag, acre__fetch_add(&tag->bytes, bytes, memory_order_relaxed) + bytes);
        acre__fetch_add(&tag->blocks, blocks, memory_order_relaxed);
        row_add(tag, TAG_live_bytes, bytes);
        row_add(tag, TAG_live_blocks, blocks);
    }
}

static void counter_flush(struct acre__tag_counter *counter) {
    if (counter->bytes || counter->blocks)
        tag_add(counter->tag, counter->bytes, counter->blocks);
    counter->bytes = counter->blocks = 0;
}

/* The caller is inside the cache: other threads read the counters only after claiming it. */
static struct acre__tag_thread *thread_tags(struct acre__pool_cache *cache) {
    if (!cache->tags)
        cache->tags = calloc(1, sizeof *cache->tags);
    return cache->tags;
}

void acre__tag_count(struct acre__pool_cache *cache, uint32_t tag, int64_t bytes, int64_t blocks) {
    struct acre__tag_thread *own = thread_tags(cache);
    if (!own) {
        tag_add(tag, bytes, blocks);
        return;
    }
    struct acre__tag_counter *counter = &own->counters[tag % ACRE__TAG_COUNTERS];
    if (counter->tag != tag)
        counter_flush(counter);
    counter->tag = tag;
    counter->bytes += bytes;
    counter->blocks += blocks;
    if (counter->bytes > ACRE__TAG_SLACK || counter->bytes < -ACRE__TAG_SLACK)
        counter_flush(counter);
}

void acre__tag_flush(struct acre__pool_cache *cache, void *ignored) {
    (void)ignored;
    for (unsigned i = 0; cache->tags && i < ACRE__TAG_COUNTERS; i++)
        counter_flush(&cache->tags->counters[i]);
}

void acre__tag_change(uint32_t tag, int64_t bytes, int64_t blocks) {
    struct acre__pool_cache *cache = tag ? acre__cache_self() : NULL;
    if (!tag)
        return;
    if (!cache) {
        tag_add(tag, bytes, blocks);
        return;
    }
    acre__cache_enter(cache);
    acre__tag_count(cache, tag, bytes, blocks);
    acre__cache_leave(cache);
}

/* ---- blocks ---- */

/* Finds or creates the array of a slab; NULL if out of host memory. */
static _Atomic uint16_t *slab_tags(struct acre__slab *slab) {
    _Atomic uint16_t *numbers = acre__load(&slab->tags, memory_order_acquire);
    if (numbers)
        return numbers;
    _Atomic uint16_t *made =
        slab->count == 1 ? &slab->one_tag : calloc(slab->count, sizeof *numbers);
    if (made &&
        !acre__cas(&slab->tags, &numbers, made, memory_order_acq_rel, memory_order_acquire)) {
        if (made != &slab->one_tag)
            free((void *)made);
        return numbers;
    }
    return made;
}

int acre__tag_set(struct acre__slab *slab, const acre__slot_state *state, uint32_t tag) {
    _Atomic uint16_t *numbers = slab_tags(slab);
    if (numbers)
        acre__store(&numbers[acre__slab_index(slab, state)], (uint16_t)tag, memory_order_relaxed);
    return numbers != NULL;
}

uint32_t acre__tag_of(struct acre__slab *slab, const acre__slot_state *state, uint32_t value) {
    if (!(value & ACRE__SLOT_TAGGED))
        return 0;
    _Atomic uint16_t *numbers = acre__load(&slab->tags, memory_order_acquire);
    return acre__load(&numbers[acre__slab_index(slab, state)], memory_order_relaxed);
}

void acre__tag_forget(struct acre__slab *slab) {
    if (!acre__load(&slab->tags, memory_order_acquire))
        return;
    for (uint32_t i = 0; i < slab->fresh; i++) {
        uint32_t value = acre__load(slab->slots[i].state, memory_order_acquire);
        if (value & ACRE__SLOT_LIVE)
            acre__tag_change(acre__tag_of(slab, slab->slots[i].state, value),
                             -(int64_t)slab->slot_bytes, -1);
    }
}

void *acre__tag_take(struct acre__pool_cache *cache, struct acre__stack *stack, size_t asked) {
    if (!stack->count || cache->is_tag_full)
        return NULL;
    struct acre__entry entry = stack->entries[stack->count - 1];
    struct acre__slab *slab = acre__pool_table_find(entry.p);
    const struct acre__tag_counter *counter =
        &cache->tags->counters[cache->tag % ACRE__TAG_COUNTERS];
    int64_t bytes = (int64_t)slab->slot_bytes;
    int64_t more = (counter->tag == cache->tag ? counter->bytes : 0) + bytes;
    if (more > ACRE__TAG_SLACK || !acre__tag_set(slab, entry.state, cache->tag))
        return NULL;
    stack->count--;
    stack->used = 1;
    acre__store(entry.state,
                cache->live | ACRE__SLOT_TAGGED | (uint32_t)asked << ACRE__SLOT_BYTES_SHIFT,
                memory_order_relaxed);
    acre__tag_count(cache, cache->tag, bytes, 1);
    return entry.p;
}

/* ---- limits ---- */

/* Reads a count; a negative one is 0. Frees of one thread may be added before the allocs of
 * another. */
static uint64_t count_of(_Atomic int64_t *count) {
    int64_t value = acre__load(count, memory_order_relaxed);
    return value > 0 ? (uint64_t)value : 0;
}

void acre__tag_limit(uint32_t number, uint64_t *used_bytes, uint64_t *limit_bytes) {
    struct tag *tag = tag_at(number);
    *used_bytes = count_of(&tag->bytes);
    *limit_bytes = acre__load(&tag->limit, memory_order_relaxed);
}

uint32_t acre__tag_over(uint32_t number, size_t bytes) {
    for (uint32_t at = number; at; at = tag_at(at)->parent) {
        uint64_t used, limit;
        acre__tag_limit(at, &used, &limit);
        if (limit && (bytes > limit || used > limit - bytes))
            return at;
    }
    return 0;
}

/* As acre__tag_over, and adds the bytes if allowed. The lock keeps two threads from making each
 * other fail. */
uint32_t acre__tag_try(uint32_t number, size_t bytes) {
    acre__lock_take(&tags.lock);
    uint32_t over = acre__tag_over(number, bytes);
    if (!over)
        tag_add(number, (int64_t)bytes, 1);
    acre__lock_give(&tags.lock);
    return over;
}

/* ---- statistics ---- */

void acre__tags_use(void) {
    acre__lock_take(&tags.lock);
    uint32_t count = acre__load(&tags.count, memory_order_relaxed);
    for (uint32_t i = 1; i <= count; i++) {
        struct tag *tag = tag_at(i);
        if (!acre__load(&tag->row, memory_order_relaxed))
            row_take(tag, i);
    }
    acre__lock_give(&tags.lock);
}

void acre__tags_export(int is_forced) {
    enum { LEAST_NS = 20000000, SHARE = 50 }; /* as for pools: pool_watch.c */
    static _Atomic uint64_t due_ns;
    if (!acre__load(&tags.count, memory_order_acquire) || !acre__stats_is_on())
        return;
    uint64_t begin_ns = acre__now_ns();
    if (!is_forced && begin_ns < acre__load(&due_ns, memory_order_relaxed))
        return;
    acre__store(&due_ns, begin_ns + LEAST_NS, memory_order_relaxed);
    acre__caches_visit(acre__tag_flush, NULL);
    uint64_t end_ns = acre__now_ns(), pause = (end_ns - begin_ns) * SHARE;
    acre__store(&due_ns, end_ns + (pause > LEAST_NS ? pause : LEAST_NS), memory_order_relaxed);
}

/* ---- public functions ---- */

static acre_status tag_push(const char *name) {
    uint32_t tag;
    acre_status status = acre__enter();
    if (status)
        return status;
    if (!name)
        return acre__fail(ACRE_E_NULL, "acre_tag_push: name is NULL");
    size_t length = strnlen(name, ACRE__TAG_NAME + 1);
    if ((status = name_check(name, length)))
        return status;
    struct acre__pool_cache *cache = acre__cache_self();
    const struct acre__tag_thread *own = NULL;
    if (cache) {
        acre__cache_enter(cache);
        own = thread_tags(cache);
        acre__cache_leave(cache);
    }
    if (!own)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for a thread's tags");
    if (own->depth == ACRE__TAG_DEPTH)
        return acre__fail(ACRE_E_LIMIT, "%d tags are set already; pop one first", ACRE__TAG_DEPTH);
    if ((status = tag_find(cache->tag, name, length, &tag)))
        return status;
    acre__cache_enter(cache);
    cache->tags->before[cache->tags->depth++] = cache->tag;
    cache->tag = (uint16_t)tag;
    cache->is_tag_full = 0;
    cache->last = NULL; /* the near path does not handle tags */
    acre__cache_leave(cache);
    return ACRE_OK;
}

acre_status acre_tag_push(const char *name) {
    return acre__in_call(tag_push(name), "acre_tag_push");
}

static acre_status tag_pop(void) {
    acre_status status = acre__enter();
    if (status)
        return status;
    struct acre__pool_cache *cache = acre__cache_self();
    if (!cache || !cache->tag)
        return acre__fail(ACRE_E_INVALID, "acre_tag_pop: the thread has no tag set");
    acre__cache_enter(cache);
    cache->tag = cache->tags->before[--cache->tags->depth];
    cache->is_tag_full = 0;
    acre__cache_leave(cache);
    return ACRE_OK;
}

acre_status acre_tag_pop(void) {
    return acre__in_call(tag_pop(), "acre_tag_pop");
}

/* Returns the next name of a path; NULL after the last. */
static const char *name_behind(const char *name) {
    const char *end = strchr(name, '/');
    return end ? end + 1 : NULL;
}

static acre_status tag_set_limit(const char *path, uint64_t bytes) {
    uint32_t tag = 0;
    acre_status status = acre__enter();
    if (status)
        return status;
    if (!path)
        return acre__fail(ACRE_E_NULL, "acre_tag_set_limit: path is NULL");
    int depth = 0;
    for (const char *at = path; at; at = name_behind(at), depth++) { /* check, then create */
        if (depth == ACRE__TAG_DEPTH)
            return acre__fail(ACRE_E_LIMIT, "a path has %d names at most", ACRE__TAG_DEPTH);
        if ((status = name_check(at, strcspn(at, "/"))))
            return status;
    }
    for (const char *at = path; at; at = name_behind(at))
        if ((status = tag_find(tag, at, strcspn(at, "/"), &tag)))
            return status;
    uint64_t before = acre__exchange(&tag_at(tag)->limit, bytes, memory_order_relaxed);
    row_add(tag_at(tag), TAG_limit_bytes, (int64_t)(bytes - before));
    return ACRE_OK;
}

acre_status acre_tag_set_limit(const char *path, uint64_t bytes) {
    return acre__in_call(tag_set_limit(path, bytes), "acre_tag_set_limit");
}

static acre_status tag_walk(acre_tag_walk_fn fn, void *user) {
    acre_status status = acre__enter();
    if (status)
        return status;
    if (!fn)
        return acre__fail(ACRE_E_NULL, "acre_tag_walk: fn is NULL");
    acre__caches_visit(acre__tag_flush, NULL);
    uint32_t count = acre__load(&tags.count, memory_order_acquire);
    int is_ended = 0;
    for (uint32_t i = 1; i <= count && !is_ended; i++) {
        struct tag *tag = tag_at(i);
        acre_tag_info info = {.struct_size = sizeof info, .path = tag->path};
        info.live_bytes = count_of(&tag->bytes);
        info.live_blocks = count_of(&tag->blocks);
        info.own_bytes = count_of(&tag->own_bytes);
        info.own_blocks = count_of(&tag->own_blocks);
        info.peak_bytes = count_of(&tag->peak);
        info.limit_bytes = acre__load(&tag->limit, memory_order_relaxed);
        is_ended = fn(user, &info);
    }
    return ACRE_OK;
}

acre_status acre_tag_walk(acre_tag_walk_fn fn, void *user) {
    return acre__in_call(tag_walk(fn, user), "acre_tag_walk");
}
