/* The importer's exchange with the owner: see fetch.h.
 *
 * The owner is another process and may be hostile. Every number that it sends is compared with
 * earlier messages and with the limits of this device before it is used. The descriptors of a
 * message are closed when all its chunks are imported, or after a failure. */
#include "share/fetch.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* State of one exchange. */
struct fetching {
    const struct acre__asked *asked;
    struct acre__fetched *fetched;
    struct acre__chunk **end; /* link for the next chunk */
    size_t bytes;             /* kept and fetched so far */
    union acre__wire_message message;
    int fds[ACRE__WIRE_FDS];
    size_t fd_count;
    int is_over;
    int64_t until_ns; /* deadline of the whole exchange; 0: not known before the view */
};

enum { FETCH_BATCH = 64 }; /* the owner gets another wait_ms per this many chunks */

static int64_t fetch_deadline(const struct fetching *f) {
    int64_t answer_ns = acre__wire_now_ns() + (int64_t)f->asked->wait_ms * 1000000;
    return f->until_ns && f->until_ns < answer_ns ? f->until_ns : answer_ns;
}

/* Passes the owner's status on, unless it concerns only the owner's process: that becomes
 * ACRE_E_GONE. */
static acre_status fetch_refused(struct fetching *f) {
    struct acre__wire_refused *refused = &f->message.refused;
    acre_status status = (acre_status)refused->status;
    if (status == ACRE_E_DEVICE_LOST || status == ACRE_E_FORKED || status == ACRE_E_HANDLE ||
        status == ACRE_E_NULL)
        status = ACRE_E_GONE;
    acre__one_line(refused->text);
    return acre__fail(status, "the owner refused: %s", refused->text);
}

/* Sends the message. If the owner has already closed the connection, its last message may say
 * why. */
static acre_status fetch_send(struct fetching *f) {
    acre_status status = acre__wire_send_by(f->asked->socket, &f->message, fetch_deadline(f));
    f->is_over = status != ACRE_OK;
    if (status != ACRE_E_GONE ||
        acre__wire_receive(f->asked->socket, &f->message, f->fds, &f->fd_count) != ACRE_OK)
        return status;
    acre__wire_close(f->fds, f->fd_count);
    return f->message.head.type == ACRE__WIRE_REFUSED
               ? fetch_refused(f)
               : acre__fail(ACRE_E_GONE, "the owner has closed the connection");
}

/* Receives a message, which must be of this type. */
static acre_status fetch_receive(struct fetching *f, enum acre__wire_type type) {
    acre_status status = acre__wire_receive_by(f->asked->socket, &f->message, f->fds, &f->fd_count,
                                               fetch_deadline(f));
    f->is_over = status != ACRE_OK;
    if (status || f->message.head.type == type)
        return status;
    acre__wire_close(f->fds, f->fd_count);
    if (f->message.head.type == ACRE__WIRE_REFUSED)
        return fetch_refused(f);
    f->is_over = 1;
    return acre__fail(ACRE_E_PROTOCOL, "the owner sent message type %u, expected %d",
                      f->message.head.type, (int)type);
}

static acre_status fetch_request(struct fetching *f) {
    const struct acre__asked *asked = f->asked;
    uint32_t total = asked->extent ? (uint32_t)asked->extent->count : 0, first = 0;
    do {
        uint32_t count = total - first < ACRE__WIRE_IDS ? total - first : ACRE__WIRE_IDS;
        acre__wire_begin(&f->message, ACRE__WIRE_REQUEST, count);
        f->message.request.total = total;
        f->message.request.first = first;
        if (count)
            memcpy(f->message.request.ids, asked->ids + first, count * sizeof *asked->ids);
        acre_status status = fetch_send(f);
        if (status)
            return status;
        first += count;
    } while (first < total);
    return ACRE_OK;
}

/* Checks the view against the import and the device. */
static acre_status fetch_check_view(struct fetching *f) {
    const struct acre__asked *asked = f->asked;
    const struct acre__wire_view *view = &f->fetched->view;
    size_t count = asked->extent ? asked->extent->count : 0;
    f->is_over = 1;
    if (memcmp(view->uuid, asked->dev->info.uuid, sizeof view->uuid) != 0)
        return acre__fail(ACRE_E_UNSUPPORTED,
                          "the shared memory is not on %s but on another device",
                          asked->dev->label);
    if (view->keep_count > count)
        return acre__fail(ACRE_E_PROTOCOL, "invalid view: keeps %u chunks of %zu", view->keep_count,
                          count);
    if (view->mapped_bytes % asked->unit || view->reserved_bytes % asked->unit)
        return acre__fail(
            ACRE_E_PROTOCOL,
            "invalid view: %llu mapped and %llu reserved bytes are not multiples of %zu",
            (unsigned long long)view->mapped_bytes, (unsigned long long)view->reserved_bytes,
            asked->unit);
    for (size_t i = 0; i < view->keep_count; i++)
        f->bytes += asked->extent->mappings[i]->chunk->bytes;
    f->fetched->kept_bytes = f->bytes;
    /* Each new chunk has at least one unit, so the bytes that are not kept bound the number of
     * chunks. */
    size_t news = view->chunk_count - view->keep_count;
    f->until_ns =
        acre__wire_now_ns() + (int64_t)(1 + news / FETCH_BATCH) * (int64_t)asked->wait_ms * 1000000;
    if (f->bytes > view->mapped_bytes || news > (view->mapped_bytes - f->bytes) / asked->unit ||
        !news != (f->bytes == view->mapped_bytes))
        return acre__fail(
            ACRE_E_PROTOCOL,
            "invalid view: %llu bytes in %u chunks, of which %u kept ones have %zu bytes",
            (unsigned long long)view->mapped_bytes, view->chunk_count, view->keep_count, f->bytes);
    f->is_over = 0;
    return ACRE_OK;
}

