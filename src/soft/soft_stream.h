/* Streams as such (soft_stream.c). Guarded by acre__soft.lock. */
#ifndef ACRE_SOFT_STREAM_H
#define ACRE_SOFT_STREAM_H

#include "soft/soft_types.h"

/* The stream a handle means: NULL and 0x1 (legacy), 0x2 (per thread) of the current context, others
 * wherever they are. CUDA_ERROR_INVALID_HANDLE / INVALID_CONTEXT / the device's sticky error. */
CUresult acre__soft_stream_locate(CUstream handle, struct soft_stream **out);
/* As locate; it must be a stream of the current context. */
CUresult acre__soft_stream_find(CUstream handle, struct soft_stream **out);

CUresult acre__soft_stream_make(struct CUctx_st *ctx, unsigned flags, struct soft_stream **out);
void acre__soft_stream_free(struct soft_stream *stream);
/* Frees the stream if it was destroyed and nobody needs it any more. */
void acre__soft_stream_free_if_over(struct soft_stream *stream);
/* The stream is captured no longer. What the capture recorded stays with its graph. */
void acre__soft_stream_uncapture(struct soft_stream *stream);
/* The thread's default stream ends with the thread. */
void acre__soft_stream_end_of_thread(struct CUctx_st *ctx, uint64_t thread);

#endif
