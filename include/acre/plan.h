/* Plans: declare buffers and their lifetimes once. Part of acre.h. */
#ifndef ACRE_PLAN_H
#define ACRE_PLAN_H

#include "pool.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A plan serves a program that knows in advance which memory it needs. The program makes requests,
 * and acre packs them into one arena on the device and one on the host. A request (acre_plan_wish)
 * names its place, ACRE_PLACE_DEVICE or ACRE_PLACE_HOST, and a variable of the program. acre writes
 * the address into that variable.
 *
 * acre_plan_want requests memory for all steps of the program, and writes the address at once. In a
 * plan created with ACRE_PLAN_DEFERRED, acre_plan_satisfy writes it. acre_plan_want_for requests
 * memory for some steps, and acre_plan_commit writes the address: requests whose steps do not
 * overlap can get the same memory. The program decides what a step is.
 *
 * A variable must exist until acre has written it. Only a call that succeeds writes variables. If a
 * call that makes requests fails, the plan keeps none of these requests. Addresses are multiples of
 * 256, or of the request's alignment if that is larger. Padding for alignment counts against the
 * arena's size.
 *
 * A plan goes through rounds, each with the same memory: requests, commit, work, acre_plan_release.
 * Threads: calls on a plan are serialized. A step of a loop (see below) belongs to the thread that
 * began it. Do not destroy a plan while another thread uses it. */
typedef struct acre_plan acre_plan;

#define ACRE_PLAN_AS_NEEDED UINT64_MAX /* as a size: allocate memory when requests need it */

#define ACRE_PLAN_DEFERRED 1u /* acre_plan_want queues requests, acre_plan_satisfy places them */

/* Zero in any field means the default. */
typedef struct acre_plan_options {
    size_t struct_size;
    /* Arena sizes. If a size is given, acre_plan_create allocates it. 0 (default): the first
     * request allocates up to 4 GiB on the device, 8 GiB on the host; a loop without requests
     * allocates what it needs. ACRE_PLAN_AS_NEEDED: the arena grows with the requests. */
    uint64_t device_bytes;
    uint64_t host_bytes;
    /* Limit of the search for a compact placement, in search nodes. A node takes about 1 us. The
     * default is 2^20 nodes, about a second. The same requests with the same budget get the same
     * placement. */
    uint64_t budget;
    acre_kind host_kind; /* pinned (default), mapped, or pageable */
    uint32_t flags;      /* ACRE_PLAN_* */
    /* The pools that serve the first step and the misses of a loop (below): in device memory
     * (default: the device's default pool), and in host memory (default: the default pool of pinned
     * memory). */
    acre_pool *device_pool;
    acre_pool *host_pool;
} acre_plan_options;

/* Creates an empty plan. If the options give a size, the call allocates that memory or fails. By
 * default the first request for a place allocates the memory of the place: 4 GiB of device memory,
 * or less if less is free; 8 GiB of host memory, or half of what is free if that is less.
 * The log gets a line such as "plan: 4096 MB on device, 8192 MB on host", which also says if a
 * default was reduced.
 * Returns ACRE_E_DEVICE_MEMORY, ACRE_E_HOST_MEMORY, ACRE_E_INVALID, ... */
ACRE_API acre_status acre_plan_create(acre_device *device, const acre_plan_options *options,
                                      acre_plan **plan);

/* Destroys a plan and frees its memory. NULL is a no-op. Loop blocks that came from a pool stay
 * live.
 * Sync: waits for all work queued on the device. */
ACRE_API acre_status acre_plan_destroy(acre_plan *plan);

/* Requests `bytes` for all steps. `alignment` is 0 (for 256) or a power of two up to 1 GiB; less
 * than 256 counts as 256. Without ACRE_PLAN_DEFERRED the call then does what acre_plan_satisfy
 * does, so *p is the address when it returns. For 0 bytes *p is NULL.
 * Returns ACRE_E_DEVICE_MEMORY or ACRE_E_HOST_MEMORY, with the detail "acre_plan_want: not enough
 * host memory: desired N bytes, allocated M bytes" (N: the arena size that would be needed; M: the
 * arena's size); ACRE_E_COMMITTED after acre_plan_commit. */
ACRE_API acre_status acre_plan_want(acre_plan *plan, uint32_t place, size_t bytes, size_t alignment,
                                    void **p);

/* Requests `bytes` for the steps from `first_step` to `last_step`, both included. acre_plan_commit
 * writes *p. Otherwise like acre_plan_want. */
