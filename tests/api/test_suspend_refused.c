/* Suspends and resumes that are refused, on every device: misuse, work that does not end, memory
 * that others share, folders that do not exist, full disks and full cards. Afterwards everything is
 * where it was. */
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "acre_soft.h"
#include "api_peer.h"
#include "api_suspend.h"

/* ---- misuse ---- */

static acre_status refused(acre_device *device, const acre_suspend_options *options) {
    acre_suspended *suspended = (acre_suspended *)device;
    acre_status status = acre_suspend(device, options, &suspended);
    if (status)
        assert_null(suspended);
    else
        api_ok(acre_resume(suspended));
    return status;
}

API_TEST(suspend_with_wrong_options_is_refused) {
    acre_suspend_options options = suspend_options(ACRE_SUSPEND_KEEP, 0);
    acre_suspend_rule rule = RULE(.how = ACRE_SUSPEND_KEEP);
    acre_suspended *suspended = NULL;
    api_expect(acre_suspend(NULL, NULL, &suspended), ACRE_E_NULL);
    api_expect(acre_suspend(device, NULL, NULL), ACRE_E_NULL);
    options.how = (acre_suspend_how)4;
    api_expect(refused(device, &options), ACRE_E_INVALID);
    options = suspend_options(ACRE_SUSPEND_KEEP, 4);
    api_expect(refused(device, &options), ACRE_E_INVALID);
    options = suspend_options(ACRE_SUSPEND_KEEP, 0);
    options.struct_size = 1;
    api_expect(refused(device, &options), ACRE_E_OPTIONS);
    options = suspend_options(ACRE_SUSPEND_KEEP, 0);
    options.rule_count = 1;
    api_expect(refused(device, &options), ACRE_E_NULL);
    options.rules = &rule;
    rule.how = (acre_suspend_how)-1;
    api_expect(refused(device, &options), ACRE_E_INVALID);
    rule = RULE(.is_unchanged = 2);
    api_expect(refused(device, &options), ACRE_E_INVALID);
    rule = RULE(.how = ACRE_SUSPEND_KEEP);
    rule.struct_size = 3;
    api_expect(refused(device, &options), ACRE_E_OPTIONS);
    rule = RULE(.how = ACRE_SUSPEND_FILE);
    api_expect(refused(device, &options), ACRE_E_INVALID); /* without a folder */
    assert_non_null(strstr(acre_last_detail(), "folder"));
    options = suspend_options(ACRE_SUSPEND_FILE, 0);
    api_expect(refused(device, &options), ACRE_E_INVALID);
    options = suspend_options(ACRE_SUSPEND_KEEP, 0);
    options.timeout_ms = UINT64_MAX; /* forever */
    api_ok(refused(device, &options));
}

/* A program compiled with a later version of acre has larger rules. */
API_TEST(suspend_rules_of_another_size_are_read) {
    struct {
        acre_suspend_rule rule;
        uint64_t later;
    } rules[2] = {{RULE(.how = ACRE_SUSPEND_KEEP), 0}, {RULE(.how = ACRE_SUSPEND_DROP), 0}};
    acre_suspend_options options = suspend_options(ACRE_SUSPEND_STAY, 0);
    acre_vec *a = vec_of(device, 4 * MIB, 1), *b = vec_of(device, 4 * MIB, 2);
    rules[0].rule.struct_size = rules[1].rule.struct_size = sizeof rules[0];
    rules[0].rule.object = acre_vec_data(a);
    rules[1].rule.object = acre_vec_data(b);
    options.rules = &rules[0].rule;
    options.rule_count = 2;
    acre_suspended *suspended = suspend_with(device, &options);
    assert_int_equal(suspend_info(suspended).kept_bytes, 4 * MIB);
    assert_int_equal(suspend_info(suspended).dropped_bytes, 4 * MIB);
    api_ok(acre_resume(suspended));
    rules[1].later = 1;
    api_expect(refused(device, &options), ACRE_E_OPTIONS);
    assert_true(has(device, acre_vec_data(a), 4 * MIB, 1));
    api_ok(acre_vec_destroy(a, NULL));
    api_ok(acre_vec_destroy(b, NULL));
}

