#!/usr/bin/env bash
# acre_heap.h compiles without a warning in C11, C++17 and nvcc: plain, as a drop-in for malloc and
# in debug builds. The compiled code calls the right functions. Uses every compiler that is
# installed.
set -euo pipefail

source=${ACRE_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${ACRE_BUILD:-$source/build}
cache=$build/CMakeCache.txt
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

if grep -q '^ACRE_SANITIZE:[A-Z]*=.\|^ACRE_DEBUG:BOOL=\(ON\|1\|TRUE\)' "$cache"; then
    echo "skipped: this test compiles with its own flags; a plain build runs it"
    exit 77
fi
# shellcheck source-path=SCRIPTDIR/../..
. "$source/tests/support/beside.sh"
warnings=(-Wall -Wextra -Wshadow -Wconversion -Wpedantic -Werror)
include=(-I"$source/include")
link=(-L"$build" -lacre "-Wl,-rpath,$build" -pthread)

cat >"$tmp/all.c" <<'EOF'
#include <acre_heap.h>
int use(acre_heap_handle h);
int use(acre_heap_handle h) {
    void *p = acre_heap_malloc_tagged(h, 10, 3);
    p = acre_heap_realloc(h, p, 20);
    acre_heap_set_tag(h, p, 4);
    int is_large = acre_heap_usable_size(h, p) >= 20;
    acre_heap_free(h, p);
    return is_large;
}
EOF
cp "$tmp/all.c" "$tmp/all.cpp"

# in_c COMPILER FLAG...: with and without debugging.
in_c() {
    local debug
    for debug in "" -DACRE_HEAP_DEBUG; do
        "$1" -std=c11 "${@:2}" "${warnings[@]}" -Wmissing-prototypes "${include[@]}" ${debug:+"$debug"} \
            -c -o /dev/null "$tmp/all.c"
    done
}
# in_cpp COMPILER FLAG...: also runs the programs.
in_cpp() {
    local program out
    "$1" -std=c++17 "${@:2}" "${warnings[@]}" "${include[@]}" -fsyntax-only "$tmp/all.cpp"
    for program in heap_dropin heap_cpp; do
        out=$(mktemp -p "$tmp")
        "$1" -std=c++17 "${@:2}" "${warnings[@]}" "${include[@]}" -o "$out" \
            "$source/tests/api/$program.cpp" "${link[@]}"
        "$out"
    done
    echo "C++17: $*"
}
# gcc has warnings that only its optimiser can give.
for compiler in gcc clang; do
    command -v "$compiler" >/dev/null || continue
    optimised=-O2
    [ $compiler = gcc ] || optimised=-fsyntax-only
    beside in_c "$compiler" $optimised
    # The drop-in adds a few names to the same functions.
    beside in_c "$compiler" -fsyntax-only -DACRE_HEAP_AS_MALLOC
    echo "C11: $compiler"
done
for compiler in g++ clang++; do
    command -v "$compiler" >/dev/null || continue
    beside in_cpp "$compiler" -O2
    beside in_cpp "$compiler" -O0 -DACRE_HEAP_DEBUG
done

nvcc=$(sed -n 's/^ACRE_NVCC:[A-Z]*=//p' "$cache")
if ! grep -q '^ACRE_NVCC_WORKS:[A-Z]*=TRUE' "$cache"; then
    beside_ends
    echo "nvcc: not installed, or it does not work"
    exit 0
fi

# nvcc_quiet ARG...: nvcc must not warn.
nvcc_quiet() {
    local said rc=0
    said=$("$nvcc" -std=c++17 -arch=sm_90 -Xcompiler -Wall,-Wextra "${include[@]}" "$@" 2>&1) || rc=$?
    if [ $rc -ne 0 ] || [ -n "$said" ]; then
        echo "$said"
        return 1
    fi
}

# The kernel of the README.
awk '/^```cuda$/ {on = 1; next} /^```$/ {on = 0} on' "$source/README.md" >"$tmp/readme.cu"
grep -q __global__ "$tmp/readme.cu"
beside nvcc_quiet -ptx -o "$tmp/readme.ptx" "$tmp/readme.cu"

# -G does not optimise, and halves the time to compile what does not run.
beside nvcc_quiet -G -ptx -o "$tmp/cpp.ptx" "$source/tests/api/heap_cpp.cu"

# clang's CUDA mode, if the newest clang here knows this toolkit: examples for the device and the host,
# and a drop-in with `new`, which leaves nothing to CUDA's own malloc.
cat >"$tmp/new.cu" <<'EOF'
#define ACRE_HEAP_AS_MALLOC
#define ACRE_HEAP_AS_NEW
#include <acre_heap.h>
struct alignas(256) wide { int value; };
__global__ void kernel(wide **at, int **number) {
    at[0] = new wide;
    number[0] = new int[4];
    delete at[1];
    delete[] number[1];
    free(malloc(10));
}
EOF
echo '__global__ void kernel(int *at) { *at = 1; }' >"$tmp/empty.cu"
newest=$(compgen -c 'clang++' | sort -uV | tail -n 1)
toolkit=$(dirname "$(dirname "$(realpath "$nvcc")")")
clang_cuda() {
    "$newest" -x cuda --cuda-gpu-arch=sm_90 --cuda-path="$toolkit" -std=c++17 -O1 -Wall -Wextra -Werror \
        -Wno-unknown-cuda-version "${include[@]}" "$@"
}
clang_new() {
    clang_cuda --cuda-device-only -S -o "$tmp/new.ptx" "$tmp/new.cu"
    if grep -A1 '\.extern \.func' "$tmp/new.ptx"; then
        echo "$newest: kernels call CUDA's own"
        exit 1
    fi
}
if [ -n "$newest" ] && clang_cuda --cuda-device-only -S -o "$tmp/empty.ptx" "$tmp/empty.cu" 2>"$tmp/said"; then
    for example in heap_persist_dropin heap_linked_list heap_per_block; do
        beside clang_cuda --cuda-device-only -S -o "$tmp/$example.ptx" "$source/examples/$example.cu"
        beside clang_cuda --cuda-host-only -c -o "$tmp/$example.o" "$source/examples/$example.cu"
    done
    beside clang_new
    echo "CUDA by $newest"
else
    echo "CUDA by ${newest:-clang}: skipped, it does not know this toolkit: $(head -n 1 "$tmp/said" 2>/dev/null)"
fi

# The kernels call only acre's malloc; host code calls the C library.
dropin_calls() {
    local ptx=$tmp/dropin$1.ptx
    nvcc_quiet -O3 "$@" -ptx -o "$ptx" "$source/tests/api/heap_dropin.cu"
    if grep -E '\.extern \.func.* (malloc|free|__nv_aligned_device_malloc_impl)' "$ptx"; then
        echo "nvcc: kernels call CUDA's own"
        exit 1
    fi
    grep -q 'acre__heap_as_malloc' "$ptx"
}
beside dropin_calls -DPLAIN
beside dropin_calls -DACRE_HEAP_DEBUG
# Each file has its own heap variable; with relocatable device code all files share one.
quick=(-G -L"$build" -lacre)
cat >"$tmp/other.cu" <<'EOF'
#define ACRE_HEAP_AS_MALLOC
#include <acre_heap.h>
__global__ void other(void *p) { free(p); }
EOF
own_heaps() {
    nvcc_quiet -o "$tmp/two" "$source/tests/api/heap_dropin.cu" "$tmp/other.cu" "${quick[@]}"
    nm -u "$tmp/two" >"$tmp/names"
    grep -qE ' malloc(@|$)' "$tmp/names"
}
beside own_heaps
cat >"$tmp/plain.cu" <<'EOF'
__global__ void plain(void **at) { at[0] = malloc(10); }
EOF
shared_heap() {
    nvcc_quiet -rdc=true -c -o "$tmp/dropin.o" "$source/tests/api/heap_dropin.cu" "${quick[@]}"
    nvcc_quiet -rdc=true -o "$tmp/one" "$tmp/dropin.o" "$tmp/plain.cu" "${quick[@]}"
    if "$nvcc" -std=c++17 -arch=sm_90 -rdc=true "${include[@]}" -o "$tmp/three" "$tmp/dropin.o" \
        "$tmp/other.cu" "${quick[@]}" >"$tmp/linked" 2>&1; then
        echo "nvcc: linked two files with the drop-in and -rdc=true, which must fail"
        exit 1
    fi
    grep -q "Multiple definition of 'acre__heap_as_malloc'" "$tmp/linked"
}
beside shared_heap
beside_ends
echo "nvcc: $nvcc"
