/* One input for the share protocol: the messages of a hostile process at the other end of the
 * socket.
 *
 * The first byte selects what is under test (enum fuzz_side) and how the conversation ends. Records
 * follow: a length of two bytes (little endian), a number of descriptors of one byte, and the bytes
 * of the message. The id of the n-th chunk in a message selects its n-th descriptor
 * (enum fuzz_descriptor).
 *
 * The hostile side sends all messages at once. Then it shuts down its sending direction, so that
 * nobody waits for a timeout, and reads until the end; or it closes the connection.
 *
 * Whatever the messages are: a fetch that fails leaves nothing to drop, one that succeeds matches
 * the owner's view, an import that cannot be refreshed stays as it was, every answer of an owner is
 * valid, an owner serves the next importer, and no descriptor, chunk or address is leaked. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "acre.h"
#include "fuzz_quiet.h"
#include "share/endpoint.h"
#include "share/fetch.h"
#include "share/share_hooks.h"
#include "share/wire.h"
#include "support/send_fds.h"
#include "space/extent.h"
#include "space/range.h"

enum {
    FUZZ_UNIT = 2 << 20, /* bytes of a soft chunk */
    FUZZ_WAIT_MS = 200000,
    FUZZ_VEC_CHUNKS = 66, /* an owner sends 64 in a message */
    FUZZ_HAVE = 3,        /* chunks of the importer that refreshes */
    FUZZ_HAVE_ID = 100,
    FUZZ_REFRESHES = 4
};

enum fuzz_side {
    FUZZ_FETCH,     /* acre__fetch of an importer that has no chunks */
    FUZZ_OWNER_MEM, /* the owner of a block: one chunk, with id 1 */
    FUZZ_REFETCH,   /* acre__fetch of an importer that has FUZZ_HAVE chunks */
    FUZZ_OWNER_VEC, /* the owner of a vec: FUZZ_VEC_CHUNKS chunks, with ids from 2 on */
    FUZZ_IMPORT,    /* acre_import_open and acre_import_refresh */
    FUZZ_SIDES      /* added to one of these: the hostile side closes the connection */
};

enum fuzz_descriptor {
    FUZZ_FD_SMALL, /* an exported chunk of 2 MiB */
    FUZZ_FD_OTHER, /* another one */
    FUZZ_FD_LARGE, /* an exported chunk of 4 MiB */
    FUZZ_FD_PEER,  /* a chunk of 2 MiB of another process */
    FUZZ_FD_LOOSE, /* a chunk of 2 MiB without seals: its file could shrink */
    FUZZ_FD_MEMFD, /* a memfd that is no chunk */
    FUZZ_FD_NULL,  /* /dev/null */
    FUZZ_FD_EMPTY, /* a chunk's name and seals, without bytes */
    FUZZ_FDS
};

struct fuzz_owner {
    struct acre__endpoint endpoint;
    uint32_t chunk_count;
    uint64_t first_id; /* the others follow */
};

/* Everything that outlives an input. */
static struct {
    acre_device *device;
    size_t unit;
    int fds[FUZZ_FDS];
    struct fuzz_owner mem, vec;
    struct acre__extent *extent; /* of the importer that refreshes */
    uint64_t ids[FUZZ_HAVE];
    char path[64]; /* where the hostile owner listens */
    int listener;
} fuzz;

struct fuzz_input {
    const unsigned char *at;
    size_t left;
    int is_closing; /* the hostile side closes the connection after its last message */
};

#define FUZZ_OK(call) fuzz_ok((call), #call, __LINE__)

static void fuzz_ok(acre_status status, const char *what, int line) {
    if (status) {
        fprintf(stderr, "%s:%d: %s: %s: %s\n", __FILE__, line, what, acre_status_name(status),
                acre_last_detail());
        abort();
    }
}

static int64_t fuzz_deadline(void) {
    return acre__wire_now_ns() + (int64_t)FUZZ_WAIT_MS * 1000000;
}

/* ---- leaks ---- */

struct fuzz_resources {
    uint64_t fds, chunks, chunk_bytes, range_bytes, limbo, imports;
};

