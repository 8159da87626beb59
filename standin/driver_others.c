/* Doors of unsupported functions: every function of the driver that the soft driver does not have,
 * by name. See driver_others.h.
 *
 * They are declared without parameters, because they read none. */
#include "driver_others.h"

#include <string.h>

#include "caller.h"
#include "driver_forms.h"

enum other_why { OTHER_CALL, OTHER_SHARE, OTHER_KERNEL, OTHER_OLD };

void acre__standin_say_kernel(const char *call) {
    acre_ledger_say_once(
        call, "%s: kernels need a GPU; the soft device runs memory, streams and events", call);
}

static CUresult other(const char *name, enum other_why why, const void *address) {
    struct acre_ledger_caller before;
    acre_ledger_enter(&before, name, address);
    if (why == OTHER_KERNEL)
        acre__standin_say_kernel(name);
    else if (why == OTHER_OLD)
        acre_ledger_say_once(name,
                             "%s without a suffix is the form from before CUDA 3.2, with 32-bit "
                             "sizes; use %s_v2, as cuda.h does",
                             name, name);
    else if (why == OTHER_SHARE)
        acre_ledger_say_once(name,
                             "the soft device does not have %s; share memory with "
                             "cuMemExportToShareableHandle",
                             name);
    else
        acre_ledger_say_once(name, "the soft device does not have %s", name);
    return acre__ledger_end(&before, CUDA_ERROR_NOT_SUPPORTED);
}

#define OTHER_DOOR(name, symbol, version, why)                                                     \
    STANDIN_EXPORT CUresult symbol(void);                                                          \
    CUresult symbol(void) {                                                                        \
        return other(#name, OTHER_##why, __builtin_return_address(0));                             \
    }
STANDIN_OTHERS(OTHER_DOOR)

#define OTHER_ROW(name, symbol, version, why) {#name, #symbol, version, (standin_function)symbol},

const struct standin_row acre__standin_other_rows[] = {
    STANDIN_OTHERS(OTHER_ROW){NULL, NULL, 0, NULL}};
