/* Encodes events: see trace_format.h.
 *
 * Everything here runs in the thread that owns the writer, between writer_enter and writer_leave.
 * It touches no data that other threads write, except the number of the trace. An event counts, by
 * a store with release order, once it is complete: a reader of a killed program's file finds whole
 * events. */
#include <string.h>

#include "base/inside.h"
#include "base/status.h"
#include "watch/trace_writer.h"

/* ---- enter and leave ---- */

/* Enters the thread's writer. Returns NULL if the trace has ended or there is no block. */
static inline struct acre__trace_writer *writer_enter(void) {
    struct acre__thread *thread = acre__thread_pointer;
    struct acre__trace_writer *writer = thread ? thread->trace : NULL;
    if (__builtin_expect(!writer, 0) && !(writer = acre__trace_writer_make(thread)))
        return NULL;
    uint32_t now;
    if (atomic_load_explicit(&acre__inside_is_cheap, memory_order_relaxed)) {
        atomic_store_explicit(&writer->busy, 1, memory_order_relaxed);
        atomic_signal_fence(memory_order_seq_cst);
        now = atomic_load_explicit(&acre__trace_generation, memory_order_relaxed);
    } else {
        atomic_store_explicit(&writer->is_strong, 1, memory_order_seq_cst);
        atomic_exchange_explicit(&writer->busy, 1, memory_order_seq_cst);
        now = atomic_load_explicit(&acre__trace_generation, memory_order_seq_cst);
    }
    if (__builtin_expect(now == writer->generation && writer->at < writer->end, 1))
        return writer;
    if (now && acre__trace_writer_renew(writer, now))
        return writer;
    atomic_store_explicit(&writer->busy, 0, memory_order_release);
    return NULL;
}

/* Leaves the writer after its stores to the file are visible: by the barrier of the waiting thread,
 * or by this thread's own. */
static inline void writer_out(struct acre__trace_writer *writer) {
    if (atomic_load_explicit(&acre__inside_is_cheap, memory_order_relaxed)) {
        atomic_signal_fence(memory_order_seq_cst);
        atomic_store_explicit(&writer->busy, 0, memory_order_relaxed);
    } else {
        atomic_store_explicit(&writer->busy, 0, memory_order_release);
    }
}

/* Orders earlier stores before later ones. A release store would do too, but on aarch64 the acquire
 * loads of the next call would wait for it; this barrier costs them nothing. */
static inline void write_barrier(void) {
#if defined(__aarch64__) && !defined(__SANITIZE_THREAD__) && !defined(ACRE_SANITIZE_tsan)
    __asm__ volatile("dmb ishst" ::: "memory");
#else
    atomic_thread_fence(memory_order_release);
#endif
}

/* Commits the event and leaves the writer. */
static inline void writer_leave(struct acre__trace_writer *writer, unsigned char *at) {
    writer->at = at;
    uint32_t committed = (uint32_t)(at - (unsigned char *)(writer->block + 1));
    write_barrier();
    __atomic_store_n(&writer->block->committed, committed, __ATOMIC_RELAXED);
    writer_out(writer);
}

/* Units since the last event. The counters of two cores may differ a little: the result is never
 * negative. */
static inline uint64_t writer_delta(struct acre__trace_writer *writer) {
    uint64_t now = acre__clock_units(&acre__trace_clock);
    if (now <= writer->units)
        return 0;
    uint64_t delta = now - writer->units;
    writer->units = now;
    return delta;
}

/* ---- numbers ---- */

static inline unsigned char *put_varint(unsigned char *at, uint64_t value) {
    while (value >= 0x80) {
        *at++ = (unsigned char)(value | 0x80);
        value >>= 7;
    }
    *at++ = (unsigned char)value;
    return at;
}

static inline unsigned char *put_kind(unsigned char *at, enum acre__trace_kind kind,
                                      uint64_t delta) {
    *at++ = (unsigned char)kind;
    return put_varint(at, delta);
}

unsigned char *acre__trace_put_text(unsigned char *at, enum acre__trace_kind kind, uint64_t delta,
                                    const uint64_t *number, const char *text) {
    size_t bytes = strnlen(text, ACRE__TRACE_TEXT_MOST);
    at = put_kind(at, kind, delta);
    if (number)
        at = put_varint(at, *number);
    at = put_varint(at, bytes);
    memcpy(at, text, bytes);
    return at + bytes;
}

