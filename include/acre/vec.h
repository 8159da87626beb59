/* Arrays that grow in place. Part of acre.h. */
#ifndef ACRE_VEC_H
#define ACRE_VEC_H

#include "mem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A vec is a contiguous array of device, pinned or managed memory that grows and shrinks in place.
 * It reserves addresses in advance, by default as many as the device has memory, and maps physical
 * memory to them as it grows. Growth within the reservation copies nothing and keeps the address.
 *
 * `stream` in these calls is the stream whose work uses the vec. Before a call unmaps memory, it
 * waits for the work queued so far on `stream` and on every stream named by acre_vec_record_use. It
 * does not wait for the whole device, unless the strategy is copy or managed: these free blocks as
 * acre_mem_free does. If memory is short, a call that grows a vec first trims pools, which may wait
 * (see acre_pool_trim), and may wait for the work that still uses blocks freed to pools.
 * Threads: several threads may call functions on one vec. Do not destroy a vec while another
 * thread uses it. */
typedef struct acre_vec acre_vec;

/* How a vec grows. */
typedef enum acre_vec_strategy {
    /* Managed memory: ACRE_VEC_MANAGED. Other kinds: ACRE_VEC_VMM if the device supports it, else
     * ACRE_VEC_COPY. */
    ACRE_VEC_AUTO = 0,
    /* Maps more memory and copies nothing. ACRE_E_UNSUPPORTED on devices that cannot map memory. */
    ACRE_VEC_VMM = 1,
    /* Allocates a larger block and copies the elements. */
    ACRE_VEC_COPY = 2,
    /* Allocates managed memory for the whole reservation. Growth beyond the reservation copies. */
    ACRE_VEC_MANAGED = 3
} acre_vec_strategy;

#define ACRE_VEC_SHAREABLE 1u /* can be shared with other processes; chunks of 64 MiB or more */
#define ACRE_VEC_RDMA 2u      /* other PCI devices can access it, if the device supports that */

/* Zero in any field means the default. */
typedef struct acre_vec_options {
    size_t struct_size;
    acre_kind kind;             /* ACRE_KIND_DEVICE (default), PINNED or MANAGED */
    acre_vec_strategy strategy; /* for managed memory ACRE_VEC_MANAGED or ACRE_VEC_AUTO */
    /* Size of the first reservation, or of the first block if the vec grows by copying. Default: as
     * much as the device has memory, but at most limit_bytes; managed 256 MiB; copy none. */
    uint64_t address_bytes;
    /* Limit on physical memory; default none. While growth copies, the old block does not count. */
    uint64_t limit_bytes;
    uint64_t ahead_bytes; /* VMM: bytes that a thread keeps mapped in advance; default none */
    uint64_t chunk_bytes; /* smallest chunk; default 2 MiB, shareable 64 MiB */
    uint32_t flags;       /* ACRE_VEC_* */
    uint32_t reserved;
} acre_vec_options;

/* Creates an empty vec with elements of `element_bytes` each. It exists until acre_vec_destroy or
 * the last acre_close of the device. */
ACRE_API acre_status acre_vec_create(acre_device *device, size_t element_bytes,
                                     const acre_vec_options *options, acre_vec **vec);

/* Destroys a vec and frees its memory. NULL is a no-op.
 * Returns ACRE_E_BUSY while the vec is shared.
 * Sync: waits for the work queued on `stream`, and for all recorded uses. */
ACRE_API acre_status acre_vec_destroy(acre_vec *vec, acre_stream stream);

/* Returns the address of the first element; NULL if `vec` is not a vec. With the strategies copy
 * and managed also NULL before the first call that grows the vec or reserves addresses. The address
 * changes only in calls whose comments say so. */
ACRE_API void *acre_vec_data(const acre_vec *vec);

/* Returns the number of elements; 0 if `vec` is not a vec. */
ACRE_API size_t acre_vec_size(const acre_vec *vec);

/* Returns the number of elements that the reserved addresses have room for. */
ACRE_API size_t acre_vec_capacity(const acre_vec *vec);

/* Returns the bytes of physical memory of a vec. */
ACRE_API uint64_t acre_vec_mapped_bytes(const acre_vec *vec);

