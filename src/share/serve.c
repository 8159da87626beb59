/* The owner's thread: see serve.h.
 *
 * One poll covers the listening socket, the importers' connections and the stop event. An importer
 * sends one message at a time and gets at most one answer to each. An importer that does not read
 * therefore fills only its own connection, which is then closed. The descriptors of a message exist
 * only while it is built and sent. The ids of an incomplete request are kept for at most
 * offer.patience_ms, the chunks of an answer for as long after the importer's last message.
 *
 * Locks: the extent's lock while its record is read; none around a driver call or the network. */
#include "share/serve.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "base/thread.h"
#include "share/wire.h"

enum {
    /* Descriptors exported for one message. Each costs 1.1 ms on an H200, and other importers wait
     * meanwhile; a process may be limited to 1024 files. */
    SERVE_BATCH = 64,
    SERVE_PATIENCE_MS = 10000,
    SERVE_PAUSE_MS = 100 /* accept pauses this long when out of descriptors */
};

struct importer {
    int socket;
    int is_known;        /* it got an answer: the connection is its lease */
    int64_t deadline_ns; /* of the first request, or of what is in progress; 0: none */
    uint64_t *have;      /* ids of the request received so far */
    uint32_t have_count, have_total;
    struct acre__taken answer; /* chunks [sent, count) are still to be sent */
    size_t sent;
};

struct acre__server {
    struct acre__offer offer;
    uint32_t *uids;
    int listener, stop; /* sockets; `stop` is an event */
    pthread_t thread;
    struct importer *importers;
    struct pollfd *polls; /* stop, listener, importers */
    uint32_t count;       /* of importers */
    int64_t paused_until_ns;
    union acre__wire_message message; /* the message being read or written */
};

/* ---- snapshots ---- */

acre_status acre__serve_take(struct acre__extent *extent, struct acre__taken *taken) {
    acre_status status = ACRE_OK;
    memset(taken, 0, sizeof *taken);
    acre__lock_take(&extent->lock);
    taken->chunks = malloc((extent->count + 1) * sizeof(struct acre__chunk *));
    if (!taken->chunks) {
        status =
            acre__fail(ACRE_E_HOST_MEMORY, "no memory for a list of %zu chunks", extent->count);
    } else {
        taken->count = extent->count;
        taken->mapped_bytes = extent->mapped;
        taken->reserved_bytes = extent->range.bytes;
        for (size_t i = 0; i < extent->count; i++) {
            taken->chunks[i] = extent->mappings[i]->chunk;
            acre__chunk_keep(taken->chunks[i]);
        }
    }
    acre__lock_give(&extent->lock);
    taken->element_bytes = atomic_load_explicit(&extent->element_bytes, memory_order_relaxed);
    taken->used_bytes = atomic_load_explicit(&extent->used_bytes, memory_order_relaxed);
    if (taken->used_bytes > taken->mapped_bytes) /* the vec grew between the two reads */
        taken->used_bytes = taken->mapped_bytes;
    return status;
}

void acre__serve_drop(struct acre__taken *taken) {
    for (size_t i = 0; i < taken->count; i++)
        if (taken->chunks[i])
            acre__chunk_drop(taken->chunks[i]);
    free(taken->chunks);
    memset(taken, 0, sizeof *taken);
}

/* ---- importers ---- */

/* Deadline for the importer's next message. */
static int64_t serve_patience_ns(const struct acre__server *server) {
    return acre__wire_now_ns() + (int64_t)server->offer.patience_ms * 1000000;
}

static void importer_end_answer(struct importer *importer) {
    acre__serve_drop(&importer->answer);
    importer->sent = 0;
    importer->deadline_ns = 0;
}

static void importer_end_request(struct importer *importer) {
    free(importer->have);
    importer->have = NULL;
    importer->have_count = importer->have_total = 0;
}

static void importer_end(struct importer *importer) {
    importer_end_answer(importer);
    importer_end_request(importer);
    close(importer->socket);
    importer->socket = -1;
}

