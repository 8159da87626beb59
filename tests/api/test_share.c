/* Sharing, on every driver present: a vec or a block of one process in another process, and how the
 * import follows changes of the owner. Tests that do not need two processes import in the owner's
 * process. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "api_share.h"

/* ---- another process ---- */

/* Reads the owner's data, writes other data, then refreshes after the owner has grown the vec. */
static int peer_reads_and_writes(const char *at, const char *device_name) {
    acre_device *device;
    acre_import *import;
    acre_import_info info = {.struct_size = sizeof info};
    api_must(acre_open(device_name, NULL, &device) == ACRE_OK);
    api_must(acre_import_open(device, at, NULL, &import) == ACRE_OK);
    api_must(acre_import_get_info(import, &info) == ACRE_OK);
    api_must(info.device == device && info.data && info.is_read_only == 0);
    api_must(info.bytes == 3 * MIB && info.element_bytes == 4 && info.mapped_bytes == 4 * MIB);
    api_must(info.refreshed_bytes == 4 * MIB && info.owner_pid == (uint32_t)getppid());
    api_must(has(device, info.data, 3 * MIB, 1));
    put(device, info.data, 3 * MIB, 2);
    void *data = info.data;
    api_tell(API_PEER_OUT, 'w');
    api_must(api_hear(API_PEER_IN) == 'g');
    api_must(acre_import_refresh(import, NULL) == ACRE_OK);
    api_must(acre_import_get_info(import, &info) == ACRE_OK);
    api_must(info.data == data && info.bytes == 9 * MIB && info.mapped_bytes == 10 * MIB);
    api_must(info.refreshed_bytes == 6 * MIB);
    api_must(has(device, info.data, 9 * MIB, 3));
    api_must(acre_import_refresh(import, NULL) == ACRE_OK);
    api_must(acre_import_get_info(import, &info) == ACRE_OK);
    api_must(info.refreshed_bytes == 0);
    api_tell(API_PEER_OUT, 'r');
    api_must(api_hear(API_PEER_IN) == 'c'); /* the share is closed: the import stays mapped */
    api_must(acre_import_refresh(import, NULL) == ACRE_E_GONE);
    api_must(acre_import_refresh(import, NULL) == ACRE_E_GONE);
    api_must(has(device, info.data, 9 * MIB, 3));
    api_must(acre_import_close(import, NULL) == ACRE_OK);
    api_must(acre_close(device) == ACRE_OK);
    return 0;
}

TEST(share_vec_is_the_same_memory_in_another_process) {
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_share *share;
        acre_vec *vec = vec_make(device, 4, 0);
        api_ok(acre_vec_grow(vec, 3 * MIB / 4, NULL));
        put(device, acre_vec_data(vec), 3 * MIB, 1);
        api_ok(acre_share_vec(vec, new_path(), NULL, &share));
        assert_int_equal(api_stats(device).shares, 1);
        struct api_peer peer = api_peer_start("reads-and-writes", path, name);
        assert_int_equal(api_hear(peer.from), 'w');
        assert_true(has(device, acre_vec_data(vec), 3 * MIB, 2));
        api_ok(acre_vec_grow(vec, 6 * MIB / 4, NULL));
        put(device, acre_vec_data(vec), 9 * MIB, 3);
        api_tell(peer.to, 'g');
        assert_int_equal(api_hear(peer.from), 'r');
        api_expect(acre_vec_destroy(vec, NULL), ACRE_E_BUSY);
        api_ok(acre_share_close(share));
        api_ok(acre_vec_destroy(vec, NULL)); /* the import still holds the memory */
        api_tell(peer.to, 'c');
        api_peer_ok(&peer);
        end(device);
    }
}

/* A read-only import can be read; the driver refuses writes to it. */
static int peer_reads_only(const char *at, const char *device_name) {
    acre_device *device;
    acre_import *import;
    acre_import_info info = {.struct_size = sizeof info};
    api_must(acre_open(device_name, NULL, &device) == ACRE_OK);
    api_must(acre_import_open(device, at, NULL, &import) == ACRE_OK);
    api_must(acre_import_get_info(import, &info) == ACRE_OK);
    api_must(info.is_read_only == 1 && info.element_bytes == 1 && info.bytes == 5 * MIB + 3);
    api_must(has(device, info.data, 5 * MIB + 3, 1));
    api_must(acre_fill_sync(device, info.data, 9, 64) != ACRE_OK);
    /* Without acre_close: after the refused write a driver may report the device as lost. */
    return 0;
}

