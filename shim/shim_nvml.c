/* Hooks in front of NVML, libnvidia-ml.so.1: the memory of a device under a limit. Tools and
 * frameworks ask NVML for free memory, and must see what cuMemGetInfo says.
 *
 * The types are those of nvml.h, as far as they are needed. The library is searched for in each
 * call, since a program may unload it.
 *
 * Locks: none. */
#include <string.h>

#include "elf_find.h"
#include "shim.h"
#include "shim_limit.h"

enum { NVML_SUCCESS = 0, NVML_ERROR_UNINITIALIZED = 1, NVML_UUID_BYTES = 96 };

struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml_memory_v2 {
    unsigned int version;
    unsigned long long total, reserved, free, used;
};

typedef int (*nvml_memory_fn)(void *device, void *memory);

SHIM_EXPORT int nvmlDeviceGetMemoryInfo(void *device, struct nvml_memory *memory);
SHIM_EXPORT int nvmlDeviceGetMemoryInfo_v2(void *device, struct nvml_memory_v2 *memory);

static const struct {
    const char *symbol;
    shim_function hook;
} nvml_rows[] = {
    {"nvmlDeviceGetMemoryInfo", (shim_function)nvmlDeviceGetMemoryInfo},
    {"nvmlDeviceGetMemoryInfo_v2", (shim_function)nvmlDeviceGetMemoryInfo_v2},
};

static void *nvml_find(const char *symbol) {
    struct link_map library;
    return acre__shim_library("libnvidia-ml.so.1", &library) ? acre__elf_find(&library, symbol)
                                                             : NULL;
}

void *acre_shim_swap_nvml(void *function) {
    for (size_t i = 0; function && i < sizeof nvml_rows / sizeof nvml_rows[0]; i++) {
        if (nvml_find(nvml_rows[i].symbol) == function)
            return (void *)nvml_rows[i].hook;
    }
    return function;
}

/* ---- which devices are limited ---- */

/* Writes "GPU-" and the UUID as NVML does. */
static void nvml_format_uuid(const CUuuid *uuid, char text[NVML_UUID_BYTES]) {
    static const char digits[] = "0123456789abcdef";
    char *at = text;
    memcpy(at, "GPU-", 4);
    at += 4;
    for (size_t i = 0; i < sizeof uuid->bytes; i++) {
        unsigned byte = (unsigned char)uuid->bytes[i];
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *at++ = '-';
        *at++ = digits[byte >> 4];
        *at++ = digits[byte & 15];
    }
    *at = '\0';
}

/* Returns 1 if the device is one that the program uses by CUDA, as far as that is known: before it
 * has initialised CUDA all devices count. */
static int nvml_is_limited(void *device) {
    int (*get_uuid)(void *, char *, unsigned) = NULL;
    char wanted[NVML_UUID_BYTES] = "", text[NVML_UUID_BYTES];
    int count = 0;
    CUdevice cuda;
    CUuuid uuid;
    if (!acre__limit_is_on())
        return 0;
    void *found = nvml_find("nvmlDeviceGetUUID");
    memcpy(&get_uuid, &found, sizeof get_uuid);
    const struct acre__driver *drv = acre__ledger_driver();
    if (!acre__ledger_is_used() || !found || get_uuid(device, wanted, sizeof wanted) ||
        drv->cuDeviceGetCount(&count))
        return 1;
    for (int i = 0; i < count; i++) {
        if (drv->cuDeviceGet(&cuda, i) || drv->cuDeviceGetUuid(&uuid, cuda))
            return 1;
        nvml_format_uuid(&uuid, text);
        if (strcmp(text, wanted) == 0)
            return 1;
    }
    return 0;
}

/* ---- hooks ---- */

static int nvml_call(const char *symbol, void *device, void *memory) {
    nvml_memory_fn real;
    void *found = nvml_find(symbol);
    if (!found)
        return NVML_ERROR_UNINITIALIZED;
    memcpy(&real, &found, sizeof real);
    return real(device, memory);
}

static void nvml_view(unsigned long long *left, unsigned long long *total) {
    uint64_t limited_left = *left, limited_total = *total;
    acre__limit_view(&limited_left, &limited_total);
    *left = limited_left;
    *total = limited_total;
}

int nvmlDeviceGetMemoryInfo(void *device, struct nvml_memory *memory) {
    int result = nvml_call("nvmlDeviceGetMemoryInfo", device, memory);
    if (result == NVML_SUCCESS && memory && nvml_is_limited(device)) {
        nvml_view(&memory->free, &memory->total);
        memory->used = memory->total - memory->free;
    }
    return result;
}

/* Here reserved, used and free memory make the total. */
int nvmlDeviceGetMemoryInfo_v2(void *device, struct nvml_memory_v2 *memory) {
    int result = nvml_call("nvmlDeviceGetMemoryInfo_v2", device, memory);
    if (result == NVML_SUCCESS && memory && nvml_is_limited(device)) {
        nvml_view(&memory->free, &memory->total);
        unsigned long long rest = memory->total - memory->free;
        if (memory->reserved > rest)
            memory->reserved = rest;
        memory->used = rest - memory->reserved;
    }
    return result;
}
