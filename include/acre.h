/* acre: GPU memory from C.
 *
 * One header per object, the simple part first; a program includes this one.
 *
 * Conventions. Every fallible function returns an acre_status; results come through the last
 * parameters and are NULL or 0 after a failure. A failed call changes nothing. `acre_last_detail()`
 * has one line that says what went wrong. All functions may be called from any thread unless
 * "Threads" says otherwise, but not from a function that a stream calls (cuLaunchHostFunc): as for
 * CUDA itself, that may deadlock. No call changes the calling thread's current CUDA context.
 * In a child made by fork after a device was opened, every function that returns a status returns
 * ACRE_E_FORKED: start a new program there instead.
 */
#ifndef ACRE_H
#define ACRE_H

#define ACRE_VERSION_MAJOR 0
#define ACRE_VERSION_MINOR 2
#define ACRE_VERSION_PATCH 0

#include "acre/status.h" /* statuses, and what went wrong */
#include "acre/log.h"    /* the log, and variables of the environment */
#include "acre/device.h" /* a GPU, or the soft device */
#include "acre/stream.h" /* streams and events */
#include "acre/mem.h"    /* memory of every kind */
#include "acre/copy.h"   /* copies and fills */
#include "acre/pool.h"   /* pools: memory in stream order */
#include "acre/tag.h"    /* what memory of pools is for */
#include "acre/oom.h"    /* what is known when memory runs out */
#include "acre/vec.h"    /* arrays that grow in place */
#include "acre/share.h"  /* sharing with other processes */
#include "acre/vm.h"     /* memory by hand */
#include "acre/trace.h"  /* traces, and statistics for other programs */
#include "acre/plan.h"   /* plans: say what you will need */

#endif
