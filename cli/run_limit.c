/* See run_limit.h. */
#include "run_limit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

enum { LIMIT_PATH_BYTES = 64, LIMIT_WORDS_BYTES = 1 << 20 };

/* The seals keep a process from truncating the file, which would crash the others. */
int run_limit_create(uint64_t bytes, uint32_t flags, struct limit_file **file_out) {
    struct limit_file *file = MAP_FAILED;
    int fd = memfd_create(LIMIT_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && ftruncate(fd, (off_t)sizeof *file) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
        file = mmap(NULL, sizeof *file, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    int error = file == MAP_FAILED ? errno : acre__limit_init(file, bytes, flags);
    if (error) {
        cli_say("cannot create the file of the memory limit: %s", strerror(error));
        return -1;
    }
    *file_out = file;
    return fd;
}

/* ---- the file of a running program ----------------------------------------------------------- */

static bool limit_is_file(const char *path) {
    static const char wanted[] = "/memfd:" LIMIT_NAME;
    char target[sizeof wanted] = "";
    return readlink(path, target, sizeof target - 1) > 0 && strcmp(target, wanted) == 0;
}

static void limit_say_closed(pid_t pid) {
    if (errno == EACCES || errno == EPERM) {
        cli_say("cannot look into process %ld: %s; only its own user may, or root (the kernel "
                "requires ptrace access)",
                (long)pid, strerror(errno));
    } else if (errno == ENOENT || errno == ESRCH) {
        cli_say("there is no process %ld", (long)pid);
    } else {
        cli_say("cannot look into process %ld: %s", (long)pid, strerror(errno));
    }
}

/* Reads the environment that the process was started with. Returns false after a message. */
static bool limit_read_environment(pid_t pid, char **text_out, size_t *length_out) {
    char path[LIMIT_PATH_BYTES];
    snprintf(path, sizeof path, "/proc/%ld/environ", (long)pid);
    FILE *in = fopen(path, "re");
    if (!in) {
        limit_say_closed(pid);
        return false;
    }
    char *text = cli_alloc(LIMIT_WORDS_BYTES + 1);
    *length_out = fread(text, 1, LIMIT_WORDS_BYTES, in);
    (void)fclose(in);
    *text_out = text;
    return true;
}

/* Finds the word limit=TOOL/FD in ACRE_RUN, in an environment of `length` bytes. */
static bool limit_find_word(const char *text, size_t length, long *tool, long *fd) {
    static const char name[] = "ACRE_RUN=", word[] = ",limit=";
    for (const char *at = text; at < text + length; at += strlen(at) + 1) {
        const char *found = strncmp(at, name, sizeof name - 1) == 0 ? strstr(at, word) : NULL;
        if (found && sscanf(found + sizeof word - 1, "%ld/%ld", tool, fd) == 2) {
            return true;
        }
    }
    return false;
}

/* Finds the file among the descriptors of a process, which is `acre run` then. */
static bool limit_find_descriptor(pid_t pid, long *fd) {
    char path[LIMIT_PATH_BYTES];
    bool is_found = false;
    snprintf(path, sizeof path, "/proc/%ld/fd", (long)pid);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && !is_found && (entry = readdir(folder));) {
        *fd = strtol(entry->d_name, NULL, 10);
        snprintf(path, sizeof path, "/proc/%ld/fd/%ld", (long)pid, *fd);
        is_found = limit_is_file(path);
    }
    if (folder) {
        (void)closedir(folder);
    }
    return is_found;
}

static struct limit_file *limit_map(pid_t tool, long descriptor) {
    char path[LIMIT_PATH_BYTES];
    struct stat info;
    struct limit_file *file = MAP_FAILED;
    snprintf(path, sizeof path, "/proc/%ld/fd/%ld", (long)tool, descriptor);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        limit_say_closed(tool);
        return NULL;
    }
    if (limit_is_file(path) && fstat(fd, &info) == 0 && info.st_size >= (off_t)sizeof *file) {
        file = mmap(NULL, sizeof *file, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    close(fd);
    if (file == MAP_FAILED || file->magic != LIMIT_MAGIC) {
        cli_say("process %ld has no memory limit any more: its 'acre run' has ended", (long)tool);
        return NULL;
    }
    return file;
}

struct limit_file *run_limit_find(pid_t pid, pid_t *tool_out) {
    char *text = NULL;
    size_t length = 0;
    long tool = pid, fd = 0;
    if (!limit_read_environment(pid, &text, &length)) {
        return NULL;
    }
    /* `acre run` may itself run under another one: its own file comes first. */
    bool is_found = limit_find_descriptor(pid, &fd) || limit_find_word(text, length, &tool, &fd);
    free(text);
    if (!is_found) {
        cli_say("process %ld does not run under 'acre run --limit'", (long)pid);
        return NULL;
    }
    *tool_out = (pid_t)tool;
    return limit_map((pid_t)tool, fd);
}
