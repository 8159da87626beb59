/* Messages of the sharing protocol: valid ones pass, invalid ones fail, and no descriptor leaks. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "api/api_memory.h"
#include "share/wire.h"
#include "support/send_fds.h"

static union acre__wire_message message, other;

/* Returns the number of open descriptors of this process. */
static size_t open_fds(void) {
    size_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* Skips a test that receives as many descriptors as a message can have. */
static void need_fds(void) {
    if (!can_receive_fds()) {
        print_message("skipped: the limit of open files is too low\n");
        skip();
    }
}

static void pair(int ends[2]) {
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends),
                     0);
}

static void pair_end(int ends[2]) {
    close(ends[0]);
    close(ends[1]);
}

/* ---- valid messages ---- */

/* Makes the valid message number `index`. Returns 0 past the last one. */
static int make_good(size_t index, size_t *fds) {
    *fds = 0;
    switch (index) {
    case 0:
        acre__wire_begin(&message, ACRE__WIRE_REQUEST, 0);
        return 1;
    case 1:
        acre__wire_begin(&message, ACRE__WIRE_REQUEST, ACRE__WIRE_IDS);
        message.request.total = ACRE__WIRE_CHUNK_MOST;
        message.request.first = ACRE__WIRE_CHUNK_MOST - ACRE__WIRE_IDS;
        return 1;
    case 2:
        acre__wire_begin(&message, ACRE__WIRE_VIEW, 0);
        message.view.element_bytes = 4;
        return 1;
    case 3:
        acre__wire_begin(&message, ACRE__WIRE_VIEW, 0);
        message.view.element_bytes = ACRE__WIRE_BYTES_MOST;
        message.view.used_bytes = message.view.mapped_bytes = ACRE__WIRE_BYTES_MOST;
        message.view.reserved_bytes = ACRE__WIRE_BYTES_MOST;
        message.view.chunk_count = message.view.keep_count = ACRE__WIRE_CHUNK_MOST;
        message.view.flags = ACRE_SHARE_READ_ONLY;
        return 1;
    case 4:
        acre__wire_begin(&message, ACRE__WIRE_MORE, 0);
        return 1;
    case 5:
    case 6:
        *fds = index == 5 ? 1 : ACRE__WIRE_FDS;
        acre__wire_begin(&message, ACRE__WIRE_CHUNKS, (uint32_t)*fds);
        for (size_t i = 0; i < *fds; i++)
            message.chunks.chunks[i].bytes = 1 + i;
        return 1;
    case 7:
        acre__wire_refuse(&message, ACRE_E_PEER, "no");
        return 1;
    default:
        return 0;
    }
}

