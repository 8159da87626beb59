/* Reading a trace: see trace_decode.h.
 *
 * Each thread has a list of its blocks in file order and one decoded event, its head. A heap yields
 * the thread with the earliest head. An alloc of an address that is live, or a free of one that is
 * not, goes back into the heap with a later time, once. If the event that it depends on exists, it
 * comes first. */
#include "trace_decode.h"

#include <stdlib.h>
#include <string.h>

#include "trace_decode_block.h"

/* How long a head waits for another event. Out-of-order execution reads the clock less than a
 * microsecond early, but waits add up: a held event delays the events that depend on it. */
enum { TRACE_HOLD_NS = 100000 };

/* A block of the file, for sorting. */
struct trace_piece {
    uint64_t thread, sequence;
    size_t offset;
};

int trace_fault(struct trace_reader *reader, size_t offset, const char *what) {
    reader->fault = (struct trace_fault){offset, what};
    return 0;
}

int trace_damage(struct trace_reader *reader, uint64_t units, size_t offset, const char *what) {
    if (!reader->damage.what || units < reader->damage_units) {
        reader->damage = (struct trace_fault){offset, what};
        reader->damage_units = units;
    }
    return 0;
}

static int fault_memory(struct trace_reader *reader) {
    return trace_fault(reader, 0, "out of memory");
}

const char *trace_kind_name(enum acre__trace_kind kind) {
    static const char *const names[ACRE__TRACE_KINDS] = {
        [ACRE__TRACE_ALLOC] = "alloc",
        [ACRE__TRACE_FREE] = "free",
        [ACRE__TRACE_CONTEXT] = "context",
        [ACRE__TRACE_REALLOC] = "realloc",
        [ACRE__TRACE_FREE_AFTER] = "free-after",
        [ACRE__TRACE_FREE_REFUSED] = "free-refused",
        [ACRE__TRACE_REFUSED] = "alloc-refused",
        [ACRE__TRACE_CHUNK_CREATE] = "chunk-create",
        [ACRE__TRACE_CHUNK_RELEASE] = "chunk-release",
        [ACRE__TRACE_CHUNK_MAP] = "chunk-map",
        [ACRE__TRACE_CHUNK_UNMAP] = "chunk-unmap",
        [ACRE__TRACE_CHUNK_MOVE] = "chunk-move",
        [ACRE__TRACE_WAIT] = "wait",
        [ACRE__TRACE_TAG_NAME] = "tag-name",
        [ACRE__TRACE_POOL_NAME] = "pool-name",
        [ACRE__TRACE_THREAD_BEGIN] = "thread-begin",
        [ACRE__TRACE_THREAD_END] = "thread-end",
        [ACRE__TRACE_MARK] = "mark",
        [ACRE__TRACE_STACK] = "stack",
        [ACRE__TRACE_MODULE_NAME] = "module-name",
    };
    return kind < ACRE__TRACE_KINDS && names[kind] ? names[kind] : "unknown";
}

uint32_t trace_os_thread(const struct trace_reader *reader, uint32_t thread) {
    size_t at = thread + reader->name_threads;
    return at < reader->thread_count ? reader->threads[at].os_thread : 0;
}

int trace_is(const unsigned char *bytes, size_t count) {
    return count >= 8 && memcmp(bytes, ACRE__TRACE_MAGIC, 8) == 0;
}

/* ---- the heap ---- */

static bool head_before(const struct trace_thread *a, const struct trace_thread *b) {
    return a->head_units != b->head_units ? a->head_units < b->head_units : a->index < b->index;
}

static void heap_sink(struct trace_reader *reader, size_t i) {
    for (;;) {
        size_t least = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < reader->heap_count; child++) {
            if (head_before(reader->heap[child], reader->heap[least])) {
                least = child;
            }
        }
        if (least == i) {
            return;
        }
        struct trace_thread *kept = reader->heap[i];
        reader->heap[i] = reader->heap[least];
        reader->heap[least] = kept;
        i = least;
    }
}

