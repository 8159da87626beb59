/* Staging: see staging.h.
 *
 * A set has lanes. The calling thread runs lane 0; each other lane has its own thread, which sleeps
 * between copies. A copy is cut into pieces of at most one buffer, and the lanes draw pieces from
 * one counter. A lane has a stream and several buffers with one event each, so that the lane fills
 * or empties one buffer while others are in flight.
 *
 * Order: the caller waits for its own stream before it takes the set, so everything queued before
 * is done. A stream that is blocked by a long kernel or a host function therefore does not delay
 * copies of others. In a copy to the device, the caller's stream waits at the end for the last
 * transfer of every lane. Transfers of one copy may still be in flight when the next copy begins: a
 * buffer is not written before its last transfer is done. Lanes never wait for a stream of the
 * program.
 *
 * Locks: the caller holds the slot's lock through the whole copy, so there is one copy at a time.
 * The set's inner lock guards job, turn and active; the job's counters are atomic. A set's threads
 * keep the device's context current until they exit, and do not disturb captures of the program. */
#include "copy/staging.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/config.h"
#include "base/lock.h"
#include "base/stream_copy.h"
#include "base/thread.h"
#include "copy/stage_part.h"
#include "device/device.h"
#include "device/driver_status.h"
#include "device/strays.h"

enum {
    /* Measured on an H200 with 16 cores (docs/measurements.md): a large copy is fastest in pieces
     * of 2 to 4 MiB, a small one in pieces that give every lane several. Below 256 KiB the calls
     * cost more than the bytes. 12 lanes saturate the link in both directions; 16 are no faster. */
    STAGE_LANE_BYTES = 8 << 20, /* pinned memory of a lane, cut into buffers of a piece each */
    STAGE_PIECE_LEAST = 256 << 10,
    STAGE_PIECE_MOST_TO = 4 << 20,
    STAGE_PIECE_MOST_FROM = 2 << 20,
    STAGE_PIECES_WANTED = 64,
    STAGE_BUFFERS = 16, /* at most, per lane: more pieces in flight gain nothing */
    STAGE_LANES = 12,
    STAGE_PITCH_MAX = 0x7fffffff /* of the driver's 2-D copies (CU_DEVICE_ATTRIBUTE_MAX_PITCH) */
};

struct stage_job {
    const struct acre__rows *rows;
    int to_device;
    size_t piece_bytes; /* at most */
    unsigned buffers;   /* per lane, of piece_bytes each */
    int is_streamed;    /* the host's copy bypasses the caches */
    size_t pieces, rows_per_piece, pieces_per_row;
    _Atomic size_t next;
    _Atomic int error; /* the first CUresult other than CUDA_SUCCESS */
};

struct stage_set;

struct stage_lane {
    struct stage_set *set;
    CUstream stream;
    CUevent sent[STAGE_BUFFERS]; /* the buffer's last transfer */
    CUevent finished;            /* all of the lane's transfers of a copy */
    struct acre__stray stray;    /* the stream, if nobody could wait for it */
    char *buffers;
    size_t buffer_bytes;    /* of each buffer in the last copy */
    int was_used;           /* took part in this copy */
    struct acre__cond wake; /* one per thread, so that a small copy wakes few threads */
    pthread_t thread;
    int has_thread;
};

struct stage_set {
    acre_device *dev;
    struct acre__stage_part *parts; /* all driver resources of the set */
    size_t bytes;                   /* of the buffers of all lanes */
    struct stage_lane lanes[STAGE_LANES];
    unsigned lane_count;
    struct acre__lock lock; /* job, turn, active, is_ending */
    struct acre__cond cond;
    struct stage_job *job;
    unsigned invited; /* lanes that take part in the job: the first ones */
    uint64_t turn;    /* counts copies, so that a thread takes part in each copy once */
    unsigned active;
    int is_ending;
};

