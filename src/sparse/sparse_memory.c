/* Memory of pieces: chunks taken, mapped, given access, unmapped. The budget's lock is held.
 *
 * Below the limit a commit takes chunks from the device's chunk store, since unmapping an idle
 * piece costs more than creating a chunk, and loses a piece that may be committed again. At the
 * limit, and when the device is out of memory, it unmaps idle pieces whose work is done and uses
 * their chunks.
 *
 * Invariants. held_bytes of a budget is the memory of all pieces with a mapping, and idle_bytes
 * that of the pieces in its list. A piece is in the list exactly while it is idle. */
#include <stdlib.h>

#include "base/atomic.h"
#include "base/status.h"
#include "space/mapped.h"
#include "sparse/sparse.h"
#include "watch/origin.h"

/* ---- states ---- */

static size_t piece_index(const struct acre__sparse_piece *piece) {
    return (size_t)(piece - piece->range->pieces);
}

static void idle_add(struct acre__sparse_piece *piece) {
    acre_range *range = piece->range;
    acre_range_budget *budget = range->budget;
    piece->state = ACRE__SPARSE_IDLE;
    piece->next = NULL;
    piece->prev = budget->newest;
    *(piece->prev ? &piece->prev->next : &budget->oldest) = piece;
    budget->newest = piece;
    budget->idle_bytes += range->piece_bytes;
    acre__fetch_add(&range->idle_bytes, range->piece_bytes, memory_order_relaxed);
}

static void idle_remove(struct acre__sparse_piece *piece) {
    acre_range *range = piece->range;
    acre_range_budget *budget = range->budget;
    *(piece->prev ? &piece->prev->next : &budget->oldest) = piece->next;
    *(piece->next ? &piece->next->prev : &budget->newest) = piece->prev;
    budget->idle_bytes -= range->piece_bytes;
    acre__fetch_sub(&range->idle_bytes, range->piece_bytes, memory_order_relaxed);
    acre__sparse_mark_drop(budget, piece->mark);
    piece->mark = NULL;
}

void acre__sparse_piece_commit(struct acre__sparse_piece *piece) {
    acre_range *range = piece->range;
    size_t index = piece_index(piece);
    idle_remove(piece);
    piece->state = ACRE__SPARSE_COMMITTED;
    atomic_fetch_or_explicit(&range->committed[index / 64], (uint64_t)1 << index % 64,
                             memory_order_relaxed);
    acre__fetch_add(&range->committed_bytes, range->piece_bytes, memory_order_relaxed);
}

void acre__sparse_piece_decommit(struct acre__sparse_piece *piece, struct acre__sparse_mark *mark) {
    acre_range *range = piece->range;
    size_t index = piece_index(piece);
    atomic_fetch_and_explicit(&range->committed[index / 64], ~((uint64_t)1 << index % 64),
                              memory_order_relaxed);
    acre__fetch_sub(&range->committed_bytes, range->piece_bytes, memory_order_relaxed);
    piece->mark = mark;
    if (mark)
        mark->refs++;
    idle_add(piece);
}

/* Counts memory that pieces of a range got, or lost (negative). */
static void range_hold(acre_range *range, int64_t bytes) {
    acre_range_budget *budget = range->budget;
    budget->held_bytes += (uint64_t)bytes;
    uint64_t held =
        acre__fetch_add(&range->block.range_bytes, (uint64_t)bytes, memory_order_relaxed) +
        (uint64_t)bytes;
    if (budget->held_bytes > budget->peak_bytes)
        budget->peak_bytes = budget->held_bytes;
    if (held > range->counts.peak_bytes)
        range->counts.peak_bytes = held;
    acre__origin_resize(range, held);
}

/* The mapping of an idle piece is gone. */
static void piece_lose(struct acre__sparse_piece *piece) {
    idle_remove(piece);
    piece->mapping = NULL;
    piece->is_bare = 0;
    piece->state = ACRE__SPARSE_EMPTY;
    range_hold(piece->range, -(int64_t)piece->range->piece_bytes);
}

int acre__sparse_piece_empty(struct acre__sparse_piece *piece) {
    int is_unmapped = acre__mapping_unmap(piece->mapping);
    if (is_unmapped)
        piece_lose(piece);
    return is_unmapped;
}

void acre__sparse_piece_abandon(struct acre__sparse_piece *piece) {
    acre__mapping_abandon(piece->mapping);
    piece_lose(piece);
}

