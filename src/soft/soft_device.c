/* The soft driver: its settings, how it starts and starts anew, and its devices. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/status.h"
#include "soft/soft_state.h"

struct soft_state acre__soft = {
    .lock = ACRE__LOCK_INIT("soft driver", ACRE__RANK_SOFT),
    .work = ACRE__COND_INIT,
    .done = ACRE__COND_INIT,
};

enum {
    SOFT_VERSION = 13000,
    SOFT_LAST_ATTRIBUTE = 147 /* of CUDA 13.0 */
};
static const char soft_name[] = "acre soft device";

/* Where the devices pretend to sit: a PCI domain that no machine has, one bus for each. */
enum { SOFT_PCI_DOMAIN = 0x7ac0, SOFT_PCI_FIRST_BUS = 1 };

/* ---- configuration and restart ---- */

static uint64_t soft_default_bytes(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t quarter = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page / 4 : 0;
    quarter -= quarter % SOFT_CHUNK_BYTES;
    return quarter < ((uint64_t)64 << 20) ? (uint64_t)64 << 20 : quarter;
}

acre_status acre__soft_config_default(struct acre__soft_config *config) {
    memset(config, 0, sizeof *config);
    uint64_t devices, seed;
    acre_status status;
    if ((status =
             acre__config_bytes(ACRE__CONFIG_SOFT_BYTES, soft_default_bytes(), &config->bytes)) ||
        (status = acre__config_number(ACRE__CONFIG_SOFT_DEVICES, 1, &devices)) ||
        (status = acre__config_number(ACRE__CONFIG_SOFT_SEED, 0, &seed)))
        return status;
    config->seeded = acre__config_string(ACRE__CONFIG_SOFT_SEED) != NULL;
    config->seed = seed;
    if ((status = acre__config_flag(ACRE__CONFIG_SOFT_CHECK, config->seeded, &config->check)) ||
        (status = acre__soft_lag_config(config)))
        return status;
    if (devices < 1 || devices > ACRE__SOFT_DEVICES_MAX)
        return acre__fail(ACRE_E_CONFIG, "ACRE_SOFT_DEVICES is %llu; it must be 1 to %d",
                          (unsigned long long)devices, ACRE__SOFT_DEVICES_MAX);
    if (config->bytes < SOFT_CHUNK_BYTES || config->bytes > (uint64_t)1 << 44)
        return acre__fail(ACRE_E_CONFIG, "ACRE_SOFT_BYTES is %llu; it must be 2 MiB to 16 TiB",
                          (unsigned long long)config->bytes);
    config->bytes -= config->bytes % SOFT_CHUNK_BYTES;
    config->devices = (uint32_t)devices;
    return acre__config_bytes(ACRE__CONFIG_ADDRESS_BYTES, config->bytes * 8,
                              &config->address_bytes);
}

static int soft_config_equal(const struct acre__soft_config *a, const struct acre__soft_config *b) {
    return a->bytes == b->bytes && a->devices == b->devices && a->seeded == b->seeded &&
           (!a->seeded || a->seed == b->seed) && a->check == b->check &&
           a->address_bytes == b->address_bytes && a->lag_operations == b->lag_operations &&
           a->lag_ns == b->lag_ns;
}

static void soft_free_nodes(struct acre__tree *tree) {
    struct acre__node *node;
    while ((node = acre__tree_first(tree))) {
        acre__tree_remove(tree, node);
        free(node); /* modules begin with their node */
    }
}

/* Everything: contexts, and what belongs to none. Lock held, workers stopped. */
static void soft_drop_all(void) {
    if (!acre__soft.is_initialized)
        return;
    acre__soft_contexts_forget();
    struct acre__node *node;
    while ((node = acre__tree_first(&acre__soft.mappings)))
        acre__soft_mapping_remove(acre__tree_entry(node, struct soft_mapping, node));
    while ((node = acre__tree_first(&acre__soft.ranges)))
        acre__soft_range_remove(acre__tree_entry(node, struct soft_range, node));
    while ((node = acre__tree_first(&acre__soft.handles))) {
        struct soft_handle *handle = acre__tree_entry(node, struct soft_handle, node);
        acre__tree_remove(&acre__soft.handles, node);
        acre__soft_backing_drop(handle->backing);
        free(handle);
    }
    acre__soft_pools_forget();
    acre__soft_graphs_forget();
    acre__soft_objects_forget();
    soft_free_nodes(&acre__soft.modules);
    for (uint32_t i = 0; i < ACRE__SOFT_DEVICES_MAX; i++)
        acre__soft_device_forget(&acre__soft.devices[i]);
    acre__soft_address_reset();
    acre__soft_clock_free(&acre__soft.host);
    memset(acre__soft.slot_epoch, 0, sizeof acre__soft.slot_epoch);
    memset(acre__soft.slot_used, 0, sizeof acre__soft.slot_used);
    memset(acre__soft.slot_legacy, 0, sizeof acre__soft.slot_legacy);
    acre__soft.slot_high = 0;
    acre__soft.report_count = 0;
    acre__soft.report[0] = 0;
    acre__soft.captures = 0;
    acre__soft.is_initialized = 0;
    acre__soft.generation++;
}

