#!/usr/bin/env bash
# Kernels that use the heap fit: into the registers of a block of 1024 threads, plain and with
# -rdc=true, and into a bounded amount of code, on an old, a current and a new architecture.
set -euo pipefail

source=${ACRE_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${ACRE_BUILD:-$source/build}

if grep -q '^ACRE_SANITIZE:[A-Z]*=.\|^ACRE_DEBUG:BOOL=\(ON\|1\|TRUE\)' "$build/CMakeCache.txt"; then
    echo "registers: skipped: nvcc's result does not depend on this build; a plain build runs it"
    exit 77
fi
nvcc=$(sed -n 's/^ACRE_NVCC:FILEPATH=//p' "$build/CMakeCache.txt")
if [[ ! -x $nvcc ]]; then
    echo "registers: skipped: nvcc is not installed"
    exit 77
fi
known=$("$nvcc" --list-gpu-code)
# table ARCHITECTURE OPTION...: nothing if this nvcc does not know the architecture.
table() {
    local arch=$1
    shift
    ! grep -qx "sm_$arch" <<<"$known" || "$source/scripts/heap-table" --check --arch "$arch" "$@" "$nvcc" 2>/dev/null
}
table 90 --kernel malloc --kernel free --kernel both --kernel "16 pairs"
table 90 --few-registers --kernel both --kernel live # fits with values of the kernel's own, too
# `make heap-table ARGS=--check` compiles everything for every architecture, in minutes.
for arch in 75 120; do
    table "$arch" --kernel both
done
