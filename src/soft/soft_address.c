/* Device addresses of the soft driver: windows of PROT_NONE memory, allocated in 2 MiB steps.
 *
 * The configuration sets the size of the first window: 8 times the device by default, halved until
 * the system accepts it. When the window is full, or a larger range is requested, the driver
 * creates another window. Windows stay until the driver restarts, so a stale device address is
 * always recognised and never taken for pageable host memory. Guarded by acre__soft.lock. Free
 * addresses are one tree of intervals; neighbours are always merged. */
#include <stdlib.h>
#include <sys/mman.h>

#include "soft/soft_address.h"
#include "base/round.h"
#include "soft/soft_state.h"

/* More addresses than any machine has for one process. The limit keeps sums from overflowing. */
#define SOFT_WINDOW_MOST ((uint64_t)1 << 47)
/* Alignments up to this one cost as many addresses in every run, wherever the system maps a
 * window. */
#define SOFT_WINDOW_ALIGNMENT ((uint64_t)64 << 20)

struct soft_interval {
    struct acre__node node; /* key: first address */
    uint64_t bytes;
};

static struct soft_interval *interval_of(struct acre__node *node) {
    return acre__tree_entry(node, struct soft_interval, node);
}

static struct soft_interval *interval_add(struct acre__tree *tree, uint64_t begin, uint64_t bytes) {
    struct soft_interval *interval = calloc(1, sizeof *interval);
    if (!interval)
        return NULL;
    interval->node.key = begin;
    interval->bytes = bytes;
    acre__tree_insert(tree, &interval->node);
    return interval;
}

void acre__soft_address_give(uint64_t address, size_t bytes) {
    struct acre__tree *tree = &acre__soft.free_addresses;
    struct soft_interval *before = interval_of(acre__tree_floor(tree, address));
    struct soft_interval *after = interval_of(acre__tree_find(tree, address + bytes));
    if (before && before->node.key + before->bytes == address) {
        before->bytes += bytes;
    } else {
        /* Without memory for a record the interval leaks, which costs only addresses. */
        before = interval_add(tree, address, bytes);
    }
    if (before && after) {
        before->bytes += after->bytes;
        acre__tree_remove(tree, &after->node);
        free(after);
    }
}

/* Cuts [begin, begin + bytes) out of a free interval. Returns 0 without memory for a second
 * remainder. */
static int interval_cut(struct soft_interval *interval, uint64_t begin, uint64_t bytes) {
    uint64_t head = begin - interval->node.key;
    uint64_t tail = interval->bytes - head - bytes;
    if (head && tail && !interval_add(&acre__soft.free_addresses, begin + bytes, tail))
        return 0;
    if (head) {
        interval->bytes = head;
        return 1;
    }
    acre__tree_remove(&acre__soft.free_addresses, &interval->node);
    if (tail) {
        interval->node.key = begin + bytes;
        interval->bytes = tail;
        acre__tree_insert(&acre__soft.free_addresses, &interval->node);
    } else {
        free(interval);
    }
    return 1;
}

/* Creates a window of `bytes`, or less if the system refuses, but of at least `at_least`. Returns 0
 * if the system refuses that, too. */
static int window_make(uint64_t bytes, uint64_t at_least) {
    if (bytes > SOFT_WINDOW_MOST)
        bytes = SOFT_WINDOW_MOST;
    for (;; bytes /= 2) {
        if (bytes < at_least)
            bytes = at_least;
        void *mapped = mmap(NULL, bytes + SOFT_WINDOW_ALIGNMENT, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (mapped == MAP_FAILED) {
            if (bytes == at_least)
                return 0;
            continue;
        }
        struct soft_interval *window = interval_add(
            &acre__soft.windows, (uint64_t)(uintptr_t)mapped, bytes + SOFT_WINDOW_ALIGNMENT);
        if (!window) {
            munmap(mapped, bytes + SOFT_WINDOW_ALIGNMENT);
            return 0;
        }
        uint64_t first = acre__round_up((uintptr_t)mapped, SOFT_WINDOW_ALIGNMENT);
        acre__soft_address_give(first, bytes - bytes % SOFT_CHUNK_BYTES);
        return 1;
    }
}

/* Takes the hint, or else the first free addresses that fit. Returns 0 if none fit. */
static uint64_t address_search(size_t bytes, size_t alignment, uint64_t hint) {
    struct soft_interval *hole =
        hint ? interval_of(acre__tree_floor(&acre__soft.free_addresses, hint)) : NULL;
    if (hole && hint % alignment == 0 && hint - hole->node.key < hole->bytes &&
        hole->bytes - (hint - hole->node.key) >= bytes)
        return interval_cut(hole, hint, bytes) ? hint : 0;
    struct acre__node *node = acre__tree_first(&acre__soft.free_addresses);
    for (; node; node = acre__tree_next(&acre__soft.free_addresses, node)) {
        hole = interval_of(node);
        uint64_t begin = acre__round_up(node->key, alignment);
        if (begin - node->key <= hole->bytes && hole->bytes - (begin - node->key) >= bytes)
            return interval_cut(hole, begin, bytes) ? begin : 0;
    }
    return 0;
}

uint64_t acre__soft_address_take(size_t bytes, size_t alignment, uint64_t hint) {
    uint64_t address = address_search(bytes, alignment, hint);
    if (address)
        return address;
    uint64_t at_least = bytes + (alignment > SOFT_CHUNK_BYTES ? alignment : 0);
    if (at_least < bytes || at_least > SOFT_WINDOW_MOST)
        return 0;
    uint64_t wanted = acre__soft.windows.count ? at_least : acre__soft.config.address_bytes;
    if (!window_make(wanted, at_least))
        return 0;
    return address_search(bytes, alignment, hint);
}

int acre__soft_address_is_device(uint64_t address) {
    struct soft_interval *window = interval_of(acre__tree_floor(&acre__soft.windows, address));
    return window && address - window->node.key < window->bytes;
}

void acre__soft_address_reset(void) {
    struct acre__node *node;
    while ((node = acre__tree_first(&acre__soft.free_addresses))) {
        acre__tree_remove(&acre__soft.free_addresses, node);
        free(interval_of(node));
    }
    while ((node = acre__tree_first(&acre__soft.windows))) {
        struct soft_interval *window = interval_of(node);
        acre__tree_remove(&acre__soft.windows, node);
        munmap((void *)(uintptr_t)node->key, window->bytes);
        free(window);
    }
}
