/* Serving: cuMemAlloc and cuMemFree from acre's pool, for programs that cannot be changed.
 *
 * A layer of the table behind the hooks, above the driver and below the ledger. Device memory that
 * a program allocates while the primary context of a device is current comes from a pool of acre on
 * that device. All other calls go to the driver. What the program can observe stays as it is with
 * the driver: cuMemFree waits for the device's work, a block has its own range, attributes and id,
 * and a call that the driver refuses during a capture is refused.
 *
 * acre runs in this library on a table of its own (shim_serve.c), which takes no reference to the
 * primary context: the program's last release still destroys it. Blocks that the pool cannot serve
 * come from the driver itself, with its error codes.
 *
 * Locks: each file says which it has. None is held during a call of acre or of the driver, except
 * acre__serve_enter's, that of serve_open, which opens a device once, that of a wait
 * (shim_captures.c), and those of shim_ipc.c and shim_peers.c. */
#ifndef ACRE_SHIM_SHIM_SERVE_H
#define ACRE_SHIM_SHIM_SERVE_H

#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "base/tree.h"
#include "driver/driver.h"

/* How to serve; words of ACRE_RUN. */
struct serve_options {
    int is_on;       /* serve */
    int defers;      /* defer: cuMemFree does not wait */
    int zeroes;      /* zero: blocks are zeroed */
    int ipc_is_real; /* ipc=driver: blocks of 2 MiB and more come from the driver */
};

/* Wraps functions of the table, which is a copy of `inner`. Called once, before other threads see
 * the table. */
void acre__serve_wrap(struct acre__driver *table, const struct acre__driver *inner,
                      const struct serve_options *options);
/* Forgets everything in a forked child, without a driver call. */
void acre__serve_forget(void);
/* After a driver call that may have destroyed the primary context of `dev`, which was `ctx`. The
 * caller holds acre__serve_hold. */
void acre__serve_context_ended(CUdevice dev, CUcontext ctx, int is_reset);
/* Returns the primary context of a device, or NULL if it is not active. */
CUcontext acre__serve_primary(CUdevice dev);
/* A context was destroyed. */
void acre__serve_context_gone(CUcontext ctx);
/* Before a call that begins a capture, in a form that the table does not have; and if it failed. */
void acre__serve_capturing(CUstream stream);
void acre__serve_not_capturing(CUstream stream);

/* Returns the name of a profiler's or sanitizer's library in this process, or NULL. */
const char *acre__profiler(void);

/* Makes room for a call that has returned CUDA_ERROR_OUT_OF_MEMORY, from memory that acre holds
 * idle: attempt 0 in this process, 1 in others under the same limit. Returns 1 if the call may
 * succeed now. */
int acre__serve_make_room(int attempt);

/* ---- devices (shim_serve.c) ---- */

struct serve_device {
    _Atomic(CUcontext) ctx; /* the primary context; NULL: not open */
    CUdevice dev;
    acre_device *device;
    acre_pool *pool;
    acre_stream stream; /* of all allocations and frees: memory that is free is free for all */
    CUevent event;      /* never recorded; see acre__captures_ask */
};

/* What all files need, set once by acre__serve_wrap. */
struct serve_state {
    const struct acre__driver *inner;
    struct serve_options options;
};
extern struct serve_state acre__serve;

/* Around everything that uses a pool: no device is closed meanwhile. They do not nest. */
void acre__serve_enter(void);
int acre__serve_try(void); /* returns 0 if one is being closed */
/* Around calls that may destroy a primary context, and around a suspend or a resume: no context
 * ends during one. Taken before acre__serve_enter. */
void acre__serve_hold(void);
void acre__serve_release(void);
void acre__serve_leave(void);

/* Waits for all work of a device, whatever context is current. Returns the driver's error. */
CUresult acre__serve_wait(const struct serve_device *device);
/* Returns the device whose primary context is current; NULL: none, or it cannot be served. */
struct serve_device *acre__serve_current(void);

/* ---- live blocks (shim_blocks.c) ---- */

struct serve_block {
    struct acre__node node; /* key: address */
    size_t bytes;           /* as requested */
    struct serve_device *device;
    uint64_t id;
    int is_sync;              /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS */
    int is_exported;          /* another process or device may use its physical memory */
    int is_import;            /* of another process: cuMemFree refuses it */
    struct serve_block *next; /* in a list of blocks that wait to be freed */
};

