/* Strands: the stacks that lanes of kernels run on.
 *
 * A strand is a coroutine with a small stack. A lane leaves its strand where it has to wait, and
 * the thread that runs the warp continues with the next lane. Strands are cached, because a grid
 * has many lanes: a strand whose lane has ended waits at the top of its loop for another lane. If a
 * launch is aborted, the strands of lanes that have not ended are freed.
 *
 * With a seed, a strand may continue on another real thread. The cache of strands has its own leaf
 * lock. */
#include <stdlib.h>

#include "soft/coroutine.h"
#include "soft/launch_strand.h"
#include "soft/launch_types.h"

enum {
#if defined(COROUTINE_ASAN) || defined(COROUTINE_TSAN)
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
    struct coroutine coroutine;
    struct soft_lane *lane; /* NULL: between lanes */
    int is_ending;
};

static struct {
    struct acre__lock lock;
    struct soft_strand *first;
    size_t count;
} strands = {.lock = ACRE__LOCK_INIT("strands", ACRE__RANK_LEAF)};

static void strand_run(void *user) {
    struct soft_strand *strand = user;
    while (!strand->is_ending) {
        struct soft_lane *lane = strand->lane;
        lane->block->launch->fn(lane->block->launch->arg);
        strand->lane = NULL;
        lane->state = LANE_ENDED;
        acre__coroutine_leave(&strand->coroutine);
    }
}

static void strand_free(struct soft_strand *strand) {
    if (strand->coroutine.is_begun && !strand->lane) { /* frees what sanitizers keep for it */
        strand->is_ending = 1;
        acre__coroutine_enter(&strand->coroutine);
    }
    acre__coroutine_free(&strand->coroutine);
    free(strand);
}

static struct soft_strand *strand_make(void) {
    struct soft_strand *strand = calloc(1, sizeof *strand);
    if (!strand)
        return NULL;
    strand->coroutine.run = strand_run;
    strand->coroutine.user = strand;
    if (!acre__coroutine_make(&strand->coroutine, STRAND_STACK_BYTES)) {
        free(strand);
        return NULL;
    }
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
    acre__coroutine_enter(&lane->strand->coroutine);
    acre__soft_lane_now = NULL;
}

void acre__soft_lane_leave(struct soft_lane *lane, enum soft_lane_state state) {
    lane->state = state;
    acre__coroutine_leave(&lane->strand->coroutine);
}
