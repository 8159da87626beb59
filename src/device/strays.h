/* Strays: streams of acre whose transfers may still run although their copy has failed, because the
 * driver also refused to wait for them. No stream of the program is ordered after them, and they
 * wait for no stream of the program. Until acre has waited for them, their memory is not unmapped,
 * and no copy begins. Only tests make a driver refuse like this: an NVIDIA driver that cannot wait
 * has lost the device, which ends all work. */
#ifndef ACRE_DEVICE_STRAYS_H
#define ACRE_DEVICE_STRAYS_H

#include "acre.h"
#include "driver/driver.h"

struct acre__stray {
    struct acre__stray *next;
    acre_device *dev;
    CUstream stream;
    _Atomic int is_pending; /* in the list */
};

/* Adds a stream; dev and stream are set. The record and the stream stay until is_pending is 0. */
void acre__strays_add(struct acre__stray *stray);

/* Waits for the strays of all devices, since a device may write to another one's memory. Makes no
 * driver call if there are none. Returns the driver's last refusal. */
CUresult acre__strays_wait(void);

/* Drops the strays of a device that is closing. */
void acre__strays_forget(const acre_device *dev);

#endif
