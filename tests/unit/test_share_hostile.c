/* A hostile owner: whatever it answers, an import fails with a reason or stays unchanged, and
 * nothing it sent leaks. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "api/api_share.h"
#include "share/endpoint.h"
#include "share/wire.h"
#include "support/send_fds.h"

static const size_t UNIT = 2 * MIB;

/* ---- the owner ---- */

/* The owner's answers to a request and to the first MORE. */
struct lie {
    const char *what;
    void (*view)(union acre__wire_message *message);
    void (*chunks)(union acre__wire_message *message); /* NULL: it hangs up instead */
    size_t fd_count;                                   /* sent with the chunks */
    int fd_kind;                                       /* FD_* */
    acre_status wanted; /* the importer's status; ACRE_OK: any failure */
};

enum { FD_CHUNK, FD_NULL_DEVICE };

struct owner {
    int listener;
    pthread_t thread;
    int is_good_first; /* the first request of a connection gets a correct answer */
    _Atomic(const struct lie *) lie;
    acre_device *device;
    acre_vec *vec; /* two chunks of 2 MiB */
    int fds[2];
    uint64_t bytes[2];
};

static void answer_view(struct owner *owner, int fd, void (*change)(union acre__wire_message *)) {
    static union acre__wire_message message; /* one owner at a time */
    acre_device_info info = {.struct_size = sizeof info};
    acre__wire_begin(&message, ACRE__WIRE_VIEW, 0);
    message.view.element_bytes = 1;
    message.view.used_bytes = 3 * MIB;
    message.view.mapped_bytes = 2 * UNIT;
    message.view.reserved_bytes = 8 * UNIT;
    message.view.chunk_count = 2;
    if (acre_device_get_info(owner->device, &info) == ACRE_OK)
        memcpy(message.view.uuid, info.uuid, sizeof info.uuid);
    if (change)
        change(&message);
    (void)acre__wire_send(fd, &message, NULL, 0);
}

static void answer_chunks(struct owner *owner, int fd, const struct lie *lie) {
    static union acre__wire_message message;
    int fds[ACRE__WIRE_FDS], nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    size_t count = lie ? lie->fd_count : 2;
    for (size_t i = 0; i < count; i++)
        fds[i] = lie && lie->fd_kind == FD_NULL_DEVICE ? nothing : owner->fds[i % 2];
    acre__wire_begin(&message, ACRE__WIRE_CHUNKS, 2);
    for (size_t i = 0; i < 2; i++)
        message.chunks.chunks[i] = (struct acre__wire_chunk){100 + i, owner->bytes[i]};
    if (lie)
        lie->chunks(&message);
    (void)acre__wire_send(fd, &message, fds, count);
    close(nothing);
}

/* Serves one connection. `is_truth` holds for its first request only. */
static void owner_talk(struct owner *owner, int fd) {
    static union acre__wire_message message;
    int fds[ACRE__WIRE_FDS];
    size_t count;
    int is_truth = owner->is_good_first;
    const struct lie *lie = owner->lie;
    for (;;) {
        int64_t deadline = acre__wire_now_ns() + INT64_C(1000000) * PATIENCE_MS;
        if (acre__wire_receive_by(fd, &message, fds, &count, deadline) != ACRE_OK)
            return;
        if (message.head.type == ACRE__WIRE_REQUEST && (is_truth || lie->view)) {
            answer_view(owner, fd, is_truth ? NULL : lie->view);
        } else if (message.head.type == ACRE__WIRE_MORE && (is_truth || lie->chunks)) {
            answer_chunks(owner, fd, is_truth ? NULL : lie);
            is_truth = 0;
        } else {
            return;
        }
    }
}

