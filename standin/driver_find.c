/* cuGetProcAddress, with which libcudart, frameworks and libacre look up driver functions, and
 * cuGetExportTable, which only NVIDIA's own runtime uses. */
#include <string.h>

#include "caller.h"
#include "driver_forms.h"
#include "soft/soft.h"

static const struct standin_row *const find_tables[] = {
    acre__standin_list_rows, acre__standin_own_rows, acre__standin_form_rows,
    acre__standin_other_rows};

enum { FIND_TABLES = sizeof find_tables / sizeof find_tables[0] };

/* Returns 1 for a form with a default stream per thread. */
static int find_is_own(const struct standin_row *row) {
    size_t length = strlen(row->symbol);
    return length > 5 && (strcmp(row->symbol + length - 5, "_ptsz") == 0 ||
                          strcmp(row->symbol + length - 5, "_ptds") == 0);
}

struct find_result {
    const struct standin_row *row; /* the newest form up to the requested version; NULL: none */
    int is_known;                  /* there is a form with that name */
};

static struct find_result find(const char *name, int version, int want_own) {
    struct find_result found = {NULL, 0};
    for (size_t i = 0; i < FIND_TABLES; i++) {
        for (const struct standin_row *row = find_tables[i]; row->name; row++) {
            if (strcmp(row->name, name) != 0 || find_is_own(row) != want_own)
                continue;
            found.is_known = 1;
            if (row->version <= version && (!found.row || found.row->version < row->version))
                found.row = row;
        }
    }
    return found;
}

CUresult cuGetProcAddress_v2(const char *name, void **function_out, int version, uint64_t flags,
                             CUdriverProcAddressQueryResult *status_out) {
    int driver_version = 0;
    CUresult result = acre__driver_soft()->cuDriverGetVersion(&driver_version);
    if (result)
        return result;
    if (!name || !function_out || version > driver_version ||
        flags > (CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM))
        return CUDA_ERROR_INVALID_VALUE;
    struct find_result found = {NULL, 0};
    if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
        found = find(name, version, 1);
    /* A function with a per-thread form is never returned in another form, even if the requested
     * version is older than the per-thread form. */
    if (!found.is_known)
        found = find(name, version, 0);
    *function_out = NULL;
    if (found.row)
        memcpy(function_out, &found.row->function, sizeof found.row->function);
    if (status_out)
        *status_out = found.row        ? CU_GET_PROC_ADDRESS_SUCCESS
                      : found.is_known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                       : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_SUCCESS;
}

/* Until CUDA 12 only the result code could say that there is no such function. */
CUresult cuGetProcAddress(const char *name, void **function_out, int version, uint64_t flags) {
    CUresult result = cuGetProcAddress_v2(name, function_out, version, flags, NULL);
    return result || *function_out ? result : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetExportTable(const void **table_out, const CUuuid *id) {
    struct acre_ledger_caller before;
    (void)table_out, (void)id;
    acre_ledger_enter(&before, "cuGetExportTable", __builtin_return_address(0));
    acre_ledger_say_once("cuGetExportTable",
                         "the program contains its own CUDA runtime (linked statically, or not of "
                         "CUDA 13), which works only with NVIDIA's driver; build it with nvcc "
                         "-cudart shared of CUDA 13");
    acre__standin_fail();
    return acre__ledger_end(&before, CUDA_ERROR_NOT_SUPPORTED);
}