void acre__trace_plain(struct acre__trace_writer *writer, enum acre__trace_kind kind) {
    unsigned char *at = put_kind(writer->at, kind, writer_delta(writer));
    writer->at = at;
    uint32_t committed = (uint32_t)(at - (unsigned char *)(writer->block + 1));
    __atomic_store_n(&writer->block->committed, committed, __ATOMIC_RELEASE);
}

/* ---- contexts ---- */

static unsigned context_hint(const struct acre__trace_context *wanted) {
    uint64_t mixed = wanted->stream >> 4 ^ (uint64_t)wanted->pool << 32 ^
                     (uint64_t)wanted->stack << 16 ^ wanted->tag;
    return (unsigned)(mixed * UINT64_C(0x9e3779b97f4a7c15) >> 58); /* less than ACRE__TRACE_HINTS */
}

static inline int context_is(const struct acre__trace_context *context,
                             const struct acre__trace_context *wanted) {
    return context->stream == wanted->stream && context->pool == wanted->pool &&
           context->tag == wanted->tag && context->stack == wanted->stack;
}

/* Finds a context of the block, or writes a new one before the event. At most ACRE__TRACE_CONTEXTS
 * per block: further contexts replace the last one. */
static __attribute__((noinline)) uint8_t context_find(struct acre__trace_writer *writer,
                                                      struct acre__trace_pool *pool,
                                                      const struct acre__trace_context *wanted) {
    uint8_t *hint = &writer->hints[context_hint(wanted)];
    for (uint32_t i = 0; i < writer->context_count; i++)
        if (context_is(&writer->contexts[i], wanted)) {
            *hint = (uint8_t)i;
            return *hint;
        }
    uint32_t number = writer->context_count;
    if (number < ACRE__TRACE_CONTEXTS)
        writer->context_count++;
    else
        number = ACRE__TRACE_CONTEXTS - 1;
    writer->contexts[number] = *wanted;
    int is_named = wanted->stack && acre__trace_name_stack(wanted->stack, writer->generation);
    unsigned char *at = put_kind(writer->at, ACRE__TRACE_CONTEXT, 0);
    *at++ = (unsigned char)number;
    at = put_varint(at, wanted->pool);
    at = put_varint(at, wanted->stream);
    at = put_varint(at, wanted->tag);
    writer->at = writer->has_stacks ? put_varint(at, is_named ? wanted->stack : 0) : at;
    if (atomic_load_explicit(&pool->named, memory_order_relaxed) != writer->generation)
        acre__trace_name_pool(pool, writer->generation);
    *hint = (uint8_t)number;
    return *hint;
}

static inline uint8_t context_of(struct acre__trace_writer *writer, struct acre__trace_pool *pool,
                                 acre_stream stream, uint32_t tag, uint32_t stack) {
    const struct acre__trace_context wanted = {(uintptr_t)stream, pool->id, tag,
                                               writer->has_stacks ? stack : 0};
    uint8_t guess = writer->hints[context_hint(&wanted)];
    return guess < writer->context_count && context_is(&writer->contexts[guess], &wanted)
               ? guess
               : context_find(writer, pool, &wanted);
}

/* ---- places ---- */

static inline int place_has(const struct acre__trace_writer *writer,
                            const struct acre__trace_place *place, uint64_t address) {
    return place->address == address && place->epoch == writer->epoch;
}

static inline uint32_t spare_of(size_t bytes, size_t real) {
    return real >= bytes && real - bytes < UINT32_MAX ? (uint32_t)(real - bytes) : UINT32_MAX;
}

/* The short form: stores three bytes, and a varint for a long time. */
static inline unsigned char *put_short(unsigned char *at, uint32_t kind, uint32_t place,
                                       uint64_t delta) {
    uint32_t time = delta < ACRE__TRACE_SHORT_TIME ? (uint32_t)delta : ACRE__TRACE_SHORT_TIME;
    at[0] = (unsigned char)(kind | time >> 8 << 4 | place >> 8);
    at[1] = (unsigned char)place;
    at[2] = (unsigned char)time;
    at += 3;
    return time < ACRE__TRACE_SHORT_TIME ? at : put_varint(at, delta - ACRE__TRACE_SHORT_TIME);
}

