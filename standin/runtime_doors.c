/* The doors of libcudart.so.13: one exported function for each call of the list, two for calls with
 * a form for a default stream per thread, and the state of threads. See runtime_state.h.
 *
 * Locks: none; all state is thread-local. */
#include "runtime_state.h"

static _Thread_local struct runtime_thread runtime_thread_self
    __attribute__((tls_model("initial-exec")));

struct runtime_thread *acre__runtime_thread(void) {
    return &runtime_thread_self;
}

void acre__runtime_enter(struct runtime_call *call, const char *name, const void *address,
                         int is_ptds) {
    acre_ledger_enter(&call->before, name, address);
    call->was_ptds = runtime_thread_self.is_ptds;
    runtime_thread_self.is_ptds = is_ptds;
}

cudaError_t acre__runtime_leave(const struct runtime_call *call, cudaError_t error) {
    runtime_thread_self.is_ptds = call->was_ptds;
    acre_ledger_leave(&call->before, (unsigned)error, cudaGetErrorName(error));
    /* "Not ready" is the answer to a query, not an error to keep. */
    if (error != cudaSuccess && error != cudaErrorNotReady)
        runtime_thread_self.last_error = error;
    return error;
}

/* ---- the last error: these two calls change nothing else ---- */

cudaError_t cudaGetLastError(void) {
    cudaError_t error = runtime_thread_self.last_error;
    runtime_thread_self.last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void) {
    return runtime_thread_self.last_error;
}

/* ---- doors of the list ---- */

#define DOOR_AS(exported, shown, name, is_ptds, params, args)                                      \
    cudaError_t exported params {                                                                  \
        struct runtime_call call;                                                                  \
        acre__runtime_enter(&call, shown, __builtin_return_address(0), is_ptds);                   \
        return acre__runtime_leave(&call, acre__runtime_##name args);                              \
    }

/* Source code has the name without the suffix, which the header adds. So the ledger shows that
 * name. */
#define DOOR_SUFFIXED(name, suffix, params, args)                                                  \
    STANDIN_EXPORT cudaError_t name##suffix params;                                                \
    DOOR_AS(name##suffix, #name, name, 1, params, args)

#define DOOR_PLAIN(name, params, args)
#define DOOR_PTSZ(name, params, args) DOOR_SUFFIXED(name, _ptsz, params, args)
#define DOOR_PTDS(name, params, args) DOOR_SUFFIXED(name, _ptds, params, args)

#define DOOR(name, form, params, args)                                                             \
    DOOR_AS(name, #name, name, 0, params, args)                                                    \
    DOOR_##form(name, params, args)

ACRE__RUNTIME_LIST(DOOR)
