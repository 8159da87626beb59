/* Device memory in two processes. The first process creates it, exports it as a file descriptor and
 * sends that over a socket. The second imports it, maps it at an address of its own, reads the
 * numbers and writes an answer, which the first then reads. The second process is this program
 * started again, not forked, since CUDA does not work after a fork. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda.h>

#include "cuda_check.h"

enum { COUNT = 4096, CHILD_SOCKET = 3 };
static const unsigned int ANSWER = 0xC0FFEE;

/* The message that is sent with the descriptor. */
struct offer {
    uint64_t bytes, count;
};

/* The memory in one process. */
struct mapping {
    CUmemGenericAllocationHandle handle;
    CUdeviceptr ptr;
    size_t bytes;
};

static void fail(const char *what) {
    perror(what);
    exit(2);
}

/* ---- the socket ---- */

/* The descriptor is sent as control data; the receiver gets another number for the same file. */
union control {
    char space[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
};

static void send_offer(int socket, const struct offer *offer, int fd) {
    union control control = {.space = {0}};
    struct iovec data = {.iov_base = (void *)(uintptr_t)offer, .iov_len = sizeof *offer};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control.space,
                             .msg_controllen = sizeof control.space};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    if (sendmsg(socket, &message, MSG_NOSIGNAL) != (ssize_t)sizeof *offer) {
        fail("sendmsg");
    }
}

static int receive_offer(int socket, struct offer *offer) {
    union control control = {.space = {0}};
    struct iovec data = {.iov_base = offer, .iov_len = sizeof *offer};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control.space,
                             .msg_controllen = sizeof control.space};
    struct cmsghdr *header;
    int fd = -1;

    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof *offer) {
        fail("recvmsg");
    }
    header = CMSG_FIRSTHDR(&message);
    if (header == NULL || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
        fprintf(stderr, "no descriptor came with the offer\n");
        exit(2);
    }
    memcpy(&fd, CMSG_DATA(header), sizeof fd);
    return fd;
}

/* ---- the memory ---- */

static CUdevice open_device(void) {
    CUdevice device;
    CUcontext context;

    CHECK_DRIVER(cuInit(0));
    CHECK_DRIVER(cuDeviceGet(&device, 0));
    CHECK_DRIVER(cuDevicePrimaryCtxRetain(&context, device));
    CHECK_DRIVER(cuCtxSetCurrent(context));
    return device;
}

/* Maps the handle's memory and sets access: a new mapping has none. */
static void map(struct mapping *m, CUdevice device) {
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

    CHECK_DRIVER(cuMemAddressReserve(&m->ptr, m->bytes, 0, 0, 0));
    CHECK_DRIVER(cuMemMap(m->ptr, m->bytes, 0, m->handle, 0));
    CHECK_DRIVER(cuMemSetAccess(m->ptr, m->bytes, &access, 1));
}

static void unmap(struct mapping *m, CUdevice device) {
    CHECK_DRIVER(cuCtxSynchronize());
    CHECK_DRIVER(cuMemUnmap(m->ptr, m->bytes));
    CHECK_DRIVER(cuMemAddressFree(m->ptr, m->bytes));
    CHECK_DRIVER(cuMemRelease(m->handle));
    CHECK_DRIVER(cuDevicePrimaryCtxRelease(device));
}

static int numbers_are(CUdeviceptr ptr, unsigned int first, unsigned int step) {
    static unsigned int numbers[COUNT];

    CHECK_DRIVER(cuMemcpyDtoH(numbers, ptr, sizeof numbers));
    for (unsigned int i = 0; i < COUNT; i++) {
        if (numbers[i] != first + step * i) {
            return 0;
        }
    }
    return 1;
}

/* ---- the second process ---- */

static int receive(void) {
    CUdevice device = open_device();
    struct mapping m = {0};
    struct offer offer;
    char done = 1;
    int fd = receive_offer(CHILD_SOCKET, &offer);

    /* Checks what the other process sent before using it. */
    if (offer.count != COUNT || offer.bytes < 2 * COUNT * sizeof(int) ||
        offer.bytes > SIZE_MAX / 2) {
        fprintf(stderr, "this offer is invalid\n");
        return 2;
    }
    m.bytes = (size_t)offer.bytes;
    CHECK_DRIVER(cuMemImportFromShareableHandle(&m.handle, (void *)(intptr_t)fd,
                                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(fd); /* the import holds its own reference */
    map(&m, device);
    EXPECT(numbers_are(m.ptr, 7, 3), "second process: the numbers are there");
    CHECK_DRIVER(cuMemsetD32(m.ptr + COUNT * sizeof(int), ANSWER, COUNT));
    unmap(&m, device);
    fflush(stdout); /* before the first process prints again */
    if (write(CHILD_SOCKET, &done, 1) != 1) {
        fail("write");
    }
    return wrong_count != 0;
}

/* ---- the first process ---- */

static pid_t start_second(int socket) {
    extern char **environ;
    char name[] = "export_to_process", argument[] = "receive";
    char *arguments[] = {name, argument, NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int error = posix_spawn_file_actions_init(&actions);

    if (error == 0) {
        error = posix_spawn_file_actions_adddup2(&actions, socket, CHILD_SOCKET);
    }
    if (error == 0) {
        error = posix_spawn(&pid, "/proc/self/exe", &actions, NULL, arguments, environ);
    }
    if (error != 0) {
        fprintf(stderr, "posix_spawn: %s\n", strerror(error));
        exit(2);
    }
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

static void create_and_fill(struct mapping *m, CUdevice device) {
    static unsigned int numbers[COUNT];
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes =
                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, /* must be set now */
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};

    CHECK_DRIVER(cuMemGetAllocationGranularity(&m->bytes, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CHECK_DRIVER(cuMemCreate(&m->handle, m->bytes, &prop, 0));
    map(m, device);
    for (unsigned int i = 0; i < COUNT; i++) {
        numbers[i] = 7 + 3 * i;
    }
    CHECK_DRIVER(cuMemcpyHtoD(m->ptr, numbers, sizeof numbers));
    CHECK_DRIVER(cuMemsetD32(m->ptr + COUNT * sizeof(int), 0, COUNT));
    /* The message tells the other process that the work is done, so wait for it first. */
    CHECK_DRIVER(cuCtxSynchronize());
}

int main(int argc, char **argv) {
    int sockets[2], fd = -1, status = 0;
    struct mapping m = {0};
    struct offer offer;
    CUdevice device;
    pid_t pid;
    char done = 0;

    if (argc == 2 && strcmp(argv[1], "receive") == 0) {
        return receive();
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
        fail("socketpair");
    }
    pid = start_second(sockets[1]);
    close(sockets[1]);

    device = open_device();
    create_and_fill(&m, device);
    CHECK_DRIVER(
        cuMemExportToShareableHandle(&fd, m.handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    offer = (struct offer){.bytes = m.bytes, .count = COUNT};
    printf("first process: %d numbers are exported\n", COUNT);
    fflush(stdout);
    send_offer(sockets[0], &offer, fd);
    close(fd);

    if (read(sockets[0], &done, 1) != 1 || waitpid(pid, &status, 0) != pid) {
        fprintf(stderr, "the second process did not answer\n");
        return 2;
    }
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "first process: the second succeeded");
    EXPECT(numbers_are(m.ptr + COUNT * sizeof(int), ANSWER, 0),
           "first process: the answer is there");
    EXPECT(numbers_are(m.ptr, 7, 3), "first process: the numbers are unchanged");
    close(sockets[0]);
    unmap(&m, device);
    return wrong_count != 0;
}