/* Writes the place or the address, and the context if it differs from the previous one. */
static unsigned char *put_where(struct acre__trace_writer *writer, unsigned char *at,
                                unsigned char *flags, uint64_t address, uint8_t context) {
    uint32_t index = acre__trace_hash(address);
    if (place_has(writer, &writer->places[index], address)) {
        *flags |= ACRE__TRACE_AT_PLACE;
        *at++ = (unsigned char)index;
        *at++ = (unsigned char)(index >> 8);
    } else {
        int64_t steps = (int64_t)((address >> 8) - (writer->address >> 8));
        at = put_varint(at, acre__trace_fold(steps));
        if (address & 0xff) {
            *flags |= ACRE__TRACE_LOW;
            *at++ = (unsigned char)address;
        }
    }
    if (context != writer->context) {
        *flags |= ACRE__TRACE_IN_CONTEXT;
        *at++ = context;
    }
    writer->address = address;
    writer->context = context;
    return at;
}

/* An alloc in the long form. The place describes this address from now on. */
static __attribute__((noinline)) unsigned char *
put_alloc(struct acre__trace_writer *writer, enum acre__trace_kind kind, uint64_t address,
          uint64_t bytes, uint64_t real, uint8_t context, uint64_t delta) {
    struct acre__trace_place *place = &writer->places[acre__trace_hash(address)];
    int is_known = place_has(writer, place, address);
    unsigned char *at = put_kind(writer->at, kind, delta), *flags = at++;
    *flags = 0;
    at = put_where(writer, at, flags, address, context);
    if (bytes == writer->bytes)
        *flags |= ACRE__TRACE_SAME_BYTES;
    else
        at = put_varint(at, bytes);
    if (real != acre__trace_rounded(bytes)) {
        *flags |= ACRE__TRACE_REAL;
        at = put_varint(at, real - bytes);
    }
    writer->bytes = bytes;
    place->address = address;
    place->bytes = bytes;
    place->spare = spare_of(bytes, real);
    place->epoch = writer->epoch;
    place->context = context;
    if (!is_known)
        place->free_context = context;
    return at;
}

/* A free in the long form. */
static __attribute__((noinline)) unsigned char *put_free(struct acre__trace_writer *writer,
                                                         enum acre__trace_kind kind,
                                                         uint64_t address, uint8_t context,
                                                         uint64_t delta) {
    struct acre__trace_place *place = &writer->places[acre__trace_hash(address)];
    int is_known = place_has(writer, place, address);
    unsigned char *at = put_kind(writer->at, kind, delta), *flags = at++;
    *flags = 0;
    at = put_where(writer, at, flags, address, context);
    if (!is_known)
        *place = (struct acre__trace_place){
            .address = address, .spare = UINT32_MAX, .epoch = writer->epoch, .context = context};
    place->free_context = context;
    return at;
}

/* ---- blocks ---- */

void acre__trace_alloc(struct acre__trace_pool *pool, const void *p, size_t bytes, size_t real,
                       acre_stream stream, uint32_t tag, uint32_t stack) {
    struct acre__trace_writer *writer = writer_enter();
    if (!writer)
        return;
    uint8_t context = context_of(writer, pool, stream, tag, stack);
    uint64_t address = (uintptr_t)p, delta = writer_delta(writer);
    uint32_t index = acre__trace_hash(address), spare = spare_of(bytes, real);
    const struct acre__trace_place *place = &writer->places[index];
    unsigned char *at;
    if (place_has(writer, place, address) && place->bytes == bytes && place->spare == spare &&
        spare != UINT32_MAX && place->context == context) {
        writer->address = address;
        writer->context = context;
        at = put_short(writer->at, ACRE__TRACE_SHORT | ACRE__TRACE_SHORT_ALLOC, index, delta);
    } else {
        at = put_alloc(writer, ACRE__TRACE_ALLOC, address, bytes, real, context, delta);
    }
    writer_leave(writer, at);
}

void acre__trace_free(struct acre__trace_pool *pool, const void *p, acre_stream stream) {
    struct acre__trace_writer *writer = writer_enter();
    if (!writer)
        return;
    uint8_t context = context_of(writer, pool, stream, 0, 0);
    uint64_t address = (uintptr_t)p, delta = writer_delta(writer);
    uint32_t index = acre__trace_hash(address);
    const struct acre__trace_place *place = &writer->places[index];
    unsigned char *at;
    if (place_has(writer, place, address) && place->free_context == context) {
        writer->address = address;
        writer->context = context;
        at = put_short(writer->at, ACRE__TRACE_SHORT, index, delta);
    } else {
        at = put_free(writer, ACRE__TRACE_FREE, address, context, delta);
    }
    writer_leave(writer, at);
}