ACRE_API acre_status acre_plan_want_for(acre_plan *plan, uint32_t place, size_t bytes,
                                        size_t alignment, uint64_t first_step, uint64_t last_step,
                                        void **p);

#define ACRE_WISH_STEPS 1u /* lasts from first_step to last_step, as with acre_plan_want_for */
#define ACRE_WISH_FIXED 2u /* at `offset` in its arena; not with ACRE_PLAN_AS_NEEDED */

/* A request with all its properties. */
typedef struct acre_plan_wish {
    size_t struct_size; /* the same for all requests of an array */
    void **p;
    const char *name; /* or NULL; acre_plan_walk reports the first 63 bytes */
    uint64_t bytes;
    uint64_t alignment;
    uint64_t first_step, last_step; /* with ACRE_WISH_STEPS */
    uint64_t offset;                /* with ACRE_WISH_FIXED; a multiple of 256 */
    uint32_t place;
    uint32_t flags; /* ACRE_WISH_* */
} acre_plan_wish;

#define ACRE_PLAN_ADJACENT 1u /* place the requests one after another, in the order given */

/* Makes `count` requests, all or none. With ACRE_PLAN_ADJACENT acre places them one after another,
 * with no gaps but those that their alignments need. All of them but the first may then have an
 * alignment below 256. Adjacent requests must have the same place and the same steps, and only the
 * first may have a fixed offset.
 * Returns the errors of acre_plan_want; ACRE_E_INVALID also if the memory at a fixed offset is in
 * use, misaligned, or past the end of the arena, or if the arena has ACRE_PLAN_AS_NEEDED. */
ACRE_API acre_status acre_plan_want_many(acre_plan *plan, const acre_plan_wish *wishes,
                                         size_t count, uint32_t flags);

/* Places all queued requests of acre_plan_want, all or none, and writes their addresses. Without
 * queued requests the call is a no-op. After a failure the requests stay queued.
 * Sync: the first call after acre_plan_release waits on the host for the work of the earlier
 * round. */
ACRE_API acre_status acre_plan_satisfy(acre_plan *plan);

/* Drops all requests that wait for acre_plan_satisfy or acre_plan_commit. */
ACRE_API acre_status acre_plan_cancel(acre_plan *plan);

/* Places all requests that wait, writes their addresses, and fixes the plan. Until
 * acre_plan_release, further requests, acre_plan_satisfy and acre_plan_commit return
 * ACRE_E_COMMITTED. The log gets a line with the memory used on device and host.
 * Sync: the first call after acre_plan_release waits on the host for the work of the earlier
 * round. */
ACRE_API acre_status acre_plan_commit(acre_plan *plan);

/* Empties the plan for the next round and keeps its memory. All addresses of the plan become
 * invalid for new work. Work queued on `stream` so far may still use them: acre records an event
 * after that work, and the next round waits for the event before it writes an address. `stream`
 * must wait for other streams that use the memory. NULL for `stream` does not mean the legacy
 * default stream, but all streams of the device: the first call of the next round that writes an
 * address then waits for all work queued on the device by that time.
 * Returns ACRE_E_CAPTURING while the stream is captured, ACRE_E_BUSY in a step of a loop. */
ACRE_API acre_status acre_plan_release(acre_plan *plan, acre_stream stream);

/* A request and where it was placed. */
typedef struct acre_plan_placed {
    size_t struct_size;
    const char *name; /* "" if it has none; valid, like the struct, until the function returns */
    void *p;          /* NULL: not placed yet */
    uint64_t bytes;
    uint64_t offset; /* from the start of the arena; with ACRE_PLAN_AS_NEEDED, from the start of
                        the allocation that contains the request: such an arena has several */
    uint64_t first_step, last_step;
    uint32_t place;
    uint32_t flags; /* ACRE_WISH_* */
} acre_plan_placed;

/* Called for each request. A result other than 0 ends the walk. The plan's lock is held: the
 * function must not call into acre, nor wait for a thread that does. A call on the same plan
 * deadlocks. */
typedef int (*acre_plan_walk_fn)(void *user, const acre_plan_placed *wish);

/* Calls `fn` for every request of this round, in the order in which they were made. Calls of other
 * threads on the plan block until the walk ends. */
ACRE_API acre_status acre_plan_walk(acre_plan *plan, acre_plan_walk_fn fn, void *user);

/* ---- loops ---- */

