/* The values of abi_values.h as cuda_abi.h has them. */
#include "driver/cuda_abi.h"

#include "abi_table.h"

const struct abi_row abi_ours[] = {
#include "abi_values.h"
};

const size_t abi_ours_count = sizeof abi_ours / sizeof abi_ours[0];
