/* The owner's thread, driven message by message: requests in parts, unfinished answers, and
 * importers that stop sending. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/api_share.h"
#include "share/endpoint.h"
#include "share/serve.h"
#include "share/wire.h"

enum { CHUNKS = 3 };

struct offered {
    acre_device *device;
    struct acre__extent extent;
    struct acre__endpoint endpoint;
    struct acre__server *server;
};

static union acre__wire_message message;
static int fds[ACRE__WIRE_FDS];
static size_t fd_count;

/* Of an owner that gives up, in milliseconds: many times what an importer that does its part takes.
 */
enum { PATIENCE = 600 };

static void offered_begin(struct offered *o, uint32_t patience_ms) {
    const uint32_t self = geteuid();
    int listener;
    o->device = api_open("soft");
    api_ok(acre__extent_open(&o->extent, o->device, ACRE__CHUNK_SHAREABLE, 64 * MIB, 0, 0));
    for (size_t i = 1; i <= CHUNKS; i++)
        api_ok(acre__extent_grow(&o->extent, i * 2 * MIB));
    api_ok(acre__endpoint_from(new_path(), &o->endpoint));
    api_ok(acre__endpoint_listen(&o->endpoint, 0600, &listener));
    struct acre__offer offer = {.dev = o->device,
                                .extent = &o->extent,
                                .importers = 4,
                                .uids = &self,
                                .uid_count = 1,
                                .patience_ms = patience_ms};
    api_ok(acre__serve_start(&offer, listener, &o->server));
}

static void offered_end(struct offered *o) {
    acre__serve_stop(o->server);
    acre__extent_close(&o->extent);
    api_ok(acre_trim(o->device));
    assert_int_equal(api_stats(o->device).chunks, 0);
    end(o->device);
}

static int offered_connect(const struct offered *o) {
    int fd;
    api_ok(acre__endpoint_connect(&o->endpoint, acre__wire_now_ns() + 5000000000, &fd));
    return fd;
}

static int64_t soon(void) {
    return acre__wire_now_ns() + 20000000000;
}

/* Sends ids first .. first + count - 1 of `total`; each id is its own index. */
static void request(int fd, uint32_t total, uint32_t first, uint32_t count) {
    acre__wire_begin(&message, ACRE__WIRE_REQUEST, count);
    message.request.total = total;
    message.request.first = first;
    for (uint32_t i = 0; i < count; i++)
        message.request.ids[i] = first + i;
    api_ok(acre__wire_send_by(fd, &message, soon()));
}

static void more(int fd) {
    acre__wire_begin(&message, ACRE__WIRE_MORE, 0);
    api_ok(acre__wire_send_by(fd, &message, soon()));
}

static void hear(int fd, enum acre__wire_type type) {
    api_ok(acre__wire_receive_by(fd, &message, fds, &fd_count, soon()));
    assert_int_equal(message.head.type, type);
    acre__wire_close(fds, fd_count);
}

/* Gets a whole answer. Sends both messages before it reads, since the owner does not wait long. */
static void fetch(int fd) {
    request(fd, 0, 0, 0);
    more(fd);
    hear(fd, ACRE__WIRE_VIEW);
    assert_int_equal(message.view.keep_count, 0);
    hear(fd, ACRE__WIRE_CHUNKS);
}

/* Expects that the owner closes the connection within seconds. */
static void hear_end(int fd) {
    api_expect(acre__wire_receive_by(fd, &message, fds, &fd_count, soon()), ACRE_E_GONE);
    int ignored = 0;
    socklen_t bytes = sizeof ignored;
    (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &ignored, &bytes);
    assert_int_equal(recv(fd, &ignored, 1, MSG_DONTWAIT), 0); /* closed, not only late */
    close(fd);
}

TEST(serve_request_in_parts_is_answered_whole) {
    struct offered o;
    offered_begin(&o, 0);
    int fd = offered_connect(&o);
    request(fd, 2500, 0, 1000);
    request(fd, 2500, 1000, 1000);
    request(fd, 2500, 2000, 500);
    hear(fd, ACRE__WIRE_VIEW);
    assert_int_equal(message.view.chunk_count, CHUNKS);
    assert_int_equal(message.view.keep_count, 0);
    assert_int_equal(message.view.mapped_bytes, CHUNKS * 2 * MIB);
    assert_int_equal(message.view.reserved_bytes, 64 * MIB);
    more(fd);
    hear(fd, ACRE__WIRE_CHUNKS);
    assert_int_equal(message.head.count, CHUNKS);
    close(fd);
    offered_end(&o);
}

/* The answer keeps the ids that match the owner's, from the first one up to the first
 * difference. */