API_TEST(suspend_twice_and_resume_of_a_bad_handle_are_refused) {
    acre_vec *vec = vec_of(device, 4 * MIB, 1);
    acre_suspended *suspended = suspend_whole(device);
    acre_suspend_info info = {.struct_size = sizeof info};
    acre_suspend_options part = suspend_options(ACRE_SUSPEND_STAY, ACRE_SUSPEND_WAIT);
    api_expect(refused(device, NULL), ACRE_E_SUSPENDED);
    api_expect(refused(device, &part), ACRE_E_SUSPENDED);
    api_expect(acre_resume(NULL), ACRE_E_NULL);
    api_expect(acre_resume((acre_suspended *)device), ACRE_E_HANDLE);
    api_expect(acre_suspend_get_info(NULL, &info), ACRE_E_NULL);
    api_expect(acre_suspend_get_info((acre_suspended *)vec, &info), ACRE_E_HANDLE);
    api_expect(acre_suspend_get_info(suspended, NULL), ACRE_E_NULL);
    info.struct_size = 3;
    api_expect(acre_suspend_get_info(suspended, &info), ACRE_E_OPTIONS);
    api_expect(acre_suspend_read(NULL, acre_vec_data(vec), 1, &info), ACRE_E_NULL);
    api_expect(acre_suspend_read(suspended, acre_vec_data(vec), 1, NULL), ACRE_E_NULL);
    api_expect(acre_suspend_read(suspended, NULL, SIZE_MAX, &info), ACRE_E_POINTER);
    api_expect(acre_suspend_forget(NULL), ACRE_E_NULL);
    api_expect(acre_suspend_forget((acre_device *)vec), ACRE_E_HANDLE);
    api_ok(acre_resume(suspended));
    api_expect(acre_resume(suspended), ACRE_E_HANDLE);
    api_expect(acre_suspend_get_info(suspended, &info), ACRE_E_HANDLE);
    api_expect(acre_suspend_read(suspended, acre_vec_data(vec), 1, &info), ACRE_E_HANDLE);
    assert_true(has(device, acre_vec_data(vec), 4 * MIB, 1));
    api_ok(acre_vec_destroy(vec, NULL));
    expect_nothing_left(device);
}

/* A device of another device's address: each has its own suspends. */
TEST(suspend_of_one_device_leaves_the_other) {
    acre_device *devices[2];
    api_open_two(devices);
    acre_vec *a = vec_of(devices[0], 4 * MIB, 1), *b = vec_of(devices[1], 4 * MIB, 2);
    acre_suspend_options options = suspend_options(ACRE_SUSPEND_KEEP, ACRE_SUSPEND_WAIT);
    acre_suspended *first = suspend_with(devices[0], &options);
    assert_true(has(devices[1], acre_vec_data(b), 4 * MIB, 2));
    api_ok(acre_vec_grow(b, 4 * MIB, NULL));
    acre_suspended *second = suspend_whole(devices[1]);
    assert_int_equal(api_stats(devices[0]).suspended_bytes, 4 * MIB);
    assert_int_equal(api_stats(devices[1]).suspended_bytes, 8 * MIB);
    api_expect(acre_fill(devices[1], acre_vec_data(b), 1, 1, NULL), ACRE_E_SUSPENDED);
    api_expect(acre_vec_grow(b, 4 * MIB, NULL), ACRE_E_SUSPENDED);
    api_ok(acre_resume(second));
    assert_true(has(devices[1], acre_vec_data(b), 4 * MIB, 2));
    api_ok(acre_resume(first));
    assert_true(has(devices[0], acre_vec_data(a), 4 * MIB, 1));
    api_ok(acre_vec_destroy(a, NULL));
    api_ok(acre_vec_destroy(b, NULL));
    api_ok(acre_close(devices[0]));
    api_ok(acre_close(devices[1]));
}

/* ---- peers ---- */

