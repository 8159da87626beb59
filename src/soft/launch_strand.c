/* Strands: the stacks that lanes of kernels run on.
 *
 * A strand is a fiber with a small stack. A lane leaves its strand where it has to wait, and the
 * thread that runs the warp continues with the next lane. Strands are cached, because a grid has
 * many lanes: a strand whose lane has ended waits at the top of its loop for another lane. If a
 * launch is aborted, the strands of lanes that have not ended are freed.
 *
 * A strand starts with setcontext. Later switches use _setjmp and _longjmp, which make no system
 * call, unlike swapcontext. Sanitizers track jumps in their own way, so with them every switch uses
 * swapcontext. With a seed, a strand may continue on another real thread. So nothing here reads
 * thread-local variables after a switch. The cache of strands has its own leaf lock. */
#undef _FORTIFY_SOURCE /* its longjmp only jumps upwards on one stack */
#include <setjmp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "soft/launch_strand.h"
#include "soft/launch_types.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LANE_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define LANE_TSAN 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define LANE_ASAN 1
#endif
#ifdef __SANITIZE_THREAD__
#define LANE_TSAN 1
#endif
#ifdef LANE_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef LANE_TSAN
#include <sanitizer/tsan_interface.h>
#endif

enum {
#if defined(LANE_ASAN) || defined(LANE_TSAN)
    STRAND_STACK_BYTES = 256 << 10, /* sanitizers make frames larger */
#else
    STRAND_STACK_BYTES = 64 << 10,
#endif
    STRANDS_KEPT = 2048, /* enough for two blocks of the largest size */
};

_Thread_local struct soft_lane *acre__soft_lane_now;

/* ---- strands ---- */

struct soft_strand {
    struct soft_strand *next;
    ucontext_t context, loop; /* its own, and that of its caller */
    jmp_buf context_jump, loop_jump;
    char *stack;            /* above its guard page */
    struct soft_lane *lane; /* NULL: between lanes */
    int is_begun, is_ending;
    void *own_sanitizer, *loop_sanitizer; /* TSan's fibers, or ASan's fake stacks */
    const void *loop_stack;               /* as ASan reports it */
    size_t loop_stack_bytes;
};

static struct {
    struct acre__lock lock;
    struct soft_strand *first;
    size_t count;
} strands = {.lock = ACRE__LOCK_INIT("strands", ACRE__RANK_LEAF)};

