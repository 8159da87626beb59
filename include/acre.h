/* acre: GPU memory management for C.
 *
 * A program includes this header, which includes one header for each kind of object on the host.
 * acre_heap.h adds malloc inside kernels, acre_soft.h kernels on the soft device.
 *
 * Conventions:
 * - Every function that can fail returns an acre_status. Results come through the last parameters.
 *   After a failure they are NULL or 0 (file descriptors: -1), unless the comment of a function
 *   says otherwise (acre_plan_want leaves them unchanged). A failed call changes nothing unless its
 *   comment says so.
 * - acre_last_detail() returns one line about the calling thread's last failure.
 * - Options and info structs begin with struct_size, which the caller sets to the struct's size.
 *   Zero in any other field of an options struct means the default. NULL options mean all defaults.
 * - Any thread may call any function, unless its comment has a sentence "Threads:". A sentence
 *   "Sync:" says what a call waits for. Host functions queued with cuLaunchHostFunc must not call
 *   acre: as with CUDA calls there, this may deadlock.
 * - No call changes the calling thread's current CUDA context.
 * - If a process forks after it opened a device, every function that returns a status returns
 *   ACRE_E_FORKED in the child. A program that the child starts with exec can use acre. */
#ifndef ACRE_H
#define ACRE_H

#define ACRE_VERSION_MAJOR 0
#define ACRE_VERSION_MINOR 3
#define ACRE_VERSION_PATCH 0

#include "acre/status.h"  /* statuses and error details */
#include "acre/log.h"     /* the log, and environment variables */
#include "acre/device.h"  /* a GPU, or the soft device */
#include "acre/stream.h"  /* streams and events */
#include "acre/mem.h"     /* single allocations of every kind of memory */
#include "acre/copy.h"    /* copies and fills */
#include "acre/pool.h"    /* pools: allocation in stream order */
#include "acre/tag.h"     /* tags: pool memory counted and limited by purpose */
#include "acre/oom.h"     /* out-of-memory reports */
#include "acre/vec.h"     /* arrays that grow in place */
#include "acre/range.h"   /* sparse ranges: memory committed anywhere */
#include "acre/spill.h"   /* blocks that leave when memory is short */
#include "acre/suspend.h" /* device memory leaves and comes back */
#include "acre/share.h"   /* sharing with other processes */
#include "acre/vm.h"      /* virtual memory by hand */
#include "acre/trace.h"   /* traces, and statistics for other programs */
#include "acre/plan.h"    /* plans: declare buffers and their lifetimes once */

#endif