/* A peer that had access has it again; it copies the memory itself. */
TEST(resume_restores_the_access_of_peers) {
    acre_device *devices[2];
    api_open_two(devices);
    acre_vec *vec = vec_of(devices[0], 4 * MIB, 1), *mine = vec_of(devices[1], 4 * MIB, 2);
    acre_suspend_options options = suspend_options(ACRE_SUSPEND_KEEP, 0);
    char *mem = mem_of(devices[0], 4 * MIB, 3);
    api_ok(acre_vec_set_access(vec, devices[1], ACRE_ACCESS_READ_WRITE));
    api_ok(acre_mem_set_access(devices[0], mem, devices[1], ACRE_ACCESS_READ));
    acre_suspended *suspended = suspend_with(devices[0], &options);
    api_expect(acre_vec_set_access(vec, devices[1], ACRE_ACCESS_NONE), ACRE_E_SUSPENDED);
    api_expect(acre_mem_set_access(devices[0], mem, devices[1], ACRE_ACCESS_NONE),
               ACRE_E_SUSPENDED);
    api_expect(acre_copy_sync(devices[1], acre_vec_data(mine), acre_vec_data(vec), MIB),
               ACRE_E_SUSPENDED);
    api_ok(acre_resume(suspended));
    for (int i = 0; i < 2; i++) {
        char *from = i ? mem : acre_vec_data(vec), *to = acre_vec_data(mine);
        unsigned char *words = words_make(from, 4 * MIB, i ? 3 : 1), *found = malloc(4 * MIB);
        api_ok(acre_copy_sync(devices[1], to, from, 4 * MIB));
        api_ok(acre_copy_sync(devices[1], found, to, 4 * MIB));
        assert_memory_equal(found, words, 4 * MIB);
        free(words);
        free(found);
    }
    api_ok(acre_fill_sync(devices[1], acre_vec_data(vec), 9, 64));
    api_ok(acre_vec_grow(vec, 4 * MIB, NULL)); /* the new part is accessible, too */
    api_ok(acre_fill_sync(devices[1], (char *)acre_vec_data(vec) + 6 * MIB, 9, 64));
    api_ok(acre_vec_destroy(vec, NULL));
    api_ok(acre_vec_destroy(mine, NULL));
    api_ok(acre_mem_free(devices[0], mem));
    api_ok(acre_close(devices[0]));
    api_ok(acre_close(devices[1]));
}

/* ---- sharing ---- */

API_TEST(suspend_of_shared_memory_is_refused_and_changes_nothing) {
    acre_vec_options shareable = {.struct_size = sizeof shareable, .flags = ACRE_VEC_SHAREABLE};
    acre_vec *vec, *other = vec_of(device, 4 * MIB, 2);
    acre_share *share;
    acre_import *import;
    char path[64];
    snprintf(path, sizeof path, "@acre-test-suspend-%ld", (long)getpid());
    api_ok(acre_vec_create(device, 1, &shareable, &vec));
    api_ok(acre_vec_grow(vec, 4 * MIB, NULL));
    put(device, acre_vec_data(vec), 4 * MIB, 1);
    api_ok(acre_share_vec(vec, path, NULL, &share));
    api_ok(acre_import_open(device, path, NULL, &import));
    api_expect(refused(device, NULL), ACRE_E_BUSY);
    assert_non_null(strstr(acre_last_detail(), "share"));
    assert_int_equal(api_stats(device).suspended_bytes, 0);
    assert_true(has(device, acre_vec_data(vec), 4 * MIB, 1));
    assert_true(has(device, acre_vec_data(other), 4 * MIB, 2));
    api_ok(acre_vec_grow(other, 4 * MIB, NULL));
    /* What is not shared can leave. */
    acre_suspended *suspended = suspend_part(device, RULE(.object = acre_vec_data(other)), 0);
    assert_true(has(device, acre_vec_data(vec), 4 * MIB, 1));
    api_ok(acre_resume(suspended));
    assert_true(has(device, acre_vec_data(other), 4 * MIB, 2));
    api_ok(acre_import_close(import, NULL));
    api_ok(acre_share_close(share));
    api_ok(acre_vec_destroy(vec, NULL));
    api_ok(acre_vec_destroy(other, NULL));
    api_ok(refused(device, NULL));
    expect_nothing_left(device);
}

