/* Kernels of the soft device: the crew of threads that runs their blocks, and its teams.
 *
 * A kernel is one operation of its stream. Without a seed, the thread that runs the stream is the
 * first of a crew of real threads. The launch creates the others and joins them when it ends. The
 * crew has one thread per processor at most, or 4 with warps of one lane if there are fewer
 * processors. With warps of 32 lanes it has no more threads than blocks, so a launch of one block
 * creates none. The crew is divided into teams. Each team has a slot that runs blocks one after the
 * other (launch_block.c). The members of a team meet before each block, and the last one starts it.
 *
 * With a seed, the operation stays at the head of its stream. Each step of the stream runs one lane
 * up to its next point. So kernels, copies and virtual host threads interleave in any order that
 * the seed can draw. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "soft/fiber.h"
#include "soft/launch.h"
#include "soft/launch_block.h"
#include "soft/launch_types.h"
#include "soft/launch_warp.h"
#include "soft/soft_state.h"
#include "soft/soft_view.h"

enum {
    /* Lanes that have stacks at the same time. Each stack takes two memory mappings, and Linux
     * limits a process to 65530 by default. */
    LAUNCH_LANES_MOST = 16384,
    LAUNCH_CREW_LEAST = 4, /* with warps of one lane: enough threads to interleave */
    LAUNCH_CREW_MOST = 64,
    LAUNCH_SEEDED_PLACES = 4, /* blocks in progress; more only make schedules longer */
};

/* The thread sanitizer checks only what real threads do, so it gets many, whatever the number of
 * processors. */
#if defined(__SANITIZE_THREAD__) || defined(ACRE_SANITIZE_tsan)
enum { LAUNCH_CREW_OF_ONES = LAUNCH_CREW_MOST };
#else
enum { LAUNCH_CREW_OF_ONES = LAUNCH_CREW_LEAST };
#endif

/* ---- creating and freeing ---- */

static void launch_free_places(struct soft_launch *launch) {
    for (uint32_t i = 0; i < launch->place_count; i++)
        acre__soft_block_free(&launch->blocks[i]);
    free(launch->blocks);
    launch->blocks = NULL;
    launch->place_count = 0;
}

/* Creates slots for up to `count` blocks. Returns 0 if memory does not suffice for one. */
static int launch_make_places(struct soft_launch *launch, uint32_t count) {
    launch->blocks = calloc(count, sizeof *launch->blocks);
    while (launch->blocks && launch->place_count < count &&
           acre__soft_block_make(launch, &launch->blocks[launch->place_count], launch->place_count))
        launch->place_count++;
    return launch->place_count > 0;
}

void acre__soft_launch_free(struct soft_launch *launch) {
    if (!launch)
        return;
    launch_free_places(launch);
    if (launch->device)
        acre__soft_views_close(launch->device);
    acre__lock_destroy(&launch->lock);
    free(launch);
}

/* ---- a member of a team ---- */

/* Waits until the block has passed the barrier numbered `passed`, or the launch is over. Until then
 * this member has no lane that can run. */
static void barrier_wait(struct soft_block *block, uint64_t passed) {
    acre__lock_take(&block->lock);
    while (atomic_load_explicit(&block->barrier, memory_order_acquire) == passed &&
           !soft_launch_is_over(block->launch))
        acre__cond_wait(&block->moved, &block->lock);
    acre__lock_give(&block->lock);
}

/* Returns the first lane of this member's n-th warp, or NULL. */
static struct soft_lane *member_warp(const struct soft_block *block, uint32_t number,
                                     uint32_t member) {
    uint64_t first = ((uint64_t)number * block->team + member) * block->launch->warp_lanes;
    return first < block->launch->threads ? &block->lanes[first] : NULL;
}

static int member_has_lanes(const struct soft_block *block, uint32_t member) {
    const struct soft_lane *first;
    for (uint32_t n = 0; (first = member_warp(block, n, member)); n++)
        for (uint32_t i = 0; i < block->launch->warp_lanes; i++)
            if (first->thread + i < block->launch->threads && first[i].state != LANE_ENDED)
                return 1;
    return 0;
}

/* Runs the member's lanes of the current block until they have ended. */
static void member_run(struct soft_block *block, uint32_t member) {
    while (!soft_launch_is_over(block->launch)) {
        uint64_t passed = atomic_load_explicit(&block->barrier, memory_order_acquire);
        enum soft_pass most = PASS_NOTHING;
        struct soft_lane *first;
        for (uint32_t n = 0; (first = member_warp(block, n, member)); n++) {
            enum soft_pass pass = acre__soft_warp_pass(first);
            most = pass > most ? pass : most;
        }
        if (most == PASS_MOVED)
            continue;
        if (most == PASS_YIELDED)
            sched_yield();
        else if (member_has_lanes(block, member))
            barrier_wait(block, passed);
        else
            return;
    }
}