static void *owner_main(void *argument) {
    struct owner *owner = argument;
    int fd;
    while ((fd = accept4(owner->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        owner_talk(owner, fd);
        close(fd);
    }
    return NULL;
}

static void owner_begin(struct owner *owner) {
    struct acre__endpoint endpoint;
    size_t count;
    owner->device = api_open("soft");
    owner->vec = vec_make(owner->device, 1, 0);
    api_ok(acre_vec_grow(owner->vec, UNIT, NULL));
    api_ok(acre_vec_grow(owner->vec, UNIT, NULL));
    put(owner->device, acre_vec_data(owner->vec), 2 * UNIT, 1);
    api_ok(acre_share_export_fds(owner->device, acre_vec_data(owner->vec), 2, owner->fds,
                                 owner->bytes, &count));
    assert_int_equal(count, 2);
    api_ok(acre__endpoint_from(new_path(), &endpoint));
    api_ok(acre__endpoint_listen(&endpoint, 0600, &owner->listener));
    assert_int_equal(fcntl(owner->listener, F_SETFL, 0), 0); /* accept blocks */
    assert_int_equal(pthread_create(&owner->thread, NULL, owner_main, owner), 0);
}

static void owner_end(struct owner *owner) {
    shutdown(owner->listener, SHUT_RDWR);
    assert_int_equal(pthread_join(owner->thread, NULL), 0);
    close(owner->listener);
    close(owner->fds[0]);
    close(owner->fds[1]);
    api_ok(acre_vec_destroy(owner->vec, NULL));
    end(owner->device);
}

/* ---- lies ---- */

#define LIE(name, change)                                                                          \
    static void lie_##name(union acre__wire_message *m) {                                          \
        change;                                                                                    \
    }
LIE(none, (void)m)
LIE(nonsense, memset(&m->view.element_bytes, 0xee, 32))
LIE(magic, m->head.magic = 1)
LIE(request, acre__wire_begin(m, ACRE__WIRE_REQUEST, 0))
LIE(more, acre__wire_begin(m, ACRE__WIRE_MORE, 0))
LIE(uuid, m->view.uuid[0] ^= 1)
LIE(keep, m->view.keep_count = 1)
LIE(keep_all, m->view.keep_count = 2)
LIE(odd_mapped, m->view.mapped_bytes -= 4096)
LIE(odd_reserved, m->view.reserved_bytes += 4096)
LIE(many_chunks, m->view.chunk_count = 3)
LIE(huge, m->view.reserved_bytes = ACRE__WIRE_BYTES_MOST + UNIT)
LIE(peer, acre__wire_refuse(m, ACRE_E_PEER, "go\naway\x1b"))
LIE(lost, acre__wire_refuse(m, ACRE_E_DEVICE_LOST, "mine"))
LIE(first, m->chunks.first = 1)
LIE(small, m->chunks.chunks[1].bytes = UNIT / 2)
LIE(short, m->chunks.chunks[0].bytes = 4096)
LIE(large, m->chunks.chunks[0].bytes = 2 * UNIT)
LIE(overflow, m->chunks.chunks[1].bytes = ACRE__WIRE_BYTES_MOST)
LIE(more_mapped, m->view.mapped_bytes += UNIT)
LIE(swallow, m->view.chunk_count = 1)
LIE(one, acre__wire_begin(m, ACRE__WIRE_CHUNKS, 1); m->chunks.chunks[0].bytes = 2 * UNIT)
LIE(three, m->head.count = 3; m->head.bytes += (uint32_t)sizeof(struct acre__wire_chunk);
    m->chunks.chunks[2].bytes = UNIT)
LIE(refusal, acre__wire_refuse(m, ACRE_E_DEVICE_MEMORY, "none left"))

static const struct lie lies[] = {
    {"silence", NULL, NULL, 0, 0, ACRE_E_GONE},
    {"nonsense", lie_nonsense, NULL, 0, 0, ACRE_E_PROTOCOL},
    {"magic", lie_magic, NULL, 0, 0, ACRE_E_PROTOCOL},
    {"a request", lie_request, NULL, 0, 0, ACRE_E_PROTOCOL},
    {"a more", lie_more, NULL, 0, 0, ACRE_E_PROTOCOL},
    {"another device", lie_uuid, NULL, 0, 0, ACRE_E_UNSUPPORTED},
    {"mapped bytes", lie_odd_mapped, NULL, 0, 0, ACRE_E_PROTOCOL},
    {"reserved bytes", lie_odd_reserved, NULL, 0, 0, ACRE_E_PROTOCOL},
    {"too many addresses", lie_huge, NULL, 0, 0, ACRE_E_PROTOCOL},
    {"too many chunks", lie_many_chunks, NULL, 0, 0, ACRE_E_PROTOCOL},
    {"a refusal", lie_peer, NULL, 0, 0, ACRE_E_PEER},
    {"a lost device", lie_lost, NULL, 0, 0, ACRE_E_GONE},
    {"no chunks", lie_none, NULL, 0, 0, ACRE_E_GONE},
    {"another first", lie_none, lie_first, 2, FD_CHUNK, ACRE_E_PROTOCOL},
    {"a chunk too small", lie_none, lie_small, 2, FD_CHUNK, ACRE_E_PROTOCOL},
    {"a chunk of a page", lie_none, lie_short, 2, FD_CHUNK, ACRE_E_PROTOCOL},
    {"a chunk too large", lie_none, lie_large, 2, FD_CHUNK, ACRE_E_PROTOCOL},
    {"a chunk far too large", lie_none, lie_overflow, 2, FD_CHUNK, ACRE_E_PROTOCOL},
    {"bytes that never come", lie_more_mapped, lie_none, 2, FD_CHUNK, ACRE_E_PROTOCOL},
    {"more chunks than there are", lie_swallow, lie_none, 2, FD_CHUNK, ACRE_E_PROTOCOL},
    {"one chunk too many", lie_none, lie_three, 3, FD_CHUNK, ACRE_E_PROTOCOL},
    {"a descriptor too few", lie_none, lie_none, 1, FD_CHUNK, ACRE_E_PROTOCOL},
    {"a descriptor too many", lie_none, lie_none, 3, FD_CHUNK, ACRE_E_PROTOCOL},
    {"all descriptors", lie_none, lie_none, ACRE__WIRE_FDS, FD_CHUNK, ACRE_E_PROTOCOL},
    {"a view again", lie_none, lie_more, 0, FD_CHUNK, ACRE_E_PROTOCOL},
    {"a late refusal", lie_none, lie_refusal, 0, FD_CHUNK, ACRE_E_DEVICE_MEMORY},
    {"no chunk behind it", lie_none, lie_none, 2, FD_NULL_DEVICE, ACRE_OK},
    {"a chunk of another size", lie_swallow, lie_one, 1, FD_CHUNK, ACRE_OK},
};
enum { LIES = sizeof lies / sizeof lies[0] };

/* For the first request only: in later answers all chunks may stay. */
static const struct lie first_lies[] = {
    {"one stays", lie_keep, NULL, 0, 0, ACRE_E_PROTOCOL},
    {"all stay", lie_keep_all, NULL, 0, 0, ACRE_E_PROTOCOL},
};

/* With few open files acre refuses a message with many for another reason. */
static int lie_is_possible(const struct lie *lie) {
    return lie->fd_count < SEND_FDS_MOST || can_receive_fds();
}

static void expect_refused(acre_status got, const struct lie *lie) {
    if (lie->wanted ? got != lie->wanted : got == ACRE_OK)
        fail_msg("lie \"%s\": unexpected status %s: %s", lie->what, acre_status_name(got),
                 acre_last_detail());
    const char *detail = acre_last_detail();
    assert_true(strlen(detail) > 0);
    for (; *detail; detail++)
        assert_true((unsigned char)*detail >= ' ');
}

/* ---- tests ---- */

static void hostile_try_open(struct owner *owner, const struct lie *lie) {
    acre_import *import = (acre_import *)owner;
    owner->lie = lie;
    size_t fds = open_fds();
    expect_refused(acre_import_open(owner->device, path, API_WAIT(PATIENCE_MS), &import), lie);
    assert_null(import);
    acre_device_stats stats = api_stats(owner->device);
    assert_int_equal(stats.imports + stats.limbo_count, 0);
    assert_int_equal(stats.chunks, 2); /* the owner's own */
    size_t left = open_fds();
    for (int i = 0; i < 60000 && left > fds; i++) { /* the owner's thread closes late */
        struct timespec nap = {.tv_nsec = 1000000};
        nanosleep(&nap, NULL);
        left = open_fds();
    }
    assert_true(left <= fds);
}

TEST(hostile_owner_is_refused_at_opening) {
    struct owner owner = {.is_good_first = 0, .lie = lies};
    owner_begin(&owner);
    for (size_t i = 0; i < LIES; i++)
        if (lie_is_possible(&lies[i]))
            hostile_try_open(&owner, &lies[i]);
    for (size_t i = 0; i < sizeof first_lies / sizeof first_lies[0]; i++)
        hostile_try_open(&owner, &first_lies[i]);
    owner_end(&owner);
}

/* The first answer is correct, the answer to the refresh is a lie: the import stays unchanged. */
TEST(hostile_owner_leaves_an_import_as_it_was) {
    struct owner owner = {.is_good_first = 1, .lie = lies};
    owner_begin(&owner);
    for (size_t i = 0; i < LIES; i++) {
        acre_import *import;
        if (!lie_is_possible(&lies[i]))
            continue;
        owner.lie = &lies[i];
        api_ok(acre_import_open(owner.device, path, API_WAIT(PATIENCE_MS), &import));
        acre_import_info before = info_of(import);
        assert_true(has(owner.device, before.data, 2 * UNIT, 1));
        expect_refused(acre_import_refresh(import, NULL), &lies[i]);
        acre_import_info after = info_of(import);
        assert_memory_equal(&before, &after, sizeof before);
        assert_true(has(owner.device, before.data, 2 * UNIT, 1));
        assert_int_equal(api_stats(owner.device).chunks, 4);
        if (lies[i].wanted == ACRE_E_PROTOCOL) /* the importer has closed the connection */
            api_expect(acre_import_refresh(import, NULL), ACRE_E_GONE);
        api_ok(acre_import_close(import, NULL));
    }
    owner_end(&owner);
}

/* The owner never answers: acre_import_open fails after its timeout. */
TEST(hostile_silent_owner_is_given_up) {
    acre_device *device = api_open("soft");
    acre_import *import;
    struct acre__endpoint endpoint;
    int listener;
    api_ok(acre__endpoint_from(new_path(), &endpoint));
    api_ok(acre__endpoint_listen(&endpoint, 0600, &listener));
    int64_t begin = acre__wire_now_ns();
    api_expect(acre_import_open(device, path, API_WAIT(150), &import), ACRE_E_GONE);
    int64_t took_ns = acre__wire_now_ns() - begin;
    assert_true(took_ns >= 150000000);
    close(listener);
    end(device);
}

int main(void) {
    return tests_run("share_hostile");
}
