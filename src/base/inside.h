/* Being inside: how a thread keeps others out of what it uses all the time, without paying for it.
 *
 * The owner marks itself busy with a plain store, then checks whether somebody wants it out. Who
 * wants that says so first, then has every thread of the process execute a memory barrier
 * (acre__inside_order): either it now sees the owner busy, and waits, or the owner sees that it is
 * wanted out. So the owner pays for no barrier, and one barrier serves all owners.
 *
 * An owner is *strong* when it marks itself with a barrier of its own: where the kernel has no
 * membarrier, under the thread sanitizer, and after membarrier began to fail, as in a sandbox. Only
 * the owner itself, outside, makes itself strong. Without a barrier from the kernel, owners that
 * are not strong yet cannot be kept out. */
#ifndef ACRE_BASE_INSIDE_H
#define ACRE_BASE_INSIDE_H

#include <stdint.h>

/* 1 while the kernel orders threads for us, so that owners need not be strong. */
extern _Atomic int acre__inside_is_cheap;

/* Registers with the kernel; before the first owner. In a process with threads it takes
 * milliseconds. */
void acre__inside_init(void);

/* Every running thread of the process executes a full barrier. 0 when the kernel refuses, and then
 * acre__inside_is_cheap is 0 for good. */
int acre__inside_order(void);

/* Waits until the owner is outside. It leaves without waking anyone: hence this sleeps in between,
 * which also lets an owner of lower priority run. */
void acre__inside_wait(const _Atomic uint32_t *busy);

#endif
