/* Coroutines: stacks that virtual threads (fiber.c) and lanes of kernels (launch_strand.c) run on.
 */
#ifndef ACRE_SOFT_COROUTINE_H
#define ACRE_SOFT_COROUTINE_H

#include <setjmp.h>
#include <stddef.h>
#include <ucontext.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define COROUTINE_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define COROUTINE_TSAN 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define COROUTINE_ASAN 1
#endif
#ifdef __SANITIZE_THREAD__
#define COROUTINE_TSAN 1
#endif

struct coroutine {
    void (*run)(void *user); /* set with `user` before the first acre__coroutine_enter */
    void *user;
    char *stack; /* above its guard; NULL: none */
    size_t stack_bytes;
    ucontext_t context, caller;
    jmp_buf context_jump, caller_jump;
    int is_begun, is_over;
    void *own_sanitizer, *caller_sanitizer; /* TSan's fibers, or ASan's fake stacks */
    const void *caller_stack;               /* as ASan reports it */
    size_t caller_stack_bytes;
};

/* Maps a stack for a coroutine whose fields are all zero. Returns 0 when out of memory. */
int acre__coroutine_make(struct coroutine *coroutine, size_t stack_bytes);
/* Unmaps the stack, if there is one. */
void acre__coroutine_free(struct coroutine *coroutine);
/* Runs the coroutine until it leaves or its function returns, after which it must not be entered.
 */
void acre__coroutine_enter(struct coroutine *coroutine);
/* Returns to the caller of acre__coroutine_enter. Called on the coroutine's stack. */
void acre__coroutine_leave(struct coroutine *coroutine);

#endif
