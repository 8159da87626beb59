/* Plans: say what you will need. Part of acre.h. */
#ifndef ACRE_PLAN_H
#define ACRE_PLAN_H

#include "pool.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A program that knows beforehand what memory it needs says so, and gets all of it from one arena
 * on the device and one on the host. A wish names the place, ACRE_PLACE_DEVICE or ACRE_PLACE_HOST,
 * and the program's own variable, into which the address is written: at once, or, in a plan made
 * with ACRE_PLAN_DEFERRED, by acre_plan_satisfy. Such wishes live for all steps. A wish for some
 * steps (acre_plan_want_for) is placed by acre_plan_commit, which lets wishes whose steps do not
 * meet have the same memory; until then nothing is written.
 *
 * A variable must live until it is written, and is written only by a call that succeeds. Addresses
 * are multiples of 256, or of what was asked for beyond; what that costs counts before anything is
 * promised. A call that fails changes nothing: no variable is written, and its wishes are not kept.
 *
 * A plan goes through rounds: wishes, commit, work, acre_plan_release, and again, with the same
 * memory. Threads: calls on a plan wait for each other; a step of a loop (see below) belongs to the
 * thread that began it. Destroying a plan while another thread uses it is the program's mistake. */
typedef struct acre_plan acre_plan;

#define ACRE_PLAN_AS_NEEDED UINT64_MAX /* a size: memory is taken as wishes are satisfied */

#define ACRE_PLAN_DEFERRED 1u /* acre_plan_want queues, acre_plan_satisfy places */

/* Zero in any field means the default. */
typedef struct acre_plan_options {
    size_t struct_size;
    uint64_t device_bytes;  /* ACRE_PLAN_AS_NEEDED, a size, which is taken at once, or 0: up to */
    uint64_t host_bytes;    /*   4 and 8 GiB, see acre_plan_create */
    uint64_t budget;        /* search nodes that placing may cost; the same gives the same plan */
    acre_kind host_kind;    /* pinned (default), mapped, or pageable */
    uint32_t flags;         /* ACRE_PLAN_* */
    acre_pool *device_pool; /* that serves loops where the plan does not; the device's default */
    acre_pool *host_pool;   /* the same for host memory */
} acre_plan_options;

/* Makes an empty plan; `options` may be NULL. A size that was given is taken now, or the call
 * fails. By default a plan has 4 GiB of device memory, or what is free of it, and 8 GiB of host
 * memory, or half of what is free; each is taken with the first wish for it. The log gets a line,
 * "plan: 4096 MB on device, 8192 MB on host", which says so where a default was clipped.
 * Returns ACRE_E_DEVICE_MEMORY, ACRE_E_HOST_MEMORY, ACRE_E_INVALID, ... */
ACRE_API acre_status acre_plan_create(acre_device *device, const acre_plan_options *options,
                                      acre_plan **plan);

/* Destroys a plan and frees its memory, after all work of the device queued before. NULL is
 * a no-op. Blocks of a loop that a pool served stay the pool's. */
ACRE_API acre_status acre_plan_destroy(acre_plan *plan);

/* Asks for `bytes`; `alignment` is 0 (256) or a power of two up to 1 GiB, of which less than 256
 * counts as 256. Without ACRE_PLAN_DEFERRED it is acre_plan_satisfy as well: *p is the address.
 * Returns ACRE_E_DEVICE_MEMORY or ACRE_E_HOST_MEMORY with the detail "not enough host memory:
 * desired N bytes, allocated M bytes"; ACRE_E_COMMITTED after acre_plan_commit. */
ACRE_API acre_status acre_plan_want(acre_plan *plan, uint32_t place, size_t bytes, size_t alignment,
                                    void **p);

/* The same for memory that is needed from `first_step` to `last_step`, both included. *p is written
 * by acre_plan_commit. */
ACRE_API acre_status acre_plan_want_for(acre_plan *plan, uint32_t place, size_t bytes,
                                        size_t alignment, uint64_t first_step, uint64_t last_step,
                                        void **p);

#define ACRE_WISH_STEPS 1u /* for some steps, as acre_plan_want_for */
#define ACRE_WISH_FIXED 2u /* at `offset` in the memory of its place, whose size must be given */

/* A wish with everything that can be said about it. */
typedef struct acre_plan_wish {
    size_t struct_size; /* of each wish of an array the same */
    void **p;
    const char *name; /* or NULL; the first 63 bytes are kept, for acre_plan_walk */
    uint64_t bytes;
    uint64_t alignment;
    uint64_t first_step, last_step; /* with ACRE_WISH_STEPS */
    uint64_t offset;                /* with ACRE_WISH_FIXED */
    uint32_t place;
    uint32_t flags; /* ACRE_WISH_* */
} acre_plan_wish;

#define ACRE_PLAN_ADJACENT 1u /* side by side, in the order given */

/* `count` wishes, all or none. With ACRE_PLAN_ADJACENT they lie one behind the other with nothing
 * between them but what their alignments ask for, which for all but the first may then be less than
 * 256; they have one place and the same steps, and the first one's offset is that of all.
 * ACRE_E_INVALID also when a fixed offset is taken, or past the end. */
ACRE_API acre_status acre_plan_want_many(acre_plan *plan, const acre_plan_wish *wishes,
                                         size_t count, uint32_t flags);

/* Places the wishes that wait, all or none, and writes their addresses; a no-op if none does. What
 * did not fit goes on waiting. In the first call after acre_plan_release it waits, on the host, for
 * the work of the round before. */
ACRE_API acre_status acre_plan_satisfy(acre_plan *plan);

