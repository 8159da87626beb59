/* The marks of debug builds on live blocks (acre/heap/debug.h): the requested size, the tag, and
 * whether the canary is intact. Marks are at the ends of the blocks, so the blocks are copied to
 * the host, in windows of up to 2 MiB. Blocks come in the order of addresses, so many share a
 * window. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/status.h"
#include "heap/heap.h"

struct inspect {
    acre_heap *heap;
    acre_heap_inspect_fn fn;
    void *user;
    unsigned char *window; /* ACRE__HEAP_SEGMENT_BYTES */
    uint64_t at, bytes;    /* the part of the heap's memory that it holds a copy of */
    acre_status status;
};

/* Returns a copy of up to a window of memory; NULL, and the status, if it cannot be read. */
static const unsigned char *inspect_bytes(struct inspect *inspect, uint64_t at, uint64_t bytes) {
    if (at >= inspect->at && at + bytes <= inspect->at + inspect->bytes)
        return inspect->window + (at - inspect->at);
    uint64_t end = (uintptr_t)inspect->heap->h.base +
                   inspect->heap->committed * (uint64_t)ACRE__HEAP_SEGMENT_BYTES;
    inspect->at = at;
    inspect->bytes = end - at < ACRE__HEAP_SEGMENT_BYTES ? end - at : ACRE__HEAP_SEGMENT_BYTES;
    inspect->status = acre__heap_read(inspect->heap, inspect->window, at, (size_t)inspect->bytes);
    if (inspect->status)
        inspect->bytes = 0;
    return inspect->status ? NULL : inspect->window;
}

static int inspect_one(void *user, void *address, uint64_t bytes) {
    struct inspect *inspect = user;
    acre_heap_block block = {.address = address, .bytes = bytes, .asked_bytes = bytes};
    acre__heap_mark mark;
    uint64_t seen = bytes < ACRE__HEAP_SEGMENT_BYTES ? bytes : ACRE__HEAP_SEGMENT_BYTES;
    const unsigned char *tail = inspect_bytes(inspect, (uintptr_t)address + bytes - seen, seen);
    if (!tail)
        return 1;
    memcpy(&mark, tail + seen - sizeof mark, sizeof mark);
    if (bytes >= ACRE__HEAP_DEBUG_BYTES &&
        acre__heap_mark_is(mark.check, mark.slack, (uintptr_t)address, bytes)) {
        /* The window has all of the slack: blocks are rounded up to whole segments at most. */
        uint64_t slack = mark.slack < seen ? mark.slack : seen;
        block.asked_bytes = bytes - mark.slack;
        block.tag = mark.tag;
        block.flags = ACRE_HEAP_BLOCK_MARKED;
        if (acre__heap_canary_damage(tail + seen - slack, (size_t)slack - sizeof mark))
            block.flags |= ACRE_HEAP_BLOCK_OVERRUN;
    }
    return inspect->fn(inspect->user, &block);
}

/* Lock held. */
static acre_status inspect_all(acre_heap *heap, acre_heap_inspect_fn fn, void *user) {
    struct inspect inspect = {.heap = heap, .fn = fn, .user = user};
    inspect.window = malloc(ACRE__HEAP_SEGMENT_BYTES);
    if (!inspect.window)
        return acre__fail(ACRE_E_HOST_MEMORY, "no host memory to read the blocks of a heap");
    acre_status status = acre__heap_walk(heap, inspect_one, &inspect);
    free(inspect.window);
    return status ? status : inspect.status;
}

static acre_status heap_inspect(acre_heap *heap, acre_heap_inspect_fn fn, void *user) {
    acre_status status = acre__heap_enter(heap);
    if (status || (status = acre__not_null(fn, "acre_heap_inspect: fn")))
        return status;
    acre__lock_take(&heap->lock);
    return acre__heap_unlock(heap, inspect_all(heap, fn, user));
}

acre_status acre_heap_inspect(acre_heap *heap, acre_heap_inspect_fn fn, void *user) {
    return acre__in_call(heap_inspect(heap, fn, user), "acre_heap_inspect");
}

/* ---- leaks by tag ---- */

/* Most lines in the log; blocks with other tags are reported together. */
enum { INSPECT_TAGS = 32 };

struct tags {
    struct tag {
        uint64_t blocks, bytes, overruns;
        uint32_t tag;
    } tags[INSPECT_TAGS], others;
    size_t count;
};

static int tags_add(void *user, const acre_heap_block *block) {
    struct tags *tags = user;
    size_t i = 0;
    if (!(block->flags & ACRE_HEAP_BLOCK_MARKED))
        return 0;
    while (i < tags->count && tags->tags[i].tag != block->tag)
        i++;
    if (i == tags->count && i < INSPECT_TAGS)
        tags->tags[tags->count++].tag = block->tag;
    struct tag *tag = i < INSPECT_TAGS ? &tags->tags[i] : &tags->others;
    tag->blocks++;
    tag->bytes += block->asked_bytes;
    tag->overruns += (block->flags & ACRE_HEAP_BLOCK_OVERRUN) != 0;
    return 0;
}

static int tag_compare(const void *a, const void *b) {
    const struct tag *one = a, *other = b;
    return one->tag < other->tag ? -1 : one->tag > other->tag;
}

static void tag_log(const acre_heap *heap, const char *name, const struct tag *tag) {
    if (tag->blocks)
        acre__log(ACRE_LOG_WARN, "heap",
                  "%s: %s: %" PRIu64 " blocks not freed, %" PRIu64 " bytes requested, %" PRIu64
                  " written past their end",
                  heap->dev->label, name, tag->blocks, tag->bytes, tag->overruns);
}

void acre__heap_log_tags(acre_heap *heap) {
    struct tags tags = {.count = 0};
    uint64_t marked = 0;
    char name[32];
    if (acre__heap_read(heap, &marked, (uintptr_t)&heap->h.control->marked, sizeof marked) ||
        !marked || inspect_all(heap, tags_add, &tags))
        return;
    qsort(tags.tags, tags.count, sizeof tags.tags[0], tag_compare);
    for (size_t i = 0; i < tags.count; i++) {
        (void)snprintf(name, sizeof name, "tag %" PRIu32, tags.tags[i].tag);
        tag_log(heap, name, &tags.tags[i]);
    }
    tag_log(heap, "other tags", &tags.others);
}
