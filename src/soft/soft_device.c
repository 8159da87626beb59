/* Driver calls that query devices, the driver's version and error names. cuInit (soft_start.c)
 * initialises the devices. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "soft/soft_api.h"
#include "soft/soft_attribute.h"
#include "soft/soft_enter.h"
#include "soft/soft_state.h"

enum { SOFT_VERSION = 13000 };
static const char soft_name[] = "acre soft device";

CUresult acre__soft_cuDriverGetVersion(int *version_out) {
    if (!version_out)
        return CUDA_ERROR_INVALID_VALUE;
    *version_out = SOFT_VERSION;
    return CUDA_SUCCESS;
}

CUresult acre__soft_cuGetErrorName(CUresult error, const char **text_out) {
    if (!text_out)
        return CUDA_ERROR_INVALID_VALUE;
    const char *name = acre__driver_error_name(error);
    *text_out = strchr(name, '?') ? NULL : name;
    return *text_out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult acre__soft_cuGetErrorString(CUresult error, const char **text_out) {
    CUresult result = acre__soft_cuGetErrorName(error, text_out);
    if (!result)
        *text_out = acre__driver_error_text(error);
    return result;
}

CUresult acre__soft_cuDeviceGetCount(int *count_out) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    if (!count_out)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    *count_out = (int)acre__soft.config.devices;
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuDeviceGet(CUdevice *device_out, int ordinal) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    if (!device_out)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if (!acre__soft_device_at(ordinal))
        return acre__soft_leave(CUDA_ERROR_INVALID_DEVICE);
    *device_out = ordinal;
    return acre__soft_leave(CUDA_SUCCESS);
}

static void soft_copy_text(char *to, int bytes, const char *from) {
    size_t length = strlen(from);
    if (length >= (size_t)bytes)
        length = (size_t)bytes - 1;
    memcpy(to, from, length);
    to[length] = 0;
}

CUresult acre__soft_cuDeviceGetName(char *text, int text_bytes, CUdevice dev) {
    struct soft_device *device;
    CUresult result = acre__soft_enter_device(dev, text, &device);
    if (result)
        return result;
    if (text_bytes <= 0)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    soft_copy_text(text, text_bytes, soft_name);
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuDeviceGetPCIBusId(char *text, int text_bytes, CUdevice dev) {
    struct soft_device *device;
    CUresult result = acre__soft_enter_device(dev, text, &device);
    if (result)
        return result;
    if (text_bytes <= 0)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    char address[32];
    snprintf(address, sizeof address, "%04X:%02X:00.0", SOFT_PCI_DOMAIN, SOFT_PCI_FIRST_BUS + dev);
    soft_copy_text(text, text_bytes, address);
    return acre__soft_leave(CUDA_SUCCESS);
}

/* Parses domain:bus:device.function, all hexadecimal. The domain and the function may be
 * missing. */
static int soft_pci_parse(const char *text, unsigned *domain, unsigned *bus, unsigned *slot) {
    unsigned part[3] = {0}, function = 0, count = 0;
    char *end;
    for (const char *at = text; count < 3; at = end + 1) {
        if (!isxdigit((unsigned char)*at))
            return 0;
        unsigned long value = strtoul(at, &end, 16);
        if (value > 0xffff)
            return 0;
        part[count++] = (unsigned)value;
        if (*end != ':')
            break;
    }
    if (*end == '.' && isxdigit((unsigned char)end[1]))
        function = (unsigned)strtoul(end + 1, &end, 16);
    *domain = count == 3 ? part[0] : 0;
    *bus = part[count == 3];
    *slot = part[(count == 3) + 1];
    return *end == 0 && count >= 2 && function == 0;
}

CUresult acre__soft_cuDeviceGetByPCIBusId(CUdevice *device_out, const char *text) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    unsigned domain, bus, slot;
    if (!device_out || !text || !soft_pci_parse(text, &domain, &bus, &slot))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    int dev = (int)bus - SOFT_PCI_FIRST_BUS;
    if (domain != SOFT_PCI_DOMAIN || slot || !acre__soft_device_at(dev))
        return acre__soft_leave(CUDA_ERROR_INVALID_DEVICE);
    *device_out = dev;
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuDeviceGetUuid(CUuuid *uuid_out, CUdevice dev) {
    struct soft_device *device;
    CUresult result = acre__soft_enter_device(dev, uuid_out, &device);
    if (result)
        return result;
    memset(uuid_out, 0, sizeof *uuid_out);
    memcpy(uuid_out->bytes, "acre-soft", 9);
    uuid_out->bytes[15] = (char)dev;
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuDeviceTotalMem(size_t *bytes_out, CUdevice dev) {
    struct soft_device *device;
    CUresult result = acre__soft_enter_device(dev, bytes_out, &device);
    if (result)
        return result;
    *bytes_out = acre__soft.config.bytes;
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuDeviceGetAttribute(int *value_out, CUdevice_attribute attribute,
                                         CUdevice dev) {
    struct soft_device *device;
    CUresult result = acre__soft_enter_device(dev, value_out, &device);
    if (result)
        return result;
    return acre__soft_leave(
        acre__soft_attribute(attribute, dev, value_out) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult acre__soft_cuDeviceCanAccessPeer(int *can, CUdevice dev, CUdevice peer) {
    struct soft_device *device;
    CUresult result = acre__soft_enter_device(dev, can, &device);
    if (result)
        return result;
    if (!acre__soft_device_at(peer))
        return acre__soft_leave(CUDA_ERROR_INVALID_DEVICE);
    *can = dev != peer;
    return acre__soft_leave(CUDA_SUCCESS);
}
