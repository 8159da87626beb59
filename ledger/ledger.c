/* The ledger's entries and counts; see ledger.h. */
#include "ledger.h"
#include "ledger_stats.h"
#include "ledger_trace.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Number of freed entries that are kept, to identify a use after free. */
enum { LEDGER_FREED = 256 };

static struct {
    pthread_mutex_t lock;
    struct acre__tree memory;    /* by first address */
    struct acre__tree addresses; /* reservations, by first address */
    struct acre__tree chunks;    /* by handle; one without handles is reachable by its mappings */
    struct acre__tree pools;     /* by handle */
    struct acre__tree arrays;    /* by handle */
    struct acre__tree opened;    /* devices of libacre, by their address */
    struct ledger_entry *lost;   /* newest first */
    struct ledger_entry *held;   /* entries that threads have taken during a driver call */
    struct ledger_entry freed[LEDGER_FREED];
    unsigned freed_next;
    unsigned passes;  /* of acre__ledger_rows */
    unsigned endings; /* calls in progress that may destroy a context */
    uint64_t made, ended;
    struct run_count counts[RUN_KIND_COUNT + 1]; /* the last one is for all memory */
} ledger = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const int ledger_is_memory[RUN_KIND_COUNT] = {
#define LEDGER_KIND(kind, title, is_memory) is_memory,
    RUN_KINDS(LEDGER_KIND)
#undef LEDGER_KIND
};

static struct acre__tree *ledger_tree(enum run_kind kind) {
    switch (kind) {
    case RUN_ADDRESSES:
        return &ledger.addresses;
    case RUN_CHUNK:
        return &ledger.chunks;
    case RUN_POOL:
        return &ledger.pools;
    case RUN_ARRAY:
        return &ledger.arrays;
    case RUN_OPENED:
        return &ledger.opened;
    default:
        return &ledger.memory;
    }
}

static struct ledger_entry *entry_of(struct acre__node *node) {
    return acre__tree_entry(node, struct ledger_entry, node);
}

static int entry_holds(const struct ledger_entry *entry, uint64_t address) {
    return address - entry->node.key < entry->bytes;
}

/* ---- counting; the lock is held ---- */

static void count_made(struct run_count *count, size_t bytes) {
    count->made++;
    count->all_bytes += bytes;
    count->bytes += bytes;
    if (count->most_bytes < count->bytes)
        count->most_bytes = count->bytes;
}

/* Copies the changed counts to the report and the statistics. */
static void ledger_record_counts(enum run_kind kind) {
    acre__ledger_stats_store(kind, &ledger.counts[kind]);
    acre__record_count(kind, &ledger.counts[kind]);
    if (ledger_is_memory[kind])
        acre__record_count(RUN_KIND_COUNT, &ledger.counts[RUN_KIND_COUNT]);
}

static void ledger_count_made(enum run_kind kind, size_t bytes) {
    count_made(&ledger.counts[kind], bytes);
    if (ledger_is_memory[kind])
        count_made(&ledger.counts[RUN_KIND_COUNT], bytes);
    ledger_record_counts(kind);
}

static void count_ended(struct run_count *count, size_t bytes, int is_freed) {
    count->freed += is_freed != 0;
    count->bytes -= bytes;
}

static void ledger_count_ended(const struct ledger_entry *entry, int is_freed) {
    count_ended(&ledger.counts[entry->kind], entry->bytes, is_freed);
    if (ledger_is_memory[entry->kind])
        count_ended(&ledger.counts[RUN_KIND_COUNT], entry->bytes, is_freed);
    ledger_record_counts(entry->kind);
}

/* ---- entries; the lock is held ---- */

/* Chunks live on while something refers to them. */
static int kind_is_freed_at_once(enum run_kind kind) {
    return kind != RUN_CHUNK && kind != RUN_ARRAY;
}