static struct fuzz_resources fuzz_resources(void) {
    acre_device_stats stats = {.struct_size = sizeof stats};
    uint64_t reserved_bytes; /* stay reserved until a trim */
    FUZZ_OK(acre_device_get_stats(fuzz.device, &stats));
    struct fuzz_resources now = {.chunks = stats.chunks,
                                 .chunk_bytes = stats.chunk_bytes,
                                 .limbo = stats.limbo_count,
                                 .imports = stats.imports};
    acre__range_count(fuzz.device, &reserved_bytes, &now.range_bytes);
    DIR *folder = opendir("/proc/self/fd");
    FUZZ_CHECK(folder != NULL);
    while (readdir(folder))
        now.fds++;
    closedir(folder);
    return now;
}

static void fuzz_check_leaks(const struct fuzz_resources *before) {
    struct fuzz_resources now = fuzz_resources();
    FUZZ_CHECK(now.fds == before->fds);
    FUZZ_CHECK(now.chunks == before->chunks && now.chunk_bytes == before->chunk_bytes);
    FUZZ_CHECK(now.range_bytes == before->range_bytes);
    FUZZ_CHECK(now.limbo == 0 && now.imports == before->imports);
}

/* A failure has a name, and one line of detail without control characters. */
static void fuzz_check_failure(acre_status status) {
    FUZZ_CHECK(status < 0 && acre_status_name(status) != NULL);
    FUZZ_CHECK(*acre_last_detail() != '\0');
    for (const char *c = acre_last_detail(); *c; c++)
        FUZZ_CHECK((unsigned char)*c >= ' ' && *c != 0x7f);
}

/* ---- the hostile side ---- */

/* Descriptor `n` of a message: the id of chunk `n` selects it. */
static int fuzz_descriptor(const unsigned char *message, size_t bytes, size_t n) {
    size_t at = offsetof(struct acre__wire_chunks, chunks) + n * sizeof(struct acre__wire_chunk);
    return fuzz.fds[at < bytes ? message[at] % FUZZ_FDS : n % FUZZ_FDS];
}

/* Sends one message; returns 0 if the socket is full or the other side has closed it. */
static int fuzz_send(int socket, const unsigned char *message, size_t bytes, size_t fd_count) {
    int fds[ACRE__WIRE_FDS];
    for (size_t i = 0; i < fd_count; i++)
        fds[i] = fuzz_descriptor(message, bytes, i);
    return send_fds(socket, message, bytes, fds, fd_count, MSG_DONTWAIT) >= 0;
}

/* Sends the messages of the input. Returns 1 if the socket is still open for reading, or closes it
 * and returns 0. */
static int fuzz_send_all(int socket, struct fuzz_input input) {
    int is_open = 1;
    while (is_open && input.left >= 3) {
        size_t bytes = input.at[0] | (size_t)input.at[1] << 8, fd_count = input.at[2];
        input.at += 3;
        input.left -= 3;
        bytes = bytes < input.left ? bytes : input.left;
        fd_count = fd_count < ACRE__WIRE_FDS ? fd_count : ACRE__WIRE_FDS;
        is_open = fuzz_send(socket, input.at, bytes, fd_count);
        input.at += bytes;
        input.left -= bytes;
    }
    if (input.is_closing)
        close(socket);
    else
        shutdown(socket, SHUT_WR);
    return !input.is_closing;
}

/* ---- an importer under test: the fetch ---- */

static void fuzz_check_fetched(const struct acre__asked *asked, struct acre__fetched *fetched) {
    const struct acre__wire_view *view = &fetched->view;
    size_t have = asked->extent ? asked->extent->count : 0, count = view->keep_count;
    uint64_t bytes = 0;
    FUZZ_CHECK(view->keep_count <= have && view->keep_count <= view->chunk_count);
    FUZZ_CHECK(view->used_bytes <= view->mapped_bytes);
    FUZZ_CHECK(view->mapped_bytes <= view->reserved_bytes);
    FUZZ_CHECK(view->reserved_bytes <= ACRE__WIRE_BYTES_MOST);
    for (size_t i = 0; i < view->keep_count; i++) {
        bytes += asked->extent->mappings[i]->chunk->bytes;
        FUZZ_CHECK(fetched->ids[i] == asked->ids[i]);
    }
    FUZZ_CHECK(bytes == fetched->kept_bytes);
    for (const struct acre__chunk *chunk = fetched->list; chunk; chunk = chunk->next, count++) {
        FUZZ_CHECK(chunk->bytes > 0 && chunk->bytes % asked->unit == 0);
        bytes += chunk->bytes;
    }
    FUZZ_CHECK(count == view->chunk_count && bytes == view->mapped_bytes);
}

