/* Open and close: device names, the choice of a driver, configuration.
 *
 * Invariants. The registry lock is held through every open and close, so concurrent opens of one
 * device create it once. A driver's table is chosen when the first of its devices is opened and
 * stays until the last one is closed; the same holds for the configuration of the soft devices. */
#include <limits.h>
#include <string.h>

#include "acre.h"
#include "base/atomic.h"
#include "base/config.h"
#include "base/config_names.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/options.h"
#include "base/run.h"
#include "base/stack.h"
#include "base/status.h"
#include "base/thread.h"
#include "device/device.h"
#include "driver/driver.h"
#include "driver/driver_fault.h"
#include "device/driver_status.h"
#include "soft/soft.h"
#include "watch/control.h"
#include "watch/regions.h"
#include "watch/origin.h"
#include "watch/stats_file.h"
#include "watch/trace.h"

enum open_driver { OPEN_CUDA, OPEN_SOFT, OPEN_AUTO };

/* A parsed device name. */
struct open_name {
    enum open_driver driver;
    uint32_t ordinal;
};

static const uint64_t OPEN_SOFT_UNIT = (uint64_t)2 << 20; /* a chunk */
static const uint64_t OPEN_SOFT_MOST = (uint64_t)1 << 44; /* as for ACRE_SOFT_BYTES */

static struct {
    struct acre__lock lock;
    const struct acre__driver *table[2]; /* by open_driver; valid while open_count is not 0 */
    unsigned open_count[2];              /* number of open devices */
    int has_fault_plan;                  /* ACRE_FAULT was read; a plan starts only once */
} registry = {.lock = ACRE__LOCK_INIT("registry", ACRE__RANK_REGISTRY)};

/* ---- names ---- */

static const char OPEN_NAMES[] =
    "names are auto, cuda, cuda:0, cuda:1 ..., soft, soft:0, soft:1 ...";

/* Parses a device name; 1 if it is one. A number too large for any device is accepted: it leads to
 * ACRE_E_NO_DEVICE. */
static int open_read_name(const char *text, struct open_name *name) {
    name->ordinal = 0;
    if (strcmp(text, "auto") == 0) {
        name->driver = OPEN_AUTO;
        return 1;
    }
    if (strncmp(text, "cuda", 4) != 0 && strncmp(text, "soft", 4) != 0)
        return 0;
    name->driver = text[0] == 'c' ? OPEN_CUDA : OPEN_SOFT;
    if (text[4] == '\0')
        return 1;
    const char *digits = text + 5;
    size_t count = strspn(digits, "0123456789");
    if (text[4] != ':' || count == 0 || digits[count] != '\0' || (digits[0] == '0' && count > 1))
        return 0;
    if (count > 9) {
        name->ordinal = INT_MAX;
        return 1;
    }
    for (size_t i = 0; i < count; i++)
        name->ordinal = name->ordinal * 10 + (uint32_t)(digits[i] - '0');
    return 1;
}

/* Parses the requested name; for auto the value of ACRE_DEVICE, which may be auto too. */
static acre_status open_wish(const char *text, struct open_name *name) {
    if (text && !open_read_name(text, name))
        return acre__fail(ACRE_E_INVALID, "\"%.60s\" is not a device name; %s", text, OPEN_NAMES);
    if (text && name->driver != OPEN_AUTO)
        return ACRE_OK;
    const char *preset = acre__config_string(ACRE__CONFIG_DEVICE);
    if (!open_read_name(preset ? preset : "auto", name))
        return acre__fail(ACRE_E_CONFIG, "ACRE_DEVICE=%.60s is not a device name; %s", preset,
                          OPEN_NAMES);
    return ACRE_OK;
}

/* ---- drivers ---- */

/* Puts the fault wrapper in front of the table if ACRE_FAULT is set. */
static acre_status open_wrap(const struct acre__driver **drv) {
    const char *spec = acre__config_string(ACRE__CONFIG_FAULT);
    if (!spec)
        return ACRE_OK;
    struct acre__fault_plan plan;
    acre_status status = acre__fault_parse(spec, &plan);
    if (status)
        return status;
    *drv = acre__fault_wrap(*drv);
    if (registry.has_fault_plan)
        return ACRE_OK;
    registry.has_fault_plan = 1;
    return acre__fault_set(&plan);
}

