/* Statuses and error details. Part of acre.h. */
#ifndef ACRE_STATUS_H
#define ACRE_STATUS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ACRE_API __attribute__((visibility("default")))
#else
#define ACRE_API
#endif

/* Every status: name, value (never changes), meaning. */
#define ACRE_STATUS_LIST(X)                                                                        \
    X(ACRE_OK, 0, "success")                                                                       \
    X(ACRE_E_INVALID, -1, "an argument is out of range or contradicts another one")                \
    X(ACRE_E_NULL, -2, "a required pointer argument is NULL")                                      \
    X(ACRE_E_HANDLE, -3,                                                                           \
      "the handle is not a live object of this library, or belongs to another device or pool")     \
    X(ACRE_E_OPTIONS, -4,                                                                          \
      "the options struct has a size or setting that this version does not know")                  \
    X(ACRE_E_CONFIG, -5, "a configuration variable has an invalid value")                          \
    X(ACRE_E_NO_DRIVER, -6, "the driver library is not installed or cannot be loaded")             \
    X(ACRE_E_DRIVER_OLD, -7, "the installed driver is too old")                                    \
    X(ACRE_E_NO_DEVICE, -8, "there is no such device")                                             \
    X(ACRE_E_DEVICE_LOST, -9, "the device failed for good; this process must be restarted")        \
    X(ACRE_E_FORKED, -10,                                                                          \
      "the parent process opened a device before fork; this process cannot use acre")              \
    X(ACRE_E_HOST_MEMORY, -11, "out of host memory")                                               \
    X(ACRE_E_DEVICE_MEMORY, -12, "out of device memory")                                           \
    X(ACRE_E_ADDRESS_SPACE, -13, "out of virtual addresses")                                       \
    X(ACRE_E_BUSY, -14, "the call is not allowed while the object is in use")                      \
    X(ACRE_E_NOT_READY, -15, "queued work has not finished yet, or there is no result yet")        \
    X(ACRE_E_CAPTURING, -16, "not allowed while the stream is being captured")                     \
    X(ACRE_E_UNSUPPORTED, -17, "the device or driver does not support this")                       \
    X(ACRE_E_SYSTEM, -18, "a system call failed")                                                  \
    X(ACRE_E_DRIVER, -19, "a driver call failed; the detail has its error code")                   \
    X(ACRE_E_POINTER, -20, "the address is not that of a live block")                              \
    X(ACRE_E_INTERIOR, -21,                                                                        \
      "the address is inside a block; the block's first address is required")                      \
    X(ACRE_E_KIND, -22, "this kind of memory does not support the operation")                      \
    X(ACRE_E_RANGE, -23, "the bytes extend past the end of a block")                               \
    X(ACRE_E_OVERLAP, -24, "source and destination overlap")                                       \
    X(ACRE_E_DIRECTION, -25, "the copy goes in another direction than the caller stated")          \
    X(ACRE_E_REGISTERED, -26, "part of the memory is already registered or allocated")             \
    X(ACRE_E_LIMIT, -27, "the request would exceed a limit, set by the program or by acre")        \
    X(ACRE_E_PEER, -28, "not permitted: one process does not accept the user id of the other")     \
    X(ACRE_E_PROTOCOL, -29, "the other process sent an invalid message")                           \
    X(ACRE_E_GONE, -30, "the other process no longer exists, or has ended the share")              \
    X(ACRE_E_COMMITTED, -31,                                                                       \
      "the plan is committed and accepts no requests until acre_plan_release")                     \
    X(ACRE_E_SUSPENDED, -32, "the memory is suspended, until acre_resume")

typedef enum acre_status {
#define ACRE_STATUS_ENUM(name, value, text) name = value,
    ACRE_STATUS_LIST(ACRE_STATUS_ENUM)
#undef ACRE_STATUS_ENUM
} acre_status;

/* Returns the meaning of a status in one line. Never NULL, whatever the value. */
ACRE_API const char *acre_status_text(acre_status status);

/* Returns the name of a status ("ACRE_E_NULL"). Never NULL. */
ACRE_API const char *acre_status_name(acre_status status);

/* Returns one line about the calling thread's last failed call: what the call requested, what went
 * wrong and, if a driver call failed, its error code. The line of a call that allocates, frees or
 * copies begins with the name of that call. Empty if no call has failed yet. The string
 * is valid until the thread's next call into acre. */
ACRE_API const char *acre_last_detail(void);

/* Returns the version of the library that is loaded, "major.minor.patch". */
ACRE_API const char *acre_version(void);

#ifdef __cplusplus
}
#endif

#endif
