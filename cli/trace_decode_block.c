/* Decodes events: see trace_decode_block.h and src/watch/trace_format.h.
 *
 * The decoder rebuilds the table of places and contexts that the writer of a block kept. */
#include "trace_decode_block.h"

#include <string.h>

/* ---- numbers: each advances thread->at, and returns 0 at the end of the block ---- */

static int get_byte(struct trace_thread *thread, unsigned char *value) {
    if (thread->at >= thread->end) {
        return 0;
    }
    *value = *thread->at++;
    return 1;
}

static int get_varint(struct trace_thread *thread, uint64_t *value) {
    unsigned char byte;
    *value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (!get_byte(thread, &byte) || (shift == 63 && byte > 1)) {
            return 0;
        }
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            return 1;
        }
    }
    return 0;
}

static int get_text(struct trace_thread *thread, struct trace_record *record) {
    uint64_t bytes;
    if (!get_varint(thread, &bytes) || bytes > (size_t)(thread->end - thread->at)) {
        return 0;
    }
    record->text = (const char *)thread->at;
    record->text_bytes = (size_t)bytes;
    thread->at += bytes;
    return 1;
}

static int get_small(struct trace_thread *thread, uint32_t *value) {
    uint64_t number;
    if (!get_varint(thread, &number) || number > UINT32_MAX) {
        return 0;
    }
    *value = (uint32_t)number;
    return 1;
}

static int get_status(struct trace_thread *thread, struct trace_record *record) {
    uint64_t number;
    if (!get_varint(thread, &number) || number == 0 || number > 1000000) {
        return 0;
    }
    record->status = -(int)number;
    return 1;
}

/* ---- parts of events ---- */

static int use_context(struct trace_thread *thread, unsigned char number,
                       struct trace_record *record) {
    if (!thread->has_context[number]) {
        return 0;
    }
    thread->context = number;
    record->pool = thread->contexts[number].pool;
    record->stream = thread->contexts[number].stream;
    record->tag = thread->contexts[number].tag;
    record->stack = thread->contexts[number].stack;
    return 1;
}

static int get_context(struct trace_thread *thread, struct trace_record *record) {
    unsigned char number;
    return get_byte(thread, &number) && use_context(thread, number, record);
}

static struct acre__trace_place *place_of(struct trace_thread *thread, uint64_t address) {
    return &thread->places[acre__trace_hash(address)];
}

static int place_has(const struct trace_thread *thread, const struct acre__trace_place *place,
                     uint64_t address) {
    return place->epoch == thread->epoch && place->address == address;
}

static int get_where(struct trace_thread *thread, unsigned char flags,
                     struct trace_record *record) {
    unsigned char low = 0, high;
    uint64_t steps;
    if (flags & ACRE__TRACE_AT_PLACE) {
        if (!get_byte(thread, &low) || !get_byte(thread, &high) ||
            (low | high << 8) >= ACRE__TRACE_PLACES) {
            return 0;
        }
        const struct acre__trace_place *place = &thread->places[low | high << 8];
        if (place->epoch != thread->epoch) {
            return 0;
        }
        record->address = place->address;
    } else {
        if (!get_varint(thread, &steps) || ((flags & ACRE__TRACE_LOW) && !get_byte(thread, &low))) {
            return 0;
        }
        record->address = ((thread->address >> 8) + (uint64_t)acre__trace_unfold(steps)) << 8 | low;
    }
    thread->address = record->address;
    return flags & ACRE__TRACE_IN_CONTEXT ? get_context(thread, record)
                                          : use_context(thread, thread->context, record);
}

static int get_alloc(struct trace_thread *thread, struct trace_record *record) {
    unsigned char flags;
    uint64_t spare = 0;
    if (!get_byte(thread, &flags) || !get_where(thread, flags, record)) {
        return 0;
    }
    record->bytes = thread->bytes;
    if (!(flags & ACRE__TRACE_SAME_BYTES) && !get_varint(thread, &record->bytes)) {
        return 0;
    }
    record->real = acre__trace_rounded(record->bytes);
    if (flags & ACRE__TRACE_REAL) {
        if (!get_varint(thread, &spare)) {
            return 0;
        }
        record->real = record->bytes + spare;
    }
    spare = record->real - record->bytes;
    thread->bytes = record->bytes;
    struct acre__trace_place *place = place_of(thread, record->address);
    if (!place_has(thread, place, record->address)) {
        place->free_context = thread->context;
    }
    place->address = record->address;
    place->bytes = record->bytes;
    place->spare = spare < UINT32_MAX ? (uint32_t)spare : UINT32_MAX;
    place->epoch = thread->epoch;
    place->context = thread->context;
    return 1;
}

