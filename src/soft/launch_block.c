/* Blocks of kernels: their lanes, the barrier, shared memory, and errors that abort a launch.
 *
 * A struct soft_block is a slot: blocks of the grid run in it one after the other, on the same
 * lanes and strands. A team of real threads runs them (launch.c).
 *
 * A thread that has ended counts as arrived at the barrier, as on a GPU. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "soft/launch_block.h"
#include "base/round.h"
#include "soft/launch_strand.h"
#include "soft/launch_types.h"
#include "soft/soft_types.h"

enum { SHARED_ALIGN = 128, SHARED_POISON = 0xa7 };

int acre__soft_block_make(struct soft_launch *launch, struct soft_block *block, uint32_t sm) {
    memset(block, 0, sizeof *block);
    block->launch = launch;
    block->sm = sm;
    block->team = 1;
    block->lanes = calloc(launch->threads, sizeof *block->lanes);
    if (launch->shared_bytes)
        block->shared =
            aligned_alloc(SHARED_ALIGN, acre__round_up(launch->shared_bytes, SHARED_ALIGN));
    if (!block->lanes || (launch->shared_bytes && !block->shared) ||
        !acre__soft_strands_take(block->lanes, launch->threads)) {
        free(block->lanes);
        free(block->shared);
        return 0;
    }
    acre__lock_init(&block->lock, "block of a kernel", ACRE__RANK_LEAF);
    acre__cond_init(&block->moved);
    return 1;
}

void acre__soft_block_free(struct soft_block *block) {
    acre__soft_strands_give(block->lanes, block->launch->threads);
    acre__cond_destroy(&block->moved);
    acre__lock_destroy(&block->lock);
    free(block->lanes);
    free(block->shared);
}

static void index_of(uint64_t number, const uint32_t size[3], uint32_t index[3]) {
    index[0] = (uint32_t)(number % size[0]);
    index[1] = (uint32_t)(number / size[0] % size[1]);
    index[2] = (uint32_t)(number / size[0] / size[1]);
}

int acre__soft_block_begin(struct soft_block *block) {
    struct soft_launch *launch = block->launch;
    uint64_t number = atomic_fetch_add_explicit(&launch->next_block, 1, memory_order_relaxed);
    block->has_block = number < launch->block_count && !soft_launch_is_over(launch);
    if (!block->has_block)
        return 0;
    index_of(number, launch->grid, block->index);
    block->alive = launch->threads;
    block->arrived = 0;
    atomic_store_explicit(&block->barrier, 0, memory_order_relaxed);
    for (uint32_t i = 0; i < launch->threads; i++) {
        struct soft_lane *lane = &block->lanes[i];
        lane->block = block;
        lane->thread = i;
        index_of(i, launch->block, lane->index);
        lane->state = LANE_READY;
        lane->passes = 0;
    }
#ifdef ACRE_DEBUG
    /* Shared memory is undefined, as on a GPU. The pattern exposes kernels that rely on zeros. */
    if (block->shared)
        memset(block->shared, SHARED_POISON, launch->shared_bytes);
#endif
    return 1;
}

/* ---- the barrier ---- */

/* Opens the barrier if all living threads have arrived. The lock is held. */
static void barrier_pass_if_full(struct soft_block *block) {
    if (!block->arrived || block->arrived < block->alive)
        return;
    block->arrived = 0;
    atomic_fetch_add_explicit(&block->barrier, 1, memory_order_release);
    acre__cond_wake(&block->moved);
}

void acre__soft_block_arrive(struct soft_lane *lane) {
    struct soft_block *block = lane->block;
    acre__lock_take(&block->lock);
    block->arrived++;
    barrier_pass_if_full(block);
    acre__lock_give(&block->lock);
}

void acre__soft_block_lane_ended(struct soft_lane *lane) {
    struct soft_block *block = lane->block;
    acre__lock_take(&block->lock);
    block->alive--;
    barrier_pass_if_full(block);
    acre__lock_give(&block->lock);
}

/* ---- errors of kernels ---- */

void acre__soft_launch_mistake(const struct soft_lane *lane, const char *format, ...) {
    const struct soft_block *block = lane->block;
    struct soft_launch *launch = block->launch;
    char what[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    acre__lock_take(&launch->lock);
    if (!launch->mistake[0])
        snprintf(launch->mistake, sizeof launch->mistake,
                 "block (%u, %u, %u) thread (%u, %u, %u): %s", block->index[0], block->index[1],
                 block->index[2], lane->index[0], lane->index[1], lane->index[2], what);
    acre__lock_give(&launch->lock);
    atomic_store_explicit(&launch->is_over, 1, memory_order_release);
    for (uint32_t i = 0; i < launch->place_count; i++) { /* wakes members that sleep at barriers */
        acre__lock_take(&launch->blocks[i].lock);
        acre__cond_wake(&launch->blocks[i].moved);
        acre__lock_give(&launch->blocks[i].lock);
    }
}

/* ---- what kernels call ---- */

uint32_t acre_soft_thread_index(uint32_t dimension) {
    const struct soft_lane *lane = acre__soft_lane_now;
    return lane && dimension < 3 ? lane->index[dimension] : 0;
}

uint32_t acre_soft_block_index(uint32_t dimension) {
    const struct soft_lane *lane = acre__soft_lane_now;
    return lane && dimension < 3 ? lane->block->index[dimension] : 0;
}

uint32_t acre_soft_block_size(uint32_t dimension) {
    const struct soft_lane *lane = acre__soft_lane_now;
    return lane && dimension < 3 ? lane->block->launch->block[dimension] : 1;
}

uint32_t acre_soft_grid_size(uint32_t dimension) {
    const struct soft_lane *lane = acre__soft_lane_now;
    return lane && dimension < 3 ? lane->block->launch->grid[dimension] : 1;
}

void *acre_soft_shared(void) {
    const struct soft_lane *lane = acre__soft_lane_now;
    return lane ? lane->block->shared : NULL;
}

void acre_soft_syncthreads(void) {
    struct soft_lane *lane = acre__soft_lane_now;
    if (!lane)
        return;
    lane->barrier = atomic_load_explicit(&lane->block->barrier, memory_order_acquire);
    acre__soft_lane_leave(lane, LANE_BARRIER);
}
