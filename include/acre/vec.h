/* Arrays that grow in place. Part of acre.h. */
#ifndef ACRE_VEC_H
#define ACRE_VEC_H

#include "mem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A vec is a contiguous array of device, pinned or managed memory that grows and shrinks. Its
 * addresses are reserved far ahead, by default as many as the device has memory, and physical
 * memory is put behind them as it grows: nothing is copied, the address stays, and it can become as
 * large as the card.
 *
 * `stream` in these calls is the one whose work uses the vec. Memory is only unmapped after the
 * work queued so far on it, and on every stream named by acre_vec_record_use, is done; no call ever
 * waits for the whole device, but for those that free a block of strategy copy or managed (see
 * acre_mem_free). Calls on one vec may come from several threads; destroying it while another
 * thread uses it is the program's mistake. */
typedef struct acre_vec acre_vec;

/* How a vec gets larger. */
typedef enum acre_vec_strategy {
    ACRE_VEC_AUTO = 0, /* by mapping where the device can, else by copying */
    ACRE_VEC_VMM = 1,  /* by mapping: nothing is copied; ACRE_E_UNSUPPORTED where that is missing */
    ACRE_VEC_COPY = 2, /* by a larger block, to which the contents are copied */
    ACRE_VEC_MANAGED = 3 /* managed memory, taken as far as it was reserved; beyond by copying */
} acre_vec_strategy;

#define ACRE_VEC_SHAREABLE 1u /* other processes can be given it; chunks of 64 MiB and more */
#define ACRE_VEC_RDMA 2u      /* other PCI devices should reach it, where the device can */

/* Zero in any field means the default. */
typedef struct acre_vec_options {
    size_t struct_size;
    acre_kind kind;             /* device (default), pinned or managed */
    acre_vec_strategy strategy; /* managed memory: ACRE_VEC_MANAGED or auto */
    uint64_t address_bytes;     /* addresses at first; the device's memory, managed: 256 MiB */
    uint64_t limit_bytes;       /* of physical memory, not counting what is being copied; none */
    uint64_t ahead_bytes;       /* vmm: a thread keeps this much mapped ahead of the size; none */
    uint64_t chunk_bytes;       /* smallest chunk; 2 MiB, shareable: 64 MiB */
    uint32_t flags;             /* ACRE_VEC_* */
    uint32_t reserved;
} acre_vec_options;

/* Makes an empty vec of elements of `element_bytes` each; `options` may be NULL. */
ACRE_API acre_status acre_vec_create(acre_device *device, size_t element_bytes,
                                     const acre_vec_options *options, acre_vec **vec);

/* Ends it after the work queued on `stream`, and all recorded uses, are done. NULL is a no-op.
 * ACRE_E_BUSY while it is shared. */
ACRE_API acre_status acre_vec_destroy(acre_vec *vec, acre_stream stream);

/* Where it begins and how many elements it has. The address is NULL before the first element or
 * reservation, and changes only when a call says so. NULL and 0 for what is no vec. */
ACRE_API void *acre_vec_data(const acre_vec *vec);
ACRE_API size_t acre_vec_size(const acre_vec *vec);
/* Elements that the reserved addresses hold. */
ACRE_API size_t acre_vec_capacity(const acre_vec *vec);
/* Bytes of physical memory that it has. */
ACRE_API uint64_t acre_vec_mapped_bytes(const acre_vec *vec);

/* Makes addresses for `count` elements in all; it never gets less. They are extended in place if
 * the next addresses are free, otherwise all memory is mapped at a larger range and the address
 * changes (strategies copy and managed: the contents are copied). */
ACRE_API acre_status acre_vec_reserve(acre_vec *vec, size_t count, acre_stream stream);

/* Adds `count` elements, whose contents are undefined. Past the reservation as acre_vec_reserve.
 * Returns ACRE_E_DEVICE_MEMORY, ACRE_E_HOST_MEMORY, ACRE_E_LIMIT or ACRE_E_ADDRESS_SPACE, with
 * wanted and available bytes in the detail; the vec is then as it was. */
ACRE_API acre_status acre_vec_grow(acre_vec *vec, size_t count, acre_stream stream);

/* Sets the number of elements: as acre_vec_grow or acre_vec_shrink by the difference. */
ACRE_API acre_status acre_vec_resize(acre_vec *vec, size_t count, acre_stream stream);

/* Adds `count` elements and copies them from `from`, which is any memory, in stream order (see
 * acre_copy for when the source may be changed). Physical memory is added by an eighth of what
 * there is at a time, so that many small appends cost few driver calls. */
ACRE_API acre_status acre_vec_append(acre_vec *vec, const void *from, size_t count,
                                     acre_stream stream);

/* Takes the last `count` elements away. Chunks that lie wholly behind the rest, and behind what is
 * to be mapped ahead, are released, after their uses; the address stays. Strategies copy and
 * managed keep their memory. */
ACRE_API acre_status acre_vec_shrink(acre_vec *vec, size_t count, acre_stream stream);

/* Gives back all chunks that the elements do not need; nothing is mapped ahead until the next grow.
 * Strategies copy and managed keep their memory. */
ACRE_API acre_status acre_vec_shrink_to_fit(acre_vec *vec, acre_stream stream);

/* Takes all elements away and keeps the memory. */
ACRE_API acre_status acre_vec_clear(acre_vec *vec);

/* Says that work queued on `stream` so far uses the vec. Call it after queueing, for every stream
 * but those given to the calls above; also for streams of acre's of another device that was given
 * access (others: ACRE_E_HANDLE). ACRE_E_CAPTURING while the stream is captured. Sync: waits while
 * another thread's call shrinks or moves the vec. */
ACRE_API acre_status acre_vec_record_use(acre_vec *vec, acre_stream stream);

/* Gives another device of the same driver access to all of a vec, now and as it grows, or takes it
 * away. Strategy copy and managed: ACRE_E_UNSUPPORTED. */
ACRE_API acre_status acre_vec_set_access(acre_vec *vec, acre_device *peer, acre_access access);

/* What a vec is and did. */
typedef struct acre_vec_info {
    size_t struct_size; /* set by the caller */
    acre_device *device;
    void *data;
    uint64_t element_bytes;
    uint64_t size, capacity; /* in elements */
    uint64_t mapped_bytes;
    uint64_t chunks;       /* that it is made of */
    uint64_t moves;        /* times that its address changed */
    uint64_t copied_bytes; /* by growing: 0 for strategy vmm */
    acre_kind kind;
    acre_vec_strategy strategy; /* never auto */
} acre_vec_info;

ACRE_API acre_status acre_vec_get_info(const acre_vec *vec, acre_vec_info *info);

#ifdef __cplusplus
}
#endif

#endif