TEST(serve_only_the_common_beginning_stays) {
    struct offered o;
    offered_begin(&o, 0);
    int fd = offered_connect(&o);
    for (uint32_t same = 0; same <= CHUNKS; same++) {
        acre__wire_begin(&message, ACRE__WIRE_REQUEST, CHUNKS + 1);
        message.request.total = CHUNKS + 1;
        for (uint32_t i = 0; i < CHUNKS; i++)
            message.request.ids[i] = o.extent.mappings[i]->chunk->id + (i == same);
        api_ok(acre__wire_send_by(fd, &message, soon()));
        hear(fd, ACRE__WIRE_VIEW);
        assert_int_equal(message.view.keep_count, same);
    }
    close(fd);
    offered_end(&o);
}

TEST(serve_parts_that_do_not_fit_end_the_connection) {
    struct offered o;
    offered_begin(&o, 0);
    for (int i = 0; i < 5; i++) {
        int fd = offered_connect(&o);
        if (i == 0) {
            request(fd, 10, 5, 5); /* the first part is missing */
        } else if (i == 1) {
            request(fd, 10, 0, 5);
            request(fd, 10, 6, 4); /* a hole */
        } else if (i == 2) {
            request(fd, 10, 0, 5);
            request(fd, 11, 5, 5); /* another total */
        } else if (i == 3) {
            more(fd); /* no answer is in progress */
        } else {
            acre__wire_refuse(&message, ACRE_E_PEER, "me?");
            api_ok(acre__wire_send_by(fd, &message, soon()));
        }
        hear(fd, ACRE__WIRE_REFUSED);
        assert_int_equal(message.refused.status, ACRE_E_PROTOCOL);
        hear_end(fd);
    }
    offered_end(&o);
}

TEST(serve_silent_connection_is_closed) {
    struct offered o;
    offered_begin(&o, PATIENCE);
    int silent = offered_connect(&o), half = offered_connect(&o), lease = offered_connect(&o);
    fetch(lease);
    request(half, 2000, 0, 1000);
    hear_end(silent);
    hear_end(half);
    request(lease, 0, 0, 0); /* an importer with a complete answer may stay silent without bound */
    hear(lease, ACRE__WIRE_VIEW);
    close(lease);
    offered_end(&o);
}

/* The owner releases the chunks of an answer that the importer does not fetch. The importer may
 * send a new request. */
TEST(serve_unfinished_answer_is_given_up) {
    struct offered o;
    offered_begin(&o, PATIENCE);
    int fd = offered_connect(&o);
    request(fd, 0, 0, 0);
    hear(fd, ACRE__WIRE_VIEW);
    (void)acre__extent_shrink(&o.extent, 2 * MIB); /* only the answer holds the other two chunks */
    api_ok(acre_trim(o.device));
    uint64_t chunks = CHUNKS;
    for (int i = 0; i < 20000 && chunks > 1; i++) {
        struct timespec nap = {.tv_nsec = 1000000};
        nanosleep(&nap, NULL);
        api_ok(acre_trim(o.device)); /* they were never exported, so they go to the cache */
        chunks = api_stats(o.device).chunks;
    }
    assert_int_equal(chunks, 1);
    fetch(fd);
    assert_int_equal(message.head.count, 1);
    close(fd);
    offered_end(&o);
}

/* The owner drops the ids of a request that the importer does not complete, even if the importer
 * got an answer before. The importer may send a new request, but not the rest of the old one. */
TEST(serve_unfinished_request_is_given_up) {
    struct offered o;
    offered_begin(&o, PATIENCE);
    int leases[2] = {offered_connect(&o), offered_connect(&o)};
    for (int i = 0; i < 2; i++) {
        fetch(leases[i]);
        request(leases[i], 2000, 0, 1000);
    }
    int silent = offered_connect(&o); /* accepted after the requests, so its deadline is later */
    hear_end(silent);
    request(leases[0], 2000, 1000, 1000);
    hear(leases[0], ACRE__WIRE_REFUSED);
    assert_int_equal(message.refused.status, ACRE_E_PROTOCOL);
    hear_end(leases[0]);
    request(leases[1], 2, 0, 2);
    hear(leases[1], ACRE__WIRE_VIEW);
    close(leases[1]);
    offered_end(&o);
}

/* A new request cancels the answer to the previous one. */
TEST(serve_new_request_takes_the_place_of_the_old) {
    struct offered o;
    offered_begin(&o, 0);
    int fd = offered_connect(&o);
    request(fd, 0, 0, 0);
    hear(fd, ACRE__WIRE_VIEW);
    (void)acre__extent_shrink(&o.extent, 2 * MIB);
    request(fd, 0, 0, 0);
    hear(fd, ACRE__WIRE_VIEW);
    assert_int_equal(message.view.chunk_count, 1);
    more(fd);
    hear(fd, ACRE__WIRE_CHUNKS);
    assert_int_equal(message.head.count, 1);
    more(fd);
    hear(fd, ACRE__WIRE_REFUSED);
    hear_end(fd);
    offered_end(&o);
}

int main(void) {
    return tests_run("serve");
}
