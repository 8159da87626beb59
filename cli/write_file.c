/* Writes files without destroying others: see write_file.h. */
#include "write_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "cli.h"
#include "trace_decode.h"

enum { WRITE_LOOK = 1024 }; /* bytes by which a file is recognised */

bool write_is_stdout(const char *path) {
    return path && strcmp(path, "-") == 0;
}

static int write_fail(const char *path, const char *why) {
    cli_say("cannot write %s: %s", path, why);
    return CLI_CANNOT;
}

/* ---- files that acre wrote ------------------------------------------------------------------- */

static bool text_begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

/* Returns true if acre wrote the existing file for the same purpose, or if it is empty. A file that
 * cannot be read is not acre's. */
static bool write_is_ours(const struct write_file *file) {
    char head[WRITE_LOOK + 1] = "";
    gzFile old = gzopen(file->path, "rbe"); /* reads plain files, too */
    if (!old) {
        return false;
    }
    int got = gzread(old, head, WRITE_LOOK);
    bool is_plain = gzdirect(old) != 0;
    gzclose(old);
    if (got <= 0) {
        return got == 0 && is_plain;
    }
    switch (file->kind) {
    case WRITE_OFFSETS:
        return text_begins(head, "id,offset\n");
    case WRITE_SVG:
        return text_begins(head, "<svg class=\"pl\"") || text_begins(head, "<svg class=\"ch\"");
    case WRITE_BENCH:
        return text_begins(head, "{\n  \"schema\": \"acre-bench/1\"");
    case WRITE_PAGE:
        return strstr(head, "<title>acre demo</title>") != NULL;
    case WRITE_TRACE: /* a trace that is not packed is a recording, not a result */
        return !is_plain && trace_is((const unsigned char *)head, (size_t)got);
    case WRITE_RECORDING:
        return is_plain && trace_is((const unsigned char *)head, (size_t)got);
    case WRITE_RUN:
        return text_begins(head, "{\"schema\": \"acre-run/1\"");
    case WRITE_REPORT:
        return strstr(head, "<meta name=\"generator\" content=\"acre report\">") != NULL;
    case WRITE_EXPORT: /* a text of a JSON document or of a pickle */
        return memmem(head, (size_t)got < 64 ? (size_t)got : 64, "written by acre", 15) != NULL;
    case WRITE_SNAPSHOT:
        return strstr(head, "\"acre-snapshot/") != NULL;
    case WRITE_PROMETHEUS:
        return text_begins(head, "# HELP acre_");
    }
    return false;
}

/* Returns the input that is the same file, or NULL. */
static const char *write_same_input(const struct write_file *file, const struct stat *old) {
    for (size_t i = 0; i < file->input_count; i++) {
        const char *input = file->inputs[i];
        struct stat now;
        if (input && stat(input, &now) == 0 && now.st_dev == old->st_dev &&
            now.st_ino == old->st_ino) {
            return input;
        }
    }
    return NULL;
}

/* Checks the folder of a file that does not exist. A symbolic link may lead to another folder: then
 * write_end says what is wrong. */
static int write_check_folder(const char *path) {
    struct stat link;
    const char *slash = strrchr(path, '/');
    char *folder = slash ? cli_format("%.*s", (int)(slash + 1 - path), path) : cli_format(".");
    bool is_good = lstat(path, &link) == 0 || access(folder, W_OK | X_OK) == 0;
    int error = errno;
    free(folder);
    return is_good ? CLI_OK : write_fail(path, strerror(error));
}

int write_check(const struct write_file *file) {
    struct stat old;
    if (write_is_stdout(file->path)) {
        return CLI_OK;
    }
    if (stat(file->path, &old) != 0) {
        return file->makes_folder ? CLI_OK : write_check_folder(file->path);
    }
    if (S_ISDIR(old.st_mode)) {
        return write_fail(file->path, strerror(EISDIR));
    }
    if (!S_ISREG(old.st_mode) || file->force) {
        return CLI_OK;
    }
    const char *input = write_same_input(file, &old);
    if (input) {
        cli_say("cannot write %s: it is the input %s; choose another file, or replace it with "
                "--force",
                file->path, input);
        return CLI_CANNOT;
    }
    if (!write_is_ours(file)) {
        return write_fail(file->path, "acre did not write the existing file; choose another file, "
                                      "or replace it with --force");
    }
    return CLI_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Writes all bytes and closes the descriptor. Returns false with errno on failure. */
static bool write_bytes(int fd, const char *bytes, size_t count) {
    while (count) {
        ssize_t put = write(fd, bytes, count);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            int error = put < 0 ? errno : EIO;
            close(fd);
            errno = error;
            return false;
        }
        bytes += put;
        count -= (size_t)put;
    }
    return close(fd) == 0;
}