static void fuzz_fetch(struct fuzz_input input, struct acre__extent *extent) {
    int pair[2], is_over = -1;
    struct acre__fetched fetched;
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    struct acre__asked asked = {.dev = fuzz.device,
                                .socket = pair[0],
                                .wait_ms = FUZZ_WAIT_MS,
                                .unit = fuzz.unit,
                                .extent = extent,
                                .ids = extent ? fuzz.ids : NULL};
    int is_open = fuzz_send_all(pair[1], input);
    int64_t deadline_ns = fuzz_deadline();
    acre_status status = acre__fetch(&asked, &fetched, &is_over);
    FUZZ_CHECK(acre__wire_now_ns() < deadline_ns); /* there was no reason to wait */
    if (status) {
        fuzz_check_failure(status);
        FUZZ_CHECK(fetched.list == NULL && fetched.ids == NULL);
    } else {
        FUZZ_CHECK(is_over == 0);
        fuzz_check_fetched(&asked, &fetched);
        acre__fetch_drop(&fetched);
    }
    close(pair[0]);
    if (is_open)
        close(pair[1]);
}

/* ---- an importer under test: the whole import ---- */

/* The hostile owner: answers one importer, and reads until the importer closes the connection. */
static void *fuzz_answer(void *argument) {
    const struct fuzz_input *input = argument;
    unsigned char ignored[64];
    int socket = accept4(fuzz.listener, NULL, NULL, SOCK_CLOEXEC);
    FUZZ_CHECK(socket >= 0);
    if (!fuzz_send_all(socket, *input))
        return NULL;
    while (recv(socket, ignored, sizeof ignored, 0) > 0)
        continue;
    close(socket);
    return NULL;
}

/* The import matches its properties: its memory can be read from the first to the last byte. */
static acre_import_info fuzz_check_import(acre_import *import) {
    acre_import_info info = {.struct_size = sizeof info};
    char byte;
    FUZZ_OK(acre_import_get_info(import, &info));
    FUZZ_CHECK(info.bytes <= info.mapped_bytes && info.element_bytes > 0);
    if (info.mapped_bytes) {
        char *data = info.data;
        FUZZ_OK(acre_copy_sync(fuzz.device, &byte, data, 1));
        FUZZ_OK(acre_copy_sync(fuzz.device, &byte, data + info.mapped_bytes - 1, 1));
    }
    return info;
}

static void fuzz_import(struct fuzz_input input) {
    acre_import_options options = {.struct_size = sizeof options, .wait_ms = FUZZ_WAIT_MS};
    acre_import *import = NULL;
    pthread_t owner;
    FUZZ_CHECK(pthread_create(&owner, NULL, fuzz_answer, &input) == 0);
    acre_status status = acre_import_open(fuzz.device, fuzz.path, &options, &import);
    FUZZ_CHECK((status == ACRE_OK) == (import != NULL));
    if (status)
        fuzz_check_failure(status);
    for (int i = 0; i < FUZZ_REFRESHES && import; i++) {
        acre_import_info before = fuzz_check_import(import);
        status = acre_import_refresh(import, NULL);
        acre_import_info after = fuzz_check_import(import);
        if (status) {
            fuzz_check_failure(status);
            FUZZ_CHECK(memcmp(&before, &after, sizeof before) == 0);
        }
    }
    FUZZ_OK(acre_import_close(import, NULL));
    FUZZ_CHECK(pthread_join(owner, NULL) == 0);
}

/* ---- an owner under test ---- */

/* Checks an answer; `next` is the first chunk that the owner has not sent yet. */
static void fuzz_check_answer(const struct fuzz_owner *owner,
                              const union acre__wire_message *message, uint32_t *next) {
    switch (message->head.type) {
    case ACRE__WIRE_VIEW:
        FUZZ_CHECK(message->view.chunk_count == owner->chunk_count);
        FUZZ_CHECK(message->view.mapped_bytes == (uint64_t)owner->chunk_count * FUZZ_UNIT);
        *next = message->view.keep_count;
        break;
    case ACRE__WIRE_CHUNKS:
        FUZZ_CHECK(message->chunks.first == *next);
        FUZZ_CHECK(message->head.count <= owner->chunk_count - *next);
        for (uint32_t i = 0; i < message->head.count; i++, ++*next) {
            FUZZ_CHECK(message->chunks.chunks[i].id == owner->first_id + *next);
            FUZZ_CHECK(message->chunks.chunks[i].bytes == FUZZ_UNIT);
        }
        break;
    default:
        FUZZ_CHECK(message->head.type == ACRE__WIRE_REFUSED);
    }
}

