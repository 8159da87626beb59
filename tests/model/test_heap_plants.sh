#!/usr/bin/env bash
# Checks that the heap's model test can fail. The script plants the bugs of tests/plants/heap_*.patch in a
# copy of the headers, one at a time. test_heap_model, compiled with the copy, must find each of them.
set -euo pipefail

source=${ACRE_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${ACRE_BUILD:-$source/build}
cache=$build/CMakeCache.txt
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

if grep -q '^ACRE_SANITIZE:[A-Z]*=.\|^ACRE_\(DEBUG\|COVERAGE\):BOOL=\(ON\|1\|TRUE\)' "$cache"; then
    echo "skipped: the test compiles the model with its own flags; one build without sanitizers suffices"
    exit 77
fi
if ! command -v patch >/dev/null; then
    echo "skipped: patch is not installed"
    exit 77
fi
compiler=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$cache")
flags=(-std=gnu11 -O0 -pthread -D_GNU_SOURCE -DACRE_TEST_POINTS=1 -DACRE_FEW_ROUNDS=1)
cmocka_include=$(sed -n 's/^ACRE_CMOCKA_INCLUDE:[A-Z]*=//p' "$cache")
cmocka_library=$(sed -n 's/^ACRE_CMOCKA_LIBRARY:[A-Z]*=//p' "$cache")

# Builds the model with the copied headers and runs it. The hardest bug to find shows with seed 174.
# Parts of the model that do not reach the planted bug run all 250 seeds.
run() {
    "$compiler" "${flags[@]}" -I"$tmp/include" -I"$source/src" -I"$source/tests" \
        -idirafter "$cmocka_include" -o "$tmp/model" "$source/tests/model/test_heap_model.c" \
        "$source/tests/model/schedule.c" "$build/libacre_test.a" "$cmocka_library"
    ACRE_TEST_SEEDS=250 timeout 100 "$tmp/model" >"$tmp/output" 2>&1
}

rc=0
for plant in "$source"/tests/plants/heap_*.patch; do
    name=$(basename "$plant" .patch)
    rm -rf "$tmp/include"
    cp -r "$source/include" "$tmp"
    if ! patch -s -d "$tmp" -p1 <"$plant"; then
        echo "plants: $name no longer applies to the sources"
        exit 1
    fi
    if run; then
        echo "plants: the model does not find $name"
        rc=1
    elif ! grep -m 1 'round [0-9]*: \|found with seed' "$tmp/output" | sed "s/^/$name: /"; then
        echo "plants: $name ends the program without the model's report:"
        cat "$tmp/output"
        rc=1
    fi
done
exit $rc
