#!/usr/bin/env bash
# Checks that a model test can fail. The script plants bugs in a copy of the sources, one at a time,
# and links test_<what>_model with the copy. The model must find each bug within a few operations.
# test_<what>_plants.sh sets `what` and sources this file.
#
# Each tests/plants/<what>_*.patch changes one file of src. The script compiles only that file again.
# The linker takes its object before the library, so it replaces the original one.
set -euo pipefail
: "${what:?}"

source=${ACRE_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${ACRE_BUILD:-$source/build}
cache=$build/CMakeCache.txt
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
seeds=${seeds:-1} # tried in order
ops=100000

if grep -q '^ACRE_SANITIZE:[A-Z]*=.\|^ACRE_DEBUG:BOOL=\(ON\|1\|TRUE\)\|^ACRE_COVERAGE:BOOL=ON' "$cache"; then
    echo "skipped: the test compiles the model with its own flags; one build without sanitizers suffices"
    exit 77
fi
if ! command -v patch >/dev/null; then
    echo "skipped: patch is not installed"
    exit 77
fi
compiler=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$cache")
flags=(-std=gnu11 -O1 -g -pthread -D_GNU_SOURCE -DACRE_TEST_POINTS=1 -ftls-model=initial-exec)

# CMake's paths of cmocka, which the compiler may not search by default.
cmocka_include=$(sed -n 's/^ACRE_CMOCKA_INCLUDE:[A-Z]*=//p' "$cache")
cmocka_library=$(sed -n 's/^ACRE_CMOCKA_LIBRARY:[A-Z]*=//p' "$cache")

cp -r "$source/src" "$source/include" "$tmp"
"$compiler" "${flags[@]}" -I"$tmp/src" -I"$tmp/include" -I"$source/tests" -idirafter "$cmocka_include" -c \
    "$source/tests/model/test_${what}_model.c" -o "$tmp/model.o"
link() {
    "$compiler" "${flags[@]}" -o "$tmp/model" "$tmp/model.o" "$@" "$build/libacre_test.a" \
        "$cmocka_library"
}
# Runs the model with each seed; fails as soon as the model fails.
run() {
    local seed
    for seed in $seeds; do
        ACRE_TEST_SEED=$seed ACRE_TEST_OPS=$ops timeout 60 "$tmp/model" >"$tmp/output" 2>&1 || return
    done
}

# test_<what>_model finds nothing in the unchanged sources. A few operations show that this also holds
# for the build of this script.
rc=0
link
if ! seeds=1 ops=5000 run; then
    echo "plants: the model fails without a planted bug:"
    cat "$tmp/output"
    exit 1
fi
for plant in "$source"/tests/plants/"$what"_*.patch; do
    name=$(basename "$plant" .patch)
    file=$(sed -n 's|^+++ b/||p' "$plant")
    cp "$source/$file" "$tmp/$file"
    if ! patch -s -d "$tmp" -p1 <"$plant"; then
        echo "plants: $name no longer applies to the sources"
        exit 1
    fi
    "$compiler" "${flags[@]}" -I"$tmp/src" -I"$tmp/include" -c "$tmp/$file" -o "$tmp/planted.o"
    cp "$source/$file" "$tmp/$file"
    link "$tmp/planted.o"
    if run; then
        echo "plants: the model does not find $name"
        rc=1
    elif ! grep 'ACRE_TEST_SEED=[0-9]*: after' "$tmp/output" | sed "s/^/$name: /"; then
        echo "plants: $name ends the program without the model's report:"
        cat "$tmp/output"
        rc=1
    fi
done
exit $rc
