/* Vecs that grow by mapping chunks behind a stable address.
 *
 * A growth within the reserved addresses maps chunks at the end and touches no stream. A growth
 * beyond them extends the range in place. If that fails, all chunks are also mapped at another
 * range. The old range is unmapped only after the uses recorded so far are done; until then, undo
 * restores it. Physical memory is allocated before anything is moved or waited for, so that a full
 * card fails at once.
 *
 * The vec's block in the book covers the mapped bytes, from creation to destruction. The block
 * shrinks before memory is unmapped and grows after memory is mapped. */
#include "base/round.h"
#include "base/status.h"
#include "vec/vec.h"

static struct acre__vec_place vmm_place(const acre_vec *vec) {
    const struct acre__extent *extent = &vec->extent;
    return (struct acre__vec_place){extent->range.at, extent->mapped, extent->range.bytes,
                                    extent->count};
}

static void vmm_book(acre_vec *vec) {
    acre__book_change(&vec->block, vec->extent.range.at, vec->extent.mapped);
}

/* ---- opening and closing ---- */

acre_status acre__vec_vmm_open(acre_vec *vec, uint32_t chunk_flags, size_t reserve, size_t least) {
    size_t wanted = reserve;
    if (!wanted) {
        wanted = (size_t)vec->dev->info.total_bytes;
        wanted = wanted < vec->limit_bytes ? wanted : vec->limit_bytes;
    }
    wanted = acre__round_up(wanted, least);
    acre_status status;
    while ((status = acre__extent_open(&vec->extent, vec->dev, chunk_flags, wanted, 0, least)) ==
               ACRE_E_ADDRESS_SPACE &&
           !reserve && wanted > least)
        wanted = acre__round_up(wanted / 2, least);
    if (status)
        return status;
    atomic_store_explicit(&vec->extent.element_bytes, vec->element_bytes, memory_order_relaxed);
    vec->block = (struct acre__block){.node.key = vec->extent.range.at,
                                      .dev = vec->dev,
                                      .kind = vec->kind,
                                      .flags = vec->flags,
                                      .source = ACRE__FROM_SPACE,
                                      .owner = ACRE__OWNED_BY_VEC,
                                      .extent = &vec->extent};
    if (acre__book_add(&vec->block))
        return ACRE_OK;
    acre__extent_close(&vec->extent);
    return acre__fail(
        ACRE_E_REGISTERED,
        "the addresses of the new vec are still registered; unregister memory before unmapping it");
}

static void vmm_close(acre_vec *vec) {
    acre__extent_close(&vec->extent);
}

/* ---- chunks ---- */

/* Returns how much to map for `bytes`: whole units, and no chunk below `least`. The limit caps it,
 * and so do the addresses if `bytes` fit into them. */
static size_t vmm_target(const acre_vec *vec, size_t bytes) {
    const struct acre__extent *extent = &vec->extent;
    size_t limit = vec->limit_bytes / extent->unit * extent->unit;
    size_t more = acre__round_up(bytes - extent->mapped, extent->unit);
    more = more < extent->least ? extent->least : more;
    size_t target = more > SIZE_MAX - extent->mapped ? SIZE_MAX : extent->mapped + more;
    target = target > limit ? limit : target;
    if (bytes <= extent->range.bytes && target > extent->range.bytes)
        target = extent->range.bytes;
    return target;
}

int acre__vec_vmm_ahead(acre_vec *vec, size_t bytes) {
    struct acre__extent *extent = &vec->extent;
    size_t left = extent->range.bytes - extent->mapped;
    if (!left)
        return 0;
    size_t target = vmm_target(vec, extent->mapped + (bytes < left ? bytes : left));
    int is_mapped =
        target > extent->mapped && acre__extent_more(extent, target - extent->mapped) == ACRE_OK;
    if (is_mapped)
        vmm_book(vec);
    return is_mapped;
}

/* ---- another place ---- */

/* Restores the old place with its mappings, and frees the new one, which no work has used. */
static void vmm_move_back(acre_vec *vec, struct acre__vec_growth *growth) {
    struct acre__extent *extent = &vec->extent;
    acre__lock_take(&extent->lock);
    struct acre__moved unused = {extent->dev, extent->range, extent->mappings, extent->count};
    extent->range = growth->moved.range;
    extent->mappings = growth->moved.mappings;
    extent->count = extent->room = growth->moved.count;
    extent->mapped = growth->before.mapped;
    acre__lock_give(&extent->lock);
    acre__extent_move_end(&unused);
}

/* Maps all chunks at a new range, preferably of `good` bytes and at least `least`, with the chunks
 * of `list` behind them; waits for the uses of the old place. Drops `list` on failure. */