/* Adds a live block. Returns 0 without memory for its record. */
int acre__blocks_add(struct serve_device *device, CUdeviceptr address, size_t bytes, int is_import);
void acre__blocks_end_import(CUdeviceptr address);
/* Takes the program's own block at exactly this address out of the records; NULL: there is none.
 * Put it back, or free it. */
struct serve_block *acre__blocks_take(CUdeviceptr address);
void acre__blocks_put_back(struct serve_block *block);
/* Copies the block that contains the address; 0: there is none. */
int acre__blocks_find(CUdeviceptr address, struct serve_block *out);
void acre__blocks_set_sync(CUdeviceptr address, int is_sync);
/* Returns 1 if some live block has CU_POINTER_ATTRIBUTE_SYNC_MEMOPS. */
int acre__blocks_any_sync(void);
/* Returns 1 if the address is in such a block. */
int acre__blocks_is_sync(CUdeviceptr address);
/* Notes that others may use the physical memory of the block at the address. */
void acre__blocks_set_exported(CUdeviceptr address);
/* Returns 1 if some live block is exported. */
int acre__blocks_any_exported(void);
/* Forgets the blocks of a device; NULL: all, in a forked child. */
void acre__blocks_forget(const struct serve_device *device);

/* Addresses that acre has reserved. An address in one of these ranges that no live block contains
 * is unknown to the program, although the driver knows it. */
void acre__blocks_reserve(CUdeviceptr address, size_t bytes);
/* Before the driver releases the range, since it may give the addresses to another thread at once.
 * Returns the bytes, to reserve the range again if the driver refuses; 0 for another address. */
size_t acre__blocks_unreserve(CUdeviceptr address);
int acre__blocks_owns(CUdeviceptr address);

/* ---- captures and frees that wait (shim_captures.c) ---- */

/* Returns 1 while some stream is being captured. */
int acre__captures_any(void);
/* Returns the bytes of blocks that wait to be freed. */
uint64_t acre__captures_bytes(void);
/* Asks the driver whether it would allocate or free memory now. Returns its error if it refuses,
 * which also invalidates the captures, as it does for the program's own call. */
CUresult acre__captures_ask(const struct serve_device *device);
/* Frees a block to its pool: after the device's work is done, or later if something is captured or
 * frees are deferred. Returns the driver's error; the caller then still has the block. */
CUresult acre__captures_free(struct serve_block *block);
/* Frees blocks that wait and whose work is done. `waits`: waits for all of them, unless something
 * is captured. */
void acre__captures_drain(int waits);
/* Drops the blocks of a device that wait; NULL: all, in a forked child. */
void acre__captures_forget(const struct serve_device *device);
void acre__captures_wrap(struct acre__driver *table);

/* ---- memory of other processes (shim_ipc.c) ---- */

/* Returns 1 if the handle is one of the shim's, for acre__ipc_open. */
int acre__ipc_is_token(const CUipcMemHandle *handle);
CUresult acre__ipc_open(CUdeviceptr *ptr_out, const CUipcMemHandle *handle, unsigned int flags);
/* Closes a block of another process. Returns 0 for any other address. */
int acre__ipc_close(CUdeviceptr ptr, CUresult *result);
/* Drops the blocks that were opened on a device, whose context is gone. */
void acre__ipc_drop(const struct serve_device *device);
/* In a forked child. */
void acre__ipc_forget(void);
void acre__ipc_wrap(struct acre__driver *table);

/* ---- peer access (shim_peers.c) ---- */

/* In acre's own table: access for the devices that have peer access, too. */
CUresult acre__peers_set_access(CUdeviceptr ptr, size_t bytes, const CUmemAccessDesc *access,
                                size_t count);
CUresult acre__peers_unmap(CUdeviceptr ptr, size_t bytes);
/* The primary context of a device has ended, and its peer access with it. -1: in a forked child. */
void acre__peers_forget(CUdevice dev);
void acre__peers_wrap(struct acre__driver *table);

/* ---- queries (shim_query.c) ---- */

/* Returns the physical memory that acre holds on a device. */
uint64_t acre__query_held(const struct serve_device *device);
/* Returns what acre holds idle on the current device. */
uint64_t acre__query_idle(void);
void acre__query_wrap(struct acre__driver *table);

#endif
