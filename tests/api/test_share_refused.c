/* Sharing, refused calls: users, importers, paths, handles, memory, malformed messages; and shares
 * that are closed or never existed. */
#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "api_share.h"
#include "support/send_fds.h"

/* ---- users and number of importers ---- */

TEST(share_wrong_user_is_refused) {
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_share *share;
        acre_import *import = (acre_import *)device;
        acre_vec *vec = vec_make(device, 1, 0);
        const uint32_t others[] = {geteuid() + 1, geteuid() + 2}, mine[] = {12345, geteuid()};
        acre_share_options options = {
            .struct_size = sizeof options, .uids = others, .uid_count = 2};
        api_ok(acre_share_vec(vec, new_path(), &options, &share));
        api_expect(acre_import_open(device, path, NULL, &import), ACRE_E_PEER);
        assert_null(import);
        api_ok(acre_share_close(share));
        options.uids = mine;
        api_ok(acre_share_vec(vec, new_path(), &options, &share));
        api_ok(acre_import_open(device, path, NULL, &import));
        api_ok(acre_import_close(import, NULL));
        api_ok(acre_share_close(share));
        api_ok(acre_vec_destroy(vec, NULL));
        end(device);
    }
}

TEST(share_importers_are_limited_and_leave) {
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_share *share;
        acre_import *imports[3];
        acre_vec *vec = vec_make(device, 1, 0);
        acre_share_options options = {.struct_size = sizeof options, .importers = 2};
        api_ok(acre_share_vec(vec, new_path(), &options, &share));
        api_ok(acre_import_open(device, path, NULL, &imports[0]));
        api_ok(acre_import_open(device, path, NULL, &imports[1]));
        api_expect(acre_import_open(device, path, NULL, &imports[2]), ACRE_E_LIMIT);
        assert_int_equal(api_stats(device).imports, 2);
        api_ok(acre_import_close(imports[0], NULL));
        api_ok(acre_import_open(device, path, NULL, &imports[2]));
        api_ok(acre_import_refresh(imports[1], NULL));
        api_ok(acre_import_close(imports[1], NULL));
        api_ok(acre_import_close(imports[2], NULL));
        api_ok(acre_share_close(share));
        api_ok(acre_vec_destroy(vec, NULL));
        end(device);
    }
}

/* ---- paths ---- */

TEST(share_file_has_its_mode_and_goes) {
    acre_device *device = api_open("soft");
    acre_vec *vec = vec_make(device, 1, 0);
    const uint32_t other = geteuid() + 1;
    const mode_t umasks[] = {0, 022, 0777};
    char file[80], folder[] = "/tmp/acre-test-share-XXXXXX";
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/socket", folder);
    for (size_t i = 0; i < 6; i++) {
        acre_share *share, *second = (acre_share *)file;
        acre_import *import;
        struct stat info;
        acre_share_options options = {
            .struct_size = sizeof options, .uids = i < 3 ? NULL : &other, .uid_count = i >= 3};
        mode_t before = umask(umasks[i % 3]);
        acre_status status = acre_share_vec(vec, file, &options, &share);
        umask(before);
        api_ok(status);
        assert_int_equal(lstat(file, &info), 0);
        assert_int_equal(info.st_mode & 07777, i < 3 ? 0600 : 0666);
        api_expect(acre_share_vec(vec, file, NULL, &second), ACRE_E_BUSY);
        assert_null(second);
        if (i < 3) {
            api_ok(acre_import_open(device, file, NULL, &import));
            api_ok(acre_import_close(import, NULL));
        }
        api_ok(acre_share_close(share));
        assert_int_equal(lstat(file, &info), -1);
    }

    /* acre_share_close does not remove a file that the share did not create. */
    acre_share *share;
    api_ok(acre_share_vec(vec, file, NULL, &share));
    assert_int_equal(unlink(file), 0);
    assert_int_equal(mkdir(file, 0700), 0);
    api_ok(acre_share_close(share));
    assert_int_equal(rmdir(file), 0);
    assert_int_equal(rmdir(folder), 0);
    api_ok(acre_vec_destroy(vec, NULL));
    end(device);
}

