/* Soft devices: the seed, and the public calls that only soft devices support. */
#include <string.h>

#include "base/config.h"
#include "base/status.h"
#include "device/device.h"
#include "device/driver_status.h"
#include "soft/soft.h"

int acre__device_is_seeded(const acre_device *dev) {
    return dev->drv->is_soft && acre__soft_config_get().seeded;
}

static acre_status soft_enter(acre_device *device, const char *why) {
    acre_status status = acre__device_enter(device);
    if (status || device->drv->is_soft)
        return status;
    return acre__fail(ACRE_E_UNSUPPORTED, "%s is not a soft device%s", device->label, why);
}

static acre_status soft_set_lag(acre_device *device, uint64_t operations, uint64_t ns) {
    acre_status status = soft_enter(device, "");
    if (status)
        return status;
    if (operations && ns)
        return acre__fail(ACRE_E_INVALID,
                          "a lag of %llu operations and of %llu ns: only one of "
                          "them can be set",
                          (unsigned long long)operations, (unsigned long long)ns);
    return acre__soft_lag_set(operations, ns);
}

acre_status acre_soft_set_lag(acre_device *device, uint64_t operations, uint64_t ns) {
    return acre__in_call(soft_set_lag(device, operations, ns), "acre_soft_set_lag");
}

static acre_status launch_check(const uint32_t grid[3], const uint32_t block[3],
                                size_t shared_bytes) {
    static const uint32_t grid_most[3] = {INT32_MAX, 65535, 65535};
    static const uint32_t block_most[3] = {1024, 1024, 64};
    for (int i = 0; i < 3; i++)
        if (!grid[i] || grid[i] > grid_most[i] || !block[i] || block[i] > block_most[i])
            return acre__fail(ACRE_E_INVALID, "%s is %u in %c; it must be 1 to %u",
                              !grid[i] || grid[i] > grid_most[i] ? "the grid" : "the block",
                              !grid[i] || grid[i] > grid_most[i] ? grid[i] : block[i], "xyz"[i],
                              !grid[i] || grid[i] > grid_most[i] ? grid_most[i] : block_most[i]);
    if ((uint64_t)block[0] * block[1] * block[2] > SOFT_BLOCK_THREADS)
        return acre__fail(ACRE_E_INVALID, "a block of %u x %u x %u threads; the limit is %d",
                          block[0], block[1], block[2], SOFT_BLOCK_THREADS);
    if (shared_bytes > SOFT_SHARED_MOST)
        return acre__fail(ACRE_E_INVALID, "%zu bytes of shared memory; the limit of a block is %d",
                          shared_bytes, SOFT_SHARED_MOST);
    return ACRE_OK;
}

static acre_status launch_queue(acre_device *device, acre_stream stream,
                                const struct acre__soft_kernel *kernel) {
    struct acre__current current;
    acre_status status = acre__device_begin(device, &current);
    if (status)
        return status;
    CUresult code = acre__soft_kernel_queue(stream, kernel);
    acre__device_pop(device, &current);
    return code ? acre__driver_fail_host(device, code, "acre_soft_launch") : ACRE_OK;
}

static acre_status soft_launch(acre_device *device, acre_stream stream, acre_soft_kernel fn,
                               const uint32_t grid[3], const uint32_t block[3], size_t shared_bytes,
                               void *arg) {
    uint64_t warp_lanes;
    if (acre_soft_in_kernel())
        return acre__fail(ACRE_E_UNSUPPORTED, "a kernel cannot launch kernels");
    acre_status status = soft_enter(device, ": it does not run C functions");
    if (status)
        return status;
    if (!fn || !grid || !block)
        return acre__fail(ACRE_E_NULL, "%s is NULL",
                          !fn     ? "the kernel"
                          : !grid ? "the grid"
                                  : "the block");
    if ((status = launch_check(grid, block, shared_bytes)) ||
        (status = acre__stream_check(device, stream)) ||
        (status = acre__config_number(ACRE__CONFIG_SOFT_WARP, SOFT_WARP_LANES, &warp_lanes)))
        return status;
    if (warp_lanes != 1 && warp_lanes != SOFT_WARP_LANES)
        return acre__fail(ACRE_E_CONFIG, "ACRE_SOFT_WARP is %llu; it must be 1 or 32",
                          (unsigned long long)warp_lanes);
    struct acre__soft_kernel kernel = {
        .fn = fn, .arg = arg, .shared_bytes = shared_bytes, .warp_lanes = (uint32_t)warp_lanes};
    memcpy(kernel.grid, grid, sizeof kernel.grid);
    memcpy(kernel.block, block, sizeof kernel.block);
    return launch_queue(device, stream, &kernel);
}

acre_status acre_soft_launch(acre_device *device, acre_stream stream, acre_soft_kernel fn,
                             const uint32_t grid[3], const uint32_t block[3], size_t shared_bytes,
                             void *arg) {
    return acre__in_call(soft_launch(device, stream, fn, grid, block, shared_bytes, arg),
                         "acre_soft_launch");
}
