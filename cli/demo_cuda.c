/* The part of `acre demo` that makes CUDA calls without a GPU: a program of the CUDA runtime, run
 * by `acre run --device soft --leaks`. The program is this tool again, with an undocumented option.
 * It looks up the calls in libcudart.so.13 by dlsym, so that the tool needs no CUDA to link. The
 * program's output is the text of the row; its exit code also reports leaks. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "demo.h"
#include "soft/cuda_runtime_api.h"

/* ---- the program ----------------------------------------------------------------------------- */

#define CALLS_LIST(X)                                                                              \
    X(cudaMalloc)                                                                                  \
    X(cudaFree)                                                                                    \
    X(cudaMallocHost)                                                                              \
    X(cudaFreeHost)                                                                                \
    X(cudaMallocManaged)                                                                           \
    X(cudaMallocAsync)                                                                             \
    X(cudaFreeAsync)                                                                               \
    X(cudaMemcpy)                                                                                  \
    X(cudaMemcpyAsync)                                                                             \
    X(cudaStreamCreate)                                                                            \
    X(cudaStreamSynchronize)                                                                       \
    X(cudaStreamDestroy)                                                                           \
    X(cudaGetErrorName)

enum { CALLED_BYTES = 1 << 20, CALLED_KINDS = 4 };

/* The functions of the library. */
struct called {
#define CALLS_MEMBER(name) __typeof__(&name) name;
    CALLS_LIST(CALLS_MEMBER)
#undef CALLS_MEMBER
    unsigned char sent[CALLED_BYTES], back[CALLED_BYTES];
    cudaStream_t stream;
};