/* A vec that is shared while it is suspended has nothing to show. */
API_TEST(suspended_vec_can_be_shared_and_imported_after_resume) {
    acre_vec_options shareable = {.struct_size = sizeof shareable, .flags = ACRE_VEC_SHAREABLE};
    acre_vec *vec;
    acre_share *share = NULL;
    acre_import *import = NULL;
    char path[64];
    snprintf(path, sizeof path, "@acre-test-suspended-%ld", (long)getpid());
    api_ok(acre_vec_create(device, 1, &shareable, &vec));
    api_ok(acre_vec_grow(vec, 4 * MIB, NULL));
    put(device, acre_vec_data(vec), 4 * MIB, 1);
    acre_suspended *suspended = suspend_whole(device);
    acre_status status = acre_share_vec(vec, path, NULL, &share);
    if (status == ACRE_OK)
        assert_int_not_equal(acre_import_open(device, path, NULL, &import), ACRE_OK);
    else
        api_expect(status, ACRE_E_SUSPENDED);
    api_ok(acre_resume(suspended));
    if (!share)
        api_ok(acre_share_vec(vec, path, NULL, &share));
    api_ok(acre_import_open(device, path, NULL, &import));
    acre_import_info info = {.struct_size = sizeof info};
    unsigned char found[64], *words = words_make(acre_vec_data(vec), 64, 1);
    api_ok(acre_import_get_info(import, &info));
    api_ok(acre_copy_sync(device, found, info.data, 64));
    assert_memory_equal(found, words, 64);
    free(words);
    api_ok(acre_import_close(import, NULL));
    api_ok(acre_share_close(share));
    api_ok(acre_vec_destroy(vec, NULL));
    expect_nothing_left(device);
}

/* ---- work that does not end ---- */

static void kernel_gate(void *argument) {
    struct gate *gate = argument;
    atomic_store(&gate->is_reached, 1);
    while (!atomic_load(&gate->is_open))
        acre_soft_yield();
    atomic_store(&gate->is_passed, 1);
}

TEST(suspend_refuses_while_work_does_not_end_and_everything_goes_on) {
    static const uint32_t one[3] = {1, 1, 1};
    acre_device *device = api_open("soft");
    acre_pool *pool = pool_make(device, 0);
    char *block = block_make(device, pool, 4 * MIB, 1);
    acre_suspend_options options = suspend_options(ACRE_SUSPEND_KEEP, 0);
    acre_stream stream;
    struct gate gate;
    options.timeout_ms = 20;
    api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &stream));
    for (int round = 0; round < 3; round++) {
        gate_close(&gate);
        api_ok(acre_soft_launch(device, stream, kernel_gate, one, one, 0, &gate));
        assert_true(becomes_true(&gate.is_reached));
        for (int i = 0; i < 3; i++) {
            api_expect(refused(device, &options), ACRE_E_BUSY);
            assert_non_null(strstr(acre_last_detail(), "20 ms"));
        }
        assert_int_equal(api_stats(device).suspended_bytes, 0);
        char *more = block_make(device, pool, 5000, 2); /* allocations and copies work */
        assert_true(has(device, more, 5000, 2) && has(device, block, 4 * MIB, 1));
        api_ok(acre_pool_free(pool, more, NULL));
        atomic_store(&gate.is_open, 1);
        options.timeout_ms = 0;
        api_ok(refused(device, &options));
        options.timeout_ms = 20;
        assert_int_equal(atomic_load(&gate.is_passed), 1);
        assert_true(has(device, block, 4 * MIB, 1));
    }
    gate_close(&gate); /* a wait that was given up is over before the device is closed */
    api_ok(acre_soft_launch(device, stream, kernel_gate, one, one, 0, &gate));
    api_expect(refused(device, &options), ACRE_E_BUSY);
    atomic_store(&gate.is_open, 1);
    api_ok(acre_stream_destroy(device, stream));
    api_ok(acre_pool_free(pool, block, NULL));
    api_ok(acre_pool_destroy(pool, NULL, NULL));
    api_ok(acre_close(device));
}

/* ---- a full card ---- */

