/* Asymmetric mutual exclusion: the owner of some data enters and leaves it at almost no cost, and
 * other threads can keep the owner out.
 *
 * The owner marks itself busy with a plain store, then checks whether another thread wants it out.
 * The other thread first sets its request, then makes every thread of the process execute a memory
 * barrier (acre__inside_order). After the barrier one of two things holds: the other thread sees
 * the owner busy and waits, or the owner sees the request. So the owner pays for no barrier, and
 * one barrier serves all owners.
 *
 * An owner is *strong* when it executes a full barrier itself each time it enters. It does so where
 * the kernel has no membarrier, under the thread sanitizer, and after membarrier began to fail, as
 * in a sandbox. Only the owner itself makes itself strong, and only while it is outside. If
 * membarrier fails, owners that are not strong yet cannot be kept out. */
#ifndef ACRE_BASE_INSIDE_H
#define ACRE_BASE_INSIDE_H

#include <stdint.h>

/* 1 while membarrier works, so that owners need not be strong. */
extern _Atomic int acre__inside_is_cheap;

/* Registers the process for membarrier; call it before the first owner. Takes milliseconds in a
 * process with threads. */
void acre__inside_init(void);

/* Makes every running thread of the process execute a full barrier. Returns 0 when the kernel
 * refuses; acre__inside_is_cheap then stays 0. */
int acre__inside_order(void);

/* Waits until the owner is outside. The owner leaves without waking anyone, so this function polls.
 * It sleeps between polls, which also lets an owner of lower priority run. */
void acre__inside_wait(const _Atomic uint32_t *busy);

#endif
