/* From the driver's result codes to acre's: the only place that knows what a CUresult means to a
 * caller, and the place where a device is found to be lost. */
#ifndef ACRE_DRIVER_STATUS_H
#define ACRE_DRIVER_STATUS_H

#include "acre.h"
#include "driver/cuda_abi.h"

/* Returns the status for a code that is not CUDA_SUCCESS, with a detail such as
 * "cuStreamCreate: CUDA_ERROR_OUT_OF_MEMORY (2), not enough memory". Counts the refusal and, for a
 * code that poisons the context, marks the device as lost. `dev` is NULL before a device is open.
 * CUDA_ERROR_NOT_READY is an answer and not counted. Takes no lock. */
acre_status acre__driver_fail(acre_device *dev, CUresult code, const char *what);

/* The same for calls that take host memory: running out is ACRE_E_HOST_MEMORY. */
acre_status acre__driver_fail_host(acre_device *dev, CUresult code, const char *what);

#ifdef __clang_analyzer__ /* as in base/status.h */
#define acre__driver_fail(dev, code, what) (acre__driver_fail((dev), (code), (what)), ACRE_E_DRIVER)
#define acre__driver_fail_host(dev, code, what)                                                    \
    (acre__driver_fail_host((dev), (code), (what)), ACRE_E_DRIVER)
#endif

/* 1 for the codes after which the context, and with it the process, is of no more use. */
int acre__driver_is_sticky(CUresult code);

/* What the code of a destroy, free or release says about the thing that was to go. */
enum acre__fate {
    ACRE__FATE_TAKEN,   /* it is gone, or the driver itself is: success */
    ACRE__FATE_UNKNOWN, /* the driver did not know it: gone before, and not by us */
    ACRE__FATE_REFUSED  /* it is still there and may be tried again */
};
enum acre__fate acre__driver_fate(CUresult code);

#endif
