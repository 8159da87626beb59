/* Interface of the soft driver for the rest of the library: its table, configuration, lag, kernels
 * and the reports of its checks.
 *
 * The soft driver implements in software, on mmap and threads, what the CUDA driver does with
 * memory, streams and events. It has the same functions, returns the same codes, detects errors as
 * late as a GPU and is as strict. One sparse memfd is a device's physical memory. Device addresses
 * are PROT_NONE for the host. Streams are queues that worker threads run or, with a seed, the
 * scheduler in sched.h one step at a time. */
#ifndef ACRE_SOFT_SOFT_H
#define ACRE_SOFT_SOFT_H

#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "acre_soft.h"
#include "driver/driver.h"

/* Returns the driver table, never NULL. */
const struct acre__driver *acre__driver_soft(void);

enum { ACRE__SOFT_DEVICES_MAX = 16 };

struct acre__soft_config {
    uint64_t bytes;                  /* memory of each device, a multiple of 2 MiB */
    uint32_t devices;                /* 1 .. ACRE__SOFT_DEVICES_MAX */
    int seeded;                      /* 1: no worker threads, one seeded scheduler */
    uint64_t seed;                   /* with seeded */
    int check;                       /* 1: keeps vector clocks and checks uses of memory */
    uint64_t address_bytes;          /* size of the first window of device addresses */
    uint64_t lag_operations, lag_ns; /* initial lag of the devices behind the host; 0: none */
};

/* Reads the ACRE_SOFT_* variables. Returns ACRE_E_CONFIG if one of them is invalid. */
acre_status acre__soft_config_default(struct acre__soft_config *config);

/* Sets the configuration. Returns ACRE_E_BUSY if the configuration differs and a context is
 * retained. If none is retained, a different configuration restarts the soft driver and destroys
 * all memory, streams and handles. */
acre_status acre__soft_configure(const struct acre__soft_config *config);

/* Returns the current configuration; all 0 before the first one is set. */
struct acre__soft_config acre__soft_config_get(void);

/* Sets how far devices lag behind the host from now on: by operations or by time; 0 and 0 disable
 * the lag. Returns ACRE_E_UNSUPPORTED for a time with a seed. */
acre_status acre__soft_lag_set(uint64_t operations, uint64_t ns);

enum {
    SOFT_WARP_LANES = 32,
    SOFT_BLOCK_THREADS = 1024,
    SOFT_SHARED_MOST = 227 << 10, /* bytes per block, as on an H200 */
};

/* A launch of a C function. Grid, block and shared memory are within CUDA's limits. */
struct acre__soft_kernel {
    acre_soft_kernel fn;
    void *arg;
    uint32_t grid[3], block[3];
    size_t shared_bytes;
    uint32_t warp_lanes; /* 1 or 32 */
};
/* Queues the kernel on a stream of the current context's device. */
CUresult acre__soft_kernel_queue(CUstream stream, const struct acre__soft_kernel *kernel);

/* Returns the number of errors that the checks have found since the soft driver started: unordered
 * uses of memory, memory unmapped under queued work, errors of kernels. With `text`, copies the
 * first report into it. */
size_t acre__soft_reports(char *text, size_t text_bytes);

/* Copies the report of the error that lost a device into `text`. Returns 0, and an empty text, if
 * the device is not lost or its loss has no report. */
int acre__soft_why_lost(CUdevice device, char *text, size_t text_bytes);

/* Drops all state and restarts with the same configuration, as in a new process. Contexts that are
 * still retained are destroyed. For tests that run many seeds in one process. No other thread may
 * be inside the soft driver. */
void acre__soft_reset(void);

#endif
