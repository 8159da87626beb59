/* The soft driver's part of a thread record, with the thread's stack of contexts, whose top is the
 * current context.
 *
 * Other threads do not touch the record. A destroyed context stays on the stacks that contain it,
 * and calls on it return an error. All functions are called with acre__soft.lock held. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/thread.h"
#include "soft/soft_state.h"
#include "soft/soft_thread.h"

/* ---- the record ---- */

/* Threads that have only base's shared record: out of memory, or about to end. */
struct soft_orphan {
    struct soft_orphan *next;
    pid_t thread; /* kernel's id; a later thread with the same id gets the record, too */
    struct soft_thread self;
};

/* The lock is held. */
static struct soft_thread *orphan_self(void) {
    static struct soft_orphan *orphans;
    pid_t thread = gettid();
    struct soft_orphan *orphan = orphans;
    while (orphan && orphan->thread != thread)
        orphan = orphan->next;
    if (!orphan && (orphan = calloc(1, sizeof *orphan))) {
        orphan->thread = thread;
        orphan->next = orphans;
        orphans = orphan;
    }
    return orphan ? &orphan->self : NULL;
}

static struct soft_thread *soft_thread_find(void) {
    struct acre__thread *thread = acre__thread_self();
    if (!thread->id)
        return orphan_self();
    if (!thread->soft)
        thread->soft = calloc(1, sizeof(struct soft_thread));
    return thread->soft;
}

struct soft_thread *acre__soft_thread_self(void) {
    const struct acre__thread *thread = acre__thread_pointer;
    struct soft_thread *self = thread && thread->soft ? thread->soft : soft_thread_find();
    if (!self)
        return NULL;
    if (self->generation != acre__soft.generation) {
        memset(self, 0, sizeof *self);
        self->generation = acre__soft.generation;
    }
    return self;
}

/* ---- the stack ---- */

const struct soft_place *acre__soft_current_place(void) {
    const struct soft_thread *self = acre__soft_thread_self();
    return self->depth ? &self->stack[self->depth - 1] : NULL;
}

CUresult acre__soft_current_alive(struct CUctx_st **ctx) {
    const struct soft_place *place = acre__soft_current_place();
    if (!place)
        return CUDA_ERROR_INVALID_CONTEXT;
    *ctx = place->ctx;
    if (!soft_ctx_is_alive(*ctx) || ((*ctx)->is_own && (*ctx)->id != place->id))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return CUDA_SUCCESS;
}

struct CUctx_st *acre__soft_ctx_now(void) {
    return acre__soft_current_place()->ctx;
}

CUresult acre__soft_current(struct soft_device **device) {
    struct CUctx_st *ctx;
    CUresult result = acre__soft_current_alive(&ctx);
    if (result)
        return result;
    *device = &acre__soft.devices[ctx->device];
    return ctx->lost;
}

CUresult acre__soft_ctx_push(struct CUctx_st *ctx) {
    struct soft_thread *self = acre__soft_thread_self();
    if (self->depth == SOFT_STACK)
        return CUDA_ERROR_OUT_OF_MEMORY;
    self->stack[self->depth++] = (struct soft_place){ctx, ctx->id, ctx->device};
    return CUDA_SUCCESS;
}

void acre__soft_ctx_pop(const struct CUctx_st *ctx) {
    struct soft_thread *self = acre__soft_thread_self();
    const struct soft_place *place = acre__soft_current_place();
    if (place && place->ctx == ctx && place->id == ctx->id)
        self->depth--;
}