static void ledger_lose(struct ledger_entry *entry) {
    acre__ledger_trace_free(entry->kind, entry->node.key);
    acre__tree_remove(ledger_tree(entry->kind), &entry->node);
    ledger_count_ended(entry, 0);
    acre__record_block_lose(entry->record);
    entry->is_lost = 1;
    entry->ended = ++ledger.ended;
    entry->next = ledger.lost;
    ledger.lost = entry;
}

/* Handles are not addresses, and registered pages belong to the program before and after. */
static int kind_has_addresses(enum run_kind kind) {
    return kind != RUN_CHUNK && kind != RUN_POOL && kind != RUN_ARRAY && kind != RUN_REGISTERED &&
           kind != RUN_OPENED;
}

static void ledger_free(struct ledger_entry *entry) {
    if (!kind_is_freed_at_once(entry->kind))
        acre__ledger_trace_free(entry->kind, entry->node.key);
    ledger_count_ended(entry, 1);
    acre__record_block_end(entry->record);
    if (kind_has_addresses(entry->kind)) {
        entry->is_freed = 1;
        entry->ended = ++ledger.ended;
        if (!entry->is_over)
            entry->freer = acre__ledger_caller();
        ledger.freed[ledger.freed_next++ % LEDGER_FREED] = *entry;
    }
    free(entry);
}

/* Frees the chunk's entry if it has neither handles nor mappings. */
static void ledger_free_chunk_if_over(struct ledger_entry *chunk) {
    if (!chunk->handles && !chunk->mappings)
        ledger_free(chunk);
}

/* Ends an entry. A mapping drops its reference to its chunk. */
static void ledger_end(struct ledger_entry *entry) {
    if (entry->chunk) {
        entry->chunk->mappings--;
        ledger_free_chunk_if_over(entry->chunk);
    }
    ledger_free(entry);
}

/* ---- entries that a thread has taken; the lock is held ---- */

static void ledger_hold(struct ledger_entry *entry) {
    acre__tree_remove(ledger_tree(entry->kind), &entry->node);
    entry->is_over = 0;
    entry->next_held = ledger.held;
    ledger.held = entry;
}

/* Ends a taken entry if the driver freed it, else puts it back. The insert fails if the memory was
 * freed unnoticed and the driver has returned its address again; then the entry ends, too. */
static void ledger_let_go(struct ledger_entry *entry, CUresult result) {
    struct ledger_entry **link = &ledger.held;
    while (*link != entry)
        link = &(*link)->next_held;
    *link = entry->next_held;
    entry->is_back = 1;
    if (!result || entry->is_over || !acre__tree_insert(ledger_tree(entry->kind), &entry->node))
        ledger_end(entry);
    else if (kind_is_freed_at_once(entry->kind))
        acre__ledger_trace_kept(entry->kind, entry->node.key);
}

/* Handles a free in [first, first + bytes) by a thread that had no entry for it. The entry is one
 * that another thread has taken, or has put back after the driver refused its free. */
static void ledger_end_unseen(struct acre__tree *tree, uint64_t first, uint64_t bytes) {
    for (struct ledger_entry *entry = ledger.held; entry; entry = entry->next_held) {
        if (ledger_tree(entry->kind) == tree && entry->node.key - first < bytes &&
            !entry->is_over) {
            entry->is_over = 1;
            entry->freer = acre__ledger_caller();
        }
    }
    struct acre__node *node = acre__tree_ceil(tree, first);
    while (node && node->key - first < bytes) {
        struct ledger_entry *entry = entry_of(node);
        node = acre__tree_next(tree, node);
        if (entry->is_back) {
            acre__tree_remove(tree, &entry->node);
            ledger_end(entry);
        }
    }
}

/* ---- new entries; the lock is held ---- */

/* Without memory for an entry, the allocation is counted but not listed. `site` is the caller's
 * number in the report. */