TEST(share_block_is_shared_read_only) {
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_share *share;
        void *p;
        acre_share_options options = {.struct_size = sizeof options, .flags = ACRE_SHARE_READ_ONLY};
        api_ok(acre_mem_alloc(device, ACRE_KIND_DEVICE, 5 * MIB + 3, 0, &p));
        put(device, p, 5 * MIB + 3, 1);
        api_ok(acre_share_mem(device, p, new_path(), &options, &share));
        struct api_peer peer = api_peer_start("reads-only", path, name);
        api_peer_ok(&peer);
        assert_true(has(device, p, 5 * MIB + 3, 1));
        void *moved = p;
        api_expect(acre_mem_free(device, p), ACRE_E_BUSY);
        api_expect(acre_mem_realloc(device, p, 64 * MIB, NULL, &moved), ACRE_E_BUSY);
        assert_null(moved);
        api_ok(acre_share_close(share));
        api_ok(acre_mem_free(device, p));
        end(device);
    }
}

/* ---- changes of the owner ---- */

TEST(share_shrunk_and_regrown_vec_is_followed) {
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_stream stream;
        acre_share *share;
        acre_import *import;
        acre_vec *vec = vec_make(device, 1, 0);
        api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &stream));
        for (int i = 0; i < 4; i++) /* four chunks of 2 MiB */
            api_ok(acre_vec_grow(vec, 2 * MIB, stream));
        put(device, acre_vec_data(vec), 8 * MIB, 1);
        api_ok(acre_share_vec(vec, new_path(), NULL, &share));
        api_ok(acre_import_open(device, path, NULL, &import));
        char *data = info_of(import).data;

        /* The vec shrinks. The refresh waits for work of the stream on the released chunks. */
        api_ok(acre_fill(device, data + 4 * MIB, 5, 4 * MIB, stream));
        api_ok(acre_vec_shrink(vec, 5 * MIB, stream));
        api_ok(acre_import_refresh(import, stream));
        acre_import_info info = info_of(import);
        assert_int_equal(info.bytes, 3 * MIB);
        assert_int_equal(info.mapped_bytes, 4 * MIB);
        assert_int_equal(info.refreshed_bytes, 0);
        assert_true(has(device, data, 3 * MIB, 1));
        unsigned char byte = 0;
        api_expect(acre_copy_sync(device, &byte, data + 4 * MIB - 1, 2), ACRE_E_RANGE);

        /* The vec shrinks and grows before the next refresh: other chunks at the same offsets. */
        api_ok(acre_vec_shrink(vec, 2 * MIB, stream));
        api_ok(acre_vec_grow(vec, 8 * MIB, stream));
        put(device, acre_vec_data(vec), 9 * MIB, 2);
        api_ok(acre_import_refresh(import, stream));
        info = info_of(import);
        assert_ptr_equal(info.data, data);
        assert_int_equal(info.bytes, 9 * MIB);
        assert_int_equal(info.mapped_bytes, acre_vec_mapped_bytes(vec));
        assert_int_equal(info.refreshed_bytes, info.mapped_bytes - 2 * MIB);
        assert_true(has(device, data, 9 * MIB, 2));

        /* The vec becomes empty. */
        api_ok(acre_vec_clear(vec));
        api_ok(acre_vec_shrink_to_fit(vec, stream));
        api_ok(acre_import_refresh(import, stream));
        assert_int_equal(info_of(import).mapped_bytes, 0);
        api_ok(acre_import_close(import, stream));
        api_ok(acre_share_close(share));
        api_ok(acre_vec_destroy(vec, stream));
        api_ok(acre_stream_destroy(device, stream));
        end(device);
    }
}

TEST(share_empty_vec_can_be_shared_and_grows) {
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_share *share;
        acre_import *import;
        acre_vec *vec = vec_make(device, 8, 0);
        api_ok(acre_share_vec(vec, new_path(), NULL, &share));
        api_ok(acre_import_open(device, path, NULL, &import));
        acre_import_info info = info_of(import);
        assert_int_equal(info.bytes + info.mapped_bytes + info.refreshed_bytes, 0);
        assert_int_equal(info.element_bytes, 8);
        api_ok(acre_vec_grow(vec, 1000, NULL));
        put(device, acre_vec_data(vec), 8000, 4);
        api_ok(acre_import_refresh(import, NULL));
        assert_ptr_equal(info_of(import).data, info.data);
        assert_true(has(device, info.data, 8000, 4));
        api_ok(acre_import_close(import, NULL));
        api_ok(acre_share_close(share));
        api_ok(acre_vec_destroy(vec, NULL));
        end(device);
    }
}

