/*
 * Conformance: chunks as file descriptors, in the same process and in another one.
 *
 * The other process is this program started again with --import and one end of a socket pair. The
 * descriptor is sent over the socket with SCM_RIGHTS, and the results of that process come back as
 * text.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conf_run.h"
#include "conformance.h"

extern char **environ;

enum { SHARE_FIRST = 1001, SHARE_SECOND = 2002 }; /* written by the owner, by the importer */

static const CUmemAllocationHandleType share_fd_type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

/* Creates a chunk that can be exported, mapped with access at *base. */
static int share_make(CUmemGenericAllocationHandle *handle, CUdeviceptr *base) {
    CUmemAllocationProp prop = conf_prop();

    prop.requestedHandleTypes = share_fd_type;
    if (conf_need("create", conf.drv->cuMemCreate(handle, conf.chunk_bytes, &prop, 0)) != 0 ||
        conf_need("reserve", conf.drv->cuMemAddressReserve(base, conf.chunk_bytes, 0, 0, 0)) != 0 ||
        conf_need("map", conf.drv->cuMemMap(*base, conf.chunk_bytes, 0, *handle, 0)) != 0)
        return -1;
    return conf_need("access",
                     conf_allow(*base, conf.chunk_bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
}

static void share_drop(CUmemGenericAllocationHandle handle, CUdeviceptr base) {
    conf_need("unmap", conf.drv->cuMemUnmap(base, conf.chunk_bytes));
    conf_need("release", conf.drv->cuMemRelease(handle));
    conf_need("address-free", conf.drv->cuMemAddressFree(base, conf.chunk_bytes));
}

static CUresult share_import(CUmemGenericAllocationHandle *handle, int fd) {
    return conf.drv->cuMemImportFromShareableHandle(handle, (void *)(intptr_t)fd, share_fd_type);
}

static void share_export(void) {
    CUmemGenericAllocationHandle handle = 0, plain = 0;
    CUmemAllocationProp prop = conf_prop();
    CUdeviceptr base = 0;
    CUmemFabricHandle fabric;
    int fd = -1, second = -1;

    if (share_make(&handle, &base) != 0 ||
        conf_need("create", conf.drv->cuMemCreate(&plain, conf.chunk_bytes, &prop, 0)) != 0)
        return;
    conf_code("export", conf.drv->cuMemExportToShareableHandle(&fd, handle, share_fd_type, 0));
    conf_fact("is-fd", fd >= 0 && fcntl(fd, F_GETFD) >= 0);
    conf_fact("closes-on-exec", fd >= 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    conf_code("again", conf.drv->cuMemExportToShareableHandle(&second, handle, share_fd_type, 0));
    conf_fact("another-fd", second >= 0 && second != fd);
    conf_code("flags", conf.drv->cuMemExportToShareableHandle(&(int){0}, handle, share_fd_type, 1));
    conf_code("not-asked-for",
              conf.drv->cuMemExportToShareableHandle(&(int){0}, plain, share_fd_type, 0));
    conf_code("as-fabric", conf.drv->cuMemExportToShareableHandle(&fabric, handle,
                                                                  CU_MEM_HANDLE_TYPE_FABRIC, 0));
    conf_code("as-nothing", conf.drv->cuMemExportToShareableHandle(&(int){0}, handle,
                                                                   CU_MEM_HANDLE_TYPE_NONE, 0));
    conf_code("null", conf.drv->cuMemExportToShareableHandle(NULL, handle, share_fd_type, 0));
    if (fd >= 0)
        close(fd);
    if (second >= 0)
        close(second);
    conf_need("release", conf.drv->cuMemRelease(plain));
    share_drop(handle, base);
}

/* Imported in the same process: another handle for the same memory. */
static void share_import_here(void) {
    CUmemGenericAllocationHandle handle = 0, imported = 0;
    CUmemAllocationProp prop;
    CUdeviceptr base = 0, second = 0;
    int fd = -1;

    if (share_make(&handle, &base) != 0)
        return;
    conf_need("write", conf_poke(base, SHARE_FIRST));
    conf_need("export", conf.drv->cuMemExportToShareableHandle(&fd, handle, share_fd_type, 0));
    conf_code("import", share_import(&imported, fd));
    conf_fact("same-handle", imported == handle);
    close(fd);
    conf_need("reserve", conf.drv->cuMemAddressReserve(&second, conf.chunk_bytes, 0, 0, 0));
    conf_code("map", conf.drv->cuMemMap(second, conf.chunk_bytes, 0, imported, 0));
    conf_code("access", conf_allow(second, conf.chunk_bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    conf_fact("read", conf_peek(second));
    conf_code("write", conf_poke(second, SHARE_SECOND));
    conf_fact("read-first", conf_peek(base));
    memset(&prop, 0, sizeof prop);
    conf_code("properties", conf.drv->cuMemGetAllocationPropertiesFromHandle(&prop, imported));
    conf_fact("handle-types", prop.requestedHandleTypes);
    conf_fact("location", prop.location.type);
    fd = -1;
    conf_code("export-imported",
              conf.drv->cuMemExportToShareableHandle(&fd, imported, share_fd_type, 0));
    if (fd >= 0)
        close(fd);
    share_drop(imported, second);
    conf_fact("still-there", conf_peek(base));
    share_drop(handle, base);
}

/* The descriptor keeps the memory alive without any handle or mapping. */
static void share_fd_outlives_handle(void) {
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr base = 0;
    int fd = -1;

    if (share_make(&handle, &base) != 0)
        return;
    conf_need("write", conf_poke(base, SHARE_FIRST));
    conf_need("export", conf.drv->cuMemExportToShareableHandle(&fd, handle, share_fd_type, 0));
    share_drop(handle, base);
    conf_code("import", share_import(&handle, fd));
    close(fd);
    conf_need("reserve", conf.drv->cuMemAddressReserve(&base, conf.chunk_bytes, 0, 0, 0));
    conf_code("map", conf.drv->cuMemMap(base, conf.chunk_bytes, 0, handle, 0));
    conf_code("access", conf_allow(base, conf.chunk_bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    conf_fact("read", conf_peek(base));
    share_drop(handle, base);
}

static void share_import_junk(void) {
    CUmemGenericAllocationHandle handle = 0;
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    int memory_fd = memfd_create("junk", MFD_CLOEXEC);

    if (null_fd < 0 || memory_fd < 0 || ftruncate(memory_fd, (off_t)conf.chunk_bytes) != 0)
        conf_word("setup-files", strerror(errno));
    conf_code("minus-one", share_import(&handle, -1));
    conf_code("dev-null", share_import(&handle, null_fd));
    conf_code("memory-file", share_import(&handle, memory_fd));
    conf_code("as-nothing", conf.drv->cuMemImportFromShareableHandle(
                                &handle, (void *)(intptr_t)null_fd, CU_MEM_HANDLE_TYPE_NONE));
    conf_code("no-output", conf.drv->cuMemImportFromShareableHandle(NULL, (void *)(intptr_t)null_fd,
                                                                    share_fd_type));
    if (null_fd >= 0)
        close(null_fd);
    if (memory_fd >= 0)
        close(memory_fd);
}

/* Host chunks are shared in the same way. */
static void share_host_chunk(void) {
    CUmemGenericAllocationHandle handle = 0, imported = 0;
    CUmemAllocationProp prop = conf_prop_host();
    int fd = -1;

    prop.requestedHandleTypes = share_fd_type;
    if (conf_code("create", conf.drv->cuMemCreate(&handle, conf.chunk_bytes, &prop, 0)) !=
        CUDA_SUCCESS)
        return;
    if (conf_code("export", conf.drv->cuMemExportToShareableHandle(&fd, handle, share_fd_type,
                                                                   0)) == CUDA_SUCCESS) {
        if (conf_code("import", share_import(&imported, fd)) == CUDA_SUCCESS)
            conf_code("release", conf.drv->cuMemRelease(imported));
        close(fd);
    }
    conf_need("release", conf.drv->cuMemRelease(handle));
}

/* ---- with another process -------------------------------------------------------------------- */

/* Sends a message with a descriptor. Returns 0 on success. */
static int share_send(int socket_fd, int fd, const void *data, size_t bytes) {
    char space[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec part = {(void *)(uintptr_t)data, bytes};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    return sendmsg(socket_fd, &message, MSG_NOSIGNAL) == (ssize_t)bytes ? 0 : -1;
}

static int share_receive(int socket_fd, char *data, size_t bytes) {
    char space[CMSG_SPACE(sizeof(int))];
    struct iovec part = {data, bytes};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *header;
    int fd = -1;

    if (recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC) < 1)
        return -1;
    header = CMSG_FIRSTHDR(&message);
    if (header != NULL && header->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(header), sizeof fd);
    return fd;
}

/* Runs in the importing process: reads, writes, then reduces access and writes again. */
static void share_use_elsewhere(int fd) {
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr base = 0;

    conf_code("there-import", share_import(&handle, fd));
    close(fd);
    if (conf_need("there-reserve",
                  conf.drv->cuMemAddressReserve(&base, conf.chunk_bytes, 0, 0, 0)) != 0)
        return;
    conf_code("there-map", conf.drv->cuMemMap(base, conf.chunk_bytes, 0, handle, 0));
    conf_code("there-access",
              conf_allow(base, conf.chunk_bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    conf_fact("there-read", conf_peek(base));
    conf_code("there-write", conf_poke(base + 4096, SHARE_SECOND));
    if (conf_code("there-read-only", conf_allow(base, conf.chunk_bytes,
                                                CU_MEM_ACCESS_FLAGS_PROT_READ)) == CUDA_SUCCESS)
        conf_code("there-write-read-only", conf_poke(base + 8192, SHARE_SECOND));
    share_drop(handle, base);
}

int conf_share_child(int socket_fd) {
    CUmemPoolPtrExportData pointer;
    CUmemAllocationProp prop;
    char data[CONF_SHARE_BYTES] = "";
    int fd;

    conf_line_begin();
    if (conf_need("there-init", conf.drv->cuInit(0)) == 0 &&
        conf_need("there-device", conf.drv->cuDeviceGet(&conf.dev, 0)) == 0 &&
        conf_need("there-retain", conf.drv->cuDevicePrimaryCtxRetain(&conf.ctx, conf.dev)) == 0 &&
        conf_need("there-current", conf.drv->cuCtxSetCurrent(conf.ctx)) == 0) {
        prop = conf_prop();
        conf_need("there-granularity",
                  conf.drv->cuMemGetAllocationGranularity(&conf.chunk_bytes, &prop,
                                                          CU_MEM_ALLOC_GRANULARITY_MINIMUM));
        fd = share_receive(socket_fd, data, sizeof data);
        memcpy(&pointer, data + 1, sizeof pointer);
        if (fd < 0)
            conf_word("there-receive", strerror(errno));
        else if (data[0] == CONF_SHARE_POOL)
            conf_pool_use_elsewhere(fd, &pointer);
        else
            share_use_elsewhere(fd);
    }
    if (send(socket_fd, conf_line(), strlen(conf_line()) + 1, MSG_NOSIGNAL) < 0)
        return 2;
    return 0;
}

static pid_t share_start(int socket_fd) {
    char number[16];
    char *argv[] = {(char *)(uintptr_t) "conformance",
                    (char *)(uintptr_t) "--driver",
                    (char *)(uintptr_t)conf.driver,
                    (char *)(uintptr_t) "--import",
                    number,
                    NULL};
    pid_t pid;

    snprintf(number, sizeof number, "%d", socket_fd);
    return posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ) == 0 ? pid : -1;
}

void conf_share_with_child(int fd, const void *message, size_t bytes) {
    char text[1000] = "";
    int ends[2], status = -1;
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) {
        conf_word("setup-socket", strerror(errno));
        return;
    }
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    pid = share_start(ends[1]);
    close(ends[1]);
    if (pid > 0 && share_send(ends[0], fd, message, bytes) == 0 &&
        recv(ends[0], text, sizeof text - 1, 0) > 0)
        conf_text(text);
    else
        conf_word("setup-other-process", "silent");
    if (pid > 0)
        waitpid(pid, &status, 0);
    conf_fact("there-exit", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    close(ends[0]);
}

static void share_elsewhere(void) {
    const char kind = CONF_SHARE_CHUNK;
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr base = 0;
    int fd = -1;

    if (share_make(&handle, &base) != 0)
        return;
    conf_need("write", conf_poke(base, SHARE_FIRST));
    conf_need("export", conf.drv->cuMemExportToShareableHandle(&fd, handle, share_fd_type, 0));
    conf_share_with_child(fd, &kind, sizeof kind);
    conf_fact("read", conf_peek(base + 4096));
    close(fd);
    share_drop(handle, base);
}

static const struct conf_case share_cases[] = {
    {"export", share_export, 0},
    {"import-here", share_import_here, 0},
    {"fd-outlives-handle", share_fd_outlives_handle, 0},
    {"import-junk", share_import_junk, CONF_ALONE},
    {"host-chunk", share_host_chunk, 0},
    {"elsewhere", share_elsewhere, 0},
};
CONF_GROUP(share, 0);