static struct ledger_entry *ledger_insert(enum run_kind kind, uint64_t key, size_t bytes,
                                          uint32_t site) {
    struct ledger_entry *entry = calloc(1, sizeof *entry);
    ledger_count_made(kind, bytes);
    if (!entry)
        return NULL;
    entry->node.key = key;
    entry->kind = kind;
    entry->bytes = bytes;
    entry->number = ++ledger.made;
    entry->caller = acre__ledger_caller();
    entry->handles = kind == RUN_CHUNK;
    /* The driver has returned this address again, so an old entry there ended unnoticed: with its
     * context if one is being destroyed now, else by a thread that freed another thread's
     * memory. */
    ledger_end_unseen(ledger_tree(kind), key, 1);
    struct ledger_entry *stale = entry_of(acre__tree_find(ledger_tree(kind), key));
    if (stale && ledger.endings) {
        ledger_lose(stale);
    } else if (stale) {
        acre__tree_remove(ledger_tree(kind), &stale->node);
        ledger_end(stale);
    }
    acre__tree_insert(ledger_tree(kind), &entry->node);
    entry->record = acre__record_block(kind, key, bytes, entry->number, site);
    return entry;
}

/* Returns the number of the thread's caller in the report. Called without the lock. */
static uint32_t ledger_site(void) {
    acre__ledger_find_outside();
    struct acre_ledger_caller caller = acre__ledger_caller();
    return acre__record_site(&caller);
}

/* ---- entries ---- */

void acre__ledger_add(enum run_kind kind, uint64_t key, size_t bytes) {
    uint32_t site = ledger_site();
    pthread_mutex_lock(&ledger.lock);
    (void)ledger_insert(kind, key, bytes, site);
    pthread_mutex_unlock(&ledger.lock);
    struct acre_ledger_caller caller = acre__ledger_caller();
    acre__ledger_trace_alloc(kind, key, bytes, site, &caller);
}

void acre__ledger_refuse(enum run_kind kind) {
    pthread_mutex_lock(&ledger.lock);
    ledger.counts[kind].refused++;
    if (ledger_is_memory[kind])
        ledger.counts[RUN_KIND_COUNT].refused++;
    ledger_record_counts(kind);
    pthread_mutex_unlock(&ledger.lock);
}

struct ledger_entry *acre__ledger_take(enum run_kind kind, uint64_t key) {
    pthread_mutex_lock(&ledger.lock);
    struct ledger_entry *entry = entry_of(acre__tree_find(ledger_tree(kind), key));
    if (entry)
        ledger_hold(entry);
    if (entry && kind_is_freed_at_once(entry->kind))
        acre__ledger_trace_free(entry->kind, key);
    pthread_mutex_unlock(&ledger.lock);
    return entry;
}

struct ledger_entry *acre__ledger_take_mappings(uint64_t address, size_t bytes) {
    struct ledger_entry *list = NULL;
    pthread_mutex_lock(&ledger.lock);
    struct acre__node *node = acre__tree_ceil(&ledger.memory, address);
    while (node && node->key - address < bytes) {
        struct ledger_entry *entry = entry_of(node);
        node = acre__tree_next(&ledger.memory, node);
        if (entry->kind != RUN_MAPPED)
            continue;
        ledger_hold(entry);
        entry->next = list;
        list = entry;
    }
    pthread_mutex_unlock(&ledger.lock);
    return list;
}

void acre__ledger_settle(enum run_kind kind, uint64_t key, struct ledger_entry *entry,
                         CUresult result) {
    if (!key || (!entry && result))
        return;
    pthread_mutex_lock(&ledger.lock);
    if (entry)
        ledger_let_go(entry, result);
    else
        ledger_end_unseen(ledger_tree(kind), key, 1);
    pthread_mutex_unlock(&ledger.lock);
}

void acre__ledger_settle_mappings(uint64_t address, size_t bytes, struct ledger_entry *list,
                                  CUresult result) {
    pthread_mutex_lock(&ledger.lock);
    while (list) {
        struct ledger_entry *entry = list;
        list = entry->next;
        entry->next = NULL;
        ledger_let_go(entry, result);
    }
    if (!result)
        ledger_end_unseen(&ledger.memory, address, bytes);
    pthread_mutex_unlock(&ledger.lock);
}

/* ---- chunks ---- */

