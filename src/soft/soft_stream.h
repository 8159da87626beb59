/* Stream objects (soft_stream.c). Guarded by acre__soft.lock. */
#ifndef ACRE_SOFT_STREAM_H
#define ACRE_SOFT_STREAM_H

#include "soft/soft_types.h"

/* Finds the stream of a handle. NULL and 0x1 (legacy) and 0x2 (per thread) are streams of the
 * current context, other handles may be of any context. Returns CUDA_ERROR_INVALID_HANDLE,
 * INVALID_CONTEXT or the context's sticky error. */
CUresult acre__soft_stream_locate(CUstream handle, struct soft_stream **out);
/* Does what acre__soft_stream_locate does, for streams of the current context only. */
CUresult acre__soft_stream_find(CUstream handle, struct soft_stream **out);

CUresult acre__soft_stream_make(struct CUctx_st *ctx, unsigned flags, struct soft_stream **out);
void acre__soft_stream_free(struct soft_stream *stream);
/* Makes a handle that belongs to no stream any more free for the next stream. */
void acre__soft_stream_handle_give(struct soft_stream_handle *handle);
/* Frees the stream if it was destroyed, is empty and nobody waits for it. */
void acre__soft_stream_free_if_over(struct soft_stream *stream);
/* Ends the stream's part in its capture. Operations that it recorded stay in the graph. */
void acre__soft_stream_uncapture(struct soft_stream *stream);
/* Destroys the thread's default stream when the thread ends. */
void acre__soft_stream_end_of_thread(struct CUctx_st *ctx, uint64_t thread);

#endif
