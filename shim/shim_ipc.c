/* cuIpcGetMemHandle and cuIpcOpenMemHandle for memory that the shim serves; see shim_serve.h.
 *
 * The driver has no handles for mapped memory. The shim's handle is a token: the owner's process, a
 * random number, and the block's address and id. A process that also runs under acre opens it: it
 * asks a thread of the owner, over a socket in the abstract namespace, for the descriptors of the
 * block's chunks, and maps those. The owner answers only to processes of the same user.
 *
 *   opener                        owner
 *   ipc_request             ->
 *                           <-    ipc_reply, with the descriptors of the next chunks
 *   one more request for each further reply, with `first` advanced
 *
 * Locks: one mutex, which protects the server's start and the list of opened blocks, and is held
 * while a block is opened or closed. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/own_file.h"
#include "ledger.h"
#include "shim_limit.h"
#include "shim_pause.h"
#include "shim_serve.h"

enum {
    IPC_MAGIC = 0x31504941, /* "AIP1" */
    IPC_CHUNKS = 64,        /* in one reply */
    IPC_WAIT_MS = 5000,
    IPC_LAZY_PEERS = 1 /* CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS */
};

/* The 64 bytes of a handle. */
struct ipc_token {
    uint32_t magic;
    int32_t pid;
    uint64_t number; /* of the owner's socket */
    uint64_t address, id, bytes;
    int32_t device;
    uint32_t unused[5];
};
_Static_assert(sizeof(struct ipc_token) == sizeof(CUipcMemHandle), "a token is a handle");

struct ipc_request {
    uint32_t magic, first; /* the number of chunks that the opener has */
    uint64_t address, id;
};

struct ipc_reply {
    uint32_t magic, count;           /* of the chunks in this reply */
    uint64_t offset, chunks, mapped; /* of the block in the first chunk; of all chunks */
    uint64_t sizes[IPC_CHUNKS];
};

/* A block of another process. */
struct ipc_import {
    struct ipc_token token;
    struct serve_device *device; /* that it is mapped for */
    CUdeviceptr reserved, address;
    uint64_t mapped;
    unsigned opens;
    struct ipc_import *next;
};

static struct {
    pthread_mutex_t lock;
    uint64_t number;              /* of this process's socket; 0: no server */
    struct acre__own_file socket; /* the program may close it, or use its number again */
    struct ipc_import *imports;
} ipc = {.lock = PTHREAD_MUTEX_INITIALIZER};

static socklen_t ipc_address(const struct ipc_token *token, struct sockaddr_un *address) {
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int length =
        snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "acre-ipc-%d-%016llx",
                 (int)token->pid, (unsigned long long)token->number);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static int ipc_is_same_user(int socket) {
    struct ucred peer;
    socklen_t bytes = sizeof peer;
    return !getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) && peer.uid == geteuid();
}

/* Sends or receives one message with descriptors. Returns the bytes, or -1. */
static ssize_t ipc_transfer(int socket, void *data, size_t bytes, int *fds, size_t *fd_count,
                            int is_send) {
    struct iovec part = {data, bytes};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int) * IPC_CHUNKS)];
    } control = {0};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (!is_send || *fd_count) {
        message.msg_control = &control;
        message.msg_controllen = is_send ? CMSG_SPACE(sizeof(int) * *fd_count) : sizeof control;
    }
    if (is_send && *fd_count) {
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(sizeof(int) * *fd_count);
        memcpy(CMSG_DATA(&control.head), fds, sizeof(int) * *fd_count);
    }
    ssize_t done = is_send ? sendmsg(socket, &message, MSG_NOSIGNAL)
                           : recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    if (is_send || done < 0)
        return done;
    *fd_count = 0;
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS) {
        *fd_count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(fds, CMSG_DATA(head), sizeof(int) * *fd_count);
    }
    return done;
}

/* ---- the owner ---- */

/* Finds the chunk that is mapped at the address. */
static int ipc_chunk(CUdeviceptr address, CUdeviceptr *start, size_t *bytes) {
    const struct acre__driver *drv = acre__serve.inner;
    return !drv->cuPointerGetAttribute(start, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, address) &&
           !drv->cuPointerGetAttribute(bytes, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, address) && *bytes;
}