TEST(share_growth_past_the_reservation_moves_the_import) {
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_share *share;
        acre_import *import, *next;
        acre_vec *vec = vec_make(device, 1, 4 * MIB);
        api_ok(acre_vec_grow(vec, 4 * MIB, NULL));
        put(device, acre_vec_data(vec), 4 * MIB, 1);
        api_ok(acre_share_vec(vec, new_path(), NULL, &share));
        /* The second import takes the addresses behind the first, which then cannot grow in
         * place. */
        api_ok(acre_import_open(device, path, NULL, &import));
        api_ok(acre_import_open(device, path, NULL, &next));
        api_ok(acre_vec_grow(vec, 12 * MIB, NULL));
        assert_true(has(device, info_of(import).data, 4 * MIB, 1));
        api_ok(acre_import_refresh(import, NULL));
        api_ok(acre_import_refresh(next, NULL));
        put(device, acre_vec_data(vec), 16 * MIB, 2);
        acre_import *both[] = {import, next};
        for (int i = 0; i < 2; i++) {
            acre_import_info info = info_of(both[i]);
            assert_int_equal(info.bytes, 16 * MIB);
            assert_int_equal(info.mapped_bytes, 16 * MIB);
            assert_int_equal(info.refreshed_bytes, 12 * MIB);
            assert_true(has(device, info.data, 16 * MIB, 2));
            acre_mem_info known = {.struct_size = sizeof known};
            api_ok(acre_mem_query(device, (char *)info.data + 5, &known));
            assert_ptr_equal(known.base, info.data);
            assert_int_equal(known.bytes, 16 * MIB);
            api_ok(acre_import_close(both[i], NULL));
            api_ok(acre_mem_query(device, info.data, &known));
            assert_true(known.kind == ACRE_KIND_PAGEABLE || known.device != device);
        }
        api_ok(acre_share_close(share));
        api_ok(acre_vec_destroy(vec, NULL));
        end(device);
    }
}

/* Several threads open, refresh and close while the owner grows and shrinks. */
struct crowd {
    acre_device *device;
    const char *path;
    _Atomic int stop, wrong, done;
};

static void *crowd_member(void *argument) {
    struct crowd *crowd = argument;
    while (!atomic_load(&crowd->stop)) {
        acre_import *import;
        acre_import_info info = {.struct_size = sizeof info};
        int right = acre_import_open(crowd->device, crowd->path, NULL, &import) == ACRE_OK;
        for (int i = 0; right && i < 5; i++)
            right = acre_import_refresh(import, NULL) == ACRE_OK &&
                    acre_import_get_info(import, &info) == ACRE_OK &&
                    info.bytes <= info.mapped_bytes &&
                    has(crowd->device, info.data, info.mapped_bytes ? 256 : 0, 1);
        right = right && acre_import_close(import, NULL) == ACRE_OK;
        if (!right)
            fprintf(stderr, "crowd: %s\n", acre_last_detail());
        atomic_fetch_add(&crowd->wrong, !right);
        atomic_fetch_add(&crowd->done, 1);
    }
    return NULL;
}

TEST(share_many_importers_while_the_owner_changes) {
    for (API_EACH(name)) {
        struct crowd crowd = {.device = api_open(name)};
        acre_share *share;
        pthread_t threads[4];
        acre_vec *vec = vec_make(crowd.device, 1, 0);
        api_ok(acre_vec_grow(vec, 2 * MIB, NULL));
        put(crowd.device, acre_vec_data(vec), 2 * MIB, 1);
        crowd.path = new_path();
        api_ok(acre_share_vec(vec, path, NULL, &share));
        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, crowd_member, &crowd), 0);
        for (int i = 0; i < 60 || (atomic_load(&crowd.done) < 20 && i < 100000); i++) {
            api_ok(acre_vec_grow(vec, 2 * MIB, NULL));
            if (i % 3 == 2)
                api_ok(acre_vec_resize(vec, 2 * MIB, NULL));
        }
        atomic_store(&crowd.stop, 1);
        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(crowd.wrong, 0);
        api_ok(acre_share_close(share));
        api_ok(acre_vec_destroy(vec, NULL));
        end(crowd.device);
    }
}

