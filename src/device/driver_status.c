/* Maps result codes of the driver to statuses.
 *
 * Sticky codes are those after which, according to cuda.h, the process or the context with all its
 * memory is unusable, and the two hardware errors (ECC, NVLink) that behave the same. Some codes
 * between them are ordinary errors: 221 (JIT_COMPILER_NOT_FOUND), 701, and 703 - 713 except 710.
 *
 * Relies on: status, log; device.h for the lost mark and the counter, both atomic; the soft driver,
 * which knows why it lost a device. No locks of its own. */
#include "device/driver_status.h"

#include "base/atomic.h"
#include "base/log.h"
#include "base/status.h"
#include "device/device.h"
#include "driver/driver.h"
#include "soft/soft.h"

#undef acre__driver_fail /* undo the macros for the static analyzer */
#undef acre__driver_fail_host

int acre__driver_is_sticky(CUresult code) {
    switch ((int)code) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
        return 1;
    default:
        return 0;
    }
}

static acre_status status_of(CUresult code, acre_status out_of_memory) {
    if (acre__driver_is_sticky(code))
        return ACRE_E_DEVICE_LOST;
    if (code >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
        code <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)
        return ACRE_E_CAPTURING;
    switch ((int)code) {
    case CUDA_ERROR_OUT_OF_MEMORY:
        return out_of_memory;
    case CUDA_ERROR_NOT_INITIALIZED:
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_STUB_LIBRARY:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
        return ACRE_E_NO_DRIVER;
    case CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER:
        return ACRE_E_DRIVER_OLD;
    case CUDA_ERROR_DEVICE_UNAVAILABLE: /* another process has exclusive use of it */
        return ACRE_E_BUSY;
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_INVALID_DEVICE:
        return ACRE_E_NO_DEVICE;
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_INVALID_HANDLE:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
        return ACRE_E_HANDLE;
    case CUDA_ERROR_OPERATING_SYSTEM:
        return ACRE_E_SYSTEM;
    case CUDA_ERROR_NOT_READY:
        return ACRE_E_NOT_READY;
    case CUDA_ERROR_NOT_PERMITTED:
    case CUDA_ERROR_NOT_SUPPORTED:
        return ACRE_E_UNSUPPORTED;
    default:
        return ACRE_E_DRIVER;
    }
}

const char *acre__driver_why(const acre_device *dev, CUresult code, char *buffer, size_t size) {
    int has_report = dev && dev->drv->is_soft && acre__driver_is_sticky(code) &&
                     acre__soft_why_lost(dev->device, buffer, size);
    return has_report ? buffer : acre__driver_error_text(code);
}

/* Counts one failed call, marks a lost device, and stores the detail. */
static acre_status status_fail(acre_device *dev, CUresult code, const char *what,
                               acre_status status) {
    char buffer[ACRE__DETAIL_BYTES];
    const char *why = acre__driver_why(dev, code, buffer, sizeof buffer);
    if (dev && code != CUDA_ERROR_NOT_READY)
        acre__fetch_add(&dev->driver_refusals, 1, memory_order_relaxed);
    if (dev && status == ACRE_E_DEVICE_LOST) {
        uint32_t none = 0;
        if (acre__cas(&dev->lost, &none, (uint32_t)code, memory_order_acq_rel,
                      memory_order_acquire))
            acre__log(ACRE_LOG_ERROR, "device", "%s is lost: %s: %s (%d), %s", dev->label, what,
                      acre__driver_error_name(code), (int)code,
                      why == buffer ? "as the message before says" : why);
    }
    return acre__fail(status, "%s: %s (%d), %s", what, acre__driver_error_name(code), (int)code,
                      why);
}

acre_status acre__driver_fail(acre_device *dev, CUresult code, const char *what) {
    return status_fail(dev, code, what, status_of(code, ACRE_E_DEVICE_MEMORY));
}

acre_status acre__driver_fail_host(acre_device *dev, CUresult code, const char *what) {
    return status_fail(dev, code, what, status_of(code, ACRE_E_HOST_MEMORY));
}

enum acre__fate acre__driver_fate(CUresult code) {
    switch ((int)code) {
    case CUDA_SUCCESS:
    case CUDA_ERROR_DEINITIALIZED:
        return ACRE__FATE_TAKEN;
    case CUDA_ERROR_INVALID_HANDLE:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
        return ACRE__FATE_UNKNOWN;
    default:
        return ACRE__FATE_REFUSED;
    }
}