/* One slot per device and direction. */
static struct stage_slot {
    struct acre__lock lock; /* users: one copy at a time */
    struct stage_set *set;
    _Atomic size_t bytes; /* of its buffers; read without the lock, which a copy holds for long */
} slots[ACRE__DEVICE_SLOTS][2];
static pthread_once_t slots_once = PTHREAD_ONCE_INIT;

static void slots_init(void) {
    for (unsigned i = 0; i < ACRE__DEVICE_SLOTS; i++)
        for (unsigned k = 0; k < 2; k++)
            acre__lock_init(&slots[i][k].lock, "staging", ACRE__RANK_STAGING);
}

static struct stage_slot *slot_of(const acre_device *dev, int to_device) {
    pthread_once(&slots_once, slots_init);
    return &slots[acre__device_index(dev)][to_device != 0];
}

/* ---- pieces ---- */

struct stage_piece {
    size_t row, rows; /* rows > 1 only when whole rows fit into a buffer */
    size_t column, width;
};

static size_t job_piece_bytes(const struct stage_job *job) {
    size_t most = job->to_device ? STAGE_PIECE_MOST_TO : STAGE_PIECE_MOST_FROM;
    size_t piece = job->rows->width * job->rows->rows / STAGE_PIECES_WANTED;
    piece -= piece % 4096;
    return piece < STAGE_PIECE_LEAST ? STAGE_PIECE_LEAST : piece > most ? most : piece;
}

static void job_cut(struct stage_job *job, size_t lanes) {
    size_t width = job->rows->width, piece_bytes = job_piece_bytes(job);
    size_t buffers = STAGE_LANE_BYTES / piece_bytes;
    job->piece_bytes = piece_bytes;
    job->buffers = (unsigned)(buffers > STAGE_BUFFERS ? STAGE_BUFFERS : buffers);
    size_t pitch = job->to_device ? job->rows->to_pitch : job->rows->from_pitch;
    int is_plane = width <= piece_bytes && pitch <= STAGE_PITCH_MAX;
    job->rows_per_piece = is_plane ? piece_bytes / width : 1;
    job->pieces_per_row = width <= piece_bytes ? 1 : (width + piece_bytes - 1) / piece_bytes;
    job->pieces = job->pieces_per_row > 1
                      ? job->rows->rows * job->pieces_per_row
                      : (job->rows->rows + job->rows_per_piece - 1) / job->rows_per_piece;
    /* From the device, the host writes to program memory, which is in no cache that matters. To the
     * device, it writes to buffers: those that the copy uses more than once are in the cache, and
     * writing to them there is faster. */
    job->is_streamed = !job->to_device || job->pieces <= lanes * job->buffers;
}

static struct stage_piece job_piece(const struct stage_job *job, size_t index) {
    struct stage_piece piece;
    if (job->pieces_per_row > 1) {
        piece.row = index / job->pieces_per_row;
        piece.rows = 1;
        piece.column = index % job->pieces_per_row * job->piece_bytes;
        size_t left = job->rows->width - piece.column;
        piece.width = left < job->piece_bytes ? left : job->piece_bytes;
        return piece;
    }
    piece.row = index * job->rows_per_piece;
    size_t left = job->rows->rows - piece.row;
    piece.rows = left < job->rows_per_piece ? left : job->rows_per_piece;
    piece.column = 0;
    piece.width = job->rows->width;
    return piece;
}

static void host_move(const struct stage_job *job, char *to, const char *from, size_t bytes) {
    if (job->is_streamed)
        acre__stream_copy(to, from, bytes);
    else
        memcpy(to, from, bytes);
}

static void host_pack(char *buffer, const struct stage_job *job, const struct stage_piece *piece) {
    const struct acre__rows *rows = job->rows;
    for (size_t i = 0; i < piece->rows; i++)
        host_move(job, buffer + i * piece->width,
                  rows->from + (piece->row + i) * rows->from_pitch + piece->column, piece->width);
}

