/* Sparse ranges: addresses whose pieces get and lose memory anywhere. Part of acre.h. */
#ifndef ACRE_RANGE_H
#define ACRE_RANGE_H

#include "mem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A range reserves addresses once. Pieces of it are committed, which gives them device memory, and
 * decommitted again, in any order. Addresses never change, so kernels may keep pointers. KV caches
 * whose requests come and go are built on it: each request has addresses for its longest context,
 * and memory for as much as it has.
 *
 * All pieces of a range have the same size (`piece_bytes`, by default 2 MiB). Offsets and sizes in
 * calls are multiples of it.
 *
 * A decommitted piece stays mapped as *idle* memory. The next commit of the piece uses it again
 * without a driver call for memory. When a budget or the device is short of memory, acre unmaps
 * idle pieces, those that were decommitted first, and uses their memory elsewhere. (Of one
 * decommit, it unmaps the last pieces first.)
 *
 * Stream order: work queued on `stream` after a commit may use the pieces. Work queued on `stream`
 * before a decommit, and the uses of acre_range_record_use, may still use them while they run. If
 * such work is in flight when a piece is committed again on another stream, that stream waits for
 * it. Memory goes to another piece or range only when such work is done.
 *
 * Threads: several threads may use one range, and ranges of one budget. Do not destroy a range
 * or a budget while another thread uses it. */
typedef struct acre_range acre_range;

/* A limit that several ranges of a device share. The memory of one range serves the others, too. */
typedef struct acre_range_budget acre_range_budget;

/* Creates a budget for ranges of a device: their pieces together, idle ones included, have at most
 * `limit_bytes` of memory; 0: no limit. It exists until acre_range_budget_destroy or the last
 * acre_close of the device. */
ACRE_API acre_status acre_range_budget_create(acre_device *device, uint64_t limit_bytes,
                                              acre_range_budget **budget);

/* Destroys a budget. NULL is a no-op.
 * Returns ACRE_E_BUSY while a range uses the budget. */
ACRE_API acre_status acre_range_budget_destroy(acre_range_budget *budget);

/* Changes the limit of a budget; 0: no limit. If the ranges have more memory than that, the call
 * unmaps idle pieces whose work is done. Committed pieces stay: until enough are decommitted,
 * commits that need memory return ACRE_E_LIMIT. */
ACRE_API acre_status acre_range_budget_set_limit(acre_range_budget *budget, uint64_t limit_bytes);

/* Unmaps idle pieces of all ranges of a budget; see acre_range_trim. */
ACRE_API acre_status acre_range_budget_trim(acre_range_budget *budget, uint64_t keep_bytes);

/* Zero in any field means the default. */
typedef struct acre_range_options {
    size_t struct_size;
    acre_range_budget *budget; /* of the same device; default: a budget of its own */
    uint64_t limit_bytes; /* of the range's own budget; must be 0 with `budget`; default none */
    uint64_t piece_bytes; /* multiple of the device's granularity; default 2 MiB */
} acre_range_options;

/* Creates a range with `bytes` of addresses, rounded up to whole pieces, and no memory. It exists
 * until acre_range_destroy or the last acre_close of the device. A piece costs the driver about as
 * much at 32 MiB as at 2 MiB, so choose large pieces if commits are large.
 * Returns ACRE_E_UNSUPPORTED on devices that cannot map memory, ACRE_E_ADDRESS_SPACE, ... */
ACRE_API acre_status acre_range_create(acre_device *device, uint64_t bytes,
                                       const acre_range_options *options, acre_range **range);

/* Destroys a range and frees its memory and addresses. NULL is a no-op.
 * Returns ACRE_E_CAPTURING while `stream` is captured.
 * Sync: waits for the work queued on `stream`, for work queued before decommits, and for all
 * recorded uses. */
ACRE_API acre_status acre_range_destroy(acre_range *range, acre_stream stream);

/* Returns the first address; NULL if `range` is not a range. It never changes. */
ACRE_API void *acre_range_data(const acre_range *range);

/* Commits the pieces of `bytes` bytes at `offset`: they have memory with undefined contents, which
 * work queued on `stream` from now on may use. Pieces that are already committed keep their
 * contents, so a range may be committed again in part or as a whole. All or nothing: after a
 * failure no further piece is committed.
 * Returns ACRE_E_LIMIT if the budget is used up by committed pieces, ACRE_E_DEVICE_MEMORY if the
 * device is, after idle memory of ranges and pools was released; the detail has the bytes requested
 * and available. ACRE_E_RANGE past the end of the range, ACRE_E_CAPTURING while `stream` is
 * captured: a graph could be launched again after the decommit.
 * Sync: waits on the host only if memory is short, and work in flight still uses idle pieces. */
