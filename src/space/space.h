/* What the space layer has to do with devices: trim, close, statistics. */
#ifndef ACRE_SPACE_SPACE_H
#define ACRE_SPACE_SPACE_H

#include <stdint.h>

#include "acre.h"

/* Makes the layer known to devices; called by whoever takes a chunk or addresses. */
void acre__space_use(void);

/* For acre__space_use: what the files of the layer do when a device ends. */
void acre__chunk_end(acre_device *dev);
void acre__range_end(acre_device *dev);
void acre__chunk_stats(acre_device *dev, acre_device_stats *stats);

#endif
