/* Attributes of a soft device (soft_attribute.c). */
#ifndef ACRE_SOFT_ATTRIBUTE_H
#define ACRE_SOFT_ATTRIBUTE_H

#include "driver/driver.h"

/* PCI addresses of the devices: a domain that no machine has, and one bus for each device. */
enum { SOFT_PCI_DOMAIN = 0x7ac0, SOFT_PCI_FIRST_BUS = 1 };

/* Gets an attribute of the device with that ordinal. Returns 0 if CUDA 13.0 has no such
 * attribute. */
int acre__soft_attribute(CUdevice_attribute attribute, int ordinal, int *value_out);

#endif