/* Reads and checks answers until the owner has closed the connection; then the owner has released
 * everything that belonged to it. */
static void fuzz_read_all(const struct fuzz_owner *owner, int socket) {
    static union acre__wire_message message;
    int fds[ACRE__WIRE_FDS];
    size_t fd_count;
    uint32_t next = owner->chunk_count;
    int64_t deadline_ns = fuzz_deadline();
    acre_status status;
    while (!(status = acre__wire_receive_by(socket, &message, fds, &fd_count, deadline_ns))) {
        fuzz_check_answer(owner, &message, &next);
        acre__wire_close(fds, fd_count);
    }
    FUZZ_CHECK(status == ACRE_E_GONE && acre__wire_now_ns() < deadline_ns);
    close(socket);
}

static int fuzz_connect(const struct fuzz_owner *owner) {
    int socket;
    FUZZ_OK(acre__endpoint_connect(&owner->endpoint, fuzz_deadline(), &socket));
    return socket;
}

/* An importer that keeps to the protocol gets everything. */
static void fuzz_fetch_well(const struct fuzz_owner *owner) {
    struct acre__asked asked = {.dev = fuzz.device,
                                .socket = fuzz_connect(owner),
                                .wait_ms = FUZZ_WAIT_MS,
                                .unit = fuzz.unit};
    struct acre__fetched fetched;
    int is_over;
    FUZZ_OK(acre__fetch(&asked, &fetched, &is_over));
    FUZZ_CHECK(fetched.view.chunk_count == owner->chunk_count);
    fuzz_check_fetched(&asked, &fetched);
    acre__fetch_drop(&fetched);
    shutdown(asked.socket, SHUT_WR);
    fuzz_read_all(owner, asked.socket);
}

static void fuzz_owner(struct fuzz_input input, const struct fuzz_owner *owner) {
    int socket = fuzz_connect(owner);
    if (fuzz_send_all(socket, input))
        fuzz_read_all(owner, socket);
    fuzz_fetch_well(owner); /* the owner ends a closed connection before it accepts the next */
}

/* ---- once per process ---- */

static int fuzz_memfd(const char *name, off_t bytes, int seals) {
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    FUZZ_CHECK(fd >= 0 && ftruncate(fd, bytes) == 0);
    FUZZ_CHECK(seals == 0 || fcntl(fd, F_ADD_SEALS, seals) == 0);
    return fd;
}

static int fuzz_export(size_t bytes) {
    void *block;
    int fd;
    uint64_t chunk_bytes;
    size_t count;
    FUZZ_OK(acre_mem_alloc(fuzz.device, ACRE_KIND_DEVICE, bytes, 0, &block));
    FUZZ_OK(acre_share_export_fds(fuzz.device, block, 1, &fd, &chunk_bytes, &count));
    FUZZ_CHECK(count == 1 && chunk_bytes == bytes);
    return fd;
}

static void fuzz_make_descriptors(void) {
    static const char chunk_name[] = "acre-soft-chunk-d0"; /* as src/soft/soft_physical.c has it */
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW;
    fuzz.fds[FUZZ_FD_SMALL] = fuzz_export(FUZZ_UNIT);
    fuzz.fds[FUZZ_FD_OTHER] = fuzz_export(FUZZ_UNIT);
    fuzz.fds[FUZZ_FD_LARGE] = fuzz_export(2 * FUZZ_UNIT);
    fuzz.fds[FUZZ_FD_PEER] = fuzz_memfd(chunk_name, FUZZ_UNIT, seals);
    fuzz.fds[FUZZ_FD_LOOSE] = fuzz_memfd(chunk_name, FUZZ_UNIT, 0);
    fuzz.fds[FUZZ_FD_MEMFD] = fuzz_memfd("acre-fuzz", FUZZ_UNIT, seals);
    fuzz.fds[FUZZ_FD_NULL] = open("/dev/null", O_RDWR | O_CLOEXEC);
    fuzz.fds[FUZZ_FD_EMPTY] = fuzz_memfd(chunk_name, 0, seals);
    FUZZ_CHECK(fuzz.fds[FUZZ_FD_NULL] >= 0);
}