/* Sends the reason. A failed send is ignored: the importer loses only this text. */
static void serve_refuse(struct acre__server *server, int socket, acre_status status,
                         const char *text) {
    acre__wire_refuse(&server->message, status, text);
    (void)acre__wire_send(socket, &server->message, NULL, 0);
}

/* ---- answering ---- */

/* Counts the leading chunks that the importer has and the extent still has in the same place. */
static size_t view_keep(const struct acre__taken *now, const struct importer *importer) {
    size_t keep = 0;
    while (keep < now->count && keep < importer->have_count &&
           now->chunks[keep]->id == importer->have[keep])
        keep++;
    return keep;
}

/* Answers a complete request; returns 0 if the connection must be closed. */
static int serve_view(struct acre__server *server, struct importer *importer) {
    acre_status status = acre__serve_take(server->offer.extent, &importer->answer);
    if (status == ACRE_OK && importer->answer.count > ACRE__WIRE_CHUNK_MOST)
        status = acre__fail(ACRE_E_UNSUPPORTED, "%zu chunks exceed the limit of a share",
                            importer->answer.count);
    if (status) {
        importer_end_answer(importer);
        importer_end_request(importer);
        serve_refuse(server, importer->socket, status, acre_last_detail());
        return 1;
    }
    struct acre__taken *now = &importer->answer;
    acre__wire_begin(&server->message, ACRE__WIRE_VIEW, 0);
    struct acre__wire_view *view = &server->message.view;
    view->element_bytes = now->element_bytes;
    view->used_bytes = now->used_bytes;
    view->mapped_bytes = now->mapped_bytes;
    view->reserved_bytes = now->reserved_bytes;
    view->chunk_count = (uint32_t)now->count;
    view->keep_count = (uint32_t)view_keep(now, importer);
    view->flags = server->offer.flags;
    memcpy(view->uuid, server->offer.dev->info.uuid, sizeof view->uuid);
    importer->sent = view->keep_count;
    importer->is_known = 1;
    importer_end_request(importer);
    if (importer->sent == now->count)
        importer_end_answer(importer);
    return acre__wire_send(importer->socket, &server->message, NULL, 0) == ACRE_OK;
}

/* Sends the next chunks of the answer; returns 0 if the connection must be closed. */
static int serve_more(struct acre__server *server, struct importer *importer) {
    struct acre__taken *answer = &importer->answer;
    size_t left = answer->count - importer->sent;
    uint32_t count = (uint32_t)(left < SERVE_BATCH ? left : SERVE_BATCH), made = 0;
    int fds[SERVE_BATCH];
    if (!count) {
        serve_refuse(server, importer->socket, ACRE_E_PROTOCOL, "no chunks are left to send");
        return 0;
    }
    acre_status status = ACRE_OK;
    acre__wire_begin(&server->message, ACRE__WIRE_CHUNKS, count);
    server->message.chunks.first = (uint32_t)importer->sent;
    while (made < count && status == ACRE_OK) {
        struct acre__chunk *chunk = answer->chunks[importer->sent + made];
        server->message.chunks.chunks[made] = (struct acre__wire_chunk){chunk->id, chunk->bytes};
        status = acre__chunk_export(chunk, &fds[made]);
        made += status == ACRE_OK;
    }
    int is_sent = 1;
    if (status == ACRE_OK)
        is_sent = acre__wire_send(importer->socket, &server->message, fds, made) == ACRE_OK;
    acre__wire_close(fds, made);
    if (status) {
        importer_end_answer(importer);
        serve_refuse(server, importer->socket, status, acre_last_detail());
        return 1;
    }
    for (uint32_t i = 0; i < count; i++, importer->sent++) {
        acre__chunk_drop(answer->chunks[importer->sent]);
        answer->chunks[importer->sent] = NULL;
    }
    if (importer->sent == answer->count)
        importer_end_answer(importer);
    return is_sent;
}

