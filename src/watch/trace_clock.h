/* The clock of the trace: the processor's counter where it is reliable, since reading the system's
 * clock takes longer than an event may. */
#ifndef ACRE_WATCH_TRACE_CLOCK_H
#define ACRE_WATCH_TRACE_CLOCK_H

#include <stdint.h>
#include <time.h>

struct acre__clock {
    int has_counter; /* 0: use CLOCK_MONOTONIC */
    uint32_t shift;  /* right shift of the counter, for a unit of 8 ns or more */
    uint64_t rate;   /* nanoseconds per unit, times 2^32 */
    const char *name;
};

static inline uint64_t acre__clock_system_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t acre__clock_counter(void) {
#if defined(__aarch64__)
    uint64_t count;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
    return count;
#elif defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return 0;
#endif
}

static inline uint64_t acre__clock_units(const struct acre__clock *clock) {
    return (clock->has_counter ? acre__clock_counter() : acre__clock_system_ns()) >> clock->shift;
}

/* Detects the counter and its frequency, which takes up to 0.2 ms. */
void acre__clock_open(struct acre__clock *clock);

/* Nanoseconds per unit, times 2^32, from the units and nanoseconds between two moments; `before` if
 * too little time passed. */
uint64_t acre__clock_rate(uint64_t units, uint64_t ns, uint64_t before);

#endif