static void host_unpack(const char *buffer, const struct stage_job *job,
                        const struct stage_piece *piece) {
    const struct acre__rows *rows = job->rows;
    for (size_t i = 0; i < piece->rows; i++)
        host_move(job, rows->to + (piece->row + i) * rows->to_pitch + piece->column,
                  buffer + i * piece->width, piece->width);
}

static CUdeviceptr device_address(const char *base, size_t pitch, const struct stage_piece *piece) {
    return (CUdeviceptr)(uintptr_t)(base + piece->row * pitch + piece->column);
}

/* Copies one piece between a buffer and the side that the driver knows, whatever its kind. */
static CUresult piece_move(const struct acre__driver *drv, const struct stage_job *job,
                           const struct stage_piece *piece, char *buffer, CUstream stream) {
    const struct acre__rows *rows = job->rows;
    CUdeviceptr staged = (CUdeviceptr)(uintptr_t)buffer;
    CUdeviceptr known = job->to_device ? device_address(rows->to, rows->to_pitch, piece)
                                       : device_address(rows->from, rows->from_pitch, piece);
    CUdeviceptr to = job->to_device ? known : staged, from = job->to_device ? staged : known;
    if (piece->rows == 1)
        return drv->cuMemcpyAsync(to, from, piece->width, stream);
    CUDA_MEMCPY2D plane = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .srcDevice = from,
                           .srcPitch = job->to_device ? piece->width : rows->from_pitch,
                           .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .dstDevice = to,
                           .dstPitch = job->to_device ? rows->to_pitch : piece->width,
                           .WidthInBytes = piece->width,
                           .Height = piece->rows};
    return drv->cuMemcpy2DAsync(&plane, stream);
}

/* ---- a lane's part of a copy ---- */

static int job_is_wrong(struct stage_job *job) {
    return acre__load(&job->error, memory_order_relaxed) != CUDA_SUCCESS;
}

static void job_fail(struct stage_job *job, CUresult code) {
    int none = CUDA_SUCCESS;
    if (code != CUDA_SUCCESS)
        (void)acre__cas(&job->error, &none, (int)code, memory_order_relaxed, memory_order_relaxed);
}

/* Returns the next piece for a lane, or the number of pieces when none is left. */
static size_t job_draw(struct stage_job *job) {
    if (job_is_wrong(job))
        return job->pieces;
    size_t index = acre__fetch_add(&job->next, 1, memory_order_relaxed);
    return index < job->pieces ? index : job->pieces;
}

static CUresult lane_send_all(struct stage_lane *lane, struct stage_job *job) {
    const struct acre__driver *drv = lane->set->dev->drv;
    CUresult code = CUDA_SUCCESS;
    unsigned slot = 0;
    /* Buffers of another size overlap buffers that may still be in flight. */
    if (lane->buffer_bytes != job->piece_bytes && (code = drv->cuEventSynchronize(lane->finished)))
        return code;
    lane->buffer_bytes = job->piece_bytes;
    for (size_t i = job_draw(job); i < job->pieces; i = job_draw(job)) {
        struct stage_piece piece = job_piece(job, i);
        char *buffer = lane->buffers + slot * job->piece_bytes;
        if ((code = drv->cuEventSynchronize(lane->sent[slot]))) /* of this copy or an earlier one */
            return code;
        host_pack(buffer, job, &piece);
        if ((code = piece_move(drv, job, &piece, buffer, lane->stream)) ||
            (code = drv->cuEventRecord(lane->sent[slot], lane->stream)))
            return code;
        slot = (slot + 1) % job->buffers;
    }
    return drv->cuEventRecord(lane->finished, lane->stream);
}

