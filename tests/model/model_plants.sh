#!/usr/bin/env bash
# A model can fail: mistakes are put into a copy of the sources, and test_<what>_model, linked with
# what the copy makes, must find each of them within a few operations. Read by test_<what>_plants.sh,
# which sets `what`.
#
# tests/plants/<what>_*.patch each change one file of src. Only that file is compiled again; its
# object comes before the library that the other tests link, and takes the place of the one there.
set -euo pipefail
: "${what:?}"

source=${ACRE_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${ACRE_BUILD:-$source/build}
cache=$build/CMakeCache.txt
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
seeds=${seeds:-1} # tried one after the other
ops=100000

if grep -q '^ACRE_SANITIZE:[A-Z]*=.\|^ACRE_DEBUG:BOOL=\(ON\|1\|TRUE\)\|^ACRE_COVERAGE:BOOL=ON' "$cache"; then
    echo "plants: it compiles the model with flags of its own; one build without sanitizers is enough"
    exit 77
fi
if ! command -v patch >/dev/null; then
    echo "plants: patch is not installed"
    exit 77
fi
compiler=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$cache")
flags=(-std=gnu11 -O1 -g -pthread -D_GNU_SOURCE -DACRE_TEST_POINTS=1 -ftls-model=initial-exec)

# Where CMake has found cmocka, which need not be where the compiler looks by itself.
cmocka_include=$(sed -n 's/^ACRE_CMOCKA_INCLUDE:[A-Z]*=//p' "$cache")
cmocka_library=$(sed -n 's/^ACRE_CMOCKA_LIBRARY:[A-Z]*=//p' "$cache")

cp -r "$source/src" "$source/include" "$tmp"
"$compiler" "${flags[@]}" -I"$tmp/src" -I"$tmp/include" -I"$source/tests" -idirafter "$cmocka_include" -c \
    "$source/tests/model/test_${what}_model.c" -o "$tmp/model.o"
link() {
    "$compiler" "${flags[@]}" -o "$tmp/model" "$tmp/model.o" "$@" "$build/libacre_test.a" \
        "$cmocka_library"
}
# Fails as soon as the model does.
run() {
    local seed
    for seed in $seeds; do
        ACRE_TEST_SEED=$seed ACRE_TEST_OPS=$ops timeout 60 "$tmp/model" >"$tmp/output" 2>&1 || return
    done
}

# test_<what>_model shows that it finds nothing in the sources as they are; a few operations show that
# this holds for what is built here as well.
rc=0
link
if ! seeds=1 ops=5000 run; then
    echo "plants: the model fails without any:"
    cat "$tmp/output"
    exit 1
fi
for plant in "$source"/tests/plants/"$what"_*.patch; do
    name=$(basename "$plant" .patch)
    file=$(sed -n 's|^+++ b/||p' "$plant")
    cp "$source/$file" "$tmp/$file"
    if ! patch -s -d "$tmp" -p1 <"$plant"; then
        echo "plants: $name does not fit the sources any more"
        exit 1
    fi
    "$compiler" "${flags[@]}" -I"$tmp/src" -I"$tmp/include" -c "$tmp/$file" -o "$tmp/planted.o"
    cp "$source/$file" "$tmp/$file"
    link "$tmp/planted.o"
    if run; then
        echo "plants: $name is not found"
        rc=1
    elif ! grep 'ACRE_TEST_SEED=[0-9]*: after' "$tmp/output" | sed "s/^/$name: /"; then
        echo "plants: $name ends the program in another way:"
        cat "$tmp/output"
        rc=1
    fi
done
exit $rc
