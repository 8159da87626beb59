/* Where contents are while their memory is away: see suspend.h.
 *
 * A store is host memory in huge pages that are not pinned, first touched by several threads while
 * the copies begin; or a file without a name, mapped, whose blocks the file system allocates in
 * advance: so a full disk is an error of the suspend, and not a signal in a copy. A store exists
 * while a span uses it.
 *
 * Retained spans keep their stores. The next suspend finds the room of the same memory there. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/lock.h"
#include "base/round.h"
#include "base/status.h"
#include "base/thread.h"
#include "copy/contents.h"
#include "space/host_pages.h"
#include "space/uses.h"
#include "suspend/suspend.h"

static const size_t STORE_LARGE = (size_t)1 << 30;

struct acre__store {
    char *at;
    size_t bytes, whole_bytes;
    int is_file;
    _Atomic size_t spans; /* that use it: of suspends, and retained ones */
};

/* Retained spans by device. */
static struct {
    struct acre__lock lock;
    struct acre__spans of[ACRE__DEVICE_SLOTS];
} retained = {.lock = ACRE__LOCK_INIT("retained contents", ACRE__RANK_LEAF)};

/* ---- lists ---- */

int acre__span_add(struct acre__spans *spans, const struct acre__span *span) {
    if (spans->count == spans->room) {
        size_t room = spans->room ? 2 * spans->room : 64;
        struct acre__span *list = realloc(spans->list, room * sizeof *list);
        if (!list)
            return 0;
        spans->list = list;
        spans->room = room;
    }
    spans->list[spans->count++] = *span;
    return 1;
}

static void *store_free(void *user) {
    struct acre__store *store = user;
    if (store->is_file)
        munmap(store->at, store->whole_bytes);
    else
        acre__host_pages_free(store->at, store->whole_bytes);
    free(store);
    return NULL;
}

/* A large store is freed by a thread, since a program that resumes waits: 4 GiB took the kernel 6
 * ms on a Neoverse V1. */
static void store_end(struct acre__store *store) {
    pthread_t thread;
    if (store->whole_bytes >= STORE_LARGE && !acre__thread_start(&thread, store_free, store))
        pthread_detach(thread);
    else
        (void)store_free(store);
}

/* Ends the use of a store by a span. The pages of the span become free even if others use the
 * store. */
static void span_end(struct acre__span *span) {
    struct acre__store *store = span->store;
    span->store = NULL;
    if (!store)
        return;
    if (acre__fetch_sub(&store->spans, 1, memory_order_acq_rel) == 1) {
        store_end(store);
        return;
    }
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)span->host;
    uintptr_t begin = acre__round_up(at, page), end = (at + span->bytes) / page * page;
    if (begin < end)
        (void)madvise((void *)begin, end - begin, store->is_file ? MADV_REMOVE : MADV_DONTNEED);
}

void acre__spans_free(struct acre__spans *spans) {
    for (size_t i = 0; i < spans->count; i++)
        span_end(&spans->list[i]);
    free(spans->list);
    *spans = (struct acre__spans){0};
}

/* ---- stores ---- */

static acre_status file_fail(const char *what, const char *folder, int code, size_t bytes) {
    return acre__fail(ACRE_E_SYSTEM, "%s for %zu bytes in %s: %s", what, bytes, folder,
                      strerror(code));
}

