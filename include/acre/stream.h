/* Streams and events. Part of acre.h. */
#ifndef ACRE_STREAM_H
#define ACRE_STREAM_H

#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The types CUstream and CUevent of CUDA (cudaStream_t, cudaEvent_t): a program can pass its own
 * CUDA streams and events. NULL is the legacy default stream, also in code compiled with per-thread
 * default streams: there, pass cudaStreamPerThread for the thread's default stream. acre checks
 * handles that it created itself. It passes other handles to the driver, which may crash on a
 * destroyed one. */
typedef struct CUstream_st *acre_stream;
typedef struct CUevent_st *acre_event;

#define ACRE_STREAM_DEFAULT 0u      /* synchronizes with the legacy stream, as in CUDA */
#define ACRE_STREAM_NON_BLOCKING 1u /* independent of the legacy stream */
#define ACRE_STREAM_NO_CAPTURE 2u   /* the program never captures it: pool calls save 30 ns */

/* Creates a stream. It exists until acre_stream_destroy or the last acre_close of the device. */
ACRE_API acre_status acre_stream_create(acre_device *device, uint32_t flags, acre_stream *stream);

/* Destroys a stream created by acre_stream_create. NULL is a no-op. Work queued on the stream still
 * runs. A later acre_stream_create may return the same handle: acre keeps the driver's stream until
 * the last acre_close of the device, with the attributes that the program has set through CUDA.
 *
 * Memory that the stream's work uses may live longer. So acre_free, acre_pool_free, the functions
 * that record a use, and those that destroy or close a vec, a range or an import accept the handle
 * until the last acre_close, and order the reuse of the memory behind that work. Do not queue new
 * work on it: functions that do, or that query the stream, return ACRE_E_HANDLE until
 * acre_stream_create has returned the handle again. From then on the handle names the new stream,
 * and these functions order the memory's reuse behind its work, too. While the new stream is being
 * captured, those that destroy or close return ACRE_E_CAPTURING.
 *
 * A stream that is being captured, or to which acre_mem_attach has attached memory, ends at once:
 * do not use its handle any more. Memory that CUDA's own cudaStreamAttachMemAsync has attached
 * stays attached.
 * Returns ACRE_E_HANDLE if the handle is not that of a live stream of acre_stream_create. */
ACRE_API acre_status acre_stream_destroy(acre_device *device, acre_stream stream);

/* Waits on the host until all work queued on the stream is done. */
ACRE_API acre_status acre_stream_sync(acre_device *device, acre_stream stream);

/* Returns ACRE_OK if all work queued on the stream is done, else ACRE_E_NOT_READY. Does not
 * wait. */
ACRE_API acre_status acre_stream_query(acre_device *device, acre_stream stream);

/* Makes all work queued on `stream` from now on wait for `event`, that is, for the work queued
 * before its last acre_event_record. The event may belong to another device of the same driver. The
 * host does not wait. */
ACRE_API acre_status acre_stream_wait(acre_device *device, acre_stream stream, acre_event event);

/* Gets the id of a stream. No other stream of the process has or had this id, even one with the
 * same handle. With drivers before CUDA 12.0 only streams created by acre have an id: the call
 * returns ACRE_E_UNSUPPORTED for others. */
ACRE_API acre_status acre_stream_get_id(acre_device *device, acre_stream stream, uint64_t *id);

#define ACRE_EVENT_DEFAULT 0u
#define ACRE_EVENT_TIMING 1u /* records times, for acre_event_elapsed */

/* Creates an event. It exists until acre_event_destroy or the last acre_close of the device. */
ACRE_API acre_status acre_event_create(acre_device *device, uint32_t flags, acre_event *event);

/* Destroys an event created by acre_event_create. NULL is a no-op. If the driver refuses, acre_trim
 * retries; the handle is invalid either way.
 * Returns ACRE_E_HANDLE for any other handle. */
ACRE_API acre_status acre_event_destroy(acre_device *device, acre_event event);

/* Records an event behind the work queued on `stream` so far. Recording it again replaces the
 * earlier record. */
ACRE_API acre_status acre_event_record(acre_device *device, acre_event event, acre_stream stream);

/* Returns ACRE_OK if the recorded work is done or nothing was recorded, else ACRE_E_NOT_READY. Does
 * not wait. */
ACRE_API acre_status acre_event_query(acre_device *device, acre_event event);

/* Waits on the host until the recorded work is done. */
ACRE_API acre_status acre_event_sync(acre_device *device, acre_event event);

/* Gets the milliseconds between two events created with ACRE_EVENT_TIMING.
 * Returns ACRE_E_NOT_READY if one has not completed, ACRE_E_INVALID if one has no time recorded. */
ACRE_API acre_status acre_event_elapsed(acre_device *device, acre_event begin, acre_event end,
                                        float *milliseconds);

#ifdef __cplusplus
}
#endif

#endif
