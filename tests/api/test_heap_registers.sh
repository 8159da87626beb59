#!/usr/bin/env bash
# Kernels that use the heap fit: into the registers of a block of 1024 threads, plain and with
# -rdc=true, and into a bounded amount of code. On sm_90; in `make test-all` also on an old and a new
# architecture, which takes three times as long.
set -euo pipefail

source=${ACRE_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${ACRE_BUILD:-$source/build}

if grep -q '^ACRE_SANITIZE:[A-Z]*=.\|^ACRE_DEBUG:BOOL=\(ON\|1\|TRUE\)' "$build/CMakeCache.txt"; then
    echo "skipped: nvcc's result does not depend on this build; a plain build runs it"
    exit 77
fi
nvcc=$(sed -n 's/^ACRE_NVCC:FILEPATH=//p' "$build/CMakeCache.txt")
if [[ ! -x $nvcc ]]; then
    echo "skipped: nvcc is not installed"
    exit 77
fi
known=$("$nvcc" --list-gpu-code)
archs=()
wanted=90
! grep -q '^ACRE_TOOLCHAIN_TESTS:BOOL=ON' "$build/CMakeCache.txt" || wanted="75 90 120"
for arch in $wanted; do
    if grep -qx "sm_$arch" <<<"$known"; then
        archs+=(--arch "$arch")
    fi
done
table() {
    "$source/scripts/heap-table" --check --std 17 --jobs "$(nproc)" "${archs[@]}" "$@" "$nvcc" 2>/dev/null
}
table --kernel malloc --kernel free --kernel both --kernel "16 pairs"
table --few-registers --kernel live # fits with values of the kernel's own, too