void acre__ledger_add_mapping(uint64_t address, size_t bytes, uint64_t handle) {
    uint32_t site = ledger_site();
    pthread_mutex_lock(&ledger.lock);
    struct ledger_entry *entry = ledger_insert(RUN_MAPPED, address, bytes, site);
    struct ledger_entry *chunk = entry_of(acre__tree_find(&ledger.chunks, handle));
    if (entry && chunk) {
        entry->chunk = chunk;
        chunk->mappings++;
    }
    pthread_mutex_unlock(&ledger.lock);
}

/* Returns the entry that contains the address, in a tree by first address. */
static struct ledger_entry *ledger_at(const struct acre__tree *tree, uint64_t address) {
    struct ledger_entry *entry = entry_of(acre__tree_floor(tree, address));
    return entry && entry_holds(entry, address) ? entry : NULL;
}

void acre__ledger_add_handle(uint64_t handle, uint64_t address) {
    uint32_t site = ledger_site();
    pthread_mutex_lock(&ledger.lock);
    struct ledger_entry *chunk = entry_of(acre__tree_find(&ledger.chunks, handle));
    if (chunk) {
        chunk->handles++;
    } else {
        /* The program had released its handles, but not the mapping. */
        const struct ledger_entry *mapping = ledger_at(&ledger.memory, address);
        chunk = mapping ? mapping->chunk : NULL;
        if (chunk) {
            chunk->handles = 1;
            chunk->node.key = handle;
            acre__record_block_show(chunk->record, 1);
            acre__tree_insert(&ledger.chunks, &chunk->node);
        } else {
            (void)ledger_insert(RUN_CHUNK, handle, 0, site);
        }
    }
    pthread_mutex_unlock(&ledger.lock);
}

/* Handle numbers are not reused, so this may run after the driver call. */
void acre__ledger_drop_handle(uint64_t handle) {
    pthread_mutex_lock(&ledger.lock);
    struct ledger_entry *chunk = entry_of(acre__tree_find(&ledger.chunks, handle));
    if (chunk && --chunk->handles == 0) {
        acre__tree_remove(&ledger.chunks, &chunk->node);
        acre__record_block_show(chunk->record, 0); /* its mapping is listed */
        ledger_free_chunk_if_over(chunk);
    }
    pthread_mutex_unlock(&ledger.lock);
}

/* ---- destroyed contexts, forked processes ---- */

void acre__ledger_ending(void) {
    pthread_mutex_lock(&ledger.lock);
    ledger.endings++;
    pthread_mutex_unlock(&ledger.lock);
}

static void ledger_sweep(const struct acre__driver *drv) {
    struct acre__node *node = acre__tree_first(&ledger.memory);
    while (node) {
        struct ledger_entry *entry = entry_of(node);
        unsigned long long id = 0;
        node = acre__tree_next(&ledger.memory, node);
        if (entry->kind != RUN_MAPPED &&
            drv->cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, entry->node.key) ==
                CUDA_ERROR_INVALID_VALUE)
            ledger_lose(entry);
    }
    node = acre__tree_first(&ledger.pools);
    while (node && !acre__ledger_watches) { /* NVIDIA's driver may not check a stale handle */
        struct ledger_entry *entry = entry_of(node);
        uint64_t threshold = 0;
        node = acre__tree_next(&ledger.pools, node);
        if (drv->cuMemPoolGetAttribute((CUmemoryPool)(uintptr_t)entry->node.key,
                                       CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                                       &threshold) == CUDA_ERROR_INVALID_VALUE)
            ledger_lose(entry);
    }
}

void acre__ledger_ended(const struct acre__driver *drv, CUresult result) {
    pthread_mutex_lock(&ledger.lock);
    if (!result)
        ledger_sweep(drv);
    ledger.endings--;
    pthread_mutex_unlock(&ledger.lock);
}

/* A thread that does not exist in the child may hold the lock, so the lock is reset and entries are
 * not freed. */