TEST(share_bad_paths_and_options_are_refused) {
    acre_device *device = api_open("soft");
    acre_vec *vec = vec_make(device, 1, 0);
    acre_import *import;
    char exact[108], large[200];
    memset(exact, 'x', sizeof exact);
    memset(large, 'x', sizeof large);
    exact[0] = large[0] = '@';
    exact[107] = large[199] = '\0';
    const uint32_t uid = geteuid();
    const struct {
        const char *path;
        acre_share_options options;
        acre_status wanted;
    } bad[] = {
        {NULL, {.struct_size = sizeof(acre_share_options)}, ACRE_E_NULL},
        {"", {.struct_size = sizeof(acre_share_options)}, ACRE_E_INVALID},
        {"@", {.struct_size = sizeof(acre_share_options)}, ACRE_E_INVALID},
        {large, {.struct_size = sizeof(acre_share_options)}, ACRE_E_INVALID},
        {"/tmp", {.struct_size = sizeof(acre_share_options)}, ACRE_E_BUSY},
        {"/tmp/acre-no-such-folder/x", {.struct_size = sizeof(acre_share_options)}, ACRE_E_SYSTEM},
        {exact, {.struct_size = 1}, ACRE_E_OPTIONS},
        {exact, {.struct_size = sizeof(acre_share_options), .flags = 2}, ACRE_E_OPTIONS},
        {exact, {.struct_size = sizeof(acre_share_options), .reserved = 1}, ACRE_E_OPTIONS},
        {exact, {.struct_size = sizeof(acre_share_options), .uid_count = 1}, ACRE_E_INVALID},
        {exact, {.struct_size = sizeof(acre_share_options), .uids = &uid}, ACRE_E_INVALID},
        {exact, {.struct_size = sizeof(acre_share_options), .importers = 100000}, ACRE_E_INVALID},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        acre_share *share = (acre_share *)device;
        api_expect(acre_share_vec(vec, bad[i].path, &bad[i].options, &share), bad[i].wanted);
        assert_null(share);
        assert_true(strlen(acre_last_detail()) > 0);
    }
    acre_share *share;
    api_ok(acre_share_vec(vec, exact, NULL, &share));
    api_ok(acre_import_open(device, exact, NULL, &import));
    api_ok(acre_import_close(import, NULL));
    api_ok(acre_share_close(share));
    api_expect(acre_import_open(device, NULL, NULL, &import), ACRE_E_NULL);
    api_expect(acre_import_open(device, "@", NULL, &import), ACRE_E_INVALID);
    api_expect(acre_import_open(device, large, NULL, &import), ACRE_E_INVALID);
    api_expect(acre_import_open(device, "/dev/null/x", API_WAIT(50), &import), ACRE_E_SYSTEM);
    assert_null(import);
    api_ok(acre_vec_destroy(vec, NULL));
    end(device);
}

/* ---- closed shares, and shares that never existed ---- */

TEST(share_never_offered_or_closed_is_gone) {
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_share *share;
        acre_import *import = (acre_import *)device, *open;
        double ms = 5000; /* the default, which a busy machine may reach now and then */
        for (int i = 0; i < 10 && ms >= 5000; i++) {
            struct timespec begin, now;
            clock_gettime(CLOCK_MONOTONIC, &begin);
            api_expect(acre_import_open(device, new_path(), API_WAIT(60), &import), ACRE_E_GONE);
            clock_gettime(CLOCK_MONOTONIC, &now);
            assert_null(import);
            ms = (double)(now.tv_sec - begin.tv_sec) * 1e3 +
                 (double)(now.tv_nsec - begin.tv_nsec) / 1e6;
            assert_true(ms >= 60);
        }
        assert_true(ms < 5000);
        api_expect(acre_import_open(device, "/tmp/acre-no-such-socket", API_WAIT(20), &import),
                   ACRE_E_GONE);

        acre_vec *vec = vec_make(device, 1, 0);
        api_ok(acre_vec_grow(vec, MIB, NULL));
        put(device, acre_vec_data(vec), MIB, 1);
        api_ok(acre_share_vec(vec, new_path(), NULL, &share));
        api_ok(acre_import_open(device, path, NULL, &open));
        api_ok(acre_share_close(share));
        api_expect(acre_import_open(device, path, API_WAIT(20), &import), ACRE_E_GONE);
        api_expect(acre_import_refresh(open, NULL), ACRE_E_GONE);
        api_ok(acre_vec_destroy(vec, NULL));
        assert_true(has(device, info_of(open).data, MIB, 1));
        api_ok(acre_import_close(open, NULL));
        end(device);
    }
}

