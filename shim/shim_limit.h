/* The limit of `acre run --limit`: a layer of the table that the hooks call, right above the
 * driver.
 *
 * It charges device memory before the driver's call and refunds it when the call fails, or after
 * the memory was freed. A request that the limit does not allow returns CUDA_ERROR_OUT_OF_MEMORY
 * without a driver call. The account is a file that all processes of the run share
 * (report/limit_file.h).
 *
 * What counts, in bytes: plain, pitched and managed memory as requested; chunks of device memory
 * (cuMemCreate, or imported) until their last handle and mapping are gone; the driver's pools by
 * what they have reserved; arrays by their elements; graphs by what the driver has reserved for
 * their allocations, which only a query after the call shows: it may exceed the limit, and nothing
 * else is granted then. Contexts and modules count with --limit-all: `acre run` charges them by
 * what NVML shows (cli/run_limit_all.c). Pinned memory does not count.
 *
 * Locks: one mutex for the records of this process. Under it only queries and trims of pools call
 * the driver; the lock of the shared file comes after it. */
#ifndef ACRE_SHIM_SHIM_LIMIT_H
#define ACRE_SHIM_SHIM_LIMIT_H

#include <stddef.h>
#include <stdint.h>

#include "driver/driver.h"
#include "limit_file.h"

/* Returns 1 if this process runs under a limit. */
int acre__limit_is_on(void);

/* Returns the file that all processes of the run share, or NULL if it cannot be opened; a message
 * has said why. Its word `sequence` changes with the limit. */
struct limit_file *acre__limit_file(void);

/* Wraps functions of the table, a copy of *inner, so that they charge and refund. */
void acre__limit_wrap(struct acre__driver *table, const struct acre__driver *inner);

/* Refunds memory that the driver no longer knows, after a context was destroyed. `dev` is the
 * device of a primary context, or -1 with another context. */
void acre__limit_ended(CUdevice dev, CUcontext ctx);

/* Counts a call of the program that has failed for want of memory, if the limit is the reason. */
void acre__limit_count_refused(uint64_t bytes);

/* Starts with nothing charged, in a forked child. */
void acre__limit_forget(void);

/* Reduces free and total bytes of a device to what the limit allows. */
void acre__limit_view(uint64_t *free_bytes, uint64_t *total_bytes);

/* ---- chunks (shim_limit_chunk.c) ---- */

/* Without a limit: wraps functions of the table, a copy of *inner, so that they count the memory of
 * cuMemCreate. */
void acre__limit_count_chunks(struct acre__driver *table, const struct acre__driver *inner);
/* Returns the bytes of memory that the program has created with cuMemCreate, or imported. */
uint64_t acre__limit_program_bytes(void);
/* Set while acre creates memory for itself. */
extern _Thread_local int acre__limit_is_acres;

/* ---- arrays and graphs (shim_limit_array.c), which are no part of the table ---- */

struct limit_array;

/* Charges the bytes of an array that will be created, and returns its record; NULL if it needs
 * none, or with *is_refused if the limit does not allow it. */
struct limit_array *acre__limit_begin_array(uint64_t bytes, int *is_refused);
/* Keeps the record of the new array, or refunds it: handle NULL. */
void acre__limit_made_array(struct limit_array *array, void *handle);
/* Takes the record of an array out before the driver destroys it, so that the driver cannot use the
 * handle of a record again; and refunds it, or puts it back. */
struct limit_array *acre__limit_take_out_array(const void *handle);
void acre__limit_ended_array(struct limit_array *array, int is_destroyed);
/* Charges what the driver has reserved for graphs: on the current device, and where it had some. */
void acre__limit_settle_graphs(void);

/* ---- changes ---- */

/* Waits until the limit changes, or a process of the run needs memory. *seen is the last value that
 * the caller knows; begin with 0. Returns 0 if there is no limit. */
int acre__limit_wait(uint32_t *seen);

/* Asks all processes of the run to release idle memory. */
void acre__limit_press(void);

#endif
