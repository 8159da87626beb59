/* Runs stored inputs through the fuzzed entry point, without libFuzzer: each as it is, and as many
 * mutations of it as are asked for.
 *
 *   fuzz_NAME_plain [--mutate N] [--seed S] [--keep FILE] FILE_OR_FOLDER...
 *
 * The same seed gives the same mutations. --keep writes each input to FILE before it is tried, so
 * that after a crash FILE is the one that did it. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz_quiet.h"

enum { MAIN_BYTES = 1 << 20, MAIN_FILES = 1024 };

static struct {
    uint64_t mutations, seed, tried;
    const char *keep;
    char *files[MAIN_FILES];
    size_t file_count;
} run = {.seed = 1};

static uint64_t main_random(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static void main_die(const char *what, const char *path) {
    fprintf(stderr, "fuzz: %s %s: %s\n", what, path, strerror(errno));
    exit(2);
}

/* A copy of its exact size, so that a sanitizer sees the first byte read past the end. */
static void main_try(const unsigned char *bytes, size_t count) {
    unsigned char *copy = malloc(count ? count : 1);
    FILE *keep = run.keep ? fopen(run.keep, "wbe") : NULL;
    if (!copy || (run.keep && !keep)) {
        main_die("cannot write", run.keep ? run.keep : "memory");
    }
    if (keep) {
        fwrite(bytes, 1, count, keep);
        fclose(keep);
    }
    memcpy(copy, bytes, count);
    LLVMFuzzerTestOneInput(copy, count);
    free(copy);
    run.tried++;
}

/* Puts `count` bytes in the place of `length` at `at`; what would be too long is left as it was. */
static size_t main_splice(unsigned char *bytes, size_t have, size_t at, size_t length,
                          const void *with, size_t count) {
    if (have - length + count > MAIN_BYTES) {
        return have;
    }
    memmove(bytes + at + count, bytes + at + length, have - at - length);
    memcpy(bytes + at, with, count);
    return have - length + count;
}

static size_t main_mutate(unsigned char *bytes, size_t have, uint64_t *state) {
    static const char *const words[] = {"18446744073709551615",
                                        "18446744073709551616",
                                        "0",
                                        "-1",
                                        "\n",
                                        "\r\n",
                                        ",",
                                        ",,",
                                        "free",
                                        "allocate",
                                        "allocate failure",
                                        "0x",
                                        "(nil)",
                                        "ffffffffffffffff",
                                        "00:00:00.0",
                                        "\037\213",
                                        "id,lower,upper,size\n",
                                        "alignment",
                                        "id,offset\n",
                                        "\f",
                                        "9223372036854775807",
                                        "Thread,Time,Action,Pointer,Size,Stream\n"};
    static const uint32_t numbers[] = {
        0, 1, 2, 64, 253, 1000, 1001, 131072, 131073, 1u << 21, 1u << 31, INT32_MAX, UINT32_MAX};
    unsigned char part[4096], byte = (unsigned char)main_random(state);
    size_t at = have ? main_random(state) % have : 0, left = have - at;
    size_t length = left ? 1 + main_random(state) % (left < sizeof part ? left : sizeof part) : 0;
    const char *word = words[main_random(state) % (sizeof words / sizeof words[0])];
    uint32_t number = numbers[main_random(state) % (sizeof numbers / sizeof numbers[0])];
    switch (main_random(state) % 8) {
    case 0: /* one byte becomes another */
        return main_splice(bytes, have, at, left ? 1 : 0, &byte, 1);
    case 1: /* one bit */
        if (left)
            byte = (unsigned char)(bytes[at] ^ 1u << byte % 8);
        return main_splice(bytes, have, at, left ? 1 : 0, &byte, 1);
    case 2: /* a part goes */
        return main_splice(bytes, have, at, length, "", 0);
    case 3: /* a part comes again somewhere else */
        memcpy(part, bytes + at, length);
        return main_splice(bytes, have, have ? main_random(state) % have : 0, 0, part, length);
    case 4: /* a word comes in */
        return main_splice(bytes, have, at, 0, word, strlen(word));
    case 5: /* a word in the place of some bytes */
        return main_splice(bytes, have, at, left < 4 ? left : 4, word, strlen(word));
    case 6: /* a binary number in the place of as many bytes */
        return main_splice(bytes, have, at, left < 4 ? left : 4, &number, left < 4 ? left : 4);
    default: /* the end goes */
        return at;
    }
}

static void main_file(const char *path) {
    static unsigned char stored[MAIN_BYTES], bytes[MAIN_BYTES];
    FILE *file = fopen(path, "rbe");
    if (!file) {
        main_die("cannot read", path);
    }
    size_t count = fread(stored, 1, sizeof stored, file);
    fclose(file);
    main_try(stored, count);
    uint64_t state = run.seed;
    for (const char *c = path + strlen(path); c > path && c[-1] != '/'; c--) {
        state = (state ^ (unsigned char)c[-1]) * 0x100000001b3; /* each file its own mutations */
    }
    for (uint64_t i = 0; i < run.mutations; i++) {
        size_t have = count;
        memcpy(bytes, stored, count);
        for (uint64_t k = 1 + main_random(&state) % 3; k > 0; k--) {
            have = main_mutate(bytes, have, &state);
        }
        main_try(bytes, have);
    }
}

static int main_compare(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void main_add(const char *folder, const char *name) {
    char *path = NULL;
    if (run.file_count == MAIN_FILES ||
        asprintf(&path, "%s%s%s", folder, *folder ? "/" : "", name) < 0) {
        main_die("too many files at", name);
    }
    run.files[run.file_count++] = path;
}

static void main_walk(const char *path) {
    struct stat found;
    if (stat(path, &found) != 0) {
        main_die("cannot read", path);
    }
    DIR *folder = S_ISDIR(found.st_mode) ? opendir(path) : NULL;
    if (!folder) {
        main_add("", path);
        return;
    }
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] != '.') {
            main_add(path, entry->d_name);
        }
    }
    closedir(folder);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--mutate") == 0) {
            run.mutations = strtoull(value, NULL, 0);
            i++;
        } else if (strcmp(argv[i], "--seed") == 0) {
            run.seed = strtoull(value, NULL, 0);
            i++;
        } else if (strcmp(argv[i], "--keep") == 0) {
            run.keep = value;
            i++;
        } else {
            main_walk(argv[i]);
        }
    }
    qsort(run.files, run.file_count, sizeof run.files[0], main_compare);
    printf("fuzz: seed %" PRIu64 "\n", run.seed);
    fflush(stdout);
    for (size_t i = 0; i < run.file_count; i++) {
        main_file(run.files[i]);
        free(run.files[i]);
    }
    printf("%zu files, %" PRIu64 " inputs\n", run.file_count, run.tried);
    return run.file_count ? 0 : 2;
}