/* A loop whose steps all allocate alike needs no requests. A pool serves the first step that
 * allocates, and the plan records the calls of this step. The plan then packs the blocks that the
 * step both allocated and freed, and returns the same addresses in every later step. An allocation
 * that the plan serves is a hit: it takes a few nanoseconds and calls neither the pool nor the
 * driver.
 *
 * A later step may differ from the recorded one. An allocation is a hit if one of the 32 recorded
 * calls after the last match has the same place, size and alignment, and if no block left from an
 * earlier step overlaps the planned memory. The search ends early at the recorded free of a block
 * that is still live. All other allocations are misses, and the pool serves them. Blocks that the
 * recorded step did not free are misses in every step.
 *
 * acre_plan_release drops the recording, so that a loop that has changed can be recorded again. */

/* Begins a step whose memory is used by work of `stream`. acre_plan_alloc and acre_plan_free are in
 * the order of that stream, as with a pool. If the previous step ran on another stream, `stream`
 * waits for that step (by an event). The second step packs the blocks of the first one. If there is
 * no memory for them, the pool serves the second step too, the log says so, and the next step tries
 * again.
 * Returns ACRE_E_BUSY if a step has begun and not ended, unless the thread of that step has exited;
 * then the call waits for the device and ends the step.
 * Sync: packing may wait on the host for the work of an earlier round. If memory is short, it may
 * also wait for the work that still uses blocks freed to pools. */
ACRE_API acre_status acre_plan_step_begin(acre_plan *plan, acre_stream stream);

/* Allocates a block in a step. Otherwise like acre_pool_alloc.
 * Returns ACRE_E_INVALID outside of a step, ACRE_E_BUSY in a step that another thread began. */
ACRE_API acre_status acre_plan_alloc(acre_plan *plan, uint32_t place, size_t bytes,
                                     size_t alignment, void **p);

/* Frees a block of acre_plan_alloc, in the step that allocated it or in a later one. Otherwise like
 * acre_pool_free. A block that a pool served may also be freed with acre_free. */
ACRE_API acre_status acre_plan_free(acre_plan *plan, void *p);

/* Ends the step, and records an event after its work. If the stream is captured there is no event:
 * the program must then order launches of the graph with other steps. */
ACRE_API acre_status acre_plan_step_end(acre_plan *plan);

/* ---- statistics ---- */

/* Every statistic of a plan: name, meaning. */
#define ACRE_PLAN_STATS_LIST(X)                                                                    \
    X(device_bytes, "device memory that the plan holds now")                                       \
    X(host_bytes, "host memory that the plan holds now")                                           \
    X(device_used_bytes, "device memory from the start of the arena to the end of its contents")   \
    X(host_used_bytes, "host memory from the start of the arena to the end of its contents")       \
    X(device_wanted_bytes, "bytes of this round's requests for the device")                        \
    X(host_wanted_bytes, "bytes of this round's requests for the host")                            \
    X(device_bound_bytes,                                                                          \
      "lower bound of any placement on the device; 0 before a commit of requests with steps")      \
    X(host_bound_bytes,                                                                            \
      "lower bound of any placement on the host; 0 before a commit of requests with steps")        \
    X(wishes, "requests of this round")                                                            \
    X(waiting, "requests of this round that are not placed yet")                                   \
    X(is_committed, "1: the plan is committed")                                                    \
    X(is_optimal, "1: commit has proven that no placement uses less memory")                       \
    X(nodes, "search nodes of all placements since the plan was created")                          \
    X(rounds, "calls of acre_plan_release")                                                        \
    X(waits, "times that the host waited for the work of an earlier round")                        \
    X(steps, "steps of loops that have ended")                                                     \
    X(recorded, "allocations of the recorded step")                                                \
    X(loop_bytes, "memory that serves the loop, on device and host together")                      \
    X(loop_bound_bytes, "lower bound of the memory that any plan of the loop needs")               \
    X(hits, "allocations of steps that the plan served")                                           \
    X(misses, "allocations after the recorded step that a pool served")                            \
    X(pool_calls, "allocations and frees of steps that went to a pool")

typedef struct acre_plan_stats {
    size_t struct_size; /* set by the caller */
#define ACRE_PLAN_STATS_FIELD(name, meaning) uint64_t name;
    ACRE_PLAN_STATS_LIST(ACRE_PLAN_STATS_FIELD)
#undef ACRE_PLAN_STATS_FIELD
} acre_plan_stats;

/* Gets the statistics of a plan. */
ACRE_API acre_status acre_plan_get_stats(acre_plan *plan, acre_plan_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