static acre_status open_table(enum open_driver driver, const struct acre__driver **drv) {
    if (registry.open_count[driver]) {
        *drv = registry.table[driver];
        return ACRE_OK;
    }
    acre_status status = ACRE_OK;
    if (driver == OPEN_SOFT)
        *drv = acre__driver_soft();
    else
        status = acre__driver_cuda(drv);
    return status ? status : open_wrap(drv);
}

/* Applies the options for soft devices to `config`. */
static acre_status open_soft_wishes(const acre_open_options *options,
                                    struct acre__soft_config *config) {
    if (options->soft_bytes) {
        config->bytes = options->soft_bytes / OPEN_SOFT_UNIT * OPEN_SOFT_UNIT;
        if (config->bytes == 0 || config->bytes > OPEN_SOFT_MOST)
            return acre__fail(ACRE_E_INVALID, "soft_bytes is %llu; a device has 2 MiB to 16 TiB",
                              (unsigned long long)options->soft_bytes);
    }
    if (options->soft_devices) {
        config->devices = options->soft_devices;
        if (config->devices > ACRE__SOFT_DEVICES_MAX)
            return acre__fail(ACRE_E_INVALID, "soft_devices is %u; the limit is %d",
                              config->devices, (int)ACRE__SOFT_DEVICES_MAX);
    }
    return ACRE_OK;
}

static acre_status open_configure_soft(const acre_open_options *options) {
    struct acre__soft_config wanted, now = acre__soft_config_get();
    if (registry.open_count[OPEN_SOFT]) {
        wanted = now;
        acre_status status = open_soft_wishes(options, &wanted);
        if (status)
            return status;
        if (wanted.bytes == now.bytes && wanted.devices == now.devices)
            return ACRE_OK;
        return acre__fail(ACRE_E_BUSY,
                          "soft devices are open, %u with %llu bytes each: close them "
                          "first to have %u with %llu",
                          now.devices, (unsigned long long)now.bytes, wanted.devices,
                          (unsigned long long)wanted.bytes);
    }
    acre_status status = acre__soft_config_default(&wanted);
    if (status)
        return status;
    uint64_t default_bytes = wanted.bytes;
    status = open_soft_wishes(options, &wanted);
    if (status == ACRE_OK && wanted.bytes != default_bytes)
        status =
            acre__config_bytes(ACRE__CONFIG_ADDRESS_BYTES, wanted.bytes * 8, &wanted.address_bytes);
    return status ? status : acre__soft_configure(&wanted);
}

/* Configures and initialises the driver, and returns its number of devices (at least one). */
static acre_status open_ready(enum open_driver driver, const acre_open_options *options,
                              const struct acre__driver **drv, uint32_t *count) {
    acre_status status = open_table(driver, drv);
    if (status)
        return status;
    uint64_t retired = 0;
    (void)acre__orphan_retry(*drv, &retired);
    if (driver == OPEN_SOFT && (status = open_configure_soft(options)))
        return status;
    CUresult code = (*drv)->cuInit(0);
    if (code)
        return acre__driver_fail(NULL, code, "cuInit");
    int devices = 0;
    code = (*drv)->cuDeviceGetCount(&devices);
    if (code)
        return acre__driver_fail(NULL, code, "cuDeviceGetCount");
    if (devices <= 0)
        return acre__fail(ACRE_E_NO_DEVICE, "the %s driver has no device", (*drv)->name);
    *count = (uint32_t)devices;
    return ACRE_OK;
}

