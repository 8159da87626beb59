/* Coroutines: see coroutine.h.
 *
 * A coroutine starts with setcontext. Later switches use _setjmp and _longjmp, which make no system
 * call, unlike swapcontext. Sanitizers track jumps in their own way, so with them every switch uses
 * swapcontext. With a seed, a strand may continue on another real thread. So nothing here reads
 * thread-local variables after a switch. */
#undef _FORTIFY_SOURCE /* its longjmp only jumps upwards on one stack */
#include <stdint.h>
#include <sys/mman.h>

#include "soft/coroutine.h"

#ifdef COROUTINE_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef COROUTINE_TSAN
#include <sanitizer/tsan_interface.h>
#endif

/* Below the stack, which grows downwards: an overflow faults. Larger than most frames, and a
 * multiple of every page size. */
enum { GUARD_BYTES = 64 << 10 };

#if defined(COROUTINE_ASAN) || defined(COROUTINE_TSAN)

void acre__coroutine_leave(struct coroutine *c) {
#ifdef COROUTINE_ASAN
    /* One that is over frees its fake stack. */
    __sanitizer_start_switch_fiber(c->is_over ? NULL : &c->own_sanitizer, c->caller_stack,
                                   c->caller_stack_bytes);
#else
    __tsan_switch_to_fiber(c->caller_sanitizer, 0);
#endif
    swapcontext(&c->context, &c->caller);
#ifdef COROUTINE_ASAN
    __sanitizer_finish_switch_fiber(c->own_sanitizer, &c->caller_stack, &c->caller_stack_bytes);
#endif
}

static void coroutine_switch_to(struct coroutine *c) {
#ifdef COROUTINE_ASAN
    __sanitizer_start_switch_fiber(&c->caller_sanitizer, c->stack, c->stack_bytes);
#else
    c->caller_sanitizer = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(c->own_sanitizer, 0);
#endif
    swapcontext(&c->caller, &c->context);
#ifdef COROUTINE_ASAN
    __sanitizer_finish_switch_fiber(c->caller_sanitizer, NULL, NULL);
#endif
}

#else

void acre__coroutine_leave(struct coroutine *c) {
    if (!_setjmp(c->context_jump))
        _longjmp(c->caller_jump, 1);
}

static void coroutine_switch_to(struct coroutine *c) {
    if (_setjmp(c->caller_jump))
        return;
    if (c->is_begun)
        _longjmp(c->context_jump, 1);
    c->is_begun = 1;
    setcontext(&c->context);
}

#endif

/* makecontext passes only ints: the two halves of the coroutine's address. */
static void coroutine_main(unsigned high, unsigned low) {
    struct coroutine *c = (struct coroutine *)((uintptr_t)high << 32 | low);
#ifdef COROUTINE_ASAN
    __sanitizer_finish_switch_fiber(NULL, &c->caller_stack, &c->caller_stack_bytes);
#endif
    c->run(c->user);
    c->is_over = 1;
    acre__coroutine_leave(c);
}

void acre__coroutine_enter(struct coroutine *c) {
    if (!c->is_begun) {
        /* It starts with the signal mask of the thread that enters it first, so the mask of that
         * thread does not change. getcontext does not fail. */
        getcontext(&c->context);
        c->context.uc_stack.ss_sp = c->stack;
        c->context.uc_stack.ss_size = c->stack_bytes;
        c->context.uc_link = NULL;
        makecontext(&c->context, (void (*)(void))coroutine_main, 2, (unsigned)((uintptr_t)c >> 32),
                    (unsigned)(uintptr_t)c);
    }
    coroutine_switch_to(c);
    c->is_begun = 1;
}

int acre__coroutine_make(struct coroutine *c, size_t stack_bytes) {
    void *stack = mmap(NULL, GUARD_BYTES + stack_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED)
        return 0;
    if (mprotect(stack, GUARD_BYTES, PROT_NONE)) {
        munmap(stack, GUARD_BYTES + stack_bytes);
        return 0;
    }
    c->stack = (char *)stack + GUARD_BYTES;
    c->stack_bytes = stack_bytes;
#ifdef COROUTINE_TSAN
    c->own_sanitizer = __tsan_create_fiber(0);
#endif
    return 1;
}

void acre__coroutine_free(struct coroutine *c) {
    if (!c->stack)
        return;
#ifdef COROUTINE_TSAN
    __tsan_destroy_fiber(c->own_sanitizer);
#endif
#ifdef COROUTINE_ASAN
    __asan_unpoison_memory_region(c->stack, c->stack_bytes);
#endif
    munmap(c->stack - GUARD_BYTES, GUARD_BYTES + c->stack_bytes);
}