/* Waits for the whole team. Returns 1 if there is another block. */
static int member_meet(struct soft_block *block) {
    acre__lock_take(&block->lock);
    uint64_t round = block->round;
    if (++block->idle == block->team) {
        block->idle = 0;
        block->round++;
        (void)acre__soft_block_begin(block);
        acre__cond_wake(&block->moved);
    }
    while (block->round == round)
        acre__cond_wait(&block->moved, &block->lock);
    int has_block = block->has_block;
    acre__lock_give(&block->lock);
    return has_block;
}

static void block_run(struct soft_block *block, uint32_t member) {
    while (member_meet(block))
        member_run(block, member);
}

/* ---- the crew ---- */

struct crew {
    struct soft_launch *launch;
    struct acre__lock lock;
    struct acre__cond begun;
    pthread_t threads[LAUNCH_CREW_MOST];
    uint32_t team; /* threads that run a block together; 0: not set yet */
    uint32_t next; /* number for the next thread; 0 is the stream's thread */
};

static void crew_work(struct crew *crew, uint32_t number) {
    uint32_t place = number / crew->team;
    if (place < crew->launch->place_count)
        block_run(&crew->launch->blocks[place], number % crew->team);
}

static void *crew_main(void *user) {
    struct crew *crew = user;
    acre__lock_take(&crew->lock);
    uint32_t number = crew->next++;
    while (!crew->team)
        acre__cond_wait(&crew->begun, &crew->lock);
    acre__lock_give(&crew->lock);
    crew_work(crew, number);
    return NULL;
}

/* Creates as many threads as wanted, or as the system allows. Blocks all signals in them, so that
 * only threads of the program handle signals. */
static uint32_t crew_gather(struct crew *crew, uint32_t wanted) {
    uint32_t count = 1;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    crew->next = 1;
    while (count < wanted && pthread_create(&crew->threads[count], NULL, crew_main, crew) == 0)
        count++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return count;
}

/* Returns how many blocks the launch runs at the same time; *team is the number of threads for
 * each. */
static uint32_t crew_places(const struct soft_launch *launch, uint32_t *team) {
    int of_ones = launch->warp_lanes == 1;
    uint32_t most = acre__cpu_count();
    if (of_ones && most < LAUNCH_CREW_OF_ONES)
        most = LAUNCH_CREW_OF_ONES;
    if (most > LAUNCH_CREW_MOST)
        most = LAUNCH_CREW_MOST;
    *team = !of_ones ? 1 : launch->threads < most ? launch->threads : most;
    uint32_t places = most / *team;
    if (places > LAUNCH_LANES_MOST / launch->threads)
        places = LAUNCH_LANES_MOST / launch->threads;
    return places < launch->block_count ? places : (uint32_t)launch->block_count;
}

/* Runs the whole grid. The caller holds no lock. Returns 0 when out of memory. */
static int launch_run(struct soft_launch *launch) {
    struct crew crew = {.launch = launch};
    acre__lock_init(&crew.lock, "crew of a kernel", ACRE__RANK_LEAF);
    acre__cond_init(&crew.begun);
    uint32_t team, places = crew_places(launch, &team);
    uint32_t count = crew_gather(&crew, places * team);
    if (team > count)
        team = count;
    while (places > 1 && places * team > count)
        places--;
    int is_made = launch_make_places(launch, places);
    for (uint32_t i = 0; i < launch->place_count; i++)
        launch->blocks[i].team = team;
    acre__lock_take(&crew.lock);
    crew.team = team;
    acre__cond_wake(&crew.begun);
    acre__lock_give(&crew.lock);
    crew_work(&crew, 0);
    for (uint32_t i = 1; i < count; i++)
        pthread_join(crew.threads[i], NULL);
    acre__cond_destroy(&crew.begun);
    acre__lock_destroy(&crew.lock);
    launch_free_places(launch);
    return is_made;
}

/* ---- with a seed ---- */

static struct soft_lane *block_warp(struct soft_block *block, uint32_t *at) {
    uint32_t first = *at;
    *at += block->launch->warp_lanes;
    return first < block->launch->threads ? &block->lanes[first] : NULL;
}

