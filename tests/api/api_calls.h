/* Lists every public function that takes a device as a call with otherwise valid arguments. Tests
 * pass the same invalid argument to all of them. */
#ifndef ACRE_TESTS_API_CALLS_H
#define ACRE_TESTS_API_CALLS_H

#include <string.h>

#include "acre.h"
#include "acre_soft.h"

struct api_arguments {
    acre_device *device;
    acre_stream stream;
    acre_event event;
    void *block;      /* API_BLOCK_BYTES of managed memory of the device */
    void *registered; /* memory of the program, registered with the device */
};

enum { API_BLOCK_BYTES = 4096 };

/* Memory of the program. `registered` is the first half; calls under test register the second. */
static _Alignas(65536) char api_own[2 * 65536];

/* Sets `block` and `registered`. */
static inline acre_status api_arguments_memory(struct api_arguments *with) {
    acre_status status =
        acre_mem_alloc(with->device, ACRE_KIND_MANAGED, API_BLOCK_BYTES, 0, &with->block);
    with->registered = api_own;
    return status ? status : acre_mem_register(with->device, api_own, 65536, 0);
}

struct api_call {
    const char *name;
    acre_status (*call)(const struct api_arguments *with);
    int gives_back; /* destroys or closes: also works on a lost device */
    int is_soft;    /* soft devices only */
};

static inline int api_call_is_for(const struct api_call *call, const char *device) {
    return !call->is_soft || strncmp(device, "soft", 4) == 0;
}