static int get_free(struct trace_thread *thread, struct trace_record *record) {
    unsigned char flags;
    if (!get_byte(thread, &flags) || !get_where(thread, flags, record)) {
        return 0;
    }
    struct acre__trace_place *place = place_of(thread, record->address);
    if (!place_has(thread, place, record->address)) {
        *place = (struct acre__trace_place){.address = record->address,
                                            .spare = UINT32_MAX,
                                            .epoch = thread->epoch,
                                            .context = thread->context};
    }
    place->free_context = thread->context;
    return 1;
}

static int get_realloc(struct trace_thread *thread, struct trace_record *record) {
    uint64_t steps;
    unsigned char low;
    if (!get_alloc(thread, record) || !get_varint(thread, &steps) || !get_byte(thread, &low)) {
        return 0;
    }
    record->before = ((thread->address >> 8) + (uint64_t)acre__trace_unfold(steps)) << 8 | low;
    return 1;
}

static int get_definition(struct trace_thread *thread) {
    unsigned char number;
    struct trace_context context = {0};
    if (!get_byte(thread, &number) || !get_small(thread, &context.pool) ||
        !get_varint(thread, &context.stream) || !get_small(thread, &context.tag) ||
        (thread->has_stacks && !get_small(thread, &context.stack))) {
        return 0;
    }
    thread->contexts[number] = context;
    thread->has_context[number] = true;
    return 1;
}

static int get_chunk(struct trace_thread *thread, struct trace_record *record) {
    bool is_address =
        record->kind == ACRE__TRACE_CHUNK_MAP || record->kind == ACRE__TRACE_CHUNK_UNMAP;
    uint64_t which;
    if (!get_varint(thread, &which) || !get_varint(thread, &record->bytes)) {
        return 0;
    }
    if (is_address) {
        record->address = which << 8;
    } else {
        record->number = which;
    }
    return 1;
}

static int get_move(struct trace_thread *thread, struct trace_record *record) {
    if (!get_varint(thread, &record->before) || !get_varint(thread, &record->address) ||
        !get_varint(thread, &record->bytes)) {
        return 0;
    }
    record->before <<= 8;
    record->address <<= 8;
    return 1;
}

/* Decodes the fields after kind and time. */
static int get_rest(struct trace_thread *thread, struct trace_record *record) {
    switch (record->kind) {
    case ACRE__TRACE_ALLOC:
        return get_alloc(thread, record);
    case ACRE__TRACE_FREE:
        return get_free(thread, record);
    case ACRE__TRACE_CONTEXT:
        return get_definition(thread);
    case ACRE__TRACE_REALLOC:
        return get_realloc(thread, record);
    case ACRE__TRACE_FREE_AFTER:
        return get_free(thread, record) && get_varint(thread, &record->number);
    case ACRE__TRACE_FREE_REFUSED:
        return get_free(thread, record) && get_status(thread, record);
    case ACRE__TRACE_REFUSED:
        return get_context(thread, record) && get_varint(thread, &record->bytes) &&
               get_status(thread, record);
    case ACRE__TRACE_CHUNK_CREATE:
    case ACRE__TRACE_CHUNK_RELEASE:
    case ACRE__TRACE_CHUNK_MAP:
    case ACRE__TRACE_CHUNK_UNMAP:
        return get_chunk(thread, record);
    case ACRE__TRACE_CHUNK_MOVE:
        return get_move(thread, record);
    case ACRE__TRACE_WAIT:
        return get_context(thread, record);
    case ACRE__TRACE_TAG_NAME:
    case ACRE__TRACE_POOL_NAME:
    case ACRE__TRACE_STACK:
    case ACRE__TRACE_MODULE_NAME:
        return get_varint(thread, &record->number) && get_text(thread, record);
    case ACRE__TRACE_MARK:
        return get_text(thread, record);
    case ACRE__TRACE_THREAD_BEGIN:
    case ACRE__TRACE_THREAD_END:
        return 1;
    default:
        return 0;
    }
}

