/* Owners and importers that are killed at random times: the survivor does not hang, loses no
 * memory, keeps its contents, and continues to share. */
#include <sys/time.h>

#include "api_share.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SLOW 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SLOW 1
#endif
#endif
#ifndef IS_SLOW
#define IS_SLOW 0
#endif

/* Rounds of each test. Opening a GPU takes a good part of a second. */
static int rounds_of(const char *device_name) {
    return strcmp(device_name, "soft") != 0 ? 10 : IS_SLOW ? 20 : 100;
}

/* The vec always has at least these bytes, which hold the pattern. */
static const size_t LEAST = 2 * MIB;

/* A signal kills the process after this time, whatever it does. */
static void die_after(const char *microseconds) {
    struct itimerval timer = {.it_value.tv_usec = strtol(microseconds, NULL, 10) + 1};
    signal(SIGALRM, SIG_DFL);
    api_must(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

static void draw_argument(uint64_t *random, const char *what, char argument[32]) {
    /* Half of the times are short, since most steps run in the first 1.5 ms. */
    uint64_t most = random_draw(random, 2) ? 1500 : 12000;
    snprintf(argument, 32, "%s:%llu", what, (unsigned long long)random_draw(random, most));
}

static void expect_killed(struct api_peer *peer) {
    int state = api_peer_end(peer);
    if (!WIFSIGNALED(state) || WTERMSIG(state) != SIGALRM)
        fail_msg("the other process exited before the signal, status 0x%x", state);
}

/* ---- an importer that dies ---- */

static int importer_that_dies(const char *microseconds, const char *at, const char *device_name) {
    acre_device *device;
    api_must(acre_open(device_name, NULL, &device) == ACRE_OK);
    api_tell(API_PEER_OUT, 'a');
    die_after(microseconds);
    for (;;) {
        acre_import *import;
        acre_import_info info = {.struct_size = sizeof info};
        api_must(acre_import_open(device, at, API_WAIT(PATIENCE_MS), &import) == ACRE_OK);
        for (int i = 0; i < 4; i++) {
            api_must(acre_import_refresh(import, NULL) == ACRE_OK);
            api_must(acre_import_get_info(import, &info) == ACRE_OK);
            api_must(has(device, info.data, LEAST, 1));
        }
        api_must(acre_import_close(import, NULL) == ACRE_OK);
    }
}

/* Changes of the owner meanwhile. */
static void change_at_random(uint64_t *random, acre_vec *vec) {
    api_ok(acre_vec_resize(vec, LEAST + random_draw(random, 8) * MIB, NULL));
    if (random_draw(random, 4) == 0)
        api_ok(acre_vec_shrink_to_fit(vec, NULL));
}

TEST(death_of_importers_leaves_the_owner_alone) {
    uint64_t random = random_seed("death of importers");
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_share *share;
        acre_import *import;
        acre_share_options options = {.struct_size = sizeof options, .importers = 2};
        acre_vec *vec = vec_make(device, 1, 0);
        api_ok(acre_vec_grow(vec, LEAST, NULL));
        put(device, acre_vec_data(vec), LEAST, 1);
        api_ok(acre_share_vec(vec, new_path(), &options, &share));
        size_t fds = 0;
        for (int round = 0; round < rounds_of(name); round++) {
            char argument[32];
            draw_argument(&random, "importer", argument);
            struct api_peer peer = api_peer_start(argument, path, name);
            assert_int_equal(api_hear(peer.from), 'a');
            while (random_draw(&random, 20)) /* until some time before or after the peer dies */
                change_at_random(&random, vec);
            expect_killed(&peer);

            /* The share still works, and the dead importer's slot is free. */
            api_ok(acre_vec_resize(vec, LEAST, NULL));
            api_ok(acre_vec_shrink_to_fit(vec, NULL));
            api_ok(acre_import_open(device, path, API_WAIT(PATIENCE_MS), &import));
            assert_true(has(device, info_of(import).data, LEAST, 1));
            api_ok(acre_import_close(import, NULL));
            assert_int_equal(acre_vec_mapped_bytes(vec), LEAST);
            size_t now = open_fds();
            fds = round ? fds : now;
            if (strcmp(name, "soft") == 0)
                assert_true(now <= fds + 2); /* a connection may still be open for a moment */
        }
        api_ok(acre_share_close(share));
        assert_int_equal(api_stats(device).limbo_count, 0);
        api_ok(acre_vec_destroy(vec, NULL));
        acre_device_stats stats =
            api_stats(device); /* chunks that were never exported are cached */
        assert_int_equal(stats.chunk_bytes, stats.chunk_cached_bytes);
        end(device);
    }
}

/* ---- an owner that dies ---- */

static int owner_that_dies(const char *microseconds, const char *at, const char *device_name) {
    uint64_t random = strtoull(microseconds, NULL, 10);
    acre_device *device;
    acre_share *share;
    api_must(acre_open(device_name, NULL, &device) == ACRE_OK);
    acre_vec *vec = vec_make(device, 1, 0);
    api_must(acre_vec_grow(vec, LEAST, NULL) == ACRE_OK);
    put(device, acre_vec_data(vec), LEAST, 1);
    api_tell(API_PEER_OUT, 'a');
    die_after(microseconds);
    for (;;) {
        api_must(acre_share_vec(vec, at, NULL, &share) == ACRE_OK);
        for (int i = 0; i < 200; i++)
            change_at_random(&random, vec);
        if (random_draw(&random, 4) == 0)
            api_must(acre_share_close(share) == ACRE_OK);
        else
            for (;;)
                change_at_random(&random, vec);
    }
}

/* Refreshes until the owner is dead. Every call succeeds or returns ACRE_E_GONE. Returns 1 if the
 * import could be opened. */
static int import_until_gone(acre_device *device) {
    acre_import *import = NULL;
    acre_status status = acre_import_open(device, path, API_WAIT(200), &import);
    if (status) {
        api_expect(status, ACRE_E_GONE);
        assert_null(import);
        return 0;
    }
    do {
        status = acre_import_refresh(import, NULL);
        acre_import_info info = info_of(import);
        assert_true(info.bytes >= LEAST && info.bytes <= info.mapped_bytes);
        assert_true(has(device, info.data, LEAST, 1));
    } while (status == ACRE_OK);
    api_expect(status, ACRE_E_GONE);
    acre_import_info info = info_of(import);
    /* All of it is still mapped. */
    api_ok(acre_fill_sync(device, info.data, 0x5a, info.mapped_bytes));
    api_ok(acre_import_close(import, NULL));
    return 1;
}

TEST(death_of_owners_leaves_imports_good) {
    uint64_t random = random_seed("death of owners");
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_device_info before = {.struct_size = sizeof before}, after = before;
        size_t fds = 0;
        int opened = 0;
        for (int round = 0; round < rounds_of(name); round++) {
            char argument[32];
            draw_argument(&random, "owner", argument);
            new_path();
            struct api_peer peer = api_peer_start(argument, path, name);
            assert_int_equal(api_hear(peer.from), 'a');
            opened += import_until_gone(device);
            expect_killed(&peer);
            acre_device_stats stats = api_stats(device);
            assert_int_equal(stats.imports + stats.chunks + stats.limbo_count, 0);
            if (strcmp(name, "soft") != 0)
                continue;
            if (round == 0) {
                fds = open_fds();
                api_ok(acre_device_get_info(device, &before));
            }
            api_ok(acre_device_get_info(device, &after));
            assert_int_equal(open_fds(), fds);
            assert_int_equal(after.free_bytes, before.free_bytes);
        }
        print_message("%s: %d of %d imports were opened before the owner died\n", name, opened,
                      rounds_of(name));
        assert_true(opened > 0);
        end(device);
    }
}

int main(int argc, char **argv) {
    if (argc == 4 && strncmp(argv[1], "importer:", 9) == 0)
        return importer_that_dies(argv[1] + 9, argv[2], argv[3]);
    if (argc == 4 && strncmp(argv[1], "owner:", 6) == 0)
        return owner_that_dies(argv[1] + 6, argv[2], argv[3]);
    if (getenv("ACRE_TEST_MEMCHECK")) {
        print_message("skipped under compute-sanitizer, which does not survive killed processes\n");
        return 0;
    }
    return tests_run("share_death");
}
