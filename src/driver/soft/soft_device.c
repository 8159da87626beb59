/* The soft driver: start, devices, contexts, limits, modules.
 *
 * Contexts are the devices' primary contexts; a thread's stack of them is in its record. Here is
 * also how every call begins (acre__soft_enter) and how the driver starts anew. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/log.h"
#include "base/status.h"
#include "base/thread.h"
#include "driver/soft/launch.h"
#include "driver/soft/soft_state.h"

struct soft_state acre__soft = {
    .lock = ACRE__LOCK_INIT("soft driver", ACRE__RANK_SOFT),
    .work = ACRE__COND_INIT,
    .done = ACRE__COND_INIT,
};

enum {
    SOFT_VERSION = 13000,
    SOFT_LAST_ATTRIBUTE = 147, /* of CUDA 13.0 */
    SOFT_HEAP_LEAST = 4 << 20
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
    if ((status = acre__config_flag(ACRE__CONFIG_SOFT_CHECK, config->seeded, &config->check)))
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
           a->address_bytes == b->address_bytes;
}

static void soft_free_nodes(struct acre__tree *tree) {
    struct acre__node *node;
    while ((node = acre__tree_first(tree))) {
        acre__tree_remove(tree, node);
        free(node); /* graphs, modules and events begin with their node */
    }
}