ACRE_API acre_status acre_range_commit(acre_range *range, uint64_t offset, uint64_t bytes,
                                       acre_stream stream);

/* Decommits the pieces of `bytes` bytes at `offset`. Their contents are lost; work queued so far
 * may still use them (see acre_range). Pieces that are not committed are skipped. The memory stays
 * mapped for the next commit, until trim or lack of memory unmaps it.
 * Returns ACRE_E_RANGE, ACRE_E_CAPTURING as acre_range_commit; a failed call decommits nothing.
 * Sync: does not wait. */
ACRE_API acre_status acre_range_decommit(acre_range *range, uint64_t offset, uint64_t bytes,
                                         acre_stream stream);

/* Records that work queued on `stream` so far uses the range. Call it after queueing the work, for
 * every stream other than the one that you will pass to acre_range_decommit. The record is for the
 * whole range: pieces that are decommitted from now on are not reused before that work is done.
 * Returns ACRE_E_HANDLE for a stream of another device, ACRE_E_CAPTURING while it is captured. */
ACRE_API acre_status acre_range_record_use(acre_range *range, acre_stream stream);

/* Unmaps idle pieces, those that were decommitted first, until the range has at most `keep_bytes`
 * of memory, or nothing more can be unmapped. Idle pieces that queued work still uses stay. acre
 * keeps a part of the memory for its next allocation; acre_trim releases that to the driver.
 * Sync: does not wait. */
ACRE_API acre_status acre_range_trim(acre_range *range, uint64_t keep_bytes);

/* Consecutive pieces in the same state. */
typedef struct acre_range_part {
    size_t struct_size; /* set by acre */
    void *address;
    uint64_t offset, bytes;
    uint32_t is_committed; /* 1: committed, 0: idle */
    uint32_t reserved;
} acre_range_part;

/* Called for each part, by rising offset. A result other than 0 ends the walk. The budget's lock is
 * held: the function must not call into acre, nor wait for a thread that does. */
typedef int (*acre_range_walk_fn)(void *user, const acre_range_part *part);

/* Calls `fn` for the committed and the idle parts of a range. */
ACRE_API acre_status acre_range_walk(acre_range *range, acre_range_walk_fn fn, void *user);

/* Every statistic of a range or of a budget: name, meaning. "Now" marks current values; the others
 * count since it was created. Those of a budget are sums over its ranges, destroyed ones
 * included. */
#define ACRE_RANGE_STATS_LIST(X)                                                                   \
    X(committed_bytes, "bytes of committed pieces now")                                            \
    X(idle_bytes, "bytes of decommitted pieces that are still mapped now")                         \
    X(peak_bytes, "most memory that committed and idle pieces had together")                       \
    X(limit_bytes, "limit of the budget now; 0: none")                                             \
    X(address_bytes, "reserved addresses now")                                                     \
    X(ranges, "ranges that use the budget now")                                                    \
    X(commits, "calls of acre_range_commit that succeeded")                                        \
    X(decommits, "calls of acre_range_decommit that succeeded")                                    \
    X(pieces_reused, "pieces that were still mapped when they were committed")                     \
    X(pieces_mapped, "pieces that acre mapped when they were committed")                           \
    X(pieces_moved, "idle pieces unmapped because a commit needed their memory")                   \
    X(pieces_trimmed, "idle pieces unmapped by trim, or because others needed memory")             \
    X(stream_waits, "commits that made their stream wait for work on another one")                 \
    X(host_waits, "times that a commit waited on the host for work that used idle pieces")

typedef struct acre_range_stats {
    size_t struct_size; /* set by the caller */
#define ACRE_STATS_FIELD(name, meaning) uint64_t name;
    ACRE_RANGE_STATS_LIST(ACRE_STATS_FIELD)
#undef ACRE_STATS_FIELD
} acre_range_stats;

/* Get the statistics of a range, and of a budget. These also work on a lost device. */
ACRE_API acre_status acre_range_get_stats(acre_range *range, acre_range_stats *stats);
ACRE_API acre_status acre_range_budget_get_stats(acre_range_budget *budget,
                                                 acre_range_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
