/* Arenas of plans: their memory and its pieces. See plan.h.
 *
 * Memory is blocks of acre_mem_alloc. The book lists them as the plan's, so that nobody can free
 * them by the address of a request. Pageable memory is acre's own pages. Addresses are aligned, not
 * offsets: a segment need not begin at a multiple of a request's alignment. */
#include "base/status.h"
#include "device/held.h"
#include "plan/plan.h"
#include "space/host_pages.h"
#include "space/mapped.h"
#include "space/steps.h"

#include <stdlib.h>

#define ARENA_DEVICE_BYTES ((uint64_t)4 << 30)
#define ARENA_HOST_BYTES ((uint64_t)8 << 30)
/* Memory that is allocated as needed comes in multiples of a chunk. Each segment is as large as all
 * before it, up to this limit, so that many small requests take few segments. */
#define ARENA_UNIT ((uint64_t)2 << 20)
#define ARENA_STEP_MOST ((uint64_t)256 << 20)

const char *acre__plan_place_name(uint32_t place) {
    return place == ACRE_PLACE_HOST ? "host" : "device";
}

/* The status for a shortage of this arena's memory. */
static acre_status arena_short(const struct acre__plan_arena *arena) {
    return arena->place == ACRE_PLACE_HOST ? ACRE_E_HOST_MEMORY : ACRE_E_DEVICE_MEMORY;
}

acre_status acre__plan_not_enough(const struct acre__plan_arena *arena, uint64_t desired) {
    uint64_t allocated = arena->held;
    if (!allocated && arena->size != ACRE__PLAN_NEEDED)
        allocated = arena->bytes;
    return acre__fail(arena_short(arena),
                      "not enough %s memory: desired %llu bytes, allocated %llu bytes",
                      acre__plan_place_name(arena->place), (unsigned long long)desired,
                      (unsigned long long)allocated);
}

acre_status acre__plan_not_clear(const struct acre__plan_arena *arena,
                                 const struct acre__plan_piece *piece, uint64_t offset) {
    return acre__fail(
        ACRE_E_INVALID,
        "%llu bytes at offset %llu of %llu bytes of %s memory: in use, past the end, or misaligned",
        (unsigned long long)piece->bytes, (unsigned long long)offset,
        (unsigned long long)arena->bytes, acre__plan_place_name(arena->place));
}

/* ---- memory ---- */

static acre_status segment_take(const struct acre__plan_arena *arena, uint64_t bytes,
                                struct acre__plan_segment *segment) {
    if (arena->kind == ACRE_KIND_PAGEABLE)
        return acre__host_pages_make((size_t)bytes, &segment->mem, &segment->mem_bytes);
    segment->mem_bytes = (size_t)bytes;
    acre__wait_forbid(); /* the plan's lock is held */
    acre_status status = acre_mem_alloc(arena->dev, arena->kind, (size_t)bytes, 0, &segment->mem);
    acre__wait_allow();
    if (status)
        return acre__in_call(status, NULL); /* the program did not call acre_mem_alloc */
    segment->pinned = acre__book_pin(arena->dev, segment->mem, &status);
    if (segment->pinned)
        acre__book_pass_on(segment->pinned, ACRE__OWNED_BY_PLAN);
    else
        (void)acre_mem_free(arena->dev, segment->mem);
    return status;
}

static void segment_end(struct acre__plan_arena *arena, struct acre__plan_segment *segment) {
    arena->held -= segment->bytes;
    if (segment->pinned) {
        acre__book_pass_on(segment->pinned, ACRE__OWNED_BY_MEM);
        acre__book_unpin(segment->pinned);
        (void)acre_mem_free(arena->dev, segment->mem);
    } else {
        (void)acre__step_quiesce_users(arena->dev); /* copies may still use the pages */
        acre__book_note_freed(segment->mem, segment->mem_bytes);
        acre__host_pages_free(segment->mem, segment->mem_bytes);
    }
    free(segment);
}

struct acre__plan_segment *acre__plan_arena_last(const struct acre__plan_arena *arena) {
    struct acre__plan_segment *last = arena->segments;
    while (last && last->next)
        last = last->next;
    return last;
}