/* Ids begin anew, so that a seed gives the same report again. */
void acre__soft_reset(void) {
    acre__soft_workers_stop();
    acre__lock_take(&acre__soft.lock);
    soft_drop_all();
    acre__soft.last_id = 0;
    acre__soft_workers_start();
    acre__lock_give(&acre__soft.lock);
}

static int soft_is_used(void) {
    for (uint32_t i = 0; i < ACRE__SOFT_DEVICES_MAX; i++)
        if (acre__soft.devices[i].ctx.retained)
            return 1;
    return acre__soft.contexts != NULL;
}

/* Lock held. 1 when there is nothing to do or it cannot be done; *status says which. */
static int soft_configure_is_over(const struct acre__soft_config *config, acre_status *status) {
    *status = ACRE_OK;
    if (acre__soft.is_configured && soft_config_equal(&acre__soft.config, config))
        return 1;
    if (!soft_is_used())
        return 0;
    *status = acre__fail(ACRE_E_BUSY,
                         "the soft driver already runs with %u device(s) of %llu bytes; close all "
                         "soft devices before asking for another setting",
                         acre__soft.config.devices, (unsigned long long)acre__soft.config.bytes);
    return 1;
}

acre_status acre__soft_configure(const struct acre__soft_config *config) {
    acre_status status;
    acre__lock_take(&acre__soft.lock);
    int is_over = soft_configure_is_over(config, &status);
    acre__lock_give(&acre__soft.lock);
    if (is_over)
        return status;
    acre__soft_workers_stop();
    acre__lock_take(&acre__soft.lock);
    if (!soft_configure_is_over(config, &status)) { /* nobody retained a context meanwhile */
        soft_drop_all();
        acre__soft.config = *config;
        acre__soft.is_configured = 1;
    }
    acre__soft_workers_start();
    acre__lock_give(&acre__soft.lock);
    return status;
}

struct acre__soft_config acre__soft_config_get(void) {
    acre__lock_take(&acre__soft.lock);
    struct acre__soft_config config = acre__soft.config;
    acre__lock_give(&acre__soft.lock);
    return config;
}

struct soft_device *acre__soft_device_at(int ordinal) {
    return ordinal >= 0 && (uint32_t)ordinal < acre__soft.config.devices
               ? &acre__soft.devices[ordinal]
               : NULL;
}

uint64_t acre__soft_next_id(void) {
    return ++acre__soft.last_id;
}

size_t acre__soft_reports(char *text, size_t text_bytes) {
    acre__lock_take(&acre__soft.lock);
    size_t count = acre__soft.report_count;
    if (text && text_bytes) {
        size_t length = strlen(acre__soft.report);
        if (length >= text_bytes)
            length = text_bytes - 1;
        memcpy(text, acre__soft.report, length);
        text[length] = 0;
    }
    acre__lock_give(&acre__soft.lock);
    return count;
}

/* ---- start and devices ---- */

CUresult acre__soft_cuInit(unsigned flags) {
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    acre__lock_take(&acre__soft.lock);
    CUresult result = CUDA_SUCCESS;
    if (!acre__soft.is_configured) {
        if (acre__soft_config_default(&acre__soft.config))
            result = CUDA_ERROR_INVALID_VALUE;
        else
            acre__soft.is_configured = 1;
    }
    if (!result && !acre__soft.is_initialized) {
        for (int i = 0; i < ACRE__SOFT_DEVICES_MAX; i++) {
            memset(&acre__soft.devices[i], 0, sizeof acre__soft.devices[i]);
            acre__soft.devices[i].fd = -1;
            acre__soft.devices[i].ctx.device = i;
        }
        acre__soft.random = acre__soft.config.seed;
        acre__soft_lag_start();
        atomic_store_explicit(&acre__soft.is_seeded, acre__soft.config.seeded,
                              memory_order_relaxed);
        result = acre__soft_clock_room(&acre__soft.host);
        acre__soft.is_initialized = !result;
    }
    return acre__soft_leave(result);
}

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

/* domain:bus:device.function, all of them hexadecimal; the first and the last may be missing. */
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

/* Bounds of kernels are those of the oldest GPU that CUDA 13 knows: programs ask for them, and
 * divide by them, whether they launch or not. */
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
