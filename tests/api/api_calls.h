/* Every public function that takes a device, as a list of calls with otherwise good arguments, for
 * tests that give all of them the same bad one. */
#ifndef ACRE_TESTS_API_CALLS_H
#define ACRE_TESTS_API_CALLS_H

#include "acre.h"

struct api_arguments {
    acre_device *device;
    acre_stream stream;
    acre_event event;
};

struct api_call {
    const char *name;
    acre_status (*call)(const struct api_arguments *with);
    int gives_back; /* destroys or closes: also works on a lost device */
};

static inline acre_status api_call_info(const struct api_arguments *with) {
    acre_device_info info = {.struct_size = sizeof info};
    return acre_device_get_info(with->device, &info);
}
static inline acre_status api_call_sync(const struct api_arguments *with) {
    return acre_device_sync(with->device);
}
static inline acre_status api_call_stream_create(const struct api_arguments *with) {
    acre_stream stream = (acre_stream)1;
    acre_status status = acre_stream_create(with->device, ACRE_STREAM_DEFAULT, &stream);
    if (status == ACRE_OK)
        (void)acre_stream_destroy(with->device, stream);
    else if (stream)
        return ACRE_OK; /* an output was left over: no status a test expects */
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
    acre_stats stats = {.struct_size = sizeof stats};
    return acre_get_stats(with->device, &stats);
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

/* The last three end what they are given, so they come last and in this order. */
static const struct api_call api_calls[] = {
    {"acre_device_get_info", api_call_info, 0},
    {"acre_device_sync", api_call_sync, 0},
    {"acre_stream_create", api_call_stream_create, 0},
    {"acre_stream_sync", api_call_stream_sync, 0},
    {"acre_stream_query", api_call_stream_query, 0},
    {"acre_stream_wait", api_call_stream_wait, 0},
    {"acre_stream_get_id", api_call_stream_get_id, 0},
    {"acre_event_create", api_call_event_create, 0},
    {"acre_event_record", api_call_event_record, 0},
    {"acre_event_query", api_call_event_query, 0},
    {"acre_event_sync", api_call_event_sync, 0},
    {"acre_event_elapsed", api_call_event_elapsed, 0},
    {"acre_trim", api_call_trim, 0},
    {"acre_get_stats", api_call_stats, 1},
    {"acre_event_destroy", api_call_event_destroy, 1},
    {"acre_stream_destroy", api_call_stream_destroy, 1},
    {"acre_close", api_call_close, 1},
};

enum { API_CALLS = sizeof api_calls / sizeof api_calls[0] };

#endif
