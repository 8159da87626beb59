/* A device: the driver's table, one primary context, and the records of what acre created on it.
 *
 * Devices live in a static array of slots and never move, so a handle is checked by its address and
 * one bit, without dereferencing it. Slots are assigned round robin, so a closed handle stays
 * invalid as long as possible. Fields that calls read without a lock are written before the slot's
 * bit is set and stay unchanged until it is cleared. Closing a device that another thread is using
 * is a bug of the caller. */
#ifndef ACRE_DEVICE_DEVICE_H
#define ACRE_DEVICE_DEVICE_H

#include <stdatomic.h>
#include <stdint.h>

#include "acre.h"
#include "base/lock.h"
#include "base/tree.h"
#include "driver/driver.h"
#include "device/limbo.h"

enum { ACRE__DEVICE_SLOTS = 64 }; /* devices open at the same time: the bits of one word */

/* Streams that the program destroyed, the oldest first. One queue for each combination of the flags
 * of acre_stream_create. */
enum { ACRE__PARKED_QUEUES = 4 };
struct acre__parked {
    struct acre__limbo_item *first, **end; /* `end` is valid if there is a first one */
    size_t count;
};

struct acre_device {
    /* Fixed while open. */
    const struct acre__driver *drv;
    CUdevice device;
    CUcontext context; /* the primary context, retained */
    uint32_t ordinal;
    char label[24];        /* "cuda:0", for messages */
    acre_device_info info; /* all fields but free_bytes and open_count */
    struct acre__limbo_item *context_item;
    struct acre__stats_row *row; /* row of ACRE_STATS (watch/stats_file.h), or NULL */
    _Atomic uint64_t row_peak;   /* highest chunk_bytes + mem_bytes in the row */

    _Atomic uint32_t lost;            /* the sticky error code that lost the device; 0: not lost */
    _Atomic uint64_t driver_refusals; /* driver calls that failed */

    /* Not 0: everything is suspended, the device gets no memory. What calls do then:
     * space/mapped.h. */
    _Atomic uint32_t is_suspended;
    /* 1: a suspend is at work, and pools allocate nothing (pool/pool_suspend.h). */
    _Atomic uint32_t is_suspending;

    _Atomic uint64_t limit_bytes, margin_bytes; /* of acre_device_set_limits; 0: none */
    _Atomic uint64_t held_bytes;                /* see held.h */
    _Atomic uint64_t pool_idle_bytes;           /* of those, what pools hold and have not served */

    _Atomic uint64_t users; /* bits by device number: devices whose work may use this memory */

    _Atomic uint32_t open_count; /* opens not yet closed; changed under the registry lock */

    struct acre__lock lock; /* guards the trees, the limbo and the counts of the next lines */
    int lock_ready;         /* the lock is initialised; it is never destroyed */
    struct acre__tree streams, events;               /* created by acre, by handle: see stream.c */
    struct acre__parked parked[ACRE__PARKED_QUEUES]; /* of `streams`, by flags */
    uint64_t streams_parked; /* of `streams`: destroyed by the program, in a queue or held */
    struct acre__limbo limbo;
    uint64_t streams_created, events_created, limbo_retired, trims;

    /* Counted by the layers above since the device was opened. Last, so that updates do not share a
     * cache line with fields that every call reads. */
    _Atomic uint64_t copies_direct, copies_staged, grow_moves, grow_copied_bytes;
};

/* Returns ACRE_OK if the handle is an open device, else ACRE_E_NULL or ACRE_E_HANDLE. Safe for any
 * pointer value. */
acre_status acre__device_check(const acre_device *dev);

/* Checks at the start of public functions: acre__enter, then acre__device_check. acre__device_enter
 * also returns ACRE_E_DEVICE_LOST for a lost device. Functions that only update records or free
 * memory use acre__device_enter_books, which accepts a lost device. */
acre_status acre__device_enter(acre_device *dev);
acre_status acre__device_enter_books(const acre_device *dev);

/* 1 if a sticky error has lost the device. */
int acre__device_is_lost(acre_device *dev);

/* 1 for a soft device with a seed: acre must not start threads then, since they would not follow
 * the seeded order. */
int acre__device_is_seeded(const acre_device *dev);

/* Records that work of device `user` may use memory of `owner` from now on: it got access, or takes
 * part in a copy. Before such memory is released, acre waits for that device too. */
void acre__device_note_user(acre_device *owner, CUdevice user);
/* 1 if acre__device_note_user recorded the device. */
int acre__device_is_user(const acre_device *owner, CUdevice user);

