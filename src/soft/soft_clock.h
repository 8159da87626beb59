/* Vector clocks: check that every use of memory is ordered after conflicting earlier uses
 * (soft_clock.c). Guarded by acre__soft.lock. */
#ifndef ACRE_SOFT_CLOCK_H
#define ACRE_SOFT_CLOCK_H

#include "soft/soft_types.h"

/* `what` of a stream-ordered allocation. It counts as a write that no earlier use may race with,
 * but not as a use that a free must wait for. */
#define SOFT_USE_ALLOC "allocate"

CUresult acre__soft_clock_slot_take(struct soft_stream *stream);
void acre__soft_clock_slot_give(struct soft_stream *stream);
CUresult acre__soft_clock_snapshot(const struct soft_clock *from, struct soft_clock *out);
CUresult acre__soft_clock_room(struct soft_clock *out); /* room for all slots, zeroed */
void acre__soft_clock_free(struct soft_clock *clock);
void acre__soft_clock_copy(struct soft_clock *to, const struct soft_clock *from);
void acre__soft_clock_join(struct soft_clock *to, const struct soft_clock *from);
/* Joins the work of the context's ended streams into the host's clock. Called when the host has
 * waited for all work of the context. */
void acre__soft_clock_host_joins(const struct CUctx_st *ctx);
/* Joins the work of the context's ended streams. Nobody can wait for such streams, but their work
 * comes before anything that is ordered after all streams. */
void acre__soft_clock_join_ended(struct soft_clock *to, const struct CUctx_st *ctx);
/* Joins the ended blocking streams of the context for the legacy stream, which follows blocking
 * streams. Joins each of them once. Returns 1 if there was one to join; with `to` NULL it only
 * checks. */
int acre__soft_clock_legacy_joins_ended(struct soft_clock *to, const struct CUctx_st *ctx);
/* Records a use and compares it with earlier uses. Reports an unordered use and returns 0. */
int acre__soft_clock_use(struct soft_stream *stream, const struct soft_op *op,
                         const struct soft_piece *piece, int is_write, const char *what);
/* Reports a use through this mapping that the host has not waited for. */
void acre__soft_clock_check_unmap(const struct soft_mapping *mapping, const char *what);
/* Reports a use of these bytes that the host has not waited for. Their allocation is not a use. */
void acre__soft_clock_check_free(const struct soft_piece *piece, const char *what);
void acre__soft_clock_forget(struct soft_backing *backing);
/* Forgets the uses of these bytes. */
void acre__soft_clock_forget_piece(const struct soft_piece *piece);

#endif