/* auto: the first GPU if its driver is usable, else the soft device. */
static acre_status open_ready_auto(const acre_open_options *options, struct open_name *name,
                                   const struct acre__driver **drv, uint32_t *count) {
    name->driver = OPEN_CUDA;
    acre_status status = open_ready(OPEN_CUDA, options, drv, count);
    if (status == ACRE_OK || status == ACRE_E_CONFIG)
        return status;
    if (options->flags & ACRE_OPEN_NO_SOFT)
        return acre__fail(status,
                          "no GPU is usable, and ACRE_OPEN_NO_SOFT refuses the soft device: %s",
                          acre_last_detail());
    int is_absent = status == ACRE_E_NO_DRIVER || status == ACRE_E_NO_DEVICE;
    acre__log(is_absent ? ACRE_LOG_INFO : ACRE_LOG_WARN, "device",
              "opening the soft device, since no GPU is usable: %s", acre_last_detail());
    name->driver = OPEN_SOFT;
    return open_ready(OPEN_SOFT, options, drv, count);
}

/* ---- open and close ---- */

/* Refuses a soft device that the name or ACRE_DEVICE asks for. */
static acre_status open_refuse_soft(const char *text) {
    int is_named = text && strcmp(text, "auto") != 0;
    return acre__fail(
        ACRE_E_NO_DEVICE,
        "%s%.60s asks for a soft device, which ACRE_OPEN_NO_SOFT refuses: the "
        "program needs a GPU",
        is_named ? "" : "ACRE_DEVICE=", is_named ? text : acre__config_string(ACRE__CONFIG_DEVICE));
}

/* `address` is the caller's, for `acre run`. */
static acre_status open_locked(const char *text, const acre_open_options *options,
                               const void *address, acre_device **out) {
    struct open_name name = {OPEN_AUTO, 0};
    const struct acre__driver *drv = NULL;
    uint32_t count = 0;
    acre_status status = open_wish(text, &name);
    if (status)
        return status;
    if (name.driver == OPEN_SOFT && options->flags & ACRE_OPEN_NO_SOFT)
        return open_refuse_soft(text);
    if (name.driver == OPEN_AUTO)
        status = open_ready_auto(options, &name, &drv, &count);
    else
        status = open_ready(name.driver, options, &drv, &count);
    if (status)
        return status;
    if (name.ordinal >= count)
        return acre__fail(ACRE_E_NO_DEVICE,
                          "there is no device %u: the %s driver has %s:0 to %s:%u", name.ordinal,
                          drv->name, drv->name, drv->name, count - 1);

    acre_device *dev = acre__device_find(drv, name.ordinal);
    if (!dev) {
        status = acre__device_create(drv, name.ordinal, out);
        if (status)
            return status;
        registry.table[name.driver] = drv;
        registry.open_count[name.driver]++;
        acre__run_opened(*out, address);
        acre__log(ACRE_LOG_INFO, "device", "opened %s (%s)", (*out)->label, (*out)->info.name);
        return ACRE_OK;
    }
    status = acre__device_enter(dev); /* fails if it is lost */
    if (status)
        return status;
    if (acre__load(&dev->open_count, memory_order_relaxed) == UINT32_MAX)
        return acre__fail(ACRE_E_INVALID, "%s was opened too often", dev->label);
    acre__fetch_add(&dev->open_count, 1, memory_order_relaxed);
    *out = dev;
    return ACRE_OK;
}

/* Exports the statistics of all devices. The registry lock keeps them open. */
static void devices_export(void) {
    acre__lock_take(&registry.lock);
    for (acre_device *dev = NULL; (dev = acre__device_next(NULL, dev));)
        acre__device_export(dev);
    acre__lock_give(&registry.lock);
}

/* Reads ACRE_LOG, ACRE_DEBUG, ACRE_STACKS and ACRE_SANITIZE. */
static acre_status diagnose_begin(void) {
    acre_status status = acre__log_begin();
    if (status == ACRE_OK)
        status = acre__stacks_begin();
    if (status == ACRE_OK && acre__stacks_are_on())
        acre__watch_add(ACRE__WATCHED_STACKS);
    if (status == ACRE_OK && acre__debug_is_on())
        acre__on_refusal(acre__origin_log_refusal);
    if (status == ACRE_OK)
        acre__run_at_exit(acre__origin_run_all);
    if (status == ACRE_OK)
        status = acre__regions_begin();
    return status;
}