static CUresult lane_fetch_all(struct stage_lane *lane, struct stage_job *job) {
    const struct acre__driver *drv = lane->set->dev->drv;
    struct stage_piece pieces[STAGE_BUFFERS];
    unsigned first = 0, count = 0; /* buffers in flight, oldest first */
    for (;;) {
        size_t i = count < job->buffers ? job_draw(job) : job->pieces;
        CUresult code;
        if (i < job->pieces) {
            unsigned slot = (first + count++) % job->buffers;
            pieces[slot] = job_piece(job, i);
            char *buffer = lane->buffers + slot * job->piece_bytes;
            if ((code = piece_move(drv, job, &pieces[slot], buffer, lane->stream)) ||
                (code = drv->cuEventRecord(lane->sent[slot], lane->stream)))
                return code;
            if (count < job->buffers)
                continue;
        }
        if (!count)
            return CUDA_SUCCESS;
        if ((code = drv->cuEventSynchronize(lane->sent[first])))
            return code;
        host_unpack(lane->buffers + first * job->piece_bytes, job, &pieces[first]);
        first = (first + 1) % job->buffers;
        count--;
    }
}

static void lane_run(struct stage_lane *lane, struct stage_job *job) {
    lane->was_used = 1;
    job_fail(job, job->to_device ? lane_send_all(lane, job) : lane_fetch_all(lane, job));
}

static void *lane_main(void *user) {
    struct stage_lane *lane = user;
    struct stage_set *set = lane->set;
    CUresult context = set->dev->drv->cuCtxSetCurrent(set->dev->context);
    /* In the default mode, waiting for an event would invalidate a capture of another thread. */
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (!context)
        context = set->dev->drv->cuThreadExchangeStreamCaptureMode(&mode);
    uint64_t turn = 0;
    acre__lock_take(&set->lock);
    while (!set->is_ending) {
        if (!set->job || turn == set->turn || lane >= set->lanes + set->invited) {
            acre__cond_wait(&lane->wake, &set->lock);
            continue;
        }
        struct stage_job *job = set->job;
        turn = set->turn;
        set->active++;
        acre__lock_give(&set->lock);
        if (context == CUDA_SUCCESS)
            lane_run(lane, job);
        acre__lock_take(&set->lock);
        set->active--;
        acre__cond_wake(&set->cond);
    }
    acre__lock_give(&set->lock);
    return NULL;
}

/* ---- sets ---- */

/* Creates a lane's stream and events. On failure returns 0 and frees those already created. */
static int lane_make(struct stage_lane *lane) {
    struct stage_set *set = lane->set;
    struct acre__stage_part *before = set->parts;
    int is_made = acre__stage_stream(set->dev, &set->parts, &lane->stream) &&
                  acre__stage_event(set->dev, &set->parts, &lane->finished);
    for (unsigned i = 0; i < STAGE_BUFFERS && is_made; i++)
        is_made = acre__stage_event(set->dev, &set->parts, &lane->sent[i]);
    if (!is_made)
        acre__stage_parts_free(set->dev, &set->parts, before);
    return is_made;
}

/* Waits until no transfer is in flight. Needed after a failure, when later work is not ordered
 * after the copy, and before the buffers are freed. Returns 0 if the driver reports an error. */
static int set_quiet(struct stage_set *set) {
    int is_quiet = 1;
    for (unsigned i = 0; i < set->lane_count; i++)
        is_quiet &= set->dev->drv->cuStreamSynchronize(set->lanes[i].stream) == CUDA_SUCCESS;
    return is_quiet;
}

/* No lane is a stray. */
static void set_free(struct stage_set *set) {
    acre__lock_take(&set->lock);
    set->is_ending = 1;
    for (unsigned i = 0; i < set->lane_count; i++)
        acre__cond_wake(&set->lanes[i].wake);
    acre__lock_give(&set->lock);
    for (unsigned i = 0; i < set->lane_count; i++)
        if (set->lanes[i].has_thread)
            pthread_join(set->lanes[i].thread, NULL);
    /* If the driver refuses to wait, it probably refuses to free as well: limbo keeps the rest. */
    struct acre__current current;
    const char *what;
    if (!acre__device_is_lost(set->dev) &&
        acre__device_push_relaxed(set->dev, &current, &what) == CUDA_SUCCESS) {
        (void)set_quiet(set);
        acre__device_pop(set->dev, &current);
    }
    acre__stage_parts_free(set->dev, &set->parts, NULL);
    for (unsigned i = 0; i < STAGE_LANES; i++)
        acre__cond_destroy(&set->lanes[i].wake);
    acre__cond_destroy(&set->cond);
    acre__lock_destroy(&set->lock);
    free(set);
}

