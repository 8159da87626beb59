#!/usr/bin/env bash
# run_example.sh PROGRAM: runs a program of examples/cuda on a soft device, as its user would, and
# compares what it prints with what was recorded in tests/data/cuda. It must exit with 0 and free
# everything.
set -euo pipefail

: "${ACRE_BUILD:?the build folder, set by ctest}"
: "${ACRE_SOURCE:?the source folder, set by ctest}"
program=$1
name=$(basename "$program")
recorded=$ACRE_SOURCE/tests/data/cuda/$name.txt
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

rc=0
"$ACRE_BUILD/acre" run --device soft --stats --leaks -- "$program" >"$tmp/out" 2>"$tmp/err" \
    </dev/null || rc=$?

fail() {
    echo "$name: $1"
    sed 's/^/  out: /' "$tmp/out" | tail -30
    sed 's/^/  err: /' "$tmp/err" | tail -30
    exit 1
}
[ "$rc" -eq 0 ] || fail "exit code $rc"
diff "$recorded" "$tmp/out" || fail "< recorded, > printed now"
grep -q "^acre: everything was freed$" "$tmp/err" || fail "something was not freed"