/* Maps a chunk at an empty piece, which becomes idle and bare. */
static acre_status piece_map(acre_range *range, size_t index, struct acre__chunk *chunk) {
    struct acre__sparse_piece *piece = &range->pieces[index];
    uint64_t at = range->addresses.at + index * range->piece_bytes;
    acre_status status = acre__mapping_make(chunk, at, &range->block, &piece->mapping);
    if (status)
        return status;
    piece->range = range;
    piece->is_bare = 1;
    idle_add(piece);
    range_hold(range, (int64_t)range->piece_bytes);
    return ACRE_OK;
}

/* ---- idle memory ---- */

static int want_has(const struct acre__sparse_want *want, const struct acre__sparse_piece *piece) {
    return want && piece->range == want->range && piece >= want->range->pieces + want->first &&
           piece < want->range->pieces + want->end;
}

struct acre__sparse_piece *acre__sparse_idle_next(acre_range_budget *budget,
                                                  struct acre__sparse_piece *piece,
                                                  const struct acre__sparse_want *want,
                                                  const acre_range *only) {
    struct acre__sparse_mark *pending = NULL; /* queried just now */
    for (; piece; piece = piece->next) {
        if (want_has(want, piece) || (only && piece->range != only) ||
            (pending && piece->mark == pending))
            continue;
        if (acre__sparse_mark_is_done(budget, piece->mark))
            return piece;
        pending = piece->mark;
    }
    return NULL;
}

uint64_t acre__sparse_trim(acre_range_budget *budget, acre_range *only, uint64_t keep_bytes) {
    uint64_t went = 0;
    struct acre__sparse_piece *piece = budget->oldest;
    for (;;) {
        uint64_t held =
            only ? acre__load(&only->block.range_bytes, memory_order_relaxed) : budget->held_bytes;
        if (held <= keep_bytes)
            break;
        piece = acre__sparse_idle_next(budget, piece, NULL, only);
        if (!piece)
            break;
        struct acre__sparse_piece *next = piece->next;
        acre_range *range = piece->range;
        if (acre__sparse_piece_empty(piece)) {
            range->counts.pieces_trimmed++;
            went += range->piece_bytes;
        }
        piece = next;
    }
    acre__sparse_marks_trim(budget);
    return went;
}

/* ---- chunks for a commit ---- */

/* Chunks on their way to the pieces of a commit. */
struct supply {
    const struct acre__sparse_want *want;
    struct acre__chunk *list; /* each with one user */
    size_t count, needed;
    struct acre__sparse_piece *next_idle; /* where the search for idle pieces goes on */
};

/* Unmaps one idle piece outside the request. Keeps its chunk if it has the right size. Returns 0 if
 * there is no such piece. */
static int supply_from_idle(struct supply *supply) {
    acre_range *range = supply->want->range;
    acre_range_budget *budget = range->budget;
    struct acre__sparse_piece *piece;
    while ((piece = acre__sparse_idle_next(budget, supply->next_idle, supply->want, NULL))) {
        acre_range *from = piece->range;
        struct acre__chunk *chunk = piece->mapping->chunk;
        int is_kept = chunk->bytes == range->piece_bytes && supply->count < supply->needed;
        supply->next_idle = piece->next;
        if (is_kept)
            acre__chunk_keep(chunk);
        if (acre__sparse_piece_empty(piece)) {
            from->counts.pieces_moved++;
            if (is_kept) {
                chunk->next = supply->list;
                supply->list = chunk;
                supply->count++;
            }
            return 1;
        }
        if (is_kept)
            acre__chunk_drop(chunk);
    }
    return 0;
}

uint64_t acre__sparse_fixed_bytes(const struct acre__sparse_want *want, uint64_t *needed) {
    const acre_range *range = want->range;
    uint64_t fixed = range->budget->held_bytes - range->budget->idle_bytes;
    *needed = 0;
    for (size_t i = want->first; i < want->end; i++) {
        fixed += range->pieces[i].state == ACRE__SPARSE_IDLE ? range->piece_bytes : 0;
        *needed += range->pieces[i].state == ACRE__SPARSE_EMPTY ? range->piece_bytes : 0;
    }
    return fixed;
}

/* Makes room within the limit. If committed pieces leave too little, idle pieces stay. */
static acre_status supply_limit(struct supply *supply) {
    const acre_range_budget *budget = supply->want->range->budget;
    uint64_t bytes, limit = budget->limit_bytes;
    uint64_t fixed = acre__sparse_fixed_bytes(supply->want, &bytes);
    int is_hopeless = bytes > limit || fixed > limit - bytes;
    while (is_hopeless || budget->held_bytes > limit - bytes)
        if (is_hopeless || !supply_from_idle(supply))
            return acre__fail(ACRE_E_LIMIT,
                              "%llu bytes requested; %llu of the budget's %llu bytes are in use: "
                              "decommit pieces, or raise the limit",
                              (unsigned long long)bytes, (unsigned long long)fixed,
                              (unsigned long long)limit);
    return ACRE_OK;
}