/* Exports the chunk at the address as a descriptor; -1: the driver refuses. */
static int ipc_export(CUdeviceptr address) {
    const struct acre__driver *drv = acre__serve.inner;
    CUmemGenericAllocationHandle handle;
    int fd = -1;
    if (drv->cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)address))
        return -1;
    if (drv->cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0))
        fd = -1;
    (void)drv->cuMemRelease(handle);
    return fd;
}

/* Fills a reply with the block's chunks from `first` on. A reply without chunks is a refusal. */
static void ipc_find(const struct ipc_request *request, struct ipc_reply *reply, int *fds) {
    struct serve_block block;
    if (!acre__blocks_find(request->address, &block) || block.id != request->id || block.is_import)
        return;
    CUdeviceptr at = block.node.key, end = at + block.bytes, start = 0;
    for (size_t bytes = 0; at < end; at = start + bytes, reply->chunks++, reply->mapped += bytes) {
        if (!ipc_chunk(at, &start, &bytes))
            break;
        if (!reply->chunks)
            reply->offset = at - start;
        if (reply->chunks < request->first || reply->count == IPC_CHUNKS)
            continue;
        if ((fds[reply->count] = ipc_export(at)) < 0)
            break;
        reply->sizes[reply->count++] = bytes;
    }
    if (at >= end)
        return;
    while (reply->count)
        close(fds[--reply->count]);
}

/* Refuses while the memory is away. */
static void ipc_answer(const struct ipc_request *request, struct ipc_reply *reply, int *fds) {
    struct shim_user *user;
    *reply = (struct ipc_reply){.magic = IPC_MAGIC};
    if (!acre__user_try("cuIpcOpenMemHandle", &user))
        return;
    ipc_find(request, reply, fds);
    if (reply->count)
        acre__blocks_set_exported(request->address);
    (void)acre__user_end(user, CUDA_SUCCESS);
}

static void ipc_serve(int socket) {
    struct ipc_request request;
    struct ipc_reply reply;
    int fds[IPC_CHUNKS];
    const struct timeval wait = {.tv_sec = IPC_WAIT_MS / 1000};
    (void)setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    while (ipc_is_same_user(socket) &&
           recv(socket, &request, sizeof request, 0) == (ssize_t)sizeof request &&
           request.magic == IPC_MAGIC) {
        ipc_answer(&request, &reply, fds);
        size_t count = reply.count;
        ssize_t sent = ipc_transfer(socket, &reply, sizeof reply, fds, &count, 1);
        while (reply.count)
            close(fds[--reply.count]);
        if (sent < 0)
            break;
    }
    close(socket);
}

/* Ends when the program has closed the socket. Then the next request starts another server. */
static void *ipc_thread(void *unused) {
    const struct acre__own_file listener = ipc.socket;
    for (;;) {
        struct pollfd asked = {.fd = listener.fd, .events = POLLIN};
        (void)poll(&asked, 1, -1);
        if (!acre__own_file_is_open(&listener))
            return unused;
        int socket = accept4(listener.fd, NULL, NULL, SOCK_CLOEXEC);
        if (socket >= 0)
            ipc_serve(socket);
        else if (errno != EINTR && errno != ECONNABORTED)
            return unused;
    }
}

/* Starts the server; the lock is held. Returns 0 if that fails. */
static int ipc_start(void) {
    struct ipc_token own = {.pid = (int32_t)getpid()};
    struct sockaddr_un address;
    pthread_t thread;
    sigset_t all, before;
    if (ipc.number && acre__own_file_is_open(&ipc.socket))
        return 1;
    if (getrandom(&own.number, sizeof own.number, 0) != (ssize_t)sizeof own.number)
        return 0;
    socklen_t bytes = ipc_address(&own, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, bytes) || listen(fd, 16)) {
        if (fd >= 0)
            close(fd);
        return 0;
    }
    ipc.socket = acre__own_file(acre__own_file_high(fd));
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the program's signals are not for this thread */
    int is_started = pthread_create(&thread, NULL, ipc_thread, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!is_started) {
        acre__own_file_close(&ipc.socket);
        return 0;
    }
    pthread_detach(thread);
    ipc.number = own.number;
    return 1;
}

