#!/usr/bin/env bash
# The C++ API adds nothing to the C calls but the check of the status: compares the compiled code of
# both (cpp_cost.cpp), for every compiler here and for aarch64 and x86-64. cpp_cost_count.py has the
# rule. Then checks that the comparison finds a pair that costs more.
set -euo pipefail

source=${ACRE_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${ACRE_BUILD:-$source/build}
if grep -q '^ACRE_SANITIZE:[A-Z]*=.' "$build/CMakeCache.txt"; then
    echo "skipped: this test compiles with its own flags; a plain build runs it"
    exit 77
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
pairs=(pool owner try plan)
tried=0

# compare OBJDUMP COMPILER ARG...: compiles and compares. Without the check of the stack, a branch at the end of
# every function, which some distributions' compilers (Ubuntu's) add by default.
compare() {
    local objdump=$1
    shift
    echo "== $*"
    "$@" -std=c++17 -O2 -fno-stack-protector -I"$source/include" -c -o "$tmp/cost.o" "$source/tests/cpp/cpp_cost.cpp"
    "$objdump" -dr --no-show-raw-insn "$tmp/cost.o" |
        python3 "$source/tests/cpp/cpp_cost_count.py" "${pairs[@]}"
    if "$objdump" -dr --no-show-raw-insn "$tmp/cost.o" |
        python3 "$source/tests/cpp/cpp_cost_count.py" slow >"$tmp/slow"; then
        echo "the comparison did not find the slow pair: $(cat "$tmp/slow")"
        exit 1
    fi
    tried=$((tried + 1))
}

for compiler in g++ clang++; do
    if command -v "$compiler" >/dev/null; then
        compare objdump "$compiler"
    fi
done
for other in x86_64-linux-gnu aarch64-linux-gnu; do
    if command -v "$other-g++" >/dev/null && command -v "$other-objdump" >/dev/null && [[ $other != "$(uname -m)"-* ]]; then
        compare "$other-objdump" "$other-g++"
        if command -v clang++ >/dev/null; then
            compare "$other-objdump" clang++ "--target=$other"
        fi
    fi
done
if [ "$tried" -eq 0 ]; then
    echo "skipped: no C++ compiler"
    exit 77
fi
