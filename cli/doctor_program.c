/* acre doctor -- PROGRAM: why `acre run` would not see the CUDA calls of a program. Reads the
 * program's file and runs nothing of it.
 *
 * `acre run` preloads libraries, so it needs a dynamic linker that honours LD_PRELOAD and LD_AUDIT.
 * The file is untrusted: pread reads every part, and a short read counts as "not such a file". */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "doctor.h"
#include "elf_static.h"

static const char program_area[] = "program";

enum {
    PROGRAM_LINE = 256,    /* as much of a #! line as Linux reads */
    PROGRAM_SCRIPTS = 4,   /* as many scripts that start scripts as Linux allows */
    PROGRAM_SEGMENTS = 256 /* more than any linker writes */
};

#if defined(__x86_64__)
enum { PROGRAM_MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
enum { PROGRAM_MACHINE = EM_AARCH64 };
#else
#error "doctor_program.c does not know this processor"
#endif

/* ---- the file -------------------------------------------------------------------------------- */

static bool program_can_start(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

/* Finds a program as execvp does. The caller frees the path; NULL if there is none. */
static char *program_find(const char *name) {
    const char *folders = getenv("PATH");
    if (strchr(name, '/')) {
        return program_can_start(name) ? cli_format("%s", name) : NULL;
    }
    for (folders = folders ? folders : "/bin:/usr/bin";; folders++) {
        size_t length = strcspn(folders, ":");
        char *path = cli_format("%.*s/%s", length ? (int)length : 1, length ? folders : ".", name);
        if (program_can_start(path)) {
            return path;
        }
        free(path);
        folders += length;
        if (!*folders) {
            return NULL;
        }
    }
}

static void program_check_missing(struct doctor *doctor, const char *name) {
    struct stat info;
    const char *why = "is not in a folder of PATH";
    if (strchr(name, '/')) {
        why = stat(name, &info) != 0   ? strerror(errno)
              : S_ISDIR(info.st_mode)  ? "is a folder"
              : !S_ISREG(info.st_mode) ? "is not a regular file"
                                       : "is not executable";
    }
    doctor_add(doctor, program_area, "file", DOCTOR_PROBLEM,
               "name an executable file; chmod +x makes a file executable", "%.200s: %s", name,
               why);
}

/* The dynamic linker ignores LD_PRELOAD and LD_AUDIT for programs that gain privileges. */
static void program_check_privileges(struct doctor *doctor, const char *path) {
    static const char advice[] =
        "the dynamic linker ignores LD_PRELOAD here: run a copy without the privilege (cp), or "
        "run acre as the user that the program becomes";
    struct stat info;
    if (stat(path, &info) != 0) {
        return;
    }
    if ((info.st_mode & S_ISUID && info.st_uid != geteuid()) ||
        (info.st_mode & S_ISGID && info.st_gid != getegid())) {
        doctor_add(doctor, program_area, "privileges", DOCTOR_PROBLEM, advice,
                   "the program is set-%s-ID", info.st_mode & S_ISUID ? "user" : "group");
    } else if (geteuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0) {
        doctor_add(doctor, program_area, "privileges", DOCTOR_PROBLEM, advice,
                   "the program's file has capabilities (getcap shows them)");
    } else {
        doctor_add(doctor, program_area, "privileges", DOCTOR_OK, NULL, "the program gains none");
    }
}

/* ---- ELF ------------------------------------------------------------------------------------- */

/* Reads the path of the dynamic linker; "" if the program has none. */
static void program_read_loader(int fd, const Elf64_Ehdr *header, char loader[PROGRAM_LINE]) {
    loader[0] = '\0';
    for (unsigned i = 0; i < header->e_phnum && i < PROGRAM_SEGMENTS; i++) {
        Elf64_Phdr segment;
        if (header->e_phoff > INT64_MAX / 2 ||
            pread(fd, &segment, sizeof segment, (off_t)(header->e_phoff + i * sizeof segment)) !=
                (ssize_t)sizeof segment) {
            return;
        }
        if (segment.p_type != PT_INTERP || segment.p_filesz >= PROGRAM_LINE ||
            segment.p_offset > INT64_MAX) {
            continue;
        }
        ssize_t bytes = pread(fd, loader, segment.p_filesz, (off_t)segment.p_offset);
        loader[bytes > 0 ? bytes : 0] = '\0';
        return;
    }
}

static void program_check_loader(struct doctor *doctor, const char *path, const char *loader) {
    if (elf_is_static(path)) {
        doctor_add(doctor, program_area, "linking", DOCTOR_PROBLEM,
                   "link the program dynamically (without -static)",
                   "the program is linked statically, so nothing can be preloaded");
    } else if (!loader[0]) {
        doctor_add(doctor, program_area, "linking", DOCTOR_PROBLEM,
                   "name the program that loads the library", "the file is a library");
    } else if (strstr(loader, "ld-musl")) {
        doctor_add(doctor, program_area, "linking", DOCTOR_PROBLEM,
                   "use a build for glibc; NVIDIA's driver needs glibc, too",
                   "the program's dynamic linker is musl's (%s)", loader);
    } else if (access(loader, X_OK) != 0) {
        doctor_add(doctor, program_area, "linking", DOCTOR_PROBLEM,
                   "install the C library that the program was built for",
                   "the program's dynamic linker %s is not there", loader);
    } else {
        doctor_add(doctor, program_area, "linking", DOCTOR_OK, NULL, "dynamically, with %s",
                   loader);
    }
}

/* Returns false if the file is not an ELF file. */
static bool program_check_elf(struct doctor *doctor, const char *path, int fd) {
    Elf64_Ehdr header;
    char loader[PROGRAM_LINE];
    if (pread(fd, &header, sizeof header, 0) != (ssize_t)sizeof header ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
        return false;
    }
    bool is_wide = header.e_ident[EI_CLASS] == ELFCLASS64;
    if (!is_wide || header.e_machine != PROGRAM_MACHINE) {
        doctor_add(doctor, program_area, "processor", DOCTOR_PROBLEM,
                   "use a 64-bit build for the processor of this machine",
                   "the program is for another processor than acre (%s-bit, ELF machine %d)",
                   is_wide ? "64" : "32", header.e_machine);
        return true;
    }
    doctor_add(doctor, program_area, "processor", DOCTOR_OK, NULL, "that of acre, 64-bit");
    program_read_loader(fd, &header, loader);
    program_check_loader(doctor, path, loader);
    program_check_privileges(doctor, path);
    return true;
}

/* ---- scripts --------------------------------------------------------------------------------- */

/* Finds the interpreter in a #! line; for "/usr/bin/env NAME" it is NAME. The caller frees the
 * result; NULL if the file is not a script. */
static char *program_interpreter(int fd) {
    char line[PROGRAM_LINE] = "", *rest = NULL;
    ssize_t bytes = pread(fd, line, sizeof line - 1, 0);
    line[bytes > 0 ? bytes : 0] = '\0';
    line[strcspn(line, "\r\n")] = '\0';
    if (strncmp(line, "#!", 2) != 0) {
        return NULL;
    }
    char *word = strtok_r(line + 2, " \t", &rest);
    const char *slash = word ? strrchr(word, '/') : NULL;
    if (word && strcmp(slash ? slash + 1 : word, "env") == 0) {
        while ((word = strtok_r(NULL, " \t", &rest)) && (word[0] == '-' || strchr(word, '='))) {
        }
    }
    return word ? cli_format("%s", word) : NULL;
}

/* Checks one file. Returns the interpreter of a script, which the caller checks and frees. */
static char *program_check_file(struct doctor *doctor, const char *name) {
    char *path = program_find(name), *interpreter = NULL;
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY) : -1;
    if (!path) {
        program_check_missing(doctor, name);
        return NULL;
    }
    if (fd < 0) {
        doctor_add(doctor, program_area, "file", DOCTOR_WARN, "make the file readable",
                   "%.200s cannot be read: %s", path, strerror(errno));
    } else if ((interpreter = program_interpreter(fd))) {
        doctor_add(doctor, program_area, "file", DOCTOR_OK, NULL, "%.200s is a script for %.200s",
                   path, interpreter);
    } else {
        doctor_add(doctor, program_area, "file", DOCTOR_OK, NULL, "%.200s", path);
        if (!program_check_elf(doctor, path, fd)) {
            doctor_add(doctor, program_area, "format", DOCTOR_PROBLEM,
                       "a script needs a first line such as #!/bin/sh",
                       "the file is neither an ELF program nor a script with a #! line");
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    free(path);
    return interpreter;
}

/* ---- the environment ------------------------------------------------------------------------- */

static void program_check_variable(struct doctor *doctor, const char *name) {
    const char *value = getenv(name);
    if (value && *value) {
        doctor_add(doctor, program_area, name, DOCTOR_WARN,
                   "unset it if the program does not need it, and compare",
                   "it is set already (%.200s): that library may hide calls from acre", value);
    } else {
        doctor_add(doctor, program_area, name, DOCTOR_OK, NULL, "not set");
    }
}

static void program_check_gate(struct doctor *doctor) {
    int major = 0, minor = 0;
    bool has_audit =
        sscanf(gnu_get_libc_version(), "%d.%d", &major, &minor) == 2 && (major > 2 || minor >= 35);
    doctor_add(doctor, program_area, "gate", has_audit ? DOCTOR_OK : DOCTOR_WARN,
               has_audit ? NULL
                         : "calls of libraries that are loaded with RTLD_DEEPBIND are not seen; a "
                           "newer glibc has no such limit",
               "glibc %s: acre run --watch uses the %s gate", gnu_get_libc_version(),
               has_audit ? "audit" : "preload");
}

void doctor_check_program(struct doctor *doctor, const char *program) {
    char *name = cli_format("%s", program);
    for (unsigned i = 0; name && i <= PROGRAM_SCRIPTS; i++) {
        char *interpreter = program_check_file(doctor, name);
        free(name);
        name = interpreter;
    }
    if (name) {
        doctor_add(doctor, program_area, "file", DOCTOR_PROBLEM, "name the program itself",
                   "scripts start scripts: Linux allows %d", (int)PROGRAM_SCRIPTS);
        free(name);
    }
    program_check_gate(doctor);
    program_check_variable(doctor, "LD_PRELOAD");
    program_check_variable(doctor, "LD_AUDIT");
}
