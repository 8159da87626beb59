/* Driver resources of staging: events, streams and pinned buffers. Each has its own record. A
 * resource that the driver refuses to free can therefore wait in the device's limbo
 * (device/limbo.h) after its staging set is destroyed. */
#ifndef ACRE_COPY_STAGE_PART_H
#define ACRE_COPY_STAGE_PART_H

#include <stddef.h>

#include "device/device.h"
#include "device/limbo.h"

struct acre__stage_part {
    struct acre__limbo_item item;
    struct acre__stage_part *next; /* the older part in the same list */
    CUevent event;
    CUstream stream;
    char *pages;
    size_t bytes; /* of the pages */
};

/* Create a part and put it in front of the list; the device's context must be current. Return 0 on
 * failure. A failed driver call is then counted, and a sticky error marks the device lost. */
int acre__stage_event(acre_device *dev, struct acre__stage_part **list, CUevent *event);
int acre__stage_stream(acre_device *dev, struct acre__stage_part **list, CUstream *stream);
int acre__stage_pages(acre_device *dev, struct acre__stage_part **list, size_t bytes, char **pages);

/* Frees the parts in front of `until`, newest first. */
void acre__stage_parts_free(acre_device *dev, struct acre__stage_part **list,
                            struct acre__stage_part *until);

#endif