/* ---- strays: transfers that may still run after their copy failed ---- */

static void set_stray(struct stage_set *set) {
    for (unsigned i = 0; i < set->lane_count; i++) {
        struct stage_lane *lane = &set->lanes[i];
        lane->stray.dev = set->dev;
        lane->stray.stream = lane->stream;
        if (!acre__load(&lane->stray.is_pending, memory_order_acquire))
            acre__strays_add(&lane->stray);
    }
}

static int set_is_stray(struct stage_set *set) {
    int is_stray = 0;
    for (unsigned i = 0; i < set->lane_count; i++)
        is_stray |= acre__load(&set->lanes[i].stray.is_pending, memory_order_acquire);
    return is_stray;
}

/* Lanes for a copy: as configured, else one per core up to STAGE_LANES. Under the seeded scheduler
 * there is only the caller's lane, because acre's threads would not follow the schedule. */
static unsigned lanes_wanted(const acre_device *dev, uint64_t wanted) {
    unsigned cores = acre__cpu_count();
    if (acre__device_is_seeded(dev))
        return 1;
    if (!wanted)
        wanted = cores;
    return wanted > STAGE_LANES ? STAGE_LANES : (unsigned)wanted;
}

/* Creates the buffers of `wanted` lanes, or of half as many if there is no memory for them. Returns
 * for how many lanes there are buffers. All are registered in one call, behind the threads that
 * touch the pages: lane by lane, a program's first copy would wait while one thread touches them
 * all. */
static unsigned set_make_buffers(struct stage_set *set, unsigned wanted) {
    char *pages = NULL;
    while (wanted &&
           !acre__stage_pages(set->dev, &set->parts, wanted * (size_t)STAGE_LANE_BYTES, &pages))
        wanted /= 2;
    for (unsigned i = 0; i < wanted; i++)
        set->lanes[i].buffers = pages + i * (size_t)STAGE_LANE_BYTES;
    set->bytes = wanted * (size_t)STAGE_LANE_BYTES;
    return wanted;
}

/* Creates a set with at least one lane, and fewer than wanted if the driver or the system fails. */
static struct stage_set *set_make(acre_device *dev, unsigned wanted) {
    struct stage_set *set = calloc(1, sizeof *set);
    if (!set)
        return NULL;
    set->dev = dev;
    acre__lock_init(&set->lock, "staging set", ACRE__RANK_STAGING + 1);
    acre__cond_init(&set->cond);
    for (unsigned i = 0; i < STAGE_LANES; i++)
        acre__cond_init(&set->lanes[i].wake);
    wanted = set_make_buffers(set, wanted);
    int is_made = 1;
    while (is_made && set->lane_count < wanted) {
        set->lanes[set->lane_count].set = set;
        is_made = lane_make(&set->lanes[set->lane_count]);
        set->lane_count += (unsigned)is_made;
    }
    if (!set->lane_count) {
        set_free(set);
        return NULL;
    }
    for (unsigned i = 1; i < set->lane_count; i++) {
        struct stage_lane *lane = &set->lanes[i];
        lane->has_thread = acre__thread_start(&lane->thread, lane_main, lane) == 0;
    }
    return set;
}

/* ---- a copy ---- */