/* Forgets the wishes that wait for acre_plan_satisfy or acre_plan_commit. */
ACRE_API acre_status acre_plan_cancel(acre_plan *plan);

/* Places everything that waits, writes the addresses and fixes the plan: further wishes, and
 * acre_plan_satisfy and acre_plan_commit, are then ACRE_E_COMMITTED until acre_plan_release. The
 * log gets a line with what is used on device and host. */
ACRE_API acre_status acre_plan_commit(acre_plan *plan);

/* Empties the plan for the next round and keeps the memory; all of its addresses are dead. Work
 * queued on `stream` so far may still use them: an event is recorded behind it, and the next round
 * waits for that before it writes an address. NULL means all work of the device; the next round
 * then waits for whatever is queued until it begins. Other streams must be waited for by `stream`.
 * ACRE_E_CAPTURING while the stream is captured, ACRE_E_BUSY in a step of a loop. */
ACRE_API acre_status acre_plan_release(acre_plan *plan, acre_stream stream);

/* A wish, as it was placed. */
typedef struct acre_plan_placed {
    size_t struct_size;
    const char *name; /* "" without one; until the call returns, as all of this */
    void *p;          /* NULL: it waits */
    uint64_t bytes;
    uint64_t offset; /* in the memory of its place; as needed: in one of its parts */
    uint64_t first_step, last_step;
    uint32_t place;
    uint32_t flags; /* ACRE_WISH_* */
} acre_plan_placed;

/* Called for each wish; a result other than 0 ends the walk. It must not call into acre. */
typedef int (*acre_plan_walk_fn)(void *user, const acre_plan_placed *wish);

/* Calls `fn` for every wish of this round, in the order given. */
ACRE_API acre_status acre_plan_walk(acre_plan *plan, acre_plan_walk_fn fn, void *user);

/* ---- loops ---- */

/* A loop whose steps allocate alike need not say anything beforehand. The first step that allocates
 * is recorded while a pool serves it; what was freed within the step is then placed as one wish,
 * and later steps get the same addresses again, in a few nanoseconds, without a call of the pool or
 * of the driver. A step that differs is served all the same: what the plan does not have at that
 * point, because another size is asked for, or in another order, or because something was not freed
 * yet, comes from the pool and is counted as a miss. So is what outlives the recorded step.
 *
 * acre_plan_release forgets the recording; so a loop that has changed is recorded anew. */

/* Begins a step whose memory is used by work of `stream`: acre_plan_alloc and acre_plan_free are in
 * its order, as with a pool. If another stream did the step before, this one waits for it (by an
 * event, without the host). The second step places what the first one recorded. If memory for that
 * is short, the host waits for the step before, and the pool gives back what it had for it; if that
 * is not enough, the pool goes on serving, the log says so, and the next step tries again.
 * Returns ACRE_E_BUSY when a step has begun. */
ACRE_API acre_status acre_plan_step_begin(acre_plan *plan, acre_stream stream);

/* In a step (otherwise ACRE_E_INVALID; in another thread's ACRE_E_BUSY). As acre_pool_alloc. */
ACRE_API acre_status acre_plan_alloc(acre_plan *plan, uint32_t place, size_t bytes,
                                     size_t alignment, void **p);

/* In the step that it was allocated in, or in a later one. As acre_pool_free; a block that a pool
 * served may also be given to acre_free. */
ACRE_API acre_status acre_plan_free(acre_plan *plan, void *p);

/* Ends the step. In a capture nothing is recorded behind its work: then ordering launches of the
 * graph with other steps is the program's. */
ACRE_API acre_status acre_plan_step_end(acre_plan *plan);

/* ---- statistics ---- */

/* Every statistic of a plan: name, meaning. */
#define ACRE_PLAN_STATS_LIST(X)                                                                    \
    X(device_bytes, "device memory that the plan has now")                                         \
    X(host_bytes, "host memory that it has now")                                                   \
    X(device_used_bytes, "of it up to the end of what is placed, padding included")                \
    X(host_used_bytes, "the same of host memory")                                                  \
    X(device_wanted_bytes, "bytes of this round's wishes for the device, as asked for")            \
    X(host_wanted_bytes, "the same for the host")                                                  \
    X(device_bound_bytes, "what the wishes for steps cannot do without; at commit")                \
    X(host_bound_bytes, "the same for the host")                                                   \
    X(wishes, "wishes of this round")                                                              \
    X(waiting, "of them not placed yet")                                                           \
    X(is_committed, "1: the plan is fixed")                                                        \
    X(is_optimal, "1: commit has proven that these cannot do with less")                           \
    X(nodes, "search nodes that placing has cost, since the plan was made")                        \
    X(rounds, "calls of acre_plan_release")                                                        \
    X(waits, "times that the host waited for a round before")                                      \
    X(steps, "steps of loops that have ended")                                                     \
    X(recorded, "allocations of the recorded step")                                                \
    X(loop_bytes, "memory of both places that serves the loop")                                    \
    X(loop_bound_bytes, "what no plan of the loop could do without")                               \
    X(hits, "allocations of steps that the plan has served")                                       \
    X(misses, "allocations after the recorded step that it has not")                               \
    X(pool_calls, "allocations and frees that went to a pool")

typedef struct acre_plan_stats {
    size_t struct_size; /* set by the caller */
#define ACRE_PLAN_STATS_FIELD(name, meaning) uint64_t name;
    ACRE_PLAN_STATS_LIST(ACRE_PLAN_STATS_FIELD)
#undef ACRE_PLAN_STATS_FIELD
} acre_plan_stats;

ACRE_API acre_status acre_plan_get_stats(acre_plan *plan, acre_plan_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