void acre__ledger_forget(void) {
    pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    acre__ledger_stats_forget();
    ledger.lock = fresh;
    ledger.memory = ledger.addresses = ledger.chunks = ledger.pools = ledger.arrays =
        ledger.opened = (struct acre__tree){NULL, 0};
    ledger.lost = NULL;
    ledger.held = NULL;
    ledger.endings = 0;
    memset(ledger.freed, 0, sizeof ledger.freed);
    for (int i = 0; i <= RUN_KIND_COUNT; i++)
        ledger.counts[i] = (struct run_count){0};
}

/* ---- queries ---- */

/* Returns the most recently ended entry that contained the address, or NULL. */
static const struct ledger_entry *ledger_at_before(uint64_t address) {
    const struct ledger_entry *last = NULL, *entry;
    for (unsigned i = 0; i < LEDGER_FREED; i++) {
        entry = &ledger.freed[i];
        if (entry_holds(entry, address) && (!last || entry->ended > last->ended))
            last = entry;
    }
    for (entry = ledger.lost; entry; entry = entry->next)
        if (kind_has_addresses(entry->kind) && entry_holds(entry, address) &&
            (!last || entry->ended > last->ended))
            last = entry;
    return last;
}

int acre__ledger_find(uint64_t address, struct ledger_entry *out) {
    int tries = 1000;
    while (pthread_mutex_trylock(&ledger.lock) != 0) {
        if (--tries == 0)
            return 0;
        sched_yield();
    }
    const struct ledger_entry *entry = ledger_at(&ledger.memory, address);
    if (!entry)
        entry = ledger_at(&ledger.addresses, address);
    if (!entry)
        entry = ledger_at_before(address);
    if (entry)
        *out = *entry;
    pthread_mutex_unlock(&ledger.lock);
    return entry != NULL;
}

int acre__ledger_is_free(void) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    if (pthread_mutex_timedlock(&ledger.lock, &until) != 0)
        return 0;
    pthread_mutex_unlock(&ledger.lock);
    return 1;
}

struct run_count acre__ledger_count(enum run_kind kind) {
    pthread_mutex_lock(&ledger.lock);
    struct run_count count = ledger.counts[kind];
    pthread_mutex_unlock(&ledger.lock);
    return count;
}

/* ---- rows ---- */

struct ledger_rows {
    struct ledger_row *rows;
    size_t count, room;
};

static void rows_put(struct ledger_rows *to, const struct ledger_entry *entry, uint64_t address) {
    if (to->count < to->room)
        to->rows[to->count] = (struct ledger_row){address, entry->bytes, entry->caller};
    to->count++;
}

/* Of a mapping, the chunk: it takes the memory. */
static void rows_put_memory(struct ledger_rows *to, struct ledger_entry *entry) {
    if (entry->kind == RUN_DEVICE || entry->kind == RUN_ORDERED || entry->kind == RUN_MANAGED)
        rows_put(to, entry, entry->node.key);
    struct ledger_entry *chunk = entry->kind == RUN_MAPPED ? entry->chunk : NULL;
    if (chunk && chunk->counted != ledger.passes) {
        chunk->counted = ledger.passes;
        rows_put(to, chunk, entry->node.key);
    }
}

size_t acre__ledger_rows(struct ledger_row *rows, size_t room) {
    struct ledger_rows to = {rows, 0, room};
    struct acre__node *node;
    pthread_mutex_lock(&ledger.lock);
    ledger.passes++;
    for (node = acre__tree_first(&ledger.memory); node;
         node = acre__tree_next(&ledger.memory, node))
        rows_put_memory(&to, entry_of(node));
    for (node = acre__tree_first(&ledger.chunks); node;
         node = acre__tree_next(&ledger.chunks, node)) {
        if (entry_of(node)->counted != ledger.passes)
            rows_put(&to, entry_of(node), 0);
    }
    for (node = acre__tree_first(&ledger.arrays); node;
         node = acre__tree_next(&ledger.arrays, node))
        rows_put(&to, entry_of(node), 0);
    pthread_mutex_unlock(&ledger.lock);
    return to.count;
}