static acre_status fetch_view(struct fetching *f) {
    acre_status status = fetch_receive(f, ACRE__WIRE_VIEW);
    if (status)
        return status;
    f->fetched->view = f->message.view;
    status = fetch_check_view(f);
    if (status)
        return status;
    uint32_t keep = f->fetched->view.keep_count;
    f->fetched->ids = malloc((f->fetched->view.chunk_count + (size_t)1) * sizeof(uint64_t));
    if (!f->fetched->ids)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the ids of %u chunks",
                          f->fetched->view.chunk_count);
    if (keep)
        memcpy(f->fetched->ids, f->asked->ids, keep * sizeof(uint64_t));
    return ACRE_OK;
}

/* Checks that the chunks of the message follow the earlier ones and fit the view. */
static acre_status fetch_check_chunks(const struct fetching *f, uint32_t first) {
    const struct acre__wire_view *view = &f->fetched->view;
    const struct acre__wire_chunks *chunks = &f->message.chunks;
    uint64_t bytes = f->bytes;
    if (chunks->first != first || chunks->head.count > view->chunk_count - first)
        return acre__fail(ACRE_E_PROTOCOL,
                          "invalid chunks: first %u, count %u; expected first %u of %u",
                          chunks->first, chunks->head.count, first, view->chunk_count);
    for (uint32_t i = 0; i < chunks->head.count; i++) {
        uint64_t here = chunks->chunks[i].bytes;
        if (here % f->asked->unit || here > view->mapped_bytes - bytes)
            return acre__fail(ACRE_E_PROTOCOL, "invalid chunk of %llu bytes, %llu bytes remain",
                              (unsigned long long)here,
                              (unsigned long long)(view->mapped_bytes - bytes));
        bytes += here;
    }
    int is_last = first + chunks->head.count == view->chunk_count;
    if (is_last != (bytes == view->mapped_bytes))
        return acre__fail(ACRE_E_PROTOCOL, "invalid chunks: %u of %u have %llu of %llu bytes",
                          first + chunks->head.count, view->chunk_count, (unsigned long long)bytes,
                          (unsigned long long)view->mapped_bytes);
    return ACRE_OK;
}

/* Requests, receives and imports one message of chunks, which begins with chunk *first. */
static acre_status fetch_chunks(struct fetching *f, uint32_t *first) {
    acre__wire_begin(&f->message, ACRE__WIRE_MORE, 0);
    acre_status status = fetch_send(f);
    if (status == ACRE_OK)
        status = fetch_receive(f, ACRE__WIRE_CHUNKS);
    if (status)
        return status;
    status = fetch_check_chunks(f, *first);
    f->is_over = status != ACRE_OK;
    for (uint32_t i = 0; i < f->message.head.count && status == ACRE_OK; i++) {
        const struct acre__wire_chunk *chunk = &f->message.chunks.chunks[i];
        status = acre__chunk_import(f->asked->dev, f->fds[i], chunk->bytes, ACRE__CHUNK_SHAREABLE,
                                    f->end);
        if (status)
            break;
        f->end = &(*f->end)->next;
        f->bytes += chunk->bytes;
        f->fetched->ids[(*first)++] = chunk->id;
    }
    acre__wire_close(f->fds, f->fd_count);
    return status;
}

acre_status acre__fetch(const struct acre__asked *asked, struct acre__fetched *fetched,
                        int *is_over) {
    memset(fetched, 0, sizeof *fetched);
    *is_over = 0;
    struct fetching *f = calloc(1, sizeof *f); /* too large for a stack */
    if (!f)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for a message");
    f->asked = asked;
    f->fetched = fetched;
    f->end = &fetched->list;
    acre_status status = fetch_request(f);
    if (status == ACRE_OK)
        status = fetch_view(f);
    uint32_t at = fetched->view.keep_count;
    while (status == ACRE_OK && at < fetched->view.chunk_count)
        status = fetch_chunks(f, &at);
    *is_over = f->is_over;
    free(f);
    if (status)
        acre__fetch_drop(fetched);
    return status;
}

void acre__fetch_drop(struct acre__fetched *fetched) {
    acre__chunk_drop_list(fetched->list);
    fetched->list = NULL;
    free(fetched->ids);
    fetched->ids = NULL;
}