/* At the end of the process, after the program's own destructors: lists what devices that are still
 * open have not freed. Calls no driver, which may have ended before. */
__attribute__((destructor)) static void diagnose_end(void) {
    if (acre__enter())
        return; /* a forked child */
    if (acre__stacks_are_on() && acre__debug_is_on())
        acre__origin_log_all();
    acre__log_end();
}

static acre_status device_open(const char *name, const acre_open_options *options,
                               acre_device **device) {
    if (device)
        *device = NULL;
    acre_status status = acre__enter();
    if (status || (status = acre__not_null(device, "acre_open: device")))
        return status;
    acre_open_options wishes;
    status = acre__options_in(&wishes, sizeof wishes, options, "acre_open_options");
    if (status)
        return status;
    if (wishes.flags & ~ACRE_OPEN_NO_SOFT)
        return acre__fail(ACRE_E_OPTIONS, "acre_open_options: unknown flags 0x%x", wishes.flags);
    if ((status = diagnose_begin()))
        return status;
    acre__config_warn_unknown();
    status = acre__watch_fork();
    if (status == ACRE_OK)
        status = acre__trace_begin();
    if (status == ACRE_OK)
        status = acre__stats_begin();
    if (status == ACRE_OK)
        status = acre__control_begin();
    if (status)
        return status;
    acre__lock_take(&registry.lock);
    status = open_locked(name, &wishes, __builtin_return_address(0), device);
    acre__lock_give(&registry.lock);
    if (status == ACRE_OK) {
        const acre_device_info *info = &(*device)->info;
        acre__trace_card(info->ordinal + (strcmp(info->driver, "soft") == 0 ? 32 : 0),
                         info->total_bytes);
    }
    if (status == ACRE_OK && acre__stats_is_on()) {
        acre__stats_source_add(devices_export);
        acre__device_export(*device);
    }
    return status;
}

acre_status acre_open(const char *name, const acre_open_options *options, acre_device **device) {
    return acre__in_call(device_open(name, options, device), "acre_open");
}

static acre_status device_close(acre_device *device) {
    acre_status status = acre__enter();
    if (status || !device)
        return status;
    acre__lock_take(&registry.lock);
    status = acre__device_check(device);
    if (status == ACRE_OK && acre__fetch_sub(&device->open_count, 1, memory_order_relaxed) == 1) {
        registry.open_count[device->drv->is_soft ? OPEN_SOFT : OPEN_CUDA]--;
        acre__run_closed(device);
        acre__device_destroy(device);
    }
    acre__lock_give(&registry.lock);
    return status;
}

acre_status acre_close(acre_device *device) {
    return acre__in_call(device_close(device), "acre_close");
}

static acre_status device_count(const char *driver, uint32_t *count) {
    if (count)
        *count = 0;
    acre_status status = acre__enter();
    if (status)
        return status;
    if (!driver || !count)
        return acre__fail(ACRE_E_NULL, "acre_device_count: %s is NULL",
                          driver ? "count" : "driver");
    int is_soft = strcmp(driver, "soft") == 0;
    if (!is_soft && strcmp(driver, "cuda") != 0)
        return acre__fail(ACRE_E_INVALID, "\"%.60s\" is not a driver; there are cuda and soft",
                          driver);
    if ((status = acre__watch_fork()))
        return status;
    static const acre_open_options defaults;
    const struct acre__driver *drv;
    uint32_t found = 0;
    acre__lock_take(&registry.lock);
    if (is_soft && !registry.open_count[OPEN_SOFT]) {
        /* Only reads the configuration: a count must not start the soft devices. */
        struct acre__soft_config config;
        status = acre__soft_config_default(&config);
        found = config.devices;
    } else {
        status = open_ready(is_soft ? OPEN_SOFT : OPEN_CUDA, &defaults, &drv, &found);
    }
    acre__lock_give(&registry.lock);
    if (status == ACRE_OK)
        *count = found;
    return status;
}

acre_status acre_device_count(const char *driver, uint32_t *count) {
    return acre__in_call(device_count(driver, count), "acre_device_count");
}