static acre_status arena_add(struct acre__plan_arena *arena, uint64_t bytes) {
    struct acre__plan_segment *segment = calloc(1, sizeof *segment);
    if (!segment)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of a plan's memory");
    acre_status status = segment_take(arena, bytes, segment);
    if (status) {
        free(segment);
        return status;
    }
    segment->at = (uintptr_t)segment->mem;
    segment->bytes = bytes;
    arena->held += bytes;
    struct acre__plan_segment *last = acre__plan_arena_last(arena);
    *(last ? &last->next : &arena->segments) = segment;
    return ACRE_OK;
}

void acre__plan_arena_cut(struct acre__plan_arena *arena, struct acre__plan_segment *last) {
    struct acre__plan_segment **link = last ? &last->next : &arena->segments;
    while (*link) {
        struct acre__plan_segment *segment = *link;
        *link = segment->next;
        segment_end(arena, segment);
    }
    if (!arena->segments && arena->size == ACRE__PLAN_DEFAULT)
        arena->bytes = arena->whole;
}

acre_status acre__plan_arena_default(acre_device *dev, uint32_t place, uint64_t *whole,
                                     uint64_t *clipped) {
    uint64_t room;
    if (place == ACRE_PLACE_HOST) {
        uint64_t available = acre__host_pages_available();
        *whole = ARENA_HOST_BYTES;
        room = available ? available / 2 : UINT64_MAX;
    } else {
        acre_device_info info = {.struct_size = sizeof info};
        acre_status status = acre_device_get_info(dev, &info);
        if (status)
            return status;
        *whole = ARENA_DEVICE_BYTES;
        room = acre__held_room(dev, info.free_bytes, ACRE__HELD_NEW);
    }
    *clipped = *whole < room ? *whole : room & ~(ARENA_UNIT - 1);
    return ACRE_OK;
}

acre_status acre__plan_arena_ready(struct acre__plan_arena *arena) {
    uint64_t whole, room, bytes = arena->bytes;
    if (arena->size == ACRE__PLAN_NEEDED || arena->segments)
        return ACRE_OK;
    if (arena->size == ACRE__PLAN_DEFAULT) { /* less may be free than at creation */
        acre_status status = acre__plan_arena_default(arena->dev, arena->place, &whole, &room);
        if (status)
            return status;
        bytes = bytes < room ? bytes : room;
    }
    acre_status status = bytes ? arena_add(arena, bytes) : arena_short(arena);
    if (status == ACRE_OK)
        arena->bytes = bytes;
    return acre__is_no_memory(status)
               ? acre__fail(status,
                            "not enough %s memory: desired %llu bytes, allocated 0 bytes%s%s",
                            acre__plan_place_name(arena->place),
                            (unsigned long long)(bytes ? bytes : arena->bytes), bytes ? ": " : "",
                            bytes ? acre_last_detail() : "")
               : status;
}

/* Returns the alignment that segments allocated as needed are guaranteed to have. */
static uint64_t arena_natural(const struct acre__plan_arena *arena) {
    int is_whole = arena->place == ACRE_PLACE_HOST || arena->dev->info.granularity_bytes;
    return is_whole ? ARENA_UNIT : ACRE__PLAN_GRAIN;
}

acre_status acre__plan_arena_more(struct acre__plan_arena *arena, uint64_t bytes,
                                  uint64_t alignment, int ahead) {
    uint64_t least = bytes + (alignment > arena_natural(arena) ? alignment : 0);
    least = acre__round_up(least, ARENA_UNIT);
    uint64_t step = arena->held < ARENA_STEP_MOST ? arena->held : ARENA_STEP_MOST;
    step = ahead ? acre__round_up(step, ARENA_UNIT) : 0;
    acre_status status = arena_add(arena, step > least ? step : least);
    if (status && step > least) /* a smaller segment may succeed */
        status = arena_add(arena, least);
    return acre__is_no_memory(status) ? acre__plan_not_enough(arena, arena->held + bytes) : status;
}

/* ---- pieces ---- */

static struct acre__plan_piece *piece_of(struct acre__node *node) {
    return acre__tree_entry(node, struct acre__plan_piece, node);
}

/* Returns the end of a piece or kept range that overlaps [at, at + bytes) of the segment; 0 if none
 * does. */