static bool is_free(const struct trace_record *record) {
    return (record->kind == ACRE__TRACE_FREE || record->kind == ACRE__TRACE_FREE_AFTER) &&
           !record->is_refused;
}

static bool is_alloc(const struct trace_record *record) {
    return record->kind == ACRE__TRACE_ALLOC || record->kind == ACRE__TRACE_REALLOC;
}

/* Whether the event is consistent with the live blocks. */
static bool head_fits(const struct trace_reader *reader, const struct trace_record *head) {
    bool is_live = trace_live_find(&reader->live, head->address) != NULL;
    if (head->kind == ACRE__TRACE_REALLOC) {
        return trace_live_find(&reader->live, head->before) &&
               (!is_live || head->address == head->before);
    }
    return is_free(head) ? is_live : !is_alloc(head) || !is_live;
}

static void block_keys(struct trace_block *block, const struct trace_record *record) {
    block->keys[TRACE_BY_TAG] = record->tag;
    block->keys[TRACE_BY_POOL] = record->pool;
    block->keys[TRACE_BY_STACK] = record->stack;
}

/* Applies the event to the live blocks. Returns 1, or 0 if the trace lacks a free before it; then
 * *record becomes that free. */
static int live_change(struct trace_reader *reader, struct trace_record *record) {
    struct trace_block block = {0}, old;
    if (is_free(record)) {
        (void)trace_live_remove(&reader->live, record->address, &block);
        record->id = block.id;
        record->bytes = block.bytes;
        record->freed = block;
        reader->unknown_frees += block.id == 0;
        return 1;
    }
    if (!is_alloc(record)) {
        return 1;
    }
    bool stays = record->kind == ACRE__TRACE_REALLOC && record->before == record->address;
    if (!stays && trace_live_remove(&reader->live, record->address, &old)) {
        *record = (struct trace_record){.kind = ACRE__TRACE_FREE,
                                        .thread = record->thread,
                                        .time_ns = record->time_ns,
                                        .address = record->address,
                                        .bytes = old.bytes,
                                        .stream = record->stream,
                                        .pool = record->pool,
                                        .is_made_up = true,
                                        .id = old.id,
                                        .freed = old,
                                        .offset = record->offset};
        reader->made_up_frees++;
        return 0;
    }
    if (record->kind == ACRE__TRACE_REALLOC &&
        trace_live_remove(&reader->live, record->before, &old)) {
        block.id = old.id;
        record->freed = old;
    }
    block.address = record->address;
    block.bytes = record->bytes;
    block.real = record->real;
    block.time_ns = record->time_ns;
    block.stream = record->stream;
    block_keys(&block, record);
    if (!trace_live_add(&reader->live, &block)) {
        return fault_memory(reader);
    }
    record->id = block.id;
    return 1;
}

/* Replaces the head of the earliest thread by its next event. */
static void heap_advance(struct trace_reader *reader) {
    struct trace_thread *thread = reader->heap[0];
    if (!trace_head_read(reader, thread)) {
        free(thread->places);
        thread->places = NULL;
        reader->heap[0] = reader->heap[--reader->heap_count];
    }
    heap_sink(reader, 0);
}

/* Whether the head is a free that the next event of its block reports as refused. */
static bool head_is_refused(const struct trace_thread *thread) {
    return thread->head.kind == ACRE__TRACE_FREE && thread->at < thread->end &&
           *thread->at == ACRE__TRACE_FREE_REFUSED;
}

/* Restores the heap after the key of entry `i` became smaller. */
static void heap_rise(struct trace_reader *reader, size_t i) {
    while (i && head_before(reader->heap[i], reader->heap[(i - 1) / 2])) {
        struct trace_thread *kept = reader->heap[i];
        reader->heap[i] = reader->heap[(i - 1) / 2];
        reader->heap[(i - 1) / 2] = kept;
        i = (i - 1) / 2;
    }
}