/* Runs the job on as many lanes as it has pieces, the caller's first, and waits for the others. */
static void set_run(struct stage_set *set, struct stage_job *job) {
    for (unsigned i = 0; i < set->lane_count; i++)
        set->lanes[i].was_used = 0;
    acre__lock_take(&set->lock);
    set->invited = job->pieces < set->lane_count ? (unsigned)job->pieces : set->lane_count;
    set->job = job;
    set->turn++;
    for (unsigned i = 1; i < set->invited; i++)
        acre__cond_wake(&set->lanes[i].wake);
    acre__lock_give(&set->lock);
    lane_run(&set->lanes[0], job);
    acre__lock_take(&set->lock);
    set->job = NULL; /* a lane that has not begun by now has no pieces left to draw */
    while (set->active)
        acre__cond_wait(&set->cond, &set->lock);
    acre__lock_give(&set->lock);
}

static CUresult set_copy(struct stage_set *set, const struct acre__rows *rows, int to_device,
                         CUstream stream, const char **what) {
    const struct acre__driver *drv = set->dev->drv;
    struct stage_job job = {.rows = rows, .to_device = to_device};
    job_cut(&job, set->lane_count);
    set_run(set, &job);
    *what = "a staged copy";
    CUresult code = (CUresult)acre__load(&job.error, memory_order_relaxed);
    for (unsigned i = 0; i < set->lane_count && to_device; i++) {
        if (code || !set->lanes[i].was_used)
            continue;
        *what = "cuStreamWaitEvent";
        code = drv->cuStreamWaitEvent(stream, set->lanes[i].finished, 0);
    }
    return code;
}

/* Returns the slot's set, created on first use; NULL on failure. The caller holds the slot's
 * lock. */
static struct stage_set *slot_set(struct stage_slot *slot, acre_device *dev, unsigned wanted) {
    if (slot->set)
        return slot->set;
    slot->set = set_make(dev, wanted);
    acre__store(&slot->bytes, slot->set ? slot->set->bytes : 0, memory_order_relaxed);
    return slot->set;
}

acre_status acre__staging_copy(acre_device *dev, const struct acre__rows *rows, int to_device,
                               acre_stream stream, int *is_done) {
    struct stage_slot *slot = slot_of(dev, to_device);
    struct acre__current call;
    const char *what = "cuStreamSynchronize";
    uint64_t threads;
    *is_done = 0;
    acre_status status = acre__config_number(ACRE__CONFIG_COPY_THREADS, 0, &threads);
    if (status)
        return status;
    if (acre__device_call_relaxed(dev, &call))
        call.code = dev->drv->cuStreamSynchronize(stream);
    if (!call.status && !call.code) {
        acre__lock_take(&slot->lock);
        struct stage_set *set = slot_set(slot, dev, lanes_wanted(dev, threads));
        /* The copy before this one, of another thread, may have left strays. */
        if (set && !(call.code = acre__strays_wait())) {
            *is_done = 1;
            call.code = set_copy(set, rows, to_device, stream, &what);
        }
        /* No copy uses the set of a lost device; it stays until the device is closed. */
        if (call.code && !set_quiet(set) && !acre__driver_is_sticky(call.code))
            set_stray(set);
        acre__lock_give(&slot->lock);
    }
    return acre__device_done(dev, &call, what);
}

void acre__staging_drop(acre_device *dev, int is_closing) {
    (void)acre__strays_wait();
    if (is_closing)
        acre__strays_forget(dev);
    for (int to_device = 0; to_device < 2; to_device++) {
        struct stage_slot *slot = slot_of(dev, to_device);
        acre__lock_take(&slot->lock);
        struct stage_set *set = slot->set;
        if (set && set_is_stray(set))
            set = NULL; /* its buffers may be in use */
        if (set) {
            slot->set = NULL;
            acre__store(&slot->bytes, 0, memory_order_relaxed);
        }
        acre__lock_give(&slot->lock);
        if (set)
            set_free(set);
    }
}

size_t acre__staging_bytes(acre_device *dev) {
    size_t bytes = 0;
    for (int to_device = 0; to_device < 2; to_device++)
        bytes += acre__load(&slot_of(dev, to_device)->bytes, memory_order_relaxed);
    return bytes;
}
