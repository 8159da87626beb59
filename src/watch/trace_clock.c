/* Detects the processor's counter and its frequency: see trace_clock.h.
 *
 * On aarch64 the architecture guarantees one counter for all cores, and a register has its
 * frequency. On x86-64 acre uses the counter if the processor reports that it never stops or
 * changes its speed. The frequency is measured against the system's clock: coarsely at the start,
 * better the longer a trace runs. */
#include "watch/trace_clock.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum { CLOCK_TRY_NS = 200000, CLOCK_TRIES = 100, CLOCK_UNIT_HZ = 125000000 };

uint64_t acre__clock_rate(uint64_t units, uint64_t ns, uint64_t before) {
    /* Below 0.1 ms the delay between reading the two clocks distorts the result. */
    if (ns < 100000 || units == 0 || ns > UINT64_C(1) << 62)
        return before;
    return (uint64_t)(((unsigned __int128)ns << 32) / units);
}

#if defined(__aarch64__)

static uint64_t counter_hz(void) {
    uint64_t hz;
    __asm__ volatile("mrs %0, cntfrq_el0" : "=r"(hz));
    return hz;
}

#elif defined(__x86_64__)

/* Reads both clocks together: again if the thread was descheduled between them. */
static uint64_t counter_at(uint64_t *ns) {
    uint64_t count;
    int tries = 0;
    do {
        *ns = acre__clock_system_ns();
        count = acre__clock_counter();
    } while (acre__clock_system_ns() - *ns > CLOCK_TRY_NS / 50 && ++tries < CLOCK_TRIES);
    return count;
}

/* Returns 0 if the counter is not reliable. */
static uint64_t counter_hz(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid(0x80000007, &a, &b, &c, &d) || !(d & 1u << 8))
        return 0;
    uint64_t begin_ns, begin = counter_at(&begin_ns), ns, count;
    do
        count = counter_at(&ns) - begin;
    while (ns - begin_ns < CLOCK_TRY_NS);
    return (uint64_t)((unsigned __int128)count * 1000000000u / (ns - begin_ns));
}

#else

static uint64_t counter_hz(void) {
    return 0;
}

#endif

void acre__clock_open(struct acre__clock *clock) {
    uint64_t hz = counter_hz();
    /* Slower than 1 MHz or faster than any processor: an emulated counter. */
    clock->has_counter = hz >= 1000000 && hz <= UINT64_C(100000000000);
    clock->name = clock->has_counter ? "counter" : "system";
    hz = clock->has_counter ? hz : 1000000000;
    clock->shift = 0;
    while (hz >> clock->shift > CLOCK_UNIT_HZ)
        clock->shift++;
    clock->rate = (uint64_t)(((unsigned __int128)1000000000 << (32 + clock->shift)) / hz);
}