/* A device of 64 MiB of which 40 leave. Others take what is free, so they cannot come back. */
TEST(resume_on_a_full_card_is_refused_and_may_be_repeated) {
    acre_open_options small = {
        .struct_size = sizeof small, .soft_bytes = 64 * MIB, .soft_devices = 1};
    acre_device *device;
    api_ok(acre_open("soft", &small, &device));
    acre_pool *pool = pool_make(device, 0);
    char *blocks[5];
    for (int i = 0; i < 5; i++)
        blocks[i] = block_make(device, pool, 8 * MIB, (uint64_t)i);
    acre_suspended *suspended = suspend_part(device, RULE(.pool = pool), 0);
    acre_vec *guest = vec_of(device, 50 * MIB, 9);
    for (int i = 0; i < 3; i++) {
        api_expect(acre_resume(suspended), ACRE_E_DEVICE_MEMORY);
        assert_non_null(strstr(acre_last_detail(), "bytes of device memory are missing"));
        assert_true(strtoull(strchr(acre_last_detail(), ':') + 1, NULL, 10) >= 26 * MIB);
        assert_int_equal(api_stats(device).suspended_bytes, suspend_info(suspended).released_bytes);
        assert_int_equal(api_stats(device).chunk_bytes, acre_vec_mapped_bytes(guest));
        api_expect(acre_fill(device, blocks[0], 1, 1, NULL), ACRE_E_SUSPENDED);
        assert_true(has(device, acre_vec_data(guest), 50 * MIB, 9));
    }
    api_ok(acre_pool_free(pool, blocks[4], NULL)); /* in between something is freed */
    api_ok(acre_vec_destroy(guest, NULL));
    api_ok(acre_resume(suspended));
    for (int i = 0; i < 4; i++) {
        assert_true(has(device, blocks[i], 8 * MIB, (uint64_t)i));
        api_ok(acre_pool_free(pool, blocks[i], NULL));
    }
    api_ok(acre_pool_destroy(pool, NULL, NULL));
    expect_nothing_left(device);
    api_ok(acre_close(device));
}

/* Idle memory of others is released for a resume. */
TEST(resume_takes_idle_memory_of_other_pools) {
    acre_open_options small = {
        .struct_size = sizeof small, .soft_bytes = 64 * MIB, .soft_devices = 1};
    acre_device *device;
    api_ok(acre_open("soft", &small, &device));
    acre_pool *pool = pool_make(device, 0), *other = pool_make(device, 0);
    char *block = block_make(device, pool, 40 * MIB, 1);
    acre_suspended *suspended = suspend_part(device, RULE(.pool = pool), 0);
    char *guest = block_make(device, other, 48 * MIB, 2);
    api_expect(acre_resume(suspended), ACRE_E_DEVICE_MEMORY);
    api_ok(acre_pool_free(other, guest, NULL)); /* the pool keeps the memory */
    api_ok(acre_resume(suspended));
    assert_true(has(device, block, 40 * MIB, 1));
    api_ok(acre_pool_free(pool, block, NULL));
    api_ok(acre_pool_destroy(pool, NULL, NULL));
    api_ok(acre_pool_destroy(other, NULL, NULL));
    api_ok(acre_close(device));
}

/* ---- files ---- */

struct filed {
    acre_device *device;
    acre_pool *pool;
    char *block, *small;
    acre_vec *vec;
};

static struct filed filed_make(acre_device *device) {
    struct filed f = {.device = device, .pool = pool_make(device, 0)};
    f.block = block_make(device, f.pool, 9 * MIB, 1);
    f.small = block_make(device, f.pool, 777, 2);
    f.vec = vec_of(device, 12 * MIB + 5, 3);
    return f;
}

static void filed_check(const struct filed *f) {
    assert_true(has(f->device, f->block, 9 * MIB, 1) && has(f->device, f->small, 777, 2));
    assert_true(has(f->device, acre_vec_data(f->vec), 12 * MIB + 5, 3));
}

static void filed_end(struct filed *f) {
    api_ok(acre_pool_free(f->pool, f->block, NULL));
    api_ok(acre_pool_free(f->pool, f->small, NULL));
    api_ok(acre_pool_destroy(f->pool, NULL, NULL));
    api_ok(acre_vec_destroy(f->vec, NULL));
    expect_nothing_left(f->device);
}

