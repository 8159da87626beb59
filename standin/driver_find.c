/* cuGetProcAddress, as libcudart, frameworks and libacre itself find the driver's functions, and
 * cuGetExportTable, by which only NVIDIA's own runtime does. */
#include <string.h>

#include "caller.h"
#include "driver_forms.h"
#include "soft/soft.h"

static const struct standin_row *const find_tables[] = {
    acre__standin_list_rows, acre__standin_own_rows, acre__standin_form_rows,
    acre__standin_other_rows};

enum { FIND_TABLES = sizeof find_tables / sizeof find_tables[0] };

/* Is it a form for a default stream of the thread's own? */
static int find_is_own(const struct standin_row *row) {
    size_t length = strlen(row->symbol);
    return length > 5 && (strcmp(row->symbol + length - 5, "_ptsz") == 0 ||
                          strcmp(row->symbol + length - 5, "_ptds") == 0);
}

struct find_result {
    const struct standin_row *row; /* the newest form that is not too new; NULL: none */
    int is_known;                  /* there is a form of that name */
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
    /* A function that has such forms is not handed out in another, not even to who asks for a
     * version from before they came. */
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

/* Until CUDA 12 the result was the only way to say that there is no such function. */
CUresult cuGetProcAddress(const char *name, void **function_out, int version, uint64_t flags) {
    CUresult result = cuGetProcAddress_v2(name, function_out, version, flags, NULL);
    return result || *function_out ? result : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetExportTable(const void **table_out, const CUuuid *id) {
    (void)table_out, (void)id;
    acre_standin_say_once("cuGetExportTable",
                          "the program brings a CUDA runtime of its own, linked into it or not of "
                          "CUDA 13, which works with NVIDIA's driver alone: build it with nvcc "
                          "-cudart shared of CUDA 13");
    acre__standin_fail();
    return CUDA_ERROR_NOT_SUPPORTED;
}
