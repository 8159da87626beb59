/* Stopping a program's launches: see pause.h. */
#include "base/pause.h"

#include "base/atomic.h"

static const struct acre__pause_hooks *_Atomic hooks_set;

void acre__pause_set(const struct acre__pause_hooks *hooks) {
    acre__store(&hooks_set, hooks, memory_order_release);
}

acre_status acre__pause_stop(uint64_t until_ns) {
    const struct acre__pause_hooks *hooks = acre__load(&hooks_set, memory_order_acquire);
    return hooks ? hooks->stop(until_ns) : ACRE_OK;
}

void acre__pause_go(void) {
    const struct acre__pause_hooks *hooks = acre__load(&hooks_set, memory_order_acquire);
    if (hooks)
        hooks->go();
}

void acre__pause_hold(void) {
    const struct acre__pause_hooks *hooks = acre__load(&hooks_set, memory_order_acquire);
    if (hooks)
        hooks->hold();
}

void acre__pause_release(void) {
    const struct acre__pause_hooks *hooks = acre__load(&hooks_set, memory_order_acquire);
    if (hooks)
        hooks->release();
}

uint64_t acre__pause_program_bytes(void) {
    const struct acre__pause_hooks *hooks = acre__load(&hooks_set, memory_order_acquire);
    return hooks ? hooks->program_bytes() : 0;
}
