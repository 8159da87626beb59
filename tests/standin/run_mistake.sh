#!/usr/bin/env bash
# run_mistake.sh PROGRAM: runs a program of examples/mistakes/cuda under `acre run` with all checks
# and compares its output and the report with tests/data/mistakes_cuda/<name>.txt. Addresses differ
# from run to run; streams have numbers. The program must return 0, and `acre run` 1. The last place
# of the report must be the line of the call that the report names.
set -euo pipefail

: "${ACRE_BUILD:?the build folder, set by ctest}"
: "${ACRE_SOURCE:?the source folder, set by ctest}"
program=$1
name=$(basename "$program")
source=$ACRE_SOURCE/examples/mistakes/cuda/$name.c
recorded=$ACRE_SOURCE/tests/data/mistakes_cuda/$name.txt
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

fail() {
    echo "$name: $1"
    sed 's/^/  /' "$tmp/out"
    exit 1
}

# A sanitizer's leak check of the race takes 18 s; other tests check the stand-ins for leaks.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"
rc=0
"$ACRE_BUILD/acre" run --leaks --errors --check -- "$program" >"$tmp/out" 2>&1 </dev/null || rc=$?
[ "$rc" -eq 1 ] || fail "exit code $rc, not 1"
sed -E 's/0x[0-9a-f]+/0x/g; s/(stream|step|chunk) [0-9]+/\1 N/g; s/  +/  /g' "$tmp/out" >"$tmp/same"
diff "$recorded" "$tmp/same" || fail "< recorded, > printed now"

# "... from cudaMalloc, called at name+0x11d8", or a row of a table that ends with the place.
last=$(grep -o "[a-zA-Z]*[, ]* *\(called at \)\?\(0x[0-9a-f]* *\)\?$name+0x[0-9a-f]*" "$tmp/out" | tail -n 1)
call=$(grep -o '^cuda[a-zA-Z]*' <<<"$last") || fail "no call in: $last"
if command -v addr2line >/dev/null; then
    line=$(addr2line -e "$program" "${last##*+}" | sed 's/.*:\([0-9]*\).*/\1/')
    sed -n "${line}p" "$source" | grep "$call" >/dev/null || fail "${last##*+} is line $line, without $call"
fi
