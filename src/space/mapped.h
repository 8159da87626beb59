/* All mappings of a device by address, and the gate that keeps them unchanged while acre_suspend
 * moves memory away and back.
 *
 * A mapping that is *away* has addresses and a record, but no physical memory. Its chunk has no
 * handle of the driver's.
 *
 * The gates. A call that maps, unmaps or sets access is inside one gate from acre__gate_enter to
 * acre__gate_leave, a call that touches device memory (a copy) inside the other. A *move* waits
 * until nobody is inside, and keeps others outside. The thread that moves calls the driver directly
 * and does not enter. Do not enter a gate twice. Inside the gate of mappings, wait for nothing but
 * the driver; inside that of copies, for no thread that may want to copy.
 *
 * Threads: any. One lock, a leaf. */
#ifndef ACRE_SPACE_MAPPED_H
#define ACRE_SPACE_MAPPED_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "space/mapping.h"

/* ---- the gates ---- */

enum acre__gate { ACRE__GATE_COPY, ACRE__GATE_MAP, ACRE__GATES };
void acre__gate_enter(enum acre__gate gate);
void acre__gate_leave(enum acre__gate gate);

/* Begins a move: waits for other moves, and until nobody is inside. Returns 0 if somebody still is
 * at time `until_ns` of CLOCK_MONOTONIC, such as a copy that waits for a long kernel; no move
 * begins then. */
int acre__move_begin(uint64_t until_ns);
void acre__move_end(void);

/* ---- mappings by address ---- */

void acre__mapped_add(struct acre__mapping *mapping);
void acre__mapped_remove(struct acre__mapping *mapping);

/* Sets access by one driver call and records it. The caller is not inside. Returns
 * ACRE_E_SUSPENDED if some of the memory is away. */
acre_status acre__mapped_access(acre_device *dev, uint64_t at, size_t bytes,
                                const CUmemAccessDesc *access, size_t count);

/* The mapping after `mapping` (NULL: the first) of the device by address; NULL after the last. Only
 * inside a move. */
struct acre__mapping *acre__mapped_next(acre_device *dev, const struct acre__mapping *mapping);

/* ---- memory that is away ---- */

/* Marks a mapping as away or back, and counts its bytes. */
void acre__away_set(struct acre__mapping *mapping, int is_away);
/* Changes the bytes of all memory that is away. */
void acre__away_count(acre_device *dev, int64_t bytes);
/* Bytes of the device's mappings that are away. */
uint64_t acre__away_bytes(const acre_device *dev);

/* Returns ACRE_E_SUSPENDED if some of these bytes are away; `which` names them in the detail. The
 * caller is inside, so that the answer stays true until it leaves. */
acre_status acre__away_check(const void *p, size_t bytes, const char *which);

/* What calls do while memory is away: values of is_suspended of devices and pools. */
enum {
    ACRE__SUSPEND_REFUSES = 1, /* they return ACRE_E_SUSPENDED */
    ACRE__SUSPEND_WAITS = 2    /* they wait for a resume; or a suspend is at work, and they wait
                                * until it knows what leaves */
};
/* Returns ACRE_E_SUSPENDED, for acre__fail, and notes for acre__resume_wait which of both. */
acre_status acre__suspended_as(uint32_t how);

acre_status acre__chunk_suspended(const struct acre__chunk *chunk); /* the same for its memory */

/* A caller that may wait reads the number of resumes before it tries, and waits without locks. */
uint64_t acre__resumes(void);
/* Waits until another resume than the first *seen ones has ended, and updates *seen. Returns 0 at
 * once if the thread's last ACRE_E_SUSPENDED is not one to wait for: the call must fail. */
int acre__resume_wait(uint64_t *seen);
/* Between these two, calls of the thread return ACRE_E_SUSPENDED instead of waiting: for a call
 * that holds a lock while it makes other calls of acre. It may wait itself, without the lock. They
 * nest. */
void acre__wait_forbid(void);
void acre__wait_allow(void);
/* For loops around a call that may wait: 1 if it must be tried again. */
static inline int acre__must_retry(acre_status status, uint64_t *seen) {
    return status == ACRE_E_SUSPENDED && acre__resume_wait(seen);
}
/* Counts a resume, or the end of a suspend, and wakes those that wait for it. */
void acre__resume_note(void);

/* Returns ACRE_E_SUSPENDED if everything on the device is suspended, so that it gets no new
 * memory. */
acre_status acre__device_has_memory(const acre_device *dev);

#endif