/* The state that acre__device_push saves and acre__device_pop restores. */
struct acre__current {
    CUcontext before;
    int pushed;     /* 0: the device's context was already current */
    int is_relaxed; /* 1: the thread's capture mode was changed; `mode` is the old one */
    CUstreamCaptureMode mode;
    acre_status status; /* for acre__device_call: failure of the push, or ACRE_OK */
    CUresult code;      /* for acre__device_call: result of the driver calls */
};

/* acre__device_push makes the device's context current; acre__device_pop restores the previous one.
 * Every push that returned CUDA_SUCCESS needs a pop on the same thread. If the driver refuses a
 * pop, acre retries it and then calls cuCtxSetCurrent. The pop has no result, since no caller could
 * do more. On failure of the push *what is the name of the driver function that failed. */
CUresult acre__device_push(acre_device *dev, struct acre__current *current, const char **what);
void acre__device_pop(acre_device *dev, const struct acre__current *current);

/* As acre__device_push; also sets the thread's capture mode to relaxed, so that calls that allocate
 * or free do not invalidate a capture of the program. */
CUresult acre__device_push_relaxed(acre_device *dev, struct acre__current *current,
                                   const char **what);

/* Push and pop around the driver calls of a function. acre__device_call returns 1 if the calls can
 * be made; the function then stores the code of the last one in current->code. The function calls
 * acre__device_done in either case, which pops and returns the status of push and calls; `what` is
 * the name of the last call. */
int acre__device_call(acre_device *dev, struct acre__current *current);
int acre__device_call_relaxed(acre_device *dev, struct acre__current *current);
acre_status acre__device_done(acre_device *dev, const struct acre__current *current,
                              const char *what);

/* Variants that return a status, for functions that do more between push and pop. Call
 * acre__device_end only after acre__device_begin returned ACRE_OK. */
acre_status acre__device_begin(acre_device *dev, struct acre__current *current);
acre_status acre__device_begin_relaxed(acre_device *dev, struct acre__current *current);
acre_status acre__device_end(acre_device *dev, struct acre__current *current, CUresult code,
                             const char *what);

/* Hooks run by layer: ABOVE, then OBJECT, then BELOW. */
enum acre__hook_layer {
    ACRE__HOOK_OBJECT = 0, /* memory, copies, vecs, heaps, acre_vm_* */
    ACRE__HOOK_ABOVE = 1,  /* built on objects, so it runs before them: pools, shares, plans */
    ACRE__HOOK_BELOW = 2   /* objects are built on it, so it runs after them: space */
};

/* Callbacks of upper layers. A layer registers its hooks once, on first use; at most 16 in all.
 * `close` runs with the registry lock held. The other hooks may run under the registry lock too,
 * and under other locks that rank below ACRE__RANK_POOL_LIST. */
struct acre__device_hooks {
    enum acre__hook_layer layer;
    acre_status (*trim)(acre_device *dev); /* releases unused memory */
    void (*close)(acre_device *dev);       /* the device closes: releases everything on it */
    acre_status (*retire)(acre_device *dev, acre_stream stream); /* the stream is about to end */
    /* The device is out of memory of this kind: releases unused memory; with `wait`, waits for work
     * in flight first. Returns the number of bytes released. */
    uint64_t (*reclaim)(acre_device *dev, acre_kind kind, int wait);
    /* The device is out of memory, and nothing unused is left: moves memory in use elsewhere, about
     * `bytes`. Returns the number of bytes released. */
    uint64_t (*spill)(acre_device *dev, uint64_t bytes);
    void (*synced)(acre_device *dev); /* the program has waited for all work of the device */
    void (*stats)(acre_device *dev, acre_device_stats *stats); /* fills in the layer's fields */
};
void acre__device_hooks_add(const struct acre__device_hooks *hooks);
/* Runs the trim hooks: with `is_below` those of ACRE__HOOK_BELOW, else all others. */
acre_status acre__device_hooks_trim(acre_device *dev, int is_below);
/* acre_trim without the checks and its count. */
acre_status acre__device_trim(acre_device *dev);
acre_status acre__device_hooks_retire(acre_device *dev, acre_stream stream);
/* Reclaims memory for a request of `bytes` that failed with `status` for lack of memory of the
 * kind; `tries` counts earlier calls for this request. Returns 1 if memory was released, so that
 * the caller can retry. Keeps the last detail. The caller holds no lock of rank
 * ACRE__RANK_POOL_LIST or higher. */
