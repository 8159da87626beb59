/* The soft driver's settings, its start and its restart.
 *
 * This is the highest file of the soft driver except for its table. Dropping all state needs every
 * other file, and no file below calls this one. Settings change only while no context is retained.
 * A drop holds acre__soft.lock and has stopped the workers, so nothing runs meanwhile. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/run.h"
#include "base/config.h"
#include "base/log.h"
#include "base/stack.h"
#include "base/status.h"
#include "soft/soft.h"
#include "soft/soft_address.h"
#include "soft/soft_api.h"
#include "soft/soft_clock.h"
#include "soft/soft_context.h"
#include "soft/soft_enter.h"
#include "soft/soft_graph.h"
#include "soft/soft_lag.h"
#include "soft/soft_object.h"
#include "soft/soft_physical.h"
#include "soft/soft_pool.h"
#include "soft/soft_pool_memory.h"
#include "soft/soft_range.h"
#include "soft/soft_run.h"
#include "soft/soft_state.h"

/* ---- settings ---- */

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
    acre__run_begin();
    config->seeded = acre__config_string(ACRE__CONFIG_SOFT_SEED) != NULL;
    config->seed = seed;
    if ((status = acre__config_flag(ACRE__CONFIG_SOFT_CHECK, config->seeded || acre__debug_is_on(),
                                    &config->check)) ||
        (config->check && (status = acre__stacks_begin())) ||
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

acre_status acre__soft_lag_set(uint64_t operations, uint64_t ns) {
    acre__lock_take(&acre__soft.lock);
    if (ns && acre__soft.config.seeded) {
        acre__lock_give(&acre__soft.lock);
        return acre__fail(ACRE_E_UNSUPPORTED,
                          "a lag in time is unsupported with a seed; set a lag in operations");
    }
    acre__soft.lag.waited_for = acre__soft.last_serial; /* makes all queued work due */
    (void)acre__soft_lag_run();
    acre__soft.lag.operations = operations;
    acre__soft.lag.ns = ns;
    acre__soft_workers_wake();
    acre__lock_give(&acre__soft.lock);
    return ACRE_OK;
}

/* ---- dropping all state ---- */

static void soft_free_nodes(struct acre__tree *tree) {
    struct acre__node *node;
    while ((node = acre__tree_first(tree))) {
        acre__tree_remove(tree, node);
        free(node); /* modules begin with their node */
    }
}

/* Drops contexts and all objects that belong to none. The lock is held, the workers are stopped. */
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
    acre__soft_graph_memory_settle();
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
    acre__soft.latest[0] = 0;
    acre__soft.report[0] = 0;
    acre__soft.captures = 0;
    acre__soft.is_initialized = 0;
    acre__soft.generation++;
}

/* Ids start again from 1, so that a seed gives the same report again. */
void acre__soft_reset(void) {
    acre__soft_workers_stop();
    acre__lock_take(&acre__soft.lock);
    soft_drop_all();
    acre__soft.last_id = 0;
    acre__soft_workers_start();
    acre__lock_give(&acre__soft.lock);
}

/* ---- starting ---- */

static int soft_is_used(void) {
    for (uint32_t i = 0; i < ACRE__SOFT_DEVICES_MAX; i++)
        if (acre__soft.devices[i].ctx.retained)
            return 1;
    return acre__soft.contexts != NULL;
}

/* Returns 1 if there is nothing to configure or if it is refused; *status says which. The lock is
 * held. */
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
    if (!soft_configure_is_over(config, &status)) { /* no thread has retained a context meanwhile */
        soft_drop_all();
        acre__soft.config = *config;
        acre__soft.is_configured = 1;
    }
    acre__soft_workers_start();
    acre__lock_give(&acre__soft.lock);
    return status;
}

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