/* Takes one part of a request; returns 0 if the connection must be closed. */
static int serve_request(struct acre__server *server, struct importer *importer) {
    const struct acre__wire_request *request = &server->message.request;
    importer_end_answer(importer);
    if (request->first == 0) {
        importer_end_request(importer);
        importer->have_total = request->total;
        importer->have = malloc((request->total + (size_t)1) * sizeof *importer->have);
        if (!importer->have)
            return 0;
    }
    if (!importer->have || request->first != importer->have_count ||
        request->total != importer->have_total) {
        serve_refuse(server, importer->socket, ACRE_E_PROTOCOL,
                     "the parts of the request do not match");
        return 0;
    }
    memcpy(importer->have + importer->have_count, request->ids,
           request->head.count * sizeof *importer->have);
    importer->have_count += request->head.count;
    return importer->have_count < importer->have_total || serve_view(server, importer);
}

/* Handles one message; returns 0 if the connection must be closed. */
static int serve_message(struct acre__server *server, struct importer *importer) {
    int fds[ACRE__WIRE_FDS];
    size_t fd_count;
    acre_status status = acre__wire_receive(importer->socket, &server->message, fds, &fd_count);
    if (status == ACRE_E_NOT_READY)
        return 1;
    if (status) {
        if (status == ACRE_E_PROTOCOL)
            serve_refuse(server, importer->socket, status, acre_last_detail());
        return 0;
    }
    acre__wire_close(fds, fd_count);
    int goes_on = 0, had_request = importer->have != NULL;
    if (server->message.head.type == ACRE__WIRE_REQUEST)
        goes_on = serve_request(server, importer);
    else if (server->message.head.type == ACRE__WIRE_MORE)
        goes_on = serve_more(server, importer);
    else
        serve_refuse(server, importer->socket, ACRE_E_PROTOCOL,
                     "only the owner sends this message type");
    /* The parts of a request come together: only the first one sets the deadline. */
    if (goes_on && importer->have && had_request)
        return goes_on;
    if (goes_on && (importer->have || importer->answer.count || !importer->is_known))
        importer->deadline_ns = serve_patience_ns(server);
    return goes_on;
}

/* ---- accepting ---- */

static int serve_allows(const struct acre__server *server, uint32_t uid) {
    uint32_t i = 0;
    while (i < server->offer.uid_count && server->uids[i] != uid)
        i++;
    return i < server->offer.uid_count;
}

/* Accepts one connection. */
static void serve_accept(struct acre__server *server) {
    int fd = accept4(server->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            server->paused_until_ns = acre__wire_now_ns() + (int64_t)SERVE_PAUSE_MS * 1000000;
        return;
    }
    struct ucred who;
    socklen_t who_bytes = sizeof who;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &who_bytes) != 0 ||
        !serve_allows(server, who.uid)) {
        serve_refuse(server, fd, ACRE_E_PEER, "this user is not allowed to open the share");
        close(fd);
        return;
    }
    if (server->count == server->offer.importers) {
        serve_refuse(server, fd, ACRE_E_LIMIT, "the share has reached its limit of importers");
        close(fd);
        return;
    }
    server->importers[server->count++] =
        (struct importer){.socket = fd, .deadline_ns = serve_patience_ns(server)};
}

/* ---- the thread ---- */

/* Handles expired deadlines. Returns the milliseconds until the next one, or -1 for none. */
static int serve_deadlines(struct acre__server *server) {
    int64_t now_ns = acre__wire_now_ns(), next_ns = INT64_MAX;
    for (uint32_t i = 0; i < server->count; i++) {
        struct importer *importer = &server->importers[i];
        if (importer->deadline_ns && importer->deadline_ns <= now_ns) {
            importer_end_answer(importer);
            importer_end_request(importer);
            if (!importer->is_known)
                importer_end(importer);
        }
        if (importer->deadline_ns && importer->deadline_ns < next_ns)
            next_ns = importer->deadline_ns;
    }
    if (server->paused_until_ns > now_ns && server->paused_until_ns < next_ns)
        next_ns = server->paused_until_ns;
    return next_ns == INT64_MAX ? -1 : (int)((next_ns - now_ns) / 1000000 + 1);
}

