/* Names and texts of errors, and the conversion of driver codes to runtime codes.
 *
 * No state, no locks. */
#include "runtime_state.h"

#include "runtime_errors.h"

static const struct {
    cudaError_t error;
    const char *name, *text;
} errors[] = {
#define ERROR_ROW(name, text) {name, #name, text},
    ACRE__RUNTIME_ERRORS(ERROR_ROW)
#undef ERROR_ROW
};
enum { ERRORS = sizeof errors / sizeof errors[0] };

/* Returns the index in the list, or ERRORS. A program can pass any number. */
static size_t error_find(unsigned error) {
    size_t i = 0;
    while (i < ERRORS && (unsigned)errors[i].error != error)
        i++;
    return i;
}

static const char error_unknown[] = "unrecognized error code";

const char *cudaGetErrorName(cudaError_t error) {
    size_t i = error_find((unsigned)error);
    return i < ERRORS ? errors[i].name : error_unknown;
}

const char *cudaGetErrorString(cudaError_t error) {
    size_t i = error_find((unsigned)error);
    return i < ERRORS ? errors[i].text : error_unknown;
}

/* The two lists of codes share their numbers. Some codes exist only in the driver (a context that
 * is already current, a key rotation); the runtime has none for them. */
cudaError_t acre__runtime_error(CUresult result) {
    size_t i = error_find((unsigned)result);
    return i < ERRORS ? errors[i].error : cudaErrorUnknown;
}
