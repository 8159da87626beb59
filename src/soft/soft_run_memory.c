/* Runs operations on memory: copies, fills, and stream-ordered allocations and frees.
 *
 * Addresses are resolved to chunks here, as late as on a GPU: memory that was unmapped since the
 * call is a sticky error. Each use is compared with the clocks first. An unordered use is reported
 * and not executed. acre__soft_run_step calls this with acre__soft.lock held. The lock is released
 * while bytes are copied; references keep the chunks alive, and acre__soft.running counts the
 * operation. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "soft/soft_clock.h"
#include "soft/soft_physical.h"
#include "soft/soft_plain.h"
#include "soft/soft_pool_memory.h"
#include "soft/soft_range.h"
#include "soft/soft_run_memory.h"
#include "soft/soft_state.h"

/* ---- copies and fills ---- */

/* Walks the bytes of a list of pieces, or raw bytes. */
struct walker {
    const struct soft_piece *piece;
    size_t done; /* bytes of the piece already processed */
    char *raw;
};

static char *walker_here(const struct walker *w, size_t *left) {
    if (w->raw)
        return w->raw;
    *left = w->piece->bytes - w->done < *left ? w->piece->bytes - w->done : *left;
    return w->piece->backing->alias + w->piece->offset + w->done;
}

static void walker_pass(struct walker *w, size_t bytes) {
    if (w->raw) {
        w->raw += bytes;
        return;
    }
    w->done += bytes;
    if (w->done == w->piece->bytes) {
        w->piece++;
        w->done = 0;
    }
}

/* Fills with zeros. Whole pages of a device's file return to the system, and the next access reads
 * zeros: that takes less time than to write them, and no memory. Pages of the program stay: they
 * may be of its own file. */
static void fill_zero(const struct walker *to, char *at, size_t bytes) {
    size_t head = -(uintptr_t)at % SOFT_RUN_BYTES, whole = bytes < head ? 0 : bytes - head;
    whole -= whole % SOFT_RUN_BYTES;
    if (to->raw || !acre__soft_backing_has_file(to->piece->backing))
        whole = 0;
    if (!whole || madvise(at + head, whole, MADV_REMOVE))
        head = bytes, whole = 0;
    memset(at, 0, head);
    memset(at + head + whole, 0, bytes - head - whole);
}

static void fill_bytes(char *at, size_t bytes, size_t phase, unsigned value, unsigned value_bytes) {
    if (value_bytes == 1) {
        memset(at, (int)value, bytes);
        return;
    }
    unsigned char pattern[4];
    memcpy(pattern, &value, sizeof pattern); /* 2-byte values: the first two, on little-endian */
    for (size_t i = 0; i < bytes; i++)
        at[i] = (char)pattern[(phase + i) & (value_bytes - 1)];
}

/* Fills a part of a chunk in runs, each copied from the first, or writes it byte by byte if that is
 * short. */
static void fill_piece(const struct walker *to, char *at, size_t bytes, size_t phase,
                       const struct soft_op *op) {
    size_t run = SOFT_RUN_BYTES;
    char *pattern = !to->raw && op->value && bytes >= run ? malloc(run) : NULL;
    fill_bytes(pattern ? pattern : at, pattern ? run : bytes, phase, op->value, op->value_bytes);
    for (size_t done = 0; pattern && done < bytes; done += run)
        acre__soft_backing_write(to->piece->backing, to->piece->offset + to->done + done, pattern,
                                 bytes - done < run ? bytes - done : run);
    free(pattern);
}

/* Copies one row from `from` to `to`, or fills it with the value if `from` is NULL. */
static void run_row(struct walker *to, struct walker *from, size_t width,
                    const struct soft_op *op) {
    for (size_t done = 0; done < width;) {
        size_t here = width - done;
        char *target = walker_here(to, &here);
        if (from) {
            const char *source = walker_here(from, &here);
            int is_zero = 0;
            if (!from->raw && here >= SOFT_RUN_BYTES)
                here = acre__soft_backing_run(from->piece->backing,
                                              from->piece->offset + from->done, here, &is_zero);
            if (is_zero)
                fill_zero(to, target, here);
            else if (to->raw)
                memmove(target, source, here);
            else
                acre__soft_backing_write(to->piece->backing, to->piece->offset + to->done, source,
                                         here);
            walker_pass(from, here);
        } else if (!op->value) {
            fill_zero(to, target, here);
        } else {
            fill_piece(to, target, here, done, op);
        }
        walker_pass(to, here);
        done += here;
    }
}

