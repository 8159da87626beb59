/* Vector clocks: was every use of memory ordered after the uses before it (soft_clock.c)? Guarded
 * by acre__soft.lock. */
#ifndef ACRE_SOFT_CLOCK_H
#define ACRE_SOFT_CLOCK_H

#include "soft/soft_types.h"

/* `what` an allocation in stream order does to memory: no use of it yet, but none comes before. */
#define SOFT_USE_ALLOC "allocate"

CUresult acre__soft_clock_slot_take(struct soft_stream *stream);
void acre__soft_clock_slot_give(struct soft_stream *stream);
CUresult acre__soft_clock_snapshot(const struct soft_clock *from, struct soft_clock *out);
CUresult acre__soft_clock_room(struct soft_clock *out); /* for all slots, zeroed */
void acre__soft_clock_free(struct soft_clock *clock);
void acre__soft_clock_copy(struct soft_clock *to, const struct soft_clock *from);
void acre__soft_clock_join(struct soft_clock *to, const struct soft_clock *from);
/* The host has waited for all work of the context, that of ended streams included. */
void acre__soft_clock_host_joins(const struct CUctx_st *ctx);
/* Streams that have ended cannot be waited for, but their work comes before what is ordered behind
 * all streams. */
void acre__soft_clock_join_ended(struct soft_clock *to, const struct CUctx_st *ctx);
/* The same for the legacy stream, which follows the blocking ones: each is joined once. With `to`
 * NULL it only says whether there is one. */
int acre__soft_clock_legacy_joins_ended(struct soft_clock *to, const struct CUctx_st *ctx);
/* Notes the use and compares it with those before. Reports and returns 0 when it is not ordered. */
int acre__soft_clock_use(struct soft_stream *stream, uint64_t step, const struct soft_piece *piece,
                         int is_write, const char *what);
/* Are all uses through this mapping known to be done to the host? Reports when not. */
void acre__soft_clock_check_unmap(const struct soft_mapping *mapping, const char *what);
/* The same for bytes of a chunk; that they were allocated is no use. */
void acre__soft_clock_check_free(const struct soft_piece *piece, const char *what);
void acre__soft_clock_forget(struct soft_backing *backing);
/* The uses of these bytes do not count any more. */
void acre__soft_clock_forget_piece(const struct soft_piece *piece);

#endif
