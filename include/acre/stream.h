/* Streams and events. Part of acre.h. */
#ifndef ACRE_STREAM_H
#define ACRE_STREAM_H

#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The same types as CUstream, cudaStream_t, CUevent and cudaEvent_t, so that streams of a CUDA
 * program can be passed as they are. NULL is the legacy default stream. Streams made by acre are
 * known to it and checked; others are handed to the driver, which may crash on a dead one. */
typedef struct CUstream_st *acre_stream;
typedef struct CUevent_st *acre_event;

#define ACRE_STREAM_DEFAULT 0u      /* waits for the legacy stream and is waited for by it */
#define ACRE_STREAM_NON_BLOCKING 1u /* independent of the legacy stream */
#define ACRE_STREAM_NO_CAPTURE 2u   /* never captured into a graph: pools need not ask, 30 ns */

ACRE_API acre_status acre_stream_create(acre_device *device, uint32_t flags, acre_stream *stream);

/* Ends a stream made by acre_stream_create. Work queued on it still runs. NULL is a no-op. If the
 * driver refuses, the stream is kept aside and destroyed by acre_trim; the handle is dead either
 * way. Another handle: ACRE_E_HANDLE. */
ACRE_API acre_status acre_stream_destroy(acre_device *device, acre_stream stream);

/* Waits until everything queued on the stream is done. */
ACRE_API acre_status acre_stream_sync(acre_device *device, acre_stream stream);

/* ACRE_OK when everything queued on the stream is done, else ACRE_E_NOT_READY. */
ACRE_API acre_status acre_stream_query(acre_device *device, acre_stream stream);

/* Makes work queued on `stream` from now on wait for what `event` last recorded; the event may be
 * of another device of the same driver. */
ACRE_API acre_status acre_stream_wait(acre_device *device, acre_stream stream, acre_event event);

/* A number that no other stream of the process has or had, even if the handle is the same. With
 * drivers before CUDA 12.0 only for streams that acre made: ACRE_E_UNSUPPORTED for others. */
ACRE_API acre_status acre_stream_get_id(acre_device *device, acre_stream stream, uint64_t *id);

#define ACRE_EVENT_DEFAULT 0u
#define ACRE_EVENT_TIMING 1u /* can be used with acre_event_elapsed */

ACRE_API acre_status acre_event_create(acre_device *device, uint32_t flags, acre_event *event);

/* Ends an event made by acre_event_create; as acre_stream_destroy. */
ACRE_API acre_status acre_event_destroy(acre_device *device, acre_event event);

/* Marks the work queued on `stream` so far; replaces what the event marked before. */
ACRE_API acre_status acre_event_record(acre_device *device, acre_event event, acre_stream stream);

/* ACRE_OK when the marked work is done (or nothing was marked), else ACRE_E_NOT_READY. */
ACRE_API acre_status acre_event_query(acre_device *device, acre_event event);

/* Waits for the marked work. */
ACRE_API acre_status acre_event_sync(acre_device *device, acre_event event);

/* Milliseconds between two events made with ACRE_EVENT_TIMING, both done. */
ACRE_API acre_status acre_event_elapsed(acre_device *device, acre_event begin, acre_event end,
                                        float *milliseconds);

#ifdef __cplusplus
}
#endif

#endif
