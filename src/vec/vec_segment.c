/* Vecs that grow by copying: one block of acre_mem_alloc, replaced by a larger one when it is full.
 *
 * This is growth with cudaMalloc or managed memory, for comparison and for devices that cannot map.
 * The vec owns the block in the book, so that the program cannot free it. Copies run in stream
 * order on the caller's stream, after all uses recorded so far; the vec waits for them before it
 * frees the old block. Shrinking keeps all memory. */
#include "base/log.h"
#include "base/status.h"
#include "vec/vec.h"

static struct acre__vec_place segment_place(const acre_vec *vec) {
    const struct acre__block *block = vec->segment;
    if (!block)
        return (struct acre__vec_place){0};
    return (struct acre__vec_place){block->node.key, block->bytes, block->bytes, 1};
}

/* ---- blocks ---- */

static acre_status segment_take(acre_vec *vec, size_t bytes, struct acre__block **block) {
    void *p;
    acre_status status = acre_mem_alloc(vec->dev, vec->kind, bytes, 0, &p);
    if (status)
        return status;
    *block = acre__book_pin(vec->dev, p, &status);
    if (*block)
        acre__book_pass_on(*block, ACRE__OWNED_BY_VEC);
    else
        (void)acre_mem_free(vec->dev, p);
    return status;
}

static void segment_give(acre_vec *vec, struct acre__block *block) {
    if (!block)
        return;
    void *p = (void *)(uintptr_t)block->node.key;
    acre__book_pass_on(block, ACRE__OWNED_BY_MEM);
    acre__book_unpin(block);
    acre_status status = acre_mem_free(vec->dev, p);
    if (status)
        acre__log(ACRE_LOG_WARN, "vec", "%s: cannot free the block at %p of a vec: %s",
                  vec->dev->label, p, acre_last_detail());
}

/* Allocates `want` bytes, or less when memory is short, but at least `need`. */
static acre_status segment_take_most(acre_vec *vec, size_t want, size_t need,
                                     struct acre__block **block) {
    want = want > vec->limit_bytes ? vec->limit_bytes : want;
    want = want < need ? need : want;
    acre_status status;
    while ((status = segment_take(vec, want, block)) && acre__is_too_much(status) && want > need)
        want = want / 2 < need ? need : want / 2;
    return status;
}

/* ---- growing ---- */

static acre_status segment_copy(acre_vec *vec, size_t bytes, struct acre__vec_growth *growth) {
    void *to = (void *)(uintptr_t)vec->segment->node.key;
    const void *from = (const void *)(uintptr_t)growth->old->node.key;
    acre_status status = acre_copy(vec->dev, to, from, bytes, growth->stream);
    if (status == ACRE_OK)
        status = acre__uses_settle(&vec->uses, growth->stream);
    if (status == ACRE_OK)
        growth->copied = bytes;
    return status;
}

/* Allocates a block of growth->need bytes, preferably of `want`, and copies the elements into
 * it. */
static acre_status segment_replace(acre_vec *vec, size_t want, struct acre__vec_growth *growth) {
    size_t used = vec->count * vec->element_bytes;
    struct acre__block *block = NULL;
    acre_status status = acre__vec_limit_check(vec, growth->need);
    if (status == ACRE_OK && vec->segment)
        status = acre__uses_settle(&vec->uses, growth->stream);
    if (status == ACRE_OK)
        status = segment_take_most(vec, want, growth->need, &block);
    if (status)
        return status;
    growth->old = vec->segment;
    growth->is_begun = growth->is_moved = 1;
    vec->segment = block;
    return used && growth->old ? segment_copy(vec, used, growth) : ACRE_OK;
}

/* Doubles the size, so that many small growths copy few bytes. */
static acre_status segment_grow(acre_vec *vec, struct acre__vec_growth *growth) {
    size_t want = vec->address_bytes, twice = 2 * growth->before.mapped;
    want = want < twice ? twice : want;
    return segment_replace(vec, want < growth->wish ? growth->wish : want, growth);
}

static acre_status segment_reserve(acre_vec *vec, struct acre__vec_growth *growth) {
    return segment_replace(vec, growth->need, growth);
}

static void segment_end(acre_vec *vec, struct acre__vec_growth *growth) {
    segment_give(vec, growth->old);
}

static void segment_undo(acre_vec *vec, struct acre__vec_growth *growth) {
    struct acre__block *unused = vec->segment;
    vec->segment = growth->old;
    segment_give(vec, unused);
}

static void segment_close(acre_vec *vec) {
    segment_give(vec, vec->segment);
}

const struct acre__vec_way acre__vec_segment = {
    .grow = segment_grow,
    .reserve = segment_reserve,
    .end = segment_end,
    .undo = segment_undo,
    .place = segment_place,
    .close = segment_close,
};
