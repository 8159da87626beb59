/* Addresses that acre freed: see gone.h. The records are in a static array, so that a free never
 * fails for lack of memory. */
#include "space/gone.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/tree.h"

/* A program that uses freed memory mostly uses a block that was freed a short time ago. */
enum { GONE_MOST = 1024 };

struct record {
    struct acre__node node; /* key: first address */
    uint64_t bytes;         /* 0: the record is not in the tree */
};

static struct {
    struct record at[GONE_MOST];
    unsigned next;       /* the oldest record, which is replaced next */
    uint64_t begin, end; /* all records so far lie in between */
    struct acre__tree tree;
} gone;

static struct record *record_of(struct acre__node *node) {
    return acre__tree_entry(node, struct record, node);
}

static void record_end(struct record *record) {
    if (record->bytes)
        acre__tree_remove(&gone.tree, &record->node);
    record->bytes = 0;
}

static void record_begin(uint64_t at, uint64_t bytes) {
    struct record *record = &gone.at[gone.next++ % GONE_MOST];
    record_end(record);
    record->node.key = at;
    record->bytes = bytes;
    acre__tree_insert(&gone.tree, &record->node);
    gone.begin = gone.end && gone.begin < at ? gone.begin : at;
    gone.end = gone.end > at + bytes ? gone.end : at + bytes;
}

/* Returns the last record that shares an address with the range, or NULL. Copies of pageable memory
 * call this, so it rejects addresses far from all records before it searches. */
static struct record *record_find(uint64_t at, uint64_t bytes) {
    if (!bytes || at >= gone.end || at + bytes <= gone.begin)
        return NULL;
    struct record *record = record_of(acre__tree_floor(&gone.tree, at + bytes - 1));
    return record && at < record->node.key + record->bytes ? record : NULL;
}

void acre__gone_cut(uint64_t at, uint64_t bytes) {
    struct record *record;
    while ((record = record_find(at, bytes))) {
        uint64_t begin = record->node.key, end = begin + record->bytes;
        if (begin < at)
            record->bytes = at - begin;
        else
            record_end(record);
        if (end > at + bytes)
            record_begin(at + bytes, end - (at + bytes));
    }
}

void acre__gone_add(uint64_t at, uint64_t bytes) {
    if (!bytes)
        return;
    acre__gone_cut(at, bytes);
    record_begin(at, bytes);
}

int acre__gone_find(uint64_t at, uint64_t bytes, struct acre__gone_range *range) {
    const struct record *record = record_find(at, bytes), *first = NULL;
    if (record)
        first = record_of(acre__tree_floor(&gone.tree, at));
    if (first && at - first->node.key < first->bytes)
        record = first;
    if (record)
        *range = (struct acre__gone_range){record->node.key, record->bytes};
    return record != NULL;
}

/* Lets the kernel read eight bytes, which fails with EFAULT instead of a signal. The call changes
 * no signal mask, because -1 is no valid operation. */
static int byte_is_readable(uint64_t at) {
    int before = errno;
    int is_readable =
        syscall(SYS_rt_sigprocmask, -1, (void *)(uintptr_t)(at & ~(uint64_t)7), NULL, 8) == 0 ||
        errno != EFAULT;
    errno = before;
    return is_readable;
}

int acre__gone_is_readable(uint64_t at, uint64_t bytes) {
    return byte_is_readable(at) && byte_is_readable(at + bytes - 1);
}
