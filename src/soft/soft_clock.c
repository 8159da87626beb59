/* Vector clocks: check that every use of memory is ordered after conflicting earlier uses.
 *
 * Each stream has a slot and counts its steps there (its epoch). A clock says for every slot up to
 * which step its work is known to be done. Clocks are joined where the real driver orders work. A
 * stream's wait joins the clock of the event's recording into the stream's. An operation joins the
 * host's clock of when it was queued. A successful query or sync joins the event's or stream's
 * clock into the host's, which all host threads share.
 *
 * Uses are recorded per (chunk, offset) and never per address, because chunks move and may be
 * mapped twice. Each backing has a tree of segments, each with its last write and the reads since.
 * A use conflicts with an earlier one if one of the two is a write. A conflicting earlier use that
 * is not in the stream's clock is reported with both uses. A write replaces the segments that it
 * covers, so their number stays near the number of blocks in use.
 *
 * A new stream gets a slot only when the host knows that all work of the slot's old stream is done.
 * Epochs continue to count, so old uses stay comparable. Guarded by acre__soft.lock. Without
 * config.check all of this costs a branch. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stack.h"
#include "soft/soft_clock.h"
#include "soft/soft_state.h"

enum { USE_TEXT = ACRE__FRAME_TEXT + 100 };

/* ---- clocks ---- */

