#include "base/inside.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/lock.h"

enum {
    WAIT_SPINS = 200,      /* spins before the first sleep; an owner is inside for a shorter time */
    WAIT_SLEEP_NS = 20000, /* first sleep */
    WAIT_SLEEP_MOST = 1000000 /* longest sleep */
};

_Atomic int acre__inside_is_cheap;

static void inside_register(void) {
#if !defined(__SANITIZE_THREAD__) && !defined(ACRE_SANITIZE_tsan)
    acre__store(&acre__inside_is_cheap,
                syscall(__NR_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0,
                memory_order_relaxed);
#endif
}

void acre__inside_init(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, inside_register);
}

int acre__inside_order(void) {
    if (!acre__load(&acre__inside_is_cheap, memory_order_relaxed))
        return 0;
    if (syscall(__NR_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0)
        return 1;
    acre__store(&acre__inside_is_cheap, 0, memory_order_relaxed);
    return 0;
}

void acre__inside_wait(const _Atomic uint32_t *busy) {
    long sleep_ns = WAIT_SLEEP_NS;
    const struct acre__sched_hooks *hooks = acre__sched_hooks_get();
    for (int spins = 0; acre__load(busy, memory_order_seq_cst); spins++) {
        if (hooks && hooks->is_virtual()) {
            hooks->yield();
        } else if (spins >= WAIT_SPINS) {
            const struct timespec pause = {.tv_nsec = sleep_ns};
            nanosleep(&pause, NULL);
            sleep_ns = 2 * sleep_ns < WAIT_SLEEP_MOST ? 2 * sleep_ns : WAIT_SLEEP_MOST;
        }
    }
}
