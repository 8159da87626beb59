/* Grow-ahead: a thread per vec that keeps memory mapped behind the elements, so that a grow only
 * adds to the count.
 *
 * The thread sleeps until less than half of ahead_bytes is left, then maps in steps until all of it
 * is mapped, taking the change lock for one step at a time. If it cannot map, it stops; the next
 * grow then maps itself and reports the failure to its caller. acre_vec_shrink_to_fit suspends the
 * thread until the next grow. */
#include "base/atomic.h"
#include "base/status.h"
#include "base/thread.h"
#include "vec/vec.h"

/* Bytes missing ahead of the elements; 0 when there are enough. Size lock held. */
static size_t ahead_missing(const acre_vec *vec) {
    size_t used = vec->count * vec->element_bytes, spare = vec->now.mapped - used;
    return spare < vec->ahead_bytes ? vec->ahead_bytes - spare : 0;
}

void acre__vec_ahead_look(acre_vec *vec) {
    if (!vec->has_thread || vec->is_ahead_wanted || vec->is_ahead_full)
        return;
    if (ahead_missing(vec) <= vec->ahead_bytes / 2)
        return;
    vec->is_ahead_wanted = 1;
    acre__cond_wake(&vec->wake);
}

/* Maps one step, or finds that nothing is missing. */
static void ahead_step(acre_vec *vec) {
    acre__lock_take(&vec->change);
    acre__lock_take(&vec->size);
    int is_missing = vec->is_ahead_wanted && !vec->is_ending && ahead_missing(vec) > 0;
    vec->is_ahead_wanted = is_missing;
    acre__lock_give(&vec->size);
    if (is_missing) {
        int is_mapped = acre__vec_vmm_ahead(vec, vec->ahead_bytes / 2);
        acre__lock_take(&vec->size);
        acre__vec_tell(vec);
        vec->is_ahead_full =
            !is_mapped && !acre__load(&vec->dev->is_suspended, memory_order_relaxed);
        vec->is_ahead_wanted = is_mapped;
        acre__lock_give(&vec->size);
    }
    acre__lock_give(&vec->change);
}

static void *ahead_main(void *user) {
    acre_vec *vec = user;
    acre__lock_take(&vec->size);
    while (!vec->is_ending) {
        if (!vec->is_ahead_wanted) {
            acre__cond_wait(&vec->wake, &vec->size);
            continue;
        }
        acre__lock_give(&vec->size);
        ahead_step(vec);
        acre__lock_take(&vec->size);
    }
    acre__lock_give(&vec->size);
    return NULL;
}

/* The seeded scheduler gets no thread: acre's thread would not follow the schedule. */
acre_status acre__vec_ahead_begin(acre_vec *vec) {
    if (!vec->ahead_bytes || vec->way != &acre__vec_vmm || acre__device_is_seeded(vec->dev))
        return ACRE_OK;
    vec->is_ahead_wanted = 1;
    int code = acre__thread_start(&vec->thread, ahead_main, vec);
    if (code)
        return acre__fail(ACRE_E_SYSTEM, "cannot start the grow-ahead thread: error %d", code);
    acre__lock_take(&vec->size);
    vec->has_thread = 1;
    acre__lock_give(&vec->size);
    return ACRE_OK;
}

void acre__vec_ahead_end(acre_vec *vec) {
    if (!vec->has_thread)
        return;
    acre__lock_take(&vec->size);
    vec->is_ending = 1;
    acre__cond_wake(&vec->wake);
    acre__lock_give(&vec->size);
    pthread_join(vec->thread, NULL);
    vec->has_thread = 0;
}
