/*
 * Compares cuda_abi.h with the toolkit's cuda.h, row by row, and checks that abi_values.h names
 * every constant that cuda_abi.h defines. Usage: abi_check path/to/cuda_abi.h
 * Exit: 0 all agree, 1 a difference, 2 could not run, 77 no toolkit of CUDA 13 or later
 * (completeness is still checked).
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "abi_table.h"

static int is_listed(const char *name) {
    size_t i;

    for (i = 0; i < abi_ours_count; i++)
        if (strcmp(abi_ours[i].what, name) == 0)
            return 1;
    return 0;
}

/* If the identifier at `text` is a constant (CU_..., CUDA_SUCCESS, CUDA_ERROR_...), copies it to
 * `name`. */
static int constant_at(const char *text, char name[80]) {
    size_t length = 0;

    while (length < 79 && (isalnum((unsigned char)text[length]) || text[length] == '_')) {
        name[length] = text[length];
        length++;
    }
    name[length] = '\0';
    return strncmp(name, "CU_", 3) == 0 || strncmp(name, "CUDA_SUCCESS", 12) == 0 ||
           strncmp(name, "CUDA_ERROR_", 11) == 0;
}

/* Lines that define a constant: "    NAME = value", "    X(NAME, ...", "#define NAME ...". */
static const char *definition_in(const char *line) {
    const char *equals = strstr(line, " = ");

    if (strncmp(line, "#define ", 8) == 0)
        return line + 8;
    if (strncmp(line, "    X(", 6) == 0)
        return line + 6;
    if (strncmp(line, "    CU", 6) == 0 && equals != NULL)
        return line + 4;
    return NULL;
}

static int check_complete(const char *path) {
    FILE *file = fopen(path, "r");
    char line[256], name[80];
    int found = 0, unlisted = 0;

    if (file == NULL) {
        fprintf(stderr, "abi_check: cannot read %s\n", path);
        return -1;
    }
    while (fgets(line, sizeof line, file) != NULL) {
        const char *text = definition_in(line);

        if (text == NULL || !constant_at(text, name))
            continue;
        found++;
        if (!is_listed(name)) {
            printf("not in abi_values.h: %s\n", name);
            unlisted++;
        }
    }
    fclose(file);
    if (found < 200) {
        printf("only %d constants found in %s: has its form changed?\n", found, path);
        unlisted++;
    }
    return unlisted;
}

#ifdef ACRE_HAVE_CUDA_H
static int compare(void) {
    size_t i;
    int different = 0;

    if (abi_ours_count != abi_cuda_count)
        return 1;
    for (i = 0; i < abi_ours_count; i++) {
        if (abi_ours[i].value == abi_cuda[i].value)
            continue;
        printf("%s: %lld here, %lld in cuda.h\n", abi_ours[i].what, abi_ours[i].value,
               abi_cuda[i].value);
        different++;
    }
    printf("%zu sizes, offsets and values compared, %d different\n", abi_ours_count, different);
    return different;
}
#endif

int main(int argc, char **argv) {
    int unlisted;

    if (argc != 2) {
        fprintf(stderr, "usage: abi_check path/to/cuda_abi.h\n");
        return 2;
    }
    unlisted = check_complete(argv[1]);
    if (unlisted != 0)
        return unlisted < 0 ? 2 : 1;
#ifdef ACRE_HAVE_CUDA_H
    if (abi_cuda_count > 0)
        return compare() != 0;
    printf("skipped: the toolkit is older than CUDA 13: values not compared\n");
#else
    printf("skipped: the toolkit's cuda.h was not found: values not compared\n");
#endif
    return 77;
}
