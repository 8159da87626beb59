#!/usr/bin/env bash
# The C++ programs that need a GPU: builds them with nvcc, runs them, and measures.
#
#   tests/gpu/cpp/cpp_programs.sh BUILD     BUILD is the folder of libacre.so; prints "passed P failed F skipped S"
#                                           as its last line
#
# The figures go to BUILD/cpp-figures.json and, if OUT names a folder, there too. ROUNDS and GIB shorten the
# measurement: see cpp_figures.cu.
set -uo pipefail
build=$(realpath "$1")
root=$(cd "$(dirname "$0")/../../.." && pwd)
cd "$root" || exit 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

# compile NAME SOURCE: builds a program in $work.
compile() {
    nvcc -O2 -std=c++17 -arch=native -Xcompiler -Wall,-Wextra -I include -o "$work/$1" "$2" -L "$build" -lacre \
        -lcuda -Xlinker -rpath="$build" >"$work/$1.log" 2>&1 || rm -f "$work/$1"
}

# built NAME: true if the program exists; else prints what nvcc said, and counts a failure.
built() {
    [ -x "$work/$1" ] && return
    echo "$1: nvcc failed"
    tail -n 20 "$work/$1.log"
    failed=$((failed + 1))
    return 1
}

# count NAME STATUS: counts one program.
count() {
    if [ "$2" -eq 0 ]; then
        passed=$((passed + 1))
    else
        echo "$1: exit code $2"
        failed=$((failed + 1))
    fi
}

compile thrust_on_acre tests/gpu/cpp/thrust_on_acre.cu &
compile from_rmm_thrust examples/cpp/from_rmm_thrust.cu &
compile cpp_figures tests/gpu/cpp/cpp_figures.cu &
wait

if built thrust_on_acre; then
    rc=0
    timeout 120 "$work/thrust_on_acre" >"$work/out" </dev/null || rc=$?
    grep -v '^passed ' "$work/out" # the last line of this script is the only one with counts
    # Each of its cases counts.
    read -r right wrong < <(sed -n 's/^passed \([0-9]*\) failed \([0-9]*\) skipped 0$/\1 \2/p' "$work/out")
    passed=$((passed + ${right:-0}))
    failed=$((failed + ${wrong:-0}))
    [ $rc -eq 0 ] || [ "${wrong:-0}" -gt 0 ] || count thrust_on_acre $rc
    memcheck=$(command -v compute-sanitizer)
    if [ -n "$memcheck" ]; then
        rc=0
        timeout 180 "$memcheck" --tool memcheck --report-api-errors no --error-exitcode 9 "$work/thrust_on_acre" \
            >"$work/memcheck" 2>&1 </dev/null || rc=$?
        [ $rc -eq 0 ] || tail -n 40 "$work/memcheck"
        count "thrust_on_acre under memcheck" $rc
    fi
fi

if built from_rmm_thrust; then
    rc=0
    timeout 60 "$work/from_rmm_thrust" </dev/null || rc=$?
    count from_rmm_thrust $rc
fi

if built cpp_figures; then
    rc=0
    file=$build/cpp-figures.json
    commit=${COMMIT:-$(git rev-parse --short HEAD 2>/dev/null || true)}
    COMMIT=$commit timeout 240 "$work/cpp_figures" \
        "${ROUNDS:-21}" "${GIB:-16}" >"$file" </dev/null || rc=$?
    cat "$file"
    [ $rc -ne 0 ] || python3 -m json.tool "$file" >/dev/null || rc=$?
    [ -z "${OUT:-}" ] || cp "$file" "$OUT/"
    count cpp_figures $rc
fi

echo "passed $passed failed $failed skipped 0"
