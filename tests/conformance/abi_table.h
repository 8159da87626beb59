/*
 * abi_ours.c and abi_cuda.c each generate this table from abi_values.h, for abi_check.c. No file
 * can include both cuda_abi.h and cuda.h, hence a third file that includes neither.
 */
#ifndef ACRE_TESTS_ABI_TABLE_H
#define ACRE_TESTS_ABI_TABLE_H

#include <stddef.h>

struct abi_row {
    const char *what;
    long long value;
};

extern const struct abi_row abi_ours[];
extern const size_t abi_ours_count;

/* Linked only if the toolkit's cuda.h was found. */
extern const struct abi_row abi_cuda[];
extern const size_t abi_cuda_count;

#define ABI_SIZE(type) {"sizeof " #type, (long long)sizeof(type)},
#define ABI_SIGNED(type) {"signed " #type, (type)-1 < (type)1},
#define ABI_OFFSET(type, member) {"offset " #type "." #member, (long long)offsetof(type, member)},
#define ABI_VALUE(constant) {#constant, (long long)(constant)},

#endif