static CUresult side_resolve(const struct soft_side *side, const struct soft_op *op, int is_write,
                             struct soft_pieces *pieces) {
    if (side->raw)
        return CUDA_SUCCESS;
    for (size_t row = 0; row < op->rows; row++) {
        CUresult result = acre__soft_range_resolve_late(side->address + row * side->pitch,
                                                        op->width, side->device, is_write, pieces);
        if (result)
            return result;
    }
    return CUDA_SUCCESS;
}

static int side_use(struct soft_stream *stream, const struct soft_op *op,
                    const struct soft_pieces *pieces, int is_write, const char *what) {
    int is_ordered = 1;
    for (size_t i = 0; i < pieces->count; i++)
        is_ordered &= acre__soft_clock_use(stream, op, &pieces->at[i], is_write, what);
    return is_ordered;
}

static void pieces_keep(const struct soft_pieces *pieces) {
    for (size_t i = 0; i < pieces->count; i++)
        acre__soft_backing_keep(pieces->at[i].backing);
}

static void pieces_drop(const struct soft_pieces *pieces) {
    for (size_t i = 0; i < pieces->count; i++)
        acre__soft_backing_drop(pieces->at[i].backing);
}

static void run_rows(const struct soft_op *op, const struct soft_pieces *to,
                     const struct soft_pieces *from) {
    struct walker target = {to->at, 0, op->to.raw};
    struct walker source = {from->at, 0, op->from.raw};
    for (size_t row = 0; row < op->rows; row++) {
        run_row(&target, op->kind == SOFT_COPY ? &source : NULL, op->width, op);
        if (op->to.raw)
            target.raw = op->to.raw + (row + 1) * op->to.pitch;
        if (op->from.raw)
            source.raw = op->from.raw + (row + 1) * op->from.pitch;
    }
}

CUresult acre__soft_run_copy(struct soft_stream *stream, struct soft_op *op) {
    struct soft_pieces to = {0}, from = {0};
    int is_copy = op->kind == SOFT_COPY;
    CUresult result = side_resolve(&op->to, op, 1, &to);
    if (!result && is_copy)
        result = side_resolve(&op->from, op, 0, &from);
    if (result == CUDA_ERROR_INVALID_VALUE || op->is_stale) {
        acre__soft_report("stream %llu step %llu: %s memory that is not %s any more (to 0x%llx, "
                          "from 0x%llx, %zu bytes)",
                          (unsigned long long)stream->id, (unsigned long long)op->step,
                          is_copy ? "copy with" : "fill of", op->is_stale ? "allocated" : "mapped",
                          (unsigned long long)op->to.address, (unsigned long long)op->from.address,
                          op->width);
        result = CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    /* An unordered use is reported and not executed: the other use may be running right now. */
    if (!result && !(side_use(stream, op, &from, 0, "copy from") &
                     side_use(stream, op, &to, 1, is_copy ? "copy to" : "fill")))
        result = CUDA_ERROR_LAUNCH_FAILED;
    if (!result) {
        pieces_keep(&to);
        pieces_keep(&from);
        acre__soft.running++;
        acre__lock_give(&acre__soft.lock);
        run_rows(op, &to, &from);
        acre__lock_take(&acre__soft.lock);
        acre__soft.running--;
        pieces_drop(&to);
        pieces_drop(&from);
    }
    acre__soft_pieces_free(&to);
    acre__soft_pieces_free(&from);
    return result;
}

/* ---- allocations and frees ---- */

CUresult acre__soft_run_pooled(struct soft_stream *stream, struct soft_op *op) {
    struct soft_piece piece = {op->backing, op->offset, op->width, op->to.address, op->backing->id};
    int is_alloc = op->kind == SOFT_ALLOC;
    int is_ordered =
        acre__soft_clock_use(stream, op, &piece, 1, is_alloc ? SOFT_USE_ALLOC : "free");
    struct soft_range *range = is_alloc ? NULL : acre__soft_range_find(op->to.address);
    if (range && range->is_going) { /* plain memory: its next owner need not follow any stream */
        acre__soft_clock_forget_piece(&piece);
        acre__soft_plain_free(range);
    }
    if (!is_alloc)
        acre__soft_pools_tend();
    return is_ordered ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED;
}