/* A path in the abstract namespace; each process has its own. */
static void fuzz_make_path(const char *name, struct acre__endpoint *endpoint) {
    snprintf(fuzz.path, sizeof fuzz.path, "@acre-fuzz-%ld-%s", (long)getpid(), name);
    FUZZ_OK(acre__endpoint_from(fuzz.path, endpoint));
}

static void fuzz_make_owners(void) {
    void *block;
    acre_vec *vec;
    acre_share *share;
    acre_vec_options options = {
        .struct_size = sizeof options, .flags = ACRE_VEC_SHAREABLE, .chunk_bytes = FUZZ_UNIT};
    FUZZ_OK(acre_mem_alloc(fuzz.device, ACRE_KIND_DEVICE, FUZZ_UNIT, 0, &block));
    FUZZ_OK(acre_vec_create(fuzz.device, 1, &options, &vec));
    for (int i = 0; i < FUZZ_VEC_CHUNKS; i++)
        FUZZ_OK(acre_vec_grow(vec, FUZZ_UNIT, NULL));
    fuzz_make_path("mem", &fuzz.mem.endpoint);
    FUZZ_OK(acre_share_mem(fuzz.device, block, fuzz.path, NULL, &share));
    fuzz_make_path("vec", &fuzz.vec.endpoint);
    FUZZ_OK(acre_share_vec(vec, fuzz.path, NULL, &share));
    fuzz.mem.chunk_count = 1;
    fuzz.mem.first_id = 1;
    fuzz.vec.chunk_count = FUZZ_VEC_CHUNKS;
    fuzz.vec.first_id = 2;
    fuzz_fetch_well(&fuzz.mem); /* a chunk's first export creates a file, which stays open */
    fuzz_fetch_well(&fuzz.vec);
}

static void fuzz_make_importer(void) {
    FUZZ_OK(acre__extent_create(fuzz.device, ACRE__CHUNK_SHAREABLE, 8 * (size_t)FUZZ_UNIT,
                                &fuzz.extent));
    for (size_t i = 0; i < FUZZ_HAVE; i++) {
        FUZZ_OK(acre__extent_grow(fuzz.extent, (i + 1) * FUZZ_UNIT));
        fuzz.ids[i] = FUZZ_HAVE_ID + i;
    }
    FUZZ_CHECK(fuzz.extent->count == FUZZ_HAVE);
}

static void fuzz_make(void) {
    struct acre__endpoint endpoint;
    FUZZ_OK(acre_open("soft", NULL, &fuzz.device));
    FUZZ_OK(acre__share_unit(fuzz.device, &fuzz.unit));
    FUZZ_CHECK(fuzz.unit == FUZZ_UNIT);
    fuzz_make_owners(); /* first: the stored inputs contain the ids of their chunks */
    fuzz_make_descriptors();
    fuzz_make_importer();
    fuzz_make_path("hostile", &endpoint);
    FUZZ_OK(acre__endpoint_listen(&endpoint, 0600, &fuzz.listener));
    FUZZ_CHECK(fcntl(fuzz.listener, F_SETFL, 0) == 0); /* accept waits */
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t count) {
    if (!fuzz.device)
        fuzz_make();
    if (!count)
        return 0;
    struct fuzz_input input = {bytes + 1, count - 1, bytes[0] / FUZZ_SIDES % 2};
    struct fuzz_resources before = fuzz_resources();
    switch ((enum fuzz_side)(bytes[0] % FUZZ_SIDES)) {
    case FUZZ_FETCH:
        fuzz_fetch(input, NULL);
        break;
    case FUZZ_OWNER_MEM:
        fuzz_owner(input, &fuzz.mem);
        break;
    case FUZZ_REFETCH:
        fuzz_fetch(input, fuzz.extent);
        break;
    case FUZZ_OWNER_VEC:
        fuzz_owner(input, &fuzz.vec);
        break;
    default:
        fuzz_import(input);
    }
    fuzz_check_leaks(&before);
    return 0;
}
