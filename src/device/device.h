/* A device: the driver's table, one primary context, and the books of what acre made on it.
 *
 * Devices live in a static array of slots and never move, so a handle is checked by its address
 * and one bit, without following it. Slots are taken in turn, so a closed handle stays dead as long
 * as possible. What a call may read without a lock is written before the slot's bit is set and
 * stays until it is cleared; closing a device that another thread is using is the caller's mistake.
 */
#ifndef ACRE_DEVICE_DEVICE_H
#define ACRE_DEVICE_DEVICE_H

#include <stdatomic.h>
#include <stdint.h>

#include "acre.h"
#include "base/lock.h"
#include "base/tree.h"
#include "driver/driver.h"
#include "device/limbo.h"

enum { ACRE__DEVICE_SLOTS = 64 }; /* open at once: the bits of one word */

struct acre_device {
    /* Fixed while open. */
    const struct acre__driver *drv;
    CUdevice device;
    CUcontext context; /* the primary context, retained */
    uint32_t ordinal;
    char label[24];        /* "cuda:0", for messages */
    acre_device_info info; /* all but free_bytes and open_count */
    struct acre__limbo_item *context_item;
    struct acre__stats_row *row; /* for ACRE_STATS (watch/stats_file.h), or NULL */

    _Atomic uint32_t lost; /* the sticky code that ended the device, 0 while it is well */
    _Atomic uint64_t driver_refusals; /* driver calls that failed */

    _Atomic uint64_t users; /* by number: other devices whose work may use this one's memory */

    _Atomic uint32_t open_count; /* opens not yet closed; changed under the registry lock */

    struct acre__lock lock; /* guards the rest */
    int lock_ready;         /* the lock was initialised; it then stays for the process's life */
    struct acre__tree streams, events; /* made by acre and not destroyed, by handle */
    struct acre__limbo limbo;
    uint64_t streams_created, events_created, limbo_retired, trims;

    /* Counted by the layers above, since the device was opened; away from what every call reads. */
    _Atomic uint64_t copies_direct, copies_staged, grow_moves, grow_copied_bytes;
};

/* ACRE_OK if the handle is an open device, else ACRE_E_NULL or ACRE_E_HANDLE. Any value is safe. */
acre_status acre__device_check(const acre_device *dev);

/* How public functions on a device begin: acre__enter, the check, and ACRE_E_DEVICE_LOST if it is
 * lost. Functions that only keep books, or give back, work on a lost device too. */
acre_status acre__device_enter(acre_device *dev);
acre_status acre__device_enter_books(const acre_device *dev);

/* 1 after a sticky error. */
int acre__device_is_lost(acre_device *dev);

/* 1 for a soft device with a seed: threads of acre's own would not follow its order. */
int acre__device_is_seeded(const acre_device *dev);

/* Work of another device may use memory of this one from now on: it was given access, or is part of
 * a copy. Who ends such memory waits for that device too. */
void acre__device_note_user(acre_device *owner, CUdevice user);
/* 1 if that was said of the device. */
int acre__device_is_user(const acre_device *owner, CUdevice user);

/* What was current before acre__device_push. */
struct acre__current {
    CUcontext before;
    int pushed;     /* 0: the device's context was current already */
    int is_relaxed; /* the thread's capture mode was changed from `mode` */
    CUstreamCaptureMode mode;
    acre_status status; /* for acre__device_call: why no driver call can be made, */
    CUresult code;      /* and what the driver calls came to */
};

/* Makes the device's context current, and what was current before current again. Every push that
 * returned CUDA_SUCCESS has its pop, on the same thread. A pop that the driver refuses is tried
 * again, then done by cuCtxSetCurrent; it has no result since no caller could do more. On failure
 * *what is the function that failed. */
CUresult acre__device_push(acre_device *dev, struct acre__current *current, const char **what);
void acre__device_pop(acre_device *dev, const struct acre__current *current);

/* The same, and calls that allocate or free do not break a capture of the program's meanwhile. */
CUresult acre__device_push_relaxed(acre_device *dev, struct acre__current *current,
                                   const char **what);

/* The same around the driver calls of a function: 1 if they can be made; the function then leaves
 * the code of the last one in current->code. acre__device_done is called in either case and returns
 * the status of all of it; `what` is the name of the last call. */
int acre__device_call(acre_device *dev, struct acre__current *current);
int acre__device_call_relaxed(acre_device *dev, struct acre__current *current);
acre_status acre__device_done(acre_device *dev, const struct acre__current *current,
                              const char *what);

