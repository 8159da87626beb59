#!/usr/bin/env bash
# run_example.sh PROGRAM: runs a program of examples/cuda on a soft device, as its user would, and
# compares what it prints with what was recorded in tests/data/cuda/<name>.txt; what it must say on
# stderr, on soft devices alone, is in <name>.err, if there is such a file. It must exit with 0, free
# everything, and put its uses of memory in order: a second time everything runs in an order that is
# drawn from a seed, and uses that only luck has put in order are reported.
set -euo pipefail

: "${ACRE_BUILD:?the build folder, set by ctest}"
: "${ACRE_SOURCE:?the source folder, set by ctest}"
program=$1
name=$(basename "$program")
recorded=$ACRE_SOURCE/tests/data/cuda/$name.txt
said=$ACRE_SOURCE/tests/data/cuda/$name.err
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

fail() {
    echo "$name: $1"
    sed 's/^/  out: /' "$tmp/out" | tail -30
    sed 's/^/  err: /' "$tmp/err" | tail -30
    exit 1
}

# run_it VARIABLE...: with these in its environment.
run_it() {
    local rc=0 line
    env "$@" "$ACRE_BUILD/acre" run --device soft --stats --leaks -- "$program" >"$tmp/out" \
        2>"$tmp/err" </dev/null || rc=$?
    [ "$rc" -eq 0 ] || fail "exit code $rc"
    diff "$recorded" "$tmp/out" || fail "< recorded, > printed now"
    grep -q '^acre: everything was freed$' "$tmp/err" || fail "something was not freed"
    if [ -f "$said" ]; then
        while read -r line; do
            grep -qF -- "$line" "$tmp/err" || fail "it does not say on stderr: $line"
        done <"$said"
    fi
    ! grep '^acre: wrong uses of memory' "$tmp/err" || fail "uses of memory are not in order"
}

run_it ACRE_SOFT_CHECK=yes
seed=${ACRE_TEST_SEED:-$RANDOM}
echo "$name: seed $seed"
run_it "ACRE_SOFT_SEED=$seed"