/* Shares the vec while the importer waits for the path. */
static void *offer_late(void *argument) {
    acre_share *share = NULL;
    struct timespec nap = {.tv_nsec = 50000000};
    nanosleep(&nap, NULL);
    return acre_share_vec(argument, path, NULL, &share) == ACRE_OK ? share : NULL;
}

TEST(share_offer_is_waited_for) {
    acre_device *device = api_open("soft");
    acre_vec *vec = vec_make(device, 1, 0);
    acre_import *import;
    pthread_t thread;
    void *share;
    new_path();
    assert_int_equal(pthread_create(&thread, NULL, offer_late, vec), 0);
    api_ok(acre_import_open(device, path, API_WAIT(PATIENCE_MS), &import));
    assert_int_equal(pthread_join(thread, &share), 0);
    assert_non_null(share);
    api_ok(acre_import_close(import, NULL));
    api_ok(acre_share_close(share));
    api_ok(acre_vec_destroy(vec, NULL));
    end(device);
}

TEST(share_dead_and_foreign_handles_are_refused) {
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_share *share;
        acre_import *import;
        acre_vec *vec = vec_make(device, 1, 0);
        acre_import_info info = {.struct_size = sizeof info}, small = {.struct_size = 4};
        api_ok(acre_share_vec(vec, new_path(), NULL, &share));
        api_ok(acre_import_open(device, path, NULL, &import));
        api_expect(acre_share_close((acre_share *)import), ACRE_E_HANDLE);
        api_expect(acre_import_close((acre_import *)share, NULL), ACRE_E_HANDLE);
        api_expect(acre_import_refresh((acre_import *)(uintptr_t)1, NULL), ACRE_E_HANDLE);
        api_expect(acre_import_refresh(NULL, NULL), ACRE_E_NULL);
        api_expect(acre_import_get_info(NULL, &info), ACRE_E_NULL);
        api_expect(acre_import_get_info(import, NULL), ACRE_E_NULL);
        api_expect(acre_import_get_info(import, &small), ACRE_E_OPTIONS);
        api_expect(acre_share_vec(vec, "@x", NULL, NULL), ACRE_E_NULL);
        api_expect(acre_import_open(device, "@x", API_WAIT(1), NULL), ACRE_E_NULL);
        acre_share *none = share;
        api_expect(acre_share_vec((acre_vec *)share, "@x", NULL, &none), ACRE_E_HANDLE);
        assert_null(none);
        api_expect(acre_share_vec(NULL, "@x", NULL, &none), ACRE_E_NULL);
        api_ok(acre_import_close(import, NULL));
        api_expect(acre_import_close(import, NULL), ACRE_E_HANDLE);
        api_expect(acre_import_refresh(import, NULL), ACRE_E_HANDLE);
        info.bytes = 1;
        api_expect(acre_import_get_info(import, &info), ACRE_E_HANDLE);
        assert_int_equal(info.bytes, 0);
        api_ok(acre_share_close(share));
        api_expect(acre_share_close(share), ACRE_E_HANDLE);
        api_ok(acre_share_close(NULL));
        api_ok(acre_import_close(NULL, NULL));
        api_ok(acre_vec_destroy(vec, NULL));
        end(device);
    }
}

/* ---- memory that cannot be shared ---- */

static void expect_no_share(acre_device *device, void *p, acre_status wanted) {
    acre_share *share = (acre_share *)device;
    int fds[8];
    uint64_t bytes[8];
    size_t count = 5;
    api_expect(acre_share_mem(device, p, new_path(), NULL, &share), wanted);
    assert_null(share);
    api_expect(acre_share_export_fds(device, p, 8, fds, bytes, &count), wanted);
    assert_int_equal(count, 0);
}

