/* The soft driver's state, and what can be said of it without changing it (soft_state.c).
 *
 * One lock, acre__soft.lock, guards all of it. It is given up while bytes are copied or filled and
 * while host functions run; what such an operation uses is kept alive by references (backing.refs)
 * and counted in acre__soft.running, so that export can wait for a moment without running
 * operations. The structs are in soft_types.h. */
#ifndef ACRE_SOFT_STATE_H
#define ACRE_SOFT_STATE_H

#include "soft/soft_types.h"

extern struct soft_state acre__soft;

uint64_t acre__soft_next_id(void);
/* Draws from the seed. */
uint64_t acre__soft_random(void);
/* A sticky error: the context is lost for this process. */
void acre__soft_lose(struct CUctx_st *ctx, CUresult code);
/* Counts a wrong use, keeps the first one in words, and logs it. */
void acre__soft_report(const char *format, ...) __attribute__((format(printf, 1, 2)));

struct soft_device *acre__soft_device_at(int ordinal);   /* NULL when out of range */
int acre__soft_ctx_is_known(const struct CUctx_st *ctx); /* one of ours, and alive */
/* The stream with that id; NULL: it has ended. */
struct soft_stream *acre__soft_stream_by_id(uint64_t id);
struct soft_range *acre__soft_range_find(uint64_t address);     /* the one that holds the address */
struct soft_mapping *acre__soft_mapping_find(uint64_t address); /* the one that holds it */
/* The segment of a pool that holds the address, or NULL. */
struct soft_segment *acre__soft_segment_find(uint64_t address);
struct CUgraph_st *acre__soft_graph_find(CUgraph graph); /* NULL: there is none */

#endif