/* All that belongs to no context: reservations, chunks, graphs. Lock held, workers stopped. */
static void soft_drop_all(void) {
    if (!acre__soft.is_initialized)
        return;
    for (uint32_t i = 0; i < ACRE__SOFT_DEVICES_MAX; i++)
        acre__soft_device_stop(&acre__soft.devices[i]);
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
    soft_free_nodes(&acre__soft.graphs);
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

static int soft_is_retained(void) {
    for (uint32_t i = 0; i < ACRE__SOFT_DEVICES_MAX; i++)
        if (acre__soft.devices[i].ctx.retained)
            return 1;
    return 0;
}

/* Lock held. 1 when there is nothing to do or it cannot be done; *status says which. */
static int soft_configure_is_over(const struct acre__soft_config *config, acre_status *status) {
    *status = ACRE_OK;
    if (acre__soft.is_configured && soft_config_equal(&acre__soft.config, config))
        return 1;
    if (!soft_is_retained())
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

/* ---- how calls begin and end ---- */

static void soft_thread_exit(struct acre__thread *thread) {
    struct soft_thread *self = thread->soft;
    if (!self)
        return;
    acre__lock_take(&acre__soft.lock);
    int is_current = self->generation == acre__soft.generation; /* ids begin anew with each */
    for (int i = 0; is_current && i < ACRE__SOFT_DEVICES_MAX; i++) {
        struct soft_device *device = &acre__soft.devices[i];
        struct soft_stream *own =
            self->own[i] ? acre__soft_stream_by_id(device, self->own[i]) : NULL;
        if (own) {
            own->is_destroyed = 1;
            acre__soft_stream_free_if_over(device, own);
        }
    }
    acre__lock_give(&acre__soft.lock);
    thread->soft = NULL;
    free(self);
}

static void soft_register_exit(void) {
    acre__thread_at_exit(soft_thread_exit);
}

struct soft_thread *acre__soft_thread_self(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct acre__thread *thread = acre__thread_self();
    if (!thread->id)
        return NULL; /* the shared record of threads that got none */
    if (!thread->soft) {
        pthread_once(&once, soft_register_exit);
        thread->soft = calloc(1, sizeof(struct soft_thread));
        if (!thread->soft)
            return NULL;
    }
    struct soft_thread *self = thread->soft;
    if (self->generation != acre__soft.generation) {
        memset(self, 0, sizeof *self);
        self->generation = acre__soft.generation;
    }
    return self;
}

CUresult acre__soft_enter_bare(void) {
    if (acre__soft_lane_now) /* a kernel: the driver is not for it, and its lock may be held */
        return CUDA_ERROR_NOT_PERMITTED;
    acre__soft_sched_border();
    acre__lock_take(&acre__soft.lock);
    struct soft_thread *self = acre__soft_thread_self();
    CUresult result = !acre__soft.is_initialized ? CUDA_ERROR_NOT_INITIALIZED
                      : !self                    ? CUDA_ERROR_OUT_OF_MEMORY
                      : self->in_host_function   ? CUDA_ERROR_NOT_PERMITTED
                                                 : CUDA_SUCCESS;
    if (result)
        acre__lock_give(&acre__soft.lock);
    else if (acre__soft.is_short_of_threads)
        (void)acre__soft_help();
    return result;
}

CUresult acre__soft_current(struct soft_device **device) {
    struct soft_thread *self = acre__soft_thread_self();
    if (!self->depth || !self->stack[self->depth - 1])
        return CUDA_ERROR_INVALID_CONTEXT;
    *device = &acre__soft.devices[self->stack[self->depth - 1]->device];
    return (*device)->ctx.retained ? (*device)->lost : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult acre__soft_enter(struct soft_device **device) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    result = acre__soft_current(device);
    return result ? acre__soft_leave(result) : CUDA_SUCCESS;
}

struct soft_device *acre__soft_device_at(int ordinal) {
    return ordinal >= 0 && (uint32_t)ordinal < acre__soft.config.devices
               ? &acre__soft.devices[ordinal]
               : NULL;
}

uint64_t acre__soft_next_id(void) {
    return ++acre__soft.last_id;
}

void acre__soft_lose(struct soft_device *device, CUresult code) {
    if (!device->lost) {
        device->lost = code;
        acre__log(ACRE_LOG_ERROR, "soft", "device %d is lost: %s", soft_ordinal(device),
                  acre__driver_error_name(code));
    }
    acre__cond_wake(&acre__soft.done);
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

/* Enters and looks a device up by its number; for calls that need no context. */
static CUresult soft_enter_device(CUdevice dev, const void *output, struct soft_device **device) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    if (!output)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    *device = acre__soft_device_at(dev);
    return *device ? CUDA_SUCCESS : acre__soft_leave(CUDA_ERROR_INVALID_DEVICE);
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
    CUresult result = soft_enter_device(dev, text, &device);
    if (result)
        return result;
    if (text_bytes <= 0)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    soft_copy_text(text, text_bytes, soft_name);
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuDeviceGetPCIBusId(char *text, int text_bytes, CUdevice dev) {
    struct soft_device *device;
    CUresult result = soft_enter_device(dev, text, &device);
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
    CUresult result = soft_enter_device(dev, uuid_out, &device);
    if (result)
        return result;
    memset(uuid_out, 0, sizeof *uuid_out);
    memcpy(uuid_out->bytes, "acre-soft", 9);
    uuid_out->bytes[15] = (char)dev;
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuDeviceTotalMem(size_t *bytes_out, CUdevice dev) {
    struct soft_device *device;
    CUresult result = soft_enter_device(dev, bytes_out, &device);
    if (result)
        return result;
    *bytes_out = acre__soft.config.bytes;
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuDeviceGetAttribute(int *value_out, CUdevice_attribute attribute,
                                         CUdevice dev) {
    struct soft_device *device;
    CUresult result = soft_enter_device(dev, value_out, &device);
    if (result)
        return result;
    if ((int)attribute <= 0 || (int)attribute > SOFT_LAST_ATTRIBUTE)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value_out = (int)sysconf(_SC_NPROCESSORS_ONLN);
        break;
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
        *value_out = SOFT_PCI_DOMAIN;
        break;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
        *value_out = SOFT_PCI_FIRST_BUS + dev;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
        *value_out = SOFT_PITCH_MOST;
        break;
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
        *value_out = 1;
        break;
    case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES:
        *value_out = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        break;
    default:
        *value_out = 0;
    }
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuDeviceCanAccessPeer(int *can, CUdevice dev, CUdevice peer) {
    struct soft_device *device;
    CUresult result = soft_enter_device(dev, can, &device);
    if (result)
        return result;
    if (!acre__soft_device_at(peer))
        return acre__soft_leave(CUDA_ERROR_INVALID_DEVICE);
    *can = dev != peer;
    return acre__soft_leave(CUDA_SUCCESS);
}

/* ---- contexts ---- */

static void soft_limits_set_defaults(struct CUctx_st *ctx) {
    memset(ctx->limits, 0, sizeof ctx->limits);
    ctx->limits[CU_LIMIT_STACK_SIZE] = 1024;
    ctx->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 8650752; /* as on an H200 */
    ctx->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = (size_t)8 << 20;
    ctx->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
}

CUresult acre__soft_cuDevicePrimaryCtxRetain(CUcontext *ctx_out, CUdevice dev) {
    struct soft_device *device;
    CUresult result = soft_enter_device(dev, ctx_out, &device);
    if (result)
        return result;
    if (device->lost)
        return acre__soft_leave(device->lost);
    if (!device->ctx.retained) {
        if ((result = acre__soft_device_start(device)))
            return acre__soft_leave(result);
        soft_limits_set_defaults(&device->ctx);
    }
    device->ctx.retained++;
    *ctx_out = &device->ctx;
    return acre__soft_leave(CUDA_SUCCESS);
}

static int soft_has_work(const struct soft_device *device) {
    for (const struct soft_stream *stream = device->streams; stream; stream = stream->next)
        if (stream->head)
            return 1;
    return 0;
}

CUresult acre__soft_cuDevicePrimaryCtxRelease(CUdevice dev) {
    struct soft_device *device;
    CUresult result = soft_enter_device(dev, &dev, &device);
    if (result)
        return result;
    if (!device->ctx.retained)
        return acre__soft_leave(CUDA_ERROR_INVALID_CONTEXT);
    while (device->ctx.retained == 1 && soft_has_work(device) &&
           acre__soft_wait_device(device) == CUDA_SUCCESS)
        ;
    if (!device->ctx.retained) /* another thread released it while this one waited */
        return acre__soft_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (--device->ctx.retained)
        return acre__soft_leave(CUDA_SUCCESS);
    int is_last = !soft_is_retained();
    if (is_last) {
        acre__lock_give(&acre__soft.lock);
        acre__soft_workers_stop();
        acre__lock_take(&acre__soft.lock);
    }
    /* A device that was lost was not waited for, and an operation of it may still run. */
    while (!device->ctx.retained && acre__soft_device_is_running(device))
        acre__cond_wait(&acre__soft.done, &acre__soft.lock);
    if (!device->ctx.retained)
        acre__soft_device_stop(device);
    if (is_last)
        acre__soft_workers_start();
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuDevicePrimaryCtxGetState(CUdevice dev, unsigned *flags_out, int *active_out) {
    struct soft_device *device;
    CUresult result = soft_enter_device(dev, flags_out, &device);
    if (result)
        return result;
    if (!active_out)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    *flags_out = device->ctx.flags;
    *active_out = device->ctx.retained > 0;
    return acre__soft_leave(CUDA_SUCCESS);
}

int acre__soft_ctx_is_known(const struct CUctx_st *ctx) {
    for (uint32_t i = 0; i < acre__soft.config.devices; i++)
        if (ctx == &acre__soft.devices[i].ctx)
            return acre__soft.devices[i].ctx.retained > 0;
    return 0;
}

CUresult acre__soft_cuCtxPushCurrent(CUcontext ctx) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    struct soft_thread *self = acre__soft_thread_self();
    if (!ctx)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if (!acre__soft_ctx_is_known(ctx))
        return acre__soft_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (self->depth == SOFT_STACK)
        return acre__soft_leave(CUDA_ERROR_OUT_OF_MEMORY);
    self->stack[self->depth++] = ctx;
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuCtxPopCurrent(CUcontext *ctx_out) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    struct soft_thread *self = acre__soft_thread_self();
    if (!self->depth)
        return acre__soft_leave(CUDA_ERROR_INVALID_CONTEXT);
    CUcontext top = self->stack[--self->depth];
    if (ctx_out)
        *ctx_out = top;
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuCtxGetCurrent(CUcontext *ctx_out) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    struct soft_thread *self = acre__soft_thread_self();
    if (!ctx_out)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    *ctx_out = self->depth ? self->stack[self->depth - 1] : NULL;
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuCtxSetCurrent(CUcontext ctx) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    struct soft_thread *self = acre__soft_thread_self();
    if (ctx && !acre__soft_ctx_is_known(ctx))
        return acre__soft_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (!ctx) {
        if (self->depth)
            self->depth--;
    } else if (self->depth) {
        self->stack[self->depth - 1] = ctx;
    } else {
        self->stack[self->depth++] = ctx;
    }
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuCtxGetDevice(CUdevice *device_out) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    if (!device_out)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    *device_out = soft_ordinal(device);
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuCtxGetLimit(size_t *value_out, CUlimit limit) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    if (!value_out)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if ((unsigned)limit >= SOFT_LIMITS)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    *value_out = device->ctx.limits[limit];
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuCtxSetLimit(CUlimit limit, size_t value) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    if ((unsigned)limit >= SOFT_LIMITS)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    /* The real heap's size is fixed when the first kernel that uses malloc is launched; nothing can
     * be launched here, so it stays open. It has whole 64 KiB, and 4 MiB at the least. */
    if (limit == CU_LIMIT_MALLOC_HEAP_SIZE) {
        if (value > acre__soft.config.bytes)
            return acre__soft_leave(CUDA_ERROR_OUT_OF_MEMORY);
        value = soft_round_up(value < SOFT_HEAP_LEAST ? SOFT_HEAP_LEAST : value, 65536);
    }
    device->ctx.limits[limit] = value;
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuCtxGetStreamPriorityRange(int *least_out, int *greatest_out) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    if (least_out)
        *least_out = 0;
    if (greatest_out)
        *greatest_out = -5;
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    if (flags)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if (!peer || !acre__soft_ctx_is_known(peer))
        return acre__soft_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (peer == &device->ctx)
        return acre__soft_leave(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    if (device->ctx.peers[peer->device])
        return acre__soft_leave(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    device->ctx.peers[peer->device] = 1;
    if (acre__soft_views_update())
        return acre__soft_leave(CUDA_SUCCESS);
    device->ctx.peers[peer->device] = 0;
    return acre__soft_leave(CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult acre__soft_cuCtxDisablePeerAccess(CUcontext peer) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    if (!peer || !acre__soft_ctx_is_known(peer))
        return acre__soft_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (!device->ctx.peers[peer->device])
        return acre__soft_leave(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    device->ctx.peers[peer->device] = 0;
    (void)acre__soft_views_update();
    return acre__soft_leave(CUDA_SUCCESS);
}