/* The same for functions that have more to do in between: they end only after ACRE_OK. */
acre_status acre__device_begin(acre_device *dev, struct acre__current *current);
acre_status acre__device_begin_relaxed(acre_device *dev, struct acre__current *current);
acre_status acre__device_end(acre_device *dev, struct acre__current *current, CUresult code,
                             const char *what);

/* In which order hooks are called. */
enum acre__hook_layer {
    ACRE__HOOK_OBJECT = 0, /* memory, copies, vecs */
    ACRE__HOOK_ABOVE = 1,  /* stands on objects, so it comes before them: shares, plans */
    ACRE__HOOK_BELOW = 2   /* objects stand on it, so it comes after them: space */
};

/* What upper layers do with a device. Registered once, at their first use; at most 12. They are
 * called without locks. */
struct acre__device_hooks {
    enum acre__hook_layer layer;
    acre_status (*trim)(acre_device *dev); /* gives back what can be given back */
    void (*close)(acre_device *dev);       /* the device ends: drops all that belongs to it */
    acre_status (*retire)(acre_device *dev, acre_stream stream); /* the stream is about to end */
    /* Memory of the kind is short on the device: gives back what nobody uses, after waiting for
     * work that still does if `wait`. Returns how many bytes went. */
    uint64_t (*reclaim)(acre_device *dev, acre_kind kind, int wait);
    void (*synced)(acre_device *dev); /* the program has waited for all work of the device */
    void (*stats)(acre_device *dev, acre_device_stats *stats); /* fills in its part */
};
void acre__device_hooks_add(const struct acre__device_hooks *hooks);
/* With `is_below` the layer below the objects, else all others. */
acre_status acre__device_hooks_trim(acre_device *dev, int is_below);
acre_status acre__device_hooks_retire(acre_device *dev, acre_stream stream);
/* A call found no memory of the kind for `bytes`, `tries` times before: 1 if others gave some back,
 * so that it can be tried again. The last detail stays. No lock of pools or below is held. */
int acre__device_reclaim(acre_device *dev, acre_kind kind, uint64_t bytes, acre_status status,
                         int tries);
void acre__device_hooks_stats(acre_device *dev, acre_device_stats *stats);

/* Stores the device's statistics for ACRE_STATS. The caller keeps it open, and holds no lock but
 * the registry's. */
void acre__device_export(acre_device *dev);

/* The slot of an open device, 0 .. ACRE__DEVICE_SLOTS - 1: where upper layers keep theirs. */
unsigned acre__device_index(const acre_device *dev);

/* The open device after `dev` (NULL: the first) that has the same driver as `of` (NULL: any); NULL
 * after the last. */
acre_device *acre__device_next(const acre_device *of, const acre_device *dev);

/* The open device of the same driver that made the stream; `dev` itself if none is known to. */
acre_device *acre__stream_device(acre_device *dev, acre_stream stream);

/* ACRE_E_HANDLE when another open device is known to have made the stream. */
acre_status acre__stream_check(acre_device *dev, acre_stream stream);

/* 1 for a stream that the program made with CUDA and may destroy without telling; 0 for default
 * streams and those that acre made. */
int acre__stream_is_foreign(acre_device *dev, acre_stream stream);

/* 1 if nothing but its own queue orders the stream: the legacy stream, and those made with
 * ACRE_STREAM_NON_BLOCKING. Work of others waits for the legacy stream's, which cuStreamQuery does
 * not see. */
int acre__stream_is_independent(acre_device *dev, acre_stream stream);
/* 1 if the stream may be captured: not a legacy default stream, nor one made with
 * ACRE_STREAM_NO_CAPTURE. */
int acre__stream_is_capturable(acre_device *dev, acre_stream stream);
/* 0 if it is not captured right now; 1 if it is, or the driver does not say. Asking breaks nothing.
 */
int acre__stream_is_captured(acre_device *dev, acre_stream stream);
/* The same with a status. */
acre_status acre__stream_ask_captured(acre_device *dev, acre_stream stream, int *is_captured);

/* ACRE_E_CAPTURING, with `why` as its detail, while the stream is captured. Asking breaks nothing.
 */
acre_status acre__stream_not_captured(acre_device *dev, acre_stream stream, const char *why);

/* For open.c: fills a device in and ends it; the caller holds the registry lock. `create` returns
 * with the slot open and one open counted. */
acre_status acre__device_create(const struct acre__driver *drv, uint32_t ordinal,
                                acre_device **out);
void acre__device_destroy(acre_device *dev);
/* The open device with this driver and number, or NULL. */
acre_device *acre__device_find(const struct acre__driver *drv, uint32_t ordinal);

/* For acre__device_destroy: destroys all streams and events that acre made and that are left. */
void acre__streams_end(acre_device *dev);

#endif