CUresult acre__soft_clock_room(struct soft_clock *out) {
    out->at = calloc(SOFT_SLOTS, sizeof *out->at);
    out->count = out->at ? SOFT_SLOTS : 0;
    return out->at ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void acre__soft_clock_free(struct soft_clock *clock) {
    free(clock->at);
    *clock = (struct soft_clock){0};
}

CUresult acre__soft_clock_snapshot(const struct soft_clock *from, struct soft_clock *out) {
    if (!acre__soft.config.check)
        return CUDA_SUCCESS;
    out->count = acre__soft.slot_high ? acre__soft.slot_high : 1;
    out->at = calloc(out->count, sizeof *out->at);
    if (!out->at)
        return CUDA_ERROR_OUT_OF_MEMORY;
    acre__soft_clock_copy(out, from);
    return CUDA_SUCCESS;
}

void acre__soft_clock_copy(struct soft_clock *to, const struct soft_clock *from) {
    for (size_t i = 0; i < to->count; i++)
        to->at[i] = i < from->count ? from->at[i] : 0;
}

void acre__soft_clock_join(struct soft_clock *to, const struct soft_clock *from) {
    size_t count = from->count < acre__soft.slot_high ? from->count : acre__soft.slot_high;
    for (size_t i = 0; i < count && i < to->count; i++)
        if (from->at[i] > to->at[i])
            to->at[i] = from->at[i];
}

CUresult acre__soft_clock_slot_take(struct soft_stream *stream) {
    if (!acre__soft.config.check)
        return CUDA_SUCCESS;
    uint32_t slot = 0;
    while (slot < SOFT_SLOTS &&
           (acre__soft.slot_used[slot] || acre__soft.host.at[slot] < acre__soft.slot_epoch[slot]))
        slot++;
    if (slot == SOFT_SLOTS)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = acre__soft_clock_room(&stream->clock);
    if (result)
        return result;
    stream->slot = slot;
    stream->clock.at[slot] = acre__soft.slot_epoch[slot];
    acre__soft.slot_used[slot] = 1;
    acre__soft.slot_ctx[slot] = stream->ctx->id;
    acre__soft.slot_is_blocking[slot] = !(stream->flags & CU_STREAM_NON_BLOCKING);
    if (slot >= acre__soft.slot_high)
        acre__soft.slot_high = slot + 1;
    return CUDA_SUCCESS;
}

void acre__soft_clock_slot_give(struct soft_stream *stream) {
    if (!stream->clock.at)
        return;
    acre__soft.slot_used[stream->slot] = 0;
    acre__soft_clock_free(&stream->clock);
}

void acre__soft_clock_host_joins(const struct CUctx_st *ctx) {
    if (!acre__soft.config.check)
        return;
    acre__soft_clock_join_ended(&acre__soft.host, ctx);
}

static int slot_is_ended(size_t slot, const struct CUctx_st *ctx) {
    return !acre__soft.slot_used[slot] && acre__soft.slot_ctx[slot] == ctx->id;
}

void acre__soft_clock_join_ended(struct soft_clock *to, const struct CUctx_st *ctx) {
    for (size_t i = 0; i < acre__soft.slot_high && i < to->count; i++)
        if (slot_is_ended(i, ctx))
            to->at[i] = acre__soft.slot_epoch[i];
}

int acre__soft_clock_legacy_joins_ended(struct soft_clock *to, const struct CUctx_st *ctx) {
    int is_there = 0;
    for (size_t i = 0; acre__soft.config.check && i < acre__soft.slot_high; i++) {
        if (!slot_is_ended(i, ctx) || !acre__soft.slot_is_blocking[i] ||
            acre__soft.slot_legacy[i] == acre__soft.slot_epoch[i])
            continue;
        is_there = 1;
        if (to && i < to->count)
            to->at[i] = acre__soft.slot_legacy[i] = acre__soft.slot_epoch[i];
    }
    return is_there;
}

static int clock_knows(const struct soft_clock *clock, const struct soft_use *use) {
    return use->epoch == 0 || (use->slot < clock->count && clock->at[use->slot] >= use->epoch);
}

/* ---- reports ---- */

/* Formats " (fill 0x10, queued by main at main.c:14)"; without the call if it is unknown. */
static const char *use_text(const struct soft_use *use, char text[USE_TEXT]) {
    char where[ACRE__FRAME_TEXT];
    acre__stack_brief(use->stack, where);
    snprintf(text, USE_TEXT, "stream %llu step %llu (%s 0x%llx%s%s)",
             (unsigned long long)use->stream_id, (unsigned long long)use->step, use->what,
             (unsigned long long)use->address, where[0] ? ", queued by " : "", where);
    return text;
}

/* Names the use that was queued first first, whichever ran first. */
static void use_report(const struct soft_use *a, const struct soft_use *b,
                       const struct soft_piece *piece, size_t offset) {
    char first[USE_TEXT], second[USE_TEXT];
    int is_swapped = b->serial < a->serial;
    acre__soft_report("race: %zu bytes are used without order by %s and by %s: let one stream wait "
                      "for the other; both use chunk %llu at offset 0x%zx",
                      piece->bytes, use_text(is_swapped ? b : a, first),
                      use_text(is_swapped ? a : b, second), (unsigned long long)piece->backing->id,
                      offset);
}

/* ---- uses ---- */

/* The part [node.key, node.key + bytes) of a backing: its last write, and the reads since. */
struct segment {
    struct acre__node node;
    size_t bytes;
    struct soft_use write; /* epoch 0: none */
    struct soft_use *reads;
    size_t read_count;
};

static struct segment *segment_of(struct acre__node *node) {
    return acre__tree_entry(node, struct segment, node);
}

static struct segment *segment_add(struct acre__tree *shadow, size_t offset, size_t bytes) {
    struct segment *segment = calloc(1, sizeof *segment);
    if (!segment)
        return NULL;
    segment->node.key = offset;
    segment->bytes = bytes;
    acre__tree_insert(shadow, &segment->node);
    return segment;
}

static void segment_remove(struct acre__tree *shadow, struct segment *segment) {
    acre__tree_remove(shadow, &segment->node);
    free(segment->reads);
    free(segment);
}

/* Makes `offset` a boundary between segments. Returns 0 when out of memory. */
static int shadow_split(struct acre__tree *shadow, size_t offset) {
    struct segment *segment = segment_of(acre__tree_floor(shadow, offset));
    if (!segment || segment->node.key == offset || offset - segment->node.key >= segment->bytes)
        return 1;
    size_t head = offset - segment->node.key;
    struct segment *tail = segment_add(shadow, offset, segment->bytes - head);
    if (!tail)
        return 0;
    if (segment->read_count) {
        tail->reads = malloc(segment->read_count * sizeof *tail->reads);
        if (!tail->reads) {
            segment_remove(shadow, tail);
            return 0;
        }
        memcpy(tail->reads, segment->reads, segment->read_count * sizeof *tail->reads);
        tail->read_count = segment->read_count;
    }
    tail->write = segment->write;
    segment->bytes = head;
    return 1;
}

/* Removes the segments between two boundaries. */
static void shadow_clear(struct acre__tree *shadow, size_t begin, size_t end) {
    struct segment *segment;
    while ((segment = segment_of(acre__tree_ceil(shadow, begin))) && segment->node.key < end)
        segment_remove(shadow, segment);
}

/* Returns the first conflicting use in the segment that is not in the clock, or NULL. */
static const struct soft_use *segment_conflict(const struct segment *segment,
                                               const struct soft_clock *clock, int is_write) {
    if (!clock_knows(clock, &segment->write))
        return &segment->write;
    for (size_t i = 0; is_write && i < segment->read_count; i++)
        if (!clock_knows(clock, &segment->reads[i]))
            return &segment->reads[i];
    return NULL;
}

/* A later read of the same stream through the same mapping replaces the earlier one. */
static void segment_add_read(struct segment *segment, const struct soft_use *use) {
    for (size_t i = 0; i < segment->read_count; i++)
        if (segment->reads[i].slot == use->slot && segment->reads[i].mapping == use->mapping) {
            segment->reads[i] = *use;
            return;
        }
    struct soft_use *reads =
        realloc(segment->reads, (segment->read_count + 1) * sizeof *segment->reads);
    if (!reads)
        return; /* this read is not checked later */
    segment->reads = reads;
    reads[segment->read_count++] = *use;
}

/* Compares the use with the segments of the piece. Records a read in them and in new segments for
 * the parts without one. */
static int shadow_visit(struct soft_stream *stream, const struct soft_piece *piece,
                        const struct soft_use *use, int is_write) {
    struct acre__tree *shadow = &piece->backing->shadow;
    size_t at = piece->offset, end = piece->offset + piece->bytes;
    int is_ordered = 1;
    while (at < end) {
        struct segment *segment = segment_of(acre__tree_ceil(shadow, at));
        if (!segment || segment->node.key > at) {
            size_t stop = segment && segment->node.key < end ? segment->node.key : end;
            if (!is_write && (segment = segment_add(shadow, at, stop - at)))
                segment_add_read(segment, use);
            at = stop;
            continue;
        }
        const struct soft_use *earlier = segment_conflict(segment, &stream->clock, is_write);
        if (earlier && is_ordered) {
            use_report(use, earlier, piece, at);
            is_ordered = 0;
        }
        if (!is_write)
            segment_add_read(segment, use);
        at += segment->bytes;
    }
    return is_ordered;
}

/* Keeps the last use of each slot through the mapping. A later write of another stream replaces the
 * segments, but the mapping must not be unmapped before all its uses are done. */
static void mapping_note(const struct soft_use *use) {
    struct soft_mapping *mapping = acre__soft_mapping_find(use->address);
    if (!mapping)
        return;
    for (size_t i = 0; i < mapping->use_count; i++)
        if (mapping->uses[i].slot == use->slot) {
            mapping->uses[i] = *use;
            return;
        }
    struct soft_use *uses = realloc(mapping->uses, (mapping->use_count + 1) * sizeof *uses);
    if (!uses)
        return; /* this use is not checked at unmap */
    mapping->uses = uses;
    uses[mapping->use_count++] = *use;
}

int acre__soft_clock_use(struct soft_stream *stream, const struct soft_op *op,
                         const struct soft_piece *piece, int is_write, const char *what) {
    if (!acre__soft.config.check)
        return 1;
    const struct soft_use use = {.stream_id = stream->id,
                                 .step = op->step,
                                 .epoch = stream->clock.at[stream->slot],
                                 .address = piece->address,
                                 .mapping = piece->mapping,
                                 .slot = stream->slot,
                                 .serial = op->serial,
                                 .stack = op->stack,
                                 .what = what};
    mapping_note(&use);
    struct acre__tree *shadow = &piece->backing->shadow;
    size_t end = piece->offset + piece->bytes;
    if (!shadow_split(shadow, piece->offset) || !shadow_split(shadow, end))
        return 1;
    int is_ordered = shadow_visit(stream, piece, &use, is_write);
    if (!is_write)
        return is_ordered;
    shadow_clear(shadow, piece->offset, end);
    struct segment *segment = segment_add(shadow, piece->offset, piece->bytes);
    if (segment)
        segment->write = use;
    return is_ordered;
}

/* ---- unmapping ---- */

void acre__soft_clock_check_unmap(const struct soft_mapping *mapping, const char *what) {
    for (size_t i = 0; i < mapping->use_count; i++) {
        const struct soft_use *use = &mapping->uses[i];
        if (clock_knows(&acre__soft.host, use))
            continue;
        acre__soft_report(
            "0x%llx (%zu bytes) is %s, but the host never waited for stream %llu step "
            "%llu (%s 0x%llx)",
            (unsigned long long)mapping->node.key, mapping->bytes, what,
            (unsigned long long)use->stream_id, (unsigned long long)use->step, use->what,
            (unsigned long long)use->address);
        return;
    }
}

/* Returns a use that the host does not know to be done, or NULL. The allocation itself is not a
 * use. */
static const struct soft_use *segment_unfinished(const struct segment *segment) {
    if (!clock_knows(&acre__soft.host, &segment->write) &&
        strcmp(segment->write.what, SOFT_USE_ALLOC) != 0)
        return &segment->write;
    for (size_t i = 0; i < segment->read_count; i++)
        if (!clock_knows(&acre__soft.host, &segment->reads[i]))
            return &segment->reads[i];
    return NULL;
}

void acre__soft_clock_check_free(const struct soft_piece *piece, const char *what) {
    const struct acre__tree *shadow = &piece->backing->shadow;
    size_t end = piece->offset + piece->bytes;
    struct acre__node *node = acre__tree_ceil(shadow, piece->offset);
    for (; node && node->key < end; node = acre__tree_next(shadow, node)) {
        const struct soft_use *use = segment_unfinished(segment_of(node));
        if (!use)
            continue;
        acre__soft_report(
            "0x%llx (%zu bytes) is %s, but the host never waited for stream %llu step %llu (%s "
            "0x%llx)",
            (unsigned long long)piece->address, piece->bytes, what,
            (unsigned long long)use->stream_id, (unsigned long long)use->step, use->what,
            (unsigned long long)use->address);
        return;
    }
}

void acre__soft_clock_forget_piece(const struct soft_piece *piece) {
    struct acre__tree *shadow = &piece->backing->shadow;
    size_t end = piece->offset + piece->bytes;
    if (shadow_split(shadow, piece->offset) && shadow_split(shadow, end))
        shadow_clear(shadow, piece->offset, end);
}

void acre__soft_clock_forget(struct soft_backing *backing) {
    struct acre__node *node;
    while ((node = acre__tree_first(&backing->shadow)))
        segment_remove(&backing->shadow, segment_of(node));
}
