#!/usr/bin/env bash
# The headers of include/soft compile without a warning as C and as C++, alone and together, with
# every installed compiler. They declare every call of the driver's table that concerns memory, and
# nothing that the stand-ins lack. Where NVIDIA's headers of CUDA 13 are installed, every signature,
# constant and layout agrees.
set -euo pipefail

source=${ACRE_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${ACRE_BUILD:-$source/build}
here=$source/tests/standin
soft=$source/include/soft
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

if grep -q '^ACRE_SANITIZE:[A-Z]*=.' "$build/CMakeCache.txt"; then
    echo "skipped: this test compiles with its own flags; a plain build runs it"
    exit 77
fi
warnings=(-Wall -Wextra -Wshadow -Wconversion -Wpedantic -Werror)
modes=("" -DCUDA_API_PER_THREAD_DEFAULT_STREAM)
c_compilers=() cpp_compilers=()
for compiler in gcc clang; do
    command -v "$compiler" >/dev/null && c_compilers+=("$compiler")
done
for compiler in g++ clang++; do
    command -v "$compiler" >/dev/null && cpp_compilers+=("$compiler")
done
[ ${#c_compilers[@]} -gt 0 ] || c_compilers=(cc)
[ ${#cpp_compilers[@]} -gt 0 ] || cpp_compilers=(c++)
export CC=${c_compilers[0]}

# compile FLAG... FILE: compiles a file with every compiler, as C or C++ by its suffix.
compile() {
    local file=${*: -1} compiler
    if [[ $file == *.cpp ]]; then
        for compiler in "${cpp_compilers[@]}"; do
            "$compiler" -std=c++17 -fsyntax-only "$@"
        done
    else
        for compiler in "${c_compilers[@]}"; do
            "$compiler" -std=c11 -fsyntax-only "$@"
        done
    fi
}

# ---- each header alone ----
for headers in cuda.h cuda_runtime_api.h cuda_runtime.h vector_types.h vector_functions.h \
    "cuda.h cuda_runtime.h" "cuda_runtime.h cuda.h cuda_runtime_api.h"; do
    for language in c cpp; do
        read -ra names <<<"$headers"
        printf '#include <%s>\n' "${names[@]}" >"$tmp/alone.$language"
        echo 'int alone(void);' >>"$tmp/alone.$language"
        for mode in "${modes[@]}"; do
            compile "${warnings[@]}" ${mode:+"$mode"} -I"$soft" "$tmp/alone.$language"
        done
    done
done
for mode in "${modes[@]}"; do
    compile "${warnings[@]}" ${mode:+"$mode"} -I"$soft" "$here/headers_calls.cpp"
done
cp "$here/headers_vectors.c" "$tmp/vectors.c"
cp "$here/headers_vectors.c" "$tmp/vectors.cpp"
compile "${warnings[@]}" -I"$soft" "$tmp/vectors.c"
compile "${warnings[@]}" -I"$soft" "$tmp/vectors.cpp"

# ---- complete: all calls of the table, except those for kernels and other processes ----
python3 "$here/headers_rows.py" calls "$soft" | sort >"$tmp/declared"
sed -n 's/^ *X(\(cu[A-Za-z0-9]*\),.*/\1/p' "$source/src/driver/driver_list.h" |
    grep -vE '^cu(Module|LaunchKernel|IpcGetMemHandle)' | sort >"$tmp/table"
[ "$(wc -l <"$tmp/table")" -gt 100 ] || {
    echo "headers: the driver's list could not be read"
    exit 1
}
if missing=$(comm -13 "$tmp/declared" "$tmp/table") && [ -n "$missing" ]; then
    echo "headers: in the driver's table, but not in cuda.h:"
    echo "$missing"
    exit 1
fi

# ---- implemented: the stand-ins export every name, and not only as an unsupported call ----
python3 "$here/headers_rows.py" rows "$soft" >"$tmp/rows.c"
cp "$tmp/rows.c" "$tmp/rows.cpp"
for mode in "${modes[@]}"; do
    "$CC" -w ${mode:+"$mode"} -I"$soft" -o "$tmp/names" "$tmp/rows.c"
    "$tmp/names" | sed -n 's/^name .* //p'
done | sort -u | grep -vx cuGetProcAddress_v2_ptsz >"$tmp/names.txt" # cuGetProcAddress_v2_ptsz is defined in the header itself
for library in libcuda.so.1 libcudart.so.13; do
    nm -D --defined-only "$build/soft/$library" | sed -n 's/@.*//; s/.* //p'
done | sort -u >"$tmp/exported.txt"
sed -n 's/^ *X(\([^)]*\)).*/\1/p' "$source"/standin/driver_others.h "$source"/standin/runtime_others.h |
    sed 's/^[^,]*, *//; s/,.*//' | sort -u >"$tmp/others.txt"
if wrong=$(comm -23 "$tmp/names.txt" "$tmp/exported.txt" && comm -12 "$tmp/names.txt" "$tmp/others.txt") &&
    [ -n "$wrong" ]; then
    echo "headers: declared, but the stand-ins lack them:"
    echo "$wrong"
    exit 1
fi

# ---- compared with NVIDIA's headers ----
nvidia=$(sed -n 's/^ACRE_CUDA_INCLUDE:[A-Z]*=//p' "$build/CMakeCache.txt")
if ! grep -q '^#define CUDA_VERSION 13' "$nvidia/cuda.h" 2>/dev/null; then
    echo "headers: $(wc -l <"$tmp/declared") calls declared; NVIDIA's headers of CUDA 13 are not installed"
    exit 0
fi
# The headers include calls that NVIDIA's headers mark as deprecated. Warnings inside NVIDIA's
# headers are ignored.
quiet=(-isystem "$nvidia" -Wno-deprecated-declarations)
for mode in "${modes[@]}"; do
    python3 "$here/headers_rows.py" again "$soft" ${mode:+"$mode"} >"$tmp/again.c"
    cp "$tmp/again.c" "$tmp/again.cpp"
    for language in c cpp; do
        compile ${mode:+"$mode"} "${quiet[@]}" "$tmp/again.$language"
        compiler=$CC
        [ $language = c ] || compiler=${cpp_compilers[0]}
        "$compiler" -w ${mode:+"$mode"} -I"$soft" -o "$tmp/ours" "$tmp/rows.$language"
        "$compiler" -w ${mode:+"$mode"} -isystem "$nvidia" -o "$tmp/theirs" "$tmp/rows.$language"
        "$tmp/ours" >"$tmp/ours.txt"
        "$tmp/theirs" >"$tmp/theirs.txt"
        diff "$tmp/ours.txt" "$tmp/theirs.txt" || {
            echo "headers: < include/soft, > $nvidia"
            exit 1
        }
    done
    compile ${mode:+"$mode"} "${quiet[@]}" "$here/headers_calls.cpp"
done
for language in c cpp; do
    compiler=$CC
    [ $language = c ] || compiler=${cpp_compilers[0]}
    "$compiler" -w -I"$soft" -o "$tmp/ours" "$tmp/vectors.$language"
    "$compiler" -w -isystem "$nvidia" -o "$tmp/theirs" "$tmp/vectors.$language"
    diff <("$tmp/ours") <("$tmp/theirs") || {
        echo "headers: vectors: < include/soft, > $nvidia"
        exit 1
    }
done
[ "$(wc -l <"$tmp/ours.txt")" -gt 1000 ] || {
    echo "headers: only $(wc -l <"$tmp/ours.txt") rows: were the headers read?"
    exit 1
}
echo "headers: $(wc -l <"$tmp/declared") calls declared, $(wc -l <"$tmp/ours.txt") sizes, offsets," \
    "values and names agree with $nvidia"
