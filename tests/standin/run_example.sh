#!/usr/bin/env bash
# run_example.sh PROGRAM: runs a program of examples/cuda on a soft device, as its user would, and
# compares its output with tests/data/cuda/<name>.txt. Lines that it must print on stderr, on soft
# devices only, are in <name>.err, if that file exists. The program must exit with 0 and free
# everything. It must order its memory accesses: a second run executes work in a random order from a
# seed and reports accesses that were ordered only by chance.
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

# run_it VARIABLE...: runs the program with these variables.
run_it() {
    local rc=0 line
    env "$@" "$ACRE_BUILD/acre" run --device soft --stats --leaks -- "$program" >"$tmp/out" \
        2>"$tmp/err" </dev/null || rc=$?
    [ "$rc" -eq 0 ] || fail "exit code $rc"
    diff "$recorded" "$tmp/out" || fail "< recorded, > printed now"
    grep -q '^acre: everything was freed$' "$tmp/err" || fail "the program leaks memory"
    if [ -f "$said" ]; then
        while read -r line; do
            grep -qF -- "$line" "$tmp/err" || fail "stderr does not have: $line"
        done <"$said"
    fi
    ! grep '^acre: wrong uses of memory' "$tmp/err" || fail "accesses to memory are not ordered"
}

run_it ACRE_SOFT_CHECK=yes
seed=${ACRE_TEST_SEED:-$RANDOM}
echo "$name: seed $seed"
run_it "ACRE_SOFT_SEED=$seed"