/* Wakes the threads whose heads wait for a change at the address. */
static void held_wake(struct trace_reader *reader, uint64_t address) {
    for (size_t i = 0; reader->held && i < reader->heap_count; i++) {
        struct trace_thread *thread = reader->heap[i];
        if (!thread->is_held ||
            (thread->head.address != address && thread->head.before != address)) {
            continue;
        }
        thread->is_held = false;
        reader->held--;
        thread->head_units = thread->units;
        heap_rise(reader, i);
    }
}

/* Returns 1 if the earliest event has to wait; it is then back in the heap with a later time. */
static int head_hold(struct trace_reader *reader) {
    struct trace_thread *thread = reader->heap[0];
    if (thread->is_held) { /* the wait is over */
        thread->is_held = false;
        reader->held--;
        thread->was_held = true;
    }
    if (thread->was_held || reader->heap_count == 1 || head_fits(reader, &thread->head)) {
        return 0;
    }
    thread->is_held = true;
    reader->held++;
    thread->head_units = thread->units + reader->hold_units;
    heap_sink(reader, 0);
    return 1;
}

/* Whether the earliest event happened after the damage. */
static bool is_past_damage(const struct trace_reader *reader) {
    return reader->damage.what && reader->heap[0]->units > reader->damage_units;
}

int trace_next(struct trace_reader *reader, struct trace_record *record) {
    while (reader->heap_count && !reader->fault.what && !is_past_damage(reader)) {
        struct trace_thread *thread = reader->heap[0];
        thread->head.is_refused = head_is_refused(thread);
        if (head_hold(reader)) {
            continue;
        }
        *record = thread->head;
        if (live_change(reader, record)) {
            heap_advance(reader);
        }
        if (is_free(record) || is_alloc(record)) {
            held_wake(reader, record->address);
        }
        if (record->kind == ACRE__TRACE_REALLOC) {
            held_wake(reader, record->before);
        }
        return reader->fault.what == NULL;
    }
    if (reader->damage.what && !reader->fault.what) {
        reader->fault = reader->damage;
    }
    return 0;
}

/* ---- opening ---- */

static int header_read(struct trace_reader *reader) {
    struct acre__trace_header *header = &reader->header;
    if (reader->count < sizeof *header || !trace_is(reader->bytes, reader->count)) {
        return trace_fault(reader, 0, "this is not an acre trace");
    }
    memcpy(header, reader->bytes, sizeof *header);
    header->clock[sizeof header->clock - 1] = '\0';
    header->library[sizeof header->library - 1] = '\0';
    if (header->version != ACRE__TRACE_VERSION && header->version != ACRE__TRACE_VERSION_STACKS) {
        return trace_fault(reader, offsetof(struct acre__trace_header, version),
                           "unsupported version of the trace format");
    }
    if (header->header_bytes < sizeof *header || header->header_bytes > reader->count) {
        return trace_fault(reader, offsetof(struct acre__trace_header, header_bytes),
                           "invalid header length, or the file is cut short");
    }
    if (header->block_bytes < ACRE__TRACE_BLOCK_LEAST ||
        header->block_bytes > ACRE__TRACE_BLOCK_MOST) {
        return trace_fault(reader, offsetof(struct acre__trace_header, block_bytes),
                           "invalid block length");
    }
    if (!header->rate) {
        return trace_fault(reader, offsetof(struct acre__trace_header, rate),
                           "the clock rate is 0");
    }
    reader->hold_units = ((uint64_t)TRACE_HOLD_NS << 32) / header->rate;
    return 1;
}

static int piece_compare(const void *a, const void *b) {
    const struct trace_piece *x = a, *y = b;
    if (x->thread != y->thread) {
        return x->thread < y->thread ? -1 : 1;
    }
    return x->sequence < y->sequence ? -1 : x->sequence > y->sequence;
}