API_TEST(suspend_to_a_file_brings_contents_back_and_leaves_no_file) {
    char folder[] = "/tmp/acre-suspend-XXXXXX";
    assert_non_null(mkdtemp(folder));
    struct filed f = filed_make(device);
    acre_suspend_rule rule = RULE(.pool = f.pool, .how = ACRE_SUSPEND_KEEP);
    acre_suspend_options options = suspend_options(ACRE_SUSPEND_FILE, ACRE_SUSPEND_RETAIN);
    options.folder = folder;
    options.rules = &rule;
    for (int round = 0; round < 4; round++) {
        options.rule_count = round == 1;
        acre_suspended *suspended = suspend_with(device, &options);
        acre_suspend_info info = suspend_info(suspended);
        assert_true(info.file_bytes >= 12 * MIB);
        assert_int_equal(info.host_bytes > 0, round == 1);
        assert_true(info.file_bytes + info.host_bytes >= info.kept_bytes);
        assert_int_equal(info.copied_bytes, info.kept_bytes);
        assert_int_equal(rmdir(folder), 0); /* it is empty */
        assert_int_equal(mkdir(folder, 0700), 0);
        api_ok(acre_resume(suspended));
        filed_check(&f);
    }
    rule.is_unchanged = 1;
    rule.pool = NULL;
    rule.how = ACRE_SUSPEND_FILE;
    options.rule_count = 1;
    acre_suspended *suspended = suspend_with(device, &options);
    assert_int_equal(suspend_info(suspended).copied_bytes, 0);
    api_ok(acre_resume(suspended));
    filed_check(&f);
    filed_end(&f);
    assert_int_equal(rmdir(folder), 0);
}

API_TEST(suspend_to_a_file_that_cannot_be_written_is_refused_and_changes_nothing) {
    static const char *const folders[] = {"/nonexistent/folder", "/dev/null", "/proc", ""};
    struct filed f = filed_make(device);
    acre_suspend_options options = suspend_options(ACRE_SUSPEND_FILE, 0);
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        options.folder = folders[i];
        api_expect(refused(device, &options), ACRE_E_SYSTEM);
        assert_int_equal(api_stats(device).suspended_bytes, 0);
        filed_check(&f);
    }
    filed_end(&f);
}

/* A limit of the size of files stands for a full disk: both refuse to allocate blocks. */
API_TEST(suspend_to_a_file_on_a_full_disk_is_refused_and_changes_nothing) {
    struct filed f = filed_make(device);
    struct rlimit before, limit;
    acre_suspend_options options = suspend_options(ACRE_SUSPEND_FILE, 0);
    options.folder = "/tmp";
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = (struct rlimit){MIB, before.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    acre_status status = refused(device, &options);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, handler);
    api_expect(status, ACRE_E_SYSTEM);
    assert_non_null(strstr(acre_last_detail(), "/tmp"));
    assert_int_equal(api_stats(device).suspended_bytes, 0);
    filed_check(&f);
    api_ok(refused(device, &options)); /* there is room again */
    filed_check(&f);
    filed_end(&f);
}

/* Killed while it suspends and resumes all the time. */
static int killed(const char *folder, const char *name) {
    acre_device *device = api_open(name);
    acre_vec *vec = vec_of(device, 32 * MIB, 1);
    acre_suspend_options options = suspend_options(ACRE_SUSPEND_FILE, 0);
    options.folder = folder;
    api_tell(API_PEER_OUT, 'r');
    for (;;)
        if (acre_resume(suspend_with(device, &options)) != ACRE_OK || !vec)
            return 1;
}

TEST(suspend_to_a_file_killed_leaves_no_file) {
    char folder[] = "/tmp/acre-suspend-XXXXXX";
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < 4; i++) {
        const struct timespec nap = {0, 3000000L * (1 + 3 * i)};
        struct api_peer peer = api_peer_start("killed", folder, "soft");
        assert_int_equal(api_hear(peer.from), 'r');
        nanosleep(&nap, NULL);
        assert_int_equal(kill(peer.pid, SIGKILL), 0);
        int code = api_peer_end(&peer);
        assert_true(WIFSIGNALED(code) && WTERMSIG(code) == SIGKILL);
    }
    assert_int_equal(rmdir(folder), 0);
}

int main(int argc, char **argv) {
    if (argc > 3 && strcmp(argv[1], "killed") == 0)
        return killed(argv[2], argv[3]);
    return tests_run("suspend_refused");
}
