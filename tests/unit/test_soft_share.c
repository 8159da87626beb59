/* Chunks of the soft driver as file descriptors: export while work runs, import in this process and
 * in another one, and descriptors that are not chunks. The other process is a second run of this
 * program with "import" and the number of a socket. */
#include "soft_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

static int export_fd(CUmemGenericAllocationHandle chunk) {
    int fd = -1;
    assert_ok(
        drv->cuMemExportToShareableHandle(&fd, chunk, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    assert_true(fd >= 0);
    return fd;
}

static CUresult import_fd(CUmemGenericAllocationHandle *chunk, int fd) {
    return drv->cuMemImportFromShareableHandle(chunk, (void *)(intptr_t)fd,
                                               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}

static size_t blocks_of(int fd) {
    struct stat info;
    assert_int_equal(fstat(fd, &info), 0);
    return (size_t)info.st_blocks * 512;
}

/* ---- export ---- */

SOFT_TEST(share_exported_chunk_keeps_bytes) {
    CUmemGenericAllocationHandle chunk = soft_chunk(4 * CHUNK, 0);
    CUdeviceptr at = soft_map(chunk, 4 * CHUNK, 0);
    assert_ok(drv->cuMemsetD8(at + CHUNK, 0x31, CHUNK)); /* the rest was never written */
    assert_ok(drv->cuCtxSynchronize());
    assert_int_equal(blocks_of(acre__soft.devices[0].fd), CHUNK);
    int fd = export_fd(chunk);
    assert_int_equal(blocks_of(acre__soft.devices[0].fd), 0); /* moved, not copied */
    assert_int_equal(blocks_of(fd), CHUNK);                   /* still sparse */
    assert_int_equal(soft_used_bytes(0), 4 * CHUNK);
    assert_true(soft_is_filled(at, CHUNK, 0));
    assert_true(soft_is_filled(at + CHUNK, CHUNK, 0x31));
    assert_true(soft_is_filled(at + 2 * CHUNK, 2 * CHUNK, 0));
    assert_true(soft_faults(at, 0));
    int again = export_fd(chunk);
    struct stat one, two;
    assert_int_equal(fstat(fd, &one) | fstat(again, &two), 0);
    assert_int_equal(one.st_ino, two.st_ino);
    close(fd);
    close(again);
    assert_ok(drv->cuMemUnmap(at, 4 * CHUNK));
    assert_ok(drv->cuMemRelease(chunk));
    assert_int_equal(soft_used_bytes(0), 0);
}

SOFT_TEST(share_export_that_was_not_asked_for_is_refused) {
    CUmemAllocationProp prop = soft_prop(0);
    CUmemGenericAllocationHandle chunk;
    int fd = -7;
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    assert_ok(drv->cuMemCreate(&chunk, CHUNK, &prop, 0));
    assert_refused(
        drv->cuMemExportToShareableHandle(&fd, chunk, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    chunk = soft_chunk(CHUNK, 0);
    assert_refused(drv->cuMemExportToShareableHandle(&fd, chunk, CU_MEM_HANDLE_TYPE_FABRIC, 0));
    assert_refused(drv->cuMemExportToShareableHandle(NULL, chunk,
                                                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    assert_refused(drv->cuMemExportToShareableHandle(&fd, chunk + 12345,
                                                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    assert_int_equal(fd, -7);
}

/* Two streams fill the chunks repeatedly, with one value per pass, and read them back while another
 * thread exports the chunks one by one. A move in the middle of a pass would leave old bytes. */
enum { MOVED = 12, WRITERS = 2, PASSES_AFTER = 3 };

struct writer {
    CUdeviceptr at;
    _Atomic int *exports_over;
    const char *wrong; /* description of a failure; NULL: none */
};

static void *write_and_read(void *argument) {
    struct writer *w = argument;
    CUstream stream = NULL;
    unsigned char *seen = malloc(CHUNK);
    if (!seen || drv->cuCtxPushCurrent(soft_ctx[0]) ||
        drv->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING))
        w->wrong = "the first driver calls failed";
    int left = PASSES_AFTER;
    for (unsigned pass = 1; left && !w->wrong; pass++) {
        left -= atomic_load(w->exports_over);
        unsigned char value = (unsigned char)pass;
        for (size_t i = 0; i < MOVED / WRITERS && !w->wrong; i++) {
            CUdeviceptr at = w->at + i * CHUNK;
            if (drv->cuMemsetD8Async(at, value, CHUNK, stream) ||
                drv->cuMemcpyDtoHAsync(seen, at, CHUNK, stream))
                w->wrong = "a fill or copy failed";
            for (size_t k = 0; k < CHUNK && !w->wrong; k++)
                if (seen[k] != value)
                    w->wrong = "a chunk holds bytes of two passes";
        }
    }
    free(seen);
    return NULL;
}

SOFT_TEST(share_export_under_running_work_tears_nothing) {
    CUmemGenericAllocationHandle chunks[MOVED];
    struct writer writers[WRITERS];
    pthread_t threads[WRITERS];
    _Atomic int exports_over = 0;
    CUdeviceptr range = soft_reserve(MOVED * CHUNK);
    for (size_t i = 0; i < MOVED; i++) {
        chunks[i] = soft_chunk(CHUNK, 0);
        soft_map_at(range + i * CHUNK, chunks[i], CHUNK, 0);
    }
    for (size_t i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){range + i * (MOVED / WRITERS) * CHUNK, &exports_over, NULL};
        assert_int_equal(pthread_create(&threads[i], NULL, write_and_read, &writers[i]), 0);
    }
    int fds[MOVED];
    for (size_t i = 0; i < MOVED; i++) {
        sleep_ms(3);
        fds[i] = export_fd(chunks[i]);
    }
    atomic_store(&exports_over, 1);
    for (size_t i = 0; i < WRITERS; i++) {
        pthread_join(threads[i], NULL);
        assert_null(writers[i].wrong);
    }
    for (size_t i = 0; i < MOVED; i++)
        close(fds[i]);
    assert_int_equal(blocks_of(acre__soft.devices[0].fd), 0);
}

struct exporter {
    CUmemGenericAllocationHandle chunk;
    int fd;
};

static void *export_in_thread(void *argument) {
    struct exporter *e = argument;
    if (drv->cuMemExportToShareableHandle(&e->fd, e->chunk,
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0))
        e->fd = -1;
    return NULL;
}

SOFT_TEST(share_chunk_exported_by_many_threads_is_one_file) {
    enum { EXPORTERS = 4 };
    struct exporter exporters[EXPORTERS];
    pthread_t threads[EXPORTERS];
    CUmemGenericAllocationHandle chunk = soft_chunk(CHUNK, 0);
    CUdeviceptr at = soft_map(chunk, CHUNK, 0);
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 20; i++)
        assert_ok(drv->cuMemsetD8Async(at, (unsigned char)i, CHUNK, stream));
    for (int i = 0; i < EXPORTERS; i++) {
        exporters[i] = (struct exporter){chunk, -1};
        assert_int_equal(pthread_create(&threads[i], NULL, export_in_thread, &exporters[i]), 0);
    }
    struct stat first = {0}, info;
    for (int i = 0; i < EXPORTERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(fstat(exporters[i].fd, i ? &info : &first), 0);
        assert_int_equal(i ? info.st_ino : first.st_ino, first.st_ino);
        close(exporters[i].fd);
    }
    assert_ok(drv->cuStreamSynchronize(stream));
    assert_true(soft_is_filled(at, CHUNK, 19));
}

/* ---- import in this process ---- */

SOFT_TEST(share_import_in_same_process_is_the_same_chunk) {
    CUmemGenericAllocationHandle chunk = soft_chunk(CHUNK, 0), import = 0;
    CUdeviceptr at = soft_map(chunk, CHUNK, 0);
    assert_ok(drv->cuMemsetD8(at, 9, CHUNK));
    int fd = export_fd(chunk);
    assert_ok(import_fd(&import, fd));
    close(fd);
    CUdeviceptr other = soft_map(import, CHUNK, 0);
    assert_true(soft_is_filled(other, CHUNK, 9));
    assert_ok(drv->cuMemsetD8(other, 10, CHUNK));
    assert_true(soft_is_filled(at, CHUNK, 10));
    unsigned long long one = 0, two = 1;
    assert_ok(drv->cuPointerGetAttribute(&one, CU_POINTER_ATTRIBUTE_BUFFER_ID, at));
    assert_ok(drv->cuPointerGetAttribute(&two, CU_POINTER_ATTRIBUTE_BUFFER_ID, other));
    assert_int_equal(one, two);
    assert_int_equal(soft_used_bytes(0), CHUNK); /* charged once */
    assert_ok(drv->cuMemRelease(chunk));
    assert_ok(drv->cuMemUnmap(at, CHUNK));
    assert_true(soft_is_filled(other, CHUNK, 10));
    assert_ok(drv->cuMemRelease(import));
    assert_ok(drv->cuMemUnmap(other, CHUNK));
    assert_int_equal(soft_used_bytes(0), 0);
}

/* Both handles share the chunk's vector clocks: a race between them is reported. */
SOFT_TEST_BARE(share_import_in_same_process_shares_clocks) {
    struct acre__soft_config config = soft_config(64 * MIB, 1);
    config.check = 1;
    soft_begin_with(&config);
    CUmemGenericAllocationHandle chunk = soft_chunk(CHUNK, 0), import = 0;
    CUdeviceptr at = soft_map(chunk, CHUNK, 0);
    int fd = export_fd(chunk);
    assert_ok(import_fd(&import, fd));
    close(fd);
    CUdeviceptr other = soft_map(import, CHUNK, 0);
    CUstream one = soft_stream(CU_STREAM_NON_BLOCKING), two = soft_stream(CU_STREAM_NON_BLOCKING);
    assert_ok(drv->cuMemsetD8Async(at, 1, 64, one));
    assert_ok(drv->cuMemsetD8Async(other, 2, 64, two));
    drv->cuCtxSynchronize();
    assert_true(soft_eventually(acre__soft_reports(NULL, 0) == 1));
}

SOFT_TEST(share_descriptor_outlives_its_chunk) {
    CUmemGenericAllocationHandle chunk = soft_chunk(CHUNK, 0), import = 0;
    CUdeviceptr at = soft_map(chunk, CHUNK, 0);
    assert_ok(drv->cuMemsetD8(at, 0x66, CHUNK));
    assert_ok(drv->cuCtxSynchronize());
    int fd = export_fd(chunk);
    assert_ok(drv->cuMemUnmap(at, CHUNK));
    assert_ok(drv->cuMemRelease(chunk));
    assert_int_equal(soft_used_bytes(0), 0);
    assert_ok(import_fd(&import, fd));
    close(fd);
    soft_map_at(at, import, CHUNK, 0);
    assert_true(soft_is_filled(at, CHUNK, 0x66));
    assert_int_equal(soft_used_bytes(0), 0); /* it no longer counts as memory of this device */
    assert_ok(drv->cuMemUnmap(at, CHUNK));
    assert_ok(drv->cuMemRelease(import));
    assert_int_equal(acre__soft.files.count, 0);
}

/* ---- descriptors that are not chunks ---- */

static int memfd(const char *name, size_t bytes, int seals) {
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

SOFT_TEST(share_junk_descriptor_is_refused) {
    const char *name = "acre-soft-chunk-d0";
    const int sealed = F_SEAL_SHRINK | F_SEAL_GROW;
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    int closed = dup(ends[0]);
    close(closed);
    const int junk[] = {
        -1,
        closed,
        ends[0],
        open("/dev/null", O_RDWR | O_CLOEXEC),
        open("/proc/self/exe", O_RDONLY | O_CLOEXEC),
        memfd(name, CHUNK, 0),             /* size can change */
        memfd(name, CHUNK, F_SEAL_GROW),   /* can shrink */
        memfd(name, CHUNK, F_SEAL_SHRINK), /* can grow */
        memfd(name, CHUNK - 4096, sealed),
        memfd(name, 0, sealed),
        memfd("something-else", CHUNK, sealed),
        memfd("acre-soft-chunk-x0", CHUNK, sealed),
        memfd("acre-soft-chunk-", CHUNK, sealed),
        memfd("acre-soft-device", CHUNK, sealed),
    };
    for (size_t i = 0; i < sizeof junk / sizeof *junk; i++) {
        CUmemGenericAllocationHandle handle = 3;
        assert_refused(import_fd(&handle, junk[i]));
        assert_int_equal(handle, 3);
        if (junk[i] >= 0 && junk[i] != closed)
            close(junk[i]);
    }
    close(ends[1]);
    /* A chunk of a device that does not exist here is accepted as a chunk of device 0. */
    int fd = memfd("acre-soft-chunk-d15", CHUNK, sealed);
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop;
    assert_ok(import_fd(&handle, fd));
    close(fd);
    assert_ok(drv->cuMemGetAllocationPropertiesFromHandle(&prop, handle));
    assert_int_equal(prop.location.id, 0);
}

/* ---- another process ---- */

static int send_fds(int socket, const int *fds, size_t count) {
    char byte = 1;
    struct iovec data = {&byte, 1};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(4 * sizeof(int))];
    } control = {.bytes = {0}};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(header), fds, count * sizeof(int));
    return sendmsg(socket, &message, 0) == 1;
}

static int receive_fds(int socket, int *fds, size_t count) {
    char byte;
    struct iovec data = {&byte, 1};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(4 * sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    if (recvmsg(socket, &message, 0) != 1)
        return 0;
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (!header || header->cmsg_len != CMSG_LEN(count * sizeof(int)))
        return 0;
    memcpy(fds, CMSG_DATA(header), count * sizeof(int));
    return 1;
}

#define CHILD_OK(condition)                                                                        \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "importing process, line %d: %s failed\n", __LINE__, #condition);      \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

/* The importing process: it fills a device chunk of 0x12 with 0x34, opens a host chunk of 0x56 for
 * the host and writes one byte to it. */
static int importer_main(int socket) {
    struct acre__soft_config config = soft_config(64 * MIB, 1);
    int fds[2];
    CUmemGenericAllocationHandle device_chunk, host_chunk;
    CUmemAccessDesc access[2] = {
        {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
        {{CU_MEM_LOCATION_TYPE_HOST_NUMA, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
    CUdeviceptr at = 0;
    drv = acre__driver_soft();
    CHILD_OK(acre__soft_configure(&config) == ACRE_OK && !drv->cuInit(0));
    CHILD_OK(!drv->cuDevicePrimaryCtxRetain(&soft_ctx[0], 0) &&
             !drv->cuCtxPushCurrent(soft_ctx[0]));
    CHILD_OK(receive_fds(socket, fds, 2));
    CHILD_OK(!import_fd(&device_chunk, fds[0]) && !import_fd(&host_chunk, fds[1]));
    CHILD_OK(!close(fds[0]) && !close(fds[1]));
    CHILD_OK(!drv->cuMemAddressReserve(&at, 3 * CHUNK, 0, 0, 0));
    CHILD_OK(drv->cuMemMap(at, CHUNK, 0, device_chunk, 0)); /* the chunk has two units */
    CHILD_OK(!drv->cuMemMap(at, 2 * CHUNK, 0, device_chunk, 0));
    CHILD_OK(!drv->cuMemMap(at + 2 * CHUNK, CHUNK, 0, host_chunk, 0));
    /* Device memory cannot be opened for the host. */
    CHILD_OK(drv->cuMemSetAccess(at, 2 * CHUNK, &access[1], 1));
    CHILD_OK(!drv->cuMemSetAccess(at, 2 * CHUNK, &access[0], 1));
    CHILD_OK(!drv->cuMemSetAccess(at + 2 * CHUNK, CHUNK, access, 2));
    CHILD_OK(soft_is_filled(at, 2 * CHUNK, 0x12));
    CHILD_OK(soft_is_filled(at + 2 * CHUNK, CHUNK, 0x56));
    unsigned char *host = (unsigned char *)(uintptr_t)(at + 2 * CHUNK);
    CHILD_OK(host[CHUNK - 1] == 0x56);
    host[0] = 0x78;
    CHILD_OK(!drv->cuMemsetD8(at, 0x34, 2 * CHUNK) && !drv->cuCtxSynchronize());
    size_t room = 0;
    /* The memory is charged to the exporter. */
    CHILD_OK(!drv->cuMemGetInfo(&room, NULL) && room == 64 * MIB);
    CHILD_OK(!drv->cuMemUnmap(at, 3 * CHUNK) && !drv->cuMemAddressFree(at, 3 * CHUNK));
    CHILD_OK(!drv->cuMemRelease(device_chunk) && !drv->cuMemRelease(host_chunk));
    CHILD_OK(!drv->cuDevicePrimaryCtxRelease(0));
    acre__soft_reset();
    return 0;
}

static pid_t importer_start(int socket) {
    char number[16];
    snprintf(number, sizeof number, "%d", socket);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        fcntl(socket, F_SETFD, 0);
        execl("/proc/self/exe", "test_soft_share", "import", number, (char *)NULL);
        _exit(126);
    }
    return pid;
}

SOFT_TEST(share_other_program_reads_and_writes) {
    CUmemAllocationProp prop = soft_prop(0);
    prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    CUmemGenericAllocationHandle device_chunk = soft_chunk(2 * CHUNK, 0), host_chunk;
    assert_ok(drv->cuMemCreate(&host_chunk, CHUNK, &prop, 0));
    CUdeviceptr at = soft_map(device_chunk, 2 * CHUNK, 0), host_at = soft_map(host_chunk, CHUNK, 0);
    assert_ok(drv->cuMemsetD8(at, 0x12, 2 * CHUNK));
    assert_ok(drv->cuMemsetD8(host_at, 0x56, CHUNK));
    assert_ok(drv->cuCtxSynchronize());
    int sockets[2], fds[2] = {export_fd(device_chunk), export_fd(host_chunk)};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    pid_t pid = importer_start(sockets[1]);
    assert_true(pid > 0);
    close(sockets[1]);
    assert_true(send_fds(sockets[0], fds, 2));
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_true(soft_is_filled(at, 2 * CHUNK, 0x34));
    assert_true(soft_is_filled(host_at, 1, 0x78));
    assert_true(soft_is_filled(host_at + 1, CHUNK - 1, 0x56));
    close(sockets[0]);
    close(fds[0]);
    close(fds[1]);
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "import"))
        return importer_main(atoi(argv[2]));
    return tests_run("soft_share");
}