/* A mapped file without a name, which vanishes with the process. */
static acre_status file_make(struct acre__store *store, const char *folder) {
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        return file_fail("cannot create a file", folder, errno, store->bytes);
    int code = posix_fallocate(fd, 0, (off_t)store->bytes);
    void *at = MAP_FAILED;
    if (!code) {
        at = mmap(NULL, store->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        code = at == MAP_FAILED ? errno : 0;
    }
    close(fd);
    if (code)
        return file_fail("no room", folder, code, store->bytes);
    (void)madvise(at, store->bytes, MADV_DONTFORK);
    store->at = at;
    store->whole_bytes = store->bytes;
    return ACRE_OK;
}

static acre_status host_make(struct acre__store *store, struct acre__touching *touching) {
    void *at = NULL;
    acre_status status = acre__host_pages_begin(store->bytes, &at, &store->whole_bytes, touching);
    store->at = at;
    return status;
}

/* Gives the spans of one kind that have no room yet room in a new store. `touching` is NULL for a
 * file. */
static acre_status store_make(struct acre__spans *spans, int is_file, const char *folder,
                              struct acre__touching *touching, uint64_t *bytes) {
    uint64_t wanted = 0;
    *bytes = 0;
    for (size_t i = 0; i < spans->count; i++)
        if (!spans->list[i].store && spans->list[i].is_file == is_file)
            wanted += spans->list[i].bytes;
    if (!wanted)
        return ACRE_OK;
    struct acre__store *store = calloc(1, sizeof *store);
    if (!store)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for a record");
    store->is_file = is_file;
    store->bytes = (size_t)wanted;
    acre_status status = is_file ? file_make(store, folder) : host_make(store, touching);
    if (status) {
        free(store);
        return status;
    }
    char *at = store->at;
    for (size_t i = 0; i < spans->count; i++) {
        struct acre__span *span = &spans->list[i];
        if (span->store || span->is_file != is_file)
            continue;
        span->store = store;
        span->host = at;
        at += span->bytes;
        acre__fetch_add(&store->spans, 1, memory_order_relaxed);
    }
    *bytes = store->whole_bytes;
    return ACRE_OK;
}

/* ---- retained spans ---- */

static int span_is_same(const struct acre__span *a, const struct acre__span *b) {
    return a->at == b->at && a->bytes == b->bytes && a->chunk == b->chunk &&
           a->is_file == b->is_file;
}

/* Both lists are sorted by address. */
static uint64_t spans_reuse(struct acre__spans *spans, struct acre__spans *old, int is_file) {
    uint64_t bytes = 0;
    size_t k = 0;
    for (size_t i = 0; i < spans->count; i++) {
        struct acre__span *span = &spans->list[i];
        while (k < old->count && old->list[k].at < span->at)
            k++;
        if (k == old->count || span->is_file != is_file || !old->list[k].store ||
            !span_is_same(&old->list[k], span))
            continue;
        span->store = old->list[k].store;
        span->host = old->list[k].host;
        span->is_copied = span->is_unchanged && old->list[k].is_copied;
        old->list[k].store = NULL;
        bytes += span->bytes;
    }
    return bytes;
}

/* The mapping that has an address; NULL if there is none. *k is the place of the last answer: asked
 * addresses rise. */
static const struct acre__mapping *mapping_at(const struct acre__away *away, uint64_t at,
                                              size_t *k) {
    while (*k < away->count && away->mappings[*k]->at + away->mappings[*k]->chunk->bytes <= at)
        (*k)++;
    return *k < away->count && away->mappings[*k]->at <= at ? away->mappings[*k] : NULL;
}

/* Frees the retained spans of memory that leaves, which this suspend keeps again. */
static void retained_drop(struct acre__spans *old, const struct acre__away *away) {
    size_t kept = 0, k = 0;
    for (size_t i = 0; i < old->count; i++) {
        struct acre__span *span = &old->list[i];
        if (span->store && !mapping_at(away, span->at, &k))
            old->list[kept++] = *span;
        else
            span_end(span);
    }
    old->count = kept;
}

void acre__spans_forget(const acre_device *dev) {
    acre__lock_take(&retained.lock);
    acre__spans_free(&retained.of[acre__device_index(dev)]);
    acre__lock_give(&retained.lock);
}

static int span_compare(const void *a, const void *b) {
    const struct acre__span *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

/* Lock held. */
static void retain(struct acre__spans *all, struct acre__spans *spans) {
    if (!all->count) {
        acre__spans_free(all);
        *all = *spans;
        *spans = (struct acre__spans){0};
        return;
    }
    for (size_t i = 0; i < spans->count; i++)
        if (acre__span_add(all, &spans->list[i]))
            spans->list[i].store = NULL; /* otherwise it is not retained */
    acre__spans_free(spans);
    qsort(all->list, all->count, sizeof *all->list, span_compare);
}

void acre__spans_retain(acre_device *dev, struct acre__spans *spans) {
    acre__lock_take(&retained.lock);
    retain(&retained.of[acre__device_index(dev)], spans);
    acre__lock_give(&retained.lock);
}

/* ---- copying ---- */

/* Copies the spans that are due. Spans that are adjacent on both sides are one copy. */
static acre_status spans_copy(acre_device *dev, const struct acre__spans *spans, int to_device,
                              acre_stream stream, uint64_t *copied) {
    const struct acre__span *list = spans->list;
    acre_status status = ACRE_OK;
    for (size_t i = 0, end; i < spans->count && status == ACRE_OK; i = end) {
        uint64_t bytes = list[i].bytes, live_bytes = list[i].live_bytes;
        for (end = i + 1;
             list[i].is_due && end < spans->count && list[end].is_due &&
             list[end].at == list[i].at + bytes && list[end].host == list[i].host + bytes;
             end++) {
            bytes += list[end].bytes;
            live_bytes += list[end].live_bytes;
        }
        if (!list[i].is_due)
            continue;
        status =
            acre__contents_copy(dev, list[i].at, list[i].host, (size_t)bytes, to_device, stream);
        *copied += live_bytes;
    }
    return status ? status : acre__uses_wait_stream(dev, stream);
}

acre_status acre__spans_keep(const struct acre__away *away, struct acre__spans *spans,
                             const char *folder, acre_stream stream, acre_suspend_info *info) {
    struct acre__spans *old = &retained.of[acre__device_index(away->dev)];
    struct acre__touching touching;
    uint64_t in_file = 0, in_host = 0;
    acre__lock_take(&retained.lock);
    info->host_bytes = spans_reuse(spans, old, 0);
    info->file_bytes = spans_reuse(spans, old, 1);
    retained_drop(old, away);
    acre__lock_give(&retained.lock);
    acre_status status = store_make(spans, 1, folder, NULL, &in_file);
    if (status == ACRE_OK)
        status = store_make(spans, 0, NULL, &touching, &in_host);
    if (status)
        return status;
    info->file_bytes += in_file;
    info->host_bytes += in_host;
    for (size_t i = 0; i < spans->count; i++)
        spans->list[i].is_due = !spans->list[i].is_copied;
    status = spans_copy(away->dev, spans, 0, stream, &info->copied_bytes);
    if (in_host) /* the copies have touched most pages themselves, or followed the threads */
        acre__host_pages_end(&touching);
    for (size_t i = 0; i < spans->count; i++)
        spans->list[i].is_copied = status == ACRE_OK;
    return status;
}

acre_status acre__spans_bring(const struct acre__away *away, struct acre__spans *spans,
                              acre_stream stream) {
    uint64_t copied = 0;
    size_t k = 0;
    for (size_t i = 0; i < spans->count; i++) {
        const struct acre__mapping *mapping = mapping_at(away, spans->list[i].at, &k);
        spans->list[i].is_due = mapping && mapping->chunk->id == spans->list[i].chunk;
    }
    return spans_copy(away->dev, spans, 1, stream, &copied);
}

/* The first span that ends behind an address; `count` if there is none. */
static size_t span_at(const struct acre__spans *spans, uint64_t at) {
    size_t low = 0, high = spans->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (spans->list[middle].at + spans->list[middle].bytes <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int acre__spans_read(const struct acre__spans *spans, uint64_t at, size_t bytes, char *to) {
    size_t first = span_at(spans, at), end = first;
    uint64_t reached = at;
    for (; end < spans->count && reached - at < bytes && spans->list[end].at <= reached; end++)
        reached = spans->list[end].at + spans->list[end].bytes;
    if (reached - at < bytes)
        return 0;
    for (size_t i = first; i < end; i++) {
        const struct acre__span *span = &spans->list[i];
        uint64_t begin = span->at > at ? span->at : at;
        uint64_t most = at + bytes - begin, there = span->at + span->bytes - begin;
        memcpy(to + (begin - at), span->host + (begin - span->at), most < there ? most : there);
    }
    return 1;
}
