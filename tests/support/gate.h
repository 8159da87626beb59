/* A gate: a host function that blocks its stream until the test opens the gate. */
#ifndef ACRE_TESTS_GATE_H
#define ACRE_TESTS_GATE_H

#include <stdatomic.h>
#include <time.h>

/* Ends a hang: ten times the longest wait of a test under a sanitizer on a busy machine. */
enum { PATIENCE_MS = 200000 };

static inline void sleep_ms(int ms) {
    struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};
    nanosleep(&time, NULL);
}

static inline int becomes_true(_Atomic int *flag) {
    for (int i = 0; i < PATIENCE_MS && !atomic_load(flag); i++)
        sleep_ms(1);
    return atomic_load(flag);
}

struct gate {
    _Atomic int is_reached, is_open, is_passed;
};

static inline void gate_close(struct gate *gate) {
    atomic_store(&gate->is_reached, 0);
    atomic_store(&gate->is_open, 0);
    atomic_store(&gate->is_passed, 0);
}

/* The host function that waits at the gate. */
static inline void gate_run(void *argument) {
    struct gate *gate = argument;
    atomic_store(&gate->is_reached, 1);
    (void)becomes_true(&gate->is_open);
    atomic_store(&gate->is_passed, 1);
}

#endif