/* Takes the chunks that are still missing from the device; when it has none left, from idle
 * pieces. */
static acre_status supply_device(struct supply *supply) {
    const acre_range *range = supply->want->range;
    while (supply->count < supply->needed) {
        struct acre__chunk *chunk;
        size_t before = supply->count;
        acre_status status = acre__chunk_take(range->dev, range->piece_bytes, 0, &chunk);
        if (status == ACRE_OK) {
            chunk->next = supply->list;
            supply->list = chunk;
            supply->count++;
        } else if (!acre__is_too_much(status)) {
            return status;
        } else {
            struct acre__said said;
            acre__said_keep(&said);
            /* A chunk of another size went to the driver: the next attempt may get its memory. */
            if (!supply_from_idle(supply) && supply->count == before)
                return acre__said_fail(status, &said);
        }
    }
    return ACRE_OK;
}

/* ---- filling ---- */

/* Sets the access of all bare pieces of the request, in one call for each run of them. */
static acre_status fill_access(const struct acre__sparse_want *want) {
    acre_range *range = want->range;
    acre_status status = ACRE_OK;
    for (size_t i = want->first; i < want->end && status == ACRE_OK;) {
        size_t end = i;
        while (end < want->end && range->pieces[end].is_bare)
            end++;
        if (end > i)
            status = acre__mapped_access(range->dev, range->addresses.at + i * range->piece_bytes,
                                         (end - i) * range->piece_bytes, &range->access, 1);
        for (; i < end && status == ACRE_OK; i++)
            range->pieces[i].is_bare = 0;
        i += end == i;
    }
    return status;
}

/* Maps the chunks of the list at the empty pieces of the request; sets *mapped to the pieces
 * mapped. Takes over one user of each chunk. */
static acre_status fill_map(const struct acre__sparse_want *want, struct acre__chunk *list,
                            size_t *mapped, size_t *count) {
    acre_range *range = want->range;
    /* On a lost device mappings end in the records only, so the addresses may still be mapped. */
    acre_status status = acre__device_enter(range->dev);
    *count = 0;
    for (size_t i = want->first; i < want->end && status == ACRE_OK && list; i++) {
        if (range->pieces[i].state != ACRE__SPARSE_EMPTY)
            continue;
        struct acre__chunk *chunk = list;
        status = piece_map(range, i, chunk);
        if (status == ACRE_OK) {
            list = chunk->next;
            chunk->next = NULL;
            acre__chunk_drop(chunk); /* the mapping has its own user */
            mapped[(*count)++] = i;
        }
    }
    acre__chunk_drop_list(list);
    return status;
}

static acre_status fill_all(const struct acre__sparse_want *want, struct supply *supply,
                            size_t *mapped) {
    acre_range *range = want->range;
    size_t count;
    acre_status status = fill_map(want, supply->list, mapped, &count);
    supply->list = NULL;
    if (status == ACRE_OK)
        status = fill_access(want);
    if (status == ACRE_OK) {
        range->counts.pieces_mapped += count;
        return ACRE_OK;
    }
    struct acre__said said;
    acre__said_keep(&said);
    while (count > 0)
        (void)acre__sparse_piece_empty(&range->pieces[mapped[--count]]);
    return acre__said_fail(status, &said);
}

acre_status acre__sparse_fill(const struct acre__sparse_want *want) {
    struct supply supply = {.want = want, .next_idle = want->range->budget->oldest};
    for (size_t i = want->first; i < want->end; i++)
        supply.needed += want->range->pieces[i].state == ACRE__SPARSE_EMPTY;
    size_t one, *mapped = supply.needed > 1 ? malloc(supply.needed * sizeof *mapped) : &one;
    if (!mapped)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory to map %zu pieces", supply.needed);
    acre_status status = supply.needed ? supply_limit(&supply) : ACRE_OK;
    if (status == ACRE_OK)
        status = supply_device(&supply);
    if (status == ACRE_OK)
        status = fill_all(want, &supply, mapped);
    else
        acre__chunk_drop_list(supply.list);
    if (mapped != &one)
        free(mapped);
    return status;
}
