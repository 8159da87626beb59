/* What the rest of the library sees of the soft driver: its table, configuration, lag, kernels and
 * the reports of its checks.
 *
 * The soft driver does in software, on mmap and threads, what the CUDA driver does with memory,
 * streams and events: same functions, same codes, as late and as strict. One sparse memfd is a
 * device's physical memory; device addresses are PROT_NONE for the host; streams are queues run by
 * worker threads or, with a seed, one step at a time by the scheduler in sched.h. */
#ifndef ACRE_SOFT_SOFT_H
#define ACRE_SOFT_SOFT_H

#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "acre_soft.h"
#include "driver/driver.h"

/* The driver table; always there. */
const struct acre__driver *acre__driver_soft(void);

enum { ACRE__SOFT_DEVICES_MAX = 16 };

struct acre__soft_config {
    uint64_t bytes;                  /* memory of each device, a multiple of 2 MiB */
    uint32_t devices;                /* 1 .. ACRE__SOFT_DEVICES_MAX */
    int seeded;                      /* 1: no worker threads, one seeded scheduler */
    uint64_t seed;                   /* with seeded */
    int check;                       /* 1: vector clocks are kept and uses checked */
    uint64_t address_bytes;          /* size of the first window of device addresses */
    uint64_t lag_operations, lag_ns; /* how far devices are behind at first; 0: not on purpose */
};

/* What the ACRE_SOFT_* variables say; ACRE_E_CONFIG if one cannot be read. */
acre_status acre__soft_config_default(struct acre__soft_config *config);

/* Sets the configuration. When a context is retained and the configuration differs: ACRE_E_BUSY.
 * When none is, a different configuration starts the soft driver anew, and all memory, streams and
 * handles of before are gone. */
acre_status acre__soft_configure(const struct acre__soft_config *config);

/* The configuration in force; all 0 before the first one. */
struct acre__soft_config acre__soft_config_get(void);

/* How far devices are behind the host from now on: by operations or by time, 0 and 0 not at all.
 * ACRE_E_UNSUPPORTED for a time with a seed. */
acre_status acre__soft_lag_set(uint64_t operations, uint64_t ns);

enum {
    SOFT_WARP_LANES = 32,
    SOFT_BLOCK_THREADS = 1024,
    SOFT_SHARED_MOST = 227 << 10, /* bytes of a block on an H200 */
};

/* A launch of a C function; grid, block and shared memory are within CUDA's limits. */
struct acre__soft_kernel {
    acre_soft_kernel fn;
    void *arg;
    uint32_t grid[3], block[3];
    size_t shared_bytes;
    uint32_t warp_lanes; /* 1 or 32 */
};
/* Queues it on a stream of the current context's device. */
CUresult acre__soft_kernel_queue(CUstream stream, const struct acre__soft_kernel *kernel);

/* How many wrong uses were found since the soft driver was started: uses that are not ordered,
 * memory unmapped under queued work. With `text`, the first of them in words. */
size_t acre__soft_reports(char *text, size_t text_bytes);

/* Drops everything and starts anew with the same configuration, as after a new start of the
 * process; contexts still retained are gone. For tests that run many seeds in one process. No
 * other thread may be inside the soft driver. */
void acre__soft_reset(void);

#endif