/* Removes importers whose connection is closed. */
static void serve_sweep(struct acre__server *server) {
    uint32_t left = 0;
    for (uint32_t i = 0; i < server->count; i++)
        if (server->importers[i].socket >= 0)
            server->importers[left++] = server->importers[i];
    server->count = left;
}

/* Waits for events; returns 0 when the thread must exit. */
static int serve_wait(struct acre__server *server) {
    int timeout_ms = serve_deadlines(server);
    serve_sweep(server);
    int is_paused = server->paused_until_ns > acre__wire_now_ns();
    server->polls[0] = (struct pollfd){.fd = server->stop, .events = POLLIN};
    server->polls[1] = (struct pollfd){.fd = is_paused ? -1 : server->listener, .events = POLLIN};
    for (uint32_t i = 0; i < server->count; i++)
        server->polls[2 + i] = (struct pollfd){.fd = server->importers[i].socket, .events = POLLIN};
    int ready = poll(server->polls, 2 + (nfds_t)server->count, timeout_ms);
    if (ready < 0) /* poll failed and reported nothing: retry */
        for (uint32_t i = 0; i < 2 + server->count; i++)
            server->polls[i].revents = 0;
    return !server->polls[0].revents;
}

static void *serve_main(void *argument) {
    struct acre__server *server = argument;
    while (serve_wait(server)) {
        uint32_t count = server->count; /* an importer accepted in this round has not been polled */
        for (uint32_t i = 0; i < count; i++) {
            short events = server->polls[2 + i].revents;
            struct importer *importer = &server->importers[i];
            if (events & (POLLHUP | POLLERR | POLLNVAL) ||
                (events && !serve_message(server, importer)))
                importer_end(importer);
        }
        if (server->polls[1].revents) {
            serve_sweep(server); /* closed connections make room */
            serve_accept(server);
        }
    }
    for (uint32_t i = 0; i < server->count; i++)
        if (server->importers[i].socket >= 0)
            importer_end(&server->importers[i]);
    return NULL;
}

/* ---- starting and stopping ---- */

static void server_free(struct acre__server *server) {
    if (server->stop >= 0)
        close(server->stop);
    free(server->importers);
    free(server->polls);
    free(server->uids);
    free(server);
}

static struct acre__server *server_make(const struct acre__offer *offer, int listener) {
    struct acre__server *server = calloc(1, sizeof *server);
    if (!server)
        return NULL;
    server->offer = *offer;
    if (!server->offer.patience_ms)
        server->offer.patience_ms = SERVE_PATIENCE_MS;
    server->listener = listener;
    server->stop = -1;
    server->uids = malloc(offer->uid_count * sizeof *server->uids);
    server->importers = calloc(offer->importers, sizeof *server->importers);
    server->polls = calloc(2 + (size_t)offer->importers, sizeof *server->polls);
    if (!server->uids || !server->importers || !server->polls) {
        server_free(server);
        return NULL;
    }
    memcpy(server->uids, offer->uids, offer->uid_count * sizeof *server->uids);
    return server;
}

acre_status acre__serve_start(const struct acre__offer *offer, int listener,
                              struct acre__server **out) {
    *out = NULL;
    struct acre__server *server = server_make(offer, listener);
    if (!server)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of a share");
    server->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server->stop < 0) {
        acre_status status = acre__wire_system(errno, "eventfd");
        server_free(server);
        return status;
    }
    int code = acre__thread_start(&server->thread, serve_main, server);
    if (code) {
        server_free(server);
        return acre__wire_system(code, "starting the share's thread");
    }
    *out = server;
    return ACRE_OK;
}

void acre__serve_stop(struct acre__server *server) {
    uint64_t one = 1;
    /* The first write to an eventfd cannot block. */
    if (write(server->stop, &one, sizeof one) != sizeof one)
        acre__log(ACRE_LOG_ERROR, "share", "cannot signal a share's thread to stop");
    pthread_join(server->thread, NULL);
    close(server->listener);
    server_free(server);
}
