/* See shim_retry.h. */
#include "shim_retry.h"

#include "shim_count.h"
#include "shim_hooks.h"
#include "shim_limit.h"
#include "shim_pause.h"
#include "shim_serve.h"

/* Graphs take device memory for nodes that allocate; under a limit it is charged then. */
static CUresult retry_end_graph(CUresult result) {
    if (!result && acre__limit_is_on()) {
        (void)acre__shim_table();
        acre__limit_settle_graphs();
    }
    return result;
}

/* Calls the driver until it has memory, or acre has none left to release. */
#define RETRY_CALL(symbol, params, args)                                                           \
    static CUresult retry_##symbol params {                                                        \
        CUresult(*driver) params;                                                                  \
        if (!acre__shim_find(SHIM_HOOK_##symbol, &driver))                                         \
            return CUDA_ERROR_NOT_FOUND;                                                           \
        CUresult result = driver args;                                                             \
        for (int i = 0; i < 2 && result == CUDA_ERROR_OUT_OF_MEMORY; i++) {                        \
            if (acre__serve_make_room(i))                                                          \
                result = driver args;                                                              \
        }                                                                                          \
        return result;                                                                             \
    }
SHIM_RETRIED(RETRY_CALL)

#define RETRY_LOAD(symbol, params, args)                                                           \
    CUresult symbol params {                                                                       \
        acre__count_call(#symbol);                                                                 \
        return retry_##symbol args;                                                                \
    }
SHIM_LOADS(RETRY_LOAD)

#define RETRY_GRAPH(symbol, params, args)                                                          \
    CUresult symbol params {                                                                       \
        acre__count_call(#symbol);                                                                 \
        return retry_end_graph(retry_##symbol args);                                               \
    }
SHIM_GRAPHS(RETRY_GRAPH)

#define RETRY_GRAPH_UPLOAD(symbol, params, args)                                                   \
    CUresult symbol params {                                                                       \
        struct shim_user *user = acre__user_begin(#symbol);                                        \
        acre__count_call(#symbol);                                                                 \
        return retry_end_graph(acre__user_end(user, retry_##symbol args));                         \
    }
SHIM_GRAPH_UPLOADS(RETRY_GRAPH_UPLOAD)

#define RETRY_GRAPH_LAUNCH(symbol, params, args)                                                   \
    CUresult symbol params {                                                                       \
        struct shim_user *user = acre__user_begin(#symbol);                                        \
        return retry_end_graph(acre__user_end(user, retry_##symbol args));                         \
    }
SHIM_GRAPH_LAUNCHES(RETRY_GRAPH_LAUNCH)

#define RETRY_LAUNCH(symbol, params, args)                                                         \
    CUresult symbol params {                                                                       \
        struct shim_user *user = acre__user_begin(#symbol);                                        \
        return acre__user_end(user, retry_##symbol args);                                          \
    }
SHIM_LAUNCHES(RETRY_LAUNCH)

#define RETRY_FIRST_USE(symbol, params, args)                                                      \
    CUresult symbol params {                                                                       \
        return retry_##symbol args;                                                                \
    }
SHIM_FIRST_USES(RETRY_FIRST_USE)