/* Checks the header of the block at `offset`. *is_there: the block has events. */
static int piece_read(struct trace_reader *reader, size_t offset, struct trace_piece *piece,
                      bool *is_there) {
    struct acre__trace_block block;
    size_t left = reader->count - offset;
    *is_there = false;
    if (left < sizeof block) {
        return trace_damage(reader, UINT64_MAX, reader->count, TRACE_CUT);
    }
    memcpy(&block, reader->bytes + offset, sizeof block);
    if (block.magic == 0 && block.committed == 0) {
        return 1; /* the program ended before it used the block */
    }
    if (block.magic != ACRE__TRACE_BLOCK_MAGIC) {
        return trace_damage(reader, UINT64_MAX, offset, "there is no block where one should begin");
    }
    if (block.committed > reader->header.block_bytes - sizeof block) {
        return trace_damage(reader, UINT64_MAX, offset,
                            "the length of a block is more than its size");
    }
    /* A program writes whole blocks. The last one may be cut behind its events, to save space. */
    if (left < reader->header.block_bytes && block.committed != left - sizeof block) {
        reader->cut = reader->bytes + reader->count;
        trace_damage(reader, UINT64_MAX, reader->count, TRACE_CUT);
    }
    *piece = (struct trace_piece){block.thread, block.sequence, offset};
    *is_there = true;
    return 1;
}

/* Finds all blocks with events, up to the first damaged one, and sorts them by thread and sequence.
 */
static struct trace_piece *pieces_read(struct trace_reader *reader) {
    size_t step = reader->header.block_bytes, begin = reader->header.header_bytes;
    size_t most = (reader->count - begin) / step + 1;
    struct trace_piece *pieces = calloc(most, sizeof *pieces);
    if (!pieces) {
        fault_memory(reader);
        return NULL;
    }
    bool is_there, is_good = true;
    for (size_t offset = begin; offset < reader->count && is_good; offset += step) {
        is_good = piece_read(reader, offset, &pieces[reader->blocks], &is_there);
        reader->blocks += is_there;
    }
    qsort(pieces, reader->blocks, sizeof *pieces, piece_compare);
    return pieces;
}

static int name_add(struct trace_reader *reader, const struct trace_record *record) {
    if ((reader->name_count & (reader->name_count + 1)) == 0) { /* full at 0, 1, 3, 7, ... */
        size_t room = 2 * reader->name_count + 1;
        struct trace_name *longer = realloc(reader->names, room * sizeof *longer);
        if (!longer) {
            return fault_memory(reader);
        }
        reader->names = longer;
    }
    reader->names[reader->name_count++] =
        (struct trace_name){record->kind, record->number, record->text, record->text_bytes};
    return 1;
}

/* Reads all names at once. They have their own blocks. */
static int names_read(struct trace_reader *reader, struct trace_thread *thread) {
    while (trace_head_read(reader, thread)) {
        enum acre__trace_kind kind = thread->head.kind;
        if (kind != ACRE__TRACE_TAG_NAME && kind != ACRE__TRACE_POOL_NAME &&
            kind != ACRE__TRACE_STACK && kind != ACRE__TRACE_MODULE_NAME) {
            trace_damage(reader, thread->units, thread->head.offset, "an event that is not a name");
            break;
        }
        if (!name_add(reader, &thread->head)) {
            return 0;
        }
    }
    return reader->fault.what == NULL;
}

static int name_compare(const void *a, const void *b, void *names) {
    size_t i = *(const size_t *)a, j = *(const size_t *)b;
    const struct trace_name *x = (const struct trace_name *)names + i;
    const struct trace_name *y = (const struct trace_name *)names + j;
    if (x->kind != y->kind) {
        return x->kind < y->kind ? -1 : 1;
    }
    if (x->number != y->number) {
        return x->number < y->number ? -1 : 1;
    }
    return i < j ? -1 : i > j;
}

/* Sorts the names, so that a look-up is fast whatever the number of names. */
static int names_sort(struct trace_reader *reader) {
    reader->name_order = calloc(reader->name_count + 1, sizeof *reader->name_order);
    if (!reader->name_order) {
        return fault_memory(reader);
    }
    for (size_t i = 0; i < reader->name_count; i++) {
        reader->name_order[i] = i;
    }
    if (reader->name_count) {
        qsort_r(reader->name_order, reader->name_count, sizeof *reader->name_order, name_compare,
                reader->names);
    }
    return 1;
}