static acre_status vmm_move(acre_vec *vec, size_t good, size_t least, struct acre__chunk *list,
                            struct acre__vec_growth *growth) {
    acre_status status = acre__extent_move_begin(&vec->extent, good, &growth->moved);
    if (status == ACRE_E_ADDRESS_SPACE && good > least)
        status = acre__extent_move_begin(&vec->extent, least, &growth->moved);
    if (status) {
        acre__chunk_drop_list(list);
        return status;
    }
    status = acre__extent_add(&vec->extent, list);
    if (status) {
        vmm_move_back(vec, growth);
        return status;
    }
    growth->is_begun = growth->is_moved = 1;
    return acre__uses_wait(&vec->uses);
}

static size_t twice(const acre_vec *vec, size_t least) {
    size_t room = vec->extent.range.bytes;
    return room > least / 2 && room <= PTRDIFF_MAX / 2 ? 2 * room : least;
}

/* ---- growing ---- */

/* Extends the range in place. Returns 1 and sets growth->is_begun on success. */
static int vmm_extend(acre_vec *vec, size_t good, size_t least, struct acre__vec_growth *growth) {
    growth->is_begun =
        acre__extent_extend(&vec->extent, good) || acre__extent_extend(&vec->extent, least);
    return growth->is_begun;
}

/* Grows to `target` bytes of memory, beyond the reserved addresses. */
static acre_status vmm_grow_past(acre_vec *vec, size_t target, struct acre__vec_growth *growth) {
    struct acre__extent *extent = &vec->extent;
    size_t good = twice(vec, target);
    struct acre__chunk *list;
    if (vmm_extend(vec, good, target, growth))
        return acre__extent_more(extent, target - extent->mapped);
    acre_status status = acre__uses_record(&vec->uses, growth->stream);
    if (status == ACRE_OK)
        status = acre__chunk_cover(vec->dev, target - extent->mapped, extent->least, extent->flags,
                                   &list);
    return status ? status : vmm_move(vec, good, target, list, growth);
}

static acre_status vmm_grow_to(acre_vec *vec, size_t target, struct acre__vec_growth *growth) {
    if (target > vec->extent.range.bytes)
        return vmm_grow_past(vec, target, growth);
    acre_status status = acre__extent_more(&vec->extent, target - vec->extent.mapped);
    growth->is_begun = status == ACRE_OK;
    return status;
}

static void vmm_undo(acre_vec *vec, struct acre__vec_growth *growth) {
    acre__book_change(&vec->block, growth->before.at, growth->before.mapped);
    if (growth->is_moved) {
        vmm_move_back(vec, growth);
        return;
    }
    (void)acre__extent_shrink(&vec->extent, growth->before.mapped);
    acre__extent_trim_addresses(&vec->extent, growth->before.room);
    vmm_book(vec);
}

static acre_status vmm_grow(acre_vec *vec, struct acre__vec_growth *growth) {
    acre_status status = acre__vec_limit_check(vec, acre__round_up(growth->need, vec->extent.unit));
    if (status)
        return status;
    size_t target = vmm_target(vec, growth->need), wish = vmm_target(vec, growth->wish);
    /* The preferred size is cut to the addresses if `need` fits into them; it does not extend the
     * range. */
    if (target <= vec->extent.range.bytes && wish > vec->extent.range.bytes)
        wish = vec->extent.range.bytes;
    status = vmm_grow_to(vec, wish > target ? wish : target, growth);
    if (status && wish > target) {
        if (growth->is_begun)
            vmm_undo(vec, growth);
        growth->is_begun = growth->is_moved = 0;
        status = vmm_grow_to(vec, target, growth);
    }
    vmm_book(vec); /* a failure may have shortened the range */
    return status;
}

static acre_status vmm_reserve(acre_vec *vec, struct acre__vec_growth *growth) {
    acre_status status = ACRE_OK;
    if (!vmm_extend(vec, growth->need, growth->need, growth)) {
        status = acre__uses_record(&vec->uses, growth->stream);
        if (status == ACRE_OK)
            status = vmm_move(vec, growth->need, growth->need, NULL, growth);
    }
    vmm_book(vec);
    return status;
}

static void vmm_end(acre_vec *vec, struct acre__vec_growth *growth) {
    (void)vec;
    if (growth->is_moved)
        acre__extent_move_end(&growth->moved);
}

/* ---- shrinking ---- */

static size_t vmm_kept(const acre_vec *vec, size_t bytes) {
    const struct acre__extent *extent = &vec->extent;
    size_t kept = extent->mapped, i = extent->count;
    while (i > 0 && extent->mappings[i - 1]->at - extent->range.at >= bytes)
        kept -= extent->mappings[--i]->chunk->bytes;
    return kept;
}

static void vmm_shrink(acre_vec *vec, size_t bytes) {
    acre__book_change(&vec->block, vec->extent.range.at, vmm_kept(vec, bytes));
    (void)acre__extent_shrink(&vec->extent, bytes);
    vmm_book(vec); /* memory that could not be unmapped is still there */
}

const struct acre__vec_way acre__vec_vmm = {
    .grow = vmm_grow,
    .reserve = vmm_reserve,
    .end = vmm_end,
    .undo = vmm_undo,
    .kept = vmm_kept,
    .shrink = vmm_shrink,
    .place = vmm_place,
    .close = vmm_close,
};
