/* Stacks that a thread captured last: see stack_memo.h.
 *
 * Unwinding a frame takes 0.4 us, reading a return address 1 ns. A program allocates in loops, so
 * most stacks have just been seen. If the return addresses of a remembered stack are all still at
 * the same places, the calls are still the same. The one exception is a function with a variable
 * frame (alloca), below which an old return address may lie unchanged; such a stack may be taken
 * for the remembered one.
 *
 * The memory belongs to the thread's record and is freed with it, so nothing here takes a lock. */
#include "base/stack_memo.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"

enum { MEMO_WAYS = 16 };

struct remembered {
    const uintptr_t *slot; /* of the innermost return address; NULL: unused */
    uint32_t stack;
    unsigned count;
    const uintptr_t *slots[ACRE__STACK_MOST];
    uintptr_t frames[ACRE__STACK_MOST];
};

struct memo {
    struct remembered at[MEMO_WAYS];
};

static pthread_once_t memo_once = PTHREAD_ONCE_INIT;

static void memo_end(struct acre__thread *thread) {
    free(thread->stacks);
    thread->stacks = NULL;
}

static void memo_init(void) {
    acre__thread_at_exit(memo_end);
}

/* By place and caller: a loop may allocate in several lines at the same depth. */
static struct remembered *memo_at(const struct acre__thread *thread, const uintptr_t *slot) {
    struct memo *memo = thread->stacks;
    uint64_t hash = ((uintptr_t)slot ^ *slot) * UINT64_C(0x9e3779b97f4a7c15);
    return memo ? &memo->at[hash >> 60] : NULL;
}

ACRE__READS_STACK uint32_t acre__stack_recall(const uintptr_t *slot) {
    const struct remembered *seen = memo_at(acre__thread_self(), slot);
    if (!seen || seen->slot != slot)
        return 0;
    for (unsigned i = 0; i < seen->count; i++)
        if (*seen->slots[i] != seen->frames[i])
            return 0;
    return seen->stack;
}

/* Finds a return address between two places of the stack; NULL if it is not there. */
ACRE__READS_STACK static const uintptr_t *slot_between(const uintptr_t *begin, const uintptr_t *end,
                                                       uintptr_t frame) {
    while (end > begin)
        if (*--end == frame)
            return end;
    return NULL;
}

ACRE__READS_STACK void acre__stack_remember(const uintptr_t *slot, const struct acre__walk *walk,
                                            uint32_t stack) {
    struct acre__thread *thread = acre__thread_self();
    pthread_once(&memo_once, memo_init);
    if (thread->id == 0 || (!thread->stacks && !(thread->stacks = calloc(1, sizeof(struct memo)))))
        return;
    struct remembered *seen = memo_at(thread, slot);
    seen->slot = NULL;
    const uintptr_t *at = slot;
    for (unsigned i = 0; i < walk->count; i++) {
        const uintptr_t *end = (const uintptr_t *)walk->ends[i];
        at = i ? slot_between(at + 1, end, walk->frames[i]) : slot;
        if (!at || *at != walk->frames[i])
            return;
        seen->slots[i] = at;
        seen->frames[i] = walk->frames[i];
    }
    seen->count = walk->count;
    seen->stack = stack;
    seen->slot = slot;
}