TEST(share_other_memory_is_refused) {
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        for (int sort = 0; sort < SORT_COUNT; sort++) {
            /* The device block is part of a chunk. */
            size_t bytes = sort == SORT_DEVICE ? 64 * KIB : 4 * MIB;
            struct api_buffer buffer = api_buffer_make(device, sort, bytes);
            expect_no_share(device, buffer.at,
                            sort == SORT_PAGEABLE ? ACRE_E_POINTER : ACRE_E_KIND);
            api_buffer_end(&buffer);
        }
        struct api_buffer block = api_buffer_make(device, SORT_DEVICE, 4 * MIB);
        expect_no_share(device, block.at + 1, ACRE_E_INTERIOR);
        expect_no_share(device, NULL, ACRE_E_NULL);

        /* Memory of an import, and vecs of other kinds and strategies. */
        acre_share *share, *none;
        acre_import *import;
        api_ok(acre_share_mem(device, block.at, new_path(), NULL, &share));
        api_ok(acre_import_open(device, path, NULL, &import));
        void *data = info_of(import).data;
        expect_no_share(device, data, ACRE_E_KIND);
        api_expect(acre_mem_free(device, data), ACRE_E_KIND);
        api_ok(acre_import_close(import, NULL));
        api_ok(acre_share_close(share));
        api_buffer_end(&block);
        const acre_vec_options sorts[] = {
            {.struct_size = sizeof sorts[0]},
            {.struct_size = sizeof sorts[0], .strategy = ACRE_VEC_COPY},
            {.struct_size = sizeof sorts[0], .kind = ACRE_KIND_MANAGED},
            {.struct_size = sizeof sorts[0], .kind = ACRE_KIND_PINNED},
        };
        for (size_t i = 0; i < 4; i++) {
            acre_vec *vec;
            api_ok(acre_vec_create(device, 1, &sorts[i], &vec));
            api_expect(acre_share_vec(vec, new_path(), NULL, &none), ACRE_E_KIND);
            api_ok(acre_vec_grow(vec, 3 * MIB, NULL));
            api_expect(acre_share_vec(vec, new_path(), NULL, &none), ACRE_E_KIND);
            assert_null(none);
            api_ok(acre_vec_destroy(vec, NULL)); /* a refused share holds no reference */
        }
        acre_vec *vec = vec_make(device, 1, 0);
        api_ok(acre_vec_grow(vec, MIB, NULL));
        api_expect(acre_share_mem(device, acre_vec_data(vec), new_path(), NULL, &none),
                   ACRE_E_KIND);
        api_ok(acre_vec_destroy(vec, NULL));
        end(device);
    }
}

/* With ACRE_VMM=off, neither sharing nor importing is supported. */
static int peer_cannot_share(void) {
    acre_device *device;
    acre_share *share;
    acre_import *import;
    acre_vec *vec;
    void *p;
    api_must(acre_open("soft", NULL, &device) == ACRE_OK);
    api_must(acre_mem_alloc(device, ACRE_KIND_DEVICE, 4 * MIB, 0, &p) == ACRE_OK);
    api_must(acre_vec_create(device, 1, NULL, &vec) == ACRE_OK);
    api_must(acre_share_mem(device, p, "@acre-x", NULL, &share) == ACRE_E_UNSUPPORTED);
    api_must(acre_share_vec(vec, "@acre-x", NULL, &share) == ACRE_E_UNSUPPORTED);
    api_must(acre_import_open(device, "@acre-x", API_WAIT(1), &import) == ACRE_E_UNSUPPORTED);
    api_must(acre_close(device) == ACRE_OK);
    return 0;
}

TEST(share_without_mapping_is_unsupported) {
    api_started_ok("cannot-share", "ACRE_VMM=off");
}

/* ---- malformed messages ---- */

static int raw_connect(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path + 1, path + 1, strlen(path) - 1);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    assert_int_equal(connect(fd, (struct sockaddr *)&address, bytes), 0);
    return fd;
}

/* Sends a message with some descriptors. The owner may have closed the connection already. */
static void raw_send(int fd, const void *at, size_t bytes, size_t fd_count) {
    int fds[SEND_FDS_MOST];
    for (size_t i = 0; i < fd_count; i++)
        fds[i] = fd;
    ssize_t sent = send_fds(fd, at, bytes, fds, fd_count, MSG_DONTWAIT);
    assert_true(sent == (ssize_t)bytes || errno == EPIPE || errno == EAGAIN || errno == ECONNRESET);
}

/* Connections that send nothing or malformed messages, or close early, do not affect other
 * importers. */
