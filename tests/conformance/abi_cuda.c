/*
 * The values of abi_values.h as the toolkit's cuda.h has them, and a compile-time proof that
 * every function of driver_list.h has exactly the prototype that cuda.h declares for its symbol.
 * (cuda.h renames cuEventElapsedTime to its second form, whose prototype is the same. The second
 * form of cuStreamGetCaptureInfo, which every driver since CUDA 11.3 exports, is only in
 * cudaTypedefs.h.)
 *
 * Toolkits before CUDA 13 lack some of the names: the table is then left empty.
 */
#define CUDA_ENABLE_DEPRECATED
#include <cuda.h>
#include <cudaTypedefs.h>

#include "abi_table.h"
#include "driver/driver_list.h"

#if CUDA_VERSION >= 13000

extern __typeof__(*(PFN_cuStreamGetCaptureInfo_v11030)0) cuStreamGetCaptureInfo_v2;

#define ABI_PROTOTYPE(name, symbol, version, need, sticky, calls, moved, params, args)             \
    _Static_assert(_Generic(&symbol, CUresult(*) params : 1, default : 0),                         \
                   #symbol " differs from cuda.h");
ACRE__DRIVER_LIST(ABI_PROTOTYPE)

const struct abi_row abi_cuda[] = {
#include "abi_values.h"
};

const size_t abi_cuda_count = sizeof abi_cuda / sizeof abi_cuda[0];

#else

const struct abi_row abi_cuda[] = {{"toolkit too old", 0}};

const size_t abi_cuda_count = 0;

#endif