static inline acre_status api_call_info(const struct api_arguments *with) {
    acre_device_info info = {.struct_size = sizeof info};
    return acre_device_get_info(with->device, &info);
}
static inline acre_status api_call_sync(const struct api_arguments *with) {
    return acre_device_sync(with->device);
}
static inline acre_status api_call_set_limits(const struct api_arguments *with) {
    return acre_device_set_limits(with->device, 0, 0);
}
static inline acre_status api_call_stream_create(const struct api_arguments *with) {
    acre_stream stream = (acre_stream)1;
    acre_status status = acre_stream_create(with->device, ACRE_STREAM_DEFAULT, &stream);
    if (status == ACRE_OK)
        (void)acre_stream_destroy(with->device, stream);
    else if (stream)
        return ACRE_OK; /* the failed call left an output: no test expects this status */
    return status;
}
static inline acre_status api_call_stream_sync(const struct api_arguments *with) {
    return acre_stream_sync(with->device, with->stream);
}
static inline acre_status api_call_stream_query(const struct api_arguments *with) {
    return acre_stream_query(with->device, with->stream);
}
static inline acre_status api_call_stream_wait(const struct api_arguments *with) {
    return acre_stream_wait(with->device, with->stream, with->event);
}
static inline acre_status api_call_stream_get_id(const struct api_arguments *with) {
    uint64_t id;
    return acre_stream_get_id(with->device, with->stream, &id);
}
static inline acre_status api_call_event_create(const struct api_arguments *with) {
    acre_event event = (acre_event)1;
    acre_status status = acre_event_create(with->device, ACRE_EVENT_TIMING, &event);
    if (status == ACRE_OK)
        (void)acre_event_destroy(with->device, event);
    else if (event)
        return ACRE_OK;
    return status;
}
static inline acre_status api_call_event_record(const struct api_arguments *with) {
    return acre_event_record(with->device, with->event, with->stream);
}
static inline acre_status api_call_event_query(const struct api_arguments *with) {
    return acre_event_query(with->device, with->event);
}
static inline acre_status api_call_event_sync(const struct api_arguments *with) {
    return acre_event_sync(with->device, with->event);
}
static inline acre_status api_call_event_elapsed(const struct api_arguments *with) {
    float ms;
    return acre_event_elapsed(with->device, with->event, with->event, &ms);
}
static inline acre_status api_call_trim(const struct api_arguments *with) {
    return acre_trim(with->device);
}
static inline acre_status api_call_stats(const struct api_arguments *with) {
    acre_device_stats stats = {.struct_size = sizeof stats};
    return acre_device_get_stats(with->device, &stats);
}
static inline acre_status api_call_mem_alloc(const struct api_arguments *with) {
    void *p = api_own;
    acre_status status = acre_mem_alloc(with->device, ACRE_KIND_DEVICE, 4096, 0, &p);
    if (status == ACRE_OK)
        (void)acre_mem_free(with->device, p);
    else if (p)
        return ACRE_OK;
    return status;
}
static inline acre_status api_call_mem_realloc(const struct api_arguments *with) {
    void *p = api_own;
    acre_status status = acre_mem_realloc(with->device, NULL, 4096, with->stream, &p);
    if (status == ACRE_OK)
        (void)acre_mem_free(with->device, p);
    else if (p)
        return ACRE_OK;
    return status;
}
/* `block` has no chunks, so this call allocates a block that has. */
static inline acre_status api_call_mem_set_access(const struct api_arguments *with) {
    void *p = NULL;
    acre_status made = acre_mem_alloc(with->device, ACRE_KIND_DEVICE, (size_t)2 << 20, 0, &p);
    acre_status status = acre_mem_set_access(with->device, made ? with->block : p, with->device,
                                             ACRE_ACCESS_READ_WRITE);
    if (made == ACRE_OK)
        (void)acre_mem_free(with->device, p);
    return status;
}
static inline acre_status api_call_mem_device_pointer(const struct api_arguments *with) {
    void *p = api_own;
    acre_status status = acre_mem_device_pointer(with->device, with->block, &p);
    return status != ACRE_OK && p ? ACRE_OK : status;
}
static inline acre_status api_call_mem_register(const struct api_arguments *with) {
    acre_status status = acre_mem_register(with->device, api_own + 65536, 4096, 0);
    if (status == ACRE_OK)
        (void)acre_mem_unregister(with->device, api_own + 65536);
    return status;
}
static inline acre_status api_call_mem_prefetch(const struct api_arguments *with) {
    return acre_mem_prefetch(with->device, with->block, API_BLOCK_BYTES, ACRE_PLACE_HOST,
                             with->stream);
}
static inline acre_status api_call_mem_advise(const struct api_arguments *with) {
    return acre_mem_advise(with->device, with->block, API_BLOCK_BYTES, ACRE_ADVICE_NOT_READ_MOSTLY,
                           ACRE_PLACE_HOST);
}
static inline acre_status api_call_mem_attach(const struct api_arguments *with) {
    return acre_mem_attach(with->device, with->block, ACRE_ATTACH_GLOBAL, with->stream);
}
static inline acre_status api_call_mem_query(const struct api_arguments *with) {
    acre_mem_info info = {.struct_size = sizeof info};
    return acre_mem_query(with->device, with->block, &info);
}
static inline acre_status api_call_copy(const struct api_arguments *with) {
    return acre_copy(with->device, with->block, with->registered, 64, with->stream);
}
static inline acre_status api_call_copy_as(const struct api_arguments *with) {
    return acre_copy_as(with->device, ACRE_HOST_TO_DEVICE, with->block, with->registered, 64,
                        with->stream);
}
static inline acre_status api_call_copy_sync(const struct api_arguments *with) {
    return acre_copy_sync(with->device, with->block, with->registered, 64);
}
static inline acre_status api_call_copy_2d(const struct api_arguments *with) {
    return acre_copy_2d(with->device, with->block, 64, with->registered, 32, 16, 4, with->stream);
}
static inline acre_status api_call_fill(const struct api_arguments *with) {
    return acre_fill(with->device, with->block, 7, 64, with->stream);
}
static inline acre_status api_call_fill_sync(const struct api_arguments *with) {
    return acre_fill_sync(with->device, with->block, 7, 64);
}
static inline void api_kernel(void *arg) {
    (void)arg;
}
static inline acre_status api_call_soft_launch(const struct api_arguments *with) {
    const uint32_t one[3] = {1, 1, 1};
    return acre_soft_launch(with->device, with->stream, api_kernel, one, one, 0, NULL);
}
static inline acre_status api_call_alloc(const struct api_arguments *with) {
    void *p = api_own;
    acre_status status = acre_alloc(with->device, 4096, with->stream, &p);
    if (status == ACRE_OK)
        (void)acre_free(p, with->stream);
    else if (p)
        return ACRE_OK;
    return status;
}
static inline acre_status api_call_pool_create(const struct api_arguments *with) {
    acre_pool *pool = (acre_pool *)(void *)api_own;
    acre_status status = acre_pool_create(with->device, NULL, &pool);
    if (status == ACRE_OK)
        (void)acre_pool_destroy(pool, NULL, NULL);
    else if (pool)
        return ACRE_OK;
    return status;
}
static inline acre_status api_call_pool_default(const struct api_arguments *with) {
    acre_pool *pool = (acre_pool *)(void *)api_own;
    acre_status status = acre_pool_default(with->device, ACRE_KIND_PINNED, &pool);
    return status != ACRE_OK && pool ? ACRE_OK : status;
}
static inline acre_status api_call_plan_create(const struct api_arguments *with) {
    acre_plan *plan = (acre_plan *)(void *)api_own;
    acre_status status = acre_plan_create(with->device, NULL, &plan);
    if (status == ACRE_OK)
        (void)acre_plan_destroy(plan);
    else if (plan)
        return ACRE_OK;
    return status;
}
static inline acre_status api_call_stream_retire(const struct api_arguments *with) {
    return acre_stream_retire(with->device, with->stream);
}
static inline acre_status api_call_mem_free(const struct api_arguments *with) {
    return acre_mem_free(with->device, with->block);
}
static inline acre_status api_call_mem_unregister(const struct api_arguments *with) {
    return acre_mem_unregister(with->device, with->registered);
}
static inline acre_status api_call_event_destroy(const struct api_arguments *with) {
    return acre_event_destroy(with->device, with->event);
}
static inline acre_status api_call_stream_destroy(const struct api_arguments *with) {
    return acre_stream_destroy(with->device, with->stream);
}
static inline acre_status api_call_close(const struct api_arguments *with) {
    return acre_close(with->device);
}

