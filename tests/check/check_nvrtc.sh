#!/usr/bin/env bash
# NVRTC compiles kernels that use the heap, from the headers and from the one merged header, for the
# oldest and the newest architecture; so does nvcc with replaced new and delete. Skipped without a
# CUDA toolkit.
set -euo pipefail

: "${ACRE_BUILD:?}"
source_dir=${ACRE_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# shellcheck source-path=SCRIPTDIR/../..
. "$source_dir/tests/support/beside.sh"
cached() { sed -n "s/^$1:[A-Z]*=//p" "$ACRE_BUILD/CMakeCache.txt"; }
nvcc=$(cached ACRE_NVCC)
library=
if [ -x "$nvcc" ]; then
    toolkit=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
    library=$({ find "$toolkit/lib64/" "$toolkit"/targets/*/lib/ -name libnvrtc.so 2>/dev/null || true; } | head -n 1)
fi
if [ -z "$library" ]; then
    echo "skipped: NVRTC is not installed"
    exit 77
fi
"$(cached CMAKE_C_COMPILER)" -I"$(dirname "$library")/../include" -I"$toolkit/include" \
    "$source_dir/tests/check/nvrtc_compile.c" -L"$(dirname "$library")" -lnvrtc \
    -Wl,-rpath,"$(dirname "$library")" -o "$tmp/compile"

cat >"$tmp/plain.cu" <<'KERNEL'
#include HEADER
extern "C" __global__ void churn(acre_heap_handle h, int **out) {
    int *p = (int *)acre_heap_malloc(h, 64), *q = (int *)acre_heap_aligned_malloc(h, 100, 256);
    acre_heap_free(h, q);
    out[blockIdx.x * blockDim.x + threadIdx.x] = p;
}
KERNEL
cat >"$tmp/dropin.cu" <<'KERNEL'
#define ACRE_HEAP_AS_MALLOC
#define ACRE_HEAP_AS_NEW
#include HEADER
struct node {
    node *next;
    __device__ explicit node(node *to) : next(to) {}
};
extern "C" __global__ void churn(node **out) {
    node *p = new node(nullptr), *many = (node *)malloc(100);
    free(many);
    delete p;
    out[threadIdx.x] = (node *)new char[100];
}
KERNEL

# compile FILE HEADER FOLDER ARCHITECTURE [OPTION...]
compile() {
    local file=$1 header=$2 now
    now=$(mktemp -p "$tmp" --suffix=.cu)
    sed "s/HEADER/\"$header\"/" "$tmp/$file.cu" >"$now"
    shift 2
    echo "check_nvrtc: $file with $header for $2"
    "$tmp/compile" "$1" "$now" "${@:2}"
}
mkdir "$tmp/one"
cp "$ACRE_BUILD/include/acre_heap_rtc.h" "$tmp/one/"
beside compile plain acre_heap.h "$source_dir/include" sm_75
beside compile plain acre_heap_rtc.h "$tmp/one" sm_120
beside compile plain acre_heap_rtc.h "$tmp/one" sm_90 -DACRE_HEAP_DEBUG
beside compile dropin acre_heap_rtc.h "$tmp/one" sm_90 -std=c++17

# nvcc: host code keeps its own new and delete.
sed 's/HEADER/<acre_heap.h>/' "$tmp/dropin.cu" >"$tmp/now.cu"
echo 'int main() { int *p = new int(3); delete p; return 0; }' >>"$tmp/now.cu"
beside "$nvcc" -std=c++17 -arch=sm_90 -I"$source_dir/include" -c "$tmp/now.cu" -o "$tmp/now.o"
beside_ends