TEST(wire_good_message_passes_and_travels) {
    int ends[2], fds[ACRE__WIRE_FDS], got[ACRE__WIRE_FDS];
    need_fds();
    pair(ends);
    size_t before = open_fds(), count, got_count;
    for (size_t i = 0; i < ACRE__WIRE_FDS; i++)
        fds[i] = ends[0];
    for (size_t i = 0; make_good(i, &count); i++) {
        api_ok(acre__wire_check(&message, message.head.bytes, count));
        api_ok(acre__wire_send(ends[0], &message, fds, count));
        api_ok(acre__wire_receive(ends[1], &other, got, &got_count));
        assert_int_equal(got_count, count);
        assert_memory_equal(&message, &other, message.head.bytes);
        for (size_t k = 0; k < got_count; k++)
            assert_int_equal(fcntl(got[k], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        acre__wire_close(got, got_count);
    }
    assert_int_equal(open_fds(), before);
    pair_end(ends);
}

TEST(wire_refusal_text_is_cut) {
    char text[1000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    acre__wire_refuse(&message, ACRE_E_DRIVER, text);
    assert_int_equal(strlen(message.refused.text), ACRE__WIRE_TEXT - 1);
    api_ok(acre__wire_check(&message, message.head.bytes, 0));
}

/* ---- invalid messages ---- */

static void expect_bad(size_t bytes, size_t fds) {
    api_expect(acre__wire_check(&message, bytes, fds), ACRE_E_PROTOCOL);
    assert_true(strlen(acre_last_detail()) > 0);
}

/* Every wrong length and every wrong number of descriptors fails. */
TEST(wire_cut_or_longer_message_is_refused) {
    size_t count;
    for (size_t i = 0; make_good(i, &count); i++) {
        size_t right = message.head.bytes;
        for (size_t bytes = 0; bytes <= sizeof message; bytes++)
            if (bytes != right)
                expect_bad(bytes, count);
        for (size_t fds = 0; fds <= ACRE__WIRE_FDS; fds++)
            if (fds != count)
                expect_bad(right, fds);
    }
}

#define BAD(index, change)                                                                         \
    do {                                                                                           \
        size_t fds_;                                                                               \
        assert_true(make_good(index, &fds_));                                                      \
        size_t bytes_ = message.head.bytes;                                                        \
        change;                                                                                    \
        expect_bad(bytes_, fds_);                                                                  \
    } while (0)

TEST(wire_wrong_number_is_refused) {
    for (size_t i = 0; i < 8; i++) {
        BAD(i, message.head.magic++);
        BAD(i, message.head.version++);
        BAD(i, message.head.type = 0);
        BAD(i, message.head.type = 6);
        BAD(i, message.head.type = 0xffff);
        BAD(i, message.head.bytes--);
        BAD(i, message.head.bytes++);
        BAD(i, message.head.bytes = UINT32_MAX);
        BAD(i, message.head.count++);
        BAD(i, message.head.count = UINT32_MAX);
        BAD(i, message.head.count = 0x20000000);
    }
    BAD(1, message.request.total++);
    BAD(1, message.request.total = UINT32_MAX);
    BAD(1, message.request.first++);
    BAD(1, message.request.first = UINT32_MAX);
    BAD(0, message.request.total = 1);
    BAD(0, message.request.first = 1);
    BAD(2, message.view.element_bytes = 0);
    BAD(2, message.view.chunk_count = 1);
    BAD(2, message.view.mapped_bytes = message.view.reserved_bytes = 1);
    BAD(3, message.view.element_bytes++);
    BAD(3, message.view.used_bytes++);
    BAD(3, message.view.mapped_bytes++);
    BAD(3, message.view.reserved_bytes++);
    BAD(3, message.view.reserved_bytes--);
    BAD(3, message.view.reserved_bytes = UINT64_MAX);
    BAD(3, message.view.chunk_count++);
    BAD(3, message.view.chunk_count--);
    BAD(3, message.view.keep_count++);
    BAD(3, message.view.flags = 2);
    BAD(3, message.view.zero = 1);
    BAD(5, message.chunks.first = ACRE__WIRE_CHUNK_MOST);
    BAD(5, message.chunks.zero = 1);
    BAD(6, message.chunks.chunks[252].bytes = 0);
    BAD(6, message.chunks.chunks[252].bytes = ACRE__WIRE_BYTES_MOST + 1);
    BAD(7, message.refused.status = 0);
    BAD(7, message.refused.status = 1);
    BAD(7, message.refused.status = INT32_MIN);
    BAD(7, message.refused.zero = 1);
    BAD(7, memset(message.refused.text, 'x', sizeof message.refused.text));
}

/* Messages with random changes, and random bytes: a message that passes has consistent fields. */
TEST(wire_random_bytes_never_pass_with_wrong_numbers) {
    uint64_t random = random_seed("wire");
    unsigned passed = 0;
    for (int round = 0; round < 200000; round++) {
        size_t fds;
        assert_true(make_good(random_draw(&random, 8), &fds));
        size_t bytes = message.head.bytes;
        unsigned char *raw = (unsigned char *)&message;
        for (uint64_t i = random_draw(&random, 4); i > 0; i--)
            raw[random_draw(&random, bytes < 64 ? bytes : 64)] =
                (unsigned char)random_draw(&random, 256);
        if (round % 8 == 0)
            api_random_bytes(&random, raw, 64);
        if (round % 16 == 1)
            bytes = random_draw(&random, sizeof message + 1);
        if (acre__wire_check(&message, bytes, fds) != ACRE_OK)
            continue;
        passed++;
        assert_int_equal(bytes, acre__wire_bytes(message.head.type, message.head.count));
        assert_true(bytes >= sizeof message.head && bytes <= sizeof message);
        if (message.head.type == ACRE__WIRE_REQUEST)
            assert_true((uint64_t)message.request.first + message.head.count <=
                            message.request.total &&
                        message.request.total <= ACRE__WIRE_CHUNK_MOST);
        if (message.head.type == ACRE__WIRE_VIEW)
            assert_true(message.view.used_bytes <= message.view.mapped_bytes &&
                        message.view.mapped_bytes <= message.view.reserved_bytes &&
                        message.view.reserved_bytes <= ACRE__WIRE_BYTES_MOST &&
                        message.view.keep_count <= message.view.chunk_count);
        if (message.head.type == ACRE__WIRE_CHUNKS)
            assert_int_equal(message.head.count, fds);
        if (message.head.type == ACRE__WIRE_REFUSED)
            assert_true(message.refused.status < 0);
    }
    assert_true(passed > 1000); /* enough messages must pass, or nothing was tested */
}

/* ---- over a socket ---- */

/* Sends bytes that acre would never send. */
static void send_raw(int socket, const void *bytes, size_t count, const int *fds, size_t fd_count) {
    assert_int_equal(send_fds(socket, bytes, count, fds, fd_count, 0), (ssize_t)count);
}

TEST(wire_descriptors_of_refused_messages_are_closed) {
    int ends[2], fds[ACRE__WIRE_FDS], got[ACRE__WIRE_FDS];
    static char large[sizeof message + 1];
    size_t got_count = 5, ignored;
    need_fds();
    pair(ends);
    for (size_t i = 0; i < ACRE__WIRE_FDS; i++)
        fds[i] = ends[1];
    size_t before = open_fds();
    send_raw(ends[0], large, sizeof large, fds, ACRE__WIRE_FDS); /* does not fit */
    api_expect(acre__wire_receive(ends[1], &other, got, &got_count), ACRE_E_PROTOCOL);
    assert_int_equal(got_count, 0);
    send_raw(ends[0], "hello", 5, fds, 3); /* nonsense */
    api_expect(acre__wire_receive(ends[1], &other, got, &got_count), ACRE_E_PROTOCOL);
    assert_true(make_good(5, &ignored)); /* one chunk, two descriptors */
    send_raw(ends[0], &message, message.head.bytes, fds, 2);
    api_expect(acre__wire_receive(ends[1], &other, got, &got_count), ACRE_E_PROTOCOL);
    assert_true(make_good(4, &ignored)); /* this message takes no descriptor */
    send_raw(ends[0], &message, message.head.bytes, fds, 1);
    api_expect(acre__wire_receive(ends[1], &other, got, &got_count), ACRE_E_PROTOCOL);
    send_raw(ends[0], "", 0, fds, 7); /* empty, like the end of the stream */
    api_expect(acre__wire_receive(ends[1], &other, got, &got_count), ACRE_E_GONE);
    assert_int_equal(got_count, 0);
    assert_int_equal(open_fds(), before);
    pair_end(ends);
}

/* The system drops descriptors above the process's limit: the message fails, and the received ones
 * are closed. */
TEST(wire_descriptors_cut_off_are_refused) {
    int ends[2], fds[ACRE__WIRE_FDS], got[ACRE__WIRE_FDS];
    size_t count, got_count;
    struct rlimit limit, small;
    pair(ends);
    for (size_t i = 0; i < ACRE__WIRE_FDS; i++)
        fds[i] = ends[1];
    assert_true(make_good(6, &count));
    api_ok(acre__wire_send(ends[0], &message, fds, count));
    size_t before = open_fds();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    small = limit;
    small.rlim_cur = (rlim_t)before + 20;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &small), 0);
    acre_status status = acre__wire_receive(ends[1], &other, got, &got_count);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    api_expect(status, ACRE_E_SYSTEM);
    assert_int_equal(got_count, 0);
    assert_int_equal(open_fds(), before);
    pair_end(ends);
}

TEST(wire_closed_end_is_gone_after_its_last_words) {
    int ends[2], got[ACRE__WIRE_FDS];
    size_t got_count, ignored;
    pair(ends);
    assert_true(make_good(0, &ignored));
    api_ok(acre__wire_send(ends[0], &message, NULL, 0)); /* never read: close resets */
    acre__wire_refuse(&message, ACRE_E_PEER, "no");
    api_ok(acre__wire_send(ends[1], &message, NULL, 0));
    close(ends[1]);
    assert_true(make_good(0, &ignored));
    api_expect(acre__wire_send(ends[0], &message, NULL, 0), ACRE_E_GONE);
    api_ok(acre__wire_receive(ends[0], &other, got, &got_count));
    assert_int_equal(other.head.type, ACRE__WIRE_REFUSED);
    api_expect(acre__wire_receive(ends[0], &other, got, &got_count), ACRE_E_GONE);
    close(ends[0]);
}

TEST(wire_waiting_ends_at_the_deadline) {
    int ends[2], got[ACRE__WIRE_FDS];
    size_t got_count, ignored;
    pair(ends);
    int64_t begin = acre__wire_now_ns();
    api_expect(acre__wire_receive(ends[0], &other, got, &got_count), ACRE_E_NOT_READY);
    api_expect(acre__wire_receive_by(ends[0], &other, got, &got_count, begin + 30000000),
               ACRE_E_GONE);
    assert_true(acre__wire_now_ns() - begin >= 30000000);
    assert_true(make_good(1, &ignored)); /* until the connection is full */
    begin = acre__wire_now_ns();
    acre_status status = ACRE_OK;
    for (int i = 0; i < 100000 && status == ACRE_OK; i++)
        status = acre__wire_send_by(ends[0], &message, begin + 50000000);
    api_expect(status, ACRE_E_GONE);
    api_ok(acre__wire_receive(ends[1], &other, got, &got_count)); /* one read makes room */
    pair_end(ends);
}

int main(void) {
    return tests_run("wire");
}
