#!/usr/bin/env bash
# The headers of the C++ API compile without a warning: each one alone, with g++ in C++17 and with
# clang++ in C++20, and all of them with every template instantiated (cpp_everything.cpp) with g++ and
# clang++, in C++17 and C++20, with and without exceptions, and with nvcc. Headers that include CUDA's
# or other libraries' headers have tests of their own; those that nvcc comes with also compile in C++20.
set -euo pipefail

source=${ACRE_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${ACRE_BUILD:-$source/build}
cache=$build/CMakeCache.txt
if grep -q '^ACRE_SANITIZE:[A-Z]*=.' "$cache"; then
    echo "skipped: this test compiles with its own flags; a plain build runs it"
    exit 77
fi
command -v g++ >/dev/null || { echo "skipped: no g++"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$source"

everything=tests/cpp/cpp_everything.cpp
warnings="-Wall -Wextra -Wshadow -Wconversion -Wpedantic -Wnon-virtual-dtor -Werror"
mapfile -t headers < <(grep -LE '^ *# *include <(cuda|thrust|cub|rmm)' include/acre/acre.hpp include/acre/cpp/*.hpp)
[ ${#headers[@]} -gt 15 ]

# The newest clang, where Debian has several.
clang=$(compgen -c clang++ | grep -E '^clang\+\+(-[0-9]+)?$' | sort -t- -k2 -n | tail -n 1 || true)

# One command per line.
commands=$tmp/commands
for header in "${headers[@]}"; do
    name=$tmp/$(basename "$header").cpp
    echo "#include \"${header#include/}\"" >"$name"
    echo "g++ -std=c++17 $warnings -Iinclude -fsyntax-only $name"
    if [ -n "$clang" ]; then
        echo "$clang -std=c++20 $warnings -Iinclude -fsyntax-only $name"
    fi
done >"$commands"
{
    # Programs that ask for the advice of Effective C++ get none about the headers.
    echo "g++ -std=c++17 $warnings -Weffc++ -Iinclude -fsyntax-only $tmp/acre.hpp.cpp"
    echo "g++ -std=c++17 $warnings -Iinclude -fsyntax-only $everything"
    echo "g++ -std=c++20 -fno-exceptions -fno-rtti $warnings -Iinclude -fsyntax-only $everything"
    if [ -n "$clang" ]; then
        echo "$clang -std=c++17 -fno-exceptions $warnings -Iinclude -fsyntax-only $everything"
        echo "$clang -std=c++20 $warnings -Iinclude -fsyntax-only $everything"
    fi
    if grep -q '^ACRE_NVCC_WORKS:[A-Z]*=TRUE' "$cache"; then
        nvcc=$(sed -n 's/^ACRE_NVCC:[A-Z]*=//p' "$cache")
        echo "$nvcc -x cu -std=c++17 -arch=sm_90 -Werror all-warnings -Xcompiler -Wall,-Wextra,-Wshadow,-Wconversion" \
            "-Iinclude -c -o $tmp/everything.o $everything"
        printf '#include "acre/%s"\n' cpp/memory_resource.hpp cpp/thrust.hpp cpp/mdspan.hpp acre.hpp >"$tmp/cccl.cu"
        echo "$nvcc -std=c++20 -arch=sm_90 -Werror all-warnings -Xcompiler -Wall,-Wextra,-Wshadow,-Wconversion" \
            "-Iinclude -c -o $tmp/cccl.o $tmp/cccl.cu"
    fi
} >>"$commands"

# Every header is among those that cpp_everything.cpp includes.
g++ -std=c++17 -Iinclude -MM "$everything" | tr -s ' ' '\n' >"$tmp/included"
for header in "${headers[@]}"; do
    grep -F "$(basename "$header")" "$tmp/included" >/dev/null || {
        echo "$everything does not include $header"
        exit 1
    }
done

# An older language says what is needed.
if echo '#include "acre/acre.hpp"' | g++ -std=c++14 -x c++ -Iinclude -fsyntax-only - 2>"$tmp/old" ||
    ! grep -q "acre's C++ API needs C++17" "$tmp/old"; then
    echo "C++14: no message that C++17 is needed"
    exit 1
fi

echo "$(wc -l <"$commands") commands"
# shellcheck source-path=SCRIPTDIR/../..
. "$source/tests/support/beside.sh"
run() {
    "$@" || {
        echo "failed: $*"
        return 1
    }
}
while read -ra words; do
    beside run "${words[@]}"
done <"$commands"
beside_ends
