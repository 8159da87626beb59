/*
 * Names of driver functions and of result codes, from the lists in driver_list.h and cuda_abi.h.
 * Constant data only; any thread, no locks.
 */
#include "driver/driver.h"

#include <string.h>

static const char *const names_entry[ACRE__ENTRY_COUNT] = {
#define NAMES_ENTRY(name, symbol, version, need, sticky, calls, moved, params, args) #name,
    ACRE__DRIVER_LIST(NAMES_ENTRY)
#undef NAMES_ENTRY
};

int acre__driver_has(const struct acre__driver *drv, enum acre__driver_entry entry) {
    return (unsigned)entry < ACRE__ENTRY_COUNT && !drv->missing[entry];
}

const char *acre__driver_entry_name(enum acre__driver_entry entry) {
    return (unsigned)entry < ACRE__ENTRY_COUNT ? names_entry[entry] : NULL;
}

enum acre__driver_entry acre__driver_entry_find(const char *name) {
    unsigned entry = 0;

    while (entry < ACRE__ENTRY_COUNT && strcmp(names_entry[entry], name) != 0)
        entry++;
    return (enum acre__driver_entry)entry;
}

const char *acre__driver_error_name(CUresult code) {
    switch (code) {
#define NAMES_ERROR(name, value, text)                                                             \
    case name:                                                                                     \
        return #name;
        ACRE__CURESULT_LIST(NAMES_ERROR)
#undef NAMES_ERROR
    }
    return "CUDA_ERROR_?";
}

const char *acre__driver_error_text(CUresult code) {
    switch (code) {
#define NAMES_ERROR(name, value, text)                                                             \
    case name:                                                                                     \
        return text;
        ACRE__CURESULT_LIST(NAMES_ERROR)
#undef NAMES_ERROR
    }
    return "a code that this version of acre does not know";
}
