/* What staging has of the driver: events, streams, pinned buffers. Each has a record of its own, so
 * that what the driver refuses to take back can wait in the device's limbo (device/limbo.h) after
 * the staging set that it belonged to has ended. */
#ifndef ACRE_COPY_STAGE_PART_H
#define ACRE_COPY_STAGE_PART_H

#include <stddef.h>

#include "device/device.h"
#include "device/limbo.h"

struct acre__stage_part {
    struct acre__limbo_item item;
    struct acre__stage_part *next; /* older one of the same list */
    CUevent event;
    CUstream stream;
    char *pages;
    size_t bytes; /* of the pages */
};

/* Put a new part in front of the list, with the device's context current. 0 if it cannot be had;
 * the driver's refusal is then counted, and marks the device lost if it is for good. */
int acre__stage_event(acre_device *dev, struct acre__stage_part **list, CUevent *event);
int acre__stage_stream(acre_device *dev, struct acre__stage_part **list, CUstream *stream);
int acre__stage_pages(acre_device *dev, struct acre__stage_part **list, size_t bytes, char **pages);

/* Gives the parts in front of `until` back, newest first. */
void acre__stage_parts_free(acre_device *dev, struct acre__stage_part **list,
                            struct acre__stage_part *until);

#endif