TEST(share_nonsense_from_importers_harms_nobody) {
    uint64_t random = random_seed("share");
    acre_device *device = api_open("soft");
    acre_share *share;
    acre_import *import, *late;
    acre_vec *vec = vec_make(device, 1, 0);
    static unsigned char bytes[20000];
    size_t before = open_fds();
    api_ok(acre_vec_grow(vec, 4 * MIB, NULL));
    put(device, acre_vec_data(vec), 4 * MIB, 1);
    api_ok(acre_share_vec(vec, new_path(), NULL, &share));
    api_ok(acre_import_open(device, path, NULL, &import));
    int silent[3] = {raw_connect(), raw_connect(), raw_connect()};
    for (int round = 0; round < 300; round++) {
        int fd = raw_connect();
        for (uint64_t i = random_draw(&random, 4); i > 0; i--) {
            size_t length = random_draw(&random, 2) ? random_draw(&random, 64)
                                                    : random_draw(&random, sizeof bytes);
            api_random_bytes(&random, bytes, length);
            raw_send(fd, bytes, length, random_draw(&random, 3) ? 0 : random_draw(&random, 20));
        }
        close(fd);
        if (round % 50 == 0) {
            api_ok(acre_import_refresh(import, NULL));
            acre_status status;
            do /* the owner may not have noticed yet that the last connections closed */
                status = acre_import_open(device, path, NULL, &late);
            while (status == ACRE_E_LIMIT);
            api_ok(status);
            assert_true(has(device, info_of(late).data, 4 * MIB, 1));
            api_ok(acre_import_close(late, NULL));
        }
    }
    for (int i = 0; i < 3; i++)
        close(silent[i]);
    api_ok(acre_import_close(import, NULL));
    api_ok(acre_share_close(share));
    api_ok(acre_vec_destroy(vec, NULL));
    assert_int_equal(open_fds(), before);
    end(device);
}

TEST(import_takes_offers_of_its_own_user_and_of_whom_it_names) {
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_share *share;
        acre_import *import = NULL;
        acre_vec *vec = vec_make(device, 1, 0);
        const uint32_t other[] = {geteuid() + 1}, mine[] = {geteuid() + 1, geteuid()};
        acre_import_options options = {
            .struct_size = sizeof options, .uids = other, .uid_count = 1};
        api_ok(acre_share_vec(vec, new_path(), NULL, &share));
        api_expect(acre_import_open(device, path, &options, &import), ACRE_E_PEER);
        assert_null(import);
        options.uids = mine;
        options.uid_count = 2;
        api_ok(acre_import_open(device, path, &options, &import));
        acre_import_info info = {.struct_size = sizeof info};
        api_ok(acre_import_get_info(import, &info));
        assert_int_equal(info.owner_uid, geteuid());
        api_ok(acre_import_close(import, NULL));
        options.uids = NULL;
        api_expect(acre_import_open(device, path, &options, &import), ACRE_E_INVALID);
        api_ok(acre_share_close(share));
        api_ok(acre_vec_destroy(vec, NULL));
        end(device);
    }
}

/* A socket file stays when its owner is killed, and the next share replaces it. A file of another
 * type stays. */
TEST(share_at_a_path_that_was_left_behind_takes_it_over) {
    char file[64];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(file, sizeof file, "/tmp/acre-test-left-%ld", (long)getpid());
    snprintf(address.sun_path, sizeof address.sun_path, "%s", file);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    close(fd); /* nobody listens on it */
    acre_device *device = api_open("soft");
    acre_share *share, *second;
    acre_vec *vec = vec_make(device, 1, 0);
    api_ok(acre_share_vec(vec, file, NULL, &share));
    api_expect(acre_share_vec(vec, file, NULL, &second), ACRE_E_BUSY); /* a live share */
    api_ok(acre_share_close(share));
    assert_int_not_equal(access(file, F_OK), 0);
    FILE *plain = fopen(file, "w");
    assert_non_null(plain);
    fclose(plain);
    api_expect(acre_share_vec(vec, file, NULL, &second), ACRE_E_BUSY);
    assert_int_equal(access(file, F_OK), 0);
    unlink(file);
    api_ok(acre_vec_destroy(vec, NULL));
    end(device);
}

int main(int argc, char **argv) {
    if (argc >= 2 && strcmp(argv[1], "cannot-share") == 0)
        return peer_cannot_share();
    return tests_run("share_refused");
}