static bool called_find(struct called *called) {
    void *library = dlopen("libcudart.so.13", RTLD_NOW);
    if (!library) {
        return false;
    }
#define CALLS_FIND(name)                                                                           \
    void *found_##name = dlsym(library, #name);                                                    \
    memcpy(&called->name, &found_##name, sizeof found_##name);                                     \
    if (!called->name) {                                                                           \
        return false;                                                                              \
    }
    CALLS_LIST(CALLS_FIND)
#undef CALLS_FIND
    return true;
}

/* Copies bytes to a block and back, and compares them. */
static cudaError_t called_round(struct called *called, void *p) {
    memset(called->back, 0, sizeof called->back);
    cudaError_t error = called->cudaMemcpyAsync(p, called->sent, sizeof called->sent,
                                                cudaMemcpyDefault, called->stream);
    if (error == cudaSuccess) {
        error = called->cudaMemcpyAsync(called->back, p, sizeof called->back, cudaMemcpyDefault,
                                        called->stream);
    }
    if (error == cudaSuccess) {
        error = called->cudaStreamSynchronize(called->stream);
    }
    if (error == cudaSuccess && memcmp(called->sent, called->back, sizeof called->sent) != 0) {
        error = cudaErrorUnknown;
    }
    return error;
}

static cudaError_t called_kind(struct called *called, int kind) {
    void *p = NULL;
    cudaError_t error, freed;
    switch (kind) {
    case 0:
        error = called->cudaMalloc(&p, CALLED_BYTES);
        break;
    case 1:
        error = called->cudaMallocHost(&p, CALLED_BYTES);
        break;
    case 2:
        error = called->cudaMallocManaged(&p, CALLED_BYTES, cudaMemAttachGlobal);
        break;
    default:
        error = called->cudaMallocAsync(&p, CALLED_BYTES, called->stream);
        break;
    }
    if (error != cudaSuccess) {
        return error;
    }
    error = called_round(called, p);
    if (kind == 1) {
        freed = called->cudaFreeHost(p);
    } else if (kind == 3) {
        freed = called->cudaFreeAsync(p, called->stream);
    } else {
        freed = called->cudaFree(p);
    }
    return error != cudaSuccess ? error : freed;
}

int demo_cuda_program(void) {
    static struct called called;
    void *none = NULL;
    if (!called_find(&called)) {
        printf("libcudart.so.13 lacks a function that the demo needs");
        return CLI_FINDING;
    }
    for (size_t i = 0; i < sizeof called.sent; i++) {
        called.sent[i] = (unsigned char)(i + (i >> 9));
    }
    cudaError_t error = called.cudaStreamCreate(&called.stream);
    for (int kind = 0; error == cudaSuccess && kind < CALLED_KINDS; kind++) {
        error = called_kind(&called, kind);
    }
    if (error == cudaSuccess) {
        error = called.cudaStreamDestroy(called.stream);
    }
    if (error != cudaSuccess) {
        printf("a CUDA call failed: %s", called.cudaGetErrorName(error));
        return CLI_FINDING;
    }
    printf("cudaMalloc, MallocHost, MallocManaged and MallocAsync without a GPU: all bytes "
           "correct; cudaMalloc of 2^60 bytes: %s",
           called.cudaGetErrorName(called.cudaMalloc(&none, (size_t)1 << 60)));
    return CLI_OK;
}

/* ---- the row --------------------------------------------------------------------------------- */

/* Starts the tool again. ACRE_FAULT and ACRE_SOFT_SEED apply to this process only and are not
 * passed on. */
static int ran_start(int out, pid_t *pid) {
    static const char *const words[] = {"acre",           "run",     "--device",       "soft",
                                        "--leaks",        "--bytes", "64MiB",          "--",
                                        "/proc/self/exe", "demo",    DEMO_CUDA_PROGRAM};
    enum { WORDS = sizeof words / sizeof words[0] };
    char *arguments[WORDS + 1] = {0};
    size_t count = 0, kept = 0;
    while (environ[count]) {
        count++;
    }
    char **variables = calloc(count + 1, sizeof *variables);
    posix_spawn_file_actions_t actions;
    if (!variables || posix_spawn_file_actions_init(&actions) != 0) {
        free(variables);
        return ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        if (strncmp(environ[i], "ACRE_FAULT=", 11) != 0 &&
            strncmp(environ[i], "ACRE_SOFT_SEED=", 15) != 0) {
            variables[kept++] = environ[i];
        }
    }
    for (size_t i = 0; i < WORDS; i++) {
        arguments[i] = (char *)(uintptr_t)words[i];
    }
    int error = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    if (error == 0) {
        error = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    }
    if (error == 0) {
        error = posix_spawn(pid, "/proc/self/exe", &actions, NULL, arguments, variables);
    }
    posix_spawn_file_actions_destroy(&actions);
    free(variables);
    return error;
}

/* Reads the output until its end and keeps as much as fits into `text`. */
static void ran_read(int in, char *text, size_t text_bytes) {
    size_t length = 0;
    char rest[256];
    for (;;) {
        bool has_room = length + 1 < text_bytes;
        ssize_t bytes = has_room ? read(in, text + length, text_bytes - 1 - length)
                                 : read(in, rest, sizeof rest);
        if (bytes < 0 && errno == EINTR) {
            continue;
        }
        if (bytes <= 0) {
            break;
        }
        length += has_room ? (size_t)bytes : 0;
    }
    text[length] = '\0';
}

void demo_cuda(struct demo_part *part) {
    int ends[2], error = 0, status = 0;
    pid_t pid;
    uint64_t begin = cli_now_ns();
    *part = (struct demo_part){.name = "CUDA's own calls"};
    if (pipe2(ends, O_CLOEXEC) != 0) {
        error = errno;
    } else {
        error = ran_start(ends[1], &pid);
        close(ends[1]);
        if (error == 0) {
            ran_read(ends[0], part->text, sizeof part->text);
            while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
            }
        }
        close(ends[0]);
    }
    part->time_ns = cli_now_ns() - begin;
    part->ok = error == 0 && WIFEXITED(status) && WEXITSTATUS(status) == CLI_OK;
    if (error != 0) {
        snprintf(part->text, sizeof part->text, "cannot run: %s", strerror(error));
    } else if (!part->ok && !part->text[0]) {
        snprintf(part->text, sizeof part->text, "acre run --device soft failed");
    }
}
