/* Suspending: declarations shared by the files of src/suspend.
 *
 * A suspend chooses the mappings that leave (suspend_choose.c). What their memory holds is a list
 * of *spans*, each at one address of one chunk. Spans that are kept get room in a *store*, host
 * memory or a file (suspend_store.c). Chunk ids are never reused, so a span of a chunk that was
 * freed meanwhile is not brought back, even if other memory has its address. */
#ifndef ACRE_SUSPEND_SUSPEND_H
#define ACRE_SUSPEND_SUSPEND_H

#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "device/device.h"
#include "device/live.h"
#include "space/away.h"

struct acre__store;

/* Contents that are kept. */
struct acre__span {
    uint64_t at, bytes;        /* addresses of the device */
    uint64_t live_bytes;       /* of blocks and objects; the rest is gaps between them */
    uint64_t chunk;            /* id of the chunk that they are in */
    struct acre__store *store; /* NULL: no room yet */
    char *host;                /* in the store */
    uint8_t is_file;           /* ACRE_SUSPEND_FILE */
    uint8_t is_unchanged;      /* the program has not written them since they were kept last */
    uint8_t is_copied;         /* `host` has the contents */
    uint8_t is_due;            /* to be copied now */
};

/* Spans by rising address. */
struct acre__spans {
    struct acre__span *list;
    size_t count, room;
};

struct acre_suspended {
    struct acre__live live; /* first: its address is the handle */
    uint64_t id;            /* of the mappings that this suspend took away */
    uint32_t flags;         /* ACRE_SUSPEND_WAIT, ACRE_SUSPEND_RETAIN */
    int is_whole;           /* everything on the device is suspended */
    struct acre__spans spans;
    acre_suspend_info info;
};

/* ---- suspend_choose.c ---- */

/* What leaves the device. */
struct acre__chosen {
    const acre_suspend_options *options;
    acre_suspend_rule *rules; /* the options' rules, complete */
    acre_device *dev;
    struct acre__away away;
    struct acre__spans spans;
    acre_suspend_info info;
    void *lives, *objects; /* live blocks of pools, other blocks: by rising address */
    size_t live_count, live_room, object_count, object_room;
    int is_short; /* out of host memory */
};

/* Checks the options and copies the rules. */
acre_status acre__choose_begin(struct acre__chosen *chosen, acre_device *dev,
                               const acre_suspend_options *options);
/* Collects the live blocks of pools. No lock held, outside a move. */
acre_status acre__choose_blocks(struct acre__chosen *chosen);
/* Chooses, inside a move. Returns ACRE_E_BUSY if other processes share memory that would leave. */
acre_status acre__choose_mappings(struct acre__chosen *chosen);
void acre__choose_end(struct acre__chosen *chosen);

/* ---- suspend_store.c ---- */

/* Gives every span room in a store and copies its contents there, unless a retained span has them
 * unchanged. Sets host_bytes, file_bytes and copied_bytes. Copies on `stream`, which nobody else
 * uses. Inside a move. */
acre_status acre__spans_keep(const struct acre__away *away, struct acre__spans *spans,
                             const char *folder, acre_stream stream, acre_suspend_info *info);
/* Copies contents back, of the spans whose chunk is still there. The mappings have memory. Inside a
 * move. */
acre_status acre__spans_bring(const struct acre__away *away, struct acre__spans *spans,
                              acre_stream stream);
/* Copies contents to host memory; returns 0 if not all bytes are in spans. */
int acre__spans_read(const struct acre__spans *spans, uint64_t at, size_t bytes, char *to);
/* Frees spans and the stores that nobody uses any more. */
void acre__spans_free(struct acre__spans *spans);
/* Retains spans for the next suspend, together with those that are retained already; or frees all
 * retained ones. */
void acre__spans_retain(acre_device *dev, struct acre__spans *spans);
void acre__spans_forget(const acre_device *dev);

/* Adds a span; returns 0 if out of host memory. */
int acre__span_add(struct acre__spans *spans, const struct acre__span *span);

/* ---- suspend_quiet.c ---- */

/* Waits for all work of the device and of the devices that use its memory, until time `until_ns`.
 * Returns ACRE_E_BUSY if it has not ended then, ACRE_E_CAPTURING if a stream of acre's is
 * captured. */
acre_status acre__quiet_wait(acre_device *dev, uint64_t until_ns, uint64_t timeout_ms);
/* Waits for waits that were given up, if there are any; by `until_ns`, or ACRE_E_BUSY. */
acre_status acre__quiet_join(const acre_device *dev, uint64_t until_ns, uint64_t timeout_ms);
/* Waits for waits that were given up, however long they take. */
void acre__quiet_end(const acre_device *dev);

#endif