const struct trace_name *trace_name_find(const struct trace_reader *reader,
                                         enum acre__trace_kind kind, uint64_t number) {
    size_t low = 0, high = reader->name_order ? reader->name_count : 0;
    while (low < high) { /* ends behind the last name of this number */
        size_t middle = low + (high - low) / 2;
        const struct trace_name *name = &reader->names[reader->name_order[middle]];
        bool is_before = name->kind != kind ? name->kind < kind : name->number <= number;
        low = is_before ? middle + 1 : low;
        high = is_before ? high : middle;
    }
    const struct trace_name *name = low ? &reader->names[reader->name_order[low - 1]] : NULL;
    return name && name->kind == kind && name->number == number ? name : NULL;
}

/* Creates the threads, each with its part of `offsets`, in the order of their numbers. */
static int threads_make(struct trace_reader *reader, const struct trace_piece *pieces,
                        const size_t *offsets) {
    size_t count = 0;
    for (size_t i = 0; i < reader->blocks; i++) {
        count += i == 0 || pieces[i].thread != pieces[i - 1].thread;
    }
    reader->threads = calloc(count ? count : 1, sizeof *reader->threads);
    reader->heap = calloc(count ? count : 1, sizeof(struct trace_thread *));
    if (!reader->threads || !reader->heap) {
        return fault_memory(reader);
    }
    for (size_t i = 0; i < reader->blocks; i++) {
        struct acre__trace_block block;
        if (i == 0 || pieces[i].thread != pieces[i - 1].thread) {
            struct trace_thread *thread = &reader->threads[reader->thread_count];
            memcpy(&block, reader->bytes + offsets[i], sizeof block);
            thread->id = pieces[i].thread;
            thread->os_thread = block.os_thread;
            thread->index = (uint32_t)(reader->thread_count++ - reader->name_threads);
            reader->name_threads += thread->id == 0; /* names come first, if there are any */
            thread->blocks = offsets + i;
        }
        reader->threads[reader->thread_count - 1].block_count++;
    }
    return 1;
}

static int threads_begin(struct trace_reader *reader) {
    for (size_t i = 0; i < reader->thread_count; i++) {
        struct trace_thread *thread = &reader->threads[i];
        thread->places = calloc(ACRE__TRACE_PLACES, sizeof *thread->places);
        if (!thread->places) {
            return fault_memory(reader);
        }
        if (thread->id == 0) {
            if (!names_read(reader, thread)) {
                return 0;
            }
        } else if (trace_head_read(reader, thread)) {
            reader->heap[reader->heap_count++] = thread;
        }
        if (reader->fault.what) {
            return 0;
        }
    }
    for (size_t i = reader->heap_count; i-- > 0;) {
        heap_sink(reader, i);
    }
    return 1;
}

int trace_open(struct trace_reader *reader, const unsigned char *bytes, size_t count) {
    *reader = (struct trace_reader){.bytes = bytes, .count = count};
    if (!header_read(reader)) {
        return 0;
    }
    struct trace_piece *pieces = pieces_read(reader);
    if (!pieces) {
        return 0;
    }
    size_t *offsets = calloc(reader->blocks + 1, sizeof *offsets);
    for (size_t i = 0; offsets && i < reader->blocks; i++) {
        offsets[i] = pieces[i].offset;
    }
    int ok = offsets ? threads_make(reader, pieces, offsets) : fault_memory(reader);
    free(pieces);
    reader->offsets = offsets;
    return ok && threads_begin(reader) && names_sort(reader);
}

void trace_close(struct trace_reader *reader) {
    for (size_t i = 0; i < reader->thread_count; i++) {
        free(reader->threads[i].places);
    }
    free(reader->threads);
    free(reader->heap);
    free(reader->names);
    free(reader->name_order);
    free(reader->offsets);
    trace_live_end(&reader->live);
}