static bool write_directly(const struct write_file *file) {
    int fd = open(file->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return fd >= 0 && write_bytes(fd, file->text, file->bytes);
}

/* Returns a template for the name of a new file next to the target; the caller frees it. */
static char *write_fresh_name(const char *target) {
    const char *slash = strrchr(target, '/');
    return cli_format("%.*s.acre-XXXXXX", slash ? (int)(slash + 1 - target) : 0, target);
}

/* Writes a new file next to the target, then renames it. Returns false with errno on failure;
 * EACCES if the folder refuses a new file. */
static bool write_renamed(const struct write_file *file, const char *target, mode_t mode) {
    char *fresh = write_fresh_name(target);
    int fd = mkostemp(fresh, O_CLOEXEC);
    if (fd < 0) {
        free(fresh);
        return false;
    }
    bool is_good = fchmod(fd, mode) == 0;
    is_good = write_bytes(fd, file->text, file->bytes) && is_good;
    is_good = is_good && rename(fresh, target) == 0;
    if (!is_good) {
        int error = errno;
        unlink(fresh);
        errno = error;
    }
    free(fresh);
    return is_good;
}

/* Returns false if the file must be written in place: a device, a pipe, or another user's file.
 * Everything else is replaced by renaming. */
static bool write_can_rename(const struct write_file *file, bool *exists, mode_t *mode) {
    struct stat old;
    *exists = stat(file->path, &old) == 0;
    bool is_link = !*exists && lstat(file->path, &old) == 0;
    if (is_link || (*exists && (!S_ISREG(old.st_mode) || old.st_uid != geteuid()))) {
        return false;
    }
    mode_t mask = umask(0);
    umask(mask);
    *mode = *exists ? old.st_mode & 07777 : (mode_t)0666 & ~mask;
    return true;
}

/* Writes the document. */
static bool write_document(const struct write_file *file) {
    if (write_is_stdout(file->path)) {
        return fwrite(file->text, 1, file->bytes, stdout) == file->bytes;
    }
    mode_t mode;
    bool exists;
    if (!write_can_rename(file, &exists, &mode)) {
        return write_directly(file);
    }
    char *target = exists ? realpath(file->path, NULL) : cli_format("%s", file->path);
    bool is_good = target && write_renamed(file, target, mode);
    int error = errno;
    free(target);
    errno = error;
    /* A folder in which no file can be created may have a file that can be written. */
    return is_good || (exists && (error == EACCES || error == EPERM) && write_directly(file));
}

FILE *write_begin(struct write_file *file) {
    file->stream = open_memstream(&file->text, &file->bytes);
    if (!file->stream) {
        cli_say("out of memory");
        exit(CLI_CANNOT);
    }
    return file->stream;
}

int write_end(struct write_file *file) {
    bool failed = ferror(file->stream) != 0;
    if (fclose(file->stream) != 0 || failed) {
        cli_say("out of memory");
        exit(CLI_CANNOT);
    }
    file->stream = NULL;
    int code = write_check(file);
    errno = 0;
    if (code == CLI_OK && !write_document(file)) {
        code = write_fail(write_is_stdout(file->path) ? "to standard output" : file->path,
                          errno ? strerror(errno) : "a write failed");
    }
    free(file->text);
    file->text = NULL;
    return code;
}

/* ---- large documents ------------------------------------------------------------------------- */

/* Opens a new file next to the target. Returns its descriptor, or -1 with errno. */
static int open_fresh(struct write_file *file, bool exists, mode_t mode) {
    file->target = exists ? realpath(file->path, NULL) : cli_format("%s", file->path);
    if (!file->target) {
        return -1;
    }
    file->fresh = write_fresh_name(file->target);
    int fd = mkostemp(file->fresh, O_CLOEXEC);
    if (fd < 0 || fchmod(fd, mode) != 0) {
        int error = errno;
        if (fd >= 0) {
            close(fd);
            unlink(file->fresh);
        }
        free(file->fresh);
        file->fresh = NULL;
        errno = error;
        return -1;
    }
    return fd;
}

int write_open(struct write_file *file) {
    bool exists = false;
    mode_t mode;
    int code = write_check(file);
    if (code) {
        return code;
    }
    if (write_is_stdout(file->path)) {
        file->stream = stdout;
        return CLI_OK;
    }
    bool can_rename = write_can_rename(file, &exists, &mode);
    int fd = can_rename ? open_fresh(file, exists, mode) : -1;
    /* A folder in which no file can be created may have a file that can be written. */
    if (fd < 0 && (!can_rename || (exists && (errno == EACCES || errno == EPERM)))) {
        fd = open(file->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    }
    file->stream = fd < 0 ? NULL : fdopen(fd, "wb");
    if (!file->stream) {
        code = write_fail(file->path, strerror(errno));
        free(file->target);
        file->target = NULL;
    }
    return code;
}

int write_close(struct write_file *file) {
    bool is_stdout = write_is_stdout(file->path), is_good = !ferror(file->stream);
    errno = 0;
    is_good = fflush(file->stream) == 0 && is_good;
    int error = errno;
    if (!is_stdout && fclose(file->stream) != 0) {
        error = errno;
        is_good = false;
    }
    file->stream = NULL;
    if (is_good && file->fresh && rename(file->fresh, file->target) != 0) {
        error = errno;
        is_good = false;
    }
    if (!is_good && file->fresh) {
        unlink(file->fresh);
    }
    free(file->fresh);
    free(file->target);
    file->fresh = file->target = NULL;
    return is_good ? CLI_OK
                   : write_fail(is_stdout ? "to standard output" : file->path,
                                error ? strerror(error) : "a write failed");
}