/* The last five destroy or release their arguments, so they come last and in this order. */
static const struct api_call api_calls[] = {
    {"acre_device_get_info", api_call_info, 0, 0},
    {"acre_device_sync", api_call_sync, 0, 0},
    {"acre_device_set_limits", api_call_set_limits, 0, 0},
    {"acre_stream_create", api_call_stream_create, 0, 0},
    {"acre_stream_sync", api_call_stream_sync, 0, 0},
    {"acre_stream_query", api_call_stream_query, 0, 0},
    {"acre_stream_wait", api_call_stream_wait, 0, 0},
    {"acre_stream_get_id", api_call_stream_get_id, 0, 0},
    {"acre_event_create", api_call_event_create, 0, 0},
    {"acre_event_record", api_call_event_record, 0, 0},
    {"acre_event_query", api_call_event_query, 0, 0},
    {"acre_event_sync", api_call_event_sync, 0, 0},
    {"acre_event_elapsed", api_call_event_elapsed, 0, 0},
    {"acre_mem_alloc", api_call_mem_alloc, 0, 0},
    {"acre_mem_realloc", api_call_mem_realloc, 0, 0},
    {"acre_mem_set_access", api_call_mem_set_access, 0, 0},
    {"acre_mem_device_pointer", api_call_mem_device_pointer, 0, 0},
    {"acre_mem_register", api_call_mem_register, 0, 0},
    {"acre_mem_prefetch", api_call_mem_prefetch, 0, 0},
    {"acre_mem_advise", api_call_mem_advise, 0, 0},
    {"acre_mem_attach", api_call_mem_attach, 0, 0},
    {"acre_mem_query", api_call_mem_query, 0, 0},
    {"acre_copy", api_call_copy, 0, 0},
    {"acre_copy_as", api_call_copy_as, 0, 0},
    {"acre_copy_sync", api_call_copy_sync, 0, 0},
    {"acre_copy_2d", api_call_copy_2d, 0, 0},
    {"acre_fill", api_call_fill, 0, 0},
    {"acre_fill_sync", api_call_fill_sync, 0, 0},
    {"acre_soft_launch", api_call_soft_launch, 0, 1},
    {"acre_alloc", api_call_alloc, 0, 0},
    {"acre_pool_create", api_call_pool_create, 0, 0},
    {"acre_pool_default", api_call_pool_default, 0, 0},
    {"acre_plan_create", api_call_plan_create, 0, 0},
    {"acre_stream_retire", api_call_stream_retire, 0, 0},
    {"acre_trim", api_call_trim, 0, 0},
    {"acre_device_get_stats", api_call_stats, 1, 0},
    {"acre_mem_unregister", api_call_mem_unregister, 1, 0},
    {"acre_mem_free", api_call_mem_free, 1, 0},
    {"acre_event_destroy", api_call_event_destroy, 1, 0},
    {"acre_stream_destroy", api_call_stream_destroy, 1, 0},
    {"acre_close", api_call_close, 1, 0},
};

enum { API_CALLS = sizeof api_calls / sizeof api_calls[0] };

#endif
