/* Statuses and errors. Part of acre.h. */
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

/* Every status: name, value (pinned for good), meaning. */
#define ACRE_STATUS_LIST(X)                                                                        \
    X(ACRE_OK, 0, "success")                                                                       \
    X(ACRE_E_INVALID, -1, "an argument is out of range or does not fit the others")                \
    X(ACRE_E_NULL, -2, "a required pointer argument is NULL")                                      \
    X(ACRE_E_HANDLE, -3, "the handle is not, or no longer, a live object of this library")         \
    X(ACRE_E_OPTIONS, -4, "the options struct has a size or a setting this version does not know") \
    X(ACRE_E_CONFIG, -5, "a configuration variable has a value that cannot be read")               \
    X(ACRE_E_NO_DRIVER, -6, "the driver library is not installed or cannot be loaded")             \
    X(ACRE_E_DRIVER_OLD, -7, "the installed driver is too old")                                    \
    X(ACRE_E_NO_DEVICE, -8, "there is no such device")                                             \
    X(ACRE_E_DEVICE_LOST, -9, "the device failed for good; this process must be restarted")        \
    X(ACRE_E_FORKED, -10, "the library was opened before fork and cannot be used in the child")    \
    X(ACRE_E_HOST_MEMORY, -11, "out of host memory")                                               \
    X(ACRE_E_DEVICE_MEMORY, -12, "out of device memory")                                           \
    X(ACRE_E_ADDRESS_SPACE, -13, "out of addresses")                                               \
    X(ACRE_E_BUSY, -14, "the object is in use in a way that forbids this")                         \
    X(ACRE_E_NOT_READY, -15, "work queued before has not finished yet")                            \
    X(ACRE_E_CAPTURING, -16, "not allowed while the stream is being captured")                     \
    X(ACRE_E_UNSUPPORTED, -17, "this device or driver cannot do that")                             \
    X(ACRE_E_SYSTEM, -18, "the operating system refused")                                          \
    X(ACRE_E_DRIVER, -19, "the driver refused; the detail has its code")                           \
    X(ACRE_E_POINTER, -20, "the address is not, or no longer, that of a block allocated by acre")  \
    X(ACRE_E_INTERIOR, -21, "the address lies inside a block; its first address is needed")        \
    X(ACRE_E_KIND, -22, "the memory is of a kind that this cannot be done with")                   \
    X(ACRE_E_RANGE, -23, "the bytes reach past the end of a block")                                \
    X(ACRE_E_OVERLAP, -24, "source and destination overlap")                                       \
    X(ACRE_E_DIRECTION, -25, "the copy goes another way than was said")                            \
    X(ACRE_E_REGISTERED, -26, "some of the memory is registered or allocated already")             \
    X(ACRE_E_LIMIT, -27, "a limit that the program set would be exceeded")                         \
    X(ACRE_E_PEER, -28, "the other process may not do that")                                       \
    X(ACRE_E_PROTOCOL, -29, "the other process sent what cannot be understood")                    \
    X(ACRE_E_GONE, -30, "the other process has gone")                                              \
    X(ACRE_E_COMMITTED, -31, "the plan is committed and takes no more wishes")

typedef enum acre_status {
#define ACRE_STATUS_ENUM(name, value, text) name = value,
    ACRE_STATUS_LIST(ACRE_STATUS_ENUM)
#undef ACRE_STATUS_ENUM
} acre_status;

/* The meaning of a status in one line; never NULL, also for values that are no status. */
ACRE_API const char *acre_status_text(acre_status status);

/* The name of a status ("ACRE_E_NULL"); never NULL. */
ACRE_API const char *acre_status_name(acre_status status);

/* One line about the calling thread's last failed call: what was asked, what was wrong, the
 * driver's code if it was the driver. Empty if nothing failed yet. Valid until the thread's next
 * call into acre. */
ACRE_API const char *acre_last_detail(void);

/* The version of the library that is running, "major.minor.patch". */
ACRE_API const char *acre_version(void);

#ifdef __cplusplus
}
#endif

#endif
