/* Driver calls that query devices, the driver's version and error names. cuInit (soft_start.c)
 * initialises the devices. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "soft/soft_api.h"
#include "soft/soft_enter.h"
#include "soft/soft_state.h"

enum {
    SOFT_VERSION = 13000,
    SOFT_LAST_ATTRIBUTE = 147 /* the last one of CUDA 13.0 */
};
static const char soft_name[] = "acre soft device";

/* PCI addresses of the devices: a domain that no machine has, and one bus for each device. */
enum { SOFT_PCI_DOMAIN = 0x7ac0, SOFT_PCI_FIRST_BUS = 1 };

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

/* Limits of kernels are those of the oldest GPU that CUDA 13 supports. Programs query them, and
 * divide by them, even if they launch no kernel. */
static int device_attribute(CUdevice_attribute attribute, int ordinal) {
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        return (int)sysconf(_SC_NPROCESSORS_ONLN);
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
        return SOFT_PCI_DOMAIN;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
        return SOFT_PCI_FIRST_BUS + ordinal;
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
        return SOFT_PITCH_MOST;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        return 7;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        return 5;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
        return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
        return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
        return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
        return INT32_MAX;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
        return UINT16_MAX;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
        return 64 << 10;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
        return 512;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
        return 48 << 10;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
        return 64 << 10;
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
        return 1;
    case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES:
        return CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    default:
        return 0;
    }
}

CUresult acre__soft_cuDeviceGetAttribute(int *value_out, CUdevice_attribute attribute,
                                         CUdevice dev) {
    struct soft_device *device;
    CUresult result = acre__soft_enter_device(dev, value_out, &device);
    if (result)
        return result;
    if ((int)attribute <= 0 || (int)attribute > SOFT_LAST_ATTRIBUTE)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    *value_out = device_attribute(attribute, dev);
    return acre__soft_leave(CUDA_SUCCESS);
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