static uint32_t block_choices(struct soft_block *block) {
    struct soft_lane *first;
    uint32_t sum = 0;
    for (uint32_t at = 0; block->alive && (first = block_warp(block, &at));)
        sum += first->choices = acre__soft_warp_choices(first);
    return sum;
}

/* Counts the possible next steps of all blocks. A step changes only those of its own block. */
static uint32_t launch_choices(struct soft_launch *launch) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < launch->place_count; i++) {
        struct soft_block *block = &launch->blocks[i];
        if (!block->alive && block->has_block) /* the slot's next block, if one is left */
            (void)acre__soft_block_begin(block);
        if (!block->is_counted)
            block->choices = block_choices(block);
        block->is_counted = 1;
        sum += block->choices;
    }
    return sum;
}

static void launch_choose(struct soft_launch *launch, uint32_t choice) {
    struct soft_block *block = launch->blocks;
    for (; choice >= block->choices; block++)
        choice -= block->choices;
    uint32_t at = 0;
    struct soft_lane *first = block_warp(block, &at);
    for (; choice >= first->choices; first = block_warp(block, &at))
        choice -= first->choices;
    block->is_counted = 0;
    acre__soft_warp_choose(first, choice);
}

static int launch_begin_seeded(struct soft_launch *launch) {
    uint32_t places = LAUNCH_SEEDED_PLACES;
    if (places > launch->block_count)
        places = (uint32_t)launch->block_count;
    if (!launch_make_places(launch, places))
        return 0;
    for (uint32_t i = 0; i < launch->place_count; i++)
        (void)acre__soft_block_begin(&launch->blocks[i]);
    return 1;
}

/* Runs one step; acre__soft.lock is held. Returns 1 when the launch is over. */
static int launch_step(struct soft_launch *launch) {
    uint32_t choices = launch_choices(launch);
    if (soft_launch_is_over(launch) || !choices)
        return 1;
    int is_ours = acre__fiber_hooks_begin();
    launch_choose(launch, (uint32_t)(acre__soft_random() % choices));
    acre__fiber_hooks_end(is_ours);
    return soft_launch_is_over(launch);
}

/* ---- in the stream ---- */

static CUresult kernel_result(const struct soft_stream *stream, const struct soft_op *op,
                              const char *what) {
    if (!what[0])
        return CUDA_SUCCESS;
    acre__soft_report("stream %llu step %llu: the kernel was aborted: %s",
                      (unsigned long long)stream->id, (unsigned long long)op->step, what);
    return CUDA_ERROR_LAUNCH_FAILED;
}

CUresult acre__soft_run_kernel(struct soft_stream *stream, struct soft_op *op, int *is_over) {
    struct soft_launch *launch = op->launch;
    int is_made = 1;
    if (!launch->device) {
        launch->device = &acre__soft.devices[launch->ordinal];
        is_made = acre__soft_views_open(launch->device);
        if (is_made && launch->is_seeded)
            is_made = launch_begin_seeded(launch);
    }
    if (is_made && launch->is_seeded) {
        *is_over = launch_step(launch);
    } else if (is_made) {
        acre__soft.running++; /* an export moves a chunk, which must not happen under a kernel */
        acre__lock_give(&acre__soft.lock);
        is_made = launch_run(launch);
        acre__lock_take(&acre__soft.lock);
        acre__soft.running--;
    }
    return kernel_result(stream, op, is_made ? launch->mistake : "out of host memory");
}

struct soft_launch *acre__soft_launch_make(acre_soft_kernel fn, const uint32_t grid[3],
                                           const uint32_t block[3], size_t shared_bytes,
                                           void *arg) {
    struct soft_launch *launch = calloc(1, sizeof *launch);
    if (!launch)
        return NULL;
    acre__lock_init(&launch->lock, "kernel", ACRE__RANK_LEAF);
    launch->fn = fn;
    launch->arg = arg;
    memcpy(launch->grid, grid, sizeof launch->grid);
    memcpy(launch->block, block, sizeof launch->block);
    launch->shared_bytes = shared_bytes;
    launch->threads = block[0] * block[1] * block[2];
    launch->block_count = (uint64_t)grid[0] * grid[1] * grid[2];
    return launch;
}

struct soft_launch *acre__soft_launch_copy(const struct soft_launch *from) {
    struct soft_launch *launch =
        acre__soft_launch_make(from->fn, from->grid, from->block, from->shared_bytes, from->arg);
    if (launch) {
        launch->warp_lanes = from->warp_lanes;
        launch->is_seeded = from->is_seeded;
        launch->ordinal = from->ordinal;
    }
    return launch;
}
