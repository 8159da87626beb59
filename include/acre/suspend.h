/* Suspend and resume: device memory leaves, and addresses stay. Part of acre.h. */
#ifndef ACRE_SUSPEND_H
#define ACRE_SUSPEND_H

#include "pool.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A program that is idle can release its device memory to others, and have it back later at the
 * same addresses. acre_suspend copies the contents to host memory or to a file, or drops them, and
 * releases the physical memory; acre_resume brings both back. Pointers, handles and captured graphs
 * stay valid.
 *
 * What leaves: the memory of pools of kind ACRE_KIND_DEVICE, of vecs, plans, heaps and ranges, and
 * blocks of acre_mem_alloc of 2 MiB and more; in short, everything that acre mapped. What stays:
 * smaller blocks of acre_mem_alloc, pinned and managed memory, memory mapped by acre_vm_map, memory
 * that other processes share (acre_suspend returns ACRE_E_BUSY for that), and the CUDA context.
 *
 * While memory is away, the program must not use it: a kernel or a copy by CUDA's own functions
 * that touches it fails as on any unmapped address. In acre, frees succeed. Calls that would need
 * the memory return ACRE_E_SUSPENDED, or with ACRE_SUSPEND_WAIT wait for acre_resume: copies and
 * fills that touch it, and allocations from pools that have memory away. Unless the options say
 * ACRE_SUSPEND_STAY for memory without a rule, all calls that allocate device memory do so, too,
 * also in parts that stay.
 *
 * Threads: any thread may suspend and resume, while others use acre. */
typedef struct acre_suspended acre_suspended;

/* What happens to memory. */
typedef enum acre_suspend_how {
    ACRE_SUSPEND_KEEP = 0, /* it leaves; its contents are kept in host memory */
    ACRE_SUSPEND_FILE = 1, /* it leaves; its contents are kept in a file, see `folder` */
    ACRE_SUSPEND_DROP = 2, /* it leaves; its contents are lost, and undefined after acre_resume */
    ACRE_SUSPEND_STAY = 3  /* it stays on the device */
} acre_suspend_how;

enum {
    /* Calls that need memory that is away wait for acre_resume instead of returning
     * ACRE_E_SUSPENDED. */
    ACRE_SUSPEND_WAIT = 1,
    /* The copies in host memory or files stay after acre_resume, until acre_suspend_forget,
     * acre_trim or acre_close. The next suspend is faster, because their pages exist, and does not
     * copy again what is marked as unchanged. */
    ACRE_SUSPEND_RETAIN = 2
};

/* Which memory, and what happens to it. A rule applies to memory that matches all of its fields
 * that are set. */
typedef struct acre_suspend_rule {
    size_t struct_size;
    const char *tag;       /* blocks of pools with this tag or one below it (acre/tag.h); or NULL */
    const acre_pool *pool; /* memory of this pool; or NULL */
    /* What has this address: a block, vec, plan, heap or range; or NULL. An address of its memory,
     * such as acre_vec_data, not the handle. */
    const void *object;
    acre_suspend_how how;
    /* 1: the program has not written these contents since the acre_resume that brought them back.
     * If that suspend had ACRE_SUSPEND_RETAIN, they are not copied again. */
    uint32_t is_unchanged;
} acre_suspend_rule;

/* Zero in any field means the default. */
typedef struct acre_suspend_options {
    size_t struct_size;
    acre_suspend_how how; /* for memory to which no rule applies; default ACRE_SUSPEND_KEEP */
    uint32_t flags;       /* ACRE_SUSPEND_WAIT, ACRE_SUSPEND_RETAIN */
    const acre_suspend_rule *rules; /* the first one that matches applies */
    size_t rule_count;
    const char *folder;  /* for ACRE_SUSPEND_FILE, which needs it; the file has no name in it */
    uint64_t timeout_ms; /* for the work in flight to end; default 30 s */
} acre_suspend_options;

/* What a suspend did, in bytes. */
#define ACRE_SUSPEND_INFO_LIST(X)                                                                  \
    X(released_bytes, "device memory that left")                                                   \
    X(kept_bytes, "contents kept")                                                                 \
    X(copied_bytes, "contents copied from the device; the rest was unchanged")                     \
    X(dropped_bytes, "contents of live blocks and objects that were dropped")                      \
    X(host_bytes, "host memory that holds contents")                                               \
    X(file_bytes, "file that holds contents")                                                      \
    X(stayed_bytes, "device memory of acre that stayed, because a rule says so or a block beside " \
                    "it in the same physical memory stays")

typedef struct acre_suspend_info {
    size_t struct_size; /* set by the caller */
#define ACRE_SUSPEND_FIELD(name, meaning) uint64_t name;
    ACRE_SUSPEND_INFO_LIST(ACRE_SUSPEND_FIELD)
#undef ACRE_SUSPEND_FIELD
} acre_suspend_info;

/* Suspends memory of a device. Without options, everything that can leave does, and all contents
 * are kept in host memory. Parts of the device can be suspended one after the other, and resumed in
 * any order: use ACRE_SUSPEND_STAY as the default, and rules for the parts.
 *
 * A pool maps its physical memory in pieces of 2 MiB and more. If rules treat blocks of one piece
 * differently, the piece leaves only if all its blocks do; use a pool, or large blocks, for each
 * part.
 *
 * The contents of heaps and of pools with ACRE_POOL_DEBUG are always kept, since their own records
 * are among them. Rules by tag do not apply to pools with ACRE_POOL_DEBUG.
 *
 * All or nothing: after a failure all memory is where it was, with its contents.
 * Returns ACRE_E_BUSY if other processes share the memory, or if work has not ended within the
 * timeout; ACRE_E_CAPTURING while a stream is captured; ACRE_E_HOST_MEMORY, ACRE_E_SYSTEM (the file
 * cannot be written, for instance because the disk is full), ACRE_E_SUSPENDED if everything is
 * suspended already, ACRE_E_DRIVER.
 * Sync: waits for all work of the device's context. */
ACRE_API acre_status acre_suspend(acre_device *device, const acre_suspend_options *options,
                                  acre_suspended **suspended);

/* Brings everything back that the suspend released and that was not freed meanwhile, and frees
 * `suspended`.
 * All or nothing: after a failure everything is still suspended, and the call may be repeated.
 * Returns ACRE_E_DEVICE_MEMORY if the device has too little free memory; the detail has the bytes
 * that are missing. ACRE_E_CAPTURING, ACRE_E_DRIVER.
 * Sync: returns when the contents are there. */
ACRE_API acre_status acre_resume(acre_suspended *suspended);

/* Gets what a suspend did. */
ACRE_API acre_status acre_suspend_get_info(const acre_suspended *suspended,
                                           acre_suspend_info *info);

/* Copies contents that a suspend keeps, in host memory or in a file, to `to`: `bytes` bytes of the
 * device address `p`, as they were when they left. Bytes of free or dropped memory in between are
 * undefined.
 * Returns ACRE_E_POINTER, and writes nothing, if the suspend does not keep these bytes. */
ACRE_API acre_status acre_suspend_read(const acre_suspended *suspended, const void *p, size_t bytes,
                                       void *to);

/* Frees the copies that ACRE_SUSPEND_RETAIN left, except those of memory that is away. */
ACRE_API acre_status acre_suspend_forget(acre_device *device);

#ifdef __cplusplus
}
#endif

#endif
