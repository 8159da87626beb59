/* Stops the launches of a program whose memory is about to leave the device (acre_suspend).
 *
 * Only under `acre run` does acre see the program's launches: the shim sets these functions. A
 * program that calls acre_suspend itself does not launch work on memory that is away. */
#ifndef ACRE_BASE_PAUSE_H
#define ACRE_BASE_PAUSE_H

#include <stdint.h>

#include "acre.h"

struct acre__pause_hooks {
    /* From now on, calls of the program that launch work or touch device memory wait; those that
     * are inside the driver are waited for, until time `until_ns` of CLOCK_MONOTONIC. Returns
     * ACRE_OK, or an error with a detail; the calls do not wait then. Calls nest. */
    acre_status (*stop)(uint64_t until_ns);
    /* Ends one stop. */
    void (*go)(void);
    /* From `hold` to `release`, the program closes no device: for a thread that suspends without
     * the program's knowledge. They do not nest. */
    void (*hold)(void);
    void (*release)(void);
    /* Returns the bytes of device memory that the program has created itself, with cuMemCreate:
     * acre does not know what is in it, so it stays. */
    uint64_t (*program_bytes)(void);
};
void acre__pause_set(const struct acre__pause_hooks *hooks);

/* Calls the functions, if they are set. */
acre_status acre__pause_stop(uint64_t until_ns);
void acre__pause_go(void);
void acre__pause_hold(void);
void acre__pause_release(void);
uint64_t acre__pause_program_bytes(void);

#endif
