/* Maps the driver's result codes to acre's statuses. Only this module knows what a CUresult means
 * to a caller, and it detects a lost device. */
#ifndef ACRE_DRIVER_STATUS_H
#define ACRE_DRIVER_STATUS_H

#include "acre.h"
#include "driver/cuda_abi.h"

/* Returns the status for a code other than CUDA_SUCCESS, with a detail such as "cuStreamCreate:
 * CUDA_ERROR_OUT_OF_MEMORY (2), not enough memory". Counts the failure and, for a code that poisons
 * the context, marks the device as lost. `dev` is NULL before a device is open.
 * CUDA_ERROR_NOT_READY is an answer, not a failure, and is not counted. For a lost soft device the
 * text is the soft driver's own report, and the call takes the soft driver's lock. */
acre_status acre__driver_fail(acre_device *dev, CUresult code, const char *what);

/* As acre__driver_fail, for calls that allocate host memory: out of memory is
 * ACRE_E_HOST_MEMORY. */
acre_status acre__driver_fail_host(acre_device *dev, CUresult code, const char *what);

#ifdef __clang_analyzer__ /* as in base/status.h */
#define acre__driver_fail(dev, code, what) (acre__driver_fail((dev), (code), (what)), ACRE_E_DRIVER)
#define acre__driver_fail_host(dev, code, what)                                                    \
    (acre__driver_fail_host((dev), (code), (what)), ACRE_E_DRIVER)
#endif

/* Returns the text of a code; for the code that lost a soft device, the soft driver's report, which
 * is stored in `buffer`. */
const char *acre__driver_why(const acre_device *dev, CUresult code, char *buffer, size_t size);

/* 1 for sticky codes, after which the context, and with it the process, is unusable. */
int acre__driver_is_sticky(CUresult code);

/* What the code of a destroy, free or release call says about the resource. */
enum acre__fate {
    ACRE__FATE_TAKEN,   /* released, or the driver is shutting down: success */
    ACRE__FATE_UNKNOWN, /* the driver does not know it: someone else released it earlier */
    ACRE__FATE_REFUSED  /* not released; may be retried */
};
enum acre__fate acre__driver_fate(CUresult code);

#endif
