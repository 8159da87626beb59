/* The soft driver's state, and lookups that do not change it (soft_state.c).
 *
 * One lock, acre__soft.lock, guards all of it. It is released while bytes are copied or filled and
 * while kernels, host functions and destructors run. References (backing.refs) keep the memory of
 * such an operation alive. acre__soft.running counts operations that use memory, so that an export
 * can wait until none runs. The structs are in soft_types.h. */
#ifndef ACRE_SOFT_STATE_H
#define ACRE_SOFT_STATE_H

#include "soft/soft_types.h"

extern struct soft_state acre__soft;

uint64_t acre__soft_next_id(void);
/* Draws the next random number of the seed. */
uint64_t acre__soft_random(void);
/* Sets a sticky error: the context is lost for this process. */
void acre__soft_lose(struct CUctx_st *ctx, CUresult code);
/* Counts an error found by the checks, keeps the text of the first one, and logs it. */
void acre__soft_report(const char *format, ...) __attribute__((format(printf, 1, 2)));

struct soft_device *acre__soft_device_at(int ordinal);   /* NULL when out of range */
int acre__soft_ctx_is_known(const struct CUctx_st *ctx); /* a context of this driver, and alive */
/* Returns the stream with that id; NULL if it was destroyed. */
struct soft_stream *acre__soft_stream_by_id(uint64_t id);
struct soft_range *acre__soft_range_find(uint64_t address);     /* that contains the address */
struct soft_mapping *acre__soft_mapping_find(uint64_t address); /* that contains the address */
/* Returns the segment of a pool that contains the address, or NULL. */
struct soft_segment *acre__soft_segment_find(uint64_t address);
struct CUgraph_st *acre__soft_graph_find(CUgraph graph); /* NULL: unknown */

#endif