static uint64_t segment_in_the_way(const struct acre__plan_arena *arena,
                                   const struct acre__plan_segment *segment, uint64_t at,
                                   uint64_t bytes) {
    const struct acre__plan_piece *piece =
        piece_of(acre__tree_floor(&segment->pieces, at + bytes - 1));
    if (piece && piece->node.key + piece->bytes > at)
        return piece->node.key + piece->bytes;
    const struct acre__plan_kept *kept = segment == arena->segments ? arena->kept : NULL;
    for (; kept; kept = kept->next)
        if (kept->offset < at + bytes && kept->offset + kept->bytes > at)
            return kept->offset + kept->bytes;
    return 0;
}

uint64_t acre__plan_segment_would_end(const struct acre__plan_arena *arena,
                                      const struct acre__plan_segment *segment, uint64_t from,
                                      uint64_t bytes, uint64_t alignment) {
    uint64_t at = from, behind = from;
    do {
        at = acre__round_up(segment->at + behind, alignment) - segment->at;
        behind = segment_in_the_way(arena, segment, at, bytes);
    } while (behind);
    return at + bytes;
}

static void segment_put(struct acre__plan_segment *segment, struct acre__plan_piece *piece,
                        uint64_t offset) {
    uint64_t end = offset + piece->bytes;
    piece->node = (struct acre__node){.key = offset};
    piece->segment = segment;
    piece->before = segment->cursor;
    piece->end_before = segment->end;
    (void)acre__tree_insert(&segment->pieces, &piece->node);
    segment->end = end > segment->end ? end : segment->end;
}

int acre__plan_arena_take(struct acre__plan_arena *arena, struct acre__plan_piece *piece) {
    struct acre__plan_segment *segment = arena->segments;
    for (; segment; segment = segment->next) {
        if (piece->bytes > segment->bytes)
            continue;
        uint64_t end = acre__plan_segment_would_end(arena, segment, segment->cursor, piece->bytes,
                                                    piece->alignment);
        if (end > segment->bytes)
            continue;
        segment_put(segment, piece, end - piece->bytes);
        segment->cursor = end;
        return 1;
    }
    return 0;
}

int acre__plan_arena_take_at(struct acre__plan_arena *arena, struct acre__plan_piece *piece,
                             uint64_t offset) {
    struct acre__plan_segment *segment = arena->segments;
    if (!segment || offset > segment->bytes || piece->bytes > segment->bytes - offset ||
        (segment->at + offset) % piece->alignment ||
        segment_in_the_way(arena, segment, offset, piece->bytes))
        return 0;
    segment_put(segment, piece, offset);
    return 1;
}

void acre__plan_arena_untake(struct acre__plan_piece *piece) {
    struct acre__plan_segment *segment = piece->segment;
    acre__tree_remove(&segment->pieces, &piece->node);
    segment->cursor = piece->before;
    piece->segment = NULL;
    segment->end = piece->end_before;
}

acre_status acre__plan_arena_grow(struct acre__plan_arena *arena, struct acre__plan_piece *piece,
                                  uint64_t desired, uint64_t alignment, int ahead) {
    if (arena->size != ACRE__PLAN_NEEDED || desired > ACRE__PLAN_BYTES_MOST)
        return acre__plan_not_enough(arena, desired);
    acre_status status = acre__plan_arena_more(arena, desired, alignment, ahead);
    if (status == ACRE_OK && !acre__plan_arena_take(arena, piece))
        status = acre__plan_not_enough(arena, desired);
    return status;
}

acre_status acre__plan_arena_get(struct acre__plan_arena *arena, struct acre__plan_piece *piece) {
    acre_status status = acre__plan_arena_ready(arena);
    if (status || acre__plan_arena_take(arena, piece))
        return status;
    const struct acre__plan_segment *only = arena->segments;
    uint64_t desired = arena->size == ACRE__PLAN_NEEDED
                           ? piece->bytes
                           : acre__plan_segment_would_end(arena, only, only->cursor, piece->bytes,
                                                          piece->alignment);
    return acre__plan_arena_grow(arena, piece, desired, piece->alignment, 0);
}

void acre__plan_arena_clear(struct acre__plan_arena *arena) {
    struct acre__plan_segment *segment = arena->segments;
    arena->kept = NULL;
    for (; segment; segment = segment->next) {
        segment->pieces = (struct acre__tree){0};
        segment->cursor = segment->end = 0;
    }
}

uint64_t acre__plan_arena_used(const struct acre__plan_arena *arena) {
    uint64_t used = 0;
    const struct acre__plan_segment *segment = arena->segments;
    for (; segment; segment = segment->next)
        used += segment->end;
    return used;
}
