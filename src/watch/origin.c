/* Call stacks of blocks: see origin.h.
 *
 * The table is divided into shards by address, each with a leaf lock and an array with linear
 * probing. Entries are not deleted one by one. When a shard is full, it drops entries of freed
 * blocks if these are half of it, and doubles otherwise. Out of host memory, blocks are not
 * recorded. Stacks are captured before a lock is taken, and nothing is logged under one. */
#include "watch/origin.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/run.h"
#include "base/status.h"
#include "base/thread.h"

enum {
    ORIGIN_SHARDS = 64,
    ORIGIN_LEAST = 256,      /* entries of a shard at first */
    ORIGIN_LINES = 24,       /* lines of a message */
    ORIGIN_CANDIDATES = 100, /* call stacks whose texts are compared for it */
    ORIGIN_GROUPS = 20       /* call stacks that a list of leaks names */
};

static struct shard {
    struct acre__lock lock;
    struct acre__origin *entries;
    size_t capacity, used, live;
} shards[ORIGIN_SHARDS];

static pthread_once_t shards_once = PTHREAD_ONCE_INIT;

static void shards_init(void) {
    for (unsigned i = 0; i < ORIGIN_SHARDS; i++)
        acre__lock_init(&shards[i].lock, "origins", ACRE__RANK_LEAF);
}

/* ---- the table ---- */