static CUresult ipc_get(CUipcMemHandle *handle_out, CUdeviceptr ptr) {
    struct serve_block block;
    if (!handle_out || !acre__blocks_find(ptr, &block) || block.is_import)
        return acre__serve.inner->cuIpcGetMemHandle(handle_out, ptr);
    pthread_mutex_lock(&ipc.lock);
    int is_started = ipc_start();
    pthread_mutex_unlock(&ipc.lock);
    if (!is_started) {
        acre__ledger_say("cuIpcGetMemHandle: cannot serve other processes; run both programs with "
                         "acre run --ipc=driver");
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct ipc_token token = {.magic = IPC_MAGIC,
                              .pid = (int32_t)getpid(),
                              .number = ipc.number,
                              .address = block.node.key,
                              .id = block.id,
                              .bytes = block.bytes,
                              .device = block.device->dev};
    memcpy(handle_out, &token, sizeof token);
    return CUDA_SUCCESS;
}

/* ---- the opener ---- */

static int ipc_connect(const struct ipc_token *token) {
    struct sockaddr_un address;
    socklen_t bytes = ipc_address(token, &address);
    const struct timeval wait = {.tv_sec = IPC_WAIT_MS / 1000};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    if (connect(fd, (struct sockaddr *)&address, bytes) || !ipc_is_same_user(fd)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Imports one chunk and maps it. The mapping keeps the memory. Closes the descriptor. */
static CUresult ipc_map(CUdeviceptr at, size_t bytes, int fd) {
    const struct acre__driver *drv = acre__serve.inner;
    CUmemGenericAllocationHandle handle;
    acre__limit_is_acres = 1; /* the owner's limit counts it */
    CUresult result = drv->cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
                                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    acre__limit_is_acres = 0;
    close(fd);
    if (result)
        return result;
    result = drv->cuMemMap(at, bytes, 0, handle, 0);
    (void)drv->cuMemRelease(handle);
    return result;
}

/* Maps the chunks of a reply behind those that are mapped. Closes all descriptors. */
static CUresult ipc_take(struct ipc_import *import, const struct ipc_reply *reply, size_t fd_count,
                         const int *fds, uint64_t *done) {
    CUresult result = fd_count == reply->count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < fd_count; i++) {
        if (result || reply->sizes[i] > import->mapped - *done) {
            close(fds[i]);
            result = result ? result : CUDA_ERROR_INVALID_VALUE;
            continue;
        }
        result = ipc_map(import->reserved + *done, reply->sizes[i], fds[i]);
        if (!result)
            *done += reply->sizes[i];
    }
    return result;
}

static void ipc_unmap(struct ipc_import *import, uint64_t done) {
    const struct acre__driver *drv = acre__serve.inner;
    if (done)
        (void)drv->cuMemUnmap(import->reserved, done);
    size_t known = acre__blocks_unreserve(import->reserved);
    if (import->reserved && drv->cuMemAddressFree(import->reserved, import->mapped) && known)
        acre__blocks_reserve(import->reserved, known);
}

/* Fetches and maps all chunks. *done is what is mapped, also after a failure. */
static CUresult ipc_fetch(struct ipc_import *import, int socket, uint64_t *done) {
    struct ipc_request request = {IPC_MAGIC, 0, import->token.address, import->token.id};
    struct ipc_reply reply;
    int fds[IPC_CHUNKS];
    do {
        size_t fd_count = 0;
        if (send(socket, &request, sizeof request, MSG_NOSIGNAL) < 0 ||
            ipc_transfer(socket, &reply, sizeof reply, fds, &fd_count, 0) !=
                (ssize_t)sizeof reply ||
            reply.magic != IPC_MAGIC || !reply.count || reply.count > IPC_CHUNKS) {
            while (fd_count)
                close(fds[--fd_count]);
            return CUDA_ERROR_INVALID_VALUE;
        }
        CUresult result = CUDA_SUCCESS;
        if (!import->reserved) {
            import->mapped = reply.mapped;
            result =
                acre__serve.inner->cuMemAddressReserve(&import->reserved, reply.mapped, 0, 0, 0);
            if (!result)
                acre__blocks_reserve(import->reserved, reply.mapped);
            import->address = import->reserved + reply.offset;
        }
        if (!result) {
            result = ipc_take(import, &reply, fd_count, fds, done);
        } else {
            while (fd_count)
                close(fds[--fd_count]);
        }
        if (result)
            return result;
        request.first += reply.count;
    } while (*done < import->mapped);
    return CUDA_SUCCESS;
}

static CUresult ipc_open_new(struct ipc_import *import, struct serve_device *device) {
    const CUmemAccessDesc access = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, device->dev},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    uint64_t done = 0;
    int socket = ipc_connect(&import->token);
    if (socket < 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = ipc_fetch(import, socket, &done);
    close(socket);
    if (!result)
        result = acre__serve.inner->cuMemSetAccess(import->reserved, import->mapped, &access, 1);
    if (!result && !acre__blocks_add(device, import->address, import->token.bytes, 1))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result)
        ipc_unmap(import, done);
    return result;
}

int acre__ipc_is_token(const CUipcMemHandle *handle) {
    uint32_t magic;
    memcpy(&magic, handle, sizeof magic);
    return acre__serve.options.is_on && magic == IPC_MAGIC;
}

static CUresult ipc_open_on(struct serve_device *device, CUdeviceptr *ptr_out,
                            const struct ipc_token *token) {
    pthread_mutex_lock(&ipc.lock);
    struct ipc_import *import = ipc.imports;
    while (import &&
           (import->device != device || memcmp(&import->token, token, sizeof *token) != 0))
        import = import->next;
    CUresult result = CUDA_SUCCESS;
    if (!import) {
        import = calloc(1, sizeof *import);
        result = import ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
        if (import) {
            import->token = *token;
            import->device = device;
            result = ipc_open_new(import, device);
        }
        if (result) {
            free(import);
        } else {
            import->next = ipc.imports;
            ipc.imports = import;
        }
    }
    if (!result) {
        import->opens++;
        *ptr_out = import->address;
    }
    pthread_mutex_unlock(&ipc.lock);
    return result;
}

CUresult acre__ipc_open(CUdeviceptr *ptr_out, const CUipcMemHandle *handle, unsigned int flags) {
    struct ipc_token token;
    CUresult result = CUDA_ERROR_INVALID_CONTEXT;
    memcpy(&token, handle, sizeof token);
    if (!ptr_out || flags > IPC_LAZY_PEERS)
        return CUDA_ERROR_INVALID_VALUE;
    acre__serve_enter();
    struct serve_device *device = acre__serve_current();
    if (device && token.pid != (int32_t)getpid()) /* as the driver: not in the owner itself */
        result = ipc_open_on(device, ptr_out, &token);
    acre__serve_leave();
    return result;
}

void acre__ipc_drop(const struct serve_device *device) {
    pthread_mutex_lock(&ipc.lock);
    struct ipc_import **link = &ipc.imports;
    while (*link) {
        struct ipc_import *import = *link;
        if (import->device != device) {
            link = &import->next;
            continue;
        }
        *link = import->next;
        ipc_unmap(import, import->mapped);
        free(import);
    }
    pthread_mutex_unlock(&ipc.lock);
}

/* Returns 0 for an address that was not opened here. */
int acre__ipc_close(CUdeviceptr ptr, CUresult *result) {
    pthread_mutex_lock(&ipc.lock);
    struct ipc_import **at = &ipc.imports, *import;
    while ((import = *at) && import->address != ptr)
        at = &import->next;
    *result = CUDA_SUCCESS;
    if (import && --import->opens == 0) {
        *at = import->next;
        if (atomic_load(&import->device->ctx)) /* as the driver waits */
            *result = acre__serve_wait(import->device);
        acre__blocks_end_import(ptr);
        ipc_unmap(import, import->mapped);
        free(import);
    }
    pthread_mutex_unlock(&ipc.lock);
    return import != NULL;
}

void acre__ipc_forget(void) {
    pthread_mutex_init(&ipc.lock, NULL);
    if (ipc.number)
        acre__own_file_close(&ipc.socket);
    ipc.number = 0;
    ipc.imports = NULL;
}

void acre__ipc_wrap(struct acre__driver *table) {
    table->cuIpcGetMemHandle = ipc_get;
}