int acre__device_reclaim(acre_device *dev, acre_kind kind, uint64_t bytes, acre_status status,
                         int tries);
/* Runs the reclaim hooks of ACRE__HOOK_OBJECT: for pools, which reclaim their own memory
 * themselves. Returns the number of bytes released. */
uint64_t acre__device_reclaim_objects(acre_device *dev, acre_kind kind, int wait);
void acre__device_hooks_stats(acre_device *dev, acre_device_stats *stats);

/* Stores the device's statistics for ACRE_STATS. The caller keeps the device open and holds no lock
 * but the registry's. */
void acre__device_export(acre_device *dev);

/* The slot number of an open device, 0 .. ACRE__DEVICE_SLOTS - 1; upper layers index their
 * per-device data with it. */
unsigned acre__device_index(const acre_device *dev);

/* The open device after `dev` (NULL: the first) that has the same driver as `of` (NULL: any); NULL
 * after the last. */
acre_device *acre__device_next(const acre_device *of, const acre_device *dev);

/* The open device of the same driver that created the stream; `dev` if none is known. */
acre_device *acre__stream_device(acre_device *dev, acre_stream stream);

/* Creates and destroys a stream of acre's own, whose handle the program never gets. */
acre_status acre__stream_create_own(acre_device *dev, uint32_t flags, acre_stream *stream);
acre_status acre__stream_destroy_own(acre_device *dev, acre_stream stream);

/* For calls that queue work on the stream, or ask about it. Returns ACRE_E_HANDLE if the program
 * has destroyed the stream, or if another open device is known to have created it. */
acre_status acre__stream_check(acre_device *dev, acre_stream stream);
/* For calls that only wait for earlier work of the stream, such as frees: as acre__stream_check,
 * but accepts a stream that the program has destroyed. */
acre_status acre__stream_check_past(acre_device *dev, acre_stream stream);

/* As acre__driver_fail, for a driver call on a stream: says so if the driver does not know the
 * stream. */
acre_status acre__stream_fail(acre_device *dev, acre_stream stream, CUresult code,
                              const char *what);
/* As acre__device_done, for driver calls on a stream. */
acre_status acre__stream_done(acre_device *dev, acre_stream stream,
                              const struct acre__current *current, const char *what);

/* 1 for a stream that the program created with CUDA and may destroy without notice; 0 for default
 * streams and streams that acre created. */
int acre__stream_is_foreign(acre_device *dev, acre_stream stream);
/* 1 for a stream of acre that the program has destroyed. */
int acre__stream_is_past(acre_device *dev, acre_stream stream);
/* Notes that memory is attached to the stream until the driver destroys it. */
void acre__stream_note_attached(acre_device *dev, acre_stream stream);

/* 1 if only its own queue orders the stream: the legacy stream, and streams created with
 * ACRE_STREAM_NON_BLOCKING. Work of other streams waits for the legacy stream's work, which
 * cuStreamQuery on them does not see. */
int acre__stream_is_independent(acre_device *dev, acre_stream stream);
/* 1 if the stream may be captured: not the legacy default stream, nor a stream created with
 * ACRE_STREAM_NO_CAPTURE. */
int acre__stream_is_capturable(acre_device *dev, acre_stream stream);
/* 0 if the stream is not being captured; 1 if it is, or if the query fails. The query does not
 * invalidate a capture. */
int acre__stream_is_captured(acre_device *dev, acre_stream stream);
/* 1 if a stream that acre created on the device is being captured. */
int acre__streams_any_captured(acre_device *dev);
/* As acre__stream_is_captured, but returns a status. A lost device or a stream that cannot be
 * captured counts as not captured. */
acre_status acre__stream_ask_captured(acre_device *dev, acre_stream stream, int *is_captured);

/* Returns ACRE_E_CAPTURING, with `why` as its detail, while the stream is being captured. The query
 * does not invalidate the capture. */
acre_status acre__stream_not_captured(acre_device *dev, acre_stream stream, const char *why);

/* For open.c: create and destroy a device. The caller holds the registry lock. acre__device_create
 * returns an open slot with an open count of 1. */
acre_status acre__device_create(const struct acre__driver *drv, uint32_t ordinal,
                                acre_device **out);
void acre__device_destroy(acre_device *dev);
/* The open device with this driver and number, or NULL. */
acre_device *acre__device_find(const struct acre__driver *drv, uint32_t ordinal);

/* For acre__device_destroy: destroys all remaining streams and events that acre created. */
void acre__streams_end(acre_device *dev);

#endif