static uint64_t origin_hash(uintptr_t at) {
    uint64_t hash = (at >> 4) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

static struct shard *shard_lock(const void *p) {
    pthread_once(&shards_once, shards_init);
    struct shard *shard = &shards[origin_hash((uintptr_t)p) % ORIGIN_SHARDS];
    acre__lock_take(&shard->lock);
    return shard;
}

/* Returns the entry of an address, or the unused entry where it belongs; NULL without a table. */
static struct acre__origin *shard_slot(const struct shard *shard, uintptr_t at) {
    if (!shard->capacity)
        return NULL;
    size_t i = origin_hash(at) / ORIGIN_SHARDS % shard->capacity;
    while (shard->entries[i].at && shard->entries[i].at != at)
        i = (i + 1) % shard->capacity;
    return &shard->entries[i];
}

static struct acre__origin *shard_find(const struct shard *shard, const void *p) {
    struct acre__origin *slot = shard_slot(shard, (uintptr_t)p);
    return slot && slot->at ? slot : NULL;
}

/* Makes room for one more entry. Returns 0 if out of host memory. */
static int shard_make_room(struct shard *shard) {
    if (shard->capacity && shard->used < shard->capacity / 4 * 3)
        return 1;
    size_t capacity = shard->capacity ? shard->capacity : ORIGIN_LEAST;
    int drops_freed = shard->live < shard->used / 2;
    if (!drops_freed && shard->capacity)
        capacity *= 2;
    struct shard next = {.capacity = capacity};
    next.entries = calloc(capacity, sizeof *next.entries);
    if (!next.entries)
        return shard->used + 1 < shard->capacity;
    for (size_t i = 0; i < shard->capacity; i++) {
        const struct acre__origin *entry = &shard->entries[i];
        if (entry->at && (entry->is_live || !drops_freed)) {
            *shard_slot(&next, entry->at) = *entry;
            next.used++;
        }
    }
    free(shard->entries);
    shard->entries = next.entries;
    shard->capacity = capacity;
    shard->used = next.used;
    return 1;
}

uint32_t acre__origin_add_now(const void *p, uint64_t bytes, const struct acre__what *what,
                              const void *owner, const char *label) {
    uint32_t stack = acre__stack_take();
    struct shard *shard = shard_lock(p);
    if (shard_make_room(shard)) {
        struct acre__origin *entry = shard_slot(shard, (uintptr_t)p);
        shard->used += !entry->at;
        shard->live += !entry->is_live;
        *entry = (struct acre__origin){.at = (uintptr_t)p,
                                       .bytes = bytes,
                                       .what = what,
                                       .owner = owner,
                                       .label = label,
                                       .since_ns = acre__now_ns(),
                                       .allocated = stack,
                                       .is_live = 1};
    }
    acre__lock_give(&shard->lock);
    return stack;
}

void acre__origin_stream_now(const void *p, acre_stream stream) {
    struct shard *shard = shard_lock(p);
    struct acre__origin *entry = shard_find(shard, p);
    if (entry)
        entry->stream = stream;
    acre__lock_give(&shard->lock);
}

int acre__origin_free_now(const void *p) {
    uint32_t stack = acre__stack_take();
    struct shard *shard = shard_lock(p);
    struct acre__origin *entry = shard_find(shard, p);
    int is_live = entry && entry->is_live;
    if (is_live) {
        entry->freed = stack;
        entry->is_live = 0;
        shard->live--;
    }
    acre__lock_give(&shard->lock);
    return is_live;
}

void acre__origin_unfree_now(const void *p) {
    struct shard *shard = shard_lock(p);
    struct acre__origin *entry = shard_find(shard, p);
    if (entry && !entry->is_live) {
        entry->freed = 0;
        entry->is_live = 1;
        shard->live++;
    }
    acre__lock_give(&shard->lock);
}

void acre__origin_resize_now(const void *p, uint64_t bytes) {
    struct shard *shard = shard_lock(p);
    struct acre__origin *entry = shard_find(shard, p);
    if (entry)
        entry->bytes = bytes;
    acre__lock_give(&shard->lock);
}

void acre__origin_forget_now(const void *p) {
    struct shard *shard = shard_lock(p);
    struct acre__origin *entry = shard_find(shard, p);
    if (entry && entry->is_live) {
        entry->is_live = 0;
        shard->live--;
    }
    acre__lock_give(&shard->lock);
}

int acre__origin_find(const void *p, struct acre__origin *origin) {
    if (!acre__stacks_are_on() || !p)
        return 0;
    struct shard *shard = shard_lock(p);
    const struct acre__origin *entry = shard_find(shard, p);
    if (entry)
        *origin = *entry;
    acre__lock_give(&shard->lock);
    return entry != NULL;
}

/* ---- lists of leaks ---- */

/* Live entries with the same call stack. */
struct group {
    const struct acre__what *what;
    const char *label;
    uint32_t stack;
    uint64_t count, bytes;
    uint64_t text; /* hash of the stack's text: two stacks may differ in nothing that it shows */
};

struct groups {
    const void *owner;             /* NULL: any */
    const struct acre__what *what; /* NULL: any */
    int forgets;
    struct group *at;
    size_t count, capacity;
    struct group rest; /* entries that found no memory for a group */
};

/* Orders groups of the same stack or text by what they are and whose. */
static int by_owner(const struct group *x, const struct group *y) {
    if (x->what != y->what)
        return (uintptr_t)x->what < (uintptr_t)y->what ? -1 : 1;
    return x->label == y->label ? 0 : (uintptr_t)x->label < (uintptr_t)y->label ? -1 : 1;
}

static int by_stack(const void *a, const void *b) {
    const struct group *x = a, *y = b;
    return x->stack == y->stack ? by_owner(x, y) : x->stack < y->stack ? -1 : 1;
}

static int by_text(const void *a, const void *b) {
    const struct group *x = a, *y = b;
    return x->text == y->text ? by_owner(x, y) : x->text < y->text ? -1 : 1;
}

static int by_bytes(const void *a, const void *b) {
    const struct group *x = a, *y = b;
    return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : 0;
}

static void groups_sort(struct groups *groups, int (*order)(const void *, const void *)) {
    if (groups->count)
        qsort(groups->at, groups->count, sizeof *groups->at, order);
}

/* Merges groups that are equal in this order. */
static void groups_merge(struct groups *groups, int (*order)(const void *, const void *)) {
    size_t kept = 0;
    groups_sort(groups, order);
    for (size_t i = 0; i < groups->count; i++) {
        struct group *last = kept ? &groups->at[kept - 1] : NULL;
        if (last && order(last, &groups->at[i]) == 0) {
            last->count += groups->at[i].count;
            last->bytes += groups->at[i].bytes;
        } else {
            groups->at[kept++] = groups->at[i];
        }
    }
    groups->count = kept;
}

/* Adds an entry as a group of its own. A full array is merged first, and grows if that does not
 * help. */
static void groups_add(struct groups *groups, const struct acre__origin *entry) {
    if (groups->count == groups->capacity) {
        groups_merge(groups, by_stack);
        size_t capacity = groups->capacity ? 2 * groups->capacity : 1024;
        struct group *at = groups->count < groups->capacity / 2
                               ? NULL
                               : realloc(groups->at, capacity * sizeof *at);
        if (at) {
            groups->at = at;
            groups->capacity = capacity;
        }
    }
    if (groups->count == groups->capacity) {
        groups->rest.count++;
        groups->rest.bytes += entry->bytes;
        return;
    }
    groups->at[groups->count++] = (struct group){.what = entry->what,
                                                 .label = entry->label,
                                                 .stack = entry->allocated,
                                                 .count = 1,
                                                 .bytes = entry->bytes};
}

static void shard_collect(struct shard *shard, struct groups *groups) {
    acre__lock_take(&shard->lock);
    for (size_t i = 0; i < shard->capacity; i++) {
        struct acre__origin *entry = &shard->entries[i];
        if (!entry->is_live || (groups->owner && entry->owner != groups->owner) ||
            (groups->what && entry->what != groups->what))
            continue;
        groups_add(groups, entry);
        if (groups->forgets) {
            entry->is_live = 0;
            shard->live--;
        }
    }
    acre__lock_give(&shard->lock);
}

/* The caller frees groups->at. */
static void groups_collect(struct groups *groups) {
    pthread_once(&shards_once, shards_init);
    for (unsigned i = 0; i < ORIGIN_SHARDS; i++)
        shard_collect(&shards[i], groups);
    groups_merge(groups, by_stack);
}

static uint64_t stack_text_hash(uint32_t stack) {
    char lines[ORIGIN_LINES][ACRE__LOG_LINE];
    acre__stack_where(stack, lines[0]);
    unsigned count = acre__stack_lines(stack, lines, 1, ORIGIN_LINES);
    uint64_t hash = ACRE__HASH_BEGIN;
    for (unsigned i = 0; i < count; i++)
        hash = acre__hash_bytes(hash, lines[i], strlen(lines[i]));
    return hash;
}

static void group_log(const struct group *group) {
    char lines[ORIGIN_LINES][ACRE__LOG_LINE], where[ACRE__FRAME_TEXT];
    acre__stack_where(group->stack, where);
    snprintf(lines[0], sizeof lines[0], "%s: leak: %llu bytes in %llu %s not freed%s%s",
             group->label, (unsigned long long)group->bytes, (unsigned long long)group->count,
             group->count == 1 ? group->what->one : group->what->many,
             where[0] ? "; allocated by " : "", where);
    unsigned count = acre__stack_lines(group->stack, lines, 1, ORIGIN_LINES);
    acre__log_lines(ACRE_LOG_WARN, group->what->area, lines, count);
}

/* Moves all groups but the first ones to the rest. */
static void groups_cut(struct groups *groups, size_t most) {
    for (; groups->count > most; groups->count--) {
        groups->rest.count += groups->at[groups->count - 1].count;
        groups->rest.bytes += groups->at[groups->count - 1].bytes;
    }
}

/* Logs the largest groups. Among candidates it merges those that look the same, such as those of
 * calls that the compiler unrolled. */
static void groups_log(struct groups *groups) {
    groups_sort(groups, by_bytes);
    groups_cut(groups, ORIGIN_CANDIDATES);
    for (size_t i = 0; i < groups->count; i++)
        groups->at[i].text = stack_text_hash(groups->at[i].stack);
    groups_merge(groups, by_text);
    groups_sort(groups, by_bytes);
    groups_cut(groups, ORIGIN_GROUPS);
    for (size_t i = 0; i < groups->count; i++)
        group_log(&groups->at[i]);
    if (groups->rest.count)
        acre__log(ACRE_LOG_WARN, "leak", "%llu more bytes in %llu blocks of other call stacks",
                  (unsigned long long)groups->rest.bytes, (unsigned long long)groups->rest.count);
}

/* Reports the groups to `acre run`. */
static void groups_run(const struct groups *groups) {
    uintptr_t frames[ACRE__STACK_MOST];
    for (size_t i = 0; i < groups->count; i++) {
        const struct group *group = &groups->at[i];
        unsigned count = acre__stack_callers(group->stack, frames);
        acre__run_leaked(group->what->call, group->count, group->bytes,
                         count ? (const void *)frames[0] : NULL);
    }
}

int acre__origin_log_leaks(const void *owner, const struct acre__what *what) {
    if (!acre__stacks_are_on())
        return 0;
    struct groups groups = {.owner = owner, .what = what, .forgets = 1};
    groups_collect(&groups);
    groups_run(&groups);
    groups_log(&groups);
    free(groups.at);
    return 1;
}

void acre__origin_drop(const void *owner) {
    struct groups groups = {.owner = owner, .forgets = 1};
    if (!acre__stacks_are_on())
        return;
    groups_collect(&groups);
    free(groups.at);
}

void acre__origin_run_all(void) {
    struct groups groups = {0};
    if (!acre__stacks_are_on())
        return;
    groups_collect(&groups);
    groups_run(&groups);
    free(groups.at);
}

void acre__origin_log_all(void) {
    struct groups groups = {0};
    if (!acre__stacks_are_on())
        return;
    groups_collect(&groups);
    groups_log(&groups);
    free(groups.at);
}

void acre__origin_by_stack(const void *owner,
                           void (*fn)(void *user, uint32_t stack, uint64_t count, uint64_t bytes),
                           void *user) {
    struct groups groups = {.owner = owner};
    if (!acre__stacks_are_on())
        return;
    groups_collect(&groups);
    for (size_t i = 0; i < groups.count; i++)
        fn(user, groups.at[i].stack, groups.at[i].count, groups.at[i].bytes);
    free(groups.at);
}

/* ---- errors ---- */

/* Appends "VERB by FRAME" and the frames above it to a message. */
static unsigned add_stack(char (*lines)[ACRE__LOG_LINE], unsigned used, const char *verb,
                          uint32_t stack) {
    char where[ACRE__FRAME_TEXT];
    if (!stack || used >= ORIGIN_LINES)
        return used;
    acre__stack_where(stack, where);
    if (!where[0]) /* a static program has no symbols */
        return used;
    snprintf(lines[used++], sizeof lines[0], "%s by %s", verb, where);
    return acre__stack_lines(stack, lines, used, ORIGIN_LINES);
}

void acre__origin_log_error(const void *p, const char *format, ...) {
    char lines[ORIGIN_LINES][ACRE__LOG_LINE];
    struct acre__origin origin = {0};
    va_list args;
    if (!acre__log_wanted(ACRE_LOG_ERROR))
        return;
    va_start(args, format);
    if (vsnprintf(lines[0], sizeof lines[0], format, args) < 0)
        lines[0][0] = '\0';
    va_end(args);
    acre__one_line(lines[0]);
    unsigned count = 1;
    if (acre__origin_find(p, &origin)) {
        count = add_stack(lines, count, "allocated", origin.allocated);
        count = add_stack(lines, count, "freed", origin.freed);
    }
    acre__log_lines(ACRE_LOG_ERROR, origin.what ? origin.what->area : "pool", lines, count);
}

int acre__origin_log_double_free(const void *p) {
    char lines[ORIGIN_LINES][ACRE__LOG_LINE], where[ACRE__FRAME_TEXT];
    struct acre__origin origin;
    if (!acre__origin_find(p, &origin) || origin.is_live || !origin.freed)
        return 0;
    uint32_t again = acre__stack_take();
    acre__stack_where(again, where);
    snprintf(lines[0], sizeof lines[0], "%s: double free: %llu bytes at %p freed again%s%s",
             origin.label, (unsigned long long)origin.bytes, p, where[0] ? " by " : "", where);
    unsigned count = acre__stack_lines(again, lines, 1, ORIGIN_LINES);
    count = add_stack(lines, count, "first freed", origin.freed);
    count = add_stack(lines, count, "allocated", origin.allocated);
    acre__log_lines(ACRE_LOG_ERROR, origin.what->area, lines, count);
    if (acre__thread_self()->id)
        acre__thread_self()->is_told = 1;
    return 1;
}

/* Statuses that a correct program does not get. */
static int is_mistake(acre_status status) {
    switch (status) {
    case ACRE_E_INVALID:
    case ACRE_E_NULL:
    case ACRE_E_HANDLE:
    case ACRE_E_OPTIONS:
    case ACRE_E_POINTER:
    case ACRE_E_INTERIOR:
    case ACRE_E_KIND:
    case ACRE_E_RANGE:
    case ACRE_E_OVERLAP:
    case ACRE_E_DIRECTION:
    case ACRE_E_REGISTERED:
        return 1;
    default:
        return 0;
    }
}

void acre__origin_log_refusal(acre_status status) {
    char lines[ORIGIN_LINES][ACRE__LOG_LINE];
    struct acre__thread *thread = acre__thread_self();
    int is_told = thread->id && thread->is_told;
    if (thread->id)
        thread->is_told = 0;
    if (is_told || !is_mistake(status))
        return;
    struct acre__said said; /* formatting the stack must not change the detail */
    acre__said_keep(&said);
    snprintf(lines[0], sizeof lines[0], "%s: %.400s", acre_status_name(status), said.line);
    unsigned count = add_stack(lines, 1, "called", acre__stack_take());
    struct acre__origin origin;
    if (thread->about && acre__origin_find(thread->about, &origin)) {
        count = add_stack(lines, count, "allocated", origin.allocated);
        count = add_stack(lines, count, "freed", origin.freed);
    }
    acre__log_lines(ACRE_LOG_ERROR, "call", lines, count);
    (void)acre__said_fail(status, &said);
}