static size_t strand_guard_bytes(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

#if defined(LANE_ASAN) || defined(LANE_TSAN)

static void strand_leave(struct soft_strand *strand) {
#ifdef LANE_ASAN
    __sanitizer_start_switch_fiber(strand->is_ending ? NULL : &strand->own_sanitizer,
                                   strand->loop_stack, strand->loop_stack_bytes);
#else
    __tsan_switch_to_fiber(strand->loop_sanitizer, 0);
#endif
    swapcontext(&strand->context, &strand->loop);
#ifdef LANE_ASAN
    __sanitizer_finish_switch_fiber(strand->own_sanitizer, &strand->loop_stack,
                                    &strand->loop_stack_bytes);
#endif
}

static void strand_switch_to(struct soft_strand *strand) {
#ifdef LANE_ASAN
    __sanitizer_start_switch_fiber(&strand->loop_sanitizer, strand->stack, STRAND_STACK_BYTES);
#else
    strand->loop_sanitizer = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(strand->own_sanitizer, 0);
#endif
    swapcontext(&strand->loop, &strand->context);
#ifdef LANE_ASAN
    __sanitizer_finish_switch_fiber(strand->loop_sanitizer, NULL, NULL);
#endif
}

#else

static void strand_leave(struct soft_strand *strand) {
    if (!_setjmp(strand->context_jump))
        _longjmp(strand->loop_jump, 1);
}

static void strand_switch_to(struct soft_strand *strand) {
    if (_setjmp(strand->loop_jump))
        return;
    if (strand->is_begun)
        _longjmp(strand->context_jump, 1);
    strand->is_begun = 1;
    setcontext(&strand->context);
}

#endif

static void strand_main(void) {
    struct soft_strand *strand = acre__soft_lane_now->strand;
#ifdef LANE_ASAN
    __sanitizer_finish_switch_fiber(NULL, &strand->loop_stack, &strand->loop_stack_bytes);
#endif
    while (!strand->is_ending) {
        struct soft_lane *lane = strand->lane;
        lane->block->launch->fn(lane->block->launch->arg);
        strand->lane = NULL;
        lane->state = LANE_ENDED;
        strand_leave(strand);
    }
    strand_leave(strand);
}

/* A strand starts with the signal mask of the thread that enters it first, so the mask of that
 * thread does not change. */
static void strand_begin(struct soft_strand *strand) {
    getcontext(&strand->context); /* does not fail */
    strand->context.uc_stack.ss_sp = strand->stack;
    strand->context.uc_stack.ss_size = STRAND_STACK_BYTES;
    strand->context.uc_link = NULL;
    makecontext(&strand->context, strand_main, 0);
}

static void strand_enter(struct soft_strand *strand) {
    if (!strand->is_begun)
        strand_begin(strand);
    strand_switch_to(strand);
    strand->is_begun = 1;
}

static void strand_free(struct soft_strand *strand) {
    if (strand->is_begun && !strand->lane) { /* frees the memory that sanitizers keep for it */
        strand->is_ending = 1;
        strand_enter(strand);
    }
#ifdef LANE_TSAN
    __tsan_destroy_fiber(strand->own_sanitizer);
#endif
#ifdef LANE_ASAN
    __asan_unpoison_memory_region(strand->stack, STRAND_STACK_BYTES);
#endif
    munmap(strand->stack - strand_guard_bytes(), strand_guard_bytes() + STRAND_STACK_BYTES);
    free(strand);
}

static struct soft_strand *strand_make(void) {
    struct soft_strand *strand = calloc(1, sizeof *strand);
    if (!strand)
        return NULL;
    size_t guard = strand_guard_bytes();
    void *stack = mmap(NULL, guard + STRAND_STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED) {
        free(strand);
        return NULL;
    }
    strand->stack = (char *)stack + guard;
    /* Stacks grow downwards, so the guard is at the lower end. */
    if (mprotect(stack, guard, PROT_NONE)) {
        munmap(stack, guard + STRAND_STACK_BYTES);
        free(strand);
        return NULL;
    }
#ifdef LANE_TSAN
    strand->own_sanitizer = __tsan_create_fiber(0);
#endif
    return strand;
}

int acre__soft_strands_take(struct soft_lane *lanes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        acre__lock_take(&strands.lock);
        struct soft_strand *strand = strands.first;
        if (strand) {
            strands.first = strand->next;
            strands.count--;
        }
        acre__lock_give(&strands.lock);
        if (!strand && !(strand = strand_make())) {
            acre__soft_strands_give(lanes, i);
            return 0;
        }
        lanes[i].strand = strand;
    }
    return 1;
}

void acre__soft_strands_give(struct soft_lane *lanes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct soft_strand *strand = lanes[i].strand;
        acre__lock_take(&strands.lock);
        int is_kept = !strand->lane && strands.count < STRANDS_KEPT;
        if (is_kept) {
            strand->next = strands.first;
            strands.first = strand;
            strands.count++;
        }
        acre__lock_give(&strands.lock);
        if (!is_kept)
            strand_free(strand);
        lanes[i].strand = NULL;
    }
}

/* ---- lanes on them ---- */

void acre__soft_lane_enter(struct soft_lane *lane) {
    lane->state = LANE_READY;
    lane->strand->lane = lane;
    acre__soft_lane_now = lane;
    strand_enter(lane->strand);
    acre__soft_lane_now = NULL;
}

void acre__soft_lane_leave(struct soft_lane *lane, enum soft_lane_state state) {
    lane->state = state;
    strand_leave(lane->strand);
}