/* Reserves addresses for `count` elements in all; the reservation never shrinks. acre extends it in
 * place if the next addresses are free. Otherwise acre maps all memory at a larger range, and the
 * address changes. With the strategies copy and managed, acre copies the elements to a larger
 * block.
 * Sync: if the address changes, waits for the work queued on `stream` and for all recorded uses. */
ACRE_API acre_status acre_vec_reserve(acre_vec *vec, size_t count, acre_stream stream);

/* Adds `count` elements with undefined contents. Beyond the reservation the address may change, as
 * in acre_vec_reserve. After a failure the vec is unchanged.
 * Returns ACRE_E_DEVICE_MEMORY, ACRE_E_HOST_MEMORY, ACRE_E_LIMIT or ACRE_E_ADDRESS_SPACE; the
 * detail has the bytes requested and available.
 * Sync: growth within the reservation does not wait for queued work, unless memory is short (see
 * acre_vec). If the address changes, waits like acre_vec_reserve. */
ACRE_API acre_status acre_vec_grow(acre_vec *vec, size_t count, acre_stream stream);

/* Sets the number of elements: grows like acre_vec_grow, or shrinks like acre_vec_shrink. */
ACRE_API acre_status acre_vec_resize(acre_vec *vec, size_t count, acre_stream stream);

/* Adds `count` elements and copies them from `from`, any memory, in stream order. acre_copy says
 * when the source may change. If the vec needs more physical memory, the call maps an additional
 * eighth of the vec's current memory (at most 256 MiB), so that many small appends need few driver
 * calls. Otherwise like acre_vec_grow.
 * Returns ACRE_E_CAPTURING while the stream is captured. */
ACRE_API acre_status acre_vec_append(acre_vec *vec, const void *from, size_t count,
                                     acre_stream stream);

/* Removes the last `count` elements and keeps the address. Releases the chunks that lie entirely
 * behind the remaining elements, but keeps `ahead_bytes` mapped. With the strategies copy and
 * managed, releases nothing.
 * Sync: if it releases chunks, waits for the work queued on `stream` and for all recorded uses. */
ACRE_API acre_status acre_vec_shrink(acre_vec *vec, size_t count, acre_stream stream);

/* Releases all chunks that the elements do not need. The thread for `ahead_bytes` pauses until the
 * next growth. With the strategies copy and managed, releases nothing.
 * Sync: like acre_vec_shrink. */
ACRE_API acre_status acre_vec_shrink_to_fit(acre_vec *vec, acre_stream stream);

/* Removes all elements and keeps the memory. */
ACRE_API acre_status acre_vec_clear(acre_vec *vec);

/* Records that work queued on `stream` so far uses the vec. Call it after queueing the work, for
 * every stream other than the one that you will pass to the next call that may unmap memory. The
 * stream may belong to another device that has access to the vec, if acre created the stream.
 * Returns ACRE_E_HANDLE for a stream of a device without access, ACRE_E_CAPTURING while the stream
 * is captured.
 * Sync: waits while another thread's call changes the vec's memory. */
ACRE_API acre_status acre_vec_record_use(acre_vec *vec, acre_stream stream);

/* Gives another device of the same driver access to a vec, including memory that the vec gets
 * later, or takes the access away.
 * Returns ACRE_E_UNSUPPORTED for the strategies copy and managed. */
ACRE_API acre_status acre_vec_set_access(acre_vec *vec, acre_device *peer, acre_access access);

/* Properties and counters of a vec. */
typedef struct acre_vec_info {
    size_t struct_size; /* set by the caller */
    acre_device *device;
    void *data;
    uint64_t element_bytes;
    uint64_t size, capacity; /* in elements */
    uint64_t mapped_bytes;
    uint64_t chunks;       /* of physical memory */
    uint64_t moves;        /* times that the address changed */
    uint64_t copied_bytes; /* by growth; 0 with ACRE_VEC_VMM */
    acre_kind kind;
    acre_vec_strategy strategy; /* the one in use, never ACRE_VEC_AUTO */
} acre_vec_info;

/* Gets the properties and counters of a vec. */
ACRE_API acre_status acre_vec_get_info(const acre_vec *vec, acre_vec_info *info);

#ifdef __cplusplus
}
#endif

#endif
