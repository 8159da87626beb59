/* The thread's record with its stack of contexts (soft_thread.c). Guarded by acre__soft.lock. */
#ifndef ACRE_SOFT_THREAD_H
#define ACRE_SOFT_THREAD_H

#include "soft/soft_types.h"

/* Finds the device of the current context. Returns INVALID_CONTEXT, CONTEXT_IS_DESTROYED or the
 * context's sticky error. The lock is held. */
CUresult acre__soft_current(struct soft_device **device);
struct CUctx_st *acre__soft_ctx_now(void); /* valid after acre__soft_current succeeded */
/* Returns NULL when out of memory. */
struct soft_thread *acre__soft_thread_self(void);
/* Returns the top of the thread's stack, dead or alive; NULL: the stack is empty. */
const struct soft_place *acre__soft_current_place(void);
/* Finds the context on top of the stack if it is alive; it may be lost. A primary context that was
 * created again counts as the same one. */
CUresult acre__soft_current_alive(struct CUctx_st **ctx);
CUresult acre__soft_ctx_push(struct CUctx_st *ctx);
void acre__soft_ctx_pop(const struct CUctx_st *ctx); /* if it is on top of the stack */

#endif
