/* The thread's record and its stack of contexts (soft_thread.c). Guarded by acre__soft.lock. */
#ifndef ACRE_SOFT_THREAD_H
#define ACRE_SOFT_THREAD_H

#include "soft/soft_types.h"

/* The device of the current context, with the lock held: INVALID_CONTEXT, or its sticky error. */
CUresult acre__soft_current(struct soft_device **device);
struct CUctx_st *acre__soft_ctx_now(void); /* the current one, where acre__soft_current was well */
/* NULL without memory. */
struct soft_thread *acre__soft_thread_self(void);
/* The top of the thread's stack, dead or alive; NULL: nothing is there. */
const struct soft_place *acre__soft_current_place(void);
/* The context there, alive, but perhaps lost. A primary context that lives again is the same. */
CUresult acre__soft_current_alive(struct CUctx_st **ctx);
CUresult acre__soft_ctx_push(struct CUctx_st *ctx);
void acre__soft_ctx_pop(const struct CUctx_st *ctx); /* if it is on top of the stack */

#endif