/* ---- bare descriptors ---- */

TEST(share_export_fds_gives_every_chunk_once) {
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_vec *vec = vec_make(device, 1, 0);
        int fds[8];
        uint64_t bytes[8], sum = 0;
        size_t count = 7;
        api_ok(acre_vec_grow(vec, 2 * MIB, NULL));
        api_ok(acre_vec_grow(vec, 3 * MIB, NULL));
        acre_vec_info info = {.struct_size = sizeof info};
        api_ok(acre_vec_get_info(vec, &info));
        assert_true(info.chunks >= 2 && info.chunks <= 8);
        size_t before = open_fds();
        api_expect(acre_share_export_fds(device, info.data, 0, NULL, NULL, &count), ACRE_E_RANGE);
        assert_int_equal(count, info.chunks);
        api_expect(acre_share_export_fds(device, info.data, count - 1, fds, bytes, &count),
                   ACRE_E_RANGE);
        assert_int_equal(open_fds(), before);
        api_ok(acre_share_export_fds(device, info.data, 8, fds, bytes, &count));
        assert_int_equal(count, info.chunks);
        for (size_t i = 0; i < count; i++) {
            assert_true(fcntl(fds[i], F_GETFD) >= 0);
            sum += bytes[i];
        }
        assert_int_equal(sum, info.mapped_bytes);
        assert_true(open_fds() >= before + count); /* the driver may open more for itself */
        for (size_t i = 0; i < count; i++)
            assert_int_equal(close(fds[i]), 0);
        api_expect(acre_share_export_fds(device, info.data, 8, NULL, bytes, &count), ACRE_E_NULL);
        api_expect(acre_share_export_fds(device, info.data, 8, fds, NULL, &count), ACRE_E_NULL);
        api_expect(acre_share_export_fds(device, info.data, 8, fds, bytes, NULL), ACRE_E_NULL);
        api_ok(acre_vec_destroy(vec, NULL));
        if (strcmp(name, "soft") == 0)
            assert_int_equal(open_fds(), before);
        end(device);
    }
}

/* ---- closed devices, released memory ---- */

TEST(share_closed_device_ends_its_shares_and_imports) {
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_share *share;
        acre_import *import;
        void *p;
        char file[64];
        struct stat info;
        size_t before = open_fds();
        snprintf(file, sizeof file, "/tmp/acre-test-share-%ld", (long)getpid());
        api_ok(acre_mem_alloc(device, ACRE_KIND_DEVICE, 4 * MIB, 0, &p));
        api_ok(acre_share_mem(device, p, file, NULL, &share));
        api_ok(acre_import_open(device, file, NULL, &import));
        api_ok(acre_close(device));
        assert_int_equal(lstat(file, &info), -1);
        api_expect(acre_share_close(share), ACRE_E_HANDLE);
        api_expect(acre_import_refresh(import, NULL), ACRE_E_HANDLE);
        if (strcmp(name, "soft") == 0) /* the driver of a GPU keeps open files */
            assert_true(open_fds() <= before);
    }
}

/* acre does not cache shared chunks: exported memory is released when both sides close. */
TEST(share_exported_memory_goes_back) {
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        uint64_t before = 0;
        for (int round = 0; round < 3; round++) {
            acre_share *share;
            acre_import *import;
            acre_vec *vec = vec_make(device, 1, 0);
            api_ok(acre_vec_grow(vec, 32 * MIB, NULL));
            api_ok(acre_share_vec(vec, new_path(), NULL, &share));
            api_ok(acre_import_open(device, path, NULL, &import));
            api_ok(acre_share_close(share));
            api_ok(acre_vec_destroy(vec, NULL));
            api_ok(acre_import_close(import, NULL));
            assert_int_equal(api_stats(device).chunk_bytes, 0);
            if (round == 0)
                before = free_bytes(device);
            else if (strcmp(name, "soft") == 0)
                assert_int_equal(free_bytes(device), before);
        }
        end(device);
    }
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "reads-and-writes") == 0)
        return peer_reads_and_writes(argv[2], argv[3]);
    if (argc == 4 && strcmp(argv[1], "reads-only") == 0)
        return peer_reads_only(argv[2], argv[3]);
    return tests_run("share");
}
