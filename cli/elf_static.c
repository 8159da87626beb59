/* Reads the parts of an ELF file that show whether it is linked statically; see elf_static.h. The
 * file is untrusted: pread reads every part, and a short read counts as failure. */
#include "elf_static.h"

#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

/* More than any linker writes; further entries are ignored. */
enum { ELF_SEGMENTS = 256, ELF_DYNAMIC_ENTRIES = 512 };

static bool elf_read(int fd, uint64_t offset, void *out, size_t bytes) {
    return offset <= INT64_MAX && pread(fd, out, bytes, (off_t)offset) == (ssize_t)bytes;
}

/* Whether the dynamic section has the flag DF_1_PIE, which programs have and libraries lack. */
static bool elf_is_pie(int fd, const Elf64_Phdr *dynamic) {
    for (uint64_t i = 0; i < dynamic->p_filesz / sizeof(Elf64_Dyn) && i < ELF_DYNAMIC_ENTRIES;
         i++) {
        Elf64_Dyn entry;
        if (!elf_read(fd, dynamic->p_offset + i * sizeof entry, &entry, sizeof entry) ||
            entry.d_tag == DT_NULL) {
            return false;
        }
        if (entry.d_tag == DT_FLAGS_1) {
            return (entry.d_un.d_val & DF_1_PIE) != 0;
        }
    }
    return false;
}

static bool elf_fd_is_static(int fd) {
    Elf64_Ehdr header;
    bool is_pie = false;
    if (!elf_read(fd, 0, &header, sizeof header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr)) {
        return false;
    }
    for (unsigned i = 0; i < header.e_phnum && i < ELF_SEGMENTS; i++) {
        Elf64_Phdr segment;
        if (!elf_read(fd, header.e_phoff + i * sizeof segment, &segment, sizeof segment) ||
            segment.p_type == PT_INTERP) {
            return false;
        }
        is_pie = is_pie || (segment.p_type == PT_DYNAMIC && elf_is_pie(fd, &segment));
    }
    return header.e_type == ET_EXEC || (header.e_type == ET_DYN && is_pie);
}

bool elf_is_static(const char *path) {
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* never blocks */
    if (fd < 0) {
        return false;
    }
    bool is_static = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && elf_fd_is_static(fd);
    close(fd);
    return is_static;
}

static bool elf_can_start(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

char *elf_program_path(const char *program) {
    const char *folders = getenv("PATH");
    if (strchr(program, '/')) {
        return elf_can_start(program) ? cli_format("%s", program) : NULL;
    }
    for (folders = folders ? folders : "/bin:/usr/bin";; folders++) {
        size_t length = strcspn(folders, ":");
        char *path =
            cli_format("%.*s/%s", length ? (int)length : 1, length ? folders : ".", program);
        if (elf_can_start(path)) {
            return path;
        }
        free(path);
        folders += length;
        if (!*folders) {
            return NULL;
        }
    }
}

bool elf_is_static_program(const char *program) {
    char *path = elf_program_path(program);
    bool is_static = path && elf_is_static(path);
    free(path);
    return is_static;
}