/* Decodes an event in the short form, whose first byte is `first`. */
static int get_short(struct trace_thread *thread, unsigned char first, uint64_t *delta,
                     struct trace_record *record) {
    unsigned char low, time;
    uint64_t more = 0;
    if (!get_byte(thread, &low) || !get_byte(thread, &time)) {
        return 0;
    }
    *delta = (uint64_t)(first >> 4 & 3) << 8 | time;
    if (*delta == ACRE__TRACE_SHORT_TIME && !get_varint(thread, &more)) {
        return 0;
    }
    *delta += more;
    const struct acre__trace_place *place = &thread->places[(first & 15) << 8 | low];
    bool is_alloc = first & ACRE__TRACE_SHORT_ALLOC;
    if (place->epoch != thread->epoch || (is_alloc && place->spare == UINT32_MAX)) {
        return 0;
    }
    record->kind = is_alloc ? ACRE__TRACE_ALLOC : ACRE__TRACE_FREE;
    record->address = thread->address = place->address;
    if (is_alloc) {
        record->bytes = place->bytes;
        record->real = place->bytes + place->spare;
    }
    return use_context(thread, is_alloc ? place->context : place->free_context, record);
}

/* ---- blocks ---- */

/* Starts the thread's next block. Returns 0 if there is none. */
static int block_begin(const struct trace_reader *reader, struct trace_thread *thread) {
    struct acre__trace_block block;
    if (thread->block_next == thread->block_count) {
        return 0;
    }
    size_t offset = thread->blocks[thread->block_next++];
    memcpy(&block, reader->bytes + offset, sizeof block);
    thread->at = reader->bytes + offset + sizeof block;
    size_t left = reader->count - offset - sizeof block; /* piece_read has checked the rest */
    thread->end = thread->at + (block.committed < left ? block.committed : left);
    thread->units = block.units;
    thread->has_stacks = reader->header.version == ACRE__TRACE_VERSION_STACKS;
    thread->address = 0;
    thread->bytes = 0;
    thread->context = 0;
    memset(thread->has_context, 0, sizeof thread->has_context);
    if (++thread->epoch == 0) {
        memset(thread->places, 0, ACRE__TRACE_PLACES * sizeof *thread->places);
        thread->epoch = 1;
    }
    return 1;
}

static uint64_t time_ns(const struct trace_reader *reader, uint64_t units) {
    uint64_t since = units > reader->header.start_units ? units - reader->header.start_units : 0;
    return (uint64_t)((unsigned __int128)since * reader->header.rate >> 32);
}

int trace_head_read(struct trace_reader *reader, struct trace_thread *thread) {
    struct trace_record *record = &thread->head;
    for (;;) {
        while (thread->at == thread->end) {
            if (!block_begin(reader, thread)) {
                return 0;
            }
        }
        uint64_t delta = 0;
        size_t offset = (size_t)(thread->at - reader->bytes);
        unsigned char first = *thread->at++;
        *record = (struct trace_record){.thread = thread->index, .offset = offset};
        int is_read;
        if (first & ACRE__TRACE_SHORT) {
            is_read = get_short(thread, first, &delta, record);
        } else {
            record->kind = (enum acre__trace_kind)first;
            is_read = get_varint(thread, &delta) && get_rest(thread, record);
        }
        if (!is_read || delta > UINT64_MAX - thread->units) {
            bool is_cut = thread->end == reader->cut;
            thread->at = thread->end; /* what follows cannot be decoded */
            thread->block_next = thread->block_count;
            return is_cut ? trace_damage(reader, thread->units, reader->count, TRACE_CUT)
                          : trace_damage(reader, thread->units, offset, "invalid event");
        }
        thread->units += delta;
        thread->head_units = thread->units;
        thread->is_held = thread->was_held = false;
        record->time_ns = time_ns(reader, thread->units);
        record->size = (size_t)(thread->at - reader->bytes) - offset;
        reader->event_bytes += record->size;
        if (record->kind != ACRE__TRACE_CONTEXT) {
            return 1;
        }
    }
}