/* A free in the long form, followed by a number. */
static void trace_free_with(enum acre__trace_kind kind, struct acre__trace_pool *pool,
                            const void *p, acre_stream stream, uint64_t number) {
    struct acre__trace_writer *writer = writer_enter();
    if (!writer)
        return;
    uint8_t context = context_of(writer, pool, stream, 0, 0);
    unsigned char *at = put_free(writer, kind, (uintptr_t)p, context, writer_delta(writer));
    writer_leave(writer, put_varint(at, number));
}

void acre__trace_free_after(struct acre__trace_pool *pool, const void *p, acre_event event) {
    trace_free_with(ACRE__TRACE_FREE_AFTER, pool, p, NULL, (uintptr_t)event);
}

void acre__trace_free_refused(struct acre__trace_pool *pool, const void *p, acre_stream stream,
                              acre_status status) {
    trace_free_with(ACRE__TRACE_FREE_REFUSED, pool, p, stream, (uint64_t) - (int64_t)status);
}

void acre__trace_realloc(struct acre__trace_pool *pool, const void *before, const void *p,
                         size_t bytes, size_t real, acre_stream stream, uint32_t tag,
                         uint32_t stack) {
    struct acre__trace_writer *writer = writer_enter();
    if (!writer)
        return;
    uint8_t context = context_of(writer, pool, stream, tag, stack);
    unsigned char *at = put_alloc(writer, ACRE__TRACE_REALLOC, (uintptr_t)p, bytes, real, context,
                                  writer_delta(writer));
    uint64_t old = (uintptr_t)before;
    at = put_varint(at, acre__trace_fold((int64_t)((old >> 8) - (writer->address >> 8))));
    *at++ = (unsigned char)old;
    writer_leave(writer, at);
}

/* ---- events that consist of numbers ---- */

/* Writes the context first, if there is a pool. */
static void trace_numbers(enum acre__trace_kind kind, struct acre__trace_pool *pool,
                          acre_stream stream, uint32_t tag, const uint64_t *numbers,
                          unsigned count) {
    struct acre__trace_writer *writer = writer_enter();
    if (!writer)
        return;
    uint8_t context = pool ? context_of(writer, pool, stream, tag, 0) : writer->context;
    unsigned char *at = put_kind(writer->at, kind, writer_delta(writer));
    if (pool)
        *at++ = context;
    writer->context = context;
    for (unsigned i = 0; i < count; i++)
        at = put_varint(at, numbers[i]);
    writer_leave(writer, at);
}

void acre__trace_refused(struct acre__trace_pool *pool, size_t bytes, acre_stream stream,
                         uint32_t tag, acre_status status) {
    const uint64_t numbers[] = {bytes, (uint64_t) - (int64_t)status};
    trace_numbers(ACRE__TRACE_REFUSED, pool, stream, tag, numbers, 2);
}

void acre__trace_wait(struct acre__trace_pool *pool, acre_stream stream) {
    trace_numbers(ACRE__TRACE_WAIT, pool, stream, 0, NULL, 0);
}

void acre__trace_chunk(enum acre__trace_kind kind, uint64_t which, uint64_t bytes) {
    int is_address = kind == ACRE__TRACE_CHUNK_MAP || kind == ACRE__TRACE_CHUNK_UNMAP;
    const uint64_t numbers[] = {is_address ? which >> 8 : which, bytes};
    trace_numbers(kind, NULL, NULL, 0, numbers, 2);
}

void acre__trace_chunk_move(uint64_t from, uint64_t to, uint64_t bytes) {
    const uint64_t numbers[] = {from >> 8, to >> 8, bytes};
    trace_numbers(ACRE__TRACE_CHUNK_MOVE, NULL, NULL, 0, numbers, 3);
}

/* ---- marks ---- */

static acre_status trace_mark(const char *text) {
    acre_status status = acre__enter();
    if (status || (status = acre__not_null(text, "acre_trace_mark: text")))
        return status;
    struct acre__trace_writer *writer = acre__trace_is_on() ? writer_enter() : NULL;
    if (writer)
        writer_leave(writer, acre__trace_put_text(writer->at, ACRE__TRACE_MARK,
                                                  writer_delta(writer), NULL, text));
    return ACRE_OK;
}

acre_status acre_trace_mark(const char *text) {
    return acre__in_call(trace_mark(text), "acre_trace_mark");
}
